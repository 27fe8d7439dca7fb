// The operations of warps, a row each: its code, what it is called, and which part of an SM carries it out. What the
// operation's fields mean is said at Operation (arch/warp_program.h); how a scenario writes it down, in
// platforms/program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace heddle::arch {

enum class OpCode : std::uint8_t {
  compute,        // `count` instructions on `unit`
  special,        // a special register is read into `destination` (and the next register for 64 bits)
  load,           // `space`: global, shared or cluster
  store,          //
  atomic,         // returns the old value into `destination`; kNoRegister: a reduction, which returns nothing
  async_copy,     // per thread, global -> shared: `address` to `shared_address`
  async_commit,   // the async copies of the warp since the last commit become a group
  async_wait,     // until at most `count` of the warp's groups are open
  matmul,         // `tile` of this warp's accumulators += A x B from shared memory
  matmul_async,   // the same behind the warp's back, in the order of their issue: nobody but a wait knows when it is
                  // over
  matmul_commit,  // the asynchronous multiplies of the warp since the last commit become a group
  matmul_wait,    // until at most `count` of these groups are open
  barrier,        // of the CTA: number `barrier`, `count` threads (0: all of the CTA)
  fence,          // `order`, `scope`

  // Clusters (CGAs). An access with `space` cluster goes to distributed shared memory (DSMEM).
  cluster_arrive,       // at the barrier of the CGA; `order` release: earlier accesses are visible first (CGA-13)
  cluster_wait,         // until all running threads of the CGA have arrived; `order` acquire: forgets what the L1 holds
  mbarrier_init,        // `address` in `space`, shared; data[0]: arrivals that a phase expects (CGA-14)
  mbarrier_invalidate,  // the object is no mbarrier any more
  mbarrier_arrive,      // data[0]: arrivals, data[1]: bytes that are expected first; `space` shared or cluster;
                        // `destination` (shared only): parity of the phase before
  mbarrier_expect,      // data[0]: bytes; `space` shared or cluster
  mbarrier_complete,    // data[0]: bytes; `space` shared or cluster
  mbarrier_wait,        // until the phase with parity data[0] has completed; `space` shared
  mbarrier_test,        // the same without waiting: `destination` becomes 1 or 0
  release_shared,       // `address` of the first lane: the CTA's shared memory from there on is given back (CGA-09)

  // Requests to the tensor memory access unit (TMA-01): each of `lanes` makes the one that Operation::bulk has for it.
  tensor_load,
  tensor_store,
  tensor_reduce,
  tensor_prefetch,
  bulk_load,  // blocks: without a descriptor
  bulk_store,
  bulk_reduce,
  bulk_prefetch,
  bulk_copy,     // device -> device
  bulk_send,     // shared -> shared
  bulk_commit,   // the warp's stores, reductions, copies and sends since the last commit become a group (TMA-41)
  bulk_wait,     // until at most `count` of its groups are open; `read`: until their sources have been read
  bulk_drain,    // until all requests that the SM made before are complete (TMA-41)
  tensor_fence,  // descriptors (that at the address of the first lane, 0: all) have been written, and are fetched anew

  tensor_fetch,  // a descriptor comes into the cache of the TMAU; nobody waits
  tensor_copy,   // a box of a tensor -> a block of device memory
  tensor_send,   // a box -> shared memory of a CTA of the CGA
  elect,         // `destination` becomes 1 in the lowest of `lanes`, and 0 in the others
  proxy_fence,   // what the warp's lanes have written to shared memory is visible to the TMAU (TMA-41)

  exit,  // the warp ends

  // Device-side launches (TSK-06 to TSK-14).
  launch_child,    // each of `lanes` launches the task that Operation::children has for it
  wait_children,   // until the tasks that its context has launched have completed, with all their descendants; acquire
  stream_create,   // a stream of the CTA's context: its number, from 1 on, into `destination`
  stream_destroy,  // data[0]: its number; what is in it completes
  queue_append,    // each of `lanes` appends the entry that Operation::entries has for it (TSK-05)
  queue_close,     // Operation::entries: no task of that queue is held open any more
  event_create,    // an event: its handle into `destination` and the next register, 0: no record was free
  event_destroy,   // data[0..1]: its handle; who waits for it goes on waiting
  event_record,    // data[0..1]: handle, data[2..3]: stream; the event comes to pass after what is in the stream so far
  stream_wait,     // the same; what enters the stream from now on waits for the event as recorded last, if it has been

  // How many CGAs of the kernel can be resident at once (CWD-24), into `destination`: data, the same in all `lanes`:
  // CTAs of a CPC_CGA, GPC_CGA, uGPU_CGA and GPU_CGA, 0: no such level; `mode`. 0: never one, or there is no such
  // shape.
  query_occupancy,

  // Programmatic dependent launch.
  launch_dependents,     // the CTA keeps the kernel behind it in the stream no longer from starting
  grid_dependency_wait,  // until the kernel before it in the stream has completed, and what it wrote is visible
};

// Execution units of an SM partition; `memory` is shared by the four, `none` takes an issue slot only.
enum class Unit : std::uint8_t { none, fp32, int32, fp64, sfu, tensor, memory };
constexpr std::size_t kUnits = 7;
const char* unit_name(Unit unit);

// The unit of an SM that carries an operation out.
enum class Executor : std::uint8_t {
  alu,       // compute, and what reads special registers
  tensor,    // matrix multiplies
  memory,    // loads, stores, atomics and asynchronous copies
  fence,     // fences
  barrier,   // of the CTA and of the CGA
  mbarrier,  // in shared memory
  bulk,      // requests to the TMAU
  launch,    // device-side launches
  query,     // questions to the distributor
  depend,    // programmatic dependent launch
  end,       // what ends a warp, or gives back what its CTA holds
};
constexpr std::size_t kExecutors = static_cast<std::size_t>(Executor::end) + 1;

