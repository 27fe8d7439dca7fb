#include "host/memory_hub.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/unified_address.h"
#include "host/memory_hub_engine.h"
#include "host/memory_hub_link.h"

namespace heddle::host {

MemoryHub::MemoryHub(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                     const HubParams& params, const arch::AddressMap& map, std::uint32_t clients,
                     const HubTranslation& translation)
    : Block(name, domain, path), engine_(std::make_unique<Engine>(*this, params, map, clients, translation)) {}

MemoryHub::~MemoryHub() = default;
MemoryIn& MemoryHub::client_in(std::uint32_t client) { return engine_->client_in(client); }
MemoryOut& MemoryHub::slice_out(std::uint32_t slice) { return engine_->slice_out(slice); }
PacketOut<protocol::TranslatePacket>& MemoryHub::translate_out() { return engine_->translator().ask_out; }
PacketIn<protocol::TranslatedPacket>& MemoryHub::translated_in() { return engine_->translator().answer_in; }
PacketIn<protocol::InvalidateTlbPacket>& MemoryHub::invalidate_in() { return engine_->translator().invalidate_in; }
DmaPort::Socket& MemoryHub::dma() { return engine_->dma(); }
bool MemoryHub::idle() const { return engine_->idle(); }
bool MemoryHub::settled() const { return engine_->settled(); }
std::size_t MemoryHub::payloads() const { return engine_->payloads(); }
void MemoryHub::on_event(std::uint32_t kind, std::uint64_t argument) { engine_->on_event(kind, argument); }
void MemoryHub::reset() { engine_->reset(); }
void MemoryHub::collect_waits(WaitGraph& graph) const { engine_->collect_waits(graph); }

MemoryHub::Engine::Statistics::Statistics(MemoryHub& owner)
    : device(owner.counter("device_requests", "requests", "requests to device memory")),
      host(owner.counter("host_requests", "requests", "requests to the host's memory")),
      write_backs(owner.counter("write_backs", "requests", "requests to write back all slices")),
      errors(owner.counter("errors", "requests", "requests that were answered with an error")),
      device_latency(owner.histogram("device_latency", "cycles",
                                     "from the start of a request to device memory to its response")) {}

MemoryHub::Engine::Engine(MemoryHub& hub, const HubParams& params, const arch::AddressMap& map, std::uint32_t clients,
                          const HubTranslation& translation)
    : hub_(hub),
      domain_(hub.domain_),
      params_(params),
      map_(map),
      latency_(domain_.cost(params.latency)),
      timed_(domain_.mode() == TimingMode::at),
      stats_(hub),
      clients_(clients),
      dma_("dma", domain_, hub.path() + ".dma", params),
      out_(params.bandwidth),
      back_(params.bandwidth) {
  for (std::uint32_t client = 0; client < clients; ++client) {
    clients_[client].in = std::make_unique<MemoryIn>(fmt::format("client{}", client).c_str(), domain_);
    clients_[client]
        .in->connect<Engine, &Engine::on_request, &Engine::on_client_room, &Engine::on_blocking, &Engine::on_debug>(
            *this, client);
  }
  for (std::uint32_t slice = 0; slice < map.slices(); ++slice) {
    slices_.push_back(std::make_unique<MemoryOut>(fmt::format("slice{}", slice).c_str(), domain_));
    slices_.back()->connect<Engine, &Engine::on_answer, &Engine::on_slice_room>(*this, slice);
  }
  flush_.requests.assign(map.slices(), nullptr);
  flush_.unsent.assign(map.slices(), false);
  if (translation.enabled) {
    const HubTranslator::Counters counters{
        hub.counter("translation.asks", "pages", "pages that were asked for"),
        hub.counter("translation.faults", "requests", "requests that were refused for want of a page")};
    translator_ = std::make_unique<HubTranslator>(domain_, clients, translation.distance, counters,
                                                  [this] { arm(domain_.now()); });
  }
  dma_.on_done([this](std::uint32_t slot, tlm::tlm_response_status status) {
    respond_in(slot, status, domain_.now());
    arm(domain_.now());
  });
}

void MemoryHub::Engine::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kPump:
      if (armed_ == domain_.now()) pump();
      break;
    case kAnswer:
      take_answer(number);
      break;
    case kFlushed:
      take_flush(number);
      break;
    default:
      clients_[slots_[number].client].answered.push(number);
      send_responses(slots_[number].client);
      break;
  }
}

bool MemoryHub::Engine::idle() const {
  const auto waits = [](const Client& client) { return client.inside() > 0; };
  return slots_.size() == free_slots_.size() && dma_.idle() && std::none_of(clients_.begin(), clients_.end(), waits);
}

// Clients.

bool MemoryHub::Engine::on_request(tlm::tlm_generic_payload& payload, std::uint32_t number, Cycle arrival) {
  Client& client = clients_[number];
  const Way way = arch::in_host_window(payload.get_address()) ? kHost : kDevice;
  arrival = std::max(arrival, domain_.now());
  client.waiting[way].push({&payload, arrival});
  arm(arrival);
  return client.inside() < params_.queue;
}

