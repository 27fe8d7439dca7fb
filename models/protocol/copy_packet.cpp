#include "protocol/copy_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::CopyRequestPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CopyDonePacket);
