// The packets of a launch and its end in bits (CWD-31, CWD-44): what hardware sends of them. Members that the model
// keeps for observation and for its checks are no bits.
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/cwd_units.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/host_task.h"
#include "protocol/occupancy_query.h"

namespace heddle::gpu {
namespace {

using namespace protocol;
using Kind = StructureKind;

template <class Packet>
void add(std::vector<Structure>& list, const char* way, const char* name, std::uint64_t links, Fields fields,
         const char* law) {
  list.push_back({way, name, Kind::packet, links, 1, std::move(fields), law, {}, {sent<Packet>()}});
}

void add_session_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  add<SessionPacket>(
      list, "cwd > gpu2gpc", "session", 1,
      {{"CGAs", w.session}, {"level", index_bits(arch::kCgaLevels)}, {"uGPU_CGAs", w.session}, {"GPC_CGAs", w.session}},
      "a session's CGAs");
  add<SnapshotPacket>(list, "cwd > gpc2sm", "snapshot", gpcs,
                      {{"free slots", w.free_slots, w.sms_of_gpc},
                       {"CTAs of a GPC_CGA", count_bits(w.params.cwd.max_gpc_cga)},
                       {"CTAs of a CPC_CGA", count_bits(w.params.cwd.max_gpc_cga)},
                       {"mode", 1},
                       {"GPC_CGAs at most", count_bits(w.cgas_per_gpc)}},
                      "ceil(log2 (CTA slots + 1)) for each SM of the GPC");
  add<MimicPacket>(list, "gpu2gpc > gpc2sm", "query and orders", gpcs, {{"orders", 1, 5}}, "a bit for each");
  add<AnswerPacket>(list, "gpc2sm > gpu2gpc", "answer", gpcs, {{"valid", 1}, {"speed", w.free_slots}},
                    "the speed is a number of free slots");
  add<HomePacket>(list, "gpu2gpc > gpc2sm", "home", gpcs, {{"nth", w.session}, {"order", w.session}, {"last", 1}},
                  "numbers within the session");
  add<MaskPacket>(list, "gpc2sm > cwd", "masks", gpcs,
                  {{"order", w.session}, {"last", 1}, {"final", 1}, {"masks", w.sms_of_gpc, kMasksPerMaskPacket}},
                  "a bit per SM of the GPC and mask");
}

void add_launch_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t sms = w.topology.sms();
  add<LaunchPacket>(list, "cwd > gpm", "launch", gpcs, launch_fields(w),
                    "CWD-31, CWD-35: to all GPCs; bits moved: with those of lmem_blk_idx packets on the same links");
  list.back().moved = {counted("cwd.link_bits")};
  add<LaunchPacket>(list, "gpm > mpcs", "launch", w.mpcs, launch_fields(w),
                    "CWD-35: on to all MPCs; bits moved: with those of lmem_blk_idx packets on the same links");
  list.back().writes = heard_by_mpcs(w);
  list.back().moved = {counted("gpc*.gpm.mpc_bits")};
  add<LocalMemoryPacket>(list, "cwd > gpm > mpc", "lmem_blk_idx", gpcs + w.mpcs,
                         {{"GPC", w.gpc}, {"TPC", w.tpc}, {"subcontext", w.subcontext}, {"block", w.block}},
                         "CWD-32: ceil(log2 blocks)");
  add<AbortPacket>(list, "cwd > gpm > mpc > sm", "abort", gpcs + w.mpcs + sms, {{"task slot", w.task}}, "the task");
  add<TpcEnablePacket>(list, "task > cwd", "TPC enable", 1, {{"GPC", w.gpc}, {"TPC", w.tpc}, {"enabled", 1}},
                       "the TPC");
  add<CtaStartPacket>(list, "mpc > sm", "CTA start", sms,
                      joined({{"task slot", w.task},
                              {"CTA slot", w.cta_slot},
                              {"in a CGA", 1},
                              {"gpc_local_cga_id", w.cga},
                              {"cta_id_in_cga", w.rank},
                              {"linear memory", 1},
                              {"memory slot", w.memory_slot}},
                             extents_fields("CTA id")),
                      "with the ids that the raster unit has made (CWD-40)");
  add<CtaEntryPacket>(list, "mpc > sms", "CTA entry", sms,
                      {{"gpc_local_cga_id", w.cga},
                       {"cta_id_in_cga", w.rank},
                       {"CTAs", count_bits(w.params.cwd.max_gpc_cga)},
                       {"tpc_id", w.tpc},
                       {"sm_id_in_tpc", w.sm_in_tpc}},
                      "CGA-03, CGA-05: to all SMs of the GPC");
}

