#include "scenario/scenario_memory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/expression.h"
#include "program/program_names.h"
#include "program/program_values.h"
#include "program/step_table.h"
#include "scenario/memory_region.h"
#include "scenario/ptx_kernels.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

using arch::ValueType;

void refuse_others(const MapReader& map, const std::vector<const char*>& keys, const char* why) {
  for (const char* key : keys) {
    if (map.has(key)) map.fail(key, why);
  }
}

void read_random(const MapReader& map, RegionContents& contents) {
  contents.seed = map.number<std::uint64_t>("random", {});
  contents.integer = map.has("integer") ? map.flag("integer") : !is_float(contents.type);
  const Limits<double> limits{Unit::none, -1e300, 1e300};
  if (map.has("min")) contents.min = map.number("min", limits);
  if (map.has("max")) contents.max = map.number("max", limits);
  if (contents.min > contents.max) map.fail(map.has("min") ? "min" : "max", "min is larger than max");
  if (contents.integer && (contents.min != std::trunc(contents.min) || contents.max != std::trunc(contents.max))) {
    map.fail(map.has("max") ? "max" : "min", "whole numbers go from one whole number to another");
  }
}

RegionContents read_contents(const MapReader& region, const std::string& file) {
  RegionContents contents;
  const YAML::Node node = region.node("init");
  contents.where = region.where("init");
  if (!node.IsMap()) {
    if (region.text("init") != "zeros") {
      region.fail("init", "zeros, or one of {pattern: …}, {random: …}, {file: …}, are expected");
    }
    return contents;
  }
  const MapReader map(node, init_spec(), region.thing() + ", init", file);
  if (map.has("pattern") + map.has("random") + map.has("file") != 1) {
    throw InputError(map.where(), fmt::format("{}: one of pattern, random, file is expected", map.thing()),
                     "as in: init: {random: 1, type: f16}");
  }
  if (!map.has("random")) refuse_others(map, {"min", "max", "integer"}, "only random contents have it");
  if (map.has("file")) {
    refuse_others(map, {"type"}, "a file has bytes");
    contents.kind = RegionContents::Kind::file;
    contents.file = beside_scenario(file, map.name("file"));
    return contents;
  }
  contents.type = map.has("type") ? element_type(map) : ValueType::f32;
  if (map.has("random")) {
    contents.kind = RegionContents::Kind::random;
    read_random(map, contents);
    return contents;
  }
  contents.kind = RegionContents::Kind::pattern;
  contents.pattern = map.text("pattern");
  contents.where = map.where("pattern");
  check_pattern(contents.pattern, contents.where);
  return contents;
}

void read_size(const MapReader& map, MemoryRegion& region) {
  const bool from_file = region.contents.kind == RegionContents::Kind::file;
  const std::uint64_t file = from_file ? file_size(map, "init", region.contents.file) : 0;
  if (map.has("bytes")) {
    region.bytes = map.number<std::uint64_t>("bytes", {Unit::bytes, 1, kMaxRegionEnd});
  } else if (from_file && file > 0) {
    region.bytes = file;
  } else {
    throw InputError(map.where(), fmt::format("{}: the key \"bytes\" is missing", map.thing()), "as in: bytes: 4 MiB");
  }
  if (from_file && file != region.bytes) {
    map.fail("init", fmt::format("{} has {} bytes, the region {}", region.contents.file, file, region.bytes));
  }
  const RegionContents::Kind kind = region.contents.kind;
  const std::uint32_t size = arch::bytes_of(region.contents.type);
  if ((kind == RegionContents::Kind::pattern || kind == RegionContents::Kind::random) && region.bytes % size != 0) {
    map.fail("bytes", fmt::format("not a whole number of elements of {} bytes", size));
  }
}

bool overlap(const MemoryRegion& a, const MemoryRegion& b) {
  return a.gpu == b.gpu && a.subcontext == b.subcontext && a.address < b.address + b.bytes &&
         b.address < a.address + a.bytes;
}

// Where a region goes that names no address.
struct Wanted {
  bool placed = false;
  std::uint64_t align = kRegionAlignment;
};

// Where regions of the same kind begin that name no address.
std::uint64_t first_address(const MemoryRegion& region, const arch::Instances& instances) {
  if (region.subcontext || !region.instance) return kFirstRegion;
  return std::max(kFirstRegion, instances.base(*region.instance));
}

