/* The device as its host sees it: registers, queues, signals. All state is in structs that the caller owns.
 *
 * Threads: functions for different queues may run at the same time if the callbacks allow it. Producers of one queue,
 * threads or processes, have a struct heddle_queue each, and share the ring and its two indices in memory. */
#ifndef HEDDLE_DEVICE_H
#define HEDDLE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heddle_packets.h"
#include "heddle_registers.h"
#include "heddle_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The way to the device. Callbacks return false if the access failed. `relax` and `barrier` may be null. */
struct heddle_bus {
  void* context; /* of all callbacks */
  /* Registers at an offset in BAR0, of 4 or 8 bytes, as one access. */
  bool (*read)(void* context, uint32_t offset, unsigned bytes, uint64_t* value);
  bool (*write)(void* context, uint32_t offset, unsigned bytes, uint64_t value);
  /* Memory at a unified address: device memory from 0, the host's from HEDDLE_HOST_WINDOW on. Aligned accesses of 2, 4
   * and 8 bytes must be seen as one by the device. */
  bool (*load)(void* context, uint64_t address, void* to, size_t bytes);
  bool (*store)(void* context, uint64_t address, const void* from, size_t bytes);
  /* Lets time go by between two looks: a wait of the simulation, a pause, an interrupt's arrival. */
  void (*relax)(void* context);
  /* Stores before it are seen before those after it. */
  void (*barrier)(void* context);
  /* Changes of an aligned 64-bit word of memory as one, for all that share it, and ordered with what is around them.
   * `old`: what was there. For the write indices of queues; where memory can be reached by a pointer, these are
   * heddle_word_fetch_add() and heddle_word_compare_exchange(). */
  bool (*fetch_add)(void* context, uint64_t address, uint64_t value, uint64_t* old);
  bool (*compare_exchange)(void* context, uint64_t address, uint64_t expected, uint64_t value, uint64_t* old);
};

/* The same with the atomics of C11, for a word at a pointer. The result is what was there. */
uint64_t heddle_word_fetch_add(void* word, uint64_t value);
uint64_t heddle_word_compare_exchange(void* word, uint64_t expected, uint64_t value);

/* Limits of waiting are numbers of looks; 0: wait for ever. */

/* Device */

struct heddle_device {
  struct heddle_bus bus;
  uint32_t version; /* HEDDLE_VERSION_* */
  uint32_t sms;
  uint32_t gpcs;
  uint32_t queues;
  uint32_t copy_engines;
  uint32_t copy_channels;
  uint64_t memory; /* bytes */
  uint32_t clock_mhz;
  uint32_t clock_period;   /* ps, as simulated */
  uint64_t timestamp_rate; /* ticks in a second */
  uint32_t doorbell_page;  /* bytes */
  uint32_t threads_limit;  /* of a workgroup */
  uint32_t shared_limit;   /* bytes of a workgroup */
};
/* Reads identification and configuration. HEDDLE_NO_DEVICE, HEDDLE_VERSION (another major version), HEDDLE_BUS. */
enum heddle_status heddle_device_open(struct heddle_device* device, const struct heddle_bus* bus);
/* Now, in ticks: the clock of the time stamps of signals. */
enum heddle_status heddle_device_timestamp(const struct heddle_device* device, uint64_t* ticks);
/* How the device's packet processor is made, for packets that depend on it. */
struct heddle_packet_setup {
  struct heddle_diff_format format; /* of condensed packets */
  unsigned table_entries;           /* that a reference state table has */
  bool shared_table;                /* one for all queues, and not one for each */
  bool overlap;                     /* kernels of a condensed packet overlap, as their barrier bits let them */
};
/* HEDDLE_VERSION: the device is older than the register that says so; HEDDLE_BUS. */
enum heddle_status heddle_device_packets(const struct heddle_device* device, struct heddle_packet_setup* setup);
/* Interrupts: bits are HEDDLE_INT_*_MASK. `status` has those that are pending, masked or not. */
enum heddle_status heddle_device_interrupts(const struct heddle_device* device, uint32_t* status);
/* The line goes up for pending bits that are in `mask`. */
enum heddle_status heddle_device_mask(const struct heddle_device* device, uint32_t mask);
enum heddle_status heddle_device_acknowledge(const struct heddle_device* device, uint32_t bits);
/* The next event id of a signal that asked for an interrupt. HEDDLE_EMPTY: none is left. */
enum heddle_status heddle_device_event(const struct heddle_device* device, uint32_t* event_id);
/* Back to the state after power-up; queues are gone. Returns when the device's accesses of before the reset have left
 * the host's bus: from then on nothing of them changes the host's memory. They end as soon as the bus has answered
 * them; one that it never answers counts as lost after a time that the device is set to (10 ms at first,
 * gpu.hub.dma_answer_limit). HEDDLE_TIMEOUT: the device has been reset, and some are still out after `limit` looks.
 * Queues can be opened; memory of the host that queues and copies of before used is not the caller's yet. HEDDLE_BUS.
 */
