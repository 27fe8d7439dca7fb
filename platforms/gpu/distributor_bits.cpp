// Tables, registers and queues of the distributor in bits (CWD-44).
#include "cwd/lake_fill.h"
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/cwd_units.h"
#include "protocol/host_task.h"
#include "protocol/task_cwd.h"

namespace heddle::gpu {
namespace {

using Kind = StructureKind;

// What a task tells of itself: in its packet and in its entry.
Fields task_fields(const Widths& w) {
  Fields fields = joined({{"priority", 32}, {"subcontext", w.subcontext}, {"kind", index_bits(3)}, {"local memory", 1}},
                         extents_fields("grid"));
  const std::uint32_t gpc_cga = count_bits(w.params.cwd.max_gpc_cga);
  fields.push_back({"CPC_CGA extents", gpc_cga, 3});
  fields.push_back({"GPC_CGA extents", gpc_cga, 3});
  fields.push_back({"uGPU_CGA extents", kAllIdBits});
  fields.push_back({"GPU_CGA extents", kAllIdBits});
  fields.push_back({"smaller sizes", kAllIdBits, arch::kMaxFallbacks});
  fields.push_back({"mode", 1});
  fields.push_back({"linear memory", 1});
  return joined(fields, w.resources());
}

void add_task_tables(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t slots = w.params.cwd.table_slots;
  const Fields state = {{"CTAs placed", kAllIdBits},
                        {"CTAs completed", kAllIdBits},
                        {"size tried", index_bits(1 + arch::kMaxFallbacks)},
                        {"residence", index_bits(4)},
                        {"outcome", index_bits(3)}};
  list.push_back({"cwd",
                  "task table",
                  Kind::table,
                  1,
                  slots,
                  joined(task_fields(w), state),
                  "table_slots; a task's packet and how far it is",
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
                  {{"valid", 1}, {"block", w.block}},
                  "an entry per subcontext and TPC: ceil(log2 blocks)",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks", 2)}});
  list.push_back({"cwd",
                  "free local-memory blocks",
                  Kind::registers,
                  1,
                  w.blocks,
                  {{"free", 1}},
                  "local_memory_blocks, or one per TPC",
                  {counted("cwd.local_blocks")},
                  {counted("cwd.local_blocks", 2)}});
  list.push_back({"cwd",
                  "CTAs of a subcontext on a TPC",
                  Kind::table,
                  arch::kSubcontexts,
                  std::uint64_t{arch::kSubcontexts} * w.tpcs,
                  {{"CTAs", count_bits(std::uint64_t{w.sms_of_tpc} * w.ctas)}},
                  "an entry per subcontext and TPC: the CTAs that a TPC holds",
                  {counted("cwd.ctas_launched"), counted("cwd.ctas_completed")},
                  {counted("cwd.ctas_launched"), counted("cwd.ctas_completed")}});
  list.push_back({"cwd",
                  "TPC credits",
                  Kind::registers,
                  arch::kSubcontexts,
                  arch::kSubcontexts,
                  {{"credits, signed", 1 + count_bits(w.tpcs)}, {"maximum", count_bits(w.tpcs)}},
                  "per subcontext: ceil(log2 (TPCs + 1)), and a sign, as credits may be below zero (PRT-07)",
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

void add_cga_accounts(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  const std::uint32_t cgas = count_bits(w.cgas_per_gpc);
  list.push_back({"cwd",
                  "CGA counters",
                  Kind::table,
                  w.params.cwd.table_slots,
                  w.params.cwd.table_slots * gpcs,
                  {{"GPC_CGAs", cgas}},
                  "per task and GPC: GPC_CGAs of that shape which it can still hold (CWD-20)",
                  {counted("cwd.gpu2gpc.sessions", static_cast<double>(gpcs))},
                  {counted("gpc*.gpm.cgas"), counted("cwd.cgas_completed")}});
  list.push_back({"cwd",
                  "CGA ids and barrier slots left",
                  Kind::registers,
                  gpcs,
                  gpcs,
                  {{"GPC_CGAs", cgas}},
                  "per GPC: ceil(log2 (GPC_CGAs + 1))",
                  {counted("cwd.gpu2gpc.sessions", static_cast<double>(gpcs))},
                  {counted("gpc*.gpm.cgas"), counted("cwd.cgas_completed")}});
  list.push_back({"cwd",
                  "barriers of wide CGAs left",
                  Kind::registers,
                  1,
                  w.params.cwd.gpu_cga_barriers,
                  {{"free", 1}},
                  "gpu_cga_barriers: a bit each",
                  {},
                  {}});
  list.push_back({"cwd",
                  "CGA memory slots",
                  Kind::table,
                  arch::kSubcontexts,
                  std::uint64_t{arch::kSubcontexts} * w.params.cwd.memory_slots,
                  {{"free", 1}},
                  "memory_slots of each subcontext (CWD-22)",
                  {},
                  {}});
}

void add_sessions(const Widths& w, std::vector<Structure>& list) {
  const double sms = w.topology.sms();
  const std::uint64_t gpcs = w.topology.gpcs();
  list.push_back({"gpc2sm",
                  "free-slot registers",
                  Kind::registers,
                  gpcs,
                  w.topology.sms(),
                  {{"free slots", w.free_slots}},
                  "per SM: ceil(log2 (CTA slots + 1)) (CWD-18)",
                  by_sms(w, "queries"),
                  {counted("cwd.gpu2gpc.sessions", sms)}});
  std::vector<AccessLaw> launch_slots = by_sms(w, "valid");
  launch_slots.push_back(counted("cwd.gpu2gpc.sessions", sms));
  list.push_back({"gpc2sm",
                  "launch-slot registers",
                  Kind::registers,
                  gpcs,
                  w.topology.sms(),
                  {{"launch slots", w.free_slots}},
                  "per SM: ceil(log2 (CTA slots + 1)) (CWD-18)",
                  by_sms(w, "queries"),
                  launch_slots});
  list.push_back({"gpu2gpc",
                  "session registers",
                  Kind::registers,
                  1,
                  1,
                  {{"remaining CGAs", w.session}, {"GPC_CGAs counted", w.session}, {"uGPU_CGAs", w.session}},
                  "ceil(log2 (CTAs of a session + 1)), at most session_limit and what the machine holds",
                  {counted("cwd.gpu2gpc.query_steps")},
                  {counted("cwd.gpu2gpc.sessions"), counted("cwd.gpu2gpc.query_steps")}});
  list.push_back({"gpu2gpc",
                  "answers",
                  Kind::registers,
                  gpcs,
                  gpcs,
                  {{"valid", 1}, {"speed", w.free_slots}, {"reserved", w.session}},
                  "per GPC: the speed is a number of free slots (CWD-12)",
                  {counted("cwd.gpu2gpc.query_steps", static_cast<double>(gpcs))},
                  {sent<protocol::AnswerPacket>()}});
  list.push_back({"cwd",
                  "mask buffers",
                  Kind::queue,
                  w.params.cwd.mask_buffers,
                  std::uint64_t{w.params.cwd.mask_buffers} * w.ctas * gpcs,
                  {{"SM mask", w.sms_of_gpc}, {"CGA sequence number", w.sequence}, {"last of CGA", 1}},
                  "mask_buffers sessions of a mask per level of free slots and GPC",
                  {sent<protocol::LaunchPacket>()},
                  {sent<protocol::LaunchPacket>()}});
  if (!w.params.cwd.central_raster) return;
  list.push_back({"cwd",
                  "central raster state",
                  Kind::registers,
                  w.params.cwd.table_slots,
                  w.params.cwd.table_slots,
                  extents_fields("next CTA"),
                  "per task: an id of 32, 16 and 16 bits (CWD-43)",
                  {counted("cwd.ctas_launched")},
                  {counted("cwd.ctas_launched")}});
}

}  // namespace

void add_distributor(const Widths& w, std::vector<Structure>& list) {
  list.push_back({"task > cwd",
                  "task",
                  Kind::packet,
                  1,
                  1,
                  joined({{"task", 32}}, task_fields(w)),
                  "the attributes of a task",
                  {},
                  {sent<protocol::TaskPacket>()}});
  add_task_tables(w, list);
  add_trackers(w, list);
  add_cga_accounts(w, list);
  add_sessions(w, list);
}

}  // namespace heddle::gpu
