// The packets of a launch and its end in bits (CWD-31, CWD-44): what hardware sends of them. Members that the model
// keeps for observation and for its checks are no bits.
#include "cwd/task_table.h"
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/cwd_units.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/host_task.h"
#include "protocol/occupancy_query.h"
#include "protocol/task_cwd.h"

namespace heddle::gpu {
namespace {

using namespace protocol;
using Kind = StructureKind;

template <class Packet>
void add(std::vector<Structure>& list, const char* way, const char* name, std::uint64_t links, Fields fields,
         const char* law) {
  list.push_back({way, name, Kind::packet, links, 1, std::move(fields), law, {}, {sent<Packet>()}});
}

// Between task management and the distributor.
void add_task_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint32_t entries = count_bits(cwd::kMaxEntries);
  add<TaskDonePacket>(list, "cwd > task", "task done", 1,
                      {{"task", 32}, {"start", 64}, {"end", 64}, {"rejected", 1}, {"faulted", 1}},
                      "with the cycles that its first packet left in, and its last completion arrived in");
  add<EvictPacket>(list, "task > cwd", "evict", 1, {{"task", 32}}, "TSK-03");
  add<EvictedPacket>(list, "cwd > task", "evicted", 1,
                     {{"task", 32},
                      {"evicted", 1},
                      {"remainder", 1},
                      {"next CTA", kAllIdBits},
                      {"size of the split CGA", cwd::LaunchBits::kSize},
                      {"number of its arrival", kArrivalBits},
                      {"its start", 64},
                      {"gone", 1}},
                     "TSK-03: how far it has come");
  add<GrowPacket>(list, "task > cwd", "queue grows", 1,
                  {{"task", 32},
                   {"entries", entries},
                   {"last", 1},
                   {"broken", 1},
                   {"CTA that comes back", 96},
                   {"CTAs of a CGA", count_bits(w.params.cwd.max_gpc_cga)}},
                  "TSK-05: entries of its queue; TSK-16: a CTA's number or a CGA's size, and where the state lies");
  add<IdlePacket>(list, "cwd > task", "queue is idle", 1, {{"task", 32}, {"entries", entries}},
                  "TSK-05: entries of its queue");
  add<SubcontextPacket>(list, "host > task > cwd", "partition", 4,
                        {{"what", index_bits(12)},
                         {"mode", index_bits(3)},
                         {"subcontext", w.subcontext},
                         {"GPC", w.gpc},
                         {"TPC", w.tpc},
                         {"value", 64}},
                        "PRT-05 to PRT-08, PRT-11: the widest value is the physical address of a page table");
  add<TpcEnablePacket>(list, "task > cwd", "TPC enable", 1, {{"GPC", w.gpc}, {"TPC", w.tpc}, {"enabled", 1}},
                       "the TPC");
}

void add_session_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  add<SessionPacket>(list, "cwd > gpu2gpc", "session", 1,
                     joined(joined({{"CGAs", w.session},
                                    {"level", index_bits(arch::kCgaLevels)},
                                    {"uGPU_CGAs", w.session},
                                    {"GPC_CGAs", w.session},
                                    {"CTAs of a GPC_CGA", w.cga_ctas}},
                                   waiting_fields(w)),
                            tie_fields(w)),
                     "a session's CGAs");
  add<SnapshotPacket>(list, "cwd > gpc2sm", "snapshot", gpcs,
                      joined({{"free slots", w.free_slots, w.sms_of_gpc},
                              {"CTAs of a GPC_CGA", w.cga_ctas},
                              {"CTAs of a CPC_CGA", w.cga_ctas},
                              {"mode", 1},
                              {"GPC_CGAs at most", count_bits(w.cgas_per_gpc)}},
                             waiting_fields(w)),
                      "ceil(log2 (CTA slots + 1)) for each SM of the GPC");
  add<MimicPacket>(list, "gpu2gpc > gpc2sm", "query and orders", gpcs, {{"orders", 1, 5}}, "a bit for each");
  add<AnswerPacket>(list, "gpc2sm > gpu2gpc", "answer", gpcs,
                    {{"valid", 1}, {"speed", w.free_slots}, {"free", w.gpc_ctas, 1, "a policy looks at it"}},
                    "the speed is a number of free slots");
  add<HomePacket>(list, "gpu2gpc > gpc2sm", "home", gpcs,
                  {{"nth", w.session}, {"order", w.session}, {"outermost CGA", w.session}, {"last", 1}},
                  "numbers within the session");
  add<MaskPacket>(list, "gpc2sm > cwd", "masks", gpcs,
                  {{"order", w.session},
                   {"outermost CGA", w.session},
                   {"last", 1},
                   {"final", 1},
                   {"number of masks", count_bits(kMasksPerMaskPacket)},
                   {"masks", w.sms_of_gpc, kMasksPerMaskPacket}},
                  "a bit per SM of the GPC and mask");
  add<SessionEndPacket>(list, "gpu2gpc > cwd", "session ends", 1, joined({{"CGAs placed", w.session}}, tie_fields(w)),
                        "a session's CGAs, and the tie that its limit has cut off (CWD-13)");
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
  add<LocalMemoryPacket>(list, "cwd > gpm > mpc > sm", "lmem_blk_idx", gpcs + w.mpcs + sms,
                         {{"GPC", w.gpc}, {"TPC", w.tpc}, {"subcontext", w.subcontext}, {"block", w.block}},
                         "CWD-32: ceil(log2 blocks)");
  add<AbortPacket>(
      list, "cwd > gpm > mpc > sm", "abort", gpcs + w.mpcs + sms,
      {{"task slot", w.task}, {"room", 2 + w.sms_of_gpc + 96 + w.subcontext}},
      "the task; or room of which kind, for how many CTAs of what need, below which priority, on which SMs (TSK-16)");
  add<PartPacket>(list, "cwd > gpm > mpc > sm", "virtual numbers", gpcs + w.mpcs + sms, part_fields(w),
                  "CWD-45: of the TPC's first SM; the last hop needs no TPC");
  add<TpcLaunchPacket>(
      list, "gpm > mpc", "gpc_local_cga_id", w.mpcs, {{"in a CGA", 1}, {"gpc_local_cga_id", w.cga}},
      "CGA-01: what the GPM adds to a launch packet for the MPC whose SMs start its CTAs; all else the "
      "MPC has heard with the packet");
  add<CtaStartPacket>(list, "mpc > sm", "CTA start", sms,
                      joined(joined({{"task slot", w.task},
                                     {"CTA slot", w.cta_slot},
                                     {"CGA sequence number", w.sequence},
                                     {"in a CGA", 1},
                                     {"gpc_local_cga_id", w.cga},
                                     {"cta_id_in_cga", w.rank},
                                     {"size index", cwd::LaunchBits::kSize},
                                     {"linear memory", 1},
                                     {"memory slot", w.memory_slot}},
                                    wide_barrier_fields(w)),
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
                     {{"CTA slot", w.cta_slot},
                      {"drained", 1},
                      {"faulted", 1},
                      {"preempted", 1},
                      {"shared memory given back", granules}},
                     "CGA-11: the CTA's slot; the MPC knows what is in it");
  add<CtaCompletePacket>(list, "mpc > gpm", "cta_complete", w.mpcs,
                         joined({{"SM in TPC", w.sm_in_tpc},
                                 {"task slot", w.task},
                                 {"CGA sequence number", w.sequence},
                                 {"in a CGA", 1},
                                 {"gpc_local_cga_id", w.cga},
                                 {"cta_id_in_cga", w.rank},
                                 {"tracked", 1},
                                 {"faulted", 1},
                                 {"preempted", 1},
                                 {"shared memory given back", granules}},
                                wide_barrier_fields(w)),
                         "CGA-02, and CWD-09 for the barriers of wide CGAs");
  add<ClusterNoticePacket>(list, "sm > mpc > gpm", "cluster notice", sms + w.mpcs,
                           joined({{"kind", index_bits(12)},
                                   {"task slot", w.task},
                                   {"CGA sequence number", w.sequence},
                                   {"in a CGA", 1},
                                   {"gpc_local_cga_id", w.cga},
                                   {"cta_id_in_cga", w.rank},
                                   {"CTA slot", w.cta_slot},
                                   {"SM in TPC", w.sm_in_tpc},
                                   {"level", index_bits(arch::kBarrierLevels)},
                                   {"faulted", 1},
                                   {"waits", 1},
                                   {"phase", 1},
                                   {"where it was saved", 64, 2},
                                   {"shared memory given back", granules}},
                                  wide_barrier_fields(w)),
                           "arrivals, ends of accesses, flushes, entries, traps, saves; whose SM it is the MPC adds");
  add<ClusterOrderPacket>(list, "gpm > mpc > sm", "cluster order", sms + w.mpcs,
                          {{"kind", index_bits(8)},
                           {"cta_id_in_cga", w.rank},
                           {"where they were saved", 128, w.params.cwd.max_gpc_cga},
                           {"gpc_local_cga_id", w.cga},
                           {"CTA slot", w.cta_slot},
                           {"CGA sequence number", w.sequence},
                           {"level", index_bits(arch::kBarrierLevels)},
                           {"barrier of a wide CGA", w.gpu_barrier}},
                          "barriers, permissions to leave, flushes, saves of a whole CGA (TSK-12)");
  add<CompletePacket>(list, "gpm > cwd", "completions", gpcs, complete_fields(w), "a bit per SM of the largest GPC");
  add<SharedReleasePacket>(list, "gpm > cwd", "shared memory release", gpcs,
                           {{"task slot", w.task}, {"SM in GPC", w.sm_in_gpc}, {"shared memory", granules}},
                           "CGA-09: in granules");
  add<CgaCompletePacket>(list, "gpm > cwd", "cga_complete", gpcs, cga_complete_fields(w), "CWD-20");
}

// CWD-09. A machine without such barriers has the links all the same.
void add_barrier_packets(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  add<BarrierReportPacket>(list, "gpm > cwd", "barrier report", gpcs, report_fields(w),
                           "CWD-09: counts of CTAs of a GPC; phases are told apart by their parity");
  add<BarrierReleasePacket>(
      list, "cwd > gpm", "barrier release", gpcs,
      {{"barrier of a wide CGA", w.gpu_barrier}, {"CGA sequence number", w.sequence}, {"phase", 1}},
      "CWD-09: phases are told apart by their parity");
}

}  // namespace

