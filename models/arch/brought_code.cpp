#include "arch/brought_code.h"

#include <iterator>
#include <string>

#include <fmt/format.h>

#include "arch/task_record.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

// Of programs and launches at a time. Programs alone, as far as they have room, are no more.
constexpr std::uint32_t kMostNumber = 1U << 20;
static_assert(kSubcontexts * (BroughtCode::kMostBytes / BroughtCode::kProgramBytes) <= kMostNumber);

// A program that was made for clusters of a kind asks for their barriers and registers.
bool same_grouping(const KernelObject& object, const KernelShape& kernel) {
  for (std::size_t level = 0; level < kCgaLevels; ++level) {
    const auto one = static_cast<CgaLevel>(level);
    if (object.cluster.has(one) != kernel.cluster.has(one)) return false;
  }
  return object.cooperative == kernel.cooperative;
}

}  // namespace

HsaResult BroughtCode::refuse(const KernelObject& object, Reason reason, const std::string& why) const {
  if (listener_) {
    listener_(fmt::format("kernel '{}', code of {} bytes at 0x{:x}: {}", object.name, object.code.bytes,
                          object.code.address, why));
  }
  return {HsaStatus::invalid_code_object, reason};
}

HsaResult BroughtCode::resolve(const std::vector<std::uint8_t>& code, std::uint8_t subcontext, KernelObject& object) {
  HEDDLE_CHECK(code.size() == object.code.bytes, "code of another length than its kernel object says");
  object.program = kNoCode;
  auto found = kept_.find(code);
  if (found == kept_.end()) {
    const Refusal refusal = keep(code, subcontext);
    if (refusal.reason != Reason::none) return refuse(object, refusal.reason, refusal.why);
    found = kept_.find(code);
  }
  const Kept& kept = found->second;
  if (object.registers_per_thread != 0 && object.registers_per_thread < kept.registers) {
    return refuse(object, Reason::code_object,
                  fmt::format("its program needs {} registers per thread, and its object gives it {}", kept.registers,
                              object.registers_per_thread));
  }
  if (!same_grouping(object, kept.kernel)) {
    return refuse(object, Reason::code_object, "its object has other clusters than its code, or other cooperation");
  }
  object.program = kept.number;
  return {};
}

// What is refused makes nothing else leave, and is decoded once.
BroughtCode::Refusal BroughtCode::keep(const std::vector<std::uint8_t>& code, std::uint8_t subcontext) {
  if (decoder_ == nullptr) return {Reason::code_machine, "the machine was built without a decoder"};
  const Refusal full{Reason::code_machine,
                     fmt::format("the machine keeps no more than {} bytes of a subcontext's code and of what its "
                                 "expressions are with all that they name, and all of it is in use",
                                 kMostBytes)};
  if (const auto known = refused_.find(code); known != refused_.end()) {
    if (known->second.reason != Reason::none) return known->second;
    if (!make_room(subcontext, known->second.bytes)) return full;
  }
  DecodedCode decoded = decoder_->decode(code);
  Refusal refusal;
  if (decoded.program == nullptr) {
    refusal = {Reason::code_bytes, decoded.why};
  } else if (const std::string why = why_not_(*decoded.program); !why.empty()) {
    refusal = {Reason::code_machine, why};
  }
  if (refusal.reason != Reason::none) {
    note_refused(code, refusal);
    return refusal;
  }
  const std::uint64_t bytes = code.size() + kProgramBytes + decoded.text;
  if (!make_room(subcontext, bytes)) {
    note_refused(code, {Reason::none, {}, bytes});
    return full;
  }
  const std::uint32_t registers = decoded.program->registers();
  const std::uint32_t number = codes_.add(std::move(decoded.program), decoded.kernel);
  numbers_.insert(number);
  kept_.emplace(code, Kept{number, registers, decoded.kernel, subcontext, bytes});
  bytes_[subcontext] += bytes;
  return {};
}

