// A CTA that waits for tasks that it has launched, as bytes: what its SM writes to memory when it gives the CTA's slot
// up, and what the SM reads to which the CTA comes back (TSK-12).
//
// Only what cannot be had otherwise: the program, the shape of the grid and the resources come with the CTA's start.
#pragma once

#include <array>
#include <cstdint>
#include <string>
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
  std::uint32_t issued_pc = 0;  // of the operation in which it waits, for messages
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
  std::uint64_t index = 0;
  std::array<std::uint32_t, 3> cta{};
};
using SavedLine = std::array<std::uint8_t, arch::kRecordBytes>;
SavedLine line_of(const SavedHeader& header);
SavedHeader header_of(const SavedLine& line);

// How a CTA goes to memory and comes back, access by access (TSK-12): the save takes an area, writes the state there,
// and then moves the home of the CTA's context from the SM to the area, if nobody has woken it meanwhile; the restore
// reads the state and gives the area back. Whoever drives it decides what an access costs: an SM, or a test that
// explores when else something happens.
class ContextTransfer {
 public:
  static constexpr std::uint32_t kChunk = 512;  // bytes of an access: 16 for each lane of a warp
  static constexpr std::uint32_t kWindow = 8;   // accesses under way at the same time

  // How it ended, as far as its CTA is concerned.
  enum class Outcome : std::uint8_t {
    open,
    saved,      // the CTA is in memory, and nowhere else
    woken,      // it stays: its context was woken before
    no_area,    // it stays: there is none free at the moment
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
  };

  // `home`: what the home of the context is while the CTA waits here. The state must fit: see fits().
  static ContextTransfer save(const arch::RecordPool& areas, const SavedHeader& header, std::vector<std::uint8_t> state,
                              std::uint64_t home);
  static ContextTransfer restore(const arch::RecordPool& areas, std::uint64_t area);
  static bool fits(const arch::RecordPool& areas, std::uint64_t state_bytes);

  // Whether next() has something; if not, an answer is awaited, or it is over.
  bool wants() const;
  Access next();
  // The next access has been done before, and waits for somebody else: to be done after a while.
  bool again() const;
  // `old`: what was there before (step); `data`: what has been read.
  void answer(const Access& access, std::uint64_t old, const std::uint8_t* data);
  void fail(const Access& access);
  // The CTA goes on, or will never: what has been taken is given back, and what is decided stays so. While the home is
  // moving it is for a CTA that ends: the home is taken away again, unless somebody has found it meanwhile.
  void cancel();

  Outcome outcome() const { return outcome_; }
  // The CTA cannot go on: its home may be moving.
  bool claims() const { return at_ == At::claim || at_ == At::revoke; }
  // It has been killed, and its home has moved all the same: until the answer, others may find it in memory.
  bool revokes() const { return at_ == At::revoke; }
  bool over() const { return at_ == At::over && in_flight_ == 0; }
  std::uint64_t area() const { return area_; }
  // restore: it is known.
  bool has_header() const { return has_header_; }
  const SavedHeader& header() const { return header_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  enum class At : std::uint8_t {
    look,    // save: is an area free?
    take,    // it is taken
    write,   // the state goes there
    claim,   // the home moves
    revoke,  // it is taken away again
    header,  // restore: of what size is the state?
    read,    // it comes
    give,    // the area goes back
    over,
  };
  explicit ContextTransfer(const arch::RecordPool& areas) : areas_(areas), take_(areas), give_(areas, 0) {}
  Access chunk(Access::Kind kind);
  void decide(Outcome outcome);
  void settled();

  arch::RecordPool areas_;
  bool restores_ = false;
  At at_ = At::look;
  Outcome outcome_ = Outcome::open;
  arch::TakeSteps take_;
  arch::GiveSteps give_;
  std::uint64_t area_ = 0;
  std::uint64_t home_ = 0;
  SavedHeader header_;
  bool has_header_ = false;
  bool revokes_ = false;             // cancelled while the home moved
  std::vector<std::uint8_t> bytes_;  // save: header line and state, whole units; restore: the state
  std::uint64_t sent_ = 0;           // of them
  std::uint32_t in_flight_ = 0;
};

}  // namespace heddle::sm
