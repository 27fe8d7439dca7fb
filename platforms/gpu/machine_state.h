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
    std::function<void()> remove_codes;
  };

  explicit MachineState(Machine machine) : machine_(std::move(machine)) {}

  // A part that is not the device's to restore, and has to be the same: whatever is wrong with it changes nothing. All
  // of these come before the others.
  void add_compared(std::string name, Saved& part) { compared_.push_back({std::move(name), part}); }
  // Called when a restore has failed that had begun: memory holds zeros.
  void on_cleared(std::function<void()> listener) { cleared_.push_back(std::move(listener)); }
  // Called when one has succeeded.
  void on_restored(std::function<void()> listener) { restored_.push_back(std::move(listener)); }
  // All that Gpu::add_code() was given is gone; whoever adds the same again is given the same numbers. No kernel object
  // names one of them any more. Throws InputError, and forgets nothing, if the device is not quiet, or if an entry of a
  // reference state table has one.
  void forget_codes() { machine_.remove_codes(); }
  // A part of the state, below a name that no other one has; parts are restored in the order in which they were added.
  void add(std::string name, Saved& part) { parts_.push_back({std::move(name), part}); }

  // Neither is to be called from inside an event of the device. Nothing of the device changes, and the same state gives
  // the same bytes. Throws InputError, with what is open, if it is not quiet; where the memory is another's; if data in
  // it are corrupt; and if the stream does not take it.
  void save(std::ostream& out);
  // Whatever the device did before is gone, as by a reset. Throws InputError for a file that is none, of another
  // version, of another configuration (gpu.timing and gpu.run_ahead may differ), or of a device that has loaded
  // something else, which change nothing of the device; and for one that is damaged behind that: the device is as after
  // a reset then, with zeros in its memory, and can be restored from another file.
  void restore(std::istream& in);

 private:
  struct Part {
    std::string name;
    Saved& part;
  };

  std::string configuration() const;
  void compare(const std::string& saved) const;
  void check_own() const;
  void write(StateFileWriter& file, const Part& part) const;
  static void read(StateFileReader& file, const Part& part);
  void read_all(StateFileReader& file);

  const Machine machine_;
  std::vector<Part> compared_;
  std::vector<Part> parts_;
  std::vector<std::function<void()>> cleared_;
  std::vector<std::function<void()>> restored_;
};

}  // namespace heddle::gpu
