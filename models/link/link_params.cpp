#include "link/link_params.h"

#include <algorithm>

#include <tlm>

#include "common/param_table.h"
#include "common/params.h"
#include "protocol/memory_request.h"

namespace heddle::link {

using protocol::MemoryAction;

void LinkParams::describe(ParamTable<LinkParams>& t) {
  t.add("enabled", &LinkParams::enabled,
        "the ports exist, and whoever builds the GPU binds them; a run sets it where links.topology says so",
        "choice: a GPU by itself has none");
  t.add("ports", &LinkParams::ports, {Unit::count, 1, 64}, "links of the GPU", "NVIDIA H100 white paper: 18 NVLinks");
  t.add("bandwidth", &LinkParams::bandwidth, {Unit::none, 0.1, 10'000.0},
        "GB/s of a link in each direction, headers included",
        "NVIDIA H100 white paper: 900 GB/s over 18 links, both directions together");
  t.add("latency", &LinkParams::latency, {Unit::ns, 0.0, 1e6}, "time from one end of a link to the other",
        "assumption: not public");
  t.add("header_bytes", &LinkParams::header_bytes, {Unit::bytes, 0, 256}, "bytes of a packet beside its data",
        "NVIDIA, NVLink at Hot Chips 28: a packet has a header flit of 128 bits");
  t.add("flit_bytes", &LinkParams::flit_bytes, {Unit::bytes, 1, 128}, "what the data of a packet are rounded up to",
        "NVIDIA, NVLink at Hot Chips 28: flits of 128 bits");
  t.add("packet_bytes", &LinkParams::packet_bytes, {Unit::bytes, 16, 128}, "data of a packet at most",
        "assumption: a line; NVLink packets carry up to 16 flits of data");
  t.add("buffer", &LinkParams::buffer, {Unit::count, 1, 65'536},
        "requests that the receiving end of a link has places for, which are the sender's credits",
        "assumption: what a link carries in twice its latency and that of a switch");
  t.add("queue", &LinkParams::queue, {Unit::count, 1, 65'536}, "requests of each source that wait for a link",
        "assumption: as gpu.hub.queue");
}

void FabricParams::describe(ParamTable<FabricParams>& t) {
  t.add_choice("topology", &FabricParams::topology,
               {{"none", Topology::none}, {"direct", Topology::direct}, {"switch", Topology::through_switch}},
               "how the GPUs are connected: not at all; each pair by links of its own; or all by switches",
               "choice: GPUs of a simulation know nothing of each other");
  t.add("clock", &FabricParams::clock, {Unit::ghz, 0.01, 100.0}, "clock of the switches", "assumption");
  t.add("switch_latency", &FabricParams::switch_latency, {Unit::ns, 0.0, 1e6},
        "time from one port of a switch to another", "assumption: not public");
  t.add("reduce_latency", &FabricParams::reduce_latency, {Unit::ns, 0.0, 1e6},
        "time that a switch takes to combine the answers of a group", "assumption: not public");
  t.add("event_latency", &FabricParams::event_latency, {Unit::ns, 1.0, 1e9},
        "time from the end of an operation until a stream of another GPU that waits for it hears of it",
        "assumption: a write over the host's bus");
}

std::uint32_t MessageSizes::with(std::uint32_t bytes, bool enables) const {
  const std::uint32_t packets = std::max(1U, (bytes + params_.packet_bytes - 1) / params_.packet_bytes);
  const std::uint32_t flits = (bytes + params_.flit_bytes - 1) / params_.flit_bytes;
  return packets * (params_.header_bytes + (enables ? params_.flit_bytes : 0)) + flits * params_.flit_bytes;
}

std::uint32_t MessageSizes::line(bool data) const { return with(data ? arch::kLineBytes : 0, false); }

std::uint32_t MessageSizes::request(const tlm::tlm_generic_payload& payload) const {
  const auto* extension = payload.get_extension<protocol::MemoryExtension>();
  const MemoryAction action = extension == nullptr ? MemoryAction::plain : extension->action;
  const bool enables = payload.get_byte_enable_ptr() != nullptr;
  if (action == MemoryAction::atomic || action == MemoryAction::reduce) {
    const std::uint32_t values = extension->atomic == arch::AtomicKind::compare_exchange ? 2 : 1;
    return with(8 * values * extension->lanes, false);
  }
  if (action == MemoryAction::reduce_block || payload.is_write()) return with(payload.get_data_length(), enables);
  return with(0, false);
}

std::uint32_t MessageSizes::response(const tlm::tlm_generic_payload& payload) const {
  const auto* extension = payload.get_extension<protocol::MemoryExtension>();
  if (extension != nullptr && extension->action == MemoryAction::atomic) return with(8U * extension->lanes, false);
  const bool data = payload.is_read() && payload.get_response_status() != tlm::TLM_ADDRESS_ERROR_RESPONSE;
  return with(data ? payload.get_data_length() : 0, false);
}

}  // namespace heddle::link
