/* What it takes to write a kernel into a condensed packet: which entry, which fields (PKT-06, PKT-07). */
#include "plan_internal.h"

const struct heddle_dispatch* plan_fields(const struct plan* plan, uint32_t id) {
  return id < plan->count ? &plan->kernels[id].dispatch : &plan->table->entries[id - plan->count];
}

const struct heddle_kernel_object* plan_object(const struct plan* plan, uint32_t id) {
  return id < plan->count ? plan->kernels[id].object : plan->table->objects[id - plan->count];
}

uint8_t plan_scopes(const struct plan* plan, uint32_t id) {
  const uint8_t scopes = plan_fields(plan, id)->scopes;
  return (uint8_t)(scopes | (id < plan->count && plan->all_wait ? 1u : 0u));
}

static bool keeps(const struct plan* plan, uint32_t kernel, uint32_t flag) {
  return plan->options.keep_fences || (plan->kernels[kernel].keep & flag) != 0;
}

static bool waits(const struct plan* plan, uint32_t kernel) { return HEDDLE_BARRIER_OF(plan_scopes(plan, kernel)); }

/* A signal tells that the kernel's results are there: its release is not put off. */
static bool has_own_release(const struct plan* plan, uint32_t kernel) {
  if (HEDDLE_RELEASE_OF(plan_scopes(plan, kernel)) == HEDDLE_FENCE_NONE) return false;
  return plan->kernels[kernel].dispatch.completion_signal != 0 || keeps(plan, kernel, HEDDLE_KEEP_RELEASE);
}

bool plan_has_own_clean_up(const struct plan* plan, uint32_t kernel) {
  return plan->kernels[kernel].dispatch.completion_signal != 0 || has_own_release(plan, kernel);
}

/* Whether a kernel may be behind others in the packet that begins with `first`. */
bool plan_can_follow(const struct plan* plan, uint32_t first, uint32_t kernel) {
  /* It would wait for its neighbours only, while those before the packet may still run. */
  if (waits(plan, kernel)) return waits(plan, first);
  return plan->options.overlap || plan->none_wait;
}

/* A packet without the barrier bit may start as soon as the packet before it has begun. So it must not come behind one
 * that has a kernel which waits within it: what that kernel waited for, the next one relies on as well. */
bool plan_can_end(const struct plan* plan, uint32_t first, uint32_t last) {
  if (last + 1 == plan->count || waits(plan, last + 1)) return true;
  for (uint32_t kernel = last; kernel > first; --kernel) {
    if (waits(plan, kernel)) return false;
  }
  return true;
}

struct role {
  bool first;
  bool last;
  uint8_t scopes; /* what the packet needs them to be */
};

static unsigned half_words_of(const struct plan* plan, unsigned vector) {
  unsigned half_words = heddle_diff_header(&plan->options.format);
  for (unsigned field = 0; field < HEDDLE_DISPATCH_FIELDS; ++field) {
    if ((vector >> field & 1) == 0) continue;
    half_words += plan->options.format.stored ? heddle_stored_half_words(field) : heddle_field_half_words(field);
  }
  return half_words;
}

/* Of all fields but scopes and signal, which have the same bits in both kinds of formats. */
static bool inner_vector(const struct plan* plan, uint32_t kernel, uint32_t id, unsigned* vector) {
  const unsigned outer = 1u << HEDDLE_FIELD_SCOPES | 1u << HEDDLE_FIELD_COMPLETION_SIGNAL;
  *vector = 0;
  if (plan->same[kernel] == plan->same[id]) return true;
  uint16_t different = 0;
  if (plan->options.format.stored) {
    struct heddle_stored wanted, entry;
    heddle_stored_of(&wanted, plan_fields(plan, kernel), plan_object(plan, kernel));
    heddle_stored_of(&entry, plan_fields(plan, id), plan_object(plan, id));
    if (!heddle_stored_different(&wanted, plan_object(plan, kernel), &entry, plan_object(plan, id), &different)) {
      return false;
    }
  } else {
    different = heddle_fields_different(plan_fields(plan, kernel), plan_fields(plan, id));
  }
  *vector = different & ~outer;
  return true;
}

