#include "host/host_memory.h"
#include "host/hub_bench.h"

namespace heddle::test::host_memory_hub_random_test {
namespace {

constexpr std::uint32_t kClients = 3;
constexpr std::uint32_t kLines = 10;  // of each client, on each side

// Each client works on lines of its own, in order; lines of both memories, back-pressure on all sides.
struct Crowd {
  Crowd(HubBench& bench_, Random& dice_, std::uint32_t steps_, std::vector<std::uint8_t>& host_)
      : bench(bench_), dice(dice_), device(bench.bytes), host(host_), steps(kClients) {
    for (std::uint32_t client = 0; client < kClients; ++client) {
      for (std::uint32_t i = 0; i < steps_; ++i) {
        Planned planned;
        planned.host = dice.chance(50);
        planned.step = MemoryStep(dice, client * kLines, kLines);
        if (dice.chance(2)) {
          planned.step = MemoryStep();
          planned.step.action = protocol::MemoryAction::write_back;
        } else {
          planned.step.apply(planned.host ? host : device);
        }
        steps[client].push_back(planned);
      }
    }
    for (std::uint32_t client = 0; client < kClients; ++client) submit(client);
  }

  void submit(std::uint32_t client) {
    TestInitiator& initiator = *bench.clients[client];
    initiator.hold = [this](protocol::MemoryRequest&) { return dice.chance(20) ? Cycle{dice.below(30)} : Cycle{0}; };
    initiator.on_response = [this, client](protocol::MemoryRequest& request, Cycle) {
      const Planned& planned = steps[client][request.extension.entry];
      REQUIRE(request.get_response_status() == tlm::TLM_OK_RESPONSE);
      if (planned.step.action != protocol::MemoryAction::write_back) planned.step.check(request);
      ++answered;
    };
    for (std::uint32_t i = 0; i < steps[client].size(); ++i) {
      const Planned& planned = steps[client][i];
      auto& request = planned.step.request(bench.pool, planned.host ? arch::kHostWindow : 0);
      request.extension.entry = i;
      initiator.send(request, bench.domain.now());
    }
  }

  struct Planned {
    bool host = false;
    MemoryStep step;
  };
  HubBench& bench;
  Random& dice;
  std::vector<std::uint8_t> device;
  std::vector<std::uint8_t>& host;
  std::vector<std::vector<Planned>> steps;
  std::uint32_t answered = 0;
};

host::HubParams random_params(Random& dice) {
  host::HubParams params;
  params.latency = dice.below(40);
  params.bandwidth = dice.chance(50) ? 64 : 3.5;
  params.link_latency = dice.below(300);
  params.link_bandwidth = dice.chance(50) ? 55 : 4;
  params.link_tags = dice.chance(50) ? 64 : dice.between(1, 4);
  params.queue = dice.between(1, 16);
  params.dma_atomics = dice.chance(50) ? host::AtomicOffer::ask : host::AtomicOffer::offer;
  params.dma_transport = dice.chance(70) ? host::DmaTransport::nonblocking : host::DmaTransport::automatic;
  params.dma_calls = dice.chance(50) ? 256 : dice.between(1, 4);
  return params;
}

std::uint8_t debug_byte(HubBench& bench, std::uint64_t address) {
  auto& request = bench.plain(tlm::TLM_READ_COMMAND, address, 1);
  REQUIRE(bench.clients[0]->out.debug(request) == 1);
  const std::uint8_t value = request.data[0];
  request.release();
  return value;
}

void disturb(HubBench& bench, Random& dice) {
  for (auto& memory : bench.memories) {
    memory->latency = dice.between(0, 60);
    memory->depth = dice.between(1, 8);
    memory->hold = [&dice] { return dice.chance(20) ? Cycle{dice.below(20)} : Cycle{0}; };
  }
}

}  // namespace

TEST_CASE("every byte of random traffic is right, on both sides of the hub, whatever the host's bus does",
          "[host][HST-01][HST-02][MEM-06]") {
  std::array<std::uint64_t, 6> forms{};
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const RoughHost::Atomics atomics :
         {RoughHost::Atomics::knows, RoughHost::Atomics::ignores, RoughHost::Atomics::refuses}) {
      for (const std::uint64_t seed : seeds(3)) {
        CAPTURE(seed, mode == TimingMode::at, static_cast<int>(atomics));
        SimFixture fixture;
        Random dice(seed);
        const host::HubParams params = random_params(dice);
        HubBench bench(params, mode, kClients);
        RoughHost host("host", kClients * kLines * 128, seed, atomics);
        bench.hub.dma().bind(host.socket);
        disturb(bench, dice);
        start();
        std::vector<std::uint8_t> expected = host.bytes;
        Crowd crowd(bench, dice, 250, expected);
        run_until_idle();
        REQUIRE(crowd.answered == kClients * 250);
        REQUIRE(bench.hub.idle());
        REQUIRE(host.open() == 0);
        REQUIRE(host.bytes == expected);
        for (std::uint64_t i = 0; i < kClients * kLines * 128; ++i) {
          REQUIRE(debug_byte(bench, i) == crowd.device[i]);
          if (i % 7 == 0) REQUIRE(debug_byte(bench, arch::kHostWindow + i) == expected[i]);
        }
        const bool knows = atomics == RoughHost::Atomics::knows;
        CHECK((host.asked > 0) == (params.dma_atomics == host::AtomicOffer::ask));
        if (!knows && params.dma_atomics == host::AtomicOffer::ask) CHECK(host.probes == 0);
        if (!knows) CHECK(host.probes < bench.stat("dma.split_atomics") / 2);
        CHECK((bench.stat("dma.atomics") > 0) == knows);
        for (std::size_t i = 0; i < forms.size(); ++i) forms[i] += host.forms[i];
      }
    }
  }
  for (const std::uint64_t count : forms) CHECK(count > 100);
}

