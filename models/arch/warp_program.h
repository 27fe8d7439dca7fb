// What a warp executes: a stream of operations behind one interface (SM-02). Scenario kernels, replayed traces and
// compiled code look the same to the SM.
//
// A program is immutable and shared by all warps that run it; what changes is in WarpState, which is plain data, so
// that a warp can be saved and restored at any operation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/cluster.h"
#include "arch/mbarrier.h"
#include "arch/memory_op.h"
#include "arch/operation_table.h"
#include "arch/task_record.h"
#include "arch/tensor_descriptor.h"

namespace heddle::arch {

constexpr std::uint32_t kWarpLanes = 32;
using LaneMask = std::uint32_t;  // bit = lane
template <class T>
using PerLane = std::array<T, kWarpLanes>;

enum class Space : std::uint8_t {
  global,
  shared,   // of the CTA: offsets
  cluster,  // of the CTAs of the CGA: addresses of arch/address_map.h
  local,    // of the thread: offsets
};

// CGA-10. Numbers, in 32 bits unless it says otherwise.
enum class SpecialRegister : std::uint8_t {
  clock,  // 64 bits
  sm,
  sms,
  warp_slot,
  cta_slot,
  cta_id_x,
  cta_id_y,
  cta_id_z,
  grid_x,  // CTAs
  grid_y,
  grid_z,
  block_x,  // threads
  block_y,
  block_z,
  cga_id,            // linear, in the grid of CGAs; 64 bits; without CGAs that of the CTA
  cga_cta_id,        // linear id of the CTA in its CGA
  cga_size,          // CTAs
  cga_x,             // extents of the CGA
  cga_y,             //
  cga_z,             //
  gpc_local_cga_id,  // kNoLocalCgaId: the CTA belongs to no GPC_CGA
  task_id,           // of the operation
  queue_position,    // of a queue task; 0 for a grid
  cga_memory,        // address of the CGA's linear memory (CWD-22), 64 bits; kNoCgaMemory: it has none

  // Where it runs (CWD-45): by place in the machine, and among the parts that the TPC enable table leaves usable.
  tpc,                 // in its GPC
  cpc,                 // in its GPC
  gpc,                 //
  ugpu,                //
  virtual_sm,          // kNoVirtual, here and below: the TPC has been switched off since
  virtual_tpc,         // in its GPC
  virtual_cpc,         // in its GPC
  virtual_gpc,         // GPCs with most usable TPCs first
  virtual_ugpu,        //
  local_memory_block,  // of its subcontext on its TPC (CWD-32); kNoLocalMemory before the SM was told one

  // For handlers of errors that are a CGA's (CGA-08): of the last one on this SM; kNoLocalCgaId before the first.
  trap_gpc_local_cga_id,
  trap_cga_cta_id,  // of the CTA that made the access

  // Of each level of CGAs, CgaLevel by CgaLevel: kCgaRegisters of each. A CTA is a CGA of its own where there is none.
  cpc_cga_id,    // linear, in the grid of CGAs of that level; 64 bits
  cpc_cga_rank,  // linear id of the CTA in it
  cpc_cga_size,  // CTAs
  cpc_cga_x,     // extents
  cpc_cga_y,
  cpc_cga_z,
  gpc_cga_id,
  gpc_cga_rank,
  gpc_cga_size,
  gpc_cga_x,
  gpc_cga_y,
  gpc_cga_z,
  ugpu_cga_id,
  ugpu_cga_rank,
  ugpu_cga_size,
  ugpu_cga_x,
  ugpu_cga_y,
  ugpu_cga_z,
  gpu_cga_id,
  gpu_cga_rank,
  gpu_cga_size,
  gpu_cga_x,
  gpu_cga_y,
  gpu_cga_z,
};
constexpr std::size_t kCgaRegisters = 6;
constexpr std::size_t kSpecialRegisters =
    static_cast<std::size_t>(SpecialRegister::cpc_cga_id) + kCgaLevels * kCgaRegisters;
constexpr std::uint32_t kNoVirtual = ~std::uint32_t{0};
constexpr std::uint32_t kNoLocalMemory = ~std::uint32_t{0};
constexpr std::uint32_t kNoLocalCgaId = ~std::uint32_t{0};
constexpr std::uint64_t kNoCgaMemory = ~std::uint64_t{0};
// "clock", "gpc_local_cga_id"
const char* special_name(SpecialRegister special);

constexpr std::uint16_t kNoRegister = 0xFFFF;
constexpr std::uint32_t kMaxProgramRegisters = 512;  // 32-bit registers per lane

// `count` consecutive 32-bit registers of every lane.
struct RegisterRange {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
};

// The share of one warp in a matrix multiply of its warpgroup: D (16 x n, f32, this warp's accumulators) +=
// A (16 x k, in shared memory) x B (k x n, in shared memory; the four warps of a warpgroup fetch it once). Elements of
// A lie at a + row * a_pitch + 2 * column, those of B at b + row * b_pitch + 2 * column, or with b_transposed at b +
// column * b_pitch + 2 * row (bytes, offsets in the CTA's shared memory). Rows of A, and rows of B or with b_transposed
// its columns, lie in groups of eight with a distance of their own, a_group and b_group: so a tile of 8x8 pixels is
// read out of the rows of a larger one (TMA-22).
//
// D has n / 2 registers per lane; register i of lane l is the element of row l / 4 + 8 * (i / 2 % 2) and column
// 8 * (i / 4) + 2 * (l % 4) + i % 2, as in PTX's wgmma.
struct MatmulTile {
  ValueType type = ValueType::f16;  // of A and B: f16 or bf16
  std::uint32_t n = 8;              // multiple of 8, up to 256
  std::uint32_t k = 16;             // multiple of 16
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t a_pitch = 0;
  std::uint32_t b_pitch = 0;
  std::optional<std::uint32_t> a_group;  // bytes from a group of eight to the next; none: as the pitch says
  std::optional<std::uint32_t> b_group;
  bool b_transposed = false;
  // Tiles as the TMAU lays them out (TMA-20, TMA-22): the offset of every element goes through the swizzle.
  Swizzle a_swizzle = Swizzle::none;
  Swizzle b_swizzle = Swizzle::none;
};
constexpr std::uint32_t kTileRows = 16;
// Groups of asynchronous multiplies that a warp may have open: waits of wgmma name 0 to 7.
constexpr std::uint32_t kMatmulGroups = 8;
constexpr std::uint32_t kTileGroup = 8;  // rows

// Where a row of A, or a row (transposed: a column) of B, begins.
struct TileRows {
  std::uint32_t first = 0;
  std::uint32_t pitch = 0;
  std::uint32_t group = 0;

