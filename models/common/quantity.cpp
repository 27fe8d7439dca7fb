#include "common/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle {
namespace {

enum class Family { number, cycles, time, bytes, frequency, rate, byte_rate, percent, energy, power, voltage, length };

// One spelling of a unit, worth 10^tens * 2^twos of its family's base. The first spelling of a unit is the one we
// print.
struct Spelling {
  std::string_view text;
  Unit unit;
  Family family;
  int tens;
  int twos;
};

constexpr std::array kSpellings = {
    Spelling{"", Unit::none, Family::number, 0, 0},
    Spelling{"", Unit::count, Family::number, 0, 0},
    Spelling{"cycles", Unit::cycles, Family::cycles, 0, 0},
    Spelling{"cycle", Unit::cycles, Family::cycles, 0, 0},
    Spelling{"ps", Unit::ps, Family::time, -12, 0},
    Spelling{"ns", Unit::ns, Family::time, -9, 0},
    Spelling{"us", Unit::us, Family::time, -6, 0},
    Spelling{"\u00b5s", Unit::us, Family::time, -6, 0},  // micro sign
    Spelling{"\u03bcs", Unit::us, Family::time, -6, 0},  // Greek letter
    Spelling{"ms", Unit::ms, Family::time, -3, 0},
    Spelling{"s", Unit::s, Family::time, 0, 0},
    Spelling{"B", Unit::bytes, Family::bytes, 0, 0},
    Spelling{"bytes", Unit::bytes, Family::bytes, 0, 0},
    Spelling{"byte", Unit::bytes, Family::bytes, 0, 0},
    Spelling{"KiB", Unit::kib, Family::bytes, 0, 10},
    Spelling{"MiB", Unit::mib, Family::bytes, 0, 20},
    Spelling{"GiB", Unit::gib, Family::bytes, 0, 30},
    Spelling{"Hz", Unit::hz, Family::frequency, 0, 0},
    Spelling{"kHz", Unit::khz, Family::frequency, 3, 0},
    Spelling{"MHz", Unit::mhz, Family::frequency, 6, 0},
    Spelling{"GHz", Unit::ghz, Family::frequency, 9, 0},
    Spelling{"/cycle", Unit::per_cycle, Family::rate, 0, 0},
    Spelling{"per cycle", Unit::per_cycle, Family::rate, 0, 0},
    Spelling{"B/cycle", Unit::bytes_per_cycle, Family::byte_rate, 0, 0},
    Spelling{"%", Unit::percent, Family::percent, 0, 0},
    Spelling{"percent", Unit::percent, Family::percent, 0, 0},
    Spelling{"pJ", Unit::pj, Family::energy, -12, 0},
    Spelling{"nJ", Unit::nj, Family::energy, -9, 0},
    Spelling{"W", Unit::watts, Family::power, 0, 0},
    Spelling{"V", Unit::volts, Family::voltage, 0, 0},
    Spelling{"mm", Unit::mm, Family::length, 0, 0},
};

const Spelling& spelling_of(Unit unit) {
  return *std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return s.unit == unit; });
}

const Spelling* spelling_of(std::string_view text) {
  const auto found =
      std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) { return s.text == text; });
  return found == kSpellings.end() ? nullptr : &*found;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Broken files hold values of any length; a message shows the head.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 60;
  if (text.size() <= kMaxShown) return std::string(text);
  return std::string(text.substr(0, kMaxShown)) + "…";
}

[[noreturn]] void throw_not_a_number(std::string_view text) {
  throw InputError(fmt::format("\"{}\" is not a number", shown(text)));
}

// A decimal number as digits * 10^tens: exact, whatever unit it is converted to.
struct Decimal {
  bool negative = false;
  std::string digits;  // no leading and no trailing zeros; empty: zero
  int tens = 0;
  int twos = 0;
};

// Exponents beyond this are out of range or zero for every type that we read.
constexpr int kMaxExponent = 100'000;

