#include "scenario/memory_region.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "program/expression.h"
#include "program/program_values.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

using arch::ValueType;

// Patterns know the number of the element, and nothing else.
NameTable pattern_names(std::uint32_t slot) {
  NameTable names;
  names.set("i", slot);
  return names;
}

// SplitMix64: element i of a seed is the same wherever the reading begins.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58'476D'1CE4'E5B9U;
  value = (value ^ value >> 27) * 0x94D0'49BB'1331'11EBU;
  return value ^ value >> 31;
}

double random_number(const RegionContents& contents, std::uint64_t index) {
  constexpr std::uint64_t kGolden = 0x9E37'79B9'7F4A'7C15U;
  const std::uint64_t bits = mixed(mixed(contents.seed + kGolden) + (index + 1) * kGolden);
  const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
  const double range = contents.max - contents.min;
  if (!contents.integer) return contents.min + unit * range;
  return std::min(contents.max, contents.min + std::floor(unit * (range + 1)));
}

using ElementOf = std::function<double(std::uint64_t)>;

std::vector<std::uint8_t> elements(ValueType type, std::uint64_t offset, std::uint64_t count,
                                   const ElementOf& element) {
  const std::uint64_t size = arch::bytes_of(type);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(count + size);
  for (std::uint64_t i = offset / size; bytes.size() < count; ++i) {
    const std::uint64_t bits = bits_of(type, element(i));
    for (std::uint64_t byte = 0; byte < size; ++byte) bytes.push_back(static_cast<std::uint8_t>(bits >> 8 * byte));
  }
  bytes.resize(count);
  return bytes;
}

std::vector<std::uint8_t> pattern_bytes(const std::string& pattern, ValueType type, std::uint64_t offset,
                                        std::uint64_t count, const SourcePos& where) {
  ExpressionSlots slots;
  const std::uint32_t slot = slots.add();
  NameTable names = pattern_names(slot);
  const Expression expression(pattern, where, names, slots);
  return elements(type, offset, count, [&](std::uint64_t i) {
    slots.at(slot) = static_cast<double>(i);
    return expression.value();
  });
}

std::vector<std::uint8_t> file_bytes(const std::string& path, std::uint64_t offset, std::uint64_t count,
                                     const SourcePos& where) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
  if (!file || static_cast<std::uint64_t>(file.gcount()) != count) {
    throw InputError(where, fmt::format("{} cannot be read, or has become shorter", path), "run again");
  }
  return bytes;
}

// The queue, and its entries behind it (arch/task_record.h).
std::vector<std::uint8_t> queue_bytes(const MemoryRegion& region) {
  const RegionContents& contents = region.contents;
  std::vector<std::uint8_t> bytes(region.bytes);
  const auto put = [&bytes](std::uint64_t at, std::uint64_t value) {
    for (unsigned i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> 8 * i);
  };
  put(arch::queue::kTickets, contents.entries.size());
  put(arch::queue::kCapacity, contents.capacity);
  put(arch::queue::kEntries, region.address + arch::kRecordBytes);
  for (std::uint64_t ticket = 0; ticket < contents.entries.size(); ++ticket) {
    const std::uint64_t at = arch::kRecordBytes + ticket * arch::kQueueEntryBytes;
    put(at, arch::turn_ready(ticket, contents.capacity));
    for (std::uint32_t word = 0; word < arch::kQueueEntryWords; ++word) {
      put(at + arch::kQueueEntryData + 8 * word, contents.entries[ticket][word]);
    }
  }
  return bytes;
}

std::uint64_t element_bits(const std::vector<std::uint8_t>& bytes, std::uint64_t at, std::uint64_t size) {
  std::uint64_t bits = 0;
  for (std::uint64_t i = 0; i < size; ++i) bits |= std::uint64_t{bytes[at + i]} << 8 * i;
  return bits;
}

bool near(const Expectation& expectation, double actual, double expected) {
  const double distance =
      expectation.within_percent ? std::fabs(expected) * expectation.within / 100 : expectation.within;
  return actual == expected || std::fabs(actual - expected) <= distance;
}

}  // namespace

std::vector<std::uint8_t> initial_bytes(const MemoryRegion& region, std::uint64_t offset, std::uint64_t count) {
  HEDDLE_CHECK(offset % 8 == 0 && offset <= region.bytes && count <= region.bytes - offset,
               "a part of a region lies in it");
  const RegionContents& contents = region.contents;
  switch (contents.kind) {
    case RegionContents::Kind::pattern:
      return pattern_bytes(contents.pattern, contents.type, offset, count, contents.where);
    case RegionContents::Kind::random:
      return elements(contents.type, offset, count, [&](std::uint64_t i) { return random_number(contents, i); });
    case RegionContents::Kind::file:
      return file_bytes(contents.file, offset, count, contents.where);
    case RegionContents::Kind::bytes: {
      const auto begin = contents.bytes.begin() + static_cast<std::ptrdiff_t>(offset);
      return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    case RegionContents::Kind::tensor: {
      const auto all = arch::encode(contents.tensor);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
      return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    case RegionContents::Kind::queue: {
      const std::vector<std::uint8_t> all = queue_bytes(region);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
      return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    default:
      return std::vector<std::uint8_t>(count);
  }
}

std::vector<std::uint8_t> initial_bytes(const MemoryRegion& region) { return initial_bytes(region, 0, region.bytes); }

double element_of(ValueType type, const std::vector<std::uint8_t>& bytes, std::uint64_t index) {
  const std::uint64_t size = arch::bytes_of(type);
  return number_of(type, element_bits(bytes, index * size, size));
}

std::string difference(const Expectation& expectation, const std::vector<std::uint8_t>& bytes) {
  const ValueType type = expectation.type.value_or(ValueType::u8);
  const std::vector<std::uint8_t> expected =
      expectation.pattern.empty() ? file_bytes(expectation.file, 0, bytes.size(), expectation.where)
                                  : pattern_bytes(expectation.pattern, type, 0, bytes.size(), expectation.where);
  const std::uint64_t size = arch::bytes_of(type);
  std::uint64_t wrong = 0;
  std::string first;
  for (std::uint64_t at = 0; at + size <= bytes.size(); at += size) {
    const std::uint64_t is = element_bits(bytes, at, size);
    const std::uint64_t must = element_bits(expected, at, size);
    if (is == must || near(expectation, number_of(type, is), number_of(type, must))) continue;
    if (wrong++ == 0) {
      first = fmt::format("{} {} is {}, expected {}", expectation.type ? "element" : "byte", at / size,
                          number_text(number_of(type, is)), number_text(number_of(type, must)));
    }
  }
  return wrong == 0 ? std::string() : fmt::format("{}; {} of {} differ", first, wrong, bytes.size() / size);
}

void check_pattern(const std::string& pattern, const SourcePos& where) {
  ExpressionSlots slots;
  NameTable names = pattern_names(slots.add());
  const Expression expression(pattern, where, names, slots);
}

std::string beside_scenario(const std::string& scenario, const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() ? name : (std::filesystem::path(scenario).parent_path() / path).string();
}

}  // namespace heddle::scenario
