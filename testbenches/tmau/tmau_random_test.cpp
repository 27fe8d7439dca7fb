// Thousands of requests of all kinds, many at a time, against the element-by-element oracle: every byte of memory and
// of all windows is compared.
#include <array>

#include <catch2/catch.hpp>

#include "tmau/random_tensor.h"
#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_random_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kRegion = 1 << 17;  // bytes; the first is read, those from the second on are written
constexpr std::uint32_t kRegions = 6;       // that are written, each by one request
constexpr std::uint64_t kDescriptors = (kRegions + 1) * kRegion;
constexpr std::uint64_t kMemory = (kRegions + 2) * kRegion;
constexpr std::uint32_t kArea = kWindow / 2;  // of a window, used by one request

TmauParams random_params(Random& random) {
  TmauParams params;
  params.sms = random.between(1, 4);
  params.queue = random.between(1, 6);
  params.order = static_cast<tmau::QueueOrder>(random.below(tmau::kQueueOrders));
  params.queues = static_cast<tmau::Queues>(random.below(3));
  params.descriptors = random.between(1, 6);
  params.input = random.below(20);
  params.descriptor_hit = random.below(9);
  params.setup = random.below(15);
  params.generate = random.below(25);
  params.response = random.below(25);
  for (double* rate : {&params.rate, &params.block_rate, &params.store_rate, &params.block_store_rate}) {
    *rate = 0.25 * random.between(1, 12);
  }
  params.outstanding = random.chance(50) ? 256 : random.between(1, 20);
  params.tracking = random.chance(50) ? tmau::Tracking::carried : tmau::Tracking::table;
  params.table = random.between(1, 40);
  // Boxes lie anywhere, and filter positions too: what then happens is defined.
  params.shared_alignment = params.empty_box = params.base_outside = tmau::RuleAction::report;
  params.prefetch = random.chance(50) ? tmau::PrefetchUnit::line : tmau::PrefetchUnit::sector;
  return params;
}

// One round: requests whose effects do not meet, so that their order does not matter.
class Round {
 public:
  Round(TmauBench& bench, Random& random) : bench_(bench), random_(random), memory_(bench.memory.bytes) {
    for (const auto& sm : bench.sms) windows_.push_back(sm->windows);
    for (std::uint32_t sm = 0; sm < bench.sms.size(); ++sm) {
      for (std::uint32_t area = 0; area < 2 * kWindows; ++area) free_.push_back({sm, area / 2, area % 2 * kArea});
    }
    random.shuffle(free_);
  }

  void draw(Cycle begin) {
    begin_ = begin;
    if (random_.chance(60)) multicast();
    while (!free_.empty()) {
      const Area area = take();
      if (random_.chance(10)) extra(area);
      one(area);
    }
  }
  void check() {
    CHECK((bench_.memory.bytes == memory_));
    for (std::uint32_t sm = 0; sm < windows_.size(); ++sm) {
      CAPTURE(sm);
      CHECK((bench_.sms[sm]->windows == windows_[sm]));
    }
    for (const auto& [id, kind] : ends_) {
      CAPTURE(id);
      CHECK(bench_.done(id).packet.kind == kind);
    }
    bench_.check_over();
  }
  std::size_t requests() const { return ends_.size(); }

 private:
  struct Area {
    std::uint32_t sm = 0;
    std::uint32_t window = 0;
    std::uint32_t offset = 0;
  };

  Area take() {
    const Area area = free_.back();
    free_.pop_back();
    return area;
  }
  std::uint64_t new_region() { return ++regions_ * kRegion; }

  RandomBox box_at(std::uint64_t region, const Area& area) {
    TensorRange range;
    range.memory = kRegion;
    RandomTensor draw(random_, range);
    RandomBox box = draw();
    box.descriptor.address += region;
    box.shared += area.offset;
    return box;
  }
  std::uint64_t describe(const arch::TensorDescriptor& descriptor) {
    const std::uint64_t address = kDescriptors + 192 * described_++;
    bench_.put_descriptor(address, descriptor);
    memory_ = patched(address, descriptor);
    return address;
  }
  Bytes patched(std::uint64_t address, const arch::TensorDescriptor& descriptor) {
    const auto encoded = arch::encode(descriptor);
    std::copy(encoded.begin(), encoded.end(), memory_.begin() + static_cast<std::ptrdiff_t>(address));
    return std::move(memory_);
  }
  static BulkRequest request_of(BulkKind kind, std::uint64_t descriptor, const RandomBox& box) {
    BulkRequest request = tensor(kind, descriptor, box.coordinates, box.shared);
    request.offsets = box.offsets;
    return request;
  }
  void ask(const BulkRequest& request, const Area& area, DoneKind end = DoneKind::complete,
           TensorRule broken = TensorRule::none) {
    const std::uint32_t id = bench_.ask(begin_ + random_.below(400), request, area.sm, [&](auto& packet) {
      packet.cta_slot = heddle::protocol::CtaSlot(area.window);
      packet.broken = broken;
    });
    ends_.emplace_back(id, end);
  }

