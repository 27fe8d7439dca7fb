#include "sm/global_path.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/bits.h"
#include "protocol/memory_request.h"
#include "sm/dsmem_access.h"
#include "sm/lane_data.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kWarpLanes;
using arch::LaneMask;
using arch::OpCode;
using arch::Operation;

// The L1 may not serve it: the L2 is the point of coherence (MEM-06).
bool is_strong(const Operation& operation) {
  return operation.combines || (operation.order != arch::Order::weak && operation.scope != arch::Scope::cta);
}

constexpr std::uint8_t kAllSectors = (1U << arch::kSectorsPerLine) - 1;

std::uint64_t begin_of(const LineAccess& line) {
  return line.line + std::uint64_t{bits::lowest(line.sectors)} * kSectorBytes;
}

void aim_atomic(protocol::MemoryRequest& request, const Operation& operation, const LineAccess& line) {
  request.aim(tlm::TLM_IGNORE_COMMAND, begin_of(line), span_of(line.sectors));
  request.extension.sectors = line.sectors;
  request.extension.action =
      operation.destination == arch::kNoRegister ? protocol::MemoryAction::reduce : protocol::MemoryAction::atomic;
  fill_lanes(request.extension, operation, line);
}

// Above it an address is outside memory, and its place belongs to the subcontext.
constexpr std::uint32_t kTagBit = 56;
constexpr std::uint64_t kNobody = 0xFF;

// A line as the L1 knows it. Lines of different subcontexts are different lines (PRT-08). What is outside memory never
// comes, and has no owner.
inline std::uint64_t tagged(std::uint64_t line, const Requester& requester) {
  const std::uint64_t owner = requester.physical ? 0 : requester.subcontext;
  if (line >> kTagBit == 0) return line | owner << kTagBit;
  return (line & ((std::uint64_t{1} << kTagBit) - 1)) | kNobody << kTagBit;
}
inline std::uint64_t tagged_line(const protocol::MemoryRequest& request) {
  return tagged(arch::line_of(request.get_address()),
                Requester{request.extension.subcontext, request.extension.physical});
}

// Of a load's lanes in a line, those in these sectors.
void put_row(const PutOffLoad& load, const LineAccess& line, std::uint8_t sectors, const std::uint8_t* bytes) {
  const std::uint32_t first = bits::lowest(line.lanes);
  const std::uint32_t lanes = line.lanes == ~LaneMask{0} ? kWarpLanes : bits::count(line.lanes);
  const std::uint8_t* from = bytes + (load.address + std::uint64_t{first} * load.width - line.line);
  if (sectors == line.sectors) return put_lanes(load.registers, first, lanes, load.width, from);
  for (std::uint32_t i = 0; i < lanes; ++i, from += load.width) {
    if ((sectors >> (from - bytes) / kSectorBytes & 1) != 0) put_lanes(load.registers, first + i, 1, load.width, from);
  }
}

}  // namespace

void CopyArrivals::arrive(std::uint32_t transaction, std::uint8_t sectors, std::uint32_t cycles, Cycle arrival) {
  time_.schedule(arrival, *this, cycles, std::uint64_t{sectors} << 32 | transaction);
}

void CopyArrivals::on_event(std::uint32_t kind, std::uint64_t argument) {
  const Cycle done = use_port(time_.now(), kind);
  accesses_.transaction_ended(static_cast<std::uint32_t>(argument), static_cast<std::uint8_t>(argument >> 32), done);
}

Cycle CopyArrivals::use_port(Cycle from, std::uint32_t cycles) {
  count_wavefronts(stats_, KernelAccount::kNobody, cycles);
  stats_.copy_port.add(cycles);
  return port_.take_past_queue(from, cycles) + cycles - 1;
}

