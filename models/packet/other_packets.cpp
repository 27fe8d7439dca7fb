#include "packet/other_packets.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "arch/gpu_observation.h"
#include "arch/race_checker.h"
#include "packet/dispatcher.h"
#include "packet/head_of_queue.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

using arch::HsaStatus;
using arch::PacketType;

namespace {

constexpr std::uint64_t kFirstCopy = std::uint64_t{1} << 32;  // for the race checker

}  // namespace

using Use = MemoryTag::Use;

OtherPackets::OtherPackets(const StageContext& context, const Neighbours& to,
                           PacketSender<protocol::CopyRequestPacket>& copies)
    : PipelineStage(context),
      to_(to),
      copies_(copies),
      held_(queues().count()),
      waiting_(idle_account(context.timebase), IdleAccount::Work::signals) {}

void OtherPackets::await_signals(Packet& packet) {
  packet.phase = Phase::signals;
  waiting_.add();
  look_at_signals(packet);
}

// A signal that has been seen at 0 need not be looked at again.
void OtherPackets::look_at_signals(Packet& packet) {
  packet.other.again = false;
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.other.barrier.signals[i];
    if (handle == 0 || packet.other.seen_zero[i]) continue;
    ++packet.reads;
    stats().signal_polls.add();
    const std::uint64_t address = arch::signal_address(handle);
    if (arch::in_host_window(address)) {
      memory().read(address, 8, tag(Use::dependency, packet, i));
    } else {
      memory().watch(address, 8, packet.reference() + 1, tag(Use::dependency, packet, i));
    }
  }
  if (packet.reads == 0) satisfied(packet);  // there are none
}

void OtherPackets::on_written(const protocol::WrittenPacket& written, std::uint32_t) {
  Packet* packet = packets().find(written.watch - 1);
  if (packet != nullptr && packet->phase == Phase::signals) wake(*packet);
}

// The handle of a signal in the host's memory is the same for all: nothing is translated there.
void OtherPackets::signal_changed(std::uint64_t address) {
  if (!arch::in_host_window(address)) return;
  std::vector<Packet*> waiting;
  packets().for_each([&](Packet& packet) {
    if (packet.phase != Phase::signals) return;
    const auto& signals = packet.other.barrier.signals;
    const auto is_it = [address](std::uint64_t handle) {
      return handle != 0 && arch::signal_address(handle) == address;
    };
    if (std::any_of(signals.begin(), signals.end(), is_it)) waiting.push_back(&packet);
  });
  for (Packet* packet : waiting) wake(*packet);
}

// What is being read may be older than the change.
void OtherPackets::wake(Packet& packet) {
  stats().signal_wakes.add();
  if (packet.reads > 0) {
    packet.other.again = true;
  } else {
    look_at_signals(packet);
  }
}

void OtherPackets::on_answer(Packet& packet, const MemoryAnswer& answer) {
  const std::uint32_t signal = answer.tag.part;
  const std::uint64_t value = arch::get_64(answer.data, 0);
  packet.other.values[signal] = static_cast<std::int64_t>(value);
  packet.other.seen_zero[signal] = answer.ok && value == 0;
  if (!answer.ok) packet.result = {HsaStatus::invalid_signal, arch::Reason::signal_unreadable};
  if (packet.reads == 0) evaluate_signals(packet);
}

void OtherPackets::evaluate_signals(Packet& packet) {
  if (!packet.result.ok()) return to_.completion.reject(packet);  // which drops it, as one that waits
  const Packet::Other& other = packet.other;
  std::uint32_t open = 0;
  std::uint32_t zero = 0;
  std::int64_t negative = 0;
  bool in_host_memory = false;  // one that is open
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    if (other.barrier.signals[i] == 0) continue;
    if (other.seen_zero[i]) ++zero;
    if (!other.seen_zero[i]) ++open;
    in_host_memory = in_host_memory || (!other.seen_zero[i] && arch::in_host_window(other.barrier.signals[i]));
    if (!other.seen_zero[i] && other.values[i] < 0 && negative == 0) negative = other.values[i];
  }
  const bool enough = packet.type == PacketType::barrier_and ? open == 0 : zero > 0;
  if (enough) return satisfied(packet);
  if (negative != 0) {
    // The packet fails, and hands the error on; its queue does not.
    packet.outcome = {HsaStatus::error, arch::Reason::negative_signal};
    packet.signal_value = negative;
    return satisfied(packet);
  }
  if (packet.other.again) return look_at_signals(packet);
  if (in_host_memory && !packet.other.polls) {
    packet.other.polls = true;
    schedule(poll_cycles(), kPollSignals, packet);
  }
}

