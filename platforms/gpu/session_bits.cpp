// What launch sessions work on, and how what they decide leaves, in bits (CWD-02, CWD-12 to CWD-19, CWD-44).
#include "gpu/structure_widths.h"
#include "protocol/cwd_gpm.h"
#include "protocol/cwd_units.h"

namespace heddle::gpu {
namespace {

using Kind = StructureKind;

// The distributor's own part: the shadow state, and the sessions whose masks are being made.
void add_shadow(const Widths& w, std::vector<Structure>& list) {
  const double sms = w.topology.sms();
  list.push_back({"cwd",
                  "shadow state",
                  Kind::registers,
                  1,
                  w.topology.sms(),
                  {{"free slots", w.free_slots}},
                  "per SM: the copy of the live model that the session works on (CWD-02), snapshot_sms per cycle",
                  {counted("cwd.sessions", sms)},
                  {counted("cwd.sessions", sms)}});
  list.push_back({"cwd",
                  "session that decides",
                  Kind::registers,
                  1,
                  1,
                  {{"kind", index_bits(3)},
                   {"task", w.task},
                   {"size", cwd::LaunchBits::kSize},
                   {"CGAs or CTAs", w.session},
                   {"next CGA sequence number", w.sequence},
                   {"GPC_CGAs so far", w.session}},
                  "one at a time; at most session_limit CTAs (CWD-23)",
                  {counted("cwd.session_steps")},
                  {counted("cwd.sessions"), counted("gpc*.gpm.cgas")}});
  list.push_back({"cwd",
                  "sessions in flight",
                  Kind::queue,
                  1,
                  w.params.cwd.sessions,
                  {{"task", w.task},
                   {"size", cwd::LaunchBits::kSize},
                   {"first CGA sequence number", w.sequence},
                   {"placed", w.session}},
                  "sessions: those that have decided, and whose masks are not all made (CWD-27)",
                  {counted("cwd.sessions")},
                  {counted("cwd.sessions")}});
  list.push_back({"cwd",
                  "cut ties",
                  Kind::table,
                  1,
                  w.tasks,
                  tie_fields(w),
                  "per task: where the limit of its last session cut a tie off (CWD-13)",
                  {sent<protocol::SessionPacket>()},
                  {sent<protocol::SessionEndPacket>()}});
  list.push_back({"cwd",
                  "outermost CGA that is launched",
                  Kind::registers,
                  1,
                  1,
                  {{"CGA of the session", w.session},
                   {"GPC_CGAs launched", w.session},
                   {"linear memory", 1},
                   {"CGA memory slot", w.memory_slot},
                   {"barriers", 1, w.params.cwd.gpu_cga_barriers}},
                  "what its GPC_CGAs and CTAs are launched with: a bit per barrier, as it has one for each uGPU_CGA",
                  {counted("cwd.launch_packets")},
                  {counted("cwd.cgas_launched"), counted("gpc*.gpm.cgas")}});
}

void add_gpc2sm(const Widths& w, std::vector<Structure>& list) {
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
                  {{"launch slots", w.free_slots}, {"of them not accepted", w.free_slots}},
                  "per SM: ceil(log2 (CTA slots + 1)) (CWD-18)",
                  by_sms(w, "queries"),
                  launch_slots});
  list.push_back({"gpc2sm",
                  "session registers",
                  Kind::registers,
                  gpcs,
                  gpcs,
                  joined({{"CTAs of a GPC_CGA", w.cga_ctas},
                          {"CTAs of a CPC_CGA", w.cga_ctas},
                          {"mode", 1},
                          {"GPC_CGAs at most", count_bits(w.cgas_per_gpc)},
                          {"reserved", w.session},
                          {"accepted", w.session}},
                         waiting_fields(w)),
                  "what the snapshot says of the session, and how much of it the GPC has (CWD-12)",
                  sum_over_gpcs(w, "queries"),
                  {sent<protocol::SnapshotPacket>(), sent<protocol::MimicPacket>()}});
  // Every mask starts at least one CTA, and an SM gets as many masks as it has CTAs of the CGA.
  const std::uint32_t masks = std::min(w.params.cwd.max_gpc_cga, w.ctas);
  list.push_back(
      {"gpc2sm",
       "masks of reserved GPC_CGAs",
       Kind::table,
       gpcs,
       gpcs * w.session_cgas_of_gpc,
       {{"masks", count_bits(masks)}, {"SM mask", w.sms_of_gpc, masks}},
       "per GPC_CGA that a session can reserve on a GPC, in the order of reservation: they leave when it has "
       "been accepted (CWD-19)",
       {sent<protocol::HomePacket>()},
       sum_over_gpcs(w, "valid")});
}

