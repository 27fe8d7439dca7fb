#include "arch/brought_code.h"

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

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

BroughtCode::Refusal BroughtCode::keep(const std::vector<std::uint8_t>& code, std::uint8_t subcontext) {
  if (decoder_ == nullptr) return {Reason::code_machine, "the machine was built without a decoder"};
  std::uint64_t& bytes = bytes_[subcontext];
  const Refusal full{Reason::code_machine,
                     fmt::format("the machine keeps no more than {} bytes of a subcontext's code and of what its "
                                 "expressions are with all that they name",
                                 kMostBytes)};
  if (bytes + code.size() > kMostBytes) return full;
  if (const auto known = refused_.find(code); known != refused_.end()) return known->second;
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
  if (bytes + code.size() + decoded.text > kMostBytes) {
    bytes = kMostBytes;  // nothing more is looked at
    return full;
  }
  const std::uint32_t registers = decoded.program->registers();
  const std::uint32_t number = codes_.add(std::move(decoded.program), decoded.kernel);
  kept_.emplace(code, Kept{number, registers, decoded.kernel});
  bytes += code.size() + decoded.text;
  return {};
}

// Whoever brings much of it pays for it with another look.
void BroughtCode::note_refused(const std::vector<std::uint8_t>& code, const Refusal& refusal) {
  if (refused_bytes_ + code.size() > kMostRefused) {
    refused_.clear();
    refused_bytes_ = 0;
  }
  refused_.emplace(code, refusal);
  refused_bytes_ += code.size();
}

void CodeReading::take(std::uint32_t line, const std::array<std::uint8_t, kCodeAlignment>& data) {
  HEDDLE_CHECK(line < lines() && !complete(), "a line of code that nobody asked for");
  std::copy_n(data.begin(), bytes_of(line), bytes_.begin() + std::ptrdiff_t{line} * kCodeAlignment);
  ++taken_;
}

}  // namespace heddle::arch
