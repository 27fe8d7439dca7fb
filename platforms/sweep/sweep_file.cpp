#include "sweep/sweep_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/expression.h"

namespace heddle::sweep {

namespace fs = std::filesystem;
using namespace program;

namespace {

constexpr std::uint32_t kMostSteps = 100'000;
// Columns of the table that are no axis and no figure, and that of host.csv, with which it is read.
constexpr std::array<const char*, 6> kColumns{"point", "status", "exit", "reason", "folder", "seconds"};

struct RunOption {
  const char* name;
  bool flag;  // takes no value: true or false
  bool file;  // its value may be a file
};
// Options of `heddle run` that change what is simulated. The others say where results go and what is printed.
constexpr std::array<RunOption, 18> kOptions{{{"file", false, true},
                                              {"gpu", false, true},
                                              {"timing", false, false},
                                              {"pace", false, false},
                                              {"fit", false, false},
                                              {"seed", false, false},
                                              {"submit", false, false},
                                              {"format", false, false},
                                              {"queues", false, false},
                                              {"copies", false, false},
                                              {"signals", false, false},
                                              {"batch", false, false},
                                              {"guess", false, false},
                                              {"counters", false, true},
                                              {"device", false, false},
                                              {"misfits", false, false},
                                              {"keep-baselines", false, false},
                                              {"no-baseline", true, false}}};

const RunOption* find_option(const std::string& name) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(), [&](const RunOption& o) { return name == o.name; });
  return found == kOptions.end() ? nullptr : &*found;
}

// What is wrong with a value of that option; empty: nothing that could be known here.
std::string wrong_value(const RunOption& option, const std::string& value) {
  if (!option.flag || value == "true" || value == "false") return {};
  return fmt::format("{}: true or false is expected, not {}", option.name, value);
}

const MapSpec& sweep_spec() {
  static const MapSpec kSpec{
      "sweep",
      {
          {"sweep", true, kInteger, "1: the version of this format", between(1, 1)},
          {"name", false, kText, "name of the sweep: heading of its page"},
          {"description", false, kText, "what the sweep is to show"},
          {"run", false, kText | kList, "scenario or recording, relative to this file; or a list of recordings"},
          {"set", false, kMap, "parameters of every point: {gpu.l2.slices: 80}; see `heddle show params`"},
          {"let", false, kMap, "parameters of the scenario, of every point: {ctas: 64}"},
          {"options", false, kMap, "options of `heddle run`, of every point: {timing: fast, seed: 7}"},
          {"axes", true, kList, "list of what is swept: {set: gpu.l2.bandwidth, values: [32, 64, 128]}", items(1)},
          {"derived", false, kList, "list of settings that follow from axes: {set: gpu.x, value: 64 * sms}"},
          {"where", false, kText, "expression over the axes that are numbers; points for which it is 0 are left out"},
          {"samples", false, kMap, "random points in place of the grid: {points: 50, seed: 1}"},
          {"figures", false, kList, "list of what is collected: {name: time, stat: sim.time, better: less}", items(1)},
          {"limit", false, kQuantity, "wall time that a point may take, e.g. 60 s; default: as long as it takes"},
          {"keep", false, kText, "results of every point: all (default) or figures, which are in the table",
           words("all figures")},
          {"page", false, kMap, "what the page shows first: {x: bandwidth, lines: slices, pareto: [time, cost]}"},
      }};
  return kSpec;
}

