// Task management between a host, a distributor that evicts, a memory, and SMs that launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "support/scripted_host.h"
#include "support/sim_fixture.h"
#include "task/task_unit.h"

namespace heddle::test {

// Works on every task for a time while it has a slot; what is left goes on when it comes back.
class FakeTable : public sc_core::sc_module, private EventHandler {
 public:
  FakeTable(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        task_in("task_in", domain, 0, CreditReturn::by_owner),
        done_out("done_out", domain, 20, kUnlimitedCredits),
        evict_in("evict_in", domain, 0),
        evicted_out("evicted_out", domain, 20, kUnlimitedCredits),
        grow_in("grow_in", domain, 0),
        idle_out("idle_out", domain, 20, kUnlimitedCredits),
        domain_(domain) {
    task_in.on_packet<FakeTable, &FakeTable::on_task>(*this);
    evict_in.on_packet<FakeTable, &FakeTable::on_evict>(*this);
    grow_in.on_packet<FakeTable, &FakeTable::on_grow>(*this);
  }
  PacketIn<protocol::TaskPacket> task_in;
  PacketOut<protocol::TaskDonePacket> done_out;
  PacketIn<protocol::EvictPacket> evict_in;
  PacketOut<protocol::EvictedPacket> evicted_out;
  PacketIn<protocol::GrowPacket> grow_in;
  PacketOut<protocol::IdlePacket> idle_out;

  std::function<Cycle(const protocol::TaskPacket&)> work = [](const protocol::TaskPacket&) { return Cycle{100}; };
  std::function<bool()> evicts = [] { return true; };
  std::function<void(const protocol::TaskPacket&)> on_end = [](const protocol::TaskPacket&) {};
  std::vector<protocol::TaskPacket> tasks;  // as they were sent
  std::vector<std::uint32_t> evicted;
  std::map<std::uint32_t, Cycle> worked;
  std::map<std::uint32_t, std::uint64_t> entries;  // of queue tasks
  std::uint32_t held = 0;
  std::uint32_t most_held = 0;

 private:
  struct Entry {
    protocol::TaskPacket task;
    Cycle start = 0;
    Cycle since = 0;
    Cycle left = 0;
    bool here = false;
    bool last = false;
    bool faulted = false;
    std::uint64_t total = 0;
    std::uint64_t generation = 0;
  };
  static constexpr std::uint32_t kEnd = 0;
  static constexpr std::uint32_t kEntries = 1;

  void on_task(const protocol::TaskPacket& task, std::uint32_t) {
    tasks.push_back(task);
    most_held = std::max(most_held, ++held);
    Entry& entry = entries_[task.operation];
    HEDDLE_CHECK(task.resumed == (entry.start != 0), "a task that is new, or is not");
    if (!task.resumed) {
      entry.task = task;
      entry.left = work(task);
      entry.start = domain_.now();
    }
    entry.here = true;
    entry.since = domain_.now();
    if (task.kind != protocol::TaskKind::queue) at(entry, entry.left, kEnd);
  }
  void at(Entry& entry, Cycle cycles, std::uint32_t kind) {
    domain_.schedule_in(cycles, *this, kind, ++entry.generation << 32 | entry.task.operation);
  }
  void on_evict(const protocol::EvictPacket& packet, std::uint32_t) {
    const auto found = entries_.find(packet.operation);
    if (found == entries_.end() || !found->second.here || !evicts()) {
      evicted_out.send({packet.operation, false, false});
      return;
    }
    Entry& entry = found->second;
    const Cycle done = domain_.now() - entry.since;
    entry.left -= std::min(done, entry.left);
    worked[packet.operation] += done;
    entry.here = false;
    ++entry.generation;
    --held;
    evicted.push_back(packet.operation);
    evicted_out.send({packet.operation, true, true});
    task_in.return_credit();
  }
  void on_grow(const protocol::GrowPacket& grow, std::uint32_t) {
    const auto found = entries_.find(grow.operation);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    if (grow.broken) {
      entry.faulted = entry.last = true;
      at(entry, 50, kEntries);
      return;
    }
    if (entry.faulted) return;
    HEDDLE_CHECK(!entry.last, "a queue task grew behind its last entry");
    entry.total += grow.entries;
    entries[grow.operation] = entry.total;
    entry.last = grow.last;
    at(entry, 50, kEntries);
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    const auto operation = static_cast<std::uint32_t>(argument);
    const auto found = entries_.find(operation);
    if (found == entries_.end() || (found->second.generation & 0xFFFF'FFFF) != argument >> 32) return;
    Entry& entry = found->second;
    if (kind == kEntries && !entry.last) {
      idle_out.send({operation, entry.total});
      return;
    }
    worked[operation] += domain_.now() - entry.since;
    const Entry ended = entry;
    entries_.erase(found);
    --held;
    on_end(ended.task);
    done_out.send({operation, ended.start, domain_.now(), false, ended.faulted});
    task_in.return_credit();
  }
  const char* handler_name() const override { return name(); }

  Domain& domain_;
  std::map<std::uint32_t, Entry> entries_;
};

// A mebibyte that does every request at once, and answers a while later.
class AtomicMemory : public sc_core::sc_module, private EventHandler {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;
  AtomicMemory(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), in("in", domain), domain_(domain), bytes_(kBytes) {
    in.connect<AtomicMemory, &AtomicMemory::on_request, &AtomicMemory::on_room, &AtomicMemory::on_blocking,
               &AtomicMemory::on_debug>(*this);
  }
  MemoryIn in;
  std::uint64_t served = 0;

  std::uint64_t get(std::uint64_t address, std::uint32_t bytes = 8) const {
    std::uint64_t value = 0;
    for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | bytes_.at(address + i);
    return value;
  }
  void put(std::uint64_t address, std::uint64_t value, std::uint32_t bytes = 8) {
    for (std::uint32_t i = 0; i < bytes; ++i) bytes_.at(address + i) = static_cast<std::uint8_t>(value >> 8 * i);
  }
  std::uint64_t add(std::uint64_t address, std::uint64_t value) {
    const std::uint64_t old = get(address);
    put(address, old + value);
    return old;
  }
  template <class Line>
  void write(std::uint64_t address, const Line& line) {
    std::copy(line.begin(), line.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(address));
  }

 private:
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    ++served;
    payloads_.push_back(&payload);
    payload.set_response_status(serve(payload));
    domain_.schedule(arrival + 40, *this, 0, payloads_.size() - 1);
    return true;
  }
  tlm::tlm_response_status serve(tlm::tlm_generic_payload& payload) {
    const std::uint64_t address = payload.get_address();
    const std::uint32_t bytes = payload.get_data_length();
    if (address >= kBytes || bytes > kBytes - address) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    protocol::MemoryExtension& extension = *protocol::extension_of(payload);
    // Kernel objects and code are read as whoever launches sees them: here nothing is translated.
    HEDDLE_CHECK(extension.physical || payload.is_read(), "a record of task management that would be translated");
    std::uint8_t* data = bytes_.data() + address;
    if (payload.is_read()) {
      std::copy_n(data, bytes, payload.get_data_ptr());
    } else if (payload.is_write()) {
      std::copy_n(payload.get_data_ptr(), bytes, data);
    } else {
      protocol::AtomicLane& lane = extension.lane[0];
      lane.old = get(address);
      put(address, arch::atomic_result(extension.atomic, extension.type, lane.old, lane.operand, lane.compare));
    }
    return tlm::TLM_OK_RESPONSE;
  }
  void on_event(std::uint32_t, std::uint64_t which) override { in.respond(*payloads_[which], domain_.now()); }
  void on_room(std::uint32_t, Cycle) {}
  void on_blocking(tlm::tlm_generic_payload&, std::uint32_t, sc_core::sc_time&) {}
  unsigned on_debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }
  const char* handler_name() const override { return name(); }

  Domain& domain_;
  std::vector<std::uint8_t> bytes_;
  std::vector<tlm::tlm_generic_payload*> payloads_;
};

// SM 0: does things at given cycles, and notes wakes.
class FakeSm : public sc_core::sc_module, private EventHandler {
 public:
  FakeSm(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        child_out("child_out", domain, 10, kUnlimitedCredits),
        wake_in("wake_in", domain, 0),
        domain_(domain) {
    wake_in.on_packet<FakeSm, &FakeSm::on_wake>(*this);
  }
  PacketOut<protocol::ChildPacket> child_out;
  PacketIn<protocol::WakePacket> wake_in;
  std::vector<std::uint64_t> woken;  // contexts

  void at(Cycle when, std::function<void()> action) {
    actions_.push_back(std::move(action));
    domain_.schedule(when, *this, 0, actions_.size() - 1);
  }
  void send(Cycle when, const protocol::ChildPacket& packet) {
    at(when, [this, packet] { child_out.send(packet); });
  }

 private:
  void on_event(std::uint32_t, std::uint64_t which) override {
    const std::function<void()> action = std::move(actions_[which]);
    action();
  }
  void on_wake(const protocol::WakePacket& packet, std::uint32_t) { woken.push_back(packet.context); }
  const char* handler_name() const override { return name(); }
  Domain& domain_;
  std::vector<std::function<void()>> actions_;
};

inline task::LaunchPlace launch_place(arch::CodeStore& codes, const task::TaskParams& params) {
  task::NestedParams nested = params.nested;
  nested.pending_launches = nested.contexts = 64;
  return {&codes, task::nested_memory(nested, {AtomicMemory::kBytes, AtomicMemory::kBytes, 64}), 1};
}

struct TaskLaunchBench {
  explicit TaskLaunchBench(std::uint32_t slots = 4, TimingMode mode = TimingMode::at)
      : domain("domain", 1.0, mode, 0, observation),
        place(launch_place(codes, params)),
        unit("task", domain, "task", params, arch::SmLimits{}, 30, {slots, false}, place),
        table("table", domain),
        memory("memory", domain),
        sm("sm", domain),
        host("host") {
    host.submit_out.bind(unit.submit_in);
    unit.done_out.bind(host.done_in);
    unit.task_out.bind(table.task_in);
    table.done_out.bind(unit.task_done_in);
    unit.evict_out.bind(table.evict_in);
    table.evicted_out.bind(unit.evicted_in);
    unit.grow_out.bind(table.grow_in);
    table.idle_out.bind(unit.idle_in);
    unit.memory_out.bind(memory.in);
    sm.child_out.bind(unit.child_in[0]);
    unit.wake_out.bind(sm.wake_in);
    unit.on_fault([this](const arch::FaultRecord& fault) { faults.push_back(fault); });
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.task." + name); }

  double end_of(std::uint32_t operation) const { return static_cast<double>(host.results.at(operation).end) * 1e-3; }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  task::TaskParams params;
  arch::CodeStore codes;
  Domain domain;
  task::LaunchPlace place;
  task::TaskUnit unit;
  FakeTable table;
  AtomicMemory memory;
  FakeSm sm;
  ScriptedHost host;
  std::vector<arch::FaultRecord> faults;
};

}  // namespace heddle::test
