#include <stdatomic.h>

#include "access.h"

uint64_t heddle_word_fetch_add(void* word, uint64_t value) {
  return atomic_fetch_add_explicit((_Atomic uint64_t*)word, value, memory_order_acq_rel);
}

uint64_t heddle_word_compare_exchange(void* word, uint64_t expected, uint64_t value) {
  (void)atomic_compare_exchange_strong_explicit((_Atomic uint64_t*)word, &expected, value, memory_order_acq_rel,
                                                memory_order_acquire);
  return expected;
}

static bool is_valid(const struct heddle_device* device, uint32_t number, const struct heddle_queue_setup* setup) {
  if (number >= device->queues || number >= HEDDLE_MAX_QUEUES) return false;
  if (setup->size < HEDDLE_MIN_QUEUE || setup->size > HEDDLE_MAX_QUEUE) return false;
  if ((setup->size & (setup->size - 1)) != 0) return false;
  if (setup->ring % HEDDLE_PACKET_BYTES != 0 || setup->read_index % 8 != 0) return false;
  if (setup->write_index == 0 || setup->write_index % 8 != 0 || setup->subcontext >= HEDDLE_SUBCONTEXTS) return false;
  return device->bus.fetch_add != NULL && device->bus.compare_exchange != NULL;
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
  uint8_t first[8];
  heddle_put(first, queue->setup.first, 8);
  if (!store(queue, queue->setup.write_index, first, sizeof first)) return false;
  if (queue->setup.read_index == 0) return true;
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
  queue->read_index = setup->first;
  queue->attached = false;
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

enum heddle_status heddle_queue_attach(struct heddle_queue* queue, const struct heddle_device* device, uint32_t number,
                                       const struct heddle_queue_setup* setup) {
  if (!is_valid(device, number, setup) || setup->read_index == 0) return HEDDLE_INVALID;
  queue->device = device;
  queue->number = number;
  queue->setup = *setup;
  queue->read_index = setup->first;
  queue->attached = true;
  return HEDDLE_OK;
}

/* Until the queue is in one of two states. */
static enum heddle_status wait_for(const struct heddle_queue* queue, enum heddle_queue_state one,
                                   enum heddle_queue_state other, uint64_t limit) {
  for (uint64_t looks = 0;;) {
    enum heddle_queue_state state = HEDDLE_QUEUE_STATE_CLOSED;
    const enum heddle_status status = heddle_queue_get_state(queue, &state);
    if (status != HEDDLE_OK || state == one || state == other) return status;
    if (!heddle_relax(&queue->device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
}

enum heddle_status heddle_queue_inactivate(struct heddle_queue* queue, uint64_t limit) {
  if (!command(queue, HEDDLE_QUEUE_COMMAND_INACTIVATE)) return HEDDLE_BUS;
  return wait_for(queue, HEDDLE_QUEUE_STATE_INACTIVE, HEDDLE_QUEUE_STATE_CLOSED, limit);
}

enum heddle_status heddle_queue_destroy(struct heddle_queue* queue, uint64_t limit) {
  if (!command(queue, HEDDLE_QUEUE_COMMAND_CLOSE)) return HEDDLE_BUS;
  return wait_for(queue, HEDDLE_QUEUE_STATE_CLOSED, HEDDLE_QUEUE_STATE_CLOSED, limit);
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

static bool has_room(const struct heddle_queue* queue, uint64_t index, uint32_t count) {
  return index - queue->read_index + count <= queue->setup.size;
}

enum heddle_status heddle_queue_load_write_index(const struct heddle_queue* queue, uint64_t* index) {
  return heddle_queue_add_write_index(queue, 0, index);
}

enum heddle_status heddle_queue_store_write_index(const struct heddle_queue* queue, uint64_t index) {
  uint8_t bytes[8];
  heddle_put(bytes, index, 8);
  return heddle_checked(store(queue, queue->setup.write_index, bytes, sizeof bytes));
}

enum heddle_status heddle_queue_add_write_index(const struct heddle_queue* queue, uint64_t count, uint64_t* old) {
  const struct heddle_bus* const bus = &queue->device->bus;
  return heddle_checked(bus->fetch_add(bus->context, queue->setup.write_index, count, old));
}

enum heddle_status heddle_queue_cas_write_index(const struct heddle_queue* queue, uint64_t expected, uint64_t index,
                                                uint64_t* old) {
  const struct heddle_bus* const bus = &queue->device->bus;
  return heddle_checked(bus->compare_exchange(bus->context, queue->setup.write_index, expected, index, old));
}

enum heddle_status heddle_queue_reserve(struct heddle_queue* queue, uint32_t count, uint64_t* index) {
  if (count == 0 || count > queue->setup.size) return HEDDLE_INVALID;
  uint64_t at = 0;
  enum heddle_status status = heddle_queue_load_write_index(queue, &at);
  while (status == HEDDLE_OK) {
    if (!has_room(queue, at, count)) {
      uint64_t taken = 0;
      status = heddle_queue_taken(queue, &taken);
      if (status != HEDDLE_OK) return status;
      if (!has_room(queue, at, count)) return HEDDLE_FULL;
    }
    uint64_t old = 0;
    status = heddle_queue_cas_write_index(queue, at, at + count, &old);
    if (status == HEDDLE_OK && old == at) {
      *index = at;
      return HEDDLE_OK;
    }
    at = old; /* another producer was faster */
  }
  return status;
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
  const uint32_t page = queue->setup.subcontext * queue->device->doorbell_page;
  return heddle_checked(heddle_write64(queue->device, HEDDLE_REG_DOORBELL(queue->number) + page, index));
}

static enum heddle_status check_active(const struct heddle_queue* queue) {
  if (queue->attached) return HEDDLE_OK;
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
  if (active != HEDDLE_OK || count == 0) return active;
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t next = 0;
    enum heddle_status status = heddle_queue_reserve(queue, 1, &next);
    if (status == HEDDLE_FULL) {
      if (i > 0) status = heddle_queue_ring(queue, at);
      if (status == HEDDLE_FULL || status == HEDDLE_OK) status = wait_for_room(queue, limit, &next);
    }
    if (status == HEDDLE_OK) status = heddle_queue_publish(queue, next, &packets[i]);
    if (status != HEDDLE_OK) return status;
    at = next;
  }
  if (index != NULL) *index = at;
  return heddle_queue_ring(queue, at);
}

enum heddle_status heddle_queue_error(const struct heddle_queue* queue, struct heddle_error* error) {
  const struct heddle_device* const device = queue->device;
  enum heddle_queue_state state = HEDDLE_QUEUE_STATE_CLOSED;
  const enum heddle_status status = heddle_queue_get_state(queue, &state);
  if (status != HEDDLE_OK) return status;
  error->count = state == HEDDLE_QUEUE_STATE_ERROR ? 1 : 0;
  error->queue = queue->number;
  return heddle_checked(heddle_read32(device, HEDDLE_REG_QUEUE_ERROR_STATUS(queue->number), &error->status) &&
                        heddle_read32(device, HEDDLE_REG_QUEUE_ERROR_REASON(queue->number), &error->reason) &&
                        heddle_read32(device, HEDDLE_REG_QUEUE_ERROR_KERNEL(queue->number), &error->kernel) &&
                        heddle_read64(device, HEDDLE_REG_QUEUE_ERROR_INDEX(queue->number), &error->index));
}

enum heddle_status heddle_queue_take_agent(const struct heddle_queue* queue, uint64_t* index,
                                           struct heddle_agent* agent) {
  const struct heddle_device* const device = queue->device;
  uint32_t state = 0;
  if (!heddle_read32(device, HEDDLE_REG_AGENT_STATE(queue->number), &state)) return HEDDLE_BUS;
  if ((state & HEDDLE_AGENT_STATE_WAITING_MASK) == 0) return HEDDLE_EMPTY;
  if (!heddle_read64(device, HEDDLE_REG_AGENT_INDEX(queue->number), index)) return HEDDLE_BUS;
  struct heddle_packet packet;
  for (uint32_t word = 0; word < HEDDLE_AGENT_WORDS; ++word) {
    uint64_t value = 0;
    if (!heddle_read64(device, HEDDLE_REG_AGENT_PACKET(queue->number, word), &value)) return HEDDLE_BUS;
    heddle_put(packet.bytes + 8 * word, value, 8);
  }
  if (!heddle_write32(device, HEDDLE_REG_AGENT_TAKE(queue->number), 1)) return HEDDLE_BUS;
  return heddle_packet_read_agent(&packet, agent);
}

enum heddle_status heddle_queue_agent_done(const struct heddle_queue* queue, uint64_t index, uint32_t hsa) {
  return heddle_checked(heddle_write64(queue->device, HEDDLE_REG_AGENT_DONE_INDEX(queue->number), index) &&
                        heddle_write32(queue->device, HEDDLE_REG_AGENT_DONE(queue->number), hsa));
}
