// Tables and queues of GPMs, MPCs, raster units and of the SM's CGA tables in bits (CWD-44, CGA-05).
#include <utility>

#include "arch/warp_program.h"
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpu {
namespace {

using Kind = StructureKind;

// Of all SMs.
std::uint64_t cta_slots(const Widths& w) { return std::uint64_t{w.topology.sms()} * w.ctas; }

void add_gpms(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t ids = w.params.gpc.cga_ids;
  const std::uint64_t barriers = w.params.gpc.cga_barriers;
  list.push_back({"gpm",
                  "launch queue",
                  Kind::queue,
                  gpcs,
                  gpcs * w.params.cwd.gpc_queue,
                  launch_fields(w),
                  "gpc_queue launch packets of each GPC",
                  {sent<protocol::LaunchPacket>()},
                  {sent<protocol::LaunchPacket>()}});
  list.push_back({"gpm",
                  "free CGA ids",
                  Kind::registers,
                  gpcs,
                  gpcs * ids,
                  {{"free", 1}},
                  "cga_ids of each GPC: a bit each (CGA-01)",
                  {counted("gpc*.gpm.cgas")},
                  {counted("gpc*.gpm.cgas", 2)}});
  list.push_back({"gpm",
                  "CGA table",
                  Kind::table,
                  gpcs,
                  gpcs * ids,
                  {{"task slot", w.task},
                   {"CGA sequence number", w.sequence},
                   {"barrier slot", w.barrier},
                   {"CTAs", w.cga_ctas},
                   {"CTAs to launch", w.cga_ctas},
                   {"live CTAs", w.cga_ctas},
                   {"live CTAs on an SM", w.cga_ctas, w.sms_of_gpc},
                   {"SM holds an sm_cga_slot", 1, w.sms_of_gpc}},
                  "cga_ids of each GPC: ceil(log2 (max_gpc_cga + 1)) of a count of CTAs (CGA-02); the SMs that hold an "
                  "sm_cga_slot for it (CGA-11)",
                  {sent<protocol::CtaCompletePacket>()},
                  {counted("gpc*.gpm.cgas", 2), sent<protocol::CtaCompletePacket>()}});
  list.push_back({"gpm",
                  "barrier slots",
                  Kind::table,
                  gpcs,
                  gpcs * barriers,
                  {{"entered", w.params.cwd.max_gpc_cga},
                   {"arrived", w.params.cwd.max_gpc_cga},
                   {"gone", w.params.cwd.max_gpc_cga},
                   {"due", 1}},
                  "cga_barriers of each GPC: a bit per CTA of a GPC_CGA (CGA-13)",
                  {sent<protocol::ClusterNoticePacket>()},
                  {sent<protocol::ClusterNoticePacket>()}});
  list.push_back({"gpm",
                  "free barrier slots",
                  Kind::registers,
                  gpcs,
                  gpcs * barriers,
                  {{"free", 1}},
                  "cga_barriers of each GPC: a bit each",
                  {counted("gpc*.gpm.cgas")},
                  {counted("gpc*.gpm.cgas", 2)}});
  list.push_back({"gpm",
                  "MPCs that hosted a CGA",
                  Kind::table,
                  gpcs,
                  gpcs * ids,
                  {{"hosted", w.mpcs_of_gpc}, {"is to answer", w.mpcs_of_gpc}},
                  "cga_ids of each GPC: bits per MPC, for barriers and the flush (CGA-12)",
                  {counted("gpc*.gpm.cgas")},
                  {counted("gpc*.gpm.cgas", 2), counted("gpc*.gpm.cluster_barriers")}});
  list.push_back({"gpm",
                  "arrivals at barriers",
                  Kind::queue,
                  gpcs,
                  cta_slots(w) * arch::kBarrierLevels,
                  joined({{"in a CGA", 1},
                          {"gpc_local_cga_id", w.cga},
                          {"cta_id_in_cga", w.rank},
                          {"level", index_bits(arch::kBarrierLevels)},
                          {"CGA sequence number", w.sequence},
                          {"its CTA is gone", 1}},
                         wide_barrier_fields(w)),
                  "one per CTA slot of the GPC and kind of barrier: barrier_arrivals are taken in per cycle (CGA-13)",
                  {sent<protocol::ClusterNoticePacket>(0.5)},
                  {sent<protocol::ClusterNoticePacket>(0.5)}});
  list.push_back({"gpm",
                  "completions of a cycle",
                  Kind::queue,
                  gpcs,
                  w.topology.sms(),
                  complete_fields(w),
                  "one per SM, at which one CTA ends in a cycle: those of a task share a packet (CGA-11)",
                  {sent<protocol::CompletePacket>()},
                  {sent<protocol::CtaCompletePacket>()}});
  if (w.params.cwd.gpu_cga_barriers == 0) return;
  list.push_back({"gpm",
                  "barriers of wide CGAs",
                  Kind::table,
                  gpcs,
                  gpcs * w.params.cwd.gpu_cga_barriers,
                  {{"CGA sequence number", w.sequence},
                   {"level", 1},
                   {"phase", 1},
                   {"CTAs launched", w.gpc_ctas},
                   {"CTAs entered", w.gpc_ctas},
                   {"CTAs that are gone", w.gpc_ctas},
                   {"hosted", w.mpcs_of_gpc},
                   {"arrived", w.sms_of_gpc * w.ctas},
                   {"arrivals told", w.gpc_ctas},
                   {"gone told", w.gpc_ctas}},
                  "gpu_cga_barriers in each GPC: its part of the CGA, a bit per CTA slot of it, and what the root has "
                  "been told (CWD-09)",
                  {sent<protocol::ClusterNoticePacket>(0.5)},
                  {sent<protocol::BarrierReportPacket>(), sent<protocol::BarrierReleasePacket>()}});
}

void add_mpcs(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t mpcs = w.mpcs;
  list.push_back({"mpc",
                  "launch queue",
                  Kind::queue,
                  mpcs,
                  mpcs * w.params.gpc.mpc_queue,
                  mpc_launch_fields(w),
                  "mpc_queue launches of each MPC",
                  {sent<protocol::TpcLaunchPacket>()},
                  {sent<protocol::TpcLaunchPacket>()}});
  list.push_back({"mpc",
                  "free CTA slots",
                  Kind::registers,
                  mpcs,
                  cta_slots(w),
                  {{"free", 1}},
                  "a bit per CTA slot of an SM",
                  {sent<protocol::CtaStartPacket>()},
                  {sent<protocol::CtaStartPacket>(), sent<protocol::CtaExitPacket>()}});
  list.push_back({"mpc",
                  "resident CTAs",
                  Kind::table,
                  mpcs,
                  cta_slots(w),
                  joined({{"here", 1},
                          {"task slot", w.task},
                          {"in a CGA", 1},
                          {"gpc_local_cga_id", w.cga},
                          {"cta_id_in_cga", w.rank},
                          {"CGA sequence number", w.sequence},
                          {"tracked", 1},
                          {"wants to leave", 1},
                          {"shared memory given back", count_bits(w.granules)}},
                         wide_barrier_fields(w)),
                  "an entry per CTA slot of an SM",
                  {sent<protocol::CtaExitPacket>()},
                  {sent<protocol::CtaStartPacket>(), sent<protocol::CtaExitPacket>()}});
  list.push_back({"mpc",
                  "SMs that hosted a CGA",
                  Kind::table,
                  mpcs,
                  mpcs * w.params.gpc.cga_ids,
                  {{"hosted", w.sms_of_mpc}, {"is to answer", w.sms_of_mpc}},
                  "cga_ids of the GPC: bits per SM of the MPC, for the flush (CGA-12)",
                  {sent<protocol::CtaStartPacket>()},
                  {sent<protocol::CtaStartPacket>(), counted("gpc*.gpm.cgas")}});
}

// CWD-41, CWD-42: one raster state per slot of the task table. Every MPC counts every launch packet that its GPC hears.
void add_rasters(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t states = std::uint64_t{w.mpcs} * w.params.cwd.table_slots;
  const AccessLaw updates = counted("gpc*.cpc*.tpc*.mpc*.raster_updates");
  const AccessLaw overflows = counted("gpc*.cpc*.tpc*.mpc*.delta_overflows");
  list.push_back({"raster",
                  "raster state",
                  Kind::table,
                  w.mpcs,
                  states,
                  joined(extents_fields("id"), extents_fields("extents")),
                  "per slot of the task table: an id of 32, 16 and 16 bits, and the extents that it runs over (CWD-42)",
                  {updates, overflows},
                  {updates, overflows}});
  list.push_back({"raster",
                  "delta counters",
                  Kind::table,
                  w.mpcs,
                  states,
                  {{"delta", w.params.gpc.delta_bits}},
                  "per slot of the task table: delta_bits (CWD-41)",
                  {updates, overflows},
                  heard_by_mpcs(w)});
  list.push_back({"raster",
                  "places in CGAs",
                  Kind::table,
                  w.mpcs,
                  states,
                  {{"begun since", 1},
                   {"CTAs of the outermost CGA", kIdBits[0]},
                   {"extents of a level", kAllIdBits, arch::RasterShape::kMaxLevels},
                   {"order", index_bits(3)},
                   {"tile", 8, 2}},
                  "per slot of the task table: how many CTAs of the current outermost CGA have been launched, the "
                  "extents of its levels, and the order of outermost CGAs (CWD-40, CWD-42)",
                  {updates, overflows},
                  heard_by_mpcs(w)});
  const std::uint64_t evicted = std::uint64_t{w.mpcs} * w.params.cwd.evicted_tasks;
  if (evicted == 0) return;
  Fields whole = list.back().fields;
  for (auto structure = list.end() - 3; structure != list.end() - 1; ++structure)
    whole = joined(whole, structure->fields);
  list.push_back({"raster",
                  "states of evicted tasks",
                  Kind::table,
                  w.mpcs,
                  evicted,
                  std::move(whole),
                  "per evicted task: all of the above, as it goes on where it stopped (TSK-03)",
                  {counted("cwd.resumed", w.mpcs)},
                  {counted("cwd.evictions", w.mpcs)}});
}

}  // namespace

Fields wide_barrier_fields(const Widths& w) {
  return {{"wide barriers", 1, 2}, {"barrier of a wide CGA", w.gpu_barrier, 2}};
}

Fields mpc_launch_fields(const Widths& w) {
  return joined({{"task slot", w.task},
                 {"SM mask", w.sms_of_mpc},
                 {"CGA sequence number", w.sequence},
                 {"in a CGA", 1},
                 {"gpc_local_cga_id", w.cga},
                 {"tracked", 1},
                 {"linear memory", 1},
                 {"memory slot", w.memory_slot},
                 {"size index", cwd::LaunchBits::kSize},
                 {"CTA id ready made", 1},
                 {"CTA id", kAllIdBits},
                 {"told where the grid stands", 1},
                 {"coordinate", kAllIdBits},
                 {"CTAs within the outermost CGA", kIdBits[0]}},
                wide_barrier_fields(w));
}

Fields launch_fields(const Widths& w) {
  Fields fields;
  for (const cwd::LaunchBits::Field& field : cwd::LaunchBits(w.params.cwd, w.topology).launch_fields()) {
    if (field.times > 0) fields.push_back({field.name, field.bits, field.times, field.when});
  }
  return fields;
}

void add_gpcs(const Widths& w, std::vector<Structure>& list) {
  add_gpms(w, list);
  add_mpcs(w, list);
  add_rasters(w, list);
}

// An SM's tables are indexed by sm_cga_slot, and the slot's entry holds the gpc_local_cga_id: an SM has as many slots
// as sm.limits.cga_slots says, whatever its GPC has of ids.
void add_sms(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t sms = w.topology.sms();
  list.push_back({"sm",
                  "local-memory blocks",
                  Kind::table,
                  sms,
                  sms * arch::kSubcontexts,
                  {{"valid", 1}, {"block", w.block}},
                  "per subcontext: ceil(log2 blocks) (CWD-32)",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks")}});
  const std::uint64_t slots = w.params.sm.limits.cga_slots;
  list.push_back({"sm",
                  "bl_table",
                  Kind::table,
                  sms,
                  sms * w.params.sm.limits.warps,
                  {{"valid", 1}, {"sm_cga_slot", w.sm_cga_slot}},
                  "per warp: ceil(log2 sm.limits.cga_slots) (CGA-05)",
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.requests")},
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.warps", 2)}});
  list.push_back({"sm",
                  "cga_cta2sm_dir",
                  Kind::table,
                  sms,
                  sms * slots,
                  {{"gpc_local_cga_id", w.cga},
                   {"valid", 1, w.params.cwd.max_gpc_cga},
                   {"tpc_id", w.tpc, w.params.cwd.max_gpc_cga},
                   {"sm_id_in_tpc", w.sm_in_tpc, w.params.cwd.max_gpc_cga}},
                  "per sm_cga_slot (sm.limits.cga_slots): the id, and the SM of each of max_gpc_cga CTAs (CGA-05)",
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.requests")},
                  {sent<protocol::CtaEntryPacket>()}});
  list.push_back({"sm",
                  "free sm_cga_slots",
                  Kind::registers,
                  sms,
                  sms * slots,
                  {{"free", 1}},
                  "a bit per sm_cga_slot (sm.limits.cga_slots)",
                  cgas_by_sms(w, 1),
                  cgas_by_sms(w, 2)});
  list.push_back({"sm",
                  "CAM shmem_base",
                  Kind::table,
                  sms,
                  sms * w.ctas,
                  {{"valid", 1},
                   {"gpc_local_cga_id", w.cga},
                   {"cta_id_in_cga", w.rank},
                   {"base", index_bits(w.granules)},
                   {"size", count_bits(w.granules)}},
                  "per CTA slot: id and rank are the key; base and size in granules of shared memory (CGA-05)",
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.served")},
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.ctas", 2)}});
  list.push_back({"sm",
                  "CGAs to be flushed",
                  Kind::table,
                  sms,
                  sms * w.params.gpc.cga_ids,
                  {{"state", index_bits(3)},
                   {"trapped", 1},
                   {"task slot", w.task},
                   {"CGA sequence number", w.sequence},
                   {"CTAs here", w.cga_ctas},
                   {"was here", 1, w.params.cwd.max_gpc_cga}},
                  "per gpc_local_cga_id (gpc.cga_ids): what the SM had of it, until it has answered the flush (CGA-08, "
                  "CGA-12)",
                  cgas_by_sms(w, 1),
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.ctas", 2), counted("gpc*.gpm.cgas")}});
  const std::uint64_t depth = w.params.sm.memory.pc_fifo;
  if (depth == 0) return;
  std::vector<AccessLaw> issued;
  for (std::size_t unit = 0; unit < arch::kUnits; ++unit) {
    issued.push_back(
        {std::string("gpc*.cpc*.tpc*.sm*.instructions.") + arch::unit_name(static_cast<arch::Unit>(unit))});
  }
  list.push_back({"sm",
                  "FIFO of past pcs",
                  Kind::queue,
                  sms * w.params.sm.limits.warps,
                  sms * w.params.sm.limits.warps * depth,
                  {{"pc", 32}},
                  "per warp sm.memory.pc_fifo pcs, which an error that comes back is looked up in (CGA-07)",
                  {counted("gpc*.cpc*.tpc*.sm*.faults")},
                  std::move(issued)});
}

}  // namespace heddle::gpu
