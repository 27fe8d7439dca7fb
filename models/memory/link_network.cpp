#include "memory/link_network.h"

#include <utility>

#include "common/error.h"

namespace heddle::memory {
namespace {

constexpr std::uint64_t bit(std::uint32_t input) { return std::uint64_t{1} << (input % 64); }

}  // namespace

std::uint32_t LinkNetwork::add_link(std::string name, double bytes_per_cycle) {
  links_.emplace_back(std::move(name), bytes_per_cycle);
  return static_cast<std::uint32_t>(links_.size() - 1);
}

std::uint32_t LinkNetwork::add_place(const PlaceSpec& spec) {
  HEDDLE_CHECK(spec.link < links_.size() && spec.capacity > 0 && spec.weight > 0, "a place of no link, or for nothing");
  const auto number = static_cast<std::uint32_t>(places_.size());
  Link& link = links_[spec.link];
  Place place;
  place.link = spec.link;
  place.input = static_cast<std::uint32_t>(link.inputs.size());
  place.feeder = spec.feeder;
  place.owner = spec.owner;
  place.capacity = spec.capacity;
  place.latency = spec.latency;
  places_.push_back(place);
  Input input;
  input.place = number;
  input.quantum = kQuantum * spec.weight;
  link.inputs.push_back(input);
  link.eligible.resize(place.input / 64 + 1);
  link.stuck.resize(place.input / 64 + 1);
  return number;
}

std::uint32_t LinkNetwork::add_exit(std::uint32_t feeder, std::uint32_t owner) {
  Place place;
  place.feeder = feeder;
  place.owner = owner;
  places_.push_back(place);
  return static_cast<std::uint32_t>(places_.size() - 1);
}

std::uint32_t LinkNetwork::add_table(std::vector<std::uint32_t> places) {
  tables_.push_back(std::move(places));
  return static_cast<std::uint32_t>(tables_.size() - 1);
}

void LinkNetwork::route_to(std::uint32_t link, std::uint32_t place) {
  links_[link].next = Next::fixed;
  links_[link].target = place;
}

void LinkNetwork::route_by_table(std::uint32_t link, std::uint32_t table) {
  links_[link].next = Next::table;
  links_[link].target = table;
}

void LinkNetwork::route_by_exit(std::uint32_t link, std::uint32_t first) {
  links_[link].next = Next::exit;
  links_[link].target = first;
}

void LinkNetwork::enter(std::uint32_t place, const LinkPacket& packet, Cycle when) {
  HEDDLE_CHECK(places_[place].count < places_[place].capacity, "a packet entered where there is no room");
  const std::uint32_t node = new_node();
  nodes_[node].packet = packet;
  set_out(node, place, when);
}

bool LinkNetwork::full(std::uint32_t place) {
  Place& asked = places_[place];
  if (asked.count < asked.capacity) return false;
  asked.refused = true;
  return true;
}

void LinkNetwork::open(std::uint32_t exit, Cycle now) {
  Place& place = places_[exit];
  place.count = 0;
  if (place.refused) unstick(place, exit, now);
}

void LinkNetwork::on_event(std::uint32_t kind, std::uint32_t argument, Cycle now) {
  if (kind == kArrive) {
    arrive(argument, now);
  } else if (links_[argument].awaited == now) {
    links_[argument].awaited = kNever;
    serve(argument, now);
  }
}

void LinkNetwork::set_out(std::uint32_t node, std::uint32_t to, Cycle now) {
  Place& place = places_[to];
  ++place.count;
  nodes_[node].place = to;
  host_.call_at(now + place.latency, kArrive, node);
}

void LinkNetwork::arrive(std::uint32_t node, Cycle now) {
  Place& place = places_[nodes_[node].place];
  Link& link = links_[place.link];
  nodes_[node].next = kNone;
  if (place.tail != kNone) {
    nodes_[place.tail].next = node;
    place.tail = node;
    return;  // the link knows already: it serves those in front, or they are stuck
  }
  place.head = place.tail = node;
  link.eligible[place.input / 64] |= bit(place.input);
  if (link.awaited == kNever) serve(place.link, now);
}

void LinkNetwork::serve(std::uint32_t id, Cycle now) {
  Link& link = links_[id];
  for (;;) {
    const std::uint32_t turn = link.current;
    Input& input = link.inputs[turn];
    if ((link.eligible[turn / 64] & bit(turn)) == 0) {
      if (!next_turn(link)) return;
      continue;
    }
    if (!link.pace.free_at(now)) {
      wake(id, link.pace.earliest(now));
      return;
    }
    const LinkPacket& packet = nodes_[places_[input.place].head].packet;
    const std::uint32_t to = next_place(link, packet);
    Place& next = places_[to];
    if (next.count >= next.capacity) {
      next.refused = true;
      input.stuck_on = to;
      link.stuck[turn / 64] |= bit(turn);
      link.eligible[turn / 64] &= ~bit(turn);
    } else if (input.deficit < packet.bytes) {
      next_turn(link);
    } else {
      pass_on(link, to, now);
    }
  }
}

std::uint32_t LinkNetwork::first_eligible(const Link& link, std::uint32_t from) {
  const auto words = static_cast<std::uint32_t>(link.eligible.size());
  std::uint32_t word = from / 64;
  if (word < words) {
    const std::uint64_t rest = link.eligible[word] >> (from % 64);
    if (rest != 0) return from + static_cast<std::uint32_t>(__builtin_ctzll(rest));
    ++word;
  }
  for (; word < words; ++word) {
    if (link.eligible[word] != 0) return word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(link.eligible[word]));
  }
  return kNone;
}

