// Task management between a host, a packet processor and a stand-in for the distributor.
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

constexpr Cycle kStartPath = 30;

// Takes tasks in, and ends each after a time. A task's first packet leaves `kStartPath - to_cwd` after its arrival.
class FakeCwd : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeCwd(const sc_core::sc_module_name& name, Domain& domain, Cycle start_cycles)
      : sc_core::sc_module(name),
        task_in("task_in", domain, 0, CreditReturn::by_owner),
        done_out("done_out", domain, 20, kUnlimitedCredits),
        domain_(domain),
        start_cycles_(domain.cost(start_cycles)) {
    task_in.on_packet<FakeCwd, &FakeCwd::on_task>(*this);
    domain.add_resettable(*this);
  }
  PacketIn<protocol::TaskPacket> task_in;
  PacketOut<protocol::TaskDonePacket> done_out;
  std::function<Cycle(std::uint32_t)> duration = [](std::uint32_t) { return Cycle{100}; };
  std::function<void(protocol::TaskDonePacket&)> on_done = [](protocol::TaskDonePacket&) {};
  std::vector<protocol::TaskPacket> tasks;
  std::uint32_t most_held = 0;

 private:
  void reset() override {
    starts_.clear();
    held_ = 0;
  }
  void on_task(const protocol::TaskPacket& task, std::uint32_t) {
    tasks.push_back(task);
    most_held = std::max(most_held, ++held_);
    starts_[task.operation] = domain_.now() + start_cycles_;
    domain_.schedule(starts_[task.operation] + duration(task.operation), *this, 0, task.operation);
  }
  void on_event(std::uint32_t, std::uint64_t operation) override {
    --held_;
    const auto id = static_cast<std::uint32_t>(operation);
    protocol::TaskDonePacket done{id, starts_.at(id), domain_.now()};
    on_done(done);
    done_out.send(done);
    task_in.return_credit();
  }
  Domain& domain_;
  Cycle start_cycles_;
  std::map<std::uint32_t, Cycle> starts_;
  std::uint32_t held_ = 0;
};

// In the packet processor's place: sends kernels at given cycles and notes the answers.
class FakePackets : public sc_core::sc_module, private EventHandler {
 public:
  FakePackets(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        dispatch_out("dispatch_out", domain, 0, kUnlimitedCredits),
        done_in("done_in", domain, 0),
        domain_(domain) {
    done_in.on_packet<FakePackets, &FakePackets::on_done>(*this);
  }
  void send(Cycle when, const protocol::DispatchPacket& packet) {
    packets_.push_back(packet);
    domain_.schedule(when, *this, 0, packets_.size() - 1);
  }
  struct Result {
    protocol::DispatchDonePacket done;
    Cycle arrived = 0;
  };
  PacketOut<protocol::DispatchPacket> dispatch_out;
  PacketIn<protocol::DispatchDonePacket> done_in;
  std::vector<Result> results;  // in order of arrival

 private:
  void on_event(std::uint32_t, std::uint64_t which) override { dispatch_out.send(packets_[which]); }
  void on_done(const protocol::DispatchDonePacket& done, std::uint32_t) { results.push_back({done, domain_.now()}); }
  Domain& domain_;
  std::vector<protocol::DispatchPacket> packets_;
};

struct TaskBench {
  explicit TaskBench(std::uint32_t slots = 8, const task::TaskParams& task_params = {},
                     TimingMode mode = TimingMode::at, double ghz = 1.0, Cycle run_ahead = 1024,
                     bool partitioned = false)
      : params(task_params),
        domain("domain", ghz, mode, run_ahead, observation),
        unit("task", domain, "task", params, arch::SmLimits{}, kStartPath, {slots, partitioned}),
        cwd("cwd", domain, kStartPath - params.to_cwd),
        packets("packets", domain),
        host("host") {
    host.submit_out.bind(unit.submit_in);
    unit.done_out.bind(host.done_in);
    unit.task_out.bind(cwd.task_in);
    cwd.done_out.bind(unit.task_done_in);
    packets.dispatch_out.bind(unit.dispatch_in);
    unit.dispatch_done_out.bind(packets.done_in);
  }
  double start(std::uint32_t operation) const { return static_cast<double>(host.results.at(operation).start) * 1e-3; }
  double end(std::uint32_t operation) const { return static_cast<double>(host.results.at(operation).end) * 1e-3; }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.task." + name); }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  task::TaskParams params;
  Domain domain;
  task::TaskUnit unit;
  FakeCwd cwd;
  FakePackets packets;
  ScriptedHost host;
};

}  // namespace heddle::test
