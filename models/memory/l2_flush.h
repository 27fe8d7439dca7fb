// write_back of a whole slice: writes that have been acknowledged before it came are in memory when it is answered
// (MEM-06).
//
// A walk over the array sends every dirty line into the write buffer, as far as that has room, and ends when all
// entries up to the walk's last one have left. Requests that come during a walk share the next one, since lines may
// have become dirty behind it.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/l2_array.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

class L2Flush {
 public:
  // Requests that are done are appended to `served`.
  L2Flush(L2Array& array, L2WriteBuffer& buffer, std::vector<L2Served>& served)
      : array_(array), buffer_(buffer), served_(served) {}

  // False: memory has everything already. Otherwise the request will be among those served.
  bool begin(void* request);
  // The write buffer has room again, or an entry less.
  void advance();
  // Memory has refused bytes of an entry of the write buffer.
  void note_failure(std::uint64_t order, int status);

  bool idle() const { return current_.empty() && next_.empty(); }
  void reset();

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  L2Array& array_;
  L2WriteBuffer& buffer_;
  std::vector<L2Served>& served_;
  std::vector<void*> current_;    // requests that wait for the walk and what it has found
  std::vector<void*> next_;       // requests that came after it had begun
  std::uint32_t cursor_ = kNone;  // the line at which the walk goes on; kNone: it is through
  std::uint64_t last_order_ = 0;  // then: the entries up to this one count
  int status_ = kL2Ok;
};

}  // namespace heddle::memory
