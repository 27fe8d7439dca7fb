// What one process can do to another, as users see it: scenarios of two subcontexts.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/csv.h"
#include "cli/program.h"
#include "support/gpu_lab.h"

namespace cli_sharing_command_test {

using namespace heddle::test;

namespace {

// `subcontexts` gives process 1 a small part of the machine, and process 2 a large one.
std::string many_streams(const std::string& mode, std::uint32_t streams) {
  std::string text = "heddle: 1\ngpu: h100-sxm\nconfig: {gpu: {cwd: {partition: " + mode + "}}}\nsubcontexts:\n";
  if (mode == "dynamic") {
    text += "  - {id: 1, credits: 6}\n  - {id: 2, credits: 60}\n";
  } else {
    text += "  - {id: 1, tpcs: [[0, 0], [0, 1], [0, 2]]}\n  - {id: 2, tpcs: [[1, 0], [2, 0], [3, 0], [0, 3]]}\n";
  }
  text +=
      "kernels:\n"
      "  - {name: hog, grid: 40, block: 1024, cycles: 20000, subcontext: 1}\n"
      "  - {name: victim, grid: 4, block: 128, cycles: 2000, subcontext: 2}\n"
      "submit:\n";
  for (std::uint32_t i = 0; i < streams; ++i) text += "  - {kernel: hog, stream: s" + std::to_string(i) + "}\n";
  text += "  - {kernel: victim, stream: v, at: 10 us}\n";
  return text;
}

}  // namespace

TEST_CASE("a process with free TPCs starts within a microsecond beside 200 streams of another", "[cli][PRT-02]") {
  const TempDir dir;
  for (const std::string mode : {"dynamic", "static"}) {
    for (const std::uint32_t streams : {33U, 200U}) {
      CAPTURE(mode, streams);
      dir.write("many.yaml", many_streams(mode, streams));
      std::uint32_t found = 0;
      for (const Row& row : dumped(dir, "many.yaml")) {
        if (row.at("kernel") != "victim") continue;
        ++found;
        CHECK(number(row, "launch") < 11 * 1755);
      }
      CHECK(found == 4);
    }
  }
}

TEST_CASE("a hog whose credits are cut frees its TPCs within its longest CTA", "[cli][PRT-07]") {
  const TempDir dir;
  dir.write("cut.yaml", R"(heddle: 1
gpu: h100-sxm
config: {gpu: {cwd: {partition: dynamic}}}
subcontexts: [{id: 1, credits: 66}, {id: 2, credits: 60}]
share: [{at: 50 us, subcontext: 1, credits: 6}]
kernels:
  - {name: hog, grid: 20000, block: 256, cycles: {min: 8000, max: 12000}, subcontext: 1}
  - {name: other, grid: 2000, block: 256, cycles: {min: 8000, max: 12000}, subcontext: 2}
submit: [{kernel: hog, stream: a}, {kernel: other, stream: b, at: 50 us}]
)");
  constexpr double kUs = 1755;
  // A session that has begun before the cut may still launch.
  constexpr std::uint64_t kCut = static_cast<std::uint64_t>(50.5 * kUs);
  constexpr std::uint64_t kFreed = kCut + 12'200;  // the longest CTA, and its launch
  std::set<std::string> before;
  std::set<std::string> kept;
  std::uint64_t first = ~std::uint64_t{0};
  for (const Row& row : dumped(dir, "cut.yaml")) {
    const std::string tpc = row.at("gpc") + "." + row.at("tpc");
    if (row.at("kernel") == "other") {
      first = std::min(first, number(row, "launch"));
    } else if (number(row, "launch") <= kCut && number(row, "end") > kCut) {
      before.insert(tpc);
    } else if (number(row, "end") > kFreed) {
      kept.insert(tpc);
    }
  }
  CHECK(before.size() == 66);
  CHECK(kept.size() == 6);
  CHECK(first < kFreed);
}

TEST_CASE("two processes with local memory do not wait for each other", "[cli][PRT-06]") {
  const TempDir dir;
  for (const std::string mode : {"none", "dynamic"}) {
    CAPTURE(mode);
    dir.write("local.yaml", "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: " + mode +
                                "}}}\nkernels:\n"
                                "  - {name: first, grid: 10, block: 32, local: 64 B, cycles: 50000, subcontext: 1}\n"
                                "  - {name: second, grid: 10, block: 32, local: 64 B, cycles: 500, subcontext: 2}\n"
                                "  - {name: third, grid: 10, block: 32, cycles: 500, subcontext: 3}\n"
                                "submit:\n  - {kernel: first, stream: a}\n  - {kernel: second, stream: b}\n  - "
                                "{kernel: third, stream: c}\n");
    for (const Row& row : dumped(dir, "local.yaml")) {
      CAPTURE(row);
      CHECK(number(row, "launch") < 1000);
    }
  }
}

TEST_CASE("CTAs go to idle SMs before half-full ones", "[cli][PRT-03]") {
  const TempDir dir;
  dir.write("load.yaml", R"(heddle: 1
gpu: small
config: {gpu: {cwd: {partition: dynamic}}}
load:
  - {kernel: background, sms: [0, 1, 2, 3, 4], ctas: 1}
kernels:
  - {name: background, grid: 1, block: 1024, cycles: 100}
  - {name: large, grid: 5, block: 64, shared: 200 KiB, cycles: 1000}
submit: [{kernel: large, stream: a}]
)");
  std::set<std::uint64_t> sms;
  for (const Row& row : dumped(dir, "load.yaml")) sms.insert(number(row, "sm"));
  CHECK(sms == std::set<std::uint64_t>{5, 6, 7, 8, 9});
}

TEST_CASE("a process launches from the device while another holds all its launch records", "[cli][PRT-02]") {
  // Each of process 1's parents launches one child after another and waits for none of them: children last long, and
  // the records of their process are soon gone. Process 2 has its own.
  const TempDir dir;
  const auto end_of_victim = [&](bool hog, std::uint32_t parts) {
    dir.write("hog.yaml",
              "heddle: 1\ngpu: h100-sxm\n"
              "config: {gpu: {cwd: {partition: static}, task: {nested: {pending_launches: 300, parts: " +
                  std::to_string(parts) +
                  "}}}}\n"
                  "subcontexts:\n  - {id: 1, tpcs: [[0, 0], [0, 1]]}\n  - {id: 2, tpcs: [[1, 0], [1, 1]]}\n"
                  "kernels:\n"
                  "  - {name: long, grid: 1, block: 1024, program: [{compute: {unit: fp32, count: 20000}}]}\n"
                  "  - {name: short, grid: 1, block: 32, program: [{compute: {unit: fp32, count: 100}}]}\n"
                  "  - name: hog\n    grid: 4\n    block: 32\n    subcontext: 1\n    program:\n"
                  "      - loop: {var: i, to: 100, do: [{if: {cond: lane == 0, then: [{launch: {kernel: long, mode: "
                  "fire_and_forget}}]}}]}\n"
                  "  - name: victim\n    grid: 2\n    block: 32\n    subcontext: 2\n    program:\n"
                  "      - if: {cond: lane == 0, then: [{launch: {kernel: short}}]}\n      - wait_children\n"
                  "submit:\n" +
                  std::string(hog ? "  - {kernel: hog, stream: a}\n" : "") +
                  "  - {kernel: victim, stream: b, at: 200 us}\n" + (hog ? "" : "  - {kernel: hog, stream: b}\n"));
    std::uint64_t end = 0;
    for (const Row& row : dumped(dir, "hog.yaml")) {
      if (row.at("kernel") == "victim") end = std::max(end, number(row, "end"));
    }
    return static_cast<double>(end) / 1755;  // us
  };
  const double alone = end_of_victim(false, 4);
  CHECK(end_of_victim(true, 4) < 1.02 * alone);
  CHECK(end_of_victim(true, 1) < 1.02 * alone);  // of what is common, there is more in the memory behind (TSK-12)
}

TEST_CASE("a process sees its own launches alone", "[cli][PRT-08]") {
  // Process 2 reads, one after another: its own TMDs, those of process 1, and contexts and saved CTAs of both.
  const TempDir dir;
  const heddle::arch::LaunchMemory memory = preset_params("small").nested_memory();
  const auto spy = [&](std::uint64_t address, bool allowed) {
    CAPTURE(address);
    dir.write(
        "spy.yaml",
        "heddle: 1\ngpu: small\nconfig: {gpu: {mmu: {enabled: true}}}\n"
        "subcontexts: [{id: 1, translated: true}, {id: 2, translated: true}]\n"
        "memory: [{name: loot, bytes: 64 KiB, subcontext: 2}]\n"
        "kernels:\n"
        "  - {name: child, grid: 1, block: 32, program: [{compute: {unit: fp32, count: 4000}}]}\n"
        "  - name: parent\n    grid: 1\n    block: 32\n    subcontext: 1\n    program:\n"
        "      - if: {cond: lane == 0, then: [{launch: {kernel: child, args: [6210023]}}]}\n      - wait_children\n"
        "  - name: spy\n    grid: 1\n    block: 32\n    subcontext: 2\n    program:\n"
        "      - load: {to: found, type: u32, at: " +
            std::to_string(address) +
            " + 4 * lane}\n"
            "      - store: {value: found, type: u32, at: loot + 4 * lane}\n"
            "submit:\n  - {kernel: parent, stream: a}\n  - {kernel: spy, stream: b, at: 5 us}\nexpect:\n" +
            std::string(allowed ? "  - {stat: gpu0.faults, equals: 0}\n"
                                : "  - {fault: unmapped, kernel: spy, subcontext: 2}\n"
                                  "  - {memory: loot, pattern: 0, type: u32}\n"));
    (void)run_well(dir, {"spy.yaml"});
  };
  spy(memory.of(2).tasks.pool.record(0), true);
  for (const std::uint32_t subcontext : {1U, 2U}) {
    const heddle::arch::LaunchMemory own = memory.of(subcontext);
    if (subcontext == 1) {
      for (const heddle::arch::RecordPool& pool : {own.tasks.pool, own.tasks.spill}) {
        spy(pool.base, false);
        spy(pool.record(0), false);
        spy(pool.record(pool.count - 1), false);
      }
    }
    for (const heddle::arch::RecordPool& pool : {own.contexts.pool, own.contexts.spill}) {
      spy(pool.base, false);
      spy(pool.record(0), false);
    }
    spy(own.chunks.record(0), false);
    spy(own.chunks.record(own.chunks.count - 1), false);
  }
}

TEST_CASE("address spaces do not share pools of launches", "[cli][PRT-08][PRT-12]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {mmu: {enabled: true}}}\n"
            "subcontexts:\n  - {id: 1, translated: true}\n  - {id: 5, translated: true}\n"
            "kernels:\n  - {name: c, grid: 1, block: 32, cycles: 10}\n"
            "  - {name: p, grid: 1, block: 32, subcontext: 1, program: [{if: {cond: lane == 0, then: [{launch: "
            "{kernel: c}}]}}]}\n"
            "submit: [{kernel: p, stream: a}]\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml"});
  CHECK(finished.status == 2);
  CHECK_THAT(finished.err,
             Catch::Contains("s.yaml:6:5: subcontexts 1 and 5 have the same pools of device-side launches"));
  (void)run_well(dir, {"s.yaml", "--set", "gpu.task.nested.parts=8"});
}

