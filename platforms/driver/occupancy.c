#include "access.h"

static uint64_t packed(const struct heddle_extents* extents) {
  return extents->x | (uint64_t)extents->y << HEDDLE_EXTENTS_Y_SHIFT | (uint64_t)extents->z << HEDDLE_EXTENTS_Z_SHIFT;
}

static bool describe(const struct heddle_device* device, const struct heddle_occupancy_query* query) {
  return heddle_write32(device, HEDDLE_REG_QUERY_THREADS, query->threads) &&
         heddle_write32(device, HEDDLE_REG_QUERY_REGISTERS, query->registers) &&
         heddle_write32(device, HEDDLE_REG_QUERY_SHARED, query->shared) &&
         heddle_write32(device, HEDDLE_REG_QUERY_LOCAL, query->local) &&
         heddle_write64(device, HEDDLE_REG_QUERY_CPC, packed(&query->cpc)) &&
         heddle_write64(device, HEDDLE_REG_QUERY_GPC, packed(&query->gpc)) &&
         heddle_write64(device, HEDDLE_REG_QUERY_UGPU, packed(&query->ugpu)) &&
         heddle_write64(device, HEDDLE_REG_QUERY_GPU, packed(&query->gpu)) &&
         heddle_write32(device, HEDDLE_REG_QUERY_MODE, (uint32_t)query->mode) &&
         heddle_write32(device, HEDDLE_REG_QUERY_SUBCONTEXT, query->subcontext) &&
         heddle_write32(device, HEDDLE_REG_QUERY_MEMORY, query->linear_memory ? HEDDLE_QUERY_MEMORY_LINEAR_MASK : 0) &&
         heddle_write32(device, HEDDLE_REG_QUERY_COMMAND, HEDDLE_QUERY_COMMAND_START);
}

enum heddle_status heddle_max_active_clusters(const struct heddle_device* device, const struct heddle_occupancy_query* query,
                                    uint64_t limit, struct heddle_occupancy* result) {
  memset(result, 0, sizeof *result);
  uint32_t state = 0;
  if (!heddle_read32(device, HEDDLE_REG_QUERY_STATE, &state)) return HEDDLE_BUS;
  if (state == HEDDLE_QUERY_STATE_BUSY) return HEDDLE_BUSY;
  if ((uint32_t)query->mode > HEDDLE_QUERY_MODE_MULTICAST || query->subcontext >= HEDDLE_SUBCONTEXTS) {
    result->hsa = HEDDLE_HSA_INVALID_ARGUMENT;
    return HEDDLE_INVALID;
  }
  if (!describe(device, query)) return HEDDLE_BUS;
  for (uint64_t looks = 0;;) {
    if (!heddle_read32(device, HEDDLE_REG_QUERY_STATE, &state)) return HEDDLE_BUS;
    if (state != HEDDLE_QUERY_STATE_BUSY) break;
    if (!heddle_relax(&device->bus, &looks, limit)) return HEDDLE_TIMEOUT;
  }
  if (!heddle_read64(device, HEDDLE_REG_QUERY_ACTIVE, &result->active) ||
      !heddle_read32(device, HEDDLE_REG_QUERY_LARGEST, &result->largest) ||
      !heddle_read32(device, HEDDLE_REG_QUERY_STATUS, &result->hsa)) {
    return HEDDLE_BUS;
  }
  return state == HEDDLE_QUERY_STATE_DONE ? HEDDLE_OK : HEDDLE_INVALID;
}
