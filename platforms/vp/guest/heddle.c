// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* A Linux driver for a Heddle device: the smallest that keeps processes apart. The driver owns the registers; a process
 * gets a subcontext, and with it a queue, a page of doorbells, pinned memory (opened to the device by a window), and a
 * part of device memory (its only mapped pages). docs/virtual-platform.md, docs/registers.md, models/arch/page_table.h.
 * Linux gives mappings without a cache to modules under the GPL only, so this file may be used under that as well. */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

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
#define LOOKS 1000u /* until the driver gives up; each lets the device work */

struct heddle_slot {
  struct heddle_card* card;
  unsigned int number; /* the subcontext */
  bool taken;
  bool left; /* its process has ended, and its queue would not close */
  void* host;
  dma_addr_t host_address;
  wait_queue_head_t wait;
  u32 interrupts;
};

struct heddle_card {
  struct pci_dev* pci;
  void __iomem* registers;
  void __iomem* memory;
  u32 page; /* of doorbells */
  unsigned int slots;
  bool gone;
  struct mutex lock; /* of slots, and of all registers but those of interrupts */
  struct heddle_slot slot[SLOTS];
  struct miscdevice misc;
};

/* Registers */

static u32 get(struct heddle_card* card, u32 offset) { return readl(card->registers + offset); }
static void put(struct heddle_card* card, u32 offset, u32 value) { writel(value, card->registers + offset); }
static void put_wide(struct heddle_card* card, u32 offset, u64 value) { writeq(value, card->registers + offset); }

/* A device that has been taken away answers with ones, and its identification never does. */
static bool is_gone(struct heddle_card* card) {
  unsigned int i;

  if (!card->gone && get(card, HEDDLE_REG_MAGIC) == ALL_ONES) {
    card->gone = true;
    dev_err(&card->pci->dev, "the device is gone: all reads are ones\n");
    for (i = 0; i < card->slots; ++i) wake_up_all(&card->slot[i].wait);
  }
  return card->gone;
}

