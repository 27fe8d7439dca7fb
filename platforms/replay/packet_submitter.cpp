#include "replay/packet_submitter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch/aql_packet.h"
#include "arch/gpu_observation.h"
#include "heddle_registers.h"

namespace heddle::replay {
namespace {

enum Event : std::uint32_t { kOpen, kLook, kWritten, kFree, kInterrupt, kControl };

Cycle cycles(double ns) { return static_cast<Cycle>(std::llround(ns)); }

// Host calls precede the first start, and registers are written before the first packet.
std::int64_t lead_of(const PacketPlan& plan, const HostControls& controls) {
  std::int64_t first = controls.first();
  for (const PlannedOp& op : plan.ops) first = std::min(first, op.when);
  return 1 - first;
}

}  // namespace

PacketSubmitter::PacketSubmitter(const sc_core::sc_module_name& name, PacketSubmitterSetup setup,
                                 host::HostMemory& memory, DeviceAccess device, GpuObservation& gpu, Observation& host)
    : sc_core::sc_module(name),
      domain("domain", 1.0, TimingMode::at, 0, host),
      registers(domain),
      submit_out("submit_out", domain, 1, setup.submit_queue),
      done_in("done_in", domain, 1),
      workload_(*setup.workload),
      plan_(std::move(setup.plan)),
      memory_(std::move(setup.memory)),
      params_(setup.params),
      bytes_(memory, std::move(device)),
      gpu_(gpu),
      encoder_(workload_, plan_, memory_, setup.encoder),
      controls_(workload_.tpc_switches, setup.shares),
      lead_(lead_of(plan_, controls_)),
      results_(workload_.ops.size(), plan_.queues.size(), static_cast<double>(lead_), std::move(setup.ns_of)),
      queues_(plan_.queues.size()) {
  domain.add_wait_source(*this);
  submit_out.on_credit<PacketSubmitter, &PacketSubmitter::on_credit>(*this);
  done_in.on_packet<PacketSubmitter, &PacketSubmitter::on_done>(*this);
  for (std::size_t i = 0; i < workload_.streams.size(); ++i) {
    gpu.streams.set(static_cast<std::uint32_t>(i), "stream " + workload_.streams[i].name);
  }
  SC_HAS_PROCESS(PacketSubmitter);
  SC_METHOD(on_interrupt);
  sensitive << interrupt;
  dont_initialize();
}

PacketSubmitter::~PacketSubmitter() = default;

void PacketSubmitter::start() {
  for (const MemoryWrite& write : memory_.contents) bytes_.write(write.address, write.bytes.data(), write.bytes.size());
  domain.schedule(0, *this, kOpen);
}

void PacketSubmitter::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto queue = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kOpen:
      open_queues();
      send_controls();
      look();
      break;
    case kLook:
      if (look_ <= domain.now()) look_ = kNever;
      look();
      break;
    case kWritten:
      write(queue);
      break;
    case kFree:
      busy_ = false;
      look();
      break;
    case kInterrupt:
      serve_interrupt();
      break;
    case kControl:
      send_controls();
      break;
    default:
      HEDDLE_CHECK(false, "an event that nobody knows");
  }
}

void PacketSubmitter::open_queues() {
  registers.put(HEDDLE_REG_INT_MASK, HEDDLE_INT_QUEUE_ERROR_MASK, 4);
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    registers.put(HEDDLE_REG_QUEUE_BASE(q), memory_.rings[q].base, 8);
    registers.put(HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(q), memory_.rings[q].read_index, 8);
    registers.put(HEDDLE_REG_QUEUE_FIRST(q), 0, 8);
    registers.put(HEDDLE_REG_QUEUE_SIZE(q), params_.ring, 4);
    registers.put(HEDDLE_REG_QUEUE_PRIORITY(q), static_cast<std::uint32_t>(plan_.queues[q].priority), 4);
    registers.put(HEDDLE_REG_QUEUE_SUBCONTEXT(q), plan_.queues[q].subcontext, 4);
    registers.put(HEDDLE_REG_QUEUE_COMMAND(q), HEDDLE_QUEUE_COMMAND_OPEN, 4);
  }
}

