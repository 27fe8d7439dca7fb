/* Planner: a list of kernels becomes a list of packets that costs less: reference packets, which also store their
 * kernel in the table of the queue (PKT-05), and condensed packets, which launch several kernels as differences from
 * entries of that table (PKT-06, PKT-07); plain packets where nothing pays.
 *
 * What a plan keeps, for every kernel: its place in the list, all of setup, sizes, kernel object and arguments, its own
 * completion signal if it has one, and no signal if it has none. Before a signal come its kernel's release fence and
 * those of the kernels behind which that is ordered. What is kept of fences and barrier bits is below. A plan never
 * costs more than plain packets do. */
#ifndef HEDDLE_PLAN_H
#define HEDDLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heddle_packets.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Without a flag (and without keep_fences) a fence may be merged with those of the other kernels in a packet: the
 * packet acquires at the widest scope of its kernels, when it begins, and releases at the widest that is left when it
 * ends; a later kernel with an acquire fence still acquires what those before it in the packet have written. A kernel
 * with a signal before the end releases at the widest scope of itself and of those before it whose release is still to
 * come. */
enum heddle_keep {
  HEDDLE_KEEP_NOTHING = 0,
  HEDDLE_KEEP_ACQUIRE = 1, /* the acquire fence comes right before this kernel */
  HEDDLE_KEEP_RELEASE = 2  /* the release fence comes right after this kernel */
};

struct heddle_kernel {
  struct heddle_dispatch dispatch;
  uint32_t keep; /* HEDDLE_KEEP_*, added */
  /* What its kernel_object points to, where diffs are of the stored information; else it may be null. It must stay,
   * and stay as it is, as long as a table has the kernel. */
  const struct heddle_kernel_object* object;
};

/* Nanoseconds, up to 2^32 - 1 each. A condensed packet of n kernels costs condensed + n * diff, and own_clean_up for
 * each kernel before the last that has a signal or a release of its own. */
struct heddle_plan_costs {
  uint32_t plain;
  uint32_t reference;
  uint32_t condensed;
  uint32_t diff;
  uint32_t own_clean_up;
};

struct heddle_plan_options {
  struct heddle_plan_costs costs;
  uint32_t max_kernels; /* of a condensed packet; 0: no limit but its 31 half-words */
  bool keep_fences;     /* all kernels have both flags */
  /* Kernels without the barrier bit may be made to wait for earlier ones of the queue. Without it they are alone in
   * their packets, if the device runs the kernels of a packet one after another. */
  bool serialise;
  bool overlap;                     /* the device overlaps independent kernels of a condensed packet (PKT-07) */
  struct heddle_diff_format format; /* that the device has; all 0: that of the text */
  unsigned table_entries;           /* that a table has, up to HEDDLE_MOST_ENTRIES; 0: HEDDLE_REFERENCE_ENTRIES */
  uint32_t entries;                 /* bit = table entry that may be used; 0: all. For tables that queues share */
  uint32_t window;                  /* how many kernels ahead are looked at for the next use of an entry; 0: 64 */
  uint32_t beam; /* how many ways are followed, up to 64; 0: 8. Time is proportional to count * window * beam */
};

/* What the table of a queue holds after all its packets. The caller owns it, clears it when the queue is opened, and
 * hands it from plan to plan: kernels of an earlier plan are then entries already.
 *
 * The device has stored the contents of their kernel objects, and does not look at those again. Whoever writes another
 * object to an address that a kernel of the table has clears the table, or lets it forget that address, before the next
 * plan: the kernel of old would run. */
struct heddle_table {
  uint32_t valid; /* bit = entry */
  struct heddle_dispatch entries[HEDDLE_MOST_ENTRIES];
  const struct heddle_kernel_object* objects[HEDDLE_MOST_ENTRIES]; /* as heddle_kernel has them */
};
void heddle_table_clear(struct heddle_table* table);
/* Entries with that kernel object are not used any more, until another plan stores there. */
void heddle_table_forget(struct heddle_table* table, uint64_t kernel_object);

struct heddle_planned {
  struct heddle_packet packet;
  uint32_t first; /* kernel of the list */
  uint32_t kernels;
};

struct heddle_plan_result {
  uint32_t packets;
  uint32_t plain;
  uint32_t references;
  uint32_t condensed;
  uint32_t diffs;      /* kernels in condensed packets */
  uint32_t half_words; /* of them */
  uint64_t cost;       /* ns, by heddle_plan_costs */
  uint64_t plain_cost; /* ns, if all packets were plain */
};

/* Bytes of working memory for heddle_plan(); 0: too many kernels or an option out of range. */
size_t heddle_plan_workspace(uint32_t count, const struct heddle_plan_options* options);

/* Plans `count` kernels, up to 2^24. `packets` has room for `capacity`; `count` is always enough. `workspace` is
 * aligned to 8. Errors, with `table` as before: HEDDLE_INVALID (an option, a scope of 3, a kernel without an object
 * that needs one, workspace missing or misaligned), HEDDLE_FULL (workspace or `packets` too small).
 *
 * The barrier bit of a kernel waits for all earlier packets, and kernels without it that follow rely on that. What is
 * put into the queue behind a plan must have the barrier bit if it relies on the order within the plan's last packet.
 * `table` must be what the device has when the first packet is decoded. */
enum heddle_status heddle_plan(const struct heddle_kernel* kernels, uint32_t count,
                               const struct heddle_plan_options* options, struct heddle_table* table, void* workspace,
                               size_t workspace_bytes, struct heddle_planned* packets, uint32_t capacity,
                               struct heddle_plan_result* result);

#ifdef __cplusplus
}
#endif

#endif
