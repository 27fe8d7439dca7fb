// A GPU on a card: its module, its configuration space, and the guest's memory behind its DMA.
#pragma once

#include <cstdint>
#include <vector>

#include <systemc>
#include <tlm_utils/simple_initiator_socket.h>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "vp/guest_memory.h"
#include "vp/pci_config.h"

namespace heddle::vp {

struct BoardTally {
  std::uint64_t reads = 0;  // accesses to BARs
  std::uint64_t writes = 0;
  std::uint64_t interrupts = 0;  // times that the line went up
};

class Board : public sc_core::sc_module {
 public:
  // `aperture`: bytes of BAR 1, a power of two up to 1 GiB; it shows the device memory's first bytes. `seed`: of the
  // GPU. Throws InputError for parameters that contradict each other.
  Board(const sc_core::sc_module_name& name, const gpu::GpuParams& params, std::uint32_t aperture, std::uint64_t seed);

  gpu::Gpu& gpu() { return gpu_; }
  PciConfig& config() { return config_; }
  GuestMemory& memory() { return memory_; }
  const BoardTally& tally() const { return tally_; }

  // An access to a BAR. A read that fails, by the machine's rules or because nothing is there, is all ones; a write
  // that fails does nothing. Takes no simulated time: what it sets off happens in advance().
  std::uint64_t read(std::uint64_t address, unsigned bytes);
  void write(std::uint64_t address, std::uint64_t value, unsigned bytes);
  // The whole card, as after power-up, but for the bytes in device memory.
  void reset();

  // Lets simulated time pass until nothing is left to do, another interrupt is wanted, or `most` has passed. Returns
  // whether nothing is left to do.
  bool advance(const sc_core::sc_time& most);
  // The interrupt line has gone up since the last call of interrupt_taken().
  bool interrupt_wanted() const { return interrupt_wanted_; }
  void interrupt_taken() { interrupt_wanted_ = false; }

 private:
  bool access(tlm::tlm_command command, std::uint64_t address, std::uint64_t& value, unsigned bytes);
  void line_up();

  PciConfig config_;
  GuestMemory memory_;
  GpuObservation observation_;
  gpu::Gpu gpu_;
  tlm_utils::simple_initiator_socket<Board> bar0_;
  tlm_utils::simple_initiator_socket<Board> bar1_;
  sc_core::sc_signal<bool> irq_;
  bool interrupt_wanted_ = false;
  BoardTally tally_;
};

}  // namespace heddle::vp
