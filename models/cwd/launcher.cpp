#include "cwd/launcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/idle_account.h"
#include "common/bits.h"
#include "cwd/cluster_place.h"

namespace heddle::cwd {
namespace {

// Central rasterisation: the unit makes one id after another, and they go to whichever GPC has a place (CWD-43).
std::uint32_t lanes(const CwdContext& context) { return context.params.central_raster ? context.topology.gpcs() : 1; }

void note_departure(const LaunchItem& item, const std::vector<std::uint32_t>& sm_ids, IdleSms& idle) {
  const auto each = [&](std::uint64_t mask) {
    bits::for_each(mask, [&](std::uint32_t bit) { idle.departed(sm_ids[bit]); });
  };
  each(item.packet.sm_mask);
  for (const std::uint64_t mask : item.packet.further_masks) each(mask);
}

// Ranks of a CGA that goes on follow the order in which its CTAs are launched. Those of its CTAs that had exited end
// again.
bool is_last_returned(TaskEntry& entry, protocol::LaunchPacket& packet, std::uint32_t& rank) {
  packet.id->rank = rank;
  packet.id->cga_size = packet.cga_ctas;
  rank = (rank + 1) % packet.cga_ctas;
  if (rank > 0) return false;
  entry.to_come -= packet.cga_ctas - entry.returns.front().ctas;
  return true;
}

}  // namespace

Launcher::Launcher(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
                   BarrierRoot& barriers, const GpcLinks& links)
    : context_(context),
      table_(table),
      machine_(machine),
      partition_(partition),
      barriers_(barriers),
      links_(links),
      bits_(context.params, context.topology),
      generators_(context.topology.gpcs(), context.timebase.cost(context.params.mask_cycles)),
      port_(lanes(context), heddle::has_costs(context.timebase.mode()) ? context.params.cta_commits : 0),
      stats_(context.observation.stats, context.stat_prefix) {
  for (std::uint32_t g = 0; g < context.topology.gpcs(); ++g) {
    extra_distance_.push_back(context.timebase.cost(context.params.distance_of(g) - context.params.nearest_gpc()));
    mask_busy_.push_back(&context.observation.stats.counter(
        fmt::format("{}.gpc2sm{}.mask_busy_cycles", context.stat_prefix, g), "cycles",
        "time that the mask generator of the GPC worked, for plain grids and CGAs"));
  }
}

void Launcher::reset() {
  port_.reset();
  generators_.reset();
  stalled_since_.reset();
  buffers_.clear();
  depart_scheduled_ = false;
  lane_wake_.reset();
}

void Launcher::open(const LaunchOrder& order) {
  const protocol::TaskPacket& task = table_.at(order.slot).task;
  order_ = order;
  shape_ = arch::raster_shape(task.grid, task.cluster, order.size, task.raster);
  open_cga_.reset();
  masks_ready_ = 0;
  if (buffers_.empty()) busy_since_ = context_.now();
  buffers_.push_back({order.session, 0, false});
}

Cycle Launcher::close() {
  Buffer& buffer = buffers_.back();
  buffer.closed = true;
  if (buffer.packets == 0) {
    buffers_.pop_back();
    note_idle();
  }
  return std::max(masks_ready_, context_.now());
}

protocol::LaunchPacket Launcher::packet_for(const TaskEntry& entry, std::uint32_t gpc) const {
  protocol::LaunchPacket packet;
  protocol::launch_of(packet) = protocol::launch_of(entry.task);
  packet.slot = protocol::TaskSlot(order_.slot);
  packet.operation = entry.runs_as();
  packet.virtual_gpc = protocol::VirtualGpcId(context_.topology.virtual_gpc(gpc));
  packet.sequence = order_.sequence;
  packet.shape = shape_;
  packet.queue = entry.queue();
  return packet;
}

void Launcher::launch(const Placement& placement, Cycle decided, Cycle step) {
  push_levels(placement, order_.sequence, std::nullopt, {}, decided, placement.one_by_one ? step : 0);
}

// An outermost CGA takes what it needs beside free slots, and its barriers learn how many CTAs they are for.
CgaLedger::Taken Launcher::open_cga(const TaskEntry& entry, std::uint64_t sequence, std::uint64_t parts) {
  const arch::ClusterShape& cluster = entry.task.cluster;
  CgaLedger::Taken taken = machine_.cgas().open(sequence, entry.task.subcontext, wide_barriers(cluster, order_.size),
                                                cluster.linear_memory, parts);
  for (std::size_t i = 0; i < taken.barriers.size(); ++i) {
    const arch::CgaLevel level = i == 0 ? cluster.outermost() : arch::CgaLevel::ugpu;
    const std::uint64_t ctas = i == 0 ? entry.unit_ctas(order_.size) : cluster.of(level).count();
    barriers_.open(taken.barriers[i], level, entry.runs_as(), sequence, ctas);
  }
  return taken;
}

// The barriers of the nth GPC_CGA of the CGA that is being launched.
protocol::WideBarriers Launcher::barriers_of(const arch::ClusterShape& cluster, std::uint32_t nth) const {
  protocol::WideBarriers result;
  const std::vector<protocol::BarrierSlot>& slots = open_cga_->taken.barriers;
  if (slots.empty()) return result;
  (cluster.outermost() == arch::CgaLevel::ugpu ? result.ugpu : result.gpu) = slots.front();
  if (slots.size() == 1) return result;
  const std::uint64_t in_ugpu = cluster.of(arch::CgaLevel::ugpu).count() / cluster.of(arch::CgaLevel::gpc).count();
  result.ugpu = slots[1 + nth / in_ugpu];
  return result;
}

// GPU_CGAs (or uGPU_CGAs) of CTAs, one after another.
void Launcher::launch(const std::vector<DomainWideCga>& cgas, Cycle decided) {
  const TaskEntry& entry = table_.at(order_.slot);
  const std::uint64_t ctas = entry.unit_ctas(order_.size);
  for (std::size_t unit = 0; unit < cgas.size(); ++unit) {
    const std::uint64_t sequence = order_.sequence + unit;
    open_cga_ = OpenCga{unit, open_cga(entry, sequence, ctas), 0};
    HEDDLE_CHECK(cgas[unit].placement.ctas == ctas, "a CGA of CTAs was placed in part");
    push_levels(cgas[unit].placement, sequence, open_cga_->taken.memory_slot, barriers_of(entry.task.cluster, 0),
                decided, 0);
    stats_.cgas.add();
  }
}

// CTAs that were placed level by level, over all GPCs.
void Launcher::push_levels(const Placement& placement, std::uint64_t sequence,
                           std::optional<protocol::CgaMemorySlot> memory_slot, const protocol::WideBarriers& barriers,
                           Cycle decided, Cycle step) {
  const TaskEntry& entry = table_.at(order_.slot);
  std::uint64_t left = placement.ctas;
  for (const LevelMask& level : placement.levels) {
    for (std::uint32_t g = 0; g < level.mask.size(); ++g) {
      if (level.mask[g] == 0) continue;
      protocol::LaunchPacket packet = packet_for(entry, g);
      packet.sequence = sequence;
      packet.memory_slot = memory_slot;
      packet.barriers = barriers;
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
    open_cga_ = OpenCga{cga.unit, open_cga(entry, sequence, entry.unit_ctas(order_.size) / ctas), 0};
    stats_.cgas.add();
  }
  const protocol::WideBarriers barriers = barriers_of(cluster, open_cga_->launched++);
  machine_.cgas().take_gpc_cga(cga.gpc);
  entry.room.launch(order_.size, cga.gpc);
  ++entry.open_cgas;
  if (cluster.outermost() == arch::CgaLevel::gpc && cluster.sizes() > 1) entry.size_of[sequence] = order_.size;

  const std::size_t most = context_.params.masks_per_packet;
  std::uint32_t left = ctas;
  for (std::size_t first = 0; first < cga.masks.size(); first += most) {
    protocol::LaunchPacket packet = packet_for(entry, cga.gpc);
    packet.sequence = sequence;
    packet.memory_slot = open_cga_->taken.memory_slot;
    packet.barriers = barriers;
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
  const Cycle made = generators_.make(gpc, masks, decided);
  mask_busy_[gpc]->add(generators_.work(masks));
  masks_ready_ = std::max(masks_ready_, made);
  if (context_.params.central_raster || entry.returning) {
    push_one_by_one(packet, gpc, made);
  } else {
    LaunchItem item;
    item.gpc = gpc;
    item.made = made;
    item.packet = packet;
    if (packet.id) {
      item.broadcast = false;
    } else {
      item.packet.begins = entry.placed == 0;
      choose_listeners(item, entry);
      tell_late(item, entry);
    }
    account(packet.slot, gpc, packet.sm_mask, item.local);
    for (const std::uint64_t mask : packet.further_masks) account(packet.slot, gpc, mask, item.local);
    push_item(std::move(item));
  }
  if (!entry.returning) entry.placed += packet.num_ctas;
}

// A central rasteriser sends every CTA on its own, with its id, to the one GPC that is to start it (CWD-43). So are
// CTAs sent that go on where they stopped: no follower of their grid needs to know of them.
void Launcher::push_one_by_one(const protocol::LaunchPacket& packet, std::uint32_t gpc, Cycle made) {
  std::uint64_t position = table_.at(packet.slot).placed;
  std::uint32_t left = packet.num_ctas;
  bool first = packet.cga_first;
  const auto send_each = [&](std::uint64_t mask) {
    bits::for_each(mask, [&](std::uint32_t sm) {
      LaunchItem item;
      item.gpc = gpc;
      item.made = made;
      item.broadcast = false;
      item.packet = packet;
      item.packet.further_masks = {};
      item.packet.num_ctas = 1;
      item.packet.sm_mask = bits::one(sm);
      TaskEntry& entry = table_.at(packet.slot);
      if (entry.returning) {
        item.packet.id = entry.returns.front().id;
        item.packet.area = entry.returns.front().area;
        if (!open_cga_ || is_last_returned(entry, item.packet, open_cga_->rank)) entry.returns.pop_front();
      } else {
        item.packet.id = arch::resolve(packet.shape, position);
      }
      item.packet.last = --left == 0 && packet.last;
      item.packet.cga_first = first;
      account(packet.slot, gpc, item.packet.sm_mask, item.local);
      push_item(std::move(item));
      first = false;
      ++position;
    });
  };
  send_each(packet.sm_mask);
  for (const std::uint64_t mask : packet.further_masks) send_each(mask);
}

void Launcher::push_item(LaunchItem&& item) {
  const CwdParams& params = context_.params;
  item.session = order_.session;
  item.packet.bits = bits_.of(item.packet);
  item.wire = port_cycles(item.packet.bits, receivers(item));
  // Ids, and the coordinates that late ones are told, are made here.
  const bool makes_id = params.central_raster && !table_.at(item.packet.slot).returning;
  if (makes_id || item.packet.sync) item.ids = context_.timebase.cost(params.raster_cycles);
  item.cycles = std::max(item.wire, item.ids);
  for (protocol::LocalMemoryPacket& block : item.local) {
    block.virtual_gpc = item.packet.virtual_gpc;
    block.bits = bits_.of(block);
    const Cycle wire = port_cycles(block.bits, params.local_memory_broadcast ? context_.topology.gpcs() : 1);
    item.wire += wire;
    item.cycles += wire;
  }
  ++buffers_.back().packets;
  const std::uint32_t lane = params.central_raster ? item.gpc : 0;
  port_.push(std::move(item), lane);
}

// CWD-34, CWD-35. So many bits leave per cycle, to so many GPCs at a time.
Cycle Launcher::port_cycles(std::uint32_t bits, std::size_t gpcs) const {
  const CwdParams& params = context_.params;
  if (params.port_bits == 0) return 0;
  const Cycle words = (bits + params.port_bits - 1) / params.port_bits;
  const Cycle rounds = (gpcs + params.broadcast_width - 1) / params.broadcast_width;
  return context_.timebase.cost(words * rounds);
}

// A TPC that is switched off does not listen, and neither do GPCs that the grid cannot use, where the broadcast is
// narrowed. Who has not heard a packet of the grid has to be told where it stands before it launches any (CWD-42).
void Launcher::choose_listeners(LaunchItem& item, TaskEntry& entry) {
  const bool narrow = context_.params.broadcast == Broadcast::usable;
  const LiveModel& live = machine_.live();
  if (!narrow && live.all_enabled()) return;
  item.listeners.resize(context_.topology.gpcs());
  if (entry.missed.empty()) entry.missed.resize(live.tpcs(), false);
  std::uint64_t starting = item.packet.sm_mask;  // on SMs that were switched off after they were chosen, too
  for (const std::uint64_t further : item.packet.further_masks) starting |= further;
  for (std::uint32_t g = 0; g < item.listeners.size(); ++g) {
    const bool reached = !narrow || partition_.reaches(entry.task.subcontext, g);
    const std::vector<arch::Topology::Tpc>& tpcs = context_.topology.gpc(g).tpcs;
    for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
      const std::uint32_t tpc = live.first_tpc(g) + t;
      const bool starts = g == item.gpc && (starting >> tpcs[t].first_sm & bits::below(tpcs[t].sms)) != 0;
      if (starts || (reached && live.enabled(tpc))) {
        item.listeners[g] |= bits::one(t);
      } else {
        entry.missed[tpc] = true;
      }
    }
  }
}

void Launcher::tell_late(LaunchItem& item, TaskEntry& entry) const {
  if (entry.missed.empty()) return;
  protocol::LaunchPacket& packet = item.packet;
  std::uint64_t mask = packet.sm_mask;
  for (const std::uint64_t further : packet.further_masks) mask |= further;
  const std::vector<arch::Topology::Tpc>& tpcs = context_.topology.gpc(item.gpc).tpcs;
  protocol::LaunchPacket::Sync sync;
  for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
    const std::uint64_t part = mask & bits::below(tpcs[t].sms) << tpcs[t].first_sm;
    const std::uint32_t tpc = machine_.live().first_tpc(item.gpc) + t;
    if (part == 0 || !entry.missed[tpc]) continue;
    entry.missed[tpc] = false;
    sync.tpcs |= bits::one(t);
    stats_.late_joins.add();
  }
  if (sync.tpcs == 0) return;
  const std::uint64_t unit = arch::raster_unit(packet.shape);
  sync.outermost = arch::coord_of(entry.placed / unit, arch::raster_extents(packet.shape));
  sync.within = static_cast<std::uint32_t>(entry.placed % unit);
  packet.sync = sync;
}

// The mask's CTAs in the ledgers, and the TPCs that they hold. `blocks`: the local-memory blocks that this has assigned
// are appended.
void Launcher::account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
                       std::vector<protocol::LocalMemoryPacket>& blocks) {
  if (mask == 0) return;
  const TaskEntry& entry = table_.at(slot);
  const protocol::TaskPacket& task = entry.task;
  const std::uint32_t ctas = bits::count(mask);
  if (machine_.pools().launch(entry.runs_as(), task.priority, gpc, ctas, task.subcontext)) stats_.pool_yields.add();
  LiveModel& live = machine_.live();
  const std::vector<std::uint32_t>& sm_ids = context_.topology.gpc(gpc).sm_ids;
  IdleSms* idle = context_.idle() == nullptr ? nullptr : &context_.idle()->sms();
  bits::for_each(mask, [&](std::uint32_t bit) {
    live.launch(slot, sm_ids[bit]);
    if (idle != nullptr) idle->placed(sm_ids[bit]);
    const std::uint32_t tpc = live.tpc_of(sm_ids[bit]);
    const SubcontextPartition::AssignedBlock block = partition_.launch(task, sm_ids[bit]);
    if (block.number == TpcQuota::kNone) return;
    blocks.push_back({{},
                      protocol::TpcInGpc(tpc - live.first_tpc(gpc)),
                      task.subcontext,
                      protocol::LocalMemoryBlock(block.number),
                      block.memory,
                      0});
  });
  partition_.count_launched(task, ctas);
}

