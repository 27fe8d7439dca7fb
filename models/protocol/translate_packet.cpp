#include "protocol/translate_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::TranslatePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::TranslatedPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::InvalidateTlbPacket);
