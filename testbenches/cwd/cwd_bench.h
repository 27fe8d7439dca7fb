// A CWD between a stand-in for task management and stand-ins for its GPCs. All that passes is logged and judged.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/bits.h"
#include "common/packet_socket.h"
#include "cwd/cwd.h"
#include "cwd/cwd_log.h"
#include "cwd/fake_task_unit.h"
#include "support/sim_fixture.h"

namespace heddle::test {

// An SM of `slots` CTA slots and nothing else that could run out, and a CTA that takes one of everything.
inline arch::ResourceVector capacity(std::uint32_t slots) { return {{1000, 100'000, 100'000, 100'000, slots, 1000}}; }
inline const arch::ResourceVector kOne{{1, 1, 1, 1, 1, 1}};

// Answers every CTA after a delay, and gives credits back when it likes.
class FakeGpc : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  using Delay = std::function<Cycle(std::uint32_t operation, std::uint64_t index)>;

  FakeGpc(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t index, std::uint32_t virtual_gpc,
          const arch::Topology::Gpc& gpc, const cwd::CwdParams& params, const arch::ResourceVector& capacity, Log& log)
      : sc_core::sc_module(name),
        launch_in("launch_in", domain, distance(params, index), CreditReturn::by_owner),
        complete_out("complete_out", domain, distance(params, index), kUnlimitedCredits),
        cga_out("cga_out", domain, distance(params, index), kUnlimitedCredits),
        shared_out("shared_out", domain, distance(params, index), kUnlimitedCredits),
        local_in("local_in", domain, 0),
        abort_in("abort_in", domain, distance(params, index)),
        part_in("part_in", domain, 0),
        domain_(domain),
        index_(index),
        virtual_gpc_(virtual_gpc),
        gpc_(gpc),
        queue_(params.gpc_queue),
        capacity_(capacity),
        log_(log),
        used_(gpc.sms) {
    launch_in.on_packet<FakeGpc, &FakeGpc::on_launch>(*this);
    local_in.on_packet<FakeGpc, &FakeGpc::on_local>(*this);
    abort_in.on_packet<FakeGpc, &FakeGpc::on_abort>(*this);
    part_in.on_packet<FakeGpc, &FakeGpc::on_part>(*this);
    domain.add_resettable(*this);
  }

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::SharedReleasePacket> shared_out;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketIn<protocol::PartPacket> part_in;
  Delay flush = [](std::uint32_t, std::uint64_t) { return Cycle{1}; };  // by operation and sequence
  Delay duration = [](std::uint32_t, std::uint64_t) { return Cycle{1}; };
  std::function<Cycle()> credit_delay = [] { return Cycle{0}; };
  std::function<bool(std::uint32_t, std::uint64_t)> faults = [](std::uint32_t, std::uint64_t) { return false; };
  // Shared memory that a CTA gives back half way through its run.
  std::function<std::uint32_t(std::uint32_t, std::uint64_t)> releases = [](std::uint32_t, std::uint64_t) { return 0U; };
  // An error of that GPC_CGA, whose CTA has gone, comes to light while it is flushed.
  std::function<bool(std::uint32_t, std::uint64_t)> traps = [](std::uint32_t, std::uint64_t) { return false; };
  bool merge = true;  // completions of one cycle leave as one packet

 private:
  enum Kind : std::uint32_t { kCredit, kComplete, kSend, kFlushed, kBlock, kRelease };
  struct Running {
    protocol::TaskSlot slot;
    std::uint32_t operation;
    std::uint32_t bit;
    arch::ResourceVector need;
    std::uint64_t sequence;
    std::size_t cga;
    bool tracked;
    std::uint32_t subcontext;
    bool faulted;
    std::uint32_t released;
  };
  struct Cga {
    protocol::TaskSlot slot;
    std::uint64_t sequence;
    std::uint32_t launched;
    std::uint32_t completed;
    std::uint32_t ctas;
  };
  static constexpr std::size_t kNoCga = ~std::size_t{0};

  static Cycle distance(const cwd::CwdParams& params, std::uint32_t index) {
    return params.gpc_distances.empty() ? params.gpc_distance : params.gpc_distances[index];
  }
  Log::Tpc tpc_of(std::uint32_t subcontext, std::uint32_t bit) const {
    std::uint32_t tpc = 0;
    while (bit >= gpc_.tpcs[tpc].first_sm + gpc_.tpcs[tpc].sms) ++tpc;
    return {subcontext, index_, tpc};
  }

  void reset() override {
    running_.clear();
    cgas_.clear();
    gathered_.clear();
    heard_.clear();
    held_ = open_cgas_ = 0;
    std::fill(used_.begin(), used_.end(), arch::ResourceVector{});
  }

  void on_launch(const protocol::LaunchPacket& packet, std::uint32_t) {
    const bool own = packet.virtual_gpc == virtual_gpc_;
    // It knows where a grid stands as an SM does: from what it hears, or because it is told.
    std::uint64_t index = 0;
    if (packet.id) {
      index = position_of(packet.shape, *packet.id);
    } else {
      std::uint64_t& heard = heard_[packet.slot];
      if (packet.begins) heard = 0;
      if (own && packet.sync) {
        heard = linear_of(packet.sync->outermost, raster_extents(packet.shape)) * raster_unit(packet.shape) +
                packet.sync->within;
      }
      index = heard;
      heard += packet.num_ctas;
    }
    if (own) log_.launches.push_back({domain_.now(), index_, packet, index});
    if (++held_ > queue_) log_.problems.push_back(fmt::format("GPC {}: more packets than its queue holds", index_));
    domain_.schedule_in(credit_delay(), *this, kCredit);
    if (!own) return;
    std::size_t cga = kNoCga;
    if (packet.cga_ctas > 0) {
      if (packet.cga_first) {
        if (!cgas_.empty() && cgas_.back().launched != cgas_.back().ctas) {
          log_.problems.push_back(fmt::format("GPC {}: a CGA began before the one before it was launched", index_));
        }
        cgas_.push_back({packet.slot, packet.sequence, 0, 0, packet.cga_ctas});
        log_.most_cgas = std::max<std::size_t>(log_.most_cgas, ++open_cgas_);
        ++log_.open[packet.sequence];
      }
      cga = cgas_.size() - 1;
      cgas_[cga].launched += packet.num_ctas;
      if (cgas_[cga].sequence != packet.sequence || cgas_[cga].launched > packet.cga_ctas) {
        log_.problems.push_back(fmt::format("GPC {}: packets of CGAs are mixed up", index_));
      }
    }
    if (packet.memory_slot) take_memory(packet);
    packet.barriers.for_each(
        [&](arch::CgaLevel, protocol::BarrierSlot slot) { take_barrier(slot.value(), packet.sequence); });
    start(packet, packet.sm_mask, index, cga);
    for (const std::uint64_t mask : packet.further_masks) start(packet, mask, index, cga);
  }

  void take_memory(const protocol::LaunchPacket& packet) {
    const auto place = std::pair(std::uint32_t{packet.subcontext}, packet.memory_slot->value());
    const auto [found, fresh] = log_.memory.emplace(place, packet.sequence);
    if (!fresh && found->second != packet.sequence && log_.open[found->second] > 0) {
      log_.problems.push_back(fmt::format("CGA memory slot {} was given to two CGAs", packet.memory_slot->value()));
    }
    found->second = packet.sequence;
  }

  void take_barrier(std::uint32_t slot, std::uint64_t sequence) {
    const auto [found, fresh] = log_.barriers.emplace(slot, sequence);
    if (!fresh && found->second != sequence && log_.open[found->second] > 0) {
      log_.problems.push_back(fmt::format("barrier {} of the GPU was given to two CGAs", slot));
    }
    found->second = sequence;
  }

  void on_part(const protocol::PartPacket&, std::uint32_t) {}  // its SMs have no registers
  void on_local(const protocol::LocalMemoryPacket& packet, std::uint32_t) {
    ++log_.heard_blocks;
    if (packet.virtual_gpc != virtual_gpc_) return;
    log_.blocks.push_back({index_, packet});
    const Log::Tpc tpc{packet.subcontext, index_, packet.tpc};
    if (log_.local_holds[tpc] == 0)
      log_.problems.push_back(
          fmt::format("GPC {} cycle {}: a local-memory block came before the launch", index_, domain_.now()));
    log_.block[tpc] = packet.block;
    domain_.schedule(domain_.now(), *this, kBlock, std::uint64_t{packet.subcontext} << 32 | packet.block);
  }
  void on_abort(const protocol::AbortPacket& packet, std::uint32_t) {
    if (packet.preemption) return log_.preemptions.emplace_back(index_, *packet.preemption), void();
    if (!log_.aborted.emplace(index_, packet.operation).second) log_.problems.emplace_back("a task was aborted twice");
    if (log_.faulted.count(packet.operation) == 0) log_.problems.emplace_back("a task was aborted without a fault");
  }
  // Once all that arrives in the cycle is there.
  void check_block(std::uint64_t which) {
    const auto block = static_cast<std::uint32_t>(which);
    const std::uint64_t subcontext = which >> 32;
    const auto users = std::count_if(log_.block.begin(), log_.block.end(), [&](const auto& entry) {
      return std::get<0>(entry.first) == subcontext && entry.second == block && log_.local_holds[entry.first] > 0;
    });
    if (users > 1) {
      log_.problems.push_back(
          fmt::format("local-memory block {} of subcontext {} has {} users", block, subcontext, users));
    }
  }

  void hold(const Running& cta) {
    const Log::Tpc tpc = tpc_of(cta.subcontext, cta.bit);
    if (log_.local_operations.count(cta.operation) > 0) ++log_.local_holds[tpc];
    if (++log_.holds[tpc] > 1) return;
    std::size_t tpcs = 0;
    for (const auto& [other, ctas] : log_.holds) tpcs += std::get<0>(other) == cta.subcontext && ctas > 0 ? 1 : 0;
    log_.most_tpcs = std::max(log_.most_tpcs, tpcs);
  }
  void release(const Running& cta) {
    const Log::Tpc tpc = tpc_of(cta.subcontext, cta.bit);
    --log_.holds[tpc];
    if (log_.local_operations.count(cta.operation) == 0) return;
    --log_.local_holds[tpc];
    if (log_.block.count(tpc) > 0) return;
    log_.problems.push_back(fmt::format("GPC {}: a CTA ran without its local-memory block", index_));
  }

  void start(const protocol::LaunchPacket& packet, std::uint64_t mask, std::uint64_t& index, std::size_t cga) {
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
      if ((mask >> bit & 1) == 0) continue;
      if (bit >= gpc_.sms) {
        log_.problems.push_back(fmt::format("GPC {} has no SM {}", index_, bit));
        continue;
      }
      used_[bit].add(packet.need);
      if (!used_[bit].within(capacity_)) {
        log_.problems.push_back(fmt::format("GPC {} SM {}: more CTAs than fit", index_, bit));
      }
      running_.push_back({packet.slot, packet.operation, bit, packet.need, packet.sequence, cga,
                          packet.shape.levels > 0 && packet.cga_ctas == 0, packet.subcontext,
                          faults(packet.operation, index), releases(packet.operation, index)});
      hold(running_.back());
      log_.open[packet.sequence] += running_.back().tracked ? 1 : 0;
      const Cycle run = duration(packet.operation, index++);
      if (running_.back().released > 0) domain_.schedule_in(run / 2, *this, kRelease, running_.size() - 1);
      domain_.schedule_in(run, *this, kComplete, running_.size() - 1);
    }
  }

  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kCredit) {
      --held_;
      launch_in.return_credit();
      return;
    }
    if (kind == kBlock) {
      check_block(argument);
      return;
    }
    if (kind == kSend) {
      for (const protocol::CompletePacket& packet : gathered_) complete_out.send(packet);
      gathered_.clear();
      return;
    }
    if (kind == kFlushed) {
      --open_cgas_;
      --log_.open[cgas_[argument].sequence];
      cga_out.send({cgas_[argument].slot, cgas_[argument].sequence});
      return;
    }
    const Running& cta = running_[argument];
    if (kind == kRelease) {
      used_[cta.bit][arch::Resource::shared_bytes] -= cta.released;
      shared_out.send({cta.slot, protocol::SmInGpc(cta.bit), cta.released});
      return;
    }
    used_[cta.bit].subtract(cta.need);
    used_[cta.bit][arch::Resource::shared_bytes] += cta.released;
    release(cta);
    if (cta.faulted) log_.faulted.insert(cta.operation);
    log_.open[cta.sequence] -= cta.tracked ? 1 : 0;
    const std::uint64_t bit = std::uint64_t{1} << cta.bit;
    std::uint64_t cga_slots = 0;  // all SMs keep theirs until the CGA's last CTA
    if (cta.cga != kNoCga && ++cgas_[cta.cga].completed == cgas_[cta.cga].ctas) {
      cga_slots = bits::below(gpc_.sms);
      domain_.schedule_in(flush(cta.operation, cta.sequence), *this, kFlushed, cta.cga);
      if (traps(cta.operation, cta.sequence)) {
        log_.faulted.insert(cta.operation);
        complete_out.send({cta.slot, 0, 0, false, true, 0, 0});
      }
    }
    if (!merge) {
      complete_out.send({cta.slot, bit, cta.sequence, cta.tracked, cta.faulted, cta.released, cga_slots});
      return;
    }
    if (gathered_.empty()) domain_.schedule(domain_.now(), *this, kSend);
    for (protocol::CompletePacket& packet : gathered_) {
      if (packet.slot != cta.slot || (packet.sm_mask & bit) != 0) continue;
      if (cta.tracked && packet.sequence != cta.sequence) continue;
      if (packet.released_shared_bytes != cta.released || (packet.cga_slots & cga_slots) != 0) continue;
      packet.sm_mask |= bit;
      packet.cga_slots |= cga_slots;
      packet.faulted = packet.faulted || cta.faulted;
      return;
    }
    gathered_.push_back({cta.slot, bit, cta.sequence, cta.tracked, cta.faulted, cta.released, cga_slots});
  }

