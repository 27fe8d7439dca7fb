/* Kernels from a file of `heddle compile` (docs/kernels.md): it is checked, and put into device memory where the caller
 * wants it. The file stays where it is, and must not change as long as the struct is used. */
#ifndef HEDDLE_PROGRAM_H
#define HEDDLE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "heddle_device.h"
#include "heddle_packets.h"
#include "heddle_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is wrong with a file. */
enum heddle_damage {
  HEDDLE_DAMAGE_NONE = 0,
  HEDDLE_DAMAGE_SHORT,   /* it ends before its head does */
  HEDDLE_DAMAGE_MAGIC,   /* it does not begin with HDLP: no such file */
  HEDDLE_DAMAGE_VERSION, /* another version of the format */
  HEDDLE_DAMAGE_SIZE,    /* it is not as long as its head says, or its parts are not, or they are too long */
  HEDDLE_DAMAGE_SUM,     /* the check sum is another one: bytes have changed */
  HEDDLE_DAMAGE_KERNEL,  /* a kernel whose object or code lies outside the image, or is misaligned; too many of them */
  HEDDLE_DAMAGE_NAME,    /* a name that does not end, is empty, or stands twice */
  HEDDLE_DAMAGE_RELOCATION, /* an address outside the image, misaligned, or not behind the one before */
  HEDDLE_DAMAGE_RESERVED    /* a field that must be 0 is not */
};
/* A sentence for people. */
const char* heddle_damage_text(enum heddle_damage damage);

struct heddle_program {
  const uint8_t* file;
  uint32_t kernels;     /* how many there are */
  uint32_t relocations; /* addresses that are filled in */
  uint32_t bytes;       /* of device memory that it takes */
  uint64_t base;        /* where queues see it; 0: it has not been loaded */
};

/* Checks all of the file. HEDDLE_INVALID: it is damaged, and `damage`, which may be null, says how. HEDDLE_VERSION. */
enum heddle_status heddle_program_open(struct heddle_program* program, const void* file, size_t size,
                                       enum heddle_damage* damage);
/* Device memory that it takes, in bytes; its beginning has to be a multiple of HEDDLE_PROGRAM_ALIGNMENT. */
#define HEDDLE_PROGRAM_ALIGNMENT 128u
#define HEDDLE_MOST_PROGRAM_KERNELS 4096u /* in a file */
uint64_t heddle_program_bytes(const struct heddle_program* program);
/* Puts kernel objects and code there by bus->store, at most HEDDLE_PROGRAM_ALIGNMENT bytes at a time, with the
 * addresses that they have there. `address`: in device memory. `seen_at`: where queues that launch them see it, which
 * is the same unless their subcontext is translated. May be done again, elsewhere or over what has been loaded.
 * HEDDLE_INVALID: one of them is 0, misaligned, or reaches into the host's window. HEDDLE_BUS: what lies there is not
 * whole. */
enum heddle_status heddle_program_load(struct heddle_program* program, const struct heddle_bus* bus, uint64_t address,
                                       uint64_t seen_at);

struct heddle_program_kernel {
  const char* name; /* in the file; ends with 0 */
  uint64_t object;  /* for heddle_dispatch.kernel_object; 0 before the program is loaded */
  uint32_t code_bytes;
  uint32_t argument_bytes; /* that it reads at fixed distances from its arguments' beginning */
  uint32_t registers;      /* per work-item */
  uint32_t shared;         /* bytes of a workgroup: the least group segment of a dispatch */
  uint32_t local;          /* bytes of a work-item: its private segment */
  uint16_t workgroup[3];   /* sizes that the file gives it; dispatches may have others */
  uint32_t grid[3];        /* workgroups */
};
/* HEDDLE_EMPTY: there is none of that name, or number (below program->kernels). */
enum heddle_status heddle_program_find(const struct heddle_program* program, const char* name,
                                       struct heddle_program_kernel* kernel);
enum heddle_status heddle_program_kernel_at(const struct heddle_program* program, uint32_t number,
                                            struct heddle_program_kernel* kernel);
/* A dispatch of the kernel with the sizes of its file, `arguments` (16-byte aligned, in device memory; 0: none), and
 * fences of system scope. Whoever wants another grid changes `grid`, in work-items. HEDDLE_INVALID: the program has not
 * been loaded, or the grid has more than 2^32 - 1 work-items in a dimension. */
enum heddle_status heddle_program_dispatch(const struct heddle_program_kernel* kernel, uint64_t arguments,
                                           uint64_t completion_signal, struct heddle_dispatch* dispatch);

#ifdef __cplusplus
}
#endif

#endif
