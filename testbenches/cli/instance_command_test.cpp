// Instances as users see them (PRT-11): what one does is nothing to another, and nothing of it is ever seen there.
#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/csv.h"
#include "cli/program.h"

namespace cli_instance_command_test {

using namespace heddle::test;

namespace {

// Instance 0: GPC 0, slices 0 to 3; instance 1: GPC 1, slices 4 to 7. Subcontexts 1 and 2. `more`: of the
// configuration.
std::string two_instances(const std::string& more, const std::string& rest, const std::string& mode = "static") {
  return "heddle: 1\ngpu: small\nconfig:\n  gpu:\n    cwd: {partition: " + mode +
         "}\n    copy: {engines: 2}\n    instances:\n"
         "      - {gpcs: [0], slices: [0, 1, 2, 3], copy_engines: [0], memory: 256 MiB}\n"
         "      - {gpcs: [1], slices: [4, 5, 6, 7], copy_engines: [1], memory: 256 MiB}\n" +
         more + rest;
}

const std::string kSubcontexts = "subcontexts: [{id: 1, instance: 0}, {id: 2, instance: 1}]\n";
const std::string kMemory =
    "memory:\n  - {name: a, bytes: 64 MiB, instance: 0}\n  - {name: b, bytes: 64 MiB, instance: 1}\n";

// Reads or writes 32 KiB in each CTA, no two the same.
std::string stream(const std::string& name, int subcontext, const std::string& region, int grid, bool writes = false) {
  return "  - name: " + name + "\n    grid: " + std::to_string(grid) +
         "\n    block: 512\n    subcontext: " + std::to_string(subcontext) +
         "\n    program:\n      - loop: {var: i, to: 4, do: [{" +
         (writes ? "store: {value: [1, 2, 3, 4]" : "load: {to: [w, x, y, z]") + ", type: u32, at: " + region +
         " + (32768 * cta + 16 * thread + 8192 * i) % 67108864}}]}\n";
}

std::string chase() {
  return "  - name: victim\n    grid: 1\n    block: 32\n    subcontext: 2\n    program:\n"
         "      - set: {p: 12345, type: u32}\n      - loop:\n          var: i\n          to: 200\n          do:\n"
         "            - load: {to: v, type: u32, order: relaxed, scope: gpu, at: b + p % 524288 * 128}\n"
         "            - set: {p: p * 1664525 + 1013904223 + v}\n";
}

double cycles_of(const TempDir& dir, const std::string& kernel) {
  double begin = 1e18;
  double end = 0;
  for (const Row& row : dumped(dir, "s.yaml")) {
    if (row.at("kernel") != kernel) continue;
    CHECK(row.at("gpc") == (row.at("subcontext") == "1" ? "0" : "1"));
    begin = std::min(begin, static_cast<double>(number(row, "launch")));
    end = std::max(end, static_cast<double>(number(row, "end")));
  }
  return end - begin;
}

}  // namespace

TEST_CASE("a victim on its own instance does not feel a hog on another", "[cli][PRT-11]") {
  const TempDir dir;
  const std::string victims[] = {
      chase(), stream("victim", 2, "b", 60), stream("victim", 2, "b", 60, true),
      "  - {name: victim, grid: 60, block: 256, subcontext: 2, program: [{compute: {unit: fp32, count: 500}}]}\n"};
  for (const std::string& victim : victims) {
    CAPTURE(victim);
    for (const bool writes : {false, true}) {
      CAPTURE(writes);
      const auto run = [&](bool hog) {
        dir.write(
            "s.yaml",
            two_instances("", kSubcontexts + kMemory + "kernels:\n" +
                                  (hog ? stream("hog", 1, "a", 150, writes) : std::string()) + victim + "submit:\n" +
                                  (hog ? std::string("  - {kernel: hog, stream: a}\n") : std::string()) +
                                  "  - {kernel: victim, stream: v, at: 3 us}\n"));
        return cycles_of(dir, "victim");
      };
      const double alone = run(false);
      const double beside = run(true);
      CHECK(beside < 1.02 * alone);
      CHECK(beside > 0.98 * alone);
    }
  }
}

TEST_CASE("nothing of an instance is seen in another's slices", "[cli][PRT-11]") {
  const TempDir dir;
  // Reads, writes, atomics, local memory, and a release at system scope, which has slices write back; with and without
  // translation.
  for (const bool translated : {false, true}) {
    CAPTURE(translated);
    const std::string memory =
        translated ? "memory:\n  - {name: a, bytes: 8 MiB, subcontext: 1}\n  - {name: b, bytes: 8 MiB, subcontext: 2}\n"
                   : kMemory;
    const std::string subcontexts =
        translated ? "subcontexts: [{id: 1, instance: 0, translated: true}, {id: 2, instance: 1, translated: true}]\n"
                   : kSubcontexts;
    for (const int who : {1, 2}) {
      CAPTURE(who);
      const std::string region = who == 1 ? "a" : "b";
      dir.write(
          "s.yaml",
          two_instances(
              translated ? "    mmu: {enabled: true}\n" : "",
              subcontexts + memory +
                  "kernels:\n  - name: k\n    grid: 20\n    block: 256\n    subcontext: " + std::to_string(who) +
                  "\n    local: 256 B\n    program:\n"
                  "      - store: {value: lane, type: u32, at: 128, space: local}\n"
                  "      - store: {value: item.x, type: u32, at: " +
                  region + " + 4 * item.x}\n      - atomic: {op: add, value: 1, type: u32, at: " + region +
                  " + 1048576 + 128 * cta}\n      - fence: {order: release, scope: system}\n"
                  "      - load: {to: v, type: u32, at: " +
                  region + " + 2097152 + 128 * item.x}\nsubmit: [{kernel: k, stream: s}]\nexpect:\n" +
                  "  - {memory: " + region +
                  ", pattern: \"i < 5120 ? i : i >= 262144 && i < 262784 && i % 32 == " + "0 ? 256 : 0\", type: u32}\n",
              "dynamic"));
      const Results results = run_well(dir, {"s.yaml"});
      double own = 0;
      for (int slice = 0; slice < 8; ++slice) {
        CAPTURE(slice);
        const bool its = (slice < 4) == (who == 1);
        for (const char* name : {"requests", "fills", "write_backs", "atomics"}) {
          const double value = results.stat("gpu0.l2.slice" + std::to_string(slice) + "." + name);
          if (its) own += value;
          if (!its) CHECK(value == 0);
        }
      }
      CHECK(own > 1000);
    }
  }
}

TEST_CASE("instances that do not fit, or that something reaches out of, are refused with their line",
          "[cli][PRT-11][PRT-12]") {
  const TempDir dir;
  const auto refused = [&](const std::string& text, const std::string& line, const std::string& what) {
    CAPTURE(text);
    dir.write("s.yaml", text);
    const Finished run = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    CHECK(run.status == 2);
    CAPTURE(run.err);
    CHECK(contains(run.err, "s.yaml:" + line + ":"));
    CHECK(contains(run.err, what));
  };
  const std::string kernel =
      "kernels: [{name: k, grid: 1, block: 32, cycles: 10, subcontext: 1}]\nsubmit: [{kernel: k, stream: s}]\n";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = two_instances("", kSubcontexts + kMemory + kernel);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  refused(changed("gpcs: [1]", "gpcs: [0]"), "9", "both have GPC 0");
  refused(changed("gpcs: [1]", "gpcs: [2]"), "9", "no GPC 2");
  refused(changed("slices: [4, 5, 6, 7]", "slices: [3, 4]"), "9", "both have L2 slice 3");
  refused(changed("slices: [4, 5, 6, 7]", "slices: [4, 8]"), "9", "no L2 slice 8");
  refused(changed("slices: [4, 5, 6, 7]", "slices: [4, 5, 6]"), "9", "a memory channel");
  refused(changed("copy_engines: [1]", "copy_engines: [0]"), "9", "both have copy engine 0");
  refused(changed("copy_engines: [1], memory: 256 MiB", "copy_engines: [1], memory: 600 MiB"), "9", "channels hold");
  refused(changed("copy_engines: [1]", "copy_engine: [1]"), "9", "did you mean");
  refused(changed("partition: static", "partition: none"), "8", "mode none");
  refused(changed("{id: 2, instance: 1}", "{id: 2, instance: 2}"), "10", "instance");
  refused(changed("{id: 1, instance: 0}", "{id: 1}"), "8", "belongs to no instance");
  refused(changed("{id: 1, instance: 0}", "{id: 1, instance: 0, tpcs: [[1, 0]]}"), "10", "GPC 1 is not");
  refused(changed("bytes: 64 MiB, instance: 1", "bytes: 64 MiB"), "13", "in whose memory");
  refused(changed("bytes: 64 MiB, instance: 1", "bytes: 257 MiB, instance: 1"), "13", "not all of instance 1");
  refused(changed("bytes: 64 MiB, instance: 1", "bytes: 64 MiB, instance: 1, at: 0x100000"), "13",
          "not all of instance 1");
  refused(changed("bytes: 64 MiB, instance: 1", "bytes: 64 MiB, instance: 3"), "13", "instance");
  refused(two_instances("", "subcontexts: [{id: 1, instance: 0, credits: 4}]\n" + kernel, "dynamic"), "10",
          "has 3 TPCs");
  refused(
      two_instances("", kSubcontexts + "share: [{at: 1 us, subcontext: 1, gpc: 1, tpc: 0, enabled: true}]\n" + kernel),
      "11", "GPC 1 is not");
  refused(two_instances("", kSubcontexts + "share: [{at: 1 us, mode: none}]\n" + kernel), "11", "mode none");
  // A cluster that fits into the machine and not into the instance.
  refused(two_instances(
              "", kSubcontexts +
                      "kernels: [{name: k, grid: 6, block: 32, cycles: 10, subcontext: 2, cluster: {gpc: 6, mode: "
                      "multicast}}]\nsubmit: [{kernel: k, stream: s}]\n"),
          "10", "can never run");
  // A program that names memory of another instance.
  refused(two_instances(
              "", kSubcontexts + kMemory +
                      "kernels: [{name: k, grid: 1, block: 32, subcontext: 1, program: [{store: {value: 1, type: u32, "
                      "at: b}}]}]\nsubmit: [{kernel: k, stream: s}]\n"),
          "15", "memory b of that instance");
  refused("heddle: 1\ngpu: small\nsubcontexts: [{id: 1, instance: 0}]\n" + kernel, "3", "no instances");
}

}  // namespace cli_instance_command_test
