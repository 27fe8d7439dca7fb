// Messages in the wire format of protocol buffers (protobuf.dev, Encoding), as far as a writer needs it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace heddle {

class Protobuf {
 public:
  // int32, int64 (negative ones as two's complement), uint32, uint64, bool and enums.
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {  // fixed64
    tag(field, 1);
    for (int byte = 0; byte < 8; ++byte) bytes_.push_back(static_cast<char>(value >> 8 * byte));
  }
  void real(std::uint32_t field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    fixed(field, bits);
  }
  void text(std::uint32_t field, std::string_view value) {  // string, bytes
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const Protobuf& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, std::uint32_t type) { varint(std::uint64_t{field} << 3U | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_.push_back(static_cast<char>(value | 0x80U));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace heddle
