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
    if (decoder_ == nullptr) return refuse(object, Reason::code_machine, "the machine was built without a decoder");
    std::uint64_t& bytes = bytes_[subcontext];
    if (bytes + code.size() > kMostBytes) {
      return refuse(object, Reason::code_machine,
                    fmt::format("the machine keeps no more than {} bytes of code of a subcontext", kMostBytes));
    }
    DecodedCode decoded = decoder_->decode(code);
    if (decoded.program == nullptr) return refuse(object, Reason::code_bytes, decoded.why);
    if (const std::string why = why_not_(*decoded.program); !why.empty()) {
      return refuse(object, Reason::code_machine, why);
    }
    const std::uint32_t registers = decoded.program->registers();
    const std::uint32_t number = codes_.add(std::move(decoded.program), decoded.kernel);
    found = kept_.emplace(code, Kept{number, registers, decoded.kernel}).first;
    bytes += code.size();
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

void CodeReading::take(std::uint32_t line, const std::array<std::uint8_t, kCodeAlignment>& data) {
  HEDDLE_CHECK(line < lines() && !complete(), "a line of code that nobody asked for");
  std::copy_n(data.begin(), bytes_of(line), bytes_.begin() + std::ptrdiff_t{line} * kCodeAlignment);
  ++taken_;
}

}  // namespace heddle::arch
