// The fluid model against a brute-force one: every CTA on its own, every rate found anew whenever anything changes.
#include "fluid/fluid_core.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace heddle::test::fluid_fluid_core_test {
namespace {

using arch::Demand;
using arch::DemandUnit;
using fluid::FluidCore;
using fluid::FluidMachine;
using fluid::Resource;

// A machine of `sms` SMs per GPC whose peaks are easy to calculate with.
FluidMachine round_machine(std::uint32_t gpcs, std::uint32_t sms) {
  FluidMachine machine;
  machine.sm.fill(100);
  machine.sm_read = 50;
  machine.l1_read = 40;
  machine.sm_write = 50;
  machine.gpcs.assign(gpcs, {80, 80, 0});
  machine.pools.assign(1, {1000, 1000, 120});
  for (std::uint32_t gpc = 0; gpc < gpcs; ++gpc) machine.gpc_of.insert(machine.gpc_of.end(), sms, gpc);
  return machine;
}

Demand demand_of(std::initializer_list<std::pair<DemandUnit, double>> amounts, double floor_ns = 0) {
  Demand demand;
  for (const auto& [unit, amount] : amounts) demand.of(unit) = amount;
  demand.floor_ns = floor_ns;
  return demand;
}

// Runs a core as its shell does.
class Runner {
 public:
  explicit Runner(const FluidMachine& machine, double tolerance = 0)
      : core(machine, tolerance), sms_(machine.gpc_of.size()) {}

  void enter(std::uint32_t sm, std::uint32_t kernel, std::uint32_t id, double left = 1) {
    std::uint32_t slot = 0;
    while (slots_.count({sm, slot}) > 0) ++slot;
    slots_[{sm, slot}] = id;
    core.enter(sm, slot, kernel, left, now);
    core.settle(now);
  }
  double leave(std::uint32_t id) {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [id](const auto& its) { return its.second == id; });
    const double left = core.leave(found->first.first, found->first.second, now);
    slots_.erase(found);
    core.settle(now);
    return left;
  }
  bool has(std::uint32_t id) const {
    return std::any_of(slots_.begin(), slots_.end(), [id](const auto& its) { return its.second == id; });
  }
  void run_until(Cycle until) {
    while (true) {
      Cycle next = kNever;
      for (std::uint32_t sm = 0; sm < sms_; ++sm) next = std::min(next, core.next_end(sm));
      if (next == kNever || next > until) break;
      now = next;
      for (std::uint32_t sm = 0; sm < sms_; ++sm) {
        if (core.next_end(sm) != now) continue;
        for (const FluidCore::Ended& ended : core.take_ended(sm, now)) {
          const std::uint32_t id = slots_.at({sm, ended.slot});
          ends[id] = now;
          slots_.erase({sm, ended.slot});
        }
      }
      core.settle(now);
    }
    if (until != kNever) now = until;
  }

  FluidCore core;
  Cycle now = 0;
  std::map<std::uint32_t, Cycle> ends;  // by id

 private:
  std::size_t sms_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> slots_;
};

// Written from the definition: what a CTA needs of every single resource of the machine, per part of its work.
class Oracle {
 public:
  explicit Oracle(const FluidMachine& machine) : machine_(machine) {}

