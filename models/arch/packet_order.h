// What packets know of each other's work (PKT-14): for each packet that begins, which kernels are complete for certain,
// whose writes have been released, and whose have been acquired. A plain core, for the race checker.
//
// The rules are those of the HSA standard (hsa.h):
// - A packet begins after those before it in its queue have begun, and with its barrier bit after they are complete.
// - What is behind a barrier packet begins after all whose signals it has found at 0, and after the barrier packet.
// - Kernels of a condensed packet follow each other (PKT-07).
// - The host publishes a packet after all that signals have told it of by then.
// - A release makes visible, at its scope, what was complete before it, on any queue; an acquire lets all that begins
//   after it see what was released before it at that scope, on any queue.
// That something has only happened to be over before something else is no knowledge.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arch/aql_packet.h"

namespace heddle::arch {

// A running number of all that happens.
using Moment = std::uint64_t;

// A set of packets, and of kernels of packets, in a form that stays small while queues move on.
class PacketSet {
 public:
  // Kernels of a packet as bits. All bits: the packet as a whole is complete.
  static constexpr std::uint32_t kWhole = ~std::uint32_t{0};

  bool has(std::uint32_t queue, std::uint64_t index, std::uint32_t kernels) const;
  void add(std::uint32_t queue, std::uint64_t index, std::uint32_t kernels);
  // All packets of the queue with a smaller index.
  void add_below(std::uint32_t queue, std::uint64_t index);
  void add(const PacketSet& other);
  // Also whatever the host has done, or known to be done without packets, up to then.
  Moment until = 0;

  std::size_t singles() const { return singles_.size(); }  // that take a place of their own

 private:
  struct Single {
    std::uint32_t queue = 0;
    std::uint64_t index = 0;
    std::uint32_t kernels = 0;
  };
  std::uint64_t below(std::uint32_t queue) const { return queue < below_.size() ? below_[queue] : 0; }
  void tidy();

  std::vector<std::uint64_t> below_;  // by queue
  std::vector<Single> singles_;       // in order of queue and index
};

// What has happened before something: what was complete and, of that, whose writes were released, and acquired.
struct PacketPast {
  PacketSet order;
  std::array<PacketSet, 2> released;  // at agent scope, at system scope
  std::array<PacketSet, 2> acquired;
  std::array<PacketSet, 2> complete_then;  // when it was acquired at that scope

  void add(const PacketPast& other);
  void release(FenceScope scope);
  void acquire(FenceScope scope);
  void host_knows(Moment now);
};

class PacketOrder {
 public:
  // A kernel of a packet, or the packet as a whole.
  struct Part {
    std::uint32_t queue = 0;
    std::uint64_t index = 0;
    std::uint32_t kernel = 0;
    bool whole = false;

    std::uint32_t bits() const { return whole ? PacketSet::kWhole : 1U << kernel; }
  };

  // Another moment: of a write; and of anything that others can be behind.
  Moment tick() { return ++now_; }
  Moment mark() { return marked_ = ++now_; }
  Moment marked() const { return marked_; }  // the last of these

  // The life of queues and packets, told in the order in which things happen. What is told of a packet that is not
  // known (published(), and then neither gone() nor its queue opened again) changes nothing.
  void opened(std::uint32_t queue, std::uint64_t first);
  void published(std::uint32_t queue, std::uint64_t index);
  // Nothing holds it back any more; its fences follow. `zeros`: signals that a barrier packet has found at 0.
  void begins(std::uint32_t queue, std::uint64_t index, bool barrier_bit, const std::vector<std::uint64_t>& zeros = {});
  void acquired(std::uint32_t queue, std::uint64_t index, FenceScope scope);
  // All its kernels so far are complete, and the next one begins after that.
  void follows(std::uint32_t queue, std::uint64_t index);
  // The host has been given the packet; it has done what the packet asks for.
  void host_has(std::uint32_t queue, std::uint64_t index);
  void host_done(std::uint32_t queue, std::uint64_t index);
  // The host may have heard of a kernel with that past while it runs.
  void host_hears(const PacketPast& past) { host_.add(past); }
  // What that part has started is over, and so is its release fence of that scope; now it tells its signal (0: none).
  // `holds_queue`: nothing behind it has begun.
  void finishes(const Part& part, FenceScope scope, std::uint64_t signal, bool holds_queue = false);
  // Nothing of it will be heard of any more.
  void gone(std::uint32_t queue, std::uint64_t index) { packets_.erase({queue, index}); }
  void reset();

  // As of now; null for a packet that is not known.
  const PacketPast* past_of(std::uint32_t queue, std::uint64_t index);
  // The host's, as of now.
  const PacketPast& host();
  // By which the sets know the queue: another number each time that it is opened.
  std::uint32_t number_of(std::uint32_t queue) { return queue_at(queue).number; }

 private:
  struct Queue {
    std::uint32_t number = 0;
    PacketPast begun;  // of all packets that have begun
    PacketPast done;   // of all that are complete
  };
  struct Packet {
    PacketPast past;  // before it begins: the host's, when it published the packet
    PacketPast done;  // of its kernels that are complete
  };

  Queue& queue_at(std::uint32_t queue);
  Packet* packet(std::uint32_t queue, std::uint64_t index);

  Moment now_ = 0;
  Moment marked_ = 0;
  PacketPast host_;
  std::vector<Queue> queues_;  // by the host's number
  std::uint32_t numbers_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Packet> packets_;
  std::unordered_map<std::uint64_t, PacketPast> signals_;  // by address; looked up only
};

}  // namespace heddle::arch
