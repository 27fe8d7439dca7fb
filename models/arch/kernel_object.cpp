#include "arch/kernel_object.h"

#include <algorithm>
#include <utility>

#include "arch/address_map.h"
#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::size_t kMagic = 0;
constexpr std::size_t kVersion = 4;
constexpr std::size_t kFlags = 6;
constexpr std::size_t kProgram = 8;
constexpr std::size_t kThreadsLimit = 12;
constexpr std::size_t kRegisters = 16;
constexpr std::size_t kStaticShared = 20;
constexpr std::size_t kShortest = 24;
constexpr std::size_t kLongest = 32;
constexpr std::size_t kCode = kKernelObjectCode;
constexpr std::size_t kCodeBytes = kLongest;
constexpr std::size_t kCodeRest = 36;
constexpr std::size_t kExtents = 40;
constexpr std::size_t kFallbacks = 64;
constexpr std::size_t kOrder = 88;
constexpr std::size_t kTile = 89;
constexpr std::size_t kReserved = 91;
constexpr std::size_t kName = 92;
constexpr std::size_t kDim3Bytes = 6;
static_assert(kExtents + kCgaLevels * kDim3Bytes == kFallbacks && kFallbacks + kMaxFallbacks * kDim3Bytes == kOrder);
static_assert(kTile + 2 == kReserved && kReserved + 1 == kName && kName + kKernelNameBytes == kKernelObjectBytes);

constexpr HsaResult bad(Reason reason) { return {HsaStatus::invalid_code_object, reason}; }

void put_dim3(KernelObjectBytes& bytes, std::size_t at, const Dim3& dim) {
  for (const std::uint32_t extent : {dim.x, dim.y, dim.z}) {
    HEDDLE_CHECK(extent <= 0xFFFF, "an extent above 65535 in a kernel object");
    put_number(bytes, at, 2, extent);
    at += 2;
  }
}

Dim3 get_dim3(const KernelObjectBytes& bytes, std::size_t at) {
  return {get_16(bytes, at), get_16(bytes, at + 2), get_16(bytes, at + 4)};
}

bool any_level(const ClusterShape& cluster) {
  return std::any_of(cluster.extents.begin(), cluster.extents.end(), [](const Dim3& d) { return d != kNoExtents; });
}

std::uint16_t flags_of(const KernelObject& object) {
  const ClusterShape& cluster = object.cluster;
  std::uint32_t flags = cluster.mode == CgaMode::load_balancing ? kObjectLoadBalancing : 0;
  if (cluster.linear_memory) flags |= kObjectLinearMemory;
  if (any_level(cluster)) flags |= kObjectClusters;
  if (object.cooperative) flags |= kObjectCooperative;
  if (object.code.any()) flags |= kObjectCode;
  return static_cast<std::uint16_t>(flags);
}

// A grid of one outermost CGA: what is wrong with the clusters then is wrong with them in every grid.
Dim3 smallest_grid(const ClusterShape& cluster) {
  for (std::size_t level = kCgaLevels; level-- > 0;) {
    if (cluster.extents[level] != kNoExtents) return cluster.extents[level];
  }
  return {};
}

// The program: a number, code in memory, or none, and then a duration.
HsaResult decode_program(const KernelObjectBytes& bytes, KernelObject& object) {
  constexpr std::uint32_t kKnown =
      kObjectLoadBalancing | kObjectLinearMemory | kObjectClusters | kObjectCooperative | kObjectCode;
  const std::uint16_t flags = get_16(bytes, kFlags);
  if ((flags & ~kKnown) != 0) return bad(Reason::object_flags);
  object.program = get_32(bytes, kProgram);
  object.duration = {};
  object.code = {};
  if ((flags & kObjectCode) == 0) {
    object.duration = {get_64(bytes, kShortest), get_64(bytes, kLongest)};
    const CtaDuration& duration = object.duration;
    const bool lasts = duration.min >= 1 && duration.min <= duration.max && duration.max <= kMaxCtaCycles;
    return object.program == 0 && !lasts ? bad(Reason::object_duration) : HsaResult{};
  }
  const KernelObject::CodePlace code{get_64(bytes, kCode), get_32(bytes, kCodeBytes)};
  if (object.program != 0) return bad(Reason::object_program);
  if (get_32(bytes, kCodeRest) != 0) return bad(Reason::object_reserved);
  if (code.bytes == 0 || code.bytes > kMostCodeBytes || code.address == 0 || code.address % kCodeAlignment != 0 ||
      in_host_window(code.address) || in_host_window(code.address + code.bytes - 1)) {
    return bad(Reason::object_code);
  }
  object.code = code;
  return {};
}

