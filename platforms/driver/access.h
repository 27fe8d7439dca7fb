/* Registers, waiting, little-endian stores and loads, and the two functions that the library takes from its
 * surroundings. Internal. */
#ifndef HEDDLE_ACCESS_H
#define HEDDLE_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include "heddle_device.h"

/* Declared here, since a freestanding implementation need not have <string.h>. */
void* memcpy(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);
int memcmp(const void* a, const void* b, size_t bytes);

static inline void heddle_put(uint8_t* to, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to[i] = (uint8_t)(value >> 8 * i);
}
static inline uint64_t heddle_get(const uint8_t* from, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << 8 * i;
  return value;
}

static inline bool heddle_read32(const struct heddle_device* device, uint32_t offset, uint32_t* value) {
  uint64_t wide = 0;
  if (!device->bus.read(device->bus.context, offset, 4, &wide)) return false;
  *value = (uint32_t)wide;
  return true;
}
static inline bool heddle_read64(const struct heddle_device* device, uint32_t offset, uint64_t* value) {
  return device->bus.read(device->bus.context, offset, 8, value);
}
static inline bool heddle_write32(const struct heddle_device* device, uint32_t offset, uint32_t value) {
  return device->bus.write(device->bus.context, offset, 4, value);
}
static inline bool heddle_write64(const struct heddle_device* device, uint32_t offset, uint64_t value) {
  return device->bus.write(device->bus.context, offset, 8, value);
}
static inline enum heddle_status heddle_checked(bool good) { return good ? HEDDLE_OK : HEDDLE_BUS; }
static inline void heddle_barrier(const struct heddle_bus* bus) {
  if (bus->barrier != NULL) bus->barrier(bus->context);
}
/* Before another look; false: the limit is reached. */
static inline bool heddle_relax(const struct heddle_bus* bus, uint64_t* looks, uint64_t limit) {
  *looks += 1;
  if (limit != 0 && *looks >= limit) return false;
  if (bus->relax != NULL) bus->relax(bus->context);
  return true;
}

#endif
