// What is said of programs that are wrong: the kernel, the step, the key and the line.
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/warp_program.h"
#include "common/error.h"
#include "scenario/scenario.h"

namespace program_error_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

std::string kernel_error(const std::string& kernel) {
  try {
    parse_scenario("heddle: 1\nmemory: [{name: out, bytes: 64}]\nsubmit: [{kernel: k, stream: a}]\nkernels:\n" + kernel,
                   "p.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

// Of the only step of a program; it stands in line 7.
std::string error(const std::string& step, const std::string& more = {}) {
  return kernel_error("- {name: k, grid: 1, block: 100" + more + ",\n   program: [\n     " + step + "\n   ]}\n");
}

}  // namespace

TEST_CASE("a kernel has cycles or a program", "[workload][SM-02]") {
  CHECK_THAT(kernel_error("- {name: k, grid: 1, block: 1, cycles: 3, program: [barrier]}"),
             Contains("p.yaml:5:3: kernel k: `cycles` and `program` stand side by side"));
  CHECK_THAT(kernel_error("- {name: k, grid: 1, block: 1}"), Contains("give one of: cycles"));
  CHECK_THAT(kernel_error("- {name: k, grid: 1, block: 1, program: []}"), Contains("a list of steps is expected"));
  CHECK_THAT(kernel_error("- {name: k, grid: 1, block: 1, program: 3}"), Contains("a list is expected, found \"3\""));
  CHECK(kernel_error("- {name: k, grid: 1, block: 1, program: [barrier]}") == "accepted");
}

TEST_CASE("steps that do not exist", "[workload][SM-02]") {
  CHECK_THAT(error("sync"), Contains("p.yaml:7:6: kernel k: there is no step sync"));
  CHECK_THAT(error("bariier"), Contains("did you mean barrier?"));
  CHECK_THAT(error("{lod: {to: x}}"), Contains("p.yaml:7:7: kernel k, step: unknown key \"lod\"") && Contains("load"));
  CHECK_THAT(error("[barrier]"), Contains("a map is expected, found a list"));
  CHECK_THAT(error("{}"), Contains("a step has one key, this one has 0"));
  CHECK_THAT(error("{zero: a, let: {b: 1}}"), Contains("a step has one key, this one has 2"));
  CHECK_THAT(error("{load: x}"), Contains("a map is expected, found \"x\""));
  CHECK_THAT(error("{wait_async: -1}"), Contains("p.yaml:7:19: kernel k, step, wait_async"));
  CHECK_THAT(error("{wait_async: lane}"), Contains("not a number"));
}

TEST_CASE("names of a program", "[workload][SM-02]") {
  CHECK_THAT(error("{let: {x: 1, x2: y}}"),
             Contains("p.yaml:7:23: kernel k, step, let: expression \"y\": there is no y"));
  CHECK_THAT(error("{let: {x: [1]}}"), Contains("an expression is expected, found a list"));
  CHECK_THAT(error("{let: {x: 1}}, {let: {x: 2}}"), Contains("p.yaml:7:28: x has a meaning already"));
  CHECK_THAT(error("{let: {lane: 1}}"), Contains("p.yaml:7:13: lane has a meaning of its own"));
  CHECK_THAT(error("{let: {out: 1}}"), Contains("out has a meaning already"));
  CHECK_THAT(error("{let: {a.b: 1}}"), Contains("\"a.b\" cannot be a name"));
  CHECK_THAT(error("{let: {xor: 1}}"), Contains("\"xor\" cannot be a name"));
  CHECK_THAT(error("{set: {2x: 1, type: u32}}"), Contains("\"2x\" cannot be a name"));
  CHECK_THAT(error("{let: {x: ouf}}"), Contains("there is no ouf") && Contains("did you mean out?"));
  CHECK_THAT(error("{let: {x: cta.w}}"), Contains("there is no cta.w") && Contains("did you mean cta"));
  // Names end with the list in which they are made.
  CHECK_THAT(error("{if: {cond: 1, then: [{set: {x: 1, type: u32}}]}}, {set: {y: x, type: u32}}"),
             Contains("there is no x"));
  CHECK_THAT(error("{loop: {var: i, to: 3, do: [barrier]}}, {set: {y: i, type: u32}}"), Contains("there is no i"));
  CHECK_THAT(error("{loop: {var: i, to: 3, do: [{set: {i: 3, type: u32}}]}}"), Contains("i has a meaning already"));
  CHECK_THAT(error("{accumulators: {c: {n: 8}}}, {set: {y: c, type: f32}}"), Contains("there is no c"));
  CHECK(error("{let: {x: 1}}, {if: {cond: x, then: [{let: {y: x}}], else: [{let: {y: 2 * x}}]}}") == "accepted");
}

TEST_CASE("set", "[workload][SM-02]") {
  CHECK_THAT(error("{set: {x: 1}}"), Contains("p.yaml:7:6: kernel k, set: x is new, and its type is missing"));
  CHECK_THAT(error("{set: {type: f32}}"), Contains("kernel k, set: the name is missing"));
  CHECK_THAT(error("{set: {x: 1, y: 2, type: f32}}"), Contains("both x and y are set"));
  CHECK_THAT(error("{set: {x: 1, type: f31}}"), Contains("f31 is not possible here") && Contains("did you mean f32"));
  CHECK_THAT(error("{set: {x: 1, type: f16x2}}"), Contains("f16x2 is not possible here"));
  CHECK_THAT(error("{set: {x: 1, type: f32, unit: memory}}"), Contains("memory is not possible here"));
  CHECK_THAT(error("{set: {x: 1, unit: fp32}}"), Contains("p.yaml:7:6: kernel k, set: x is new, and its type"));
  CHECK_THAT(error("{set: {x: 1, type: f32}}, {set: {x: 1, type: u32}}"), Contains("x has the type f32, not u32"));
  CHECK_THAT(error("{set: {x: x, type: f32}}"), Contains("there is no x"));
  CHECK_THAT(error("{set: {x: 'min(1, 2', type: f32}}"),
             Contains("p.yaml:7:16: kernel k, step, set: expression") && Contains("a ) is missing"));
}

TEST_CASE("loads and stores", "[workload][SM-02]") {
  CHECK_THAT(error("{load: {to: x, at: out}}"), Contains("p.yaml:7:13: kernel k, load: the type is missing"));
  CHECK_THAT(error("{load: {to: x, type: f32}}"), Contains("kernel k, load: the key \"at\" is missing"));
  CHECK_THAT(error("{load: {to: [a, b, c], type: f32, at: out}}"), Contains("3 values of f32 are 12 bytes"));
  CHECK_THAT(error("{load: {to: [a, b, c, d, e, f, g, h], type: f32, at: out}}"), Contains("32 bytes"));
  CHECK_THAT(error("{load: {to: [a, a], type: f32, at: out}}"), Contains("a stands twice in the list"));
  CHECK_THAT(error("{load: {to: [], type: f32, at: out}}"), Contains("the list is empty"));
  CHECK_THAT(error("{load: {to: [[a]], type: f32, at: out}}"), Contains("a name is expected, found a list"));
  CHECK_THAT(error("{set: {a: 1, type: f32}}, {load: {to: [a, b], type: f32, at: out}}"),
             Contains("a, b: not the whole of some registers, in order"));
  CHECK_THAT(error("{load: {to: [a, b], type: f32, at: out}}, {load: {to: [b, a], type: f32, at: out}}"),
             Contains("b, a: not the whole of some registers, in order"));
  CHECK_THAT(error("{load: {to: [a, b], type: u16, at: out}}, {load: {to: a, type: u16, at: out}}"),
             Contains("a: not the whole of some registers"));
  CHECK(error("{load: {to: [a, b], type: f32, at: out}}, {load: {to: b, at: out}}, {load: {to: [a, b], type: f32, at: "
              "out}}") == "accepted");
  CHECK_THAT(error("{load: {to: x, type: f32, at: out, space: local}}"), Contains("the kernel has no local memory"));
  CHECK_THAT(error("{load: {to: x, type: f32, at: out, order: release}}"),
             Contains("kernel k, load, order: release is not possible here") && Contains("acquire"));
  CHECK_THAT(error("{load: {to: x, type: f32, at: out, scope: world}}"), Contains("world is not possible here"));
  CHECK_THAT(error("{store: {value: 1, at: out}}"), Contains("kernel k, store: the type is missing"));
  CHECK_THAT(error("{store: {value: [], type: f32, at: out}}"), Contains("the list is empty"));
  CHECK_THAT(error("{store: {value: 1, type: f32, at: out, order: acquire}}"), Contains("acquire is not possible"));
  CHECK_THAT(error("{store: {value: [1, 2, 3], type: u8, at: out}}"), Contains("3 values of u8 are 3 bytes"));
  CHECK_THAT(error("{store: {value: 1, type: f32, at: out + }}"), Contains("it ends where a value is expected"));
}

TEST_CASE("bytes that complete at an mbarrier", "[workload][SM-02][CGA-14]") {
  const char* nothing = "complete has no meaning";
  CHECK_THAT(error("{store: {value: 1, type: u32, at: out, complete: 0}}"), Contains(nothing));
  CHECK_THAT(error("{store: {value: 1, type: u32, at: 0, space: shared, complete: 0}}"), Contains(nothing));
  CHECK_THAT(error("{atomic: {op: add, type: u32, at: 0, value: 1, space: cluster, rank: 0, to: x, complete: 0}}"),
             Contains(nothing));
  CHECK_THAT(error("{load: {to: x, type: u32, at: 0, space: cluster, rank: 0, complete: 0}}"),
             Contains("unknown key \"complete\""));
  CHECK(error("{store: {value: 1, type: u32, at: 0, space: cluster, rank: 0, complete: 8}}") == "accepted");
  CHECK(error("{atomic: {op: add, type: u32, at: 0, value: 1, space: cluster, rank: 0, complete: 8}}") == "accepted");
}

TEST_CASE("atomics", "[workload][SM-02]") {
  CHECK_THAT(error("{atomic: {op: sub, type: u32, at: out, value: 1}}"),
             Contains("kernel k, atomic, op: sub is not possible here"));
  CHECK_THAT(error("{atomic: {op: add, type: u16, at: out, value: 1}}"), Contains("there is no add for u16"));
  CHECK_THAT(error("{atomic: {op: min, type: f32, at: out, value: 1}}"), Contains("there is no min for f32"));
  CHECK_THAT(error("{atomic: {op: add, at: out, value: 1}}"), Contains("the type is missing"));
  CHECK_THAT(error("{atomic: {op: add, type: u32, at: out, value: 1, compare: 2}}"),
             Contains("compare has no meaning"));
  CHECK_THAT(error("{atomic: {op: compare_exchange, type: u32, at: out, value: 1}}"), Contains("compare is missing"));
  CHECK_THAT(error("{atomic: {op: add, type: f16x2, at: out, value: 1}}"), Contains("2 are expected, found 1"));
  CHECK_THAT(error("{atomic: {op: add, type: u32, at: out, value: [1, 2]}}"), Contains("1 are expected, found 2"));
  CHECK_THAT(error("{atomic: {op: add, type: f16x2, at: out, value: [1, 1], to: h}}"), Contains("2 are expected"));
  CHECK_THAT(error("{atomic: {op: add, type: u32, at: out, value: 1, order: weak}}"), Contains("weak is not possible"));
}

TEST_CASE("other operations", "[workload][SM-02]") {
  CHECK_THAT(error("{compute: {unit: fp16}}"), Contains("fp16 is not possible here"));
  CHECK_THAT(error("{compute: {unit: fp32, count: 0}}"), Contains("kernel k, compute, count: 0 is out of range"));
  CHECK_THAT(error("{special: {to: x, register: time}}"), Contains("time is not possible here"));
  CHECK_THAT(error("{special: {to: x, register: clock, type: f32}}"), Contains("f32 is not possible here"));
  CHECK_THAT(error("{copy_async: {from: out, to: 0, bytes: 12}}"), Contains("4, 8 or 16 are possible"));
  CHECK_THAT(error("{copy_async: {from: out, to: 0, bytes: 32}}"), Contains("32 is out of range"));
  CHECK_THAT(error("{barrier: {number: lane}}"), Contains("\"lane\" differs between the lanes of a warp"));
  CHECK_THAT(error("{barrier: {threads: 33}}"), Contains("a multiple of 32 is expected"));
  CHECK_THAT(error("{fence: {order: weak}}"), Contains("weak is not possible here"));
}

TEST_CASE("steps that are words alone take no keys", "[workload][SM-02]") {
  for (const std::string word : {"commit_async", "commit_bulk", "drain_bulk", "exit"}) {
    CAPTURE(word);
    CHECK(error(word) == "accepted");
    for (const std::string keys : {"{}", "~", "{order: release}", "1"}) {
      CAPTURE(keys);
      CHECK_THAT(error("{" + word + ": " + keys + "}"),
                 Contains("p.yaml:7:6: kernel k: the step " + word + " takes no keys") &&
                     Contains("write the word alone: - " + word));
    }
  }
  // Those that may be either.
  for (const std::string word : {"barrier", "cluster_arrive", "cluster_barrier", "cluster_wait", "fence_tensor"}) {
    CAPTURE(word);
    CHECK(error(word) == "accepted");
    CHECK(error("{" + word + ": {}}") == "accepted");
  }
  CHECK_THAT(error("{cluster_barier: {}}"), Contains("unknown key \"cluster_barier\""));
}

TEST_CASE("clusters", "[workload][SM-02]") {
  const std::string load = "{load: {to: x, type: f32, at: 0, ";
  CHECK(error(load + "space: cluster, rank: lane}}") == "accepted");
  CHECK_THAT(error(load + "space: cluster}}"),
             Contains("p.yaml:7:13: kernel k, load: rank is missing") && Contains("space: cluster"));
  CHECK_THAT(error(load + "space: shared, rank: 1}}"), Contains("kernel k, load: rank has no meaning"));
  CHECK_THAT(error(load + "rank: 1}}"), Contains("kernel k, load: rank has no meaning"));
  CHECK_THAT(error(load + "space: cluster, rank: other}}"),
             Contains("kernel k, load, rank: expression \"other\": there is no other"));
  CHECK_THAT(error(load + "space: clustre, rank: 1}}"),
             Contains("clustre is not possible here") && Contains("did you mean cluster?"));
  CHECK_THAT(error("{store: {value: 1, type: f32, at: 0, space: cluster}}"), Contains("store: rank is missing"));
  CHECK_THAT(error("{atomic: {op: add, type: u32, value: 1, at: 0, space: cluster}}"),
             Contains("atomic: rank is missing"));
  CHECK_THAT(error("{accumulators: {c: {n: 8}}}, {store_tile: {from: c, at: 0, space: cluster}}"),
             Contains("cluster is not possible here"));

  CHECK(error("cluster_barrier, cluster_arrive, cluster_wait") == "accepted");
  CHECK_THAT(error("cluster_barier"), Contains("did you mean cluster_barrier,"));
  CHECK_THAT(error("{cluster_arrive: {order: acquire}}"),
             Contains("kernel k, cluster_arrive, order: acquire is not possible here"));
  CHECK_THAT(error("{cluster_wait: {order: release}}"), Contains("cluster_wait, order: release is not possible"));
  CHECK_THAT(error("{cluster_wait: {scope: gpu}}"), Contains("unknown key \"scope\""));
  for (const std::string step : {"cluster_barrier", "cluster_arrive", "cluster_wait"}) {
    CHECK_THAT(error("{" + step + ": {level: gpu}}"), Contains(step + ", level: the kernel has no GPU_CGA"));
    CHECK_THAT(error("{" + step + ": {level: cpc}}"), Contains("cpc is not possible here"));
  }

  CHECK_THAT(error("{mbarrier_init: {at: 0}}"), Contains("kernel k, mbarrier_init: the key \"count\" is missing"));
  CHECK_THAT(error("{mbarrier_init: {count: 1}}"), Contains("the key \"at\" is missing"));
  CHECK_THAT(error("{mbarrier_init: {at: 0, count: 1, rank: 1}}"), Contains("unknown key \"rank\""));
  CHECK_THAT(error("{mbarrier_arrive: {at: 0, rank: 1, to: p}}"),
             Contains("kernel k, mbarrier_arrive, to: an arrival in another CTA's shared memory returns nothing"));
  CHECK_THAT(error("{mbarrier_arrive: {at: 0, order: acquire}}"), Contains("acquire is not possible here"));
  CHECK_THAT(error("{mbarrier_arrive: {at: 0, lanes: some}}"), Contains("some is not possible here"));
  CHECK_THAT(error("{set: {p: 1, type: f32}}, {mbarrier_arrive: {at: 0, to: p}}"),
             Contains("p has the type f32, not u32"));
  CHECK_THAT(error("{mbarrier_expect: {at: 0}}"), Contains("the key \"bytes\" is missing"));
  CHECK_THAT(error("{mbarrier_complete: {at: 0, bytes: x}}"), Contains("mbarrier_complete, bytes: expression \"x\""));
  CHECK_THAT(error("{mbarrier_wait: {at: 0, parity: 0, rank: 1}}"), Contains("unknown key \"rank\""));
  CHECK_THAT(error("{mbarrier_wait: {at: 0}}"), Contains("the key \"parity\" is missing"));
  CHECK_THAT(error("{mbarrier_wait: {at: 0, parity: 0, order: release}}"), Contains("release is not possible here"));
  CHECK_THAT(error("{mbarrier_test: {at: 0, parity: 0}}"), Contains("the key \"to\" is missing"));
  CHECK_THAT(error("mbarrier_wait"), Contains("there is no step mbarrier_wait"));
  CHECK_THAT(error("{release_shared: {from: lane}}"),
             Contains("kernel k, release_shared, from: \"lane\" differs between the lanes"));
  CHECK_THAT(error("{let: {cluster: 1}}"), Contains("cluster has a meaning of its own"));
}

TEST_CASE("expected faults", "[workload][scenario]") {
  const auto expect = [](const std::string& entry) {
    try {
      const Scenario s = parse_scenario(
          "heddle: 1\nkernels: [{name: k, grid: 4, block: 32, cluster: 2, program: [barrier]}]\n"
          "submit: [{kernel: k, stream: a}]\nexpect:\n  - " +
              entry,
          "p.yaml");
      return fmt::format("{} {}", arch::fault_key(s.expectations[0].fault), s.expectations[0].text());
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  for (std::size_t i = 0; i < arch::kFaultKinds; ++i) {
    const std::string key = arch::fault_key(static_cast<arch::FaultKind>(i));
    CHECK(expect("{fault: " + key + ", kernel: k}") == key + " in kernel k");
  }
  CHECK(expect("{fault: poison, kernel: k, cluster: 1, rank: 0}") == "poison in kernel k, cluster 1, rank 0");
  CHECK(expect("{fault: poison, kernel: k, rank: 5}") == "poison in kernel k, rank 5");
  CHECK_THAT(expect("{fault: poisson, kernel: k}"),
             Contains("p.yaml:5:13") && Contains("there is no fault poisson") && Contains("did you mean poison?"));
  CHECK_THAT(expect("{fault: poison, kernel: l}"), Contains("there is no kernel l"));
  CHECK_THAT(expect("{fault: poison, kernel: k, cluster: -1}"), Contains("cluster: -1 is negative"));
  CHECK_THAT(expect("{fault: poison, kernel: k, rank: x}"), Contains("rank: "));
  for (std::size_t i = 1; i < arch::kTensorRules; ++i) {
    const std::string key = arch::rule_key(static_cast<arch::TensorRule>(i));
    CHECK(expect("{fault: tensor, kernel: k, rule: " + key + "}") == "tensor in kernel k, rule " + key);
  }
  CHECK_THAT(expect("{fault: tensor, kernel: k, rule: stride_rnage}"),
             Contains("p.yaml:5:38: ") && Contains("rule: stride_rnage is not possible here") &&
                 Contains("did you mean stride_range?"));
  CHECK_THAT(expect("{fault: tensor, kernel: k, rule: none}"), Contains("rule: none is not possible here"));
  CHECK_THAT(expect("{fault: poison, kernel: k, rule: box}"), Contains("rule: the fault poison has no rule"));
}

TEST_CASE("matrix multiply", "[workload][SM-02]") {
  const std::string acc = "{accumulators: {acc: {n: 16}}}, ";
  CHECK_THAT(error("{accumulators: {acc: {n: 12}}}"), Contains("kernel k, accumulators, n: a multiple of 8"));
  CHECK_THAT(error("{accumulators: {acc: {n: 264}}}"), Contains("264 is out of range"));
  CHECK_THAT(error("{accumulators: {acc: 16}}"), Contains("a map is expected"));
  CHECK_THAT(error("{zero: acc}"),
             Contains("there are no accumulators acc") && Contains("accumulators: {acc: {n: 128}}"));
  CHECK_THAT(error(acc + "{zero: ac}"), Contains("there are no accumulators ac") && Contains("did you mean acc?"));
  CHECK_THAT(error("{set: {x: 1, type: f32}}, {zero: x}"), Contains("x are no accumulators"));
  CHECK_THAT(error(acc + "{matmul: {into: acc, n: 24, k: 16, a: 0, b: 0}}"), Contains("acc has 16 columns, not 24"));
  CHECK_THAT(error("{matmul: {into: acc, k: 16, a: 0, b: 0}}"), Contains("there are no accumulators acc"));
  CHECK(error("{matmul: {into: acc, n: 24, k: 16, a: 0, b: 0}}, {zero: acc}") == "accepted");
  CHECK_THAT(error(acc + "{matmul: {into: acc, k: 24, a: 0, b: 0}}"), Contains("k: a multiple of 16 is expected"));
  CHECK_THAT(error(acc + "{matmul: {into: acc, k: 16, a: lane, b: 0}}"),
             Contains("\"lane\" differs between the lanes"));
  CHECK_THAT(error(acc + "{matmul: {into: acc, k: 16, a: 0, b: 0, a_pitch: 33}}"), Contains("an even number"));
  CHECK_THAT(error(acc + "{matmul: {into: acc, k: 16, a: 0, b: 0, type: f32}}"), Contains("f32 is not possible here"));
  const std::string async = acc + "{matmul: {into: acc, k: 16, a: 0, b: 0, async: true}}, commit_matmul, ";
  CHECK(error(async + "{wait_matmul: 7}") == "accepted");
  CHECK_THAT(error(async + "{wait_matmul: 8}"), Contains("wait_matmul") && Contains("8 is out of range"));
  CHECK_THAT(error(async + "{wait_matmul: lane}"), Contains("wait_matmul"));
  CHECK_THAT(error(acc + "{matmul: {into: acc, k: 16, a: 0, b: 0, async: 2}}"), Contains("async"));
  CHECK_THAT(error(async + "{commit_matmul: 1}"), Contains("commit_matmul"));
  CHECK_THAT(error(acc + "{store_tile: {from: acc, at: 'out + lane'}}"), Contains("differs between the lanes"));
  CHECK_THAT(error(acc + "{store_tile: {from: acc, at: out, type: u32}}"), Contains("u32 is not possible here"));
}

TEST_CASE("control flow", "[workload][SM-02]") {
  CHECK_THAT(error("{loop: {var: i, to: lane, do: [barrier]}}"),
             Contains("kernel k, loop, to: \"lane\" differs between the lanes"));
  CHECK_THAT(error("{loop: {var: i, to: 3, step: 0, do: [barrier]}}"), Contains("a loop with step 0 never ends"));
  CHECK_THAT(error("{loop: {var: i, to: 3, do: []}}"), Contains("kernel k, loop, do: a list of steps is expected"));
  CHECK_THAT(error("{loop: {to: 3, do: [barrier]}}"), Contains("the key \"var\" is missing"));
  CHECK_THAT(error("{if: {cond: 1, do: [barrier]}}"), Contains("unknown key \"do\""));
  CHECK_THAT(error("{if: {cond: 1, then: barrier}}"), Contains("a list is expected"));
  CHECK_THAT(error("{while: {cond: x, do: [barrier]}}"),
             Contains("kernel k, while, cond: expression \"x\": there is no x"));
  CHECK_THAT(error("{roles: []}"), Contains("the list is empty"));
  CHECK_THAT(error("{roles: [{warps: 4, do: [barrier]}]}"), Contains("kernel k, role, warps: 4 is out of range"));
  CHECK_THAT(error("{roles: [{warps: [0, 1, 2], do: [barrier]}]}"), Contains("the first and the last"));
  CHECK_THAT(error("{roles: [{warps: [2, 1], do: [barrier]}]}"), Contains("the first is behind the last"));
  CHECK_THAT(error("{roles: [{warps: [0, 2], do: [barrier]}, {warps: 2, do: [barrier]}]}"),
             Contains("a warp of these has another role already"));
  std::string nested = "barrier";
  for (int i = 0; i < 20; ++i) nested = "{if: {cond: 1, then: [" + nested + "]}}";
  CHECK_THAT(error(nested), Contains("more than 16 lists in one another"));
}

TEST_CASE("a program takes the registers that it needs, and no more than there are", "[workload][SM-02]") {
  const auto registers = [](const std::string& steps, const std::string& more = {}) {
    const Scenario s =
        parse_scenario("heddle: 1\nsubmit: [{kernel: k, stream: a}]\nkernels: [{name: k, grid: 1, block: 32" + more +
                           ", program: [" + steps + "]}]\n",
                       "p.yaml");
    const arch::KernelRecord& kernel = s.workloads[0].ops[0].kernel;
    return std::make_pair(kernel.program->registers(), kernel.registers_per_thread);
  };
  CHECK(registers("barrier") == std::make_pair(0U, 16U));
  CHECK(registers("{set: {a: 1, type: u32}}, {set: {b: 1, type: u64}}") == std::make_pair(3U, 16U));
  CHECK(registers("{matmul: {into: c, n: 64, k: 16, a: 0, b: 0}}, {set: {a: 1, type: u8}}") ==
        std::make_pair(33U, 33U));
  CHECK(registers("{set: {a: 1, type: u32}}", ", registers: 40") == std::make_pair(1U, 40U));
  // The lists of branches use the same registers.
  CHECK(registers("{if: {cond: 1, then: [{set: {a: 1, type: u64}}], else: [{set: {b: 1, type: f64}}]}}").first == 2);
  CHECK_THAT(error("{set: {a: 1, type: u64}}", ", registers: 1"),
             Contains("more than 1 registers, the kernel's `registers`"));
  CHECK_THAT(error("{matmul: {into: c, n: 256, k: 16, a: 0, b: 0}}", ", registers: 127"), Contains("more than 127"));
  std::string many;
  for (int i = 0; i < 128; ++i) many += fmt::format("{{set: {{v{}: 1, type: u64}}}}, ", i);
  CHECK_THAT(error(many), Contains("more than 255 registers, the most that variables can take"));
  std::string tiles;
  for (int i = 0; i < 5; ++i) tiles += fmt::format("{{accumulators: {{c{}: {{n: 256}}}}}}, ", i);
  CHECK_THAT(error(tiles), Contains("more than 512 registers, the most that a program can have"));
}

TEST_CASE("`let`s that double each other do not grow for ever", "[workload][SM-02]") {
  std::string lets = "{let: {x0: lane + 1}}, ";
  for (int i = 1; i < 40; ++i) lets += fmt::format("{{let: {{x{}: x{} + x{}}}}}, ", i, i - 1, i - 1);
  CHECK_THAT(error(lets), Contains("it is too long, with the `let`s that it names"));
}

TEST_CASE("a program may not grow without bounds", "[workload][SM-02]") {
  std::string text = "- name: k\n  grid: 1\n  block: 32\n  program:\n  - accumulators: {c: {n: 256}}\n";
  for (int i = 0; i < 400; ++i) text += "  - store_tile: {from: c, at: 0}\n";
  CHECK_THAT(kernel_error(text), Contains("the program has more than 20000 steps"));
}

}  // namespace program_error_test
