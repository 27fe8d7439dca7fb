/* Beam search: from kernel to kernel, the best few states of table and open packet are followed. States are ranked by
 * what they have cost, what the kernels in the window will about cost with this table, and the room left in the packet.
 */
#include "access.h"
#include "plan_internal.h"

#define HALF_WORDS ((uint64_t)HEDDLE_DIFF_VALUES)
#define WAYS 4u /* out of a state */

struct state {
  uint64_t cost;
  uint64_t future; /* about, of the window */
  uint64_t rank;
  struct plan_slots slots;
  uint32_t first; /* of the open packet; PLAN_NONE: there is none */
  uint16_t open;  /* half-words of it, if another kernel follows */
  uint8_t closable;
  uint8_t action;
  uint8_t parent;
};

struct search {
  const struct plan* plan;
  struct state* beam;
  uint32_t width; /* of it, now */
  struct state* candidates;
  uint32_t found;
};

size_t plan_search_bytes(uint32_t count, uint32_t beam) {
  return sizeof(struct state) * beam * (1u + WAYS) + sizeof(uint16_t) * (size_t)count * beam;
}

static uint32_t max_kernels(const struct plan* plan) {
  const uint32_t limit = plan->options.max_kernels;
  return limit == 0 || limit > HEDDLE_DIFF_VALUES ? HEDDLE_DIFF_VALUES : limit;
}

/* About what a kernel costs whose diff has that many half-words: its share of a packet's cost. */
static uint64_t estimate(const struct plan* plan, uint32_t kernel, unsigned half_words) {
  const struct heddle_plan_costs* const costs = &plan->options.costs;
  const uint64_t alone = HALF_WORDS * (costs->plain < costs->reference ? costs->plain : costs->reference);
  if (half_words > HEDDLE_DIFF_VALUES) return alone;
  const unsigned least = (HEDDLE_DIFF_VALUES + max_kernels(plan) - 1) / max_kernels(plan);
  uint64_t share = half_words < least ? least : half_words;
  const bool has_company = (kernel > 0 && plan_can_follow(plan, kernel - 1, kernel)) ||
                           (kernel + 1 < plan->count && plan_can_follow(plan, kernel, kernel + 1));
  if (!has_company) share = HALF_WORDS;
  const uint64_t own = plan_has_own_clean_up(plan, kernel) ? costs->own_clean_up : 0;
  const uint64_t condensed = HALF_WORDS * (costs->diff + own) + share * costs->condensed;
  return condensed < alone ? condensed : alone;
}

static uint64_t estimate_with(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel) {
  return kernel < plan->count ? estimate(plan, kernel, plan_best_middle(plan, slots, kernel)) : 0;
}

static void add(struct search* search, struct state* state, uint32_t kernel) {
  const struct plan* const plan = search->plan;
  uint64_t room = 0;
  if (state->first != PLAN_NONE && kernel + 1 < plan->count && kernel + 1 - state->first < max_kernels(plan) &&
      plan_can_follow(plan, state->first, kernel + 1)) {
    room = HALF_WORDS - state->open;
  }
  state->rank = state->cost + state->future - room * plan->options.costs.condensed;
  search->candidates[search->found++] = *state;
}

static void try_packet(struct search* search, struct state state, uint32_t first, uint32_t kernel) {
  const struct plan* const plan = search->plan;
  const struct plan_packet packet = plan_measure(plan, &state.slots, first, kernel);
  state.closable = packet.closed <= HEDDLE_DIFF_VALUES && plan_can_end(plan, first, kernel);
  if (packet.open > HEDDLE_DIFF_VALUES && !state.closable) return;
  state.open = (uint16_t)(packet.open < HEDDLE_DIFF_VALUES ? packet.open : HEDDLE_DIFF_VALUES);
  state.first = first;
  add(search, &state, kernel);
}

/* The entry that has the kernel already; HEDDLE_MOST_ENTRIES: none. */
static unsigned entry_with(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel) {
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    if (slots->id[entry] != PLAN_NONE && plan->same[slots->id[entry]] == plan->same[kernel]) return entry;
  }
  return HEDDLE_MOST_ENTRIES;
}

/* The entry whose contents are missed least in the window, if the kernel takes its place. */
static unsigned entry_to_replace(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel,
                                 uint64_t* future) {
  uint64_t without[HEDDLE_MOST_ENTRIES] = {0};
  const uint64_t end = (uint64_t)kernel + 1 + plan->options.window;
  for (uint32_t next = kernel + 1; next < plan->count && next < end; ++next) {
    unsigned least = PLAN_TOO_LONG, second = PLAN_TOO_LONG, holder = HEDDLE_MOST_ENTRIES;
    for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
      if (slots->id[entry] == PLAN_NONE) continue;
      const unsigned half_words = plan_middle_half_words(plan, next, slots->id[entry]);
      if (half_words < least) {
        second = least;
        least = half_words;
        holder = entry;
      } else if (half_words < second) {
        second = half_words;
      }
    }
    const unsigned stored = plan_middle_half_words(plan, next, kernel);
    const uint64_t usual = estimate(plan, next, stored < least ? stored : least);
    for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) without[entry] += usual;
    if (holder < HEDDLE_MOST_ENTRIES) {
      without[holder] += estimate(plan, next, stored < second ? stored : second) - usual;
    }
  }
  unsigned best = HEDDLE_MOST_ENTRIES;
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    if ((plan->options.entries >> entry & 1) == 0) continue;
    if (best == HEDDLE_MOST_ENTRIES || without[entry] < without[best]) best = entry;
  }
  *future = without[best];
  return best;
}

