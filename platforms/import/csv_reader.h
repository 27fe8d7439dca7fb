// Records of a CSV file (RFC 4180), one after another, through libcsv in its strict mode (INP-07).
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/byte_source.h"

struct csv_parser;

namespace heddle::import {

// Blank lines are passed over, and so are a byte order mark and blanks around fields without quotes. Memory is that of
// the longest record.
class CsvReader {
 public:
  // `source` must outlive the reader.
  explicit CsvReader(ByteSource& source);
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
