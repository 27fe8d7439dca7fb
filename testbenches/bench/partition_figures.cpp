// The figures of docs/results/partitioning.md, all from one run: two processes with opposed phases of load on one GPU,
// unpartitioned, under static and under dynamic partitioning: throughput, TPC occupancy over time, fairness (PRT-09).
// Simulated, so they are the same on every computer. Prints Markdown; fails where its claims do not hold.
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "common/params.h"
#include "cwd/subcontext_partition.h"
#include "gpu/gpu.h"
#include "support/sim_fixture.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using protocol::PartitionMode;
using protocol::SubcontextPacket;

constexpr std::size_t kProcesses = 2;
constexpr std::size_t kPhases = 4;
// Which process is busy in which phase.
constexpr std::array<std::array<bool, kPhases>, kProcesses> kBusy{
    {{true, false, true, false}, {false, true, true, false}}};
constexpr std::array<const char*, kPhases> kPhaseNames{"A busy", "B busy", "both busy", "both idle"};

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// A process keeps that many streams filled while it is busy: when a kernel of it ends, the next one follows.
struct Process {
  std::uint32_t streams;
  std::uint32_t ctas;  // of a kernel
  std::uint64_t shortest;
  std::uint64_t longest;  // CTA, in cycles
};
constexpr std::array<Process, kProcesses> kLoad{{{2, 2112, 6'000, 10'000}, {16, 66, 2'000, 4'000}}};
constexpr std::uint32_t kThreads = 512;

struct Policy {
  std::string name;
  PartitionMode mode = PartitionMode::none;
  // Credits of A and B at the beginning of each phase; none: as they are.
  std::function<std::array<std::uint32_t, kProcesses>(std::size_t phase)> credits;
  std::array<bool, kProcesses> runs{true, true};
};

struct Outcome {
  std::array<std::array<double, kPhases>, kProcesses> rate{};     // CTAs per us that ended
  std::array<std::array<double, kPhases>, kProcesses> tpcs{};     // mean TPCs held
  std::array<std::vector<double>, kProcesses> over_time;          // the same, by bins
  std::array<std::array<double, kPhases>, kProcesses> latency{};  // us from submission to end of a kernel
  double busy_tpcs = 0;                                           // with CTAs of anybody, over all phases
};

// The host: it submits as results come, and changes how the machine is shared.
class Host : public sc_core::sc_module, private EventHandler {
 public:
  Host(const sc_core::sc_module_name& name, const Policy& policy, Cycle phase, std::uint32_t tpcs)
      : sc_core::sc_module(name),
        domain_("domain", 1.0, TimingMode::at, 0, observation_),
        submit_out("submit_out", domain_, 1, kUnlimitedCredits),
        done_in("done_in", domain_, 0),
        policy_(policy),
        phase_(phase),
        tpcs_(tpcs) {
    done_in.on_packet<Host, &Host::on_done>(*this);
    for (std::size_t i = 0; i < kPhases; ++i) domain_.schedule(i * phase + 1, *this, 0, i);
  }

 private:
  GpuObservation observation_{"host"};
  Domain domain_;

 public:
  PacketOut<protocol::SubmitPacket> submit_out;
  PacketIn<protocol::DonePacket> done_in;

  std::vector<std::pair<std::size_t, std::uint32_t>> operations;  // process and stream, by operation
  std::array<std::array<double, kPhases>, kProcesses> latency{};  // sums
  std::array<std::array<std::uint32_t, kPhases>, kProcesses> kernels{};

