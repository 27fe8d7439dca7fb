#include "host/dma_port.h"

#include "host/hub_bench.h"

namespace heddle::test::host_dma_port_test {
namespace {

using host::DmaOrder;
using host::HubParams;

// A host that takes everything and answers after a fixed time.
class CalmHost : public sc_core::sc_module, private tlm::tlm_fw_transport_if<> {
 public:
  CalmHost(const sc_core::sc_module_name& name, const sc_core::sc_time& time)
      : sc_core::sc_module(name), socket("socket"), time_(time) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  }
  tlm::tlm_target_socket<> socket;
  std::vector<sc_core::sc_time> arrivals;
  std::vector<std::pair<tlm::tlm_command, std::uint32_t>> requests;  // and bytes

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                     sc_core::sc_time& delay) override {
    b_transport(payload, delay);
    return tlm::TLM_COMPLETED;
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override {
    arrivals.push_back(sc_core::sc_time_stamp() + delay);
    requests.emplace_back(payload.get_command(), payload.get_data_length());
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay += time_;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

  const sc_core::sc_time time_;
};

const sc_core::sc_time kNs(1, sc_core::SC_NS);

}  // namespace

TEST_CASE("accesses wait for earlier ones to the same bytes, and for no others", "[host][HST-01]") {
  struct Access {
    std::uint64_t begin, end;
    bool changes, waits, over;
  };
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random dice(seed);
    DmaOrder order;
    std::vector<Access> all;
    const auto conflicts = [&](std::size_t number) {  // the rule, in full
      for (std::size_t i = 0; i < number; ++i) {
        const Access& a = all[i];
        const Access& b = all[number];
        if (!a.over && (a.changes || b.changes) && a.begin < b.end && b.begin < a.end) return true;
      }
      return false;
    };
    for (std::uint32_t step = 0; step < 400; ++step) {
      if (dice.chance(55)) {
        // Lines that share a place in the table, too.
        const std::uint64_t line = (dice.below(3) + dice.below(2) * 256) * 128;
        const std::uint32_t offset = dice.below(120);
        const std::uint32_t bytes = dice.between(1, 128 - offset);
        all.push_back({line + offset, line + offset + bytes, dice.chance(50), false, false});
        all.back().waits = conflicts(all.size() - 1);
        REQUIRE(order.enter(static_cast<std::uint32_t>(all.size() - 1), line + offset, bytes, all.back().changes) ==
                !all.back().waits);
        continue;
      }
      std::vector<std::uint32_t> running;
      for (std::uint32_t i = 0; i < all.size(); ++i)
        if (!all[i].over && !all[i].waits) running.push_back(i);
      if (running.empty()) continue;
      const std::uint32_t ended = running[dice.below(running.size())];
      all[ended].over = true;
      std::vector<std::uint32_t> freed;
      order.leave(ended, all[ended].begin, freed);
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 0; i < all.size(); ++i) {
        if (!all[i].waits || conflicts(i)) continue;
        all[i].waits = false;
        expected.push_back(i);
      }
      REQUIRE(freed == expected);
    }
  }
}

TEST_CASE("a request takes the link's time both ways, and its bytes take theirs", "[host][HST-01]") {
  SimFixture fixture;
  HubParams params;
  params.link_latency = 250;
  params.link_bandwidth = 1;  // one byte per cycle of 1 ns
  HubBench bench(params, TimingMode::at, 1);
  CalmHost host("host", 40 * kNs);
  bench.hub.dma().bind(host.socket);
  start();
  std::vector<Cycle> answers;
  bench.clients[0]->on_response = [&](protocol::MemoryRequest&, Cycle arrival) { answers.push_back(arrival); };
  bench.clients[0]->gap = 0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    bench.clients[0]->send(bench.plain(tlm::TLM_WRITE_COMMAND, arch::kHostWindow + i * 128, 128), 0);
  }
  run_until_idle();
  REQUIRE(host.arrivals.size() == 4);
  CHECK(host.arrivals[0] == 250 * kNs);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(host.arrivals[i] - host.arrivals[i - 1] == 152 * kNs);  // 128 bytes and a header of 24
  }
  CHECK(answers[0] == 250 + 40 + 250);
  CHECK(answers[3] == 3 * 152 + 250 + 40 + 250);
  // Reads carry their data on the way back.
  answers.clear();
  host.arrivals.clear();
  const Cycle begin = bench.domain.now();
  for (std::uint64_t i = 0; i < 4; ++i) {
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + i * 128, 128), begin);
  }
  run_until_idle();
  CHECK(host.arrivals[3] - host.arrivals[0] == 3 * 24 * kNs);
  CHECK(answers[3] - answers[0] == 3 * 152);
}

