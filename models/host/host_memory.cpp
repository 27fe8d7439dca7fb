#include "host/host_memory.h"

#include <string>

#include "arch/byte_codec.h"
#include "arch/memory_op.h"
#include "common/error.h"
#include "common/storage.h"
#include "common/storage_access.h"
#include "host/delayed_target.h"
#include "protocol/memory_request.h"

namespace heddle::host {
namespace {

using protocol::MemoryAction;
using protocol::MemoryExtension;

tlm::tlm_response_status validate(const Storage& storage, std::uint64_t line, const MemoryExtension& atomic) {
  if (atomic.lanes > atomic.lane.size() || !arch::atomic_exists(atomic.atomic, atomic.type)) {
    return tlm::TLM_COMMAND_ERROR_RESPONSE;
  }
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    const std::uint32_t offset = atomic.lane[i].offset;
    if (offset % bytes != 0 || offset + bytes > arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
    if (!storage.contains(line + offset, bytes)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  }
  return tlm::TLM_OK_RESPONSE;
}

// All values of it, and nobody comes between them.
void carry_out(Storage& storage, tlm::tlm_generic_payload& payload, MemoryExtension& atomic) {
  const std::uint64_t line = arch::line_of(payload.get_address());
  const tlm::tlm_response_status status = validate(storage, line, atomic);
  atomic.carried_out = true;
  payload.set_response_status(status);
  if (status != tlm::TLM_OK_RESPONSE) return;
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    protocol::AtomicLane& lane = atomic.lane[i];
    std::uint8_t raw[8] = {};
    storage.read(line + lane.offset, raw, bytes);
    const std::uint64_t old = arch::load_number(raw, bytes);
    arch::store_number(raw, bytes, arch::atomic_result(atomic.atomic, atomic.type, old, lane.operand, lane.compare));
    storage.write(line + lane.offset, raw, bytes);
    if (atomic.action == MemoryAction::atomic) lane.old = old;
  }
}

void perform(Storage& storage, tlm::tlm_generic_payload& payload) {
  MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr &&
      (extension->action == MemoryAction::atomic || extension->action == MemoryAction::reduce)) {
    carry_out(storage, payload, *extension);
  } else {
    (void)access(storage, payload);
  }
}

// One way in.
class Port : public DelayedTarget {
 public:
  Port(const sc_core::sc_module_name& name, Storage& storage, const sc_core::sc_time& latency)
      : DelayedTarget(name, latency), storage_(storage) {}

 private:
  void carry_out(tlm::tlm_generic_payload& payload) override { perform(storage_, payload); }
  // Refused; but whoever asks with an atomic wants to know whether it would be carried out as one.
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) override {
    MemoryExtension* asked = protocol::extension_of(payload);
    if (asked != nullptr && asked->action == MemoryAction::atomic) asked->carried_out = true;
    dmi.init();
    dmi.set_start_address(payload.get_address());
    dmi.set_end_address(payload.get_address());
    return false;
  }
  unsigned int transport_dbg(tlm::tlm_generic_payload& payload) override { return debug_access(storage_, payload); }

  Storage& storage_;
};

}  // namespace

class HostMemory::Impl {
 public:
  Impl(std::uint64_t bytes, const sc_core::sc_time& latency, std::uint32_t count) : storage(bytes) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ports.push_back(std::make_unique<Port>(("port" + std::to_string(i)).c_str(), storage, latency));
    }
  }

  Storage storage;
  std::vector<std::unique_ptr<Port>> ports;
};

HostMemory::HostMemory(const sc_core::sc_module_name& name, std::uint64_t bytes, const sc_core::sc_time& latency,
                       std::uint32_t ports)
    : sc_core::sc_module(name), impl_(std::make_unique<Impl>(bytes, latency, ports)) {}

HostMemory::~HostMemory() = default;

tlm::tlm_target_socket<>& HostMemory::port(std::uint32_t index) {
  HEDDLE_CHECK(index < impl_->ports.size(), "a host memory was asked for a port that it does not have");
  return impl_->ports[index]->socket;
}

std::uint64_t HostMemory::bytes() const { return impl_->storage.bytes(); }

bool HostMemory::read(std::uint64_t address, void* to, std::uint64_t bytes) const {
  if (!impl_->storage.contains(address, bytes)) return false;
  impl_->storage.read(address, to, bytes);
  return true;
}

bool HostMemory::write(std::uint64_t address, const void* from, std::uint64_t bytes) {
  if (!impl_->storage.contains(address, bytes)) return false;
  impl_->storage.write(address, from, bytes);
  return true;
}

}  // namespace heddle::host
