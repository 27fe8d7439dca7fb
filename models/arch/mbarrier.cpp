#include "arch/mbarrier.h"

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kCountBits = 20;
constexpr std::uint32_t kTxBits = 21;
constexpr std::uint32_t kExpectedAt = 20;
constexpr std::uint32_t kTxAt = 40;
constexpr std::uint32_t kParityAt = 61;
constexpr std::uint32_t kMarkAt = 62;  // two bits

constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
constexpr std::uint64_t kTxMask = (std::uint64_t{1} << kTxBits) - 1;
constexpr std::uint64_t kMark = 2;  // bit 63 one, bit 62 zero

bool count_allowed(std::uint64_t count) { return count >= 1 && count <= kMbarrierMaxCount; }

// Each gives false, without a change, for what would leave the range.
bool expect_bytes(Mbarrier& barrier, std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::int64_t{kMbarrierMaxTx} - barrier.tx)) return false;
  barrier.tx += static_cast<std::int32_t>(bytes);
  return true;
}
bool complete_bytes(Mbarrier& barrier, std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::int64_t{kMbarrierMaxTx} + barrier.tx)) return false;
  barrier.tx -= static_cast<std::int32_t>(bytes);
  return true;
}

bool end_of_phase(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx != 0) return false;
  barrier.parity ^= 1;
  barrier.pending = barrier.expected;
  return true;
}

MbarrierResult store(std::uint64_t& object, const Mbarrier& barrier, bool completes) {
  object = encode(barrier);
  return completes ? MbarrierResult::completes : MbarrierResult::ok;
}

// An object of garbage can hold a count that no operation leaves there.
bool usable(const Mbarrier& barrier) { return barrier.valid && barrier.tx >= -kMbarrierMaxTx; }

constexpr std::uint32_t kCtaField = 0xFF;  // all ones: the CTA itself
constexpr std::uint32_t kMaskField = 0xFFFF;
constexpr std::uint32_t kAddressField = 0xFF'FFFF;  // all ones: no mbarrier

std::uint64_t half_word(std::optional<std::uint32_t> cta, std::optional<std::uint32_t> address) {
  HEDDLE_CHECK(!cta || *cta < kCtaField, "the id of a CTA has 8 bits, and is not 255");
  HEDDLE_CHECK(!address || *address < kAddressField, "an address in shared memory has 24 bits");
  return std::uint64_t{cta.value_or(kCtaField)} << 24 | address.value_or(kAddressField);
}

std::optional<std::uint32_t> cta_of(std::uint64_t half) {
  const std::uint32_t cta = half >> 24 & kCtaField;
  return cta == kCtaField ? std::nullopt : std::optional(cta);
}

std::uint32_t address_of(std::uint64_t half) { return static_cast<std::uint32_t>(half & kAddressField); }

}  // namespace

std::uint64_t encode(const Mbarrier& barrier) {
  const auto tx = static_cast<std::uint64_t>(std::int64_t{barrier.tx});
  return (barrier.pending & kCountMask) | (barrier.expected & kCountMask) << kExpectedAt | (tx & kTxMask) << kTxAt |
         (std::uint64_t{barrier.parity} & 1) << kParityAt | (barrier.valid ? kMark << kMarkAt : 0);
}

Mbarrier decode(std::uint64_t object) {
  Mbarrier barrier;
  barrier.valid = object >> kMarkAt == kMark;
  barrier.parity = static_cast<std::uint32_t>(object >> kParityAt & 1);
  barrier.pending = static_cast<std::uint32_t>(object & kCountMask);
  barrier.expected = static_cast<std::uint32_t>(object >> kExpectedAt & kCountMask);
  barrier.tx = static_cast<std::int32_t>(object >> kTxAt & kTxMask);
  if (barrier.tx > kMbarrierMaxTx) barrier.tx -= std::int32_t{1} << kTxBits;
  return barrier;
}

MbarrierResult mbarrier_init(std::uint64_t& object, std::uint64_t count) {
  if (!count_allowed(count)) return MbarrierResult::wrong;
  Mbarrier barrier;
  barrier.valid = true;
  barrier.pending = barrier.expected = static_cast<std::uint32_t>(count);
  return store(object, barrier, false);
}

