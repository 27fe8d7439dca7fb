#include "cli/occupancy_table.h"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "arch/topology.h"
#include "cli/command.h"
#include "cli/machines.h"
#include "cli/run_options.h"
#include "common/quantity.h"
#include "gpu/gpu_params.h"

namespace heddle::cli {

namespace po = boost::program_options;
using arch::CgaMode;

namespace {

const char* mode_name(arch::CgaMode mode) { return mode == arch::CgaMode::multicast ? "multicast" : "load_balancing"; }

std::string size_text(const arch::ClusterShape& cluster) {
  const arch::Dim3& e = cluster.of(cluster.outermost());
  const std::string level =
      cluster.outermost() == arch::CgaLevel::gpc ? "" : fmt::format(" {}", arch::cga_name(cluster.outermost()));
  if (e.y == 1 && e.z == 1) return fmt::format("{}{}", e.x, level);
  return fmt::format("{}x{}x{}{}", e.x, e.y, e.z, level);
}

std::uint64_t size_of(const arch::ClusterShape& cluster) { return cluster.of(cluster.outermost()).count(); }

std::string machine_text(const OccupancyAnswers& answers) {
  // Which GPU of several matters only to the kernels of a file, which have names.
  const bool named = !answers.query.kernel.name.empty();
  return fmt::format("{}{} ({} SMs in GPCs of {})", named ? answers.machine->instance + ": " : "",
                     answers.machine->preset, answers.machine->params.machine.shape.sms(), fmt::join(answers.sms, " "));
}

std::string kernel_text(const OccupancyQuery& query) {
  return query.kernel.name.empty() ? "this kernel" : fmt::format("kernel '{}'", query.kernel.name);
}

// Which resources an SM with no more room for a CTA has run out of: several, where they allow equally many.
std::string limit_name(const arch::SmLimits& limits, const arch::KernelShape& kernel) {
  const arch::ResourceVector need = arch::need_of(limits, kernel);
  const arch::ResourceVector capacity = arch::capacity_of(limits);
  const std::uint32_t slots = arch::free_slots(capacity, {}, need);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    if (need.amount[i] != 0 && capacity.amount[i] / need.amount[i] == slots) {
      names.emplace_back(arch::resource_name(static_cast<arch::Resource>(i)));
    }
  }
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, " and "));
}

std::uint32_t sum(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0U);
}

std::string needs_text(const OccupancyAnswers& answers) {
  const arch::KernelShape& kernel = answers.query.kernel;
  const std::string registers = kernel.registers_per_thread == 0
                                    ? "registers not given (they limit nothing)"
                                    : fmt::format("{} registers each", kernel.registers_per_thread);
  const std::string shared =
      kernel.shared_bytes == 0 ? "no shared memory" : fmt::format("{} bytes of shared memory", kernel.shared_bytes);
  return fmt::format("CTAs of {} threads, {}, {}: {} on an SM, limited by {}", kernel.block.count(), registers, shared,
                     answers.ctas_per_sm, limit_name(answers.machine->params.sm.limits, kernel));
}

po::options_description occupancy_options() {
  po::options_description options = described_options();
  options.add_options()("threads", po::value<std::string>()->value_name("N"), "threads of a CTA")(
      "registers", po::value<std::string>()->value_name("N"), "registers of a thread; default 0: they limit nothing")(
      "shared", po::value<std::string>()->value_name("BYTES"),
      "shared memory of a CTA, static and dynamic, e.g. 49152 or '48 KiB'; default 0")(
      "cluster", po::value<std::string>()->value_name("SIZES"),
      "cluster sizes in CTAs, e.g. 1,2,4,8,16 or 2x2x1; default: those of the kernel in FILE, or all up to "
      "gpu.cwd.max_gpc_cga")(
      "mode", po::value<std::string>()->value_name("MODE"),
      "multicast: at most one CTA of a cluster on an SM (default); load_balancing: they may share one")(
      "gpu", po::value<std::vector<std::string>>()->value_name("PRESET|FILE"),
      "the machine; default h100-sxm, or what the scenario or recording in FILE names")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V"), "set a parameter; can be repeated")(
      "device", po::value<std::string>()->value_name("N"), "only this device of the recording")("json", "print JSON");
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text
      << "heddle occupancy [FILE | --threads N --registers N --shared BYTES] [options]\n\n"
         "How many clusters of a kernel can be resident at once, and which SMs stay unused then. Nothing is "
         "simulated:\n"
         "the code that places clusters fills an empty machine. FILE is a scenario or a recording: all its kernels.\n\n"
      << occupancy_options();
  return text.str();
}

