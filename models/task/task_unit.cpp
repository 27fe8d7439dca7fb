#include "task/task_unit.h"

namespace heddle::task {

using protocol::SubmitKind;
using StepKind = arch::MemoryStep::Kind;

TaskUnit::TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const TaskParams& params, const arch::SmLimits& limits, Cycle start_path, const TaskTable& table,
                   const LaunchPlace& place)
    : Block(name, domain, path),
      submit_in("submit_in", domain, 0),
      done_out("done_out", domain, 0, kUnlimitedCredits),
      dispatch_in("dispatch_in", domain, 0),
      dispatch_done_out("dispatch_done_out", domain, 0, kUnlimitedCredits),
      copy_out("copy_out", domain, params.to_cwd, kUnlimitedCredits),
      copy_done_in("copy_done_in", domain, 0),
      task_out("task_out", domain, params.to_cwd, table.slots),
      control_out("control_out", domain, params.to_cwd, kUnlimitedCredits),
      task_done_in("task_done_in", domain, 0),
      share_in("share_in", domain, 0),
      share_out("share_out", domain, params.to_cwd, kUnlimitedCredits),
      query_in("query_in", domain, 0),
      query_out("query_out", domain, params.to_cwd, kUnlimitedCredits),  // one at a time
      evict_out("evict_out", domain, params.to_cwd, kUnlimitedCredits),
      evicted_in("evicted_in", domain, 0),
      grow_out("grow_out", domain, params.to_cwd, kUnlimitedCredits),
      idle_in("idle_in", domain, 0),
      child_in("child_in", place.sms,
               [&domain](const char* socket, std::size_t) {
                 return new PacketIn<protocol::ChildPacket>(socket, domain, 0);
               }),
      wake_out("wake_out", domain, params.nested.sm_distance, kUnlimitedCredits),
      memory_out("memory_out", domain),
      memory_(domain, memory_out, *this, kAnswer, kSend, protocol::AddressSpace::physical),
      manager_(domain, this->name(), domain.observation().prefix + "." + path, params,
               {limits,
                {domain.clock().period().to_seconds()},
                start_path,
                table.slots,
                table.partitioned,
                table.preempts,
                place},
               {done_out, dispatch_done_out, task_out, evict_out, grow_out, wake_out, copy_out, *this}) {
  submit_in.on_packet<TaskUnit, &TaskUnit::on_submit>(*this);
  share_in.on_packet<TaskUnit, &TaskUnit::on_share>(*this);
  query_in.on_packet<TaskUnit, &TaskUnit::on_query>(*this);
  copy_done_in.on_packet<StreamUnit, &StreamUnit::on_copy_done>(manager_.streams());
  dispatch_in.on_packet<StreamUnit, &StreamUnit::on_dispatch>(manager_.streams());
  task_done_in.on_packet<TaskDispatcher, &TaskDispatcher::on_task_done>(manager_.dispatcher());
  task_out.on_credit<TaskDispatcher, &TaskDispatcher::on_credit>(manager_.dispatcher());
  evicted_in.on_packet<TaskDispatcher, &TaskDispatcher::on_evicted>(manager_.dispatcher());
  idle_in.on_packet<QueueTasks, &QueueTasks::on_idle>(manager_.queues());
  for (auto& socket : child_in) socket.on_packet<TaskManager, &TaskManager::on_child>(manager_);
}

TaskUnit::~TaskUnit() = default;

void TaskUnit::reset() {
  memory_.reset();
  manager_.reset();
}

void TaskUnit::check_idle() {
  HEDDLE_CHECK(open() == 0, "operations are open in an idle machine");
  HEDDLE_CHECK(launches_idle(), "tasks of device code are open in an idle machine");
}

void TaskUnit::on_submit(const protocol::SubmitPacket& packet, std::uint32_t) {
  switch (packet.kind) {
    case SubmitKind::control:
      control_out.send(packet.tpc);
      return;
    case SubmitKind::share:
      on_share(packet.share, 0);
      return;
    case SubmitKind::start:
    case SubmitKind::queued:
      manager_.on_push(packet);
      return;
    default:
      manager_.streams().on_submit(packet, 0);
      return;
  }
}

void TaskUnit::on_share(const protocol::SubcontextPacket& packet, std::uint32_t) {
  note_share(packet);
  for (std::uint32_t link = 0; link < share_out.links(); ++link) share_out.send(packet, link);
}

void TaskUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kSend) {
    memory_.send();
    return;
  }
  const auto answer = memory_.take(argument);
  manager_.scheduler().answered({answer.tag, answer.ok, answer.old, answer.data});
}

void TaskUnit::read_line(std::uint64_t address, std::optional<std::uint8_t> subcontext, std::uint32_t tag) {
  const auto space = subcontext ? protocol::AddressSpace::of_subcontext : protocol::AddressSpace::physical;
  memory_.read(address, arch::kRecordBytes, subcontext.value_or(0), tag, space);
}

void TaskUnit::write_line(std::uint64_t address, const RecordLine& line, std::uint32_t tag) {
  memory_.write(address, line.data(), arch::kRecordBytes, 0, tag);
}

void TaskUnit::step(const arch::MemoryStep& step, std::uint32_t tag) {
  switch (step.kind) {
    case StepKind::read:
      memory_.read(step.address, 8, 0, tag);
      return;
    case StepKind::write:
      memory_.write_value(step.address, step.value, 8, 0, tag);
      return;
    case StepKind::exchange:
      memory_.exchange(step.address, step.value, 0, tag);
      return;
    case StepKind::add:
      memory_.add(step.address, step.value, 0, tag);
      return;
    case StepKind::compare_exchange:
      memory_.compare_exchange(step.address, step.compare, step.value, 0, tag);
      return;
    case StepKind::none:
      break;
  }
  HEDDLE_CHECK(false, "a step of device-side launches that does nothing");
}

}  // namespace heddle::task
