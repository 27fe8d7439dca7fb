// What `heddle occupancy` finds out and prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "arch/task_record.h"
#include "cli/machines.h"

namespace heddle::cli {

struct ClusterQuery {
  arch::ClusterShape cluster;
  std::optional<std::uint32_t> recorded;  // what the recorder's driver answered (INP-09)
};

struct OccupancyQuery {
  arch::KernelRecord kernel;   // without a name: of the command line
  std::uint32_t recorded = 0;  // clusters of the kernel's own shape; 0: nothing recorded
  std::vector<ClusterQuery> clusters;
};

struct ClusterAnswer {
  std::uint64_t active = 0;
  std::vector<std::uint32_t> unused;  // SMs without a CTA, by GPC
  std::string reason;                 // why none is active, or why not as many as SMs would hold
};

struct OccupancyAnswers {
  const Machine* machine = nullptr;
  std::vector<std::uint32_t> sms;  // by GPC
  OccupancyQuery query;
  std::uint32_t ctas_per_sm = 0;
  std::vector<ClusterAnswer> clusters;  // as the query's
};

// Throws InputError if no SM can hold a CTA, or a shape of cluster is not one.
OccupancyAnswers answer_occupancy(const Machine& machine, OccupancyQuery query);

std::string occupancy_text(const OccupancyAnswers& answers);
// A list of sizes; with `by_kernel` a list of kernels, each with its list of sizes.
nlohmann::ordered_json occupancy_json(const std::vector<OccupancyAnswers>& answers, bool by_kernel);

}  // namespace heddle::cli
