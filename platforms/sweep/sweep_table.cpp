#include "sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <sqlite3.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"

namespace heddle::sweep {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::size_t kShownFailures = 10;

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string sql_name(const std::string& name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// A database that is being written; it takes its place when it is whole.
class NewDatabase {
 public:
  explicit NewDatabase(const fs::path& file) : file_(file), fresh_(file.string() + fmt::format(".{}", getpid())) {
    std::error_code ignored;
    fs::remove(fresh_, ignored);
    sqlite3* connection = nullptr;
    const int status = sqlite3_open(fresh_.c_str(), &connection);
    connection_.reset(connection);
    if (status != SQLITE_OK) fail();
  }
  ~NewDatabase() {
    connection_.reset();
    std::error_code ignored;
    fs::remove(fresh_, ignored);
  }
  NewDatabase(const NewDatabase&) = delete;
  NewDatabase& operator=(const NewDatabase&) = delete;

  void execute(const std::string& sql) {
    if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  // Null becomes NULL.
  void insert(const std::string& table, const std::vector<json>& row) {
    sqlite3_stmt* raw = prepared(table, row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int at = static_cast<int>(i + 1);
      if (row[i].is_number_integer()) {
        sqlite3_bind_int64(raw, at, row[i].get<std::int64_t>());
      } else if (row[i].is_number()) {
        sqlite3_bind_double(raw, at, row[i].get<double>());
      } else if (row[i].is_string()) {
        // The destructor's value asks SQLite for a copy.
        // NOLINTNEXTLINE(*-c-style-cast, performance-no-int-to-ptr): a macro of SQLite
        sqlite3_bind_text(raw, at, row[i].get_ref<const std::string&>().c_str(), -1, SQLITE_TRANSIENT);
      }
    }
    if (sqlite3_step(raw) != SQLITE_DONE) fail();
    sqlite3_reset(raw);
    sqlite3_clear_bindings(raw);
  }
  void finish() {
    inserts_.clear();
    connection_.reset();
    std::error_code error;
    fs::rename(fresh_, file_, error);
    if (error) fail();
  }

 private:
  struct Closer {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  sqlite3_stmt* prepared(const std::string& table, std::size_t columns) {
    std::unique_ptr<sqlite3_stmt, Finalizer>& statement = inserts_[table];
    if (statement) return statement.get();
    std::string sql = fmt::format("INSERT INTO {} VALUES (", table);
    for (std::size_t i = 0; i < columns; ++i) sql += i == 0 ? "?" : ",?";
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(connection_.get(), (sql + ")").c_str(), -1, &raw, nullptr) != SQLITE_OK) fail();
    statement.reset(raw);
    return raw;
  }
  [[noreturn]] void fail() {
    throw InputError({file_.string()},
                     fmt::format("cannot be written: {}", connection_ ? sqlite3_errmsg(connection_.get()) : "no file"),
                     "choose another folder with --out DIR, or free the disk");
  }

  fs::path file_;
  fs::path fresh_;
  std::unique_ptr<sqlite3, Closer> connection_;
  std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalizer>> inserts_;  // by table
};

// Columns of texts; the others are numbers.
bool is_text(const std::string& column) {
  static const std::set<std::string> kTexts = {"gpu",   "kind",  "name",     "stream",     "grid",
                                               "block", "ended", "waits_ns", "idle_sm_ns", "stalls"};
  return kTexts.count(column) > 0;
}

// Rows of a point's kernels.csv. The table is made with the first one. Results of another version may have other
// columns: what both have is kept.
void insert_kernels(NewDatabase& database, std::size_t point, const fs::path& csv, std::vector<std::string>& columns) {
  const std::unique_ptr<import::ByteSource> source = import::open_bytes(csv.string());
  import::CsvReader reader(*source);
  if (!reader.next()) return;
  const std::vector<std::string> heads = reader.fields();
  if (columns.empty()) {
    columns = heads;
    std::string sql = "CREATE TABLE kernels (point INTEGER";
    for (const std::string& column : columns) {
      sql += fmt::format(", {} {}", sql_name(column), is_text(column) ? "TEXT" : "NUMERIC");
    }
    database.execute(sql + ")");
  }
  std::vector<std::size_t> places;
  for (const std::string& column : columns) {
    places.push_back(static_cast<std::size_t>(std::find(heads.begin(), heads.end(), column) - heads.begin()));
  }
  std::vector<json> row;
  while (reader.next()) {
    const std::vector<std::string>& fields = reader.fields();
    row = {static_cast<std::int64_t>(point)};
    for (const std::size_t place : places) {
      row.push_back(place < fields.size() && !fields[place].empty() ? json(fields[place]) : json());
    }
    database.insert("kernels", row);
  }
}

json axis_value(const Axis& axis, const AxisValue& value) {
  if (axis.numeric()) return *value.number;
  return value.label;
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

const char* better_name(Better better) {
  return better == Better::less ? "less" : better == Better::more ? "more" : "";
}

// The values of an axis and their points, in order.
struct Grouping {
  std::vector<std::string> labels;
  std::vector<std::vector<std::size_t>> points;
};

Grouping grouped(const SweepTable& table, std::size_t axis, const std::vector<std::size_t>& rows) {
  const Axis& its = table.sweep->axes[axis];
  const std::vector<Point>& points = *table.points;
  Grouping result;
  std::map<std::string, std::size_t> seen;
  std::vector<std::size_t> ordered = rows;
  if (its.numeric()) {
    std::stable_sort(ordered.begin(), ordered.end(), [&](std::size_t a, std::size_t b) {
      return *points[a].values[axis].number < *points[b].values[axis].number;
    });
  }
  for (const std::size_t row : ordered) {
    const std::string& label = points[row].values[axis].label;
    const auto [group, fresh] = seen.emplace(label, result.labels.size());
    if (fresh) {
      result.labels.push_back(label);
      result.points.emplace_back();
    }
    result.points[group->second].push_back(row);
  }
  if (!its.numeric() || result.labels.size() <= kMostGroups) return result;
  Grouping bins;
  for (std::size_t g = 0; g < kMostGroups; ++g) {
    const std::size_t begin = g * ordered.size() / kMostGroups;
    const std::size_t end = (g + 1) * ordered.size() / kMostGroups;
    if (begin == end) continue;
    bins.labels.push_back(fmt::format("{} to {}", points[ordered[begin]].values[axis].label,
                                      points[ordered[end - 1]].values[axis].label));
    bins.points.emplace_back(ordered.begin() + static_cast<std::ptrdiff_t>(begin),
                             ordered.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return bins;
}

std::string with_unit_text(double value, const std::string& unit) {
  return fmt::format("{:.5g}{}{}", value, unit.empty() ? "" : " ", unit);
}

}  // namespace

std::optional<double> SweepTable::value(std::size_t point, std::size_t figure) const {
  if (!records[point]) return std::nullopt;
  const auto found = records[point]->figures.find(figures[figure].name);
  return found == records[point]->figures.end() ? std::nullopt : found->second.value;
}

std::string SweepTable::state(std::size_t point) const {
  return records[point] ? state_name(records[point]->state) : "not run";
}

std::size_t SweepTable::with_state(PointState state) const {
  return static_cast<std::size_t>(std::count_if(
      records.begin(), records.end(), [state](const auto& record) { return record && record->state == state; }));
}

std::size_t SweepTable::missing() const {
  return static_cast<std::size_t>(
      std::count_if(records.begin(), records.end(), [](const auto& record) { return !record; }));
}

SweepTable table_of(const Sweep& sweep, const std::vector<Point>& points,
                    std::vector<std::optional<PointRecord>> records) {
  SweepTable table;
  table.sweep = &sweep;
  table.points = &points;
  table.records = std::move(records);
  for (const SweepFigure& figure : sweep.figures) table.figures.push_back({figure.name, figure.unit, figure.better});
  for (const auto& record : table.records) {
    if (!record) continue;
    for (const auto& [name, measured] : record->figures) {
      auto column = std::find_if(table.figures.begin(), table.figures.end(),
                                 [&, &its = name](const FigureColumn& one) { return one.name == its; });
      if (column == table.figures.end()) {
        const bool time = is_default_figure(name, "time") || is_default_figure(name, "span");
        table.figures.push_back({name, "", time ? Better::less : Better::unknown});
        column = table.figures.end() - 1;
      }
      if (column->unit.empty()) column->unit = measured.unit;
    }
  }
  // What default_figures() adds to the others comes last.
  if (sweep.figures.empty()) {
    std::stable_partition(table.figures.begin(), table.figures.end(),
                          [](const FigureColumn& column) { return !is_default_figure(column.name, "occupancy"); });
  }
  return table;
}

std::string csv_of(const SweepTable& table) {
  std::string text = "point";
  for (const Axis& axis : table.sweep->axes) text += "," + csv_field(axis.name);
  for (const FigureColumn& figure : table.figures) text += "," + csv_field(figure.name);
  text += ",status,exit,reason,folder\n";
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    const Point& point = (*table.points)[p];
    text += fmt::format("{}", point.number);
    for (const AxisValue& value : point.values) text += "," + csv_field(value.label);
    for (std::size_t f = 0; f < table.figures.size(); ++f) {
      const std::optional<double> value = table.value(p, f);
      text += value ? fmt::format(",{}", *value) : ",";
    }
    const auto& record = table.records[p];
    text += "," + csv_field(table.state(p));
    text += record ? fmt::format(",{},{},{}\n", record->exit, csv_field(record->reason), point.folder)
                   : fmt::format(",,,{}\n", point.folder);
  }
  return text;
}

std::string host_csv_of(const SweepTable& table) {
  std::string text = "point,seconds\n";
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    if (table.records[p]) text += fmt::format("{},{:.3f}\n", (*table.points)[p].number, table.records[p]->seconds);
  }
  return text;
}

void write_sqlite(const SweepTable& table, const fs::path& file) {
  NewDatabase database(file);
  std::string columns = "point INTEGER PRIMARY KEY";
  for (const Axis& axis : table.sweep->axes)
    columns += fmt::format(", {} {}", sql_name(axis.name), axis.numeric() ? "REAL" : "TEXT");
  for (const FigureColumn& figure : table.figures) columns += fmt::format(", {} REAL", sql_name(figure.name));
  database.execute("BEGIN");
  database.execute("CREATE TABLE points (" + columns + ", status TEXT, exit INTEGER, reason TEXT, folder TEXT)");
  database.execute("CREATE TABLE host (point INTEGER PRIMARY KEY, seconds REAL)");
  database.execute("CREATE TABLE axes (name TEXT PRIMARY KEY, sets TEXT, unit TEXT)");
  database.execute("CREATE TABLE figures (name TEXT PRIMARY KEY, unit TEXT, better TEXT)");
  for (const Axis& axis : table.sweep->axes) {
    std::string sets;
    for (const Setting& setting : axis.settings) sets += (sets.empty() ? "" : ", ") + setting.text();
    database.insert("axes", {axis.name, sets, axis.unit});
  }
  for (const FigureColumn& figure : table.figures) {
    database.insert("figures", {figure.name, figure.unit, better_name(figure.better)});
  }
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    const Point& point = (*table.points)[p];
    std::vector<json> row{static_cast<std::int64_t>(point.number)};
    for (std::size_t a = 0; a < point.values.size(); ++a)
      row.push_back(axis_value(table.sweep->axes[a], point.values[a]));
    for (std::size_t f = 0; f < table.figures.size(); ++f) row.push_back(optional_json(table.value(p, f)));
    const auto& record = table.records[p];
    row.emplace_back(table.state(p));
    row.push_back(record ? json(record->exit) : json());
    row.push_back(record ? json(record->reason) : json());
    row.emplace_back(point.folder);
    database.insert("points", row);
    if (record) database.insert("host", {static_cast<std::int64_t>(point.number), record->seconds});
  }
  std::vector<std::string> of_kernels;
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    const Point& point = (*table.points)[p];
    const fs::path csv = file.parent_path() / point.folder / "kernels.csv";
    if (table.records[p] && table.records[p]->measured() && fs::exists(csv)) {
      insert_kernels(database, point.number, csv, of_kernels);
    }
  }
  database.execute("COMMIT");
  database.finish();
}

std::vector<MainEffect> main_effects(const SweepTable& table, std::size_t figure) {
  std::vector<std::size_t> rows;
  double sum = 0;
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    if (const std::optional<double> value = table.value(p, figure)) {
      rows.push_back(p);
      sum += *value;
    }
  }
  if (rows.empty()) return {};
  const double mean = sum / static_cast<double>(rows.size());
  double total = 0;
  for (const std::size_t row : rows) total += std::pow(*table.value(row, figure) - mean, 2);
  // Rounding leaves something of what is constant.
  if (total <= 1e-18 * mean * mean * static_cast<double>(rows.size())) return {};
  std::vector<MainEffect> effects;
  for (std::size_t axis = 0; axis < table.sweep->axes.size(); ++axis) {
    const Grouping groups = grouped(table, axis, rows);
    if (groups.labels.size() < 2) continue;
    MainEffect effect;
    effect.axis = axis;
    double between = 0;
    for (std::size_t g = 0; g < groups.labels.size(); ++g) {
      double of_group = 0;
      for (const std::size_t row : groups.points[g]) of_group += *table.value(row, figure);
      of_group /= static_cast<double>(groups.points[g].size());
      between += static_cast<double>(groups.points[g].size()) * std::pow(of_group - mean, 2);
      effect.groups.push_back({groups.labels[g], of_group, groups.points[g].size()});
    }
    const auto [low, high] = std::minmax_element(effect.groups.begin(), effect.groups.end(),
                                                 [](const auto& a, const auto& b) { return a.mean < b.mean; });
    effect.low = low->mean;
    effect.high = high->mean;
    effect.share = between / total;
    effects.push_back(std::move(effect));
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const MainEffect& a, const MainEffect& b) { return a.share > b.share; });
  return effects;
}

