#include "replay/packet_encoder.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/aql_packet.h"
#include "common/error.h"

namespace heddle::replay {

using workload::CopyBy;
using workload::CopyDirection;
using workload::Op;
using workload::OpKind;
using workload::PacketFormat;
using workload::QueuePlace;
using workload::SignalFor;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSignalBytes = 32;

std::vector<std::uint8_t> words(const std::vector<std::uint64_t>& values) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint64_t value : values) {
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
  return bytes;
}

// What a record has no room for.
void check_kernel(const arch::KernelRecord& kernel) {
  const auto refuse = [&kernel](const std::string& why, const char* remedy) {
    throw InputError(fmt::format("kernel '{}' does not fit a packet: {}", kernel.name, why), remedy);
  };
  const auto too_many = [](std::uint64_t grid, std::uint64_t block) { return grid * block > 0xFFFF'FFFFU; };
  if (too_many(kernel.grid.x, kernel.block.x) || too_many(kernel.grid.y, kernel.block.y) ||
      too_many(kernel.grid.z, kernel.block.z)) {
    refuse("a dimension of its grid has more than 4,294,967,295 work-items", "launch it in parts");
  }
  for (const arch::Dim3& extents : kernel.cluster.extents) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFFFF) {
      refuse("a cluster extent is above 65,535", "use smaller clusters");
    }
  }
  for (const arch::Dim3& extents : kernel.cluster.fallback) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFF) {
      refuse("an extent of a smaller cluster size is above 255", "use smaller sizes in `fallback`");
    }
  }
}

// As the host library has it.
heddle_kernel_object host_object(const arch::KernelObject& object) {
  heddle_kernel_object made{};
  made.program = object.program;
  made.threads_limit = object.threads_limit;
  made.registers_per_thread = object.registers_per_thread;
  made.static_shared = object.static_shared;
  made.shortest = object.duration.min;
  made.longest = object.duration.max;
  const auto copy = [](std::uint16_t(&to)[3], const arch::Dim3& from) {
    to[0] = static_cast<std::uint16_t>(from.x);
    to[1] = static_cast<std::uint16_t>(from.y);
    to[2] = static_cast<std::uint16_t>(from.z);
  };
  for (std::size_t i = 0; i < arch::kCgaLevels; ++i) copy(made.extents[i], object.cluster.extents[i]);
  for (std::size_t i = 0; i < arch::kMaxFallbacks; ++i) copy(made.fallbacks[i], object.cluster.fallback[i]);
  made.load_balancing = object.cluster.mode == arch::CgaMode::load_balancing;
  made.linear_memory = object.cluster.linear_memory;
  made.cooperative = object.cooperative;
  made.raster_order = static_cast<heddle_raster_order>(object.raster.kind);
  made.raster_tile[0] = object.raster.tile_x;
  made.raster_tile[1] = object.raster.tile_y;
  return made;
}

class Layout {
 public:
  Layout(const workload::Workload& workload, const PacketPlan& plan, Area& host, Area& device)
      : workload_(workload), plan_(plan), host_(host), device_(device) {}

  void rings(QueuePlace place, std::uint32_t packets) {
    Area& area = place == QueuePlace::host ? host_ : device_;
    std::vector<std::uint8_t> empty(std::size_t{packets} * arch::kPacketBytes, 0);
    for (std::size_t i = 0; i < empty.size(); i += arch::kPacketBytes) {
      empty[i] = static_cast<std::uint8_t>(arch::PacketType::invalid);
    }
    for (std::size_t q = 0; q < plan_.queues.size(); ++q) {
      const std::uint64_t base = area.take(empty.size(), kPage);
      const std::uint64_t read_index = area.take(arch::kPacketBytes, arch::kPacketBytes);
      memory_.rings.push_back({base, read_index});
      memory_.contents.push_back({base, empty});
      memory_.contents.push_back({read_index, words({0})});
    }
    for (std::uint32_t s = 0; s < plan_.signals; ++s) {
      const std::uint64_t at = area.take(kSignalBytes, arch::kSignalAlignment);
      memory_.signals.push_back(at);
      memory_.contents.push_back({at, words({1})});
    }
    for (std::size_t q = 0; q < plan_.queues.size(); ++q) {
      const std::uint64_t at = area.take(kSignalBytes, arch::kSignalAlignment);
      memory_.queue_signals.push_back(at);
      memory_.contents.push_back({at, words({kManySignals})});
    }
  }

