#include "scenario/scenario_schema.h"

#include "arch/task_record.h"
#include "program/step_table.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

constexpr const char* kOperations = "kernel_op copy_op fill_op graph_op group_op collective_op";
constexpr Form kPreset = [] {
  Form form;
  form.preset = true;
  return form;
}();
constexpr Form kGrid = between(1, 2'147'483'647).list(1, 3);
constexpr Form kCycles = measured(Measure::cycles, 1);
constexpr Form kMostBytes = measured(Measure::bytes, 0, 4'294'967'295);
constexpr Form kAmount = measured(Measure::bytes, 0);
constexpr Form kTime = measured(Measure::time);
constexpr Form kSubcontext = between(0, arch::kSubcontexts - 1);
constexpr Form kPriority = between(-1000, 1000);
constexpr Form kType = words("u8 s8 u16 s16 f16 bf16 u32 s32 f32 u64 s64 f64");
constexpr Form kExtents = at_least(0).list(0, 15);

// Keys that every operation has, behind the ones of its own.
std::vector<KeySpec> with_common_keys(std::vector<KeySpec> keys) {
  const KeySpec common[] = {
      {"stream", true, kText, "name of the stream; operations of one stream run in the order of the file"},
      {"id", false, kText, "name by which `after` refers to the operation"},
      {"at", false, kInteger | kQuantity, "time with unit when the host submits it, e.g. 10 us; default 0", kTime},
      {"after", false, kText | kList, "id, or list of ids, of operations that must be complete before this one starts",
       Form{}.distinct()},
      {"repeat", false, kInteger, "how many times it is submitted; `after: <id>` then means the last one; default 1",
       between(1, 1'000'000)},
  };
  keys.insert(keys.end(), std::begin(common), std::end(common));
  return keys;
}

}  // namespace

const MapSpec& scenario_spec() {
  static const MapSpec kSpec{
      "scenario",
      {
          {"heddle", true, kInteger, "version of the format: 1", json_schema(R"({"type": "integer", "const": 1})")},
          {"name", false, kText, "title of the scenario; default: the file's name"},
          {"description", false, kText, "what the scenario shows"},
          {"gpu", false, kText | kMap, "preset of the one GPU; default h100-sxm", kPreset.or_map("gpu")},
          {"gpus", false, kList, "list of presets, one per GPU, instead of `gpu`", kPreset.or_map("gpu").list(1, 64)},
          {"config", false, kMap, "parameters, under gpu (all GPUs), gpu0, gpu1, …; see `heddle show params`",
           map_of("config")},
          {"links", false, kText | kMap,
           "how the GPUs are connected: direct, switch, or a map of parameters; see `heddle show params links`",
           words("none direct switch").or_map("links_parameters")},
          {"seed", false, kInteger, "seed of everything random; the command line wins", at_least(0)},
          {"memory", false, kList, "list of regions of memory that programs use, with what they hold",
           list_of("memory", 0, 1000)},
          {"tensors", false, kList, "list of tensors in these regions, as the tensor memory access unit knows them",
           list_of("tensor", 0, 1000)},
          {"queues", false, kList, "list of queues in memory that queue tasks take their entries from",
           list_of("queue")},
          {"kernels", false, kList, "list of kernels", list_of("kernel")},
          {"graphs", false, kList, "list of graphs of kernels, each of which is launched as one operation",
           list_of("graph")},
          {"streams", false, kList, "list of streams; one that is used and not listed has priority 0 on gpu 0",
           list_of("stream")},
          {"submit", true, kList | kMap,
           "list of operations, in the order in which the host submits them; or {by: aql, operations: …}: by packets; "
           "or {by: tmdq, operations: …}: into task metadata queues",
           list_of(kOperations, 1).or_map("submission")},
          {"load", false, kList, "list of what SMs hold when the run begins, beside the work that is submitted",
           list_of("load")},
          {"tpcs", false, kList, "list of TPCs that begin or cease to receive work", list_of("tpc")},
          {"subcontexts", false, kList, "list of subcontexts (processes), with what they may use of the machine",
           list_of("subcontext")},
          {"share", false, kList, "list of changes of how subcontexts share the machine", list_of("share")},
          {"expect", false, kList,
           "list of what must come out: statistics, contents of memory, device faults, no progress",
           list_of("expect expect_memory expect_fault expect_no_progress")},
          {"parameters", false, kMap,
           "numbers by name, that ${…} puts into any value and --let changes: {lines: 16, bytes: 128 * lines}"},
          {"figures", false, kList, "list of what the scenario measures: numbers from memory and statistics",
           list_of("figure", 0, 1000)},
      },
      R"({"not": {"required": ["gpu", "gpus"]}})"};
  return kSpec;
}

const MapSpec& gpu_spec() {
  static const MapSpec kSpec{"gpu", {{"preset", true, kText, "name of a preset; see `heddle show presets`", kPreset}}};
  return kSpec;
}

const MapSpec& kernel_spec() {
  static const MapSpec kSpec{
      "kernel",
      {
          {"name", true, kText, "name of the kernel"},
          {"grid", true, kInteger | kList, "CTAs of the grid: an integer, or a list of up to three (x, y, z)", kGrid},
          {"block", true, kInteger | kList, "threads of a CTA: an integer, or a list of up to three (x, y, z)",
           between(1, 65'535).list(1, 3)},
          {"cycles", false, kInteger | kQuantity | kMap,
           "how long a CTA runs, in SM cycles: an integer, or {min: …, max: …}; instead of `program`",
           kCycles.or_map("cycles")},
          {"demand", false, kMap,
           "what a CTA demands of the machine, instead of `cycles`: {l2_read: 16 KiB, fp32: 4096}", map_of("demand")},
          {"program", false, kList, "list of steps that every warp executes, instead of `cycles`", list_of("step", 1)},
          {"ptx", false, kText,
           "file with a PTX module, relative to the scenario's folder, one entry of which every thread executes, "
           "instead of `cycles`"},
          {"entry", false, kText, "with ptx: name of the entry; default: the only one"},
          {"args", false, kText | kInteger | kNumber | kList,
           "with ptx: list of its arguments, one for each parameter: a number, the name of a region of memory (its "
           "address), or of a tensor (for a parameter of 128 bytes: its descriptor)",
           items(0, 512)},
          {"registers", false, kInteger,
           "registers per thread; default 0: not limited by them; with a program: as many as it needs",
           between(0, 65'535)},
          {"shared", false, kInteger | kQuantity,
           "shared memory of a CTA, in bytes or with unit, e.g. 48 KiB; default 0", kMostBytes},
          {"local", false, kInteger | kQuantity,
           "local memory of a thread, in bytes or with unit, e.g. 512 B; default 0", kMostBytes},
          {"subcontext", false, kInteger, "number of the subcontext that launches it, 0 to 63; default 0", kSubcontext},
          {"cluster", false, kInteger | kList | kMap,
           "CTAs of a GPC_CGA: an integer, or a list of up to three (x, y, z); or a map with more levels; default: "
           "none",
           kGrid.or_map("cluster")},
          {"cooperative", false, kFlag,
           "true: all CTAs are on the machine at once, and may meet at a grid_barrier; default false"},
          {"raster", false, kText | kMap,
           "in which order CTAs, or outermost CGAs, start: rows (x fastest), hilbert, or {tiles: [x, y]}; default rows",
           words("rows hilbert").or_map("raster")},
      },
      R"({"oneOf": [{"required": ["cycles"]}, {"required": ["program"]}, {"required": ["demand"]},
                     {"required": ["ptx"]}]})"};
  return kSpec;
}

const MapSpec& cycles_spec() {
  static const MapSpec kSpec{
      "cycles",
      {
          {"min", true, kInteger | kQuantity, "shortest duration of a CTA, in SM cycles", kCycles},
          {"max", true, kInteger | kQuantity, "longest duration of a CTA, in SM cycles", kCycles},
      }};
  return kSpec;
}

const MapSpec& demand_spec() {
  static const MapSpec kSpec{
      "demand",
      {
          {"tensor_f16", false, kNumber,
           "flops of matrix multiplies of f16 or bf16; a multiply-add is two, here and below", at_least(0)},
          {"tensor_tf32", false, kNumber, "flops of matrix multiplies of tf32", at_least(0)},
          {"tensor_f8", false, kNumber, "flops of matrix multiplies of f8 or i8", at_least(0)},
          {"tensor_f64", false, kNumber, "flops of matrix multiplies of f64", at_least(0)},
          {"fp32", false, kNumber, "flops of the fp32 units", at_least(0)},
          {"fp64", false, kNumber, "flops of the fp64 units", at_least(0)},
          {"int32", false, kNumber, "operations of the integer units", at_least(0)},
          {"sfu", false, kNumber, "operations of the special-function units: roots, exponentials, sines", at_least(0)},
          {"shared", false, kNumber | kQuantity, "bytes between shared memory and registers", kAmount},
          {"l2_read", false, kNumber | kQuantity, "bytes that come from the L2, whether they were there or not",
           kAmount},
          {"bulk_read", false, kNumber | kQuantity,
           "of l2_read, bytes that bulk requests bring to shared memory, past the L1", kAmount},
          {"in_flight", false, kNumber | kQuantity,
           "of l2_read, bytes that a CTA has asked for at a time, at most; default: as its floor says, which then is "
           "latencies of memory one after another",
           kAmount},
          {"stages", false, kNumber,
           "parts of in_flight: one is asked for when one has been used, while the others are there or come; default 1",
           at_least(1)},
          {"accesses", false, kNumber,
           "instructions on memory of any kind that each of its warps issues one after another; default 0: they wait "
           "for "
           "no other warp's",
           at_least(0)},
          {"l2_write", false, kNumber | kQuantity, "bytes that go to the L2", kAmount},
          {"dram_read", false, kNumber | kQuantity, "of l2_read, bytes that the L2 fetches from memory", kAmount},
          {"dram_write", false, kNumber | kQuantity, "of l2_write, bytes that the L2 writes to memory", kAmount},
          {"floor", false, kNumber | kQuantity,
           "time with unit, e.g. 800 ns, that a CTA takes however free the machine is; default 0", kTime},
      }};
  return kSpec;
}

const MapSpec& cluster_spec() {
  static const MapSpec kSpec{
      "cluster",
      {
          {"gpu", false, kInteger | kList, "CTAs of a GPU_CGA: an integer, or a list of up to three (x, y, z)", kGrid},
          {"ugpu", false, kInteger | kList, "CTAs of a uGPU_CGA: an integer, or a list of up to three (x, y, z)",
           kGrid},
          {"gpc", false, kInteger | kList, "CTAs of a GPC_CGA: an integer, or a list of up to three (x, y, z)", kGrid},
          {"cpc", false, kInteger | kList, "CTAs of a CPC_CGA: an integer, or a list of up to three (x, y, z)", kGrid},
          {"mode", false, kText,
           "load_balancing (the least loaded SMs) or multicast (the same, but at most one CTA of a CGA on an SM); "
           "default "
           "load_balancing, of kernels with multicast loads multicast",
           words("multicast load_balancing")},
          {"fallback", false, kList,
           "list of up to four smaller sizes of the outermost CGA, in the order of trying, e.g. [[4, 1, 1], [2, 1, "
           "1]]",
           json_schema(
               R"({"type": "array", "maxItems": 4, "items": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "minimum": 1}}]}})")},
          {"linear_memory", false, kFlag, "true: every outermost CGA takes a CGA memory slot; default false"},
      },
      R"({"minProperties": 1})"};
  return kSpec;
}

const MapSpec& raster_spec() {
  static const MapSpec kSpec{"raster",
                             {
                                 {"tiles", true, kInteger | kList,
                                  "extents x, y of a tile, up to 255, in outermost CGAs (in CTAs, if there are none)",
                                  between(1, 255).list(1, 2)},
                             }};
  return kSpec;
}

const MapSpec& stream_spec() {
  static const MapSpec kSpec{"stream",
                             {
                                 {"name", true, kText, "name of the stream"},
                                 {"priority", false, kInteger, "priority: larger is more urgent; default 0", kPriority},
                                 {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
                             }};
  return kSpec;
}

const MapSpec& graph_spec() {
  static const MapSpec kSpec{"graph",
                             {
                                 {"name", true, kText, "name of the graph"},
                                 {"nodes", true, kList, "list of its kernels", list_of("graph_node", 1)},
                             }};
  return kSpec;
}

const MapSpec& graph_node_spec() {
  static const MapSpec kSpec{
      "graph_node",
      {
          {"name", true, kText, "name of the node in its graph"},
          {"kernel", true, kText, "name of a kernel of the list `kernels`"},
          {"after", false, kText | kList, "name, or list of names, of nodes of the graph that end before it starts",
           items(1)},
          {"repeat", false, kInteger, "how many times it runs, one time after another; default 1", at_least(1)},
      }};
  return kSpec;
}

const MapSpec& submission_spec() {
  static const MapSpec kSpec{
      "submission",
      {
          {"by", true, kText,
           "aql: packets of user-mode queues, one queue per stream; tmdq: each stream is a task metadata queue in "
           "device "
           "memory, to which the host pushes",
           words("aql tmdq")},
          {"format", false, kText,
           "plain (a dispatch packet per kernel), reference (the first launch of every kernel is a reference packet) "
           "or "
           "condensed (kernels share condensed packets); default plain",
           words("plain reference condensed")},
          {"queues", false, kText, "host or device: where rings, read indices and signals lie; default host",
           words("host device")},
          {"copies", false, kText,
           "recorded (copies and fills hold their queue for their time) or engines (the copy engines move their "
           "bytes); "
           "default recorded",
           words("recorded engines")},
          {"signals", false, kText,
           "each (every packet of kernels has fences of system scope and a completion signal) or needed (only what "
           "somebody waits for); default each",
           words("each needed")},
          {"batch", false, kInteger, "most kernels that are condensed together; default 64", between(1, 65'536)},
          {"operations", true, kList, "list of operations, in the order in which the host submits them",
           list_of(kOperations, 1)},
      }};
  return kSpec;
}

const MapSpec& kernel_op_spec() {
  static const MapSpec kSpec{
      "kernel_op",
      with_common_keys(
          {{"kernel", true, kText, "name of a kernel of the list `kernels`"},
           {"args", false, kText | kList,
            "expression, or list of expressions, over the names of memory: the 64-bit words of the kernel's "
            "arguments, at the address `kernarg`; by packets only",
            items(1, 512)},
           {"priority", false, kInteger, "priority: larger is more urgent; default: that of the stream", kPriority},
           {"insert", false, kText, "tail or head: where it enters the list of its priority; default tail",
            words("tail head")},
           {"programmatic", false, kFlag,
            "true: it may start before the kernel ahead of it in its stream has ended, once all CTAs of that have "
            "executed launch_dependents or exited; default false"},
           {"queue", false, kText,
            "name of a queue of the list `queues`: a CTA runs for each of its entries, whatever the kernel's grid"},
           {"until", false, kText | kList,
            "with queue: id, or list of ids, of operations that may append to it: it stays open until they have "
            "ended",
            items(1)}})};
  return kSpec;
}

const MapSpec& copy_op_spec() {
  static const MapSpec kSpec{
      "copy_op",
      with_common_keys(
          {{"copy", true, kInteger | kQuantity, "bytes copied, e.g. 1 MiB", measured(Measure::bytes, 1)},
           {"from", false, kText,
            "expression over the names of memory, instead of `for`: the copy engines of the stream's GPU move the "
            "bytes from there; memory of another GPU is read over links"},
           {"to", false, kText, "expression over the names of memory: with `from`, where they move the bytes to"},
           {"for", false, kInteger | kQuantity, "time with unit for which the copy holds its stream, e.g. 3 us", kTime},
           {"direction", false, kText,
            "host_to_device, device_to_host or device_to_device, for copy engines; "
            "default host_to_device",
            words("host_to_device device_to_host device_to_device")}})};
  return kSpec;
}

const MapSpec& fill_op_spec() {
  static const MapSpec kSpec{
      "fill_op",
      with_common_keys({{"fill", true, kInteger | kQuantity, "bytes filled, e.g. 4 KiB", measured(Measure::bytes, 1)},
                        {"for", true, kInteger | kQuantity,
                         "time with unit for which the fill holds its stream, e.g. 1 us", kTime}})};
  return kSpec;
}

const MapSpec& graph_op_spec() {
  static const MapSpec kSpec{
      "graph_op",
      with_common_keys({{"graph", true, kText, "name of a graph of the list `graphs`: all of its kernels"},
                        {"priority", false, kInteger,
                         "priority of its kernels: larger is more urgent; default: that of the stream", kPriority}})};
  return kSpec;
}

const MapSpec& collective_op_spec() {
  static const MapSpec kSpec{
      "collective_op",
      {
          {"all_reduce", false, kInteger | kQuantity,
           "bytes of each buffer, e.g. 1 MiB: all become the sums over all of them", measured(Measure::bytes, 1)},
          {"all_gather", false, kInteger | kQuantity,
           "bytes of each buffer, of which rank r has part r: all get all parts", measured(Measure::bytes, 1)},
          {"reduce_scatter", false, kInteger | kQuantity,
           "bytes of each buffer: part r of that of rank r becomes the sums; with a ring, what else it holds stays",
           measured(Measure::bytes, 1)},
          {"broadcast", false, kInteger | kQuantity, "bytes of each buffer: all become what the first one is",
           measured(Measure::bytes, 1)},
          {"streams", true, kList, "list of streams of different GPUs, one for each rank", items(2, 64)},
          {"buffers", true, kList, "list of regions with shared: true, one for each rank, of the GPUs of the streams",
           items(2, 64)},
          {"algorithm", false, kText,
           "ring: from rank to rank; switch: multicasts and reductions in the switch, of all GPUs; default ring",
           words("ring switch")},
          {"type", false, kText, "type of what is added: f32, u32, s32; default f32", words("f32 u32 s32")},
          {"ctas", false, kInteger, "CTAs of the kernel on each GPU; default 16", between(1, 1024)},
          {"threads", false, kInteger, "threads of a CTA; default 512", between(32, 1024)},
          {"id", false, kText, "name by which `after` refers to the kernel of rank r: id.r"},
          {"at", false, kInteger | kQuantity, "time with unit when the host submits it, e.g. 10 us; default 0", kTime},
          {"after", false, kText | kList,
           "id, or list of ids, of operations that must be complete before each of its kernels starts",
           Form{}.distinct()},
      },
      R"({"oneOf": [{"required": ["all_reduce"]}, {"required": ["all_gather"]}, {"required": ["reduce_scatter"]}, {"required": ["broadcast"]}]})"};
  return kSpec;
}

const MapSpec& group_op_spec() {
  static const MapSpec kSpec{
      "group_op",
      {
          {"group", true, kList, "list of operations without `id` and `after`, that are submitted one after another",
           list_of("kernel_op copy_op fill_op", 1)},
          {"repeat", false, kInteger, "how many times the whole list is submitted; default 1", at_least(1)},
      }};
  return kSpec;
}

const MapSpec& load_spec() {
  static const MapSpec kSpec{
      "load",
      {
          {"sms", false, kInteger | kList, "id of an SM, or list of ids; default, without `gpcs`: all SMs",
           at_least(0).list(1).distinct()},
          {"gpcs", false, kInteger | kList, "number of a GPC, or list of numbers: all their SMs, instead of `sms`",
           at_least(0).list(1).distinct()},
          {"kernel", true, kText, "name of a kernel of the list `kernels`: whose CTAs the SMs hold"},
          {"ctas", true, kInteger, "how many of its CTAs each of these SMs holds", at_least(1)},
          {"until", false, kInteger | kQuantity, "time with unit when they leave, e.g. 10 us; default: never", kTime},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
      },
      R"({"not": {"required": ["sms", "gpcs"]}})"};
  return kSpec;
}

const MapSpec& tpc_spec() {
  static const MapSpec kSpec{
      "tpc",
      {
          {"gpc", true, kInteger, "number of the GPC, from 0", at_least(0)},
          {"tpc", true, kInteger, "number of the TPC in its GPC, from 0", at_least(0)},
          {"enabled", true, kFlag, "true: it begins to receive work; false: it ceases to, and finishes what it has"},
          {"at", false, kInteger | kQuantity, "time with unit when it does, e.g. 5 us; default 0", kTime},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
      }};
  return kSpec;
}

const MapSpec& queue_spec() {
  static const MapSpec kSpec{
      "queue",
      {
          {"name", true, kText, "name of the queue; in programs it is the queue's address"},
          {"capacity", true, kInteger, "number of entries that it holds at a time", at_least(1)},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
          {"initial", false, kMap, "entries that it holds when the run begins; default: none", map_of("queue_initial")},
      }};
  return kSpec;
}

const MapSpec& queue_initial_spec() {
  static const MapSpec kSpec{
      "queue_initial",
      {
          {"count", true, kInteger, "number of entries, at most the capacity", at_least(0)},
          {"value", true, kText | kList,
           "expression over i, the number of the entry, or list of up to seven: the 64-bit words of the entry",
           items(1, arch::kQueueEntryWords)},
      }};
  return kSpec;
}

const MapSpec& subcontext_spec() {
  static const MapSpec kSpec{
      "subcontext",
      {
          {"id", true, kInteger, "number of the subcontext, 0 to 63", kSubcontext},
          {"credits", false, kInteger,
           "number of TPCs that it may hold at a time; default: gpu.cwd.tpc_credits; for mode dynamic", at_least(0)},
          {"tpcs", false, kList,
           "list of the TPCs where it may run, [GPC, TPC of the GPC] each; default: as the machine begins",
           json_schema(
               R"({"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0}}})")},
          {"sms", false, kQuantity,
           "share of the machine's SMs on which its CTAs may run at a time, rounded up: 1 % to 100 %",
           measured(Measure::percent, 1)},
          {"warps", false, kQuantity, "share of an SM's warps that its CTAs may have there, rounded up: 1 % to 100 %",
           measured(Measure::percent, 1)},
          {"local", false, kInteger | kQuantity,
           "local memory of a thread of its kernels, in bytes or with unit; default: what its kernels need",
           kMostBytes},
          {"instance", false, kInteger, "number of the instance that it belongs to, where gpu.instances has any",
           at_least(0)},
          {"bandwidth", false, kQuantity,
           "share of the bandwidth of L2 and memory that it gets where it is contended, 0.1 % to 100 %",
           measured(Measure::percent, 0)},
          {"bandwidth_limit", false, kQuantity,
           "the most of the bandwidth of L2 and memory that it may have at any time, 0.1 % to 100 %",
           measured(Measure::percent, 0)},
          {"translated", false, kFlag,
           "true: it has an address space of its own, with the regions of `memory` that name it; default false"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
      }};
  return kSpec;
}

const MapSpec& share_spec() {
  static const MapSpec kSpec{
      "share",
      {
          {"at", false, kInteger | kQuantity, "time with unit when it changes, e.g. 5 us; default 0", kTime},
          {"mode", false, kText, "none, static or dynamic: how all subcontexts share the TPCs",
           words("none static dynamic")},
          {"subcontext", false, kInteger, "number of the subcontext that the change concerns, instead of `mode`",
           kSubcontext},
          {"credits", false, kInteger, "number of TPCs that it may hold at a time", at_least(0)},
          {"sms", false, kQuantity,
           "share of the machine's SMs on which its CTAs may run at a time, rounded up: 1 % to 100 %",
           measured(Measure::percent, 1)},
          {"warps", false, kQuantity, "share of an SM's warps that its CTAs may have there, rounded up: 1 % to 100 %",
           measured(Measure::percent, 1)},
          {"bandwidth", false, kQuantity,
           "share of the bandwidth of L2 and memory that it gets where it is contended; 0 %: none of its own",
           measured(Measure::percent, 0)},
          {"bandwidth_limit", false, kQuantity,
           "the most of the bandwidth of L2 and memory that it may have, 0.1 % to 100 %; 100 %: no limit",
           measured(Measure::percent, 0)},
          {"gpc", false, kInteger, "number of the GPC, from 0; with tpc", at_least(0)},
          {"tpc", false, kInteger, "number of the TPC in its GPC, from 0; with gpc", at_least(0)},
          {"enabled", false, kFlag, "true: it may run on that TPC; false: it may not, and what runs there ends"},
          {"block", false, kInteger, "number of the local-memory block that it uses on that TPC, in mode static",
           at_least(0)},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
      }};
  return kSpec;
}

const MapSpec& expect_spec() {
  static const MapSpec kSpec{
      "expect",
      {
          {"stat", true, kText, "path of a statistic, e.g. gpu0.cwd.ctas_launched"},
          {"equals", false, kNumber, "number that the statistic must have, in the statistic's own unit"},
          {"min", false, kNumber, "smallest number allowed, in the statistic's own unit"},
          {"max", false, kNumber, "largest number allowed, in the statistic's own unit"},
          {"about", false, kNumber,
           "number that the statistic must come near, in the statistic's own unit; needs `within`"},
          {"within", false, kNumber | kQuantity, "distance allowed from `about`: a number, or a percentage like 2 %",
           measured(Measure::percent, 0)},
      },
      R"({"oneOf": [{"required": ["equals"], "not": {"anyOf": [{"required": ["min"]}, {"required": ["max"]},
                                                        {"required": ["about"]}, {"required": ["within"]}]}},
             {"anyOf": [{"required": ["min"]}, {"required": ["max"]}],
              "not": {"anyOf": [{"required": ["equals"]}, {"required": ["about"]}, {"required": ["within"]}]}},
             {"required": ["about", "within"],
              "not": {"anyOf": [{"required": ["equals"]}, {"required": ["min"]}, {"required": ["max"]}]}}]})"};
  return kSpec;
}

