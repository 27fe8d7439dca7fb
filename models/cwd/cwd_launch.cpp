// From the masks of a session to launch packets, and through the launch port (CWD-30 to CWD-34, CWD-43).
#include <algorithm>

#include <fmt/format.h>

#include "cwd/cwd.h"

namespace heddle::cwd {
namespace {

std::uint32_t count_bits(std::uint64_t mask) { return static_cast<std::uint32_t>(__builtin_popcountll(mask)); }

std::uint64_t lowest_bit(std::uint64_t mask) { return mask & (~mask + 1); }

}  // namespace

protocol::LaunchPacket Cwd::packet_for(const TaskEntry& entry, std::uint32_t gpc) const {
  protocol::LaunchPacket packet;
  protocol::launch_of(packet) = protocol::launch_of(entry.task);
  packet.slot = session_.slot;
  packet.operation = entry.runs_as();
  packet.virtual_gpc = topology_.virtual_gpc(gpc);
  packet.sequence = session_.sequence;
  packet.raster = entry.placed;
  packet.shape = session_.shape;
  packet.queue = entry.queue();
  if (entry.restored()) packet.id = entry.task.id;  // no follower of the grid needs to know of it
  return packet;
}

void Cwd::commit_plain() {
  TaskEntry& entry = table_.at(session_.slot);
  std::uint64_t left = session_.placement->ctas;
  for (const LevelMask& level : session_.placement->levels) {
    for (std::uint32_t g = 0; g < level.mask.size(); ++g) {
      if (level.mask[g] == 0) continue;
      protocol::LaunchPacket packet = packet_for(entry, g);
      packet.sm_mask = level.mask[g];
      left -= count_bits(level.mask[g]);
      packet.last = left == 0;
      hand_over(packet, g);
    }
  }
  HEDDLE_CHECK(left == 0, "the masks of a session do not add up to its CTAs");
}

// GPU_CGAs (or uGPU_CGAs) of CTAs, one after another.
void Cwd::commit_wide() {
  TaskEntry& entry = table_.at(session_.slot);
  const std::uint64_t ctas = entry.unit_ctas(session_.size);
  for (std::size_t unit = 0; unit < session_.wide->size(); ++unit) {
    const std::uint64_t sequence = session_.sequence + unit;
    const std::uint32_t memory =
        ledger_.open(sequence, entry.task.subcontext, true, entry.task.cluster.linear_memory, ctas);
    std::uint64_t left = ctas;
    for (const LevelMask& level : (*session_.wide)[unit].placement.levels) {
      for (std::uint32_t g = 0; g < level.mask.size(); ++g) {
        if (level.mask[g] == 0) continue;
        protocol::LaunchPacket packet = packet_for(entry, g);
        packet.sequence = sequence;
        packet.memory_slot = memory;
        packet.sm_mask = level.mask[g];
        left -= count_bits(level.mask[g]);
        packet.last = left == 0;
        hand_over(packet, g);
      }
    }
    HEDDLE_CHECK(left == 0, "the masks of a CGA do not add up to its CTAs");
    cgas_launched_.add();
  }
}

void Cwd::commit_masks() {
  CgaMasks cga;
  while (reorder_.pop(cga)) commit_cga(cga);
  pump_port();
}

// One GPC_CGA. All of its outermost CGA has a home, and the masks come in launch order.
void Cwd::commit_cga(const CgaMasks& cga) {
  TaskEntry& entry = table_.at(session_.slot);
  const arch::ClusterShape& cluster = entry.task.cluster;
  const std::uint64_t sequence = session_.sequence + cga.unit;
  const std::uint32_t ctas = gpc_cga_shape_for(cluster, session_.size).ctas;
  if (cga.unit != session_.unit_open) {
    session_.unit_open = cga.unit;
    const bool gpu_level = cluster.outermost() != arch::CgaLevel::gpc;
    const std::uint64_t parts = entry.unit_ctas(session_.size) / ctas;
    session_.memory_slot = ledger_.open(sequence, entry.task.subcontext, gpu_level, cluster.linear_memory, parts);
    cgas_launched_.add();
  }
  ledger_.take_gpc_cga(cga.gpc);
  --entry.room[admission_.room_index(entry.task, session_.size, cga.gpc)];
  ++entry.open_cgas;
  if (cluster.outermost() == arch::CgaLevel::gpc && cluster.sizes() > 1) entry.size_of[sequence] = session_.size;

  std::uint32_t left = ctas;
  for (std::size_t first = 0; first < cga.masks.size(); first += params_.masks_per_packet) {
    protocol::LaunchPacket packet = packet_for(entry, cga.gpc);
    packet.sequence = sequence;
    packet.memory_slot = session_.memory_slot;
    packet.cga_ctas = ctas;
    packet.cga_first = first == 0;
    const std::size_t count = std::min<std::size_t>(params_.masks_per_packet, cga.masks.size() - first);
    packet.sm_mask = cga.masks[first];
    for (std::size_t i = 1; i < count; ++i) packet.further_masks[i - 1] = cga.masks[first + i];
    for (std::size_t i = 0; i < count; ++i) left -= count_bits(cga.masks[first + i]);
    packet.last = cga.last && left == 0;
    hand_over(packet, cga.gpc);
  }
  HEDDLE_CHECK(left == 0, "the masks of a CGA do not add up to its CTAs");
}

// From here on the live model counts the packet's CTAs, and the packet waits for the port. A central rasteriser sends
// every CTA on its own, with its id (CWD-43).
void Cwd::hand_over(protocol::LaunchPacket& packet, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(packet.slot);
  packet.num_ctas = count_bits(packet.sm_mask);
  for (const std::uint64_t mask : packet.further_masks) packet.num_ctas += count_bits(mask);
  announce_late(packet, gpc, entry);
  LaunchPort::Item item;
  item.gpc = gpc;
  item.session = session_.number;
  entry.placed += packet.num_ctas;
  if (!params_.central_raster) {
    account(packet.slot, gpc, packet.sm_mask, item.local);
    for (const std::uint64_t mask : packet.further_masks) account(packet.slot, gpc, mask, item.local);
    ++buffers_.back().packets;
    item.packet = packet;
    port_.push(item);
    return;
  }
  protocol::LaunchPacket one = packet;
  one.further_masks = {};
  one.num_ctas = 1;
  std::uint32_t left = packet.num_ctas;
  const auto send_each = [&](std::uint64_t mask) {
    for (; mask != 0; mask &= mask - 1) {
      one.sm_mask = lowest_bit(mask);
      if (!packet.id) one.id = arch::resolve(one.shape, one.raster);
      one.last = packet.last && --left == 0;
      item.local.clear();
      account(packet.slot, gpc, one.sm_mask, item.local);
      ++buffers_.back().packets;
      item.packet = one;
      port_.push(item);
      one.cga_first = false;
      ++one.raster;
    }
  };
  send_each(packet.sm_mask);
  for (const std::uint64_t mask : packet.further_masks) send_each(mask);
}

// A TPC that has not heard all of the grid's broadcast is told where it stands (CWD-42).
void Cwd::announce_late(protocol::LaunchPacket& packet, std::uint32_t gpc, TaskEntry& entry) const {
  if (entry.missed.empty()) return;
  std::uint64_t mask = packet.sm_mask;
  for (const std::uint64_t further : packet.further_masks) mask |= further;
  const std::vector<arch::Topology::Tpc>& tpcs = topology_.gpc(gpc).tpcs;
  for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
    const std::uint64_t ones = tpcs[t].sms >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << tpcs[t].sms) - 1;
    const std::uint64_t part = mask & ones << tpcs[t].first_sm;
    if (part == 0 || !entry.missed[first_tpc_[gpc] + t]) continue;
    entry.missed[first_tpc_[gpc] + t] = false;
    packet.late_mask |= part;
    late_joins_.add();
  }
  if (packet.late_mask == 0) return;
  packet.late_coord =
      arch::coord_of(packet.raster / arch::raster_unit(packet.shape), arch::raster_extents(packet.shape));
}

