// How an expression depends on the lane of a warp.
#pragma once

#include <cstdint>
#include <functional>

#include "program/expression.h"

namespace heddle::workload {

enum class Shape : std::uint8_t {
  uniform,  // an integer that is the same for all lanes
  affine,   // an integer that grows by the same amount from lane to lane
  other,
};

// Most addresses are sums of products of integers: three lanes tell all 32. The answer is about exact integers, so the
// caller checks that the values are small enough. `shape_of`: of a slot.
Shape shape_of(const ExpressionText& text, const std::function<Shape(std::uint32_t)>& shape_of);

}  // namespace heddle::workload
