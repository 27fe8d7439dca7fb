// Random programs of random clusters on a few SMs: whatever happens to them, they end, and nothing of them is left.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"
#include "support/random.h"

namespace sm_cluster_random_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::dsmem_address;
using heddle::arch::FaultKind;
using heddle::arch::kNoRegister;
using heddle::arch::LaneMask;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::test::ClusterBench;
using heddle::test::dsmem;
using heddle::test::ListProgram;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

constexpr std::uint32_t kShared = 2048;
constexpr std::uint32_t kOperation = 100;  // the first

// `polite`: no CTA leaves while others still use its memory, and a sum is kept in every CTA's last 128 bytes.
struct Kernel {
  std::uint32_t ctas = 0;
  std::uint32_t warps = 0;
  bool polite = false;
  std::uint32_t added = 0;  // to every word of that sum, by each warp of the CGA
  ListProgram program{8};
};

ListProgram::Address somewhere(std::uint32_t next, std::uint32_t offset, std::uint32_t stride) {
  return [=](const Warp& w, std::uint32_t lane) {
    return dsmem_address((w.place.rank + next) % w.place.cluster_size, offset + stride * lane);
  };
}

void add_step(Kernel& kernel, Random& random, std::uint32_t& phase) {
  ListProgram& p = kernel.program;
  const std::uint32_t next = random.below(kernel.ctas);
  const std::uint32_t offset = 64 + 4 * random.below(64);
  ListProgram::Access access = dsmem();
  const LaneMask lanes = static_cast<LaneMask>(random.next());
  if (random.chance(50)) access.lanes = [lanes](const Warp&) { return lanes; };
  if (random.chance(15)) access.order = Order::release;
  switch (random.below(6)) {
    case 0:
      p.store(access, ListProgram::constant(random.next()), somewhere(next, offset, 4 * random.between(1, 9)));
      return;
    case 1:
      access.order = random.chance(20) ? Order::acquire : Order::weak;
      p.load(access, 1, somewhere(next, offset, 4 * random.between(0, 9)));
      if (random.chance(50)) p.compute(Unit::int32, 1, {{1, 1}}, {{2, 1}});
      return;
    case 2: {
      const auto destination = static_cast<std::uint16_t>(random.chance(50) ? 3 : kNoRegister);
      for (std::uint32_t cta = 0; cta < kernel.ctas; ++cta) {
        p.atomic(dsmem(), heddle::arch::AtomicKind::add, ValueType::u32, destination, ListProgram::constant(1),
                 somewhere((next + cta) % kernel.ctas, kShared - 128, 4));
      }
      ++kernel.added;
      return;
    }
    case 3:
      p.step({heddle::arch::OpCode::compute, Unit::fp32, {}, {}, {}},
             [most = random.between(1, 900)](const heddle::arch::WarpPlace& place, heddle::arch::WarpState&,
                                             heddle::arch::Operation& operation) {
               operation.count = 1 + (place.rank * 7 + place.warp * 13) * 31 % most;
             });
      return;
    case 4:
      p.cluster_arrive(random.chance(50) ? Order::release : Order::relaxed);
      if (random.chance(40)) p.compute(Unit::fp32, random.between(1, 500), {}, {});
      p.cluster_wait();
      return;
    default: {
      // Every warp arrives at the neighbour's mbarrier, with bytes that come before or after they are expected.
      const std::uint64_t early = random.chance(50) ? 64 : 0;
      if (early > 0) p.mbarrier_complete(Space::cluster, somewhere(next, 0, 0), early);
      p.mbarrier_expect(Space::cluster, somewhere(next, 0, 0), early + 128);
      p.mbarrier_complete(Space::cluster, somewhere(next, 0, 0), 128);
      p.mbarrier_arrive(Space::cluster, somewhere(next, 0, 0));
      p.mbarrier_wait(0, phase++ % 2);
      p.cluster_arrive().cluster_wait();
    }
  }
}

Kernel random_kernel(Random& random) {
  Kernel kernel;
  kernel.ctas = random.between(1, 5);
  kernel.warps = random.between(1, 4);
  kernel.polite = random.chance(70);
  ListProgram& p = kernel.program;
  p.mbarrier_init(0, kernel.warps, {{}, {}, [](const Warp& w) { return w.place.warp == 0 ? LaneMask{1} : 0; }});
  p.cluster_arrive().cluster_wait();
  std::uint32_t phase = 0;
  const std::uint32_t leaves = kernel.polite ? ~std::uint32_t{0} : random.between(0, 10);
  for (std::uint32_t step = 0; step < 12; ++step) {
    if (step == leaves) {
      p.branch(p.here() + 2, [](const Warp& w) { return w.place.rank % 2 == 0; }, {});
      p.exit();
    }
    add_step(kernel, random, phase);
  }
  if (kernel.polite) {
    p.cluster_arrive().cluster_wait();
    p.load(heddle::test::own_shared(), 1, ListProgram::linear(kShared - 128, 4));
    p.store_registers({}, 1, [](const Warp& w, std::uint32_t lane) {
      return 4096 * (8 * w.place.cluster + w.place.rank) + 4 * lane;
    });
  }
  p.exit();
  return kernel;
}