  void enter(std::uint32_t sm, const Demand& demand, std::uint32_t id, double left) {
    Cta cta;
    cta.id = id;
    cta.left = left;
    const auto need = [&](std::string resource, double amount) {
      if (amount > 0) cta.needs[resource] += amount;
    };
    const std::string own = "sm" + std::to_string(sm);
    const std::string gpc = "gpc" + std::to_string(machine_.gpc_of[sm]);
    const std::string pool = "pool" + std::to_string(machine_.gpcs[machine_.gpc_of[sm]].pool);
    double cycles = std::max(1.0, demand.floor_ns * machine_.cycles_per_ns);
    const auto local = [&](const std::string& name, double amount, double peak) {
      if (amount <= 0) return;
      need(own + name, amount / peak);
      alone_[own + name] += amount / peak;
    };
    alone_.clear();
    for (const DemandUnit unit :
         {DemandUnit::tensor_f16, DemandUnit::tensor_tf32, DemandUnit::tensor_f8, DemandUnit::tensor_f64}) {
      local(" tensor", demand.of(unit), machine_.sm[static_cast<std::size_t>(unit)]);
    }
    for (const DemandUnit unit :
         {DemandUnit::fp32, DemandUnit::fp64, DemandUnit::int32, DemandUnit::sfu, DemandUnit::shared}) {
      local(std::string(" ") + arch::demand_name(unit), demand.of(unit), machine_.sm[static_cast<std::size_t>(unit)]);
    }
    const double read = demand.of(DemandUnit::l2_read);
    const double write = demand.of(DemandUnit::l2_write);
    local(" in", read + machine_.header * write, machine_.sm_read);
    local(" l1", read - demand.bulk_read, machine_.l1_read);
    local(" out", write + machine_.header * (read + write), machine_.sm_write);
    for (const auto& [name, time] : alone_) cycles = std::max(cycles, time);
    need(gpc + " in", (read + machine_.header * write) / machine_.gpcs[machine_.gpc_of[sm]].read);
    need(gpc + " out", (write + machine_.header * (read + write)) / machine_.gpcs[machine_.gpc_of[sm]].write);
    const FluidMachine::Pool& its = machine_.pools[machine_.gpcs[machine_.gpc_of[sm]].pool];
    need(pool + " read", read / its.l2_read);
    need(pool + " write", write / its.l2_write);
    need(pool + " bus",
         (demand.of(DemandUnit::dram_read) + machine_.write_cost * demand.of(DemandUnit::dram_write)) / its.dram);
    cta.pace = 1 / cycles;
    ctas_.push_back(cta);
    share();
  }
  double leave(std::uint32_t id) {
    const auto cta = std::find_if(ctas_.begin(), ctas_.end(), [id](const Cta& its) { return its.id == id; });
    const double left = cta->left;
    ctas_.erase(cta);
    share();
    return left;
  }
  void run_until(Cycle until) {
    while (!ctas_.empty()) {
      Cycle next = kNever;
      for (const Cta& cta : ctas_) {
        next = std::min(next, now + std::max<Cycle>(1, static_cast<Cycle>(std::ceil(cta.left / cta.rate - 1e-6))));
      }
      if (next > until) break;
      go_to(next);
      for (std::size_t i = 0; i < ctas_.size();) {
        if (ctas_[i].left > 1e-9) {
          ++i;
          continue;
        }
        ends[ctas_[i].id] = now;
        ctas_.erase(ctas_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      share();
    }
    if (until != kNever) go_to(until);
  }

  Cycle now = 0;
  std::map<std::uint32_t, Cycle> ends;

 private:
  struct Cta {
    std::uint32_t id = 0;
    double left = 1;
    double pace = 1;
    double rate = 0;
    std::map<std::string, double> needs;  // part of the resource, per part of the work and cycle
  };
  void go_to(Cycle when) {
    for (Cta& cta : ctas_) cta.left -= cta.rate * static_cast<double>(when - now);
    now = when;
  }
  // All are raised together; whoever uses something that is used up stays behind.
  void share() {
    std::set<std::size_t> open;
    for (std::size_t i = 0; i < ctas_.size(); ++i) open.insert(i);
    double part = 0;
    while (!open.empty()) {
      std::map<std::string, double> used;
      std::map<std::string, double> slopes;
      for (std::size_t i = 0; i < ctas_.size(); ++i) {
        for (const auto& [name, need] : ctas_[i].needs) {
          if (open.count(i) > 0) {
            slopes[name] += need * ctas_[i].pace;
          } else {
            used[name] += need * ctas_[i].rate;
          }
        }
      }
      double next = 1;
      for (const auto& [name, slope] : slopes) next = std::min(next, (1 - used[name]) / slope);
      part = std::max(part, next);
      std::set<std::size_t> closed;
      for (const std::size_t i : open) {
        ctas_[i].rate = part * ctas_[i].pace;
        bool full = part >= 1;
        for (const auto& [name, need] : ctas_[i].needs) full |= used[name] + slopes[name] * part >= 1 - 1e-9;
        if (full) closed.insert(i);
      }
      for (const std::size_t i : closed) open.erase(i);
    }
  }

  const FluidMachine& machine_;
  std::vector<Cta> ctas_;
  std::map<std::string, double> alone_;
};

FluidMachine random_machine(Random& random) {
  FluidMachine machine;
  for (double& peak : machine.sm) peak = random.between(20, 200);
  machine.sm_read = random.between(20, 100);
  machine.l1_read = random.between(20, 100);
  machine.sm_write = random.between(20, 100);
  machine.header = random.below(2) == 0 ? 0 : 0.25;
  machine.write_cost = random.below(2) == 0 ? 1 : 1.2;
  machine.cycles_per_ns = 1.5;
  const std::uint32_t pools = random.between(1, 2);
  const std::uint32_t gpcs = pools * random.between(1, 2);
  for (std::uint32_t pool = 0; pool < pools; ++pool) {
    machine.pools.push_back({static_cast<double>(random.between(50, 400)), static_cast<double>(random.between(50, 400)),
                             static_cast<double>(random.between(30, 300))});
  }
  for (std::uint32_t gpc = 0; gpc < gpcs; ++gpc) {
    machine.gpcs.push_back(
        {static_cast<double>(random.between(40, 200)), static_cast<double>(random.between(40, 200)), gpc % pools});
    const std::uint32_t sms = random.between(1, 4);
    machine.gpc_of.insert(machine.gpc_of.end(), sms, gpc);
  }
  return machine;
}

Demand random_demand(Random& random) {
  Demand demand;
  for (std::size_t i = 0; i < static_cast<std::size_t>(DemandUnit::l2_read); ++i) {
    if (random.below(4) == 0) demand.amounts[i] = random.between(100, 100'000);
  }
  if (random.below(3) > 0) demand.of(DemandUnit::l2_read) = random.between(100, 50'000);
  if (random.below(3) == 0) demand.bulk_read = demand.of(DemandUnit::l2_read) * random.below(2);
  if (random.below(2) == 0) demand.of(DemandUnit::l2_write) = random.between(100, 50'000);
  if (random.below(2) == 0) demand.of(DemandUnit::dram_read) = demand.of(DemandUnit::l2_read) / random.between(1, 4);
  if (random.below(2) == 0) demand.of(DemandUnit::dram_write) = demand.of(DemandUnit::l2_write) / random.between(1, 4);
  if (random.below(2) == 0) demand.floor_ns = random.between(1, 2000);
  return demand;
}

}  // namespace

TEST_CASE("a CTA alone takes the longest of what it needs, and its floor at least", "[fluid][FLU-01]") {
  const FluidMachine machine = round_machine(2, 2);
  Runner runner(machine);
  const std::uint32_t math = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}, {DemandUnit::l2_read, 80}}));
  const std::uint32_t loads = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}, {DemandUnit::l2_read, 800}}));
  const std::uint32_t waits = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}}, 70));
  const std::uint32_t nothing = runner.core.add_kernel({});
  runner.enter(0, math, 0);
  runner.enter(1, loads, 1);
  runner.enter(2, waits, 2);
  runner.enter(3, nothing, 3);
  runner.run_until(kNever);
  CHECK(runner.ends.at(0) == 10);  // 1000 flops of 100 per cycle
  CHECK(runner.ends.at(1) == 20);  // 800 bytes of 40 per cycle
  CHECK(runner.ends.at(2) == 70);
  CHECK(runner.ends.at(3) == 1);
  CHECK(runner.core.resident() == 0);
}

