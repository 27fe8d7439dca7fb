// The packet processor among its stand-ins, and the producer's side of queues. One cycle is one nanosecond.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "packet/packet_fakes.h"
#include "packet/reference_table.h"
#include "support/list_program.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace heddle::test {

class Recorder : public packet::PacketListener {
 public:
  std::vector<packet::PacketRecord> dispatched;
  std::vector<packet::PacketRecord> done;
  void kernel_dispatched(const packet::PacketRecord& record) override { dispatched.push_back(record); }
  void packet_done(const packet::PacketRecord& record) override { done.push_back(record); }
  const packet::PacketRecord* of(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel = 0) const {
    for (const packet::PacketRecord& record : done) {
      if (record.queue == queue && record.index == index && record.kernel == kernel) return &record;
    }
    return nullptr;
  }
};

class NeverFits : public packet::FitCheck {
 public:
  mutable std::uint32_t asked = 0;
  std::string why;
  std::string why_never_fits(const arch::KernelShape&) const override {
    ++asked;
    return why;
  }
};

class PacketBench {
 public:
  static constexpr std::uint64_t kObjects = 0x1000;
  static constexpr std::uint64_t kSignals = 0x20000;
  static constexpr std::uint64_t kIndices = 0x30000;
  static constexpr std::uint64_t kRings = 0x40000;
  static constexpr std::uint64_t kTable = 0xC0000;  // of 64 queues at most: 128 KiB, for the machine alone

  // `decoder`: of code that software brings; null: there is none.
  explicit PacketBench(const packet::PacketParams& params = {}, TimingMode mode = TimingMode::at,
                       std::shared_ptr<const arch::CodeDecoder> decoder = nullptr)
      : observation("gpu0"),
        domain("domain", 1.0, mode, 0, observation),
        memory("memory", domain),
        tasks("tasks", domain),
        copies("copies", domain),
        host("host", domain),
        brought(codes, std::move(decoder), [](const arch::WarpProgram&) { return std::string(); }),
        processor("processor", domain, "packet", params, limits, codes, brought, fit, kTable) {
    if (params.table == packet::TablePlace::memory) memory.own = {kTable, kTable + packet::table_bytes(params)};
    processor.memory_out.bind(memory.in);
    memory.written.bind(processor.written_in);
    processor.dispatch_out.bind(tasks.in);
    tasks.out.bind(processor.dispatch_done_in);
    processor.copy_out.bind(copies.in);
    copies.out.bind(processor.copy_done_in);
    host.out.bind(processor.command_in);
    processor.event_out.bind(host.in);
    processor.listen(log);
    start();
  }

  // A kernel object; its address. Kernels tell themselves apart by their names.
  std::uint64_t object(const std::string& name, std::uint32_t number = 0, const arch::ClusterShape& cluster = {}) {
    arch::KernelObject object;
    object.name = name;
    object.registers_per_thread = 32;
    object.duration = {10, 10};
    object.cluster = cluster;
    return object_of(object, number);
  }
  std::uint64_t object_of(const arch::KernelObject& object, std::uint32_t number = 0) {
    const std::uint64_t address = kObjects + std::uint64_t{number} * arch::kKernelObjectBytes;
    memory.put_bytes(address, arch::encode(object));
    return address;
  }
  // Handle of a signal with a value.
  std::uint64_t signal(std::uint32_t number, std::int64_t value) {
    const std::uint64_t handle = kSignals + std::uint64_t{number} * arch::kSignalAlignment;
    memory.put(handle, static_cast<std::uint64_t>(value));
    return handle;
  }
  std::int64_t value(std::uint64_t handle) {
    return static_cast<std::int64_t>(memory.get(arch::signal_address(handle)));
  }

  void send(protocol::QueueCommandPacket command) { host.out.send(command); }
  void run(Cycle cycles) {
    run_until(sc_core::sc_time_stamp() + sc_core::sc_time(static_cast<double>(cycles), sc_core::SC_NS));
  }
  // Until nothing is inside; false: that takes too long.
  bool settle(Cycle most = 1'000'000) {
    for (Cycle spent = 0; spent < most; spent += 500) {
      run(500);
      if (processor.quiescent()) return true;
    }
    return false;
  }
  std::vector<protocol::QueueEventPacket> events(protocol::QueueEvent kind, std::uint32_t queue = ~0U) const {
    std::vector<protocol::QueueEventPacket> result;
    for (const FakeHost::Event& event : host.events) {
      if (event.packet.event == kind && (queue == ~0U || event.packet.queue == queue)) result.push_back(event.packet);
    }
    return result;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const packet::PacketRecord& record : log.dispatched) result.push_back(record.name);
    return result;
  }
  std::vector<std::string> waits() const {
    WaitGraph graph;
    domain.collect_waits(graph);
    return graph.chain();
  }

  SimFixture fixture;
  GpuObservation observation;
  Domain domain;
  FakeMemory memory;
  FakeTasks tasks;
  FakeCopies copies;
  FakeHost host;
  arch::SmLimits limits;
  arch::CodeStore codes;
  arch::BroughtCode brought;
  NeverFits fit;
  Recorder log;
  packet::PacketProcessor processor;
};

