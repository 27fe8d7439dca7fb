#include "link/late_writes.h"

#include <cstring>

#include "common/error.h"

namespace heddle::link {

using protocol::MemoryExtension;
using protocol::MemoryRequest;

void copy_request(const tlm::tlm_generic_payload& from, std::uint64_t address, MemoryRequest& to) {
  const std::uint32_t bytes = from.get_data_length();
  HEDDLE_CHECK(bytes <= arch::kLineBytes, "a request over a link is longer than a line");
  to.aim(from.get_command(), address, bytes);
  const auto* extension = from.get_extension<MemoryExtension>();
  if (extension != nullptr) {
    to.extension.action = extension->action;
    to.extension.sectors = extension->sectors;
    to.extension.atomic = extension->atomic;
    to.extension.type = extension->type;
    to.extension.lanes = extension->lanes;
    if (extension->lanes > 0) to.extension.lane = extension->lane;
    to.extension.priority = extension->priority;
  }
  // What a subcontext may reach was decided before the link.
  to.extension.physical = true;
  const bool sends = from.is_write() || to.extension.action == protocol::MemoryAction::reduce_block;
  if (sends && bytes > 0) std::memcpy(to.data.data(), from.get_data_ptr(), bytes);
  if (from.get_byte_enable_ptr() == nullptr) return;
  std::uint8_t* enables = to.use_enables();
  for (std::uint32_t i = 0; i < bytes; ++i) {
    enables[i] = from.get_byte_enable_ptr()[i % from.get_byte_enable_length()];
  }
}

void copy_answer(MemoryRequest& from, tlm::tlm_generic_payload& to) {
  to.set_response_status(from.get_response_status());
  if (to.is_read() && from.is_response_ok()) std::memcpy(to.get_data_ptr(), from.get_data_ptr(), to.get_data_length());
  auto* extension = protocol::extension_of(to);
  if (extension == nullptr) return;
  extension->poisoned = from.extension.poisoned;
  if (from.extension.action == protocol::MemoryAction::atomic) extension->lane = from.extension.lane;
}

std::uint32_t LateWrites::add(const tlm::tlm_generic_payload& payload, std::uint64_t address, Cycle arrival) {
  const std::uint32_t number = writes_.take();
  MemoryRequest& request = pool_.acquire();
  copy_request(payload, address, request);
  writes_[number] = {&request, address / arch::kLineBytes, arrival, ++serial_};
  lines_[address / arch::kLineBytes].push(number);
  return number;
}

void LateWrites::reset() {
  writes_.for_each([](const Write& write) { write.request->release(); });
  writes_.clear();
  lines_.clear();
}

}  // namespace heddle::link
