// The TLB of a GPC together with the memory management unit: every request reaches the right physical address or none
// (MEM-04, PRT-08).
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/mmu_bench.h"

namespace memory_gpc_mmu_test {

using namespace heddle;
using namespace heddle::test;
using arch::kSmallPage;
using protocol::MemoryAction;
using protocol::MemoryRequest;

namespace {

memory::MmuParams small_params() {
  memory::MmuParams params;
  params.enabled = true;
  params.gpc_tlb.entries = 8;
  params.gpc_tlb.ways = 2;
  params.gpc_tlb.latency = 4;
  params.gpc_tlb.misses = 4;
  params.gpc_tlb.queue = 4;
  params.l2_tlb.entries = 32;
  params.l2_tlb.ways = 4;
  params.l2_tlb.latency = 6;
  params.distance = 20;
  params.walkers = 2;
  return params;
}

constexpr std::uint64_t kVirtual = std::uint64_t{0x1234} << 32;

}  // namespace

TEST_CASE("a request goes on with its physical address, and its answer has its own", "[gpc_mmu][MEM-04]") {
  SimFixture sim;
  MmuBench bench(small_params(), TimingMode::at, 1, 1);
  Space& space = bench.add_space();
  space.map(kVirtual, 3 * kSmallPage, kSmallPage, true);
  std::vector<std::uint64_t> reached;
  std::vector<Cycle> arrivals;
  bench.memories[0]->on_request = [&](tlm::tlm_generic_payload& payload, Cycle when) {
    reached.push_back(payload.get_address());
    arrivals.push_back(when);
  };
  std::vector<std::uint64_t> answered;
  bench.initiators[0]->on_response = [&](MemoryRequest& answer, Cycle) {
    CHECK(answer.is_response_ok());
    answered.push_back(answer.get_address());
  };
  start();
  bench.set_root(1, space.tables.root());
  bench.initiators[0]->send(bench.request(tlm::TLM_READ_COMMAND, kVirtual + 64, 1), 100);
  bench.initiators[0]->send(bench.request(tlm::TLM_WRITE_COMMAND, kVirtual + 128, 1), 400);
  run_until_idle();
  CHECK(reached == std::vector<std::uint64_t>{3 * kSmallPage + 64, 3 * kSmallPage + 128});
  CHECK(answered == std::vector<std::uint64_t>{kVirtual + 64, kVirtual + 128});
  // There and back, the look-up, and four reads of ten cycles; then a hit.
  CHECK(arrivals == std::vector<Cycle>{100 + 20 + 6 + 40 + 20 + 4, 404});
  CHECK(bench.stat("gpc0.mmu.hits") == 1);
  CHECK(bench.stat("gpc0.mmu.misses") == 1);
  CHECK(bench.stat("mmu.walks") == 1);
  CHECK(bench.violations().empty());
  CHECK(bench.finished());
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("what is physical, or of a subcontext without page tables, goes on as it is", "[gpc_mmu][MEM-04]") {
  SimFixture sim;
  MmuBench bench(small_params(), TimingMode::at, 1, 1);
  Space& space = bench.add_space();
  space.map(0, 5 * kSmallPage, kSmallPage, false);
  std::vector<std::uint64_t> reached;
  bench.memories[0]->on_request = [&](tlm::tlm_generic_payload& payload, Cycle) {
    reached.push_back(payload.get_address());
  };
  start();
  bench.set_root(1, space.tables.root());
  MemoryRequest& physical = bench.request(tlm::TLM_WRITE_COMMAND, 0x100, 1);
  physical.extension.physical = true;
  MemoryRequest& flush = bench.request(tlm::TLM_IGNORE_COMMAND, 0x200, 1);
  flush.extension.action = MemoryAction::write_back;
  bench.initiators[0]->send(physical, 0);
  bench.initiators[0]->send(flush, 0);
  bench.initiators[0]->send(bench.request(tlm::TLM_READ_COMMAND, 0x300, 0), 0);
  bench.initiators[0]->send(bench.request(tlm::TLM_READ_COMMAND, 0x400, 63), 0);
  bench.initiators[0]->send(bench.request(tlm::TLM_READ_COMMAND, 0x500, 1), 0);
  run_until_idle();
  CHECK(reached == std::vector<std::uint64_t>{0x100, 0x200, 0x300, 0x400, 5 * kSmallPage + 0x500});
  CHECK(bench.stat("gpc0.mmu.faults") == 0);
}

TEST_CASE("pages that are not there and writes to read-only ones are refused", "[gpc_mmu][PRT-08]") {
  SimFixture sim;
  MmuBench bench(small_params(), TimingMode::at, 1, 1);
  Space& own = bench.add_space();
  Space& other = bench.add_space();
  own.map(kVirtual, 0, kSmallPage, false);
  other.map(0, kSmallPage, kSmallPage, true);
  std::uint64_t reached = 0;
  bench.memories[0]->on_request = [&](tlm::tlm_generic_payload&, Cycle) { ++reached; };
  std::vector<std::pair<tlm::tlm_response_status, bool>> results;
  bench.initiators[0]->on_response = [&](MemoryRequest& answer, Cycle) {
    results.emplace_back(answer.get_response_status(), answer.extension.unmapped);
  };
  start();
  bench.set_root(1, own.tables.root());
  bench.set_root(2, other.tables.root());
  const auto send = [&](MemoryRequest& request, MemoryAction action = MemoryAction::plain) {
    request.extension.action = action;
    results.clear();
    reached = 0;
    bench.initiators[0]->send(request, bench.domain.now());
    run_until_idle();
    REQUIRE(results.size() == 1);
    return results[0];
  };
  const auto unmapped = std::make_pair(tlm::TLM_ADDRESS_ERROR_RESPONSE, true);
  const auto read_only = std::make_pair(tlm::TLM_COMMAND_ERROR_RESPONSE, true);
  const auto good = std::make_pair(tlm::TLM_OK_RESPONSE, false);
  for (int round = 0; round < 2; ++round) {  // the second time the page is in the TLB
    CHECK(send(bench.request(tlm::TLM_READ_COMMAND, kVirtual, 1)) == good);
    CHECK(send(bench.request(tlm::TLM_WRITE_COMMAND, kVirtual, 1)) == read_only);
    CHECK(send(bench.request(tlm::TLM_IGNORE_COMMAND, kVirtual, 1), MemoryAction::atomic) == read_only);
    CHECK(send(bench.request(tlm::TLM_IGNORE_COMMAND, kVirtual, 1), MemoryAction::reduce) == read_only);
    CHECK(send(bench.request(tlm::TLM_IGNORE_COMMAND, kVirtual, 1), MemoryAction::reduce_block) == read_only);
    CHECK(send(bench.request(tlm::TLM_IGNORE_COMMAND, kVirtual, 1), MemoryAction::prefetch) == good);
    CHECK(send(bench.request(tlm::TLM_READ_COMMAND, 0, 1)) == unmapped);  // another's address
    CHECK(reached == 0);
    CHECK(send(bench.request(tlm::TLM_WRITE_COMMAND, 0, 2)) == good);
    CHECK(send(bench.request(tlm::TLM_IGNORE_COMMAND, kVirtual, 2), MemoryAction::prefetch) == unmapped);
    CHECK(send(bench.request(tlm::TLM_READ_COMMAND, std::uint64_t{1} << 60, 1)) == unmapped);
    CHECK(send(bench.request(tlm::TLM_READ_COMMAND, std::uint64_t{1} << 60, 0)).second == false);
  }
  CHECK(bench.stat("gpc0.mmu.faults") == 2 * 7);
  CHECK(bench.stat("gpc0.mmu.faults_of_1") == 2 * 6);
  CHECK(bench.stat("gpc0.mmu.faults_of_2") == 2);
  CHECK(bench.violations().empty());
}

TEST_CASE("debug accesses are translated, across pages", "[gpc_mmu][MEM-04]") {
  SimFixture sim;
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  MmuBench bench(small_params(), mode, 1, 1);
  Space& space = bench.add_space();
  space.map(0, 4 * kSmallPage, kSmallPage, true);
  space.map(kSmallPage, 2 * kSmallPage, kSmallPage, false);
  start();
  bench.set_root(1, space.tables.root());
  run_until_idle();
  const auto debug = [&](tlm::tlm_command command, std::uint64_t address, std::vector<std::uint8_t>& data) {
    MemoryRequest& request = bench.request(command, address, 1);
    request.set_data_ptr(data.data());
    request.set_data_length(static_cast<unsigned>(data.size()));
    request.set_streaming_width(static_cast<unsigned>(data.size()));
    const unsigned done = bench.initiators[0]->out.debug(request);
    request.release();
    return done;
  };
  for (std::uint32_t i = 0; i < 8; ++i) bench.bytes[5 * kSmallPage - 8 + i] = static_cast<std::uint8_t>(10 + i);
  for (std::uint32_t i = 0; i < 8; ++i) bench.bytes[2 * kSmallPage + i] = static_cast<std::uint8_t>(20 + i);
  std::vector<std::uint8_t> data(16);
  CHECK(debug(tlm::TLM_READ_COMMAND, kSmallPage - 8, data) == 16);
  CHECK(data == std::vector<std::uint8_t>{10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 26, 27});
  CHECK(debug(tlm::TLM_WRITE_COMMAND, kSmallPage - 8, data) == 8);  // the second page is read-only
  CHECK(debug(tlm::TLM_READ_COMMAND, 2 * kSmallPage - 4, data) == 4);
  CHECK(debug(tlm::TLM_READ_COMMAND, 3 * kSmallPage, data) == 0);
  CHECK(bench.stat("gpc0.mmu.misses") == 0);
}

}  // namespace memory_gpc_mmu_test
