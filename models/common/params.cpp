#include "common/params.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace heddle {
namespace {

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = path.find('.', begin);
    parts.push_back(path.substr(begin, dot - begin));
    if (dot == std::string::npos) return parts;
    begin = dot + 1;
  }
}

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

std::string value_text(const ParamSpec& spec, const void* block) {
  YAML::Emitter out;
  spec.write(block, out);
  return out.c_str();
}

// Comments in a dump are one line each, whatever a `source:` text held.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

constexpr const char* kShowParams = "`heddle show params` lists all parameters";

constexpr const char* kAll = "gpu";

std::string instance_key(std::size_t instance) { return fmt::format("{}{}", kAll, instance); }

bool names_an_instance(const std::string& key) {
  return key.size() > 3 && key.compare(0, 3, kAll) == 0 &&
         std::all_of(key.begin() + 3, key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

namespace detail {

const std::string& scalar_text(const YAML::Node& node, const char* wanted) {
  if (!node.IsScalar()) throw InputError(fmt::format("{} is expected, found {}", wanted, kind_text(node)));
  return node.Scalar();
}

bool parse_bool(const YAML::Node& node) {
  const std::string& text = scalar_text(node, "true or false");
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
    if (text == no) return false;
  }
  throw InputError(fmt::format("true or false is expected, found {}", kind_text(node)));
}

std::size_t parse_choice(const YAML::Node& node, const std::vector<std::string>& names) {
  const std::string& text = scalar_text(node, "one of the names below");
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    const std::string meant = nearest(text, names);
    throw InputError(fmt::format("{} is not one of the choices", kind_text(node)),
                     meant.empty() ? std::string() : fmt::format("did you mean {}?", meant));
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::string choice_range(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

void check_name(const std::string& name) {
  const bool valid = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  HEDDLE_CHECK(valid, "parameter names are snake_case without dots: " + name);
}

}  // namespace detail

struct ParamBinder::Bound {
  std::string path;
  ParamSpec spec;
  void* live = nullptr;
  std::string default_text;
  std::string value_source;
  Origin origin;
};

// A node of the tree that dots in paths make. Children keep their order of declaration.
struct ParamBinder::Group {
  struct Child {
    std::string name;
    std::unique_ptr<Group> group;  // null: a parameter
    std::size_t index = 0;         // into bound_
  };

  std::vector<Child> children;

  const Child* find(const std::string& name) const {
    const auto found = std::find_if(children.begin(), children.end(), [&](const Child& c) { return c.name == name; });
    return found == children.end() ? nullptr : &*found;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Child& child : children) result.push_back(child.name);
    return result;
  }
};

// Where the values of one call of apply() come from.
struct ParamBinder::Source {
  Origin origin;
  std::string file;  // for messages
};

ParamBinder::ParamBinder() : root_(std::make_unique<Group>()) {}
ParamBinder::~ParamBinder() = default;
ParamBinder::ParamBinder(ParamBinder&&) noexcept = default;
ParamBinder& ParamBinder::operator=(ParamBinder&&) noexcept = default;

void ParamBinder::attach(const std::string& prefix, std::vector<ParamSpec> specs, void* live, const void* defaults) {
  for (ParamSpec& spec : specs) {
    const std::string path = joined(prefix, spec.name);
    Group* group = root_.get();
    const std::vector<std::string> parts = split(path);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      detail::check_name(parts[i]);
      const Group::Child* child = group->find(parts[i]);
      if (child == nullptr) {
        group->children.push_back({parts[i], std::make_unique<Group>(), 0});
        child = &group->children.back();
      }
      HEDDLE_CHECK(child->group != nullptr, "a parameter and a group share the path " + path);
      group = child->group.get();
    }
    HEDDLE_CHECK(group->find(parts.back()) == nullptr, "two parameters share the path " + path);
    group->children.push_back({parts.back(), nullptr, bound_.size()});
    Bound bound;
    bound.path = path;
    bound.default_text = value_text(spec, defaults);
    bound.value_source = spec.source;
    bound.live = live;
    bound.spec = std::move(spec);
    bound_.push_back(std::move(bound));
  }
}

void ParamBinder::unknown(const Group& group, const std::string& key, const std::string& shown,
                          const SourcePos& where) const {
  std::vector<std::string> close = nearest_names(key, group.names());
  // A parameter of that very name in another block is what was meant more often than a misspelling.
  for (const Bound& bound : bound_) {
    const std::string last = bound.path.substr(bound.path.rfind('.') + 1);
    if (last == key && close.size() < 3) close.push_back(bound.path);
  }
  const std::string hint =
      close.empty() ? suggestion(key, group.names()) : fmt::format("did you mean {}?", fmt::join(close, ", "));
  throw InputError(where, fmt::format("unknown parameter {}", joined(shown, key)),
                   hint.empty() ? kShowParams : fmt::format("{} {}", hint, kShowParams));
}

void ParamBinder::apply(const YAML::Node& node, const std::string& path, const Origin& origin,
                        const std::string& shown_path) {
  const Source source{origin, origin.text};
  const std::string shown = shown_path.empty() ? path : shown_path;
  const SourcePos where = position(node, source.file);
  const Group* group = root_.get();
  const std::vector<std::string> parts = path.empty() ? std::vector<std::string>() : split(path);
  // Same number of parts as the path: only their names may differ.
  const std::vector<std::string> shown_parts = split(shown);
  std::string walked;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Group::Child* child = group->find(parts[i]);
    if (child == nullptr) unknown(*group, shown_parts[i], walked, where);
    walked = joined(walked, shown_parts[i]);
    if (child->group == nullptr) {
      if (i + 1 < parts.size()) {
        throw InputError(where, fmt::format("{} is a single parameter, it has no {}", walked, parts[i + 1]),
                         kShowParams);
      }
      apply_value(bound_[child->index], node, source, shown);
      return;
    }
    group = child->group.get();
  }
  apply_group(*group, node, source, shown);
}

