// Memory traffic: a generic payload with one ignorable extension, and a pool of both.
//
// A request stays within one 128-byte line. Reads and writes are TLM_READ and TLM_WRITE with address, data and byte
// enables as usual, so that a target that knows nothing of the extension serves them. Everything else (atomics,
// prefetches, write-backs) is TLM_IGNORE_COMMAND for such a target, and never gets beyond the L2.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <typeinfo>
#include <vector>

#include <tlm>

#include "arch/memory_op.h"
#include "common/storage.h"
#include "protocol/ids.h"
#include "protocol/sm_tmau.h"

namespace heddle::protocol {

enum class MemoryAction : std::uint8_t {
  plain,       // a read or a write
  atomic,      // read-modify-write of up to 32 values of one line; the old values come back
  reduce,      // the same, and nothing comes back but the acknowledgement
  prefetch,    // the line's wanted sectors come into the L2
  write_back,  // the slice writes all its dirty sectors to memory (a release at system scope, MEM-06); the address
               // only selects the slice
  invalidate,  // the slice forgets what it has from memory and memory still has (an acquire at system scope, MEM-06);
               // the address only selects the slice
  copy,        // between slices of the L2: a read whose sectors stay there as a copy
  drop_copy,   // the same: the line's copy goes
  // Of shared memory only (DSMEM): lane.operand and, for bytes that an arrival expects, lane.compare.
  mbarrier_arrive,
  mbarrier_expect,
  mbarrier_complete,
  // Of the TMAU: the payload's data are reduced into the line, element by element, those whose byte enables are set
  // (all without). Nothing comes back but the acknowledgement.
  reduce_block,
  multimem,  // a read of a group of GPUs (LNK-08): the switch reads each one's bytes and combines them, element by
             // element of `type`, as `atomic` says
};

struct AtomicLane {
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint64_t old = 0;    // the answer
  std::uint8_t offset = 0;  // in the line: a multiple of the type's size
  std::uint8_t lane = 0;    // the initiator's own
};

// The values of an atomic. Most requests have none: there is memory for them from the first use on.
class AtomicLanes {
 public:
  static constexpr std::size_t kMost = 32;

  AtomicLanes() = default;
  AtomicLanes(const AtomicLanes& other) { *this = other; }
  AtomicLanes& operator=(const AtomicLanes& other) {
    if (this != &other && (lanes_ != nullptr || other.lanes_ != nullptr)) all() = other.all();
    return *this;
  }
  ~AtomicLanes() = default;

  AtomicLane& operator[](std::size_t index) { return all()[index]; }
  const AtomicLane& operator[](std::size_t index) const { return all()[index]; }
  static constexpr std::size_t size() { return kMost; }
  AtomicLane* begin() { return all().data(); }

 private:
  using All = std::array<AtomicLane, kMost>;
  All& all() {
    if (lanes_ == nullptr) lanes_ = std::make_unique<All>();
    return *lanes_;
  }
  const All& all() const {
    static const All kNothing{};
    return lanes_ == nullptr ? kNothing : *lanes_;
  }

  std::unique_ptr<All> lanes_;
};

// Where bytes of a bulk request go. Only payloads of TMAUs have one: there is memory for it from the first use on.
class BulkNote {
 public:
  BulkNote() = default;
  BulkNote(const BulkNote& other) { *this = other; }
  BulkNote& operator=(const BulkNote& other) {
    if (this != &other && other.target_ != nullptr) get() = *other.target_;
    return *this;
  }
  ~BulkNote() = default;

  BulkTarget& get() {
    if (target_ == nullptr) target_ = std::make_unique<BulkTarget>();
    return *target_;
  }
  bool any() const { return target_ != nullptr; }

