#include "scenario/parameters.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/expression.h"

namespace heddle::scenario {

using namespace program;
namespace {

constexpr const char* kExample = "as in: parameters: {lines: 16}, and then grid: ${4 * lines}";

class Parameters {
 public:
  explicit Parameters(const std::string& file) : file_(file) {}

  void read(const YAML::Node& list, std::map<std::string, std::string> settings) {
    if (!list.IsMap()) throw InputError(position(list, file_), "parameters: a map is expected", kExample);
    for (const auto& entry : list) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
      const SourcePos where = position(entry.first, file_);
      if (!usable_name(name)) {
        throw InputError(where, fmt::format("parameters: {} cannot be a name", kind_text(entry.first)), kExample);
      }
      if (values_.has(name)) throw InputError(where, fmt::format("parameter {} stands twice", name), kExample);
      if (!entry.second.IsScalar()) {
        throw InputError(position(entry.second, file_), fmt::format("parameter {}: a number is expected", name),
                         kExample);
      }
      const auto set = settings.find(name);
      values_.set(name, value_of(set == settings.end() ? entry.second.Scalar() : set->second, where));
      if (set != settings.end()) settings.erase(set);
    }
    if (!settings.empty()) refuse(settings.begin()->first);
  }

  [[noreturn]] void refuse(const std::string& name) const {
    throw InputError({file_, 0, 0}, fmt::format("--let {}: the scenario has no such parameter", name),
                     values_.empty() ? kExample : suggestion(name, values_.known()));
  }

  void put_into(YAML::Node node) {
    if (node.IsMap()) {
      for (auto entry : node) put_into(entry.second);
    } else if (node.IsSequence()) {
      for (auto item : node) put_into(item);
    } else if (node.IsScalar() && node.Scalar().find("${") != std::string::npos) {
      node = replaced(node.Scalar(), position(node, file_));
    }
  }

 private:
  double value_of(const std::string& text, const SourcePos& where) {
    ExpressionSlots slots;
    return Expression(text, where, values_, slots).value();
  }

  std::string replaced(const std::string& text, const SourcePos& where) {
    std::string result;
    std::size_t from = 0;
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", from)) {
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) throw InputError(where, fmt::format("{}: the }} is missing", text), kExample);
      const std::string number = number_text(value_of(text.substr(at + 2, end - at - 2), where));
      const bool alone = at == 0 && end + 1 == text.size();
      result += text.substr(from, at - from) + (number.front() == '-' && !alone ? "(" + number + ")" : number);
      from = end + 1;
    }
    return result + text.substr(from);
  }

  const std::string& file_;
  NameTable values_;
};

std::map<std::string, std::string> by_name(const std::vector<std::string>& settings) {
  std::map<std::string, std::string> result;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == setting.size()) {
      throw InputError(fmt::format("--let {}: expected NAME=NUMBER", setting), "as in: --let lines=16");
    }
    result[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return result;
}

}  // namespace

void apply_parameters(YAML::Node& root, const std::vector<std::string>& settings, const std::string& file) {
  Parameters parameters(file);
  const bool has = root.IsMap() && root["parameters"].IsDefined();
  if (!has && !settings.empty()) parameters.refuse(by_name(settings).begin()->first);
  if (!has) return;
  parameters.read(root["parameters"], by_name(settings));
  root.remove("parameters");
  parameters.put_into(root);
}

}  // namespace heddle::scenario
