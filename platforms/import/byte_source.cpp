#include "import/byte_source.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
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

}  // namespace heddle::import
