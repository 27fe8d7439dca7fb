#include "memory/l2_slice.h"

#include <algorithm>
#include <cmath>

#include "arch/gpu_observation.h"
#include "common/bits.h"

namespace heddle::memory {
namespace {

L2Config config_of(const L2Params& params, const arch::AddressMap& map, std::uint32_t slice,
                   const SliceSurroundings& surroundings) {
  HEDDLE_CHECK(map.bytes() / arch::kLineBytes < ~std::uint32_t{0} && map.bytes() % arch::kSectorBytes == 0,
               "the L2 works for up to 512 GiB of memory, in whole sectors");
  L2Config config;
  config.lines = params.lines_per_slice();
  config.ways = params.ways;
  config.slices = map.slices();
  // Copies have as many of their own again.
  config.mshrs = params.mshrs * (map.copies() ? 2 : 1);
  config.mshr_targets = params.waiters * (map.copies() ? 2 : 1);
  config.write_buffer = params.write_buffer;
  config.eager_ways = params.eager_ways;
  config.map = &map;
  config.slice = slice;
  config.copies = map.copies();
  config.row_lines = surroundings.row_lines;
  config.presence = surroundings.presence;
  config.fetch_sectors = params.fetch_bytes / arch::kSectorBytes;
  return config;
}

const char* reason_of(const L2Core& core, const L2Twin* twin) {
  if (twin != nullptr && twin->reason() != nullptr) return twin->reason();
  switch (core.stall()) {
    case L2Core::Stall::mshr:
      return "for a miss-status register, held by fetches from";
    case L2Core::Stall::mshr_target:
      return "for room among the requests that wait for";
    case L2Core::Stall::way:
      return "for a way of its set, all of which are fetched from";
    case L2Core::Stall::write_buffer:
      break;
  }
  return "for room in the write buffer, on its way to";
}

// What comes by the hub is no request of a kernel of this machine: other GPUs have numbers of their own.
void disown(tlm::tlm_generic_payload& payload) {
  if (protocol::MemoryExtension* extension = protocol::extension_of(payload)) extension->kernel = 0;
}

// Sectors of a line that bytes of it touch.
std::uint32_t sectors_of(std::uint64_t address, std::uint64_t bytes) {
  return LineMask::range(static_cast<std::uint32_t>(address % arch::kLineBytes), static_cast<std::uint32_t>(bytes))
      .touched();
}

}  // namespace

L2Slice::L2Slice(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const L2Params& params,
                 const arch::AddressMap& map, std::uint32_t slice, L2IngressPorts ports,
                 const SliceSurroundings& surroundings)
    : Block(name, domain, path),
      request_in("request_in", domain),
      memory_out("memory_out", domain),
      map_(map),
      params_(params),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      core_counters_(domain.observation().stats, domain.observation().prefix + "." + path),
      core_(config_of(params, map_, slice, surroundings), core_counters_),
      memory_(this->name(), domain, memory_out, params, *this),
      functional_(core_, memory_, map, slice, params, domain, surroundings.direct, surroundings.watch,
                  {stats_.requests, stats_.atomics, core_counters_}),
      past_(memory_out, map_, params, surroundings.presence, surroundings.watch, {stats_.requests, core_counters_}),
      ingress_(params.queue, params.responses),
      data_port_(params),
      arrivals_(surroundings.shares, core_counters_),
      direct_(surroundings.direct),
      presence_(surroundings.presence),
      warmer_(arrivals_, core_.array(), kServe) {
  core_counters_.owners = surroundings.owners;
  core_counters_.kernels = kernel_account(domain);
  core_counters_.slice = slice;
  warm_by(warmer_);
  HEDDLE_CHECK(slice < map.slices(), "an L2 slice has a number that the address map does not know");
  const auto listen = [this](MemoryIn& in, std::uint32_t port) {
    in.connect<L2Slice, &L2Slice::on_request, &L2Slice::on_response_room, &L2Slice::on_blocking, &L2Slice::on_debug>(
        *this, port);
    in.offer_lines(functional_, port);
    ingress_.connect(port, in);
  };
  listen(request_in, L2Ingress::kCrossbar);
  if (ports == L2IngressPorts::crossbar_and_hub) {
    hub_in_ = std::make_unique<MemoryIn>("hub_in", domain);
    listen(*hub_in_, L2Ingress::kHub);
    if (presence_ != nullptr) hub_in_->offer_ranges(past_, L2Ingress::kHub);
  }
  if (!map.copies()) return;
  twin_ = std::make_unique<L2Twin>(this->name(), domain, domain.observation().prefix + "." + path, params,
                                   surroundings.twin, map_, slice, core_, ingress_,
                                   static_cast<L2MemoryPort::Listener&>(*this));
  listen(twin_->in, L2Ingress::kTwin);
  functional_.use(*twin_);
}

L2Slice::~L2Slice() = default;

MemoryIn& L2Slice::hub_in() {
  HEDDLE_CHECK(hub_in_ != nullptr, "an L2 slice was built without a way for the memory hub");
  return *hub_in_;
}

L2Twin& L2Slice::twin() {
  HEDDLE_CHECK(twin_ != nullptr, "an L2 slice was built without a twin");
  return *twin_;
}

void L2Slice::reset() {
  core_.reset();
  memory_.reset(direct_ != nullptr);
  ingress_.reset();
  functional_.reset();
  data_port_.reset();
  arrivals_.reset();
  if (twin_ != nullptr) twin_->reset();
  serve_at_ = kNever;
  blocked_ = {};
}

void L2Slice::poison(std::uint64_t address, std::uint64_t bytes) {
  HEDDLE_CHECK(bytes > 0 && map_.contains(address, bytes), "bytes outside memory cannot become corrupt");
  if (presence_ != nullptr) presence_->note_poison();
  if (direct_ != nullptr) direct_->end(address, bytes);  // through a pointer nobody would be told
  for_each_block(address, bytes, arch::kLineBytes, [this](std::uint64_t at, std::uint64_t count) {
    if (!functional_.is_mine(at / arch::kLineBytes)) return;
    core_.poison(at / arch::kLineBytes, sectors_of(at, count));
    if (twin_ != nullptr) twin_->take_away_now(at / arch::kLineBytes);
  });
}

bool L2Slice::idle() const {
  return arrivals_.empty() && !ingress_.has_responses() && (twin_ == nullptr || twin_->idle());
}

bool L2Slice::busy_with(std::uint64_t first, std::uint64_t last) const {
  return arrivals_.touches(first / arch::kLineBytes, last / arch::kLineBytes) || functional_.busy_with(first, last);
}

bool L2Slice::clean_invalidate(std::uint64_t first, std::uint64_t last) {
  return functional_.clean_invalidate(first, last);
}

void L2Slice::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kServe:
      if (serve_at_ != now()) break;  // an earlier one has taken its place
      serve_at_ = kNever;
      serve_next();
      break;
    case kRespond:
      ingress_.send_responses(static_cast<std::uint32_t>(argument), now());
      unblock();
      break;
    default:
      drain();
      break;
  }
}

