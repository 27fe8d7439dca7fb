// Scenarios: YAML files that name GPUs, kernels, how these are submitted, and what must come out. docs/scenario.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/fault.h"
#include "arch/instances.h"
#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "program/scenario_program.h"
#include "scenario/figure.h"
#include "scenario/scenario_schema.h"
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
  // stride_range".
  std::string text() const;
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;                                // as it was opened: the origin of `config`
  std::vector<std::string> gpus;                   // the preset of each GPU; never empty
  bool gpus_named = false;                         // false: the file names none, and `gpus` holds the default
  std::vector<SourcePos> gpu_places;               // where it names them; of each, if it does
  std::map<std::string, SourcePos> kernel_places;  // where it describes them, by name
  YAML::Node config;  // null, or a map with keys gpu, gpu0, …, for ParamLayers::add; not checked here
  std::optional<std::uint64_t> seed;
  std::vector<workload::Workload> workloads;  // one per GPU; format "scenario", `enqueue` always set
  std::vector<Expectation> expectations;
  std::vector<Figure> figures;
  std::optional<workload::PacketOptions> packets;  // submitted by packets
  bool tmdqs = false;                              // submitted into TMDQs
  YAML::Node document;                             // the file, with its parameters put in: what it was made from
};

// The preset of a scenario that names no GPU.
constexpr const char* kDefaultPreset = "h100-sxm";

// Throws InputError with file and line for whatever is wrong with the file. Whether presets, parameters and statistics
// exist, and whether the machine can run the kernels, is not known here.
// `settings`: parameters that the caller sets, "lines=16" (scenario/parameters.h).
Scenario read_scenario(const std::string& path, const std::vector<std::string>& settings = {});

// The same for text that is in memory; `file` is what messages call it.
Scenario parse_scenario(const std::string& text, const std::string& file,
                        const std::vector<std::string>& settings = {});

// True if a file that begins so is meant as a scenario: YAML with the key `heddle` on its top level. The first few
// kilobytes suffice. Recordings (gzip, JSON with traceEvents) are not.
bool looks_like_scenario(std::string_view head);

// Entries of a scenario's lists: kernels, what SMs hold, TPCs that are switched, queues, subcontexts and how they share
// the machine, tensors, expectations.

// Bounds that no real scenario meets. They keep times within 64-bit picoseconds, and thread counts within 64 bits.
constexpr std::uint64_t kMaxScenarioCycles = 1'000'000'000'000'000;
constexpr workload::Nanoseconds kMaxScenarioTime = 1'000'000'000'000'000;
constexpr std::uint64_t kMaxScenarioBytes = std::uint64_t{1} << 50;

// "kernel gemm" from {name: gemm}, or "kernel" while the name is not readable.
std::string entry_name(const char* what, const YAML::Node& node, const char* key);

// All of these throw InputError with file and line. Whether the machine can hold a CGA, and has the SMs, GPCs and TPCs,
// is not known here.
class PtxKernels;
// What a program can name, and what it does name.
struct ProgramScope {
  const std::vector<workload::MemoryRegion>& regions;
  const program::LaunchTargets& targets;
  std::set<std::string> used;       // of the regions
  std::set<std::string> launched;   // of the kernels
  const PtxKernels* ptx = nullptr;  // none: there are no kernels of PTX modules
};
arch::KernelRecord read_kernel(const MapReader& map, const std::string& file, ProgramScope& scope);
// The key `grid` of a kernel.
arch::Dim3 read_grid(const MapReader& map);
// Without its kernel, which only the list of kernels knows.
workload::SmLoad read_load(const MapReader& map);
workload::TpcSwitch read_tpc_switch(const MapReader& map);

// An entry of `queues:` as a region of memory, without its address.
workload::MemoryRegion read_queue(const MapReader& map, const std::string& file, std::size_t gpus);

// The list `subcontexts:`, which may be null, by GPU. `instances`: of each GPU.
std::vector<std::vector<workload::Subcontext>> read_subcontexts(const YAML::Node& list, const std::string& file,
                                                                const std::vector<arch::Instances>& instances);

// An entry of `share:`. Whether the machine has the TPC is not known here.
workload::ShareChange read_share(const MapReader& map);

// The tensors of a scenario are regions of memory that hold a descriptor each (TMA-05). A multiple of what one needs:
// it never lies in two lines.
constexpr std::uint64_t kTensorAlignment = arch::kDescriptorBytes;

// Both throw InputError with file and line. Tensors lie in the first `count` of the regions.
// The region of an entry of `tensors:`, without its address and without its contents.
workload::MemoryRegion tensor_region(const MapReader& map, const std::vector<workload::MemoryRegion>& regions,
                                     std::size_t count);
// What it holds, once the regions have their addresses. It breaks no rule, unless the entry says so.
arch::TensorDescriptor read_tensor(const MapReader& map, const std::string& file,
                                   const std::vector<workload::MemoryRegion>& regions, std::size_t count);

// An entry of `expect:`. `kernels`: the names of those that the scenario describes. Throws InputError with file and
// line. Whether a statistic exists is not known here.
Expectation read_expectation(const YAML::Node& node, const std::string& file,
                             const std::vector<workload::MemoryRegion>& regions,
                             const std::vector<std::string>& kernels);

}  // namespace heddle::scenario
