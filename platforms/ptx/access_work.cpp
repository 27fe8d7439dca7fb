#include "ptx/access_work.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/bits.h"
#include "common/error.h"
#include "ptx/ptx_code.h"
#include "ptx/wgmma.h"

namespace heddle::ptx {

using arch::kWarpLanes;
using arch::LaneMask;
using arch::OpCode;
using arch::Operation;
using arch::Space;

AccessWork::Target AccessWork::target(Window window, std::uint64_t address) const {
  const bool generic = window == Window::generic;
  if (window == Window::shared || window == Window::cluster || (generic && in_shared_window(address))) {
    const std::uint32_t word = work_.own_word(static_cast<std::uint32_t>(address));
    if (is_own_word(word)) return {Space::shared, word};
    return {Space::cluster, arch::dsmem_address(rank_of_word(word), offset_of_word(word))};
  }
  if (window == Window::local || (generic && in_local_window(address))) {
    return {Space::local, address & (kWindowBytes - 1)};
  }
  return {Space::global, address};
}

std::uint64_t AccessWork::address_of(PlaneRef base, bool wide, std::int64_t offset, Window window,
                                     std::uint32_t lane) const {
  const std::uint64_t address = work_.value(base, lane, wide) + static_cast<std::uint64_t>(offset);
  return wide || window == Window::global ? address : address & 0xFFFF'FFFFU;
}

LaneMask AccessWork::aim(const AccessForm& form, PlaneRef base, LaneMask lanes, Operation& operation) {
  if (form.window == Window::global || form.window == Window::parameter || form.window == Window::constant) {
    operation.space = Space::global;
    const std::uint32_t* low = work_.plane(base);
    const std::uint32_t* high = form.wide ? work_.plane(base >= 0 ? base + 1 : base - 1) : nullptr;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint64_t upper = high != nullptr ? high[lane] : 0;
      operation.address[lane] = (low[lane] | upper << 32) + static_cast<std::uint64_t>(form.offset);
    }
    return lanes;
  }
  const bool shared = form.window == Window::shared || form.window == Window::cluster;
  if (shared) {  // mostly of the thread's own CTA
    const std::uint32_t* words = work_.plane(base);
    const auto offset = static_cast<std::uint32_t>(form.offset);
    std::uint32_t any = 0;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint32_t word = words[lane] + offset;
      any |= word;
      operation.address[lane] = word;
    }
    if (is_own_word(any)) {
      operation.space = Space::shared;
      return lanes;
    }
  }
  const auto at = [&](std::uint32_t lane) {
    return target(form.window, address_of(base, form.wide, form.offset, form.window, lane));
  };
  const Space space = at(bits::lowest(lanes)).space;
  LaneMask same = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const Target there = at(lane);
    if (there.space != space) return;
    same |= LaneMask{1} << lane;
    operation.address[lane] = there.address;
  });
  operation.space = space;
  return same;
}

LaneMask AccessWork::fill(const ResolvedInstruction& now, LaneMask lanes, Operation& operation) {
  if (now.action == Action::bulk) return bulk(now, lanes, operation);
  if (now.action == Action::warpgroup) return warpgroup(now, lanes, operation);
  const AccessForm& form = code_.accesses[now.target];
  lanes &= form.only;
  if (lanes == 0) return 0;
  operation.code = form.code;
  operation.order = form.order;
  operation.scope = form.scope;
  operation.count = form.bytes;
  operation.read = form.read;
  if (now.action == Action::control) {
    if (now.r[2] != kNoPlane) {
      operation.address[bits::lowest(lanes)] =
          address_of(now.r[2], form.wide, form.offset, Window::global, bits::lowest(lanes));
    } else {
      operation.address[bits::lowest(lanes)] = 0;
    }
    operation.cga_level.reset();
    return 0;
  }
  operation.width = form.width;
  operation.destination = now.r[0] == kNoPlane ? arch::kNoRegister : static_cast<std::uint16_t>(now.r[0]);
  operation.completes = form.completes;
  operation.combines = false;
  operation.atomic = form.atomic;
  operation.type = form.type;
  if (form.code == OpCode::async_copy) return copy(now, form, lanes, operation);
  LaneMask same = aim(form, now.r[2], lanes, operation);
  if (form.completes) same = complete(now, form, same, operation);
  operation.lanes = same;
  if (now.action == Action::mbarrier) {
    mbarrier(now, form, same, operation);
  } else if (form.code != OpCode::load) {
    store(now, form, same, operation);
  }
  return lanes & ~same;
}

