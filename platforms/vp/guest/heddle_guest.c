/* A program in the guest of scripts/vp: finds the device behind /dev/heddle, builds queue and packets with the C
 * library, launches kernels and checks what they did. Static, for an initial RAM disk that holds little else. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heddle_driver.h"
#include "heddle_ioctl.h"

/* Where things lie in the memory of the host. */
#define RING 0u
#define PACKETS 64u
#define READ_INDEX 0x2000u
#define WRITE_INDEX 0x2040u
#define SIGNAL 0x2080u
#define INPUT 0x10000u
#define OUTPUT 0x20000u
#define MOST_ITEMS 4096u
/* And in the part of device memory. */
#define OBJECTS 0x0u /* of 256 bytes */
#define ARGUMENTS 0x1000u
#define DEVICE_INPUT 0x10000u
#define DEVICE_OUTPUT 0x20000u
#define COUNTER 0x30000u
#define BROUGHT 0x200000u       /* kernels of the file */
#define BROUGHT_INPUT 0x300000u /* words that they read */
#define BROUGHT_OUTPUT 0x301000u
#define BROUGHT_ITEMS 250u
#define BROUGHT_FILE "/brought.hdl" /* of brought.yaml, by `heddle compile` */
#define CODE_IN_OBJECT 24u          /* offsets: where an object has the address of its code, */
#define LINKS_IN_CODE 16u           /* and code its links (docs/kernels.md) */

#define PROGRAM_TRIPLE 1u /* as kernels.yaml has them */
#define PROGRAM_COUNT 2u
#define PROGRAM_STAY 3u
#define PROGRAMS 3u
#define TRIALS 2000u /* waits for a signal, of which each is at most a second */

struct card {
  int file;
  struct heddle_info info;
  uint8_t* host;
  uint8_t* part;
  uint8_t* doorbells;
  struct heddle_bus bus;
  struct heddle_device device;
  struct heddle_queue queue;
  uint32_t interrupts;
};

