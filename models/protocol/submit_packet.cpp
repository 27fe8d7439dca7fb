#include "protocol/submit_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::SubmitPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::DonePacket);
