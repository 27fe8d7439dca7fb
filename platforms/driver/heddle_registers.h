/* Registers of a Heddle device. Made by `heddle show registers --format c`; not to be edited. */
/* clang-format off */
#ifndef HEDDLE_REGISTERS_H
#define HEDDLE_REGISTERS_H

#include <stdint.h>

#define HEDDLE_BAR0_BYTES(page)                      (UINT32_C(0x10000) + 64u * (uint32_t)(page))  /* page: DOORBELL_PAGE */
#define HEDDLE_DEVICE_MAGIC                          UINT32_C(0x4c444548)
#define HEDDLE_REGISTER_VERSION                      UINT32_C(0x20001)
#define HEDDLE_MAX_QUEUES                            UINT32_C(64)
#define HEDDLE_COPY_CHANNELS                         UINT32_C(4)
#define HEDDLE_AGENT_WORDS                           UINT32_C(8)
#define HEDDLE_NO_QUEUE                              UINT32_C(0xffffffff)

/* Identification and configuration */
#define HEDDLE_REG_MAGIC                             UINT32_C(0x0)  /* ro, 32 bits */
#define HEDDLE_REG_VERSION                           UINT32_C(0x4)  /* ro, 32 bits */
#define HEDDLE_REG_SMS                               UINT32_C(0x8)  /* ro, 32 bits */
#define HEDDLE_REG_GPCS                              UINT32_C(0xc)  /* ro, 32 bits */
#define HEDDLE_REG_QUEUES                            UINT32_C(0x10)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_ENGINES                      UINT32_C(0x14)  /* ro, 32 bits */
#define HEDDLE_REG_MEMORY_BYTES                      UINT32_C(0x18)  /* ro, 64 bits */
#define HEDDLE_REG_CLOCK_MHZ                         UINT32_C(0x20)  /* ro, 32 bits */
#define HEDDLE_REG_THREADS_LIMIT                     UINT32_C(0x24)  /* ro, 32 bits */
#define HEDDLE_REG_SHARED_LIMIT                      UINT32_C(0x28)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_CHANNELS                     UINT32_C(0x2c)  /* ro, 32 bits */
#define HEDDLE_REG_SCRATCH                           UINT32_C(0x30)  /* rw, 32 bits */
#define HEDDLE_REG_CLOCK_PERIOD                      UINT32_C(0x34)  /* ro, 32 bits */
#define HEDDLE_REG_TIMESTAMP                         UINT32_C(0x38)  /* ro, 64 bits */
#define HEDDLE_REG_TIMESTAMP_RATE                    UINT32_C(0x58)  /* ro, 64 bits */
#define HEDDLE_REG_DOORBELL_PAGE                     UINT32_C(0x8c)  /* ro, 32 bits */
#define HEDDLE_REG_PACKET_FORMAT                     UINT32_C(0x15c)  /* ro, 32 bits */

/* Interrupts */
#define HEDDLE_REG_INT_STATUS                        UINT32_C(0x40)  /* w1c, 32 bits */
#define HEDDLE_REG_INT_MASK                          UINT32_C(0x44)  /* rw, 32 bits */
#define HEDDLE_REG_INT_SET                           UINT32_C(0x48)  /* wo, 32 bits */
#define HEDDLE_REG_INT_PENDING                       UINT32_C(0x4c)  /* ro, 32 bits */

/* Control and errors */
#define HEDDLE_REG_CONTROL                           UINT32_C(0x50)  /* wo, 32 bits */
#define HEDDLE_REG_STATUS                            UINT32_C(0x54)  /* ro, 32 bits */
#define HEDDLE_REG_ERROR_COUNT                       UINT32_C(0x60)  /* ro, 32 bits */
#define HEDDLE_REG_ERROR_QUEUE                       UINT32_C(0x64)  /* ro, 32 bits */
#define HEDDLE_REG_ERROR_STATUS                      UINT32_C(0x68)  /* ro, 32 bits */
#define HEDDLE_REG_ERROR_KERNEL                      UINT32_C(0x6c)  /* ro, 32 bits */
#define HEDDLE_REG_ERROR_INDEX                       UINT32_C(0x70)  /* ro, 64 bits */
#define HEDDLE_REG_ERROR_REASON                      UINT32_C(0x7c)  /* ro, 32 bits */
#define HEDDLE_REG_FAULT_COUNT                       UINT32_C(0x78)  /* ro, 32 bits */

/* Events of signals */
#define HEDDLE_REG_EVENT                             UINT32_C(0x80)  /* ro, 64 bits */
#define HEDDLE_REG_EVENT_COUNT                       UINT32_C(0x88)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_COUNT                  UINT32_C(0x90)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_ACCESS                 UINT32_C(0x94)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_ADDRESS                UINT32_C(0x98)  /* ro, 64 bits */
#define HEDDLE_REG_COPY_FAULT_SUBCONTEXT             UINT32_C(0xa0)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_ENGINE                 UINT32_C(0xa4)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_STATUS                 UINT32_C(0xa8)  /* ro, 32 bits */
#define HEDDLE_REG_COPY_FAULT_SENDER                 UINT32_C(0xac)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_SUBCONTEXT                  UINT32_C(0xb0)  /* rw, 32 bits */
#define HEDDLE_REG_SHARE_TPC                         UINT32_C(0xb4)  /* rw, 32 bits */
#define HEDDLE_REG_SHARE_VALUE                       UINT32_C(0xb8)  /* rw, 64 bits */
#define HEDDLE_REG_SHARE_COMMAND                     UINT32_C(0xc0)  /* wo, 32 bits */
#define HEDDLE_REG_SHARE_MODE                        UINT32_C(0xc4)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_CREDITS                     UINT32_C(0xc8)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_ENABLED                     UINT32_C(0xcc)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_BLOCK                       UINT32_C(0xd0)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_WARPS                       UINT32_C(0xd4)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_PAGE_TABLE                  UINT32_C(0xd8)  /* ro, 64 bits */
#define HEDDLE_REG_SHARE_REFUSED                     UINT32_C(0xe0)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_REFUSAL                     UINT32_C(0xe4)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_BANDWIDTH                   UINT32_C(0xe8)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_LIMIT                       UINT32_C(0xec)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_LOCAL_ADDRESS               UINT32_C(0xf0)  /* ro, 64 bits */
#define HEDDLE_REG_SHARE_LOCAL_BYTES                 UINT32_C(0xf8)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_SMS                         UINT32_C(0xfc)  /* ro, 32 bits */
#define HEDDLE_REG_SHARE_INSTANCE                    UINT32_C(0x158)  /* ro, 32 bits */

