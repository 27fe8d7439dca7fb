#include "access.h"
#include "heddle_packets.h"

enum flag { FLAG_LOAD_BALANCING = 1, FLAG_LINEAR_MEMORY = 2, FLAG_CLUSTERS = 4, FLAG_COOPERATIVE = 8, FLAG_CODE = 16 };

static bool has_clusters(const struct heddle_kernel_object* object) {
  for (unsigned level = 0; level < HEDDLE_CLUSTER_LEVELS; ++level) {
    const uint16_t* const extents = object->extents[level];
    if (extents[0] != 0 && extents[1] != 0 && extents[2] != 0) return true;
  }
  return false;
}

static unsigned flags_of(const struct heddle_kernel_object* object) {
  unsigned flags = has_clusters(object) ? FLAG_CLUSTERS : 0;
  if (object->load_balancing) flags |= FLAG_LOAD_BALANCING;
  if (object->linear_memory) flags |= FLAG_LINEAR_MEMORY;
  if (object->cooperative) flags |= FLAG_COOPERATIVE;
  if (object->code_bytes != 0) flags |= FLAG_CODE;
  return flags;
}

static bool put_name(uint8_t* to, const char* name) {
  if (name == NULL) return true;
  for (unsigned i = 0; i < HEDDLE_KERNEL_NAME_BYTES; ++i) {
    to[i] = (uint8_t)name[i];
    if (name[i] == 0) return true;
  }
  return false;
}

enum heddle_status heddle_kernel_object_encode(uint8_t bytes[HEDDLE_KERNEL_OBJECT_BYTES],
                                               const struct heddle_kernel_object* object) {
  static const uint8_t magic[4] = {'H', 'D', 'L', 'K'};
  memset(bytes, 0, HEDDLE_KERNEL_OBJECT_BYTES);
  memcpy(bytes, magic, sizeof magic);
  heddle_put(bytes + 4, 1, 2);
  heddle_put(bytes + 6, flags_of(object), 2);
  if (object->code_bytes == 0) heddle_put(bytes + 8, object->program, 4);
  heddle_put(bytes + 12, object->threads_limit, 4);
  heddle_put(bytes + 16, object->registers_per_thread, 4);
  heddle_put(bytes + 20, object->static_shared, 4);
  heddle_put(bytes + 24, object->code_bytes == 0 ? object->shortest : object->code, 8);
  heddle_put(bytes + 32, object->code_bytes == 0 ? object->longest : object->code_bytes, 8);
  for (unsigned i = 0; i < HEDDLE_CLUSTER_LEVELS; ++i) {
    for (unsigned axis = 0; axis < 3; ++axis) {
      heddle_put(bytes + 40 + 6 * i + 2 * axis, object->extents[i][axis], 2);
      heddle_put(bytes + 64 + 6 * i + 2 * axis, object->fallbacks[i][axis], 2);
    }
  }
  heddle_put(bytes + 88, object->raster_order, 1);
  heddle_put(bytes + 89, object->raster_tile[0], 1);
  heddle_put(bytes + 90, object->raster_tile[1], 1);
  return put_name(bytes + 92, object->name) ? HEDDLE_OK : HEDDLE_INVALID;
}
