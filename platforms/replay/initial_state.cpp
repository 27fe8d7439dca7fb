#include "replay/initial_state.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "arch/bandwidth_table.h"
#include "arch/sm_limits.h"
#include "common/error.h"
#include "cwd/occupancy.h"
#include "cwd/sm_shares.h"
#include "cwd/tpc_quota.h"
#include "gpu/gpu.h"
#include "gpu/gpu_params.h"

namespace heddle::replay {

using protocol::SubcontextPacket;

namespace {

void check_number(const SourcePos& where, const std::string& owner, const char* what, std::uint32_t number,
                  std::size_t count) {
  if (number < count) return;
  throw InputError(where, fmt::format("{} has no {} {}", owner, what, number),
                   fmt::format("it has {} 0 to {}; heddle show tree prints them", what, count - 1));
}

std::vector<std::uint32_t> sms_of(const workload::SmLoad& load, const std::string& instance,
                                  const arch::Topology& topology) {
  std::vector<std::uint32_t> sms = load.sms;
  for (const std::uint32_t sm : sms) check_number(load.where, instance, "SM", sm, topology.sms());
  for (const std::uint32_t gpc : load.gpcs) {
    check_number(load.where, instance, "GPC", gpc, topology.gpcs());
    sms.insert(sms.end(), topology.gpc(gpc).sm_ids.begin(), topology.gpc(gpc).sm_ids.end());
  }
  if (load.all) {
    sms.resize(topology.sms());
    std::iota(sms.begin(), sms.end(), 0U);
  }
  // An SM that is named twice still gets the load once: the list is a set.
  std::sort(sms.begin(), sms.end());
  sms.erase(std::unique(sms.begin(), sms.end()), sms.end());
  return sms;
}

// The resource of which the fewest further CTAs are left.
arch::Resource scarcest(const arch::ResourceVector& capacity, const arch::ResourceVector& used,
                        const arch::ResourceVector& need) {
  const std::uint32_t slots = arch::free_slots(capacity, used, need);
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    arch::ResourceVector alone;
    alone.amount[i] = need.amount[i];
    if (need.amount[i] != 0 && arch::free_slots(capacity, used, alone) == slots) return static_cast<arch::Resource>(i);
  }
  return arch::Resource::ctas;
}

arch::ResourceVector times(const arch::ResourceVector& need, std::uint32_t ctas) {
  arch::ResourceVector amount;
  for (std::size_t i = 0; i < arch::kResources; ++i) amount.amount[i] = need.amount[i] * ctas;
  return amount;
}

SubcontextPacket packet_of(SubcontextPacket::What what, std::uint8_t subcontext, std::uint64_t value) {
  SubcontextPacket packet;
  packet.what = what;
  packet.subcontext = subcontext;
  packet.value = value;
  return packet;
}

void check_tpc(const SourcePos& where, const std::string& instance, const arch::Topology& topology, std::uint32_t gpc,
               std::uint32_t tpc) {
  check_number(where, instance, "GPC", gpc, topology.gpcs());
  check_number(where, fmt::format("GPC {} of {}", gpc, instance), "TPC", tpc, topology.gpc(gpc).tpcs.size());
}

SubcontextPacket packet_of(const workload::ShareChange& change) {
  using What = SubcontextPacket::What;
  // In the order of ShareChange::What.
  constexpr What kWhats[] = {What::mode, What::credits, What::enable,    What::block,
                             What::sms,  What::warps,   What::bandwidth, What::bandwidth_limit};
  SubcontextPacket packet = packet_of(kWhats[static_cast<std::size_t>(change.what)], change.subcontext, change.value);
  packet.gpc = protocol::GpcId(change.gpc);
  packet.tpc = protocol::TpcInGpc(change.tpc);
  if (packet.what == What::mode)
    packet.mode = static_cast<protocol::PartitionMode>(change.mode);  // both: the same three
  return packet;
}

using TpcList = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Every TPC is named: what a mask that nobody has set means depends on the mode.
void resolve_mask(const workload::Subcontext& subcontext, const TpcList& own, const arch::Topology& topology,
                  std::vector<TimedShare>& shares) {
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    for (std::uint32_t tpc = 0; tpc < topology.gpc(gpc).tpcs.size(); ++tpc) {
      const bool enabled = std::find(own.begin(), own.end(), std::make_pair(gpc, tpc)) != own.end();
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::enable, subcontext.id, enabled ? 1 : 0), subcontext.where});
      shares.back().packet.gpc = protocol::GpcId(gpc);
      shares.back().packet.tpc = protocol::TpcInGpc(tpc);
    }
  }
}

