#include "gpu/state_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "common/error.h"

namespace heddle::gpu {
namespace {

constexpr std::array<char, 8> kMagic{'H', 'D', 'L', 'S', 'T', 'A', 'T', 'E'};
constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMostName = 64;
constexpr int kLevel = 1;  // most of a memory is numbers that compress little, or zeros that always do

std::array<char, 4> bytes_of(std::uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8), static_cast<char>(value >> 16),
          static_cast<char>(value >> 24)};
}

template <std::size_t N>
std::uint64_t number_of(const std::array<char, N>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < N; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << 8 * i;
  return value;
}

}  // namespace

struct StateFileWriter::Stream {
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { deflateEnd(&z); }

  z_stream z{};
  std::vector<unsigned char> block = std::vector<unsigned char>(kBlockBytes);
};

StateFileWriter::StateFileWriter(std::ostream& out) : out_(out), stream_(std::make_unique<Stream>()) {
  if (deflateInit(&stream_->z, kLevel) != Z_OK) throw std::bad_alloc();
  stream_->z.next_out = stream_->block.data();
  stream_->z.avail_out = kBlockBytes;
  put(kMagic.data(), kMagic.size());
  put(bytes_of(kStateVersion).data(), 4);
  put(bytes_of(0).data(), 4);
}

StateFileWriter::~StateFileWriter() = default;

void StateFileWriter::put(const void* bytes, std::size_t count) {
  try {
    out_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  } catch (const std::ios_base::failure&) {  // the stream was told to throw; check() says it in our words
  }
  check();
}

void StateFileWriter::check() const {
  if (!out_) throw InputError("the stream that the device is saved into takes no more", "see whether its disk is full");
}

void StateFileWriter::compress(const void* bytes, std::size_t count, int flush) {
  z_stream& z = stream_->z;
  z.next_in = static_cast<Bytef*>(const_cast<void*>(bytes));  // NOLINT(*-const-cast): zlib only reads it
  z.avail_in = static_cast<uInt>(count);
  for (int result = Z_OK; result == Z_OK && (z.avail_in > 0 || flush == Z_FINISH);) {
    result = deflate(&z, flush);
    if (z.avail_out > 0 && result != Z_STREAM_END) continue;
    const std::size_t full = kBlockBytes - z.avail_out;
    put(bytes_of(static_cast<std::uint32_t>(full)).data(), 4);
    put(stream_->block.data(), full);
    z.next_out = stream_->block.data();
    z.avail_out = kBlockBytes;
  }
}

void StateFileWriter::begin(std::string_view name, std::uint64_t bytes) {
  add(bytes_of(static_cast<std::uint32_t>(name.size())).data(), 4);
  add(name.data(), name.size());
  add(bytes_of(static_cast<std::uint32_t>(bytes)).data(), 4);
  add(bytes_of(static_cast<std::uint32_t>(bytes >> 32)).data(), 4);
}

void StateFileWriter::add(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  while (count > 0) {
    const std::size_t part = std::min<std::size_t>(count, std::size_t{1} << 30);
    compress(from, part, Z_NO_FLUSH);
    from += part;
    count -= part;
  }
}

void StateFileWriter::section(std::string_view name, std::string_view bytes) {
  if (bytes.size() > kMostSectionBytes) {
    throw InputError(fmt::format("the part '{}' of the device has {} bytes, and no more than {} can be restored", name,
                                 bytes.size(), kMostSectionBytes),
                     "save the device while there is less in it");
  }
  begin(name, bytes.size());
  add(bytes.data(), bytes.size());
}

void StateFileWriter::finish() {
  add(bytes_of(0).data(), 4);
  compress(nullptr, 0, Z_FINISH);
  put(bytes_of(0).data(), 4);
  try {
    out_.flush();  // what the stream has kept back so far has to find its place as well
  } catch (const std::ios_base::failure&) {
  }
  check();
}

struct StateFileReader::Stream {
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { inflateEnd(&z); }

  z_stream z{};
  std::vector<unsigned char> block = std::vector<unsigned char>(kBlockBytes);
  bool ended = false;  // the last byte of the compressed stream has been taken
};

