#include "cli/checkpoint.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/operation_table.h"
#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "common/params.h"
#include "sweep/sweep_plan.h"

namespace heddle::cli {

namespace fs = std::filesystem;

namespace {

constexpr int kCheckpointSchema = 2;
constexpr const char* kFresh = ".new";
constexpr const char* kCheckpointFolder = "checkpoint";
constexpr const char* kCheckpointFile = "state.json";

// [[first, last], …] of what is done.
nlohmann::json ranges_of(const replay::OpSet& done) {
  nlohmann::json ranges = nlohmann::json::array();
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i]) continue;
    if (i == 0 || !done[i - 1]) ranges.push_back({i, i});
    ranges.back()[1] = i;
  }
  return ranges;
}

[[noreturn]] void damaged(const fs::path& file) {
  throw InputError({file.string()}, "is no checkpoint of this version, or damaged",
                   "run again with --checkpoint, from the beginning");
}

std::int64_t whole_number(const nlohmann::json& number, std::int64_t least, std::int64_t most, const fs::path& file) {
  if (!number.is_number_integer()) damaged(file);
  if (number.is_number_unsigned() && number.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    damaged(file);
  const auto value = number.get<std::int64_t>();
  if (value < least || value > most) damaged(file);
  return value;
}

std::size_t size_in(const nlohmann::json& number, std::size_t most, const fs::path& file) {
  return static_cast<std::size_t>(whole_number(number, 0, static_cast<std::int64_t>(most), file));
}

replay::OpSet done_of(const nlohmann::json& gpu, std::size_t operations, const fs::path& file) {
  if (size_in(gpu.at("operations"), operations, file) != operations) damaged(file);
  replay::OpSet done(operations);
  for (const nlohmann::json& range : gpu.at("done")) {
    if (operations == 0) damaged(file);
    const std::size_t first = size_in(range.at(0), operations - 1, file);
    const std::size_t last = size_in(range.at(1), operations - 1, file);
    if (first > last) damaged(file);
    std::fill(done.begin() + static_cast<std::ptrdiff_t>(first), done.begin() + static_cast<std::ptrdiff_t>(last) + 1,
              true);
  }
  return done;
}

// Each member of a fault in turn is given to `each`, as a number with its largest value, or as a flag or text.
template <class Record, class Each>
void visit_fault(Record& r, Each&& each) {
  constexpr std::uint64_t k32 = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t k64 = std::numeric_limits<std::uint64_t>::max();
  each("kind", r.kind, arch::kFaultKinds - 1);
  each("task", r.task, k32);
  each("sm", r.sm, k32);
  each("cta", r.cta, k64);
  each("cta_x", r.cta_x, k32);
  each("cta_y", r.cta_y, k32);
  each("cta_z", r.cta_z, k32);
  each("warp", r.warp, k32);
  each("lane", r.lane, k32);
  each("operation", r.operation, std::size(arch::kOperations) - 1);
  each("address", r.address, k64);
  each("cycle", r.cycle, k64);
  each("rule", r.rule, arch::kTensorRules - 1);
  each("fatal", r.fatal, 1);
  each("subcontext", r.subcontext, std::numeric_limits<std::uint8_t>::max());
  each("write", r.write, 1);
  each("of_tasks", r.of_tasks, 1);
  each("of_cga", r.of_cga, 1);
  each("gpc", r.gpc, k32);
  each("gpc_local_cga_id", r.gpc_local_cga_id, k32);
  each("cta_id_in_cga", r.cta_id_in_cga, k32);
  each("cga", r.cga, k64);
  each("target", r.target, k32);
}

nlohmann::json faults_json(const replay::Faults& faults) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < faults.records.size(); ++i) {
    nlohmann::json fault = {{"where", faults.records[i].where}, {"kernel", faults.kernels[i]}};
    visit_fault(faults.records[i], [&fault](const char* name, const auto& value, std::uint64_t) {
      fault[name] = static_cast<std::uint64_t>(value);
    });
    list.push_back(std::move(fault));
  }
  return list;
}

replay::Faults saved_faults(const nlohmann::json& list, const fs::path& file) {
  if (!list.is_array()) damaged(file);
  replay::Faults faults;
  for (const nlohmann::json& fault : list) {
    arch::FaultRecord record;
    record.where = fault.at("where").get<std::string>();
    visit_fault(record, [&](const char* name, auto& value, std::uint64_t most) {
      const nlohmann::json& number = fault.at(name);
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() > most) damaged(file);
      value = static_cast<std::decay_t<decltype(value)>>(number.get<std::uint64_t>());
    });
    faults.records.push_back(std::move(record));
    faults.kernels.push_back(fault.at("kernel").get<std::string>());
  }
  return faults;
}

