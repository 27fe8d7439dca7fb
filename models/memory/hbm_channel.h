// One pseudo-channel and its scheduler, without SystemC.
//
// Reads and writes wait in queues of their own, sorted by bank. Rows are opened as early as the part allows, the oldest
// access first; of the columns that can go at the next free place on the data bus, the oldest goes (first-ready,
// first-come first-served). A bank that served `row_hit_cap` accesses from one row turns to its oldest access. Writes
// wait until there are `write_high` of them or nothing is to be read, and then go in one batch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/stats.h"
#include "memory/hbm_banks.h"
#include "memory/hbm_queue.h"
#include "memory/hbm_timing.h"

namespace heddle::memory {

struct HbmQueues {
  std::uint32_t reads = 64;   // lines
  std::uint32_t writes = 64;  // lines
  std::uint32_t write_high = 48;
  std::uint32_t write_low = 16;
  std::uint32_t row_hit_cap = 32;  // accesses
};

struct HbmDone {
  HbmTick when = 0;  // end of its last data
  std::uint32_t tag = 0;
};

class HbmChannel {
 public:
  // The first refresh is due at `first_refresh`. `trace` may be null.
  HbmChannel(const HbmTiming& timing, const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh,
             HbmTrace* trace = nullptr);

  bool has_room(bool write) const { return !queue(write).full(); }
  std::uint32_t waiting(bool write) const { return queue(write).size(); }

  enum class Entered {
    queued,
    merged,     // a write to a line that already waits to be written
    forwarded,  // a read of sectors that wait to be written: nothing more will be done
  };
  // Takes an access in; has_room() holds.
  Entered enter(bool write, const HbmAccess& access);

  // Issues the commands that begin before `until`. Reads whose last command was issued are appended to `done`, in order
  // of time. Returns when to call again, `until` or later: kNoTick if there is no work. A refresh alone is no work: it
  // is made up for when work comes. `now`: nothing may begin before; until - now is a cycle.
  HbmTick advance(HbmTick now, HbmTick until, std::vector<HbmDone>& done);

  // As built.
  void reset();

 private:
  HbmQueue& queue(bool write) { return write ? writes_ : reads_; }
  const HbmQueue& queue(bool write) const { return write ? writes_ : reads_; }

  void choose_direction();
  void turn_to(bool writing) {
    writing_ = writing;
    open_at_ = 0;
  }
  void open_rows(HbmTick now);
  HbmTick issue_column(HbmTick now, HbmTick until, std::vector<HbmDone>& done);
  void update_hits(bool write, std::uint32_t bank);
  void after_close(std::uint64_t banks);

  HbmQueues limits_;
  HbmCounters* counters_;
  HbmTick lead_;   // how far ahead rows are opened
  HbmTick slack_;  // by how much less they may be
  HbmBanks banks_;
  HbmQueue reads_;
  HbmQueue writes_;
  bool writing_ = false;
  bool batch_ = false;           // writing began at write_high and goes on down to write_low
  std::uint32_t turn_left_ = 0;  // lines before the direction may change while both wait
  std::uint64_t age_ = 0;
  HbmTick open_at_ = 0;  // no row of this direction can be opened before
};

}  // namespace heddle::memory
