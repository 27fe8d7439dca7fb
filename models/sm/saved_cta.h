// A CTA that waits for tasks that it has launched, as bytes: what its SM writes to memory when it gives the CTA's slot
// up, and what the SM reads to which the CTA comes back (TSK-12).
//
// Only what cannot be had otherwise: the program, the shape of the grid and the resources come with the CTA's start.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/task_record.h"
#include "arch/tmdq.h"
#include "arch/warp_program.h"
#include "sm/cta_table.h"

namespace heddle::sm {

struct SavedWarp {
  enum class At : std::uint8_t {
    exited,    // `state` is empty
    barrier,   // of the CTA
    children,  // it waits for the tasks of its context
  };
  At at = At::exited;
  std::uint32_t barrier = 0;
  std::vector<arch::WaitTarget> targets;  // children: some of them, those; empty: all
  std::uint32_t issued_pc = 0;            // of the operation in which it waits, for messages
  // Barrier of the cluster of one CTA: it has arrived and not waited since; and the phase has completed.
  bool cluster_arrived = false;
  bool cluster_passed = false;
  arch::WarpState state;
};

struct SavedCta {
  // Whose state it is: what is read back must be of the same CTA.
  std::uint32_t operation = 0;
  std::uint64_t index = 0;    // linear id in the grid
  std::uint64_t record = 0;   // TMD of its task
  std::uint64_t context = 0;  // its own
  std::uint64_t kernarg = 0;  // address of its arguments

  // Of a queue task (TSK-05): its index is its ticket, and at its end the entry is given back, by that value there.
  bool queue = false;
  bool gives_turn = false;
  std::uint64_t turn_entry = 0;
  std::uint64_t turn = 0;

  CtaBarriers::State barriers;
  std::uint32_t cluster_arrived = 0;  // warps at the barrier of the cluster of one CTA, in its current phase
  std::uint64_t cluster_phases = 0;   // that have completed
  std::vector<SavedWarp> warps;
  std::vector<std::uint8_t> shared;  // what of its shared memory it has not given back (CGA-09)
  // Registers that the kernel has been allocated and its program does not name: they are state like others.
  std::uint64_t further_bytes = 0;
};

// To and from bytes (little endian, with a version and a check sum); restore throws InputError for bytes that save did
// not write.
std::vector<std::uint8_t> save(const SavedCta& cta);
SavedCta restore_cta(const std::vector<std::uint8_t>& bytes);
// Throws InputError for a warp that cannot go on in the program whose fresh state that is. `number`: of the warp, for
// the message.
void check_fits(const SavedWarp& saved, const arch::WarpState& fresh, std::uint32_t number);
[[noreturn]] void does_not_fit(const std::string& why);

// First line of the area: what task management reads of a saved CTA (arch/task_record.h).
struct SavedHeader {
  std::uint32_t operation = 0;
  std::uint64_t record = 0;
  std::uint64_t context = 0;
  std::uint64_t bytes = 0;  // of the state, which follows
  std::uint32_t local = 0;  // bytes of local memory, behind the state
  std::uint64_t index = 0;
  std::array<std::uint32_t, 3> cta{};
};
using SavedLine = std::array<std::uint8_t, arch::kRecordBytes>;
SavedLine line_of(const SavedHeader& header);
SavedHeader header_of(const SavedLine& line);

// Where a saved CTA lies: a stream of bytes, the header first, then the addresses of all chunks but the first, then the
// state, cut into chunks.
class SaveLayout {
 public:
  static constexpr std::uint64_t kUnit = 16;  // bytes of a lane: what accesses are multiples of
  static constexpr std::uint64_t whole(std::uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

  explicit SaveLayout(const SavedHeader& header = {});
  static bool fits(const arch::RecordPool& chunks, const SavedHeader& header);

  std::uint64_t chunks() const { return chunks_; }
  // Offsets of the state, and of what was in local memory.
  std::uint64_t state_at() const { return arch::kRecordBytes + whole(8 * (chunks_ - 1)); }
  std::uint64_t local_at() const { return state_at() + whole(state_bytes_); }
  std::uint64_t end() const { return local_at() + local_bytes_; }
  // Bytes of the access at that offset: it ends where its chunk or the stream does.
  std::uint32_t access_bytes(std::uint64_t offset, std::uint64_t end, std::uint32_t most) const;

 private:
  std::uint64_t state_bytes_;
  std::uint64_t local_bytes_;
  std::uint64_t chunks_ = 1;
};

// How a CTA goes to memory and comes back, access by access (TSK-12): the save takes as many chunks as the state needs,
// writes it there, and then moves the home of the CTA's context from the SM to the area, if nobody has woken it
// meanwhile; the restore reads the state and gives the chunks back. Whoever drives it decides what an access costs: an
// SM, or a test that explores when else something happens.
class ContextTransfer {
 public:
  static constexpr std::uint32_t kAccess = 512;  // bytes of an access: 16 for each lane of a warp
  static constexpr std::uint32_t kWindow = 8;    // accesses under way at the same time

  // How it ended, as far as its CTA is concerned.
  enum class Outcome : std::uint8_t {
    open,
    saved,      // the CTA is in memory, and nowhere else
    woken,      // it stays: its context was woken before
    no_area,    // it stays: there is no room for it at the moment
    cancelled,  // by cancel()
    restored,   // bytes() holds the state
    failed,     // an access of it has; or the header of the state is none
  };