void add_gpu2gpc(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
  list.push_back({"gpu2gpc",
                  "session registers",
                  Kind::registers,
                  1,
                  1,
                  joined(joined({{"remaining CGAs", w.session},
                                 {"level", index_bits(arch::kCgaLevels)},
                                 {"uGPU_CGAs", w.session},
                                 {"GPC_CGAs", w.session},
                                 {"CTAs of a GPC_CGA", w.cga_ctas},
                                 {"uGPU_CGAs that have places", w.session},
                                 {"GPC_CGAs placed", w.session}},
                                waiting_fields(w)),
                         tie_fields(w)),
                  "ceil(log2 (CTAs of a session + 1)), at most session_limit and what the machine holds; what it is "
                  "asked for, and how far it is",
                  {counted("cwd.gpu2gpc.query_steps")},
                  {counted("cwd.gpu2gpc.sessions"), counted("cwd.gpu2gpc.query_steps")}});
  list.push_back({"gpu2gpc",
                  "answers",
                  Kind::registers,
                  gpcs,
                  gpcs,
                  {{"stands", 1},
                   {"valid", 1},
                   {"speed", w.free_slots},
                   {"free", w.gpc_ctas, 1, "a policy looks at it"},
                   {"reserved", w.session},
                   {"accepted", w.session}},
                  "per GPC: the speed is a number of free slots (CWD-12)",
                  {counted("cwd.gpu2gpc.query_steps", static_cast<double>(gpcs))},
                  {sent<protocol::AnswerPacket>()}});
  list.push_back({"gpu2gpc",
                  "uGPUs",
                  Kind::registers,
                  w.topology.ugpus(),
                  w.topology.ugpus(),
                  {{"phase", index_bits(4)}, {"GPC_CGAs counted", w.session}, {"speed", w.free_slots}},
                  "per uGPU, or of the GPU: how far pass I or II is there (CWD-18, CWD-19, CWD-46)",
                  {counted("cwd.gpu2gpc.query_steps", w.topology.ugpus())},
                  {counted("cwd.gpu2gpc.query_steps", w.topology.ugpus())}});
  list.push_back({"gpu2gpc",
                  "homes",
                  Kind::queue,
                  w.topology.ugpus(),
                  std::uint64_t{w.topology.ugpus()} * w.session_cgas,
                  {{"GPC", w.gpc}},
                  "per uGPU, or of the GPU: where the GPC_CGAs of an outermost CGA go, until all of them have a place",
                  {sent<protocol::HomePacket>()},
                  {sent<protocol::HomePacket>()}});
}

// From masks to launch packets.
void add_launch_path(const Widths& w, std::vector<Structure>& list) {
  const std::uint64_t gpcs = w.topology.gpcs();
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

Fields waiting_fields(const Widths& w) {
  const std::uint32_t seen = protocol::kWaitingSeen;
  return {{"waiting tasks", count_bits(seen), 1, "a policy looks ahead"},
          {"CTAs of their GPC_CGAs", w.cga_ctas, seen, "a policy looks ahead"}};
}

Fields tie_fields(const Widths& w) {
  return {{"cut tie", 1},
          {"last served", index_bits(std::max(w.topology.gpcs(), w.topology.ugpus()))},
          {"speed of the tie", w.free_slots},
          {"nothing is free since", 1}};
}

void add_sessions(const Widths& w, std::vector<Structure>& list) {
  add_shadow(w, list);
  add_gpc2sm(w, list);
  add_gpu2gpc(w, list);
  add_launch_path(w, list);
}

}  // namespace heddle::gpu