GlobalPath::GlobalPath(Timebase& time, const MemoryView& view, protocol::SmId sm, const MemoryParams& params,
                       std::vector<Warp>& warps, SharedMemory& shared, L1Cache& l1, IssuePort& port,
                       AccessTable& accesses, L2Port& l2, SmStats& stats)
    : params_(params),
      warps_(warps),
      shared_(shared),
      l1_(l1),
      port_(port),
      accesses_(accesses),
      l2_(l2),
      copies_(time, port, accesses, stats),
      batch_(l2.blocking() ? view.loads : nullptr),
      stats_(stats),
      slice_addresses_(view.map.addresses_of_slices(view.instance)),
      fence_address_(view.fence_address(sm)) {
  l2.serve(*this);
}

MemoryResult GlobalPath::access(const Operation& operation, std::uint32_t warp, Cycle now, AccessClient& client,
                                AccessUse use, bool physical) {
  static thread_local LineAccesses lines;  // large, and needed by one SM at a time
  coalesce(operation.lanes, operation.address, lane_width(operation), lines);
  const Cycle begin = port_.take(now, std::max(1U, lines.count));
  if (lines.count == 0) return {begin + params_.l1_latency, 0, false, false};
  const Instruction its{operation, lines, warp, begin, {warps_[warp].subcontext, physical, warps_[warp].kernel},
                        client,    use};
  if (operation.code == OpCode::load && can_wait(its)) {
    put_off(its);
    return {kNever, 0, true, false};
  }
  if (operation.code == OpCode::store || operation.code == OpCode::atomic) return change(its);
  if (is_strong(operation)) return load_strong(its);
  if (operation.code != OpCode::load) settle();  // a copy
  return l2_.blocking() ? load_now(its) : load(its);
}

// What comes is there before the load could be ready, so nobody can see in which cycle it was read.
bool GlobalPath::can_wait(const Instruction& its) const {
  return batch_ != nullptr && client_ != nullptr && its.use == AccessUse::warp && !its.requester.physical &&
         its.lines.unit_stride && its.operation.width >= 4 && !is_strong(its.operation);
}

void GlobalPath::put_off(const Instruction& its) {
  Warp& warp = warps_[its.warp];
  PutOffLoad& load = batch_->add(*this);
  ++put_off_;
  load.address = its.operation.address[0];
  load.registers = warp.state.of(its.operation.destination);
  load.begin = its.begin;
  load.warp = its.warp;
  load.epoch = l1_.epoch();
  if (l2_.has_costs()) load.place = l2_.gate().calls().reserve(its.lines.count, its.begin + batch_->delay());
  load.destination = its.operation.destination;
  load.subcontext = its.requester.subcontext;
  load.kernel = its.requester.kernel;
  load.width = its.operation.width;
  load.issued = warp.issued;
  load.pc = warp.issued_pc;
  load.lines = its.lines.count;
  for (std::uint32_t i = 0; i < load.lines; ++i) load.line[i] = {its.lines.line[i], {}, {}};
}

void GlobalPath::warm(PutOffLoad& load, bool data) const {
  for (std::uint32_t i = 0; i < load.lines; ++i) {
    PutOffLoad::Line& line = load.line[i];
    const std::uint64_t key = tagged(line.access.line, {load.subcontext, false});
    l2_.warm(line.access.line, load.subcontext, line.at, data);
    if (!data) {
      l1_.warm_set(key);
      continue;
    }
    line.here = l1_.look(key);
    l1_.warm_place(line.here);
    const auto* registers = reinterpret_cast<const char*>(load.registers) + std::size_t{i} * kLineBytes;
    warm_line(registers);
    warm_line(registers + kLineBytes / 2);
  }
}