// "8" or "2x2x1".
arch::Dim3 extents_of(const CommandLine& line, const std::string& text) {
  std::vector<std::uint32_t> numbers;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string digits = text.substr(begin, end - begin);
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) break;
    numbers.push_back(static_cast<std::uint32_t>(std::stoul(digits)));
    begin = end + 1;
  }
  if (begin != text.size() + 1 || numbers.empty() || numbers.size() > 3) {
    line.bad(fmt::format("--cluster: '{}' is not a size of a cluster", text),
             "as in --cluster 1,2,4 or --cluster 2x2x1");
  }
  numbers.resize(3, 1);
  const arch::Dim3 extents{numbers[0], numbers[1], numbers[2]};
  if (extents.count() == 0) {
    line.bad(fmt::format("--cluster: a cluster of {} has no CTA", text), "sizes begin with 1");
  }
  return extents;
}

std::vector<arch::Dim3> sizes_of(const CommandLine& line) {
  std::vector<arch::Dim3> sizes;
  const std::string text = line.text("cluster").value_or("");
  for (std::size_t begin = 0; begin <= text.size() && line.has("cluster");) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    sizes.push_back(extents_of(line, item));
    begin = end + 1;
  }
  return sizes;
}

std::uint32_t number_of(const CommandLine& line, const char* option, Unit unit, std::uint32_t absent) {
  const std::optional<std::string> text = line.text(option);
  if (!text) return absent;
  try {
    return parse_quantity(*text, Limits<std::uint32_t>{unit});
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("--{}: {}", option, error.message()),
        error.remedy().empty() ? "a whole number is expected, of bytes also with a unit: '48 KiB'" : error.remedy());
  }
}

// Of the command line: one kernel without a name.
OccupancyQuery described_kernel(const CommandLine& line) {
  if (!line.has("threads")) {
    line.bad("heddle occupancy needs a kernel: a FILE, or at least --threads N",
             "as in: heddle occupancy --threads 1024 --registers 64 --shared '48 KiB'");
  }
  OccupancyQuery query;
  query.kernel.block = {number_of(line, "threads", Unit::count, 0), 1, 1};
  query.kernel.registers_per_thread = number_of(line, "registers", Unit::count, 0);
  query.kernel.shared_bytes = number_of(line, "shared", Unit::bytes, 0);
  return query;
}

void use_sizes(OccupancyQuery& query, const std::vector<arch::Dim3>& sizes, std::optional<CgaMode> mode,
               std::uint32_t max_gpc_cga) {
  const arch::ClusterShape own = query.kernel.cluster;
  std::vector<arch::ClusterShape> clusters;
  if (sizes.empty() && own.any()) {
    // Its full size and those it falls back to.
    for (std::uint32_t i = 0; i < own.sizes(); ++i) {
      clusters.push_back(own);
      clusters.back().of(own.outermost()) = own.size(i);
      clusters.back().fallback.fill(arch::kNoExtents);
    }
  }
  std::vector<arch::Dim3> plain = sizes;
  for (std::uint32_t ctas = 1; sizes.empty() && !own.any() && ctas <= max_gpc_cga; ++ctas)
    plain.push_back({ctas, 1, 1});
  for (const arch::Dim3& extents : plain) {
    arch::ClusterShape cluster;
    cluster.mode = own.any() ? own.mode : CgaMode::multicast;  // what cudaOccupancyMaxActiveClusters answers for
    cluster.of(arch::CgaLevel::gpc) = extents;
    clusters.push_back(cluster);
  }
  for (arch::ClusterShape& cluster : clusters) {
    if (mode) cluster.mode = *mode;
    query.clusters.push_back({cluster, std::nullopt});
    const bool same = own.any() && cluster.extents == own.extents && cluster.mode == own.mode;
    if (same && query.recorded != 0) query.clusters.back().recorded = query.recorded;
  }
}

