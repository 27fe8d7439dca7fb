#include "protocol/control_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::TpcEnablePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::SubcontextPacket);
