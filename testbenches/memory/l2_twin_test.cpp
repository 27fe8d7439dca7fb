// Slices that keep copies of their twins' lines: what SMs of both partitions and the memory hub see of the same lines,
// against what coherence allows; and what the copies cost and save.
#include "memory/l2_twin.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/bandwidth_table.h"
#include "arch/gpu_observation.h"
#include "memory/l2_slice.h"
#include "memory/memory_bench.h"

namespace heddle::test::memory_l2_twin_test {
namespace {

using memory::L2Params;
using memory::L2Slice;
using protocol::MemoryAction;
using protocol::MemoryRequest;

constexpr std::uint32_t kLatency = 25;
constexpr std::uint32_t kHub = 2;  // agents: SMs of partition 0, of partition 1, the memory hub
constexpr std::uint32_t kAgents = 3;

L2Params params_of(std::uint32_t lines, std::uint32_t ways) {
  L2Params params;
  params.bytes = std::uint64_t{lines} * 128;
  params.ways = ways;
  params.slices = 1;  // `bytes` are those of one
  params.partitions = 2;
  params.copies = memory::L2Copies::near;
  return params;
}

L2Params random_params(Random& random) {
  L2Params params = params_of(2 * random.between(2, 30), 2);
  if (random.chance(50)) {
    params.queue = random.between(2, 6);
    params.responses = random.between(1, 3);
    params.mshrs = random.between(4, 8);
    params.waiters = random.between(4, 8);
    params.write_buffer = random.between(1, 3);
  }
  return params;
}

// Slices as a machine has them, and an initiator for each of their ways in.
struct TwinBench {
  TwinBench(std::uint32_t slices, std::uint64_t lines, const L2Params& params, TimingMode mode = TimingMode::at,
            memory::TwinLink link = {kLatency, 64}, const memory::SliceShares& shares = {})
      : domain("domain", 1.0, mode, 0, observation), map(lines * 128, slices, 2), bytes(lines * 128) {
    map.keep_copies();
    memory::SliceSurroundings around;
    around.twin = link;
    around.shares = shares;
    for (std::uint32_t i = 0; i < slices; ++i) {
      parts.push_back(std::make_unique<L2Slice>(fmt::format("slice{}", i).c_str(), domain, fmt::format("l2.slice{}", i),
                                                params, map, i, memory::L2IngressPorts::crossbar_and_hub, around));
      memories.push_back(std::make_unique<TestTarget>(fmt::format("memory{}", i).c_str(), domain, bytes));
      parts.back()->memory_out.bind(memories.back()->in);
      for (auto* list : {&sms, &hubs}) {
        list->push_back(
            std::make_unique<TestInitiator>(fmt::format("{}{}", list == &sms ? "sm" : "hub", i).c_str(), domain));
      }
      sms.back()->out.bind(parts.back()->request_in);
      hubs.back()->out.bind(parts.back()->hub_in());
    }
    for (std::uint32_t i = 0; i < slices; ++i) parts[i]->twin().way.out.bind(parts[map.twin_of(i)]->twin().in);
    start();
  }
  TestInitiator& way_of(std::uint32_t agent, std::uint64_t address) {
    return agent == kHub ? *hubs[map.slice_of(address)] : *sms[map.entry_of(address, agent)];
  }
  MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t length) {
    MemoryRequest& request = pool.acquire();
    request.aim(command, address, length);
    return request;
  }
  MemoryRequest& add(std::uint64_t address, std::uint64_t operand = 1) {
    MemoryRequest& request = pool.acquire();
    request.aim(tlm::TLM_IGNORE_COMMAND, address / 128 * 128, 128);
    request.extension.action = MemoryAction::atomic;
    request.extension.type = arch::ValueType::u32;
    request.extension.atomic = arch::AtomicKind::add;
    request.extension.lane[request.extension.lanes++] = {operand, 0, 0, static_cast<std::uint8_t>(address % 128), 0};
    return request;
  }
  // At once.
  Cycle call(std::uint32_t agent, MemoryRequest& request) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    way_of(agent, request.get_address()).out.blocking(request, delay);
    return static_cast<Cycle>(delay / sc_core::sc_time(1, sc_core::SC_NS) + 0.5);
  }
  // Cycles of one access to 32 bytes, when nothing else is under way.
  Cycle timed(std::uint32_t agent, tlm::tlm_command command, std::uint64_t address) {
    MemoryRequest& request = plain(command, address, 32);
    if (domain.mode() == TimingMode::lt) {
      const Cycle took = call(agent, request);
      request.release();
      return took;
    }
    const Cycle begin = domain.now() + 10;
    Cycle end = 0;
    way_of(agent, address).on_response = [&end](MemoryRequest&, Cycle arrival) { end = arrival; };
    way_of(agent, address).send(request, begin);
    run_until_idle();
    return end - begin;
  }
  std::uint32_t debug_read(std::uint64_t address) {
    MemoryRequest& request = plain(tlm::TLM_READ_COMMAND, address, 4);
    REQUIRE(hubs[map.slice_of(address)]->out.debug(request) == 4);
    std::uint32_t value = 0;
    std::memcpy(&value, request.get_data_ptr(), 4);
    request.release();
    return value;
  }
  double sum(const std::string& name) const {
    double total = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      total += observation.stats.value(fmt::format("gpu0.l2.slice{}.{}", i, name));
    }
    return total;
  }
  void check_idle() {
    for (const auto& part : parts) {
      CHECK(part->idle());
      CHECK(part->payloads() == 0);
    }
    CHECK(pool.in_use() == 0);
  }
  // A line whose home is a slice of that partition.
  std::uint64_t line_of(std::uint32_t partition, std::uint32_t which = 0) const {
    for (std::uint64_t address = 0;; address += 128) {
      if (map.partition_of(map.slice_of(address)) == partition && which-- == 0) return address;
    }
  }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  std::vector<std::uint8_t> bytes;
  std::vector<std::unique_ptr<L2Slice>> parts;
  std::vector<std::unique_ptr<TestTarget>> memories;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<TestInitiator>> hubs;
};

