// Neighbours of a unit: SMs that ask, give and take bytes of shared memory, and a memory that answers as it is told.
// Multicast is duplicated by the memory, as the crossbar does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/tensor_data.h"
#include "arch/tensor_descriptor.h"
#include "common/bits.h"
#include "common/line_source.h"
#include "common/packet_socket.h"
#include "support/random.h"
#include "support/sim_fixture.h"
#include "tmau/box_oracle.h"
#include "tmau/tmau.h"

namespace heddle::test {

using arch::BulkKind;
using arch::BulkRequest;
using arch::TensorRule;
using protocol::BulkDonePacket;
using protocol::MemoryAction;
using protocol::MemoryRequest;
using tmau::Tmau;
using tmau::TmauParams;
using DoneKind = protocol::BulkDonePacket::Kind;

constexpr std::uint32_t kWindow = 32 * 1024;  // bytes of each CTA
constexpr std::uint32_t kWindows = 2;         // CTAs of each SM

// The CTA of rank r of every CGA is on SM r % sms, in window r / sms.
class TmauSm : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  struct Done {
    Cycle cycle = 0;
    BulkDonePacket packet;
  };
  struct Data {
    Cycle cycle = 0;
    std::uint32_t shared = 0;
    std::uint32_t bytes = 0;
  };

  TmauSm(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t bit, std::uint32_t sms,
         std::vector<std::unique_ptr<TmauSm>>& all, Cycle way, std::uint32_t queue)
      : sc_core::sc_module(name),
        bulk_out("bulk_out", domain, way, queue),
        done_in("done_in", domain, 0),
        data_in("data_in", domain, 0),
        read_in("read_in", domain, 0),
        read_out("read_out", domain, 1, kUnlimitedCredits),
        windows(kWindows, Bytes(kWindow)),
        domain_(domain),
        bit_(bit),
        sms_(sms),
        all_(all) {
    done_in.on_packet<TmauSm, &TmauSm::on_done>(*this);
    data_in.on_packet_ahead<TmauSm, &TmauSm::on_data>(*this);
    read_in.on_packet<TmauSm, &TmauSm::on_read>(*this);
    bulk_out.on_credit<TmauSm, &TmauSm::on_credit>(*this);
    domain.add_resettable(*this);
  }

  PacketOut<protocol::BulkRequestPacket> bulk_out;
  PacketIn<BulkDonePacket> done_in;
  PacketIn<protocol::BulkDataPacket> data_in;
  PacketIn<protocol::BulkReadPacket> read_in;
  PacketOut<protocol::BulkReadPacket> read_out;

  std::vector<Bytes> windows;
  std::vector<Done> done;
  std::vector<Data> data;
  std::vector<protocol::BulkTarget> targets;             // of pieces that came, or were given
  std::vector<Cycle> sent;                               // of requests: when they left
  std::map<std::uint32_t, std::uint64_t> barrier;        // bytes, by offset + window << 24
  std::function<Cycle()> read_cycles;                    // of shared memory, none: 5
  std::function<bool(const protocol::BulkTarget&)> bad;  // its bytes are poisoned
  std::uint64_t poisoned = 0;                            // pieces that came so
  std::uint64_t given = 0;                               // pieces for stores
  std::uint64_t lots = 0;                                // packets of lines without payloads

  void send(Cycle cycle, const protocol::BulkRequestPacket& packet) {
    script_.push_back(packet);
    domain_.schedule(std::max(cycle, domain_.now()), *this, kSend, script_.size() - 1);
  }
  std::size_t waiting() const { return queued_.size(); }

