// What the parts of an L2 slice's core say to each other and to memory: commands, answers, counters, configuration.
#pragma once

#include <cstdint>

#include "arch/address_map.h"
#include "common/bits.h"
#include "common/index_pool.h"
#include "common/stats.h"
#include "memory/l2_access.h"
#include "memory/l2_lanes.h"
#include "memory/l2_presence.h"

namespace heddle::memory {

struct L2Config {
  std::uint32_t lines = 64;
  std::uint32_t ways = 16;
  std::uint32_t slices = 1;
  std::uint32_t mshrs = 16;
  std::uint32_t mshr_targets = 32;  // requests that wait for lines, over all MSHRs
  std::uint32_t write_buffer = 8;
  std::uint32_t eager_ways = 0;
  const arch::AddressMap* map = nullptr;  // counts the lines of the slice, and must outlive it; null: no rows
  std::uint32_t slice = 0;                // its number there
  bool copies = false;                    // there can be copies of lines of other slices
  std::uint32_t row_lines = 1;            // of the slice, as its map counts them, that share a row of memory
  std::uint32_t fetch_sectors = 1;
  L2Presence* presence = nullptr;  // of all slices, must outlive it; null: nobody asks
};

struct L2Counters : StatGroup {
  using StatGroup::StatGroup;
  Counter& hits = counter("hits", "requests", "requests served without waiting for memory");
  Counter& merges = counter("merges", "requests", "requests that waited behind an earlier one for the same line");
  Counter& fills = counter("fills", "sectors", "sectors read from memory");
  Counter& copied = counter("copies.sectors", "sectors", "sectors that came from the twin to be kept as copies");
  Counter& write_backs = counter("write_backs", "sectors", "sectors written to memory");
  Counter& written_along = counter("written_along", "lines", "lines written back because one of their row left");
  Counter& write_errors =
      counter("write_errors", "transfers", "write-backs that memory has refused: their bytes are lost");

  OwnerAccounts* owners = nullptr;   // null: nobody asks
  KernelAccount* kernels = nullptr;  // null: nobody asks
  std::uint32_t slice = 0;           // number
  L2Lanes* lanes = nullptr;          // while bandwidth is shared

