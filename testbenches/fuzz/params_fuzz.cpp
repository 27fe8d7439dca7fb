// A machine configuration is taken, or refused with an InputError; what is taken can be dumped and taken again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/params.h"
#include "gpu/gpu_params.h"

namespace {

struct Taken {
  std::string values;  // "path = value" lines
  std::string dump;    // YAML
};

Taken take(const YAML::Node& roots) {
  heddle::gpu::GpuParams params;
  heddle::ParamBinder binder;
  params.bind(binder);
  heddle::ParamLayers layers(1, {"run"});
  layers.add(roots, {heddle::Origin::Kind::file, "fuzz.yaml"});
  layers.resolve(binder, 0);
  params.check();
  Taken taken;
  for (const heddle::ParamEntry& entry : binder.entries()) taken.values += entry.path + " = " + entry.value_text + "\n";
  YAML::Emitter out;
  binder.dump(out);
  taken.dump = out.c_str();
  return taken;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Taken first;
  try {
    first = take(heddle::load_yaml(text, "fuzz.yaml"));
  } catch (const heddle::InputError&) {  // refused, as it should be
    return 0;
  }
  if (take(heddle::load_yaml(first.dump, "dump.yaml")).values != first.values) std::abort();
  return 0;
}