json sweep_page_data(const SweepTable& table, const std::string& command) {
  const Sweep& sweep = *table.sweep;
  json data = {{"schema", 1},
               {"title", sweep.title},
               {"command", command},
               {"description", sweep.description},
               {"samples", sweep.samples.has_value()}};
  for (const Axis& axis : sweep.axes) {
    std::string sets;
    for (const Setting& setting : axis.settings) sets += (sets.empty() ? "" : ", ") + setting.text();
    json values = json::array();
    for (const AxisValue& value : axis.values) values.push_back(axis_value(axis, value));
    data["axes"].push_back({{"name", axis.name},
                            {"sets", sets},
                            {"unit", axis.unit},
                            {"numeric", axis.numeric()},
                            {"log", axis.range && axis.range->log},
                            {"values", values}});
  }
  data["figures"] = json::array();
  for (std::size_t f = 0; f < table.figures.size(); ++f) {
    const FigureColumn& figure = table.figures[f];
    json effects = json::array();
    for (const MainEffect& effect : main_effects(table, f)) {
      json groups = json::array();
      for (const MainEffect::Group& group : effect.groups) {
        groups.push_back({{"label", group.label}, {"mean", group.mean}, {"points", group.points}});
      }
      effects.push_back({{"axis", effect.axis},
                         {"low", effect.low},
                         {"high", effect.high},
                         {"share_percent", 100 * effect.share},
                         {"groups", groups}});
    }
    data["figures"].push_back(
        {{"name", figure.name}, {"unit", figure.unit}, {"better", better_name(figure.better)}, {"effects", effects}});
  }
  data["points"] = json::array();
  for (std::size_t p = 0; p < table.points->size(); ++p) {
    const Point& point = (*table.points)[p];
    json at = json::array();
    for (std::size_t a = 0; a < point.values.size(); ++a) at.push_back(axis_value(sweep.axes[a], point.values[a]));
    json values = json::array();
    for (std::size_t f = 0; f < table.figures.size(); ++f) values.push_back(optional_json(table.value(p, f)));
    json row = {
        {"point", point.number}, {"at", at}, {"values", values}, {"status", table.state(p)}, {"folder", point.folder}};
    if (const auto& record = table.records[p]) {
      row["reason"] = record->reason;
      row["seconds"] = record->seconds;
      for (const auto& [name, measured] : record->figures) {
        if (!measured.why.empty()) row["without"].push_back({{"figure", name}, {"why", measured.why}});
      }
    }
    data["points"].push_back(std::move(row));
  }
  data["choice"] = {
      {"x", sweep.page.x}, {"lines", sweep.page.lines}, {"figure", sweep.page.figure}, {"pareto", sweep.page.pareto}};
  return data;
}