TEST_CASE("bulk reads pass by the L1, and tensor cores are one unit for all types", "[fluid][FLU-01]") {
  Runner runner(round_machine(1, 2));
  Demand bulk = demand_of({{DemandUnit::l2_read, 1000}});
  bulk.bulk_read = 1000;
  runner.enter(0, runner.core.add_kernel(bulk), 0);
  runner.enter(1, runner.core.add_kernel(demand_of({{DemandUnit::tensor_f16, 500}, {DemandUnit::tensor_f8, 500}})), 1);
  runner.run_until(kNever);
  CHECK(runner.ends.at(0) == 20);  // the link's 50 bytes per cycle, not the L1's 40
  CHECK(runner.ends.at(1) == 10);
}

TEST_CASE("neighbours on an SM slow each other down where they share, and nowhere else", "[fluid][FLU-02]") {
  Runner runner(round_machine(1, 1));
  const std::uint32_t loads = runner.core.add_kernel(demand_of({{DemandUnit::l2_read, 400}}));
  const std::uint32_t math = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}}));
  runner.enter(0, loads, 0);
  runner.enter(0, loads, 1);
  runner.enter(0, math, 2);
  runner.run_until(kNever);
  CHECK(runner.ends.at(0) == 20);
  CHECK(runner.ends.at(1) == 20);
  CHECK(runner.ends.at(2) == 10);
}

