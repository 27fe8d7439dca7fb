// How fast the model is, next to what the SystemC kernel itself can do on the same machine in the same run.
//
// A grid of a million one-cycle CTAs runs on the preset h100-sxm, with every invariant on, three times; before and
// after each, a bare SC_METHOD notifies itself. Times are CPU times and differ from machine to machine: quote the
// ratio.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <systemc>

#include "bench/bare_events.h"
#include "common/params.h"
#include "replay/simulation.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;

// Every CTA of the grid starts once and ends once, on an SM that exists.
class OnceEach final : public CtaListener {
 public:
  explicit OnceEach(std::uint64_t ctas) : state_(ctas, 0) {}
  void cta_started(const Cta& cta) override { advance(cta, 0); }
  void cta_ended(const Cta& cta) override { advance(cta, 1); }
  bool complete() const {
    for (const unsigned char state : state_) {
      if (state != 2) return false;
    }
    return true;
  }

 private:
  void advance(const Cta& cta, unsigned char from) {
    HEDDLE_CHECK(cta.index < state_.size() && state_[cta.index] == from, "a CTA was lost, doubled or ended early");
    ++state_[cta.index];
  }
  std::vector<unsigned char> state_;
};

replay::SimulationResult launch_grid(std::uint64_t ctas, OnceEach& listener) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);

  workload::Workload work;
  work.name = "bench";
  work.format = "scenario";
  work.streams.push_back({"0", 0});
  workload::Op op;
  op.kernel.name = "one-cycle CTAs";
  op.kernel.grid = {static_cast<std::uint32_t>(ctas), 1, 1};
  op.kernel.block = {32, 1, 1};
  op.enqueue = 0;
  work.ops.push_back(op);

  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &work;
  job.ctas = &listener;
  return replay::simulate({job}, {});
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t ctas = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  bool complete = true;
  std::uint64_t events = 0;
  const bench::Yardstick::Round round = bench::Yardstick().measure(3, [&] {
    const test::SimFixture sim;
    OnceEach listener(ctas);
    const replay::SimulationResult result = launch_grid(ctas, listener);
    complete = complete && result.progress && listener.complete();
    events = result.events;
    return static_cast<double>(ctas) / result.cpu_seconds;
  });
  if (!complete) {
    std::fputs("the grid did not complete, or a CTA was lost\n", stderr);
    return 1;
  }
  const double per_cta = static_cast<double>(events) / static_cast<double>(ctas);
  std::fputs(fmt::format("CTA launches            {:12.0f} per second ({} CTAs of one cycle on h100-sxm, each from "
                         "launch to completion)\n"
                         "events of the model     {:12.0f} per second ({:.2f} per CTA)\n"
                         "bare SystemC events     {:12.0f} per second (one SC_METHOD that notifies itself)\n"
                         "ratio                   {:12.3f} CTA launches per bare SystemC event\n",
                         round.rate, ctas, round.rate * per_cta, per_cta, round.bare, round.ratio())
                 .c_str(),
             stdout);
  return 0;
}