 private:
  static constexpr std::uint32_t kSend = 0;
  static constexpr std::uint32_t kGive = 1;
  static constexpr std::uint32_t kArrive = 2;
  struct Coming {
    MemoryRequest* request = nullptr;  // null: a line without a payload
    protocol::BulkTarget target;
    std::array<std::uint8_t, arch::kLineBytes> bytes{};  // of that
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kSend) {
      queued_.push_back(script_[argument]);
      return on_credit(0);
    }
    if (kind == kArrive) return arrive(coming_[argument]);
    give(reads_[argument]);
  }
  void on_credit(std::uint32_t) {
    while (!queued_.empty() && bulk_out.can_send()) {
      sent.push_back(domain_.now());
      bulk_out.send(queued_.front());
      queued_.pop_front();
    }
  }
  void on_done(const BulkDonePacket& packet, std::uint32_t) { done.push_back({domain_.now(), packet}); }

  // What came without payloads arrives line by line all the same.
  void on_data(const protocol::BulkDataPacket& packet, std::uint32_t, Cycle arrival) {
    REQUIRE(packet.sm == bit_);
    if (packet.lines == nullptr) {
      coming_.push_back({packet.request, packet.request->extension.bulk.get(), {}});
      return domain_.schedule(arrival, *this, kArrive, coming_.size() - 1);
    }
    const protocol::BulkLines& lines = *packet.lines;
    REQUIRE((lines.count > 0 && lines.count <= protocol::BulkLines::kMost));
    Cycle last = 0;
    for (std::uint32_t i = 0; i < lines.count; ++i) {
      const Cycle when = arrival - (lines.last - lines.arrivals[i]);
      REQUIRE(when >= domain_.now());
      last = std::max(last, lines.arrivals[i]);
      coming_.push_back({nullptr, lines.target, lines.bytes[i]});
      coming_.back().target.piece = lines.pieces[i];
      domain_.schedule(when, *this, kArrive, coming_.size() - 1);
    }
    REQUIRE(last == lines.last);
    lots += 1;
  }
  void arrive(const Coming& coming) {
    const protocol::BulkTarget& target = coming.target;
    data.push_back({domain_.now(), target.piece.shared, target.piece.bytes});
    targets.push_back(target);
    std::uint32_t receivers = 0;
    if (target.by_rank) {
      for (std::uint32_t rank = 0; rank < arch::kMulticastCtas; ++rank) {
        if ((target.ctas >> rank & 1) == 0 || rank % sms_ != bit_) continue;
        take(coming, rank / sms_);
        ++receivers;
      }
    } else {
      take(coming, target.cta_slot);
      ++receivers;
    }
    REQUIRE(receivers > 0);
    if (coming.request == nullptr) return;
    if (coming.request->extension.poisoned) ++poisoned;
    coming.request->release();
  }
  void take(const Coming& coming, std::uint32_t window) {
    const protocol::BulkTarget& target = coming.target;
    const arch::TensorPiece& piece = target.piece;
    std::array<std::uint8_t, arch::kLineBytes> bytes{};
    REQUIRE(piece.group == 0);
    if (piece.inside.any()) {
      const std::uint32_t first = piece.inside.lowest();
      const std::uint32_t length = piece.inside.highest() - first + 1;
      if (coming.request != nullptr) {
        REQUIRE(coming.request->get_address() == piece.address + first);
        REQUIRE(coming.request->get_data_length() == length);
      }
      const std::uint8_t* from = coming.request != nullptr ? coming.request->get_data_ptr() : coming.bytes.data();
      std::memcpy(bytes.data() + first, from, length);
    }
    if (arch::converts(target.type)) arch::convert(target.type, piece.bytes, bytes.data());
    arch::fill_outside(target.type, target.fill, piece.inside, piece.bytes, bytes.data());
    for (std::uint32_t i = 0; i < piece.bytes; ++i) {
      windows[window].at(swizzled_offset(target.swizzle, piece.shared + i)) = bytes[i];
    }
    barrier[*target.barrier + (window << 24)] += piece.bytes;
  }

  void on_read(const protocol::BulkReadPacket& packet, std::uint32_t) {
    REQUIRE(packet.sm == bit_);
    reads_.push_back(packet);
    domain_.schedule_in(read_cycles ? read_cycles() : 5, *this, kGive, reads_.size() - 1);
  }
  void give(protocol::BulkReadPacket packet) {
    MemoryRequest& request = *packet.request;
    const protocol::BulkTarget& target = request.extension.bulk.get();
    const arch::TensorPiece& piece = target.piece;
    const std::uint32_t first = piece.inside.lowest();
    const std::uint32_t last = piece.inside.highest();
    REQUIRE(request.get_data_length() == last - first + 1);
    ++given;
    packet.failed = bad && bad(target);
    request.extension.poisoned = packet.failed;
    targets.push_back(target);
    if (!packet.failed) {
      for (std::uint32_t i = first; i <= last; ++i) {
        request.data[i - first] = windows[target.cta_slot].at(swizzled_offset(target.swizzle, piece.shared + i));
      }
      if (packet.forward) bring(request, target);
    }
    read_out.send(packet);
  }
  void bring(const MemoryRequest& request, const protocol::BulkTarget& target) {
    const bool own = !target.data_cta;
    TmauSm& to = own ? *this : *all_[*target.data_cta % sms_];
    const std::uint32_t window = own ? target.cta_slot : *target.data_cta / sms_;
    const std::uint32_t bytes = target.piece.bytes;
    REQUIRE(target.destination + bytes <= kWindow);
    const auto place = [&](std::uint32_t i) -> std::uint8_t& {
      return to.windows[window].at(swizzled_offset(target.swizzle, target.destination + i));
    };
    std::array<std::uint8_t, arch::kLineBytes> held{};
    for (std::uint32_t i = 0; i < bytes; ++i) held[i] = place(i);
    if (target.reduces) {
      arch::reduce(target.reduction, target.value, arch::ByteMask::first(bytes), bytes, request.data.data(),
                   held.data());
    } else {
      std::memcpy(held.data(), request.data.data(), bytes);
    }
    for (std::uint32_t i = 0; i < bytes; ++i) place(i) = held[i];
    if (target.barrier) to.barrier[*target.barrier + (window << 24)] += bytes;
  }
  void reset() override {
    script_.clear();
    queued_.clear();
    reads_.clear();
    coming_.clear();
    lots = 0;
    done.clear();
    data.clear();
    targets.clear();
    sent.clear();
    barrier.clear();
  }

 private:
  Domain& domain_;
  std::uint32_t bit_;
  std::uint32_t sms_;
  std::vector<std::unique_ptr<TmauSm>>& all_;
  std::deque<protocol::BulkRequestPacket> script_;
  std::deque<protocol::BulkRequestPacket> queued_;  // without a credit
  std::deque<protocol::BulkReadPacket> reads_;
  std::deque<Coming> coming_;
};