static int wait_until(struct heddle_card* card, u32 offset, u32 value) {
  unsigned int looks;

  for (looks = 0; looks < LOOKS; ++looks) {
    if (get(card, offset) == value) return 0;
    if (is_gone(card)) return -EIO;
    usleep_range(20, 100);
  }
  return -EBUSY;
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

static int close_queue(struct heddle_slot* slot) {
  struct heddle_card* card = slot->card;
  u32 queue = slot->number - 1;
  u32 state = get(card, HEDDLE_REG_QUEUE_STATE(queue));
  int error = 0;

  if (is_gone(card)) return -EIO;
  if (state == HEDDLE_QUEUE_STATE_CLOSED) return 0;
  if (state == HEDDLE_QUEUE_STATE_ACTIVE) {
    put(card, HEDDLE_REG_QUEUE_COMMAND(queue), HEDDLE_QUEUE_COMMAND_INACTIVATE);
    error = wait_until(card, HEDDLE_REG_QUEUE_STATE(queue), HEDDLE_QUEUE_STATE_INACTIVE);
  }
  if (error == 0) {
    put(card, HEDDLE_REG_QUEUE_COMMAND(queue), HEDDLE_QUEUE_COMMAND_CLOSE);
    error = wait_until(card, HEDDLE_REG_QUEUE_STATE(queue), HEDDLE_QUEUE_STATE_CLOSED);
  }
  return error;
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
  put_wide(card, HEDDLE_REG_COPY_TO(0), address);
  put_wide(card, HEDDLE_REG_COPY_BYTES(0), bytes);
  put(card, HEDDLE_REG_COPY_VALUE(0), 0);
  put(card, HEDDLE_REG_COPY_KIND(0), HEDDLE_COPY_KIND_FILL);
  put(card, HEDDLE_REG_COPY_SUBCONTEXT(0), 0);
  put(card, HEDDLE_REG_COPY_COMMAND(0), HEDDLE_COPY_COMMAND_START);
  return wait_until(card, HEDDLE_REG_COPY_STATE(0), HEDDLE_COPY_STATE_DONE);
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

static void open_window(struct heddle_slot* slot) {
  struct heddle_card* card = slot->card;

  put(card, HEDDLE_REG_WINDOW_SUBCONTEXT, slot->number);
  put_wide(card, HEDDLE_REG_WINDOW_ADDRESS, HOST_WINDOW + slot->host_address);
  put_wide(card, HEDDLE_REG_WINDOW_BYTES, HOST_BYTES);
  put(card, HEDDLE_REG_WINDOW_RIGHTS, HEDDLE_WINDOW_RIGHTS_READ_MASK | HEDDLE_WINDOW_RIGHTS_WRITE_MASK);
  put(card, HEDDLE_REG_WINDOW_COMMAND, HEDDLE_WINDOW_COMMAND_OPEN);
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
  for (i = 0; i < card->slots && slot == NULL; ++i) {
    if (card->slot[i].left && close_queue(&card->slot[i]) == 0) {
      close_windows(&card->slot[i]);
      give_back(&card->slot[i]);
    }
    if (!card->slot[i].taken) slot = &card->slot[i];
  }
  if (slot == NULL) error = -EBUSY;
  if (error == 0 && is_gone(card)) error = -EIO;
  if (error == 0) {
    slot->host = dma_alloc_coherent(&card->pci->dev, HOST_BYTES, &slot->host_address, GFP_KERNEL);
    if (slot->host == NULL) error = -ENOMEM;
  }
  if (error == 0) {
    error = clear(card, (u64)slot->number * PART_BYTES, PART_BYTES); /* what another process has left there */
    if (error != 0) dma_free_coherent(&card->pci->dev, HOST_BYTES, slot->host, slot->host_address);
  }
  if (error == 0) {
    slot->taken = true;
    slot->interrupts = 0;
    open_window(slot);
    map_part(slot);
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
  error = close_queue(slot);
  if (error == 0) close_windows(slot);
  /* While the device may still write there, the memory is nobody else's, and neither is the slot. */
  if (error == 0 || card->gone) {
    give_back(slot);
  } else {
    slot->left = true;
  }
  mutex_unlock(&card->lock);
  return 0;
}

static int heddle_mmap(struct file* file, struct vm_area_struct* area) {
  struct heddle_slot* slot = file->private_data;
  struct heddle_card* card = slot->card;
  u64 offset = (u64)area->vm_pgoff << PAGE_SHIFT;
  unsigned long bytes = area->vm_end - area->vm_start;
  phys_addr_t from;

  if (offset == HEDDLE_MAP_HOST) {
    area->vm_pgoff = 0;
    return dma_mmap_coherent(&card->pci->dev, area, slot->host, slot->host_address, HOST_BYTES);
  }
  if (offset == HEDDLE_MAP_DOORBELLS && bytes == card->page) {
    from = pci_resource_start(card->pci, BAR_REGISTERS) + HEDDLE_REG_DOORBELL(0) + slot->number * card->page;
  } else if (offset == HEDDLE_MAP_DEVICE && bytes <= PART_BYTES) {
    from = pci_resource_start(card->pci, BAR_MEMORY) + slot->number * PART_BYTES;
  } else {
    return -EINVAL;
  }
  area->vm_page_prot = pgprot_noncached(area->vm_page_prot);
  return io_remap_pfn_range(area, area->vm_start, from >> PAGE_SHIFT, bytes, area->vm_page_prot);
}

static long report(struct heddle_slot* slot, void __user* argument) {
  struct heddle_card* card = slot->card;
  u32 queue = slot->number - 1;
  struct heddle_queue_report report = {0};

  report.state = get(card, HEDDLE_REG_QUEUE_STATE(queue));
  report.status = get(card, HEDDLE_REG_QUEUE_ERROR_STATUS(queue));
  report.reason = get(card, HEDDLE_REG_QUEUE_ERROR_REASON(queue));
  report.index = readq(card->registers + HEDDLE_REG_QUEUE_ERROR_INDEX(queue));
  if (report.state == ALL_ONES && is_gone(card)) return -EIO;
  return copy_to_user(argument, &report, sizeof(report)) ? -EFAULT : 0;
}

static long wait_for_interrupt(struct heddle_slot* slot, void __user* argument) {
  struct heddle_wait wait;
  long left;

  if (copy_from_user(&wait, argument, sizeof(wait))) return -EFAULT;
  left = wait_event_interruptible_timeout(slot->wait, READ_ONCE(slot->interrupts) != wait.seen || slot->card->gone,
                                          msecs_to_jiffies(wait.milliseconds));
  if (left < 0) return -EINTR;
  if (left == 0) return is_gone(slot->card) ? -EIO : -ETIME;
  if (slot->card->gone) return -EIO;
  wait.seen = READ_ONCE(slot->interrupts);
  return copy_to_user(argument, &wait, sizeof(wait)) ? -EFAULT : 0;
}

static long read_register(struct heddle_slot* slot, void __user* argument) {
  struct heddle_card* card = slot->card;
  struct heddle_register request;

  if (copy_from_user(&request, argument, sizeof(request))) return -EFAULT;
  /* EVENT, below, would lose its event. */
  if ((request.bytes != 4 && request.bytes != 8) || request.offset % request.bytes != 0 || request.offset >= 0x100 ||
      (request.offset & ~7u) == HEDDLE_REG_EVENT) {
    return -EINVAL;
  }
  if (request.bytes == 4) {
    request.value = get(card, request.offset);
    if (request.value == ALL_ONES && is_gone(card)) return -EIO;
  } else {
    request.value = readq(card->registers + request.offset);
    if (request.value == ~0ull && is_gone(card)) return -EIO;
  }
  return copy_to_user(argument, &request, sizeof(request)) ? -EFAULT : 0;
}

static long heddle_ioctl(struct file* file, unsigned int command, unsigned long raw) {
  struct heddle_slot* slot = file->private_data;
  struct heddle_card* card = slot->card;
  void __user* argument = (void __user*)raw;
  struct heddle_open open;
  long result;

  if (command == HEDDLE_IOC_WAIT) return wait_for_interrupt(slot, argument);
  if (command == HEDDLE_IOC_READ) return read_register(slot, argument);
  if (command == HEDDLE_IOC_INFO) {
    struct heddle_info info = {
        slot->number, slot->number - 1, slot->host_address, HOST_BYTES, (u64)slot->number * PART_BYTES, PART_BYTES};
    return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
  }
  mutex_lock(&card->lock);
  if (command == HEDDLE_IOC_OPEN) {
    result = copy_from_user(&open, argument, sizeof(open)) ? -EFAULT : open_queue(slot, &open);
  } else if (command == HEDDLE_IOC_REPORT) {
    result = report(slot, argument);
  } else {
    result = -ENOTTY;
  }
  mutex_unlock(&card->lock);
  return result;
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

static int heddle_probe(struct pci_dev* pci, const struct pci_device_id* id) {
  struct heddle_card* card = devm_kzalloc(&pci->dev, sizeof(*card), GFP_KERNEL);
  unsigned int i;
  int error;

  if (card == NULL) return -ENOMEM;
  card->pci = pci;
  mutex_init(&card->lock);
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

static void heddle_remove(struct pci_dev* pci) {
  struct heddle_card* card = pci_get_drvdata(pci);

  misc_deregister(&card->misc);
  put(card, HEDDLE_REG_INT_MASK, 0);
  put(card, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK);
  free_irq(pci_irq_vector(pci, 0), card);
  pci_free_irq_vectors(pci);
  pci_clear_master(pci);
}

static const struct pci_device_id heddle_ids[] = {{PCI_DEVICE(VENDOR, DEVICE)}, {0}};
MODULE_DEVICE_TABLE(pci, heddle_ids);

static struct pci_driver heddle_driver = {
    .name = "heddle",
    .id_table = heddle_ids,
    .probe = heddle_probe,
    .remove = heddle_remove,
    /* A file that is open keeps the module; unbinding by hand would pull the card from under it. */
    .driver.suppress_bind_attrs = true,
};
module_pci_driver(heddle_driver);

MODULE_DESCRIPTION("Heddle, a model of a GPU");
MODULE_LICENSE("GPL");
