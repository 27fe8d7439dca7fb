// What QEMU's x-pci-proxy-dev and the process behind it say to each other, byte by byte: a header of 16 bytes, then a
// payload. Natural C layout of x86-64, little-endian. Tried with QEMU 7.2. Without sockets; docs/virtual-platform.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace heddle::vp {

// QEMU says something that cannot be understood, or does not say anything any more: the connection is of no use.
class ProxyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ProxyCommand : std::uint32_t {
  memory_map = 0,    // the guest's memory, with a file descriptor for each range; no answer, as of interrupt_lines
  answer = 1,        // ours, to every other command
  config_write = 2,  // PCI configuration space
  config_read = 3,
  bar_write = 4,  // memory space
  bar_read = 5,
  interrupt_lines = 6,  // two file descriptors
  reset = 7,
};

constexpr std::size_t kProxyHeaderBytes = 16;
constexpr std::size_t kMostProxyPayload = 192;
constexpr std::size_t kMostProxyFiles = 8;  // that come with a message
constexpr std::size_t kProxyAnswerBytes = kProxyHeaderBytes + 8;

struct ProxyHeader {
  ProxyCommand command = ProxyCommand::reset;
  std::size_t bytes = 0;  // of the payload
};

// A range of the guest's physical addresses in a file.
struct GuestRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;   // at least 1; the range ends below 2^64
  std::uint64_t offset = 0;  // in the file
};

struct ProxyAccess {
  std::uint64_t address = 0;  // of memory space: on the bus; of configuration space: from its beginning
  std::uint64_t value = 0;    // of a write
  unsigned bytes = 0;         // 1, 2, 4, of memory space also 8
};

struct ProxyMessage {
  ProxyCommand command = ProxyCommand::reset;
  std::vector<GuestRange> ranges;  // of memory_map: one for each file
  ProxyAccess access;              // of reads and writes
};

// Whether the command is answered.
bool is_answered(ProxyCommand command);

// Throws ProxyError for commands that do not exist or are not for us, and payloads of another size than the command's.
ProxyHeader decode_header(const std::array<std::uint8_t, kProxyHeaderBytes>& bytes);

// `payload`: as many bytes as the header says. `files`: file descriptors that came with it. Throws ProxyError for
// another number of files than the command brings, ranges that are empty or end beyond 2^64, and accesses of a size
// that does not exist.
ProxyMessage decode_message(const ProxyHeader& header, const std::vector<std::uint8_t>& payload, std::size_t files);

// The answer with that value, header included.
std::array<std::uint8_t, kProxyAnswerBytes> encode_answer(std::uint64_t value);

}  // namespace heddle::vp