static void expand(struct search* search, const struct state* from, uint8_t parent, uint32_t kernel) {
  const struct plan* const plan = search->plan;
  const struct heddle_plan_costs* const costs = &plan->options.costs;
  const uint32_t window = plan->options.window;
  struct state next = *from;
  next.parent = parent;
  next.future += estimate_with(plan, &from->slots, kernel + window);
  next.future -= estimate_with(plan, &from->slots, kernel);

  if (from->first != PLAN_NONE && kernel - from->first < max_kernels(plan) &&
      plan_can_follow(plan, from->first, kernel)) {
    struct state joined = next;
    joined.action = PLAN_JOIN;
    joined.cost += HALF_WORDS * costs->diff;
    if (plan_has_own_clean_up(plan, kernel - 1)) joined.cost += HALF_WORDS * costs->own_clean_up;
    try_packet(search, joined, from->first, kernel);
  }
  if (!from->closable) return;

  struct state opened = next;
  opened.action = PLAN_OPEN;
  opened.cost += HALF_WORDS * ((uint64_t)costs->condensed + costs->diff);
  try_packet(search, opened, kernel, kernel);

  next.first = PLAN_NONE;
  next.action = PLAN_PLAIN;
  next.cost += HALF_WORDS * costs->plain;
  add(search, &next, kernel);

  unsigned entry = entry_with(plan, &from->slots, kernel);
  if (entry == HEDDLE_MOST_ENTRIES) {
    entry = entry_to_replace(plan, &from->slots, kernel, &next.future);
  } else if (costs->reference >= costs->plain) {
    return; /* storing it again gains nothing */
  }
  next.slots.id[entry] = kernel;
  next.action = (uint8_t)(PLAN_REFERENCE | entry << 2);
  next.cost += HALF_WORDS * costs->reference - HALF_WORDS * costs->plain;
  add(search, &next, kernel);
}

/* Whether whatever can follow `b` can follow `a` at no higher cost. */
static bool dominates(const struct plan* plan, const struct state* a, const struct state* b) {
  if (a->cost > b->cost || a->closable < b->closable) return false;
  if (b->first != PLAN_NONE && (a->first == PLAN_NONE || a->open > b->open || a->first < b->first)) return false;
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    const uint32_t in_a = a->slots.id[entry];
    const uint32_t in_b = b->slots.id[entry];
    if (in_a == in_b) continue;
    if (in_a == PLAN_NONE || in_b == PLAN_NONE || plan->same[in_a] != plan->same[in_b]) return false;
  }
  return true;
}

static bool is_dominated(const struct search* search, const struct state* state) {
  for (uint32_t i = 0; i < search->width; ++i) {
    if (dominates(search->plan, &search->beam[i], state)) return true;
  }
  return false;
}

static void take_best(struct search* search) {
  const uint32_t beam = search->plan->options.beam;
  bool closable = false; /* plain packets must stay possible */
  search->width = 0;
  while (search->width < beam && search->found > 0) {
    const bool must_close = !closable && search->width + 1 == beam;
    uint32_t best = PLAN_NONE;
    for (uint32_t i = 0; i < search->found; ++i) {
      if (must_close && !search->candidates[i].closable) continue;
      if (best == PLAN_NONE || search->candidates[i].rank < search->candidates[best].rank) best = i;
    }
    if (best == PLAN_NONE) return;
    const struct state state = search->candidates[best];
    search->candidates[best] = search->candidates[--search->found];
    if (is_dominated(search, &state)) continue;
    closable |= state.closable != 0;
    search->beam[search->width++] = state;
  }
}

static void begin(struct search* search, const struct plan_slots* slots) {
  struct state* const start = search->beam;
  memset(start, 0, sizeof *start);
  start->slots = *slots;
  start->first = PLAN_NONE;
  start->closable = 1;
  for (uint32_t i = 0; i < search->plan->options.window; ++i) start->future += estimate_with(search->plan, slots, i);
  search->width = 1;
}

uint64_t plan_search(const struct plan* plan, const struct plan_slots* slots, void* workspace, uint8_t* actions) {
  const uint32_t beam = plan->options.beam;
  struct state* const states = workspace;
  uint16_t* const steps = (uint16_t*)(void*)(states + (size_t)beam * (1u + WAYS)); /* parent << 8 | action */
  struct search search = {plan, states, 0, states + beam, 0};
  begin(&search, slots);
  for (uint32_t kernel = 0; kernel < plan->count; ++kernel) {
    search.found = 0;
    for (uint32_t i = 0; i < search.width; ++i) expand(&search, &search.beam[i], (uint8_t)i, kernel);
    take_best(&search);
    for (uint32_t i = 0; i < search.width; ++i) {
      const struct state* const state = &search.beam[i];
      steps[(size_t)kernel * beam + i] = (uint16_t)((unsigned)state->parent << 8 | state->action);
    }
  }
  uint32_t best = PLAN_NONE;
  for (uint32_t i = 0; i < search.width; ++i) {
    if (!search.beam[i].closable) continue;
    if (best == PLAN_NONE || search.beam[i].cost < search.beam[best].cost) best = i;
  }
  const uint64_t cost = search.beam[best].cost;
  for (uint32_t kernel = plan->count; kernel-- > 0;) {
    const uint16_t step = steps[(size_t)kernel * beam + best];
    actions[kernel] = (uint8_t)step;
    best = step >> 8;
  }
  return cost;
}
