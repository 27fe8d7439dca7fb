#include "cli/baseline_store.h"

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "heddle baseline 1\n";
constexpr const char* kEnd = "end\n";

// FNV-1a with two beginnings: against other files of the same name, not against forgery.
struct Digest {
  std::uint64_t a = 0xCBF2'9CE4'8422'2325U;
  std::uint64_t b = 0x6C62'272E'07BB'0142U;

  void add(const char* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      a = (a ^ static_cast<unsigned char>(bytes[i])) * 0x100'0000'01B3U;
      b = (b ^ static_cast<unsigned char>(bytes[i])) * 0x100'0000'01B3U;
      b ^= b >> 31;
    }
  }
  std::string text() const { return fmt::format("{:016x}{:016x}", a, b); }
};

std::string digest_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Digest digest;
  std::vector<char> part(1U << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    digest.add(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw InputError({path, 0, 0}, "cannot be read", "check its path and permissions");
  return digest.text();
}

const char* fit_name(Fit fit) {
  switch (fit) {
    case Fit::launch:
      return "launch";
    case Fit::signature:
      return "signature";
    default:
      return "demand";
  }
}

}  // namespace

std::string baseline_key(const RunOptions& options, const Machines& machines, replay::Pace pace, std::uint64_t seed) {
  std::string key = fmt::format("program {}\n", digest_of("/proc/self/exe"));
  for (const std::string& file : options.files) key += fmt::format("recording {}\n", digest_of(file));
  if (options.counters) key += fmt::format("counters {}\n", digest_of(*options.counters));
  key += fmt::format("device {}\nclusters {}\nfit {}\npace {}\nseed {}\n", options.device.value_or(-1),
                     options.guess_clusters, fit_name(options.fit), replay::pace_name(pace), seed);
  key += fmt::format("aligned {}\n", machines.links.topology != link::Topology::none);  // the times of the recordings
  for (const Machine& machine : machines.gpus) key += machine.recorded_text + "\n";
  return key;
}

std::string BaselineStore::file_of(const std::string& key) const {
  Digest digest;
  digest.add(key.data(), key.size());
  return (fs::path(folder_) / (digest.text() + ".baseline")).string();
}

// The key stands in the file, so that nobody else's results are taken for its own. Times are written as they are in
// memory, in hexadecimal.
std::optional<OpResults> BaselineStore::find(const std::string& key) const {
  std::ifstream file(file_of(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const std::string head = kHead + key;
  if (text.compare(0, head.size(), head) != 0) return std::nullopt;
  std::istringstream in(text.substr(head.size()));
  OpResults results;
  std::string line;
  while (std::getline(in, line)) {
    if (line + "\n" == kEnd) return in.peek() == std::char_traits<char>::eof() ? std::optional(results) : std::nullopt;
    if (line == "gpu") {
      results.emplace_back();
      continue;
    }
    replay::OpResult op;
    int done = 0;
    int rejected = 0;
    int faulted = 0;
    if (results.empty() || std::sscanf(line.c_str(), "%d %d %d %la %la %la", &done, &rejected, &faulted, &op.submitted,
                                       &op.start, &op.end) != 6) {
      return std::nullopt;
    }
    op.done = done != 0;
    op.rejected = rejected != 0;
    op.faulted = faulted != 0;
    results.back().push_back(op);
  }
  return std::nullopt;
}

void BaselineStore::keep(const std::string& key, const OpResults& results) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string path = file_of(key);
  // Under another name at first: whoever reads finds all of it or nothing.
  const std::string part = fmt::format("{}.part{}", path, getpid());  // others may simulate the same
  std::ofstream file(part, std::ios::binary);
  file << kHead << key;
  for (const std::vector<replay::OpResult>& ops : results) {
    file << "gpu\n";
    for (const replay::OpResult& op : ops) {
      file << fmt::format("{:d} {:d} {:d} {:a} {:a} {:a}\n", op.done, op.rejected, op.faulted, op.submitted, op.start,
                          op.end);
    }
  }
  file << kEnd;
  file.close();
  if (file) fs::rename(part, path, error);
  if (!file || error) {
    throw InputError({path, 0, 0}, "cannot be written",
                     "choose another folder with --keep-baselines, or free the disk");
  }
}

}  // namespace heddle::cli
