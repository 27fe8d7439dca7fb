#include "protocol/bulk_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::BulkRequestPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::BulkDonePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::BulkDataPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::BulkReadPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::BulkPeerPacket);
