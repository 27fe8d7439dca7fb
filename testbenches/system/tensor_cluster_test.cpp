// Bulk requests of CTAs of a cluster on a whole machine: multicast, shared -> shared, and what is wrong with them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/cluster_lab.h"
#include "support/tensor_lab.h"

namespace system_tensor_cluster_test {

using namespace heddle::test;
namespace arch = heddle::arch;
using arch::BulkKind;
using arch::BulkRequest;
using arch::OpCode;
using arch::Space;
using arch::TensorRule;

namespace {

constexpr std::uint64_t kSource = 0x20000;
constexpr std::uint64_t kResults = 0x80000;
constexpr std::uint64_t kOut = 0x100000;
constexpr std::uint32_t kWindow = 16'384;
constexpr std::uint32_t kData = 1024;

struct Machine {
  explicit Machine(const std::vector<std::string>& sets = {}) : lab(preset_params("small", sets)) {
    for (std::uint32_t i = 0; i < 0x20000; i += 4) lab.write<std::uint32_t>(kSource + i, source_word(i));
  }
  static std::uint32_t source_word(std::uint64_t offset) { return mixed(offset, 3); }
  std::uint32_t out(std::uint64_t cta, std::uint32_t offset) {
    return lab.read<std::uint32_t>(kOut + kWindow * cta + offset - kData);
  }
  double l2_requests() const {
    double sum = 0;
    const auto json = lab.observation.stats.to_json();
    for (const auto& [path, stat] : json.items()) {
      if (path.find(".l2.slice") != std::string::npos && path.find(".requests") != std::string::npos) {
        sum += stat.at("value").get<double>();
      }
    }
    return sum;
  }

  SimFixture sim;
  GpuLab lab;
};

void show_window(ListProgram& p, std::uint32_t bytes) {
  copy_out(p, kData, bytes, [](const Warp& warp) { return kOut + kWindow * warp.place.cta; });
}

// Rank `by` loads `bytes` for the CTAs of the mask, each of which expects them at its barrier 0.
std::shared_ptr<ListProgram> multicast(std::uint32_t by, std::uint16_t mask, std::uint32_t bytes) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  cluster_barrier(p);
  const auto receives = [mask](const Warp& warp) { return (mask >> warp.place.rank & 1) != 0; };
  only_if(p, receives, [=](ListProgram& q) { q.mbarrier_arrive(Space::shared, 0, 1, bytes); });
  only_rank(p, by, [=](ListProgram& q) {
    bulk(q, OpCode::bulk_load, [=](const Warp& warp) {
      BulkRequest request =
          block_request(BulkKind::load, kSource + 4096 * (warp.place.cta / warp.place.cluster_size), bytes, kData, 0);
      request.multicast = mask;
      return request;
    });
  });
  only_if(p, receives, [=](ListProgram& q) { q.mbarrier_wait(0, 0); });
  show_window(p, bytes);
  cluster_barrier(p);
  p.exit();
  return program;
}

}  // namespace

TEST_CASE("a multicast load goes to memory once and comes to each receiver", "[system][TMA-30][TMA-31]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  const std::uint32_t by = GENERATE(0U, 3U);
  const std::uint16_t mask = GENERATE(std::uint16_t{0xF}, std::uint16_t{0x5}, std::uint16_t{0x2}, std::uint16_t{0x9});
  CAPTURE(mode, by, mask);
  constexpr std::uint32_t kBytes = 2048;
  Machine machine({"gpu.timing=" + mode});
  const double before = machine.l2_requests();
  machine.lab.run(multicast(by, mask, kBytes), {4, 1, 1}, {32, 1, 1}, kWindow, clusters_of(4));
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  // 16 lines are read, and each of the four CTAs shows 16 lines.
  CHECK(machine.l2_requests() - before == 16 + 4 * 16);
  for (std::uint32_t cta = 0; cta < 4; ++cta) {
    for (std::uint32_t i = 0; i < kBytes; i += 4) {
      const std::uint32_t expected = (mask >> cta & 1) != 0 ? Machine::source_word(i) : 0;
      if (machine.out(cta, kData + i) != expected) FAIL("CTA " << cta << ", offset " << i);
    }
  }
}

