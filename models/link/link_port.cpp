#include "link/link_port.h"

#include <algorithm>

namespace heddle::link {

LinkPort::LinkPort(const std::string& name, Domain& domain, std::uint32_t number, std::uint32_t sources,
                   const Rates& rates, PortOwner& owner)
    : out(("out_" + name).c_str(), domain),
      in(("in_" + name).c_str(), domain),
      name_(name),
      domain_(domain),
      number_(number),
      rates_{rates.bytes_per_cycle, domain.cost(rates.latency)},
      has_costs_(heddle::has_costs(domain.mode())),
      owner_(owner),
      pace_(rates.bytes_per_cycle),
      calendar_(rates.bytes_per_cycle),
      requests_(sources) {
  out.connect<LinkPort, &LinkPort::on_response, &LinkPort::on_room>(*this);
  in.connect<LinkPort, &LinkPort::on_request, &LinkPort::on_room, &LinkPort::on_blocking, &LinkPort::on_debug>(*this);
}

void LinkPort::request(std::uint32_t source, tlm::tlm_generic_payload& payload, std::uint32_t bytes, Cycle when) {
  requests_[source].push({&payload, bytes, when});
  arm(when);
}

void LinkPort::response(tlm::tlm_generic_payload& payload, std::uint32_t bytes, Cycle when) {
  responses_.push({&payload, bytes, when});
  arm(when);
}

void LinkPort::arm(Cycle when) {
  when = std::max(when, domain_.now());
  if (when >= armed_) return;
  armed_ = when;
  domain_.schedule(when, *this, 0);
}

void LinkPort::on_event(std::uint32_t, std::uint64_t) {
  if (armed_ != domain_.now()) return;  // an earlier one has been asked for since
  armed_ = kNever;
  pump();
}

void LinkPort::pump() {
  Cycle next = kNever;
  bool sent = true;
  while (sent) {
    const Cycle free = pace_.earliest(domain_.now());
    if (free > domain_.now()) {
      next = free;
      break;
    }
    next = kNever;
    sent = responses_turn_ ? send_response(next) || send_request(next) : send_request(next) || send_response(next);
  }
  const auto waits = [](const Ring<Item>& queue) { return !queue.empty(); };
  if (next != kNever && (!responses_.empty() || std::any_of(requests_.begin(), requests_.end(), waits))) arm(next);
}

// True: one has left. `next`: when to look again, unless somebody will tell.
bool LinkPort::send_response(Cycle& next) {
  if (responses_.empty() || !in.can_respond()) return false;
  if (responses_.front().when > domain_.now()) {
    next = std::min(next, responses_.front().when);
    return false;
  }
  const Item item = responses_.pop();
  pace_.take(domain_.now(), item.bytes);
  count(item.bytes);
  responses_turn_ = false;
  in.respond(*item.payload, domain_.now() + rates_.latency);
  return true;
}

bool LinkPort::send_request(Cycle& next) {
  if (!out.can_send()) return false;
  const auto sources = static_cast<std::uint32_t>(requests_.size());
  for (std::uint32_t i = 0; i < sources; ++i) {
    const std::uint32_t source = (turn_ + i) % sources;
    Ring<Item>& queue = requests_[source];
    if (queue.empty()) continue;
    if (queue.front().when > domain_.now()) {
      next = std::min(next, queue.front().when);
      continue;
    }
    const Item item = queue.pop();
    pace_.take(domain_.now(), item.bytes);
    count(item.bytes);
    turn_ = (source + 1) % sources;
    responses_turn_ = true;
    out.send(*item.payload, domain_.now() + rates_.latency);
    owner_.request_left(number_, source);
    return true;
  }
  return false;
}

bool LinkPort::idle() const {
  return responses_.empty() &&
         std::all_of(requests_.begin(), requests_.end(), [](const Ring<Item>& queue) { return queue.empty(); });
}

void LinkPort::reset() {
  for (Ring<Item>& queue : requests_) queue.clear();
  responses_.clear();
  pace_.reset();
  calendar_.reset();
  turn_ = 0;
  responses_turn_ = true;
  armed_ = kNever;
}

void LinkPort::collect_waits(WaitGraph& graph, const std::string& who) const {
  if (!out.can_send()) graph.add(who, "for credits of", "the other end of " + name_);
}

}  // namespace heddle::link
