#include "replay/packet_memory.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "arch/aql_packet.h"
#include "arch/unified_address.h"
#include "common/error.h"

namespace heddle::replay {
namespace {

using workload::CopyBy;
using workload::CopyDirection;
using workload::Op;
using workload::OpKind;
using workload::QueuePlace;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSignalBytes = 32;

std::vector<std::uint8_t> words(const std::vector<std::uint64_t>& values) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint64_t value : values) {
    for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
  return bytes;
}

// What a record has no room for.
void check_kernel(const arch::KernelRecord& kernel) {
  const auto refuse = [&kernel](const std::string& why, const char* remedy) {
    throw InputError(fmt::format("kernel '{}' does not fit a packet: {}", kernel.name, why), remedy);
  };
  const auto too_many = [](std::uint64_t grid, std::uint64_t block) { return grid * block > 0xFFFF'FFFFU; };
  if (too_many(kernel.grid.x, kernel.block.x) || too_many(kernel.grid.y, kernel.block.y) ||
      too_many(kernel.grid.z, kernel.block.z)) {
    refuse("a dimension of its grid has more than 4,294,967,295 work-items", "launch it in parts");
  }
  for (const arch::Dim3& extents : kernel.cluster.extents) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFFFF) {
      refuse("a cluster extent is above 65,535", "use smaller clusters");
    }
  }
  for (const arch::Dim3& extents : kernel.cluster.fallback) {
    if (std::max({extents.x, extents.y, extents.z}) > 0xFF) {
      refuse("an extent of a smaller cluster size is above 255", "use smaller sizes in `fallback`");
    }
  }
}

class Layout {
 public:
  Layout(const workload::Workload& workload, const PacketPlan& plan, Area& host, Area& device)
      : workload_(workload), plan_(plan), host_(host), device_(device) {}

  void rings(QueuePlace place, std::uint32_t packets) {
    Area& area = place == QueuePlace::host ? host_ : device_;
    std::vector<std::uint8_t> empty(std::size_t{packets} * arch::kPacketBytes, 0);
    for (std::size_t i = 0; i < empty.size(); i += arch::kPacketBytes) {
      empty[i] = static_cast<std::uint8_t>(arch::PacketType::invalid);
    }
    for (std::size_t q = 0; q < plan_.queues.size(); ++q) {
      const std::uint64_t base = area.take(empty.size(), kPage);
      const std::uint64_t read_index = area.take(arch::kPacketBytes, arch::kPacketBytes);
      memory_.rings.push_back({base, read_index});
      memory_.contents.push_back({base, empty});
      memory_.contents.push_back({read_index, words({0})});
    }
    for (std::uint32_t s = 0; s < plan_.signals; ++s) {
      const std::uint64_t at = area.take(kSignalBytes, arch::kSignalAlignment);
      memory_.signals.push_back(at);
      memory_.contents.push_back({at, words({1})});
    }
    for (std::size_t q = 0; q < plan_.queues.size(); ++q) {
      const std::uint64_t at = area.take(kSignalBytes, arch::kSignalAlignment);
      memory_.queue_signals.push_back(at);
      memory_.contents.push_back({at, words({kManySignals})});
    }
  }

  void kernels(const std::vector<std::uint32_t>& codes) {
    std::map<arch::KernelObjectBytes, std::uint64_t> known;
    memory_.kernel_objects.resize(workload_.ops.size(), 0);
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      if (op.kind != OpKind::kernel) continue;
      check_kernel(op.kernel);
      arch::KernelObject object;
      object.program = codes.empty() ? 0 : codes[i];
      object.registers_per_thread = op.kernel.registers_per_thread;
      object.duration = op.kernel.duration;
      object.cluster = op.kernel.cluster;
      object.name = op.kernel.name.substr(0, arch::kKernelNameBytes - 1);
      const arch::KernelObjectBytes bytes = arch::encode(object);
      const auto [found, fresh] = known.emplace(bytes, 0);
      if (fresh) {
        found->second = device_.take(bytes.size(), arch::kKernelObjectBytes);
        memory_.contents.push_back({found->second, {bytes.begin(), bytes.end()}});
      }
      memory_.kernel_objects[i] = found->second;
    }
  }

  void arguments() {
    memory_.kernargs.resize(workload_.ops.size(), 0);
    std::map<std::vector<std::uint64_t>, std::uint64_t> known;
    std::uint64_t ring = 0;
    std::uint64_t launches = 0;
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      if (op.kind != OpKind::kernel) continue;
      if (workload_.format != "scenario") {
        if (ring == 0) ring = device_.take(kArgumentBlocks * kArgumentBytes, kPage);
        memory_.kernargs[i] = ring + launches++ % kArgumentBlocks * kArgumentBytes;
      } else if (!op.args.empty()) {
        const auto [found, fresh] = known.emplace(op.args, 0);
        if (fresh) {
          found->second = device_.take(8 * op.args.size(), arch::kKernargAlignment);
          memory_.contents.push_back({found->second, words(op.args)});
        }
        memory_.kernargs[i] = found->second;
      }
    }
  }

  // As large as the largest copy, or as there is room: larger ones are moved in parts.
  void scratch() {
    std::uint64_t most = 0;
    bool uses_host = false;
    for (const Op& op : workload_.ops) {
      if (op.kind == OpKind::kernel) continue;
      most = std::max(most, op.bytes);
      uses_host = uses_host || (op.kind == OpKind::copy && op.direction != CopyDirection::device_to_device);
    }
    if (most == 0) return;
    std::uint64_t bytes = std::min({most + 3, kMostScratch, device_.left() / 4});
    if (uses_host) bytes = std::min(bytes, host_.left() / 4);
    bytes = bytes / kPage * kPage;
    bytes = std::max(bytes, kPage);
    memory_.scratch.bytes = bytes;
    for (std::uint64_t& at : memory_.scratch.device) at = device_.take(bytes, kPage);
    if (uses_host) memory_.scratch.host = host_.take(bytes, kPage);
  }

  PacketMemory take() { return std::move(memory_); }

 private:
  const workload::Workload& workload_;
  const PacketPlan& plan_;
  Area& host_;
  Area& device_;
  PacketMemory memory_;
};

}  // namespace

std::uint64_t Area::take(std::uint64_t bytes, std::uint64_t align) {
  const auto full = [&] {
    return InputError(
        fmt::format("{}: there is no room for another {} bytes of queues, kernel objects and copies", name_, bytes),
        downwards_ ? "use less memory in the scenario, or raise gpu.memory" : "raise host.memory, or lower host.ring");
  };
  if (bytes > end_ - begin_) throw full();
  if (downwards_) {
    const std::uint64_t at = (end_ - bytes) & ~(align - 1);
    if (at < begin_) throw full();
    end_ = at;
    return at;
  }
  const std::uint64_t at = (begin_ + align - 1) & ~(align - 1);
  if (at < begin_ || at > end_ || bytes > end_ - at) throw full();
  begin_ = at + bytes;
  return at;
}

PacketMemory lay_out(const workload::Workload& workload, const std::vector<std::uint32_t>& codes,
                     const PacketPlan& plan, const workload::PacketOptions& options, const SubmissionParams& params,
                     Area& host, Area& device) {
  Layout layout(workload, plan, host, device);
  layout.kernels(codes);
  layout.arguments();
  layout.rings(options.queues, params.ring);
  if (options.copies == CopyBy::engines) layout.scratch();
  return layout.take();
}

}  // namespace heddle::replay