static void fail(const char* text, ...) {
  va_list list;
  va_start(list, text);
  fputs("guest: FAILED: ", stdout);
  vprintf(text, list);
  va_end(list);
  putchar('\n');
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t next(uint64_t* state) { /* xorshift64* */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(2685821657736338717);
}

/* The bus of the C library: registers by the driver, all else by pointers. */

static bool bus_read(void* context, uint32_t offset, unsigned bytes, uint64_t* value) {
  const struct card* card = context;
  struct heddle_register request = {offset, bytes, 0};
  if (ioctl(card->file, HEDDLE_IOC_READ, &request) != 0) return false;
  *value = request.value;
  return true;
}

static bool bus_write(void* context, uint32_t offset, unsigned bytes, uint64_t value) {
  const struct card* card = context;
  const uint32_t first = HEDDLE_REG_DOORBELL(0) + card->info.subcontext * card->device.doorbell_page;
  if (bytes != 8 || offset < first || offset - first >= card->device.doorbell_page) return false;
  *(volatile uint64_t*)(card->doorbells + (offset - first)) = value;
  return true;
}

/* Null: not this process's. */
static uint8_t* place(const struct card* card, uint64_t address, size_t bytes) {
  const uint64_t host = HEDDLE_HOST_WINDOW + card->info.host_address;
  const struct heddle_info* info = &card->info;
  if (address >= host && address - host <= info->host_bytes && bytes <= info->host_bytes - (address - host)) {
    return card->host + (address - host);
  }
  if (address >= info->device_address && address - info->device_address <= info->device_bytes &&
      bytes <= info->device_bytes - (address - info->device_address)) {
    return card->part + (address - info->device_address);
  }
  return NULL;
}

/* Words as one access each, for the sake of the device. */
static void copy_words(uint8_t* to, const uint8_t* from, size_t bytes) {
  while (bytes > 0) {
    size_t step = 1;
    if (bytes >= 8 && (uintptr_t)to % 8 == 0 && (uintptr_t)from % 8 == 0) {
      *(volatile uint64_t*)to = *(const volatile uint64_t*)from;
      step = 8;
    } else if (bytes >= 2 && (uintptr_t)to % 2 == 0 && (uintptr_t)from % 2 == 0) {
      *(volatile uint16_t*)to = *(const volatile uint16_t*)from;
      step = 2;
    } else {
      *(volatile uint8_t*)to = *(const volatile uint8_t*)from;
    }
    to += step, from += step, bytes -= step;
  }
}

static bool bus_load(void* context, uint64_t address, void* to, size_t bytes) {
  const uint8_t* from = place(context, address, bytes);
  if (from != NULL) copy_words(to, from, bytes);
  return from != NULL;
}

static bool bus_store(void* context, uint64_t address, const void* from, size_t bytes) {
  uint8_t* to = place(context, address, bytes);
  if (to != NULL) copy_words(to, from, bytes);
  return to != NULL;
}

static void bus_barrier(void* context) {
  (void)context;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool bus_fetch_add(void* context, uint64_t address, uint64_t value, uint64_t* old) {
  uint8_t* word = place(context, address, 8);
  if (word != NULL) *old = heddle_word_fetch_add(word, value);
  return word != NULL;
}

static bool bus_compare_exchange(void* context, uint64_t address, uint64_t expected, uint64_t value, uint64_t* old) {
  uint8_t* word = place(context, address, 8);
  if (word != NULL) *old = heddle_word_compare_exchange(word, expected, value);
  return word != NULL;
}

static void* map(const struct card* card, off_t offset, size_t bytes) {
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, card->file, offset);
  if (at == MAP_FAILED) fail("mmap of %zu bytes at %#lx: %s", bytes, (long)offset, strerror(errno));
  return at;
}

static uint64_t host_address(const struct card* card, uint32_t offset) {
  return HEDDLE_HOST_WINDOW + card->info.host_address + offset;
}

static void open_card(struct card* card) {
  memset(card, 0, sizeof *card);
  card->file = open("/dev/heddle", O_RDWR | O_CLOEXEC);
  if (card->file < 0) fail("/dev/heddle: %s", strerror(errno));
  if (ioctl(card->file, HEDDLE_IOC_INFO, &card->info) != 0) fail("no information: %s", strerror(errno));
  card->bus = (struct heddle_bus){card,        bus_read,      bus_write,           bus_load, bus_store, NULL,
                                  bus_barrier, bus_fetch_add, bus_compare_exchange};
  enum heddle_status status = heddle_device_open(&card->device, &card->bus);
  if (status != HEDDLE_OK) fail("the device does not open: %d", (int)status);
  card->host = map(card, HEDDLE_MAP_HOST, card->info.host_bytes);
  card->part = map(card, HEDDLE_MAP_DEVICE, card->info.device_bytes);
  card->doorbells = map(card, HEDDLE_MAP_DOORBELLS, card->device.doorbell_page);
}

static void close_card(struct card* card) {
  munmap(card->host, card->info.host_bytes);
  munmap(card->part, card->info.device_bytes);
  munmap(card->doorbells, card->device.doorbell_page);
  close(card->file);
}

/* With an empty ring. */
static void open_again(const struct card* card) {
  struct heddle_packet invalid;
  heddle_packet_invalid(&invalid);
  for (uint32_t i = 0; i < PACKETS; ++i) memcpy(card->host + RING + i * sizeof invalid, &invalid, sizeof invalid);
  memset(card->host + READ_INDEX, 0, 0x80);
  const struct heddle_open request = {RING, PACKETS, READ_INDEX, 0};
  if (ioctl(card->file, HEDDLE_IOC_OPEN, &request) != 0) fail("the queue does not open: %s", strerror(errno));
}

static void open_queue(struct card* card) {
  open_again(card);
  const struct heddle_queue_setup setup = {.ring = host_address(card, RING),
                                           .size = PACKETS,
                                           .read_index = host_address(card, READ_INDEX),
                                           .write_index = host_address(card, WRITE_INDEX),
                                           .subcontext = (uint8_t)card->info.subcontext};
  if (heddle_queue_attach(&card->queue, &card->device, card->info.queue, &setup) != HEDDLE_OK) {
    fail("the queue cannot be attached to");
  }
}

static uint64_t make_object(struct card* card, uint32_t program) {
  const struct heddle_kernel_object object = {.program = program, .registers_per_thread = 32};
  uint8_t bytes[HEDDLE_KERNEL_OBJECT_BYTES];
  const uint64_t address = card->info.device_address + OBJECTS + 256 * program;
  if (heddle_kernel_object_encode(bytes, &object) != HEDDLE_OK) fail("no kernel object");
  if (!bus_store(card, address, bytes, sizeof bytes)) fail("a kernel object cannot be stored");
  return address;
}

static uint64_t make_arguments(struct card* card, uint32_t place_of_it, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t words[3] = {a, b, c};
  const uint64_t address = card->info.device_address + ARGUMENTS + 64 * place_of_it;
  if (!bus_store(card, address, words, sizeof words)) fail("arguments cannot be stored");
  return address;
}

static uint64_t arm(struct card* card) {
  const uint64_t signal = host_address(card, SIGNAL) | HEDDLE_SIGNAL_INTERRUPT;
  if (heddle_signal_init(&card->bus, signal, 1, 0, card->info.subcontext) != HEDDLE_OK) fail("no signal");
  return signal;
}

/* Until the signal is below 1. By the interrupt, unless that is there before anybody waits. */
static int await(struct card* card, uint64_t signal) {
  for (unsigned trial = 0; trial < TRIALS; ++trial) {
    int64_t value = 1;
    struct heddle_wait wait = {card->interrupts, 1000};
    if (heddle_signal_load(&card->bus, signal, &value) != HEDDLE_OK) return EIO;
    if (value < 0) fail("a packet ended with HSA status %lld", (long long)-value);
    if (value < 1) return 0;
    if (ioctl(card->file, HEDDLE_IOC_WAIT, &wait) == 0) {
      card->interrupts = wait.seen;
    } else if (errno != ETIME && errno != EINTR) {
      return errno;
    }
    struct heddle_queue_report report;
    if (trial > 2 && ioctl(card->file, HEDDLE_IOC_REPORT, &report) == 0 && report.state == HEDDLE_QUEUE_STATE_ERROR) {
      fail("the queue has stopped: %s", heddle_reason_text(report.reason));
    }
  }
  return ETIME;
}

static void submit(struct card* card, const struct heddle_packet* packets, uint32_t count) {
  const enum heddle_status status = heddle_queue_submit(&card->queue, packets, count, 0, NULL);
  if (status != HEDDLE_OK) fail("packets cannot be submitted: %d", (int)status);
}

/* y = 3 x + 1 for `items` random words: a copy there, the kernel, a copy back. */
static void launch_triple(struct card* card, uint64_t* random) {
  const uint32_t items = 1 + (uint32_t)(next(random) % MOST_ITEMS);
  const uint64_t part = card->info.device_address;
  uint32_t* input = (uint32_t*)(card->host + INPUT);
  uint32_t* output = (uint32_t*)(card->host + OUTPUT);
  for (uint32_t i = 0; i < items; ++i) input[i] = (uint32_t)next(random) >> 4;
  memset(output, 0xAA, 4 * items);
  const uint64_t signal = arm(card);
  const uint8_t scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  const struct heddle_dispatch kernel = {
      .scopes = scopes,
      .setup = 1,
      .workgroup = {256, 1, 1},
      .grid = {items < 256 ? 256 : items, 1, 1},
      .kernel_object = make_object(card, PROGRAM_TRIPLE),
      .kernarg = make_arguments(card, 0, part + DEVICE_INPUT, part + DEVICE_OUTPUT, items)};
  struct heddle_packet packets[3];
  heddle_packet_copy(&packets[0], scopes, host_address(card, INPUT), part + DEVICE_INPUT, 4 * items, 0);
  heddle_packet_kernel(&packets[1], &kernel);
  heddle_packet_copy(&packets[2], scopes, part + DEVICE_OUTPUT, host_address(card, OUTPUT), 4 * items, signal);
  submit(card, packets, 3);
  const int error = await(card, signal);
  if (error != 0) fail("a launch does not end: %s", strerror(error));
  for (uint32_t i = 0; i < items; ++i) {
    if (output[i] != 3 * input[i] + 1) fail("item %u of %u is %#x, from %#x", i, items, output[i], input[i]);
  }
}

/* The file of kernels that the program brings, read once. */
struct brought {
  uint8_t bytes[16384];
  size_t size;
  struct heddle_program program;
};

static void read_brought(struct brought* brought) {
  const int file = open(BROUGHT_FILE, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("%s: %s", BROUGHT_FILE, strerror(errno));
  const ssize_t size = read(file, brought->bytes, sizeof brought->bytes);
  close(file);
  if (size <= 0 || (size_t)size == sizeof brought->bytes) fail("%s has %zd bytes", BROUGHT_FILE, size);
  brought->size = (size_t)size;
  enum heddle_damage damage = HEDDLE_DAMAGE_NONE;
  if (heddle_program_open(&brought->program, brought->bytes, brought->size, &damage) != HEDDLE_OK) {
    fail("%s: %s", BROUGHT_FILE, heddle_damage_text(damage));
  }
}

/* Into the process's part, where it sees it itself. */
static void load_brought(struct card* card, struct brought* brought) {
  const uint64_t at = card->info.device_address + BROUGHT;
  if (heddle_program_load(&brought->program, &card->bus, at, at) != HEDDLE_OK) fail("the kernels do not load");
}

static struct heddle_program_kernel find_brought(const struct brought* brought, const char* name) {
  struct heddle_program_kernel kernel;
  if (heddle_program_find(&brought->program, name, &kernel) != HEDDLE_OK) fail("there is no kernel %s", name);
  return kernel;
}

static uint64_t load_word(struct card* card, uint64_t address) {
  uint64_t word = 0;
  if (!bus_load(card, address, &word, 8)) fail("%#llx cannot be read", (unsigned long long)address);
  return word;
}

static void store_word(struct card* card, uint64_t address, uint64_t word) {
  if (!bus_store(card, address, &word, 8)) fail("%#llx cannot be written", (unsigned long long)address);
}

static uint64_t brought_arguments(struct card* card, uint64_t from, uint64_t to, uint64_t factor) {
  const uint64_t words[4] = {from, to, factor, BROUGHT_ITEMS};
  const uint64_t address = card->info.device_address + ARGUMENTS;
  if (!bus_store(card, address, words, sizeof words)) fail("arguments cannot be stored");
  return address;
}

/* to = factor * from by the kernel of the file, whose code the device reads from the process's part. */
static void launch_brought(struct card* card, const struct brought* brought, uint64_t* random) {
  const uint64_t part = card->info.device_address;
  const uint32_t factor = (uint32_t)(next(random) >> 57); /* products have 32 bits */
  const struct heddle_program_kernel scale = find_brought(brought, "scale");
  volatile uint32_t* input = (volatile uint32_t*)(card->part + BROUGHT_INPUT);
  const volatile uint32_t* output = (const volatile uint32_t*)(card->part + BROUGHT_OUTPUT);
  uint32_t sent[BROUGHT_ITEMS];
  for (uint32_t i = 0; i < BROUGHT_ITEMS; ++i) input[i] = sent[i] = (uint32_t)(next(random) >> 40);
  const uint64_t signal = arm(card);
  struct heddle_dispatch dispatch;
  if (heddle_program_dispatch(&scale, brought_arguments(card, part + BROUGHT_INPUT, part + BROUGHT_OUTPUT, factor),
                              signal, &dispatch) != HEDDLE_OK) {
    fail("no dispatch of a kernel of the file");
  }
  dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  struct heddle_packet packet;
  heddle_packet_kernel(&packet, &dispatch);
  submit(card, &packet, 1);
  const int error = await(card, signal);
  if (error != 0) fail("a launch of a kernel of the file does not end: %s", strerror(error));
  for (uint32_t i = 0; i < BROUGHT_ITEMS; ++i) {
    if (output[i] != factor * sent[i]) fail("item %u is %#x, from %#x by %#x", i, output[i], sent[i], factor);
  }
}

/* A reference packet, then condensed packets of `kernels` launches, which add up in device memory. */
static void launch_condensed(struct card* card, unsigned kernels) {
  const uint64_t counter = card->info.device_address + COUNTER;
  uint64_t before = 0;
  uint64_t after = 0;
  bus_load(card, counter, &before, 8);
  struct heddle_dispatch kernel = {.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM),
                                   .setup = 1,
                                   .workgroup = {32, 1, 1},
                                   .grid = {128, 1, 1},
                                   .kernel_object = make_object(card, PROGRAM_COUNT)};
  uint64_t wanted = 0;
  struct heddle_packet packets[PACKETS];
  uint32_t count = 0;
  struct heddle_dispatch stored = kernel;
  stored.kernarg = make_arguments(card, 1, counter, 7, 0);
  if (heddle_packet_reference(&packets[count++], &stored, 0) != HEDDLE_OK) fail("no reference packet");
  wanted += 4 * 7;
  const uint64_t signal = arm(card);
  struct heddle_condensed condensed;
  heddle_condensed_init(&condensed);
  for (unsigned i = 1; i < kernels; ++i) {
    kernel.kernarg = make_arguments(card, 1 + i, counter, i, 0);
    kernel.completion_signal = i + 1 == kernels ? signal : 0;
    wanted += 4 * i;
    const uint16_t vector = heddle_fields_different(&stored, &kernel);
    enum heddle_status status = heddle_condensed_append(&condensed, 0, vector, &kernel);
    if (status == HEDDLE_FULL) {
      packets[count++] = condensed.packet;
      heddle_condensed_init(&condensed);
      status = heddle_condensed_append(&condensed, 0, vector, &kernel);
    }
    if (status != HEDDLE_OK) fail("a condensed packet does not take a kernel: %d", (int)status);
  }
  packets[count++] = condensed.packet;
  submit(card, packets, count);
  const int error = await(card, signal);
  if (error != 0) fail("condensed packets do not end: %s", strerror(error));
  bus_load(card, counter, &after, 8);
  if (after - before != wanted) {
    fail("%u condensed launches added %llu, of %llu", kernels, (unsigned long long)(after - before),
         (unsigned long long)wanted);
  }
}

/* Commands */

static int identify(void) {
  struct card card;
  open_card(&card);
  printf("guest: device %#x, registers %#x, %u SMs, %u queues, %llu MiB, subcontext %u\n", HEDDLE_DEVICE_MAGIC,
         card.device.version, card.device.sms, card.device.queues, (unsigned long long)(card.device.memory >> 20),
         card.info.subcontext);
  return 0;
}

static int launches(uint64_t seed, unsigned count) {
  struct card card;
  uint64_t random = seed * 2 + 1;
  open_card(&card);
  open_queue(&card);
  double before = now();
  for (unsigned i = 1; i <= count; ++i) {
    launch_triple(&card, &random);
    if (i % 100 != 0 && i != 1) continue;
    const double after = now();
    printf("guest: launch %u is right, %.9f s\n", i, after - before);
    before = after;
  }
  printf("guest: %u launches are right\n", count);
  return 0;
}

static int condensed(unsigned rounds) {
  struct card card;
  open_card(&card);
  open_queue(&card);
  for (unsigned i = 0; i < rounds; ++i) launch_condensed(&card, 20);
  printf("guest: %u launches by condensed packets are right\n", 20 * rounds);
  return 0;
}

static int brought_kernels(uint64_t seed, unsigned count) {
  static struct brought brought;
  struct card card;
  uint64_t random = seed * 2 + 1;
  read_brought(&brought);
  open_card(&card);
  open_queue(&card);
  for (unsigned i = 0; i < count; ++i) {
    if (i % 10 == 0) load_brought(&card, &brought);
    launch_brought(&card, &brought, &random);
  }
  printf("guest: %u launches of kernels of a file are right\n", count);
  return 0;
}

/* What nobody but its process is to change: memory of the host and of the device that the launches leave alone. */
#define GUARDED 0x40000u /* offset in both; to the end of the first, and as many bytes of the second */
#define GUARDED_BYTES 0x40000u
#define GUARDED_DEVICE_BYTES 0x1000u /* they are reached word by word */

static void put_guards(struct card* card) {
  for (uint32_t i = 0; i < GUARDED_BYTES; i += 8) *(volatile uint64_t*)(card->host + GUARDED + i) = ~(uint64_t)i;
  for (uint32_t i = 0; i < GUARDED_DEVICE_BYTES; i += 8) *(volatile uint64_t*)(card->part + GUARDED + i) = ~(uint64_t)i;
}

static void check_guards(const struct card* card) {
  for (uint32_t i = 0; i < GUARDED_BYTES; i += 8) {
    if (*(volatile uint64_t*)(card->host + GUARDED + i) != ~(uint64_t)i)
      fail("the host's memory has changed at %#x", i);
  }
  for (uint32_t i = 0; i < GUARDED_DEVICE_BYTES; i += 8) {
    if (*(volatile uint64_t*)(card->part + GUARDED + i) != ~(uint64_t)i) fail("device memory has changed at %#x", i);
  }
}

/* Until the queue has stopped with an error. False: it does not. */
static bool is_refused(const struct card* card) {
  struct heddle_queue_report report = {0};
  for (unsigned trial = 0; trial < TRIALS; ++trial) {
    if (ioctl(card->file, HEDDLE_IOC_REPORT, &report) != 0) fail("no report: %s", strerror(errno));
    if (report.state == HEDDLE_QUEUE_STATE_ERROR) return true;
    /* A packet that was done, and was alone: nothing is left that could be refused. */
    uint64_t read_index = 0;
    bus_load((void*)(uintptr_t)card, host_address(card, READ_INDEX), &read_index, 8);
    if (report.state == HEDDLE_QUEUE_STATE_ACTIVE && read_index == 1) return false;
  }
  return false;
}

/* A kernel that does not end, and behind it a packet that stops the queue, which has been opened anew. */
static void hang(struct card* card) {
  const struct heddle_dispatch kernel = {.scopes = HEDDLE_SCOPES(false, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM),
                                         .setup = 1,
                                         .workgroup = {32, 1, 1},
                                         .grid = {2048, 1, 1},
                                         .group_segment = 8,
                                         .kernel_object = make_object(card, PROGRAM_STAY),
                                         .kernarg = make_arguments(card, 0, 1, 0, 0)};
  struct heddle_packet packets[2];
  heddle_packet_kernel(&packets[0], &kernel);
  heddle_packet_fill(&packets[1], HEDDLE_SCOPES(false, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM), 0x8000, 64, 0, 0);
  copy_words(card->host + RING, packets[0].bytes, sizeof packets);
  bus_barrier(card);
  *(volatile uint64_t*)(card->doorbells + 8 * card->info.queue) = 1;
  struct heddle_queue_report report = {0};
  for (unsigned trial = 0; report.state != HEDDLE_QUEUE_STATE_ERROR; ++trial) {
    if (trial == TRIALS) fail("a packet behind a kernel without an end is not refused");
    if (ioctl(card->file, HEDDLE_IOC_REPORT, &report) != 0) fail("no report: %s", strerror(errno));
  }
  if (report.index != 1) fail("packet %llu is refused, not 1", (unsigned long long)report.index);
}

/* A packet that would do harm if the device let it: copies, fills and kernels that reach for what is the other's, the
 * driver's, or anybody's. Where the guards lie is known to the attacker. */
static void attack(struct card* card, uint64_t dice, const struct heddle_info* other) {
  const uint64_t own = card->info.device_address;
  const uint64_t targets[6] = {other->device_address + GUARDED,
                               HEDDLE_HOST_WINDOW + other->host_address + GUARDED,
                               HEDDLE_HOST_WINDOW + 0x100000 + (dice >> 32) % 0x8000000 / 64 * 64, /* the kernel's */
                               other->subcontext * 0x8000u,                                        /* page tables */
                               card->info.subcontext * 0x8000u,
                               0};
  const uint64_t target = targets[dice % 6];
  const uint8_t scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  struct heddle_dispatch kernel = {.scopes = scopes, .setup = 1, .workgroup = {256, 1, 1}, .grid = {256, 1, 1}};
  struct heddle_packet packet;
  switch (dice >> 8 & 3) {
    case 0:
      heddle_packet_fill(&packet, scopes, target, 64, 0, 0);
      break;
    case 1:
      heddle_packet_copy(&packet, scopes, own, target, 64, 0);
      break;
    case 2:
      heddle_packet_copy(&packet, scopes, target, own, 64, 0);
      break;
    default:
      kernel.kernel_object = make_object(card, PROGRAM_TRIPLE);
      kernel.kernarg = make_arguments(card, 0, own + DEVICE_INPUT, target, 256);
      heddle_packet_kernel(&packet, &kernel);
  }
  if ((dice >> 10 & 3) == 0) {
    kernel.kernel_object = target; /* or what lies there as a kernel, a signal */
    kernel.completion_signal = target;
    heddle_packet_kernel(&packet, &kernel);
  }
  copy_words(card->host + RING, packet.bytes, sizeof packet.bytes);
  bus_barrier(card);
  *(volatile uint64_t*)(card->doorbells + 8 * card->info.queue) = 0;
}

/* The same with code that the attacker brings: a kernel of its own that reaches for what is the other's, an object of
 * its own that names the other's code, or a packet that names the other's object, all where they are known to lie; or
 * an object of its own that names by its number what the device may have made of code, whoever has brought that. */
static void attack_with_code(struct card* card, struct brought* brought, uint64_t dice,
                             const struct heddle_info* other) {
  const uint64_t own = card->info.device_address;
  const uint64_t target =
      (dice >> 8 & 1) != 0 ? other->device_address + GUARDED : HEDDLE_HOST_WINDOW + other->host_address + GUARDED;
  load_brought(card, brought);
  struct heddle_program_kernel scale = find_brought(brought, "scale");
  uint64_t from = own + BROUGHT_INPUT;
  uint64_t to = own + BROUGHT_OUTPUT;
  switch (dice % 5) {
    case 0:
      to = target;
      break;
    case 1:
      from = target;
      break;
    case 2: {
      const uint64_t code = load_word(card, scale.object + CODE_IN_OBJECT);
      store_word(card, scale.object + CODE_IN_OBJECT, code - own + other->device_address);
      break;
    }
    case 3:
      scale.object = make_object(card, PROGRAMS + 1 + (dice >> 9) % 6);
      break;
    default:
      scale.object = scale.object - own + other->device_address;
  }
  struct heddle_dispatch dispatch;
  struct heddle_packet packet;
  if (heddle_program_dispatch(&scale, brought_arguments(card, from, to, dice), 0, &dispatch) != HEDDLE_OK) {
    fail("no dispatch of a kernel of the file");
  }
  heddle_packet_kernel(&packet, &dispatch);
  copy_words(card->host + RING, packet.bytes, sizeof packet.bytes);
  bus_barrier(card);
  *(volatile uint64_t*)(card->doorbells + 8 * card->info.queue) = 0;
}

/* Code of which a few bytes are anything, or whose link leads to the other's kernel object. What becomes of that is the
 * attacker's own affair: a refusal, a fault, or a kernel that does something in its own memory. */
static void bring_anything(struct card* card, struct brought* brought, uint64_t dice, const struct heddle_info* other) {
  const uint64_t own = card->info.device_address;
  load_brought(card, brought);
  const struct heddle_program_kernel scale = find_brought(brought, "scale");
  struct heddle_program_kernel kernel = find_brought(brought, "launcher");
  if ((dice & 1) != 0) {
    const uint64_t code = load_word(card, kernel.object + CODE_IN_OBJECT);
    store_word(card, code + LINKS_IN_CODE, scale.object - own + other->device_address);
  } else {
    kernel = scale;
    const uint64_t code = load_word(card, kernel.object + CODE_IN_OBJECT);
    for (unsigned i = 0; i < 3; ++i) {
      const uint8_t byte = (uint8_t)(dice >> (8 + 16 * i));
      const uint64_t at = code + (dice >> (16 + 16 * i) & 0xFF) % kernel.code_bytes;
      if (!bus_store(card, at, &byte, 1)) fail("a byte of code cannot be written");
    }
  }
  struct heddle_dispatch dispatch;
  struct heddle_packet packet;
  const uint64_t arguments = brought_arguments(card, own + BROUGHT_INPUT, own + BROUGHT_OUTPUT, dice);
  if (heddle_program_dispatch(&kernel, arguments, 0, &dispatch) != HEDDLE_OK) fail("no dispatch of a kernel");
  heddle_packet_kernel(&packet, &dispatch);
  copy_words(card->host + RING, packet.bytes, sizeof packet.bytes);
  bus_barrier(card);
  *(volatile uint64_t*)(card->doorbells + 8 * card->info.queue) = 0;
  (void)is_refused(card);
}

/* A fill of its own memory, which is done. */
static void behave(struct card* card) {
  const uint64_t target = card->info.device_address + COUNTER;
  struct heddle_packet packet;
  uint64_t word = 0;
  bus_store(card, target, &word, 8);
  heddle_packet_fill(&packet, HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM), target, 64, 0x51, 0);
  copy_words(card->host + RING, packet.bytes, sizeof packet.bytes);
  bus_barrier(card);
  *(volatile uint64_t*)(card->doorbells + 8 * card->info.queue) = 0;
  for (unsigned trial = 0; word == 0 && trial < TRIALS; ++trial) bus_load(card, target, &word, 8);
  if (word == 0) fail("a packet of a process does nothing in its own memory");
}

