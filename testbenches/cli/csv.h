// The rows of ctas.csv.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace heddle::test {

using Row = std::map<std::string, std::string>;

// Names in the tests' scenarios have no commas.
inline std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  if (!line.empty() && line.back() == ',') fields.emplace_back();
  return fields;
}

inline std::vector<Row> rows_of(const std::string& csv) {
  std::istringstream in(csv);
  std::string line;
  std::getline(in, line);
  REQUIRE(line ==
          "task,x,y,z,cga,rank,gpc,cpc,tpc,sm,launch,first_instruction,end,kernel,gpu,cga_size,subcontext,parent,depth,"
          "stay,saved");
  const std::vector<std::string> names = fields_of(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = fields_of(line);
    REQUIRE(fields.size() == names.size());
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
  }
  return rows;
}

inline std::uint64_t number(const Row& row, const char* column) { return std::stoull(row.at(column)); }

inline std::vector<Row> dumped(const TempDir& dir, const std::string& file, const std::string& out = "out") {
  const Results results = run_well(dir, {file, "--dump", "ctas"}, out);
  return rows_of(read_file(results.file("ctas.csv")));
}

}  // namespace heddle::test
