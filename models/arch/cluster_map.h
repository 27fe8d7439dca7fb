// Where the CGAs of a device ran and what they did to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace heddle {

// Which SMs a device's CGAs ran on, how they waited for each other, and who read and wrote whose shared memory: for
// reports. Totals are exact; the first CGAs are kept one by one.
class ClusterMap {
 public:
  static constexpr std::size_t kKept = 400;  // CGAs in detail

  struct Cta {
    std::uint32_t rank = 0;
    std::uint32_t sm = 0;     // id
    std::uint64_t begin = 0;  // cycle of its arrival at the SM
    std::uint64_t end = 0;    // 0: it has not ended
  };
  struct Cluster {
    std::uint32_t task = 0;  // operation id
    std::uint64_t cga = 0;   // linear id in its grid
    std::uint32_t gpc = 0;
    std::uint32_t local_id = 0;  // gpc_local_cga_id
    std::uint32_t size = 0;      // CTAs
    std::vector<Cta> ctas;       // in the order of their start
    std::uint64_t barriers = 0;  // phases of the cluster barrier
    std::uint64_t waited = 0;    // cycles that warps spent at it
  };
  // Of all CGAs of one task and size.
  struct Total {
    std::uint32_t task = 0;
    std::uint32_t size = 0;
    std::uint64_t begun = 0;     // CGAs of which a CTA has begun
    std::uint64_t count = 0;     // CGAs that have ended, with all their CTAs: what follows is of these
    std::uint64_t sms = 0;       // different SMs, summed over CGAs
    std::uint64_t skew = 0;      // cycles from the first CTA's start to the last one's, summed
    std::uint64_t max_skew = 0;  // cycles
    std::uint64_t lived = 0;     // cycles from the first CTA's start to the last one's end, summed
    std::uint64_t barriers = 0;
    std::uint64_t waited = 0;
  };

  // SM ids of every GPC, in the order of the bits of its masks; before the first call of anything else.
  void configure(std::vector<std::vector<std::uint32_t>> gpcs);

  // A CTA of a GPC_CGA begins. `cluster`: task, cga, gpc, local_id and size.
  void begin(const Cluster& cluster, std::uint32_t rank, std::uint32_t sm, std::uint64_t cycle);
  void end(std::uint32_t gpc, std::uint32_t local_id, std::uint32_t rank, std::uint64_t cycle);
  // Warps of one CTA were let go on at the barrier of the CGA; `first`: the first CTA of the CGA to be.
  void barrier(std::uint32_t gpc, std::uint32_t local_id, bool first, std::uint64_t waited);
  // Phases of its barrier up to now; 0 if no CGA has that id.
  std::uint64_t phases(std::uint32_t gpc, std::uint32_t local_id) const { return gpcs_[gpc].open[local_id].barriers; }
  // Bytes with headers, between SMs by their bits in the GPC's masks.
  void traffic(std::uint32_t gpc, std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
    Gpc& its = gpcs_[gpc];
    its.bytes[std::size_t{from} * its.sms.size() + to] += bytes;
  }

  std::size_t gpcs() const { return gpcs_.size(); }
  const std::vector<std::uint32_t>& sms(std::uint32_t gpc) const { return gpcs_[gpc].sms; }
  std::uint64_t bytes(std::uint32_t gpc, std::uint32_t from, std::uint32_t to) const {
    return gpcs_[gpc].bytes[std::size_t{from} * gpcs_[gpc].sms.size() + to];
  }
  // The first kKept CGAs to begin, in that order.
  const std::vector<Cluster>& kept() const { return kept_; }
  // In the order of their first CGA's begin.
  const std::vector<Total>& totals() const { return totals_; }
  // All that was noted is gone; the configuration stays.
  void clear();

 private:
  static constexpr std::size_t kIds = 256;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // The CGA that holds a local id.
  struct Open {
    std::uint32_t task = 0;
    std::uint64_t cga = 0;
    std::uint32_t size = 0;  // 0: none
    std::uint32_t started = 0;
    std::uint32_t ended = 0;
    std::uint64_t sms = 0;    // bits of the GPC's masks
    std::uint64_t first = 0;  // CTA's begin
    std::uint64_t last = 0;   // CTA's begin
    std::uint64_t end = 0;    // the latest
    std::uint64_t barriers = 0;
    std::uint64_t waited = 0;
    std::uint32_t kept = kNone;  // index into kept_
    std::uint32_t total = 0;     // index into totals_
  };
  struct Gpc {
    std::vector<std::uint32_t> sms;
    std::vector<std::uint64_t> bytes;  // [from * SMs + to]
    std::vector<Open> open;            // by local id
  };

  Open& open_at(std::uint32_t gpc, std::uint32_t local_id);
  void take_in(Open& open, const Cluster& cluster, std::uint64_t cycle);
  void close(Open& open);
  std::uint32_t total_of(std::uint32_t task, std::uint32_t size);

  std::vector<Gpc> gpcs_;
  std::vector<std::uint32_t> bit_of_;  // by SM id
  std::vector<Cluster> kept_;
  std::vector<Total> totals_;
  std::unordered_map<std::uint64_t, std::uint32_t> total_index_;  // by task and size
  std::uint32_t last_total_ = 0;                                  // most CGAs belong to that of the one before
};

}  // namespace heddle