TEST_CASE("many clusters multicast at once", "[system][TMA-30][TMA-31]") {
  const std::vector<std::string> sets =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"gpu.tmau.sms=2"},
               std::vector<std::string>{"gpu.tmau.outstanding=2", "gpu.xbar.queue=1"},
               // SMs beyond the 32nd of a GPC, for masks of fewer bits.
               std::vector<std::string>{"gpu.shape=[40]"}, std::vector<std::string>{"gpu.shape=[40]", "gpu.timing=lt"},
               std::vector<std::string>{"gpu.shape=[40]", "gpu.timing=fast"},
               std::vector<std::string>{"gpu.tmau.sms=2", "gpu.timing=fast"});
  CAPTURE(sets);
  Machine machine(sets);
  // With most of its shared memory, a CTA has an SM for itself: all of them are used.
  const bool wide = !sets.empty() && sets[0] == "gpu.shape=[40]";
  machine.lab.run(multicast(1, 0xF, 2048), {64, 1, 1}, {32, 1, 1}, wide ? 128 * 1024 : kWindow, clusters_of(4));
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  if (wide) CHECK(machine.lab.stat("gpc0.tmau39.multicast.received") > 0);
  for (std::uint32_t cta = 0; cta < 64; ++cta) {
    for (std::uint32_t i = 0; i < 2048; i += 4) {
      if (machine.out(cta, kData + i) != Machine::source_word(4096 * (cta / 4) + i)) {
        FAIL("CTA " << cta << ", offset " << i);
      }
    }
  }
}

TEST_CASE("fills of a multicast box come to each receiver, and count for its barrier", "[system][TMA-30][TMA-40]") {
  Machine machine;
  arch::TensorDescriptor tensor;
  tensor.type = arch::TensorType::f16;
  tensor.fill = arch::Fill::nan;
  tensor.rank = 2;
  tensor.address = kSource;
  tensor.size = {64, 8, 1, 1, 1};
  tensor.stride = {0, 128, 0, 0, 0};
  tensor.box = {64, 8, 1, 1, 1};
  write_descriptor(machine.lab, 4096, tensor);
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 1024);
  cluster_barrier(p);
  only_rank(p, 0, [=](ListProgram& q) {
    bulk(q, OpCode::tensor_load, [=](const Warp&) {
      BulkRequest request = tensor_request(BulkKind::load, 4096, {16, 5, 0, 0, 0}, kData, 0);
      request.multicast = 3;
      return request;
    });
  });
  p.mbarrier_wait(0, 0);
  show_window(p, 1024);
  cluster_barrier(p);
  p.exit();
  machine.lab.run(program, {2, 1, 1}, {32, 1, 1}, kWindow, clusters_of(2));
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    for (std::uint32_t row = 0; row < 8; ++row) {
      for (std::uint32_t i = 0; i < 128; i += 4) {
        const bool inside = row < 3 && i < 96;
        const std::uint32_t expected = inside ? Machine::source_word(128 * (row + 5) + 32 + i) : 0x7FFF'7FFFU;
        if (machine.out(cta, kData + 128 * row + i) != expected) FAIL("CTA " << cta << ", row " << row << ", " << i);
      }
    }
  }
}

