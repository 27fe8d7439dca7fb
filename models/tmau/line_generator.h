// From a request to its line requests (TMA-15, TMA-42). Plain C++.
#pragma once

#include <cstdint>

#include "arch/bulk.h"
#include "tmau/tensor_walk.h"
#include "tmau/tmau_params.h"

namespace heddle::tmau {

struct Line {
  arch::TensorPiece piece;
  // Prefetch: the sectors of the line that are wanted; 0: none, as all of it is outside the tensor.
  std::uint8_t sectors = 0;
  // Prefetch: of all pieces that it stands for.
  std::uint32_t bytes = 0;
};

// Has the next line in hand, so that the last one is known as the last.
class LineGenerator {
 public:
  // Without lines.
  LineGenerator() = default;
  // A block.
  LineGenerator(const arch::BulkRequest& request, PrefetchUnit unit);
  // A tensor, by a descriptor that breaks no rule.
  LineGenerator(const arch::BulkRequest& request, const arch::TensorDescriptor& descriptor, PrefetchUnit unit);

  bool done() const { return done_; }
  const Line& line() const { return line_; }
  void advance() {
    if (prefetch_) {
      done_ = !next_prefetch();
    } else {
      done_ = !walk(line_.piece);
    }
  }
  // im2col: the filter base position is not in the bounding box (TMA-11).
  bool outside_box() const { return tensor_ && tensors_.outside_box(); }

 private:
  void begin(const arch::BulkRequest& request, PrefetchUnit unit);
  bool walk(arch::TensorPiece& piece) { return tensor_ ? tensors_.next(piece) : blocks_.next(piece); }
  bool next_prefetch();

  TensorWalk tensors_;
  BlockWalk blocks_;
  Line line_;
  Line held_;  // prefetch: taken from the walk, and not part of line_
  bool tensor_ = false;
  bool prefetch_ = false;
  bool whole_lines_ = false;
  bool holds_ = false;
  bool done_ = true;
};

}  // namespace heddle::tmau
