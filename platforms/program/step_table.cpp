#include "program/step_table.h"

#include <deque>
#include <utility>

#include <fmt/format.h>

#include "arch/mbarrier.h"

namespace heddle::program {
namespace {

using arch::BulkKind;
using arch::OpCode;
using arch::Order;

constexpr Form kExpression{};
constexpr Form kScalarType = words("u8 s8 u16 s16 f16 bf16 u32 s32 f32 u64 s64 f64");
constexpr Form kScopes = words("cta cluster gpu system");
constexpr Form kReductions = words("add min max inc dec and or xor");
constexpr Form kSwizzles = words("none 32 64 128 96 128_atom_32 128_atom_32_flip_8 128_atom_64");
constexpr Form kUnits = words("fp32 int32 fp64 sfu tensor");
constexpr Form kBytesOfAccess = measured(Measure::bytes, 1);
constexpr Form kSteps = list_of("step", 1);
constexpr Form kGroups = between(0, 1'000'000);

constexpr const char* kRankRules = R"({"if": {"required": ["space"], "properties": {"space": {"const": "cluster"}}},
  "then": {"required": ["rank"]}, "else": {"not": {"required": ["rank"]}}})";

// Keys that several steps have.
const StepKey kSpace{{"space", false, kText,
                      "global, shared or cluster (shared memory of a CTA of the cluster); default global",
                      words("global shared cluster")}};
const StepKey kAnySpace{{"space", false, kText,
                         "global, shared, cluster (shared memory of a CTA of the cluster) or local (memory of the "
                         "thread: `at` is an offset "
                         "in what the kernel's `local` gives it); default global",
                         words("global shared cluster local")}};
const StepKey kRank{{"rank", false, kText,
                     "number in the cluster of the CTA whose shared memory it is: an expression; only, and always, "
                     "with space: cluster"}};
const StepKey kComplete{{"complete", false, kText,
                         "with space: cluster, of stores and reductions: offset of an mbarrier in that CTA's shared "
                         "memory, which counts the bytes: an expression, the same for all lanes"}};
const StepKey kScope{
    {"scope", false, kText, "how far the order reaches: cta, cluster, gpu, system; default gpu", kScopes},
    {Target::scope}};
const StepKey kWaitOrder{{"order", false, kText, "acquire or relaxed; default acquire", words("acquire relaxed")},
                         {Target::order}};
const StepKey kCgaLevel{
    {"level", false, kText,
     "whose barrier: gpc, ugpu, gpu, of those that the kernel's cluster has; default: the innermost",
     words("gpc ugpu gpu")},
    {Target::cga_level}};
const StepKey kArriveOrder{{"order", false, kText, "release or relaxed; default release", words("release relaxed")},
                           {Target::order}};

const StepKey kAtMbarrier{
    {"at", true, kText, "offset of the mbarrier in shared memory, a multiple of 8: an expression"}, {Target::address}};
const StepKey kMbarrierRank{
    {"rank", false, kText,
     "number in the cluster of the CTA whose mbarrier it is: an expression; default: one of the own CTA"},
    {Target::rank}};
const StepKey kMbarrierBytes{{"bytes", true, kText, "number of bytes: an expression"}, number_or(0)};
const StepKey kLanes{
    {"lanes", false, kText, "first or all: which of the lanes that take part do it, each for itself; default first",
     words("first all")},
    {Target::lanes}};
const StepKey kMbarrierScope{
    {"scope", false, kText, "how far the order reaches: cta, cluster, gpu, system; default cta", kScopes},
    {Target::scope}};
const StepKey kParity{{"parity", true, kText, "parity of the phase, 0 for the first: an expression"}, number_or(0)};

const StepKey kTensor{
    {"tensor", true, kText, "name of a tensor; or the address of its descriptor in global memory: an expression"},
    {Target::tensor}};
const StepKey kTensorPlace{{"tensor", true, kText, "name of a tensor, or the address of its descriptor: an expression"},
                           {}};
const StepKey kCoordinates{
    {"at", true, kText | kList,
     "coordinates of the box's first element, innermost first: a list of expressions, one per dimension", items(1, 5)},
    {Target::coordinates}};
const StepKey kEvent{{"event", true, kText, "handle of the event: an expression"}};
const StepKey kMarked{
    {"stream", false, kText, "number of the stream, 0 or as stream_create gave it: an expression; default 0"}};
const StepKey kFourRows{{"four_rows", false, kFlag,
                         "true: a row each from four rows of a matrix; `at` is the column and the numbers of the rows"},
                        {Target::four_rows}};
const StepKey kCarried{{"carried", false, kFlag,
                        "true: the instruction carries what the tensor's descriptor says, and nothing is fetched; only "
                        "with a tensor's name"},
                       {Target::carried}};
const StepKey kPriority{
    {"priority", false, kText,
     "what the L2 gives up what it brings or writes before, or after, all else: normal, first or last; default normal",
     words("normal first last")},
    {Target::priority}};
