#include "vp/board.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "program/code_image.h"

namespace heddle::vp {
namespace {

// Registers and a page of doorbells for each subcontext, rounded up to what a BAR can have.
std::uint32_t register_bytes(const gpu::GpuParams& params) {
  const std::uint64_t wanted = 0x10000 + 64 * std::uint64_t{params.host.doorbell_page};
  std::uint32_t bytes = 1U << 16;
  while (bytes < wanted) bytes *= 2;
  return bytes;
}

constexpr std::uint8_t kRevision = 2;  // major version of the register map

}  // namespace

Board::Board(const sc_core::sc_module_name& name, const gpu::GpuParams& params, std::uint32_t aperture,
             std::uint64_t seed)
    : sc_core::sc_module(name),
      config_(register_bytes(params), aperture, kRevision),
      memory_("memory", [this] { return config_.bus_master(); }),
      observation_("gpu0"),
      gpu_("gpu0", params, seed, observation_, gpu::DeviceMemory::own, std::make_shared<program::CodeImage>()),
      bar0_("bar0"),
      bar1_("bar1") {
  bar0_.bind(gpu_.bar0());
  bar1_.bind(gpu_.bar1());
  gpu_.dma().bind(memory_.socket);
  gpu_.irq().bind(irq_);
  SC_HAS_PROCESS(Board);
  SC_METHOD(line_up);
  sensitive << irq_.posedge_event();
  dont_initialize();
}

void Board::line_up() {
  ++tally_.interrupts;
  interrupt_wanted_ = true;
}

bool Board::access(tlm::tlm_command command, std::uint64_t address, std::uint64_t& value, unsigned bytes) {
  const std::optional<BarPlace> place = config_.find(address, bytes);
  if (!place) return false;
  unsigned char data[8] = {};
  std::memcpy(data, &value, bytes);
  tlm::tlm_generic_payload payload;
  payload.set_command(command);
  payload.set_address(place->offset);
  payload.set_data_ptr(data);
  payload.set_data_length(bytes);
  payload.set_streaming_width(bytes);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  sc_core::sc_time delay;
  auto& socket = place->bar == 0 ? bar0_ : bar1_;
  socket->b_transport(payload, delay);
  if (!payload.is_response_ok()) return false;
  value = 0;
  std::memcpy(&value, data, bytes);
  return true;
}

std::uint64_t Board::read(std::uint64_t address, unsigned bytes) {
  ++tally_.reads;
  std::uint64_t value = 0;
  if (access(tlm::TLM_READ_COMMAND, address, value, bytes)) return value;
  return ~std::uint64_t{0} >> (64 - 8 * bytes);
}

void Board::write(std::uint64_t address, std::uint64_t value, unsigned bytes) {
  ++tally_.writes;
  (void)access(tlm::TLM_WRITE_COMMAND, address, value, bytes);
}

void Board::reset() {
  config_.reset();
  gpu_.reset();
  interrupt_wanted_ = false;
}

bool Board::advance(const sc_core::sc_time& most) {
  const sc_core::sc_time end = sc_core::sc_time_stamp() + most;
  const sc_core::sc_time slice(1, sc_core::SC_US);
  const bool wanted_before = interrupt_wanted_;
  while (sc_core::sc_pending_activity() && sc_core::sc_time_stamp() < end && interrupt_wanted_ == wanted_before) {
    const sc_core::sc_time left = end - sc_core::sc_time_stamp();
    const sc_core::sc_time next = sc_core::sc_time_to_pending_activity();
    // With an event in the slice, time goes on to the last one there, and not further.
    if (next < std::min(slice, left)) {
      sc_core::sc_start(std::min(slice, left), sc_core::SC_EXIT_ON_STARVATION);
    } else {
      sc_core::sc_start(std::min(next, left));
    }
  }
  return !sc_core::sc_pending_activity();
}

}  // namespace heddle::vp
