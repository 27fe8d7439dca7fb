#include "vp/kernel_list.h"

#include <set>
#include <string>

#include "common/error.h"
#include "common/params.h"

namespace heddle::vp {

std::vector<arch::KernelRecord> kernels_of(const scenario::Scenario& scenario) {
  std::vector<arch::KernelRecord> kernels;
  std::set<const arch::WarpProgram*> known;
  for (const workload::Workload& workload : scenario.workloads) {
    for (const workload::Op& op : workload.ops) {
      if (op.kind != workload::OpKind::kernel || op.kernel.program == nullptr) continue;
      if (known.insert(op.kernel.program.get()).second) kernels.push_back(op.kernel);
    }
  }
  if (kernels.empty()) {
    throw InputError(SourcePos{scenario.file, 0, 0}, "no kernel with a program is submitted",
                     "write kernels with a `program`, and submit each of them (docs/scenario.md)");
  }
  return kernels;
}

std::vector<ListedKernel> load_kernels(const std::vector<arch::KernelRecord>& kernels, gpu::Gpu& gpu) {
  std::vector<ListedKernel> listed;
  for (const arch::KernelRecord& kernel : kernels) {
    listed.push_back({kernel.name, gpu.add_code(kernel.program, kernel), kernel.registers_per_thread});
  }
  return listed;
}

gpu::GpuParams machine_of(const scenario::Scenario& scenario, const std::string& preset,
                          const std::vector<std::string>& sets) {
  const std::string& name = preset.empty() ? scenario.gpus.front() : preset;
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  const Origin guests{Origin::Kind::preset, "virtual platforms"};
  layers.add(YAML::Load("gpu: {timing: lt, mmu: {enabled: true}}"), guests);
  layers.add(scenario.config, {Origin::Kind::file, scenario.file});
  for (const std::string& set : sets) layers.assign(set);
  layers.resolve(binder, 0);
  params.check();
  return params;
}

}  // namespace heddle::vp
