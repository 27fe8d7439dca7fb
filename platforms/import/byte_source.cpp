#include "import/byte_source.h"

#include <cerrno>
#include <cstring>
#include <csv.h>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "common/error.h"

namespace heddle::import {
namespace {

constexpr std::size_t kBufferBytes = 65'536;
constexpr unsigned kPackedBufferBytes = 65'536;

constexpr std::string_view kCopyAgain = "Copy or record the file again, or test it with `gzip -t`.";

class GzipFile final : public ByteSource {
 public:
  explicit GzipFile(const std::string& path) : ByteSource(path) {
    std::error_code ignored;  // what cannot be asked about cannot be opened either: gzopen says why
    if (std::filesystem::is_directory(path, ignored)) {
      throw InputError({path}, "is a directory", "Name a file in it.");
    }
    errno = 0;
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) {
      throw InputError({path}, fmt::format("cannot be opened: {}", errno != 0 ? std::strerror(errno) : "out of memory"),
                       "Check the name and the permissions of the file.");
    }
    gzbuffer(file_, kPackedBufferBytes);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() override { gzclose_r(file_); }

  bool packed() const override { return gzdirect(file_) == 0; }
  bool plain_file() const override {
    std::error_code ignored;  // what is gone, or a pipe, is no plain file
    return !packed() && std::filesystem::is_regular_file(name(), ignored);
  }

 protected:
  std::size_t fill(char* buffer, std::size_t size) override {
    static_assert(kBufferBytes <= std::numeric_limits<unsigned>::max());
    const int count = gzread(file_, buffer, static_cast<unsigned>(size));
    const int system_error = errno;
    int status = Z_OK;
    const char* text = gzerror(file_, &status);
    // A truncated file gives all it has and then Z_BUF_ERROR, not a failed read: without this test it would look like
    // a file that ends here (INP-07).
    if (count >= 0 && (status == Z_OK || status == Z_STREAM_END)) return static_cast<std::size_t>(count);
    const std::uint64_t good = position() + static_cast<std::uint64_t>(count > 0 ? count : 0);
    if (status == Z_BUF_ERROR) {
      throw InputError({name()}, fmt::format("{}: the gzip data are truncated", position_text(good)), kCopyAgain);
    }
    if (status == Z_ERRNO) {
      throw InputError({name()},
                       fmt::format("{}: cannot be read: {}", position_text(good), std::strerror(system_error)),
                       "Check that it is a readable file.");
    }
    throw InputError({name()}, fmt::format("{}: the gzip data are damaged: {}", position_text(good), reason(text)),
                     kCopyAgain);
  }

 private:
  // zlib puts the path before its reason; the message has it already.
  std::string_view reason(std::string_view text) const {
    const std::string prefix = name() + ": ";
    if (text.substr(0, prefix.size()) == prefix) text.remove_prefix(prefix.size());
    return text;
  }

  gzFile file_ = nullptr;
};

class StreamBytes final : public ByteSource {
 public:
  StreamBytes(std::istream& stream, std::string name) : ByteSource(std::move(name)), from_(stream.rdbuf()) {}

 protected:
  std::size_t fill(char* buffer, std::size_t size) override {
    return static_cast<std::size_t>(from_->sgetn(buffer, static_cast<std::streamsize>(size)));
  }

 private:
  std::streambuf* from_;
};

constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;  // the longest names of kernels have some thousand
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kPackAgain = "Copy or record the file again.";

}  // namespace

ByteSource::ByteSource(std::string name) : name_(std::move(name)), buffer_(new char[kBufferBytes]) {
  setg(buffer_.get(), buffer_.get(), buffer_.get());
}

std::string ByteSource::position_text(std::uint64_t position) const {
  return fmt::format("byte {}{}", position, packed() ? " of the unpacked text" : "");
}

ByteSource::int_type ByteSource::underflow() {
  if (gptr() == egptr()) {
    before_buffer_ += static_cast<std::uint64_t>(egptr() - eback());
    setg(buffer_.get(), buffer_.get(), buffer_.get());
    const std::size_t count = fill(buffer_.get(), kBufferBytes);
    setg(buffer_.get(), buffer_.get(), buffer_.get() + count);
    if (count == 0) return traits_type::eof();
  }
  return traits_type::to_int_type(*gptr());
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) { return std::make_unique<GzipFile>(path); }

std::unique_ptr<ByteSource> stream_bytes(std::istream& stream, const std::string& name) {
  return std::make_unique<StreamBytes>(stream, name);
}

CsvReader::CsvReader(ByteSource& source, std::size_t passed)
    : source_(source), parser_(std::make_unique<csv_parser>()), line_(passed) {
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
    fail("the file ends within quotes that this line opens", kPackAgain);
  }
  return false;
}

}  // namespace heddle::import
