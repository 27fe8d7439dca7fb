#include "scenario/schema.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "common/suggest.h"
#include "common/yaml_util.h"

namespace heddle::workload {
namespace {

// Keys that every operation has, behind the ones of its own.
std::vector<KeySpec> with_common_keys(std::vector<KeySpec> keys) {
  const KeySpec common[] = {
      {"stream", true, kText, "name of the stream; operations of one stream run in the order of the file"},
      {"id", false, kText, "name by which `after` refers to the operation"},
      {"at", false, kInteger | kQuantity, "time with unit when the host submits it, e.g. 10 us; default 0"},
      {"after", false, kText | kList, "id, or list of ids, of operations that must be complete before this one starts"},
      {"repeat", false, kInteger, "how many times it is submitted; `after: <id>` then means the last one; default 1"},
  };
  keys.insert(keys.end(), std::begin(common), std::end(common));
  return keys;
}

std::string kinds_text(unsigned kinds) {
  std::vector<std::string> names;
  if ((kinds & kText) != 0) names.emplace_back("text");
  if ((kinds & kQuantity) != 0) {
    names.emplace_back("a number with unit");
  } else if ((kinds & kNumber) != 0) {
    names.emplace_back("a number");
  } else if ((kinds & kInteger) != 0) {
    names.emplace_back("an integer");
  }
  if ((kinds & kFlag) != 0) names.emplace_back("true or false");
  if ((kinds & kList) != 0) names.emplace_back("a list");
  if ((kinds & kMap) != 0) names.emplace_back("a map");
  return fmt::format("{}", fmt::join(names, " or "));
}

bool allowed(const YAML::Node& node, unsigned kinds) {
  if (node.IsMap()) return (kinds & kMap) != 0;
  if (node.IsSequence()) return (kinds & kList) != 0;
  return node.IsScalar() && (kinds & (kText | kInteger | kNumber | kQuantity | kFlag)) != 0;
}

}  // namespace

const MapSpec& scenario_spec() {
  static const MapSpec kSpec{
      "scenario",
      {
          {"heddle", true, kInteger, "version of the format: 1"},
          {"name", false, kText, "title of the scenario; default: the file's name"},
          {"description", false, kText, "what the scenario shows"},
          {"gpu", false, kText | kMap, "preset of the one GPU; default h100-sxm"},
          {"gpus", false, kList, "list of presets, one per GPU, instead of `gpu`"},
          {"config", false, kMap, "parameters, under gpu (all GPUs), gpu0, gpu1, …; see `heddle show params`"},
          {"seed", false, kInteger, "seed of everything random; the command line wins"},
          {"memory", false, kList, "list of regions of memory that programs use, with what they hold"},
          {"tensors", false, kList, "list of tensors in these regions, as the tensor memory access unit knows them"},
          {"queues", false, kList, "list of queues in memory that queue tasks take their entries from"},
          {"kernels", false, kList, "list of kernels"},
          {"streams", false, kList, "list of streams; one that is used and not listed has priority 0 on gpu 0"},
          {"submit", true, kList | kMap,
           "list of operations, in the order in which the host submits them; or {by: aql, operations: …}: by packets"},
          {"load", false, kList, "list of what SMs hold when the run begins, beside the work that is submitted"},
          {"tpcs", false, kList, "list of TPCs that begin or cease to receive work"},
          {"subcontexts", false, kList, "list of subcontexts (processes), with what they may use of the machine"},
          {"share", false, kList, "list of changes of how subcontexts share the machine"},
          {"expect", false, kList,
           "list of what must come out: statistics, contents of memory, device faults, no progress"},
      }};
  return kSpec;
}

const MapSpec& gpu_spec() {
  static const MapSpec kSpec{"gpu", {{"preset", true, kText, "name of a preset; see `heddle show presets`"}}};
  return kSpec;
}

const MapSpec& kernel_spec() {
  static const MapSpec kSpec{
      "kernel",
      {
          {"name", true, kText, "name of the kernel"},
          {"grid", true, kInteger | kList, "CTAs of the grid: an integer, or a list of up to three (x, y, z)"},
          {"block", true, kInteger | kList, "threads of a CTA: an integer, or a list of up to three (x, y, z)"},
          {"cycles", false, kInteger | kQuantity | kMap,
           "how long a CTA runs, in SM cycles: an integer, or {min: …, max: …}; instead of `program`"},
          {"program", false, kList, "list of steps that every warp executes, instead of `cycles`"},
          {"registers", false, kInteger,
           "registers per thread; default 0: not limited by them; with a program: as many as it needs"},
          {"shared", false, kInteger | kQuantity,
           "shared memory of a CTA, in bytes or with unit, e.g. 48 KiB; default 0"},
          {"local", false, kInteger | kQuantity,
           "local memory of a thread, in bytes or with unit, e.g. 512 B; default 0"},
          {"subcontext", false, kInteger, "number of the subcontext that launches it, 0 to 63; default 0"},
          {"cluster", false, kInteger | kList | kMap,
           "CTAs of a GPC_CGA: an integer, or a list of up to three (x, y, z); or a map with more levels; default: "
           "none"},
      }};
  return kSpec;
}

const MapSpec& cluster_spec() {
  static const MapSpec kSpec{
      "cluster",
      {
          {"gpu", false, kInteger | kList, "CTAs of a GPU_CGA: an integer, or a list of up to three (x, y, z)"},
          {"ugpu", false, kInteger | kList, "CTAs of a uGPU_CGA: an integer, or a list of up to three (x, y, z)"},
          {"gpc", false, kInteger | kList, "CTAs of a GPC_CGA: an integer, or a list of up to three (x, y, z)"},
          {"cpc", false, kInteger | kList, "CTAs of a CPC_CGA: an integer, or a list of up to three (x, y, z)"},
          {"mode", false, kText,
           "multicast (at most one CTA of a CGA on an SM) or load_balancing (the least loaded SMs); default multicast"},
          {"fallback", false, kList,
           "list of up to four smaller sizes of the outermost CGA, in the order of trying, e.g. [[4, 1, 1], [2, 1, "
           "1]]"},
          {"linear_memory", false, kFlag, "true: every outermost CGA takes a CGA memory slot; default false"},
      }};
  return kSpec;
}

const MapSpec& cycles_spec() {
  static const MapSpec kSpec{"cycles",
                             {
                                 {"min", true, kInteger | kQuantity, "shortest duration of a CTA, in SM cycles"},
                                 {"max", true, kInteger | kQuantity, "longest duration of a CTA, in SM cycles"},
                             }};
  return kSpec;
}

const MapSpec& stream_spec() {
  static const MapSpec kSpec{"stream",
                             {
                                 {"name", true, kText, "name of the stream"},
                                 {"priority", false, kInteger, "priority: larger is more urgent; default 0"},
                                 {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
                             }};
  return kSpec;
}

const MapSpec& submission_spec() {
  static const MapSpec kSpec{
      "submission",
      {
          {"by", true, kText, "aql: packets of user-mode queues, one queue per stream"},
          {"format", false, kText,
           "plain (a dispatch packet per kernel), reference (the first launch of every kernel is a reference packet) "
           "or "
           "condensed (kernels share condensed packets); default plain"},
          {"queues", false, kText, "host or device: where rings, read indices and signals lie; default host"},
          {"copies", false, kText,
           "recorded (copies and fills hold their queue for their time) or engines (the copy engines move their "
           "bytes); "
           "default recorded"},
          {"signals", false, kText,
           "each (every packet of kernels has fences of system scope and a completion signal) or needed (only what "
           "somebody waits for); default each"},
          {"batch", false, kInteger, "most kernels that are condensed together; default 64"},
          {"operations", true, kList, "list of operations, in the order in which the host submits them"},
      }};
  return kSpec;
}

const MapSpec& kernel_op_spec() {
  static const MapSpec kSpec{
      "kernel_op",
      with_common_keys(
          {{"kernel", true, kText, "name of a kernel of the list `kernels`"},
           {"args", false, kText | kList,
            "expression, or list of expressions, over the names of memory: the 64-bit words of the kernel's "
            "arguments, at the address `kernarg`; by packets only"},
           {"priority", false, kInteger, "priority: larger is more urgent; default: that of the stream"},
           {"insert", false, kText, "tail or head: where it enters the list of its priority; default tail"},
           {"queue", false, kText,
            "name of a queue of the list `queues`: a CTA runs for each of its entries, whatever the kernel's grid"},
           {"until", false, kText | kList,
            "with queue: id, or list of ids, of operations that may append to it: it stays open until they have "
            "ended"}})};
  return kSpec;
}

const MapSpec& copy_op_spec() {
  static const MapSpec kSpec{"copy_op",
                             with_common_keys({{"copy", true, kInteger | kQuantity, "bytes copied, e.g. 1 MiB"},
                                               {"for", true, kInteger | kQuantity,
                                                "time with unit for which the copy holds its stream, e.g. 3 us"},
                                               {"direction", false, kText,
                                                "host_to_device, device_to_host or device_to_device, for copy engines; "
                                                "default host_to_device"}})};
  return kSpec;
}

const MapSpec& fill_op_spec() {
  static const MapSpec kSpec{"fill_op",
                             with_common_keys({{"fill", true, kInteger | kQuantity, "bytes filled, e.g. 4 KiB"},
                                               {"for", true, kInteger | kQuantity,
                                                "time with unit for which the fill holds its stream, e.g. 1 us"}})};
  return kSpec;
}

const MapSpec& group_op_spec() {
  static const MapSpec kSpec{
      "group_op",
      {
          {"group", true, kList, "list of operations without `id` and `after`, that are submitted one after another"},
          {"repeat", false, kInteger, "how many times the whole list is submitted; default 1"},
      }};
  return kSpec;
}

const MapSpec& load_spec() {
  static const MapSpec kSpec{
      "load",
      {
          {"sms", false, kInteger | kList, "id of an SM, or list of ids; default, without `gpcs`: all SMs"},
          {"gpcs", false, kInteger | kList, "number of a GPC, or list of numbers: all their SMs, instead of `sms`"},
          {"kernel", true, kText, "name of a kernel of the list `kernels`: whose CTAs the SMs hold"},
          {"ctas", true, kInteger, "how many of its CTAs each of these SMs holds"},
          {"until", false, kInteger | kQuantity, "time with unit when they leave, e.g. 10 us; default: never"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
      }};
  return kSpec;
}

const MapSpec& tpc_spec() {
  static const MapSpec kSpec{
      "tpc",
      {
          {"gpc", true, kInteger, "number of the GPC, from 0"},
          {"tpc", true, kInteger, "number of the TPC in its GPC, from 0"},
          {"enabled", true, kFlag, "true: it begins to receive work; false: it ceases to, and finishes what it has"},
          {"at", false, kInteger | kQuantity, "time with unit when it does, e.g. 5 us; default 0"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
      }};
  return kSpec;
}

const MapSpec& expect_spec() {
  static const MapSpec kSpec{
      "expect",
      {
          {"stat", true, kText, "path of a statistic, e.g. gpu0.cwd.ctas_launched"},
          {"equals", false, kNumber, "number that the statistic must have, in the statistic's own unit"},
          {"min", false, kNumber, "smallest number allowed, in the statistic's own unit"},
          {"max", false, kNumber, "largest number allowed, in the statistic's own unit"},
          {"about", false, kNumber,
           "number that the statistic must come near, in the statistic's own unit; needs `within`"},
          {"within", false, kNumber | kQuantity, "distance allowed from `about`: a number, or a percentage like 2 %"},
      }};
  return kSpec;
}

std::vector<const MapSpec*> all_specs() {
  std::vector<const MapSpec*> specs{&scenario_spec(), &gpu_spec(),     &kernel_spec(),        &cycles_spec(),
                                    &cluster_spec(),  &stream_spec(),  &submission_spec(),    &kernel_op_spec(),
                                    &copy_op_spec(),  &fill_op_spec(), &group_op_spec(),      &load_spec(),
                                    &tpc_spec(),      &queue_spec(),   &queue_initial_spec(), &subcontext_spec(),
                                    &share_spec(),    &expect_spec()};
  const std::vector<const MapSpec*> programs = program_specs();
  specs.insert(specs.end(), programs.begin(), programs.end());
  return specs;
}

MapReader::MapReader(const YAML::Node& node, const MapSpec& spec, std::string thing, const std::string& file)
    : map_(node), spec_(spec), thing_(std::move(thing)), file_(file) {
  std::vector<std::string> names;
  std::vector<std::string> required;
  for (const KeySpec& key : spec.keys) {
    names.emplace_back(key.name);
    if (key.required) required.push_back(fmt::format("{}: …", key.name));
  }
  if (!node.IsMap()) {
    throw InputError(where(), fmt::format("{}: a map is expected, found {}", thing_, kind_text(node)),
                     fmt::format("write {{{}}}", fmt::join(required, ", ")));
  }
  for (const auto& entry : node) {
    const std::string& name = entry.first.Scalar();
    const auto key = std::find_if(spec.keys.begin(), spec.keys.end(), [&](const KeySpec& k) { return name == k.name; });
    if (key == spec.keys.end()) {
      throw InputError(position(entry.first, file_), fmt::format("{}: unknown key \"{}\"", thing_, name),
                       suggestion(name, names));
    }
    if (!allowed(entry.second, key->kinds)) {
      fail(key->name, entry.second,
           fmt::format("{} is expected, found {}", kinds_text(key->kinds), kind_text(entry.second)));
    }
  }
  for (const KeySpec& key : spec.keys) {
    if (key.required && !has(key.name)) {
      throw InputError(where(), fmt::format("{}: the key \"{}\" is missing", thing_, key.name),
                       fmt::format("{}: {}", key.name, key.meaning));
    }
  }
}

const KeySpec& MapReader::spec_of(const char* key) const {
  const auto found = std::find_if(spec_.keys.begin(), spec_.keys.end(),
                                  [&](const KeySpec& k) { return std::strcmp(k.name, key) == 0; });
  HEDDLE_CHECK(found != spec_.keys.end(), std::string("the schema lacks the key ") + key);
  return *found;
}

bool MapReader::has(const char* key) const {
  spec_of(key);  // a key that the table lacks can never be present: our mistake, not the user's
  return map_[key].IsDefined();
}

YAML::Node MapReader::node(const char* key) const {
  HEDDLE_CHECK(has(key), std::string("reading a key that is absent: ") + key);
  return map_[key];
}

SourcePos MapReader::where() const { return position(map_, file_); }
SourcePos MapReader::where(const char* key) const { return position(node(key), file_); }

void MapReader::fail(const char* key, const YAML::Node& item, const std::string& message) const {
  const KeySpec& spec = spec_of(key);
  throw InputError(position(item, file_), fmt::format("{}, {}: {}", thing_, key, message),
                   fmt::format("{}: {}", key, spec.meaning));
}

void MapReader::fail(const char* key, const std::string& message) const { fail(key, node(key), message); }

void MapReader::fail_number(const char* key, const YAML::Node& item, const InputError& error,
                            const std::string& range) const {
  const KeySpec& spec = spec_of(key);
  // A remedy of its own is about units; the range would only be in its way.
  const std::string remedy = error.remedy().empty() ? fmt::format("{}: {} (allowed: {})", key, spec.meaning, range)
                                                    : fmt::format("{}: {}; {}", key, spec.meaning, error.remedy());
  throw InputError(position(item, file_), fmt::format("{}, {}: {}", thing_, key, error.message()), remedy);
}

const std::string& MapReader::scalar(const char* key, const YAML::Node& item) const {
  if (!item.IsScalar()) fail(key, item, fmt::format("a single value is expected, found {}", kind_text(item)));
  return item.Scalar();
}

std::string MapReader::text(const char* key) const { return scalar(key, node(key)); }

std::string MapReader::name(const char* key) const {
  std::string result = text(key);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (result.empty()) fail(key, "the name is empty");
  if (std::any_of(result.begin(), result.end(), control)) fail(key, "a name is one line of text");
  return result;
}

bool MapReader::flag(const char* key) const {
  bool result = false;
  if (!scalar(key, node(key)).empty() && YAML::convert<bool>::decode(node(key), result)) return result;
  fail(key, fmt::format("true or false is expected, found {}", kind_text(node(key))));
}

std::vector<YAML::Node> MapReader::items(const char* key) const {
  const YAML::Node value = node(key);
  if (!value.IsSequence()) return {value};
  return {value.begin(), value.end()};
}

}  // namespace heddle::workload
