#include "protocol/session_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::SessionPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::SnapshotPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::MimicPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::AnswerPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::HomePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::MaskPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::SessionEndPacket);
