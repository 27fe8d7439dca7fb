// A slow, obvious reference for whole sessions, straight from the specification: every decision asks every GPC anew, on
// copies of the whole machine. Shares no code with what it checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "cwd/gpc_oracle.h"

namespace heddle::test {

class SessionOracle {
 public:
  struct Cga {  // a GPC_CGA, in launch order
    std::uint64_t unit = 0;
    std::uint32_t gpc = 0;
    std::uint32_t speed = 0;
    bool last = false;
    std::vector<std::uint32_t> order;  // of its CTAs: bits of the GPC's masks
  };
  struct Names {
    std::string load_balancing = "lake";
    std::string multicast = "tpc_pairs";
    std::string domain = "fastest";
  };
  struct Request {
    std::uint32_t ctas = 1;      // of a GPC_CGA
    std::uint32_t cpc_ctas = 0;  // of a CPC_CGA
    bool multicast = true;
    std::uint64_t units = 1;
    std::uint32_t gpu_cga = 0;   // uGPU_CGAs (or GPC_CGAs) of a GPU_CGA; 0: no such level
    std::uint32_t ugpu_cga = 0;  // GPC_CGAs of a uGPU_CGA; 0: no such level
  };

  SessionOracle(const arch::Topology& topology, const std::vector<std::uint32_t>& sm_priority,
                std::vector<std::uint32_t> gpc_priority, Names names)
      : topology_(topology), gpc_priority_(std::move(gpc_priority)), names_(std::move(names)) {
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      machine_.emplace_back(topology, g, sm_priority, names_.load_balancing, names_.multicast, names_.domain);
    }
  }

