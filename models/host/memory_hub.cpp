#include "host/memory_hub.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/bits.h"

namespace heddle::host {
namespace {

constexpr std::uint32_t kHubHeaderBytes = 16;
constexpr std::uint64_t kTail = 128 << 10;  // of a copy: what nothing comes behind that would take as long
constexpr std::uint32_t kLaneBytes = 8;     // of an atomic: its operand, or its old value

protocol::MemoryAction action_of(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  return extension == nullptr ? protocol::MemoryAction::plain : extension->action;
}

// All slices are asked.
bool walks(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryAction action = action_of(payload);
  return action == protocol::MemoryAction::write_back || action == protocol::MemoryAction::invalidate;
}

std::uint32_t request_bytes(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  const auto action = extension == nullptr ? protocol::MemoryAction::plain : extension->action;
  if (action == protocol::MemoryAction::atomic || action == protocol::MemoryAction::reduce) {
    return kHubHeaderBytes + kLaneBytes * extension->lanes;
  }
  const bool data = payload.is_write() || action == protocol::MemoryAction::reduce_block;
  return kHubHeaderBytes + (data ? std::min(payload.get_data_length(), arch::kLineBytes) : 0);
}

std::uint32_t response_bytes(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr && extension->action == protocol::MemoryAction::atomic) {
    return kHubHeaderBytes + kLaneBytes * extension->lanes;
  }
  return kHubHeaderBytes + (payload.is_read() ? std::min(payload.get_data_length(), arch::kLineBytes) : 0);
}

}  // namespace

MemoryHub::MemoryHub(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                     const HubParams& params, const arch::AddressMap& map, std::uint32_t clients,
                     const HubTranslation& translation, DeviceMemoryUse use, const HubLinks& links)
    : Block(name, domain, path),
      peer_out("peer_out", domain),
      params_(params),
      use_(use),
      links_(links),
      map_(map),
      latency_(domain.cost(params.latency)),
      has_costs_(heddle::has_costs(domain.mode())),
      calls_(heddle::has_calls(domain.mode())),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      clients_(clients),
      dma_("dma", domain, path + ".dma", params),
      flush_(this->name(), domain, slices_, latency_, map.copies(), *this),
      out_(params.bandwidth),
      back_(params.bandwidth),
      out_ahead_(params.bandwidth),
      back_ahead_(params.bandwidth) {
  for (std::uint32_t client = 0; client < clients; ++client) {
    clients_[client].in = std::make_unique<MemoryIn>(fmt::format("client{}", client).c_str(), domain);
    clients_[client]
        .in->connect<MemoryHub, &MemoryHub::on_request, &MemoryHub::on_client_room, &MemoryHub::on_blocking,
                     &MemoryHub::on_debug>(*this, client);
    if (calls_) clients_[client].in->offer_ranges(*this, client);
  }
  peer_out.connect<MemoryHub, &MemoryHub::on_peer_answer, &MemoryHub::on_slice_room>(*this);
  for (std::uint32_t slice = 0; slice < map.slices(); ++slice) {
    slices_.push_back(std::make_unique<MemoryOut>(fmt::format("slice{}", slice).c_str(), domain));
    slices_.back()->connect<MemoryHub, &MemoryHub::on_answer, &MemoryHub::on_slice_room>(*this, slice);
  }
  if (translation.enabled) {
    const HubTranslator::Counters counters{
        counter("translation.asks", "pages", "pages that were asked for"),
        counter("translation.faults", "requests", "requests that were refused for want of a page")};
    translator_ =
        std::make_unique<HubTranslator>(domain, clients, translation.distance, counters, [this] { arm(now()); });
  }
  dma_.on_done([this](std::uint32_t slot, tlm::tlm_response_status status) {
    respond_in(slot, status, now());
    arm(now());
  });
}

MemoryHub::~MemoryHub() = default;

void MemoryHub::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kPump:
      if (armed_ == now()) pump();
      break;
    case kAnswer:
      take_answer(number);
      break;
    default:
      clients_[slots_[number].client].answered.push(number);
      send_responses(slots_[number].client);
      break;
  }
}