void MemoryHub::Engine::respond_in(std::uint32_t number, tlm::tlm_response_status status, Cycle when) {
  Slot& slot = slots_[number];
  slot.payload->set_response_status(status);
  if (slot.translated) slot.payload->set_address(slot.asked);
  if (status != tlm::TLM_OK_RESPONSE) stats_.errors.add();
  if (slot.way == kDevice) stats_.device_latency.add(when - slot.since);
  domain_.schedule(when, hub_, kRespond, number);
}

void MemoryHub::Engine::send_responses(std::uint32_t number) {
  Client& client = clients_[number];
  while (!client.answered.empty() && client.in->can_respond()) {
    const std::uint32_t slot = client.answered.pop();
    tlm::tlm_generic_payload& payload = *slots_[slot].payload;
    slots_[slot].payload = nullptr;
    free_slots_.push_back(slot);
    client.in->respond(payload, domain_.now());
  }
}

void MemoryHub::Engine::on_client_room(std::uint32_t number, Cycle) { send_responses(number); }

// Device memory at once; the host's cannot be had without waiting.
void MemoryHub::Engine::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
  const sc_core::sc_time way = domain_.clock().period() * static_cast<double>(latency_);
  tlm::tlm_response_status status = judge(payload.get_address(), payload.get_data_length());
  if (arch::in_host_window(payload.get_address())) status = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (status != tlm::TLM_OK_RESPONSE) {
    stats_.errors.add();
    payload.set_response_status(status);
    return;
  }
  delay += way;
  if (is_write_back(payload)) {
    stats_.write_backs.add();
    const sc_core::sc_time start = delay;
    for (const auto& slice : slices_) {
      sc_core::sc_time end = start;
      slice->blocking(payload, end);
      if (!payload.is_response_ok()) status = payload.get_response_status();
      delay = std::max(delay, end);
    }
    payload.set_response_status(status);
  } else {
    stats_.device.add();
    slices_[map_.slice_of(payload.get_address())]->blocking(payload, delay);
  }
  delay += way;
}

unsigned MemoryHub::Engine::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
  const std::uint64_t address = payload.get_address();
  const std::uint32_t length = payload.get_data_length();
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND || payload.get_data_ptr() == nullptr) return 0;
  if (arch::in_host_window(address)) {
    return dma_.debug(payload.get_command(), arch::host_address(address), payload.get_data_ptr(), length);
  }
  std::uint32_t done = 0;
  while (done < length && map_.contains(address + done, 1)) {
    const auto rest = static_cast<std::uint32_t>(arch::kLineBytes - (address + done) % arch::kLineBytes);
    const std::uint32_t part = std::min(rest, length - done);
    const unsigned moved = debug_device(payload, done, part);
    done += moved;
    if (moved < part) break;
  }
  return done;
}

unsigned MemoryHub::Engine::debug_device(tlm::tlm_generic_payload& payload, std::uint64_t done, std::uint32_t bytes) {
  protocol::MemoryRequest& request = pool_.acquire();
  const std::uint64_t address = payload.get_address() + done;
  request.aim(payload.get_command(), address, bytes);
  request.set_data_ptr(payload.get_data_ptr() + done);
  const unsigned moved = std::min(slices_[map_.slice_of(address)]->debug(request), bytes);
  request.release();
  return moved;
}

HubTranslator& MemoryHub::Engine::translator() {
  HEDDLE_CHECK(translator_ != nullptr, "a memory hub without translation has no sockets for it");
  return *translator_;
}

void MemoryHub::Engine::reset() {
  if (translator_ != nullptr) translator_->reset();
  for (Client& client : clients_) {
    for (Ring<Waiting>& waiting : client.waiting) waiting.clear();
    client.answered.clear();
  }
  slots_.clear();
  free_slots_.clear();
  for (std::uint32_t slice = 0; slice < flush_.requests.size(); ++slice) {
    // The slices are reset as well, and do not look at it any more.
    if (flush_.requests[slice] != nullptr) flush_.requests[slice]->release();
  }
  flush_ = Flush();
  flush_.requests.assign(slices_.size(), nullptr);
  flush_.unsent.assign(slices_.size(), false);
  turn_ = {};
  out_.reset();
  back_.reset();
  armed_ = kNever;
}

void MemoryHub::Engine::collect_waits(WaitGraph& graph) const {
  for (std::uint32_t client = 0; translator_ != nullptr && client < clients_.size(); ++client) {
    if (translator_->waits(client)) graph.add(hub_.path(), "for a page from", domain_.observation().prefix + ".mmu");
  }
  for (const Client& client : clients_) {
    if (!client.answered.empty()) graph.add(hub_.path(), "for its responses to be taken by", client.in->name());
    if (!client.waiting[kHost].empty()) graph.add(hub_.path(), "for tags of", hub_.path() + ".dma");
  }
  for (std::uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (!slices_[slice]->can_send()) graph.add(hub_.path(), "for room in", fmt::format("slice {}", slice));
  }
}

}  // namespace heddle::host
