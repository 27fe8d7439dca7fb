#include "cwd/launch_bits.h"

#include <algorithm>

#include "arch/task_record.h"

namespace heddle::cwd {

using protocol::kFurtherMasks;

namespace {

// Bits of a number below `count`.
constexpr std::uint32_t width(std::uint64_t count) {
  std::uint32_t bits = 0;
  while ((std::uint64_t{1} << bits) < count) ++bits;
  return bits;
}
static_assert(LaunchBits::kSize == width(1 + arch::kMaxFallbacks));

constexpr std::uint32_t kFlags = 6;  // end of a CGA, begin of a GPC_CGA, and what may follow: slot, extents, state, id

std::uint32_t sum(const std::vector<LaunchBits::Field>& fields) {
  std::uint32_t bits = 0;
  for (const LaunchBits::Field& field : fields) bits += field.when.empty() ? field.bits : 0;
  return bits;
}

}  // namespace

LaunchBits::LaunchBits(const CwdParams& params, const arch::Topology& topology) {
  std::uint32_t sms = 0;
  std::uint32_t tpcs = 0;
  std::uint32_t all_tpcs = 0;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    sms = std::max(sms, topology.gpc(g).sms);
    tpcs = std::max(tpcs, static_cast<std::uint32_t>(topology.gpc(g).tpcs.size()));
    all_tpcs += static_cast<std::uint32_t>(topology.gpc(g).tpcs.size());
  }
  task_ = width(params.table_slots + params.evicted_tasks);
  virtual_gpc_ = width(topology.gpcs());
  mask_ = sms;
  masks_ = width(1 + kFurtherMasks);
  further_masks_ = params.masks_per_packet - 1;
  ctas_ = width(std::uint64_t{sms} * (1 + kFurtherMasks) + 1);
  memory_slot_ = width(params.memory_slots);
  barrier_ = width(params.gpu_cga_barriers);
  tpcs_ = tpcs;
  within_ = 32;
  tpc_ = width(tpcs);
  subcontext_ = width(arch::kSubcontexts);
  block_ = width(params.local_memory_blocks == 0 ? all_tpcs : params.local_memory_blocks);
  header_ = sum(launch_fields());
  local_ = sum(local_fields());
}

std::vector<LaunchBits::Field> LaunchBits::launch_fields() const {
  return {{"task id", task_},
          {"virtual GPC", virtual_gpc_},
          {"SM mask", mask_},
          {"further masks", masks_},
          {"CTAs", ctas_},
          {"CGA sequence number", kSequence},
          {"flags", kFlags},
          {"a further mask", mask_, "an SM gets more than one CTA of the CGA", further_masks_},
          {"CGA memory slot", memory_slot_, "the grid has CGA linear memory"},
          {"barrier of a wide CGA", barrier_, "the CTAs are in a GPU_CGA or uGPU_CGA: one for each", 2},
          {"size index", kSize, "the grid's CGAs have several sizes"},
          {"extents of the grid and of each level of its CGAs", kCoord,
           "the grid begins, or a TPC is told where it stands", 1 + arch::RasterShape::kMaxLevels},
          {"late TPCs, coordinate, CTAs within the outermost CGA", tpcs_ + kCoord + within_,
           "a TPC is told where the grid stands"},
          {"CTA id", kCoord, "ids are made in the distributor, or the CTA was saved"}};
}

std::vector<LaunchBits::Field> LaunchBits::local_fields() const {
  return {{"virtual GPC", virtual_gpc_}, {"TPC", tpc_}, {"subcontext", subcontext_}, {"block", block_}};
}

std::uint32_t LaunchBits::of(const protocol::LaunchPacket& packet) const {
  const auto further = static_cast<std::uint32_t>(std::count_if(
      packet.further_masks.begin(), packet.further_masks.end(), [](std::uint64_t mask) { return mask != 0; }));
  std::uint32_t bits = header_ + further * mask_;
  if (packet.memory_slot) bits += memory_slot_;
  packet.barriers.for_each([&](arch::CgaLevel, protocol::BarrierSlot) { bits += barrier_; });
  if (packet.shape.sizes > 1) bits += kSize;
  if (packet.begins || packet.sync) bits += (1U + packet.shape.levels) * kCoord;
  if (packet.sync) bits += tpcs_ + kCoord + within_;
  if (packet.id) bits += kCoord;
  return bits;
}

}  // namespace heddle::cwd