TEST_CASE("two receivers on one SM are an error that names the mode, or both get the data", "[system][TMA-30]") {
  const bool deliver = GENERATE(false, true);
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(deliver, mode);
  std::vector<std::string> sets{"gpu.sm.tensor_errors=report", "gpu.timing=" + mode};
  if (deliver) sets.emplace_back("gpu.tmau.share_receivers=true");
  Machine machine(sets);
  // Load balancing puts CTAs of a cluster together where the machine is small: 8 CTAs on a GPC of 4 SMs or so.
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 512);
  cluster_barrier(p);
  only_rank(p, 0, [=](ListProgram& q) {
    bulk(q, OpCode::bulk_load, [=](const Warp&) {
      BulkRequest request = block_request(BulkKind::load, kSource, 512, kData, 0);
      request.multicast = 0xFFFF;
      return request;
    });
    bulk_drain(q);
  });
  p.mbarrier_test(0, 0, 0);
  p.store(one_lane(Space::global), ListProgram::of_register(0),
          [](const Warp& warp, std::uint32_t) { return kResults + 4 * warp.place.cta; }, {{0, 1}});
  cluster_barrier(p);
  p.mbarrier_test(0, 0, 0);
  p.store(one_lane(Space::global), ListProgram::of_register(0),
          [](const Warp& warp, std::uint32_t) { return kResults + 4 * warp.place.cta; }, {{0, 1}});
  show_window(p, 512);
  cluster_barrier(p);
  p.exit();
  machine.lab.run(program, {16, 1, 1}, {32, 1, 1}, kWindow, clusters_of(16, arch::CgaMode::load_balancing));
  machine.lab.gpu.check_quiescent();
  if (deliver) {
    CHECK(machine.lab.gpu.log().faults().empty());
  } else {
    REQUIRE(machine.lab.gpu.log().faults().size() == 1);
    CHECK(machine.lab.gpu.log().faults()[0].rule == TensorRule::receivers_share_sm);
    CHECK(arch::text_of(machine.lab.gpu.log().faults()[0]).find("multicast") != std::string::npos);
  }
  for (std::uint32_t cta = 0; cta < 16; ++cta) {
    CAPTURE(cta);
    CHECK(machine.lab.read<std::uint32_t>(kResults + 4 * cta) == (deliver ? 1 : 0));
    for (std::uint32_t i = 0; i < 512; i += 4) {
      if (machine.out(cta, kData + i) != (deliver ? Machine::source_word(i) : 0)) FAIL("offset " << i);
    }
  }
}

TEST_CASE("a load for another CTA, and an mbarrier elsewhere", "[system][TMA-30][TMA-06]") {
  Machine machine({"gpu.sm.tensor_errors=report"});
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 512);
  cluster_barrier(p);
  only_rank(p, 0, [=](ListProgram& q) {
    bulk(q, OpCode::bulk_load, [=](const Warp&) {
      BulkRequest request = block_request(BulkKind::load, kSource, 512, kData, 0);
      request.data_cta = request.barrier_cta = 1;
      return request;
    });
    bulk(q, OpCode::bulk_load, [=](const Warp&) {
      BulkRequest request = block_request(BulkKind::load, kSource, 512, kData, 0);
      request.data_cta = 1;
      request.barrier_cta = 0;
      return request;
    });
    bulk_drain(q);
  });
  only_rank(p, 1, [](ListProgram& q) { q.mbarrier_wait(0, 0); });
  show_window(p, 512);
  cluster_barrier(p);
  p.exit();
  machine.lab.run(program, {2, 1, 1}, {32, 1, 1}, kWindow, clusters_of(2));
  machine.lab.gpu.check_quiescent();
  REQUIRE(machine.lab.gpu.log().faults().size() == 1);
  CHECK(machine.lab.gpu.log().faults()[0].rule == TensorRule::barrier_cta);
  for (std::uint32_t i = 0; i < 512; i += 4) {
    CHECK(machine.out(1, kData + i) == Machine::source_word(i));
    CHECK(machine.out(0, kData + i) == 0);
  }
}

