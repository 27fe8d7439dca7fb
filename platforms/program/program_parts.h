// What the steps of a scenario's program become: a flat list, in which control flow is jumps, with the expressions that
// it evaluates.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/mbarrier.h"
#include "arch/warp_program.h"
#include "program/expression.h"

namespace heddle::program {

// Where a name of a program keeps its value: part of a register, or one or two of them, in each lane.
struct ProgramVariable {
  std::uint16_t first = 0;    // register
  std::uint8_t shift = 0;     // bits below it in that register: several small values share one
  std::uint8_t together = 4;  // bytes of all values made together that lie in the register
  arch::ValueType type = arch::ValueType::f32;

  std::uint16_t registers() const { return arch::bytes_of(type) == 8 ? 2 : 1; }
  arch::RegisterRange range() const { return {first, registers()}; }
};

// Where the value of an expression's slot comes from.
enum class SlotSource : std::uint8_t {
  cta_x,
  cta_y,
  cta_z,
  cta,
  cluster,
  rank,
  cluster_size,
  cluster_x,
  cluster_y,
  cluster_z,
  grid,  // of the launch: one program can have several
  grid_x,
  grid_y,
  grid_z,
  block,
  block_x,
  block_y,
  block_z,
  workgroup,
  workgroup_x,
  workgroup_y,
  workgroup_z,
  warps,
  kernarg,
  warp,
  scalar,    // of the warp's state: `index`
  lane,      // this and what follows differ between lanes
  thread,    // linear in the CTA
  thread_x,  //
  thread_y,  //
  thread_z,  //
  item_x,    // in the grid
  item_y,    //
  item_z,    //
  variable,  // in registers
};
struct ProgramSlot {
  SlotSource source = SlotSource::lane;
  std::uint32_t index = 0;
  ProgramVariable variable;

  bool per_lane() const { return source >= SlotSource::lane; }
};

// Where the value of a slot goes before an expression is evaluated.
struct BoundSlot {
  ProgramSlot source;
  double* value = nullptr;
};

// An expression of the program, with its slots sorted by what they need.
struct ProgramExpression {
  Expression expression;
  std::vector<BoundSlot> shared;    // slots that are the same for all lanes
  std::vector<BoundSlot> per_lane;  // slots that are not
  bool affine = false;              // integers that grow by the same amount from lane to lane
  bool affine_in_rows = false;      // the same if the threads of a warp lie in one row of their CTA

  bool uniform() const { return per_lane.empty(); }
};

// A value that is stored, set or added: an expression, or a variable by itself, whose bits are moved as they are where
// the types agree.
struct ProgramValue {
  std::optional<std::uint32_t> expression;
  ProgramVariable variable;  // without an expression
};

enum class StepKind : std::uint8_t {
  operation,   // `code`
  set,         // its value goes to `variable` when it is issued
  zero,        // accumulators become 0
  leave,       // the lanes that take part end
  loop_begin,  // `from`, `to`
  loop_end,    // counts on: `increment`; goes back to `target` + 1
  while_begin,
  while_test,  // goes to `target` when no lane is left
  while_end,   // goes back to `target`
  if_begin,    // goes to `target`, the else, when no lane takes it
  if_else,     // goes to `target` when no lane takes it
  if_end,
  role,    // goes to `target` unless the warp is within [first_warp, last_warp]
  jump,    // to `target`
  finish,  // the end: all lanes
};

// Fields of an operation whose values are worked out when a step is issued; a step has several of them.
enum Field : std::uint8_t {
  kAddress = 1,   // `at`: Operation::address, in the step's space
  kNumbers = 2,   // `values`: Operation::data, a number of 32 bits each
  kStored = 4,    // `values`: Operation::data, side by side as in memory
  kCompared = 8,  // `compare`: Operation::compare
  kCopied = 16,   // `at` and `to`: Operation::address and shared_address
  kTile = 32,     // `tile`, `at` and `to`: Operation::tile
  kBarrier = 64,  // `to`: Operation::barrier
};

struct ProgramStep {
  StepKind kind = StepKind::operation;
  arch::OpCode code = arch::OpCode::compute;
  arch::Space space = arch::Space::global;
  std::uint8_t width = 4;
  arch::Order order = arch::Order::weak;
  arch::Scope scope = arch::Scope::gpu;
  arch::AtomicKind atomic = arch::AtomicKind::add;
  arch::ValueType type = arch::ValueType::u32;     // of atomics
  arch::ValueType element = arch::ValueType::u32;  // of `values`
  arch::SpecialRegister special = arch::SpecialRegister::clock;
  std::optional<arch::CgaLevel> cga_level;  // as in Operation
  std::uint16_t destination = arch::kNoRegister;
  std::uint32_t count = 1;
  std::uint32_t latency = 0;
  arch::MatmulTile tile;

