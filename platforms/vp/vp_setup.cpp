#include "vp/vp_setup.h"

#include <algorithm>
#include <iostream>
#include <set>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "common/params.h"
#include "common/quantity.h"

namespace heddle::vp {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: heddle-vp --kernels SCENARIO [options] -- qemu-system-x86_64 ARGUMENTS\n\n"
    "Starts QEMU with the GPU as a PCI device, and is that device until QEMU ends (docs/virtual-platform.md). The\n"
    "guest's memory must be shared: -object memory-backend-memfd,id=ram,size=256M,share=on\n"
    "-machine q35,memory-backend=ram. scripts/vp does all of it.\n\n";

constexpr const char* kStatuses =
    "\nexit status: 0 QEMU ended with 0, 1 it ended otherwise, 2 bad input, 3 QEMU was not understood, 4 the model "
    "failed\n";

po::options_description all_options() {
  po::options_description options("options");
  auto text = [] { return po::value<std::string>(); };
  options.add_options()("kernels", text()->value_name("SCENARIO"),
                        "its machine is the device, and the kernels that it submits are the device's programs")(
      "gpu", text()->value_name("PRESET"), "the machine, in place of the scenario's")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V")->composing(),
      "set a parameter, e.g. gpu.timing=at; can be repeated (heddle show params)")("seed", text()->value_name("N"),
                                                                                   "of the machine; default 1")(
      "aperture", text()->value_name("BYTES"),
      "of BAR 1, which shows the beginning of device memory: a power of two, 1 MiB to 1 GiB; default 64 MiB")(
      "within", text()->value_name("TIME"),
      "most simulated time that an access to the device waits for the work that it has set off; default 1 ms")(
      "vanish-after", text()->value_name("N"), "after so many accesses the device is gone, to test drivers")(
      "spread",
      "let QEMU and the device run on several processors; else they stay on one, which is faster for guests with one "
      "processor: only one of them runs at a time")("reports",
                                                    "show what the machine reports: queues that stop, faults, resets")(
      "tell", "say at the end what the device has done")("help,h", "this text");
  return options;
}

template <class T>
T number(const po::variables_map& values, const char* option, const Limits<T>& limits, T otherwise) {
  if (values.count(option) == 0) return otherwise;
  try {
    return parse_quantity(values[option].as<std::string>(), limits);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--{}: {}", option, error.message()), error.remedy());
  }
}

po::variables_map parse(const std::vector<std::string>& words, const po::options_description& options) {
  po::variables_map values;
  try {
    const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    const po::positional_options_description nothing;
    po::store(po::command_line_parser(words).options(options).positional(nothing).style(style).run(), values);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back("--" + option->long_name());
    const std::string near = nearest(error.get_option_name(), names);
    throw InputError(fmt::format("there is no option {}", error.get_option_name()),
                     near.empty() ? "heddle-vp --help lists them" : fmt::format("did you mean {}?", near));
  } catch (const po::error& error) {
    throw InputError(error.what(), "heddle-vp --help lists the options; QEMU's command stands behind --");
  }
  return values;
}

}  // namespace

std::optional<VpOptions> read_options(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  const po::options_description options = all_options();
  const po::variables_map values = parse({arguments.begin(), separator}, options);
  if (values.count("help") != 0) {
    std::cout << kUsage << options << kStatuses;
    return std::nullopt;
  }
  VpOptions read;
  if (values.count("kernels") == 0) throw InputError("--kernels is missing", "name a scenario: --kernels FILE");
  read.kernels = values["kernels"].as<std::string>();
  if (separator != arguments.end()) read.command.assign(separator + 1, arguments.end());
  if (read.command.empty()) {
    throw InputError("QEMU's command is missing", "write it behind --: … -- qemu-system-x86_64 -machine q35 …");
  }
  if (values.count("gpu") != 0) read.preset = values["gpu"].as<std::string>();
  if (values.count("set") != 0) read.sets = values["set"].as<std::vector<std::string>>();
  read.seed = number<std::uint64_t>(values, "seed", {Unit::count, 0, std::uint64_t{1} << 53}, read.seed);
  read.aperture = number<std::uint32_t>(values, "aperture", {Unit::bytes, 1U << 20, 1U << 30}, read.aperture);
  if ((read.aperture & (read.aperture - 1)) != 0) {
    throw InputError(fmt::format("--aperture: {} bytes are no power of two", read.aperture), "64 MiB is one");
  }
  const auto within = number<double>(values, "within", {Unit::us, 0.0, 1e9}, 1000.0);
  read.limits.within_access = sc_core::sc_time(within, sc_core::SC_US);
  if (values.count("vanish-after") != 0) {
    read.limits.vanish_after = number<std::uint64_t>(values, "vanish-after", {Unit::count, 0, 1ULL << 53}, 0);
  }
  read.spread = values.count("spread") != 0;
  read.reports = values.count("reports") != 0;
  read.tell = values.count("tell") != 0;
  return read;
}

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
