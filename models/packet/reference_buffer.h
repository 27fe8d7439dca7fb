// Reference state buffer: the tables of all queues, one each or one for all (PKT-05), where they lie and what it takes
// to reach them (PKT-11).
//
// On the chip they share a memory with one port: an access takes it for entry bits over table_bits, one after another,
// whichever queue it is for. In device memory the chip keeps nothing of them, not even which entries are there: an
// entry is two lines at a physical address, which no process can map, and a table is emptied by writing. The lines go
// to memory as two requests, so accesses to one entry, from whichever queues, take turns.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "common/index_pool.h"
#include "common/state.h"
#include "packet/packet_reporter.h"
#include "packet/reference_table.h"

namespace heddle::packet {

// Who reads and writes entries for packets.
class EntryListener {
 public:
  // `kernel`: what lies in the entry, if `result` is good.
  virtual void entry_read(Packet& packet, std::uint32_t entry, const arch::HsaResult& result,
                          const StoredKernel& kernel) = 0;
  virtual void entry_written(Packet& packet, bool ok) = 0;

 protected:
  ~EntryListener() = default;
};

// Who looks at the scopes of an entry before a packet is decoded.
class ScopesListener {
 public:
  // `ticket` as it was asked for. Scopes of 0 where nothing is stored.
  virtual void scopes_read(std::uint32_t queue, std::uint64_t ticket, std::uint8_t scopes) = 0;

 protected:
  ~ScopesListener() = default;
};

// Turns at one entry in memory: reads go together, a write goes alone, and they begin in the order in which they came.
class EntryTurns {
 public:
  struct Access {
    std::uint32_t number = 0;
    bool writes = false;
  };

  void ask(const Access& access) { waiting_.push_back(access); }
  // The number of the next one that may begin, which it has then; nothing if none may.
  std::optional<std::uint32_t> begin() {
    if (waiting_.empty() || writes_ || (waiting_.front().writes && under_way_ > 0)) return std::nullopt;
    const Access next = waiting_.front();
    waiting_.pop_front();
    ++under_way_;
    writes_ = next.writes;
    return next.number;
  }
  // One that has begun has ended.
  void end() {
    --under_way_;
    writes_ = false;
  }

 private:
  std::deque<Access> waiting_;
  std::uint32_t under_way_ = 0;
  bool writes_ = false;
};

class ReferenceBuffer final : public PipelineStage {
 public:
  struct Neighbours {
    EntryListener& entries;
    ScopesListener& scopes;
    KernelValidator& validator;
    QueueSupervisor& supervisor;
  };

  // `base`: device address of the tables, if they lie in memory.
  ReferenceBuffer(const StageContext& context, const Neighbours& to, std::uint64_t base);

  // The queue is opened: a table of its own is empty then.
  void open(std::uint32_t queue);
  // Answers come later, in the order of the requests on the chip, in any from memory; none for a packet that is gone by
  // then, and a write of such a packet changes nothing if it has not begun. A table in memory that could not be emptied
  // is not used: table_unwritable, until a queue that is opened empties it.
  void read(Packet& packet, std::uint32_t entry);
  void write(Packet& packet, std::uint32_t entry, const StoredKernel& kernel);
  void read_scopes(std::uint32_t queue, std::uint32_t entry, std::uint64_t ticket);

  void on_answer(const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  // The programs of all entries that are there.
  void mark_codes(std::set<std::uint32_t>& used) const;
  // While no access is under way.
  void save(StateWriter& to) const;
  void restore(StateReader& from);

 private:
  // Argument: an access, and the number of the reset in the upper half.
  enum Event : std::uint32_t { kDone, kRefused };
  enum class Kind : std::uint8_t { read, write, scopes };
  struct Access {
    Kind kind = Kind::read;
    std::uint32_t queue = 0;
    std::uint64_t packet = 0;  // Packet::reference(); of scopes: the ticket
    std::uint32_t entry = 0;
    StoredKernel kernel;  // that is written
    // In memory.
    std::uint32_t missing = 0;  // lines
    bool ok = true;
    EntryBytes bytes{};
  };
  struct Table {
    Table(const PacketParams& params, bool on_chip);

    ReferenceTable entries;  // on the chip
    // In memory.
    bool emptied = false;               // since the last reset
    std::uint32_t clearing = 0;         // entries that are being emptied
    std::deque<std::uint32_t> waiting;  // accesses until that is done
    std::vector<EntryTurns> turns;      // by entry
    // By entry, the programs of which one lies there: the last one, and those after it whose entries memory has not
    // taken, or only a part of them. Their numbers are not given to others.
    std::vector<std::set<std::uint32_t>> programs;
  };

  std::uint32_t table_of(std::uint32_t queue) const { return params().table_owner == TableOwner::queue ? queue : 0; }
  bool on_chip() const { return params().table == TablePlace::scratch; }
  std::uint64_t address(std::uint32_t table, std::uint32_t entry) const {
    return base_ + (std::uint64_t{table} * params().entries + entry) * kEntryBytes;
  }
  void enter(Access access);
  void enter_chip(std::uint32_t number);
  void enter_memory(std::uint32_t number);
  void begin_next(std::uint32_t table, std::uint32_t entry);
  void move_lines(std::uint32_t number);
  void later(Cycle cycles, Event event, std::uint32_t number);
  void line_moved(const MemoryAnswer& answer);
  void cleared(const MemoryAnswer& answer);
  static void note_program(Table& table, const Access& written);
  void finish_chip(const Access& access);
  void finish_memory(const Access& access);
  void tell(const Access& access, const arch::HsaResult& result, const StoredKernel& kernel);

  const Neighbours to_;
  const std::uint64_t base_;
  std::vector<Table> tables_;
  IndexPool<Access> accesses_;
  std::uint32_t resets_ = 0;
  Cycle port_free_ = 0;
};

}  // namespace heddle::packet
