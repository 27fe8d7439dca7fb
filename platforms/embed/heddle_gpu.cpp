#include "embed/heddle_gpu.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/error.h"
#include "embed/device_trace.h"
#include "embed/scenario_loader.h"
#include "gpu/gpu.h"
#include "gpu/machine_file.h"
#include "gpu/machine_state.h"
#include "host/register_table.h"
#include "program/code_image.h"
#include "scenario/scenario.h"

namespace heddle {
inline namespace v0 {
namespace {

// What goes wrong inside, as embedders see it.
template <class Call>
auto as_public(Call&& call) {
  try {
    return call();
  } catch (const InputError& error) {
    throw Error(error.what());
  }
}

gpu::ResolvedMachine resolve(const GpuOptions& options) {
  gpu::MachineChoice choice{options.preset, scenario::kDefaultPreset, options.files, options.settings};
  if (options.timing != Timing::configured) {
    const char* names[] = {"", "at", "fast", "lt"};
    choice.settings.push_back(std::string("gpu.timing=") + names[static_cast<int>(options.timing)]);
  }
  return gpu::resolve(choice);
}

const host::Register& register_called(const std::string& name) {
  std::vector<std::string> names;
  for (const host::Register& reg : host::register_table()) {
    if (name == reg.name) return reg;
    names.emplace_back(reg.name);
  }
  throw InputError(fmt::format("there is no register {}", name), suggestion(name, names));
}

std::vector<Parameter> parameters_of(const gpu::ResolvedMachine& machine) {
  std::vector<Parameter> list;
  for (const ParamEntry& entry : machine.entries) {
    list.push_back({entry.path, entry.type, std::string(unit_text(entry.unit)), entry.range, entry.default_text,
                    entry.value_text, entry.description, entry.origin.text});
  }
  return list;
}

template <class Named>
const Named& find(const std::vector<Named>& list, const std::string& name, const char* what) {
  std::vector<std::string> names;
  for (const Named& one : list) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  throw Error(InputError(fmt::format("no {} {} was loaded", what, name), suggestion(name, names)).what());
}

}  // namespace

class Gpu::Impl final : public RegisterListener {
 public:
  Impl(const std::string& name, const GpuOptions& options)
      : Impl(name, as_public([&options] { return resolve(options); }), options.seed) {}
  ~Impl() { observation.registers = nullptr; }

  void register_written(std::uint64_t offset, std::uint32_t bytes, std::uint64_t value) override {
    if (callbacks.empty()) return;
    const host::RegisterPlace place = host::register_at(offset, machine.params().host.doorbell_page);
    const RegisterWrite write{place.reg->name, place.index, place.word, static_cast<std::uint32_t>(offset),
                              bytes,           value};
    for (const auto& callback : callbacks) callback(write);
  }

  // Of `bytes` at that offset of bar0, without effects.
  std::uint64_t peek(std::uint32_t offset, std::uint32_t bytes) {
    std::uint64_t value = 0;
    tlm::tlm_generic_payload payload;
    payload.set_read();
    payload.set_address(machine.params().host.bar0 + offset);
    payload.set_data_ptr(reinterpret_cast<unsigned char*>(&value));
    payload.set_data_length(bytes);
    payload.set_streaming_width(bytes);
    machine.bar0().get_base_export()->transport_dbg(payload);
    return value;
  }

  // The path with the module's name in front.
  std::string whole(const std::string& path) const {
    const std::string prefix = observation.prefix + ".";
    return path.compare(0, prefix.size(), prefix) == 0 ? path : prefix + path;
  }

  // Statistics that are sums over time are what has been up to now. More work can come at any time.
  void settle() { machine.settle(true); }

  const std::string configuration;
  const std::vector<Parameter> parameters;
  GpuObservation observation;
  gpu::Gpu machine;
  embed::ScenarioLoader loader{machine};
  embed::DeviceTrace trace{"trace", machine, observation};
  std::vector<std::function<void(const RegisterWrite&)>> callbacks;
  std::unique_ptr<sc_core::sc_signal<bool>> unbound_irq;
  std::unique_ptr<sc_core::sc_signal<bool>> unbound_rst;

 private:
  Impl(const std::string& name, gpu::ResolvedMachine resolved, std::uint64_t seed)
      : configuration(std::move(resolved.text)),
        parameters(parameters_of(resolved)),
        observation(name),
        machine("machine", resolved.params, seed, observation, gpu::DeviceMemory::own,
                std::make_shared<program::CodeImage>()) {
    observation.registers = this;
    machine.state().add_compared("loaded", loader);
    machine.state().on_cleared([this] { loader.memory_cleared(); });
    machine.state().on_restored([this] { loader.memory_restored(); });
  }
};

Error::~Error() = default;

const Kernel& Contents::kernel(const std::string& name) const { return find(kernels, name, "kernel"); }
const Region& Contents::region(const std::string& name) const { return find(regions, name, "region"); }

Gpu::Gpu(const sc_core::sc_module_name& name, const GpuOptions& options)
    : sc_core::sc_module(name), bar0("bar0"), bar1("bar1"), dma("dma"), irq("irq"), rst("rst"), impl_(as_public([&] {
        return std::make_unique<Impl>(basename(), options);
      })) {
  bar0.bind(impl_->machine.bar0());
  bar1.bind(impl_->machine.bar1());
  impl_->machine.dma().bind(dma);
  impl_->machine.irq().bind(irq);
  impl_->machine.rst().bind(rst);
}

Gpu::~Gpu() = default;

// The machine inside sees both ports bound, namely to ours.
void Gpu::before_end_of_elaboration() {
  if (irq.bind_count() == 0) {
    impl_->unbound_irq = std::make_unique<sc_core::sc_signal<bool>>("unbound_irq");
    irq.bind(*impl_->unbound_irq);
  }
  if (rst.bind_count() == 0) {
    impl_->unbound_rst = std::make_unique<sc_core::sc_signal<bool>>("unbound_rst");
    rst.bind(*impl_->unbound_rst);
  }
}

std::string Gpu::configuration() const { return impl_->configuration; }
std::uint64_t Gpu::memory_bytes() const { return impl_->machine.params().machine.memory; }

Contents Gpu::load(const std::string& scenario) {
  return as_public([&] { return impl_->loader.load(scenario, basename()); });
}

bool Gpu::read_memory(std::uint64_t address, void* to, std::size_t bytes) const {
  return impl_->machine.memory().read(address, to, bytes);
}

bool Gpu::write_memory(std::uint64_t address, const void* from, std::size_t bytes) {
  return impl_->machine.memory().write(address, from, bytes);
}

std::vector<Parameter> Gpu::parameters() const { return impl_->parameters; }

std::string Gpu::parameter(const std::string& path) const {
  std::vector<std::string> paths;
  for (const Parameter& one : impl_->parameters) {
    if (one.path == path) return one.value;
    paths.push_back(one.path);
  }
  throw Error(InputError(fmt::format("there is no parameter {}", path), suggestion(path, paths)).what());
}

void Gpu::save(std::ostream& to) {
  as_public([&] { impl_->machine.state().save(to); });
}

void Gpu::restore(std::istream& from) {
  as_public([&] { impl_->machine.state().restore(from); });
}

void Gpu::reset() { impl_->machine.reset(); }

bool Gpu::idle() const {
  for (std::uint32_t channel = 0; channel < host::kCopyChannels; ++channel) {
    const std::uint64_t state = impl_->peek(host::offset_of(host::RegisterId::copy_state, channel), 4);
    if (state == host::kCopyBusy) return false;
  }
  return impl_->machine.open_operations() == 0;
}

std::vector<RegisterInfo> Gpu::registers() {
  std::vector<RegisterInfo> list;
  for (const host::Register& reg : host::register_table()) {
    list.push_back({reg.name, reg.offset, reg.bytes * 8U, host::access_text(reg.access), reg.description, reg.count,
                    reg.stride, reg.words});
  }
  std::sort(list.begin(), list.end(), [](const RegisterInfo& a, const RegisterInfo& b) { return a.offset < b.offset; });
  return list;
}

std::uint64_t Gpu::read_register(const std::string& name, std::uint32_t index, std::uint32_t word) const {
  return as_public([&] {
    const host::Register& reg = register_called(name);
    std::uint32_t count = reg.count;
    if (reg.array == host::RegisterArray::queue) count = std::min(count, impl_->machine.params().packet.queues);
    const bool doorbell = reg.id == host::RegisterId::doorbell;
    if (index >= count || (!doorbell && word >= reg.words)) {
      throw InputError(fmt::format("register {}: there is no element {}, word {}", name, index, word),
                       fmt::format("this machine has elements 0 to {} of words 0 to {}", count - 1, reg.words - 1));
    }
    return doorbell ? 0 : impl_->peek(host::offset_of(reg.id, index, word), reg.bytes);
  });
}

void Gpu::on_register_write(std::function<void(const RegisterWrite&)> callback) {
  impl_->callbacks.push_back(std::move(callback));
}

void Gpu::trace(sc_core::sc_trace_file* file) {
  as_public([&] {
    if (file == nullptr) throw InputError("there is no trace file", "open one with sc_create_vcd_trace_file()");
    impl_->trace.trace(*file, irq, name());
  });
}

std::vector<Statistic> Gpu::statistics() const {
  std::vector<Statistic> list;
  impl_->settle();
  const nlohmann::json values = impl_->observation.stats.to_json();
  for (const auto& [path, entry] : values.items()) {
    list.push_back({path, entry.at("unit").get<std::string>(), entry.at("description").get<std::string>(),
                    entry.at("value").get<double>()});
  }
  return list;
}

double Gpu::statistic(const std::string& path) const {
  const std::string whole = impl_->whole(path);
  impl_->settle();
  try {
    return impl_->observation.stats.value(whole);
  } catch (const CheckFailed&) {
    std::vector<std::string> paths;
    for (const Stats::Description& one : impl_->observation.stats.descriptions()) paths.push_back(one.path);
    throw Error(InputError(fmt::format("there is no statistic {}", whole), suggestion(whole, paths)).what());
  }
}

std::vector<std::string> Gpu::faults() const {
  std::vector<std::string> sentences;
  for (const arch::FaultRecord& fault : impl_->machine.log().faults()) sentences.push_back(arch::text_of(fault));
  return sentences;
}

std::vector<Parameter> parameters(const GpuOptions& options) {
  return as_public([&options] { return parameters_of(resolve(options)); });
}

std::vector<std::string> presets() { return gpu::preset_names(); }
std::string version() { return HEDDLE_VERSION; }

}  // namespace v0
}  // namespace heddle