/* Occupancy queries */
#define HEDDLE_REG_QUERY_THREADS                     UINT32_C(0x100)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_REGISTERS                   UINT32_C(0x104)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_SHARED                      UINT32_C(0x108)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_LOCAL                       UINT32_C(0x10c)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_CPC                         UINT32_C(0x110)  /* rw, 64 bits */
#define HEDDLE_REG_QUERY_GPC                         UINT32_C(0x118)  /* rw, 64 bits */
#define HEDDLE_REG_QUERY_UGPU                        UINT32_C(0x120)  /* rw, 64 bits */
#define HEDDLE_REG_QUERY_GPU                         UINT32_C(0x128)  /* rw, 64 bits */
#define HEDDLE_REG_QUERY_MODE                        UINT32_C(0x130)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_SUBCONTEXT                  UINT32_C(0x134)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_MEMORY                      UINT32_C(0x138)  /* rw, 32 bits */
#define HEDDLE_REG_QUERY_COMMAND                     UINT32_C(0x13c)  /* wo, 32 bits */
#define HEDDLE_REG_QUERY_STATE                       UINT32_C(0x140)  /* ro, 32 bits */
#define HEDDLE_REG_QUERY_STATUS                      UINT32_C(0x144)  /* ro, 32 bits */
#define HEDDLE_REG_QUERY_ACTIVE                      UINT32_C(0x148)  /* ro, 64 bits */
#define HEDDLE_REG_QUERY_LARGEST                     UINT32_C(0x150)  /* ro, 32 bits */
#define HEDDLE_REG_WINDOW_SUBCONTEXT                 UINT32_C(0x200)  /* rw, 32 bits */
#define HEDDLE_REG_WINDOW_RIGHTS                     UINT32_C(0x204)  /* rw, 32 bits */
#define HEDDLE_REG_WINDOW_ADDRESS                    UINT32_C(0x208)  /* rw, 64 bits */
#define HEDDLE_REG_WINDOW_BYTES                      UINT32_C(0x210)  /* rw, 64 bits */
#define HEDDLE_REG_WINDOW_COMMAND                    UINT32_C(0x218)  /* wo, 32 bits */
#define HEDDLE_REG_WINDOW_ISOLATED                   UINT32_C(0x21c)  /* ro, 32 bits */
#define HEDDLE_REG_WINDOW_COUNT                      UINT32_C(0x220)  /* ro, 32 bits */
#define HEDDLE_REG_WINDOW_FAULT_COUNT                UINT32_C(0x224)  /* ro, 32 bits */
#define HEDDLE_REG_WINDOW_FAULT_ADDRESS              UINT32_C(0x228)  /* ro, 64 bits */
#define HEDDLE_REG_WINDOW_FAULT_SUBCONTEXT           UINT32_C(0x230)  /* ro, 32 bits */
#define HEDDLE_REG_WINDOW_FAULT_ACCESS               UINT32_C(0x234)  /* ro, 32 bits */

/* Copy channels */
#define HEDDLE_REG_COPY_FROM(c)                      (UINT32_C(0x1000) + 0x40u * (uint32_t)(c))  /* rw, 64 bits */
#define HEDDLE_REG_COPY_TO(c)                        (UINT32_C(0x1008) + 0x40u * (uint32_t)(c))  /* rw, 64 bits */
#define HEDDLE_REG_COPY_BYTES(c)                     (UINT32_C(0x1010) + 0x40u * (uint32_t)(c))  /* rw, 64 bits */
#define HEDDLE_REG_COPY_VALUE(c)                     (UINT32_C(0x1018) + 0x40u * (uint32_t)(c))  /* rw, 32 bits */
#define HEDDLE_REG_COPY_KIND(c)                      (UINT32_C(0x101c) + 0x40u * (uint32_t)(c))  /* rw, 32 bits */
#define HEDDLE_REG_COPY_COMMAND(c)                   (UINT32_C(0x1020) + 0x40u * (uint32_t)(c))  /* wo, 32 bits */
#define HEDDLE_REG_COPY_STATE(c)                     (UINT32_C(0x1024) + 0x40u * (uint32_t)(c))  /* ro, 32 bits */
#define HEDDLE_REG_COPY_STATUS(c)                    (UINT32_C(0x1028) + 0x40u * (uint32_t)(c))  /* ro, 32 bits */
#define HEDDLE_REG_COPY_SUBCONTEXT(c)                (UINT32_C(0x102c) + 0x40u * (uint32_t)(c))  /* rw, 32 bits */
#define HEDDLE_REG_COPY_ERROR_ADDRESS(c)             (UINT32_C(0x1030) + 0x40u * (uint32_t)(c))  /* ro, 64 bits */
#define HEDDLE_REG_COPY_CYCLES(c)                    (UINT32_C(0x1038) + 0x40u * (uint32_t)(c))  /* ro, 64 bits */

/* Doorbells */
#define HEDDLE_REG_DOORBELL(q)                       (UINT32_C(0x10000) + 0x8u * (uint32_t)(q))  /* wo, 64 bits */