class TmauMemory : public sc_core::sc_module, private EventHandler, private Resettable, private LineSource {
 public:
  struct Seen {
    Cycle cycle = 0;  // arrival
    std::uint32_t sm = 0;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    tlm::tlm_command command = tlm::TLM_IGNORE_COMMAND;
    MemoryAction action = MemoryAction::plain;
    std::uint8_t sectors = 0;
    std::uint64_t multicast = 0;
    std::uint32_t carried = 0;
    std::uint32_t id = 0;  // of the SM in the machine
    std::uint8_t promoted = 0;
    arch::EvictionPriority priority = arch::EvictionPriority::normal;
  };

  TmauMemory(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms, std::uint64_t size)
      : sc_core::sc_module(name), bytes(size), domain_(domain), ports_(sms) {
    for (std::uint32_t sm = 0; sm < sms; ++sm) {
      in.push_back(std::make_unique<MemoryIn>(fmt::format("in_{}", sm).c_str(), domain));
      in[sm]->connect<TmauMemory, &TmauMemory::request, &TmauMemory::room, &TmauMemory::blocking, &TmauMemory::debug>(
          *this, sm);
      in[sm]->offer_lines(*this, sm);
      multicast_out.push_back(std::make_unique<PacketOut<protocol::BulkDataPacket>>(
          fmt::format("multicast_out_{}", sm).c_str(), domain, 0, kUnlimitedCredits));
    }
    domain.add_resettable(*this);
  }