TEST_CASE("what one cannot use is the others'", "[fluid][FLU-02]") {
  // Two CTAs share memory's 120 bytes per cycle. Alone each would move 40; the one that also computes 10.
  FluidMachine machine = round_machine(2, 2);
  machine.pools[0].dram = 60;
  Runner runner(machine);
  const auto reads = [](double bytes, double flops) {
    return demand_of({{DemandUnit::l2_read, bytes}, {DemandUnit::dram_read, bytes}, {DemandUnit::fp32, flops}});
  };
  const std::uint32_t fast = runner.core.add_kernel(reads(4000, 0));
  const std::uint32_t slow = runner.core.add_kernel(reads(1000, 10'000));  // 100 cycles of fp32 at least
  runner.enter(0, fast, 0);
  runner.enter(2, fast, 1);
  runner.enter(1, slow, 2);
  // Filled alike: 40 p + 40 p + 10 p = 60.
  CHECK(runner.core.use(0, Resource::dram) == Approx(1));
  runner.run_until(kNever);
  CHECK(runner.ends.at(2) == 150);  // at two thirds of its pace
  CHECK(runner.ends.at(0) == 150);
}

TEST_CASE("a CTA that stops takes the rest of its work with it", "[fluid][FLU-03]") {
  Runner runner(round_machine(1, 2));
  const std::uint32_t math = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}}));
  runner.enter(0, math, 0);
  runner.enter(0, math, 1);  // both at half their pace
  runner.run_until(8);
  const double left = runner.leave(0);
  CHECK(left == Approx(0.6));
  runner.run_until(10);
  runner.enter(1, math, 2, left);
  runner.run_until(kNever);
  CHECK(runner.ends.at(1) == 14);
  CHECK(runner.ends.at(2) == 16);
}

TEST_CASE("a demand of units that a machine lacks is refused", "[fluid][FLU-01]") {
  FluidMachine machine = round_machine(1, 1);
  machine.sm[static_cast<std::size_t>(DemandUnit::tensor_f64)] = 0;
  FluidCore core(machine, 0);
  CHECK_THROWS_WITH(core.add_kernel(demand_of({{DemandUnit::tensor_f64, 1}})), Catch::Contains("tensor_f64"));
}

