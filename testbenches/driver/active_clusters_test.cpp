// Occupancy queries of the host library, against registers that the test plays.
#include <catch2/catch.hpp>

#include "driver/fake_device.h"

namespace heddle::test::driver_active_clusters_test {
namespace {

heddle_occupancy_query query() {
  heddle_occupancy_query asked{};
  asked.threads = 256;
  asked.registers = 40;
  asked.shared = 1000;
  asked.local = 8;
  asked.gpc = {4, 2, 1};
  asked.gpu = {8, 4, 3};
  asked.mode = HEDDLE_QUERY_MODE_MULTICAST;
  asked.subcontext = 9;
  asked.linear_memory = true;
  return asked;
}

}  // namespace

TEST_CASE("an occupancy query goes to its registers, and the answer comes from them", "[driver][CWD-24]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  auto& registers = fake.registers;
  registers[HEDDLE_REG_QUERY_ACTIVE] = 0x1'0000'0042;
  registers[HEDDLE_REG_QUERY_LARGEST] = 12;
  const heddle_occupancy_query asked = query();
  heddle_occupancy result{};
  REQUIRE(heddle_max_active_clusters(&device, &asked, 0, &result) == HEDDLE_OK);
  CHECK((result.active == 0x1'0000'0042 && result.largest == 12 && result.hsa == HEDDLE_HSA_SUCCESS));
  CHECK(registers[HEDDLE_REG_QUERY_THREADS] == 256);
  CHECK(registers[HEDDLE_REG_QUERY_REGISTERS] == 40);
  CHECK(registers[HEDDLE_REG_QUERY_SHARED] == 1000);
  CHECK(registers[HEDDLE_REG_QUERY_LOCAL] == 8);
  CHECK(registers[HEDDLE_REG_QUERY_CPC] == 0);
  CHECK(registers[HEDDLE_REG_QUERY_GPC] == (4 | 2ULL << 32 | 1ULL << 48));
  CHECK(registers[HEDDLE_REG_QUERY_UGPU] == 0);
  CHECK(registers[HEDDLE_REG_QUERY_GPU] == (8 | 4ULL << 32 | 3ULL << 48));
  CHECK(registers[HEDDLE_REG_QUERY_MODE] == HEDDLE_QUERY_MODE_MULTICAST);
  CHECK(registers[HEDDLE_REG_QUERY_SUBCONTEXT] == 9);
  CHECK(registers[HEDDLE_REG_QUERY_MEMORY] == HEDDLE_QUERY_MEMORY_LINEAR_MASK);
  CHECK(registers[HEDDLE_REG_QUERY_COMMAND] == HEDDLE_QUERY_COMMAND_START);
}

TEST_CASE("an occupancy query that fails says why", "[driver][CWD-24]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  heddle_occupancy_query asked = query();
  heddle_occupancy result{};
  fake.queried = HEDDLE_QUERY_STATE_ERROR;
  fake.registers[HEDDLE_REG_QUERY_STATUS] = HEDDLE_HSA_OUT_OF_RESOURCES;
  CHECK(heddle_max_active_clusters(&device, &asked, 0, &result) == HEDDLE_INVALID);
  CHECK(result.hsa == HEDDLE_HSA_OUT_OF_RESOURCES);
  fake.queried = HEDDLE_QUERY_STATE_BUSY;
  CHECK(heddle_max_active_clusters(&device, &asked, 5, &result) == HEDDLE_TIMEOUT);
  CHECK(heddle_max_active_clusters(&device, &asked, 5, &result) == HEDDLE_BUSY);
  fake.registers[HEDDLE_REG_QUERY_STATE] = HEDDLE_QUERY_STATE_IDLE;
  fake.registers[HEDDLE_REG_QUERY_COMMAND] = 0;
  asked.subcontext = 64;
  CHECK(heddle_max_active_clusters(&device, &asked, 5, &result) == HEDDLE_INVALID);
  CHECK(result.hsa == HEDDLE_HSA_INVALID_ARGUMENT);
  CHECK(fake.registers[HEDDLE_REG_QUERY_COMMAND] == 0);  // nothing has been asked
  asked.subcontext = 0;
  fake.queried = HEDDLE_QUERY_STATE_DONE;
  for (int accesses = 0; accesses < 17; ++accesses) {
    CAPTURE(accesses);
    fake.accesses_until_failure = accesses;
    CHECK(heddle_max_active_clusters(&device, &asked, 5, &result) == HEDDLE_BUS);
  }
  fake.accesses_until_failure = -1;
  CHECK(heddle_max_active_clusters(&device, &asked, 5, &result) == HEDDLE_OK);
}

}  // namespace heddle::test::driver_active_clusters_test
