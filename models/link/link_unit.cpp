#include "link/link_unit.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heddle::link {
namespace {

using protocol::MemoryAction;

// Nobody waits for what it brings back.
bool is_posted(const tlm::tlm_generic_payload& payload) {
  const auto* extension = payload.get_extension<protocol::MemoryExtension>();
  const MemoryAction action = extension == nullptr ? MemoryAction::plain : extension->action;
  return payload.is_write() || action == MemoryAction::reduce || action == MemoryAction::reduce_block;
}

bool is_multimem(const tlm::tlm_generic_payload& payload) {
  const auto* extension = payload.get_extension<protocol::MemoryExtension>();
  return extension != nullptr && extension->action == MemoryAction::multimem;
}

}  // namespace

void PortRoutes::through_switch(std::uint32_t self, std::uint32_t ports, std::uint32_t peers, std::uint32_t groups) {
  self_ = self;
  std::vector<std::uint32_t> all;
  for (std::uint32_t port = 0; port < ports; ++port) all.push_back(port);
  ports_.assign(arch::kPeers + groups, {});
  for (std::uint32_t peer = 0; peer < peers; ++peer) ports_[peer] = all;
  for (std::uint32_t group = 0; group < groups; ++group) ports_[arch::kPeers + group] = all;
}

void PortRoutes::direct(std::uint32_t self, std::vector<std::vector<std::uint32_t>> ports) {
  self_ = self;
  ports_ = std::move(ports);
}

const std::vector<std::uint32_t>& PortRoutes::beside(std::uint32_t port) const {
  static const std::vector<std::uint32_t> kNone;
  for (const std::vector<std::uint32_t>& ports : ports_) {
    if (std::find(ports.begin(), ports.end(), port) != ports.end()) return ports;
  }
  return kNone;
}

void HomeTurns::add(std::uint32_t source, tlm::tlm_generic_payload& payload, Cycle when) {
  waiting_[source].push({&payload, when});
}

bool HomeTurns::empty() const {
  return std::all_of(waiting_.begin(), waiting_.end(), [](const Ring<Waiting>& queue) { return queue.empty(); });
}

tlm::tlm_generic_payload* HomeTurns::take(Cycle now, std::uint32_t& source) {
  const auto sources = static_cast<std::uint32_t>(waiting_.size());
  for (std::uint32_t i = 0; i < sources; ++i) {
    source = (turn_ + i) % sources;
    Ring<Waiting>& queue = waiting_[source];
    if (queue.empty() || queue.front().when > now) continue;
    turn_ = (source + 1) % sources;
    return queue.pop().payload;
  }
  return nullptr;
}

void HomeTurns::clear() {
  for (Ring<Waiting>& queue : waiting_) queue.clear();
  turn_ = 0;
}

LinkUnit::LinkUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const LinkParams& params, std::uint64_t memory)
    : Block(name, domain, path),
      home_out("home_out", domain),
      params_(params),
      sizes_(params),
      memory_(memory),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      answered_(params.ports + 1),
      inside_(params.ports + 1),
      home_(params.ports + 1) {
  for (std::uint32_t source = 0; source <= params.ports; ++source) {
    near_.push_back(std::make_unique<MemoryIn>(fmt::format("near_in_{}", source).c_str(), domain));
    near_.back()
        ->connect<LinkUnit, &LinkUnit::on_request, &LinkUnit::on_near_room, &LinkUnit::on_blocking,
                  &LinkUnit::on_debug>(*this, source);
  }
  const bool calls = heddle::has_calls(domain.mode());
  if (calls) near_.back()->offer_ranges(*this, params.ports);
  const LinkPort::Rates rates{params.bandwidth * domain.clock().period().to_seconds() * 1e9,
                              domain.clock().cycles_for_ns(params.latency)};
  PortOwner& owner = *this;
  for (std::uint32_t port = 0; port < params.ports; ++port) {
    ports_.push_back(std::make_unique<LinkPort>(std::to_string(port), domain, port, params.ports + 1, rates, owner));
    if (calls) ports_.back()->in.offer_ranges(*this, port);
  }
  home_out.connect<LinkUnit, &LinkUnit::on_home_response, &LinkUnit::on_home_room>(*this);
}

void LinkUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kAnswer:
      answer(number);
      break;
    case kRefuse:
      answered_[open_[number].source].push(number);
      send_answers(open_[number].source);
      break;
    case kHome:
      send_home();
      break;
    default:  // the number of a late write, and above it what tells it from others with that number
      late_.come(number, static_cast<std::uint32_t>(argument >> 32),
                 [this](protocol::MemoryRequest& request) { land(request); });
      break;
  }
}

bool LinkUnit::on_request(tlm::tlm_generic_payload& payload, std::uint32_t source, Cycle arrival) {
  arrival = std::max(arrival, now());
  const std::uint64_t address = payload.get_address();
  const std::uint32_t slot = open_.take();
  open_[slot] = {&payload, nullptr, source, arrival};
  const bool own = arch::peer_of(address) == routes_.self();
  const std::vector<std::uint32_t>& ports = routes_.to(address);
  if (!own && ports.empty()) {
    stats_.refused.add();
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    domain_.schedule(arrival + domain_.cost(1), *this, kRefuse, slot);
    return true;
  }
  stats_.sent.add();
  protocol::MemoryRequest& request = pool_.acquire();
  copy_request(payload, address, request);
  request.extension.entry = slot;
  open_[slot].request = &request;
  if (own) {  // it turns round here
    request.extension.link_port = static_cast<std::uint16_t>(params_.ports);
    if (!is_memory(address, request.get_data_length()) || is_multimem(request)) {
      request.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      domain_.schedule(arrival + domain_.cost(1), *this, kAnswer, slot);
      return true;
    }
    request.set_address(arch::peer_offset(address));
    home_.add(params_.ports, request, arrival);
    domain_.schedule(arrival, *this, kHome);
    return true;
  }
  ++inside_[source];
  ports_[PortRoutes::pick(ports, address)]->request(source, request, sizes_.request(request), arrival);
  return inside_[source] < params_.queue;
}

void LinkUnit::request_left(std::uint32_t, std::uint32_t source) {
  --inside_[source];
  if (near_[source]->withholding() && inside_[source] < params_.queue) near_[source]->accept(now());
  note_bytes();
}

void LinkUnit::note_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& port : ports_) bytes += port->bytes_out();
  stats_.bytes.set(static_cast<double>(bytes));
}

void LinkUnit::response_came(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  HEDDLE_CHECK(extension != nullptr && open_.holds(extension->entry) && open_[extension->entry].request == &payload,
               "a link brought an answer that nobody had asked for");
  domain_.schedule(std::max(arrival, now()), *this, kAnswer, extension->entry);
}

void LinkUnit::answer(std::uint32_t slot) {
  Open& open = open_[slot];
  copy_answer(*open.request, *open.asked);
  open.request->release();
  open.request = nullptr;
  answered_[open.source].push(slot);
  send_answers(open.source);
}

void LinkUnit::send_answers(std::uint32_t source) {
  while (!answered_[source].empty() && near_[source]->can_respond()) {
    const std::uint32_t slot = answered_[source].pop();
    tlm::tlm_generic_payload& payload = *open_[slot].asked;
    stats_.latency.add(now() - open_[slot].since);
    open_.give_back(slot);
    near_[source]->respond(payload, now());
  }
}

void LinkUnit::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
  const std::uint64_t address = payload.get_address();
  const bool own = arch::peer_of(address) == routes_.self();
  const std::vector<std::uint32_t>& ports = routes_.to(address);
  if (!own && ports.empty()) {
    stats_.refused.add();
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  stats_.sent.add();
  protocol::MemoryRequest& request = pool_.acquire();
  copy_request(payload, address, request);
  const Cycle since = std::max(domain_.cycle_after(delay), now());
  if (own) {
    call_home(request, delay);
  } else {
    LinkPort& port = *ports_[PortRoutes::pick(ports, address)];
    const std::uint32_t bytes = sizes_.request(request);
    port.count(bytes);
    delay = domain_.delay_until(port.reserve(bytes, since));
    port.out.blocking(request, delay);
    note_bytes();
  }
  copy_answer(request, payload);
  request.release();
  const Cycle answered = std::max(domain_.cycle_after(delay), now());
  stats_.latency.add(answered - std::min(since, answered));
  delay = domain_.delay_until(answered);
}

unsigned LinkUnit::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
  const std::uint64_t address = payload.get_address();
  if (arch::peer_of(address) == routes_.self()) return debug_came(payload, 0);
  const std::vector<std::uint32_t>& ports = routes_.to(address);
  return ports.empty() ? 0 : ports_[ports.front()]->out.debug(payload);
}

