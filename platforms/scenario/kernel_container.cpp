#include "scenario/kernel_container.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "common/error.h"
#include "common/yaml_util.h"
#include "program/code_image.h"
#include "program/map_reader.h"
#include "program/program_names.h"
#include "scenario/parameters.h"
#include "scenario/scenario.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {
namespace {

// The file, little-endian (docs/kernels.md).
constexpr std::uint32_t kFileMagic = 0x504C4448;  // "HDLP"
constexpr std::uint16_t kFileVersion = 1;
constexpr std::size_t kFileHead = 32;
constexpr std::size_t kEntryBytes = 84;
constexpr std::size_t kRelocationBytes = 8;
constexpr std::size_t kEntryName = 48;
constexpr std::size_t kMostKernels = 4096;
constexpr std::uint64_t kMostImage = 0x7FFF'FFFF;

const MapSpec& kernels_file_spec() {
  static const MapSpec kSpec{"kernels",
                             {
                                 {"heddle", false, kInteger, "version of the format: 1"},
                                 {"name", false, kText, "title"},
                                 {"description", false, kText, "what the kernels do"},
                                 {"kernels", true, kList, "kernels, as a scenario has them"},
                             },
                             ""};
  return kSpec;
}

// Stands for every region, tensor and queue that the file has: what a program must not name.
std::vector<workload::MemoryRegion> named_places(const YAML::Node& root) {
  std::vector<workload::MemoryRegion> places;
  for (const char* list : {"memory", "tensors", "queues"}) {
    const YAML::Node entries = root[list];
    if (!entries.IsDefined() || !entries.IsSequence()) continue;
    for (const auto& entry : entries) {
      if (!entry.IsMap() || !entry["name"].IsDefined() || !entry["name"].IsScalar()) continue;
      workload::MemoryRegion place;
      place.name = entry["name"].Scalar();
      place.bytes = 1;
      if (std::string(list) == "queues") place.contents.kind = workload::RegionContents::Kind::queue;
      places.push_back(std::move(place));
    }
  }
  return places;
}

// The first text below the node in which the name stands by itself; the node, if it stands in none.
YAML::Node first_with(const YAML::Node& node, const std::string& name) {
  const auto part = [](char c) { return c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0); };
  const auto names = [&](const std::string& text) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
    }
    return false;
  };
  std::vector<YAML::Node> open{node};
  while (!open.empty()) {
    const YAML::Node next = open.back();
    open.pop_back();
    if (next.IsScalar() && names(next.Scalar())) return next;
    std::vector<YAML::Node> inner;
    if (next.IsSequence()) {
      for (const auto& item : next) inner.push_back(item);
    }
    if (next.IsMap()) {
      for (const auto& entry : next) inner.push_back(entry.second);
    }
    open.insert(open.end(), inner.rbegin(), inner.rend());
  }
  return node;
}

struct Compiled {
  arch::KernelRecord record;
  std::vector<std::string> launches;
  std::vector<std::uint8_t> code;  // empty: none
  std::uint32_t arguments = 0;
};

Compiled compile_one(const YAML::Node& node, const std::string& file, const std::vector<workload::MemoryRegion>& places,
                     const program::LaunchTargets& targets) {
  const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
  ProgramScope scope{places, targets, {}, {}, nullptr};
  Compiled made;
  made.record = read_kernel(map, file, scope);
  if (made.record.name.size() >= arch::kKernelNameBytes) {
    map.fail("name", fmt::format("it has {} bytes, and kernel objects hold {}", made.record.name.size(),
                                 arch::kKernelNameBytes - 1));
  }
  if (!scope.used.empty()) {
    const std::string& used = *scope.used.begin();
    const auto same = [&](const workload::MemoryRegion& place) { return place.name == used; };
    const auto place = std::find_if(places.begin(), places.end(), same);
    if (place->contents.kind == workload::RegionContents::Kind::queue) {
      throw InputError(position(first_with(map.node("program"), used), file),
                       fmt::format("{}: its program names the queue {}, which a scenario has and a file of kernels has "
                                   "not",
                                   map.thing(), used),
                       "run the scenario, or launch a grid in place of a queue task");
    }
    throw InputError(position(first_with(map.node("program"), used), file),
                     fmt::format("{}: its program names {}, and where that lies is known to who launches it only",
                                 map.thing(), used),
                     fmt::format("make it an argument, as in: load: {{to: {}_at, type: u64, at: kernarg}}, and write "
                                 "{}_at where {} stands",
                                 used, used, used));
  }
  if (map.has("demand")) {
    map.fail("demand", "kernels for drivers have a program or a duration; run the scenario itself, with --submit aql");
  }
  if (!map.has("program")) return made;
  made.launches.assign(scope.launched.begin(), scope.launched.end());
  made.code = program::encode_code(made.record, map.node("program"), made.launches, targets);
  if (made.code.size() > arch::kMostCodeBytes) {
    map.fail("program",
             fmt::format("its code has {} bytes, and the machine takes {}", made.code.size(), arch::kMostCodeBytes));
  }
  // What the machine makes of it, it can make here.
  const arch::DecodedCode decoded = program::CodeImage().decode(made.code);
  if (decoded.program == nullptr) map.fail("program", fmt::format("it cannot be taken from its code: {}", decoded.why));
  made.arguments = static_cast<const program::ScenarioProgram&>(*made.record.program).argument_bytes();
  return made;
}