std::string summary_text(const SweepTable& table) {
  const std::vector<Point>& points = *table.points;
  const std::size_t done = table.with_state(PointState::done);
  std::string text = fmt::format("{}: {} points, {} done", table.sweep->title, points.size(), done);
  const std::size_t missing = table.missing();
  if (done + missing < points.size()) text += fmt::format(", {} not well", points.size() - done - missing);
  if (missing > 0) text += fmt::format(", {} not run", missing);
  text += "\n\n";
  for (std::size_t f = 0; f < table.figures.size(); ++f) {
    const FigureColumn& figure = table.figures[f];
    std::optional<std::size_t> least;
    std::optional<std::size_t> most;
    for (std::size_t p = 0; p < points.size(); ++p) {
      const std::optional<double> value = table.value(p, f);
      if (!value) continue;
      if (!least || *value < *table.value(*least, f)) least = p;
      if (!most || *value > *table.value(*most, f)) most = p;
    }
    if (!least) {
      text += fmt::format("  {}: no point has it\n", figure.name);
      continue;
    }
    const double low = *table.value(*least, f);
    const double high = *table.value(*most, f);
    if (low == high) {
      text += fmt::format("  {}: {} at all points\n", figure.name, with_unit_text(low, figure.unit));
      continue;
    }
    text += fmt::format("  {}: {} at {}, to {} at {}\n", figure.name, with_unit_text(low, figure.unit),
                        points[*least].text(*table.sweep), with_unit_text(high, figure.unit),
                        points[*most].text(*table.sweep));
    for (const MainEffect& effect : main_effects(table, f)) {
      text += fmt::format("    {}: means of {:.5g} to {:.5g}, {:.0f} % of the variance\n",
                          table.sweep->axes[effect.axis].name, effect.low, effect.high, 100 * effect.share);
    }
  }
  std::size_t shown = 0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    const auto& record = table.records[p];
    if (!record || record->state == PointState::done) continue;
    if (++shown <= kShownFailures) {
      text += fmt::format("  {} {}: {}: {}\n", points[p].number, points[p].text(*table.sweep), table.state(p),
                          record->reason);
    }
  }
  if (shown > kShownFailures) text += fmt::format("  and {} more, listed in table.csv\n", shown - kShownFailures);
  return text;
}

}  // namespace heddle::sweep
