#include "sm/l2_port.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/bits.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"
#include "sm/cta_table.h"
#include "sm/global_path.h"

namespace heddle::sm {

using arch::kWarpLanes;
using arch::LaneMask;
using arch::MemoryStep;
using arch::OpCode;
using arch::Operation;

namespace {

using Kind = ContextTransfer::Access::Kind;

constexpr std::uint16_t kFlightRegisters = 4;  // 16 bytes of each lane
constexpr std::uint32_t kLaneBytes = 4 * kFlightRegisters;

std::uint16_t registers_of(std::uint32_t flight) { return static_cast<std::uint16_t>(flight * kFlightRegisters); }

void put_word(std::array<std::uint32_t, 4>& data, std::uint64_t value) {
  data[0] = static_cast<std::uint32_t>(value);
  data[1] = static_cast<std::uint32_t>(value >> 32);
}

void fill_step(Operation& operation, const MemoryStep& step) {
  operation.lanes = 1;
  operation.width = 8;
  operation.address[0] = step.address;
  put_word(operation.data[0], step.value);
  operation.type = arch::ValueType::u64;
  switch (step.kind) {
    case MemoryStep::Kind::read:
      operation.code = OpCode::load;
      return;
    case MemoryStep::Kind::write:
      operation.code = OpCode::store;
      return;
    case MemoryStep::Kind::exchange:
      operation.atomic = arch::AtomicKind::exchange;
      break;
    case MemoryStep::Kind::compare_exchange:
      operation.atomic = arch::AtomicKind::compare_exchange;
      operation.compare[0] = step.compare;
      break;
    default:
      operation.atomic = arch::AtomicKind::add;
  }
  operation.code = OpCode::atomic;
}

void fill_chunk(Operation& operation, const ContextTransfer::Access& access) {
  const bool writes = access.kind == Kind::write;
  const std::uint32_t lanes = access.bytes / kLaneBytes;
  operation.code = writes ? OpCode::store : OpCode::load;
  operation.width = kLaneBytes;
  operation.lanes = lanes == kWarpLanes ? ~LaneMask{0} : (LaneMask{1} << lanes) - 1;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    operation.address[lane] = access.address + std::uint64_t{lane} * kLaneBytes;
    if (writes) std::memcpy(operation.data[lane].data(), access.data + std::size_t{lane} * kLaneBytes, kLaneBytes);
  }
}

}  // namespace

AccessFailure failure_of(const protocol::MemoryRequest& request) {
  if (request.get_response_status() != tlm::TLM_OK_RESPONSE) {
    if (!request.extension.unmapped) return AccessFailure::error;
    const bool there = request.get_response_status() == tlm::TLM_COMMAND_ERROR_RESPONSE;
    return there ? AccessFailure::read_only : AccessFailure::unmapped;
  }
  return request.extension.poisoned ? AccessFailure::poisoned : AccessFailure::none;
}

void aim_read(protocol::MemoryRequest& request, std::uint64_t line, std::uint8_t sectors) {
  request.aim(tlm::TLM_READ_COMMAND, line + std::uint64_t{bits::lowest(sectors)} * arch::kSectorBytes,
              span_of(sectors));
  request.extension.sectors = sectors;
}

L2Port::L2Port(Domain& domain, MemoryOut& out, protocol::SmId sm, RequestGate& gate, FenceTracker& fences,
               SmStats& stats)
    : domain_(domain),
      out_(out),
      blocking_(heddle::has_calls(domain.mode())),
      has_costs_(heddle::has_costs(domain.mode())),
      sm_(sm),
      gate_(gate),
      fences_(fences),
      stats_(stats),
      pool_(std::make_unique<protocol::RequestPool>()) {}

L2Port::~L2Port() = default;

void L2Port::reset() {
  open_.for_each([](Open& open) { open.request->release(); });
  for (protocol::MemoryRequest* request : retired_) request->release();
  retired_.clear();
  open_.clear();
  waiting_.clear();
  last_departure_ = 0;
  depth_ = 0;
  sending_ = false;
}

std::size_t L2Port::payloads() const { return pool_->in_use() - retired_.size(); }

protocol::MemoryRequest& L2Port::new_request(const Requester& requester) {
  protocol::MemoryRequest& request = pool_->acquire();
  request.extension.subcontext = requester.subcontext;
  request.extension.kernel = requester.kernel;
  request.extension.physical = requester.physical;
  return request;
}

void L2Port::count(std::uint32_t bytes) {
  stats_.requests.add();
  stats_.global_bytes.add(bytes);
}

