// Any bytes are messages of QEMU's proxy device, or an error (HST-01). What is read obeys the limits that the rest
// relies on.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "vp/pci_config.h"
#include "vp/proxy_message.h"

namespace {

using namespace heddle::vp;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "a message of the proxy device: %s\n", what);
  std::abort();
}

void use(const ProxyMessage& message, PciConfig& config) {
  const ProxyAccess& access = message.access;
  demand(message.ranges.size() <= kMostProxyFiles, "too many ranges");
  for (const GuestRange& range : message.ranges) {
    demand(range.bytes > 0 && range.address + (range.bytes - 1) >= range.address, "a range that wraps");
  }
  switch (message.command) {
    case ProxyCommand::config_write:
      config.write(static_cast<std::uint32_t>(access.address), static_cast<std::uint32_t>(access.value), access.bytes);
      break;
    case ProxyCommand::config_read:
      (void)config.read(static_cast<std::uint32_t>(access.address), access.bytes);
      break;
    case ProxyCommand::bar_write:
    case ProxyCommand::bar_read:
      if (const auto place = config.find(access.address, access.bytes)) {
        demand(place->bar < 2 && place->offset + access.bytes <= (place->bar == 0 ? 1U << 19 : 1U << 26),
               "beyond a BAR");
      }
      break;
    case ProxyCommand::reset:
      config.reset();
      break;
    default:
      break;
  }
  demand(config.read(0, 4) == (std::uint32_t{kPciDevice} << 16 | kPciVendor), "the identification has changed");
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  PciConfig config(1U << 19, 1U << 26, 2);
  try {
    while (size > kProxyHeaderBytes) {
      const std::size_t files = *data % 10;  // a byte in front of each message
      std::array<std::uint8_t, kProxyHeaderBytes> bytes{};
      std::copy(data + 1, data + 1 + kProxyHeaderBytes, bytes.begin());
      data += 1 + kProxyHeaderBytes;
      size -= 1 + kProxyHeaderBytes;
      const ProxyHeader header = decode_header(bytes);
      demand(header.bytes <= kMostProxyPayload, "a payload beyond the limit");
      const std::size_t count = std::min(header.bytes, size);
      use(decode_message(header, {data, data + count}, files), config);
      data += count;
      size -= count;
    }
  } catch (const ProxyError&) {
  }
  return 0;
}
