#include "cli/results_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 15> kResults{
    "stats.json",  "report.html", "host.json",        "config.yaml",      "ctas.csv",
    "ctas.csv.gz", "bits.json",   "timeline.json.gz", "timeline.pftrace", "packets.csv",
    "demands.csv", "kernels.csv", "ranges.csv",       "stalls.csv",       "waves.vcd"};

// What host.json of an earlier run tells; null: there is none, or it is damaged.
nlohmann::json told_by(const fs::path& folder) {
  std::ifstream file(folder / "host.json", std::ios::binary);
  nlohmann::json host = nlohmann::json::parse(file, nullptr, false);
  return host.is_object() ? host : nlohmann::json();
}

// A folder of such a name is not of ours.
void remove_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) fs::remove(path, ignored);
}

std::string command_of(const nlohmann::json& host) {
  return host.is_object() && host.contains("command") && host["command"].is_string()
             ? host["command"].get<std::string>()
             : std::string();
}

}  // namespace

bool lies_within(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  const fs::path root = fs::weakly_canonical(folder, ignored);
  const fs::path place = fs::weakly_canonical(folder / name, ignored);
  const auto [end, at] = std::mismatch(root.begin(), root.end(), place.begin(), place.end());
  return end == root.end() && at != place.end();
}

bool ResultsFolder::is_result(std::string_view name) {
  return std::find(kResults.begin(), kResults.end(), name) != kResults.end();
}

ResultsFolder::ResultsFolder(const std::optional<std::string>& chosen, const std::string& name, std::string command)
    : path_(chosen ? fs::path(*chosen) : fs::path("heddle-out") / name),
      chosen_(chosen.has_value()),
      command_(std::move(command)) {
  make();
}

ResultsFolder::~ResultsFolder() {
  if (std::uncaught_exceptions() > 0 && begun_) tell("failed");
  if (lock_ >= 0) close(lock_);
}

// The lock lasts as long as the process: whatever becomes of it, the folder is free again then.
void ResultsFolder::make() {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error || !fs::is_directory(path_)) unusable(error ? error.message() : "it is a file");
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) unusable(std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // other errors: a file system without locks
    close(std::exchange(lock_, -1));
    unusable("a run that has not ended writes into it");
  }
  // Somebody may have put another folder in its place before the lock held.
  struct stat mine {};
  struct stat there {};
  if (fstat(lock_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) return;
  close(std::exchange(lock_, -1));
  make();
}

void ResultsFolder::unusable(const std::string& why) const {
  throw InputError({path_.string(), 0, 0}, fmt::format("cannot be used as results folder: {}", why),
                   "choose another with --out DIR");
}

void ResultsFolder::keep_earlier() {
  std::error_code error;
  fs::path beside;
  for (int number = 1; beside.empty() || fs::exists(beside, error); ++number) {
    beside = path_.string() + "." + std::to_string(number);
  }
  fs::rename(path_, beside, error);
  if (error) unusable(fmt::format("the results in it cannot be kept as {}: {}", beside.string(), error.message()));
  kept_ = beside.string();
  close(std::exchange(lock_, -1));
  make();
}

void ResultsFolder::remove_earlier(const nlohmann::json& earlier) {
  if (earlier.is_object() && earlier.contains("files") && earlier["files"].is_array()) {
    for (const nlohmann::json& name : earlier["files"]) {
      if (!name.is_string() || !lies_within(path_, name.get<std::string>())) continue;
      remove_file(path_ / name.get<std::string>());
    }
  }
  for (const std::string_view name : kResults) remove_file(path_ / name);
}

void ResultsFolder::begin(const std::vector<std::string>& more) {
  const nlohmann::json earlier = told_by(path_);
  if (!chosen_ && !earlier.is_null() && command_of(earlier) != command_) {
    keep_earlier();
  } else {
    remove_earlier(earlier);
  }
  more_ = more;
  begun_ = true;
  if (!tell("running")) {
    throw InputError({file("host.json"), 0, 0}, "cannot be written",
                     "choose another folder with --out DIR, or free the disk");
  }
}

bool ResultsFolder::tell(const char* state) const {
  const nlohmann::json host = {{"command", command_}, {"state", state}, {"files", more_}};
  std::ofstream out(file("host.json"), std::ios::binary);
  out << host.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  return out.good();
}

}  // namespace heddle::cli
