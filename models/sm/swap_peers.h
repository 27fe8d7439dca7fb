// What of an SM has to do with CTAs that go to memory and come back (TSK-12).
#pragma once

#include "sm/cta_table.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class BarrierUnit;
class BulkUnit;
class CtaControl;
class DeviceLaunchUnit;
class Faults;
class MbarrierUnit;
class SmOccupancy;
class TaskLink;
class TimedCtas;
class WarpScheduler;

struct SwapPeers {
  TransferUnit& transfers;
  CtaControl& control;
  CtaMemory& windows;
  SharedMemory& shared;
  L1Cache& l1;
  BulkUnit& bulk;
  DeviceLaunchUnit& launches;
  Faults& faults;
  SmOccupancy& occupancy;
  TaskLink& tasks;
  WarpScheduler& scheduler;
  BarrierUnit& barriers;
  MbarrierUnit& mbarriers;
  PacketSender<protocol::ClusterNoticePacket>& notices;
  TimedCtas& timed;
};

}  // namespace heddle::sm
