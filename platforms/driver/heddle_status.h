/* What functions of the host library return. */
#ifndef HEDDLE_STATUS_H
#define HEDDLE_STATUS_H

enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_INVALID,     /* an argument is out of range; nothing has been done */
  HEDDLE_FULL,        /* no room: in the ring, in a packet, in memory that the caller gave */
  HEDDLE_TIMEOUT,     /* a limit of looks was reached */
  HEDDLE_BUS,         /* a callback failed */
  HEDDLE_NO_DEVICE,   /* the magic number is not there */
  HEDDLE_VERSION,     /* another version of the registers */
  HEDDLE_BUSY,        /* the queue is open, or still draining */
  HEDDLE_QUEUE_ERROR, /* the queue has stopped: heddle_queue_error() says why */
  HEDDLE_EMPTY        /* there is nothing to take */
};

#endif