// The turn passes to the next input that has something, which may be the same one. False without any.
bool LinkNetwork::next_turn(Link& link) {
  std::uint32_t next = first_eligible(link, link.current + 1);
  if (next == kNone) next = first_eligible(link, 0);
  if (next == kNone) return false;
  link.current = next;
  link.inputs[next].deficit += link.inputs[next].quantum;
  return true;
}

std::uint32_t LinkNetwork::next_place(const Link& link, const LinkPacket& packet) const {
  switch (link.next) {
    case Next::fixed:
      return link.target;
    case Next::table:
      return tables_[link.target][packet.pair];
    case Next::exit:
      return link.target + packet.exit;
    case Next::none:
      break;
  }
  HEDDLE_CHECK(false, "a link leads nowhere");
  return kNone;
}

void LinkNetwork::pass_on(Link& link, std::uint32_t to, Cycle now) {
  Input& input = link.inputs[link.current];
  Place& from = places_[input.place];
  const std::uint32_t node = from.head;
  const LinkPacket packet = nodes_[node].packet;
  link.pace.take(now, packet.bytes);
  if (link.bytes != nullptr) link.bytes->add(packet.bytes);
  from.head = nodes_[node].next;
  if (from.head == kNone) {
    from.tail = kNone;
    input.deficit = 0;  // credit is not saved up
    link.eligible[link.current / 64] &= ~bit(link.current);
  } else {
    input.deficit -= packet.bytes;
  }
  --from.count;
  if (from.refused) freed(input.place, now);
  if (places_[to].link != kNone) {
    set_out(node, to, now);
    return;
  }
  free_node(node);
  Place& exit = places_[to];
  exit.count = 1;  // until the host has answered: it may enter packets and open exits meanwhile
  if (host_.leave(exit.owner, packet, now)) exit.count = 0;
}

void LinkNetwork::freed(std::uint32_t number, Cycle now) {
  Place& place = places_[number];
  if (place.feeder != kNone) {
    unstick(place, number, now);
    return;
  }
  place.refused = false;
  host_.room(place.owner, now);
}

// All inputs of the link before that wait for the place try again, in the arbiter's order.
void LinkNetwork::unstick(Place& place, std::uint32_t number, Cycle now) {
  place.refused = false;
  Link& link = links_[place.feeder];
  for (std::size_t word = 0; word < link.stuck.size(); ++word) {
    for (std::uint64_t rest = link.stuck[word]; rest != 0; rest &= rest - 1) {
      const std::size_t input = word * 64 + static_cast<std::size_t>(__builtin_ctzll(rest));
      if (link.inputs[input].stuck_on != number) continue;
      link.inputs[input].stuck_on = kNone;
      link.stuck[word] &= ~(rest & (~rest + 1));
      link.eligible[word] |= rest & (~rest + 1);
    }
  }
  wake(place.feeder, now);
}

void LinkNetwork::wake(std::uint32_t link, Cycle when) {
  if (links_[link].awaited <= when) return;
  links_[link].awaited = when;
  host_.call_at(when, kServe, link);
}

std::uint32_t LinkNetwork::new_node() {
  ++in_use_;
  if (free_ == kNone) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t node = free_;
  free_ = nodes_[node].next;
  return node;
}

void LinkNetwork::free_node(std::uint32_t node) {
  --in_use_;
  nodes_[node].next = free_;
  free_ = node;
}

void LinkNetwork::reset() {
  for (Link& link : links_) {
    link.pace.reset();
    link.awaited = kNever;
    link.current = 0;
    for (Input& input : link.inputs) {
      input.deficit = 0;
      input.stuck_on = kNone;
    }
    link.eligible.assign(link.eligible.size(), 0);
    link.stuck.assign(link.stuck.size(), 0);
  }
  for (Place& place : places_) {
    place.count = 0;
    place.head = place.tail = kNone;
    place.refused = false;
  }
  nodes_.clear();
  free_ = kNone;
  in_use_ = 0;
}

}  // namespace heddle::memory
