#include "memory/hbm.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/bits.h"
#include "common/storage_access.h"
#include "memory/owner_accounts.h"

namespace heddle::memory {

namespace {

HbmMap map_of(const HbmParams& params, std::uint64_t bytes, std::uint32_t slices, const arch::Instances& instances) {
  params.check();
  const HbmTable& table = table_of(params.standard);
  HbmMap map(params.channels, table.groups * table.banks_per_group, table.row_bytes, params.interleave);
  if (params.channels_of == HbmChannelsOf::slices) {
    map.belong_to(arch::AddressMap(bytes, slices, 1, instances));
    return map;
  }
  for (std::uint32_t i = 0; i < instances.count(); ++i) {
    map.add_part(instances.base(i), instances.base(i + 1), instances.channels_of(i, slices, params.channels));
  }
  return map;
}

}  // namespace

Hbm::Hbm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HbmParams& params,
         std::uint64_t bytes, std::uint32_t ports, const arch::BandwidthTable* shares, const arch::Instances& instances)
    : Block(name, domain, path),
      storage_(bytes),
      direct_(storage_),
      map_(map_of(params, bytes, ports, instances)),
      timing_(params, domain.clock().ns_for_cycles(1)),
      counters_(domain.observation().stats, domain.observation().prefix + "." + path),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      request_cycles_(domain.clock().cycles_for_ns(params.request_latency)),
      response_cycles_(domain.clock().cycles_for_ns(params.response_latency)),
      access_cycles_(timing_.access / kTicksPerCycle),
      calls_(map_, timing_, request_cycles_, response_cycles_),
      port_requests_(params.port_requests),
      ports_(ports) {
  for (std::uint32_t port = 0; port < ports; ++port) {
    ports_[port].in = std::make_unique<MemoryIn>(fmt::format("in{}", port).c_str(), domain);
    ports_[port].in->connect<Hbm, &Hbm::on_request, &Hbm::on_room, &Hbm::on_blocking, &Hbm::on_debug>(*this, port);
    ports_[port].in->offer_lines(*this, port);
    if (heddle::has_calls(domain.mode())) ports_[port].in->offer_ranges(*this, port);
  }
  const HbmQueues queues{params.read_queue, params.write_queue, params.write_high,
                         params.write_low,  params.row_hit_cap, params.shared_streak};
  channels_.reserve(params.channels);
  for (std::uint32_t channel = 0; channel < params.channels; ++channel) {
    // Channels refresh one after the other, not all at once.
    const HbmTick first = timing_.refi * (channel + 1) / params.channels;
    channels_.emplace_back(HbmChannel(timing_, queues, counters_, first), shares);
    if (domain.mode() == TimingMode::fast) calls_.add(queues, counters_, first);
  }
}

Hbm::~Hbm() = default;

double Hbm::peak() const {
  const double per_access = static_cast<double>(timing_.access) / static_cast<double>(kTicksPerCycle);
  return timing_.access_bytes / (per_access * domain_.clock().period().to_seconds()) * map_.channels();
}

bool Hbm::on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  arrival = std::max(arrival, now());
  if (direct_.any()) direct_.end(payload.get_address(), payload.get_data_length());
  const bool good = access(storage_, payload);
  count(payload, good);
  const std::uint32_t flight = new_flight(payload, port, arrival);
  if (good) split(flight, arrival + request_cycles_);
  if (flights_[flight].parts == 0)
    domain_.schedule(arrival + request_cycles_ + response_cycles_, *this, kAnswer, flight);
  return ports_[port].flights < port_requests_;
}

void Hbm::count(const tlm::tlm_generic_payload& payload, bool good) {
  if (!good) return stats_.errors.add();
  (payload.is_read() ? stats_.reads : stats_.writes).add();
  (payload.is_read() ? stats_.read_bytes : stats_.written_bytes).add(payload.get_data_length());
}

std::uint32_t Hbm::new_flight(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  if (payload.has_mm()) payload.acquire();
  const std::uint32_t flight = flights_.take();
  flights_[flight] = {&payload, arrival, port, 0};
  ++ports_[port].flights;
  return flight;
}

