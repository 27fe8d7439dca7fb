// Who asks, on the host's bus (HST-06): an extension of every payload of the DMA initiator, to be ignored by whoever
// has no use for it. A platform's IOMMU finds the process in it, as in a PCIe request with a PASID prefix.
#pragma once

#include <cstdint>

#include <tlm>

namespace heddle::host {

struct DmaRequester final : tlm::tlm_extension<DmaRequester> {
  tlm::tlm_extension_base* clone() const override { return new DmaRequester(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const DmaRequester&>(other);  // NOLINT(*-static-cast-downcast): of its own kind
  }

  std::uint16_t requester = 0;  // gpu.hub.dma_requester: bus, device, function
  std::uint8_t pasid = 0;       // the subcontext whose request it is; 0: the driver's
};

// A payload that asks something about an address beside transactions, on behalf of a subcontext. As long as it lives it
// has its extensions, which do not go with it.
class DmaQuery {
 public:
  DmaQuery(std::uint32_t requester, std::uint8_t subcontext, tlm::tlm_command command, std::uint64_t address,
           std::uint8_t* data, std::uint32_t bytes) {
    requester_.requester = static_cast<std::uint16_t>(requester);
    requester_.pasid = subcontext;
    payload_.set_command(command);
    payload_.set_address(address);
    payload_.set_data_ptr(data);
    payload_.set_data_length(bytes);
    payload_.set_streaming_width(bytes);
    payload_.set_extension(&requester_);
  }
  ~DmaQuery() { payload_.clear_extension(&requester_); }
  DmaQuery(const DmaQuery&) = delete;
  DmaQuery& operator=(const DmaQuery&) = delete;

  tlm::tlm_generic_payload& payload() { return payload_; }

 private:
  DmaRequester requester_;
  tlm::tlm_generic_payload payload_;
};

}  // namespace heddle::host
