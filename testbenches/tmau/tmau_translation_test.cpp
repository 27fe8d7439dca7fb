// Requests of subcontexts: all that a unit sends names them, and what translation refuses is told as such (PRT-08).
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_translation_test {

using namespace heddle;
using namespace heddle::test;

namespace {

void of_subcontext(protocol::BulkRequestPacket& packet) { packet.subcontext = 9; }

}  // namespace

TEST_CASE("every line request names the subcontext, and descriptors are fetched for each", "[tmau][TMA-04][PRT-08]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, {}, mode);
  bench.fill_memory(1);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 8));
  std::vector<std::uint8_t> descriptors;
  std::set<std::uint8_t> lines;
  bench.memory.refuse = [&](const protocol::MemoryRequest& request) {
    if (arch::line_of(request.get_address()) == kDescriptor) {
      descriptors.push_back(request.extension.subcontext);
    } else {
      lines.insert(request.extension.subcontext);
    }
    return tlm::TLM_OK_RESPONSE;
  };
  const auto ask = [&](Cycle when, bool own) {
    return own ? bench.ask(when, tensor(BulkKind::load, kDescriptor, {0, 0}), 0, of_subcontext)
               : bench.ask(when, tensor(BulkKind::load, kDescriptor, {0, 0}));
  };
  std::vector<std::uint32_t> ids{ask(0, false), ask(5000, true), ask(10'000, true), ask(15'000, false)};
  bench.run();
  for (const std::uint32_t id : ids) CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(descriptors == std::vector<std::uint8_t>{0, 9});
  CHECK(lines == std::set<std::uint8_t>{0, 9});
  bench.check_over();
}

TEST_CASE("what translation refuses is told with its kind", "[tmau][TMA-06][PRT-08]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, {}, mode);
  bench.fill_memory(1);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 8));
  bench.memory.refuse = [](const protocol::MemoryRequest& request) {
    const std::uint64_t line = arch::line_of(request.get_address());
    if (line == kDescriptor || line == 0x2000) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    return line == 0x3000 && !request.is_read() ? tlm::TLM_COMMAND_ERROR_RESPONSE : tlm::TLM_OK_RESPONSE;
  };
  const std::uint32_t descriptor = bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  const std::uint32_t load = bench.ask(3000, block_load(0x2000, 8, 0, 0));
  const std::uint32_t store = bench.ask(6000, block_store(0, 0x3000, 8));
  const std::uint32_t good = bench.ask(9000, block_load(0x3000, 8, 1024, 0));
  bench.run();
  const auto check = [&](std::uint32_t id, std::uint64_t address, bool read_only, bool write) {
    const protocol::BulkDonePacket& packet = bench.done(id).packet;
    CHECK(packet.kind == DoneKind::failed);
    CHECK(packet.address == address);
    CHECK(packet.unmapped);
    CHECK(packet.read_only == read_only);
    CHECK(packet.write == write);
    CHECK_FALSE(packet.poison);
  };
  check(descriptor, kDescriptor, false, false);
  check(load, 0x2000, false, false);
  check(store, 0x3000, true, true);
  CHECK(bench.done(good).packet.kind == DoneKind::complete);
  CHECK_FALSE(bench.done(good).packet.unmapped);
  bench.check_over();
}

}  // namespace tmau_translation_test