bool L2Slice::on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  if (port == L2Ingress::kHub) disown(payload);
  const L2Arrivals::Arrival arrived{PendingRequest(payload, port), arrival + params_.tag_latency};
  arrivals_.enter(arrived);
  const bool room = ingress_.enter(port);
  if (arrivals_.lanes() != nullptr) {
    schedule_service(std::max({arrived.ready, data_port_.free_at(), now()}));
  } else if (arrived.ready < serve_at_ && (blocked_.reason == nullptr || !blocked_.on_memory)) {
    expect_service();  // what memory blocks goes on when that has answered
  } else if (port == L2Ingress::kTwin && arrived.ready < serve_at_) {
    schedule_service(std::max({arrived.ready, data_port_.free_at(), now()}));  // and a request of the twin at once
  }
  return room;
}

void L2Slice::expect_service() {
  // In lanes, a round finds out who is ready.
  const Cycle ready = arrivals_.lanes() == nullptr ? arrivals_.front().ready : now();
  schedule_service(std::max({ready, data_port_.free_at(), now()}));
}

void L2Slice::schedule_service(Cycle when) {
  if (when >= serve_at_) return;
  serve_at_ = when;
  domain_.schedule(when, *this, kServe);
}

// The first arrival cannot be served. The first one of another port does not wait for that: it becomes the first of
// all, if its time has come and it can be answered.
bool L2Slice::put_first(std::uint32_t port) {
  if (arrivals_.front().request.port() == port || ingress_.waiting(port) == 0 || ingress_.blocked(port, now())) {
    return false;
  }
  const Cycle ready = arrivals_.first_of(port);
  if (ready > now()) {
    schedule_service(ready);
    return false;
  }
  arrivals_.put_first(port);
  return true;
}

