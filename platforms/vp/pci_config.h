// Configuration space of the GPU as a conventional PCI function: identification, two memory BARs of 32 bits, and MSI
// with one message (PCI Local Bus 3.0, 6.1, 6.2, 6.8). No interrupt pin, no expansion ROM, no extended space.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace heddle::vp {

// Not assigned to anybody by the PCI-SIG that we know of: for models only.
constexpr std::uint16_t kPciVendor = 0xF1F1;
constexpr std::uint16_t kPciDevice = 0x4845;
constexpr std::uint32_t kPciClass = 0x120000;  // processing accelerator

constexpr std::uint32_t kConfigBytes = 256;
constexpr std::uint32_t kMsiCapability = 0x40;

// A place in one of the BARs.
struct BarPlace {
  unsigned bar = 0;  // 0 or 1
  std::uint64_t offset = 0;
};

struct InterruptMessage {
  std::uint64_t address = 0;
  std::uint32_t data = 0;
};

class PciConfig {
 public:
  // Bytes of the BARs: powers of two, 16 to 2^30. `revision`: of the device.
  PciConfig(std::uint32_t bar0_bytes, std::uint32_t bar1_bytes, std::uint8_t revision);

  // `bytes`: 1, 2 or 4. What lies beyond the space reads as ones and is not written.
  std::uint32_t read(std::uint32_t offset, unsigned bytes) const;
  void write(std::uint32_t offset, std::uint32_t value, unsigned bytes);
  // BARs, command and MSI as after power-up.
  void reset();

  // Where an address of the bus lies in a BAR; nothing while memory space is off, or if the access would leave it.
  std::optional<BarPlace> find(std::uint64_t address, unsigned bytes) const;
  bool bus_master() const;
  // What is to be written where to interrupt the processor; nothing unless MSI and bus mastering are on.
  std::optional<InterruptMessage> message() const;

 private:
  // Sets a register; `writable`: its bits that software can change.
  void define(std::uint32_t offset, unsigned bytes, std::uint32_t value, std::uint32_t writable);

  std::array<std::uint8_t, kConfigBytes> bytes_{};
  std::array<std::uint8_t, kConfigBytes> writable_{};
  std::array<std::uint8_t, kConfigBytes> initial_{};
  std::array<std::uint32_t, 2> bar_bytes_;
};

}  // namespace heddle::vp