const MapSpec& figure_spec() {
  static const MapSpec kSpec{
      "figure",
      {
          {"name", true, kText, "name of the figure"},
          {"value", true, kText, "expression over the names in `of`"},
          {"of", false, kMap, "what each name in `value` is: {begin: {memory: out, element: 0, type: u64}}"},
          {"unit", false, kText, "unit of the figure, for whoever reads it"},
          {"measured", false, kNumber, "what was measured on silicon, in the same unit"},
          {"source", false, kText, "who measured it, on what"},
      }};
  return kSpec;
}

const MapSpec& figure_input_spec() {
  static const MapSpec kSpec{
      "figure_input",
      {
          {"stat", false, kText, "path of a statistic, e.g. gpu0.l2.reads"},
          {"clock", false, kInteger, "number of a GPU: its clock, in GHz", at_least(0)},
          {"kernel", false, kText, "name of a kernel: time of its last launch, from start to end, in ns"},
          {"memory", false, kText, "name of a region of memory, as it is at the end of the run"},
          {"type", false, kText, "memory: type of its elements, e.g. u64; default f32", kType},
          {"element", false, kInteger, "memory: number of the element, from 0", at_least(0)},
          {"take", false, kText, "memory: min, max, sum or mean of all elements", words("min max sum mean")},
      }};
  return kSpec;
}