  std::uint8_t fields = 0;  // Field: what of the operation its expressions give

  // Expressions, of steps that have them.
  std::uint32_t at = 0;    // address; a copy's source; matmul: A; loops: from; conditions
  std::uint32_t rank = 0;  // space cluster: the CTA in the CGA whose shared memory it is
  std::uint32_t to = 0;    // a copy's destination; matmul: B; loops: to; barrier: its number

  std::uint32_t pitch = 0;     // store_tile: bytes from row to row; 0: not of a tile
  std::uint32_t tile_row = 0;  // store_tile: what is added to the lane's row and column
  std::uint32_t tile_column = 0;
  std::vector<ProgramValue> values;  // in the order of their bytes; of mbarriers: operands, expressions
  ProgramValue compare;              // compare_exchange
  ProgramVariable variable;          // set
  std::uint32_t target = 0;          // of jumps: index of a step
  std::uint32_t scalar = 0;          // first of its scalars in the warp's state
  std::int64_t increment = 1;        // loops
  std::uint32_t first_warp = 0;      // roles
  std::uint32_t last_warp = 0;
  std::optional<std::uint32_t> bulk;                   // requests to the tensor memory access unit: index of a BulkStep
  std::optional<std::uint32_t> child;                  // a launch, an append: index of a ChildStep
  bool read = false;                                   // wait_bulk
  bool completes = false;                              // as in Operation
  arch::CgaMode mode = arch::CgaMode::load_balancing;  // query_occupancy
  arch::ChildWait wait = arch::ChildWait::all;         // wait_children
  bool one_lane = false;                               // only the first of the lanes that take part does it
  bool free = true;       // control flow that costs nothing; what costs is issued as an instruction on int32
  bool combines = false;  // as in Operation

  arch::OperationNeeds demand;
  std::string text;  // "load x (line 12)"
};

// Where an operand of a request to the tensor memory access unit goes.
enum class BulkField : std::uint8_t {
  descriptor,
  coordinate,  // of dimension `index`
  offset,      // im2col, of dimension `index` + 1
  global,
  to,
  bytes,
  shared,
  destination,
  barrier,
  multicast,
  data_cta,     // and barrier_cta
  barrier_cta,  // alone
};

struct BulkOperand {
  BulkField field = BulkField::descriptor;
  std::uint32_t index = 0;
  std::uint32_t expression = 0;
};

// A request to the tensor memory access unit, with expressions in place of numbers.
struct BulkStep {
  arch::BulkRequest request;  // what is the same for all
  std::uint32_t rank = 1;     // of the tensor
  bool wide = false;          // im2col along W: its offsets are one, and a halo
  std::vector<BulkOperand> operands;
};

// A launch, or an entry for a queue, with expressions in place of numbers.
struct ChildStep {
  arch::ChildLaunch launch;                          // what is the same for all, and what no expression gives
  std::array<std::optional<std::uint32_t>, 3> grid;  // x, y, z
  std::optional<std::uint32_t> stream;
  std::uint64_t queue = 0;           // an append: address
  std::vector<ProgramValue> values;  // arguments; words of an entry
};

// An address that is aligned to every width, and beyond every memory.
constexpr std::uint64_t kNowhere = ~std::uint64_t{0xF};

// Scalars of every warp's state; those of loops and branches follow.
constexpr std::size_t kActiveScalar = 0;  // lanes that take part now
constexpr std::size_t kAliveScalar = 1;   // lanes that have not exited
constexpr std::size_t kFirstScalar = 2;

// All that a program consists of; the compiler fills it in.
struct ProgramParts {
  ExpressionSlots values;          // what expressions point to
  std::vector<ProgramSlot> slots;  // by slot
  std::vector<ProgramExpression> expressions;
  std::vector<ProgramStep> steps;  // the last one is `finish`
  std::vector<BulkStep> bulk;
  std::vector<ChildStep> children;
  bool lets_go = false;   // it has launch_dependents
  bool launches = false;  // it has steps of device-side launches
  std::uint32_t registers = 0;
  std::uint32_t scalars = kFirstScalar;
};

}  // namespace heddle::program
