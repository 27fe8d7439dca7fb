#include "cwd/launcher.h"

#include <algorithm>

#include "common/bits.h"
#include "cwd/cluster_place.h"

namespace heddle::cwd {
namespace {

double rate(const Timebase& timebase, double per_cycle) { return timebase.mode() == TimingMode::at ? per_cycle : 0; }

// Cycles that a packet occupies the port until all GPCs have it, if that is more than one step (CWD-35); a central
// rasteriser tells only one GPC.
double broadcast_cycles(const CwdContext& context) {
  const std::uint32_t width = context.params.broadcast_width;
  const std::uint32_t gpcs = context.topology.gpcs();
  if (context.timebase.mode() != TimingMode::at || context.params.central_raster || gpcs <= width) return 0;
  return (gpcs + width - 1) / width;
}

// Cycles that one CTA id takes where the distributor makes and sends it: 64 bits over the link (CWD-43).
double id_cycles(const CwdContext& context) {
  if (context.timebase.mode() != TimingMode::at || !context.params.central_raster) return 0;
  return std::max<double>(context.params.raster_cycles, 64.0 / context.params.id_bits_per_cycle);
}

}  // namespace

Launcher::Launcher(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
                   const GpcLinks& links)
    : context_(context),
      table_(table),
      machine_(machine),
      partition_(partition),
      links_(links),
      generators_(context.topology.gpcs(), context.timebase.cost(context.params.mask_cycles)),
      port_(rate(context.timebase, context.params.packets_per_cycle),
            rate(context.timebase, context.params.ctas_per_cycle), broadcast_cycles(context), id_cycles(context)),
      stats_(context.observation.stats, context.stat_prefix) {
  for (std::uint32_t g = 0; g < context.topology.gpcs(); ++g) {
    extra_distance_.push_back(context.timebase.cost(context.params.distance_of(g) - context.params.nearest_gpc()));
  }
}

void Launcher::reset() {
  port_.reset();
  generators_.reset();
  buffers_.clear();
  depart_scheduled_ = false;
}

void Launcher::open(const LaunchOrder& order) {
  const protocol::TaskPacket& task = table_.at(order.slot).task;
  order_ = order;
  shape_ = arch::raster_shape(task.grid, task.cluster, order.size);
  open_cga_.reset();
  masks_ready_ = 0;
  buffers_.push_back({order.session, 0, false});
}

Cycle Launcher::close() {
  Buffer& buffer = buffers_.back();
  buffer.closed = true;
  if (buffer.packets == 0) buffers_.pop_back();
  return std::max(masks_ready_, context_.now());
}

protocol::LaunchPacket Launcher::packet_for(const TaskEntry& entry, std::uint32_t gpc) const {
  protocol::LaunchPacket packet;
  protocol::launch_of(packet) = protocol::launch_of(entry.task);
  packet.slot = protocol::TaskSlot(order_.slot);
  packet.operation = entry.runs_as();
  packet.virtual_gpc = protocol::VirtualGpcId(context_.topology.virtual_gpc(gpc));
  packet.sequence = order_.sequence;
  packet.raster = entry.placed;
  packet.shape = shape_;
  packet.queue = entry.queue();
  if (entry.restored()) packet.id = entry.task.id;  // no follower of the grid needs to know of it
  return packet;
}

void Launcher::launch(const Placement& placement, Cycle decided, Cycle step) {
  push_levels(placement, order_.sequence, std::nullopt, decided, placement.one_by_one ? step : 0);
}

// GPU_CGAs (or uGPU_CGAs) of CTAs, one after another.
void Launcher::launch(const std::vector<DomainWideCga>& cgas, Cycle decided) {
  const TaskEntry& entry = table_.at(order_.slot);
  const std::uint64_t ctas = entry.unit_ctas(order_.size);
  for (std::size_t unit = 0; unit < cgas.size(); ++unit) {
    const std::uint64_t sequence = order_.sequence + unit;
    const std::optional<protocol::CgaMemorySlot> memory_slot =
        machine_.cgas().open(sequence, entry.task.subcontext, true, entry.task.cluster.linear_memory, ctas);
    HEDDLE_CHECK(cgas[unit].placement.ctas == ctas, "a CGA of CTAs was placed in part");
    push_levels(cgas[unit].placement, sequence, memory_slot, decided, 0);
    stats_.cgas.add();
  }
}

// CTAs that were placed level by level, over all GPCs.
void Launcher::push_levels(const Placement& placement, std::uint64_t sequence,
                           std::optional<protocol::CgaMemorySlot> memory_slot, Cycle decided, Cycle step) {
  const TaskEntry& entry = table_.at(order_.slot);
  std::uint64_t left = placement.ctas;
  for (const LevelMask& level : placement.levels) {
    for (std::uint32_t g = 0; g < level.mask.size(); ++g) {
      if (level.mask[g] == 0) continue;
      protocol::LaunchPacket packet = packet_for(entry, g);
      packet.sequence = sequence;
      packet.memory_slot = memory_slot;
      packet.sm_mask = level.mask[g];
      left -= bits::count(level.mask[g]);
      packet.last = left == 0;
      push(packet, g, decided);
    }
    decided += step;
  }
  HEDDLE_CHECK(left == 0, "the masks of a session or a CGA do not add up to its CTAs");
}

void Launcher::launch(const CgaMasks& cga, Cycle decided) {
  TaskEntry& entry = table_.at(order_.slot);
  const arch::ClusterShape& cluster = entry.task.cluster;
  const std::uint64_t sequence = order_.sequence + cga.unit;
  const std::uint32_t ctas = gpc_cga_shape_for(cluster, order_.size).ctas;
  if (!open_cga_.has_value() || cga.unit != open_cga_->unit) {
    const bool gpu_level = cluster.outermost() != arch::CgaLevel::gpc;
    const std::uint64_t parts = entry.unit_ctas(order_.size) / ctas;
    open_cga_ = OpenCga{cga.unit,
                        machine_.cgas().open(sequence, entry.task.subcontext, gpu_level, cluster.linear_memory, parts)};
    stats_.cgas.add();
  }
  machine_.cgas().take_gpc_cga(cga.gpc);
  entry.room.launch(order_.size, cga.gpc);
  ++entry.open_cgas;
  if (cluster.outermost() == arch::CgaLevel::gpc && cluster.sizes() > 1) entry.size_of[sequence] = order_.size;

  const std::size_t most = context_.params.masks_per_packet;
  std::uint32_t left = ctas;
  for (std::size_t first = 0; first < cga.masks.size(); first += most) {
    protocol::LaunchPacket packet = packet_for(entry, cga.gpc);
    packet.sequence = sequence;
    packet.memory_slot = open_cga_->memory_slot;
    packet.cga_ctas = ctas;
    packet.cga_first = first == 0;
    const std::size_t count = std::min(most, cga.masks.size() - first);
    packet.sm_mask = cga.masks[first];
    for (std::size_t i = 1; i < count; ++i) packet.further_masks[i - 1] = cga.masks[first + i];
    for (std::size_t i = 0; i < count; ++i) left -= bits::count(cga.masks[first + i]);
    packet.last = cga.last && left == 0;
    push(packet, cga.gpc, decided);
  }
  HEDDLE_CHECK(left == 0, "the masks of a CGA do not add up to its CTAs");
}

// From here on the ledgers count the packet's CTAs, and the packet waits for the port.
void Launcher::push(protocol::LaunchPacket& packet, std::uint32_t gpc, Cycle decided) {
  TaskEntry& entry = table_.at(packet.slot);
  packet.num_ctas = bits::count(packet.sm_mask);
  std::uint32_t masks = 1;
  for (const std::uint64_t mask : packet.further_masks) {
    packet.num_ctas += bits::count(mask);
    masks += mask != 0 ? 1 : 0;
  }
  machine_.updates().add(context_.now(), packet.num_ctas);
  announce_late(packet, gpc, entry);
  LaunchPort::Item item;
  item.gpc = gpc;
  item.session = order_.session;
  item.ready = generators_.make(gpc, masks, decided);
  masks_ready_ = std::max(masks_ready_, item.ready);
  entry.placed += packet.num_ctas;
  if (context_.params.central_raster) {
    push_one_by_one(packet, item);
    return;
  }
  account(packet.slot, gpc, packet.sm_mask, item.local);
  for (const std::uint64_t mask : packet.further_masks) account(packet.slot, gpc, mask, item.local);
  item.packet = packet;
  push_item(item);
}

// A central rasteriser sends every CTA on its own, with its id (CWD-43).
void Launcher::push_one_by_one(const protocol::LaunchPacket& packet, LaunchPort::Item& item) {
  protocol::LaunchPacket one = packet;
  one.further_masks = {};
  one.num_ctas = 1;
  std::uint32_t left = packet.num_ctas;
  const auto send_each = [&](std::uint64_t mask) {
    bits::for_each(mask, [&](std::uint32_t sm) {
      one.sm_mask = bits::one(sm);
      if (!packet.id) one.id = arch::resolve(one.shape, one.raster);
      one.last = packet.last && --left == 0;
      item.local.clear();
      account(packet.slot, item.gpc, one.sm_mask, item.local);
      item.packet = one;
      push_item(item);
      one.cga_first = false;
      ++one.raster;
    });
  };
  send_each(packet.sm_mask);
  for (const std::uint64_t mask : packet.further_masks) send_each(mask);
}

void Launcher::push_item(const LaunchPort::Item& item) {
  ++buffers_.back().packets;
  port_.push(item);
}

// A TPC that has not heard all of the grid's broadcast is told where it stands (CWD-42).
void Launcher::announce_late(protocol::LaunchPacket& packet, std::uint32_t gpc, TaskEntry& entry) const {
  if (entry.missed.empty()) return;
  std::uint64_t mask = packet.sm_mask;
  for (const std::uint64_t further : packet.further_masks) mask |= further;
  const std::vector<arch::Topology::Tpc>& tpcs = context_.topology.gpc(gpc).tpcs;
  for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
    const std::uint64_t part = mask & bits::below(tpcs[t].sms) << tpcs[t].first_sm;
    const std::uint32_t tpc = machine_.live().first_tpc(gpc) + t;
    if (part == 0 || !entry.missed[tpc]) continue;
    entry.missed[tpc] = false;
    packet.late_mask |= part;
    stats_.late_joins.add();
  }
  if (packet.late_mask == 0) return;
  packet.late_coord =
      arch::coord_of(packet.raster / arch::raster_unit(packet.shape), arch::raster_extents(packet.shape));
}

