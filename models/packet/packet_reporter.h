// What the outside sees of packets: records for a listener, statistics, lines of the timeline. Nothing here changes
// what the processor does.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "arch/aql_packet.h"
#include "arch/gpu_observation.h"
#include "common/stats.h"
#include "common/timebase.h"
#include "packet/active_packet.h"
#include "packet/packet_log.h"
#include "packet/packet_params.h"
#include "packet/packet_work.h"
#include "packet/queue_table.h"

namespace heddle::packet {

// Between nanoseconds and whole cycles, as Clock (common/domain.h) does it, without SystemC.
struct Nanoseconds {
  double period = 1e-9;  // seconds of a cycle

  Cycle to_cycles(double ns) const { return ns <= 0 ? 0 : static_cast<Cycle>(std::llround(ns * 1e-9 / period)); }
  double of_cycles(double cycles) const { return cycles * period * 1e9; }
};

// What the packet processor counts.
struct PacketStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& doorbells = counter("doorbells", "doorbells", "doorbells that told of new packets");
  Counter& fetches = counter("fetches", "reads", "reads of packets from rings");
  Counter& unpublished = counter("unpublished", "reads", "reads that found a packet not published yet");
  Counter& signal_polls = counter("signal_polls", "reads", "reads of signals that barrier packets wait for");
  Counter& signal_wakes =
      counter("signal_wakes", "wakes", "times that a barrier packet looked again because this device changed a signal");
  Counter& kernels = counter("kernels", "kernels", "kernels handed to task management");
  Counter& aborted = counter("aborted", "packets", "packets that had begun and were killed with their queue");
  Counter& signals = counter("signals", "signals", "completion signals that have been changed");
  Counter& acquires =
      counter("acquires", "fences", "acquires of agent scope or wider: L1s of later kernels are emptied");
  Counter& fences = counter("fences", "fences", "releases at system scope: all slices wrote back");
  // What the costs of packets are counted in (PKT-08).
  Counter& work_bytes =
      counter("work.bytes", "bytes",
              "bytes of packets, kernel objects, table entries in memory, dispatches and signals that moved in or out");
  Counter& work_half_words = counter("work.half_words", "half-words", "half-words of condensed packets taken apart");
  Counter& work_checks = counter("work.checks", "rules", "rules checked for fields and kernel objects");
  Counter& work_steps =
      counter("work.steps", "steps", "steps that this took: those begun count, for each job and each kind of work");
  Counter& objects = counter("objects", "reads", "reads of kernel objects");
  Counter& codes = counter("codes", "reads", "reads of code that software has brought, with its kernel object");
  Counter& code_bytes = counter("code_bytes", "bytes", "bytes of such code");
  Counter& table_reads = counter("table.reads", "entries", "entries of reference state tables that packets read");
  Counter& table_writes = counter("table.writes", "entries", "entries that reference packets stored");
  Counter& table_scopes =
      counter("table.scopes", "reads", "looks at the barrier bit of an entry, for packets that may have to wait");
  Counter& table_wait = counter("table.wait", "cycles", "cycles that accesses waited for the port of the tables");
  Gauge& open = gauge("open", "packets", "packets that have begun and are not complete");
  Gauge& in_flight = gauge("in_flight", "kernels", "kernels dispatched and not complete");

  // Phases of kernels.
  Histogram& fetch = histogram("fetch", "ns", "from the doorbell until a packet is in the processor");
  Histogram& turn = histogram("turn", "ns", "from there to its turn: order, barrier bit, signals, decoder");
  Histogram& decode = histogram("decode", "ns", "decoding, kernel object, table entries, acquire fence");
  Histogram& dispatch = histogram("dispatch", "ns", "handing a kernel to task management");
  Histogram& launch = histogram("launch", "ns", "from there to the kernel's first launch packet");
  Histogram& execution = histogram("execution", "ns", "from there to the end of the kernel's last CTA");
  Histogram& clean_up = histogram("clean_up", "ns", "release fence, clean-up and signal after a kernel's end");