/* Accesses everything that a process can map, at random, and opens its queue again and again: for an attack, for a
 * packet that is none, and for a kernel without an end. */
static void be_hostile(uint64_t seed, unsigned accesses, const struct heddle_info* other) {
  static struct brought brought;
  struct card card;
  uint64_t random = seed * 2 + 1;
  unsigned attacks = 0;
  unsigned refused = 0;
  unsigned done = 0;
  unsigned hung = 0;
  unsigned brought_attacks = 0;
  unsigned stopped = 0;
  unsigned anything = 0;
  read_brought(&brought);
  open_card(&card);
  open_queue(&card);
  for (unsigned i = 0; i < accesses; ++i) {
    const uint64_t dice = next(&random);
    const uint64_t value = next(&random);
    uint8_t* areas[3] = {card.host, card.part, card.doorbells};
    const size_t bytes[3] = {card.info.host_bytes, card.info.device_bytes, card.device.doorbell_page};
    const unsigned area = dice % 16 < 12 ? 0 : dice % 16 < 14 ? 1 : 2;
    /* Half of what goes to the host's memory goes to the ring. */
    const size_t range = area == 0 && (dice >> 8 & 1) != 0 ? PACKETS * 64 : bytes[area];
    uint8_t* at = areas[area] + (dice >> 16) % range / 8 * 8;
    switch (dice >> 10 & 7) {
      case 0:
        (void)*(volatile uint64_t*)at;
        break;
      case 1:
        (void)*(volatile uint32_t*)at;
        break;
      case 2:
        *(volatile uint8_t*)(at + (value & 7)) = (uint8_t)value;
        break;
      case 3:
        *(volatile uint16_t*)at = (uint16_t)(value & 0xFF07); /* a header of a type that exists */
        break;
      case 4:
        *(volatile uint32_t*)at = (uint32_t)value;
        break;
      default:
        *(volatile uint64_t*)at = value >> (value & 63);
    }
    if (i % 100 != 99) continue;
    open_again(&card);
    attack(&card, value, other);
    ++attacks;
    refused += is_refused(&card) ? 1 : 0;
    if (attacks % 10 == 5) {
      open_again(&card);
      behave(&card);
      ++done;
    }
    if (attacks % 20 == 15) {
      open_again(&card);
      hang(&card);
      ++hung;
    }
    if (attacks % 5 == 3) {
      open_again(&card);
      attack_with_code(&card, &brought, value >> 3, other);
      ++brought_attacks;
      stopped += is_refused(&card) ? 1 : 0;
      open_again(&card);
      bring_anything(&card, &brought, value, other);
      ++anything;
    }
  }
  printf(
      "guest: hostile: %u random accesses, %u attacks of which %u were refused, %u packets done, %u kernels without an "
      "end\n",
      accesses, attacks, refused, done, hung);
  if (stopped != brought_attacks) fail("%u attacks with code were carried out", brought_attacks - stopped);
  printf("guest: hostile: %u attacks with code of its own, all refused, and %u times code that is anything\n",
         brought_attacks, anything);
  /* Of all that attacks reach for, 1 in 1,500 is the attacker's own. */
  if (refused + 1 + attacks / 100 < attacks) fail("%u attacks were carried out", attacks - refused);
  exit(0);
}