arch::KernelObject object_of(const Compiled& kernel, const MapReader& map, std::uint64_t code) {
  const arch::KernelRecord& record = kernel.record;
  for (const arch::Dim3& extents : record.cluster.extents) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFFFF) map.fail("cluster", "an extent is above 65,535");
  }
  for (const arch::Dim3& extents : record.cluster.fallback) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFFFF) map.fail("cluster", "an extent is above 65,535");
  }
  arch::KernelObject object;
  if (kernel.code.empty()) {
    object.threads_limit = static_cast<std::uint32_t>(record.block.count());
    object.duration = record.duration;
  } else {
    object.code = {code, static_cast<std::uint32_t>(kernel.code.size())};
  }
  object.registers_per_thread = record.registers_per_thread;
  object.static_shared = record.shared_bytes;
  object.cluster = record.cluster;
  object.raster = record.raster;
  object.cooperative = record.cooperative;
  object.name = record.name;
  return object;
}

// Kernel objects in the order of the list, then their code. Addresses are from the image's beginning, until the loader
// adds where it lies.
class ImageWriter {
 public:
  explicit ImageWriter(const std::vector<Compiled>& kernels) {
    std::uint64_t at = kernels.size() * arch::kKernelObjectBytes;
    for (const Compiled& kernel : kernels) {
      if (kernel.code.empty()) {
        codes_.push_back(0);
        continue;
      }
      codes_.push_back(at);
      at += (kernel.code.size() + arch::kCodeAlignment - 1) / arch::kCodeAlignment * arch::kCodeAlignment;
    }
    if (at > kMostImage) throw InputError(fmt::format("the kernels take {} bytes, of at most {}", at, kMostImage));
    image_.resize(at);
  }

