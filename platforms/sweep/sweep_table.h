// The results of a sweep as a table: one row per point. As CSV, as SQLite, as data of the page, as text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweep/point_record.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_plan.h"

namespace heddle::sweep {

struct FigureColumn {
  std::string name;
  std::string unit;
  Better better = Better::unknown;
};

struct SweepTable {
  const Sweep* sweep = nullptr;
  const std::vector<Point>* points = nullptr;
  std::vector<std::optional<PointRecord>> records;  // one per point; absent: it has not been run
  std::vector<FigureColumn> figures;

  std::optional<double> value(std::size_t point, std::size_t figure) const;
  // "done", "failed", … or "not run".
  std::string state(std::size_t point) const;
  std::size_t with_state(PointState state) const;
  std::size_t missing() const;
};

// Columns of the figures that the file names, or else of all that the records have.
SweepTable table_of(const Sweep& sweep, const std::vector<Point>& points,
                    std::vector<std::optional<PointRecord>> records);

// Columns: point, one per axis, one per figure, status, exit, reason, folder (RFC 4180; no value: empty). The same
// points come to the same bytes, wherever and in whatever order they have run.
std::string csv_of(const SweepTable& table);
// What depends on the computers instead: point, seconds of wall time that its run took.
std::string host_csv_of(const SweepTable& table);
// A database with the table `points` of the same columns, `host` with those of host_csv_of(), and `axes` and `figures`,
// which say what the columns are; and `kernels`, with the columns of kernels.csv behind the number of the point, of
// points whose results are there: below the folder of the file. A file that is there is replaced. Throws InputError if
// it cannot be written.
void write_sqlite(const SweepTable& table, const std::filesystem::path& file);

// How much an axis moves a figure: the mean of the figure over all points that share a value of the axis, for every
// value. Values of a number that has more than kMostGroups are put into as many groups of equal size.
constexpr std::size_t kMostGroups = 8;
struct MainEffect {
  struct Group {
    std::string label;
    double mean = 0;
    std::size_t points = 0;
  };
  std::size_t axis = 0;
  std::vector<Group> groups;  // in the order of the axis
  double low = 0, high = 0;   // the least and the greatest mean
  double share = 0;           // of the figure's variance that the groups explain, 0 … 1
};
// Of all axes with two groups or more, the one that explains most first. Empty if the figure is constant.
std::vector<MainEffect> main_effects(const SweepTable& table, std::size_t figure);

// As report/report_page.h describes it.
nlohmann::json sweep_page_data(const SweepTable& table, const std::string& command);

// What the program prints at the end: best points, what moves the figures, failures.
std::string summary_text(const SweepTable& table);

}  // namespace heddle::sweep
