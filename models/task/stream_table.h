// Streams: operations of one stream run in order, operations of different streams only in the order of their waits.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/waits.h"
#include "protocol/host_task.h"

namespace heddle::task {

class StreamTable {
 public:
  using Cycle = std::uint64_t;

  struct Entry {
    protocol::SubmitPacket packet;
    Cycle submitted = 0;
    bool lets_go = false;  // the operation behind it may start
  };
  // An operation whose turn has come.
  struct Ready {
    std::uint32_t stream = 0;
    // When the last operation that it waited for ended, in its stream or another. Absent: it waited for none.
    std::optional<Cycle> released;
    // It is not at the head of its stream: the one there, whose number that is, has let it go.
    std::optional<std::uint32_t> ahead_of;
  };

  void submit(const protocol::SubmitPacket& packet, Cycle now);
  // The operation at the head of the stream has ended. (Waits end by themselves.)
  void complete(std::uint32_t number, Cycle end);
  // The operation of the stream keeps a programmatic one behind it from nothing any more.
  void let_go(std::uint32_t number, std::uint32_t operation);
  // Operations that have become ready since the last call, in the order in which they did.
  std::vector<Ready> take_ready();

  // Operations of queue tasks whose close has come to the head of its stream since the last call.
  std::vector<std::uint32_t> take_closed();

  const Entry& head(std::uint32_t number) const;
  // One that has been handed out: the head, or the one behind it.
  const Entry& entry(std::uint32_t number, std::uint32_t operation) const;
  const Entry& next(std::uint32_t number) const { return streams_.at(number).entries[1]; }
  // The operation has been handed out ahead of the head.
  bool is_ahead(std::uint32_t number, std::uint32_t operation) const {
    const Stream& s = streams_.at(number);
    return s.next_out && s.entries[1].packet.operation == operation;
  }
  // The head, if it has been handed out.
  std::optional<std::uint32_t> running(std::uint32_t number) const {
    const Stream& s = streams_.at(number);
    return s.head_out ? std::optional(s.entries.front().packet.operation) : std::nullopt;
  }
  // End of the stream's last operation that has ended.
  // An operation of another device: what waits for it goes on.
  void ended_elsewhere(std::uint32_t operation, Cycle when);
  std::optional<Cycle> last_end(std::uint32_t number) const;
  bool completed(std::uint32_t operation) const { return ends_.count(operation) != 0; }
  // Operations taken in that have not ended; waits do not count.
  std::size_t open() const { return open_; }

  template <class Name>
  void collect_waits(WaitGraph& graph, const Name& name) const;
  void reset();

 private:
  struct Stream {
    std::deque<Entry> entries;
    bool head_out = false;  // the head has been handed out and has not ended
    bool next_out = false;  // so has the one behind it
    std::optional<Cycle> last_end;
    std::optional<Cycle> released;  // as for Ready, of what comes next
  };
  void note_end(std::uint32_t operation, Cycle end);
  void release(std::uint32_t operation);
  void advance(std::uint32_t number);
  void advance_next(std::uint32_t number);
  Stream& stream(std::uint32_t number);

  std::unordered_map<std::uint32_t, Stream> streams_;                      // looked up only; order_ decides every order
  std::vector<std::uint32_t> order_;                                       // of first use
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waiters_;  // operation -> streams
  std::unordered_map<std::uint32_t, Cycle> ends_;  // by operation, of those that have ended; looked up only
  std::vector<Ready> ready_;
  std::vector<std::uint32_t> closed_;
  std::size_t open_ = 0;
};

// Waits and closes are no operations: they end by themselves.
inline bool ends_by_itself(protocol::SubmitKind kind) {
  return kind == protocol::SubmitKind::wait || kind == protocol::SubmitKind::close;
}

// Who waits for whom, for the watchdog. `name` gives the text for an operation id.
template <class Name>
void StreamTable::collect_waits(WaitGraph& graph, const Name& name) const {
  for (const std::uint32_t number : order_) {
    const Stream& s = streams_.at(number);
    const protocol::SubmitPacket* before = nullptr;
    for (const Entry& entry : s.entries) {
      const protocol::SubmitPacket& packet = entry.packet;
      if (packet.kind == protocol::SubmitKind::wait) {
        if (!completed(packet.wait_for)) {
          graph.add(name(packet.operation), "for the end of", name(packet.wait_for));
        }
        continue;
      }
      if (packet.kind == protocol::SubmitKind::close) {
        if (before != nullptr) {
          graph.add(name(packet.wait_for), "for its close, which is in a stream behind", name(before->operation));
        }
        continue;
      }
      if (before != nullptr) {
        const bool out = s.next_out && &entry == &s.entries[1];
        graph.add(name(packet.operation),
                  out ? "to end in its turn in the stream, behind" : "for its turn in the stream, behind",
                  name(before->operation));
      }
      before = &packet;
    }
  }
}

// A queue of a queue task as task management knows it (TSK-05): which tickets have arrived, in whatever order, how many
// of them the distributor has been told of, and when the queue may be closed.
class QueueState {
 public:
  enum class Close : std::uint8_t { open, trying, closed };

  // The task is in the distributor. `entries`: that are there from the start; tickets begin behind them.
  void begin(std::uint64_t entries, bool held_open);
  bool begun() const { return begun_; }
  void appended(std::uint64_t ticket);
  // Entries that have joined those without a gap since the last call. 0 before begin().
  std::uint64_t take_grown();
  // All of the entries so far have completed.
  void idle(std::uint64_t completed);
  // It is in the distributor, and that is so.
  bool rests() const { return begun_ && completed_ == grown_; }
  void release();  // its close has come, which may be before begin()
  // Nothing of it runs or is known to come: the number of tickets with which it may be closed. After true, tried() is
  // to follow.
  bool may_close() const;
  std::uint64_t start_close();
  // Not closed: somebody has a ticket above, and its entry is on its way; or `busy`: a CTA is open, which may append.
  void tried(bool closed, bool busy = false);
  void less_busy();

  std::uint64_t entries() const { return grown_; }
  bool held_open() const { return held_; }
  Close close() const { return close_; }
  // Tickets that have arrived ahead of others.
  std::size_t early() const { return early_.size(); }

 private:
  std::uint64_t grown_ = 0;   // known to the distributor
  std::uint64_t prefix_ = 0;  // arrived without a gap
  std::uint64_t tried_ = 0;   // with how many it was tried to close
  std::uint64_t completed_ = 0;
  std::set<std::uint64_t> early_;
  bool begun_ = false;
  bool held_ = false;
  bool released_ = false;
  bool idle_ = false;
  bool busy_ = false;
  bool looks_again_ = false;  // a CTA has closed since it was tried
  Close close_ = Close::open;
};

}  // namespace heddle::task