const MapSpec& memory_spec() {
  static const MapSpec kSpec{
      "memory",
      {
          {"name", true, kText, "name of the region; in programs it is the region's address"},
          {"bytes", false, kInteger | kQuantity, "size in bytes or with unit, e.g. 4 MiB; default: that of the file",
           measured(Measure::bytes, 1)},
          {"at", false, kInteger, "address; default: behind the other regions, from 1 MiB on", at_least(0)},
          {"align", false, kInteger | kQuantity, "alignment of the address, a power of two; default 4 KiB",
           measured(Measure::bytes, 1)},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0", at_least(0)},
          {"subcontext", false, kInteger,
           "number of a translated subcontext, in whose address space alone it lies; default: in physical memory",
           kSubcontext},
          {"instance", false, kInteger, "number of the instance in whose memory it lies, where gpu.instances has any",
           at_least(0)},
          {"shared", false, kFlag,
           "true: kernels of all GPUs may use it, over links: its name is its address in the window to their memory, "
           "and x.group that of the same bytes of all GPUs; default false"},
          {"access", false, kText, "with subcontext: write, or read: its kernels may not write to it; default write",
           words("write read")},
          {"init", false, kText | kMap, "what it holds when the run begins: zeros, or a map; default zeros",
           words("zeros").or_map("init")},
          {"write", false, kText, "name of a file that takes its bytes at the end of the run"},
      }};
  return kSpec;
}

