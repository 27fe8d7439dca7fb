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

static const uint8_t kStoredWidths[HEDDLE_DISPATCH_FIELDS] = {1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 2, 4, 4};

unsigned heddle_stored_half_words(unsigned field) { return field < HEDDLE_DISPATCH_FIELDS ? kStoredWidths[field] : 0; }

void heddle_stored_of(struct heddle_stored* stored, const struct heddle_dispatch* dispatch,
                      const struct heddle_kernel_object* object) {
  uint64_t* const values = stored->values;
  values[0] = dispatch->scopes;
  for (unsigned i = 0; i < 3; ++i) {
    const uint32_t items = dispatch->grid[i];
    const uint16_t block = dispatch->workgroup[i];
    stored->items[i] = items;
    values[1 + i] = block;
    values[4 + i] = block == 0 ? 0 : items / block + (items % block != 0);
  }
  values[7] = object->registers_per_thread;
  values[8] = dispatch->group_segment;
  values[9] = dispatch->private_segment;
  values[10] = object->program;
  values[11] = dispatch->kernarg;
  values[12] = dispatch->completion_signal;
}

/* Scopes, the first field of both kinds, have a byte of their half-word. */
static bool field_holds(const uint8_t* widths, unsigned field, uint64_t value) {
  const unsigned bits = field == HEDDLE_FIELD_SCOPES ? 8u : 16u * widths[field];
  return bits == 64 || value >> bits == 0;
}

/* What of a kernel object no field of the stored information has. */
static bool same_rest(const struct heddle_kernel_object* a, const struct heddle_kernel_object* b) {
  if (a->code_bytes != b->code_bytes || (a->code_bytes != 0 && a->code != b->code)) return false;
  const bool timed = a->program == 0 && a->code_bytes == 0;
  if (timed != (b->program == 0 && b->code_bytes == 0)) return false;
  if (timed && (a->shortest != b->shortest || a->longest != b->longest)) return false;
  return a->threads_limit == b->threads_limit && a->load_balancing == b->load_balancing &&
         a->linear_memory == b->linear_memory && a->cooperative == b->cooperative &&
         a->raster_order == b->raster_order && memcmp(a->raster_tile, b->raster_tile, sizeof a->raster_tile) == 0 &&
         memcmp(a->extents, b->extents, sizeof a->extents) == 0 &&
         memcmp(a->fallbacks, b->fallbacks, sizeof a->fallbacks) == 0;
}

bool heddle_stored_different(const struct heddle_stored* wanted, const struct heddle_kernel_object* wanted_object,
                             const struct heddle_stored* entry, const struct heddle_kernel_object* entry_object,
                             uint16_t* vector) {
  const unsigned sizes = 0x7Eu;
  unsigned different = 0;
  bool whole = true, same_items = true;
  if (!same_rest(wanted_object, entry_object)) return false;
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    different |= bit_if(wanted->values[field] != entry->values[field], field);
  }
  for (unsigned i = 0; i < 3; ++i) {
    same_items &= wanted->items[i] == entry->items[i];
    whole &= wanted->items[i] == wanted->values[1 + i] * wanted->values[4 + i];
  }
  if (!same_items && (different & sizes) == 0) different |= 1u << 4; /* as many workgroups, which are whole now */
  if ((different & sizes) != 0 && !whole) return false;
  /* A field has 16 bits where the packet and the object have more. */
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((different >> field & 1) != 0 && !field_holds(kStoredWidths, field, wanted->values[field])) return false;
  }
  *vector = (uint16_t)different;
  return true;
}

static struct heddle_diff_format filled_in(const struct heddle_diff_format* format) {
  struct heddle_diff_format filled = *format;
  if (filled.reference_bits == 0) filled.reference_bits = 3;
  if (filled.vector_bits == 0) filled.vector_bits = HEDDLE_DISPATCH_FIELDS;
  return filled;
}

unsigned heddle_diff_header(const struct heddle_diff_format* format) {
  const struct heddle_diff_format filled = filled_in(format);
  return filled.reference_bits + filled.vector_bits > 16 ? 2 : 1;
}

void heddle_condensed_init(struct heddle_condensed* condensed) {
  const struct heddle_diff_format text = {0, 0, false};
  (void)heddle_condensed_init_as(condensed, &text);
}

enum heddle_status heddle_condensed_init_as(struct heddle_condensed* condensed,
                                            const struct heddle_diff_format* format) {
  memset(condensed->packet.bytes, 0, HEDDLE_PACKET_BYTES);
  condensed->packet.bytes[0] = HEDDLE_PACKET_CONDENSED_DISPATCH;
  condensed->format = filled_in(format);
  condensed->kernels = 0;
  condensed->half_words = 0;
  if (condensed->format.reference_bits <= 8 && condensed->format.vector_bits <= 24) return HEDDLE_OK;
  const struct heddle_diff_format text = {0, 0, false};
  condensed->format = filled_in(&text);
  return HEDDLE_INVALID;
}

/* `widths`: half-words by field. */
static enum heddle_status append(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                 const uint8_t* widths, const uint64_t* values) {
  const struct heddle_diff_format* const format = &condensed->format;
  const unsigned header = heddle_diff_header(format);
  if (entry >> format->reference_bits != 0 || entry >= HEDDLE_MOST_ENTRIES) return HEDDLE_INVALID;
  if (vector >> HEDDLE_DISPATCH_FIELDS != 0 || (uint32_t)vector >> format->vector_bits != 0) return HEDDLE_INVALID;
  unsigned half_words = header;
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((vector >> field & 1) == 0) continue;
    if (!field_holds(widths, field, values[field])) return HEDDLE_INVALID;
    half_words += widths[field];
  }
  if (condensed->half_words + half_words > HEDDLE_DIFF_VALUES) return HEDDLE_FULL;
  uint8_t* to = condensed->packet.bytes + 2 + 2 * condensed->half_words;
  heddle_put(to, entry | (uint64_t)vector << format->reference_bits, 2 * header);
  to += 2 * header;
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((vector >> field & 1) == 0) continue;
    heddle_put(to, values[field], 2u * widths[field]); /* low half-word first */
    to += 2 * widths[field];
  }
  condensed->half_words += half_words;
  condensed->kernels += 1;
  condensed->packet.bytes[1] = (uint8_t)condensed->kernels;
  return HEDDLE_OK;
}

enum heddle_status heddle_condensed_append(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                           const struct heddle_dispatch* values) {
  uint64_t fields[HEDDLE_DISPATCH_FIELDS] = {0};
  if (condensed->format.stored) return HEDDLE_INVALID;
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((vector >> field & 1) != 0) fields[field] = heddle_field_get(values, field);
  }
  return append(condensed, entry, vector, kWidths, fields);
}

enum heddle_status heddle_condensed_append_stored(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                                  const struct heddle_stored* values) {
  if (!condensed->format.stored) return HEDDLE_INVALID;
  return append(condensed, entry, vector, kStoredWidths, vector == 0 ? NULL : values->values);
}