// The mask's CTAs in the ledgers, and the TPCs that they hold. `blocks`: the local-memory blocks that this has assigned
// are appended.
void Launcher::account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
                       std::vector<protocol::LocalMemoryPacket>& blocks) {
  if (mask == 0) return;
  const TaskEntry& entry = table_.at(slot);
  const protocol::TaskPacket& task = entry.task;
  const std::uint32_t ctas = bits::count(mask);
  if (machine_.pools().launch(entry.runs_as(), task.priority, gpc, ctas)) stats_.pool_yields.add();
  LiveModel& live = machine_.live();
  const std::vector<std::uint32_t>& sm_ids = context_.topology.gpc(gpc).sm_ids;
  bits::for_each(mask, [&](std::uint32_t bit) {
    live.launch(slot, sm_ids[bit]);
    const std::uint32_t tpc = live.tpc_of(sm_ids[bit]);
    const std::uint32_t block = partition_.launch(task, tpc);
    if (block != TpcQuota::kNone)
      blocks.push_back(
          {protocol::TpcInGpc(tpc - live.first_tpc(gpc)), task.subcontext, protocol::LocalMemoryBlock(block)});
  });
  partition_.count_launched(task, ctas);
}

void Launcher::pump() {
  if (port_.empty() || depart_scheduled_) return;
  depart_scheduled_ = true;
  context_.timebase.schedule(port_.ready(context_.now()), *this, 0);
}