const MapSpec& init_spec() {
  static const MapSpec kSpec{
      "init",
      {
          {"pattern", false, kText, "value of element i: an expression over i"},
          {"random", false, kInteger, "seed of random elements, evenly distributed", at_least(0)},
          {"file", false, kText, "name of a file with the bytes, relative to the scenario"},
          {"type", false, kText, "pattern, random: type of the elements, e.g. f16", kType},
          {"min", false, kNumber, "random: smallest value; default 0"},
          {"max", false, kNumber, "random: largest value; default 1"},
          {"integer", false, kFlag, "random: true: whole numbers; default: by type"},
      },
      R"({"oneOf": [{"required": ["pattern"]}, {"required": ["random"]}, {"required": ["file"]}]})"};
  return kSpec;
}

const MapSpec& tensor_spec() {
  static const MapSpec kSpec{
      "tensor",
      {
          {"name", true, kText, "name of the tensor; in programs it is the address of its descriptor"},
          {"memory", true, kText, "name of the region of memory that holds the tensor"},
          {"offset", false, kInteger | kQuantity,
           "bytes from the beginning of the region to the first element; default 0", measured(Measure::bytes, 0)},
          {"type", true, kText,
           "type of the elements: u8, u16, u32, s32, u64, s64, f16, bf16, f32, f32_flush, tf32, tf32_flush, f64, "
           "u4x16, u4x16_padded, u6x16_padded",
           words("u8 u16 u32 s32 u64 s64 f16 bf16 f32 f32_flush tf32 tf32_flush f64 u4x16 u4x16_padded u6x16_padded")},
          {"size", true, kInteger | kList,
           "elements per dimension, innermost first: an integer, or a list of up to five; interleaved, the first "
           "counts channel slices",
           kExtents},
          {"stride", false, kInteger | kList,
           "bytes from one element to the next, of dimensions 1 and up; interleaved: of 0 and up; default: without "
           "gaps",
           kExtents},
          {"box", false, kInteger | kList,
           "elements per dimension of what one request moves, 1 to 256: as many as in size; not with im2col", kExtents},
          {"traversal", false, kInteger | kList,
           "distance per dimension of the elements that a request takes, 1 to 8; default 1", kExtents},
          {"swizzle", false, kText,
           "how it lies in shared memory: none, 32, 64, 128, 96, 128_atom_32, 128_atom_32_flip_8, 128_atom_64; default "
           "none",
           words("none 32 64 128 96 128_atom_32 128_atom_32_flip_8 128_atom_64")},
          {"promotion", false, kText,
           "bytes that a read which misses the L2 brings from memory at least: none, 64, 128 or 256; default none",
           words("none 64 128 256")},
          {"interleave", false, kText, "bytes of a channel slice that lies together: none, 16 or 32; default none",
           words("none 16 32")},
          {"fill", false, kText, "what elements outside the tensor read as: zero or nan; default zero",
           words("zero nan")},
          {"im2col", false, kMap, "pixels of a convolution instead of a box", map_of("im2col")},
          {"broken", false, kFlag,
           "true: it breaks a rule on purpose, to test what the machine says; default false: it is refused here"},
      }};
  return kSpec;
}