Decimal read_decimal(std::string_view& rest, std::string_view whole) {
  Decimal d;
  std::size_t i = 0;
  if (i < rest.size() && (rest[i] == '+' || rest[i] == '-')) d.negative = rest[i++] == '-';
  const std::size_t first = i;
  bool any = false;
  for (; i < rest.size() && is_digit(rest[i]); ++i, any = true) d.digits += rest[i];
  if (d.digits.size() > 1 && d.digits.front() == '0') {
    // YAML 1.1 reads 010 as eight and YAML 1.2 as ten.
    throw InputError(fmt::format("\"{}\" begins with a zero", shown(whole)), "write the number without leading zeros");
  }
  if (i < rest.size() && rest[i] == '.') {
    for (++i; i < rest.size() && is_digit(rest[i]); ++i, any = true) {
      d.digits += rest[i];
      --d.tens;
    }
  }
  if (!any || first == rest.size()) throw_not_a_number(whole);
  // An exponent only if digits follow, so that "5 e" and "3em" fail for their unit.
  if (i < rest.size() && (rest[i] == 'e' || rest[i] == 'E')) {
    std::size_t j = i + 1;
    const bool minus = j < rest.size() && rest[j] == '-';
    if (j < rest.size() && (rest[j] == '+' || rest[j] == '-')) ++j;
    if (j < rest.size() && is_digit(rest[j])) {
      int exponent = 0;
      for (; j < rest.size() && is_digit(rest[j]); ++j)
        exponent = std::min(kMaxExponent, exponent * 10 + (rest[j] - '0'));
      d.tens += minus ? -exponent : exponent;
      i = j;
    }
  }
  d.digits.erase(0, d.digits.find_first_not_of('0'));
  while (!d.digits.empty() && d.digits.back() == '0') {
    d.digits.pop_back();
    ++d.tens;
  }
  rest.remove_prefix(i);
  return d;
}

// The families that a unit may be exchanged within, for the remedy.
std::string accepted_units(Unit wanted) {
  const Family family = spelling_of(wanted).family;
  if (family == Family::number) return "write a plain number";
  std::vector<std::string_view> names;
  for (const Spelling& s : kSpellings) {
    if (s.family == family && &s == &spelling_of(s.unit)) names.push_back(s.text);
  }
  return fmt::format("units accepted here: {}", fmt::join(names, ", "));
}

Decimal read_converted(std::string_view whole, Unit wanted, BareNumber bare) {
  std::string_view rest = trimmed(whole);
  if (rest.empty()) throw InputError("there is no value");
  Decimal d = read_decimal(rest, whole);
  const std::string_view unit = trimmed(rest);
  const Spelling& to = spelling_of(wanted);
  if (unit.empty()) {
    if (bare == BareNumber::refused && !d.digits.empty()) {
      throw InputError(fmt::format("{} has no unit", shown(whole)), accepted_units(wanted));
    }
    return d;
  }
  const Spelling* from = spelling_of(unit);
  if (from == nullptr) {
    if (!std::any_of(unit.begin(), unit.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '%' || c == '/'; }) &&
        std::any_of(unit.begin(), unit.end(), is_digit)) {
      throw_not_a_number(whole);
    }
    throw InputError(fmt::format("\"{}\" in \"{}\" is not a known unit", shown(unit), shown(whole)),
                     accepted_units(wanted));
  }
  if (from->family != to.family) {
    throw InputError(fmt::format("{} is in {}, {} is expected", shown(whole), from->text,
                                 to.text.empty() ? std::string("a number without unit") : std::string(to.text)),
                     accepted_units(wanted));
  }
  d.tens += from->tens - to.tens;
  d.twos += from->twos - to.twos;
  return d;
}

__extension__ using Wide = unsigned __int128;

// Multiplies `value` by base^exponent for exponent > 0; false on overflow.
bool scale_up(Wide& value, unsigned base, int exponent) {
  for (int i = 0; i < exponent; ++i) {
    if (value > ~Wide{0} / base) return false;
    value *= base;
  }
  return true;
}

// Divides by base^-exponent for exponent < 0; false if something is left over.
bool scale_down(Wide& value, unsigned base, int exponent) {
  for (int i = 0; i > exponent; --i) {
    if (value % base != 0) return false;
    value /= base;
  }
  return true;
}

}  // namespace

