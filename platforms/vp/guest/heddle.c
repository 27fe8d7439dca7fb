// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* A Linux driver for a Heddle device: the smallest that keeps processes apart. The driver owns the registers; a process
 * gets a subcontext, and with it a queue, a page of doorbells, pinned memory (opened to the device by a window), and a
 * part of device memory (its only mapped pages). docs/virtual-platform.md, docs/registers.md, models/arch/page_table.h.
 * Linux gives mappings without a cache to modules under the GPL only, so this file may be used under that as well. */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "heddle_ioctl.h"
#include "heddle_registers.h"

#define VENDOR 0xf1f1
#define DEVICE 0x4845
#define BAR_REGISTERS 0
#define BAR_MEMORY 1
#define SLOTS 8u                 /* processes at a time; subcontexts 1 to SLOTS, queues 0 to SLOTS - 1 */
#define HOST_BYTES (512u << 10)  /* pinned for each */
#define PART_BYTES (4u << 20)    /* of device memory for each: two large pages */
#define TABLE_BYTES (32u << 10)  /* of page tables for each, in the part of subcontext 0 */
#define HOST_WINDOW (1ull << 63) /* unified addresses of the host's memory begin there */
#define ALL_ONES 0xffffffffu
#define MOST_EVENTS 1024u /* that are taken before the device is asked anew what is pending */
#define LOOKS 1000u       /* until the driver gives up; each lets the device work */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define SET_FLAGS(area, flags) ((area)->vm_flags |= (flags))
#else
#define SET_FLAGS(area, flags) vm_flags_set(area, flags)
#endif
#define SLICE HZ /* of a wait, until the driver looks whether the device is still there */

struct heddle_slot {
  struct heddle_card* card;
  struct address_space* mapping; /* of its file */
  unsigned int number;           /* the subcontext */
  bool taken;
  bool left; /* its process has ended, and its queue would not close */
  void* host;
  dma_addr_t host_address;
  wait_queue_head_t wait;
  u32 interrupts;
};

/* It lives as long as the device or one of its files. */
struct heddle_card {
  struct kref users;
  struct pci_dev* pci;
  void __iomem* registers;
  void __iomem* memory;
  u32 page; /* of doorbells */
  unsigned int slots;
  bool gone;         /* or removed: its registers are not mapped any more */
  struct mutex lock; /* of slots, and of all registers but those of interrupts. No memory of a process is touched under
                      * it: a page that is not there would need it as well */
  struct heddle_slot slot[SLOTS];
  struct miscdevice misc;
};

/* Registers */

static u32 get(struct heddle_card* card, u32 offset) { return readl(card->registers + offset); }
static void put(struct heddle_card* card, u32 offset, u32 value) { writel(value, card->registers + offset); }
static void put_wide(struct heddle_card* card, u32 offset, u64 value) { writeq(value, card->registers + offset); }

/* A device that has been taken away answers with ones, and its identification never does. */
static void give_up(struct heddle_card* card) {
  unsigned int i;

  WRITE_ONCE(card->gone, true);
  for (i = 0; i < card->slots; ++i) wake_up_all(&card->slot[i].wait);
}

/* The caller has the lock, or is the thread of interrupts. */
static bool is_gone(struct heddle_card* card) {
  if (!card->gone && get(card, HEDDLE_REG_MAGIC) == ALL_ONES) {
    dev_err(&card->pci->dev, "the device is gone: all reads are ones\n");
    give_up(card);
  }
  return card->gone;
}

static void release_card(struct kref* users) {
  struct heddle_card* card = container_of(users, struct heddle_card, users);

  pci_dev_put(card->pci);
  kfree(card);
}

/* Interrupts: the line goes up once, so all that is pending is taken before the end. That is the work of a thread: a
 * process that signals without an end keeps a processor busy, and stops nobody else. */

static void wake(struct heddle_card* card, u32 event) {
  unsigned int i;

  for (i = 0; i < card->slots; ++i) {
    if (event != 0 && event != i + 1) continue;
    ++card->slot[i].interrupts;
    wake_up_all(&card->slot[i].wait);
  }
}

