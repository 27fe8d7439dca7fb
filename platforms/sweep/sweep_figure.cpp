#include "sweep/sweep_figure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "program/expression.h"

namespace heddle::sweep {

using namespace program;
namespace {

constexpr const char* kOfTheRun = " of the run";  // behind a default name that the table has already
constexpr const char* kFigureExample = "as in: {name: L2 hits, stat: gpu0.l2.slice*.hits}";

FigureSource read_source(const MapReader& map, std::string name) {
  FigureSource source;
  source.name = std::move(name);
  source.where = map.where();
  if (int{map.has("stat")} + int{map.has("kernel")} + int{map.has("figure")} != 1) {
    throw InputError(map.where(), fmt::format("{}: one of stat, kernel, figure is expected", map.thing()),
                     kFigureExample);
  }
  using Kind = FigureSource::Kind;
  source.kind = map.has("stat") ? Kind::stat : map.has("kernel") ? Kind::kernel : Kind::figure;
  source.what = map.name(map.has("stat") ? "stat" : map.has("kernel") ? "kernel" : "figure");
  if (map.has("take")) {
    if (source.kind == Kind::figure) map.fail("take", "a figure of the scenario is one number");
    const std::string word = map.choice("take");
    source.take = word == "sum" ? Take::sum : word == "mean" ? Take::mean : word == "min" ? Take::min : Take::max;
  }
  if (map.has("otherwise")) source.otherwise = map.number<double>("otherwise", {});
  return source;
}

// What an expression may name, with a slot for each.
struct Names {
  Names(const SweepFigure& figure, const std::vector<std::string>& axes) {
    for (const std::string& axis : axes) add(axis);
    for (const FigureSource& source : figure.sources) add(source.name);
  }
  void add(const std::string& name) {
    numbers[name] = slots.add();
    names.set(name, numbers[name]);
  }

