// What all stages of one tensor memory access unit share: its place, its parameters, its table of requests, its
// statistics, and whom they tell what others have to know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/timebase.h"
#include "tmau/bulk_work.h"
#include "tmau/tmau_params.h"
#include "tmau/tmau_stats.h"

namespace heddle::tmau {

// Where a unit is: it serves SMs `first` to `first + ids.size() - 1` of its GPC.
struct TmauPlace {
  std::uint32_t gpc = 0;           // of the machine
  std::uint32_t number = 0;        // of the unit in its GPC
  std::uint32_t units = 1;         // of the GPC
  std::uint32_t per_unit = 1;      // SMs of each unit of the GPC: bit b belongs to unit b / per_unit
  std::uint32_t first = 0;         // bit of the GPC's masks
  std::vector<std::uint32_t> ids;  // of the SMs in the machine
  std::uint64_t memory = 0;        // bytes of device memory

  std::uint32_t sms() const { return static_cast<std::uint32_t>(ids.size()); }
};

// What one stage tells others that it does not know. `sm`: of the unit.
class StageEvents {
 public:
  // SmPorts: memory has answered; the port takes line requests again from that cycle on.
  virtual void answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival) = 0;
  virtual void port_free(Cycle when) = 0;
  // SetupUnit: it is known from when on the next descriptor can be looked up.
  virtual void look_up_free() = 0;
  // BulkGenerator: all lines of a request have been generated; places behind the queue have become free.
  virtual void all_generated(BulkWork& work) = 0;
  virtual void place_behind_queue() = 0;
  // SharedDelivery: so many packets of a request have been delivered, or will be at `when` (TMA-31).
  virtual void acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when) = 0;

 protected:
  ~StageEvents() = default;
};

struct UnitContext {
  Timebase& timebase;
  const TmauParams& params;
  const TmauPlace& place;
  WorkTable& works;
  TmauStats& stats;
  StageEvents& events;
  const char* module;  // name of the unit's module, for messages
  std::string path;    // of the unit in its machine

  Cycle now() const { return timebase.now(); }
  bool blocking() const { return timebase.mode() == TimingMode::lt; }

  // Names for messages.
  std::string name_of(const BulkWork& work) const {
    return std::string(arch::bulk_name(work.kind())) + " of SM " + std::to_string(place.ids[work.sm]) + ", CTA " +
           std::to_string(work.packet.cta) + ", warp " + std::to_string(work.packet.warp);
  }
  std::string drain_of(std::uint32_t sm) const { return "drain of SM " + std::to_string(place.ids[sm]); }
};

}  // namespace heddle::tmau
