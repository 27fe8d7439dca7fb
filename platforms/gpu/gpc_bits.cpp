// Tables and queues of GPMs, MPCs, raster units and of the SM's CGA tables in bits (CWD-44, CGA-05).
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpu {
namespace {

using Kind = StructureKind;

void add_gpms(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t ids = w.params.gpc.cga_ids;
  const std::uint64_t barriers = w.params.gpc.cga_barriers;
  const std::uint32_t cga_ctas = count_bits(w.params.cwd.max_gpc_cga);
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
                   {"CTAs to launch", cga_ctas},
                   {"live CTAs", cga_ctas}},
                  "cga_ids of each GPC: ceil(log2 (max_gpc_cga + 1)) of a count of CTAs (CGA-02)",
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
                  "TPCs that hosted a CGA",
                  Kind::table,
                  gpcs,
                  gpcs * ids,
                  {{"hosted", w.tpcs_of_gpc}},
                  "cga_ids of each GPC: a bit per TPC, for the flush (CGA-12)",
                  {counted("gpc*.gpm.cgas")},
                  {counted("gpc*.gpm.cgas", 2)}});
}

void add_mpcs(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t mpcs = w.mpcs;
  const std::uint64_t cta_slots = std::uint64_t{w.topology.sms()} * w.ctas;
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
                  cta_slots,
                  {{"free", 1}},
                  "a bit per CTA slot of an SM",
                  {sent<protocol::CtaStartPacket>()},
                  {sent<protocol::CtaStartPacket>(), sent<protocol::CtaExitPacket>()}});
  list.push_back({"mpc",
                  "resident CTAs",
                  Kind::table,
                  mpcs,
                  cta_slots,
                  {{"task slot", w.task},
                   {"in a CGA", 1},
                   {"gpc_local_cga_id", w.cga},
                   {"cta_id_in_cga", w.rank},
                   {"wants to leave", 1}},
                  "an entry per CTA slot of an SM",
                  {sent<protocol::CtaExitPacket>()},
                  {sent<protocol::CtaStartPacket>(), sent<protocol::CtaExitPacket>()}});
  list.push_back({"mpc",
                  "local-memory blocks",
                  Kind::table,
                  mpcs,
                  mpcs * arch::kSubcontexts,
                  {{"valid", 1}, {"block", w.block}},
                  "per subcontext: ceil(log2 blocks) (CWD-32)",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks")}});
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
}

}  // namespace

Fields mpc_launch_fields(const Widths& w) {
  return {{"task slot", w.task},       {"SM mask", w.sms_of_mpc}, {"in a CGA", 1},
          {"gpc_local_cga_id", w.cga}, {"linear memory", 1},      {"memory slot", w.memory_slot}};
}

Fields launch_fields(const Widths& w) {
  Fields fields;
  for (const cwd::LaunchBits::Field& field : cwd::LaunchBits(w.params.cwd, w.topology).launch_fields()) {
    const bool mask = field.name == "a further mask";
    fields.push_back({field.name, field.bits, mask ? w.params.cwd.masks_per_packet - 1 : 1, field.when});
  }
  return fields;
}

void add_gpcs(const Widths& w, std::vector<Structure>& list) {
  add_gpms(w, list);
  add_mpcs(w, list);
  add_rasters(w, list);
}

void add_sms(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t sms = w.topology.sms();
  const std::uint64_t slots = w.params.gpc.cga_ids;
  const std::uint32_t slot = index_bits(slots);
  list.push_back({"sm",
                  "bl_table",
                  Kind::table,
                  sms,
                  sms * w.params.sm.limits.warps,
                  {{"valid", 1}, {"sm_cga_slot", slot}},
                  "per warp: ceil(log2 sm_cga_slots) (CGA-05)",
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
                  "per sm_cga_slot: the id, and the SM of each of max_gpc_cga CTAs (CGA-05)",
                  {counted("gpc*.cpc*.tpc*.sm*.cluster.requests")},
                  {sent<protocol::CtaEntryPacket>()}});
  list.push_back(
      {"sm", "free sm_cga_slots", Kind::registers, sms, sms * slots, {{"free", 1}}, "a bit per sm_cga_slot", {}, {}});
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
}

}  // namespace heddle::gpu
