#include "gpu/link_fabric.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/error.h"
#include "link/link_switch.h"
#include "link/link_unit.h"

namespace heddle::gpu {
namespace {

void check(const std::vector<Gpu*>& gpus) {
  if (gpus.size() < 2 || gpus.size() > arch::kPeers) {
    throw InputError(fmt::format("{} GPUs cannot be connected by links", gpus.size()),
                     fmt::format("connect 2 to {}, or set links.topology to none", arch::kPeers));
  }
  for (Gpu* gpu : gpus) {
    HEDDLE_CHECK(gpu->links() != nullptr, "a GPU that is to be connected has no links");
    if (gpu->params().machine.timing == gpus.front()->params().machine.timing) continue;
    throw InputError("GPUs that are connected by links have different timings", "give all the same gpu.timing");
  }
}

}  // namespace

LinkFabric::LinkFabric(const link::FabricParams& params, const std::vector<Gpu*>& gpus, Observation& own,
                       std::vector<std::vector<std::uint32_t>> groups) {
  check(gpus);
  if (params.topology == link::Topology::direct) {
    if (!groups.empty()) {
      throw InputError("GPUs that are connected directly have no groups", "set links.topology to switch");
    }
    connect(gpus);
  } else if (params.topology == link::Topology::through_switch) {
    connect_switch(params, gpus, own, std::move(groups));
  }
}

LinkFabric::~LinkFabric() = default;

// The ports of a GPU are dealt to the others in the order of their numbers behind its own, as many to each. Those that
// are left over lead nowhere.
void LinkFabric::connect(const std::vector<Gpu*>& gpus) {
  const auto count = static_cast<std::uint32_t>(gpus.size());
  std::vector<std::uint32_t> each;  // ports for each of the others
  for (std::uint32_t g = 0; g < count; ++g) {
    each.push_back(gpus[g]->links()->ports() / (count - 1));
    if (each.back() > 0) continue;
    throw InputError(
        fmt::format("gpu{} has {} links, and there are {} other GPUs", g, gpus[g]->links()->ports(), count - 1),
        "raise gpu.links.ports, or set links.topology to switch");
  }
  const auto first = [&](std::uint32_t from, std::uint32_t to) {
    return ((to + count - from) % count - 1) * each[from];
  };
  for (std::uint32_t a = 0; a < count; ++a) {
    std::vector<std::vector<std::uint32_t>> routes(count);
    std::vector<bool> used(gpus[a]->links()->ports());
    for (std::uint32_t b = 0; b < count; ++b) {
      if (a == b) continue;
      for (std::uint32_t i = 0; i < std::min(each[a], each[b]); ++i) {
        link::LinkPort& port = gpus[a]->links()->port(first(a, b) + i);
        port.out.bind(gpus[b]->links()->port(first(b, a) + i).in);
        routes[b].push_back(first(a, b) + i);
        used[first(a, b) + i] = true;
      }
    }
    for (std::uint32_t port = 0; port < used.size(); ++port) {
      link::LinkPort& end = gpus[a]->links()->port(port);
      if (!used[port]) end.out.bind(end.in);
    }
    gpus[a]->links()->routes().direct(a, std::move(routes));
  }
}

void LinkFabric::connect_switch(const link::FabricParams& params, const std::vector<Gpu*>& gpus, Observation& own,
                                std::vector<std::vector<std::uint32_t>> groups) {
  const auto count = static_cast<std::uint32_t>(gpus.size());
  if (groups.empty()) {
    groups.emplace_back(count);
    std::iota(groups.front().begin(), groups.front().end(), 0U);
  }
  std::vector<link::LinkParams> ends;
  for (Gpu* gpu : gpus) {
    ends.push_back(gpu->params().links);
    if (ends.back().ports == ends.front().ports) continue;
    throw InputError("GPUs at a switch have different numbers of links", "give all the same gpu.links.ports");
  }
  const MachineParams& machine = gpus.front()->params().machine;
  domain_ = std::make_unique<Domain>("links_domain", params.clock, machine.timing, machine.run_ahead, own);
  const auto count_groups = static_cast<std::uint32_t>(groups.size());
  switch_ = std::make_unique<link::LinkSwitch>("links_switch", *domain_, "switch", params, ends, std::move(groups));
  for (std::uint32_t g = 0; g < count; ++g) {
    for (std::uint32_t p = 0; p < ends.front().ports; ++p) {
      link::LinkPort& near = gpus[g]->links()->port(p);
      near.out.bind(switch_->port(g, p).in);
      switch_->port(g, p).out.bind(near.in);
    }
    gpus[g]->links()->routes().through_switch(g, ends.front().ports, count, count_groups);
  }
}

}  // namespace heddle::gpu
