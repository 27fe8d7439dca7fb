#include "cuda/cudart/process_context.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/error.h"

namespace heddle::cuda {
namespace {

using protocol::SubmitKind;
using protocol::SubmitPacket;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// One a line.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// HEDDLE_GPU, HEDDLE_TIMING and HEDDLE_SET, which `heddle cuda` sets.
gpu::ResolvedMachine chosen_machine() {
  gpu::MachineChoice choice;
  choice.fallback = "h100-sxm";
  const std::string machine = variable("HEDDLE_GPU");
  const std::vector<std::string> presets = gpu::preset_names();
  if (std::find(presets.begin(), presets.end(), machine) != presets.end()) {
    choice.preset = machine;
  } else if (!machine.empty()) {
    choice.files.push_back(machine);
  }
  choice.settings = lines_of(variable("HEDDLE_SET"));
  const std::string timing = variable("HEDDLE_TIMING");
  choice.settings.push_back("gpu.timing=" + (timing.empty() ? "fast" : timing));
  return gpu::resolve(choice);
}

std::string extents(const DeviceHeap::Block* to, const DeviceHeap::Block* from) {
  const auto side = [](const DeviceHeap::Block* block) {
    return block != nullptr && block->kind != MemoryKind::pinned ? "D" : "H";
  };
  return fmt::format("{}to{}", side(from), side(to));
}

cudaError_t error_of(arch::FaultKind kind) {
  switch (kind) {
    case arch::FaultKind::misaligned:
      return cudaErrorMisalignedAddress;
    case arch::FaultKind::unsupported:
      return cudaErrorIllegalInstruction;
    case arch::FaultKind::address:
    case arch::FaultKind::unmapped:
    case arch::FaultKind::read_only:
    case arch::FaultKind::shared_bounds:
    case arch::FaultKind::local_bounds:
    case arch::FaultKind::out_of_range:
    case arch::FaultKind::cluster_offset:
      return cudaErrorIllegalAddress;
    default:
      return cudaErrorLaunchFailure;
  }
}

}  // namespace

ProcessContext::Parts::Parts(const gpu::ResolvedMachine& machine)
    : device(machine),
      heap(device.params().front_end_memory()),
      code(device, heap),
      streams(device),
      mover(device, heap, streams) {}

ProcessContext& ProcessContext::get() {
  static auto* context = new ProcessContext;  // programs call while they are torn down
  return *context;
}

void ProcessContext::say(const std::string& text) const { std::cerr << "heddle: " << text << std::endl; }

cudaError_t ProcessContext::missing(const std::string& what) {
  if (std::find(said_.begin(), said_.end(), what) == said_.end()) {
    said_.push_back(what);
    say(what + " is not there (docs/cuda.md lists what is)");
  }
  return cudaErrorNotSupported;
}

bool ProcessContext::start() {
  if (parts_ != nullptr) return true;
  if (unusable_) return false;
  try {
    machine_ = std::make_unique<gpu::ResolvedMachine>(chosen_machine());
    parts_ = std::make_unique<Parts>(*machine_);
    std::atexit([] { get().write_results(); });
    return true;
  } catch (const std::exception& error) {
    say(error.what());
    unusable_ = true;
    return false;
  }
}

void ProcessContext::write_results() {
  const std::string folder = variable("HEDDLE_OUT");
  if (folder.empty() || parts_ == nullptr) return;
  try {
    (void)parts_->device.run_all();  // what the program has not waited for
    write_run(parts_->device, *machine_, folder);
  } catch (const std::exception& error) {
    say(error.what());
  }
}

cudaError_t ProcessContext::failed() {
  SimulatedDevice& device = parts_->device;
  if (lasting_ == cudaSuccess) {
    say("the device does not go on: " + device.why());
    lasting_ = cudaErrorLaunchFailure;
  }
  return lasting_;
}

cudaError_t ProcessContext::wait_for(const std::vector<std::uint32_t>& operations) {
  SimulatedDevice& device = parts_->device;
  const auto over = [&] {
    return std::all_of(operations.begin(), operations.end(), [&](std::uint32_t one) { return device.done(one); });
  };
  if (!device.run_until(over)) return failed();
  const std::vector<arch::FaultRecord>& faults = device.gpu().log().faults();
  for (; seen_faults_ < faults.size(); ++seen_faults_) {
    const arch::FaultRecord& fault = faults[seen_faults_];
    say(fmt::format("kernel {}: {}", device.observation().labels.of(fault.task), arch::text_of(fault)));
    if (lasting_ == cudaSuccess && fault.fatal) lasting_ = error_of(fault.kind);
  }
  for (const std::uint32_t one : operations) {
    const Operation& operation = device.operations()[one];
    if (operation.status == protocol::DoneStatus::ok || lasting_ != cudaSuccess) continue;
    lasting_ = operation.kind == "kernel" ? cudaErrorLaunchFailure : cudaErrorIllegalAddress;
  }
  return lasting_ != cudaSuccess ? lasting_ : parts_->mover.pull() ? cudaSuccess : failed();
}

cudaError_t ProcessContext::wait_for_all() {
  std::vector<std::uint32_t> operations;
  for (std::uint32_t i = 0; i < parts_->device.next_id(); ++i) {
    if (!parts_->device.done(i)) operations.push_back(i);
  }
  return wait_for(operations);
}

cudaError_t ProcessContext::issue(HostStream& stream, HostWork work) {
  if (lasting_ != cudaSuccess) return lasting_;
  if (stream.capture == 0) return execute(stream, work);
  const auto capture = captures_.find(stream.capture);
  if (capture == captures_.end()) return cudaErrorStreamCaptureInvalidated;
  stream.nodes = {&capture->second.graph->add(std::move(work), stream.nodes)};
  return cudaSuccess;
}

cudaError_t ProcessContext::execute(HostStream& stream, const HostWork& work) {
  switch (work.kind) {
    case HostWork::Kind::kernel:
      return launch_kernel(stream, work, {});
    case HostWork::Kind::copy:
      return copy(stream, work);
    case HostWork::Kind::fill:
      return fill(stream, work);
    case HostWork::Kind::call:
      if (const cudaError_t error = wait_for(parts_->streams.open(stream)); error != cudaSuccess) return error;
      work.call();
      return cudaSuccess;
    case HostWork::Kind::empty:
      return cudaSuccess;
  }
  return cudaSuccess;
}

cudaError_t ProcessContext::launch_kernel(HostStream& stream, const HostWork& work, SubmitPacket packet) {
  CodeFunction& function = *work.function;
  for (std::size_t at = 0; at + 8 <= work.arguments.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, work.arguments.data() + at, sizeof word);
    parts_->mover.share_pinned(word);
  }
  if (!parts_->code.give_local(work.shape.local_bytes)) return failed();
  if (!parts_->mover.push(stream)) return failed();
  CodeFunction::Slot& slot = parts_->code.slot(function, work.arguments, work.shape.cooperative);
  packet.kind = SubmitKind::kernel;
  packet.kernel = work.shape;
  packet.kernel.code = parts_->code.code(slot, work.shape);
  packet.programmatic = work.programmatic;
  Operation record;
  record.kind = "kernel";
  record.name = function.name;
  record.shape = work.shape;
  slot.operation = parts_->streams.submit(stream, packet, std::move(record));
  return cudaSuccess;
}

