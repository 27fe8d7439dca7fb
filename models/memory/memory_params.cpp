#include "memory/memory_params.h"

#include <fmt/format.h>

#include "arch/memory_op.h"
#include "common/params.h"
#include "memory/hbm_banks.h"

namespace heddle::memory {

namespace {

constexpr const char* kReach =
    "assumption: a TLB of 32 MiB reach in small pages and 1 GiB in large ones; measured reaches of GPUs are in between "
    "and above";

}  // namespace

void HbmParams::describe(ParamTable<HbmParams>& t) {
  t.add_choice("standard", &HbmParams::standard,
               {{"hbm2e", HbmStandard::hbm2e}, {"hbm3", HbmStandard::hbm3}, {"hbm3e", HbmStandard::hbm3e}},
               "which timings, banks and widths the parts have", "NVIDIA H100 SXM data sheet: HBM3");
  t.add_choice("channels_of", &HbmParams::channels_of,
               {{"hash", HbmChannelsOf::hash}, {"slices", HbmChannelsOf::slices}},
               "whose lines a channel holds: of all slices of the L2, or of its own ones; where the numbers are no "
               "multiples, as few slices as possible share channels",
               "choice: presets of silicon say slices, as the address maps of NVIDIA's memory partitions do");
  t.add("channels", &HbmParams::channels, {Unit::count, 1, 4096}, "pseudo-channels over all stacks",
        "H100 SXM: 5 stacks; JESD238: 16 channels of two pseudo-channels each");
  t.add("pin_rate", &HbmParams::pin_rate, {Unit::none, 0.1, 100.0}, "data rate of a pin in Gbit/s",
        "H100 SXM: 3.35 TB/s over 5,120 pins");
  t.add("interleave", &HbmParams::interleave, {Unit::bytes, 128, 1024},
        "consecutive bytes that stay in one channel: a power of two", "assumption: a row");
  t.add("access_bytes", &HbmParams::access_bytes, {Unit::bytes, 32, 128},
        "least that is read or written at a time: 32, 64 or 128", "assumption: two bursts, which are two sectors");
  t.add("read_queue", &HbmParams::read_queue, {Unit::count, 1, 4096},
        "lines that a channel's scheduler looks at in order to read", "assumption");
  t.add("write_queue", &HbmParams::write_queue, {Unit::count, 2, 4096}, "the same, to write", "assumption");
  t.add("write_high", &HbmParams::write_high, {Unit::count, 1, 4096},
        "waiting writes at which a channel stops reading and writes", "assumption: three quarters of write_queue");
  t.add("write_low", &HbmParams::write_low, {Unit::count, 0, 4095}, "waiting writes at which it reads again",
        "assumption: a quarter of write_queue");
  t.add("hit_streak", &HbmParams::row_hit_cap, {Unit::count, 1, 65'536},
        "accesses that a bank serves from one row while an older access waits for another", "assumption: two rows");
  t.add("shared_streak", &HbmParams::shared_streak, {Unit::count, 1, 65'536},
        "the same at most while bandwidth is shared (PRT-11): how long a row keeps other subcontexts from their turns",
        "assumption: two lines. A streak without bound makes them wait for it: Nesbit, Aggarwal, Laudon and Smith, "
        "Fair queuing memory systems, MICRO 2006, bound it by time");
  t.add("port_requests", &HbmParams::port_requests, {Unit::count, 1, 65'536},
        "requests that a socket has open at a time", "assumption: more than an L2 slice has misses");
  t.add("request_latency", &HbmParams::request_latency, {Unit::ns, 0.0, 100'000.0},
        "time from the socket to a channel's scheduler: controller and PHY", "assumption");
  t.add("response_latency", &HbmParams::response_latency, {Unit::ns, 0.0, 100'000.0},
        "time from the end of the data to the socket: PHY and controller", "assumption: as request_latency");
  t.add_choice("refresh", &HbmParams::refresh,
               {{"off", HbmRefresh::off}, {"all_bank", HbmRefresh::all_bank}, {"per_bank", HbmRefresh::per_bank}},
               "how rows are refreshed", "assumption: the simplest that JESD238 has");
  t.add("refresh_rate", &HbmParams::refresh_rate, {Unit::none, 0.25, 4.0},
        "refreshes as a multiple of the standard's at moderate temperature; 2: hot parts", "JEDEC: 1 up to 85 degrees");
}

void HbmParams::check() const {
  const HbmTable& table = table_of(standard);
  const auto power_of_two = [](std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; };
  if (!power_of_two(interleave) || interleave > table.row_bytes) {
    throw InputError(fmt::format("hbm.interleave is {} bytes", interleave),
                     fmt::format("give a power of two from 128 to {}", table.row_bytes));
  }
  if (!power_of_two(access_bytes)) {
    throw InputError(fmt::format("hbm.access_bytes is {}", access_bytes), "give 32, 64 or 128");
  }
  if (write_low >= write_high || write_high > write_queue) {
    throw InputError(
        fmt::format("hbm.write_low, write_high and write_queue are {}, {} and {}", write_low, write_high, write_queue),
        "let write_low be less than write_high, and write_high at most write_queue");
  }
}

// A number of bytes that does not divide evenly is rounded down to whole sets, as the last lines cannot be shared out.
std::uint32_t L2Params::lines_per_slice() const {
  const std::uint64_t sets = bytes / slices / (std::uint64_t{arch::kLineBytes} * ways);
  return static_cast<std::uint32_t>(sets == 0 ? ways : sets * ways);
}

void L2Params::check() const {
  if (fetch_bytes != 32 && fetch_bytes != 64 && fetch_bytes != 128) {
    throw InputError(fmt::format("l2.fetch_bytes is {}", fetch_bytes), "give 32, 64 or 128");
  }
  if (copies == L2Copies::near && (partitions != 2 || ways < 2 || mshrs < 4 || waiters < 4)) {
    throw InputError(fmt::format("l2.copies is near, with {} partitions, {} ways, {} mshrs and {} waiters", partitions,
                                 ways, mshrs, waiters),
                     "copies need two partitions, two ways, and four of the others");
  }
}

void L2Params::describe(ParamTable<L2Params>& t) {
  t.add("bytes", &L2Params::bytes, {Unit::bytes, 128, 1ULL << 34},
        "size of the cache, all slices together; every slice has a whole number of sets, at least one (MEM-01)",
        "NVIDIA: 50 MB on H100 SXM");
  t.add("ways", &L2Params::ways, {Unit::count, 1, 64}, "ways of a set; the least recently used line goes",
        "studies of earlier NVIDIA GPUs");
  t.add("slices", &L2Params::slices, {Unit::count, 1, 4096}, "slices, a multiple of the partitions",
        "GPUNetBench: 80 to 96 on H100 SXM");
  t.add("partitions", &L2Params::partitions, {Unit::count, 1, 64}, "partitions, between which requests cross over",
        "NVIDIA: two on H100 and A100");
  t.add_choice(
      "copies", &L2Params::copies, {{"none", L2Copies::none}, {"near", L2Copies::near}},
      "whether a partition of two keeps copies of what its SMs read of the other one's lines, for which requests "
      "go to their own partition first; not in a GPU of instances",
      "choice: none; NVIDIA A100 white paper: each L2 partition caches data for memory accesses from SMs in "
      "the GPCs directly connected to it, with hardware coherence");
  t.add("tag_latency", &L2Params::tag_latency, {Unit::cycles, 0, 100'000},
        "from a request's arrival at the slice until hit or miss is known",
        "with data_latency 102 cycles: a hit in the near partition takes 258 cycles, arXiv 2501.12084v2 table 4; the "
        "division is an assumption");
  t.add("data_latency", &L2Params::data_latency, {Unit::cycles, 0, 100'000},
        "from a hit, or the arrival of a miss's sectors, until the response leaves the slice", "see tag_latency");
  t.add("memory_latency", &L2Params::memory_latency, {Unit::cycles, 0, 100'000},
        "from a miss or an eviction until its request arrives at the memory", "assumption");
  t.add("bandwidth", &L2Params::bandwidth, {Unit::bytes_per_cycle, 1, 4096},
        "bytes that a slice reads or writes per cycle for its requests",
        "two sectors; 80 slices at 1.98 GHz give 10.1 TB/s, te42kyfo/gpu-benches: 9.8 to 10.5 on H200");
  t.add("write_bandwidth", &L2Params::write_bandwidth, {Unit::bytes_per_cycle, 1, 4096},
        "bytes that the array of a slice takes in per cycle; while it does, reads go on, and the next write waits",
        "assumption: as many as bandwidth; presets of Hopper parts: fitted to writes of 4.53 TB/s on GH200");
  t.add("memory_bandwidth", &L2Params::memory_bandwidth, {Unit::bytes_per_cycle, 1, 4096},
        "bytes that a slice sends to the memory per cycle", "assumption: as fast as the other side");
  t.add("atomic_rate", &L2Params::atomic_rate, {Unit::count, 1, 32},
        "values of one request that atomics change per cycle; those of equal address one after another",
        "assumption: one sector of 32-bit values");
  t.add("queue", &L2Params::queue, {Unit::count, 1, 65'536},
        "requests that a slice holds before their tags are known, those on the way to it included", "assumption");
  t.add("responses", &L2Params::responses, {Unit::count, 1, 65'536},
        "responses that wait at the end of a slice's data pipeline while the crossbar takes none, before it stops to "
        "serve "
        "requests",
        "assumption");
  t.add("mshrs", &L2Params::mshrs, {Unit::count, 1, 32'767}, "lines per slice that can wait for memory at once",
        "assumption: bandwidth of the memory times its latency, twice over");
  t.add("waiters", &L2Params::waiters, {Unit::count, 1, 65'535},
        "requests per slice that can wait for such lines, the first of each line included", "assumption");
  t.add("write_buffer", &L2Params::write_buffer, {Unit::count, 1, 4096},
        "lines per slice that can be on their way back to memory at once", "assumption");
  t.add("eager_ways", &L2Params::eager_ways, {Unit::count, 0, 64},
        "when a dirty line leaves, those that share its row of memory are written along if they are among so many of "
        "their set that were used least recently; 0: none are. Takes effect where gpu.hbm.channels_of is slices",
        "choice: off; Stuecheli, Kaseridis, Daly, Hunter and John, The virtual write queue, ISCA 2010, take a part of "
        "the ways next to eviction");
  t.add("fetch_bytes", &L2Params::fetch_bytes, {Unit::bytes, 32, 128},
        "a miss fetches the sectors that it needs, and the others of the same aligned so many bytes: 32, 64 or 128",
        "choice: sectors alone; CUDA's cudaLimitMaxL2FetchGranularity lets programs ask for 32 to 128 bytes");
  t.add("walk_sets", &L2Params::walk_sets, {Unit::count, 1, 65'536},
        "sets that a slice looks at per cycle while it forgets what others may have changed in memory (an acquire at "
        "system scope, where the memory behind the L2 is not the GPU's own); it serves nothing else meanwhile",
        "assumption: the tags of one set, as for a request");
  t.add("limit_burst", &L2Params::limit_burst, {Unit::cycles, 1, 100'000},
        "how far a subcontext with a limit of bandwidth (PRT-11) may be ahead of its rate at a slice, as cycles of the "
        "whole bandwidth of the slice",
        "assumption: a few lines of memory, so that short pauses cost nothing");
}

void CrossbarParams::describe(ParamTable<CrossbarParams>& t) {
  const char* latency = "assumption; together they make L2 hits of 258 cycles (near)";
  t.add("sm_to_tpc", &CrossbarParams::sm_to_tpc, {Unit::cycles, 0, 100'000}, "cycles between SM and TPC, each way",
        latency);
  t.add("tpc_to_cpc", &CrossbarParams::tpc_to_cpc, {Unit::cycles, 0, 100'000}, "cycles between TPC and CPC, each way",
        latency);
  t.add("cpc_to_gpc", &CrossbarParams::cpc_to_gpc, {Unit::cycles, 0, 100'000}, "cycles between CPC and GPC, each way",
        latency);
  t.add("gpc_to_slice", &CrossbarParams::gpc_to_slice, {Unit::cycles, 0, 100'000},
        "cycles between a GPC and an L2 slice of its partition, each way", latency);
  t.add("crossing", &CrossbarParams::crossing, {Unit::cycles, 0, 100'000},
        "further cycles to a slice of another partition, each way",
        "arXiv 2501.12084v2 table 4 on H800: L2 hits of 258 cycles near, 414 far");
  const auto bandwidth = [&t](const char* name, double CrossbarParams::*member, const char* what, const char* source) {
    t.add(name, member, {Unit::bytes_per_cycle, 0.25, 1'000'000.0}, what, source);
  };
  bandwidth("sm_bandwidth", &CrossbarParams::sm_bandwidth,
            "bytes per cycle of requests and writes from an SM to its TPC", "assumption: what its loads take");
  bandwidth("sm_read_bandwidth", &CrossbarParams::sm_read_bandwidth,
            "bytes per cycle of responses from a TPC to an SM, whoever in it has asked",
            "hibouwu/CUDA_optimazation EXP-15, GH200: a tensor load brings 111 bytes per cycle; so a line");
  bandwidth("l1_read_bandwidth", &CrossbarParams::l1_read_bandwidth,
            "bytes per cycle of those that its L1 takes: data of ordinary loads, and not of bulk requests",
            "NVIDIA: 64 bytes per cycle and SM from the L2");
  bandwidth("tpc_bandwidth", &CrossbarParams::tpc_bandwidth,
            "bytes per cycle of requests and writes from a TPC to its CPC", "assumption: all that its SMs bring");
  bandwidth("tpc_read_bandwidth", &CrossbarParams::tpc_read_bandwidth,
            "bytes per cycle of responses from a CPC to a TPC", "assumption: all that the L1s of its SMs take");
  bandwidth("cpc_bandwidth", &CrossbarParams::cpc_bandwidth,
            "bytes per cycle of requests and writes from a CPC to its GPC", "assumption: all that its TPCs bring");
  bandwidth("cpc_read_bandwidth", &CrossbarParams::cpc_read_bandwidth,
            "bytes per cycle of responses from a GPC to a CPC", "assumption: all that its TPCs take");
  bandwidth("gpc_bandwidth", &CrossbarParams::gpc_bandwidth,
            "bytes per cycle of requests and writes from a GPC to the slices",
            "GPUNetBench, H100: nine SMs of a GPC, one of each TPC, write as much as nine alone");
  bandwidth(
      "gpc_read_bandwidth", &CrossbarParams::gpc_read_bandwidth,
      "bytes per cycle of responses from the slices to a GPC",
      "te42kyfo/gpu-benches on H200: 9.8 to 10.5 TB/s of L2 reads, of which 10.1 at 1.98 GHz are 696 for a GPC of 18 "
      "of 132 SMs; chosen with that measurement in view");
  t.add("copies", &CrossbarParams::copies, {Unit::per_cycle, 0.01, 64.0},
        "copies of multicasts per cycle that a GPC makes, one for each receiver, where its link comes in",
        "fitted to hibouwu/CUDA_optimazation EXP-17, GH200: clusters of 2 get 5.06 TB/s by multicast, which are 2.5 "
        "lines "
        "per cycle and GPC at 1.98 GHz, and some that start and end are lost");
  t.add("gpc_sms", &CrossbarParams::gpc_sms, {Unit::count, 0, 1024},
        "SMs of the GPC that gpc_bandwidth, gpc_read_bandwidth and copies are given for: a GPC of more or fewer has so "
        "much more or less of them; 0: every GPC has the same",
        "choice: links of a GPC are as wide as that of the largest one");
  bandwidth("crossing_bandwidth", &CrossbarParams::crossing_bandwidth,
            "bytes per cycle from one partition to another, each way", "assumption: what half of the slices deliver");
  bandwidth("slice_bandwidth", &CrossbarParams::slice_bandwidth, "bytes per cycle into an L2 slice, and out of it",
            "te42kyfo/gpu-benches on H200: 9.8 to 10.5 TB/s of L2 reads, over 80 slices at 1.98 GHz");
  t.add("queue", &CrossbarParams::queue, {Unit::count, 1, 65'536},
        "packets that wait at each input of a link, besides those that its wire holds", "assumption");
  t.add("header_bytes", &CrossbarParams::header_bytes, {Unit::bytes, 1, 1024},
        "bytes of a request without its data, and of an acknowledgement", "assumption: one 32-byte flit");
}

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
