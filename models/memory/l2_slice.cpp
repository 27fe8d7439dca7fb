#include "memory/l2_slice.h"

#include <algorithm>

#include "memory/l2_decode.h"

namespace heddle::memory {
namespace {

L2Config config_of(const L2Params& params, const arch::AddressMap& map) {
  HEDDLE_CHECK(map.bytes() / arch::kLineBytes < ~std::uint32_t{0} && map.bytes() % arch::kSectorBytes == 0,
               "the L2 works for up to 512 GiB of memory, in whole sectors");
  L2Config config;
  config.lines = params.lines_per_slice();
  config.ways = params.ways;
  config.slices = map.slices();
  config.mshrs = params.mshrs;
  config.waiters = params.waiters;
  config.write_buffer = params.write_buffer;
  return config;
}

Cycle cycles_for(std::uint32_t bytes, std::uint32_t per_cycle) {
  return std::max<Cycle>(1, (bytes + per_cycle - 1) / per_cycle);
}

}  // namespace

L2Slice::L2Slice(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const L2Params& params,
                 const arch::AddressMap& map, std::uint32_t slice)
    : Block(name, domain, path),
      request_in("request_in", domain),
      memory_out("memory_out", domain),
      map_(map),
      number_(slice),
      params_(params),
      requests_(counter("requests", "requests", "requests that the slice has served")),
      atomics_(counter("atomics", "values", "values that atomics and reductions have changed")),
      stalls_(counter("stalls", "cycles", "cycles in which the first request could not be served")),
      core_(config_of(params, map),
            {counter("hits", "requests", "requests served without waiting for memory"),
             counter("merges", "requests", "requests that waited behind an earlier one for the same line"),
             counter("fills", "sectors", "sectors read from memory"),
             counter("write_backs", "sectors", "sectors written to memory"),
             counter("write_errors", "transfers", "write-backs that memory has refused: their bytes are lost")}),
      tag_delay_(domain.clock().period() * static_cast<double>(params.tag_latency)),
      data_delay_(domain.clock().period() * static_cast<double>(params.data_latency)),
      memory_delay_(domain.clock().period() * static_cast<double>(params.memory_latency)) {
  HEDDLE_CHECK(slice < map.slices(), "an L2 slice has a number that the address map does not know");
  for (std::uint32_t i = 0; i <= arch::kSectorsPerLine; ++i) {
    sector_cycles_[i] = cycles_for(i * arch::kSectorBytes, params.bandwidth);
  }
  request_in
      .connect<L2Slice, &L2Slice::on_request, &L2Slice::on_response_room, &L2Slice::on_blocking, &L2Slice::on_debug>(
          *this);
  memory_out.connect<L2Slice, &L2Slice::on_answer, &L2Slice::on_memory_room>(*this);
}

void L2Slice::reset() {
  core_.reset();
  arrivals_.clear();
  departures_.clear();
  serving_ = serve_event_ = false;
  blocked_ = nullptr;
  port_free_ = memory_free_ = last_departure_ = 0;
  for (const Transfer& transfer : transfers_) {
    if (transfer.payload == nullptr) continue;
    if (transfer.answered) {
      transfer.payload->release();
    } else {
      stale_.push_back(transfer.payload);  // the memory may not have been reset
    }
  }
  transfers_.clear();
  free_transfers_.clear();
}

void L2Slice::poison(std::uint64_t address, std::uint64_t bytes) {
  HEDDLE_CHECK(bytes > 0 && map_.contains(address, bytes), "bytes outside memory cannot become corrupt");
  const std::uint64_t end = address + bytes;
  while (address < end) {
    const std::uint64_t next = std::min(end, arch::line_of(address) + arch::kLineBytes);
    const LineMask range = LineMask::range(static_cast<std::uint32_t>(address % arch::kLineBytes),
                                           static_cast<std::uint32_t>(next - address));
    if (map_.slice_of(address) == number_) core_.poison(address / arch::kLineBytes, range.touched());
    address = next;
  }
}

void L2Slice::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kServe:
      serve_event_ = false;
      serve_next();
      break;
    case kAnswer:
      take_answer(static_cast<std::uint32_t>(argument));
      break;
    case kRespond:
      send_responses();
      unblock();
      break;
    default:
      answer_served();
      send_commands();
      unblock();
      break;
  }
}

// The payload first, then the tags, then the line.
void L2Slice::prefetch(std::uint32_t kind, std::uint64_t, Ahead ahead) const {
  if (kind != kServe || arrivals_.empty()) return;
  const tlm::tlm_generic_payload& payload = *arrivals_.front().payload;
  if (ahead == Ahead::far) {
    protocol::prefetch(payload);
  } else if (ahead == Ahead::near) {
    core_.prefetch_tags(payload.get_address() / arch::kLineBytes);
  } else if (ahead == Ahead::next) {
    core_.prefetch_line(payload.get_address() / arch::kLineBytes);
  }
}

