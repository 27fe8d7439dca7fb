// What every stage of the packet processor has: time, the queues and packets, a way to memory, and a reporter. A stage
// keeps the rest of its state to itself.
#pragma once

#include "common/timebase.h"
#include "packet/active_packet.h"
#include "packet/packet_params.h"
#include "packet/packet_reporter.h"
#include "packet/queue_table.h"

namespace heddle::packet {

struct StageContext {
  Timebase& timebase;
  const char* name;  // name of the block, for messages
  const PacketParams params;
  const Nanoseconds clock;
  PacketTable& packets;
  QueueTable& queues;
  QueueMemory& memory;
  PacketReporter& reporter;
};

class PipelineStage : public EventHandler {
 public:
  const char* handler_name() const final { return context_.name; }

 protected:
  explicit PipelineStage(const StageContext& context) : context_(context) {}
  ~PipelineStage() = default;

  Cycle now() const { return context_.timebase.now(); }
  // Cycles of a step that `at` pays for and `lt` does not.
  Cycle cost(double ns) const { return context_.timebase.cost(context_.clock.to_cycles(ns)); }
  // Time passes between looks in all modes: the machine would never get on otherwise.
  Cycle poll_cycles() const { return std::max<Cycle>(1, context_.clock.to_cycles(params().poll)); }
  void schedule(Cycle cycles, std::uint32_t kind, std::uint64_t argument) {
    context_.timebase.schedule_in(cycles, *this, kind, argument);
  }
  void schedule(Cycle cycles, std::uint32_t kind, const Packet& packet) { schedule(cycles, kind, packet.reference()); }

  const Nanoseconds& clock() const { return context_.clock; }
  const PacketParams& params() const { return context_.params; }
  PacketTable& packets() const { return context_.packets; }
  QueueTable& queues() const { return context_.queues; }
  QueueMemory& memory() const { return context_.memory; }
  PacketReporter& reporter() const { return context_.reporter; }
  PacketStats& stats() const { return context_.reporter.stats(); }

  // A tag of the packet's own, for an answer that comes back to it.
  static MemoryTag tag(MemoryTag::Use use, const Packet& packet, std::uint32_t part) {
    return {use, packet.queue, packet.slot, packet.generation, part, packet.index};
  }

 private:
  const StageContext& context_;
};

}  // namespace heddle::packet