const MapSpec& axis_spec() {
  static const MapSpec kSpec{
      "axis",
      {
          {"name", false, kText, "name of the axis; default: the last part of what it sets"},
          {"set", false, kText | kList, "path of a parameter, or a list of paths that take the same value"},
          {"let", false, kText | kList, "parameter of the scenario, or a list of them that take the same value"},
          {"option", false, kText, "option of `heddle run`, without dashes; file: the scenario or recording"},
          {"values", false, kList, "list of values, each as --set, --let or the option takes it", items(1)},
          {"labels", false, kList, "list of what values are called in the table, one per value", items(1)},
          {"from", false, kNumber, "first value of a range"},
          {"to", false, kNumber, "last value of a range"},
          {"steps", false, kInteger, "values of a range, both ends included; random samples need none",
           between(1, kMostSteps)},
          {"scale", false, kText, "linear (default) or log: values of a range grow by a factor", words("linear log")},
          {"whole", false, kFlag, "true: values of a range are rounded to integers"},
          {"unit", false, kText, "unit of all values, e.g. KiB; they are numbers then"},
          {"zip", false, kList, "list of {set: …, values: …} that change together", items(1)},
      }};
  return kSpec;
}

const MapSpec& zip_spec() {
  static const MapSpec kSpec{
      "zip",
      {
          {"set", false, kText | kList, "path of a parameter, or a list of paths that take the same value"},
          {"let", false, kText | kList, "parameter of the scenario, or a list of them that take the same value"},
          {"option", false, kText, "option of `heddle run`, without dashes; file: the scenario or recording"},
          {"values", true, kList, "list of values, as many as the others of the axis have", items(1)},
      }};
  return kSpec;
}

const MapSpec& derived_spec() {
  static const MapSpec kSpec{
      "derived",
      {
          {"set", false, kText | kList, "path of a parameter, or a list of paths that take the same value"},
          {"let", false, kText | kList, "parameter of the scenario, or a list of them that take the same value"},
          {"option", false, kText, "option of `heddle run`, without dashes"},
          {"value", true, kText, "expression over the axes that are numbers"},
          {"unit", false, kText, "unit of the value, e.g. KiB"},
          {"whole", false, kFlag, "true: the value is rounded to an integer"},
      }};
  return kSpec;
}

const MapSpec& samples_spec() {
  static const MapSpec kSpec{"samples",
                             {
                                 {"points", true, kInteger, "number of points", between(1, kMostSteps)},
                                 {"seed", false, kInteger, "of the random numbers; default 1"},
                             }};
  return kSpec;
}

const MapSpec& page_spec() {
  static const MapSpec kSpec{"page",
                             {
                                 {"x", false, kText, "axis along which figures are drawn"},
                                 {"lines", false, kText, "axis with a line for each of its values"},
                                 {"figure", false, kText, "figure that is drawn first"},
                                 {"pareto", false, kList, "list of two figures that are weighed", items(2, 2)},
                             }};
  return kSpec;
}

// Twelve digits: 0.1 + 0.2 is 0.3 to whoever reads a table.
std::string number_label(double number) { return fmt::format("{:.12g}", number); }

