#include "ptx/lane_work.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::ptx {

using arch::kWarpLanes;
using arch::LaneMask;

namespace {

constexpr LaneMask kEveryLane = ~LaneMask{0};

std::uint32_t reduced(ReduceKind kind, bool is_signed, std::uint32_t a, std::uint32_t b) {
  const bool less = is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
  switch (kind) {
    case ReduceKind::add:
      return a + b;
    case ReduceKind::min:
      return less ? a : b;
    case ReduceKind::max:
      return less ? b : a;
    case ReduceKind::bit_and:
      return a & b;
    case ReduceKind::bit_or:
      return a | b;
    case ReduceKind::bit_xor:
      return a ^ b;
  }
  return a;
}

LaneMask nonzero(const std::uint32_t* values) {
  LaneMask lanes = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) lanes |= LaneMask{values[lane] != 0} << lane;
  return lanes;
}

}  // namespace

bool LaneWork::runs(Action action) {
  return action <= Action::special || (action >= Action::to_window && action <= Action::rank_of) ||
         (action >= Action::vote && action <= Action::matrix);
}

std::uint32_t LaneWork::own_word(std::uint32_t word) const {
  return !is_own_word(word) && rank_of_word(word) == place_.rank ? offset_of_word(word) : word;
}

void LaneWork::put(PlaneRef ref, std::uint32_t lane, std::uint64_t value, std::uint32_t planes) {
  std::uint32_t* at = own(ref);
  at[lane] = static_cast<std::uint32_t>(value);
  if (planes > 1) at[kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
}

// Lanes that name the same members work among themselves: with each of these groups.
template <class Each>
void LaneWork::each_group(const ResolvedInstruction& now, LaneMask lanes, Each each) const {
  if (now.r[7] == kNoPlane) return each(lanes, lanes);
  const std::uint32_t* masks = plane(now.r[7]);
  while (lanes != 0) {
    const LaneMask mask = masks[bits::lowest(lanes)];
    LaneMask group = 0;
    bits::for_each(lanes, [&](std::uint32_t lane) { group |= LaneMask{masks[lane] == mask} << lane; });
    each(group & mask, group);
    lanes &= ~group;
  }
}

void LaneWork::run(const ResolvedInstruction& now, LaneMask lanes) {
  switch (now.action) {
    case Action::alu:
      return alu(now, lanes);
    case Action::copy:
      return copy(now, lanes);
    case Action::narrow:
      return narrow(now, lanes);
    case Action::pack:
      return pack(now, lanes);
    case Action::set_predicate:
      return set_predicate(now.p_out[0], nonzero(plane(now.r[2])), lanes);
    case Action::copy_predicate: {
      const LaneMask given = now.p_in[0].any() ? predicate(now.p_in[0]) : now.number != 0 ? kEveryLane : 0;
      return set_predicate(now.p_out[0], given, lanes);
    }
    case Action::place:
    case Action::special:
      return set_place(now, lanes);
    case Action::to_window:
    case Action::from_window:
    case Action::in_window:
      return windows(now, lanes);
    case Action::map_rank:
    case Action::rank_of:
      return shared_ranks(now, lanes);
    case Action::match_any:
    case Action::match_all:
      return each_group(now, lanes, [&](LaneMask here, LaneMask group) { match(now, here, group); });
    case Action::shuffle:
      return shuffle(now, lanes);
    case Action::reduce:
      return each_group(now, lanes, [&](LaneMask here, LaneMask group) { reduce(now, here, group); });
    case Action::matrix:
      return matrix(code_.matrices[now.target], lanes);
    default:
      return each_group(now, lanes, [&](LaneMask here, LaneMask group) { votes(now, here, group); });
  }
}

void LaneWork::alu(const ResolvedInstruction& now, LaneMask lanes) {
  AluOperands operands;
  operands.lanes = lanes;
  for (std::size_t i = 0; i < 2; ++i) {
    if (now.r[i] != kNoPlane) operands.d[i] = own(now.r[i]);
    if (now.p_in[i].any()) operands.p_in[i] = predicate(now.p_in[i]);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    if (now.r[kFirstSource + i] != kNoPlane) operands.s[i] = plane(now.r[kFirstSource + i]);
  }
  std::copy(now.part.begin(), now.part.end(), operands.part);
  if (now.carries) operands.carry = static_cast<LaneMask>(state_.scalars[kCarryScalar]);
  now.function(operands);
  for (std::size_t i = 0; i < 2; ++i) set_predicate(now.p_out[i], operands.p_out[i], lanes);
  if (!now.carries) return;
  const auto before = static_cast<LaneMask>(state_.scalars[kCarryScalar]);
  state_.scalars[kCarryScalar] = (before & ~lanes) | (operands.carry & lanes);
}

void LaneWork::copy(const ResolvedInstruction& now, LaneMask lanes) {
  for (std::int32_t i = 0; i < now.planes; ++i) {
    const std::uint32_t* from = plane(now.r[2] >= 0 ? now.r[2] + i : now.r[2] - i);
    std::uint32_t* to = own(now.r[0] + i);
    if (lanes == kEveryLane) {
      std::copy(from, from + kWarpLanes, to);
      continue;
    }
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((lanes >> lane & 1U) != 0) to[lane] = from[lane];
    }
  }
}

