#include "protocol/queue_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::QueueCommandPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::QueueEventPacket);
