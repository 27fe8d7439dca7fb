/* Packets of user-mode queues (PKT-01, PKT-02) and kernel objects (PKT-12), byte by byte: little-endian, whatever the
 * host is. Builders write every byte; none of them judges what only the machine can (PKT-09). */
#ifndef HEDDLE_PACKETS_H
#define HEDDLE_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heddle_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_PACKET_BYTES 64u
#define HEDDLE_DIFF_VALUES 31u      /* half-words of a condensed packet */
#define HEDDLE_REFERENCE_ENTRIES 8u /* of a reference state table, unless the device has another number */
#define HEDDLE_MOST_ENTRIES 32u
#define HEDDLE_BARRIER_SIGNALS 5u  /* of a barrier packet */
#define HEDDLE_DISPATCH_FIELDS 13u /* that a diff can change */
#define HEDDLE_KERNEL_OBJECT_BYTES 128u
#define HEDDLE_KERNEL_NAME_BYTES 36u /* with the final 0 */

/* Unified addresses: device memory from 0, the host's bus address a at HEDDLE_HOST_WINDOW + a. */
#define HEDDLE_HOST_WINDOW UINT64_C(0x8000000000000000)

enum heddle_packet_type {
  HEDDLE_PACKET_VENDOR = 0,
  HEDDLE_PACKET_INVALID = 1,
  HEDDLE_PACKET_KERNEL_DISPATCH = 2,
  HEDDLE_PACKET_BARRIER_AND = 3,
  HEDDLE_PACKET_AGENT_DISPATCH = 4,
  HEDDLE_PACKET_BARRIER_OR = 5,
  HEDDLE_PACKET_REFERENCE_DISPATCH = 6,
  HEDDLE_PACKET_CONDENSED_DISPATCH = 7
};

/* The upper byte of a header: bit 0 barrier, bits 1-2 acquire, bits 3-4 release. */
enum heddle_fence { HEDDLE_FENCE_NONE = 0, HEDDLE_FENCE_AGENT = 1, HEDDLE_FENCE_SYSTEM = 2 };
#define HEDDLE_SCOPES(barrier, acquire, release) \
  ((uint8_t)(((barrier) ? 1u : 0u) | (unsigned)(acquire) << 1 | (unsigned)(release) << 3))
#define HEDDLE_BARRIER_OF(scopes) ((unsigned)(scopes)&1u)
#define HEDDLE_ACQUIRE_OF(scopes) ((unsigned)(scopes) >> 1 & 3u)
#define HEDDLE_RELEASE_OF(scopes) ((unsigned)(scopes) >> 3 & 3u)

struct heddle_packet {
  uint8_t bytes[HEDDLE_PACKET_BYTES];
};

/* What a dispatch says (PKT-03), and what a diff can change. */
struct heddle_dispatch {
  uint8_t scopes;             /* HEDDLE_SCOPES */
  uint16_t setup;             /* dimensions, 1 to 3 */
  uint16_t workgroup[3];      /* work-items; 1 in dimensions that are not used */
  uint32_t grid[3];           /* work-items; at least a workgroup */
  uint32_t private_segment;   /* bytes per work-item */
  uint32_t group_segment;     /* bytes per workgroup: all of its shared memory, static and dynamic */
  uint64_t kernel_object;     /* device address of a kernel object */
  uint64_t kernarg;           /* device address, a multiple of 16; 0: none */
  uint64_t completion_signal; /* handle; 0: none */
};

/* Fields by bit of a diff's vector (PKT-06). */
enum heddle_field {
  HEDDLE_FIELD_SCOPES = 0,
  HEDDLE_FIELD_SETUP = 1,
  HEDDLE_FIELD_WORKGROUP = 2, /* x; y and z follow */
  HEDDLE_FIELD_GRID = 5,      /* x; y and z follow */
  HEDDLE_FIELD_PRIVATE_SEGMENT = 8,
  HEDDLE_FIELD_GROUP_SEGMENT = 9,
  HEDDLE_FIELD_KERNEL_OBJECT = 10,
  HEDDLE_FIELD_KERNARG = 11,
  HEDDLE_FIELD_COMPLETION_SIGNAL = 12
};
/* Half-words that a field takes in a diff: 1, 2 or 4; 0 for a field that does not exist. */
unsigned heddle_field_half_words(unsigned field);
uint64_t heddle_field_get(const struct heddle_dispatch* dispatch, unsigned field);
/* The fields that differ, as a vector. */
uint16_t heddle_fields_different(const struct heddle_dispatch* a, const struct heddle_dispatch* b);
/* Half-words of a diff with that vector, its header included. */
unsigned heddle_diff_half_words(uint16_t vector);

