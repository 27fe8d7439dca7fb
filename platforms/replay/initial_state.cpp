#include "replay/initial_state.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "gpu/gpu.h"
#include "replay/sharing_check.h"

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
  using What = workload::ShareChange::What;
  SubcontextPacket packet = packet_of(SubcontextPacket::What::mode, change.subcontext, change.value);
  packet.gpc = protocol::GpcId(change.gpc);
  packet.tpc = protocol::TpcInGpc(change.tpc);
  switch (change.what) {
    case What::mode:
      packet.mode = static_cast<protocol::PartitionMode>(change.mode);  // both: none, static, dynamic
      break;
    case What::credits:
      packet.what = SubcontextPacket::What::credits;
      break;
    case What::enable:
      packet.what = SubcontextPacket::What::enable;
      break;
    case What::block:
      packet.what = SubcontextPacket::What::block;
      break;
  }
  return packet;
}

// Every TPC is named: what a mask that nobody has set means depends on the mode.
void resolve_mask(const workload::Subcontext& subcontext, const std::string& instance, const arch::Topology& topology,
                  std::vector<TimedShare>& shares) {
  for (const auto& [gpc, tpc] : *subcontext.tpcs) check_tpc(subcontext.where, instance, topology, gpc, tpc);
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    for (std::uint32_t tpc = 0; tpc < topology.gpc(gpc).tpcs.size(); ++tpc) {
      const auto& own = *subcontext.tpcs;
      const bool enabled = std::find(own.begin(), own.end(), std::make_pair(gpc, tpc)) != own.end();
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::enable, subcontext.id, enabled ? 1 : 0), subcontext.where});
      shares.back().packet.gpc = protocol::GpcId(gpc);
      shares.back().packet.tpc = protocol::TpcInGpc(tpc);
    }
  }
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
  for (const workload::Subcontext& subcontext : workload.subcontexts) {
    if (subcontext.credits) {
      shares.push_back(
          {0, packet_of(SubcontextPacket::What::credits, subcontext.id, *subcontext.credits), subcontext.where});
    }
    if (subcontext.tpcs) resolve_mask(subcontext, instance, topology, shares);
  }
  for (const workload::ShareChange& change : workload.shares) {
    using What = workload::ShareChange::What;
    if (change.what == What::enable || change.what == What::block) {
      check_tpc(change.where, instance, topology, change.gpc, change.tpc);
    }
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

}  // namespace heddle::replay