// Into the parts that lie in one line each. Of a streamed request, the range counts once.
void Hbm::split(std::uint32_t flight, Cycle when) {
  tlm::tlm_generic_payload& payload = *flights_[flight].payload;
  const std::uint64_t begin = payload.get_address();
  const std::uint64_t end = begin + std::min(payload.get_data_length(), payload.get_streaming_width());
  for (std::uint64_t line = begin / HbmMap::kLineBytes * HbmMap::kLineBytes; line < end; line += HbmMap::kLineBytes) {
    HbmAccess access;
    find_sectors(payload, line, begin, end, access);
    if (access.sectors == 0) continue;  // all disabled
    const DecodedAddress decoded = map_.decode(line);
    access.line = decoded.line;
    access.row = decoded.row;
    access.bank = static_cast<std::uint8_t>(decoded.bank);
    access.tag = flight;
    ++flights_[flight].parts;
    Channel& channel = channels_[decoded.channel];
    channel.sectors += bits::count(access.sectors);
    if (channel.shared()) channel.give_turn(access, payload);
    channel.arrivals[payload.is_write()].insert(
        {when, access}, [](const Arrival& before, const Arrival& item) { return before.when > item.when; });
    arm(decoded.channel, when);
  }
}

void Hbm::Channel::give_turn(HbmAccess& access, tlm::tlm_generic_payload& payload) {
  if (clock == nullptr) clock = std::make_unique<FairClock>(*shares);
  clock->advance(std::max<std::uint64_t>(core.turn(), 1));
  const std::uint8_t owner = owner_of(protocol::extension_of(payload));
  access.turn = clock->tag(owner);
  clock->charge(owner, bits::count(access.sectors));
}

HbmAccess Hbm::Channel::take_arrival(bool write, Cycle now) {
  Ring<Arrival>& waiting = arrivals[write];
  std::size_t best = 0;
  for (std::size_t i = 1; shared() && i < waiting.size() && waiting.at(i).when <= now; ++i) {
    if (waiting.at(i).access.turn < waiting.at(best).access.turn) best = i;
  }
  const HbmAccess access = waiting.at(best).access;
  for (; best > 0; --best) waiting.at(best) = waiting.at(best - 1);
  waiting.pop();
  return access;
}

void Hbm::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
  if (direct_.any()) direct_.end(payload.get_address(), payload.get_data_length());
  const bool good = access(storage_, payload);
  count(payload, good);
  const Cycle arrival = std::max(domain_.cycle_after(delay), now());
  const Cycle answer = calls_.serve(payload, good, arrival);
  if (good && payload.is_read()) stats_.read_latency.add(answer - arrival);
  delay = domain_.delay_until(answer);
}

bool Hbm::find(LineRead& read, std::uint32_t) {
  return storage_.contains(read.physical_address, HbmMap::kLineBytes) && !direct_.any();
}

void Hbm::take(LineRead& read, std::uint32_t) {
  const Cycle arrival = read.when;
  stats_.reads.add();
  stats_.read_bytes.add(std::uint64_t{bits::count4(read.sectors)} * arch::kSectorBytes);
  read.when = calls_.read_line(read.physical_address, read.sectors, arrival);
  stats_.read_latency.add(read.when - arrival);
  read.bytes = storage_.look(read.physical_address);
}

void Hbm::warm(LineRead& read, std::uint32_t, bool line) const {
  if (!line || !storage_.contains(read.physical_address, HbmMap::kLineBytes)) return;
  const std::uint8_t* bytes = storage_.look(read.physical_address);
  warm_line(bytes);
  warm_line(bytes + HbmMap::kLineBytes / 2);
}

// Lines that no page holds are zeros, and stay without a page.
bool Hbm::move(RangeMove& range, std::uint32_t) {
  if (!storage_.contains(range.address, range.bytes)) return false;
  if (direct_.any()) direct_.end(range.address, range.bytes);
  if (!range.write) {
    range.zeros = storage_.untouched(range.address, range.bytes);
    if (!range.zeros) storage_.read(range.address, range.data, range.bytes);
  } else if (range.zeros) {
    storage_.fill(range.address, 0, range.bytes);
  } else {
    storage_.write(range.address, range.data, range.bytes);
  }
  const std::uint64_t lines = range.bytes / HbmMap::kLineBytes;
  (range.write ? stats_.writes : stats_.reads).add(lines);
  (range.write ? stats_.written_bytes : stats_.read_bytes).add(range.bytes);
  const Cycle arrival = range.first;
  calls_.serve(range);
  if (!range.write) stats_.read_latency.add(range.first - arrival, lines);
  return true;
}

unsigned Hbm::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) { return debug_access(storage_, payload); }

void Hbm::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (kind == kAnswer) return respond(index);
  // An event that an earlier one made useless.
  if (channels_[index].armed > now()) return;
  run_channel(index);
}

