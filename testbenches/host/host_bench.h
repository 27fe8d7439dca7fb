// A host's bus for tests of the DMA boundary: it answers in every form that the base protocol allows, in any order, and
// checks what it is given.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>
#include <systemc>
#include <tlm>

#include "arch/memory_op.h"
#include "protocol/memory_request.h"
#include "support/random.h"

namespace heddle::test {

class RoughHost : public sc_core::sc_module, private tlm::tlm_fw_transport_if<> {
 public:
  enum class Atomics : std::uint8_t { knows, ignores, refuses };

  RoughHost(const sc_core::sc_module_name& name, std::size_t size, std::uint64_t seed, Atomics atomics)
      : sc_core::sc_module(name), socket("socket"), bytes(size), dice(seed), atomics_(atomics) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    SC_HAS_PROCESS(RoughHost);
    SC_METHOD(run);
    sensitive << wake_;
    dont_initialize();
  }

  tlm::tlm_target_socket<> socket;
  std::vector<std::uint8_t> bytes;
  Random dice;
  bool waits = true;                // b_transport may wait
  std::uint32_t longest = 400;      // ns that anything takes
  std::set<std::uint64_t> refused;  // lines
  std::uint64_t probes = 0;         // atomics that were offered
  std::uint64_t asked = 0;          // questions about them
  std::uint64_t requests = 0;
  std::array<std::uint64_t, 6> forms{};
  std::size_t open() const { return open_.size(); }
  std::uint64_t known = ~std::uint64_t{0};      // from here on atomics are ignored
  bool moves = false;                           // the address is another one in the response
  bool silent = false;                          // nothing is answered any more
  std::vector<tlm::tlm_generic_payload*> kept;  // what it had then

  // Answers what it had kept back.
  void answer_kept() {
    silent = false;
    for (tlm::tlm_generic_payload* payload : kept) later(time(), [this, payload] { finish(*payload); });
    kept.clear();
  }

