// Bulk data, stores and sends of many CTAs on three SMs at once, after any delay: what lies in shared memory at the
// end, what mbarriers have counted, and that everything is answered once.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"
#include "sm/bulk_oracle.h"
#include "sm/memory_cluster_bench.h"
#include "support/random.h"

namespace sm_memory_bulk_random_test {

using namespace heddle;
using namespace heddle::test;
using protocol::MemoryRequest;

namespace {

constexpr heddle::protocol::CgaId kCga(40);
constexpr std::uint32_t kCtas = 7;
constexpr std::uint32_t kSms = 3;
constexpr std::uint32_t kBytes = 24'576;
constexpr std::uint32_t kBarrier = 16;
constexpr std::uint32_t kSums = 256;      // u32, 32 of them
constexpr std::uint32_t kSource = 1'024;  // 4 KiB that nobody writes
constexpr std::uint32_t kSlots = 8'192;   // 128 bytes each, written once
constexpr std::uint32_t kSlotCount = (kBytes - kSlots) / 128;

struct Cta {
  std::uint32_t sm = 0;
  std::uint32_t window = 0;
  std::uint32_t next = 0;  // slot
  std::uint32_t expected = 0;
  std::vector<std::uint8_t> bytes;
};

class Play {
 public:
  Play(std::uint64_t seed, TimingMode mode) : random_(seed), bench_(shape(random_, mode)) {
    bench_.network.delay = [this](std::uint32_t, std::uint32_t) { return random_.between(1, 300); };
    std::array<std::uint32_t, kSms> windows{};
    for (std::uint32_t rank = 0; rank < kCtas; ++rank) {
      Cta& cta = ctas_[rank];
      cta.sm = random_.below(kSms);
      cta.window = windows[cta.sm]++;
      bench_.place(kCga, rank, kCtas, cta.sm, cta.window, kBytes);
      cta.bytes.resize(kBytes);
      for (std::uint32_t i = kSums; i < kSlots; ++i) cta.bytes[i] = static_cast<std::uint8_t>(random_.next());
      std::memcpy(memory(cta).data(cta.window), cta.bytes.data(), kBytes);
    }
    set_barriers(0);
    start();
  }

  void run(std::uint32_t operations) {
    for (std::uint32_t i = 0; i < operations; ++i) {
      const std::uint32_t kind = random_.below(4);
      if (kind == 0) load();
      if (kind == 1) store();
      if (kind >= 2) send(kind == 3);
      if (random_.chance(60)) advance();
    }
    run_until_idle();
  }

  void judge() {
    for (Cta& cta : ctas_) {
      const arch::Mbarrier barrier = arch::decode(memory(cta).word(cta.window, kBarrier));
      // Its one phase waits for an arrival that never comes.
      CHECK(barrier.tx == -static_cast<std::int32_t>(cta.expected));
      std::memcpy(cta.bytes.data() + kBarrier, memory(cta).data(cta.window) + kBarrier, 8);
      CHECK(std::memcmp(memory(cta).data(cta.window), cta.bytes.data(), kBytes) == 0);
    }
    for (auto& each : bench_.sms) {
      for (const auto& answer : each->bulk_answers) {
        ++answered_;
        CHECK_FALSE(answer.packet.failed);
        MemoryRequest& request = *answer.packet.request;
        if (!answer.packet.forward) {
          const Store& store = stores_.at(request.extension.bulk.get().request);
          CHECK(std::memcmp(request.data.data(), store.bytes.data(), store.bytes.size()) == 0);
        }
        request.release();
      }
      CHECK(each->bulk_failures.empty());
    }
    CHECK(answered_ == asked_);
    CHECK(bench_.quiet());
    CHECK(pool_.in_use() == 0);
  }
  std::uint64_t crossed() const { return bench_.network.requests; }

 private:
  struct Store {
    std::vector<std::uint8_t> bytes;
  };

  static UnitsShape shape(Random& random, TimingMode mode) {
    UnitsShape result;
    result.sms = kSms;
    result.credits = random.between(1, 6);
    result.mode = mode;
    result.params.memory.cluster_queue = random.between(1, 6);
    return result;
  }
  sm::SharedMemory& memory(const Cta& cta) { return bench_.sms[cta.sm]->unit.shared; }
  void set_barriers(std::uint32_t bytes) {
    for (Cta& cta : ctas_) {
      std::uint64_t object = 0;
      arch::mbarrier_init(object, 1);
      if (bytes > 0) arch::mbarrier_expect(object, bytes);
      memory(cta).set_word(cta.window, kBarrier, object);
    }
  }
  void advance() {
    now_ += random_.below(40);
    run_until(bench_.domain.clock().time_of(now_));
  }

  MemoryRequest& request(const Cta& owner, std::uint32_t rank) {
    MemoryRequest& request = pool_.acquire();
    protocol::BulkTarget& target = request.extension.bulk.get();
    target = {};
    target.cta_slot = heddle::protocol::CtaSlot(owner.window);
    target.cga_id = kCga;
    target.rank = rank;
    target.sequence = 1;
    target.barrier = kBarrier;
    request.set_response_status(tlm::TLM_OK_RESPONSE);
    return request;
  }