void LaneWork::narrow(const ResolvedInstruction& now, LaneMask lanes) {
  const std::uint32_t* from = plane(now.r[2]);
  std::uint32_t* to = own(now.r[0]);
  const std::uint32_t bits = 8 * std::uint32_t{now.bytes};
  const std::uint32_t mask = bits >= 32 ? ~0U : (1U << bits) - 1;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const std::uint32_t value = from[lane] >> now.shift & mask;
    const bool negative = now.is_signed && (value >> (bits - 1) & 1U) != 0;
    const std::uint32_t extended = negative ? value | ~mask : value;
    // `number`: bits of a register of less than 32.
    to[lane] = now.number != 0 ? extended & ((1U << now.number) - 1) : extended;
    if (now.planes > 1) to[kWarpLanes + lane] = negative ? ~0U : 0U;
  });
}

void LaneWork::pack(const ResolvedInstruction& now, LaneMask lanes) {
  const std::uint32_t bytes = now.bytes;
  if (bytes >= 4) {
    const std::uint32_t planes = bytes / 4;
    for (std::uint32_t i = 0; i < now.kind * planes; ++i) {
      const std::uint32_t* from = plane(now.r[kFirstSource + i / planes]) + std::size_t{i % planes} * kWarpLanes;
      std::uint32_t* to = own(now.r[0]) + std::size_t{i} * kWarpLanes;
      bits::for_each(lanes, [&](std::uint32_t lane) { to[lane] = from[lane]; });
    }
    return;
  }
  const std::uint32_t mask = (1U << 8 * bytes) - 1;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < now.kind; ++i) {
      value |= std::uint64_t{plane(now.r[kFirstSource + i])[lane] & mask} << 8 * bytes * i;
    }
    put(now.r[0], lane, value, now.planes);
  });
}

void LaneWork::set_place(const ResolvedInstruction& now, LaneMask lanes) {
  const auto which = static_cast<PlaceNumber>(now.kind);
  const bool same = which >= PlaceNumber::warp;
  std::uint64_t value = same ? number(which, 0) : 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1U) == 0) continue;
    if (!same) value = number(which, lane);
    put(now.r[0], lane, value + now.number, now.planes);
  }
}

