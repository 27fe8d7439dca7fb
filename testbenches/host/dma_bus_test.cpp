// The DMA initiator in front of targets as platforms have them (support/bus_targets.h).
#include "host/dma_bus.h"

#include <functional>
#include <map>
#include <utility>

#include "host/hub_bench.h"
#include "support/bus_targets.h"

namespace heddle::test::host_dma_bus_test {
namespace {

using host::DmaTransport;
using host::HubParams;
using Habit = PhasedMemory::Habit;

constexpr const char* kMessage = "/heddle/dma";
const sc_core::sc_time kNs(1, sc_core::SC_NS);
const sc_core::sc_time kUs(1, sc_core::SC_US);
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

// Reports of the DMA as they come, instead of an end of the test.
struct Reports {
  Reports() { set(sc_core::SC_DO_NOTHING); }
  ~Reports() { set(sc_core::SC_UNSPECIFIED); }
  static void set(sc_core::sc_actions actions) {
    sc_core::sc_report_handler::set_actions(kMessage, sc_core::SC_INFO, actions);
    sc_core::sc_report_handler::set_actions(kMessage, sc_core::SC_WARNING, actions);
  }
  int infos() const { return sc_core::sc_report_handler::get_count(kMessage, sc_core::SC_INFO) - infos_; }
  int warnings() const { return sc_core::sc_report_handler::get_count(kMessage, sc_core::SC_WARNING) - warnings_; }

 private:
  int infos_ = sc_core::sc_report_handler::get_count(kMessage, sc_core::SC_INFO);
  int warnings_ = sc_core::sc_report_handler::get_count(kMessage, sc_core::SC_WARNING);
};

// A hub with one client, in front of that target.
struct DmaBench {
  DmaBench(const HubParams& params, TimingMode mode, BusTarget& target) : hub(params, mode, 1) {
    hub.hub.dma().bind(target.entry());
    hub.clients[0]->gap = 0;
    hub.clients[0]->on_response = [this](protocol::MemoryRequest& request, Cycle when) {
      Answer& answer = answers[request.extension.entry];
      ++answer.count;
      answer.status = request.get_response_status();
      answer.when = when;
      answer.data = request.data;
      if (request.extension.lanes > 0) answer.old = request.extension.lane[0].old;
    };
  }

  struct Answer {
    std::uint32_t count = 0;
    tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
    Cycle when = 0;
    std::array<std::uint8_t, 128> data{};
    std::uint64_t old = 0;
  };

  std::uint32_t send(protocol::MemoryRequest& request, std::uint8_t subcontext = 0) {
    request.extension.entry = next_;
    request.extension.subcontext = subcontext;
    hub.clients[0]->send(request, hub.domain.now());
    return next_++;
  }
  std::uint32_t read(std::uint64_t address, std::uint32_t bytes = 8, std::uint8_t subcontext = 0) {
    return send(hub.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + address, bytes), subcontext);
  }
  std::uint32_t write(std::uint64_t address, std::uint8_t value, std::uint32_t bytes = 8, std::uint8_t subcontext = 0) {
    auto& request = hub.plain(tlm::TLM_WRITE_COMMAND, arch::kHostWindow + address, bytes);
    std::fill_n(request.data.begin(), bytes, value);
    return send(request, subcontext);
  }
  std::uint32_t add(std::uint64_t address, std::uint64_t operand, std::uint8_t subcontext = 0) {
    return send(hub.add(arch::kHostWindow + address, operand), subcontext);
  }
  bool ok(std::uint32_t number) { return answers[number].count == 1 && answers[number].status == tlm::TLM_OK_RESPONSE; }
  void run(const sc_core::sc_time& time) { run_until(sc_core::sc_time_stamp() + time); }
  std::uint64_t stat(const std::string& name) { return hub.stat("dma." + name); }
  // Bytes per cycle of so many lines, from the first answer to the last.
  double bandwidth(bool writes, std::uint32_t lines = 1500) {
    const std::uint32_t first = next_;
    for (std::uint32_t i = 0; i < lines; ++i) {
      if (writes) {
        write(std::uint64_t{i} * 128, static_cast<std::uint8_t>(i), 128);
      } else {
        read(std::uint64_t{i} * 128, 128);
      }
    }
    run_until_idle();
    Cycle begin = ~Cycle{0};
    Cycle end = 0;
    for (std::uint32_t i = first; i < next_; ++i) {
      REQUIRE(ok(i));
      begin = std::min(begin, answers[i].when);
      end = std::max(end, answers[i].when);
    }
    return (lines - 1) * 128.0 / static_cast<double>(end - begin);
  }

