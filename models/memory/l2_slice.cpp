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
                 const arch::AddressMap& map, std::uint32_t slice, L2Ways ways)
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
  const auto listen = [this](MemoryIn& in, std::uint32_t way) {
    in.connect<L2Slice, &L2Slice::on_request, &L2Slice::on_response_room, &L2Slice::on_blocking, &L2Slice::on_debug>(
        *this, way);
  };
  listen(request_in, kCrossbar);
  if (ways == L2Ways::crossbar_and_hub) {
    hub_in_ = std::make_unique<MemoryIn>("hub_in", domain);
    listen(*hub_in_, kHub);
  }
  memory_out.connect<L2Slice, &L2Slice::on_answer, &L2Slice::on_memory_room>(*this);
}

L2Slice::~L2Slice() = default;

MemoryIn& L2Slice::hub_in() {
  HEDDLE_CHECK(hub_in_ != nullptr, "an L2 slice was built without a way for the memory hub");
  return *hub_in_;
}

void L2Slice::reset() {
  core_.reset();
  arrivals_.clear();
  hub_arrivals_ = 0;
  for (Ring<Departure>& departures : departures_) departures.clear();
  serve_at_ = kNever;
  blocked_ = nullptr;
  port_free_ = memory_free_ = last_departure_ = 0;
  for (const Transfer& transfer : transfers_) {
    if (transfer.payload == nullptr) continue;
    // An attached memory is not reset. Our own is, and keeps a reference of its own as long as it looks at it.
    if (transfer.answered || direct_ != nullptr) {
      transfer.payload->release();
    } else {
      stale_.push_back(transfer.payload);
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

bool L2Slice::poisoned(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t next = std::min(end, arch::line_of(at) + arch::kLineBytes);
    const LineMask range =
        LineMask::range(static_cast<std::uint32_t>(at % arch::kLineBytes), static_cast<std::uint32_t>(next - at));
    if (core_.poisoned(at / arch::kLineBytes, range.touched())) return true;
    at = next;
  }
  return false;
}

void L2Slice::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kServe:
      if (serve_at_ != now()) break;  // an earlier one has taken its place
      serve_at_ = kNever;
      serve_next();
      break;
    case kAnswer:
      take_answer(static_cast<std::uint32_t>(argument));
      break;
    case kRespond:
      send_responses(static_cast<std::uint32_t>(argument));
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
  const tlm::tlm_generic_payload& payload = arrivals_.front().guest.payload();
  if (ahead == Ahead::far) {
    protocol::prefetch(payload);
  } else if (ahead == Ahead::near) {
    core_.prefetch_tags(payload.get_address() / arch::kLineBytes);
  } else if (ahead == Ahead::next) {
    core_.prefetch_line(payload.get_address() / arch::kLineBytes);
  }
}

bool L2Slice::on_request(tlm::tlm_generic_payload& payload, std::uint32_t way, Cycle arrival) {
  const Arrival arrived{Guest(payload, way), arrival + params_.tag_latency};
  // Arrivals may be announced ahead of time, so that one from the other way can come first.
  arrivals_.insert(arrived, [](const Arrival& before, const Arrival& item) { return before.ready > item.ready; });
  hub_arrivals_ += way;
  // What memory blocks goes on when that has answered.
  if (arrived.ready < serve_at_ && (blocked_ == nullptr || !blocked_on_memory_)) expect_service();
  return waiting(way) < params_.queue;
}

void L2Slice::expect_service() { schedule_service(std::max({arrivals_.front().ready, port_free_, now()})); }

void L2Slice::schedule_service(Cycle when) {
  if (when >= serve_at_) return;
  serve_at_ = when;
  domain_.schedule(when, *this, kServe);
}

// What is still on its way through the data pipeline needs no other place.
bool L2Slice::cannot_respond(std::uint32_t way) const {
  const Ring<Departure>& departures = departures_[way];
  return departures.size() >= params_.responses && departures.at(params_.responses - 1).when <= now();
}

// The first arrival cannot be served because its way does not take responses. The other way's first does not wait for
// that: it becomes the first of all, if its time has come and it can be answered.
bool L2Slice::put_other_first() {
  const std::uint32_t other = 1 - arrivals_.front().guest.way();
  if (waiting(other) == 0 || cannot_respond(other)) return false;
  std::size_t place = 1;
  while (arrivals_.at(place).guest.way() != other) ++place;
  const Arrival chosen = arrivals_.at(place);
  if (chosen.ready > now()) {
    schedule_service(chosen.ready);
    return false;
  }
  for (; place > 0; --place) arrivals_.at(place) = arrivals_.at(place - 1);
  arrivals_.front() = chosen;
  return true;
}

// One event per request: it takes effect here, and its response leaves with the delay of the data pipeline.
void L2Slice::serve_next() {
  if (port_free_ > now()) {  // taken by requests that memory has answered in the meantime
    schedule_service(port_free_);
    return;
  }
  if (cannot_respond(arrivals_.front().guest.way()) && !put_other_first()) {
    block("for its responses to be taken by", false);
    return;
  }
  const Guest guest = arrivals_.front().guest;
  L2Access access;
  const tlm::tlm_response_status status = decode(guest.payload(), map_, access);
  L2Core::Outcome outcome = L2Core::Outcome::done;
  if (status == tlm::TLM_OK_RESPONSE) {
    if (direct_ != nullptr && direct_->any()) end_grant(access);
    outcome = core_.serve(access, guest.handle());
  }
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
  hub_arrivals_ -= guest.way();
  if (status == tlm::TLM_OK_RESPONSE && changes_values(access.kind)) atomics_.add(values_of(access));
  if (outcome == L2Core::Outcome::done) {
    respond(guest, status, take_port(status == tlm::TLM_OK_RESPONSE ? cycles_of(access) : 1));
  } else {
    take_port(1);
  }
  if (!arrivals_.empty()) expect_service();
  MemoryIn& in = way_in(guest.way());
  if (in.withholding() && waiting(guest.way()) < params_.queue) in.accept(now());
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
  if (blocked_ != nullptr && serve_at_ == kNever) serve_next();
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

// Responses of one way leave in the order of their turns at the data port.
void L2Slice::respond(const Guest& guest, tlm::tlm_response_status status, Cycle served) {
  guest.payload().set_response_status(status);
  const Departure departure{guest, served + params_.data_latency};
  Ring<Departure>& departures = departures_[guest.way()];
  if (departures.empty() && way_in(guest.way()).can_respond()) {
    deliver(departure);
  } else {
    departures.push(departure);
  }
}

void L2Slice::deliver(const Departure& departure) {
  last_departure_ = std::max({last_departure_, departure.when, now()});
  way_in(departure.guest.way()).respond(departure.guest.payload(), last_departure_);
}

void L2Slice::send_responses(std::uint32_t way) {
  Ring<Departure>& departures = departures_[way];
  while (!departures.empty() && way_in(way).can_respond()) deliver(departures.pop());
}

void L2Slice::on_response_room(std::uint32_t way, Cycle when) {
  if (!departures_[way].empty()) domain_.schedule(std::max(when, now()), *this, kRespond, way);
}

std::string L2Slice::memory_name() const { return "the memory of " + path(); }

void L2Slice::collect_waits(WaitGraph& graph) const {
  if (blocked_ != nullptr && blocked_on_memory_) graph.add(path(), blocked_, memory_name());
  if (!departures_[kCrossbar].empty()) graph.add(path(), "for its responses to be taken by", "the crossbar");
  if (!departures_[kHub].empty()) graph.add(path(), "for its responses to be taken by", "the memory hub");
  if (core_.fetching() > 0) graph.add(path(), "for sectors from", memory_name());
  if (core_.writing_back() > 0) graph.add(path(), "for write-backs to be acknowledged by", memory_name());
}

}  // namespace heddle::memory
