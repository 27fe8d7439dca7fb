// What a CTA demands of the machine, as amounts of work and not as a duration: how long it takes follows from who else
// wants the same (models/fluid). Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle::arch {

// What amounts are of. Floating-point work counts operations (a multiply-add is two), instructions count lanes, memory
// counts bytes.
enum class DemandUnit : std::uint8_t {
  tensor_f16,   // flops of matrix multiplies with f16 or bf16 operands
  tensor_tf32,  // f32 operands
  tensor_f8,    // f8 or i8 operands
  tensor_f64,
  fp32,        // flops
  fp64,        // flops
  int32,       // operations
  sfu,         // operations: roots, exponentials, sines
  shared,      // bytes between shared memory and registers
  l2_read,     // bytes that come from the L2, whether they were there or not
  l2_write,    // bytes that go to the L2
  dram_read,   // bytes that the L2 fetches for it: a part of l2_read
  dram_write,  // bytes that the L2 writes back for it
};
constexpr std::size_t kDemandUnits = 13;
// As scenarios and statistics call it: "dram_read".
constexpr const char* demand_name(DemandUnit unit) {
  constexpr std::array<const char*, kDemandUnits> kNames = {
      "tensor_f16", "tensor_tf32", "tensor_f8", "tensor_f64", "fp32",      "fp64",      "int32",
      "sfu",        "shared",      "l2_read",   "l2_write",   "dram_read", "dram_write"};
  return kNames[static_cast<std::size_t>(unit)];
}
constexpr bool counts_bytes(DemandUnit unit) { return unit >= DemandUnit::shared; }

struct Demand {
  std::array<double, kDemandUnits> amounts{};  // not negative
  double bulk_read = 0;  // bytes of l2_read that bulk requests bring: they go to shared memory, past the L1
  double floor_ns = 0;   // it takes so long at least, however free the machine is: latencies that nothing hides
  // Bytes of l2_read that it has asked for at a time, at most; 0: not known, and then it asks as often, one time after
  // another, as its floor has latencies of memory.
  double in_flight = 0;
  // Parts of these, at least 1: one is asked for as soon as one has been used, while the others are there or come.
  double stages = 1;
  // Instructions that each of its warps gives the load-store unit, one after another: on shared memory, on device
  // memory, on mbarriers. 0: not known, and then they wait for nothing.
  double accesses = 0;

  double& of(DemandUnit unit) { return amounts[static_cast<std::size_t>(unit)]; }
  double of(DemandUnit unit) const { return amounts[static_cast<std::size_t>(unit)]; }
};

}  // namespace heddle::arch
