// Judges every CTA of a run with CGAs: each starts and ends once, knows where it is, shares its CGAs' domains, and had
// its place when the first of its CGA started.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "protocol/host_task.h"
#include "support/random.h"

namespace heddle::test {

class CgaJudge : public CtaListener {
 public:
  CgaJudge(const arch::Topology& topology, const arch::SmLimits& limits)
      : topology_(topology), limits_(limits), capacity_(arch::capacity_of(limits)), used_(topology.sms()) {}

  void expect(const protocol::SubmitPacket& packet) {
    Task& task = tasks_[packet.operation];
    task.kernel = packet.kernel;
    task.need = arch::need_of(limits_, packet.kernel);
    task.state.assign(packet.kernel.grid.count(), 0);
  }

  void cta_started(const Cta& cta) override {
    Task& task = tasks_.at(cta.task);
    const arch::Dim3& grid = task.kernel.grid;
    check(cta.index < task.state.size() && task.state[cta.index] == 0, cta, "started twice, or is not of its grid");
    task.state[cta.index] = 1;
    ++started;
    check(cta.x < grid.x && cta.y < grid.y && cta.z < grid.z, cta, "lies outside its grid");
    check(cta.index == cta.x + std::uint64_t{grid.x} * (cta.y + std::uint64_t{grid.y} * cta.z), cta, "has another id");
    check(cta.launch <= cta.cycle && cta.cycle <= cta.first_instruction, cta, "starts before it is launched");
    if (task.kernel.cluster.any()) judge_together(cta, task);
    used_[cta.sm].add(task.need);
    check(used_[cta.sm].within(capacity_), cta, "has no room on its SM");
    if (task.kernel.cluster.any()) {
      judge_cga(cta, task);
      judge_ugpu(cta, task);
    }
  }
  void cta_ended(const Cta& cta) override {
    Task& task = tasks_.at(cta.task);
    check(task.state.at(cta.index) == 1, cta, "ended twice, or before it started");
    task.state[cta.index] = 2;
    used_[cta.sm].subtract(task.need);
  }

  // Once the machine is idle.
  std::vector<std::string> verdict() {
    for (const auto& [operation, task] : tasks_) {
      const auto left = std::count_if(task.state.begin(), task.state.end(), [](auto state) { return state != 2; });
      if (left != 0) problems_.push_back(fmt::format("operation {}: {} CTAs were lost", operation, left));
    }
    for (const auto& [key, cga] : cgas_) {
      if (cga.members == std::get<2>(key)) continue;
      problems_.push_back(fmt::format("operation {} CGA {} has {} of {} CTAs", std::get<0>(key), std::get<1>(key),
                                      cga.members, std::get<2>(key)));
    }
    return problems_;
  }
  std::uint64_t started = 0;
  std::size_t cgas() const { return cgas_.size(); }

 private:
  struct Task {
    arch::KernelShape kernel;
    arch::ResourceVector need;
    std::vector<std::uint8_t> state;
  };
  struct Cga {
    std::uint32_t domain = 0;
    std::uint32_t members = 0;
    std::vector<bool> ranks;
    std::vector<std::uint32_t> sms;
  };

  // An outermost CGA that is being started: what SMs held when its first CTA came, and what it has taken since.
  struct Starting {
    std::vector<arch::ResourceVector> held;
    std::uint64_t members = 0;
  };
  static std::uint64_t id_of(const Cta& cta, const arch::Dim3& grid, const arch::Dim3& cga) {
    const std::uint64_t across = grid.x / cga.x;
    const std::uint64_t down = grid.y / cga.y;
    return cta.x / cga.x + across * (cta.y / cga.y + down * (cta.z / cga.z));
  }

  // [0123]: no CTA of a CGA starts unless there is room for all of them. All have room beside what ran when the first
  // one started: none waits for something else to end. (Of a CGA that can be split, the size is known by its id alone.)
  void judge_together(const Cta& cta, const Task& task) {
    const arch::ClusterShape& cluster = task.kernel.cluster;
    const bool split = cluster.sizes() > 1;
    if (split && cluster.outermost() > arch::CgaLevel::gpc) return;
    const arch::Dim3& extents = cluster.of(cluster.outermost());
    const std::uint64_t size = split ? cta.cga_size : extents.count();
    const std::uint64_t id = split ? cta.cga : id_of(cta, task.kernel.grid, extents);
    const auto key = std::make_tuple(cta.task, id, size);
    Starting& cga = starting_[key];
    if (cga.members == 0) cga.held = used_;
    cga.held[cta.sm].add(task.need);
    check(cga.held[cta.sm].within(capacity_), cta, "had no room when the first CTA of its CGA started");
    if (++cga.members == size) starting_.erase(key);
  }

  // A uGPU_CGA, whatever it is part of and consists of.
  void judge_ugpu(const Cta& cta, const Task& task) {
    const arch::Dim3& extents = task.kernel.cluster.of(arch::CgaLevel::ugpu);
    if (extents.count() == 0 || task.kernel.cluster.sizes() > 1) return;
    const std::uint32_t ugpu = topology_.ugpu_of(topology_.sm(cta.sm).gpc);
    const auto found = ugpus_.emplace(std::make_pair(cta.task, id_of(cta, task.kernel.grid, extents)), ugpu);
    check(found.first->second == ugpu, cta, "is outside the uGPU of its uGPU_CGA");
  }