std::uint64_t LaneWork::number(PlaceNumber which, std::uint32_t lane) const {
  const std::uint32_t thread = place_.warp * kWarpLanes + lane;
  const arch::Dim3& block = place_.block;
  const arch::Dim3 cluster{std::max(1U, place_.cluster_shape.x), std::max(1U, place_.cluster_shape.y),
                           std::max(1U, place_.cluster_shape.z)};
  switch (which) {
    case PlaceNumber::tid_x:
      return thread % block.x;
    case PlaceNumber::tid_y:
      return thread / block.x % block.y;
    case PlaceNumber::tid_z:
      return thread / block.x / block.y;
    case PlaceNumber::lane:
      return lane;
    case PlaceNumber::mask_eq:
      return LaneMask{1} << lane;
    case PlaceNumber::mask_lt:
      return (LaneMask{1} << lane) - 1;
    case PlaceNumber::mask_le:
      return static_cast<LaneMask>((std::uint64_t{2} << lane) - 1);
    case PlaceNumber::mask_ge:
      return kEveryLane << lane;
    case PlaceNumber::mask_gt:
      return static_cast<LaneMask>(std::uint64_t{kEveryLane} << (lane + 1));
    case PlaceNumber::warp:
      return place_.warp;
    case PlaceNumber::ntid_x:
      return block.x;
    case PlaceNumber::ntid_y:
      return block.y;
    case PlaceNumber::ntid_z:
      return block.z;
    case PlaceNumber::ctaid_x:
      return place_.cta_x;
    case PlaceNumber::ctaid_y:
      return place_.cta_y;
    case PlaceNumber::ctaid_z:
      return place_.cta_z;
    case PlaceNumber::nctaid_x:
      return place_.grid.x;
    case PlaceNumber::nctaid_y:
      return place_.grid.y;
    case PlaceNumber::nctaid_z:
      return place_.grid.z;
    case PlaceNumber::cluster_x:
      return place_.cta_x / cluster.x;
    case PlaceNumber::cluster_y:
      return place_.cta_y / cluster.y;
    case PlaceNumber::cluster_z:
      return place_.cta_z / cluster.z;
    case PlaceNumber::nclusters_x:
      return place_.grid.x / cluster.x;
    case PlaceNumber::nclusters_y:
      return place_.grid.y / cluster.y;
    case PlaceNumber::nclusters_z:
      return place_.grid.z / cluster.z;
    case PlaceNumber::cluster_cta_x:
      return place_.cta_x % cluster.x;
    case PlaceNumber::cluster_cta_y:
      return place_.cta_y % cluster.y;
    case PlaceNumber::cluster_cta_z:
      return place_.cta_z % cluster.z;
    case PlaceNumber::cluster_ctas_x:
      return cluster.x;
    case PlaceNumber::cluster_ctas_y:
      return cluster.y;
    case PlaceNumber::cluster_ctas_z:
      return cluster.z;
    case PlaceNumber::cluster_rank:
      return place_.rank;
    case PlaceNumber::cluster_size:
      return place_.cluster_size;
    case PlaceNumber::arguments:
      return code_.arguments.value_or(place_.kernarg);
    case PlaceNumber::explicit_cluster:
      return place_.cluster_shape.count() > 1 ? 1 : 0;
  }
  return 0;
}

bool LaneWork::in_window(Window window, std::uint64_t address) const {
  const std::uint64_t arguments = code_.arguments.value_or(place_.kernarg);
  switch (window) {
    case Window::shared:
      return in_shared_window(address) && is_own_word(own_word(static_cast<std::uint32_t>(address)));
    case Window::cluster:
      return in_shared_window(address);
    case Window::local:
      return in_local_window(address);
    case Window::parameter:
      return code_.argument_bytes != 0 && address >= arguments && address - arguments < code_.argument_bytes;
    case Window::constant:
      return address >= code_.constant_begin && address < code_.constant_end;
    default:
      return !in_shared_window(address) && !in_local_window(address);
  }
}

