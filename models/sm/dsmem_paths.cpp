#include "sm/dsmem_paths.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/bits.h"
#include "protocol/memory_request.h"
#include "sm/lane_data.h"

namespace heddle::sm {

using arch::DsmemStatus;
using arch::Operation;
using protocol::DsmemPacket;

std::uint64_t DsmemFlights::all() const { return std::accumulate(of_cga_.begin(), of_cga_.end(), std::uint64_t{0}); }

void DsmemFlights::reset() {
  std::fill(of_cta_.begin(), of_cta_.end(), 0);
  of_cga_.fill(0);
}

DsmemClient::DsmemClient(Timebase& time, const MemoryParams& params, const SmContext& place, SharedMemory& shared,
                         const ClusterTables& tables, IssuePort& port, RequestGate& gate, FenceTracker& fences,
                         AccessTable& accesses, DsmemFlights& flights, SmStats& stats, const Links& links)
    : time_(time),
      params_(params),
      place_(place),
      shared_(shared),
      tables_(tables),
      port_(port),
      gate_(gate),
      fences_(fences),
      accesses_(accesses),
      flights_(flights),
      stats_(stats),
      links_(links),
      pool_(std::make_unique<protocol::RequestPool>()) {}

DsmemClient::~DsmemClient() = default;

std::size_t DsmemClient::payloads() const { return pool_->in_use(); }

void DsmemClient::reset() {
  open_.for_each([](Open& open) { open.request->release(); });
  open_.clear();
  waiting_.clear();
  last_request_ = 0;
}

MemoryResult DsmemClient::access(const Operation& operation, std::uint32_t warp, Cycle now, AccessClient& client) {
  static thread_local LineAccesses lines;  // large, and needed by one SM at a time
  coalesce(operation.lanes, operation.address, lane_width(operation), lines);
  const Cycle port = port_.take_shared(now, std::max(1U, lines.count));
  if (lines.count == 0) return {port + params_.cluster_latency + params_.shared_latency, 0, false, false};
  const std::uint32_t index = accesses_.begin(operation, warp, lines.unit_stride, client, AccessUse::warp);
  accesses_[index].cluster = true;
  const bool posted = !accesses_[index].returns() && accesses_[index].wait == AccessWait::none;
  accesses_[index].posted = posted;
  Cycle ready = 0;
  Cycle turn = port;
  for (const LineAccess& line : lines) {
    const ClusterTables::Target target = tables_.find(warp, line.line, 1, now);
    HEDDLE_CHECK(target.found == ClusterTables::Found::ok, "a DSMEM access without a target");
    protocol::MemoryRequest& request = pool_->acquire();
    fill_dsmem(request, operation, line, lines.unit_stride);
    const bool own = !target.cga_id || target.sm == place_.in_gpc;
    if (own) {
      ready = std::max(ready, ask_own(index, line, target, request, turn));
    } else {
      ready = std::max(ready, turn + params_.cluster_latency);
      ask_other(index, line, target, request, turn + params_.cluster_latency);
    }
    ++turn;
  }
  Access& access = accesses_[index];
  access.last = std::max(access.last, ready);
  const bool lost = access.failed();
  const bool over = accesses_.close(index);
  if (posted) return {ready, 0, false, false};
  if (!over) return {kNever, 0, true, false};
  if (lost) return {kNever, ready, true, true};
  return {ready, 0, false, false};
}

// Over the own port, as the rest of the own shared memory. Gives the cycle in which the result is there.
Cycle DsmemClient::ask_own(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                           protocol::MemoryRequest& request, Cycle begin) {
  DsmemPacket packet;
  packet.request = &request;
  packet.cga_id = target.cga_id;
  packet.rank = target.rank;
  packet.sequence = target.sequence;
  const bool alone = !target.cga_id;
  const std::optional<std::uint32_t> window =
      alone ? std::optional(accesses_[access].cta) : tables_.match(*packet.cga_id, packet.rank);
  const DsmemResult result = serve_dsmem(shared_, window, request);
  packet.status = result.status;
  packet.offset = result.offset;
  // The line has had its cycle; lanes that met at a word take more.
  Cycle done = begin;
  if (result.cycles > 1) done = port_.take_past_queue(begin, result.cycles - 1) + result.cycles - 2;
  count_wavefronts(stats_, KernelAccount::kNobody, result.cycles);
  const Cycle seen = done + (result.signals || result.completes ? params_.mbarrier_latency : 0);
  tell_changes(links_.windows, window, request, result, seen);
  const Cycle ready = done + params_.cluster_latency + params_.shared_latency;
  answer(accesses_[access], line.lanes, line.sectors, packet, ready);
  request.release();
  return ready;
}

void DsmemClient::ask_other(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                            protocol::MemoryRequest& request, Cycle departure) {
  const std::uint32_t index = open_.take();
  gate_.request_begins();
  // Its answer is told ahead of its time: until then it keeps its place at the gate.
  const std::uint32_t place = has_calls(time_.mode()) ? gate_.calls().reserve(1, departure) : 0;
  open_[index] = {&request, fences_.begin(), accesses_.add_transaction(access, line), place};
  request.extension.entry = index;
  request.extension.sm = place_.id;
  flights_.begin(*target.cga_id, accesses_[access].cta);
  stats_.cluster_requests.add();
  DsmemPacket packet;
  packet.request = &request;
  packet.cga_id = target.cga_id;
  packet.rank = target.rank;
  packet.from_sm = place_.in_gpc;
  packet.to_sm = target.sm;
  packet.sequence = target.sequence;
  send(packet, departure);
}

void DsmemClient::send(const DsmemPacket& packet, Cycle departure) {
  last_request_ = std::max(last_request_, departure);
  if (waiting_.empty() && links_.requests.can_send()) {
    links_.requests.send_at(last_request_, packet);
  } else {
    waiting_.push_back({packet, last_request_});
    gate_.request_queued();
  }
  gate_.note_closed();
}

void DsmemClient::send_waiting() {
  const Cycle now = time_.now();
  while (!waiting_.empty() && links_.requests.can_send()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    gate_.request_sent();
    last_request_ = std::max({last_request_, next.earliest, now});
    links_.requests.send_at(std::max(next.earliest, now), next.packet);
  }
}

void DsmemClient::on_reply(const DsmemPacket& packet, Cycle arrival) {
  HEDDLE_CHECK(packet.to_sm == place_.in_gpc, "a DSMEM reply came to an SM that did not ask");
  tables_.check(*packet.cga_id, packet.sequence);
  if (packet.request->extension.bulk.any()) {
    flights_.end(*packet.cga_id, std::nullopt);
    sender_->send_answered(packet, arrival);
    links_.listener.dsmem_answered(*packet.cga_id, std::nullopt, arrival);
    return gate_.consider_opening(arrival);
  }
  const std::uint32_t index = packet.request->extension.entry;
  const Open open = open_[index];
  HEDDLE_CHECK(open.request == packet.request, "a DSMEM request was answered twice");
  open_.give_back(index);
  open_[index].request = nullptr;
  gate_.request_ends();
  if (has_calls(time_.mode())) gate_.calls().set(open.place, 0, arrival);
  fences_.end(open.epoch, arrival);
  const Transaction transaction = accesses_.transaction(open.transaction);
  Access& access = accesses_.access_of(transaction);
  const std::optional<std::uint32_t> cta = access.orphan() ? std::nullopt : std::optional(access.cta);
  flights_.end(*packet.cga_id, cta);
  answer(access, transaction.lanes, transaction.sectors, packet, arrival);
  accesses_.transaction_ended(open.transaction, transaction.sectors, arrival);
  packet.request->release();
  fences_.tell(open.epoch, arrival);
  links_.listener.dsmem_answered(*packet.cga_id, cta, arrival);
  gate_.consider_opening(arrival);
}

// What a reply does to one transaction of an access.
void DsmemClient::answer(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const DsmemPacket& reply,
                         Cycle when) {
  const protocol::MemoryRequest& request = *reply.request;
  if (reply.status == DsmemStatus::ok) {
    if (access.dead() || access.posted) return;
    const auto offset = static_cast<std::uint32_t>(request.get_address() % arch::kLineBytes);
    if (access.kind == AccessKind::load) {
      accesses_.deliver(access, lanes, sectors, request.data.data(), offset, when);
    } else if (access.kind == AccessKind::atomic) {
      put_old_values(request.extension, accesses_.registers_of(access));
    }
    return;
  }
  const bool tells = !access.dead() && !access.failed();
  access.fail(AccessFailure::refused);
  if (!tells) return;
  // The lowest lane that reaches the byte that was wrong.
  const auto line = static_cast<std::uint32_t>(arch::line_of(request.get_address()));
  std::uint32_t lowest = arch::kLineBytes;
  std::uint32_t wrong = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    const std::uint32_t offset = access.offset_of(lane);
    if (line + offset + access.width <= reply.offset || offset >= lowest) return;
    lowest = offset;
    wrong = lane;
  });
  const ClusterError error{reply.status,  reply.cga_id, reply.sequence, reply.rank,
                           line + lowest, wrong,        access.origin,  access.origin_rank};
  if (access.orphan()) {
    links_.errors.orphan_failed(error, when);
  } else {
    links_.errors.dsmem_failed(access, error, when);
  }
}