  HubBench hub;
  std::map<std::uint32_t, Answer> answers;

 private:
  std::uint32_t next_ = 0;
};

HubParams with(const std::function<void(HubParams&)>& change) {
  HubParams params;
  change(params);
  return params;
}

}  // namespace

TEST_CASE("memories that answer by b_transport alone get the link's bandwidth in every timing", "[host][HST-06]") {
  // 128 bytes of a line and 24 of its header share what the link carries; the clock has 1 GHz.
  const double modelled = HubParams().link_bandwidth * 128 / (128 + 24);
  for (const TimingMode mode : kModes) {
    for (const int kind : {0, 1, 2, 3}) {
      for (const bool writes : {false, true}) {
        CAPTURE(static_cast<int>(mode), kind, writes);
        SimFixture fixture;
        Reports reports;
        std::unique_ptr<BusTarget> target;
        if (kind == 0) target = std::make_unique<AnnotatingMemory>("target");
        if (kind == 1) target = std::make_unique<WaitingMemory>("target");
        if (kind == 2) target = std::make_unique<PhasedMemory>("target", Habit::withholds);
        if (kind == 3) target = std::make_unique<DeafMemory>("target");
        DmaBench bench(HubParams(), mode, *target);
        const double found = bench.bandwidth(writes);
        CHECK(found > 0.95 * modelled);
        CHECK(found < 1.02 * modelled);
        // In `at` and `fast` it has become clear that the target takes one request at a time by nb_transport.
        CHECK(reports.infos() == (mode == TimingMode::lt ? 0 : 1));
        for (std::uint32_t i = 0; writes && i < 1500; ++i) REQUIRE(target->bytes[i * 128 + 77] == (i & 0xFF));
      }
    }
  }
}

TEST_CASE("who accepts requests before their answers goes on being called by nb_transport", "[host][HST-06]") {
  for (const Habit habit : {Habit::accepts, Habit::completes, Habit::responds, Habit::throttles, Habit::shuffles}) {
    CAPTURE(static_cast<int>(habit));
    SimFixture fixture;
    Reports reports;
    PhasedMemory target("target", habit);
    DmaBench bench(HubParams(), TimingMode::at, target);
    const double found = bench.bandwidth(false);
    // Four at a time in 80 ns are all that a memory can do that throttles so; one in 80 that accepts none before.
    const double most = habit == Habit::throttles ? 4 * 128.0 / 80 : HubParams().link_bandwidth * 128 / 152;
    CHECK(found > 0.95 * most);
    CHECK(found < 1.05 * most);
    CHECK(reports.infos() == 0);
  }
}

TEST_CASE("how the target is called can be set", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const DmaTransport way : {DmaTransport::blocking, DmaTransport::nonblocking}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(way));
      SimFixture fixture;
      Reports reports;
      PhasedMemory target("target", Habit::withholds);
      DmaBench bench(with([&](HubParams& params) { params.dma_transport = way; }), mode, target);
      const double found = bench.bandwidth(false, 300);
      if (way == DmaTransport::blocking) CHECK(found > 40);
      if (way == DmaTransport::nonblocking) CHECK(found < 1.05 * 128 / 80);  // one at a time
      CHECK(reports.infos() == 0);
    }
  }
}