void L2Port::submit(protocol::MemoryRequest& request, const L2Owner& owner, Cycle departure) {
  const std::uint32_t index = open_.take();
  gate_.request_begins();
  open_[index] = {&request, fences_.begin(), owner};
  request.extension.entry = index;
  request.extension.sm = sm_;
  count(request.get_data_length());
  last_departure_ = std::max(last_departure_, departure);
  if (blocking_) {
    const Cycle answered = call(request, last_departure_);
    if (has_costs_) gate_.called(answered);
    answer(request, answered);
    request.release();
    return;
  }
  if (waiting_.empty() && !sending_ && out_.can_send()) {
    sending_ = true;
    out_.send(request, last_departure_);
    sending_ = false;
    if (!waiting_.empty()) send_waiting(domain_.now());
  } else {
    waiting_.push_back({&request, last_departure_});
    gate_.request_queued();
  }
  gate_.note_closed();
}

AccessFailure L2Port::read_now(LineRead& read) {
  if (!lines_known_) find_lines();
  read.physical_address = read.address;
  if (lines_.offered() && lines_.find(read)) {
    count(span_of(read.sectors));
    lines_.take(read);
    fences_.note(read.when);
    return read.bytes == nullptr ? AccessFailure::error : AccessFailure::none;
  }
  protocol::MemoryRequest& request = new_request({read.subcontext, read.physical, read.kernel});
  aim_read(request, read.address, read.sectors);
  request.extension.sm = sm_;
  count(request.get_data_length());
  // Made late, it takes as long as it would have.
  const Cycle late = domain_.now() - std::min(domain_.now(), read.when);
  read.when = call(request, read.when + late) - late;
  fences_.note(read.when);
  std::memcpy(image_.data() + request.get_address() % arch::kLineBytes, request.get_data_ptr(),
              request.get_data_length());
  read.bytes = image_.data();
  const AccessFailure failure = failure_of(request);
  request.release();
  return failure;
}

void L2Port::find_lines() {
  lines_ = out_.lines();
  lines_known_ = true;
}

Cycle L2Port::call(protocol::MemoryRequest& request, Cycle departure) {
  sc_core::sc_time delay = domain_.delay_until(departure);
  out_.blocking(request, delay);
  return domain_.cycle_after(delay);
}

void L2Port::send_waiting(Cycle now) {
  if (sending_) return;
  sending_ = true;
  while (!waiting_.empty() && out_.can_send()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    gate_.request_sent();
    last_departure_ = std::max({last_departure_, next.earliest, now});
    out_.send(*next.request, std::max(next.earliest, now));
  }
  sending_ = false;
}

void L2Port::on_room(std::uint32_t, Cycle when) {
  send_waiting(when);
  gate_.consider_opening(when);
}

bool L2Port::on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  // Whoever answered the earlier ones has returned, unless this is called from inside such a call.
  const std::size_t over = depth_ == 0 ? retired_.size() : 0;
  ++depth_;
  auto& request = static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): all are ours
  answer(request, arrival);
  retired_.push_back(&request);
  --depth_;
  for (std::size_t i = 0; i < over; ++i) retired_[i]->release();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(over));
  gate_.consider_opening(arrival);
  return true;
}

void L2Port::answer(protocol::MemoryRequest& request, Cycle arrival) {
  const std::uint32_t index = request.extension.entry;
  const Open open = open_[index];
  open_.give_back(index);
  gate_.request_ends();
  fences_.end(open.epoch, arrival);
  client_->answered(request, open.owner, arrival);
  fences_.tell(open.epoch, arrival);
}

std::uint32_t TransferUnit::begin(const Cta& cta, ContextTransfer steps, Cycle when) {
  const std::uint32_t index = transfers_.take();
  Transfer& transfer = transfers_[index];
  transfer = Transfer{};
  transfer.steps.emplace(std::move(steps));
  transfer.cta = cta.start.cta_slot;
  transfer.begin = transfer.not_before = std::max(when, now());
  if (warps_.size() <= first_slot_ + index) warps_.resize(first_slot_ + index + 1);
  Warp& warp = warps_[first_slot_ + index];
  warp.cta = params_.limits.ctas;  // none: behind those of CTAs
  warp.subcontext = cta.start.subcontext;
  warp.kernel = stats_.row_of(cta.operation);
  warp.state.registers.resize(std::size_t{ContextTransfer::kWindow} * kFlightRegisters * kWarpLanes);
  time_.schedule(transfer.begin, *this, kGoesOn, index);
  return index;
}

void TransferUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (kind == kGoesOn) return go_on(index);
  answered(index, static_cast<std::uint32_t>(argument >> 32));
}

