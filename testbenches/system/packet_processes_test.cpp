// Two processes with packets of their own, address spaces of their own and reference state tables in device memory. One
// of them is hostile.
#include "arch/page_table.h"
#include "support/packet_programs.h"

namespace system_packet_processes_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

namespace {

constexpr std::uint64_t kPage = arch::kSmallPage;
constexpr std::uint64_t kData = 0x1'0000'0000;  // virtual, in both processes

// Stores its second argument at the address that is its first.
std::shared_ptr<const arch::WarpProgram> poke_program() {
  auto p = std::make_shared<ListProgram>(4);
  const auto first = [](const Warp&) { return arch::LaneMask{1}; };
  ListProgram::Access wide{arch::Space::global, 8, arch::Order::weak, arch::Scope::gpu, first};
  p->load(wide, 0, [](const Warp& w, std::uint32_t) { return w.place.kernarg; });
  p->store(
      {arch::Space::global, 4, arch::Order::weak, arch::Scope::gpu, first},
      [](const Warp&, std::uint32_t) { return std::uint64_t{0x11}; },
      [](const Warp& w, std::uint32_t lane) {
        return std::uint64_t{w.reg(0, lane)} | std::uint64_t{w.reg(1, lane)} << 32;
      },
      {{0, 2}});
  p->exit();
  return p;
}

struct Process {
  std::uint8_t subcontext = 0;
  std::uint64_t frame = 0;  // physical, of its page of data
  heddle_queue queue{};
  std::uint64_t signal = 0;
};

heddle_packet condensed(std::uint32_t kernels) {
  heddle_condensed packet;
  heddle_condensed_init(&packet);
  for (std::uint32_t i = 0; i < kernels; ++i) {
    REQUIRE(heddle_condensed_append(&packet, 0, 0, nullptr) == HEDDLE_OK);
  }
  return packet.packet;
}

class Processes {
 public:
  explicit Processes(PacketLab& lab) : lab_(lab), m_(lab[0]) {
    // What both read: kernel objects, each at its own address.
    objects_ = lab.take_device(0, kPage);
    step = lab.program_object(0, step_program(1), "step");
    other = lab.program_object(0, step_program(5), "other");
    poke = lab.program_object(0, poke_program(), "poke");
    frames_ = lab.take_device(2 * kPage, kPage);
    const std::uint64_t pages = lab.take_device(std::uint64_t{4} << 20, kPage);
    for (std::uint8_t i = 0; i < 2; ++i) {
      Process& process = all[i];
      process.subcontext = static_cast<std::uint8_t>(i + 1);
      process.frame = frames_ + i * kPage;
      arch::PageTables tables(pages + (std::uint64_t{i} << 20), 1U << 20,
                              [this](std::uint64_t address, std::uint64_t value) { m_.write(address, value); });
      tables.map(kData, process.frame, kPage, true);
      tables.map(objects_, objects_, kPage, false);
      share(process.subcontext, tables.root());
      process.signal = lab.new_signal(0, true, 100);
      open(process);
    }
  }

