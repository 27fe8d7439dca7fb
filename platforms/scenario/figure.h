// What a scenario measures: numbers computed from the memory and the statistics that a run leaves behind, beside what
// was measured on silicon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/memory_op.h"
#include "common/error.h"
#include "workload/workload.h"

namespace heddle::scenario {

// A number that a figure's expression names.
struct FigureInput {
  enum class Take : std::uint8_t { element, min, max, sum, mean };

  std::string name;
  std::string stat;    // path of a statistic; or
  bool clock = false;  // the clock of a GPU, in GHz; or
  std::string kernel;  // time of its last launch, from start to end, in ns; or
  std::string memory;  // a region,
  std::size_t gpu = 0;
  arch::ValueType type = arch::ValueType::f32;  // of its elements,
  Take take = Take::element;                    // and what to take of them
  std::uint64_t element = 0;
  SourcePos where;
};

struct Figure {
  std::string name;
  std::string unit;
  std::string value;  // expression over the inputs
  std::vector<FigureInput> inputs;
  std::optional<double> measured;  // in the same unit
  std::string source;              // of the measurement
  SourcePos where;
};

// What the scenario has that a figure may name.
struct FigureScope {
  const std::vector<workload::MemoryRegion>& regions;
  std::vector<std::string> kernels;
  std::size_t gpus = 1;
};

// An entry of `figures:`. Throws InputError with file and line. Whether statistics exist is not known here.
Figure read_figure(const YAML::Node& node, const std::string& file, const FigureScope& scope);

// What an input is, given the bytes of its region.
double taken(const FigureInput& input, const std::vector<std::uint8_t>& bytes);

// The figure, given its inputs. Infinite or NaN where they allow no value.
double value_of(const Figure& figure, const std::function<double(const FigureInput&)>& input);

}  // namespace heddle::scenario
