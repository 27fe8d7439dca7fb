// A network of links: queues, arbitration, bandwidth, back-pressure. A plain core without SystemC (MEM-03).
//
// A packet waits in a buffer, the input queue of a link; the link passes it on to the next buffer, where it arrives
// after that buffer's latency. A place is reserved when a packet sets out, so none is ever refused on arrival. A packet
// whose next buffer is full stops those behind it in its buffer, and no others. Among its inputs a link is fair by
// deficit round robin: over any time in which two inputs always have something that can be passed on, the bytes they
// pass are in proportion to their weights, but for a quantum (128 bytes x weight) and a packet each.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/cycle.h"
#include "common/stats.h"
#include "common/storage.h"

namespace heddle {

// How fast a link passes bytes on: exact over any time, also with a fractional number of bytes per cycle. A packet
// begins in a cycle in which the link has bytes left; what it needs beyond that cycle is taken from the next ones. So
// several small packets pass in one cycle, and a large one takes several.
class LinkPace {
 public:
  using Cycle = std::uint64_t;

  // bytes_per_cycle >= 0.01; kept in steps of 1/256 byte.
  explicit LinkPace(double bytes_per_cycle)
      : per_cycle_(static_cast<std::uint64_t>(std::llround(bytes_per_cycle * kScale))) {}

  // True if a packet can begin in cycle `now`. Times of calls do not go back.
  bool free_at(Cycle now) const { return used_at(now) < per_cycle_; }
  // Something of that cycle has been taken.
  bool busy_at(Cycle now) const { return used_at(now) > 0; }
  // The first such cycle, `now` or later.
  Cycle earliest(Cycle now) const {
    if (now < cycle_) now = cycle_;
    const std::uint64_t used = used_at(now);
    return used < per_cycle_ ? now : now + used / per_cycle_;
  }
  // A packet begins in cycle `now`, which is free.
  void take(Cycle now, std::uint32_t bytes) {
    used_ = used_at(now) + std::uint64_t{bytes} * kScale;
    cycle_ = now;
  }
  void reset() { used_ = cycle_ = 0; }

 private:
  static constexpr std::uint32_t kScale = 256;

  // What packets have taken of cycle `now` and the ones after it.
  std::uint64_t used_at(Cycle now) const {
    if (used_ == 0 || now <= cycle_) return used_;
    const std::uint64_t cycles = now - cycle_;
    // Without the first test the product could overflow after a long pause.
    if (cycles >= used_) return 0;
    const std::uint64_t passed = cycles * per_cycle_;
    return passed >= used_ ? 0 : used_ - passed;
  }

  std::uint64_t per_cycle_;  // in 1/256 byte
  std::uint64_t used_ = 0;   // the same, from the beginning of cycle_ on
  Cycle cycle_ = 0;
};

struct LinkPacket {
  void* item = nullptr;       // the owner's
  std::uint32_t entered = 0;  // the owner's
  std::uint32_t bytes = 0;
  std::uint32_t flow = 0;    // index into the tables of links that route by table
  std::uint32_t egress = 0;  // where it leaves the network, for links that route by it
  bool watched = false;      // the listener hears when it passes a link that is watched
};

// What a network needs of its surroundings.
class LinkNetworkListener {
 public:
  using Cycle = LinkPace::Cycle;
  // Calls LinkNetwork::on_event(kind, argument, when) in that cycle.
  virtual void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) = 0;
  // A packet leaves; `egress` is the owner's number of the port. Says whether there is a credit for another; if not,
  // LinkNetwork::open() follows.
  virtual bool eject(std::uint32_t egress, const LinkPacket& packet, Cycle now) = 0;
  // A buffer has room again, after LinkNetwork::full() said that it had none. `owner`: as given to add_buffer().
  virtual void credit(std::uint32_t owner, Cycle now) = 0;
  // A watched packet passes a watched link.
  virtual void passed(const LinkPacket& /*packet*/, Cycle /*now*/) {}

 protected:
  ~LinkNetworkListener() = default;
};

class LinkNetwork {
 public:
  using Cycle = LinkPace::Cycle;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kQuantum = 128;  // bytes

  struct BufferSpec {
    std::uint32_t link = kNone;      // whose input it is
    std::uint32_t upstream = kNone;  // the link before; kNone: packets enter the network here
    std::uint32_t owner = 0;         // then: the owner's number for it
    std::uint32_t capacity = 1;      // packets, those on their way to it included
    std::uint32_t latency = 0;       // cycles from the link before
    std::uint32_t weight = 1;        // of its share of the link
  };

  explicit LinkNetwork(LinkNetworkListener& listener) : listener_(listener) {}

  // Building. Links, buffers, egress ports and tables are numbered in the order in which they are added. The buffers of
  // a link follow each other. `name`: for messages. `watched`: the listener hears of watched packets that pass it.
  std::uint32_t add_link(std::string name, double bytes_per_cycle, bool watched = false);
  std::uint32_t add_buffer(const BufferSpec& spec);
  // `owner`: the owner's number for it. Egress ports are numbered among buffers.
  std::uint32_t add_egress(std::uint32_t upstream, std::uint32_t owner);
  std::uint32_t add_table(std::vector<std::uint32_t> buffers);
  // Where a link's packets go on to: always to one buffer or egress port; to table[packet.flow]; or to first +
  // packet.egress.
  void route_to(std::uint32_t link, std::uint32_t buffer);
  void route_by_table(std::uint32_t link, std::uint32_t table);
  void route_by_egress(std::uint32_t link, std::uint32_t first);
  // Counts the bytes that a link passes on, and those that set out for a buffer.
  void count_link(std::uint32_t link, Counter& bytes) { links_[link].bytes = &bytes; }
  void count_buffer(std::uint32_t buffer, Counter& bytes) {
    buffers_[buffer].counted = true;
    inputs_[buffer].bytes = &bytes;
  }