// Also of a stream that was told to throw.
bool StateFileReader::read(void* to, std::size_t count) {
  try {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
  } catch (const std::ios_base::failure&) {
    return false;
  }
  return static_cast<bool>(in_);
}

StateFileReader::StateFileReader(std::istream& in) : in_(in), stream_(std::make_unique<Stream>()) {
  std::array<char, 8> magic{};
  std::array<char, 4> version{};
  std::array<char, 4> zero{};
  if (!read(magic.data(), magic.size()) || magic != kMagic) {
    throw InputError("this is no saved device: it does not begin with HDLSTATE", "name a file that save() has written");
  }
  if (!read(version.data(), version.size()) || !read(zero.data(), zero.size())) bad("it ends too early");
  if (number_of(version) != kStateVersion) {
    throw InputError(fmt::format("the device was saved in version {} of the format, and this is version {}",
                                 number_of(version), kStateVersion),
                     "restore it with the release that has saved it");
  }
  if (number_of(zero) != 0) bad("its head is wrong");
  if (inflateInit(&stream_->z) != Z_OK) throw std::bad_alloc();
}

StateFileReader::~StateFileReader() = default;

void StateFileReader::bad(std::string_view what) {
  throw InputError(fmt::format("the saved device is damaged: {}", what), "save it again");
}

bool StateFileReader::refill() {
  std::array<char, 4> length{};
  if (!read(length.data(), length.size())) bad("it ends too early");
  const std::uint64_t bytes = number_of(length);
  if (bytes > kBlockBytes) bad("a block is too long");
  if (!read(stream_->block.data(), bytes)) bad("it ends too early");
  stream_->z.next_in = stream_->block.data();
  stream_->z.avail_in = static_cast<uInt>(bytes);
  return bytes > 0;
}

void StateFileReader::take(void* to, std::size_t count) {
  z_stream& z = stream_->z;
  z.next_out = static_cast<Bytef*>(to);
  z.avail_out = static_cast<uInt>(count);
  while (z.avail_out > 0) {
    if (stream_->ended) bad("it ends too early");
    if (z.avail_in == 0 && !refill()) bad("it ends too early");
    const int result = inflate(&z, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      stream_->ended = true;
    } else if (result != Z_OK) {
      bad("its checksum or its compression is wrong");
    }
  }
}

void StateFileReader::get(void* to, std::size_t count) { take(to, count); }

std::uint64_t StateFileReader::begin(std::string_view name) {
  std::array<char, 4> length{};
  take(length.data(), length.size());
  const std::uint64_t bytes = number_of(length);
  if (bytes > kMostName) bad("a name is too long");
  std::string found(bytes, '\0');
  take(found.data(), found.size());
  if (found != name) bad(fmt::format("'{}' is where '{}' has to be", found, name));
  if (name.empty()) return 0;
  std::array<char, 8> size{};
  take(size.data(), size.size());
  return number_of(size);
}

std::string StateFileReader::section(std::string_view name) {
  const std::uint64_t bytes = begin(name);
  if (bytes > kMostSectionBytes) bad(fmt::format("'{}' is too long", name));
  std::string content;
  while (content.size() < bytes) {  // nothing is taken on a mere promise
    const std::size_t at = content.size();
    content.resize(at + std::min<std::size_t>(bytes - at, kBlockBytes));
    take(content.data() + at, content.size() - at);
  }
  return content;
}

void StateFileReader::finish() {
  (void)begin({});
  z_stream& z = stream_->z;
  unsigned char none = 0;
  while (!stream_->ended) {
    z.next_out = &none;
    z.avail_out = 1;
    if (z.avail_in == 0 && !refill()) bad("it ends too early");
    const int result = inflate(&z, Z_NO_FLUSH);
    if (z.avail_out == 0) bad("bytes are left over");
    if (result == Z_STREAM_END) {
      stream_->ended = true;
    } else if (result != Z_OK) {
      bad("its checksum or its compression is wrong");
    }
  }
  if (z.avail_in > 0 || refill()) bad("bytes are left over");
}

}  // namespace heddle::gpu
