#include "link/link_switch.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "arch/tensor_data.h"

namespace heddle::link {

using protocol::MemoryAction;
using protocol::MemoryExtension;
using protocol::MemoryRequest;

void Fan::begin(tlm::tlm_generic_payload& asked, std::uint32_t port, std::uint32_t members) {
  asked_ = &asked;
  port_ = port;
  open_ = members;
  poisoned_ = false;
  status_ = tlm::TLM_OK_RESPONSE;
  data_.assign(asked.is_read() ? members : 0, {});
}

void Fan::answered(std::uint32_t member, MemoryRequest& part) {
  --open_;
  poisoned_ = poisoned_ || part.extension.poisoned;
  if (!part.is_response_ok() && status_ == tlm::TLM_OK_RESPONSE) status_ = part.get_response_status();
  if (part.is_read()) std::memcpy(data_[member].data(), part.data.data(), part.get_data_length());
}

void Fan::finish() {
  asked_->set_response_status(status_);
  MemoryExtension& extension = *protocol::extension_of(*asked_);
  extension.poisoned = poisoned_;
  if (data_.empty() || status_ != tlm::TLM_OK_RESPONSE) return;
  const std::uint32_t bytes = asked_->get_data_length();
  const arch::ByteMask all = arch::ByteMask::first(bytes);
  for (std::size_t member = 1; member < data_.size(); ++member) {
    arch::reduce(extension.atomic, extension.type, all, bytes, data_[member].data(), data_.front().data());
  }
  std::memcpy(asked_->get_data_ptr(), data_.front().data(), bytes);
}

LinkSwitch::LinkSwitch(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                       const FabricParams& params, const std::vector<LinkParams>& gpus,
                       std::vector<std::vector<std::uint32_t>> groups)
    : Block(name, domain, path),
      params_(params),
      gpus_(gpus),
      groups_(std::move(groups)),
      planes_(gpus.front().ports),
      through_(domain.cost(domain.clock().cycles_for_ns(params.switch_latency))),
      combine_(domain.cost(domain.clock().cycles_for_ns(params.reduce_latency))),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      held_(gpus.size() * planes_) {
  PortOwner& owner = *this;
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const LinkParams& own = gpus[gpu];
    HEDDLE_CHECK(own.ports == planes_, "GPUs at a switch have different numbers of ports");
    sizes_.emplace_back(own);
    const LinkPort::Rates rates{own.bandwidth * domain.clock().period().to_seconds() * 1e9,
                                domain.clock().cycles_for_ns(own.latency)};
    for (std::uint32_t plane = 0; plane < planes_; ++plane) {
      const auto number = static_cast<std::uint32_t>(ports_.size());
      ports_.push_back(std::make_unique<LinkPort>(fmt::format("{}_{}", gpu, plane), domain, number,
                                                  static_cast<std::uint32_t>(gpus.size()), rates, owner));
      if (heddle::has_calls(domain.mode())) ports_.back()->in.offer_ranges(*this, number);
    }
  }
}

void LinkSwitch::on_event(std::uint32_t kind, std::uint64_t argument) {
  HEDDLE_CHECK(kind == 0, "an event that a switch does not know");
  const auto number = static_cast<std::uint32_t>(argument);
  Fan& fan = fans_[number];
  fan.finish();
  respond(fan.asked(), fan.port(), now());
  fans_.give_back(number);
}

const std::vector<std::uint32_t>* LinkSwitch::group_of(std::uint64_t address) const {
  const std::uint32_t peer = arch::peer_of(address);
  if (peer < arch::kPeers || peer - arch::kPeers >= groups_.size()) return nullptr;
  return &groups_[peer - arch::kPeers];
}

// Writes and reductions whose old values nobody wants go to a group, and reads that say how to combine.
bool LinkSwitch::may_fan(tlm::tlm_generic_payload& payload) {
  const MemoryExtension& extension = *protocol::extension_of(payload);
  switch (extension.action) {
    case MemoryAction::plain:
      return payload.is_write();
    case MemoryAction::reduce:
    case MemoryAction::reduce_block:
      return true;
    case MemoryAction::multimem:
      return payload.is_read() && arch::reduction_exists(extension.atomic, extension.type, false) &&
             payload.get_data_length() % arch::bytes_of(extension.type) == 0;
    default:
      return false;
  }
}

