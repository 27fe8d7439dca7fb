// Requests of the memory unit, and what becomes of their answers.
#include <algorithm>
#include <cstring>

#include "sm/lane_data.h"
#include "sm/memory_unit.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kWarpLanes;
using arch::LaneMask;

// Whether those sectors hold all values of the lanes of a row.
bool has_row(std::uint8_t sectors, std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t wanted = (2U << (offset + bytes - 1) / kSectorBytes) - (1U << offset / kSectorBytes);
  return (wanted & ~std::uint32_t{sectors}) == 0;
}

}  // namespace

void MemoryUnit::submit(protocol::MemoryRequest& request, std::uint32_t /*access*/, std::uint32_t part,
                        std::uint32_t entry, Cycle departure) {
  const std::uint32_t index = open_.take();
  open_[index] = {&request, ledger_.begin(), part, entry};
  request.extension.entry = index;
  request.extension.sm = sm_;
  stats_.requests.add();
  stats_.global_bytes.add(request.get_data_length());
  last_departure_ = std::max(last_departure_, departure);
  if (blocking_) {
    sc_core::sc_time delay = domain_.delay_until(last_departure_);
    out_.blocking(request, delay);
    answered(request, domain_.cycle_after(delay));
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
  }
  if (stopped()) was_stopped_ = true;
}

void MemoryUnit::send_waiting(Cycle now) {
  if (sending_) return;
  sending_ = true;
  while (!waiting_.empty() && out_.can_send()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    last_departure_ = std::max({last_departure_, next.earliest, now});
    out_.send(*next.request, std::max(next.earliest, now));
  }
  sending_ = false;
}

void MemoryUnit::on_room(Cycle when) {
  send_waiting(when);
  go_on(when);
}

void MemoryUnit::go_on(Cycle when) {
  if (!was_stopped_ || stopped()) return;
  was_stopped_ = false;
  client_.memory_goes_on(when);
}

bool MemoryUnit::on_response(tlm::tlm_generic_payload& payload, Cycle arrival) {
  // Whoever answered the earlier ones has returned, unless this is called from inside such a call.
  const std::size_t over = depth_ == 0 ? retired_.size() : 0;
  ++depth_;
  auto& request = static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): all are ours
  answered(request, arrival);
  retired_.push_back(&request);
  --depth_;
  for (std::size_t i = 0; i < over; ++i) retired_[i]->release();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(over));
  go_on(arrival);
  return true;
}

void MemoryUnit::answered(protocol::MemoryRequest& request, Cycle arrival) {
  const std::uint32_t index = request.extension.entry;
  const Open open = open_[index];
  open_.give_back(index);
  ledger_.end(open.group, arrival);
  const Outcome outcome = outcome_of(request);
  if (open.entry != kNone) {
    read_ended(request, open.entry, outcome, arrival);
  } else {
    const Part part = parts_[open.part];
    Access& access = accesses_[part.access];
    if (outcome != Outcome::ok) {
      // A store that was refused must not stay in the L1 either.
      if (access.kind == AccessKind::store) {
        l1_.forget(tagged(arch::line_of(request.get_address()), request), part.sectors);
      }
      part_failed(open.part, arch::line_of(request.get_address()), part.sectors, outcome, arrival);
    } else if (!access.dead && (access.kind == AccessKind::load || access.kind == AccessKind::copy)) {
      const auto offset = static_cast<std::uint32_t>(request.get_address() % kLineBytes);
      deliver(access, part.lanes, part.sectors, request.get_data_ptr(), offset, arrival);
    } else if (!access.dead && access.kind == AccessKind::atomic) {
      deliver_old(access, request);
    }
    part_ended(open.part, part.sectors, arrival);
  }
  client_.request_ended(open.group, arrival);
}

// Corrupt data get no further than here: not into registers, shared memory or the L1.
MemoryUnit::Outcome MemoryUnit::outcome_of(const protocol::MemoryRequest& request) {
  if (request.get_response_status() != tlm::TLM_OK_RESPONSE) {
    if (!request.extension.unmapped) return Outcome::error;
    const bool there = request.get_response_status() == tlm::TLM_COMMAND_ERROR_RESPONSE;
    return there ? Outcome::read_only : Outcome::unmapped;
  }
  return request.extension.poisoned ? Outcome::poisoned : Outcome::ok;
}

