#include "host/saved_registers.h"

#include <string>

#include <fmt/format.h>

#include "common/bits.h"

namespace heddle::host {
namespace {

using Id = RegisterId;

constexpr std::size_t kLongestName = 64;

}  // namespace

bool SavedRegisters::kept(const Register& reg) {
  return reg.access != RegisterAccess::wo && !reg.of_machine && !reg.constant;
}

void SavedRegisters::save(const RegisterFile& file, StateWriter& to) {
  for (const Register& reg : register_table()) {
    if (!kept(reg)) continue;
    to.text(reg.name, kLongestName, "the length of a register's name");
    to.number(std::uint64_t{reg.count} * reg.words);
    for (std::uint32_t index = 0; index < reg.count; ++index) {
      for (std::uint32_t word = 0; word < reg.words; ++word) to.number(file.values_.at(reg.id, index, word));
    }
  }
  file.shares_.save(to);
  file.windows_.windows().save(to);
  file.events_.save(to);
  file.doorbells_.save(to);
  for (const std::uint64_t index : file.opened_at_) to.number(index);
  save_latch(file, to);
}

void SavedRegisters::restore(RegisterFile& file, StateReader& from) {
  for (const Register& reg : register_table()) {
    if (!kept(reg)) continue;
    const std::string name = from.text(kLongestName, "the length of a register's name");
    const std::uint64_t count = from.number();
    if (name != reg.name || count != std::uint64_t{reg.count} * reg.words) {
      from.bad(fmt::format("register {} is where {} has to be", name, reg.name));
    }
    for (std::uint32_t index = 0; index < reg.count; ++index) {
      for (std::uint32_t word = 0; word < reg.words; ++word) {
        file.values_.at(reg.id, index, word) = from.number() & bits_of(reg);
      }
    }
  }
  for (std::uint32_t channel = 0; channel < kCopyChannels; ++channel) {
    if (file.values_.at(Id::copy_state, channel) == kCopyBusy) from.bad("a copy is under way");
  }
  if (file.values_.at(Id::query_state) == kQueryBusy) from.bad("a query is under way");
  file.shares_.restore(from);
  file.windows_.windows().restore(from);
  file.events_.restore(from);
  file.doorbells_.restore(from);
  for (std::uint64_t& index : file.opened_at_) index = from.number();
  restore_latch(file, from);
}

// A host may be between the halves of a register that it reads.
void SavedRegisters::save_latch(const RegisterFile& file, StateWriter& to) {
  to.flag(file.latch_.reg != nullptr);
  to.number(file.latch_.reg == nullptr ? 0 : static_cast<std::uint64_t>(file.latch_.reg->id));
  to.number(file.latch_.index);
  to.number(file.latch_.word);
  to.number(file.latch_.high);
}

void SavedRegisters::restore_latch(RegisterFile& file, StateReader& from) {
  constexpr std::uint64_t kWord = std::uint64_t{1} << 32;
  const bool any = from.flag("whether half a register has been read");
  const auto id = from.one_of<Id>(register_table().count, "a register");
  const auto index = static_cast<std::uint32_t>(from.below(kWord, "its place"));
  const auto word = static_cast<std::uint32_t>(from.below(kWord, "its word"));
  const auto high = static_cast<std::uint32_t>(from.below(kWord, "its upper half"));
  file.latch_ = {any ? &register_of(id) : nullptr, index, word, high};
}

}  // namespace heddle::host