// One event per request: it takes effect here, and its response leaves with the delay of the data pipeline.
void L2Slice::serve_next() {
  if (data_port_.free_at() > now()) {  // taken by requests that memory has answered in the meantime
    schedule_service(data_port_.free_at());
    return;
  }
  if (L2Lanes* lanes = arrivals_.lanes()) return serve_by_share(*lanes);
  if (arrivals_.empty()) return;
  const bool answers = ingress_.blocked(arrivals_.front().request.port(), now());
  if (answers && !put_first(L2Ingress::kTwin) && !put_first(L2Ingress::kHub) && !put_first(L2Ingress::kCrossbar)) {
    block("for its responses to be taken by", false);
    return;
  }
  if (try_serve(arrivals_.front().request)) return;
  const char* reason = reason_of(core_, twin_.get());
  // What the twin asks for may be what this waits for, in the end.
  if (put_first(L2Ingress::kTwin) && try_serve(arrivals_.front().request)) return;
  block(reason, true);
}

// The first of those whose turn it is by the shares, and that neither its port nor memory holds up.
void L2Slice::serve_by_share(L2Lanes& lanes) {
  std::uint32_t ports = 0;
  for (std::uint32_t port = 0; port < L2Ingress::kPorts; ++port) {
    if (!ingress_.blocked(port, now())) ports |= 1U << port;
  }
  lanes.begin_round(now(), ports, [this](void* handle) {
    L2Access access;
    if (decode(PendingRequest(handle).payload(), map_, access) != tlm::TLM_OK_RESPONSE) return L2Lanes::Cost();
    L2Lanes::Cost cost;
    if (twin_ == nullptr || !twin_->foreign(access.line)) cost = cost_of(core_, access);
    const L2DataPort::Turn turn = data_port_.turn_of(access);
    cost.port_cycles = static_cast<std::uint32_t>(std::max(static_cast<double>(turn.port), std::ceil(turn.writing)));
    return cost;
  });
  const char* reason = nullptr;
  while (const auto lane = lanes.choose()) {
    if (try_serve(PendingRequest(lanes.front(*lane).handle))) return;
    reason = reason_of(core_, twin_.get());
    // Each set has ways of its own, and copies what they wait for.
    lanes.stall((twin_ == nullptr || twin_->reason() == nullptr) && core_.stall() != L2Core::Stall::way);
  }
  if (lanes.again() != kNever) schedule_service(std::max(lanes.again(), now() + 1));
  if (lanes.empty() || (reason == nullptr && ports == (1U << L2Ingress::kPorts) - 1))
    return;  // nothing is ready, or has bandwidth left
  block(reason != nullptr ? reason : "for its responses to be taken by", reason != nullptr);
}

// False: the request waits for memory to answer others.
bool L2Slice::try_serve(const PendingRequest& request) {
  L2Access access;
  tlm::tlm_response_status status = decode(request.payload(), map_, access);
  // Of corrupt data nobody has a copy: who asks for them is told.
  if (access.copies() && core_.poisoned(access.line, kAllSectors)) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  const bool good = status == tlm::TLM_OK_RESPONSE;
  L2Core::Outcome outcome = L2Core::Outcome::done;
  if (good) {
    end_grant(direct_, access);
    functional_.note_watch(access);
    outcome = twin_ != nullptr ? twin_->serve(access, request) : core_.serve(access, request.handle());
  }
  if (outcome == L2Core::Outcome::stalled) return false;
  if (blocked_.reason != nullptr) {
    stats_.stalls.add(now() - blocked_.since);
    blocked_.reason = nullptr;
  }
  stats_.requests.add();
  if (twin_ == nullptr || twin_->counts(access)) core_counters_.count_request(access, good);
  arrivals_.leave();
  ingress_.leave(request.port());
  const bool here = twin_ == nullptr || !twin_->foreign(access.line);
  if (good && here && changes_values(access.kind)) {
    stats_.atomics.add(values_of(access));
    core_counters_.charge_atomic(access, params_.atomic_rate);
  }
  if (outcome == L2Core::Outcome::done) {
    respond({request.handle(), status, access}, good ? data_port_.turn_of(access) : L2DataPort::Turn(),
            params_.data_latency);
  } else {
    data_port_.take(now(), {});
  }
  if (!arrivals_.empty()) expect_service();
  ingress_.accept(request.port(), now());
  send_commands();
  return true;
}

