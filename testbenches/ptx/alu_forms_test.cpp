// Every form that the table has, beside what the manual says of it: on edges, on random values, and of narrow types on
// all.
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include <catch2/catch.hpp>

#include "ptx/lane_alu.h"
#include "ptx/alu_reference.h"

namespace heddle::ptx {
namespace alu_forms_test {

using test::LaneInput;
using test::LaneOutput;
using test::Mnemonic;
using test::UInt128;

constexpr std::uint32_t kSeed = 20261;
constexpr std::size_t kRandom = 10000;
constexpr std::size_t kRandomSimple = 1000;  // of comparisons, where edges are what matters

// Bits of registers of a slot.
std::uint32_t bits_of_slot(Type type) {
  switch (type) {
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 8;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
    case Type::f32x2:
      return 64;
    case Type::b128:
      return 128;
    default:
      return 32;
  }
}
const char* real_of_slot(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
      return "f16";
    case Type::bf16:
    case Type::bf16x2:
      return "bf16";
    case Type::f32:
    case Type::f32x2:
      return "f32";
    case Type::f64:
      return "f64";
    default:
      return nullptr;
  }
}

std::vector<UInt128> real_edges(const std::string& type) {
  const test::RealFormat format = test::format_named(type);
  const std::uint64_t one = static_cast<std::uint64_t>(format.bias()) << format.fraction_bits;
  const std::uint64_t unit = std::uint64_t{1} << format.fraction_bits;
  const std::uint64_t infinity = format.largest() + 1;
  std::vector<std::uint64_t> codes = {0,
                                      1,
                                      unit - 1,
                                      unit,
                                      unit + 1,
                                      one - 1,
                                      one,
                                      one + 1,
                                      one + unit / 2,
                                      one + unit,
                                      one - unit,
                                      one - unit - 1,
                                      one + unit + unit / 4,
                                      one + 2 * unit,
                                      one / 2 + 5,
                                      one + one / 2 + 3,
                                      format.largest(),
                                      format.largest() - unit,
                                      infinity,
                                      infinity + 1,
                                      infinity + unit / 2 + 3,
                                      one / 3 * 2,
                                      one - unit + unit / 3};
  // Where integers end, and halves of them.
  for (const int power : {7, 8, 15, 16, 22, 23, 24, 31, 32, 52, 53, 62, 63, 64, 126}) {
    const std::uint64_t code = one + static_cast<std::uint64_t>(power) * unit;
    if (code < format.largest()) {
      codes.push_back(code);
      codes.push_back(code - 1);
    }
  }
  std::vector<UInt128> edges;
  for (const std::uint64_t code : codes) {
    edges.push_back(code);
    edges.push_back(code | format.sign());
  }
  return edges;
}
std::vector<UInt128> integer_edges(std::uint32_t bits) {
  const UInt128 all = bits == 128 ? ~UInt128{0} : (UInt128{1} << bits) - 1;
  const UInt128 top = UInt128{1} << (bits - 1);
  std::vector<UInt128> edges = {0,   1,   2,       3,       4,   5,       7,       8,       15,          16,
                                17,  31,  32,      33,      63,  64,      65,      127,     128,         255,
                                256, top, top - 1, top + 1, all, all - 1, all - 2, all / 3, all / 3 * 2, all / 5};
  if (bits >= 32) {
    for (const std::uint64_t value : {0x7fffu, 0x8000u, 0xffffu, 0x10000u, 0x7fffffu, 0x800000u, 0xffffffu, 0x7654u})
      edges.push_back(value);
  }
  if (bits >= 64) {
    for (const std::uint64_t value : {0x7fffffffull, 0x80000000ull, 0xffffffffull, 0x100000000ull})
      edges.push_back(value);
  }
  for (UInt128& edge : edges) edge &= all;
  return edges;
}
UInt128 random_bits(std::mt19937_64& random, std::uint32_t bits) {
  const UInt128 value = UInt128{random()} << 64 | random();
  return bits == 128 ? value : value & ((UInt128{1} << bits) - 1);
}
// Of a real number: any code, or one with an exponent near the middle, so that sums and products stay in range.
UInt128 random_real(std::mt19937_64& random, const std::string& type) {
  const test::RealFormat format = test::format_named(type);
  const auto any = static_cast<std::uint64_t>(random()) & (format.sign() * 2 - 1);
  if (random() % 4 == 0) return any;
  const std::uint64_t spread = random() % 2 == 0 ? 6 : static_cast<std::uint64_t>(format.fraction_bits) + 4;
  const std::uint64_t field = static_cast<std::uint64_t>(format.bias()) + random() % (2 * spread) - spread;
  const std::uint64_t mask = (format.sign() - 1) >> format.exponent_bits;
  std::uint64_t fraction = any & mask;
  if (random() % 3 == 0) fraction &= ~(mask >> 5);  // few bits: exact results and ties
  return (any & format.sign()) | (field << format.fraction_bits & (format.sign() - 1)) | fraction;
}

class Values {
 public:
  explicit Values(const OperandSlot& slot)
      : bits_(bits_of_slot(slot.type)), real_(real_of_slot(slot.type) == nullptr ? "" : real_of_slot(slot.type)) {
    const std::uint32_t one = real_.empty() ? bits_ : static_cast<std::uint32_t>(test::width_of(real_));
    edges_ = real_.empty() ? integer_edges(bits_) : real_edges(real_);
    copies_ = bits_ / one;
    integer_ = slot.type == Type::u16 || slot.type == Type::s16;
    if (slot.type == Type::u16x2 || slot.type == Type::s16x2) {
      edges_ = integer_edges(16);
      copies_ = 2;
    }
  }
  std::size_t edges() const { return edges_.size(); }
  // Of packed values: the edge in the low place, another one beside it.
  UInt128 edge(std::size_t i) const {
    UInt128 value = edges_[i];
    if (copies_ == 2) value |= edges_[(i * 7 + 3) % edges_.size()] << (bits_ / 2);
    return value;
  }
  UInt128 random(std::mt19937_64& random) const {
    if (random() % 8 == 0) return edge(random() % edges_.size());
    if (real_.empty()) return random_bits(random, random() % 4 == 0 && bits_ <= 64 ? 6 : bits_);
    UInt128 value = random_real(random, real_);
    if (copies_ == 2) value |= random_real(random, real_) << (bits_ / 2);
    return value;
  }
  std::uint32_t bits() const { return bits_; }
  // Whether all its codes can be tried: of 8 bits, and real or packed numbers of 16.
  bool is_small() const { return bits_ == 8 || (bits_ == 16 && !integer_); }

