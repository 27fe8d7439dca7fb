// Who fetches into the caches of the computer what events of the memory path will touch (common/storage.h): the
// packet, then what it carries; the request, then the tags of its set, then its line.
#pragma once

#include "common/link_network.h"
#include "common/storage.h"
#include "memory/l2_array.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// Nothing is read, so the payload need not be one of ours.
inline void warm_payload(const void* payload) {
  constexpr std::size_t kEnd = sizeof(protocol::MemoryRequest) - arch::kLineBytes;  // without the byte enables
  for (std::size_t at = 0; at < kEnd; at += 64) warm_line(static_cast<const char*>(payload) + at);
}

// Of one of the crossbar's networks.
class NetworkWarmer final : public CacheWarmer {
 public:
  enum class Carries : std::uint8_t { requests, responses };
  NetworkWarmer(const LinkNetwork& network, Carries carries) : network_(network), carries_(carries) {}

  // A request itself is not touched before the slice has it.
  void warm(std::uint32_t kind, std::uint64_t argument, Ahead ahead) const override {
    if (ahead == Ahead::far) return network_.warm(kind, argument);
    if (carries_ == Carries::requests || ahead != Ahead::near) return;
    const LinkPacket* packet = network_.arriving(kind, argument);
    if (packet != nullptr) warm_payload(packet->item);
  }

 private:
  const LinkNetwork& network_;
  Carries carries_;
};

// Of an L2 slice, for events of one kind. `Queue::next_payload()`: of the request that is served next; may be null.
template <class Queue>
class SliceWarmer final : public CacheWarmer {
 public:
  SliceWarmer(const Queue& queue, const L2Array& array, std::uint32_t kind)
      : queue_(queue), array_(array), kind_(kind) {}

  void warm(std::uint32_t kind, std::uint64_t, Ahead ahead) const override {
    const tlm::tlm_generic_payload* payload = kind == kind_ ? queue_.next_payload() : nullptr;
    if (payload == nullptr) return;
    if (ahead == Ahead::far) return warm_payload(payload);
    const std::uint64_t line = payload->get_address() / arch::kLineBytes;
    if (ahead == Ahead::near) return array_.warm_tags(line);
    array_.warm_entry(line);
  }

 private:
  const Queue& queue_;
  const L2Array& array_;
  std::uint32_t kind_;
};

}  // namespace heddle::memory
