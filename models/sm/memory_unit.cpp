#include "sm/memory_unit.h"

#include <algorithm>
#include <cstring>

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
  return operation.order != arch::Order::weak && operation.scope != arch::Scope::cta;
}

AccessKind kind_of(const Operation& operation) {
  switch (operation.code) {
    case OpCode::store:
      return AccessKind::store;
    case OpCode::atomic:
      return operation.destination == arch::kNoRegister ? AccessKind::reduce : AccessKind::atomic;
    case OpCode::async_copy:
      return AccessKind::copy;
    case OpCode::mbarrier_arrive:
    case OpCode::mbarrier_expect:
    case OpCode::mbarrier_complete:
      return AccessKind::mbarrier;
    default:
      return AccessKind::load;
  }
}

// One address of every slice: the first lines of memory that lead there.
std::vector<std::uint64_t> addresses_of_slices(const arch::AddressMap& map) {
  std::vector<std::uint64_t> result(map.slices(), 0);
  for (std::uint64_t line = 0; line < map.slices(); ++line) {
    result[map.slice_of(line * kLineBytes)] = line * kLineBytes;
  }
  return result;
}

std::uint32_t first_sector(std::uint8_t sectors) { return static_cast<std::uint32_t>(__builtin_ctz(sectors)); }
// Bytes from the first to the last of them.
std::uint32_t span_of(std::uint8_t sectors) {
  const auto last = static_cast<std::uint32_t>(31 - __builtin_clz(sectors));
  return (last - first_sector(sectors) + 1) * kSectorBytes;
}

void aim_read(protocol::MemoryRequest& request, std::uint64_t line, std::uint8_t sectors) {
  request.aim(tlm::TLM_READ_COMMAND, line + std::uint64_t{first_sector(sectors)} * kSectorBytes, span_of(sectors));
  request.extension.sectors = sectors;
}

// Above it an address is outside memory, and its place belongs to the subcontext.
constexpr std::uint32_t kTagBit = 56;
constexpr std::uint64_t kNobody = 0xFF;

}  // namespace

// Lines of different subcontexts are different lines (PRT-08). What is outside memory never comes, and has no owner.
inline std::uint64_t MemoryUnit::tagged(std::uint64_t line, Asker asker) {
  const std::uint64_t owner = asker.physical ? 0 : asker.subcontext;
  if (line >> kTagBit == 0) return line | owner << kTagBit;
  return (line & ((std::uint64_t{1} << kTagBit) - 1)) | kNobody << kTagBit;
}

std::uint64_t MemoryUnit::tagged(std::uint64_t line, const protocol::MemoryRequest& request) {
  return tagged(line, Asker{request.extension.subcontext, request.extension.physical});
}

inline protocol::MemoryRequest& MemoryUnit::new_request(Asker asker) {
  protocol::MemoryRequest& request = pool_.acquire();
  request.extension.subcontext = asker.subcontext;
  request.extension.physical = asker.physical;
  return request;
}

MemoryUnit::MemoryUnit(Domain& domain, MemoryOut& out, const SmParams& params, const MemoryView& view, std::uint32_t sm,
                       std::vector<Warp>& warps, MemoryClient& client, SmStats& stats, const ClusterTables& tables,
                       const ClusterLinks& links, const BulkLinks& bulk)
    : domain_(domain),
      out_(out),
      params_(params.memory),
      blocking_(domain.mode() == TimingMode::lt),
      sm_(sm),
      warps_(warps),
      client_(client),
      stats_(stats),
      tables_(tables),
      links_(links),
      bulk_(bulk),
      slice_addresses_(addresses_of_slices(view.map)),
      swizzles_(swizzles_of(params)),
      tile_costs_(swizzles_),
      port_(params.memory.queue),
      shared_(params.limits.shared_bytes, params.limits.ctas),
      // An instruction can issue while one more request may be open, and then needs an entry for each lane.
      l1_(params.memory.l1_ways, params.memory.requests + kWarpLanes),
      cluster_of_cta_(params.limits.ctas) {}

void MemoryUnit::reset() {
  open_.for_each([](Open& open) { open.request->release(); });
  for (protocol::MemoryRequest* request : retired_) request->release();
  retired_.clear();
  open_.clear();
  sends_.for_each([](BulkSend& send) { send.request->release(); });
  sends_.clear();
  accesses_.clear();
  parts_.clear();
  waiting_.clear();
  port_.reset();
  shared_.reset();
  l1_.reset();
  ledger_.reset();
  cluster_waiting_.clear();
  replies_.clear();  // the payloads are other SMs'
  std::fill(cluster_of_cta_.begin(), cluster_of_cta_.end(), 0);
  cluster_of_cga_.fill(0);
  last_departure_ = last_request_ = last_reply_ = 0;
  depth_ = 0;
  sending_ = was_stopped_ = false;
}