static int two_processes(uint64_t seed, unsigned accesses) {
  static struct brought brought;
  struct card card;
  uint64_t random = seed * 2 + 1;
  unsigned count = 0;
  int status = 0;
  open_card(&card);
  open_queue(&card);
  put_guards(&card);
  read_brought(&brought);
  load_brought(&card, &brought);
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail("fork: %s", strerror(errno));
  if (child == 0) be_hostile(seed + 1, accesses, &card.info);
  while (waitpid(child, &status, WNOHANG) == 0) {
    launch_triple(&card, &random);
    launch_brought(&card, &brought, &random);
    count += 2;
  }
  for (unsigned i = 0; i < 20; ++i) launch_triple(&card, &random);
  for (unsigned i = 0; i < 20; ++i) launch_brought(&card, &brought, &random);
  check_guards(&card);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("the hostile process ended badly: %#x", (unsigned)status);
  if (count < 10) fail("only %u launches beside the hostile process", count);
  printf("guest: launches of the other process are right beside it\n");
  return 0;
}

/* Until the device is gone: the driver is to say so, and nothing is to hang. */
static int until_gone(void) {
  struct card card;
  open_card(&card);
  for (unsigned i = 0; i < 10000000; ++i) {
    struct heddle_register request = {HEDDLE_REG_SMS, 4, 0};
    if (ioctl(card.file, HEDDLE_IOC_READ, &request) == 0) continue;
    if (errno != EIO) fail("a read ends with: %s", strerror(errno));
    struct heddle_wait wait = {card.interrupts, 100000};
    const struct heddle_open again = {RING, PACKETS, READ_INDEX, 0};
    if (ioctl(card.file, HEDDLE_IOC_WAIT, &wait) == 0 || errno != EIO) fail("a wait ends with: %s", strerror(errno));
    if (ioctl(card.file, HEDDLE_IOC_OPEN, &again) == 0 || errno != EIO) fail("an open ends with: %s", strerror(errno));
    printf("guest: the device is gone: %s\n", strerror(EIO));
    return 0;
  }
  fail("the device is not gone");
  return 1;
}

