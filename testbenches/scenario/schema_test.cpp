// docs/scenario.schema.json, which editors use, says what the reader's table says.
#include "scenario/schema.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/yaml_util.h"

using namespace heddle;
using namespace heddle::workload;
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

std::set<std::string> types_of(unsigned kinds) {
  std::set<std::string> types;
  // A name may look like a number: `stream: 7`.
  if ((kinds & kText) != 0) types.insert({"string", "number"});
  if ((kinds & kInteger) != 0) types.insert("integer");
  if ((kinds & kNumber) != 0) types.insert("number");
  if ((kinds & kQuantity) != 0) types.insert("string");
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
  CHECK(root.at("$defs").size() + 1 == all_specs().size());
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
      CHECK(types == types_of(key.kinds));
    }
    CHECK(definition["properties"].size() == keys.size());
    CHECK(definition.at("required").get<std::set<std::string>>() == required);
  }
}
