#include "common/event_queue.h"

#include <algorithm>
#include <utility>

#include "common/bits.h"

namespace heddle {

EventQueue::EventQueue() : wheel_(kBuckets) {}

Cycle EventQueue::next_near() const {
  if (near_size_ == 0) return kNever;
  // The wheel is searched in a circle from the bucket of now_.
  const auto start = static_cast<std::uint32_t>(now_ % kBuckets);
  const auto distance = [&](std::uint32_t index) { return (index + kBuckets - start) % kBuckets; };
  const std::uint32_t first_word = start / 64;
  const std::uint64_t here = occupied_[first_word] >> (start % 64);
  if (here != 0) return now_ + bits::lowest(here);
  constexpr std::uint32_t kGroups = kWords / 64;
  for (std::uint32_t step = 0; step <= kGroups; ++step) {
    const std::uint32_t group = (first_word / 64 + step) % kGroups;
    std::uint64_t words = occupied_words_[group];
    if (step == 0) {
      const std::uint32_t skip = first_word % 64 + 1;
      words = skip == 64 ? 0 : words >> skip << skip;
    }
    if (words == 0) continue;
    const std::uint32_t word = group * 64 + bits::lowest(words);
    return now_ + distance(word * 64 + bits::lowest(occupied_[word]));
  }
  return kNever;
}

Cycle EventQueue::next() const {
  const Cycle near = next_near();
  // A far event can be the earliest only while the wheel is empty: advance_to() keeps the wheel's window filled.
  if (near != kNever) return near;
  return far_.empty() ? kNever : far_.front().when;
}

void EventQueue::advance_to(Cycle when) {
  now_ = when;
  while (!far_.empty() && far_.front().when - now_ < kBuckets) {
    std::pop_heap(far_.begin(), far_.end(), Later{});
    const FarEvent event = far_.back();
    far_.pop_back();
    insert_near(event.when, *event.handler, event.kind, event.argument, event.foreign);
  }
}

void EventQueue::clear_bit(std::uint32_t bucket) {
  occupied_[bucket / 64] &= ~(std::uint64_t{1} << (bucket % 64));
  if (occupied_[bucket / 64] == 0) occupied_words_[bucket / 4096] &= ~(std::uint64_t{1} << (bucket / 64 % 64));
}

bool EventQueue::cancel(Cycle when, const EventHandler& handler, std::uint32_t kind, std::uint64_t argument) {
  if (when < now_) return false;
  if (when - now_ < kBuckets) return cancel_near(when, handler, kind, argument);
  const auto found = std::find_if(far_.begin(), far_.end(), [&](const FarEvent& event) {
    return event.when == when && event.handler == &handler && event.kind == kind && event.argument == argument;
  });
  if (found == far_.end()) return false;
  take_far(static_cast<std::size_t>(found - far_.begin()));
  --size_;
  return true;
}

// The last one takes its place, and goes up or down from there.
void EventQueue::take_far(std::size_t place) {
  far_[place] = far_.back();
  far_.pop_back();
  if (place == far_.size()) return;
  std::push_heap(far_.begin(), far_.begin() + static_cast<std::ptrdiff_t>(place) + 1, Later{});
  for (;;) {
    std::size_t first = place;
    for (std::size_t child = 2 * place + 1; child <= 2 * place + 2 && child < far_.size(); ++child) {
      if (Later{}(far_[first], far_[child])) first = child;
    }
    if (first == place) return;
    std::swap(far_[place], far_[first]);
    place = first;
  }
}

bool EventQueue::cancel_near(Cycle when, const EventHandler& handler, std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(when % kBuckets);
  Bucket& bucket = wheel_[index];
  std::uint32_t before = kNone;
  std::uint32_t node = bucket.head;
  while (node != kNone) {
    const Event& event = nodes_[node];
    if (event.handler == &handler && event.kind == kind && event.argument == argument) break;
    before = node;
    node = event.next;
  }
  if (node == kNone) return false;
  (before == kNone ? bucket.head : nodes_[before].next) = nodes_[node].next;
  if (bucket.tail == node) bucket.tail = before;
  if (bucket.foreign_tail == node) bucket.foreign_tail = before;  // foreign ones are in front
  if (bucket.head == kNone) clear_bit(index);
  nodes_[node].next = free_;
  free_ = node;
  --near_size_;
  --size_;
  return true;
}

bool EventQueue::far_open(std::uint64_t count) const {
  return std::any_of(far_.begin(), far_.end(), [count](const FarEvent& event) { return event.order < count; });
}

// See common/storage.h.
void EventQueue::look_ahead(std::uint32_t node) const {
  const auto ask = [this, &node](CacheWarmer::Ahead ahead) {
    if (node == kNone) return;
    const Event& event = nodes_[node];
    const CacheWarmer* warmer = event.handler->warmer();
    if (warmer != nullptr) warmer->warm(event.kind, event.argument, ahead);
  };
  const auto pass = [this, &node] {
    if (node != kNone) node = nodes_[node].next;
  };
  ask(CacheWarmer::Ahead::next);
  pass();
  ask(CacheWarmer::Ahead::near);
  pass();
  pass();
  ask(CacheWarmer::Ahead::far);
  pass();
  if (node == kNone) return;
  warm_line(nodes_[node].handler);
  if (nodes_[node].next != kNone) warm_line(&nodes_[nodes_[node].next]);
}

std::uint64_t EventQueue::run_cycle() {
  advance_to(next());
  const auto index = static_cast<std::uint32_t>(now_ % kBuckets);
  std::uint64_t count = 0;
  while (wheel_[index].head != kNone) {
    const std::uint32_t node = wheel_[index].head;
    const Event event = nodes_[node];
    Bucket& bucket = wheel_[index];
    bucket.head = event.next;
    if (bucket.foreign_tail == node) bucket.foreign_tail = kNone;
    if (bucket.head == kNone) {
      bucket.tail = kNone;
      clear_bit(index);
    }
    nodes_[node].next = free_;
    free_ = node;
    --near_size_;
    --size_;
    ++count;
    look_ahead(event.next);
    running_ = event.handler;
    event.handler->on_event(event.kind, event.argument);
  }
  executed_ += count;
  return count;
}

void EventQueue::clear() {
  nodes_.clear();
  free_ = kNone;
  std::fill(wheel_.begin(), wheel_.end(), Bucket{});
  occupied_.fill(0);
  occupied_words_.fill(0);
  far_.clear();
  now_ = 0;
  running_ = nullptr;
  size_ = near_size_ = 0;
}

}  // namespace heddle
