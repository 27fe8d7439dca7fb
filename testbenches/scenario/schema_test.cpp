// docs/scenario.schema.json, which editors use, says what the reader's table says.
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/yaml_util.h"
#include "program/step_table.h"
#include "scenario/scenario_schema.h"

namespace scenario_schema_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using nlohmann::json;

namespace {

// The JSON types that a definition allows, through alternatives and references.
void collect_types(const json& root, const json& definition, std::set<std::string>& types) {
  if (definition.contains("$ref")) {
    const auto path = definition["$ref"].get<std::string>();
    collect_types(root, root.at(json::json_pointer(path.substr(1))), types);
  }
  if (definition.contains("anyOf")) {
    for (const json& option : definition["anyOf"]) collect_types(root, option, types);
  }
  if (!definition.contains("type")) return;
  const json& type = definition["type"];
  if (type.is_string()) {
    types.insert(type.get<std::string>());
  } else {
    for (const json& one : type) types.insert(one.get<std::string>());
  }
}

std::set<std::string> types_of(const KeySpec& key) {
  const unsigned kinds = key.kinds;
  std::set<std::string> types;
  // A name may look like a number: `stream: 7`.
  if ((kinds & kText) != 0) types.insert({"string", "number"});
  if ((kinds & kInteger) != 0) types.insert("integer");
  if ((kinds & kNumber) != 0) types.insert("number");
  if ((kinds & kQuantity) != 0) types.insert("string");
  // With parameters of the scenario in it, a number is a text: grid: ${2 * n}.
  if ((kinds & (kInteger | kNumber)) != 0 && key.form.json == nullptr) types.insert("string");
  if ((kinds & kFlag) != 0) types.insert("boolean");
  if ((kinds & kList) != 0) types.insert("array");
  if ((kinds & kMap) != 0) types.insert("object");
  return types;
}

}  // namespace

TEST_CASE("the published schema and the reader's table agree", "[workload][scenario]") {
  const json root = json::parse(read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.schema.json"));
  CHECK(root.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  CHECK(root.at("properties").at("heddle").at("const") == kScenarioVersion);
  // Beside the tables there are definitions of parameters.
  std::size_t tables = 1;
  for (const auto& [name, definition] : root.at("$defs").items()) {
    const bool parameters = name.find("_parameters") != std::string::npos || name == "config" || name == "sourced";
    if (!parameters) ++tables;
  }
  CHECK(tables == all_specs().size());
  for (const MapSpec* spec : all_specs()) {
    const std::string name = spec->name;
    INFO("map " << name);
    const json& definition = name == "scenario" ? root : root.at("$defs").at(name);
    CHECK(definition.at("type") == "object");
    CHECK(definition.at("additionalProperties") == false);
    std::set<std::string> keys;
    std::set<std::string> required;
    for (const KeySpec& key : spec->keys) {
      INFO("key " << key.name);
      keys.insert(key.name);
      if (key.required) required.insert(key.name);
      REQUIRE(definition.at("properties").contains(key.name));
      const json& property = definition["properties"][key.name];
      CHECK(property.at("description") == key.meaning);
      std::set<std::string> types;
      collect_types(root, property, types);
      CHECK(types == types_of(key));
    }
    CHECK(definition["properties"].size() == keys.size());
    CHECK(definition.at("required").get<std::set<std::string>>() == required);
  }
}

TEST_CASE("every table that another one names exists", "[workload][scenario]") {
  std::set<std::string> names{"config", "links_parameters"};  // of parameters
  for (const MapSpec* spec : all_specs()) CHECK(names.insert(spec->name).second);
  for (const MapSpec* spec : all_specs()) {
    for (const KeySpec& key : spec->keys) {
      INFO(spec->name << ", " << key.name);
      if (key.form.map != nullptr) CHECK(names.count(key.form.map) == 1);
      if (key.form.items == nullptr) continue;
      for (const std::string& table : words_of(key.form.items)) CHECK(names.count(table) == 1);
    }
  }
}

TEST_CASE("every operation of warps has a step, and every step that is one operation its keys' operands",
          "[workload][scenario]") {
  std::set<arch::OpCode> written;
  for (const StepRow& row : step_rows()) {
    INFO("step " << row.name);
    CHECK(row.operands.size() == row.spec.keys.size());
    written.insert(row.code);
    if (row.handler != nullptr) continue;
    for (const Operand& operand : row.operands) CHECK(operand.target != Target::handled);
    const bool only_keys = (row.kinds & ~static_cast<unsigned>(kMap)) == 0;
    CHECK(only_keys == (row.value.target == Target::handled));
  }
  for (const arch::OperationRow& operation : arch::kOperations) {
    // The end of a program is no step, and an asynchronous matmul is one of matmul's.
    const bool own = operation.code != arch::OpCode::exit && operation.code != arch::OpCode::matmul_async;
    if (own) CHECK(written.count(operation.code) == 1);
  }
}

TEST_CASE("the table of steps in docs/scenario.md is the one of the program", "[workload][scenario]") {
  const std::string page = read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md");
  const std::string begin = "<!-- steps: begin -->\n";
  const std::size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find("<!-- steps: end -->", at);
  REQUIRE(end != std::string::npos);
  CHECK(page.substr(at + begin.size(), end - at - begin.size()) == steps_as_markdown());
}

}  // namespace scenario_schema_test