  void kernels(const std::vector<std::uint32_t>& codes) {
    std::map<arch::KernelObjectBytes, std::uint64_t> known;
    memory_.kernel_objects.resize(workload_.ops.size(), 0);
    memory_.objects.resize(workload_.ops.size());
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      if (op.kind != OpKind::kernel) continue;
      check_kernel(op.kernel);
      arch::KernelObject object;
      object.program = codes.empty() ? 0 : codes[i];
      object.registers_per_thread = op.kernel.registers_per_thread;
      object.duration = op.kernel.duration;
      object.cluster = op.kernel.cluster;
      object.raster = op.kernel.raster;
      object.cooperative = op.kernel.cooperative;
      object.name = op.kernel.name.substr(0, arch::kKernelNameBytes - 1);
      const arch::KernelObjectBytes bytes = arch::encode(object);
      const auto [found, fresh] = known.emplace(bytes, 0);
      if (fresh) {
        found->second = device_.take(bytes.size(), arch::kKernelObjectBytes);
        memory_.contents.push_back({found->second, {bytes.begin(), bytes.end()}});
      }
      memory_.kernel_objects[i] = found->second;
      memory_.objects[i] = host_object(object);
    }
  }

  void arguments() {
    memory_.kernargs.resize(workload_.ops.size(), 0);
    std::map<std::vector<std::uint64_t>, std::uint64_t> known;
    std::uint64_t ring = 0;
    std::uint64_t launches = 0;
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      if (op.kind != OpKind::kernel) continue;
      if (workload_.format != "scenario") {
        if (ring == 0) ring = device_.take(kArgumentBlocks * kArgumentBytes, kPage);
        memory_.kernargs[i] = ring + launches++ % kArgumentBlocks * kArgumentBytes;
      } else if (!op.args.empty()) {
        const auto [found, fresh] = known.emplace(op.args, 0);
        if (fresh) {
          found->second = device_.take(8 * op.args.size(), arch::kKernargAlignment);
          memory_.contents.push_back({found->second, words(op.args)});
        }
        memory_.kernargs[i] = found->second;
      }
    }
  }

  // As large as the largest copy, or as there is room: larger ones are moved in parts.
  void scratch() {
    std::uint64_t most = 0;
    bool uses_host = false;
    for (const Op& op : workload_.ops) {
      if (op.kind == OpKind::kernel) continue;
      most = std::max(most, op.bytes);
      uses_host = uses_host || (op.kind == OpKind::copy && op.direction != CopyDirection::device_to_device);
    }
    if (most == 0) return;
    std::uint64_t bytes = std::min({most + 3, kMostScratch, device_.left() / 4});
    if (uses_host) bytes = std::min(bytes, host_.left() / 4);
    bytes = bytes / kPage * kPage;
    bytes = std::max(bytes, kPage);
    memory_.scratch.bytes = bytes;
    for (std::uint64_t& at : memory_.scratch.device) at = device_.take(bytes, kPage);
    if (uses_host) memory_.scratch.host = host_.take(bytes, kPage);
  }

  PacketMemory take() { return std::move(memory_); }

 private:
  const workload::Workload& workload_;
  const PacketPlan& plan_;
  Area& host_;
  Area& device_;
  PacketMemory memory_;
};

std::uint16_t dimensions(const arch::KernelShape& kernel) {
  if (kernel.grid.z > 1 || kernel.block.z > 1) return 3;
  return kernel.grid.y > 1 || kernel.block.y > 1 ? 2 : 1;
}

// A table that all queues share has entries for as many of them.
std::uint32_t entries_of(std::size_t queue, std::size_t queues, const EncoderParams& params) {
  if (!params.shared_table || queues == 1) return ~std::uint32_t{0} >> (32 - params.table_entries);
  std::uint32_t entries = 0;
  for (std::size_t e = queue; e < params.table_entries; e += queues) entries |= std::uint32_t{1} << e;
  return entries;
}

}  // namespace

std::uint64_t Area::take(std::uint64_t bytes, std::uint64_t align) {
  const auto full = [&] {
    return InputError(
        fmt::format("{}: there is no room for another {} bytes of queues, kernel objects and copies", name_, bytes),
        downwards_ ? "use less memory in the scenario, or raise gpu.memory" : "raise host.memory, or lower host.ring");
  };
  if (bytes > end_ - begin_) throw full();
  if (downwards_) {
    const std::uint64_t at = (end_ - bytes) & ~(align - 1);
    if (at < begin_) throw full();
    end_ = at;
    return at;
  }
  const std::uint64_t at = (begin_ + align - 1) & ~(align - 1);
  if (at < begin_ || at > end_ || bytes > end_ - at) throw full();
  begin_ = at + bytes;
  return at;
}

PacketMemory lay_out(const workload::Workload& workload, const std::vector<std::uint32_t>& codes,
                     const PacketPlan& plan, const workload::PacketOptions& options, const SubmissionParams& params,
                     Area& host, Area& device) {
  Layout layout(workload, plan, host, device);
  layout.kernels(codes);
  layout.arguments();
  layout.rings(options.queues, params.ring);
  if (options.copies == CopyBy::engines) layout.scratch();
  return layout.take();
}

