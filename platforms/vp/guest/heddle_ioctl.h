/* What a process asks of the driver of a Heddle device, /dev/heddle, in the guest of scripts/vp. For the driver and for
 * programs. Whoever opens the device gets a subcontext with a queue, a part of device memory, and memory of the host
 * that the device reaches; all of it ends when it is closed. */
#ifndef HEDDLE_IOCTL_H
#define HEDDLE_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Offsets of mmap(): one page of doorbells, memory of the host, device memory. The first and the last can only be
 * shared, and raise SIGBUS once the device is gone. */
#define HEDDLE_MAP_DOORBELLS 0x00000000
#define HEDDLE_MAP_HOST 0x01000000
#define HEDDLE_MAP_DEVICE 0x10000000

struct heddle_info {
  __u32 subcontext;
  __u32 queue;
  __u64 host_address; /* of the host's memory on the bus */
  __u64 host_bytes;
  __u64 device_address; /* of the part of device memory: the same for the host and for kernels */
  __u64 device_bytes;
};

/* Offsets in the host's memory. Whatever was open of the queue before is killed and closed. */
struct heddle_open {
  __u32 ring;       /* a multiple of 64 */
  __u32 packets;    /* a power of two */
  __u32 read_index; /* a multiple of 8 */
  __u32 reserved;   /* 0 */
};

struct heddle_queue_report {
  __u32 state;  /* enum heddle_queue_state */
  __u32 status; /* enum heddle_hsa */
  __u32 reason; /* enum heddle_reason */
  __u32 reserved;
  __u64 index; /* of the packet that stopped it */
};

struct heddle_wait {
  __u32 seen;         /* in: interrupts of this process that it knows of; out: that there were */
  __u32 milliseconds; /* at most */
};

/* A register of what the device is, or TIMESTAMP, as a whole; of all others EINVAL. */
struct heddle_register {
  __u32 offset;
  __u32 bytes; /* 4 or 8 */
  __u64 value; /* out */
};

/* Errors of all: EIO, the device is gone; EINVAL, what is asked for does not exist. Of a wait also ETIME and EINTR; of
 * an open EBUSY, the queue does not end, and EPROTO, the device refuses it. */
#define HEDDLE_IOC_INFO _IOR('H', 0, struct heddle_info)
#define HEDDLE_IOC_OPEN _IOW('H', 1, struct heddle_open)
#define HEDDLE_IOC_REPORT _IOR('H', 2, struct heddle_queue_report)
#define HEDDLE_IOC_WAIT _IOWR('H', 3, struct heddle_wait)
#define HEDDLE_IOC_READ _IOWR('H', 4, struct heddle_register)

#endif
