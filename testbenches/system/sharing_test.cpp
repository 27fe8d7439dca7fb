// Processes on one machine: what each of them gets under the modes of partitioning, and that none reaches the memory of
// another.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/page_table.h"
#include "support/gpu_lab.h"

namespace system_sharing_test {

using namespace heddle;
using namespace heddle::test;
using protocol::PartitionMode;
using protocol::SubcontextPacket;

namespace {

protocol::SubmitPacket share(const SubcontextPacket& change) {
  protocol::SubmitPacket packet;
  packet.kind = protocol::SubmitKind::share;
  packet.share = change;
  return packet;
}

SubcontextPacket mode(PartitionMode mode) {
  SubcontextPacket packet;
  packet.what = SubcontextPacket::What::mode;
  packet.mode = mode;
  return packet;
}

SubcontextPacket enable(std::uint8_t subcontext, std::uint32_t gpc, std::uint32_t tpc, bool on) {
  SubcontextPacket packet;
  packet.what = SubcontextPacket::What::enable;
  packet.subcontext = subcontext;
  packet.gpc = heddle::protocol::GpcId(gpc);
  packet.tpc = heddle::protocol::TpcInGpc(tpc);
  packet.value = on ? 1 : 0;
  return packet;
}

SubcontextPacket page_table(std::uint8_t subcontext, std::uint64_t root) {
  SubcontextPacket packet;
  packet.what = SubcontextPacket::What::page_table;
  packet.subcontext = subcontext;
  packet.value = root;
  return packet;
}

protocol::SubmitPacket load(std::uint32_t operation, std::uint8_t subcontext, std::uint32_t ctas) {
  protocol::SubmitPacket packet = kernel_packet(operation, subcontext, {ctas, 1, 1}, {1024, 1, 1}, {2000, 2000});
  packet.kernel.subcontext = subcontext;
  return packet;
}

// What a mode made of two loads: process 1 alone, then both.
struct Outcome {
  double alone = 0;   // cycles that process 1 took while it was alone
  double first = 0;   // the same for each of them, together
  double second = 0;  //
  double tpc_cycles_1 = 0;
  double tpc_cycles_2 = 0;
  double fairness = 0;
};

// `small` has 3 and 2 TPCs: static gives each process two of them.
Outcome run(PartitionMode wanted) {
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.cwd.active_pool=0"}));
  if (wanted == PartitionMode::static_) {
    for (const std::uint8_t subcontext : {std::uint8_t{1}, std::uint8_t{2}}) {
      for (std::uint32_t gpc = 0; gpc < 2; ++gpc) {
        for (std::uint32_t tpc = 0; tpc < 3 - gpc; ++tpc) {
          lab.host.submit(1, share(enable(subcontext, gpc, tpc, gpc == subcontext - 1U && tpc < 2)));
        }
      }
    }
  }
  if (wanted == PartitionMode::dynamic) {
    for (const std::uint8_t subcontext : {std::uint8_t{1}, std::uint8_t{2}}) {
      SubcontextPacket credits;
      credits.what = SubcontextPacket::What::credits;
      credits.subcontext = subcontext;
      credits.value = 3;
      lab.host.submit(1, share(credits));
    }
  }
  lab.host.submit(2, share(mode(wanted)));
  lab.host.submit(100, load(0, 1, 200));
  lab.host.submit(400'000, load(1, 1, 200));
  lab.host.submit(400'000, load(2, 2, 200));
  run_until_idle();
  REQUIRE(lab.host.results.size() == 3);
  lab.gpu.check_quiescent();
  Outcome outcome;
  outcome.alone = lab.cycles(0);
  outcome.first = lab.cycles(1);
  outcome.second = lab.cycles(2);
  outcome.tpc_cycles_1 = lab.stat("cwd.subcontext1.tpc_cycles");
  outcome.tpc_cycles_2 = lab.stat("cwd.subcontext2.tpc_cycles");
  outcome.fairness = lab.stat("cwd.subcontext_fairness");
  CHECK(lab.stat("cwd.subcontext1.ctas_completed") == 400);
  CHECK(lab.stat("cwd.subcontext2.ctas_completed") == 200);
  return outcome;
}

constexpr std::uint64_t kWindow = 0x1'0000'0000;  // virtual, in both processes
constexpr std::uint64_t kPages = 0x100'0000;      // physical: page tables, a megabyte for each
constexpr std::uint64_t kFrames = 0x200'0000;     // physical: data, a page for each

// Every thread adds 1 to its word of the process's page.
std::shared_ptr<const arch::WarpProgram> adds(std::uint64_t address) {
  auto p = std::make_shared<ListProgram>(2);
  const auto at = [address](const Warp& w, std::uint32_t lane) { return address + 4 * w.global_thread(lane); };
  p->load({}, 0, at);
  p->store({}, [](const Warp& w, std::uint32_t lane) { return std::uint64_t{w.reg(0, lane)} + 1; }, at, {{0, 1}});
  p->exit();
  return p;
}

}  // namespace

TEST_CASE("throughput, TPC occupancy and fairness of two processes are reported for every mode",
          "[system][PRT-09][PRT-01]") {
  const Outcome none = run(PartitionMode::none);
  const Outcome fixed = run(PartitionMode::static_);
  const Outcome credits = run(PartitionMode::dynamic);
  // Alone, a process has two of five TPCs, three by credits, or all.
  CHECK(fixed.alone > 1.4 * credits.alone);
  CHECK(credits.alone > 1.5 * none.alone);
  CHECK(fixed.first < 1.1 * fixed.second);
  CHECK(fixed.second < 1.1 * fixed.first);
  // Who comes first takes three TPCs, and leaves two of the five to the other for a while.
  CHECK(credits.first < 1.5 * credits.second);
  CHECK(credits.second < 1.5 * credits.first);
  // TPC cycles: work on two or three TPCs takes as many of them, however long it lasts.
  for (const Outcome& outcome : {none, fixed, credits}) {
    CHECK(outcome.tpc_cycles_1 > 1.5 * outcome.tpc_cycles_2);
  }
  // Two TPCs each: what each was promised, and all of that. Three credits each of five TPCs: two and a half, so that
  // one has all of it and the other one four fifths, by which the index is 0.988. Without shares the one that comes
  // second waits until the first one has placed everything.
  CHECK(fixed.fairness > 0.99);
  CHECK(credits.fairness > 0.97);
  CHECK(credits.fairness < fixed.fairness);
  CHECK(none.fairness < 0.9);
}

TEST_CASE("processes have the same addresses and different memory, and who reaches out is stopped alone",
          "[system][PRT-08][MEM-04]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing, "gpu.mmu.enabled=true"}));
  for (const std::uint8_t subcontext : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{3}}) {
    arch::PageTables tables(kPages + 0x10'0000 * subcontext, 0x10'0000,
                            [&lab](std::uint64_t address, std::uint64_t value) { lab.write(address, value); });
    tables.map(kWindow, kFrames + 0x1'0000 * subcontext, 0x1'0000, subcontext != 3);
    lab.host.submit(1, share(page_table(subcontext, tables.root())));
  }
  const auto kernel = [&lab](std::uint64_t address, std::uint8_t subcontext, std::uint32_t stream) {
    protocol::SubmitPacket packet = lab.packet(adds(address), {16, 1, 1}, {256, 1, 1}, 0, stream);
    packet.kernel.subcontext = subcontext;
    lab.host.submit(1000, packet);
    return packet.operation;
  };
  std::vector<std::uint32_t> good;
  for (std::uint32_t i = 0; i < 3; ++i) {
    good.push_back(kernel(kWindow, 1, 1));
    good.push_back(kernel(kWindow, 2, 2));
  }
  // The physical address of process 1's page, from process 2; beyond its own page; and a page that is read-only.
  const std::uint32_t foreign = kernel(kFrames + 0x1'0000, 2, 3);
  const std::uint32_t beyond = kernel(kWindow + 0x1'0000, 1, 4);
  const std::uint32_t locked = kernel(kWindow, 3, 5);
  run_until_idle();
  for (const std::uint32_t operation : good) {
    CHECK(lab.host.results.at(operation).status == protocol::DoneStatus::ok);
  }
  for (const std::uint32_t operation : {foreign, beyond, locked}) {
    CHECK(lab.host.results.at(operation).status == protocol::DoneStatus::faulted);
  }
  for (const std::uint32_t subcontext : {1, 2, 3}) {
    const std::uint32_t expected = subcontext == 3 ? 0 : 3;
    bool right = true;
    for (std::uint32_t thread = 0; thread < 16 * 256; ++thread) {
      const std::uint64_t at = kFrames + 0x1'0000 * subcontext + 4 * thread;
      right = right && lab.read<std::uint32_t>(at) == expected;
    }
    CHECK(right);
  }
  std::set<std::uint32_t> guilty;
  for (const arch::FaultRecord& fault : lab.gpu.log().faults()) {
    guilty.insert(fault.task);
    INFO(arch::text_of(fault));
    if (fault.task == foreign) {
      CHECK(fault.kind == arch::FaultKind::unmapped);
      CHECK(fault.subcontext == 2);
      CHECK(fault.address >= kFrames + 0x1'0000);
      CHECK(fault.address < kFrames + 0x2'0000);
      CHECK_FALSE(fault.write);
    } else if (fault.task == beyond) {
      CHECK(fault.kind == arch::FaultKind::unmapped);
      CHECK(fault.subcontext == 1);
    } else {
      CHECK(fault.kind == arch::FaultKind::read_only);
      CHECK(fault.subcontext == 3);
      CHECK(fault.write);
    }
  }
  CHECK(guilty == std::set<std::uint32_t>{foreign, beyond, locked});
  lab.gpu.check_quiescent();
}

}  // namespace system_sharing_test
