// A storm of bulk requests of every kind from clusters all over the machine: every byte where it belongs, every sum
// exact, everything back at its start.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/cluster_lab.h"
#include "support/tensor_lab.h"

namespace stress_tensor_storm_test {

using namespace heddle::test;
namespace arch = heddle::arch;
using arch::BulkKind;
using arch::BulkRequest;
using arch::OpCode;
using arch::Space;

namespace {

constexpr std::uint32_t kCluster = 4;
constexpr std::uint32_t kRounds = 6;
constexpr std::uint32_t kBytes = 512;        // of every request
constexpr std::uint64_t kDescriptor = 4096;  // rows of kBytes, three of four boxes reach beyond the end
constexpr std::uint64_t kSource = 0x20000;
constexpr std::uint64_t kSourceBytes = 0x10000;
constexpr std::uint64_t kSums = 0x40000;  // eight accumulators of kBytes
constexpr std::uint64_t kOut = 0x100000;  // kRounds + 1 pieces of each CTA
constexpr std::uint32_t kData = 1024;     // in shared memory: what arrives
constexpr std::uint32_t kInbox = 4096;    // sums that the neighbour sends
constexpr std::uint32_t kShared = 8192;

std::uint32_t source_word(std::uint64_t offset) { return mixed(offset, 9); }

// What the cluster gets in a round: a block from anywhere, or a box.
struct Draw {
  bool tensor = false;
  std::uint32_t leader = 0;
  std::uint64_t offset = 0;  // block, from kSource on
  std::int32_t row = 0;      // box
  std::uint32_t accumulator = 0;

