// Runs the walks of the unit and compares their pieces with the oracle's elements.
#pragma once

#include <string>
#include <vector>

#include "arch/tensor_data.h"
#include "tmau/box_oracle.h"
#include "tmau/line_generator.h"
#include "tmau/random_tensor.h"

namespace heddle::test {

template <class Walk>
std::vector<arch::TensorPiece> pieces_of(Walk walk) {
  std::vector<arch::TensorPiece> result;
  arch::TensorPiece piece;
  while (walk.next(piece)) result.push_back(piece);
  return result;
}

inline std::vector<arch::TensorPiece> pieces_of(const RandomBox& box) {
  return pieces_of(tmau::TensorWalk(box.descriptor, box.coordinates, box.offsets, box.shared));
}

inline std::string describe(const RandomBox& box) {
  const arch::TensorDescriptor& d = box.descriptor;
  std::string text = std::string(d.mode == arch::TensorMode::tile ? "tile" : "im2col") + " of " + type_name(d.type) +
                     " interleave " + std::to_string(static_cast<int>(d.interleave)) + " swizzle " +
                     swizzle_name(d.swizzle) + " at " + std::to_string(d.address);
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    text += "\n  size " + std::to_string(d.size[i]) + " stride " + std::to_string(d.stride[i]) + " box " +
            std::to_string(d.box[i]) + " traversal " + std::to_string(d.traversal[i]) + " coordinate " +
            std::to_string(box.coordinates[i]);
  }
  for (std::uint32_t i = 0; i + 2 < d.rank; ++i) {
    text += "\n  corners " + std::to_string(d.base_corner[i]) + " " + std::to_string(d.far_corner[i]);
  }
  return text + "\n  channels " + std::to_string(d.channels) + " pixels " + std::to_string(d.pixels) + " offsets " +
         std::to_string(box.offsets) + " shared " + std::to_string(box.shared);
}

// Within one line, not empty, and no bit of the mask beyond its bytes.
inline bool well_formed(const arch::TensorPiece& piece) {
  const arch::ByteMask bytes = arch::ByteMask::first(piece.bytes);
  return piece.bytes >= 1 && piece.address % arch::kLineBytes + piece.bytes <= arch::kLineBytes &&
         (piece.inside.low & ~bytes.low) == 0 && (piece.inside.high & ~bytes.high) == 0;
}

// Byte by byte: the pieces have the addresses of the elements, in their order, and the bits of those inside. Empty if
// it is so, and they are as few as can be; otherwise what is wrong.
inline std::string compare(const RandomBox& box, const std::vector<arch::TensorPiece>& pieces) {
  const std::vector<BoxElement> elements = box_elements(box.descriptor, box.coordinates, box.offsets);
  const std::uint32_t each = element_bytes(box.descriptor);
  std::size_t byte = 0;
  std::uint64_t inside = 0;
  for (const arch::TensorPiece& piece : pieces) {
    const std::string where = " at byte " + std::to_string(byte) + " of the box";
    if (!well_formed(piece)) return "a piece is malformed" + where;
    if (piece.shared != box.shared + byte) return "a piece has the wrong shared address" + where;
    for (std::uint32_t i = 0; i < piece.bytes; ++i, ++byte) {
      if (byte / each >= elements.size()) return "there is more than the box";
      const BoxElement& element = elements[byte / each];
      if (piece.address + i != element.address + byte % each) return "wrong address" + where;
      if (piece.inside.test(i) != element.inside) return "wrong mask" + where;
    }
    if (piece.inside.any()) ++inside;
  }
  if (byte != elements.size() * each) return "there is less than the box";
  const PieceCount least = count_pieces(box.descriptor, elements);
  if (pieces.size() != least.pieces) return "more pieces than needed";
  return inside == least.inside ? "" : "more requests than needed";
}

}  // namespace heddle::test
