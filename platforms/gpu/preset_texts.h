// The texts of presets/*.yaml, put into the program when it is built.
#pragma once

#include <vector>

namespace heddle::gpu {

struct PresetText {
  const char* name;
  const char* yaml;
};

const std::vector<PresetText>& preset_texts();

}  // namespace heddle::gpu