 private:
  std::unique_ptr<BulkTarget> target_;
};

// What blocks on the way of a request note in it, each for itself, for when the response comes back. None reads what
// another has written.
struct RequestScratch {
  std::uint32_t entry = 0;            // the initiator's: a place in a table of its own
  std::uint32_t route = 0;            // the crossbar's port or the memory hub's slot
  bool placed = false;                // the crossbar's: the request has a place at its slice
  std::uint16_t link_source = 0;      // of a link switch: the port that the request came by
  std::uint16_t link_port = 0;        // of the links of its home: the same there
  std::uint64_t virtual_address = 0;  // the TLB's: the address before translation
};

struct MemoryExtension final : tlm::tlm_extension<MemoryExtension>, RequestScratch {
  tlm::tlm_extension_base* clone() const override { return new MemoryExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const MemoryExtension&>(other);  // NOLINT(*-static-cast-downcast): of its own kind
  }

  MemoryAction action = MemoryAction::plain;
  std::uint8_t sectors =
      0;  // bit = sector of the line that is wanted (reads, prefetch) or touched; 0: as the length says
  std::uint8_t subcontext = 0;
  bool physical = false;     // the address is not translated, whatever the subcontext (MEM-04)
  bool unmapped = false;     // response: the subcontext has no page there, or may not write to it
  std::optional<SmId> sm;    // who asks, where an SM does
  std::uint32_t kernel = 0;  // row of the kernel that asks (arch/kernel_account.h); 0: nobody's
  // Reads of a TMAU: SMs of the asking one's GPC, as bits of its masks, to which the crossbar delivers the data
  // (TMA-30); the response to the initiator is an acknowledgement then. 0: a response like any other.
  std::uint64_t multicast = 0;
  // Of a TMAU: bytes that request and response each carry on top of the header (TMA-15), so that links count them.
  std::uint8_t carried = 0;
  // A write or reduction of a TMAU: the L2 partition of the asking GPC takes it over and says so, whatever memory
  // answers later (TMA-45). The crossbar takes the mark away when it has said so.
  bool posted = false;
  // Of a TMAU: sectors of the line that memory is to give as well if the read misses the L2 (TMA-05).
  std::uint8_t promoted = 0;
  arch::EvictionPriority priority = arch::EvictionPriority::normal;
  // Of an asynchronous store or reduction to another CTA's shared memory: the bytes that its lanes write count at the
  // mbarrier at that offset there (CGA-14).
  struct Completion {
    std::uint32_t barrier = 0;
    std::uint32_t bytes = 0;
  };
  std::optional<Completion> completes;
  bool poisoned = false;  // response of a read: some of the data are corrupt
  // Of a read: whoever asks is told once, in a WrittenPacket with this number, when the line may have changed after
  // this read (PKT-14). 0: it is not.
  std::uint64_t watch = 0;
  // Answer of the CPU's memory to an atomic or a reduction: it knows this extension and has carried it out. A target
  // that ignores extensions leaves it false.
  bool carried_out = false;

  // atomic, reduce: done in this order
  arch::AtomicKind atomic = arch::AtomicKind::add;
  arch::ValueType type = arch::ValueType::u32;
  std::uint8_t lanes = 0;
  AtomicLanes lane;

  BulkNote bulk;
};

// A payload with its extension and buffers for one line. What a read needs lies close together.
class alignas(64) MemoryRequest final : public tlm::tlm_generic_payload {
 public:
  explicit MemoryRequest(tlm::tlm_mm_interface* pool) : tlm::tlm_generic_payload(pool) {
    set_extension(&extension);
    set_data_ptr(data.data());
  }
  ~MemoryRequest() override { clear_extension(&extension); }
  MemoryRequest(const MemoryRequest&) = delete;
  MemoryRequest& operator=(const MemoryRequest&) = delete;

  // For those who take its own extension away, and give it back.
  void set_extension(MemoryExtension* other) {
    tlm::tlm_generic_payload::set_extension(other);
    stripped_ = other != &extension;
  }
  void clear_extension(const MemoryExtension* other) {
    tlm::tlm_generic_payload::clear_extension(other);
    stripped_ = true;
  }
  bool has_own_extension() const { return !stripped_; }

  // Bytes [address, address + bytes) of one line; streaming width and sectors are set to match.
  void aim(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    set_command(command);
    set_address(address);
    set_data_length(bytes);
    set_streaming_width(bytes);
    const std::uint32_t first = arch::sector_of(address);
    const std::uint32_t last = arch::sector_of(address + bytes - 1);
    extension.sectors = static_cast<std::uint8_t>((2U << last) - (1U << first));
  }
  // Only bytes whose enable is TLM_BYTE_ENABLED (0xFF) count; to be filled for data_length bytes.
  std::uint8_t* use_enables() {
    set_byte_enable_ptr(enables.data());
    set_byte_enable_length(get_data_length());
    return enables.data();
  }

