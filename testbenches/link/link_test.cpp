// Links between GPUs over their sockets: contents, times, credits, groups.
#include <algorithm>
#include <cstring>
#include <map>

#include <catch2/catch.hpp>

#include "link/link_lab.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace heddle::test::link_test {
namespace {

using arch::multicast_address;
using arch::peer_address;
using link::LinkParams;
using protocol::MemoryAction;
using protocol::MemoryRequest;

// One byte of a link per nanosecond is a gigabyte per second.
LinkParams params_of(std::uint32_t ports, double bandwidth, double latency) {
  LinkParams params;
  params.ports = ports;
  params.bandwidth = bandwidth;
  params.latency = latency;
  return params;
}

link::FabricParams fabric_of(double latency, double reduce = 0) {
  link::FabricParams params;
  params.clock = 1;
  params.switch_latency = latency;
  params.reduce_latency = reduce;
  return params;
}

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

}  // namespace

TEST_CASE("a request to another GPU's memory comes to that memory alone, in all timings", "[link][LNK-01]") {
  for (const TimingMode mode : kModes) {
    for (const bool through : {false, true}) {
      SimFixture fixture;
      LinkLab lab(2, params_of(2, 16, 10), mode, through);
      MemoryRequest& write = lab.plain(tlm::TLM_WRITE_COMMAND, peer_address(1, 4096), 128);
      for (std::uint32_t i = 0; i < 128; ++i) write.data[i] = static_cast<std::uint8_t>(i + 1);
      lab.ask(0, write);
      REQUIRE(write.is_response_ok());
      CHECK(std::equal(write.data.begin(), write.data.end(), lab.gpus[1]->bytes.begin() + 4096));
      CHECK(std::count(lab.gpus[1]->bytes.begin(), lab.gpus[1]->bytes.end(), 0) ==
            static_cast<std::ptrdiff_t>(LinkLab::kBytes - 128));
      CHECK(std::count(lab.gpus[0]->bytes.begin(), lab.gpus[0]->bytes.end(), 0) ==
            static_cast<std::ptrdiff_t>(LinkLab::kBytes));
      MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 4096 + 32), 64);
      lab.ask(0, read);
      REQUIRE(read.is_response_ok());
      CHECK(std::equal(read.data.begin(), read.data.begin() + 64, write.data.begin() + 32));
      // Its own number: it turns round.
      MemoryRequest& own = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 4096), 32);
      lab.ask(1, own);
      REQUIRE(own.is_response_ok());
      CHECK(std::equal(own.data.begin(), own.data.begin() + 32, write.data.begin()));
      for (MemoryRequest* request : {&write, &read, &own}) request->release();
      lab.check_idle();
    }
  }
}

TEST_CASE("addresses to which no link leads, or outside memory, are answered with an error", "[link][LNK-01]") {
  for (const TimingMode mode : kModes) {
    for (const bool through : {false, true}) {
      SimFixture fixture;
      LinkLab lab(2, params_of(1, 16, 10), mode, through);
      for (const std::uint64_t address :
           {peer_address(7, 0), peer_address(1, LinkLab::kBytes), multicast_address(3, 0)}) {
        MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, address, 32);
        lab.ask(0, read);
        CHECK(read.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
        read.release();
      }
      lab.check_idle();
    }
  }
}

TEST_CASE("a read takes two links and what its packets take of them", "[link][LNK-02]") {
  // 16 bytes of header go there; 16 and 128 come back, with 16 bytes per cycle. Nothing is in the way.
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
    SimFixture fixture;
    LinkLab lab(2, params_of(1, 16, 100), mode, false);
    MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 0), 128);
    CHECK(lab.ask(0, read) == Approx(210).margin(2));  // two links, and 10 of the memory
    read.release();
  }
  // Through a switch: four, and twice its own.
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
    SimFixture fixture;
    LinkLab lab(2, params_of(1, 16, 100), mode, true, fabric_of(30));
    MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 0), 128);
    CHECK(lab.ask(0, read) == Approx(470).margin(4));
    read.release();
  }
}

