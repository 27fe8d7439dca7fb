// What the packet processor counts.
#pragma once

#include <array>
#include <string>

#include "arch/aql_packet.h"
#include "common/clock.h"
#include "common/stats.h"
#include "packet/packet_log.h"

namespace heddle::packet {

class PacketStats {
 public:
  // `path`: prefix of the device and path of the block.
  PacketStats(Stats& stats, const std::string& path);

  void count_packet(arch::PacketType type);
  void count_error(arch::HsaStatus status);
  // Of a kernel: all its phases.
  void add_phases(const PacketRecord& record, const Clock& clock);

  Counter& doorbells;
  Counter& fetches;
  Counter& unpublished;
  Counter& signal_polls;
  Counter& kernels;
  Counter& signals;
  Counter& fences;
  Gauge& open;
  Gauge& in_flight;

 private:
  std::array<Counter*, arch::kPacketTypes> packets_{};
  std::array<Counter*, 8> errors_{};
  Histogram& fetch_;
  Histogram& turn_;
  Histogram& decode_;
  Histogram& dispatch_;
  Histogram& launch_;
  Histogram& execution_;
  Histogram& clean_up_;
};

// "kernel dispatch", "undefined"
const char* packet_text(arch::PacketType type);

}  // namespace heddle::packet
