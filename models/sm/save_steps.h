// The parts of a CTA's way to memory and back, each a protocol or a stream of its own (TSK-12): the chunks that it
// takes, the bytes that go there, the home of its context, and the record of its CGA. What drives them:
// context_transfer.h.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "arch/task_record.h"
#include "arch/tmdq.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/saved_cta.h"

namespace heddle::sm {

struct TransferAccess {
  enum class Kind : std::uint8_t { step, read, write };
  Kind kind = Kind::step;
  arch::MemoryStep step;      // step
  std::uint64_t address = 0;  // read, write: of `bytes` bytes, both multiples of 16
  std::uint32_t bytes = 0;
  const std::uint8_t* data = nullptr;  // write: valid until the next call
  bool translated = false;             // read, write: an address of the CTA's subcontext (MEM-04)
  std::uint64_t offset = 0;            // for the answer: in the stream, or number of the chunk
};

// The place of a warp in local memory: whole units.
struct LocalPart {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

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

// The chunks of a saved CTA: taken from the ring of those that are free, and given back to it. A chunk of a ticket that
// is drawn for the first time is known; all others lie in the ring, or are about to.
class SaveChunks {
 public:
  explicit SaveChunks(const arch::RecordPool& pool) : pool_(pool) {}

  void want(std::uint64_t count) { chunk_.resize(count, 0); }
  void take() { at_ = At::reserve; }
  void give() { at_ = At::give; }
  // Nothing has been asked yet, so nothing is to be given back; true: that is all.
  bool cancel();

  std::size_t count() const { return chunk_.size(); }
  std::uint64_t first() const { return chunk_.empty() ? 0 : chunk_.front(); }
  std::uint64_t last() const { return chunk_.back(); }
  std::uint64_t operator[](std::uint64_t number) const { return chunk_[number]; }
  void set(std::uint64_t number, std::uint64_t address) { chunk_[number] = address; }
  void add(std::uint64_t address) { chunk_.push_back(address); }
  bool has(std::uint64_t address) const { return pool_.has(address); }
  const arch::RecordPool& pool() const { return pool_; }

  // `room`: for another access beside those under way; `alone`: none is.
  bool wants(bool room, bool alone) const;
  TransferAccess next();
  // `wanted`: the CTA still goes there.
  void answer(const TransferAccess& access, std::uint64_t old, bool wanted);
  bool again() const { return again_; }
  bool lacking() const { return lacking_; }        // there are not as many free ones
  bool taken() const { return at_ == At::taken; }  // all that it wanted
  bool none() const { return at_ == At::none; }    // it has given back what it had

 private:
  enum class At : std::uint8_t {
    reserve,    // are there as many free chunks?
    unreserve,  // there are not, or they are not needed any more
    ticket,     // they are taken
    take,       // those that have been given back before
    taken,
    give,  // they go back
    put,   // each of them
    uncount,
    none,
  };
  enum class Mark : std::uint8_t { open, asked, done };  // of a chunk
  void begin(At at, std::uint64_t ticket);
  void look_at_marks();

  arch::RecordPool pool_;
  At at_ = At::reserve;
  std::vector<std::uint64_t> chunk_;  // addresses
  std::vector<Mark> marks_;
  std::uint64_t ticket_ = 0;  // of the first chunk that is taken, or given back
  bool lacking_ = false;
  bool again_ = false;
};

// The stream of bytes of a saved CTA, which goes out and comes back access by access: first what lies in local memory,
// then the rest.
class SaveStream {
 public:
  // Bytes of an access: 16 for each lane of a warp.
  static constexpr std::uint32_t kAccess = 512;

  // It is to be saved, or restored: what is in it, or how large it is.
  void fill(const SavedHeader& header, const std::vector<std::uint8_t>& state);
  void lay_out(const SavedHeader& header);
  const SaveLayout& layout() const { return layout_; }
  void place(std::vector<LocalPart> local) { local_ = std::move(local); }
  std::uint64_t local_bytes() const;
  std::vector<std::uint8_t> state(const SavedHeader& header) const;
  // The addresses of all chunks but the first are part of it.
  void put_list(const SaveChunks& chunks);
  std::uint64_t listed(std::uint64_t number) const;

  // What follows is moved from that offset on. True: there is nothing.
  bool begin(std::uint64_t offset);
  bool has_sent(std::uint64_t end) const { return sent_ >= end; }
  TransferAccess local_access(TransferAccess::Kind kind);
  TransferAccess access(TransferAccess::Kind kind, std::uint64_t end, const SaveChunks& chunks);
  void take(const TransferAccess& access, const std::uint8_t* data);