/* Queues */
#define HEDDLE_REG_QUEUE_BASE(q)                     (UINT32_C(0x4000) + 0x100u * (uint32_t)(q))  /* rw, 64 bits */
#define HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(q)       (UINT32_C(0x4008) + 0x100u * (uint32_t)(q))  /* rw, 64 bits */
#define HEDDLE_REG_QUEUE_FIRST(q)                    (UINT32_C(0x4010) + 0x100u * (uint32_t)(q))  /* rw, 64 bits */
#define HEDDLE_REG_QUEUE_SIZE(q)                     (UINT32_C(0x4018) + 0x100u * (uint32_t)(q))  /* rw, 32 bits */
#define HEDDLE_REG_QUEUE_PRIORITY(q)                 (UINT32_C(0x401c) + 0x100u * (uint32_t)(q))  /* rw, 32 bits */
#define HEDDLE_REG_QUEUE_SUBCONTEXT(q)               (UINT32_C(0x4020) + 0x100u * (uint32_t)(q))  /* rw, 32 bits */
#define HEDDLE_REG_QUEUE_COMMAND(q)                  (UINT32_C(0x4024) + 0x100u * (uint32_t)(q))  /* wo, 32 bits */
#define HEDDLE_REG_QUEUE_STATE(q)                    (UINT32_C(0x4028) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_QUEUE_ERROR_STATUS(q)             (UINT32_C(0x402c) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_QUEUE_ERROR_INDEX(q)              (UINT32_C(0x4030) + 0x100u * (uint32_t)(q))  /* ro, 64 bits */
#define HEDDLE_REG_QUEUE_ERROR_KERNEL(q)             (UINT32_C(0x4038) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_QUEUE_FAULTS(q)                   (UINT32_C(0x403c) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_QUEUE_READ_INDEX(q)               (UINT32_C(0x4040) + 0x100u * (uint32_t)(q))  /* ro, 64 bits */
#define HEDDLE_REG_QUEUE_ERROR_REASON(q)             (UINT32_C(0x4068) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_AGENT_INDEX(q)                    (UINT32_C(0x4048) + 0x100u * (uint32_t)(q))  /* ro, 64 bits */
#define HEDDLE_REG_AGENT_STATE(q)                    (UINT32_C(0x4050) + 0x100u * (uint32_t)(q))  /* ro, 32 bits */
#define HEDDLE_REG_AGENT_TAKE(q)                     (UINT32_C(0x4058) + 0x100u * (uint32_t)(q))  /* wo, 32 bits */
#define HEDDLE_REG_AGENT_DONE_INDEX(q)               (UINT32_C(0x4060) + 0x100u * (uint32_t)(q))  /* rw, 64 bits */
#define HEDDLE_REG_AGENT_DONE(q)                     (UINT32_C(0x4054) + 0x100u * (uint32_t)(q))  /* wo, 32 bits */
#define HEDDLE_REG_AGENT_PACKET(q, w)                (UINT32_C(0x4080) + 0x100u * (uint32_t)(q) + 0x8u * (uint32_t)(w))  /* ro, 64 bits */

/* Fields: VERSION */
#define HEDDLE_VERSION_MINOR_SHIFT                   0
#define HEDDLE_VERSION_MINOR_MASK                    UINT32_C(0xffff)  /* goes up when registers are added */
#define HEDDLE_VERSION_MAJOR_SHIFT                   16
#define HEDDLE_VERSION_MAJOR_MASK                    UINT32_C(0xffff0000)  /* goes up when a driver has to change */

/* Fields: PACKET_FORMAT */
#define HEDDLE_PACKET_FORMAT_ENTRIES_SHIFT           0
#define HEDDLE_PACKET_FORMAT_ENTRIES_MASK            UINT32_C(0xff)  /* entries of a reference state table */
#define HEDDLE_PACKET_FORMAT_REFERENCE_BITS_SHIFT    8
#define HEDDLE_PACKET_FORMAT_REFERENCE_BITS_MASK     UINT32_C(0xf00)  /* of a diff's header, that name an entry */
#define HEDDLE_PACKET_FORMAT_VECTOR_BITS_SHIFT       12
#define HEDDLE_PACKET_FORMAT_VECTOR_BITS_MASK        UINT32_C(0x1f000)  /* of a diff's header, that say which fields differ */
#define HEDDLE_PACKET_FORMAT_STORED_SHIFT            20
#define HEDDLE_PACKET_FORMAT_STORED_MASK             UINT32_C(0x100000)  /* diffs are of the stored information; 0: of the fields of packets */
#define HEDDLE_PACKET_FORMAT_SHARED_TABLE_SHIFT      21
#define HEDDLE_PACKET_FORMAT_SHARED_TABLE_MASK       UINT32_C(0x200000)  /* all queues share a reference state table; 0: each has its own */
#define HEDDLE_PACKET_FORMAT_OVERLAP_SHIFT           22
#define HEDDLE_PACKET_FORMAT_OVERLAP_MASK            UINT32_C(0x400000)  /* a kernel of a condensed packet waits for those before it only if it has the barrier bit; 0: always */

/* Fields: INT */
#define HEDDLE_INT_SIGNAL_SHIFT                      0
#define HEDDLE_INT_SIGNAL_MASK                       UINT32_C(0x1)  /* a signal that asks for an interrupt has changed: its event id is in EVENT */
#define HEDDLE_INT_QUEUE_ERROR_SHIFT                 1
#define HEDDLE_INT_QUEUE_ERROR_MASK                  UINT32_C(0x2)  /* a queue has stopped with an error, or refused to open: see QUEUE_STATE and the ERROR registers */
#define HEDDLE_INT_AGENT_SHIFT                       2
#define HEDDLE_INT_AGENT_MASK                        UINT32_C(0x4)  /* a queue holds an agent packet for the host */
#define HEDDLE_INT_COPY_DONE_SHIFT                   3
#define HEDDLE_INT_COPY_DONE_MASK                    UINT32_C(0x8)  /* a copy channel is done */
#define HEDDLE_INT_COPY_ERROR_SHIFT                  4
#define HEDDLE_INT_COPY_ERROR_MASK                   UINT32_C(0x10)  /* a copy channel has stopped with an error */
#define HEDDLE_INT_FAULT_SHIFT                       5
#define HEDDLE_INT_FAULT_MASK                        UINT32_C(0x20)  /* a kernel has faulted */
#define HEDDLE_INT_OVERFLOW_SHIFT                    6
#define HEDDLE_INT_OVERFLOW_MASK                     UINT32_C(0x40)  /* an event id was lost because EVENT was full: look at all signals */
#define HEDDLE_INT_QUEUE_CLOSED_SHIFT                7
#define HEDDLE_INT_QUEUE_CLOSED_MASK                 UINT32_C(0x80)  /* a queue has become closed, or inactive */
#define HEDDLE_INT_SOFTWARE_SHIFT                    8
#define HEDDLE_INT_SOFTWARE_MASK                     UINT32_C(0x100)  /* raised by INT_SET only */
#define HEDDLE_INT_QUERY_DONE_SHIFT                  9
#define HEDDLE_INT_QUERY_DONE_MASK                   UINT32_C(0x200)  /* an occupancy query has been answered */