static irqreturn_t on_interrupt(int line, void* context) {
  struct heddle_card* card = context;
  u32 pending = get(card, HEDDLE_REG_INT_PENDING);
  u32 count;
  u64 event;

  if (pending == 0) return IRQ_NONE;
  for (; pending != 0 && pending != ALL_ONES; pending = get(card, HEDDLE_REG_INT_PENDING)) {
    put(card, HEDDLE_REG_INT_STATUS, pending);
    /* The id of an event is the subcontext by agreement; whoever writes another wakes somebody for nothing. */
    for (count = min(get(card, HEDDLE_REG_EVENT_COUNT), MOST_EVENTS); count > 0; --count) {
      event = readq(card->registers + HEDDLE_REG_EVENT);
      if (event == ~0ull) break;
      wake(card, (u32)event);
    }
    if ((pending & ~HEDDLE_INT_SIGNAL_MASK) != 0) wake(card, 0);
  }
  if (pending == ALL_ONES) is_gone(card);
  return IRQ_HANDLED;
}

/* Queues. The caller has the lock. */

/* Kills what runs, whatever state the queue is in, and closes it. */
static int close_queue(struct heddle_slot* slot) {
  struct heddle_card* card = slot->card;
  u32 queue = slot->number - 1;
  unsigned int looks;

  for (looks = 0; looks < LOOKS; ++looks) {
    if (is_gone(card)) return -EIO;
    switch (get(card, HEDDLE_REG_QUEUE_STATE(queue))) {
      case HEDDLE_QUEUE_STATE_CLOSED:
        return 0;
      case HEDDLE_QUEUE_STATE_INACTIVE:
        put(card, HEDDLE_REG_QUEUE_COMMAND(queue), HEDDLE_QUEUE_COMMAND_CLOSE);
        break;
      case HEDDLE_QUEUE_STATE_ABORTING:
        usleep_range(20, 100);
        break;
      default: /* ACTIVE, ERROR, DRAINING: by itself, a queue that is drained waits for the end of its kernels */
        put(card, HEDDLE_REG_QUEUE_COMMAND(queue), HEDDLE_QUEUE_COMMAND_INACTIVATE);
    }
  }
  return -EBUSY;
}

static int open_queue(struct heddle_slot* slot, const struct heddle_open* open) {
  struct heddle_card* card = slot->card;
  u32 queue = slot->number - 1;
  u64 base = HOST_WINDOW + slot->host_address;
  unsigned int looks;
  u32 state;
  int error;

  if (open->packets == 0 || open->packets > HOST_BYTES / 64 || (open->packets & (open->packets - 1)) != 0 ||
      open->ring % 64 != 0 || open->ring > HOST_BYTES - open->packets * 64 || open->read_index % 8 != 0 ||
      open->read_index > HOST_BYTES - 8 || open->reserved != 0) {
    return -EINVAL;
  }
  error = close_queue(slot);
  if (error != 0) return error;
  put_wide(card, HEDDLE_REG_QUEUE_BASE(queue), base + open->ring);
  put_wide(card, HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(queue), base + open->read_index);
  put_wide(card, HEDDLE_REG_QUEUE_FIRST(queue), 0);
  put(card, HEDDLE_REG_QUEUE_SIZE(queue), open->packets);
  put(card, HEDDLE_REG_QUEUE_PRIORITY(queue), 0);
  put(card, HEDDLE_REG_QUEUE_SUBCONTEXT(queue), slot->number);
  put(card, HEDDLE_REG_QUEUE_COMMAND(queue), HEDDLE_QUEUE_COMMAND_OPEN);
  for (looks = 0; looks < LOOKS; ++looks) {
    state = get(card, HEDDLE_REG_QUEUE_STATE(queue));
    if (state == HEDDLE_QUEUE_STATE_ACTIVE) return 0;
    if (state == HEDDLE_QUEUE_STATE_ERROR) return -EPROTO;
    if (is_gone(card)) return -EIO;
    usleep_range(20, 100);
  }
  return -EBUSY;
}

/* Subcontexts. The caller has the lock. */

