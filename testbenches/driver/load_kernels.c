/* Of docs/kernels.md: loads a file of kernels and launches one of them. */
#include <heddle/heddle_driver.h>

/* `memory`: of the device, for the file's kernels and 16 bytes of arguments. 0: done; else what went wrong. */
int scale(struct heddle_device* device, struct heddle_queue* queue, const void* file, size_t bytes, uint64_t memory,
          uint64_t data, uint64_t factor, uint64_t signal) {
  struct heddle_program program;
  struct heddle_program_kernel kernel;
  struct heddle_dispatch dispatch;
  struct heddle_packet packet;
  const uint64_t arguments[2] = {data, factor};
  int64_t value = 0;
  if (heddle_program_open(&program, file, bytes, NULL) != HEDDLE_OK) return 1;
  if (heddle_program_load(&program, &device->bus, memory + 128, memory + 128) != HEDDLE_OK) return 2;
  if (heddle_program_find(&program, "scale", &kernel) != HEDDLE_OK) return 3;
  if (!device->bus.store(device->bus.context, memory, arguments, sizeof arguments)) return 4;
  if (heddle_program_dispatch(&kernel, memory, signal, &dispatch) != HEDDLE_OK) return 5;
  heddle_packet_kernel(&packet, &dispatch);
  if (heddle_signal_init(&device->bus, signal, 1, 0, 0) != HEDDLE_OK) return 6;
  if (heddle_queue_submit(queue, &packet, 1, 1000, NULL) != HEDDLE_OK) return 7;
  if (heddle_signal_wait(&device->bus, signal, HEDDLE_LESS, 1, 100000, &value) != HEDDLE_OK) return 8;
  return value == 0 ? 0 : 9;
}