// Everything that can go now. The port of the load-store unit is shared with the warps.
void TransferUnit::go_on(std::uint32_t index) {
  const Cycle cycle = now();
  while (transfers_[index].steps) {
    Transfer& transfer = transfers_[index];
    if (transfer.steps->over()) {
      HEDDLE_CHECK(!transfer.cta, "a CTA does not know that its way to memory is over");
      transfer.steps.reset();
      transfers_.give_back(index);
      return;
    }
    if (!transfer.steps->wants()) return;
    const Cycle from = std::max(peers_.gate.free(), transfer.not_before);
    if (from == kNever) {
      transfer.waits = true;
      return;
    }
    if (from > cycle) return time_.schedule(from, *this, kGoesOn, index);
    issue(index);
  }
}

void TransferUnit::issue(std::uint32_t index) {
  Transfer& transfer = transfers_[index];
  const auto free = std::find_if(transfer.flights.begin(), transfer.flights.end(),
                                 [](const Transfer::Flight& flight) { return !flight.busy; });
  const auto number = static_cast<std::uint32_t>(free - transfer.flights.begin());
  HEDDLE_CHECK(number < transfer.flights.size(), "more accesses of a saved CTA than it may have");
  *free = {true, false, transfer.steps->next()};
  static thread_local Operation operation;  // large
  operation = Operation{};
  operation.unit = arch::Unit::memory;
  operation.order = arch::Order::relaxed;  // strong: the L2 serves it
  operation.scope = arch::Scope::gpu;
  if (free->access.kind == Kind::step) {
    fill_step(operation, free->access.step);
  } else {
    fill_chunk(operation, free->access);
  }
  if (operation.code != OpCode::store) operation.destination = registers_of(number);
  const std::uint32_t slot = first_slot_ + index;
  warps_[slot].issued_pc = number;  // comes back with the access
  const MemoryResult result =
      peers_.global.access(operation, slot, now(), *this, AccessUse::transfer, !free->access.translated);
  if (result.open && !result.lost) return;
  const Cycle when = std::max(result.lost ? result.arrival : result.ready, now());
  time_.schedule(when, *this, kAnswered, std::uint64_t{number} << 32 | index);
}

void TransferUnit::access_ended(const Access& access, Cycle when) {
  const Cycle ready = when + params_.memory.l1_latency - params_.memory.l1_tag_latency;
  const std::uint32_t index = access.warp - first_slot_;
  time_.schedule(std::max(ready, now()), *this, kAnswered, std::uint64_t{access.pc} << 32 | index);
}

void TransferUnit::access_failed(const Access& access, std::uint32_t, std::uint64_t, Cycle) {
  transfers_[access.warp - first_slot_].flights[access.pc].failed = true;
}

void TransferUnit::answered(std::uint32_t index, std::uint32_t number) {
  Transfer& transfer = transfers_[index];
  Transfer::Flight& flight = transfer.flights[number];
  flight.busy = false;
  if (flight.failed) {
    transfer.steps->fail(flight.access);
  } else {
    const arch::WarpState& state = warps_[first_slot_ + index].state;
    const std::uint16_t first = registers_of(number);
    std::array<std::uint8_t, ContextTransfer::kAccess> bytes;  // NOLINT(*-init-variables): filled where it counts
    for (std::uint32_t lane = 0; flight.access.kind == Kind::read && lane < flight.access.bytes / kLaneBytes; ++lane) {
      for (std::uint16_t word = 0; word < kFlightRegisters; ++word) {
        const std::uint32_t value = state.of(static_cast<std::uint16_t>(first + word))[lane];
        std::memcpy(bytes.data() + std::size_t{lane} * kLaneBytes + std::size_t{4} * word, &value, sizeof value);
      }
    }
    const std::uint64_t old = state.of(first)[0] | std::uint64_t{state.of(static_cast<std::uint16_t>(first + 1))[0]}
                                                       << 32;
    transfer.steps->answer(flight.access, old, bytes.data());
  }
  if (transfer.steps->again()) transfer.not_before = now() + memory_.retry;
  if (transfer.cta) peers_.listener.transfer_changed(index);
  go_on(index);
}

void TransferUnit::detach(std::uint32_t index) {
  transfers_[index].cta.reset();
  time_.schedule(now(), *this, kGoesOn, index);
}

// The load-store unit takes instructions again.
void TransferUnit::gate_opened(Cycle when) {
  for (std::uint32_t index = 0; index < transfers_.size(); ++index) {
    Transfer& transfer = transfers_[index];
    if (!transfer.steps || !transfer.waits) continue;
    transfer.waits = false;
    time_.schedule(std::max(when, now()), *this, kGoesOn, index);
  }
}

}  // namespace heddle::sm