HsaResult decode_clusters(const KernelObjectBytes& bytes, ClusterShape& cluster) {
  const std::uint16_t flags = get_16(bytes, kFlags);
  cluster.mode = (flags & kObjectLoadBalancing) != 0 ? CgaMode::load_balancing : CgaMode::multicast;
  cluster.linear_memory = (flags & kObjectLinearMemory) != 0;
  for (std::size_t i = 0; i < kCgaLevels; ++i) cluster.extents[i] = get_dim3(bytes, kExtents + kDim3Bytes * i);
  for (std::size_t i = 0; i < kMaxFallbacks; ++i) cluster.fallback[i] = get_dim3(bytes, kFallbacks + kDim3Bytes * i);
  if (any_level(cluster) != ((flags & kObjectClusters) != 0)) return bad(Reason::object_grid_kind);
  if (!why_malformed(smallest_grid(cluster), cluster, ~std::uint32_t{0}).empty()) {
    return bad(Reason::object_extents);
  }
  return {};
}

void put_order(KernelObjectBytes& bytes, const RasterOrder& order) {
  put_number(bytes, kOrder, 1, static_cast<std::uint8_t>(order.kind));
  if (order.kind != RasterOrder::Kind::tiles) return;
  put_number(bytes, kTile, 1, order.tile_x);
  put_number(bytes, kTile + 1, 1, order.tile_y);
}

HsaResult decode_order(const KernelObjectBytes& bytes, RasterOrder& order) {
  order = {};
  const std::uint8_t kind = bytes[kOrder];
  const std::uint8_t x = bytes[kTile];
  const std::uint8_t y = bytes[kTile + 1];
  if (kind > static_cast<std::uint8_t>(RasterOrder::Kind::hilbert)) return bad(Reason::object_order);
  order.kind = static_cast<RasterOrder::Kind>(kind);
  const bool tiles = order.kind == RasterOrder::Kind::tiles;
  if (tiles != (x != 0) || tiles != (y != 0)) return bad(Reason::object_tile);
  if (tiles) order = {order.kind, x, y};
  return {};
}

HsaResult decode_name(const KernelObjectBytes& bytes, std::string& name) {
  const auto begin = bytes.begin() + kName;
  const auto end = std::find(begin, bytes.end(), 0);
  if (end == bytes.end()) return bad(Reason::object_name);
  if (std::any_of(end, bytes.end(), [](std::uint8_t byte) { return byte != 0; })) {
    return bad(Reason::object_name_rest);
  }
  name.assign(begin, end);
  return {};
}

std::uint32_t workgroups(std::uint32_t items, std::uint16_t workgroup) {
  return static_cast<std::uint32_t>((std::uint64_t{items} + workgroup - 1) / workgroup);
}

std::uint32_t rest(std::uint32_t items, std::uint32_t block, std::uint32_t cta) {
  const std::uint64_t before = std::uint64_t{cta} * block;
  HEDDLE_CHECK(before < items, "a CTA beyond the work-items of its grid");
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(block, items - before));
}

bool covers(std::uint32_t grid, std::uint32_t block, std::uint32_t items) {
  return block > 0 && grid == (std::uint64_t{items} + block - 1) / block;
}

}  // namespace

