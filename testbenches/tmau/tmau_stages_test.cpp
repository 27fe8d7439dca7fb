// The unit: what is seen of its stages in both modes, and what its line requests carry.
#include <algorithm>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_stages_test {

using namespace heddle;
using namespace heddle::test;

namespace {

double mean_cycles(const TmauBench& bench) { return bench.observation.stats.value("gpu0.gpc0.tmau0.cycles.mean"); }

}  // namespace

TEST_CASE("in lt mode the stages cost nothing, and memory what it costs", "[tmau][TMA-03]") {
  TmauBench bench(1, stage_costs(), TimingMode::lt);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  bench.memory.latency = [](std::uint64_t) { return Cycle{200}; };
  const std::uint32_t block = bench.ask(10, block_load(0x1230, 1, 64));
  bench.run();
  CHECK(bench.sms[0]->data.at(0).cycle == 10 + 200);
  CHECK(bench.cycle_of(block) == 10 + 200);
  const std::uint32_t box = bench.ask(1000, tensor(BulkKind::load, kDescriptor, {4, 2}, 128));
  bench.run();
  CHECK(bench.cycle_of(box) == 1000 + 200 + 200);  // the descriptor, then the line
  bench.check_over();
}

TEST_CASE("the cycles of requests begin in the unit and end with their completion", "[tmau]") {
  TmauBench bench(1, stage_costs());
  (void)bench.ask(0, block_load(0, 1, 0));
  bench.run();
  CHECK(mean_cycles(bench) == 17 + 100 + 23);
  bench.memory.latency = [](std::uint64_t) { return Cycle{1000}; };
  (void)bench.ask(1000, block_load(0, 1, 0));
  bench.run();
  CHECK(mean_cycles(bench) == 17 + (100 + 1000) / 2 + 23);
}

TEST_CASE("the look-up is occupied until the set-up begins", "[tmau][TMA-03][TMA-04]") {
  // The look-up of the third one begins in cycle 2003 + 5 + 11, when the set-up of the second one does.
  const Cycle begin = 2003 + 5 + 11;
  const bool before = GENERATE(false, true);
  TmauBench bench(1, stage_costs());
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  for (std::uint32_t i = 0; i < 3; ++i) (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 16 * i));
  (void)bench.ask(begin - 3 + (before ? -1 : 1), of_kind(BulkKind::forget));
  bench.run();
  CHECK(bench.stat("descriptor.hits") == (before ? 2 : 3));
  CHECK(bench.stat("descriptor.misses") == (before ? 2 : 1));
  CHECK(bench.stat("stage.queue") == begin - 2003);
  bench.check_over();
}

TEST_CASE("cycles in which something waits count once, whatever the order", "[tmau][TMA-03]") {
  const auto order = GENERATE(tmau::QueueOrder::fifo, tmau::QueueOrder::blocks_first, tmau::QueueOrder::smallest_first);
  const std::uint32_t sms = GENERATE(1U, 2U);
  TmauParams params = stage_costs();
  params.sms = 2;
  params.order = order;
  params.outstanding = 1;
  TmauBench bench(sms, params);
  // Lines leave every 100 cycles, from 20 on. Of seven requests of an SM five are in the stages at once; of the others,
  // in either order, one follows with the first line of the SM and one with its second.
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    for (std::uint32_t i = 0; i < 6; ++i) (void)bench.ask(0, block_load(128 * i, 8, 128 * i), sm);
    (void)bench.ask(0, block_load(0, 4, 1024), sm);
  }
  bench.run();
  // The second SM has its turn when the first one has none left.
  const Cycle second_line = sms == 1 ? 120 : 120 + 7 * 100;
  CHECK(bench.stat("stage.queue") == second_line - 3);
  CHECK(bench.stat("requests.load") == 7 * sms);
  bench.check_over();
}

TEST_CASE("with queues of their own, blocks do not wait for the descriptor of a tensor", "[tmau][TMA-44]") {
  const auto queues = GENERATE(tmau::Queues::one, tmau::Queues::by_kind);
  TmauParams params = stage_costs();
  params.queues = queues;
  TmauBench bench(1, params);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
  bench.memory.latency = [](std::uint64_t address) { return Cycle{address == kDescriptor ? 5000U : 100U}; };
  const std::uint32_t box = bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}, 1024));
  const std::uint32_t second = bench.ask(1, tensor(BulkKind::load, kDescriptor, {0, 4}, 2048));
  const std::uint32_t block = bench.ask(2, block_load(0, 8, 0));
  bench.run();
  CHECK(bench.cycle_of(box) > 5000);
  CHECK(bench.cycle_of(second) > bench.cycle_of(box));
  if (queues == tmau::Queues::one) {
    CHECK(bench.cycle_of(block) > 5000);
  } else {
    CHECK(bench.cycle_of(block) == 2 + 3 + 17 + 100 + 23 + 1);
  }
  bench.check_over();
}

