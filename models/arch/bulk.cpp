#include "arch/bulk.h"

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kCtaField = 0xFF;           // all ones: the CTA itself
constexpr std::uint32_t kAddressField = 0xFF'FFFF;  // all ones: no mbarrier

std::uint64_t half_word(std::uint32_t cta, std::uint32_t address) {
  HEDDLE_CHECK(cta < kCtaField || cta == kOwnCta, "the id of a CTA has 8 bits, and is not 255");
  HEDDLE_CHECK(address < kAddressField || address == kNoBarrier, "an address in shared memory has 24 bits");
  return std::uint64_t{cta & kCtaField} << 24 | (address & kAddressField);
}

std::uint32_t cta_of(std::uint64_t half) {
  const std::uint32_t cta = half >> 24 & kCtaField;
  return cta == kCtaField ? kOwnCta : cta;
}

std::uint32_t address_of(std::uint64_t half) { return static_cast<std::uint32_t>(half & kAddressField); }

}  // namespace

const char* bulk_name(BulkKind kind) {
  constexpr std::array<const char*, 8> kNames{"load", "store", "reduce", "prefetch", "copy", "send", "drain", "forget"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t address_word(const BulkRequest& request) {
  return half_word(request.barrier_cta, request.barrier) << 32 | half_word(request.data_cta, request.shared);
}

std::uint32_t mask_word(const BulkRequest& request) { return std::uint32_t{request.multicast} << 16 | request.offsets; }

void set_words(BulkRequest& request, std::uint64_t addresses, std::uint32_t mask) {
  const std::uint32_t barrier = address_of(addresses >> 32);
  request.barrier_cta = cta_of(addresses >> 32);
  request.barrier = barrier == kAddressField ? kNoBarrier : barrier;
  request.data_cta = cta_of(addresses);
  request.shared = address_of(addresses);
  request.multicast = static_cast<std::uint16_t>(mask >> 16);
  request.offsets = static_cast<std::uint16_t>(mask);
}

}  // namespace heddle::arch
