// Task management without its sockets, on a time base of the test's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "common/timebase.h"
#include "task/launch_world.h"
#include "task/task_manager.h"

namespace heddle::test {

using protocol::DonePacket;
using protocol::SubmitPacket;
using protocol::TaskPacket;
using task::ChainAnswer;
using task::RecordLine;

// Hands what is sent to a function at once.
template <class Packet>
class Sink final : public PacketSender<Packet> {
 public:
  std::function<void(const Packet&, std::uint32_t)> take = [](const Packet&, std::uint32_t) {};
  std::function<bool()> room = [] { return true; };

 private:
  bool do_can_send(std::uint32_t) override { return room(); }
  void do_send(const Packet& packet, std::uint32_t link) override { take(packet, link); }
  void do_send_at(Cycle, const Packet& packet, std::uint32_t link) override { take(packet, link); }
};

// Between a host, a distributor that works on every task for a time, and a memory that answers after 40 cycles.
class PlainBench final : public task::ChainMemory, private EventHandler {
 public:
  static constexpr Cycle kMemory = 40;
  static constexpr Cycle kStartPath = 30;
  static constexpr std::uint64_t kChannels = std::uint64_t{1} << 42;

  explicit PlainBench(std::uint32_t slots, TimingMode mode = TimingMode::at, bool partitioned = false,
                      const task::TaskParams& task_params = {})
      : timebase(mode, observation),
        params(task_params),
        place{&codes, task::nested_memory(params.nested, {std::uint64_t{1} << 40, 0, 64}), 2,
              params.gap.uses_memory() ? kChannels : 0},
        unit(timebase, "task", "gpu0.task", params, {{}, {1e-9}, kStartPath, slots, partitioned, false, place},
             {done, dispatch_done, task, evict, grow, wake, copy, *this}),
        slots_(slots) {
    unit.dispatcher().set_evicts(true);
    done.take = [this](const DonePacket& packet, std::uint32_t) {
      results[packet.operation] = packet;
      order.push_back(packet.operation);
    };
    task.room = [this] { return held_.size() < slots_; };
    task.take = [this](const TaskPacket& packet, std::uint32_t) { on_task(packet); };
    evict.take = [this](const protocol::EvictPacket& packet, std::uint32_t) {
      at(timebase.now(), [this, operation = packet.operation] { on_evict(operation); });
    };
    wake.take = [this](const protocol::WakePacket& packet, std::uint32_t sm) {
      woken.emplace_back(packet.context, sm);
    };
  }

  void at(Cycle when, std::function<void()> action) {
    actions_.push_back(std::move(action));
    timebase.schedule(when, *this, 0, actions_.size() - 1);
  }
  void submit(Cycle when, const SubmitPacket& packet) {
    at(when, [this, packet] { unit.streams().on_submit(packet, 0); });
  }
  void reset() {
    timebase.reset();
    unit.reset();
    held_.clear();
    left_.clear();
    out_.clear();
    results.clear();
    order.clear();
  }

  GpuObservation observation{"gpu0"};
  PlainTimebase timebase;
  task::TaskParams params;
  arch::CodeStore codes;
  task::LaunchPlace place;
  trees::PlainMemory memory;
  Sink<DonePacket> done;
  Sink<protocol::DispatchDonePacket> dispatch_done;
  Sink<TaskPacket> task;
  Sink<protocol::EvictPacket> evict;
  Sink<protocol::GrowPacket> grow;
  Sink<protocol::WakePacket> wake;
  Sink<protocol::CopyRequestPacket> copy;
  task::TaskManager unit;
  std::function<Cycle(const TaskPacket&)> work = [](const TaskPacket&) { return Cycle{100}; };
  // How far an evicted task has come; after how long nothing of it runs any more (0: at once), or a fault of what runs
  // ends it. Task management hears of that 20 cycles later.
  static constexpr Cycle kHears = 20;
  std::function<protocol::TaskProgress(std::uint32_t)> progress = [](std::uint32_t) {
    return protocol::TaskProgress{};
  };
  std::function<std::optional<Cycle>(std::uint32_t)> gone_after = [](std::uint32_t) { return std::nullopt; };
  std::function<std::optional<Cycle>(std::uint32_t)> fault_after = [](std::uint32_t) { return std::nullopt; };

  std::map<std::uint32_t, DonePacket> results;
  std::vector<std::uint32_t> order;
  std::vector<TaskPacket> sent;
  std::map<std::uint32_t, Cycle> worked;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> woken;  // context, SM
  std::uint32_t evictions = 0;
  std::uint32_t in_vain = 0;  // evicted tasks that came back when they were not known any more

