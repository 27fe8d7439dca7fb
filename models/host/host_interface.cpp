#include "host/host_interface.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "arch/race_checker.h"
#include "host/boundary_socket.h"
#include "host/saved_registers.h"

namespace heddle::host {

namespace {

tlm::tlm_response_status access_register(RegisterFile& file, std::uint64_t base, RegisterListener* listener,
                                         tlm::tlm_generic_payload& payload) {
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
  const std::uint64_t offset = relative_address(payload.get_address(), base);
  const std::uint32_t length = payload.get_data_length();
  if (!file.exists(offset)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
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
    result = file.read(offset, length, value);
    if (result == RegisterResult::ok) std::memcpy(payload.get_data_ptr(), &value, length);
  } else {
    std::memcpy(&value, payload.get_data_ptr(), length);
    result = file.write(offset, length, value);
    if (listener != nullptr && result == RegisterResult::ok) listener->register_written(offset, length, value);
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

unsigned debug_registers(const RegisterFile& file, std::uint64_t base, tlm::tlm_generic_payload& payload) {
  const std::uint64_t offset = relative_address(payload.get_address(), base);
  if (!payload.is_read() || offset >= file.bytes()) return 0;
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(payload.get_data_length(), file.bytes() - offset));
  for (unsigned i = 0; i < bytes; ++i) payload.get_data_ptr()[i] = file.peek(offset + i);
  return bytes;
}

// A queue that has stopped, for whoever runs the platform: software on it made the mistake.
void report(const char* device, const protocol::QueueEventPacket& packet) {
  if (packet.event != protocol::QueueEvent::state || packet.status == arch::HsaStatus::success) return;
  std::string where = fmt::format("{}: queue {}, packet {}", device, packet.queue, packet.index);
  if (packet.kernel != 0) where += fmt::format(", kernel {}", packet.kernel);
  const std::string text = fmt::format("{}: {} ({:#x}): {}", where, arch::status_text(packet.status),
                                       static_cast<std::uint32_t>(packet.status), arch::reason_text(packet.reason));
  SC_REPORT_INFO(kQueueReport, text.c_str());
}

}  // namespace

void InterruptLine::bind_if_unbound() {
  if (port_.bind_count() != 0) return;
  own_signal_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_irq");
  port_.bind(*own_signal_);
}

bool InterruptLine::set(bool level) {
  if (level == level_) return false;
  level_ = level;
  plan();
  return level;
}

void InterruptLine::plan() {
  const sc_core::sc_time delay = domain_.delay_until(domain_.now());
  plan_.emplace_back(sc_core::sc_time_stamp() + delay, level_);
  if (plan_.size() == 1) event_.notify(delay);
}

void InterruptLine::drive() {
  while (!plan_.empty() && plan_.front().first <= sc_core::sc_time_stamp()) {
    driven_ = plan_.front().second;
    plan_.pop_front();
  }
  port_.write(driven_);
  if (!plan_.empty()) event_.notify(plan_.front().first - sc_core::sc_time_stamp());
}

void InterruptLine::reset() {
  level_ = false;
  plan_.clear();
  event_.cancel();
  plan();
}

void ResetControl::bind_if_unbound() {
  if (port_.bind_count() != 0) return;
  own_signal_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_rst");
  port_.bind(*own_signal_);
}

bool ResetControl::inside_domain() const {
  const auto* info = sc_core::sc_get_curr_simcontext()->get_curr_proc_info();
  const sc_core::sc_object* process = info->process_handle;
  return process != nullptr && process->get_parent_object() == &domain_;
}

template <class Packet>
void HostInterface::on_news(const Packet& packet, std::uint32_t /*index*/) {
  if constexpr (std::is_same_v<Packet, protocol::QueueEventPacket>) report(name(), packet);
  file_.take(packet);
  follow_level();
}

HostInterface::HostInterface(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                             const HostParams& params, const DeviceIdentity& identity, Device& device)
    : Block(name, domain, path),
      command_out("command_out", domain, params.doorbell, kUnlimitedCredits),
      event_in("event_in", domain, 0),
      copy_out("copy_out", domain, params.doorbell, kUnlimitedCredits),
      copy_done_in("copy_done_in", domain, 0),
      share_out("share_out", domain, params.doorbell, kUnlimitedCredits),
      query_out("query_out", domain, params.doorbell, kUnlimitedCredits),  // one at a time
      answer_in("answer_in", domain, 0),
      window_out("window_out", domain, params.doorbell, kUnlimitedCredits),
      memory_out("memory_out", domain),
      params_(params),
      device_(device),
      register_cycles_(domain.clock().cycles_for_ns(params.register_latency)),
      aperture_delay_(params.aperture_latency, sc_core::SC_NS),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      bar0_("bar0", domain, *this, kBar0),
      bar1_("bar1", domain, *this, kBar1),
      interrupt_(domain),
      reset_control_(domain),
      file_(identity, params.event_fifo, *this),
      aperture_(domain, memory_out, params.bar1, identity.memory, params.aperture_queue),
      memory_(device, bar1_, params.bar1, identity.memory, aperture_delay_,
              {stats_.aperture_accesses, stats_.aperture_bytes}) {
  aperture_.connect(bar1_);
  event_in.on_packet<HostInterface, &HostInterface::on_news<protocol::QueueEventPacket>>(*this);
  copy_done_in.on_packet<HostInterface, &HostInterface::on_news<protocol::CopyDonePacket>>(*this);
  answer_in.on_packet<HostInterface, &HostInterface::on_news<protocol::OccupancyAnswerPacket>>(*this);
  SC_HAS_PROCESS(HostInterface);
  SC_METHOD(drive_irq);
  sensitive << interrupt_.event();
  SC_METHOD(watch_reset);
  sensitive << reset_control_.port() << reset_control_.event();
}

HostInterface::~HostInterface() = default;

void HostInterface::before_end_of_elaboration() {
  interrupt_.bind_if_unbound();
  reset_control_.bind_if_unbound();
}

// Non-blocking: a register acts, and its access ends, register_latency after the request.
bool HostInterface::on_request(tlm::tlm_generic_payload& payload, std::uint32_t socket, Cycle arrival) {
  last_arrival_ = std::max(last_arrival_, arrival);
  if (reset_control_.refusing()) {
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    to_refuse_.emplace_back(static_cast<Socket>(socket), &payload);
    stats_.refused_accesses.add();
    domain_.schedule(last_arrival_, *this, kRefuse);
    return true;
  }
  if (socket == kBar1) {
    memory_.count(payload);
    return aperture_.take(payload, arrival);
  }
  register_queue_.push_back(&payload);
  domain_.schedule(last_arrival_ + register_cycles_, *this, kRegister);
  return true;
}

void HostInterface::on_event(std::uint32_t kind, std::uint64_t /*argument*/) {
  if (kind == kRefuse) {
    const auto [socket, payload] = to_refuse_.front();
    to_refuse_.pop_front();
    (socket == kBar0 ? bar0_ : bar1_).respond(*payload);
    return;
  }
  tlm::tlm_generic_payload& payload = *register_queue_.front();
  register_queue_.pop_front();
  payload.set_response_status(access(payload, now()));
  payload.set_dmi_allowed(false);
  bar0_.respond(payload);
  reset_control_.carry_out(device_);
}

void HostInterface::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t socket, sc_core::sc_time& delay) {
  payload.set_dmi_allowed(false);
  if (socket == kBar0) {
    const Cycle begin = std::max(domain_.cycle_after(delay), now());
    payload.set_response_status(access(payload, begin + register_cycles_));
    delay += sc_core::sc_time(params_.register_latency, sc_core::SC_NS);
    reset_control_.carry_out(device_);
    return;
  }
  const tlm::tlm_response_status status =
      reset_control_.refusing() ? tlm::TLM_GENERIC_ERROR_RESPONSE : memory_.access(payload);
  if (status == tlm::TLM_OK_RESPONSE) note_host_access(domain_, payload, params_.bar1);
  if (status != tlm::TLM_OK_RESPONSE) stats_.refused_accesses.add();
  payload.set_response_status(status);
  delay += aperture_delay_;
}

tlm::tlm_response_status HostInterface::access(tlm::tlm_generic_payload& payload, Cycle end) {
  stats_.register_accesses.add();
  commands_leave_ = end;
  const tlm::tlm_response_status status =
      reset_control_.refusing() ? tlm::TLM_GENERIC_ERROR_RESPONSE
                                : access_register(file_, params_.bar0, gpu_observation(domain_).registers, payload);
  if (status != tlm::TLM_OK_RESPONSE) stats_.refused_accesses.add();
  follow_level();
  return status;
}

unsigned HostInterface::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t socket) {
  if (payload.get_data_ptr() == nullptr) return 0;
  const unsigned bytes = socket == kBar0 ? debug_registers(file_, params_.bar0, payload) : memory_.debug(payload);
  payload.set_response_status(bytes > 0 ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
  return bytes;
}

bool HostInterface::on_direct(tlm::tlm_generic_payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) {
  return memory_.grant(payload, dmi, socket == kBar0 || reset_control_.refusing());
}

void HostInterface::queue_command(const protocol::QueueCommandPacket& packet) {
  if (packet.command == protocol::QueueCommand::doorbell) stats_.doorbells.add();
  last_command_ = std::max(last_command_, commands_leave_);
  progress();
  command_out.send_at(last_command_, packet);
}

void HostInterface::start_copy(const protocol::CopyRequestPacket& packet) {
  last_command_ = std::max(last_command_, commands_leave_);
  progress();
  // It is the host that orders such a copy, and knows of its end.
  if (arch::RaceChecker* races = gpu_observation(domain_).races; races != nullptr && !arch::in_host_window(packet.to)) {
    races->forget(packet.to, packet.bytes);
  }
  copy_out.send_at(last_command_, packet);
}

void HostInterface::share(const protocol::SubcontextPacket& packet) {
  last_command_ = std::max(last_command_, commands_leave_);
  progress();
  if (share_out.links() > 0) share_out.send_at(last_command_, packet);
}

void HostInterface::ask(const protocol::OccupancyQueryPacket& query) {
  last_command_ = std::max(last_command_, commands_leave_);
  progress();
  if (query_out.links() > 0) query_out.send_at(last_command_, query);
}

// The time is that of time stamps.
std::uint64_t HostInterface::live(RegisterId id) const {
  constexpr Picoseconds kPerTick = 1'000'000'000'000 / kTimestampRate;
  if (id == RegisterId::timestamp) return domain_.time_of(std::max(commands_leave_, now())) / kPerTick;
  return device_.settled() ? 0 : kStatusResetBusy;
}

void HostInterface::change_windows(const protocol::HostWindowPacket& packet) {
  last_command_ = std::max(last_command_, commands_leave_);
  progress();
  if (window_out.links() > 0) window_out.send_at(last_command_, packet);
}

void HostInterface::note_fault() {
  file_.note_fault();
  follow_level();
}

void HostInterface::collect_waits(WaitGraph& graph) const {
  if (aperture_.idle()) return;
  graph.add("the host's access to device memory", "its answer is outstanding", path() + " aperture");
}

void HostInterface::follow_level() {
  if (interrupt_.set(file_.level())) stats_.interrupts.add();
}

void HostInterface::save(StateWriter& to) const { SavedRegisters::save(file_, to); }

void HostInterface::restore(StateReader& from) {
  SavedRegisters::restore(file_, from);
  follow_level();
}

// The outside is not reset: whoever has a transaction here gets an error response.
void HostInterface::reset() {
  file_.reset();
  register_queue_.clear();
  to_refuse_.clear();
  aperture_.reset();
  last_arrival_ = commands_leave_ = last_command_ = 0;
  reset_control_.reset();
  interrupt_.reset();
  bar0_.fail_open();
  bar1_.fail_open();
}

}  // namespace heddle::host