  std::vector<std::unique_ptr<MemoryIn>> in;
  std::vector<std::unique_ptr<PacketOut<protocol::BulkDataPacket>>> multicast_out;
  Bytes bytes;
  std::vector<Seen> seen;
  std::function<Cycle(std::uint64_t address)> latency;  // none: 100
  std::function<Cycle()> hold;                          // END_REQ, for so many cycles; none: 0
  std::function<bool(std::uint64_t line)> error;
  std::function<bool(std::uint64_t line)> poison;
  std::function<tlm::tlm_response_status(const MemoryRequest&)> refuse;  // by translation; OK: it goes on
  std::optional<Cycle> accepts;  // posted writes, so many cycles after they have arrived
  bool gives_lines = false;      // to calls, without payloads
  Cycle ahead = 0;               // responses are known so many cycles before they arrive
  std::uint32_t open = 0;
  std::uint32_t most_open = 0;

  std::vector<Seen> of(tlm::tlm_command command, MemoryAction action = MemoryAction::plain) const {
    std::vector<Seen> result;
    for (const Seen& one : seen) {
      if (one.command == command && one.action == action) result.push_back(one);
    }
    return result;
  }

 private:
  static constexpr std::uint32_t kServe = 0;
  static constexpr std::uint32_t kAccept = 1;
  struct Item {
    MemoryRequest* request = nullptr;
    std::uint32_t sm = 0;
    Cycle ready = 0;
  };

  void note(const MemoryRequest& request, std::uint32_t sm, Cycle arrival) {
    const protocol::MemoryExtension& extension = request.extension;
    REQUIRE(request.get_data_length() > 0);
    REQUIRE(arch::line_of(request.get_address()) ==
            arch::line_of(request.get_address() + request.get_data_length() - 1));  // never across a line (TMA-15)
    seen.push_back({arrival, sm, request.get_address(), request.get_data_length(), request.get_command(),
                    extension.action, extension.sectors, extension.multicast, extension.carried, *extension.sm,
                    extension.promoted, extension.priority});
  }
  Cycle cycles_of(const MemoryRequest& request) const { return latency ? latency(request.get_address()) : 100; }

