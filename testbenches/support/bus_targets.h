// Memories and buses as platforms have them: what the DMA initiator must be able to live with. Each class is one habit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include "host/dma_requester.h"
#include "host/host_memory.h"
#include "host/width_adapter.h"

namespace heddle::test {

using Payload = tlm::tlm_generic_payload;
// What an initiator's socket is bound to.
using Entry = tlm::tlm_base_target_socket_b<32, tlm::tlm_fw_transport_if<>, tlm::tlm_bw_transport_if<>>;

constexpr std::size_t kTargetBytes = std::size_t{4} << 20;

// All have bytes from address 0 on, which the test can look at.
class BusTarget : public sc_core::sc_module {
 public:
  explicit BusTarget(const sc_core::sc_module_name& name, std::size_t size = kTargetBytes)
      : sc_core::sc_module(name), bytes(size) {}

  virtual Entry& entry() = 0;
  virtual void read(std::uint64_t address, void* to, std::size_t count) {
    std::memcpy(to, bytes.data() + address, count);
  }
  virtual void write(std::uint64_t address, const void* from, std::size_t count) {
    std::memcpy(bytes.data() + address, from, count);
  }

  // Nothing has happened to it that must not.
  virtual bool intact() { return true; }

  std::vector<std::uint8_t> bytes;
  sc_core::sc_time latency = sc_core::sc_time(80, sc_core::SC_NS);
  std::uint64_t calls = 0;    // transactions
  std::uint64_t ignores = 0;  // of these: neither read nor write
  std::map<std::uint32_t, std::uint64_t> by_pasid;

 protected:
  void note(Payload& payload) {
    ++calls;
    if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) ++ignores;
    const auto* requester = payload.get_extension<host::DmaRequester>();
    ++by_pasid[requester == nullptr ? ~0U : requester->pasid];
  }
  // What a memory that has read the standard does.
  tlm::tlm_response_status move(Payload& payload, std::uint64_t address) {
    const std::uint32_t length = payload.get_data_length();
    if (address > bytes.size() || length > bytes.size() - address) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), bytes.data() + address, length);
    if (payload.is_write()) std::memcpy(bytes.data() + address, payload.get_data_ptr(), length);
    return tlm::TLM_OK_RESPONSE;
  }
  tlm::tlm_response_status move(Payload& payload) { return move(payload, payload.get_address()); }
};

// -- b_transport alone, behind a simple_target_socket -----------------------------------------------------------------

// Adds its latency to the delay, and does not wait.
class AnnotatingMemory : public BusTarget {
 public:
  explicit AnnotatingMemory(const sc_core::sc_module_name& name) : BusTarget(name), socket("socket") {
    socket.register_b_transport(this, &AnnotatingMemory::take);
  }
  Entry& entry() override { return socket; }

  unsigned look(Payload& payload) { return move(payload) == tlm::TLM_OK_RESPONSE ? payload.get_data_length() : 0; }
  virtual bool grant(Payload&, tlm::tlm_dmi&) { return false; }

  tlm_utils::simple_target_socket<AnnotatingMemory> socket;

 protected:
  virtual void serve(Payload& payload, sc_core::sc_time& delay) {
    payload.set_response_status(move(payload));
    delay += latency;
  }

 private:
  void take(Payload& payload, sc_core::sc_time& delay) {
    note(payload);
    serve(payload, delay);
  }
};

// The same, and lets debuggers look.
class DebuggableMemory : public AnnotatingMemory {
 public:
  explicit DebuggableMemory(const sc_core::sc_module_name& name) : AnnotatingMemory(name) {
    socket.register_transport_dbg(static_cast<AnnotatingMemory*>(this), &AnnotatingMemory::look);
  }
};

class WaitingMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    sc_core::wait(delay + latency);
    delay = sc_core::SC_ZERO_TIME;
    payload.set_response_status(move(payload));
  }
};

// Waits as if there were no delay, and leaves it to others.
class DeafMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time&) override {
    sc_core::wait(latency);
    payload.set_response_status(move(payload));
  }
};

// One at a time: the others wait in line.
class NarrowMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    lock_.lock();
    sc_core::wait(delay + latency);
    delay = sc_core::SC_ZERO_TIME;
    payload.set_response_status(move(payload));
    lock_.unlock();
  }

 private:
  sc_core::sc_mutex lock_;
};