  ExpressionSlots slots;
  NameTable names;
  std::map<std::string, std::uint32_t> numbers;
};

double taken(Take take, const std::vector<double>& values) {
  switch (take) {
    case Take::min:
      return *std::min_element(values.begin(), values.end());
    case Take::max:
      return *std::max_element(values.begin(), values.end());
    case Take::mean:
      return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    case Take::sum:
      break;
  }
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> values_of(const FigureSource& source, const RunResults& results) {
  std::vector<double> values;
  if (source.kind == FigureSource::Kind::stat) {
    for (const auto& [path, value] : results.stats_like(source.what)) values.push_back(value);
  } else if (source.kind == FigureSource::Kind::kernel) {
    for (const KernelSum& kernel : results.kernels()) {
      if (kernel.name != source.what && !matches_pattern(source.what, kernel.name)) continue;
      values.insert(values.end(), kernel.us.begin(), kernel.us.end());
    }
  } else if (const std::optional<double> value = results.figure(source.what)) {
    values.push_back(*value);
  }
  return values;
}

std::string unit_of(const FigureSource& source, const RunResults& results) {
  if (source.kind == FigureSource::Kind::kernel) return "us";
  if (source.kind == FigureSource::Kind::figure) return results.figure_unit(source.what);
  const auto found = results.stats_like(source.what);
  return found.empty() ? std::string() : results.unit_of(found.front().first);
}

const char* kind_name(FigureSource::Kind kind) {
  return kind == FigureSource::Kind::stat     ? "statistic"
         : kind == FigureSource::Kind::kernel ? "kernel"
                                              : "figure of its own";
}

SweepFigure simple(const std::string& name, FigureSource::Kind kind, const std::string& what, Better better) {
  SweepFigure figure;
  figure.name = name;
  figure.better = better;
  FigureSource source;
  source.name = "x";
  source.kind = kind;
  source.what = what;
  figure.sources.push_back(source);
  return figure;
}

}  // namespace

const MapSpec& sweep_figure_spec() {
  static const MapSpec kSpec{
      "figure",
      {
          {"name", true, kText, "name of the figure: a column of the table"},
          {"stat", false, kText, "path of a statistic of the run; * stands for any characters but a dot, ** for any"},
          {"kernel", false, kText, "name of a kernel, * allowed: times of its launches, in us"},
          {"figure", false, kText, "name of a figure that the scenario measures"},
          {"take", false, kText, "sum, mean, min or max of all that is meant; default sum", words("sum mean min max")},
          {"otherwise", false, kNumber, "the number to take where a run has nothing of it"},
          {"value", false, kText, "expression over the names in `of` and the axes, instead of stat, kernel, figure"},
          {"of", false, kMap, "what each name in `value` is: {hits: {stat: gpu0.l2.slice*.hits}}"},
          {"unit", false, kText, "unit of the figure, for whoever reads it; default that of the statistic"},
          {"better", false, kText, "less or more: what an architect wants of it", words("less more")},
      }};
  return kSpec;
}

const MapSpec& figure_source_spec() {
  static const MapSpec kSpec{
      "figure_source",
      {
          {"stat", false, kText, "path of a statistic of the run; * stands for any characters but a dot, ** for any"},
          {"kernel", false, kText, "name of a kernel, * allowed: times of its launches, in us"},
          {"figure", false, kText, "name of a figure that the scenario measures"},
          {"take", false, kText, "sum, mean, min or max of all that is meant; default sum", words("sum mean min max")},
          {"otherwise", false, kNumber, "the number to take where a run has nothing of it"},
      }};
  return kSpec;
}

SweepFigure read_sweep_figure(const YAML::Node& node, const std::string& file, const std::vector<std::string>& axes) {
  const std::string thing =
      node.IsMap() && node["name"] && node["name"].IsScalar() ? "figure " + node["name"].Scalar() : "figure";
  const MapReader map(node, sweep_figure_spec(), thing, file);
  SweepFigure figure;
  figure.name = map.name("name");
  figure.where = map.where();
  if (map.has("unit")) figure.unit = map.text("unit");
  if (map.has("better")) figure.better = map.choice("better") == "less" ? Better::less : Better::more;
  if (!map.has("value")) {
    if (map.has("of")) map.fail("of", "it names parts of an expression, and there is none (value)");
    figure.sources.push_back(read_source(map, "x"));
    return figure;
  }
  for (const char* key : {"stat", "kernel", "figure", "take", "otherwise"}) {
    if (map.has(key)) map.fail(key, "the figure has a value; what is in it stands in `of`");
  }
  figure.value = map.text("value");
  if (map.has("of")) {
    for (const auto& entry : map.node("of")) {
      const std::string& name = entry.first.Scalar();
      if (!usable_name(name)) map.fail("of", entry.first, fmt::format("{} cannot be a name", name));
      if (std::find(axes.begin(), axes.end(), name) != axes.end()) {
        map.fail("of", entry.first, fmt::format("{} is the name of an axis already", name));
      }
      figure.sources.push_back(
          read_source(MapReader(entry.second, figure_source_spec(), thing + "'s " + name, file), name));
    }
  }
  Names names(figure, axes);
  const Expression expression(figure.value, map.where("value"), names.names, names.slots);
  return figure;
}

Measured measure(const SweepFigure& figure, const RunResults& results, const std::map<std::string, double>& axes) {
  std::vector<std::string> axis_names;
  for (const auto& [name, value] : axes) axis_names.push_back(name);
  Measured result;
  result.unit = figure.unit;
  Names names(figure, axis_names);
  for (const auto& [name, value] : axes) names.slots.at(names.numbers.at(name)) = value;
  for (const FigureSource& source : figure.sources) {
    const std::vector<double> values = values_of(source, results);
    if (values.empty() && !source.otherwise) {
      result.why = fmt::format("the run has no {} {}", kind_name(source.kind), source.what);
      return result;
    }
    names.slots.at(names.numbers.at(source.name)) = values.empty() ? *source.otherwise : taken(source.take, values);
  }
  if (figure.value.empty()) {
    if (result.unit.empty()) result.unit = unit_of(figure.sources.front(), results);
    result.value = names.slots.at(names.numbers.at(figure.sources.front().name));
  } else {
    result.value = Expression(figure.value, figure.where, names.names, names.slots).value();
  }
  if (!std::isfinite(*result.value)) {
    result.value.reset();
    result.why = "the expression has no finite value";
  }
  return result;
}

bool is_default_figure(const std::string& column, const std::string& name) {
  return column.compare(0, name.size(), name) == 0 &&
         (column.size() == name.size() || column.compare(name.size(), std::strlen(kOfTheRun), kOfTheRun) == 0);
}

std::vector<SweepFigure> default_figures(const RunResults& results, std::set<std::string> taken) {
  using Kind = FigureSource::Kind;
  std::vector<SweepFigure> figures;
  for (const std::string& name : results.figure_names()) {
    figures.push_back(simple(name, Kind::figure, name, Better::unknown));
  }
  if (figures.empty() && results.stat("replay.span.modelled")) {
    figures.push_back(simple("span", Kind::stat, "replay.span.modelled", Better::less));
  }
  if (figures.empty()) figures.push_back(simple("time", Kind::stat, "sim.time", Better::less));
  SweepFigure occupancy = simple("occupancy", Kind::stat, "gpu*.occupancy", Better::unknown);
  occupancy.sources.front().take = Take::mean;
  const auto same = [&occupancy](const SweepFigure& figure) { return figure.name == occupancy.name; };
  if (std::none_of(figures.begin(), figures.end(), same)) figures.push_back(occupancy);
  for (SweepFigure& figure : figures) {
    while (!taken.insert(lower_case(figure.name)).second) figure.name += kOfTheRun;
  }
  return figures;
}

std::optional<InputError> unknown_source(const std::vector<SweepFigure>& figures, const RunResults& results) {
  for (const SweepFigure& figure : figures) {
    for (const FigureSource& source : figure.sources) {
      if (source.otherwise || !values_of(source, results).empty()) continue;
      std::vector<std::string> known;
      if (source.kind == FigureSource::Kind::stat) {
        known = results.stat_names();
      } else if (source.kind == FigureSource::Kind::figure) {
        known = results.figure_names();
      } else {
        for (const KernelSum& kernel : results.kernels()) known.push_back(kernel.name);
      }
      const std::string near = nearest(source.what, known);
      return InputError(
          source.where,
          fmt::format("figure {}: the run has no {} {}", figure.name, kind_name(source.kind), source.what),
          near.empty() ? fmt::format("{} lists what it has; `otherwise: 0` is for what only some runs have",
                                     (results.folder() / "stats.json").string())
                       : "did you mean " + near + "?");
    }
  }
  return std::nullopt;
}

}  // namespace heddle::sweep
