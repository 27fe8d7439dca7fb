#include "access.h"
#include "heddle_packets.h"

static const uint8_t kWidths[HEDDLE_DISPATCH_FIELDS] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 4, 4, 4};

unsigned heddle_field_half_words(unsigned field) { return field < HEDDLE_DISPATCH_FIELDS ? kWidths[field] : 0; }

uint64_t heddle_field_get(const struct heddle_dispatch* dispatch, unsigned field) {
  if (field >= HEDDLE_FIELD_WORKGROUP && field < HEDDLE_FIELD_GRID) {
    return dispatch->workgroup[field - HEDDLE_FIELD_WORKGROUP];
  }
  if (field >= HEDDLE_FIELD_GRID && field < HEDDLE_FIELD_PRIVATE_SEGMENT) {
    return dispatch->grid[field - HEDDLE_FIELD_GRID];
  }
  switch (field) {
    case HEDDLE_FIELD_SCOPES:
      return dispatch->scopes;
    case HEDDLE_FIELD_SETUP:
      return dispatch->setup;
    case HEDDLE_FIELD_PRIVATE_SEGMENT:
      return dispatch->private_segment;
    case HEDDLE_FIELD_GROUP_SEGMENT:
      return dispatch->group_segment;
    case HEDDLE_FIELD_KERNEL_OBJECT:
      return dispatch->kernel_object;
    case HEDDLE_FIELD_KERNARG:
      return dispatch->kernarg;
    case HEDDLE_FIELD_COMPLETION_SIGNAL:
      return dispatch->completion_signal;
    default:
      return 0;
  }
}

static unsigned bit_if(bool different, unsigned field) { return (different ? 1u : 0u) << field; }

uint16_t heddle_fields_different(const struct heddle_dispatch* a, const struct heddle_dispatch* b) {
  unsigned vector = bit_if(a->scopes != b->scopes, HEDDLE_FIELD_SCOPES);
  vector |= bit_if(a->setup != b->setup, HEDDLE_FIELD_SETUP);
  for (unsigned i = 0; i < 3; ++i) {
    vector |= bit_if(a->workgroup[i] != b->workgroup[i], HEDDLE_FIELD_WORKGROUP + i);
    vector |= bit_if(a->grid[i] != b->grid[i], HEDDLE_FIELD_GRID + i);
  }
  vector |= bit_if(a->private_segment != b->private_segment, HEDDLE_FIELD_PRIVATE_SEGMENT);
  vector |= bit_if(a->group_segment != b->group_segment, HEDDLE_FIELD_GROUP_SEGMENT);
  vector |= bit_if(a->kernel_object != b->kernel_object, HEDDLE_FIELD_KERNEL_OBJECT);
  vector |= bit_if(a->kernarg != b->kernarg, HEDDLE_FIELD_KERNARG);
  vector |= bit_if(a->completion_signal != b->completion_signal, HEDDLE_FIELD_COMPLETION_SIGNAL);
  return (uint16_t)vector;
}

unsigned heddle_diff_half_words(uint16_t vector) {
  unsigned half_words = 1;
  for (unsigned field = 0, bits = vector & 0x1FFFu; bits != 0; ++field, bits >>= 1) {
    if (bits & 1) half_words += kWidths[field];
  }
  return half_words;
}

void heddle_condensed_init(struct heddle_condensed* condensed) {
  memset(condensed->packet.bytes, 0, HEDDLE_PACKET_BYTES);
  condensed->packet.bytes[0] = HEDDLE_PACKET_CONDENSED_DISPATCH;
  condensed->kernels = 0;
  condensed->half_words = 0;
}

enum heddle_status heddle_condensed_append(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                           const struct heddle_dispatch* values) {
  if (entry >= HEDDLE_REFERENCE_ENTRIES || vector >> HEDDLE_DISPATCH_FIELDS != 0) return HEDDLE_INVALID;
  if (condensed->half_words + heddle_diff_half_words(vector) > HEDDLE_DIFF_VALUES) return HEDDLE_FULL;
  uint8_t* to = condensed->packet.bytes + 2 + 2 * condensed->half_words;
  heddle_put(to, entry | (unsigned)vector << 3, 2);
  to += 2;
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((vector >> field & 1) == 0) continue;
    heddle_put(to, heddle_field_get(values, field), 2u * kWidths[field]); /* low half-word first */
    to += 2 * kWidths[field];
  }
  condensed->half_words += heddle_diff_half_words(vector);
  condensed->kernels += 1;
  condensed->packet.bytes[1] = (uint8_t)condensed->kernels;
  return HEDDLE_OK;
}
