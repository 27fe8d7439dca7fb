#include "arch/race_checker.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "arch/memory_op.h"
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

std::uint64_t RaceLine::key(bool translated) const {
  const bool own = translated && subcontext != kPhysical;
  return line_of(address) | (own ? std::uint64_t{subcontext} + 1 : 0) << kSpaceBit;
}

RaceChecker::RaceChecker(const RaceParams& params, bool translated, Stats& stats, const std::string& prefix,
                         std::function<void(const Race&)> found)
    : stats_(stats, prefix + ".check"),
      translated_(translated),
      tell_(std::move(found)),
      lines_(params.lines, [this](const Write& write) { lose(write); }) {
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
  each_line({{address}, bytes},
            [&](const RaceLine& line, const LineBytes& part) { lines_.take_out(line.key(translated_), part); });
}

void RaceChecker::check(std::uint32_t reader, const RaceLine& line, const LineBytes& bytes) {
  const LineWriters::Line* writes = lines_.find(line.key(translated_));
  if (writes == nullptr) return;
  const Task& who = tasks_.at(reader);
  for (const Write& write : *writes) {
    const LineBytes both = write.bytes & bytes;
    MissingSync missing = MissingSync::order;
    if (write.task == reader || !both.any() || !lacks(write, who, missing)) continue;
    report(write.task, reader, missing, line_of(line.address) + both.first());
  }
}

bool RaceChecker::Task::is_in(const PacketSet& set, Moment when) const {
  switch (kind) {
    case Kind::packet:
      return set.has(queue, index, kernels);
    case Kind::host:
      return when <= set.until;
    default:
      return ended <= set.until;
  }
}

Moment RaceChecker::Task::released(Moment when) const {
  const auto at = std::lower_bound(releases.begin(), releases.end(), when);
  return at == releases.end() ? kNever : *at;
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
  const Moment when = writer.released(write.when);
  const bool inside = writer.kind == Kind::packet && reader.kind == Kind::packet && writer.queue == reader.queue &&
                      writer.index == reader.index;
  const bool no_fence = inside || when != kNever;
  const auto complete = [&](const PacketSet& set) { return when <= set.until || writer.is_in(set, write.when); };
  const auto is_released = [&](std::size_t at) { return no_fence || writer.is_in(past.released[at], write.when); };
  const auto is_acquired = [&](std::size_t at) {
    return no_fence ? complete(past.complete_then[at]) : writer.is_in(past.acquired[at], write.when);
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
  Task& task = tasks_.at(writer);
  task.wrote = order_.tick();
  // Nobody can be behind some of a kernel's writes that nothing else lies between.
  bool forgot = false;
  if (lines_.enter(line.key(translated_), {writer, strong, bytes, task.wrote}, order_.marked(), forgot)) ++task.writes;
  if (forgot) stats_.forgotten.add();
}

void RaceChecker::lose(const Write& write) {
  const auto task = tasks_.find(write.task);
  if (--task->second.writes > 0 || task->second.ended == kNever) return;
  tasks_.erase(task);
}

}  // namespace heddle::arch