static struct plan_diff diff_from(const struct plan* plan, uint32_t kernel, uint32_t id, const struct role* role) {
  const struct heddle_dispatch* const wanted = plan_fields(plan, kernel);
  const struct heddle_dispatch* const entry = plan_fields(plan, id);
  const struct plan_diff impossible = {0, 0, 0, PLAN_TOO_LONG};
  unsigned vector = 0;
  if (!inner_vector(plan, kernel, id, &vector)) return impossible;
  /* The signal of the entry is that of the packet's last kernel; another kernel has one only if its diff does. */
  const bool signal = role->last ? wanted->completion_signal != entry->completion_signal  //
                                 : wanted->completion_signal != 0;
  if (signal) vector |= 1u << HEDDLE_FIELD_COMPLETION_SIGNAL;

  const uint8_t had = plan_scopes(plan, id);
  const uint8_t has = role->scopes;
  bool scopes = false;
  const unsigned stored = HEDDLE_ACQUIRE_OF(had);
  const unsigned acquire = HEDDLE_ACQUIRE_OF(has);
  if (role->first) {
    scopes |= stored != acquire;
  } else { /* the acquire of the entry lets it see what the kernels before it in the packet have written: agent scope */
    scopes |= (stored < HEDDLE_FENCE_AGENT ? stored : HEDDLE_FENCE_AGENT) < acquire;
  }
  if (role->first || plan->options.overlap) scopes |= HEDDLE_BARRIER_OF(had) != HEDDLE_BARRIER_OF(has);
  if (role->last) {
    scopes |= HEDDLE_RELEASE_OF(had) != HEDDLE_RELEASE_OF(has);
  } else {
    scopes |= HEDDLE_RELEASE_OF(has) != HEDDLE_FENCE_NONE;
  }
  if (scopes) vector |= 1u << HEDDLE_FIELD_SCOPES;

  if ((uint32_t)vector >> plan->options.format.vector_bits != 0) return impossible;
  struct plan_diff diff = {0, (uint16_t)vector, has, half_words_of(plan, vector)};
  return diff;
}

static struct plan_diff best_diff(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel,
                                  const struct role* role) {
  struct plan_diff best = {0, 0, 0, PLAN_TOO_LONG};
  const unsigned least = heddle_diff_header(&plan->options.format);
  for (unsigned entry = 0; entry < plan->options.table_entries && best.half_words > least; ++entry) {
    if (slots->id[entry] == PLAN_NONE) continue;
    struct plan_diff diff = diff_from(plan, kernel, slots->id[entry], role);
    diff.entry = entry;
    if (diff.half_words < best.half_words) best = diff;
  }
  return best;
}

static unsigned wider(unsigned a, unsigned b) { return a > b ? a : b; }

/* Widest release fences of a packet that are put off, of kernels behind which the present one is ordered, and of the
 * others, which may still run. */
struct put_off {
  unsigned done;
  unsigned running;
};

/* The release of a kernel that others follow. Whoever sees a signal relies on the kernels before it as well: as plain
 * packets they had released before this one began (PKT-07). */
static unsigned middle_release(const struct plan* plan, uint32_t kernel, struct put_off* put_off) {
  if (waits(plan, kernel)) {
    put_off->done = wider(put_off->done, put_off->running);
    put_off->running = HEDDLE_FENCE_NONE;
  }
  unsigned release = HEDDLE_RELEASE_OF(plan_scopes(plan, kernel));
  if (!plan_has_own_clean_up(plan, kernel)) {
    put_off->running = wider(put_off->running, release);
    return HEDDLE_FENCE_NONE;
  }
  if (plan->kernels[kernel].dispatch.completion_signal != 0) release = wider(release, put_off->done);
  if (release >= put_off->done) put_off->done = HEDDLE_FENCE_NONE;
  /* Those it does not rely on have ended as well, if kernels run one after another. */
  if (!plan->options.overlap && release >= put_off->running) put_off->running = HEDDLE_FENCE_NONE;
  return release;
}

