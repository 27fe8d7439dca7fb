// Occupancy queries of a host, through bar0 of a whole machine (CWD-24).
#include <string>

#include "support/packet_programs.h"

namespace system_occupancy_query_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

namespace {

// One CTA fits on an SM.
heddle_occupancy_query clusters_of(std::uint32_t ctas) {
  heddle_occupancy_query query{};
  query.threads = 1024;
  query.registers = 64;
  query.gpc = {ctas, static_cast<std::uint16_t>(ctas == 0 ? 0 : 1), static_cast<std::uint16_t>(ctas == 0 ? 0 : 1)};
  query.subcontext = 2;
  return query;
}

std::uint64_t active(const Machine& m, const heddle_occupancy_query& query) {
  heddle_occupancy result{};
  REQUIRE(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_OK);
  return result.active;
}

void share(const Machine& m, std::uint32_t gpc, std::uint32_t tpc, std::uint64_t value, std::uint32_t command) {
  const auto write = [&m](std::uint32_t offset, unsigned bytes, std::uint64_t written) {
    REQUIRE(m.bus.write(m.bus.context, offset, bytes, written));
  };
  write(HEDDLE_REG_SHARE_SUBCONTEXT, 4, 2);
  write(HEDDLE_REG_SHARE_TPC, 4, gpc << HEDDLE_SHARE_TPC_GPC_SHIFT | tpc);
  write(HEDDLE_REG_SHARE_VALUE, 8, value);
  write(HEDDLE_REG_SHARE_COMMAND, 4, command);
}

}  // namespace

TEST_CASE("a host asks how many clusters fit, and its share of the machine counts", "[system][CWD-24][HST-01]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));  // GPCs of 6 and 4 SMs
  lab.begin();
  Machine& m = lab[0];
  CHECK(active(m, clusters_of(0)) == 10);
  CHECK(active(m, clusters_of(2)) == 5);
  CHECK(active(m, clusters_of(4)) == 2);
  CHECK(active(m, clusters_of(6)) == 1);
  CHECK(active(m, clusters_of(7)) == 0);
  heddle_occupancy result{};
  heddle_occupancy_query query = clusters_of(7);
  REQUIRE(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_OK);
  CHECK(result.largest == 6);
  query.threads = 256;  // four CTAs on an SM
  query.mode = HEDDLE_QUERY_MODE_LOAD_BALANCING;
  REQUIRE(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_OK);
  CHECK(result.largest == 16);
  query.mode = HEDDLE_QUERY_MODE_MULTICAST;
  REQUIRE(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_OK);
  CHECK(result.largest == 6);
  query = clusters_of(17);
  CHECK(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_INVALID);
  CHECK(result.hsa == HEDDLE_HSA_INVALID_ARGUMENT);
  query = clusters_of(2);
  query.shared = 300'000;
  CHECK(heddle_max_active_clusters(&m.device, &query, 1000, &result) == HEDDLE_INVALID);
  CHECK(result.hsa == HEDDLE_HSA_OUT_OF_RESOURCES);

  // A TPC is taken from the subcontext, then credits for all but two TPCs.
  share(m, 0, 0, HEDDLE_SHARE_MODE_DYNAMIC, HEDDLE_SHARE_COMMAND_MODE);
  share(m, 0, 0, 0, HEDDLE_SHARE_COMMAND_ENABLE);
  CHECK(active(m, clusters_of(2)) == 4);
  CHECK(active(m, clusters_of(6)) == 0);
  share(m, 0, 0, 2, HEDDLE_SHARE_COMMAND_CREDITS);
  CHECK(active(m, clusters_of(0)) == 4);
  CHECK(active(m, clusters_of(4)) == 1);
  query = clusters_of(4);
  query.subcontext = 3;
  CHECK(active(m, query) == 2);
  settle(lab);
}

TEST_CASE("an occupancy query takes its time, raises the interrupt, and dies with a reset", "[system][CWD-24]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_QUERY_DONE_MASK) == HEDDLE_OK);
  const heddle_occupancy_query query = clusters_of(2);
  heddle_occupancy result{};
  CHECK(heddle_max_active_clusters(&m.device, &query, 1, &result) == HEDDLE_TIMEOUT);
  CHECK(heddle_max_active_clusters(&m.device, &query, 1, &result) == HEDDLE_BUSY);
  CHECK_FALSE(m.irq.read());
  for (int i = 0; i < 1000 && !m.irq.read(); ++i) m.bus.relax(nullptr);
  REQUIRE(m.irq.read());
  REQUIRE(heddle_device_acknowledge(&m.device, HEDDLE_INT_QUERY_DONE_MASK) == HEDDLE_OK);
  CHECK(heddle_max_active_clusters(&m.device, &query, 1, &result) == HEDDLE_TIMEOUT);
  REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
  settle(lab);
  std::uint64_t state = 1;
  REQUIRE(m.bus.read(m.bus.context, HEDDLE_REG_QUERY_STATE, 4, &state));
  CHECK(state == HEDDLE_QUERY_STATE_IDLE);
  CHECK(active(m, query) == 5);
  settle(lab);
}

TEST_CASE("a host hears of shares of bandwidth that the machine refuses", "[system][PRT-11][PRT-12][HST-01]") {
  SimFixture fixture;
  PacketLab lab(small({}));
  lab.begin();
  Machine& m = lab[0];
  const auto refused = [&m](std::uint64_t value, std::uint32_t command, std::uint32_t why, std::uint32_t times) {
    share(m, 0, 0, value, command);
    for (int i = 0; i < 100; ++i) m.bus.relax(nullptr);
    std::uint64_t count = 0;
    std::uint64_t reason = 0;
    REQUIRE(m.bus.read(m.bus.context, HEDDLE_REG_SHARE_REFUSED, 4, &count));
    REQUIRE(m.bus.read(m.bus.context, HEDDLE_REG_SHARE_REFUSAL, 4, &reason));
    CHECK(count == times);
    CHECK(reason == why);
  };
  refused(500, HEDDLE_SHARE_COMMAND_BANDWIDTH, HEDDLE_SHARE_REFUSAL_NONE, 0);
  refused(400, HEDDLE_SHARE_COMMAND_LIMIT, HEDDLE_SHARE_REFUSAL_BANDWIDTH, 1);
  refused(0, HEDDLE_SHARE_COMMAND_LIMIT, HEDDLE_SHARE_REFUSAL_VALUE, 2);
  refused(1001, HEDDLE_SHARE_COMMAND_BANDWIDTH, HEDDLE_SHARE_REFUSAL_VALUE, 3);
  refused(600, HEDDLE_SHARE_COMMAND_LIMIT, HEDDLE_SHARE_REFUSAL_VALUE, 3);
  refused(601, HEDDLE_SHARE_COMMAND_BANDWIDTH, HEDDLE_SHARE_REFUSAL_BANDWIDTH, 4);
}

}  // namespace system_occupancy_query_test
