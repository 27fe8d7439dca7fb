#include "access.h"
#include "heddle_packets.h"

static void start(struct heddle_packet* packet, enum heddle_packet_type type, uint8_t scopes, uint64_t signal) {
  memset(packet->bytes, 0, HEDDLE_PACKET_BYTES);
  packet->bytes[0] = (uint8_t)type;
  packet->bytes[1] = scopes;
  heddle_put(packet->bytes + 56, signal, 8);
}

static void dispatch_packet(struct heddle_packet* packet, enum heddle_packet_type type,
                            const struct heddle_dispatch* dispatch, unsigned entry) {
  uint8_t* const bytes = packet->bytes;
  start(packet, type, dispatch->scopes, dispatch->completion_signal);
  heddle_put(bytes + 2, dispatch->setup, 2);
  for (unsigned i = 0; i < 3; ++i) heddle_put(bytes + 4 + 2 * i, dispatch->workgroup[i], 2);
  heddle_put(bytes + 10, entry, 2);
  for (unsigned i = 0; i < 3; ++i) heddle_put(bytes + 12 + 4 * i, dispatch->grid[i], 4);
  heddle_put(bytes + 24, dispatch->private_segment, 4);
  heddle_put(bytes + 28, dispatch->group_segment, 4);
  heddle_put(bytes + 32, dispatch->kernel_object, 8);
  heddle_put(bytes + 40, dispatch->kernarg, 8);
}

void heddle_packet_invalid(struct heddle_packet* packet) { start(packet, HEDDLE_PACKET_INVALID, 0, 0); }

void heddle_packet_kernel(struct heddle_packet* packet, const struct heddle_dispatch* dispatch) {
  dispatch_packet(packet, HEDDLE_PACKET_KERNEL_DISPATCH, dispatch, 0);
}

enum heddle_status heddle_packet_reference(struct heddle_packet* packet, const struct heddle_dispatch* dispatch,
                                           unsigned entry) {
  if (entry >= HEDDLE_MOST_ENTRIES) return HEDDLE_INVALID;
  dispatch_packet(packet, HEDDLE_PACKET_REFERENCE_DISPATCH, dispatch, entry);
  return HEDDLE_OK;
}

enum heddle_status heddle_packet_barrier(struct heddle_packet* packet, enum heddle_packet_type type, uint8_t scopes,
                                         const uint64_t* signals, unsigned count, uint64_t completion_signal) {
  if (type != HEDDLE_PACKET_BARRIER_AND && type != HEDDLE_PACKET_BARRIER_OR) return HEDDLE_INVALID;
  if (count > HEDDLE_BARRIER_SIGNALS) return HEDDLE_INVALID;
  start(packet, type, scopes, completion_signal);
  for (unsigned i = 0; i < count; ++i) heddle_put(packet->bytes + 8 + 8 * i, signals[i], 8);
  return HEDDLE_OK;
}

void heddle_packet_agent(struct heddle_packet* packet, const struct heddle_agent* agent) {
  start(packet, HEDDLE_PACKET_AGENT_DISPATCH, agent->scopes, agent->completion_signal);
  heddle_put(packet->bytes + 2, agent->function, 2);
  heddle_put(packet->bytes + 8, agent->return_address, 8);
  for (unsigned i = 0; i < 4; ++i) heddle_put(packet->bytes + 16 + 8 * i, agent->arguments[i], 8);
}

enum heddle_status heddle_packet_read_agent(const struct heddle_packet* packet, struct heddle_agent* agent) {
  const uint8_t* const bytes = packet->bytes;
  if (bytes[0] != HEDDLE_PACKET_AGENT_DISPATCH) return HEDDLE_INVALID;
  agent->scopes = bytes[1];
  agent->function = (uint16_t)heddle_get(bytes + 2, 2);
  agent->return_address = heddle_get(bytes + 8, 8);
  for (unsigned i = 0; i < 4; ++i) agent->arguments[i] = heddle_get(bytes + 16 + 8 * i, 8);
  agent->completion_signal = heddle_get(bytes + 56, 8);
  return HEDDLE_OK;
}

enum vendor_format { VENDOR_COPY = 1, VENDOR_FILL = 2, VENDOR_HOLD = 3 };

static void vendor_packet(struct heddle_packet* packet, enum vendor_format format, uint8_t scopes, uint64_t to,
                          uint64_t bytes, uint64_t signal) {
  start(packet, HEDDLE_PACKET_VENDOR, scopes, signal);
  packet->bytes[2] = (uint8_t)format;
  heddle_put(packet->bytes + 16, to, 8);
  heddle_put(packet->bytes + 24, bytes, 8);
}

void heddle_packet_copy(struct heddle_packet* packet, uint8_t scopes, uint64_t from, uint64_t to, uint64_t bytes,
                        uint64_t completion_signal) {
  vendor_packet(packet, VENDOR_COPY, scopes, to, bytes, completion_signal);
  heddle_put(packet->bytes + 8, from, 8);
}

void heddle_packet_fill(struct heddle_packet* packet, uint8_t scopes, uint64_t to, uint64_t bytes, uint32_t value,
                        uint64_t completion_signal) {
  vendor_packet(packet, VENDOR_FILL, scopes, to, bytes, completion_signal);
  heddle_put(packet->bytes + 4, value, 4);
}

void heddle_packet_hold(struct heddle_packet* packet, uint8_t scopes, uint64_t nanoseconds,
                        uint64_t completion_signal) {
  vendor_packet(packet, VENDOR_HOLD, scopes, 0, nanoseconds, completion_signal);
}
