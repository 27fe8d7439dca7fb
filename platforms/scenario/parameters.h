// Numbers that a scenario has on its top level under `parameters`, and that whoever runs it may change (--let). Their
// names stand in any of its values, as ${4 * lines}.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace heddle::scenario {

// Puts the parameters into all values of the file, and takes the list of them away. `settings`: "lines=16", each in
// place of what the file says. A parameter may use those before it. Throws InputError for what is no number, for
// settings of parameters that the file does not have, and for expressions that cannot be read.
void apply_parameters(YAML::Node& root, const std::vector<std::string>& settings, const std::string& file);

}  // namespace heddle::scenario