void Hbm::run_channel(std::uint32_t index) {
  Channel& channel = channels_[index];
  channel.armed = kNever;
  const HbmTick begin = now() * kTicksPerCycle;
  HbmTick next = kNoTick;
  admit(channel);
  do {
    done_.clear();
    next = channel.core.advance(begin, begin + kTicksPerCycle, done_);
    for (const HbmDone& done : done_) {
      const Cycle end = (done.when + kTicksPerCycle - 1) / kTicksPerCycle;
      channel.from_banks.push({end + response_cycles_, done.tag});
    }
  } while (admit(channel));
  answer(channel);
  arm(index, next_of(channel, next));
}

// From the way into the queues, as far as there is room. True if the banks have something new to do.
bool Hbm::admit(Channel& channel) {
  bool queued = false;
  for (const bool write : {false, true}) {
    Ring<Arrival>& arrivals = channel.arrivals[write];
    while (!arrivals.empty() && arrivals.front().when <= now() && channel.core.has_room(write)) {
      const HbmAccess access = channel.take_arrival(write, now());
      (write ? stats_.write_queue : stats_.read_queue).add(channel.core.waiting(write));
      const HbmChannel::Entered entered = channel.core.enter(write, access);
      queued = queued || entered == HbmChannel::Entered::queued;
      if (write || entered == HbmChannel::Entered::forwarded)
        channel.from_controller.push({now() + response_cycles_, access.tag});
    }
  }
  return queued;
}

void Hbm::answer(Channel& channel) {
  for (Ring<Answer>* answers : {&channel.from_banks, &channel.from_controller}) {
    while (!answers->empty() && answers->front().when <= now()) {
      const std::uint32_t flight = answers->front().flight;
      answers->pop();
      if (--flights_[flight].parts == 0) respond(flight);
    }
  }
}

Cycle Hbm::next_of(const Channel& channel, HbmTick next_command) const {
  const Cycle command = next_command == kNoTick ? kNever : next_command / kTicksPerCycle;
  Cycle next = command;
  for (const Ring<Arrival>& arrivals : channel.arrivals) {
    // One whose time has come waits for room, which a command makes. One that comes while the bus is busy is looked at
    // when that has its next place.
    if (arrivals.empty() || arrivals.front().when <= now()) continue;
    const Cycle when = arrivals.front().when;
    if (command == kNever || command > when + access_cycles_) next = std::min(next, when);
  }
  for (const Ring<Answer>* answers : {&channel.from_banks, &channel.from_controller})
    if (!answers->empty()) next = std::min(next, answers->front().when);
  return next;
}

void Hbm::arm(std::uint32_t index, Cycle when) {
  Channel& channel = channels_[index];
  if (when >= channel.armed) return;
  channel.armed = when;
  domain_.schedule(when, *this, kChannel, index);
}

void Hbm::respond(std::uint32_t flight) {
  Port& port = ports_[flights_[flight].port];
  if (!port.ready.empty() || !port.in->can_respond()) return port.ready.push(flight);
  send(flight, now());
}

void Hbm::send(std::uint32_t flight, Cycle when) {
  const Flight done = flights_[flight];
  flights_.give_back(flight);
  Port& port = ports_[done.port];
  --port.flights;
  if (done.payload->is_read() && done.payload->is_response_ok()) stats_.read_latency.add(when - done.arrival);
  (void)port.in->respond(*done.payload, when);  // if it is not taken, on_room() will be called
  if (done.payload->has_mm()) done.payload->release();
  if (port.in->withholding() && port.flights < port_requests_) port.in->accept(when);
}

void Hbm::on_room(std::uint32_t index, Cycle when) {
  Port& port = ports_[index];
  while (!port.ready.empty() && port.in->can_respond()) {
    const std::uint32_t flight = port.ready.front();
    port.ready.pop();
    send(flight, std::max(when, now()));
  }
}

void Hbm::reset() {
  flights_.for_each([](Flight& flight) {
    if (flight.payload->has_mm()) flight.payload->release();
  });
  flights_.clear();
  for (Port& port : ports_) {
    port.flights = 0;
    port.ready.clear();
  }
  for (Channel& channel : channels_) {
    channel.core.reset();
    channel.armed = kNever;
    for (Ring<Arrival>& arrivals : channel.arrivals) arrivals.clear();
    channel.from_banks.clear();
    channel.from_controller.clear();
    channel.sectors = 0;
    channel.clock.reset();
  }
  calls_.reset();
}

void Hbm::collect_waits(WaitGraph& graph) const {
  for (const Port& port : ports_) {
    if (port.in->withholding())
      graph.add(port.in->name(), fmt::format("all its {} places for requests are taken", port_requests_), name());
    if (!port.ready.empty() || !port.in->can_respond())
      graph.add(name(), "the initiator has not taken the last response", port.in->name());
  }
}

}  // namespace heddle::memory
