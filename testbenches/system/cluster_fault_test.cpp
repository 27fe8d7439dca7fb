// What goes wrong between the CTAs of a cluster, on whole machines (CGA-07 to CGA-09, CGA-14).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/cluster_lab.h"

namespace system_cluster_fault_test {

using namespace heddle::test;
using heddle::arch::dsmem_address;
using heddle::arch::FaultKind;
using heddle::arch::FaultRecord;
using heddle::arch::kNoRegister;
using heddle::arch::OpCode;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::protocol::DoneStatus;

namespace {

constexpr std::uint32_t kShared = 1024;

struct Outcome {
  std::vector<FaultRecord> faults;
  DoneStatus status = DoneStatus::ok;
  DoneStatus bystander = DoneStatus::faulted;
};

// Clusters of four; a kernel beside it must not notice.
Outcome run(const std::shared_ptr<ListProgram>& program, const std::vector<std::string>& sets = {},
            std::uint32_t ctas = 4) {
  SimFixture sim;
  // No past pcs are kept: what comes back is the CGA's (CGA-08).
  std::vector<std::string> all = sets;
  all.emplace_back("gpu.sm.memory.pc_fifo=0");
  GpuLab lab(preset_params("small", all));
  auto innocent = std::make_shared<ListProgram>(1);
  cluster_barrier(*innocent);
  innocent->compute(Unit::fp32, 2000);
  cluster_barrier(*innocent);
  innocent->exit();
  const std::uint32_t bad = lab.submit(lab.packet(program, {ctas, 1, 1}, {32, 1, 1}, kShared, 0, clusters_of(4)));
  const std::uint32_t good = lab.submit(lab.packet(innocent, {4, 1, 1}, {64, 1, 1}, 0, 1, clusters_of(2)));
  run_until_idle();
  lab.gpu.check_quiescent();
  return {lab.gpu.log().faults(), lab.host.results.at(bad).status, lab.host.results.at(good).status};
}

std::shared_ptr<ListProgram> program_of(const std::function<void(ListProgram&)>& body) {
  auto program = std::make_shared<ListProgram>(4);
  body(*program);
  program->exit();
  return program;
}

// Rank 0 does it once the others are there, and they stay; or leave first.
std::shared_ptr<ListProgram> crime(const std::function<void(ListProgram&)>& body, bool others_leave = false) {
  return program_of([&](ListProgram& p) {
    cluster_barrier(p);
    only_rank(p, 0, [&](ListProgram& q) {
      if (others_leave) q.compute(Unit::fp32, 4000);
      body(q);
    });
    if (!others_leave) cluster_barrier(p);
  });
}

void check_attributed(const Outcome& outcome, FaultKind kind, std::uint32_t target) {
  REQUIRE(outcome.faults.size() == 1);
  const FaultRecord& fault = outcome.faults.front();
  CHECK(fault.kind == kind);
  CHECK(fault.of_cga);
  CHECK(fault.cta_id_in_cga == 0);
  CHECK(fault.cga == 0);
  CHECK(fault.gpc_local_cga_id < 256);
  CHECK(fault.target == target);
  CHECK(outcome.status == DoneStatus::faulted);
  CHECK(outcome.bystander == DoneStatus::ok);
}

void check_at_issue(const Outcome& outcome, FaultKind kind, OpCode code, std::uint32_t lane) {
  REQUIRE(outcome.faults.size() == 1);
  const FaultRecord& fault = outcome.faults.front();
  CHECK(fault.kind == kind);
  CHECK_FALSE(fault.of_cga);
  CHECK(fault.operation == code);
  CHECK(fault.lane == lane);
  CHECK(fault.warp == 0);
  CHECK(outcome.status == DoneStatus::faulted);
  CHECK(outcome.bystander == DoneStatus::ok);
}

ListProgram::Address at(std::uint32_t rank, std::uint32_t offset, std::uint32_t stride = 0) {
  return [=](const Warp&, std::uint32_t lane) { return dsmem_address(rank, offset + stride * lane); };
}

}  // namespace

TEST_CASE("a load from a CTA that has exited is an error of the CGA", "[system][CGA-08]") {
  const std::string timing = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(timing);
  const auto program = crime([](ListProgram& p) { p.load(access_to(Space::cluster), 0, at(2, 0, 4)); }, true);
  check_attributed(run(program, {"gpu.timing=" + timing}), FaultKind::cta_not_present, 2);
}

TEST_CASE("a store to a CTA that has exited is an error while the CGA lives, and dropped when it has exited",
          "[system][CGA-08][CGA-11]") {
  const auto store = [](ListProgram& p) { p.store(access_to(Space::cluster), ListProgram::constant(1), at(3, 0, 4)); };
  SECTION("it lives") { check_attributed(run(crime(store, true)), FaultKind::cta_not_present, 3); }
  // The last CTA of its CGA writes and leaves.
  const auto farewell = program_of([&](ListProgram& p) {
    cluster_barrier(p);
    only_rank(p, 0, [&](ListProgram& q) {
      q.compute(Unit::fp32, 4000);
      store(q);
    });
  });
  SECTION("it has exited") {
    SimFixture sim;
    GpuLab lab(preset_params("small", {"gpu.gpc.exit_permission=at_once"}));
    const std::uint32_t operation = lab.run(farewell, {4, 1, 1}, {32, 1, 1}, kShared, clusters_of(4));
    CHECK(lab.gpu.log().faults().empty());
    CHECK(lab.host.results.at(operation).status == DoneStatus::ok);
    double dropped = 0;
    const auto stats = lab.observation.stats.to_json();
    for (const auto& [path, stat] : stats.items()) {
      if (path.find("dropped") != std::string::npos && path.find(".sm") != std::string::npos) {
        dropped += stat.at("value").get<double>();
      }
    }
    CHECK(dropped == 1);
    lab.gpu.check_quiescent();
  }
  // A CTA that may not leave before its writes have been answered still is there for the error.
  SECTION("it waits for permission") {
    check_attributed(run(farewell, {"gpu.gpc.exit_permission=drained"}), FaultKind::cta_not_present, 3);
  }
  // Its writer has gone, and another CTA of the CGA has not.
  SECTION("only the writer has exited") {
    const auto program = program_of([&](ListProgram& p) {
      cluster_barrier(p);
      only_rank(p, 0, [&](ListProgram& q) {
        q.compute(Unit::fp32, 4000);
        store(q);
      });
      only_rank(p, 1, [](ListProgram& q) { q.compute(Unit::fp32, 50'000); });
    });
    check_attributed(run(program, {"gpu.gpc.exit_permission=at_once"}), FaultKind::cta_not_present, 3);
  }
}

TEST_CASE("a CTA id beyond the cluster is seen by the source", "[system][CGA-07]") {
  for (const std::uint32_t rank : {4U, 5U, 31U, 32U, 255U}) {
    CAPTURE(rank);
    check_at_issue(run(crime([=](ListProgram& p) { p.load(one_lane(Space::cluster), 0, at(rank, 0)); })),
                   FaultKind::cluster_rank, OpCode::load, 0);
  }
}

TEST_CASE("an offset above the largest shared memory is seen by the source, one beyond the window by the target",
          "[system][CGA-07][CGA-08]") {
  const std::uint32_t largest = preset_params("small").sm.limits.max_shared_per_cta;
  const auto store_at = [](std::uint32_t offset) {
    return crime(
        [=](ListProgram& p) { p.store(access_to(Space::cluster), ListProgram::constant(1), at(1, offset, 4)); });
  };
  check_at_issue(run(store_at(largest - 4 * 7)), FaultKind::cluster_offset, OpCode::store, 7);
  check_attributed(run(store_at(kShared - 4 * 31)), FaultKind::out_of_range, 1);
  check_attributed(run(store_at(largest - 4 * 32)), FaultKind::out_of_range, 1);
  CHECK(run(store_at(kShared - 4 * 32)).faults.empty());
}

TEST_CASE("an access to a CTA that has not been launched yet is seen by the source", "[system][CGA-07]") {
  // The CTAs of a TPC that has one MPC start one after another, far apart.
  const auto hasty = program_of([](ListProgram& p) {
    only_rank(p, 0, [](ListProgram& q) { q.store(one_lane(Space::cluster), ListProgram::constant(1), at(1, 0)); });
  });
  check_at_issue(run(hasty, {"gpu.gpc.raster_cycles=3000", "gpu.gpc.mpc=tpc"}), FaultKind::cluster_absent,
                 OpCode::store, 0);
}

TEST_CASE("a part of the window that was given back is out of range, for others and for its owner",
          "[system][CGA-08][CGA-09]") {
  const auto released = [](bool local, std::uint32_t offset) {
    return program_of([=](ListProgram& p) {
      only_rank(p, 1, [](ListProgram& q) { q.release_shared(512); });
      cluster_barrier(p);
      only_rank(p, local ? 1 : 0, [=](ListProgram& q) {
        q.load(local ? one_lane(Space::shared) : one_lane(Space::cluster), 0,
               local ? ListProgram::constant(offset) : at(1, offset));
        q.compute(Unit::int32, 1, {{0, 1}});
      });
      cluster_barrier(p);
    });
  };
  CHECK(run(released(false, 508)).faults.empty());
  CHECK(run(released(true, 508)).faults.empty());
  check_attributed(run(released(false, 512)), FaultKind::out_of_range, 1);
  const Outcome own = run(released(true, 512));
  REQUIRE(own.faults.size() == 1);
  CHECK(own.faults.front().kind == FaultKind::shared_bounds);
  CHECK(own.faults.front().cta_id_in_cga == 1);
}

TEST_CASE("a remote arrival before init is a fault of the CTA that arrives", "[system][CGA-14]") {
  const auto arrive = [](std::uint32_t count, std::uint32_t bytes) {
    return crime([=](ListProgram& p) { p.mbarrier_arrive(Space::cluster, dsmem_address(1, 64), count, bytes); });
  };
  check_attributed(run(arrive(1, 0)), FaultKind::mbarrier, 1);
  // Initialised, and then one arrival too many, or bytes beyond the range.
  const auto prepared = [&](const std::function<void(ListProgram&)>& body) {
    return program_of([&](ListProgram& p) {
      only_rank(p, 1, [](ListProgram& q) { q.mbarrier_init(64, 2); });
      cluster_barrier(p);
      only_rank(p, 0, body);
      cluster_barrier(p);
    });
  };
  CHECK(run(prepared([&](ListProgram& p) {
          p.mbarrier_arrive(Space::cluster, dsmem_address(1, 64), 2);
        })).faults.empty());
  check_attributed(run(prepared([&](ListProgram& p) { p.mbarrier_arrive(Space::cluster, dsmem_address(1, 64), 3); })),
                   FaultKind::mbarrier, 1);
  check_attributed(
      run(prepared([&](ListProgram& p) { p.mbarrier_expect(Space::cluster, dsmem_address(1, 64), 1U << 20); })),
      FaultKind::mbarrier, 1);
}

TEST_CASE("data that come before they are expected complete no phase", "[system][CGA-14]") {
  const std::string timing = GENERATE(as<std::string>{}, "at", "fast", "lt");
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing}));
  constexpr std::uint64_t kOut = 0x40000;
  const auto program = program_of([](ListProgram& p) {
    only_rank(p, 1, [](ListProgram& q) { q.mbarrier_init(64, 1); });
    cluster_barrier(p);
    // 128 bytes come at once; they are expected much later, by the consumer's own arrival.
    only_rank(p, 0, [](ListProgram& q) {
      q.store(
          access_to(Space::cluster), [](const Warp&, std::uint32_t lane) { return 7 + lane; }, at(1, 128, 4));
      q.mbarrier_complete(Space::cluster, dsmem_address(1, 64), 128);
    });
    only_rank(p, 1, [](ListProgram& q) {
      q.compute(Unit::fp32, 3000);
      q.mbarrier_test(64, 0, 0);  // not yet: nobody has arrived
      q.mbarrier_arrive(Space::shared, 64, 1, 128);
      q.mbarrier_wait(64, 0);
      q.mbarrier_test(64, 0, 1);
      q.load(access_to(Space::shared), 2, ListProgram::linear(128, 4));
      q.store(one_lane(Space::global), ListProgram::of_register(0), ListProgram::constant(kOut), {{0, 1}});
      q.store(one_lane(Space::global), ListProgram::of_register(1), ListProgram::constant(kOut + 4), {{1, 1}});
      q.store(access_to(Space::global), ListProgram::of_register(2), ListProgram::linear(kOut + 128, 4), {{2, 1}});
    });
    cluster_barrier(p);
  });
  lab.run(program, {2, 1, 1}, {32, 1, 1}, kShared, clusters_of(2));
  CHECK(lab.gpu.log().faults().empty());
  CHECK(lab.read<std::uint32_t>(kOut) == 0);
  CHECK(lab.read<std::uint32_t>(kOut + 4) == 1);
  for (std::uint32_t lane = 0; lane < 32; ++lane) CHECK(lab.read<std::uint32_t>(kOut + 128 + 4 * lane) == 7 + lane);
  lab.gpu.check_quiescent();
}

}  // namespace system_cluster_fault_test