 private:
  void on_event(std::uint32_t, std::uint64_t phase) override {
    if (phase == 0) share_machine();
    if (policy_.credits) {
      const auto credits = policy_.credits(phase);
      for (std::size_t p = 0; p < kProcesses; ++p) {
        SubcontextPacket change;
        change.what = SubcontextPacket::What::credits;
        change.subcontext = static_cast<std::uint8_t>(p + 1);
        change.value = credits[p];
        send(change);
      }
    }
    for (std::size_t p = 0; p < kProcesses; ++p) {
      const bool was = phase > 0 && kBusy[p][phase - 1];
      if (!policy_.runs[p] || !kBusy[p][phase] || was) continue;
      for (std::uint32_t s = 0; s < kLoad[p].streams; ++s) {
        if (!full_[p][s]) submit(p, s);  // or it still has one from before
      }
    }
  }
  // Static partitioning: half of the TPCs of every GPC each.
  void share_machine() {
    if (policy_.mode != PartitionMode::static_) return;
    for (std::uint32_t tpc = 0; tpc < tpcs_; ++tpc) masks(tpc);
  }
  void masks(std::uint32_t tpc) {
    SubcontextPacket change;
    change.what = SubcontextPacket::What::enable;
    change.subcontext = static_cast<std::uint8_t>(1 + tpc % 2);
    std::uint32_t gpc = 0;
    for (; tpc >= gpc_tpcs[gpc]; ++gpc) tpc -= gpc_tpcs[gpc];
    change.gpc = heddle::protocol::GpcId(gpc);
    change.tpc = heddle::protocol::TpcInGpc(tpc);
    change.value = 1;
    send(change);
  }
  void send(const SubcontextPacket& change) {
    protocol::SubmitPacket packet;
    packet.kind = protocol::SubmitKind::share;
    packet.share = change;
    submit_out.send(packet);
  }
  void submit(std::size_t process, std::uint32_t stream) {
    protocol::SubmitPacket packet;
    packet.operation = static_cast<std::uint32_t>(operations.size());
    packet.stream = static_cast<std::uint32_t>(process) * 100 + stream;
    packet.kernel.grid = {kLoad[process].ctas, 1, 1};
    packet.kernel.block = {kThreads, 1, 1};
    packet.kernel.registers_per_thread = 32;
    packet.kernel.duration = {kLoad[process].shortest, kLoad[process].longest};
    packet.kernel.subcontext = static_cast<std::uint8_t>(process + 1);
    full_[process][stream] = true;
    operations.emplace_back(process, stream);
    submit_out.send(packet);
  }
  void on_done(const protocol::DonePacket& done, std::uint32_t) {
    const auto [process, stream] = operations[done.operation];
    full_[process][stream] = false;
    const std::size_t phase = static_cast<std::size_t>((domain_.now() - 1) / phase_);
    if (phase >= kPhases) return;
    if (sc_time_of(done.submitted) >= sc_core::sc_time(static_cast<double>(phase * phase_), sc_core::SC_NS)) {
      latency[process][phase] += sc_time_of(done.end - done.submitted).to_seconds() * 1e6;
      ++kernels[process][phase];
    }
    if (kBusy[process][phase]) submit(process, stream);
  }

  std::array<std::array<bool, 16>, kProcesses> full_{};  // by stream: a kernel is on its way
  const Policy& policy_;
  const Cycle phase_;
  const std::uint32_t tpcs_;

 public:
  std::vector<std::uint32_t> gpc_tpcs;
};

// Who holds which TPC, and what ended when.
class Watch : public CtaListener {
 public:
  static constexpr std::size_t kBins = 16;  // of a phase

  Watch(const arch::Topology& topology, const Host& host, double phase_cycles)
      : host_(host), bin_cycles_(phase_cycles / kBins), tpc_of_(topology.sms()) {
    std::uint32_t next = 0;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      for (const auto& tpc : topology.gpc(g).tpcs) {
        for (std::uint32_t i = 0; i < tpc.sms; ++i) tpc_of_[topology.gpc(g).sm_ids[tpc.first_sm + i]] = next;
        ++next;
      }
    }
    for (auto& process : ctas_) process.assign(next, 0);
    all_.assign(next, 0);
    for (auto& bins : held) bins.assign(kBins * kPhases, 0);
  }

  void cta_started(const Cta& cta) override { change(cta, 1); }
  void cta_ended(const Cta& cta) override {
    change(cta, -1);
    // The first quarter of a phase still belongs to the one before.
    const double phase = static_cast<double>(cta.cycle) / (bin_cycles_ * kBins);
    const auto index = static_cast<std::size_t>(phase);
    if (index < kPhases && phase - static_cast<double>(index) >= 0.25) ++ended[process_of(cta)][index];
  }

  std::array<std::array<double, kPhases>, kProcesses> ended{};
  std::array<std::vector<double>, kProcesses> held;  // TPC cycles, by bins
  double busy = 0;                                   // TPC cycles

 private:
  std::size_t process_of(const Cta& cta) const { return host_.operations[cta.task].first; }
  void change(const Cta& cta, int by) {
    advance(static_cast<double>(cta.cycle));
    const std::size_t process = process_of(cta);
    const std::uint32_t tpc = tpc_of_[cta.sm];
    const int before = ctas_[process][tpc];
    ctas_[process][tpc] += by;
    if ((before == 0) != (ctas_[process][tpc] == 0)) holds_[process] += by;
    const int all = all_[tpc];
    all_[tpc] += by;
    if ((all == 0) != (all_[tpc] == 0)) any_ += by;
  }
  void advance(double now) {
    while (last_ < now) {
      const auto bin = static_cast<std::size_t>(last_ / bin_cycles_ + 1e-9);
      const double end = std::min(now, static_cast<double>(bin + 1) * bin_cycles_);
      if (bin >= held[0].size()) {
        last_ = now;
        return;
      }
      for (std::size_t p = 0; p < kProcesses; ++p) held[p][bin] += holds_[p] * (end - last_);
      if (bin < kBins * (kPhases - 1)) busy += any_ * (end - last_);
      last_ = end;
    }
  }

  const Host& host_;
  double bin_cycles_;
  std::vector<std::uint32_t> tpc_of_;
  std::array<std::vector<int>, kProcesses> ctas_;
  std::vector<int> all_;
  std::array<int, kProcesses> holds_{};
  int any_ = 0;
  double last_ = 0;
};