enum heddle_status heddle_device_reset(const struct heddle_device* device, uint64_t limit);

struct heddle_error {
  uint32_t count;  /* errors since the reset; of a queue: 0 or 1 */
  uint32_t queue;  /* HEDDLE_NO_QUEUE: none */
  uint32_t status; /* enum heddle_hsa */
  uint32_t reason; /* enum heddle_reason */
  uint32_t kernel; /* of a condensed packet: which */
  uint64_t index;  /* of the packet */
};
/* A sentence for people: "kernarg is not aligned to 16 bytes". Of other numbers: "unknown reason". */
const char* heddle_reason_text(uint32_t reason);
/* The latest error of any queue. */
enum heddle_status heddle_device_error(const struct heddle_device* device, struct heddle_error* error);

/* Copy channel: a copy engine's work without a queue. HEDDLE_BUSY: it has work. */
struct heddle_copy {
  enum heddle_copy_kind kind;
  uint64_t from; /* unified addresses */
  uint64_t to;
  uint64_t bytes;
  uint32_t value; /* of a fill */
  uint8_t subcontext;
};
enum heddle_status heddle_copy_start(const struct heddle_device* device, uint32_t channel,
                                     const struct heddle_copy* copy);
/* HEDDLE_OK also if it ended with an error: look at `state`. HEDDLE_TIMEOUT: still busy. */
enum heddle_status heddle_copy_wait(const struct heddle_device* device, uint32_t channel, uint64_t limit,
                                    enum heddle_copy_state* state, uint32_t* hsa);

#define HEDDLE_SUBCONTEXTS 64u

/* Which of the host's memory processes reach (HST-06) */

#define HEDDLE_WINDOW_PAGE UINT64_C(4096)

/* A part of the host's memory that a subcontext is given. Rings, read indices, signals, mailboxes and what copies move
 * must lie in windows of the queue's subcontext once subcontexts are kept apart. Subcontext 0 is the driver's: it needs
 * none. */
struct heddle_window {
  uint64_t address; /* unified, in the host's memory; a multiple of HEDDLE_WINDOW_PAGE */
  uint64_t bytes;   /* a multiple of HEDDLE_WINDOW_PAGE */
  uint8_t subcontext;
  bool reads;
  bool writes; /* signals take both */
};
/* Subcontexts reach their windows only, or all of the host's bus, as after a reset. HEDDLE_BUS. */
enum heddle_status heddle_windows_isolate(const struct heddle_device* device, bool isolate);
/* HEDDLE_INVALID: no such window; HEDDLE_FULL: the device has no room for another; HEDDLE_BUS. */
enum heddle_status heddle_window_open(const struct heddle_device* device, const struct heddle_window* window);
/* All of the subcontext's. Requests that are on their way may still take effect: close its queues first.
 * HEDDLE_INVALID, HEDDLE_BUS. */
enum heddle_status heddle_windows_close(const struct heddle_device* device, uint8_t subcontext);

/* The last request that was in no window of its subcontext's. Whoever asked has got an error as well. */
struct heddle_window_fault {
  uint32_t count;      /* since the reset; 0: there was none */
  uint32_t subcontext; /* whose request it was */
  uint32_t access;     /* enum heddle_window_access */
  uint64_t address;    /* unified: the first that was in none */
};
enum heddle_status heddle_windows_fault(const struct heddle_device* device, struct heddle_window_fault* fault);

/* Occupancy (CWD-24) */

struct heddle_extents { /* in CTAs; all 0: no such level */
  uint32_t x;
  uint16_t y;
  uint16_t z;
};
struct heddle_occupancy_query {
  uint32_t threads;   /* of a CTA */
  uint32_t registers; /* of a thread; 0: they limit nothing */
  uint32_t shared;    /* bytes of shared memory of a CTA */
  uint32_t local;     /* bytes of local memory of a thread */
  struct heddle_extents cpc;
  struct heddle_extents gpc;
  struct heddle_extents ugpu;
  struct heddle_extents gpu;
  enum heddle_query_mode mode;
  uint8_t subcontext;
  bool linear_memory; /* every outermost cluster takes a CGA memory slot */
};
struct heddle_occupancy {
  uint64_t active;  /* outermost clusters that can be resident at once; without clusters: CTAs */
  uint32_t largest; /* CTAs of the largest cluster of such CTAs that fits into a GPC */
  uint32_t hsa;     /* enum heddle_hsa */
};
/* How many clusters of a kernel the subcontext's part of the device holds at once if nothing else runs there. The
 * registers are for one caller at a time: HEDDLE_BUSY, another query is under way. HEDDLE_INVALID: the device has
 * refused, or no such kernel can run; `hsa` says why, and the numbers are 0. HEDDLE_TIMEOUT, HEDDLE_BUS. */
