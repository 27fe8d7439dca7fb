// Direct memory, as far as a slice has to do with it (HST-02).
#include <algorithm>

#include "memory/l2_slice.h"

namespace heddle::memory {

void L2Slice::end_grant(const L2Access& access) {
  if (access.kind != L2Access::Kind::write_back) direct_->end(access.line * arch::kLineBytes, arch::kLineBytes);
}

bool L2Slice::busy_with(std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t first_line = first / arch::kLineBytes;
  const std::uint64_t last_line = last / arch::kLineBytes;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    const std::uint64_t line = arrivals_.at(i).guest.payload().get_address() / arch::kLineBytes;
    if (line >= first_line && line <= last_line) return true;
  }
  for (std::uint64_t line = first_line; line <= last_line; ++line) {
    if (map_.slice_of(line * arch::kLineBytes) == number_ && core_.busy_with(line)) return true;
  }
  return false;
}

bool L2Slice::let_go(std::uint64_t first, std::uint64_t last) {
  if (busy_with(first, last)) return false;
  std::vector<std::uint64_t> lines;
  for (std::uint64_t line = first / arch::kLineBytes; line <= last / arch::kLineBytes; ++line) {
    if (map_.slice_of(line * arch::kLineBytes) != number_) continue;
    if (!write_newer(line)) return false;
    lines.push_back(line);
  }
  for (const std::uint64_t line : lines) core_.forget(line);
  return true;
}

// Run by run, since the debug transport has no byte enables.
bool L2Slice::write_newer(std::uint64_t line) {
  LineMask bytes;
  const std::uint8_t* data = core_.newer(line, bytes);
  if (data == nullptr) return true;
  bool taken = true;
  for (std::uint32_t begin = 0; taken && begin < arch::kLineBytes;) {
    std::uint32_t end = begin;
    while (end < arch::kLineBytes && bytes.test(end)) ++end;
    if (end > begin) {
      protocol::MemoryRequest& request = pool_.acquire();
      request.aim(tlm::TLM_WRITE_COMMAND, line * arch::kLineBytes + begin, end - begin);
      std::copy_n(data + begin, end - begin, request.get_data_ptr());
      taken = memory_out.debug(request) == end - begin;
      request.release();
    }
    begin = end + 1;
  }
  return taken;
}

}  // namespace heddle::memory
