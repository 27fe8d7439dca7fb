// Numbers of a trace, without loss.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "import/kineto_json.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr std::int64_t kMaxNanoseconds = 4'000'000'000'000'000'000;  // sums and differences of two of them fit 64 bits
constexpr int kMaxExponent = 40;                                     // far beyond the range either way

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// value * 10^power of the decimal number `text`, rounded half up (away from zero).
std::optional<std::int64_t> parse_scaled(std::string_view text, int power) {
  std::size_t at = 0;
  const bool negative = at < text.size() && text[at] == '-';
  if (negative) ++at;
  std::string digits;
  int point = power;  // the decimal point lies this many digits after the last one in `digits`
  bool fraction = false;
  for (; at < text.size(); ++at) {
    // The JSON parser writes numbers with the decimal point of the C locale in force, which may be a comma.
    if (!fraction && (text[at] == '.' || text[at] == ',')) {
      fraction = true;
    } else if (is_digit(text[at])) {
      digits += text[at];
      if (fraction) --point;
    } else {
      break;
    }
  }
  if (digits.empty()) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    const auto exponent = parse_integer(text.substr(at));
    if (!exponent || *exponent > kMaxExponent || *exponent < -kMaxExponent) return std::nullopt;
    point += static_cast<int>(*exponent);
    at = text.size();
  }
  if (at != text.size()) return std::nullopt;

  std::int64_t value = 0;
  const auto append = [&value](int digit) {
    if (value > (kMaxNanoseconds - digit) / 10) return false;
    value = value * 10 + digit;
    return true;
  };
  const auto length = static_cast<std::int64_t>(digits.size());
  const std::int64_t kept = length + point;  // digits before the point
  for (std::int64_t i = 0; i < kept; ++i) {
    if (i >= length && value == 0) break;
    if (!append(i < length ? digits[static_cast<std::size_t>(i)] - '0' : 0)) return std::nullopt;
  }
  if (kept >= 0 && kept < length && digits[static_cast<std::size_t>(kept)] >= '5') ++value;
  return negative ? -value : value;
}

}  // namespace

std::optional<std::int64_t> JsonValue::as_integer() const {
  if (kind == Kind::integer) return integer;
  if (kind == Kind::text) return parse_integer(text);
  // 256.0 is an integer to a tool that knows only doubles.
  if (kind == Kind::decimal) {
    if (text.find_first_of(".,") == std::string::npos) return std::nullopt;  // beyond 64 bits, or 1e9
    const std::size_t point = text.find_first_of(".,");
    if (text.find_first_not_of('0', point + 1) != std::string::npos) return std::nullopt;
    return parse_integer(std::string_view(text).substr(0, point));
  }
  return std::nullopt;
}

std::optional<double> JsonValue::as_double() const {
  if (kind == Kind::integer) return static_cast<double>(integer);
  if (kind != Kind::decimal && kind != Kind::text) return std::nullopt;
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<Nanoseconds> JsonValue::as_microseconds() const {
  if (kind == Kind::integer) {
    if (integer > kMaxNanoseconds / 1000 || integer < -kMaxNanoseconds / 1000) return std::nullopt;
    return integer * 1000;
  }
  if (kind == Kind::decimal || kind == Kind::text) return parse_scaled(text, 3);
  return std::nullopt;
}

std::string JsonValue::describe() const {
  switch (kind) {
    case Kind::absent:
      return "absent";
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
      return fmt::format("{}", integer);
    case Kind::decimal:
      return printable(text, 40);
    case Kind::text:
      return fmt::format("\"{}\"", printable(text, 40));
    case Kind::container:
      return "an object or array";
  }
  return "unknown";
}

void lower_ascii(std::string& text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
}

std::string printable(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return cut ? result + "..." : result;
}

}  // namespace heddle::import