TEST_CASE("packets take headers and whole flits of a link", "[link][LNK-02]") {
  link::LinkParams params;
  const link::MessageSizes sizes(params);
  protocol::RequestPool pool;
  const auto bytes = [&](tlm::tlm_command command, std::uint32_t length, bool response) {
    MemoryRequest& request = pool.acquire();
    request.aim(command, 0, length);
    request.set_response_status(tlm::TLM_OK_RESPONSE);
    const std::uint32_t result = response ? sizes.response(request) : sizes.request(request);
    request.release();
    return result;
  };
  CHECK(bytes(tlm::TLM_READ_COMMAND, 128, false) == 16);
  CHECK(bytes(tlm::TLM_READ_COMMAND, 128, true) == 144);
  CHECK(bytes(tlm::TLM_READ_COMMAND, 33, true) == 16 + 48);
  CHECK(bytes(tlm::TLM_WRITE_COMMAND, 128, false) == 144);
  CHECK(bytes(tlm::TLM_WRITE_COMMAND, 128, true) == 16);
  params.packet_bytes = 32;
  CHECK(link::MessageSizes(params).line(true) == 4 * 16 + 128);
  MemoryRequest& enabled = pool.acquire();
  enabled.aim(tlm::TLM_WRITE_COMMAND, 0, 128);
  std::fill_n(enabled.use_enables(), 128, static_cast<std::uint8_t>(0xFF));
  CHECK(sizes.request(enabled) == 160);
  enabled.release();
  MemoryRequest& atomic = pool.acquire();
  atomic.aim(tlm::TLM_IGNORE_COMMAND, 0, 128);
  atomic.extension.action = MemoryAction::atomic;
  atomic.extension.lanes = 4;
  CHECK(sizes.request(atomic) == 16 + 32);
  CHECK(sizes.response(atomic) == 16 + 32);
  atomic.release();
}

TEST_CASE("a link carries its bandwidth and no more, in both timings that count", "[link][LNK-02]") {
  constexpr std::uint32_t kLines = 400;
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
    for (const bool through : {false, true}) {
      for (const std::uint32_t ports : {1U, 4U}) {
        CAPTURE(static_cast<int>(mode), through, ports);
        SimFixture fixture;
        LinkLab lab(2, params_of(ports, 8, 20), mode, through, fabric_of(20));
        start();
        double last = 0;
        LinkLab::Gpu& from = *lab.gpus[0];
        for (std::uint32_t i = 0; i < kLines; ++i) {
          MemoryRequest& write = lab.plain(tlm::TLM_WRITE_COMMAND, peer_address(1, 128 * i), 128);
          if (mode == TimingMode::at) {
            const auto port = i % ports;
            from.askers[port]->on_response = [&](MemoryRequest&, Cycle arrival) {
              last = std::max(last, static_cast<double>(arrival));
            };
            from.askers[port]->send(write, 0);
          } else {
            sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
            from.askers[0]->out.blocking(write, delay);
            last = std::max(last, delay.to_seconds() * 1e9);
            write.release();
          }
        }
        run_until_idle();
        const double limit = kLines * 144.0 / (8.0 * ports);
        CHECK(last >= limit);
        CHECK(last <= limit * 1.02 + 300);
        lab.check_idle();
      }
    }
  }
}

TEST_CASE("a sender without credits waits, and nobody overtakes or is lost", "[link][LNK-03]") {
  SimFixture fixture;
  LinkParams params = params_of(1, 1000, 5);
  params.buffer = 2;
  params.queue = 3;
  LinkLab lab(2, params, TimingMode::at, false);
  lab.gpus[1]->memory.depth = 1;
  lab.gpus[1]->memory.latency = 50;
  std::size_t most = 0;
  std::size_t inside = 0;
  std::vector<std::uint64_t> order;
  lab.gpus[1]->memory.on_request = [&](tlm::tlm_generic_payload& payload, Cycle) {
    order.push_back(payload.get_address());
    most = std::max(most, ++inside);
  };
  std::uint32_t answers = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    lab.gpus[0]->askers[0]->on_response = [&](MemoryRequest& request, Cycle) {
      CHECK(request.is_response_ok());
      ++answers;
      --inside;
    };
    lab.gpus[0]->askers[0]->send(lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 128 * i), 32), 0);
  }
  start();
  run_until(sc_core::sc_time(40, sc_core::SC_NS));
  // One with the memory, two at the end of the link, one that waits there without credit, three in the queue.
  CHECK(lab.gpus[0]->askers[0]->waiting() >= 20 - 8);
  run_until_idle();
  CHECK(answers == 20);
  CHECK(most <= 2);
  REQUIRE(order.size() == 20);
  CHECK(std::is_sorted(order.begin(), order.end()));
  lab.check_idle();
}

