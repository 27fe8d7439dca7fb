// A whole machine on memories and buses as platforms have them: the same results on all of them, at the link's pace or
// the target's, or an error that says what is wrong. docs/host-memory.md has what comes out, row by row.
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>

#include "support/bus_targets.h"
#include "support/packet_programs.h"
#include "support/random.h"

namespace system_host_targets_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;
using Habit = PhasedMemory::Habit;

namespace {

constexpr const char* kMessage = "/heddle/dma";
constexpr std::uint64_t kWindow = HEDDLE_HOST_WINDOW;
const char* const kTimings[] = {"at", "fast", "lt"};

struct Reports {
  Reports() { set(sc_core::SC_DO_NOTHING); }
  ~Reports() { set(sc_core::SC_UNSPECIFIED); }
  static void set(sc_core::sc_actions actions) {
    sc_core::sc_report_handler::set_actions(kMessage, sc_core::SC_INFO, actions);
    sc_core::sc_report_handler::set_actions(kMessage, sc_core::SC_WARNING, actions);
  }
};

std::string spaced(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += word + ' ';
  return result;
}

// A row of the table in the page.
void check_row(const std::string& name, const std::string& what, const std::string& at, const std::string& fast,
               const std::string& lt) {
  static const std::vector<std::string> kRows = [] {
    std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/docs/host-memory.md");
    std::vector<std::string> rows;
    for (std::string line; std::getline(file, line);) rows.push_back(spaced(line));
    return rows;
  }();
  const std::string row = fmt::format("| {} | {} | {} | {} | {} |", name, what, at, fast, lt);
  INFO("docs/host-memory.md lacks the row\n" << row);
  CHECK(std::find(kRows.begin(), kRows.end(), spaced(row)) != kRows.end());
}

struct TargetLab {
  TargetLab(const std::vector<std::string>& sets, BusTarget& to)
      : target(to),
        lab(preset_params("small", sets),
            [&to](tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes) {
              if (command == tlm::TLM_READ_COMMAND) {
                to.read(address, data, bytes);
              } else {
                to.write(address, data, bytes);
              }
              return true;
            }) {
    lab[0].dma_checker.out.bind(target.entry());
    lab.begin();
  }
  Machine& machine() { return lab[0]; }