void L2Slice::block(const char* reason, bool on_memory) {
  blocked_ = {reason, on_memory, blocked_.reason == nullptr ? now() : blocked_.since};
}

void L2Slice::unblock() {
  // In lanes, others may go on, or be waited for, while this one is blocked.
  if (blocked_.reason != nullptr && (serve_at_ == kNever || arrivals_.lanes() != nullptr)) serve_next();
}

// The response takes its turn at the data port, and leaves behind the pipeline.
void L2Slice::respond(const L2Served& served, const L2DataPort::Turn& turn, Cycle pipeline) {
  const PendingRequest request(served.request);
  request.payload().set_response_status(static_cast<tlm::tlm_response_status>(served.status));
  Cycle when = data_port_.take(now(), turn) + turn.walk + pipeline;
  if (twin_ != nullptr) when = twin_->departure(served.access, request, when);
  if (when != kNever) ingress_.respond(request, when, now());
}

void L2Slice::on_response_room(std::uint32_t port, Cycle when) {
  if (ingress_.has_responses(port)) domain_.schedule(std::max(when, now()), *this, kRespond, port);
}

void L2Slice::send_commands() {
  while (core_.commands() > 0 && memory_.can_send()) {
    const L2Command command = core_.take_command();
    if (twin_ != nullptr && twin_->foreign(command.line)) {
      twin_->way.fetch(command);
    } else {
      memory_.send(command, command.is_write() ? core_.write_data(command) : nullptr);
    }
  }
}

void L2Slice::on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) {
  core_.answer(command, status, data);
  answer_served();
  if (twin_ != nullptr) twin_->settle();
  unblock();
  send_commands();
}

// Requests that have waited take their turns at the data port like any other.
void L2Slice::answer_served() {
  std::vector<L2Served>& served = core_.served();
  for (std::size_t i = 0; i < served.size(); ++i) {  // may grow
    const L2Served item = served[i];
    const bool good = item.status == kL2Ok;
    const bool came = twin_ != nullptr && twin_->foreign(item.access.line);  // and goes on as it comes
    if (came && !good && twin_->asks_home(item.access, PendingRequest(item.request))) continue;
    respond(item, good ? data_port_.turn_of(item.access) : L2DataPort::Turn(), came ? 0 : params_.data_latency);
  }
  served.clear();
}

// What has been left behind while memory took nothing, or by a blocking access.
void L2Slice::drain() {
  answer_served();
  send_commands();
  unblock();
}

void L2Slice::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) {
  if (port == L2Ingress::kHub) disown(payload);
  if (!functional_.blocking(payload, port, delay)) return;
  // Requests that are no calls may be under way at the same time.
  if (core_.commands() > 0 || !core_.served().empty()) domain_.schedule(now(), *this, kDrain);
}

unsigned L2Slice::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t port) {
  return port == L2Ingress::kTwin ? twin_->on_debug(payload) : functional_.debug(payload);
}

void L2Slice::collect_waits(WaitGraph& graph) const {
  const std::string memory = "the memory of " + path();
  if (blocked_.reason != nullptr && blocked_.on_memory) graph.add(path(), blocked_.reason, memory);
  if (ingress_.has_responses(L2Ingress::kCrossbar)) {
    graph.add(path(), "for its responses to be taken by", "the crossbar");
  }
  if (ingress_.has_responses(L2Ingress::kHub)) {
    graph.add(path(), "for its responses to be taken by", "the memory hub");
  }
  if (core_.mshrs().in_use() > 0) graph.add(path(), "for sectors from", memory);
  if (twin_ != nullptr && !twin_->idle()) graph.add(path(), "for answers of", "the twin of " + path());
  if (!core_.write_buffer().empty()) graph.add(path(), "for write-backs to be acknowledged by", memory);
}

}  // namespace heddle::memory