TEST_CASE("random CTAs end when a brute-force model says", "[fluid][FLU-02][FLU-03]") {
  std::uint64_t compared = 0;
  std::uint64_t wide = 0;
  for (const std::uint64_t seed : seeds(long_tests() ? 20'000 : 2000)) {
    CAPTURE(seed);
    Random random(seed);
    const FluidMachine machine = random_machine(random);
    Runner runner(machine);
    Oracle oracle(machine);
    std::vector<Demand> demands;
    for (std::uint32_t i = random.between(1, 4); i > 0; --i) {
      demands.push_back(random_demand(random));
      runner.core.add_kernel(demands.back());
    }
    const std::uint32_t ctas = random.between(1, 30);
    for (std::uint32_t id = 0; id < ctas; ++id) {
      if (random.below(2) == 0) {
        const Cycle until = runner.now + random.below(2000);
        runner.run_until(until);
        oracle.run_until(until);
        oracle.now = until;
      }
      if (id > 0 && random.below(5) == 0) {
        const std::uint32_t other = random.below(id);
        REQUIRE(runner.has(other) ==
                (oracle.ends.count(other) == 0 && runner.ends.count(other) == 0 && runner.has(other)));
        if (runner.has(other) && oracle.ends.count(other) == 0) {
          CHECK(runner.leave(other) == Approx(oracle.leave(other)).margin(1e-6));
        }
      }
      const auto sm = random.below(machine.gpc_of.size());
      const auto kernel = random.below(demands.size());
      const double left = random.below(3) == 0 ? random.between(1, 99) / 100.0 : 1;
      runner.enter(sm, kernel, id, left);
      oracle.enter(sm, demands[kernel], id, left);
    }
    runner.run_until(kNever);
    oracle.run_until(kNever);
    REQUIRE(runner.ends.size() == oracle.ends.size());
    for (const auto& [id, end] : oracle.ends) {
      CAPTURE(id, end, runner.ends.at(id));
      // Rounding can put an end on either side of a cycle's edge, and what follows with it.
      REQUIRE(std::abs(static_cast<double>(runner.ends.at(id)) - static_cast<double>(end)) <=
              2 + 1e-6 * static_cast<double>(end));
      ++compared;
    }
    wide += runner.core.solved() > 0 ? 1 : 0;
    REQUIRE(runner.core.resident() == 0);
  }
  CHECK(compared > 10'000);
  CHECK(wide > 500);  // cases in which something machine-wide was used up
}

TEST_CASE("with a tolerance, shares are found more rarely, and ends stay near", "[fluid][FLU-04]") {
  FluidMachine machine = round_machine(4, 16);
  for (FluidMachine::Gpc& gpc : machine.gpcs) gpc = {2000, 2000, 0};
  machine.pools[0] = {2000, 2000, 1000};
  const Demand copy = demand_of({{DemandUnit::l2_read, 4000},
                                 {DemandUnit::dram_read, 4000},
                                 {DemandUnit::l2_write, 4000},
                                 {DemandUnit::dram_write, 4000}},
                                300);
  std::array<Cycle, 2> last{};
  std::array<std::uint64_t, 2> solved{};
  for (std::size_t run = 0; run < 2; ++run) {
    Runner runner(machine, run == 0 ? 0 : 0.01);
    Random random(1);
    const std::uint32_t kernel = runner.core.add_kernel(copy);
    std::uint32_t id = 0;
    for (std::uint32_t i = 0; i < 512; ++i) runner.enter(i % 64, kernel, id++, 0.5 + random.below(50) / 100.0);
    for (std::uint32_t i = 0; i < 2000; ++i) {
      runner.run_until(runner.now + 1 + random.below(20));
      const auto sm = random.below(64);
      runner.enter(sm, kernel, id++);
      CHECK(runner.core.use(0, Resource::dram) <= 1.01 + 1e-9);
    }
    runner.run_until(kNever);
    for (const auto& [number, end] : runner.ends) last[run] = std::max(last[run], end);
    solved[run] = runner.core.solved();
  }
  CAPTURE(last[0], last[1], solved[0], solved[1]);
  CHECK(static_cast<double>(last[1]) == Approx(static_cast<double>(last[0])).epsilon(0.01));
  CHECK(solved[1] * 2 < solved[0]);
}

TEST_CASE("a reset leaves nothing", "[fluid][FLU-03]") {
  Runner runner(round_machine(1, 1));
  const std::uint32_t math = runner.core.add_kernel(demand_of({{DemandUnit::fp32, 1000}}));
  runner.core.enter(0, 0, math, 1, 5);
  runner.core.settle(5);
  runner.core.reset();
  CHECK(runner.core.resident() == 0);
  CHECK(runner.core.next_end(0) == kNever);
  runner.enter(0, math, 7);
  runner.run_until(kNever);
  CHECK(runner.ends.at(7) == 10);
}

}  // namespace heddle::test::fluid_fluid_core_test
