// The life of queues, beside the stages.
#pragma once

#include <cstdint>

#include "common/state.h"
#include "packet/packet_reporter.h"
#include "packet/reference_buffer.h"

namespace heddle::packet {

class Decoder;
class Dispatcher;
class HeadOfQueue;
class OtherPackets;
class RingReader;

// The life of queues: commands of the host, errors that stop a queue (PKT-09), and the end of a queue that is closed
// (PKT-04) or inactivated (PKT-14).
class QueueControl final : public QueueSupervisor {
 public:
  struct Neighbours {
    RingReader& reader;
    HeadOfQueue& heads;
    Decoder& decoder;
    Dispatcher& dispatcher;
    OtherPackets& others;
    ReferenceBuffer& tables;
  };

  QueueControl(const StageContext& context, const Neighbours& to) : context_(context), to_(to) {}

  // From the host interface.
  void on_command(const protocol::QueueCommandPacket& command, std::uint32_t);
  void fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::HsaResult& result) override;
  void try_close(std::uint32_t queue) override;
  void collect_waits(WaitGraph& graph, std::uint32_t queue) const;
  // Of a queue of which no packet is inside.
  void save(std::uint32_t queue, StateWriter& to) const;
  void restore(std::uint32_t queue, StateReader& from);

 private:
  void open(std::uint32_t queue, const protocol::QueueSetup& setup);
  void enter(std::uint32_t queue, const protocol::QueueSetup& setup, std::uint64_t first);
  void close(std::uint32_t queue);
  void inactivate(std::uint32_t queue);
  void stop(std::uint32_t queue, protocol::QueueState state);
  void tell_state(std::uint32_t queue, const arch::HsaResult& result, std::uint64_t index, std::uint32_t kernel = 0);

  const StageContext& context_;
  const Neighbours to_;
};

}  // namespace heddle::packet