std::string digest_of_bytes(const std::string& bytes) {
  sweep::Digest digest;
  digest.add(bytes);
  return digest.text();
}

// The number of "12.gpu0.state"; 0: it is no such file.
std::uint64_t number_of_state(const fs::path& path) {
  constexpr std::size_t kMostDigits = 15;
  const std::string name = path.filename().string();
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits == 0 || digits > kMostDigits || name.compare(digits, 4, ".gpu") != 0) return 0;
  return std::stoull(name.substr(0, digits));
}

fs::path place_of(const fs::path& folder) {
  std::error_code ignored;
  const fs::path below = folder / kCheckpointFolder;
  return fs::is_regular_file(below / kCheckpointFile, ignored) ? below : folder;
}

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw InputError({path.string()}, "cannot be read, and the checkpoint needs it", "copy the whole folder");
  return bytes;
}

// Under another name until it is whole.
void write_whole(const std::string& bytes, const fs::path& path) {
  const fs::path fresh = path.string() + kFresh;
  std::ofstream file(fresh, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code error;
  if (file) fs::rename(fresh, path, error);
  if (!file || error) {
    throw InputError({path.string()}, "cannot be written" + (error ? ": " + error.message() : std::string()),
                     "choose another folder with --out DIR, or free the disk");
  }
}

void add_machine(gpu::GpuParams params, sweep::Digest& digest) {
  ParamBinder binder;
  params.bind(binder);
  for (const ParamEntry& entry : binder.entries()) {
    if (entry.path == "gpu.timing" || entry.path == "gpu.run_ahead") continue;
    digest.add(entry.path + " = " + entry.value_text);
  }
}

void add_workload(const workload::Workload& workload, sweep::Digest& digest) {
  digest.add(fmt::format("{} operations, {} regions", workload.ops.size(), workload.memory.size()));
  for (const workload::Op& op : workload.ops) {
    const auto& grid = op.kernel.grid;
    const auto& block = op.kernel.block;
    digest.add(fmt::format("{} {} {} {} {}x{}x{} {}x{}x{} {} {}", op.kernel.name, static_cast<int>(op.kind), op.stream,
                           op.bytes, grid.x, grid.y, grid.z, block.x, block.y, block.z, op.duration,
                           op.enqueue.value_or(-1)));
    if (op.recorded) digest.add(fmt::format("recorded {} {}", op.recorded->start, op.recorded->duration));
    for (const workload::Edge& edge : op.after) {
      digest.add(edge.gpu ? fmt::format("after {} of {}", edge.from, *edge.gpu) : fmt::format("after {}", edge.from));
    }
  }
}

}  // namespace

std::size_t Checkpoint::operations() const {
  std::size_t count = 0;
  for (const replay::OpSet& gpu : done) count += static_cast<std::size_t>(std::count(gpu.begin(), gpu.end(), true));
  return count;
}

Checkpoint read_checkpoint(const fs::path& folder, const Inputs& inputs, const std::string& digest) {
  constexpr std::int64_t kMostNs = 1'000'000'000'000'000;
  const fs::path place = place_of(folder);
  const fs::path file = place / kCheckpointFile;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw InputError({folder.string()}, "has no checkpoint",
                     "a run with --checkpoint N leaves one in its results folder, once N operations have ended");
  }
  const nlohmann::json document = nlohmann::json::parse(bytes_in(file), nullptr, false);
  Checkpoint checkpoint;
  try {
    if (document.at("schema") != kCheckpointSchema) damaged(file);
    checkpoint.inputs = document.at("inputs").get<std::string>();
    if (checkpoint.inputs != digest) {
      throw InputError(
          {folder.string()},
          fmt::format("the checkpoint is of another scenario, recording, seed or machine than {}", inputs.name),
          "name the file, and give the parameters (--let, --device, --seed), of the run that has left it");
    }
    const nlohmann::json& gpus = document.at("gpus");
    if (!gpus.is_array() || gpus.size() != inputs.workloads.size()) damaged(file);
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const nlohmann::json& gpu = gpus[g];
      checkpoint.done.push_back(done_of(gpu, inputs.workloads[g].ops.size(), file));
      checkpoint.times.push_back(whole_number(gpu.at("ns"), -kMostNs, kMostNs, file));
      checkpoint.faults.push_back(saved_faults(gpu.at("faults"), file));
      if (inputs.recorded()) continue;
      const auto name = gpu.at("state").get<std::string>();
      if (number_of_state(name) == 0 || fs::path(name).filename() != name) damaged(file);
      checkpoint.states.push_back(bytes_in(place / name));
      if (gpu.at("digest") != digest_of_bytes(checkpoint.states.back())) damaged(place / name);
    }
  } catch (const nlohmann::json::exception&) {
    damaged(file);
  }
  return checkpoint;
}