void ParamBinder::apply_group(const Group& group, const YAML::Node& node, const Source& source,
                              const std::string& shown) {
  // `cwd:` with nothing behind it, all lines below commented out, is a common and harmless state of a file.
  if (node.IsNull()) return;
  if (!node.IsMap()) {
    throw InputError(position(node, source.file),
                     fmt::format("{} is a group of parameters: a map is expected, found {}", shown, kind_text(node)),
                     fmt::format("write {}: {{{}: …}}", shown.substr(shown.rfind('.') + 1),
                                 group.children.empty() ? "name" : group.children.front().name));
  }
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    const Group::Child* child = group.find(key);
    if (child == nullptr) unknown(group, key, shown, position(entry.first, source.file));
    if (child->group != nullptr) {
      apply_group(*child->group, entry.second, source, joined(shown, key));
    } else {
      apply_value(bound_[child->index], entry.second, source, joined(shown, key));
    }
  }
}

void ParamBinder::apply_value(Bound& bound, const YAML::Node& node, const Source& source, const std::string& shown) {
  YAML::Node value = node;
  std::string value_source;
  if (node.IsMap() && node["value"].IsDefined()) {
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      if (key == "source" && entry.second.IsScalar()) {
        value_source = entry.second.Scalar();
      } else if (key == "source") {
        throw InputError(position(entry.second, source.file),
                         fmt::format("{}: the source must be text, found {}", shown, kind_text(entry.second)));
      } else if (key != "value") {
        throw InputError(position(entry.first, source.file), fmt::format("{}: unknown key {}", shown, key),
                         "a parameter is written as a value or as {value: …, source: …}");
      }
    }
    // Not an assignment of nodes, which would overwrite `node` for everyone who holds it.
    value.reset(node["value"]);
  }
  try {
    bound.spec.read(bound.live, value, source.file);
  } catch (const InputError& error) {
    const SourcePos where = error.where().line > 0 ? error.where() : position(value, source.file);
    const std::string unit(unit_text(bound.spec.unit));
    std::string remedy = error.remedy();
    if (!remedy.empty()) remedy += "; ";
    remedy += fmt::format("{}, allowed: {} (default {})", bound.spec.type, bound.spec.range,
                          with_unit(bound.default_text, bound.spec.unit));
    throw InputError(where, fmt::format("{}: {}", shown, error.message()), remedy);
  }
  bound.origin = source.origin;
  if (source.origin.kind == Origin::Kind::file)
    bound.origin.text = SourcePos{source.file, value.Mark().line + 1, 0}.text();
  bound.value_source = value_source;
}

