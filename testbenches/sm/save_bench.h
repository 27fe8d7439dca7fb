// Two SMs that run programs which launch children, and who completes these and brings saved CTAs back (TSK-12).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "arch/task_record.h"
#include "common/packet_socket.h"
#include "sm/program_bench.h"

namespace heddle::test {

constexpr std::uint64_t kSaveMemory = 1 << 20;
constexpr std::uint64_t kOwnTmd = 0x3F000;  // of the task whose CTAs are saved
constexpr std::uint32_t kSavedTask = 5;     // its operation
constexpr std::uint32_t kRestoreTask = 900;

inline arch::LaunchMemory save_memory(std::uint64_t areas, std::uint64_t area_bytes) {
  arch::LaunchMemory memory;
  memory.tasks = {0x40000, 16, arch::kRecordBytes};
  memory.contexts = {memory.tasks.base + memory.tasks.bytes(), 16, arch::kRecordBytes};
  memory.areas = {memory.contexts.base + memory.contexts.bytes(), areas, area_bytes};
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
  std::uint32_t left = 0;          // `leave` packets
  std::uint64_t released = 0;      // bytes of shared memory

  FakeL2& l2() { return nodes_[home]->l2; }
  // Areas that nobody has.
  std::uint64_t free_areas() {
    const std::uint64_t base = memory_.areas.base;
    return memory_.areas.count -
           (l2().get<std::uint64_t>(base + arch::ring::kTaken) - l2().get<std::uint64_t>(base + arch::ring::kGiven));
  }

 private:
  enum : std::uint32_t { kChildEnds, kComesBack };
  void reset() override {}
  void on_child(const protocol::ChildPacket& packet, std::uint32_t) {
    if (packet.kind == protocol::ChildPacket::Kind::start) {
      domain_.schedule_in(child_time, *this, kChildEnds, l2().get<std::uint64_t>(packet.record + arch::tmd::kContext));
    } else if (packet.kind == protocol::ChildPacket::Kind::leave) {
      ++left;
      finish(packet.record);
    }
  }
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t) {
    if (notice.kind == protocol::ClusterNoticePacket::Kind::shared_released) released += notice.bytes;
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kChildEnds) return finish(argument);
    protocol::CtaStartPacket packet = start;
    packet.area = argument;
    packet.cta_slot = protocol::CtaSlot(1);
    packet.tag.operation = kRestoreTask;
    if (home != restore_on) nodes_[restore_on]->l2.bytes = nodes_[home]->l2.bytes;
    home = restore_on;
    nodes_[home]->mpc.start(domain_.now(), packet);
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
    if (arch::work_of(old) != 2 || arch::waiters_of(old) == 0) return;
    const auto found = l2().get<std::uint64_t>(context + arch::context::kHome);
    l2().put<std::uint64_t>(context + arch::context::kHome, arch::kHomeWoken);
    if (found == arch::kHomeWoken) return;
    if (arch::is_saved_home(found)) {
      ++restores;
      domain_.schedule_in(restore_after, *this, kComesBack, arch::save_area_of(found));
      return;
    }
    ++wakes;
    wake_out.send({context}, arch::sm_of_home(found) - 3);
  }

  std::array<SaveNode*, 2> nodes_;
  const arch::LaunchMemory& memory_;
  Domain& domain_;
};

struct SaveBench {
  explicit SaveBench(TimingMode mode = TimingMode::at, bool save = true, std::uint64_t area_bytes = 0x8000,
                     std::uint64_t areas = 2)
      : memory(save_memory(areas, area_bytes)),
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
      node->l2.put<std::uint64_t>(kOwnTmd + arch::tmd::kOpen, 1);
    }
  }
  static sm::SmParams params_of(bool save) {
    sm::SmParams params;
    params.nested.save = save;
    params.nested.save_delay = 100;
    params.nested.launch_cycles = 10;
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
    REQUIRE(tasks.left == 1);
    REQUIRE(tasks.closed == 1);
    REQUIRE(tasks.free_areas() == memory.areas.count);
    for (SaveNode* node : {&a, &b}) {
      REQUIRE(node->sm.resident() == 0);
      REQUIRE(node->sm.used() == arch::ResourceVector{});
      REQUIRE(node->sm.quiescent());
    }
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