bool LinkSwitch::request_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  const Cycle when = std::max(arrival, now()) + through_;
  stats_.requests.add();
  MemoryExtension* extension = protocol::extension_of(payload);
  HEDDLE_CHECK(extension != nullptr, "a request without our extension came to a switch");
  const std::uint64_t address = payload.get_address();
  const std::vector<std::uint32_t>* group = group_of(address);
  const bool lost = group != nullptr
                        ? !may_fan(payload)
                        : arch::peer_of(address) >= gpus_.size() || extension->action == MemoryAction::multimem;
  if (lost) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    respond(payload, port, when);
    return true;
  }
  ++held_[port];
  if (group != nullptr) {
    fan_out(payload, port, when);
  } else {
    extension->link_source = static_cast<std::uint16_t>(port);
    LinkPort& way = *ports_[arch::peer_of(address) * planes_ + plane_of(port)];
    way.request(gpu_of(port), payload, sizes(port).request(payload), when);
  }
  return held_[port] < gpus_[gpu_of(port)].buffer;
}

// A copy for each. The place at the port is free when the first has left.
void LinkSwitch::fan_out(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle when) {
  const std::vector<std::uint32_t>& group = *group_of(payload.get_address());
  const std::uint32_t number = fans_.take();
  fans_[number].begin(payload, port, static_cast<std::uint32_t>(group.size()));
  (payload.is_read() ? stats_.reductions : stats_.multicasts).add();
  held_[port] += static_cast<std::uint32_t>(group.size()) - 1;  // each copy has a place
  for (std::uint32_t member = 0; member < group.size(); ++member) {
    MemoryRequest& part = pool_.acquire();
    copy_request(payload, arch::peer_address(group[member], arch::peer_offset(payload.get_address())), part);
    if (part.extension.action == MemoryAction::multimem) part.extension.action = MemoryAction::plain;
    part.extension.entry = number * kMembers + member;
    part.extension.link_source = kFanned;
    ports_[group[member] * planes_ + plane_of(port)]->request(gpu_of(port), part, sizes(port).request(part), when);
  }
}

void LinkSwitch::request_left(std::uint32_t port, std::uint32_t source) {
  const std::uint32_t from = source * planes_ + plane_of(port);
  --held_[from];
  if (held_[from] < gpus_[source].buffer) ports_[from]->accept();
  note_bytes();
}

void LinkSwitch::response_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  const Cycle when = std::max(arrival, now()) + through_;
  MemoryExtension* extension = protocol::extension_of(payload);
  if (extension->link_source != kFanned) return respond(payload, extension->link_source, when);
  auto& part = static_cast<MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): of the switch's own pool
  const std::uint32_t number = extension->entry / kMembers;
  Fan& fan = fans_[number];
  fan.answered(extension->entry % kMembers, part);
  part.release();
  if (fan.complete()) domain_.schedule(when + (fan.asked().is_read() ? combine_ : 0), *this, 0, number);
  (void)port;
}

void LinkSwitch::respond(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle when) {
  ports_[port]->response(payload, sizes(port).response(payload), when);
}

void LinkSwitch::note_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& port : ports_) bytes += port->bytes_out();
  stats_.bytes.set(static_cast<double>(bytes));
}

void LinkSwitch::call_came(tlm::tlm_generic_payload& payload, std::uint32_t number, sc_core::sc_time& delay) {
  const Cycle arrival = std::max(domain_.cycle_after(delay), now()) + through_;
  stats_.requests.add();
  const std::uint64_t address = payload.get_address();
  const MemoryExtension& extension = *protocol::extension_of(payload);
  if (group_of(address) != nullptr && may_fan(payload)) {
    call_group(payload, number, arrival, delay);
  } else if (arch::peer_of(address) < gpus_.size() && extension.action != MemoryAction::multimem) {
    LinkPort& way = *ports_[arch::peer_of(address) * planes_ + plane_of(number)];
    const std::uint32_t bytes = sizes(number).request(payload);
    way.count(bytes);
    delay = domain_.delay_until(way.reserve(bytes, arrival));
    way.out.blocking(payload, delay);
  } else {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    delay = domain_.delay_until(arrival);
  }
  LinkPort& back = *ports_[number];
  const std::uint32_t bytes = sizes(number).response(payload);
  back.count(bytes);
  note_bytes();
  const Cycle when = std::max(domain_.cycle_after(delay), now()) + through_;
  delay = domain_.delay_until(back.reserve(bytes, when));
}

