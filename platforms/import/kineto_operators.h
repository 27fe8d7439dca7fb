// Operators of a framework in a Kineto trace, and which of them launched which kernel (INP-12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/kineto_json.h"
#include "workload/workload.h"

namespace heddle::import {

class KinetoOperators {
 public:
  using Index = std::uint32_t;  // of an operator, after finish()

  // Who ran on the host: operators and calls of the same process and thread have the same number.
  std::uint32_t thread(const JsonValue& pid, const JsonValue& tid);
  // `external`: the recorder's number of this operator; 0: none. Equal arguments are kept once.
  void add(const KinetoEvent& event, std::uint32_t thread, std::uint64_t external, workload::Nanoseconds begin,
           workload::Nanoseconds duration);
  // To be called once, after the last: makes the others work.
  void finish();
  bool empty() const { return operators_.empty(); }

  // The operator with that number; nothing for 0.
  std::optional<Index> numbered(std::uint64_t external) const;
  // The innermost operator that ran on that thread at that time.
  std::optional<Index> running(std::uint32_t thread, workload::Nanoseconds when) const;

  // Fills Workload::operators with those in `launched_by` (an entry per operation) and their callers, and sets
  // Op::op_of. A kernel that has neither operator nor host call takes the operator of the other launches of the same
  // name, grid and block (of the same name, if its grid is not recorded), where all of these have equal operators and
  // arguments: Op::op_inferred. Throws InputError, naming the event of `source`, for arguments that are none.
  void fill(workload::Workload& workload, const std::vector<std::optional<Index>>& launched_by,
            const ByteSource& source) const;

 private:
  static constexpr Index kNone = UINT32_MAX;

  struct Recorded {
    std::uint64_t external = 0;
    workload::Nanoseconds begin = 0;
    workload::Nanoseconds end = 0;
    std::uint32_t thread = 0;
    std::uint32_t what = 0;  // index into whats_
    Index caller = kNone;
  };
  // Name and arguments, which many operators share.
  struct What {
    const std::string* text = nullptr;  // name and the four lists, as JSON, with kBetween between them
    std::uint64_t position = 0;         // of the first event that has them
    std::size_t event = 0;
  };

  workload::Operator described(const What& what, const ByteSource& source) const;
  void infer(workload::Workload& workload, std::vector<std::optional<Index>>& launched_by) const;

  std::vector<Recorded> operators_;  // after finish(): by thread and begin, callers first
  std::vector<What> whats_;
  std::unordered_map<std::string, std::uint32_t> what_ids_;
  std::unordered_map<std::string, std::uint32_t> threads_;
  std::vector<std::pair<std::uint64_t, Index>> by_external_;
  std::string text_;  // of thread() and add(), so that its memory is used again
};

}  // namespace heddle::import
