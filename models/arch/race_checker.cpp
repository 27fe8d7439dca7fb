#include "arch/race_checker.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "arch/memory_op.h"
#include "common/bits.h"
#include "common/error.h"
#include "common/param_table.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kSpaceBit = 56;  // of a key; addresses of memory are smaller

const char* missing_text(MissingSync missing) {
  constexpr std::array<const char*, 5> kTexts{
      "nothing orders the two: no signal, barrier bit or barrier packet, and the host did not know of the end",
      "no release fence lies behind the writer", "the release fence behind the writer has agent scope, not system",
      "no acquire fence lies before the reader", "the acquire fence before the reader has agent scope, not system"};
  return kTexts[static_cast<std::size_t>(missing)];
}

}  // namespace

void RaceParams::describe(ParamTable<RaceParams>& t) {
  t.add(
      "races", &RaceParams::races,
      "whether reads are reported of what another kernel has written without an order, a release or an acquire between "
      "the two that packets would need (PKT-14); it changes nothing else, and takes time of the computer",
      "choice: off");
  t.add("lines", &RaceParams::lines, {heddle::Unit::count, 1, 1U << 30},
        "lines of memory of which the checker remembers who has written them; the oldest is forgotten for one more",
        "choice: 128 MiB of memory");
}

std::string Race::text() const {
  return fmt::format("{} reads at {:#x} what {} has written, and {}", reader, address, writer, missing_text(missing));
}

LineBytes LineBytes::range(std::uint32_t first, std::uint32_t count) {
  using bits::below;
  const std::uint32_t end = first + count;
  return {below(end) & ~below(first), below(end < 64 ? 0 : end - 64) & ~below(first < 64 ? 0 : first - 64)};
}

std::uint32_t LineBytes::first() const { return low != 0 ? bits::lowest(low) : 64 + bits::lowest(high); }

RaceChecker::RaceChecker(const RaceParams& params, bool translated, Stats& stats, const std::string& prefix,
                         std::function<void(const Race&)> found)
    : most_lines_(params.lines), stats_(stats, prefix + ".check"), translated_(translated), tell_(std::move(found)) {
  HEDDLE_CHECK(params.lines > 0, "a checker that remembers no line");
  reset();
}

void RaceChecker::reset() {
  order_.reset();
  operations_.clear();
  tasks_.clear();
  tasks_[kHost] = {};
  tasks_[kHost].kind = Kind::host;
  tasks_[kHost].name = "the host";
  lines_.clear();
  ages_.clear();
  seen_.clear();
  races_.clear();
}

void RaceChecker::start(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name,
                        FenceScope acquires) {
  const PacketPast* past = order_.past_of(part.queue, part.index);
  HEDDLE_CHECK(past != nullptr, "a kernel of a packet that nobody has published");
  PacketPast its = *past;
  its.acquire(acquires);
  const std::uint32_t number = next_task_++;
  operations_[operation] = number;
  Task& task = tasks_[number];
  task.kind = Kind::packet;
  task.name = name;
  task.queue = order_.number_of(part.queue);
  task.index = part.index;
  task.kernels = part.bits();
  task.past = std::make_shared<const PacketPast>(std::move(its));
}

void RaceChecker::kernel_starts(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name) {
  start(operation, part, name, FenceScope::none);
}

void RaceChecker::copy_starts(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name) {
  start(operation, part, name, FenceScope::agent);
}

// A kernel that no packet has launched has acquired by its start.
std::uint32_t RaceChecker::task_of(std::uint64_t operation, const Name& name) {
  const auto [at, added] = operations_.try_emplace(operation, next_task_);
  if (added) {
    Task& task = tasks_[next_task_++];
    task.name = name();
    task.acquired = order_.mark();
  }
  return at->second;
}

void RaceChecker::ends(std::uint64_t operation) {
  const auto found = operations_.find(operation);
  if (found == operations_.end()) return;
  const auto task = tasks_.find(found->second);
  operations_.erase(found);
  task->second.ended = order_.mark();
  task->second.past.reset();
  if (task->second.writes == 0) tasks_.erase(task);
}

