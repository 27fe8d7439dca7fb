// What a device says of an operation that it could not carry out.
#pragma once

#include <cstdint>
#include <string>

#include "arch/warp_program.h"

namespace heddle::arch {

enum class FaultKind : std::uint8_t {
  address,        // outside memory, or an error response of it (MEM-05)
  misaligned,     // an access or atomic that is not aligned to its width
  shared_bounds,  // beyond the CTA's shared memory
  unsupported,    // an operation whose block this machine does not have, or a combination that does not exist
  barrier,        // number or thread count out of range, or a warp that left while its barrier waits for it
};
// "address outside memory"
const char* fault_text(FaultKind kind);
// As scenarios and stats.json write it: "address", "shared_bounds".
const char* fault_key(FaultKind kind);

struct FaultRecord {
  FaultKind kind = FaultKind::address;
  std::uint32_t task = 0;  // operation id
  std::uint32_t sm = 0;    // id in the machine
  std::uint64_t cta = 0;   // linear id in the grid
  std::uint32_t cta_x = 0;
  std::uint32_t cta_y = 0;
  std::uint32_t cta_z = 0;
  std::uint32_t warp = 0;  // in the CTA
  std::uint32_t lane = 0;  // the first that was wrong
  OpCode operation = OpCode::exit;
  std::uint64_t address = 0;  // of that lane
  std::uint64_t cycle = 0;
  std::string where;  // the program's name of the operation
};

// "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: store (line 12) to 0x1000: address outside memory"
std::string text_of(const FaultRecord& fault);

}  // namespace heddle::arch