TEST_CASE("so many calls of b_transport are open as may be", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t calls : {1U, 256U}) {
      CAPTURE(static_cast<int>(mode), calls);
      SimFixture fixture;
      FragileMemory target("target");
      DmaBench bench(with([&](HubParams& params) {
                       params.dma_calls = calls;
                       params.dma_transport = DmaTransport::blocking;
                     }),
                     mode, target);
      for (std::uint64_t i = 0; i < 50; ++i) bench.write(i * 128, static_cast<std::uint8_t>(i + 1));
      if (calls > 1) {
        bench.run(120 * kNs + 2 * 250 * kNs);
        CHECK(target.broken > 0);
        continue;
      }
      run_until_idle();
      CHECK(target.broken == 0);
      for (std::uint32_t i = 0; i < 50; ++i) REQUIRE((bench.ok(i) && target.bytes[i * 128] == i + 1));
    }
  }
}

TEST_CASE("a target's own time is waited for, in whatever form it tells of it", "[host][HST-02]") {
  for (const TimingMode mode : kModes) {
    const Cycle link = mode == TimingMode::lt ? 0 : 500;
    for (const int kind : {0, 1, 2, 3}) {
      CAPTURE(static_cast<int>(mode), kind);
      SimFixture fixture;
      std::unique_ptr<BusTarget> target;
      if (kind == 0) target = std::make_unique<AnnotatingMemory>("target");
      if (kind == 1) target = std::make_unique<WaitingMemory>("target");
      if (kind == 2) target = std::make_unique<DeafMemory>("target");
      if (kind == 3) target = std::make_unique<ForgetfulMemory>("target");
      DmaBench bench(with([](HubParams& params) { params.dma_transport = DmaTransport::blocking; }), mode, *target);
      const Cycle begin = bench.hub.domain.now();
      const std::uint32_t number = bench.read(64);
      run_until_idle();
      REQUIRE(bench.ok(number));
      const Cycle took = bench.answers[number].when - begin;
      CHECK(took >= link + 80);
      CHECK(took <= link + 82);
    }
  }
}

TEST_CASE("an answer that never comes ends one request with an error, and no other", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const int kind : {0, 1, 2}) {
      if (kind > 0 && mode == TimingMode::lt) continue;  // the same way as with kind 0
      CAPTURE(static_cast<int>(mode), kind);
      SimFixture fixture;
      Reports reports;
      SilentTarget silent(kind, 4096, 4096 + 8);
      BusTarget& target = silent.target();
      DmaBench bench(with([&](HubParams& params) {
                       params.dma_answer_limit = 20'000;
                       if (kind == 0) params.dma_transport = DmaTransport::blocking;
                     }),
                     mode, target);
      const std::uint32_t before = bench.write(0, 0x11);
      const std::uint32_t lost = bench.write(4096, 0x22);
      std::vector<std::uint32_t> others;
      for (std::uint64_t i = 1; i < 20; ++i) others.push_back(bench.write(i * 128, 0x33));
      bench.run(15 * kUs);
      CHECK(bench.ok(before));
      CHECK(bench.answers[lost].count == 0);
      // Behind one that is not even accepted, others wait until it counts as lost.
      for (const std::uint32_t other : others) CHECK(bench.ok(other) == (kind < 2));
      bench.run(10 * kUs);
      CHECK(bench.answers[lost].count == 1);
      CHECK(bench.answers[lost].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
      CHECK(bench.answers[lost].when >= 20'000);
      CHECK(bench.answers[lost].when <= 21'000);
      for (const std::uint32_t other : others) CHECK(bench.ok(other));
      CHECK(bench.stat("lost") == 1);
      CHECK(reports.infos() == 1);
      CHECK(bench.hub.hub.idle());
      CHECK(bench.hub.hub.payloads() == 1);  // the target may still have it
      CHECK(target.bytes[19 * 128] == 0x33);
      // Nothing stands in the way of what comes then, not even at the same place.
      const std::uint32_t after = bench.write(2048, 0x44);
      bench.run(2 * kUs);
      CHECK(bench.ok(after));
      // It comes after all.
      silent.answer();
      run_until_idle();
      CHECK(bench.answers[lost].count == 1);
      CHECK(bench.hub.hub.payloads() == 0);
      CHECK(bench.stat("stray") == 0);
    }
  }
}

TEST_CASE("each request has the limit for itself, and those of before a reset as well", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    SimFixture fixture;
    Reports reports;
    StuckMemory target("target");
    target.last = 64;
    DmaBench bench(with([](HubParams& params) {
                     params.dma_answer_limit = 20'000;
                     params.dma_transport = DmaTransport::blocking;
                   }),
                   mode, target);
    std::vector<std::uint32_t> lost;
    for (std::uint64_t i = 0; i < 3; ++i) {
      lost.push_back(bench.read(8 * i));
      bench.run(5 * kUs);
    }
    const std::uint32_t good = bench.read(128);
    bench.run(25 * kUs);
    CHECK(bench.ok(good));
    for (std::uint32_t i = 0; i < 3; ++i) {
      const DmaBench::Answer& answer = bench.answers[lost[i]];
      CHECK((answer.count == 1 && answer.status == tlm::TLM_GENERIC_ERROR_RESPONSE));
      CHECK(answer.when >= 20'000 + 5'000 * i);
      CHECK(answer.when <= 20'000 + 5'000 * i + 600);
    }
    // Two more, and the reset between them: both are over 20 us after they were sent.
    (void)bench.read(24);
    bench.run(5 * kUs);
    (void)bench.read(32);
    bench.run(2 * kUs);
    bench.hub.domain.reset();
    bench.run(12 * kUs);
    CHECK_FALSE(bench.hub.hub.settled());
    CHECK(bench.stat("lost") == 3);
    bench.run(3 * kUs);
    CHECK(bench.stat("lost") == 4);
    CHECK_FALSE(bench.hub.hub.settled());
    bench.run(5 * kUs);
    CHECK(bench.stat("lost") == 5);
    CHECK(bench.hub.hub.settled());
    CHECK(reports.infos() == 1);
    CHECK_FALSE(sc_core::sc_pending_activity());
  }
}

