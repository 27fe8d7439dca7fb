// Local memory as users see it (PRT-06): programs that write and read it, what it costs, and what is refused.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/program.h"
#include "support/gpu_lab.h"
#include "support/random.h"

namespace cli_local_memory_test {

using namespace heddle::test;

namespace {

constexpr std::uint32_t kCtas = 24;
constexpr std::uint32_t kThreads = 80;  // the last warp is partial
constexpr std::uint32_t kBytes = 72;    // of a thread

// One access: values of one type side by side, at an offset that the lane decides.
struct LocalAccess {
  bool store = false;
  std::uint32_t bytes = 4;  // of a value: 1, 2, 4 or 8
  std::uint32_t count = 1;
  std::uint32_t base = 0;
  std::uint32_t steps = 1;  // the offset has so many places
  std::uint32_t factor = 0;
  std::uint32_t key = 0;  // of the values

  std::uint32_t width() const { return bytes * count; }
  std::uint32_t offset(std::uint32_t thread) const { return base + width() * (thread * factor % steps); }
  std::uint64_t value(std::uint32_t id, std::uint32_t i) const { return (id * 7 + key + i * 13) % 251; }
};

LocalAccess random_access(Random& random) {
  LocalAccess access;
  access.store = random.chance(55);
  access.bytes = std::uint32_t{1} << random.between(0, 3);
  access.count = access.bytes < 4 ? 1 : std::uint32_t{1} << random.between(0, access.bytes == 4 ? 2 : 1);
  access.steps = random.between(1, kBytes / access.width());
  access.base = access.width() * random.between(0, kBytes / access.width() - access.steps);
  access.factor = random.between(0, 9);
  access.key = random.between(0, 250);
  return access;
}

constexpr std::uint32_t kPlace = 16;  // bytes that a load has in the region `out`

std::string program(const std::vector<LocalAccess>& accesses, std::uint32_t loads, const std::string& out) {
  std::string text = fmt::format(
      "      - let: {{id: cta * {} + thread}}\n"
      "      - loop: {{var: i, to: {}, do: [{{store: {{space: local, at: i * 4, value: 0, type: u32}}}}]}}\n",
      kThreads, kBytes / 4);
  std::uint32_t load = 0;
  for (const LocalAccess& access : accesses) {
    const std::string at =
        fmt::format("{} + {} * ((thread * {}) % {})", access.base, access.width(), access.factor, access.steps);
    std::string list;
    for (std::uint32_t i = 0; i < access.count; ++i) {
      list += i == 0 ? "" : ", ";
      list += access.store ? fmt::format("(id * 7 + {}) % 251", access.key + i * 13) : fmt::format("v{}_{}", load, i);
    }
    const std::string type = fmt::format("u{}", access.bytes * 8);
    if (access.store) {
      text += fmt::format("      - store: {{space: local, at: {}, value: [{}], type: {}}}\n", at, list, type);
      continue;
    }
    text += fmt::format("      - load: {{space: local, to: [{}], type: {}, at: {}}}\n", list, type, at);
    text += fmt::format("      - store: {{at: {} + (id * {} + {}) * {}, value: [{}], type: {}}}\n", out, loads, load,
                        kPlace, list, type);
    ++load;
  }
  return text;
}

// Thread by thread, byte by byte.
std::vector<std::uint8_t> expected(const std::vector<LocalAccess>& accesses, std::uint32_t loads) {
  std::vector<std::uint8_t> out(std::size_t{kCtas} * kThreads * loads * kPlace, 0);
  for (std::uint32_t id = 0; id < kCtas * kThreads; ++id) {
    std::array<std::uint8_t, kBytes> memory{};
    std::uint32_t load = 0;
    for (const LocalAccess& access : accesses) {
      std::uint8_t* place = memory.data() + access.offset(id % kThreads);
      if (!access.store) {
        std::memcpy(out.data() + (std::size_t{id} * loads + load++) * kPlace, place, access.width());
        continue;
      }
      for (std::uint32_t i = 0; i < access.count; ++i) {
        for (std::uint32_t byte = 0; byte < access.bytes; ++byte) {
          place[i * access.bytes + byte] = static_cast<std::uint8_t>(access.value(id, i) >> 8 * byte);
        }
      }
    }
  }
  return out;
}

std::uint32_t loads_of(const std::vector<LocalAccess>& accesses) {
  std::uint32_t loads = 0;
  for (const LocalAccess& access : accesses) loads += access.store ? 0 : 1;
  return loads;
}

}  // namespace

TEST_CASE("threads find in local memory what they wrote there", "[cli][PRT-06]") {
  const TempDir dir;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Random random(seed);
    const bool translated = seed % 2 == 0;
    const std::string timing = seed % 3 == 0 ? "lt" : "at";
    // Two processes on the same TPCs, whose blocks have the same numbers.
    std::string kernels;
    std::string regions;
    std::vector<std::vector<LocalAccess>> programs;
    for (std::uint32_t process = 1; process <= 2; ++process) {
      std::vector<LocalAccess> accesses;
      for (int i = 0; i < 36; ++i) accesses.push_back(random_access(random));
      accesses.back().store = false;
      const std::uint32_t loads = loads_of(accesses);
      const std::string out = fmt::format("out{}", process);
      kernels += fmt::format(
          "  - name: k{}\n    grid: {}\n    block: {}\n    local: {} B\n    subcontext: {}\n    program:\n{}", process,
          kCtas, kThreads, kBytes, process, program(accesses, loads, out));
      regions += fmt::format("  - {{name: {}, bytes: {} B, write: {}.bin{}}}\n", out, kCtas * kThreads * loads * kPlace,
                             out, translated ? fmt::format(", subcontext: {}", process) : "");
      programs.push_back(accesses);
    }
    const std::string spaces = translated ? "config: {gpu: {mmu: {enabled: true}, cwd: {local_memory_blocks: 2}}}\n"
                                            "subcontexts: [{id: 1, translated: true}, {id: 2, translated: true}]\n"
                                          : "config: {gpu: {sm: {start_cycles: 0}}}\n";
    dir.write("local.yaml",
              "heddle: 1\ngpu: small\n" + spaces + "memory:\n" + regions + "kernels:\n" + kernels +
                  "submit: [{kernel: k1, stream: a}, {kernel: k2, stream: b}, {kernel: k1, stream: c}]\n");
    CAPTURE(seed, timing);
    const Results results = run_well(dir, {"local.yaml", "--timing", timing});
    for (std::uint32_t process = 0; process < 2; ++process) {
      const std::vector<std::uint8_t> wanted = expected(programs[process], loads_of(programs[process]));
      const std::string found = read_file(results.file(fmt::format("out{}.bin", process + 1)));
      CAPTURE(process);
      CHECK(std::string(wanted.begin(), wanted.end()) == found);
    }
  }
}