 private:
  std::uint32_t bits_;
  std::string real_;
  std::uint32_t copies_ = 1;
  bool integer_ = false;
  std::vector<UInt128> edges_;
};

// Inputs of a form; `sources`: how many of its value slots are given.
std::vector<LaneInput> inputs_of(const AluForm& form, bool with_optional, std::size_t count, std::mt19937_64& random) {
  std::vector<Values> values;
  std::size_t predicates = 0;
  for (const OperandSlot& slot : form.sources) {
    if (slot.kind == OperandKind::predicate) {
      ++predicates;
    } else if (!slot.optional || with_optional) {
      for (std::uint32_t i = 0; i < slot.elements; ++i) values.emplace_back(slot);
    }
  }
  std::vector<LaneInput> inputs;
  const auto finish = [&](LaneInput input) {
    for (std::size_t i = 0; i < predicates; ++i) input.predicates.push_back((random() & 1) != 0);
    input.carry = (random() & 1) != 0;
    inputs.push_back(std::move(input));
  };
  const auto fill = [&](LaneInput& input) {
    while (input.values.size() < values.size()) input.values.push_back(values[input.values.size()].random(random));
  };
  if (values.size() == 1 && values[0].is_small()) {  // all there are
    for (std::uint32_t code = 0; code < 1u << values[0].bits(); ++code) {
      LaneInput input;
      input.values = {code};
      finish(input);
    }
    return inputs;
  }
  if (values.size() == 1) {
    for (std::size_t i = 0; i < values[0].edges(); ++i) {
      LaneInput input;
      input.values = {values[0].edge(i)};
      finish(input);
    }
  } else if (values.size() >= 2) {
    for (std::size_t i = 0; i < values[0].edges(); ++i) {
      for (std::size_t j = 0; j < values[1].edges(); ++j) {
        LaneInput input;
        input.values = {values[0].edge(i), values[1].edge(j)};
        if (values.size() > 2) input.values.push_back(values[2].edge((i * 31 + j * 17) % values[2].edges()));
        fill(input);
        finish(input);
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    LaneInput input;
    fill(input);
    finish(input);
  }
  return inputs;
}

std::string hex(UInt128 value) {
  char text[40];
  std::snprintf(text, sizeof text, "%llx:%016llx", static_cast<unsigned long long>(value >> 64),
                static_cast<unsigned long long>(value));
  return text;
}

constexpr std::uint32_t kGarbage = 0xdeadbeef;

// 32 inputs through the function, with a mask and perhaps with the destination in place of a source.
void check_warp(const AluForm& form, const LaneInput* inputs, arch::LaneMask lanes, bool in_place, bool with_optional) {
  struct Planes {
    std::vector<std::uint32_t> words;
    std::uint32_t bits = 0;
  };
  AluOperands operands;
  operands.lanes = lanes;
  std::vector<Planes> sources;
  std::size_t at = 0;
  for (const OperandSlot& slot : form.sources) {
    if (slot.kind == OperandKind::predicate || (slot.optional && !with_optional)) continue;
    Planes planes;
    planes.bits = bits_of_slot(slot.type);
    const std::uint32_t per_element = (planes.bits + 31) / 32;
    planes.words.resize(slot.elements * per_element * 32, 0);
    for (std::uint32_t element = 0; element < slot.elements; ++element, ++at) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        UInt128 value = inputs[lane].values[at];
        if (planes.bits < 32) value |= UInt128{0xa5a5a5a5u << planes.bits};  // ignored on reading
        for (std::uint32_t word = 0; word < per_element; ++word) {
          planes.words[(element * per_element + word) * 32 + lane] = static_cast<std::uint32_t>(value >> (32 * word));
        }
      }
    }
    sources.push_back(std::move(planes));
  }
  for (std::size_t i = 0; i < sources.size(); ++i) operands.s[i] = sources[i].words.data();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < inputs[lane].predicates.size(); ++i) {
      if (inputs[lane].predicates[i]) operands.p_in[i] |= 1u << lane;
    }
    if (inputs[lane].carry) operands.carry |= 1u << lane;
  }
  const arch::LaneMask carry_before = operands.carry;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!inputs[0].parts[i].empty()) operands.part[i] = *video_part(inputs[0].parts[i]);
  }
  const OperandSlot* destination = nullptr;
  for (const OperandSlot& slot : form.destinations) {
    if (slot.kind == OperandKind::value) destination = &slot;
  }
  std::vector<std::uint32_t> own;
  std::uint32_t bits = 0, per_element = 0;
  if (destination != nullptr) {
    bits = bits_of_slot(destination->type);
    per_element = (bits + 31) / 32;
    own.assign(destination->elements * per_element * 32, kGarbage);
    operands.d[0] = own.data();
    if (in_place && !sources.empty() && sources[0].words.size() == own.size()) operands.d[0] = sources[0].words.data();
  }
  const std::vector<std::uint32_t> old(operands.d[0], operands.d[0] + own.size());
  form.function(operands);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const LaneInput& input = inputs[lane];
    const bool on = (lanes >> lane & 1) != 0;
    LaneOutput wanted;
    if (on) wanted = test::reference(form.text, input);
    std::string failure;
    if (destination != nullptr) {
      for (std::uint32_t element = 0; element < destination->elements; ++element) {
        UInt128 got = 0, kept = 0;
        for (std::uint32_t word = 0; word < per_element; ++word) {
          const std::size_t place = (element * per_element + word) * 32 + lane;
          got |= UInt128{operands.d[0][place]} << (32 * word);
          kept |= UInt128{old[place]} << (32 * word);
        }
        if (!on) {
          if (got != kept) failure = "a lane that is off was written";
        } else if (wanted.accept ? !wanted.accept(got) : got != wanted.values.at(element)) {
          failure = "got " + hex(got) + ", wanted " + (wanted.accept ? "something else" : hex(wanted.values[element]));
        }
      }
    }
    std::size_t predicate = 0;
    for (const OperandSlot& slot : form.destinations) {
      if (slot.kind != OperandKind::predicate) continue;
      const bool got = (operands.p_out[predicate] >> lane & 1) != 0;
      if (got != (on && wanted.predicates.at(predicate))) failure = "predicate " + std::to_string(predicate);
      ++predicate;
    }
    const bool carry = (operands.carry >> lane & 1) != 0;
    if (carry != (on && form.writes_carry ? wanted.carry : (carry_before >> lane & 1) != 0)) failure = "carry";
    if (!failure.empty()) {
      std::string values;
      for (const UInt128 value : input.values) values += " " + hex(value);
      for (const std::string& part : input.parts) values += " ." + part;
      for (const bool value : input.predicates) values += value ? " true" : " false";
      FAIL(form.text << " of" << values << " carry " << input.carry << ": " << failure << " (seed " << kSeed << ")");
    }
  }
}

