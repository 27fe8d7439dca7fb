// Task management as far as an SM that launches child tasks needs it: it completes them and wakes.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "arch/tmdq.h"
#include "common/packet_socket.h"
#include "sm/program_bench.h"

namespace heddle::test {

constexpr std::uint64_t kNestedBase = 0x80000;
constexpr std::uint64_t kOwner = 0x70000;  // TMD of the task whose CTAs run
constexpr std::uint64_t kKernel = 0x60000;

class FakeTmu : public sc_core::sc_module, private EventHandler {
 public:
  static constexpr std::uint32_t kDistance = 5;
  FakeTmu(const sc_core::sc_module_name& name, ProgramBench& bench)
      : sc_core::sc_module(name),
        child_in("child_in", bench.domain, kDistance),
        wake_out("wake_out", bench.domain, kDistance, kUnlimitedCredits),
        bench_(bench) {
    child_in.on_packet<FakeTmu, &FakeTmu::on_child>(*this);
    bench.sm.child_out.bind(child_in);
    wake_out.bind(bench.sm.wake_in);
  }
  PacketIn<protocol::ChildPacket> child_in;
  PacketOut<protocol::WakePacket> wake_out;

  std::vector<protocol::ChildPacket> packets;
  std::vector<std::uint64_t> started;                     // TMDs, in the order of their start
  std::function<Cycle(std::uint64_t record)> runs;        // cycles of a task; empty: they never end
  std::function<void(std::uint64_t record)> on_start;     //
  std::function<void(std::uint64_t record)> before_next;  // of its stream is started
  std::function<void(std::uint64_t record)> on_complete;  //
  std::uint32_t completed = 0;
  std::uint32_t closed = 0;

  std::size_t count(protocol::ChildPacket::Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(packets.begin(), packets.end(), [kind](const auto& packet) { return packet.kind == kind; }));
  }
  void start(std::uint64_t record) {
    started.push_back(record);
    if (on_start) on_start(record);
    if (runs) bench_.domain.schedule_in(runs(record), *this, kComplete, record);
  }

 private:
  enum : std::uint32_t { kComplete, kUncount, kWakes, kGives, kGivesContext };
  static constexpr Cycle kStep = 40;  // of a chain

  void on_child(const protocol::ChildPacket& packet, std::uint32_t) {
    packets.push_back(packet);
    if (packet.kind == protocol::ChildPacket::Kind::start) start(packet.record);
    if (packet.kind == protocol::ChildPacket::Kind::leave) uncount(packet.record);
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    switch (kind) {
      case kComplete:
        return complete(argument);
      case kUncount:
        return uncount(argument);
      case kWakes:
        if (carry_out({arch::MemoryStep::Kind::exchange, argument + arch::context::kHome, arch::kHomeWoken}) ==
            arch::home_of_sm(kBenchSm)) {
          wake_out.send({argument});
        }
        return;
      case kGives:
        return give(bench_.nested.tasks, argument, kGives);
      default:
        return give(bench_.nested.contexts, argument, kGivesContext);
    }
  }
  std::uint64_t word(std::uint64_t address) const { return bench_.l2.get<std::uint64_t>(address); }
  std::uint64_t carry_out(const arch::MemoryStep& step) {
    const std::uint64_t old = word(step.address);
    switch (step.kind) {
      case arch::MemoryStep::Kind::add:
        bench_.l2.put(step.address, old + step.value);
        break;
      case arch::MemoryStep::Kind::compare_exchange:
        if (old == step.compare) bench_.l2.put(step.address, step.value);
        break;
      case arch::MemoryStep::Kind::exchange:
      case arch::MemoryStep::Kind::write:
        bench_.l2.put(step.address, step.value);
        break;
      default:
        break;
    }
    return old;
  }
  // One step at a time, so that those of the SM come between.
  template <class Walk>
  bool step(std::map<std::uint64_t, Walk>& walks, std::uint64_t key, std::uint32_t kind) {
    Walk& walk = walks.at(key);
    walk.answer(carry_out(walk.step()));
    if (walk.over()) return true;
    bench_.domain.schedule_in(kStep, *this, kind, key);
    return false;
  }
  void complete(std::uint64_t record) {
    const std::uint64_t context = word(record + arch::tmd::kContext);
    const std::uint32_t flags = bench_.l2.get<std::uint32_t>(record + arch::tmd::kFlags);
    const bool stream = (flags >> 8 & 3) == static_cast<std::uint32_t>(arch::LaunchMode::stream);
    if (stream) {
      completing_.try_emplace(record, context + arch::context::last_task(flags & 0xFF), record);
      if (!step(completing_, record, kComplete)) return;
      const std::uint64_t next = completing_.at(record).next();
      completing_.erase(record);
      if (before_next) before_next(record);
      if (next != 0) start(next);
    }
    ++completed;
    if (on_complete) on_complete(record);
    if ((flags >> 11 & 1) != 0) carry_out({arch::MemoryStep::Kind::write, record + arch::tmd::kFlags, 0});
    bench_.domain.schedule_in(kStep, *this, kUncount, context);
    bench_.domain.schedule_in(kStep, *this, kGives, record);
  }
  void uncount(std::uint64_t context) {
    const std::uint64_t left =
        carry_out({arch::MemoryStep::Kind::add, context + arch::context::kWork, ~std::uint64_t{0}}) - 1;
    REQUIRE(arch::work_of(left) < 1000);
    if ((arch::work_of(left) == 1 && arch::waiters_of(left) > 0) || arch::some_waiters_of(left) > 0) {
      bench_.domain.schedule_in(kStep, *this, kWakes, context);
    }
    if (arch::work_of(left) > 0) return;
    REQUIRE(arch::waiters_of(left) == 0);
    REQUIRE(arch::some_waiters_of(left) == 0);
    ++closed;
    const std::uint64_t owner = word(context + arch::context::kOwner);
    carry_out({arch::MemoryStep::Kind::add, owner + arch::tmd::kOpen, ~std::uint64_t{0}});
    bench_.domain.schedule_in(kStep, *this, kGivesContext, context);
  }
  void give(const arch::RecordSupply& supply, std::uint64_t record, std::uint32_t kind) {
    giving_.try_emplace(record, supply, record);
    if (step(giving_, record, kind)) giving_.erase(record);
  }

