#include "import/csv_reader.h"

#include <csv.h>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::import {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;  // the longest names of kernels have some thousand
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kCopyAgain = "Copy or record the file again.";

}  // namespace

CsvReader::CsvReader(ByteSource& source) : source_(source), parser_(std::make_unique<csv_parser>()) {
  if (csv_init(parser_.get(), CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
}

CsvReader::~CsvReader() { csv_free(parser_.get()); }

void CsvReader::fail(std::string_view what, std::string_view remedy) const {
  // SourcePos counts in int; a file of more lines than that has no number here, but still a reason.
  const std::size_t most = std::numeric_limits<int>::max();
  throw InputError({source_.name(), first_line_ <= most ? static_cast<int>(first_line_) : 0}, what, remedy);
}

void CsvReader::on_field(void* bytes, std::size_t size, void* self) {
  auto& reader = *static_cast<CsvReader*>(self);
  if (reader.complete_) {
    reader.surplus_ = true;
    return;
  }
  try {
    reader.fields_.emplace_back(static_cast<const char*>(bytes), size);
  } catch (...) {
    reader.error_ = std::current_exception();
  }
}

void CsvReader::on_record(int, void* self) { static_cast<CsvReader*>(self)->complete_ = true; }

// The next line with its end into text_; false at the end of the file.
bool CsvReader::read_line() {
  text_.clear();
  while (bytes_ + text_.size() < kMaxRecordBytes) {
    const int byte = source_.sbumpc();
    if (byte == std::streambuf::traits_type::eof()) break;
    text_.push_back(static_cast<char>(byte));
    if (text_.back() == '\n') break;
  }
  if (text_.empty()) return false;
  ++line_;
  if (bytes_ == 0) first_line_ = line_;
  bytes_ += text_.size();
  if (bytes_ >= kMaxRecordBytes) {
    fail("the record that begins here is longer than 1 MiB", "This is no CSV file, or a quote in it does not close.");
  }
  if (line_ == 1 && text_.compare(0, kByteOrderMark.size(), kByteOrderMark) == 0) {
    text_.erase(0, kByteOrderMark.size());
  }
  return true;
}

void CsvReader::parse_line() {
  const std::size_t parsed = csv_parse(parser_.get(), text_.data(), text_.size(), on_field, on_record, this);
  if (error_) std::rethrow_exception(error_);
  if (parsed != text_.size()) {
    if (csv_error(parser_.get()) == CSV_ENOMEM) throw std::bad_alloc();
    fail("a quote stands in the middle of a field", "A field with quotes is quoted as a whole: \"say \"\"so\"\"\".");
  }
  if (surplus_) fail("a carriage return stands in the middle of the line", "Lines end with LF, or with CR and LF.");
}

bool CsvReader::next() {
  fields_.clear();
  complete_ = false;
  bytes_ = 0;
  while (read_line()) {
    if (text_.empty() || text_.back() != '\n') {
      fail("the file ends in the middle of this line",
           "It was cut off: copy or record it again. If the line is whole, put a line end behind it.");
    }
    parse_line();
    if (complete_) return true;
    // A blank line is no record, and no part of one unless it is inside quotes.
    if (fields_.empty() && text_.find_first_not_of(" \t\r\n") == std::string::npos && parser_->quoted == 0) bytes_ = 0;
  }
  if (csv_fini(parser_.get(), on_field, on_record, this) != 0 || !fields_.empty()) {
    fail("the file ends within quotes that this line opens", kCopyAgain);
  }
  return false;
}

}  // namespace heddle::import
