#include "program/code_image.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/byte_codec.h"
#include "common/error.h"
#include "program/map_reader.h"

namespace heddle::program {
namespace {

using Json = nlohmann::ordered_json;  // of names that `let` makes, the order counts

constexpr std::size_t kMostDepth = 100;  // as of YAML files
constexpr std::size_t kMostNodes = 100'000;
constexpr std::int64_t kMostBlock = 65'535;
constexpr std::int64_t kMostWord = 0xFFFF'FFFF;
const char* const kCode = "code";  // what messages call it

constexpr std::pair<const char*, arch::CgaLevel> kLevels[] = {{"cpc", arch::CgaLevel::cpc},
                                                              {"gpc", arch::CgaLevel::gpc},
                                                              {"ugpu", arch::CgaLevel::ugpu},
                                                              {"gpu", arch::CgaLevel::gpu}};

const MapSpec& code_spec() {
  static const MapSpec kSpec{"code",
                             {
                                 {"name", true, kText, "name of the kernel"},
                                 {"block", true, kList, "threads of a CTA: x, y, z"},
                                 {"registers", true, kInteger, "registers per thread; 0: as many as the program needs"},
                                 {"shared", true, kInteger, "shared memory of a CTA, bytes"},
                                 {"local", true, kInteger, "local memory of a thread, bytes"},
                                 {"cooperative", true, kFlag, "the CTAs of a grid are resident at once"},
                                 {"levels", true, kList, "levels of CGAs that it has: cpc, gpc, ugpu, gpu"},
                                 {"launches", true, kList, "kernels that it launches, in the order of the links"},
                                 {"program", true, kList, "the steps, as a scenario has them"},
                             },
                             ""};
  return kSpec;
}

const MapSpec& launch_spec() {
  static const MapSpec kSpec{"launched kernel",
                             {
                                 {"name", true, kText, "as the steps name it"},
                                 {"grid", true, kList, "its own grid: x, y, z"},
                                 {"program", true, kFlag, "it has a program"},
                                 {"clusters", true, kFlag, "it has clusters"},
                             },
                             ""};
  return kSpec;
}

Json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.Scalar()] = json_of(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push_back(json_of(item));
    return list;
  }
  return node.IsScalar() ? node.Scalar() : "";
}

