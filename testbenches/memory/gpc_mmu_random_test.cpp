// Random traffic through the TLB of a GPC and the memory management unit, while page tables change (MEM-04, PRT-08).
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/mmu_bench.h"
#include "support/random.h"

namespace memory_gpc_mmu_random_test {

using namespace heddle;
using namespace heddle::test;
using arch::kLargePage;
using arch::kSmallPage;
using protocol::MemoryRequest;

namespace {

// Random traffic of several subcontexts, two of which change their roots while it runs.
class Storm {
 public:
  Storm(MmuBench& bench, Random& random) : bench_(bench), random_(random) {
    for (std::uint32_t i = 0; i < kSpaces; ++i) fill(bench.add_space());
    for (std::size_t i = 0; i < bench.initiators.size(); ++i) listen(i);
    expected_.resize(bench.initiators.size());
    roots_.assign(kSubcontexts, {{0, kNoRoot}});
  }

  // Which space, or none, from now on.
  void set(std::uint8_t subcontext, std::uint32_t space) {
    bench_.set_root(subcontext, space == kNoRoot ? 0 : bench_.spaces[space]->tables.root());
    roots_[subcontext].push_back({bench_.domain.now(), space});
  }
  void set_any(std::uint8_t subcontext) { set(subcontext, random_.chance(15) ? kNoRoot : random_.below(kSpaces)); }

  MemoryRequest& make() {
    const auto subcontext = static_cast<std::uint8_t>(random_.below(kSubcontexts));
    const std::uint64_t address = random_.below(40) * kSmallPage + random_.below(kSmallPage / 32) * 32;
    const bool write = random_.chance(40);
    MemoryRequest& request =
        bench_.request(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, subcontext);
    for (std::uint8_t& byte : request.data) byte = static_cast<std::uint8_t>(random_.next());
    request.extension.physical = random_.chance(10);
    return request;
  }
  void send(std::size_t port, Cycle when) {
    MemoryRequest& request = make();
    request.extension.entry = static_cast<std::uint32_t>(notes_.size());
    notes_.push_back({request.get_address(), request.extension.subcontext, request.is_write(),
                      request.extension.physical, bench_.domain.now(), kNever, 0});
    expected_[port].push_back(request.extension.entry);
    ++open;
    bench_.initiators[port]->send(request, when);
  }
  void forget() {
    for (auto& order : expected_) order.clear();
    open = 0;
    for (auto& changes : roots_) changes.assign(1, {0, kNoRoot});
  }
  // What may become of an access: for each space that the subcontext may have had at that time.
  struct Outcome {
    bool allowed = false;
    std::uint64_t physical = 0;
    bool there = false;
  };
  std::vector<Outcome> outcomes(std::uint64_t address, std::uint8_t subcontext, bool write, Cycle from, Cycle to) {
    std::vector<Outcome> result;
    const auto& changes = roots_[subcontext];
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const Cycle end = i + 1 < changes.size() ? changes[i + 1].first + bench_.params.distance + 1 : kNever;
      if (changes[i].first > to || end < from) continue;
      if (changes[i].second == kNoRoot) {
        result.push_back({true, address, true});
        continue;
      }
      const auto* range = bench_.spaces[changes[i].second]->mappings.find(address);
      if (range == nullptr) {
        result.push_back({});
      } else {
        result.push_back({range->writable || !write, range->physical + (address - range->first), true});
      }
    }
    return result;
  }

  static constexpr std::uint32_t kSubcontexts = 5;
  static constexpr std::uint32_t kSpaces = 6;
  static constexpr std::uint32_t kNoRoot = ~std::uint32_t{0};
  std::uint64_t open = 0;
  std::uint64_t refused = 0;
  std::uint64_t passed = 0;

 private:
  struct Note {
    std::uint64_t address = 0;
    std::uint8_t subcontext = 0;
    bool write = false;
    bool physical = false;
    Cycle sent = 0;
    Cycle reached = kNever;
    std::uint64_t where = 0;
  };

  void fill(Space& space) {
    const std::uint32_t count = random_.between(1, 12);
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool large = random_.chance(30);
      const std::uint64_t unit = large ? kLargePage : kSmallPage;
      const std::uint64_t first = random_.below(large ? 2 : 36) * unit;
      const std::uint64_t pages = large ? 1 : random_.between(1, 4);
      space.map(first, random_.below(MmuBench::kTables / unit - pages + 1) * unit, pages * unit, random_.chance(60));
    }
  }
  void listen(std::size_t port) {
    bench_.memories[port]->on_request = [this, port](tlm::tlm_generic_payload& payload, Cycle when) {
      const std::uint32_t number = protocol::extension_of(payload)->entry;
      notes_[number].reached = when;
      notes_[number].where = payload.get_address();
      // Of those that reach memory, none passes another.
      auto& order = expected_[port];
      while (!order.empty() && order.front() != number) {
        passed_over_.push_back(order.front());
        order.erase(order.begin());
      }
      REQUIRE_FALSE(order.empty());
      order.erase(order.begin());
    };
    bench_.initiators[port]->on_response = [this](MemoryRequest& answer, Cycle) { check(answer); };
  }
  void check(MemoryRequest& answer) {
    --open;
    const Note& note = notes_[answer.extension.entry];
    CAPTURE(note.address, note.subcontext, note.write, note.physical);
    REQUIRE(answer.get_address() == note.address);
    const bool reached = note.reached != kNever;
    if (note.physical) {
      REQUIRE(reached);
      REQUIRE(note.where == note.address);
      return;
    }
    reached ? ++passed : ++refused;
    bool fits = false;
    for (const Outcome& outcome : outcomes(note.address, note.subcontext, note.write, note.sent, bench_.domain.now())) {
      if (reached) {
        fits |= outcome.allowed && outcome.physical == note.where && !answer.extension.unmapped;
      } else {
        const auto status = outcome.there ? tlm::TLM_COMMAND_ERROR_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE;
        fits |= !outcome.allowed && answer.extension.unmapped && answer.get_response_status() == status;
      }
    }
    REQUIRE(fits);
  }