bool is_bandwidth(const SubcontextPacket& packet) {
  return packet.what == SubcontextPacket::What::bandwidth || packet.what == SubcontextPacket::What::bandwidth_limit;
}

const char* remedy_of(const SubcontextPacket& packet, protocol::ShareRefusal refusal) {
  if (refusal == protocol::ShareRefusal::overlap) return "in mode static a TPC belongs to one subcontext";
  if (refusal == protocol::ShareRefusal::bandwidth) {
    return "let the shares of all subcontexts be 100 % at most at any time, and a limit no less than the share; where "
           "changes come at the same time, let what gives bandwidth back stand first";
  }
  if (packet.what == SubcontextPacket::What::block) {
    return "blocks are numbered from 0 to gpu.cwd.local_memory_blocks - 1";
  }
  return "see subcontexts and share in docs/scenario.md";
}

// Subcontexts that belong to instances have nothing outside these (PRT-11).
class InstanceCheck {
 public:
  // All arguments must outlive it. Throws InputError where the scenario and the machine do not mean the same instances,
  // where masks do not count, and for kernels of subcontexts that belong to none.
  InstanceCheck(const workload::Workload& workload, const std::string& machine, const gpu::GpuParams& params,
                const arch::Topology& topology);

  // TPCs where the subcontext may run at first; none: as the machine begins.
  std::optional<TpcList> tpcs_of(const workload::Subcontext& subcontext) const;
  void check_tpc(const SourcePos& where, std::uint8_t subcontext, std::uint32_t gpc, std::uint32_t tpc) const;
  void check_credits(const SourcePos& where, std::uint8_t subcontext, std::uint32_t credits) const;
  void check_mode(const SourcePos& where, workload::ShareChange::Mode mode) const;

 private:
  std::optional<std::uint32_t> instance_of(std::uint8_t subcontext) const;
  TpcList tpcs_in(std::uint32_t instance) const;
  void refuse_mode(const SourcePos& where) const;

  const workload::Workload& workload_;
  const std::string& machine_;
  const arch::Instances& instances_;
  const arch::Topology& topology_;
};

InstanceCheck::InstanceCheck(const workload::Workload& workload, const std::string& machine,
                             const gpu::GpuParams& params, const arch::Topology& topology)
    : workload_(workload), machine_(machine), instances_(params.machine.instances), topology_(topology) {
  if (!(workload.instances == instances_)) {
    throw InputError(workload.instances.any() ? workload.instances[0].where : SourcePos{workload.name, 0, 0},
                     fmt::format("the instances of {} are not those that the scenario has in its `config`", machine),
                     "where memory lies depends on them: write them there alone, as config: {gpu: {instances: […]}}");
  }
  if (!instances_.any()) return;
  if (params.cwd.partition == protocol::PartitionMode::none) refuse_mode(instances_[0].where);
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel || instance_of(op.kernel.subcontext)) continue;
    throw InputError(instances_[0].where,
                     fmt::format("kernel '{}' is of subcontext {}, which belongs to no instance of {}", op.kernel.name,
                                 op.kernel.subcontext, machine),
                     fmt::format("subcontexts: [{{id: {}, instance: 0}}]", op.kernel.subcontext));
  }
}

std::optional<std::uint32_t> InstanceCheck::instance_of(std::uint8_t subcontext) const {
  for (const workload::Subcontext& one : workload_.subcontexts) {
    if (one.id == subcontext) return one.instance;
  }
  return std::nullopt;
}

TpcList InstanceCheck::tpcs_in(std::uint32_t instance) const {
  TpcList tpcs;
  for (const std::uint32_t gpc : instances_[instance].gpcs) {
    for (std::uint32_t tpc = 0; tpc < topology_.gpc(gpc).tpcs.size(); ++tpc) tpcs.emplace_back(gpc, tpc);
  }
  return tpcs;
}

std::optional<TpcList> InstanceCheck::tpcs_of(const workload::Subcontext& subcontext) const {
  if (subcontext.tpcs) {
    for (const auto& [gpc, tpc] : *subcontext.tpcs) check_tpc(subcontext.where, subcontext.id, gpc, tpc);
    return subcontext.tpcs;
  }
  if (subcontext.instance) return tpcs_in(*subcontext.instance);
  return std::nullopt;
}