enum heddle_status heddle_max_active_clusters(const struct heddle_device* device,
                                              const struct heddle_occupancy_query* query, uint64_t limit,
                                              struct heddle_occupancy* result);

/* Queues (PKT-01) */

#define HEDDLE_MIN_QUEUE UINT32_C(1) /* packets */
#define HEDDLE_MAX_QUEUE (UINT32_C(1) << 20)

struct heddle_queue_setup {
  uint64_t ring;       /* unified address of size * 64 bytes; a multiple of 64 */
  uint32_t size;       /* packets: a power of two, HEDDLE_MIN_QUEUE to HEDDLE_MAX_QUEUE */
  uint64_t read_index; /* unified address of 8 bytes for the read index; a multiple of 8; 0: the register is read */
  /* Unified address of 8 bytes for the write index, a multiple of 8, in memory that all producers reach: the index of
   * the next slot that nobody has reserved. The device does not look at it. */
  uint64_t write_index;
  uint64_t first;     /* index of the first packet */
  int32_t priority;   /* larger is more urgent */
  uint8_t subcontext; /* whose it is: its doorbell is in the page of that subcontext */
};

struct heddle_queue {
  const struct heddle_device* device;
  uint32_t number;
  struct heddle_queue_setup setup;
  uint64_t read_index; /* as last seen: the packets before it have been taken */
  bool attached;       /* by heddle_queue_attach(): registers other than the doorbell are not used */
};

/* Makes every slot invalid, sets both indices and the registers, opens the queue and waits until it is active.
 * HEDDLE_INVALID, HEDDLE_BUSY (not closed), HEDDLE_QUEUE_ERROR (the device refused), HEDDLE_TIMEOUT, HEDDLE_BUS. */
enum heddle_status heddle_queue_create(struct heddle_queue* queue, const struct heddle_device* device, uint32_t number,
                                       const struct heddle_queue_setup* setup, uint64_t limit);
/* Another producer's handle of a queue that is open with that setup, whose read index is in memory. Nothing is changed,
 * and from then on nothing but memory and the doorbell is used, so that a process needs no more of BAR0 than the page
 * of its subcontext: `device` can be a copy with a bus of the process's own. HEDDLE_INVALID. */
enum heddle_status heddle_queue_attach(struct heddle_queue* queue, const struct heddle_device* device, uint32_t number,
                                       const struct heddle_queue_setup* setup);
/* Nothing more of the queue is begun, and what runs is killed; waits until all of it has ended. Completion signals of
 * packets that had not ended do not change, and whatever is put into the ring later is ignored. The queue is inactive
 * then, and is to be destroyed. HEDDLE_TIMEOUT: it goes on. */
enum heddle_status heddle_queue_inactivate(struct heddle_queue* queue, uint64_t limit);
/* Closes and waits until kernels that were launched have ended. Packets that were not launched are dropped. An agent
 * packet that is held for the host has been launched: the queue stays open until heddle_queue_agent_done(). So finish
 * it first, or give a limit: after HEDDLE_TIMEOUT the queue goes on closing, and destroying it again waits again. */
enum heddle_status heddle_queue_destroy(struct heddle_queue* queue, uint64_t limit);

/* The write index, as the HSA runtime has it; `old`: as it was. Whoever adds has reserved the slots from `old` on, and
 * waits until the ring has room for them before it writes there. A store is for queues with one producer. */
enum heddle_status heddle_queue_load_write_index(const struct heddle_queue* queue, uint64_t* index);
enum heddle_status heddle_queue_store_write_index(const struct heddle_queue* queue, uint64_t index);
enum heddle_status heddle_queue_add_write_index(const struct heddle_queue* queue, uint64_t count, uint64_t* old);
enum heddle_status heddle_queue_cas_write_index(const struct heddle_queue* queue, uint64_t expected, uint64_t index,
                                                uint64_t* old);
/* `count` slots: `index` and those after it. HEDDLE_FULL: not yet; HEDDLE_INVALID: more than the ring has. */
enum heddle_status heddle_queue_reserve(struct heddle_queue* queue, uint32_t count, uint64_t* index);
/* Puts a packet into a reserved slot: body first, then the 16 bits of the header, which publish it. Slots may be
 * published in any order; the device takes them in the order of their indices. */
enum heddle_status heddle_queue_publish(const struct heddle_queue* queue, uint64_t index,
                                        const struct heddle_packet* packet);
