// Small kernel traces of rocprofv3 as text.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "import/recordings.h"

namespace heddle::test {

// The columns of rocprofv3 1.0, and one line per kernel.
class RocprofText {
 public:
  RocprofText& kernel(std::uint64_t start, std::uint64_t end, int queue = 1,
                      const std::string& shape = "64,1,1,256,1,1", const std::string& name = "k",
                      const std::string& agent = "4") {
    ++number_;
    lines_.push_back(fmt::format(R"("KERNEL_DISPATCH",{},{},7,99,{},5,"{}",{},{},{},2048,16,24,8,32,{})",
                                 agent.find(' ') == std::string::npos ? agent : '"' + agent + '"', queue, number_, name,
                                 number_, start, end, shape));
    return *this;
  }
  RocprofText& line(const std::string& text) {
    lines_.push_back(text);
    return *this;
  }
  std::string text() const {
    std::string result = kHeader + "\n";
    for (const std::string& line : lines_) result += line + "\n";
    return result;
  }

  static inline const std::string kHeader =
      R"("Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",)"
      R"("Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",)"
      R"("Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X",)"
      R"("Grid_Size_Y","Grid_Size_Z")";

 private:
  int number_ = 0;
  std::vector<std::string> lines_;
};

inline std::vector<workload::Workload> import_rocprof_text(const std::string& text) {
  std::istringstream stream(text);
  return import::import_rocprof(stream, "t.csv");
}

// What the import says to it; empty if it accepts it.
inline std::string rocprof_refusal(const std::string& text) {
  try {
    (void)import_rocprof_text(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace heddle::test
