// What an entry of a module becomes when it is loaded: a flat list of instructions in which every name is a number, so
// that nothing is looked up while it runs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/warp_program.h"
#include "ptx/lane_alu.h"
#include "ptx/mma.h"
#include "ptx/module.h"

namespace heddle::ptx {

// A plane of 32 lanes: of the warp's registers from 0 on, of the code's constants from -1 down.
using PlaneRef = std::int32_t;
constexpr PlaneRef kNoPlane = INT32_MIN;
constexpr PlaneRef constant_plane(std::uint32_t index) { return ~static_cast<PlaneRef>(index); }

// A predicate: a mask of lanes in the warp's scalars.
struct PredicateRef {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t scalar = kNone;
  bool negated = false;

  bool any() const { return scalar != kNone; }
};

// Scalars of every warp's state; those of predicates follow, then the paths that wait (ptx/warp_paths.h).
constexpr std::size_t kActiveScalar = 0;    // lanes of the path that runs
constexpr std::size_t kOthersScalar = 1;    // paths that wait
constexpr std::size_t kPendingScalar = 2;   // lanes for which the instruction at pc has still to be carried out
constexpr std::size_t kFavouredScalar = 3;  // 1: the path that runs does so out of turn
constexpr std::size_t kTurnsScalar = 4;     // backward branches of the path since another could run
constexpr std::size_t kCarryScalar = 5;     // the condition code of add.cc and the like
constexpr std::size_t kFirstPredicate = 6;

enum class Action : std::uint8_t {
  alu,             // `function`
  copy,            // r[0] := r[2], `planes` of them
  narrow,          // r[0] := `bytes` of r[2] from `shift` bits on, sign-extended if `is_signed`; zero beyond
  pack,            // r[0] := `kind` elements r[2], r[3] …, of `bytes` each, side by side
  set_predicate,   // p_out := r[2] != 0
  copy_predicate,  // p_out := p_in
  place,           // r[0] := a number of the thread's place: `number`
  special,         // the same, at the price of reading a special register
  machine,         // the same, of the machine: the SM fills it in
  to_window,       // r[0] := generic address of an offset in the window `window`
  from_window,     // and back
  in_window,       // p_out := whether the generic address is in the window
  map_rank,        // mapa: r[2] address, r[3] rank
  rank_of,         // getctarank
  branch,          // to `target`
  table,           // brx.idx: to one of `targets` by r[2]
  exit,
  trap,
  nothing,    // costs an issue slot
  sleep,      // nanosleep: r[2]
  warp_sync,  // r[2]: lanes that meet here, at this or any other warp_sync
  vote,
  ballot,
  match_any,
  match_all,
  active_mask,
  shuffle,
  reduce,
  elect,
  matrix,  // `target`: of `matrices`
  access,  // `access`: load, store, atomic, copies …
  barrier,
  control,  // an operation of the SM without operands: fences, commits, waits, cluster barriers
  mbarrier,
  bulk,
  warpgroup,  // `target`: of `warpgroups`; r[2], r[3]: descriptors; p_in: whether it adds
};

enum class Window : std::uint8_t { global, shared, cluster, local, parameter, constant, generic };
enum class VoteKind : std::uint8_t { all, any, uniform };
enum class ShuffleKind : std::uint8_t { up, down, butterfly, index };
enum class ReduceKind : std::uint8_t { add, min, max, bit_and, bit_or, bit_xor };

// Numbers of a thread's place.
enum class PlaceNumber : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,  // these and the lane's differ between lanes
  lane,
  mask_eq,
  mask_le,
  mask_lt,
  mask_ge,
  mask_gt,
  warp,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  cluster_x,
  cluster_y,
  cluster_z,
  nclusters_x,
  nclusters_y,
  nclusters_z,
  cluster_cta_x,
  cluster_cta_y,
  cluster_cta_z,
  cluster_ctas_x,
  cluster_ctas_y,
  cluster_ctas_z,
  cluster_rank,
  cluster_size,
  arguments,  // address, 64 bits
  explicit_cluster,
};

// An access to memory, or what else has an address in each lane.
struct AccessForm {
  arch::OpCode code = arch::OpCode::load;
  Window window = Window::global;
  Window source = Window::global;  // async_copy: where from; `window` is where to
  std::int64_t offset = 0;         // bytes, added to the address
  std::int64_t source_offset = 0;
  bool wide = true;  // the address has 64 bits
  bool source_wide = true;
  std::uint8_t width = 4;  // bytes of a lane
  std::uint8_t elements = 1;
  arch::Order order = arch::Order::weak;
  arch::Scope scope = arch::Scope::gpu;
  arch::AtomicKind atomic = arch::AtomicKind::add;
  arch::ValueType type = arch::ValueType::u32;
  bool completes = false;                    // bytes count at the mbarrier at r[7]
  std::int64_t barrier_offset = 0;           // bytes, added to r[7]
  bool zero_fill = false;                    // async_copy: r[4] is the number of bytes, the others are zero
  arch::LaneMask only = ~arch::LaneMask{0};  // lanes that have an address
  bool read = false;                         // bulk_wait
  std::uint32_t bytes = 0;                   // of waits: groups
};

// cp.async.bulk and its kin: operands in `operands`, a plane each (two where `wide`).
enum class BulkOperandKind : std::uint8_t {
  descriptor,
  coordinate,
  offset,
  global,
  bytes,
  shared,
  destination,
  barrier,
  multicast,
  byte_mask,
};
struct BulkOperand {
  BulkOperandKind kind = BulkOperandKind::descriptor;
  std::uint8_t index = 0;
  bool wide = false;
  std::int64_t add = 0;
  PlaneRef plane = kNoPlane;
};
struct BulkForm {
  arch::OpCode code = arch::OpCode::bulk_load;
  arch::BulkRequest request;  // what is the same for all
  std::uint32_t rank = 1;     // of the tensor
  bool im2col = false;
  bool to_cluster = false;  // its destination may be another CTA's
  std::vector<BulkOperand> operands;
};

