// A quiet device into a file, and out of it into another one of the same configuration (HST-08).
//
// What is saved is what software can find again: device memory, as far as anything but zeros is in it; registers,
// doorbells, interrupts and host windows; queues with their indices, and reference state tables; how the machine is
// shared, with the roots of page tables; the code that software has brought. Caches and TLBs are empty in the restored
// device, and times and statistics begin anew, as after a reset. Operations and TPC switches that a testbench has
// submitted without a host are not its software's: nothing of them is saved.
#pragma once

#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/domain.h"
#include "common/state.h"
#include "gpu/gpu_params.h"
#include "gpu/memory_backdoor.h"
#include "gpu/state_file.h"

namespace heddle::gpu {

class MachineState {
 public:
  // What the machine lends. All of it must outlive it.
  struct Machine {
    const GpuParams& params;
    Domain& domain;
    MemoryBackdoor& memory;
    std::function<std::vector<std::string>()> open;  // what is under way: "2 packets"; empty: it is quiet
    std::function<void()> reset;
  };

  explicit MachineState(Machine machine) : machine_(std::move(machine)) {}

  // A part of the state, below a name that no other one has; parts are restored in the order in which they were added.
  void add(std::string name, Saved& part) { parts_.push_back({std::move(name), part}); }

  // Neither is to be called from inside an event of the device. Nothing of the device changes, and the same state gives
  // the same bytes. Throws InputError, with what is open, if it is not quiet; where the memory is another's; if data in
  // it are corrupt; and if the stream does not take it.
  void save(std::ostream& out);
  // Whatever the device did before is gone, as by a reset. Throws InputError for a file that is none, of another
  // version, or of another configuration (gpu.timing and gpu.run_ahead may differ), which change nothing of the device;
  // and for one that is damaged behind that: the device is as after a reset then, with zeros in its memory.
  void restore(std::istream& in);

 private:
  struct Part {
    std::string name;
    Saved& part;
  };

  std::string configuration() const;
  void compare(const std::string& saved) const;
  void check_own() const;
  void read_all(StateFileReader& file);

  const Machine machine_;
  std::vector<Part> parts_;
};

}  // namespace heddle::gpu
