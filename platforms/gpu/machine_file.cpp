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

ResolvedMachine resolve(const MachineChoice& choice) {
  std::vector<MachineFile> files;
  std::string preset_name = choice.fallback;
  for (const std::string& path : choice.files) {
    files.push_back(read_machine_file(path));
    if (!files.back().preset.empty()) preset_name = files.back().preset;
  }
  if (!choice.preset.empty()) preset_name = choice.preset;

  ParamLayers layers(1, {"run", "host"});
  layers.add_preset(0, preset(preset_name), {Origin::Kind::preset, "preset " + preset_name});
  for (std::size_t i = 0; i < files.size(); ++i) layers.add(files[i].roots, {Origin::Kind::file, choice.files[i]});
  for (const std::string& setting : choice.settings) layers.assign(setting);

  ResolvedMachine machine;
  ParamBinder binder;
  machine.params.bind(binder);
  layers.resolve(binder, 0);
  machine.entries = binder.entries();
  check_values(machine.params, machine.entries);
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "gpu" << YAML::Value;
  binder.dump_root(out, "gpu");
  out << YAML::EndMap;
  machine.text = std::string(out.c_str()) + "\n";
  return machine;
}

}  // namespace heddle::gpu