struct Launched {
  Kernel kernel;
  std::vector<std::uint32_t> where;
  bool aborted = false;
};

std::vector<Launched> launch_some(ClusterBench& bench, Random& random, std::uint32_t round) {
  std::vector<Launched> all;
  std::vector<std::uint32_t> used(bench.sms.size());  // CTA slots
  const std::uint32_t count = random.between(1, 4);
  for (std::uint32_t i = 0; i < count; ++i) {
    Launched one{random_kernel(random), {}, random.chance(25)};
    const std::uint32_t code = bench.add(one.kernel.program, 32 * one.kernel.warps, kShared, one.kernel.ctas);
    const std::uint32_t number = 8 * round + i;
    const Cycle begin = bench.domain.now() + 1 + random.below(500);
    for (std::uint32_t rank = 0; rank < one.kernel.ctas; ++rank) {
      const std::uint32_t sm = random.below(bench.sms.size());
      one.where.push_back(sm);
      auto packet = bench.packet(code, rank, used[sm]++, 20 + i, number + 1);
      packet.tag.operation = kOperation + number;
      packet.id.cga = i;
      bench.gpc.start(begin + random.below(100), sm, packet);
    }
    if (one.aborted) bench.gpc.abort(begin + random.below(4000), kOperation + number);
    all.push_back(std::move(one));
  }
  return all;
}

// What hangs, because somebody has left, is stopped from outside; then everything has to end.
std::string wrong_with(std::uint64_t seed, TimingMode mode) {
  Random random(seed);
  heddle::sm::SmParams params;
  params.memory.cluster_queue = random.between(1, 16);
  params.memory.request_queue = random.between(2, 64);
  ClusterBench bench(random.between(1, 4), params, mode, random.between(1, 16));
  bench.gpc.at_once = random.chance(50);
  bench.network.latency = random.between(0, 400);
  const bool uneven = random.chance(50);
  Random delays(seed + 1);
  bench.network.extra = [&](const heddle::protocol::DsmemPacket&, bool) { return uneven ? delays.below(300) : 0U; };
  for (std::uint32_t round = 0; round < 3; ++round) {
    const std::size_t faults = bench.faults.size();
    const std::size_t exits = bench.gpc.exits.size();
    const std::vector<Launched> all = launch_some(bench, random, round);
    heddle::test::run_until_idle();
    std::size_t ctas = 0;
    bool calm = true;
    for (const Launched& one : all) {
      ctas += one.kernel.ctas;
      calm &= one.kernel.polite && !one.aborted;
    }
    if (calm && bench.gpc.exits.size() != exits + ctas) return "it hangs";
    for (std::uint32_t i = 0; i < all.size(); ++i) bench.gpc.abort(bench.domain.now() + 1, kOperation + 8 * round + i);
    heddle::test::run_until_idle();
    if (bench.gpc.exits.size() != exits + ctas) return "a CTA has not ended";
    if (!bench.quiescent()) return "something is left";
    if (calm && bench.faults.size() != faults) return heddle::arch::text_of(bench.faults.back());
    for (std::size_t i = faults; i < bench.faults.size(); ++i) {
      if (bench.faults[i].kind != FaultKind::cta_not_present) return heddle::arch::text_of(bench.faults[i]);
    }
    for (std::uint32_t i = 0; calm && i < all.size(); ++i) {
      const Launched& one = all[i];
      for (std::uint32_t rank = 0; rank < one.kernel.ctas; ++rank) {
        const auto sum = bench.l2[one.where[rank]]->get<std::uint32_t>(4096 * (8 * i + rank) + 4 * 31);
        if (sum != one.kernel.added * one.kernel.warps * one.kernel.ctas) return "a wrong sum";
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("whatever clusters do, nothing of them is left", "[sm][CGA-06][CGA-11][CGA-12][CGA-13][CGA-14]") {
  for (const std::uint64_t seed : heddle::test::seeds(150)) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
      CAPTURE(seed, mode != TimingMode::lt);
      REQUIRE(wrong_with(seed, mode) == "");
    }
  }
}

}  // namespace sm_cluster_random_test
