#include "common/storage.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace heddle {

Storage::Storage(std::uint64_t bytes) : bytes_(bytes) {
  HEDDLE_CHECK(bytes > 0 && bytes <= kMaxBytes, "a memory holds 1 byte to 64 TiB");
}

std::uint8_t* Storage::allocate(std::uint64_t page) {
  const std::uint64_t leaf = page / kLeafPages;
  if (leaf >= leaves_.size()) leaves_.resize(leaf + 1);
  if (leaves_[leaf] == nullptr) leaves_[leaf] = std::make_unique<Leaf>();
  ++pages_;
  return leaves_[leaf]->hold(page % kLeafPages);
}

std::uint8_t* Storage::range_of(std::uint64_t address, std::uint64_t length) {
  HEDDLE_CHECK(length > 0 && contains(address, length), "a range outside memory was asked for");
  HEDDLE_CHECK(address / kLeafBytes == (address + length - 1) / kLeafBytes, "a range across pieces of storage");
  const std::uint64_t first = address / kPageBytes;
  for (std::uint64_t page = first; page <= (address + length - 1) / kPageBytes; ++page) (void)get(page);
  return find(first) + address % kPageBytes;
}

void Storage::read_across(std::uint64_t address, std::uint8_t* to, std::uint64_t length) const {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were read");
  while (length > 0) {
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    read(address, to, part);
    address += part;
    to += part;
    length -= part;
  }
}

void Storage::write_across(std::uint64_t address, const std::uint8_t* from, std::uint64_t length) {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were written");
  while (length > 0) {
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    write(address, from, part);
    address += part;
    from += part;
    length -= part;
  }
}

void Storage::fill(std::uint64_t address, std::uint8_t value, std::uint64_t length) {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were filled");
  while (length > 0) {
    const std::uint64_t whole = std::min(kLeafBytes, bytes_ - address);  // of its piece, if it begins here
    if (value == 0 && address % kLeafBytes == 0 && length >= whole) {
      const std::uint64_t leaf = address / kLeafBytes;
      if (leaf < leaves_.size() && leaves_[leaf] != nullptr) leaves_[leaf]->discard();
      address += whole;
      length -= whole;
      continue;
    }
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    const std::uint64_t page = address / kPageBytes;
    if (value != 0 || find(page) != nullptr) std::memset(get(page) + address % kPageBytes, value, part);
    address += part;
    length -= part;
  }
}

void Storage::clear() {
  leaves_.clear();
  pages_ = 0;
}

}  // namespace heddle

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace heddle {

#if defined(MAP_ANONYMOUS) && defined(MAP_NORESERVE) && defined(MADV_DONTNEED)

// Not in huge pages: a memory that is touched here and there would be as large as all that it reserves.
Storage::Leaf::Leaf() {
  void* mapped = mmap(nullptr, kLeafBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_NOHUGEPAGE)
  (void)madvise(mapped, kLeafBytes, MADV_NOHUGEPAGE);
#endif
  bytes_ = static_cast<std::uint8_t*>(mapped);
}

Storage::Leaf::~Leaf() { munmap(bytes_, kLeafBytes); }

// They stay held: somebody may have a pointer.
void Storage::Leaf::discard() {
  if (madvise(bytes_, kLeafBytes, MADV_DONTNEED) != 0) std::memset(bytes_, 0, kLeafBytes);
}

#else

// What large zeroed arrays cost before they are touched, the system says.
Storage::Leaf::Leaf() : bytes_(static_cast<std::uint8_t*>(std::calloc(kLeafBytes, 1))) {
  if (bytes_ == nullptr) throw std::bad_alloc();
}

Storage::Leaf::~Leaf() { std::free(bytes_); }

void Storage::Leaf::discard() { std::memset(bytes_, 0, kLeafBytes); }

#endif

namespace {

constexpr std::size_t kAlignment = 64;

constexpr std::size_t up_to(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* take_small(std::size_t bytes) {
  const std::size_t size = up_to(std::max<std::size_t>(bytes, 1), kAlignment);
  void* memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, size);
  return memory;
}

// Address sanitizers see more of ordinary memory.
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)

constexpr std::size_t kSmall = 4096;  // below, ordinary memory
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kChunk = 16 * kHugePage;

// Chunks of address space that are cut into arrays: most arrays of a machine are smaller than a huge page, but there
// are many of them.
class Chunks {
 public:
  void* take(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Chunk& chunk : chunks_) {
      for (std::size_t i = chunk.free.size(); i-- > 0;) {
        if (chunk.free[i].bytes != bytes) continue;
        std::uint8_t* memory = chunk.free[i].memory;
        chunk.free.erase(chunk.free.begin() + static_cast<std::ptrdiff_t>(i));
        ++chunk.live;
        std::memset(memory, 0, bytes);
        return memory;
      }
    }
    for (Chunk& chunk : chunks_) {
      if (chunk.size - chunk.used >= bytes) return cut(chunk, bytes);
    }
    return cut(add(std::max(kChunk, up_to(bytes, kHugePage))), bytes);
  }
  void give_back(void* array, std::size_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto* memory = static_cast<std::uint8_t*>(array);
    const auto found = std::find_if(chunks_.begin(), chunks_.end(), [memory](const Chunk& chunk) {
      return memory >= chunk.begin && memory < chunk.begin + chunk.size;
    });
    if (--found->live > 0) {
      found->free.push_back({memory, bytes});
      return;
    }
    munmap(found->mapped, found->size + kHugePage);
    chunks_.erase(found);
  }

 private:
  struct Free {
    std::uint8_t* memory;
    std::size_t bytes;
  };
  struct Chunk {
    void* mapped = nullptr;
    std::uint8_t* begin = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;
    std::size_t live = 0;  // arrays
    std::vector<Free> free;
  };

  static void* cut(Chunk& chunk, std::size_t bytes) {
    std::uint8_t* memory = chunk.begin + chunk.used;
    chunk.used += bytes;
    ++chunk.live;
    return memory;
  }
  Chunk& add(std::size_t size) {
    void* mapped = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    Chunk chunk;
    chunk.mapped = mapped;
    const auto address = reinterpret_cast<std::uintptr_t>(mapped);
    chunk.begin = static_cast<std::uint8_t*>(mapped) + (up_to(address, kHugePage) - address);
    chunk.size = size;
    (void)madvise(chunk.begin, size, MADV_HUGEPAGE);  // only a wish
    chunks_.push_back(chunk);
    return chunks_.back();
  }

  std::mutex mutex_;
  std::vector<Chunk> chunks_;
};

Chunks& chunks() {
  static Chunks& instance = *new Chunks;  // lives longer than any owner of an array
  return instance;
}

}  // namespace

void* take_big(std::size_t bytes) {
  return bytes < kSmall ? take_small(bytes) : chunks().take(up_to(bytes, kAlignment));
}

void give_back_big(void* memory, std::size_t bytes) noexcept {
  if (bytes < kSmall) {
    std::free(memory);
  } else {
    chunks().give_back(memory, up_to(bytes, kAlignment));
  }
}

#else

}  // namespace

void* take_big(std::size_t bytes) { return take_small(bytes); }
void give_back_big(void* memory, std::size_t) noexcept { std::free(memory); }

#endif

}  // namespace heddle