// Cannot be called while it waits: it keeps what it works on in a member, and counts the calls that this spoils.
class FragileMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;
  std::uint64_t broken = 0;
  bool intact() override { return broken == 0; }

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    current_ = &payload;
    sc_core::wait(delay + latency);
    delay = sc_core::SC_ZERO_TIME;
    if (current_ != &payload) ++broken;
    payload.set_response_status(move(payload));
  }

 private:
  Payload* current_ = nullptr;
};

// Its own latency instead of the sum.
class ForgetfulMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    payload.set_response_status(move(payload));
    delay = latency;
  }
};

// Leaves the status as it finds it.
class SilentStatusMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    (void)move(payload);
    delay += latency;
  }
};

// -- What becomes of commands that are neither read nor write ---------------------------------------------------------

class AssertingMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    if (!payload.is_read() && !payload.is_write()) throw std::logic_error("a command that this memory does not have");
    AnnotatingMemory::serve(payload, delay);
  }
};

// What is no read is a write.
class MisreadingMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    std::uint8_t* here = bytes.data() + payload.get_address();
    if (payload.is_read()) {
      std::memcpy(payload.get_data_ptr(), here, payload.get_data_length());
    } else {
      std::memcpy(here, payload.get_data_ptr(), payload.get_data_length());
    }
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay += latency;
  }
};

class RefusingCommandMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
      payload.set_response_status(tlm::TLM_COMMAND_ERROR_RESPONSE);
      return;
    }
    AnnotatingMemory::serve(payload, delay);
  }
};

// -- Errors, and nothing at all ---------------------------------------------------------------------------------------

// Refuses [first, last) with a status.
class RefusingMemory : public AnnotatingMemory {
 public:
  RefusingMemory(const sc_core::sc_module_name& name, tlm::tlm_response_status status)
      : AnnotatingMemory(name), status_(status) {}
  std::uint64_t first = 0;
  std::uint64_t last = 0;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    AnnotatingMemory::serve(payload, delay);
    const std::uint64_t address = payload.get_address();
    if (address + payload.get_data_length() > first && address < last) payload.set_response_status(status_);
  }

 private:
  tlm::tlm_response_status status_;
};

// Does not come back from accesses to [first, last) before `let_go`.
class StuckMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  sc_core::sc_event let_go;  // those that are stuck come back
  std::uint32_t stuck = 0;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    const std::uint64_t address = payload.get_address();
    if (address + payload.get_data_length() > first && address < last) {
      ++stuck;
      sc_core::wait(let_go);
      --stuck;
    }
    AnnotatingMemory::serve(payload, delay);
  }
};

// -- Direct pointers --------------------------------------------------------------------------------------------------

// Grants pages of `page` bytes to whoever asks, and takes them back whenever it is told to.
class DirectMemory : public AnnotatingMemory {
 public:
  explicit DirectMemory(const sc_core::sc_module_name& name) : AnnotatingMemory(name) {
    socket.register_get_direct_mem_ptr(static_cast<AnnotatingMemory*>(this), &AnnotatingMemory::grant);
  }
  bool reads = true;
  bool writes = true;
  bool grants = true;  // else it only hints
  bool hints = true;
  std::uint64_t page = kTargetBytes;
  std::uint64_t asked = 0;

  // The bytes move to another place, and nobody may use the one before.
  void revoke() {
    std::vector<std::uint8_t> moved = bytes;
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xEE});
    before_.push_back(std::move(bytes));
    bytes = std::move(moved);
    socket->invalidate_direct_mem_ptr(0, kTargetBytes - 1);
  }
  // Nobody has written to places that were taken back.
  bool left_alone() const {
    return std::all_of(before_.begin(), before_.end(), [](const std::vector<std::uint8_t>& place) {
      return std::all_of(place.begin(), place.end(), [](std::uint8_t byte) { return byte == 0xEE; });
    });
  }
  bool grant(Payload& payload, tlm::tlm_dmi& dmi) override {
    ++asked;
    dmi.init();
    const std::uint64_t begin = payload.get_address() / page * page;
    dmi.set_start_address(begin);
    dmi.set_end_address(begin + page - 1);
    if (!grants) return false;
    dmi.set_dmi_ptr(bytes.data() + begin);
    dmi.set_granted_access(reads && writes ? tlm::tlm_dmi::DMI_ACCESS_READ_WRITE
                           : reads         ? tlm::tlm_dmi::DMI_ACCESS_READ
                                           : tlm::tlm_dmi::DMI_ACCESS_WRITE);
    dmi.set_read_latency(latency);
    dmi.set_write_latency(latency);
    return true;
  }

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    AnnotatingMemory::serve(payload, delay);
    payload.set_dmi_allowed(hints);
  }

 private:
  std::vector<std::vector<std::uint8_t>> before_;
};