// Parts of the operands of a video instruction, the same in all lanes: half of the time the ones that go without
// saying.
void name_parts(const AluForm& form, LaneInput* inputs, bool merges, std::mt19937_64& random) {
  const std::string opcode = Mnemonic(form.text).opcode();
  const bool two = opcode.back() == '2', four = opcode.back() == '4';
  const auto digit = [&](unsigned most) { return std::to_string(random() % most); };
  const auto scalar = [&] { return random() % 2 == 0 ? "b" + digit(4) : "h" + digit(2); };
  const auto elements = [&] {
    return two ? "h" + digit(4) + digit(4) : "b" + digit(8) + digit(8) + digit(8) + digit(8);
  };
  static const char* const masks2[] = {"h0", "h1", "h10"};
  static const char* const masks4[] = {"b0",  "b1",  "b10",  "b2",  "b20",  "b21",  "b210", "b3",
                                       "b30", "b31", "b310", "b32", "b320", "b321", "b3210"};
  std::string parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (random() % 2 == 0) continue;
    if (two || four) {
      parts[i] = i > 0 ? elements() : two ? masks2[random() % 3] : masks4[random() % 15];
    } else if (i > 0 || (merges && form.sources.back().optional)) {
      parts[i] = scalar();
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane) std::copy(parts, parts + 3, inputs[lane].parts);
}

