#include "host/dma_direct.h"

#include <algorithm>
#include <cstring>

#include "host/dma_requester.h"

namespace heddle::host {

std::optional<Cycle> DirectAccess::copy(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                                        std::uint8_t* data, std::uint32_t bytes) {
  const bool write = command == tlm::TLM_WRITE_COMMAND;
  const DirectGrants::Grant* grant = grants_.find(subcontext, address, bytes, write);
  if (grant == nullptr) return std::nullopt;
  unsigned char* there = grant->at(address);
  std::memcpy(write ? there : data, write ? data : there, bytes);
  used_.add(std::max(1U, bytes / arch::kLineBytes));
  return grant->latency[write];
}

void DirectAccess::ask(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address, std::uint32_t bytes) {
  if (!uses_pointers() || grants_.knows(subcontext, address, command == tlm::TLM_WRITE_COMMAND)) return;
  DmaQuery query(params_.dma_requester, subcontext, command, address, nullptr, bytes);
  ask(query.payload(), subcontext);
}

// What the target says of a direct pointer is kept, whatever it was asked for.
void DirectAccess::ask(tlm::tlm_generic_payload& query, std::uint8_t subcontext) {
  const std::uint64_t address = query.get_address();  // who passes the question on may change it
  const bool write = query.is_write();
  tlm::tlm_dmi dmi;
  const bool granted = socket_->get_direct_mem_ptr(query, dmi);
  if (!uses_pointers() || grants_.knows(subcontext, address, write)) return;
  DirectGrants::Grant grant;
  grant.subcontext = subcontext;
  grant.asked[write] = true;
  grant.first = dmi.get_start_address();
  grant.last = dmi.get_end_address();
  if (grant.first > address || grant.last < address) {  // it makes no sense: it is taken for a refusal
    grant.first = grant.last = address;
  } else if (granted && dmi.get_dmi_ptr() != nullptr) {
    const auto cycles = [this](const sc_core::sc_time& time) {
      return domain_.clock().cycles_for_ns(time.to_seconds() * 1e9);
    };
    grant.pointer = dmi.get_dmi_ptr();
    grant.allowed[0] = dmi.is_read_allowed();
    grant.allowed[1] = dmi.is_write_allowed();
    grant.latency[0] = cycles(dmi.get_read_latency());
    grant.latency[1] = cycles(dmi.get_write_latency());
  }
  grants_.add(grant);
}

bool DirectAccess::carries_out(const protocol::MemoryExtension& atomic, std::uint64_t address) {
  protocol::MemoryExtension asked;
  asked.action = protocol::MemoryAction::atomic;
  asked.atomic = atomic.atomic;
  asked.type = atomic.type;
  asked.lanes = 1;
  asked.lane[0].offset = static_cast<std::uint8_t>(address % arch::kLineBytes);
  std::array<std::uint8_t, 8> nothing{};
  DmaQuery query(params_.dma_requester, atomic.subcontext, tlm::TLM_WRITE_COMMAND, address, nothing.data(),
                 arch::bytes_of(atomic.type));
  query.payload().set_extension(&asked);
  ask(query.payload(), atomic.subcontext);
  query.payload().clear_extension(&asked);
  return asked.carried_out;
}

unsigned DirectAccess::debug(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                             std::uint8_t* data, std::uint32_t bytes) {
  DmaQuery query(params_.dma_requester, subcontext, command, address, data, bytes);
  return std::min(socket_->transport_dbg(query.payload()), bytes);
}

}  // namespace heddle::host
