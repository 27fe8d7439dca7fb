// The table of a sweep: the same rows in every form, and what moves its figures.
#include "sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sqlite3.h>

#include "support/random.h"
#include "sweep/sweep_lab.h"

namespace sweep_table_test {

using namespace heddle;
using namespace heddle::test;
namespace fs = std::filesystem;
using sweep::PointRecord;
using sweep::PointState;
using sweep::SweepTable;

namespace {

constexpr const char* kSweep = R"(sweep: 1
axes:
  - {set: a.x, values: [1, 2, 3]}
  - {set: a.kind, values: ["plain", "with, comma"]}
figures:
  - {name: time, stat: sim.time, better: less, unit: us}
  - {name: 'a "b"', stat: s}
)";

// A sweep, its points, and records whose figure `time` is what the function says.
struct Lab {
  template <class F>
  Lab(const std::string& text, F time) : sweep(sweep_of(folder, text)), points(plan_of(sweep)) {
    std::vector<std::optional<PointRecord>> records;
    for (const sweep::Point& point : points) {
      records.emplace_back();
      records.back().emplace();
      records.back()->figures["time"] = {time(point), "us", ""};
      records.back()->seconds = 0.5;
    }
    table = table_of(sweep, points, std::move(records));
  }

  TempDir folder;
  sweep::Sweep sweep;
  std::vector<sweep::Point> points;
  SweepTable table;
};

std::string query(const std::string& file, const std::string& sql) {
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open_v2(file.c_str(), &connection, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  std::string rows;
  const auto row = [](void* into, int count, char** values, char**) {
    for (int i = 0; i < count; ++i) {
      static_cast<std::string*>(into)->append(i == 0 ? "" : "|").append(values[i] == nullptr ? "NULL" : values[i]);
    }
    static_cast<std::string*>(into)->append("\n");
    return 0;
  };
  const int status = sqlite3_exec(connection, sql.c_str(), row, &rows, nullptr);
  INFO(sqlite3_errmsg(connection));
  CHECK(status == SQLITE_OK);
  sqlite3_close(connection);
  return rows;
}

double x_of(const sweep::Point& point) { return *point.values[0].number; }

}  // namespace

TEST_CASE("CSV and SQLite hold the same rows", "[sweep][SWP-08]") {
  Lab lab(kSweep, [](const sweep::Point& point) { return 10.0 * static_cast<double>(point.number); });
  lab.table.records[1]->state = PointState::bad_input;
  lab.table.records[1]->exit = 2;
  lab.table.records[1]->reason = "line one\nsaid \"no\"";
  lab.table.records[1]->figures.clear();
  lab.table.records[2].reset();
  lab.table.records[3]->figures["a \"b\""] = {0.1, "things", ""};
  const std::string csv = csv_of(lab.table);
  const auto folder = [&](std::size_t point) { return lab.points[point].folder; };
  CHECK(csv ==
        "point,x,kind,time,\"a \"\"b\"\"\",status,exit,reason,folder\n"
        "1,1,plain,10,,done,0,," +
            folder(0) +
            "\n"
            "2,1,\"with, comma\",,,bad input,2,\"line one\nsaid \"\"no\"\"\"," +
            folder(1) +
            "\n"
            "3,2,plain,,,not run,,," +
            folder(2) +
            "\n"
            "4,2,\"with, comma\",40,0.1,done,0,," +
            folder(3) +
            "\n"
            "5,3,plain,50,,done,0,," +
            folder(4) +
            "\n"
            "6,3,\"with, comma\",60,,done,0,," +
            folder(5) + "\n");
  const std::string file = lab.folder.file("t.sqlite");
  write_sqlite(lab.table, file);
  write_sqlite(lab.table, file);  // in place of the first
  CHECK(query(file, "SELECT point, x, kind, time, \"a \"\"b\"\"\", status, exit, reason FROM points") ==
        "1|1.0|plain|10.0|NULL|done|0|\n"
        "2|1.0|with, comma|NULL|NULL|bad input|2|line one\nsaid \"no\"\n"
        "3|2.0|plain|NULL|NULL|not run|NULL|NULL\n"
        "4|2.0|with, comma|40.0|0.1|done|0|\n"
        "5|3.0|plain|50.0|NULL|done|0|\n"
        "6|3.0|with, comma|60.0|NULL|done|0|\n");
  CHECK(host_csv_of(lab.table) == "point,seconds\n1,0.500\n2,0.500\n4,0.500\n5,0.500\n6,0.500\n");
  CHECK(query(file, "SELECT * FROM host WHERE point < 4") == "1|0.5\n2|0.5\n");
  CHECK(query(file, "SELECT * FROM axes") == "x|--set a.x|\nkind|--set a.kind|\n");
  CHECK(query(file, "SELECT * FROM figures") == "time|us|less\na \"b\"||\n");
  CHECK_THROWS_WITH(write_sqlite(lab.table, lab.folder.file("none/t.sqlite")), Catch::Contains("cannot be written"));
}

TEST_CASE("the database has the launches of all points", "[sweep][SWP-11]") {
  Lab lab(kSweep, [](const sweep::Point& point) { return static_cast<double>(point.number); });
  const auto write = [&lab](std::size_t point, const std::string& text) {
    const fs::path folder = fs::path(lab.folder.file("")) / lab.points[point].folder;
    fs::create_directories(folder);
    std::ofstream(folder / "kernels.csv", std::ios::binary) << text;
  };
  const std::string file = lab.folder.file("t.sqlite");
  write_sqlite(lab.table, file);
  CHECK(query(file, "SELECT name FROM sqlite_master WHERE name = 'kernels'").empty());  // no point has kept its results
  write(0,
        "gpu,operation,name,start_ns,waits_ns\ngpu0,0,\"f<int, \"\"2\"\">\",1.500,free_slots=12.000\ngpu0,1,12,2,\n");
  write(2, "gpu,operation,start_ns,other\ngpu1,7,3e3,4\n");
  write(3, "gpu,operation,name,start_ns,waits_ns\ngpu0,0,g,1,\n");
  lab.table.records[3]->state = PointState::killed;  // what it has left is not the whole
  write_sqlite(lab.table, file);
  CHECK(query(file, "SELECT point, gpu, operation, name, start_ns, waits_ns FROM kernels") ==
        "1|gpu0|0|f<int, \"2\">|1.5|free_slots=12.000\n"
        "1|gpu0|1|12|2|NULL\n"
        "3|gpu1|7|NULL|3000|NULL\n");
  CHECK(query(file, "SELECT sum(start_ns), typeof(name) FROM kernels WHERE point = 1") == "3.5|text\n");
}

TEST_CASE("main effects are the means by value, and the variance that they explain", "[sweep][SWP-10]") {
  // y = 10 x + 3 k over a full grid: the parts of two independent terms add up to the whole.
  const auto kind = [](const sweep::Point& point) { return point.values[1].label == "plain" ? 0.0 : 1.0; };
  const Lab lab(kSweep, [&](const sweep::Point& point) { return 10 * x_of(point) + 3 * kind(point); });
  const std::vector<sweep::MainEffect> effects = main_effects(lab.table, 0);
  REQUIRE(effects.size() == 2);
  CHECK(effects[0].axis == 0);
  REQUIRE(effects[0].groups.size() == 3);
  CHECK(effects[0].groups[0].mean == Approx(11.5));
  CHECK(effects[0].groups[2].mean == Approx(31.5));
  CHECK(effects[0].groups[2].points == 2);
  CHECK(effects[0].low == Approx(11.5));
  CHECK(effects[0].high == Approx(31.5));
  CHECK(effects[1].groups[0].label == "plain");
  CHECK(effects[1].groups[1].mean == Approx(23));
  // Variance of 10 x over {1, 2, 3}: 100 * 2/3; of 3 k over {0, 1}: 9 / 4.
  CHECK(effects[0].share == Approx((200.0 / 3) / (200.0 / 3 + 2.25)));
  CHECK(effects[0].share + effects[1].share == Approx(1));
}

TEST_CASE("interplay of axes is nobody's main effect, and a constant has none", "[sweep][SWP-10]") {
  constexpr const char* kTwo = "sweep: 1\naxes:\n  - {set: a.x, values: [-1, 1]}\n  - {set: a.y, values: [-1, 1]}\n";
  const Lab product(kTwo, [](const sweep::Point& point) { return x_of(point) * *point.values[1].number; });
  for (const sweep::MainEffect& effect : main_effects(product.table, 0)) CHECK(effect.share == Approx(0).margin(1e-12));
  const Lab constant(kTwo, [](const sweep::Point&) { return 0.1; });
  CHECK(main_effects(constant.table, 0).empty());
}

TEST_CASE("numbers of samples are grouped by size", "[sweep][SWP-10]") {
  HEDDLE_RANDOM(random);
  const Lab lab(fmt::format("sweep: 1\naxes:\n  - {{set: a.x, from: 0, to: 1}}\n  - {{set: a.y, from: 0, to: 1}}\n"
                            "samples: {{points: 400, seed: {}}}\n",
                            random.below(1000)),
                [](const sweep::Point& point) { return x_of(point); });
  const std::vector<sweep::MainEffect> effects = main_effects(lab.table, 0);
  REQUIRE(effects.size() == 2);
  CHECK(effects[0].axis == 0);
  REQUIRE(effects[0].groups.size() == sweep::kMostGroups);
  std::size_t points = 0;
  for (std::size_t g = 0; g < effects[0].groups.size(); ++g) {
    points += effects[0].groups[g].points;
    if (g > 0) CHECK(effects[0].groups[g].mean > effects[0].groups[g - 1].mean);
  }
  CHECK(points == 400);
  CHECK(effects[0].share > 0.95);  // eight steps of a straight line: 1 - 1/64
  CHECK(effects[1].share < 0.1);
}

TEST_CASE("the page has the points, and what is said of them", "[sweep][SWP-08]") {
  Lab lab(kSweep, [](const sweep::Point& point) { return 10.0 * static_cast<double>(point.number); });
  lab.table.records[1]->state = PointState::limit;
  lab.table.records[1]->reason = "slow";
  lab.table.records[1]->figures.clear();
  lab.table.records[0]->figures["a \"b\""] = {std::nullopt, "", "the run has no statistic s"};
  const nlohmann::json data = sweep_page_data(lab.table, "heddle sweep s.yaml");
  CHECK(data.at("axes")[0].at("values") == nlohmann::json({1, 2, 3}));
  CHECK(data.at("axes")[1].at("values") == nlohmann::json({"plain", "with, comma"}));
  CHECK(data.at("figures")[0].at("better") == "less");
  REQUIRE(data.at("points").size() == 6);
  CHECK(data.at("points")[5].at("at") == nlohmann::json({3, "with, comma"}));
  CHECK(data.at("points")[5].at("values") == nlohmann::json({60, nullptr}));
  CHECK(data.at("points")[1].at("status") == "limit");
  CHECK(data.at("points")[1].at("reason") == "slow");
  CHECK(data.at("points")[1].at("values") == nlohmann::json({nullptr, nullptr}));
  CHECK(data.at("points")[0].at("without")[0].at("why") == "the run has no statistic s");
  const std::string text = summary_text(lab.table);
  CHECK(holds(text, "6 points, 5 done, 1 not well"));
  CHECK(holds(text, "time: 10 us at x=1 kind=plain, to 60 us at x=3 kind=with, comma"));
  CHECK(holds(text, "2 x=1 kind=with, comma: limit: slow"));
  CHECK(holds(text, "a \"b\": no point has it"));
}

}  // namespace sweep_table_test
