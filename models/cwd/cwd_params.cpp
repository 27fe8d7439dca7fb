#include "cwd/cwd_params.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace heddle::cwd {

std::vector<std::uint32_t> SmPriority::resolve(std::uint32_t sms) const {
  std::vector<std::uint32_t> result(sms);
  std::iota(result.begin(), result.end(), 0U);
  if (order == Order::ascending) return result;
  if (order == Order::descending) {
    std::reverse(result.begin(), result.end());
    return result;
  }
  std::vector<std::uint32_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != result) {
    throw InputError(
        fmt::format("cwd.sm_priority lists {} SM ids that are not a permutation of 0 to {}", ids.size(), sms - 1),
        "list every SM of the machine once, or say ascending or descending");
  }
  return ids;
}

void CwdParams::describe(ParamTable<CwdParams>& t) {
  t.add("table_slots", &CwdParams::table_slots, {Unit::count, 1, 4096},
        "slots of the task table: tasks that run or wait in the distributor",
        "CUDA programming guide: 128 resident grids per device");
  t.add_choice("level_search", &CwdParams::level_search,
               {{"scan", LevelSearch::scan}, {"bisection", LevelSearch::bisection}},
               "how the final level of a plain grid is found; both give the same placement (CWD-04)",
               "choice of the specification");
  t.add("sm_priority", &CwdParams::sm_priority, "which SMs of the final, partly filled level are served first (CWD-05)",
        "choice of the specification");
  t.add("session_pipeline", &CwdParams::session_pipeline, {Unit::cycles, 0, 100'000},
        "fixed length of a launch session, besides its level search", "assumption");
  t.add("session_step", &CwdParams::session_step, {Unit::cycles, 0, 100'000}, "length of one step of the level search",
        "assumption");
  t.add("session_limit", &CwdParams::session_limit, {Unit::count, 1, 1'000'000'000},
        "most CTAs that one session places", "assumption: more than a machine holds of most kernels");
  t.add("mask_buffers", &CwdParams::mask_buffers, {Unit::count, 1, 1024},
        "sessions whose masks can wait for the launch port", "assumption: one is sent while the next is computed");
  t.add("packets_per_cycle", &CwdParams::packets_per_cycle, {Unit::per_cycle, 0.001, 1024.0},
        "launch packets that leave per cycle", "assumption");
  t.add("ctas_per_cycle", &CwdParams::ctas_per_cycle, {Unit::per_cycle, 0.001, 4096.0},
        "CTAs that launch packets start per cycle, over all packets",
        "te42kyfo/gpu-benches small-kernels on H200: 0.60 ns per CTA at 1.98 GHz");
  t.add("gpc_distance", &CwdParams::gpc_distance, {Unit::cycles, 0, 100'000}, "cycles from the distributor to a GPC",
        "assumption: the round trip is far longer than a session (CWD-33)");
  t.add("gpc_queue", &CwdParams::gpc_queue, {Unit::count, 1, 65'536}, "launch packets that a GPC can take in: credits",
        "assumption");
  t.add("done_distance", &CwdParams::done_distance, {Unit::cycles, 0, 100'000},
        "cycles from the distributor back to task management", "assumption");
  t.add("backfill", &CwdParams::backfill,
        "whether a task may launch CTAs while a more urgent or older one waits for free slots",
        "public studies of NVIDIA GPUs find that it may not");
}

}  // namespace heddle::cwd

namespace heddle {

cwd::SmPriority ParamTraits<cwd::SmPriority>::parse(const YAML::Node& node, const SourcePos& where) {
  cwd::SmPriority result;
  const char* remedy = "say ascending, descending, or list all SM ids";
  if (node.IsScalar()) {
    const auto text = node.as<std::string>();
    if (text == "descending") {
      result.order = cwd::SmPriority::Order::descending;
    } else if (text != "ascending") {
      throw InputError(where, fmt::format("'{}' is not an SM order", text), remedy);
    }
    return result;
  }
  if (!node.IsSequence()) throw InputError(where, "not an SM order", remedy);
  result.order = cwd::SmPriority::Order::listed;
  for (const YAML::Node& item : node) {
    try {
      result.ids.push_back(item.as<std::uint32_t>());
    } catch (const YAML::Exception&) {
      throw InputError(where, "an SM order lists SM ids, whole numbers from 0", remedy);
    }
  }
  return result;
}

YAML::Node ParamTraits<cwd::SmPriority>::format(const cwd::SmPriority& value) {
  if (value.order == cwd::SmPriority::Order::ascending) return YAML::Node("ascending");
  if (value.order == cwd::SmPriority::Order::descending) return YAML::Node("descending");
  YAML::Node list(YAML::NodeType::Sequence);
  for (const std::uint32_t id : value.ids) list.push_back(id);
  return list;
}

}  // namespace heddle
