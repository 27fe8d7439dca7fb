#include "access.h"
#include "heddle_program.h"

/* The file, little-endian (docs/kernels.md). */
#define HEAD_BYTES 32u
#define KERNEL_BYTES 84u
#define RELOCATION_BYTES 8u
#define NAME_AT 48u
#define ADDRESS_BYTES 8u
#define MOST_IMAGE_BYTES 0x7FFFFFFFu

static const uint8_t* kernel_entry(const struct heddle_program* program, uint32_t number) {
  return program->file + HEAD_BYTES + (size_t)number * KERNEL_BYTES;
}
static const uint8_t* relocation(const struct heddle_program* program, uint32_t number) {
  return kernel_entry(program, program->kernels) + (size_t)number * RELOCATION_BYTES;
}
static const uint8_t* image(const struct heddle_program* program) { return relocation(program, program->relocations); }

static uint32_t word(const uint8_t* from) { return (uint32_t)heddle_get(from, 4); }

/* CRC-32 as zlib and Ethernet have it. */
static uint32_t check_sum(const uint8_t* bytes, size_t count) {
  uint32_t sum = 0xFFFFFFFFu;
  for (size_t i = 0; i < count; ++i) {
    sum ^= bytes[i];
    for (unsigned bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (0xEDB88320u & (0u - (sum & 1u)));
  }
  return ~sum;
}

static bool same_name(const uint8_t* a, const char* b) {
  for (unsigned i = 0; i < HEDDLE_KERNEL_NAME_BYTES; ++i) {
    if (a[i] != (uint8_t)b[i]) return false;
    if (b[i] == 0) return true;
  }
  return false;
}

static enum heddle_damage check_name(const struct heddle_program* program, uint32_t number) {
  const uint8_t* const name = kernel_entry(program, number) + NAME_AT;
  unsigned length = 0;
  while (length < HEDDLE_KERNEL_NAME_BYTES && name[length] != 0) ++length;
  if (length == 0 || length == HEDDLE_KERNEL_NAME_BYTES) return HEDDLE_DAMAGE_NAME;
  for (unsigned i = length; i < HEDDLE_KERNEL_NAME_BYTES; ++i) {
    if (name[i] != 0) return HEDDLE_DAMAGE_NAME;
  }
  for (uint32_t other = 0; other < number; ++other) {
    if (same_name(kernel_entry(program, other) + NAME_AT, (const char*)name)) return HEDDLE_DAMAGE_NAME;
  }
  return HEDDLE_DAMAGE_NONE;
}

static enum heddle_damage check_kernel(const struct heddle_program* program, uint32_t number) {
  const uint8_t* const entry = kernel_entry(program, number);
  const uint32_t object = word(entry);
  const uint32_t code = word(entry + 4);
  const uint32_t code_bytes = word(entry + 8);
  const uint32_t whole = program->bytes;
  if (heddle_get(entry + 34, 2) != 0) return HEDDLE_DAMAGE_RESERVED;
  if (object % HEDDLE_PROGRAM_ALIGNMENT != 0 || code % HEDDLE_PROGRAM_ALIGNMENT != 0) return HEDDLE_DAMAGE_KERNEL;
  if (whole < HEDDLE_KERNEL_OBJECT_BYTES || object > whole - HEDDLE_KERNEL_OBJECT_BYTES) return HEDDLE_DAMAGE_KERNEL;
  if (code_bytes > HEDDLE_MOST_CODE_BYTES || code > whole || code_bytes > whole - code) return HEDDLE_DAMAGE_KERNEL;
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (heddle_get(entry + 28 + 2 * axis, 2) == 0 || word(entry + 36 + 4 * axis) == 0) return HEDDLE_DAMAGE_KERNEL;
  }
  return check_name(program, number);
}

