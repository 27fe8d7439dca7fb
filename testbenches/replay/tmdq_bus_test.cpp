// The host of TMDQs against a device that does every access of the bus when it likes: what the host sends is right
// whatever the order in which the device carries out what is under way (TSK-06, TSK-08, TSK-09).
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "arch/tmdq.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "replay/replay_bench.h"
#include "replay/tmdq_submitter.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace replay_tmdq_bus_test {

using namespace heddle;
using namespace heddle::test;
using arch::MemoryStep;
using protocol::SubmitKind;
using workload::Workload;
namespace tmd = arch::tmd;
namespace context = arch::context;

namespace {

// Memory and task management. Accesses take effect after a random time, and are answered after another. Tasks that are
// started run for a random time; their completions go step by step, with random times in between.
class LooseDevice : public sc_core::sc_module, private EventHandler {
 public:
  LooseDevice(const sc_core::sc_module_name& name, Random& random, Cycle slowest)
      : sc_core::sc_module(name),
        domain("domain", 1.0, TimingMode::at, 0, observation_),
        memory_in("memory_in", domain),
        submit_in("submit_in", domain, 0),
        done_out("done_out", domain, 0, kUnlimitedCredits),
        random_(random),
        slowest_(slowest) {
    memory_in.connect<LooseDevice, &LooseDevice::on_request, &LooseDevice::on_room, &LooseDevice::on_blocking,
                      &LooseDevice::on_debug>(*this);
    submit_in.on_packet<LooseDevice, &LooseDevice::on_submit>(*this);
  }

 private:
  GpuObservation observation_{"device"};

 public:
  Domain domain;
  MemoryIn memory_in;
  PacketIn<protocol::SubmitPacket> submit_in;
  PacketOut<protocol::DonePacket> done_out;

  replay::DeviceAccess access() {
    replay::DeviceAccess result;
    result.read = [this](std::uint64_t address, void* to, std::uint64_t bytes) {
      for (std::uint64_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(to)[i] = bytes_[address + i];
      return true;
    };
    result.write = [this](std::uint64_t address, const void* from, std::uint64_t bytes) {
      for (std::uint64_t i = 0; i < bytes; ++i) bytes_[address + i] = static_cast<const std::uint8_t*>(from)[i];
      return true;
    };
    return result;
  }

  std::vector<std::uint32_t> started;  // operations, as they began
  std::uint32_t waits = 0;
  std::uint32_t reordered = 0;  // accesses that took effect before one that had come earlier

 private:
  enum Event : std::uint32_t { kEffect, kRespond, kEnd, kStep };
  struct Task {
    std::uint64_t record = 0;
    std::uint32_t operation = 0;
    std::uint64_t context = 0;
    Cycle start = 0;
    std::optional<arch::CompleteSteps> complete;
  };

  Cycle some() { return 1 + random_.below(static_cast<std::uint32_t>(slowest_)); }
  std::uint64_t word(std::uint64_t address) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | bytes_[address + i];
    return value;
  }
  void put(std::uint64_t address, std::uint64_t value) {
    for (std::uint32_t i = 0; i < 8; ++i) bytes_[address + i] = static_cast<std::uint8_t>(value >> 8 * i);
  }

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    payloads_.push_back(&payload);
    domain.schedule(std::max(arrival, domain.now()) + some(), *this, kEffect, payloads_.size() - 1);
    return true;
  }
  void effect(std::size_t which) {
    for (std::size_t i = done_.size(); i < payloads_.size(); ++i) done_.push_back(false);
    for (std::size_t i = 0; i < which; ++i) reordered += done_[i] ? 0 : 1;
    done_[which] = true;
    tlm::tlm_generic_payload& payload = *payloads_[which];
    const std::uint64_t address = payload.get_address();
    if (payload.is_write()) {
      for (std::uint32_t i = 0; i < payload.get_data_length(); ++i) bytes_[address + i] = payload.get_data_ptr()[i];
    } else {
      protocol::MemoryExtension& extension = *protocol::extension_of(payload);
      protocol::AtomicLane& lane = extension.lane[0];
      lane.old = word(address);
      put(address, arch::atomic_result(extension.atomic, extension.type, lane.old, lane.operand, lane.compare));
    }
    domain.schedule_in(some(), *this, kRespond, which);
  }

  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t) {
    noted_.insert(packet.operation);
    if (packet.kind == SubmitKind::start) start(packet.record);
  }

  // The TMD is there, and its task is the next in its queue.
  void start(std::uint64_t record) {
    Task task;
    task.record = record;
    task.operation = static_cast<std::uint32_t>(word(record + tmd::kFlags) >> 32) - 1;
    task.context = word(record + tmd::kContext);
    task.start = domain.now();
    HEDDLE_CHECK(noted_.count(task.operation) != 0, "a task began that the host has not told of");
    HEDDLE_CHECK(word(record + tmd::kOpen) == 1, "a TMD that is not there");
    HEDDLE_CHECK(word(task.context + context::kWork) > 1, "a task that the work counter does not count");
    started.push_back(task.operation);
    tasks_.push_back(task);
    domain.schedule_in(some() * 3, *this, kEnd, tasks_.size() - 1);
  }

  void end(std::size_t which) {
    Task& task = tasks_[which];
    const std::uint32_t tmdq = static_cast<std::uint32_t>(word(task.record + tmd::kFlags)) & 0xFF;
    task.complete.emplace(task.context + context::last_task(tmdq), task.record);
    domain.schedule_in(some(), *this, kStep, which);
  }

  void step(std::size_t which) {
    arch::CompleteSteps& complete = *tasks_[which].complete;
    const MemoryStep step = complete.step();
    const std::uint64_t old = word(step.address);
    if (step.kind == MemoryStep::Kind::compare_exchange && old == step.compare) put(step.address, step.value);
    complete.answer(old);
    if (!complete.over()) {
      domain.schedule_in(some(), *this, kStep, which);
      return;
    }
    waits += complete.waited() ? 1 : 0;
    const Task task = tasks_[which];
    if (complete.next() != 0) start(complete.next());
    done_out.send({task.operation, protocol::DoneStatus::ok, domain.time_of(task.start), domain.time_of(task.start),
                   domain.time_of(domain.now())});
    const std::uint64_t work = word(task.context + context::kWork);
    HEDDLE_CHECK(work > 1, "the context of the host has closed");
    put(task.context + context::kWork, work - 1);
  }

  void on_event(std::uint32_t kind, std::uint64_t which) override {
    switch (kind) {
      case kEffect:
        effect(which);
        break;
      case kRespond:
        payloads_[which]->set_response_status(tlm::TLM_OK_RESPONSE);
        memory_in.respond(*payloads_[which], domain.now());
        break;
      case kEnd:
        end(which);
        break;
      default:
        step(which);
        break;
    }
  }
  void on_room(std::uint32_t, Cycle) {}
  void on_blocking(tlm::tlm_generic_payload&, std::uint32_t, sc_core::sc_time&) {}
  unsigned on_debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }
  const char* handler_name() const override { return name(); }

  Random& random_;
  const Cycle slowest_;
  std::map<std::uint64_t, std::uint8_t> bytes_;
  std::vector<tlm::tlm_generic_payload*> payloads_;
  std::vector<bool> done_;
  std::set<std::uint32_t> noted_;
  std::deque<Task> tasks_;
};

}  // namespace