TEST_CASE("ports take turns at the home: who comes by another port does not wait for all that is there",
          "[link][LNK-04]") {
  SimFixture fixture;
  LinkParams params = params_of(2, 1000, 5);
  params.buffer = 16;
  params.queue = 32;
  LinkLab lab(2, params, TimingMode::at, false);
  lab.gpus[1]->memory.depth = 1;
  lab.gpus[1]->memory.latency = 50;
  std::vector<std::uint64_t> order;
  lab.gpus[1]->memory.on_request = [&](tlm::tlm_generic_payload& payload, Cycle) {
    order.push_back(payload.get_address());
  };
  // Even lines go by one port, odd lines by the other.
  const auto send = [&](std::uint64_t line, Cycle when) {
    lab.gpus[0]->askers[line % 2]->send(lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 128 * line), 32), when);
  };
  for (std::uint64_t i = 0; i < 12; ++i) send(2 * i, 0);
  run_until(sc_core::sc_time(60, sc_core::SC_NS));  // all of them wait for the memory by now, but the first
  send(1, 60);
  run_until_idle();
  REQUIRE(order.size() == 13);
  const auto odd = std::find(order.begin(), order.end(), 128);
  const auto before = odd - order.begin();
  CAPTURE(before);
  CHECK(before <= 4);
  order.erase(odd);
  CHECK(std::is_sorted(order.begin(), order.end()));
  lab.check_idle();
}

TEST_CASE("a write that a call has sent is seen at its home when it comes, and not before", "[link][LNK-05]") {
  SimFixture fixture;
  LinkLab lab(2, params_of(1, 16, 100), TimingMode::fast, false);
  start();
  MemoryRequest& write = lab.plain(tlm::TLM_WRITE_COMMAND, peer_address(1, 256), 32);
  std::fill_n(write.data.begin(), 32, static_cast<std::uint8_t>(7));
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  lab.gpus[0]->askers.back()->out.blocking(write, delay);
  REQUIRE(write.is_response_ok());
  run_until(sc_core::sc_time(50, sc_core::SC_NS));
  // Its home, which polls, sees nothing of it yet.
  MemoryRequest& poll = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 256), 32);
  sc_core::sc_time own = sc_core::SC_ZERO_TIME;
  lab.gpus[1]->askers.back()->out.blocking(poll, own);
  REQUIRE(poll.is_response_ok());
  CHECK(poll.data[0] == 0);
  run_until(sc_core::sc_time(90, sc_core::SC_NS));
  CHECK(lab.gpus[1]->bytes[256] == 0);
  run_until(sc_core::sc_time(110, sc_core::SC_NS));
  CHECK(lab.gpus[1]->bytes[256] == 7);
  CHECK(delay.to_seconds() * 1e9 >= 200);  // acknowledged when it has come, and a link later
  // A read of the same line that is sent behind it finds it done.
  std::fill_n(write.data.begin(), 32, static_cast<std::uint8_t>(9));
  delay = sc_core::SC_ZERO_TIME;
  lab.gpus[0]->askers.back()->out.blocking(write, delay);
  MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, peer_address(1, 256), 32);
  delay = sc_core::SC_ZERO_TIME;
  lab.gpus[0]->askers.back()->out.blocking(read, delay);
  CHECK(read.data[0] == 9);
  run_until_idle();
  poll.release();
  write.release();
  read.release();
  lab.check_idle();
}

