// GPC_CGAs that are saved as a whole while they wait for tasks (TSK-12): once all that runs of one could be saved, its
// CTAs are told to save their state; if all do, one of them publishes the CGA, and all leave.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/index_pool.h"
#include "common/packet_port.h"
#include "common/stats.h"
#include "common/timebase.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class CgaSaves final : private EventHandler {
 public:
  // Sends an order to all MPCs with CTAs of the CGA.
  using Sender = std::function<void(protocol::CgaId, const protocol::ClusterOrderPacket&)>;

  CgaSaves(Timebase& timebase, CgaTable& cgas, const GpcParams& params, Sender sender, const char* module);

  static bool concerns(protocol::ClusterNoticePacket::Kind kind);
  // May be heard ahead of its arrival.
  void notice(const protocol::ClusterNoticePacket& notice, Cycle arrival);
  // A CGA takes that id; its barrier completes a phase, and who waits there goes on; one of its CTAs has completed.
  void begin(protocol::CgaId id) { saves_[id] = {}; }
  void phase_ends(protocol::CgaId id);
  void left(protocol::CgaId id, std::uint32_t rank);
  // Something else has changed.
  void consider(protocol::CgaId id);
  void reset();

 private:
  using Mask = CgaBarrier::Mask;
  enum class Stage : std::uint8_t {
    runs,
    called,    // it is to make room, as soon as all of it is there
    stopping,  // its CTAs have been told to stop
    saving,
    publishing,
    leaving,
    restoring,
  };
  struct Save {
    Stage stage = Stage::runs;
    Mask ready = 0;  // CTAs that could be saved
    Mask waits = 0;  // of them, those that wait for tasks
    Mask odd = 0;    // of those: an odd number of phases is over for them
    Mask asked = 0;  // that have not saved their state yet
    Mask back = 0;   // that have been restored
    std::vector<protocol::SavedMember> members;
  };

  const char* handler_name() const override { return module_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void take(const protocol::ClusterNoticePacket& notice);
  void refused(protocol::CgaId id);
  bool can_be_saved(protocol::CgaId id) const;
  void look_at_restored(protocol::CgaId id);
  void order(protocol::CgaId id, protocol::ClusterOrderPacket::Kind kind, const Save& save);

  Timebase& timebase_;
  CgaTable& cgas_;
  const Sender sender_;
  const char* const module_;
  std::vector<Save> saves_;                           // by CGA id
  IndexPool<protocol::ClusterNoticePacket> notices_;  // on their way
};

}  // namespace heddle::gpc