void InstanceCheck::check_tpc(const SourcePos& where, std::uint8_t subcontext, std::uint32_t gpc,
                              std::uint32_t tpc) const {
  heddle::replay::check_tpc(where, machine_, topology_, gpc, tpc);
  const auto instance = instance_of(subcontext);
  const auto owner = instances_.of_gpc(gpc);
  if (instance == owner || (!instance && !owner)) return;
  throw InputError(
      where,
      instance ? fmt::format("subcontext {} is of instance {}, and GPC {} is not", subcontext, *instance, gpc)
               : fmt::format("subcontext {} is of no instance, and GPC {} is of instance {}", subcontext, gpc, *owner),
      "a subcontext runs on the GPCs of its instance alone");
}

void InstanceCheck::check_credits(const SourcePos& where, std::uint8_t subcontext, std::uint32_t credits) const {
  const auto instance = instance_of(subcontext);
  if (!instance || credits <= tpcs_in(*instance).size()) return;
  throw InputError(where,
                   fmt::format("subcontext {} would have {} credits, and its instance {} has {} TPCs", subcontext,
                               credits, *instance, tpcs_in(*instance).size()),
                   "give it no more credits than the instance has TPCs");
}

void InstanceCheck::check_mode(const SourcePos& where, workload::ShareChange::Mode mode) const {
  if (instances_.any() && mode == workload::ShareChange::Mode::none) refuse_mode(where);
}

void InstanceCheck::refuse_mode(const SourcePos& where) const {
  throw InputError(where, fmt::format("{} has instances, and in mode none subcontexts run everywhere", machine_),
                   "set gpu.cwd.partition: static, or dynamic where several subcontexts share an instance");
}