PacketEncoder::PacketEncoder(const workload::Workload& workload, const PacketPlan& plan, const PacketMemory& memory,
                             const EncoderParams& params)
    : workload_(workload), plan_(plan), memory_(memory), params_(params), queues_(plan.queues.size()) {
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    heddle_table_clear(&queues_[q].table);
    queues_[q].entries = entries_of(q, queues_.size(), params);
  }
}

bool PacketEncoder::last_of_queue(std::size_t op) const { return plan_.queues[plan_.ops[op].queue].ops.back() == op; }

std::uint64_t PacketEncoder::signal_of(std::size_t op) const {
  const auto& signal = plan_.ops[op].signal;
  return signal ? memory_.signals[*signal] : 0;
}

heddle_dispatch PacketEncoder::dispatch_of(std::size_t op) const {
  const arch::KernelRecord& kernel = workload_.ops[op].kernel;
  heddle_dispatch d{};
  // Streams are in order. What other queues or the host wait for is released as far as they look.
  const bool each = params_.options.signals == SignalFor::each;
  d.scopes = HEDDLE_SCOPES(true, each ? HEDDLE_FENCE_SYSTEM : HEDDLE_FENCE_AGENT,
                           each || last_of_queue(op) ? HEDDLE_FENCE_SYSTEM : HEDDLE_FENCE_AGENT);
  d.setup = dimensions(kernel);
  const arch::Dim3& block = kernel.block;
  const arch::Dim3& grid = kernel.grid;
  d.workgroup[0] = static_cast<std::uint16_t>(block.x);
  d.workgroup[1] = static_cast<std::uint16_t>(block.y);
  d.workgroup[2] = static_cast<std::uint16_t>(block.z);
  d.grid[0] = grid.x * block.x;
  d.grid[1] = grid.y * block.y;
  d.grid[2] = grid.z * block.z;
  d.private_segment = kernel.local_bytes;
  d.group_segment = kernel.shared_bytes;
  d.kernel_object = memory_.kernel_objects[op];
  d.kernarg = memory_.kernargs[op];
  d.completion_signal = signal_of(op);
  return d;
}

// Kernels up to the next edge between queues: one that waits begins a batch, one that is waited for ends it.
std::size_t PacketEncoder::batch_of(std::uint32_t queue, std::size_t place, std::size_t ready) const {
  const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
  const std::size_t most = std::min<std::size_t>(ready, params_.options.batch);
  std::size_t count = 0;
  while (count < most) {
    const std::size_t op = ops[place + count];
    if (workload_.ops[op].kind != OpKind::kernel) break;
    if (count > 0 && !plan_.ops[op].waits.empty()) break;
    ++count;
    if (plan_.ops[op].signal) break;
  }
  return count;
}

PacketEncoder::Prepared PacketEncoder::prepare(std::uint32_t queue, std::size_t place, std::size_t ready,
                                               std::deque<PreparedPacket>& out) {
  const std::vector<std::size_t>& ops = plan_.queues[queue].ops;
  HEDDLE_CHECK(ready > 0 && place + ready <= ops.size(), "there is no operation to prepare");
  Queue& own = queues_[queue];
  const std::size_t op = ops[place];
  barriers(op, out);
  if (workload_.ops[op].kind != OpKind::kernel) {
    copy(op, out);
    return {1, 0};
  }
  if (params_.options.format != PacketFormat::condensed || own.entries == 0) {
    kernel(own, op, out);
    return {1, 0};
  }
  const std::size_t count = batch_of(queue, place, ready);
  const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(place);
  condensed(own, {begin, begin + static_cast<std::ptrdiff_t>(count)}, out);
  return {count, count};
}

void PacketEncoder::barriers(std::size_t op, std::deque<PreparedPacket>& out) const {
  const std::vector<std::size_t>& waits = plan_.ops[op].waits;
  for (std::size_t i = 0; i < waits.size(); i += HEDDLE_BARRIER_SIGNALS) {
    std::vector<std::uint64_t> signals;
    for (std::size_t w = i; w < std::min<std::size_t>(waits.size(), i + HEDDLE_BARRIER_SIGNALS); ++w) {
      signals.push_back(signal_of(waits[w]));
    }
    PreparedPacket prepared;
    prepared.ring = false;
    const heddle_status status =
        heddle_packet_barrier(&prepared.packet, HEDDLE_PACKET_BARRIER_AND, HEDDLE_SCOPES(false, 0, 0), signals.data(),
                              static_cast<unsigned>(signals.size()), 0);
    HEDDLE_CHECK(status == HEDDLE_OK, "a barrier packet was refused");
    out.push_back(prepared);
  }
}

// A packet that nobody waits for counts in its queue's own signal.
void PacketEncoder::signal(heddle_dispatch& dispatch, std::size_t op) {
  if (params_.options.signals != SignalFor::each || dispatch.completion_signal != 0) return;
  const std::uint32_t queue = plan_.ops[op].queue;
  dispatch.completion_signal = memory_.queue_signals[queue];
  ++queues_[queue].counted;
}

