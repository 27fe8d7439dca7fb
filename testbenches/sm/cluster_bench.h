// SMs of one GPC with programs, joined by stand-ins for GPM, MPCs and the SM-to-SM network.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "sm/fake_gpc.h"
#include "sm/fake_l2.h"
#include "sm/fake_tmau.h"
#include "sm/sm.h"
#include "support/list_program.h"
#include "support/sim_fixture.h"

namespace heddle::test {

struct ClusterBench {
  using Access = ListProgram::Access;
  static constexpr std::uint32_t kCga = 7;  // gpc_local_cga_id of launch()
  static constexpr std::uint32_t kGpc = 2;
  static constexpr std::uint32_t kFirstSm = 10;  // ids of the SMs: from here on

  explicit ClusterBench(std::uint32_t count = 2, const sm::SmParams& sm_params = {}, TimingMode mode = TimingMode::at,
                        std::uint32_t credits = 16, bool share_receivers = false)
      : params(sm_params),
        domain("domain", 1.0, mode, 0, observation),
        map(1 << 20, 5, 1),
        gpc("gpc", domain, count),
        network("network", domain, count, credits) {
    std::vector<std::vector<std::uint32_t>> ids(kGpc + 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      ids[kGpc].push_back(kFirstSm + i);
      const std::string name = "sm" + std::to_string(i);
      sm::SmContext place{protocol::SmId(kFirstSm + i), 100, protocol::GpcId(kGpc), protocol::SmInGpc(i), 1};
      place.share_receivers = share_receivers;
      sms.push_back(std::make_unique<sm::Sm>(name.c_str(), domain, name, params, place, FakeGpc::kDistance, 1, code,
                                             sm::MemoryView{map}));
      sm::Sm& sm = *sms.back();
      tmaus.push_back(std::make_unique<FakeTmau>(("tmau" + std::to_string(i)).c_str(), domain, sm));
      l2.push_back(std::make_unique<FakeL2>(("l2_" + std::to_string(i)).c_str(), domain, 1 << 20));
      gpc.start_out.bind(sm.start_in);
      gpc.abort_out.bind(sm.abort_in);
      gpc.entry_out.bind(sm.entry_in);
      gpc.order_out.bind(sm.order_in);
      sm.exit_out.bind(gpc.exit_in[i]);
      sm.notice_out.bind(gpc.notice_in[i]);
      sm.memory_out.bind(l2.back()->in);
      sm.dsmem_out.bind(network.request_in[i]);
      sm.reply_out.bind(network.reply_in[i]);
      network.request_out.bind(sm.dsmem_in);
      network.reply_out.bind(sm.reply_in);
      sm.on_fault([this](const arch::FaultRecord& fault) { faults.push_back(fault); });
    }
    observation.load_map.configure(kFirstSm + count, params.limits.warps);
    observation.clusters.configure(std::move(ids));
  }

  // A kernel of CGAs of that many CTAs.
  std::uint32_t add(ListProgram program, std::uint32_t threads, std::uint32_t shared, std::uint32_t ctas) {
    arch::KernelShape shape;
    shape.grid = {ctas * 4, 1, 1};
    shape.block = {threads, 1, 1};
    shape.shared_bytes = shared;
    if (ctas > 1) shape.cluster.of(arch::CgaLevel::gpc) = {ctas, 1, 1};
    shapes_.push_back(shape);
    return code.add(std::make_shared<ListProgram>(std::move(program)), shape);
  }
  // What starts one CTA of a CGA.
  protocol::CtaStartPacket packet(std::uint32_t number, std::uint32_t rank, std::uint32_t slot,
                                  std::uint32_t cga_id = kCga, std::uint64_t sequence = 1) {
    const arch::KernelShape& shape = shapes_[number - 1];
    protocol::CtaStartPacket start;
    start.tag.operation = 5;
    start.tag.cga_id = protocol::CgaId(cga_id);
    start.tag.sequence = sequence;
    start.cta_slot = protocol::CtaSlot(slot);
    start.id.cga_size =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, shape.cluster.of(arch::CgaLevel::gpc).count()));
    start.id.cga = sequence;
    start.id.rank = rank;
    start.id.index = sequence * start.id.cga_size + rank;
    start.id.cta = {static_cast<std::uint32_t>(start.id.index), 0, 0};
    start.need = arch::need_of(params.limits, shape);
    start.code = number;
    return start;
  }
  // Starts the CTAs of a CGA in the cycle; rank r runs on SM where[r], in CTA slot r.
  void launch(std::uint32_t number, const std::vector<std::uint32_t>& where, Cycle cycle = 0,
              std::uint32_t cga_id = kCga, std::uint64_t sequence = 1) {
    for (std::uint32_t rank = 0; rank < where.size(); ++rank) {
      gpc.start(cycle, where[rank], packet(number, rank, rank, cga_id, sequence));
    }
  }
  double stat(std::uint32_t sm, const std::string& name) const {
    return observation.stats.value("gpu0.sm" + std::to_string(sm) + "." + name);
  }
  // Nothing of any cluster is left anywhere.
  bool quiescent() const {
    bool quiet = network.packets == 0;
    for (const auto& sm : sms) quiet &= sm->quiescent();
    return quiet;
  }
  void run_to_end() {
    run_until_idle();
    CHECK(quiescent());
  }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  sm::SmParams params;
  Domain domain;
  arch::CodeStore code;
  arch::AddressMap map;
  FakeGpc gpc;
  FakeNetwork network;
  std::vector<std::unique_ptr<sm::Sm>> sms;
  std::vector<std::unique_ptr<FakeL2>> l2;
  std::vector<std::unique_ptr<FakeTmau>> tmaus;
  std::vector<arch::FaultRecord> faults;

 private:
  std::vector<arch::KernelShape> shapes_;
};

// Errors that targets send back are always the CGA's: no past pcs are kept (CGA-08).
inline sm::SmParams no_past_pcs() {
  sm::SmParams params;
  params.memory.pc_fifo = 0;
  return params;
}

// How DSMEM is accessed.
inline ListProgram::Access dsmem(std::uint8_t width = 4) {
  ListProgram::Access access;
  access.space = arch::Space::cluster;
  access.width = width;
  return access;
}
inline ListProgram::Access own_shared() {
  ListProgram::Access access;
  access.space = arch::Space::shared;
  return access;
}
// The address in the window of another CTA: (own rank + `next`) modulo the size of the CGA.
inline ListProgram::Address of_neighbour(std::uint32_t offset, std::uint32_t stride, std::uint32_t next = 1) {
  return [=](const Warp& warp, std::uint32_t lane) {
    const std::uint32_t rank = (warp.place.rank + next) % warp.place.cluster_size;
    return arch::dsmem_address(rank, offset + stride * lane);
  };
}

// The next `steps` steps are those of warps for which the condition holds.
template <class Condition>
void only_if(ListProgram& program, std::uint32_t steps, Condition condition) {
  program.branch(program.here() + 1 + steps, [=](const Warp& warp) { return !condition(warp); }, {});
}
inline auto rank_is(std::uint32_t rank) {
  return [rank](const Warp& warp) { return warp.place.rank == rank; };
}

}  // namespace heddle::test