  void open(Process& process) {
    heddle_queue_setup setup{};
    setup.ring = lab_.take_host(16 * 64);
    setup.size = 16;
    setup.read_index = lab_.take_host(64);
    setup.write_index = lab_.take_host(64);
    setup.subcontext = process.subcontext;
    REQUIRE(heddle_queue_create(&process.queue, &m_.device, process.subcontext, &setup, 100'000) == HEDDLE_OK);
  }
  heddle_dispatch dispatch(const Process& process, std::uint64_t object, std::uint64_t kernarg = kData) const {
    heddle_dispatch d = PacketLab::dispatch(object, 32, 32, process.signal);
    d.kernarg = kernarg;
    return d;
  }
  void store(Process& process, std::uint64_t object) {
    heddle_packet packet{};
    const heddle_dispatch d = dispatch(process, object);
    REQUIRE(heddle_packet_reference(&packet, &d, 0) == HEDDLE_OK);
    submit(process.queue, {packet});
  }
  std::uint32_t word(const Process& process) { return m_.read<std::uint32_t>(process.frame); }

  Process all[2];
  std::uint64_t step = 0;
  std::uint64_t other = 0;
  std::uint64_t poke = 0;

 private:
  void share(std::uint8_t subcontext, std::uint64_t root) {
    REQUIRE(m_.bus.write(&m_, HEDDLE_REG_SHARE_SUBCONTEXT, 4, subcontext));
    REQUIRE(m_.bus.write(&m_, HEDDLE_REG_SHARE_VALUE, 8, root));
    REQUIRE(m_.bus.write(&m_, HEDDLE_REG_SHARE_COMMAND, 4, HEDDLE_SHARE_COMMAND_PAGE_TABLE));
  }

  PacketLab& lab_;
  Machine& m_;
  std::uint64_t objects_ = 0;
  std::uint64_t frames_ = 0;
};

}  // namespace

TEST_CASE("tables in memory work for translated processes, and no process reaches another's",
          "[system][PKT-05][PKT-11][MEM-04][PRT-08]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing, "gpu.mmu.enabled=true", "gpu.packet.table=memory"}));
  lab.begin();
  Machine& m = lab[0];
  Processes processes(lab);
  Process& good = processes.all[0];
  Process& hostile = processes.all[1];
  const std::uint64_t tables = m.gpu.params().reference_tables();
  const std::uint64_t entry = tables + std::uint64_t{good.subcontext} * 8 * 256;  // entry 0 of the good one's queue
  for (Process* process : {&good, &hostile}) m.write<std::uint32_t>(process->frame, 1);

  // The same entry of both tables, with different kernels; both use the same addresses.
  processes.store(good, processes.step);
  processes.store(hostile, processes.other);
  CHECK(wait_below(m, good.signal, 100) == 99);
  CHECK(wait_below(m, hostile.signal, 100) == 99);
  CHECK(processes.word(good) == 3 * 1 + 1);
  CHECK(processes.word(hostile) == 3 * 1 + 5);
  submit(good.queue, {condensed(2)});
  CHECK(wait_below(m, good.signal, 99) == 98);
  CHECK(processes.word(good) == (4 * 3 + 1) * 3 + 1);

  std::vector<std::uint8_t> before(256);
  REQUIRE(m.move(tlm::TLM_READ_COMMAND, entry, before.data(), before.size()));
  CHECK(std::string(before.begin(), before.begin() + 4) == "HDRE");
  const auto untouched = [&] {
    std::vector<std::uint8_t> now(256);
    REQUIRE(m.move(tlm::TLM_READ_COMMAND, entry, now.data(), now.size()));
    return now == before;
  };
  const auto reopen = [&] {
    REQUIRE(heddle_queue_destroy(&hostile.queue, 100'000) == HEDDLE_OK);
    processes.open(hostile);
  };
  const auto stopped = [&] {
    for (int i = 0; i < 1000; ++i) {
      sc_core::sc_start(sc_core::sc_time(100, sc_core::SC_NS));
      std::uint64_t state = 0;
      REQUIRE(m.bus.read(&m, HEDDLE_REG_QUEUE_STATE(hostile.subcontext), 4, &state));
      if (state == HEDDLE_QUEUE_STATE_ERROR) return true;
    }
    return false;
  };

  // At the arguments in the other's entry: a store, a copy, a fill; at its signal: a signal; and its object as one's
  // own.
  const std::uint64_t arguments = entry + 56;
  m.write<std::uint64_t>(hostile.frame + 64, arguments);
  submit(hostile.queue, {kernel(processes.dispatch(hostile, processes.poke, kData + 64))});
  CHECK(stopped());
  CHECK(untouched());
  reopen();
  heddle_packet packet{};
  heddle_packet_copy(&packet, HEDDLE_SCOPES(true, 0, 0), kData, arguments, 8, hostile.signal);
  submit(hostile.queue, {packet});
  CHECK(stopped());
  CHECK(untouched());
  reopen();
  heddle_packet_fill(&packet, HEDDLE_SCOPES(true, 0, 0), arguments, 8, 0, hostile.signal);
  submit(hostile.queue, {packet});
  CHECK(stopped());
  CHECK(untouched());
  reopen();
  heddle_dispatch d = processes.dispatch(hostile, processes.other);
  d.completion_signal = entry + 64;
  submit(hostile.queue, {kernel(d)});
  CHECK(stopped());
  CHECK(untouched());
  reopen();
  submit(hostile.queue, {kernel(processes.dispatch(hostile, entry + 128))});  // the contents of the other's object
  CHECK(stopped());
  CHECK(untouched());
  reopen();

  // Its own table has been emptied each time; the other one has what it had.
  submit(hostile.queue, {condensed(1)});
  CHECK(stopped());
  const std::uint32_t word = processes.word(good);
  submit(good.queue, {condensed(3)});
  CHECK(wait_below(m, good.signal, 98) == 97);
  CHECK(processes.word(good) == ((word * 3 + 1) * 3 + 1) * 3 + 1);
  CHECK(untouched());
  REQUIRE(heddle_queue_destroy(&hostile.queue, 100'000) == HEDDLE_OK);
  settle(lab);
}

}  // namespace system_packet_processes_test