void MemoryUnit::forget(std::uint32_t cta) {
  accesses_.for_each([cta](Access& access) { access.dead |= access.cta == cta && !access.orphan && !access.step; });
}

MemoryUnit::Result MemoryUnit::shared(const Operation& operation, std::uint32_t window, std::uint32_t warp, Cycle now) {
  const std::uint32_t cycles = std::max(1U, wavefronts(operation));
  const auto lanes = static_cast<std::uint32_t>(__builtin_popcount(operation.lanes));
  const std::uint32_t least = std::max(1U, (lanes * operation.width + kLineBytes - 1) / kLineBytes);
  stats_.shared_wavefronts.add(cycles);
  if (cycles > least) stats_.shared_conflicts.add(cycles - least);
  std::uint32_t* registers = nullptr;
  if (operation.destination != arch::kNoRegister) registers = warps_[warp].state.of(operation.destination);
  switch (operation.code) {
    case OpCode::load:
      shared_.load(window, operation, registers);
      break;
    case OpCode::store:
      shared_.store(window, operation);
      break;
    default:
      shared_.atomic(window, operation, registers);
  }
  const Cycle begin = port_.take(now, cycles);
  return {begin + cycles - 1 + params_.shared_latency, 0, false, false};
}

Cycle MemoryUnit::read_tile(const arch::MatmulTile& tile, Cycle now) {
  const std::uint64_t cycles = tile_costs_.cycles(tile);
  const std::uint64_t least = (tile_bytes(tile) + kLineBytes - 1) / kLineBytes;
  stats_.shared_wavefronts.add(cycles);
  if (cycles > least) stats_.shared_conflicts.add(cycles - least);
  return port_.take_past_queue(now, cycles) + cycles;
}

MemoryUnit::Result MemoryUnit::global(const Operation& operation, std::uint32_t warp, Cycle now, bool physical) {
  const Asker asker{warps_[warp].subcontext, physical};
  const std::uint32_t width = operation.code == OpCode::atomic ? arch::bytes_of(operation.type) : operation.width;
  static thread_local LineAccesses lines;  // large, and needed by one SM at a time
  coalesce(operation.lanes, operation.address, width, lines);
  const Cycle begin = port_.take(now, std::max(1U, lines.count));
  if (lines.count == 0) return {begin + params_.l1_latency, 0, false, false};
  if (operation.code == OpCode::store || operation.code == OpCode::atomic) {
    return change(operation, lines, warp, begin, asker);
  }
  if (is_strong(operation)) return load_strong(operation, lines, warp, begin, asker);
  return load(operation, lines, warp, begin, asker);
}

std::uint32_t MemoryUnit::begin(const Operation& operation, std::uint32_t warp, bool row) {
  const std::uint32_t index = accesses_.take();
  Access& access = accesses_[index];
  const Warp& owner = warps_[warp];
  access.kind = kind_of(operation);
  access.dead = access.failed = false;
  access.cluster = access.posted = access.orphan = access.outside = access.poisoned = false;
  access.unmapped = access.read_only = false;
  access.step = owner.stepping;
  access.blocks = arch::acquires(operation.order) && access.kind != AccessKind::copy;
  access.acquires = access.blocks && operation.scope != arch::Scope::cta;
  access.code = operation.code;
  access.width = static_cast<std::uint8_t>(dsmem_width(operation));
  access.destination = operation.destination;
  access.warp = warp;
  access.cta = owner.cta;
  access.pc = owner.issued_pc;
  access.open = 1;  // until end()
  access.last = 0;
  access.row = row;
  for (std::uint32_t lane = 0; lane < (row ? 1 : kWarpLanes); ++lane) {
    access.offset[lane] = static_cast<std::uint8_t>(operation.address[lane] % kLineBytes);
  }
  if (access.kind == AccessKind::copy) {
    access.group = owner.current_group();
    access.shared_address = operation.shared_address;
  }
  return index;
}

std::uint32_t MemoryUnit::add_part(std::uint32_t access, const LineAccess& line) {
  const std::uint32_t index = parts_.take();
  parts_[index] = {access, line.lanes, line.sectors};
  ++accesses_[access].open;
  return index;
}