// -- nb_transport, with all its phases --------------------------------------------------------------------------------

// What comes later, in the order of its times.
class Later : public sc_core::sc_module {
 public:
  explicit Later(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    SC_HAS_PROCESS(Later);
    SC_METHOD(run);
    sensitive << wake_;
    dont_initialize();
  }
  void in(const sc_core::sc_time& delay, std::function<void()> action) {
    todo_.emplace(sc_core::sc_time_stamp() + delay, std::move(action));
    arm();
  }

 private:
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

  sc_core::sc_event wake_;
  std::multimap<sc_core::sc_time, std::function<void()>> todo_;
};

class PhasedMemory : public BusTarget, private tlm::tlm_fw_transport_if<> {
 public:
  enum class Habit : std::uint8_t {
    accepts,       // END_REQ at once, BEGIN_RESP after the latency
    completes,     // TLM_COMPLETED with the latency as delay
    responds,      // BEGIN_RESP at once, with the latency as delay
    withholds,     // END_REQ only with BEGIN_RESP
    throttles,     // four inside; END_REQ of the next when one of them is over
    shuffles,      // out of order: each after another time
    promises,      // a status of OK with END_REQ, and the true one with BEGIN_RESP
    accepts_only,  // never answers
    takes_only,    // never even accepts
  };

  PhasedMemory(const sc_core::sc_module_name& name, Habit habit)
      : BusTarget(name), socket("socket"), later_("later"), habit_(habit) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  }
  Entry& entry() override { return socket; }

  tlm::tlm_target_socket<> socket;
  // The last two habits hold for these addresses.
  std::uint64_t first = 0;
  std::uint64_t last = ~std::uint64_t{0};
  bool blocks = true;               // what has no answer has none by b_transport either
  std::vector<Payload*> forgotten;  // what was never answered

  void answer_forgotten() {
    for (Payload* payload : forgotten) later_.in(latency, [this, payload] { finish(*payload); });
    forgotten.clear();
  }

 private:
  static constexpr std::uint32_t kPlaces = 4;

  bool concerned(Payload& payload) const {
    const std::uint64_t address = payload.get_address();
    return address + payload.get_data_length() > first && address < last;
  }
  tlm::tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override {
    if (phase != tlm::BEGIN_REQ) return tlm::TLM_COMPLETED;
    note(payload);
    payload.acquire();
    const bool odd = concerned(payload);
    switch (habit_) {
      case Habit::completes:
        payload.set_response_status(move(payload));
        payload.release();
        delay += latency;
        return tlm::TLM_COMPLETED;
      case Habit::responds:
        payload.set_response_status(move(payload));
        phase = tlm::BEGIN_RESP;
        delay += latency;
        later_.in(sc_core::sc_time(1, sc_core::SC_US), [&payload] { payload.release(); });
        return tlm::TLM_UPDATED;
      case Habit::withholds:
        later_.in(delay + latency, [this, &payload] { finish(payload); });
        return tlm::TLM_ACCEPTED;
      case Habit::throttles:
        later_.in(delay + latency, [this, &payload] { finish(payload); });
        if (++inside_ < kPlaces) {
          phase = tlm::END_REQ;
          return tlm::TLM_UPDATED;
        }
        waiting_ = &payload;
        return tlm::TLM_ACCEPTED;
      case Habit::shuffles:
        ++turn_;
        later_.in(delay + latency * (turn_ % 4 + 1), [this, &payload] { finish(payload); });
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
      case Habit::promises:
        payload.set_response_status(tlm::TLM_OK_RESPONSE);
        break;
      case Habit::accepts_only:
      case Habit::takes_only:
        if (!odd) break;
        forgotten.push_back(&payload);
        if (habit_ == Habit::takes_only) return tlm::TLM_ACCEPTED;
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
      case Habit::accepts:
        break;
    }
    later_.in(delay + latency, [this, &payload] { finish(payload); });
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
  }
  void finish(Payload& payload) {
    payload.set_response_status(habit_ == Habit::promises && concerned(payload) ? tlm::TLM_GENERIC_ERROR_RESPONSE
                                                                                : move(payload));
    if (habit_ == Habit::throttles) {
      --inside_;
      if (waiting_ != nullptr && waiting_ != &payload) {
        tlm::tlm_phase phase = tlm::END_REQ;
        sc_core::sc_time delay;
        Payload& accepted = *waiting_;
        waiting_ = nullptr;
        socket->nb_transport_bw(accepted, phase, delay);
      }
      if (waiting_ == &payload) waiting_ = nullptr;
    }
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay;
    socket->nb_transport_bw(payload, phase, delay);
    payload.release();
  }
  void b_transport(Payload& payload, sc_core::sc_time& delay) override {
    note(payload);
    const bool odd = concerned(payload);
    const bool mute = habit_ == Habit::accepts_only || habit_ == Habit::takes_only;
    if (mute && odd && blocks) sc_core::wait(never_);
    payload.set_response_status(habit_ == Habit::promises && odd ? tlm::TLM_GENERIC_ERROR_RESPONSE : move(payload));
    delay += latency;
  }
  bool get_direct_mem_ptr(Payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(Payload& payload) override {
    return !concerned(payload) && move(payload) == tlm::TLM_OK_RESPONSE ? payload.get_data_length() : 0;
  }

  Later later_;
  Habit habit_;
  std::uint32_t inside_ = 0;
  Payload* waiting_ = nullptr;
  std::uint32_t turn_ = 0;
  sc_core::sc_event never_;
};

