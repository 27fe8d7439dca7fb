// The bytes of an input file, unpacked where the file is packed, read through one fixed buffer (INP-01, INP-07).
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>

namespace heddle::import {

// A read-only stream buffer that knows how many bytes were taken from it, so that an error can say where it is. Memory
// use does not depend on the length of the file. What goes wrong below (unreadable, truncated, damaged) leaves
// underflow() as an InputError: a parser on top can never mistake a damaged file for a short one.
class ByteSource : public std::streambuf {
 public:
  ~ByteSource() override = default;

  const std::string& name() const { return name_; }
  // Bytes taken so far, of the unpacked text.
  std::uint64_t position() const { return before_buffer_ + static_cast<std::uint64_t>(gptr() - eback()); }
  // "byte 17", or "byte 17 of the unpacked text" where the file is packed.
  std::string position_text(std::uint64_t position) const;
  virtual bool packed() const { return false; }
  // name() is a file that holds these very bytes.
  virtual bool plain_file() const { return false; }

 protected:
  explicit ByteSource(std::string name);
  // Reads up to `size` bytes; 0 is the end. Throws InputError.
  virtual std::size_t fill(char* buffer, std::size_t size) = 0;
  int_type underflow() final;

 private:
  std::string name_;
  std::unique_ptr<char[]> buffer_;
  std::uint64_t before_buffer_ = 0;  // bytes of all earlier buffers
};

// A file, plain or gzip by content and not by name. Throws InputError where it cannot be opened.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// The bytes of a stream as they are; `stream` must outlive the result. `name` stands for the file in messages.
std::unique_ptr<ByteSource> stream_bytes(std::istream& stream, const std::string& name);

}  // namespace heddle::import
