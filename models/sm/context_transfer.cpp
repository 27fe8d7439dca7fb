#include "sm/context_transfer.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::sm {

ContextTransfer ContextTransfer::save(const arch::RecordPool& chunks, const SavedHeader& header,
                                      const std::vector<std::uint8_t>& state, const Home& home,
                                      std::vector<Local> local) {
  HEDDLE_CHECK(SaveLayout::fits(chunks, header) && header.bytes == state.size(), "a saved CTA does not fit");
  ContextTransfer transfer(chunks);
  transfer.header_ = header;
  transfer.home_ = home;
  transfer.stream_.place(std::move(local));
  transfer.stream_.fill(header, state);
  // The leader takes one for the CGA's record.
  transfer.chunks_.want(transfer.stream_.layout().chunks() + (home.kind == Home::Kind::leader ? 1 : 0));
  return transfer;
}

ContextTransfer ContextTransfer::restore(const arch::RecordPool& chunks, std::uint64_t area, std::vector<Local> local) {
  ContextTransfer transfer(chunks);
  transfer.stream_.place(std::move(local));
  transfer.restores_ = true;
  transfer.at_ = At::header;
  transfer.chunks_.add(area);
  return transfer;
}

ContextTransfer ContextTransfer::restore_member(const arch::RecordPool& chunks, std::uint64_t record,
                                                std::uint32_t rank, std::uint64_t home, std::vector<Local> local) {
  ContextTransfer transfer = restore(chunks, 0, std::move(local));
  transfer.at_ = At::find;
  transfer.member_ = MemberReturn(record, rank, home);
  return transfer;
}

void ContextTransfer::publish(std::vector<protocol::SavedMember> members, std::uint32_t ctas, std::uint32_t size) {
  HEDDLE_CHECK(at_ == At::parked && home_.kind == Home::Kind::leader, "a CGA is published that has not been saved");
  at_ = At::publish;
  publication_.emplace(chunks_.last(), *header_, std::move(members), ctas, size);
}

void ContextTransfer::keep() {
  HEDDLE_CHECK(at_ == At::parked || at_ == At::over, "a CTA stays in memory that has not come there");
  outcome_ = Outcome::saved;
  at_ = At::over;
}

bool ContextTransfer::wants() const {
  const bool room = in_flight_ < kWindow;
  const bool alone = in_flight_ == 0;
  switch (at_) {
    case At::take:
    case At::give:
      return chunks_.wants(room, alone);
    case At::gather:
    case At::write:
    case At::read:
    case At::scatter:
      return room && !stream_.has_sent(stream_.layout().end()) && outcome_ == Outcome::open;
    case At::list:  // also of one that is cancelled: they go back
      return room && !stream_.has_sent(stream_.layout().state_at());
    case At::parked:
    case At::over:
      return false;
    default:
      return alone;
  }
}

ContextTransfer::Access ContextTransfer::next() {
  HEDDLE_CHECK(wants(), "a context transfer was asked for more than it wants");
  ++in_flight_;
  Access access;
  switch (at_) {
    case At::take:
    case At::give:
      return chunks_.next();
    case At::gather:
      return stream_.local_access(Access::Kind::read);
    case At::scatter:
      return stream_.local_access(Access::Kind::write);
    case At::write:
      return stream_.access(Access::Kind::write, stream_.layout().end(), chunks_);
    case At::read:
      return stream_.access(Access::Kind::read, stream_.layout().end(), chunks_);
    case At::list:
      return stream_.access(Access::Kind::read, stream_.layout().state_at(), chunks_);
    case At::home:
      access.step = move_.step();
      return access;
    case At::publish:
      if (publication_->writes_record()) {
        const std::vector<std::uint8_t>& record = publication_->record();
        return {Access::Kind::write,
                {},
                chunks_.last(),
                static_cast<std::uint32_t>(record.size()),
                record.data(),
                false,
                0};
      }
      access.step = publication_->step();
      return access;
    case At::find:
      return member_.find();
    case At::drop:
      access.step = member_.step();
      return access;
    case At::header:
      return {Access::Kind::read, {}, area(), arch::kRecordBytes, nullptr, false, 0};
    case At::parked:
    case At::over:
      break;
  }
  return access;
}

void ContextTransfer::answer(const Access& access, std::uint64_t old, const std::uint8_t* data) {
  --in_flight_;
  switch (at_) {
    case At::take:
    case At::give:
      chunks_.answer(access, old, outcome_ == Outcome::open);
      return chunks_answered();
    case At::home:
      move_.answer(old);
      return home_answered();
    case At::publish:
      publication_->answer(old);
      if (!publication_->over()) return;
      late_ = publication_->woken();  // the CTA does not leave its slot before it is told so
      at_ = At::over;
      return;
    case At::find:
      return found(data);
    case At::drop:
      if (!member_.answer(old)) return;
      if (member_.was_last()) chunks_.add(member_.record());
      return restored();
    case At::header:
      return header_read(data);
    case At::gather:
    case At::list:
    case At::read:
      stream_.take(access, data);
      return settled();
    case At::write:
    case At::scatter:
      return settled();
    case At::parked:
    case At::over:
      return;
  }
}

