// How a CTA goes to memory and comes back, access by access (TSK-12): the save takes as many chunks as the state needs,
// writes it there, and then moves the home of the CTA's context from the SM to the area, if nobody has woken it
// meanwhile; the restore reads the state and gives the chunks back. Whoever drives it decides what an access costs: an
// SM, or a test that explores when else something happens.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sm/save_steps.h"

namespace heddle::sm {

class ContextTransfer {
 public:
  static constexpr std::uint32_t kAccess = SaveStream::kAccess;
  static constexpr std::uint32_t kWindow = 8;  // accesses under way at the same time
  using Access = TransferAccess;
  using Local = LocalPart;
  using Home = SaveHome;

  // How it ended, as far as its CTA is concerned.
  enum class Outcome : std::uint8_t {
    open,
    saved,      // the CTA is in memory, and nowhere else
    gone,       // a CTA of a CGA that had exited: there is nothing to be restored
    woken,      // it stays: its context was woken before
    no_area,    // it stays: there is no room for it at the moment
    cancelled,  // by cancel()
    restored,   // bytes() holds the state
    failed,     // an access of it has; or the header of the state is none
  };

  // The state must fit: SaveLayout::fits(). `local`: where the local memory of its warps lies, one behind another in
  // the stream.
  static ContextTransfer save(const arch::RecordPool& chunks, const SavedHeader& header,
                              const std::vector<std::uint8_t>& state, const Home& home, std::vector<Local> local = {});
  static ContextTransfer restore(const arch::RecordPool& chunks, std::uint64_t area, std::vector<Local> local = {});

  // A CTA of a CGA: `record` is that of the CGA. `home`: of the SM.
  static ContextTransfer restore_member(const arch::RecordPool& chunks, std::uint64_t record, std::uint32_t rank,
                                        std::uint64_t home, std::vector<Local> local);

  // Its state is in memory, and it waits for what becomes of its CGA.
  bool parked() const { return at_ == At::parked; }
  // All of the CGA is: the leader writes the CGA's record, and moves the homes. `size`: size index of the CGA's shape.
  void publish(std::vector<protocol::SavedMember> members, std::uint32_t ctas, std::uint32_t size);
  // It stays so: the CTA is in memory.
  void keep();

  // restore: the places are known at the latest with the header.
  void place(std::vector<Local> local) { stream_.place(std::move(local)); }
  // Whether next() has something; if not, an answer is awaited, or it is over.
  bool wants() const;
  Access next();
  // The last answer was that of a step that waits for somebody else: it is to be done again, after a while.
  bool again() const { return chunks_.again(); }
  // `old`: what was there before (step); `data`: what has been read.
  void answer(const Access& access, std::uint64_t old, const std::uint8_t* data);
  void fail(const Access& access);
  // The CTA goes on, or will never: what has been taken is given back, and what is decided stays so. While the home is
  // moving it is for a CTA that ends: the home is taken away again, unless somebody has found it meanwhile.
  void cancel();

  Outcome outcome() const { return outcome_; }
  // The CTA cannot go on: its home may be moving.
  bool claims() const { return at_ == At::home || at_ == At::publish; }
  // It has been killed, and its home has moved all the same: until the answer, others may find it in memory.
  bool revokes() const { return at_ == At::home && move_.revokes(); }
  // All that its warps wait for had completed before, and nobody may have found it: saved in a shared context; or of a
  // CGA, and then cga_record() is to be restored at once.
  bool came_late() const { return late_; }
  std::uint64_t cga_record() const { return publication_ ? chunks_.last() : member_.record(); }
  bool over() const { return at_ == At::over && in_flight_ == 0; }
  std::uint64_t area() const { return chunks_.first(); }
  // restore: it is known.
  const std::optional<SavedHeader>& header() const { return header_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  enum class At : std::uint8_t {
    take,     // save: chunks
    gather,   // local memory is read
    write,    // the state goes there
    home,     // the home moves
    parked,   // of a CGA: its state is there
    publish,  // the leader of a CGA
    find,     // restore, of a CGA: where is the CTA?
    header,   // restore: of what size is the state?
    list,     // where are its chunks?
    read,     // it comes
    scatter,  // local memory is written
    drop,     // of a CGA: it has been restored
    give,     // the chunks go back
    over,
  };

  explicit ContextTransfer(const arch::RecordPool& pool) : chunks_(pool) {}
  void begin_stream(At at, std::uint64_t offset);
  void chunks_answered();
  void home_answered();
  void found(const std::uint8_t* data);
  void end_restore();
  void restored();
  void give_back();
  void header_read(const std::uint8_t* data);
  void list_read();
  void decide(Outcome outcome);
  void settled();
  void moved();

  SaveChunks chunks_;
  SaveStream stream_;
  Home home_;
  HomeMove move_;
  std::optional<CgaPublication> publication_;
  MemberReturn member_;
  bool restores_ = false;
  At at_ = At::take;
  Outcome outcome_ = Outcome::open;
  std::optional<SavedHeader> header_;
  bool late_ = false;
  std::vector<std::uint8_t> bytes_;  // restore: the state
  std::uint32_t in_flight_ = 0;
};

}  // namespace heddle::sm