bool MemoryHub::idle() const {
  const auto waits = [](const Client& client) { return client.inside() > 0; };
  return slots_.in_use() == 0 && dma_.idle() && std::none_of(clients_.begin(), clients_.end(), waits);
}

bool MemoryHub::on_request(tlm::tlm_generic_payload& payload, std::uint32_t number, Cycle arrival) {
  Client& client = clients_[number];
  const std::uint64_t address = payload.get_address();
  const Way way = arch::in_host_window(address) ? kHost : is_peer(address) ? kPeer : kDevice;
  arrival = std::max(arrival, now());
  client.waiting[way].push({&payload, arrival});
  arm(arrival);
  return client.inside() < params_.queue;
}

void MemoryHub::respond_in(std::uint32_t number, tlm::tlm_response_status status, Cycle when) {
  Slot& slot = slots_[number];
  slot.payload->set_response_status(status);
  if (slot.translated) slot.payload->set_address(slot.asked);
  if (status != tlm::TLM_OK_RESPONSE) stats_.errors.add();
  if (slot.way == kDevice) stats_.device_latency.add(when - slot.since);
  domain_.schedule(when, *this, kRespond, number);
}

void MemoryHub::send_responses(std::uint32_t number) {
  Client& client = clients_[number];
  while (!client.answered.empty() && client.in->can_respond()) {
    const std::uint32_t slot = client.answered.pop();
    tlm::tlm_generic_payload& payload = *slots_[slot].payload;
    slots_.give_back(slot);
    client.in->respond(payload, now());
  }
}

// Device memory at once; the host's cannot be had without waiting.
void MemoryHub::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
  if (is_peer(payload.get_address()) && action_of(payload) != protocol::MemoryAction::write_back) {
    stats_.peer.add();
    return peer_out.blocking(payload, delay);
  }
  const sc_core::sc_time way = domain_.clock().period() * static_cast<double>(latency_);
  tlm::tlm_response_status status = validate(payload.get_address(), payload.get_data_length());
  if (arch::in_host_window(payload.get_address())) status = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (status != tlm::TLM_OK_RESPONSE) {
    stats_.errors.add();
    payload.set_response_status(status);
    return;
  }
  delay += way;
  if (action_of(payload) == protocol::MemoryAction::write_back) {
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

unsigned MemoryHub::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
  const std::uint64_t address = payload.get_address();
  const std::uint32_t length = payload.get_data_length();
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND || payload.get_data_ptr() == nullptr) return 0;
  if (arch::in_host_window(address)) {
    return dma_.debug(payload.get_command(), arch::host_address(address), payload.get_data_ptr(), length);
  }
  if (is_peer(address)) return peer_out.debug(payload);
  std::uint32_t done = 0;
  for_each_block(address, length, arch::kLineBytes, [&](std::uint64_t part, std::uint64_t bytes) {
    if (done < part - address || !map_.contains(part, 1)) return;  // an earlier part has failed, or memory ends
    done += debug_device(payload, done, static_cast<std::uint32_t>(bytes));
  });
  return done;
}

unsigned MemoryHub::debug_device(tlm::tlm_generic_payload& payload, std::uint64_t done, std::uint32_t bytes) {
  protocol::MemoryRequest& request = pool_.acquire();
  const std::uint64_t address = payload.get_address() + done;
  request.aim(payload.get_command(), address, bytes);
  request.set_data_ptr(payload.get_data_ptr() + done);
  const unsigned moved = std::min(slices_[map_.slice_of(address)]->debug(request), bytes);
  request.release();
  return moved;
}

void MemoryHub::arm(Cycle when) {
  if (when >= armed_) return;
  armed_ = when;
  domain_.schedule(when, *this, kPump);
}

// Round robin over clients, each way for itself.
void MemoryHub::pump() {
  armed_ = kNever;
  Cycle next = kNever;
  if (!calls_) flush_.send();
  const auto clients = static_cast<std::uint32_t>(clients_.size());
  for (const Way way : {kDevice, kHost, kPeer}) {
    if (way == kPeer && !links_.enabled) break;
    std::uint32_t idle = 0;
    while (idle < clients) {
      const std::uint32_t client = turn_[way];
      const bool gone = way == kDevice ? pump_device(client, next)
                        : way == kHost ? pump_host(client, next)
                                       : pump_peer(client, next);
      turn_[way] = (client + 1) % clients;
      idle = gone ? 0 : idle + 1;
    }
  }
  if (next != kNever) arm(next);
}

