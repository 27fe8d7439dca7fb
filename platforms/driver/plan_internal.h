/* What the parts of the planner share. Internal.
 *
 * Contents of table entries have ids: the number of the kernel that was stored, or `count` + the number of an entry
 * that was there before. Costs are counted in 1/31 ns, so that a half-word's share of a packet is a whole number. */
#ifndef HEDDLE_PLAN_INTERNAL_H
#define HEDDLE_PLAN_INTERNAL_H

#include "heddle_plan.h"

#define PLAN_NONE UINT32_MAX
#define PLAN_TOO_LONG 1000u /* half-words of what cannot be a condensed packet */

/* Half-words of a kernel written from an entry, as last computed: the search asks for the same ones again and again. */
#define PLAN_CACHE 8192u
struct plan_cached {
  uint32_t kernel;
  uint32_t id;
  uint32_t half_words;
};

struct plan {
  const struct heddle_kernel* kernels;
  uint32_t count;
  const struct heddle_table* table;
  struct heddle_plan_options options; /* with the defaults filled in */
  bool all_wait;                      /* every kernel gets the barrier bit */
  bool none_wait;                     /* no kernel has it, and kernels may be serialised */
  uint32_t* same;                     /* by id: the first id with the same contents */
  struct plan_cached* cache;
};

struct plan_slots {
  uint32_t id[HEDDLE_MOST_ENTRIES]; /* PLAN_NONE: empty, or not ours to use */
};

/* How a kernel is written in a condensed packet. */
struct plan_diff {
  unsigned entry;
  uint16_t vector;
  uint8_t scopes; /* the value, if the vector has the field */
  unsigned half_words;
};

/* Kernels [first, last] as a condensed packet. */
struct plan_packet {
  unsigned closed; /* half-words, if it ends here */
  unsigned open;   /* if another kernel follows */
  unsigned lead;   /* of those: of all but the last */
};

/* plan_diff.c */
const struct heddle_dispatch* plan_fields(const struct plan* plan, uint32_t id);
const struct heddle_kernel_object* plan_object(const struct plan* plan, uint32_t id);
uint8_t plan_scopes(const struct plan* plan, uint32_t id); /* as the packet or the entry has them */
bool plan_has_own_clean_up(const struct plan* plan, uint32_t kernel);
bool plan_can_follow(const struct plan* plan, uint32_t first, uint32_t kernel);
bool plan_can_end(const struct plan* plan, uint32_t first, uint32_t last);
unsigned plan_middle_half_words(const struct plan* plan, uint32_t kernel, uint32_t id);
unsigned plan_best_middle(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel);
struct plan_packet plan_measure(const struct plan* plan, const struct plan_slots* slots, uint32_t first, uint32_t last);
struct plan_diff plan_write(const struct plan* plan, const struct plan_slots* slots, uint32_t first, uint32_t last,
                            uint32_t kernel);

/* plan_search.c: what is done with each kernel. */
enum plan_kind { PLAN_PLAIN = 0, PLAN_REFERENCE = 1, PLAN_OPEN = 2, PLAN_JOIN = 3 };
#define PLAN_KIND(action) ((enum plan_kind)((action)&3u))
#define PLAN_ENTRY(action) ((unsigned)(action) >> 2 & 31u)
size_t plan_search_bytes(uint32_t count, uint32_t beam);
/* `actions`: one for each kernel. Returns the cost. */
uint64_t plan_search(const struct plan* plan, const struct plan_slots* slots, void* workspace, uint8_t* actions);

#endif
