// The description of a block's parameters: a plain struct, and a table of what each member means.
//
//   struct CwdParams {
//     std::uint32_t session_cycles = 8;
//     LevelSearch level_search = LevelSearch::scan;
//     static void describe(ParamTable<CwdParams>& t) {
//       t.add("session_cycles", &CwdParams::session_cycles, {Unit::cycles, 1, 10000}, "cycles from …", "assumption");
//       t.add_choice("level_search", &CwdParams::level_search,
//                    {{"scan", LevelSearch::scan}, {"bisection", LevelSearch::bisection}}, "how …", "CWD-07");
//     }
//   };
//
// Defaults are the member initialisers and are written nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"

namespace heddle {

// How a type of its own (a machine shape, say) is read and written. Specialise it next to the type:
//   static constexpr const char* kType = "shape";          what `heddle show params` calls the type
//   static constexpr const char* kRange = "nested lists";  what is allowed, in words
//   static T parse(const YAML::Node& node, const SourcePos& where);   throws InputError
//   static YAML::Node format(const T& value);                         parse(format(x)) == x
// `where` is the place of `node`; position(inner, where.file) is that of a node inside it. The parameter's path is put
// in front of the message by the caller. A map with the key `value` is taken for {value: …, source: …}.
template <class T>
struct ParamTraits;

// One parameter, with its type erased: `block` is the struct that holds it.
struct ParamSpec {
  std::string name;  // relative to the block, e.g. "gpm.credits"
  std::string type;  // "integer", "number", "bool", "text", "choice", or ParamTraits<T>::kType
  Unit unit = Unit::none;
  std::string range;
  std::string description;
  std::string source;  // where the default comes from
  // Errors may come without a place; the binder adds place, path and range.
  std::function<void(void* block, const YAML::Node& node, const std::string& file)> read;
  std::function<void(const void* block, YAML::Emitter& out)> write;
};

namespace detail {

// The text of a scalar; throws InputError, without a place, for anything else. `wanted` reads like "an integer".
const std::string& scalar_text(const YAML::Node& node, const char* wanted);
bool parse_bool(const YAML::Node& node);
// Index of the node's text in `names`.
std::size_t parse_choice(const YAML::Node& node, const std::vector<std::string>& names);
std::string choice_range(const std::vector<std::string>& names);
void check_name(const std::string& name);

}  // namespace detail

template <class P>
class ParamTable {
 public:
  // Numbers. Members may be of any integer type, or double; bounds are inclusive and in the unit given.
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, int> = 0>
  ParamTable& add(std::string name, T P::*member, Limits<T> limits, std::string description, std::string source) {
    HEDDLE_CHECK(defaults_.*member >= limits.min && defaults_.*member <= limits.max,
                 "default of parameter " + name + " is out of its range");
    constexpr const char* kWanted = std::is_integral_v<T> ? "an integer" : "a number";
    ParamSpec& spec = append(std::move(name), std::is_integral_v<T> ? "integer" : "number", std::move(description),
                             std::move(source));
    spec.unit = limits.unit;
    spec.range = range_text(limits);
    spec.read = [member, limits](void* block, const YAML::Node& node, const std::string&) {
      static_cast<P*>(block)->*member = parse_quantity(detail::scalar_text(node, kWanted), limits);
    };
    spec.write = [member](const void* block, YAML::Emitter& out) {
      out << number_text(static_cast<const P*>(block)->*member);
    };
    return *this;
  }

  // bool, std::string, and types with ParamTraits.
  template <class T>
  ParamTable& add(std::string name, T P::*member, std::string description, std::string source) {
    if constexpr (std::is_same_v<T, bool>) {
      ParamSpec& spec = append(std::move(name), "bool", std::move(description), std::move(source));
      spec.range = "true, false";
      spec.read = [member](void* block, const YAML::Node& node, const std::string&) {
        static_cast<P*>(block)->*member = detail::parse_bool(node);
      };
      spec.write = [member](const void* block, YAML::Emitter& out) {
        out << (static_cast<const P*>(block)->*member ? "true" : "false");
      };
    } else if constexpr (std::is_same_v<T, std::string>) {
      ParamSpec& spec = append(std::move(name), "text", std::move(description), std::move(source));
      spec.range = "any text";
      spec.read = [member](void* block, const YAML::Node& node, const std::string&) {
        static_cast<P*>(block)->*member = detail::scalar_text(node, "text");
      };
      spec.write = [member](const void* block, YAML::Emitter& out) {
        emit_text(out, static_cast<const P*>(block)->*member);
      };
    } else {
      static_assert(!std::is_arithmetic_v<T>, "a number needs limits: {Unit::count, min, max}");
      ParamSpec& spec = append(std::move(name), ParamTraits<T>::kType, std::move(description), std::move(source));
      spec.range = ParamTraits<T>::kRange;
      spec.read = [member](void* block, const YAML::Node& node, const std::string& file) {
        static_cast<P*>(block)->*member = ParamTraits<T>::parse(node, position(node, file));
      };
      spec.write = [member](const void* block, YAML::Emitter& out) {
        YAML::Node node = ParamTraits<T>::format(static_cast<const P*>(block)->*member);
        // One line, so that show and dump stay readable; the root's style holds for all below it.
        if (!node.IsScalar()) node.SetStyle(YAML::EmitterStyle::Flow);
        out << node;
      };
    }
    return *this;
  }