/* In order, each behind the one before, so that the image can be filled in as it goes. */
static enum heddle_damage check_relocations(const struct heddle_program* program) {
  uint32_t free = 0;
  for (uint32_t i = 0; i < program->relocations; ++i) {
    const uint32_t at = word(relocation(program, i));
    if (at % ADDRESS_BYTES != 0 || at < free || program->bytes < ADDRESS_BYTES || at > program->bytes - ADDRESS_BYTES ||
        word(relocation(program, i) + 4) >= program->bytes) {
      return HEDDLE_DAMAGE_RELOCATION;
    }
    free = at + ADDRESS_BYTES;
  }
  return HEDDLE_DAMAGE_NONE;
}

static enum heddle_damage check_file(struct heddle_program* program, const uint8_t* file, size_t size) {
  static const uint8_t magic[4] = {'H', 'D', 'L', 'P'};
  if (size < sizeof magic) return HEDDLE_DAMAGE_SHORT;
  if (memcmp(file, magic, sizeof magic) != 0) return HEDDLE_DAMAGE_MAGIC;
  if (size < HEAD_BYTES) return HEDDLE_DAMAGE_SHORT;
  if (heddle_get(file + 4, 2) != 1) return HEDDLE_DAMAGE_VERSION;
  if (heddle_get(file + 6, 2) != 0 || word(file + 28) != 0) return HEDDLE_DAMAGE_RESERVED;
  program->file = file;
  program->kernels = word(file + 12);
  program->relocations = word(file + 16);
  program->bytes = word(file + 20);
  const uint64_t parts = HEAD_BYTES + (uint64_t)program->kernels * KERNEL_BYTES +
                         (uint64_t)program->relocations * RELOCATION_BYTES + program->bytes;
  if (word(file + 8) != size || parts != size || program->bytes > MOST_IMAGE_BYTES) return HEDDLE_DAMAGE_SIZE;
  if (check_sum(file + HEAD_BYTES, size - HEAD_BYTES) != word(file + 24)) return HEDDLE_DAMAGE_SUM;
  if (program->kernels > HEDDLE_MOST_PROGRAM_KERNELS) return HEDDLE_DAMAGE_KERNEL;
  for (uint32_t i = 0; i < program->kernels; ++i) {
    const enum heddle_damage damage = check_kernel(program, i);
    if (damage != HEDDLE_DAMAGE_NONE) return damage;
  }
  return check_relocations(program);
}

const char* heddle_damage_text(enum heddle_damage damage) {
  switch (damage) {
    case HEDDLE_DAMAGE_NONE:
      return "nothing is wrong with it";
    case HEDDLE_DAMAGE_SHORT:
      return "the file ends before its head does";
    case HEDDLE_DAMAGE_MAGIC:
      return "it is no file of `heddle compile`";
    case HEDDLE_DAMAGE_VERSION:
      return "the file has another version of the format";
    case HEDDLE_DAMAGE_SIZE:
      return "the file is not as long as its head says";
    case HEDDLE_DAMAGE_SUM:
      return "bytes of the file have changed";
    case HEDDLE_DAMAGE_KERNEL:
      return "a kernel of the file lies outside its image";
    case HEDDLE_DAMAGE_NAME:
      return "a kernel of the file has no name, one that does not end, or that of another";
    case HEDDLE_DAMAGE_RELOCATION:
      return "an address of the file lies outside its image";
    case HEDDLE_DAMAGE_RESERVED:
      return "a field of the file that must be 0 is not";
  }
  return "unknown damage";
}

enum heddle_status heddle_program_open(struct heddle_program* program, const void* file, size_t size,
                                       enum heddle_damage* damage) {
  memset(program, 0, sizeof *program);
  const enum heddle_damage found = check_file(program, file, size);
  if (damage != NULL) *damage = found;
  if (found == HEDDLE_DAMAGE_NONE) return HEDDLE_OK;
  memset(program, 0, sizeof *program);
  return found == HEDDLE_DAMAGE_VERSION ? HEDDLE_VERSION : HEDDLE_INVALID;
}

