// How a CTA goes to memory and comes back, access by access (TSK-12): the save takes an area, writes the state there,
// and then moves the home of the CTA's context from the SM to the area, if nobody has woken it meanwhile; the restore
// reads the state and gives the area back. Whoever drives it decides what an access costs: an SM, or a test that
// explores when else something happens.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/task_record.h"
#include "arch/tmdq.h"
#include "sm/saved_cta.h"

namespace heddle::sm {

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