  // `slots`: by SM id. `limits`: GPC_CGAs by GPC.
  const std::vector<Cga>& run(const std::vector<std::uint16_t>& slots, const std::vector<std::uint32_t>& limits,
                              const Request& request) {
    for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
      std::vector<std::uint32_t> free;
      for (const std::uint32_t id : topology_.gpc(g).sm_ids) free.push_back(slots[id]);
      machine_[g].begin(free, request.ctas, request.cpc_ctas, request.multicast, limits[g]);
    }
    launched_.clear();
    units_ = 0;
    failed_in_pass_two_ = false;
    if (request.gpu_cga == 0 && request.ugpu_cga == 0) {
      place_gpc_cgas(request.units);
    } else if (request.gpu_cga == 0) {
      place_ugpu_cgas(request);
    } else {
      while (units_ < request.units && place_gpu_cga(request)) {
      }
    }
    return launched_;
  }
  std::uint64_t units() const { return units_; }
  bool failed_in_pass_two() const { return failed_in_pass_two_; }

 private:
  using Machine = std::vector<GpcOracle>;  // by GPC

  // The domains that receive a CGA in one step, in order (CWD-13). `speeds`: of those that have room.
  std::vector<std::uint32_t> winners(const std::map<std::uint32_t, std::uint32_t>& speeds,
                                     const std::vector<std::uint32_t>& priority, std::uint64_t cgas) const {
    std::vector<std::uint32_t> result;
    for (const std::uint32_t domain : priority) {
      if (speeds.count(domain) == 0) continue;
      const auto better = [&](std::uint32_t other) {
        if (names_.domain == "fastest") return speeds.at(other) > speeds.at(domain);
        if (names_.domain == "tightest") return speeds.at(other) < speeds.at(domain);
        return false;  // first_fit
      };
      bool best = true;
      for (const auto& other : speeds) best = best && !better(other.first);
      if (best) result.push_back(domain);
    }
    const std::uint64_t most = names_.domain == "fastest" ? cgas : 1;
    if (result.size() > most) result.resize(most);
    return result;
  }

  void place_gpc_cgas(std::uint64_t units) {
    while (units_ < units) {
      const std::optional<std::vector<Cga>> step = place_step(machine_, all_gpcs(), units - units_);
      if (!step) return;
      for (const Cga& cga : *step) launch({cga});
    }
  }

  // A step of CWD-13 among those GPCs.
  std::optional<std::vector<Cga>> place_step(Machine& machine, const std::vector<std::uint32_t>& gpcs,
                                             std::uint64_t cgas) const {
    std::map<std::uint32_t, std::uint32_t> speeds;
    std::map<std::uint32_t, GpcOracle::Answer> answers;
    for (const std::uint32_t g : gpcs) {
      const std::optional<GpcOracle::Answer> answer = machine[g].query();
      if (!answer) continue;
      speeds[g] = answer->speed;
      answers[g] = *answer;
    }
    if (answers.empty()) return std::nullopt;
    std::vector<Cga> result;
    for (const std::uint32_t g : winners(speeds, gpc_priority_, cgas)) {
      machine[g].reserve();
      result.push_back({0, g, answers[g].speed, false, answers[g].order});
    }
    return result;
  }

  // That many GPC_CGAs on those GPCs, all or none.
  std::optional<std::vector<Cga>> place_set(Machine& machine, const std::vector<std::uint32_t>& gpcs,
                                            std::uint32_t cgas) const {
    std::vector<Cga> result;
    while (result.size() < cgas) {
      const std::optional<std::vector<Cga>> step = place_step(machine, gpcs, cgas - result.size());
      if (!step) return std::nullopt;
      result.insert(result.end(), step->begin(), step->end());
    }
    return result;
  }

  // GPC_CGAs that still fit on those GPCs (pass I).
  static std::uint64_t room(Machine machine, const std::vector<std::uint32_t>& gpcs) {
    std::uint64_t count = 0;
    for (const std::uint32_t g : gpcs) {
      while (machine[g].query()) {
        machine[g].reserve();
        ++count;
      }
    }
    return count;
  }

  // One uGPU_CGA tried on every uGPU; those of greatest speed keep theirs, at most `cgas`.
  std::vector<std::vector<Cga>> place_on_ugpus(std::uint32_t gpc_cgas, std::uint64_t cgas) {
    std::map<std::uint32_t, std::uint32_t> speeds;
    std::map<std::uint32_t, std::vector<Cga>> sets;
    std::map<std::uint32_t, Machine> after;
    for (std::uint32_t u = 0; u < topology_.ugpus(); ++u) {
      Machine trial = machine_;
      const std::optional<std::vector<Cga>> set = place_set(trial, gpcs_of(u), gpc_cgas);
      if (set.has_value() != (room(machine_, gpcs_of(u)) >= gpc_cgas)) failed_in_pass_two_ = true;
      if (!set) continue;
      speeds[u] = set->front().speed;
      for (const Cga& cga : *set) speeds[u] = std::min(speeds[u], cga.speed);
      sets[u] = *set;
      after.emplace(u, trial);
    }
    std::vector<std::uint32_t> ugpus(topology_.ugpus());
    std::iota(ugpus.begin(), ugpus.end(), 0U);
    std::vector<std::vector<Cga>> result;
    for (const std::uint32_t u : winners(speeds, ugpus, cgas)) {
      for (const std::uint32_t g : gpcs_of(u)) machine_[g] = after.at(u)[g];
      result.push_back(sets[u]);
    }
    return result;
  }

  void place_ugpu_cgas(const Request& request) {
    while (units_ < request.units) {
      const auto sets = place_on_ugpus(request.ugpu_cga, request.units - units_);
      if (sets.empty()) return;
      for (const std::vector<Cga>& set : sets) launch(set);
    }
  }

  // False: there is no room for it, and nothing of it was launched.
  bool place_gpu_cga(const Request& request) {
    if (request.ugpu_cga == 0) {
      if (room(machine_, all_gpcs()) < request.gpu_cga) return false;
      const std::optional<std::vector<Cga>> set = place_set(machine_, all_gpcs(), request.gpu_cga);
      failed_in_pass_two_ = failed_in_pass_two_ || !set;
      if (set) launch(*set);
      return set.has_value();
    }
    std::uint64_t fit = 0;
    for (std::uint32_t u = 0; u < topology_.ugpus(); ++u) fit += room(machine_, gpcs_of(u)) / request.ugpu_cga;
    if (fit < request.gpu_cga) return false;
    std::vector<Cga> unit;
    for (std::uint32_t placed = 0; placed < request.gpu_cga;) {
      const auto sets = place_on_ugpus(request.ugpu_cga, request.gpu_cga - placed);
      if (sets.empty()) {
        failed_in_pass_two_ = true;
        return false;
      }
      for (const std::vector<Cga>& set : sets) {
        unit.insert(unit.end(), set.begin(), set.end());
        ++placed;
      }
    }
    launch(unit);
    return true;
  }

  void launch(std::vector<Cga> unit) {
    for (Cga& cga : unit) cga.unit = units_;
    unit.back().last = true;
    launched_.insert(launched_.end(), unit.begin(), unit.end());
    ++units_;
  }

  std::vector<std::uint32_t> all_gpcs() const { return gpc_priority_; }
  std::vector<std::uint32_t> gpcs_of(std::uint32_t ugpu) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
      if (topology_.ugpu_of(g) == ugpu) result.push_back(g);
    }
    return result;
  }

  const arch::Topology& topology_;
  std::vector<std::uint32_t> gpc_priority_;
  Names names_;
  Machine machine_;
  std::vector<Cga> launched_;
  std::uint64_t units_ = 0;
  bool failed_in_pass_two_ = false;
};

}  // namespace heddle::test
