#include "protocol/evict_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::EvictPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::EvictedPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::GrowPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::IdlePacket);