  // An undefined type is not counted.
  void count_packet(arch::PacketType type) {
    const auto number = static_cast<std::size_t>(type);
    if (number < packets_.size() && packets_[number] != nullptr) packets_[number]->add();
  }
  void count_error(arch::HsaStatus status) {
    const auto found =
        std::find_if(kErrors.begin(), kErrors.end(), [status](const Error& error) { return error.status == status; });
    errors_[found == kErrors.end() ? 0 : static_cast<std::size_t>(found - kErrors.begin())]->add();
  }
  void add_phases(const PacketTimes& times, const Nanoseconds& clock) {
    const auto add = [&clock](Histogram& to, Cycle from, Cycle until) {
      to.add(static_cast<std::uint64_t>(
          std::llround(clock.of_cycles(static_cast<double>(until - std::min(from, until))))));
    };
    add(fetch, times.doorbell, times.fetched);
    add(turn, times.fetched, times.ready);
    add(decode, times.ready, times.decoded);
    add(dispatch, times.decoded, times.dispatched);
    add(launch, times.dispatched, times.started);
    add(execution, times.started, times.ended);
    add(clean_up, times.ended, times.cleaned);
  }

 private:
  struct Error {
    arch::HsaStatus status;
    const char* name;
  };
  static constexpr std::array<Error, 10> kErrors{{
      {arch::HsaStatus::error, "error"},
      {arch::HsaStatus::invalid_argument, "invalid_argument"},
      {arch::HsaStatus::invalid_allocation, "invalid_allocation"},
      {arch::HsaStatus::invalid_signal, "invalid_signal"},
      {arch::HsaStatus::invalid_queue, "invalid_queue"},
      {arch::HsaStatus::out_of_resources, "out_of_resources"},
      {arch::HsaStatus::invalid_packet_format, "invalid_packet_format"},
      {arch::HsaStatus::incompatible_arguments, "incompatible_arguments"},
      {arch::HsaStatus::invalid_code_object, "invalid_code_object"},
      {arch::HsaStatus::exception, "exception"},
  }};
  static constexpr std::array<const char*, arch::kPacketTypes> kTypeNames{
      "vendor", nullptr, "kernel", "barrier_and", "agent", "barrier_or", "reference", "condensed"};

  std::array<Counter*, arch::kPacketTypes> packet_counters() {
    std::array<Counter*, arch::kPacketTypes> counters{};
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (kTypeNames[i] == nullptr) continue;
      counters[i] = &counter(std::string("packets.") + kTypeNames[i], "packets",
                             std::string(packet_text(static_cast<arch::PacketType>(i))) + " packets completed");
    }
    return counters;
  }
  std::array<Counter*, kErrors.size()> error_counters() {
    std::array<Counter*, kErrors.size()> counters{};
    for (std::size_t i = 0; i < kErrors.size(); ++i) {
      counters[i] = &counter(std::string("errors.") + kErrors[i].name, "errors",
                             std::string("packets and queues stopped: ") + arch::status_text(kErrors[i].status));
    }
    return counters;
  }

  std::array<Counter*, arch::kPacketTypes> packets_ = packet_counters();
  std::array<Counter*, kErrors.size()> errors_ = error_counters();
};

// Knows why nothing of a queue is decoded or launched.
class QueueWaits {
 public:
  // Null: there is nothing to be decoded or launched, or it is.
  virtual const char* wait_reason(std::uint32_t queue) const = 0;

 protected:
  ~QueueWaits() = default;
};

class PacketReporter {
 public:
  // `path`: of the block, without the prefix of the device.
  PacketReporter(Timebase& timebase, const std::string& path, const Nanoseconds& clock, const QueueWaits& waits,
                 std::uint32_t queues);

  PacketStats& stats() { return stats_; }
  void listen(PacketListener& listener) { listener_ = &listener; }
  arch::RaceChecker* races() const { return observation_.races; }  // null: there is none
  // Work has been taken in, started or finished.
  void progress() { ++observation_.progress; }

