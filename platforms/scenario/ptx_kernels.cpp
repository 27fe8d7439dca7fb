#include "scenario/ptx_kernels.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "common/yaml_util.h"
#include "ptx/ptx_program.h"
#include "ptx/resolver.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

bool is_float_type(ptx::Type type) { return type == ptx::Type::f32 || type == ptx::Type::f64; }

// The bits of a number as that type; false: it is none, or none that the type has. A number with zeros before it may be
// meant as octal or not, so it is none.
bool read_number(const std::string& text, const ptx::EntryParameter& parameter, std::uint64_t& bits) {
  const std::size_t first = text.find_first_not_of("+-");
  if (first == std::string::npos || first > 1) return false;
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  if (!digit(first) && text[first] != '.') return false;
  if (text[first] == '0' && digit(first + 1)) return false;
  char* end = nullptr;
  errno = 0;
  const bool whole = text.find_first_of(".eEnNiI") == std::string::npos || text.compare(0, 2, "0x") == 0;
  const std::uint64_t width = parameter.bytes;
  if (is_float_type(parameter.type) || !whole) {
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !std::isfinite(value)) return false;
    if (width == 8) {
      std::memcpy(&bits, &value, sizeof bits);
    } else if (width == 4) {
      const auto narrow = static_cast<float>(value);
      if (!std::isfinite(narrow)) return false;
      std::uint32_t word = 0;
      std::memcpy(&word, &narrow, sizeof word);
      bits = word;
    } else {
      return false;
    }
    return parameter.type == ptx::Type::b32 || parameter.type == ptx::Type::b64 || is_float_type(parameter.type);
  }
  const bool negative = text[0] == '-';
  bits =
      negative ? static_cast<std::uint64_t>(std::strtoll(text.c_str(), &end, 0)) : std::strtoull(text.c_str(), &end, 0);
  if (end == text.c_str() || *end != '\0' || errno == ERANGE || width > 8) return false;
  if (width == 8) return true;
  const std::uint64_t above = bits >> (8 * width);
  const bool fits = negative ? (bits >> (8 * width - 1)) == (~std::uint64_t{0} >> (8 * width - 1)) : above == 0;
  bits &= (std::uint64_t{1} << (8 * width)) - 1;
  return fits;
}

