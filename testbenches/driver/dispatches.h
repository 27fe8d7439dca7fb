// Dispatches of the library and of the model, side by side.
#pragma once

#include <vector>

#include "arch/aql_packet.h"
#include "driver/heddle_driver.h"
#include "support/random.h"

namespace heddle::test {

inline arch::DispatchFields as_model(const heddle_dispatch& d) {
  arch::DispatchFields f;
  f.synch_scopes = d.scopes;
  f.setup = d.setup;
  for (std::size_t i = 0; i < 3; ++i) {
    f.workgroup[i] = d.workgroup[i];
    f.grid[i] = d.grid[i];
  }
  f.private_segment = d.private_segment;
  f.group_segment = d.group_segment;
  f.kernel_object = d.kernel_object;
  f.kernarg = d.kernarg;
  f.completion_signal = d.completion_signal;
  return f;
}

inline std::uint8_t random_scopes(Random& random) {
  return HEDDLE_SCOPES(random.chance(50), random.below(3), random.below(3));
}

// Every field anything: for builders.
inline heddle_dispatch random_dispatch(Random& random) {
  heddle_dispatch d{};
  d.scopes = random_scopes(random);
  d.setup = static_cast<std::uint16_t>(random.between(1, 3));
  for (std::size_t i = 0; i < 3; ++i) {
    d.workgroup[i] = static_cast<std::uint16_t>(random.next());
    d.grid[i] = static_cast<std::uint32_t>(random.next());
  }
  d.private_segment = static_cast<std::uint32_t>(random.next());
  d.group_segment = static_cast<std::uint32_t>(random.next());
  d.kernel_object = random.next();
  d.kernarg = random.next() & ~std::uint64_t{15};
  d.completion_signal = random.next();
  return d;
}

inline arch::PacketBytes bytes_of(const heddle_packet& packet) {
  arch::PacketBytes bytes;
  std::copy(std::begin(packet.bytes), std::end(packet.bytes), bytes.begin());
  return bytes;
}

}  // namespace heddle::test
