// The core of an L2 slice (MEM-01): which requests hit, which wait for memory and behind whom, what goes back to
// memory.
//
// Writes do not fetch what they leave out of a sector: each line knows its valid bytes. This is what GPUs do, since
// most sectors that are written in parts are complete before they are read or leave. One that is not is completed from
// memory when it leaves, because memory is given whole sectors only.
//
// Order. Requests to one line are served in the order in which they came. For each line, a fetch and the write-backs
// never overtake each other on their way to memory: a fetch waits for the acknowledgement of every write-back of its
// line, and a write-back for the one before it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/ring.h"
#include "common/stats.h"
#include "memory/l2_access.h"
#include "memory/l2_array.h"

namespace heddle::memory {

struct L2Config {
  std::uint32_t lines = 64;
  std::uint32_t ways = 16;
  std::uint32_t slices = 1;
  std::uint32_t mshrs = 16;
  std::uint32_t waiters = 32;
  std::uint32_t write_buffer = 8;
};

struct L2Counters {
  Counter& hits;
  Counter& merges;
  Counter& fills;
  Counter& write_backs;
  Counter& write_errors;
};

// Memory as a blocking access sees it. `data`: the image of a whole line. Returns kOk or memory's error.
class L2Memory {
 public:
  virtual int read(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, std::uint8_t* data) = 0;
  virtual int write(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, const std::uint8_t* data) = 0;

 protected:
  ~L2Memory() = default;
};

class L2Core {
 public:
  // How an operation ended; errors are those of the memory, passed on as they are (any other number).
  static constexpr int kOk = 1;

  enum class Outcome : std::uint8_t { done, waits, stalled };
  enum class Stall : std::uint8_t { mshr, waiter, way, write_buffer };

  // A run of sectors of a line, for memory.
  struct Command {
    enum class Kind : std::uint8_t { fetch, complete, write };
    Kind kind = Kind::fetch;   // the second: what a write-back lacks
    std::uint8_t first = 0;    // sector
    std::uint8_t sectors = 0;  // number of them
    std::uint32_t owner = 0;   // the core's own
    std::uint64_t line = 0;
    bool is_write() const { return kind == Kind::write; }
    std::uint32_t mask() const { return ((1U << sectors) - 1) << first; }  // bit = sector
  };
  // A request that waited and no longer does.
  struct Served {
    void* request = nullptr;
    int status = kOk;
    L2Access access;
  };

  L2Core(const L2Config& config, const L2Counters& counters);

  // `done`: the access has taken effect. `waits`: it will be in served() after some answer of memory. `stalled`:
  // nothing has happened, for the reason stall(); to be tried again after the next answer.
  Outcome serve(const L2Access& access, void* request);
  Stall stall() const { return stall_; }
  // The answer to a command; `data`: the image of a line, of a read that is well.
  void answer(const Command& command, int status, const std::uint8_t* data);
  std::vector<Served>& served() { return served_; }

  bool has_command() const { return !commands_.empty(); }
  // The bytes of a write, as an image of its line.
  const std::uint8_t* write_data(const Command& command) const { return entries_[command.owner].data.data(); }
  Command take_command() { return commands_.pop(); }

  // An access to that line comes soon.
  void prefetch_tags(std::uint64_t line) const { array_.prefetch_tags(line); }
  void prefetch_line(std::uint64_t line) const { array_.prefetch_line(line); }

  // The same at once; for accesses that must not wait. It keeps its own order with requests that wait for memory: from
  // different initiators, none is promised.
  int serve_now(const L2Access& access, L2Memory& memory);

  // Puts newer bytes than memory's over the image of a line; the result says which.
  LineMask overlay(std::uint64_t line, std::uint8_t* image) const;
  // Changes bytes that are here, or awaited. `in_memory`: the caller has changed them there too; if not, they are kept
  // as dirty. False if the line is not here and its bytes are not kept.
  bool poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes, bool in_memory);

  // The data of these sectors are corrupt, here and in memory. Requests that need them are told so, until somebody
  // writes all of a sector.
  void poison(std::uint64_t line, std::uint32_t sectors);
  bool poisoned(std::uint64_t line, std::uint32_t sectors) const;  // one of them

  // Something of the line is on its way from or to memory, or is corrupt: others cannot have its bytes.
  bool busy_with(std::uint64_t line) const;
  // Bytes of the line that memory does not have; null without any.
  const std::uint8_t* newer(std::uint64_t line, LineMask& bytes) const;
  // It is not here any more, whatever it held. It must not be busy.
  void forget(std::uint64_t line);