// A matrix instruction: registers of 32 bits, in the order of the text.
struct MatrixWork {
  enum class Kind : std::uint8_t {
    multiply,
    load,   // a: 16 bytes of each lane, a row; to: matrices
    store,  // a: matrices; to: rows
    transpose,
  };
  Kind kind = Kind::multiply;
  MmaForm mma;
  bool transposed = false;
  std::vector<PlaneRef> to;
  std::vector<PlaneRef> a;
  std::vector<PlaneRef> b;
  std::vector<PlaneRef> c;
};

// wgmma.mma_async with both matrices in shared memory, along k: the accumulators lie side by side.
struct WarpgroupWork {
  arch::ValueType type = arch::ValueType::f16;
  std::uint32_t n = 8;
  std::vector<PlaneRef> accumulators;
};

struct ResolvedInstruction {
  Action action = Action::nothing;
  bool free = false;      // an assembler folds it away: it is carried out with what follows
  bool leader = false;    // a path may come here from elsewhere
  bool collects = false;  // it waits for lanes of its warp that are elsewhere
  bool spins = false;     // branch: back to the head of a loop that looks at something that others write
  bool backward = false;
  bool is_signed = false;
  std::uint8_t planes = 1;
  std::uint8_t bytes = 4;
  std::uint8_t shift = 0;
  std::uint8_t kind = 0;  // VoteKind, ShuffleKind, ReduceKind, PlaceNumber, arch::SpecialRegister
  Window window = Window::global;
  bool carries = false;  // reads or writes the condition code
  PredicateRef guard;
  AluFunction function = nullptr;
  std::array<PlaneRef, 8> r{kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane};
  std::array<PredicateRef, 2> p_in;
  std::array<PredicateRef, 2> p_out;
  std::array<std::uint16_t, 3> part{};  // of video instructions, as AluOperands has them
  arch::Unit unit = arch::Unit::none;
  std::uint16_t count = 1;   // instructions of the machine
  std::uint32_t target = 0;  // of a branch; of an access, a bulk request, a table: index in its list
  std::uint32_t rank = 0;    // of its block: paths with lower ones go first
  std::uint64_t number = 0;
  arch::OperationNeeds needs;  // of it, and of free instructions before it that begin here
  TextPlace place;
};
constexpr std::size_t kFirstSource = 2;  // r[0], r[1]: destinations

struct PtxCode {
  std::string module;  // for messages
  std::string entry;
  std::vector<ResolvedInstruction> instructions;
  std::vector<std::string> texts;  // what to call them: "ld.global.f32 (add.ptx, line 31; add.cu, line 7)"
  std::vector<AccessForm> accesses;
  std::vector<BulkForm> bulk;
  std::vector<MatrixWork> matrices;
  std::vector<WarpgroupWork> warpgroups;
  std::vector<std::vector<std::uint32_t>> tables;
  std::vector<std::uint32_t> constants;  // planes
  std::uint32_t planes = 0;              // registers of a warp, per lane
  std::uint32_t predicates = 0;
  std::uint32_t live_registers = 0;        // 32-bit registers that are alive at once, at most
  std::optional<std::uint64_t> arguments;  // their address, if not the launch's
  std::uint64_t workspace = 0;             // of a cooperative grid; 0: none
  std::uint64_t constant_begin = 0;        // where .const variables lie
  std::uint64_t constant_end = 0;
  std::uint32_t argument_bytes = 0;
  bool lets_go = false;
  std::uint16_t dummy = 0;  // plane that nobody reads

  // It has loads whose data go to several CTAs of a cluster.
  bool multicasts() const;
  std::size_t scalars() const;
  std::size_t paths_at() const { return kFirstPredicate + predicates; }
};

// Generic addresses: which part of the 64-bit space means which memory. Device memory lies where it lies, from 0 on,
// and with it the kernel's arguments and .const variables. Shared and local memory have windows of 4 GiB each. In the
// window of shared memory, and in 32-bit addresses of .shared::cluster, bits 31:24 are 0 for the thread's own CTA, else
// 1 + the CTA's rank in its cluster; bits 23:0 are the offset.
constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 48;
constexpr std::uint64_t kLocalWindow = std::uint64_t{1} << 49;
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;

constexpr bool in_shared_window(std::uint64_t address) { return address >> 32 == kSharedWindow >> 32; }
constexpr bool in_local_window(std::uint64_t address) { return address >> 32 == kLocalWindow >> 32; }

// The word of shared memory, 32 bits, that an offset in another CTA of the cluster has.
constexpr std::uint32_t shared_word(std::uint32_t rank, std::uint32_t offset) {
  return (rank + 1) << arch::kDsmemOffsetBits | (offset & (arch::kDsmemOffsets - 1));
}
constexpr bool is_own_word(std::uint32_t word) { return word >> arch::kDsmemOffsetBits == 0; }
// Of a word that is not the thread's own.
constexpr std::uint32_t rank_of_word(std::uint32_t word) { return (word >> arch::kDsmemOffsetBits) - 1; }
constexpr std::uint32_t offset_of_word(std::uint32_t word) { return word & (arch::kDsmemOffsets - 1); }

}  // namespace heddle::ptx
