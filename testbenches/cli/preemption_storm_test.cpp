// CTAs, CGAs, and grids that share contexts, that are stopped at random moments, by urgent tasks or at the ends of time
// slices, while others of them wait for children: no CTA is lost or runs twice, what they compute is right, and the
// machine is empty afterwards (TSK-12, TSK-16).
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/random.h"

namespace cli_preemption_storm_test {

using namespace heddle::test;

namespace {

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {
    slices_ = random_.chance(40);
    shared_ = random_.chance(30);
    const std::string save = pick({"off", "wait", "wanted"});
    // Parents that stay must fit.
    const std::string ctas = save == "off" ? "32" : pick({"2", "4", "8", "32"});
    config_ = fmt::format(
        "{{gpu: {{sm: {{limits: {{ctas: {}}}, nested: {{save: {}, save_delay: {}}}}}, cwd: {{preemption: instruction, "
        "preempt_again: {}{}}}, task: {{nested: {{shared_by: {}}}}}}}}}",
        ctas, save, random_.between(50, 3000), random_.between(300, 6000),
        slices_ ? fmt::format(", time_slice: {}", random_.between(3000, 30'000)) : "", shared_ ? "grid" : "cta");
    const std::uint32_t kernels = random_.between(2, 4);
    for (std::uint32_t k = 0; k < kernels; ++k) add(k);
    const std::uint32_t urgent = random_.between(1, 5);
    for (std::uint32_t u = 0; u < urgent; ++u) add_urgent(u);
  }
  std::string text() const {
    return "heddle: 1\ngpu: small\nconfig: " + config_ + "\n" + (slices_ ? "subcontexts: [{id: 1}, {id: 2}]\n" : "") +
           "memory:\n" + memory_ + "kernels:\n" + kernels_ + "submit:\n" + submit_ + "expect:\n" + expect_;
  }

 private:
  std::string pick(const std::vector<std::string>& from) { return from[random_.below(from.size())]; }
  std::string subcontext() { return slices_ ? fmt::format("    subcontext: {}\n", random_.between(1, 2)) : ""; }
  std::string work(std::uint32_t most) {
    return fmt::format("{{compute: {{unit: int32, count: {}}}}}", random_.between(5, most));
  }
  void expect(const std::string& memory, const std::string& pattern) {
    memory_ += fmt::format("  - {{name: {}, bytes: 4 KiB}}\n", memory);
    expect_ += fmt::format("  - {{memory: {}, pattern: \"{}\", type: u32}}\n", memory, pattern);
  }

  void add(std::uint32_t k) {
    const std::string out = fmt::format("out{}", k);
    const std::uint32_t kind =
        random_.below(shared_ ? 5 : 6);  // CGAs that share contexts are not saved while they wait
    const std::uint32_t grid = kind < 4 ? 4 * random_.between(3, 15) : 4 * random_.between(3, 6);
    const std::uint32_t rounds = 4 * random_.between(1, 6);
    const std::string in = subcontext();
    kernels_ += kind < 4 ? "" : child(k, in);
    kernels_ += fmt::format("  - name: k{}\n    grid: {}\n    block: {}\n    registers: {}\n    shared: 8 KiB\n{}", k,
                            grid, pick({"32", "64", "256", "512"}), pick({"32", "64"}), in);
    switch (kind) {
      case 0:
      case 1:
        ring(rounds, kind == 0 ? 2 : 4);
        expect(out, fmt::format("i < {} ? 7 * i + 9 + {} : 0", grid, rounds));
        break;
      case 2:
        alone(rounds);
        expect(out, fmt::format("i < {} ? 7 * i + 9 + {} : 0", grid, rounds));
        break;
      case 3:
        hand_over(rounds);  // lane 9 hears i + 27 in each round
        expect(out, fmt::format("i < {} ? i + (i % 2) * {} : 0", grid, rounds * (rounds - 1) / 2 + 27 * rounds));
        break;
      default: {
        parent(k, rounds, kind == 5);
        const std::string other = kind == 5 ? "3 * (i + 1 - 2 * (i % 2)) + 7" : "3 * i + 7";
        expect(out, fmt::format("i < {} ? 3 * i + 7 + {} + {} + 5 * i + 1 : 0", grid, 2 * rounds, other));
        expect(fmt::format("kids{}", k), fmt::format("i < {} ? 5 * i + 1 : 0", grid));
      }
    }
    const char* value = kind == 3 ? "s" : kind < 3 ? "a" : "a + b + z";
    kernels_ += fmt::format(
        "      - if: {{cond: thread == {}, then: [{{store: {{value: {}, at: {} + 4 * cta, type: "
        "u32}}}}]}}\n",
        kind < 4 ? 9 : 7, value, out);
    submit_ += fmt::format("  - {{kernel: k{}, stream: s{}, at: {} us, priority: {}}}\n", k, k, random_.below(21),
                           random_.below(3));
  }

  // Each CTA hands its values to the next one of its cluster; some CTAs exit before others.
  void ring(std::uint32_t rounds, std::uint32_t size) {
    kernels_ += fmt::format(
        "    cluster: {0}\n    program:\n      - set: {{a: 7 * cta + thread, type: u32}}\n      - cluster_barrier\n"
        "      - loop: {{var: i, to: {1}, do: [{2}, {{store: {{value: a, type: u32, at: 4 * thread, space: cluster, "
        "rank: (rank + 1) % {0}}}}}, cluster_barrier, {{load: {{to: b, type: u32, at: 4 * thread, space: shared}}}}, "
        "{{set: {{a: b + 1}}}}, cluster_barrier]}}\n",
        size, rounds, work(200));
    if (random_.chance(50)) kernels_ += fmt::format("      - if: {{cond: rank == 0, then: [{}]}}\n", work(4000));
  }
  void alone(std::uint32_t rounds) {
    kernels_ += fmt::format(
        "    program:\n      - set: {{a: 7 * cta + thread, type: u32}}\n"
        "      - loop: {{var: i, to: {}, do: [{{store: {{value: a, at: 4 * thread, type: u32, space: shared}}}}, {}, "
        "barrier, {{load: {{to: b, type: u32, at: 4 * thread, space: shared}}}}, {{set: {{a: b + 1}}}}]}}\n",
        rounds, work(300));
  }
  // Stores that complete bytes at an mbarrier of the other CTA.
  void hand_over(std::uint32_t rounds) {
    kernels_ += fmt::format(
        "    cluster: 2\n    program:\n      - if: {{cond: thread == 0, then: [{{mbarrier_init: {{at: 0, count: "
        "1}}}}]}}\n      - set: {{s: cta, type: u32}}\n      - cluster_barrier\n"
        "      - loop:\n          var: i\n          to: {}\n          do:\n            - {}\n"
        "            - if: {{cond: rank == 0 && thread < 32, then: [{{store: {{value: i + 3 * lane, type: u32, at: 128 "
        "+ 4 * lane, space: cluster, rank: 1, complete: 0}}}}]}}\n"
        "            - if: {{cond: rank == 1 && thread < 32, then: [{{mbarrier_arrive: {{at: 0, expect: 128}}}}, "
        "{{mbarrier_wait: {{at: 0, parity: i % 2, lanes: all}}}}, {{load: {{to: v, type: u32, at: 128 + 4 * lane, "
        "space: shared}}}}, {{set: {{s: s + v}}}}]}}\n            - cluster_barrier\n",
        rounds, work(200));
  }
  std::string child(std::uint32_t k, const std::string& in) {
    return fmt::format(
        "  - name: child{0}\n    grid: {1}\n    block: 32\n{2}    program:\n"
        "      - load: {{to: n, type: u64, at: kernarg}}\n      - {3}\n      - if: {{cond: lane == 0, then: [{{atomic: "
        "{{op: max, type: u32, value: 5 * n + 1, at: kids{0} + 4 * n}}}}]}}\n",
        k, random_.between(1, 2), in, work(6000));
  }
  void parent(std::uint32_t k, std::uint32_t rounds, bool cluster) {
    const std::string loop = "      - loop: {{var: {}, to: {}, do: [{}, {{set: {{a: a + 1}}}}]}}\n";
    kernels_ += fmt::format(
        "{0}    program:\n      - set: {{a: 3 * cta + thread, type: u32}}\n      - store: {{value: a, at: 4 * thread, "
        "type: u32, space: shared}}\n      - if: {{cond: thread == 0, then: [{{launch: {{kernel: child{1}, args: "
        "[cta]}}}}]}}\n{2}{3}      - wait_children\n      - load: {{to: z, type: u32, at: kids{1} + 4 * cta}}\n{4}",
        cluster ? "    cluster: 2\n" : "", k, fmt::format(loop, "i", rounds, work(300)),
        cluster ? "      - cluster_barrier\n" : "", fmt::format(loop, "j", rounds, work(300)));
    kernels_ += cluster ? "      - cluster_barrier\n      - load: {to: b, type: u32, at: 4 * thread, space: cluster, "
                          "rank: 1 - rank}\n      - cluster_barrier\n"
                        : "      - load: {to: b, at: 4 * thread, type: u32, space: shared}\n";
  }

  void add_urgent(std::uint32_t u) {
    const std::uint32_t cluster = 4 * random_.below(3);
    const std::uint32_t grid = cluster > 0 ? cluster * random_.between(1, 4) : random_.between(1, 40);
    kernels_ += fmt::format("  - name: u{}\n    grid: {}\n    block: {}\n    cycles: {}\n{}{}", u, grid,
                            pick({"128", "1024"}), random_.between(100, 6000),
                            cluster > 0 ? fmt::format("    cluster: {}\n", cluster) : "", subcontext());
    for (std::uint32_t i = random_.between(1, 3); i > 0; --i) {
      submit_ += fmt::format("  - {{kernel: u{0}, stream: u{0}, at: {1} us, priority: {2}}}\n", u,
                             random_.between(1, 120), random_.between(1, 5));
    }
  }

  Random random_;
  bool slices_ = false;
  bool shared_ = false;  // contexts
  std::string config_;
  std::string memory_;
  std::string kernels_;
  std::string submit_;
  std::string expect_;
};

double stat(const Results& results, const std::string& name) {
  return results.document().at("stats").at(name).at("value").get<double>();
}

}  // namespace

TEST_CASE("CGAs, shared contexts and time slices that are stopped at random moments compute the same",
          "[cli][TSK-12][TSK-16]") {
  double stopped = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::string text = Storm(seed).text();
    CAPTURE(seed, text);
    for (const char* mode : {"at", "fast", "lt"}) {
      const TempDir dir;
      dir.write("s.yaml", text);
      const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet", "--timing", mode});
      CAPTURE(mode, finished.err);
      REQUIRE(finished.status == 0);
      const Results results(dir.file("out"));
      stopped += stat(results, "gpu0.cwd.ctas_preempted");
      // What has been launched has ended, and was launched as often as it was saved besides.
      CHECK(stat(results, "gpu0.cwd.ctas_launched") ==
            stat(results, "gpu0.cwd.ctas_completed") + stat(results, "gpu0.cwd.ctas_preempted"));
    }
  }
  CHECK(stopped > 200);
}

}  // namespace cli_preemption_storm_test
