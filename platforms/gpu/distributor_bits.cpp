// Tables, registers and queues of the distributor in bits (CWD-44); of its sessions: session_bits.cpp.
#include "cwd/task_table.h"
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/host_task.h"
#include "protocol/task_cwd.h"

namespace heddle::gpu {
namespace {

using Kind = StructureKind;

// What a task tells of itself: in its packet and in its entry.
Fields task_fields(const Widths& w) {
  Fields fields = joined({{"priority", 32},
                          {"subcontext", w.subcontext},
                          {"kind", index_bits(3)},
                          {"local memory", count_bits(w.params.sm.limits.max_local_per_thread)}},
                         extents_fields("grid"));
  const std::uint32_t gpc_cga = count_bits(w.params.cwd.max_gpc_cga);
  fields.push_back({"CPC_CGA extents", gpc_cga, 3});
  fields.push_back({"GPC_CGA extents", gpc_cga, 3});
  fields.push_back({"uGPU_CGA extents", kAllIdBits});
  fields.push_back({"GPU_CGA extents", kAllIdBits});
  fields.push_back({"smaller sizes", kAllIdBits, arch::kMaxFallbacks});
  fields.push_back({"mode", 1});
  fields.push_back({"linear memory", 1});
  fields.push_back({"raster order", index_bits(3)});
  fields.push_back({"tile of the order", 8, 2});
  fields.push_back({"cooperative", 1});
  fields.push_back({"resumed", 1});
  fields.push_back({"CTA id, restored", kAllIdBits});
  fields.push_back({"task of the CTA, restored", 32});
  return joined(fields, w.resources());
}

// How far a task had come when it was evicted. In the task table it is that task's state.
Fields progress_fields() {
  return {{"next CTA", kAllIdBits},
          {"size of the split CGA", cwd::LaunchBits::kSize},
          {"number of its arrival", kArrivalBits},
          {"its start", 64},
          {"gone", 1}};
}

void add_task_tables(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t slots = w.params.cwd.table_slots;
  const Fields state = {{"CTAs placed", kAllIdBits},
                        {"CTAs completed", kAllIdBits},
                        {"entries of its queue", count_bits(cwd::kMaxEntries)},
                        {"no more entries", 1},
                        {"size tried", cwd::LaunchBits::kSize},
                        {"GPC_CGAs that live", count_bits(std::uint64_t{w.topology.gpcs()} * w.cgas_per_gpc)},
                        {"residence", index_bits(5)},
                        {"outcome", index_bits(3)}};
  list.push_back({"cwd",
                  "task table",
                  Kind::table,
                  1,
                  w.tasks,
                  joined(task_fields(w), state),
                  "table_slots, and evicted_tasks for those that were evicted; a task's packet and how far it is",
                  {counted("cwd.sessions"), sent<protocol::LaunchPacket>(), sent<protocol::CompletePacket>()},
                  {counted("cwd.tasks"), counted("cwd.sessions"), sent<protocol::CompletePacket>()}});
  list.push_back({"cwd",
                  "prioritised task table",
                  Kind::table,
                  1,
                  slots,
                  {{"valid", 1}, {"task slot", w.task}, {"priority", 32}},
                  "table_slots, in the order of priority and arrival",
                  {counted("cwd.sessions")},
                  {counted("cwd.tasks", 2)}});
  list.push_back({"cwd",
                  "searches for places",
                  Kind::table,
                  1,
                  w.tasks,
                  {{"waits", 1},
                   {"cycles", count_bits(w.params.cwd.age_limit)},
                   {"something has become free since", 1},
                   {"a smaller size is tried", 1},
                   {"pools keep it back", 1},
                   {"TPCs tried next", count_bits(w.topology.gpcs())}},
                  "per task: whether it waits, up to age_limit cycles (CWD-26), and what it has tried (CWD-21, PRT-10)",
                  {counted("cwd.sessions")},
                  {counted("cwd.sessions")}});
  list.push_back({"cwd",
                  "TPCs that missed a launch packet",
                  Kind::table,
                  1,
                  w.tasks * w.tpcs,
                  {{"missed", 1}},
                  "a bit per task and TPC: it is told where the grid stands before it launches any of it (CWD-42)",
                  {counted("cwd.launch_packets", w.tpcs_of_gpc)},
                  {counted("cwd.late_joins", 2)}});
}

// TSK-04. Pools that take any number of tasks are none.
void add_pools(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t active = w.params.cwd.active_pool;
  const std::uint64_t pending = w.params.cwd.pending_pool;
  if (active > 0) {
    list.push_back({"cwd",
                    "active pools",
                    Kind::table,
                    gpcs,
                    gpcs * active,
                    {{"valid", 1}, {"task", w.task}, {"priority", 32}, {"CTAs", w.gpc_ctas}},
                    "active_pool of each GPC: the tasks that it may receive CTAs of (TSK-04)",
                    {counted("cwd.sessions", static_cast<double>(gpcs * active))},
                    {counted("cwd.launch_packets"), sent<protocol::CompletePacket>()}});
  }
  if (pending > 0) {
    list.push_back({"cwd",
                    "pending pools",
                    Kind::table,
                    gpcs,
                    gpcs * pending,
                    {{"valid", 1}, {"task", w.task}},
                    "pending_pool of each GPC: the most urgent tasks that wait to get there (TSK-04)",
                    {counted("cwd.sessions", static_cast<double>(gpcs))},
                    {counted("cwd.sessions", static_cast<double>(gpcs))}});
  }
}

void add_trackers(const Widths& w, std::vector<Structure>& list) {
  const double sms = w.topology.sms();
  const double tpcs = w.tpcs;
  list.push_back({"cwd",
                  "resource trackers (TRT)",
                  Kind::table,
                  w.tpcs,
                  w.topology.sms(),
                  w.resources(),
                  "one per TPC, an entry per SM: ceil(log2 (capacity + 1)) of each resource, registers and shared "
                  "memory in their granularity",
                  {counted("cwd.sessions", sms)},
                  {counted("cwd.ctas_launched"), counted("cwd.ctas_completed")}});
  list.push_back({"cwd",
                  "TPC enable table",
                  Kind::registers,
                  1,
                  w.tpcs,
                  {{"enabled", 1}},
                  "a bit per TPC",
                  {counted("cwd.sessions", tpcs)},
                  {sent<protocol::TpcEnablePacket>()}});
  list.push_back({"cwd",
                  "TPC enable masks of subcontexts",
                  Kind::table,
                  arch::kSubcontexts,
                  std::uint64_t{arch::kSubcontexts} * w.tpcs,
                  {{"enabled", 1}},
                  "a bit per subcontext and TPC",
                  {counted("cwd.sessions", tpcs)},
                  {counted("cwd.share_changes")}});
  list.push_back({"cwd",
                  "local-memory block index table",
                  Kind::table,
                  arch::kSubcontexts,
                  std::uint64_t{arch::kSubcontexts} * w.tpcs,
                  {{"valid", 1}, {"block", w.block}, {"set by software", 1}, {"block set", w.block}},
                  "an entry per subcontext and TPC: ceil(log2 blocks), what a TPC has and what software has set "
                  "(PRT-06)",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks", 2)}});
  list.push_back({"cwd",
                  "free local-memory blocks",
                  Kind::registers,
                  1,
                  std::uint64_t{arch::kSubcontexts} * w.blocks,
                  {{"free", 1}},
                  "of each subcontext local_memory_blocks, or one per TPC",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks", 2)}});
  list.push_back({"cwd",
                  "CTAs of a subcontext on a TPC",
                  Kind::table,
                  arch::kSubcontexts,
                  std::uint64_t{arch::kSubcontexts} * w.tpcs,
                  {{"CTAs", count_bits(std::uint64_t{w.sms_of_tpc} * w.ctas)},
                   {"of them with local memory", count_bits(std::uint64_t{w.sms_of_tpc} * w.ctas)}},
                  "an entry per subcontext and TPC: the CTAs that a TPC holds",
                  {counted("cwd.ctas_launched"), counted("cwd.ctas_completed")},
                  {counted("cwd.ctas_launched"), counted("cwd.ctas_completed")}});
  list.push_back({"cwd",
                  "TPC credits",
                  Kind::registers,
                  arch::kSubcontexts,
                  arch::kSubcontexts,
                  {{"credits, signed", 1 + count_bits(w.tpcs)},
                   {"maximum", count_bits(w.tpcs)},
                   {"TPCs held", count_bits(w.tpcs)},
                   {"reserved by a session", count_bits(w.tpcs)}},
                  "per subcontext: ceil(log2 (TPCs + 1)), and a sign, as credits may be below zero (PRT-07); a session "
                  "reserves some (PRT-10)",
                  {counted("cwd.sessions")},
                  {counted("cwd.credit_moves")}});
  list.push_back({"cwd",
                  "credits of the launch port",
                  Kind::registers,
                  w.topology.gpcs(),
                  w.topology.gpcs(),
                  {{"credits", count_bits(w.params.cwd.gpc_queue)}},
                  "per GPC: ceil(log2 (gpc_queue + 1))",
                  {sent<protocol::LaunchPacket>()},
                  {sent<protocol::LaunchPacket>(2)}});
}

void add_virtual_parts(const Widths& w, std::vector<Structure>& list) {
  // A packet for a TPC goes to its GPM, on to the MPCs, and to each of the SMs.
  const double hops = 1.0 + (w.params.gpc.mpc == gpc::MpcPer::tpc ? 1 : w.sms_of_tpc) + w.sms_of_tpc;
  list.push_back({"cwd",
                  "virtual numbers",
                  Kind::table,
                  1,
                  w.tpcs,
                  part_fields(w),
                  "per TPC: what its first SM is told to be among the usable parts (CWD-45)",
                  {sent<protocol::TpcEnablePacket>(w.tpcs)},
                  {sent<protocol::PartPacket>(1 / hops)}});
}

void add_cga_accounts(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint64_t sms = w.topology.sms();
  const std::uint32_t cgas = count_bits(w.cgas_per_gpc);
  list.push_back({"cwd",
                  "CGA counters",
                  Kind::table,
                  1,
                  w.tasks * gpcs,
                  {{"GPC_CGAs", cgas, 1 + arch::kMaxFallbacks}},
                  "per task and GPC: GPC_CGAs of that shape which it can still hold, for each size (CWD-20)",
                  {counted("cwd.gpu2gpc.sessions", static_cast<double>(gpcs))},
                  {counted("gpc*.gpm.cgas"), counted("cwd.cgas_completed")}});
  list.push_back({"cwd",
                  "sizes of GPC_CGAs that live",
                  Kind::table,
                  gpcs,
                  gpcs * w.cgas_per_gpc,
                  {{"valid", 1}, {"CGA sequence number", w.sequence}, {"size", cwd::LaunchBits::kSize}},
                  "per GPC_CGA of a grid with several sizes: which counter its end is for (CWD-20, CWD-21)",
                  {sent<protocol::CgaCompletePacket>()},
                  {counted("gpc*.gpm.cgas"), sent<protocol::CgaCompletePacket>()}});
  list.push_back({"cwd",
                  "CGA ids and barrier slots left",
                  Kind::registers,
                  gpcs,
                  gpcs,
                  {{"GPC_CGAs", count_bits(std::min(w.params.gpc.cga_ids, w.params.gpc.cga_barriers))}},
                  "per GPC: ceil(log2 (GPC_CGAs + 1)), as many as cga_ids and cga_barriers allow (CWD-19)",
                  {counted("cwd.gpu2gpc.sessions", static_cast<double>(gpcs))},
                  {counted("gpc*.gpm.cgas"), counted("cwd.cgas_completed")}});
  list.push_back({"cwd",
                  "sm_cga_slots left",
                  Kind::registers,
                  gpcs,
                  sms,
                  {{"sm_cga_slots", count_bits(w.params.sm.limits.cga_slots)}},
                  "per SM: ceil(log2 (sm.limits.cga_slots + 1)); a GPC_CGA takes one of every SM of its GPC (CWD-01)",
                  {counted("cwd.gpu2gpc.sessions", static_cast<double>(sms))},
                  cgas_by_sms(w, 2)});
  const std::uint64_t barriers = w.params.cwd.gpu_cga_barriers;
  const std::uint64_t memory_slots = std::uint64_t{arch::kSubcontexts} * w.params.cwd.memory_slots;
  if (barriers > 0) {
    list.push_back({"cwd",
                    "free barriers of wide CGAs",
                    Kind::registers,
                    1,
                    barriers,
                    {{"free", 1}},
                    "gpu_cga_barriers: a bit each (CWD-09)",
                    {counted("cwd.gpu_barriers")},
                    {counted("cwd.gpu_barriers", 2)}});
  }
  if (memory_slots > 0) {
    list.push_back({"cwd",
                    "free CGA memory slots",
                    Kind::registers,
                    arch::kSubcontexts,
                    memory_slots,
                    {{"free", 1}},
                    "memory_slots of each subcontext: a bit each (CWD-22)",
                    {counted("cwd.memory_slots_freed")},
                    {counted("cwd.memory_slots_freed", 2)}});
  }
  if (barriers + memory_slots > 0) {
    list.push_back({"cwd",
                    "outermost CGAs with barriers or memory",
                    Kind::table,
                    1,
                    barriers + memory_slots,
                    {{"CGA sequence number", w.sequence},
                     {"barrier taken", 1, static_cast<std::uint32_t>(barriers)},
                     {"linear memory", 1},
                     {"subcontext", w.subcontext},
                     {"CGA memory slot", w.memory_slot},
                     {"parts that live", count_bits(sms * w.ctas)}},
                    "at most one for each barrier and memory slot: what comes back with the last of its GPC_CGAs or "
                    "CTAs",
                    {sent<protocol::CompletePacket>(), sent<protocol::CgaCompletePacket>()},
                    {counted("cwd.cgas_launched"), sent<protocol::CgaCompletePacket>()}});
  }
}

// CWD-09: the root of the barriers of GPU_CGAs and uGPU_CGAs.
void add_barrier_root(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t barriers = w.params.cwd.gpu_cga_barriers;
  if (barriers == 0) return;
  const std::uint32_t gpcs = w.topology.gpcs();
  list.push_back(
      {"cwd",
       "barriers of wide CGAs",
       Kind::table,
       1,
       barriers,
       {{"CGA sequence number", w.sequence},
        {"CTAs", count_bits(std::uint64_t{w.topology.sms()} * w.ctas)},
        {"phase", 1},
        {"CTAs that have arrived", w.gpc_ctas, gpcs},
        {"CTAs that are gone", w.gpc_ctas, gpcs}},
       "gpu_cga_barriers: its CTAs, and what each GPC has reported last; phases are told apart by their "
       "parity (CWD-09)",
       {counted("cwd.gpu_barrier_reports")},
       {counted("cwd.gpu_barriers"), counted("cwd.gpu_barrier_reports"), counted("cwd.gpu_barrier_phases")}});
  list.push_back({"cwd",
                  "reports of barriers",
                  Kind::queue,
                  1,
                  barriers * gpcs,
                  joined({{"GPC", w.gpc}}, report_fields(w)),
                  "one per barrier and GPC: they are taken in one by one, and a later one replaces what an earlier one "
                  "said",
                  {counted("cwd.gpu_barrier_reports")},
                  {counted("cwd.gpu_barrier_reports")}});
}

// CWD-28: the links from the GPCs have no credits, so that there is room for whatever may come.
void add_completions(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  list.push_back({"cwd",
                  "reports of CTAs",
                  Kind::queue,
                  1,
                  std::uint64_t{w.topology.sms()} * w.ctas,
                  joined({{"GPC", w.gpc}}, complete_fields(w)),
                  "as many as there are CTA slots: end_reports are taken in per cycle (CWD-28)",
                  {sent<protocol::CompletePacket>()},
                  {sent<protocol::CompletePacket>()}});
  list.push_back({"cwd",
                  "reports of CGAs",
                  Kind::queue,
                  1,
                  gpcs * w.cgas_per_gpc,
                  joined({{"GPC", w.gpc}}, cga_complete_fields(w)),
                  "as many as GPC_CGAs that can live: end_reports are taken in per cycle (CWD-28)",
                  {sent<protocol::CgaCompletePacket>()},
                  {sent<protocol::CgaCompletePacket>()}});
}

// CWD-24. Queries are answered one after another, on models of their own.
void add_occupancy(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t sms = w.topology.sms();
  const std::uint64_t askers = sms * w.params.sm.limits.warps + 1;
  const AccessLaw queries = counted("cwd.occupancy_queries");
  list.push_back({"occupancy",
                  "queries",
                  Kind::queue,
                  1,
                  askers,
                  joined({{"host", 1}, {"SM", index_bits(sms)}}, query_fields(w)),
                  "one per warp slot and one of the host: who has asked waits for the answer (CWD-24)",
                  {queries},
                  {queries}});
  list.push_back({"occupancy",
                  "free-slot registers",
                  Kind::registers,
                  w.topology.gpcs(),
                  sms,
                  {{"free slots", w.free_slots}, {"launch slots", w.free_slots}},
                  "per SM: of the empty machine, as in a session (CWD-24)",
                  {counted("cwd.occupancy_steps", static_cast<double>(sms))},
                  {counted("cwd.occupancy_queries", static_cast<double>(sms)), counted("cwd.occupancy_steps")}});
  list.push_back({"occupancy",
                  "share of the machine",
                  Kind::registers,
                  1,
                  1,
                  {{"usable", 1, w.tpcs}, {"TPCs at once", count_bits(w.tpcs)}},
                  "a bit per TPC that the subcontext of the query may use, and its credits (PRT-02)",
                  {queries},
                  {queries}});
  list.push_back({"occupancy",
                  "count",
                  Kind::registers,
                  1,
                  1,
                  {{"CGAs", count_bits(sms * w.ctas)}, {"smallest size", w.cga_ctas}, {"largest size", w.cga_ctas}},
                  "what the answer will be, and the bounds of the search for the largest GPC_CGA",
                  {counted("cwd.occupancy_steps")},
                  {counted("cwd.occupancy_steps")}});
}

}  // namespace

void add_distributor(const Widths& w, std::vector<Structure>& list) {
  list.push_back({"task > cwd",
                  "task",
                  Kind::packet,
                  1,
                  1,
                  joined({{"task", 32}}, joined(task_fields(w), progress_fields())),
                  "the attributes of a task",
                  {},
                  {sent<protocol::TaskPacket>()}});
  add_task_tables(w, list);
  add_pools(w, list);
  add_trackers(w, list);
  add_virtual_parts(w, list);
  add_cga_accounts(w, list);
  add_barrier_root(w, list);
  add_completions(w, list);
  add_sessions(w, list);
  add_occupancy(w, list);
}

}  // namespace heddle::gpu
