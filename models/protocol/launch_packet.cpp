#include "protocol/launch_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::LaunchPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CompletePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::SharedReleasePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::CgaCompletePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::LocalMemoryPacket);
