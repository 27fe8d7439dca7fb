// A streaming multiprocessor: keeps its resources exactly and runs CTAs for a number of cycles.
#pragma once

#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "protocol/cta_packet.h"
#include "sm/sm_params.h"

namespace heddle::sm {

class Sm : public Block {
 public:
  // `id`: number of the SM in the machine. `exit_distance`: cycles to the MPC. `seed`: of CTA durations.
  Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
     std::uint32_t id, std::uint32_t exit_distance, std::uint64_t seed);

  PacketIn<protocol::CtaStartPacket> start_in;
  PacketOut<protocol::CtaExitPacket> exit_out;

  const arch::ResourceVector& used() const { return used_; }
  std::uint32_t resident() const { return resident_; }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  struct Cta {
    bool running = false;
    std::uint32_t slot = 0;
    std::uint32_t operation = 0;
    std::uint64_t index = 0;
    Cycle begin = 0;
    arch::ResourceVector need;
  };

  void on_event(std::uint32_t kind, std::uint64_t cta_slot) override;
  void on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival);

  const arch::ResourceVector capacity_;
  const Cycle start_cycles_;
  const std::uint32_t id_;
  const std::uint64_t seed_;
  arch::ResourceVector used_;
  std::uint32_t resident_ = 0;
  std::vector<Cta> ctas_;  // by CTA slot
  std::vector<TrackId> tracks_;
  Counter& started_;
  Counter& warp_cycles_;
};

}  // namespace heddle::sm