void RaceChecker::program_acquires(std::uint64_t operation, const Name& name) {
  tasks_.at(task_of(operation, name)).acquired = order_.mark();
}

void RaceChecker::program_releases(std::uint64_t operation, const Name& name) {
  Task& task = tasks_.at(task_of(operation, name));
  if (task.past != nullptr && !task.heard_of) order_.host_hears(*task.past);
  task.heard_of = true;
  if (task.releases.empty() || task.releases.back() < task.wrote) task.releases.push_back(order_.mark());
}

std::uint64_t RaceChecker::key_of(const RaceLine& line) const {
  const bool own = translated_ && line.subcontext != RaceLine::kPhysical;
  return line_of(line.address) | (own ? std::uint64_t{line.subcontext} + 1 : 0) << kSpaceBit;
}

void RaceChecker::reads(std::uint64_t operation, const RaceLine& line, const LineBytes& bytes, const Name& name) {
  check(task_of(operation, name), line, bytes);
}

void RaceChecker::writes(std::uint64_t operation, const RaceLine& line, const LineBytes& bytes, bool strong,
                         const Name& name) {
  enter(task_of(operation, name), line, bytes, strong);
}

template <class Visit>
void RaceChecker::each_line(const Range& range, Visit&& visit) {
  for (std::uint64_t done = 0; done < range.bytes;) {
    const std::uint64_t at = range.at.address + done;
    const auto offset = static_cast<std::uint32_t>(at % kLineBytes);
    const std::uint64_t count = std::min<std::uint64_t>(range.bytes - done, kLineBytes - offset);
    visit(RaceLine{line_of(at), range.at.subcontext}, LineBytes::range(offset, static_cast<std::uint32_t>(count)));
    done += count;
  }
}

void RaceChecker::copy_reads(std::uint64_t operation, const Range& range) {
  const std::uint32_t task = operations_.at(operation);
  each_line(range, [&](const RaceLine& line, const LineBytes& bytes) { check(task, line, bytes); });
}

void RaceChecker::copy_writes(std::uint64_t operation, const Range& range) {
  const std::uint32_t task = operations_.at(operation);
  each_line(range, [&](const RaceLine& line, const LineBytes& bytes) { enter(task, line, bytes, false); });
}

void RaceChecker::host_reads(std::uint64_t address, std::uint64_t bytes) {
  each_line({{address}, bytes}, [&](const RaceLine& line, const LineBytes& part) { check(kHost, line, part); });
}

void RaceChecker::host_writes(std::uint64_t address, std::uint64_t bytes) {
  each_line({{address}, bytes}, [&](const RaceLine& line, const LineBytes& part) { enter(kHost, line, part, false); });
}

void RaceChecker::forget(std::uint64_t address, std::uint64_t bytes) {
  each_line({{address}, bytes}, [&](const RaceLine& line, const LineBytes& part) {
    const auto found = lines_.find(key_of(line));
    if (found != lines_.end()) take_out(found->second, part);
  });
}

void RaceChecker::check(std::uint32_t reader, const RaceLine& line, const LineBytes& bytes) {
  const auto found = lines_.find(key_of(line));
  if (found == lines_.end()) return;
  const Task& who = tasks_.at(reader);
  for (const Write& write : found->second) {
    const LineBytes both = write.bytes & bytes;
    MissingSync missing = MissingSync::order;
    if (write.task == reader || !both.any() || !lacks(write, who, missing)) continue;
    report(write.task, reader, missing, line_of(line.address) + both.first());
  }
}

bool RaceChecker::has(const PacketSet& set, const Task& writer, Moment when) {
  switch (writer.kind) {
    case Kind::packet:
      return set.has(writer.queue, writer.index, writer.kernels);
    case Kind::host:
      return when <= set.until;
    default:
      return writer.ended <= set.until;
  }
}

