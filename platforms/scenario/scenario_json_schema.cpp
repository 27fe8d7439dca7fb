// The JSON schema of scenarios, from the tables that the reader checks files against.
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "program/step_table.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNumberPattern = R"(^[0-9.]+(e[0-9+-]+)?\s*)";

Json text_schema() { return {{"type", {"string", "number"}}}; }  // a name may look like a number: `stream: 7`

Json reference(const std::string& table) { return {{"$ref", "#/$defs/" + table}}; }

Json one_of_words(const std::vector<std::string>& list) {
  Json schema = text_schema();
  for (const std::string& word : list) schema["enum"].push_back(word);
  // A word that is a number may be written without quotes.
  for (const std::string& word : list) {
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) schema["enum"].push_back(std::atoi(word.c_str()));
  }
  return schema;
}

// A value with parameters of the scenario in it.
Json computed() { return {{"type", "string"}, {"pattern", R"(\$\{.*\})"}}; }

Json quantity_schema(Measure measure) {
  const auto unit = [measure]() -> const char* {
    switch (measure) {
      case Measure::bytes:
        return "(B|bytes?|KiB|MiB|GiB)$";
      case Measure::cycles:
        return "cycles?$";
      case Measure::time:
        return "(ps|ns|us|µs|ms|s)$";
      case Measure::percent:
        return "(%|percent)$";
      default:
        return "[A-Za-zµ%/]+$";
    }
  };
  return {{"type", "string"}, {"pattern", std::string(kNumberPattern) + unit()}};
}

void add_bounds(const Form& form, Json& schema) {
  if (form.min != Form::kAny) schema["minimum"] = form.min;
  if (form.max != Form::kAny) schema["maximum"] = form.max;
  if (form.multiple != 1) schema["multipleOf"] = form.multiple;
}

Json number_schema(const char* type, const Form& form) {
  Json schema{{"type", type}};
  // A time without a unit means nothing but now.
  if (form.measure == Measure::time) return {{"type", type}, {"const", 0}};
  add_bounds(form, schema);
  return schema;
}

class SchemaWriter {
 public:
  explicit SchemaWriter(const std::vector<std::string>& presets) : presets_(presets) {}

  Json table(const MapSpec& spec) const {
    Json required = Json::array();
    Json properties = Json::object();
    for (const KeySpec& key : spec.keys) {
      if (key.required) required.push_back(key.name);
      Json property{{"description", key.meaning}};
      property.update(value(key));
      properties[key.name] = std::move(property);
    }
    Json schema{{"type", "object"}, {"additionalProperties", false}, {"required", std::move(required)}};
    if (spec.rules != nullptr) schema.update(Json::parse(spec.rules));
    schema["properties"] = std::move(properties);
    return schema;
  }

 private:
  Json text(const Form& form) const {
    if (form.words != nullptr) return one_of_words(words_of(form.words));
    if (!form.preset) return text_schema();
    return {{"anyOf", {{{"enum", presets_}}, text_schema()}}};
  }

  Json items(const KeySpec& key) const {
    if (key.form.items == nullptr) {
      if (key.form.preset) return {{"anyOf", {text(key.form), reference("gpu")}}};
      if ((key.kinds & kText) != 0) return text_schema();
      Json item{{"type", "integer"}};
      add_bounds(key.form, item);
      return {{"anyOf", {std::move(item), computed()}}};
    }
    const std::vector<std::string> tables = words_of(key.form.items);
    if (tables.front() == "step") return {{"anyOf", {{{"enum", step_words()}}, reference("step")}}};
    if (tables.size() == 1) return reference(tables.front());
    Json options = Json::array();
    for (const std::string& table : tables) options.push_back(reference(table));
    return {{"oneOf", std::move(options)}};
  }

  Json list(const KeySpec& key) const {
    Json schema{{"type", "array"}};
    if (key.form.least != 0) schema["minItems"] = key.form.least;
    if (key.form.most != 0) schema["maxItems"] = key.form.most;
    if (key.form.unique) schema["uniqueItems"] = true;
    schema["items"] = items(key);
    return schema;
  }

  Json value(const KeySpec& key) const {
    const Form& form = key.form;
    if (form.json != nullptr) return Json::parse(form.json);
    std::vector<Json> options;
    if ((key.kinds & kText) != 0) options.push_back(text(form));
    if ((key.kinds & kText) == 0 && (key.kinds & (kInteger | kNumber | kQuantity)) != 0) options.push_back(computed());
    if ((key.kinds & kInteger) != 0) options.push_back(number_schema("integer", form));
    if ((key.kinds & kNumber) != 0) options.push_back(number_schema("number", form));
    if ((key.kinds & kQuantity) != 0) options.push_back(quantity_schema(form.measure));
    if ((key.kinds & kFlag) != 0) options.push_back({{"type", "boolean"}});
    if ((key.kinds & kList) != 0) options.push_back(list(key));
    if ((key.kinds & kMap) != 0)
      options.push_back(form.map != nullptr ? reference(form.map) : Json{{"type", "object"}});
    if (options.size() == 1) return options.front();
    return {{"anyOf", std::move(options)}};
  }

