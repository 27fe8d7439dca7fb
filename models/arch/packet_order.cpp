#include "arch/packet_order.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "arch/address_map.h"

namespace heddle::arch {

bool PacketSet::has(std::uint32_t queue, std::uint64_t index, std::uint32_t kernels) const {
  if (index < below(queue)) return true;
  const auto at = std::lower_bound(singles_.begin(), singles_.end(), std::tie(queue, index),
                                   [](const Single& a, const auto& b) { return std::tie(a.queue, a.index) < b; });
  return at != singles_.end() && at->queue == queue && at->index == index && (at->kernels & kernels) == kernels;
}

void PacketSet::add(std::uint32_t queue, std::uint64_t index, std::uint32_t kernels) {
  if (index < below(queue)) return;
  const auto at = std::lower_bound(singles_.begin(), singles_.end(), std::tie(queue, index),
                                   [](const Single& a, const auto& b) { return std::tie(a.queue, a.index) < b; });
  if (at != singles_.end() && at->queue == queue && at->index == index) {
    at->kernels |= kernels;
  } else {
    singles_.insert(at, {queue, index, kernels});
  }
  tidy();
}

void PacketSet::add_below(std::uint32_t queue, std::uint64_t index) {
  if (queue >= below_.size()) below_.resize(queue + 1);
  below_[queue] = std::max(below_[queue], index);
  tidy();
}

void PacketSet::add(const PacketSet& other) {
  until = std::max(until, other.until);
  if (other.below_.size() > below_.size()) below_.resize(other.below_.size());
  for (std::size_t queue = 0; queue < other.below_.size(); ++queue) {
    below_[queue] = std::max(below_[queue], other.below_[queue]);
  }
  std::vector<Single> all;
  all.reserve(singles_.size() + other.singles_.size());
  std::merge(singles_.begin(), singles_.end(), other.singles_.begin(), other.singles_.end(), std::back_inserter(all),
             [](const Single& a, const Single& b) { return std::tie(a.queue, a.index) < std::tie(b.queue, b.index); });
  singles_.clear();
  for (const Single& single : all) {
    if (!singles_.empty() && singles_.back().queue == single.queue && singles_.back().index == single.index) {
      singles_.back().kernels |= single.kernels;
    } else {
      singles_.push_back(single);
    }
  }
  tidy();
}

// What is complete as a whole and follows what is below joins it.
void PacketSet::tidy() {
  std::size_t kept = 0;
  for (const Single& single : singles_) {
    const std::uint64_t all = below(single.queue);
    if (single.index == all && single.kernels == kWhole) {
      if (single.queue >= below_.size()) below_.resize(single.queue + 1);
      ++below_[single.queue];
    } else if (single.index >= all) {
      singles_[kept++] = single;
    }
  }
  singles_.resize(kept);
}

void PacketPast::add(const PacketPast& other) {
  order.add(other.order);
  for (std::size_t scope = 0; scope < released.size(); ++scope) {
    released[scope].add(other.released[scope]);
    acquired[scope].add(other.acquired[scope]);
    complete_then[scope].add(other.complete_then[scope]);
  }
}

void PacketPast::release(FenceScope scope) {
  if (scope != FenceScope::none) released[0] = order;
  if (scope == FenceScope::system) released[1] = order;
}

void PacketPast::acquire(FenceScope scope) {
  for (std::size_t s = 0; s < static_cast<std::size_t>(scope); ++s) {
    acquired[s] = released[s];
    complete_then[s] = order;
  }
}

// What the host has written, and what has ended without packets, needs no release of a packet.
void PacketPast::host_knows(Moment now) {
  order.until = now;
  for (PacketSet& set : released) set.until = now;
}

PacketOrder::Queue& PacketOrder::queue_at(std::uint32_t queue) {
  while (queue >= queues_.size()) {
    queues_.emplace_back();
    queues_.back().number = numbers_++;
  }
  return queues_[queue];
}

PacketOrder::Packet* PacketOrder::packet(std::uint32_t queue, std::uint64_t index) {
  const auto found = packets_.find({queue, index});
  return found == packets_.end() ? nullptr : &found->second;
}

// The host has seen the queue closed, if it was open before: so all that it had is over.
void PacketOrder::opened(std::uint32_t queue, std::uint64_t first) {
  Queue& its = queue_at(queue);
  host_.add(its.done);
  host_.order.add_below(its.number, ~std::uint64_t{0});
  packets_.erase(packets_.lower_bound({queue, 0}), packets_.upper_bound({queue, ~std::uint64_t{0}}));
  its.number = numbers_++;
  its.begun.order.add_below(its.number, first);
}

void PacketOrder::published(std::uint32_t queue, std::uint64_t index) {
  Packet& packet = packets_[{queue, index}];
  packet = Packet();
  packet.past = host();
}

void PacketOrder::begins(std::uint32_t queue, std::uint64_t index, bool barrier_bit,
                         const std::vector<std::uint64_t>& zeros) {
  Packet* packet = this->packet(queue, index);
  if (packet == nullptr) return;
  Queue& its = queue_at(queue);
  packet->past.add(its.begun);
  if (barrier_bit) {
    packet->past.add(its.done);
    packet->past.order.add_below(its.number, index);
  }
  for (const std::uint64_t handle : zeros) {
    const auto signal = signals_.find(signal_address(handle));
    packet->past.add(signal == signals_.end() ? host() : signal->second);  // without a packet it was the host
  }
  its.begun = packet->past;
}

void PacketOrder::acquired(std::uint32_t queue, std::uint64_t index, FenceScope scope) {
  Packet* packet = this->packet(queue, index);
  if (packet == nullptr) return;
  packet->past.acquire(scope);
  queue_at(queue).begun.add(packet->past);
}

void PacketOrder::follows(std::uint32_t queue, std::uint64_t index) {
  Packet* packet = this->packet(queue, index);
  if (packet == nullptr) return;
  packet->past.add(packet->done);
  queue_at(queue).begun.add(packet->past);  // what is behind it begins after its last kernel
}

void PacketOrder::host_has(std::uint32_t queue, std::uint64_t index) {
  const Packet* packet = this->packet(queue, index);
  if (packet != nullptr) host_.add(packet->past);
}

void PacketOrder::host_done(std::uint32_t queue, std::uint64_t index) {
  Packet* packet = this->packet(queue, index);
  if (packet != nullptr) packet->past.add(host());
}

void PacketOrder::finishes(const Part& part, FenceScope scope, std::uint64_t signal, bool holds_queue) {
  Packet* packet = this->packet(part.queue, part.index);
  if (packet == nullptr) return;
  Queue& its = queue_at(part.queue);
  PacketPast after = packet->past;
  if (part.whole) after.add(packet->done);
  after.order.add(its.number, part.index, part.bits());
  after.release(scope);
  (part.whole ? its.done : packet->done).add(after);
  if (holds_queue) its.begun.add(after);
  if (signal == 0) return;
  signals_[signal_address(signal)].add(after);
  host_.add(after);
}

void PacketOrder::reset() {
  queues_.clear();
  packets_.clear();
  signals_.clear();
  host_ = {};
}

const PacketPast* PacketOrder::past_of(std::uint32_t queue, std::uint64_t index) {
  const Packet* packet = this->packet(queue, index);
  return packet == nullptr ? nullptr : &packet->past;
}

const PacketPast& PacketOrder::host() {
  host_.host_knows(mark());
  return host_;
}

}  // namespace heddle::arch