// The whole of a read of one line, as a call. `place`: in the L1; none: that neither serves it nor keeps it. `deliver`
// takes sectors and the line's bytes, and gives the cycles that a copy's write takes.
template <class Deliver>
GlobalPath::LineResult GlobalPath::read_line(const LineAccess& line, const Requester& requester,
                                             const L1Cache::Place& place, const LinePlace& at, Cycle tags,
                                             Deliver&& deliver) {
  LineResult result;
  const std::uint64_t key = tagged(line.line, requester);
  const auto here = static_cast<std::uint8_t>(line.sectors & place.here);
  if (here != 0) {
    stats_.l1_hits.add(bits::count4(here));
    stats_.charge(requester.kernel, KernelCount::l1_hits, bits::count4(here));
    const Cycle come = fills_.ready(key, tags);
    if (come > tags) result.arrival = come;
    result.hit = deliver(here, l1_.read(place));
  }
  result.missing = static_cast<std::uint8_t>(line.sectors & ~here);
  if (result.missing == 0) return result;
  stats_.l1_misses.add(bits::count4(result.missing));
  stats_.charge(requester.kernel, KernelCount::l1_misses, bits::count4(result.missing));
  LineRead read;
  read.address = line.line;
  read.sectors = result.missing;
  read.subcontext = requester.subcontext;
  read.kernel = requester.kernel;
  read.when = tags;
  read.at = at;
  result.failure = l2_.read_now(read);
  result.arrival = std::max(result.arrival, read.when);
  if (result.failure != AccessFailure::none) return result;
  l1_.put(place, key, result.missing, read.bytes);
  fills_.note(key, read.when);
  result.come = deliver(result.missing, read.bytes);
  return result;
}

void GlobalPath::finish(PutOffLoad& load) {
  --put_off_;
  const Requester requester{load.subcontext, false, load.kernel};
  const bool keeps = load.epoch == l1_.epoch();                   // else it is older than what the L1 may know now
  load.registers = warps_[load.warp].state.of(load.destination);  // a warp that launches may have got more, elsewhere
  Cycle arrival = 0;
  std::uint32_t access = AccessTable::kNone;
  for (std::uint32_t i = 0; i < load.lines; ++i) {
    PutOffLoad::Line& line = load.line[i];
    const Cycle tags = load.begin + params_.l1_tag_latency + i;
    const auto deliver = [&](std::uint8_t sectors, const std::uint8_t* bytes) {
      put_row(load, line.access, sectors, bytes);
      return 0U;
    };
    if (!keeps) {
      line.here = {};
    } else if (!l1_.still(line.here)) {
      line.here = l1_.look(tagged(line.access.line, requester));
    }
    const LineResult result = read_line(line.access, requester, line.here, line.at, tags, deliver);
    arrival = std::max(arrival, result.arrival);
    if (l2_.has_costs()) l2_.gate().calls().set(load.place, i, result.missing == 0 ? 0 : result.arrival);
    if (result.failure == AccessFailure::none) continue;
    if (access == AccessTable::kNone) access = begin(load);
    fail(access, line.access, result);
  }
  client_->load_ended(load, ended(access, load.begin + load.lines - 1, arrival));
}

// An access for a load that goes wrong.
std::uint32_t GlobalPath::begin(const PutOffLoad& load) {
  Operation operation;
  operation.code = OpCode::load;
  operation.width = load.width;
  operation.destination = load.destination;
  operation.address[0] = load.address;
  const std::uint32_t access = accesses_.begin(operation, load.warp, true, *client_, AccessUse::warp);
  accesses_[access].pc = load.pc;
  accesses_[access].issued = load.issued;
  return access;
}

void GlobalPath::fail(std::uint32_t access, const LineAccess& line, const LineResult& result) {
  const std::uint32_t transaction = accesses_.add_transaction(access, {line.line, line.lanes, result.missing});
  accesses_.transaction_failed(transaction, line.line, result.missing, result.failure, result.arrival);
  accesses_.transaction_ended(transaction, result.missing, result.arrival);
}

// `last`: the cycle of the port's last line.
MemoryResult GlobalPath::ended(std::uint32_t access, Cycle last, Cycle arrival) {
  const Cycle hit = last + params_.l1_latency;
  if (access == AccessTable::kNone) {
    return {std::max(hit, arrival == 0 ? 0 : arrival + params_.l1_latency - params_.l1_tag_latency), arrival, false,
            false};
  }
  accesses_[access].last = std::max(accesses_[access].last, arrival);
  MemoryResult result = accesses_.end(access);
  result.ready = std::max(result.ready, hit);
  return result;
}

