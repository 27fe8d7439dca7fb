#include "protocol/child_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::ChildPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::WakePacket);
