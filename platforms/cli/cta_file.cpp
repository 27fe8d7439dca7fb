#include <filesystem>

#include <fmt/format.h>
#include <zlib.h>

#include "arch/topology.h"
#include "cli/run_outcome.h"
#include "common/error.h"

namespace heddle::cli {
namespace {

// Levels above make the table hardly smaller, and take several times as long.
constexpr const char* kCompressed = "wb4";
constexpr const char* kPlain = "wbT";

// False if there is more than `most` bytes of it.
bool write_table(std::vector<replay::CtaDump>& dumps, const RunOutcome& outcome, const std::string& path,
                 std::uint64_t most, const char* mode, replay::CtaDump::Names names) {
  const auto failed = [&path] {
    return InputError({path, 0, 0}, "cannot be written", "choose another with --out DIR, or free the disk");
  };
  gzFile file = gzopen(path.c_str(), mode);
  if (file == nullptr) throw failed();
  std::uint64_t bytes = 0;
  bool written = true;
  const replay::CtaDump::Take take = [&](std::string_view text) {
    bytes += text.size();
    if (bytes > most) return false;
    written = text.empty() || gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0;
    return written;
  };
  bool whole = take(replay::CtaDump::header()) && take("\n");
  for (std::size_t i = 0; whole && i < dumps.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    whole = dumps[i].write(take, machine.instance, arch::Topology(machine.params.machine.shape),
                           outcome.inputs->workloads[i], names);
  }
  const bool closed = gzclose(file) == Z_OK;
  if (!written || !closed) throw failed();
  return whole;
}

}  // namespace

void write_ctas(std::vector<replay::CtaDump>& dumps, RunOutcome& outcome, const ResultsFolder& folder) {
  using Names = replay::CtaDump::Names;
  const std::string plain = folder.file("ctas.csv");
  if (write_table(dumps, outcome, plain, outcome.machines->run.ctas_plain_bytes, kPlain, Names::every_row)) return;
  std::filesystem::remove(plain);
  write_table(dumps, outcome, plain + ".gz", ~std::uint64_t{0}, kCompressed, Names::first_row);
  outcome.warnings.emplace_back(
      "the table of CTAs is large: it is ctas.csv.gz, with a kernel's name in the first row of its task only "
      "(docs/statistics.md); run.ctas_plain_bytes sets what is large");
}

}  // namespace heddle::cli
