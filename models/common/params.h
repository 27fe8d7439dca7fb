// Binds the parameters of all blocks to paths ("gpu.cwd.session_cycles"), sets them from YAML and from the command
// line, and tells what they are and where each value came from.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/param_table.h"

namespace heddle {

// Who set a value.
struct Origin {
  enum class Kind { defaults, preset, file, command_line };
  Kind kind = Kind::defaults;
  // "preset h100-sxm", a file's name (entries get its line added), or "--set".
  std::string text = "default";
};

// A parameter as `heddle show params` prints it.
struct ParamEntry {
  std::string path;
  std::string type;
  Unit unit = Unit::none;
  std::string range;
  std::string default_text;
  std::string value_text;
  std::string description;
  std::string default_source;  // where the default comes from
  std::string value_source;    // where the value comes from: the same, or what {value: …, source: …} said, or empty
  Origin origin;               // of the value
};

class ParamBinder {
 public:
  ParamBinder();
  ~ParamBinder();
  ParamBinder(ParamBinder&&) noexcept;
  ParamBinder& operator=(ParamBinder&&) noexcept;

  // Puts the parameters of `live` under `prefix`, e.g. "gpu.cwd". `live` must outlive the binder; its values stay as
  // they are until something is applied.
  template <class P>
  void bind(const std::string& prefix, P& live) {
    ParamTable<P> table;
    P::describe(table);
    const P defaults{};
    attach(prefix, table.take(), &live, &defaults);
  }

  // Sets what `node`, a map found at `path` ("gpu"), names. Throws InputError at the first mistake; values before it
  // may be set by then. `shown_path`: what messages call `path`, if the user wrote it otherwise ("gpu0").
  void apply(const YAML::Node& node, const std::string& path, const Origin& origin, const std::string& shown_path = {});

  // "gpu.cwd.session_cycles=12". The value is YAML in flow style, so that lists and maps work: gpu.shape=[9, 9].
  void set(const std::string& assignment, const Origin& origin = {Origin::Kind::command_line, "--set"});

  // In the order of binding and declaration. Values are those of the live structs at the time of the call.
  std::vector<ParamEntry> entries() const;

  // The whole configuration as a YAML map, nested by path, each line with its unit and the origin of its value; a valid
  // input for apply() with its top-level keys.
  void dump(YAML::Emitter& out) const;
  YAML::Node dump() const;

  // The content of the top-level key `root` alone (what stands behind "gpu:"), to be written under a key like "gpu0".
  void dump_root(YAML::Emitter& out, const std::string& root) const;

 private:
  struct Bound;
  struct Group;
  struct Source;

  void attach(const std::string& prefix, std::vector<ParamSpec> specs, void* live, const void* defaults);
  void apply_group(const Group& group, const YAML::Node& node, const Source& source, const std::string& shown);
  void apply_value(Bound& bound, const YAML::Node& node, const Source& source, const std::string& shown);
  [[noreturn]] void unknown(const Group& group, const std::string& key, const std::string& shown,
                            const SourcePos& where) const;
  void dump_group(YAML::Emitter& out, const Group& group) const;

  std::vector<Bound> bound_;
  std::unique_ptr<Group> root_;
};

// "gpu.cwd.session_cycles=12" in its parts. Throws InputError if there is no path or no '='.
struct Assignment {
  std::string path;
  YAML::Node value;
  std::string file;  // what messages call the place: "--set gpu.cwd.session_cycles=12"
};
Assignment parse_assignment(const std::string& text, const std::string& origin_text);

// The configuration of several GPUs from presets, files and the command line. Later layers win over earlier ones;
// within a layer, `gpu3` wins over `gpu`, which stands for all instances.
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