KernelObjectBytes encode(const KernelObject& object) {
  HEDDLE_CHECK(object.name.size() < kKernelNameBytes, "the name of a kernel object has at most 35 bytes");
  HEDDLE_CHECK(object.name.find('\0') == std::string::npos, "a 0 in the name of a kernel object");
  KernelObjectBytes bytes{};
  put_number(bytes, kMagic, 4, kKernelObjectMagic);
  put_number(bytes, kVersion, 2, kKernelObjectVersion);
  put_number(bytes, kFlags, 2, flags_of(object));
  if (!object.code.any()) put_number(bytes, kProgram, 4, object.program);
  put_number(bytes, kThreadsLimit, 4, object.threads_limit);
  put_number(bytes, kRegisters, 4, object.registers_per_thread);
  put_number(bytes, kStaticShared, 4, object.static_shared);
  if (object.code.any()) {
    put_number(bytes, kCode, 8, object.code.address);
    put_number(bytes, kCodeBytes, 4, object.code.bytes);
  } else {
    put_number(bytes, kShortest, 8, object.duration.min);
    put_number(bytes, kLongest, 8, object.duration.max);
  }
  for (std::size_t i = 0; i < kCgaLevels; ++i) put_dim3(bytes, kExtents + kDim3Bytes * i, object.cluster.extents[i]);
  for (std::size_t i = 0; i < kMaxFallbacks; ++i) {
    put_dim3(bytes, kFallbacks + kDim3Bytes * i, object.cluster.fallback[i]);
  }
  put_order(bytes, object.raster);
  std::copy(object.name.begin(), object.name.end(), bytes.begin() + kName);
  return bytes;
}

HsaResult decode(const KernelObjectBytes& bytes, KernelObject& object) {
  if (get_32(bytes, kMagic) != kKernelObjectMagic) return bad(Reason::object_magic);
  if (get_16(bytes, kVersion) != kKernelObjectVersion) return bad(Reason::object_version);
  object.threads_limit = get_32(bytes, kThreadsLimit);
  object.registers_per_thread = get_32(bytes, kRegisters);
  object.static_shared = get_32(bytes, kStaticShared);
  if (bytes[kReserved] != 0) return bad(Reason::object_reserved);
  if (const HsaResult result = decode_program(bytes, object); !result.ok()) return result;
  if (const HsaResult result = decode_clusters(bytes, object.cluster); !result.ok()) return result;
  object.cooperative = (get_16(bytes, kFlags) & kObjectCooperative) != 0;
  if (const HsaResult result = decode_order(bytes, object.raster); !result.ok()) return result;
  return decode_name(bytes, object.name);
}

KernelShape shape_of(const DispatchFields& fields, const KernelObject& object, std::uint8_t subcontext) {
  HEDDLE_CHECK(object.static_shared <= fields.group_segment, "the group segment of a kernel was not checked");
  KernelShape shape;
  shape.grid = {workgroups(fields.grid[0], fields.workgroup[0]), workgroups(fields.grid[1], fields.workgroup[1]),
                workgroups(fields.grid[2], fields.workgroup[2])};
  shape.block = {fields.workgroup[0], fields.workgroup[1], fields.workgroup[2]};
  shape.registers_per_thread = object.registers_per_thread;
  shape.shared_bytes = fields.group_segment;
  if (object.program == 0) shape.duration = object.duration;
  shape.cluster = object.cluster;
  shape.raster = object.raster;
  shape.cooperative = object.cooperative;
  shape.local_bytes = fields.private_segment;
  shape.subcontext = subcontext;
  shape.code = object.program;
  return shape;
}

WorkItems items_of(const DispatchFields& fields) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (fields.grid[i] % fields.workgroup[i] != 0) return {{fields.grid[0], fields.grid[1], fields.grid[2]}};
  }
  return {};
}

Dim3 Code::block_of(const Dim3& cta) const {
  if (!items.any()) return block;
  return {rest(items.items.x, block.x, cta.x), rest(items.items.y, block.y, cta.y),
          rest(items.items.z, block.z, cta.z)};
}

bool CodeStore::is_lent(std::uint32_t code) const {
  return code != kNoCode && entries_.holds(code - 1) && entries_[code - 1].lent;
}

Code CodeStore::plain(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel) {
  Code code;
  code.program = std::move(program);
  code.grid = kernel.grid;
  code.block = kernel.block;
  code.shared_bytes = kernel.shared_bytes;
  code.local_bytes = kernel.local_bytes;
  code.cluster = kernel.cluster;
  return code;
}