static void share(struct heddle_card* card, u32 subcontext, u32 command, u64 value) {
  put(card, HEDDLE_REG_SHARE_SUBCONTEXT, subcontext);
  put_wide(card, HEDDLE_REG_SHARE_VALUE, value);
  put(card, HEDDLE_REG_SHARE_COMMAND, command);
}

/* Zeros by a copy channel, at an address that is not translated. */
static int clear(struct heddle_card* card, u64 address, u64 bytes) {
  unsigned int looks;
  u32 state;

  put_wide(card, HEDDLE_REG_COPY_TO(0), address);
  put_wide(card, HEDDLE_REG_COPY_BYTES(0), bytes);
  put(card, HEDDLE_REG_COPY_VALUE(0), 0);
  put(card, HEDDLE_REG_COPY_KIND(0), HEDDLE_COPY_KIND_FILL);
  put(card, HEDDLE_REG_COPY_SUBCONTEXT(0), 0);
  put(card, HEDDLE_REG_COPY_COMMAND(0), HEDDLE_COPY_COMMAND_START);
  for (looks = 0; looks < LOOKS; ++looks) {
    state = get(card, HEDDLE_REG_COPY_STATE(0));
    if (state == HEDDLE_COPY_STATE_DONE) return 0;
    if (state == HEDDLE_COPY_STATE_ERROR || is_gone(card)) return -EIO;
    usleep_range(20, 100);
  }
  return -EBUSY;
}

/* The process's part of device memory at its own address, and nothing else. Tables are all zeros at first. */
static void map_part(struct heddle_slot* slot) {
  struct heddle_card* card = slot->card;
  u64 root = (u64)slot->number * TABLE_BYTES;
  u64 level1 = root + 2048;
  u64 level2 = level1 + 8192;
  u64 part = (u64)slot->number * PART_BYTES;
  u64 page;

  writeq(level1 | 1, card->memory + root);
  writeq(level2 | 1, card->memory + level1);
  for (page = part; page < part + PART_BYTES; page += 2u << 20) {
    writeq(page | 7, card->memory + level2 + 8 * (page >> 21)); /* present, writable, large */
  }
  share(card, slot->number, HEDDLE_SHARE_COMMAND_PAGE_TABLE, root);
}

static int open_window(struct heddle_slot* slot) {
  struct heddle_card* card = slot->card;
  u32 before = get(card, HEDDLE_REG_WINDOW_COUNT);

  put(card, HEDDLE_REG_WINDOW_SUBCONTEXT, slot->number);
  put_wide(card, HEDDLE_REG_WINDOW_ADDRESS, HOST_WINDOW + slot->host_address);
  put_wide(card, HEDDLE_REG_WINDOW_BYTES, HOST_BYTES);
  put(card, HEDDLE_REG_WINDOW_RIGHTS, HEDDLE_WINDOW_RIGHTS_READ_MASK | HEDDLE_WINDOW_RIGHTS_WRITE_MASK);
  put(card, HEDDLE_REG_WINDOW_COMMAND, HEDDLE_WINDOW_COMMAND_OPEN);
  return get(card, HEDDLE_REG_WINDOW_COUNT) == before + 1 ? 0 : -EIO; /* a command that is refused does nothing */
}

static void close_windows(struct heddle_slot* slot) {
  put(slot->card, HEDDLE_REG_WINDOW_SUBCONTEXT, slot->number);
  put(slot->card, HEDDLE_REG_WINDOW_COMMAND, HEDDLE_WINDOW_COMMAND_CLOSE);
}

/* Files */

static void give_back(struct heddle_slot* slot) {
  dma_free_coherent(&slot->card->pci->dev, HOST_BYTES, slot->host, slot->host_address);
  slot->taken = false;
  slot->left = false;
}

