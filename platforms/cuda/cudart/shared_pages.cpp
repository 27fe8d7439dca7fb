#include "cuda/cudart/shared_pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arch/address_map.h"

namespace heddle::cuda {
namespace {

std::uint8_t* host_bytes(std::uint64_t address) { return static_cast<std::uint8_t*>(pointer_to(address)); }

}  // namespace

void SharedPages::add(std::uint64_t host, std::uint64_t device, std::uint64_t bytes) {
  Region region;
  region.host = host;
  region.device = device;
  region.agreed.resize(bytes);
  read_(device, region.agreed.data(), bytes);
  regions_[host] = std::move(region);
}

void SharedPages::append(std::vector<Run>& runs, const Region& region, std::uint64_t offset, const std::uint8_t* bytes,
                         std::uint64_t count) {
  const bool follows = !runs.empty() && runs.back().host + runs.back().bytes.size() == region.host + offset &&
                       runs.back().device + runs.back().bytes.size() == region.device + offset;
  if (!follows) runs.push_back({region.host + offset, region.device + offset, {}});
  runs.back().bytes.insert(runs.back().bytes.end(), bytes, bytes + count);
}

std::vector<SharedPages::Run> SharedPages::changed_by_host() {
  std::vector<Run> runs;
  std::vector<std::uint8_t> page(kPage);
  for (auto& [address, region] : regions_) {
    for (std::uint64_t at = 0; at < region.agreed.size(); at += kPage) {
      const std::uint64_t count = std::min(kPage, region.agreed.size() - at);
      const std::uint8_t* mine = host_bytes(region.host + at);
      std::uint8_t* agreed = region.agreed.data() + at;
      if (std::memcmp(mine, agreed, count) == 0) continue;
      read_(region.device + at, page.data(), count);
      for (std::uint64_t i = 0; i < count; ++i) {
        if (mine[i] == agreed[i]) continue;
        page[i] = agreed[i] = mine[i];
      }
      append(runs, region, at, page.data(), count);
    }
  }
  return runs;
}

std::vector<SharedPages::Run> SharedPages::changed_by_device() {
  std::vector<Run> runs;
  std::vector<std::uint8_t> page(kPage);
  for (auto& [address, region] : regions_) {
    for (std::uint64_t at = 0; at < region.agreed.size(); at += kPage) {
      const std::uint64_t count = std::min(kPage, region.agreed.size() - at);
      std::uint8_t* agreed = region.agreed.data() + at;
      read_(region.device + at, page.data(), count);
      if (std::memcmp(page.data(), agreed, count) == 0) continue;
      std::uint8_t* mine = host_bytes(region.host + at);
      for (std::uint64_t i = 0; i < count; ++i) {
        if (page[i] == agreed[i]) continue;
        mine[i] = agreed[i] = page[i];
      }
      append(runs, region, at, page.data(), count);
    }
  }
  return runs;
}

PageMover::PageMover(SimulatedDevice& device, DeviceHeap& heap, HostStreams& streams)
    : device_(device),
      heap_(heap),
      streams_(streams),
      pages_([&device](std::uint64_t address, std::uint8_t* to, std::uint64_t bytes) {
        HEDDLE_CHECK(device.gpu().memory().read(address, to, bytes), "a shared page is not in device memory");
      }),
      movers_(streams.add(0, false)) {}

void PageMover::share_pinned(std::uint64_t address) {
  const DeviceHeap::Block* block = heap_.find(address);
  if (block == nullptr || block->kind != MemoryKind::pinned || pages_.has(block->address)) return;
  pages_.add(block->address, block->address, block->bytes);
}

bool PageMover::push(HostStream& stream) {
  if (pages_.empty()) return true;
  std::vector<SharedPages::Run> runs = pages_.changed_by_host();
  if (runs.empty()) return true;
  if (device_.open() > 0 && !device_.run_all()) return false;
  for (SharedPages::Run& run : runs) {
    Operation record;
    record.kind = "copy";
    record.name = "pages HtoD";
    record.bytes = run.bytes.size();
    record.staged = std::move(run.bytes);
    protocol::SubmitPacket packet;
    packet.kind = protocol::SubmitKind::copy;
    packet.copy_from = arch::kHostWindow + number_of(record.staged.data());
    packet.copy_to = run.device;
    packet.copy_bytes = record.bytes;
    streams_.wait(stream, {streams_.submit(movers_, packet, std::move(record))});
  }
  return true;
}

// The bytes are there already; their way takes its time.
bool PageMover::pull() {
  if (pages_.empty()) return true;
  std::vector<std::uint32_t> operations;
  for (SharedPages::Run& run : pages_.changed_by_device()) {
    Operation record;
    record.kind = "copy";
    record.name = "pages DtoH";
    record.bytes = run.bytes.size();
    record.staged = std::move(run.bytes);
    protocol::SubmitPacket packet;
    packet.kind = protocol::SubmitKind::copy;
    packet.copy_from = run.device;
    packet.copy_to = arch::kHostWindow + number_of(record.staged.data());
    packet.copy_bytes = record.bytes;
    operations.push_back(streams_.submit(movers_, packet, std::move(record)));
  }
  return device_.run_until([&] {
    return std::all_of(operations.begin(), operations.end(), [&](std::uint32_t one) { return device_.done(one); });
  });
}

}  // namespace heddle::cuda
