// Structures in bits, worked by hand from the widths of the specification, and their accesses.
#include "gpu/structure_bits.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "common/packet_port.h"
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
}

TEST_CASE("the registers of the distributor follow from what an SM holds", "[gpu][CWD-44][CWD-18]") {
  const GpuParams params;
  const std::vector<Structure> list = structures_of(params);
  // 0 to 32 free slots: 6 bits.
  CHECK(find(list, "gpc2sm", "free-slot registers").bits() == 132 * 6);
  CHECK(find(list, "gpc2sm", "launch-slot registers").bits() == 132 * 6);
  // 64 warps, 2048 threads, 256 x 256 registers, 1824 granules, 32 CTAs, 512 barriers.
  const Structure& trackers = find(list, "cwd", "resource trackers (TRT)");
  CHECK(trackers.instances == 66);
  CHECK(trackers.bits() == 132 * (7 + 12 + 9 + 11 + 6 + 10));
  CHECK(find(list, "cwd", "TPC enable table").bits() == 66);
  CHECK(find(list, "cwd", "local-memory block index table").bits() == 64 * 66 * (1 + 7));
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
      CHECK((structure.kind != gpu::StructureKind::packet || !structure.writes.empty()));
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