// The slowest member decides.
void LinkSwitch::call_group(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival,
                            sc_core::sc_time& delay) {
  const std::vector<std::uint32_t>& group = *group_of(payload.get_address());
  Fan fan;
  fan.begin(payload, port, static_cast<std::uint32_t>(group.size()));
  (payload.is_read() ? stats_.reductions : stats_.multicasts).add();
  Cycle last = arrival;
  for (std::uint32_t member = 0; member < group.size(); ++member) {
    MemoryRequest& part = pool_.acquire();
    copy_request(payload, arch::peer_address(group[member], arch::peer_offset(payload.get_address())), part);
    if (part.extension.action == MemoryAction::multimem) part.extension.action = MemoryAction::plain;
    LinkPort& way = *ports_[group[member] * planes_ + plane_of(port)];
    const std::uint32_t bytes = sizes(port).request(part);
    way.count(bytes);
    sc_core::sc_time end = domain_.delay_until(way.reserve(bytes, arrival));
    way.out.blocking(part, end);
    last = std::max(last, domain_.cycle_after(end));
    fan.answered(member, part);
    part.release();
  }
  fan.finish();
  delay = domain_.delay_until(std::max(last, now()) + (payload.is_read() ? combine_ : 0));
}

unsigned LinkSwitch::debug_came(tlm::tlm_generic_payload& payload, std::uint32_t port) {
  const std::uint32_t peer = arch::peer_of(payload.get_address());
  return peer < gpus_.size() ? ports_[peer * planes_ + plane_of(port)]->out.debug(payload) : 0;
}

// Lines spread over all planes: towards the target now, and back when it has answered.
bool LinkSwitch::move(RangeMove& range, std::uint32_t port) {
  const std::uint32_t peer = arch::peer_of(range.address);
  if (peer >= gpus_.size()) return false;
  Domain* there = nullptr;
  const RangePort far = ports_[peer * planes_]->out.far_ranges(there);
  if (!far.offered()) return false;
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  const auto pass = [&](std::uint32_t gpu, bool data, RangeMove& moved) {
    const std::uint32_t bytes = sizes(port).line(data);
    Cycle first = moved.first;
    for (std::uint32_t i = 0; i < planes_ && i < lines; ++i) {
      LinkPort& way =
          *ports_[gpu * planes_ + static_cast<std::uint32_t>((range.address / arch::kLineBytes + i) % planes_)];
      const std::uint32_t own = (lines - i + planes_ - 1) / planes_;
      way.count(std::uint64_t{own} * bytes);
      first = std::max(first, way.reserve(own * bytes, moved.first));
    }
    const std::uint64_t rest = (lines + planes_ - 1) / planes_ - 1;
    moved.follow(first, static_cast<double>(ports_[gpu * planes_]->cycles(rest * bytes)));
  };
  RangeMove moved = range;
  moved.delay(through_);
  pass(peer, range.write, moved);
  RangeMove beyond = in_cycles_of(moved, domain_, *there);
  if (!far.move(beyond)) return false;
  stats_.requests.add(lines);
  moved = in_cycles_of(beyond, *there, domain_);
  moved.delay(through_);
  pass(gpu_of(port), !range.write, moved);
  moved.note = range.note;
  note_bytes();
  range = moved;
  return true;
}

void LinkSwitch::reset() {
  fans_.clear();
  std::fill(held_.begin(), held_.end(), 0U);
  for (const auto& port : ports_) port->reset();
}

void LinkSwitch::collect_waits(WaitGraph& graph) const {
  for (const auto& port : ports_) port->collect_waits(graph, path());
}

void LinkSwitch::check_idle() {
  HEDDLE_CHECK(fans_.in_use() == 0, "requests of an idle switch wait for answers");
  for (const auto& port : ports_) HEDDLE_CHECK(port->idle(), "something waits for a port of an idle switch");
}

}  // namespace heddle::link
