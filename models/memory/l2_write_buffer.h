// The write buffer of an L2 slice: lines on their way back to memory.
//
// Memory is given whole sectors only. So an entry that holds a sector in parts first reads what is missing, and then
// writes. The entries of one line never overtake each other: the next one starts when the one before it is done.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/index_pool.h"
#include "memory/l2_access.h"
#include "memory/l2_array.h"
#include "memory/l2_command.h"

namespace heddle::memory {

class L2WriteBuffer {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Hears what becomes of the entries.
  class Listener {
   public:
    // Memory has refused bytes of the entry with that running number: they are lost, and nobody else waits for them.
    virtual void write_back_failed(std::uint64_t order, int status) = 0;
    // An entry has left; `last`: no other one of its line is here.
    virtual void write_back_done(std::uint64_t line, bool last) = 0;

   protected:
    ~Listener() = default;
  };

  L2WriteBuffer(std::uint32_t entries, L2Counters& counters, L2CommandQueue& commands, Listener& listener)
      : limit_(entries), counters_(counters), commands_(commands), listener_(listener) {}

  // Blocking accesses do not look at this: they may take more entries than there are.
  bool full() const { return entries_.in_use() >= limit_; }
  bool empty() const { return entries_.in_use() == 0; }
  std::uint32_t in_use() const { return static_cast<std::uint32_t>(entries_.in_use()); }
  // The running number of the youngest entry, and whether any up to a number is still here.
  std::uint64_t last_order() const { return last_order_; }
  bool holds_up_to(std::uint64_t order) const;
  bool holds(std::uint64_t line) const { return oldest_of(line) != kNone; }

  // A copy of a dirty line, which is clean from now on. Returns the entry's number.
  std::uint32_t take(L2Array& array, std::uint32_t index);
  // Bytes of a line that is not in the array; `writers`: whose they are.
  std::uint32_t take(std::uint64_t line, const LineMask& valid, std::uint32_t dirty, const SectorOwners& writers,
                     const std::uint8_t* image);
  // Sends its commands, unless an older entry of its line is here: then it starts by itself.
  void start(std::uint32_t number);
  // The answer to a command that is no fetch; `data`: the image of a line, of a read that is well.
  void answer(const L2Command& command, int status, const std::uint8_t* data);
  // The bytes of a write, as an image of its line.
  const std::uint8_t* data_of(const L2Command& command) const { return entries_[command.owner].data.data(); }
  // The whole way of an entry at once. Behind an older entry of its line it takes that one's way.
  int write_blocking(std::uint32_t number, L2Memory& memory);

  // Puts what is here of a line over its image, oldest first; the result says which bytes.
  LineMask overlay(std::uint64_t line, std::uint8_t* image) const;
  // Changes bytes in all entries of the line.
  void poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes);

  void reset();

 private:
  struct Entry {
    std::uint32_t number = 0;
    std::uint64_t line = 0;
    std::uint64_t order = 0;
    LineMask valid;
    SectorOwners writers;
    std::uint8_t dirty = 0;    // sectors to be written
    std::uint8_t answers = 0;  // that are outstanding
    bool started = false;
    std::array<std::uint8_t, arch::kLineBytes> data{};
  };

  std::uint32_t oldest_of(std::uint64_t line) const;
  // Sectors to be written of which bytes are missing.
  static std::uint32_t partial(const Entry& entry) { return (LineMask::sectors(entry.dirty) & ~entry.valid).touched(); }
  static void complete(Entry& entry, std::uint32_t sectors, const std::uint8_t* image);
  void write(Entry& entry);
  void fail(const Entry& entry, int status);
  void retire(std::uint32_t number);

  std::uint32_t limit_;
  L2Counters& counters_;
  L2CommandQueue& commands_;
  Listener& listener_;
  IndexPool<Entry> entries_;
  std::uint64_t last_order_ = 0;
};