std::string_view unit_text(Unit unit) { return spelling_of(unit).text; }

std::string with_unit(std::string_view number, Unit unit) {
  const std::string_view text = unit_text(unit);
  return text.empty() ? std::string(number) : fmt::format("{} {}", number, text);
}

std::string number_text(std::int64_t value) { return fmt::format("{}", value); }
std::string number_text(std::uint64_t value) { return fmt::format("{}", value); }
std::string number_text(double value) { return fmt::format("{}", value); }

namespace detail {

void throw_out_of_range(std::string_view text) { throw InputError(fmt::format("{} is out of range", shown(text))); }

void throw_negative(std::string_view text) { throw InputError(fmt::format("{} is negative", shown(text))); }

std::string range_text(const std::string& min, const std::string& max, Unit unit, bool integer) {
  if (!min.empty() && !max.empty()) return with_unit(fmt::format("{} to {}", min, max), unit);
  if (!min.empty()) return "at least " + with_unit(min, unit);
  if (!max.empty()) return "at most " + with_unit(max, unit);
  return integer ? "any integer" : "any number";
}

std::uint64_t parse_magnitude(std::string_view text, Unit unit, BareNumber bare, bool& negative) {
  const std::string_view body = trimmed(text);
  if (body.size() > 2 && body[0] == '0' && (body[1] == 'x' || body[1] == 'X')) {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(body.data() + 2, body.data() + body.size(), value, 16);
    if (status == std::errc::result_out_of_range) throw_out_of_range(text);
    if (status != std::errc() || end != body.data() + body.size()) throw_not_a_number(text);
    if (bare == BareNumber::refused && value != 0)
      throw InputError(fmt::format("{} has no unit", shown(text)), accepted_units(unit));
    negative = false;
    return value;
  }
  const Decimal d = read_converted(text, unit, bare);
  negative = d.negative && !d.digits.empty();
  if (d.digits.empty()) return 0;
  // 2^64 has twenty digits; the bound also keeps what follows within 128 bits.
  if (d.digits.size() > 20 && d.tens >= 0) throw_out_of_range(text);
  Wide value = 0;
  for (std::size_t i = 0; i < d.digits.size(); ++i) {
    if (i == 38) throw InputError(fmt::format("{} has too many digits", shown(text)));
    value = value * 10 + static_cast<unsigned>(d.digits[i] - '0');
  }
  // Multiply before dividing: 1.5 KiB is an integer only as (15 * 1024) / 10.
  if (!scale_up(value, 2, d.twos) || !scale_up(value, 10, d.tens)) throw_out_of_range(text);
  if (!scale_down(value, 10, d.tens) || !scale_down(value, 2, d.twos)) {
    const std::string in_unit = unit_text(unit).empty() ? "" : fmt::format(" of {}", unit_text(unit));
    throw InputError(fmt::format("{} is not a whole number{}", shown(text), in_unit));
  }
  if (value > std::numeric_limits<std::uint64_t>::max()) throw_out_of_range(text);
  return static_cast<std::uint64_t>(value);
}

double parse_real(std::string_view text, Unit unit, BareNumber bare) {
  const std::string_view body = trimmed(text);
  for (const std::string_view special : {".nan", ".NaN", ".NAN", "nan", "NaN", ".inf", "-.inf", "inf", "-inf"}) {
    if (body == special) throw InputError(fmt::format("{} is not a finite number", body));
  }
  const Decimal d = read_converted(text, unit, bare);
  if (d.digits.empty()) return 0.0;
  // Shift the decimal point in the text rather than multiply, so that 1.755 GHz is exactly the double 1755 in MHz.
  const std::string scaled = fmt::format("{}{}e{}", d.negative ? "-" : "", d.digits, d.tens);
  double value = 0.0;
  const auto [end, status] = std::from_chars(scaled.data(), scaled.data() + scaled.size(), value);
  if (status == std::errc::result_out_of_range || end != scaled.data() + scaled.size()) throw_out_of_range(text);
  value = std::ldexp(value, d.twos);
  if (!std::isfinite(value)) throw_out_of_range(text);
  return value;
}

}  // namespace detail

}  // namespace heddle