TEST_CASE("settings that contradict each other or mean nothing are refused with their line", "[cli][PRT-12]") {
  const TempDir dir;
  const auto refused = [&](const std::string& mode, const std::string& lists, const std::string& message) {
    CAPTURE(mode, lists);
    dir.write("s.yaml",
              "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: " + mode + "}}}\n" + lists +
                  "kernels:\n  - {name: k, grid: 4, block: 64, cycles: 100, subcontext: 1}\n"
                  "  - {name: wide, grid: 4, block: 64, cycles: 100, cluster: 4, shared: 150 KiB, subcontext: 2}\n"
                  "submit:\n  - {kernel: k, stream: a}\n  - {kernel: wide, stream: b}\n");
    const Finished finished = heddle_in(dir, {"run", "s.yaml"});
    CHECK(finished.status == 2);
    CHECK_THAT(finished.err, Catch::Contains(message));
  };
  const std::string both = "subcontexts:\n  - {id: 1, tpcs: [[0, 0]]}\n  - {id: 2, tpcs: [[0, 1], [0, 2]]}\n";
  // Masks that overlap: from the start, by a change, by a change of the mode.
  refused("static", "subcontexts:\n  - {id: 1, tpcs: [[0, 0]]}\n  - {id: 2, tpcs: [[0, 0], [0, 1]]}\n",
          "s.yaml:6:5: TPC 0 of GPC 0 for subcontext 2: a TPC would belong to two subcontexts");
  refused("static", both + "share:\n  - {at: 1 us, subcontext: 1, gpc: 0, tpc: 2, enabled: true}\n",
          "s.yaml:8:5: TPC 2 of GPC 0 for subcontext 1: a TPC would belong to two subcontexts");
  refused("dynamic",
          "subcontexts:\n  - {id: 1, tpcs: [[0, 0]]}\n  - {id: 2, tpcs: [[0, 0], [0, 1]]}\n"
          "share:\n  - {at: 1 us, mode: static}\n",
          "s.yaml:8:5: the mode static: a TPC would belong to two subcontexts");
  // What no mode that follows makes anything of.
  refused("static", "subcontexts:\n  - {id: 1, tpcs: [[0, 0]], credits: 3}\n  - {id: 2, tpcs: [[0, 1], [0, 2]]}\n",
          "s.yaml:5:5: credits mean nothing: gpu0 is in mode static, and they count in mode dynamic");
  refused("none", "subcontexts:\n  - {id: 1}\n  - {id: 2, credits: 1}\n", "s.yaml:6:5: credits mean nothing");
  refused("dynamic",
          "subcontexts: [{id: 1}, {id: 2}]\nshare:\n  - {at: 2 us, subcontext: 1, credits: 2}\n"
          "  - {at: 1 us, mode: none}\n",
          "s.yaml:6:5: credits mean nothing");
  refused("dynamic", "subcontexts: [{id: 1}, {id: 2}]\nshare:\n  - {subcontext: 1, gpc: 0, tpc: 0, block: 0}\n",
          "s.yaml:6:5: blocks mean nothing: gpu0 is in mode dynamic, and they count in mode static");
  // Blocks that do not exist, or are another's.
  refused("static", both + "share:\n  - {subcontext: 1, gpc: 0, tpc: 0, block: 5}\n",
          "s.yaml:8:5: local-memory block 5 for subcontext 1 on TPC 0 of GPC 0: the value is out of range");
  refused(
      "static",
      both + "share:\n  - {subcontext: 2, gpc: 0, tpc: 1, block: 4}\n  - {subcontext: 2, gpc: 0, tpc: 2, block: 4}\n",
      "s.yaml:9:5: local-memory block 4 for subcontext 2 on TPC 2 of GPC 0: the local-memory block is another TPC's");
  // Kernels without a place at any time: no TPC, or too few SMs for a CGA.
  refused("static", "subcontexts:\n  - {id: 1}\n  - {id: 2, tpcs: [[0, 1], [0, 2]]}\n",
          "s.yaml:5:5: kernel 'k' can never run in subcontext 1 of gpu0: it has no TPC");
  refused("static", "subcontexts:\n  - {id: 1, tpcs: [[0, 0]]}\n  - {id: 2, tpcs: [[0, 1], [1, 0]]}\n",
          "s.yaml:6:5: kernel 'wide' can never run in subcontext 2 of gpu0: ");
  refused("static", "subcontexts: [{id: 2, tpcs: [[0, 1], [0, 2]]}]\n",
          "kernel k is of subcontext 1, which `subcontexts` does not list");
  // The same with a place later on.
  dir.write("later.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: static}}}\nsubcontexts:\n  - {id: 1}\n"
            "  - {id: 2, credits: 2, tpcs: [[0, 1], [0, 2]]}\n"
            "share:\n  - {at: 1 us, subcontext: 1, gpc: 0, tpc: 0, enabled: true}\n"
            "  - {at: 2 us, mode: dynamic}\n"
            "kernels:\n  - {name: k, grid: 4, block: 64, cycles: 100, subcontext: 1}\n"
            "submit:\n  - {kernel: k, stream: a}\n");
  (void)run_well(dir, {"later.yaml"});
}

