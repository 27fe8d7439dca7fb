// Any bytes are a saved device, or a sentence about what is wrong with them (HST-08): of the file, and of each block's
// part of it, which a checksum does not protect from whoever writes files.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "arch/gpu_observation.h"
#include "common/error.h"
#include "gpu/gpu.h"
#include "gpu/machine_state.h"
#include "gpu/state_file.h"
#include "program/code_image.h"
#include "support/gpu_lab.h"

namespace {

using namespace heddle;

struct Machine {
  Machine()
      : observation("gpu0"),
        gpu("gpu0", test::preset_params("small", {"gpu.memory=64 MiB"}), 1, observation, gpu::DeviceMemory::own,
            std::make_shared<program::CodeImage>()) {
    sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);  // every restore is a reset
    std::ostringstream out;
    gpu.state().save(out);
    empty = out.str();
  }

  // True if it was restored.
  bool restore(const std::string& file) {
    std::istringstream in(file);
    try {
      gpu.state().restore(in);
    } catch (const InputError& error) {
      if (error.message().empty() || error.remedy().empty()) std::abort();
      return false;
    }
    return true;
  }

  GpuObservation observation;
  gpu::Gpu gpu;
  std::string empty;  // nothing has been done
};

// The parts of a file, which begin with this one's configuration, with bytes of the input for those that it chooses.
std::string rebuilt(const std::string& empty, const std::string& input) {
  std::istringstream in(empty);
  std::ostringstream out;
  gpu::StateFileReader from(in);
  gpu::StateFileWriter to(out);
  to.section("configuration", from.section("configuration"));
  const std::uint8_t which = static_cast<std::uint8_t>(input[0]);
  const std::size_t at = input.size() > 1 ? static_cast<std::uint8_t>(input[1]) * std::size_t{16} : 0;
  unsigned number = 0;
  for (const char* name : {"programs", "code", "sharing", "packets", "windows", "registers", "memory"}) {
    std::string part = from.section(name);
    if (which % 7 == number++) {
      const std::string bytes = input.substr(std::min<std::size_t>(2, input.size()));
      if ((which & 0x80) != 0) {
        part = bytes;  // all of it
      } else {
        part.replace(std::min(at, part.size()), std::min(bytes.size(), part.size() - std::min(at, part.size())), bytes);
      }
    }
    to.section(name, part);
  }
  to.finish();
  return out.str();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Machine& machine = *new Machine;  // as long as SystemC's own context
  const std::string input(reinterpret_cast<const char*>(data), size);
  (void)machine.restore(input);
  if (size > 0 && machine.restore(rebuilt(machine.empty, input))) {
    std::ostringstream again;  // what was taken can be saved
    machine.gpu.state().save(again);
  }
  if (!machine.restore(machine.empty)) std::abort();
  return 0;
}
