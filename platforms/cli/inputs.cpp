#include "cli/inputs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "import/recordings.h"

namespace heddle::cli {
namespace {

enum class FileKind { scenario, kineto, nsys, rocprof, other };

FileKind kind_of(const std::string& path) {
  if (import::looks_like_kineto(path)) return FileKind::kineto;  // throws if the file cannot be read
  if (import::looks_like_nsys(path)) return FileKind::nsys;
  if (import::looks_like_rocprof(path)) return FileKind::rocprof;
  std::ifstream file(path, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return scenario::looks_like_scenario(head) ? FileKind::scenario : FileKind::other;
}

std::vector<workload::Workload> import_recording(FileKind kind, const std::string& path) {
  if (kind == FileKind::nsys) return import::import_nsys(path);
  return kind == FileKind::rocprof ? import::import_rocprof(path) : import::import_kineto(path);
}

std::string stem(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  const std::initializer_list<const char*> known = {".gz", ".json", ".sqlite", ".csv", ".yaml", ".yml"};
  while (std::find(known.begin(), known.end(), name.extension()) != known.end()) name = name.stem();
  return name.string();
}

void keep_device(std::vector<workload::Workload>& workloads, int device, const std::string& path) {
  std::vector<std::string> present;
  for (const workload::Workload& w : workloads) present.push_back(std::to_string(w.device.id));
  workloads.erase(std::remove_if(workloads.begin(), workloads.end(),
                                 [device](const workload::Workload& w) { return w.device.id != device; }),
                  workloads.end());
  if (workloads.empty()) {
    throw InputError({path, 0, 0}, fmt::format("has no operations of device {}", device),
                     fmt::format("its devices: {}", fmt::join(present, ", ")));
  }
}

Inputs from_scenario(scenario::Scenario scenario) {
  Inputs inputs;
  inputs.name = stem(scenario.file);
  inputs.workloads = scenario.workloads;
  inputs.scenario = std::move(scenario);
  return inputs;
}

}  // namespace

Inputs load_inputs(const std::vector<std::string>& files, std::optional<int> device) {
  if (files.empty() && device)
    throw InputError("--device chooses a device of a recording, and there is none", "name the trace");
  if (files.empty()) return from_scenario(scenario::parse_scenario(default_scenario(), "first_light.yaml"));
  Inputs inputs;
  inputs.name = stem(files.front());
  for (const std::string& path : files) {
    const FileKind kind = kind_of(path);
    if (kind == FileKind::other) {
      std::error_code error;
      if (std::filesystem::file_size(path, error) == 0) {
        throw InputError({path, 0, 0}, "byte 0: the file is empty", "copy or record it again");
      }
      throw InputError({path, 0, 0}, "is neither a scenario nor a recorded trace",
                       "a scenario is YAML with the key 'heddle: 1' (docs/scenario.md); a trace is Kineto JSON, "
                       "as PyTorch's profiler exports it, SQLite, as Nsight Systems exports it, or a kernel trace of "
                       "rocprofv3 in CSV, plain or gzip");
    }
    if (kind == FileKind::scenario) {
      if (files.size() > 1) {
        throw InputError({path, 0, 0}, "is a scenario, and a scenario runs alone",
                         "several files are possible for recorded traces only, each on a GPU of its own");
      }
      if (device) throw InputError("--device chooses a device of a recording; a scenario has none");
      return from_scenario(scenario::read_scenario(path));
    }
    std::vector<workload::Workload> workloads = import_recording(kind, path);
    if (device) keep_device(workloads, *device, path);
    std::move(workloads.begin(), workloads.end(), std::back_inserter(inputs.workloads));
  }
  return inputs;
}

}  // namespace heddle::cli
