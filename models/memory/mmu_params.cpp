#include "memory/mmu_params.h"

#include "common/params.h"

namespace heddle::memory {
namespace {

constexpr const char* kReach =
    "assumption: a TLB of 32 MiB reach in small pages and 1 GiB in large ones; measured reaches of GPUs are in between "
    "and above";

}  // namespace

void GpcTlbParams::describe(ParamTable<GpcTlbParams>& t) {
  t.add("entries", &GpcTlbParams::entries, {Unit::count, 1, 1'048'576}, "pages, rounded down to whole sets", kReach);
  t.add("ways", &GpcTlbParams::ways, {Unit::count, 1, 1024}, "pages of a set; all of them if there are fewer entries",
        "assumption");
  t.add("latency", &GpcTlbParams::latency, {Unit::cycles, 0, 10'000}, "that a request which hits takes longer",
        "assumption: most of the look-up is part of the way through the GPC");
  t.add("misses", &GpcTlbParams::misses, {Unit::count, 1, 65'536}, "pages that it has asked for at a time",
        "assumption: one for each SM of a GPC and some more");
  t.add("queue", &GpcTlbParams::queue, {Unit::count, 1, 65'536},
        "requests of an SM, or of its tensor memory access unit, that wait for translations", "assumption");
}

void L2TlbParams::describe(ParamTable<L2TlbParams>& t) {
  t.add("entries", &L2TlbParams::entries, {Unit::count, 1, 16'777'216}, "pages, rounded down to whole sets",
        "assumption: eight times the TLB of a GPC");
  t.add("ways", &L2TlbParams::ways, {Unit::count, 1, 1024}, "pages of a set; all of them if there are fewer entries",
        "assumption");
  t.add("latency", &L2TlbParams::latency, {Unit::cycles, 0, 10'000}, "of a look-up", "assumption");
}

void MmuParams::describe(ParamTable<MmuParams>& t) {
  t.add(
      "enabled", &MmuParams::enabled,
      "addresses of subcontexts with page tables are translated; without it there is no such block, and nothing costs "
      "time",
      "choice: most runs have one address space");
  t.group("gpc_tlb", &MmuParams::gpc_tlb);
  t.group("l2_tlb", &MmuParams::l2_tlb);
  t.add("distance", &MmuParams::distance, {Unit::cycles, 0, 100'000},
        "cycles between the TLB of a GPC, or the memory hub, and the memory management unit, each way",
        "assumption: as far as the L2");
  t.add("walkers", &MmuParams::walkers, {Unit::count, 1, 65'536}, "page table walks at a time", "assumption");
}

}  // namespace heddle::memory