/* Fields: CONTROL */
#define HEDDLE_CONTROL_SOFT_RESET_SHIFT              0
#define HEDDLE_CONTROL_SOFT_RESET_MASK               UINT32_C(0x1)  /* 1: the device goes back to the state after power-up; a blocking write returns when it has, another is answered first. Memory of the host that the device wrote is the host's again when RESET_BUSY of STATUS is 0. Device memory keeps its bytes, but for those that only the L2 had */

/* Fields: STATUS */
#define HEDDLE_STATUS_RESET_BUSY_SHIFT               0
#define HEDDLE_STATUS_RESET_BUSY_MASK                UINT32_C(0x1)  /* accesses of before the last reset are out on the host's bus: writes among them may still take effect */

/* Fields: EVENT */
#define HEDDLE_EVENT_ID_SHIFT                        0
#define HEDDLE_EVENT_ID_MASK                         UINT32_C(0xffffffff)  /* event id of the signal */
#define HEDDLE_EVENT_VALID_SHIFT                     32
#define HEDDLE_EVENT_VALID_MASK                      UINT64_C(0x100000000)  /* 0: there was none */

/* Fields: SUBCONTEXT */
#define HEDDLE_SUBCONTEXT_NUMBER_SHIFT               0
#define HEDDLE_SUBCONTEXT_NUMBER_MASK                UINT32_C(0xff)  /* subcontext of the device's memory */

/* Fields: SHARE_TPC */
#define HEDDLE_SHARE_TPC_TPC_SHIFT                   0
#define HEDDLE_SHARE_TPC_TPC_MASK                    UINT32_C(0xffff)  /* of the GPC */
#define HEDDLE_SHARE_TPC_GPC_SHIFT                   16
#define HEDDLE_SHARE_TPC_GPC_MASK                    UINT32_C(0xffff0000)  /* of the machine */

/* Fields: EXTENTS */
#define HEDDLE_EXTENTS_X_SHIFT                       0
#define HEDDLE_EXTENTS_X_MASK                        UINT32_C(0xffffffff)  /* CTAs */
#define HEDDLE_EXTENTS_Y_SHIFT                       32
#define HEDDLE_EXTENTS_Y_MASK                        UINT64_C(0xffff00000000)  /* CTAs */
#define HEDDLE_EXTENTS_Z_SHIFT                       48
#define HEDDLE_EXTENTS_Z_MASK                        UINT64_C(0xffff000000000000)  /* CTAs */

/* Fields: QUERY_MEMORY */
#define HEDDLE_QUERY_MEMORY_LINEAR_SHIFT             0
#define HEDDLE_QUERY_MEMORY_LINEAR_MASK              UINT32_C(0x1)  /* every outermost CGA takes a CGA memory slot */

/* Fields: WINDOW_RIGHTS */
#define HEDDLE_WINDOW_RIGHTS_READ_SHIFT              0
#define HEDDLE_WINDOW_RIGHTS_READ_MASK               UINT32_C(0x1)  /* the subcontext may read there */
#define HEDDLE_WINDOW_RIGHTS_WRITE_SHIFT             1
#define HEDDLE_WINDOW_RIGHTS_WRITE_MASK              UINT32_C(0x2)  /* it may write there; atomics take both */

/* Fields: AGENT_STATE */
#define HEDDLE_AGENT_STATE_WAITING_SHIFT             0
#define HEDDLE_AGENT_STATE_WAITING_MASK              UINT32_C(0xff)  /* packets that wait for AGENT_TAKE; AGENT_INDEX and AGENT_PACKET show the first */
#define HEDDLE_AGENT_STATE_TAKEN_SHIFT               8
#define HEDDLE_AGENT_STATE_TAKEN_MASK                UINT32_C(0xff00)  /* packets that have been taken, and wait for AGENT_DONE */

enum heddle_hsa {
  HEDDLE_HSA_SUCCESS = 0,  /* no error */
  HEDDLE_HSA_ERROR = 0x1000,  /* the way to memory failed */
  HEDDLE_HSA_INVALID_ARGUMENT = 0x1001,  /* dimensions, sizes, alignment, an empty entry */
  HEDDLE_HSA_INVALID_ALLOCATION = 0x1003,  /* a group segment smaller than the kernel's static shared memory */
  HEDDLE_HSA_INVALID_SIGNAL = 0x1006,  /* a signal that memory does not have */
  HEDDLE_HSA_INVALID_QUEUE = 0x1007,  /* a ring or index that memory does not have, a bad size */
  HEDDLE_HSA_OUT_OF_RESOURCES = 0x1008,  /* more than the machine has */
  HEDDLE_HSA_INVALID_PACKET_FORMAT = 0x1009,  /* an undefined type, a reserved field */
  HEDDLE_HSA_INCOMPATIBLE_ARGUMENTS = 0x100d,  /* packet and kernel object contradict each other */
  HEDDLE_HSA_INVALID_CODE_OBJECT = 0x1010,  /* no kernel object there */
  HEDDLE_HSA_EXCEPTION = 0x1016  /* a kernel of the packet faulted */
};