cudaError_t ProcessContext::copy(HostStream& stream, const HostWork& work) {
  const DeviceHeap::Block* to = parts_->heap.find(work.to);
  const DeviceHeap::Block* from = parts_->heap.find(work.from);
  const auto on_device = [](const DeviceHeap::Block* block) {
    return block != nullptr && block->kind != MemoryKind::pinned;
  };
  const std::uint64_t reach = work.rows == 0 ? 0 : (work.rows - 1);
  if (on_device(to) && work.to + reach * work.to_pitch + work.row_bytes > to->address + to->bytes) {
    return cudaErrorInvalidValue;
  }
  if (on_device(from) && work.from + reach * work.from_pitch + work.row_bytes > from->address + from->bytes) {
    return cudaErrorInvalidValue;
  }
  const bool shared =
      (to != nullptr && to->kind == MemoryKind::managed) || (from != nullptr && from->kind == MemoryKind::managed);
  if (shared && !parts_->mover.push(stream)) return failed();
  if (!on_device(to) && !on_device(from)) {
    if (const cudaError_t error = wait_for(parts_->streams.open(stream)); error != cudaSuccess) return error;
    for (std::uint64_t row = 0; row < work.rows; ++row) {
      std::memmove(pointer_to(work.to + row * work.to_pitch), pointer_to(work.from + row * work.from_pitch),
                   work.row_bytes);
    }
    return cudaSuccess;
  }
  const bool whole = work.rows == 1 || (work.to_pitch == work.row_bytes && work.from_pitch == work.row_bytes);
  const std::uint64_t bytes = whole ? work.rows * work.row_bytes : work.row_bytes;
  // The host may do what it likes with memory that is not pinned once the call has returned.
  const bool staged = !on_device(from) && from == nullptr;
  for (std::uint64_t row = 0; row < (whole ? 1 : work.rows) && bytes > 0; ++row) {
    Operation record;
    record.kind = "copy";
    record.name = extents(to, from);
    record.bytes = bytes;
    std::uint64_t source = work.from + row * work.from_pitch;
    if (staged) {
      const auto* begin = static_cast<const std::uint8_t*>(pointer_to(source));
      record.staged.assign(begin, begin + bytes);
      source = number_of(record.staged.data());
    }
    SubmitPacket packet;
    packet.kind = SubmitKind::copy;
    packet.copy_from = on_device(from) ? source : arch::kHostWindow + source;
    packet.copy_to = (on_device(to) ? 0 : arch::kHostWindow) + work.to + row * work.to_pitch;
    packet.copy_bytes = bytes;
    (void)parts_->streams.submit(stream, packet, std::move(record));
  }
  return cudaSuccess;
}