// Words of which each has one writer, who counts up; and words to which everybody adds. Who reads a word may not see
// less than what its writer has heard to be written, what anybody has seen, or what it has written itself, before it
// asked, nor more than what has been written.
class Coherence {
 public:
  static constexpr std::uint32_t kWords = 32;  // of a line; the last one is added to

  Coherence(TwinBench& bench, Random& random, std::uint64_t lines)
      : bench_(bench), random_(random), lines_(lines), words_(lines * kWords), added_(lines), old_(lines) {
    for (auto* list : {&bench.sms, &bench.hubs}) {
      for (auto& initiator : *list) {
        initiator->on_response = [this](MemoryRequest& request, Cycle arrival) { answered(request, arrival); };
      }
    }
  }
  void issue(Cycle when) {
    const std::uint32_t agent = random_.below(kAgents);
    const std::uint64_t line = random_.below(lines_);
    const std::uint64_t address = line * 128;
    Asked asked{agent, line, 0, 0, {}, when};
    MemoryRequest* request = nullptr;
    const std::uint32_t dice = random_.below(100);
    if (dice < 15) {
      request = &bench_.add(address + 124);
      ++added_[line];
    } else if (dice < 40) {
      asked.first = random_.below(kWords - 1);
      asked.words = 1;
      const std::uint64_t word = line * kWords + asked.first;
      Word& its = words_[word];
      if (word % kAgents != agent) return;
      ++its.issued;
      asked.low = {its.issued};
      request = &bench_.plain(tlm::TLM_WRITE_COMMAND, address + 4 * asked.first, 4);
      std::memcpy(request->get_data_ptr(), &its.issued, 4);
    } else {
      const std::uint32_t sectors = random_.between(1, 4);
      asked.first = 8 * random_.below(5 - sectors);
      asked.words = 8 * sectors;
      for (std::uint32_t i = 0; i < asked.words; ++i) {
        const std::uint64_t number = line * kWords + asked.first + i;
        const Word& its = words_[number];
        asked.low.push_back(std::max({its.acked, its.seen, number % kAgents == agent ? its.issued : 0}));
      }
      request = &bench_.plain(tlm::TLM_READ_COMMAND, address + 4 * asked.first, 4 * asked.words);
    }
    request->extension.subcontext = static_cast<std::uint8_t>(agent % 2);
    asked_[request] = asked;
    bench_.way_of(agent, address).send(*request, when);
  }
  void finish() {
    WaitGraph waits;
    bench_.domain.collect_waits(waits);
    INFO(fmt::format("{}", fmt::join(waits.chain(), "\n")));
    REQUIRE(asked_.empty());
    for (std::uint64_t line = 0; line < lines_; ++line) {
      for (std::uint32_t word = 0; word + 1 < kWords; ++word) {
        REQUIRE(bench_.debug_read(line * 128 + 4 * word) == words_[line * kWords + word].issued);
      }
      REQUIRE(bench_.debug_read(line * 128 + 124) == added_[line]);
      REQUIRE(old_[line].size() == added_[line]);  // everybody has got another one
    }
  }
  std::size_t open() const { return asked_.size(); }

