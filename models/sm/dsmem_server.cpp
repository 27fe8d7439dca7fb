#include "sm/dsmem_server.h"

#include <algorithm>
#include <utility>

namespace heddle::sm {

using protocol::DsmemPacket;

void DsmemServer::on_request(const DsmemPacket& packet, std::uint32_t) {
  HEDDLE_CHECK(packet.to_sm == place_.in_gpc, "a DSMEM request came to an SM that it was not for");
  tables_.check(packet.cga_id, packet.sequence);
  protocol::MemoryRequest& request = *packet.request;
  const std::uint32_t window = tables_.match(packet.cga_id, packet.rank);
  const DsmemResult result = serve_dsmem(shared_, window, request);
  const Cycle done = port_.take_past_queue(time_.now(), result.cycles) + result.cycles - 1;
  stats_.cluster_served.add();
  stats_.shared_wavefronts.add(result.cycles);
  tell_changes(links_.windows, window, request, result, done);
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