  // The kernel goes to task management: it has its operation id.
  void kernel_dispatched(Packet& packet, std::uint32_t kernel);
  // A packet without kernels has been launched.
  void launched(Packet& packet) { take_lane(packet.queue, packet.lane); }
  // The kernel, or the packet without kernels, is complete or bad.
  void done(Packet& packet, std::uint32_t kernel);
  void forget_label(std::uint32_t operation) { observation_.labels.forget(operation); }
  std::string label(std::uint32_t operation) const { return observation_.labels.of(operation); }

  // The reason for which the queue waits may have changed.
  void note_wait(std::uint32_t queue);
  void open_queue(std::uint32_t queue) { queues_[queue] = Queue(); }
  void reset();

 private:
  struct Queue {
    const char* wait = nullptr;
    Cycle wait_since = 0;
    std::vector<bool> lanes;  // true: taken
  };

  static PacketRecord record_of(const Packet& packet, std::uint32_t kernel);
  void draw(std::uint32_t queue, const PacketRecord& record, std::optional<std::uint32_t> lane);
  void take_lane(std::uint32_t queue, std::optional<std::uint32_t>& lane);
  void give_lane(std::uint32_t queue, std::optional<std::uint32_t>& lane);
  std::string group() const { return observation_.prefix + " queues"; }

  Timebase& timebase_;
  GpuObservation& observation_;
  const Nanoseconds clock_;
  const QueueWaits& waits_;
  PacketStats stats_;
  PacketListener* listener_ = nullptr;
  std::vector<Queue> queues_;
};

// What every stage of the packet processor has: time, the queues and packets, a way to memory, and a reporter. A stage
// keeps the rest of its state to itself.
struct StageContext {
  Timebase& timebase;
  const char* name;  // name of the block, for messages
  const PacketParams params;
  const Nanoseconds clock;
  PacketTable& packets;
  QueueTable& queues;
  QueueMemory& memory;
  PacketReporter& reporter;
  PacketCircuit& circuit;
};

class Stage {
 protected:
  explicit Stage(const StageContext& context) : context_(context) {}
  ~Stage() = default;

  Cycle now() const { return context_.timebase.now(); }
  Timebase& timebase() const { return context_.timebase; }
  const Nanoseconds& clock() const { return context_.clock; }
  const PacketParams& params() const { return context_.params; }
  PacketTable& packets() const { return context_.packets; }
  QueueTable& queues() const { return context_.queues; }
  QueueMemory& memory() const { return context_.memory; }
  PacketReporter& reporter() const { return context_.reporter; }
  PacketStats& stats() const { return context_.reporter.stats(); }
  arch::RaceChecker* races() const { return context_.reporter.races(); }

  // A tag of the packet's own, for an answer that comes back to it.
  static MemoryTag tag(MemoryTag::Use use, const Packet& packet, std::uint32_t part) {
    return {use, packet.queue, packet.slot, packet.generation, part, packet.index};
  }

  const StageContext& context_;
};

// One that enters events.
class PipelineStage : public Stage, public EventHandler {
 public:
  const char* handler_name() const final { return context_.name; }

 protected:
  explicit PipelineStage(const StageContext& context) : Stage(context) {}
  ~PipelineStage() = default;

  // Cycles of counted work that is begun now, which `at` pays for and `lt` does not.
  Cycle spend(const PacketWork& work) const {
    stats().work_bytes.add(work.bytes);
    stats().work_half_words.add(work.half_words);
    stats().work_checks.add(work.checks);
    stats().work_steps.add(context_.circuit.steps(work));
    return has_costs(timebase().mode()) ? context_.circuit.spend(now(), work) : 0;
  }
  // Time passes between looks in all modes: the machine would never get on otherwise.
  Cycle poll_cycles() const { return std::max<Cycle>(1, context_.clock.to_cycles(params().poll)); }
  void schedule(Cycle cycles, std::uint32_t kind, std::uint64_t argument) {
    context_.timebase.schedule_in(cycles, *this, kind, argument);
  }
  void schedule(Cycle cycles, std::uint32_t kind, const Packet& packet) { schedule(cycles, kind, packet.reference()); }
};

}  // namespace heddle::packet
