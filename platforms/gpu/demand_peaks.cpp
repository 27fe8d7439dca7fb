#include "gpu/demand_peaks.h"

#include <algorithm>
#include <set>

#include "arch/memory_op.h"
#include "memory/hbm_banks.h"

namespace heddle::gpu {
namespace {

using arch::DemandUnit;
using fluid::FluidMachine;

constexpr double kFlopsPerLane = 2;  // a multiply-add

// Operands of a matrix multiply come through the same wires: half as many where they are twice as wide, as NVIDIA's
// data sheets have it for tf32 and f8. f64 has a sixteenth there (H100: 67 of 989 Tflop/s, A100: 19.5 of 312).
constexpr double kTf32 = 0.5;
constexpr double kF8 = 2;
constexpr double kF64 = 1.0 / 16;

// The part of the time in which a channel moves data: all of its banks stand still while they are refreshed together.
double refreshed(const memory::HbmParams& params) {
  const memory::HbmTable& table = memory::table_of(params.standard);
  if (params.refresh != memory::HbmRefresh::all_bank) return 1;
  return 1 - table.rfc / (table.refi / params.refresh_rate);
}

// Bytes per nanosecond that a channel reads.
double channel_rate(const memory::HbmParams& params) {
  return memory::table_of(params.standard).pins * params.pin_rate / 8;
}

// A channel writes in batches, from its high to its low mark. Around each of them the bus is free until the data of the
// next read are there.
double write_cost(const memory::HbmParams& params) {
  const memory::HbmTable& table = memory::table_of(params.standard);
  const double idle = table.turn + table.wtr_long + table.cl;
  const double batch = (params.write_high - params.write_low) * static_cast<double>(arch::kLineBytes);
  return 1 + idle * channel_rate(params) / batch;
}

FluidMachine::Pool pool_of(const GpuParams& params, std::uint32_t slices, std::uint32_t channels, double clock) {
  const memory::L2Params& l2 = params.l2;
  const memory::CrossbarParams& xbar = params.xbar;
  const double line = arch::kLineBytes;
  FluidMachine::Pool pool;
  pool.l2_read = slices * std::min<double>(l2.bandwidth, xbar.slice_bandwidth);
  pool.l2_write =
      slices * std::min<double>(l2.write_bandwidth, xbar.slice_bandwidth * line / (line + xbar.header_bytes));
  // Lines lie in all partitions alike, and so does what crosses from one to another.
  if (l2.partitions > 1) {
    const double crossings = static_cast<double>(l2.partitions) * l2.partitions;
    pool.l2_read = std::min(pool.l2_read, xbar.crossing_bandwidth * crossings * slices / l2.slices);
  }
  pool.channels = channels;
  pool.dram = std::min(channels * channel_rate(params.hbm) * refreshed(params.hbm) / clock,
                       static_cast<double>(slices) * l2.memory_bandwidth);
  return pool;
}

// How long accesses take that have the machine to themselves.
void set_latencies(const GpuParams& params, double clock, FluidMachine& machine) {
  const memory::CrossbarParams& xbar = params.xbar;
  // Lines lie in all partitions alike.
  const double crossings = xbar.crossing * (1 - 1.0 / params.l2.partitions);
  const double ways = 2.0 * (xbar.sm_to_tpc + xbar.tpc_to_cpc + xbar.cpc_to_gpc + xbar.gpc_to_slice + crossings);
  machine.l2_latency = params.sm.memory.l1_latency + ways + params.l2.tag_latency + params.l2.data_latency;
  machine.memory_latency = machine.l2_latency + params.l2.memory_latency +
                           clock * (params.hbm.request_latency + params.hbm.response_latency);
  machine.write_latency = params.sm.memory.l1_tag_latency + ways + params.l2.tag_latency;
  const tmau::TmauParams& unit = params.tmau;
  constexpr double kLoops = 2;  // of the walk of a tile
  machine.bulk_latency = unit.input + unit.descriptor_hit + unit.setup + kLoops * unit.setup_loop + unit.generate +
                         unit.response - std::min<double>(params.sm.memory.l1_latency, unit.input);
  machine.requests = static_cast<double>(params.sm.memory.requests) * arch::kLineBytes;
  machine.bulk_requests = static_cast<double>(unit.outstanding) * arch::kLineBytes / unit.sms;
  machine.oldest_first = params.sm.issue.policy == sm::WarpPolicy::greedy_oldest;
  if (params.hbm.refresh == memory::HbmRefresh::all_bank) {
    machine.refresh = clock * memory::table_of(params.hbm.standard).rfc;
    machine.refreshing = 1 - refreshed(params.hbm);
  }
  machine.write_buffers = arch::kLineBytes * (static_cast<double>(params.hbm.channels) * params.hbm.write_queue +
                                              static_cast<double>(params.l2.slices) * params.l2.write_buffer);
  machine.begin_trips = params.sm.fetch.constant_bytes > 0 ? 1 : 0;
}

}  // namespace

FluidMachine fluid_machine(const GpuParams& params, const arch::Topology& topology, double clock) {
  const sm::IssueParams& issue = params.sm.issue;
  const memory::CrossbarParams& xbar = params.xbar;
  FluidMachine machine;
  const auto set = [&machine](DemandUnit unit, double peak) {
    machine.sm[static_cast<std::size_t>(unit)] = sm::kSubPartitions * peak;
  };
  set(DemandUnit::tensor_f16, issue.tensor_flops);
  set(DemandUnit::tensor_tf32, issue.tensor_flops * kTf32);
  set(DemandUnit::tensor_f8, issue.tensor_flops * kF8);
  set(DemandUnit::tensor_f64, issue.tensor_flops * kF64);
  set(DemandUnit::fp32, issue.fp32.lanes * kFlopsPerLane);
  set(DemandUnit::fp64, issue.fp64.lanes * kFlopsPerLane);
  set(DemandUnit::int32, issue.int32.lanes);
  set(DemandUnit::sfu, issue.sfu.lanes);
  machine.sm[static_cast<std::size_t>(DemandUnit::shared)] = arch::kLineBytes;  // its banks: a wavefront per cycle
  machine.sm_read = xbar.sm_read_bandwidth;
  machine.l1_read = xbar.l1_read_bandwidth;
  machine.sm_write = xbar.sm_bandwidth;
  machine.header = xbar.header_bytes / static_cast<double>(arch::kLineBytes);
  machine.write_cost = write_cost(params.hbm);
  machine.cycles_per_ns = clock;
  set_latencies(params, clock, machine);

  const arch::Instances& instances = params.machine.instances;
  for (std::uint32_t number = 0; number < instances.count(); ++number) {
    const auto slices = static_cast<std::uint32_t>(instances[number].slices.size());
    const auto channels = instances.channels_of(number, params.l2.slices, params.hbm.channels);
    machine.pools.push_back(pool_of(params, slices, static_cast<std::uint32_t>(channels.size()), clock));
  }
  machine.pools.push_back(pool_of(params, params.l2.slices, params.hbm.channels, clock));
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology.gpc(g);
    const double share = xbar.gpc_share(gpc.sms);
    const auto tpcs = static_cast<double>(gpc.tpcs.size());
    machine.gpcs.push_back(
        {std::min(
             {xbar.gpc_read_bandwidth * share, gpc.cpcs * xbar.cpc_read_bandwidth, tpcs * xbar.tpc_read_bandwidth}),
         std::min({xbar.gpc_bandwidth * share, gpc.cpcs * xbar.cpc_bandwidth, tpcs * xbar.tpc_bandwidth}),
         instances.of_gpc(g).value_or(instances.count())});
  }
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) machine.gpc_of.push_back(topology.sm(sm).gpc);
  return machine;
}

}  // namespace heddle::gpu