void PacketSubmitter::send_controls() { controls_.send(domain, submit_out, lead_, *this, kControl); }

// True: something can be written now, as far as the host's time goes. `next`: when there will be something.
bool PacketSubmitter::has_work(std::uint32_t queue, Cycle& next) const {
  const Queue& q = queues_[queue];
  if (q.stopped) return false;
  if (!q.prepared.empty()) return true;
  const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
  if (q.place == ops.size()) return false;
  const auto when = static_cast<Cycle>(when_of(ops[q.place]));
  if (when <= domain.now()) return true;
  next = std::min(next, when);
  return false;
}

bool PacketSubmitter::has_room(std::uint32_t queue) {
  Queue& q = queues_[queue];
  if (q.write_index - q.read_index < params_.ring) return true;
  q.read_index = bytes_.word(memory_.rings[queue].read_index);
  return q.write_index - q.read_index < params_.ring;
}

// The queue whose next operation comes first in the host's order begins.
void PacketSubmitter::look() {
  if (busy_) return;
  Cycle next = kNever;
  std::optional<std::uint32_t> chosen;
  std::size_t first = 0;  // of the chosen one
  bool full = false;
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    if (!has_work(queue, next)) continue;
    const Queue& q = queues_[queue];
    const std::size_t order = q.prepared.empty() ? plan_.ops[plan_.queues[queue].ops[q.place]].order : q.order;
    if (chosen && order >= first) continue;
    if (!has_room(queue)) {
      full = true;
      // Packets that nobody has been told of cannot make room.
      if (q.rung < q.write_index) ring(queue);
      continue;
    }
    first = order;
    chosen = queue;
  }
  if (chosen) {
    begin(*chosen);
    return;
  }
  if (full) next = std::min(next, domain.now() + std::max<Cycle>(1, cycles(params_.poll)));
  if (next >= look_) return;
  look_ = next;
  domain.schedule(next, *this, kLook);
}

void PacketSubmitter::begin(std::uint32_t queue) {
  Queue& q = queues_[queue];
  double ns = params_.enqueue;
  if (q.prepared.empty()) {
    const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
    std::size_t ready = 0;
    const std::size_t most = ops.size() - q.place;
    while (ready < most && ready < workload::kMaxBatch &&
           static_cast<Cycle>(when_of(ops[q.place + ready])) <= domain.now()) {
      ++ready;
    }
    q.order = plan_.ops[ops[q.place]].order;
    const PacketEncoder::Prepared prepared = encoder_.prepare(queue, q.place, ready, q.prepared);
    q.place += prepared.taken;
    ns += params_.plan * static_cast<double>(prepared.planned);
  }
  busy_ = true;
  begun_ = domain.now();
  domain.schedule_in(cycles(ns), *this, kWritten, queue);
}

void PacketSubmitter::write(std::uint32_t queue) {
  Queue& q = queues_[queue];
  busy_ = false;
  if (q.stopped) {  // meanwhile
    look();
    return;
  }
  const PreparedPacket packet = std::move(q.prepared.front());
  q.prepared.pop_front();
  const std::uint64_t at = memory_.rings[queue].base + q.write_index % params_.ring * HEDDLE_PACKET_BYTES;
  bytes_.write(at, packet.packet.bytes, HEDDLE_PACKET_BYTES);
  ++q.write_index;
  results_.sent(queue, packet, static_cast<double>(begun_));
  ++domain.observation().progress;
  if (!packet.ring) {
    look();
    return;
  }
  ring(queue);
  busy_ = true;
  domain.schedule_in(cycles(params_.doorbell), *this, kFree);
}

void PacketSubmitter::ring(std::uint32_t queue) {
  Queue& q = queues_[queue];
  q.rung = q.write_index;
  const std::uint64_t page = registers.get(HEDDLE_REG_DOORBELL_PAGE, 4) * plan_.queues[queue].subcontext;
  registers.put(HEDDLE_REG_DOORBELL(queue) + page, q.write_index - 1, 8);
}

void PacketSubmitter::kernel_dispatched(const packet::PacketRecord& record) {
  const std::size_t op = results_.dispatched(record);
  gpu_.labels.set(record.operation, operation_label(workload_, op));
}

