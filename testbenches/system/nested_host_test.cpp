// A host that has filled everything it can fill, and waits, does not hold back what device code launches (TSK-15).
#include "support/nested_tree.h"
#include "support/packet_programs.h"

namespace system_nested_host_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

namespace {

constexpr std::uint64_t kSum = 0x40'0000;    // children add to it
constexpr std::uint64_t kChild = 0x40'0100;  // kernel object

std::shared_ptr<const arch::WarpProgram> adds() {
  auto p = std::make_shared<ListProgram>(2);
  ListProgram::Access one;
  one.lanes = ListProgram::only(0);
  p->atomic(one, arch::AtomicKind::add, arch::ValueType::u32, arch::kNoRegister, ListProgram::constant(1),
            ListProgram::linear(kSum, 0));
  p->exit();
  return p;
}

// Every lane launches a child; then all wait.
std::shared_ptr<const arch::WarpProgram> launches(std::uint32_t children) {
  auto p = std::make_shared<ListProgram>(2);
  for (std::uint32_t i = 1; i < children; ++i) p->stream_create(0);
  p->launch_child(
      [](const Warp&, std::uint32_t lane) {
        arch::ChildLaunch child;
        child.kernel = kChild;
        child.stream = arch::stream_number(lane % 4, lane / 4);  // TMDQs get streams in turn
        return child;
      },
      {}, [children](const Warp&) { return static_cast<arch::LaneMask>((std::uint64_t{1} << children) - 1); });
  p->wait_children();
  p->exit();
  return p;
}

}  // namespace

TEST_CASE("a host that fills all queues and waits does not block nested launches", "[system][TSK-15]") {
  SimFixture fixture;
  PacketLab lab(
      small({"gpu.packet.queues=4", "gpu.task.submit_queue=1", "gpu.cwd.table_slots=2", "gpu.cwd.evicted_tasks=2",
             "gpu.task.nested.pending_launches=90", "gpu.sm.nested.launch_instructions=12"}));
  lab.begin();
  Machine& m = lab[0];
  arch::KernelShape shape;
  shape.block = {32, 1, 1};
  heddle_kernel_object object{};
  object.program = m.gpu.add_code(adds(), shape);
  object.registers_per_thread = 16;
  object.name = "child";
  std::array<std::uint8_t, HEDDLE_KERNEL_OBJECT_BYTES> bytes{};
  REQUIRE(heddle_kernel_object_encode(bytes.data(), &object) == HEDDLE_OK);
  REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, kChild, bytes.data(), bytes.size()));
  const std::uint64_t parent = lab.program_object(0, launches(20), "parent");

  // Every ring is full: a parent, and packets behind it that wait for its end.
  constexpr std::uint32_t kRing = 8;
  std::vector<heddle_queue> queues;
  std::vector<std::uint64_t> signals;
  for (std::uint32_t q = 0; q < 4; ++q) {
    queues.push_back(lab.open_queue(0, q, kRing, true));
    signals.push_back(lab.new_signal(0, true, kRing));
    std::vector<heddle_packet> packets;
    for (std::uint32_t i = 0; i < kRing; ++i) {
      packets.push_back(kernel(PacketLab::dispatch(i == 0 ? parent : lab.timed_object(0, 100), 32, 32, signals[q])));
    }
    submit(queues[q], packets);
  }
  for (const std::uint64_t signal : signals) CHECK(wait_below(m, signal) == 0);
  CHECK(m.read<std::uint32_t>(kSum) == 4 * 20);
  CHECK(m.stat("task.children") == 4 * 20);
  settle(lab);
}

}  // namespace system_nested_host_test