TEST_CASE("no more requests are on the bus than there are tags", "[host][HST-01]") {
  for (const std::uint32_t tags : {1U, 3U, 8U}) {
    SimFixture fixture;
    HubParams params;
    params.link_tags = tags;
    params.link_latency = 100;
    params.link_bandwidth = 1000;
    HubBench bench(params, TimingMode::at, 1);
    CalmHost host("host", 300 * kNs);
    bench.hub.dma().bind(host.socket);
    start();
    for (std::uint64_t i = 0; i < 24; ++i) {
      bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + i * 128, 64), 0);
    }
    run_until_idle();
    REQUIRE(host.arrivals.size() == 24);
    // A tag is free again after the way there, the host's time and the way back.
    for (std::size_t i = tags; i < 24; ++i) CHECK(host.arrivals[i] - host.arrivals[i - tags] >= 500 * kNs);
    CHECK(host.arrivals[tags - 1] - host.arrivals[0] < 100 * kNs);
  }
}

TEST_CASE("a write with holes becomes several, and one without any bytes none", "[host][HST-02]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    HubBench bench(HubParams(), mode, 1);
    CalmHost host("host", kNs);
    bench.hub.dma().bind(host.socket);
    start();
    auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, arch::kHostWindow + 16, 16);
    std::uint8_t* enables = write.use_enables();
    for (const std::uint32_t byte : {1U, 2U, 3U, 7U, 14U, 15U}) enables[byte] = TLM_BYTE_ENABLED;
    CHECK(bench.status_of(write) == tlm::TLM_OK_RESPONSE);
    using Request = std::pair<tlm::tlm_command, std::uint32_t>;
    CHECK(host.requests ==
          std::vector<Request>{{tlm::TLM_WRITE_COMMAND, 3}, {tlm::TLM_WRITE_COMMAND, 1}, {tlm::TLM_WRITE_COMMAND, 2}});
    host.requests.clear();
    auto& read = bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + 16, 16);
    enables = read.use_enables();
    std::fill_n(enables, 16, TLM_BYTE_DISABLED);
    enables[2] = enables[9] = TLM_BYTE_ENABLED;
    CHECK(bench.status_of(read) == tlm::TLM_OK_RESPONSE);
    CHECK(host.requests == std::vector<Request>{{tlm::TLM_READ_COMMAND, 8}});
    host.requests.clear();
    auto& nothing = bench.plain(tlm::TLM_WRITE_COMMAND, arch::kHostWindow, 4);
    std::fill_n(nothing.use_enables(), 4, TLM_BYTE_DISABLED);
    CHECK(bench.status_of(nothing) == tlm::TLM_OK_RESPONSE);
    CHECK(host.requests.empty());
  }
}

