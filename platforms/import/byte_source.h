// The bytes of an input file, unpacked where the file is packed, read through one fixed buffer (INP-01, INP-07).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

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

struct csv_parser;

namespace heddle::import {

// Records of a CSV file (RFC 4180), one after another, through libcsv in its strict mode (INP-07).

// Blank lines are passed over, and so are a byte order mark and blanks around fields without quotes. Memory is that of
// the longest record.
class CsvReader {
 public:
  // `source` must outlive the reader. `passed`: lines that were taken from it before.
  explicit CsvReader(ByteSource& source, std::size_t passed = 0);
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;
  ~CsvReader();

  // Reads the next record; false at the end. Throws InputError with file, line, reason and remedy where the file cannot
  // be read or unpacked, where quotes are wrong, where a record is longer than 1 MiB, and where the last line does not
  // end: a number that was cut off would be a smaller number.
  bool next();
  const std::vector<std::string>& fields() const { return fields_; }
  // The line where the record began, from 1.
  std::size_t line() const { return first_line_; }

  const std::string& source_name() const { return source_.name(); }
  // Of the record.
  [[noreturn]] void fail(std::string_view what, std::string_view remedy) const;

 private:
  static void on_field(void* bytes, std::size_t size, void* self);
  static void on_record(int terminator, void* self);
  bool read_line();
  void parse_line();

  ByteSource& source_;
  std::unique_ptr<csv_parser> parser_;
  std::string text_;  // the line that is being parsed, with its end
  std::vector<std::string> fields_;
  bool complete_ = false;  // fields_ are a record
  bool surplus_ = false;   // a second record in one line
  std::size_t line_ = 0;
  std::size_t first_line_ = 0;
  std::size_t bytes_ = 0;     // of the record so far
  std::exception_ptr error_;  // of a callback: no exception may pass through C
};

}  // namespace heddle::import