void DsmemClient::abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank) {
  accesses_.abandon(cta, index, rank);
  flights_.abandon(cta);
}

void DsmemServer::on_request(const DsmemPacket& packet, std::uint32_t) {
  HEDDLE_CHECK(packet.to_sm == place_.in_gpc, "a DSMEM request came to an SM that it was not for");
  tables_.check(*packet.cga_id, packet.sequence);
  protocol::MemoryRequest& request = *packet.request;
  const std::optional<std::uint32_t> window = tables_.match(*packet.cga_id, packet.rank);
  const DsmemResult result = serve_dsmem(shared_, window, request);
  const Cycle done = port_.take_past_queue(time_.now(), result.cycles) + result.cycles - 1;
  stats_.cluster_served.add();
  count_wavefronts(stats_, KernelAccount::kNobody, result.cycles);
  const Cycle seen = done + (result.signals || result.completes ? mbarrier_latency_ : 0);
  tell_changes(links_.windows, window, request, result, seen);
  DsmemPacket answer = packet;
  std::swap(answer.from_sm, answer.to_sm);
  answer.status = result.status;
  answer.offset = result.offset;
  const Cycle departure = done + shared_latency_;
  if (waiting_.empty() && links_.replies.can_send()) {
    reply(answer, departure);
  } else {
    waiting_.push_back({answer, departure});
  }
}

void DsmemServer::send_waiting() {
  const Cycle now = time_.now();
  while (!waiting_.empty() && links_.replies.can_send()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    reply(next.packet, std::max(next.earliest, now));
  }
}

// The place of the request is free once the reply has left.
void DsmemServer::reply(const DsmemPacket& answer, Cycle departure) {
  last_reply_ = std::max(last_reply_, departure);
  links_.replies.send_at(last_reply_, answer);
  links_.served.return_credit_at(last_reply_);
}

}  // namespace heddle::sm
