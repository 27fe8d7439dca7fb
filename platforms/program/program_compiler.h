// From the steps of a scenario's `program:` to a program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/kernel_record.h"
#include "program/expression_shape.h"
#include "program/program_names.h"
#include "scenario/scenario_program.h"
#include "scenario/schema.h"

namespace heddle::workload {

// A kernel that a program can launch: the address of its object (arch/kernel_object.h), and its own grid.
struct LaunchTarget {
  std::uint64_t address = 0;
  arch::Dim3 grid;
};
using LaunchTargets = std::map<std::string, LaunchTarget>;  // by name

struct CompiledProgram {
  std::shared_ptr<const ScenarioProgram> program;
  std::set<std::string> regions;   // of memory, that it names
  std::set<std::string> launched;  // kernels
};

// Throws InputError with file and line for whatever is wrong with the steps. Grid, block and registers of `kernel`
// must be known; 0 registers: as many as the program needs.
CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<MemoryRegion>& regions, const LaunchTargets& targets = {});

// Registers per thread that a kernel takes whose program needs so many.
constexpr std::uint32_t kLeastRegisters = 16;

class ProgramCompiler {
 public:
  ProgramCompiler(const std::string& file, const arch::KernelRecord& kernel, const std::vector<MemoryRegion>& regions,
                  const LaunchTargets& targets);

  CompiledProgram compile(const YAML::Node& steps);

 private:
  using Ranges = std::vector<arch::RegisterRange>;

  // program_compiler.cpp: lists, control flow.
  void block(const YAML::Node& steps, const std::string& thing);
  void one_step(const YAML::Node& node);
  void refuse_keys(const YAML::Node& node) const;
  void let(const MapReader& step);
  void loop(const MapReader& step);
  void while_loop(const MapReader& step);
  void branch(const MapReader& step);
  void roles(const MapReader& step);

  // program_operations.cpp: what is issued.
  void set(const MapReader& step);
  void load(const MapReader& step);
  void store(const MapReader& step);
  void atomic(const MapReader& step);
  void compute(const MapReader& step);
  void special(const MapReader& step);
  void copy_async(const MapReader& step);
  void barrier(const MapReader& step);
  void fence(const MapReader& step);
  void simple(arch::OpCode code, const std::string& name, const SourcePos& where, std::uint32_t count);
  // program_clusters.cpp: clusters.
  void cluster_barrier(const std::string& name, const SourcePos& where);
  void cluster_arrive(const MapReader& step);
  void cluster_wait(const MapReader& step);
  void mbarrier_init(const MapReader& step);
  void mbarrier_invalidate(const MapReader& step);
  void mbarrier_arrive(const MapReader& step);
  void mbarrier_expect(const MapReader& step);
  void mbarrier_complete(const MapReader& step);
  void mbarrier_wait(const MapReader& step);
  void mbarrier_test(const MapReader& step);
  void release_shared(const MapReader& step);
  void cluster_step(arch::OpCode code, const std::string& name, const SourcePos& where, arch::Order order);
  // What all operations on mbarriers have. `remote`: it may have the key `rank`.
  ProgramStep mbarrier(const MapReader& map, arch::OpCode code, bool remote);
  // A number that goes into the operation's data; the key may be left out if the table allows it.
  void operand(const MapReader& map, const char* key, double otherwise, ProgramStep& step);
  // `to`: a name that gets 0 or 1.
  void flag(const MapReader& map, ProgramStep& step);

  // program_children.cpp: device-side launches.
  void launch(const MapReader& step);
  void wait_children(const std::string& name, const SourcePos& where);
  void stream_create(const MapReader& step);
  void stream_destroy(const MapReader& step);
  void append(const MapReader& step);
  void launch_grid(const MapReader& map, ProgramStep& step);
  // The list behind `key`, of at most `most` values of 64 bits, without the key nothing.
  void words(const MapReader& map, const char* key, std::size_t most, ProgramStep& step);

