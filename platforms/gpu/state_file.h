// The file that a device is saved into (HST-08).
//
// Sixteen bytes of head: 'H', 'D', 'L', 'S', 'T', 'A', 'T', 'E', the version in 4 bytes, 4 bytes of zero. Then blocks:
// 4 bytes with a length, and as many bytes; a length of 0 ends the file. All blocks together are one zlib stream
// (RFC 1950), whose checksum covers everything. In it are sections: the length of a name in 4 bytes, the name, the
// length of what follows in 8 bytes, and that; a name of length 0 ends them. Numbers are little-endian.
//
// Nothing is read from the stream behind the end, so that several files can follow each other in one.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace heddle::gpu {

constexpr std::uint32_t kStateVersion = 1;
// Of a section that is taken into memory as a whole. The code of all subcontexts together is half of it.
constexpr std::size_t kMostSectionBytes = std::size_t{2} << 30;

class StateFileWriter {
 public:
  // Throws InputError, as do all others, if the stream does not take it.
  explicit StateFileWriter(std::ostream& out);
  ~StateFileWriter();

  // A section of so many bytes, which add() brings.
  void begin(std::string_view name, std::uint64_t bytes);
  void add(const void* bytes, std::size_t count);
  void section(std::string_view name, std::string_view bytes);
  void finish();

 private:
  void compress(const void* bytes, std::size_t count, int flush);
  void put(const void* bytes, std::size_t count);
  void check() const;

  std::ostream& out_;
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

class StateFileReader {
 public:
  // Throws InputError, as do all others, for what is no such file, one of another version, one that ends too early and
  // one that is damaged.
  explicit StateFileReader(std::istream& in);
  ~StateFileReader();

  // The next section, which has to have that name: its length. get() takes its bytes.
  std::uint64_t begin(std::string_view name);
  void get(void* to, std::size_t count);
  // All of it, kMostSectionBytes at most.
  std::string section(std::string_view name);
  // There is no other section, and the checksum is right.
  void finish();

 private:
  bool read(void* to, std::size_t count);
  bool refill();
  void take(void* to, std::size_t count);
  [[noreturn]] static void bad(std::string_view what);

  std::istream& in_;
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace heddle::gpu
