// Page tables of a subcontext (MEM-04, PRT-08): how they lie in device memory, how they are written, how they are read.
//
// A format of our own. A virtual address has 49 bits; pages are of 64 KiB or 2 MiB. Four levels of tables of 8-byte
// little-endian entries; a table lies at a physical address that is a multiple of 256 bytes:
//
//   level  index       entries  an entry covers   is
//   0      bits 41-48  256      2 TiB             a table       (the root)
//   1      bits 31-40  1024     2 GiB             a table
//   2      bits 21-30  1024     2 MiB             a table, or a page of 2 MiB (large)
//   3      bits 16-20  32       64 KiB            a page of 64 KiB
//
// Entry: bit 0 present, bit 1 writable (pages), bit 2 large (level 2), bits 8-55 bits 8-55 of the physical address of
// the table or page; the others are 0. Anything else (an unknown bit, a large entry of another level, a page that does
// not lie on a multiple of its size, an address with more than 49 bits) is no mapping: an access there is a fault.
//
// Whoever changes an entry tells the machine the root again (SubcontextPacket): translations that TLBs hold go then.
//
// What the loader has to map for the machine itself, each at its own address (virtual = physical), read-only unless it
// says otherwise, because programs reach it by ordinary loads and stores of their subcontext:
//   - kernargs that lie in device memory; with device-side launches the pool of TMDs (arch/task_record.h), whose kArgs
//     a child finds at `kernarg`;
//   - queues of queue tasks, header and entries: a CTA finds its entry at `kernarg`;
//   - the CGA linear memory of the subcontext's own slots, writable. Neighbours share a page unless the slots of a
//     subcontext together are a multiple of 64 KiB;
//   - tensor descriptors, wherever they lie;
//   - of a queue of packets of the subcontext, what of it lies in device memory: ring, read index, kernel objects and
//     signals (writable where packets write). The host's memory is not translated.
// What SMs, task management and the packet processor do to structures by themselves (task records, TMDQs, tickets of
// queues, areas of saved CTAs, tables of references) uses physical addresses, and needs no mapping.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace heddle::arch {

constexpr std::uint32_t kVirtualBits = 49;
constexpr std::uint32_t kSmallPageBits = 16;
constexpr std::uint32_t kLargePageBits = 21;
constexpr std::uint64_t kSmallPage = std::uint64_t{1} << kSmallPageBits;
constexpr std::uint64_t kLargePage = std::uint64_t{1} << kLargePageBits;
constexpr std::uint32_t kPageEntryBytes = 8;
constexpr std::uint64_t kPageTableAlignment = 256;

struct PageLevel {
  std::uint32_t shift = 0;  // lowest bit of its index
  std::uint32_t bits = 0;
  constexpr std::uint32_t entries() const { return 1U << bits; }
};
constexpr std::uint32_t kPageLevels = 4;
constexpr std::array<PageLevel, kPageLevels> kLevels{{{41, 8}, {31, 10}, {21, 10}, {16, 5}}};

constexpr bool is_virtual(std::uint64_t address) { return address >> kVirtualBits == 0; }
constexpr std::uint64_t page_index(std::uint64_t address, std::uint32_t level) {
  return address >> kLevels[level].shift & (kLevels[level].entries() - 1);
}

struct PageEntry {
  enum class Kind : std::uint8_t { none, table, page };
  Kind kind = Kind::none;
  bool writable = false;
  std::uint64_t address = 0;    // of the table or page
  std::uint32_t page_bits = 0;  // page: its size is 2^page_bits bytes
};
// Of an entry of that level.
PageEntry decode_entry(std::uint64_t word, std::uint32_t level);
std::uint64_t table_entry(std::uint64_t table);
std::uint64_t page_entry(std::uint64_t frame, bool writable, bool large);

// What an address comes to. page_bits kWholeSpace: the subcontext's addresses are not translated.
struct Translation {
  static constexpr std::uint32_t kWholeSpace = 64;

  bool present = false;
  bool writable = false;
  std::uint64_t page = 0;   // virtual address at which the page begins
  std::uint64_t frame = 0;  // physical
  std::uint32_t page_bits = kSmallPageBits;

  bool untranslated() const { return page_bits == kWholeSpace; }
  bool covers(std::uint64_t address) const { return untranslated() || (address ^ page) >> page_bits == 0; }
  std::uint64_t physical(std::uint64_t address) const { return untranslated() ? address : frame + (address - page); }
  bool allows(bool write) const { return present && (writable || !write); }
};
constexpr bool operator==(const Translation& a, const Translation& b) {
  return a.present == b.present && a.writable == b.writable && a.page == b.page && a.frame == b.frame &&
         a.page_bits == b.page_bits;
}
inline Translation identity() { return {true, true, 0, 0, Translation::kWholeSpace}; }

// One walk after another by whoever reads the entries. Nothing of an address but its page counts.
class PageWalk {
 public:
  PageWalk() = default;
  PageWalk(std::uint64_t root, std::uint64_t address);

  bool done() const { return done_; }
  // Not done: the physical address of the entry that is needed next.
  std::uint64_t wanted() const { return wanted_; }
  void feed(std::uint64_t word);
  // The entry could not be read: nothing is mapped there.
  void fail();
  // Done.
  const Translation& result() const { return result_; }
  std::uint32_t reads() const { return level_; }  // entries so far

 private:
  void enter(std::uint64_t table);

  std::uint64_t address_ = 0;
  std::uint64_t wanted_ = 0;
  std::uint32_t level_ = 0;
  bool done_ = true;
  Translation result_;
};

// Writes tables into a region of physical memory, from its beginning on. What it has written is kept here as well, so
// that nothing is read.
class PageTables {
 public:
  // Called for every entry that changes, and for all entries of a new table; addresses are multiples of 8.
  using Write = std::function<void(std::uint64_t address, std::uint64_t value)>;

  // Writes an empty root. `base`: a multiple of kPageTableAlignment.
  PageTables(std::uint64_t base, std::uint64_t bytes, Write write);

  std::uint64_t root() const { return root_; }
  std::uint64_t used() const { return next_ - base_; }  // bytes of the region

  // All three are multiples of 64 KiB, and the virtual range lies below 2^49. Pages are large wherever both addresses
  // and the rest of the range allow it. What was mapped there before is replaced. InputError if the region is full.
  void map(std::uint64_t virtual_address, std::uint64_t physical, std::uint64_t bytes, bool writable);
  void unmap(std::uint64_t virtual_address, std::uint64_t bytes);

 private:
  using Table = std::vector<std::uint64_t>;

  std::uint64_t new_table(std::uint32_t level);
  void set(std::uint64_t table, std::uint64_t index, std::uint64_t word);
  // Of the table of that level that holds the address; made if it is not there.
  std::uint64_t table_of(std::uint64_t address, std::uint32_t level);
  void split(std::uint64_t table, std::uint64_t index, const PageEntry& large);

  std::uint64_t base_;
  std::uint64_t end_;
  std::uint64_t next_;
  Write write_;
  std::unordered_map<std::uint64_t, Table> tables_;
  std::uint64_t root_ = 0;
};

// Bytes of tables that suffice for `ranges` ranges of `bytes` bytes together.
std::uint64_t page_table_bytes(std::uint64_t ranges, std::uint64_t bytes);

}  // namespace heddle::arch
