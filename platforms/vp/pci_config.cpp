#include "vp/pci_config.h"

#include "common/error.h"

namespace heddle::vp {
namespace {

constexpr std::uint32_t kCommand = 0x04;
constexpr std::uint32_t kMemorySpace = 1U << 1;
constexpr std::uint32_t kBusMaster = 1U << 2;
constexpr std::uint32_t kParityResponse = 1U << 6;
constexpr std::uint32_t kSystemErrors = 1U << 8;
constexpr std::uint32_t kInterruptDisable = 1U << 10;
constexpr std::uint32_t kStatus = 0x06;
constexpr std::uint32_t kHasCapabilities = 1U << 4;
constexpr std::uint32_t kCacheLine = 0x0C;
constexpr std::uint32_t kBars = 0x10;
constexpr std::uint32_t kPrefetchable = 1U << 3;
constexpr std::uint32_t kBarFlags = 0xF;
constexpr std::uint32_t kSubsystem = 0x2C;
constexpr std::uint32_t kCapabilities = 0x34;
constexpr std::uint32_t kInterruptLine = 0x3C;

constexpr std::uint32_t kMsiId = 0x05;
constexpr std::uint32_t kMsiControl = kMsiCapability + 2;
constexpr std::uint32_t kMsiEnable = 1;
constexpr std::uint32_t kMsiWide = 1U << 7;  // addresses of 64 bits
constexpr std::uint32_t kMsiAddress = kMsiCapability + 4;
constexpr std::uint32_t kMsiUpper = kMsiCapability + 8;
constexpr std::uint32_t kMsiData = kMsiCapability + 12;

bool is_bar_size(std::uint32_t bytes) { return bytes >= 16 && bytes <= 1U << 30 && (bytes & (bytes - 1)) == 0; }

}  // namespace

PciConfig::PciConfig(std::uint32_t bar0_bytes, std::uint32_t bar1_bytes, std::uint8_t revision)
    : bar_bytes_{bar0_bytes, bar1_bytes} {
  HEDDLE_CHECK(is_bar_size(bar0_bytes) && is_bar_size(bar1_bytes), "a BAR of a size that no BAR can have");
  define(0x00, 2, kPciVendor, 0);
  define(0x02, 2, kPciDevice, 0);
  define(kCommand, 2, 0, kMemorySpace | kBusMaster | kParityResponse | kSystemErrors | kInterruptDisable);
  define(kStatus, 2, kHasCapabilities, 0);
  define(0x08, 4, kPciClass << 8 | revision, 0);
  define(kCacheLine, 1, 0, 0xFF);
  define(kBars, 4, 0, ~(bar0_bytes - 1));
  define(kBars + 4, 4, kPrefetchable, ~(bar1_bytes - 1));
  define(kSubsystem, 4, std::uint32_t{kPciDevice} << 16 | kPciVendor, 0);
  define(kCapabilities, 1, kMsiCapability, 0);
  define(kInterruptLine, 1, 0, 0xFF);
  define(kMsiCapability, 2, kMsiId, 0);
  define(kMsiControl, 2, kMsiWide, kMsiEnable);
  define(kMsiAddress, 4, 0, ~3U);
  define(kMsiUpper, 4, 0, ~0U);
  define(kMsiData, 2, 0, 0xFFFF);
  reset();
}

void PciConfig::define(std::uint32_t offset, unsigned bytes, std::uint32_t value, std::uint32_t writable) {
  for (unsigned i = 0; i < bytes; ++i) {
    initial_[offset + i] = static_cast<std::uint8_t>(value >> 8 * i);
    writable_[offset + i] = static_cast<std::uint8_t>(writable >> 8 * i);
  }
}

void PciConfig::reset() { bytes_ = initial_; }

std::uint32_t PciConfig::read(std::uint32_t offset, unsigned bytes) const {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    const std::uint32_t byte = offset < kConfigBytes - i ? bytes_[offset + i] : 0xFFU;
    value |= byte << 8 * i;
  }
  return value;
}

void PciConfig::write(std::uint32_t offset, std::uint32_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes && offset < kConfigBytes - i; ++i) {
    const std::uint8_t mask = writable_[offset + i];
    const auto byte = static_cast<std::uint8_t>(value >> 8 * i);
    bytes_[offset + i] = static_cast<std::uint8_t>((bytes_[offset + i] & ~mask) | (byte & mask));
  }
}

std::optional<BarPlace> PciConfig::find(std::uint64_t address, unsigned bytes) const {
  if ((read(kCommand, 2) & kMemorySpace) == 0) return std::nullopt;
  for (unsigned bar = 0; bar < bar_bytes_.size(); ++bar) {
    const std::uint64_t base = read(kBars + 4 * bar, 4) & ~kBarFlags;
    if (address < base || address - base >= bar_bytes_[bar]) continue;
    if (bytes > bar_bytes_[bar] - (address - base)) return std::nullopt;
    return BarPlace{bar, address - base};
  }
  return std::nullopt;
}

bool PciConfig::bus_master() const { return (read(kCommand, 2) & kBusMaster) != 0; }

std::optional<InterruptMessage> PciConfig::message() const {
  if (!bus_master() || (read(kMsiControl, 2) & kMsiEnable) == 0) return std::nullopt;
  return InterruptMessage{std::uint64_t{read(kMsiUpper, 4)} << 32 | read(kMsiAddress, 4), read(kMsiData, 2)};
}

}  // namespace heddle::vp