static int heddle_open(struct inode* inode, struct file* file) {
  struct heddle_card* card = container_of(file->private_data, struct heddle_card, misc);
  struct heddle_slot* slot = NULL;
  unsigned int i;
  int error = 0;

  mutex_lock(&card->lock);
  if (is_gone(card)) error = -EIO;
  for (i = 0; error == 0 && i < card->slots && slot == NULL; ++i) {
    if (card->slot[i].left && close_queue(&card->slot[i]) == 0) {
      close_windows(&card->slot[i]);
      give_back(&card->slot[i]);
    }
    if (!card->slot[i].taken) slot = &card->slot[i];
  }
  if (error == 0 && slot == NULL) error = -EBUSY;
  if (error == 0) {
    slot->host = dma_alloc_coherent(&card->pci->dev, HOST_BYTES, &slot->host_address, GFP_KERNEL);
    if (slot->host == NULL) error = -ENOMEM;
  }
  if (error == 0) {
    error = clear(card, (u64)slot->number * PART_BYTES, PART_BYTES); /* what another process has left there */
    if (error == 0) error = open_window(slot);
    if (error != 0) dma_free_coherent(&card->pci->dev, HOST_BYTES, slot->host, slot->host_address);
  }
  if (error == 0) {
    slot->taken = true;
    slot->interrupts = 0;
    map_part(slot);
    slot->mapping = inode->i_mapping;
    kref_get(&card->users);
    file->private_data = slot;
  }
  mutex_unlock(&card->lock);
  return error;
}

static int heddle_release(struct inode* inode, struct file* file) {
  struct heddle_slot* slot = file->private_data;
  struct heddle_card* card = slot->card;
  int error;

  mutex_lock(&card->lock);
  slot->mapping = NULL;
  error = close_queue(slot);
  if (error == 0) close_windows(slot);
  /* While the device may still write there, the memory is nobody else's, and neither is the slot. */
  if (error == 0 || card->gone) {
    give_back(slot);
  } else {
    slot->left = true;
  }
  mutex_unlock(&card->lock);
  kref_put(&card->users, release_card);
  return 0;
}

/* Pages of the device come when they are touched, so that they can be taken away with it. */
static vm_fault_t on_page_fault(struct vm_fault* fault) {
  struct vm_area_struct* area = fault->vma;
  struct heddle_slot* slot = area->vm_private_data;
  struct heddle_card* card = slot->card;
  u64 offset = (u64)fault->pgoff << PAGE_SHIFT;
  vm_fault_t result = VM_FAULT_SIGBUS;
  phys_addr_t page;

  mutex_lock(&card->lock);
  if (!card->gone) {
    if (offset >= HEDDLE_MAP_DEVICE) {
      page = pci_resource_start(card->pci, BAR_MEMORY) + slot->number * PART_BYTES + (offset - HEDDLE_MAP_DEVICE);
    } else {
      page = pci_resource_start(card->pci, BAR_REGISTERS) + HEDDLE_REG_DOORBELL(0) + slot->number * card->page + offset;
    }
    result = vmf_insert_pfn(area, fault->address, page >> PAGE_SHIFT);
  }
  mutex_unlock(&card->lock);
  return result;
}

static const struct vm_operations_struct heddle_pages = {.fault = on_page_fault};