  BusTarget& target;
  PacketLab lab;
};

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
  Random dice(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(dice.next());
  return bytes;
}

constexpr std::uint64_t kBlock = 24 * 1024 + 200;  // not all of it whole lines

// Queue, read index, signals, mailbox, interrupt, copies both ways, a fill: all with the host's memory.
void use_everything(TargetLab& of, std::uint64_t base) {
  Machine& m = of.machine();
  const std::uint64_t at = kWindow + base;
  REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
  const heddle_queue_setup setup = {at, 16, at + 4096, of.lab.take_device(64), 0, 0, 0};
  heddle_queue queue{};
  REQUIRE(heddle_queue_create(&queue, &m.device, 0, &setup, 1000) == HEDDLE_OK);
  const std::uint64_t signal = at + 8192;
  const std::uint64_t last = at + 8256 + HEDDLE_SIGNAL_INTERRUPT;
  const std::uint64_t mailbox = at + 8320;
  REQUIRE(heddle_signal_init(&m.bus, signal, 5, 0, 0) == HEDDLE_OK);
  REQUIRE(heddle_signal_init(&m.bus, last, 1, mailbox, 77) == HEDDLE_OK);
  const std::vector<std::uint8_t> block = random_bytes(kBlock, 5);
  const std::uint64_t from = at + 65'536;
  const std::uint64_t to = at + 2 * 65'536;
  const std::uint64_t filled = at + 3 * 65'536;
  REQUIRE(m.bus.store(&m, from, block.data(), block.size()));
  const std::uint64_t device = of.lab.take_device(65'536);
  const std::uint64_t word = of.lab.take_device(128);
  m.write<std::uint32_t>(word, 4);
  heddle_dispatch step = PacketLab::dispatch(of.lab.program_object(0, step_program(7)), 32, 32, signal);
  step.kernarg = word;
  const std::uint8_t scopes = static_cast<std::uint8_t>(HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM));
  std::vector<heddle_packet> packets(6);
  packets[0] = kernel(step);
  heddle_packet_copy(&packets[1], scopes, from, device, kBlock, signal);
  heddle_packet_copy(&packets[2], scopes, device, to, kBlock, signal);
  heddle_packet_fill(&packets[3], scopes, filled, 4096, 0x0403'0201, signal);
  packets[4] = kernel(step);
  step.completion_signal = last;
  packets[5] = kernel(step);
  submit(queue, packets);
  CHECK(wait_below(m, signal) == 0);
  CHECK(wait_below(m, last & ~HEDDLE_SIGNAL_INTERRUPT) == 0);
  for (int i = 0; i < 1000 && !m.irq.read(); ++i) m.bus.relax(nullptr);
  CHECK(m.irq.read());
  CHECK(m.read<std::uint32_t>(mailbox) == 77);
  CHECK(m.read<std::uint32_t>(word) == ((4 * 3 + 7) * 3 + 7) * 3 + 7);
  std::vector<std::uint8_t> found(kBlock);
  REQUIRE(m.bus.load(&m, to, found.data(), found.size()));
  CHECK(found == block);
  for (std::uint64_t i = 0; i < 4096; ++i) REQUIRE(m.read<std::uint8_t>(filled + i) == i % 4 + 1);
  std::uint32_t event = 0;
  REQUIRE(heddle_device_event(&m.device, &event) == HEDDLE_OK);
  CHECK(event == 77);
  REQUIRE(heddle_device_acknowledge(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
  REQUIRE(heddle_queue_destroy(&queue, 10'000) == HEDDLE_OK);
  CHECK(m.read<std::uint64_t>(at + 4096) == 6);
}

// GB/s of a copy of 2 MiB from the host to the device.
double copy_rate(TargetLab& of, std::uint64_t base) {
  Machine& m = of.machine();
  constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;
  const std::vector<std::uint8_t> block = random_bytes(kBytes, 6);
  of.target.write(base, block.data(), block.size());
  const std::uint64_t to = of.lab.take_device(kBytes);
  const heddle_copy copy = {HEDDLE_COPY_KIND_COPY, kWindow + base, to, kBytes, 0, 0};
  REQUIRE(heddle_copy_start(&m.device, 1, &copy) == HEDDLE_OK);
  heddle_copy_state state{};
  std::uint32_t hsa = 0;
  REQUIRE(heddle_copy_wait(&m.device, 1, 1'000'000, &state, &hsa) == HEDDLE_OK);
  REQUIRE(state == HEDDLE_COPY_STATE_DONE);
  std::vector<std::uint8_t> found(kBytes);
  REQUIRE(m.bus.load(&m, to, found.data(), found.size()));
  CHECK(found == block);
  std::uint64_t cycles = 0;
  REQUIRE(m.bus.read(&m, HEDDLE_REG_COPY_CYCLES(1), 8, &cycles));
  return static_cast<double>(kBytes) / m.gpu.domain().clock().ns_for_cycles(static_cast<double>(cycles));
}

struct Row {
  const char* name;
  const char* what;
  std::function<std::unique_ptr<BusTarget>()> make;
  double own = 0;  // GB/s that the target itself gives at most; 0: more than the link
  std::vector<std::string> sets = {};
  std::uint64_t base = 0;
  bool proper = true;  // it keeps the base protocol
};

template <class Target, class... Arguments>
auto make(Arguments... arguments) {
  return [=]() -> std::unique_ptr<BusTarget> { return std::make_unique<Target>("target", arguments...); };
}

std::string text_of(double rate) { return rate < 10 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate); }

void run(const Row& row) {
  // 128 bytes of a line and 24 of its header share what the link carries.
  const double link = gpu::GpuParams().hub.link_bandwidth * 128 / (128 + 24);
  const double modelled = row.own > 0 ? row.own : link;
  std::vector<std::string> rates;
  for (const char* const timing : kTimings) {
    CAPTURE(row.name, timing);
    SimFixture fixture;
    Reports reports;
    const std::unique_ptr<BusTarget> target = row.make();
    std::vector<std::string> sets = row.sets;
    sets.push_back(std::string("gpu.timing=") + timing);
    TargetLab of(sets, *target);
    use_everything(of, row.base);
    const double rate = copy_rate(of, row.base + (std::uint64_t{1} << 20));
    CHECK(rate > 0.95 * modelled);
    CHECK(rate < 1.05 * modelled);
    rates.push_back(text_of(rate));
    if (row.proper) {
      for (const std::string& violation : of.lab.violations()) FAIL_CHECK(violation);
    }
    of.machine().gpu.check_quiescent();
    CHECK(target->intact());
  }
  check_row(row.name, row.what, rates[0], rates[1], rates[2]);
}

const double kOneAtATime = 128.0 / 80;  // GB/s, at 80 ns a line

}  // namespace

TEST_CASE("memories that answer by b_transport", "[system][HST-06]") {
  const std::vector<Row> rows = {
      {"adds its latency to the delay (`simple_target_socket`)", "works", make<AnnotatingMemory>()},
      {"the same, with debug transport", "works; ranges move by it in `fast` and `lt`", make<DebuggableMemory>()},
      {"waits inside b_transport", "works: as many calls are open as there are tags", make<WaitingMemory>()},
      {"waits, and leaves the delay to others", "works", make<DeafMemory>()},
      {"overwrites the delay", "works; its time counts from the call", make<ForgetfulMemory>(), 0, {}, 0, false},
      {"serves one line at a time, in 80 ns", "works at its own pace", make<NarrowMemory>(), kOneAtATime},
      {"cannot be called while it waits",
       "works with `gpu.hub.dma_calls=1`, at its own pace",
       make<FragileMemory>(),
       kOneAtATime,
       {"gpu.hub.dma_calls=1", "gpu.hub.dma_transport=blocking"}},
  };
  for (const Row& row : rows) run(row);
}

TEST_CASE("memories that answer by nb_transport", "[system][HST-06]") {
  const std::vector<Row> rows = {
      {"END_REQ at once, BEGIN_RESP later", "works", make<PhasedMemory>(Habit::accepts)},
      {"TLM_COMPLETED at once", "works", make<PhasedMemory>(Habit::completes)},
      {"BEGIN_RESP at once", "works", make<PhasedMemory>(Habit::responds)},
      {"END_REQ only with BEGIN_RESP", "works: is called by b_transport from the third request on, and told so",
       make<PhasedMemory>(Habit::withholds)},
      {"END_REQ when one of four is over, 80 ns each", "works at its own pace in `at` and `fast`",
       make<PhasedMemory>(Habit::throttles)},
      {"answers out of order", "works", make<PhasedMemory>(Habit::shuffles)},
  };
  for (const Row& row : rows) {
    if (std::string(row.name).find("of four") == std::string::npos) run(row);
  }
  // Its pace is that of its request channel, which only nb_transport has.
  Row four = rows[4];
  std::vector<std::string> rates;
  for (const char* const timing : kTimings) {
    CAPTURE(timing);
    SimFixture fixture;
    const std::unique_ptr<BusTarget> target = four.make();
    TargetLab of({std::string("gpu.timing=") + timing}, *target);
    use_everything(of, 0);
    rates.push_back(text_of(copy_rate(of, std::uint64_t{1} << 20)));
  }
  CHECK(rates[0] == text_of(4 * kOneAtATime));
  check_row(four.name, four.what, rates[0], rates[1], rates[2]);
}

TEST_CASE("memories with pointers, of other widths, and behind buses", "[system][HST-06]") {
  const auto pages = []() -> std::unique_ptr<BusTarget> {
    auto target = std::make_unique<DirectMemory>("target");
    target->page = 16'384;
    return target;
  };
  const auto mapped = []() -> std::unique_ptr<BusTarget> {
    auto target = std::make_unique<MappedMemory>("target");
    target->set_base(std::uint64_t{1} << 40);
    return target;
  };
  const std::vector<Row> rows = {
      {"`host::HostMemory`", "works; atomics are carried out as one", make<OwnMemory>()},
      {"grants direct pointers to all of it", "works; they are used in `fast` and `lt`", make<DirectMemory>()},
      {"grants them by pages of 16 KiB", "works; the last 16 are kept", pages},
      {"a bus that changes the address", "works", mapped, 0, {}, std::uint64_t{1} << 40, false},
      {"a bus that splits bursts into 32 bytes", "works", make<SplittingMemory>()},
      {"a bus with another master, one transaction at a time", "works; atomics of the two are not atomic to each other",
       make<SharedMemory>()},
      {"BUSWIDTH of 64", "works behind `host::WidthAdapter`", make<WideMemory<64>>()},
      {"BUSWIDTH of 128", "works behind `host::WidthAdapter`", make<WideMemory<128>>()},
      {"BUSWIDTH of 512", "works behind `host::WidthAdapter`", make<WideMemory<512>>()},
  };
  for (const Row& row : rows) run(row);
}

TEST_CASE("memories that leave the standard", "[system][HST-06]") {
  const std::vector<Row> rows = {
      {"ends the simulation on commands other than read and write", "works: it never gets any",
       make<AssertingMemory>()},
      {"takes TLM_IGNORE_COMMAND for a write", "works: it never gets any", make<MisreadingMemory>()},
      {"refuses TLM_IGNORE_COMMAND", "works: it never gets any", make<RefusingCommandMemory>()},
      {"takes TLM_IGNORE_COMMAND for a write, and is offered atomics",
       "works: the offer has no bytes",
       make<MisreadingMemory>(),
       0,
       {"gpu.hub.dma_atomics=offer"},
       0,
       false},
      {"leaves TLM_INCOMPLETE_RESPONSE",
       "works: counts as OK, with one warning",
       make<SilentStatusMemory>(),
       0,
       {},
       0,
       false},
  };
  for (const Row& row : rows) run(row);
}

namespace {

constexpr std::uint32_t kInvalidQueue = 0x1007;

// A queue whose ring the host cannot be read stops; another one works all the time.
void check_bad_ring(TargetLab& of, std::uint64_t bad, std::uint32_t looks) {
  Machine& m = of.machine();
  use_everything(of, 1 << 20);
  const heddle_queue_setup setup = {kWindow + bad, 16, 0, of.lab.take_device(64), 0, 0, 0};
  heddle_queue queue{};
  REQUIRE(heddle_queue_create(&queue, &m.device, 1, &setup, 1000) == HEDDLE_OK);
  submit(queue, {kernel(PacketLab::dispatch(of.lab.timed_object(0, 100), 32, 32))});
  use_everything(of, 1 << 20);
  heddle_queue_state state = HEDDLE_QUEUE_STATE_ACTIVE;
  for (std::uint32_t i = 0; i < looks && state == HEDDLE_QUEUE_STATE_ACTIVE; ++i) {
    m.bus.relax(nullptr);
    REQUIRE(heddle_queue_get_state(&queue, &state) == HEDDLE_OK);
  }
  CHECK(state == HEDDLE_QUEUE_STATE_ERROR);
  heddle_error error{};
  REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  CHECK(error.status == kInvalidQueue);
  // A copy from there says where.
  const heddle_copy copy = {HEDDLE_COPY_KIND_COPY, kWindow + bad - 128, of.lab.take_device(4096), 512, 0, 0};
  REQUIRE(heddle_copy_start(&m.device, 0, &copy) == HEDDLE_OK);
  heddle_copy_state ended{};
  std::uint32_t hsa = 0;
  REQUIRE(heddle_copy_wait(&m.device, 0, looks, &ended, &hsa) == HEDDLE_OK);
  CHECK(ended == HEDDLE_COPY_STATE_ERROR);
  std::uint64_t address = 0;
  REQUIRE(m.bus.read(&m, HEDDLE_REG_COPY_ERROR_ADDRESS(0), 8, &address));
  CHECK(address == kWindow + bad);
  use_everything(of, 1 << 20);
}

}  // namespace

TEST_CASE("memories that refuse", "[system][HST-06]") {
  const std::pair<tlm::tlm_response_status, const char*> statuses[] = {
      {tlm::TLM_GENERIC_ERROR_RESPONSE, "TLM_GENERIC_ERROR_RESPONSE"},
      {tlm::TLM_ADDRESS_ERROR_RESPONSE, "TLM_ADDRESS_ERROR_RESPONSE"},
      {tlm::TLM_COMMAND_ERROR_RESPONSE, "TLM_COMMAND_ERROR_RESPONSE"},
      {tlm::TLM_BURST_ERROR_RESPONSE, "TLM_BURST_ERROR_RESPONSE"},
      {tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE, "TLM_BYTE_ENABLE_ERROR_RESPONSE"},
  };
  constexpr std::uint64_t kBad = 0x10'000;
  for (const auto& [status, name] : statuses) {
    for (const char* const timing : kTimings) {
      CAPTURE(name, timing);
      SimFixture fixture;
      Reports reports;
      RefusingMemory target("target", status);
      target.first = kBad;
      target.last = kBad + 4096;
      TargetLab of({std::string("gpu.timing=") + timing}, target);
      check_bad_ring(of, kBad, 1000);
    }
    check_row(std::string("answers with ") + name, "queue error or copy error, with the address; others go on", "-",
              "-", "-");
  }
  for (const char* const timing : kTimings) {
    CAPTURE(timing);
    SimFixture fixture;
    Reports reports;
    PhasedMemory target("target", Habit::promises);
    target.first = kBad;
    target.last = kBad + 4096;
    TargetLab of({std::string("gpu.timing=") + timing}, target);
    check_bad_ring(of, kBad, 1000);
  }
  check_row("sets TLM_OK_RESPONSE early and an error with BEGIN_RESP", "the same: the last word counts", "-", "-", "-");
  for (const char* const timing : kTimings) {
    CAPTURE(timing);
    SimFixture fixture;
    Reports reports;
    SilentStatusMemory target("target");
    TargetLab of({std::string("gpu.timing=") + timing, "gpu.hub.dma_incomplete=error"}, target);
    Machine& m = of.machine();
    const heddle_queue_setup setup = {kWindow, 16, 0, of.lab.take_device(64), 0, 0, 0};
    heddle_queue queue{};
    REQUIRE(heddle_queue_create(&queue, &m.device, 1, &setup, 1000) == HEDDLE_OK);
    submit(queue, {kernel(PacketLab::dispatch(of.lab.timed_object(0, 100), 32, 32))});
    for (int i = 0; i < 100; ++i) m.bus.relax(nullptr);
    heddle_error error{};
    REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
    CHECK(error.status == kInvalidQueue);
  }
  check_row("leaves TLM_INCOMPLETE_RESPONSE, and `gpu.hub.dma_incomplete=error`", "the same, with one warning", "-",
            "-", "-");
}

TEST_CASE("memories that never answer", "[system][HST-06]") {
  constexpr std::uint64_t kBad = 0x10'000;
  const std::pair<int, const char*> kinds[] = {
      {0, "never comes back from b_transport"}, {1, "accepts, and never answers"}, {2, "never even accepts"}};
  for (const auto& [kind, name] : kinds) {
    for (const char* const timing : kTimings) {
      for (const bool resets : {false, true}) {
        CAPTURE(name, timing, resets);
        SimFixture fixture;
        Reports reports;
        SilentTarget silent(kind, kBad, kBad + 4096);
        BusTarget& target = silent.target();
        TargetLab of({std::string("gpu.timing=") + timing, "gpu.hub.dma_answer_limit=200us"}, target);
        if (!resets) {
          check_bad_ring(of, kBad, 5000);
          continue;
        }
        Machine& m = of.machine();
        const heddle_queue_setup setup = {kWindow + kBad, 16, 0, of.lab.take_device(64), 0, 0, 0};
        heddle_queue queue{};
        REQUIRE(heddle_queue_create(&queue, &m.device, 1, &setup, 1000) == HEDDLE_OK);
        submit(queue, {kernel(PacketLab::dispatch(of.lab.timed_object(0, 100), 32, 32))});
        for (int i = 0; i < 50; ++i) m.bus.relax(nullptr);
        // A look every 100 ns: ten are too few, and the limit of 200 us ends it.
        CHECK(heddle_device_reset(&m.device, 10) == HEDDLE_TIMEOUT);
        use_everything(of, 1 << 20);  // at once
        CHECK(heddle_device_reset(&m.device, 2500) == HEDDLE_OK);
        use_everything(of, 1 << 20);
      }
    }
    check_row(name, "an error after `gpu.hub.dma_answer_limit`; others go on; a reset recovers", "-", "-", "-");
  }
}

TEST_CASE("hosts that are late, or early", "[system][HST-06]") {
  for (const char* const timing : kTimings) {
    CAPTURE(timing);
    SimFixture fixture;
    AnnotatingMemory target("target");
    TargetLab of({std::string("gpu.timing=") + timing}, target);
    Reports reports;
    Machine& m = of.machine();
    REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
    const heddle_queue_setup setup = {kWindow, 16, kWindow + 4096, of.lab.take_device(64), 0, 0, 0};
    heddle_queue queue{};
    REQUIRE(heddle_queue_create(&queue, &m.device, 0, &setup, 1000) == HEDDLE_OK);
    const std::uint64_t object = of.lab.timed_object(0, 100);
    for (std::uint32_t i = 0; i < 5; ++i) {
      const std::uint64_t signal = (kWindow + 8192 + 64 * i) | HEDDLE_SIGNAL_INTERRUPT;
      REQUIRE(heddle_signal_init(&m.bus, signal, 1, 0, 100 + i) == HEDDLE_OK);
      submit(queue, {kernel(PacketLab::dispatch(object, 32, 32, signal))});
      CHECK(wait_below(m, signal & ~HEDDLE_SIGNAL_INTERRUPT) == 0);
    }
    for (int i = 0; i < 1000; ++i) m.bus.relax(nullptr);  // nobody has acknowledged anything
    CHECK(m.irq.read());
    std::uint32_t event = 0;
    for (std::uint32_t i = 0; i < 5; ++i) {
      REQUIRE(heddle_device_event(&m.device, &event) == HEDDLE_OK);
      CHECK(event == 100 + i);
    }
    CHECK(heddle_device_event(&m.device, &event) == HEDDLE_EMPTY);
    CHECK(m.irq.read());
    REQUIRE(heddle_device_acknowledge(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
    m.bus.relax(nullptr);
    CHECK_FALSE(m.irq.read());
    // Held in reset, with copies under way.
    const heddle_copy copy = {HEDDLE_COPY_KIND_COPY, kWindow, of.lab.take_device(1 << 20), 1 << 20, 0, 0};
    REQUIRE(heddle_copy_start(&m.device, 1, &copy) == HEDDLE_OK);
    m.bus.relax(nullptr);
    m.rst.write(true);
    m.bus.relax(nullptr);
    std::uint32_t status = 0;
    CHECK(heddle_device_interrupts(&m.device, &status) == HEDDLE_BUS);
    std::uint64_t word = 0;
    CHECK(m.bar1.access(tlm::TLM_READ_COMMAND, 0, &word, 8) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    m.rst.write(false);
    m.bus.relax(nullptr);
    CHECK(heddle_device_interrupts(&m.device, &status) == HEDDLE_OK);
    use_everything(of, 1 << 20);
  }
  check_row("a host that acknowledges interrupts late", "the line stays up; no event is lost", "-", "-", "-");
  check_row("a host that accesses a device in reset", "an error response; all works afterwards", "-", "-", "-");
}

TEST_CASE("a process reaches the host's memory that it was given, and nothing else", "[system][HST-06]") {
  for (const char* const timing : kTimings) {
    CAPTURE(timing);
    SimFixture fixture;
    Reports reports;
    DirectMemory target("target");  // pointers are no way around
    TargetLab of({std::string("gpu.timing=") + timing}, target);
    Machine& m = of.machine();
    constexpr std::uint8_t kMine = 1;
    constexpr std::uint64_t kForeign = kWindow + (2 << 20);
    const std::uint64_t at = kWindow + (1 << 20);
    m.write<std::uint64_t>(kForeign, 1000);
    REQUIRE(heddle_windows_isolate(&m.device, true) == HEDDLE_OK);
    const heddle_window window = {at, 65'536, kMine, true, true};
    REQUIRE(heddle_window_open(&m.device, &window) == HEDDLE_OK);
    const std::uint64_t object = of.lab.timed_object(0, 100);
    const auto open = [&](std::uint32_t number, std::uint8_t subcontext, std::uint64_t ring, std::uint64_t index) {
      const heddle_queue_setup setup = {ring, 16, index, of.lab.take_device(64), 0, 0, subcontext};
      heddle_queue queue{};
      REQUIRE(heddle_queue_create(&queue, &m.device, number, &setup, 1000) == HEDDLE_OK);
      return queue;
    };
    const auto stops = [&](heddle_queue& queue, std::uint32_t status) {
      heddle_error error{};
      for (int i = 0; i < 1000 && error.count == 0; ++i) {
        m.bus.relax(nullptr);
        REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
      }
      CHECK(error.status == status);
      REQUIRE(heddle_queue_destroy(&queue, 10'000) == HEDDLE_OK);
    };
    std::uint32_t faults = 0;
    // The last fault lies in those bytes.
    const auto names = [&](std::uint64_t address, bool write, std::uint64_t bytes = 1) {
      heddle_window_fault fault{};
      REQUIRE(heddle_windows_fault(&m.device, &fault) == HEDDLE_OK);
      CHECK(fault.count > faults);
      faults = fault.count;
      CHECK(fault.address >= address);
      CHECK(fault.address < address + bytes);
      CHECK(fault.subcontext == kMine);
      CHECK(fault.access == (write ? HEDDLE_WINDOW_ACCESS_WRITE : HEDDLE_WINDOW_ACCESS_READ));
    };
    // All that is its own works, and takes what a copy of the driver's has left to it.
    heddle_queue good = open(0, kMine, at, at + 4096);
    const std::uint64_t signal = at + 8192;
    const std::uint64_t mailbox = at + 8320;
    REQUIRE(heddle_signal_init(&m.bus, signal | HEDDLE_SIGNAL_INTERRUPT, 2, mailbox, 5) == HEDDLE_OK);
    const std::uint64_t handle = signal | HEDDLE_SIGNAL_INTERRUPT;
    std::vector<heddle_packet> packets(2, kernel(PacketLab::dispatch(object, 32, 32, handle)));
    heddle_packet_copy(&packets[1], 0, at + 16'384, at + 32'768, 5000, handle);
    submit(good, packets);
    CHECK(wait_below(m, signal) == 0);
    CHECK(faults == 0);
    // A ring, a read index, a signal, a mailbox, the ends of copies that are another's.
    heddle_queue ring = open(1, kMine, kForeign + 4096, 0);
    submit(ring, {kernel(PacketLab::dispatch(object, 32, 32))});
    stops(ring, 0x1007);
    names(kForeign + 4096, false, 16 * 64);  // packets are read ahead
    heddle_queue index = open(1, kMine, at + 2048, kForeign + 64);
    submit(index, {kernel(PacketLab::dispatch(object, 32, 32))});
    stops(index, 0x1007);
    names(kForeign + 64, true);
    heddle_queue signals = open(1, kMine, at + 2048, 0);
    submit(signals, {kernel(PacketLab::dispatch(object, 32, 32, kForeign))});
    stops(signals, 0x1006);
    names(kForeign, true);
    const std::uint64_t with_mailbox = (at + 8448) | HEDDLE_SIGNAL_INTERRUPT;
    REQUIRE(heddle_signal_init(&m.bus, with_mailbox, 1, kForeign, 9) == HEDDLE_OK);
    heddle_queue mailboxes = open(1, kMine, at + 2048, 0);
    submit(mailboxes, {kernel(PacketLab::dispatch(object, 32, 32, with_mailbox))});
    stops(mailboxes, 0x1006);
    names(kForeign, true);
    for (const bool from : {true, false}) {
      heddle_queue copies = open(1, kMine, at + 2048, 0);
      heddle_packet copy{};
      // Its own bytes go first.
      const std::uint64_t device = of.lab.take_device(4096);
      const std::uint64_t edge = at + 65'536 - 256;
      heddle_packet_copy(&copy, 0, from ? edge : device, from ? device : edge, 384, 0);
      submit(copies, {copy});
      stops(copies, 0x1000);
      names(at + 65'536, !from);
    }
    heddle_queue fills = open(1, kMine, at + 2048, 0);
    heddle_packet fill{};
    heddle_packet_fill(&fill, 0, kForeign, 8192, 1, 0);
    submit(fills, {fill});
    stops(fills, 0x1000);
    names(kForeign, true);
    CHECK(m.read<std::uint64_t>(kForeign) == 1000);
    // What is bad of one queue is nothing to the others, and the driver reaches everything.
    REQUIRE(heddle_signal_init(&m.bus, handle, 1, 0, 5) == HEDDLE_OK);
    submit(good, {kernel(PacketLab::dispatch(object, 32, 32, handle))});
    CHECK(wait_below(m, signal) == 0);
    heddle_queue driver = open(2, 0, kForeign + 8192, 0);
    submit(driver, {kernel(PacketLab::dispatch(object, 32, 32, kForeign))});
    for (int i = 0; i < 200; ++i) m.bus.relax(nullptr);
    CHECK(m.read<std::uint64_t>(kForeign) == 999);
    // Without its window the process reaches nothing; not kept apart, all of it.
    REQUIRE(heddle_windows_close(&m.device, kMine) == HEDDLE_OK);
    submit(good, {kernel(PacketLab::dispatch(object, 32, 32))});
    stops(good, 0x1007);
    REQUIRE(heddle_windows_isolate(&m.device, false) == HEDDLE_OK);
    heddle_queue free = open(1, kMine, kForeign + 4096, 0);
    submit(free, {kernel(PacketLab::dispatch(object, 32, 32, kForeign))});
    for (int i = 0; i < 200; ++i) m.bus.relax(nullptr);
    CHECK(m.read<std::uint64_t>(kForeign) == 998);
    // Transactions say whose they are.
    CHECK(target.by_pasid[kMine] > 0);
    CHECK(target.by_pasid.count(~0U) == 0);
  }
}

TEST_CASE("a platform of another bus width reaches a device through an adapter", "[system][HST-02][HST-06]") {
  struct Platform : sc_core::sc_module {
    explicit Platform(const sc_core::sc_module_name& name) : sc_core::sc_module(name), socket("socket") {
      socket.register_invalidate_direct_mem_ptr(this, &Platform::invalidate);
      socket.register_nb_transport_bw(this, &Platform::respond);
    }
    void invalidate(sc_dt::uint64, sc_dt::uint64) { ++taken_back; }
    tlm::tlm_sync_enum respond(Payload&, tlm::tlm_phase& phase, sc_core::sc_time&) {
      answered |= phase == tlm::BEGIN_RESP;
      return phase == tlm::BEGIN_RESP ? tlm::TLM_COMPLETED : tlm::TLM_ACCEPTED;
    }
    tlm_utils::simple_initiator_socket<Platform, 128> socket;
    unsigned taken_back = 0;
    bool answered = false;
  };
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  Platform platform("platform");
  host::WidthAdapter<128, 32> adapter("adapter");
  platform.socket.bind(adapter.in);
  adapter.out.bind(lab.gpu.bar1());
  start();
  std::uint64_t value = 0x1122'3344'5566'7788;
  Payload payload;
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(4096);
  payload.set_data_ptr(reinterpret_cast<unsigned char*>(&value));
  payload.set_data_length(8);
  payload.set_streaming_width(8);
  sc_core::sc_time delay;
  platform.socket->b_transport(payload, delay);
  CHECK(payload.is_response_ok());
  CHECK(lab.read<std::uint64_t>(4096) == value);
  payload.set_command(tlm::TLM_READ_COMMAND);
  value = 0;
  CHECK(platform.socket->transport_dbg(payload) == 8);
  CHECK(value == 0x1122'3344'5566'7788);
  tlm::tlm_dmi dmi;
  REQUIRE(platform.socket->get_direct_mem_ptr(payload, dmi));
  CHECK(dmi.get_end_address() - dmi.get_start_address() + 1 == std::uint64_t{2} << 20);
  CHECK(std::memcmp(dmi.get_dmi_ptr() + (4096 - dmi.get_start_address()), &value, 8) == 0);
  // The machine works on the page.
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  delay = sc_core::SC_ZERO_TIME;
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  CHECK(platform.socket->nb_transport_fw(payload, phase, delay) == tlm::TLM_UPDATED);
  run_until_idle();
  CHECK(platform.answered);
  CHECK(platform.taken_back > 0);
}

}  // namespace system_host_targets_test