  bool idle() const { return fetching() == 0 && entries_in_use_ == 0 && flushing_.empty() && flush_next_.empty(); }
  std::uint32_t fetching() const { return config_.mshrs - static_cast<std::uint32_t>(free_mshrs_.size()); }  // lines
  std::uint32_t writing_back() const { return entries_in_use_; }                                             // lines
  void reset();

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  struct Mshr {
    std::uint32_t index = 0;      // of the line
    std::uint32_t first = kNone;  // waiters, in their order
    std::uint32_t last = kNone;
    std::uint8_t pending = 0;   // sectors that are being fetched
    std::uint8_t deferred = 0;  // of these: not asked for before the line's write-backs are done
    int status = kOk;           // of the last answer that was an error
  };
  struct Waiter {
    L2Access access;
    void* request = nullptr;
    std::uint32_t next = kNone;
  };
  // A line on its way to memory: a copy.
  struct Entry {
    std::uint64_t line = 0;
    std::uint64_t order = 0;
    LineMask valid;
    std::uint8_t dirty = 0;    // sectors to be written
    std::uint8_t answers = 0;  // that are outstanding
    bool used = false;
    bool started = false;
    std::array<std::uint8_t, arch::kLineBytes> data{};
  };

  Outcome stalls(Stall reason);
  Outcome miss(const L2Access& access, std::uint32_t index, std::uint32_t missing, void* request);
  Outcome join(const L2Access& access, std::uint32_t index, void* request);
  bool can_miss(const L2Access& access);
  void append(Mshr& mshr, const L2Access& access, void* request);
  void fetch(std::uint32_t number, std::uint32_t sectors);
  std::uint32_t command_runs(Command::Kind kind, std::uint32_t sectors, std::uint32_t owner, std::uint64_t line);
  void fill(const Command& command, int status, const std::uint8_t* data);
  void replay(std::uint32_t number);
  void merge(std::uint32_t index, std::uint32_t sectors, const std::uint8_t* image);
  void do_access(const L2Access& access, std::uint32_t index);
  void note_poison(const L2Access& access);
  void cure(std::uint64_t line, const LineMask& written);

  std::uint32_t oldest_of(std::uint64_t line) const;
  LineMask overlay_entries(std::uint64_t line, std::uint8_t* image) const;
  std::uint32_t new_entry(std::uint64_t line);
  std::uint32_t entry_of(std::uint32_t index);
  void start_entry(std::uint32_t number);
  void write_entry(std::uint32_t number);
  void answer_entry(const Command& command, int status, const std::uint8_t* data);
  void retire_entry(std::uint32_t number);
  void write_failed(const Entry& entry, int status);

  Outcome flush(void* request);
  void go_on_flushing();
  bool writing_up_to(std::uint64_t order) const;

  std::uint32_t place_now(std::uint64_t line, L2Memory& memory);
  int fetch_now(std::uint32_t index, std::uint32_t sectors, L2Memory& memory);
  int read_now(std::uint64_t line, std::uint32_t sectors, std::uint8_t* image, L2Memory& memory);
  int flush_now(L2Memory& memory);
  int uncached_now(const L2Access& access, L2Memory& memory);
  int write_entry_now(std::uint32_t number, L2Memory& memory);

  L2Config config_;
  L2Counters counters_;
  L2Array array_;
  std::vector<Mshr> mshrs_;
  std::vector<std::uint32_t> free_mshrs_;
  std::vector<Waiter> waiters_;
  std::uint32_t free_waiter_ = kNone;
  std::uint32_t waiters_in_use_ = 0;
  std::vector<Entry> entries_;
  std::uint32_t entries_in_use_ = 0;
  std::uint64_t entry_order_ = 0;
  Ring<Command> commands_;
  std::vector<Served> served_;
  std::vector<std::uint64_t> poisoned_;  // sectors of memory, by number: few, if any
  Stall stall_ = Stall::mshr;

  std::vector<void*> flushing_;         // write_back requests that wait for the walk and what it found
  std::vector<void*> flush_next_;       // those that came after it had begun
  std::uint32_t flush_cursor_ = kNone;  // the line at which the walk goes on; kNone: it is through
  std::uint64_t flush_end_ = 0;         // entries before this one count
  int flush_status_ = kOk;
};

}  // namespace heddle::memory
