#include "packet/active_packet.h"

#include <fmt/format.h>

#include "arch/byte_codec.h"

namespace heddle::packet {

using arch::PacketType;

std::uint64_t signal_in(const arch::PacketBytes& bytes) {
  constexpr std::size_t kSignalOffset = 56;  // in all types but condensed packets
  const PacketType type = arch::type_of(bytes);
  if (static_cast<std::uint8_t>(type) >= arch::kPacketTypes || type == PacketType::condensed_dispatch) return 0;
  return arch::get_64(bytes, kSignalOffset);
}

std::uint64_t signal_of(const Packet& packet) {
  return packet.kernels.empty() ? signal_in(packet.bytes) : packet.kernels.back().signal;
}

std::string name_of(const Packet& packet) {
  std::string name = packet_text(packet.type);
  if (!packet.kernels.empty() && !packet.kernels.front().object.name.empty()) {
    name = packet.kernels.front().object.name;
    if (packet.kernels.size() > 1) name += fmt::format(" and {} more", packet.kernels.size() - 1);
  }
  return fmt::format("packet {} of queue {} ({})", packet.index, packet.queue, name);
}

const char* wait_text(Phase phase) {
  switch (phase) {
    case Phase::decoder:
    case Phase::checks:
      return "decoder busy";
    case Phase::barrier:
      return "barrier bit";
    case Phase::signals:
      return "dependency signal";
    case Phase::agent:
      return "agent packets before it";
    case Phase::limit:
      return "limit of kernels in flight";
    default:
      return nullptr;
  }
}

Packet& PacketTable::take() {
  const std::uint32_t slot = packets_.take();
  std::unique_ptr<Packet>& place = packets_[slot];
  if (place == nullptr) place = std::make_unique<Packet>();
  const std::uint32_t generation = place->generation;
  *place = Packet();
  place->slot = slot;
  place->generation = generation;
  return *place;
}

void PacketTable::free(Packet& packet) {
  ++packet.generation;
  packets_.give_back(packet.slot);
}

Packet* PacketTable::find(std::uint64_t reference) {
  const auto slot = static_cast<std::uint32_t>(reference);
  if (slot >= packets_.size()) return nullptr;
  Packet& packet = *packets_[slot];
  return packet.reference() == reference ? &packet : nullptr;
}

std::string PacketTable::name_of(std::uint32_t queue, std::uint64_t index) const {
  const Packet* found = nullptr;
  for_each([&](const Packet& packet) {
    if (found == nullptr && packet.queue == queue && packet.index == index) found = &packet;
  });
  return found != nullptr ? packet::name_of(*found) : fmt::format("packet {} of queue {}", index, queue);
}

}  // namespace heddle::packet