namespace {

std::string machine(const std::string& rest) { return "heddle: 1\ngpu: small\n" + rest; }

// One warp, with 64 bytes of local memory for each thread, in subcontext 1.
std::string warp(const std::string& steps, const std::string& more = "") {
  return machine(more + "kernels:\n  - {name: k, grid: 1, block: 32, local: 64 B, subcontext: 1, program: [" + steps +
                 "]}\nsubmit: [{kernel: k, stream: a}]\n");
}

double stat(const Results& results, const std::string& path) { return results.stat("gpu0." + path); }

void refused(const TempDir& dir, const std::string& text, const std::string& why, const std::string& where) {
  dir.write("r.yaml", text);
  const Finished finished = heddle_in(dir, {"run", "r.yaml"});
  CAPTURE(text, finished.err);
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, why));
  CHECK(contains(finished.err, where));
}

}  // namespace

TEST_CASE("local memory goes through the caches, a line for each word of a warp", "[cli][PRT-06][PRT-09]") {
  const TempDir dir;
  // 4 bytes of 32 threads are a line; 16 bytes are four; those of half a warp are half as many sectors.
  const auto bytes = [&dir](const std::string& steps) {
    dir.write("w.yaml", warp(steps));
    const Results results = run_well(dir, {"w.yaml"});
    return stat(results, "memory.subcontext1.l2_bytes");
  };
  CHECK(bytes("{store: {space: local, at: 0, value: 1, type: u32}}") == 128);
  CHECK(bytes("{store: {space: local, at: 60, value: 1, type: u8}}") == 128);
  CHECK(bytes("{store: {space: local, at: 0, value: [1, 2, 3, 4], type: u32}}") == 512);
  CHECK(bytes("{store: {space: local, at: 8, value: lane, type: u64}}") == 256);
  CHECK(bytes("{if: {cond: lane < 16, then: [{store: {space: local, at: 0, value: 1, type: u32}}]}}") == 64);
  // Each lane a word of its own: 16 words, of two lanes each.
  CHECK(bytes("{store: {space: local, at: 4 * (lane % 16), value: 1, type: u32}}") == 16 * 2 * 32);
  // What has been read before is in the L1.
  CHECK(bytes("{load: {space: local, to: x, type: u32, at: 0}}, {set: {y: x, type: u32}}, "
              "{load: {space: local, to: z, type: u32, at: 0}}") == 128);
}

