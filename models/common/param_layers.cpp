#include "common/param_layers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace heddle {
namespace {

constexpr const char* kAll = "gpu";

std::string instance_key(std::size_t instance) { return fmt::format("{}{}", kAll, instance); }

bool names_an_instance(const std::string& key) {
  return key.size() > 3 && key.compare(0, 3, kAll) == 0 &&
         std::all_of(key.begin() + 3, key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

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