MbarrierResult mbarrier_invalidate(std::uint64_t& object) {
  if (!usable(decode(object))) return MbarrierResult::wrong;
  object = 0;
  return MbarrierResult::ok;
}

// Two operations in one: what is expected can itself end a phase, if all have arrived and the data came before. Then
// the arrival belongs to the next one.
MbarrierResult mbarrier_arrive(std::uint64_t& object, std::uint64_t count, std::uint64_t bytes, std::uint32_t* parity) {
  Mbarrier barrier = decode(object);
  if (!usable(barrier) || !count_allowed(count) || !expect_bytes(barrier, bytes)) return MbarrierResult::wrong;
  const bool completed = end_of_phase(barrier);
  if (count > barrier.pending) return MbarrierResult::wrong;
  if (parity != nullptr) *parity = barrier.parity;
  barrier.pending -= static_cast<std::uint32_t>(count);
  const bool completes = end_of_phase(barrier);
  return store(object, barrier, completed || completes);
}

MbarrierResult mbarrier_expect(std::uint64_t& object, std::uint64_t bytes) {
  Mbarrier barrier = decode(object);
  if (!usable(barrier) || !expect_bytes(barrier, bytes)) return MbarrierResult::wrong;
  return store(object, barrier, end_of_phase(barrier));
}

MbarrierResult mbarrier_complete(std::uint64_t& object, std::uint64_t bytes) {
  Mbarrier barrier = decode(object);
  if (!usable(barrier) || !complete_bytes(barrier, bytes)) return MbarrierResult::wrong;
  return store(object, barrier, end_of_phase(barrier));
}

bool mbarrier_ends_within(std::uint64_t object, std::uint64_t bytes) {
  const Mbarrier barrier = decode(object);
  return barrier.pending == 0 && barrier.tx > 0 && static_cast<std::uint64_t>(barrier.tx) < bytes;
}

MbarrierTest mbarrier_test(std::uint64_t object, std::uint64_t parity) {
  const Mbarrier barrier = decode(object);
  if (!usable(barrier) || parity > 1) return MbarrierTest::wrong;
  return parity == barrier.parity ? MbarrierTest::waits : MbarrierTest::passed;
}

const char* bulk_name(BulkKind kind) {
  constexpr std::array<const char*, kBulkKinds> kNames{"load", "store", "reduce", "prefetch", "copy",
                                                       "send", "drain", "forget", "fetch"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t address_word(const BulkRequest& request) {
  const std::uint32_t data = request.kind == BulkKind::send ? request.destination : request.shared;
  return half_word(request.barrier_cta, request.barrier) << 32 | half_word(request.data_cta, data);
}

std::uint32_t mask_word(const BulkRequest& request) {
  HEDDLE_CHECK(request.multicast <= kMaskField, "a mask of receivers has 16 bits");
  return request.multicast << 16 | request.offsets;
}

TensorRule check_words(const BulkRequest& request) {
  if (request.offsets_cut) return TensorRule::mask_word;
  const bool in_shared = request.kind == BulkKind::load || request.kind == BulkKind::store ||
                         request.kind == BulkKind::reduce || request.kind == BulkKind::send;
  if (!in_shared) return TensorRule::none;
  const auto cta = [](const std::optional<std::uint32_t>& id) { return !id || *id < kCtaField; };
  const auto address = [](std::uint32_t offset) { return offset < kAddressField; };
  const bool barrier = !request.barrier || *request.barrier < kAddressField;
  const bool data = address(request.shared) && (request.kind != BulkKind::send || address(request.destination));
  if (!data || !barrier || !cta(request.data_cta) || !cta(request.barrier_cta)) return TensorRule::address_word;
  return request.multicast <= kMaskField ? TensorRule::none : TensorRule::mask_word;
}

void set_words(BulkRequest& request, std::uint64_t addresses, std::uint32_t mask) {
  const std::uint32_t barrier = address_of(addresses >> 32);
  request.barrier_cta = cta_of(addresses >> 32);
  request.barrier = barrier == kAddressField ? std::nullopt : std::optional(barrier);
  request.data_cta = cta_of(addresses);
  (request.kind == BulkKind::send ? request.destination : request.shared) = address_of(addresses);
  request.multicast = mask >> 16;
  request.offsets = static_cast<std::uint16_t>(mask);
}

}  // namespace heddle::arch
