// What nvcc puts into programs for their devices: containers with PTX and machine code. The format is not documented;
// docs/cuda.md says what was seen of it, and every field that is read here is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cuda {

// In front of a container's entries.
constexpr std::uint32_t kContainerMagic = 0xba55'ed50;
constexpr std::size_t kContainerHeader = 16;
// No more bytes are read: of a container, and of a text.
constexpr std::uint64_t kMostContainer = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostText = std::uint64_t{1} << 28;

enum class CodeKind : std::uint16_t { ptx = 1, machine = 2 };

struct FatEntry {
  CodeKind kind = CodeKind::ptx;
  std::uint32_t architecture = 0;  // 90: compute capability 9.0
  std::string text;                // of PTX, unpacked; empty for machine code
};

// Bytes of the container whose first kContainerHeader bytes are there, with its header. Throws InputError for what is
// none.
std::uint64_t container_bytes(const std::uint8_t* header);

// The entries of the container with all its bytes. Throws InputError for what is not understood: magic, version, kinds,
// sizes that do not go together, a payload that does not unpack to its size. `name`: of the program, for messages.
std::vector<FatEntry> read_container(const std::uint8_t* data, std::size_t size, const std::string& name);

// The PTX of the newest architecture that a device of that one runs: several texts, if they are parts of one module.
// Throws InputError, with what to tell nvcc, if there is none.
std::vector<std::string> choose_ptx(const std::vector<FatEntry>& entries, std::uint32_t architecture,
                                    const std::string& name);

}  // namespace heddle::cuda
