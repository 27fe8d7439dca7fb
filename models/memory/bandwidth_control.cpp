#include "memory/bandwidth_control.h"

namespace heddle::memory {

using protocol::ShareRefusal;
using protocol::SubcontextPacket;

BandwidthControl::BandwidthControl(const sc_core::sc_module_name& name, Domain& domain, const std::string& path)
    : Block(name, domain, path), share_in("share_in", domain, 0) {
  share_in.on_packet<BandwidthControl, &BandwidthControl::on_share>(*this);
}

BandwidthControl::~BandwidthControl() = default;

void BandwidthControl::on_share(const SubcontextPacket& packet, std::uint32_t) {
  using What = SubcontextPacket::What;
  if (packet.what != What::bandwidth && packet.what != What::bandwidth_limit) return;
  const ShareRefusal refusal = judge_share(table_, packet);
  if (refusal == ShareRefusal::none) {
    if (packet.what == What::bandwidth) shares_[packet.subcontext] = static_cast<std::uint32_t>(packet.value);
  } else if (on_refused_) {
    on_refused_(packet, refusal);
  }
}

}  // namespace heddle::memory
