// A number that a sweep collects of every point: from statistics, kernels and figures of its run, and from the swept
// values.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "program/map_reader.h"
#include "sweep/run_results.h"

namespace heddle::sweep {

enum class Take : std::uint8_t { sum, mean, min, max };

// Where a number comes from.
struct FigureSource {
  enum class Kind : std::uint8_t { stat, kernel, figure };

  std::string name;  // in the figure's expression
  Kind kind = Kind::stat;
  std::string what;  // path of a statistic or name of a kernel, * and ** allowed; or name of a figure of the scenario
  Take take = Take::sum;            // of all that `what` means
  std::optional<double> otherwise;  // where a run has nothing of it
  SourcePos where;
};

enum class Better : std::uint8_t { unknown, less, more };

struct SweepFigure {
  std::string name;
  std::string unit;   // empty: that of its only source
  std::string value;  // expression over the sources and the axes that are numbers; empty: the only source
  std::vector<FigureSource> sources;
  Better better = Better::unknown;
  SourcePos where;
};

struct Measured {
  std::optional<double> value;
  std::string unit;
  std::string why;  // there is none
};

const MapSpec& sweep_figure_spec();
const MapSpec& figure_source_spec();

// An entry of the list `figures`. `axes`: names that its expression may use beside its sources. Throws InputError with
// file and line.
SweepFigure read_sweep_figure(const YAML::Node& node, const std::string& file, const std::vector<std::string>& axes);

// `axes`: the swept values of the point that are numbers.
Measured measure(const SweepFigure& figure, const RunResults& results, const std::map<std::string, double>& axes);

// What is collected where the file says nothing: the figures of the scenario, or else the modelled span of a recording,
// or else the simulated time; and the occupancy. A name that is among `taken` (in lower case) is followed by
// " of the run".
std::vector<SweepFigure> default_figures(const RunResults& results, std::set<std::string> taken = {});
// `column` is what default_figures() calls the figure `name`.
bool is_default_figure(const std::string& column, const std::string& name);

// A source that the run knows nothing of, as an error with file, line and the nearest name; nothing if all are known.
std::optional<InputError> unknown_source(const std::vector<SweepFigure>& figures, const RunResults& results);

}  // namespace heddle::sweep
