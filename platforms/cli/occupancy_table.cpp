#include "cli/occupancy_table.h"

#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "arch/topology.h"
#include "gpu/residency.h"

namespace heddle::cli {
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

// Which resource an SM with no more room for a CTA has run out of first.
const char* limit_name(const arch::SmLimits& limits, const arch::KernelShape& kernel) {
  const arch::ResourceVector need = arch::need_of(limits, kernel);
  const arch::ResourceVector capacity = arch::capacity_of(limits);
  const std::uint32_t slots = arch::free_slots(capacity, {}, need);
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    if (need.amount[i] != 0 && capacity.amount[i] / need.amount[i] == slots) {
      return arch::resource_name(static_cast<arch::Resource>(i));
    }
  }
  return "nothing";
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
      answer.reason = "limited by the GPCs' CGA ids and barriers: gpu.gpc.cga_ids, gpu.gpc.cga_barriers";
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
      const std::string verdict = asked.recorded ? fmt::format("{}, {}", *asked.recorded,
                                                               *asked.recorded == answer.active ? "agrees" : "differs")
                                                 : std::string("-");
      agreement = fmt::format("{:<16}  ", verdict);
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

}  // namespace heddle::cli