void Launcher::pump() {
  if (!port_.empty() && !depart_scheduled_) wake_at(port_.ready(context_.now()));
}

void Launcher::wake_at(Cycle when) {
  depart_scheduled_ = true;
  context_.timebase.schedule(when, *this, kDepart);
}

void Launcher::on_event(std::uint32_t kind, std::uint64_t) {
  if (kind == kMade) {
    if (lane_wake_ == context_.now()) lane_wake_.reset();
    return pump();
  }
  depart_scheduled_ = false;
  depart();
}

// Credits are heard meanwhile, so that this is no departure.
void Launcher::wake_when_made() {
  const std::optional<Cycle> made = port_.next_made(context_.now());
  if (!made || (lane_wake_ && *lane_wake_ <= *made)) return;
  lane_wake_ = made;
  context_.timebase.schedule(*made, *this, kMade);
}

std::size_t Launcher::receivers(const LaunchItem& item) const {
  if (!item.broadcast) return 1;
  if (item.listeners.empty()) return context_.topology.gpcs();
  return static_cast<std::size_t>(
      std::count_if(item.listeners.begin(), item.listeners.end(), [](std::uint64_t tpcs) { return tpcs != 0; }));
}

// The queues of GPCs that do not run the CTAs hold a broadcast back as well (CWD-35).
bool Launcher::has_places(const LaunchItem& item) const {
  if (!item.broadcast) return links_.launch.can_send(item.gpc);
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    if ((item.listeners.empty() || item.listeners[g] != 0) && !links_.launch.can_send(g)) return false;
  }
  return true;
}

