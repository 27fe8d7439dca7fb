#include "embed/device_trace.h"

#include <algorithm>
#include <string>

#include "common/error.h"
#include "packet/packet_processor.h"

namespace heddle::embed {

DeviceTrace::DeviceTrace(const sc_core::sc_module_name& name, gpu::Gpu& gpu, GpuObservation& observation)
    : sc_core::sc_module(name), gpu_(gpu), observation_(observation) {
  SC_HAS_PROCESS(DeviceTrace);
  SC_METHOD(drive);
  sensitive << event_;
  dont_initialize();
}

DeviceTrace::~DeviceTrace() {
  if (observation_.ctas == this) observation_.ctas = nullptr;
}

void DeviceTrace::trace(sc_core::sc_trace_file& file, const sc_core::sc_out<bool>& irq, const std::string& prefix) {
  if (sc_core::sc_start_of_simulation_invoked()) {
    throw InputError("a device is to be traced, and simulation has begun", "call trace() before sc_start()");
  }
  if (tracing_) throw InputError("a device is to be traced for a second time", "call trace() once");
  tracing_ = true;
  observation_.ctas = this;
  gpu_.packets().listen(*this);
  gpu_.domain().add_resettable(*this);
  sc_core::sc_trace(&file, irq, prefix + ".irq");
  sc_core::sc_trace(&file, busy_, prefix + ".busy");
  sc_core::sc_trace(&file, kernels_, prefix + ".kernels");
  sc_core::sc_trace(&file, packets_, prefix + ".packets");
  sc_core::sc_trace(&file, ctas_, prefix + ".ctas");
  sc_core::sc_trace(&file, hbm_bytes_, prefix + ".hbm_bytes");
}

void DeviceTrace::packet_done(const packet::PacketRecord&) { plan(gpu_.domain().now(), {0, 0, 1, 0}); }

void DeviceTrace::plan(Cycle when, Change change) {
  const Stats& stats = observation_.stats;
  const std::string hbm = observation_.prefix + ".hbm.";
  change.hbm_bytes = static_cast<std::uint64_t>(stats.value(hbm + "read_bytes") + stats.value(hbm + "written_bytes"));
  const sc_core::sc_time now = sc_core::sc_time_stamp();
  const sc_core::sc_time at = std::max(now, gpu_.domain().clock().time_of(when));
  plan_.emplace(at, change);
  event_.notify(plan_.begin()->first - now);  // the earliest notification counts
}

void DeviceTrace::drive() {
  const sc_core::sc_time now = sc_core::sc_time_stamp();
  while (!plan_.empty() && plan_.begin()->first <= now) {
    const Change change = plan_.begin()->second;
    plan_.erase(plan_.begin());
    sums_.packets += change.packets;
    sums_.hbm_bytes = std::max(sums_.hbm_bytes, change.hbm_bytes);
    if (change.ctas == 0) continue;
    sums_.ctas += change.ctas;
    int& of_task = ctas_by_task_[change.task];
    of_task += change.ctas;
    if (of_task == 0) ctas_by_task_.erase(change.task);
  }
  write();
  if (!plan_.empty()) event_.notify(plan_.begin()->first - now);
}

void DeviceTrace::write() {
  busy_.write(sums_.ctas > 0);
  ctas_.write(static_cast<unsigned>(std::max(0, sums_.ctas)));
  kernels_.write(static_cast<unsigned>(ctas_by_task_.size()));
  packets_.write(sums_.packets);
  hbm_bytes_.write(sums_.hbm_bytes);
}

// Whatever ran is gone, and statistics begin anew.
void DeviceTrace::reset() {
  plan_.clear();
  ctas_by_task_.clear();
  sums_ = {};
  event_.notify(sc_core::SC_ZERO_TIME);
}

}  // namespace heddle::embed