void LaneWork::windows(const ResolvedInstruction& now, LaneMask lanes) {
  const bool shared = now.window == Window::shared || now.window == Window::cluster;
  const std::uint64_t base = shared ? kSharedWindow : now.window == Window::local ? kLocalWindow : 0;
  const bool wide = now.bytes == 8;
  LaneMask inside = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const std::uint64_t address = value(now.r[2], lane, wide);
    if (now.action == Action::in_window) {
      inside |= LaneMask{in_window(now.window, address)} << lane;
    } else if (now.action == Action::to_window) {
      put(now.r[0], lane, address + base, now.planes);
    } else {
      put(now.r[0], lane, address - base, now.planes);
    }
  });
  if (now.action == Action::in_window) set_predicate(now.p_out[0], inside, lanes);
}

// mapa and getctarank; a generic address is one of the window of shared memory.
void LaneWork::shared_ranks(const ResolvedInstruction& now, LaneMask lanes) {
  const bool wide = now.bytes == 8;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const std::uint64_t address = value(now.r[2], lane, wide);
    const std::uint32_t word = own_word(static_cast<std::uint32_t>(address));
    if (now.action == Action::rank_of) {
      put(now.r[0], lane, is_own_word(word) ? place_.rank : rank_of_word(word), 1);
      return;
    }
    const std::uint64_t window = address & ~(kWindowBytes - 1);
    const std::uint32_t rank = plane(now.r[3])[lane];
    put(now.r[0], lane, window | shared_word(rank, offset_of_word(word)), now.planes);
  });
}

void LaneWork::votes(const ResolvedInstruction& now, LaneMask here, LaneMask lanes) {
  LaneMask set = 0;
  if (now.action == Action::vote || now.action == Action::ballot) {
    set = (now.p_in[0].any() ? predicate(now.p_in[0]) : now.number != 0 ? kEveryLane : 0) & here;
  }
  std::uint32_t value = 0;
  switch (now.action) {
    case Action::vote: {
      const auto kind = static_cast<VoteKind>(now.kind);
      const bool all = set == here;
      const bool holds = kind == VoteKind::all ? all : kind == VoteKind::any ? set != 0 : all || set == 0;
      return set_predicate(now.p_out[0], holds ? kEveryLane : 0, lanes);
    }
    case Action::ballot:
      value = set;
      break;
    case Action::active_mask:
      value = static_cast<LaneMask>(state_.scalars[kActiveScalar]);
      break;
    case Action::elect: {
      value = here == 0 ? 0 : bits::lowest(here);
      set_predicate(now.p_out[0], here & (~here + 1), lanes);
      break;
    }
    default:
      HEDDLE_CHECK(false, "an instruction that no lane works at");
  }
  if (now.r[0] == kNoPlane) return;
  bits::for_each(lanes, [&](std::uint32_t lane) { put(now.r[0], lane, value, 1); });
}

void LaneWork::match(const ResolvedInstruction& now, LaneMask here, LaneMask lanes) {
  const bool wide = now.bytes == 8;
  std::array<std::uint32_t, kWarpLanes> result{};
  bits::for_each(here, [&](std::uint32_t lane) {
    bits::for_each(here, [&](std::uint32_t other) {
      const bool same = value(now.r[2], lane, wide) == value(now.r[2], other, wide);
      result[lane] |= LaneMask{same} << other;
    });
  });
  LaneMask all = 0;
  if (now.action == Action::match_all) {
    bits::for_each(here, [&](std::uint32_t lane) { all |= LaneMask{result[lane] == here} << lane; });
    if (all != here) result.fill(0);
    set_predicate(now.p_out[0], all == here ? kEveryLane : 0, lanes);
  }
  if (now.r[0] == kNoPlane) return;
  bits::for_each(lanes, [&](std::uint32_t lane) { put(now.r[0], lane, result[lane], 1); });
}