TEST_CASE("tensors and blocks of one SM take turns with the generator", "[tmau][TMA-44][TMA-43]") {
  TmauParams params = stage_costs();
  params.queues = tmau::Queues::by_kind;
  params.turn = 4;
  TmauBench bench(1, params);
  arch::TensorDescriptor matrix = matrix_at(0x1000, 32, 64, 32, 32);
  BulkRequest box = tensor(BulkKind::load, 0, {0, 0}, 4096);
  box.parameters = std::make_shared<const arch::TensorDescriptor>(matrix);
  (void)bench.ask(0, box);
  (void)bench.ask(20, block_load(0x20000, 128, 0));  // 16 lines; the box has 32
  bench.run();
  // From the block's first line on, four of each.
  std::vector<bool> block;
  for (const auto& seen : bench.memory.seen) block.push_back(seen.address >= 0x20000);
  REQUIRE(block.size() == 48);
  const auto first = std::find(block.begin(), block.end(), true);
  std::uint32_t changes = 0;
  for (auto at = first + 1; at != block.end(); ++at) changes += *at != *(at - 1) ? 1 : 0;
  CHECK(changes >= 6);
  bench.check_over();
}

TEST_CASE("a load waits for a prefetch before it, unless prefetches have a line of their own",
          "[tmau][TMA-42][TMA-43]") {
  const auto queues = GENERATE(tmau::Queues::one, tmau::Queues::by_kind, tmau::Queues::prefetches_apart);
  TmauParams params = stage_costs();
  params.queues = queues;
  params.turn = 4;
  params.block_rate = 0.5;
  TmauBench bench(1, params);
  BulkRequest prefetch = block_load(0x10000, 8 * 512, 0);  // of 512 lines
  prefetch.kind = BulkKind::prefetch;
  prefetch.barrier = std::nullopt;
  (void)bench.ask(0, prefetch);
  const std::uint32_t block = bench.ask(2, block_load(0, 8, 0));
  bench.run();
  if (queues == tmau::Queues::prefetches_apart) {
    CHECK(bench.cycle_of(block) < 200);
  } else {
    CHECK(bench.cycle_of(block) > 2 * 512);
  }
  CHECK(bench.memory.seen.size() == 513);
  bench.check_over();
}

TEST_CASE("the order may hold types together, or memories", "[tmau][TMA-44][TMA-03]") {
  const auto order =
      GENERATE(tmau::QueueOrder::fifo, tmau::QueueOrder::same_type_first, tmau::QueueOrder::same_space_first);
  const bool cached = GENERATE(false, true);
  TmauParams params = stage_costs();
  params.order = order;
  params.stages = 1;
  TmauBench bench(1, params);
  // The type is known from the request, or from a descriptor that is in the cache.
  const auto ask = [&](Cycle cycle, BulkKind kind, arch::TensorType type, std::uint64_t index) {
    arch::TensorDescriptor d = matrix_at(0x1000 * index, 32, 64, 32, 1);
    d.type = type;
    BulkRequest request = tensor(kind, kDescriptor + 128 * index, {0, 0}, 1024);
    if (!cached) {
      request.parameters = std::make_shared<const arch::TensorDescriptor>(d);
      return bench.ask(2000 + cycle, request);
    }
    bench.put_descriptor(request.descriptor, d);
    BulkRequest fetch = of_kind(BulkKind::fetch);
    fetch.tensor = true;
    fetch.descriptor = request.descriptor;
    (void)bench.ask(200 * index, fetch);
    return bench.ask(2000 + cycle, request);
  };
  using arch::TensorType;
  // The first is in the stages when the others come.
  std::vector<std::uint32_t> ids{ask(0, BulkKind::load, TensorType::f32, 1)};
  ids.push_back(ask(1, BulkKind::store, TensorType::u32, 2));
  ids.push_back(ask(2, BulkKind::load, TensorType::u32, 3));
  ids.push_back(ask(3, BulkKind::store, TensorType::f32, 4));
  bench.run();
  std::vector<std::pair<Cycle, std::uint32_t>> first;
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    const bool load = i % 2 == 0;
    first.emplace_back(load ? bench.cycle_of(ids[i]) - 100 - 23 - 1 : bench.read_of(ids[i])->cycle - 5, i);
  }
  std::sort(first.begin(), first.end());
  std::vector<std::uint32_t> served;
  for (const auto& [cycle, index] : first) served.push_back(index);
  const std::vector<std::uint32_t> by_type{0, 3, 1, 2};
  const std::vector<std::uint32_t> by_space{0, 2, 1, 3};
  CHECK(served == (order == tmau::QueueOrder::fifo              ? std::vector<std::uint32_t>{0, 1, 2, 3}
                   : order == tmau::QueueOrder::same_type_first ? by_type
                                                                : by_space));
  bench.check_over();
}

