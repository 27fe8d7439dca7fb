#include "memory/l2_twin_way.h"

#include <utility>

namespace heddle::memory {
namespace {

// The way itself says when something arrives; the port, in what order.
L2Params port_params(L2Params params, const TwinLink& link) {
  params.memory_latency = link.latency;
  params.memory_bandwidth = arch::kLineBytes;
  return params;
}

}  // namespace

L2TwinWay::L2TwinWay(const char* name, Domain& domain, const std::string& path, const L2Params& params,
                     const TwinLink& link, L2Ingress& ingress, L2MemoryPort::Listener& owner)
    : out("twin_out", domain),
      domain_(domain),
      link_(link),
      delay_(sc_core::sc_time::from_value(domain.clock().period().value() * link.latency)),
      ingress_(ingress),
      owner_(owner),
      port_(name, domain, out, port_params(params, link), *this, protocol::MemoryAction::copy),
      requests_(link.bytes_per_cycle),
      answers_(link.bytes_per_cycle),
      bytes_(domain.observation().stats.counter(path + ".crossing_bytes", "bytes",
                                                "what has gone to the twin and what came back for it")) {}

// The way may be taken: then what goes to memory must not wait behind it.
void L2TwinWay::fetch(const L2Command& command) { send({nullptr, command}); }

void L2TwinWay::pass(const PendingRequest& request) {
  open_[&request.payload()] = {{{request, 0}}, false};
  send({&request.payload(), {}});
}

void L2TwinWay::take_away(std::uint64_t line, const PendingRequest& request, Cycle when) {
  tlm::tlm_generic_payload& payload = taking_away(line);
  open_[&payload] = {{{request, when}}, true};
  taken_[line] = &payload;
  send({&payload, {}});
}

bool L2TwinWay::hold(std::uint64_t line, const PendingRequest& request, Cycle when) {
  const auto found = taken_.find(line);
  if (found == taken_.end()) return false;
  open_.at(found->second).held.push_back({request, when});
  return true;
}

void L2TwinWay::send(const Unsent& next) {
  unsent_.push_back(next);
  send_unsent();
}

void L2TwinWay::send_unsent() {
  while (!unsent_.empty() && port_.can_send()) {
    const Unsent next = unsent_.front();
    unsent_.pop_front();
    if (next.payload == nullptr) {
      count(next.fetch.sectors * arch::kSectorBytes);
      port_.send(next.fetch, nullptr, arrival_of(requests_, domain_.now(), 0));
    } else {
      const std::uint32_t bytes = next.payload->get_data_length();
      count(bytes);
      port_.send_other(*next.payload, arrival_of(requests_, domain_.now(), next.payload->is_write() ? bytes : 0));
    }
  }
}

void L2TwinWay::on_memory_room() {
  send_unsent();
  owner_.on_memory_room();
}

void L2TwinWay::on_other_answer(tlm::tlm_generic_payload& payload) {
  const auto found = open_.find(&payload);
  if (found == open_.end()) return;  // of before a reset
  const Open open = std::move(found->second);
  open_.erase(found);
  if (open.ours) {
    const auto line = taken_.find(payload.get_address() / arch::kLineBytes);
    if (line->second == &payload) taken_.erase(line);
    payload.release();
  }
  for (const Held& held : open.held) {
    ingress_.respond(held.request, std::max(domain_.now(), held.when), domain_.now());
  }
}

void L2TwinWay::pass_blocking(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  count(payload.get_data_length());
  delay += delay_;
  out.blocking(payload, delay);
  delay += delay_;
}

int L2TwinWay::fetch_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image,
                              sc_core::sc_time& delay) {
  count(run.count * arch::kSectorBytes);
  delay += delay_;
  const int status = port_.read_blocking(line, run, line_image, delay);
  delay += delay_;
  return status;
}

void L2TwinWay::take_away_blocking(std::uint64_t line, sc_core::sc_time& delay) {
  protocol::MemoryRequest& request = taking_away(line);
  pass_blocking(request, delay);
  request.release();
}

void L2TwinWay::take_away_now(std::uint64_t line) {
  protocol::MemoryRequest& request = taking_away(line);
  out.debug(request);
  request.release();
}

protocol::MemoryRequest& L2TwinWay::taking_away(std::uint64_t line) {
  protocol::MemoryRequest& request = pool_.acquire();
  request.aim(tlm::TLM_IGNORE_COMMAND, line * arch::kLineBytes, 0);
  request.extension.action = protocol::MemoryAction::drop_copy;
  return request;
}

Cycle L2TwinWay::answer(Cycle when, std::uint32_t bytes) { return arrival_of(answers_, when, bytes); }

// Something with so many bytes of data sets out at `when`, or as soon as the link is free.
Cycle L2TwinWay::arrival_of(LinkPace& link, Cycle when, std::uint32_t bytes) const {
  const Cycle begin = link.earliest(when);
  link.take(begin, link_.header_bytes + bytes);
  return begin + link_.latency;
}

void L2TwinWay::count(std::uint32_t bytes) { bytes_.add(2 * std::uint64_t{link_.header_bytes} + bytes); }

void L2TwinWay::reset() {
  for (const auto& [payload, open] : open_) {
    if (open.ours) payload->release();
  }
  open_.clear();
  taken_.clear();
  unsent_.clear();
  requests_.reset();
  answers_.reset();
  port_.reset(true);
}

}  // namespace heddle::memory