enum heddle_reason {
  HEDDLE_REASON_NONE = 0,  /* none */
  HEDDLE_REASON_PACKET_TYPE = 1,  /* there is no such type of packets */
  HEDDLE_REASON_OTHER_TYPE = 2,  /* the packet is of another type */
  HEDDLE_REASON_RESERVED_FIELD = 3,  /* a reserved field is not 0 */
  HEDDLE_REASON_HEADER_BITS = 4,  /* reserved bits of the header are set */
  HEDDLE_REASON_FENCE_SCOPE = 5,  /* fence scope 3 does not exist */
  HEDDLE_REASON_SETUP_BITS = 6,  /* reserved bits of setup are set, or it has more than 3 dimensions */
  HEDDLE_REASON_VENDOR_FORMAT = 7,  /* there is no such vendor format */
  HEDDLE_REASON_ZEROED_SLOT = 8,  /* the packet is all zeros: rings begin as packets of type INVALID */
  HEDDLE_REASON_NO_KERNELS = 9,  /* a condensed packet without kernels */
  HEDDLE_REASON_MANY_KERNELS = 0xa,  /* a condensed packet of more than 31 kernels */
  HEDDLE_REASON_DIFF_PAST_END = 0xb,  /* a diff runs past the 31 half-words of the packet */
  HEDDLE_REASON_WIDE_VALUE = 0xc,  /* an 8-bit field of a diff has more bits */
  HEDDLE_REASON_REST_NOT_ZERO = 0xd,  /* half-words behind the last diff are not 0 */
  HEDDLE_REASON_DIFF_HEADER = 0xe,  /* bits of a diff header that mean nothing are set */
  HEDDLE_REASON_DIFF_FIELDS = 0xf,  /* a diff changes fields that do not exist */
  HEDDLE_REASON_NO_DIMENSIONS = 0x14,  /* a dispatch without dimensions */
  HEDDLE_REASON_EMPTY_WORKGROUP = 0x15,  /* a workgroup size is 0 */
  HEDDLE_REASON_UNUSED_DIMENSION = 0x16,  /* the size of an unused dimension is not 1 */
  HEDDLE_REASON_SMALL_GRID = 0x17,  /* the grid is smaller than a workgroup */
  HEDDLE_REASON_LARGE_WORKGROUP = 0x18,  /* a workgroup has more work-items than a CTA can */
  HEDDLE_REASON_LARGE_GRID = 0x19,  /* the grid has more workgroups than CTA ids can tell */
  HEDDLE_REASON_KERNARG_ALIGNMENT = 0x1a,  /* kernarg is not aligned to 16 bytes */
  HEDDLE_REASON_KERNARG_HOST = 0x1b,  /* kernarg is in the host's memory, which SMs do not reach */
  HEDDLE_REASON_NO_ENTRY = 0x1c,  /* there is no such table entry: ref_num is too large */
  HEDDLE_REASON_EMPTY_ENTRY = 0x1d,  /* an entry of the reference state table is empty */
  HEDDLE_REASON_CHANGED_ENTRY = 0x1e,  /* what lies in memory is not the table entry */
  HEDDLE_REASON_NO_DEPENDENCY = 0x1f,  /* a barrier-OR without a signal can never be satisfied */
  HEDDLE_REASON_LONG_HOLD = 0x20,  /* a hold of more than 1000 s */
  HEDDLE_REASON_TARGET_RANGE = 0x21,  /* the target runs past the end of memory */
  HEDDLE_REASON_SOURCE_RANGE = 0x22,  /* the source runs past the end of memory */
  HEDDLE_REASON_FILL_ALIGNMENT = 0x23,  /* a fill that is not of whole, aligned 32-bit words */
  HEDDLE_REASON_COPY_OVERLAP = 0x24,  /* a copy onto itself: the ranges overlap */
  HEDDLE_REASON_THREADS_LIMIT = 0x25,  /* a workgroup has more work-items than the kernel object allows */
  HEDDLE_REASON_CLUSTER_GRID = 0x26,  /* the clusters of the kernel object do not divide the grid */
  HEDDLE_REASON_PARTIAL_CLUSTERS = 0x27,  /* partial workgroups in a grid of clusters */
  HEDDLE_REASON_SMALL_GROUP_SEGMENT = 0x28,  /* the group segment is smaller than the kernel's static shared memory */
  HEDDLE_REASON_DIFF_ENTRY = 0x29,  /* a diff names an entry that the table does not have */
  HEDDLE_REASON_GRID_ITEMS = 0x2a,  /* a grid of more than 4294967295 work-items */
  HEDDLE_REASON_GROUP_SEGMENT = 0x32,  /* a workgroup takes more shared memory than a CTA can have */
  HEDDLE_REASON_PRIVATE_SEGMENT = 0x33,  /* a work-item takes more private memory than a thread can have */
  HEDDLE_REASON_THREAD_REGISTERS = 0x34,  /* the kernel has more registers per thread than a thread can have */
  HEDDLE_REASON_SM_WARPS = 0x35,  /* a workgroup has more warps than an SM */
  HEDDLE_REASON_SM_THREADS = 0x36,  /* a workgroup has more threads than an SM, in whole warps */
  HEDDLE_REASON_SM_REGISTERS = 0x37,  /* a workgroup takes more registers than an SM has */
  HEDDLE_REASON_SM_SHARED = 0x38,  /* a workgroup takes more shared memory than an SM has */
  HEDDLE_REASON_SM_CTAS = 0x39,  /* a workgroup takes more CTA slots than an SM has */
  HEDDLE_REASON_SM_BARRIERS = 0x3a,  /* a workgroup takes more barriers than an SM has */
  HEDDLE_REASON_SM_OTHER = 0x3b,  /* a workgroup needs more than an SM has */
  HEDDLE_REASON_CLUSTER_ROOM = 0x3c,  /* nothing of the machine can hold a cluster */
  HEDDLE_REASON_COOPERATIVE_ROOM = 0x3d,  /* a cooperative grid has more CTAs than the machine holds at once */
  HEDDLE_REASON_MACHINE_ROOM = 0x3e,  /* the machine cannot hold a kernel */
  HEDDLE_REASON_OBJECT_ADDRESS = 0x46,  /* kernel_object is no address of a kernel object in device memory */
  HEDDLE_REASON_OBJECT_UNREADABLE = 0x47,  /* the kernel object cannot be read */
  HEDDLE_REASON_OBJECT_MAGIC = 0x48,  /* there is no kernel object */
  HEDDLE_REASON_OBJECT_VERSION = 0x49,  /* a kernel object of another version */
  HEDDLE_REASON_OBJECT_FLAGS = 0x4a,  /* the kernel object has unknown flags */
  HEDDLE_REASON_OBJECT_RESERVED = 0x4b,  /* a reserved field of the kernel object is not 0 */
  HEDDLE_REASON_OBJECT_DURATION = 0x4c,  /* a kernel object without a program, whose CTAs have no sensible duration */
  HEDDLE_REASON_OBJECT_GRID_KIND = 0x4d,  /* grid kind and cluster extents disagree */
  HEDDLE_REASON_OBJECT_EXTENTS = 0x4e,  /* cluster extents that make no sense together */
  HEDDLE_REASON_OBJECT_ORDER = 0x4f,  /* the kernel object has no such raster order */
  HEDDLE_REASON_OBJECT_TILE = 0x50,  /* raster order and tile of the kernel object disagree */
  HEDDLE_REASON_OBJECT_NAME = 0x51,  /* the name of the kernel object does not end */
  HEDDLE_REASON_OBJECT_NAME_REST = 0x52,  /* the kernel object has bytes behind its name */
  HEDDLE_REASON_OBJECT_PROGRAM = 0x53,  /* there is no such program */
  HEDDLE_REASON_OBJECT_CODE = 0x54,  /* the code lies outside device memory, or has no possible size */
  HEDDLE_REASON_CODE_UNREADABLE = 0x55,  /* the code of the kernel object cannot be read */
  HEDDLE_REASON_CODE_BYTES = 0x56,  /* the code of the kernel object is no program */
  HEDDLE_REASON_CODE_OBJECT = 0x57,  /* the kernel object has too few registers for its code, or other clusters */
  HEDDLE_REASON_CODE_MACHINE = 0x58,  /* the machine has no decoder, room or units for the code */
  HEDDLE_REASON_SIGNAL_ALIGNMENT = 0x5a,  /* a signal is not aligned to 32 bytes, or to 64 with time stamps */
  HEDDLE_REASON_SIGNAL_UNWRITABLE = 0x5b,  /* a completion signal cannot be written */
  HEDDLE_REASON_SIGNAL_UNREADABLE = 0x5c,  /* a signal that it waits for cannot be read */
  HEDDLE_REASON_MAILBOX_ADDRESS = 0x5d,  /* a signal names no mailbox that can be written */
  HEDDLE_REASON_MAILBOX_UNWRITABLE = 0x5e,  /* a mailbox cannot be written */
  HEDDLE_REASON_STAMPS_UNWRITABLE = 0x5f,  /* the time stamps of a signal cannot be written */
  HEDDLE_REASON_QUEUE_NUMBER = 0x64,  /* there is no such queue */
  HEDDLE_REASON_QUEUE_OPEN = 0x65,  /* the queue is not closed */
  HEDDLE_REASON_QUEUE_SIZE = 0x66,  /* the size is no power of two from 1 to 2^20 */
  HEDDLE_REASON_RING_ALIGNMENT = 0x67,  /* the ring does not begin at a multiple of 64 */
  HEDDLE_REASON_RING_RANGE = 0x68,  /* the ring reaches past the end of memory */
  HEDDLE_REASON_READ_INDEX_ALIGNMENT = 0x69,  /* the read index is not at a multiple of 8 */
  HEDDLE_REASON_FIRST_INDEX = 0x6a,  /* the index of the first packet is above 2^63 */
  HEDDLE_REASON_QUEUE_SUBCONTEXT = 0x6b,  /* there is no such subcontext */
  HEDDLE_REASON_RING_UNREADABLE = 0x6c,  /* the ring cannot be read */
  HEDDLE_REASON_RING_UNWRITABLE = 0x6d,  /* the ring cannot be written */
  HEDDLE_REASON_READ_INDEX_UNWRITABLE = 0x6e,  /* the read index cannot be written */
  HEDDLE_REASON_TABLE_UNREADABLE = 0x6f,  /* the reference state table cannot be read */
  HEDDLE_REASON_TABLE_UNWRITABLE = 0x70,  /* the reference state table cannot be written */
  HEDDLE_REASON_WRITE_BACK = 0x71,  /* what the caches hold cannot be written back */
  HEDDLE_REASON_COPY_MEMORY = 0x72,  /* memory refused a copy */
  HEDDLE_REASON_KERNEL_FAULT = 0x73,  /* a CTA of a kernel faulted */
  HEDDLE_REASON_AGENT_ERROR = 0x74,  /* the host ended an agent packet with an error */
  HEDDLE_REASON_NEGATIVE_SIGNAL = 0x75,  /* a signal that it waits for is negative */
  HEDDLE_REASON_INACTIVATED = 0x76  /* killed: its queue was inactivated */
};