bool BroughtCode::make_room(std::uint8_t subcontext, std::uint64_t bytes) {
  if (bytes > kMostBytes) return false;
  const std::uint64_t left = kMostBytes - bytes;
  if (this->bytes(subcontext) <= left) return true;
  const std::set<std::uint32_t> used = this->used();
  for (auto program = kept_.begin(); program != kept_.end();) {
    const Kept& kept = program->second;
    const bool stays = kept.subcontext != subcontext || used.count(kept.number) > 0 || codes_.launches(kept.number) > 0;
    program = stays ? std::next(program) : forget(program);
  }
  return this->bytes(subcontext) <= left;
}

std::set<std::uint32_t> BroughtCode::used() const {
  std::set<std::uint32_t> used;
  for (const CodeUser* user : users_) user->mark_codes(used);
  return used;
}

BroughtCode::Programs::iterator BroughtCode::forget(Programs::iterator program) {
  bytes_[program->second.subcontext] -= program->second.bytes;
  codes_.remove(program->second.number);
  numbers_.erase(program->second.number);
  return kept_.erase(program);
}

std::uint64_t BroughtCode::bytes(std::uint8_t subcontext) const {
  const auto found = bytes_.find(subcontext);
  return found == bytes_.end() ? 0 : found->second;
}

void BroughtCode::reset() {
  for (auto program = kept_.begin(); program != kept_.end();) program = forget(program);
  refused_.clear();
  refused_bytes_ = 0;
}

// Whoever brings much of it pays for it with another look.
void BroughtCode::note_refused(const std::vector<std::uint8_t>& code, const Refusal& refusal) {
  if (refused_.count(code) > 0) return;
  const std::uint64_t bytes = code.size() + refusal.why.size() + kRefusedBytes;
  if (refused_bytes_ + bytes > kMostRefused) {
    refused_.clear();
    refused_bytes_ = 0;
  }
  refused_.emplace(code, refusal);
  refused_bytes_ += bytes;
}

void BroughtCode::save(StateWriter& to) const {
  std::map<std::uint32_t, const Programs::value_type*> by_number;
  for (const auto& item : kept_) by_number[item.second.number] = &item;
  to.below(by_number.size(), kMostNumber, "the number of programs");
  for (const auto& [number, item] : by_number) {
    to.below(number, kMostNumber, "a program's number");
    to.number(item->second.subcontext);
    to.text({reinterpret_cast<const char*>(item->first.data()), item->first.size()});
  }
}

void BroughtCode::restore(StateReader& from) {
  for (std::uint64_t left = from.below(kMostNumber, "the number of programs"); left > 0; --left) {
    const auto number = static_cast<std::uint32_t>(from.below(kMostNumber, "a program's number"));
    const auto subcontext = static_cast<std::uint8_t>(from.below(kSubcontexts, "a program's subcontext"));
    const std::string text = from.text(kMostCodeBytes, "the length of a program");
    const std::vector<std::uint8_t> code(text.begin(), text.end());
    if (number == kNoCode || kept_.count(code) > 0) from.bad("a program's number");
    if (codes_.has(number)) {
      throw InputError(fmt::format("program {} of the saved device has its number from something else here", number),
                       "load the same files, in the same order, before it is restored");
    }
    DecodedCode decoded;
    if (decoder_ != nullptr && !code.empty()) decoded = decoder_->decode(code);
    if (decoded.program == nullptr || !why_not_(*decoded.program).empty()) from.bad("code that is no program here");
    const std::uint64_t bytes = code.size() + kProgramBytes + decoded.text;
    if (bytes > kMostBytes || bytes_[subcontext] > kMostBytes - bytes) from.bad("more code than a subcontext may have");
    const std::uint32_t registers = decoded.program->registers();
    codes_.add_at(number, std::move(decoded.program), decoded.kernel);
    numbers_.insert(number);
    kept_.emplace(code, Kept{number, registers, decoded.kernel, subcontext, bytes});
    bytes_[subcontext] += bytes;
  }
}

void CodeReading::take(std::uint32_t line, const std::array<std::uint8_t, kCodeAlignment>& data) {
  HEDDLE_CHECK(line < lines() && !complete(), "a line of code that nobody asked for");
  std::copy_n(data.begin(), bytes_of(line), bytes_.begin() + std::ptrdiff_t{line} * kCodeAlignment);
  ++taken_;
}

}  // namespace heddle::arch
