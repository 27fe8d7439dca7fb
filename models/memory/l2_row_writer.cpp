#include "memory/l2_row_writer.h"

#include "common/error.h"

namespace heddle::memory {

L2RowWriter::L2RowWriter(L2Array& array, L2WriteBuffer& buffer, const L2Config& config, Counter& along)
    : array_(array),
      buffer_(buffer),
      ways_(config.eager_ways),
      along_(along),
      map_(config.map),
      row_lines_(config.row_lines) {
  HEDDLE_CHECK(row_lines_ > 0 && arch::AddressMap::kRowLines % row_lines_ == 0,
               "a row of memory has an odd number of lines");
}

void L2RowWriter::write_along(std::uint64_t line) {
  if (ways_ == 0 || map_ == nullptr || row_lines_ == 1) return;
  const arch::AddressMap::Place place = map_->place_of(line * arch::kLineBytes);
  const std::uint64_t first = place.number / row_lines_ * row_lines_;
  for (std::uint64_t number = first; number < first + row_lines_ && !buffer_.full(); ++number) {
    if (number == place.number) continue;
    const auto other = map_->line_at({place.slice, number});
    const std::uint32_t index = other ? array_.find(*other) : L2Array::kNone;
    if (index == L2Array::kNone || !goes_along(index)) continue;
    buffer_.start(buffer_.take(array_, index));
    along_.add();
  }
}

bool L2RowWriter::goes_along(std::uint32_t index) const {
  const L2Line& state = array_.state(index);
  if (state.dirty == 0 || state.mshr != 0 || state.pinned != 0) return false;
  if ((LineMask::sectors(state.dirty) & ~state.valid).any()) return false;
  return array_.older_than(index) < ways_;
}

}  // namespace heddle::memory