TEST_CASE("queues that are empty in between do not count", "[tmau][TMA-03]") {
  TmauParams params = stage_costs();
  params.outstanding = 1;
  TmauBench bench(1, params);
  for (const Cycle from : {Cycle{0}, Cycle{5000}}) {
    for (std::uint32_t i = 0; i < 6; ++i) (void)bench.ask(from, block_load(128 * i, 8, 128 * i));
  }
  bench.run();
  CHECK(bench.stat("stage.queue") == 2 * 17);
  bench.check_over();
}

TEST_CASE("after a reset the rate begins anew", "[tmau][TMA-16]") {
  TmauParams params = stage_costs();
  plain_costs(params, 1.0 / 64);
  TmauBench bench(1, params);
  (void)bench.ask(0, block_load(0, 64, 0));
  bench.run(30);  // lines have left, and the next one may not yet
  REQUIRE_FALSE(bench.memory.seen.empty());
  bench.domain.reset();  // now is cycle 0
  bench.forget_asked();
  (void)bench.ask(0, block_load(0, 16, 0));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 2);
  CHECK(bench.memory.seen[0].cycle == 3 + 17);
  CHECK(bench.memory.seen[1].cycle == 3 + 17 + 64);
  bench.check_over();
}

TEST_CASE("a unit that has been reset does what a new one does, in the same cycles", "[tmau][TMA-03][TMA-04]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  // What has left for memory, and when.
  const auto lines_of = [](TmauBench& bench) {
    std::vector<std::pair<std::uint64_t, Cycle>> lines;
    bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
    (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
    (void)bench.ask(0, block_store(0, 0x4000, 16));
    bench.run();
    for (const auto& seen : bench.memory.seen) lines.emplace_back(seen.address, seen.cycle);
    bench.check_over();
    return lines;
  };
  std::vector<std::pair<std::uint64_t, Cycle>> of_new;
  {
    TmauBench bench(1, stage_costs(), mode);
    of_new = lines_of(bench);
    REQUIRE(of_new.size() == 1 + 4 + 2);  // the descriptor, too
  }
  for (const Cycle when : {1, 25, 60, 130, 140, 5000}) {
    CAPTURE(when);
    TmauBench bench(1, stage_costs(), mode);
    bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
    (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
    (void)bench.ask(0, block_store(0, 0x4000, 16));
    bench.run(when);
    bench.domain.reset();
    bench.forget_asked();
    CHECK(lines_of(bench) == of_new);
  }
}

TEST_CASE("line requests carry where their data go, or an index of a table", "[tmau][TMA-15]") {
  const bool table = GENERATE(false, true);
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauParams params = stage_costs();
  params.tracking = table ? tmau::Tracking::table : tmau::Tracking::carried;
  params.carried_bytes = 24;
  TmauBench bench(1, params, mode);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  (void)bench.ask(0, block_store(0, 0x4000, 16));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 1 + 4 + 2);
  for (const auto& seen : bench.memory.seen) {
    CAPTURE(seen.address);
    const bool descriptor = seen.address == kDescriptor;
    CHECK(seen.carried == (descriptor ? 0 : table ? 1 : 24));
  }
  bench.check_over();
}

TEST_CASE("an index has the bytes that the table needs, and is looked up when data come", "[tmau][TMA-15][TMA-44]") {
  const std::uint32_t entries = GENERATE(1U, 256U, 257U, 65'536U, 65'537U);
  TmauParams params = stage_costs();
  params.tracking = tmau::Tracking::table;
  params.table = entries;
  params.table_latency = 9;
  TmauBench bench(1, params);
  const std::uint32_t load = bench.ask(0, block_load(0, 1, 0));
  bench.run();
  CHECK(bench.memory.seen.at(0).carried == (entries <= 256 ? 1 : entries <= 65'536 ? 2 : 3));
  CHECK(bench.cycle_of(load) == 3 + 17 + 100 + 9 + 23 + 1);
  CHECK(bench.sms[0]->data.at(0).cycle == 3 + 17 + 100 + 9 + 23);
  bench.check_over();
}

TEST_CASE("multicasts carry everything: other units have no table for them", "[tmau][TMA-15][TMA-30]") {
  TmauParams params = stage_costs();
  params.tracking = tmau::Tracking::table;
  params.carried_bytes = 24;
  TmauBench bench(2, params);
  BulkRequest request = block_load(0, 1, 0);
  request.multicast = 3;
  (void)bench.ask(0, request);
  bench.run();
  CHECK(bench.memory.seen.at(0).carried == 24);
  bench.check_over();
}

TEST_CASE("line requests name the SM by its number in the machine", "[tmau][TMA-03]") {
  TmauParams params = stage_costs();
  params.sms = 2;
  TmauBench bench(4, params, TimingMode::at, 1 << 20, 40);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}), sm);
    (void)bench.ask(0, block_store(0, 0x4000, 16), sm);
  }
  bench.run();
  std::array<std::uint32_t, 4> lines{};
  for (const auto& seen : bench.memory.seen) {
    CHECK(seen.id == 40 + seen.sm);
    ++lines[seen.sm];
  }
  for (const std::uint32_t count : lines) CHECK(count >= 4 + 2);
  bench.check_over();
}