// One of the three that never answer for some addresses: from b_transport, after END_REQ, and without END_REQ.
class SilentTarget {
 public:
  static constexpr int kKinds = 3;

  SilentTarget(int kind, std::uint64_t first, std::uint64_t last) {
    if (kind == 0) stuck_ = std::make_unique<StuckMemory>("target");
    if (kind == 1) phased_ = std::make_unique<PhasedMemory>("target", PhasedMemory::Habit::accepts_only);
    if (kind == 2) phased_ = std::make_unique<PhasedMemory>("target", PhasedMemory::Habit::takes_only);
    keep_silent(first, last);
  }
  BusTarget& target() { return stuck_ ? static_cast<BusTarget&>(*stuck_) : *phased_; }
  // For these addresses from now on; 0, 0: it answers everything.
  void keep_silent(std::uint64_t first, std::uint64_t last) {
    (stuck_ ? stuck_->first : phased_->first) = first;
    (stuck_ ? stuck_->last : phased_->last) = last;
  }
  // What it has not answered.
  void answer() {
    if (stuck_) stuck_->let_go.notify();
    if (phased_) phased_->answer_forgotten();
  }

 private:
  std::unique_ptr<StuckMemory> stuck_;
  std::unique_ptr<PhasedMemory> phased_;
};

// -- Buses between the device and a memory ----------------------------------------------------------------------------

// One b_transport at a time from each of its masters, who wait for each other. Addresses count from `base` on: what it
// passes on has another one.
class SharedBus : public BusTarget {
 public:
  explicit SharedBus(const sc_core::sc_module_name& name)
      : BusTarget(name), one_("one"), two_("two"), socket("socket") {
    one_.register_b_transport(this, &SharedBus::take);
    one_.register_transport_dbg(this, &SharedBus::look);
    two_.register_b_transport(this, &SharedBus::take);
    two_.register_transport_dbg(this, &SharedBus::look);
  }
  Entry& entry() override { return one_; }
  Entry& other_master() { return two_; }

  std::uint64_t base = 0;
  sc_core::sc_time occupancy = sc_core::SC_ZERO_TIME;  // of the bus by a transaction

 private:
  void take(Payload& payload, sc_core::sc_time& delay) {
    note(payload);
    payload.set_address(payload.get_address() - base);
    if (occupancy > sc_core::SC_ZERO_TIME) {
      lock_.lock();
      sc_core::wait(delay + occupancy);
      delay = sc_core::SC_ZERO_TIME;
      lock_.unlock();
    }
    socket->b_transport(payload, delay);
  }
  unsigned look(Payload& payload) {
    payload.set_address(payload.get_address() - base);
    return socket->transport_dbg(payload);
  }

  tlm_utils::simple_target_socket<SharedBus> one_;
  tlm_utils::simple_target_socket_optional<SharedBus> two_;

 public:
  tlm_utils::simple_initiator_socket<SharedBus> socket;

 private:
  sc_core::sc_mutex lock_;
};

// A memory behind a bus that moves every address.
class MappedMemory : public BusTarget {
 public:
  explicit MappedMemory(const sc_core::sc_module_name& name) : BusTarget(name, 0), memory_("memory"), bus_("bus") {
    bus_.socket.bind(memory_.socket);
  }
  Entry& entry() override { return bus_.entry(); }
  SharedBus& bus() { return bus_; }
  // The bus's first address.
  void set_base(std::uint64_t base) { bus_.base = base; }
  void read(std::uint64_t address, void* to, std::size_t count) override {
    memory_.read(address - bus_.base, to, count);
  }
  void write(std::uint64_t address, const void* from, std::size_t count) override {
    memory_.write(address - bus_.base, from, count);
  }

