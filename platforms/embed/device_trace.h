// Signals of a device for the trace files of SystemC: what its CTAs and packets do, at the times at which they do it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <systemc>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "packet/packet_log.h"

namespace heddle::embed {

// It is always there, and hears nothing before trace().
class DeviceTrace final : public sc_core::sc_module,
                          private CtaListener,
                          private packet::PacketListener,
                          private Resettable {
 public:
  // Both must outlive it.
  DeviceTrace(const sc_core::sc_module_name& name, gpu::Gpu& gpu, GpuObservation& observation);
  ~DeviceTrace() override;

  // Adds the signals, below `prefix`. Throws InputError once simulation has begun, and for a second file.
  void trace(sc_core::sc_trace_file& file, const sc_core::sc_out<bool>& irq, const std::string& prefix);

 private:
  // What changes at a time that simulation may not have reached: the device runs ahead of it.
  struct Change {
    std::uint32_t task = 0;
    int ctas = 0;  // of that task, more or less
    unsigned packets = 0;
    std::uint64_t hbm_bytes = 0;  // as they were when it was told
  };

  void cta_started(const Cta& cta) override { plan(cta.cycle, {cta.task, 1, 0, 0}); }
  void cta_ended(const Cta& cta) override { plan(cta.cycle, {cta.task, -1, 0, 0}); }
  void cta_saved(const Cta& cta) override { plan(cta.cycle, {cta.task, -1, 0, 0}); }
  void cta_restored(const Cta& cta) override { plan(cta.cycle, {cta.task, 1, 0, 0}); }
  void kernel_dispatched(const packet::PacketRecord&) override {}
  void packet_done(const packet::PacketRecord&) override;
  void reset() override;

  void plan(Cycle when, Change change);
  void drive();
  void write();

  gpu::Gpu& gpu_;
  GpuObservation& observation_;
  bool tracing_ = false;
  sc_core::sc_event event_;
  std::multimap<sc_core::sc_time, Change> plan_;
  std::map<std::uint32_t, int> ctas_by_task_;
  Change sums_;
  sc_core::sc_signal<bool> busy_{"busy"};
  sc_core::sc_signal<unsigned> ctas_{"ctas"};
  sc_core::sc_signal<unsigned> kernels_{"kernels"};
  sc_core::sc_signal<unsigned> packets_{"packets"};
  sc_core::sc_signal<sc_dt::uint64> hbm_bytes_{"hbm_bytes"};
};

}  // namespace heddle::embed
