#include "access.h"

static bool is_valid(const struct heddle_device* device, uint32_t number, const struct heddle_queue_setup* setup) {
  if (number >= device->queues || number >= HEDDLE_MAX_QUEUES) return false;
  if (setup->size < HEDDLE_MIN_QUEUE || setup->size > HEDDLE_MAX_QUEUE) return false;
  if ((setup->size & (setup->size - 1)) != 0) return false;
  return setup->ring % HEDDLE_PACKET_BYTES == 0 && setup->read_index % 8 == 0;
}

static uint64_t slot(const struct heddle_queue* queue, uint64_t index) {
  return queue->setup.ring + (index & (queue->setup.size - 1)) * HEDDLE_PACKET_BYTES;
}

static bool store(const struct heddle_queue* queue, uint64_t address, const void* from, size_t bytes) {
  return queue->device->bus.store(queue->device->bus.context, address, from, bytes);
}

/* What lay in the ring before must not look like packets. */
static bool clear(const struct heddle_queue* queue) {
  struct heddle_packet invalid;
  heddle_packet_invalid(&invalid);
  for (uint32_t i = 0; i < queue->setup.size; ++i) {
    if (!store(queue, slot(queue, i), invalid.bytes, HEDDLE_PACKET_BYTES)) return false;
  }
  if (queue->setup.read_index == 0) return true;
  uint8_t first[8];
  heddle_put(first, queue->setup.first, 8);
  return store(queue, queue->setup.read_index, first, sizeof first);
}

static bool set_registers(const struct heddle_queue* queue) {
  const struct heddle_device* const device = queue->device;
  const struct heddle_queue_setup* const setup = &queue->setup;
  const uint32_t number = queue->number;
  return heddle_write64(device, HEDDLE_REG_QUEUE_BASE(number), setup->ring) &&
         heddle_write64(device, HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(number), setup->read_index) &&
         heddle_write64(device, HEDDLE_REG_QUEUE_FIRST(number), setup->first) &&
         heddle_write32(device, HEDDLE_REG_QUEUE_SIZE(number), setup->size) &&
         heddle_write32(device, HEDDLE_REG_QUEUE_PRIORITY(number), (uint32_t)setup->priority) &&
         heddle_write32(device, HEDDLE_REG_QUEUE_SUBCONTEXT(number), setup->subcontext);
}

static bool command(const struct heddle_queue* queue, enum heddle_queue_command what) {
  return heddle_write32(queue->device, HEDDLE_REG_QUEUE_COMMAND(queue->number), (uint32_t)what);
}

enum heddle_status heddle_queue_get_state(const struct heddle_queue* queue, enum heddle_queue_state* state) {
  uint32_t raw = 0;
  if (!heddle_read32(queue->device, HEDDLE_REG_QUEUE_STATE(queue->number), &raw)) return HEDDLE_BUS;
  *state = (enum heddle_queue_state)raw;
  return HEDDLE_OK;
}

