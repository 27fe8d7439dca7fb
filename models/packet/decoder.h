// Stage 2 of the packet processor: the decoder that all queues share. It takes the head of one queue at a time (PKT-10)
// apart, reads the table entries and kernel objects that it names, with code that software has brought, and, when they
// are there, checks the packet (PKT-09). What a table entry on the chip vouches for is neither read nor checked again
// (PKT-05).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "packet/packet_check.h"
#include "packet/packet_reporter.h"
#include "packet/reference_buffer.h"

namespace heddle::packet {

// Which queue is served next (PKT-10): the most urgent one, round robin among equals.
class QueueArbiter {
 public:
  // Without `by_priority` all queues are equals.
  QueueArbiter(std::uint32_t queues, bool by_priority)
      : requests_(queues, false), priorities_(queues, 0), by_priority_(by_priority) {}

  void set_priority(std::uint32_t queue, std::int32_t priority) { priorities_[queue] = priority; }
  void request(std::uint32_t queue) { requests_[queue] = true; }
  void withdraw(std::uint32_t queue) { requests_[queue] = false; }

  // The queue that is served, whose request is gone then; nothing if there is no request.
  std::optional<std::uint32_t> grant() {
    const auto queues = static_cast<std::uint32_t>(requests_.size());
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 1; i <= queues; ++i) {
      const std::uint32_t queue = (last_ + i) % queues;
      if (!requests_[queue]) continue;
      if (!best || (by_priority_ && priorities_[queue] > priorities_[*best])) best = queue;
    }
    if (!best) return best;
    requests_[*best] = false;
    last_ = *best;
    return best;
  }

  void reset() {
    requests_.assign(requests_.size(), false);
    priorities_.assign(priorities_.size(), 0);
    last_ = static_cast<std::uint32_t>(requests_.size()) - 1;
  }

 private:
  std::vector<bool> requests_;
  std::vector<std::int32_t> priorities_;
  std::uint32_t last_ = static_cast<std::uint32_t>(requests_.size()) - 1;  // so that queue 0 is first
  bool by_priority_ = false;
};

class Completion;

// Where good packets go after decoding.
class DecodeListener {
 public:
  virtual void accept(Packet& packet) = 0;

 protected:
  ~DecodeListener() = default;
};

class Decoder final : public PipelineStage, public EntryListener {
 public:
  // Good packets go to `next`, bad ones to `completion`.
  Decoder(const StageContext& context, ReferenceBuffer& tables, KernelValidator& validator, arch::BroughtCode& brought,
          DecodeListener& next, Completion& completion);

  void set_priority(std::uint32_t queue, std::int32_t priority) { arbiter_.set_priority(queue, priority); }
  // The packet waits for the decoder.
  void enqueue(Packet& packet);
  // The packet of that queue waits no longer: it is dropped.
  void withdraw(std::uint32_t queue) { arbiter_.withdraw(queue); }

  // A kernel object, or a line of its code.
  void on_answer(Packet& packet, const MemoryAnswer& answer);
  void entry_read(Packet& packet, std::uint32_t entry, const arch::HsaResult& result,
                  const StoredKernel& kernel) override;
  void entry_written(Packet& packet, bool ok) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kDecoded };  // argument: a packet

  void wait_for_turn(Packet& packet, Phase phase);
  void serve();
  PacketWork take_apart(Packet& packet);
  PacketWork take_dispatch(Packet& packet);
  PacketWork take_condensed(Packet& packet);
  static PacketWork take_other(Packet& packet);
  arch::HsaResult expand_kernels(Packet& packet);
  void read_objects(Packet& packet);
  arch::HsaResult take_object(Packet& packet, const MemoryAnswer& answer);
  arch::HsaResult take_code(Packet& packet, const MemoryAnswer& answer);
  void go_on(Packet& packet);
  PacketWork work_left(const Packet& packet) const;
  void conclude(Packet& packet);
  arch::HsaResult validate(Packet& packet);

  ReferenceBuffer& tables_;
  KernelValidator& validator_;
  arch::BroughtCode& brought_;
  DecodeListener& next_;
  Completion& completion_;
  QueueArbiter arbiter_;
  std::vector<Packet*> waiting_;  // by queue: the packet of its request
  bool busy_ = false;
};

}  // namespace heddle::packet