 private:
  struct Word {
    std::uint32_t issued = 0;
    std::uint32_t acked = 0;
    std::uint32_t seen = 0;  // by anybody, who may have told
  };
  struct Asked {
    std::uint32_t agent;
    std::uint64_t line;
    std::uint32_t first;
    std::uint32_t words;
    std::vector<std::uint32_t> low;  // of a write: its value
    Cycle when;
  };
  void answered(MemoryRequest& request, Cycle arrival) {
    const Asked asked = asked_.at(&request);
    asked_.erase(&request);
    REQUIRE(request.is_response_ok());
    // A copy goes on as it comes, without the way through the array.
    const bool copy =
        request.is_read() && asked.agent == 1 - bench_.map.partition_of(bench_.map.slice_of(request.get_address()));
    REQUIRE(arrival >= asked.when + L2Params().tag_latency + (copy ? 0 : L2Params().data_latency));
    if (request.extension.action == MemoryAction::atomic) {
      const std::uint64_t old = request.extension.lane[0].old;
      REQUIRE(old < added_[asked.line]);
      REQUIRE(old_[asked.line].insert(old).second);
      return;
    }
    for (std::uint32_t i = 0; i < asked.words; ++i) {
      const std::uint64_t number = asked.line * kWords + asked.first + i;
      Word& its = words_[number];
      if (request.is_write()) {
        its.acked = std::max(its.acked, asked.low[i]);
        continue;
      }
      if (number % kWords == kWords - 1) continue;
      std::uint32_t value = 0;
      std::memcpy(&value, request.get_data_ptr() + 4 * i, 4);
      CAPTURE(asked.agent, asked.line, asked.first + i);
      REQUIRE(value >= asked.low[i]);
      REQUIRE(value <= its.issued);
      its.seen = std::max(its.seen, value);
    }
  }

  TwinBench& bench_;
  Random& random_;
  std::uint64_t lines_;
  std::vector<Word> words_;
  std::vector<std::uint32_t> added_;
  std::vector<std::set<std::uint64_t>> old_;  // values that adders have found
  std::map<MemoryRequest*, Asked> asked_;
};

}  // namespace