void add_end_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t sms = w.topology.sms();
  const std::uint32_t granules = count_bits(w.granules);
  add<CtaExitPacket>(list, "sm > mpc", "CTA exit", sms,
                     {{"CTA slot", w.cta_slot}, {"faulted", 1}, {"shared memory given back", granules}},
                     "the CTA's slot");
  add<CtaCompletePacket>(list, "mpc > gpm", "cta_complete", w.mpcs,
                         {{"SM in TPC", w.sm_in_tpc},
                          {"task slot", w.task},
                          {"in a CGA", 1},
                          {"gpc_local_cga_id", w.cga},
                          {"cta_id_in_cga", w.rank},
                          {"faulted", 1},
                          {"shared memory given back", granules}},
                         "CGA-02");
  add<ClusterNoticePacket>(list, "sm > mpc > gpm", "cluster notice", sms + w.mpcs,
                           {{"kind", 3},
                            {"gpc_local_cga_id", w.cga},
                            {"cta_id_in_cga", w.rank},
                            {"CTA slot", w.cta_slot},
                            {"shared memory given back", granules}},
                           "arrivals, flushes, entries, traps");
  add<ClusterOrderPacket>(list, "gpm > mpc > sm", "cluster order", sms + w.mpcs,
                          {{"kind", 2}, {"gpc_local_cga_id", w.cga}, {"CTA slot", w.cta_slot}},
                          "barriers, permissions to leave, flushes");
  add<CompletePacket>(list, "gpm > cwd", "completions", gpcs,
                      {{"task slot", w.task},
                       {"SM mask", w.sms_of_gpc},
                       {"tracked", 1},
                       {"CGA sequence number", w.sequence},
                       {"faulted", 1},
                       {"shared memory given back", granules}},
                      "a bit per SM of the largest GPC");
  add<SharedReleasePacket>(list, "gpm > cwd", "shared memory release", gpcs,
                           {{"task slot", w.task}, {"SM in GPC", w.sm_in_gpc}, {"shared memory", granules}},
                           "CGA-09: in granules");
  add<CgaCompletePacket>(list, "gpm > cwd", "cga_complete", gpcs,
                         {{"task slot", w.task}, {"CGA sequence number", w.sequence}}, "CWD-20");
}

}  // namespace

void add_packets(const Widths& w, std::vector<Structure>& list) {
  add_session_packets(w, list);
  add_launch_packets(w, list);
  add_end_packets(w, list);
  const std::uint64_t queriers = w.topology.sms() + 1;
  add<OccupancyQueryPacket>(list, "host > task > cwd, sms > cwd", "occupancy query", queriers + 1,
                            joined({{"warp slot", index_bits(w.params.sm.limits.warps)},
                                    {"CTAs of each level", kIdBits[0], arch::kCgaLevels},
                                    {"mode", 1},
                                    {"linear memory", 1},
                                    {"local memory", 1},
                                    {"subcontext", w.subcontext}},
                                   w.resources()),
                            "CWD-24: a shape and what a CTA takes");
  add<OccupancyAnswerPacket>(list, "cwd > host, sms", "occupancy answer", queriers,
                             {{"warp slot", index_bits(w.params.sm.limits.warps)},
                              {"well formed", 1},
                              {"CGAs", count_bits(std::uint64_t{w.topology.sms()} * w.ctas)},
                              {"largest", count_bits(w.params.cwd.max_gpc_cga)}},
                             "CWD-24: at most the CTAs of the machine");
}

}  // namespace heddle::gpu
