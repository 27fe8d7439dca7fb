#ifndef SC_INCLUDE_DYNAMIC_PROCESSES
#define SC_INCLUDE_DYNAMIC_PROCESSES  // for sc_spawn
#endif
#include "host/dma_callers.h"

#include <utility>

namespace heddle::host {

DmaCallers::DmaCallers(std::uint32_t limit, Call call) : limit_(limit), call_(std::move(call)) {}

void DmaCallers::push(DmaPayload& payload, Cycle when) {
  waiting_.push({&payload, when});
  wake_one();
}

void DmaCallers::give_up_one() {
  --open_;
  wake_one();
}

void DmaCallers::reset() {
  waiting_.clear();
  open_ = 0;
}

// One thread that is about to look is enough: it wakes the next before it calls.
void DmaCallers::wake_one() {
  if (waiting_.empty() || ready_ > 0 || open_ >= limit_) return;
  ++ready_;
  if (!idle_.empty()) {
    Thread* thread = idle_.back();
    idle_.pop_back();
    thread->wake.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  threads_.push_back(std::make_unique<Thread>());
  Thread& thread = *threads_.back();
  sc_core::sc_spawn([this, &thread] { run(thread); }, sc_core::sc_gen_unique_name("dma_call"));
}

void DmaCallers::run(Thread& self) {
  while (true) {
    --ready_;
    while (!waiting_.empty() && open_ < limit_) {
      const Waiting next = waiting_.pop();
      ++open_;
      wake_one();
      if (call_(*next.payload, next.when)) --open_;
    }
    idle_.push_back(&self);
    sc_core::wait(self.wake);
  }
}

}  // namespace heddle::host