// Miss-status holding registers: which lines are being fetched, and which requests wait for each.
class L2Mshrs {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Mshr {
    std::uint32_t index = 0;      // of the line in the array
    std::uint32_t first = kNone;  // targets, in the order of their arrival
    std::uint32_t last = kNone;
    SectorOwners owners;        // who has asked first for the sectors that are being fetched
    SectorKernels kernels;      // and for which kernel
    std::uint8_t pending = 0;   // these
    std::uint8_t deferred = 0;  // of these, the ones not asked for before the line's write-backs are done
    bool stale = false;         // what comes serves those who wait, and goes (L2Invalidation)
    int status = 1;             // of the last answer that was an error
  };
  // A request that waits for a line.
  struct Target {
    L2Access access;
    void* request = nullptr;
    std::uint32_t next = kNone;
  };

  // `targets`: requests that can wait, over all MSHRs.
  L2Mshrs(std::uint32_t mshrs, std::uint32_t targets) : mshr_limit_(mshrs), target_limit_(targets) {}

  bool full() const { return mshrs_.in_use() >= mshr_limit_; }
  bool targets_full() const { return targets_.in_use() >= target_limit_; }
  std::uint32_t in_use() const { return static_cast<std::uint32_t>(mshrs_.in_use()); }
  std::uint32_t targets() const { return static_cast<std::uint32_t>(targets_.in_use()); }

  // An MSHR for a line of the array; full() does not hold.
  std::uint32_t take(std::uint32_t index) {
    const std::uint32_t number = mshrs_.take();
    mshrs_[number] = Mshr();
    mshrs_[number].index = index;
    return number;
  }
  void give_back(std::uint32_t number) { mshrs_.give_back(number); }
  Mshr& operator[](std::uint32_t number) { return mshrs_[number]; }
  const Mshr& operator[](std::uint32_t number) const { return mshrs_[number]; }

  // Behind the targets that the MSHR has; targets_full() does not hold.
  void append(std::uint32_t number, const L2Access& access, void* request) {
    const std::uint32_t target = targets_.take();
    targets_[target] = {access, request, kNone};
    Mshr& mshr = mshrs_[number];
    (mshr.first == kNone ? mshr.first : targets_[mshr.last].next) = target;
    mshr.last = target;
  }
  bool has_target(std::uint32_t number) const { return mshrs_[number].first != kNone; }
  const Target& first_target(std::uint32_t number) const { return targets_[mshrs_[number].first]; }
  void pop_target(std::uint32_t number) {
    Mshr& mshr = mshrs_[number];
    const std::uint32_t target = mshr.first;
    mshr.first = targets_[target].next;
    targets_.give_back(target);
  }

  void reset() {
    mshrs_.clear();
    targets_.clear();
  }

 private:
  std::uint32_t mshr_limit_;
  std::uint32_t target_limit_;
  IndexPool<Mshr> mshrs_;
  IndexPool<Target> targets_;
};

// The slice forgets what it has from memory and memory still has: others may have changed it there (MEM-06). Dirty
// sectors stay, and so does what is on its way to memory. What is being fetched may be older than the request: it
// serves those who wait for it and goes then, and the request is answered after that.
class L2Invalidation {
 public:
  // Requests that are done are appended to `served`.
  L2Invalidation(L2Array& array, L2Mshrs& mshrs, std::vector<L2Served>& served)
      : array_(array), mshrs_(mshrs), served_(served) {}

  // False: it is done. Otherwise the request will be among those served.
  bool begin(const L2Access& access, void* request);
  // For calls, which are over at once.
  void begin();
  // Of requests so far: what was read from memory before another number may be old.
  std::uint64_t number() const { return number_; }
  // Nothing more comes for a line whose fetches were under way.
  void fetched(std::uint32_t index);

  bool idle() const { return waiting_.empty(); }
  void reset();

 private:
  L2Array& array_;
  L2Mshrs& mshrs_;
  std::vector<L2Served>& served_;
  std::vector<L2Served> waiting_;
  std::uint32_t fetches_ = 0;  // of stale lines
  std::uint64_t number_ = 0;
};

}  // namespace heddle::memory
