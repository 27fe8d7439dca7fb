// Random programs of loads, stores and atomics from many warps, without races: what they leave in memory does not
// depend on time.
#pragma once

#include <cstdint>
#include <memory>

#include "support/list_program.h"
#include "support/random.h"

namespace heddle::test {

constexpr std::uint64_t kShared = 0x8000;    // read only
constexpr std::uint64_t kCounters = 0xC000;  // atomics of all warps
constexpr std::uint64_t kOwn = 0x10000;      // a piece for every warp
constexpr std::uint32_t kPiece = 1536;       // not a multiple of a page, or of what the slices are dealt
constexpr std::uint32_t kWindow = 2048;      // of shared memory for every warp

inline std::uint64_t warp_number(const Warp& warp) { return warp.place.cta * warp.place.warps + warp.place.warp; }

// Lanes of one access never overlap: lane l gets place (a * l + b) mod 32 of those that the piece has.
inline ListProgram::Address own_piece(Random& random, std::uint32_t width, arch::Space space, std::uint64_t own) {
  const std::uint32_t factor = 2 * random.below(16) + 1;
  const std::uint32_t offset = random.below(32);
  const std::uint32_t size = space == arch::Space::global ? kPiece : kWindow;
  const std::uint32_t start = random.below((size - 32 * width) / width + 1) * width;
  return [=](const Warp& warp, std::uint32_t lane) {
    const std::uint64_t base =
        space == arch::Space::global ? own + kPiece * warp_number(warp) : std::uint64_t{kWindow} * warp.place.warp;
    return base + start + std::uint64_t{width} * ((factor * lane + offset) % 32);
  };
}

inline ListProgram::Lanes some_lanes(Random& random) {
  if (random.chance(50)) return {};
  const std::uint32_t mask = static_cast<std::uint32_t>(random.next());
  return [mask](const Warp& warp) { return mask ^ static_cast<std::uint32_t>(warp_number(warp) * 0x9E37'79B9U); };
}

// `own`: where the pieces of its warps begin. Programs with different pieces can run at the same time.
inline std::shared_ptr<ListProgram> random_accesses(std::uint64_t seed, std::uint64_t own = kOwn) {
  using arch::AtomicKind;
  using arch::kNoRegister;
  using arch::Order;
  using arch::Space;
  using arch::ValueType;
  Random random(seed);
  auto program = std::make_shared<ListProgram>(16);
  ListProgram& p = *program;
  static constexpr std::uint8_t kWidths[] = {1, 2, 4, 8, 16};
  const auto some_register = [&] { return static_cast<std::uint16_t>(4 * random.below(4)); };
  const std::uint32_t steps = random.between(10, 60);
  for (std::uint32_t i = 0; i < steps; ++i) {
    ListProgram::Access access;
    access.width = kWidths[random.below(5)];
    access.space = random.chance(30) ? Space::shared : Space::global;
    access.lanes = some_lanes(random);
    if (access.space == Space::global && random.chance(20)) access.order = Order::relaxed;
    const std::uint16_t reg = some_register();
    switch (random.below(8)) {
      case 0:
      case 1:
        p.load(access, reg, own_piece(random, access.width, access.space, own));
        break;
      case 2: {  // read only, at an address that a register decides
        access.space = Space::global;
        access.width = 4;
        const std::uint32_t salt = static_cast<std::uint32_t>(random.next());
        p.load(
            access, some_register(),
            [=](const Warp& warp, std::uint32_t lane) { return kShared + 4 * ((warp.reg(reg, lane) ^ salt) % 4096); },
            {{reg, 1}});
        break;
      }
      case 3:
      case 4:
        p.store_registers(access, reg, own_piece(random, access.width, access.space, own));
        break;
      case 5: {  // many warps on a few words; the order does not matter for the sum
        static constexpr AtomicKind kKinds[] = {AtomicKind::add, AtomicKind::bit_xor, AtomicKind::max};
        const std::uint32_t which = random.below(3);
        const std::uint32_t spread = random.between(1, 64);
        access.order = Order::relaxed;
        access.space = Space::global;
        p.atomic(access, kKinds[which], ValueType::u32, kNoRegister, ListProgram::of_register(reg),
                 [=](const Warp&, std::uint32_t lane) { return kCounters + 4 * (which * 64 + lane % spread); },
                 {{reg, 1}});
        break;
      }
      case 6: {  // in the own piece, with the old value
        const bool wide = random.chance(30);
        const std::uint32_t width = wide ? 8 : 4;
        access.order = access.space == Space::global ? Order::relaxed : Order::weak;
        static constexpr AtomicKind kKinds[] = {AtomicKind::add, AtomicKind::min, AtomicKind::bit_and,
                                                AtomicKind::exchange, AtomicKind::bit_or};
        p.atomic(access, kKinds[random.below(5)], wide ? ValueType::u64 : ValueType::u32, some_register(),
                 ListProgram::of_register(reg), own_piece(random, width, access.space, own), {{reg, 1}});
        break;
      }
      default:
        p.set(reg,
              [salt = static_cast<std::uint32_t>(random.next()), reg](const Warp& warp, std::uint32_t lane) {
                return warp.reg(reg, lane) * 2'654'435'761U + salt + lane;
              },
              {{reg, 1}});
    }
  }
  for (std::uint16_t reg = 0; reg < 16; reg = static_cast<std::uint16_t>(reg + 4)) {
    ListProgram::Access access;
    p.store_registers(access, reg, [reg, own](const Warp& warp, std::uint32_t lane) {
      return own + kPiece * warp_number(warp) + kPiece - 512 + 32 * reg + 4 * lane;
    });
  }
  p.exit();
  return program;
}

}  // namespace heddle::test
