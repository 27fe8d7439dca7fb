#include "protocol/cta_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::TpcLaunchPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CtaStartPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CtaExitPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CtaCompletePacket);