bool alike(const OccupancyQuery& a, const OccupancyQuery& b) {
  const arch::ClusterShape& x = a.kernel.cluster;
  const arch::ClusterShape& y = b.kernel.cluster;
  return a.kernel.name == b.kernel.name && a.kernel.block == b.kernel.block && a.recorded == b.recorded &&
         a.kernel.registers_per_thread == b.kernel.registers_per_thread &&
         a.kernel.shared_bytes == b.kernel.shared_bytes && x.extents == y.extents && x.fallback == y.fallback &&
         x.mode == y.mode;
}

// The distinct kernels of one GPU of a file, in the order of their first launch.
std::vector<OccupancyQuery> kernels_of(const workload::Workload& workload) {
  std::vector<OccupancyQuery> queries;
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    OccupancyQuery query;
    query.kernel = op.kernel;
    query.recorded = op.max_active_clusters;
    const bool known = std::any_of(queries.begin(), queries.end(),
                                   [&query](const OccupancyQuery& other) { return alike(query, other); });
    if (!known) queries.push_back(std::move(query));
  }
  return queries;
}

}  // namespace

OccupancyAnswers answer_occupancy(const Machine& machine, OccupancyQuery query) {
  const gpu::GpuParams& params = machine.params;
  const arch::Topology topology(params.machine.shape);
  OccupancyAnswers answers;
  answers.machine = &machine;
  answers.sms = topology.sms_per_gpc();
  answers.query = std::move(query);
  const arch::KernelRecord& kernel = answers.query.kernel;
  const std::string why = arch::why_impossible(params.sm.limits, kernel);
  if (!why.empty()) {
    throw InputError(
        fmt::format("no SM of {} can hold a CTA of {}: {}", machine_text(answers), kernel_text(answers.query), why),
        "choose another machine with --gpu, or raise the limit: heddle show params gpu.sm.limits");
  }
  answers.ctas_per_sm =
      arch::free_slots(arch::capacity_of(params.sm.limits), {}, arch::need_of(params.sm.limits, kernel));
  for (const ClusterQuery& asked : answers.query.clusters) {
    arch::KernelShape shape = kernel;
    shape.cluster = asked.cluster;
    shape.grid = asked.cluster.of(asked.cluster.outermost());  // whatever the grid: clusters of this shape
    const std::string wrong = arch::why_malformed(shape.grid, shape.cluster, params.cwd.max_gpc_cga);
    if (!wrong.empty()) {
      throw InputError(fmt::format("clusters of {} for {} on {}: {}", size_text(asked.cluster),
                                   kernel_text(answers.query), machine_text(answers), wrong),
                       "gpu.cwd.max_gpc_cga is the most CTAs of a cluster in a GPC");
    }
    const cwd::Occupancy occupancy = gpu::residency(params, shape);
    ClusterAnswer answer;
    answer.active = occupancy.cgas;
    answer.unused = occupancy.unused_sms;
    if (answer.active == 0) {
      answer.reason = gpu::why_never_fits(params, shape);
    } else if (gpu::residency_without_ids(params, shape).cgas > occupancy.cgas) {
      answer.reason =
          "limited by the GPCs' CGA ids and barriers and the SMs' CGA slots: gpu.gpc.cga_ids, gpu.gpc.cga_barriers, "
          "gpu.sm.limits.cga_slots";
    }
    answers.clusters.push_back(std::move(answer));
  }
  return answers;
}

std::string occupancy_text(const OccupancyAnswers& answers) {
  const bool recorded = answers.query.recorded != 0;
  std::string text = machine_text(answers) + "\n";
  if (!answers.query.kernel.name.empty()) text += kernel_text(answers.query) + "\n";
  text += needs_text(answers) + "\n\n";
  text += fmt::format("{:>12}  {:<14}  {:>6}  {:>6}  {:>6}  {}{}\n", "cluster", "mode", "active", "CTAs", "unused",
                      recorded ? fmt::format("{:<16}  ", "recorded") : "", "unused SMs by GPC");
  for (std::size_t i = 0; i < answers.clusters.size(); ++i) {
    const ClusterQuery& asked = answers.query.clusters[i];
    const ClusterAnswer& answer = answers.clusters[i];
    std::string agreement;
    if (recorded) {
      const std::string result = asked.recorded ? fmt::format("{}, {}", *asked.recorded,
                                                              *asked.recorded == answer.active ? "agrees" : "differs")
                                                : std::string("-");
      agreement = fmt::format("{:<16}  ", result);
    }
    text += fmt::format("{:>12}  {:<14}  {:>6}  {:>6}  {:>6}  {}{}{}\n", size_text(asked.cluster),
                        mode_name(asked.cluster.mode), answer.active, answer.active * size_of(asked.cluster),
                        sum(answer.unused), agreement, fmt::join(answer.unused, " "),
                        answer.reason.empty() ? "" : "  (" + answer.reason + ")");
  }
  return text + "\n";
}