// Of the hub of this GPU, or of a link.
bool LinkUnit::move(RangeMove& range, std::uint32_t port) {
  return port < params_.ports || arch::peer_of(range.address) == routes_.self() ? move_home(range, port)
                                                                                : move_out(range);
}

// All ports that lead there take their part of the lines; the slowest decides.
bool LinkUnit::move_out(RangeMove& range) {
  const std::vector<std::uint32_t>& ports = routes_.to(range.address);
  if (ports.empty() || arch::peer_of(range.address) >= arch::kPeers) return false;
  Domain* there = nullptr;
  const RangePort far = ports_[ports.front()]->out.far_ranges(there);
  if (!far.offered()) return false;
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  const std::uint32_t most =
      (lines + static_cast<std::uint32_t>(ports.size()) - 1) / static_cast<std::uint32_t>(ports.size());
  const std::uint32_t bytes = sizes_.line(range.write);
  Cycle first = range.first;
  for (std::uint32_t i = 0; i < ports.size() && i < lines; ++i) {
    // The first line goes by the port that its address says, and so on.
    const std::uint32_t number = ports[(range.address / arch::kLineBytes + i) % ports.size()];
    const std::uint32_t own =
        (lines - i + static_cast<std::uint32_t>(ports.size()) - 1) / static_cast<std::uint32_t>(ports.size());
    ports_[number]->count(std::uint64_t{own} * bytes);
    first = std::max(first, ports_[number]->reserve(own * bytes, range.first));
  }
  RangeMove moved = range;
  moved.follow(first, static_cast<double>(ports_[ports.front()]->cycles(std::uint64_t{most - 1} * bytes)));
  const Cycle accepted = range.first;  // what is on its way holds nobody
  moved.accepted = accepted;
  RangeMove beyond = in_cycles_of(moved, domain_, *there);
  beyond.subcontext = 0;
  if (!far.move(beyond)) return false;
  moved = in_cycles_of(beyond, *there, domain_);
  moved.accepted = accepted;
  moved.address = range.address;
  moved.subcontext = range.subcontext;
  moved.note = range.note;
  stats_.sent.add(lines);
  note_bytes();
  range = moved;
  return true;
}

// The answers' way back is taken at once: nobody else has to decide anything on it.
bool LinkUnit::move_home(RangeMove& range, std::uint32_t port) {
  if (!is_memory(range.address, range.bytes)) return false;
  RangeMove moved = range;
  moved.address = arch::peer_offset(range.address);
  if (late_.any()) {
    late_.settle(moved.address, moved.bytes, kNever, [this](protocol::MemoryRequest& request) { land(request); });
  }
  const RangePort hub = home_out.ranges();
  if (!hub.move(moved)) return false;
  hub.come_back(moved);
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  stats_.served.add(lines);
  const std::vector<std::uint32_t>& back = routes_.beside(port);
  const auto parts = static_cast<std::uint32_t>(std::max<std::size_t>(back.size(), 1));
  const std::uint32_t bytes = sizes_.line(!range.write);
  Cycle first = moved.first;
  for (std::uint32_t i = 0; i < back.size() && i < lines; ++i) {
    const std::uint32_t own = (lines - i + parts - 1) / parts;
    const std::uint32_t number = back[(moved.address / arch::kLineBytes + i) % back.size()];
    ports_[number]->count(std::uint64_t{own} * bytes);
    first = std::max(first, ports_[number]->reserve(own * bytes, moved.first));
  }
  moved.follow(first, back.empty() ? 0.0
                                   : static_cast<double>(ports_[back.front()]->cycles(
                                         std::uint64_t{(lines + parts - 1) / parts - 1} * bytes)));
  note_bytes();
  moved.address = range.address;
  range = moved;
  return true;
}

bool LinkUnit::request_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  arrival = std::max(arrival, now());
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  HEDDLE_CHECK(extension != nullptr, "a request without our extension came by a link");
  extension->link_port = static_cast<std::uint16_t>(port);
  if (!is_memory(payload.get_address(), payload.get_data_length()) || is_multimem(payload)) {
    stats_.refused.add();
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    ports_[port]->response(payload, sizes_.response(payload), arrival);
    return true;
  }
  payload.set_address(arch::peer_offset(payload.get_address()));
  home_.add(port, payload, arrival);
  domain_.schedule(arrival, *this, kHome);
  return home_.waiting(port) < params_.buffer;
}