  struct Access {
    enum class Kind : std::uint8_t { step, read, write };
    Kind kind = Kind::step;
    arch::MemoryStep step;      // step
    std::uint64_t address = 0;  // read, write: of `bytes` bytes, both multiples of 16
    std::uint32_t bytes = 0;
    const std::uint8_t* data = nullptr;  // write: valid until the next call
    bool translated = false;             // read, write: an address of the CTA's subcontext (MEM-04)
    std::uint64_t offset = 0;            // for answer(): in the stream, or number of the chunk
  };
  // The place of a warp in local memory: whole units.
  struct Local {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };

  // What becomes of the home of the CTA's context.
  struct Home {
    std::uint64_t here = 0;  // what it is while the CTA waits here; 0: the context is shared, and keeps a list of saved
                             // CTAs
    bool counted = false;    // shared: the CTA was saved before, and its task counts it as open
  };
  // The state must fit: SaveLayout::fits(). `local`: where the local memory of its warps lies, one behind another in
  // the stream.
  static ContextTransfer save(const arch::RecordPool& chunks, const SavedHeader& header,
                              const std::vector<std::uint8_t>& state, const Home& home, std::vector<Local> local = {});
  static ContextTransfer restore(const arch::RecordPool& chunks, std::uint64_t area, std::vector<Local> local = {});

  // restore: the places are known at the latest with the header.
  void place(std::vector<Local> local) { local_ = std::move(local); }
  // Whether next() has something; if not, an answer is awaited, or it is over.
  bool wants() const;
  Access next();
  // The last answer was that of a step that waits for somebody else: it is to be done again, after a while.
  bool again() const { return again_; }
  // `old`: what was there before (step); `data`: what has been read.
  void answer(const Access& access, std::uint64_t old, const std::uint8_t* data);
  void fail(const Access& access);
  // The CTA goes on, or will never: what has been taken is given back, and what is decided stays so. While the home is
  // moving it is for a CTA that ends: the home is taken away again, unless somebody has found it meanwhile.
  void cancel();

  Outcome outcome() const { return outcome_; }
  // The CTA cannot go on: its home may be moving.
  bool claims() const { return at_ >= At::enter && at_ <= At::revoke; }
  // It has been killed, and its home has moved all the same: until the answer, others may find it in memory.
  bool revokes() const { return at_ == At::revoke; }
  // Saved in a shared context: all that its warps wait for had completed before, and nobody may have found it.
  bool came_late() const { return late_; }
  bool over() const { return at_ == At::over && in_flight_ == 0; }
  std::uint64_t area() const { return chunk_.empty() ? 0 : chunk_.front(); }
  // restore: it is known.
  bool has_header() const { return has_header_; }
  const SavedHeader& header() const { return header_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  enum class At : std::uint8_t {
    reserve,    // save: are there as many free chunks?
    unreserve,  // there are not, or they are not needed any more
    ticket,     // they are taken
    take,       // those that have been given back before
    gather,     // local memory is read
    write,      // the state goes there
    enter,      // shared context: the task counts the CTA as open
    look,       // who was saved last?
    link,       // the CTA names it
    claim,      // the home moves
    late,       // has everything completed meanwhile?
    revoke,     // the home is taken away again
    header,     // restore: of what size is the state?
    list,       // where are its chunks?
    read,       // it comes
    scatter,    // local memory is written
    give,       // the chunks go back
    put,        // each of them
    uncount,
    over,
  };
  enum class Mark : std::uint8_t { open, asked, done };  // of a chunk

  explicit ContextTransfer(const arch::RecordPool& pool) : pool_(pool) {}
  void begin_layout();
  std::uint64_t address_of(std::uint64_t offset) const {
    return chunk_[offset / arch::kSaveChunk] + offset % arch::kSaveChunk;
  }
  Access step_of_chunk();
  Access transfer_of(Access::Kind kind, std::uint64_t end);
  Access local_access(Access::Kind kind);
  void begin_stream(At at, std::uint64_t offset);
  bool has_open_chunk() const;
  void begin_chunks(At at, std::uint64_t ticket);
  void chunks_done();
  void chunk_answered(std::uint64_t number, std::uint64_t old);
  void claimed(std::uint64_t old);
  void header_read(const std::uint8_t* data);
  void list_read();
  void decide(Outcome outcome);
  void settled();
  void moved();

  arch::RecordPool pool_;
  SaveLayout layout_;
  bool restores_ = false;
  At at_ = At::reserve;
  Outcome outcome_ = Outcome::open;
  std::vector<std::uint64_t> chunk_;  // addresses
  std::vector<Mark> marks_;
  std::uint64_t ticket_ = 0;  // of the first chunk that is taken, or given back
  Home home_;
  bool shared_ = false;
  std::vector<Local> local_;
  std::uint64_t head_ = 0;  // shared: the list of saved CTAs, as far as is known
  SavedHeader header_;
  bool has_header_ = false;
  bool revokes_ = false;  // cancelled while the home moved
  bool late_ = false;
  bool again_ = false;
  std::vector<std::uint8_t> stream_;  // save: what is written; restore: what has been read
  std::vector<std::uint8_t> bytes_;   // restore: the state
  std::uint64_t sent_ = 0;            // bytes of the stream
  std::uint32_t in_flight_ = 0;
};

}  // namespace heddle::sm