void put(std::vector<std::uint8_t>& bytes, std::uint64_t at, std::uint64_t value, std::uint64_t width) {
  for (std::uint64_t i = 0; i < width; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

const MemoryRegion* region_named(const std::vector<MemoryRegion>& regions, const std::string& name) {
  for (const MemoryRegion& region : regions) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

arch::Dim3 extents_of(const std::vector<std::uint64_t>& numbers) {
  const auto at = [&](std::size_t i) { return i < numbers.size() ? static_cast<std::uint32_t>(numbers[i]) : 1U; };
  return {at(0), at(1), at(2)};
}

// What the entry's directives say of its launches.
void check_directives(const MapReader& map, const ptx::Function& entry, arch::KernelRecord& kernel) {
  const auto required = entry.directives.find("reqntid");
  if (required != entry.directives.end() && kernel.block != extents_of(required->second)) {
    map.fail("block", fmt::format("{} can only be launched with the block that its .reqntid says", entry.name));
  }
  const auto most = entry.directives.find("maxntid");
  if (most != entry.directives.end() && kernel.block.count() > extents_of(most->second).count()) {
    map.fail("block", fmt::format("{} is compiled for {} threads at most (.maxntid)", entry.name,
                                  extents_of(most->second).count()));
  }
  const auto cluster = entry.directives.find("reqnctapercluster");
  if (cluster == entry.directives.end() || cluster->second.empty()) return;
  const arch::Dim3 wanted = extents_of(cluster->second);
  if (!kernel.cluster.any()) {
    kernel.cluster.of(arch::CgaLevel::gpc) = wanted;
  } else if (kernel.cluster.of(arch::CgaLevel::gpc) != wanted) {
    map.fail("cluster",
             fmt::format("{} can only be launched with the clusters that its .reqnctapercluster says", entry.name));
  }
}

}  // namespace

PtxKernels::PtxKernels(const YAML::Node& kernels, const std::string& file) {
  if (!kernels.IsSequence()) return;
  for (const auto& node : kernels) {
    if (!node.IsMap() || !node["ptx"].IsDefined()) continue;
    read(MapReader(node, kernel_spec(), entry_name("kernel", node, "name"), file), file);
  }
}

void PtxKernels::read(const MapReader& map, const std::string& file) {
  Kernel kernel;
  kernel.where = map.where();
  kernel.path = beside_scenario(file, map.name("ptx"));
  std::shared_ptr<const ptx::Module>& module = modules_[kernel.path];
  if (module == nullptr) {
    std::string text;
    try {
      text = read_text_file(kernel.path);
    } catch (const InputError& error) {
      map.fail("ptx", error.message());
    }
    module = std::make_shared<const ptx::Module>(ptx::parse_module(text, kernel.path));
  }
  kernel.module = module;
  std::vector<std::string> entries;
  for (const ptx::Function& function : module->functions) {
    if (function.entry && function.body) entries.push_back(function.name);
  }
  if (!map.has("entry") && entries.size() != 1) {
    throw InputError(map.where(), fmt::format("{}: {} has {} entries", map.thing(), kernel.path, entries.size()),
                     "name one of them with the key `entry`");
  }
  const std::string entry = map.has("entry") ? map.name("entry") : entries.front();
  kernel.entry = module->find_function(entry);
  if (kernel.entry == nullptr || !kernel.entry->entry || !kernel.entry->body) {
    throw InputError(map.where("entry"), fmt::format("{}: {} has no entry {}", map.thing(), kernel.path, entry),
                     suggestion(entry, entries));
  }
  kernel.parameters = ptx::parameters_of(*kernel.entry);
  kernel.arguments = read_arguments(map, kernel);
  const std::string name = map.name("name");
  if (!kernel.parameters.empty()) kernel.arguments_region = fmt::format("arguments of {}", name);
  if (map.has("cooperative") && map.flag("cooperative")) kernel.workspace_region = fmt::format("workspace of {}", name);
  kernels_.emplace(name, std::move(kernel));
}

std::vector<PtxKernels::Argument> PtxKernels::read_arguments(const MapReader& map, const Kernel& kernel) const {
  std::vector<Argument> arguments;
  const std::vector<YAML::Node> items = map.has("args") ? map.items("args") : std::vector<YAML::Node>{};
  if (items.size() != kernel.parameters.size()) {
    throw InputError(map.has("args") ? map.where("args") : map.where(),
                     fmt::format("{}: {} arguments, and {} has {} parameters", map.thing(), items.size(),
                                 kernel.entry->name, kernel.parameters.size()),
                     "args: a list with a number, or the name of a region or a tensor, for each parameter");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ptx::EntryParameter& parameter = kernel.parameters[i];
    if (!items[i].IsScalar()) map.fail("args", items[i], "a number or the name of a region is expected");
    const std::string& text = items[i].Scalar();
    Argument argument;
    const bool name = !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_');
    if (name && text != "nan" && text != "inf") {
      argument.region = text;
      argument.descriptor = parameter.bytes == arch::kDescriptorBytes;
      if (parameter.bytes != 8 && !argument.descriptor) {
        map.fail("args", items[i],
                 fmt::format("parameter {} has {} bytes: no address fits", parameter.name, parameter.bytes));
      }
    } else if (!read_number(text, parameter, argument.bits)) {
      map.fail("args", items[i],
               fmt::format("{} is no finite number of parameter {} (.{}, {} bytes)", text, parameter.name,
                           ptx::type_name(parameter.type), parameter.bytes));
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::vector<MemoryRegion> PtxKernels::regions(const std::vector<MemoryRegion>& given) {
  std::vector<MemoryRegion> result;
  // A module is loaded once into each address space: its kernels share its variables.
  using Space = std::tuple<std::string, std::size_t, std::optional<std::uint8_t>, std::optional<std::uint32_t>>;
  std::map<Space, std::string> images;
  for (auto& [name, kernel] : kernels_) {
    MemoryRegion region;
    region.where = kernel.where;
    region.contents.kind = RegionContents::Kind::bytes;
    // Where what it is given lies.
    for (const Argument& argument : kernel.arguments) {
      const MemoryRegion* used = region_named(given, argument.region);
      if (used == nullptr || used->shared) continue;
      region.gpu = used->gpu;
      region.subcontext = used->subcontext;
      region.instance = used->instance;
      break;
    }
    const auto add = [&](const std::string& its, std::uint64_t bytes) {
      if (its.empty()) return;
      region.name = its;
      region.bytes = std::max<std::uint64_t>(bytes, 1);
      result.push_back(region);
    };
    add(kernel.arguments_region, ptx::argument_bytes(kernel.parameters));
    add(kernel.workspace_region, ptx::kWorkspaceBytes);
    const std::uint64_t image = ptx::ModuleImage(*kernel.module).bytes();
    if (image == 0) continue;
    const auto [loaded, first] = images.try_emplace(Space{kernel.path, region.gpu, region.subcontext, region.instance},
                                                    fmt::format("variables of {}", name));
    kernel.image_region = loaded->second;
    if (first) add(kernel.image_region, image);
  }
  return result;
}

void PtxKernels::fill(std::vector<MemoryRegion>& regions) {
  const auto own = [&](const std::string& name) -> MemoryRegion* {
    for (MemoryRegion& region : regions) {
      if (region.name == name) return &region;
    }
    return nullptr;
  };
  for (auto& [name, kernel] : kernels_) {
    if (MemoryRegion* image = own(kernel.image_region)) {
      kernel.image_at = image->address;
      if (image->contents.bytes.empty()) {
        image->contents.bytes = ptx::ModuleImage(*kernel.module).contents(image->address);
      }
    }
    if (MemoryRegion* workspace = own(kernel.workspace_region)) {
      kernel.workspace_at = workspace->address;
      workspace->contents.bytes.assign(workspace->bytes, 0);
    }
    MemoryRegion* block = own(kernel.arguments_region);
    if (block == nullptr) continue;
    kernel.arguments_at = block->address;
    std::vector<std::uint8_t> bytes(block->bytes, 0);
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Argument& argument = kernel.arguments[i];
      const ptx::EntryParameter& parameter = kernel.parameters[i];
      if (argument.region.empty()) {
        put(bytes, parameter.offset, argument.bits, parameter.bytes);
        continue;
      }
      const MemoryRegion* used = region_named(regions, argument.region);
      if (used == nullptr) {
        std::vector<std::string> names;
        for (const MemoryRegion& region : regions) {
          if (region.contents.kind != RegionContents::Kind::bytes) names.push_back(region.name);
        }
        throw InputError(kernel.where,
                         fmt::format("kernel {}, args: there is no memory or tensor {}", name, argument.region),
                         suggestion(argument.region, names));
      }
      if (!argument.descriptor) {
        put(bytes, parameter.offset, used->known_as(), 8);
        continue;
      }
      if (used->contents.kind != RegionContents::Kind::tensor) {
        throw InputError(kernel.where,
                         fmt::format("kernel {}, args: parameter {} takes a tensor's descriptor, and {} is a region",
                                     name, parameter.name, argument.region),
                         "name an entry of the list `tensors`");
      }
      const auto encoded = arch::encode(used->contents.tensor);
      std::copy(encoded.begin(), encoded.end(), bytes.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
    }
    block->contents.bytes = std::move(bytes);
  }
}

void PtxKernels::compile(const MapReader& map, arch::KernelRecord& kernel, std::set<std::string>& used) const {
  const Kernel& its = kernels_.at(kernel.name);
  check_directives(map, *its.entry, kernel);
  ptx::EntryPlace place;
  place.image = its.image_at;
  place.arguments = its.arguments_at;
  place.workspace = its.workspace_at;
  ptx::ResolvedEntry made = ptx::resolve_entry(*its.module, its.entry->name, place);
  if (kernel.shared_bytes > UINT32_MAX - made.shared_bytes) {
    map.fail("shared",
             fmt::format("no CTA has so much beside the {} bytes that the module declares", made.shared_bytes));
  }
  kernel.shared_bytes += made.shared_bytes;
  if (map.has("local") && kernel.local_bytes < made.local_bytes) {
    map.fail("local", fmt::format("{} needs {} bytes", its.entry->name, made.local_bytes));
  }
  kernel.local_bytes = std::max(kernel.local_bytes, made.local_bytes);
  if (kernel.registers_per_thread == 0) {
    kernel.registers_per_thread = ptx::registers_per_thread(*its.entry, made.code);
  }
  if (made.code.multicasts()) kernel.cluster.mode = arch::CgaMode::multicast;
  kernel.program = std::make_shared<const ptx::PtxProgram>(std::move(made.code));
  for (const std::string* region : {&its.arguments_region, &its.image_region, &its.workspace_region}) {
    if (!region->empty()) used.insert(*region);
  }
  for (const Argument& argument : its.arguments) {
    if (!argument.region.empty()) used.insert(argument.region);
  }
}

}  // namespace heddle::scenario