Json json_of(const arch::Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

std::uint64_t number_at(const std::vector<std::uint8_t>& code, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{code[at + i]} << 8 * i;
  return value;
}

// CBOR as the tree that a YAML file would be: text, lists, and maps whose keys are different texts.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  YAML::Node take() { return root_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return fail("a null"); }
  bool boolean(bool value) override { return put(YAML::Node(value ? "true" : "false")); }
  bool number_integer(number_integer_t value) override { return put(YAML::Node(std::to_string(value))); }
  bool number_unsigned(number_unsigned_t value) override { return put(YAML::Node(std::to_string(value))); }
  bool number_float(number_float_t, const string_t&) override { return fail("a floating-point number"); }
  bool string(string_t& value) override { return put(YAML::Node(value)); }
  bool binary(binary_t&) override { return fail("a byte string"); }
  bool start_object(std::size_t) override { return open(YAML::NodeType::Map); }
  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) return fail("a key that stands twice in one map");
    open_.back().key = value;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(YAML::NodeType::Sequence); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("byte {}, at which it is no CBOR", at).c_str());
  }

 private:
  struct Open {
    YAML::Node node;
    std::set<std::string> keys;
    std::string key;
  };

  bool fail(const char* what) {
    if (problem_.empty()) problem_ = fmt::format("it has {}", what);
    return false;
  }
  bool put(const YAML::Node& node) {
    if (++nodes_ > kMostNodes) return fail("too many values");
    if (open_.empty()) {
      root_.reset(node);
    } else if (open_.back().node.IsMap()) {
      open_.back().node.force_insert(YAML::Node(open_.back().key), node);
    } else {
      open_.back().node.push_back(node);
    }
    return true;
  }
  bool open(YAML::NodeType::value type) {
    if (open_.size() == kMostDepth) return fail("lists that are too deep in one another");
    const YAML::Node node(type);
    if (!put(node)) return false;
    open_.push_back({node, {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  YAML::Node root_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
  std::string problem_;
};

[[noreturn]] void refuse(const std::string& why) { throw InputError(SourcePos{kCode, 0, 0}, why); }

arch::Dim3 read_dim(const MapReader& map, const char* key, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  const std::vector<YAML::Node> items = map.items(key);
  if (items.size() != 3) map.fail(key, "three numbers are expected");
  const auto number = [&](std::size_t i, std::uint32_t most) {
    return map.number<std::uint32_t>(key, items[i], {Unit::count, 1, most});
  };
  return {number(0, x), number(1, y), number(2, z)};
}

std::uint32_t read_word(const MapReader& map, const char* key) {
  return map.number<std::uint32_t>(key, {Unit::count, 0, kMostWord});
}

LaunchTargets read_links(const MapReader& map, const std::vector<std::uint8_t>& code, const std::string& file) {
  LaunchTargets targets;
  const std::vector<YAML::Node> items = map.items("launches");
  if (items.size() != number_at(code, 6, 2)) map.fail("launches", "their number is not that of the links");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const MapReader launched(items[i], launch_spec(), "code, launches", file);
    LaunchTarget target;
    target.address = number_at(code, kCodeHeadBytes + kCodeLinkBytes * i, kCodeLinkBytes);
    target.grid = read_dim(launched, "grid", arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ);
    target.program = launched.flag("program");
    target.clusters = launched.flag("clusters");
    if (!targets.emplace(launched.name("name"), target).second) launched.fail("name", "it stands twice");
  }
  return targets;
}

// Whether the bytes are items whose lengths stand before them, as encode_code() writes them. The library follows
// strings in pieces by calling itself, as deep as there are pieces.
bool has_definite_lengths(const std::vector<std::uint8_t>& code, std::size_t at) {
  constexpr std::size_t kString = 2, kText = 3, kTag = 6;  // major types
  constexpr std::uint8_t kByte = 24, kLongest = 27;        // what stands for the number of bytes that follow
  while (at < code.size()) {
    const std::size_t major = code[at] >> 5;
    const std::uint8_t small = code[at] & 31U;
    ++at;
    if (small > kLongest || major == kTag) return false;
    const std::size_t wide = small < kByte ? 0 : std::size_t{1} << (small - kByte);
    if (code.size() - at < wide) return true;  // the end is missing: the library says so
    std::uint64_t value = small;
    for (std::size_t i = 0; i < wide; ++i) value = (i == 0 ? 0 : value << 8) | code[at + i];
    at += wide;
    if (major != kString && major != kText) continue;
    if (code.size() - at < value) return true;
    at += static_cast<std::size_t>(value);
  }
  return true;
}

YAML::Node read_tree(const std::vector<std::uint8_t>& code) {
  if (code.size() < kCodeHeadBytes || number_at(code, 0, 4) != kCodeMagic) refuse("it does not begin with HDLC");
  if (number_at(code, 4, 2) != kCodeVersion) {
    refuse(fmt::format("it has version {}, and this machine reads version {}", number_at(code, 4, 2), kCodeVersion));
  }
  const std::size_t begin = kCodeHeadBytes + kCodeLinkBytes * number_at(code, 6, 2);
  if (code.size() < begin || code.size() - begin != number_at(code, 8, 4) || number_at(code, 12, 4) != 0) {
    refuse("what its head says of its length is not so");
  }
  if (!has_definite_lengths(code, begin)) refuse("it is no CBOR with a length before every item, and without tags");
  TreeBuilder builder;
  const auto first = code.begin() + static_cast<std::ptrdiff_t>(begin);
  if (!Json::sax_parse(first, code.end(), &builder, Json::input_format_t::cbor)) refuse(builder.problem());
  return builder.take();
}

arch::DecodedCode compile(const std::vector<std::uint8_t>& code) {
  const std::string file = kCode;
  const YAML::Node root = read_tree(code);
  const MapReader map(root, code_spec(), kCode, file);
  arch::KernelRecord kernel;
  kernel.name = map.name("name");
  kernel.block = read_dim(map, "block", kMostBlock, kMostBlock, kMostBlock);
  kernel.registers_per_thread = read_word(map, "registers");
  kernel.shared_bytes = read_word(map, "shared");
  kernel.local_bytes = read_word(map, "local");
  kernel.cooperative = map.flag("cooperative");
  for (const YAML::Node& item : map.items("levels")) {
    const auto level = std::find_if(std::begin(kLevels), std::end(kLevels),
                                    [&](const auto& one) { return item.IsScalar() && item.Scalar() == one.first; });
    if (level == std::end(kLevels)) map.fail("levels", item, "there is no such level");
    kernel.cluster.of(level->second) = {1, 1, 1};
  }
  const LaunchTargets targets = read_links(map, code, file);
  const std::vector<workload::MemoryRegion> none;
  TextBudget budget{kMostText, 0};
  CompiledProgram compiled = compile_program(map.node("program"), file, kernel, none, targets, budget);
  return {std::move(compiled.program), {}, kernel, budget.used};
}

}  // namespace

std::vector<std::uint8_t> encode_code(const arch::KernelRecord& kernel, const YAML::Node& steps,
                                      const std::vector<std::string>& launched, const LaunchTargets& targets) {
  Json json = Json::object();
  json["name"] = kernel.name;
  json["block"] = json_of(kernel.block);
  json["registers"] = kernel.registers_per_thread;
  json["shared"] = kernel.shared_bytes;
  json["local"] = kernel.local_bytes;
  json["cooperative"] = kernel.cooperative;
  json["levels"] = Json::array();
  for (const auto& [name, level] : kLevels) {
    if (kernel.cluster.has(level)) json["levels"].push_back(name);
  }
  json["launches"] = Json::array();
  for (const std::string& name : launched) {
    const LaunchTarget& target = targets.at(name);
    Json entry = Json::object();
    entry["name"] = name;
    entry["grid"] = json_of(target.grid);
    entry["program"] = target.program;
    entry["clusters"] = target.clusters;
    json["launches"].push_back(std::move(entry));
  }
  json["program"] = json_of(steps);
  const std::vector<std::uint8_t> body = Json::to_cbor(json);
  HEDDLE_CHECK(launched.size() <= kMostLinks, "a program that launches too many kernels");
  std::array<std::uint8_t, kCodeHeadBytes> head{};
  arch::put_number(head, 0, 4, kCodeMagic);
  arch::put_number(head, 4, 2, kCodeVersion);
  arch::put_number(head, 6, 2, launched.size());
  arch::put_number(head, 8, 4, body.size());
  std::vector<std::uint8_t> code(head.begin(), head.end());
  code.resize(code.size() + kCodeLinkBytes * launched.size());
  code.insert(code.end(), body.begin(), body.end());
  return code;
}

arch::DecodedCode CodeImage::decode(const std::vector<std::uint8_t>& code) const {
  try {
    return compile(code);
  } catch (const InputError& error) {
    return {nullptr, error.remedy().empty() ? error.message() : error.message() + "; " + error.remedy(), {}, 0};
  } catch (const YAML::Exception& error) {
    return {nullptr, error.what(), {}, 0};
  }
}

}  // namespace heddle::program