uint64_t heddle_program_bytes(const struct heddle_program* program) { return program->bytes; }

static bool is_place(const struct heddle_program* program, uint64_t address) {
  return address != 0 && address % HEDDLE_PROGRAM_ALIGNMENT == 0 && address <= HEDDLE_HOST_WINDOW - program->bytes;
}

enum heddle_status heddle_program_load(struct heddle_program* program, const struct heddle_bus* bus, uint64_t address,
                                       uint64_t seen_at) {
  if (program->file == NULL || !is_place(program, address) || !is_place(program, seen_at)) return HEDDLE_INVALID;
  uint32_t next = 0; /* relocation */
  program->base = 0;
  for (uint32_t at = 0; at < program->bytes; at += HEDDLE_PROGRAM_ALIGNMENT) {
    uint8_t part[HEDDLE_PROGRAM_ALIGNMENT];
    const uint32_t left = program->bytes - at;
    const uint32_t count = left < HEDDLE_PROGRAM_ALIGNMENT ? left : HEDDLE_PROGRAM_ALIGNMENT;
    memcpy(part, image(program) + at, count);
    for (; next < program->relocations && word(relocation(program, next)) < at + count; ++next) {
      const uint8_t* const entry = relocation(program, next);
      heddle_put(part + (word(entry) - at), seen_at + word(entry + 4), ADDRESS_BYTES);
    }
    if (!bus->store(bus->context, address + at, part, count)) return HEDDLE_BUS;
  }
  heddle_barrier(bus);
  program->base = seen_at;
  return HEDDLE_OK;
}

enum heddle_status heddle_program_kernel_at(const struct heddle_program* program, uint32_t number,
                                            struct heddle_program_kernel* kernel) {
  if (number >= program->kernels) return HEDDLE_EMPTY;
  const uint8_t* const entry = kernel_entry(program, number);
  memset(kernel, 0, sizeof *kernel);
  kernel->name = (const char*)entry + NAME_AT;
  kernel->object = program->base == 0 ? 0 : program->base + word(entry);
  kernel->code_bytes = word(entry + 8);
  kernel->argument_bytes = word(entry + 12);
  kernel->registers = word(entry + 16);
  kernel->shared = word(entry + 20);
  kernel->local = word(entry + 24);
  for (unsigned axis = 0; axis < 3; ++axis) {
    kernel->workgroup[axis] = (uint16_t)heddle_get(entry + 28 + 2 * axis, 2);
    kernel->grid[axis] = word(entry + 36 + 4 * axis);
  }
  return HEDDLE_OK;
}

enum heddle_status heddle_program_find(const struct heddle_program* program, const char* name,
                                       struct heddle_program_kernel* kernel) {
  for (uint32_t i = 0; i < program->kernels; ++i) {
    if (same_name(kernel_entry(program, i) + NAME_AT, name)) return heddle_program_kernel_at(program, i, kernel);
  }
  return HEDDLE_EMPTY;
}

enum heddle_status heddle_program_dispatch(const struct heddle_program_kernel* kernel, uint64_t arguments,
                                           uint64_t completion_signal, struct heddle_dispatch* dispatch) {
  if (kernel->object == 0) return HEDDLE_INVALID;
  memset(dispatch, 0, sizeof *dispatch);
  dispatch->scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  dispatch->setup = 3;
  for (unsigned axis = 0; axis < 3; ++axis) {
    const uint64_t items = (uint64_t)kernel->grid[axis] * kernel->workgroup[axis];
    if (items > 0xFFFFFFFFu) return HEDDLE_INVALID;
    dispatch->workgroup[axis] = kernel->workgroup[axis];
    dispatch->grid[axis] = (uint32_t)items;
  }
  dispatch->private_segment = kernel->local;
  dispatch->group_segment = kernel->shared;
  dispatch->kernel_object = kernel->object;
  dispatch->kernarg = arguments;
  dispatch->completion_signal = completion_signal;
  return HEDDLE_OK;
}
