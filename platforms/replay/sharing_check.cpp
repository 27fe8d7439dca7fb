#include "replay/sharing_check.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "arch/sm_limits.h"
#include "common/error.h"

namespace heddle::replay {

using protocol::ShareRefusal;
using What = protocol::SubcontextPacket::What;

namespace {

const char* mode_name(protocol::PartitionMode mode) {
  constexpr const char* kNames[] = {"none", "static", "dynamic"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::string subject(const protocol::SubcontextPacket& packet) {
  switch (packet.what) {
    case What::mode:
      return fmt::format("the mode {}", mode_name(packet.mode));
    case What::credits:
      return fmt::format("the credits of subcontext {}", packet.subcontext);
    case What::enable:
      return fmt::format("TPC {} of GPC {} for subcontext {}", packet.tpc, packet.gpc, packet.subcontext);
    default:
      return fmt::format("local-memory block {} for subcontext {} on TPC {} of GPC {}", packet.value, packet.subcontext,
                         packet.tpc, packet.gpc);
  }
}

std::uint32_t tpcs_of(const arch::Topology& topology) {
  std::uint32_t count = 0;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    count += static_cast<std::uint32_t>(topology.gpc(gpc).tpcs.size());
  }
  return count;
}

cwd::QuotaOptions options_of(const cwd::CwdParams& params) {
  return {params.partition, params.tpc_credits, params.local_memory_blocks};
}

}  // namespace

SharingCheck::SharingCheck(const workload::Workload& workload, const std::string& instance,
                           const gpu::GpuParams& params, const arch::Topology& topology)
    : workload_(workload),
      instance_(instance),
      params_(params),
      topology_(topology),
      quota_(tpcs_of(topology), options_of(params.cwd)),
      machine_(topology, params.cwd, arch::capacity_of(params.sm.limits), gpu::cgas_per_gpc(params)) {
  std::set<std::pair<std::string, std::uint8_t>> seen;
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    if (seen.emplace(op.kernel.name, op.kernel.subcontext).second) homeless_.push_back({&op.kernel, {}});
  }
}

void SharingCheck::run(const std::vector<TimedShare>& shares) {
  if (shares.empty() && params_.cwd.partition != Mode::static_) return;
  find_modes(shares);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].packet.what == What::page_table) continue;
    check_use(shares[i], i);
    apply(shares[i]);
    if (i + 1 == shares.size() || shares[i + 1].when > shares[i].when) place_kernels();
  }
  place_kernels();
  refuse_kernels();
}

void SharingCheck::find_modes(const std::vector<TimedShare>& shares) {
  std::vector<Mode> before{params_.cwd.partition};
  for (const TimedShare& share : shares) {
    before.push_back(share.packet.what == What::mode ? share.packet.mode : before.back());
  }
  modes_.assign(shares.size(), {});
  std::set<Mode> later;
  for (std::size_t i = shares.size(); i-- > 0;) {
    later.insert(before[i + 1]);
    modes_[i] = later;
  }
}

void SharingCheck::check_use(const TimedShare& share, std::size_t index) const {
  const auto needs = [&](Mode mode, const char* what) {
    if (modes_[index].count(mode) != 0) return;
    throw InputError(share.where,
                     fmt::format("{} mean nothing: {} is in mode {}, and they count in mode {}", what, instance_,
                                 mode_name(*modes_[index].rbegin()), mode_name(mode)),
                     fmt::format("set gpu.cwd.partition: {}, or change the mode with `share`", mode_name(mode)));
  };
  if (share.packet.what == What::credits) needs(Mode::dynamic, "credits");
  if (share.packet.what == What::block) needs(Mode::static_, "blocks");
}

void SharingCheck::apply(const TimedShare& share) {
  const protocol::SubcontextPacket& packet = share.packet;
  const auto tpc = [&] {
    std::uint32_t first = 0;
    for (std::uint32_t gpc = 0; gpc < packet.gpc; ++gpc) {
      first += static_cast<std::uint32_t>(topology_.gpc(gpc).tpcs.size());
    }
    return first + packet.tpc;
  };
  ShareRefusal refusal = ShareRefusal::none;
  switch (packet.what) {
    case What::mode:
      refusal = quota_.set_mode(packet.mode);
      break;
    case What::credits:
      refusal = quota_.set_credits(packet.subcontext, packet.value);
      break;
    case What::enable:
      refusal = quota_.enable(packet.subcontext, tpc(), packet.value == 1);
      break;
    default:
      refusal = quota_.set_block(packet.subcontext, tpc(), packet.value);
  }
  if (refusal == ShareRefusal::none) return;
  throw InputError(share.where, fmt::format("{}: {}", subject(packet), cwd::refusal_text(refusal)),
                   refusal == ShareRefusal::overlap ? "in mode static a TPC belongs to one subcontext"
                   : packet.what == What::block     ? "blocks are numbered from 0 to gpu.cwd.local_memory_blocks - 1"
                                                    : "see subcontexts and share in docs/scenario.md");
}

void SharingCheck::place_kernels() {
  const auto placed = [this](Homeless& homeless) {
    homeless.why = why_no_place(*homeless.kernel);
    return homeless.why.empty();
  };
  homeless_.erase(std::remove_if(homeless_.begin(), homeless_.end(), placed), homeless_.end());
}

// Credits are left out: a kernel that needs more of them is rejected when it comes (CWD-25).
std::string SharingCheck::why_no_place(const arch::KernelRecord& kernel) {
  if (quota_.mode() == Mode::none) return {};
  cwd::MachineShare share;
  for (std::uint32_t tpc = 0; tpc < tpcs_of(topology_); ++tpc) {
    share.tpcs.push_back(quota_.enabled(kernel.subcontext, tpc));
  }
  const auto count = std::count(share.tpcs.begin(), share.tpcs.end(), true);
  if (count == 0) return "it has no TPC";
  if (static_cast<std::size_t>(count) == share.tpcs.size() || !kernel.cluster.any()) return {};
  machine_.set_share(std::move(share));
  return machine_.why_never_fits(arch::need_of(params_.sm.limits, kernel), kernel.cluster);
}

void SharingCheck::refuse_kernels() const {
  if (homeless_.empty()) return;
  const arch::KernelRecord& kernel = *homeless_.front().kernel;
  const auto is_its = [&](const workload::Subcontext& subcontext) { return subcontext.id == kernel.subcontext; };
  const auto listed = std::find_if(workload_.subcontexts.begin(), workload_.subcontexts.end(), is_its);
  throw InputError(listed == workload_.subcontexts.end() ? SourcePos{} : listed->where,
                   fmt::format("kernel '{}' can never run in subcontext {} of {}: {}", kernel.name, kernel.subcontext,
                               instance_, homeless_.front().why),
                   "give the subcontext other TPCs (`tpcs`), or the kernel another subcontext");
}

}  // namespace heddle::replay