  ProgramBench& bench_;
  std::map<std::uint64_t, arch::CompleteSteps> completing_;
  std::map<std::uint64_t, arch::GiveSteps> giving_;
};

struct NestedBench : ProgramBench {
  explicit NestedBench(TimingMode mode = TimingMode::at, std::uint64_t tasks = 64, std::uint64_t contexts = 8,
                       std::uint32_t instructions = 7, std::uint32_t cache_bytes = 0)
      : ProgramBench(quick(instructions, cache_bytes), mode), tmu("tmu", *this) {
    // Large enough for any number of TMDQs; and, for those who say how many, records behind the pools.
    constexpr std::uint64_t kContextBytes = arch::context::bytes(arch::kMaxTmdqs);
    nested.tasks.pool = {kNestedBase, tasks, arch::kRecordBytes};
    nested.contexts.pool = {kNestedBase + nested.tasks.pool.bytes(), contexts, kContextBytes};
    nested.tasks.spill = {kNestedBase + 0x20000, 0, arch::kRecordBytes};
    nested.contexts.spill = {kNestedBase + 0x30000, 0, kContextBytes};
    nested.chunks = {kNestedBase + 0x40000, 0, arch::kSaveChunk};
    l2.put(kOwner + arch::tmd::kOpen, std::uint64_t{1});
  }
  static sm::SmParams quick(std::uint32_t instructions = 7, std::uint32_t cache_bytes = 0) {
    sm::SmParams params;
    params.nested.launch_instructions = instructions;
    params.fetch.cache_bytes = cache_bytes;
    params.nested.distance = FakeTmu::kDistance;
    params.nested.save = sm::SavePolicy::off;
    return params;
  }
  // A CTA of the task whose TMD is kOwner.
  void start_parent(ListProgram program, std::uint32_t warps = 1, std::uint32_t slot = 0) {
    protocol::CtaStartPacket start = packet(add(std::move(program), warps * 32), slot, slot);
    start.record = kOwner;
    mpc.start(0, start);
  }
  std::uint64_t word(std::uint64_t address) const { return l2.get<std::uint64_t>(address); }
  std::uint64_t task(std::uint64_t index) const { return nested.tasks.pool.record(index); }
  std::uint64_t context(std::uint64_t index = 0) const { return nested.contexts.pool.record(index); }
  // All records are back, and the parent has nothing open but its own run.
  void check_clean() const {
    for (const arch::RecordPool& pool :
         {nested.tasks.pool, nested.tasks.spill, nested.contexts.pool, nested.contexts.spill}) {
      CHECK(word(pool.base + arch::ring::kTaken) == word(pool.base + arch::ring::kGiven));
      CHECK(word(pool.base + arch::ring::kUsed) == 0);
    }
    CHECK(word(kOwner + arch::tmd::kOpen) == 1);
  }
  FakeTmu tmu;
};

// A child of one CTA.
inline arch::ChildLaunch child(std::uint32_t stream = 0, arch::LaunchMode mode = arch::LaunchMode::stream) {
  arch::ChildLaunch launch;
  launch.kernel = kKernel;
  launch.stream = stream;
  launch.mode = mode;
  return launch;
}
inline ListProgram::Child always(const arch::ChildLaunch& launch) {
  return [launch](const Warp&, std::uint32_t) { return launch; };
}

}  // namespace heddle::test
