// Between the SMs and the fluid model of CTAs that have a demand in place of a program. Both ways without delay: the
// model is arithmetic, and no block of silicon.
#pragma once

#include <cstdint>

#include "protocol/ids.h"

namespace heddle::protocol {

// SM -> fluid unit: a CTA begins, or goes on; or it stops, and is answered within the call.
struct WorkPacket {
  enum class Kind : std::uint8_t { start, stop };
  Kind kind = Kind::start;
  SmId sm;
  CtaSlot cta_slot;
  std::uint32_t code = 0;    // start: whose demand, in the machine's CodeStore
  double left = 1;           // start: the part of the CTA's work that is still to be done
  std::uint32_t kernel = 0;  // start: row of the kernel (arch/kernel_account.h)
};

// Fluid unit -> SM, one link per SM in the order of their ids.
struct WorkDonePacket {
  enum class Kind : std::uint8_t { ended, stopped };
  Kind kind = Kind::ended;
  CtaSlot cta_slot;
  double left = 0;  // stopped: the part of its work that is still to be done
};

}  // namespace heddle::protocol