// The masks' CTAs in the live model, and the TPCs that they hold.
void Cwd::account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
                  std::vector<protocol::LocalMemoryPacket>& blocks) {
  const protocol::TaskPacket& task = table_.at(slot).task;
  if (mask != 0 && pools_.launch(table_.at(slot).runs_as(), task.priority, gpc, count_bits(mask))) pool_yields_.add();
  subcontexts_.launched(task.subcontext, count_bits(mask));
  for (; mask != 0; mask &= mask - 1) {
    const std::uint32_t sm = topology_.gpc(gpc).sm_ids[static_cast<std::size_t>(__builtin_ctzll(mask))];
    live_.launch(slot, sm);
    const std::uint32_t tpc = live_.tpc_of(sm);
    const std::uint32_t block = holds_.launch(task.subcontext, tpc, task.local_memory);
    if (block != TpcHolds::kNone) blocks.push_back({tpc - first_tpc_[gpc], task.subcontext, block});
  }
  show_holds(task.subcontext);
}

void Cwd::pump_port() {
  if (port_.empty() || depart_scheduled_) return;
  depart_scheduled_ = true;
  domain_.schedule(port_.ready(now()), *this, kDepart);
}

void Cwd::on_credit(std::uint32_t) { pump_port(); }

void Cwd::depart() {
  if (port_.empty() || !launch_out.can_send(port_.front().gpc)) return;  // on_credit() comes back
  LaunchPort::Item item = port_.pop(now());
  TaskEntry& entry = table_.at(item.packet.slot);
  if (!entry.started) {
    entry.started = true;
    entry.start = now();
  }
  item.packet.departure = now();
  const Cycle departure = now() + extra_distance_[item.gpc];
  launch_out.send_at(departure, item.packet, item.gpc);
  for (const protocol::LocalMemoryPacket& block : item.local) {
    local_blocks_.add();
    local_out.send_at(departure, block, item.gpc);
  }
  launch_packets_.add();
  ctas_launched_.add(item.packet.num_ctas);
  ctas_per_packet_.add(item.packet.num_ctas);
  for (auto buffer = buffers_.begin(); buffer != buffers_.end(); ++buffer) {
    if (buffer->session != item.session) continue;
    if (--buffer->packets == 0 && buffer->closed) {
      buffers_.erase(buffer);
      consider_later();
    }
    break;
  }
  pump_port();
}

}  // namespace heddle::cwd