enum heddle_copy_access {
  HEDDLE_COPY_ACCESS_READ = 0,  /* a read of the source */
  HEDDLE_COPY_ACCESS_WRITE = 1  /* a write to the destination */
};

enum heddle_copy_sender {
  HEDDLE_COPY_SENDER_PACKET = 0,  /* a packet of a queue */
  HEDDLE_COPY_SENDER_REGISTERS = 1  /* a copy channel */
};

enum heddle_share_command {
  HEDDLE_SHARE_COMMAND_MODE = 1,  /* SHARE_VALUE is the mode of the whole machine: a value of SHARE_MODE */
  HEDDLE_SHARE_COMMAND_CREDITS = 2,  /* SHARE_VALUE: TPCs that the subcontext may hold at once, 0 to 4096 */
  HEDDLE_SHARE_COMMAND_ENABLE = 3,  /* SHARE_VALUE is 1: the subcontext may run on the TPC; 0: it may not */
  HEDDLE_SHARE_COMMAND_BLOCK = 4,  /* SHARE_VALUE: local-memory block of the subcontext on the TPC in static mode; 0xFFFFFFFF: none */
  HEDDLE_SHARE_COMMAND_PAGE_TABLE = 5,  /* SHARE_VALUE: physical address of the root of the subcontext's page tables; 0: addresses are not translated */
  HEDDLE_SHARE_COMMAND_BANDWIDTH = 6,  /* SHARE_VALUE: thousandths of the bandwidth of L2 and memory that the subcontext gets where it is contended; 0: none of its own */
  HEDDLE_SHARE_COMMAND_LIMIT = 7,  /* SHARE_VALUE: thousandths of the bandwidth of L2 and memory that the subcontext may have at most; 1000: no limit */
  HEDDLE_SHARE_COMMAND_LOCAL_ADDRESS = 8,  /* SHARE_VALUE: address of the subcontext's local memory in its space, a multiple of 128 */
  HEDDLE_SHARE_COMMAND_LOCAL_BYTES = 9,  /* SHARE_VALUE: bytes of local memory of a thread, a multiple of 4; 0: none */
  HEDDLE_SHARE_COMMAND_SMS = 0xa,  /* SHARE_VALUE: percent of the machine's SMs on which it may have CTAs at a time, 1 to 100 */
  HEDDLE_SHARE_COMMAND_WARPS = 0xb,  /* SHARE_VALUE: percent of an SM's warps that its CTAs may have there, 1 to 100 */
  HEDDLE_SHARE_COMMAND_INSTANCE = 0xc  /* SHARE_VALUE: number of the instance, and one, whose copy engines the subcontext's copies use; 0: those of none */
};

