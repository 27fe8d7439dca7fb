// Two SMs that run programs which launch children, and who completes these and brings saved CTAs back (TSK-12).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "arch/task_record.h"
#include "common/packet_socket.h"
#include "sm/program_bench.h"
#include "sm/save_steps.h"

namespace heddle::test {

constexpr std::uint64_t kSaveMemory = 1 << 20;
constexpr std::uint64_t kOwnTmd = 0x3F000;  // of the task whose CTAs are saved
constexpr std::uint32_t kSavedTask = 5;     // its operation
constexpr std::uint32_t kRestoreTask = 900;

inline arch::LaunchMemory save_memory(std::uint64_t chunks, bool shared) {
  arch::LaunchMemory memory;
  memory.tasks.pool = {0x40000, 16, arch::kRecordBytes};
  memory.contexts.pool = {memory.tasks.pool.base + memory.tasks.pool.bytes(), 16, arch::context::bytes(memory.tmdqs)};
  memory.chunks = {memory.contexts.pool.base + memory.contexts.pool.bytes(), chunks, arch::kSaveChunk};
  memory.shared_contexts = shared;
  return memory;
}

struct SaveListener final : CtaListener {
  void cta_started(const Cta&) override { text += 'S'; }
  void cta_ended(const Cta& cta) override {
    text += 'E';
    last = cta;
  }
  void cta_saved(const Cta& cta) override {
    text += 's';
    last = cta;
  }
  void cta_restored(const Cta& cta) override {
    text += 'r';
    last = cta;
  }
  std::string text;
  Cta last;
};

struct SaveSlices final : TimelineSink {
  struct Slice {
    Picoseconds begin = 0;
    Picoseconds end = 0;
    std::int64_t restored = 0;
    std::int64_t saved = 0;
  };
  TrackId track(const std::string&, const std::string& line) override {
    return {1, line.compare(0, 10, "saved CTAs") == 0 ? 2U : 1U};
  }
  void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view, TimelineArgs args) override {
    Slice slice{begin, end};
    for (const auto& [key, value] : args) {
      if (key == "restored") slice.restored = value;
      if (key == "saved") slice.saved = value;
    }
    (track.line == 2 ? absences : slices).push_back(slice);
  }
  void counter(TrackId, Picoseconds, std::string_view, double) override {}
  std::vector<Slice> slices;    // of CTAs
  std::vector<Slice> absences;  // of those that were saved
};

// One SM with what it is bound to, and a memory of its own.
struct SaveNode {
  SaveNode(const std::string& name, Domain& domain, const sm::SmParams& params, std::uint32_t id,
           const arch::CodeStore& code, const sm::MemoryView& view)
      : mpc((name + "_mpc").c_str(), domain),
        sm((name + "_sm").c_str(), domain, name, params, place_of(id), ProgramMpc::kDistance, 1, code, view),
        l2((name + "_l2").c_str(), domain, kSaveMemory),
        tmau((name + "_tmau").c_str(), domain, sm),
        no_clusters((name + "_none").c_str(), domain, sm) {
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in);
    mpc.order_out.bind(sm.order_in);
    mpc.abort_out.bind(sm.abort_in);
    sm.memory_out.bind(l2.in);
  }
  static sm::SmContext place_of(std::uint32_t id) {
    sm::SmContext place;
    place.id = protocol::SmId(id);
    place.sms = id + 1;
    return place;
  }
  ProgramMpc mpc;
  sm::Sm sm;
  FakeL2 l2;
  FakeTmau tmau;
  NoClusters no_clusters;
};