  // A packet sets out for a buffer where packets enter, in cycle `when`, now or later. There must be room.
  void enter(std::uint32_t buffer, const LinkPacket& packet, Cycle when);
  // If so, the listener hears of a credit() later.
  bool full(std::uint32_t buffer);
  // The listener takes no more at an egress port, without eject() having said so; open() follows.
  void close(std::uint32_t egress) { buffers_[egress].count = 1; }
  // An egress port takes packets again.
  void open(std::uint32_t egress, Cycle now);
  void on_event(std::uint32_t kind, std::uint64_t argument, Cycle now);
  // For a CacheWarmer: what such an event touches first, and the packet of an arrival; null for other events.
  void warm(std::uint32_t kind, std::uint64_t argument) const {
    if (kind != kArrive) return;
    warm_line(&nodes_[static_cast<std::uint32_t>(argument)]);
    warm_line(&buffers_[argument >> 32]);
  }
  const LinkPacket* arriving(std::uint32_t kind, std::uint64_t argument) const {
    return kind == kArrive ? &nodes_[static_cast<std::uint32_t>(argument)].packet : nullptr;
  }

  // Packets between enter() and eject().
  std::uint64_t packets() const { return in_use_; }
  // Packets at a buffer, and on their way to it.
  std::uint32_t packets_at(std::uint32_t buffer) const { return buffers_[buffer].count; }
  // Calls visit(buffer or egress port) for each that has no room and is waited for: by the link before, or by the
  // owner.
  template <class Visit>
  void for_each_wait(Visit&& visit) const {
    for (std::uint32_t buffer = 0; buffer < buffers_.size(); ++buffer) {
      if (buffers_[buffer].refused) visit(buffer);
    }
  }
  std::uint32_t link_of(std::uint32_t buffer) const { return buffers_[buffer].link; }         // kNone: an egress port
  std::uint32_t upstream_of(std::uint32_t buffer) const { return inputs_[buffer].upstream; }  // kNone: an entry
  std::uint32_t owner_of(std::uint32_t buffer) const { return buffers_[buffer].owner; }
  const std::string& name_of(std::uint32_t link) const { return names_[link]; }

  void reset();

 private:
  // Kinds of events.
  static constexpr std::uint32_t kArrive = 0;  // argument: a node, and its buffer in the upper half
  static constexpr std::uint32_t kServe = 1;   // argument: a link

  enum class Next : std::uint8_t { none, fixed, table, egress };

  struct alignas(64) Node {
    LinkPacket packet;
    std::uint32_t next = kNone;
  };
  // What every packet touches on its way, kept small: half a cache line.
  struct alignas(32) Buffer {
    std::uint32_t link = kNone;  // kNone: an egress port
    std::uint32_t capacity = 1;
    std::uint32_t count = 0;  // packets here or on their way; of an egress port: 1 while it is closed
    std::uint32_t latency = 0;
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t owner = 0;
    bool refused = false;  // somebody waits for room
    bool counted = false;
  };
  // The rest of a buffer.
  struct Input {
    std::uint32_t quantum = kQuantum;  // bytes
    std::uint32_t deficit = 0;         // bytes that it may pass on in its turn
    std::uint32_t stuck_on = kNone;    // the buffer that its first packet waits for
    std::uint32_t upstream = kNone;
    Counter* bytes = nullptr;
  };
  struct alignas(64) Link {
    explicit Link(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;
    Counter* bytes = nullptr;
    // The cycle of a pending serve event, before which nothing can be served. Without one, nothing is eligible.
    Cycle awaited = kNever;
    std::uint32_t first = kNone;   // buffer
    std::uint32_t inputs = 0;      // buffers
    std::uint32_t current = 0;     // the input whose turn it is
    std::uint32_t mask = 0;        // its first word in eligible_ and stuck_
    std::uint32_t target = kNone;  // buffer, table, or first egress port
    Next next = Next::none;
    bool watched = false;
  };

  void arrive(std::uint32_t node, std::uint32_t buffer, Cycle now);
  void serve(std::uint32_t link, Cycle now);
  bool has_credit(std::uint32_t buffer) const { return buffers_[buffer].count < buffers_[buffer].capacity; }
  void stick(Link& link, std::uint32_t input, std::uint32_t to);
  bool next_turn(Link& link);
  std::uint32_t first_eligible(const Link& link, std::uint32_t from) const;
  std::uint32_t next_buffer(const Link& link, const LinkPacket& packet) const;
  void pass_on(Link& link, std::uint32_t to, Cycle now);
  void move_on(Link& link, std::uint32_t node, std::uint32_t from, std::uint32_t to, Cycle now);
  void set_out(std::uint32_t node, std::uint32_t to, Cycle now);
  void return_credit(std::uint32_t buffer, Cycle now);
  void unstick(std::uint32_t buffer, Cycle now);
  void wake(std::uint32_t link, Cycle when);
  std::uint32_t new_node();
  void free_node(std::uint32_t node);

  LinkNetworkListener& listener_;
  std::vector<Link> links_;
  std::vector<std::string> names_;  // by link
  std::vector<Buffer> buffers_;
  std::vector<Input> inputs_;            // by buffer
  std::vector<std::uint64_t> eligible_;  // a bit per input: it has a packet, and that is not known to be stuck
  std::vector<std::uint64_t> stuck_;
  std::vector<std::vector<std::uint32_t>> tables_;
  BigVector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::uint64_t in_use_ = 0;
};

}  // namespace heddle