TEST_CASE("nobody sees less of a line than what is known to be written", "[memory][MEM-01][MEM-06]") {
  double hits = 0;
  double taken = 0;
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint64_t lines = random.between(2, 60);
    const L2Params params = random_params(random);
    arch::BandwidthTable table;  // with shares, requests wait in lanes
    if (random.chance(40)) CHECK(table.set_share(1, 30) == arch::BandwidthTable::Refusal::none);
    TwinBench bench(2 * random.between(1, 3), lines, params, TimingMode::at,
                    {random.between(0, 400), random.chance(50) ? 64.0 : random.between(1, 40) / 2.0}, {&table, 8, 64});
    for (const auto& memory : bench.memories) {
      memory->latency = random.between(5, 300);
      memory->depth = random.between(1, 20);
    }
    if (random.chance(30)) {
      for (const auto& sm : bench.sms) sm->hold = [&random](MemoryRequest&) { return Cycle{random.below(8)}; };
    }
    Coherence coherence(bench, random, lines);
    const std::uint32_t batches = random.between(1, 20);
    for (std::uint32_t batch = 0; batch < batches; ++batch) {
      for (std::uint32_t i = 0; i < 60; ++i) coherence.issue(bench.domain.now() + 1 + random.below(200));
      run_until(sc_core::sc_time_stamp() + sc_core::sc_time(static_cast<double>(random.below(500)), sc_core::SC_NS));
    }
    run_until_idle();
    coherence.finish();
    bench.check_idle();
    hits += bench.sum("copies.hits");
    taken += bench.sum("copies.taken_away");
  }
  CHECK(hits > 2000);
  CHECK(taken > 1000);
}

TEST_CASE("calls of both partitions see one memory", "[memory][MEM-01]") {
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint64_t lines = random.between(2, 40);
    TwinBench bench(2 * random.between(1, 3), lines, params_of(2 * random.between(2, 10), 2), TimingMode::lt);
    std::vector<std::uint32_t> flat(lines * 32);
    for (std::uint32_t i = 0; i < 800; ++i) {
      const std::uint32_t agent = random.below(kAgents);
      const std::uint64_t word = random.below(flat.size());
      const std::uint32_t dice = random.below(100);
      MemoryRequest* request = nullptr;
      if (dice < 20) {
        request = &bench.add(4 * word, 3);
        bench.call(agent, *request);
        REQUIRE(request->extension.lane[0].old == flat[word]);
        flat[word] += 3;
      } else if (dice < 45) {
        request = &bench.plain(tlm::TLM_WRITE_COMMAND, 4 * word, 4);
        flat[word] = i;
        std::memcpy(request->get_data_ptr(), &i, 4);
        bench.call(agent, *request);
      } else if (dice < 50) {
        request = &bench.plain(tlm::TLM_WRITE_COMMAND, 4 * word, 4);  // a debugger's, at the home
        flat[word] = i;
        std::memcpy(request->get_data_ptr(), &i, 4);
        REQUIRE(bench.hubs[bench.map.slice_of(4 * word)]->out.debug(*request) == 4);
        request->set_response_status(tlm::TLM_OK_RESPONSE);
      } else {
        request = &bench.plain(tlm::TLM_READ_COMMAND, 4 * word / 32 * 32, 32);
        bench.call(agent, *request);
        REQUIRE(std::memcmp(request->get_data_ptr(), &flat[word / 8 * 8], 32) == 0);
      }
      REQUIRE(request->is_response_ok());
      request->release();
    }
    bench.check_idle();
  }
}

TEST_CASE("who asks for a write-back of a slice has it of that one, by whatever way", "[memory][MEM-06]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const std::uint32_t agent : {0U, 1U, kHub}) {
      CAPTURE(agent);
      TwinBench bench(4, 64, params_of(64, 4), mode);
      for (std::uint64_t line = 0; line < 64; ++line) {
        MemoryRequest& request = bench.plain(tlm::TLM_WRITE_COMMAND, 128 * line, 32);
        request.data.fill(static_cast<std::uint8_t>(line + 1));
        bench.call(static_cast<std::uint32_t>(line % kAgents), request);
        request.release();
      }
      CHECK(std::count(bench.bytes.begin(), bench.bytes.end(), 0) == 64 * 128);
      for (std::uint32_t slice = 0; slice < 4; ++slice) {
        // The hub's has no address, and an SM's names a line of the slice.
        std::uint64_t address = 0;
        while (agent != kHub && bench.map.slice_of(address) != slice) address += 128;
        MemoryRequest& request = bench.plain(tlm::TLM_IGNORE_COMMAND, address, 1);
        request.extension.action = MemoryAction::write_back;
        TestInitiator& way = agent == kHub ? *bench.hubs[slice] : bench.way_of(agent, address);
        if (mode == TimingMode::lt) {
          sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
          way.out.blocking(request, delay);
          CHECK(request.is_response_ok());
          request.release();
        } else {
          way.send(request, bench.domain.now() + 1);
          run_until_idle();
        }
      }
      for (std::uint64_t line = 0; line < 64; ++line) REQUIRE(bench.bytes[128 * line] == line + 1);
      bench.check_idle();
    }
  }
}

