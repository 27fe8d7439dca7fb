// The walk of a block against one from unit to unit.
#include <catch2/catch.hpp>

#include "tmau/walk_bench.h"

namespace tmau_block_walk_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Pieces of a block, unit by unit: a unit begins one where a line of either side does.
std::vector<arch::TensorPiece> reference(std::uint64_t address, std::uint64_t to, std::uint64_t blocks,
                                         std::uint32_t shared) {
  std::vector<arch::TensorPiece> result;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t at = address + 16 * i;
    if (i == 0 || at % 128 == 0 || (to + 16 * i) % 128 == 0) {
      result.push_back({at, static_cast<std::uint32_t>(shared + 16 * i), 0, {}});
    }
    result.back().bytes += 16;
  }
  return result;
}

bool same(const std::vector<arch::TensorPiece>& pieces, const std::vector<arch::TensorPiece>& wanted, bool shared) {
  if (pieces.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].address != wanted[i].address || pieces[i].bytes != wanted[i].bytes) return false;
    if (shared && pieces[i].shared != wanted[i].shared) return false;
    if (!pieces[i].all_inside() || !well_formed(pieces[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("zero blocks are no piece", "[tmau][TMA-01]") {
  arch::TensorPiece piece;
  CHECK_FALSE(tmau::BlockWalk(std::uint64_t{1024}, std::uint64_t{0}, std::uint32_t{16}).next(piece));
  CHECK_FALSE(tmau::BlockWalk(std::uint64_t{1024}, std::uint64_t{32}, std::uint64_t{0}).next(piece));
  CHECK_FALSE(tmau::BlockWalk().next(piece));
}

TEST_CASE("blocks: one piece for each line, the first and the last perhaps shorter", "[tmau][TMA-01][TMA-15]") {
  for (std::uint32_t first = 0; first < 8; ++first) {
    for (std::uint32_t blocks = 0; blocks < 40; ++blocks) {
      CAPTURE(first, blocks);
      const std::uint64_t address = 4096 + 16 * first;
      const auto pieces = pieces_of(tmau::BlockWalk(address, std::uint64_t{blocks}, std::uint32_t{48}));
      CHECK(same(pieces, reference(address, address, blocks, 48), true));
      CHECK(pieces.size() == (first + blocks + 7) / 8 - (blocks == 0 ? (first + 7) / 8 : 0));
    }
  }
}

TEST_CASE("copies: pieces end at the lines of both sides", "[tmau][TMA-01][TMA-15]") {
  for (std::uint32_t from = 0; from < 8; ++from) {
    for (std::uint32_t to = 0; to < 8; ++to) {
      for (std::uint64_t blocks = 1; blocks < 30; ++blocks) {
        CAPTURE(from, to, blocks);
        const std::uint64_t source = 1024 + 16 * from;
        const std::uint64_t destination = (std::uint64_t{1} << 40) + 16 * to;
        CHECK(same(pieces_of(tmau::BlockWalk(source, destination, blocks)), reference(source, destination, blocks, 0),
                   false));
      }
    }
  }
}

TEST_CASE("a block may have more units than 32 bits", "[tmau][TMA-02]") {
  const std::uint64_t blocks = (std::uint64_t{1} << 33) + 3;
  tmau::BlockWalk walk(std::uint64_t{64}, blocks, std::uint32_t{0});
  arch::TensorPiece piece;
  REQUIRE(walk.next(piece));
  CHECK(piece.bytes == 64);
  REQUIRE(walk.next(piece));
  CHECK(piece.address == 128);
  CHECK(piece.bytes == 128);
}

}  // namespace tmau_block_walk_test
