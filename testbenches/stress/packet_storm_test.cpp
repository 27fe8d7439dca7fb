// Thousands of packets of all kinds on many queues of a whole machine, with everything counted.
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "packet/packet_log.h"
#include "packet/packet_processor.h"
#include "support/packet_lab.h"
#include "support/random.h"

namespace stress_packet_storm_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Every CTA once, and no more at the end than at the start.
class CtaCounts : public CtaListener {
 public:
  void cta_started(const Cta& cta) override { ++started_[{cta.task, cta.index}]; }
  void cta_ended(const Cta& cta) override { ++ended_[{cta.task, cta.index}]; }
  std::uint64_t ctas() const { return started_.size(); }
  bool each_once() const {
    const auto once = [](const Counts& counts) {
      return std::all_of(counts.begin(), counts.end(), [](const auto& entry) { return entry.second == 1; });
    };
    return once(started_) && once(ended_) && started_.size() == ended_.size();
  }

 private:
  using Counts = std::map<std::pair<std::uint32_t, std::uint64_t>, int>;
  Counts started_;
  Counts ended_;
};

// Phases in order, one record per kernel.
class Judge : public packet::PacketListener {
 public:
  void kernel_dispatched(const packet::PacketRecord&) override { ++dispatched; }
  void packet_done(const packet::PacketRecord& r) override {
    const packet::PacketTimes& t = r.times;
    const bool ordered = t.doorbell <= t.fetched && t.fetched <= t.ready && t.ready <= t.decoded &&
                         t.decoded <= t.dispatched && t.dispatched <= t.started && t.started <= t.ended &&
                         t.ended <= t.cleaned;
    if (!ordered) ++disordered;
  }
  std::uint64_t dispatched = 0;
  std::uint64_t disordered = 0;
};

struct Storm {
  std::uint64_t kernels = 0;
  std::uint64_t ctas = 0;
  std::uint64_t signalled = 0;  // how often the common signal is to be decremented
};

}  // namespace