std::uint32_t CodeStore::add(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel) {
  HEDDLE_CHECK(program != nullptr, "a code without a program");
  return enter(plain(std::move(program), kernel), false);
}

std::uint32_t CodeStore::add(std::shared_ptr<const Demand> demand, const KernelShape& kernel) {
  HEDDLE_CHECK(demand != nullptr, "a code without a demand");
  Code code = plain(nullptr, kernel);
  code.demand = std::move(demand);
  return enter(std::move(code), false);
}

void CodeStore::add_at(std::uint32_t code, std::shared_ptr<const WarpProgram> program, const KernelShape& kernel) {
  HEDDLE_CHECK(code != kNoCode && !entries_.holds(code - 1), "a code was added where there is one");
  HEDDLE_CHECK(program != nullptr, "a code without a program");
  entries_.take_at(code - 1);
  entries_[code - 1] = {plain(std::move(program), kernel), false, 0};
  entries_[code - 1].code.text = code - 1;
}

void CodeStore::remove(std::uint32_t code) {
  HEDDLE_CHECK(has(code) && launches(code) == 0, "a code was removed that is not there, or that launches have");
  entries_[code - 1] = {};
  entries_.give_back(code - 1);
}

std::uint32_t CodeStore::launches(std::uint32_t code) const {
  HEDDLE_CHECK(has(code), "there is no such code");
  return entries_[code - 1].launches;
}

bool CodeStore::has(std::uint32_t code) const {
  return code != kNoCode && entries_.holds(code - 1) && !entries_[code - 1].lent;
}

const Code& CodeStore::at(std::uint32_t code) const {
  HEDDLE_CHECK(code != kNoCode && entries_.holds(code - 1), "there is no such code");
  return entries_[code - 1].code;
}

std::uint32_t CodeStore::lend(std::uint32_t program, const KernelShape& kernel, const WorkItems& items,
                              std::uint64_t kernarg) {
  HEDDLE_CHECK(has(program), "a launch of a program that nobody added");
  const Dim3& all = items.items;
  HEDDLE_CHECK(
      !items.any() || (covers(kernel.grid.x, kernel.block.x, all.x) && covers(kernel.grid.y, kernel.block.y, all.y) &&
                       covers(kernel.grid.z, kernel.block.z, all.z)),
      "a grid that does not cover its work-items");
  return enter({at(program).program,
                at(program).demand,
                at(program).text,
                kernel.grid,
                kernel.block,
                kernel.shared_bytes,
                kernel.local_bytes,
                kernel.cluster,
                items,
                kernarg,
                {}},
               true);
}

std::uint32_t CodeStore::lend(std::uint32_t program, const KernelShape& kernel, const QueueGeometry& queue) {
  HEDDLE_CHECK(has(program), "a queue task of a program that nobody added");
  HEDDLE_CHECK(queue.any(), "a queue task without a queue");
  const Dim3 row{kMaxGridX, 1, 1};
  return enter({at(program).program,
                at(program).demand,
                at(program).text,
                row,
                kernel.block,
                kernel.shared_bytes,
                kernel.local_bytes,
                kernel.cluster,
                {},
                0,
                queue},
               true);
}

std::uint32_t CodeStore::enter(Code code, bool lent) {
  const std::uint32_t index = entries_.take();
  if (lent) {
    ++entries_[code.text].launches;
  } else {
    code.text = index;
  }
  entries_[index] = {std::move(code), lent, 0};
  lent_ += lent ? 1 : 0;
  return index + 1;
}

void CodeStore::give_back(std::uint32_t code) {
  HEDDLE_CHECK(is_lent(code), "a code was given back that was not lent");
  --entries_[entries_[code - 1].code.text].launches;
  entries_[code - 1] = {};
  entries_.give_back(code - 1);
  --lent_;
}

void CodeStore::reset() {
  for (std::uint32_t code = 1; code <= entries_.size(); ++code) {
    if (is_lent(code)) give_back(code);
  }
}

}  // namespace heddle::arch