  Draw(std::uint64_t cluster, std::uint64_t round) {
    const std::uint32_t number = mixed(cluster, round);
    tensor = number % 3 == 0;
    leader = number / 4 % kCluster;
    offset = number / 16 % (kSourceBytes / 16 - kBytes / 16) * 16;
    row = static_cast<std::int32_t>(number / 16 % 40) - 8;
    accumulator = number / 1024 % 8;
  }
  std::uint32_t word(std::uint32_t at) const {
    if (!tensor) return source_word(offset + at);
    const std::int32_t in = row + static_cast<std::int32_t>(at / 128);
    return in < 0 || in >= 28 ? 0 : source_word(static_cast<std::uint64_t>(in) * 128 + at % 128);
  }
};

arch::TensorDescriptor tensor() {
  arch::TensorDescriptor rows;
  rows.type = arch::TensorType::u32;
  rows.rank = 2;
  rows.address = kSource;
  rows.size = {32, 28, 1, 1, 1};
  rows.stride = {0, 128, 0, 0, 0};
  rows.box = {32, kBytes / 128, 1, 1, 1};
  return rows;
}

std::uint64_t out_of(std::uint64_t cta, std::uint64_t piece) { return kOut + kBytes * (cta * (kRounds + 1) + piece); }

void round_of(ListProgram& p, std::uint32_t round) {
  const auto draw = [round](const Warp& w) { return Draw(w.place.cta / kCluster, round); };
  p.mbarrier_arrive(Space::shared, 0, 1, kBytes);
  cluster_barrier(p);
  for (const bool box : {false, true}) {
    only_if(
        p, [=](const Warp& w) { return draw(w).leader == w.place.rank && draw(w).tensor == box; },
        [=](ListProgram& q) {
          bulk(q, box ? OpCode::tensor_load : OpCode::bulk_load, [=](const Warp& w) {
            const Draw its = draw(w);
            BulkRequest request = box ? tensor_request(BulkKind::load, kDescriptor, {0, its.row, 0, 0, 0}, kData, 0)
                                      : block_request(BulkKind::load, kSource + its.offset, kBytes, kData, 0);
            request.multicast = 0xF;
            return request;
          });
        });
  }
  bulk(p, OpCode::bulk_prefetch, [=](const Warp& w) {
    return block_request(BulkKind::prefetch, kSource + draw(w).offset / 2 / 16 * 16, 256, 0);
  });
  p.mbarrier_wait(0, round % 2);
  bulk(p, OpCode::bulk_reduce, [=](const Warp& w) {
    BulkRequest request = block_request(BulkKind::reduce, kSums + kBytes * draw(w).accumulator, kBytes, kData);
    request.type = arch::ValueType::u32;
    return request;
  });
  bulk(p, OpCode::bulk_send, [=](const Warp& w) {
    BulkRequest request;
    request.kind = BulkKind::send;
    request.blocks = kBytes / arch::kBulkBlock;
    request.shared = kData;
    request.destination = kInbox;
    request.data_cta = (w.place.rank + 1) % kCluster;
    request.reduces = true;
    request.type = arch::ValueType::u32;
    return request;
  });
  bulk_commit(p);
  bulk(p, OpCode::bulk_store,
       [=](const Warp& w) { return block_request(BulkKind::store, out_of(w.place.cta, round), kBytes, kData); });
  bulk_commit(p);
  bulk_wait(p, 0, round % 2 == 1);
}

void storm(const std::vector<std::string>& sets, std::uint32_t clusters) {
  SimFixture sim;
  GpuLab lab(preset_params("small", sets));
  for (std::uint32_t i = 0; i < kSourceBytes; i += 4) lab.write<std::uint32_t>(kSource + i, source_word(i));
  write_descriptor(lab, kDescriptor, tensor());
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  for (std::uint32_t round = 0; round < kRounds; ++round) round_of(p, round);
  bulk_wait(p, 0);
  cluster_barrier(p);
  bulk(p, OpCode::bulk_store,
       [](const Warp& w) { return block_request(BulkKind::store, out_of(w.place.cta, kRounds), kBytes, kInbox); });
  p.exit();
  const std::uint32_t ctas = clusters * kCluster;
  lab.run(program, {ctas, 1, 1}, {32, 1, 1}, kShared, clusters_of(kCluster));
  if (!lab.gpu.log().faults().empty()) FAIL(arch::text_of(lab.gpu.log().faults()[0]));
  lab.gpu.check_quiescent();
  std::vector<std::uint32_t> sums(8 * kBytes / 4);
  for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
    std::vector<std::uint32_t> inbox(kBytes / 4);
    std::vector<std::uint32_t> shown(kBytes / 4);
    for (std::uint32_t round = 0; round <= kRounds; ++round) {
      const Draw draw(cluster, round);
      for (std::uint32_t i = 0; round < kRounds && i < kBytes / 4; ++i) {
        sums[draw.accumulator * kBytes / 4 + i] += kCluster * draw.word(4 * i);
        inbox[i] += draw.word(4 * i);
      }
      for (std::uint32_t rank = 0; rank < kCluster; ++rank) {
        const std::uint64_t cta = std::uint64_t{cluster} * kCluster + rank;
        REQUIRE(lab.gpu.memory().read(out_of(cta, round), shown.data(), kBytes));
        for (std::uint32_t i = 0; i < kBytes / 4; ++i) {
          if (shown[i] != (round < kRounds ? draw.word(4 * i) : inbox[i])) {
            FAIL("CTA " << cta << ", round " << round << ", word " << i);
          }
        }
      }
    }
  }
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    if (lab.read<std::uint32_t>(kSums + 4 * i) != sums[i]) FAIL("sum " << i);
  }
}

}  // namespace

TEST_CASE("a storm of bulk requests of every kind", "[stress][TMA-01][TMA-02][TMA-30][TMA-31][TMA-41]") {
  storm({}, 5000);
}

TEST_CASE("the same storm, loosely timed", "[stress][TMA-01][TMA-30]") { storm({"gpu.timing=lt"}, 3000); }

TEST_CASE("the same storm on a machine that is short of everything", "[stress][TMA-16]") {
  storm({"gpu.tmau.sms=2", "gpu.tmau.queue=1", "gpu.tmau.outstanding=2", "gpu.tmau.descriptors=1", "gpu.xbar.queue=1",
         "gpu.sm.memory.cluster_queue=1", "gpu.gpc.network.queue=1"},
        1000);
}

}  // namespace stress_tensor_storm_test
