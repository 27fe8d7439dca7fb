// Another project's memory behind the L2 (MEM-02), and what a release at system scope leaves in it (MEM-06).
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/memory_socket.h"
#include "memory/plain_memory.h"
#include "support/flat_machine.h"
#include "support/gpu_lab.h"
#include "support/protocol_checker.h"
#include "support/random.h"

namespace system_attached_memory_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::ValueType;
using heddle::gpu::DeviceMemory;

namespace {

constexpr std::uint64_t kBytes = 1 << 20;

struct Attached {
  explicit Attached(const std::string& mode)
      : lab(preset_params("small", {"gpu.timing=" + mode, "gpu.memory=1 MiB", "gpu.l2.bytes=64 KiB"}),
            DeviceMemory::attached),
        memory("foreign", kBytes, sc_core::sc_time(300, sc_core::SC_NS), lab.gpu.params().l2.slices) {
    for (std::uint32_t s = 0; s < lab.gpu.params().l2.slices; ++s) {
      checkers.push_back(std::make_unique<ProtocolChecker>(("checker" + std::to_string(s)).c_str()));
      lab.gpu.memory_out(s).bind(checkers.back()->in);
      checkers.back()->out.bind(memory.socket(s));
    }
  }
  // No rule of the base protocol was broken on the way to that memory, and something went there.
  void check_protocol() const {
    std::uint64_t transactions = 0;
    for (const auto& checker : checkers) {
      for (const std::string& violation : checker->violations) FAIL_CHECK(checker->name() << ": " << violation);
      CHECK(checker->finished());
      transactions += checker->counts().blocking + checker->counts().nonblocking;
    }
    CHECK(transactions == memory.transactions);
  }
  std::uint32_t word(std::uint64_t address) const {
    std::uint32_t value = 0;
    std::memcpy(&value, &memory.bytes[address], sizeof value);
    return value;
  }

  SimFixture sim;
  GpuLab lab;
  PlainMemory memory;
  std::vector<std::unique_ptr<ProtocolChecker>> checkers;
};

// Every thread adds its number to what is there, and to a sum of all.
std::shared_ptr<ListProgram> adder() {
  auto program = std::make_shared<ListProgram>(2);
  const auto mine = [](const Warp& warp, std::uint32_t lane) { return 0x1000 + 20 * warp.global_thread(lane) / 4 * 4; };
  program->load({}, 0, mine);
  program->store({}, [](const Warp& warp, std::uint32_t lane) { return warp.reg(0, lane) + warp.global_thread(lane); },
                 mine, {{0, 1}});
  ListProgram::Access strong;
  strong.order = Order::relaxed;
  program->atomic(
      strong, AtomicKind::add, ValueType::u32, kNoRegister,
      [](const Warp& warp, std::uint32_t lane) { return warp.global_thread(lane); }, ListProgram::linear(0x40, 0));
  program->exit();
  return program;
}

}  // namespace

TEST_CASE("a plain memory takes the HBM's place", "[system][MEM-02][HST-02]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  Attached machine(mode);
  Random random(5);
  for (std::uint8_t& byte : machine.memory.bytes) byte = static_cast<std::uint8_t>(random.below(256));
  FlatMachine oracle(0);
  oracle.memory = machine.memory.bytes;
  const heddle::arch::Dim3 grid{60, 1, 1};
  const heddle::arch::Dim3 block{256, 1, 1};
  oracle.run(*adder(), grid, block, 0);
  machine.lab.run(adder(), grid, block);
  std::vector<std::uint8_t> after(kBytes);
  REQUIRE(machine.lab.gpu.memory().read(0, after.data(), after.size()));
  CHECK(after == oracle.memory);
  CHECK(machine.memory.transactions > 1000);
  CHECK(machine.memory.unknown_commands == 0);  // atomics and the like stay before it
  machine.check_protocol();
  machine.lab.gpu.check_quiescent();
}

TEST_CASE("a release at system scope leaves the bytes in memory, one at gpu scope need not", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  for (const Scope scope : {Scope::gpu, Scope::system}) {
    Attached machine(mode);
    auto program = std::make_shared<ListProgram>(1);
    program->store({}, ListProgram::constant(0xABCD), ListProgram::linear(0x8000, 132));
    program->fence(Order::release, scope);
    program->exit();
    machine.lab.run(program, {1, 1, 1}, {32, 1, 1});
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      CHECK(machine.word(0x8000 + 132 * lane) == (scope == Scope::system ? 0xABCDU : 0U));
      CHECK(machine.lab.read<std::uint32_t>(0x8000 + 132 * lane) == 0xABCD);
    }
  }
}

TEST_CASE("a fault of an attached memory is a fault of the program", "[system][MEM-05]") {
  // The GPU believes in more memory than there is.
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.memory=2 MiB"}), DeviceMemory::attached);
  PlainMemory memory("foreign", kBytes, sc_core::sc_time(300, sc_core::SC_NS), lab.gpu.params().l2.slices);
  for (std::uint32_t s = 0; s < lab.gpu.params().l2.slices; ++s) lab.gpu.memory_out(s).bind(memory.socket(s));
  auto program = std::make_shared<ListProgram>(1);
  program->load({}, 0, ListProgram::linear(kBytes + 512, 4));
  program->exit();
  const std::uint32_t operation = lab.run(program, {1, 1, 1}, {32, 1, 1});
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults().front().address == kBytes + 512);
  CHECK(lab.host.results.at(operation).status == heddle::protocol::DoneStatus::faulted);
}

}  // namespace system_attached_memory_test