enum heddle_share_mode {
  HEDDLE_SHARE_MODE_NONE = 0,  /* subcontexts share all TPCs without limits */
  HEDDLE_SHARE_MODE_STATIC = 1,  /* a TPC belongs to one subcontext: the one that has it enabled */
  HEDDLE_SHARE_MODE_DYNAMIC = 2  /* credits bound how many TPCs a subcontext holds */
};

enum heddle_share_refusal {
  HEDDLE_SHARE_REFUSAL_NONE = 0,  /* none was */
  HEDDLE_SHARE_REFUSAL_SUBCONTEXT = 1,  /* there is no such subcontext */
  HEDDLE_SHARE_REFUSAL_TPC = 2,  /* the machine has no such TPC */
  HEDDLE_SHARE_REFUSAL_VALUE = 3,  /* the value is out of range */
  HEDDLE_SHARE_REFUSAL_OVERLAP = 4,  /* static mode: a TPC would belong to two subcontexts */
  HEDDLE_SHARE_REFUSAL_BLOCK = 5,  /* the local-memory block is another's */
  HEDDLE_SHARE_REFUSAL_NO_MMU = 6,  /* a page table, and the machine does not translate */
  HEDDLE_SHARE_REFUSAL_IN_USE = 7,  /* CTAs use the local memory that would change */
  HEDDLE_SHARE_REFUSAL_BANDWIDTH = 8  /* the shares of bandwidth would be more than all, or a limit below a share */
};

enum heddle_query_mode {
  HEDDLE_QUERY_MODE_LOAD_BALANCING = 0,  /* several CTAs of a CGA may share an SM */
  HEDDLE_QUERY_MODE_MULTICAST = 1  /* at most one CTA of a CGA on an SM */
};

enum heddle_query_command {
  HEDDLE_QUERY_COMMAND_START = 1  /* asks the distributor */
};

enum heddle_query_state {
  HEDDLE_QUERY_STATE_IDLE = 0,  /* never used since the reset */
  HEDDLE_QUERY_STATE_BUSY = 1,  /* the answer is on its way */
  HEDDLE_QUERY_STATE_DONE = 2,  /* answered */
  HEDDLE_QUERY_STATE_ERROR = 3  /* no such kernel can run: QUERY_STATUS says why */
};

enum heddle_window_command {
  HEDDLE_WINDOW_COMMAND_OPEN = 1,  /* gives the subcontext the window of WINDOW_ADDRESS, WINDOW_BYTES and WINDOW_RIGHTS */
  HEDDLE_WINDOW_COMMAND_CLOSE = 2,  /* takes all windows of the subcontext away */
  HEDDLE_WINDOW_COMMAND_ISOLATE = 3,  /* from now on subcontexts other than 0, the driver's, reach their windows only */
  HEDDLE_WINDOW_COMMAND_SHARE = 4  /* all subcontexts reach all of the host's bus, as after a reset */
};

enum heddle_window_access {
  HEDDLE_WINDOW_ACCESS_READ = 0,  /* a read */
  HEDDLE_WINDOW_ACCESS_WRITE = 1  /* a write or an atomic */
};

enum heddle_copy_kind {
  HEDDLE_COPY_KIND_COPY = 0,  /* BYTES bytes from FROM to TO */
  HEDDLE_COPY_KIND_FILL = 1  /* BYTES bytes at TO with the 32-bit VALUE */
};

enum heddle_copy_command {
  HEDDLE_COPY_COMMAND_START = 1  /* hands the copy to the copy engines */
};

enum heddle_copy_state {
  HEDDLE_COPY_STATE_IDLE = 0,  /* never used since the reset */
  HEDDLE_COPY_STATE_BUSY = 1,  /* waits or runs */
  HEDDLE_COPY_STATE_DONE = 2,  /* ended well */
  HEDDLE_COPY_STATE_ERROR = 3  /* ended with COPY_STATUS at COPY_ERROR_ADDRESS */
};

enum heddle_queue_command {
  HEDDLE_QUEUE_COMMAND_OPEN = 1,  /* opens the queue with BASE, SIZE, READ_INDEX_ADDRESS, FIRST, PRIORITY and SUBCONTEXT */
  HEDDLE_QUEUE_COMMAND_CLOSE = 2,  /* nothing more is started; what has been launched ends as usual */
  HEDDLE_QUEUE_COMMAND_INACTIVATE = 3  /* nothing more is started; what has been launched is killed, and its completion signals stay as they are. The queue is to be closed then */
};

