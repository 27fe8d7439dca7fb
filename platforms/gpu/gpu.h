// A GPU: host interface, packet processor, copy engines, task management, distributor, GPCs, wired from a
// configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <systemc>
#include <tlm>

#include "arch/fault.h"
#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "common/cycle.h"
#include "common/domain.h"
#include "gpu/gpu_params.h"
#include "gpu/memory_backdoor.h"
#include "protocol/host_task.h"

// Blocks are named here and not included: whoever needs more of one than its name includes its header.
namespace heddle {
class MemoryOut;
struct GpuObservation;
template <class Packet>
class PacketIn;
template <class Packet>
class PacketOut;
}  // namespace heddle
namespace heddle::protocol {
struct SubmitPacket;
struct DonePacket;
}  // namespace heddle::protocol
namespace heddle::arch {
class CodeDecoder;
class WarpProgram;
struct Demand;
}  // namespace heddle::arch
namespace heddle::packet {
class PacketProcessor;
}
namespace heddle::link {
class LinkUnit;
}

namespace heddle::gpu {

class MachineState;

// Resources of one SM that something outside the model holds from the start.
struct SmPreload {
  std::uint32_t sm = 0;  // id
  arch::ResourceVector amount;
  Cycle until = 0;  // cycle in which they become free; 0: never
};

// A change of how the machine is shared that was not carried out.
struct RefusedShare {
  protocol::SubcontextPacket share;
  protocol::ShareRefusal why = protocol::ShareRefusal::none;
  Cycle when = 0;
};

// What went wrong on a machine since its start or its last reset, in the order of time.
class FaultLog {
 public:
  void add(const arch::FaultRecord& fault) { faults_.push_back(fault); }
  void add(const RefusedShare& refused) { refused_shares_.push_back(refused); }
  void clear() {
    faults_.clear();
    refused_shares_.clear();
  }

  // Operations that could not be carried out.
  const std::vector<arch::FaultRecord>& faults() const { return faults_; }
  const std::vector<RefusedShare>& refused_shares() const { return refused_shares_; }

 private:
  std::vector<arch::FaultRecord> faults_;
  std::vector<RefusedShare> refused_shares_;
};

// Message types of SystemC reports, of severity INFO: an operation that could not be carried out, and a reset, by
// whatever way it came.
constexpr const char* kFaultReport = "/heddle/fault";
constexpr const char* kResetReport = "/heddle/reset";

// Any number of them can be in one simulation, of different shapes; none knows of the others. A Gpu never calls
// sc_start, and leaves the time resolution alone.
class Gpu : public sc_core::sc_module {
 public:
  // `observation` must outlive the Gpu; its prefix ("gpu0") begins the paths of all statistics. `seed` decides what is
  // random: the durations of CTAs whose kernel gives a range. Throws InputError if the parameters contradict each
  // other. `decoder`: for code that software brings (HST-07), program::CodeImage of platforms/program; null: kernel
  // objects with code in memory are refused.
  Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, GpuObservation& observation,
      DeviceMemory memory = DeviceMemory::own, std::shared_ptr<const arch::CodeDecoder> decoder = {});
  ~Gpu() override;

  using TargetSocket = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  using InitiatorSocket =
      tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

  // The boundary that a platform binds (HST-01, HST-02); whatever is not needed may stay unbound.
  TargetSocket& bar0();          // registers and doorbells
  TargetSocket& bar1();          // device memory
  InitiatorSocket& dma();        // to the host's memory
  sc_core::sc_out<bool>& irq();  // level
  sc_core::sc_in<bool>& rst();   // active high
  // The L2's end of the link to memory, to be bound where another memory is attached. One per slice.
  MemoryOut& memory_out(std::uint32_t slice);

  // The ends of the links to other GPUs, to be bound to theirs or to a switch (gpu/link_fabric.h); null unless
  // gpu.links.enabled.
  link::LinkUnit* links();

  // The way in and out for testbenches without a host: operations and streams (protocol/host_task.h). Either may
  // stay unbound.
  PacketIn<protocol::SubmitPacket>& submit_in();
  PacketOut<protocol::DonePacket>& done_out();

  // What SMs hold at the start; before the simulation, once. A reset restores it. Throws InputError if an SM does not
  // exist or cannot hold that much.
  void preload(const std::vector<SmPreload>& loads);

  // A program for KernelShape::code. `kernel`: its grid, block and shared memory. Throws InputError for one that
  // launches tasks if the machine has no room for their records.
  std::uint32_t add_code(std::shared_ptr<const arch::WarpProgram> program, const arch::KernelShape& kernel);
  // The same for what CTAs demand in place of a program. Throws InputError if the machine has no units of that kind.
  std::uint32_t add_code(std::shared_ptr<const arch::Demand> demand, const arch::KernelShape& kernel);

  // Device memory, for debuggers and loaders.
  MemoryBackdoor& memory();
  // Whoever wants to be told of every packet's phases listens to it.
  packet::PacketProcessor& packets();
  const FaultLog& log() const;
  // What it has found; null: gpu.check.races is off. Who owns an attached memory tells it of his own accesses there
  // (host_reads, host_writes).
  arch::RaceChecker* races();

  Domain& domain();
  const Domain& domain() const;
  // That of the HBM: a clock of its own where the other one may change; else the same.
  Domain& memory_domain();
  const arch::Topology& topology() const;
  const GpuParams& params() const;

  // Back to the state after elaboration, in mid-flight: whatever ran or was on its way is gone. Statistics start anew.
  // To be called from outside the GPU's own events, e.g. from the process of a testbench.
  // Memory keeps its bytes, but for those that only the L2 had: what SMs, copies and non-blocking accesses wrote and
  // nothing has written back is as it was before. Sectors that were corrupt are not any more.
  // What has already left through done_out is the host's and may still arrive; so may writes that the host's bus has
  // already, until settled() (the register STATUS).
  void reset();

  // Sets the statistics of idle SMs, and of power where energy is counted, for what has been up to now. Any number of
  // times.
  // `more`: something is still to be submitted, so that SMs without work wait for the host, rather than being over.
  void settle(bool more = false);

  // Payloads of the front end and the L2 that are not free: few on an idle machine, as many after any number of resets.
  std::size_t payloads() const;
  // Operations taken in and not ended.
  std::size_t open_operations() const;
  // Into a file and out of it (HST-08).
  MachineState& state();
  // Throws CheckFailed unless the idle machine is as it was after elaboration: no CTA, no resource, no credit is
  // missing.
  void check_quiescent();

 private:
  class Blocks;
  class MemoryClock;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace heddle::gpu