std::optional<double> number_in(const std::string& text) {
  try {
    return parse_quantity<double>(text, {});
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// A value as --set takes it: lists and maps on one line.
std::string value_text(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  YAML::Emitter out;
  out << YAML::Flow << node;
  return out.c_str();
}

// The items of a list that is not empty.
std::vector<YAML::Node> some(const MapReader& map, const char* key) {
  std::vector<YAML::Node> found = map.items(key);
  if (found.empty()) map.fail(key, "the list is empty");
  return found;
}

std::vector<Setting> read_settings(const MapReader& map) {
  const int given = int{map.has("set")} + int{map.has("let")} + int{map.has("option")};
  if (given != 1) {
    throw InputError(map.where(), fmt::format("{}: one of set, let, option is expected", map.thing()),
                     "as in: {set: gpu.l2.bandwidth, values: [32, 64, 128]}");
  }
  std::vector<Setting> settings;
  if (map.has("option")) {
    const std::string name = map.name("option");
    if (find_option(name) == nullptr) {
      std::vector<std::string> names;
      for (const RunOption& option : kOptions) names.emplace_back(option.name);
      throw InputError(map.where("option"), fmt::format("{}: {} is no option that can be swept", map.thing(), name),
                       suggestion(name, names));
    }
    settings.push_back({Setting::Kind::option, name});
    return settings;
  }
  const char* key = map.has("set") ? "set" : "let";
  const Setting::Kind kind = map.has("set") ? Setting::Kind::set : Setting::Kind::let;
  for (const YAML::Node& item : map.items(key)) {
    if (!item.IsScalar() || item.Scalar().empty() || item.Scalar().find('=') != std::string::npos) {
      map.fail(key, item, "a name is expected");
    }
    settings.push_back({kind, item.Scalar()});
  }
  if (settings.empty()) map.fail(key, "the list is empty");
  return settings;
}

std::string default_name(const Setting& setting) { return setting.name.substr(setting.name.rfind('.') + 1); }

std::string with_unit_text(const std::string& number, const std::string& unit) {
  return unit.empty() ? number : number + " " + unit;
}

class AxisReader {
 public:
  AxisReader(const YAML::Node& node, const std::string& file)
      : file_(file), map_(node, axis_spec(), "axis" + named(node), file) {}

  Axis read() {
    axis_.where = map_.where();
    if (map_.has("unit")) axis_.unit = map_.name("unit");
    if (map_.has("zip")) {
      read_zip();
    } else {
      axis_.settings = read_settings(map_);
      if (map_.has("values") == map_.has("from")) {
        throw InputError(map_.where(), fmt::format("{}: values are expected, or from and to", map_.thing()),
                         "as in: {set: gpu.l2.bandwidth, from: 32, to: 256, steps: 4, scale: log}");
      }
      if (map_.has("values")) {
        read_values();
      } else {
        read_range();
      }
    }
    check_options();
    label_values();
    axis_.name = map_.has("name") ? map_.name("name") : default_name(axis_.settings.front());
    return std::move(axis_);
  }

 private:
  static std::string named(const YAML::Node& node) {
    if (!node.IsMap()) return "";
    for (const char* key : {"name", "set", "let", "option"}) {
      if (node[key] && node[key].IsScalar()) return " " + node[key].Scalar();
    }
    return "";
  }

  void refuse(std::initializer_list<const char*> keys, const char* why) const {
    for (const char* key : keys) {
      if (map_.has(key)) map_.fail(key, why);
    }
  }

  void read_zip() {
    refuse({"set", "let", "option", "values", "from", "to", "steps", "scale", "whole", "unit"},
           "an axis with zip has its settings and values there");
    for (const YAML::Node& item : some(map_, "zip")) {
      const MapReader part(item, zip_spec(), map_.thing() + ", zip", file_);
      const std::vector<YAML::Node> values = some(part, "values");
      if (!axis_.values.empty() && values.size() != axis_.values.size()) {
        part.fail("values",
                  fmt::format("{} values, and the first list of the axis has {}", values.size(), axis_.values.size()));
      }
      axis_.values.resize(values.size());
      for (const Setting& setting : read_settings(part)) {
        for (std::size_t i = 0; i < values.size(); ++i) axis_.values[i].texts.push_back(value_text(values[i]));
        axis_.settings.push_back(setting);
      }
    }
    for (AxisValue& value : axis_.values) {
      value.label = value.texts.front();
      value.number = number_in(value.label);
    }
  }

  void read_values() {
    refuse({"to", "steps", "scale", "whole"}, "a list of values is no range");
    for (const YAML::Node& item : some(map_, "values")) {
      AxisValue value;
      value.label = value_text(item);
      value.number = number_in(value.label);
      if (!axis_.unit.empty() && !value.number) {
        map_.fail("values", item, fmt::format("a number is expected, as the axis has the unit {}", axis_.unit));
      }
      value.texts.assign(axis_.settings.size(), with_unit_text(value.label, axis_.unit));
      axis_.values.push_back(std::move(value));
    }
  }

  void read_range() {
    if (!map_.has("to")) map_.fail("from", "a range ends somewhere (to)");
    AxisRange range;
    range.from = map_.number<double>("from", {});
    range.to = map_.number<double>("to", {});
    range.log = map_.has("scale") && map_.choice("scale") == "log";
    range.whole = map_.has("whole") && map_.flag("whole");
    if (range.log && (range.from <= 0 || range.to <= 0)) map_.fail("scale", "both ends of the range must be above 0");
    axis_.range = range;
    if (!map_.has("steps")) return;
    const std::uint32_t steps = map_.count("steps");
    for (std::uint32_t i = 0; i < steps; ++i) {
      const double part = steps == 1 ? 0 : static_cast<double>(i) / (steps - 1);
      const double number =
          range.log ? range.from * std::pow(range.to / range.from, part) : range.from + (range.to - range.from) * part;
      AxisValue value = axis_.at(number);
      if (axis_.values.empty() || axis_.values.back().label != value.label) axis_.values.push_back(std::move(value));
    }
  }

  void check_options() const {
    for (std::size_t s = 0; s < axis_.settings.size(); ++s) {
      if (axis_.settings[s].kind != Setting::Kind::option) continue;
      const RunOption& option = *find_option(axis_.settings[s].name);
      if (option.flag && axis_.range) map_.fail("option", fmt::format("{}: true and false are no range", option.name));
      for (const AxisValue& value : axis_.values) {
        const std::string wrong = wrong_value(option, value.texts[s]);
        if (!wrong.empty()) throw InputError(map_.where(), fmt::format("{}: {}", map_.thing(), wrong));
      }
    }
  }

  void label_values() {
    if (map_.has("labels")) {
      const std::vector<YAML::Node> labels = map_.items("labels");
      if (axis_.range) map_.fail("labels", "a range has no list of values that could be called something");
      if (labels.size() != axis_.values.size()) {
        map_.fail("labels", fmt::format("{} labels for {} values", labels.size(), axis_.values.size()));
      }
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (!labels[i].IsScalar() || labels[i].Scalar().empty()) map_.fail("labels", labels[i], "a text is expected");
        axis_.values[i].label = labels[i].Scalar();
        axis_.values[i].number = number_in(axis_.values[i].label);
      }
    }
    std::set<std::string> seen;
    for (const AxisValue& value : axis_.values) {
      if (!seen.insert(value.label).second) {
        throw InputError(map_.where(), fmt::format("{}: the value {} stands twice", map_.thing(), value.label),
                         "remove one of them, or give them labels");
      }
    }
  }

  const std::string& file_;
  MapReader map_;
  Axis axis_;
};

void read_common(const MapReader& map, const char* key, Setting::Kind kind, Sweep& sweep) {
  if (!map.has(key)) return;
  for (const auto& entry : map.node(key)) {
    const std::string& name = entry.first.Scalar();
    if (kind == Setting::Kind::option && (find_option(name) == nullptr || name == "file")) {
      std::vector<std::string> names;
      for (const RunOption& option : kOptions) {
        if (std::string(option.name) != "file") names.emplace_back(option.name);
      }
      throw InputError(position(entry.first, sweep.file),
                       fmt::format("sweep, options: {} is no option that points may have", name),
                       suggestion(name, names));
    }
    if (kind != Setting::Kind::set && !entry.second.IsScalar()) {
      map.fail(key, entry.second, "a single value is expected");
    }
    if (kind == Setting::Kind::option) {
      const std::string wrong = wrong_value(*find_option(name), entry.second.Scalar());
      if (!wrong.empty()) map.fail(key, entry.second, wrong);
    }
    sweep.common.push_back({{kind, name}, value_text(entry.second)});
  }
}

void check_names(const Sweep& sweep) {
  std::set<std::string> taken(kColumns.begin(), kColumns.end());
  const auto take = [&](const std::string& name, const SourcePos& where, const char* what) {
    if (!taken.insert(lower_case(name)).second) {
      throw InputError(where, fmt::format("{} {}: the table has a column of that name already", what, name),
                       "give it another name");
    }
  };
  std::set<std::string> set;
  for (const Axis& axis : sweep.axes) {
    take(axis.name, axis.where, "axis");
    for (const Setting& setting : axis.settings) {
      if (!set.insert(setting.text()).second) {
        throw InputError(axis.where, fmt::format("axis {}: {} is swept by another axis too", axis.name, setting.text()),
                         "use zip for what changes together");
      }
    }
    if (axis.numeric() && !usable_name(axis.name)) {
      throw InputError(axis.where, fmt::format("axis {}: expressions could not name it", axis.name),
                       "give it a name of letters, digits and underscores");
    }
  }
  for (const SweepFigure& figure : sweep.figures) take(figure.name, figure.where, "figure");
}

Derived read_derived(const YAML::Node& node, const Sweep& sweep) {
  const MapReader map(node, derived_spec(), "derived", sweep.file);
  Derived derived;
  derived.where = map.where();
  derived.settings = read_settings(map);
  for (const Setting& setting : derived.settings) {
    if (setting.kind == Setting::Kind::option && find_option(setting.name)->flag) {
      map.fail("option", fmt::format("{} is true or false, and no number", setting.name));
    }
  }
  derived.value = map.text("value");
  if (map.has("unit")) derived.unit = map.name("unit");
  derived.whole = map.has("whole") && map.flag("whole");
  NameTable names;
  ExpressionSlots slots;
  for (const std::string& axis : sweep.numeric_axes()) names.set(axis, slots.add());
  const Expression expression(derived.value, map.where("value"), names, slots);
  return derived;
}

void read_page(const YAML::Node& node, Sweep& sweep) {
  const MapReader map(node, page_spec(), "page", sweep.file);
  std::vector<std::string> axes;
  for (const Axis& axis : sweep.axes) axes.push_back(axis.name);
  std::vector<std::string> figures;
  for (const SweepFigure& figure : sweep.figures) figures.push_back(figure.name);
  const auto known = [&](const YAML::Node& item, const char* what, const std::vector<std::string>& names) {
    const std::string name = item.IsScalar() ? item.Scalar() : std::string();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw InputError(position(item, sweep.file), fmt::format("page: there is no {} {}", what, kind_text(item)),
                       names.empty() ? "give the sweep a list of figures" : suggestion(name, names));
    }
    return name;
  };
  if (map.has("x")) sweep.page.x = known(map.node("x"), "axis", axes);
  if (map.has("lines")) sweep.page.lines = known(map.node("lines"), "axis", axes);
  if (map.has("figure")) sweep.page.figure = known(map.node("figure"), "figure", figures);
  if (map.has("pareto")) {
    for (const YAML::Node& item : map.items("pareto")) sweep.page.pareto.push_back(known(item, "figure", figures));
    if (sweep.page.pareto.size() != 2) map.fail("pareto", "two figures are expected");
  }
}