/* A queue that was stopped beside a kernel without an end is opened again, or its process ends: the kernel is killed,
 * and the place of the process is free for others, of which there are more than places. */
static int stuck(unsigned rounds) {
  struct card card;
  uint64_t random = 1;
  for (unsigned i = 0; i < rounds; ++i) {
    open_card(&card);
    open_queue(&card);
    hang(&card);
    if (i % 2 == 1) {
      open_queue(&card);
      launch_triple(&card, &random);
    }
    close_card(&card);
  }
  printf("guest: %u kernels without an end were killed\n", rounds);
  return 0;
}

/* The device goes (--vanish-after) while nobody asks the driver anything, but for one that waits. */
static int alone(void) {
  struct card card;
  int status = 0;
  open_card(&card);
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail("fork: %s", strerror(errno));
  if (child == 0) { /* past the driver */
    while (*(volatile uint64_t*)card.part == 0) {
    }
    exit(0);
  }
  struct heddle_wait wait = {card.interrupts, 1000000000};
  if (ioctl(card.file, HEDDLE_IOC_WAIT, &wait) == 0 || errno != EIO) fail("a wait ends with: %s", strerror(errno));
  if (waitpid(child, &status, 0) != child || status != 0) fail("the other process ended badly: %#x", (unsigned)status);
  printf("guest: one that waits alone hears that the device is gone\n");
  return 0;
}