gpu::GpuParams h100(PartitionMode mode) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  params.cwd.partition = mode;
  return params;
}

Outcome run(const Policy& policy, double phase_us) {
  test::SimFixture sim;
  GpuObservation observation{"gpu0"};
  const gpu::GpuParams params = h100(policy.mode);
  const auto phase_ns = static_cast<Cycle>(phase_us * 1e3);
  gpu::Gpu gpu("gpu0", params, 1, observation);
  std::uint32_t tpcs = 0;
  std::vector<std::uint32_t> gpc_tpcs;
  for (std::uint32_t g = 0; g < gpu.topology().gpcs(); ++g) {
    gpc_tpcs.push_back(static_cast<std::uint32_t>(gpu.topology().gpc(g).tpcs.size()));
    tpcs += gpc_tpcs.back();
  }
  Host host("host", policy, phase_ns, tpcs);
  host.gpc_tpcs = gpc_tpcs;
  host.submit_out.bind(gpu.submit_in());
  gpu.done_out().bind(host.done_in);
  const double phase_cycles = static_cast<double>(phase_ns) * params.machine.clock;
  Watch watch(gpu.topology(), host, phase_cycles);
  observation.ctas = &watch;
  test::run_until_idle();
  gpu.check_quiescent();
  Outcome outcome;
  for (std::size_t p = 0; p < kProcesses; ++p) {
    for (std::size_t i = 0; i < kPhases; ++i) {
      outcome.rate[p][i] = watch.ended[p][i] / (0.75 * phase_us);
      if (host.kernels[p][i] > 0) outcome.latency[p][i] = host.latency[p][i] / host.kernels[p][i];
      for (std::size_t b = 0; b < Watch::kBins; ++b) {
        const double mean = watch.held[p][i * Watch::kBins + b] / (phase_cycles / Watch::kBins);
        outcome.over_time[p].push_back(mean);
        outcome.tpcs[p][i] += mean / Watch::kBins;
      }
    }
  }
  outcome.busy_tpcs = watch.busy / (phase_cycles * (kPhases - 1));
  return outcome;
}