  MmuBench& bench_;
  Random& random_;
  std::vector<Note> notes_;
  std::vector<std::vector<std::uint32_t>> expected_;  // by port
  std::vector<std::uint32_t> passed_over_;
  std::vector<std::vector<std::pair<Cycle, std::uint32_t>>> roots_;  // by subcontext
};

memory::MmuParams random_params(Random& random) {
  memory::MmuParams params;
  params.enabled = true;
  params.gpc_tlb.entries = random.between(1, 20);
  params.gpc_tlb.ways = random.between(1, 4);
  params.gpc_tlb.latency = random.between(0, 5);
  params.gpc_tlb.misses = random.between(1, 6);
  params.gpc_tlb.queue = random.between(1, 6);
  params.l2_tlb.entries = random.between(1, 40);
  params.l2_tlb.ways = random.between(1, 4);
  params.l2_tlb.latency = random.between(0, 10);
  params.distance = random.between(0, 30);
  params.walkers = random.between(1, 4);
  return params;
}

void disturb(MmuBench& bench, Random& random) {
  for (std::size_t i = 0; i < bench.initiators.size(); ++i) {
    bench.initiators[i]->gap = random.between(0, 3);
    bench.memories[i]->latency = random.between(1, 30);
    bench.memories[i]->depth = random.between(1, 8);
    if (random.chance(50)) {
      bench.initiators[i]->hold = [&random](MemoryRequest&) { return random.chance(30) ? random.between(1, 20) : 0; };
    }
    if (random.chance(50))
      bench.memories[i]->hold = [&random] { return random.chance(30) ? random.between(1, 20) : 0; };
  }
  bench.table_memory.latency = random.between(1, 40);
  bench.table_memory.depth = random.between(1, 4);
}

}  // namespace

TEST_CASE("random traffic is translated as the tables say, while they change, and after a reset",
          "[gpc_mmu][random][MEM-04][PRT-08]") {
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture sim;
    MmuBench bench(random_params(random), TimingMode::at, random.between(1, 2), random.between(1, 3));
    Storm storm(bench, random);
    disturb(bench, random);
    start();
    const auto ports = bench.initiators.size();
    for (int part = 0; part < 3; ++part) {
      for (std::uint8_t subcontext = 1; subcontext < Storm::kSubcontexts; ++subcontext) storm.set_any(subcontext);
      for (int burst = 0; burst < 12; ++burst) {
        for (std::uint32_t i = random.between(1, 40); i > 0; --i) {
          storm.send(random.below(ports), bench.domain.now() + random.below(100));
        }
        run_until(sc_core::sc_time_stamp() + sc_core::sc_time(random.between(1, 200), sc_core::SC_NS));
        if (random.chance(40)) storm.set_any(static_cast<std::uint8_t>(random.below(Storm::kSubcontexts)));
      }
      if (part < 2 && random.chance(50)) {
        bench.reset();  // whatever is under way
        storm.forget();
        continue;
      }
      run_until_idle();
      REQUIRE(storm.open == 0);
      REQUIRE(bench.finished());
    }
    for (const std::string& violation : bench.violations()) FAIL_CHECK(violation);
    CHECK(storm.passed > 50);
    CHECK(storm.refused > 0);
    CHECK(bench.mmu.idle());
  }
}

TEST_CASE("blocking calls are translated as the tables say", "[gpc_mmu][random][MEM-04][PRT-08]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture sim;
    MmuBench bench(random_params(random), TimingMode::lt, 2, 2);
    Storm storm(bench, random);
    start();
    for (int step = 0; step < 400; ++step) {
      if (random.chance(3)) {
        storm.set_any(static_cast<std::uint8_t>(random.below(Storm::kSubcontexts)));
        run_until(sc_core::sc_time_stamp() + sc_core::sc_time(100, sc_core::SC_NS));
      }
      if (step == 200) {
        bench.reset();
        storm.forget();
      }
      MemoryRequest& request = storm.make();
      const std::uint64_t address = request.get_address();
      const bool write = request.is_write();
      const std::vector<std::uint8_t> data(request.data.begin(), request.data.begin() + 32);
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      bench.initiators[random.below(4)]->out.blocking(request, delay);
      REQUIRE(request.get_address() == address);
      const Cycle now = bench.domain.now();
      auto outcome = storm.outcomes(address, request.extension.subcontext, write, now, now).back();
      if (request.extension.physical) outcome = {true, address, true};
      REQUIRE(request.is_response_ok() == outcome.allowed);
      REQUIRE(request.extension.unmapped == !outcome.allowed);
      if (outcome.allowed) {
        const std::vector<std::uint8_t> there(bench.bytes.begin() + static_cast<std::ptrdiff_t>(outcome.physical),
                                              bench.bytes.begin() + static_cast<std::ptrdiff_t>(outcome.physical) + 32);
        const std::vector<std::uint8_t> seen(request.data.begin(), request.data.begin() + 32);
        REQUIRE(there == (write ? data : seen));
      }
      request.release();
    }
    for (const std::string& violation : bench.violations()) FAIL_CHECK(violation);
    CHECK(bench.pool.in_use() == 0);
    CHECK(bench.stat("mmu.walks") > 5);
  }
}

}  // namespace memory_gpc_mmu_random_test
