// Memory for big arrays, in huge pages where the system offers them: a machine touches far more of it in a cycle than
// the translation buffers of ordinary pages cover.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

// Aligned to 64 bytes, and zero. Pages that are never touched cost nothing. From any thread. Throws std::bad_alloc.
void* take_big(std::size_t bytes);
// `bytes`: as it was taken.
void give_back_big(void* memory, std::size_t bytes) noexcept;

template <class T>
class BigAllocator {
 public:
  using value_type = T;

  BigAllocator() = default;
  template <class Other>
  BigAllocator(const BigAllocator<Other>&) {}  // NOLINT(google-explicit-constructor): what an allocator needs

  T* allocate(std::size_t count) { return static_cast<T*>(take_big(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { give_back_big(memory, count * sizeof(T)); }

  template <class Other>
  bool operator==(const BigAllocator<Other>&) const {
    return true;
  }
  template <class Other>
  bool operator!=(const BigAllocator<Other>&) const {
    return false;
  }
};

template <class T>
using BigVector = std::vector<T, BigAllocator<T>>;

// An array of plain data, all zero.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t count) : data_(static_cast<T*>(take_big(count * sizeof(T)))), count_(count) {}
  ~ZeroedArray() { drop(); }
  ZeroedArray(ZeroedArray&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  T* get() { return data_; }
  const T* get() const { return data_; }

 private:
  void drop() {
    if (data_ != nullptr) give_back_big(data_, count_ * sizeof(T));
  }

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace heddle
