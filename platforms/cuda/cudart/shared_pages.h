// Memory that host and device both have a copy of, page by page: what one of them has changed moves to the other, at
// launches and when the host waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cuda/cudart/device_heap.h"
#include "cuda/cudart/host_streams.h"

namespace heddle::cuda {

class SharedPages {
 public:
  static constexpr std::uint64_t kPage = 4096;

  // Pages that follow each other, and their bytes.
  struct Run {
    std::uint64_t host = 0;    // address in the process
    std::uint64_t device = 0;  // and in device memory
    std::vector<std::uint8_t> bytes;
  };
  using Read = std::function<void(std::uint64_t address, std::uint8_t* to, std::uint64_t bytes)>;

  // `read`: device memory as it is now.
  explicit SharedPages(Read read) : read_(std::move(read)) {}

  // From now on a part of the process's memory and a part of device memory, which may be different.
  void add(std::uint64_t host, std::uint64_t device, std::uint64_t bytes);
  void remove(std::uint64_t host) { regions_.erase(host); }
  bool has(std::uint64_t host) const { return regions_.count(host) > 0; }
  bool empty() const { return regions_.empty(); }

  // Pages that the host has changed since both agreed, with what the device is to have there. They agree from now on.
  std::vector<Run> changed_by_host();
  // The same for the device; the process has what the device has changed, byte by byte.
  std::vector<Run> changed_by_device();

 private:
  struct Region {
    std::uint64_t host = 0;
    std::uint64_t device = 0;
    std::vector<std::uint8_t> agreed;
  };
  static void append(std::vector<Run>& runs, const Region& region, std::uint64_t offset, const std::uint8_t* bytes,
                     std::uint64_t count);

  Read read_;
  std::map<std::uint64_t, Region> regions_;  // by address in the process
};

// Moves them over the link, by copies in a stream of their own.
class PageMover {
 public:
  // All must outlive it.
  PageMover(SimulatedDevice& device, DeviceHeap& heap, HostStreams& streams);

  SharedPages& pages() { return pages_; }
  // Pinned memory that the device may know of is memory of both from then on. Others: nothing.
  void share_pinned(std::uint64_t address);
  // What the host has changed goes ahead of what follows in the stream. False: the device does not go on.
  bool push(HostStream& stream);
  // The host has what the device has changed, when the call returns. False: the device does not go on.
  bool pull();

 private:
  SimulatedDevice& device_;
  DeviceHeap& heap_;
  HostStreams& streams_;
  SharedPages pages_;
  HostStream& movers_;
};

}  // namespace heddle::cuda
