// Groups, drains, prefetches, descriptors that change, ends of CTAs and resets, on a whole machine.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/cluster_lab.h"
#include "support/tensor_lab.h"

namespace system_tensor_order_test {

using namespace heddle::test;
namespace arch = heddle::arch;
using arch::BulkKind;
using arch::BulkRequest;
using arch::OpCode;
using arch::Space;

namespace {

constexpr std::uint64_t kDescriptor = 4096;
constexpr std::uint64_t kSource = 0x20000;
constexpr std::uint64_t kResults = 0x80000;
constexpr std::uint64_t kOut = 0x100000;
constexpr std::uint32_t kWindow = 32'768;
constexpr std::uint32_t kData = 1024;

std::uint32_t source_word(std::uint64_t offset) { return mixed(offset, 5); }

struct Machine {
  explicit Machine(const std::vector<std::string>& sets = {}) : lab(preset_params("small", sets)) {
    for (std::uint32_t i = 0; i < 0x10000; i += 4) lab.write<std::uint32_t>(kSource + i, source_word(i));
  }
  double total(const std::string& ending) const {
    double sum = 0;
    const auto json = lab.observation.stats.to_json();
    for (const auto& [path, stat] : json.items()) {
      const bool ends =
          path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
      if (ends && stat.contains("value")) sum += stat.at("value").get<double>();
    }
    return sum;
  }
  SimFixture sim;
  GpuLab lab;
};

arch::TensorDescriptor rows_at(std::uint64_t address) {
  arch::TensorDescriptor tensor;
  tensor.type = arch::TensorType::u32;
  tensor.rank = 2;
  tensor.address = address;
  tensor.size = {32, 64, 1, 1, 1};
  tensor.stride = {0, 128, 0, 0, 0};
  tensor.box = {32, 4, 1, 1, 1};
  return tensor;
}

void note_clock(ListProgram& p, std::uint16_t to, ListProgram::Reads after = {}) {
  p.step({OpCode::special, arch::Unit::none, std::move(after), {{to, 1}}, {}},
         [to](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
           operation.special = arch::SpecialRegister::clock;
           operation.destination = to;
         });
}

}  // namespace

TEST_CASE("a store's source may be overwritten once it has been read, before the store is complete",
          "[system][TMA-41]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  Machine machine({"gpu.timing=" + mode});
  auto program = std::make_shared<ListProgram>(12);
  ListProgram& p = *program;
  copy_in(p, kData, 16'384, [](const Warp&) { return kSource; });
  bulk(p, OpCode::bulk_store, [](const Warp&) { return block_request(BulkKind::store, kOut, 16'384, kData); });
  bulk_commit(p);
  note_clock(p, 8);
  bulk_wait(p, 0, true);
  note_clock(p, 9);
  copy_in(p, kData, 16'384, [](const Warp&) { return kSource + 0x8000; });
  bulk_wait(p, 0);
  note_clock(p, 10);
  for (std::uint16_t i = 0; i < 3; ++i) {
    const auto reg = static_cast<std::uint16_t>(8 + i);
    p.store(one_lane(Space::global), ListProgram::of_register(reg), ListProgram::linear(kResults + 4 * i, 0),
            {{reg, 1}});
  }
  p.exit();
  machine.lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  const auto clock = [&](std::uint32_t i) { return machine.lab.read<std::uint32_t>(kResults + 4 * i); };
  if (mode == "at") {
    CHECK(clock(1) - clock(0) >= 128);  // a line per cycle at most
    CHECK(clock(2) > clock(1));
  }
  for (std::uint32_t i = 0; i < 16'384; i += 4) {
    if (machine.lab.read<std::uint32_t>(kOut + i) != source_word(i)) FAIL("offset " << i);
  }
}

TEST_CASE("groups complete one after the other", "[system][TMA-41]") {
  Machine machine;
  auto program = std::make_shared<ListProgram>(12);
  ListProgram& p = *program;
  copy_in(p, kData, 16'384, [](const Warp&) { return kSource; });
  // Three groups; the last is large. The first two are visible once at most one is open.
  for (const std::uint32_t part : {0U, 1U, 2U}) {
    bulk(p, OpCode::bulk_store, [part](const Warp&) {
      return block_request(BulkKind::store, kOut + 1024 * part, part == 2 ? 14'336 : 1024, kData + 1024 * part);
    });
    bulk_commit(p);
  }
  bulk_wait(p, 1);
  ListProgram::Access strong;
  strong.order = arch::Order::relaxed;
  p.load(strong, 4, ListProgram::linear(kOut, 4));
  p.load(strong, 5, ListProgram::linear(kOut + 1024, 4));
  p.store({}, ListProgram::of_register(4), ListProgram::linear(kResults, 4), {{4, 1}});
  p.store({}, ListProgram::of_register(5), ListProgram::linear(kResults + 128, 4), {{5, 1}});
  bulk_wait(p, 0);
  p.exit();
  machine.lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(machine.lab.read<std::uint32_t>(kResults + 4 * lane) == source_word(4 * lane));
    CHECK(machine.lab.read<std::uint32_t>(kResults + 128 + 4 * lane) == source_word(1024 + 4 * lane));
  }
  machine.lab.gpu.check_quiescent();
}

TEST_CASE("a drain waits for all earlier requests of the SM", "[system][TMA-31][TMA-41]") {
  Machine machine;
  auto program = std::make_shared<ListProgram>(8);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, 16'384);
  cluster_barrier(p);
  bulk(p, OpCode::bulk_load, [](const Warp& warp) {
    BulkRequest request =
        block_request(BulkKind::load, kSource + 8192 * warp.place.rank, 8192, kData + 8192 * warp.place.rank, 0);
    request.multicast = 3;
    return request;
  });
  bulk_drain(p);
  cluster_barrier(p);  // both have drained: everything is there, without a look at the mbarrier
  p.mbarrier_test(0, 0, 4);
  p.store(one_lane(Space::global), ListProgram::of_register(4),
          [](const Warp& warp, std::uint32_t) { return kResults + 4 * warp.place.cta; }, {{4, 1}});
  copy_out(p, kData, 16'384, [](const Warp& warp) { return kOut + kWindow * warp.place.cta; });
  cluster_barrier(p);
  p.exit();
  machine.lab.run(program, {2, 1, 1}, {32, 1, 1}, kWindow, clusters_of(2));
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    CHECK(machine.lab.read<std::uint32_t>(kResults + 4 * cta) == 1);
    for (std::uint32_t i = 0; i < 16'384; i += 4) {
      if (machine.lab.read<std::uint32_t>(kOut + kWindow * cta + i) != source_word(i)) FAIL(cta << ", " << i);
    }
  }
}

TEST_CASE("a prefetch brings a box into the L2", "[system][TMA-42]") {
  const bool tensor = GENERATE(false, true);
  const std::string unit = GENERATE(as<std::string>{}, "line", "sector");
  CAPTURE(tensor, unit);
  Machine machine({"gpu.tmau.prefetch=" + unit});
  write_descriptor(machine.lab, kDescriptor, rows_at(kSource));
  auto program = std::make_shared<ListProgram>(12);
  ListProgram& p = *program;
  // Both boxes are loaded; one of them was prefetched.
  p.mbarrier_init(0, 1);
  bulk(p, tensor ? OpCode::tensor_prefetch : OpCode::bulk_prefetch, [tensor](const Warp&) {
    return tensor ? tensor_request(BulkKind::prefetch, kDescriptor, {0, 8, 0, 0, 0}, 0)
                  : block_request(BulkKind::prefetch, kSource + 1024, 512, 0);
  });
  p.compute(arch::Unit::fp32, 4000);
  note_clock(p, 8);
  for (const std::uint32_t turn : {0U, 1U}) {
    p.mbarrier_arrive(Space::shared, 0, 1, 512);
    bulk(p, OpCode::bulk_load, [turn](const Warp&) {
      return block_request(BulkKind::load, kSource + (turn == 0 ? 1024 : 8192), 512, kData, 0);
    });
    p.mbarrier_wait(0, turn);
    note_clock(p, static_cast<std::uint16_t>(9 + turn));
  }
  for (std::uint16_t i = 0; i < 3; ++i) {
    const auto reg = static_cast<std::uint16_t>(8 + i);
    p.store(one_lane(Space::global), ListProgram::of_register(reg), ListProgram::linear(kResults + 4 * i, 0),
            {{reg, 1}});
  }
  p.exit();
  machine.lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  const auto clock = [&](std::uint32_t i) { return machine.lab.read<std::uint32_t>(kResults + 4 * i); };
  INFO("clocks " << clock(0) << " " << clock(1) << " " << clock(2) << " fills " << machine.total(".fills") << " hits "
                 << machine.total(".hits") << " lines " << machine.total(".lines"));
  CHECK(clock(1) - clock(0) + 100 < clock(2) - clock(1));
}

TEST_CASE("a descriptor that has been written is fetched anew after a fence", "[system][TMA-04]") {
  const bool fence = GENERATE(false, true);
  CAPTURE(fence);
  Machine machine;
  write_descriptor(machine.lab, kDescriptor, rows_at(kSource));
  write_descriptor(machine.lab, kDescriptor + 128, rows_at(kSource + 4096));
  auto program = std::make_shared<ListProgram>(12);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  const auto load = [&](std::uint32_t turn) {
    p.mbarrier_arrive(Space::shared, 0, 1, 512);
    bulk(p, OpCode::tensor_load, [turn](const Warp&) {
      return tensor_request(BulkKind::load, kDescriptor, {0, 0, 0, 0, 0}, kData + 1024 * turn, 0);
    });
    p.mbarrier_wait(0, turn % 2);
  };
  load(0);
  // The kernel itself writes another descriptor over it, 4 bytes per lane.
  p.load({}, 4, ListProgram::linear(kDescriptor + 128, 4));
  p.store({}, ListProgram::of_register(4), ListProgram::linear(kDescriptor, 4), {{4, 1}});
  p.fence(arch::Order::release, arch::Scope::gpu);
  if (fence) tensor_fence(p, kDescriptor);
  load(1);
  copy_out(p, kData, 2048, [](const Warp&) { return kOut; });
  p.exit();
  machine.lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  CHECK(machine.lab.read<std::uint32_t>(kOut) == source_word(0));
  CHECK(machine.lab.read<std::uint32_t>(kOut + 1024) == source_word(fence ? 4096 : 0));
}

TEST_CASE("a CTA ends when its last request has", "[system][TMA-02]") {
  Machine machine;
  auto program = std::make_shared<ListProgram>(8);
  copy_in(*program, kData, 16'384, [](const Warp&) { return kSource; });
  bulk(*program, OpCode::bulk_store,
       [](const Warp& warp) { return block_request(BulkKind::store, kOut + 16'384 * warp.place.cta, 16'384, kData); });
  program->exit();  // without a wait
  machine.lab.run(program, {40, 1, 1}, {32, 1, 1}, kWindow);
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t i = 0; i < 40 * 16'384; i += 4) {
    if (machine.lab.read<std::uint32_t>(kOut + i) != source_word(i % 16'384)) FAIL("offset " << i);
  }
}

TEST_CASE("blocks of any length and place are copied in device memory", "[system][TMA-01]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  Machine machine({"gpu.timing=" + mode});
  auto program = std::make_shared<ListProgram>(4);
  const auto from = [](std::uint64_t cta) { return kSource + 16 * (cta % 9) + 1024 * (cta % 7); };
  const auto to = [](std::uint64_t cta) { return kOut + 4096 * cta + 16 * (cta % 5); };
  const auto blocks = [](std::uint64_t cta) { return cta * 3 % 130; };
  bulk(*program, OpCode::bulk_copy, [=](const Warp& warp) {
    BulkRequest request;
    request.kind = BulkKind::copy;
    request.global = from(warp.place.cta);
    request.to = to(warp.place.cta);
    request.blocks = blocks(warp.place.cta);
    return request;
  });
  bulk_commit(*program);
  bulk_wait(*program, 0);
  program->exit();
  machine.lab.run(program, {100, 1, 1}, {32, 1, 1});
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint64_t cta = 0; cta < 100; ++cta) {
    CAPTURE(cta);
    const std::uint64_t bytes = 16 * blocks(cta);
    for (std::uint64_t i = 0; i < bytes; i += 4) {
      if (machine.lab.read<std::uint32_t>(to(cta) + i) != source_word(from(cta) - kSource + i)) FAIL("offset " << i);
    }
    CHECK(machine.lab.read<std::uint32_t>(to(cta) + bytes) == 0);
  }
}

TEST_CASE("a machine that is reset in the middle of bulk requests starts anew", "[system][TMA-02]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast");
  CAPTURE(mode);
  Machine machine({"gpu.timing=" + mode});
  auto program = std::make_shared<ListProgram>(8);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  cluster_barrier(p);
  const std::size_t loop = p.loop(50);
  p.mbarrier_arrive(Space::shared, 0, 1, 16'384);
  cluster_barrier(p);
  bulk(p, OpCode::bulk_load, [](const Warp& warp) {
    BulkRequest request =
        block_request(BulkKind::load, kSource + 8192 * warp.place.rank, 8192, kData + 8192 * warp.place.rank, 0);
    request.multicast = 3;
    return request;
  });
  bulk(p, OpCode::bulk_store,
       [](const Warp& warp) { return block_request(BulkKind::store, kOut + 16'384 * warp.place.cta, 16'384, kData); });
  p.mbarrier_wait(0, [loop](const Warp& warp, std::uint32_t) { return warp.count(loop) % 2; });
  p.end_loop();
  bulk_drain(p);
  cluster_barrier(p);
  p.exit();
  const auto packet = machine.lab.packet(program, {16, 1, 1}, {32, 1, 1}, kWindow, 0, clusters_of(2));
  for (const std::uint32_t microseconds : {2U, 3U, 5U}) {
    machine.lab.submit(packet);
    sc_core::sc_start(sc_core::sc_time(microseconds, sc_core::SC_US));
    machine.lab.gpu.reset();
    run_until_idle();
    machine.lab.gpu.check_quiescent();
  }
  machine.lab.submit(packet);
  run_until_idle();
  CHECK(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  for (std::uint32_t i = 0; i < 16'384; i += 4) {
    if (machine.lab.read<std::uint32_t>(kOut + i) != source_word(i)) FAIL("offset " << i);
  }
}

}  // namespace system_tensor_order_test