void OtherPackets::satisfied(Packet& packet) {
  packet.times.ready = now();
  waiting_.remove();
  to_.dispatcher.acquire(packet);
  reporter().note_wait(packet.queue);
}

void OtherPackets::launch(Packet& packet) {
  packet.times.dispatched = packet.times.started = now();
  packet.phase = Phase::running;
  reporter().launched(packet);
  to_.reader.clear_slot(packet.queue, packet.index);
  if (packet.type == PacketType::agent_dispatch) {
    launch_agent(packet);
  } else if (packet.type == PacketType::vendor) {
    launch_vendor(packet);
  } else {
    end(packet);
  }
  if (!packet.is_barrier())
    to_.heads.release(packet);  // nothing behind barrier packets begins before they are complete
}

void OtherPackets::launch_agent(Packet& packet) {
  held_[packet.queue][packet.index] = &packet;
  waiting_.add();
  if (races() != nullptr) races()->order().host_has(packet.queue, packet.index);
  auto event = queues().event(protocol::QueueEvent::agent, packet.queue, packet.index);
  event.packet = packet.bytes;
  queues().tell_host(event);
}

void OtherPackets::agent_done(std::uint32_t queue, std::uint64_t index, std::uint32_t status) {
  const auto found = held_[queue].find(index);
  if (found == held_[queue].end()) return;
  Packet& packet = *found->second;
  held_[queue].erase(found);
  waiting_.remove();
  if (races() != nullptr) races()->order().host_done(queue, packet.index);
  if (status != 0) {
    packet.outcome = {static_cast<HsaStatus>(status), arch::Reason::agent_error};
    packet.signal_value = -static_cast<std::int64_t>(status);
  }
  reporter().progress();
  end(packet);
  Packet* head = to_.heads.head(queue);
  if (head != nullptr && head->phase == Phase::agent) to_.dispatcher.acquire(*head);
}

void OtherPackets::launch_vendor(Packet& packet) {
  const arch::VendorPacket& vendor = packet.other.vendor;
  if (vendor.format == arch::VendorFormat::hold) {
    return schedule(clock().to_cycles(static_cast<double>(vendor.bytes)), kHoldEnds, packet);
  }
  if (vendor.bytes == 0) return schedule(0, kHoldEnds, packet);
  while (copying_.count(next_tag_) > 0) ++next_tag_;  // the number comes round
  protocol::CopyRequestPacket request;
  request.tag = next_tag_++;
  request.kind = vendor.format == arch::VendorFormat::copy ? protocol::CopyKind::copy : protocol::CopyKind::fill;
  request.from = vendor.from;
  request.to = vendor.to;
  request.bytes = vendor.bytes;
  request.value = vendor.value;
  request.subcontext = queues().setup(packet.queue).subcontext;
  copying_[request.tag] = &packet;
  if (races() != nullptr) note_copy(packet, request);
  copies_.send(request);
}

// For the race checker. Copies have numbers above those of operations.
void OtherPackets::note_copy(const Packet& packet, const protocol::CopyRequestPacket& request) {
  const std::uint64_t number = kFirstCopy + request.tag;
  races()->copy_starts(number, {packet.queue, packet.index, 0, true}, "the copy of " + name_of(packet));
  if (request.kind == protocol::CopyKind::copy && !arch::in_host_window(request.from)) {
    races()->copy_reads(number, {{request.from, request.subcontext}, request.bytes});
  }
  if (!arch::in_host_window(request.to)) {
    races()->copy_writes(number, {{request.to, request.subcontext}, request.bytes});
  }
}

