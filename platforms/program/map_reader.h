// Maps of a YAML file that are read against a table: which keys a map may have, of what kind each is, and what it
// means. The tables of scenarios are those of scenario/scenario_schema.h and, for programs, program/step_table.h.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/quantity.h"

namespace heddle {

// Kinds of values; a key may allow several.
enum Kind : unsigned {
  kText = 1,      // any scalar
  kInteger = 2,   // a whole number
  kNumber = 4,    // a number
  kQuantity = 8,  // a number with a unit: "10 us"
  kList = 16,
  kMap = 32,
  kFlag = 64,  // true or false
};

enum class Measure : std::uint8_t { none, bytes, cycles, time, percent };

// What a value may be beyond its kind. The JSON schema says so to editors; MapReader::choice() uses the words, and all
// other limits are those of whoever reads the key.
struct Form {
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::min();

  const char* words = nullptr;  // the texts that it may be, with blanks between them
  std::int64_t min = kAny;      // of a number, and of the numbers of a list
  std::int64_t max = kAny;
  std::int64_t multiple = 1;
  Measure measure = Measure::none;  // of a quantity
  std::uint32_t least = 0;          // items of a list
  std::uint32_t most = 0;           // 0: any number
  bool unique = false;              // items
  const char* items = nullptr;      // names of the tables of which one describes an item, with blanks between them
  const char* map = nullptr;        // name of the table that describes a map
  bool preset = false;              // the name of a machine that comes with the program, or another text
  const char* json = nullptr;       // JSON schema of the value, in place of all that

  constexpr Form list(std::uint32_t at_least, std::uint32_t at_most = 0) const {
    Form form = *this;
    form.least = at_least;
    form.most = at_most;
    return form;
  }
  constexpr Form distinct() const {
    Form form = *this;
    form.unique = true;
    return form;
  }
  constexpr Form or_map(const char* table) const {
    Form form = *this;
    form.map = table;
    return form;
  }
};
constexpr Form words(const char* list) {
  Form form;
  form.words = list;
  return form;
}
constexpr Form between(std::int64_t min, std::int64_t max, std::int64_t multiple = 1) {
  Form form;
  form.min = min;
  form.max = max;
  form.multiple = multiple;
  return form;
}
constexpr Form at_least(std::int64_t min) { return between(min, Form::kAny); }
constexpr Form measured(Measure measure, std::int64_t min = Form::kAny, std::int64_t max = Form::kAny) {
  Form form = between(min, max);
  form.measure = measure;
  return form;
}
constexpr Form items(std::uint32_t at_least, std::uint32_t at_most = 0) { return Form{}.list(at_least, at_most); }
constexpr Form list_of(const char* tables, std::uint32_t at_least = 0, std::uint32_t at_most = 0) {
  Form form = items(at_least, at_most);
  form.items = tables;
  return form;
}
constexpr Form map_of(const char* table) { return Form{}.or_map(table); }
constexpr Form json_schema(const char* text) {
  Form form;
  form.json = text;
  return form;
}

struct KeySpec {
  const char* name;
  bool required;
  unsigned kinds;
  const char* meaning;  // one line; begins with what to write
  Form form = {};
};

struct MapSpec {
  std::string name;  // in the JSON schema: the root ("scenario") or a definition
  std::vector<KeySpec> keys;
  const char* rules = nullptr;  // what holds between keys, as keywords of JSON schema: {"minProperties": 1}
};

// The words of a text, as Form has them.
std::vector<std::string> words_of(const char* list);

// A map of the file that has passed the check against its table. All errors are InputErrors that name file, line, the
// thing being read ("kernel gemm"), the key, and what the key means.
class MapReader {
 public:
  // Throws for a node that is no map, for unknown keys, for values of a wrong kind and for missing required keys.
  // `thing`: what messages call the map. `own`: a key of the author's beside those of the table, which is not read.
  // `spec` and `file` must outlive the reader.
  MapReader(const YAML::Node& node, const MapSpec& spec, std::string thing, const std::string& file,
            const std::string& own = {});

  bool has(const char* key) const;
  // Whether the table has the key.
  bool known(const char* key) const;
  YAML::Node node(const char* key) const;
  SourcePos where() const;
  SourcePos where(const char* key) const;
  const std::string& thing() const { return thing_; }

  // Text that is not empty, of one line.
  std::string name(const char* key) const;
  std::string text(const char* key) const;
  // True or false, in the words of YAML.
  bool flag(const char* key) const;
  // The one of the words of the key's table that stands there.
  std::string choice(const char* key) const;

  // A whole number within the bounds of the key's table.
  std::uint32_t count(const char* key) const;

  template <class T>
  T number(const char* key, const Limits<T>& limits, BareNumber bare = BareNumber::in_own_unit) const {
    return number(key, node(key), limits, bare);
  }
  // An item of the list behind `key`, as a number.
  template <class T>
  T number(const char* key, const YAML::Node& item, const Limits<T>& limits,
           BareNumber bare = BareNumber::in_own_unit) const {
    try {
      return parse_quantity(scalar(key, item), limits, bare);
    } catch (const InputError& error) {
      fail_number(key, item, error, range_text(limits));
    }
  }

  // The value, or the items of the list, behind `key`.
  std::vector<YAML::Node> items(const char* key) const;

  // Throws: what is wrong with the value of `key` (or with an item of it).
  [[noreturn]] void fail(const char* key, const std::string& message) const;
  [[noreturn]] void fail(const char* key, const YAML::Node& item, const std::string& message) const;

 private:
  const KeySpec& spec_of(const char* key) const;
  const std::string& scalar(const char* key, const YAML::Node& item) const;
  [[noreturn]] void fail_number(const char* key, const YAML::Node& item, const InputError& error,
                                const std::string& range) const;

  YAML::Node map_;
  const MapSpec& spec_;
  std::string thing_;
  const std::string& file_;
};

// The one of the options that the text names; throws InputError if it is none.
template <class T, class NameOf>
T choose(const MapReader& map, const char* key, const std::vector<T>& options, NameOf name_of) {
  const std::string text = map.text(key);
  std::vector<std::string> names;
  for (const T& option : options) {
    if (text == name_of(option)) return option;
    names.emplace_back(name_of(option));
  }
  throw InputError(map.where(key), fmt::format("{}, {}: {} is not possible here", map.thing(), key, text),
                   suggestion(text, names));
}
template <class T>
T choose(const MapReader& map, const char* key, const std::vector<T>& options, const char* (*name_of)(T)) {
  return choose(map, key, options, [name_of](const T& option) { return name_of(option); });
}

// The value of an enumeration that the word behind `key` names: one of the words of the key's table. `name_of` knows
// every value up to `last`.
template <class T>
T chosen(const MapReader& map, const char* key, T last, const char* (*name_of)(T)) {
  const std::string word = map.choice(key);
  for (unsigned value = 0; value <= static_cast<unsigned>(last); ++value) {
    if (word == name_of(static_cast<T>(value))) return static_cast<T>(value);
  }
  HEDDLE_CHECK(false, std::string("a word of the key ") + key + " that nothing is called");
  return last;
}

}  // namespace heddle
