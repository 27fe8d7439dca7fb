// Any bytes are either a kernel trace of rocprofv3 or an InputError (INP-07).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "common/error.h"
#include "import/recordings.h"

namespace {

void import(const std::string& text) {
  std::istringstream stream(text);
  try {
    for (const heddle::workload::Workload& workload : heddle::import::import_rocprof(stream, "fuzz.csv")) {
      if (workload.ops.empty()) std::abort();
    }
  } catch (const heddle::InputError&) {
    // Refused, as it should be. Everything else that is thrown is a finding.
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  import(bytes);
  // The same as lines below a header that is right: most mutations of a whole file end at its first line.
  import(
      "Kind,Agent_Id,Queue_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Workgroup_Size_X,Workgroup_Size_Y,"
      "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z\n" +
      bytes + "\n");
  return 0;
}
