// Threads that carry out calls of b_transport, in which the target may wait: as many as there are calls open at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <systemc>

#include "common/cycle.h"
#include "common/index_pool.h"

namespace heddle::host {

class DmaPayload;

class DmaCallers {
 public:
  // A call that is to begin in the cycle `when`, in one of the threads. It returns whether somebody still waits for it.
  using Call = std::function<bool(DmaPayload& payload, Cycle when)>;

  // At most `limit` calls that somebody waits for are open at a time.
  DmaCallers(std::uint32_t limit, Call call);

  // Calls begin in the order in which they come.
  void push(DmaPayload& payload, Cycle when);
  // Nobody waits any more for a call that is open: it does not count.
  void give_up_one();
  // Nobody waits for any, and those that have not begun are forgotten.
  void reset();

 private:
  struct Thread {
    sc_core::sc_event wake;
  };
  struct Waiting {
    DmaPayload* payload = nullptr;
    Cycle when = 0;
  };

  void wake_one();
  [[noreturn]] void run(Thread& self);

  const std::uint32_t limit_;
  const Call call_;
  Ring<Waiting> waiting_;
  std::uint32_t open_ = 0;   // calls that somebody waits for
  std::uint32_t ready_ = 0;  // threads that are about to look for one
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;
};

}  // namespace heddle::host
