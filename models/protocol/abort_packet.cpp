#include "protocol/abort_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::AbortPacket);
