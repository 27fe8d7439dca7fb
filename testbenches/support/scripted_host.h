// A host that submits operations at given times, and notes what comes back. Its clock has 1 GHz: a cycle is a
// nanosecond. Packets take one cycle to the device, so that what arrives never depends on the order of processes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "protocol/host_task.h"

namespace heddle::test {

class ScriptedHost : public sc_core::sc_module, private EventHandler {
 public:
  explicit ScriptedHost(const sc_core::sc_module_name& name)
      : sc_core::sc_module(name),
        domain_("domain", 1.0, TimingMode::at, 0, observation_),
        submit_out("submit_out", domain_, 1, kUnlimitedCredits),
        done_in("done_in", domain_, 0) {
    done_in.on_packet<ScriptedHost, &ScriptedHost::on_done>(*this);
  }

 private:
  GpuObservation observation_{"host"};
  Domain domain_;

 public:
  PacketOut<protocol::SubmitPacket> submit_out;
  PacketIn<protocol::DonePacket> done_in;

  // Actions of one time run in the order in which they were entered. Call before sc_start, or from an action.
  void at(Cycle ns, std::function<void()> action) {
    actions_.push_back(std::move(action));
    domain_.schedule(ns, *this, 0, actions_.size() - 1);
  }
  void submit(Cycle ns, const protocol::SubmitPacket& packet) {
    at(ns, [this, packet] { submit_out.send(packet); });
  }
  // Drops what has not been submitted, and the results; also those that a device has handed over and that wait for the
  // next cycle of this clock: a device's reset does not call them back.
  void forget() {
    ++epoch_;
    forgotten_ = picoseconds(sc_core::sc_time_stamp());
    results.clear();
    order.clear();
  }
  // As submit(), unless forget() is called before.
  void submit_until_forgotten(Cycle ns, const protocol::SubmitPacket& packet) {
    at(ns, [this, packet, epoch = epoch_] {
      if (epoch == epoch_) submit_out.send(packet);
    });
  }
  Cycle now() const { return domain_.now(); }

  std::map<std::uint32_t, protocol::DonePacket> results;  // by operation
  std::vector<std::uint32_t> order;                       // operations as they ended
  std::vector<std::string> problems;

 private:
  void on_event(std::uint32_t, std::uint64_t which) override {
    const std::function<void()> action = std::move(actions_[which]);
    action();
  }
  void on_done(const protocol::DonePacket& done, std::uint32_t) {
    if (done.submitted < forgotten_) return;
    order.push_back(done.operation);
    if (!results.emplace(done.operation, done).second) {
      problems.push_back(fmt::format("operation {} was reported twice", done.operation));
    }
  }

  std::vector<std::function<void()>> actions_;
  std::uint32_t epoch_ = 0;
  Picoseconds forgotten_ = 0;
};

// Packets, for short.
inline protocol::SubmitPacket kernel_packet(std::uint32_t operation, std::uint32_t stream, arch::Dim3 grid,
                                            arch::Dim3 block, arch::CtaDuration duration = {100, 100}) {
  protocol::SubmitPacket packet;
  packet.operation = operation;
  packet.stream = stream;
  packet.kernel.grid = grid;
  packet.kernel.block = block;
  packet.kernel.duration = duration;
  return packet;
}

inline protocol::SubmitPacket hold_packet(std::uint32_t operation, std::uint32_t stream, double ns) {
  protocol::SubmitPacket packet;
  packet.kind = protocol::SubmitKind::hold;
  packet.operation = operation;
  packet.stream = stream;
  packet.hold_ns = ns;
  return packet;
}

// `operation` waits for the end of `wait_for`, another stream's.
inline protocol::SubmitPacket wait_packet(std::uint32_t operation, std::uint32_t stream, std::uint32_t wait_for) {
  protocol::SubmitPacket packet;
  packet.kind = protocol::SubmitKind::wait;
  packet.operation = operation;
  packet.stream = stream;
  packet.wait_for = wait_for;
  return packet;
}

}  // namespace heddle::test
