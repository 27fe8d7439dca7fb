// How a workload is submitted: as operations of streams, by packets of user-mode queues, or into TMDQs in memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heddle::workload {

enum class SubmitBy : std::uint8_t { streams, packets, tmdqs };

// What carries kernels (PKT-02).
enum class PacketFormat : std::uint8_t {
  plain,      // a kernel dispatch packet each
  reference,  // the first launch of every kernel is a reference packet, the others are plain: what storing costs
  condensed,  // kernels that are there together share condensed packets
};

// Where rings, read indices and signals lie.
enum class QueuePlace : std::uint8_t { host, device };

// What becomes of copies and fills.
enum class CopyBy : std::uint8_t {
  recorded,  // they hold their queue for the time that they are known to take
  engines,   // the copy engines move as many bytes
};

// What a kernel's end tells the host.
enum class SignalFor : std::uint8_t {
  each,    // every packet of kernels has fences of system scope and a completion signal, as runtimes do that give an
           // event for every launch; of kernels that are condensed together the last
  needed,  // fences of agent scope; only what another queue or the end of the run waits for has a signal
};

struct PacketOptions {
  PacketFormat format = PacketFormat::plain;
  QueuePlace queues = QueuePlace::host;
  CopyBy copies = CopyBy::recorded;
  SignalFor signals = SignalFor::each;
  std::uint32_t batch = 64;  // most kernels that are condensed together
};

constexpr std::uint32_t kMaxBatch = 65'536;

// Their words in scenarios and on the command line.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;
inline const Choices<SubmitBy>& submit_ways() {
  static const Choices<SubmitBy> kChoices{
      {"aql", SubmitBy::packets}, {"tmdq", SubmitBy::tmdqs}, {"streams", SubmitBy::streams}};
  return kChoices;
}
inline const Choices<PacketFormat>& packet_formats() {
  static const Choices<PacketFormat> kChoices{
      {"plain", PacketFormat::plain}, {"reference", PacketFormat::reference}, {"condensed", PacketFormat::condensed}};
  return kChoices;
}
inline const Choices<QueuePlace>& queue_places() {
  static const Choices<QueuePlace> kChoices{{"host", QueuePlace::host}, {"device", QueuePlace::device}};
  return kChoices;
}
inline const Choices<CopyBy>& copy_ways() {
  static const Choices<CopyBy> kChoices{{"recorded", CopyBy::recorded}, {"engines", CopyBy::engines}};
  return kChoices;
}

inline const Choices<SignalFor>& signal_choices() {
  static const Choices<SignalFor> kChoices{{"each", SignalFor::each}, {"needed", SignalFor::needed}};
  return kChoices;
}

}  // namespace heddle::workload