// What is stored, or the operand of an atomic.
void AccessWork::store(const ResolvedInstruction& now, const AccessForm& form, LaneMask lanes, Operation& operation) {
  const std::uint32_t bytes = form.width / form.elements;
  if (bytes >= 4) {
    const std::uint32_t planes = bytes / 4;
    for (std::uint32_t element = 0; element < form.elements; ++element) {
      for (std::uint32_t i = 0; i < planes; ++i) {
        const PlaneRef base = now.r[3 + element];
        const auto step = static_cast<PlaneRef>(i);
        const std::uint32_t* from = work_.plane(base >= 0 ? base + step : base - step);
        const std::uint32_t word = element * planes + i;
        for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) operation.data[lane][word] = from[lane];
      }
    }
  } else {
    const std::uint32_t mask = (1U << 8 * bytes) - 1;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) operation.data[lane] = {};
    for (std::uint32_t element = 0; element < form.elements; ++element) {
      const std::uint32_t* from = work_.plane(now.r[3 + element]);
      const std::uint32_t at = element * bytes;
      for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        operation.data[lane][at / 4] |= (from[lane] & mask) << 8 * (at % 4);
      }
    }
  }
  if (form.code == OpCode::atomic && form.atomic == arch::AtomicKind::compare_exchange) {
    bits::for_each(lanes,
                   [&](std::uint32_t lane) { operation.compare[lane] = work_.value(now.r[4], lane, form.width == 8); });
  }
}

// The lanes whose mbarrier has the same offset as the first lane's. Bytes count at mbarriers on the way through the
// cluster's network, and it is the way to the lane's own CTA as well.
LaneMask AccessWork::complete(const ResolvedInstruction& now, const AccessForm& form, LaneMask lanes,
                              Operation& operation) {
  const auto barrier = [&](std::uint32_t lane) {
    return offset_of_word(work_.plane(now.r[7])[lane] + static_cast<std::uint32_t>(form.barrier_offset));
  };
  operation.barrier = barrier(bits::lowest(lanes));
  LaneMask same = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) { same |= LaneMask{barrier(lane) == operation.barrier} << lane; });
  if (operation.space == Space::shared) {
    operation.space = Space::cluster;
    bits::for_each(same, [&](std::uint32_t lane) {
      operation.address[lane] = arch::dsmem_address(place_.rank, static_cast<std::uint32_t>(operation.address[lane]));
    });
  }
  return same;
}

// Bytes that are not copied become zero: lanes that copy nothing store.
LaneMask AccessWork::copy(const ResolvedInstruction& now, const AccessForm& form, LaneMask lanes,
                          Operation& operation) {
  LaneMask here = lanes;
  if (form.zero_fill) {
    const std::uint32_t* sizes = work_.plane(now.r[4]);
    const bool none = sizes[bits::lowest(lanes)] == 0;
    bits::for_each(lanes, [&](std::uint32_t lane) {
      if (sizes[lane] != 0 && sizes[lane] != form.width) {
        throw InputError(fmt::format("{}: cp.async copies {} of {} bytes", code_.module, sizes[lane], form.width),
                         "copy all of them or none: the model fills no part of a copy with zeros");
      }
      if ((sizes[lane] == 0) != none) here &= ~(LaneMask{1} << lane);
    });
    if (none) {
      operation.code = OpCode::store;
      bits::for_each(here, [&](std::uint32_t lane) {
        operation.data[lane] = {};
        operation.address[lane] =
            target(Window::shared, address_of(now.r[2], form.wide, form.offset, Window::shared, lane)).address;
      });
      operation.space = Space::shared;
      operation.lanes = here;
      return lanes & ~here;
    }
  }
  operation.space = Space::global;
  operation.lanes = here;
  bits::for_each(here, [&](std::uint32_t lane) {
    const std::uint64_t to = address_of(now.r[2], form.wide, form.offset, Window::shared, lane);
    operation.shared_address[lane] = static_cast<std::uint32_t>(target(Window::shared, to).address);
    operation.address[lane] = address_of(now.r[3], form.source_wide, form.source_offset, Window::global, lane);
  });
  return lanes & ~here;
}

void AccessWork::mbarrier(const ResolvedInstruction& now, const AccessForm& form, LaneMask lanes,
                          Operation& operation) {
  bits::for_each(lanes, [&](std::uint32_t lane) {
    operation.data[lane] = {};
    operation.data[lane][0] = now.r[3] == kNoPlane ? 1 : work_.plane(now.r[3])[lane];
    if (now.r[4] != kNoPlane) operation.data[lane][1] = work_.plane(now.r[4])[lane];
  });
  if (form.code == OpCode::mbarrier_test || form.code == OpCode::mbarrier_wait) {
    bits::for_each(lanes, [&](std::uint32_t lane) { operation.data[lane][0] &= 1; });
  }
  // A loop that does nothing but wait is a wait, if no other lane has something to do meanwhile.
  if (form.code == OpCode::mbarrier_wait) {
    if (state_.scalars[kOthersScalar] != 0) {
      operation.code = OpCode::mbarrier_test;
    } else {
      operation.destination = arch::kNoRegister;
      bits::for_each(lanes, [&](std::uint32_t lane) { work_.own(now.r[0])[lane] = 1; });
    }
  }
}

