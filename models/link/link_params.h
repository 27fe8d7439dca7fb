// Parameters of the links between GPUs, and what a message takes of one. Plain C++.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace tlm {
class tlm_generic_payload;
}

namespace heddle::link {

// Of a GPU, and of the ends of its links at the other side.
struct LinkParams {
  bool enabled = false;              // the ports exist, and whoever builds the GPU binds them
  std::uint32_t ports = 18;          // links of the GPU
  double bandwidth = 25;             // GB/s of a link, each direction, headers included
  double latency = 100;              // ns, from one end of a link to the other
  std::uint32_t header_bytes = 16;   // of a packet
  std::uint32_t flit_bytes = 16;     // what a packet is a multiple of
  std::uint32_t packet_bytes = 128;  // data of a packet at most
  std::uint32_t buffer = 128;        // requests that the receiving end of a link has places for: its credits
  std::uint32_t queue = 16;          // requests of each source that wait for a link

  static void describe(ParamTable<LinkParams>& t);
};

enum class Topology : std::uint8_t {
  none,
  direct,          // the ports of each GPU are dealt to the others, and lead there without anything in between
  through_switch,  // each port leads to a switch
};

// Of what lies between the GPUs of a simulation.
struct FabricParams {
  Topology topology = Topology::none;
  double clock = 2;             // GHz, in whose cycles a switch counts
  double switch_latency = 200;  // ns, from one port of a switch to another
  double reduce_latency = 20;   // ns more where it combines what has come
  double event_latency = 1000;  // ns from the end of an operation until another GPU's stream hears of it

  static void describe(ParamTable<FabricParams>& t);
};

// Bytes that a request, and its response, take of a link: a header for each packet, and data in whole flits. Byte
// enables take a flit more for each packet, lanes of an atomic 8 bytes each (twice that with a compare).
class MessageSizes {
 public:
  explicit MessageSizes(const LinkParams& params) : params_(params) {}
  MessageSizes() = default;

  std::uint32_t request(const tlm::tlm_generic_payload& payload) const;
  std::uint32_t response(const tlm::tlm_generic_payload& payload) const;
  // Of a line that is written or read: with its data, or without.
  std::uint32_t line(bool data) const;

 private:
  std::uint32_t with(std::uint32_t bytes, bool enables) const;

  LinkParams params_;
};

}  // namespace heddle::link
