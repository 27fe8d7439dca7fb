// A network of links: queues, arbitration, bandwidth, back-pressure. A plain core without SystemC (MEM-03).
//
// A packet waits at a place, the input queue of a link; the link passes it on to the next place, where it arrives after
// that place's latency. Room is reserved when a packet sets out, so none is ever refused on arrival. A packet whose
// next place is full stops those behind it at its place, and no others. Among its inputs a link is fair by deficit
// round robin: over any time in which two inputs always have something that can be passed on, the bytes they pass are
// in proportion to their weights, but for a quantum (128 bytes x weight) and a packet each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/big_memory.h"
#include "common/link_pace.h"
#include "common/stats.h"

namespace heddle {

struct LinkPacket {
  void* item = nullptr;       // the owner's
  std::uint32_t entered = 0;  // the owner's
  std::uint32_t bytes = 0;
  std::uint32_t pair = 0;  // index into the tables of links that route by table
  std::uint32_t exit = 0;  // where it leaves the network, for links that route by exit
};

// What a network needs of its surroundings.
class LinkNetworkHost {
 public:
  using Cycle = LinkPace::Cycle;
  // Calls LinkNetwork::on_event(kind, argument, when) in that cycle.
  virtual void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) = 0;
  // A packet leaves; `exit` is the owner's number of the exit. Says whether there is room for another; if not,
  // LinkNetwork::open() follows.
  virtual bool leave(std::uint32_t exit, const LinkPacket& packet, Cycle now) = 0;
  // A place has room again, after LinkNetwork::full() said that it had none. `owner`: as given to add_place().
  virtual void room(std::uint32_t owner, Cycle now) = 0;

 protected:
  ~LinkNetworkHost() = default;
};

class LinkNetwork {
 public:
  using Cycle = LinkPace::Cycle;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kQuantum = 128;  // bytes

  struct PlaceSpec {
    std::uint32_t link = kNone;    // whose input it is
    std::uint32_t feeder = kNone;  // the link before; kNone: packets enter the network here
    std::uint32_t owner = 0;       // then: the owner's number for it
    std::uint32_t capacity = 1;    // packets, those on their way to it included
    std::uint32_t latency = 0;     // cycles from the link before
    std::uint32_t weight = 1;      // of its share of the link
  };

  explicit LinkNetwork(LinkNetworkHost& host) : host_(host) {}

  // Building. Links, places, exits and tables are numbered in the order in which they are added. The places of a link
  // follow each other.
  // `name`: for messages.
  std::uint32_t add_link(std::string name, double bytes_per_cycle);
  std::uint32_t add_place(const PlaceSpec& spec);
  // `owner`: the owner's number for it. Exits are numbered among places.
  std::uint32_t add_exit(std::uint32_t feeder, std::uint32_t owner);
  std::uint32_t add_table(std::vector<std::uint32_t> places);
  // Where a link's packets go on to: always to one place or exit; to table[packet.pair]; or to first + packet.exit.
  void route_to(std::uint32_t link, std::uint32_t place);
  void route_by_table(std::uint32_t link, std::uint32_t table);
  void route_by_exit(std::uint32_t link, std::uint32_t first);
  // Counts the bytes that a link passes on, and those that set out for a place.
  void count_link(std::uint32_t link, Counter& bytes) { links_[link].bytes = &bytes; }
  void count_place(std::uint32_t place, Counter& bytes) {
    places_[place].counted = true;
    inputs_[place].bytes = &bytes;
  }

  // A packet sets out for a place where packets enter, in cycle `when`, now or later. There must be room.
  void enter(std::uint32_t place, const LinkPacket& packet, Cycle when);
  // If so, the host hears of room() later.
  bool full(std::uint32_t place);
  // The host of an exit has no room, without leave() having said so; open() follows.
  void close(std::uint32_t exit) { places_[exit].count = 1; }
  // An exit whose host had no room takes packets again.
  void open(std::uint32_t exit, Cycle now);
  void on_event(std::uint32_t kind, std::uint64_t argument, Cycle now);
  // Such an event comes soon: what it touches first, into the caches of the host.
  void prefetch(std::uint32_t kind, std::uint64_t argument) const {
    if (kind != kArrive) return;
    __builtin_prefetch(&nodes_[static_cast<std::uint32_t>(argument)]);
    __builtin_prefetch(&places_[argument >> 32]);
  }
  // The packet of an arrival; null for other events.
  const LinkPacket* arriving(std::uint32_t kind, std::uint64_t argument) const {
    return kind == kArrive ? &nodes_[static_cast<std::uint32_t>(argument)].packet : nullptr;
  }