void ContextTransfer::chunks_answered() {
  if (chunks_.lacking()) decide(Outcome::no_area);
  if (chunks_.none()) at_ = At::over;
  if (!chunks_.taken()) return;
  stream_.put_list(chunks_);
  if (outcome_ == Outcome::open) {
    begin_stream(At::gather, stream_.layout().local_at());
  } else {
    give_back();
  }
}

void ContextTransfer::home_answered() {
  switch (move_.result()) {
    case HomeMove::Result::open:
      return;
    case HomeMove::Result::moved:
      late_ = move_.came_late();
      outcome_ = Outcome::saved;
      at_ = At::over;
      return;
    case HomeMove::Result::woken:
      decide(Outcome::woken);
      return give_back();
    case HomeMove::Result::revoked:
      outcome_ = Outcome::cancelled;
      return give_back();
  }
}

void ContextTransfer::give_back() {
  at_ = At::give;
  chunks_.give();
}

// The part of the stream from that offset on is to be moved, if there is one.
void ContextTransfer::begin_stream(At at, std::uint64_t offset) {
  at_ = at;
  if (stream_.begin(offset)) settled();
}

void ContextTransfer::found(const std::uint8_t* data) {
  const std::uint64_t area = member_.found(data);
  if (area == 0) {
    outcome_ = Outcome::gone;
    at_ = At::over;
    return;
  }
  chunks_.set(0, area);
  at_ = At::header;
}

// The state has come, or is not wanted any more.
void ContextTransfer::end_restore() {
  if (!member_.any()) return restored();
  member_.begin_drop(header_->context);
  at_ = At::drop;
}

void ContextTransfer::restored() {
  give_back();
  if (outcome_ != Outcome::open) return;
  outcome_ = Outcome::restored;
  bytes_ = stream_.state(*header_);
}

void ContextTransfer::header_read(const std::uint8_t* data) {
  SavedLine line;
  std::copy_n(data, line.size(), line.begin());
  header_ = header_of(line);
  // Nobody knows where the chunks are of what is none, or how many: they are lost. What is not wanted any more is only
  // given back: its CTA has no warps that have local memory.
  const bool other = outcome_ == Outcome::open && header_->local != stream_.local_bytes();
  if (!SaveLayout::fits(chunks_.pool(), *header_) || other) {
    decide(Outcome::failed);
    at_ = At::over;
    return;
  }
  stream_.lay_out(*header_);
  chunks_.want(stream_.layout().chunks());
  at_ = At::list;
  stream_.begin(arch::kRecordBytes);
  if (stream_.has_sent(stream_.layout().state_at())) list_read();
}

void ContextTransfer::list_read() {
  for (std::uint64_t i = 1; i < chunks_.count(); ++i) {
    chunks_.set(i, stream_.listed(i));
    if (chunks_.has(chunks_[i])) continue;
    decide(Outcome::failed);
    at_ = At::over;
    return;
  }
  if (outcome_ == Outcome::open) {
    begin_stream(At::read, stream_.layout().state_at());
  } else {
    end_restore();
  }
}

// Every byte must be there before the home moves, or before the area is somebody else's.
void ContextTransfer::settled() {
  if (in_flight_ > 0) return;
  if (at_ == At::list) {
    if (stream_.has_sent(stream_.layout().state_at())) list_read();
  } else if (outcome_ != Outcome::open) {
    restores_ ? end_restore() : give_back();
  } else if (stream_.has_sent(stream_.layout().end())) {
    moved();
  }
}

void ContextTransfer::moved() {
  switch (at_) {
    case At::gather:
      return begin_stream(At::write, 0);
    case At::write:
      switch (home_.kind) {
        case Home::Kind::own:
        case Home::Kind::shared:
          move_.begin(*header_, home_, area());
          at_ = At::home;
          return;
        case Home::Kind::none:
          outcome_ = Outcome::saved;
          at_ = At::over;
          return;
        default:
          at_ = At::parked;
          return;
      }
    case At::read:
      return begin_stream(At::scatter, stream_.layout().local_at());
    default:
      return end_restore();
  }
}

void ContextTransfer::fail(const Access&) {
  --in_flight_;
  decide(Outcome::failed);
  switch (at_) {
    case At::gather:
    case At::write:
    case At::read:
    case At::scatter:
      return settled();
    case At::home:
      if (move_.has_moved()) outcome_ = Outcome::saved;  // others find it
      if (!move_.may_have_moved()) return give_back();
      at_ = At::over;
      return;
    case At::publish:  // nobody will find it: it is restored at once
      late_ = true;
      at_ = At::over;
      return;
    case At::header:
      outcome_ = Outcome::failed;  // also of one that has been cancelled: nobody knows its context
      at_ = At::over;
      return;
    default:
      at_ = At::over;  // the ring cannot be reached: what was taken is lost
  }
}

void ContextTransfer::decide(Outcome outcome) {
  if (outcome_ == Outcome::open) outcome_ = outcome;
}

void ContextTransfer::cancel() {
  if (claims()) return move_.revoke();
  if (outcome_ != Outcome::open) return;
  // Until the header is there, nobody knows to what context the CTA belongs.
  outcome_ = Outcome::cancelled;
  if (in_flight_ > 0) return;
  if (at_ == At::take && chunks_.cancel()) at_ = At::over;
  if (at_ == At::gather || at_ == At::write || at_ == At::parked) give_back();
  if (at_ == At::read || at_ == At::scatter) end_restore();
}

}  // namespace heddle::sm
