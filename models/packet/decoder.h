// Stage 2 of the packet processor: the decoder that all queues share. It decodes the head of one queue at a time
// (PKT-10), reads the table entries and kernel objects that the packet names, and validates it (PKT-09).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "packet/packet_check.h"
#include "packet/packet_reporter.h"

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

class Decoder final : public PipelineStage {
 public:
  // Good packets go to `next`, bad ones to `completion`.
  Decoder(const StageContext& context, ReferenceTables& tables, KernelValidator& validator, DecodeListener& next,
          Completion& completion);

  void set_priority(std::uint32_t queue, std::int32_t priority) { arbiter_.set_priority(queue, priority); }
  // The packet waits for the decoder.
  void enqueue(Packet& packet);
  // The packet of that queue waits no longer: it is dropped.
  void withdraw(std::uint32_t queue) { arbiter_.withdraw(queue); }

  // Table entries, read or written, and kernel objects.
  void on_answer(Packet& packet, const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kDecoded };  // argument: a packet

  void serve();
  double decode(Packet& packet);
  arch::HsaResult decode_dispatch(Packet& packet);
  static arch::HsaResult decode_other(Packet& packet);
  arch::HsaResult decode_condensed(Packet& packet);
  void read_entries(Packet& packet, std::uint8_t entries);
  void entry_read(Packet& packet, const MemoryAnswer& answer);
  arch::HsaResult expand_kernels(Packet& packet, const ReferenceTable& table);
  void read_objects(Packet& packet);
  void object_read(Packet& packet, const MemoryAnswer& answer);
  void finish(Packet& packet);
  arch::HsaResult validate(Packet& packet);
  void store_entry(Packet& packet);
  void entry_written(Packet& packet, const MemoryAnswer& answer);

  ReferenceTables& tables_;
  KernelValidator& validator_;
  DecodeListener& next_;
  Completion& completion_;
  QueueArbiter arbiter_;
  std::vector<Packet*> waiting_;  // by queue: the packet of its request
  bool busy_ = false;
};

}  // namespace heddle::packet