// The producer's side of one queue.
class Producer {
 public:
  Producer(PacketBench& bench, std::uint32_t number, std::uint32_t size = 16, std::uint64_t first = 0,
           std::int32_t priority = 0, bool in_host = false)
      : bench_(bench), number_(number), next_(first) {
    const std::uint64_t window = in_host ? arch::kHostWindow : 0;
    setup.base = window + PacketBench::kRings + std::uint64_t{number} * 0x2000;
    setup.size = size;
    setup.read_index = window + PacketBench::kIndices + std::uint64_t{number} * 8;
    setup.first = first;
    setup.priority = priority;
    for (std::uint64_t i = 0; i < size; ++i) bench.memory.put(setup.base + i * arch::kPacketBytes, 1, 2);
    bench.memory.put(setup.read_index, first);
    open();
  }
  void open() {
    next_ = setup.first;
    bench_.send({protocol::QueueCommand::open, number_, setup, 0, 0});
  }
  void close() { bench_.send({protocol::QueueCommand::close, number_, {}, 0, 0}); }
  void ring(std::uint64_t index) { bench_.send({protocol::QueueCommand::doorbell, number_, {}, index, 0}); }
  void inactivate() { bench_.send({protocol::QueueCommand::inactivate, number_, {}, 0, 0}); }
  void agent_done(std::uint64_t index, std::uint32_t status = 0) {
    bench_.send({protocol::QueueCommand::agent_done, number_, {}, index, status});
  }

  std::uint64_t slot(std::uint64_t index) const { return setup.base + (index & (setup.size - 1)) * arch::kPacketBytes; }
  std::uint64_t read_index() { return bench_.memory.get(setup.read_index); }
  bool full() { return next_ - read_index() >= setup.size; }
  // The body first, the header by publish().
  std::uint64_t prepare(const arch::PacketBytes& bytes) {
    arch::PacketBytes body = bytes;
    body[0] = 1;
    body[1] = 0;
    bench_.memory.put_bytes(slot(next_), body);
    bodies_[next_] = bytes;
    return next_++;
  }
  void publish(std::uint64_t index) { bench_.memory.put_bytes(slot(index), bodies_.at(index)); }
  std::uint64_t write(const arch::PacketBytes& bytes) {
    const std::uint64_t index = prepare(bytes);
    publish(index);
    return index;
  }
  std::uint64_t submit(const arch::PacketBytes& bytes) {
    const std::uint64_t index = write(bytes);
    ring(index);
    return index;
  }
  std::uint64_t next() const { return next_; }
  std::uint32_t number() const { return number_; }

  protocol::QueueSetup setup;

 private:
  PacketBench& bench_;
  std::uint32_t number_;
  std::uint64_t next_;
  std::map<std::uint64_t, arch::PacketBytes> bodies_;
};

inline std::shared_ptr<const arch::WarpProgram> empty_program() { return std::make_shared<ListProgram>(1); }

inline arch::DispatchFields fields_of(std::uint64_t object, std::uint64_t signal = 0, bool barrier = false) {
  arch::DispatchFields fields;
  fields.synch_scopes = barrier ? 1 : 0;
  fields.setup = 1;
  fields.workgroup = {32, 1, 1};
  fields.grid = {64, 1, 1};
  fields.kernel_object = object;
  fields.completion_signal = signal;
  return fields;
}
inline arch::PacketBytes kernel_packet(std::uint64_t object, std::uint64_t signal = 0, bool barrier = false) {
  return arch::encode(arch::KernelDispatch{fields_of(object, signal, barrier), 0, 0});
}
inline arch::PacketBytes reference_packet(std::uint16_t entry, const arch::DispatchFields& fields) {
  return arch::encode(arch::KernelDispatch{fields, entry, 0}, arch::PacketType::reference_dispatch);
}
inline arch::PacketBytes condensed_packet(const std::vector<arch::Diff>& diffs) {
  arch::CondensedPacket packet;
  std::uint32_t used = 0;
  for (const arch::Diff& diff : diffs) REQUIRE(arch::append(packet, used, diff));
  return arch::encode(packet);
}
// A kernel of a condensed packet, with new values for some fields.
inline arch::Diff diff_of(std::uint8_t reference,
                          const std::vector<std::pair<std::uint32_t, std::uint64_t>>& values = {}) {
  arch::Diff diff;
  diff.reference = reference;
  for (const auto& [field, value] : values) {
    diff.vector = static_cast<std::uint16_t>(diff.vector | 1U << field);
    arch::set_field(diff.values, field, value);
  }
  return diff;
}
inline arch::PacketBytes barrier_packet(arch::PacketType type, const std::vector<std::uint64_t>& signals,
                                        std::uint64_t completion = 0, bool barrier = false) {
  arch::BarrierPacket packet;
  packet.scopes.barrier = barrier;
  std::copy(signals.begin(), signals.end(), packet.signals.begin());
  packet.completion_signal = completion;
  return arch::encode(packet, type);
}
inline arch::PacketBytes agent_packet(std::uint16_t function, std::uint64_t completion = 0, bool barrier = false) {
  arch::AgentDispatch packet;
  packet.scopes.barrier = barrier;
  packet.function = function;
  packet.completion_signal = completion;
  return arch::encode(packet);
}
inline arch::PacketBytes hold_packet(std::uint64_t ns, std::uint64_t completion = 0, bool barrier = false) {
  arch::VendorPacket packet;
  packet.format = arch::VendorFormat::hold;
  packet.scopes.barrier = barrier;
  packet.bytes = ns;
  packet.completion_signal = completion;
  return arch::encode(packet);
}

}  // namespace heddle::test
