#include "vp/proxy_message.h"

#include <limits>

#include <fmt/format.h>

#include "arch/byte_codec.h"

namespace heddle::vp {
namespace {

// Bytes of the payload of a command; -1: it is none that QEMU sends.
int payload_of(std::uint32_t command) {
  switch (static_cast<ProxyCommand>(command)) {
    case ProxyCommand::memory_map:
      return static_cast<int>(kMostProxyPayload);
    case ProxyCommand::config_write:
    case ProxyCommand::config_read:
      return 12;
    case ProxyCommand::bar_write:
    case ProxyCommand::bar_read:
      return 24;
    case ProxyCommand::interrupt_lines:
    case ProxyCommand::reset:
      return 0;
    case ProxyCommand::answer:
      break;
  }
  return -1;
}

std::uint64_t number(const std::vector<std::uint8_t>& payload, std::size_t at, unsigned bytes) {
  return arch::load_number(payload.data() + at, bytes);
}

std::vector<GuestRange> decode_ranges(const std::vector<std::uint8_t>& payload, std::size_t count) {
  constexpr std::size_t kColumn = 8 * kMostProxyFiles;  // three columns: address, size, offset
  std::vector<GuestRange> ranges;
  for (std::size_t i = 0; i < count; ++i) {
    GuestRange range;
    range.address = number(payload, 8 * i, 8);
    range.bytes = number(payload, kColumn + 8 * i, 8);
    range.offset = number(payload, 2 * kColumn + 8 * i, 8);
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    if (range.bytes == 0 || range.bytes - 1 > kMost - range.address) {
      throw ProxyError(fmt::format("QEMU tells of {} bytes of memory at {:#x}", range.bytes, range.address));
    }
    if (range.offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw ProxyError(fmt::format("QEMU tells of memory at {:#x} with a negative offset in its file", range.address));
    }
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

bool is_answered(ProxyCommand command) {
  return command != ProxyCommand::memory_map && command != ProxyCommand::interrupt_lines;
}

ProxyHeader decode_header(const std::array<std::uint8_t, kProxyHeaderBytes>& bytes) {
  const auto command = static_cast<std::uint32_t>(arch::load_number(bytes.data(), 4));
  const std::uint64_t size = arch::load_number(bytes.data() + 8, 8);
  const int wanted = payload_of(command);
  if (wanted < 0) throw ProxyError(fmt::format("QEMU sends command {}, which is unknown", command));
  if (size != static_cast<std::uint64_t>(wanted)) {
    throw ProxyError(fmt::format("QEMU sends command {} with {} bytes, of {}", command, size, wanted));
  }
  return {static_cast<ProxyCommand>(command), static_cast<std::size_t>(size)};
}

ProxyMessage decode_message(const ProxyHeader& header, const std::vector<std::uint8_t>& payload, std::size_t files) {
  if (payload.size() != header.bytes) throw ProxyError("a message of QEMU has been cut off");
  const auto command = static_cast<std::uint32_t>(header.command);
  ProxyMessage message;
  message.command = header.command;
  std::size_t most_files = 0;
  switch (header.command) {
    case ProxyCommand::memory_map:
      most_files = kMostProxyFiles;
      if (files <= most_files) message.ranges = decode_ranges(payload, files);
      break;
    case ProxyCommand::config_write:
    case ProxyCommand::config_read:
      message.access.address = number(payload, 0, 4);
      message.access.value = number(payload, 4, 4);
      message.access.bytes = static_cast<unsigned>(number(payload, 8, 4));
      break;
    case ProxyCommand::bar_write:
    case ProxyCommand::bar_read:
      message.access.address = number(payload, 0, 8);
      message.access.value = number(payload, 8, 8);
      message.access.bytes = static_cast<unsigned>(number(payload, 16, 4));
      if (payload[20] == 0) throw ProxyError("QEMU accesses I/O ports, and the device has none");
      break;
    case ProxyCommand::interrupt_lines:
      most_files = 2;
      break;
    case ProxyCommand::answer:
    case ProxyCommand::reset:
      break;
  }
  if (files > most_files) {
    throw ProxyError(fmt::format("QEMU sends command {} with {} files, of at most {}", command, files, most_files));
  }
  const unsigned bytes = message.access.bytes;
  const bool config = header.command == ProxyCommand::config_write || header.command == ProxyCommand::config_read;
  const bool memory = header.command == ProxyCommand::bar_write || header.command == ProxyCommand::bar_read;
  const bool exists = bytes == 1 || bytes == 2 || bytes == 4 || (memory && bytes == 8);
  if ((config || memory) && !exists) throw ProxyError(fmt::format("QEMU accesses {} bytes at a time", bytes));
  return message;
}

std::array<std::uint8_t, kProxyAnswerBytes> encode_answer(std::uint64_t value) {
  std::array<std::uint8_t, kProxyAnswerBytes> bytes{};
  arch::store_number(bytes.data(), 4, static_cast<std::uint64_t>(ProxyCommand::answer));
  arch::store_number(bytes.data() + 8, 8, 8);
  arch::store_number(bytes.data() + kProxyHeaderBytes, 8, value);
  return bytes;
}

}  // namespace heddle::vp