Assignment parse_assignment(const std::string& text, const std::string& origin_text) {
  Assignment result;
  result.file = origin_text + " " + text;
  const std::size_t equals = text.find('=');
  const auto space = [](char c) { return c == ' ' || c == '\t'; };
  std::string path = text.substr(0, equals == std::string::npos ? text.size() : equals);
  path.erase(std::find_if_not(path.rbegin(), path.rend(), space).base(), path.end());
  path.erase(path.begin(), std::find_if_not(path.begin(), path.end(), space));
  if (equals == std::string::npos || path.empty()) {
    throw InputError(SourcePos{result.file, 0, 0}, "an assignment needs a path, '=' and a value",
                     "for example gpu.cwd.gpc_distance=80");
  }
  result.path = path;
  try {
    result.value = load_yaml(text.substr(equals + 1), result.file);
  } catch (const InputError& error) {
    // Line and column within one argument help nobody.
    throw InputError(SourcePos{result.file, 0, 0}, error.message(), error.remedy());
  }
  return result;
}

void ParamBinder::set(const std::string& assignment, const Origin& origin) {
  const Assignment parsed = parse_assignment(assignment, origin.text);
  try {
    apply(parsed.value, parsed.path, origin);
  } catch (const InputError& error) {
    throw InputError(SourcePos{parsed.file, 0, 0}, error.message(), error.remedy());
  }
}

std::vector<ParamEntry> ParamBinder::entries() const {
  std::vector<ParamEntry> result;
  result.reserve(bound_.size());
  for (const Bound& bound : bound_) {
    result.push_back({bound.path, bound.spec.type, bound.spec.unit, bound.spec.range, bound.default_text,
                      value_text(bound.spec, bound.live), bound.spec.description, bound.spec.source, bound.value_source,
                      bound.origin});
  }
  return result;
}

void ParamBinder::dump_group(YAML::Emitter& out, const Group& group) const {
  out << YAML::BeginMap;
  for (const Group::Child& child : group.children) {
    out << YAML::Key << child.name << YAML::Value;
    if (child.group != nullptr) {
      dump_group(out, *child.group);
      continue;
    }
    const Bound& bound = bound_[child.index];
    bound.spec.write(bound.live, out);
    std::string comment(unit_text(bound.spec.unit));
    if (bound.origin.kind != Origin::Kind::defaults) {
      if (!comment.empty()) comment += "; ";
      comment += bound.origin.text;
      if (!bound.value_source.empty()) comment += ": " + bound.value_source;
    }
    if (!comment.empty()) out << YAML::Comment(one_line(comment));
  }
  out << YAML::EndMap;
}

void ParamBinder::dump(YAML::Emitter& out) const { dump_group(out, *root_); }

YAML::Node ParamBinder::dump() const {
  YAML::Emitter out;
  dump(out);
  return load_yaml(out.c_str(), "dump");
}

void ParamBinder::dump_root(YAML::Emitter& out, const std::string& root) const {
  const Group::Child* child = root_->find(root);
  HEDDLE_CHECK(child != nullptr && child->group != nullptr, "no parameters are bound under " + root);
  dump_group(out, *child->group);
}

ParamLayers::ParamLayers(std::size_t instances, std::vector<std::string> shared_roots)
    : instances_(instances), shared_roots_(std::move(shared_roots)) {
  HEDDLE_CHECK(instances > 0, "a configuration needs a GPU");
}

