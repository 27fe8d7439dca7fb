#include "common/state.h"

#include <fmt/format.h>

#include "common/error.h"

namespace heddle {
namespace {

constexpr std::size_t kNumberBytes = 8;

}  // namespace

void StateWriter::number(std::uint64_t value) {
  for (std::size_t i = 0; i < kNumberBytes; ++i) bytes_.push_back(static_cast<char>(value >> 8 * i));
}

void StateWriter::below(std::uint64_t value, std::uint64_t limit, const char* what) {
  if (value >= limit) {
    throw InputError(
        fmt::format("the state of {} cannot be saved: {} is {}, and has to be below {}", whose_, what, value, limit),
        "save the device while there is less in it");
  }
  number(value);
}

void StateWriter::text(std::string_view value) {
  number(value.size());
  bytes_.append(value);
}

void StateWriter::text(std::string_view value, std::size_t most, const char* what) {
  below(value.size(), std::uint64_t{most} + 1, what);
  bytes_.append(value);
}

std::uint64_t StateReader::number() {
  if (bytes_.size() - at_ < kNumberBytes) bad("it ends too early");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kNumberBytes; ++i) {
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << 8 * i;
  }
  at_ += kNumberBytes;
  return value;
}

std::uint64_t StateReader::below(std::uint64_t limit, const char* what) {
  const std::uint64_t value = number();
  if (value >= limit) bad(fmt::format("{} is {}, and has to be below {}", what, value, limit));
  return value;
}

std::string StateReader::text(std::size_t most, const char* what) {
  const std::uint64_t length = below(std::uint64_t{most} + 1, what);
  if (bytes_.size() - at_ < length) bad("it ends too early");
  std::string value = bytes_.substr(at_, length);
  at_ += length;
  return value;
}

void StateReader::end() const {
  if (at_ != bytes_.size()) bad(fmt::format("{} bytes are left over", bytes_.size() - at_));
}

void StateReader::bad(std::string_view what) const {
  throw InputError(fmt::format("the saved state of {} is damaged: {}", whose_, what), "save the device again");
}

}  // namespace heddle
