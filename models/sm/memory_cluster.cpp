// The memory unit on the SM-to-SM network: accesses to distributed shared memory (CGA-06 to CGA-08).
#include <algorithm>

#include "sm/memory_unit.h"

namespace heddle::sm {
namespace {

using arch::DsmemStatus;
using arch::Operation;
using protocol::DsmemPacket;

}  // namespace

MemoryUnit::Result MemoryUnit::cluster(const Operation& operation, std::uint32_t warp, Cycle now) {
  static thread_local LineAccesses lines;  // large, and needed by one SM at a time
  coalesce(operation.lanes, operation.address, dsmem_width(operation), lines);
  const Cycle port = port_.take(now, std::max(1U, lines.count));
  if (lines.count == 0) return {port + params_.cluster_latency + params_.shared_latency, 0, false, false};
  const std::uint32_t index = begin(operation, warp, lines.row);
  accesses_[index].cluster = true;
  const bool returns = accesses_[index].kind == AccessKind::load || accesses_[index].kind == AccessKind::atomic;
  const bool posted = !returns && !accesses_[index].blocks;
  accesses_[index].posted = posted;
  Cycle ready = 0;
  Cycle turn = port;
  for (const LineAccess& line : lines) {
    const ClusterTables::Target target = tables_.find(warp, line.line, 1, now);
    HEDDLE_CHECK(target.found == ClusterTables::Found::ok, "a DSMEM access without a target");
    protocol::MemoryRequest& request = pool_.acquire();
    fill_dsmem(request, operation, line);
    const bool own = target.cga_id == protocol::kNoCgaId || target.sm == links_.in_gpc;
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
  const bool over = --access.open == 0;
  const bool lost = access.failed;
  if (over) accesses_.give_back(index);
  if (posted) return {ready, 0, false, false};
  if (!over) return {kNeverReady, 0, true, false};
  if (lost) return {kNeverReady, ready, true, true};
  return {ready, 0, false, false};
}

// Over the own port, as the rest of the own shared memory. Gives the cycle in which the result is there.
Cycle MemoryUnit::ask_own(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                          protocol::MemoryRequest& request, Cycle begin) {
  DsmemPacket packet;
  packet.request = &request;
  packet.cga_id = target.cga_id;
  packet.rank = target.rank;
  packet.sequence = target.sequence;
  const bool alone = target.cga_id == protocol::kNoCgaId;
  const std::uint32_t window = alone ? accesses_[access].cta : tables_.match(packet.cga_id, packet.rank);
  const DsmemResult result = serve_dsmem(shared_, window, request);
  packet.status = result.status;
  packet.offset = result.offset;
  // The line has had its cycle; lanes that met at a word take more.
  Cycle done = begin;
  if (result.cycles > 1) done = port_.take_past_queue(begin, result.cycles - 1) + result.cycles - 2;
  stats_.shared_wavefronts.add(result.cycles);
  if (result.changes) client_.mbarrier_changed(window, static_cast<std::uint32_t>(request.get_address()), done);
  const Cycle ready = done + params_.cluster_latency + params_.shared_latency;
  cluster_answer(access, line.lanes, line.sectors, packet, ready);
  request.release();
  return ready;
}

void MemoryUnit::ask_other(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                           protocol::MemoryRequest& request, Cycle departure) {
  const std::uint32_t index = open_.take();
  open_[index] = {&request, ledger_.begin(), add_part(access, line), kNone};
  request.extension.entry = index;
  request.extension.sm = sm_;
  ++cluster_of_cta_[accesses_[access].cta];
  ++cluster_of_cga_[target.cga_id];
  stats_.cluster_requests.add();
  DsmemPacket packet;
  packet.request = &request;
  packet.cga_id = target.cga_id;
  packet.rank = target.rank;
  packet.from_sm = links_.in_gpc;
  packet.to_sm = target.sm;
  packet.sequence = target.sequence;
  send_cluster(packet, departure);
}

void MemoryUnit::send_cluster(const DsmemPacket& packet, Cycle departure) {
  last_request_ = std::max(last_request_, departure);
  if (cluster_waiting_.empty() && links_.requests.can_send()) {
    links_.requests.send_at(last_request_, packet);
  } else {
    cluster_waiting_.push_back({packet, last_request_});
  }
  if (stopped()) was_stopped_ = true;
}

void MemoryUnit::on_cluster_room() {
  const Cycle now = domain_.now();
  while (!cluster_waiting_.empty() && links_.requests.can_send()) {
    const WaitingPacket next = cluster_waiting_.front();
    cluster_waiting_.pop_front();
    last_request_ = std::max({last_request_, next.earliest, now});
    links_.requests.send_at(std::max(next.earliest, now), next.packet);
  }
  while (!replies_.empty() && links_.replies.can_send()) {
    const WaitingPacket next = replies_.front();
    replies_.pop_front();
    reply(next.packet, std::max(next.earliest, now));
  }
  go_on(now);
}

void MemoryUnit::on_cluster_request(const DsmemPacket& packet) {
  HEDDLE_CHECK(packet.to_sm == links_.in_gpc, "a DSMEM request came to an SM that it was not for");
  tables_.check(packet.cga_id, packet.sequence);
  protocol::MemoryRequest& request = *packet.request;
  const std::uint32_t window = tables_.match(packet.cga_id, packet.rank);
  const DsmemResult result = serve_dsmem(shared_, window, request);
  const Cycle done = port_.take_past_queue(domain_.now(), result.cycles) + result.cycles - 1;
  stats_.cluster_served.add();
  stats_.shared_wavefronts.add(result.cycles);
  tell_changes(window, request, result, done);
  DsmemPacket answer = packet;
  std::swap(answer.from_sm, answer.to_sm);
  answer.status = result.status;
  answer.offset = result.offset;
  const Cycle departure = done + params_.shared_latency;
  if (replies_.empty() && links_.replies.can_send()) {
    reply(answer, departure);
  } else {
    replies_.push_back({answer, departure});
  }
}

// The place of the request is free once the reply has left.
void MemoryUnit::reply(const DsmemPacket& answer, Cycle departure) {
  last_reply_ = std::max(last_reply_, departure);
  links_.replies.send_at(last_reply_, answer);
  links_.served.return_credit_at(last_reply_);
}

void MemoryUnit::on_cluster_reply(const DsmemPacket& packet, Cycle arrival) {
  HEDDLE_CHECK(packet.to_sm == links_.in_gpc, "a DSMEM reply came to an SM that did not ask");
  tables_.check(packet.cga_id, packet.sequence);
  if (packet.request->extension.bulk.any()) {
    --cluster_of_cga_[packet.cga_id];
    send_answered(packet, arrival);
    client_.cluster_answered(packet.cga_id, MemoryClient::kNoCta, arrival);
    return go_on(arrival);
  }
  const std::uint32_t index = packet.request->extension.entry;
  const Open open = open_[index];
  HEDDLE_CHECK(open.request == packet.request, "a DSMEM request was answered twice");
  open_.give_back(index);
  open_[index].request = nullptr;
  ledger_.end(open.group, arrival);
  const Part part = parts_[open.part];
  const Access& access = accesses_[part.access];
  const std::uint32_t cta = access.orphan ? MemoryClient::kNoCta : access.cta;
  --cluster_of_cga_[packet.cga_id];
  if (!access.orphan) --cluster_of_cta_[cta];
  cluster_answer(part.access, part.lanes, part.sectors, packet, arrival);
  part_ended(open.part, part.sectors, arrival);
  packet.request->release();
  client_.request_ended(open.group, arrival);
  client_.cluster_answered(packet.cga_id, cta, arrival);
  go_on(arrival);
}

// Of one part of an access.
void MemoryUnit::cluster_answer(std::uint32_t index, arch::LaneMask lanes, std::uint8_t sectors,
                                const DsmemPacket& reply, Cycle when) {
  Access& access = accesses_[index];
  const protocol::MemoryRequest& request = *reply.request;
  if (reply.status == DsmemStatus::ok) {
    if (access.dead || access.posted) return;
    const auto offset = static_cast<std::uint32_t>(request.get_address() % arch::kLineBytes);
    if (access.kind == AccessKind::load) deliver(access, lanes, sectors, request.data.data(), offset, when);
    if (access.kind == AccessKind::atomic) deliver_old(access, request);
    return;
  }
  if (access.dead || access.failed) {
    access.failed = true;
    return;
  }
  access.failed = true;
  // The lowest lane that reaches the byte that was wrong.
  const auto line = static_cast<std::uint32_t>(arch::line_of(request.get_address()));
  std::uint32_t lowest = arch::kLineBytes;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const std::uint32_t offset = access.offset_of(lane);
    if (line + offset + access.width > reply.offset) lowest = std::min(lowest, offset);
  }
  const ClusterError error{reply.status,  reply.cga_id,  reply.sequence,    reply.rank,
                           line + lowest, access.origin, access.origin_rank};
  if (access.orphan) {
    client_.orphan_failed(error, when);
  } else {
    client_.cluster_failed(access, error, when);
  }
}

void MemoryUnit::abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank) {
  accesses_.for_each([=](Access& access) {
    if (!access.cluster || access.orphan || access.cta != cta) return;
    HEDDLE_CHECK(access.posted, "a CTA has gone that waits for an access");
    access.orphan = true;
    access.origin = index;
    access.origin_rank = rank;
  });
  cluster_of_cta_[cta] = 0;
}

}  // namespace heddle::sm