enum heddle_queue_state {
  HEDDLE_QUEUE_STATE_CLOSED = 0,  /* not in use */
  HEDDLE_QUEUE_STATE_ACTIVE = 1,  /* open */
  HEDDLE_QUEUE_STATE_ERROR = 2,  /* stopped by an error: close it and open it again */
  HEDDLE_QUEUE_STATE_DRAINING = 3,  /* closed by the host; kernels still run */
  HEDDLE_QUEUE_STATE_ABORTING = 4,  /* inactivated by the host; kernels are being killed */
  HEDDLE_QUEUE_STATE_INACTIVE = 5  /* inactivated, and nothing of it runs: to be closed */
};

/* X(number, text) for each reason. */
#define HEDDLE_REASON_TEXTS(X) \
  X(0, "none") \
  X(1, "there is no such type of packets") \
  X(2, "the packet is of another type") \
  X(3, "a reserved field is not 0") \
  X(4, "reserved bits of the header are set") \
  X(5, "fence scope 3 does not exist") \
  X(6, "reserved bits of setup are set, or it has more than 3 dimensions") \
  X(7, "there is no such vendor format") \
  X(8, "the packet is all zeros: rings begin as packets of type INVALID") \
  X(9, "a condensed packet without kernels") \
  X(10, "a condensed packet of more than 31 kernels") \
  X(11, "a diff runs past the 31 half-words of the packet") \
  X(12, "an 8-bit field of a diff has more bits") \
  X(13, "half-words behind the last diff are not 0") \
  X(14, "bits of a diff header that mean nothing are set") \
  X(15, "a diff changes fields that do not exist") \
  X(20, "a dispatch without dimensions") \
  X(21, "a workgroup size is 0") \
  X(22, "the size of an unused dimension is not 1") \
  X(23, "the grid is smaller than a workgroup") \
  X(24, "a workgroup has more work-items than a CTA can") \
  X(25, "the grid has more workgroups than CTA ids can tell") \
  X(26, "kernarg is not aligned to 16 bytes") \
  X(27, "kernarg is in the host's memory, which SMs do not reach") \
  X(28, "there is no such table entry: ref_num is too large") \
  X(29, "an entry of the reference state table is empty") \
  X(30, "what lies in memory is not the table entry") \
  X(31, "a barrier-OR without a signal can never be satisfied") \
  X(32, "a hold of more than 1000 s") \
  X(33, "the target runs past the end of memory") \
  X(34, "the source runs past the end of memory") \
  X(35, "a fill that is not of whole, aligned 32-bit words") \
  X(36, "a copy onto itself: the ranges overlap") \
  X(37, "a workgroup has more work-items than the kernel object allows") \
  X(38, "the clusters of the kernel object do not divide the grid") \
  X(39, "partial workgroups in a grid of clusters") \
  X(40, "the group segment is smaller than the kernel's static shared memory") \
  X(41, "a diff names an entry that the table does not have") \
  X(42, "a grid of more than 4294967295 work-items") \
  X(50, "a workgroup takes more shared memory than a CTA can have") \
  X(51, "a work-item takes more private memory than a thread can have") \
  X(52, "the kernel has more registers per thread than a thread can have") \
  X(53, "a workgroup has more warps than an SM") \
  X(54, "a workgroup has more threads than an SM, in whole warps") \
  X(55, "a workgroup takes more registers than an SM has") \
  X(56, "a workgroup takes more shared memory than an SM has") \
  X(57, "a workgroup takes more CTA slots than an SM has") \
  X(58, "a workgroup takes more barriers than an SM has") \
  X(59, "a workgroup needs more than an SM has") \
  X(60, "nothing of the machine can hold a cluster") \
  X(61, "a cooperative grid has more CTAs than the machine holds at once") \
  X(62, "the machine cannot hold a kernel") \
  X(70, "kernel_object is no address of a kernel object in device memory") \
  X(71, "the kernel object cannot be read") \
  X(72, "there is no kernel object") \
  X(73, "a kernel object of another version") \
  X(74, "the kernel object has unknown flags") \
  X(75, "a reserved field of the kernel object is not 0") \
  X(76, "a kernel object without a program, whose CTAs have no sensible duration") \
  X(77, "grid kind and cluster extents disagree") \
  X(78, "cluster extents that make no sense together") \
  X(79, "the kernel object has no such raster order") \
  X(80, "raster order and tile of the kernel object disagree") \
  X(81, "the name of the kernel object does not end") \
  X(82, "the kernel object has bytes behind its name") \
  X(83, "there is no such program") \
  X(84, "the code lies outside device memory, or has no possible size") \
  X(85, "the code of the kernel object cannot be read") \
  X(86, "the code of the kernel object is no program") \
  X(87, "the kernel object has too few registers for its code, or other clusters") \
  X(88, "the machine has no decoder, room or units for the code") \
  X(90, "a signal is not aligned to 32 bytes, or to 64 with time stamps") \
  X(91, "a completion signal cannot be written") \
  X(92, "a signal that it waits for cannot be read") \
  X(93, "a signal names no mailbox that can be written") \
  X(94, "a mailbox cannot be written") \
  X(95, "the time stamps of a signal cannot be written") \
  X(100, "there is no such queue") \
  X(101, "the queue is not closed") \
  X(102, "the size is no power of two from 1 to 2^20") \
  X(103, "the ring does not begin at a multiple of 64") \
  X(104, "the ring reaches past the end of memory") \
  X(105, "the read index is not at a multiple of 8") \
  X(106, "the index of the first packet is above 2^63") \
  X(107, "there is no such subcontext") \
  X(108, "the ring cannot be read") \
  X(109, "the ring cannot be written") \
  X(110, "the read index cannot be written") \
  X(111, "the reference state table cannot be read") \
  X(112, "the reference state table cannot be written") \
  X(113, "what the caches hold cannot be written back") \
  X(114, "memory refused a copy") \
  X(115, "a CTA of a kernel faulted") \
  X(116, "the host ended an agent packet with an error") \
  X(117, "a signal that it waits for is negative") \
  X(118, "killed: its queue was inactivated")

#endif
