#include "host/host_interface_engine.h"

#include <algorithm>
#include <cstring>

#include "host/boundary_access.h"

namespace heddle::host {

using sc_core::sc_time;

HostInterface::Engine::Engine(HostInterface& host, const HostParams& params, const DeviceIdentity& identity,
                              Device& device)
    : bar0("bar0", host.domain_, *this, kBar0),
      bar1("bar1", host.domain_, *this, kBar1),
      host_(host),
      domain_(host.domain_),
      params_(params),
      memory_(identity.memory),
      device_(device),
      file_(identity, params.event_fifo, *this),
      aperture_(host.domain_, host.memory_out, params.bar1, identity.memory, params.aperture_queue),
      register_cycles_(domain_.clock().cycles_for_ns(params.register_latency)),
      register_delay_(params.register_latency, sc_core::SC_NS),
      aperture_delay_(params.aperture_latency, sc_core::SC_NS),
      accesses_(host.counter("register_accesses", "accesses", "reads and writes of registers by the host")),
      refused_accesses_(host.counter("refused_accesses", "accesses", "accesses of the host with an error response")),
      doorbells_(host.counter("doorbells", "doorbells", "doorbells that rang")),
      memory_accesses_(host.counter("aperture_accesses", "accesses", "reads and writes of the aperture by the host")),
      memory_bytes_(host.counter("aperture_bytes", "bytes", "bytes that they asked for")),
      interrupts_(host.counter("interrupts", "interrupts", "rises of the interrupt")) {
  aperture_.connect(bar1);
  host.event_in.on_packet<Engine, &Engine::on_queue_event>(*this);
  host.copy_done_in.on_packet<Engine, &Engine::on_copy_done>(*this);
  device.on_invalidate([this](std::uint64_t first, std::uint64_t last) { on_invalidate(first, last); });
}

void HostInterface::Engine::bind_what_is_unbound() {
  if (irq.bind_count() == 0) {
    own_irq_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_irq");
    irq.bind(*own_irq_);
  }
  if (rst.bind_count() == 0) {
    own_rst_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_rst");
    rst.bind(*own_rst_);
  }
}

// Non-blocking: a register acts, and its access ends, register_latency after the request.
bool HostInterface::Engine::on_request(Payload& payload, std::uint32_t socket, Cycle arrival) {
  last_arrival_ = std::max(last_arrival_, arrival);
  if (refusing()) {
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    to_refuse_.emplace_back(static_cast<Socket>(socket), &payload);
    refused_accesses_.add();
    domain_.schedule(last_arrival_, host_, kRefuse);
    return true;
  }
  if (socket == kBar1) {
    memory_accesses_.add();
    memory_bytes_.add(payload.get_data_length());
    return aperture_.take(payload, arrival);
  }
  register_queue_.push_back(&payload);
  domain_.schedule(last_arrival_ + register_cycles_, host_, kRegister);
  return true;
}

void HostInterface::Engine::on_event(std::uint32_t kind, std::uint64_t /*argument*/) {
  if (kind == kRefuse) {
    const auto [socket, payload] = to_refuse_.front();
    to_refuse_.pop_front();
    (socket == kBar0 ? bar0 : bar1).respond(*payload);
    return;
  }
  Payload& payload = *register_queue_.front();
  register_queue_.pop_front();
  payload.set_response_status(access(payload, domain_.now()));
  payload.set_dmi_allowed(false);
  bar0.respond(payload);
  carry_out_reset();
}

void HostInterface::Engine::on_blocking(Payload& payload, std::uint32_t socket, sc_time& delay) {
  payload.set_dmi_allowed(false);
  if (socket == kBar0) {
    const Cycle begin = std::max(domain_.cycle_after(delay), domain_.now());
    payload.set_response_status(access(payload, begin + register_cycles_));
    delay += register_delay_;
    carry_out_reset();
    return;
  }
  const tlm::tlm_response_status status = refusing() ? tlm::TLM_GENERIC_ERROR_RESPONSE : access_memory(payload);
  if (status != tlm::TLM_OK_RESPONSE) refused_accesses_.add();
  payload.set_response_status(status);
  delay += aperture_delay_;
}

tlm::tlm_response_status HostInterface::Engine::access(Payload& payload, Cycle end) {
  accesses_.add();
  commands_leave_ = end;
  const tlm::tlm_response_status status = refusing() ? tlm::TLM_GENERIC_ERROR_RESPONSE : access_register(payload);
  if (status != tlm::TLM_OK_RESPONSE) refused_accesses_.add();
  follow_level();
  return status;
}

tlm::tlm_response_status HostInterface::Engine::access_register(Payload& payload) {
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
  const std::uint64_t offset = relative_address(payload.get_address(), params_.bar0);
  const std::uint32_t length = payload.get_data_length();
  if (register_at(offset).reg == nullptr) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if ((length != 4 && length != 8) || width_of(payload) < length) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (payload.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (payload.get_byte_enable_ptr() != nullptr) {
    if (payload.get_byte_enable_length() == 0) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
    for (std::uint32_t i = 0; i < length; ++i) {
      if (!byte_enabled(payload, i)) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
    }
  }
  std::uint64_t value = 0;
  RegisterResult result = RegisterResult::ok;
  if (payload.is_read()) {
    result = file_.read(offset, length, value);
    if (result == RegisterResult::ok) std::memcpy(payload.get_data_ptr(), &value, length);
  } else {
    std::memcpy(&value, payload.get_data_ptr(), length);
    result = file_.write(offset, length, value);
  }
  switch (result) {
    case RegisterResult::ok:
      return tlm::TLM_OK_RESPONSE;
    case RegisterResult::address:
      return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    case RegisterResult::burst:
      return tlm::TLM_BURST_ERROR_RESPONSE;
    case RegisterResult::command:
      return tlm::TLM_COMMAND_ERROR_RESPONSE;
    case RegisterResult::refused:
      break;
  }
  return tlm::TLM_GENERIC_ERROR_RESPONSE;
}

tlm::tlm_response_status HostInterface::Engine::access_memory(Payload& payload) {
  memory_accesses_.add();
  memory_bytes_.add(payload.get_data_length());
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
  const std::uint64_t address = relative_address(payload.get_address(), params_.bar1);
  const tlm::tlm_response_status wrong = judge(payload, address, memory_);
  if (wrong != tlm::TLM_INCOMPLETE_RESPONSE) return wrong;
  bool well = true;
  bool corrupt = false;
  for_each_run(payload, [&](std::uint32_t offset, std::uint32_t index, std::uint32_t count) {
    std::uint8_t* data = payload.get_data_ptr() + index;
    if (!well) return;
    corrupt = corrupt || (payload.is_read() && device_.corrupt_memory(address + offset, count));
    well = payload.is_read() ? device_.read_memory(address + offset, data, count)
                             : device_.write_memory(address + offset, data, count);
  });
  if (!well) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (corrupt) return tlm::TLM_GENERIC_ERROR_RESPONSE;  // as a non-blocking read
  // A hint only. Whoever was refused may ask again, later.
  payload.set_dmi_allowed(device_.grants_direct() && (!direct_refused_ || sc_core::sc_time_stamp() != refused_at_));
  return tlm::TLM_OK_RESPONSE;
}

unsigned HostInterface::Engine::on_debug(Payload& payload, std::uint32_t socket) {
  if (payload.get_data_ptr() == nullptr) return 0;
  const unsigned bytes = socket == kBar0 ? debug_registers(payload) : debug_memory(payload);
  payload.set_response_status(bytes > 0 ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
  return bytes;
}

unsigned HostInterface::Engine::debug_registers(Payload& payload) const {
  const std::uint64_t offset = relative_address(payload.get_address(), params_.bar0);
  if (!payload.is_read() || offset >= kBar0Bytes) return 0;
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(payload.get_data_length(), kBar0Bytes - offset));
  for (unsigned i = 0; i < bytes; ++i) payload.get_data_ptr()[i] = file_.peek(offset + i);
  return bytes;
}

unsigned HostInterface::Engine::debug_memory(Payload& payload) {
  const std::uint64_t address = relative_address(payload.get_address(), params_.bar1);
  if (address >= memory_) return 0;
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(payload.get_data_length(), memory_ - address));
  bool well = bytes > 0;
  if (well && payload.is_read()) {
    well = device_.read_memory(address, payload.get_data_ptr(), bytes);
  } else if (well && payload.is_write()) {
    well = device_.write_memory(address, payload.get_data_ptr(), bytes);
  } else {
    well = false;
  }
  return well ? bytes : 0;
}

bool HostInterface::Engine::on_direct(Payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) {
  const std::uint64_t given = payload.get_address();
  dmi.init();
  dmi.allow_none();
  dmi.set_start_address(given);
  dmi.set_end_address(given);
  const std::uint64_t address = relative_address(given, params_.bar1);
  if (socket == kBar0 || refusing() || address >= memory_) return false;
  std::uint8_t* pointer = nullptr;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  direct_refused_ = !device_.direct_memory(address, pointer, first, last);
  if (direct_refused_) {
    refused_at_ = sc_core::sc_time_stamp();
    return false;
  }
  const std::uint64_t base = given - address;
  dmi.set_start_address(first + base);
  dmi.set_end_address(last + base);
  dmi.set_dmi_ptr(pointer);
  dmi.allow_read_write();
  dmi.set_read_latency(aperture_delay_);
  dmi.set_write_latency(aperture_delay_);
  direct_bases_.insert(base);
  return true;
}

void HostInterface::Engine::on_invalidate(std::uint64_t first, std::uint64_t last) {
  for (const std::uint64_t base : direct_bases_) {
    bar1.invalidate(first + base, std::max(last, last + base));  // no wrap at the end of all addresses
  }
}

void HostInterface::Engine::queue_command(const protocol::QueueCommandPacket& packet) {
  if (packet.command == protocol::QueueCommand::doorbell) doorbells_.add();
  last_command_ = std::max(last_command_, commands_leave_);
  host_.progress();
  host_.command_out.send_at(last_command_, packet);
}

void HostInterface::Engine::start_copy(const protocol::CopyRequestPacket& packet) {
  last_command_ = std::max(last_command_, commands_leave_);
  host_.progress();
  host_.copy_out.send_at(last_command_, packet);
}

void HostInterface::Engine::share(const protocol::SubcontextPacket& packet) {
  last_command_ = std::max(last_command_, commands_leave_);
  host_.progress();
  if (host_.share_out.links() > 0) host_.share_out.send_at(last_command_, packet);
}

void HostInterface::Engine::on_queue_event(const protocol::QueueEventPacket& packet, std::uint32_t /*index*/) {
  file_.take(packet);
  follow_level();
}

void HostInterface::Engine::on_copy_done(const protocol::CopyDonePacket& packet, std::uint32_t /*index*/) {
  file_.take(packet);
  follow_level();
}

void HostInterface::Engine::note_fault() {
  file_.note_fault();
  follow_level();
}

void HostInterface::Engine::collect_waits(WaitGraph& graph) const {
  if (aperture_.idle()) return;
  graph.add("the host's access to device memory", "its answer is outstanding", host_.path() + " aperture");
}

}  // namespace heddle::host
