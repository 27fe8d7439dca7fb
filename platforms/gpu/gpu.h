// A GPU: host interface, packet processor, copy engines, task management, distributor, GPCs, wired from a
// configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/code_store.h"
#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "copy/copy_engines.h"
#include "cwd/cwd.h"
#include "gpu/gpc_tree.h"
#include "gpu/gpu_params.h"
#include "gpu/memory_system.h"
#include "gpu/mmu_system.h"
#include "host/host_interface.h"
#include "host/memory_hub.h"
#include "packet/packet_processor.h"
#include "task/task_unit.h"

namespace heddle::gpu {

// Resources of one SM that something outside the model holds from the start.
struct SmLoad {
  std::uint32_t sm = 0;  // id
  arch::ResourceVector amount;
  Cycle until = 0;  // cycle in which they become free; 0: never
};

// Any number of them can be in one simulation, of different shapes; none knows of the others. A Gpu never calls
// sc_start, and leaves the time resolution alone.
class Gpu : public sc_core::sc_module, private host::Device, private packet::FitCheck {
 public:
  // `observation` must outlive the Gpu; its prefix ("gpu0") begins the paths of all statistics. `seed` decides what is
  // random: the durations of CTAs whose kernel gives a range. Throws InputError if the parameters contradict each
  // other.
  Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, GpuObservation& observation,
      DeviceMemory memory = DeviceMemory::own);
  ~Gpu() override;

  // The boundary that a platform binds (HST-01, HST-02); whatever is not needed may stay unbound.
  host::HostInterface::TargetSocket& bar0() { return host_.bar0(); }  // registers and doorbells
  host::HostInterface::TargetSocket& bar1() { return host_.bar1(); }  // device memory
  auto& dma() { return hub_.dma(); }                                  // to the host's memory
  sc_core::sc_out<bool>& irq() { return host_.irq(); }                // level
  sc_core::sc_in<bool>& rst() { return host_.rst(); }                 // active high

  // Told of every packet's phases; must outlive the simulation.
  void listen(packet::PacketListener& listener) { packets_.listen(listener); }
  const packet::PacketProcessor& packets() const { return packets_; }

  // The way in and out for testbenches without a host: operations and streams (protocol/host_task.h). Either may
  // stay unbound.
  PacketIn<protocol::SubmitPacket>& submit_in() { return task_.submit_in; }
  PacketOut<protocol::DonePacket>& done_out() { return task_.done_out; }

  // What SMs hold at the start; before the simulation, once. A reset restores it. Throws InputError if an SM does not
  // exist or cannot hold that much.
  void preload(const std::vector<SmLoad>& loads);

  // A program for KernelShape::code. `kernel`: its grid, block and shared memory. Throws InputError for one that
  // launches tasks if the machine has no room for their records.
  std::uint32_t add_code(std::shared_ptr<const arch::WarpProgram> program, const arch::KernelShape& kernel);

  // Device memory as the machine sees it now, newest bytes first from the L2; without time or effect on anything else.
  // False if part of the range is outside memory, or if the memory is attached and simulation has not begun.
  bool read_memory(std::uint64_t address, void* to, std::uint64_t bytes) override;
  bool write_memory(std::uint64_t address, const void* from, std::uint64_t bytes) override;
  // The sectors that those bytes touch are corrupt from now on, as by an uncorrectable error in the L2: whoever reads
  // one is told so, until the whole of it has been written. For tests and error injection. False: outside memory.
  bool poison_memory(std::uint64_t address, std::uint64_t bytes);
  // The L2's end of the link to memory, to be bound where another memory is attached. One per slice.
  MemoryOut& memory_out(std::uint32_t slice) { return memory_.slices[slice]->memory_out; }
  std::uint32_t slices() const { return memory_.map.slices(); }

  // What could not be carried out since the start or the last reset, in order of time.
  const std::vector<arch::FaultRecord>& faults() const { return faults_; }
  // Changes of sharing that were refused since the reset, in order of time.
  struct RefusedShare {
    protocol::SubcontextPacket share;
    protocol::ShareRefusal why = protocol::ShareRefusal::none;
    Cycle when = 0;
  };
  const std::vector<RefusedShare>& refused_shares() const { return refused_shares_; }

  Domain& domain() { return domain_; }
  const Domain& domain() const { return domain_; }
  const arch::Topology& topology() const { return topology_; }
  const GpuParams& params() const { return params_; }

  // Back to the state after elaboration, in mid-flight: whatever ran or was on its way is gone. Statistics start anew.
  // To be called from outside the GPU's own events, e.g. from the process of a testbench.
  // Memory keeps its bytes, but for those that only the L2 had: what SMs, copies and non-blocking accesses wrote and
  // nothing has written back is as it was before. Sectors that were corrupt are not any more.
  // What has already left through done_out is the host's and may still arrive; so may writes that the host's bus has
  // already, until settled() (the register STATUS).
  void reset();

  // Payloads of the front end and the L2 that are not free: few on an idle machine, as many after any number of resets.
  std::size_t payloads() const;

  // Operations taken in and not ended.
  std::size_t open_operations() const { return task_.open() + packets_.open(); }
  // Throws CheckFailed unless the idle machine is as it was after elaboration: no CTA, no resource, no credit is
  // missing.
  void check_quiescent();
  void collect_waits(WaitGraph& graph) const { domain_.collect_waits(graph); }

  // From a task's dispatch by task management to its first launch packet on an idle machine, in cycles.
  static Cycle start_path(const GpuParams& params);

 private:
  void before_end_of_elaboration() override;
  void wire();
  void wire_front_end();
  void wire_memory();
  void clear_records();
  // host::Device
  bool direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first, std::uint64_t& last) override;
  void on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> invalidate) override;
  bool grants_direct() const override { return memory_.hbm != nullptr; }
  bool corrupt_memory(std::uint64_t address, std::uint64_t bytes) const override;
  void reset_device() override { reset(); }
  bool settled() const override { return hub_.settled(); }
  // packet::FitCheck
  std::string why_never_fits(const arch::KernelShape& kernel) const override;
  bool move_memory(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint64_t bytes);
  sm::Sm& sm(std::uint32_t id);

  const GpuParams params_;
  const arch::Topology topology_;
  const arch::NestedMemory nested_;
  Domain domain_;
  arch::CodeStore codes_;
  task::TaskUnit task_;
  PacketOut<protocol::SubmitPacket> nobody_;  // where no testbench submits operations
  cwd::Cwd cwd_;
  MemorySystem memory_;
  host::HostInterface host_;
  host::MemoryHub hub_;
  packet::PacketProcessor packets_;
  copy::CopyEngines copies_;
  std::unique_ptr<MmuSystem> mmu_;  // null: addresses are not translated
  std::vector<arch::FaultRecord> faults_;
  std::vector<RefusedShare> refused_shares_;
  std::vector<std::unique_ptr<Gpc>> gpcs_;
};

}  // namespace heddle::gpu