void check_form(const AluForm& form, std::size_t count, bool with_optional) {
  std::mt19937_64 random(kSeed);
  std::vector<LaneInput> inputs = inputs_of(form, with_optional, count, random);
  while (inputs.size() % 32 != 0) inputs.push_back(inputs[inputs.size() % 7]);
  for (std::size_t i = 0; i < inputs.size(); i += 32) {
    const std::size_t turn = i / 32;
    if (form.text.substr(0, 4) == "lop3") {  // the table is a constant; all 256 of them come
      for (std::size_t lane = 0; lane < 32; ++lane) inputs[i + lane].values[3] = turn % 256;
    }
    const arch::LaneMask lanes = turn % 4 == 3 ? static_cast<arch::LaneMask>(random()) : ~arch::LaneMask{0};
    if (form.text[0] == 'v') name_parts(form, &inputs[i], with_optional, random);
    check_warp(form, &inputs[i], lanes, turn % 3 == 1, with_optional);
  }
}

enum class Family {
  video,
  integers,
  single_precision,
  double_precision,
  narrow,
  approximations,
  comparisons,
  sets,
  conversions_of_integers,
  conversions,
  packed_conversions
};
Family family_of(const AluForm& form) {
  const Mnemonic m(form.text);
  const std::string& type = m.last();
  if (m.opcode()[0] == 'v') return Family::video;
  if (m.has("approx") || m.has("full")) return Family::approximations;
  if (m.opcode() == "set") return Family::sets;
  if (m.opcode() == "setp" || m.opcode() == "testp") return Family::comparisons;
  if (m.opcode() == "cvt") {
    if (form.sources.size() > 1 || m.has("satfinite") || m.has("relu") || m.has("tf32") || m.last(1).size() > 4 ||
        type.size() > 4)
      return Family::packed_conversions;
    return test::is_float_type(type) && test::is_float_type(m.last(1)) ? Family::conversions
                                                                       : Family::conversions_of_integers;
  }
  if (m.opcode() == "mov" || m.opcode() == "selp" || m.opcode() == "slct") return Family::integers;
  if (type == "f64") return Family::double_precision;
  if (type == "f32" || type == "f32x2") return Family::single_precision;
  return type.find("f16") != std::string::npos ? Family::narrow : Family::integers;
}
void check_family(Family family, std::size_t count) {
  std::size_t checked = 0;
  for (const AluForm* form : all_alu_forms()) {
    if (family_of(*form) != family) continue;
    INFO(form->text);
    ++checked;
    bool optional = false;
    for (const OperandSlot& slot : form->sources) optional = optional || slot.optional;
    check_form(*form, count, true);
    if (optional) check_form(*form, count, false);
  }
  REQUIRE(checked > 0);
}

