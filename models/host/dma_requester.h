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

// Has it as long as it lives, so that it does not go with a payload that lives shorter.
class LentRequester {
 public:
  LentRequester(tlm::tlm_generic_payload& payload, DmaRequester& requester) : payload_(payload), requester_(requester) {
    payload.set_extension(&requester);
  }
  ~LentRequester() { payload_.clear_extension(&requester_); }
  LentRequester(const LentRequester&) = delete;
  LentRequester& operator=(const LentRequester&) = delete;

 private:
  tlm::tlm_generic_payload& payload_;
  DmaRequester& requester_;
};

}  // namespace heddle::host
