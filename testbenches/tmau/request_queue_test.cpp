// The order in which an SM's waiting requests are taken.
#include "tmau/request_queue.h"

#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace tmau_request_queue_test {

using namespace heddle;
using tmau::QueueOrder;
using tmau::RequestQueue;

namespace {

std::uint64_t ten_times(std::uint32_t request) { return 10 * std::uint64_t{request}; }

std::optional<std::uint32_t> no_class(std::uint32_t /*request*/) { return std::nullopt; }

template <class BytesOf>
std::vector<std::uint32_t> drain(RequestQueue& queue, BytesOf&& bytes_of) {
  std::vector<std::uint32_t> result;
  while (!queue.empty()) {
    const std::size_t place = queue.next(bytes_of, no_class);
    const std::uint32_t request = queue.at(place);
    REQUIRE(queue.take(place) == request);
    result.push_back(request);
  }
  return result;
}

}  // namespace

TEST_CASE("first in, first out", "[tmau][TMA-03]") {
  RequestQueue queue(QueueOrder::fifo);
  queue.push(5, true);
  queue.push(1, false);
  queue.push(9, true);
  CHECK(queue.size() == 3);
  CHECK(drain(queue, ten_times) == std::vector<std::uint32_t>{5, 1, 9});
}

TEST_CASE("blocks before tensors, each in order", "[tmau][TMA-03]") {
  RequestQueue queue(QueueOrder::blocks_first);
  queue.push(5, true);
  queue.push(1, false);
  queue.push(9, true);
  queue.push(7, false);
  CHECK(drain(queue, ten_times) == std::vector<std::uint32_t>{1, 7, 5, 9});
}

TEST_CASE("the smallest first, equal ones in order", "[tmau][TMA-03]") {
  RequestQueue queue(QueueOrder::smallest_first);
  for (const std::uint32_t request : {5U, 1U, 9U, 3U, 8U}) queue.push(request, true);
  // 9 and 3 are alike; 5 is not known yet.
  const auto bytes_of = [](std::uint32_t request) {
    if (request == 5) return ~std::uint64_t{0};
    return request == 9 ? std::uint64_t{30} : ten_times(request);
  };
  CHECK(drain(queue, bytes_of) == std::vector<std::uint32_t>{1, 9, 3, 8, 5});
  CHECK_THROWS_AS(queue.next(ten_times, no_class), CheckFailed);
  queue.push(4, false);
  queue.clear();
  CHECK(queue.empty());
}

TEST_CASE("those of the class of the one before go first, the others in order", "[tmau][TMA-03][TMA-44]") {
  for (const QueueOrder order : {QueueOrder::same_type_first, QueueOrder::same_space_first}) {
    RequestQueue queue(order);
    for (const std::uint32_t request : {5U, 12U, 3U, 14U, 7U, 20U, 9U}) queue.push(request, true);
    // Odd and even ones; what 20 is becomes known when it is taken.
    bool known = false;
    const auto class_of = [&](std::uint32_t request) {
      return request == 20 && !known ? std::nullopt : std::optional(request % 2);
    };
    std::vector<std::uint32_t> result;
    while (!queue.empty()) {
      const std::size_t place = queue.next(ten_times, class_of);
      const std::uint32_t request = queue.at(place);
      known = known || request == 20;
      result.push_back(queue.take(place, class_of(request)));
    }
    CHECK(result == std::vector<std::uint32_t>{5, 3, 7, 9, 12, 14, 20});
    // A request without a class holds none together.
    queue.push(1, true);
    queue.push(2, true);
    queue.push(4, true);
    CHECK(queue.take(queue.next(ten_times, class_of), std::nullopt) == 2);  // 20 was the last
    CHECK(queue.take(queue.next(ten_times, class_of), 1) == 1);
    queue.clear();
  }
}

TEST_CASE("nothing is lost, whatever the order", "[tmau][TMA-03]") {
  for (const std::uint64_t seed : test::seeds(30)) {
    CAPTURE(seed);
    test::Random random(seed);
    RequestQueue queue(static_cast<QueueOrder>(seed % tmau::kQueueOrders));
    std::vector<bool> in(300, false);
    std::uint32_t pushed = 0;
    std::uint32_t taken = 0;
    while (taken < 300) {
      if (pushed < 300 && (queue.empty() || random.chance(55))) {
        in[pushed] = true;
        queue.push(pushed++, random.chance(50));
        continue;
      }
      const std::uint32_t request = queue.take(queue.next(ten_times, no_class), random.below(3));
      REQUIRE(in[request]);
      in[request] = false;
      ++taken;
    }
    CHECK(queue.empty());
  }
}

}  // namespace tmau_request_queue_test