TEST_CASE("a lost call makes room for another, and one that has not begun at a reset never does", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    SimFixture fixture;
    Reports reports;
    StuckMemory target("target");
    target.last = 64;
    DmaBench bench(with([](HubParams& params) {
                     params.dma_answer_limit = 20'000;
                     params.dma_transport = DmaTransport::blocking;
                     params.dma_calls = 1;
                   }),
                   mode, target);
    const std::uint32_t lost = bench.read(0);
    const std::uint32_t behind = bench.read(128);
    bench.run(15 * kUs);
    CHECK((bench.answers[lost].count == 0 && bench.answers[behind].count == 0));
    bench.run(10 * kUs);
    CHECK(bench.answers[lost].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
    CHECK(bench.ok(behind));
    target.let_go.notify();
    run_until_idle();
    CHECK(bench.hub.hub.payloads() == 0);
    const std::uint32_t after = bench.read(128);
    run_until_idle();
    CHECK(bench.ok(after));
    // On its way over the link, which takes 250 ns where it takes any.
    const std::uint64_t calls = target.calls;
    (void)bench.write(256, 0x55);
    bench.run(100 * kNs);
    bench.hub.domain.reset();
    run_until_idle();
    CHECK(target.calls == calls + (mode == TimingMode::lt ? 1 : 0));
    CHECK(target.bytes[256] == (mode == TimingMode::lt ? 0x55 : 0));
    CHECK(bench.hub.hub.settled());
    CHECK(bench.hub.hub.payloads() == 0);
  }
}