void Launcher::depart() {
  if (port_.empty()) return;
  const Cycle now = context_.now();
  const auto lane = port_.next(now, [this](const LaunchItem& item) { return has_places(item); });
  if (!lane) {  // on_credit() comes back, or the masks of another lane are made
    if (!stalled_since_) stalled_since_ = now;
    wake_when_made();
    return;
  }
  if (stalled_since_) stats_.queue_stalls.add(now - *stalled_since_);
  stalled_since_.reset();
  LaunchItem item = port_.pop(*lane, now);
  TaskEntry& entry = table_.at(item.packet.slot);
  if (!entry.start.has_value()) entry.start = now;
  item.packet.departure = now;
  if (context_.idle() != nullptr) note_departure(item, context_.topology.gpc(item.gpc).sm_ids, context_.idle()->sms());
  send(item, now);
  stats_.port_busy.add(item.wire);
  stats_.id_busy.add(item.ids);
  stats_.table_busy.add(port_.count_commits());
  stats_.packets.add();
  stats_.bits.add(item.packet.bits);
  stats_.ctas.add(item.packet.num_ctas);
  stats_.ctas_per_packet.add(item.packet.num_ctas);
  leave_buffer(item.session);
  pump();
}

void Launcher::send(LaunchItem& item, Cycle now) {
  const std::uint32_t gpcs = context_.topology.gpcs();
  std::uint32_t copies = 0;
  for (std::uint32_t g = 0; g < gpcs; ++g) {
    if (item.broadcast ? !item.listeners.empty() && item.listeners[g] == 0 : g != item.gpc) continue;
    if (!item.listeners.empty()) item.packet.listeners = item.listeners[g];
    links_.launch.send_at(now + extra_distance_[g], item.packet, g);
    ++copies;
  }
  stats_.copies.add(copies);
  stats_.link_bits.add(std::uint64_t{item.packet.bits} * copies);
  for (const protocol::LocalMemoryPacket& block : item.local) {
    const bool all = context_.params.local_memory_broadcast;
    for (std::uint32_t g = 0; g < gpcs; ++g) {
      if (all || g == item.gpc) links_.local.send_at(now + extra_distance_[g], block, g);
    }
    stats_.local_blocks.add();
    stats_.bits.add(block.bits);
    stats_.link_bits.add(std::uint64_t{block.bits} * (all ? gpcs : 1));
  }
}

void Launcher::note_idle() {
  if (buffers_.empty()) stats_.launching.add(context_.now() - busy_since_);
}

void Launcher::leave_buffer(std::uint64_t session) {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                   [session](const Buffer& other) { return other.session == session; });
  if (buffer == buffers_.end() || --buffer->packets > 0 || !buffer->closed) return;
  buffers_.erase(buffer);
  note_idle();
  if (on_buffer_free_) on_buffer_free_();
}

void Launcher::abort(std::uint32_t operation) {
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    links_.abort.send_at(context_.now() + extra_distance_[g], {operation}, g);
  }
}

}  // namespace heddle::cwd