const char* mode_name(protocol::PartitionMode mode) {
  constexpr const char* kNames[] = {"none", "static", "dynamic"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::string subject(const SubcontextPacket& packet) {
  switch (packet.what) {
    case SubcontextPacket::What::mode:
      return fmt::format("the mode {}", mode_name(packet.mode));
    case SubcontextPacket::What::credits:
      return fmt::format("the credits of subcontext {}", packet.subcontext);
    case SubcontextPacket::What::sms:
      return fmt::format("the share of SMs of subcontext {}", packet.subcontext);
    case SubcontextPacket::What::warps:
      return fmt::format("the share of warps of subcontext {}", packet.subcontext);
    case SubcontextPacket::What::bandwidth:
      return fmt::format("the bandwidth of subcontext {}", packet.subcontext);
    case SubcontextPacket::What::bandwidth_limit:
      return fmt::format("the limit of bandwidth of subcontext {}", packet.subcontext);
    case SubcontextPacket::What::enable:
      return fmt::format("TPC {} of GPC {} for subcontext {}", packet.tpc, packet.gpc, packet.subcontext);
    default:
      return fmt::format("local-memory block {} for subcontext {} on TPC {} of GPC {}", packet.value, packet.subcontext,
                         packet.tpc, packet.gpc);
  }
}

cwd::QuotaOptions options_of(const cwd::CwdParams& params) {
  return {params.partition, params.tpc_credits, params.local_memory_blocks};
}

// Where the subcontext's memory lies, and not what it may use of the machine.
bool is_memory(SubcontextPacket::What what) {
  using What = SubcontextPacket::What;
  return what == What::page_table || what == What::local_address || what == What::local_bytes;
}

// Settings of sharing that contradict each other or the machine, or that mean nothing: refused before the run begins,
// with the place of the entry (PRT-12). The distributor's own record of who has what judges them, in the order of their
// times.
class SharingCheck {
 public:
  // All arguments must outlive it.
  SharingCheck(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params,
               const arch::Topology& topology);

  // In the order of their times. Throws InputError.
  void run(const std::vector<TimedShare>& shares);

 private:
  using Mode = protocol::PartitionMode;

  // Which modes the machine has at some time from the i-th change on.
  void find_modes(const std::vector<TimedShare>& shares);
  void check_use(const TimedShare& share, std::size_t index) const;
  void apply(const TimedShare& share);
  // Kernels that have found a place are looked at no more.
  void place_kernels();
  std::string why_no_place(const arch::KernelRecord& kernel);
  void refuse_kernels() const;

  const workload::Workload& workload_;
  const std::string& instance_;
  const gpu::GpuParams& params_;
  const arch::Topology& topology_;
  cwd::TpcQuota quota_;
  cwd::SmShares shares_;
  arch::BandwidthTable bandwidth_;
  cwd::EmptyMachine machine_;
  std::vector<std::set<Mode>> modes_;
  struct Homeless {
    arch::KernelRecord kernel;
    std::string why;
  };
  std::vector<Homeless> homeless_;
};

SharingCheck::SharingCheck(const workload::Workload& workload, const std::string& instance,
                           const gpu::GpuParams& params, const arch::Topology& topology)
    : workload_(workload),
      instance_(instance),
      params_(params),
      topology_(topology),
      quota_(topology.tpcs(), options_of(params.cwd)),
      shares_(topology, params.sm.limits.warps, {}),
      machine_(topology, params.cwd, arch::capacity_of(params.sm.limits), gpu::cgas_per_gpc(params)) {
  std::set<std::pair<std::string, std::uint8_t>> seen;
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    if (seen.emplace(op.kernel.name, op.kernel.subcontext).second) homeless_.push_back({op.kernel, {}});
    if (op.kernel.program == nullptr || !op.kernel.program->launches()) continue;
    // Programs launch into their own subcontext.
    for (const workload::LaunchedKernel& launched : workload.launched) {
      arch::KernelRecord child = launched.kernel;
      child.subcontext = op.kernel.subcontext;
      if (seen.emplace(child.name, child.subcontext).second) homeless_.push_back({child, {}});
    }
  }
}

void SharingCheck::run(const std::vector<TimedShare>& shares) {
  if (shares.empty() && params_.cwd.partition != Mode::static_) return;
  find_modes(shares);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const SubcontextPacket::What what = shares[i].packet.what;
    if (is_memory(what) || what == SubcontextPacket::What::instance) continue;
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
    before.push_back(share.packet.what == SubcontextPacket::What::mode ? share.packet.mode : before.back());
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
  if (share.packet.what == SubcontextPacket::What::credits) needs(Mode::dynamic, "credits");
  if (share.packet.what == SubcontextPacket::What::block) needs(Mode::static_, "blocks");
  if (!is_bandwidth(share.packet) || params_.machine.timing == TimingMode::at) return;
  const bool lt = params_.machine.timing == TimingMode::lt;
  throw InputError(share.where,
                   fmt::format("{} means nothing: in the timing {} of {} {}", subject(share.packet), lt ? "lt" : "fast",
                               instance_, lt ? "nothing contends" : "no requests wait among which it could choose"),
                   "set gpu.timing: at");
}

void SharingCheck::apply(const TimedShare& share) {
  const SubcontextPacket& packet = share.packet;
  const auto tpc = [&] {
    std::uint32_t first = 0;
    for (std::uint32_t gpc = 0; gpc < packet.gpc; ++gpc) {
      first += static_cast<std::uint32_t>(topology_.gpc(gpc).tpcs.size());
    }
    return first + packet.tpc;
  };
  protocol::ShareRefusal refusal = protocol::ShareRefusal::none;
  switch (packet.what) {
    case SubcontextPacket::What::mode:
      refusal = quota_.set_mode(packet.mode);
      break;
    case SubcontextPacket::What::credits:
      refusal = quota_.set_credits(packet.subcontext, packet.value);
      break;
    case SubcontextPacket::What::sms:
      refusal = shares_.set_sms(packet.subcontext, packet.value);
      break;
    case SubcontextPacket::What::warps:
      refusal = shares_.set_warps(packet.subcontext, packet.value);
      break;
    case SubcontextPacket::What::enable:
      refusal = quota_.enable(packet.subcontext, tpc(), packet.value == 1);
      break;
    case SubcontextPacket::What::bandwidth:
    case SubcontextPacket::What::bandwidth_limit:
      refusal = protocol::judge_share(bandwidth_, packet);
      break;
    default:
      refusal = quota_.set_block(packet.subcontext, tpc(), packet.value);
  }
  if (refusal == protocol::ShareRefusal::none) return;
  throw InputError(share.where, fmt::format("{}: {}", subject(packet), cwd::refusal_text(refusal)),
                   remedy_of(packet, refusal));
}

void SharingCheck::place_kernels() {
  const auto placed = [this](Homeless& homeless) {
    homeless.why = why_no_place(homeless.kernel);
    return homeless.why.empty();
  };
  homeless_.erase(std::remove_if(homeless_.begin(), homeless_.end(), placed), homeless_.end());
}

// Credits are left out: a kernel that needs more of them is rejected when it comes (CWD-25).
std::string SharingCheck::why_no_place(const arch::KernelRecord& kernel) {
  const bool limited = shares_.limited(kernel.subcontext);
  if (quota_.mode() == Mode::none && !limited) return {};
  cwd::MachineShare share;
  bool lacks_block = false;
  for (std::uint32_t tpc = 0; tpc < topology_.tpcs(); ++tpc) {
    bool open = quota_.mode() == Mode::none || quota_.enabled(kernel.subcontext, tpc);
    if (open && quota_.price(kernel.subcontext, tpc, kernel.local_bytes > 0).bar == cwd::TpcPrice::Bar::block) {
      open = false;
      lacks_block = true;
    }
    share.tpcs.push_back(open);
  }
  share.sms = shares_.most_sms(kernel.subcontext);
  share.warps = shares_.most_warps(kernel.subcontext);
  const auto count = std::count(share.tpcs.begin(), share.tpcs.end(), true);
  if (count == 0) return lacks_block ? "it has no local-memory block on a TPC of its own" : "it has no TPC";
  const bool all = static_cast<std::size_t>(count) == share.tpcs.size();
  if (!limited && (all || !kernel.cluster.any())) return {};
  machine_.set_share(std::move(share));
  return machine_.why_never_fits(arch::need_of(params_.sm.limits, kernel), kernel.cluster, kernel.local_bytes > 0);
}

void SharingCheck::refuse_kernels() const {
  if (homeless_.empty()) return;
  const arch::KernelRecord& kernel = homeless_.front().kernel;
  const auto is_its = [&](const workload::Subcontext& subcontext) { return subcontext.id == kernel.subcontext; };
  const auto listed = std::find_if(workload_.subcontexts.begin(), workload_.subcontexts.end(), is_its);
  throw InputError(listed == workload_.subcontexts.end() ? SourcePos{} : listed->where,
                   fmt::format("kernel '{}' can never run in subcontext {} of {}: {}", kernel.name, kernel.subcontext,
                               instance_, homeless_.front().why),
                   "give the subcontext other TPCs (`tpcs`) or larger shares (`sms`, `warps`), or the kernel another "
                   "subcontext");
}

}  // namespace