TEST_CASE("a copy is as near as a line of one's own; fetching it takes the way to the twin and back",
          "[memory][MEM-01]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    TwinBench bench(2, 64, params_of(64, 4), mode);
    const std::uint64_t own = bench.line_of(0);
    const std::uint64_t far = bench.line_of(1);
    const L2Params params = params_of(64, 4);
    const Cycle near = params.tag_latency + params.data_latency;
    const Cycle there_and_back = params.tag_latency + 2 * kLatency;
    const auto read = [&](std::uint32_t agent, std::uint64_t address) {
      return bench.timed(agent, tlm::TLM_READ_COMMAND, address);
    };
    const auto write = [&](std::uint32_t agent) { return bench.timed(agent, tlm::TLM_WRITE_COMMAND, far); };
    read(0, own);
    read(1, far);  // in the L2, and not in partition 0
    CHECK(read(0, own) == near);
    CHECK(read(0, far) == near + there_and_back);
    CHECK(read(0, far) == near);
    CHECK(bench.sum("copies.hits") == 1);
    CHECK(bench.sum("copies.sectors") == 1);
    // A write at the home waits for the copy to go; then the next read fetches it again.
    CHECK(write(1) >= 2 * kLatency + params.tag_latency);
    CHECK(bench.sum("copies.taken_away") == 1);
    CHECK(write(1) == near);
    CHECK(read(0, far) == near + there_and_back);
    CHECK(write(0) == near + there_and_back);  // its own copy goes on the way
    CHECK(bench.sum("copies.taken_away") == 1);
    CHECK(bench.sum("copies.passed") == 1);
    // Two fetches, what was passed on and what was taken away: a header each way, and the data.
    CHECK(bench.sum("crossing_bytes") == 4 * 64 + 3 * 32);
    bench.check_idle();
  }
}

TEST_CASE("what goes to the twin and what comes from it has the rate of the link", "[memory][MEM-01]") {
  for (const double rate : {64.0, 8.0, 2.5}) {
    for (const auto command : {tlm::TLM_READ_COMMAND, tlm::TLM_WRITE_COMMAND}) {
      CAPTURE(rate, command);
      constexpr std::uint32_t kLines = 40;
      TwinBench bench(2, 256, params_of(256, 4), TimingMode::at, {kLatency, rate});
      std::vector<std::uint64_t> lines;
      for (std::uint32_t i = 0; i < kLines; ++i) lines.push_back(bench.line_of(1, i));
      for (const std::uint64_t line : lines) {
        for (std::uint32_t sector = 0; sector < 128; sector += 32) bench.timed(1, tlm::TLM_READ_COMMAND, line + sector);
      }
      const Cycle begin = bench.domain.now() + 10;
      Cycle end = 0;
      bench.way_of(0, lines[0]).on_response = [&end](MemoryRequest&, Cycle arrival) { end = std::max(end, arrival); };
      for (const std::uint64_t line : lines) bench.way_of(0, line).send(bench.plain(command, line, 128), begin);
      run_until_idle();
      const double least = std::floor((kLines - 1) * (128 + 32) / rate);
      const double alone = 2.0 * params_of(256, 4).tag_latency + params_of(256, 4).data_latency + 2.0 * kLatency;
      CHECK(static_cast<double>(end - begin) >= least + alone);
      CHECK(static_cast<double>(end - begin) <= least + alone + 10);
    }
  }
}

