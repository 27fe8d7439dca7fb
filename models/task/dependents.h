// Kernels that have been launched ahead of the end of the one before them in their stream: whom they wait for, and
// which SMs have asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "common/packet_port.h"
#include "common/waits.h"
#include "protocol/sm_task.h"
#include "task/task.h"

namespace heddle::task {

class Dependents {
 public:
  using Operation = std::uint32_t;

  // `preempts`: CTAs that run can be saved to make room.
  Dependents(PacketSender<protocol::WakePacket>& wake_out, bool preempts) : wake_out_(wake_out), preempts_(preempts) {}

  // One more CTA of the task keeps the kernel behind it no longer. True: all of them have let that one go, so they run,
  // or have run, and what it takes cannot keep them from it. Where CTAs that run can be saved, they may have to come
  // back, and only the end of all of them lets it go.
  bool cta_lets_go(Task& task) const {
    if (preempts_ || task.queue || task.packet.kind != protocol::TaskKind::grid) return false;
    return ++task.host.let_go == task.packet.grid.count();
  }

  // The operation is launched, and waits for `before` where its program does.
  void launched(Operation operation, Operation before) {
    if (over_.count(before) == 0) waits_[operation] = {before, {}};
  }
  // CTAs of it on that SM wait: they are told once that is over, or at once.
  void asked(Operation operation, std::uint32_t sm) {
    const auto found = waits_.find(operation);
    if (found == waits_.end()) {
      wake(operation, sm);
    } else {
      found->second.sms.insert(sm);
    }
  }
  // All CTAs of the operation have completed, and so has what they launched.
  void over(Operation before) {
    over_.insert(before);
    const auto found = std::find_if(waits_.begin(), waits_.end(),
                                    [before](const auto& entry) { return entry.second.before == before; });
    if (found == waits_.end()) return;
    for (const std::uint32_t sm : found->second.sms) wake(found->first, sm);
    waits_.erase(found);
  }

  // Nothing is launched ahead of its end any more.
  void ended(Operation before) { over_.erase(before); }

  // Who waits for whom, for the watchdog. `name` gives the text for an operation id.
  template <class Name>
  void collect_waits(WaitGraph& graph, const Name& name) const {
    for (const auto& [operation, wait] : waits_) {
      graph.add("the grid dependency of " + name(operation), "for the end of", name(wait.before));
    }
  }
  void reset() {
    waits_.clear();
    over_.clear();
  }

 private:
  struct Wait {
    Operation before = 0;
    std::set<std::uint32_t> sms;
  };
  void wake(Operation operation, std::uint32_t sm) { wake_out_.send({0, operation}, sm); }

  PacketSender<protocol::WakePacket>& wake_out_;
  const bool preempts_;
  std::map<Operation, Wait> waits_;  // by who waits
  std::set<Operation> over_;         // that have not ended
};

}  // namespace heddle::task