 private:
  struct Out {
    std::uint32_t number = 0;  // of evictions
    bool gone = false;
    bool ended = false;
  };
  void on_event(std::uint32_t, std::uint64_t which) override {
    const std::function<void()> action = std::move(actions_[which]);
    action();
  }
  void on_task(const TaskPacket& packet) {
    const Cycle now = timebase.now();
    sent.push_back(packet);
    if (packet.resumed && !comes_back(packet)) {
      ++in_vain;
      at(now, [this] { unit.dispatcher().on_credit(0); });
      return;
    }
    REQUIRE(packet.resumed == (left_.count(packet.operation) != 0));
    if (!packet.resumed) left_[packet.operation] = {now, work(packet)};
    held_[packet.operation] = now;
    at(now + left_[packet.operation].second, [this, operation = packet.operation, now] {
      const auto held = held_.find(operation);
      if (held == held_.end() || held->second != now) return;  // it was evicted
      worked[operation] += timebase.now() - now;
      const Cycle start = left_[operation].first;
      held_.erase(held);
      left_.erase(operation);
      unit.dispatcher().on_task_done({operation, start, timebase.now()}, 0);
      unit.dispatcher().on_credit(0);
    });
  }
  bool comes_back(const TaskPacket& packet) {
    const auto found = out_.find(packet.operation);
    REQUIRE(found != out_.end());
    const Out out = found->second;
    if (packet.anew) REQUIRE(out.gone);
    if (out.ended || out.gone != packet.anew) return false;
    out_.erase(found);
    return true;
  }
  // Unless it is not out any more, or has been gone or ended.
  void when_out(std::optional<Cycle> after, std::uint32_t operation, std::function<void(Out&)> action) {
    if (!after) return;
    at(timebase.now() + *after, [this, operation, number = evictions, action = std::move(action)] {
      const auto found = out_.find(operation);
      if (found == out_.end() || found->second.number != number || found->second.gone || found->second.ended) return;
      action(found->second);
    });
  }
  void on_evict(std::uint32_t operation) {
    const auto held = held_.find(operation);
    if (held == held_.end()) {
      unit.dispatcher().on_evicted({operation, false, false}, 0);
      return;
    }
    const Cycle so_far = timebase.now() - held->second;
    worked[operation] += so_far;
    left_[operation].second -= so_far;
    held_.erase(held);
    ++evictions;
    out_[operation] = {evictions, false, false};
    const std::optional<Cycle> gone = gone_after(operation);
    protocol::EvictedPacket packet{operation, true, true, progress(operation)};
    packet.gone = out_[operation].gone = gone == Cycle{0};
    unit.dispatcher().on_evicted(packet, 0);
    unit.dispatcher().on_credit(0);
    when_out(gone, operation, [this, operation](Out& out) {
      out.gone = true;
      at(timebase.now() + kHears, [this, operation] {
        protocol::EvictedPacket notice{operation, false, false};
        notice.gone = true;
        unit.dispatcher().on_evicted(notice, 0);
      });
    });
    when_out(fault_after(operation), operation, [this, operation](Out& out) {
      out.ended = true;
      const protocol::TaskDonePacket ended{operation, left_[operation].first, timebase.now(), false, true};
      left_.erase(operation);
      at(timebase.now() + kHears, [this, ended] { unit.dispatcher().on_task_done(ended, 0); });
    });
  }
  void answer(std::uint32_t tag, std::uint64_t old, const RecordLine& data) {
    at(timebase.now() + kMemory, [this, tag, old, data] {
      ChainAnswer answer;
      answer.tag = tag;
      answer.ok = true;
      answer.old = old;
      answer.data = data;
      unit.scheduler().answered(answer);
    });
  }
  void read_line(std::uint64_t address, std::optional<std::uint8_t>, std::uint32_t tag) override {
    answer(tag, 0, memory.line(address));
  }
  void write_line(std::uint64_t address, const RecordLine& line, std::uint32_t tag) override {
    memory.write(address, line);
    answer(tag, 0, {});
  }
  void step(const arch::MemoryStep& step, std::uint32_t tag) override {
    const std::uint64_t old = memory.step(step);
    RecordLine data{};
    arch::put_number(data, 0, 8, old);
    answer(tag, old, data);
  }

  const std::uint32_t slots_;
  std::vector<std::function<void()>> actions_;
  std::map<std::uint32_t, Out> out_;                       // evicted
  std::map<std::uint32_t, Cycle> held_;                    // in the table, since
  std::map<std::uint32_t, std::pair<Cycle, Cycle>> left_;  // start, and work that is left
};

inline SubmitPacket kernel(std::uint32_t operation, std::uint32_t stream, std::int32_t priority = 0) {
  SubmitPacket packet;
  packet.operation = operation;
  packet.stream = stream;
  packet.priority = priority;
  packet.kernel.grid = {4, 1, 1};
  packet.kernel.block = {64, 1, 1};
  return packet;
}

}  // namespace heddle::test