TEST_CASE("a reset recovers from answers that never come, and is over after the limit", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const int kind : {0, 1, 2}) {
      if (kind > 0 && mode == TimingMode::lt) continue;
      CAPTURE(static_cast<int>(mode), kind);
      SimFixture fixture;
      Reports reports;
      SilentTarget silent(kind, 4096, 4096 + 8);
      BusTarget& target = silent.target();
      DmaBench bench(with([&](HubParams& params) {
                       params.dma_answer_limit = 20'000;
                       if (kind == 0) params.dma_transport = DmaTransport::blocking;
                     }),
                     mode, target);
      (void)bench.write(4096, 0x22);
      (void)bench.write(4096 + 128, 0x22);  // goes through, unless the first has the channel
      bench.run(5 * kUs);
      CHECK(bench.hub.hub.settled());  // there was no reset
      bench.hub.domain.reset();
      bench.answers.clear();
      CHECK_FALSE(bench.hub.hub.settled());
      // Others go at once; a write to the same bytes waits for the one before.
      silent.keep_silent(0, 0);
      const std::uint32_t other = bench.write(512, 0x33);
      const std::uint32_t same = bench.write(4096, 0x44);
      bench.run(5 * kUs);
      CHECK(bench.ok(other));
      CHECK(bench.answers[same].count == 0);
      CHECK_FALSE(bench.hub.hub.settled());
      bench.run(12 * kUs);
      CHECK(bench.hub.hub.settled());
      CHECK(bench.ok(same));
      CHECK(target.bytes[4096] == 0x44);
      CHECK(bench.stat("lost") == 1);
      run_until_idle();
      CHECK(bench.hub.hub.payloads() == 1);
      silent.answer();
      run_until_idle();
      CHECK(bench.hub.hub.payloads() == 0);
    }
  }
}

TEST_CASE("without a limit an answer is waited for as long as it takes", "[host][HST-06]") {
  SimFixture fixture;
  StuckMemory target("target");
  target.last = 8;
  DmaBench bench(with([](HubParams& params) { params.dma_answer_limit = 0; }), TimingMode::lt, target);
  const std::uint32_t number = bench.read(0);
  run_until_idle();
  CHECK(target.stuck == 1);
  CHECK(bench.answers[number].count == 0);
  target.let_go.notify(1, sc_core::SC_SEC);
  run_until_idle();
  CHECK(bench.ok(number));
}

TEST_CASE("a status that nobody has set counts as it is set, and is told once", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const host::IncompleteMeans means : {host::IncompleteMeans::ok, host::IncompleteMeans::error}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(means));
      SimFixture fixture;
      Reports reports;
      SilentStatusMemory target("target");
      DmaBench bench(with([&](HubParams& params) { params.dma_incomplete = means; }), mode, target);
      target.bytes[70] = 9;
      const std::uint32_t write = bench.write(0, 5);
      const std::uint32_t read = bench.read(64);
      const std::uint32_t add = bench.add(128, 3);
      run_until_idle();
      const bool good = means == host::IncompleteMeans::ok;
      for (const std::uint32_t number : {write, read, add}) {
        CHECK(bench.answers[number].count == 1);
        CHECK(bench.answers[number].status == (good ? tlm::TLM_OK_RESPONSE : tlm::TLM_GENERIC_ERROR_RESPONSE));
      }
      CHECK(target.bytes[0] == 5);
      if (good) CHECK((bench.answers[read].data[6] == 9 && target.bytes[128] == 3));
      CHECK(reports.warnings() == 1);
    }
  }
}

