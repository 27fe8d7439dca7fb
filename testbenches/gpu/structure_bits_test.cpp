// Structures in bits, worked by hand from the widths of the specification, and their accesses.
#include "gpu/structure_bits.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "arch/raster.h"
#include "common/packet_port.h"
#include "cwd/launch_bits.h"
#include "protocol/cwd_gpm.h"

namespace gpu_structure_bits_test {

using namespace heddle;
using gpu::GpuParams;
using gpu::Structure;

namespace {

const Structure& find(const std::vector<Structure>& list, const std::string& block, const std::string& name) {
  for (const Structure& structure : list) {
    if (structure.block == block && structure.name == name) return structure;
  }
  FAIL("no structure " << block << " " << name);
  return list.front();
}

std::uint32_t bits_of(const Structure& structure, const std::string& field) {
  for (const gpu::BitField& f : structure.fields) {
    if (f.name == field) return f.bits;
  }
  FAIL("no field " << field);
  return 0;
}

// GPCs of 3 TPCs and of 2, of 2 SMs each, without CPCs, in a uGPU each: 10 SMs. An SM holds 4 CTAs, 16 warps and 100
// KiB, which are 800 granules. 4 CGAs at a time, CGAs of up to 8 CTAs; 5 tasks and 3 evicted ones; 4 GPU barriers, 2
// memory slots.
GpuParams hand_made() {
  GpuParams params;
  params.machine.shape = arch::Shape::from_sms_per_gpc({6, 4});
  params.machine.ugpus = {1, 1};
  params.sm.limits.ctas = 4;
  params.sm.limits.warps = 16;
  params.sm.limits.shared_bytes = 102'400;
  params.sm.limits.cga_slots = 6;
  params.sm.memory.pc_fifo = 3;
  params.gpc.cga_ids = 4;
  params.gpc.cga_barriers = 5;
  params.gpc.delta_bits = 7;
  params.cwd.table_slots = 5;
  params.cwd.evicted_tasks = 3;
  params.cwd.max_gpc_cga = 8;
  params.cwd.gpu_cga_barriers = 4;
  params.cwd.memory_slots = 2;
  params.cwd.sessions = 3;
  params.cwd.active_pool = 2;
  params.cwd.pending_pool = 6;
  params.cwd.masks_per_packet = 3;
  return params;
}

}  // namespace

TEST_CASE("widths are logarithms, rounded up", "[gpu][CWD-44]") {
  CHECK(gpu::index_bits(1) == 0);
  CHECK(gpu::index_bits(2) == 1);
  CHECK(gpu::index_bits(3) == 2);
  CHECK(gpu::index_bits(256) == 8);
  CHECK(gpu::index_bits(257) == 9);
  CHECK(gpu::count_bits(0) == 0);
  CHECK(gpu::count_bits(1) == 1);
  CHECK(gpu::count_bits(255) == 8);
  CHECK(gpu::count_bits(256) == 9);
}

TEST_CASE("the tables of an SM have the widths of CGA-05", "[gpu][CWD-44][CGA-05]") {
  const GpuParams params;  // 132 SMs, at most 9 TPCs of 2 SMs in a GPC
  const std::vector<Structure> list = structures_of(params);
  const Structure& directory = find(list, "sm", "cga_cta2sm_dir");
  CHECK(bits_of(directory, "gpc_local_cga_id") == 8);
  CHECK(bits_of(directory, "tpc_id") == 4);
  CHECK(bits_of(directory, "sm_id_in_tpc") == 1);
  CHECK(directory.entry_bits() == 8 + 16 * (1 + 4 + 1));
  CHECK(directory.instances == 132);
  const Structure& cam = find(list, "sm", "CAM shmem_base");
  CHECK(bits_of(cam, "gpc_local_cga_id") == 8);
  CHECK(bits_of(cam, "cta_id_in_cga") == 5);
  CHECK(bits_of(cam, "base") == 11);  // 228 KiB in granules of 128 bytes: 1824
  CHECK(bits_of(cam, "size") == 11);
  CHECK(cam.entries == 132 * 32);
  const Structure& warps = find(list, "sm", "bl_table");
  CHECK(warps.entries == 132 * 64);
  CHECK(warps.bits() == 132 * 64 * (1 + 8));
  const Structure& past = find(list, "sm", "FIFO of past pcs");
  CHECK(past.instances == 132 * 64);
  CHECK(past.entries == 132 * 64 * 8);
}

TEST_CASE("an SM has as many sm_cga_slots as its limits say, whatever ids its GPC has", "[gpu][CWD-44][CGA-05]") {
  GpuParams params;
  params.sm.limits.cga_slots = 4;
  const std::vector<Structure> few = structures_of(params);
  CHECK(bits_of(find(few, "sm", "bl_table"), "sm_cga_slot") == 2);
  CHECK(find(few, "sm", "cga_cta2sm_dir").entries == 132 * 4);
  CHECK(bits_of(find(few, "sm", "cga_cta2sm_dir"), "gpc_local_cga_id") == 8);  // an id of the GPC's 256
  CHECK(find(few, "sm", "free sm_cga_slots").bits() == 132 * 4);
  CHECK(find(few, "cwd", "sm_cga_slots left").bits() == 132 * 3);  // 0 to 4
  CHECK(find(few, "cwd", "CGA ids and barrier slots left").bits() == 8 * 9);
  CHECK(bits_of(find(few, "cwd", "CGA counters"), "GPC_CGAs") == 3);
  CHECK(find(few, "gpm", "CGA table").entries == 8 * 256);
  params.sm.limits.cga_slots = 256;
  params.gpc.cga_ids = 16;
  const std::vector<Structure> ids = structures_of(params);
  CHECK(bits_of(find(ids, "sm", "bl_table"), "sm_cga_slot") == 8);
  CHECK(find(ids, "sm", "cga_cta2sm_dir").entries == 132 * 256);
  CHECK(bits_of(find(ids, "sm", "cga_cta2sm_dir"), "gpc_local_cga_id") == 4);
  CHECK(find(ids, "gpm", "free CGA ids").bits() == 8 * 16);
}

// Widths that recur below. Task 3: one of 8. Sequence 16. CTAs of a GPC 5: 0 to 24. CTAs of the machine 6: 0 to 40, as
// are CGAs of a session. CTAs of a GPC_CGA 4: 0 to 8. Free slots 3: 0 to 4. Granules 10: 0 to 800. CGA id 2, barrier of
// a wide CGA 2, CTA slot 2, rank 5.
TEST_CASE("tables and registers of a machine worked by hand", "[gpu][CWD-44]") {
  const GpuParams params = hand_made();
  const std::vector<Structure> list = structures_of(params);
  struct Row {
    const char* block;
    const char* name;
    std::uint64_t instances, entries, bits;  // bits of an entry
  };
  const std::uint64_t waiting = 4 + 8 * 4;                         // 0 to 8 tasks, and of each the CTAs of a GPC_CGA
  const std::uint64_t tie = 1 + 1 + 3 + 1;                         // one of 2 GPCs, a speed
  const std::uint64_t complete = 3 + 6 + 1 + 16 + 1 + 1 + 10 + 6;  // ended by a fault, or preempted
  const std::uint64_t report = 2 + 16 + 1 + 5 + 5;
  const std::uint64_t wide = 2 * 1 + 2 * 2;
  const Row rows[] = {
      {"cwd", "prioritised task table", 1, 5, 1 + 3 + 32},
      {"cwd", "searches for places", 1, 8, 1 + 17 + 1 + 1 + 1 + 2},  // 100,000 cycles; none, or one of 2 GPCs
      {"cwd", "TPCs that missed a launch packet", 1, 8 * 5, 1},
      {"cwd", "active pools", 2, 2 * 2, 1 + 3 + 32 + 5},
      {"cwd", "pending pools", 2, 2 * 6, 1 + 3},
      {"cwd", "virtual numbers", 1, 5, 2 + 1 + 4 + 2 + 0 + 1 + 1},
      {"cwd", "CGA counters", 1, 8 * 2, 5 * 3},
      {"cwd", "sizes of GPC_CGAs that live", 2, 2 * 4, 1 + 16 + 3},
      {"cwd", "CGA ids and barrier slots left", 2, 2, 3},
      {"cwd", "sm_cga_slots left", 2, 10, 3},
      {"cwd", "free barriers of wide CGAs", 1, 4, 1},
      {"cwd", "free CGA memory slots", 64, 64 * 2, 1},
      {"cwd", "outermost CGAs with barriers or memory", 1, 4 + 128, 16 + 4 + 1 + 6 + 1 + 6},
      {"cwd", "barriers of wide CGAs", 1, 4, 16 + 6 + 1 + 2 * 5 + 2 * 5},
      {"cwd", "reports of barriers", 1, 4 * 2, 1 + report},
      {"cwd", "reports of CTAs", 1, 10 * 4, 1 + complete},
      {"cwd", "reports of CGAs", 1, 2 * 4, 1 + 3 + 16},
      {"cwd", "shadow state", 1, 10, 3},
      {"cwd", "session that decides", 1, 1, 2 + 3 + 3 + 6 + 16 + 6},
      {"cwd", "sessions in flight", 1, 3, 3 + 3 + 16 + 6},
      {"cwd", "cut ties", 1, 8, tie},
      {"cwd", "outermost CGA that is launched", 1, 1, 6 + 6 + 1 + 1 + 4},
      {"gpc2sm", "free-slot registers", 2, 10, 3},
      {"gpc2sm", "launch-slot registers", 2, 10, 3 + 3},
      {"gpc2sm", "session registers", 2, 2, 4 + 4 + 1 + 3 + 6 + 6 + waiting},
      {"gpc2sm", "masks of reserved GPC_CGAs", 2, 2 * 4, 3 + 4 * 6},
      {"gpu2gpc", "session registers", 1, 1, 6 + 2 + 6 + 6 + 4 + 6 + 6 + waiting + tie},
      {"gpu2gpc", "answers", 2, 2, 1 + 1 + 3 + 5 + 6 + 6},
      {"gpu2gpc", "uGPUs", 2, 2, 2 + 6 + 3},
      {"gpu2gpc", "homes", 2, 2 * 40, 1},
      {"occupancy", "queries", 1, 10 * 16 + 1, 1 + 4 + 4 + 4 * 32 + 4 + 6 + (5 + 12 + 9 + 10 + 3 + 10)},
      {"occupancy", "free-slot registers", 2, 10, 3 + 3},
      {"occupancy", "share of the machine", 1, 1, 5 + 3},
      {"occupancy", "count", 1, 1, 6 + 4 + 4},
      {"gpm", "CGA table", 2, 2 * 4, 3 + 16 + 3 + 4 + 4 + 4 + 6 * 4 + 6},
      {"gpm", "barrier slots", 2, 2 * 5, 8 + 8 + 8 + 1},
      {"gpm", "MPCs that hosted a CGA", 2, 2 * 4, 6 + 6},
      {"gpm", "arrivals at barriers", 2, 10 * 4 * 3, 1 + 2 + 5 + 2 + 16 + 1 + wide},
      {"gpm", "completions of a cycle", 2, 10, complete},
      {"gpm", "barriers of wide CGAs", 2, 2 * 4, 16 + 1 + 1 + 3 * 5 + 6 + 24 + 2 * 5},
      {"mpc", "resident CTAs", 10, 40, 1 + 3 + 1 + 2 + 5 + 16 + 1 + 1 + 10 + wide},
      {"mpc", "SMs that hosted a CGA", 10, 10 * 4, 1 + 1},
      {"raster", "raster state", 10, 10 * 5, 64 + 64},
      {"raster", "delta counters", 10, 10 * 5, 7},
      {"raster", "places in CGAs", 10, 10 * 5, 1 + 32 + 5 * 64 + 2 + 16},
      {"raster", "states of evicted tasks", 10, 10 * 3, 128 + 7 + 371},
      {"sm", "bl_table", 10, 10 * 16, 1 + 3},
      {"sm", "cga_cta2sm_dir", 10, 10 * 6, 2 + 8 * (1 + 2 + 1)},
      {"sm", "free sm_cga_slots", 10, 10 * 6, 1},
      {"sm", "CGAs to be flushed", 10, 10 * 4, 2 + 1 + 3 + 16 + 4 + 8},
      {"sm", "FIFO of past pcs", 160, 160 * 3, 32},
  };
  for (const Row& row : rows) {
    const Structure& structure = find(list, row.block, row.name);
    CAPTURE(row.block, row.name);
    CHECK(structure.instances == row.instances);
    CHECK(structure.entries == row.entries);
    CHECK(structure.entry_bits() == row.bits);
  }
}

TEST_CASE("packets of a machine worked by hand", "[gpu][CWD-44][CWD-31]") {
  const GpuParams params = hand_made();
  const std::vector<Structure> list = structures_of(params);
  struct Row {
    const char* way;
    const char* name;
    std::uint64_t links, bits;
  };
  const std::uint64_t waiting = 4 + 8 * 4;
  const std::uint64_t tie = 1 + 1 + 3 + 1;
  const std::uint64_t wide = 2 * 1 + 2 * 2;
  // 6 SMs, up to 3 further masks, 24 CTAs in 4 masks, 6 flags.
  const std::uint64_t launch = 3 + 1 + 6 + 2 + 5 + 16 + 6;
  // 2 further masks, a memory slot, 2 barriers, 3 bits of size, 6 extents, 3 TPCs with coordinate and place, an id.
  const std::uint64_t sometimes = 2 * 6 + 1 + 2 * 2 + 3 + 6 * 64 + (3 + 64 + 32) + 64;
  const Row rows[] = {
      {"cwd > task", "task done", 1, 32 + 64 + 64 + 2},
      {"task > cwd", "evict", 1, 32},
      {"cwd > task", "evicted", 1, 32 + 3 + 64 + 3 + 60 + 64},      // CTA, size, arrival, start
      {"task > cwd", "queue grows", 1, 32 + 31 + 2 + 32 + 64 + 4},  // a CTA that comes back, and where it lies
      {"cwd > task", "queue is idle", 1, 32 + 31},
      {"host > task > cwd", "partition", 4, 4 + 2 + 6 + 1 + 2 + 64},
      {"cwd > gpu2gpc", "session", 1, 6 + 2 + 6 + 6 + 4 + waiting + tie},
      {"cwd > gpc2sm", "snapshot", 2, 6 * 3 + 4 + 4 + 1 + 3 + waiting},
      {"gpc2sm > gpu2gpc", "answer", 2, 1 + 3 + 5},
      {"gpu2gpc > gpc2sm", "home", 2, 6 + 6 + 6 + 1},
      {"gpc2sm > cwd", "masks", 2, 6 + 6 + 1 + 1 + 3 + 4 * 6},
      {"gpu2gpc > cwd", "session ends", 1, 6 + tie},
      {"cwd > gpm", "launch", 2, launch + sometimes},
      {"cwd > gpm > mpc > sm", "virtual numbers", 2 + 10 + 10, 2 + 1 + 4 + 2 + 0 + 1 + 1},
      {"gpm > mpc", "gpc_local_cga_id", 10, 1 + 2},
      {"mpc > sm", "CTA start", 10, 3 + 2 + 16 + 1 + 2 + 5 + 3 + 1 + 1 + wide + 64},
      {"sm > mpc", "CTA exit", 10, 2 + 1 + 1 + 1 + 10},
      {"mpc > gpm", "cta_complete", 10, 1 + 3 + 16 + 1 + 2 + 5 + 1 + 1 + 1 + 10 + wide},
      // One of 12 kinds; an area and a context.
      {"sm > mpc > gpm", "cluster notice", 20, 4 + 3 + 16 + 1 + 2 + 5 + 2 + 1 + 2 + 1 + 1 + 1 + 2 * 64 + 10 + wide},
      // One of 8 kinds; of each of the 8 CTAs of a GPC_CGA an area and a context.
      {"gpm > mpc > sm", "cluster order", 20, 3 + 5 + 8 * 2 * 64 + 2 + 2 + 16 + 2 + 2},
      {"gpm > cwd", "completions", 2, 3 + 6 + 1 + 16 + 1 + 1 + 10 + 6},
      {"gpm > cwd", "barrier report", 2, 2 + 16 + 1 + 5 + 5},
      {"cwd > gpm", "barrier release", 2, 2 + 16 + 1},
  };
  for (const Row& row : rows) {
    const Structure& structure = find(list, row.way, row.name);
    CAPTURE(row.way, row.name);
    CHECK(structure.instances == row.links);
    CHECK(structure.entry_bits() == row.bits);
  }
}

TEST_CASE("a launch packet has as many bits as what is in it", "[gpu][CWD-44][CWD-31]") {
  const GpuParams params = hand_made();
  const arch::Topology topology = topology_of(params);
  const cwd::LaunchBits bits(params.cwd, topology);
  const arch::Dim3 grid{64, 1, 1};
  arch::ClusterShape gpc;
  gpc.of(arch::CgaLevel::gpc) = {4, 1, 1};
  protocol::LaunchPacket packet;
  packet.sm_mask = 1;
  constexpr std::uint32_t kPlain = 3 + 1 + 6 + 2 + 5 + 16 + 6;
  CHECK(bits.of(packet) == kPlain);
  packet.shape = raster_shape(grid, gpc, 0);
  packet.cga_ctas = 4;
  packet.cga_first = true;
  CHECK(bits.of(packet) == kPlain);  // a grid of GPC_CGAs of one size: nothing more
  // All packets of a grid with several sizes say which it is, those of the full one as well.
  gpc.fallback[0] = {2, 1, 1};
  for (const std::uint32_t size : {0U, 1U}) {
    packet.shape = raster_shape(grid, gpc, size);
    CHECK(bits.of(packet) == kPlain + 3);
  }
  packet.shape = {};
  packet.barriers.gpu = protocol::BarrierSlot(0);
  CHECK(bits.of(packet) == kPlain + 2);
  packet.barriers.ugpu = protocol::BarrierSlot(3);
  CHECK(bits.of(packet) == kPlain + 2 + 2);
  // With everything it is as large as the list says.
  packet.shape.sizes = 2;
  packet.shape.levels = arch::RasterShape::kMaxLevels;
  packet.begins = true;
  packet.further_masks = {1, 1, 0};  // masks_per_packet
  packet.memory_slot = protocol::CgaMemorySlot(0);
  packet.sync = protocol::LaunchPacket::Sync{};
  // Who has not heard the beginning is told the extents with the place; both at once carry them once.
  CHECK(bits.of(packet) == find(structures_of(params), "cwd > gpm", "launch").entry_bits() - 64);
  packet.begins = false;
  CHECK(bits.of(packet) == find(structures_of(params), "cwd > gpm", "launch").entry_bits() - 64);
  packet.id = arch::CtaId{};
  CHECK(bits.of(packet) == find(structures_of(params), "cwd > gpm", "launch").entry_bits());
}

TEST_CASE("the registers of the distributor follow from what an SM holds", "[gpu][CWD-44][CWD-18]") {
  const GpuParams params;
  const std::vector<Structure> list = structures_of(params);
  // 0 to 32 free slots: 6 bits.
  CHECK(find(list, "gpc2sm", "free-slot registers").bits() == 132 * 6);
  CHECK(find(list, "gpc2sm", "launch-slot registers").bits() == 132 * (6 + 6));  // those not accepted besides
  // 64 warps, 2048 threads, 256 x 256 registers, 1824 granules, 32 CTAs, 512 barriers.
  const Structure& trackers = find(list, "cwd", "resource trackers (TRT)");
  CHECK(trackers.instances == 66);
  CHECK(trackers.bits() == 132 * (7 + 12 + 9 + 11 + 6 + 10));
  CHECK(find(list, "cwd", "TPC enable table").bits() == 66);
  CHECK(find(list, "cwd", "local-memory block index table").bits() == 64 * 66 * (1 + 7 + 1 + 7));  // and what is set
  CHECK(find(list, "cwd", "credits of the launch port").bits() == 8 * 8);  // 0 to 128 launch packets
}

TEST_CASE("ids are of 32, 16 and 16 bits, and delta counters as wide as is said", "[gpu][CWD-44][CWD-40][CWD-41]") {
  GpuParams params;
  params.gpc.delta_bits = 11;
  const std::vector<Structure> list = structures_of(params);
  const Structure& state = find(list, "raster", "raster state");
  CHECK(bits_of(state, "id x") == 32);
  CHECK(bits_of(state, "id y") == 16);
  CHECK(bits_of(state, "id z") == 16);
  CHECK(state.entries == 132 * 128);  // an MPC for each SM, a state for each slot of the task table
  const Structure& delta = find(list, "raster", "delta counters");
  CHECK(delta.entries == state.entries);
  CHECK(delta.entry_bits() == 11);
  params.gpc.mpc = gpc::MpcPer::tpc;
  CHECK(find(structures_of(params), "raster", "delta counters").bits() == 66 * 128 * 11);
}

TEST_CASE("what is larger has wider numbers", "[gpu][CWD-44][CWD-31]") {
  GpuParams params;
  const auto launch = [&params](const char* field) {
    const std::vector<Structure> list = structures_of(params);
    return bits_of(find(list, "cwd > gpm", "launch"), field);
  };
  params.cwd.evicted_tasks = 0;
  CHECK(launch("task id") == 7);
  CHECK(launch("virtual GPC") == 3);
  CHECK(launch("SM mask") == 18);
  params.cwd.table_slots = 129;
  CHECK(launch("task id") == 8);
  params.machine.shape = arch::Shape::balanced(288, 16);  // 18 GPCs
  CHECK(launch("virtual GPC") == 5);
  params.gpc.cga_ids = 16;
  const std::vector<Structure> list = structures_of(params);
  CHECK(bits_of(find(list, "sm", "cga_cta2sm_dir"), "gpc_local_cga_id") == 4);
}

TEST_CASE("every structure has a name of its own, bits and a law", "[gpu][CWD-44]") {
  for (const bool central : {false, true}) {
    GpuParams params;
    params.cwd.central_raster = central;
    std::set<std::string> names;
    for (const Structure& structure : structures_of(params)) {
      CAPTURE(structure.block, structure.name);
      CHECK(names.insert(structure.block + "/" + structure.name).second);
      CHECK(structure.entry_bits() > 0);
      CHECK(structure.entries > 0);
      CHECK(structure.instances > 0);
      CHECK_FALSE(structure.law.empty());
      CHECK_FALSE(structure.writes.empty());
      CHECK((structure.kind == gpu::StructureKind::packet || !structure.reads.empty()));
    }
    CHECK(names.count("cwd/central raster state") == (central ? 1 : 0));
  }
}

TEST_CASE("accesses follow from what a run has counted", "[gpu][CWD-44]") {
  const GpuParams params;
  const std::vector<Structure> list = structures_of(params);
  Observation run("gpu3");
  run.stats.counter("gpu3.cwd.sessions", "", "").add(10);
  run.stats.counter("gpu3.cwd.ctas_launched", "", "").add(500);
  run.stats.counter("gpu3.cwd.ctas_completed", "", "").add(400);
  const gpu::Accesses trackers = accesses_of(find(list, "cwd", "resource trackers (TRT)"), run);
  CHECK(trackers.reads == 10 * 132);
  CHECK(trackers.writes == 900);
  // Over all instances of a block, whatever their numbers.
  run.stats.counter("gpu3.gpc0.gpm.cgas", "", "").add(3);
  run.stats.counter("gpu3.gpc11.gpm.cgas", "", "").add(4);
  run.stats.counter("gpu3.gpc.gpm.cgas", "", "").add(1000);
  run.stats.counter("gpu3.gpc1.gpm.cgas_of_another", "", "").add(1000);
  const gpu::Accesses ids = accesses_of(find(list, "gpm", "free CGA ids"), run);
  CHECK(ids.reads == 7);
  CHECK(ids.writes == 14);
  // Packets are counted by their type.
  run.packets[packet_kind<protocol::LaunchPacket>()] = 77;
  run.stats.counter("gpu3.cwd.link_bits", "", "").add(5000);
  const gpu::Accesses launches = accesses_of(find(list, "cwd > gpm", "launch"), run);
  CHECK(launches.writes == 77);
  CHECK(launches.bits == 5000);  // they differ in size
  CHECK(trackers.bits == (10 * 132 + 900) * 55);
  CHECK(accesses_of(find(list, "gpm > cwd", "cga_complete"), run).writes == 0);
}

}  // namespace gpu_structure_bits_test