  // One of several named values of an enumeration.
  template <class E, std::enable_if_t<std::is_enum_v<E>, int> = 0>
  ParamTable& add_choice(std::string name, E P::*member, std::vector<std::pair<std::string, E>> choices,
                         std::string description, std::string source) {
    std::vector<std::string> names;
    std::vector<E> values;
    for (auto& [text, value] : choices) {
      names.push_back(text);
      values.push_back(value);
    }
    HEDDLE_CHECK(std::find(values.begin(), values.end(), defaults_.*member) != values.end(),
                 "default of parameter " + name + " has no name");
    ParamSpec& spec = append(std::move(name), "choice", std::move(description), std::move(source));
    spec.range = detail::choice_range(names);
    spec.read = [member, names, values](void* block, const YAML::Node& node, const std::string&) {
      static_cast<P*>(block)->*member = values[detail::parse_choice(node, names)];
    };
    spec.write = [member, names, values](const void* block, YAML::Emitter& out) {
      const auto found = std::find(values.begin(), values.end(), static_cast<const P*>(block)->*member);
      HEDDLE_CHECK(found != values.end(), "a choice parameter holds a value without a name");
      emit_text(out, names[static_cast<std::size_t>(found - values.begin())]);
    };
    return *this;
  }

  // One of several texts.
  template <class S, std::enable_if_t<std::is_same_v<S, std::string>, int> = 0>
  ParamTable& add_choice(std::string name, S P::*member, std::vector<std::string> names, std::string description,
                         std::string source) {
    HEDDLE_CHECK(std::find(names.begin(), names.end(), defaults_.*member) != names.end(),
                 "default of parameter " + name + " is not one of its choices");
    ParamSpec& spec = append(std::move(name), "choice", std::move(description), std::move(source));
    spec.range = detail::choice_range(names);
    spec.read = [member, names](void* block, const YAML::Node& node, const std::string&) {
      static_cast<P*>(block)->*member = names[detail::parse_choice(node, names)];
    };
    spec.write = [member](const void* block, YAML::Emitter& out) {
      emit_text(out, static_cast<const P*>(block)->*member);
    };
    return *this;
  }

  // A struct inside the struct, with a describe() of its own: its parameters are named "<name>.<theirs>".
  template <class G>
  ParamTable& group(const std::string& name, G P::*member) {
    detail::check_name(name);
    ParamTable<G> table;
    G::describe(table);
    for (ParamSpec& inner : table.take()) {
      ParamSpec spec = inner;
      spec.name = name + "." + inner.name;
      spec.read = [member, read = inner.read](void* block, const YAML::Node& node, const std::string& file) {
        read(&(static_cast<P*>(block)->*member), node, file);
      };
      spec.write = [member, write = inner.write](const void* block, YAML::Emitter& out) {
        write(&(static_cast<const P*>(block)->*member), out);
      };
      specs_.push_back(std::move(spec));
    }
    return *this;
  }

  std::vector<ParamSpec> take() { return std::move(specs_); }

 private:
  ParamSpec& append(std::string name, std::string type, std::string description, std::string source) {
    detail::check_name(name);
    HEDDLE_CHECK(!description.empty() && !source.empty(), "parameter " + name + " lacks a description or a source");
    ParamSpec spec;
    spec.name = std::move(name);
    spec.type = std::move(type);
    spec.description = std::move(description);
    spec.source = std::move(source);
    specs_.push_back(std::move(spec));
    return specs_.back();
  }

  const P defaults_{};
  std::vector<ParamSpec> specs_;
};

// Parameters that are lists of whole numbers.
template <>
struct ParamTraits<std::vector<std::uint32_t>> {
  static constexpr const char* kType = "list";
  static constexpr const char* kRange = "a list of whole numbers, or []";
  static std::vector<std::uint32_t> parse(const YAML::Node& node, const SourcePos& where) {
    const char* remedy = "write it as [4, 4]";
    if (!node.IsSequence()) throw InputError(where, "not a list of whole numbers", remedy);
    std::vector<std::uint32_t> result;
    for (const YAML::Node& item : node) {
      try {
        result.push_back(item.as<std::uint32_t>());
      } catch (const YAML::Exception&) {
        throw InputError(position(item, where.file), "an item of the list is not a whole number from 0", remedy);
      }
    }
    return result;
  }
  static YAML::Node format(const std::vector<std::uint32_t>& value) {
    YAML::Node list(YAML::NodeType::Sequence);
    for (const std::uint32_t item : value) list.push_back(item);
    return list;
  }
};

}  // namespace heddle