  std::uint64_t at(std::uint32_t row) const {
    return std::uint64_t{first} + std::uint64_t{row / kTileGroup} * group + std::uint64_t{row % kTileGroup} * pitch;
  }
};
inline TileRows rows_of_a(const MatmulTile& tile) {
  return {tile.a, tile.a_pitch, tile.a_group.value_or(kTileGroup * tile.a_pitch)};
}
inline TileRows rows_of_b(const MatmulTile& tile) {
  return {tile.b, tile.b_pitch, tile.b_group.value_or(kTileGroup * tile.b_pitch)};
}
constexpr std::uint32_t kMaxTileColumns = 256;

// A task that a lane launches.
struct ChildLaunch {
  std::uint64_t kernel = 0;  // address of a kernel object (arch/kernel_object.h)
  std::uint32_t grid_x = 1;  // CTAs
  std::uint32_t grid_y = 1;
  std::uint32_t grid_z = 1;
  LaunchMode mode = LaunchMode::stream;
  std::uint32_t stream = 0;                      // 0, or as stream_create gave it (TSK-11)
  std::optional<std::int32_t> priority;          // absent: that of the launching task (TSK-16)
  bool head = false;                             // to the head of its priority's list
  std::array<std::uint64_t, kChildArgs> args{};  // what the child finds at `kernarg`
  std::uint64_t queue = 0;    // address: a queue task of it (TSK-05), which finds an entry there; 0: a grid
  std::uint64_t entries = 0;  // of that queue, that are there from the start
  bool held_open = false;     // it ends only after a queue_close
};
// What wait_children waits for: the values of `data` say which, low word first.
enum class ChildWait : std::uint8_t {
  all,     // tasks of the context
  stream,  // those of the stream with that number
  launch,  // the one that the launch gave that value for; 0: nothing
};
// An entry that a lane appends.
struct QueueAppend {
  std::uint64_t queue = 0;  // address
  std::array<std::uint64_t, kQueueEntryWords> data{};
};

// One operation, with everything computed: the SM does not look into the program. What a field means depends on `code`.
struct Operation {
  OpCode code = OpCode::exit;
  Unit unit = Unit::none;
  Space space = Space::global;
  LaneMask lanes = 0;      // that take part; others keep their registers
  std::uint8_t width = 4;  // bytes per lane: 1, 2, 4, 8, 16
  Order order = Order::weak;
  Scope scope = Scope::gpu;
  AtomicKind atomic = AtomicKind::add;
  ValueType type = ValueType::u32;          // of atomics
  std::uint16_t destination = kNoRegister;  // first register written: max(1, width / 4) of them; zero-extended
  std::uint32_t count = 1;                  // compute: instructions; async_wait, matmul_wait: groups; barrier: threads
  std::uint32_t barrier = 0;
  std::optional<CgaLevel> cga_level;  // cluster_arrive, cluster_wait: whose barrier; none: that of the innermost CGA
  std::uint32_t latency = 0;          // compute: cycles to the result beside the unit's own; usually 0
  SpecialRegister special = SpecialRegister::clock;
  MatmulTile tile;
  PerLane<std::uint64_t> address{};              // global: device memory; shared, local: offset; cluster: DSMEM
  PerLane<std::uint32_t> shared_address{};       // async_copy: destination
  PerLane<std::array<std::uint32_t, 4>> data{};  // store: values; atomic: operand (low word first)
  PerLane<std::uint64_t> compare{};              // compare_exchange
  bool read = false;                             // bulk_wait
  // store, atomic without a destination, `space` cluster: asynchronous; its bytes count at the mbarrier at offset
  // `barrier` of the CTA that each lane writes to.
  bool completes = false;
  CgaMode mode = CgaMode::load_balancing;  // query_occupancy
  // load, of global memory: from all GPUs of a group, combined as `atomic` and `type` say (LNK-08).
  bool combines = false;
  std::vector<BulkRequest> bulk;      // one for each of `lanes`, in their order
  std::vector<ChildLaunch> children;  // the same; `destination`: two registers for launch_handle, 0: it failed
  ChildWait wait = ChildWait::all;    // wait_children
  std::vector<QueueAppend> entries;   // the same
};

// What has to be ready before the next operation can issue.
struct OperationNeeds {
  OpCode code = OpCode::exit;
  Unit unit = Unit::none;
  std::vector<RegisterRange> reads;   // for values, addresses, conditions
  std::vector<RegisterRange> writes;  // overwritten by it
  RegisterRange accumulators;         // matmul: follows an earlier matmul without waiting for its result
};

// Where a warp is: constants of its run.
struct WarpPlace {
  Dim3 grid;                  // CTAs
  Dim3 block;                 // threads of its CTA
  Dim3 workgroup;             // threads of a whole CTA: at the edges of a grid, CTAs can be partial (PKT-03)
  std::uint64_t kernarg = 0;  // address of the launch's arguments; 0: none
  std::uint32_t cta_x = 0;
  std::uint32_t cta_y = 0;
  std::uint32_t cta_z = 0;
  std::uint64_t cta = 0;      // linear, x fastest
  std::uint64_t cluster = 0;  // linear id of its CGA
  std::uint32_t rank = 0;     // in its CGA
  std::uint32_t cluster_size = 1;
  Dim3 cluster_shape;             // extents of the CGA, in CTAs
  std::uint32_t warp = 0;         // in its CTA
  std::uint32_t warps = 1;        // of its CTA
  LaneMask lanes = ~LaneMask{0};  // that are threads: the last warp of a CTA may be partial
};

// Everything about a warp that changes. Data: a copy is a checkpoint.
struct WarpState {
  std::uint32_t pc = 0;
  bool exited = false;
  std::vector<std::uint32_t> registers;  // [register * kWarpLanes + lane]
  std::vector<std::int64_t> scalars;     // loop counters, lane masks of open branches: the program's own

