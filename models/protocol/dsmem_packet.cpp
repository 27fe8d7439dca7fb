#include "protocol/dsmem_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::DsmemPacket);