 private:
  SaveLayout layout_;
  std::vector<LocalPart> local_;
  std::vector<std::uint8_t> bytes_;  // what is written, or has been read
  std::uint64_t sent_ = 0;
};

// What becomes of the home of the CTA's context.
struct SaveHome {
  enum class Kind : std::uint8_t {
    own,     // it names the CTA's SM, and will name the area
    shared,  // it is the list of saved CTAs of a shared context
    cga,     // the CTA is saved with its CGA: others will see to it
    leader,  // the same, and this transfer does so
    none,    // the CTA makes room: task management is told where it is
  };
  Kind kind = Kind::own;
  std::uint64_t here = 0;  // own: what it is while the CTA waits here
  bool counted = false;    // shared: the CTA was saved before, and its task counts it as open
};

// The home moves from the SM to the area, if nobody has woken the CTA meanwhile; of a shared context, the CTA enters
// the list of those that are saved.
class HomeMove {
 public:
  enum class Result : std::uint8_t {
    open,
    moved,
    woken,    // it stays: its context was woken before
    revoked,  // it has been taken away again, and nobody has found it
  };
  void begin(const SavedHeader& header, const SaveHome& home, std::uint64_t area);
  arch::MemoryStep step() const;
  void answer(std::uint64_t old);
  // The home has moved: others find the CTA. It may have: nobody knows.
  bool has_moved() const { return at_ == At::late; }
  bool may_have_moved() const { return at_ == At::late || at_ == At::revoke; }
  // The CTA ends: the home is taken away again, unless somebody has found it meanwhile.
  void revoke() { revokes_ = true; }
  Result result() const { return result_; }
  bool revokes() const { return at_ == At::revoke; }
  // All that its warps wait for had completed before, and nobody may have found it.
  bool came_late() const { return late_; }

 private:
  enum class At : std::uint8_t {
    enter,   // shared context: the task counts the CTA as open
    look,    // who was saved last?
    link,    // the CTA names it
    claim,   // the home moves
    late,    // has everything completed meanwhile?
    revoke,  // the home is taken away again
  };
  void claimed(std::uint64_t old);

  SaveHome home_;
  std::uint64_t record_ = 0;
  std::uint64_t context_ = 0;
  std::uint64_t area_ = 0;
  At at_ = At::claim;
  Result result_ = Result::open;
  std::uint64_t head_ = 0;  // shared: the list of saved CTAs, as far as is known
  bool revokes_ = false;    // the CTA has been killed while the home moved
  bool late_ = false;
};

// All CTAs of a CGA are in memory: the CGA's record is written, its task counts it as open, and the homes of its
// contexts move, one after another. Until the last has moved nobody restores it.
class CgaPublication {
 public:
  // `header`: of one of its CTAs. A CGA that makes room has no contexts that wait: nobody else knows of it, and it
  // counts as woken.
  CgaPublication(std::uint64_t record, const SavedHeader& header, std::vector<protocol::SavedMember> members,
                 std::uint32_t ctas, std::uint32_t size);
  // The record, which is the first access; then steps.
  bool writes_record() const { return at_ == At::record; }
  const std::vector<std::uint8_t>& record() const { return bytes_; }
  arch::MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return at_ == At::over; }
  // A wake was for one of them before its home had moved, or has come since: the CGA is to be restored at once.
  bool woken() const { return woken_; }

 private:
  enum class At : std::uint8_t { record, open, member, unlock, forget, over };
  void next_member();

  std::uint64_t address_;
  std::uint64_t task_;
  std::vector<protocol::SavedMember> members_;
  std::vector<std::uint8_t> bytes_;
  At at_ = At::record;
  std::size_t member_ = 0;  // whose home moves
  std::uint64_t references_ = 0;
  std::uint64_t unmoved_ = 0;
  bool owed_ = false;  // its task counts its CTAs as ones that run
  bool woken_ = false;
};

// A CTA of a saved CGA comes back: the CGA's record says where it lies, its home names the SM again, and the last to
// drop the record gives it back.
class MemberReturn {
 public:
  MemberReturn() = default;
  // `record`: of the CGA; `home`: of the SM.
  MemberReturn(std::uint64_t record, std::uint32_t rank, std::uint64_t home)
      : record_(record), home_(home), rank_(rank) {}
  bool any() const { return record_ != 0; }
  std::uint64_t record() const { return record_; }
  TransferAccess find() const;
  // Where it lies; 0: it had exited.
  std::uint64_t found(const std::uint8_t* data) const;
  // It has been read. `context`: 0: none.
  void begin_drop(std::uint64_t context);
  arch::MemoryStep step() const;
  // True: over.
  bool answer(std::uint64_t old);
  bool was_last() const { return last_; }

 private:
  std::uint64_t record_ = 0;
  std::uint64_t home_ = 0;
  std::uint64_t context_ = 0;
  std::uint32_t rank_ = 0;
  std::uint64_t references_ = 1;  // to the record, that it drops
  bool rehomes_ = false;
  bool last_ = false;
};

}  // namespace heddle::sm
