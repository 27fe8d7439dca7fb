#include "cuda/fat_binary.h"

#include <algorithm>
#include <cstring>
#include <zstd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"

namespace heddle::cuda {
namespace {

// Offsets in the header of an entry.
constexpr std::size_t kKindAt = 0;           // 16 bits
constexpr std::size_t kVersionAt = 2;        // 16 bits
constexpr std::size_t kHeaderBytesAt = 4;    // 32 bits
constexpr std::size_t kPayloadBytesAt = 8;   // 64 bits, with what fills up to 8
constexpr std::size_t kPackedBytesAt = 16;   // 32 bits; 0: not packed
constexpr std::size_t kArchitectureAt = 28;  // 32 bits
constexpr std::size_t kUnpackedBytesAt = 56;
constexpr std::size_t kLeastEntryHeader = 64;
constexpr std::size_t kMostEntryHeader = 4096;
constexpr std::uint16_t kEntryVersion = 0x0101;
constexpr std::uint32_t kZstdMagic = 0xfd2f'b528;

template <class Number>
Number number_at(const std::uint8_t* data, std::size_t offset) {
  Number value{};
  std::memcpy(&value, data + offset, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw InputError({name, 0, 0}, "device code: " + what,
                   "build with nvcc 13: nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a");
}

std::string unpack(const std::uint8_t* data, std::uint64_t packed, std::uint64_t unpacked, const std::string& name) {
  if (packed < 4 || number_at<std::uint32_t>(data, 0) != kZstdMagic) refuse(name, "packed in a way that is not known");
  if (unpacked == 0 || unpacked > kMostText) refuse(name, fmt::format("PTX of {} bytes", unpacked));
  const unsigned long long told = ZSTD_getFrameContentSize(data, packed);
  if (told == ZSTD_CONTENTSIZE_ERROR || (told != ZSTD_CONTENTSIZE_UNKNOWN && told != unpacked)) {
    refuse(name, "a packed text whose size is not that of its entry");
  }
  std::string text(unpacked, '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), data, packed);
  if (ZSTD_isError(got) != 0) refuse(name, fmt::format("it does not unpack ({})", ZSTD_getErrorName(got)));
  if (got != unpacked) refuse(name, "a packed text whose size is not that of its entry");
  return text;
}

// Up to the zeros that fill the payload.
std::string trimmed(std::string text, const std::string& name) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  if (text.empty() || text.find('\0') != std::string::npos) refuse(name, "PTX that is no text");
  return text;
}

FatEntry read_entry(const std::uint8_t* data, std::uint64_t left, std::uint64_t& taken, const std::string& name) {
  if (left < kLeastEntryHeader) refuse(name, "an entry that is cut off");
  const auto kind = number_at<std::uint16_t>(data, kKindAt);
  const auto version = number_at<std::uint16_t>(data, kVersionAt);
  const auto header = number_at<std::uint32_t>(data, kHeaderBytesAt);
  const auto payload = number_at<std::uint64_t>(data, kPayloadBytesAt);
  const auto packed = number_at<std::uint32_t>(data, kPackedBytesAt);
  if (kind != static_cast<std::uint16_t>(CodeKind::ptx) && kind != static_cast<std::uint16_t>(CodeKind::machine)) {
    refuse(name, fmt::format("an entry of kind {}, which is not known", kind));
  }
  if (version != kEntryVersion) refuse(name, fmt::format("an entry of version {:#06x}, which is not known", version));
  if (header < kLeastEntryHeader || header > kMostEntryHeader || header % 8 != 0 || header > left) {
    refuse(name, fmt::format("an entry whose header has {} bytes", header));
  }
  if (payload > left - header) refuse(name, "an entry that is longer than its container");
  if (packed > payload) refuse(name, "an entry whose packed text is longer than the entry");
  taken = header + payload;
  FatEntry entry;
  entry.kind = static_cast<CodeKind>(kind);
  entry.architecture = number_at<std::uint32_t>(data, kArchitectureAt);
  if (entry.architecture == 0 || entry.architecture > 999) {
    refuse(name, fmt::format("an entry for architecture {}", entry.architecture));
  }
  if (entry.kind != CodeKind::ptx) return entry;
  const std::uint8_t* text = data + header;
  if (packed != 0) {
    entry.text = unpack(text, packed, number_at<std::uint64_t>(data, kUnpackedBytesAt), name);
  } else {
    entry.text.assign(reinterpret_cast<const char*>(text), payload);
  }
  entry.text = trimmed(std::move(entry.text), name);
  return entry;
}

}  // namespace

std::uint64_t container_bytes(const std::uint8_t* header) {
  if (number_at<std::uint32_t>(header, 0) != kContainerMagic) refuse({}, "no container of nvcc's");
  const auto version = number_at<std::uint16_t>(header, 4);
  const auto size = number_at<std::uint16_t>(header, 6);
  const auto rest = number_at<std::uint64_t>(header, 8);
  if (version != 1) refuse({}, fmt::format("a container of version {}, which is not known", version));
  if (size != kContainerHeader) refuse({}, fmt::format("a container whose header has {} bytes", size));
  if (rest > kMostContainer) refuse({}, fmt::format("a container of {} bytes", rest));
  return kContainerHeader + rest;
}

std::vector<FatEntry> read_container(const std::uint8_t* data, std::size_t size, const std::string& name) {
  if (size < kContainerHeader) refuse(name, "a container that is cut off");
  const std::uint64_t bytes = container_bytes(data);
  if (bytes > size) refuse(name, "a container that is cut off");
  std::vector<FatEntry> entries;
  for (std::uint64_t at = kContainerHeader; at < bytes;) {
    std::uint64_t taken = 0;
    entries.push_back(read_entry(data + at, bytes - at, taken, name));
    at += taken;
  }
  return entries;
}

std::vector<std::string> choose_ptx(const std::vector<FatEntry>& entries, std::uint32_t architecture,
                                    const std::string& name) {
  std::uint32_t newest = 0;
  std::vector<std::string> others;
  for (const FatEntry& entry : entries) {
    const bool ptx = entry.kind == CodeKind::ptx;
    if (ptx && entry.architecture <= architecture) newest = std::max(newest, entry.architecture);
    others.push_back(fmt::format("{} for {}", ptx ? "PTX" : "machine code", entry.architecture));
  }
  if (newest == 0) {
    throw InputError({name, 0, 0},
                     entries.empty()
                         ? std::string("its device code is empty")
                         : fmt::format("it has no PTX that a device of compute capability {}.{} runs, only {}",
                                       architecture / 10, architecture % 10, fmt::join(others, ", ")),
                     "build it with PTX inside: nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a");
  }
  std::vector<std::string> texts;
  for (const FatEntry& entry : entries) {
    if (entry.kind == CodeKind::ptx && entry.architecture == newest) texts.push_back(entry.text);
  }
  return texts;
}

}  // namespace heddle::cuda