void write_checkpoint(const Checkpoint& checkpoint, const fs::path& results) {
  const fs::path folder = results / kCheckpointFolder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError({folder.string()}, "cannot be made: " + error.message(), "choose another folder with --out DIR");
  // State files of the checkpoint that this one replaces are not touched until it does.
  std::uint64_t number = 1;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    number = std::max(number, number_of_state(entry.path()) + 1);
  }
  nlohmann::json document = {
      {"schema", kCheckpointSchema}, {"inputs", checkpoint.inputs}, {"gpus", nlohmann::json::array()}};
  std::vector<fs::path> kept;
  for (std::size_t g = 0; g < checkpoint.done.size(); ++g) {
    nlohmann::json gpu = {{"operations", checkpoint.done[g].size()},
                          {"done", ranges_of(checkpoint.done[g])},
                          {"ns", checkpoint.times[g]},
                          {"faults", faults_json(checkpoint.faults[g])}};
    if (!checkpoint.states.empty()) {
      const std::string name = fmt::format("{}.gpu{}.state", number, g);
      write_whole(checkpoint.states[g], folder / name);
      kept.push_back(folder / name);
      gpu["state"] = name;
      gpu["digest"] = digest_of_bytes(checkpoint.states[g]);
    }
    document["gpus"].push_back(std::move(gpu));
  }
  write_whole(document.dump(1) + "\n", folder / kCheckpointFile);
  // States that no file names any more, and what an interrupted run has left.
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (number_of_state(entry.path()) == 0 || std::find(kept.begin(), kept.end(), entry.path()) != kept.end()) continue;
    others.push_back(entry.path());
  }
  for (const fs::path& other : others) fs::remove(other, error);
}

void remove_checkpoint(const fs::path& results) {
  const fs::path folder = results / kCheckpointFolder;
  std::error_code error;
  std::vector<fs::path> files{folder / kCheckpointFile, folder / (std::string(kCheckpointFile) + kFresh)};
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (number_of_state(entry->path()) > 0) files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!fs::is_directory(file, error)) fs::remove(file, error);
  }
  if (fs::is_directory(folder, error)) fs::remove(folder, error);  // unless others have something there
}

bool holds_checkpoint(const fs::path& results, const fs::path& resume) {
  std::error_code error;
  return fs::equivalent(place_of(resume), results / kCheckpointFolder, error);
}

std::string digest_of_inputs(const Inputs& inputs, const RunOptions& options, const Machines& machines) {
  sweep::Digest digest;
  for (const workload::Workload& workload : inputs.workloads) {
    add_workload(workload, digest);
    for (const workload::MemoryRegion& region : workload.memory) {
      digest.add(fmt::format("{} {} {}", region.name, region.address, region.bytes));
      if (!region.contents.file.empty()) digest.add(bytes_in(region.contents.file));
    }
  }
  if (inputs.scenario) {
    digest.add(fmt::format("seed {}", options.seed.value_or(inputs.scenario->seed.value_or(1))));
    for (const auto& entry : inputs.scenario->document) {
      const std::string key = entry.first.Scalar();
      if (key == "expect" || key == "figures" || key == "name" || key == "description" || key == "config") continue;
      digest.add(key + ": " + YAML::Dump(entry.second));
    }
    return digest.text();
  }
  digest.add(fmt::format("seed {} pace {} fit {}", options.seed.value_or(1), static_cast<int>(options.pace),
                         static_cast<int>(options.fit)));
  if (options.counters) digest.add(bytes_in(*options.counters));
  for (const Machine& machine : machines.gpus) {
    add_machine(machine.params, digest);
    add_machine(machine.recorded, digest);
  }
  return digest.text();
}

}  // namespace heddle::cli