  // Into the first half of window 0 of all SMs: their areas are no longer free.
  void multicast() {
    const auto reserved = [](const Area& area) { return area.window == 0 && area.offset == 0; };
    free_.erase(std::remove_if(free_.begin(), free_.end(), reserved), free_.end());
    const auto sms = static_cast<std::uint32_t>(bench_.sms.size());
    const RandomBox box = box_at(0, {});
    BulkRequest request = request_of(BulkKind::load, describe(box.descriptor), box);
    request.multicast = static_cast<std::uint16_t>(random_.between(1, (1U << sms) - 1));
    for (std::uint32_t sm = 0; sm < sms; ++sm) {
      if ((request.multicast >> sm & 1) != 0) load(box, {sm, 0, 0});
    }
    ask(request, {random_.below(sms), 0, 0});
  }
  void load(const RandomBox& box, const Area& area) {
    reference_load(box.descriptor, box.coordinates, box.offsets, box.shared, memory_, windows_[area.sm][area.window]);
  }

  // Has no effect, or none beside the order.
  void extra(const Area& area) {
    switch (random_.below(4)) {
      case 0:
        return ask(of_kind(BulkKind::drain), area);
      case 1:
        return ask(block_load(16, 0, 0), area);
      case 2: {
        const RandomBox box = box_at(0, area);
        return ask(request_of(BulkKind::prefetch, describe(box.descriptor), box), area);
      }
      default:
        return ask(block_load(0, 8, area.offset), area, DoneKind::dropped, TensorRule::receivers);
    }
  }

  void one(const Area& area) {
    const bool writes = regions_ < kRegions;
    switch (random_.below(writes ? 8 : 3)) {
      case 0:
      case 1: {
        const RandomBox box = box_at(0, area);
        load(box, area);
        return ask(request_of(BulkKind::load, describe(box.descriptor), box), area);
      }
      case 2:
        return load_block(area);
      case 3:
        return store_block(area);
      case 4:
        return copy(area);
      case 5:
        return send(area);
      default:
        return store_box(area);
    }
  }
  void load_block(const Area& area) {
    const std::uint64_t blocks = random_.between(1, 300);
    const std::uint64_t from = 16 * random_.below(kRegion / 16 - blocks);
    const std::uint32_t to = area.offset + 16 * random_.below(kArea / 16 - blocks);
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(from), 16 * blocks,
                windows_[area.sm][area.window].begin() + to);
    ask(block_load(from, blocks, to), area);
  }
  void store_block(const Area& area) {
    const std::uint64_t blocks = random_.between(1, 300);
    const std::uint64_t to = new_region() + 16 * random_.below(kRegion / 16 - blocks);
    const std::uint32_t from = area.offset + 16 * random_.below(kArea / 16 - blocks);
    std::copy_n(windows_[area.sm][area.window].begin() + from, 16 * blocks,
                memory_.begin() + static_cast<std::ptrdiff_t>(to));
    ask(block_store(from, to, blocks), area);
  }
  void copy(const Area& area) {
    BulkRequest request = of_kind(BulkKind::copy);
    request.blocks = random_.between(1, 300);
    request.global = 16 * random_.below(kRegion / 16 - request.blocks);
    request.to = new_region() + 16 * random_.below(kRegion / 16 - request.blocks);
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(request.global), 16 * request.blocks,
                memory_.begin() + static_cast<std::ptrdiff_t>(request.to));
    ask(request, area);
  }
  void send(const Area& area) {
    if (free_.empty()) return;
    const Area to = take();
    BulkRequest request = of_kind(BulkKind::send);
    request.blocks = random_.between(1, 300);
    request.shared = area.offset + 16 * random_.below(kArea / 16 - request.blocks);
    request.destination = to.offset + 16 * random_.below(kArea / 16 - request.blocks);
    request.data_cta = to.sm + to.window * static_cast<std::uint32_t>(bench_.sms.size());
    std::copy_n(windows_[area.sm][area.window].begin() + request.shared, 16 * request.blocks,
                windows_[to.sm][to.window].begin() + request.destination);
    ask(request, area);
  }
  void store_box(const Area& area) {
    const RandomBox box = box_at(new_region(), area);
    const Bytes& window = windows_[area.sm][area.window];
    const auto kind = static_cast<arch::AtomicKind>(random_.below(10));
    const bool reduces =
        random_.chance(50) && arch::reduction_exists(kind, arch::value_type(box.descriptor.type), false);
    BulkRequest request = request_of(reduces ? BulkKind::reduce : BulkKind::store, describe(box.descriptor), box);
    request.reduction = kind;
    if (reduces) {
      reference_reduce(kind, box.descriptor, box.coordinates, box.offsets, box.shared, window, memory_);
    } else {
      reference_store(box.descriptor, box.coordinates, box.offsets, box.shared, window, memory_);
    }
    ask(request, area);
  }

  TmauBench& bench_;
  Random& random_;
  Bytes memory_;                             // as it has to be afterwards
  std::vector<std::vector<Bytes>> windows_;  // the same
  std::vector<Area> free_;
  std::uint32_t regions_ = 0;
  std::uint32_t described_ = 0;
  Cycle begin_ = 0;
  std::vector<std::pair<std::uint32_t, DoneKind>> ends_;
};