  Domain& domain_;
  std::uint32_t index_;
  std::uint32_t virtual_gpc_;
  const arch::Topology::Gpc& gpc_;
  std::uint32_t queue_;
  arch::ResourceVector capacity_;
  Log& log_;
  std::vector<arch::ResourceVector> used_;
  std::vector<Running> running_;
  std::vector<Cga> cgas_;
  std::vector<protocol::CompletePacket> gathered_;
  std::map<std::uint32_t, std::uint64_t> heard_;  // CTAs of the grid in each slot of the task table
  std::uint32_t held_ = 0;
  std::uint32_t open_cgas_ = 0;
};

class CwdBench {
 public:
  CwdBench(const arch::Shape& shape, const cwd::CwdParams& parameters, const arch::ResourceVector& sm_capacity,
           TimingMode mode = TimingMode::at, Cycle run_ahead = 0, const std::vector<std::uint32_t>& ugpus = {},
           const cwd::GpcCgaLimits& limits = {})
      : params(parameters),
        capacity(sm_capacity),
        topology(shape, ugpus),
        domain("domain", 1.0, mode, run_ahead, observation),
        tasks("tasks", domain, params, log),
        cwd("cwd", domain, "cwd", params, topology, capacity, limits) {
    tasks.task_out.bind(cwd.task_in);
    tasks.control_out.bind(cwd.control_in);
    tasks.evict_out.bind(cwd.evict_in);
    cwd.evicted_out.bind(tasks.evicted_in);
    tasks.grow_out.bind(cwd.grow_in);
    cwd.idle_out.bind(tasks.idle_in);
    tasks.share_out.bind(cwd.share_in);
    cwd.done_out.bind(tasks.done_in);
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      gpcs.push_back(std::make_unique<FakeGpc>(fmt::format("gpc{}", g).c_str(), domain, g, topology.virtual_gpc(g),
                                               topology.gpc(g), params, capacity, log));
      cwd.launch_out.bind(gpcs.back()->launch_in);
      gpcs.back()->complete_out.bind(cwd.complete_in[g]);
      gpcs.back()->cga_out.bind(cwd.cga_in[g]);
      gpcs.back()->shared_out.bind(cwd.shared_in[g]);
      cwd.local_out.bind(gpcs.back()->local_in);
      cwd.part_out.bind(gpcs.back()->part_in);
      cwd.abort_out.bind(gpcs.back()->abort_in);
    }
  }

  void all_gpcs(const std::function<void(FakeGpc&)>& change) {
    for (const auto& gpc : gpcs) change(*gpc);
  }
  // A task of `ctas` CTAs of which `per_sm` fit on an SM.
  static protocol::TaskPacket task(std::uint32_t operation, std::uint32_t ctas, const arch::ResourceVector& need,
                                   std::int32_t priority = 0) {
    protocol::TaskPacket packet;
    packet.operation = operation;
    packet.priority = priority;
    packet.grid = {ctas, 1, 1};
    packet.need = need;
    return packet;
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.cwd." + name); }
  // Time that tasks have waited for that reason.
  double waited(const std::string& reason) const { return stat("wait." + reason); }
  // SM ids of a packet's CTAs, in raster order.
  std::vector<std::uint32_t> sms_of(const LoggedLaunch& launch) const {
    std::vector<std::uint64_t> masks{launch.packet.sm_mask};
    masks.insert(masks.end(), launch.packet.further_masks.begin(), launch.packet.further_masks.end());
    std::vector<std::uint32_t> ids;
    for (const std::uint64_t mask : masks) {
      for (std::uint32_t bit = 0; bit < topology.gpc(launch.gpc).sms; ++bit) {
        if ((mask >> bit & 1) != 0) ids.push_back(topology.gpc(launch.gpc).sm_ids[bit]);
      }
    }
    return ids;
  }
  // All packets in the order in which they were made, however far their GPCs are.
  std::vector<LoggedLaunch> launches_in_order() const {
    std::vector<LoggedLaunch> launches = log.launches;
    std::stable_sort(launches.begin(), launches.end(), [](const LoggedLaunch& a, const LoggedLaunch& b) {
      return std::pair(a.packet.sequence, a.position) < std::pair(b.packet.sequence, b.position);
    });
    return launches;
  }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  Log log;
  const cwd::CwdParams params;
  const arch::ResourceVector capacity;
  const arch::Topology topology;
  Domain domain;
  FakeTaskUnit tasks;
  cwd::Cwd cwd;
  std::vector<std::unique_ptr<FakeGpc>> gpcs;
};

}  // namespace heddle::test
