// A kernel's program as bytes (HST-07): what `heddle compile` puts into a container, and the machine reads from device
// memory. docs/kernels.md has the format, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/brought_code.h"
#include "arch/task_record.h"
#include "program/scenario_program.h"

namespace heddle::program {

// The head, little-endian:
//     0  magic     4   'H', 'D', 'L', 'C'
//     4  version   2   1
//     6  links     2   kernels that the program launches
//     8  bytes     4   of what follows the links
//    12  0         4
//    16  links     8 each, the address of the kernel object, which the loader fills in
// Then CBOR (RFC 8949): a map with the keys of code_spec().
constexpr std::uint32_t kCodeMagic = 0x434C4448;  // "HDLC"
constexpr std::uint16_t kCodeVersion = 1;
constexpr std::size_t kCodeHeadBytes = 16;
constexpr std::size_t kCodeLinkBytes = 8;
constexpr std::uint32_t kMostLinks = 0xFFFF;
constexpr std::size_t kMostText = std::size_t{1} << 20;  // of a program's expressions, with the `let`s that they name

// `steps`: of a program that has been compiled for `kernel`. `launched`: the kernels that it launches, in the order of
// their links; all of them are in `targets`. The links are 0.
std::vector<std::uint8_t> encode_code(const arch::KernelRecord& kernel, const YAML::Node& steps,
                                      const std::vector<std::string>& launched, const LaunchTargets& targets);

// Compiles what encode_code() has written. No bytes make it throw.
class CodeImage final : public arch::CodeDecoder {
 public:
  arch::DecodedCode decode(const std::vector<std::uint8_t>& code) const override;
};

}  // namespace heddle::program
