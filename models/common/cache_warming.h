// Warming the caches of the computer that simulates. It has no part in the model: it changes nothing but speed.
//
// A simulated machine is far larger than those caches, and the events of a cycle are scattered over it. So the event
// queue looks ahead: it tells the handlers of the next events that these come, and they fetch what they will touch.
// Handlers of few and small events leave it alone: asking them costs more than it brings. Measured in CPU time: 10 % of
// heddle_memory_bench come from the memory path's warmers (memory/memory_warming.h).
#pragma once

#include <cstdint>

namespace heddle {

class CacheWarmer {
 public:
  // An event is asked about three times, ever closer to it, so that each time can follow what the one before has
  // fetched.
  enum class Ahead : std::uint8_t { far, near, next };
  virtual void warm(std::uint32_t kind, std::uint64_t argument, Ahead ahead) const = 0;

  CacheWarmer() = default;
  CacheWarmer(const CacheWarmer&) = delete;
  CacheWarmer& operator=(const CacheWarmer&) = delete;

 protected:
  ~CacheWarmer() = default;
};

// The line of the caches that holds this. Nothing is read: the pointer may be stale.
inline void warm_line(const void* place) { __builtin_prefetch(place); }

}  // namespace heddle
