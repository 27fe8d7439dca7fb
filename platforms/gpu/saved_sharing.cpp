#include "gpu/saved_sharing.h"

#include "common/error.h"
#include "cwd/saved_shares.h"

namespace heddle::gpu {

using protocol::SubcontextPacket;
using What = SubcontextPacket::What;

namespace {

constexpr std::uint64_t kMostChanges = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostTpcs = std::uint64_t{1} << 16;
constexpr const char* kChanges = "the number of changes of how the machine is shared";

SubcontextPacket change_of(What what, std::uint32_t subcontext, std::uint64_t value) {
  SubcontextPacket packet;
  packet.what = what;
  packet.subcontext = static_cast<std::uint8_t>(subcontext);
  packet.value = value;
  return packet;
}

}  // namespace

std::vector<SubcontextPacket> SavedSharing::changes() const {
  std::vector<SubcontextPacket> changes = cwd::SavedShares::changes(sharers_.cwd.partition());
  for (std::uint32_t s = 0; s < arch::kSubcontexts; ++s) {
    const auto subcontext = static_cast<std::uint8_t>(s);
    const arch::BandwidthTable& table = sharers_.bandwidth.table();
    const std::uint32_t share = sharers_.bandwidth.share(s);
    if (share != 0) changes.push_back(change_of(What::bandwidth, s, share));
    if (table.limit(s) != arch::kWholeBandwidth) {
      changes.push_back(change_of(What::bandwidth_limit, s, table.limit(s)));
    }
    const std::uint32_t instance = sharers_.copies.instance_of(subcontext);
    if (instance != 0) changes.push_back(change_of(What::instance, s, instance));
    const std::uint64_t root = sharers_.mmu == nullptr ? 0 : sharers_.mmu->root(subcontext);
    if (root != 0) changes.push_back(change_of(What::page_table, s, root));
  }
  return changes;
}

void SavedSharing::carry_out(const SubcontextPacket& change) {
  sharers_.task.note_share(change);
  sharers_.cwd.partition().on_configure(change, 0);
  sharers_.bandwidth.on_share(change, 0);
  sharers_.copies.on_share(change, 0);
  if (sharers_.mmu != nullptr && change.what == What::page_table) {
    sharers_.mmu->set_root(change.subcontext, change.value);
  }
}

void SavedSharing::save(StateWriter& to) const {
  const std::vector<SubcontextPacket> all = changes();
  to.below(all.size(), kMostChanges, kChanges);
  for (const SubcontextPacket& change : all) {
    to.number(static_cast<std::uint64_t>(change.what));
    to.number(change.subcontext);
    to.below(change.gpc, kMostTpcs, "a GPC");
    to.below(change.tpc, kMostTpcs, "a TPC");
    to.number(change.value);
  }
}

void SavedSharing::restore(StateReader& from) {
  for (std::uint64_t left = from.below(kMostChanges, kChanges); left > 0; --left) {
    SubcontextPacket change;
    change.what = from.one_of<What>(static_cast<std::uint64_t>(What::instance) + 1, "a change");
    change.subcontext = static_cast<std::uint8_t>(from.below(arch::kSubcontexts, "a subcontext"));
    change.gpc = protocol::GpcId(static_cast<std::uint32_t>(from.below(kMostTpcs, "a GPC")));
    change.tpc = protocol::TpcInGpc(static_cast<std::uint32_t>(from.below(kMostTpcs, "a TPC")));
    change.value = from.number();
    if (change.what == What::mode) {
      if (change.value > static_cast<std::uint64_t>(protocol::PartitionMode::dynamic)) from.bad("a mode");
      change.mode = static_cast<protocol::PartitionMode>(change.value);
    }
    const std::size_t before = refused_();
    carry_out(change);
    if (refused_() != before) from.bad("a change that this machine refuses");
  }
}

void SavedPrograms::note(std::uint32_t number, std::uint32_t registers, const arch::KernelShape& kernel) {
  Program program{number,         registers,      kernel.shared_bytes, kernel.local_bytes,
                  kernel.block.x, kernel.block.y, kernel.block.z};
  for (const arch::Dim3& extents : kernel.cluster.extents) {
    program.insert(program.end(), {extents.x, extents.y, extents.z});
  }
  programs_.push_back(std::move(program));
}

std::vector<std::uint32_t> SavedPrograms::numbers() const {
  std::vector<std::uint32_t> numbers;
  for (const Program& program : programs_) numbers.push_back(program.front());
  return numbers;
}

void SavedPrograms::save(StateWriter& to) const {
  to.number(programs_.size());
  for (const Program& program : programs_) {
    for (const std::uint32_t value : program) to.number(value);
  }
}

void SavedPrograms::restore(StateReader& from) {
  const std::uint64_t count = from.number();
  bool same = count == programs_.size();
  for (const Program& program : programs_) {
    for (const std::uint32_t value : program) same = same && from.number() == value;
  }
  if (same) return;
  throw InputError("other programs were loaded into the saved device than into this one",
                   "load the same files, in the same order, before it is restored");
}

}  // namespace heddle::gpu
