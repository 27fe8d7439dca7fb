// A stand-in for task management: sends tasks, evictions and entries of queues when it is told to.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "common/packet_socket.h"
#include "cwd/cwd_log.h"
#include "cwd/cwd_params.h"
#include "protocol/host_task.h"

namespace heddle::test {

inline protocol::TpcEnablePacket switched(std::uint32_t gpc, std::uint32_t tpc, bool enabled) {
  return {protocol::GpcId(gpc), protocol::TpcInGpc(tpc), enabled};
}

// Sends tasks at given cycles, as far as credits allow; the remainder of an evicted one goes before the others.
class FakeTaskUnit : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeTaskUnit(const sc_core::sc_module_name& name, Domain& domain, const cwd::CwdParams& params, Log& log)
      : sc_core::sc_module(name),
        task_out("task_out", domain, 0, params.table_slots),
        control_out("control_out", domain, 0, kUnlimitedCredits),
        evict_out("evict_out", domain, 0, kUnlimitedCredits),
        grow_out("grow_out", domain, 0, kUnlimitedCredits),
        share_out("share_out", domain, 0, kUnlimitedCredits),
        done_in("done_in", domain, 0),
        evicted_in("evicted_in", domain, 0),
        idle_in("idle_in", domain, 0),
        domain_(domain),
        log_(log) {
    done_in.on_packet<FakeTaskUnit, &FakeTaskUnit::on_done>(*this);
    evicted_in.on_packet<FakeTaskUnit, &FakeTaskUnit::on_evicted>(*this);
    idle_in.on_packet<FakeTaskUnit, &FakeTaskUnit::on_idle>(*this);
    task_out.on_credit<FakeTaskUnit, &FakeTaskUnit::on_credit>(*this);
    domain.add_resettable(*this);
  }

  PacketOut<protocol::TaskPacket> task_out;
  PacketOut<protocol::TpcEnablePacket> control_out;
  PacketOut<protocol::EvictPacket> evict_out;
  PacketOut<protocol::GrowPacket> grow_out;
  PacketOut<protocol::SubcontextPacket> share_out;
  PacketIn<protocol::TaskDonePacket> done_in;
  PacketIn<protocol::EvictedPacket> evicted_in;
  PacketIn<protocol::IdlePacket> idle_in;

  // After which time the remainder of an evicted task wants to go on.
  std::function<Cycle(std::uint32_t operation)> back = [](std::uint32_t) { return Cycle{0}; };
  // What is done to a task before it is sent again.
  std::function<void(protocol::TaskPacket&)> change = [](protocol::TaskPacket&) {};
  // What happens when all entries of a queue task have completed; it may call grow().
  std::function<void(const protocol::IdlePacket&)> when_idle = [](const protocol::IdlePacket&) {};

  void submit(Cycle cycle, const protocol::TaskPacket& task) {
    tasks_.push_back(task);
    if (task.local_memory()) log_.local_operations.insert(task.operation);
    domain_.schedule(cycle, *this, kTask, tasks_.size() - 1);
  }
  void control(Cycle cycle, const protocol::TpcEnablePacket& packet) { at(cycle, kControl, packet, controls_); }
  void evict(Cycle cycle, std::uint32_t operation) { at(cycle, kEvict, protocol::EvictPacket{operation}, evictions_); }
  void grow(Cycle cycle, const protocol::GrowPacket& packet) { at(cycle, kGrow, packet, growths_); }
  void share(Cycle cycle, const protocol::SubcontextPacket& packet) { at(cycle, kShare, packet, shares_); }

 private:
  enum Kind : std::uint32_t { kTask, kControl, kEvict, kGrow, kShare, kBack };

