// Parameters of the compute work distributor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/params.h"
#include "cwd/lake_fill.h"

namespace heddle::cwd {

// The order in which SMs of equal load are served (CWD-05).
struct SmPriority {
  enum class Order { ascending, descending, listed };
  Order order = Order::ascending;
  std::vector<std::uint32_t> ids;  // listed: SM ids, a permutation of the machine's

  // The order for a machine of that many SMs. Throws InputError if a list does not fit the machine.
  std::vector<std::uint32_t> resolve(std::uint32_t sms) const;
};

struct CwdParams {
  std::uint32_t table_slots = 128;  // tasks
  LevelSearch level_search = LevelSearch::bisection;
  SmPriority sm_priority;
  std::uint32_t session_pipeline = 4;  // cycles
  std::uint32_t session_step = 1;      // cycles per step of the level search
  std::uint64_t session_limit = 4096;  // CTAs
  std::uint32_t mask_buffers = 2;      // sessions
  double packets_per_cycle = 1.0;
  double ctas_per_cycle = 0.84;
  std::uint32_t gpc_distance = 60;   // cycles
  std::uint32_t gpc_queue = 8;       // launch packets
  std::uint32_t done_distance = 20;  // cycles
  bool backfill = false;

  static void describe(ParamTable<CwdParams>& t);
};

}  // namespace heddle::cwd

namespace heddle {

template <>
struct ParamTraits<cwd::SmPriority> {
  static constexpr const char* kType = "SM order";
  static constexpr const char* kRange = "ascending, descending, or a list of all SM ids";
  static cwd::SmPriority parse(const YAML::Node& node, const SourcePos& where);
  static YAML::Node format(const cwd::SmPriority& value);
};

}  // namespace heddle