void check_expression(const std::string& text, const SourcePos& where, const std::vector<std::string>& axes) {
  NameTable names;
  ExpressionSlots slots;
  for (const std::string& axis : axes) names.set(axis, slots.add());
  const Expression expression(text, where, names, slots);
}

}  // namespace

std::string Setting::text() const {
  const char* const kinds[] = {"--set ", "--let ", "--"};
  return (kind == Kind::option && name == "file" ? std::string() : kinds[static_cast<int>(kind)]) + name;
}

bool Axis::numeric() const {
  return range.has_value() ||
         std::all_of(values.begin(), values.end(), [](const AxisValue& value) { return value.number.has_value(); });
}

AxisValue Axis::at(double number) const {
  if (range && range->whole) number = std::round(number);
  AxisValue value;
  value.label = number_label(number);
  value.number = number_in(value.label);
  value.texts.assign(settings.size(), with_unit_text(value.label, unit));
  return value;
}

std::set<std::string> taken_columns(const Sweep& sweep) {
  std::set<std::string> taken(kColumns.begin(), kColumns.end());
  for (const Axis& axis : sweep.axes) taken.insert(lower_case(axis.name));
  return taken;
}

std::vector<std::string> Sweep::numeric_axes() const {
  std::vector<std::string> names;
  for (const Axis& axis : axes) {
    if (axis.numeric()) names.push_back(axis.name);
  }
  return names;
}