void AccessWork::set_operand(const BulkForm& form, const BulkOperand& operand, std::uint32_t lane,
                             arch::BulkRequest& request, std::array<std::uint32_t, 3>& offsets) const {
  const std::uint64_t value = work_.value(operand.plane, lane, operand.wide) + static_cast<std::uint64_t>(operand.add);
  switch (operand.kind) {
    case BulkOperandKind::descriptor:
      request.descriptor = value;
      break;
    case BulkOperandKind::coordinate:
      request.coordinates[operand.index] = static_cast<std::int32_t>(value);
      break;
    case BulkOperandKind::offset:
      offsets[operand.index] = static_cast<std::uint32_t>(value);
      break;
    case BulkOperandKind::global:
      request.global = value;
      break;
    case BulkOperandKind::bytes:
      if (value % arch::kBulkBlock != 0) {
        throw InputError(fmt::format("{}: a bulk copy of {} bytes", code_.module, value),
                         fmt::format("copy a multiple of {} bytes", arch::kBulkBlock));
      }
      request.blocks = value / arch::kBulkBlock;
      break;
    case BulkOperandKind::shared:
    case BulkOperandKind::destination: {
      const std::uint32_t word = work_.own_word(static_cast<std::uint32_t>(value));
      const bool data = operand.kind == BulkOperandKind::shared;
      (data ? request.shared : request.destination) = offset_of_word(word);
      if (form.to_cluster && (!data || request.kind == arch::BulkKind::load) && !is_own_word(word)) {
        request.data_cta = rank_of_word(word);
      }
      break;
    }
    case BulkOperandKind::barrier: {
      const std::uint32_t word = work_.own_word(static_cast<std::uint32_t>(value));
      request.barrier = offset_of_word(word);
      if (!is_own_word(word)) request.barrier_cta = rank_of_word(word);
      break;
    }
    case BulkOperandKind::multicast:
      request.multicast = static_cast<std::uint32_t>(value) & 0xFFFF;
      break;
    case BulkOperandKind::byte_mask:
      request.byte_mask = static_cast<std::uint16_t>(value);
      break;
  }
}

LaneMask AccessWork::bulk(const ResolvedInstruction& now, LaneMask lanes, Operation& operation) {
  const BulkForm& form = code_.bulk[now.target];
  operation.code = form.code;
  operation.lanes = lanes;
  operation.bulk.clear();
  bits::for_each(lanes, [&](std::uint32_t lane) {
    arch::BulkRequest request = form.request;
    std::array<std::uint32_t, 3> offsets{};
    for (const BulkOperand& operand : form.operands) set_operand(form, operand, lane, request, offsets);
    if (form.im2col) request.offsets = arch::pack_offsets(form.rank, offsets);
    operation.bulk.push_back(std::move(request));
  });
  return 0;
}

// The unit has rows and columns in groups of eight, each of a distance, and lets the offsets go through the swizzle: so
// do descriptors of matrices along k with a swizzle. Without one, 16 bytes of each row lie together, and what is 8
// elements further along k lies elsewhere.
LaneMask AccessWork::warpgroup(const ResolvedInstruction& now, LaneMask lanes, Operation& operation) {
  constexpr std::uint32_t kDepth = 16;      // elements along k of one instruction
  constexpr std::uint32_t kWarpGroups = 2;  // of eight rows that a warp has
  const WarpgroupWork& work = code_.warpgroups[now.target];
  const std::uint32_t first = bits::lowest(lanes);
  const MatrixDescriptor a = decode_descriptor(work_.value(now.r[2], first, true));
  const MatrixDescriptor b = decode_descriptor(work_.value(now.r[3], first, true));
  if (a.swizzle == MatrixSwizzle::none || b.swizzle == MatrixSwizzle::none || a.base_offset != 0 ||
      b.base_offset != 0) {
    throw InputError(fmt::format("{}: wgmma reads a tile without a swizzle, or one that does not begin where its "
                                 "pattern does",
                                 code_.module),
                     "lay tiles out with a swizzle of 32, 64 or 128 bytes, as the TMA does");
  }
  const auto swizzle = [](MatrixSwizzle its) {
    return its == MatrixSwizzle::bytes128  ? arch::Swizzle::bytes128
           : its == MatrixSwizzle::bytes64 ? arch::Swizzle::bytes64
                                           : arch::Swizzle::bytes32;
  };
  const auto pitch = [](MatrixSwizzle its) {
    return its == MatrixSwizzle::bytes128 ? 128U : its == MatrixSwizzle::bytes64 ? 64U : 32U;
  };
  operation.code = OpCode::matmul_async;
  operation.lanes = lanes;
  arch::MatmulTile& tile = operation.tile;
  tile = {};
  tile.type = work.type;
  tile.n = work.n;
  tile.k = kDepth;
  tile.a = a.start + place_.warp % 4 * kWarpGroups * a.stride;
  tile.a_pitch = pitch(a.swizzle);
  tile.a_group = a.stride;
  tile.a_swizzle = swizzle(a.swizzle);
  tile.b = b.start;
  tile.b_pitch = pitch(b.swizzle);
  tile.b_group = b.stride;
  tile.b_swizzle = swizzle(b.swizzle);
  tile.b_transposed = true;
  const bool adds = now.p_in[0].any() ? (work_.predicate(now.p_in[0]) & lanes) != 0 : now.number != 0;
  if (!adds) {
    for (const PlaneRef plane : work.accumulators) std::fill_n(work_.own(plane), kWarpLanes, 0U);
  }
  return 0;
}

}  // namespace heddle::ptx
