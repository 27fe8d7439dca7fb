// The streams of a scenario, and the operations that its host submits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "scenario/scenario_graph.h"
#include "scenario/scenario_kernels.h"
#include "scenario/scenario_schema.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::scenario {

// All of these throw InputError with file and line.
class SubmitReader {
 public:
  // Operations go into the workloads, one per GPU. All arguments must outlive the reader.
  SubmitReader(const std::string& file, const std::vector<workload::MemoryRegion>& regions, KernelTable& kernels,
               GraphList& graphs, std::vector<workload::Workload>& workloads)
      : file_(file), regions_(regions), kernels_(kernels), graphs_(graphs), workloads_(workloads) {}

  void read_streams(const YAML::Node& list);
  void read_operations(const YAML::Node& list);
  // Adds a sentence about every stream that no operation uses.
  void warn_of_unused();

 private:
  struct Wait {  // an id that is not known yet
    std::string id;
    SourcePos where;
  };
  // An operation before the ids in its `after:` and `until:` are known.
  struct Submission {
    std::string thing;  // for messages: "operation first"
    SourcePos where;
    std::size_t gpu = 0;
    std::size_t first_op = 0;  // index into the GPU's workload
    std::vector<Wait> after;
    std::vector<Wait> until;
  };
  struct StreamPlace {
    std::size_t gpu;
    std::size_t index;  // in the GPU's workload
    bool used = false;
  };

  std::size_t gpu_of(const MapReader& map) const;
  StreamPlace& add_stream(std::size_t gpu, const workload::Stream& stream);
  StreamPlace& use_stream(const std::string& name);
  const MapSpec& kind_of(const YAML::Node& node, const std::string& thing) const;
  void read_operation(const YAML::Node& node);
  void read_group(const MapReader& map);
  void read_graph_op(const MapReader& map);
  void count_ops(const MapReader& map, std::size_t more);
  void name_op(const MapReader& map, std::size_t gpu);
  void read_kernel_op(const MapReader& map, workload::Op& op);
  void read_moved(const MapReader& map, std::size_t gpu, workload::Op& op) const;
  void read_transfer(const MapReader& map, const char* key, workload::Op& op);
  void read_queue_use(const MapReader& map, workload::Op& op);
  void check_gpu(const MapReader& map, const workload::Op& op, std::size_t gpu) const;
  std::vector<Wait> read_waits(const MapReader& map, const char* key) const;
  // The GPU and the index of the operation.
  std::pair<std::size_t, std::size_t> resolve(const Submission& submission, const Wait& wait, const char* key) const;
  // Now that all ids are known: they may stand behind the operation that waits.
  void connect();
  // Operations that wait for each other: each for the one ahead of it in its stream, and as their `after:` say.
  void refuse_circles() const;
  // What a message calls an operation: that of line 7, first.
  std::string called(std::size_t gpu, std::size_t op) const;

  const std::string& file_;
  const std::vector<workload::MemoryRegion>& regions_;
  KernelTable& kernels_;
  GraphList& graphs_;
  std::vector<workload::Workload>& workloads_;
  std::map<std::string, StreamPlace> streams_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> ids_;  // GPU, and index of the last operation with that id
  std::map<std::string, std::string> queues_;                       // whose entries an operation takes, and which
  std::vector<Submission> submissions_;
  std::size_t total_ops_ = 0;
  bool in_group_ = false;
};

// What of a scenario concerns submission by packets: how, and the arguments of kernels.

// The map {by: aql, operations: [...], ...} behind `submit`; `operations` gets its list. Nothing: {by: tmdq, ...}.
// Throws InputError.
std::optional<workload::PacketOptions> read_submission(const YAML::Node& node, const std::string& file,
                                                       YAML::Node& operations);

// The list `args` of a kernel operation: 64-bit words, expressions over the addresses of memory regions. `used`: gets
// the names of those that it names. Throws InputError.
std::vector<std::uint64_t> read_args(const MapReader& map, const std::string& file,
                                     const std::vector<workload::MemoryRegion>& regions, std::set<std::string>& used);

// The key `direction` of a copy.
workload::CopyDirection read_direction(const MapReader& map);
const char* direction_name(workload::CopyDirection direction);

}  // namespace heddle::scenario