void MemoryUnit::read_ended(protocol::MemoryRequest& request, std::uint32_t entry, Outcome outcome, Cycle arrival) {
  const std::uint8_t* bytes = request.get_data_ptr();
  const auto offset = static_cast<std::uint32_t>(request.get_address() % kLineBytes);
  const std::uint64_t line = request.get_address() - offset;
  if (outcome != Outcome::ok) {
    l1_.fail(entry, [this, line, outcome, arrival](std::uint32_t part, std::uint8_t sectors) {
      part_failed(part, line, sectors, outcome, arrival);
      part_ended(part, sectors, arrival);
    });
    return;
  }
  l1_.fill(entry, bytes, offset, [this, bytes, offset, arrival](std::uint32_t index, std::uint8_t sectors) {
    const Part& part = parts_[index];
    Access& access = accesses_[part.access];
    if (!access.dead) deliver(access, part.lanes, sectors, bytes, offset, arrival);
    part_ended(index, sectors, arrival);
  });
}

// `bytes`: those of the line from `offset` on.
void MemoryUnit::deliver(Access& access, LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                         std::uint32_t offset, Cycle arrival) {
  if (access.kind == AccessKind::copy) return deliver_copy(access, lanes, sectors, bytes, offset, arrival);
  std::uint32_t* registers = warps_[access.warp].state.of(access.destination);
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(lanes));
  const auto count = static_cast<std::uint32_t>(__builtin_popcount(lanes));
  const std::uint32_t at = access.offset_of(first);
  if (access.row && access.width >= 4 && has_row(sectors, at, count * access.width)) {
    return put_row(registers, first, count, access.width, bytes + at - offset);
  }
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) continue;
    put_lane(registers, lane, access.width, bytes + access.offset_of(lane) - offset);
  }
}

// The end of the window may have come down meanwhile: what lies behind it is somebody else's (CGA-09).
void MemoryUnit::deliver_copy(Access& access, LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                              std::uint32_t offset, Cycle arrival) {
  std::uint8_t* shared = shared_.data(access.cta);
  LaneMask written = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) continue;
    if (shared_.contains(access.cta, access.shared_address[lane], access.width)) {
      std::memcpy(shared + access.shared_address[lane], bytes + access.offset_of(lane) - offset, access.width);
      written |= LaneMask{1} << lane;
    } else if (!access.failed) {
      access.failed = access.outside = true;
      client_.access_failed(access, lane, access.shared_address[lane], arrival);
    }
  }
  shared_.covered(access.cta, written, access.shared_address, access.width);
}

void MemoryUnit::deliver_old(const Access& access, const protocol::MemoryRequest& request) {
  std::uint32_t* registers = warps_[access.warp].state.of(access.destination);
  const protocol::MemoryExtension& extension = request.extension;
  const bool wide = arch::bytes_of(extension.type) == 8;
  for (std::uint32_t i = 0; i < extension.lanes; ++i) {
    const protocol::AtomicLane& lane = extension.lane[i];
    registers[lane.lane] = static_cast<std::uint32_t>(lane.old);
    if (wide) registers[kWarpLanes + lane.lane] = static_cast<std::uint32_t>(lane.old >> 32);
  }
}

// The sectors of the part have not come: it is the fault of the first lane that wants one of them.
void MemoryUnit::part_failed(std::uint32_t index, std::uint64_t line, std::uint8_t sectors, Outcome outcome,
                             Cycle arrival) {
  const Part& part = parts_[index];
  Access& access = accesses_[part.access];
  if (!access.dead && !access.failed) {
    auto lane = static_cast<std::uint32_t>(__builtin_ctz(part.lanes));
    while ((part.lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) ++lane;
    access.poisoned = outcome == Outcome::poisoned;
    access.unmapped = outcome == Outcome::unmapped;
    access.read_only = outcome == Outcome::read_only;
    client_.access_failed(access, lane, line + access.offset_of(lane), arrival);
  }
  access.failed = true;
}

void MemoryUnit::part_ended(std::uint32_t index, std::uint8_t sectors, Cycle arrival) {
  Part& part = parts_[index];
  part.sectors = static_cast<std::uint8_t>(part.sectors & ~sectors);
  if (part.sectors != 0) return;
  const std::uint32_t number = part.access;
  parts_.give_back(index);
  Access& access = accesses_[number];
  access.last = std::max(access.last, arrival);
  if (--access.open > 0) return;
  if (access.posted) {
    // Nobody waits for it.
  } else if (access.dead || access.failed) {
    client_.access_lost(access, access.last);
  } else {
    client_.access_ended(access, access.last);
  }
  accesses_.give_back(number);
}

}  // namespace heddle::sm