  bool request(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival) {
    auto& request = static_cast<MemoryRequest&>(payload);
    REQUIRE(arrival >= ports_[sm].last_request);
    ports_[sm].last_request = arrival;
    note(request, sm, arrival);
    most_open = std::max(most_open, ++open);
    if (accepts && request.extension.posted) {
      request.extension.posted = false;
      request.acquire();
      multicast_out[sm]->send_at(arrival + *accepts, {&request, protocol::SmInGpc(sm), true});
    }
    const Cycle ready = arrival + cycles_of(request);
    items_.push_back({&request, sm, ready});
    domain_.schedule(std::max(domain_.now(), ready - std::min(ahead, ready)), *this, kServe, items_.size() - 1);
    const Cycle busy = hold ? hold() : 0;
    if (busy == 0) return true;
    domain_.schedule(arrival + busy, *this, kAccept, sm);
    return false;
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kAccept) {
      const auto sm = static_cast<std::uint32_t>(argument);
      if (in[sm]->withholding()) in[sm]->accept(domain_.now());
      return;
    }
    const Item item = items_[argument];
    Port& port = ports_[item.sm];
    port.last_response = std::max(port.last_response, item.ready);
    perform(*item.request);
    --open;
    duplicate(*item.request, port.last_response);
    const std::uint64_t address = item.request->get_address();
    REQUIRE(in[item.sm]->respond(*item.request, port.last_response));
    REQUIRE(item.request->get_address() == address);  // it is still there for whoever has answered
  }
  void duplicate(MemoryRequest& request, Cycle arrival) {
    if (request.extension.multicast == 0 || !request.is_response_ok()) return;
    for (std::uint32_t sm = 0; sm < in.size(); ++sm) {
      if ((request.extension.multicast >> sm & 1) == 0) continue;
      request.acquire();
      multicast_out[sm]->send_at(arrival, {&request, protocol::SmInGpc(sm)});
    }
  }
  void room(std::uint32_t, Cycle) {}
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t sm, sc_core::sc_time& delay) {
    auto& request = static_cast<MemoryRequest&>(payload);
    note(request, sm, domain_.cycle_after(delay));
    perform(request);
    delay += domain_.clock().period() * static_cast<double>(cycles_of(request));
    duplicate(request, domain_.cycle_after(delay));
  }
  unsigned debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }
  bool find(LineRead& read, std::uint32_t) override {
    if (!gives_lines || refuse || read.physical_address + arch::kLineBytes > bytes.size()) return false;
    return !poison || !poison(read.physical_address);
  }
  void take(LineRead& read, std::uint32_t sm) override {
    REQUIRE(read.physical_address % arch::kLineBytes == 0);
    REQUIRE((read.sectors > 0 && read.sectors < 16));
    REQUIRE(read.when >= ports_[sm].last_request);
    ports_[sm].last_request = read.when;
    const std::uint32_t first = bits::lowest(read.sectors);
    const std::uint64_t begin = read.physical_address + first * arch::kSectorBytes;
    seen.push_back({read.when, sm, begin, bits::count(read.sectors) * arch::kSectorBytes, tlm::TLM_READ_COMMAND,
                    MemoryAction::plain, read.sectors, read.receivers, read.carried, 0, read.promoted,
                    static_cast<arch::EvictionPriority>(read.priority)});
    read.when += latency ? latency(begin) : 100;
    read.bytes = error && error(read.physical_address) ? nullptr : &bytes[read.physical_address];
    const std::uint32_t copies = read.bytes == nullptr ? 0 : bits::count(read.receivers);
    for (std::uint32_t i = 0; i < copies; ++i) read.arrivals[i] = read.when;
  }
  void warm(LineRead&, std::uint32_t, bool) const override {}
  void pass_on(LineParcel& parcel, std::uint32_t receiver, std::uint32_t) override {
    const auto& lines = static_cast<protocol::BulkLines&>(parcel);
    multicast_out[receiver]->send_at(lines.last, {nullptr, protocol::SmInGpc(receiver), false, &lines});
  }

  void perform(MemoryRequest& request) {
    const std::uint64_t address = request.get_address();
    const std::uint32_t length = request.get_data_length();
    const std::uint64_t line = arch::line_of(address);
    if (address + length > bytes.size() || (error && error(line))) {
      request.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    if (refuse && refuse(request) != tlm::TLM_OK_RESPONSE) {
      request.set_response_status(refuse(request));
      request.extension.unmapped = true;
      return;
    }
    request.set_response_status(tlm::TLM_OK_RESPONSE);
    const std::uint8_t* enables = request.get_byte_enable_ptr();
    if (request.is_read()) {
      std::memcpy(request.get_data_ptr(), &bytes[address], length);
      request.extension.poisoned = poison && poison(line);
    } else if (request.is_write()) {
      for (std::uint32_t i = 0; i < length; ++i) {
        if (enables == nullptr || enables[i] == TLM_BYTE_ENABLED) bytes[address + i] = request.data[i];
      }
    } else if (request.extension.action == MemoryAction::reduce_block) {
      arch::ByteMask mask = arch::ByteMask::first(length);
      for (std::uint32_t i = 0; i < length && enables != nullptr; ++i) {
        const arch::ByteMask one = arch::ByteMask::range(i, i + 1);
        if (enables[i] != TLM_BYTE_ENABLED) mask = {mask.low & ~one.low, mask.high & ~one.high};
      }
      arch::reduce(request.extension.atomic, request.extension.type, mask, length, request.data.data(),
                   &bytes[address]);
    } else {
      REQUIRE(request.extension.action == MemoryAction::prefetch);
    }
  }
  void reset() override {
    items_.clear();
    seen.clear();
    open = most_open = 0;
    ports_.assign(ports_.size(), Port());
  }

  struct Port {
    Cycle last_request = 0;
    Cycle last_response = 0;
  };
  Domain& domain_;
  std::vector<Port> ports_;
  std::deque<Item> items_;
};

}  // namespace heddle::test