  const std::vector<std::string>& presets_;
};

// What a parameter may be; "1 to 100 cycles", "at least 1" are its range.
Json parameter_schema(const ParamEntry& entry) {
  const auto number = [](const std::string& text) {
    return Json::parse(text.substr(0, text.find(' ')), nullptr, false);
  };
  Json own;
  if (entry.type == "bool") {
    own = {{"type", "boolean"}};
  } else if (entry.type == "choice") {
    own = {{"enum", Json::array()}};
    std::string list = entry.range;
    for (std::size_t end = 0; !list.empty(); list.erase(0, end)) {
      end = list.find(", ");
      own["enum"].push_back(list.substr(0, end));
      end = end == std::string::npos ? list.size() : end + 2;
    }
  } else if (entry.type == "integer" || entry.type == "number") {
    own = {{"type", entry.type}};
    const std::size_t to = entry.range.find(" to ");
    Json least = to != std::string::npos ? number(entry.range) : Json();
    Json most = to != std::string::npos ? number(entry.range.substr(to + 4)) : Json();
    if (entry.range.rfind("at least ", 0) == 0) least = number(entry.range.substr(9));
    if (entry.range.rfind("at most ", 0) == 0) most = number(entry.range.substr(8));
    if (least.is_number()) own["minimum"] = std::move(least);
    if (most.is_number()) own["maximum"] = std::move(most);
    if (!unit_text(entry.unit).empty()) own = {{"anyOf", {std::move(own), quantity_schema(Measure::none)}}};
  } else if (entry.type == "text") {
    own = text_schema();
  } else {
    return Json::object();  // a type of its own: `heddle show params` says what it is
  }
  Json options = own.contains("anyOf") ? own["anyOf"] : Json::array({own});
  options.push_back(reference("sourced"));
  return {{"anyOf", std::move(options)}};
}

void add_parameter(const ParamEntry& entry, Json& definitions) {
  std::size_t end = entry.path.find('.');
  const std::string root = entry.path.substr(0, end) + "_parameters";
  const auto group = [] {
    return Json{{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  };
  if (!definitions.contains(root)) definitions[root] = group();
  Json* place = &definitions[root]["properties"];
  std::string rest = entry.path.substr(end + 1);
  for (end = rest.find('.'); end != std::string::npos; end = rest.find('.')) {
    const std::string name = rest.substr(0, end);
    if (!place->contains(name)) (*place)[name] = group();
    place = &(*place)[name]["properties"];
    rest.erase(0, end + 1);
  }
  const std::string unit(unit_text(entry.unit));
  Json property{{"description", fmt::format("{}; {}; range {}; default {}{}", entry.description, entry.type,
                                            entry.range, entry.default_text, unit.empty() ? "" : " " + unit)}};
  property.update(parameter_schema(entry));
  (*place)[rest] = std::move(property);
}

}  // namespace

std::string scenario_json_schema(const std::vector<std::string>& presets, const std::vector<ParamEntry>& machine,
                                 const std::vector<ParamEntry>& run) {
  const SchemaWriter writer(presets);
  Json root{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
            {"$id", fmt::format("heddle-scenario-{}", kScenarioVersion)},
            {"title", fmt::format("Heddle scenario, format version {}", kScenarioVersion)},
            {"description",
             "Written by `heddle show scenario-schema` from the tables that the reader checks files against."}};
  root.update(writer.table(scenario_spec()));
  Json definitions = Json::object();
  for (const MapSpec* spec : all_specs()) {
    if (spec != &scenario_spec()) definitions[spec->name] = writer.table(*spec);
  }
  for (const ParamEntry& entry : machine) add_parameter(entry, definitions);
  for (const ParamEntry& entry : run) add_parameter(entry, definitions);
  Json config{{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const auto& [name, definition] : definitions.items()) {
    const std::size_t suffix = name.find("_parameters");
    if (suffix != std::string::npos) config["properties"][name.substr(0, suffix)] = reference(name);
  }
  config["patternProperties"] = {{"^gpu[0-9]+$", reference("gpu_parameters")}};
  definitions["config"] = std::move(config);
  definitions["sourced"] = {{"type", "object"},
                            {"description", "a value, and where it comes from"},
                            {"additionalProperties", false},
                            {"required", {"value"}},
                            {"properties", {{"value", Json::object()}, {"source", {{"type", "string"}}}}}};
  root["$defs"] = std::move(definitions);
  return root.dump(1) + "\n";
}

}  // namespace heddle::scenario