/* A slot of a ring before something is published in it. */
void heddle_packet_invalid(struct heddle_packet* packet);
void heddle_packet_kernel(struct heddle_packet* packet, const struct heddle_dispatch* dispatch);
/* Also stored in the reference state table (PKT-05). HEDDLE_INVALID: no table has such an entry. */
enum heddle_status heddle_packet_reference(struct heddle_packet* packet, const struct heddle_dispatch* dispatch,
                                           unsigned entry);

/* Waits until all (any: HEDDLE_PACKET_BARRIER_OR) of `count` signals are 0. A handle of 0 is a dependency that is
 * satisfied for AND, and one that never is for OR: the device refuses an OR with no other.
 * HEDDLE_INVALID: another type, or more than HEDDLE_BARRIER_SIGNALS. */
enum heddle_status heddle_packet_barrier(struct heddle_packet* packet, enum heddle_packet_type type, uint8_t scopes,
                                         const uint64_t* signals, unsigned count, uint64_t completion_signal);

struct heddle_agent {
  uint8_t scopes;
  uint16_t function;
  uint64_t return_address;
  uint64_t arguments[4];
  uint64_t completion_signal;
};
void heddle_packet_agent(struct heddle_packet* packet, const struct heddle_agent* agent);
/* The reverse, of a packet that the device handed over. HEDDLE_INVALID: it is of another type. */
enum heddle_status heddle_packet_read_agent(const struct heddle_packet* packet, struct heddle_agent* agent);

/* `bytes` from `from` to `to`, unified addresses of any alignment; the ranges must not overlap. */
void heddle_packet_copy(struct heddle_packet* packet, uint8_t scopes, uint64_t from, uint64_t to, uint64_t bytes,
                        uint64_t completion_signal);
/* `bytes` at `to`, both multiples of 4, become copies of `value`. */
void heddle_packet_fill(struct heddle_packet* packet, uint8_t scopes, uint64_t to, uint64_t bytes, uint32_t value,
                        uint64_t completion_signal);
/* Holds its place for a time, up to 10^12 ns. */
void heddle_packet_hold(struct heddle_packet* packet, uint8_t scopes, uint64_t nanoseconds, uint64_t completion_signal);

/* What kernel_object points to. Extents of 0: the level is not there. */
enum heddle_cluster_level {
  HEDDLE_CLUSTER_CPC = 0,
  HEDDLE_CLUSTER_GPC = 1,
  HEDDLE_CLUSTER_UGPU = 2,
  HEDDLE_CLUSTER_GPU = 3
};
#define HEDDLE_CLUSTER_LEVELS 4u
#define HEDDLE_CLUSTER_FALLBACKS 4u
/* The order in which the outermost clusters of a grid (its workgroups, if it has none) start. */
enum heddle_raster_order {
  HEDDLE_RASTER_ROWS = 0,   /* x fastest, then y, then z */
  HEDDLE_RASTER_TILES = 1,  /* tile by tile */
  HEDDLE_RASTER_HILBERT = 2 /* along a Hilbert curve, plane by plane */
};
struct heddle_kernel_object {
  uint32_t program;       /* number in the machine's program store; 0: workgroups run for a duration */
  uint32_t threads_limit; /* of a workgroup; 0: the machine's */
  uint32_t registers_per_thread;
  uint32_t static_shared;                          /* bytes per workgroup */
  uint64_t shortest;                               /* cycles of the SM clock, without a program */
  uint64_t longest;                                /* at least `shortest` */
  uint16_t extents[HEDDLE_CLUSTER_LEVELS][3];      /* of clusters, in workgroups, by level */
  uint16_t fallbacks[HEDDLE_CLUSTER_FALLBACKS][3]; /* smaller sizes of the outermost level, in order */
  bool load_balancing;                             /* CTAs of a cluster may share an SM */
  bool linear_memory;                              /* every outermost cluster takes a memory slot */
  const char* name;                                /* below HEDDLE_KERNEL_NAME_BYTES; null: none */
  enum heddle_raster_order raster_order;
  uint8_t raster_tile[2]; /* extents x, y of a tile, at least 1; 0 in other orders */
  bool cooperative;       /* all workgroups of a grid are resident at once */
  /* Code in device memory, in place of a number (docs/kernels.md): a multiple of HEDDLE_CODE_ALIGNMENT, and its bytes,
   * 0 for none. `program`, `shortest` and `longest` are not used then. */
  uint64_t code;
  uint32_t code_bytes;
};
#define HEDDLE_CODE_ALIGNMENT 128u
#define HEDDLE_MOST_CODE_BYTES (1u << 20)
/* HEDDLE_INVALID: the name is too long. */
enum heddle_status heddle_kernel_object_encode(uint8_t bytes[HEDDLE_KERNEL_OBJECT_BYTES],
                                               const struct heddle_kernel_object* object);