TEST_CASE("random reads and writes of four GPUs leave what they would in one memory", "[link][LNK-04]") {
  for (const std::uint64_t seed : seeds(6)) {
    CAPTURE(seed);
    Random random(seed);
    for (const TimingMode mode : kModes) {
      SimFixture fixture;
      LinkParams params = params_of(random.between(1, 4), random.between(4, 40), random.between(0, 60));
      params.buffer = random.between(1, 8);
      params.queue = random.between(1, 4);
      LinkLab lab(4, params, mode, true, fabric_of(random.between(0, 50)));
      for (auto& gpu : lab.gpus) gpu->memory.depth = random.between(1, 4);
      // Each GPU writes lines of its own, everywhere; what it reads back must be what it wrote last.
      std::map<std::uint64_t, std::uint8_t> written;
      std::size_t open = 0;
      for (std::uint32_t round = 0; round < 20; ++round) {
        std::vector<std::pair<MemoryRequest*, std::uint8_t>> reads;
        for (std::uint32_t g = 0; g < 4; ++g) {
          for (std::uint32_t k = 0; k < 6; ++k) {
            const std::uint64_t line = 4 * random.below(32) + g;
            const std::uint64_t address = peer_address(random.below(4), 128 * line + 32 * random.below(4));
            const bool write = random.chance(50);
            const auto known = written.find(address);
            const bool busy = std::any_of(reads.begin(), reads.end(), [&](const auto& other) {
              return arch::line_of(other.first->get_address()) == arch::line_of(address);
            });
            if (busy) continue;
            MemoryRequest& request = lab.plain(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, 32);
            const auto value = static_cast<std::uint8_t>(random.between(1, 255));
            std::uint8_t expected = known == written.end() ? 0 : known->second;
            if (write) {
              std::fill_n(request.data.begin(), 32, value);
              written[address] = expected = value;
            }
            reads.push_back({&request, expected});
            request.acquire();
            ++open;
            start();
            if (mode == TimingMode::at) {
              lab.gpus[g]->askers[k % (params.ports + 1)]->on_response = [&](MemoryRequest&, Cycle) { --open; };
              lab.gpus[g]->askers[k % (params.ports + 1)]->send(request, lab.gpus[g]->domain.now());
            } else {
              sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
              lab.gpus[g]->askers.back()->out.blocking(request, delay);
              request.release();
              --open;
            }
          }
        }
        run_until_idle();
        CHECK(open == 0);
        for (const auto& [request, expected] : reads) {
          CHECK(request->is_response_ok());
          CHECK(request->data[0] == expected);
          request->release();
        }
      }
      for (const auto& [address, value] : written) {
        const auto& bytes = lab.gpus[arch::peer_of(address)]->bytes;
        CHECK(bytes[arch::peer_offset(address)] == value);
      }
      lab.check_idle();
    }
  }
}

TEST_CASE("the crossbar of a switch shares a port fairly, and others do not wait for it", "[link][LNK-06]") {
  SimFixture fixture;
  LinkParams params = params_of(1, 16, 10);
  LinkLab lab(4, params, TimingMode::at, true, fabric_of(10));
  // GPUs 0 and 1 write to 2; GPU 3 writes to 0, which nobody else does.
  std::map<std::uint32_t, double> last;
  for (const auto& [from, to] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 2}, {1, 2}, {3, 0}}) {
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::uint32_t source = from;
      lab.gpus[from]->askers[0]->on_response = [&last, source](MemoryRequest&, Cycle arrival) {
        last[source] = static_cast<double>(arrival);
      };
      lab.gpus[from]->askers[0]->send(lab.plain(tlm::TLM_WRITE_COMMAND, peer_address(to, 128 * i), 128), 0);
    }
  }
  run_until_idle();
  const double alone = 100 * 144.0 / 16;
  CHECK(last[3] < alone * 1.2 + 100);  // acknowledgements to 3 share nothing with the writes
  CHECK(last[0] > 2 * alone * 0.95);
  CHECK(last[1] == Approx(last[0]).epsilon(0.05));
  lab.check_idle();
}