const MapSpec& im2col_spec() {
  static const MapSpec kSpec{
      "im2col",
      {
          {"base_corner", true, kInteger | kList,
           "first corner of the bounding box, relative to the tensor's: an integer, or a list, for W, H, D",
           items(0, 15)},
          {"far_corner", true, kInteger | kList,
           "last corner of the bounding box, relative to the tensor's: an integer, or a list, for W, H, D",
           items(0, 15)},
          {"along_w", false, kText,
           "no; pixels: along W alone, H and D stay where the request says, and the corners are one number each; 128: "
           "the same, always 128 pixels; default no",
           words("no pixels 128")},
          {"channels", true, kInteger, "channels per pixel, 1 to 256; interleaved: slices", at_least(0)},
          {"pixels", true, kInteger, "pixels that one request moves, 1 to 1024", at_least(0)},
      }};
  return kSpec;
}

const MapSpec& expect_memory_spec() {
  static const MapSpec kSpec{
      "expect_memory",
      {
          {"memory", true, kText, "name of the region that is compared at the end of the run"},
          {"file", false, kText, "name of a file with what it must hold, relative to the scenario; or"},
          {"pattern", false, kText, "value that element i must have: an expression over i"},
          {"type", false, kText, "type of the elements, e.g. f32; default, with a file: equal bytes", kType},
          {"within", false, kNumber | kQuantity,
           "distance allowed from each element: a number, or a percentage like 1 %; default 0",
           measured(Measure::percent, 0)},
      },
      R"({"oneOf": [{"required": ["file"]}, {"required": ["pattern"]}]})"};
  return kSpec;
}

