// What packets cost (PKT-08): work that is counted, over the rates of gpu.packet. Plain C++.
//
// The packet processor does one step after another. In a step it moves step_bytes in or out, takes step_half_words of a
// condensed packet apart, or checks step_checks rules. A kernel that is written as a difference from a table entry
// needs none of what the entry has been through already: no bytes of its kernel object, and rules only for what
// differs; but where tables lie in memory the entry itself comes in and is checked as a whole.
#pragma once

#include <cstdint>

#include "arch/kernel_object.h"
#include "common/cycle.h"
#include "packet/packet_params.h"

namespace heddle::packet {

struct PacketWork {
  std::uint64_t bytes = 0;
  std::uint64_t half_words = 0;
  std::uint64_t checks = 0;

  PacketWork& operator+=(const PacketWork& o) {
    bytes += o.bytes;
    half_words += o.half_words;
    checks += o.checks;
    return *this;
  }
  bool any() const { return bytes + half_words + checks > 0; }
};

// Bytes that move besides packets (arch::kPacketBytes) and kernel objects (arch::kKernelObjectBytes).
//
// A dispatch: number 4, queue, priority and subcontext 8; grid and its work-items 2 x 12, block 6; registers 2, shared
// memory 4, local memory 4; program 4, its arguments 8; levels and smaller sizes of clusters 48, how they are placed 1;
// order 3.
constexpr std::uint32_t kDispatchBytes = 116;
// What the clean-up of a kernel reads: its number and status 8, its scopes 1, its signal 8.
constexpr std::uint32_t kCleanUpBytes = 17;
// And what it writes for a signal: address and operand.
constexpr std::uint32_t kSignalBytes = 16;

PacketWork work_of_packet();  // 64 bytes, into the processor
PacketWork work_of_object();  // a kernel object
// A table entry that comes from memory: its bytes, and all rules, since nobody vouches for what lies there.
PacketWork work_of_entry();
PacketWork work_of_code(std::uint64_t bytes);        // that software has brought, with its kernel object
PacketWork work_of_half_words(std::uint64_t count);  // of a condensed packet
PacketWork work_of_checks(std::uint64_t rules);
// Of a packet without kernels: it, and its rules: scopes, reserved fields and every signal; of a vendor packet its
// format and two ranges as well.
PacketWork work_of_other(arch::PacketType type);
PacketWork work_of_dispatch();
PacketWork work_of_clean_up(bool signal);

class WorkRates {
 public:
  // `cycle_ns`: of the clock, for programs of a general circuit.
  WorkRates(const PacketParams& params, double cycle_ns);

  // Of each kind, begun steps count.
  std::uint64_t steps(const PacketWork& work) const;
  double ns(const PacketWork& work) const { return static_cast<double>(steps(work)) * step_ns_; }
  double step_ns() const { return step_ns_; }

 private:
  std::uint64_t bytes_;
  std::uint64_t half_words_;
  std::uint64_t checks_;
  double step_ns_;
};

// Who does the work. Circuits made for it are several: one decodes, one dispatches, one cleans up, and none waits for
// another. A program of a general circuit is one warp: it does one thing after the other (PKT-13).
class PacketCircuit {
 public:
  PacketCircuit(const PacketParams& params, double cycle_ns)
      : rates_(params, cycle_ns), cycle_ns_(cycle_ns), alone_(params.circuit == Circuit::general) {}

  // Cycles from `now` until the work is done, if work takes time.
  Cycle spend(Cycle now, const PacketWork& work);
  std::uint64_t steps(const PacketWork& work) const { return rates_.steps(work); }
  void reset() { free_ = 0; }

 private:
  const WorkRates rates_;
  const double cycle_ns_;
  const bool alone_;
  Cycle free_ = 0;
};

// What a packet of one kernel costs until its dispatch: nanoseconds of the processor, without any memory but that of
// the tables. For whoever chooses between packets before they are there.
struct DecodeCosts {
  double plain = 0;
  double reference = 0;
  double condensed = 0;  // once
  double diff = 0;       // and for a kernel of it, in which arguments differ
};
// `memory_ns`: an access to device memory, which a table in memory takes.
DecodeCosts decode_costs(const PacketParams& params, double cycle_ns, double memory_ns);

}  // namespace heddle::packet