static unsigned last_release(const struct plan* plan, uint32_t kernel, const struct put_off* put_off) {
  return wider(HEDDLE_RELEASE_OF(plan_scopes(plan, kernel)), wider(put_off->done, put_off->running));
}

static struct role role_of(const struct plan* plan, uint32_t first, uint32_t kernel, bool last, unsigned acquire,
                           unsigned release) {
  const uint8_t own = plan_scopes(plan, kernel);
  struct role role = {kernel == first, last, 0};
  if (!role.first) {
    acquire = HEDDLE_ACQUIRE_OF(own);
    /* The wider part of it comes before the packet; it still acquires what the kernels before it have written. */
    if (acquire > HEDDLE_FENCE_AGENT && !keeps(plan, kernel, HEDDLE_KEEP_ACQUIRE)) acquire = HEDDLE_FENCE_AGENT;
  }
  role.scopes = HEDDLE_SCOPES(HEDDLE_BARRIER_OF(own), acquire, release);
  return role;
}

static unsigned widest_acquire(const struct plan* plan, uint32_t first, uint32_t last) {
  unsigned acquire = HEDDLE_FENCE_NONE;
  for (uint32_t i = first; i <= last; ++i) {
    if (i > first && keeps(plan, i, HEDDLE_KEEP_ACQUIRE)) continue; /* it comes before that kernel */
    acquire = wider(acquire, HEDDLE_ACQUIRE_OF(plan_scopes(plan, i)));
  }
  return acquire;
}

/* If no fence of kernels before it is put off. */
unsigned plan_middle_half_words(const struct plan* plan, uint32_t kernel, uint32_t id) {
  id = plan->same[id];
  struct plan_cached* const cached = &plan->cache[(kernel * 37u + id * 8191u) % PLAN_CACHE];
  if (cached->kernel != kernel || cached->id != id) {
    struct put_off nothing = {HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE};
    const struct role role = role_of(plan, PLAN_NONE, kernel, false, 0, middle_release(plan, kernel, &nothing));
    cached->kernel = kernel;
    cached->id = id;
    cached->half_words = diff_from(plan, kernel, id, &role).half_words;
  }
  return cached->half_words;
}

unsigned plan_best_middle(const struct plan* plan, const struct plan_slots* slots, uint32_t kernel) {
  unsigned best = PLAN_TOO_LONG;
  for (unsigned entry = 0; entry < plan->options.table_entries; ++entry) {
    if (slots->id[entry] == PLAN_NONE) continue;
    const unsigned half_words = plan_middle_half_words(plan, kernel, slots->id[entry]);
    if (half_words < best) best = half_words;
  }
  return best;
}

struct plan_packet plan_measure(const struct plan* plan, const struct plan_slots* slots, uint32_t first,
                                uint32_t last) {
  const unsigned acquire = widest_acquire(plan, first, last);
  struct put_off put_off = {HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE};
  struct plan_packet packet = {0, 0, 0};
  for (uint32_t kernel = first; kernel < last; ++kernel) {
    const unsigned release = middle_release(plan, kernel, &put_off);
    const struct role role = role_of(plan, first, kernel, false, acquire, release);
    packet.lead += best_diff(plan, slots, kernel, &role).half_words;
  }
  const struct role ends = role_of(plan, first, last, true, acquire, last_release(plan, last, &put_off));
  packet.closed = packet.lead + best_diff(plan, slots, last, &ends).half_words;
  const struct role follows = role_of(plan, first, last, false, acquire, middle_release(plan, last, &put_off));
  packet.open = packet.lead + best_diff(plan, slots, last, &follows).half_words;
  return packet;
}

struct plan_diff plan_write(const struct plan* plan, const struct plan_slots* slots, uint32_t first, uint32_t last,
                            uint32_t kernel) {
  struct put_off put_off = {HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE};
  for (uint32_t i = first; i < kernel; ++i) (void)middle_release(plan, i, &put_off);
  const unsigned release =
      kernel == last ? last_release(plan, kernel, &put_off) : middle_release(plan, kernel, &put_off);
  const struct role role = role_of(plan, first, kernel, kernel == last, widest_acquire(plan, first, last), release);
  return best_diff(plan, slots, kernel, &role);
}