  MemoryExtension extension;

 private:
  bool stripped_ = false;

 public:
  alignas(64) std::array<std::uint8_t, arch::kLineBytes> data{};
  std::array<std::uint8_t, arch::kLineBytes> enables{};
};

// The extension of a payload; null for one that comes from elsewhere.
inline MemoryExtension* extension_of(tlm::tlm_generic_payload& payload) {
  // Ours are the rule, and looking an extension up is a call of the library.
  if (typeid(payload) == typeid(MemoryRequest)) {
    auto& request = static_cast<MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): as typeid says
    if (request.has_own_extension()) return &request.extension;
  }
  return payload.get_extension<MemoryExtension>();
}

// acquire() hands out a request with one reference and default attributes (a plain command of 0 bytes, status
// INCOMPLETE); release() of the last reference brings it home. The pool must outlive its requests.
class RequestPool final : public tlm::tlm_mm_interface {
 public:
  RequestPool() = default;
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  MemoryRequest& acquire() {
    if (free_.empty()) add_slab();
    MemoryRequest& request = *free_.back();
    free_.pop_back();
    request.acquire();
    return request;
  }
  ~RequestPool() override {
    for (MemoryRequest* slab : slabs_) {
      for (std::size_t i = 0; i < kSlab; ++i) slab[i].~MemoryRequest();
      give_back_big(slab, kSlab * sizeof(MemoryRequest));
    }
  }
  std::size_t in_use() const { return slabs_.size() * kSlab - free_.size(); }

 private:
  static constexpr std::size_t kSlab = 16;  // requests

  void add_slab() {
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve((slabs_.size() + 1) * kSlab);
    auto* slab = static_cast<MemoryRequest*>(take_big(kSlab * sizeof(MemoryRequest)));
    for (std::size_t i = 0; i < kSlab; ++i) new (slab + i) MemoryRequest(this);
    slabs_.push_back(slab);
    for (std::size_t i = kSlab; i-- > 0;) free_.push_back(slab + i);
  }
  void free(tlm::tlm_generic_payload* payload) override {
    auto& request = static_cast<MemoryRequest&>(*payload);  // NOLINT(*-static-cast-downcast): its memory manager
    request.set_command(tlm::TLM_IGNORE_COMMAND);
    request.set_address(0);
    request.set_data_length(0);
    request.set_streaming_width(0);
    request.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    request.set_byte_enable_ptr(nullptr);
    request.set_byte_enable_length(0);
    request.set_dmi_allowed(false);
    request.set_data_ptr(request.data.data());
    request.extension.action = MemoryAction::plain;
    request.extension.sectors = 0;
    request.extension.subcontext = 0;
    request.extension.physical = false;
    request.extension.unmapped = false;
    request.extension.sm.reset();
    request.extension.kernel = 0;
    request.extension.lanes = 0;
    request.extension.multicast = 0;
    request.extension.carried = 0;
    request.extension.posted = false;
    request.extension.promoted = 0;
    request.extension.priority = arch::EvictionPriority::normal;
    request.extension.completes.reset();
    request.extension.poisoned = false;
    request.extension.carried_out = false;
    request.extension.watch = 0;
    free_.push_back(&request);
  }

  std::vector<MemoryRequest*> slabs_;
  std::vector<MemoryRequest*> free_;
};

// Memory -> who watches a line: it may have changed since a read with that number. Once for each such read.
struct WrittenPacket {
  std::uint64_t watch = 0;
};

// Whether a request changes bytes, as far as permissions are concerned (PRT-08): atomics and reductions do as well.
inline bool writes(const tlm::tlm_generic_payload& payload, const MemoryExtension& extension) {
  if (payload.is_write()) return true;
  return extension.action != MemoryAction::plain && extension.action != MemoryAction::prefetch;
}

}  // namespace heddle::protocol
