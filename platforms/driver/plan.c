#include "access.h"
#include "heddle_plan.h"
#include "plan_internal.h"

#define MAX_KERNELS (UINT32_C(1) << 24)
#define MAX_WINDOW (UINT32_C(1) << 16)
#define MAX_BEAM 64u

void heddle_table_clear(struct heddle_table* table) { memset(table, 0, sizeof *table); }

void heddle_table_forget(struct heddle_table* table, uint64_t kernel_object) {
  for (unsigned entry = 0; entry < HEDDLE_MOST_ENTRIES; ++entry) {
    if (table->entries[entry].kernel_object != kernel_object) continue;
    table->valid &= ~(UINT32_C(1) << entry);
    table->objects[entry] = NULL;
  }
}

static bool fill_in(struct heddle_plan_options* options, const struct heddle_plan_options* given) {
  if (given == NULL) return false;
  *options = *given;
  if (options->table_entries == 0) options->table_entries = HEDDLE_REFERENCE_ENTRIES;
  if (options->table_entries > HEDDLE_MOST_ENTRIES) return false;
  if (options->format.reference_bits == 0) options->format.reference_bits = 3;
  if (options->format.vector_bits == 0) options->format.vector_bits = HEDDLE_DISPATCH_FIELDS;
  if (options->format.reference_bits > 8 || options->format.vector_bits > 24) return false;
  const uint32_t named = UINT32_C(1) << options->format.reference_bits; /* entries that a diff can name */
  if (options->table_entries > named) options->table_entries = named;
  const uint32_t all = UINT32_MAX >> (32 - options->table_entries);
  if (options->entries == 0) options->entries = all;
  options->entries &= all;
  if (options->entries == 0) return false;
  if (options->window == 0) options->window = 64;
  if (options->beam == 0) options->beam = 8;
  return options->window <= MAX_WINDOW && options->beam <= MAX_BEAM;
}

static uint32_t buckets(uint32_t count) {
  uint32_t size = 128;
  while (size < 2 * (count + HEDDLE_MOST_ENTRIES)) size *= 2;
  return size;
}

static size_t rounded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* Parts of the workspace: the search, the cache, `same`, its hash table (whose place the actions take later). */
struct parts {
  size_t search;
  size_t cache;
  size_t same;
  size_t table;
};

static struct parts parts_of(uint32_t count, uint32_t beam) {
  struct parts parts;
  parts.search = rounded(plan_search_bytes(count, beam));
  parts.cache = rounded(sizeof(struct plan_cached) * PLAN_CACHE);
  parts.same = rounded(sizeof(uint32_t) * ((size_t)count + HEDDLE_MOST_ENTRIES));
  parts.table = sizeof(uint32_t) * (size_t)buckets(count);
  return parts;
}

size_t heddle_plan_workspace(uint32_t count, const struct heddle_plan_options* options) {
  struct heddle_plan_options filled;
  if (!fill_in(&filled, options) || count > MAX_KERNELS) return 0;
  const struct parts parts = parts_of(count, filled.beam);
  return parts.search + parts.cache + parts.same + parts.table;
}

static uint64_t hash_of(const struct plan* plan, uint32_t id) {
  const struct heddle_dispatch* const fields = plan_fields(plan, id);
  uint64_t hash = plan_scopes(plan, id);
  for (unsigned field = 1; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    hash = (hash ^ heddle_field_get(fields, field)) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
  }
  return hash;
}

/* Whether a diff of stored information has nothing to say of their objects. One address may have had two. */
static bool have_same_objects(const struct plan* plan, uint32_t a, uint32_t b) {
  if (!plan->options.format.stored || plan_object(plan, a) == plan_object(plan, b)) return true;
  struct heddle_stored one, other;
  uint16_t different = 0;
  heddle_stored_of(&one, plan_fields(plan, a), plan_object(plan, a));
  heddle_stored_of(&other, plan_fields(plan, a), plan_object(plan, b));
  return heddle_stored_different(&one, plan_object(plan, a), &other, plan_object(plan, b), &different) &&
         different == 0;
}