enum heddle_status heddle_queue_create(struct heddle_queue* queue, const struct heddle_device* device, uint32_t number,
                                       const struct heddle_queue_setup* setup, uint64_t limit) {
  if (!is_valid(device, number, setup)) return HEDDLE_INVALID;
  queue->device = device;
  queue->number = number;
  queue->setup = *setup;
  queue->write_index = setup->first;
  queue->read_index = setup->first;
  enum heddle_queue_state state = HEDDLE_QUEUE_STATE_CLOSED;
  enum heddle_status status = heddle_queue_get_state(queue, &state);
  if (status != HEDDLE_OK) return status;
  if (state != HEDDLE_QUEUE_STATE_CLOSED) return HEDDLE_BUSY;

  if (!clear(queue)) return HEDDLE_BUS;
  heddle_barrier(&device->bus);
  if (!set_registers(queue) || !command(queue, HEDDLE_QUEUE_COMMAND_OPEN)) return HEDDLE_BUS;
  for (uint64_t looks = 0;;) {
    status = heddle_queue_get_state(queue, &state);
    if (status != HEDDLE_OK) return status;
    if (state == HEDDLE_QUEUE_STATE_ACTIVE) return HEDDLE_OK;
    if (state == HEDDLE_QUEUE_STATE_ERROR) return HEDDLE_QUEUE_ERROR;
    if (!heddle_relax(&device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}

enum heddle_status heddle_queue_destroy(struct heddle_queue* queue, uint64_t limit) {
  if (!command(queue, HEDDLE_QUEUE_COMMAND_CLOSE)) return HEDDLE_BUS;
  for (uint64_t looks = 0;;) {
    enum heddle_queue_state state = HEDDLE_QUEUE_STATE_CLOSED;
    const enum heddle_status status = heddle_queue_get_state(queue, &state);
    if (status != HEDDLE_OK || state == HEDDLE_QUEUE_STATE_CLOSED) return status;
    if (!heddle_relax(&queue->device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}

enum heddle_status heddle_queue_taken(struct heddle_queue* queue, uint64_t* read_index) {
  const struct heddle_device* const device = queue->device;
  if (queue->setup.read_index == 0) {
    if (!heddle_read64(device, HEDDLE_REG_QUEUE_READ_INDEX(queue->number), &queue->read_index)) return HEDDLE_BUS;
  } else {
    uint8_t bytes[8];
    if (!device->bus.load(device->bus.context, queue->setup.read_index, bytes, sizeof bytes)) return HEDDLE_BUS;
    queue->read_index = heddle_get(bytes, 8);
  }
  *read_index = queue->read_index;
  return HEDDLE_OK;
}

static bool has_room(const struct heddle_queue* queue, uint32_t count) {
  return queue->write_index - queue->read_index + count <= queue->setup.size;
}

enum heddle_status heddle_queue_reserve(struct heddle_queue* queue, uint32_t count, uint64_t* index) {
  if (count == 0 || count > queue->setup.size) return HEDDLE_INVALID;
  if (!has_room(queue, count)) {
    uint64_t taken = 0;
    const enum heddle_status status = heddle_queue_taken(queue, &taken);
    if (status != HEDDLE_OK) return status;
    if (!has_room(queue, count)) return HEDDLE_FULL;
  }
  *index = queue->write_index;
  queue->write_index += count;
  return HEDDLE_OK;
}

enum heddle_status heddle_queue_write_body(const struct heddle_queue* queue, uint64_t index,
                                           const struct heddle_packet* packet) {
  return heddle_checked(store(queue, slot(queue, index) + 2, packet->bytes + 2, HEDDLE_PACKET_BYTES - 2));
}

enum heddle_status heddle_queue_write_header(const struct heddle_queue* queue, uint64_t index,
                                             const struct heddle_packet* packet) {
  heddle_barrier(&queue->device->bus);
  return heddle_checked(store(queue, slot(queue, index), packet->bytes, 2));
}

enum heddle_status heddle_queue_publish(const struct heddle_queue* queue, uint64_t index,
                                        const struct heddle_packet* packet) {
  const enum heddle_status status = heddle_queue_write_body(queue, index, packet);
  return status == HEDDLE_OK ? heddle_queue_write_header(queue, index, packet) : status;
}

enum heddle_status heddle_queue_ring(const struct heddle_queue* queue, uint64_t index) {
  heddle_barrier(&queue->device->bus);
  return heddle_checked(heddle_write64(queue->device, HEDDLE_REG_DOORBELL(queue->number), index));
}

static enum heddle_status check_active(const struct heddle_queue* queue) {
  enum heddle_queue_state state = HEDDLE_QUEUE_STATE_ACTIVE;
  const enum heddle_status status = heddle_queue_get_state(queue, &state);
  if (status != HEDDLE_OK) return status;
  return state == HEDDLE_QUEUE_STATE_ACTIVE ? HEDDLE_OK : HEDDLE_QUEUE_ERROR;
}

static enum heddle_status wait_for_room(struct heddle_queue* queue, uint64_t limit, uint64_t* index) {
  for (uint64_t looks = 0;;) {
    enum heddle_status status = heddle_queue_reserve(queue, 1, index);
    if (status != HEDDLE_FULL) return status;
    status = check_active(queue);
    if (status != HEDDLE_OK) return status;
    if (!heddle_relax(&queue->device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}

enum heddle_status heddle_queue_submit(struct heddle_queue* queue, const struct heddle_packet* packets, uint32_t count,
                                       uint64_t limit, uint64_t* index) {
  const enum heddle_status active = check_active(queue);
  if (active != HEDDLE_OK) return active;
  uint64_t at = queue->write_index - 1;
  for (uint32_t i = 0; i < count; ++i) {
    enum heddle_status status = heddle_queue_reserve(queue, 1, &at);
    if (status == HEDDLE_FULL) {
      if (i > 0) status = heddle_queue_ring(queue, queue->write_index - 1);
      if (status == HEDDLE_FULL || status == HEDDLE_OK) status = wait_for_room(queue, limit, &at);
    }
    if (status == HEDDLE_OK) status = heddle_queue_publish(queue, at, &packets[i]);
    if (status != HEDDLE_OK) return status;
  }
  if (index != NULL) *index = at;
  return count == 0 ? HEDDLE_OK : heddle_queue_ring(queue, at);
}

enum heddle_status heddle_queue_error(const struct heddle_queue* queue, struct heddle_error* error) {
  const struct heddle_device* const device = queue->device;
  enum heddle_queue_state state = HEDDLE_QUEUE_STATE_CLOSED;
  const enum heddle_status status = heddle_queue_get_state(queue, &state);
  if (status != HEDDLE_OK) return status;
  error->count = state == HEDDLE_QUEUE_STATE_ERROR ? 1 : 0;
  error->queue = queue->number;
  return heddle_checked(heddle_read32(device, HEDDLE_REG_QUEUE_ERROR_STATUS(queue->number), &error->status) &&
                        heddle_read32(device, HEDDLE_REG_QUEUE_ERROR_KERNEL(queue->number), &error->kernel) &&
                        heddle_read64(device, HEDDLE_REG_QUEUE_ERROR_INDEX(queue->number), &error->index));
}

enum heddle_status heddle_queue_take_agent(const struct heddle_queue* queue, uint64_t* index,
                                           struct heddle_agent* agent) {
  const struct heddle_device* const device = queue->device;
  uint32_t state = 0;
  if (!heddle_read32(device, HEDDLE_REG_AGENT_STATE(queue->number), &state)) return HEDDLE_BUS;
  if ((state & HEDDLE_AGENT_STATE_HELD_MASK) == 0) return HEDDLE_EMPTY;
  if (!heddle_read64(device, HEDDLE_REG_AGENT_INDEX(queue->number), index)) return HEDDLE_BUS;
  struct heddle_packet packet;
  for (uint32_t word = 0; word < HEDDLE_AGENT_WORDS; ++word) {
    uint64_t value = 0;
    if (!heddle_read64(device, HEDDLE_REG_AGENT_PACKET(queue->number, word), &value)) return HEDDLE_BUS;
    heddle_put(packet.bytes + 8 * word, value, 8);
  }
  return heddle_packet_read_agent(&packet, agent);
}

enum heddle_status heddle_queue_agent_done(const struct heddle_queue* queue, uint32_t hsa) {
  return heddle_checked(heddle_write32(queue->device, HEDDLE_REG_AGENT_DONE(queue->number), hsa));
}
