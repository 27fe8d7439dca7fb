#include "protocol/task_packet.h"

HEDDLE_PACKET_LINK_HERE(heddle::protocol::TaskPacket);
HEDDLE_PACKET_LINK_HERE(heddle::protocol::TaskDonePacket);
