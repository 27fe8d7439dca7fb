#include "cuda/cudart/loaded_code.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "cuda/fat_binary.h"
#include "ptx/ptx_program.h"

namespace heddle::cuda {
namespace {

constexpr std::size_t kMostSlots = 64;  // of one entry: launches under way at once
constexpr const char* kProgram = "the program";

// Of one container, or of all parts that are linked for the device. A part of the toolkit's own has machine code alone.
std::vector<std::string> texts_of(const CodeModule& module, std::uint32_t architecture) {
  const auto read = [](const std::uint8_t* container) {
    return read_container(container, container_bytes(container), kProgram);
  };
  if (module.linked == nullptr) return choose_ptx(read(module.container), architecture, kProgram);
  std::vector<std::string> texts;
  for (const std::uint8_t* const* part = module.linked; *part != nullptr; ++part) {
    std::vector<FatEntry> entries = read(*part);
    const bool any = std::any_of(entries.begin(), entries.end(), [architecture](const FatEntry& entry) {
      return entry.kind == CodeKind::ptx && entry.architecture <= architecture;
    });
    if (!any) continue;
    for (std::string& text : choose_ptx(entries, architecture, kProgram)) texts.push_back(std::move(text));
  }
  return texts.empty() ? choose_ptx({}, architecture, kProgram) : texts;
}

bool has_managed(const ptx::Module& module) {
  return std::any_of(module.variables.begin(), module.variables.end(),
                     [](const ptx::Variable& variable) { return variable.managed; });
}

}  // namespace

std::uint32_t LoadedCode::architecture(const gpu::GpuParams&) { return 90; }

std::uint64_t LoadedCode::room(std::uint64_t bytes, MemoryKind kind) {
  const std::optional<std::uint64_t> address = heap_.allocate(bytes, kind);
  if (!address)
    throw InputError(fmt::format("device memory has no room for {} bytes of code", bytes), "raise gpu.memory");
  return *address;
}

void LoadedCode::load(CodeModule& module) {
  if (module.module != nullptr) return;
  const std::vector<std::string> texts = texts_of(module, architecture(device_.params()));
  std::vector<ptx::Module> parts;
  for (const std::string& text : texts) {
    parts.push_back(
        ptx::parse_module(text, parts.empty() ? "device code" : fmt::format("device code {}", parts.size())));
  }
  auto made =
      std::make_shared<const ptx::Module>(parts.size() == 1 ? std::move(parts.front()) : ptx::link(std::move(parts)));
  auto image = std::make_unique<ptx::ModuleImage>(*made);
  module.managed = has_managed(*made);
  if (image->bytes() > 0) {
    module.image_at = room(image->bytes(), module.managed ? MemoryKind::managed : MemoryKind::device);
    const std::vector<std::uint8_t> contents = image->contents(module.image_at);
    if (!device_.gpu().memory().write(module.image_at, contents.data(), contents.size())) {
      throw InputError("the variables of the device code do not lie in device memory", "raise gpu.memory");
    }
    if (module.managed) {
      std::copy(contents.begin(), contents.end(), static_cast<std::uint8_t*>(pointer_to(module.image_at)));
    }
  }
  module.image = std::move(image);
  module.module = std::move(made);
}

void LoadedCode::load(CodeFunction& function) {
  if (function.loaded) return;
  load(*function.module);
  const ptx::Module& module = *function.module->module;
  function.entry = module.find_function(function.name);
  if (function.entry == nullptr || !function.entry->entry || !function.entry->body) {
    throw InputError(fmt::format("the PTX of the program has no entry {}", function.name), "build it anew");
  }
  function.parameters = ptx::parameters_of(*function.entry);
  ptx::EntryPlace place;
  place.image = function.module->image_at;
  const ptx::ResolvedEntry made = ptx::resolve_entry(module, function.name, place);
  function.static_shared = made.shared_bytes;
  function.local_bytes = made.local_bytes;
  function.registers = ptx::registers_per_thread(*function.entry, made.code);
  function.multicasts = made.code.multicasts();
  function.loaded = true;
}

CodeFunction::Slot& LoadedCode::slot(CodeFunction& function, const std::vector<std::uint8_t>& arguments,
                                     bool cooperative) {
  const auto idle = [&](const CodeFunction::Slot& slot) {
    return (slot.workspace != 0) == cooperative && (!slot.operation || device_.done(*slot.operation));
  };
  auto found = std::find_if(function.slots.begin(), function.slots.end(), idle);
  if (found == function.slots.end() && function.slots.size() >= kMostSlots) {
    (void)device_.run_until([&] { return std::any_of(function.slots.begin(), function.slots.end(), idle); });
    found = std::find_if(function.slots.begin(), function.slots.end(), idle);
    if (found == function.slots.end()) {
      throw InputError(fmt::format("launches of {} do not end: {}", function.name, device_.why()), {});
    }
  }
  if (found == function.slots.end()) {
    CodeFunction::Slot made;
    made.arguments = room(std::max<std::size_t>(arguments.size(), 1), MemoryKind::device);
    if (cooperative) made.workspace = room(ptx::kWorkspaceBytes, MemoryKind::device);
    ptx::EntryPlace place;
    place.image = function.module->image_at;
    place.arguments = made.arguments;
    place.workspace = made.workspace;
    ptx::ResolvedEntry resolved = ptx::resolve_entry(*function.module->module, function.name, place);
    made.program = std::make_shared<const ptx::PtxProgram>(std::move(resolved.code));
    function.slots.push_back(std::move(made));
    found = function.slots.end() - 1;
  }
  gpu::MemoryBackdoor& memory = device_.gpu().memory();
  if (!arguments.empty()) (void)memory.write(found->arguments, arguments.data(), arguments.size());
  if (found->workspace != 0) {
    const std::vector<std::uint8_t> zeros(ptx::kWorkspaceBytes, 0);
    (void)memory.write(found->workspace, zeros.data(), zeros.size());
  }
  return *found;
}

std::uint32_t LoadedCode::code(CodeFunction::Slot& slot, const arch::KernelShape& shape) {
  for (const CodeFunction::Slot::Code& code : slot.codes) {
    if (code.shape.grid == shape.grid && code.shape.block == shape.block &&
        code.shape.shared_bytes == shape.shared_bytes && code.shape.cluster.extents == shape.cluster.extents) {
      return code.number;
    }
  }
  slot.codes.push_back({shape, device_.gpu().add_code(slot.program, shape)});
  return slot.codes.back().number;
}

std::uint64_t LoadedCode::address_of(const CodeVariable& variable) {
  load(*variable.module);
  const auto found = variable.module->image->offsets().find(variable.name);
  if (found == variable.module->image->offsets().end()) {
    throw InputError(fmt::format("the PTX of the program has no variable {}", variable.name), "build it anew");
  }
  return variable.module->image_at + found->second;
}

bool LoadedCode::give_local(std::uint32_t bytes) {
  if (bytes <= local_bytes_) return true;
  if (!device_.run_all()) return false;
  const auto per_thread = static_cast<std::uint32_t>(ptx::aligned_up(bytes, 16));
  const std::uint64_t all = device_.params().local_memory({local_at_, per_thread});
  if (local_at_ != 0) heap_.free(local_at_);
  local_at_ = ptx::aligned_up(room(all + 128, MemoryKind::device), 128);
  using What = protocol::SubcontextPacket::What;
  protocol::SubmitPacket packet;
  packet.kind = protocol::SubmitKind::share;
  packet.share.what = What::local_address;
  packet.share.value = local_at_;
  device_.control(packet);
  packet.share.what = What::local_bytes;
  packet.share.value = per_thread;
  device_.control(packet);
  local_bytes_ = per_thread;
  return true;
}

}  // namespace heddle::cuda
