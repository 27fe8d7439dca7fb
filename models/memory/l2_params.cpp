#include "memory/l2_params.h"

#include "arch/memory_op.h"
#include "common/params.h"

namespace heddle::memory {

// A number of bytes that does not divide evenly is rounded down to whole sets, as the last lines cannot be shared out.
std::uint32_t L2Params::lines_per_slice() const {
  const std::uint64_t sets = bytes / slices / (std::uint64_t{arch::kLineBytes} * ways);
  return static_cast<std::uint32_t>(sets == 0 ? ways : sets * ways);
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
  t.add("mshrs", &L2Params::mshrs, {Unit::count, 1, 65'535}, "lines per slice that can wait for memory at once",
        "assumption: bandwidth of the memory times its latency, twice over");
  t.add("waiters", &L2Params::waiters, {Unit::count, 1, 65'535},
        "requests per slice that can wait for such lines, the first of each line included", "assumption");
  t.add("write_buffer", &L2Params::write_buffer, {Unit::count, 1, 4096},
        "lines per slice that can be on their way back to memory at once", "assumption");
}

}  // namespace heddle::memory
