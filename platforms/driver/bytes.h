/* Little-endian stores and loads, and the two functions that the library takes from its surroundings. Internal. */
#ifndef HEDDLE_BYTES_H
#define HEDDLE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Declared here, since a freestanding implementation need not have <string.h>. */
void* memcpy(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);

static inline void heddle_put(uint8_t* to, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to[i] = (uint8_t)(value >> 8 * i);
}
static inline uint64_t heddle_get(const uint8_t* from, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << 8 * i;
  return value;
}

#endif
