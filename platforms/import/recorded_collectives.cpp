#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/error.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;

bool communicates(std::string_view kernel) {
  constexpr std::string_view kResult = "void ";
  if (kernel.substr(0, kResult.size()) == kResult) kernel.remove_prefix(kResult.size());
  const std::string_view library = kernel.substr(0, 4);
  return (library == "nccl" || library == "rccl") && kernel.find("Kernel") != std::string_view::npos;
}

std::optional<Collective> collective_in_name(std::string_view name) {
  // Operations are named before arguments, which name types of the library.
  std::string word = lower_case(name.substr(0, name.find('(')));
  word.erase(std::remove(word.begin(), word.end(), '_'), word.end());
  constexpr std::array<std::pair<std::string_view, Collective>, 4> kWords{
      {{"allreduce", Collective::all_reduce},
       {"allgather", Collective::all_gather},
       {"reducescatter", Collective::reduce_scatter},
       {"broadcast", Collective::broadcast}}};
  for (const auto& [text, kind] : kWords) {
    if (word.find(text) != std::string::npos) return kind;
  }
  return std::nullopt;
}

std::uint64_t element_bytes(std::string_view type) {
  const std::string word = lower_case(type);
  if (word.substr(0, 6) == "float8") return 1;
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 13> kTypes{{{"double", 8},
                                                                               {"float", 4},
                                                                               {"half", 2},
                                                                               {"bfloat16", 2},
                                                                               {"long", 8},
                                                                               {"int", 4},
                                                                               {"short", 2},
                                                                               {"char", 1},
                                                                               {"byte", 1},
                                                                               {"bool", 1},
                                                                               {"complexhalf", 4},
                                                                               {"complexfloat", 8},
                                                                               {"complexdouble", 16}}};
  for (const auto& [text, bytes] : kTypes) {
    if (word == text) return bytes;
  }
  return 0;
}

void note_communication(Workload& workload) {
  for (Op& op : workload.ops) {
    if (op.kind != OpKind::kernel || op.communication || !communicates(op.kernel.name)) continue;
    op.communication.emplace();
    op.communication->kind = collective_in_name(op.kernel.name);
  }
}

}  // namespace heddle::import
