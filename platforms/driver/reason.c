#include "access.h"

const char* heddle_reason_text(uint32_t reason) {
  switch (reason) {
#define HEDDLE_REASON_CASE(number, text) \
  case number:                           \
    return text;
    HEDDLE_REASON_TEXTS(HEDDLE_REASON_CASE)
#undef HEDDLE_REASON_CASE
    default:
      return "unknown reason";
  }
}
