// What a scenario file may contain, as a table: which maps there are, which keys each has, and of what kind. The reader
// checks files against it; docs/scenario.schema.json says the same to editors, and a test keeps the two in step.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/quantity.h"

namespace heddle::workload {

// Kinds of values; a key may allow several.
enum Kind : unsigned {
  kText = 1,      // any scalar
  kInteger = 2,   // a whole number
  kNumber = 4,    // a number
  kQuantity = 8,  // a number with a unit: "10 us"
  kList = 16,
  kMap = 32,
  kFlag = 64,  // true or false
};

struct KeySpec {
  const char* name;
  bool required;
  unsigned kinds;
  const char* meaning;  // one line; begins with what to write
};

struct MapSpec {
  const char* name;  // in the JSON schema: the root ("scenario") or a definition
  std::vector<KeySpec> keys;
};

constexpr int kScenarioVersion = 1;

const MapSpec& scenario_spec();
const MapSpec& gpu_spec();
const MapSpec& kernel_spec();
const MapSpec& cycles_spec();
const MapSpec& cluster_spec();
const MapSpec& stream_spec();
const MapSpec& submission_spec();
const MapSpec& kernel_op_spec();
const MapSpec& copy_op_spec();
const MapSpec& fill_op_spec();
const MapSpec& group_op_spec();
const MapSpec& load_spec();
const MapSpec& tpc_spec();
const MapSpec& queue_spec();
const MapSpec& queue_initial_spec();
const MapSpec& subcontext_spec();
const MapSpec& share_spec();
const MapSpec& expect_spec();
// Programs: schema_program.cpp, schema_clusters.cpp, schema_tensors.cpp, schema_tasks.cpp (of which the four above).
const MapSpec& step_spec();
const MapSpec& set_spec();  // of the keys beside the name; not part of all_specs()
const MapSpec& load_step_spec();
const MapSpec& store_step_spec();
const MapSpec& atomic_step_spec();
const MapSpec& compute_step_spec();
const MapSpec& special_step_spec();
const MapSpec& copy_async_step_spec();
const MapSpec& barrier_step_spec();
const MapSpec& fence_step_spec();
const MapSpec& cluster_arrive_step_spec();
const MapSpec& cluster_wait_step_spec();
const MapSpec& mbarrier_init_step_spec();
const MapSpec& mbarrier_invalidate_step_spec();
const MapSpec& mbarrier_arrive_step_spec();
const MapSpec& mbarrier_bytes_step_spec();  // expect and complete
const MapSpec& mbarrier_wait_step_spec();
const MapSpec& mbarrier_test_step_spec();
const MapSpec& release_shared_step_spec();
const MapSpec& accumulators_spec();
const MapSpec& matmul_step_spec();
const MapSpec& store_tile_step_spec();
const MapSpec& tensor_load_step_spec();
const MapSpec& tensor_store_step_spec();
const MapSpec& tensor_reduce_step_spec();
const MapSpec& tensor_prefetch_step_spec();
const MapSpec& bulk_load_step_spec();
const MapSpec& bulk_store_step_spec();
const MapSpec& bulk_reduce_step_spec();
const MapSpec& bulk_prefetch_step_spec();
const MapSpec& bulk_copy_step_spec();
const MapSpec& bulk_send_step_spec();
const MapSpec& wait_bulk_step_spec();
const MapSpec& fence_tensor_step_spec();
const MapSpec& launch_step_spec();
const MapSpec& append_step_spec();
const MapSpec& tensor_spec();
const MapSpec& im2col_spec();
const MapSpec& loop_spec();
const MapSpec& while_spec();
const MapSpec& if_spec();
const MapSpec& role_spec();
const MapSpec& memory_spec();
const MapSpec& init_spec();
const MapSpec& expect_memory_spec();
const MapSpec& expect_fault_spec();
const MapSpec& expect_no_progress_spec();
std::vector<const MapSpec*> program_specs();
// All of the above.
std::vector<const MapSpec*> all_specs();

// A map of the file that has passed the check against its table. All errors are InputErrors that name file, line, the
// thing being read ("kernel gemm"), the key, and what the key means.
class MapReader {
 public:
  // Throws for a node that is no map, for unknown keys, for values of a wrong kind and for missing required keys.
  // `thing`: what messages call the map.
  MapReader(const YAML::Node& node, const MapSpec& spec, std::string thing, const std::string& file);

  bool has(const char* key) const;
  YAML::Node node(const char* key) const;
  SourcePos where() const;
  SourcePos where(const char* key) const;
  const std::string& thing() const { return thing_; }

  // Text that is not empty, of one line.
  std::string name(const char* key) const;
  std::string text(const char* key) const;
  // True or false, in the words of YAML.
  bool flag(const char* key) const;

  template <class T>
  T number(const char* key, const Limits<T>& limits, BareNumber bare = BareNumber::in_own_unit) const {
    return number(key, node(key), limits, bare);
  }
  // The same for an item of the list behind `key`.
  template <class T>
  T number(const char* key, const YAML::Node& item, const Limits<T>& limits,
           BareNumber bare = BareNumber::in_own_unit) const {
    try {
      return parse_quantity(scalar(key, item), limits, bare);
    } catch (const InputError& error) {
      fail_number(key, item, error, range_text(limits));
    }
  }

  // The value, or the items of the list, behind `key`.
  std::vector<YAML::Node> items(const char* key) const;

  // Throws: what is wrong with the value of `key` (or with an item of it).
  [[noreturn]] void fail(const char* key, const std::string& message) const;
  [[noreturn]] void fail(const char* key, const YAML::Node& item, const std::string& message) const;

 private:
  const KeySpec& spec_of(const char* key) const;
  const std::string& scalar(const char* key, const YAML::Node& item) const;
  [[noreturn]] void fail_number(const char* key, const YAML::Node& item, const InputError& error,
                                const std::string& range) const;

  YAML::Node map_;
  const MapSpec& spec_;
  std::string thing_;
  const std::string& file_;
};

}  // namespace heddle::workload
