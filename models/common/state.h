// State that outlives a quiet device's simulation: what each block writes of itself, and reads again (HST-08).
//
// Numbers are little-endian, 8 bytes each; texts and bytes have their length in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace heddle {

// What the reader refuses, the writer refuses: nothing is saved that cannot be restored.
class StateWriter {
 public:
  // `whose`: for messages.
  explicit StateWriter(std::string whose = {}) : whose_(std::move(whose)) {}

  void number(std::uint64_t value);
  // For StateReader::below(): throws InputError if it is not.
  void below(std::uint64_t value, std::uint64_t limit, const char* what);
  void flag(bool value) { number(value ? 1 : 0); }
  void text(std::string_view value);
  // For StateReader::text(): throws InputError if it is longer.
  void text(std::string_view value, std::size_t most, const char* what);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string whose_;
  std::string bytes_;
};

// Reads what a StateWriter has written, in the same order. The bytes may be anybody's: whatever is wrong with them is
// an InputError that names whose state it is.
class StateReader {
 public:
  // `whose`: for messages.
  StateReader(std::string whose, std::string bytes) : whose_(std::move(whose)), bytes_(std::move(bytes)) {}

  std::uint64_t number();
  // Below `limit`.
  std::uint64_t below(std::uint64_t limit, const char* what);
  template <class Enum>
  Enum one_of(std::uint64_t count, const char* what) {
    return static_cast<Enum>(below(count, what));
  }
  bool flag(const char* what) { return below(2, what) == 1; }
  std::string text(std::size_t most, const char* what);
  // Nothing is left.
  void end() const;
  [[noreturn]] void bad(std::string_view what) const;

 private:
  std::string whose_;
  std::string bytes_;
  std::size_t at_ = 0;
};

// A block with state that a quiet device keeps. Both are called while nothing is under way; restore() on a block that
// has just been reset.
class Saved {
 public:
  virtual void save(StateWriter& to) const = 0;
  // Throws InputError for what the block cannot have saved. It may be half restored then.
  virtual void restore(StateReader& from) = 0;

 protected:
  ~Saved() = default;
};

}  // namespace heddle