// Each line is read in one call.
MemoryResult GlobalPath::load_now(const Instruction& its) {
  std::uint32_t access = AccessTable::kNone;
  Cycle tags = its.begin + params_.l1_tag_latency;
  Cycle arrival = 0;
  std::uint32_t writes = 0;  // cycles
  for (const LineAccess& line : its.lines) {
    const auto deliver = [&](std::uint8_t sectors, const std::uint8_t* bytes) {
      return deliver_hit(its, line, sectors, bytes, 0);
    };
    const LineResult result =
        read_line(line, its.requester, l1_.look(tagged(line.line, its.requester)), {}, tags++, deliver);
    arrival = std::max(arrival, result.arrival);
    writes += result.hit;
    if (l2_.has_costs() && result.missing != 0) l2_.gate().called(result.arrival);
    const bool copies = result.come != 0 && l2_.has_costs();
    if (result.failure == AccessFailure::none && !copies) continue;
    if (access == AccessTable::kNone) access = begin(its);
    if (result.failure != AccessFailure::none) {
      fail(access, line, result);
    } else {
      const std::uint32_t transaction = accesses_.add_transaction(access, {line.line, line.lanes, result.missing});
      copies_.arrive(transaction, result.missing, result.come, result.arrival);
    }
  }
  Cycle last = its.begin + its.lines.count - 1;
  if (writes != 0) last = copies_.write_hit(its.begin, writes);
  return ended(access, last, arrival);
}

MemoryResult GlobalPath::load(const Instruction& its) {
  std::uint32_t access = AccessTable::kNone;
  Cycle tags = its.begin + params_.l1_tag_latency;
  std::uint32_t writes = 0;  // cycles
  for (const LineAccess& line : its.lines) {
    const std::uint32_t transaction = accesses_.take_transaction();
    const L1Cache::Load found = l1_.load(tagged(line.line, its.requester), line.sectors, transaction);
    HEDDLE_CHECK(found.accepted, "the L1 ran out of entries");
    if (found.hit != 0) {
      stats_.l1_hits.add(bits::count(found.hit));
      stats_.charge(its.requester.kernel, KernelCount::l1_hits, bits::count(found.hit));
      writes += deliver_hit(its, line, found.hit, found.bytes, 0);
    }
    const auto coming = static_cast<std::uint8_t>(found.merged | found.missing);
    if (coming == 0) {
      accesses_.give_back_transaction(transaction);
      ++tags;
      continue;
    }
    stats_.l1_misses.add(bits::count(coming));
    stats_.charge(its.requester.kernel, KernelCount::l1_misses, bits::count(coming));
    accesses_.set_transaction(transaction, {access, line.lanes, coming});
    if (access == AccessTable::kNone) access = begin(its);
    accesses_.join(transaction, access);
    if (found.missing != 0) {
      protocol::MemoryRequest& request = l2_.new_request(its.requester);
      aim_read(request, line.line, found.missing);
      l2_.submit(request, {L2Owner::kNone, found.entry}, tags);
    }
    ++tags;
  }
  Cycle last = its.begin + its.lines.count - 1;
  if (writes != 0) last = copies_.write_hit(its.begin, writes);
  return ended(access, last, 0);
}

MemoryResult GlobalPath::load_strong(const Instruction& its) {
  settle();
  const std::uint32_t access = begin(its);
  Cycle tags = its.begin + params_.l1_tag_latency;
  for (const LineAccess& line : its.lines) {
    l1_.forget(tagged(line.line, its.requester), line.sectors);
    protocol::MemoryRequest& request = l2_.new_request(its.requester);
    aim_read(request, line.line, line.sectors);
    if (its.operation.combines) {
      request.extension.action = protocol::MemoryAction::multimem;
      request.extension.atomic = its.operation.atomic;
      request.extension.type = its.operation.type;
    }
    l2_.submit(request, {accesses_.add_transaction(access, line), L2Owner::kNone}, tags++);
  }
  return accesses_.end(access);
}