TEST_CASE("errors come back as they are, whatever was promised before", "[host][HST-06][MEM-05]") {
  for (const TimingMode mode : kModes) {
    for (const tlm::tlm_response_status status :
         {tlm::TLM_GENERIC_ERROR_RESPONSE, tlm::TLM_ADDRESS_ERROR_RESPONSE, tlm::TLM_COMMAND_ERROR_RESPONSE,
          tlm::TLM_BURST_ERROR_RESPONSE, tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(status));
      SimFixture fixture;
      RefusingMemory target("target", status);
      target.last = 8;
      DmaBench bench(HubParams(), mode, target);
      const std::uint32_t read = bench.read(0);
      const std::uint32_t write = bench.write(0, 1);
      const std::uint32_t add = bench.add(0, 1);
      const std::uint32_t good = bench.read(8);
      run_until_idle();
      for (const std::uint32_t number : {read, write, add}) {
        CHECK((bench.answers[number].count == 1 && bench.answers[number].status == status));
      }
      CHECK(bench.ok(good));
    }
    SimFixture fixture;
    PhasedMemory target("target", Habit::promises);
    target.last = 8;
    DmaBench bench(HubParams(), mode, target);
    const std::uint32_t read = bench.read(0);
    const std::uint32_t good = bench.read(8);
    run_until_idle();
    CHECK(bench.answers[read].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
    CHECK(bench.ok(good));
  }
}

TEST_CASE("no target takes harm from the question about atomics", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const host::AtomicOffer way : {host::AtomicOffer::ask, host::AtomicOffer::offer, host::AtomicOffer::split}) {
      for (const int kind : {0, 1, 2, 3}) {
        if (kind == 0 && way == host::AtomicOffer::offer) continue;  // it ends the simulation: so it has to be asked
        CAPTURE(static_cast<int>(mode), static_cast<int>(way), kind);
        SimFixture fixture;
        Reports reports;
        std::unique_ptr<BusTarget> target;
        if (kind == 0) target = std::make_unique<AssertingMemory>("target");
        if (kind == 1) target = std::make_unique<MisreadingMemory>("target");
        if (kind == 2) target = std::make_unique<RefusingCommandMemory>("target");
        if (kind == 3) target = std::make_unique<AnnotatingMemory>("target");
        DmaBench bench(with([&](HubParams& params) {
                         params.dma_atomics = way;
                         params.dma_transport = DmaTransport::blocking;
                       }),
                       mode, *target);
        const std::uint64_t thousand = 1000;
        target->write(256, &thousand, 8);
        std::vector<std::uint32_t> adds;
        for (int i = 0; i < 10; ++i) adds.push_back(bench.add(256, ~std::uint64_t{0}));
        run_until_idle();
        for (std::uint32_t i = 0; i < 10; ++i) {
          CHECK(bench.ok(adds[i]));
          CHECK(bench.answers[adds[i]].old == 1000 - i);
        }
        std::uint64_t left = 0;
        target->read(256, &left, 8);
        CHECK(left == 990);
        CHECK(bench.stat("split_atomics") == 10);
        CHECK(reports.infos() == 1);  // that others can come between
        CHECK(target->ignores == (way == host::AtomicOffer::offer ? 1 : 0));
      }
    }
  }
}

TEST_CASE("direct pointers are asked for, used, and left alone once they are taken back", "[host][HST-02][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const bool allowed : {true, false}) {
      CAPTURE(static_cast<int>(mode), allowed);
      SimFixture fixture;
      DirectMemory target("target");
      DmaBench bench(with([&](HubParams& params) {
                       params.dma_direct = allowed;
                       params.dma_transport = DmaTransport::blocking;
                     }),
                     mode, target);
      const bool used = allowed && mode != TimingMode::at;
      (void)bench.write(0, 1);
      run_until_idle();
      CHECK(target.calls == 1);
      CHECK(target.asked == (allowed && mode != TimingMode::at ? 1 : 0));
      std::vector<std::uint32_t> numbers;
      for (std::uint64_t i = 1; i <= 30; ++i) numbers.push_back(bench.write(i * 128, static_cast<std::uint8_t>(i)));
      const Cycle begin = bench.hub.domain.now();
      run_until_idle();
      CHECK(target.calls == (used ? 1 : 31));
      CHECK(bench.stat("direct") == (used ? 30 : 0));
      for (const std::uint32_t number : numbers) CHECK(bench.ok(number));
      for (std::uint32_t i = 1; i <= 30; ++i) CHECK(target.bytes[i * 128 + 7] == i);
      const Cycle link = mode == TimingMode::lt ? 0 : 500;
      CHECK(bench.answers[numbers[0]].when - begin >= link + 80);  // the latency that was granted
      CHECK(bench.answers[numbers[0]].when - begin <= link + 83);
      target.revoke();
      const std::uint32_t after = bench.write(128, 99);
      const std::uint32_t read = bench.read(30 * 128);
      run_until_idle();
      CHECK((bench.ok(after) && bench.ok(read)));
      CHECK(target.bytes[128] == 99);
      CHECK(bench.answers[read].data[0] == 30);
      CHECK(target.left_alone());
      // An access that went out brings the next pointer.
      const std::uint64_t calls = target.calls;
      const std::uint32_t again = bench.write(256, 98);
      run_until_idle();
      CHECK((bench.ok(again) && target.bytes[256] == 98));
      CHECK(target.calls == calls + (used ? 0 : 1));
    }
  }
}

