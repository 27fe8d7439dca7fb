#include "protocol/cluster_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::CtaEntryPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::ClusterNoticePacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::ClusterOrderPacket);