Sweep read_sweep(const std::string& path) {
  Sweep sweep;
  sweep.file = path;
  sweep.name = fs::path(path).stem().string();
  const YAML::Node root = load_yaml_file(path);
  if (root.IsMap() && !root["sweep"] && root["heddle"]) {
    throw InputError({path, 0, 0}, "is a scenario, not a sweep",
                     "a sweep is a file of its own with `sweep: 1` that names the scenario (docs/sweep.md)");
  }
  const MapReader map(root, sweep_spec(), "sweep", sweep.file);
  map.count("sweep");
  sweep.title = map.has("name") ? map.name("name") : sweep.name;
  if (map.has("description")) sweep.description = map.text("description");
  if (map.has("run")) {
    for (const YAML::Node& item : map.items("run")) {
      if (!item.IsScalar() || item.Scalar().empty()) map.fail("run", item, "the name of a file is expected");
      sweep.inputs.push_back(item.Scalar());
    }
  }
  read_common(map, "set", Setting::Kind::set, sweep);
  read_common(map, "let", Setting::Kind::let, sweep);
  read_common(map, "options", Setting::Kind::option, sweep);
  for (const YAML::Node& item : some(map, "axes")) sweep.axes.push_back(AxisReader(item, sweep.file).read());
  if (map.has("derived")) {
    for (const YAML::Node& item : map.items("derived")) sweep.derived.push_back(read_derived(item, sweep));
  }
  if (map.has("where")) {
    sweep.where = map.text("where");
    sweep.where_pos = map.where("where");
    check_expression(sweep.where, sweep.where_pos, sweep.numeric_axes());
  }
  if (map.has("samples")) {
    const MapReader samples(map.node("samples"), samples_spec(), "samples", sweep.file);
    sweep.samples.emplace();
    sweep.samples->points = samples.count("points");
    if (samples.has("seed")) sweep.samples->seed = samples.number<std::uint64_t>("seed", {});
  }
  for (const Axis& axis : sweep.axes) {
    const bool names_file = axis.settings.front().text() == "file";
    if (names_file && !sweep.inputs.empty()) {
      throw InputError(map.where("run"), "sweep, run: an axis names the file of every point", "remove one of the two");
    }
    if (axis.values.empty() && !sweep.samples) {
      throw InputError(axis.where, fmt::format("axis {}: a range of a grid has steps", axis.name),
                       "write steps: 5, or draw points at random with `samples`");
    }
  }
  if (map.has("figures")) {
    for (const YAML::Node& item : some(map, "figures")) {
      sweep.figures.push_back(read_sweep_figure(item, sweep.file, sweep.numeric_axes()));
    }
  }
  check_names(sweep);
  if (map.has("limit")) sweep.limit_s = map.number<double>("limit", {Unit::s, 0.001, 1e9}, BareNumber::refused);
  sweep.keep = !map.has("keep") || map.choice("keep") == "all";
  if (map.has("page")) read_page(map.node("page"), sweep);
  return sweep;
}

std::string beside(const Sweep& sweep, const std::string& name) {
  const fs::path path(name);
  if (path.is_absolute()) return name;
  return (fs::path(sweep.file).parent_path() / path).lexically_normal().string();
}

std::vector<std::string> arguments_of(const Sweep& sweep, const Setting& setting, const std::string& value) {
  if (setting.kind != Setting::Kind::option) {
    return {setting.kind == Setting::Kind::set ? "--set" : "--let", setting.name + "=" + value};
  }
  const RunOption* option = find_option(setting.name);
  HEDDLE_CHECK(option != nullptr, "an option that was read is known");
  if (setting.name == "file") return {beside(sweep, value)};
  if (option->flag) return value == "true" ? std::vector<std::string>{"--" + setting.name} : std::vector<std::string>{};
  // A machine may be a preset or a file.
  std::error_code ignored;
  const bool is_file = option->file && fs::is_regular_file(beside(sweep, value), ignored);
  return {"--" + setting.name, is_file ? beside(sweep, value) : value};
}

}  // namespace heddle::sweep