TEST_CASE("a write to a group leaves once and comes to all of its members", "[link][LNK-07]") {
  for (const TimingMode mode : kModes) {
    SimFixture fixture;
    LinkLab lab(4, params_of(2, 16, 10), mode, true, fabric_of(10));
    MemoryRequest& write = lab.plain(tlm::TLM_WRITE_COMMAND, multicast_address(0, 640), 128);
    for (std::uint32_t i = 0; i < 128; ++i) write.data[i] = static_cast<std::uint8_t>(3 * i + 1);
    lab.ask(2, write);
    REQUIRE(write.is_response_ok());
    for (const auto& gpu : lab.gpus) CHECK(std::equal(write.data.begin(), write.data.end(), gpu->bytes.begin() + 640));
    // The writer's links have carried it once, and those of the switch four times.
    CHECK(lab.gpus[2]->links.port(0).bytes_out() + lab.gpus[2]->links.port(1).bytes_out() == 144 + 16);
    CHECK(lab.own.stats.value("links.switch.multicasts") == 1);
    write.release();
    // A plain read of a group has no meaning.
    MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, multicast_address(0, 640), 32);
    lab.ask(2, read);
    CHECK(read.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    read.release();
    lab.check_idle();
  }
}

TEST_CASE("a switch combines what all members of a group have, element by element", "[link][LNK-08]") {
  for (const TimingMode mode : kModes) {
    SimFixture fixture;
    LinkLab lab(4, params_of(2, 16, 10), mode, true, fabric_of(10, 5));
    for (std::uint32_t g = 0; g < 4; ++g) {
      for (std::uint32_t i = 0; i < 32; ++i) {
        const float value = static_cast<float>(i) + 100.0F * static_cast<float>(g);
        std::memcpy(&lab.gpus[g]->bytes[1024 + 4 * i], &value, 4);
        const std::uint32_t word = 0x4000'0000U + g * 7 + i;  // the sum wraps
        std::memcpy(&lab.gpus[g]->bytes[2048 + 4 * i], &word, 4);
      }
    }
    const auto combined = [&](std::uint64_t at, arch::AtomicKind kind, arch::ValueType type) -> MemoryRequest& {
      MemoryRequest& read = lab.plain(tlm::TLM_READ_COMMAND, multicast_address(0, at), 128);
      read.extension.action = MemoryAction::multimem;
      read.extension.atomic = kind;
      read.extension.type = type;
      lab.ask(1, read);
      return read;
    };
    MemoryRequest& floats = combined(1024, arch::AtomicKind::add, arch::ValueType::f32);
    MemoryRequest& words = combined(2048, arch::AtomicKind::add, arch::ValueType::u32);
    MemoryRequest& most = combined(2048, arch::AtomicKind::max, arch::ValueType::u32);
    REQUIRE(floats.is_response_ok());
    REQUIRE(words.is_response_ok());
    REQUIRE(most.is_response_ok());
    for (std::uint32_t i = 0; i < 32; ++i) {
      float sum = 0;
      std::uint32_t total = 0;
      std::uint32_t largest = 0;
      std::memcpy(&sum, &floats.data[4 * i], 4);
      std::memcpy(&total, &words.data[4 * i], 4);
      std::memcpy(&largest, &most.data[4 * i], 4);
      CHECK(sum == 4.0F * static_cast<float>(i) + 600.0F);
      CHECK(total == 42 + 4 * i);
      CHECK(largest == 0x4000'0000U + 21 + i);
    }
    CHECK(lab.own.stats.value("links.switch.reductions") == 3);
    for (MemoryRequest* request : {&floats, &words, &most}) request->release();
    lab.check_idle();
  }
}

TEST_CASE("a reset in mid-flight leaves nothing on the links", "[link][LNK-03]") {
  SimFixture fixture;
  LinkLab lab(2, params_of(1, 4, 30), TimingMode::at, false);
  for (std::uint32_t i = 0; i < 30; ++i) {
    lab.gpus[0]->askers[0]->send(lab.plain(tlm::TLM_WRITE_COMMAND, peer_address(1, 128 * i), 128), 0);
  }
  start();
  run_until(sc_core::sc_time(200, sc_core::SC_NS));
  for (auto& gpu : lab.gpus) gpu->domain.reset();
  run_until_idle();
  lab.check_idle();
  CHECK(lab.gpus[0]->links.payloads() == 0);
}

}  // namespace heddle::test::link_test
