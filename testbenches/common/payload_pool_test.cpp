// Pooled payloads: each as good as new, none lost.
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "common/memory_socket.h"
#include "support/random.h"

namespace common_payload_pool_test {

using namespace heddle;
using tlm::tlm_generic_payload;

namespace {

int living_marks = 0;

struct Mark final : tlm::tlm_extension<Mark> {
  Mark() { ++living_marks; }
  ~Mark() override { --living_marks; }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  tlm::tlm_extension_base* clone() const override { return new Mark; }
  void copy_from(const tlm::tlm_extension_base&) override {}
};

struct Sticky final : tlm::tlm_extension<Sticky> {
  tlm::tlm_extension_base* clone() const override { return new Sticky(*this); }
  void copy_from(const tlm::tlm_extension_base&) override {}
};

void check_as_new(const tlm_generic_payload& payload) {
  const tlm_generic_payload fresh;
  CHECK(payload.get_command() == fresh.get_command());
  CHECK(payload.get_address() == fresh.get_address());
  CHECK(payload.get_data_ptr() == nullptr);
  CHECK(payload.get_data_length() == fresh.get_data_length());
  CHECK(payload.get_byte_enable_ptr() == nullptr);
  CHECK(payload.get_byte_enable_length() == fresh.get_byte_enable_length());
  CHECK(payload.get_streaming_width() == fresh.get_streaming_width());
  CHECK(payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE);
  CHECK_FALSE(payload.is_dmi_allowed());
  CHECK(payload.get_gp_option() == tlm::TLM_MIN_PAYLOAD);
}

}  // namespace

TEST_CASE("payloads come with one reference and default attributes, first time and later", "[payload_pool]") {
  PayloadPool pool;
  unsigned char data[64] = {};
  for (int i = 0; i < 3; ++i) {
    tlm_generic_payload& payload = pool.acquire();
    CHECK(payload.get_ref_count() == 1);
    check_as_new(payload);
    payload.set_command(tlm::TLM_WRITE_COMMAND);
    payload.set_address(0xFFFF'FFFF'0000ULL);
    payload.set_data_ptr(data);
    payload.set_data_length(64);
    payload.set_byte_enable_ptr(data);
    payload.set_byte_enable_length(8);
    payload.set_streaming_width(4);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    payload.set_dmi_allowed(true);
    payload.set_gp_option(tlm::TLM_FULL_PAYLOAD_ACCEPTED);
    payload.release();
    CHECK(pool.in_use() == 0);
    CHECK(pool.allocated() == 1);
  }
}

TEST_CASE("a payload comes home with its last reference only", "[payload_pool]") {
  PayloadPool pool;
  tlm_generic_payload& payload = pool.acquire();
  payload.acquire();
  payload.acquire();
  payload.release();
  payload.release();
  CHECK(pool.in_use() == 1);
  tlm_generic_payload& other = pool.acquire();
  CHECK(&other != &payload);
  other.release();
  payload.release();
  CHECK(pool.in_use() == 0);
  CHECK(pool.allocated() == 2);
}

TEST_CASE("automatic extensions are freed with the last reference", "[payload_pool]") {
  {
    PayloadPool pool;
    for (int i = 0; i < 5; ++i) {
      tlm_generic_payload& payload = pool.acquire();
      CHECK(payload.get_extension<Mark>() == nullptr);
      payload.set_auto_extension(new Mark);
      CHECK(living_marks == 1);
      payload.acquire();
      payload.release();
      CHECK(living_marks == 1);
      payload.release();
      CHECK(living_marks == 0);
    }
    CHECK(pool.allocated() == 1);
  }
  CHECK(living_marks == 0);
}

TEST_CASE("an extension that was set to stay stays until it is cleared by its owner", "[payload_pool]") {
  PayloadPool pool;
  Sticky sticky;
  tlm_generic_payload& payload = pool.acquire();
  payload.set_extension(&sticky);
  payload.release();
  tlm_generic_payload& again = pool.acquire();
  REQUIRE(&again == &payload);
  CHECK(again.get_extension<Sticky>() == &sticky);
  again.clear_extension(&sticky);
  again.release();
}

TEST_CASE("a payload that still has references is not taken back", "[payload_pool]") {
  PayloadPool pool;
  tlm_generic_payload& payload = pool.acquire();
  tlm::tlm_mm_interface& manager = pool;
  CHECK_THROWS_AS(manager.free(&payload), CheckFailed);
  CHECK(pool.in_use() == 1);
  payload.release();
  CHECK(pool.in_use() == 0);
}

TEST_CASE("random use: no payload is given out twice, and no more are made than were needed at once",
          "[payload_pool]") {
  HEDDLE_RANDOM(dice);
  PayloadPool pool;
  std::vector<tlm_generic_payload*> mine;
  std::size_t most = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (mine.empty() || dice.between64(0, 99) < (step / 1000 % 2 == 0 ? 60U : 40U)) {
      tlm_generic_payload& payload = pool.acquire();
      payload.set_address(static_cast<std::uint64_t>(step));
      if (dice.one_in(3)) payload.set_auto_extension(new Mark);
      mine.push_back(&payload);
      most = std::max(most, mine.size());
    } else {
      std::swap(mine[dice.between64(0, mine.size() - 1)], mine.back());
      mine.back()->release();
      mine.pop_back();
    }
    if (pool.in_use() != mine.size()) REQUIRE(pool.in_use() == mine.size());
  }
  CHECK(std::set<tlm_generic_payload*>(mine.begin(), mine.end()).size() == mine.size());
  CHECK(pool.allocated() == most);
  for (tlm_generic_payload* payload : mine) payload->release();
  CHECK(living_marks == 0);
  CHECK(pool.in_use() == 0);
}

}  // namespace common_payload_pool_test
