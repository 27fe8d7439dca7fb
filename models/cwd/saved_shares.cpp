#include "cwd/saved_shares.h"

namespace heddle::cwd {

using protocol::PartitionMode;
using protocol::SubcontextPacket;

namespace {

// The percentage of which the part, rounded up, is that many.
std::uint64_t percent_of(std::uint64_t part, std::uint64_t all) { return part * 100 / all; }

SubcontextPacket mode_packet(PartitionMode mode) {
  SubcontextPacket packet;
  packet.what = SubcontextPacket::What::mode;
  packet.mode = mode;
  packet.value = static_cast<std::uint64_t>(mode);
  return packet;
}

}  // namespace

std::vector<SubcontextPacket> SavedShares::changes(const SubcontextPartition& partition) {
  SavedShares saved(partition);
  for (std::uint32_t subcontext = 0; subcontext < arch::kSubcontexts; ++subcontext) {
    saved.add_tpcs(subcontext);
    saved.add_shares(subcontext);
  }
  const PartitionMode mode = partition.quota_.mode();
  if (saved.changes_.empty() && mode == partition.quota_.options_.mode) return {};
  saved.changes_.insert(saved.changes_.begin(), mode_packet(PartitionMode::none));
  saved.changes_.push_back(mode_packet(mode));
  return saved.changes_;
}

void SavedShares::add(What what, std::uint32_t subcontext, std::uint64_t value) {
  SubcontextPacket packet;
  packet.what = what;
  packet.subcontext = static_cast<std::uint8_t>(subcontext);
  packet.value = value;
  changes_.push_back(packet);
}

void SavedShares::add_tpcs(std::uint32_t subcontext) {
  const TpcQuota::Row& row = partition_.quota_.row(subcontext);
  const arch::Topology& topology = partition_.context_.topology;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    for (std::uint32_t in_gpc = 0; in_gpc < topology.gpc(gpc).tpcs.size(); ++in_gpc) {
      const std::uint32_t tpc = partition_.live_.first_tpc(gpc) + in_gpc;
      const auto add_of_tpc = [&](What what, std::uint64_t value) {
        add(what, subcontext, value);
        changes_.back().gpc = protocol::GpcId(gpc);
        changes_.back().tpc = protocol::TpcInGpc(in_gpc);
      };
      if (row.masked) add_of_tpc(What::enable, row.mask[tpc] ? 1 : 0);
      if (row.own[tpc] != TpcQuota::kNone) add_of_tpc(What::block, row.own[tpc]);
    }
  }
}

void SavedShares::add_shares(std::uint32_t subcontext) {
  const TpcQuota::Row& row = partition_.quota_.row(subcontext);
  if (row.changed) {
    const auto maximum = static_cast<std::uint64_t>(row.maximum);
    add(What::credits, subcontext, maximum == 0 ? 1 : maximum - 1);  // also back to the first value, it is a change
    add(What::credits, subcontext, maximum);
  }
  const SmShares& shares = partition_.shares_;
  if (shares.limited(subcontext)) {
    add(What::sms, subcontext, percent_of(shares.most_sms(subcontext), partition_.context_.topology.sms()));
    add(What::warps, subcontext, static_cast<std::uint64_t>(shares.part_of_sm(subcontext) * 100 + 1e-9));
  }
  const arch::LocalMemory& local = partition_.local_.of(subcontext);
  if (local.address != 0) add(What::local_address, subcontext, local.address);
  if (local.bytes != 0) add(What::local_bytes, subcontext, local.bytes);
}

}  // namespace heddle::cwd