TEST_CASE("integers and bits and moves are what the manual says", "[ptx]") { check_family(Family::integers, kRandom); }
TEST_CASE("video instructions with all parts of registers", "[ptx]") { check_family(Family::video, kRandomSimple); }
TEST_CASE("names of parts of registers", "[ptx]") {
  for (const char* const wrong : {"", "b", "x0", "b8", "b01234", "h1x"}) CHECK_FALSE(video_part(wrong));
  CHECK(video_part("b3210"));
  CHECK(video_part("h0") != video_part("b0"));
  CHECK(video_part("b0") != video_part("b00"));
}
TEST_CASE("single precision is exact in every rounding", "[ptx]") { check_family(Family::single_precision, kRandom); }
TEST_CASE("double precision is exact in every rounding", "[ptx]") { check_family(Family::double_precision, kRandom); }
TEST_CASE("f16 and bf16 are exact", "[ptx]") { check_family(Family::narrow, kRandom); }
TEST_CASE("approximations are within the manual's bounds", "[ptx]") { check_family(Family::approximations, kRandom); }
TEST_CASE("predicates of comparisons", "[ptx]") { check_family(Family::comparisons, kRandomSimple); }
TEST_CASE("comparisons as numbers", "[ptx]") { check_family(Family::sets, kRandomSimple); }
TEST_CASE("conversions of integers", "[ptx]") { check_family(Family::conversions_of_integers, kRandom); }
TEST_CASE("conversions between real numbers", "[ptx]") { check_family(Family::conversions, kRandom); }
TEST_CASE("conversions of packed and narrow numbers", "[ptx]") { check_family(Family::packed_conversions, kRandom); }

TEST_CASE("a form is found by its mnemonic, and what is near it is named", "[ptx]") {
  std::string why;
  const AluForm* const form = find_alu_form("fma", {"rn", "ftz", "f32"}, why);
  REQUIRE(form != nullptr);
  CHECK(form->text == "fma.rn.ftz.f32");
  CHECK(form->sources.size() == 3);
  CHECK(is_alu_opcode("fma"));
  CHECK_FALSE(is_alu_opcode("ld"));
  CHECK(find_alu_form("add", {"rz", "f16"}, why) == nullptr);
  CHECK(why.find("add.rz.f16") != std::string::npos);
  CHECK(why.find("add.f16") != std::string::npos);
  CHECK(find_alu_form("ld", {"global", "f32"}, why) == nullptr);
  CHECK(why.find("'ld'") != std::string::npos);
  const AluForm* const pack = find_vector_move(Type::b64, 4, false, why);
  REQUIRE(pack != nullptr);
  CHECK(pack->sources.at(0).elements == 4);
  CHECK(pack->sources.at(0).type == Type::b16);
  CHECK(find_vector_move(Type::b32, 3, true, why) == nullptr);
  CHECK(why.find("3 elements") != std::string::npos);
  std::set<std::string> texts;
  for (const AluForm* each : all_alu_forms()) CHECK(texts.insert(each->text).second);
}

TEST_CASE("the page of the arithmetic has today's forms", "[ptx]") {
  std::ifstream in(HEDDLE_SOURCE_DIR "/docs/ptx-arithmetic.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  INFO("heddle_ptx_alu_bench --table prints what the page must have:\n" << alu_table());
  CHECK(page.find(alu_table()) != std::string::npos);
}

// A destination of one word in the second plane of a source of two, and the other way round.
TEST_CASE("destinations may lie in planes of sources", "[ptx]") {
  std::string why;
  const AluForm* const narrow = find_alu_form("cvt", {"u32", "u64"}, why);
  const AluForm* const wide = find_alu_form("mul", {"wide", "u32"}, why);
  REQUIRE(narrow != nullptr);
  REQUIRE(wide != nullptr);
  for (std::uint32_t plane = 0; plane < 2; ++plane) {
    std::uint32_t words[64];
    for (std::uint32_t i = 0; i < 64; ++i) words[i] = 1000 + i * 77777;
    std::uint32_t old[64];
    std::memcpy(old, words, sizeof old);
    AluOperands operands;
    operands.lanes = ~arch::LaneMask{0};
    operands.s[0] = words;
    operands.d[0] = words + 32 * plane;
    narrow->function(operands);
    for (std::uint32_t lane = 0; lane < 32; ++lane) CHECK(words[32 * plane + lane] == old[lane]);
    std::memcpy(words, old, sizeof old);
    operands.s[0] = operands.s[1] = words + 32 * plane;
    operands.d[0] = words;
    wide->function(operands);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint64_t factor = old[32 * plane + lane];
      CHECK((words[lane] | std::uint64_t{words[32 + lane]} << 32) == factor * factor);
    }
  }
}

}  // namespace alu_forms_test
}  // namespace heddle::ptx