TEST_CASE("errors of the host come back, and no host at all is one", "[host][MEM-05]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const RoughHost::Atomics atomics : {RoughHost::Atomics::knows, RoughHost::Atomics::ignores}) {
      SimFixture fixture;
      HubBench bench(HubParams(), mode, 1);
      RoughHost host("host", 1024, 7, atomics);
      host.refused = {1};
      bench.hub.dma().bind(host.socket);
      start();
      const std::uint64_t window = arch::kHostWindow;
      CHECK(bench.status_of(bench.plain(tlm::TLM_READ_COMMAND, window + 130, 8)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      CHECK(bench.status_of(bench.plain(tlm::TLM_WRITE_COMMAND, window + 4096, 8)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      CHECK(bench.status_of(bench.add(window + 136, 1)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      CHECK(bench.status_of(bench.add(window + 256, 1)) == tlm::TLM_OK_RESPONSE);
      CHECK(bench.status_of(bench.add(window + 260, 1)) == tlm::TLM_BURST_ERROR_RESPONSE);  // misaligned
      auto& strange = bench.add(window + 256, 1);
      strange.extension.atomic = arch::AtomicKind::increment;  // not of 64 bits
      CHECK(bench.status_of(strange) == tlm::TLM_COMMAND_ERROR_RESPONSE);
      CHECK(host.bytes[256] == 1);
    }
    SimFixture fixture;
    HubBench bench(HubParams(), mode, 1);
    start();
    CHECK(bench.status_of(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow, 8)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(bench.status_of(bench.plain(tlm::TLM_READ_COMMAND, 0, 8)) == tlm::TLM_OK_RESPONSE);
  }
}

TEST_CASE("an address that the way has changed is not the way back", "[host][HST-02]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const RoughHost::Atomics atomics :
         {RoughHost::Atomics::knows, RoughHost::Atomics::ignores, RoughHost::Atomics::refuses}) {
      CAPTURE(mode == TimingMode::at, static_cast<int>(atomics));
      SimFixture fixture;
      HubBench bench(HubParams(), mode, 1);
      RoughHost host("host", 1024, 7, atomics);
      host.moves = true;
      bench.hub.dma().bind(host.socket);
      start();
      std::vector<std::uint8_t> expected(1024);
      for (std::uint64_t i = 0; i < 12; ++i) {
        const std::uint64_t address = i % 4 * 136;
        REQUIRE(bench.status_of(bench.add(arch::kHostWindow + address, 3)) == tlm::TLM_OK_RESPONSE);
        expected[address] = static_cast<std::uint8_t>(expected[address] + 3);
      }
      auto& two = bench.add(arch::kHostWindow + 512, 1);  // two values of one line
      two.extension.lanes = 2;
      two.extension.lane[1] = {2, 0, 0, 96, 1};
      REQUIRE(bench.status_of(two) == tlm::TLM_OK_RESPONSE);
      expected[512] = 1;
      expected[512 + 96] = 2;
      CHECK(host.bytes == expected);
    }
  }
}

TEST_CASE("whether atomics are known is asked by region, and the answer is remembered", "[host][HST-01][HST-06]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const host::AtomicOffer way : {host::AtomicOffer::ask, host::AtomicOffer::offer, host::AtomicOffer::split}) {
      CAPTURE(mode == TimingMode::at, static_cast<int>(way));
      SimFixture fixture;
      HubParams params;
      params.dma_atomics = way;
      HubBench bench(params, mode, 1);
      RoughHost host("host", 16 * 1024, 7, RoughHost::Atomics::knows);
      host.known = 8192;
      host.refused = {3};
      bench.hub.dma().bind(host.socket);
      start();
      const bool any = way != host::AtomicOffer::split;
      const auto add = [&](std::uint64_t address) {
        return bench.status_of(bench.add(arch::kHostWindow + address, 1));
      };
      CHECK(add(3 * 128) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      CHECK(add(0) == tlm::TLM_OK_RESPONSE);
      CHECK(bench.stat("dma.atomics") == (any ? 1 : 0));
      CHECK(add(8192) == tlm::TLM_OK_RESPONSE);  // somebody else, who knows nothing
      CHECK(add(8) == tlm::TLM_OK_RESPONSE);
      CHECK(bench.stat("dma.atomics") == (any ? 2 : 0));
      CHECK(bench.stat("dma.split_atomics") == (any ? 2 : 4));
      const std::uint64_t probes = host.probes;
      const std::uint64_t asked = host.asked;
      CHECK(add(8192) == tlm::TLM_OK_RESPONSE);  // not asked again
      CHECK(add(8200) == tlm::TLM_OK_RESPONSE);
      CHECK((host.probes == probes && host.asked == asked));
      CHECK(add(8192 + host::AtomicRegions::kBytes) == tlm::TLM_OK_RESPONSE);
      CHECK(host.probes == probes + (way == host::AtomicOffer::offer ? 1 : 0));
      CHECK(host.asked == asked + (way == host::AtomicOffer::ask ? 1 : 0));
      CHECK(bench.stat("dma.atomics") == (any ? 2 : 0));
      CHECK((host.bytes[0] == 1 && host.bytes[8] == 1 && host.bytes[8192] == 2 && host.bytes[8200] == 1));
      CHECK((host.bytes[3 * 128] == 0 && host.bytes[8192 + 4096] == 1));
      // After a reset nothing is known.
      bench.domain.reset();
      CHECK(add(8192) == tlm::TLM_OK_RESPONSE);
      CHECK(host.asked == asked + (way == host::AtomicOffer::ask ? 2 : 0));
    }
  }
}

TEST_CASE("what was written before a reset does not land on what is written after it", "[host][HST-01][HST-02]") {
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    SimFixture fixture;
    HubBench bench(HubParams(), TimingMode::at, 1);
    RoughHost host("host", 4096, 7, RoughHost::Atomics::knows);
    bench.hub.dma().bind(host.socket);
    start();
    host.silent = true;
    const auto write = [&](std::uint64_t address, std::uint8_t value) {
      auto& request = bench.plain(tlm::TLM_WRITE_COMMAND, arch::kHostWindow + address, 8);
      std::fill_n(request.data.begin(), 8, value);
      bench.clients[0]->send(request, bench.domain.now());
    };
    std::uint32_t answers = 0;
    bench.clients[0]->on_response = [&](protocol::MemoryRequest&, Cycle) { ++answers; };
    write(64, 0x11);
    write(128, 0x11);
    bench.clients[0]->send(bench.add(arch::kHostWindow + 256, 1), bench.domain.now());
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + 512, 8), bench.domain.now());
    run_until(sc_core::sc_time_stamp() + 5000 * kNs);
    REQUIRE(host.kept.size() == 4);
    CHECK(bench.hub.settled());  // there was no reset
    bench.domain.reset();
    if (twice) bench.domain.reset();
    CHECK(bench.hub.idle());
    CHECK_FALSE(bench.hub.settled());
    const std::uint64_t before = host.requests;
    write(64, 0x22);
    write(132, 0x22);  // a part of the second
    bench.clients[0]->send(bench.add(arch::kHostWindow + 256, 1), bench.domain.now());
    write(512, 0x22);  // what was read
    write(1024, 0x22);
    run_until(sc_core::sc_time_stamp() + 5000 * kNs);
    CHECK(host.requests == before + 2);
    host.answer_kept();
    run_until_idle();
    CHECK(answers == 5);
    CHECK(bench.hub.settled());
    CHECK(bench.hub.payloads() == 0);
    std::vector<std::uint8_t> expected(4096);
    for (const std::uint64_t at : {64U, 132U, 512U, 1024U}) std::fill_n(expected.begin() + at, 8, 0x22);
    std::fill_n(expected.begin() + 128, 4, 0x11);
    expected[256] = 2;
    CHECK(host.bytes == expected);
  }
}

}  // namespace heddle::test::host_dma_port_test