nlohmann::ordered_json occupancy_json(const std::vector<OccupancyAnswers>& answers, bool by_kernel) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const OccupancyAnswers& one : answers) {
    const arch::KernelShape& kernel = one.query.kernel;
    Json clusters = Json::array();
    for (std::size_t i = 0; i < one.clusters.size(); ++i) {
      const ClusterQuery& asked = one.query.clusters[i];
      const ClusterAnswer& answer = one.clusters[i];
      const arch::Dim3& extents = asked.cluster.of(asked.cluster.outermost());
      Json row = {{"cluster", size_of(asked.cluster)},
                  {"active", answer.active},
                  {"ctas_per_sm", one.ctas_per_sm},
                  {"unused_sms", answer.unused},
                  {"ctas", answer.active * size_of(asked.cluster)},
                  {"extents", {extents.x, extents.y, extents.z}},
                  {"level", arch::cga_name(asked.cluster.outermost())},
                  {"mode", mode_name(asked.cluster.mode)}};
      if (!answer.reason.empty()) row["reason"] = answer.reason;
      if (asked.recorded) {
        row["recorded"] = *asked.recorded;
        row["agrees"] = *asked.recorded == answer.active;
      }
      clusters.push_back(std::move(row));
    }
    if (!by_kernel) return clusters;
    list.push_back({{"gpu", one.machine->instance},
                    {"kernel", one.query.kernel.name},
                    {"threads", kernel.block.count()},
                    {"registers", kernel.registers_per_thread},
                    {"shared", kernel.shared_bytes},
                    {"clusters", std::move(clusters)}});
  }
  return list;
}

// heddle occupancy: how many clusters of a kernel can be resident at once (CWD-24).

int occupancy_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle occupancy", occupancy_options(), arguments);
  if (line.help()) {
    std::cout << help_text();
    return kSuccess;
  }
  const bool file = !line.words().empty();
  if (line.words().size() > 1) line.bad("heddle occupancy takes one FILE");
  for (const char* option : {"threads", "registers", "shared"}) {
    if (file && line.has(option))
      line.bad(fmt::format("--{} describes a kernel, and so does {}", option, line.words()[0]));
  }
  if (!file && line.has("device")) line.bad("--device chooses a device of a recording, and there is none");
  const std::vector<arch::Dim3> sizes = sizes_of(line);
  const std::optional<CgaMode> mode =
      line.choice<CgaMode>("mode", {{"multicast", CgaMode::multicast}, {"load_balancing", CgaMode::load_balancing}});

  Machines machines;
  std::vector<OccupancyAnswers> answers;  // of those machines
  const auto ask = [&](const Machine& machine, OccupancyQuery query) {
    use_sizes(query, sizes, mode, machine.params.cwd.max_gpc_cga);
    answers.push_back(answer_occupancy(machine, std::move(query)));
  };
  if (file) {
    const Inputs inputs = load_inputs(line.words(), line.number<int>("device", 0, std::numeric_limits<int>::max()));
    RunOptions options;
    options.gpus = line.list("gpu");
    options.sets = line.list("set");
    machines = resolve_machines(inputs, options);
    for (std::size_t i = 0; i < inputs.workloads.size(); ++i) {
      for (OccupancyQuery& query : kernels_of(inputs.workloads[i])) ask(machines.gpus[i], std::move(query));
    }
  } else {
    const std::vector<std::string> gpus = line.list("gpu");
    if (gpus.size() > 1) line.bad("one kernel is asked for on one machine: --gpu once");
    machines = resolve_machine(gpus.empty() ? "" : gpus[0], line.list("set"));
    ask(machines.gpus.front(), described_kernel(line));
  }
  if (line.has("json")) {
    std::cout << occupancy_json(answers, file).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  } else {
    for (const OccupancyAnswers& one : answers) std::cout << occupancy_text(one);
  }
  return kSuccess;
}

}  // namespace heddle::cli
