#include "program/map_reader.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/yaml_util.h"

namespace heddle {
namespace {

std::string kinds_text(unsigned kinds) {
  std::vector<std::string> names;
  if ((kinds & kText) != 0) names.emplace_back("text");
  if ((kinds & kQuantity) != 0) {
    names.emplace_back("a number with unit");
  } else if ((kinds & kNumber) != 0) {
    names.emplace_back("a number");
  } else if ((kinds & kInteger) != 0) {
    names.emplace_back("an integer");
  }
  if ((kinds & kFlag) != 0) names.emplace_back("true or false");
  if ((kinds & kList) != 0) names.emplace_back("a list");
  if ((kinds & kMap) != 0) names.emplace_back("a map");
  return fmt::format("{}", fmt::join(names, " or "));
}

bool allowed(const YAML::Node& node, unsigned kinds) {
  if (node.IsMap()) return (kinds & kMap) != 0;
  if (node.IsSequence()) return (kinds & kList) != 0;
  return node.IsScalar() && (kinds & (kText | kInteger | kNumber | kQuantity | kFlag)) != 0;
}

}  // namespace

std::vector<std::string> words_of(const char* list) {
  std::istringstream stream(list);
  return {std::istream_iterator<std::string>(stream), {}};
}

MapReader::MapReader(const YAML::Node& node, const MapSpec& spec, std::string thing, const std::string& file,
                     const std::string& own)
    : map_(node), spec_(spec), thing_(std::move(thing)), file_(file) {
  std::vector<std::string> names;
  std::vector<std::string> required;
  for (const KeySpec& key : spec.keys) {
    names.emplace_back(key.name);
    if (key.required) required.push_back(fmt::format("{}: …", key.name));
  }
  if (!node.IsMap()) {
    throw InputError(where(), fmt::format("{}: a map is expected, found {}", thing_, kind_text(node)),
                     fmt::format("write {{{}}}", fmt::join(required, ", ")));
  }
  for (const auto& entry : node) {
    const std::string& name = entry.first.Scalar();
    if (!own.empty() && name == own) continue;
    const auto key = std::find_if(spec.keys.begin(), spec.keys.end(), [&](const KeySpec& k) { return name == k.name; });
    if (key == spec.keys.end()) {
      throw InputError(position(entry.first, file_), fmt::format("{}: unknown key \"{}\"", thing_, name),
                       suggestion(name, names));
    }
    if (!allowed(entry.second, key->kinds)) {
      fail(key->name, entry.second,
           fmt::format("{} is expected, found {}", kinds_text(key->kinds), kind_text(entry.second)));
    }
  }
  for (const KeySpec& key : spec.keys) {
    if (key.required && !has(key.name)) {
      throw InputError(where(), fmt::format("{}: the key \"{}\" is missing", thing_, key.name),
                       fmt::format("{}: {}", key.name, key.meaning));
    }
  }
}

bool MapReader::known(const char* key) const {
  return std::any_of(spec_.keys.begin(), spec_.keys.end(),
                     [&](const KeySpec& one) { return std::strcmp(one.name, key) == 0; });
}

const KeySpec& MapReader::spec_of(const char* key) const {
  const auto found = std::find_if(spec_.keys.begin(), spec_.keys.end(),
                                  [&](const KeySpec& k) { return std::strcmp(k.name, key) == 0; });
  HEDDLE_CHECK(found != spec_.keys.end(), std::string("the schema lacks the key ") + key);
  return *found;
}

bool MapReader::has(const char* key) const {
  spec_of(key);  // a key that the table lacks can never be present: our mistake, not the user's
  return map_[key].IsDefined();
}

YAML::Node MapReader::node(const char* key) const {
  HEDDLE_CHECK(has(key), std::string("reading a key that is absent: ") + key);
  return map_[key];
}

SourcePos MapReader::where() const { return position(map_, file_); }
SourcePos MapReader::where(const char* key) const { return position(node(key), file_); }

void MapReader::fail(const char* key, const YAML::Node& item, const std::string& message) const {
  const KeySpec& spec = spec_of(key);
  throw InputError(position(item, file_), fmt::format("{}, {}: {}", thing_, key, message),
                   fmt::format("{}: {}", key, spec.meaning));
}

void MapReader::fail(const char* key, const std::string& message) const { fail(key, node(key), message); }

void MapReader::fail_number(const char* key, const YAML::Node& item, const InputError& error,
                            const std::string& range) const {
  const KeySpec& spec = spec_of(key);
  // A remedy of its own is about units; the range would only be in its way.
  const std::string remedy = error.remedy().empty() ? fmt::format("{}: {} (allowed: {})", key, spec.meaning, range)
                                                    : fmt::format("{}: {}; {}", key, spec.meaning, error.remedy());
  // Whoever has no parameters gets the text as it stands.
  const bool named = item.IsScalar() && item.Scalar().find("${") != std::string::npos;
  throw InputError(
      position(item, file_), fmt::format("{}, {}: {}", thing_, key, error.message()),
      named ? "${…} stands for a parameter of the scenario, which has none; as in: parameters: {lines: 16}" : remedy);
}

const std::string& MapReader::scalar(const char* key, const YAML::Node& item) const {
  if (!item.IsScalar()) fail(key, item, fmt::format("a single value is expected, found {}", kind_text(item)));
  return item.Scalar();
}

std::string MapReader::text(const char* key) const { return scalar(key, node(key)); }

std::string MapReader::name(const char* key) const {
  std::string result = text(key);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (result.empty()) fail(key, "the name is empty");
  if (std::any_of(result.begin(), result.end(), control)) fail(key, "a name is one line of text");
  return result;
}

bool MapReader::flag(const char* key) const {
  bool result = false;
  if (!scalar(key, node(key)).empty() && YAML::convert<bool>::decode(node(key), result)) return result;
  fail(key, fmt::format("true or false is expected, found {}", kind_text(node(key))));
}

std::uint32_t MapReader::count(const char* key) const {
  const Form& form = spec_of(key).form;
  HEDDLE_CHECK(form.min >= 0 && form.max <= std::numeric_limits<std::uint32_t>::max(),
               std::string("the schema has no bounds for the key ") + key);
  return number<std::uint32_t>(
      key, {Unit::count, static_cast<std::uint32_t>(form.min), static_cast<std::uint32_t>(form.max)});
}

std::string MapReader::choice(const char* key) const {
  const char* list = spec_of(key).form.words;
  HEDDLE_CHECK(list != nullptr, std::string("the schema has no words for the key ") + key);
  const std::vector<std::string> names = words_of(list);
  std::string word = text(key);
  if (std::find(names.begin(), names.end(), word) == names.end()) {
    throw InputError(where(key), fmt::format("{}, {}: {} is not possible here", thing_, key, word),
                     suggestion(word, names));
  }
  return word;
}

std::vector<YAML::Node> MapReader::items(const char* key) const {
  const YAML::Node value = node(key);
  if (!value.IsSequence()) return {value};
  return {value.begin(), value.end()};
}

}  // namespace heddle