// Only its own line of its own memory.
tlm::tlm_response_status MemoryHub::validate(std::uint64_t address, std::uint32_t length) const {
  length = std::max(length, 1U);
  if (!arch::in_host_window(address) && !map_.contains(address, 1)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (length > arch::kLineBytes - address % arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
  return tlm::TLM_OK_RESPONSE;
}

std::uint32_t MemoryHub::take(std::uint32_t number, Way way) {
  Client& client = clients_[number];
  const std::uint32_t slot = slots_.take();
  tlm::tlm_generic_payload& payload = *client.waiting[way].pop().payload;
  slots_[slot] = {&payload, number, way, false, now(), false, 0};
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr) extension->route = slot;
  if (client.in->withholding() && client.inside() < params_.queue) client.in->accept(now());
  return slot;
}

// What nobody else writes is as new in the slices as in memory.
void MemoryHub::walk(std::uint32_t slot) {
  const protocol::MemoryAction action = action_of(*slots_[slot].payload);
  if (action == protocol::MemoryAction::write_back) {
    stats_.write_backs.add();
  } else if (use_ == DeviceMemoryUse::own) {
    return respond_in(slot, tlm::TLM_OK_RESPONSE, now() + domain_.cost(1));
  } else {
    stats_.invalidates.add();
  }
  flush_.add(slot, action);
}

// True if the client's first request has gone. `next`: when to look again, unless somebody else will see to that.
bool MemoryHub::pump_device(std::uint32_t number, Cycle& next) {
  Client& client = clients_[number];
  if (client.waiting[kDevice].empty()) return false;
  const Waiting first = client.waiting[kDevice].front();
  if (first.when > now()) {
    next = std::min(next, first.when);
    return false;
  }
  if (walks(*first.payload)) {
    walk(take(number, kDevice));
    return true;
  }
  std::uint64_t address = first.payload->get_address();
  tlm::tlm_response_status status = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (translator_ != nullptr) {
    const HubTranslator::Looked looked = translator_->look(number, *first.payload);
    if (looked.lookup == HubTranslator::Lookup::wait) return false;  // its answer looks again
    if (looked.lookup == HubTranslator::Lookup::known) {
      address = looked.physical;
      status = validate(address, first.payload->get_data_length());
    } else if (looked.there) {
      status = tlm::TLM_COMMAND_ERROR_RESPONSE;
    }
  } else {
    status = validate(address, first.payload->get_data_length());
  }
  if (status != tlm::TLM_OK_RESPONSE) {
    respond_in(take(number, kDevice), status, now() + domain_.cost(1));
    return true;
  }
  const std::uint32_t slice = map_.slice_of(address);
  if (!calls_ && !slices_[slice]->can_send()) return false;  // it will tell
  const bool waits_turn = has_costs_ && !own_way(number);
  if (waits_turn && !calls_ && !out_.free_at(now())) {
    next = std::min(next, out_.earliest(now()));
    return false;
  }
  const std::uint32_t slot = take(number, kDevice);
  if (translator_ != nullptr) {
    slots_[slot].translated = true;
    slots_[slot].asked = first.payload->get_address();
    first.payload->set_address(address);
  }
  stats_.device.add();
  if (calls_) {
    call_slice(slot, slice, waits_turn ? out_ahead_.take(now(), request_bytes(*first.payload)) : now());
    return true;
  }
  if (!own_way(number)) out_.take(now(), request_bytes(*first.payload));
  slices_[slice]->send(*first.payload, now() + latency_);
  return true;
}

void MemoryHub::call_slice(std::uint32_t number, std::uint32_t slice, Cycle begin) {
  tlm::tlm_generic_payload& payload = *slots_[number].payload;
  sc_core::sc_time delay = domain_.delay_until(begin + latency_);
  slices_[slice]->blocking(payload, delay);
  const Cycle arrival = std::max(domain_.cycle_after(delay), now());
  if (has_costs_) {
    domain_.schedule(arrival, *this, kAnswer, number);
  } else {
    respond_in(number, payload.get_response_status(), arrival);
  }
}

// To another GPU, at once or as a request that is answered.
bool MemoryHub::pump_peer(std::uint32_t number, Cycle& next) {
  Client& client = clients_[number];
  if (client.waiting[kPeer].empty()) return false;
  const Waiting first = client.waiting[kPeer].front();
  if (first.when > now()) {
    next = std::min(next, first.when);
    return false;
  }
  if (walks(*first.payload)) {
    walk(take(number, kPeer));
    return true;
  }
  if (!calls_ && !peer_out.can_send()) return false;  // it will tell
  const std::uint32_t slot = take(number, kPeer);
  stats_.peer.add();
  if (!calls_) {
    peer_out.send(*first.payload, now());
    return true;
  }
  sc_core::sc_time delay = domain_.delay_until(now());
  peer_out.blocking(*first.payload, delay);
  respond_in(slot, first.payload->get_response_status(), std::max(domain_.cycle_after(delay), now()));
  return true;
}

bool MemoryHub::on_peer_answer(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  const std::uint32_t slot = slot_of(payload);
  if (slot == slots_.size() || slots_[slot].answered) return true;  // nobody asked
  slots_[slot].answered = true;
  respond_in(slot, payload.get_response_status(), std::max(arrival, now()));
  return true;
}

bool MemoryHub::move(RangeMove& range, std::uint32_t client) {
  if (is_peer(range.address)) {
    if (!peer_out.ranges().move(range)) return false;
    stats_.peer.add(range.bytes / arch::kLineBytes);
    return true;
  }
  if (arch::in_host_window(range.address) != arch::in_host_window(range.address + range.bytes - 1)) return false;
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  if (arch::in_host_window(range.address)) {
    if (!dma_.move(range)) return false;
    stats_.host.add(lines);
    return true;
  }
  RangeMove moved = range;
  moved.accepted = range.first;
  if (translator_ != nullptr && !own_way(client) && !translator_->find(client, moved)) return false;
  if (!map_.contains(moved.address, moved.bytes) || !move_device(moved, client)) return false;
  stats_.device.add(lines);
  stats_.device_latency.add(moved.first + latency_ - range.first, lines);
  moved.address = range.address;
  range = moved;
  return true;
}

void MemoryHub::come_back(RangeMove& range, std::uint32_t client) {
  if (is_peer(range.address)) return;  // it has come all the way
  if (arch::in_host_window(range.address)) return dma_.come_back(range);
  if (!own_way(client)) pass(back_ahead_, range, kHubHeaderBytes + (range.write ? 0 : arch::kLineBytes));
  range.delay(latency_);
}

void MemoryHub::pass(ReservedLink& link, RangeMove& range, std::uint32_t bytes_each) const {
  if (!has_costs_) return;
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  range.follow(link.take(range.first, lines * bytes_each), (lines - 1) * bytes_each / params_.bandwidth);
}

bool MemoryHub::move_device(RangeMove& range, std::uint32_t client) {
  if (past_caches_.empty()) {
    for (const auto& slice : slices_) past_caches_.push_back(slice->ranges());
  }
  if (!own_way(client)) pass(out_ahead_, range, kHubHeaderBytes + (range.write ? arch::kLineBytes : 0));
  range.delay(latency_);
  return past_caches_[map_.slice_of(range.address)].move(range) || call_lines(range);
}

// Line by line, each when its time comes. What is behind them does not wait for the slowest: all together they take
// what they take on average, and only the end of a copy waits for each.
bool MemoryHub::call_lines(RangeMove& range) {
  static std::array<std::uint8_t, arch::kLineBytes> nothing{};
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  protocol::MemoryRequest& request = pool_.acquire();
  Cycle waited = 0;
  Cycle last = 0;
  bool good = true;
  if (!range.write) range.zeros = false;
  for (std::uint32_t line = 0; line < lines && good; ++line) {
    const std::uint64_t address = range.address + std::uint64_t{line} * arch::kLineBytes;
    request.aim(range.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, arch::kLineBytes);
    request.set_data_ptr(range.zeros ? nothing.data() : range.data + std::size_t{line} * arch::kLineBytes);
    request.extension.subcontext = range.subcontext;
    const Cycle begin = range.time_of(line, lines);
    sc_core::sc_time delay = domain_.delay_until(begin);
    slices_[map_.slice_of(address)]->blocking(request, delay);
    const Cycle answer = std::max(domain_.cycle_after(delay), now());
    waited += answer - std::min(answer, begin);
    last = std::max(last, answer);
    good = request.is_response_ok() && !request.extension.poisoned;
  }
  request.release();
  range.delay(waited / lines);
  if (range.behind < kTail) range.last = std::max(range.last, last);
  return good;
}

bool MemoryHub::pump_host(std::uint32_t number, Cycle& next) {
  Client& client = clients_[number];
  if (client.waiting[kHost].empty()) return false;
  const Waiting first = client.waiting[kHost].front();
  if (first.when > now()) {
    next = std::min(next, first.when);
    return false;
  }
  if (walks(*first.payload)) {
    walk(take(number, kHost));
    return true;
  }
  const tlm::tlm_response_status status = validate(first.payload->get_address(), first.payload->get_data_length());
  if (status != tlm::TLM_OK_RESPONSE) {
    respond_in(take(number, kHost), status, now() + domain_.cost(1));
    return true;
  }
  if (!dma_.has_room()) return false;  // looked at again when one is done
  const std::uint32_t slot = take(number, kHost);
  stats_.host.add();
  dma_.start(*first.payload, slot);
  return true;
}

std::uint32_t MemoryHub::slot_of(tlm::tlm_generic_payload& payload) const {
  const auto is_in = [&](std::uint32_t slot) { return slots_.holds(slot) && slots_[slot].payload == &payload; };
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr && is_in(extension->route)) return extension->route;
  std::uint32_t slot = 0;
  while (slot < slots_.size() && !is_in(slot)) ++slot;
  return slot;
}