  // `good`: it is one that the slice can carry out.
  void count_request(const L2Access& access, bool good) {
    const std::uint32_t sectors = good && access.moves() ? bits::count(access.bytes.touched()) : 0;
    count_request(access.owner(), access.kernel(), sectors);
  }
  // The same of a read of so many sectors.
  void count_request(std::uint8_t owner, std::uint32_t kernel, std::uint32_t sectors) {
    const std::uint64_t bytes = std::uint64_t{sectors} * arch::kSectorBytes;
    if (counts_kernels(kernels)) {
      kernels->add(kernel, KernelCount::l2_requests, 1);
      kernels->add(kernel, KernelCount::l2_bytes, bytes);
    }
    if (owners == nullptr) return;
    OwnerAccounts::Row& row = owners->of(owner);
    row.l2_requests.add();
    row.l2_bytes.add(bytes);
  }
  void count_hit(const L2Access& access) { count_hit(access.owner(), access.kernel()); }
  void count_hit(std::uint8_t owner, std::uint32_t kernel) {
    hits.add();
    if (counts_kernels(kernels)) kernels->add(kernel, KernelCount::l2_hits, 1);
    if (owners != nullptr) owners->of(owner).l2_hits.add();
  }
  // It has changed values, and takes the slice for so many cycles.
  void charge_atomic(const L2Access& access, std::uint32_t rate) {
    if (counts_kernels(kernels)) kernels->atomics(access.kernel(), slice, atomic_cycles(access, rate));
  }
  // So many requests that have gone past the cache.
  void count_range(std::uint8_t owner, std::uint32_t requests, std::uint32_t sectors, bool write) {
    (write ? write_backs : fills).add(sectors);
    if (counts_kernels(kernels)) {
      const std::uint64_t bytes = std::uint64_t{sectors} * arch::kSectorBytes;
      kernels->add(KernelAccount::kNobody, KernelCount::l2_requests, requests);
      kernels->add(KernelAccount::kNobody, KernelCount::l2_bytes, bytes);
      kernels->add(KernelAccount::kNobody, write ? KernelCount::dram_written : KernelCount::dram_read, bytes);
    }
    if (owners == nullptr) return;
    OwnerAccounts::Row& row = owners->of(owner);
    row.l2_requests.add(requests);
    row.l2_bytes.add(std::uint64_t{sectors} * arch::kSectorBytes);
    (write ? OwnerAccounts::written : OwnerAccounts::read)(row).add(std::uint64_t{sectors} * arch::kSectorBytes);
  }
  // Sectors that have come from memory for those kernels, or are going there.
  void count_read(const SectorOwners& whose, const SectorKernels& rows, std::uint32_t sectors) {
    if (owners != nullptr) owners->count(whose, sectors, OwnerAccounts::read);
    if (!counts_kernels(kernels)) return;
    bits::for_each(
        sectors, [&](std::uint32_t sector) { kernels->add(rows[sector], KernelCount::dram_read, arch::kSectorBytes); });
  }
  // When a line is written back has to do with those that come as much as with those that wrote it: it is nobody's.
  void count_written(const SectorOwners& whose, std::uint32_t sectors) {
    write_backs.add(bits::count(sectors));
    if (counts_kernels(kernels)) {
      kernels->add(KernelAccount::kNobody, KernelCount::dram_written,
                   std::uint64_t{bits::count(sectors)} * arch::kSectorBytes);
    }
    if (owners != nullptr) owners->count(whose, sectors, OwnerAccounts::written);
  }
  // Of sectors that are written back, the rest that memory has.
  void count_completed(const SectorOwners& whose, std::uint32_t sectors) {
    count_read(whose, {}, sectors);
    if (lanes != nullptr) lanes->charge(whose, sectors);
  }
};

// How an operation ended; errors are those of the memory, passed on as they are (any other number).
constexpr int kL2Ok = 1;

// Memory as a blocking access sees it. `data`: the image of a whole line. Returns kL2Ok or memory's error.
class L2Memory {
 public:
  virtual int read(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, std::uint8_t* data) = 0;
  virtual int write(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, const std::uint8_t* data) = 0;
  // The line comes from another slice, which counts what it takes of memory.
  virtual bool is_copy(std::uint64_t /*line*/) const { return false; }

 protected:
  ~L2Memory() = default;
};

// A run of sectors that memory is to read or write.
struct L2Command {
  enum class Kind : std::uint8_t {
    fetch,     // what requests lack
    complete,  // a read of what a write-back lacks: memory is given whole sectors only
    write,
  };
  Kind kind = Kind::fetch;
  std::uint8_t first = 0;    // sector
  std::uint8_t sectors = 0;  // number of them
  std::uint8_t whose = 0;    // subcontext
  std::uint32_t kernel = 0;  // row of the one that fetches; 0: nobody's
  std::uint32_t owner = 0;   // number of the MSHR, or of the entry of the write buffer
  std::uint64_t line = 0;
  bool is_write() const { return kind == Kind::write; }
  std::uint32_t mask() const { return SectorRun{first, sectors}.mask(); }
};

// Commands on their way out of the core, in order.
class L2CommandQueue {
 public:
  // A command for each run of the sectors, for whom the first of it belongs to; returns their number.
  std::uint32_t push_runs(L2Command::Kind kind, std::uint32_t sectors, const SectorOwners& whose,
                          const SectorKernels& kernels, std::uint32_t owner, std::uint64_t line) {
    std::uint32_t runs = 0;
    for (; sectors != 0; ++runs) {
      const SectorRun run = take_run(sectors);
      commands_.push({kind, static_cast<std::uint8_t>(run.first), static_cast<std::uint8_t>(run.count),
                      whose[run.first], kernels[run.first], owner, line});
    }
    return runs;
  }
  bool empty() const { return commands_.empty(); }
  std::size_t size() const { return commands_.size(); }
  L2Command pop() { return commands_.pop(); }
  void clear() { commands_.clear(); }

 private:
  Ring<L2Command> commands_;
};

// A request that has waited and no longer does.
struct L2Served {
  void* request = nullptr;
  int status = kL2Ok;
  L2Access access;
};

}  // namespace heddle::memory