Fields complete_fields(const Widths& w) {
  return {{"task slot", w.task},
          {"SM mask", w.sms_of_gpc},
          {"tracked", 1},
          {"CGA sequence number", w.sequence},
          {"faulted", 1},
          {"preempted", 1},
          {"shared memory given back", count_bits(w.granules)},
          {"SMs with an sm_cga_slot more", w.sms_of_gpc}};
}

Fields cga_complete_fields(const Widths& w) { return {{"task slot", w.task}, {"CGA sequence number", w.sequence}}; }

Fields report_fields(const Widths& w) {
  return {{"barrier of a wide CGA", w.gpu_barrier},
          {"CGA sequence number", w.sequence},
          {"phase", 1},
          {"CTAs that have arrived", w.gpc_ctas},
          {"CTAs that are gone", w.gpc_ctas}};
}

Fields part_fields(const Widths& w) {
  return {{"TPC", w.tpc},
          {"usable", 1},
          {"virtual SM", index_bits(w.topology.sms())},
          {"virtual TPC", w.tpc},
          {"virtual CPC", index_bits(w.cpcs_of_gpc)},
          {"virtual GPC", w.gpc},
          {"virtual uGPU", index_bits(w.topology.ugpus())}};
}

Fields query_fields(const Widths& w) {
  return joined({{"warp slot", index_bits(w.params.sm.limits.warps)},
                 {"CTAs of each level", kIdBits[0], arch::kCgaLevels},
                 {"mode", 1},
                 {"linear memory", 1},
                 {"local memory", 1},
                 {"largest as well", 1},
                 {"subcontext", w.subcontext}},
                w.resources());
}

void add_packets(const Widths& w, std::vector<Structure>& list) {
  add_task_packets(w, list);
  add_session_packets(w, list);
  add_launch_packets(w, list);
  add_end_packets(w, list);
  add_barrier_packets(w, list);
  const std::uint64_t queriers = w.topology.sms() + 1;
  add<OccupancyQueryPacket>(list, "host > task > cwd, sms > cwd", "occupancy query", queriers + 1, query_fields(w),
                            "CWD-24: a shape and what a CTA takes");
  add<OccupancyAnswerPacket>(list, "cwd > host, sms", "occupancy answer", queriers,
                             {{"warp slot", index_bits(w.params.sm.limits.warps)},
                              {"well formed", 1},
                              {"CGAs", count_bits(std::uint64_t{w.topology.sms()} * w.ctas)},
                              {"largest", w.cga_ctas}},
                             "CWD-24: at most the CTAs of the machine");
}

}  // namespace heddle::gpu