static bool are_same(const struct plan* plan, uint32_t a, uint32_t b) {
  const uint16_t scopes = 1u << HEDDLE_FIELD_SCOPES;
  return plan_scopes(plan, a) == plan_scopes(plan, b) &&
         (heddle_fields_different(plan_fields(plan, a), plan_fields(plan, b)) & ~(unsigned)scopes) == 0 &&
         have_same_objects(plan, a, b);
}

static void find_same(const struct plan* plan, const struct plan_slots* slots, uint32_t* table) {
  const uint32_t mask = buckets(plan->count) - 1;
  for (uint32_t i = 0; i <= mask; ++i) table[i] = PLAN_NONE;
  for (uint32_t id = 0; id < plan->count + HEDDLE_MOST_ENTRIES; ++id) {
    plan->same[id] = id;
    if (id >= plan->count && slots->id[id - plan->count] == PLAN_NONE) continue;
    uint32_t bucket = (uint32_t)hash_of(plan, id) & mask;
    while (table[bucket] != PLAN_NONE && !are_same(plan, table[bucket], id)) bucket = (bucket + 1) & mask;
    if (table[bucket] == PLAN_NONE) table[bucket] = id;
    plan->same[id] = table[bucket];
  }
}

static bool scopes_exist(const struct heddle_kernel* kernels, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t scopes = kernels[i].dispatch.scopes;
    if (scopes >> 5 != 0 || HEDDLE_ACQUIRE_OF(scopes) == 3 || HEDDLE_RELEASE_OF(scopes) == 3) return false;
  }
  return true;
}

static bool have_objects(const struct plan* plan) {
  for (uint32_t i = 0; i < plan->count; ++i) {
    if (plan->kernels[i].object == NULL) return false;
  }
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    if ((plan->table->valid >> entry & 1) != 0 && plan->table->objects[entry] == NULL) return false;
  }
  return true;
}

/* Kernels that may be serialised: all with the barrier bit, if one has it; none, if none has. */
static void choose_waits(struct plan* plan) {
  bool any = false;
  for (uint32_t i = 0; i < plan->count; ++i) any |= HEDDLE_BARRIER_OF(plan->kernels[i].dispatch.scopes) != 0;
  const bool may = plan->options.serialise && !plan->options.overlap;
  plan->all_wait = may && any;
  plan->none_wait = may && !any;
}

struct output {
  struct heddle_planned* packets;
  uint32_t capacity;
  struct heddle_plan_result* result;
};

static struct heddle_dispatch as_sent(const struct plan* plan, uint32_t kernel) {
  struct heddle_dispatch dispatch = plan->kernels[kernel].dispatch;
  dispatch.scopes = plan_scopes(plan, kernel);
  return dispatch;
}

static void emit_single(const struct plan* plan, struct plan_slots* slots, const struct output* output,
                        struct heddle_planned* planned, uint8_t action) {
  const struct heddle_dispatch dispatch = as_sent(plan, planned->first);
  if (PLAN_KIND(action) == PLAN_PLAIN) {
    heddle_packet_kernel(&planned->packet, &dispatch);
    output->result->plain += 1;
    return;
  }
  (void)heddle_packet_reference(&planned->packet, &dispatch, PLAN_ENTRY(action));
  slots->id[PLAN_ENTRY(action)] = planned->first;
  output->result->references += 1;
}

static bool append(const struct plan* plan, struct heddle_condensed* condensed, uint32_t kernel,
                   const struct plan_diff* diff, const struct heddle_dispatch* values) {
  if (!plan->options.format.stored) {
    return heddle_condensed_append(condensed, diff->entry, diff->vector, values) == HEDDLE_OK;
  }
  struct heddle_stored stored;
  heddle_stored_of(&stored, values, plan_object(plan, kernel));
  return heddle_condensed_append_stored(condensed, diff->entry, diff->vector, &stored) == HEDDLE_OK;
}

static bool emit_condensed(const struct plan* plan, const struct plan_slots* slots, const struct output* output,
                           struct heddle_planned* planned) {
  const uint32_t last = planned->first + planned->kernels - 1;
  struct heddle_condensed condensed;
  if (heddle_condensed_init_as(&condensed, &plan->options.format) != HEDDLE_OK) return false;
  for (uint32_t kernel = planned->first; kernel <= last; ++kernel) {
    const struct plan_diff diff = plan_write(plan, slots, planned->first, last, kernel);
    struct heddle_dispatch values = plan->kernels[kernel].dispatch;
    values.scopes = diff.scopes;
    if (!append(plan, &condensed, kernel, &diff, &values)) return false;
  }
  planned->packet = condensed.packet;
  output->result->condensed += 1;
  output->result->diffs += planned->kernels;
  output->result->half_words += condensed.half_words;
  return true;
}

