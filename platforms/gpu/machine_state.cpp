#include "gpu/machine_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/params.h"
#include "gpu/state_file.h"

namespace heddle::gpu {
namespace {

constexpr const char* kConfiguration = "configuration";
constexpr const char* kMemory = "memory";
constexpr std::size_t kMostText = std::size_t{1} << 20;
constexpr std::uint64_t kMostParameters = 100'000;
constexpr std::uint64_t kPage = MemoryBackdoor::kPageBytes;
constexpr std::size_t kAddressBytes = 8;

// The same bytes in memory follow from other values of these.
bool may_differ(const std::string& path) { return path == "gpu.timing" || path == "gpu.run_ahead"; }

std::vector<ParamEntry> entries_of(GpuParams params) {
  ParamBinder binder;
  params.bind(binder);
  std::vector<ParamEntry> entries = binder.entries();
  entries.erase(std::remove_if(entries.begin(), entries.end(), [](const auto& e) { return may_differ(e.path); }),
                entries.end());
  return entries;
}

}  // namespace

std::string MachineState::configuration() const {
  StateWriter text(kConfiguration);
  const std::vector<ParamEntry> entries = entries_of(machine_.params);
  text.below(entries.size(), kMostParameters, "the number of parameters");
  for (const ParamEntry& entry : entries) {
    text.text(entry.path, kMostText, "the length of a name");
    text.text(entry.value_text, kMostText, "the length of a value");
  }
  return text.bytes();
}

void MachineState::compare(const std::string& saved) const {
  constexpr const char* kRemedy =
      "restore it into a device of the same configuration: only gpu.timing and gpu.run_ahead may differ";
  StateReader from(kConfiguration, saved);
  const std::vector<ParamEntry> entries = entries_of(machine_.params);
  std::map<std::string, std::string> theirs;
  for (std::uint64_t left = from.below(kMostParameters, "the number of parameters"); left > 0; --left) {
    std::string path = from.text(kMostText, "the length of a name");
    theirs[std::move(path)] = from.text(kMostText, "the length of a value");
  }
  from.end();
  for (const ParamEntry& entry : entries) {
    const auto found = theirs.find(entry.path);
    if (found == theirs.end()) {
      throw InputError(fmt::format("this device has a parameter {}, and the saved one has none", entry.path), kRemedy);
    }
    if (found->second != entry.value_text) {
      throw InputError(
          fmt::format("the saved device has {} = {}, and this one {}", entry.path, found->second, entry.value_text),
          kRemedy);
    }
    theirs.erase(found);
  }
  if (theirs.empty()) return;
  throw InputError(fmt::format("the saved device has a parameter {}, and this one has none", theirs.begin()->first),
                   kRemedy);
}

void MachineState::check_own() const {
  if (machine_.memory.grants_direct()) return;
  throw InputError("a device with another's memory attached cannot be saved or restored", "use one with its own");
}

void MachineState::save(std::ostream& out) {
  check_own();
  const std::string who = machine_.domain.observation().prefix;
  const std::vector<std::string> open = machine_.open();
  if (!open.empty()) {
    throw InputError(
        fmt::format("{} is not quiet: {}", who, fmt::join(open, "; ")),
        "let simulation go on until its software has seen the end of everything and nothing is left to do");
  }
  if (machine_.memory.any_poisoned()) {
    throw InputError(fmt::format("data in the memory of {} are corrupt", who), "write them anew before it is saved");
  }
  StateFileWriter file(out);
  file.section(kConfiguration, configuration());
  for (const Part& part : compared_) write(file, part);
  for (const Part& part : parts_) write(file, part);
  const std::vector<std::uint64_t> pages = machine_.memory.pages();
  std::vector<std::uint8_t> bytes(kPage);
  file.begin(kMemory, pages.size() * (kAddressBytes + kPage));
  for (const std::uint64_t page : pages) {
    StateWriter address;
    address.number(page);
    file.add(address.bytes().data(), address.bytes().size());
    std::fill(bytes.begin(), bytes.end(), 0);
    const std::uint64_t length = std::min(kPage, machine_.params.machine.memory - page);
    HEDDLE_CHECK(machine_.memory.read(page, bytes.data(), length), "a page of memory cannot be read");
    file.add(bytes.data(), bytes.size());
  }
  file.finish();
}

void MachineState::restore(std::istream& in) {
  check_own();
  // A file that is none, or of another machine, changes nothing here.
  StateFileReader file(in);
  compare(file.section(kConfiguration));
  for (const Part& part : compared_) read(file, part);
  machine_.reset();
  try {
    machine_.memory.clear();
    read_all(file);
  } catch (...) {
    machine_.reset();
    machine_.memory.clear();
    for (const auto& listener : cleared_) listener();
    throw;
  }
  for (const auto& listener : restored_) listener();
}

void MachineState::write(StateFileWriter& file, const Part& part) const {
  StateWriter state(fmt::format("{}, {}", machine_.domain.observation().prefix, part.name));
  part.part.save(state);
  file.section(part.name, state.bytes());
}

void MachineState::read(StateFileReader& file, const Part& part) {
  StateReader state(part.name, file.section(part.name));
  part.part.restore(state);
  state.end();
}

void MachineState::read_all(StateFileReader& file) {
  for (const Part& part : parts_) read(file, part);
  const std::uint64_t all = file.begin(kMemory);
  const StateReader memory(kMemory, {});
  if (all % (kAddressBytes + kPage) != 0) memory.bad("its length is not that of pages");
  std::string bytes(kPage, '\0');
  std::string address(kAddressBytes, '\0');
  std::uint64_t next = 0;
  for (std::uint64_t left = all / (kAddressBytes + kPage); left > 0; --left) {
    file.get(address.data(), address.size());
    file.get(bytes.data(), bytes.size());
    const std::uint64_t page = StateReader(kMemory, address).number();
    if (page % kPage != 0 || page < next || page >= machine_.params.machine.memory)
      memory.bad("a page that is not here");
    next = page + kPage;
    const std::uint64_t length = std::min(kPage, machine_.params.machine.memory - page);
    if (!machine_.memory.write(page, bytes.data(), length)) memory.bad("a page that is not here");
  }
  file.finish();
}

}  // namespace heddle::gpu