const StepKey kByteMask{
    {"mask", false, kInteger, "bytes of each 16 that are written, bit by byte; default 65535: all", between(0, 65'535)},
    {Target::byte_mask}};
const StepKey kOffsets{
    {"offsets", false, kText | kList,
     "of im2col: offsets in W, H, D that are added to the position: a list of expressions; along W: offset and halo; "
     "default 0",
     items(1, 3)},
    {Target::offsets}};
const StepKey kToShared{{"to", true, kText, "offset in the receiver's shared memory, a multiple of 16: an expression"},
                        field(BulkField::shared)};
const StepKey kFromShared{{"from", true, kText, "offset in shared memory, a multiple of 16: an expression"},
                          field(BulkField::shared)};
const StepKey kFromGlobal{{"from", true, kText, "address in global memory, a multiple of 16: an expression"},
                          field(BulkField::global)};
StepKey to_global(BulkField where) {
  return {{"to", true, kText, "address in global memory, a multiple of 16: an expression"}, field(where)};
}
const StepKey kBytes{{"bytes", true, kText, "number of bytes, a multiple of 16: an expression"}, {Target::bytes}};
const StepKey kBarrier{{"barrier", true, kText,
                        "offset in the receiver's shared memory of the mbarrier that counts the bytes: an expression"},
                       field(BulkField::barrier)};
const StepKey kMulticast{
    {"multicast", false, kText,
     "mask of the CTAs of the cluster that receive it, bit by number: an expression; 0, and default: `cta` alone"},
    field(BulkField::multicast)};
const StepKey kReceiver{
    {"cta", false, kText, "number in the cluster of the CTA that receives it: an expression; default: the own one"},
    field(BulkField::data_cta)};
const StepKey kBarrierCta{
    {"barrier_cta", false, kText,
     "number in the cluster of the CTA with the mbarrier: an expression; any but the receiver is an error; default: "
     "the receiver"},
    field(BulkField::barrier_cta)};
const StepKey kReduction{{"op", true, kText, "add, min, max, inc, dec, and, or, xor", kReductions},
                         {Target::reduction}};
const StepKey kElement{{"type", true, kText, "type of the elements, e.g. f32", kScalarType}, {Target::element}};

// What an operation has that no key says.
void at_cluster_release(ProgramStep& step) {
  step.order = Order::release;
  step.scope = arch::Scope::cluster;
}
void at_cluster_acquire(ProgramStep& step) {
  step.order = Order::acquire;
  step.scope = arch::Scope::cluster;
}
void on_mbarrier(ProgramStep& step) {
  step.space = arch::Space::shared;
  step.width = arch::kMbarrierBytes;
  step.order = Order::relaxed;
  step.scope = arch::Scope::cta;
  step.one_lane = true;
}
void arrive_at_mbarrier(ProgramStep& step) {
  on_mbarrier(step);
  step.order = Order::release;
}
void wait_at_mbarrier(ProgramStep& step) {
  on_mbarrier(step);
  step.order = Order::acquire;
}
// A test changes nothing, and every lane needs its result.
void test_mbarrier(ProgramStep& step) {
  wait_at_mbarrier(step);
  step.one_lane = false;
}
void of_one_lane(ProgramStep& step) { step.one_lane = true; }
void of_all_threads(ProgramStep& step) { step.count = 0; }
void of_shared(ProgramStep& step) { step.space = arch::Space::shared; }
void fully_ordered(ProgramStep& step) { step.order = Order::acquire_release; }

// What has to hold between keys.
void check_threads(const MapReader& map, const ProgramStep& step) {
  if (step.count % arch::kWarpLanes != 0) map.fail("threads", "whole warps arrive: a multiple of 32 is expected");
}
void check_arrival(const MapReader& map, const ProgramStep& step) {
  if (map.has("to") && step.space == arch::Space::cluster) {
    map.fail("to", "an arrival in another CTA's shared memory returns nothing");
  }
}
const StepKey kSendBarrier{{"barrier", false, kText,
                            "offset in the receiver's shared memory of an mbarrier that counts the bytes: an "
                            "expression; default: none"},
                           field(BulkField::barrier)};
const StepKey kSendReduction{
    {"op", false, kText, "add, min, max, inc, dec, and, or, xor; default: what was there is overwritten", kReductions},
    {Target::reduction}};

void check_receivers(const MapReader& map, const ProgramStep&) {
  if (map.has("multicast") && map.has("cta")) {
    map.fail("multicast", "`cta` stands here too; the mask says who receives it");
  }
}
void check_reducing_send(const MapReader& map, const ProgramStep&) {
  if (map.has("op") == map.has("type")) return;
  throw InputError(map.where(), fmt::format("{}: op and type stand together", map.thing()),
                   "a reduction needs both: op: add, type: u32");
}

void check_levels(const MapReader& map, const ProgramStep&) {
  if (map.has("gpc") || map.has("gpu") || map.has("ugpu") || map.has("cpc")) return;
  throw InputError(map.where(), fmt::format("{}: none of the levels gpu, ugpu, gpc, cpc is given", map.thing()),
                   "as in: query_occupancy: {gpc: 8, to: clusters}");
}
StepKey ctas_of(const char* level, const char* meaning) { return {{level, false, kText, meaning}, number_or(0)}; }

std::vector<StepRow> make_rows() {
  return {
      StepRow("let", "names with expressions that they stand for; costs nothing", "none")
          .behind(kMap, json_schema(R"({"type": "object", "minProperties": 1,
                                        "additionalProperties": {"type": ["string", "number"]}})"))
          .by(compile_let),
      StepRow("set", "a name with the expression whose value it gets, and its type: {x: 2 * lane, type: u32}",
              "an instruction on the unit; default `int32`, `fp32` or `fp64` by type")
          .behind(kMap, json_schema(R"({"type": "object", "minProperties": 1, "maxProperties": 3,
                                        "properties": {"type": {"$ref": "#/$defs/set/properties/type"},
                                                       "unit": {"$ref": "#/$defs/set/properties/unit"}},
                                        "additionalProperties": {"type": ["string", "number"]}})"))
          .by(compile_set),
      StepRow("load", "a load from memory: global, shared, or shared by the cluster", "")
          .with({{{"to", true, kText | kList, "name, or list of names, that get what lies side by side from there on",
                   items(1, 16)}},
                 {{"type", false, kText, "type of each value, e.g. f32; may be left out where the name has one",
                   kScalarType}},
                 {{"at", true, kText, "address: an expression"}},
                 kAnySpace,
                 kRank,
                 {{"order", false, kText, "weak, relaxed or acquire; default weak", words("weak relaxed acquire")}},
                 kScope,
                 {{"combine", false, kText,
                   "add, min, max, bit_and, bit_or or bit_xor: `at` is an address of a group of GPUs, and a switch "
                   "combines what all of them have there",
                   words("add min max bit_and bit_or bit_xor")}}},
                kRankRules)
          .does(OpCode::load)
          .by(compile_load),
      StepRow("store", "a store to memory: global, shared, or shared by the cluster", "")
          .with(
              {{{"value", true, kText | kList,
                 "expression, or list of expressions whose values lie side by side from there on", items(1, 16)}},
               {{"type", false, kText,
                 "type of each value, e.g. f32; may be left out where the value is a name that has one", kScalarType}},
               {{"at", true, kText, "address: an expression"}},
               kAnySpace,
               kRank,
               kComplete,
               {{"order", false, kText, "weak, relaxed or release; default weak", words("weak relaxed release")}},
               kScope},
              kRankRules)
          .does(OpCode::store)
          .by(compile_store),
      StepRow("atomic", "an atomic operation, or a reduction, which returns nothing", "")
          .with({{{"op", true, kText, "add, min, max, and, or, xor, exchange, compare_exchange, increment or decrement",
                   words("add min max and or xor exchange compare_exchange increment decrement")}},
                 {{"type", false, kText, "type of the value, e.g. u32; f16x2 and bf16x2 take two values",
                   words("u32 s32 f32 u64 s64 f64 f16x2 bf16x2")}},
                 {{"at", true, kText, "address: an expression"}},
                 {{"value", true, kText | kList, "operand: an expression; two for f16x2 and bf16x2", items(1, 16)}},
                 {{"compare", false, kText, "what the old value must be, for compare_exchange: an expression"}},
                 {{"to", false, kText | kList,
                   "name that gets the old value; default: a reduction, which returns nothing", items(1, 16)}},
                 kSpace,
                 kRank,
                 kComplete,
                 {{"order", false, kText, "relaxed, acquire, release or acquire_release; default relaxed",
                   words("relaxed acquire release acquire_release")}},
                 kScope},
                kRankRules)
          .does(OpCode::atomic)
          .by(compile_atomic),
      StepRow("compute", "instructions on a unit, without a result", "that many instructions on the unit")
          .with({{{"unit", true, kText, "unit: fp32, int32, fp64, sfu, tensor", kUnits}},
                 {{"count", false, kInteger, "number of instructions; default 1", between(1, 1'000'000'000)}},
                 {{"latency", false, kInteger | kQuantity, "cycles to the result beside the unit's own; default 0",
                   measured(Measure::cycles, 0)}}})
          .does(OpCode::compute)
          .by(compile_compute),
      StepRow("special", "reads a special register", "")
          .with({{{"to", true, kText, "name that gets the value"}},
                 {{"register", true, kText,
                   "name of the register: clock, sm, sms, warp_slot, cta_slot, cta_id_x, cta_id_y, cta_id_z, grid_x, "
                   "grid_y, grid_z, block_x, block_y, block_z, cga_id, cga_cta_id, cga_size, cga_x, "
                   "cga_y, cga_z, gpc_local_cga_id, task_id, queue_position, cga_memory; tpc, cpc, gpc, ugpu, and "
                   "virtual_sm, virtual_tpc, virtual_cpc, virtual_gpc, virtual_ugpu, local_memory_block; "
                   "trap_gpc_local_cga_id, "
                   "trap_cga_cta_id; gpu_cga_id, gpu_cga_rank, gpu_cga_size, gpu_cga_x, gpu_cga_y, gpu_cga_z, and the "
                   "same with ugpu, gpc and cpc in place of gpu",
                   words("clock sm sms warp_slot cta_slot cta_id_x cta_id_y cta_id_z grid_x grid_y grid_z block_x "
                         "block_y block_z cga_id cga_cta_id cga_size cga_x cga_y cga_z gpc_local_cga_id task_id "
                         "queue_position cga_memory tpc cpc gpc ugpu virtual_sm virtual_tpc virtual_cpc virtual_gpc "
                         "virtual_ugpu local_memory_block trap_gpc_local_cga_id trap_cga_cta_id cpc_cga_id "
                         "cpc_cga_rank cpc_cga_size "
                         "cpc_cga_x cpc_cga_y cpc_cga_z gpc_cga_id gpc_cga_rank gpc_cga_size gpc_cga_x gpc_cga_y "
                         "gpc_cga_z ugpu_cga_id ugpu_cga_rank ugpu_cga_size ugpu_cga_x ugpu_cga_y ugpu_cga_z "
                         "gpu_cga_id gpu_cga_rank gpu_cga_size gpu_cga_x gpu_cga_y gpu_cga_z")}},
                 {{"type", false, kText, "u32 or u64; default u32", words("u32 u64")}}})
          .does(OpCode::special)
          .by(compile_special),
      StepRow("copy_async", "an asynchronous copy of each lane, from global to shared memory", "")
          .with({{{"from", true, kText, "address in global memory: an expression"}},
                 {{"to", true, kText, "offset in shared memory: an expression"}},
                 {{"bytes", true, kInteger | kQuantity, "bytes of each lane: 4, 8 or 16",
                   json_schema(R"({"anyOf": [{"type": "integer", "enum": [4, 8, 16]}, {"type": "string"}]})")}}})
          .does(OpCode::async_copy)
          .by(compile_copy_async),
      StepRow("wait_async", "number of groups of asynchronous copies that may be open when the warp goes on", "")
          .behind(kInteger, kGroups, {Target::count})
          .does(OpCode::async_wait),
      StepRow("barrier", "waits at a barrier of the CTA; the word alone: number 0, all threads", "")
          .with({{{"number", false, kText, "number of the barrier: an expression, the same for all lanes; default 0"},
                  {Target::barrier}},
                 {{"threads", false, kInteger, "threads that it waits for, a multiple of 32; default: all of the CTA",
                   between(arch::kWarpLanes, 65'536, arch::kWarpLanes)},
                  {Target::count}}})
          .alone()
          .does(OpCode::barrier, of_all_threads)
          .checked(check_threads),
      StepRow(
          "grid_barrier",
          "waits until all CTAs of a cooperative grid have arrived: a barrier of the CTA, then one thread counts the "
          "CTA in memory and looks there until all have been counted, then a barrier of the CTA",
          "two barriers, two fences, an atomic, and loads until all have arrived")
          .with({{{"at", true, kText,
                   "address of four bytes of global memory, 0 at first, that only grid barriers of this grid use: an "
                   "expression, the same for all lanes"}}})
          .by(compile_grid_barrier),
      StepRow("commit_async", "the asynchronous copies since the last commit become a group", "")
          .alone()
          .does(OpCode::async_commit),
      StepRow("fence", "orders the warp's accesses before it and after it", "")
          .with({{{"order", false, kText, "acquire, release or acquire_release; default acquire_release",
                   words("acquire release acquire_release")},
                  {Target::order}},
                 kScope})
          .does(OpCode::fence, fully_ordered),
      StepRow("cluster_barrier", "arrives at the barrier of the cluster, and waits there", "two operations")
          .with({kCgaLevel})
          .alone()
          .by(compile_cluster_barrier),
      StepRow("cluster_arrive", "arrives at the barrier of the cluster; the word alone: with order release", "")
          .with({kArriveOrder, kCgaLevel})
          .alone()
          .does(OpCode::cluster_arrive, at_cluster_release),
      StepRow("cluster_wait", "waits until all of the cluster have arrived; the word alone: with order acquire", "")
          .with({kWaitOrder, kCgaLevel})
          .alone()
          .does(OpCode::cluster_wait, at_cluster_acquire),
      StepRow("mbarrier_init", "eight bytes of shared memory become an mbarrier", "")
          .with({kAtMbarrier,
                 {{"count", true, kText, "arrivals that each phase expects, from 1 to 1048575: an expression"},
                  number_or(1)},
                 kLanes})
          .does(OpCode::mbarrier_init, on_mbarrier),
      StepRow("mbarrier_invalidate", "an mbarrier ceases to be one", "")
          .with({kAtMbarrier, kLanes})
          .does(OpCode::mbarrier_invalidate, on_mbarrier),
      StepRow("mbarrier_arrive", "arrives at an mbarrier", "")
          .with(
              {kAtMbarrier,
               kMbarrierRank,
               {{"count", false, kText, "arrivals: an expression; default 1"}, number_or(1)},
               {{"expect", false, kText, "bytes that the phase expects beside those before: an expression; default 0"},
                number_or(0)},
               {{"to", false, kText, "name that gets the parity of the phase in which it arrives; not with rank"},
                {Target::new_name}},
               kArriveOrder,
               {{"scope", false, kText,
                 "how far the order reaches: cta, cluster, gpu, system; default cta, with rank cluster", kScopes},
                {Target::scope}},
               kLanes},
              R"({"not": {"required": ["rank", "to"]}})")
          .does(OpCode::mbarrier_arrive, arrive_at_mbarrier)
          .checked(check_arrival),
      StepRow("mbarrier_expect", "an mbarrier's phase expects more bytes", "")
          .with({kAtMbarrier, kMbarrierRank, kMbarrierBytes, kLanes})
          .does(OpCode::mbarrier_expect, on_mbarrier),
      StepRow("mbarrier_complete", "bytes that an mbarrier's phase expects have come", "")
          .with({kAtMbarrier, kMbarrierRank, kMbarrierBytes, kLanes})
          .does(OpCode::mbarrier_complete, on_mbarrier),
      StepRow("mbarrier_wait", "waits until an mbarrier's phase has completed", "")
          .with({kAtMbarrier, kParity, kWaitOrder, kMbarrierScope, kLanes})
          .does(OpCode::mbarrier_wait, wait_at_mbarrier),
      StepRow("mbarrier_test", "asks whether an mbarrier's phase has completed", "")
          .with({kAtMbarrier,
                 kParity,
                 {{"to", true, kText, "name that gets 1 if the phase has completed, else 0"}, {Target::new_name}},
                 kWaitOrder,
                 kMbarrierScope,
                 {{"lanes", false, kText,
                   "all or first: which of the lanes that take part do it, each for itself; default all",
                   words("first all")},
                  {Target::lanes}}})
          .does(OpCode::mbarrier_test, test_mbarrier),
      StepRow("release_shared", "gives back the end of the CTA's shared memory", "")
          .with({{{"from", true, kText,
                   "offset from which on the shared memory is given back: an expression, the same for all lanes"},
                  {Target::uniform_address}}})
          .does(OpCode::release_shared, of_shared),
      StepRow("tensor_load", "a box of a tensor comes into shared memory, of one CTA or of several", "")
          .with({kTensor, kFourRows, kCoordinates, kOffsets, kToShared, kBarrier, kMulticast, kReceiver, kBarrierCta,
                 kCarried, kPriority})
          .asks(OpCode::tensor_load, BulkKind::load)
          .checked(check_receivers),
      StepRow("tensor_store", "a box of a tensor is written from shared memory", "")
          .with({kTensor, kFourRows, kCoordinates, kOffsets, kFromShared, kCarried, kPriority})
          .asks(OpCode::tensor_store, BulkKind::store),
      StepRow("tensor_reduce", "a box of a tensor is combined with what shared memory holds", "")
          .with({kTensor, kCoordinates, kOffsets, kFromShared, kReduction, kCarried, kPriority})
          .asks(OpCode::tensor_reduce, BulkKind::reduce),
      StepRow("tensor_prefetch", "a box of a tensor comes into the L2", "")
          .with({kTensor, kFourRows, kCoordinates, kOffsets, kCarried, kPriority})
          .asks(OpCode::tensor_prefetch, BulkKind::prefetch),
      StepRow("bulk_load", "a block of bytes comes into shared memory, of one CTA or of several", "")
          .with({kFromGlobal, kToShared, kBytes, kBarrier, kMulticast, kReceiver, kBarrierCta, kPriority})
          .asks(OpCode::bulk_load, BulkKind::load)
          .checked(check_receivers),
      StepRow("bulk_store", "a block of bytes is written from shared memory", "")
          .with({kFromShared, to_global(BulkField::global), kBytes, kByteMask, kPriority})
          .asks(OpCode::bulk_store, BulkKind::store),
      StepRow("bulk_reduce", "a block of elements is combined with what shared memory holds", "")
          .with({kFromShared, to_global(BulkField::global), kBytes, kReduction, kElement})
          .asks(OpCode::bulk_reduce, BulkKind::reduce),
      StepRow("bulk_prefetch", "a block of bytes comes into the L2", "")
          .with({kFromGlobal, kBytes})
          .asks(OpCode::bulk_prefetch, BulkKind::prefetch),
      StepRow("bulk_copy", "a block of bytes is copied from global memory to global memory", "")
          .with({kFromGlobal, to_global(BulkField::to), kBytes})
          .asks(OpCode::bulk_copy, BulkKind::copy),
      StepRow("bulk_send", "a block of bytes goes into the shared memory of a CTA of the cluster", "")
          .with({kFromShared,
                 {kToShared.key, field(BulkField::destination)},
                 kReceiver,
                 kBytes,
                 kSendBarrier,
                 kBarrierCta,
                 kSendReduction,
                 {{"type", false, kText, "with op: type of the elements, e.g. u32", kScalarType}, {Target::element}}})
          .asks(OpCode::bulk_send, BulkKind::send)
          .checked(check_reducing_send),
      StepRow("tensor_fetch", "a tensor's descriptor comes into the cache of the tensor memory access unit", "")
          .with({kTensor})
          .asks(OpCode::tensor_fetch, BulkKind::fetch),
      StepRow("tensor_copy", "a box of a tensor goes to global memory, as a load would put it into shared memory", "")
          .with({kTensor, kFourRows, kCoordinates, kOffsets, to_global(BulkField::to), kCarried, kPriority})
          .asks(OpCode::tensor_copy, BulkKind::copy),
      StepRow("tensor_send",
              "a box of a tensor, as it lies in shared memory, goes into the shared memory of a CTA of the cluster", "")
          .with({kTensor,
                 kFromShared,
                 {kToShared.key, field(BulkField::destination)},
                 kReceiver,
                 kSendBarrier,
                 kBarrierCta,
                 kSendReduction,
                 kCarried})
          .asks(OpCode::tensor_send, BulkKind::send),
      StepRow("replace_tensor", "a field of a descriptor is written, in global or in shared memory", "a store")
          .with(
              {kTensorPlace,
               {{"field", true, kText, "address, rank, type, interleave, swizzle, size, stride, box, traversal or fill",
                 words("address rank type interleave swizzle size stride box traversal fill")}},
               {{"dimension", false, kInteger, "of size, stride, box and traversal: 0 to 4", between(0, 4)}},
               {{"value", true, kText, "number, as the table of the descriptor has it: an expression"}},
               kSpace})
          .does(OpCode::store)
          .by(compile_replace),
      StepRow(
          "proxy_fence",
          "what the warp, and before a barrier the others of the CTA, have written to shared memory becomes visible "
          "to the tensor memory access unit",
          "")
          .alone()
          .does(OpCode::proxy_fence),
      StepRow("elect", "chooses one of the lanes that take part", "")
          .with({{{"to", true, kText, "name that gets 1 in the chosen lane, and 0 in the others"}, {Target::new_name}}})
          .does(OpCode::elect),
      StepRow("commit_bulk",
              "the lanes' stores, reductions, copies and sends by the tensor memory access unit since the last commit "
              "become a group",
              "")
          .alone()
          .does(OpCode::bulk_commit),
      StepRow("wait_bulk",
              "number of groups of tensor_store, tensor_reduce, tensor_copy, tensor_send, bulk_store, bulk_reduce, "
              "bulk_copy and bulk_send that may be open when the warp goes on; or a map",
              "")
          .with({{{"groups", true, kInteger, "number of groups that may be open when the warp goes on", kGroups},
                  {Target::count}},
                 {{"read", false, kFlag,
                   "true: a group is over once its sources have been read; default false: once all is written"},
                  {Target::read}}})
          .behind(kInteger, kGroups, {Target::count})
          .does(OpCode::bulk_wait),
      StepRow("drain_bulk", "waits until all requests are complete that the SM made before", "")
          .alone()
          .does(OpCode::bulk_drain, of_one_lane),
      StepRow("fence_tensor",
              "descriptors that have been written are read anew by later requests; the word alone: all descriptors", "")
          .with({{{"tensor", false, kText,
                   "name of a tensor, or the address of its descriptor: an expression; default: all"},
                  {Target::tensor}}})
          .alone()
          .does(OpCode::tensor_fence, of_one_lane),
      StepRow("launch", "each lane that takes part launches a task", "")
          .with(
              {{{"kernel", true, kText, "name of a kernel of the list `kernels`"}},
               {{"grid", false, kText | kList,
                 "CTAs: an expression, or a list of up to three (x, y, z); default: the kernel's own", items(1, 3)}},
               {{"args", false, kText | kList,
                 "expression, or list of up to six: what the child finds at `kernarg`, in 64 bits each",
                 items(1, arch::kChildArgs)}},
               {{"stream", false, kText,
                 "number of the stream, 0 or as stream_create gave it: an expression; default 0"}},
               {{"mode", false, kText,
                 "stream (after what was launched into the stream before), fire_and_forget (at once) or tail (once "
                 "the launching grid and all else that it launched have completed); default stream",
                 words("stream fire_and_forget tail")}},
               {{"priority", false, kInteger, "priority: larger is more urgent; default: that of the launching task",
                 between(-1000, 1000)}},
               {{"to", false, kText,
                 "name that gets what the launch is known by, as u64: 0 if no record was free, for which a launch "
                 "without a name is a fault"}},
               {{"queue", false, kText,
                 "name of a queue of the list `queues`: a queue task, which starts a CTA for each entry of it"}},
               {{"open", false, kFlag,
                 "of a queue task: true: it ends only after a queue_close, however empty its queue is; default false"}},
               {{"insert", false, kText, "tail or head: where it enters the list of its priority; default tail",
                 words("tail head")}}})
          .does(OpCode::launch_child)
          .by(compile_launch),
      StepRow("wait_children",
              "waits until tasks have completed that the CTA has launched, with all their descendants; the word alone: "
              "all of them",
              "")
          .with({{{"stream", false, kText, "those of the stream with that number: an expression"}},
                 {{"launch", false, kText, "that of the launch which gave that value: an expression; 0: nothing"}}})
          .alone()
          .does(OpCode::wait_children)
          .by(compile_wait_children),
      StepRow("launch_dependents",
              "the CTA keeps the next kernel of its stream no longer from starting, if that one is `programmatic`", "")
          .alone()
          .does(OpCode::launch_dependents),
      StepRow("grid_dependency_wait",
              "waits until the kernel before it in its stream has completed, and sees what that has written", "")
          .alone()
          .does(OpCode::grid_dependency_wait),
      StepRow("stream_create",
              "name that gets the number of a new stream of the CTA's, as u32; 4294967295: there is no room for one",
              "")
          .behind(kText, kExpression, {Target::new_name})
          .does(OpCode::stream_create),
      StepRow("stream_destroy", "number of a stream of the CTA's, that is not used any more: an expression", "")
          .behind(kText, kExpression, number_or(0))
          .does(OpCode::stream_destroy),
      StepRow("append", "each lane that takes part appends an entry to a queue", "")
          .with({{{"queue", true, kText, "name of a queue of the list `queues`"}},
                 {{"value", true, kText | kList,
                   "expression, or list of up to seven: what the CTA of the entry finds at `kernarg`, in 64 bits each",
                   items(1, arch::kQueueEntryWords)}}})
          .does(OpCode::queue_append)
          .by(compile_append),
      StepRow("queue_close",
              "name of a queue of the list `queues`: its queue task is not held open any more, and ends once the queue "
              "is empty and all its CTAs have ended",
              "")
          .behind(kText, {})
          .does(OpCode::queue_close)
          .by(compile_queue_close),
      StepRow("event_create", "name that gets the handle of a new event, as u64; 0: no record was free", "")
          .behind(kText, {})
          .does(OpCode::event_create)
          .by(compile_event_create),
      StepRow("event_destroy", "handle of an event that is not used any more: an expression", "")
          .behind(kText, kExpression)
          .does(OpCode::event_destroy)
          .by(compile_event_destroy),
      StepRow("event_record",
              "each lane that takes part records an event: it comes to pass once what the stream has so far has "
              "completed",
              "")
          .with({kEvent, kMarked})
          .does(OpCode::event_record)
          .by(compile_event_mark),
      StepRow("stream_wait",
              "each lane that takes part makes a stream wait for an event: what is launched into it from now on starts "
              "once the event has come to pass as it was recorded last; at once if it never was",
              "")
          .with({kEvent, kMarked})
          .does(OpCode::stream_wait)
          .by(compile_event_mark),
      StepRow(
          "query_occupancy",
          "asks the distributor how many clusters of the own kernel the machine holds at once, if nothing else runs",
          "")
          .with({ctas_of("cpc",
                         "CTAs of a CPC_CGA: an expression, here and below the same for all lanes; default 0, no "
                         "such level"),
                 ctas_of("gpc", "CTAs of a GPC_CGA: an expression; default 0"),
                 ctas_of("ugpu", "CTAs of a uGPU_CGA: an expression; default 0"),
                 ctas_of("gpu", "CTAs of a GPU_CGA: an expression; default 0"),
                 {{"mode", false, kText, "load_balancing or multicast; default load_balancing",
                   words("load_balancing multicast")},
                  {Target::mode}},
                 {{"to", true, kText,
                   "name that gets the number of outermost clusters, as u32; 0: none fits, or there is no such shape"},
                  {Target::new_name}}})
          .does(OpCode::query_occupancy)
          .checked(check_levels),
      StepRow("accumulators", "names of accumulators, with their columns: {acc: {n: 128}}", "none")
          .behind(kMap, json_schema(R"({"type": "object", "minProperties": 1,
                                        "additionalProperties": {"$ref": "#/$defs/accumulators"}})"))
          .by(compile_accumulators),
      StepRow("zero", "name of accumulators that become 0", "one on `int32`").behind(kText, {}).by(compile_zero),
      StepRow("matmul", "the warp's share of a matrix multiply from shared memory", "")
          .with(
              {{{"into", true, kText, "name of the accumulators, 16 rows of n columns in f32"}},
               {{"type", false, kText, "type of the elements of A and B: f16 or bf16; default f16", words("f16 bf16")}},
               {{"n", false, kInteger,
                 "columns: a multiple of 8, up to 256; may be left out where `accumulators` says it",
                 between(8, arch::kMaxTileColumns, 8)}},
               {{"k", true, kInteger, "columns of A and rows of B: a multiple of 16", between(16, 4096, 16)}},
               {{"a", true, kText,
                 "offset of this warp's 16 rows of A in shared memory: an expression, the same for all lanes"}},
               {{"b", true, kText, "offset of B in shared memory: an expression, the same for all lanes"}},
               {{"a_pitch", false, kInteger | kQuantity, "bytes from one row of A to the next; default: 2 k",
                 kBytesOfAccess}},
               {{"b_pitch", false, kInteger | kQuantity,
                 "bytes from one row of B to the next, transposed: from one column; default: 2 n, transposed: 2 k",
                 kBytesOfAccess}},
               {{"a_group", false, kInteger | kQuantity,
                 "bytes from one group of eight rows of A to the next; default: 8 pitches", kBytesOfAccess}},
               {{"b_group", false, kInteger | kQuantity,
                 "the same of B; transposed: of eight columns; default: 8 pitches", kBytesOfAccess}},
               {{"a_swizzle", false, kText,
                 "swizzle with which A lies in shared memory: none, 32, 64, 128 … as of tensors; default none",
                 kSwizzles}},
               {{"b_swizzle", false, kText,
                 "swizzle with which B lies in shared memory: none, 32, 64, 128 … as of tensors; default none",
                 kSwizzles}},
               {{"b_transposed", false, kFlag, "true: columns of B are contiguous; default false: rows are"}},
               {{"async", false, kFlag,
                 "true: the warp goes on at once, and waits for it with commit_matmul and wait_matmul; default "
                 "false"}}})
          .does(OpCode::matmul)
          .by(compile_matmul),
      StepRow("commit_matmul", "the warp's asynchronous matmuls since the last commit become a group", "")
          .alone()
          .does(OpCode::matmul_commit),
      StepRow("wait_matmul", "number of groups of asynchronous matmuls, 0 to 7, that may be open when the warp goes on",
              "")
          .behind(kInteger, between(0, arch::kMatmulGroups - 1), {Target::count})
          .does(OpCode::matmul_wait),
      StepRow("store_tile", "stores of all accumulators of the warp", "a store for two registers")
          .with({{{"from", true, kText, "name of the accumulators"}},
                 {{"at", true, kText, "address of this warp's first row: an expression, the same for all lanes"}},
                 {{"pitch", false, kInteger | kQuantity, "bytes from one row to the next; default: those of n elements",
                   kBytesOfAccess}},
                 {{"type", false, kText, "type in memory: f32, f16 or bf16; default f32", words("f32 f16 bf16")}},
                 {{"space", false, kText, "global or shared; default global", words("global shared")}}})
          .does(OpCode::store)
          .by(compile_store_tile),
      StepRow("loop", "steps that are repeated for the values of a counter", "none")
          .with({{{"var", true, kText, "name of the counter"}},
                 {{"from", false, kText, "first value: an expression, the same for all lanes; default 0"}},
                 {{"to", true, kText,
                   "value that ends the loop and is not reached: an expression, the same for all lanes"}},
                 {{"step", false, kInteger, "distance of the values; negative: downwards; default 1",
                   between(-1'000'000'000, 1'000'000'000)}},
                 {{"do", true, kList, "list of steps", kSteps}}})
          .by(compile_loop),
      StepRow("while", "steps that are repeated while a condition holds, in each lane", "one on `int32` per test")
          .with({{{"cond", true, kText, "condition: an expression; it holds unless it is 0"}},
                 {{"do", true, kList, "list of steps, of the lanes in which the condition has always held", kSteps}}})
          .by(compile_while),
      StepRow("if", "steps of the lanes in which a condition holds, and of the others",
              "one on `int32` if lanes can differ, else none")
          .with({{{"cond", true, kText, "condition: an expression; it holds unless it is 0"}},
                 {{"then", true, kList, "list of steps, of the lanes in which it holds", kSteps}},
                 {{"else", false, kList, "list of steps, of the other lanes", kSteps}}})
          .by(compile_if),
      StepRow("roles", "list of roles: warps with steps of their own; warps without a role do nothing", "none")
          .behind(kList, list_of("role", 1))
          .by(compile_roles),
      StepRow("exit", "the lanes end", "one on `int32`").alone().by(compile_exit),
  };
}

// How a step is written: its required keys, and the others in brackets.
std::string form_of(const StepRow& row) {
  std::vector<std::string> forms;
  if (!row.spec.keys.empty()) {
    std::vector<std::string> required;
    std::vector<std::string> others;
    for (const KeySpec& key : row.spec.keys) (key.required ? required : others).emplace_back(key.name);
    std::string keys = fmt::format("{}", fmt::join(required, ", "));
    if (!others.empty()) keys += fmt::format("{}[{}]", keys.empty() ? "" : ", ", fmt::join(others, ", "));
    forms.push_back(fmt::format("{}: {{{}}}", row.name, keys));
  }
  const unsigned behind = row.spec.keys.empty() ? row.kinds : row.kinds & ~static_cast<unsigned>(kMap);
  if ((behind & kMap) != 0) forms.push_back(fmt::format("{}: {{…}}", row.name));
  if ((behind & kList) != 0) forms.push_back(fmt::format("{}: […]", row.name));
  if ((behind & (kText | kInteger)) != 0) forms.push_back(fmt::format("{}: …", row.name));
  if (row.word) forms.emplace_back(row.name);
  return fmt::format("`{}`", fmt::join(forms, "`, `"));
}

// What a warp issues for the step.
std::string cost_of(const StepRow& row) {
  if (*row.cost != '\0') return row.cost;
  const arch::OperationRow& operation = arch::row_of(row.code);
  if (operation.unit == arch::Unit::none) return "an operation";
  return fmt::format("an operation on `{}`", arch::unit_name(operation.unit));
}

}  // namespace

StepRow& StepRow::with(std::vector<StepKey> keys, const char* rules) {
  kinds |= kMap;
  spec.name = fmt::format("{}_step", name);
  spec.rules = rules;
  for (StepKey& one : keys) {
    spec.keys.push_back(one.key);
    operands.push_back(one.operand);
  }
  return *this;
}

StepRow& StepRow::behind(unsigned kinds_of_it, Form its_form, Operand operand) {
  kinds |= kinds_of_it;
  form = its_form;
  value = operand;
  return *this;
}

StepRow& StepRow::alone() {
  word = true;
  return *this;
}

StepRow& StepRow::does(arch::OpCode operation, void (*prepare_step)(ProgramStep&)) {
  code = operation;
  prepare = prepare_step;
  return *this;
}

StepRow& StepRow::asks(arch::OpCode operation, arch::BulkKind kind) {
  code = operation;
  bulk = kind;
  return *this;
}

StepRow& StepRow::checked(void (*check_step)(const MapReader&, const ProgramStep&)) {
  check = check_step;
  return *this;
}

StepRow& StepRow::by(StepHandler function) {
  handler = function;
  return *this;
}

const std::vector<StepRow>& step_rows() {
  static const std::vector<StepRow> kRows = make_rows();
  return kRows;
}

const MapSpec& step_spec() {
  static const MapSpec kSpec = [] {
    MapSpec spec{"step", {}, R"({"minProperties": 1, "maxProperties": 1})"};
    for (const StepRow& row : step_rows()) {
      if (row.kinds == 0) continue;
      Form form = row.form;
      if (!row.spec.keys.empty()) form.map = row.spec.name.c_str();
      spec.keys.push_back({row.name, false, row.kinds, row.meaning, form});
    }
    return spec;
  }();
  return kSpec;
}

const std::vector<std::string>& step_words() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> words;
    for (const StepRow& row : step_rows()) {
      if (row.word) words.emplace_back(row.name);
    }
    return words;
  }();
  return kWords;
}

const MapSpec& set_spec() {
  static const MapSpec kSpec{
      "set",
      {
          {"type", false, kText, "type of the value, e.g. f32; may be left out where the name has one", kScalarType},
          {"unit", false, kText, "unit that computes it: fp32, int32, fp64, sfu, tensor; default by type", kUnits},
      }};
  return kSpec;
}

const MapSpec& accumulators_spec() {
  static const MapSpec kSpec{"accumulators",
                             {{"n", true, kInteger, "columns: a multiple of 8, up to 256; takes n / 2 registers",
                               between(8, arch::kMaxTileColumns, 8)}}};
  return kSpec;
}

const MapSpec& role_spec() {
  static const MapSpec kSpec{"role",
                             {
                                 {"warps", true, kInteger | kList, "warp of the CTA, or list of the first and the last",
                                  at_least(0).list(1, 2)},
                                 {"do", true, kList, "list of steps", kSteps},
                             }};
  return kSpec;
}

std::vector<const MapSpec*> program_specs() {
  std::vector<const MapSpec*> specs{&step_spec(), &set_spec()};
  for (const StepRow& row : step_rows()) {
    if (!row.spec.keys.empty()) specs.push_back(&row.spec);
  }
  specs.push_back(&accumulators_spec());
  specs.push_back(&role_spec());
  return specs;
}

std::string steps_as_markdown() {
  std::string text = "| step | what it does | cost |\n| --- | --- | --- |\n";
  for (const StepRow& row : step_rows()) {
    text += fmt::format("| {} | {} | {} |\n", form_of(row), row.meaning, cost_of(row));
  }
  return text;
}

std::string steps_as_text() {
  std::string text;
  for (const StepRow& row : step_rows()) {
    text += fmt::format("{}\n    {}\n", row.name, row.meaning);
    for (const KeySpec& key : row.spec.keys) {
      text += fmt::format("    {}{}: {}\n", key.name, key.required ? " (required)" : "", key.meaning);
    }
  }
  return text;
}

}  // namespace heddle::program
