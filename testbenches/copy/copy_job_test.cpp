// How copies and fills are cut, byte by byte against an oracle.
#include "copy/copy_job.h"

#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "support/random.h"

namespace heddle::test::copy_job_test {
namespace {

using arch::HsaStatus;
using copy::CopyJob;
using copy::Piece;
using copy::why_refused;
using protocol::CopyKind;
using protocol::CopyRequestPacket;

CopyRequestPacket request_of(CopyKind kind, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  CopyRequestPacket request;
  request.kind = kind;
  request.from = from;
  request.to = to;
  request.bytes = bytes;
  return request;
}

}  // namespace

TEST_CASE("pieces cover every byte once, within one line at both ends, and no more of them than that takes",
          "[copy][HST-05]") {
  for (const std::uint64_t seed : seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    const bool fill = random.chance(30);
    const std::uint64_t host = random.chance(50) ? arch::kHostWindow : 0;
    const std::uint64_t from = host + random.below(1000);
    const std::uint64_t to = fill ? random.below(300) * 4 : 100'000 + random.below(1000);
    const std::uint64_t bytes = fill ? random.between(1, 300) * 4 : random.between(1, 1200);
    const CopyRequestPacket request = request_of(fill ? CopyKind::fill : CopyKind::copy, from, to, bytes);
    REQUIRE(why_refused(request).status == HsaStatus::success);
    CopyJob job(request);
    // The oracle: a piece begins at the first byte, and where either address begins a line.
    std::set<std::uint64_t> begins;
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (i == 0 || (to + i) % 128 == 0 || (!fill && (from + i) % 128 == 0)) begins.insert(i);
    }
    std::uint64_t at = 0;
    while (job.more()) {
      REQUIRE_FALSE(job.over());
      const Piece piece = job.next();
      REQUIRE(piece.to == to + at);
      if (!fill) REQUIRE(piece.from == from + at);
      REQUIRE(begins.erase(at) == 1);
      REQUIRE(piece.bytes > 0);
      at += piece.bytes;
    }
    REQUIRE(at == bytes);
    REQUIRE(begins.empty());
    while (job.under_way() > 0) {
      REQUIRE_FALSE(job.over());
      job.ended();
    }
    REQUIRE(job.over());
    REQUIRE(job.status() == HsaStatus::success);
  }
}

TEST_CASE("an error stops further pieces, and the first of the copy's gives the address", "[copy][HST-05]") {
  for (const std::uint64_t seed : seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    CopyJob job(request_of(CopyKind::copy, random.below(128), 10'000 + random.below(128), 2000));
    std::vector<Piece> open;
    const std::uint32_t count = random.between(1, 8);
    for (std::uint32_t i = 0; i < count; ++i) open.push_back(job.next());
    random.shuffle(open);
    std::uint64_t first = ~std::uint64_t{0};
    for (std::size_t i = 0; i < open.size(); ++i) {
      REQUIRE_FALSE(job.over());
      if (i != 0 && random.chance(50)) {
        job.ended();
        continue;
      }
      const bool write = random.chance(50);
      // Of the same piece only one access can fail; the offset decides between pieces.
      if (first == ~std::uint64_t{0} || open[i].to < open[first].to) first = i;
      job.failed(open[i], write ? open[i].to : open[i].from, write);
      REQUIRE_FALSE(job.more());
      const bool is_first = first == i;
      if (is_first) REQUIRE(job.failed_address() == (write ? open[i].to : open[i].from));
      REQUIRE((job.failed_address() == open[first].to || job.failed_address() == open[first].from));
    }
    REQUIRE(job.over());
    REQUIRE(job.status() == HsaStatus::error);
  }
}

TEST_CASE("what cannot be done at all is refused", "[copy][HST-05]") {
  const std::uint64_t end = ~std::uint64_t{0};
  const auto check = [](const CopyRequestPacket& request, HsaStatus status, std::uint64_t address) {
    CHECK(why_refused(request).status == status);
    CHECK(why_refused(request).address == address);
  };
  check(request_of(CopyKind::copy, end - 9, 0, 10), HsaStatus::success, 0);
  check(request_of(CopyKind::copy, end - 9, 0, 11), HsaStatus::error, end - 9);
  check(request_of(CopyKind::copy, 0, end - 9, 11), HsaStatus::error, end - 9);
  check(request_of(CopyKind::fill, end, end - 3, 4), HsaStatus::success, 0);
  check(request_of(CopyKind::fill, 0, end - 3, 8), HsaStatus::error, end - 3);
  check(request_of(CopyKind::fill, 0, 6, 8), HsaStatus::invalid_argument, 6);
  check(request_of(CopyKind::fill, 0, 8, 6), HsaStatus::invalid_argument, 8);
  check(request_of(CopyKind::copy, 100, 110, 10), HsaStatus::success, 0);
  check(request_of(CopyKind::copy, 100, 109, 10), HsaStatus::invalid_argument, 109);
  check(request_of(CopyKind::copy, 110, 101, 10), HsaStatus::invalid_argument, 101);
  check(request_of(CopyKind::copy, 110, 100, 10), HsaStatus::success, 0);
  check(request_of(CopyKind::copy, 100, 100, 1), HsaStatus::invalid_argument, 100);
  check(request_of(CopyKind::copy, 100, 100, 0), HsaStatus::success, 0);
  check(request_of(CopyKind::fill, 3, 3, 0), HsaStatus::success, 0);
}

TEST_CASE("pieces of nothing are a bug", "[copy]") {
  CopyJob job(request_of(CopyKind::copy, 0, 1000, 8));
  (void)job.next();
  CHECK_THROWS(job.next());
  job.ended();
  CHECK_THROWS(job.ended());
}

}  // namespace heddle::test::copy_job_test
