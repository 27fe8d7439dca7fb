// Cooperative grids: their barriers, what is refused, and that none waits for ever for another.
#include <string>

#include <fmt/format.h>

#include "cli/program.h"
#include "support/random.h"

namespace cli_grid_barrier_command_test {

using namespace heddle::test;

namespace {

std::string cooperative(const std::string& name, std::uint32_t grid, std::uint32_t block, const std::string& steps,
                        const std::string& more = "") {
  return fmt::format("  - name: {}\n    grid: {}\n    block: {}\n    cooperative: true\n{}    program:\n{}", name, grid,
                     block, more, steps);
}

std::string head(const std::string& more = "") {
  return "heddle: 1\ngpu: small\n" + more +
         "memory:\n  - {name: word, bytes: 4}\n  - {name: x, bytes: 4 KiB}\n  - {name: errors, bytes: 4}\nkernels:\n";
}

// Each CTA takes its time, says which phase it is in, and finds behind the barrier that all have said so.
std::string phases(std::uint32_t count, std::uint32_t a, std::uint32_t b, std::uint32_t modulus) {
  return fmt::format(
      "      - loop:\n          var: phase\n          to: {}\n          do:\n"
      "            - loop: {{var: i, to: ({} * cta + {} * phase) % {}, do: [{{compute: {{unit: sfu, count: 40}}}}]}}\n"
      "            - if: {{cond: thread == block - 1, then: [{{store: {{value: phase + 1, type: u32, at: x + 4 * "
      "cta}}}}]}}\n"
      "            - grid_barrier: {{at: word}}\n"
      "            - if:\n                cond: thread < grid\n                then:\n"
      "                  - load: {{to: other, type: u32, at: x + 4 * thread, order: relaxed}}\n"
      "                  - if: {{cond: other != phase + 1, then: [{{atomic: {{op: add, type: u32, at: errors, value: "
      "1}}}}]}}\n"
      "            - grid_barrier: {{at: word}}\n",
      count, a, b, modulus);
}

}  // namespace

TEST_CASE("no CTA leaves a grid barrier before all have arrived, in every phase", "[cli][SM-04][MEM-06]") {
  HEDDLE_RANDOM(random);
  const TempDir dir;
  for (int round = 0; round < 6; ++round) {
    const std::uint32_t grid = random.between(1, 40);
    const std::uint32_t block = 32 * random.between(2, 8);
    const std::uint32_t count = random.between(1, 5);
    const std::string text =
        head() +
        cooperative("meet", grid, block, phases(count, random.below(50), random.below(50), random.between(1, 40))) +
        "submit:\n  - {kernel: meet, stream: a}\n  - {kernel: meet, stream: a}\nexpect:\n"
        "  - {memory: errors, pattern: \"0\", type: u32}\n" +
        fmt::format("  - {{memory: x, pattern: \"i < {} ? {} : 0\", type: u32}}\n", grid, count);
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(round, mode, text);
      dir.write("s.yaml", text);
      const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode});
      INFO(finished.err);
      CHECK(finished.status == 0);
    }
  }
}

TEST_CASE("a barrier of more CTAs takes longer, and is made of memory operations", "[cli][SM-04]") {
  const TempDir dir;
  double before = 0;
  for (const int ctas : {2, 8, 132}) {
    const Finished finished =
        heddle_in(dir, {"run", scenario("grid_barrier.yaml"), "--out", "out", "--let", fmt::format("ctas={}", ctas)});
    INFO(finished.err);
    REQUIRE(finished.status == 0);
    const nlohmann::json figures = Results(dir.file("out")).document().at("figures");
    const double cycles = figures.at(0).at("value").get<double>();
    CAPTURE(ctas, before, cycles);
    CHECK(cycles > before);
    CHECK(cycles > 600);  // two fences, an atomic and a load go to the L2, one after the other
    CHECK(cycles < 6'000);
    before = cycles;
  }
}

TEST_CASE("a cooperative grid that is not resident at once is refused, and told what would be", "[cli][CWD-25]") {
  const TempDir dir;
  const auto run = [&](std::uint32_t grid, const std::string& more) {
    dir.write("s.yaml", head() + cooperative("meet", grid, 1'024, "      - grid_barrier: {at: word}\n", more) +
                            "submit:\n  - {kernel: meet, stream: a}\n");
    return heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  };
  CHECK(run(20, "").status == 0);  // two on each of ten SMs
  const Finished large = run(21, "");
  CHECK(large.status == 2);
  CHECK(contains(large.err, "kernel 'meet'"));
  CHECK(contains(large.err, "a cooperative grid of 21 CTAs is too large: the machine holds 20 of them at once"));
  CHECK(run(10, "    shared: 120 KiB\n").status == 0);
  CHECK(contains(run(21, "    shared: 120 KiB\n").err, "the machine holds "));
  // Clusters of four on GPCs of six and four SMs, two CTAs an SM.
  CHECK(run(20, "    cluster: 4\n").status == 0);
  CHECK(contains(run(24, "    cluster: 4\n").err, "a cooperative grid of 24 CTAs is too large: the machine holds 20"));

  dir.write("s.yaml", head() + "  - {name: meet, grid: 4, block: 32, program: [{grid_barrier: {at: word}}]}\n" +
                          "submit:\n  - {kernel: meet, stream: a}\n");
  const Finished plain = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(plain.status == 2);
  CHECK(contains(plain.err, "cooperative: true"));
}

TEST_CASE("of two cooperative grids, one is placed as a whole before the other begins", "[cli][CWD-19]") {
  const TempDir dir;
  // A plain kernel holds half of the machine while the first takes the other half, and a more urgent one comes.
  const std::string text =
      head() + "  - {name: plain, grid: 10, block: 1024, cycles: {min: 20000, max: 60000}}\n" +
      cooperative("meet", 20, 1'024, "      - grid_barrier: {at: word}\n") +
      cooperative("urgent", 20, 1'024, "      - grid_barrier: {at: x}\n") +
      "streams:\n  - {name: a, priority: 0}\n  - {name: b, priority: 0}\n  - {name: c, priority: 5}\n"
      "submit:\n  - {kernel: plain, stream: a}\n  - {kernel: meet, stream: b, at: 2 us}\n"
      "  - {kernel: urgent, stream: c, at: 6 us}\n"
      "expect:\n  - {stat: gpu0.cwd.wait.cooperative, min: 1}\n  - {stat: gpu0.cwd.ctas_launched, equals: 50}\n";
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    dir.write("s.yaml", text);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode});
    INFO(finished.err);
    CHECK(finished.status == 0);
  }
}

}  // namespace cli_grid_barrier_command_test
