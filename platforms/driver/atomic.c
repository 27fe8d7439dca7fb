#include <stdatomic.h>

#include "heddle_device.h"

uint64_t heddle_word_fetch_add(void* word, uint64_t value) {
  return atomic_fetch_add_explicit((_Atomic uint64_t*)word, value, memory_order_acq_rel);
}

uint64_t heddle_word_compare_exchange(void* word, uint64_t expected, uint64_t value) {
  (void)atomic_compare_exchange_strong_explicit((_Atomic uint64_t*)word, &expected, value, memory_order_acq_rel,
                                                memory_order_acquire);
  return expected;
}
