#include "packet/packet_stats.h"

#include <algorithm>
#include <cmath>

namespace heddle::packet {
namespace {

using arch::HsaStatus;
using arch::PacketType;

constexpr std::array<HsaStatus, 8> kErrors{HsaStatus::error,
                                           HsaStatus::invalid_argument,
                                           HsaStatus::invalid_signal,
                                           HsaStatus::invalid_queue,
                                           HsaStatus::out_of_resources,
                                           HsaStatus::invalid_packet_format,
                                           HsaStatus::invalid_code_object,
                                           HsaStatus::exception};
constexpr std::array<const char*, kErrors.size()> kErrorNames{"error",
                                                              "invalid_argument",
                                                              "invalid_signal",
                                                              "invalid_queue",
                                                              "out_of_resources",
                                                              "invalid_packet_format",
                                                              "invalid_code_object",
                                                              "exception"};
constexpr std::array<const char*, arch::kPacketTypes> kTypeNames{"vendor", "invalid",    "kernel",    "barrier_and",
                                                                 "agent",  "barrier_or", "reference", "condensed"};

}  // namespace

const char* packet_text(PacketType type) {
  constexpr std::array<const char*, arch::kPacketTypes> kTexts{
      "vendor",         "invalid",    "kernel dispatch",    "barrier-AND",
      "agent dispatch", "barrier-OR", "reference dispatch", "condensed dispatch"};
  const auto number = static_cast<std::size_t>(type);
  return number < kTexts.size() ? kTexts[number] : "undefined";
}

PacketStats::PacketStats(Stats& stats, const std::string& path)
    : doorbells(stats.counter(path + ".doorbells", "doorbells", "doorbells that told of new packets")),
      fetches(stats.counter(path + ".fetches", "reads", "reads of packets from rings")),
      unpublished(stats.counter(path + ".unpublished", "reads", "reads that found a packet not published yet")),
      signal_polls(stats.counter(path + ".signal_polls", "reads", "reads of signals that barrier packets wait for")),
      kernels(stats.counter(path + ".kernels", "kernels", "kernels handed to task management")),
      signals(stats.counter(path + ".signals", "signals", "completion signals that have been changed")),
      fences(stats.counter(path + ".fences", "fences", "releases at system scope: all slices wrote back")),
      open(stats.gauge(path + ".open", "packets", "packets that have begun and are not complete")),
      in_flight(stats.gauge(path + ".in_flight", "kernels", "kernels dispatched and not complete")),
      fetch_(stats.histogram(path + ".fetch", "ns", "from the doorbell until a packet is in the processor")),
      turn_(stats.histogram(path + ".turn", "ns", "from there to its turn: order, barrier bit, signals, decoder")),
      decode_(stats.histogram(path + ".decode", "ns", "decoding, kernel object, table entries, acquire fence")),
      dispatch_(stats.histogram(path + ".dispatch", "ns", "handing a kernel to task management")),
      launch_(stats.histogram(path + ".launch", "ns", "from there to the kernel's first launch packet")),
      execution_(stats.histogram(path + ".execution", "ns", "from there to the end of the kernel's last CTA")),
      clean_up_(stats.histogram(path + ".clean_up", "ns", "release fence, clean-up and signal after a kernel's end")) {
  for (std::size_t i = 0; i < packets_.size(); ++i) {
    if (static_cast<PacketType>(i) == PacketType::invalid) continue;
    packets_[i] = &stats.counter(path + ".packets." + kTypeNames[i], "packets",
                                 std::string(packet_text(static_cast<PacketType>(i))) + " packets completed");
  }
  for (std::size_t i = 0; i < kErrors.size(); ++i) {
    errors_[i] = &stats.counter(path + ".errors." + kErrorNames[i], "errors",
                                std::string("packets and queues stopped: ") + arch::status_text(kErrors[i]));
  }
}

void PacketStats::count_packet(PacketType type) {
  const auto number = static_cast<std::size_t>(type);
  if (number < packets_.size() && packets_[number] != nullptr) packets_[number]->add();
}

void PacketStats::count_error(HsaStatus status) {
  const auto* found = std::find(kErrors.begin(), kErrors.end(), status);
  errors_[found == kErrors.end() ? 0 : static_cast<std::size_t>(found - kErrors.begin())]->add();
}

void PacketStats::add_phases(const PacketRecord& record, const Clock& clock) {
  const auto add = [&clock](Histogram& histogram, Cycle from, Cycle to) {
    histogram.add(
        static_cast<std::uint64_t>(std::llround(clock.ns_for_cycles(static_cast<double>(to - std::min(from, to))))));
  };
  const PacketTimes& times = record.times;
  add(fetch_, times.doorbell, times.fetched);
  add(turn_, times.fetched, times.ready);
  add(decode_, times.ready, times.decoded);
  add(dispatch_, times.decoded, times.dispatched);
  add(launch_, times.dispatched, times.started);
  add(execution_, times.started, times.ended);
  add(clean_up_, times.ended, times.cleaned);
}

}  // namespace heddle::packet