TEST_CASE("pointers that are taken back in the middle of traffic do no harm", "[host][HST-06]") {
  for (const TimingMode mode : {TimingMode::fast, TimingMode::lt}) {
    for (const std::uint64_t seed : seeds(4)) {
      CAPTURE(static_cast<int>(mode), seed);
      SimFixture fixture;
      Random dice(seed);
      DirectMemory target("target");
      target.page = 1024;
      DmaBench bench(HubParams(), mode, target);
      std::vector<std::uint8_t> expected(64 * 128);
      std::vector<std::pair<std::uint32_t, std::uint8_t>> reads;
      for (int round = 0; round < 40; ++round) {
        std::set<std::uint64_t> touched;
        for (int i = 0; i < 20; ++i) {
          const std::uint64_t line = dice.below(64);
          if (!touched.insert(line).second) continue;
          if (dice.chance(50)) {
            const auto value = static_cast<std::uint8_t>(dice.next());
            (void)bench.write(line * 128, value, 128);
            std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(line * 128), 128, value);
          } else {
            reads.emplace_back(bench.read(line * 128, 128), expected[line * 128 + 100]);
          }
        }
        bench.run(dice.below(1500) * kNs);
        if (dice.chance(50)) target.revoke();
        if (dice.chance(20)) run_until_idle();
        if (dice.chance(50)) run_until_idle();
      }
      run_until_idle();
      for (const auto& [number, value] : reads) REQUIRE((bench.ok(number) && bench.answers[number].data[100] == value));
      REQUIRE(std::equal(expected.begin(), expected.end(), target.bytes.begin()));
      REQUIRE(target.left_alone());
      CHECK(bench.stat("direct") > 100);
      CHECK(target.calls > 20);
    }
  }
}

TEST_CASE("a pointer is used for what it was granted for, by whom it was granted to", "[host][HST-06]") {
  for (const bool reads : {true, false}) {
    SimFixture fixture;
    DirectMemory target("target");
    target.reads = reads;
    target.writes = !reads;
    DmaBench bench(HubParams(), TimingMode::lt, target);
    for (int i = 0; i < 5; ++i) (void)bench.read(0);
    run_until_idle();
    for (int i = 0; i < 5; ++i) {
      (void)bench.read(0);
      (void)bench.write(128, 1);
      run_until_idle();
    }
    CHECK(bench.stat("direct") == 5);
    // For reads once; for writes, if they are not what has been granted already.
    CHECK(target.asked == (reads ? 2 : 1));
  }
  SimFixture fixture;
  DirectMemory target("target");
  DmaBench bench(HubParams(), TimingMode::lt, target);
  for (const std::uint8_t subcontext : std::initializer_list<std::uint8_t>{0, 3, 7, 3, 7, 0}) {
    (void)bench.read(0, 8, subcontext);
    run_until_idle();
  }
  CHECK(target.asked == 3);
  CHECK(bench.stat("direct") == 3);
}

TEST_CASE("whoever refuses a pointer is not asked again for its range", "[host][HST-06]") {
  SimFixture fixture;
  DirectMemory target("target");
  target.grants = false;
  target.page = 4096;
  DmaBench bench(HubParams(), TimingMode::lt, target);
  for (int i = 0; i < 10; ++i) {
    (void)bench.read(128 * static_cast<std::uint64_t>(i));
    run_until_idle();
  }
  CHECK(target.asked == 1);
  (void)bench.read(4096);
  run_until_idle();
  CHECK(target.asked == 2);
  target.hints = false;
  (void)bench.read(8192);
  run_until_idle();
  CHECK(target.asked == 2);
  CHECK(target.calls == 12);
}

