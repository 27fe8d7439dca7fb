#include "sm/cta_table.h"

#include <algorithm>

namespace heddle::sm {

// Vectors keep their memory.
void Cta::arrive(const protocol::CtaStartPacket& packet, Cycle arrival) {
  stage = CtaStage::running;
  fate = CtaFate::lives;
  start = packet;
  operation = packet.tag.operation;
  record = packet.record;
  queue = packet.queue;
  begin = last = arrival;
  landed = 0;
  code = nullptr;
  warps.clear();
  live = open = bulk = 0;
  need = packet.need;
  released = 0;
  mbarrier_waiters.clear();
  cluster = {};
  context = {};
  turn.reset();
  saved = exposed = false;
}

bool CtaTable::runs(std::uint32_t operation) const {
  return std::any_of(ctas_.begin(), ctas_.end(), [operation](const Cta& cta) {
    return cta.here() && cta.code != nullptr && cta.operation == operation;
  });
}

void CtaTable::reset() {
  for (Cta& cta : ctas_) {
    cta.stage = CtaStage::absent;
    cta.mbarrier_waiters.clear();
  }
}

}  // namespace heddle::sm