void ParamLayers::check_key(const std::string& key, const SourcePos& where) const {
  if (key == kAll || std::find(shared_roots_.begin(), shared_roots_.end(), key) != shared_roots_.end()) return;
  std::vector<std::string> known = {kAll};
  for (std::size_t i = 0; i < instances_; ++i) {
    if (key == instance_key(i)) return;
    known.push_back(instance_key(i));
  }
  if (names_an_instance(key)) {
    throw InputError(where,
                     fmt::format("{} does not exist: there {} {} GPU{}", key, instances_ == 1 ? "is" : "are",
                                 instances_, instances_ == 1 ? "" : "s"),
                     instances_ == 1 ? "write gpu0, or gpu for all instances"
                                     : fmt::format("write gpu0 to gpu{}, or gpu for all instances", instances_ - 1));
  }
  known.insert(known.end(), shared_roots_.begin(), shared_roots_.end());
  throw InputError(where, fmt::format("unknown part of the configuration: {}", key), suggestion(key, known));
}

void ParamLayers::add_preset(std::size_t instance, const YAML::Node& gpu, const Origin& origin) {
  HEDDLE_CHECK(instance < instances_, "a preset for an instance that does not exist");
  // A preset stands for a whole machine: it comes before every layer that changes something of it.
  presets_.push_back({instance, gpu, origin});
}

void ParamLayers::add(const YAML::Node& roots, const Origin& origin) {
  if (!roots.IsDefined() || roots.IsNull()) return;
  if (!roots.IsMap()) {
    throw InputError(position(roots, origin.text), fmt::format("a configuration is a map, found {}", kind_text(roots)),
                     "write for example {gpu: {cwd: {gpc_distance: 80}}}");
  }
  Layer layer;
  for (const auto& entry : roots) {
    const std::string& key = entry.first.Scalar();
    check_key(key, position(entry.first, origin.text));
    layer.push_back({key, entry.second, origin});
  }
  layers_.push_back(std::move(layer));
}

void ParamLayers::assign(const std::string& text, const Origin& origin) {
  Assignment parsed = parse_assignment(text, origin.text);
  const std::size_t dot = parsed.path.find('.');
  Set set;
  set.key = parsed.path.substr(0, dot);
  if (dot != std::string::npos) set.rest = parsed.path.substr(dot + 1);
  check_key(set.key, SourcePos{parsed.file, 0, 0});
  set.value.reset(parsed.value);
  set.origin = origin;
  set.file = parsed.file;
  sets_.push_back(std::move(set));
}

void ParamLayers::apply_sets(ParamBinder& binder, const std::string& key, const std::string& root) const {
  for (const Set& set : sets_) {
    if (set.key != key) continue;
    const auto path = [&](const std::string& head) { return set.rest.empty() ? head : head + "." + set.rest; };
    try {
      binder.apply(set.value, path(root), set.origin, path(key));
    } catch (const InputError& error) {
      throw InputError(SourcePos{set.file, 0, 0}, error.message(), error.remedy());
    }
  }
}

void ParamLayers::resolve(ParamBinder& binder, std::size_t instance) const {
  HEDDLE_CHECK(instance < instances_, "resolving an instance that does not exist");
  for (const PresetPart& preset : presets_) {
    if (preset.instance == instance) binder.apply(preset.node, kAll, preset.origin);
  }
  const std::string own = instance_key(instance);
  for (const Layer& layer : layers_) {
    for (const std::string& key : {std::string(kAll), own}) {
      for (const Part& part : layer) {
        if (part.key == key) binder.apply(part.node, kAll, part.origin, key);
      }
    }
  }
  apply_sets(binder, kAll, kAll);
  apply_sets(binder, own, kAll);
}

void ParamLayers::resolve(ParamBinder& binder, const std::string& shared_root) const {
  for (const Layer& layer : layers_) {
    for (const Part& part : layer) {
      if (part.key == shared_root) binder.apply(part.node, shared_root, part.origin);
    }
  }
  apply_sets(binder, shared_root, shared_root);
}

}  // namespace heddle