/* The two halves of that: the slot stays invalid until its header is written. */
enum heddle_status heddle_queue_write_body(const struct heddle_queue* queue, uint64_t index,
                                           const struct heddle_packet* packet);
enum heddle_status heddle_queue_write_header(const struct heddle_queue* queue, uint64_t index,
                                             const struct heddle_packet* packet);
/* Rings the doorbell: the device looks for packets. To be called after they have been published; the device looks at no
 * ring without a doorbell. Any value will do; `index` of the last packet lets it read those before it side by side. */
enum heddle_status heddle_queue_ring(const struct heddle_queue* queue, uint64_t index);
/* All of it, for `count` packets, with a doorbell at the end and whenever the ring is full. Waits for room.
 * `index` (may be null): of the last packet. HEDDLE_QUEUE_ERROR: the queue is not active; HEDDLE_TIMEOUT. In both cases
 * packets of it may have been published; the rest has not been reserved.
 * The state of the queue is read once at the beginning, and again while the ring is full. HEDDLE_OK says that the
 * packets were published, not that they will run: one that is bad, or was before them in the queue, stops the queue
 * later. See heddle_signal_wait(). */
enum heddle_status heddle_queue_submit(struct heddle_queue* queue, const struct heddle_packet* packets, uint32_t count,
                                       uint64_t limit, uint64_t* index);

/* Index of the first packet that has not been taken. */
enum heddle_status heddle_queue_taken(struct heddle_queue* queue, uint64_t* read_index);
enum heddle_status heddle_queue_get_state(const struct heddle_queue* queue, enum heddle_queue_state* state);
/* Why the queue stopped; `count` is 0 if it has not. */
enum heddle_status heddle_queue_error(const struct heddle_queue* queue, struct heddle_error* error);

/* The next agent packet that the device has for the host, which takes it. HEDDLE_EMPTY: none. Several may be taken
 * before one is done. For one thread at a time. */
enum heddle_status heddle_queue_take_agent(const struct heddle_queue* queue, uint64_t* index,
                                           struct heddle_agent* agent);
/* One that was taken is done; `hsa` other than HEDDLE_HSA_SUCCESS: with that error. For one thread at a time. */
enum heddle_status heddle_queue_agent_done(const struct heddle_queue* queue, uint64_t index, uint32_t hsa);

/* Signals: 64-bit values in memory at multiples of 32; of 64, with time stamps */

#define HEDDLE_SIGNAL_BYTES 32u
#define HEDDLE_STAMPED_SIGNAL_BYTES 64u
/* Bits of the handle: a change raises the interrupt; the device writes when the packet's work began and ended. */
#define HEDDLE_SIGNAL_INTERRUPT UINT64_C(1)
#define HEDDLE_SIGNAL_TIMESTAMPS UINT64_C(2)

/* `mailbox` and `event_id` are for handles with HEDDLE_SIGNAL_INTERRUPT: when the value changes, the id is written to
 * the mailbox (0: none) and appears in heddle_device_event(). HEDDLE_INVALID: a handle of 0 or misaligned. */
enum heddle_status heddle_signal_init(const struct heddle_bus* bus, uint64_t handle, int64_t value, uint64_t mailbox,
                                      uint32_t event_id);
enum heddle_status heddle_signal_load(const struct heddle_bus* bus, uint64_t handle, int64_t* value);
/* Ticks between which the packet's kernels ran, of a handle with HEDDLE_SIGNAL_TIMESTAMPS whose value has changed.
 * HEDDLE_INVALID: another handle. */
enum heddle_status heddle_signal_times(const struct heddle_bus* bus, uint64_t handle, uint64_t* start, uint64_t* end);
enum heddle_status heddle_signal_store(const struct heddle_bus* bus, uint64_t handle, int64_t value);

enum heddle_condition { HEDDLE_EQUAL, HEDDLE_NOT_EQUAL, HEDDLE_LESS, HEDDLE_AT_LEAST };
/* Until the value is …; `value` (may be null) is what was seen last. A signal that a bad packet has made negative does
 * not become 0: wait for HEDDLE_LESS 1.
 * Some signals never change: that of a packet of an undefined type or of a condensed packet whose format is bad; one
 * that is misaligned or not in memory; those of all packets behind a bad one, as the queue has stopped (PKT-09); and
 * those of packets that a close dropped. So give a limit, and look at heddle_queue_get_state() or heddle_queue_error()
 * when it has passed. */
enum heddle_status heddle_signal_wait(const struct heddle_bus* bus, uint64_t handle, enum heddle_condition condition,
                                      int64_t compare, uint64_t limit, int64_t* value);

#ifdef __cplusplus
}
#endif

#endif
