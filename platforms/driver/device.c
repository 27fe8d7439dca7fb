#include "access.h"

enum heddle_status heddle_device_open(struct heddle_device* device, const struct heddle_bus* bus) {
  memset(device, 0, sizeof *device);
  device->bus = *bus;
  uint32_t magic = 0;
  if (!heddle_read32(device, HEDDLE_REG_MAGIC, &magic)) return HEDDLE_BUS;
  if (magic != HEDDLE_DEVICE_MAGIC) return HEDDLE_NO_DEVICE;
  if (!heddle_read32(device, HEDDLE_REG_VERSION, &device->version)) return HEDDLE_BUS;
  if (((device->version ^ HEDDLE_REGISTER_VERSION) & HEDDLE_VERSION_MAJOR_MASK) != 0) return HEDDLE_VERSION;
  return heddle_checked(heddle_read32(device, HEDDLE_REG_SMS, &device->sms) &&
                        heddle_read32(device, HEDDLE_REG_GPCS, &device->gpcs) &&
                        heddle_read32(device, HEDDLE_REG_QUEUES, &device->queues) &&
                        heddle_read32(device, HEDDLE_REG_COPY_ENGINES, &device->copy_engines) &&
                        heddle_read32(device, HEDDLE_REG_COPY_CHANNELS, &device->copy_channels) &&
                        heddle_read64(device, HEDDLE_REG_MEMORY_BYTES, &device->memory) &&
                        heddle_read32(device, HEDDLE_REG_CLOCK_MHZ, &device->clock_mhz) &&
                        heddle_read32(device, HEDDLE_REG_CLOCK_PERIOD, &device->clock_period) &&
                        heddle_read64(device, HEDDLE_REG_TIMESTAMP_RATE, &device->timestamp_rate) &&
                        heddle_read32(device, HEDDLE_REG_DOORBELL_PAGE, &device->doorbell_page) &&
                        heddle_read32(device, HEDDLE_REG_THREADS_LIMIT, &device->threads_limit) &&
                        heddle_read32(device, HEDDLE_REG_SHARED_LIMIT, &device->shared_limit));
}

enum heddle_status heddle_device_packets(const struct heddle_device* device, struct heddle_packet_setup* setup) {
  if ((device->version & HEDDLE_VERSION_MINOR_MASK) == 0) return HEDDLE_VERSION;
  uint32_t bits = 0;
  if (!heddle_read32(device, HEDDLE_REG_PACKET_FORMAT, &bits)) return HEDDLE_BUS;
  setup->table_entries = (bits & HEDDLE_PACKET_FORMAT_ENTRIES_MASK) >> HEDDLE_PACKET_FORMAT_ENTRIES_SHIFT;
  setup->format.reference_bits =
      (bits & HEDDLE_PACKET_FORMAT_REFERENCE_BITS_MASK) >> HEDDLE_PACKET_FORMAT_REFERENCE_BITS_SHIFT;
  setup->format.vector_bits = (bits & HEDDLE_PACKET_FORMAT_VECTOR_BITS_MASK) >> HEDDLE_PACKET_FORMAT_VECTOR_BITS_SHIFT;
  setup->format.stored = (bits & HEDDLE_PACKET_FORMAT_STORED_MASK) != 0;
  setup->shared_table = (bits & HEDDLE_PACKET_FORMAT_SHARED_TABLE_MASK) != 0;
  setup->overlap = (bits & HEDDLE_PACKET_FORMAT_OVERLAP_MASK) != 0;
  return HEDDLE_OK;
}

enum heddle_status heddle_device_timestamp(const struct heddle_device* device, uint64_t* ticks) {
  return heddle_checked(heddle_read64(device, HEDDLE_REG_TIMESTAMP, ticks));
}

enum heddle_status heddle_device_interrupts(const struct heddle_device* device, uint32_t* status) {
  return heddle_checked(heddle_read32(device, HEDDLE_REG_INT_STATUS, status));
}

