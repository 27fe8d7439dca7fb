// The addresses that front-end blocks use: device memory from 0 on, and the host's memory in a window above it.
#pragma once

#include <cstdint>

namespace heddle::arch {

// Address a of the host's bus (of the DMA initiator) is kHostWindow + a. SMs do not reach the window: an access of
// theirs is outside memory.
constexpr std::uint64_t kHostWindow = std::uint64_t{1} << 63;
constexpr bool in_host_window(std::uint64_t address) { return address >= kHostWindow; }
constexpr std::uint64_t host_address(std::uint64_t address) { return address - kHostWindow; }

// A signal: 8-byte value (signed) at its handle without bit 0. With bit 0 of the handle the signal asks for an
// interrupt: 8 bytes mailbox address (0: none) and 4 bytes event id follow the value; when the value has changed, the
// event id is written to the mailbox (32 bits) and the interrupt is raised. Handles are multiples of 32, plus that bit.
constexpr std::uint64_t kSignalAlignment = 32;
constexpr std::uint64_t kSignalInterrupt = 1;
constexpr std::uint64_t signal_address(std::uint64_t handle) { return handle & ~kSignalInterrupt; }

}  // namespace heddle::arch