std::vector<gpu::SmPreload> resolve_loads(const workload::Workload& workload, const std::string& instance,
                                          const gpu::Gpu& gpu, double lead_ns) {
  const arch::Topology& topology = gpu.topology();
  const arch::SmLimits& limits = gpu.params().sm.limits;
  const arch::ResourceVector capacity = arch::capacity_of(limits);
  const Clock& clock = gpu.domain().clock();
  std::vector<arch::ResourceVector> used(topology.sms());
  std::vector<gpu::SmPreload> result;
  for (const workload::SmLoad& load : workload.loads) {
    const std::string why = arch::why_impossible(limits, load.kernel);
    if (!why.empty()) {
      throw InputError(load.where, fmt::format("no SM of {} can hold a CTA of this load: {}", instance, why),
                       "heddle show params gpu.sm.limits");
    }
    const arch::ResourceVector need = arch::need_of(limits, load.kernel);
    Cycle until = 0;
    if (load.until > 0) {
      until = clock.cycle_at(clock.time_of(0) +
                             sc_core::sc_time(static_cast<double>(load.until) + lead_ns, sc_core::SC_NS));
    }
    for (const std::uint32_t sm : sms_of(load, instance, topology)) {
      const std::uint32_t room = arch::free_slots(capacity, used[sm], need);
      if (room < load.ctas) {
        throw InputError(
            load.where,
            fmt::format("SM {} of {} cannot hold {} CTAs of this load: {} allow {}", sm, instance, load.ctas,
                        arch::resource_name(scarcest(capacity, used[sm], need)), room),
            "all loads of an SM are there at the same time, at the start; heddle show params gpu.sm.limits");
      }
      const arch::ResourceVector amount = times(need, load.ctas);
      used[sm].add(amount);
      result.push_back({sm, amount, until});
    }
  }
  return result;
}

