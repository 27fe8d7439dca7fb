// The life of queues: commands of the host, errors that stop a queue (PKT-09), and the end of a queue that is closed
// (PKT-04).
#pragma once

#include <cstdint>

#include "packet/pipeline_stage.h"
#include "packet/reference_table.h"

namespace heddle::packet {

class Decoder;
class HeadOfQueue;
class OtherPackets;
class RingReader;

class QueueControl final : public QueueSupervisor {
 public:
  struct Neighbours {
    RingReader& reader;
    HeadOfQueue& heads;
    Decoder& decoder;
    OtherPackets& others;
    ReferenceTables& tables;
  };

  QueueControl(const StageContext& context, const Neighbours& to) : context_(context), to_(to) {}

  // From the host interface.
  void on_command(const protocol::QueueCommandPacket& command, std::uint32_t);
  void fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::Verdict& result) override;
  void try_close(std::uint32_t queue) override;
  void collect_waits(WaitGraph& graph, std::uint32_t queue) const;

 private:
  void open(std::uint32_t queue, const protocol::QueueSetup& setup);
  void close(std::uint32_t queue);
  void tell_state(std::uint32_t queue, arch::HsaStatus status, std::uint64_t index, std::uint32_t kernel = 0);

  const StageContext& context_;
  const Neighbours to_;
};

}  // namespace heddle::packet
