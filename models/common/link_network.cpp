#include "common/link_network.h"

#include <utility>

#include "common/bits.h"
#include "common/error.h"

namespace heddle {
namespace {

constexpr std::uint64_t bit(std::uint32_t input) { return bits::one(input % 64); }

}  // namespace

std::uint32_t LinkNetwork::add_link(std::string name, double bytes_per_cycle, bool watched) {
  links_.emplace_back(bytes_per_cycle);
  links_.back().watched = watched;
  names_.push_back(std::move(name));
  return static_cast<std::uint32_t>(links_.size() - 1);
}

std::uint32_t LinkNetwork::add_buffer(const BufferSpec& spec) {
  HEDDLE_CHECK(spec.link < links_.size() && spec.capacity > 0 && spec.weight > 0,
               "a buffer of no link, or for nothing");
  const auto number = static_cast<std::uint32_t>(buffers_.size());
  Link& link = links_[spec.link];
  if (link.inputs == 0) {
    link.first = number;
    link.mask = static_cast<std::uint32_t>(eligible_.size());
  }
  HEDDLE_CHECK(link.first + link.inputs == number, "the buffers of a link do not follow each other");
  if (link.inputs++ % 64 == 0) {
    eligible_.push_back(0);
    stuck_.push_back(0);
  }
  Buffer buffer;
  buffer.link = spec.link;
  buffer.owner = spec.owner;
  buffer.capacity = spec.capacity;
  buffer.latency = spec.latency;
  buffers_.push_back(buffer);
  Input input;
  input.upstream = spec.upstream;
  input.quantum = kQuantum * spec.weight;
  inputs_.push_back(input);
  return number;
}

std::uint32_t LinkNetwork::add_egress(std::uint32_t upstream, std::uint32_t owner) {
  Buffer buffer;
  buffer.owner = owner;
  buffers_.push_back(buffer);
  Input input;
  input.upstream = upstream;
  inputs_.push_back(input);
  return static_cast<std::uint32_t>(buffers_.size() - 1);
}

std::uint32_t LinkNetwork::add_table(std::vector<std::uint32_t> buffers) {
  tables_.push_back(std::move(buffers));
  return static_cast<std::uint32_t>(tables_.size() - 1);
}

void LinkNetwork::route_to(std::uint32_t link, std::uint32_t buffer) {
  links_[link].next = Next::fixed;
  links_[link].target = buffer;
}

void LinkNetwork::route_by_table(std::uint32_t link, std::uint32_t table) {
  links_[link].next = Next::table;
  links_[link].target = table;
}

void LinkNetwork::route_by_egress(std::uint32_t link, std::uint32_t first) {
  links_[link].next = Next::egress;
  links_[link].target = first;
}

void LinkNetwork::enter(std::uint32_t buffer, const LinkPacket& packet, Cycle when) {
  HEDDLE_CHECK(buffers_[buffer].count < buffers_[buffer].capacity, "a packet entered where there is no room");
  const std::uint32_t node = new_node();
  nodes_[node].packet = packet;
  set_out(node, buffer, when);
}

bool LinkNetwork::full(std::uint32_t buffer) {
  Buffer& asked = buffers_[buffer];
  if (asked.count < asked.capacity) return false;
  asked.refused = true;
  return true;
}

void LinkNetwork::open(std::uint32_t egress, Cycle now) {
  buffers_[egress].count = 0;
  if (buffers_[egress].refused) unstick(egress, now);
}

void LinkNetwork::on_event(std::uint32_t kind, std::uint64_t argument, Cycle now) {
  const auto number = static_cast<std::uint32_t>(argument);
  if (kind == kArrive) {
    arrive(number, static_cast<std::uint32_t>(argument >> 32), now);
  } else if (links_[number].awaited == now) {
    links_[number].awaited = kNever;
    serve(number, now);
  }
}

void LinkNetwork::set_out(std::uint32_t node, std::uint32_t to, Cycle now) {
  Buffer& buffer = buffers_[to];
  ++buffer.count;
  if (buffer.counted) inputs_[to].bytes->add(nodes_[node].packet.bytes);
  listener_.call_at(now + buffer.latency, kArrive, std::uint64_t{to} << 32 | node);
}

void LinkNetwork::arrive(std::uint32_t node, std::uint32_t number, Cycle now) {
  Buffer& buffer = buffers_[number];
  if (buffer.tail != kNone) {
    nodes_[node].next = kNone;
    nodes_[buffer.tail].next = node;
    buffer.tail = node;
    return;  // the link knows already: it serves those in front, or they are stuck
  }
  Link& link = links_[buffer.link];
  if (link.awaited == kNever && link.pace.free_at(now)) {
    // Nothing else can go now: no arbitration.
    const std::uint32_t to = next_buffer(link, nodes_[node].packet);
    if (has_credit(to)) {
      move_on(link, node, number, to, now);
      return;
    }
  }
  nodes_[node].next = kNone;
  buffer.head = buffer.tail = node;
  const std::uint32_t input = number - link.first;
  eligible_[link.mask + input / 64] |= bit(input);
  if (link.awaited == kNever) serve(buffer.link, now);
}

void LinkNetwork::serve(std::uint32_t id, Cycle now) {
  Link& link = links_[id];
  for (;;) {
    if (!link.pace.free_at(now)) {
      if (first_eligible(link, 0) != kNone) wake(id, link.pace.earliest(now));
      return;
    }
    const std::uint32_t turn = link.current;
    const std::uint32_t number = link.first + turn;
    if ((eligible_[link.mask + turn / 64] & bit(turn)) == 0) {
      if (!next_turn(link)) return;
      continue;
    }
    const LinkPacket& packet = nodes_[buffers_[number].head].packet;
    const std::uint32_t to = next_buffer(link, packet);
    if (!has_credit(to)) {
      stick(link, turn, to);
    } else if (inputs_[number].deficit < packet.bytes) {
      next_turn(link);
    } else {
      pass_on(link, to, now);
    }
  }
}

// The first packet of an input cannot go on before another buffer has room.
void LinkNetwork::stick(Link& link, std::uint32_t input, std::uint32_t to) {
  buffers_[to].refused = true;
  inputs_[link.first + input].stuck_on = to;
  stuck_[link.mask + input / 64] |= bit(input);
  eligible_[link.mask + input / 64] &= ~bit(input);
}

std::uint32_t LinkNetwork::first_eligible(const Link& link, std::uint32_t from) const {
  const std::uint64_t* words = &eligible_[link.mask];
  const std::uint32_t count = (link.inputs + 63) / 64;
  std::uint32_t word = from / 64;
  if (word >= count) return kNone;
  const std::uint64_t rest = words[word] >> (from % 64);
  if (rest != 0) return from + bits::lowest(rest);
  while (++word < count) {
    if (words[word] != 0) return word * 64 + bits::lowest(words[word]);
  }
  return kNone;
}

// The turn passes to the next input whose first packet can go on, which may be the same one. False without any. One
// that is stuck is passed over and earns nothing, or it could pass on far more than its share later.
bool LinkNetwork::next_turn(Link& link) {
  std::uint32_t next = link.current;
  for (;;) {
    next = first_eligible(link, next + 1);
    if (next == kNone) next = first_eligible(link, 0);
    if (next == kNone) return false;
    const std::uint32_t number = link.first + next;
    const std::uint32_t to = next_buffer(link, nodes_[buffers_[number].head].packet);
    if (has_credit(to)) {
      link.current = next;
      inputs_[number].deficit += inputs_[number].quantum;
      return true;
    }
    stick(link, next, to);
  }
}

std::uint32_t LinkNetwork::next_buffer(const Link& link, const LinkPacket& packet) const {
  switch (link.next) {
    case Next::fixed:
      return link.target;
    case Next::table:
      return tables_[link.target][packet.flow];
    case Next::egress:
      return link.target + packet.egress;
    case Next::none:
      break;
  }
  HEDDLE_CHECK(false, "a link leads nowhere");
  return kNone;
}

void LinkNetwork::pass_on(Link& link, std::uint32_t to, Cycle now) {
  const std::uint32_t number = link.first + link.current;
  Buffer& from = buffers_[number];
  const std::uint32_t node = from.head;
  from.head = nodes_[node].next;
  if (from.head == kNone) {
    from.tail = kNone;
    inputs_[number].deficit = 0;  // credit is not saved up
    eligible_[link.mask + link.current / 64] &= ~bit(link.current);
  } else {
    inputs_[number].deficit -= nodes_[node].packet.bytes;
  }
  move_on(link, node, number, to, now);
}

void LinkNetwork::move_on(Link& link, std::uint32_t node, std::uint32_t from, std::uint32_t to, Cycle now) {
  const std::uint32_t bytes = nodes_[node].packet.bytes;
  link.pace.take(now, bytes);
  if (link.bytes != nullptr) link.bytes->add(bytes);
  if (link.watched && nodes_[node].packet.watched) listener_.passed(nodes_[node].packet, now);
  --buffers_[from].count;
  if (buffers_[from].refused) return_credit(from, now);
  Buffer& next = buffers_[to];
  if (next.link != kNone) {
    set_out(node, to, now);
    return;
  }
  const LinkPacket packet = nodes_[node].packet;
  free_node(node);
  next.count = 1;  // until the listener has answered: it may enter packets and open egress ports meanwhile
  if (listener_.eject(next.owner, packet, now)) next.count = 0;
}

void LinkNetwork::return_credit(std::uint32_t buffer, Cycle now) {
  if (inputs_[buffer].upstream != kNone) {
    unstick(buffer, now);
    return;
  }
  buffers_[buffer].refused = false;
  listener_.credit(buffers_[buffer].owner, now);
}

// All inputs of the link before that wait for the buffer try again, in the arbiter's order.
void LinkNetwork::unstick(std::uint32_t buffer, Cycle now) {
  buffers_[buffer].refused = false;
  const std::uint32_t upstream = inputs_[buffer].upstream;
  Link& link = links_[upstream];
  for (std::uint32_t word = 0; word * 64 < link.inputs; ++word) {
    bits::for_each(stuck_[link.mask + word], [&](std::uint32_t lowest) {
      Input& input = inputs_[link.first + word * 64 + lowest];
      if (input.stuck_on != buffer) return;
      input.stuck_on = kNone;
      stuck_[link.mask + word] &= ~bit(lowest);
      eligible_[link.mask + word] |= bit(lowest);
    });
  }
  wake(upstream, now);
}

void LinkNetwork::wake(std::uint32_t link, Cycle when) {
  if (links_[link].awaited <= when) return;
  links_[link].awaited = when;
  listener_.call_at(when, kServe, link);
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
  }
  for (Buffer& buffer : buffers_) {
    buffer.count = 0;
    buffer.head = buffer.tail = kNone;
    buffer.refused = false;
  }
  for (Input& input : inputs_) {
    input.deficit = 0;
    input.stuck_on = kNone;
  }
  eligible_.assign(eligible_.size(), 0);
  stuck_.assign(stuck_.size(), 0);
  nodes_.clear();
  free_ = kNone;
  in_use_ = 0;
}

}  // namespace heddle