std::vector<TimedShare> resolve_shares(const workload::Workload& workload, const std::string& instance,
                                       const gpu::GpuParams& params, const arch::Topology& topology,
                                       const MemoryMap& map) {
  std::vector<TimedShare> shares;
  for (const MemoryMap::Root& root : map.roots) {
    shares.push_back({0, packet_of(SubcontextPacket::What::page_table, root.subcontext, root.address), {}});
  }
  for (const MemoryMap::Local& local : map.locals) {
    using What = SubcontextPacket::What;
    shares.push_back({0, packet_of(What::local_address, local.subcontext, local.memory.address), {}});
    shares.push_back({0, packet_of(What::local_bytes, local.subcontext, local.memory.bytes), {}});
  }
  const InstanceCheck instances(workload, instance, params, topology);
  for (const workload::Subcontext& subcontext : workload.subcontexts) {
    if (subcontext.instance) {
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::instance, subcontext.id, *subcontext.instance + 1), subcontext.where});
    }
    if (subcontext.credits) {
      instances.check_credits(subcontext.where, subcontext.id, *subcontext.credits);
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::credits, subcontext.id, *subcontext.credits), subcontext.where});
    } else if (params.cwd.partition == protocol::PartitionMode::dynamic && !subcontext.instance) {
      // Naming it gives it its part of what is in front of the TPCs.
      const std::uint32_t credits = params.cwd.tpc_credits == 0 ? topology.tpcs() : params.cwd.tpc_credits;
      shares.push_back({0, packet_of(SubcontextPacket::What::credits, subcontext.id, credits), subcontext.where});
    }
    if (subcontext.sms) {
      shares.push_back({0, packet_of(SubcontextPacket::What::sms, subcontext.id, *subcontext.sms), subcontext.where});
    }
    if (subcontext.warps) {
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::warps, subcontext.id, *subcontext.warps), subcontext.where});
    }
    const auto add_bandwidth = [&](SubcontextPacket::What what, const std::optional<std::uint32_t>& thousandths) {
      if (thousandths) shares.push_back({0, packet_of(what, subcontext.id, *thousandths), subcontext.where});
    };
    add_bandwidth(SubcontextPacket::What::bandwidth, subcontext.bandwidth);
    add_bandwidth(SubcontextPacket::What::bandwidth_limit, subcontext.bandwidth_limit);
    if (const auto tpcs = instances.tpcs_of(subcontext)) resolve_mask(subcontext, *tpcs, topology, shares);
  }
  for (const workload::ShareChange& change : workload.shares) {
    using What = workload::ShareChange::What;
    if (change.what == What::enable || change.what == What::block) {
      instances.check_tpc(change.where, change.subcontext, change.gpc, change.tpc);
    }
    if (change.what == What::credits) instances.check_credits(change.where, change.subcontext, change.value);
    if (change.what == What::mode) instances.check_mode(change.where, change.mode);
    shares.push_back({change.when, packet_of(change), change.where});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimedShare& a, const TimedShare& b) { return a.when < b.when; });
  SharingCheck(workload, instance, params, topology).run(shares);
  return shares;
}

void check_switches(const workload::Workload& workload, const std::string& instance, const arch::Topology& topology) {
  for (const workload::TpcSwitch& change : workload.tpc_switches) {
    check_tpc(change.where, instance, topology, change.gpc, change.tpc);
  }
}

HostControls::HostControls(const std::vector<workload::TpcSwitch>& switches, const std::vector<TimedShare>& shares) {
  for (const TimedShare& share : shares) {
    controls_.push_back({share.when, {}});
    controls_.back().packet.kind = protocol::SubmitKind::share;
    controls_.back().packet.share = share.packet;
  }
  for (const workload::TpcSwitch& change : switches) {
    controls_.push_back({change.when, {}});
    controls_.back().packet.kind = protocol::SubmitKind::control;
    controls_.back().packet.tpc = {protocol::GpcId(change.gpc), protocol::TpcInGpc(change.tpc), change.enabled};
  }
  std::stable_sort(controls_.begin(), controls_.end(),
                   [](const Control& a, const Control& b) { return a.when < b.when; });
}

std::int64_t HostControls::first() const {
  return controls_.empty() ? 0 : std::min<std::int64_t>(0, controls_.front().when);
}

void HostControls::send(Domain& domain, PacketOut<protocol::SubmitPacket>& out, std::int64_t lead,
                        EventHandler& handler, std::uint32_t event) {
  while (next_ < controls_.size()) {
    const Control& control = controls_[next_];
    const auto when = static_cast<Cycle>(std::max<std::int64_t>(0, control.when + lead - 1));  // the link takes one
    if (when > domain.now()) {
      domain.schedule(when, handler, event);
      return;
    }
    if (!out.can_send()) return;
    out.send(control.packet);
    ++next_;
  }
}

}  // namespace heddle::replay
