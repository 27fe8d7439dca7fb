#include "sm/sm_params.h"

#include "common/param_table.h"
#include "common/params.h"

namespace heddle::sm {
namespace {

const char* const kAssumption = "assumption";
const char* const kHopper = "NVIDIA H100 architecture paper: SM";
const char* const kDissected = "measured on H800 (HPMLL/NVIDIA-Hopper-Benchmark)";

}  // namespace

void UnitParams::describe(ParamTable<UnitParams>& t) {
  t.add("lanes", &UnitParams::lanes, {Unit::count, 1, 32}, "lanes of a warp that a partition's unit takes per cycle",
        kHopper);
  t.add("latency", &UnitParams::latency, {Unit::cycles, 1, 10'000}, "from issue to the result", kAssumption);
}

void IssueParams::describe(ParamTable<IssueParams>& t) {
  t.add_choice("policy", &IssueParams::policy,
               {{"greedy_oldest", WarpPolicy::greedy_oldest}, {"round_robin", WarpPolicy::round_robin}},
               "which warp issues: the one that issued last and then the oldest, or one after another", kAssumption);
  t.add("burst", &IssueParams::burst, {Unit::count, 1, 1'000'000},
        "instructions of one compute operation that issue before an older warp that is ready takes over", kAssumption);
  t.group("fp32", &IssueParams::fp32);
  t.group("int32", &IssueParams::int32);
  t.group("fp64", &IssueParams::fp64);
  t.group("sfu", &IssueParams::sfu);
  t.add("tensor_flops", &IssueParams::tensor_flops, {Unit::count, 1, 1'048'576},
        "floating-point operations of f16 per cycle of a partition's tensor unit",
        "4,096 per SM: measured on H100, m64nNk16 in N/2 cycles");
  t.add("tensor_latency", &IssueParams::tensor_latency, {Unit::cycles, 0, 10'000},
        "from the end of a matrix multiply to the use of its result elsewhere", kAssumption);
  t.add("tensor_queue", &IssueParams::tensor_queue, {Unit::count, 1, 1024},
        "asynchronous matrix multiplies that wait for the tensor core of a partition, beside the one that it works on; "
        "a warp with one more stalls",
        kAssumption);
  t.add("tensor_sample", &IssueParams::tensor_sample, {Unit::count, 1, 1'000'000'000},
        "matrix multiplies compute results only in CTAs whose linear id is a multiple of it; timing is the same, and "
        "elsewhere accumulators stay as they are",
        "choice: 1, all results are there");
  t.add("special_latency", &IssueParams::special_latency, {Unit::cycles, 1, 10'000},
        "from the read of a special register to its use", kAssumption);
  const char* bar_sync = "measured on GH200: bar.sync of 128 threads 21 cycles, of 256 threads 29";
  t.add("barrier_interval", &IssueParams::barrier_interval, {Unit::cycles, 0, 10'000},
        "between two warps that arrive at barriers of the SM", bar_sync);
  t.add("barrier_latency", &IssueParams::barrier_latency, {Unit::cycles, 1, 10'000},
        "from the last arrival to the next instruction", bar_sync);
}

void MemoryParams::describe(ParamTable<MemoryParams>& t) {
  t.add("queue", &MemoryParams::queue, {Unit::count, 1, 1024},
        "warp instructions that wait in front of the load-store unit", kAssumption);
  t.add("requests", &MemoryParams::requests, {Unit::count, 1, 65'536},
        "open requests of the SM to the L2: misses, writes, atomics",
        "assumption: covers 64 bytes per cycle at the latency of the far L2");
  t.add("request_queue", &MemoryParams::request_queue, {Unit::count, 1, 65'536},
        "requests that wait for the crossbar before the load-store unit stops", kAssumption);
  t.add("unified_bytes", &MemoryParams::unified_bytes, {Unit::bytes, 4096, 1'073'741'824},
        "L1 and shared memory together", "NVIDIA Hopper tuning guide");
  t.add("l1_ways", &MemoryParams::l1_ways, {Unit::count, 1, 1024}, "lines of a set of the L1", kAssumption);
  t.add("l1_latency", &MemoryParams::l1_latency, {Unit::cycles, 1, 10'000},
        "from the issue of a load that hits the L1 to the issue of what needs it", kDissected);
  t.add("l1_tag_latency", &MemoryParams::l1_tag_latency, {Unit::cycles, 0, 10'000},
        "of l1_latency: up to the tags, where a miss leaves for the crossbar; a response takes the rest",
        "assumption: half of it");
  t.add("shared_latency", &MemoryParams::shared_latency, {Unit::cycles, 1, 10'000},
        "from the issue of a shared load to the issue of what needs it", kDissected);
  t.add("shared_starts", &MemoryParams::shared_starts, {Unit::per_cycle, 0.01, 1.0},
        "instructions on shared memory, by an address of it or of a cluster, that begin per cycle: the addresses of "
        "their "
        "lanes; with one wavefront each this is the limit, with two or more the banks are; 1: one per cycle, as "
        "wavefronts",
        "assumption: as fast as the banks serve one wavefront each");
  t.add("mbarrier_latency", &MemoryParams::mbarrier_latency, {Unit::cycles, 0, 10'000},
        "beyond shared_latency, of what changes an mbarrier, an atomic of shared memory: until waits and tests see it, "
        "and its own result is there; of bytes that the TMAU and asynchronous stores count, beyond their arrival",
        "assumption: none; presets of Hopper parts: fitted to a phase of 128 threads in 218 cycles, GH200");
  t.add(
      "pc_fifo", &MemoryParams::pc_fifo, {Unit::count, 0, 65'536},
      "depth of each warp's FIFO of past pcs: an error that a target of DSMEM sends back is the instruction's while no "
      "more operations than this have issued from it on, and its cluster's afterwards; 0: always the cluster's",
      "assumption");
  t.add("cluster_latency", &MemoryParams::cluster_latency, {Unit::cycles, 0, 10'000},
        "beyond shared_latency, of an access to shared memory by a cluster address: the look-up in the tables",
        "measured on H800 (HPMLL/NVIDIA-Hopper-Benchmark): 33 cycles to own shared memory against 29");
  t.add("fence", &MemoryParams::fence, {Unit::cycles, 1, 10'000},
        "until the load-store pipeline has drained at a fence, of any scope or of the proxy; beyond the CTA, a fence "
        "then "
        "goes to the L2 and back",
        "measured on GH200: fence.proxy.async, and a fence of scope cta, 10.9 cycles per warp instruction");
  t.add("async_view", &MemoryParams::async_view,
        "bulk requests that read shared memory see what the SM has written there only after a proxy fence, and a "
        "missing one is a fault on record; false: they see everything",
        "PTX ISA: asynchronous proxy");
  t.add("cluster_queue", &MemoryParams::cluster_queue, {Unit::count, 1, 65'536},
        "packets, requests and replies each, that may wait at the SM's port of the SM-to-SM network: credits",
        kAssumption);
}

void NestedParams::describe(ParamTable<NestedParams>& t) {
  t.add("launch_instructions", &NestedParams::launch_instructions, {Unit::count, 0, 10'000'000},
        "instructions of the device runtime for each child task before its first access to memory: each takes an issue "
        "slot of the launching warp at the unit for 32-bit integers, and needs the result of the one before",
        "assumption: counted by hand for what a launch does here (docs/results/device-launch.md)");
  t.add("distance", &NestedParams::distance, {Unit::cycles, 0, 100'000},
        "cycles from an SM to task management: children to start, contexts whose CTA has gone, entries of queues",
        kAssumption);
  t.add_choice(
      "save", &NestedParams::save,
      {{"off", SavePolicy::off},
       {"wait", SavePolicy::wait},
       {"wanted", SavePolicy::wanted},
       {"false", SavePolicy::off},
       {"true", SavePolicy::wait}},
      "CTAs whose warps all wait for children are saved to memory and give their slots up: off (they stay; also "
      "false), wait (once they have waited for save_delay; also true), wanted (then too, if the distributor finds no "
      "room for a task; with gpu.cwd.preemption: instruction)",
      "TSK-12");
  t.add("save_delay", &NestedParams::save_delay, {Unit::cycles, 1, 1'000'000'000},
        "for which a CTA has waited when it is saved, and after which an SM tries again that could not", kAssumption);
}

void SetupParams::describe(ParamTable<SetupParams>& t) {
  t.add("warp_cycles", &SetupParams::warp_cycles, {Unit::cycles, 0, 10'000},
        "between two warps that a partition launches, of one CTA or of several; 0: all at once",
        "assumption: all at once");
  t.add("register_rows", &SetupParams::register_rows, {Unit::per_cycle, 0, 1024},
        "registers of all 32 lanes that a partition initialises per cycle before a warp of a CTA issues; 0: they take "
        "no time",
        "assumption: no time");
  t.add("shared_rate", &SetupParams::shared_rate, {Unit::bytes_per_cycle, 0, 1'048'576},
        "shared memory of a CTA that is made ready per cycle before its warps are launched; 0: it takes no time",
        "assumption: no time");
}

void FetchParams::describe(ParamTable<FetchParams>& t) {
  t.add("cache_bytes", &FetchParams::cache_bytes, {Unit::bytes, 0, 16'777'216},
        "instruction cache, of four ways of lines of 128 bytes; what it misses comes from the L2; 0: instructions are "
        "always there",
        "assumption: always there");
  t.add("operation_bytes", &FetchParams::operation_bytes, {Unit::bytes, 1, 4096},
        "machine code of one step of a program, which may stand for several instructions",
        "assumption: one instruction of 16 bytes");
  t.add("prefetch_lines", &FetchParams::prefetch_lines, {Unit::count, 0, 64},
        "lines behind a missing line of a program that are read with it", "assumption: none");
  t.add(
      "constant_bytes", &FetchParams::constant_bytes, {Unit::bytes, 0, 1'048'576},
      "constant cache, of four ways of lines of 128 bytes: the first warps of a launch on an SM wait for the kernel's "
      "parameters, which come from the L2; 0: parameters are always there",
      "assumption: always there");
  t.add("constant_lines", &FetchParams::constant_lines, {Unit::count, 1, 32},
        "lines of the constant bank that a warp reads one after another before its first instruction: what the driver "
        "puts there, and the kernel's parameters",
        "assumption: one for both");
}

void SmParams::describe(ParamTable<SmParams>& t) {
  t.group("limits", &SmParams::limits);
  t.add("start_cycles", &SmParams::start_cycles, {Unit::cycles, 0, 100'000},
        "from a CTA's arrival at the SM to its first instruction, less what setup and fetch add", kAssumption);
  t.group("setup", &SmParams::setup);
  t.group("fetch", &SmParams::fetch);
  t.group("issue", &SmParams::issue);
  t.group("memory", &SmParams::memory);
  t.group("nested", &SmParams::nested);
  t.add_choice(
      "tensor_errors", &SmParams::tensor_errors, {{"trap", TensorErrors::trap}, {"report", TensorErrors::report}},
      "what a bulk request does to its CTA that breaks a rule of the tensor memory access unit, or that memory answers "
      "with an error: a fault stops it, or is recorded only (an mbarrier that does not take the bytes always stops it)",
      "choice: as other faults");
  const char* tables = "TMA-20; [] is a[4] ^= a[7], a[5:4] ^= a[8:7], a[6:4] ^= a[9:7] of 32, 64 and 128 bytes";
  const char* what =
      "where units of 16 bytes lie in shared memory with that swizzle: for each of eight rows of 128 bytes, eight "
      "numbers";
  t.add("swizzle_32", &SmParams::swizzle_32, what, tables);
  t.add("swizzle_64", &SmParams::swizzle_64, what, tables);
  t.add("swizzle_128", &SmParams::swizzle_128, what, tables);
}

std::uint32_t SmParams::warp_slots() const {
  return (limits.warps + kSubPartitions - 1) / kSubPartitions * kSubPartitions;
}

arch::SwizzleTable swizzles_of(const SmParams& params) {
  arch::SwizzleTable table;
  const auto set = [&table](arch::Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key) {
    if (!units.empty()) table.set(swizzle, units, key);
  };
  set(arch::Swizzle::bytes32, params.swizzle_32, "gpu.sm.swizzle_32");
  set(arch::Swizzle::bytes64, params.swizzle_64, "gpu.sm.swizzle_64");
  set(arch::Swizzle::bytes128, params.swizzle_128, "gpu.sm.swizzle_128");
  return table;
}

}  // namespace heddle::sm