TEST_CASE("a multicast into a CTA that has exited is an error of the CGA", "[system][TMA-30][CGA-08]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  Machine machine({"gpu.timing=" + mode});
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  cluster_barrier(p);
  only_rank(p, 0, [](ListProgram& q) {
    q.mbarrier_arrive(Space::shared, 0, 1, 512);
    q.compute(arch::Unit::fp32, 20'000);
    bulk(q, OpCode::bulk_load, [](const Warp&) {
      BulkRequest request = block_request(BulkKind::load, kSource, 512, kData, 0);
      request.multicast = 3;
      return request;
    });
    q.mbarrier_wait(0, 0);
    bulk_drain(q);
  });
  p.exit();
  machine.lab.run(program, {2, 1, 1}, {32, 1, 1}, kWindow, clusters_of(2));
  machine.lab.gpu.check_quiescent();
  REQUIRE_FALSE(machine.lab.gpu.log().faults().empty());
  const arch::FaultRecord& fault = machine.lab.gpu.log().faults()[0];
  CHECK(fault.kind == arch::FaultKind::cta_not_present);
  CHECK(fault.of_cga);
  CHECK(fault.target == 1);
}

TEST_CASE("blocks go from shared memory to shared memory of the cluster", "[system][TMA-01][TMA-07]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  const bool reduces = GENERATE(false, true);
  CAPTURE(mode, reduces);
  constexpr std::uint32_t kBytes = 1024 + 48;
  constexpr std::uint32_t kCtas = 4;
  Machine machine({"gpu.timing=" + mode});
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  // Each CTA sends its block to the next one, and to itself; the second half of the window takes them.
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 2 * kBytes);
  copy_in(p, kData, kBytes, [](const Warp& warp) { return kSource + 4096 * warp.place.cta; });
  cluster_barrier(p);
  for (const std::uint32_t step : {1U, 0U}) {
    bulk(p, OpCode::bulk_send, [=](const Warp& warp) {
      BulkRequest request;
      request.kind = BulkKind::send;
      request.blocks = kBytes / arch::kBulkBlock;
      request.shared = kData;
      request.destination = kData + 4096 + (reduces ? 0 : 2048 * step) + 16;
      request.barrier = 0;
      request.data_cta = request.barrier_cta = (warp.place.rank + step) % kCtas;
      request.reduces = reduces;
      request.reduction = arch::AtomicKind::add;
      request.type = arch::ValueType::u32;
      return request;
    });
  }
  bulk_commit(p);
  bulk_wait(p, 0);
  p.mbarrier_wait(0, 0);
  show_window(p, 10'240);
  cluster_barrier(p);
  p.exit();
  machine.lab.run(program, {kCtas, 1, 1}, {32, 1, 1}, kWindow, clusters_of(kCtas));
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t cta = 0; cta < kCtas; ++cta) {
    const std::uint32_t before = (cta + kCtas - 1) % kCtas;
    for (std::uint32_t i = 0; i < kBytes; i += 4) {
      const std::uint32_t own = Machine::source_word(4096 * cta + i);
      const std::uint32_t sent = Machine::source_word(4096 * before + i);
      const std::uint32_t at = kData + 4096 + 16 + i;
      if (reduces) {
        if (machine.out(cta, at) != own + sent) FAIL("CTA " << cta << ", offset " << i);
      } else {
        if (machine.out(cta, at) != own || machine.out(cta, at + 2048) != sent) FAIL("CTA " << cta << ", " << i);
      }
    }
  }
}

TEST_CASE("a block of the CGA's linear memory", "[system][TMA-01][CWD-22]") {
  Machine machine;
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.special(arch::SpecialRegister::cga_memory, 0, 2);
  const auto pool = [](const Warp& warp) { return warp.reg(0, 0) | std::uint64_t{warp.reg(1, 0)} << 32; };
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 512);
  only_rank(p, 0, [=](ListProgram& q) {
    bulk(q, OpCode::bulk_copy,
         [=](const Warp& warp) {
           BulkRequest request;
           request.kind = BulkKind::copy;
           request.global = kSource + 16;
           request.to = pool(warp);
           request.blocks = 512 / arch::kBulkBlock;
           return request;
         },
         {{0, 2}});
    bulk_commit(q);
    bulk_wait(q, 0);
  });
  cluster_barrier(p);
  bulk(p, OpCode::bulk_load, [=](const Warp& warp) { return block_request(BulkKind::load, pool(warp), 512, kData, 0); },
       {{0, 2}});
  p.mbarrier_wait(0, 0);
  show_window(p, 512);
  cluster_barrier(p);
  p.exit();
  heddle::protocol::SubmitPacket packet =
      machine.lab.packet(program, {2, 1, 1}, {32, 1, 1}, kWindow, 0, clusters_of(2));
  packet.kernel.cluster.linear_memory = true;
  machine.lab.submit(packet);
  run_until_idle();
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    for (std::uint32_t i = 0; i < 512; i += 4) CHECK(machine.out(cta, kData + i) == Machine::source_word(16 + i));
  }
}

}  // namespace system_tensor_cluster_test