// Whole words by the copy engines' fills; what is beside them at the ends is copied.
cudaError_t ProcessContext::fill(HostStream& stream, const HostWork& work) {
  const DeviceHeap::Block* to = parts_->heap.find(work.to);
  if (to == nullptr) return cudaErrorInvalidValue;
  const std::uint64_t reach = work.rows == 0 ? 0 : (work.rows - 1);
  if (work.to + reach * work.to_pitch + work.row_bytes > to->address + to->bytes) return cudaErrorInvalidValue;
  if (to->kind != MemoryKind::device && !parts_->mover.push(stream)) return failed();
  std::uint32_t word = work.value;
  for (std::uint32_t width = work.value_bytes; width < 4; width *= 2) {
    word = (word & ((1U << (8 * width)) - 1)) | word << (8 * width);
  }
  const auto put = [&](std::uint64_t address, std::uint64_t bytes, bool words) {
    if (bytes == 0) return;
    Operation record;
    record.kind = "fill";
    record.bytes = bytes;
    SubmitPacket packet;
    packet.kind = words ? SubmitKind::fill : SubmitKind::copy;
    packet.copy_to = address;
    packet.copy_bytes = bytes;
    packet.fill_value = word;
    if (!words) {
      for (std::uint64_t i = 0; i < bytes; ++i) {
        record.staged.push_back(static_cast<std::uint8_t>(word >> (8 * ((address + i) % 4))));
      }
      packet.copy_from = arch::kHostWindow + number_of(record.staged.data());
    }
    (void)parts_->streams.submit(stream, packet, std::move(record));
  };
  const bool whole = work.rows == 1 || work.to_pitch == work.row_bytes;
  const std::uint64_t bytes = whole ? work.rows * work.row_bytes : work.row_bytes;
  for (std::uint64_t row = 0; row < (whole ? 1 : work.rows); ++row) {
    const std::uint64_t begin = work.to + row * work.to_pitch;
    const std::uint64_t head = std::min(bytes, (4 - begin % 4) % 4);
    const std::uint64_t middle = (bytes - head) / 4 * 4;
    put(begin, head, false);
    put(begin + head, middle, true);
    put(begin + head + middle, bytes - head - middle, false);
  }
  return cudaSuccess;
}

cudaError_t ProcessContext::launch(HostStream& stream, const WorkGraph& graph) {
  if (lasting_ != cudaSuccess) return lasting_;
  const std::vector<std::size_t> order = graph.order();
  if (order.size() != graph.size()) return cudaErrorInvalidValue;
  // Each node goes on in the stream of one that it waits for, if nobody else does, or else in one of its own.
  std::vector<HostStream*> stream_of(graph.size(), nullptr);
  std::vector<bool> goes_on(graph.size(), false);
  std::vector<HostStream*> made;
  const std::vector<std::uint32_t> before = parts_->streams.open(stream);
  for (const std::size_t index : order) {
    HostStream* lane = nullptr;
    const std::vector<std::size_t> needs = graph.before(index);
    for (const std::size_t one : needs) {
      if (lane != nullptr || goes_on[one]) continue;
      lane = stream_of[one];
      goes_on[one] = true;
    }
    if (lane == nullptr) {
      lane = &parts_->streams.add(stream.priority, false);
      made.push_back(lane);
      parts_->streams.wait(*lane, before);
    }
    for (const std::size_t one : needs) {
      if (stream_of[one] != lane) parts_->streams.wait(*lane, parts_->streams.open(*stream_of[one]));
    }
    stream_of[index] = lane;
    if (const cudaError_t error = execute(*lane, graph.node(index).work); error != cudaSuccess) return error;
  }
  for (HostStream* lane : made) {
    parts_->streams.wait(stream, parts_->streams.open(*lane));
    parts_->streams.remove(*lane);
  }
  return cudaSuccess;
}

}  // namespace heddle::cuda