TEST_CASE("what a kernel names of another address space is refused when the scenario is read",
          "[cli][PRT-08][PRT-12]") {
  const TempDir dir;
  const auto refused = [&](const std::string& kernel, const std::string& message) {
    CAPTURE(kernel);
    dir.write("s.yaml",
              "heddle: 1\ngpu: small\nconfig: {gpu: {mmu: {enabled: true}}}\n"
              "subcontexts: [{id: 1, translated: true}, {id: 2, translated: true}, {id: 3}]\n"
              "memory:\n  - {name: one, bytes: 4 KiB, subcontext: 1}\n  - {name: two, bytes: 4 KiB, subcontext: 2}\n"
              "  - {name: plain, bytes: 4 KiB}\n"
              "tensors:\n  - {name: map, memory: two, type: u32, size: 64, box: 32}\n"
              "kernels:\n" +
                  kernel + "submit:\n  - {kernel: k, stream: a}\n");
    const Finished finished = heddle_in(dir, {"run", "s.yaml"});
    CHECK(finished.status == 2);
    CHECK_THAT(finished.err, Catch::Contains(message));
  };
  const auto storing = [](const std::string& subcontext, const std::string& region) {
    return "  - {name: k, grid: 1, block: 32, " + subcontext + "program: [{store: {value: 1, type: u32, at: " + region +
           " + 4 * lane}}]}\n";
  };
  refused(storing("subcontext: 1, ", "two"),
          "it runs in subcontext 1, and its program uses memory two, which is in the address space of subcontext 2");
  refused(storing("subcontext: 1, ", "plain"),
          "uses memory plain, which is in no address space but that of the machine");
  refused(storing("subcontext: 1, ", "map"), "uses memory map, which is in the address space of subcontext 2");
  refused(storing("", "one"),
          "it runs in subcontext 0, which is not translated, and its program uses memory one, which is in the address "
          "space of subcontext 1");
  refused(storing("subcontext: 3, ", "two"), "it runs in subcontext 3, which is not translated, and its program");
  refused(storing("subcontext: 4, ", "plain"), "subcontext 4, which `subcontexts` does not list");
  refused(
      "  - {name: k, grid: 1, block: 32, subcontext: 1, program: [{if: {cond: lane == 0, then: [{launch: {kernel: "
      "c}}]}}]}\n" +
          std::string("  - {name: c, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: two}}]}\n"),
      "the program of c, which it launches, uses memory two");
}