TEST_CASE("a storm of packets: nothing is lost, nothing happens twice", "[stress][PKT-01][PKT-04][PKT-06][PKT-10]") {
  struct Form {
    std::vector<std::string> sets;
    std::uint32_t packets;
  };
  const Form form =
      GENERATE(Form{{}, 6000}, Form{{"gpu.timing=lt"}, 6000},
               Form{{"gpu.packet.fetch_ahead=1", "gpu.packet.in_flight=2", "gpu.hub.queue=1", "gpu.hub.link_tags=1",
                     "gpu.copy.engines=1", "gpu.copy.outstanding=1", "gpu.cwd.table_slots=1",
                     "gpu.packet.condensed=overlap", "gpu.packet.order=priority", "gpu.packet.table=memory"},
                    1500});
  const std::uint64_t storm_seed = test::seed();
  CAPTURE(storm_seed);
  Random random(storm_seed);
  SimFixture fixture;
  PacketLab lab({preset_params("small", form.sets)});
  PacketLab::Machine& m = lab[0];
  CtaCounts ctas;
  Judge judge;
  m.observation.ctas = &ctas;
  m.gpu.packets().listen(judge);
  lab.begin();
  constexpr std::uint32_t kQueues = 6;
  std::vector<heddle_queue> queues;
  std::vector<heddle_table> tables(kQueues);
  for (std::uint32_t q = 0; q < kQueues; ++q) {
    queues.push_back(lab.open_queue(0, q * 5, 4U << random.below(4), random.below(2) == 0,
                                    static_cast<std::int32_t>(random.below(3))));
    heddle_table_clear(&tables[q]);
  }
  std::vector<std::uint64_t> objects;
  for (const std::uint64_t cycles : {1, 10, 100, 700, 1500}) objects.push_back(lab.timed_object(0, cycles));
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  const std::uint64_t signal = lab.new_signal(0, true, kMany);
  const std::uint64_t zero = lab.new_signal(0, false, 0);
  const std::uint64_t scratch = lab.take_device(1 << 16);
  const std::uint64_t host_scratch = lab.take_host(1 << 16);
  Storm expected;

  const auto any_kernel = [&](std::uint64_t completion) {
    heddle_dispatch d = PacketLab::dispatch(objects[random.below(objects.size())], 0, 0, completion);
    d.scopes = HEDDLE_SCOPES(random.below(3) == 0, random.below(3), random.below(3));
    const std::uint32_t dimensions = 1 + static_cast<std::uint32_t>(random.below(3));
    d.setup = static_cast<std::uint16_t>(dimensions);
    for (std::uint32_t i = 0; i < 3; ++i) {
      d.workgroup[i] = static_cast<std::uint16_t>(i < dimensions ? 1 + random.below(i == 0 ? 100 : 3) : 1);
      d.grid[i] = i < dimensions ? d.workgroup[i] + static_cast<std::uint32_t>(random.below(3 * d.workgroup[i])) : 1;
    }
    return d;
  };
  const auto count_in = [&expected](const heddle_dispatch& d) {
    std::uint64_t grid = 1;
    for (std::uint32_t i = 0; i < 3; ++i) grid *= (d.grid[i] + d.workgroup[i] - 1) / d.workgroup[i];
    expected.ctas += grid;
    ++expected.kernels;
  };
  const auto submit = [&](std::uint32_t q, const heddle_packet& packet) {
    REQUIRE(heddle_queue_submit(&queues[q], &packet, 1, 10'000'000, nullptr) == HEDDLE_OK);
  };
  for (std::uint32_t i = 0; i < form.packets; ++i) {
    const auto q = static_cast<std::uint32_t>(random.below(kQueues));
    const bool signals = random.below(2) == 0;
    const std::uint64_t completion = signals ? signal : 0;
    heddle_packet packet{};
    const std::uint8_t scopes = HEDDLE_SCOPES(random.below(4) == 0, 1, 2);
    switch (random.below(8)) {
      case 0: {
        const std::uint64_t signals_of[3] = {0, zero, zero};
        // One that waits for any of none could never end.
        const bool all = random.below(2) == 0;
        const auto count = static_cast<unsigned>(all ? random.below(4) : 2 + random.below(2));
        heddle_packet_barrier(&packet, all ? HEDDLE_PACKET_BARRIER_AND : HEDDLE_PACKET_BARRIER_OR, scopes, signals_of,
                              count, completion);
        break;
      }
      case 1:
        heddle_packet_copy(&packet, scopes, scratch + random.below(1000), host_scratch + random.below(1000),
                           random.below(5000), completion);
        break;
      case 2:
        heddle_packet_hold(&packet, scopes, random.below(3000), completion);
        break;
      case 3: {  // through the planner
        const std::uint32_t count = 1 + static_cast<std::uint32_t>(random.below(12));
        std::vector<heddle_kernel> kernels(count);
        for (heddle_kernel& k : kernels) {
          const bool own = random.below(4) == 0;
          k.dispatch = any_kernel(own ? signal : 0);
          expected.signalled += own ? 1 : 0;
          if (random.below(2) == 0) {
            k.dispatch = kernels.front().dispatch;
            k.dispatch.completion_signal = own ? signal : 0;
          }
          count_in(k.dispatch);
        }
        heddle_plan_options options{};
        options.costs = {480, 500, 350, 30, 150};
        options.serialise = true;
        options.overlap = m.gpu.params().packet.condensed == packet::CondensedOrder::overlap;
        std::vector<std::uint64_t> space(heddle_plan_workspace(count, &options) / 8 + 1);
        std::vector<heddle_planned> planned(count);
        heddle_plan_result result{};
        REQUIRE(heddle_plan(kernels.data(), count, &options, &tables[q], space.data(), space.size() * 8, planned.data(),
                            count, &result) == HEDDLE_OK);
        for (std::uint32_t p = 0; p < result.packets; ++p) submit(q, planned[p].packet);
        continue;
      }
      default: {
        const heddle_dispatch d = any_kernel(completion);
        count_in(d);
        heddle_packet_kernel(&packet, &d);
        break;
      }
    }
    expected.signalled += signals ? 1 : 0;
    submit(q, packet);
  }
  std::int64_t left = kMany;
  for (int i = 0;
       i < 100'000 && (left != kMany - static_cast<std::int64_t>(expected.signalled) || m.gpu.open_operations() > 0);
       ++i) {
    sc_core::sc_start(sc_core::sc_time(2, sc_core::SC_US));
    left = m.read<std::int64_t>(signal);
  }
  CHECK(kMany - left == static_cast<std::int64_t>(expected.signalled));
  sc_core::sc_start(sc_core::sc_time(20, sc_core::SC_US));
  CHECK(judge.dispatched == expected.kernels);
  CHECK(judge.disordered == 0);
  CHECK(m.stat("task.kernels") == static_cast<double>(expected.kernels));
  CHECK(ctas.ctas() == expected.ctas);
  CHECK(ctas.each_once());
  for (const std::string& v : lab.violations()) FAIL_CHECK(v);
  for (std::uint32_t q = 0; q < kQueues; ++q) {
    std::uint64_t taken = 0;
    REQUIRE(heddle_queue_taken(&queues[q], &taken) == HEDDLE_OK);
    std::uint64_t reserved = 0;
    REQUIRE(heddle_queue_load_write_index(&queues[q], &reserved) == HEDDLE_OK);
    CHECK(taken == reserved);
  }
  m.gpu.check_quiescent();
}

}  // namespace stress_packet_storm_test
