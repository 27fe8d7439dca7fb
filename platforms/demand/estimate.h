// What the CTAs of a kernel demand, from the work of its operator and from its name.
#pragma once

#include <optional>
#include <string_view>

#include "arch/demand.h"
#include "demand/l2_reuse.h"
#include "demand/operator_work.h"

namespace heddle::demand {

struct Estimate {
  Kind kind = Kind::elementwise;
  double ctas = 1;   // that share the work equally
  double tiles = 0;  // that it falls into, each one CTA's; 0: it has none
  double trips = 1;  // to memory, one after the other, that nothing hides: its floor, with the machine's latency
  arch::Demand cta;  // of each of them; its floor is left open
};

// `ctas`: of the recorded grid; none: it is not recorded, and follows from the tiles of the work where it has some, and
// is otherwise `otherwise`.
//
// A matrix multiply reads two strips for each tile of its result, also where a tile reaches beyond it. The tile is the
// name's; ATen asks column-major libraries for the transposed product, so that their m is its n. Without a name it is a
// square, as large as the CTAs share the result. An attention reads all keys and values for each block of queries, 128
// where the name does not tell. What is read passes through shared memory: in and out. Others read and write as their
// operands say.
Estimate estimate(const Work& work, const MemoryTraffic& traffic, std::string_view kernel, std::optional<double> ctas,
                  double otherwise);

}  // namespace heddle::demand
