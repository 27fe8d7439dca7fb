/* Heddle's host library: queues, packets, signals and the planner for condensed packets, in C11 for hosts, firmware and
 * test benches. It allocates nothing, keeps no state of its own and needs memcpy and memset only. docs/host-library.md
 * has examples. Functions return enum heddle_status; what they were to write is undefined unless it is HEDDLE_OK. */
#ifndef HEDDLE_DRIVER_H
#define HEDDLE_DRIVER_H

#include "heddle_device.h"
#include "heddle_packets.h"
#include "heddle_plan.h"
#include "heddle_program.h"
#include "heddle_registers.h"
#include "heddle_status.h"

#endif