static void write_one(const char* path) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "1", 1) != 1) fail("%s: %s", path, strerror(errno));
  close(file);
}

/* The device is taken out of the guest's bus while a file is open, and comes back. */
static int removed(void) {
  struct card card;
  struct heddle_register request = {HEDDLE_REG_SMS, 4, 0};
  struct heddle_queue_report report;
  uint64_t random = 1;
  int status = 0;
  open_card(&card);
  open_queue(&card);
  launch_triple(&card, &random);
  open_queue(&card);
  hang(&card);
  fflush(stdout);
  const pid_t waiter = fork();
  if (waiter < 0) fail("fork: %s", strerror(errno));
  if (waiter == 0) {
    struct heddle_wait wait = {card.interrupts, 1000000000};
    while (ioctl(card.file, HEDDLE_IOC_WAIT, &wait) == 0) {
    }
    if (errno != EIO) fail("a wait ends with: %s", strerror(errno));
    exit(0);
  }
  write_one("/sys/class/misc/heddle/device/remove");
  if (waitpid(waiter, &status, 0) != waiter || status != 0) fail("the waiter ended badly: %#x", (unsigned)status);
  const struct heddle_open again = {RING, PACKETS, READ_INDEX, 0};
  if (ioctl(card.file, HEDDLE_IOC_READ, &request) == 0 || errno != EIO) fail("a read ends with: %s", strerror(errno));
  if (ioctl(card.file, HEDDLE_IOC_REPORT, &report) == 0 || errno != EIO) fail("a report: %s", strerror(errno));
  if (ioctl(card.file, HEDDLE_IOC_OPEN, &again) == 0 || errno != EIO) fail("an open ends with: %s", strerror(errno));
  memset(card.host, 0x5A, card.info.host_bytes); /* is still its own */
  uint8_t* const areas[2] = {card.part, card.doorbells};
  for (unsigned i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child < 0) fail("fork: %s", strerror(errno));
    if (child == 0) {
      (void)*(volatile uint64_t*)areas[i];
      _exit(0);
    }
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS) {
      fail("a page of a device that was removed: %#x", (unsigned)status);
    }
  }
  close_card(&card);
  write_one("/sys/bus/pci/rescan");
  open_card(&card);
  open_queue(&card);
  launch_triple(&card, &random);
  printf("guest: the device was removed, and came back\n");
  return 0;
}

