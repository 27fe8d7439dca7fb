#include "arch/line_writers.h"

#include <algorithm>
#include <utility>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::arch {

LineBytes LineBytes::range(std::uint32_t first, std::uint32_t count) {
  using bits::below;
  const std::uint32_t end = first + count;
  return {below(end) & ~below(first), below(end < 64 ? 0 : end - 64) & ~below(first < 64 ? 0 : first - 64)};
}

std::uint32_t LineBytes::first() const { return low != 0 ? bits::lowest(low) : 64 + bits::lowest(high); }

LineWriters::LineWriters(std::uint32_t most, std::function<void(const Write&)> lost)
    : most_(most), lost_(std::move(lost)) {
  HEDDLE_CHECK(most > 0, "a checker that remembers no line");
}

const LineWriters::Line* LineWriters::find(std::uint64_t key) const {
  const auto found = lines_.find(key);
  return found == lines_.end() ? nullptr : &found->second;
}

bool LineWriters::enter(std::uint64_t key, const Write& write, std::uint64_t since, bool& forgot) {
  forgot = lines_.count(key) == 0 && lines_.size() == most_;
  if (forgot) forget_oldest();
  const auto [at, added] = lines_.try_emplace(key);
  if (added) ages_.push_back(key);
  Line& line = at->second;
  take_out(line, write.bytes);
  const auto own = std::find_if(line.begin(), line.end(), [&](const Write& before) {
    return before.task == write.task && before.strong == write.strong && before.when > since;
  });
  if (own != line.end()) {
    own->bytes = own->bytes | write.bytes;
    return false;
  }
  line.push_back(write);
  return true;
}

void LineWriters::take_out(std::uint64_t key, const LineBytes& bytes) {
  const auto found = lines_.find(key);
  if (found != lines_.end()) take_out(found->second, bytes);
}

void LineWriters::take_out(Line& line, const LineBytes& bytes) {
  for (Write& write : line) {
    write.bytes = write.bytes.without(bytes);
    if (!write.bytes.any()) lost_(write);
  }
  line.erase(std::remove_if(line.begin(), line.end(), [](const Write& write) { return !write.bytes.any(); }),
             line.end());
}

void LineWriters::forget_oldest() {
  const auto oldest = lines_.find(ages_.front());
  ages_.pop_front();
  for (const Write& write : oldest->second) lost_(write);
  lines_.erase(oldest);
}

void LineWriters::clear() {
  lines_.clear();
  ages_.clear();
}

}  // namespace heddle::arch
