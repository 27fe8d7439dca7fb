// How the CTAs of a grid are grouped into cooperative group arrays (CGAs, clusters): CWD-10.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace heddle::arch {

// Extents of a grid (in CTAs), of a CGA (in CTAs) or of a CTA (in threads).
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  bool operator==(const Dim3& other) const { return x == other.x && y == other.y && z == other.z; }
  bool operator!=(const Dim3& other) const { return !(*this == other); }
};

// No CGA: all extents 0.
constexpr Dim3 kNoExtents{0, 0, 0};

// The hardware domain that holds a CGA, innermost first: no CTA of a GPC_CGA is outside one GPC.
enum class CgaLevel : std::uint8_t { cpc, gpc, ugpu, gpu };
constexpr std::size_t kCgaLevels = 4;
// "CPC_CGA", "GPC_CGA", "uGPU_CGA", "GPU_CGA"
const char* cga_name(CgaLevel level);
// "CPC", "GPC", "uGPU", "GPU"
const char* domain_name(CgaLevel level);

// Which SMs of its domain the CTAs of a CGA go to.
enum class CgaMode : std::uint8_t {
  load_balancing,  // the least loaded; several CTAs of one CGA may share an SM (CWD-15)
  multicast,       // at most one CTA of a CGA on an SM (CWD-16)
};

constexpr std::size_t kMaxFallbacks = 4;

// The grouping of a grid. Plain data: packets carry it. A grid without CGAs has none of the levels.
struct ClusterShape {
  std::array<Dim3, kCgaLevels> extents{kNoExtents, kNoExtents, kNoExtents, kNoExtents};  // in CTAs, by CgaLevel
  CgaMode mode = CgaMode::multicast;
  // Smaller sizes of the outermost level, in the order of trying, when the full size finds no room (CWD-21). A CGA of
  // full size that finds none is split: all its CTAs then start in CGAs of one smaller size. Unused: kNoExtents.
  std::array<Dim3, kMaxFallbacks> fallback{kNoExtents, kNoExtents, kNoExtents, kNoExtents};
  bool linear_memory = false;  // every outermost CGA takes a CGA memory slot (CWD-22)

  const Dim3& of(CgaLevel level) const { return extents[static_cast<std::size_t>(level)]; }
  Dim3& of(CgaLevel level) { return extents[static_cast<std::size_t>(level)]; }
  bool has(CgaLevel level) const { return of(level).count() != 0; }
  bool any() const { return has(CgaLevel::cpc) || has(CgaLevel::gpc) || has(CgaLevel::ugpu) || has(CgaLevel::gpu); }
  // The level that starts as a whole. any() must hold.
  CgaLevel outermost() const {
    for (std::size_t level = kCgaLevels; level-- > 0;) {
      if (extents[level].count() != 0) return static_cast<CgaLevel>(level);
    }
    return CgaLevel::gpc;
  }
  // Sizes that the outermost CGA can have: 1 and the fallbacks.
  std::uint32_t sizes() const {
    std::uint32_t count = 1;
    while (count <= kMaxFallbacks && fallback[count - 1].count() != 0) ++count;
    return count;
  }
  // Extents of the outermost CGA in its full size (0) or a fallback (1 …).
  const Dim3& size(std::uint32_t index) const { return index == 0 ? of(outermost()) : fallback[index - 1]; }
};

// What is wrong with the grouping of that grid, whatever the machine: extents that do not divide, levels that are not
// supported together (a CPC_CGA without a GPC_CGA, a GPU_CGA of uGPU_CGAs of CTAs), fallbacks that are not smaller.
// `max_gpc_cga`: most CTAs of a GPC_CGA. Empty if nothing is.
std::string why_malformed(const Dim3& grid, const ClusterShape& cluster, std::uint32_t max_gpc_cga);

}  // namespace heddle::arch

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