// A row of characters: how many of the TPCs a process holds.
std::string plot(const std::vector<double>& held, double tpcs) {
  static constexpr const char* kMarks = " .:-=+*#%@";
  std::string text;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i > 0 && i % Watch::kBins == 0) text += '|';
    text += kMarks[std::min<std::size_t>(9, static_cast<std::size_t>(held[i] / tpcs * 9.99))];
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const double phase_us = quick ? 120 : 600;
  const auto all_or_half = [](std::size_t phase) -> std::array<std::uint32_t, kProcesses> {
    if (phase == 0) return {66, 1};
    if (phase == 1) return {1, 66};
    return {33, 33};
  };
  std::vector<Policy> policies{
      {"none", PartitionMode::none, {}, {true, true}},
      {"static, 33 + 33", PartitionMode::static_, {}, {true, true}},
      {"dynamic, 33 + 33",
       PartitionMode::dynamic,
       [](std::size_t) {
         return std::array<std::uint32_t, 2>{33, 33};
       },
       {true, true}},
      {"dynamic, 50 + 50",
       PartitionMode::dynamic,
       [](std::size_t) {
         return std::array<std::uint32_t, 2>{50, 50};
       },
       {true, true}},
      {"dynamic, by phase", PartitionMode::dynamic, all_or_half, {true, true}},
  };
  const Outcome alone_a = run({"A alone", PartitionMode::none, {}, {true, false}}, phase_us);
  const Outcome alone_b = run({"B alone", PartitionMode::none, {}, {false, true}}, phase_us);
  const std::array<double, kProcesses> alone{alone_a.rate[0][0], alone_b.rate[1][1]};
  print(fmt::format("Phases of {} us. Alone on the whole machine, A completes {:.1f} CTAs per us, B {:.1f}.\n\n",
                    phase_us, alone[0], alone[1]));
  print("## Throughput\n\nCTAs per us, and as a share of what the process completes alone:\n\n");
  print(
      "| partitioning | A in \"A busy\" | B in \"B busy\" | A in \"both busy\" | B in \"both busy\" | sum of shares | "
      "Jain's index |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  std::vector<Outcome> outcomes;
  std::vector<double> fairness;
  for (const Policy& policy : policies) {
    outcomes.push_back(run(policy, phase_us));
    const Outcome& o = outcomes.back();
    const std::vector<double> shares{o.rate[0][2] / alone[0], o.rate[1][2] / alone[1]};
    fairness.push_back(jain_index(shares));
    const auto cell = [&](std::size_t p, std::size_t phase) {
      return fmt::format("{:.1f} ({:.0f} %)", o.rate[p][phase], 100 * o.rate[p][phase] / alone[p]);
    };
    print(fmt::format("| {} | {} | {} | {} | {} | {:.2f} | {:.3f} |\n", policy.name, cell(0, 0), cell(1, 1), cell(0, 2),
                      cell(1, 2), shares[0] + shares[1], fairness.back()));
  }
  print(
      "\n## Latency\n\nMean time from submission to end of the kernels that were submitted, and ended, while both are "
      "busy, us:\n\n");
  print("| partitioning | A | B |\n| --- | ---: | ---: |\n");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    print(fmt::format("| {} | {:.1f} | {:.1f} |\n", policies[i].name, outcomes[i].latency[0][2],
                      outcomes[i].latency[1][2]));
  }
  print(
      "\n## TPC occupancy\n\nTPCs held, mean over the phase (of 66; several processes may hold one TPC), and TPCs with "
      "any CTA over the three phases with load:\n\n");
  print(
      "| partitioning | A: A busy | B: B busy | A: both | B: both | in use |\n| --- | ---: | ---: | ---: | ---: | ---: "
      "|\n");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const Outcome& o = outcomes[i];
    print(fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", policies[i].name, o.tpcs[0][0],
                      o.tpcs[1][1], o.tpcs[0][2], o.tpcs[1][2], o.busy_tpcs));
  }
  print("\nOver time, from none (blank) to all 66 (`@`):\n\n```\n");
  print(fmt::format("{:20}", ""));
  for (const char* name : kPhaseNames) print(fmt::format("{:<{}}", name, Watch::kBins + 1));
  print("\n");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (std::size_t p = 0; p < kProcesses; ++p) {
      print(fmt::format("{:18}{} {}\n", p == 0 ? policies[i].name : "", p == 0 ? 'A' : 'B',
                        plot(outcomes[i].over_time[p], 66)));
    }
  }
  print("```\n");

  // What the page says of them.
  bool good = true;
  const auto claim = [&good](bool holds, const std::string& text) {
    if (!holds) print("\nDoes not hold: " + text + "\n");
    good = good && holds;
  };
  const Outcome& fixed = outcomes[1];
  const Outcome& moved = outcomes[4];
  for (std::size_t p = 0; p < kProcesses; ++p) {
    claim(fixed.rate[p][p] < 0.6 * alone[p], "a static half is no more than about half of the machine");
    claim(moved.rate[p][p] > 1.5 * fixed.rate[p][p], "credits that follow the load give one busy process far more");
    claim(moved.rate[p][2] > 0.85 * fixed.rate[p][2], "and nobody less than the static half while both are busy");
    claim(fixed.tpcs[p][2] < 33.01 && outcomes[2].tpcs[p][2] < 33.01, "nobody holds more TPCs than it may");
  }
  claim(fairness[4] > 0.95, "with credits the two get about as much of what they could have");
  claim(fairness[0] < fairness[4], "without partitioning one of them is worse off");
  claim(outcomes[0].latency[1][2] > 2 * moved.latency[1][2], "short kernels do not wait behind long ones any more");
  claim(moved.busy_tpcs > 1.2 * fixed.busy_tpcs, "TPCs that a static partition leaves idle are used");
  return good ? 0 : 1;
}