TEST_CASE("whatever the bus and the device do with the host's accesses, each task runs once and in its turn",
          "[replay][TSK-06][TSK-08]") {
  std::uint32_t waits = 0;
  std::uint32_t reordered = 0;
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    Workload w = empty_workload(random.between(1, 4));
    const std::uint32_t count = random.between(2, 60);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t stream = random.below(w.streams.size());
      w.ops.push_back(random.chance(10) ? copy_op(stream, random.below(3000)) : kernel_op(stream, 1, 1));
      w.ops.back().enqueue = random.below(20'000);
      if (i > 0 && random.chance(15)) w.ops.back().after.push_back({random.below(i), workload::EdgeSource::recorded});
    }
    SimFixture fixture;
    const Cycle slowest = random.between(10, 3000);
    LooseDevice device("device", random, slowest);
    GpuObservation observation{"gpu0"};
    Observation host_observation{"gpu0.host"};
    replay::Area area("memory", 0, std::uint64_t{1} << 30, true);
    replay::TmdqSubmitterSetup setup;
    setup.workload = &w;
    setup.plan =
        replay::plan_tmdqs(w, std::vector<std::uint32_t>(count, 0),
                           replay::host_times(w, random.chance(50) ? replay::Pace::asap : replay::Pace::recorded, {}),
                           random.between(1, 6), area);
    setup.link.link_latency = random.below(500);
    setup.submit_queue = random.between(1, 4);
    setup.params.enqueue = random.below(500);
    setup.params.doorbell = random.below(100);
    replay::TmdqSubmitter host("host", std::move(setup), device.access(), observation, host_observation);
    host.bus.memory_out.bind(device.memory_in);
    host.submit_out.bind(device.submit_in);
    device.done_out.bind(host.done_in);
    host.start();
    run_until_idle();
    REQUIRE(host.finished());
    host.check_memory();
    REQUIRE(device.started.size() == w.kernels());
    std::vector<std::uint32_t> order = device.started;
    std::vector<std::optional<std::uint32_t>> last(w.streams.size());
    for (const std::uint32_t op : order) {
      std::optional<std::uint32_t>& before = last[w.ops[op].stream];
      REQUIRE((!before || *before < op));
      before = op;
    }
    for (std::size_t i = 0; i < w.ops.size(); ++i) {
      for (const workload::Edge& edge : w.ops[i].after) {
        REQUIRE(host.results()[i].start >= host.results()[edge.from].end);
      }
    }
    waits += device.waits;
    reordered += device.reordered;
  }
  CHECK(waits > 50);
  CHECK(reordered > 1000);
}

}  // namespace replay_tmdq_bus_test