void place(std::vector<MemoryRegion>& regions, const std::vector<Wanted>& wanted,
           const std::vector<arch::Instances>& instances) {
  // Of every address space, and of the memory of every instance.
  std::map<std::tuple<std::size_t, std::optional<std::uint8_t>, std::optional<std::uint32_t>>, std::uint64_t> next;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    MemoryRegion& region = regions[i];
    if (wanted[i].placed) continue;
    const auto kind = std::make_tuple(region.gpu, region.subcontext, region.instance);
    std::uint64_t& address = next.emplace(kind, first_address(region, instances[region.gpu])).first->second;
    // Beyond every region with an address of its own that it would lie in; each of them is passed at most once.
    for (bool moved = true; moved;) {
      address = (address + wanted[i].align - 1) / wanted[i].align * wanted[i].align;
      region.address = address;
      moved = false;
      for (std::size_t k = 0; k < regions.size(); ++k) {
        if (!wanted[k].placed || !overlap(region, regions[k])) continue;
        address = regions[k].address + regions[k].bytes;
        moved = true;
      }
    }
    address += region.bytes;
    if (address > kMaxRegionEnd) {
      throw InputError(region.where, fmt::format("memory {}: there is no room for it", region.name),
                       "make the regions smaller");
    }
  }
}

void check_overlaps(const std::vector<MemoryRegion>& regions) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!overlap(regions[i], regions[k])) continue;
      throw InputError(regions[i].where,
                       fmt::format("memory {}: it overlaps memory {}", regions[i].name, regions[k].name),
                       "leave out `at`, and it finds a place");
    }
  }
}

// Where a GPU has instances, memory is one's: that of the subcontext, or the one that is named.
void read_instance(const MapReader& map, const MemoryLists& lists, MemoryRegion& region) {
  const arch::Instances& instances = lists.instances[region.gpu];
  if (region.subcontext) {
    if (map.has("instance")) map.fail("instance", "the region lies where its subcontext does");
    for (const Subcontext& one : lists.subcontexts[region.gpu]) {
      if (one.id == *region.subcontext) region.instance = one.instance;
    }
    return;
  }
  if (map.has("instance") && !instances.any()) {
    throw InputError(map.where("instance"), fmt::format("{}: gpu{} has no instances", map.thing(), region.gpu),
                     "config: {gpu: {instances: […]}}");
  }
  if (!instances.any()) return;
  if (!map.has("instance")) {
    throw InputError(
        map.where(),
        fmt::format("{}: gpu{} has instances, and it does not say in whose memory it lies", map.thing(), region.gpu),
        "give it one, as in: instance: 0");
  }
  region.instance = map.number<std::uint32_t>("instance", {Unit::none, 0, instances.count() - 1});
}

void check_instances(const std::vector<MemoryRegion>& regions, const std::vector<arch::Instances>& instances) {
  for (const MemoryRegion& region : regions) {
    if (region.subcontext || !region.instance) continue;
    const std::uint64_t begin = instances[region.gpu].base(*region.instance);
    const std::uint64_t end = instances[region.gpu].base(*region.instance + 1);
    if (region.address >= begin && region.address + region.bytes <= end) continue;
    throw InputError(
        region.where,
        fmt::format("memory {}: bytes {} to {} are not all of instance {}, which has {} to {}", region.name,
                    region.address, region.address + region.bytes - 1, *region.instance, begin, end - 1),
        "make the regions of the instance smaller, or give it more memory");
  }
}

Wanted read_place(const MapReader& map, MemoryRegion& region) {
  Wanted wanted;
  if (region.subcontext) wanted.align = kTranslatedPage;
  if (map.has("align")) wanted.align = map.number<std::uint64_t>("align", {Unit::bytes, 1, std::uint64_t{1} << 30});
  if ((wanted.align & (wanted.align - 1)) != 0) map.fail("align", "a power of two is expected");
  if (!map.has("at")) return wanted;
  wanted.placed = true;
  region.address = map.number<std::uint64_t>("at", {Unit::none, 0, kMaxRegionEnd - region.bytes});
  if (map.has("align") && region.address % wanted.align != 0) map.fail("at", "not a multiple of `align`");
  return wanted;
}