MemoryResult GlobalPath::change(const Instruction& its) {
  settle();
  const std::uint32_t access = begin(its);
  Cycle tags = its.begin + params_.l1_tag_latency;
  for (const LineAccess& line : its.lines) {
    protocol::MemoryRequest& request = l2_.new_request(its.requester);
    if (its.operation.code == OpCode::store) {
      fill_store(request, its, line);
    } else {
      l1_.forget(tagged(line.line, its.requester), line.sectors);
      aim_atomic(request, its.operation, line);
    }
    l2_.submit(request, {accesses_.add_transaction(access, line), L2Owner::kNone}, tags++);
  }
  return accesses_.end(access);
}

void GlobalPath::fill_store(protocol::MemoryRequest& request, const Instruction& its, const LineAccess& line) {
  alignas(8) std::array<std::uint8_t, kLineBytes> bytes;  // NOLINT(*-init-variables): filled where it counts
  alignas(8) std::array<std::uint8_t, kLineBytes> enables;
  take_line(its.operation, line, bytes.data(), enables.data());
  if (is_strong(its.operation)) {
    l1_.forget(tagged(line.line, its.requester), line.sectors);
  } else {
    l1_.store(tagged(line.line, its.requester), 0, bytes.data(), enables.data(), kLineBytes);
  }
  const std::uint32_t offset = bits::lowest(line.sectors) * kSectorBytes;
  const std::uint32_t length = span_of(line.sectors);
  request.aim(tlm::TLM_WRITE_COMMAND, line.line + offset, length);
  request.extension.sectors = line.sectors;
  std::memcpy(request.data.data(), bytes.data() + offset, length);
  std::uint64_t all = ~std::uint64_t{0};
  for (std::uint32_t i = offset; i < offset + length; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, enables.data() + i, sizeof word);
    all &= word;
  }
  if (all != ~std::uint64_t{0}) std::memcpy(request.use_enables(), enables.data() + offset, length);
}

std::uint32_t GlobalPath::deliver_hit(const Instruction& its, const LineAccess& line, std::uint8_t sectors,
                                      const std::uint8_t* bytes, std::uint32_t offset) {
  Warp& owner = warps_[its.warp];
  const Operation& operation = its.operation;
  if (operation.code == OpCode::load && its.lines.unit_stride && sectors == line.sectors && operation.width >= 4) {
    const std::uint32_t first = bits::lowest(line.lanes);
    const std::uint64_t at = operation.address[first] - line.line - offset;
    put_lanes(owner.state.of(operation.destination), first, bits::count(line.lanes), operation.width, bytes + at);
    return 0;
  }
  if (operation.code == OpCode::load) {
    put_sectors(operation, line, sectors, bytes, offset, owner.state.of(operation.destination));
    return 0;
  }
  std::uint8_t* shared = shared_.data(owner.cta);
  LaneMask written = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((line.lanes >> lane & 1) == 0) continue;
    if ((sectors >> arch::sector_of(operation.address[lane]) & 1) == 0) continue;
    const std::uint64_t at = operation.address[lane] % kLineBytes - offset;
    shared_.will_write(owner.cta, operation.shared_address[lane], operation.width, its.warp);
    std::memcpy(shared + operation.shared_address[lane], bytes + at, operation.width);
    written |= LaneMask{1} << lane;
  }
  shared_.covered(owner.cta, written, operation.shared_address, operation.width);
  return copy_wavefronts(written, operation.shared_address, operation.width);
}

std::uint32_t GlobalPath::begin_fence(std::uint32_t warp, AccessClient& client) {
  Operation operation;
  operation.code = OpCode::fence;
  return accesses_.begin(operation, warp, false, client, AccessUse::warp);
}

void GlobalPath::ask_slice(std::uint32_t access, std::uint64_t address, protocol::MemoryAction action,
                           Cycle departure) {
  // The address only selects the slice.
  protocol::MemoryRequest& request = l2_.new_request({0, true, warps_[accesses_[access].warp].kernel});
  request.aim(tlm::TLM_IGNORE_COMMAND, address, kSectorBytes);
  request.extension.sectors = 0;
  request.extension.action = action;
  l2_.submit(request, {accesses_.add_transaction(access, {address, 1, 1}), L2Owner::kNone}, departure);
}