  // One slot of each receiver, the same place in all.
  void load() {
    const auto mask = static_cast<std::uint16_t>(random_.between(1, (1U << kCtas) - 1));
    std::uint32_t slot = 0;
    for (const Cta& cta : ctas_) slot = std::max(slot, cta.next);
    if (slot >= kSlotCount) return;
    const std::uint32_t own = random_.below(kCtas);
    MemoryRequest& load = request(ctas_[own], own);
    protocol::BulkTarget& target = load.extension.bulk.get();
    const protocol::BulkTarget drawn = random_target(random_, 128);
    target.tensor = drawn.tensor;
    target.type = drawn.type;
    target.fill = drawn.fill;
    target.swizzle = drawn.swizzle;
    target.piece = drawn.piece;
    const std::uint32_t width = type_bytes(target.type);
    const std::uint32_t most = 128 - drawn.piece.shared % 128;
    if (target.piece.bytes > most) target.piece.shared -= drawn.piece.shared % 128 / width * width;
    target.piece.shared = kSlots + 128 * slot + target.piece.shared % 128;
    for (std::uint8_t& byte : load.data) byte = static_cast<std::uint8_t>(random_.next());
    const std::vector<std::uint8_t> bytes = brought(target, load.data.data());
    target.by_rank = random_.chance(60);
    target.ctas = mask;
    std::uint32_t sms = 0;
    for (std::uint32_t rank = 0; rank < kCtas; ++rank) {
      Cta& cta = ctas_[rank];
      if (target.by_rank ? (mask >> rank & 1) == 0 : rank != own) continue;
      sms |= 1U << cta.sm;
      cta.expected += target.piece.bytes;
      cta.next = slot + 1;
      for (std::uint32_t i = 0; i < bytes.size(); ++i) {
        cta.bytes[swizzled(target.swizzle, target.piece.shared + i)] = bytes[i];
      }
    }
    for (std::uint32_t sm = 0; sm < kSms; ++sm) {
      if ((sms >> sm & 1) == 0) continue;
      load.acquire();
      bench_.sms[sm]->unit.bulk.on_data({&load, heddle::protocol::SmInGpc(sm)});
      if (random_.chance(30)) advance();
    }
    load.release();
  }

  void store() {
    const std::uint32_t rank = random_.below(kCtas);
    const Cta& cta = ctas_[rank];
    MemoryRequest& store = request(cta, rank);
    protocol::BulkTarget& target = store.extension.bulk.get();
    target.piece.bytes = 16 * random_.between(1, 8);
    target.piece.shared = kSource + 16 * random_.below(200);
    target.piece.inside = arch::ByteMask::first(target.piece.bytes);
    target.swizzle = static_cast<arch::Swizzle>(random_.below(4));
    target.request = static_cast<std::uint32_t>(stores_.size());
    Store expected;
    for (std::uint32_t i = 0; i < target.piece.bytes; ++i) {
      expected.bytes.push_back(cta.bytes[swizzled(target.swizzle, target.piece.shared + i)]);
    }
    stores_.push_back(expected);
    ++asked_;
    bench_.sms[cta.sm]->unit.bulk.on_read({&store, heddle::protocol::SmInGpc(cta.sm), false, false});
  }

  void send(bool reduces) {
    const std::uint32_t rank = random_.below(kCtas);
    const std::uint32_t to = random_.below(kCtas);
    const Cta& from = ctas_[rank];
    Cta& receiver = ctas_[to];
    if (!reduces && receiver.next >= kSlotCount) return;
    MemoryRequest& send = request(from, rank);
    protocol::BulkTarget& target = send.extension.bulk.get();
    target.data_cta = to == rank && random_.chance(50) ? std::nullopt : std::optional(to);
    target.piece.bytes = reduces ? 128 : 16 * random_.between(1, 8);
    target.piece.shared = kSource + 16 * random_.below(200);
    target.piece.inside = arch::ByteMask::first(target.piece.bytes);
    receiver.expected += target.piece.bytes;
    const std::uint8_t* source = from.bytes.data() + target.piece.shared;
    if (reduces) {
      target.destination = kSums;
      target.reduces = true;
      target.reduction = arch::AtomicKind::add;
      target.value = arch::ValueType::u32;
      for (std::uint32_t i = 0; i < 128; i += 4) {
        std::uint32_t sum = 0;
        std::uint32_t value = 0;
        std::memcpy(&sum, receiver.bytes.data() + kSums + i, 4);
        std::memcpy(&value, source + i, 4);
        sum += value;
        std::memcpy(receiver.bytes.data() + kSums + i, &sum, 4);
      }
    } else {
      target.destination = kSlots + 128 * receiver.next++;
      std::memcpy(receiver.bytes.data() + target.destination, source, target.piece.bytes);
    }
    ++asked_;
    bench_.sms[from.sm]->unit.bulk.on_read({&send, heddle::protocol::SmInGpc(from.sm), true, false});
  }

  Random random_;
  UnitsBench bench_;
  protocol::RequestPool pool_;
  std::array<Cta, kCtas> ctas_;
  std::vector<Store> stores_;
  Cycle now_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace

TEST_CASE("bulk data, stores and sends of several SMs at once leave what each of them says", "[sm][TMA-01][TMA-40]") {
  std::uint64_t crossed = 0;
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Play play(seed, seed % 4 == 0 ? TimingMode::lt : TimingMode::at);
    play.run(150);
    play.judge();
    crossed += play.crossed();
  }
  CHECK(crossed > 1'000);
}

}  // namespace sm_memory_bulk_random_test
