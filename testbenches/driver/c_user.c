/* The host library from C: a queue in memory of this program, without a device behind it but a few registers. */
#include <stdio.h>
#include <string.h>

#include "driver/heddle_driver.h"

#define MEMORY 4096u
#define RING 1024u
#define INDEX 512u
#define QUEUE 3u

struct board {
  _Alignas(8) uint8_t memory[MEMORY];
  uint32_t state;
  uint64_t doorbell;
};

static bool read_register(void* context, uint32_t offset, unsigned bytes, uint64_t* value) {
  const struct board* board = context;
  (void)bytes;
  *value = 0;
  if (offset == HEDDLE_REG_MAGIC) *value = HEDDLE_DEVICE_MAGIC;
  if (offset == HEDDLE_REG_VERSION) *value = HEDDLE_REGISTER_VERSION;
  if (offset == HEDDLE_REG_QUEUES) *value = 8;
  if (offset == HEDDLE_REG_QUEUE_STATE(QUEUE)) *value = board->state;
  return true;
}

static bool write_register(void* context, uint32_t offset, unsigned bytes, uint64_t value) {
  struct board* board = context;
  (void)bytes;
  if (offset == HEDDLE_REG_QUEUE_COMMAND(QUEUE)) {
    board->state = value == HEDDLE_QUEUE_COMMAND_OPEN ? HEDDLE_QUEUE_STATE_ACTIVE : HEDDLE_QUEUE_STATE_CLOSED;
  }
  if (offset == HEDDLE_REG_DOORBELL(QUEUE)) board->doorbell = value;
  return true;
}

static bool load(void* context, uint64_t address, void* to, size_t bytes) {
  const struct board* board = context;
  if (address > MEMORY || bytes > MEMORY - address) return false;
  memcpy(to, board->memory + address, bytes);
  return true;
}

static bool store(void* context, uint64_t address, const void* from, size_t bytes) {
  struct board* board = context;
  if (address > MEMORY || bytes > MEMORY - address) return false;
  memcpy(board->memory + address, from, bytes);
  return true;
}

static bool fetch_add(void* context, uint64_t address, uint64_t value, uint64_t* old) {
  struct board* board = context;
  *old = heddle_word_fetch_add(board->memory + address, value);
  return true;
}

static bool compare_exchange(void* context, uint64_t address, uint64_t expected, uint64_t value, uint64_t* old) {
  struct board* board = context;
  *old = heddle_word_compare_exchange(board->memory + address, expected, value);
  return true;
}

static int failed(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(void) {
  static struct board board;
  const struct heddle_bus bus = {&board, read_register, write_register,  load, store, NULL,
                                 NULL,   fetch_add,     compare_exchange};
  struct heddle_device device;
  if (heddle_device_open(&device, &bus) != HEDDLE_OK) return failed("the device does not open");

  const struct heddle_queue_setup setup = {RING, 8, 0, INDEX, 0, 0, 0};
  struct heddle_queue queue;
  if (heddle_queue_create(&queue, &device, QUEUE, &setup, 10) != HEDDLE_OK) return failed("the queue does not open");

  struct heddle_dispatch dispatch = {
      HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM), 1, {64, 1, 1}, {4096, 1, 1}, 0, 0, 0x8000, 0, 0};
  struct heddle_packet packets[2];
  heddle_packet_kernel(&packets[0], &dispatch);
  if (heddle_packet_reference(&packets[1], &dispatch, 5) != HEDDLE_OK) return failed("no reference packet");
  uint64_t index = 0;
  if (heddle_queue_submit(&queue, packets, 2, 10, &index) != HEDDLE_OK) return failed("no room");
  if (index != 1 || board.doorbell != 1) return failed("the doorbell is not the last packet");
  if (memcmp(board.memory + RING, packets, sizeof packets) != 0) return failed("the ring has other bytes");
  if (heddle_queue_destroy(&queue, 10) != HEDDLE_OK) return failed("the queue does not close");
  return 0;
}