static int heddle_mmap(struct file* file, struct vm_area_struct* area) {
  struct heddle_slot* slot = file->private_data;
  struct heddle_card* card = slot->card;
  u64 offset = (u64)area->vm_pgoff << PAGE_SHIFT;
  unsigned long bytes = area->vm_end - area->vm_start;
  int error;

  if (is_cow_mapping(area->vm_flags)) return -EINVAL;
  if (offset == HEDDLE_MAP_HOST) {
    area->vm_pgoff = 0;
    error = dma_mmap_coherent(&card->pci->dev, area, slot->host, slot->host_address, HOST_BYTES);
    area->vm_pgoff = HEDDLE_MAP_HOST >> PAGE_SHIFT;
    return error;
  }
  if ((offset != HEDDLE_MAP_DOORBELLS || bytes != card->page) && (offset != HEDDLE_MAP_DEVICE || bytes > PART_BYTES)) {
    return -EINVAL;
  }
  area->vm_page_prot = pgprot_noncached(area->vm_page_prot);
  SET_FLAGS(area, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
  area->vm_private_data = slot;
  area->vm_ops = &heddle_pages;
  return 0;
}

static long report(struct heddle_slot* slot, void __user* argument) {
  struct heddle_card* card = slot->card;
  u32 queue = slot->number - 1;
  struct heddle_queue_report report = {0};
  bool gone;

  mutex_lock(&card->lock);
  gone = is_gone(card);
  if (!gone) {
    report.state = get(card, HEDDLE_REG_QUEUE_STATE(queue));
    report.status = get(card, HEDDLE_REG_QUEUE_ERROR_STATUS(queue));
    report.reason = get(card, HEDDLE_REG_QUEUE_ERROR_REASON(queue));
    report.index = readq(card->registers + HEDDLE_REG_QUEUE_ERROR_INDEX(queue));
    gone = report.state == ALL_ONES && is_gone(card);
  }
  mutex_unlock(&card->lock);
  if (gone) return -EIO;
  return copy_to_user(argument, &report, sizeof(report)) ? -EFAULT : 0;
}

static long open_by_ioctl(struct heddle_slot* slot, void __user* argument) {
  struct heddle_open open;
  long result;

  if (copy_from_user(&open, argument, sizeof(open))) return -EFAULT;
  mutex_lock(&slot->card->lock);
  result = open_queue(slot, &open);
  mutex_unlock(&slot->card->lock);
  return result;
}

/* Nobody else may ever ask the device anything, so a wait does, now and then. */
static bool look(struct heddle_card* card) {
  bool gone;

  mutex_lock(&card->lock);
  gone = is_gone(card);
  mutex_unlock(&card->lock);
  return gone;
}

static long wait_for_interrupt(struct heddle_slot* slot, void __user* argument) {
  struct heddle_card* card = slot->card;
  struct heddle_wait wait;
  unsigned long left, slice;
  long woken;

  if (copy_from_user(&wait, argument, sizeof(wait))) return -EFAULT;
  left = msecs_to_jiffies(wait.milliseconds);
  do {
    slice = min_t(unsigned long, left, SLICE);
    woken = wait_event_interruptible_timeout(slot->wait,
                                             READ_ONCE(slot->interrupts) != wait.seen || READ_ONCE(card->gone), slice);
    if (woken < 0) return -EINTR;
    if (READ_ONCE(card->gone) || (woken == 0 && look(card))) return -EIO;
    left -= slice;
  } while (woken == 0 && left > 0);
  if (woken == 0) return -ETIME;
  wait.seen = READ_ONCE(slot->interrupts);
  return copy_to_user(argument, &wait, sizeof(wait)) ? -EFAULT : 0;
}

/* What is the same for all processes, and tells nothing of any. */
static const struct {
  u32 offset;
  u32 bytes;
} open_to_all[] = {{HEDDLE_REG_MAGIC, 4},        {HEDDLE_REG_VERSION, 4},        {HEDDLE_REG_SMS, 4},
                   {HEDDLE_REG_GPCS, 4},         {HEDDLE_REG_QUEUES, 4},         {HEDDLE_REG_COPY_ENGINES, 4},
                   {HEDDLE_REG_MEMORY_BYTES, 8}, {HEDDLE_REG_CLOCK_MHZ, 4},      {HEDDLE_REG_THREADS_LIMIT, 4},
                   {HEDDLE_REG_SHARED_LIMIT, 4}, {HEDDLE_REG_COPY_CHANNELS, 4},  {HEDDLE_REG_CLOCK_PERIOD, 4},
                   {HEDDLE_REG_TIMESTAMP, 8},    {HEDDLE_REG_TIMESTAMP_RATE, 8}, {HEDDLE_REG_DOORBELL_PAGE, 4}};

static long read_register(struct heddle_slot* slot, void __user* argument) {
  struct heddle_card* card = slot->card;
  struct heddle_register request;
  bool gone = false;
  unsigned int i;

  if (copy_from_user(&request, argument, sizeof(request))) return -EFAULT;
  for (i = 0; i < ARRAY_SIZE(open_to_all); ++i) {
    if (open_to_all[i].offset == request.offset && open_to_all[i].bytes == request.bytes) break;
  }
  if (i == ARRAY_SIZE(open_to_all)) return -EINVAL;
  mutex_lock(&card->lock);
  if (card->gone) {
    gone = true;
  } else if (request.bytes == 4) {
    request.value = get(card, request.offset);
    gone = request.value == ALL_ONES && is_gone(card);
  } else {
    request.value = readq(card->registers + request.offset);
    gone = request.value == ~0ull && is_gone(card);
  }
  mutex_unlock(&card->lock);
  if (gone) return -EIO;
  return copy_to_user(argument, &request, sizeof(request)) ? -EFAULT : 0;
}

static long heddle_ioctl(struct file* file, unsigned int command, unsigned long raw) {
  struct heddle_slot* slot = file->private_data;
  void __user* argument = (void __user*)raw;

  if (command == HEDDLE_IOC_WAIT) return wait_for_interrupt(slot, argument);
  if (command == HEDDLE_IOC_READ) return read_register(slot, argument);
  if (command == HEDDLE_IOC_INFO) {
    struct heddle_info info = {
        slot->number, slot->number - 1, slot->host_address, HOST_BYTES, (u64)slot->number * PART_BYTES, PART_BYTES};
    return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
  }
  if (command == HEDDLE_IOC_OPEN) return open_by_ioctl(slot, argument);
  if (command == HEDDLE_IOC_REPORT) return report(slot, argument);
  return -ENOTTY;
}

static const struct file_operations heddle_files = {
    .owner = THIS_MODULE,
    .open = heddle_open,
    .release = heddle_release,
    .mmap = heddle_mmap,
    .unlocked_ioctl = heddle_ioctl,
};

/* The device */

static int prepare(struct heddle_card* card) {
  struct device* dev = &card->pci->dev;
  u32 version = get(card, HEDDLE_REG_VERSION);
  u64 memory = min_t(u64, readq(card->registers + HEDDLE_REG_MEMORY_BYTES), pci_resource_len(card->pci, BAR_MEMORY));
  unsigned int i;
  int error;

  if (get(card, HEDDLE_REG_MAGIC) != HEDDLE_DEVICE_MAGIC) {
    dev_err(dev, "this is no Heddle device\n");
    return -ENODEV;
  }
  if (((version ^ HEDDLE_REGISTER_VERSION) & HEDDLE_VERSION_MAJOR_MASK) != 0) {
    dev_err(dev, "registers of version %#x, and the driver knows %#x\n", version, HEDDLE_REGISTER_VERSION);
    return -ENODEV;
  }
  card->page = get(card, HEDDLE_REG_DOORBELL_PAGE);
  if (card->page == 0 || card->page % PAGE_SIZE != 0 ||
      pci_resource_len(card->pci, BAR_REGISTERS) < HEDDLE_REG_DOORBELL(0) + (SLOTS + 1) * (u64)card->page) {
    dev_err(dev, "pages of doorbells of %u bytes: processes cannot be kept apart\n", card->page);
    return -ENODEV;
  }
  if (memory < 2 * PART_BYTES) {
    dev_err(dev, "%llu bytes of device memory can be reached: a process needs %u, and the driver as much\n", memory,
            PART_BYTES);
    return -ENODEV;
  }
  card->slots = min3(SLOTS, get(card, HEDDLE_REG_QUEUES), (u32)min_t(u64, memory / PART_BYTES - 1, SLOTS));
  put(card, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK);
  put(card, HEDDLE_REG_WINDOW_COMMAND, HEDDLE_WINDOW_COMMAND_ISOLATE);
  if (get(card, HEDDLE_REG_WINDOW_ISOLATED) != 1) {
    dev_err(dev, "the device does not keep subcontexts to their windows: processes cannot be kept apart\n");
    return -ENODEV;
  }
  error = clear(card, 0, (SLOTS + 1) * TABLE_BYTES);
  if (error != 0) return error;
  /* Empty tables for all: a subcontext that nobody has reaches nothing. */
  for (i = 1; i <= card->slots; ++i) share(card, i, HEDDLE_SHARE_COMMAND_PAGE_TABLE, (u64)i * TABLE_BYTES);
  if (get(card, HEDDLE_REG_SHARE_REFUSED) != 0) {
    dev_err(dev, "the device refuses page tables (gpu.mmu.enabled): processes cannot be kept apart\n");
    return -ENODEV;
  }
  return 0;
}

static int start(struct heddle_card* card) {
  struct pci_dev* pci = card->pci;
  unsigned int i;
  int error;

  error = pcim_enable_device(pci);
  if (error == 0) error = pcim_iomap_regions(pci, 1 << BAR_REGISTERS | 1 << BAR_MEMORY, "heddle");
  if (error == 0) error = dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(48));
  if (error != 0) return error;
  card->registers = pcim_iomap_table(pci)[BAR_REGISTERS];
  card->memory = pcim_iomap_table(pci)[BAR_MEMORY];
  pci_set_master(pci);
  pci_set_drvdata(pci, card);
  for (i = 0; i < SLOTS; ++i) {
    card->slot[i].card = card;
    card->slot[i].number = i + 1;
    init_waitqueue_head(&card->slot[i].wait);
  }
  error = prepare(card);
  if (error != 0) return error;
  error = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_MSI);
  if (error < 0) return error;
  error = request_threaded_irq(pci_irq_vector(pci, 0), NULL, on_interrupt, IRQF_ONESHOT, "heddle", card);
  if (error == 0) {
    put(card, HEDDLE_REG_INT_MASK,
        HEDDLE_INT_SIGNAL_MASK | HEDDLE_INT_QUEUE_ERROR_MASK | HEDDLE_INT_FAULT_MASK | HEDDLE_INT_OVERFLOW_MASK);
    card->misc.minor = MISC_DYNAMIC_MINOR;
    card->misc.name = "heddle";
    card->misc.fops = &heddle_files;
    card->misc.parent = &pci->dev;
    error = misc_register(&card->misc);
    if (error != 0) free_irq(pci_irq_vector(pci, 0), card);
  }
  if (error != 0) {
    pci_free_irq_vectors(pci);
    return error;
  }
  dev_info(&pci->dev, "%u SMs, %u processes at a time\n", get(card, HEDDLE_REG_SMS), card->slots);
  return 0;
}