// `subcontext` and `access`.
void read_space(const MapReader& map, const std::vector<Subcontext>& subcontexts, MemoryRegion& region) {
  if (!map.has("subcontext")) {
    if (map.has("access")) map.fail("access", "only a region of a translated subcontext has it");
    return;
  }
  const auto id =
      static_cast<std::uint8_t>(map.number<std::uint32_t>("subcontext", {Unit::none, 0, arch::kSubcontexts - 1}));
  const auto same = [id](const Subcontext& one) { return one.id == id && one.translated; };
  if (std::none_of(subcontexts.begin(), subcontexts.end(), same)) {
    throw InputError(
        map.where("subcontext"),
        fmt::format("{}: subcontext {} has no address space of its own on gpu{}", map.thing(), id, region.gpu),
        fmt::format("subcontexts: [{{id: {}, translated: true}}]", id));
  }
  region.subcontext = id;
  if (!map.has("access")) return;
  region.read_only = choose(map, "access", std::vector<std::string>{"write", "read"},
                            [](const std::string& s) { return s; }) == "read";
}

// Of a region, or of a tensor, whose descriptor is one.
void check_name(const MapReader& map, const std::string& name, const std::vector<MemoryRegion>& regions) {
  if (regions.size() == kMaxRegions) map.fail("name", fmt::format("more than {} regions and tensors", kMaxRegions));
  const std::vector<std::string>& built_in = built_in_names();
  if (!usable_name(name) || std::find(built_in.begin(), built_in.end(), name) != built_in.end()) {
    map.fail("name", fmt::format("\"{}\" cannot be used in expressions", name));
  }
  for (const MemoryRegion& other : regions) {
    if (other.name == name) map.fail("name", fmt::format("there are two regions or tensors {}", name));
  }
}

// Queues and kernel objects lie together, at an address that nothing else has in any address space.
void add_own(const MemoryLists& lists, const std::string& file, std::vector<MemoryRegion>& regions) {
  const auto round_up = [](std::uint64_t bytes) {
    return (bytes + kTranslatedPage - 1) / kTranslatedPage * kTranslatedPage;
  };
  std::vector<MemoryRegion> own;
  std::uint64_t total = 0;
  const auto add = [&](MemoryRegion region) {
    region.address = total;
    own.push_back(std::move(region));
  };
  // Whoever uses a queue of another subcontext's page could reach that as well (PRT-08).
  const bool translated = std::any_of(lists.subcontexts.begin(), lists.subcontexts.end(), [](const auto& gpu) {
    return std::any_of(gpu.begin(), gpu.end(), [](const Subcontext& subcontext) { return subcontext.translated; });
  });
  const std::uint64_t unit = translated ? kTranslatedPage : arch::kRecordBytes;
  for (const auto& node : lists.queues) {
    const MapReader map(node, queue_spec(), entry_name("queue", node, "name"), file);
    check_name(map, map.name("name"), regions);
    check_name(map, map.name("name"), own);
    add(read_queue(map, file, lists.subcontexts.size()));
    total += (own.back().bytes + unit - 1) / unit * unit;
  }
  // No address space can write to them (PRT-08).
  total = round_up(total);
  for (std::size_t gpu = 0; lists.kernels > 0 && gpu < lists.subcontexts.size(); ++gpu) {
    MemoryRegion objects;
    objects.name = kKernelObjects;
    objects.gpu = gpu;
    objects.bytes = lists.kernels * arch::kKernelObjectBytes;
    objects.contents.kind = RegionContents::Kind::kernels;
    objects.where = {file, 0, 0};
    add(std::move(objects));
  }
  total += lists.kernels * arch::kKernelObjectBytes;
  if (own.empty()) return;
  // All instances use them: behind the memories of all.
  std::uint64_t base = kFirstRegion;
  for (const arch::Instances& of_gpu : lists.instances) base = std::max(base, of_gpu.base(of_gpu.count()));
  for (bool moved = true; moved;) {
    moved = false;
    for (const MemoryRegion& other : regions) {
      const std::uint64_t end = round_up(other.address + other.bytes);
      if (other.address / kTranslatedPage * kTranslatedPage >= base + round_up(total) || end <= base) continue;
      base = end;
      moved = true;
    }
  }
  if (base + total > kMaxRegionEnd) {
    throw InputError(own.front().where, "there is no room for queues and kernel objects", "make the regions smaller");
  }
  for (MemoryRegion& region : own) {
    region.address += base;
    regions.push_back(std::move(region));
  }
}

}  // namespace

