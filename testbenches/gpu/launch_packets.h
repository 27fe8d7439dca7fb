// The packets that the launch hardware sends and receives: on sockets of the distributor and its units, of GPMs and
// MPCs. One that is not here has a socket that packet_socket_bits_test.cpp finds; one that is here has to say what its
// members are in packet_bits_test.cpp.
#pragma once

#include <tuple>

#include "protocol/cwd_gpm.h"
#include "protocol/cwd_units.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/host_task.h"
#include "protocol/occupancy_query.h"
#include "protocol/task_cwd.h"

namespace heddle::test {

using LaunchHardwarePackets =
    std::tuple<protocol::TaskPacket, protocol::TaskDonePacket, protocol::EvictPacket, protocol::EvictedPacket,
               protocol::GrowPacket, protocol::IdlePacket, protocol::SubcontextPacket, protocol::TpcEnablePacket,
               protocol::SessionPacket, protocol::SnapshotPacket, protocol::MimicPacket, protocol::AnswerPacket,
               protocol::HomePacket, protocol::MaskPacket, protocol::SessionEndPacket, protocol::LaunchPacket,
               protocol::LocalMemoryPacket, protocol::AbortPacket, protocol::PartPacket, protocol::TpcLaunchPacket,
               protocol::CtaStartPacket, protocol::CtaEntryPacket, protocol::CtaExitPacket, protocol::CtaCompletePacket,
               protocol::ClusterNoticePacket, protocol::ClusterOrderPacket, protocol::CompletePacket,
               protocol::SharedReleasePacket, protocol::CgaCompletePacket, protocol::BarrierReportPacket,
               protocol::BarrierReleasePacket, protocol::OccupancyQueryPacket, protocol::OccupancyAnswerPacket>;

}  // namespace heddle::test