TEST_CASE("random traffic through the hub to a host memory", "[host][HST-01][HST-02]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const std::uint64_t seed : seeds(4)) {
      CAPTURE(seed, mode == TimingMode::at);
      SimFixture fixture;
      Random dice(seed + 100);
      HubBench bench(random_params(dice), mode, kClients);
      host::HostMemory host("host", kClients * kLines * 128, sc_core::sc_time(dice.below(200), sc_core::SC_NS), 1);
      bench.hub.dma().bind(host.port(0));
      disturb(bench, dice);
      start();
      std::vector<std::uint8_t> expected(host.bytes());
      Crowd crowd(bench, dice, 400, expected);
      run_until_idle();
      REQUIRE(crowd.answered == kClients * 400);
      std::vector<std::uint8_t> found(host.bytes());
      REQUIRE(host.read(0, found.data(), found.size()));
      REQUIRE(found == expected);
      CHECK(bench.stat("dma.split_atomics") == 0);
      CHECK(bench.stat("dma.atomics") > 0);
    }
  }
}

TEST_CASE("a reset in mid-flight leaves payloads alive that the host still has", "[host][HST-02]") {
  std::uint32_t interrupted = 0;
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const std::uint64_t seed : seeds(6)) {
      CAPTURE(seed, mode == TimingMode::at);
      SimFixture fixture;
      Random dice(seed + 200);
      HubBench bench(random_params(dice), mode, kClients);
      RoughHost host("host", kClients * kLines * 128, seed, RoughHost::Atomics::ignores);
      bench.hub.dma().bind(host.socket);
      disturb(bench, dice);
      start();
      std::vector<std::uint8_t> scratch = host.bytes;
      Crowd first(bench, dice, 200, scratch);
      run_until(sc_core::sc_time(dice.between(200, 6000), sc_core::SC_NS));
      const bool silence = mode == TimingMode::at && dice.chance(50);
      if (silence) {
        host.silent = true;
        run_until(sc_core::sc_time_stamp() + sc_core::sc_time(500, sc_core::SC_NS));
      }
      if (!bench.hub.idle()) ++interrupted;
      bench.domain.reset();
      REQUIRE(bench.hub.idle());
      if (silence) host.answer_kept();
      run_until_idle();  // what the host still had
      REQUIRE(host.open() == 0);
      std::vector<std::uint8_t> expected = host.bytes;
      Crowd second(bench, dice, 200, expected);
      run_until_idle();
      REQUIRE(second.answered == kClients * 200);
      REQUIRE(host.bytes == expected);
    }
  }
  CHECK(interrupted > 6);
}

TEST_CASE("two devices share a host memory and no increment is lost", "[host][HST-01]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    host::HubParams params;
    HubBench one(params, mode, 1, "gpu0");
    HubBench two(params, TimingMode::at, 1, "gpu1");
    host::HostMemory host("host", 4096, sc_core::sc_time(120, sc_core::SC_NS), 2);
    one.hub.dma().bind(host.port(0));
    two.hub.dma().bind(host.port(1));
    start();
    constexpr std::uint64_t kAdds = 10'000;
    std::vector<bool> seen(2 * kAdds, false);
    for (HubBench* bench : {&one, &two}) {
      bench->clients[0]->on_response = [&](protocol::MemoryRequest& request, Cycle) {
        REQUIRE(request.is_response_ok());
        REQUIRE_FALSE(seen[request.extension.lane[0].old]);
        seen[request.extension.lane[0].old] = true;
      };
      for (std::uint64_t i = 0; i < kAdds; ++i) {
        bench->clients[0]->send(bench->add(arch::kHostWindow + 264, 1), bench->domain.now());
      }
    }
    run_until_idle();
    std::uint64_t value = 0;
    REQUIRE(host.read(264, &value, 8));
    CHECK(value == 2 * kAdds);
  }
}

}  // namespace heddle::test::host_memory_hub_random_test
