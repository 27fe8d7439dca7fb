// What a GPU shows of itself beyond statistics and a timeline: the load of its SMs, its clusters, what its tensor
// memory access units move, its CTAs, and the names of its operations.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "arch/bulk_map.h"
#include "arch/cluster_map.h"
#include "arch/load_map.h"
#include "common/observation.h"
#include "common/timebase.h"

namespace heddle {

// Sees every CTA that an SM starts and ends. Used by checkers and dumps; called at most once per CTA and edge.
class CtaListener {
 public:
  struct Cta {
    std::uint32_t task = 0;   // operation id
    std::uint64_t index = 0;  // linear id in the grid, x fastest
    std::uint32_t sm = 0;     // SM id of the machine
    std::uint64_t cycle = 0;  // when: arrival at the SM, or end
    // Where it stands in its grid, and when it was sent.
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::uint32_t z = 0;
    std::uint64_t cga = 0;                // linear id of its CGA
    std::uint32_t rank = 0;               // in the CGA
    std::uint32_t cga_size = 1;           // CTAs of the CGA
    std::uint64_t sequence = 0;           // of the launch: orders the packets of one GPU
    std::uint64_t order = 0;              // CTAs of the task that started before
    std::uint64_t launch = 0;             // cycle in which its launch packet left the distributor
    std::uint64_t first_instruction = 0;  // cycle
  };
  virtual void cta_started(const Cta& cta) = 0;
  virtual void cta_ended(const Cta& cta) = 0;
  // In between, any number of times: a CTA that waits for tasks of its own leaves its SM (`sm`, `cycle`), and goes on
  // later, there or on another one.
  virtual void cta_saved(const Cta&) {}
  virtual void cta_restored(const Cta&) {}

 protected:
  ~CtaListener() = default;
};

// Names for messages and timelines; packets carry numbers only.
class Labels {
 public:
  explicit Labels(std::string kind) : kind_(std::move(kind)) {}
  void set(std::uint32_t number, std::string label) { labels_[number] = std::move(label); }
  void forget(std::uint32_t number) { labels_.erase(number); }
  std::string of(std::uint32_t number) const {
    const auto found = labels_.find(number);
    return found == labels_.end() ? kind_ + " " + std::to_string(number) : found->second;
  }

 private:
  std::string kind_;
  std::unordered_map<std::uint32_t, std::string> labels_;
};

struct GpuObservation : Observation {
  using Observation::Observation;

  Labels labels{"operation"};  // by operation id
  Labels streams{"stream"};    // by stream number
  LoadMap load_map;
  ClusterMap clusters;
  BulkMap bulk{stats, prefix};
  CtaListener* ctas = nullptr;  // null: off
};

// That of a time base whose owner gave it one: every time base of a GPU.
inline GpuObservation& gpu_observation(Timebase& timebase) {
  auto* observation = dynamic_cast<GpuObservation*>(&timebase.observation());
  HEDDLE_CHECK(observation != nullptr, "a block of a GPU in a domain that observes none");
  return *observation;
}

}  // namespace heddle
