// The configuration of several GPUs from presets, files and the command line. Later layers win over earlier ones;
// within a layer, `gpu3` wins over `gpu`, which stands for all instances.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/params.h"

namespace heddle {

class ParamLayers {
 public:
  // `shared_roots`: top-level keys without instances, e.g. {"run"}, next to `gpu`, `gpu0`, ….
  explicit ParamLayers(std::size_t instances, std::vector<std::string> shared_roots = {});

  // A layer for one instance: `gpu` is the map that stands under the key `gpu`.
  void add_preset(std::size_t instance, const YAML::Node& gpu, const Origin& origin);

  // A layer for all: a map with keys `gpu`, `gpu<i>` and shared roots. Throws InputError for other keys, and for
  // instances that do not exist. A null node adds nothing.
  void add(const YAML::Node& roots, const Origin& origin);

  // `--set gpu.cwd.session_cycles=12`. All assignments together form the last layer; of two for the same path the
  // later one wins.
  void assign(const std::string& text, const Origin& origin = {Origin::Kind::command_line, "--set"});

  // Applies all layers, in order, to a binder whose parameters are bound under "gpu".
  void resolve(ParamBinder& binder, std::size_t instance) const;

  // Applies what the layers hold for a shared root.
  void resolve(ParamBinder& binder, const std::string& shared_root) const;

 private:
  struct Part {
    std::string key;  // "gpu", "gpu0" or a shared root, as written
    YAML::Node node;
    Origin origin;
  };
  struct PresetPart {
    std::size_t instance;
    YAML::Node node;
    Origin origin;
  };
  using Layer = std::vector<Part>;
  struct Set {
    std::string key;
    std::string rest;  // the path behind the key, e.g. "cwd.session_cycles"
    YAML::Node value;
    Origin origin;
    std::string file;
  };

  void check_key(const std::string& key, const SourcePos& where) const;
  void apply_sets(ParamBinder& binder, const std::string& key, const std::string& root) const;

  std::size_t instances_;
  std::vector<std::string> shared_roots_;
  std::vector<PresetPart> presets_;
  std::vector<Layer> layers_;
  std::vector<Set> sets_;
};

}  // namespace heddle