// Everything has been asked for. Loosely timed, everything has been answered as well.
MemoryUnit::Result MemoryUnit::end(std::uint32_t index) {
  Access& access = accesses_[index];
  if (--access.open > 0) return {kNeverReady, 0, true, false};
  const Cycle last = access.last;
  const bool lost = access.failed;
  accesses_.give_back(index);
  if (lost) return {kNeverReady, last, true, true};
  return {last + params_.l1_latency - params_.l1_tag_latency, last, false, false};
}

MemoryUnit::Result MemoryUnit::load(const Operation& operation, const LineAccesses& lines, std::uint32_t warp,
                                    Cycle begin_cycle, Asker asker) {
  std::uint32_t access = kNone;
  Cycle tags = begin_cycle + params_.l1_tag_latency;
  Cycle arrival = 0;
  for (const LineAccess& line : lines) {
    const std::uint32_t part = parts_.take();
    const L1Cache::Load found = l1_.load(tagged(line.line, asker), line.sectors, part);
    HEDDLE_CHECK(found.accepted, "the L1 ran out of entries");
    if (found.hit != 0) {
      stats_.l1_hits.add(static_cast<std::uint32_t>(__builtin_popcount(found.hit)));
      deliver_hit(operation, warp, line, lines.row, found.hit, found.bytes, 0);
    }
    const auto coming = static_cast<std::uint8_t>(found.merged | found.missing);
    if (blocking_ && found.missing != 0) {
      arrival = std::max(arrival, tags);
      stats_.l1_misses.add(static_cast<std::uint32_t>(__builtin_popcount(coming)));
      parts_[part] = {kNone, line.lanes, coming};
      const Outcome outcome = read_blocking(operation, warp, line, lines.row, found.missing, found.entry, arrival);
      if (outcome == Outcome::ok) {
        parts_.give_back(part);
      } else {
        if (access == kNone) access = begin(operation, warp, lines.row);
        parts_[part].access = access;
        ++accesses_[access].open;
        part_failed(part, line.line, found.missing, outcome, arrival);
        part_ended(part, coming, arrival);
      }
    } else if (coming == 0) {
      parts_.give_back(part);
    } else {
      stats_.l1_misses.add(static_cast<std::uint32_t>(__builtin_popcount(coming)));
      if (access == kNone) access = begin(operation, warp, lines.row);
      parts_[part] = {access, line.lanes, coming};
      ++accesses_[access].open;
    }
    if (found.missing != 0 && !blocking_) {
      protocol::MemoryRequest& request = new_request(asker);
      aim_read(request, line.line, found.missing);
      submit(request, access, kNone, found.entry, tags);
    }
    ++tags;
  }
  const Cycle hit = begin_cycle + lines.count - 1 + params_.l1_latency;
  if (access == kNone) {
    if (arrival == 0) return {hit, 0, false, false};
    return {std::max(hit, arrival + params_.l1_latency - params_.l1_tag_latency), arrival, false, false};
  }
  Result result = end(access);
  result.ready = std::max(result.ready, hit);
  return result;
}

// The whole of a read, without what only one under way needs.
MemoryUnit::Outcome MemoryUnit::read_blocking(const Operation& operation, std::uint32_t warp, const LineAccess& line,
                                              bool row, std::uint8_t sectors, std::uint32_t entry, Cycle& arrival) {
  protocol::MemoryRequest& request = new_request({warps_[warp].subcontext, false});
  aim_read(request, line.line, sectors);
  request.extension.sm = sm_;
  stats_.requests.add();
  stats_.global_bytes.add(request.get_data_length());
  sc_core::sc_time delay = domain_.delay_until(arrival);
  out_.blocking(request, delay);
  arrival = domain_.cycle_after(delay);
  ledger_.note(arrival);
  const Outcome outcome = outcome_of(request);
  const auto nobody = [](std::uint32_t, std::uint8_t) {};
  if (outcome == Outcome::ok) {
    const auto offset = static_cast<std::uint32_t>(request.get_address() % kLineBytes);
    const std::uint8_t* bytes = request.get_data_ptr();
    l1_.fill(entry, bytes, offset, nobody);
    deliver_hit(operation, warp, line, row, sectors, bytes, offset);
  } else {
    l1_.fail(entry, nobody);
  }
  request.release();
  return outcome;
}