static enum heddle_status emit(const struct plan* plan, struct plan_slots* slots, const uint8_t* actions,
                               const struct output* output) {
  struct heddle_plan_result* const result = output->result;
  for (uint32_t kernel = 0; kernel < plan->count;) {
    if (result->packets == output->capacity) return HEDDLE_FULL;
    struct heddle_planned* const planned = &output->packets[result->packets++];
    planned->first = kernel;
    planned->kernels = 1;
    while (kernel + planned->kernels < plan->count && PLAN_KIND(actions[kernel + planned->kernels]) == PLAN_JOIN) {
      planned->kernels += 1;
    }
    if (PLAN_KIND(actions[kernel]) == PLAN_OPEN) {
      if (!emit_condensed(plan, slots, output, planned)) return HEDDLE_FULL;
    } else {
      emit_single(plan, slots, output, planned, actions[kernel]);
    }
    kernel += planned->kernels;
  }
  return HEDDLE_OK;
}

static void update(const struct plan* plan, const struct plan_slots* slots, struct heddle_table* table) {
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    const uint32_t id = slots->id[entry];
    if (id >= plan->count) continue; /* as before, or not ours */
    table->entries[entry] = as_sent(plan, id);
    table->objects[entry] = plan_object(plan, id);
    table->valid |= UINT32_C(1) << entry;
  }
}

enum heddle_status heddle_plan(const struct heddle_kernel* kernels, uint32_t count,
                               const struct heddle_plan_options* options, struct heddle_table* table, void* workspace,
                               size_t workspace_bytes, struct heddle_planned* packets, uint32_t capacity,
                               struct heddle_plan_result* result) {
  struct plan plan;
  memset(&plan, 0, sizeof plan);
  plan.kernels = kernels;
  plan.count = count;
  plan.table = table;
  memset(result, 0, sizeof *result);
  if (count > MAX_KERNELS || !fill_in(&plan.options, options) || !scopes_exist(kernels, count)) return HEDDLE_INVALID;
  if (plan.options.format.stored && !have_objects(&plan)) return HEDDLE_INVALID;
  if (count == 0) return HEDDLE_OK;
  if (workspace == NULL || ((uintptr_t)workspace & 7) != 0) return HEDDLE_INVALID;
  if (workspace_bytes < heddle_plan_workspace(count, options)) return HEDDLE_FULL;

  const struct parts parts = parts_of(count, plan.options.beam);
  uint8_t* const memory = workspace;
  plan.cache = (struct plan_cached*)(void*)(memory + parts.search);
  for (unsigned i = 0; i < PLAN_CACHE; ++i) plan.cache[i].kernel = PLAN_NONE;
  plan.same = (uint32_t*)(void*)(memory + parts.search + parts.cache);
  struct plan_slots slots;
  for (unsigned entry = 0; entry < HEDDLE_MOST_ENTRIES; ++entry) {
    const bool usable = (table->valid & plan.options.entries) >> entry & 1;
    slots.id[entry] = usable ? count + entry : PLAN_NONE;
  }
  choose_waits(&plan);
  uint8_t* const actions = memory + parts.search + parts.cache + parts.same;
  find_same(&plan, &slots, (uint32_t*)(void*)actions);

  uint64_t cost = plan_search(&plan, &slots, workspace, actions);
  const uint64_t plain_cost = (uint64_t)HEDDLE_DIFF_VALUES * count * plan.options.costs.plain;
  if (cost > plain_cost) {
    memset(actions, PLAN_PLAIN, count);
    cost = plain_cost;
  }
  const struct output output = {packets, capacity, result};
  const enum heddle_status status = emit(&plan, &slots, actions, &output);
  if (status != HEDDLE_OK) return status;
  result->cost = cost / HEDDLE_DIFF_VALUES;
  result->plain_cost = plain_cost / HEDDLE_DIFF_VALUES;
  update(&plan, &slots, table);
  return HEDDLE_OK;
}