void LinkUnit::send_home() {
  std::uint32_t port = 0;
  while (home_out.can_send()) {
    tlm::tlm_generic_payload* next = home_.take(now(), port);
    if (next == nullptr) return;
    stats_.served.add();
    home_out.send(*next, now());
    if (port != params_.ports) ports_[port]->accept();  // else one of this GPU's own
  }
}

bool LinkUnit::on_home_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  arrival = std::max(arrival, now());
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension->link_port == params_.ports) {
    domain_.schedule(arrival, *this, kAnswer, extension->entry);
  } else {
    ports_[extension->link_port]->response(payload, sizes_.response(payload), arrival);
  }
  return true;
}

// A call of another GPU. Its answer leaves by the port that it came by.
void LinkUnit::call_came(tlm::tlm_generic_payload& payload, std::uint32_t number, sc_core::sc_time& delay) {
  call_home(payload, delay);
  LinkPort& port = *ports_[number];
  const std::uint32_t bytes = sizes_.response(payload);
  port.count(bytes);
  note_bytes();
  delay = domain_.delay_until(port.reserve(bytes, std::max(domain_.cycle_after(delay), now())));
}

void LinkUnit::call_home(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const std::uint64_t address = payload.get_address();
  if (!is_memory(address, payload.get_data_length()) || is_multimem(payload)) {
    stats_.refused.add();
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  stats_.served.add();
  const std::uint64_t offset = arch::peer_offset(address);
  const Cycle arrival = std::max(domain_.cycle_after(delay), now());
  if (is_posted(payload) && arrival > now()) {
    const std::uint32_t number = late_.add(payload, offset, arrival);
    domain_.schedule(arrival, *this, kLand, std::uint64_t{late_.serial_of(number)} << 32 | number);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay = domain_.delay_until(arrival + write_cycles_);
    return;
  }
  if (late_.any() && late_.covers(offset)) {
    late_.settle(offset, 1, arrival, [this](protocol::MemoryRequest& request) { land(request); });
  }
  payload.set_address(offset);
  home_out.blocking(payload, delay);
  payload.set_address(address);
}

// It has come: it is done now, and takes its place in the calendars of its home. The next one is acknowledged after as
// long as this one took.
void LinkUnit::land(protocol::MemoryRequest& request) {
  sc_core::sc_time delay = domain_.delay_until(now());
  home_out.blocking(request, delay);
  HEDDLE_CHECK(request.is_response_ok(), "memory refused a write of a link that lies in it");
  write_cycles_ = std::max(domain_.cycle_after(delay), now()) - now();
  progress();
}

unsigned LinkUnit::debug_came(tlm::tlm_generic_payload& payload, std::uint32_t) {
  const std::uint64_t address = payload.get_address();
  if (!is_memory(address, payload.get_data_length())) return 0;
  if (late_.any()) {
    late_.settle(arch::peer_offset(address), payload.get_data_length(), kNever,
                 [this](protocol::MemoryRequest& request) { land(request); });
  }
  payload.set_address(arch::peer_offset(address));
  const unsigned done = home_out.debug(payload);
  payload.set_address(address);
  return done;
}

void LinkUnit::reset() {
  open_.for_each([](const Open& open) {
    if (open.request != nullptr) open.request->release();
  });
  open_.clear();
  for (auto& queue : answered_) queue.clear();
  std::fill(inside_.begin(), inside_.end(), 0U);
  home_.clear();
  late_.reset();
  for (const auto& port : ports_) port->reset();
  write_cycles_ = 0;
}

void LinkUnit::collect_waits(WaitGraph& graph) const {
  for (const auto& port : ports_) port->collect_waits(graph, domain_.observation().prefix + "." + path());
  if (!home_out.can_send()) graph.add(path(), "for room in", "the memory hub");
}

void LinkUnit::check_idle() {
  HEDDLE_CHECK(open_.in_use() == 0 && home_.empty() && !late_.any(), "requests of an idle machine are at its links");
  for (const auto& port : ports_) HEDDLE_CHECK(port->idle(), "something waits for a link of an idle machine");
}

}  // namespace heddle::link
