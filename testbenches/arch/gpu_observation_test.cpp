// What a GPU shows of itself beside statistics.
#include "arch/gpu_observation.h"

#include <catch2/catch.hpp>

namespace arch_gpu_observation_test {

using heddle::Labels;

TEST_CASE("labels name what has a name and number the rest", "[observation]") {
  Labels labels("stream");
  labels.set(3, "copy");
  CHECK(labels.of(3) == "copy");
  CHECK(labels.of(4) == "stream 4");
}

}  // namespace arch_gpu_observation_test