TEST_CASE("copies take the places of lines, so two partitions hold half as much of what both read",
          "[memory][MEM-01]") {
  TwinBench bench(2, 256, params_of(64, 4), TimingMode::lt);
  const auto rounds = [&](std::uint32_t lines, bool both) {
    const auto all = [&] {
      const double before = bench.sum("fills");
      for (std::uint32_t i = 0; i < lines; ++i) {
        for (std::uint32_t agent = 0; agent < (both ? 2U : 1U); ++agent) {
          MemoryRequest& request = bench.plain(tlm::TLM_READ_COMMAND, 128 * i, 128);
          bench.call(agent, request);
          request.release();
        }
      }
      return bench.sum("fills") - before;
    };
    all();
    return all();
  };
  CHECK(rounds(64, true) == 0);    // 32 of its own and 32 copies in each slice
  CHECK(rounds(128, true) > 400);  // as much as both hold together, and hardly anything of it is there again
}

TEST_CASE("corrupt data are told of wherever they are read, until they are written", "[memory][MEM-01]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    TwinBench bench(2, 64, params_of(64, 4), mode);
    const std::uint64_t far = bench.line_of(1);
    const auto poisoned = [&](tlm::tlm_command command) {
      MemoryRequest& request = bench.plain(command, far, 32);
      bool found = false;
      if (mode == TimingMode::lt) {
        bench.call(0, request);
        found = request.extension.poisoned;
        CHECK(request.is_response_ok());
        request.release();
      } else {
        bench.way_of(0, far).on_response = [&found](MemoryRequest& answer, Cycle) {
          CHECK(answer.is_response_ok());
          found = answer.extension.poisoned;
        };
        bench.way_of(0, far).send(request, bench.domain.now() + 1);
        run_until_idle();
      }
      return found;
    };
    CHECK_FALSE(poisoned(tlm::TLM_READ_COMMAND));  // there is a copy now
    bench.parts[bench.map.slice_of(far)]->poison(far, 32);
    CHECK(poisoned(tlm::TLM_READ_COMMAND));
    CHECK(poisoned(tlm::TLM_READ_COMMAND));
    CHECK_FALSE(poisoned(tlm::TLM_WRITE_COMMAND));
    CHECK_FALSE(poisoned(tlm::TLM_READ_COMMAND));
    bench.check_idle();
  }
}

