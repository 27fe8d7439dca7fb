// A million CTAs of many subcontexts while the host changes credits, masks and modes: no CTA is lost, what a subcontext
// holds is counted right at every step, and everything comes back.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/bits.h"
#include "common/packet_socket.h"
#include "cwd/cwd.h"
#include "cwd/fake_task_unit.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace stress_partition_storm_test {

using namespace heddle;
using namespace heddle::test;
using protocol::PartitionMode;
using protocol::SubcontextPacket;
using What = SubcontextPacket::What;

namespace {

const arch::ResourceVector kCapacity{{1000, 100'000, 100'000, 100'000, 8, 1000}};
constexpr std::uint32_t kGpcs = 4;
constexpr std::uint32_t kSms = 8;  // of a GPC
constexpr std::uint32_t kTpcs = kGpcs * kSms / 2;

// What the GPCs see of it.
struct Judge {
  std::map<std::uint32_t, std::vector<bool>> started;  // by operation and CTA
  std::vector<std::uint32_t> ctas = std::vector<std::uint32_t>(arch::kSubcontexts * kTpcs, 0);
  // CTAs by SM of the machine, and where shares stay as they are: the most of a subcontext on one, and on how many.
  std::vector<std::uint32_t> on_sm = std::vector<std::uint32_t>(arch::kSubcontexts * kGpcs * kSms, 0);
  bool constant_shares = false;
  std::uint32_t warps = 1;     // of a CTA
  std::uint64_t at_share = 0;  // launches that made it as many SMs as there may be
  std::uint64_t at_warps = 0;  // launches that made it as many warps of an SM, which had room for more
  std::uint64_t launched = 0;
  std::uint64_t steps = 0;
  std::uint64_t in_mode[3] = {};
  std::uint64_t with_negative_credits = 0;
  std::uint64_t shared = 0;  // launches on a TPC on which another subcontext has CTAs
  std::vector<std::string> problems;

  void complain(std::string text) {
    if (problems.size() < 20) problems.push_back(std::move(text));
  }
};

// Runs the CTAs of a mask in two parts, of different length.
class SwiftGpc : public sc_core::sc_module, private EventHandler {
 public:
  SwiftGpc(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t index, std::uint64_t seed,
           const arch::Topology& topology, const cwd::Cwd& cwd, Judge& judge)
      : sc_core::sc_module(name),
        launch_in("launch_in", domain, 0),
        complete_out("complete_out", domain, 0, kUnlimitedCredits),
        cga_out("cga_out", domain, 0, kUnlimitedCredits),
        shared_out("shared_out", domain, 0, kUnlimitedCredits),
        local_in("local_in", domain, 0),
        part_in("part_in", domain, 0),
        abort_in("abort_in", domain, 0),
        domain_(domain),
        index_(index),
        random_(seed + index),
        topology_(topology),
        cwd_(cwd),
        judge_(judge) {
    launch_in.on_packet<SwiftGpc, &SwiftGpc::on_launch>(*this);
    local_in.on_packet<SwiftGpc, &SwiftGpc::on_local>(*this);
    part_in.on_packet<SwiftGpc, &SwiftGpc::on_part>(*this);
    abort_in.on_packet<SwiftGpc, &SwiftGpc::on_abort>(*this);
  }

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::SharedReleasePacket> shared_out;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::PartPacket> part_in;
  PacketIn<protocol::AbortPacket> abort_in;

 private:
  struct Part {
    protocol::CompletePacket complete;
    std::uint8_t subcontext = 0;
    std::size_t cga = 0;  // 0: none
  };
  struct Cga {
    protocol::CgaCompletePacket complete;
    std::uint32_t left = 0;
  };

  void on_launch(const protocol::LaunchPacket& packet, std::uint32_t) {
    std::uint64_t& heard = heard_[packet.slot];
    if (packet.begins) heard = 0;
    std::uint64_t index = heard;
    heard += packet.num_ctas;
    if (packet.virtual_gpc != index_) return;
    std::size_t cga = 0;
    if (packet.cga_ctas > 0) {
      if (packet.cga_first) open_ = new_cga(packet);
      cga = open_;
    }
    start(packet, packet.sm_mask, index, cga);
    for (const std::uint64_t mask : packet.further_masks) start(packet, mask, index, cga);
    ++judge_.in_mode[static_cast<std::size_t>(cwd_.partition().quota().mode())];
    if (cwd_.partition().quota().credits(packet.subcontext) < 0) ++judge_.with_negative_credits;
    step(packet.subcontext);
  }
  std::size_t new_cga(const protocol::LaunchPacket& packet) {
    if (free_cgas_.empty()) {
      cgas_.emplace_back();
      free_cgas_.push_back(cgas_.size() - 1);
    }
    const std::size_t place = free_cgas_.back();
    free_cgas_.pop_back();
    cgas_[place] = {{packet.slot, packet.sequence}, packet.cga_ctas};
    return place;
  }

  void start(const protocol::LaunchPacket& packet, std::uint64_t mask, std::uint64_t& index, std::size_t cga) {
    if (mask == 0) return;
    std::vector<bool>& started = judge_.started[packet.operation];
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1, ++index) {
      if (index >= started.size() || started[index]) {
        judge_.complain(fmt::format("operation {}: CTA {} was started twice", packet.operation, index));
        continue;
      }
      started[index] = true;
      ++judge_.launched;
      const std::uint32_t tpc = tpc_of(rest);
      ++judge_.ctas[packet.subcontext * kTpcs + tpc];
      ++judge_.on_sm[packet.subcontext * kGpcs * kSms + sm_of(rest)];
      check_shares(packet.subcontext, sm_of(rest));
      if (!cwd_.partition().quota().held(packet.subcontext, tpc))
        judge_.complain("a CTA runs on a TPC that nobody counts");
      if (cwd_.partition().quota().holders(tpc) > 1) ++judge_.shared;
    }
    const std::uint64_t first = mask & random_.next();
    for (const std::uint64_t part : {first, mask & ~first}) {
      if (part == 0) continue;
      std::size_t place = parts_.size();
      if (free_parts_.empty()) {
        parts_.emplace_back();
      } else {
        place = free_parts_.back();
        free_parts_.pop_back();
      }
      parts_[place].complete = {packet.slot, part, packet.sequence, false, false, 0};
      parts_[place].subcontext = packet.subcontext;
      parts_[place].cga = cga;
      domain_.schedule_in(random_.chance(5) ? random_.below(2000) : random_.below(300), *this, 0, place);
    }
  }

  void on_event(std::uint32_t kind, std::uint64_t place) override {
    if (kind == 1) {
      cga_out.send(cgas_[place].complete);
      free_cgas_.push_back(place);
      return;
    }
    Part part = parts_[place];
    free_parts_.push_back(place);
    for (std::uint64_t rest = part.complete.sm_mask; rest != 0; rest &= rest - 1) {
      --judge_.ctas[part.subcontext * kTpcs + tpc_of(rest)];
      --judge_.on_sm[part.subcontext * kGpcs * kSms + sm_of(rest)];
      if (part.cga != 0 && --cgas_[part.cga].left == 0) {
        part.complete.cga_slots = heddle::bits::below(kSms);  // all SMs keep theirs until the CGA's last CTA
        domain_.schedule_in(random_.below(50), *this, 1, part.cga);
      }
    }
    complete_out.send(part.complete);
    step(part.subcontext);
  }

  // PRT-07. The distributor counts a TPC from before the launch arrives here to after the completion has left.
  void step(std::uint32_t subcontext) {
    ++judge_.steps;
    const cwd::TpcQuota& holds = cwd_.partition().quota();
    if (holds.tpcs_held(subcontext) + holds.credits(subcontext) + holds.reserved(subcontext) !=
        holds.maximum(subcontext)) {
      judge_.complain(fmt::format("subcontext {}: held, credits and maximum do not fit", subcontext));
    }
    std::uint32_t seen = 0;
    for (std::uint32_t tpc = 0; tpc < kTpcs; ++tpc) seen += judge_.ctas[subcontext * kTpcs + tpc] > 0 ? 1 : 0;
    if (seen > holds.tpcs_held(subcontext)) judge_.complain("more TPCs are in use than the distributor counts");
  }
  // PRT-11.
  void check_shares(std::uint32_t subcontext, std::uint32_t sm) {
    const cwd::SmShares& shares = cwd_.partition().shares();
    const auto row = judge_.on_sm.begin() + subcontext * kGpcs * kSms;
    const auto sms = static_cast<std::uint32_t>(kGpcs * kSms - std::count(row, row + kGpcs * kSms, 0U));
    const std::uint32_t warps = row[sm] * judge_.warps;
    if (warps > shares.warps_on(subcontext, sm)) judge_.complain("more warps are on an SM than the distributor counts");
    if (sms > shares.sms_held(subcontext)) judge_.complain("more SMs are in use than the distributor counts");
    if (!judge_.constant_shares) return;
    if (warps > shares.most_warps(subcontext)) judge_.complain("more warps are on an SM than there may be");
    if (sms > shares.most_sms(subcontext)) judge_.complain("more SMs are in use than there may be");
    judge_.at_share += sms == shares.most_sms(subcontext) ? 1 : 0;
    judge_.at_warps += shares.most_warps(subcontext) < warps + judge_.warps && row[sm] < 8 ? 1 : 0;
  }
  std::uint32_t sm_of(std::uint64_t mask) const { return topology_.gpc(index_).sm_ids[heddle::bits::lowest(mask)]; }
  std::uint32_t tpc_of(std::uint64_t mask) const { return index_ * kSms / 2 + heddle::bits::lowest(mask) / 2; }
  void on_part(const protocol::PartPacket&, std::uint32_t) {}  // its SMs have no registers
  void on_local(const protocol::LocalMemoryPacket&, std::uint32_t) {}
  void on_abort(const protocol::AbortPacket&, std::uint32_t) { judge_.complain("a task was aborted"); }

  Domain& domain_;
  std::map<std::uint32_t, std::uint64_t> heard_;  // CTAs of the grid in each slot of the task table
  std::uint32_t index_;
  Random random_;
  const arch::Topology& topology_;
  const cwd::Cwd& cwd_;
  Judge& judge_;
  std::vector<Part> parts_;
  std::vector<std::size_t> free_parts_;
  std::vector<Cga> cgas_ = std::vector<Cga>(1);  // the first one is nobody's
  std::vector<std::size_t> free_cgas_;
  std::size_t open_ = 0;
};

struct Machine {
  Machine(const cwd::CwdParams& params, std::uint64_t seed)
      : topology(arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(kGpcs, kSms))),
        domain("domain", 1.0, TimingMode::at, 0, observation),
        tasks("tasks", domain, params, log),
        cwd("cwd", domain, "cwd", params, topology, kCapacity) {
    tasks.task_out.bind(cwd.task_in);
    tasks.control_out.bind(cwd.control_in);
    tasks.evict_out.bind(cwd.evict_in);
    tasks.grow_out.bind(cwd.grow_in);
    tasks.share_out.bind(cwd.share_in);
    cwd.done_out.bind(tasks.done_in);
    cwd.evicted_out.bind(tasks.evicted_in);
    cwd.idle_out.bind(tasks.idle_in);
    for (std::uint32_t g = 0; g < kGpcs; ++g) {
      gpcs.push_back(
          std::make_unique<SwiftGpc>(fmt::format("gpc{}", g).c_str(), domain, g, seed, topology, cwd, judge));
      cwd.launch_out.bind(gpcs.back()->launch_in);
      cwd.local_out.bind(gpcs.back()->local_in);
      cwd.part_out.bind(gpcs.back()->part_in);
      cwd.abort_out.bind(gpcs.back()->abort_in);
      gpcs.back()->complete_out.bind(cwd.complete_in[g]);
      gpcs.back()->cga_out.bind(cwd.cga_in[g]);
      gpcs.back()->shared_out.bind(cwd.shared_in[g]);
    }
  }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  Log log;
  Judge judge;
  const arch::Topology topology;
  Domain domain;
  FakeTaskUnit tasks;
  cwd::Cwd cwd;
  std::vector<std::unique_ptr<SwiftGpc>> gpcs;
};

cwd::CwdParams swift() {
  cwd::CwdParams params;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 5;
  params.gpc_queue = 64;
  params.local_memory_blocks = 12;
  return params;
}

SubcontextPacket change(What what, std::uint32_t subcontext, std::uint64_t value, std::uint32_t tpc = 0) {
  SubcontextPacket packet;
  packet.what = what;
  packet.subcontext = static_cast<std::uint8_t>(subcontext);
  packet.value = value;
  packet.gpc = heddle::protocol::GpcId(tpc / (kSms / 2));
  packet.tpc = heddle::protocol::TpcInGpc(tpc % (kSms / 2));
  return packet;
}

SubcontextPacket to(PartitionMode mode) {
  SubcontextPacket packet;
  packet.what = What::mode;
  packet.mode = mode;
  return packet;
}

std::vector<std::uint32_t> some_subcontexts(Random& random, std::uint32_t count) {
  std::vector<std::uint32_t> all = random.permutation(arch::kSubcontexts);
  all.resize(count);
  all[0] = arch::kSubcontexts - 1;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Every TPC becomes one's that has it alone.
void hand_out(Machine& machine, Random& random, Cycle cycle, const std::vector<std::uint32_t>& subcontexts) {
  for (std::uint32_t tpc = 0; tpc < kTpcs; ++tpc) {
    const std::uint32_t owner = subcontexts[random.below(subcontexts.size())];
    for (const bool enabled : {false, true}) {  // first it is taken away
      for (const std::uint32_t subcontext : subcontexts) {
        if ((subcontext == owner) == enabled) {
          machine.tasks.share(cycle, change(What::enable, subcontext, enabled ? 1 : 0, tpc));
        }
      }
    }
  }
}

std::uint64_t submit_tasks(Machine& machine, Random& random, const std::vector<std::uint32_t>& subcontexts,
                           std::uint64_t ctas, Cycle when = 0, std::uint32_t warps = 1) {
  std::uint64_t sum = 0;
  for (auto operation = static_cast<std::uint32_t>(machine.judge.started.size()); sum < ctas; ++operation) {
    protocol::TaskPacket task;
    task.operation = operation;
    task.priority = static_cast<std::int32_t>(random.below(3));
    task.need = {{warps, 1, 1, 1, 1, 1}};
    task.subcontext = static_cast<std::uint8_t>(subcontexts[random.below(subcontexts.size())]);
    task.local_bytes = random.chance(25) ? 64 : 0;
    task.grid = {random.between(1, 600), 1, 1};
    if (random.chance(40)) {
      const std::uint32_t size = 1U << random.between(1, 3);
      task.cluster.of(arch::CgaLevel::gpc) = {size, 1, 1};
      task.cluster.mode = random.chance(30) && size < 8 ? arch::CgaMode::multicast : arch::CgaMode::load_balancing;
      task.grid.x = size * random.between(1, 1 + 400 / size);
    }
    sum += task.grid.x;
    machine.judge.started[operation].assign(task.grid.x, false);
    machine.tasks.submit(when, task);
  }
  return sum;
}

void judge_end(Machine& machine, std::uint64_t ctas) {
  REQUIRE(machine.judge.problems == std::vector<std::string>{});
  REQUIRE(machine.log.problems == std::vector<std::string>{});
  REQUIRE(machine.log.done.size() == machine.judge.started.size());
  REQUIRE(machine.judge.launched == ctas);
  for (const auto& [operation, started] : machine.judge.started) {
    REQUIRE(std::count(started.begin(), started.end(), false) == 0);
    REQUIRE_FALSE(machine.log.done.at(operation).rejected);
  }
  REQUIRE(machine.cwd.quiescent());
  for (std::uint32_t s = 0; s < arch::kSubcontexts; ++s) {
    REQUIRE(machine.cwd.partition().quota().tpcs_held(s) == 0);
    REQUIRE(machine.cwd.partition().quota().credits(s) == machine.cwd.partition().quota().maximum(s));
  }
  for (std::uint32_t s = 0; s < heddle::arch::kSubcontexts; ++s)
    REQUIRE(machine.cwd.partition().quota().blocks(s) == 12);
}

}  // namespace

TEST_CASE("a million CTAs while credits, masks and modes change",
          "[stress][PRT-01][PRT-02][PRT-04][PRT-05][PRT-06][PRT-07][PRT-10]") {
  Random random(seed());
  Machine machine(swift(), seed());
  const std::vector<std::uint32_t> subcontexts = some_subcontexts(random, 14);
  std::uint64_t ctas = submit_tasks(machine, random, subcontexts, 1'000'000);
  Cycle cycle = 0;
  constexpr Cycle kEnd = 4'000'000;
  std::uint32_t changes = 0;
  std::map<std::uint32_t, std::int64_t> maximum;
  while (cycle < kEnd) {
    cycle += random.between(1, 1200);
    ++changes;
    const std::uint32_t subcontext = subcontexts[random.below(subcontexts.size())];
    const std::uint32_t what = random.below(100);
    if (what < 12) {
      machine.tasks.share(cycle,
                          change(random.chance(70) ? What::sms : What::warps, subcontext, random.between(1, 100)));
    } else if (what < 55) {
      const std::uint32_t credits = random.chance(10) ? 0 : random.between(1, kTpcs);
      maximum[subcontext] = credits;
      machine.tasks.share(cycle, change(What::credits, subcontext, credits));
    } else if (what < 80) {
      machine.tasks.share(cycle, change(What::enable, subcontext, random.chance(80) ? 1 : 0, random.below(kTpcs)));
    } else if (what < 92) {
      machine.tasks.share(cycle, change(What::block, subcontext, random.below(12), random.below(kTpcs)));
    } else if (what < 98) {
      machine.tasks.share(cycle, to(random.chance(80) ? PartitionMode::dynamic : PartitionMode::none));
    } else {
      hand_out(machine, random, cycle, subcontexts);
      machine.tasks.share(cycle, to(PartitionMode::static_));
      cycle += 4000;
    }
  }
  // What is left runs off under credits. First nobody has any, until nothing runs: whoever should then be woken by a
  // change, and is not, stays behind.
  machine.tasks.share(cycle + 1, to(PartitionMode::dynamic));
  constexpr Cycle kQuiet = 200'000;
  ctas += submit_tasks(machine, random, subcontexts, 20'000, cycle + kQuiet / 2);
  for (const std::uint32_t subcontext : subcontexts) {
    for (std::uint32_t tpc = 0; tpc < kTpcs; ++tpc) {
      machine.tasks.share(cycle + 1, change(What::enable, subcontext, 1, tpc));
    }
    for (const What share : {What::sms, What::warps}) machine.tasks.share(cycle + 1, change(share, subcontext, 100));
    maximum[subcontext] = kTpcs / 2;
    machine.tasks.share(cycle + 2, change(What::credits, subcontext, 0));
    machine.tasks.share(cycle + kQuiet, change(What::credits, subcontext, kTpcs / 2));
  }
  run_until(sc_core::sc_time(static_cast<double>(cycle + kQuiet - 1), sc_core::SC_NS));
  CHECK(machine.judge.launched < ctas);
  for (const std::uint32_t subcontext : subcontexts) CHECK(machine.cwd.partition().quota().tpcs_held(subcontext) == 0);
  run_until_idle();
  judge_end(machine, ctas);
  for (const auto& [subcontext, credits] : maximum)
    CHECK(machine.cwd.partition().quota().maximum(subcontext) == credits);
  // It was what it claims to be.
  const Judge& judge = machine.judge;
  CAPTURE(changes, judge.steps, judge.in_mode[0], judge.in_mode[1], judge.in_mode[2], judge.shared,
          judge.with_negative_credits);
  for (const std::uint64_t packets : judge.in_mode) CHECK(packets > 1000);
  CHECK(judge.shared > 1000);
  CHECK(judge.with_negative_credits > 100);
  CHECK(judge.steps > 100'000);
}

TEST_CASE("shares of SMs and of their warps, and what waits for them is woken", "[stress][PRT-11]") {
  Random random(seed() + 2);
  Machine machine(swift(), seed() + 2);
  const std::vector<std::uint32_t> subcontexts = some_subcontexts(random, 6);
  // An SM has 1000 warps and room for 8 CTAs of 100.
  machine.judge.constant_shares = true;
  machine.judge.warps = 100;
  std::uint64_t ctas = submit_tasks(machine, random, subcontexts, 150'000, 0, machine.judge.warps);
  for (const std::uint32_t subcontext : subcontexts) {
    machine.tasks.share(0, change(What::sms, subcontext, random.between(27, 60)));  // 9 SMs at least: CGAs have room
    if (random.chance(50)) machine.tasks.share(0, change(What::warps, subcontext, random.between(20, 60)));
  }
  run_until_idle();
  CHECK(machine.judge.launched == ctas);
  CHECK(machine.judge.at_share > 1000);
  CHECK(machine.judge.at_warps > 1000);
  // From a quiet machine: each may have one SM, and then, in one change, all of them. One that runs long has it.
  machine.judge.constant_shares = false;
  machine.judge.warps = 1;
  const auto now = static_cast<Cycle>(sc_core::sc_time_stamp() / sc_core::sc_time(1, sc_core::SC_NS)) + 10;
  for (const std::uint32_t subcontext : subcontexts) {
    machine.tasks.share(now, change(What::warps, subcontext, 100));
    machine.tasks.share(now, change(What::sms, subcontext, 3));
  }
  ctas += submit_tasks(machine, random, subcontexts, 20'000, now + 10);
  for (const std::uint32_t subcontext : subcontexts) {
    machine.tasks.share(now + 3'000'000, change(What::sms, subcontext, 100));
  }
  run_until(sc_core::sc_time(static_cast<double>(now + 2'999'000), sc_core::SC_NS));
  CHECK(machine.judge.launched < ctas);  // CGAs that one SM does not hold
  for (const std::uint32_t subcontext : subcontexts) CHECK(machine.cwd.partition().quota().tpcs_held(subcontext) == 0);
  run_until_idle();
  judge_end(machine, ctas);
}

TEST_CASE("masks of static mode: no TPC ever has CTAs of two subcontexts", "[stress][PRT-05][PRT-07]") {
  Random random(seed() + 1);
  cwd::CwdParams params = swift();
  params.partition = PartitionMode::static_;
  Machine machine(params, seed() + 1);
  const std::vector<std::uint32_t> subcontexts = some_subcontexts(random, 5);
  std::uint64_t ctas = submit_tasks(machine, random, subcontexts, 100'000);
  for (Cycle cycle = 0; cycle < 1'000'000; cycle += random.between(500, 8000)) {
    hand_out(machine, random, cycle, subcontexts);
    for (std::uint32_t i = 0; i < 10; ++i) {
      machine.tasks.share(cycle + i, change(What::block, subcontexts[random.below(subcontexts.size())],
                                            random.below(12), random.below(kTpcs)));
    }
  }
  // What is left runs off under masks: each has some TPCs that follow each other, with blocks.
  for (std::uint32_t tpc = 0; tpc < kTpcs; ++tpc) {
    for (const std::uint32_t subcontext : subcontexts) {
      machine.tasks.share(1'100'000, change(What::enable, subcontext, 0, tpc));
      machine.tasks.share(1'100'000, change(What::block, subcontext, cwd::TpcQuota::kNone, tpc));
    }
  }
  ctas += submit_tasks(machine, random, subcontexts, 20'000, 1'200'000);
  std::map<std::uint32_t, std::uint32_t> blocks;
  for (std::uint32_t tpc = 0; tpc < kTpcs; ++tpc) {
    const std::uint32_t owner = subcontexts[tpc * subcontexts.size() / kTpcs];
    machine.tasks.share(1'300'000, change(What::block, owner, blocks[owner]++ % 12, tpc));
    machine.tasks.share(1'300'000, change(What::enable, owner, 1, tpc));
  }
  run_until(sc_core::sc_time(1'299'000, sc_core::SC_NS));
  CHECK(machine.judge.launched > ctas / 5);
  CHECK(machine.judge.launched < ctas);
  for (const std::uint32_t subcontext : subcontexts) CHECK(machine.cwd.partition().quota().tpcs_held(subcontext) == 0);
  run_until_idle();
  CHECK(machine.judge.shared == 0);
  judge_end(machine, ctas);
}

}  // namespace stress_partition_storm_test