// PTX ISA, shfl.sync: c has the clamp in bits 4:0 and the mask of segments in bits 12:8.
void LaneWork::shuffle(const ResolvedInstruction& now, LaneMask lanes) {
  const std::uint32_t* a = plane(now.r[2]);
  const std::uint32_t* b = plane(now.r[3]);
  const std::uint32_t* c = plane(now.r[4]);
  std::array<std::uint32_t, kWarpLanes> result{};
  LaneMask inside = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const std::uint32_t offset = b[lane] & 31U;
    const std::uint32_t clamp = c[lane] & 31U;
    const std::uint32_t segment = c[lane] >> 8 & 31U;
    const std::uint32_t most = (lane & segment) | (clamp & ~segment);
    const std::uint32_t least = lane & segment;
    std::uint32_t from = 0;
    bool in = false;
    switch (static_cast<ShuffleKind>(now.kind)) {
      case ShuffleKind::up:
        from = lane - offset;
        in = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(most);
        break;
      case ShuffleKind::down:
        from = lane + offset;
        in = from <= most;
        break;
      case ShuffleKind::butterfly:
        from = lane ^ offset;
        in = from <= most;
        break;
      case ShuffleKind::index:
        from = least | (offset & ~segment);
        in = from <= most;
        break;
    }
    if (!in) from = lane;
    inside |= LaneMask{in} << lane;
    result[lane] = a[from];
  });
  if (now.r[0] != kNoPlane) bits::for_each(lanes, [&](std::uint32_t lane) { put(now.r[0], lane, result[lane], 1); });
  set_predicate(now.p_out[0], inside, lanes);
}

void LaneWork::reduce(const ResolvedInstruction& now, LaneMask here, LaneMask lanes) {
  if (here == 0) return;
  const std::uint32_t* a = plane(now.r[2]);
  std::uint32_t value = a[bits::lowest(here)];
  bits::for_each(bits::without_lowest(here), [&](std::uint32_t lane) {
    value = reduced(static_cast<ReduceKind>(now.kind), now.is_signed, value, a[lane]);
  });
  bits::for_each(lanes, [&](std::uint32_t lane) { put(now.r[0], lane, value, 1); });
}

void LaneWork::matrix(const MatrixWork& work, LaneMask lanes) {
  constexpr std::size_t kMost = 16;
  std::array<LaneWords, kMost> a;
  std::array<LaneWords, kMost> to;
  const auto get = [this](const std::vector<PlaneRef>& from, std::array<LaneWords, kMost>& words) {
    for (std::size_t i = 0; i < from.size(); ++i) std::copy_n(plane(from[i]), kWarpLanes, words[i].begin());
  };
  get(work.a, a);
  switch (work.kind) {
    case MatrixWork::Kind::multiply: {
      std::array<LaneWords, kMost> b;
      std::array<LaneWords, kMost> c;
      get(work.b, b);
      get(work.c, c);
      multiply_matrices(work.mma, to.data(), a.data(), b.data(), c.data());
      break;
    }
    case MatrixWork::Kind::load:
      for (std::size_t j = 0; j < work.to.size(); ++j) {
        MatrixRows rows;
        for (std::size_t row = 0; row < 8; ++row) {
          for (std::size_t word = 0; word < 4; ++word)
            std::memcpy(rows.bytes[row] + 4 * word, &a[word][8 * j + row], 4);
        }
        to[j] = load_matrix(rows, work.transposed);
      }
      break;
    case MatrixWork::Kind::store:
      for (std::size_t j = 0; j < work.a.size(); ++j) {
        const MatrixRows rows = store_matrix(a[j], work.transposed);
        for (std::size_t row = 0; row < 8; ++row) {
          for (std::size_t word = 0; word < 4; ++word)
            std::memcpy(&to[word][8 * j + row], rows.bytes[row] + 4 * word, 4);
        }
      }
      break;
    case MatrixWork::Kind::transpose:
      to[0] = transpose_matrix(a[0]);
      break;
  }
  for (std::size_t i = 0; i < work.to.size(); ++i) {
    std::uint32_t* result = own(work.to[i]);
    bits::for_each(lanes, [&](std::uint32_t lane) { result[lane] = to[i][lane]; });
  }
}

}  // namespace heddle::ptx