void PacketSubmitter::packet_done(const packet::PacketRecord& record) { results_.done(record); }

void PacketSubmitter::on_interrupt() {
  if (interrupt.read()) domain.schedule(domain.now(), *this, kInterrupt);
}

void PacketSubmitter::serve_interrupt() {
  const std::uint64_t status = registers.get(HEDDLE_REG_INT_STATUS, 4);
  registers.put(HEDDLE_REG_INT_STATUS, status, 4);
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    if (!queues_[q].stopped && registers.get(HEDDLE_REG_QUEUE_STATE(q), 4) == HEDDLE_QUEUE_STATE_ERROR) stop(q);
  }
  look();
}

// As a runtime does it: what the queue will never do ends with an error, and so does what other queues wait for.
void PacketSubmitter::stop(std::uint32_t queue) {
  Queue& q = queues_[queue];
  q.stopped = true;
  const auto status = static_cast<arch::HsaStatus>(registers.get(HEDDLE_REG_QUEUE_ERROR_STATUS(queue), 4));
  const auto reason = static_cast<arch::Reason>(registers.get(HEDDLE_REG_QUEUE_ERROR_REASON(queue), 4));
  const std::uint64_t index = registers.get(HEDDLE_REG_QUEUE_ERROR_INDEX(queue), 8);
  const std::uint64_t kernel = registers.get(HEDDLE_REG_QUEUE_ERROR_KERNEL(queue), 4);
  const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
  std::vector<std::size_t> unsent;
  for (const PreparedPacket& packet : q.prepared) unsent.insert(unsent.end(), packet.ops.begin(), packet.ops.end());
  unsent.insert(unsent.end(), ops.begin() + static_cast<std::ptrdiff_t>(q.place), ops.end());
  q.prepared.clear();
  q.place = ops.size();
  const std::vector<std::size_t> ended = results_.stopped(queue, index, unsent, static_cast<double>(domain.now()));
  for (const std::size_t op : ended) {
    const auto& signal = plan_.ops[op].signal;
    if (!signal || bytes_.word(memory_.signals[*signal]) != 1) continue;
    const std::uint64_t value = ~std::uint64_t{static_cast<std::uint32_t>(status)} + 1;  // its negative
    bytes_.write(memory_.signals[*signal], &value, sizeof value);
  }
  const std::string name = q.write_index > index && !ended.empty() ? workload_.ops[ended.front()].kernel.name : "";
  problems_.push_back(fmt::format("queue {} stopped at packet {}{}: {} ({:#x}): {}; {} of its operations did not run{}",
                                  queue, index, kernel > 0 ? fmt::format(", kernel {} of it", kernel) : std::string(),
                                  arch::status_text(status), static_cast<std::uint32_t>(status),
                                  arch::reason_text(reason), ended.size(),
                                  name.empty() ? name : fmt::format(", the first of them {}", name)));
}

void PacketSubmitter::check_memory() {
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    const Queue& q = queues_[queue];
    if (q.stopped) continue;
    HEDDLE_CHECK(bytes_.word(memory_.rings[queue].read_index) == q.write_index,
                 fmt::format("the read index of queue {} is not that of its last packet", queue));
    for (const std::size_t op : plan_.queues[queue].ops) {
      const auto& signal = plan_.ops[op].signal;
      HEDDLE_CHECK(!signal || results()[op].faulted || bytes_.word(memory_.signals[*signal]) == 0,
                   fmt::format("the completion signal of operation {} is not 0", op));
    }
    HEDDLE_CHECK(bytes_.word(memory_.queue_signals[queue]) == kManySignals - encoder_.counted(queue),
                 fmt::format("the signal of queue {} has not counted its packets", queue));
  }
}

// Operations that wait behind another one which has not even been submitted: the host is at fault, not the GPU.
void PacketSubmitter::collect_waits(WaitGraph& graph) const {
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
    if (queues_[queue].place == ops.size()) continue;
    graph.add(operation_label(workload_, ops[queues_[queue].place]), "to be submitted by", "the host");
  }
}

}  // namespace heddle::replay
