// The tables of programs and of memory.
#include "scenario/schema.h"

namespace heddle::workload {
namespace {

constexpr KeySpec kSpace{"space", false, kText,
                         "global, shared or cluster (shared memory of a CTA of the cluster); default global"};
constexpr KeySpec kRank{"rank", false, kText,
                        "number in the cluster of the CTA whose shared memory it is: an expression; only, and always, "
                        "with space: cluster"};
constexpr KeySpec kScope{"scope", false, kText, "how far the order reaches: cta, cluster, gpu, system; default gpu"};

}  // namespace

const MapSpec& step_spec() {
  static const MapSpec kSpec{
      "step",
      {
          {"let", false, kMap, "names with expressions that they stand for; costs nothing"},
          {"set", false, kMap,
           "a name with the expression whose value it gets, and its type: {x: 2 * lane, type: u32}"},
          {"load", false, kMap, "a load from memory: global, shared, or shared by the cluster"},
          {"store", false, kMap, "a store to memory: global, shared, or shared by the cluster"},
          {"atomic", false, kMap, "an atomic operation, or a reduction, which returns nothing"},
          {"compute", false, kMap, "instructions on a unit, without a result"},
          {"special", false, kMap, "reads a special register"},
          {"copy_async", false, kMap, "an asynchronous copy of each lane, from global to shared memory"},
          {"wait_async", false, kInteger,
           "number of groups of asynchronous copies that may be open when the warp goes on"},
          {"barrier", false, kMap, "waits at a barrier of the CTA; the word alone: number 0, all threads"},
          {"fence", false, kMap, "orders the warp's accesses before it and after it"},
          {"cluster_arrive", false, kMap, "arrives at the barrier of the cluster; the word alone: with order release"},
          {"cluster_wait", false, kMap,
           "waits until all of the cluster have arrived; the word alone: with order acquire"},
          {"mbarrier_init", false, kMap, "eight bytes of shared memory become an mbarrier"},
          {"mbarrier_invalidate", false, kMap, "an mbarrier ceases to be one"},
          {"mbarrier_arrive", false, kMap, "arrives at an mbarrier"},
          {"mbarrier_expect", false, kMap, "an mbarrier's phase expects more bytes"},
          {"mbarrier_complete", false, kMap, "bytes that an mbarrier's phase expects have come"},
          {"mbarrier_wait", false, kMap, "waits until an mbarrier's phase has completed"},
          {"mbarrier_test", false, kMap, "asks whether an mbarrier's phase has completed"},
          {"release_shared", false, kMap, "gives back the end of the CTA's shared memory"},
          {"tensor_load", false, kMap, "a box of a tensor comes into shared memory, of one CTA or of several"},
          {"tensor_store", false, kMap, "a box of a tensor is written from shared memory"},
          {"tensor_reduce", false, kMap, "a box of a tensor is combined with what shared memory holds"},
          {"tensor_prefetch", false, kMap, "a box of a tensor comes into the L2"},
          {"bulk_load", false, kMap, "a block of bytes comes into shared memory, of one CTA or of several"},
          {"bulk_store", false, kMap, "a block of bytes is written from shared memory"},
          {"bulk_reduce", false, kMap, "a block of elements is combined with what shared memory holds"},
          {"bulk_prefetch", false, kMap, "a block of bytes comes into the L2"},
          {"bulk_copy", false, kMap, "a block of bytes is copied from global memory to global memory"},
          {"bulk_send", false, kMap, "a block of bytes goes into the shared memory of a CTA of the cluster"},
          {"wait_bulk", false, kInteger | kMap,
           "number of groups of tensor_store, tensor_reduce, bulk_store, bulk_reduce, bulk_copy and bulk_send that may "
           "be open when the warp goes on; or a map"},
          {"fence_tensor", false, kMap,
           "descriptors that have been written are read anew by later requests; the word alone: all descriptors"},
          {"launch", false, kMap, "each lane that takes part launches a task"},
          {"stream_create", false, kText, "name that gets the number of a new stream of the CTA's, as u32"},
          {"stream_destroy", false, kText, "number of a stream of the CTA's, that is not used any more: an expression"},
          {"append", false, kMap, "each lane that takes part appends an entry to a queue"},
          {"accumulators", false, kMap, "names of accumulators, with their columns: {acc: {n: 128}}"},
          {"zero", false, kText, "name of accumulators that become 0"},
          {"matmul", false, kMap, "the warp's share of a matrix multiply from shared memory"},
          {"store_tile", false, kMap, "stores of all accumulators of the warp"},
          {"loop", false, kMap, "steps that are repeated for the values of a counter"},
          {"while", false, kMap, "steps that are repeated while a condition holds, in each lane"},
          {"if", false, kMap, "steps of the lanes in which a condition holds, and of the others"},
          {"roles", false, kList, "list of roles: warps with steps of their own; warps without a role do nothing"},
      }};
  return kSpec;
}

// The keys of `set` beside the name.
const MapSpec& set_spec() {
  static const MapSpec kSpec{
      "set",
      {
          {"type", false, kText, "type of the value, e.g. f32; may be left out where the name has one"},
          {"unit", false, kText, "unit that computes it: fp32, int32, fp64, sfu, tensor; default by type"},
      }};
  return kSpec;
}

const MapSpec& load_step_spec() {
  static const MapSpec kSpec{
      "load_step",
      {
          {"to", true, kText | kList, "name, or list of names, that get what lies side by side from there on"},
          {"type", false, kText, "type of each value, e.g. f32; may be left out where the name has one"},
          {"at", true, kText, "address: an expression"},
          kSpace,
          kRank,
          {"order", false, kText, "weak, relaxed or acquire; default weak"},
          kScope,
      }};
  return kSpec;
}

const MapSpec& store_step_spec() {
  static const MapSpec kSpec{
      "store_step",
      {
          {"value", true, kText | kList,
           "expression, or list of expressions whose values lie side by side from there on"},
          {"type", false, kText,
           "type of each value, e.g. f32; may be left out where the value is a name that has one"},
          {"at", true, kText, "address: an expression"},
          kSpace,
          kRank,
          {"order", false, kText, "weak, relaxed or release; default weak"},
          kScope,
      }};
  return kSpec;
}

const MapSpec& atomic_step_spec() {
  static const MapSpec kSpec{
      "atomic_step",
      {
          {"op", true, kText, "add, min, max, and, or, xor, exchange, compare_exchange, increment or decrement"},
          {"type", false, kText, "type of the value, e.g. u32; f16x2 and bf16x2 take two values"},
          {"at", true, kText, "address: an expression"},
          {"value", true, kText | kList, "operand: an expression; two for f16x2 and bf16x2"},
          {"compare", false, kText, "what the old value must be, for compare_exchange: an expression"},
          {"to", false, kText | kList, "name that gets the old value; default: a reduction, which returns nothing"},
          kSpace,
          kRank,
          {"order", false, kText, "relaxed, acquire, release or acquire_release; default relaxed"},
          kScope,
      }};
  return kSpec;
}

const MapSpec& compute_step_spec() {
  static const MapSpec kSpec{
      "compute_step",
      {
          {"unit", true, kText, "unit: fp32, int32, fp64, sfu, tensor"},
          {"count", false, kInteger, "number of instructions; default 1"},
          {"latency", false, kInteger | kQuantity, "cycles to the result beside the unit's own; default 0"},
      }};
  return kSpec;
}

const MapSpec& special_step_spec() {
  static const MapSpec kSpec{
      "special_step",
      {
          {"to", true, kText, "name that gets the value"},
          {"register", true, kText,
           "name of the register: clock, sm, sms, warp_slot, cta_slot, cta_id_x, cta_id_y, cta_id_z, grid_x, "
           "grid_y, grid_z, block_x, block_y, block_z, cga_id, cga_cta_id, cga_size, cga_x, "
           "cga_y, cga_z, gpc_local_cga_id, task_id, queue_position, cga_memory"},
          {"type", false, kText, "u32 or u64; default u32"},
      }};
  return kSpec;
}

const MapSpec& copy_async_step_spec() {
  static const MapSpec kSpec{"copy_async_step",
                             {
                                 {"from", true, kText, "address in global memory: an expression"},
                                 {"to", true, kText, "offset in shared memory: an expression"},
                                 {"bytes", true, kInteger | kQuantity, "bytes of each lane: 4, 8 or 16"},
                             }};
  return kSpec;
}

const MapSpec& barrier_step_spec() {
  static const MapSpec kSpec{
      "barrier_step",
      {
          {"number", false, kText, "number of the barrier: an expression, the same for all lanes; default 0"},
          {"threads", false, kInteger, "threads that it waits for, a multiple of 32; default: all of the CTA"},
      }};
  return kSpec;
}

const MapSpec& fence_step_spec() {
  static const MapSpec kSpec{
      "fence_step",
      {
          {"order", false, kText, "acquire, release or acquire_release; default acquire_release"},
          kScope,
      }};
  return kSpec;
}

const MapSpec& accumulators_spec() {
  static const MapSpec kSpec{"accumulators",
                             {{"n", true, kInteger, "columns: a multiple of 8, up to 256; takes n / 2 registers"}}};
  return kSpec;
}

const MapSpec& matmul_step_spec() {
  static const MapSpec kSpec{
      "matmul_step",
      {
          {"into", true, kText, "name of the accumulators, 16 rows of n columns in f32"},
          {"type", false, kText, "type of the elements of A and B: f16 or bf16; default f16"},
          {"n", false, kInteger, "columns: a multiple of 8, up to 256; may be left out where `accumulators` says it"},
          {"k", true, kInteger, "columns of A and rows of B: a multiple of 16"},
          {"a", true, kText,
           "offset of this warp's 16 rows of A in shared memory: an expression, the same for all lanes"},
          {"b", true, kText, "offset of B in shared memory: an expression, the same for all lanes"},
          {"a_pitch", false, kInteger | kQuantity, "bytes from one row of A to the next; default: 2 k"},
          {"b_pitch", false, kInteger | kQuantity,
           "bytes from one row of B to the next, transposed: from one column; default: 2 n, transposed: 2 k"},
          {"a_swizzle", false, kText, "swizzle with which A lies in shared memory: none, 32, 64 or 128; default none"},
          {"b_swizzle", false, kText, "swizzle with which B lies in shared memory: none, 32, 64 or 128; default none"},
          {"b_transposed", false, kFlag, "true: columns of B are contiguous; default false: rows are"},
      }};
  return kSpec;
}

const MapSpec& store_tile_step_spec() {
  static const MapSpec kSpec{
      "store_tile_step",
      {
          {"from", true, kText, "name of the accumulators"},
          {"at", true, kText, "address of this warp's first row: an expression, the same for all lanes"},
          {"pitch", false, kInteger | kQuantity, "bytes from one row to the next; default: those of n elements"},
          {"type", false, kText, "type in memory: f32, f16 or bf16; default f32"},
          {"space", false, kText, "global or shared; default global"},
      }};
  return kSpec;
}

const MapSpec& loop_spec() {
  static const MapSpec kSpec{
      "loop",
      {
          {"var", true, kText, "name of the counter"},
          {"from", false, kText, "first value: an expression, the same for all lanes; default 0"},
          {"to", true, kText, "value that ends the loop and is not reached: an expression, the same for all lanes"},
          {"step", false, kInteger, "distance of the values; negative: downwards; default 1"},
          {"do", true, kList, "list of steps"},
      }};
  return kSpec;
}

const MapSpec& while_spec() {
  static const MapSpec kSpec{
      "while",
      {
          {"cond", true, kText, "condition: an expression; it holds unless it is 0"},
          {"do", true, kList, "list of steps, of the lanes in which the condition has always held"},
      }};
  return kSpec;
}

const MapSpec& if_spec() {
  static const MapSpec kSpec{"if",
                             {
                                 {"cond", true, kText, "condition: an expression; it holds unless it is 0"},
                                 {"then", true, kList, "list of steps, of the lanes in which it holds"},
                                 {"else", false, kList, "list of steps, of the other lanes"},
                             }};
  return kSpec;
}

const MapSpec& role_spec() {
  static const MapSpec kSpec{
      "role",
      {
          {"warps", true, kInteger | kList, "warp of the CTA, or list of the first and the last"},
          {"do", true, kList, "list of steps"},
      }};
  return kSpec;
}

const MapSpec& memory_spec() {
  static const MapSpec kSpec{
      "memory",
      {
          {"name", true, kText, "name of the region; in programs it is the region's address"},
          {"bytes", false, kInteger | kQuantity, "size in bytes or with unit, e.g. 4 MiB; default: that of the file"},
          {"at", false, kInteger, "address; default: behind the other regions, from 1 MiB on"},
          {"align", false, kInteger | kQuantity, "alignment of the address, a power of two; default 4 KiB"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
          {"subcontext", false, kInteger,
           "number of a translated subcontext, in whose address space alone it lies; default: in physical memory"},
          {"access", false, kText, "with subcontext: write, or read: its kernels may not write to it; default write"},
          {"init", false, kText | kMap, "what it holds when the run begins: zeros, or a map; default zeros"},
          {"write", false, kText, "name of a file that takes its bytes at the end of the run"},
      }};
  return kSpec;
}

const MapSpec& init_spec() {
  static const MapSpec kSpec{"init",
                             {
                                 {"pattern", false, kText, "value of element i: an expression over i"},
                                 {"random", false, kInteger, "seed of random elements, evenly distributed"},
                                 {"file", false, kText, "name of a file with the bytes, relative to the scenario"},
                                 {"type", false, kText, "pattern, random: type of the elements, e.g. f16"},
                                 {"min", false, kNumber, "random: smallest value; default 0"},
                                 {"max", false, kNumber, "random: largest value; default 1"},
                                 {"integer", false, kFlag, "random: true: whole numbers; default: by type"},
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
          {"type", false, kText, "type of the elements, e.g. f32; default, with a file: equal bytes"},
          {"within", false, kNumber | kQuantity,
           "distance allowed from each element: a number, or a percentage like 1 %; default 0"},
      }};
  return kSpec;
}

const MapSpec& expect_fault_spec() {
  static const MapSpec kSpec{
      "expect_fault",
      {
          {"fault", true, kText,
           "device fault that must happen: address, misaligned, shared_bounds, unsupported, barrier, cluster_rank, "
           "cluster_absent, cluster_offset, cluster_domain, cta_not_present, out_of_range, poison, mbarrier, tensor, "
           "unmapped, read_only, nesting, child, queue_closed"},
          {"kernel", true, kText, "name of the kernel that has it"},
          {"cluster", false, kInteger, "number of the cluster that has it; default: any"},
          {"rank", false, kInteger, "number in its cluster of the CTA that has it; default: any"},
          {"rule", false, kText, "with fault: tensor: key of the rule that the request breaks; default: any"},
          {"subcontext", false, kInteger, "number of the subcontext of the CTA that has it; default: any"},
          {"address", false, kInteger, "address of the access that is at fault; default: any"},
      }};
  return kSpec;
}

std::vector<const MapSpec*> program_specs() {
  return {&step_spec(),
          &load_step_spec(),
          &store_step_spec(),
          &atomic_step_spec(),
          &compute_step_spec(),
          &special_step_spec(),
          &copy_async_step_spec(),
          &barrier_step_spec(),
          &fence_step_spec(),
          &cluster_arrive_step_spec(),
          &cluster_wait_step_spec(),
          &mbarrier_init_step_spec(),
          &mbarrier_invalidate_step_spec(),
          &mbarrier_arrive_step_spec(),
          &mbarrier_bytes_step_spec(),
          &mbarrier_wait_step_spec(),
          &mbarrier_test_step_spec(),
          &release_shared_step_spec(),
          &tensor_load_step_spec(),
          &tensor_store_step_spec(),
          &tensor_reduce_step_spec(),
          &tensor_prefetch_step_spec(),
          &bulk_load_step_spec(),
          &bulk_store_step_spec(),
          &bulk_reduce_step_spec(),
          &bulk_prefetch_step_spec(),
          &bulk_copy_step_spec(),
          &bulk_send_step_spec(),
          &wait_bulk_step_spec(),
          &fence_tensor_step_spec(),
          &accumulators_spec(),
          &matmul_step_spec(),
          &store_tile_step_spec(),
          &loop_spec(),
          &while_spec(),
          &if_spec(),
          &role_spec(),
          &memory_spec(),
          &init_spec(),
          &launch_step_spec(),
          &append_step_spec(),
          &tensor_spec(),
          &im2col_spec(),
          &expect_memory_spec(),
          &expect_fault_spec(),
          &expect_no_progress_spec()};
}

}  // namespace heddle::workload