TEST_CASE("a share of warps leaves room on every SM, and one of SMs leaves SMs", "[cli][PRT-11]") {
  const TempDir dir;
  // A hog whose CTAs would fill all SMs for 100 us, and a victim that comes 10 us later.
  const auto start_of_victim = [&dir](const std::string& share, std::set<std::string>& sms, std::uint64_t& most) {
    dir.write("w.yaml", "heddle: 1\ngpu: small\nsubcontexts:\n  - {id: 1" + share +
                            "}\n  - {id: 2}\nkernels:\n"
                            "  - {name: hog, grid: 160, block: 128, cycles: 100000, subcontext: 1}\n"
                            "  - {name: victim, grid: 10, block: 256, cycles: 500, subcontext: 2}\n"
                            "submit:\n  - {kernel: hog, stream: a}\n  - {kernel: victim, stream: b, at: 10 us}\n");
    std::uint64_t start = 0;
    std::map<std::string, std::uint64_t> on_sm;
    for (const Row& row : dumped(dir, "w.yaml")) {
      if (row.at("kernel") == "victim") {
        start = std::max(start, number(row, "launch"));
      } else if (number(row, "launch") < 50'000) {
        sms.insert(row.at("sm"));
        most = std::max(most, ++on_sm[row.at("sm")]);
      }
    }
    return start;
  };
  std::set<std::string> sms;
  std::uint64_t most = 0;
  CHECK(start_of_victim("", sms, most) > 100'000);
  CHECK(sms.size() == 10);
  CHECK(most == 16);
  sms.clear();
  most = 0;
  CHECK(start_of_victim(", warps: 50 %", sms, most) < 11'000);
  CHECK(sms.size() == 10);
  CHECK(most == 8);  // 32 of 64 warps
  sms.clear();
  most = 0;
  CHECK(start_of_victim(", sms: 25 %", sms, most) < 11'000);
  CHECK(sms.size() == 3);  // rounded up
  CHECK(most == 16);
}

TEST_CASE("a share of SMs that is cut frees SMs within the longest CTA", "[cli][PRT-07][PRT-11]") {
  const TempDir dir;
  dir.write("cut.yaml", R"(heddle: 1
gpu: small
subcontexts: [{id: 1}]
share: [{at: 20 us, subcontext: 1, sms: 20 %}, {at: 40 us, subcontext: 1, warps: 25 %}]
kernels: [{name: hog, grid: 3000, block: 256, cycles: {min: 1000, max: 3000}, subcontext: 1}]
submit: [{kernel: hog, stream: a}]
)");
  std::set<std::string> before;
  std::set<std::string> after;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> late;
  for (const Row& row : dumped(dir, "cut.yaml")) {
    const std::uint64_t launch = number(row, "launch");
    if (launch < 20'000) before.insert(row.at("sm"));
    if (number(row, "end") > 23'300) after.insert(row.at("sm"));
    if (number(row, "end") > 43'300)
      late[row.at("sm")].push_back({std::max<std::uint64_t>(launch, 43'300), number(row, "end")});
  }
  CHECK(before.size() == 10);
  CHECK(after.size() == 2);
  REQUIRE_FALSE(late.empty());
  for (const auto& [sm, ctas] : late) {
    for (const auto& [launch, end] : ctas) {
      const std::uint64_t when = launch;
      CHECK(std::count_if(ctas.begin(), ctas.end(), [when](const auto& cta) {
              return cta.first <= when && cta.second > when;
            }) <= 2);  // of 8 warps: 16 of 64
    }
  }
}

TEST_CASE("kernels that the share of their subcontext cannot hold are refused", "[cli][PRT-11][PRT-12]") {
  const TempDir dir;
  const auto refused = [&dir](const std::string& share, const std::string& kernel, const std::string& why) {
    CAPTURE(share, kernel);
    dir.write("r.yaml", "heddle: 1\ngpu: small\nsubcontexts:\n  - {id: 1, " + share + "}\nkernels:\n  - {name: k, " +
                            kernel + ", cycles: 100, subcontext: 1}\nsubmit: [{kernel: k, stream: a}]\n");
    const Finished finished = heddle_in(dir, {"run", "r.yaml"});
    CAPTURE(finished.err);
    CHECK(finished.status == (why.empty() ? 0 : 2));
    if (!why.empty()) CHECK((contains(finished.err, why) && contains(finished.err, "r.yaml:4:5")));
  };
  const std::string cga = "grid: 8, block: 1024, cluster: {gpc: 8}";
  refused("sms: 10 %", "grid: 8, block: 1024", "");
  refused("sms: 40 %", cga, "");
  refused("sms: 30 %", cga, "kernel 'k' can never run in subcontext 1 of gpu0");
  refused("warps: 50 %", "grid: 8, block: 1024", "");
  refused("warps: 40 %", "grid: 8, block: 1024", "a CTA takes 32 of the 26 that its subcontext may have");
}

namespace {

// The cycle of a kernel's first launch.
std::uint64_t first_launch(const TempDir& dir, const std::string& text, const std::string& kernel) {
  dir.write("first.yaml", text);
  std::uint64_t first = ~std::uint64_t{0};
  for (const Row& row : dumped(dir, "first.yaml")) {
    if (row.at("kernel") == kernel) first = std::min(first, number(row, "launch"));
  }
  return first;
}

}  // namespace

TEST_CASE("in mode none a share keeps nobody else waiting either", "[cli][PRT-02][PRT-11]") {
  const TempDir dir;
  for (const std::string share : {"sms: 40 %", "warps: 25 %"}) {
    CAPTURE(share);
    std::string text = "heddle: 1\ngpu: small\nsubcontexts: [{id: 1, " + share +
                       "}, {id: 2}]\nkernels:\n"
                       "  - {name: hog, grid: 40, block: 256, cycles: 50000, subcontext: 1}\n"
                       "  - {name: victim, grid: 4, block: 256, cycles: 1000, subcontext: 2}\nsubmit:\n";
    for (int i = 0; i < 40; ++i) text += "  - {kernel: hog, stream: s" + std::to_string(i) + "}\n";
    CHECK(first_launch(dir, text + "  - {kernel: victim, stream: v, at: 10 us}\n", "victim") < 11'000);
  }
}

TEST_CASE("within a subcontext a share keeps the order of priorities", "[cli][PRT-11][TSK-02]") {
  const TempDir dir;
  const std::string text =
      "heddle: 1\ngpu: small\nsubcontexts: [{id: 1, warps: 50 %}]\nkernels:\n"
      "  - {name: low, grid: 8000, block: 32, cycles: {min: 2000, max: 4000}, subcontext: 1}\n"
      "  - {name: high, grid: 10, block: 512, cycles: 1000, subcontext: 1}\n"
      "streams: [{name: h, priority: 10}, {name: l, priority: 0}]\n"
      "submit: [{kernel: low, stream: l}, {kernel: high, stream: h, at: 10 us}]\n";
  CHECK(first_launch(dir, text, "high") < 15'000);
}

TEST_CASE("a process that is only listed has its part of the task table", "[cli][PRT-02]") {
  const TempDir dir;
  std::string text =
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: dynamic}}}\nsubcontexts: [{id: 1, credits: 2}, {id: 2}]\n"
      "kernels:\n  - {name: hog, grid: 4, block: 256, cycles: 20000, subcontext: 1}\n"
      "  - {name: victim, grid: 4, block: 256, cycles: 1000, subcontext: 2}\nsubmit:\n";
  for (int i = 0; i < 200; ++i) text += "  - {kernel: hog, stream: s" + std::to_string(i) + "}\n";
  CHECK(first_launch(dir, text + "  - {kernel: victim, stream: v, at: 10 us}\n", "victim") < 11'000);
}

TEST_CASE("kernels that programs launch are judged by shares and blocks as others are",
          "[cli][PRT-06][PRT-11][PRT-12]") {
  const TempDir dir;
  const auto refused = [&dir](const std::string& text, const std::string& why) {
    dir.write("r.yaml", text);
    const Finished finished = heddle_in(dir, {"run", "r.yaml"});
    CAPTURE(finished.err);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, why));
  };
  refused(
      "heddle: 1\ngpu: small\nsubcontexts: [{id: 1, warps: 10 %}]\nkernels:\n"
      "  - {name: child, grid: 1, block: 512, program: [{compute: {unit: fp32}}]}\n"
      "  - {name: parent, grid: 1, block: 32, subcontext: 1, program: [{launch: {kernel: child}}]}\n"
      "submit: [{kernel: parent, stream: a}]\n",
      "kernel 'child' can never run in subcontext 1 of gpu0: a CTA is larger than an SM");
  refused(
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: static}}}\nsubcontexts: [{id: 1, tpcs: [[0, "
      "0]]}]\nkernels:\n"
      "  - {name: k, grid: 1, block: 32, local: 8 B, cycles: 100, subcontext: 1}\nsubmit: [{kernel: k, stream: a}]\n",
      "kernel 'k' can never run in subcontext 1 of gpu0: it has no local-memory block on a TPC of its own");
}

}  // namespace cli_sharing_command_test