/* What a guest looks like whose kernel stops. */
static int panic(void) {
  const int file = open("/proc/sysrq-trigger", O_WRONLY);
  if (file < 0 || write(file, "c", 1) != 1) fail("/proc/sysrq-trigger: %s", strerror(errno));
  return 1;
}

/* Without more digits than the figure is worth. */
static void print_figure(const char* what, double count, double since) {
  double figure = count / (now() - since);
  double unit = 1;
  while (figure / unit >= 100) unit *= 10;
  printf("figure: %s: %.0f\n", what, (double)(uint64_t)(figure / unit + 0.5) * unit);
}

/* What accesses, launches and bytes take, in time of the guest. */
static int figures(void) {
  struct card card;
  uint64_t random = 1;
  enum { kAccesses = 4000, kWords = 2048, kLaunches = 300, kCopies = 40 };
  open_card(&card);
  open_queue(&card);
  launch_triple(&card, &random);

  double start = now();
  for (int i = 0; i < kAccesses; ++i) {
    struct heddle_register request = {HEDDLE_REG_SMS, 4, 0};
    if (ioctl(card.file, HEDDLE_IOC_READ, &request) != 0) fail("a read ends with: %s", strerror(errno));
  }
  print_figure("reads of a register per second, by the driver", kAccesses, start);
  start = now();
  for (int i = 0; i < kAccesses; ++i) *(volatile uint64_t*)(card.doorbells + 8 * card.info.queue) = 0;
  print_figure("doorbells per second, by the process", kAccesses, start);

  start = now();
  for (int i = 0; i < kWords; ++i) *(volatile uint64_t*)(card.part + DEVICE_INPUT + 8 * i) = (uint64_t)i;
  print_figure("bytes per second through BAR 1, in words of 8", 8 * kWords, start);
  start = now();
  for (int i = 0; i < kCopies; ++i) {
    const uint32_t bytes = 256u << 10;
    struct heddle_packet packet;
    const uint64_t signal = arm(&card);
    heddle_packet_copy(&packet, HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM),
                       host_address(&card, INPUT), card.info.device_address + (1u << 20), bytes, signal);
    submit(&card, &packet, 1);
    if (await(&card, signal) != 0) fail("a copy does not end");
  }
  print_figure("bytes per second by copies of 256 KiB", kCopies * 262144.0, start);

  start = now();
  for (int i = 0; i < kLaunches; ++i) launch_triple(&card, &random);
  print_figure("launches per second, each with two copies, an interrupt and its check", kLaunches, start);
  start = now();
  for (int i = 0; i < kLaunches / 20; ++i) launch_condensed(&card, 20);
  print_figure("launches per second by condensed packets, an interrupt for 20", kLaunches, start);
  return 0;
}

int main(int count, char** words) {
  const char* command = count > 1 ? words[1] : "";
  const uint64_t first = count > 2 ? strtoull(words[2], NULL, 0) : 1;
  const unsigned second = count > 3 ? (unsigned)strtoul(words[3], NULL, 0) : 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(command, "identify") == 0) return identify();
  if (strcmp(command, "launches") == 0) return launches(first, second);
  if (strcmp(command, "condensed") == 0) return condensed((unsigned)first);
  if (strcmp(command, "brought") == 0) return brought_kernels(first, second);
  if (strcmp(command, "hostile") == 0) return two_processes(first, second);
  if (strcmp(command, "stuck") == 0) return stuck((unsigned)first);
  if (strcmp(command, "removed") == 0) return removed();
  if (strcmp(command, "until-gone") == 0) return until_gone();
  if (strcmp(command, "alone") == 0) return alone();
  if (strcmp(command, "panic") == 0) return panic();
  if (strcmp(command, "figures") == 0) return figures();
  fprintf(stderr,
          "usage: heddle_guest identify | launches SEED COUNT | condensed ROUNDS | brought SEED COUNT | hostile SEED "
          "ACCESSES | stuck ROUNDS | removed | until-gone | alone | panic | figures\n");
  return 2;
}