TEST_CASE("every transaction says whose it is", "[host][HST-06]") {
  for (const TimingMode mode : kModes) {
    for (const DmaTransport way : {DmaTransport::blocking, DmaTransport::nonblocking}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(way));
      SimFixture fixture;
      PhasedMemory target("target", Habit::accepts);
      DmaBench bench(with([&](HubParams& params) { params.dma_transport = way; }), mode, target);
      for (int round = 0; round < 3; ++round) {
        (void)bench.read(0, 8, 5);
        (void)bench.write(128, 1, 8, 63);
        (void)bench.add(256, 1, 9);
        (void)bench.read(384);
        run_until_idle();
      }
      CHECK(target.by_pasid ==
            std::map<std::uint32_t, std::uint64_t>{{0, 3}, {5, 3}, {9, 6}, {63, 3}});  // an atomic is two
    }
  }
}

TEST_CASE("what is in no window of its subcontext is refused, and told", "[host][HST-06]") {
  using What = protocol::HostWindowPacket::What;
  for (const TimingMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    SimFixture fixture;
    AnnotatingMemory target("target");
    DmaBench bench(HubParams(), mode, target);
    struct Driver : sc_core::sc_module {
      Driver(const sc_core::sc_module_name& name, Domain& domain)
          : sc_core::sc_module(name), out("out", domain, 1, kUnlimitedCredits) {}
      PacketOut<protocol::HostWindowPacket> out;
    } driver("driver", bench.hub.domain);
    host::WindowGuard& guard = bench.hub.hub.dma_port().guard;
    driver.out.bind(guard.window_in);
    std::vector<host::WindowFault> faults;
    guard.on_refused([&](const host::WindowFault& fault) { faults.push_back(fault); });
    start();
    const auto change = [&](What what, std::uint8_t subcontext = 0, std::uint64_t page = 0, bool reads = true,
                            bool writes = true) {
      driver.out.send({what, subcontext, arch::kHostWindow + page * 4096, 4096, reads, writes});
      run_until_idle();
    };
    const auto refused = [&](std::uint32_t number) {
      run_until_idle();
      return bench.answers[number].count == 1 && bench.answers[number].status == tlm::TLM_ADDRESS_ERROR_RESPONSE;
    };
    const auto passed = [&](std::uint32_t number) {
      run_until_idle();
      return bench.ok(number);
    };
    CHECK(passed(bench.write(0, 1, 8, 5)));  // nobody is kept apart yet
    change(What::isolate);
    const std::uint64_t calls = target.calls;
    CHECK(refused(bench.write(0, 2, 8, 5)));
    CHECK(refused(bench.read(8, 8, 5)));
    CHECK(refused(bench.add(16, 1, 6)));
    CHECK(target.calls == calls);
    REQUIRE(faults.size() == 3);
    CHECK((faults[0].address == arch::kHostWindow && faults[0].subcontext == 5 && faults[0].write));
    CHECK((faults[1].address == arch::kHostWindow + 8 && !faults[1].write));
    CHECK((faults[2].address == arch::kHostWindow + 16 && faults[2].subcontext == 6 && faults[2].write));
    CHECK(passed(bench.write(0, 3)));  // the driver's
    change(What::open, 5, 1);
    change(What::open, 6, 2, true, false);
    CHECK(passed(bench.write(4096, 1, 8, 5)));
    CHECK(passed(bench.add(8192 - 8, 1, 5)));
    CHECK(refused(bench.write(8192, 1, 8, 5)));
    CHECK(refused(bench.write(4095, 1, 1, 5)));
    CHECK(passed(bench.read(8192, 8, 6)));
    CHECK(refused(bench.write(8192, 1, 8, 6)));
    CHECK(refused(bench.add(8192, 1, 6)));
    change(What::close, 5);
    CHECK(refused(bench.write(4096, 1, 8, 5)));
    CHECK(passed(bench.read(8192, 8, 6)));
    change(What::share);
    CHECK(passed(bench.write(4096, 1, 8, 5)));
    change(What::isolate);
    bench.hub.domain.reset();
    CHECK(passed(bench.write(4096, 1, 8, 5)));
    CHECK(bench.stat("refused") == faults.size());
  }
}

}  // namespace heddle::test::host_dma_bus_test
