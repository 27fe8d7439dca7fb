#include "cli/checkpoint.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "sweep/sweep_plan.h"

namespace heddle::cli {

namespace fs = std::filesystem;

namespace {

constexpr int kCheckpointSchema = 1;
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

replay::OpSet done_of(const nlohmann::json& gpu, const fs::path& file) {
  replay::OpSet done(gpu.at("operations").get<std::size_t>());
  for (const nlohmann::json& range : gpu.at("done")) {
    const auto first = range.at(0).get<std::size_t>();
    const auto last = range.at(1).get<std::size_t>();
    if (first > last || last >= done.size()) damaged(file);
    std::fill(done.begin() + static_cast<std::ptrdiff_t>(first), done.begin() + static_cast<std::ptrdiff_t>(last) + 1,
              true);
  }
  return done;
}

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw InputError({path.string()}, "cannot be read, and the checkpoint needs it", "copy the whole folder");
  return bytes;
}

void write_bytes(const std::string& bytes, const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw InputError({path.string()}, "cannot be written", "choose another folder with --out DIR, or free the disk");
}

}  // namespace

std::size_t Checkpoint::operations() const {
  std::size_t count = 0;
  for (const replay::OpSet& gpu : done) count += static_cast<std::size_t>(std::count(gpu.begin(), gpu.end(), true));
  return count;
}

Checkpoint read_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  fs::path place = folder / kCheckpointFolder;
  if (!fs::is_regular_file(place / kCheckpointFile, ignored)) place = folder;
  const fs::path file = place / kCheckpointFile;
  if (!fs::is_regular_file(file, ignored)) {
    throw InputError({folder.string()}, "has no checkpoint",
                     "a run with --checkpoint N leaves one in its results folder, once N operations have ended");
  }
  const nlohmann::json document = nlohmann::json::parse(bytes_in(file), nullptr, false);
  if (!document.is_object() || document.value("schema", 0) != kCheckpointSchema) damaged(file);
  Checkpoint checkpoint;
  try {
    checkpoint.workloads = document.at("workloads").get<std::string>();
    for (const nlohmann::json& gpu : document.at("gpus")) {
      checkpoint.done.push_back(done_of(gpu, file));
      checkpoint.times.push_back(gpu.at("ns").get<std::int64_t>());
      if (gpu.contains("state")) checkpoint.states.push_back(bytes_in(place / gpu["state"].get<std::string>()));
    }
  } catch (const nlohmann::json::exception&) {
    damaged(file);
  }
  return checkpoint;
}

void write_checkpoint(const Checkpoint& checkpoint, std::uint64_t number, const fs::path& results) {
  const fs::path folder = results / kCheckpointFolder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError({folder.string()}, "cannot be made: " + error.message(), "choose another folder with --out DIR");
  nlohmann::json document = {
      {"schema", kCheckpointSchema}, {"workloads", checkpoint.workloads}, {"gpus", nlohmann::json::array()}};
  std::vector<fs::path> kept{folder / kCheckpointFile};
  for (std::size_t g = 0; g < checkpoint.done.size(); ++g) {
    nlohmann::json gpu = {{"operations", checkpoint.done[g].size()},
                          {"done", ranges_of(checkpoint.done[g])},
                          {"ns", checkpoint.times[g]}};
    if (!checkpoint.states.empty()) {
      const std::string name = fmt::format("{}.gpu{}.state", number, g);
      write_bytes(checkpoint.states[g], folder / name);
      kept.push_back(folder / name);
      gpu["state"] = name;
    }
    document["gpus"].push_back(std::move(gpu));
  }
  const fs::path fresh = folder / (std::string(kCheckpointFile) + ".new");
  write_bytes(document.dump(1) + "\n", fresh);
  fs::rename(fresh, folder / kCheckpointFile, error);
  if (error)
    throw InputError({folder.string()}, "cannot be written: " + error.message(),
                     "choose another folder with --out DIR");
  // States that no file names any more.
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool named = std::find(kept.begin(), kept.end(), entry.path()) != kept.end();
    if (!named && entry.path().extension() == ".state") fs::remove(entry.path(), error);
  }
}

std::string digest_of_workloads(const std::vector<workload::Workload>& workloads) {
  sweep::Digest digest;
  for (const workload::Workload& workload : workloads) {
    digest.add(fmt::format("{} operations, {} regions", workload.ops.size(), workload.memory.size()));
    for (const workload::Op& op : workload.ops) {
      const auto& grid = op.kernel.grid;
      const auto& block = op.kernel.block;
      digest.add(fmt::format("{} {} {} {} {}x{}x{} {}x{}x{}", op.kernel.name, static_cast<int>(op.kind), op.stream,
                             op.bytes, grid.x, grid.y, grid.z, block.x, block.y, block.z));
      for (const workload::Edge& edge : op.after)
        digest.add(fmt::format("after {} {}", edge.from, edge.gpu.value_or(workloads.size())));
    }
    for (const workload::MemoryRegion& region : workload.memory) {
      digest.add(fmt::format("{} {} {}", region.name, region.address, region.bytes));
    }
  }
  return digest.text();
}

}  // namespace heddle::cli
