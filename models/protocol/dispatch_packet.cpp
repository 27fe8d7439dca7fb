#include "protocol/dispatch_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::DispatchPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::DispatchDonePacket);