 private:
  sc_core::sc_time time() { return sc_core::sc_time(dice.below(longest + 1), sc_core::SC_NS); }
  void later(const sc_core::sc_time& delay, std::function<void()> action) {
    todo_.emplace(sc_core::sc_time_stamp() + delay, std::move(action));
    arm();
  }
  void arm() {
    if (todo_.empty()) return;
    wake_.cancel();
    wake_.notify(todo_.begin()->first - sc_core::sc_time_stamp());
  }
  void run() {
    while (!todo_.empty() && todo_.begin()->first <= sc_core::sc_time_stamp()) {
      const std::function<void()> action = std::move(todo_.begin()->second);
      todo_.erase(todo_.begin());
      action();
    }
    arm();
  }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_RESP) {
      REQUIRE(ending_ == &payload);
      ending_ = nullptr;
      payload.release();
      return tlm::TLM_COMPLETED;
    }
    REQUIRE(phase == tlm::BEGIN_REQ);
    REQUIRE(requesting_ == nullptr);  // END_REQ of the one before was given
    REQUIRE(payload.has_mm());
    REQUIRE(payload.get_ref_count() > 0);
    check(payload);
    payload.acquire();
    REQUIRE(open_.insert(&payload).second);
    ++requests;
    if (silent) {
      kept.push_back(&payload);
      phase = tlm::END_REQ;
      return tlm::TLM_UPDATED;
    }
    const std::uint32_t form = dice.below(forms.size());
    ++forms[form];
    delay += time();
    switch (form) {
      case 0:
        perform(payload);
        open_.erase(&payload);
        payload.release();
        return tlm::TLM_COMPLETED;
      case 1:
        later(delay + time(), [this, &payload] { finish(payload); });
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
      case 2: {
        requesting_ = &payload;
        const sc_core::sc_time accepted = delay + time();
        later(accepted, [this, &payload] { accept(payload); });
        later(accepted + time() + sc_core::sc_time(1, sc_core::SC_NS), [this, &payload] { finish(payload); });
        return tlm::TLM_ACCEPTED;
      }
      case 3:
        perform(payload);
        open_.erase(&payload);
        ending_ = &payload;
        phase = tlm::BEGIN_RESP;
        return tlm::TLM_UPDATED;
      case 4:
        requesting_ = &payload;
        later(delay, [this, &payload] { finish(payload); });
        return tlm::TLM_ACCEPTED;
      default:
        requesting_ = &payload;
        finish(payload, delay);
        return tlm::TLM_ACCEPTED;
    }
  }
  void accept(tlm::tlm_generic_payload& payload) {
    if (requesting_ != &payload) return;
    requesting_ = nullptr;
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay = time();
    socket->nb_transport_bw(payload, phase, delay);
  }
  void finish(tlm::tlm_generic_payload& payload, sc_core::sc_time delay = sc_core::SC_ZERO_TIME) {
    if (silent) {
      kept.push_back(&payload);
      return;
    }
    perform(payload);
    if (requesting_ == &payload) requesting_ = nullptr;
    open_.erase(&payload);
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    const tlm::tlm_sync_enum status = socket->nb_transport_bw(payload, phase, delay);
    REQUIRE(status == tlm::TLM_COMPLETED);
    payload.release();
  }

  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override {
    check(payload);
    ++requests;
    open_.insert(&payload);
    if (waits && dice.chance(50)) {
      sc_core::wait(delay + time());
      delay = sc_core::SC_ZERO_TIME;
    }
    perform(payload);
    delay += time();
    open_.erase(&payload);
  }
  // No pointers; but who knows atomics says so.
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi&) override {
    protocol::MemoryExtension* extension = payload.get_extension<protocol::MemoryExtension>();
    if (extension == nullptr) return false;
    ++asked;
    REQUIRE(extension->action == protocol::MemoryAction::atomic);
    extension->carried_out = knows(payload.get_address());
    return false;
  }
  unsigned int transport_dbg(tlm::tlm_generic_payload& payload) override {
    if (payload.get_address() + payload.get_data_length() > bytes.size()) return 0;
    move(payload, payload.get_address());
    return payload.get_data_length();
  }

  bool knows(std::uint64_t address) const {
    return atomics_ == Atomics::knows && (address < known || address >= bytes.size());
  }
  // Base protocol: complete and correct in every field.
  void check(tlm::tlm_generic_payload& payload) {
    REQUIRE(payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE);
    REQUIRE(payload.get_data_ptr() != nullptr);
    REQUIRE((payload.get_data_length() > 0 || payload.get_command() == tlm::TLM_IGNORE_COMMAND));
    REQUIRE(payload.get_data_length() <= 128);
    REQUIRE(payload.get_streaming_width() == payload.get_data_length());
    REQUIRE(payload.get_byte_enable_ptr() == nullptr);
    REQUIRE(payload.get_byte_enable_length() == 0);
    REQUIRE_FALSE(payload.is_dmi_allowed());
    const protocol::MemoryExtension* extension = payload.get_extension<protocol::MemoryExtension>();
    REQUIRE((extension != nullptr) == (payload.get_command() == tlm::TLM_IGNORE_COMMAND));
    if (extension == nullptr) return;
    ++probes;
    REQUIRE(extension->action == protocol::MemoryAction::atomic);
    REQUIRE(extension->lanes == 1);
    REQUIRE_FALSE(extension->carried_out);
  }
  void perform(tlm::tlm_generic_payload& payload) {
    const std::uint64_t address = payload.get_address();
    const std::uint32_t length = payload.get_data_length();
    if (moves) payload.set_address(address ^ 0x40);
    protocol::MemoryExtension* extension = payload.get_extension<protocol::MemoryExtension>();
    if (extension != nullptr && !knows(address)) {
      payload.set_response_status(atomics_ == Atomics::refuses ? tlm::TLM_COMMAND_ERROR_RESPONSE
                                                               : tlm::TLM_OK_RESPONSE);
      return;
    }
    if (address + length > bytes.size() || refused.count(address / 128) != 0) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    if (extension == nullptr) {
      move(payload, address);
      return;
    }
    extension->carried_out = true;
    protocol::AtomicLane& lane = extension->lane[0];
    REQUIRE(address % 128 == lane.offset);
    const std::uint32_t size = arch::bytes_of(extension->type);
    std::uint64_t old = 0;
    std::memcpy(&old, &bytes[address], size);
    const std::uint64_t value =
        arch::atomic_result(extension->atomic, extension->type, old, lane.operand, lane.compare);
    std::memcpy(&bytes[address], &value, size);
    lane.old = old;
  }
  void move(tlm::tlm_generic_payload& payload, std::uint64_t address) {
    std::uint8_t* here = &bytes[address];
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), here, payload.get_data_length());
    if (payload.is_write()) std::memcpy(here, payload.get_data_ptr(), payload.get_data_length());
  }

  Atomics atomics_;
  sc_core::sc_event wake_;
  std::multimap<sc_core::sc_time, std::function<void()>> todo_;
  std::set<tlm::tlm_generic_payload*> open_;
  tlm::tlm_generic_payload* requesting_ = nullptr;  // whose END_REQ it owes
  tlm::tlm_generic_payload* ending_ = nullptr;      // whose END_RESP it awaits
};

