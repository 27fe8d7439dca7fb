// Faults on a whole machine: the record, the end of the task, and that nothing else is touched (MEM-05).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/gpu_lab.h"

namespace system_device_fault_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::FaultKind;
using heddle::arch::FaultRecord;
using heddle::arch::kNoRegister;
using heddle::arch::OpCode;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::protocol::DoneStatus;

namespace {

constexpr std::uint64_t kBytes = 1ULL << 30;  // of the preset
constexpr std::uint64_t kOut = 0x40000;

// Every thread writes its number; the CTA `guilty` does `crime` first, in warp 1.
std::shared_ptr<ListProgram> program_with(std::uint64_t guilty, const std::function<void(ListProgram&)>& crime,
                                          std::uint32_t crime_steps = 1) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.compute(Unit::fp32, 50);
  p.branch(p.here() + 1 + crime_steps,
           [guilty](const Warp& warp) { return warp.place.cta != guilty || warp.place.warp != 1; }, {});
  const std::uint32_t before = p.here();
  crime(p);
  HEDDLE_CHECK(p.here() == before + crime_steps, "the crime has another length");
  p.store(
      {}, [](const Warp& warp, std::uint32_t lane) { return warp.global_thread(lane) + 1; },
      [](const Warp& warp, std::uint32_t lane) { return kOut + 4 * warp.global_thread(lane); });
  p.exit();
  return program;
}

struct Case {
  const char* name;
  FaultKind kind;
  OpCode operation;
  std::uint32_t lane;
  std::uint64_t address;
  std::function<void(ListProgram&)> crime;
};

std::vector<Case> cases() {
  const auto access = [](std::uint8_t width, Space space = Space::global) {
    ListProgram::Access result;
    result.width = width;
    result.space = space;
    return result;
  };
  return {
      {"load beyond memory", FaultKind::address, OpCode::load, 8, kBytes,
       [=](ListProgram& p) { p.load(access(4), 0, ListProgram::linear(kBytes - 32, 4)); }},
      {"store far beyond memory", FaultKind::address, OpCode::store, 0, kBytes * 100,
       [=](ListProgram& p) { p.store(access(4), ListProgram::constant(1), ListProgram::linear(kBytes * 100, 4)); }},
      {"atomic beyond memory", FaultKind::address, OpCode::atomic, 0, kBytes,
       [=](ListProgram& p) {
         p.atomic(access(4), AtomicKind::add, ValueType::u32, 0, ListProgram::constant(1),
                  ListProgram::linear(kBytes, 4));
       }},
      {"misaligned load", FaultKind::misaligned, OpCode::load, 1, 0x50002,
       [=](ListProgram& p) { p.load(access(4), 0, ListProgram::linear(0x50000, 2)); }},
      {"misaligned atomic", FaultKind::misaligned, OpCode::atomic, 0, 0x50004,
       [=](ListProgram& p) {
         p.atomic(access(8), AtomicKind::add, ValueType::u64, kNoRegister, ListProgram::constant(1),
                  ListProgram::linear(0x50004, 8));
       }},
      {"shared memory beyond the CTA's", FaultKind::shared_bounds, OpCode::store, 16, 1024,
       [=](ListProgram& p) {
         p.store(access(4, Space::shared), ListProgram::constant(1), ListProgram::linear(1024 - 64, 4));
       }},
      {"an operation that the machine does not have", FaultKind::unsupported, OpCode::tensor_load, 0, 0,
       [=](ListProgram& p) { p.other(OpCode::tensor_load); }},
  };
}

}  // namespace

TEST_CASE("a fault names its place and ends its task; the rest goes on", "[system][MEM-05]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  for (const Case& crime : cases()) {
    CAPTURE(mode, crime.name);
    SimFixture sim;
    GpuLab lab(preset_params("small", {"gpu.timing=" + mode}));
    constexpr std::uint64_t kGuilty = 5;
    const std::uint32_t bad = lab.submit(program_with(kGuilty, crime.crime), {600, 1, 1}, {64, 1, 1}, 1024, 0);
    const std::uint32_t good = lab.submit(
        [] {
          auto program = std::make_shared<ListProgram>(1);
          program->compute(Unit::fp32, 3000);
          program->store({}, ListProgram::constant(7),
                         [](const Warp& warp, std::uint32_t lane) { return 0x80000 + 4 * warp.global_thread(lane); });
          program->exit();
          return program;
        }(),
        {20, 1, 1}, {64, 1, 1}, 0, 1);
    const std::uint32_t next =
        lab.submit(program_with(~0ULL, [](ListProgram& p) { p.compute(Unit::fp32, 1); }), {5, 1, 1}, {64, 1, 1}, 0, 0);
    run_until_idle();
    REQUIRE(lab.gpu.log().faults().size() == 1);
    const FaultRecord& fault = lab.gpu.log().faults().front();
    CHECK(fault.kind == crime.kind);
    CHECK(fault.task == bad);
    CHECK(fault.cta == kGuilty);
    CHECK(fault.cta_x == kGuilty);
    CHECK(fault.warp == 1);
    CHECK(fault.operation == crime.operation);
    if (crime.kind != FaultKind::unsupported) {
      CHECK(fault.lane == crime.lane);
      CHECK(fault.address == crime.address);
    }
    CHECK(fault.sm < lab.gpu.topology().sms());
    CHECK(lab.host.results.at(bad).status == DoneStatus::faulted);
    CHECK(lab.host.results.at(good).status == DoneStatus::ok);
    CHECK(lab.host.results.at(next).status == DoneStatus::ok);  // the stream goes on
    for (std::uint32_t i = 0; i < 20 * 64; ++i) REQUIRE(lab.read<std::uint32_t>(0x80000 + 4 * i) == 7);
    // Where the fault is found at issue, the guilty warp does nothing more. Memory tells later, and the warp goes on.
    if (crime.kind != FaultKind::address) {
      CHECK(lab.read<std::uint32_t>(kOut + 4 * (kGuilty * 64 + 32)) != kGuilty * 64 + 33);
    }
    CHECK(lab.stat("task.faulted") == 1);
    CHECK(lab.stat("cwd.ctas_launched") < 630);  // most of the task never started
    lab.gpu.check_quiescent();
  }
}

TEST_CASE("a task whose other CTAs would wait for ever is stopped by a fault", "[system]") {
  SimFixture sim;
  GpuLab lab(preset_params("small"));
  // All but one CTA wait for a word that the one would have written.
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  ListProgram::Access strong;
  strong.order = Order::relaxed;
  p.branch(3, [](const Warp& warp) { return warp.place.cta != 3; }, {});
  p.load({}, 0, ListProgram::linear(kBytes * 4, 4));
  p.store(strong, ListProgram::constant(1), ListProgram::linear(kOut, 0), {{0, 1}});
  p.load(strong, 1, ListProgram::linear(kOut, 0));
  p.branch(3, [](const Warp& warp) { return warp.reg(1, 0) == 0; }, {{1, 1}});
  p.exit();
  const std::uint32_t operation = lab.run(program, {8, 1, 1}, {96, 1, 1});
  CHECK(lab.gpu.log().faults().size() == 1);
  CHECK(lab.host.results.at(operation).status == DoneStatus::faulted);
  lab.gpu.check_quiescent();
}

}  // namespace system_device_fault_test