void Launcher::on_event(std::uint32_t, std::uint64_t) {
  depart_scheduled_ = false;
  depart();
}

void Launcher::depart() {
  if (port_.empty() || !links_.launch.can_send(port_.front().gpc)) return;  // on_credit() comes back
  const Cycle now = context_.now();
  LaunchPort::Item item = port_.pop(now);
  TaskEntry& entry = table_.at(item.packet.slot);
  if (!entry.start.has_value()) entry.start = now;
  item.packet.departure = now;
  const Cycle departure = now + extra_distance_[item.gpc];
  links_.launch.send_at(departure, item.packet, item.gpc);
  for (const protocol::LocalMemoryPacket& block : item.local) {
    stats_.local_blocks.add();
    links_.local.send_at(departure, block, item.gpc);
  }
  stats_.packets.add();
  stats_.ctas.add(item.packet.num_ctas);
  stats_.ctas_per_packet.add(item.packet.num_ctas);
  leave_buffer(item.session);
  pump();
}

void Launcher::leave_buffer(std::uint64_t session) {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                   [session](const Buffer& other) { return other.session == session; });
  if (buffer == buffers_.end() || --buffer->packets > 0 || !buffer->closed) return;
  buffers_.erase(buffer);
  if (on_buffer_free_) on_buffer_free_();
}

void Launcher::abort(std::uint32_t operation) {
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    links_.abort.send_at(context_.now() + extra_distance_[g], {operation}, g);
  }
}

}  // namespace heddle::cwd
