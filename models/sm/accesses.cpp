#include "sm/accesses.h"

#include <algorithm>
#include <cstring>

#include "common/bits.h"
#include "sm/lane_data.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kWarpLanes;
using arch::LaneMask;
using arch::OpCode;
using arch::Operation;

AccessKind kind_of(const Operation& operation) {
  switch (operation.code) {
    case OpCode::store:
      return AccessKind::store;
    case OpCode::atomic:
      return operation.destination == arch::kNoRegister ? AccessKind::reduce : AccessKind::atomic;
    case OpCode::async_copy:
      return AccessKind::copy;
    case OpCode::fence:
      return AccessKind::flush;
    case OpCode::mbarrier_arrive:
    case OpCode::mbarrier_expect:
    case OpCode::mbarrier_complete:
      return AccessKind::mbarrier;
    default:
      return AccessKind::load;
  }
}

AccessWait wait_of(const Operation& operation, AccessKind kind) {
  if (!arch::acquires(operation.order) || kind == AccessKind::copy) return AccessWait::none;
  return operation.scope == arch::Scope::cta ? AccessWait::blocks : AccessWait::acquires;
}

// Whether those sectors hold all values of lanes with unit stride.
bool has_all(std::uint8_t sectors, std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t wanted = (2U << (offset + bytes - 1) / kSectorBytes) - (1U << offset / kSectorBytes);
  return (wanted & ~std::uint32_t{sectors}) == 0;
}

}  // namespace

std::uint32_t AccessTable::begin(const Operation& operation, std::uint32_t warp, bool unit_stride, AccessClient& client,
                                 AccessUse use) {
  const std::uint32_t index = accesses_.take();
  Access& access = accesses_[index];
  const Warp& owner = warps_[warp];
  access.kind = kind_of(operation);
  access.use = use;
  access.life = AccessLife::live;
  access.failure = AccessFailure::none;
  access.wait = wait_of(operation, access.kind);
  access.cluster = access.posted = false;
  access.client = &client;
  access.code = operation.code;
  access.width = static_cast<std::uint8_t>(lane_width(operation));
  access.destination = operation.destination;
  access.warp = warp;
  access.cta = owner.cta;
  access.pc = owner.issued_pc;
  access.issued = owner.issued;
  access.open = 1;  // until end()
  access.last = 0;
  access.unit_stride = unit_stride;
  for (std::uint32_t lane = 0; lane < (unit_stride ? 1 : kWarpLanes); ++lane) {
    access.offset[lane] = static_cast<std::uint8_t>(operation.address[lane] % kLineBytes);
  }
  if (access.kind == AccessKind::copy) {
    access.group = owner.copies.current();
    access.shared_address = operation.shared_address;
  }
  return index;
}

std::uint32_t AccessTable::add_transaction(std::uint32_t access, const LineAccess& line) {
  const std::uint32_t index = transactions_.take();
  transactions_[index] = {access, line.lanes, line.sectors};
  ++accesses_[access].open;
  return index;
}

void AccessTable::join(std::uint32_t transaction, std::uint32_t access) {
  transactions_[transaction].access = access;
  ++accesses_[access].open;
}

bool AccessTable::close(std::uint32_t index) {
  if (--accesses_[index].open > 0) return false;
  accesses_.give_back(index);
  return true;
}

MemoryResult AccessTable::end(std::uint32_t index) {
  const Access& access = accesses_[index];
  const Cycle last = access.last;
  const bool lost = access.failed();
  if (!close(index)) return {kNever, 0, true, false};
  if (lost) return {kNever, last, true, true};
  return {last + hit_rest_, last, false, false};
}

std::uint32_t AccessTable::deliver(Access& access, LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                                   std::uint32_t offset, Cycle arrival) {
  if (access.kind == AccessKind::copy) return copy(access, lanes, sectors, bytes, offset, arrival);
  std::uint32_t* registers = registers_of(access);
  const std::uint32_t first = bits::lowest(lanes);
  const std::uint32_t count = bits::count(lanes);
  const std::uint32_t at = access.offset_of(first);
  if (access.unit_stride && access.width >= 4 && has_all(sectors, at, count * access.width)) {
    put_lanes(registers, first, count, access.width, bytes + at - offset);
    return 0;
  }
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) continue;
    put_lane(registers, lane, access.width, bytes + access.offset_of(lane) - offset);
  }
  return 0;
}

// The end of the window may have come down meanwhile: what lies behind it is somebody else's (CGA-09).
std::uint32_t AccessTable::copy(Access& access, LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                                std::uint32_t offset, Cycle arrival) {
  std::uint8_t* shared = shared_.data(access.cta);
  LaneMask written = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) continue;
    if (shared_.contains(access.cta, access.shared_address[lane], access.width)) {
      shared_.will_write(access.cta, access.shared_address[lane], access.width, access.warp);
      std::memcpy(shared + access.shared_address[lane], bytes + access.offset_of(lane) - offset, access.width);
      written |= LaneMask{1} << lane;
    } else if (!access.failed()) {
      access.fail(AccessFailure::outside);
      access.client->access_failed(access, lane, access.shared_address[lane], arrival);
    }
  }
  shared_.covered(access.cta, written, access.shared_address, access.width);
  return copy_wavefronts(written, access.shared_address, access.width);
}

void AccessTable::transaction_failed(std::uint32_t index, std::uint64_t line, std::uint8_t sectors, AccessFailure why,
                                     Cycle arrival) {
  const Transaction& transaction = transactions_[index];
  Access& access = accesses_[transaction.access];
  const bool tells = !access.dead() && !access.failed();
  access.fail(why);
  if (!tells) return;
  std::uint32_t lane = bits::lowest(transaction.lanes);
  while ((transaction.lanes >> lane & 1) == 0 || (sectors >> access.offset_of(lane) / kSectorBytes & 1) == 0) ++lane;
  access.client->access_failed(access, lane, line + access.offset_of(lane), arrival);
}

void AccessTable::transaction_ended(std::uint32_t index, std::uint8_t sectors, Cycle arrival) {
  Transaction& transaction = transactions_[index];
  transaction.sectors = static_cast<std::uint8_t>(transaction.sectors & ~sectors);
  if (transaction.sectors != 0) return;
  const std::uint32_t number = transaction.access;
  transactions_.give_back(index);
  Access& access = accesses_[number];
  access.last = std::max(access.last, arrival);
  if (--access.open > 0) return;
  if (access.posted) {
    // Nobody waits for it.
  } else if (access.dead() || access.failed()) {
    access.client->access_lost(access, access.last);
  } else {
    access.client->access_ended(access, access.last);
  }
  accesses_.give_back(number);
}

void AccessTable::forget(std::uint32_t cta) {
  accesses_.for_each([cta](Access& access) {
    const bool dies = access.cta == cta && access.life == AccessLife::live && access.use != AccessUse::step;
    if (dies) access.life = AccessLife::dead;
  });
}

void AccessTable::abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank) {
  accesses_.for_each([=](Access& access) {
    if (!access.cluster || access.orphan() || access.cta != cta) return;
    HEDDLE_CHECK(access.posted, "a CTA has gone that waits for an access");
    access.life = access.dead() ? AccessLife::dead_orphan : AccessLife::orphan;
    access.origin = index;
    access.origin_rank = rank;
  });
}

}  // namespace heddle::sm