static int heddle_probe(struct pci_dev* pci, const struct pci_device_id* id) {
  struct heddle_card* card = kzalloc(sizeof(*card), GFP_KERNEL);
  int error;

  if (card == NULL) return -ENOMEM;
  kref_init(&card->users);
  card->pci = pci_dev_get(pci);
  mutex_init(&card->lock);
  error = start(card);
  if (error != 0) kref_put(&card->users, release_card);
  return error;
}

/* Files may be open still. Whatever they ask for ends with an error from now on, and their pages of the device are
 * gone; their memory of the host is theirs until they are closed. */
static void heddle_remove(struct pci_dev* pci) {
  struct heddle_card* card = pci_get_drvdata(pci);
  unsigned int i;

  misc_deregister(&card->misc);
  mutex_lock(&card->lock);
  put(card, HEDDLE_REG_INT_MASK, 0);
  put(card, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK);
  pci_clear_master(pci);
  give_up(card);
  for (i = 0; i < card->slots; ++i) {
    struct heddle_slot* slot = &card->slot[i];

    if (slot->left) give_back(slot);
    if (slot->mapping == NULL) continue;
    unmap_mapping_range(slot->mapping, HEDDLE_MAP_DOORBELLS, HEDDLE_MAP_HOST - HEDDLE_MAP_DOORBELLS, 1);
    unmap_mapping_range(slot->mapping, HEDDLE_MAP_DEVICE, PART_BYTES, 1);
  }
  mutex_unlock(&card->lock);
  free_irq(pci_irq_vector(pci, 0), card);
  pci_free_irq_vectors(pci);
  kref_put(&card->users, release_card);
}

static const struct pci_device_id heddle_ids[] = {{PCI_DEVICE(VENDOR, DEVICE)}, {0}};
MODULE_DEVICE_TABLE(pci, heddle_ids);

static struct pci_driver heddle_driver = {
    .name = "heddle",
    .id_table = heddle_ids,
    .probe = heddle_probe,
    .remove = heddle_remove,
};
module_pci_driver(heddle_driver);

MODULE_DESCRIPTION("Heddle, a model of a GPU");
MODULE_LICENSE("GPL");