TEST_CASE("what lies beyond the local memory of a thread is a fault", "[cli][PRT-06]") {
  const TempDir dir;
  const auto faults = [&dir](const std::string& steps, bool wrong) {
    CAPTURE(steps);
    const std::string expect = wrong ? "expect: [{fault: local_bounds, kernel: k, subcontext: 1}]\n"
                                     : "expect: [{stat: gpu0.faults, equals: 0}]\n";
    // The subcontext has more than the kernel asks for.
    dir.write("f.yaml", warp(steps, "subcontexts: [{id: 1, local: 256 B}]\n") + expect);
    (void)run_well(dir, {"f.yaml"});
  };
  faults("{load: {space: local, to: x, type: u32, at: 60}}", false);
  faults("{load: {space: local, to: x, type: u32, at: 64}}", true);
  faults("{load: {space: local, to: x, type: u32, at: 60 + 4 * (lane == 31)}}", true);
  faults("{load: {space: local, to: [x, y], type: u64, at: 48}}", false);
  faults("{load: {space: local, to: [x, y], type: u64, at: 64}}", true);
  faults("{store: {space: local, at: 0 - 4, value: 1, type: u32}}", true);
}

TEST_CASE("a kernel whose local memory does not fit is refused", "[cli][PRT-06][PRT-12]") {
  const TempDir dir;
  const auto kernel = [](const std::string& local, const std::string& rest = "cycles: 100") {
    return "kernels:\n  - {name: k, grid: 1, block: 32, local: " + local + ", subcontext: 1, " + rest +
           "}\nsubmit: [{kernel: k, stream: a}]\n";
  };
  refused(dir, machine("subcontexts:\n  - {id: 1, local: 48 B}\n" + kernel("52 B")),
          "kernel 'k' takes 52 bytes of local memory for each thread, but those of subcontext 1 have 48", "r.yaml:4:5");
  refused(dir, machine(kernel("4294967295")), "the limit is 524288", "'k'");
  refused(dir, machine(kernel("600 KiB")), "local memory: 614400 bytes per thread, the limit is 524288", "k");
  refused(dir, machine(kernel("500 KiB")), "the local memory of subcontext 1 does not fit into gpu0", "gpu.memory");
  refused(dir, machine(kernel("8 B", "program: [{load: {space: local, to: x, type: u32, at: 0, order: relaxed}}]")),
          "order has no meaning with space: local", "r.yaml:4");
  refused(dir, machine(kernel("0", "program: [{load: {space: local, to: x, type: u32, at: 0}}]")),
          "the kernel has no local memory", "r.yaml:4");
  refused(dir, machine(kernel("8 B", "program: [{atomic: {space: local, op: add, value: 1, type: u32, at: 0}}]")),
          "local", "r.yaml:4");
}

TEST_CASE("a kernel that a program launches has local memory of its own", "[cli][PRT-06][TSK-07]") {
  const TempDir dir;
  dir.write("child.yaml", machine(R"(config: {gpu: {mmu: {enabled: true}}}
subcontexts: [{id: 3, translated: true}]
memory: [{name: out, bytes: 1 KiB, subcontext: 3}]
kernels:
  - name: child
    grid: 2
    block: 64
    local: 32 B
    program:
      - store: {space: local, at: 28, value: cta * 64 + thread, type: u32}
      - load: {space: local, to: x, type: u32, at: 28}
      - store: {at: out + 4 * (cta * 64 + thread), value: x}
  - name: parent
    grid: 1
    block: 32
    subcontext: 3
    program:
      - if: {cond: lane == 0, then: [{launch: {kernel: child}}]}
      - wait_children
submit: [{kernel: parent, stream: a}]
expect:
  - {memory: out, pattern: "i < 128 ? i : 0", type: u32}
  - {stat: gpu0.faults, equals: 0}
)"));
  (void)run_well(dir, {"child.yaml"});
}

TEST_CASE("a process does not reach the local memory of another", "[cli][PRT-06][PRT-08]") {
  // Both have theirs at the same address of their spaces; process 2 looks there, and finds its own alone.
  const TempDir dir;
  dir.write("spy.yaml", machine(R"(config: {gpu: {mmu: {enabled: true}, cwd: {partition: dynamic}}}
subcontexts: [{id: 1, translated: true, tpcs: [[0, 0]]}, {id: 2, translated: true, tpcs: [[1, 0]]}]
memory: [{name: loot, bytes: 64 KiB, subcontext: 2}]
kernels:
  - name: owner
    grid: 1
    block: 32
    local: 16 B
    subcontext: 1
    program:
      - store: {space: local, at: 0, value: 12345, type: u32}
      - compute: {unit: fp32, count: 20000}
  - name: own
    grid: 1
    block: 32
    local: 16 B
    subcontext: 2
    program: [{store: {space: local, at: 12, value: 6, type: u32}}]
  - name: spy
    grid: 1
    block: 256
    subcontext: 2
    program:
      - load: {to: found, type: u32, at: "281474976710656 + 4 * thread"}
      - store: {value: found, type: u32, at: loot + 4 * thread}
submit: [{kernel: owner, stream: a}, {kernel: own, stream: b}, {kernel: spy, stream: b}]
expect:
  - {stat: gpu0.faults, equals: 0}
  - {memory: loot, pattern: "i >= 96 && i < 128 ? 6 : 0", type: u32}
)"));
  (void)run_well(dir, {"spy.yaml"});
}

}  // namespace cli_local_memory_test
