// An SM that runs programs, with an MPC and a memory.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "sm/fake_l2.h"
#include "sm/fake_tmau.h"
#include "sm/loose_ends.h"
#include "sm/sm.h"
#include "support/list_program.h"
#include "support/sim_fixture.h"

namespace heddle::test {

constexpr std::uint32_t kBenchSm = 3;
constexpr std::uint32_t kBenchSms = 7;

class ProgramMpc : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  static constexpr std::uint32_t kDistance = 6;
  ProgramMpc(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        start_out("start_out", domain, kDistance, kUnlimitedCredits),
        exit_in("exit_in", domain, kDistance),
        order_out("order_out", domain, kDistance, kUnlimitedCredits),
        abort_out("abort_out", domain, kDistance, kUnlimitedCredits),
        domain_(domain) {
    exit_in.on_packet<ProgramMpc, &ProgramMpc::on_exit>(*this);
    domain.add_resettable(*this);
  }
  PacketOut<protocol::CtaStartPacket> start_out;
  PacketIn<protocol::CtaExitPacket> exit_in;
  PacketOut<protocol::ClusterOrderPacket> order_out;
  PacketOut<protocol::AbortPacket> abort_out;
  std::vector<std::pair<Cycle, protocol::CtaExitPacket>> exits;

  void start(Cycle cycle, const protocol::CtaStartPacket& packet) {
    script_.push_back(packet);
    domain_.schedule(cycle, *this, 0, script_.size() - 1);
  }
  void abort(Cycle cycle, std::uint32_t operation) { domain_.schedule(cycle, *this, 1, operation); }
  // The exit of the CTA in that slot; it must have ended once.
  const protocol::CtaExitPacket& exit_of(std::uint32_t slot) const {
    const protocol::CtaExitPacket* found = nullptr;
    for (const auto& [cycle, exit] : exits) {
      if (exit.cta_slot != slot) continue;
      REQUIRE(found == nullptr);
      found = &exit;
    }
    REQUIRE(found != nullptr);
    return *found;
  }

 private:
  void reset() override {
    script_.clear();
    exits.clear();
  }
  void on_event(std::uint32_t kind, std::uint64_t which) override {
    if (kind == 0) {
      start_out.send(script_[which]);
    } else {
      abort_out.send({static_cast<std::uint32_t>(which)});
    }
  }
  void on_exit(const protocol::CtaExitPacket& exit, std::uint32_t) {
    exits.emplace_back(domain_.now(), exit);
    order_out.send(permit_for(exit));
  }
  Domain& domain_;
  std::vector<protocol::CtaStartPacket> script_;
};

inline sm::SmContext bench_place() {
  sm::SmContext place;
  place.id = protocol::SmId(kBenchSm);
  place.sms = kBenchSms;
  return place;
}

struct ProgramBench {
  explicit ProgramBench(const sm::SmParams& sm_params = {}, TimingMode mode = TimingMode::at,
                        std::uint64_t memory_bytes = 1 << 20, Cycle run_ahead = 0,
                        const sm::SmContext& place = bench_place())
      : params(sm_params),
        domain("domain", 1.0, mode, run_ahead, observation),
        map(memory_bytes, 5, 1),
        mpc("mpc", domain),
        sm("sm", domain, "sm0", params, place, ProgramMpc::kDistance, 1, code, sm::MemoryView{map, nested}),
        l2("l2", domain, memory_bytes),
        tmau("tmau", domain, sm),
        no_clusters("no_clusters", domain, sm) {
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in);
    mpc.order_out.bind(sm.order_in);
    mpc.abort_out.bind(sm.abort_in);
    sm.memory_out.bind(l2.in);
    sm.on_fault([this](const arch::FaultRecord& fault) { faults.push_back(fault); });
    observation.load_map.configure(kBenchSm + 1, params.limits.warps);
  }

  std::uint32_t add(ListProgram program, std::uint32_t threads, std::uint32_t shared = 0, std::uint64_t ctas = 1) {
    arch::KernelShape shape;
    shape.grid = {static_cast<std::uint32_t>(ctas), 1, 1};
    shape.block = {threads, 1, 1};
    shape.shared_bytes = shared;
    shapes_.push_back(shape);
    return code.add(std::make_shared<ListProgram>(std::move(program)), shape);
  }
  protocol::CtaStartPacket packet(std::uint32_t number, std::uint32_t slot = 0, std::uint64_t cta = 0,
                                  std::uint32_t operation = 5) {
    protocol::CtaStartPacket start;
    start.tag.operation = operation;
    start.cta_slot = protocol::CtaSlot(slot);
    start.id.cta = {static_cast<std::uint32_t>(cta), 0, 0};
    start.id.index = start.id.cga = cta;
    start.need = arch::need_of(params.limits, shapes_[number - 1]);
    start.code = number;
    return start;
  }
  // Starts a CTA of the program so that its first instruction can issue at `first` (approximately timed).
  void start(std::uint32_t number, std::uint32_t slot = 0, std::uint64_t cta = 0, Cycle cycle = 0) {
    mpc.start(cycle, packet(number, slot, cta));
  }
  Cycle first_issue() const {
    return domain.mode() != TimingMode::lt ? ProgramMpc::kDistance + params.start_cycles : 0;
  }
  // Runs one CTA of one program to its end; gives the cycles from its first instruction to its end.
  Cycle run(ListProgram program, std::uint32_t threads, std::uint32_t shared = 0) {
    start(add(std::move(program), threads, shared));
    const std::size_t before = mpc.exits.size();
    run_until_idle();
    REQUIRE(mpc.exits.size() == before + 1);
    const Cycle link = domain.mode() != TimingMode::lt ? ProgramMpc::kDistance : 0;
    return mpc.exits.back().first - link - first_issue();
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.sm0." + name); }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  sm::SmParams params;
  Domain domain;
  arch::CodeStore code;
  arch::AddressMap map;
  arch::LaunchMemory nested;  // empty, unless a test fills it before it starts
  ProgramMpc mpc;
  sm::Sm sm;
  FakeL2 l2;
  FakeTmau tmau;
  NoClusters no_clusters;
  std::vector<arch::FaultRecord> faults;

 private:
  std::vector<arch::KernelShape> shapes_;
};

}  // namespace heddle::test