TEST_CASE("data come with the CTA, warp and launch of their request", "[tmau][TMA-15][TMA-30]") {
  const bool box = GENERATE(false, true);
  const bool by_rank = GENERATE(false, true);
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(2, stage_costs(), mode);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 4));
  const auto change = [](protocol::BulkRequestPacket& packet) {
    packet.cta = 77;
    packet.warp = heddle::protocol::WarpSlot(5);
    packet.cta_slot = heddle::protocol::CtaSlot(1);
    packet.cga_id = heddle::protocol::CgaId(6);
    packet.rank = 3;
    packet.sequence = 99;
  };
  BulkRequest load = box ? tensor(BulkKind::load, kDescriptor, {0, 0}) : block_load(0x1000, 8, 0);
  load.barrier = 40;
  if (by_rank) load.multicast = 0b11;
  (void)bench.ask(0, load, 1, change);
  BulkRequest store = box ? tensor(BulkKind::store, kDescriptor, {0, 0}) : block_store(0, 0x1000, 8);
  (void)bench.ask(0, store, 1, change);
  bench.run();
  CHECK(bench.sms[0]->targets.empty() == !by_rank);
  CHECK(bench.sms[1]->targets.size() == 2 * (box ? 4 : 1));
  for (const auto& sm : bench.sms) {
    for (const protocol::BulkTarget& target : sm->targets) {
      CHECK(target.cta == 77);
      CHECK(target.warp == 5);
      CHECK(target.cta_slot == 1);
      CHECK(target.cga_id == 6);
      CHECK(target.rank == 3);
      CHECK(target.sequence == 99);
      CHECK(target.unit == 1);
      CHECK(target.tensor == box);
    }
  }
  bench.check_over();
}

TEST_CASE("a kernel does not use descriptors from before it began, and leaves them to others", "[tmau][TMA-04]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(9);
  // Of a kernel that began at `begin`.
  const auto load = [&](Cycle cycle, std::uint32_t to, Cycle begin) {
    const BulkRequest box = tensor(BulkKind::load, kDescriptor, {0, 0}, to);
    (void)bench.ask(cycle, box, 0, [begin](protocol::BulkRequestPacket& packet) { packet.descriptors_from = begin; });
    bench.run();
  };
  const auto came_from = [&](std::uint32_t to, std::uint64_t address) {
    const auto begin = bench.sms[0]->windows[0].begin() + to;
    return std::equal(begin, begin + 16, bench.memory.bytes.begin() + static_cast<std::ptrdiff_t>(address));
  };
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  load(100, 0, 50);
  bench.put_descriptor(kDescriptor, matrix_at(0x2000, 64, 64, 4, 1));
  load(2000, 128, 50);
  CHECK(came_from(128, 0x1000));  // as cached
  load(4000, 256, 3000);          // a new kernel fetches it anew
  CHECK(came_from(256, 0x2000));
  bench.put_descriptor(kDescriptor, matrix_at(0x3000, 64, 64, 4, 1));
  load(6000, 384, 3000);
  CHECK(came_from(384, 0x2000));
  load(8000, 512, 50);  // the old one is not made to fetch: it has what is cached
  CHECK(came_from(512, 0x2000));
  CHECK(bench.stat("descriptor.misses") == 2);
  CHECK(bench.stat("descriptor.hits") == 3);
  bench.check_over();
}

}  // namespace tmau_stages_test
