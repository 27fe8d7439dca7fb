// The order within queues: one packet of each is its head, until it has been launched as a whole (PKT-04). Then the
// next one begins, unless its barrier bit makes it wait.
//
// Condensed packets stay the head until their last kernel has been dispatched, barrier packets until they are complete.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/idle_account.h"
#include "packet/completion.h"
#include "packet/packet_reporter.h"
#include "packet/reference_buffer.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

class Decoder;
class Dispatcher;

class HeadOfQueue final : public RingListener, public RetireListener, public QueueWaits, public ScopesListener {
 public:
  struct Neighbours {
    RingReader& reader;
    ReferenceBuffer& tables;
    Decoder& decoder;
    Dispatcher& dispatcher;
    Completion& completion;
    QueueSupervisor& supervisor;
  };

  HeadOfQueue(const StageContext& context, const Neighbours& to);

  // Null: there is none.
  Packet* head(std::uint32_t queue) const { return heads_[queue]; }
  // All packets of its queue before it are complete.
  bool is_oldest(const Packet& packet) const { return to_.reader.ring(packet.queue).is_oldest(packet.index); }
  // The next packet of the queue becomes its head, if it can.
  void advance(std::uint32_t queue) override;
  // The packet has been launched as a whole; it may run on. Nothing happens if it is not the head any more.
  void release(Packet& packet);
  // The head, if there is one, is forgotten if nothing of it has been launched, and otherwise launches no more kernels;
  // `later`: as Dispatcher::cut() has it.
  void cut(std::uint32_t queue, bool later);
  // From completion.
  void retire(Packet& packet) override;
  // From the table: the barrier bit of a condensed packet whose first diff does not have it.
  void scopes_read(std::uint32_t queue, std::uint64_t ticket, std::uint8_t scopes) override;
  // Nothing of what was known of the queue's packets holds any more.
  void open(std::uint32_t queue) { looks_[queue] = {++last_look_, 0, Look::State::none}; }

  void reset();
  const char* wait_reason(std::uint32_t queue) const override;
  void collect_waits(WaitGraph& graph, const Packet& packet) const;
  void collect_waits(WaitGraph& graph, std::uint32_t queue) const;

 private:
  // What the table has said of the next packet.
  struct Look {
    enum class State : std::uint8_t { none, asked, barrier, no_barrier };
    std::uint64_t ticket = 0;
    std::uint64_t index = 0;  // of the packet
    State state = State::none;
  };

  // The entry has been asked whether the next packet waits.
  bool asks(std::uint32_t queue) const;
  bool held_back(std::uint32_t queue, const QueueCore& ring);
  void begin(std::uint32_t queue);
  void drop(std::uint32_t queue);
  void note_open();
  void note_waiting(std::uint32_t queue);

  const StageContext& context_;
  const Neighbours to_;
  std::vector<Packet*> heads_;  // by queue
  std::vector<Look> looks_;     // by queue
  std::uint64_t last_look_ = 0;
  IdleWork begun_work_;
  IdleWork ring_work_;
  IdleWork signals_work_;
  std::vector<std::uint64_t> waiting_;  // by queue: packets that have been read and not begun
  std::uint64_t all_waiting_ = 0;
};

}  // namespace heddle::packet