  // Packets between enter() and leave().
  std::uint64_t packets() const { return in_use_; }
  // Packets at a place, and on their way to it.
  std::uint32_t packets_at(std::uint32_t place) const { return places_[place].count; }
  // Calls visit(place or exit) for each that has no room and is waited for: by the link before, or by the owner.
  template <class Visit>
  void for_each_wait(Visit&& visit) const {
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      if (places_[place].refused) visit(place);
    }
  }
  std::uint32_t link_of(std::uint32_t place) const { return places_[place].link; }      // kNone: an exit
  std::uint32_t feeder_of(std::uint32_t place) const { return inputs_[place].feeder; }  // kNone: an entry
  std::uint32_t owner_of(std::uint32_t place) const { return places_[place].owner; }
  const std::string& name_of(std::uint32_t link) const { return names_[link]; }

  void reset();

 private:
  static constexpr Cycle kNever = ~Cycle{0};
  // Kinds of events.
  static constexpr std::uint32_t kArrive = 0;  // argument: a node, and its place in the upper half
  static constexpr std::uint32_t kServe = 1;   // argument: a link

  enum class Next : std::uint8_t { none, fixed, table, exit };

  struct alignas(64) Node {
    LinkPacket packet;
    std::uint32_t next = kNone;
  };
  // What every packet touches on its way, kept small: half a cache line.
  struct alignas(32) Place {
    std::uint32_t link = kNone;  // kNone: an exit
    std::uint32_t capacity = 1;
    std::uint32_t count = 0;  // packets here or on their way; of an exit: 1 while it is closed
    std::uint32_t latency = 0;
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t owner = 0;
    bool refused = false;  // somebody waits for room
    bool counted = false;
  };
  // The rest of a place.
  struct Input {
    std::uint32_t quantum = kQuantum;  // bytes
    std::uint32_t deficit = 0;         // bytes that it may pass on in its turn
    std::uint32_t stuck_on = kNone;    // the place that its first packet waits for
    std::uint32_t feeder = kNone;
    Counter* bytes = nullptr;
  };
  struct alignas(64) Link {
    explicit Link(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;
    Counter* bytes = nullptr;
    // The cycle of a pending serve event, before which nothing can be served. Without one, nothing is eligible.
    Cycle awaited = kNever;
    std::uint32_t first = kNone;   // place
    std::uint32_t inputs = 0;      // places
    std::uint32_t current = 0;     // the input whose turn it is
    std::uint32_t mask = 0;        // its first word in eligible_ and stuck_
    std::uint32_t target = kNone;  // place, table, or first exit
    Next next = Next::none;
  };

  void arrive(std::uint32_t node, std::uint32_t place, Cycle now);
  void serve(std::uint32_t link, Cycle now);
  bool has_room(std::uint32_t place) const { return places_[place].count < places_[place].capacity; }
  void stick(Link& link, std::uint32_t input, std::uint32_t to);
  bool next_turn(Link& link);
  std::uint32_t first_eligible(const Link& link, std::uint32_t from) const;
  std::uint32_t next_place(const Link& link, const LinkPacket& packet) const;
  void pass_on(Link& link, std::uint32_t to, Cycle now);
  void move_on(Link& link, std::uint32_t node, std::uint32_t from, std::uint32_t to, Cycle now);
  void set_out(std::uint32_t node, std::uint32_t to, Cycle now);
  void freed(std::uint32_t place, Cycle now);
  void unstick(std::uint32_t place, Cycle now);
  void wake(std::uint32_t link, Cycle when);
  std::uint32_t new_node();
  void free_node(std::uint32_t node);

  LinkNetworkHost& host_;
  std::vector<Link> links_;
  std::vector<std::string> names_;  // by link
  std::vector<Place> places_;
  std::vector<Input> inputs_;            // by place
  std::vector<std::uint64_t> eligible_;  // a bit per input: it has a packet, and that is not known to be stuck
  std::vector<std::uint64_t> stuck_;
  std::vector<std::vector<std::uint32_t>> tables_;
  BigVector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::uint64_t in_use_ = 0;
};

}  // namespace heddle