MemoryResult GlobalPath::flush(std::uint32_t warp, Cycle now, AccessClient& client) {
  settle();
  const std::uint32_t access = begin_fence(warp, client);
  Cycle departure = now + params_.l1_tag_latency;
  for (const std::uint64_t address : slice_addresses_) {
    ask_slice(access, address, protocol::MemoryAction::write_back, departure++);
  }
  return accesses_.end(access);
}

// A request of nothing, which the slice answers in its turn.
MemoryResult GlobalPath::fence(std::uint32_t warp, Cycle now, AccessClient& client) {
  settle();
  const std::uint32_t access = begin_fence(warp, client);
  ask_slice(access, fence_address_, protocol::MemoryAction::plain, now + params_.l1_tag_latency);
  return accesses_.end(access);
}

MemoryResult GlobalPath::fetch(std::uint32_t warp, std::uint64_t address, std::uint32_t number, Cycle departure,
                               AccessClient& client) {
  Operation operation;
  operation.code = OpCode::fence;  // no data for registers
  const std::uint32_t access = accesses_.begin(operation, warp, false, client, AccessUse::step);
  accesses_[access].pc = number;
  protocol::MemoryRequest& request = l2_.new_request({0, true, warps_[warp].kernel});
  aim_read(request, address, kAllSectors);
  l2_.submit(request, {accesses_.add_transaction(access, {address, 1, kAllSectors}), L2Owner::kNone}, departure);
  return accesses_.end(access);
}

void GlobalPath::answered(protocol::MemoryRequest& request, const L2Owner& owner, Cycle arrival) {
  const AccessFailure failure = failure_of(request);
  if (owner.entry != L2Owner::kNone) return read_ended(request, owner.entry, failure, arrival);
  const Transaction transaction = accesses_.transaction(owner.transaction);
  Access& access = accesses_.access_of(transaction);
  if (failure != AccessFailure::none) {
    // A store that was refused must not stay in the L1 either.
    if (access.kind == AccessKind::store) l1_.forget(tagged_line(request), transaction.sectors);
    accesses_.transaction_failed(owner.transaction, arch::line_of(request.get_address()), transaction.sectors, failure,
                                 arrival);
  } else if (!access.dead() && (access.kind == AccessKind::load || access.kind == AccessKind::copy)) {
    const auto offset = static_cast<std::uint32_t>(request.get_address() % kLineBytes);
    const std::uint32_t writes =
        accesses_.deliver(access, transaction.lanes, transaction.sectors, request.get_data_ptr(), offset, arrival);
    if (writes != 0 && l2_.has_costs()) {
      return copies_.arrive(owner.transaction, transaction.sectors, writes, arrival);
    }
  } else if (!access.dead() && access.kind == AccessKind::atomic) {
    put_old_values(request.extension, accesses_.registers_of(access));
  }
  accesses_.transaction_ended(owner.transaction, transaction.sectors, arrival);
}

void GlobalPath::read_ended(protocol::MemoryRequest& request, std::uint32_t entry, AccessFailure failure,
                            Cycle arrival) {
  const std::uint8_t* bytes = request.get_data_ptr();
  const auto offset = static_cast<std::uint32_t>(request.get_address() % kLineBytes);
  const std::uint64_t line = request.get_address() - offset;
  if (failure != AccessFailure::none) {
    l1_.fail(entry, [this, line, failure, arrival](std::uint32_t index, std::uint8_t sectors) {
      accesses_.transaction_failed(index, line, sectors, failure, arrival);
      accesses_.transaction_ended(index, sectors, arrival);
    });
    return;
  }
  l1_.fill(entry, bytes, offset, [this, bytes, offset, arrival](std::uint32_t index, std::uint8_t sectors) {
    const Transaction& transaction = accesses_.transaction(index);
    Access& access = accesses_.access_of(transaction);
    std::uint32_t writes = 0;
    if (!access.dead()) writes = accesses_.deliver(access, transaction.lanes, sectors, bytes, offset, arrival);
    if (writes != 0) return copies_.arrive(index, sectors, writes, arrival);
    accesses_.transaction_ended(index, sectors, arrival);
  });
}

}  // namespace heddle::sm