  std::uint64_t code(std::size_t kernel) const { return codes_[kernel]; }
  void put(std::uint64_t at, const std::uint8_t* bytes, std::size_t count) {
    std::copy_n(bytes, count, image_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void relocate(std::uint64_t at, std::uint64_t to) { relocations_.emplace(at, to); }
  const std::vector<std::uint8_t>& image() const { return image_; }
  const std::map<std::uint64_t, std::uint64_t>& relocations() const { return relocations_; }

 private:
  std::vector<std::uint64_t> codes_;
  std::vector<std::uint8_t> image_;
  std::map<std::uint64_t, std::uint64_t> relocations_;  // in the order of their places
};

template <std::size_t size>
void append(std::vector<std::uint8_t>& file, const std::array<std::uint8_t, size>& bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

std::array<std::uint8_t, kEntryBytes> entry_of(const Compiled& kernel, std::uint64_t object, std::uint64_t code) {
  std::array<std::uint8_t, kEntryBytes> entry{};
  const arch::KernelRecord& record = kernel.record;
  arch::put_number(entry, 0, 4, object);
  arch::put_number(entry, 4, 4, code);
  arch::put_number(entry, 8, 4, kernel.code.size());
  arch::put_number(entry, 12, 4, kernel.arguments);
  arch::put_number(entry, 16, 4, record.registers_per_thread);
  arch::put_number(entry, 20, 4, record.shared_bytes);
  arch::put_number(entry, 24, 4, record.local_bytes);
  arch::put_number(entry, 28, 2, record.block.x);
  arch::put_number(entry, 30, 2, record.block.y);
  arch::put_number(entry, 32, 2, record.block.z);
  arch::put_number(entry, 36, 4, record.grid.x);
  arch::put_number(entry, 40, 4, record.grid.y);
  arch::put_number(entry, 44, 4, record.grid.z);
  std::copy(record.name.begin(), record.name.end(), entry.begin() + kEntryName);
  return entry;
}

std::vector<std::uint8_t> file_of(const std::vector<Compiled>& kernels, const ImageWriter& writer) {
  std::vector<std::uint8_t> rest;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    append(rest, entry_of(kernels[i], i * arch::kKernelObjectBytes, writer.code(i)));
  }
  for (const auto& [at, to] : writer.relocations()) {
    std::array<std::uint8_t, kRelocationBytes> relocation{};
    arch::put_number(relocation, 0, 4, at);
    arch::put_number(relocation, 4, 4, to);
    append(rest, relocation);
  }
  rest.insert(rest.end(), writer.image().begin(), writer.image().end());
  std::array<std::uint8_t, kFileHead> head{};
  arch::put_number(head, 0, 4, kFileMagic);
  arch::put_number(head, 4, 2, kFileVersion);
  arch::put_number(head, 8, 4, kFileHead + rest.size());
  arch::put_number(head, 12, 4, kernels.size());
  arch::put_number(head, 16, 4, writer.relocations().size());
  arch::put_number(head, 20, 4, writer.image().size());
  arch::put_number(head, 24, 4, crc32(0, rest.data(), static_cast<uInt>(rest.size())));
  std::vector<std::uint8_t> file(head.begin(), head.end());
  file.insert(file.end(), rest.begin(), rest.end());
  return file;
}

YAML::Node kernel_list(const YAML::Node& root, const std::string& file) {
  const bool scenario = root.IsMap() && root["submit"].IsDefined();
  const MapReader map(root, scenario ? scenario_spec() : kernels_file_spec(), scenario ? "scenario" : "file", file);
  const std::string version = std::to_string(kScenarioVersion);
  if (map.has("heddle") && map.text("heddle") != version) {
    map.fail("heddle", fmt::format("this program reads version {}", version));
  }
  if (!map.has("kernels") || !map.node("kernels").IsSequence() || map.node("kernels").size() == 0) {
    throw InputError(map.where(), "there are no kernels to compile", "describe them in the list `kernels`");
  }
  return map.node("kernels");
}

}  // namespace

KernelContainer compile_kernels(const std::string& path, const std::vector<std::string>& settings) {
  return compile_kernel_text(read_text_file(path), path, settings);
}

KernelContainer compile_kernel_text(const std::string& text, const std::string& file,
                                    const std::vector<std::string>& settings) {
  YAML::Node root = load_yaml(text, file);
  apply_parameters(root, settings, file);
  const YAML::Node list = kernel_list(root, file);
  const std::vector<workload::MemoryRegion> places = named_places(root);
  program::LaunchTargets targets;
  std::map<std::string, std::size_t> numbers;
  for (const auto& node : list) {
    const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
    const std::string name = map.name("name");
    if (!numbers.emplace(name, numbers.size()).second) map.fail("name", fmt::format("there are two kernels {}", name));
    targets.emplace(name, program::LaunchTarget{0, read_grid(map), map.has("program"), map.has("cluster")});
  }
  if (list.size() > kMostKernels) {
    throw InputError(position(list, file), fmt::format("{} kernels, and a file holds {}", list.size(), kMostKernels),
                     "write several files");
  }
  std::vector<Compiled> kernels;
  for (const auto& node : list) kernels.push_back(compile_one(node, file, places, targets));
  ImageWriter writer(kernels);
  KernelContainer container;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Compiled& kernel = kernels[i];
    const MapReader map(list[i], kernel_spec(), entry_name("kernel", list[i], "name"), file);
    const std::uint64_t object = i * arch::kKernelObjectBytes;
    const std::uint64_t code = writer.code(i);
    const arch::KernelObjectBytes bytes = arch::encode(object_of(kernel, map, code));
    writer.put(object, bytes.data(), bytes.size());
    if (!kernel.code.empty()) {
      writer.put(code, kernel.code.data(), kernel.code.size());
      writer.relocate(object + arch::kKernelObjectCode, code);
    }
    for (std::size_t link = 0; link < kernel.launches.size(); ++link) {
      writer.relocate(code + program::kCodeHeadBytes + program::kCodeLinkBytes * link,
                      numbers.at(kernel.launches[link]) * arch::kKernelObjectBytes);
    }
    container.kernels.push_back({kernel.record.name, static_cast<std::uint32_t>(kernel.code.size()), kernel.arguments,
                                 kernel.record.registers_per_thread, kernel.record.shared_bytes, kernel.launches});
  }
  container.bytes = file_of(kernels, writer);
  return container;
}

}  // namespace heddle::scenario