 private:
  DebuggableMemory memory_;
  SharedBus bus_;
};

// A memory behind a bus with a second master, who adds one to a word of his own again and again.
class SharedMemory : public BusTarget {
 public:
  explicit SharedMemory(const sc_core::sc_module_name& name)
      : BusTarget(name, 0), memory_("memory"), bus_("bus"), master_("master") {
    bus_.socket.bind(memory_.socket);
    master_.bind(bus_.other_master());
    bus_.occupancy = sc_core::sc_time(1, sc_core::SC_NS);
    SC_HAS_PROCESS(SharedMemory);
    SC_THREAD(run);
  }
  Entry& entry() override { return bus_.entry(); }
  void read(std::uint64_t address, void* to, std::size_t count) override { memory_.read(address, to, count); }
  void write(std::uint64_t address, const void* from, std::size_t count) override {
    memory_.write(address, from, count);
  }

  // None of its own additions is lost.
  bool intact() override {
    std::uint64_t word = 0;
    read(kWord, &word, 8);
    return rounds_ > 100 && (word == rounds_ || word == rounds_ + 1);
  }

 private:
  void run() {
    std::uint64_t word = 0;
    for (; rounds_ < 2000; ++rounds_) {
      for (const tlm::tlm_command command : {tlm::TLM_READ_COMMAND, tlm::TLM_WRITE_COMMAND}) {
        Payload payload;
        payload.set_command(command);
        payload.set_address(kWord);
        payload.set_data_ptr(reinterpret_cast<unsigned char*>(&word));
        payload.set_data_length(8);
        payload.set_streaming_width(8);
        sc_core::sc_time delay;
        master_->b_transport(payload, delay);
        sc_core::wait(delay);
        if (command == tlm::TLM_READ_COMMAND) ++word;
      }
    }
  }

  static constexpr std::uint64_t kWord = kTargetBytes - 64;

  std::uint64_t rounds_ = 0;
  DebuggableMemory memory_;
  SharedBus bus_;
  tlm_utils::simple_initiator_socket<SharedMemory> master_;
};

// Makes beats of 32 bytes of what comes in, each a transaction of its own for the memory behind.
class SplittingMemory : public AnnotatingMemory {
 public:
  using AnnotatingMemory::AnnotatingMemory;
  static constexpr std::uint32_t kBeat = 32;

 protected:
  void serve(Payload& payload, sc_core::sc_time& delay) override {
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
    for (std::uint32_t done = 0; done < payload.get_data_length(); done += kBeat) {
      Payload beat;
      beat.set_command(payload.get_command());
      beat.set_address(payload.get_address() + done);
      beat.set_data_ptr(payload.get_data_ptr() + done);
      beat.set_data_length(std::min(kBeat, payload.get_data_length() - done));
      beat.set_streaming_width(beat.get_data_length());
      if (const auto beat_status = move(beat); beat_status != tlm::TLM_OK_RESPONSE) status = beat_status;
    }
    sc_core::wait(delay + latency);
    delay = sc_core::SC_ZERO_TIME;
    payload.set_response_status(status);
  }
};

// Of another bus width, behind an adapter.
template <unsigned kWidth>
class WideMemory : public BusTarget {
 public:
  explicit WideMemory(const sc_core::sc_module_name& name) : BusTarget(name), adapter_("adapter"), socket_("socket") {
    socket_.register_b_transport(this, &WideMemory::take);
    adapter_.out.bind(socket_);
  }
  Entry& entry() override { return adapter_.in; }

 private:
  void take(Payload& payload, sc_core::sc_time& delay) {
    note(payload);
    payload.set_response_status(move(payload));
    delay += latency;
  }

  host::WidthAdapter<32, kWidth> adapter_;
  tlm_utils::simple_target_socket<WideMemory, kWidth> socket_;
};

// The project's own.
class OwnMemory : public BusTarget {
 public:
  explicit OwnMemory(const sc_core::sc_module_name& name)
      : BusTarget(name, 0), memory_("memory", kTargetBytes, latency, 1) {}
  Entry& entry() override { return memory_.port(0); }
  void read(std::uint64_t address, void* to, std::size_t count) override { (void)memory_.read(address, to, count); }
  void write(std::uint64_t address, const void* from, std::size_t count) override {
    (void)memory_.write(address, from, count);
  }

 private:
  host::HostMemory memory_;
};

}  // namespace heddle::test