  // The CGA that ranks count in: the GPC_CGA or, without one, the uGPU_CGA or GPU_CGA.
  void judge_cga(const Cta& cta, const Task& task) {
    const arch::ClusterShape& cluster = task.kernel.cluster;
    Cga& cga = cgas_[{cta.task, cta.cga, cta.cga_size}];
    const std::uint32_t gpc = topology_.sm(cta.sm).gpc;
    const std::uint32_t domain = cluster.has(arch::CgaLevel::gpc)    ? gpc
                                 : cluster.has(arch::CgaLevel::ugpu) ? topology_.ugpu_of(gpc)
                                                                     : 0;
    if (cga.members == 0) {
      cga.domain = domain;
      cga.ranks.assign(cta.cga_size, false);
    }
    check(cga.domain == domain, cta, "is outside its CGA's domain");
    check(cta.rank < cta.cga_size && !cga.ranks[cta.rank], cta, "has a rank that is taken");
    cga.ranks[cta.rank] = true;
    if (cluster.has(arch::CgaLevel::gpc) && cluster.mode == arch::CgaMode::multicast) {
      check(std::find(cga.sms.begin(), cga.sms.end(), cta.sm) == cga.sms.end(), cta, "shares its SM in multicast mode");
      cga.sms.push_back(cta.sm);
    }
    if (++cga.members == cta.cga_size) cga.sms.clear();
  }
  void check(bool good, const Cta& cta, const char* what) {
    if (good || problems_.size() > 20) return;
    problems_.push_back(fmt::format("operation {} CTA {} on SM {}: {}", cta.task, cta.index, cta.sm, what));
  }

  const arch::Topology& topology_;
  arch::SmLimits limits_;
  arch::ResourceVector capacity_;
  std::vector<arch::ResourceVector> used_;
  std::map<std::uint32_t, Task> tasks_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, Cga> cgas_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, Starting> starting_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> ugpus_;  // by task and uGPU_CGA
  std::vector<std::string> problems_;
};

// A kernel whose grid is of a random kind (CWD-10). `max_units`: outermost CGAs in all.
inline protocol::SubmitPacket random_cga_kernel(Random& random, std::uint32_t operation, std::uint32_t stream,
                                                std::uint32_t max_units) {
  using arch::CgaLevel;
  protocol::SubmitPacket packet;
  packet.operation = operation;
  packet.stream = stream;
  packet.priority = static_cast<std::int32_t>(random.below(3)) - 1;
  arch::KernelShape& kernel = packet.kernel;
  kernel.block = {32 * random.between(1, 16), 1, 1};
  kernel.duration.min = random.between(1, 300);
  kernel.duration.max = kernel.duration.min + random.below(400);
  kernel.local_bytes = random.chance(30) ? 64 : 0;
  kernel.subcontext = static_cast<std::uint8_t>(random.below(3));
  arch::ClusterShape& cluster = kernel.cluster;
  cluster.mode = random.chance(50) ? arch::CgaMode::multicast : arch::CgaMode::load_balancing;
  const std::uint32_t kind = random.below(9);
  arch::Dim3 unit{1, 1, 1};
  const auto grow = [&](CgaLevel level, std::uint32_t x, std::uint32_t y) {
    unit = {unit.x * x, unit.y * y, unit.z};
    cluster.of(level) = unit;
  };
  if (kind == 3) grow(CgaLevel::cpc, random.between(1, 2), 1);
  if (kind == 1 || kind == 2) {
    grow(CgaLevel::gpc, random.between(1, 4), random.between(1, 2));
  } else if (kind >= 3 && kind <= 6) {
    grow(CgaLevel::gpc, random.between(1, 2), random.between(1, 2));
  }
  if (kind == 4 || kind == 5) grow(kind == 4 ? CgaLevel::gpu : CgaLevel::ugpu, random.between(1, 2), 1);
  if (kind == 6) {
    grow(CgaLevel::ugpu, 1, random.between(1, 2));
    grow(CgaLevel::gpu, random.between(1, 2), 1);
  }
  if (kind == 7 || kind == 8)
    grow(kind == 7 ? CgaLevel::gpu : CgaLevel::ugpu, random.between(1, 6), random.between(1, 2));
  if (kind == 2 && unit.x % 2 == 0) {
    cluster.fallback[0] = {unit.x / 2, unit.y, 1};
    if (unit.y == 2) cluster.fallback[1] = {unit.x / 2, 1, 1};
  }
  cluster.linear_memory = kind != 0 && random.chance(30);
  const std::uint32_t x = random.between(1, std::min(max_units, 4U));
  kernel.grid = {unit.x * x, unit.y * random.between(1, std::max(1U, max_units / x)), 1};
  if (kind == 0) kernel.grid = {random.between(1, max_units * 4), random.between(1, 3), random.between(1, 2)};
  return packet;
}

}  // namespace heddle::test
