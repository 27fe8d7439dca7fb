// What no real recording exceeds: beyond it a file is damaged. The bounds keep sums and products of what is read within
// 64 bits (INP-07).
#pragma once

#include <cstdint>

#include "scenario/workload.h"

namespace heddle::workload {

constexpr Nanoseconds kMaxRecordedDuration = 1'000'000'000'000'000;  // 11 days: nothing on a GPU takes longer
// Three years from the first operation of the device: sums of a few such times fit 64 bits.
constexpr Nanoseconds kMaxRecordedSpan = 100'000'000'000'000'000;
constexpr std::uint64_t kMaxRecordedDevice = 65'535;
constexpr std::uint64_t kMaxRecordedRegisters = 1'024;   // per thread; 255 on CUDA, 512 on CDNA
constexpr std::uint64_t kMaxRecordedShared = 16U << 20;  // bytes per CTA; 227 KiB on sm_90
constexpr std::uint64_t kMaxRecordedLocal = 16U << 20;   // bytes per thread; 512 KiB on CUDA
constexpr std::uint64_t kMaxRecordedBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMaxRecordedBlock = 1'024;  // threads of a CTA, in any direction and in all
constexpr std::uint64_t kMaxRecordedSms = 4'096;
constexpr std::uint64_t kMaxRecordedCtas = std::uint64_t{1} << 48;  // products of it with a few thousand fit 64 bits

}  // namespace heddle::workload