TimingMode mode_of(std::uint64_t seed) {
  constexpr std::array<TimingMode, 3> kModes{TimingMode::lt, TimingMode::at, TimingMode::fast};
  return kModes[seed % kModes.size()];
}

}  // namespace

TEST_CASE("requests of all kinds at once do what each has to do",
          "[tmau][TMA-01][TMA-03][TMA-10][TMA-11][TMA-13][TMA-15][TMA-20][TMA-30][TMA-31][TMA-40]") {
  std::size_t requests = 0;
  for (const std::uint64_t seed : seeds(24)) {
    CAPTURE(seed);
    Random random(seed);
    const TmauParams params = random_params(random);
    const std::uint32_t sms = random.between(1, 5);
    TmauBench bench(sms, params, mode_of(seed), kMemory);
    bench.memory.gives_lines = seed % 2 == 0;
    bench.fill_memory(seed);
    bench.fill_windows(seed + 1);
    bench.memory.ahead = random.below(3) * 15;
    if (random.chance(70)) bench.memory.latency = [&](std::uint64_t) { return Cycle{random.between(20, 300)}; };
    if (random.chance(40)) bench.memory.hold = [&] { return Cycle{random.chance(30) ? random.between(1, 9) : 0}; };
    for (auto& sm : bench.sms) sm->read_cycles = [&] { return Cycle{random.between(1, 40)}; };
    for (std::uint32_t round = 0; round < 12; ++round) {
      CAPTURE(round);
      const Cycle begin = bench.domain.now();
      for (std::uint32_t sm = 0; sm < sms; ++sm) (void)bench.ask(begin, of_kind(BulkKind::forget), sm);
      bench.run();
      Round one(bench, random);
      one.draw(bench.domain.now() + 1);
      bench.run();
      one.check();
      requests += one.requests();
      bench.forget_asked();
    }
    for (auto& sm : bench.sms) sm->done.clear();
  }
  CHECK(requests > 2500);
}

TEST_CASE("errors anywhere lose their own pieces, and nothing else", "[tmau][TMA-06][TMA-31][TMA-41]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    const TmauParams params = random_params(random);
    const std::uint32_t sms = random.between(1, 4);
    TmauBench bench(sms, params, mode_of(seed));
    bench.memory.gives_lines = seed % 2 == 0;
    bench.fill_memory(seed);
    bench.fill_windows(seed);
    bench.memory.ahead = random.below(3) * 15;
    bench.memory.latency = [&](std::uint64_t) { return Cycle{random.between(20, 300)}; };
    bench.memory.error = [&](std::uint64_t line) { return scramble(line * 31 + seed) % 40 == 0; };
    for (auto& sm : bench.sms) {
      sm->bad = [seed](const protocol::BulkTarget& target) { return scramble(target.piece.address + seed) % 40 == 0; };
    }
    struct Asked {
      std::uint32_t id;
      BulkRequest request;
    };
    std::vector<Asked> asked;
    for (std::uint32_t i = 0; i < 60; ++i) {
      const auto kind = static_cast<BulkKind>(random.below(8));
      BulkRequest request = of_kind(kind);
      request.blocks = random.between(1, 100);
      request.global = 16 * random.below(4000);
      request.to = 0x40000 + 16 * random.below(4000);
      if (kind == BulkKind::store || kind == BulkKind::reduce) request.global += 0x80000;
      request.shared = 16 * random.below(900);
      request.destination = 16 * random.below(900);
      if (kind == BulkKind::load && random.chance(50)) {
        request.multicast = static_cast<std::uint16_t>(random.between(1, (1U << sms) - 1));
      }
      asked.push_back({bench.ask(random.below(500), request, random.below(sms)), request});
    }
    bench.run();
    for (const Asked& one : asked) {
      CAPTURE(one.id, arch::bulk_name(one.request.kind));
      const auto& end = bench.done(one.id).packet;
      if (one.request.kind == BulkKind::load) {
        bool failed = false;
        const std::uint64_t begin = one.request.global;
        for (std::uint64_t line = arch::line_of(begin); line < begin + 16 * one.request.blocks; line += 128) {
          failed = failed || bench.memory.error(line);
        }
        CHECK(end.kind == (failed ? DoneKind::failed : DoneKind::complete));
        if (failed) {
          CHECK(bench.memory.error(arch::line_of(end.address)));
          CHECK(end.address >= begin);
          CHECK(end.address < begin + 16 * one.request.blocks);
        }
      } else if (one.request.kind == BulkKind::prefetch) {
        CHECK(end.kind == DoneKind::complete);
      }
    }
    bench.check_over();
  }
}

}  // namespace tmau_random_test
