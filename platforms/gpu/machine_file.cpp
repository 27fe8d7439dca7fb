#include "gpu/machine_file.h"

#include "common/error.h"
#include "common/yaml_util.h"

namespace heddle::gpu {

MachineFile read_machine_file(const std::string& path) {
  MachineFile file;
  const YAML::Node node = load_yaml_file(path);
  if (!node.IsMap()) {
    throw InputError({path, 1, 0}, "is not a machine: expected a map with the key gpu",
                     "heddle run --dump-config FILE writes one that can be edited");
  }
  file.roots = YAML::Node(YAML::NodeType::Map);
  for (const auto& item : node) {
    const auto key = item.first.as<std::string>();
    if (key == "preset") {
      file.preset = item.second.as<std::string>();
    } else {
      file.roots[item.first] = item.second;
    }
  }
  return file;
}

void check_values(const GpuParams& params, const std::vector<ParamEntry>& entries) {
  try {
    params.check();
  } catch (const InputError& error) {
    if (!error.where().file.empty()) throw;
    const ParamEntry* found = nullptr;
    std::size_t at = std::string::npos;
    for (const ParamEntry& entry : entries) {
      if (entry.origin.kind != Origin::Kind::file && entry.origin.kind != Origin::Kind::command_line) continue;
      const std::size_t here = error.message().find(entry.path);
      if (here == std::string::npos || (found != nullptr && here > at)) continue;
      if (here == at && entry.path.size() < found->path.size()) continue;
      found = &entry;
      at = here;
    }
    if (found == nullptr) throw;
    throw InputError(SourcePos{found->origin.text, 0, 0}, error.message(), error.remedy());
  }
}

}  // namespace heddle::gpu