void PacketEncoder::kernel(Queue& queue, std::size_t op, std::deque<PreparedPacket>& out) {
  heddle_dispatch dispatch = dispatch_of(op);
  signal(dispatch, op);
  PreparedPacket prepared;
  prepared.ops = {op};
  heddle_packet_kernel(&prepared.packet, &dispatch);
  const bool refers = params_.options.format == PacketFormat::reference && queue.entries != 0;
  if (refers && queue.stored.count(dispatch.kernel_object) == 0) {
    std::vector<unsigned> entries;
    for (unsigned e = 0; e < params_.table_entries; ++e) {
      if ((queue.entries >> e & 1U) != 0) entries.push_back(e);
    }
    const unsigned entry = entries[queue.stored.size() % entries.size()];
    HEDDLE_CHECK(heddle_packet_reference(&prepared.packet, &dispatch, entry) == HEDDLE_OK, "an entry was refused");
    queue.stored.emplace(dispatch.kernel_object, entry);
  }
  out.push_back(prepared);
}

void PacketEncoder::condensed(Queue& queue, const std::vector<std::size_t>& ops, std::deque<PreparedPacket>& out) {
  std::vector<heddle_kernel> kernels(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    kernels[i].dispatch = dispatch_of(ops[i]);
    kernels[i].object = &memory_.objects[ops[i]];
  }
  signal(kernels.back().dispatch, ops.back());
  heddle_plan_options options{};
  options.costs = params_.costs;
  options.overlap = params_.overlap;
  options.entries = queue.entries;
  options.format = params_.format;
  options.table_entries = params_.table_entries;
  const auto count = static_cast<std::uint32_t>(kernels.size());
  const std::size_t bytes = heddle_plan_workspace(count, &options);
  HEDDLE_CHECK(bytes > 0, "the planner takes no such list");
  if (workspace_.size() * 8 < bytes) workspace_.resize((bytes + 7) / 8);
  std::vector<heddle_planned> planned(count);
  heddle_plan_result result{};
  const heddle_status status = heddle_plan(kernels.data(), count, &options, &queue.table, workspace_.data(),
                                           workspace_.size() * 8, planned.data(), count, &result);
  HEDDLE_CHECK(status == HEDDLE_OK, "the planner refused a list of kernels");
  for (std::uint32_t p = 0; p < result.packets; ++p) {
    PreparedPacket prepared;
    prepared.packet = planned[p].packet;
    const auto first = ops.begin() + static_cast<std::ptrdiff_t>(planned[p].first);
    prepared.ops.assign(first, first + static_cast<std::ptrdiff_t>(planned[p].kernels));
    out.push_back(prepared);
  }
}

// One packet, or several where it is larger than what is moved at a time, or longer than a packet can hold.
void PacketEncoder::copy(std::size_t op, std::deque<PreparedPacket>& out) const {
  const Op& its = workload_.ops[op];
  const bool moves = params_.options.copies == CopyBy::engines && its.bytes > 0;
  const std::uint64_t all = moves ? its.bytes : static_cast<std::uint64_t>(its.duration);
  const std::uint64_t most = moves ? memory_.scratch.bytes : arch::kMaxHold;
  std::uint64_t left = all;
  do {
    const std::uint64_t now = std::min(left, most);
    PreparedPacket prepared;
    prepared.ops = {op};
    prepared.begins = left == all;
    prepared.ends = left == now;
    prepared.ring = prepared.ends;
    const std::uint64_t signal = prepared.ends ? signal_of(op) : 0;
    const std::uint8_t scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
    if (moves) {
      part(op, now, signal, prepared.packet);
    } else {
      heddle_packet_hold(&prepared.packet, scopes, now, signal);
    }
    out.push_back(prepared);
    left -= now;
  } while (left > 0);
}

void PacketEncoder::part(std::size_t op, std::uint64_t bytes, std::uint64_t signal, heddle_packet& packet) const {
  const Op& its = workload_.ops[op];
  const PacketMemory::Scratch& scratch = memory_.scratch;
  const std::uint8_t scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  if (its.kind == OpKind::fill) {
    const std::uint64_t whole = (bytes + 3) / 4 * 4;  // a fill writes words
    heddle_packet_fill(&packet, scopes, scratch.device[0], whole, 0, signal);
    return;
  }
  const bool from_host = its.direction == CopyDirection::host_to_device;
  const bool to_host = its.direction == CopyDirection::device_to_host;
  heddle_packet_copy(&packet, scopes, from_host ? scratch.host : scratch.device[0],
                     to_host ? scratch.host : scratch.device[1], bytes, signal);
}

}  // namespace heddle::replay