// Completes each child some time after it was started, and wakes whoever waits. A CTA that was saved comes back on the
// SM that is said.
class FakeTasks : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeTasks(const sc_core::sc_module_name& name, Domain& domain, std::array<SaveNode*, 2> nodes,
            const arch::LaunchMemory& memory)
      : sc_core::sc_module(name),
        child_in("child_in"),
        notice_in("notice_in"),
        wake_out("wake_out", domain, 20, kUnlimitedCredits),
        nodes_(nodes),
        memory_(memory),
        domain_(domain) {
    child_in.init(nodes.size(), [&domain](const char* socket, std::size_t) {
      return new PacketIn<protocol::ChildPacket>(socket, domain, 20);
    });
    notice_in.init(nodes.size(), [&domain](const char* socket, std::size_t) {
      return new PacketIn<protocol::ClusterNoticePacket>(socket, domain, 0);
    });
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      child_in[i].on_packet<FakeTasks, &FakeTasks::on_child>(*this);
      notice_in[i].on_packet<FakeTasks, &FakeTasks::on_notice>(*this);
      nodes[i]->sm.child_out.bind(child_in[i]);
      nodes[i]->sm.notice_out.bind(notice_in[i]);
      wake_out.bind(nodes[i]->sm.wake_in);
    }
    domain.add_resettable(*this);
  }
  sc_core::sc_vector<PacketIn<protocol::ChildPacket>> child_in;
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;
  PacketOut<protocol::WakePacket> wake_out;

  Cycle child_time = 1000;
  std::uint32_t restore_on = 1;    // node
  Cycle restore_after = 100;       // cycles behind the wake
  std::uint32_t home = 0;          // node where the CTA is, or was
  protocol::CtaStartPacket start;  // of the CTA that is saved
  std::uint32_t wakes = 0;         // that found an SM
  std::uint32_t restores = 0;      // that found an area
  std::uint32_t closed = 0;        // contexts
  std::uint32_t left = 0;          // `leave` packets, or `ended` ones
  std::uint32_t late = 0;          // `wake` packets
  std::uint64_t released = 0;      // bytes of shared memory

  FakeL2& l2() { return nodes_[home]->l2; }
  // Chunks that nobody has.
  std::uint64_t free_chunks() {
    return memory_.chunks.count - l2().get<std::uint64_t>(memory_.chunks.base + arch::ring::kUsed);
  }
  // Of the CTA that is saved there.
  sm::SaveLayout layout_of(std::uint64_t area) {
    sm::SavedLine line;
    std::copy_n(l2().bytes.begin() + static_cast<std::ptrdiff_t>(area), line.size(), line.begin());
    return sm::SaveLayout(sm::header_of(line));
  }

 private:
  enum : std::uint32_t { kChildEnds, kComesBack };
  void reset() override {}
  void on_child(const protocol::ChildPacket& packet, std::uint32_t) {
    using Kind = protocol::ChildPacket::Kind;
    if (packet.kind == Kind::start) {
      domain_.schedule_in(child_time, *this, kChildEnds, packet.record);
    } else if (packet.kind == Kind::leave) {
      ++left;
      finish(packet.record);
    } else if (packet.kind == Kind::wake) {
      ++late;
      wake(packet.record);
    } else if (packet.kind == Kind::ended) {
      ++left;
      const auto open = l2().get<std::uint64_t>(packet.record + arch::tmd::kOpen);
      REQUIRE(open > 1);
      l2().put<std::uint64_t>(packet.record + arch::tmd::kOpen, open - 1);
    }
  }
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t) {
    if (notice.kind == protocol::ClusterNoticePacket::Kind::shared_released) released += notice.bytes;
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kChildEnds) return child_ends(argument);
    protocol::CtaStartPacket packet = start;
    packet.area = argument;
    // Its last one may not be free yet: its SM does not know when it is found in memory.
    packet.cta_slot = protocol::CtaSlot(1 + back_++ % 4);
    packet.tag.operation = kRestoreTask;
    if (home != restore_on) nodes_[restore_on]->l2.bytes = nodes_[home]->l2.bytes;
    home = restore_on;
    nodes_[home]->mpc.start(domain_.now(), packet);
  }
  // Its stream goes on, and who waits for its ticket finds it gone.
  void child_ends(std::uint64_t record) {
    const auto context = l2().get<std::uint64_t>(record + arch::tmd::kContext);
    const auto flags = l2().get<std::uint32_t>(record + arch::tmd::kFlags);
    if ((flags >> 8 & 3) == static_cast<std::uint32_t>(arch::LaunchMode::stream)) {
      const std::uint64_t last = context + arch::context::last_task(flags & 0xFF);
      if (l2().get<std::uint64_t>(last) == record) {
        l2().put<std::uint64_t>(last, 0);
      } else {
        const auto next = l2().get<std::uint64_t>(record + arch::tmd::kNext);
        REQUIRE(next != 0);  // a launch waits longer for its turn than for its link
        domain_.schedule_in(child_time, *this, kChildEnds, next);
      }
    }
    if ((flags >> 11 & 1) != 0) l2().put<std::uint64_t>(record + arch::tmd::kFlags, 0);
    finish(context);
  }
  // One of the context has: a child, or the CTA itself.
  void finish(std::uint64_t context) {
    const std::uint64_t old = l2().get<std::uint64_t>(context + arch::context::kWork);
    REQUIRE(arch::work_of(old) > 0);
    l2().put<std::uint64_t>(context + arch::context::kWork, old - 1);
    if (arch::work_of(old) == 1) {
      ++closed;
      return;
    }
    if ((arch::work_of(old) == 2 && arch::waiters_of(old) > 0) || arch::some_waiters_of(old) > 0) wake(context);
  }
  void wake(std::uint64_t context) {
    auto found = l2().get<std::uint64_t>(context + arch::context::kHome);
    l2().put<std::uint64_t>(context + arch::context::kHome, memory_.shared_contexts ? 0 : arch::kHomeWoken);
    if (memory_.shared_contexts) {
      for (std::uint32_t node = 0; node < nodes_.size(); ++node) wake_out.send({context}, node);
      for (; found != 0; found = l2().get<std::uint64_t>(arch::save_area_of(found) + arch::saved::kNext)) {
        REQUIRE(arch::is_saved_home(found));
        ++restores;
        domain_.schedule_in(restore_after, *this, kComesBack, arch::save_area_of(found));
      }
      return;
    }
    if (found == arch::kHomeWoken) return;
    if (arch::is_saved_home(found)) {
      ++restores;
      domain_.schedule_in(restore_after, *this, kComesBack, arch::save_area_of(found));
      return;
    }
    ++wakes;
    wake_out.send({context}, arch::sm_of_home(found) - 3);
  }

  std::uint32_t back_ = 0;  // restores that have been sent
  std::array<SaveNode*, 2> nodes_;
  const arch::LaunchMemory& memory_;
  Domain& domain_;
};

