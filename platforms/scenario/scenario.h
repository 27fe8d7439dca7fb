// Scenarios: YAML files that name GPUs, kernels, how these are submitted, and what must come out. docs/scenario.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/fault.h"
#include "arch/memory_op.h"
#include "common/error.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::scenario {

enum class ExpectationKind : std::uint8_t {
  statistic,    // `stat`, and one of: equals; min, max or both; about with within
  memory,       // `memory` holds what `file` or `pattern` says
  fault,        // a device fault that is meant to happen
  no_progress,  // the run ends without progress, and the chain of waits contains `waits`
};

// What must come out of a run. Statistics are in their own unit.
struct Expectation {
  ExpectationKind kind = ExpectationKind::statistic;
  std::string stat;
  std::optional<double> equals;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> about;
  double within = 0;            // with `about`, and for memory: the distance allowed
  bool within_percent = false;  // `within` is in percent of `about`, or of the element

  std::size_t gpu = 0;                  // memory: of the region
  std::string memory;                   // name of the region
  std::string file;                     // as it can be opened; or
  std::string pattern;                  // expression over i
  std::optional<arch::ValueType> type;  // of the elements; without: equal bytes

  arch::FaultKind fault = arch::FaultKind::address;
  std::string kernel;                       // that has the fault
  std::optional<std::uint64_t> cluster;     // the CGA that has it: linear id in the grid
  std::optional<std::uint32_t> rank;        // number in it of the CTA that has it
  std::optional<arch::TensorRule> rule;     // of a fault of kind tensor
  std::optional<std::uint32_t> subcontext;  // whose CTA has the fault
  std::optional<std::uint64_t> address;     // of the access that is at fault
  std::string waits;

  SourcePos where;

  // Of a statistic.
  bool holds(double value) const;
  // Of no_progress: the lines of a chain of waits.
  bool holds(const std::vector<std::string>& chain) const;
  // "= 512", ">= 10", "10 to 20", "100 +- 2 %"; "like out.bin", "1 + i"; "in kernel k, cluster 3, rank 1, rule
  // stride_order".
  std::string text() const;
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;               // as it was opened: the origin of `config`
  std::vector<std::string> gpus;  // the preset of each GPU; never empty
  bool gpus_named = false;        // false: the file names none, and `gpus` holds the default
  YAML::Node config;              // null, or a map with keys gpu, gpu0, …, for ParamLayers::add; not checked here
  std::optional<std::uint64_t> seed;
  std::vector<workload::Workload> workloads;  // one per GPU; format "scenario", `enqueue` always set
  std::vector<Expectation> expectations;
  std::optional<workload::PacketOptions> packets;  // submitted by packets
};

// The preset of a scenario that names no GPU.
constexpr const char* kDefaultPreset = "h100-sxm";

// Throws InputError with file and line for whatever is wrong with the file. Whether presets, parameters and statistics
// exist, and whether the machine can run the kernels, is not known here. Operations may wait for each other in a
// circle: that is a scenario that makes no progress, and the run says so.
Scenario read_scenario(const std::string& path);

// The same for text that is in memory; `file` is what messages call it.
Scenario parse_scenario(const std::string& text, const std::string& file);

// True if a file that begins so is meant as a scenario: YAML with the key `heddle` on its top level. The first few
// kilobytes suffice. Recordings (gzip, JSON with traceEvents) are not.
bool looks_like_scenario(std::string_view head);

}  // namespace heddle::scenario