// There is always room: the request has a place until its client has the response.
bool MemoryHub::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  arrival = std::max(arrival, now());
  if (flush_.on_answer(payload, slice, arrival)) return true;
  const std::uint32_t slot = slot_of(payload);
  if (slot == slots_.size() || slots_[slot].answered) return true;  // nobody asked
  slots_[slot].answered = true;
  domain_.schedule(arrival, *this, kAnswer, slot);
  return true;
}

void MemoryHub::take_answer(std::uint32_t number) {
  tlm::tlm_generic_payload& payload = *slots_[number].payload;
  Cycle start = now();
  if (own_way(slots_[number].client)) {
    // It waits for nobody.
  } else if (calls_) {
    start = back_ahead_.take(start, response_bytes(payload));
  } else {
    start = back_.earliest(start);
    back_.take(start, response_bytes(payload));
  }
  tlm::tlm_response_status status = payload.get_response_status();
  if (status == tlm::TLM_INCOMPLETE_RESPONSE) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  respond_in(number, status, start + latency_);
}

HubTranslator& MemoryHub::translator() {
  HEDDLE_CHECK(translator_ != nullptr, "a memory hub without translation has no sockets for it");
  return *translator_;
}

void MemoryHub::reset() {
  if (translator_ != nullptr) translator_->reset();
  for (Client& client : clients_) {
    for (Ring<Waiting>& waiting : client.waiting) waiting.clear();
    client.answered.clear();
  }
  slots_.clear();
  flush_.reset();
  turn_ = {};
  out_.reset();
  back_.reset();
  out_ahead_.reset();
  back_ahead_.reset();
  armed_ = kNever;
}

void MemoryHub::collect_waits(WaitGraph& graph) const {
  for (std::uint32_t client = 0; translator_ != nullptr && client < clients_.size(); ++client) {
    if (translator_->waits(client)) graph.add(path(), "for a page from", domain_.observation().prefix + ".mmu");
  }
  for (const Client& client : clients_) {
    if (!client.answered.empty()) graph.add(path(), "for its responses to be taken by", client.in->name());
    if (!client.waiting[kHost].empty()) graph.add(path(), "for tags of", path() + ".dma");
    if (!client.waiting[kPeer].empty()) graph.add(path(), "for the links to", "other GPUs");
  }
  for (std::uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (!slices_[slice]->can_send()) graph.add(path(), "for room in", fmt::format("slice {}", slice));
  }
}

}  // namespace heddle::host