MemoryUnit::Result MemoryUnit::load_strong(const Operation& operation, const LineAccesses& lines, std::uint32_t warp,
                                           Cycle begin_cycle, Asker asker) {
  const std::uint32_t access = begin(operation, warp, lines.row);
  Cycle tags = begin_cycle + params_.l1_tag_latency;
  for (const LineAccess& line : lines) {
    l1_.forget(tagged(line.line, asker), line.sectors);
    protocol::MemoryRequest& request = new_request(asker);
    aim_read(request, line.line, line.sectors);
    submit(request, access, add_part(access, line), kNone, tags++);
  }
  return end(access);
}

MemoryUnit::Result MemoryUnit::change(const Operation& operation, const LineAccesses& lines, std::uint32_t warp,
                                      Cycle begin_cycle, Asker asker) {
  const std::uint32_t access = begin(operation, warp, lines.row);
  Cycle tags = begin_cycle + params_.l1_tag_latency;
  for (const LineAccess& line : lines) {
    protocol::MemoryRequest& request = new_request(asker);
    if (operation.code == OpCode::store) {
      fill_store(request, operation, line, asker);
    } else {
      l1_.forget(tagged(line.line, asker), line.sectors);
      fill_atomic(request, operation, line);
    }
    submit(request, access, add_part(access, line), kNone, tags++);
  }
  return end(access);
}

void MemoryUnit::fill_store(protocol::MemoryRequest& request, const Operation& operation, const LineAccess& line,
                            Asker asker) {
  alignas(8) std::array<std::uint8_t, kLineBytes> bytes;  // NOLINT(*-init-variables): filled where it counts
  alignas(8) std::array<std::uint8_t, kLineBytes> enables;
  take_line(operation, line, bytes.data(), enables.data());
  if (is_strong(operation)) {
    l1_.forget(tagged(line.line, asker), line.sectors);
  } else {
    l1_.store(tagged(line.line, asker), 0, bytes.data(), enables.data(), kLineBytes);
  }
  const std::uint32_t offset = first_sector(line.sectors) * kSectorBytes;
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

void MemoryUnit::fill_atomic(protocol::MemoryRequest& request, const Operation& operation, const LineAccess& line) {
  request.aim(tlm::TLM_IGNORE_COMMAND, line.line + std::uint64_t{first_sector(line.sectors)} * kSectorBytes,
              span_of(line.sectors));
  protocol::MemoryExtension& extension = request.extension;
  extension.sectors = line.sectors;
  extension.action =
      operation.destination == arch::kNoRegister ? protocol::MemoryAction::reduce : protocol::MemoryAction::atomic;
  fill_lanes(extension, operation, line);
}

void MemoryUnit::deliver_hit(const Operation& operation, std::uint32_t warp, const LineAccess& line, bool row,
                             std::uint8_t sectors, const std::uint8_t* bytes, std::uint32_t offset) {
  Warp& owner = warps_[warp];
  if (operation.code == OpCode::load && row && sectors == line.sectors && operation.width >= 4) {
    const auto first = static_cast<std::uint32_t>(__builtin_ctz(line.lanes));
    const std::uint64_t at = operation.address[first] - line.line - offset;
    put_row(owner.state.of(operation.destination), first, static_cast<std::uint32_t>(__builtin_popcount(line.lanes)),
            operation.width, bytes + at);
    return;
  }
  if (operation.code == OpCode::load) {
    put_sectors(operation, line, sectors, bytes, offset, owner.state.of(operation.destination));
    return;
  }
  std::uint8_t* shared = shared_.data(owner.cta);
  LaneMask written = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((line.lanes >> lane & 1) == 0) continue;
    if ((sectors >> arch::sector_of(operation.address[lane]) & 1) == 0) continue;
    const std::uint64_t at = operation.address[lane] % kLineBytes - offset;
    std::memcpy(shared + operation.shared_address[lane], bytes + at, operation.width);
    written |= LaneMask{1} << lane;
  }
  shared_.covered(owner.cta, written, operation.shared_address, operation.width);
}

MemoryUnit::Result MemoryUnit::flush(std::uint32_t warp, Cycle now) {
  Operation operation;
  operation.code = OpCode::fence;
  const std::uint32_t access = begin(operation, warp, false);
  accesses_[access].kind = AccessKind::flush;
  Cycle departure = now + params_.l1_tag_latency;
  for (const std::uint64_t address : slice_addresses_) {
    protocol::MemoryRequest& request = new_request({0, true});  // the address only selects the slice
    request.aim(tlm::TLM_IGNORE_COMMAND, address, kSectorBytes);
    request.extension.sectors = 0;
    request.extension.action = protocol::MemoryAction::write_back;
    submit(request, access, add_part(access, {address, 1, 1}), kNone, departure++);
  }
  return end(access);
}

}  // namespace heddle::sm
