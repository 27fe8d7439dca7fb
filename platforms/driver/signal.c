#include "access.h"

#define START_AT 32u

static uint64_t address_of(uint64_t handle) { return handle & ~(HEDDLE_SIGNAL_INTERRUPT | HEDDLE_SIGNAL_TIMESTAMPS); }

static bool is_stamped(uint64_t handle) { return (handle & HEDDLE_SIGNAL_TIMESTAMPS) != 0; }

static size_t bytes_of(uint64_t handle) {
  return is_stamped(handle) ? HEDDLE_STAMPED_SIGNAL_BYTES : HEDDLE_SIGNAL_BYTES;
}

static bool is_valid(uint64_t handle) { return address_of(handle) != 0 && address_of(handle) % bytes_of(handle) == 0; }

enum heddle_status heddle_signal_init(const struct heddle_bus* bus, uint64_t handle, int64_t value, uint64_t mailbox,
                                      uint32_t event_id) {
  if (!is_valid(handle)) return HEDDLE_INVALID;
  uint8_t bytes[HEDDLE_STAMPED_SIGNAL_BYTES] = {0};
  heddle_put(bytes, (uint64_t)value, 8);
  heddle_put(bytes + 8, mailbox, 8);
  heddle_put(bytes + 16, event_id, 4);
  return heddle_checked(bus->store(bus->context, address_of(handle), bytes, bytes_of(handle)));
}

enum heddle_status heddle_signal_times(const struct heddle_bus* bus, uint64_t handle, uint64_t* start, uint64_t* end) {
  if (!is_valid(handle) || !is_stamped(handle)) return HEDDLE_INVALID;
  uint8_t bytes[16];
  if (!bus->load(bus->context, address_of(handle) + START_AT, bytes, sizeof bytes)) return HEDDLE_BUS;
  *start = heddle_get(bytes, 8);
  *end = heddle_get(bytes + 8, 8);
  return HEDDLE_OK;
}

enum heddle_status heddle_signal_load(const struct heddle_bus* bus, uint64_t handle, int64_t* value) {
  if (!is_valid(handle)) return HEDDLE_INVALID;
  uint8_t bytes[8];
  if (!bus->load(bus->context, address_of(handle), bytes, sizeof bytes)) return HEDDLE_BUS;
  const uint64_t raw = heddle_get(bytes, 8);
  memcpy(value, &raw, sizeof raw);
  return HEDDLE_OK;
}

enum heddle_status heddle_signal_store(const struct heddle_bus* bus, uint64_t handle, int64_t value) {
  if (!is_valid(handle)) return HEDDLE_INVALID;
  uint8_t bytes[8];
  heddle_put(bytes, (uint64_t)value, 8);
  heddle_barrier(bus);
  return heddle_checked(bus->store(bus->context, address_of(handle), bytes, sizeof bytes));
}

static bool holds(enum heddle_condition condition, int64_t value, int64_t compare) {
  switch (condition) {
    case HEDDLE_EQUAL:
      return value == compare;
    case HEDDLE_NOT_EQUAL:
      return value != compare;
    case HEDDLE_LESS:
      return value < compare;
    default:
      return value >= compare;
  }
}

enum heddle_status heddle_signal_wait(const struct heddle_bus* bus, uint64_t handle, enum heddle_condition condition,
                                      int64_t compare, uint64_t limit, int64_t* value) {
  for (uint64_t looks = 0;;) {
    int64_t seen = 0;
    const enum heddle_status status = heddle_signal_load(bus, handle, &seen);
    if (status != HEDDLE_OK) return status;
    if (value != NULL) *value = seen;
    if (holds(condition, seen, compare)) return HEDDLE_OK;
    if (!heddle_relax(bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}