/* How the device's condensed packets write differences (PKT-06, PKT-13: gpu.packet.reference_bits, vector_bits, diff).
 * All 0: 3 and 13 bits, and fields of packets. */
struct heddle_diff_format {
  unsigned reference_bits; /* of a header, that name an entry; up to 8 */
  unsigned vector_bits;    /* that say which fields differ; up to 24 */
  bool stored;             /* the fields are those of struct heddle_stored */
};
/* Half-words of a header: 1 or 2. */
unsigned heddle_diff_header(const struct heddle_diff_format* format);

/* What the device stores of a kernel, as far as a diff of it can change that (PKT-13). By bit: 0 scopes, 1 block x, y
 * and z follow, 4 grid x, y and z follow, in workgroups, 7 registers per thread, 8 shared memory of a workgroup, 9
 * private segment, 10 program, 11 kernarg, 12 completion signal. */
struct heddle_stored {
  uint64_t values[HEDDLE_DISPATCH_FIELDS];
  uint32_t items[3]; /* the grid in work-items */
};
void heddle_stored_of(struct heddle_stored* stored, const struct heddle_dispatch* dispatch,
                      const struct heddle_kernel_object* object);
unsigned heddle_stored_half_words(unsigned field);
/* The vector with which `entry` becomes `wanted`. A diff of sizes makes a grid of whole workgroups, so that a grid
 * whose last workgroups are partial can only be had from one of the same sizes: false, as where objects differ in what
 * no field has. Names do not count. */
bool heddle_stored_different(const struct heddle_stored* wanted, const struct heddle_kernel_object* wanted_object,
                             const struct heddle_stored* entry, const struct heddle_kernel_object* entry_object,
                             uint16_t* vector);

/* A condensed packet grows by appending (PKT-06). */
struct heddle_condensed {
  struct heddle_packet packet;
  struct heddle_diff_format format;
  unsigned kernels;
  unsigned half_words; /* that are taken, of HEDDLE_DIFF_VALUES */
};
void heddle_condensed_init(struct heddle_condensed* condensed);
/* HEDDLE_INVALID: there is no such format. The packet is empty then, and has that of heddle_condensed_init(). */
enum heddle_status heddle_condensed_init_as(struct heddle_condensed* condensed,
                                            const struct heddle_diff_format* format);
/* A kernel: table entry `entry`, with the fields of `vector` as `values` has them. HEDDLE_FULL: no room, and the packet
 * is as before. HEDDLE_INVALID: no such entry or field, a value of `vector` that its field is too narrow for (a grid of
 * 65,536 workgroups or more in y or z, where diffs are of stored information), or the format has fields of another
 * kind; the packet is as before as well. */
enum heddle_status heddle_condensed_append(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                           const struct heddle_dispatch* values);
enum heddle_status heddle_condensed_append_stored(struct heddle_condensed* condensed, unsigned entry, uint16_t vector,
                                                  const struct heddle_stored* values);

#ifdef __cplusplus
}
#endif

#endif
