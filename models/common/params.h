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

}  // namespace heddle