struct OperationRow {
  OpCode code;
  const char* name;   // "load", "mbarrier_init"
  Unit unit;          // that it issues to; compute: the operation says
  Executor executor;  // that carries it out
};

inline constexpr OperationRow kOperations[] = {
    {OpCode::compute, "compute", Unit::none, Executor::alu},
    {OpCode::special, "special", Unit::none, Executor::alu},
    {OpCode::load, "load", Unit::memory, Executor::memory},
    {OpCode::store, "store", Unit::memory, Executor::memory},
    {OpCode::atomic, "atomic", Unit::memory, Executor::memory},
    {OpCode::async_copy, "async_copy", Unit::memory, Executor::memory},
    {OpCode::async_commit, "async_commit", Unit::none, Executor::memory},
    {OpCode::async_wait, "async_wait", Unit::none, Executor::memory},
    {OpCode::matmul, "matmul", Unit::tensor, Executor::tensor},
    {OpCode::matmul_async, "matmul_async", Unit::none, Executor::tensor},
    {OpCode::matmul_commit, "matmul_commit", Unit::none, Executor::tensor},
    {OpCode::matmul_wait, "matmul_wait", Unit::none, Executor::tensor},
    {OpCode::barrier, "barrier", Unit::none, Executor::barrier},
    {OpCode::fence, "fence", Unit::none, Executor::fence},
    {OpCode::cluster_arrive, "cluster_arrive", Unit::none, Executor::barrier},
    {OpCode::cluster_wait, "cluster_wait", Unit::none, Executor::barrier},
    {OpCode::mbarrier_init, "mbarrier_init", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_invalidate, "mbarrier_invalidate", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_arrive, "mbarrier_arrive", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_expect, "mbarrier_expect", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_complete, "mbarrier_complete", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_wait, "mbarrier_wait", Unit::memory, Executor::mbarrier},
    {OpCode::mbarrier_test, "mbarrier_test", Unit::memory, Executor::mbarrier},
    {OpCode::release_shared, "release_shared", Unit::none, Executor::end},
    {OpCode::tensor_load, "tensor_load", Unit::memory, Executor::bulk},
    {OpCode::tensor_store, "tensor_store", Unit::memory, Executor::bulk},
    {OpCode::tensor_reduce, "tensor_reduce", Unit::memory, Executor::bulk},
    {OpCode::tensor_prefetch, "tensor_prefetch", Unit::memory, Executor::bulk},
    {OpCode::bulk_load, "bulk_load", Unit::memory, Executor::bulk},
    {OpCode::bulk_store, "bulk_store", Unit::memory, Executor::bulk},
    {OpCode::bulk_reduce, "bulk_reduce", Unit::memory, Executor::bulk},
    {OpCode::bulk_prefetch, "bulk_prefetch", Unit::memory, Executor::bulk},
    {OpCode::bulk_copy, "bulk_copy", Unit::memory, Executor::bulk},
    {OpCode::bulk_send, "bulk_send", Unit::memory, Executor::bulk},
    {OpCode::bulk_commit, "bulk_commit", Unit::none, Executor::bulk},
    {OpCode::bulk_wait, "bulk_wait", Unit::none, Executor::bulk},
    {OpCode::bulk_drain, "bulk_drain", Unit::memory, Executor::bulk},
    {OpCode::tensor_fence, "tensor_fence", Unit::memory, Executor::bulk},
    {OpCode::tensor_fetch, "tensor_fetch", Unit::memory, Executor::bulk},
    {OpCode::tensor_copy, "tensor_copy", Unit::memory, Executor::bulk},
    {OpCode::tensor_send, "tensor_send", Unit::memory, Executor::bulk},
    {OpCode::elect, "elect", Unit::int32, Executor::alu},
    {OpCode::proxy_fence, "proxy_fence", Unit::none, Executor::bulk},
    {OpCode::exit, "exit", Unit::none, Executor::end},
    {OpCode::launch_child, "launch_child", Unit::none, Executor::launch},
    {OpCode::wait_children, "wait_children", Unit::none, Executor::launch},
    {OpCode::stream_create, "stream_create", Unit::none, Executor::launch},
    {OpCode::stream_destroy, "stream_destroy", Unit::none, Executor::launch},
    {OpCode::queue_append, "queue_append", Unit::none, Executor::launch},
    {OpCode::queue_close, "queue_close", Unit::none, Executor::launch},
    {OpCode::event_create, "event_create", Unit::none, Executor::launch},
    {OpCode::event_destroy, "event_destroy", Unit::none, Executor::launch},
    {OpCode::event_record, "event_record", Unit::none, Executor::launch},
    {OpCode::stream_wait, "stream_wait", Unit::none, Executor::launch},
    {OpCode::query_occupancy, "query_occupancy", Unit::none, Executor::query},
    {OpCode::launch_dependents, "launch_dependents", Unit::none, Executor::depend},
    {OpCode::grid_dependency_wait, "grid_dependency_wait", Unit::none, Executor::depend},
};

constexpr const OperationRow& row_of(OpCode code) { return kOperations[static_cast<std::size_t>(code)]; }
constexpr const char* op_name(OpCode code) { return row_of(code).name; }

namespace detail {
constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kOperations); ++i) {
    if (kOperations[i].code != static_cast<OpCode>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "kOperations has a row for every OpCode, in their order");
}  // namespace detail

}  // namespace heddle::arch
