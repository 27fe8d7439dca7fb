// CTAs without a program: they run for a number of cycles, or until the work that they demand is done
// (protocol/sm_fluid.h).
#pragma once

#include <cstdint>
#include <vector>

#include "common/packet_port.h"
#include "protocol/sm_fluid.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class CtaControl;

class TimedCtas final : private SmUnit, private EventHandler {
 public:
  // `seed`: of durations.
  TimedCtas(const UnitContext& context, std::uint64_t seed, CtaControl& control,
            PacketSender<protocol::WorkPacket>& work);
  // The links to whoever works for those with demands.
  void connect(bool connected) { connected_ = connected; }

  // The CTA has arrived.
  void begin(Cta& cta, Cycle arrival);
  // What it has left: cycles or, of one with a demand, 2^-32 parts of its work. At least 1 while it runs.
  std::uint64_t left(const Cta& cta);
  // It does not go on, and keeps what it has left.
  void pause(Cta& cta);
  // It goes on from here, with so much left; as it was paused, if it was.
  void resume(Cta& cta, std::uint64_t left);
  void go_on(Cta& cta);
  // It leaves before its end.
  void stop(Cta& cta);
  void on_done(const protocol::WorkDonePacket& packet, std::uint32_t, Cycle arrival);
  void reset();

 private:
  // The argument is the CTA slot.
  enum Event : std::uint32_t { kDurationEnds, kWorkStarts };
  struct Work {
    bool demand = false;
    bool runs = false;       // with a demand: its work is being done
    std::uint64_t held = 0;  // what it has left, while it is paused
  };
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Work& of(const Cta& cta);
  // At cta.ends, which is 0 when nothing is scheduled for the CTA.
  void schedule(Event event, const Cta& cta) { time_.schedule(cta.ends, *this, event, cta.start.cta_slot); }
  void start(const Cta& cta, std::uint64_t left);
  std::uint64_t take_back(const Cta& cta);

  const std::uint64_t seed_;
  const Cycle start_cycles_;
  CtaControl& control_;
  PacketSender<protocol::WorkPacket>& work_;
  bool connected_ = false;
  std::vector<Work> works_;  // by CTA slot; none before the first
  double answer_ = 0;        // to the last stop
};

}  // namespace heddle::sm