enum heddle_status heddle_device_mask(const struct heddle_device* device, uint32_t mask) {
  return heddle_checked(heddle_write32(device, HEDDLE_REG_INT_MASK, mask));
}

enum heddle_status heddle_device_acknowledge(const struct heddle_device* device, uint32_t bits) {
  return heddle_checked(heddle_write32(device, HEDDLE_REG_INT_STATUS, bits));
}

enum heddle_status heddle_device_event(const struct heddle_device* device, uint32_t* event_id) {
  uint64_t event = 0;
  if (!heddle_read64(device, HEDDLE_REG_EVENT, &event)) return HEDDLE_BUS;
  if ((event & HEDDLE_EVENT_VALID_MASK) == 0) return HEDDLE_EMPTY;
  *event_id = (uint32_t)(event & HEDDLE_EVENT_ID_MASK);
  return HEDDLE_OK;
}

enum heddle_status heddle_device_reset(const struct heddle_device* device, uint64_t limit) {
  if (!heddle_write32(device, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK)) return HEDDLE_BUS;
  /* What the life before has sent may still write the host's memory, which the caller wants to use again. */
  for (uint64_t looks = 0;;) {
    uint32_t status = 0;
    if (!heddle_read32(device, HEDDLE_REG_STATUS, &status)) return HEDDLE_BUS;
    if ((status & HEDDLE_STATUS_RESET_BUSY_MASK) == 0) return HEDDLE_OK;
    if (!heddle_relax(&device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}

const char* heddle_reason_text(uint32_t reason) {
  switch (reason) {
#define HEDDLE_REASON_CASE(number, text) \
  case number:                           \
    return text;
    HEDDLE_REASON_TEXTS(HEDDLE_REASON_CASE)
#undef HEDDLE_REASON_CASE
    default:
      return "unknown reason";
  }
}

enum heddle_status heddle_device_error(const struct heddle_device* device, struct heddle_error* error) {
  return heddle_checked(heddle_read32(device, HEDDLE_REG_ERROR_COUNT, &error->count) &&
                        heddle_read32(device, HEDDLE_REG_ERROR_QUEUE, &error->queue) &&
                        heddle_read32(device, HEDDLE_REG_ERROR_STATUS, &error->status) &&
                        heddle_read32(device, HEDDLE_REG_ERROR_REASON, &error->reason) &&
                        heddle_read32(device, HEDDLE_REG_ERROR_KERNEL, &error->kernel) &&
                        heddle_read64(device, HEDDLE_REG_ERROR_INDEX, &error->index));
}

enum heddle_status heddle_copy_start(const struct heddle_device* device, uint32_t channel,
                                     const struct heddle_copy* copy) {
  if (channel >= device->copy_channels) return HEDDLE_INVALID;
  uint32_t state = 0;
  if (!heddle_read32(device, HEDDLE_REG_COPY_STATE(channel), &state)) return HEDDLE_BUS;
  if (state == HEDDLE_COPY_STATE_BUSY) return HEDDLE_BUSY;
  return heddle_checked(heddle_write64(device, HEDDLE_REG_COPY_FROM(channel), copy->from) &&
                        heddle_write64(device, HEDDLE_REG_COPY_TO(channel), copy->to) &&
                        heddle_write64(device, HEDDLE_REG_COPY_BYTES(channel), copy->bytes) &&
                        heddle_write32(device, HEDDLE_REG_COPY_VALUE(channel), copy->value) &&
                        heddle_write32(device, HEDDLE_REG_COPY_KIND(channel), (uint32_t)copy->kind) &&
                        heddle_write32(device, HEDDLE_REG_COPY_SUBCONTEXT(channel), copy->subcontext) &&
                        heddle_write32(device, HEDDLE_REG_COPY_COMMAND(channel), HEDDLE_COPY_COMMAND_START));
}

enum heddle_status heddle_copy_wait(const struct heddle_device* device, uint32_t channel, uint64_t limit,
                                    enum heddle_copy_state* state, uint32_t* hsa) {
  if (channel >= device->copy_channels) return HEDDLE_INVALID;
  for (uint64_t looks = 0;;) {
    uint32_t raw = 0;
    if (!heddle_read32(device, HEDDLE_REG_COPY_STATE(channel), &raw)) return HEDDLE_BUS;
    *state = (enum heddle_copy_state)raw;
    if (*state != HEDDLE_COPY_STATE_BUSY) break;
    if (!heddle_relax(&device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
  return heddle_checked(heddle_read32(device, HEDDLE_REG_COPY_STATUS(channel), hsa));
}

static enum heddle_status command_window(const struct heddle_device* device, uint8_t subcontext, uint32_t command) {
  return heddle_checked(heddle_write32(device, HEDDLE_REG_WINDOW_SUBCONTEXT, subcontext) &&
                        heddle_write32(device, HEDDLE_REG_WINDOW_COMMAND, command));
}

enum heddle_status heddle_windows_isolate(const struct heddle_device* device, bool isolate) {
  return command_window(device, 0, isolate ? HEDDLE_WINDOW_COMMAND_ISOLATE : HEDDLE_WINDOW_COMMAND_SHARE);
}

enum heddle_status heddle_window_open(const struct heddle_device* device, const struct heddle_window* window) {
  const uint64_t last = window->address + window->bytes - 1;
  if (window->subcontext >= HEDDLE_SUBCONTEXTS || window->address < HEDDLE_HOST_WINDOW || window->bytes == 0 ||
      (window->address | window->bytes) % HEDDLE_WINDOW_PAGE != 0 || last < window->address ||
      !(window->reads || window->writes)) {
    return HEDDLE_INVALID;
  }
  uint32_t before = 0;
  uint32_t after = 0;
  const uint32_t rights =
      (window->reads ? HEDDLE_WINDOW_RIGHTS_READ_MASK : 0) | (window->writes ? HEDDLE_WINDOW_RIGHTS_WRITE_MASK : 0);
  if (!heddle_read32(device, HEDDLE_REG_WINDOW_COUNT, &before) ||
      !heddle_write64(device, HEDDLE_REG_WINDOW_ADDRESS, window->address) ||
      !heddle_write64(device, HEDDLE_REG_WINDOW_BYTES, window->bytes) ||
      !heddle_write32(device, HEDDLE_REG_WINDOW_RIGHTS, rights) ||
      !heddle_write32(device, HEDDLE_REG_WINDOW_SUBCONTEXT, window->subcontext)) {
    return HEDDLE_BUS;
  }
  /* The device refuses a window that it has no room for: then there are as many as before. */
  const bool done = heddle_write32(device, HEDDLE_REG_WINDOW_COMMAND, HEDDLE_WINDOW_COMMAND_OPEN);
  if (!heddle_read32(device, HEDDLE_REG_WINDOW_COUNT, &after)) return HEDDLE_BUS;
  return !done && after == before ? HEDDLE_FULL : heddle_checked(done);
}

enum heddle_status heddle_windows_close(const struct heddle_device* device, uint8_t subcontext) {
  if (subcontext >= HEDDLE_SUBCONTEXTS) return HEDDLE_INVALID;
  return command_window(device, subcontext, HEDDLE_WINDOW_COMMAND_CLOSE);
}

enum heddle_status heddle_windows_fault(const struct heddle_device* device, struct heddle_window_fault* fault) {
  return heddle_checked(heddle_read32(device, HEDDLE_REG_WINDOW_FAULT_COUNT, &fault->count) &&
                        heddle_read64(device, HEDDLE_REG_WINDOW_FAULT_ADDRESS, &fault->address) &&
                        heddle_read32(device, HEDDLE_REG_WINDOW_FAULT_SUBCONTEXT, &fault->subcontext) &&
                        heddle_read32(device, HEDDLE_REG_WINDOW_FAULT_ACCESS, &fault->access));
}