// What to do to a memory, and what must come back; addresses count from the start of the memory.
struct MemoryStep {
  protocol::MemoryAction action = protocol::MemoryAction::plain;
  bool write = false;
  std::uint64_t address = 0;
  std::uint32_t bytes = 1;
  std::array<std::uint8_t, 128> data{};
  std::vector<std::uint8_t> enables;
  arch::AtomicKind atomic = arch::AtomicKind::add;
  std::uint32_t value_bytes = 4;
  std::vector<protocol::AtomicLane> lanes;
  std::array<std::uint8_t, 128> read{};
  std::vector<std::uint64_t> old;

  MemoryStep() = default;
  MemoryStep(Random& dice, std::uint64_t first_line, std::uint32_t lines) {
    address = (first_line + dice.below(lines)) * 128;
    if (dice.chance(25)) {
      action = dice.chance(70) ? protocol::MemoryAction::atomic : protocol::MemoryAction::reduce;
      value_bytes = dice.chance(50) ? 4 : 8;
      atomic = std::array{arch::AtomicKind::add, arch::AtomicKind::exchange,
                          arch::AtomicKind::compare_exchange}[dice.below(3)];
      const std::uint64_t mask = value_bytes == 4 ? 0xFFFF'FFFF : ~std::uint64_t{0};
      for (std::uint32_t i = dice.chance(80) ? 1 : dice.between(2, 4); i-- > 0;) {
        const std::uint32_t offset = dice.below(128 / value_bytes) * value_bytes;
        lanes.push_back({dice.next() & mask, dice.chance(50) ? 0 : dice.next() & mask, 0,
                         static_cast<std::uint8_t>(offset), static_cast<std::uint8_t>(i)});
      }
      return;
    }
    write = dice.chance(50);
    const std::uint32_t offset = dice.below(128);
    address += offset;
    bytes = dice.chance(30) ? 128 - offset : dice.between(1, 128 - offset);
    for (auto& byte : data) byte = static_cast<std::uint8_t>(dice.next());
    if (dice.chance(25)) {
      for (std::uint32_t i = 0; i < bytes; ++i) enables.push_back(dice.chance(60) ? 0xFF : 0);
    }
  }

  bool enabled(std::uint32_t i) const { return enables.empty() || enables[i] != 0; }
  protocol::MemoryRequest& request(protocol::RequestPool& pool, std::uint64_t base) const {
    protocol::MemoryRequest& result = pool.acquire();
    const bool plain = action == protocol::MemoryAction::plain;
    result.aim(!plain  ? tlm::TLM_IGNORE_COMMAND
               : write ? tlm::TLM_WRITE_COMMAND
                       : tlm::TLM_READ_COMMAND,
               base + address, bytes);
    result.data = data;
    result.extension.action = action;
    if (!enables.empty()) std::copy(enables.begin(), enables.end(), result.use_enables());
    result.extension.atomic = atomic;
    result.extension.type = value_bytes == 4 ? arch::ValueType::u32 : arch::ValueType::u64;
    result.extension.lanes = static_cast<std::uint8_t>(lanes.size());
    std::copy(lanes.begin(), lanes.end(), result.extension.lane.begin());
    return result;
  }
  void apply(std::vector<std::uint8_t>& flat) {
    read = data;
    if (action == protocol::MemoryAction::plain) {
      for (std::uint32_t i = 0; i < bytes; ++i) {
        if (!enabled(i)) continue;
        if (write) flat[address + i] = data[i];
        if (!write) read[i] = flat[address + i];
      }
    }
    for (const protocol::AtomicLane& lane : lanes) {
      std::uint64_t value = 0;
      std::memcpy(&value, &flat[address + lane.offset], value_bytes);
      old.push_back(value);
      if (atomic == arch::AtomicKind::add) value += lane.operand;
      if (atomic == arch::AtomicKind::exchange) value = lane.operand;
      if (atomic == arch::AtomicKind::compare_exchange && value == lane.compare) value = lane.operand;
      std::memcpy(&flat[address + lane.offset], &value, value_bytes);
    }
  }
  void check(const protocol::MemoryRequest& request) const {
    REQUIRE(request.get_response_status() == tlm::TLM_OK_RESPONSE);
    if (action == protocol::MemoryAction::plain && !write) REQUIRE(request.data == read);
    if (action != protocol::MemoryAction::atomic) return;
    for (std::size_t i = 0; i < old.size(); ++i) REQUIRE(request.extension.lane[i].old == old[i]);
  }
};

}  // namespace heddle::test