bool L2Slice::on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  arrivals_.push({&payload, arrival + params_.tag_latency});
  if (!serving_) expect_service();
  return arrivals_.size() < params_.queue;
}

void L2Slice::expect_service() {
  serving_ = true;
  schedule_service(std::max({arrivals_.front().ready, port_free_, now()}));
}

void L2Slice::schedule_service(Cycle when) {
  serve_event_ = true;
  domain_.schedule(when, *this, kServe);
}

// One event per request: it takes effect here, and its response leaves with the delay of the data pipeline.
void L2Slice::serve_next() {
  if (port_free_ > now()) {  // taken by requests that memory has answered in the meantime
    schedule_service(port_free_);
    return;
  }
  // What is still on its way through the data pipeline needs no other place.
  if (departures_.size() >= params_.responses && departures_.at(params_.responses - 1).when <= now()) {
    block("for its responses to be taken by", false);
    return;
  }
  tlm::tlm_generic_payload& payload = *arrivals_.front().payload;
  L2Access access;
  const tlm::tlm_response_status status = decode(payload, map_, access);
  L2Core::Outcome outcome = L2Core::Outcome::done;
  if (status == tlm::TLM_OK_RESPONSE) outcome = core_.serve(access, &payload);
  if (outcome == L2Core::Outcome::stalled) {
    block(stall_reason(), true);
    return;
  }
  if (blocked_ != nullptr) {
    stalls_.add(now() - blocked_since_);
    blocked_ = nullptr;
  }
  requests_.add();
  arrivals_.pop();
  if (status == tlm::TLM_OK_RESPONSE && changes_values(access.kind)) atomics_.add(values_of(access));
  if (outcome == L2Core::Outcome::done) {
    respond(payload, status, take_port(status == tlm::TLM_OK_RESPONSE ? cycles_of(access) : 1));
  } else {
    take_port(1);
  }
  if (arrivals_.empty()) {
    serving_ = false;
  } else {
    expect_service();
  }
  if (request_in.withholding() && arrivals_.size() < params_.queue) request_in.accept(now());
  send_commands();
}

const char* L2Slice::stall_reason() const {
  switch (core_.stall()) {
    case L2Core::Stall::mshr:
      return "for a miss-status register, held by fetches from";
    case L2Core::Stall::waiter:
      return "for room among the requests that wait for";
    case L2Core::Stall::way:
      return "for a way of its set, all of which are fetched from";
    case L2Core::Stall::write_buffer:
      break;
  }
  return "for room in the write buffer, on its way to";
}

void L2Slice::block(const char* reason, bool on_memory) {
  if (blocked_ == nullptr) blocked_since_ = now();
  blocked_ = reason;
  blocked_on_memory_ = on_memory;
}

void L2Slice::unblock() {
  if (blocked_ != nullptr && !serve_event_) serve_next();
}

Cycle L2Slice::take_port(Cycle cycles) {
  const Cycle start = std::max(now(), port_free_);
  port_free_ = start + cycles;
  return start;
}

Cycle L2Slice::cycles_of(const L2Access& access) const {
  switch (access.kind) {
    case L2Access::Kind::read:
    case L2Access::Kind::write:
      return sector_cycles_[static_cast<std::size_t>(__builtin_popcount(access.bytes.touched()))];
    case L2Access::Kind::atomic:
    case L2Access::Kind::reduce:
      return atomic_cycles(access, params_.atomic_rate);
    case L2Access::Kind::prefetch:
    case L2Access::Kind::write_back:
      break;
  }
  return 1;
}

// Responses leave in the order of their turns at the data port.
void L2Slice::respond(tlm::tlm_generic_payload& payload, tlm::tlm_response_status status, Cycle served) {
  payload.set_response_status(status);
  const Departure departure{&payload, served + params_.data_latency};
  if (departures_.empty() && request_in.can_respond()) {
    deliver(departure);
  } else {
    departures_.push(departure);
  }
}

void L2Slice::deliver(const Departure& departure) {
  last_departure_ = std::max({last_departure_, departure.when, now()});
  request_in.respond(*departure.payload, last_departure_);
}

void L2Slice::send_responses() {
  while (!departures_.empty() && request_in.can_respond()) deliver(departures_.pop());
}

void L2Slice::on_response_room(std::uint32_t, Cycle when) {
  if (!departures_.empty()) domain_.schedule(std::max(when, now()), *this, kRespond);
}

std::string L2Slice::memory_name() const { return "the memory of " + path(); }

void L2Slice::collect_waits(WaitGraph& graph) const {
  if (blocked_ != nullptr && blocked_on_memory_) graph.add(path(), blocked_, memory_name());
  if (!departures_.empty()) graph.add(path(), "for its responses to be taken by", "the crossbar");
  if (core_.fetching() > 0) graph.add(path(), "for sectors from", memory_name());
  if (core_.writing_back() > 0) graph.add(path(), "for write-backs to be acknowledged by", memory_name());
}

}  // namespace heddle::memory
