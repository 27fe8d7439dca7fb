// What a sweep file asks for: axes, what is common to all points, figures, how the page shows them (docs/sweep.md).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "program/map_reader.h"
#include "sweep/sweep_figure.h"

namespace heddle::sweep {

// What an axis changes of a run's command.
struct Setting {
  enum class Kind : std::uint8_t {
    set,     // a parameter of the machine or the run: --set
    let,     // a parameter of the scenario: --let
    option,  // an option of `heddle run`; "file": the scenario or the recording itself
  };

  Kind kind = Kind::set;
  std::string name;
  std::string text() const;  // "--set gpu.l2.bandwidth"
};

struct AxisValue {
  std::string label;
  std::optional<double> number;
  std::vector<std::string> texts;  // one per setting of the axis
};

// Values that are not listed: any number between two.
struct AxisRange {
  double from = 0;
  double to = 0;
  bool log = false;
  bool whole = false;
};

struct Axis {
  std::string name;
  std::string unit;
  std::vector<Setting> settings;
  std::vector<AxisValue> values;   // of the grid; empty: a range without steps, for samples only
  std::optional<AxisRange> range;  // the values are of one
  SourcePos where;
  bool numeric() const;
  // The value of a number on the axis, in the form that the file asks for.
  AxisValue at(double number) const;
};

// A setting that follows from the axes.
struct Derived {
  std::vector<Setting> settings;
  std::string value;  // expression over the axes that are numbers
  std::string unit;
  bool whole = false;
  SourcePos where;
};

struct Samples {
  std::uint32_t points = 0;
  std::uint64_t seed = 1;
};

// What the page shows first; empty: it chooses.
struct PageChoice {
  std::string x;                    // axis
  std::string lines;                // axis
  std::string figure;               // over x, in the heat map, and first of the sensitivities
  std::vector<std::string> pareto;  // two figures
};

struct Sweep {
  std::string file;
  std::string name;   // of the file, without its extension
  std::string title;  // its name or, without one, that of the file
  std::string description;
  std::vector<std::string> inputs;  // files of the run, as they are written; empty: an axis names them, or the default
  std::vector<std::pair<Setting, std::string>> common;
  std::vector<Axis> axes;
  std::vector<Derived> derived;
  std::optional<Samples> samples;  // absent: the whole grid
  std::string where;               // expression: points for which it is 0 are left out
  SourcePos where_pos;
  std::vector<SweepFigure> figures;  // empty: default_figures()
  double limit_s = 0;                // of wall time, for a point; 0: none
  bool keep = true;                  // the results folder of every point
  PageChoice page;

  // Names of the axes that are numbers: what expressions may use.
  std::vector<std::string> numeric_axes() const;
};

// Columns of its table that are no figures, in lower case.
std::set<std::string> taken_columns(const Sweep& sweep);

// Throws InputError with file and line.
Sweep read_sweep(const std::string& path);

// A name that stands in the file, as a path from where the program was started: relative to the sweep file's folder.
std::string beside(const Sweep& sweep, const std::string& name);
// The arguments of `heddle run` for a setting with a value.
std::vector<std::string> arguments_of(const Sweep& sweep, const Setting& setting, const std::string& value);

}  // namespace heddle::sweep