const MemoryRegion& named_region(const MapReader& map, const std::vector<MemoryRegion>& regions) {
  const std::string wanted = map.name("memory");
  std::vector<std::string> names;
  for (const MemoryRegion& region : regions) {
    if (region.name == wanted) return region;
    names.push_back(region.name);
  }
  throw InputError(map.where("memory"), fmt::format("{}: there is no memory {}", map.thing(), wanted),
                   names.empty() ? "describe it in the list `memory`" : suggestion(wanted, names));
}

arch::ValueType element_type(const MapReader& map) {
  const std::string name = map.text("type");
  if (const std::optional<ValueType> type = scalar_type(name)) return *type;
  std::vector<std::string> names;
  for (const ValueType type : scalar_types()) names.emplace_back(arch::type_name(type));
  throw InputError(map.where("type"), fmt::format("{}, type: there is no type {}", map.thing(), name),
                   suggestion(name, names));
}

std::uint64_t file_size(const MapReader& map, const char* key, const std::string& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const std::uint64_t size = regular ? std::filesystem::file_size(path, error) : 0;
  if (!regular || error) {
    const bool folder = std::filesystem::is_directory(path, error);
    throw InputError(
        map.where(key),
        fmt::format("{}, {}: {}", map.thing(), key,
                    folder ? fmt::format("{} is a folder", path) : fmt::format("there is no file {}", path)),
        "names of files are relative to the scenario's folder; make the file, or give its whole path");
  }
  return size;
}

std::vector<MemoryRegion> read_memory(const MemoryLists& lists, const std::string& file) {
  const YAML::Node& tensors = lists.tensors;
  const std::size_t gpus = lists.subcontexts.size();
  std::vector<MemoryRegion> regions;
  std::vector<Wanted> wanted;
  for (const auto& node : lists.memory) {
    const MapReader map(node, memory_spec(), entry_name("memory", node, "name"), file);
    MemoryRegion region;
    region.name = map.name("name");
    region.where = map.where();
    check_name(map, region.name, regions);
    if (map.has("gpu")) region.gpu = map.number<std::size_t>("gpu", {Unit::none, 0, gpus - 1});
    read_space(map, lists.subcontexts[region.gpu], region);
    read_instance(map, lists, region);
    if (map.has("init")) region.contents = read_contents(map, file);
    read_size(map, region);
    wanted.push_back(read_place(map, region));
    if (map.has("shared")) region.shared = map.flag("shared");
    if (region.shared && region.subcontext) map.fail("shared", "addresses over links are not translated");
    if (map.has("write")) region.write = map.name("write");
    for (const MemoryRegion& other : regions) {
      if (region.write && region.write == other.write) {
        map.fail("write", fmt::format("memory {} is written to the same file", other.name));
      }
    }
    regions.push_back(std::move(region));
  }
  // Tensors name regions only, so what follows `own` cannot be meant.
  const std::size_t own = regions.size();
  for (const auto& node : tensors) {
    const MapReader map(node, tensor_spec(), entry_name("tensor", node, "name"), file);
    check_name(map, map.name("name"), regions);
    regions.push_back(tensor_region(map, regions, own));
    wanted.push_back({false, kTensorAlignment});
  }
  if (lists.ptx != nullptr) {
    for (MemoryRegion& region : lists.ptx->regions(regions)) {
      wanted.push_back({false, region.subcontext ? kTranslatedPage : kRegionAlignment});
      regions.push_back(std::move(region));
    }
  }
  place(regions, wanted, lists.instances);
  check_overlaps(regions);
  check_instances(regions, lists.instances);
  add_own(lists, file, regions);
  std::size_t next = own;
  for (const auto& node : tensors) {
    const MapReader map(node, tensor_spec(), entry_name("tensor", node, "name"), file);
    regions[next].contents.tensor = read_tensor(map, file, regions, own);
    ++next;
  }
  return regions;
}

}  // namespace heddle::scenario