const MapSpec& expect_fault_spec() {
  static const MapSpec kSpec{
      "expect_fault",
      {
          {"fault", true, kText,
           "device fault that must happen: address, misaligned, shared_bounds, unsupported, barrier, cluster_rank, "
           "cluster_absent, cluster_offset, cluster_domain, cta_not_present, out_of_range, poison, mbarrier, tensor, "
           "unmapped, read_only, nesting, child, queue_closed, missing_fence, local_bounds, "
           "launch_limit",
           words("address misaligned shared_bounds unsupported barrier cluster_rank cluster_absent cluster_offset "
                 "cluster_domain "
                 "cta_not_present out_of_range poison mbarrier tensor unmapped read_only nesting child queue_closed "
                 "missing_fence local_bounds launch_limit")},
          {"kernel", true, kText, "name of the kernel that has it"},
          {"cluster", false, kInteger, "number of the cluster that has it; default: any", at_least(0)},
          {"rank", false, kInteger, "number in its cluster of the CTA that has it; default: any",
           between(0, 2'147'483'647)},
          {"rule", false, kText, "with fault: tensor: key of the rule that the request breaks; default: any",
           words("encoding descriptor_address rank rank_layout address extent stride_alignment stride_range box packed "
                 "inner_bytes inner_swizzle traversal nan_fill interleave_swizzle corner wide unmapped block_address "
                 "shared_address shared_alignment empty_box base_outside inner_address flip_store gather "
                 "barrier_address barrier_cta receivers receivers_share_sm address_word mask_word reduction")},
          {"subcontext", false, kInteger, "number of the subcontext of the CTA that has it; default: any", kSubcontext},
          {"address", false, kInteger, "address of the access that is at fault; default: any", at_least(0)},
      }};
  return kSpec;
}

const MapSpec& expect_no_progress_spec() {
  static const MapSpec kSpec{
      "expect_no_progress",
      {{"no_progress", true, kText, "text that the chain of waits contains with which the run must end"}}};
  return kSpec;
}

std::vector<const MapSpec*> all_specs() {
  std::vector<const MapSpec*> specs{&scenario_spec(),
                                    &gpu_spec(),
                                    &kernel_spec(),
                                    &cycles_spec(),
                                    &demand_spec(),
                                    &cluster_spec(),
                                    &raster_spec(),
                                    &stream_spec(),
                                    &submission_spec(),
                                    &kernel_op_spec(),
                                    &copy_op_spec(),
                                    &fill_op_spec(),
                                    &collective_op_spec(),
                                    &group_op_spec(),
                                    &graph_spec(),
                                    &graph_node_spec(),
                                    &graph_op_spec(),
                                    &load_spec(),
                                    &tpc_spec(),
                                    &queue_spec(),
                                    &queue_initial_spec(),
                                    &subcontext_spec(),
                                    &share_spec(),
                                    &expect_spec(),
                                    &memory_spec(),
                                    &init_spec(),
                                    &tensor_spec(),
                                    &im2col_spec(),
                                    &expect_memory_spec(),
                                    &expect_fault_spec(),
                                    &expect_no_progress_spec(),
                                    &figure_spec(),
                                    &figure_input_spec()};
  const std::vector<const MapSpec*> programs = program_specs();
  specs.insert(specs.end(), programs.begin(), programs.end());
  return specs;
}

}  // namespace heddle::scenario