void OtherPackets::on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t) {
  const auto found = copying_.find(done.tag);
  if (found == copying_.end()) return;  // a copy of somebody else
  Packet& packet = *found->second;
  copying_.erase(found);
  if (races() != nullptr) races()->ends(kFirstCopy + done.tag);
  packet.times.started = std::max<Cycle>(done.start, packet.times.dispatched);
  reporter().progress();
  if (done.status != HsaStatus::success) {
    packet.outcome = {done.status, arch::Reason::copy_memory};
    packet.signal_value = -static_cast<std::int64_t>(done.status);
    to_.supervisor.fail(packet.queue, packet.index, 0, packet.outcome);
  }
  end(packet);
}

void OtherPackets::end(Packet& packet) {
  packet.times.ended = now();
  packet.phase = Phase::finishing;
  to_.completion.finish(packet);
}

void OtherPackets::abort(Packet& packet) {
  if (packet.phase != Phase::running) return;  // it has ended
  const bool copies = std::any_of(copying_.begin(), copying_.end(),
                                  [&packet](const auto& copying) { return copying.second == &packet; });
  if (copies) return;
  if (held_[packet.queue].erase(packet.index) > 0) waiting_.remove();
  kill(packet);
}

void OtherPackets::kill(Packet& packet) {
  packet.outcome = {HsaStatus::error, arch::Reason::inactivated};
  packet.times.ended = now();
  packet.phase = Phase::finishing;
  stats().aborted.add();
  to_.completion.complete(packet);
}

void OtherPackets::on_event(std::uint32_t kind, std::uint64_t argument) {
  Packet* packet = packets().find(argument);
  if (packet == nullptr) return;
  if (kind == kHoldEnds) return end(*packet);
  packet->other.polls = false;
  if (packet->phase == Phase::signals && packet->reads == 0) look_at_signals(*packet);
}

void OtherPackets::reset() {
  held_.assign(held_.size(), {});
  next_tag_ = 0;
  copying_.clear();
}

void OtherPackets::collect_waits(WaitGraph& graph, const Packet& packet) const {
  const std::string name = name_of(packet);
  const auto& held = held_[packet.queue];
  for (const auto& [index, other] : held) {
    if (packet.phase == Phase::agent)
      graph.add(name, "the host holds as many agent packets as it can:", name_of(*other));
    if (other == &packet) graph.add(name, "for", "the host");
  }
  if (packet.phase == Phase::signals) collect_signals(graph, packet);
  if (packet.type == PacketType::vendor && packet.phase == Phase::running) {
    const bool holds = packet.other.vendor.format == arch::VendorFormat::hold;
    graph.add(name, "for the end of", holds ? "its time" : "its copy");
  }
}

void OtherPackets::collect_signals(WaitGraph& graph, const Packet& packet) const {
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.other.barrier.signals[i];
    if (handle == 0 || packet.other.seen_zero[i]) continue;
    const std::uint64_t address = arch::signal_address(handle);
    const std::string text = fmt::format("signal {:#x} (value {})", address, packet.other.values[i]);
    graph.add(name_of(packet), "for", text);
    collect_owners(graph, text, address);
  }
}

// Who will change a signal is known as far as it is the completion signal of a packet that has been read.
void OtherPackets::collect_owners(WaitGraph& graph, const std::string& text, std::uint64_t address) const {
  constexpr const char* kReason = "it is the completion signal of";
  packets().for_each([&](const Packet& other) {
    if (arch::signal_address(signal_of(other)) == address) graph.add(text, kReason, name_of(other));
  });
  for (std::uint32_t queue = 0; queue < queues().count(); ++queue) {
    const QueueCore& ring = to_.reader.ring(queue);
    for (std::uint64_t index = ring.front_index(); ring.waiting_at(index) != nullptr; ++index) {
      const QueueCore::Fetched& fetched = *ring.waiting_at(index);
      const bool there = fetched.slot == QueueCore::Slot::published;
      if (there && arch::signal_address(signal_in(fetched.bytes)) == address) {
        graph.add(text, kReason, packets().name_of(queue, index));
      }
    }
  }
}

}  // namespace heddle::packet