struct SaveBench {
  explicit SaveBench(TimingMode mode = TimingMode::at, bool save = true, std::uint64_t chunks = 16, bool shared = false)
      : memory(save_memory(chunks, shared)),
        params(params_of(save)),
        domain("domain", 1.0, mode, 0, observation),
        map(kSaveMemory, 5, 1),
        a("sm0", domain, params, 3, code, {map, memory}),
        b("sm1", domain, params, 4, code, {map, memory}),
        tasks("tasks", domain, {&a, &b}, memory) {
    observation.ctas = &listener;
    observation.timeline = &timeline;
    observation.load_map.configure(5, params.limits.warps);
    for (SaveNode* node : {&a, &b}) {
      node->sm.on_fault([this](const arch::FaultRecord& fault) { faults.push_back(fault); });
      node->l2.latency = 60;
      prepare(node->l2);
    }
  }
  // What task management has left in memory: the TMD, and the context that its CTAs share.
  void prepare(FakeL2& l2) const {
    l2.put<std::uint64_t>(kOwnTmd + arch::tmd::kOpen, memory.shared_contexts ? 2 : 1);
    if (!memory.shared_contexts) return;
    const std::uint64_t context = memory.contexts.pool.record(0);
    l2.put<std::uint64_t>(memory.contexts.pool.base + arch::ring::kTaken, 1);
    l2.put<std::uint64_t>(memory.contexts.pool.base + arch::ring::kUsed, 1);
    l2.put<std::uint64_t>(context + arch::context::kWork, 1);
    l2.put<std::uint64_t>(context + arch::context::kOwner, kOwnTmd);
    l2.put<std::uint64_t>(kOwnTmd + arch::tmd::kSharedContext, context);
  }
  static sm::SmParams params_of(bool save) {
    sm::SmParams params;
    params.nested.save = save ? sm::SavePolicy::wait : sm::SavePolicy::off;
    params.nested.save_delay = 100;
    params.nested.launch_instructions = 2;
    return params;
  }
  void start(ListProgram program, std::uint32_t threads, std::uint32_t shared, Cycle cycle = 0) {
    arch::KernelShape shape;
    shape.grid = {8, 1, 1};
    shape.block = {threads, 1, 1};
    shape.shared_bytes = shared;
    protocol::CtaStartPacket packet;
    packet.tag.operation = kSavedTask;
    packet.id.cta = {3, 0, 0};
    packet.id.index = packet.id.cga = 3;
    packet.need = arch::need_of(params.limits, shape);
    packet.code = code.add(std::make_shared<ListProgram>(std::move(program)), shape);
    packet.record = kOwnTmd;
    tasks.start = packet;
    a.mpc.start(cycle, packet);
  }
  // Whether the CTA has ended once, by itself if not `faulted`, and nothing of it is left anywhere.
  void check_over(bool faulted = false) {
    REQUIRE_FALSE(listener.text.empty());
    REQUIRE(listener.text.front() == 'S');
    REQUIRE(listener.text.back() == 'E');
    for (std::size_t i = 1; i + 1 < listener.text.size(); ++i) REQUIRE(listener.text[i] == (i % 2 == 1 ? 's' : 'r'));
    REQUIRE(listener.last.task == kSavedTask);
    REQUIRE(listener.last.index == 3);
    REQUIRE(exits() == count('s') + 1);
    const auto& last = tasks.home == 0 ? a.mpc.exits.back() : b.mpc.exits.back();
    REQUIRE(last.second.faulted == faulted);
    const std::uint64_t context = memory.contexts.pool.record(0);
    if (memory.shared_contexts) {
      REQUIRE(tasks.left == (count('s') > 0 ? 1 : 0));
      REQUIRE(tasks.closed == 0);
      REQUIRE(tasks.l2().get<std::uint64_t>(context + arch::context::kHome) == 0);
      REQUIRE(arch::work_of(tasks.l2().get<std::uint64_t>(context + arch::context::kWork)) == 1);
      REQUIRE(tasks.l2().get<std::uint64_t>(kOwnTmd + arch::tmd::kOpen) == 2);
    } else {
      REQUIRE(tasks.left == 1);
      REQUIRE(tasks.closed == 1);
    }
    check_chunks();
    for (SaveNode* node : {&a, &b}) {
      REQUIRE(node->sm.resident() == 0);
      REQUIRE(node->sm.used() == arch::ResourceVector{});
      REQUIRE(node->sm.quiescent());
    }
  }
  // Every chunk is free, and none is so twice.
  void check_chunks(std::uint64_t lost = 0) {
    const arch::RecordPool& pool = memory.chunks;
    auto& l2 = tasks.l2();
    const auto taken = l2.get<std::uint64_t>(pool.base + arch::ring::kTaken);
    REQUIRE(tasks.free_chunks() == pool.count - lost);
    REQUIRE(taken - l2.get<std::uint64_t>(pool.base + arch::ring::kGiven) == lost);
    std::set<std::uint64_t> free;
    for (std::uint64_t ticket = taken; ticket < taken + pool.count - lost; ++ticket) {
      const std::uint64_t chunk = ticket < pool.count ? pool.record(ticket) : l2.get<std::uint64_t>(pool.slot(ticket));
      REQUIRE(pool.has(chunk));
      free.insert(chunk);
    }
    REQUIRE(free.size() == pool.count - lost);
  }
  std::size_t exits() const { return a.mpc.exits.size() + b.mpc.exits.size(); }
  std::size_t count(char edge) const {
    return static_cast<std::size_t>(std::count(listener.text.begin(), listener.text.end(), edge));
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0." + name); }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  SaveListener listener;
  SaveSlices timeline;
  arch::LaunchMemory memory;
  sm::SmParams params;
  Domain domain;
  arch::CodeStore code;
  arch::AddressMap map;
  SaveNode a;
  SaveNode b;
  FakeTasks tasks;
  std::vector<arch::FaultRecord> faults;
};

}  // namespace heddle::test