TEST_CASE("what memory refuses is refused by way of the twin too", "[memory][MEM-01]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    TwinBench bench(2, 64, params_of(64, 4), mode);
    bench.bytes.resize(32 * 128);  // of lines behind these, memory knows nothing
    const auto status = [&](TestInitiator& way, MemoryRequest& request) {
      tlm::tlm_response_status result = tlm::TLM_INCOMPLETE_RESPONSE;
      if (mode == TimingMode::lt) {
        sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
        way.out.blocking(request, delay);
        result = request.get_response_status();
        request.release();
      } else {
        way.on_response = [&result](MemoryRequest& answer, Cycle) { result = answer.get_response_status(); };
        way.send(request, bench.domain.now() + 1);
        run_until_idle();
      }
      return result;
    };
    for (std::uint64_t line = 32; line < 64; ++line) {
      for (std::uint32_t agent = 0; agent < kAgents; ++agent) {
        CAPTURE(line, agent);
        MemoryRequest& request = bench.plain(tlm::TLM_READ_COMMAND, 128 * line + 32, 64);
        REQUIRE(status(bench.way_of(agent, 128 * line), request) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
        REQUIRE(status(bench.way_of(agent, 128 * (line - 32)),
                       bench.plain(tlm::TLM_READ_COMMAND, 128 * (line - 32), 128)) == tlm::TLM_OK_RESPONSE);
      }
    }
    // Who asks for a write-back hears that memory has refused it, and the twin is not asked again.
    const double passed = bench.sum("copies.passed");
    for (std::uint32_t slice = 0; slice < 2; ++slice) {
      std::uint64_t line = 32;
      while (bench.map.slice_of(128 * line) != slice) ++line;
      CHECK(status(*bench.hubs[slice], bench.plain(tlm::TLM_WRITE_COMMAND, 128 * line, 32)) == tlm::TLM_OK_RESPONSE);
      MemoryRequest& request = bench.plain(tlm::TLM_IGNORE_COMMAND, 0, 1);
      request.extension.action = MemoryAction::write_back;
      CHECK(status(*bench.hubs[slice], request) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    }
    CHECK(bench.sum("copies.passed") == passed);
    bench.check_idle();
  }
}

TEST_CASE("a copy is taken away for changes alone, and once", "[memory][MEM-01]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    TwinBench bench(2, 64, params_of(64, 4), mode);
    const std::uint64_t far = bench.line_of(1);
    const auto taken = [&](std::uint32_t agent, tlm::tlm_command command) {
      const double before = bench.sum("copies.taken_away");
      bench.timed(agent, command, far);
      return bench.sum("copies.taken_away") - before;
    };
    bench.timed(0, tlm::TLM_READ_COMMAND, far);
    for (const std::uint32_t agent : {0U, 1U, kHub}) CHECK(taken(agent, tlm::TLM_READ_COMMAND) == 0);
    CHECK(taken(kHub, tlm::TLM_WRITE_COMMAND) == 1);
    for (const std::uint32_t agent : {0U, 1U, kHub}) CHECK(taken(agent, tlm::TLM_WRITE_COMMAND) == 0);
    // A debugger takes it away without time, and there is none to take any more.
    bench.timed(0, tlm::TLM_READ_COMMAND, far);
    MemoryRequest& request = bench.plain(tlm::TLM_WRITE_COMMAND, far, 4);
    CHECK(bench.hubs[1]->out.debug(request) == 4);
    request.release();
    CHECK(taken(1, tlm::TLM_WRITE_COMMAND) == 0);
    bench.check_idle();
  }
}

TEST_CASE("after a reset the link is free", "[memory][MEM-01]") {
  for (const auto command : {tlm::TLM_READ_COMMAND, tlm::TLM_WRITE_COMMAND}) {
    CAPTURE(command);
    Cycle alone = 0;
    TwinBench bench(2, 256, params_of(256, 4), TimingMode::at, {kLatency, 0.5});
    for (std::uint32_t round = 0; round < 2; ++round) {
      const std::uint64_t line = bench.line_of(1, round);
      bench.timed(1, command, line);
      const Cycle took = bench.timed(0, command, line);
      if (round == 0) alone = took;
      CHECK(took == alone);
      for (std::uint32_t i = 2; i < 20; ++i) {
        const std::uint64_t other = bench.line_of(1, i);
        bench.way_of(0, other).send(bench.plain(command, other, 128), bench.domain.now() + 1);
      }
      run_until(sc_core::sc_time_stamp() + sc_core::sc_time(900, sc_core::SC_NS));
      bench.domain.reset();
      for (const auto& part : bench.parts) CHECK(part->twin().way.payloads() == 0);
    }
  }
}

TEST_CASE("a reset forgets copies, who has them and what is on its way", "[memory][MEM-01]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    TwinBench bench(2, 20, random_params(random), TimingMode::at,
                    {random.between(0, 200), random.chance(50) ? 64.0 : random.between(1, 40) / 2.0});
    for (std::uint32_t round = 0; round < 8; ++round) {
      bench.domain.reset();
      std::fill(bench.bytes.begin(), bench.bytes.end(), 0);
      Coherence coherence(bench, random, 20);
      for (std::uint32_t i = 0; i < 200; ++i) coherence.issue(bench.domain.now() + 1 + random.below(300));
      if (round % 2 == 0) {
        run_until(sc_core::sc_time_stamp() + sc_core::sc_time(static_cast<double>(random.below(600)), sc_core::SC_NS));
        continue;
      }
      run_until_idle();
      coherence.finish();
      for (const auto& part : bench.parts) CHECK(part->idle());
    }
  }
}

}  // namespace heddle::test::memory_l2_twin_test