  std::uint32_t* of(std::uint16_t reg) { return registers.data() + std::size_t{reg} * kWarpLanes; }
  const std::uint32_t* of(std::uint16_t reg) const { return registers.data() + std::size_t{reg} * kWarpLanes; }
};

// To and from bytes (little endian, with a version); restore throws InputError for bytes that save did not write.
std::vector<std::uint8_t> save(const WarpState& state);
WarpState restore(const std::vector<std::uint8_t>& bytes);

// What a program needs of a tensor memory access unit (TMA-46).
struct TmauNeeds {
  bool unit = false;     // anything
  bool tensors = false;  // requests for tensors
  bool blocks = false;   // requests for blocks
};

class WarpProgram {
 public:
  virtual ~WarpProgram() = default;
  // 32-bit registers per lane that the program uses: at most kMaxProgramRegisters.
  virtual std::uint32_t registers() const = 0;
  // Whether it has operations of Executor::launch: its tasks get a TMD in memory (TSK-13), and its warps what these
  // operations need.
  virtual bool launches() const { return false; }
  // Whether it has launch_dependents: each of its CTAs lets dependents go once, at its exit if not before.
  virtual bool lets_dependents_go() const { return false; }
  // Whether it has requests to the TMAU that read shared memory: what they see depends on proxy fences (TMA-41).
  virtual bool stores_bulk() const { return false; }
  virtual TmauNeeds tmau_needs() const { return {}; }
  // Sizes and fills the state of a warp that begins.
  virtual void start(const WarpPlace& place, WarpState& state) const = 0;
  // Of the operation that issue() would give. Valid until the next call on the same program.
  virtual const OperationNeeds& demand(const WarpState& state) const = 0;
  // Gives the next operation and goes on. All registers of demand() hold their values. After `exit` it is not called
  // again.
  virtual void issue(const WarpPlace& place, WarpState& state, Operation& operation) const = 0;
  // What to call the next operation in messages: "load x (line 12)"; empty: its op_name.
  virtual std::string describe(const WarpState& state) const = 0;
};

}  // namespace heddle::arch
