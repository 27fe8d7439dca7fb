// Queues whose entries cannot be written (TSK-05).
#include <memory>

#include <catch2/catch.hpp>

#include "support/gpu_lab.h"
#include "support/list_program.h"

namespace system_queue_fault_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kQueue = 0x10'0000;
constexpr std::uint64_t kEntries = 0x10'1000;
constexpr std::uint64_t kNowhere = std::uint64_t{1} << 45;  // there is no memory

std::shared_ptr<const arch::WarpProgram> appends() {
  auto p = std::make_shared<ListProgram>(2);
  p->queue_append(
      [](const Warp&, std::uint32_t) {
        arch::QueueAppend append;
        append.queue = kQueue;
        append.data[0] = 1;
        return append;
      },
      {}, [](const Warp&) { return arch::LaneMask{1}; });
  p->exit();
  return p;
}

std::shared_ptr<const arch::WarpProgram> nothing() {
  auto p = std::make_shared<ListProgram>(2);
  p->exit();
  return p;
}

void make_queue(GpuLab& lab, std::uint64_t entries) {
  lab.write<std::uint64_t>(kQueue + arch::queue::kTickets, 0);
  lab.write<std::uint64_t>(kQueue + arch::queue::kCapacity, 8);
  lab.write<std::uint64_t>(kQueue + arch::queue::kEntries, entries);
}

}  // namespace

TEST_CASE("an entry that a fault keeps from being written ends its queue task, and the queue can be made anew",
          "[system][TSK-05]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing}));
  make_queue(lab, kNowhere);
  protocol::SubmitPacket worker = lab.packet(nothing(), {1, 1, 1}, {32, 1, 1}, 0, 0);
  worker.queue = kQueue;
  worker.held_open = true;  // nobody closes it
  protocol::SubmitPacket again = lab.packet(nothing(), {1, 1, 1}, {32, 1, 1}, 0, 1);
  again.queue = kQueue;
  lab.submit(worker);
  const std::uint32_t producer = lab.submit(appends(), {4, 1, 1}, {32, 1, 1}, 0, 2);
  run_until_idle();
  REQUIRE(lab.host.results.size() == 2);
  CHECK(lab.host.results.at(worker.operation).status == protocol::DoneStatus::faulted);
  CHECK(lab.host.results.at(producer).status == protocol::DoneStatus::faulted);
  CHECK((lab.read<std::uint64_t>(kQueue + arch::queue::kTickets) & arch::kQueueClosed) != 0);
  CHECK(lab.stat("cwd.queue_entries") == 0);
  lab.gpu.check_quiescent();
  make_queue(lab, kEntries);
  lab.submit(again);
  const std::uint32_t more = lab.submit(appends(), {4, 1, 1}, {32, 1, 1}, 0, 2);
  run_until_idle();
  CHECK(lab.host.results.at(again.operation).status == protocol::DoneStatus::ok);
  CHECK(lab.host.results.count(more) == 1);
  lab.gpu.check_quiescent();
}

}  // namespace system_queue_fault_test