  // program_bulk.cpp: the tensor memory access unit.
  void tensor_load(const MapReader& step);
  void tensor_store(const MapReader& step);
  void tensor_reduce(const MapReader& step);
  void tensor_prefetch(const MapReader& step);
  void bulk_load(const MapReader& step);
  void bulk_store(const MapReader& step);
  void bulk_reduce(const MapReader& step);
  void bulk_prefetch(const MapReader& step);
  void bulk_copy(const MapReader& step);
  void bulk_send(const MapReader& step);
  void wait_bulk(const MapReader& step);
  void fence_tensor(const MapReader& step);
  ProgramStep bulk(const MapReader& map, arch::OpCode code, arch::BulkKind kind, const std::string& tensor = {});
  void fence_tensors(const std::string& name, const SourcePos& where);
  void drain_bulk(const std::string& name, const SourcePos& where);
  // With `tensor`, `at`, `offsets`.
  ProgramStep tensor_step(const MapReader& map, arch::OpCode code, arch::BulkKind kind);
  void tensor_offsets(const MapReader& map, ProgramStep& step);
  // The expression, which the step evaluates for each of its requests; without the key: nothing.
  void bulk_operand(const MapReader& map, const char* key, BulkField field, ProgramStep& step);
  std::uint32_t bulk_operand(const MapReader& map, const char* key, const YAML::Node& node, BulkField field,
                             std::uint32_t index, ProgramStep& step);
  void bulk_bytes(const MapReader& map, ProgramStep& step);
  void bulk_reduction(const MapReader& map, const ProgramStep& step, bool in_shared);
  void receivers(const MapReader& map, ProgramStep& step);

  // program_tiles.cpp: matrix multiply.
  void accumulators(const MapReader& step);
  void zero(const MapReader& step);
  void matmul(const MapReader& step);
  void store_tile(const MapReader& step);

  // The map behind the one key of a step.
  MapReader body(const MapReader& step, const char* key, const MapSpec& spec) const;
  // A new step of the program; its demand's code and unit are set.
  ProgramStep make(StepKind kind, arch::OpCode code, arch::Unit unit, const std::string& text,
                   const SourcePos& where) const;
  std::uint32_t add(ProgramStep step);
  std::uint32_t here() const { return static_cast<std::uint32_t>(parts_.steps.size()); }

  // Expressions. `uniform`: it must be the same for all lanes.
  std::uint32_t expression(const MapReader& map, const char* key, const YAML::Node& node);
  std::uint32_t expression(const MapReader& map, const char* key) { return expression(map, key, map.node(key)); }
  std::uint32_t uniform(const MapReader& map, const char* key);
  std::uint32_t constant(double value);
  bool is_uniform(std::uint32_t index) const { return parts_.expressions[index].uniform(); }
  // The registers that the expression reads become part of the demand.
  void read(ProgramStep& step, std::uint32_t expression) const;

  ProgramValue value(const MapReader& map, const char* key, const YAML::Node& node);
  void read(ProgramStep& step, const ProgramValue& value) const;
  // The type that the map names, or that the variable has that is meant.
  arch::ValueType type(const MapReader& map, const std::string& variable) const;
  void space(const MapReader& map, ProgramStep& step) const;
  // `at`, `space`, `rank` of an access.
  void place(const MapReader& map, ProgramStep& step);
  // `rank`: the shared memory of which CTA of the cluster.
  void target(const MapReader& map, ProgramStep& step);
  void ordering(const MapReader& map, ProgramStep& step, arch::Order otherwise,
                const std::vector<arch::Order>& orders) const;
  // Bytes of `count` values of the type.
  std::uint8_t width(const MapReader& map, const char* key, arch::ValueType type, std::size_t count) const;
  std::vector<std::string> names(const MapReader& map, const char* key) const;

  const std::string& file_;
  const arch::KernelRecord& kernel_;
  const LaunchTargets& targets_;
  std::string thing_;  // "kernel gemm"
  std::set<std::string> launched_;
  ProgramParts parts_;
  ProgramNames names_;
  std::uint32_t depth_ = 0;
};

}  // namespace heddle::workload
