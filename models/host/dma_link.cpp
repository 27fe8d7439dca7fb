#include "host/dma_link.h"

#include <algorithm>

#include "arch/memory_op.h"

namespace heddle::host {
namespace {

constexpr std::uint32_t kPcieHeaderBytes = 24;  // of PCIe: a header of 16, and framing

double bytes_per_cycle(const HubParams& params, const Domain& domain) {
  return std::max(0.01, params.link_bandwidth / domain.clock().gigahertz());
}

}  // namespace

DmaLink::DmaLink(const char* name, Domain& domain, DmaBus::Socket& socket, const HubParams& params,
                 const DmaBusCounters& counters, Listener& listener)
    : name_(name),
      domain_(domain),
      listener_(listener),
      bus_(name, domain, socket, params, counters, *this),
      tag_limit_(params.link_tags),
      latency_(domain.cost(domain.clock().cycles_for_ns(params.link_latency))),
      out_(bytes_per_cycle(params, domain)),
      back_(bytes_per_cycle(params, domain)),
      called_(heddle::has_calls(domain.mode())),
      rate_(bytes_per_cycle(params, domain)),
      out_ahead_(rate_),
      back_ahead_(rate_) {}

DmaPayload& DmaLink::add() {
  DmaPayload& payload = bus_.acquire();
  leaving_.push(&payload);
  return payload;
}

void DmaLink::on_event(std::uint32_t kind, std::uint64_t argument) {
  auto* payload = reinterpret_cast<DmaPayload*>(argument);
  switch (kind) {
    case kLeave:
      leave_event_ = false;
      pump();
      break;
    case kArrive:
      bus_.send(*payload);
      break;
    default:
      --tags_;
      listener_.on_dma_answer(*payload);
      break;
  }
}

void DmaLink::pump() {
  while (!leaving_.empty() && tags_ < tag_limit_) {
    if (!called_ && !out_.free_at(domain_.now())) {
      if (!leave_event_) domain_.schedule(out_.earliest(domain_.now()), *this, kLeave);
      leave_event_ = true;
      return;
    }
    DmaPayload& payload = *leaving_.pop();
    ++tags_;
    Cycle begin = domain_.now();
    const std::uint32_t bytes = kPcieHeaderBytes + (payload.is_write() ? payload.get_data_length() : 0);
    if (called_) {
      begin = out_ahead_.take(begin, bytes);
    } else {
      out_.take(begin, bytes);
    }
    schedule(begin + latency_, kArrive, payload);
  }
}

// The way back.
void DmaLink::on_bus_answer(DmaPayload& payload) {
  Cycle start = domain_.now();
  const std::uint32_t bytes = kPcieHeaderBytes + (payload.is_read() ? payload.get_data_length() : 0);
  if (called_) {
    start = back_ahead_.take(start, bytes);
  } else {
    start = back_.earliest(start);
    back_.take(start, bytes);
  }
  schedule(start + latency_, kFinish, payload);
}

void DmaLink::on_bus_lost(DmaPayload& payload) {
  --tags_;
  listener_.on_dma_lost(payload);
}

void DmaLink::go_out(RangeMove& range, std::uint32_t queue, Cycle target) {
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  range.accepted = range.first;
  const Cycle first = range.first;
  const Cycle last = range.last;
  while (range_lines_ + lines > tag_limit_) {
    const Tags freed = range_tags_.pop();
    ++ranges_gone_;
    range_lines_ -= freed.lines;
    range.first = std::max(range.first, freed.first);
    range.last = std::max({range.last, range.first, freed.last});
  }
  if (range.first > first || range.last > last) {
    range.accepted = range.time_of(lines - std::min(lines, queue), lines);
  }
  const std::uint32_t out = kPcieHeaderBytes + (range.write ? arch::kLineBytes : 0);
  range.follow(out_ahead_.take(range.first, lines * out), (lines - 1) * out / rate_);
  range.delay(latency_ + target);
  // As long as nobody knows better.
  range.note = ranges_gone_ + range_tags_.size();
  range_tags_.push({lines, range.first + latency_, range.last + latency_});
  range_lines_ += lines;
}

void DmaLink::come_back(RangeMove& range) {
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  const std::uint32_t back = kPcieHeaderBytes + (range.write ? 0 : arch::kLineBytes);
  range.follow(back_ahead_.take(range.first, lines * back), (lines - 1) * back / rate_);
  range.delay(latency_);
  if (range.note < ranges_gone_) return;
  Tags& tags = range_tags_.at(range.note - ranges_gone_);
  tags.first = range.first;
  tags.last = range.last;
}

void DmaLink::reset_link() {
  tags_ = 0;
  out_.reset();
  back_.reset();
  out_ahead_.reset();
  back_ahead_.reset();
  range_tags_.clear();
  range_lines_ = 0;
  ranges_gone_ = 0;
  leaving_.clear();
  leave_event_ = false;
}

}  // namespace heddle::host