  template <class Packet>
  void at(Cycle cycle, Kind kind, const Packet& packet, std::vector<Packet>& packets) {
    packets.push_back(packet);
    domain_.schedule(cycle, *this, kind, packets.size() - 1);
  }
  void reset() override {
    tasks_.clear();
    controls_.clear();
    evictions_.clear();
    growths_.clear();
    shares_.clear();
    ready_.clear();
    first_.clear();
    sent_.clear();
    waits_.clear();
    out_.clear();
    early_.clear();
  }
  void on_event(std::uint32_t kind, std::uint64_t which) override {
    switch (kind) {
      case kControl:
        control_out.send(controls_[which]);
        return;
      case kEvict:
        evict_out.send(evictions_[which]);
        return;
      case kGrow:
        if (growths_[which].broken) log_.faulted.insert(growths_[which].operation);
        grow(growths_[which]);
        return;
      case kShare:
        share_out.send(shares_[which]);
        return;
      case kBack:
        first_.push_front(tasks_[which]);
        first_.front().resumed = true;
        waits_.erase(tasks_[which].operation);
        out_.insert(tasks_[which].operation);
        break;
      default:
        ready_.push_back(tasks_[which]);
        break;
    }
    pump();
  }
  void on_credit(std::uint32_t) { pump(); }
  void pump() {
    for (std::deque<protocol::TaskPacket>* list : {&first_, &ready_}) {
      for (; !list->empty() && task_out.can_send(); list->pop_front()) {
        if (list->front().resumed) change(list->front());
        out_.erase(list->front().operation);
        task_out.send(list->front());
        log_.sent.push_back({domain_.now(), list->front()});
        const std::uint32_t operation = list->front().operation;
        if (!sent_.insert(operation).second) continue;
        for (const protocol::GrowPacket& growth : early_[operation]) grow_out.send(growth);
      }
    }
  }
  // What arrives before the task itself has a slot waits for it.
  void grow(const protocol::GrowPacket& growth) {
    if (sent_.count(growth.operation) == 0) {
      early_[growth.operation].push_back(growth);
    } else {
      grow_out.send(growth);
    }
  }
  void on_done(const protocol::TaskDonePacket& done, std::uint32_t) {
    if (!log_.done.emplace(done.operation, done).second) {
      log_.problems.push_back(fmt::format("operation {} was done twice", done.operation));
    }
  }
  // A task that is gone has been sent in vain, if it has been sent.
  void gone(const protocol::EvictedPacket& packet) {
    const std::uint32_t operation = packet.operation;
    log_.gone.push_back(operation);
    for (protocol::TaskPacket& task : first_) {
      if (task.operation != operation) continue;
      task.anew = true;
      task.progress.start = packet.progress.start;
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].operation != operation) continue;
      tasks_[i].anew = true;
      tasks_[i].progress.start = packet.progress.start;
      if (waits_.count(operation) != 0 || out_.count(operation) != 0) continue;
      ++log_.in_vain;
      domain_.schedule_in(0, *this, kBack, i);
    }
  }
  void on_evicted(const protocol::EvictedPacket& packet, std::uint32_t) {
    if (packet.gone && !packet.evicted) {
      gone(packet);
      return;
    }
    log_.evicted.push_back({domain_.now(), packet});
    if (packet.remainder && !packet.evicted) log_.problems.emplace_back("a task that was not evicted has a remainder");
    if (!packet.remainder) return;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].operation != packet.operation) continue;
      tasks_[i].progress = packet.progress;
      tasks_[i].anew = packet.gone;
      waits_.insert(packet.operation);
      domain_.schedule_in(back(packet.operation), *this, kBack, i);
    }
  }
  void on_idle(const protocol::IdlePacket& packet, std::uint32_t) {
    log_.idle.push_back({domain_.now(), packet});
    when_idle(packet);
  }

  Domain& domain_;
  Log& log_;
  std::vector<protocol::TaskPacket> tasks_;
  std::vector<protocol::TpcEnablePacket> controls_;
  std::vector<protocol::EvictPacket> evictions_;
  std::vector<protocol::GrowPacket> growths_;
  std::vector<protocol::SubcontextPacket> shares_;
  std::deque<protocol::TaskPacket> ready_;
  std::deque<protocol::TaskPacket> first_;  // that were evicted
  std::set<std::uint32_t> sent_;
  std::set<std::uint32_t> waits_;                                     // evicted, and not in `first_` yet
  std::set<std::uint32_t> out_;                                       // in `first_`
  std::map<std::uint32_t, std::vector<protocol::GrowPacket>> early_;  // by operation
};

}  // namespace heddle::test
