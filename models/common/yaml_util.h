// Reading YAML so that nothing is lost silently: yaml-cpp keeps duplicate keys, ignores further documents and builds
// cyclic trees from aliases. What load_yaml returns is a finite tree with unique scalar keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/error.h"

namespace heddle {

// `file` is what messages call the source. Throws InputError with line and column for syntax errors, duplicate keys,
// keys that are not text, more than one document and aliases that contain themselves. Empty text gives a null node.
YAML::Node load_yaml(const std::string& text, const std::string& file);

// The same for a file; it must exist and be readable.
YAML::Node load_yaml_file(const std::string& path);

// The content of a file as it is. Throws InputError if it cannot be read.
std::string read_text_file(const std::string& path);

// Where a node stands. yaml-cpp nodes know their line, not their file.
SourcePos position(const YAML::Node& node, const std::string& file);

// "a map", "a list", "nothing", or the scalar itself in quotes.
std::string kind_text(const YAML::Node& node);

// The keys of a map, in order.
std::vector<std::string> keys(const YAML::Node& map);

// Quotes text where YAML would read it as something else (a number, null, a list …).
void emit_text(YAML::Emitter& out, const std::string& text);

}  // namespace heddle