bool RaceChecker::lacks(const Write& write, const Task& reader, MissingSync& missing) {
  if (write.when <= reader.acquired) return false;
  const bool for_host = reader.kind == Kind::host;
  if (for_host && write.strong) return false;
  missing = MissingSync::order;
  if (reader.kind == Kind::other) return true;
  const Task& writer = tasks_.at(write.task);
  const PacketPast& past = for_host ? order_.host() : *reader.past;
  const std::size_t scope = for_host || writer.kind == Kind::host ? 1 : 0;
  // What a program has released itself needs no release behind it, and the host may know of it while the program runs.
  // Neither does what another kernel of the same packet has written: each follows when that has completed (PKT-07).
  const Moment when = released(writer, write);
  const bool inside = writer.kind == Kind::packet && reader.kind == Kind::packet && writer.queue == reader.queue &&
                      writer.index == reader.index;
  const bool no_fence = inside || when != kNever;
  const auto complete = [&](const PacketSet& set) { return when <= set.until || has(set, writer, write.when); };
  const auto is_released = [&](std::size_t at) { return no_fence || has(past.released[at], writer, write.when); };
  const auto is_acquired = [&](std::size_t at) {
    return no_fence ? complete(past.complete_then[at]) : has(past.acquired[at], writer, write.when);
  };
  if (!complete(past.order)) return true;
  if (!is_released(scope)) {
    missing = scope == 1 && is_released(0) ? MissingSync::wider_release : MissingSync::release;
    return true;
  }
  if (for_host || is_acquired(scope)) return false;
  missing = scope == 1 && is_acquired(0) ? MissingSync::wider_acquire : MissingSync::acquire;
  return true;
}

Moment RaceChecker::released(const Task& writer, const Write& write) {
  const auto at = std::lower_bound(writer.releases.begin(), writer.releases.end(), write.when);
  return at == writer.releases.end() ? kNever : *at;
}

void RaceChecker::report(std::uint32_t writer, std::uint32_t reader, MissingSync missing, std::uint64_t address) {
  stats_.reads.add();
  if (++seen_[{writer, reader, missing}] > 1) return;
  stats_.races.add();
  if (races_.size() >= kReported) return;
  races_.push_back({tasks_.at(writer).name, tasks_.at(reader).name, missing, address});
  if (tell_) tell_(races_.back());
}

void RaceChecker::enter(std::uint32_t writer, const RaceLine& line, const LineBytes& bytes, bool strong) {
  if (!bytes.any()) return;
  const auto [at, added] = lines_.try_emplace(key_of(line));
  if (added) {
    ages_.push_back(at->first);
    if (lines_.size() > most_lines_) forget_oldest();
  }
  Line& writes = lines_[key_of(line)];
  take_out(writes, bytes);
  Task& task = tasks_.at(writer);
  // Nobody can be behind some of a kernel's writes that nothing else lies between.
  const auto own = std::find_if(writes.begin(), writes.end(), [&](const Write& write) {
    return write.task == writer && write.strong == strong && write.when > order_.marked();
  });
  task.wrote = order_.tick();
  if (own != writes.end()) {
    own->bytes = own->bytes | bytes;
    return;
  }
  writes.push_back({writer, strong, bytes, task.wrote});
  ++task.writes;
}

void RaceChecker::take_out(Line& line, const LineBytes& bytes) {
  for (Write& write : line) {
    write.bytes = write.bytes.without(bytes);
    if (!write.bytes.any()) lose(write);
  }
  line.erase(std::remove_if(line.begin(), line.end(), [](const Write& write) { return !write.bytes.any(); }),
             line.end());
}

void RaceChecker::lose(const Write& write) {
  const auto task = tasks_.find(write.task);
  if (--task->second.writes > 0 || task->second.ended == kNever) return;
  tasks_.erase(task);
}

void RaceChecker::forget_oldest() {
  const auto oldest = lines_.find(ages_.front());
  ages_.pop_front();
  for (const Write& write : oldest->second) lose(write);
  lines_.erase(oldest);
  stats_.forgotten.add();
}

}  // namespace heddle::arch
