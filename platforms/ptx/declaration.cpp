#include "ptx/declaration.h"

#include <algorithm>
#include <cstring>

namespace heddle::ptx {

namespace {

struct SpaceRow {
  const char* directive;
  StateSpace space;
};
constexpr SpaceRow kSpaces[] = {{"reg", StateSpace::reg},        {"sreg", StateSpace::sreg},
                                {"const", StateSpace::constant}, {"global", StateSpace::global},
                                {"local", StateSpace::local},    {"param", StateSpace::param},
                                {"shared", StateSpace::shared}};

const SpaceRow* find_space(std::string_view directive) {
  for (const SpaceRow& row : kSpaces) {
    if (directive == row.directive) return &row;
  }
  return nullptr;
}

const char* space_name(StateSpace space) {
  for (const SpaceRow& row : kSpaces) {
    if (row.space == space) return row.directive;
  }
  return "generic";
}

bool is_opaque(std::string_view type) { return type == "texref" || type == "samplerref" || type == "surfref"; }

bool is_floating(Type type) {
  return type == Type::f16 || type == Type::f16x2 || type == Type::f32 || type == Type::f64;
}

// Alternate and packed formats are types of instructions, not of variables.
bool is_fundamental(Type type) {
  switch (type) {
    case Type::pred:
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
    case Type::b128:
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
      return true;
    default:
      return is_floating(type);
  }
}

bool is_bits(Type type) { return type == Type::b8 || type == Type::b16 || type == Type::b32 || type == Type::b64; }

constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 30;  // assumption

NameEntry entry_of(const Variable& variable) {
  NameEntry entry;
  entry.kind = variable.space == StateSpace::reg ? NameKind::reg : NameKind::memory;
  entry.place = variable.place;
  entry.count = variable.parametrized ? variable.count : 0;
  entry.space = variable.space;
  entry.type = variable.type;
  entry.element_bytes = std::uint64_t{bytes_of(variable.type)} * variable.vector;
  for (std::size_t i = 1; i < variable.extents.size(); ++i) entry.element_bytes *= variable.extents[i];
  return entry;
}

}  // namespace

bool is_state_space(std::string_view directive) { return find_space(directive) != nullptr; }

std::vector<Variable> DeclarationReader::read(const Linkage& linkage) {
  Variable common = read_space_and_type();
  common.is_visible = linkage.is_visible;
  common.is_extern = linkage.is_extern;
  common.is_weak = linkage.is_weak;
  common.is_common = linkage.is_common;
  std::vector<Variable> variables;
  do {
    Variable variable = common;
    read_name(variable, false);
    check_place(variable);
    if (variable.parametrized && variable.count == 0) continue;  // no register at all
    const NameEntry entry = entry_of(variable);
    // Another declaration of an external name is the same variable.
    const NameEntry* there = names_.depth() == 0 ? names_.find_here(variable.name) : nullptr;
    if (there == nullptr || there->kind != NameKind::memory) declare(variable.name, entry);
    if (tokens_.accept_symbol("=")) read_initial(variable);
    check_complete(variable);
    variables.push_back(std::move(variable));
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol(";", "at the end of a declaration");
  return variables;
}

std::vector<Variable> DeclarationReader::read_parameters(bool declares) {
  std::vector<Variable> parameters;
  tokens_.expect_symbol("(", "in front of parameters");
  if (tokens_.accept_symbol(")")) return parameters;
  do {
    const Token& token = tokens_.peek();
    if (!tokens_.at_directive("param") && !tokens_.at_directive("reg")) {
      tokens_.refuse_token(token, ".param or .reg of a parameter");
    }
    Variable parameter = read_space_and_type();
    read_name(parameter, true);
    if (declares && parameter.name != "_") {
      declare(parameter.name, entry_of(parameter));
    }
    parameters.push_back(std::move(parameter));
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol(")", "behind parameters");
  return parameters;
}

bool DeclarationReader::read_attributes() {
  bool managed = false;
  tokens_.expect_symbol("(", "behind .attribute");
  do {
    const Token token = tokens_.take();
    if (token.kind == TokenKind::dotted && token.text == "managed") {
      managed = true;
    } else if (token.kind == TokenKind::dotted && token.text == "unified") {
      tokens_.expect_symbol("(", "behind .unified");
      constants_.read_integer("the first half of an identifier");
      tokens_.expect_symbol(",", "between the halves of an identifier");
      constants_.read_integer("the second half of an identifier");
      tokens_.expect_symbol(")", "behind an identifier");
    } else {
      tokens_.refuse_token(token, ".managed or .unified(…, …)");
    }
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol(")", "behind attributes");
  return managed;
}

void DeclarationReader::declare(const std::string& name, const NameEntry& entry) {
  const NameEntry* there = names_.declare(name, entry);
  if (there == nullptr) return;
  const std::string shown = entry.count == 0 ? name : name + "<" + std::to_string(entry.count) + ">";
  tokens_.refuse(entry.place, "'" + shown + "' is declared already, in line " + std::to_string(there->place.line),
                 "give one of them another name, or a block of its own");
}

Variable DeclarationReader::read_space_and_type() {
  Variable variable;
  variable.place = tokens_.peek().place;
  variable.space = find_space(tokens_.take().text)->space;
  if (tokens_.at_symbol("[")) {
    tokens_.refuse(tokens_.peek().place, "a bank of constants", "PTX has had no banks since 2.2: take [ ] out");
  }
  while (true) {
    if (tokens_.accept_directive("attribute")) {
      variable.managed = read_attributes() || variable.managed;
      if (variable.managed && variable.space != StateSpace::global) {
        tokens_.refuse(variable.place, ".managed is of variables in .global", "take .attribute(.managed) out");
      }
    } else if (tokens_.accept_directive("align")) {
      variable.align = read_alignment();
    } else if (tokens_.accept_directive("v2")) {
      variable.vector = 2;
    } else if (tokens_.accept_directive("v4")) {
      variable.vector = 4;
    } else {
      break;
    }
  }
  read_type(variable);
  if (tokens_.accept_directive("ptr")) read_pointer(variable);
  return variable;
}

void DeclarationReader::read_type(Variable& variable) {
  const Token token = tokens_.take();
  if (token.kind != TokenKind::dotted) tokens_.refuse_token(token, "a type: .b32, .f64 …");
  if (is_opaque(token.text)) {
    variable.opaque = std::string(token.text);
    variable.type = Type::b64;
    if (variable.space != StateSpace::global && variable.space != StateSpace::param) {
      tokens_.refuse(token.place, in_words(token) + " is of .global and .param", "declare it in .global");
    }
    return;
  }
  const auto type = find_type(std::string(token.text));
  if (!type.has_value()) {
    tokens_.refuse(token.place, in_words(token) + " is no type of PTX",
                   "types are .pred, .b8 to .b128, .u8 to .u64, .s8 to .s64, .f16, .f16x2, .f32 and .f64");
  }
  if (!is_fundamental(*type)) {
    tokens_.refuse(token.place, in_words(token) + " is a type of instructions, not of variables",
                   std::string("declare .b") + std::to_string(bytes_of(*type) * 8));
  }
  if (*type == Type::pred && variable.space != StateSpace::reg) {
    tokens_.refuse(token.place, "predicates are registers", "declare it in .reg");
  }
  variable.type = *type;
  const std::uint32_t bytes = bytes_of(*type) * variable.vector;
  if (variable.vector > 1 && (bytes > 16 || *type == Type::pred)) {
    tokens_.refuse(token.place, "a vector of " + std::to_string(variable.vector) + " times " + in_words(token),
                   "vectors have at most 16 bytes");
  }
}

// .ptr .global .align 8
void DeclarationReader::read_pointer(Variable& variable) {
  if (variable.space != StateSpace::param) tokens_.refuse(variable.place, ".ptr is of parameters", "take it out");
  variable.pointer = true;
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::dotted && token.text != "align") {
    const SpaceRow* row = find_space(token.text);
    if (row == nullptr || row->space == StateSpace::reg || row->space == StateSpace::sreg) {
      tokens_.refuse_token(token, ".const, .global, .local or .shared");
    }
    variable.pointer_space = row->space;
    tokens_.take();
  }
  variable.pointer_align = 4;
  if (tokens_.accept_directive("align")) variable.pointer_align = read_alignment();
}

std::uint32_t DeclarationReader::read_alignment() {
  const TextPlace place = tokens_.peek().place;
  const std::uint64_t bytes = constants_.read_count("an alignment in bytes", kMaxAlignment);
  if (bytes == 0 || (bytes & (bytes - 1)) != 0) {
    tokens_.refuse(place, "an alignment of " + std::to_string(bytes) + " bytes", "alignments are powers of two");
  }
  return static_cast<std::uint32_t>(bytes);
}

void DeclarationReader::read_name(Variable& variable, bool is_parameter) {
  const Token& name = tokens_.expect_name("the name of what is declared");
  variable.name = std::string(name.text);
  variable.place = name.place;
  if (name.text == "_" && !is_parameter) tokens_.refuse_token(name, "a name that can be used again");
  if (!is_parameter && tokens_.accept_symbol("<")) {
    if (variable.space != StateSpace::reg) {
      tokens_.refuse(name.place, "'" + variable.name + "<…>' stands for many registers",
                     "use [ ] for arrays in memory");
    }
    const TextPlace place = tokens_.peek().place;
    // Not an expression: '>' ends it.
    const Token count = tokens_.take();
    if (count.kind != TokenKind::integer) tokens_.refuse_token(count, "how many registers there are");
    if (count.bits > kMaxRegisters) {
      tokens_.refuse(place, std::to_string(count.bits) + " registers",
                     "up to " + std::to_string(kMaxRegisters) + " are read");
    }
    variable.count = static_cast<std::uint32_t>(count.bits);
    variable.parametrized = true;
    tokens_.expect_symbol(">", "behind how many registers there are");
  }
  read_extents(variable);
  check_size(variable);
}

void DeclarationReader::read_extents(Variable& variable) {
  while (tokens_.at_symbol("[")) {
    const TextPlace place = tokens_.take().place;
    variable.array = true;
    if (variable.space == StateSpace::reg)
      tokens_.refuse(place, "registers have no arrays", "write name<4> for name0 to name3");
    if (variable.extents.size() >= kMaxDimensions) {
      tokens_.refuse(place, "more than " + std::to_string(kMaxDimensions) + " dimensions", "put some together");
    }
    if (tokens_.accept_symbol("]")) {
      if (!variable.extents.empty())
        tokens_.refuse(place, "only the first dimension may be left out", "give its extent");
      variable.extents.push_back(0);
      continue;
    }
    const std::uint64_t extent = constants_.read_count("the extent of an array", kMaxVariableBytes);
    // .param .b8 x[0] is of an empty structure; other arrays of none are as good as an unknown extent.
    variable.extents.push_back(extent);
    tokens_.expect_symbol("]", "behind the extent of an array");
  }
}

void DeclarationReader::check_size(const Variable& variable) const {
  std::uint64_t total = std::uint64_t{bytes_of(variable.type)} * variable.vector;
  for (const std::uint64_t extent : variable.extents) {
    if (extent != 0 && total > kMaxVariableBytes / extent) {
      tokens_.refuse(variable.place,
                     "'" + variable.name + "' has more than " + std::to_string(kMaxVariableBytes) + " bytes",
                     "no memory of the machine holds that: give smaller extents");
    }
    total *= std::max<std::uint64_t>(extent, 1);
  }
}

void DeclarationReader::check_place(const Variable& variable) const {
  const bool in_module = names_.depth() == 0;
  const bool of_threads =
      variable.space == StateSpace::reg || variable.space == StateSpace::local || variable.space == StateSpace::param;
  const std::string space = "." + std::string(space_name(variable.space));
  if (variable.space == StateSpace::sreg) {
    tokens_.refuse(variable.place, "special registers are there without a declaration", "take the line out");
  }
  if (in_module && of_threads) {
    tokens_.refuse(variable.place, "'" + variable.name + "' is a " + space + " of the module",
                   "declare it in a function");
  }
  const bool linked = variable.is_visible || variable.is_extern || variable.is_weak || variable.is_common;
  if (linked && of_threads) {
    tokens_.refuse(variable.place, "'" + variable.name + "' is a " + space + ", which is not linked",
                   "take .visible, .extern, .weak or .common out");
  }
  if (variable.is_common && variable.space != StateSpace::global) {
    tokens_.refuse(variable.place, ".common is of variables in .global", "take .common out");
  }
}

void DeclarationReader::check_complete(const Variable& variable) const {
  if (variable.is_extern) return;
  for (const std::uint64_t extent : variable.extents) {
    if (extent != 0 || variable.space == StateSpace::param) continue;
    tokens_.refuse(variable.place, "nobody says how large '" + variable.name + "' is",
                   "give its extent, or declare it .extern where another module or a launch does");
  }
}

void DeclarationReader::read_initial(Variable& variable) {
  if (variable.space != StateSpace::global && variable.space != StateSpace::constant) {
    tokens_.refuse(variable.place,
                   "'" + variable.name + "' is a ." + space_name(variable.space) + ", which has no initial value",
                   "store it at the beginning of the function");
  }
  if (variable.is_extern) {
    tokens_.refuse(variable.place, "'" + variable.name + "' is .extern, and has its initial value elsewhere",
                   "take one of them out");
  }
  if (!variable.opaque.empty()) {
    skip_opaque_initial();
    return;
  }
  if (variable.type == Type::f16 || variable.type == Type::f16x2) {
    tokens_.refuse(variable.place, std::string(".") + type_name(variable.type) + " has no initial values",
                   "declare .b16 or .b32 with the bits");
  }
  variable.initial.emplace();
  const bool unknown = !variable.extents.empty() && variable.extents[0] == 0;
  const std::uint64_t count = read_dimension(variable, 0, 0);
  if (unknown) variable.extents[0] = count;
}

// { addr_mode_0 = clamp_to_edge, … }: read, as textures are refused by name by who would run them.
void DeclarationReader::skip_opaque_initial() {
  tokens_.expect_symbol("{", "in front of the properties of a texture, sampler or surface");
  while (!tokens_.at_symbol("}")) {
    const Token& token = tokens_.peek();
    if (token.kind == TokenKind::end || tokens_.at_symbol(";")) tokens_.refuse_token(token, "'}' behind properties");
    tokens_.take();
  }
  tokens_.take();
}

// Reads one element, or the list of what one has in that dimension; the number of entries of the list.
std::uint64_t DeclarationReader::read_dimension(Variable& variable, std::size_t dimension, std::uint64_t at) {
  if (dimension == variable.extents.size()) {
    read_element(variable, at);
    return 1;
  }
  std::uint64_t stride = std::uint64_t{bytes_of(variable.type)} * variable.vector;
  for (std::size_t i = dimension + 1; i < variable.extents.size(); ++i) stride *= variable.extents[i];
  tokens_.expect_symbol("{", "in front of the values of an array");
  std::uint64_t count = 0;
  if (tokens_.accept_symbol("}")) return count;
  do {
    const std::uint64_t extent = variable.extents[dimension];
    if (extent != 0 && count == extent) {
      tokens_.refuse(tokens_.peek().place,
                     "more values than the " + std::to_string(extent) + " of '" + variable.name + "'",
                     "take some out, or enlarge the array");
    }
    read_dimension(variable, dimension + 1, at + count * stride);
    ++count;
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol("}", "behind the values of an array");
  return count;
}

void DeclarationReader::read_element(Variable& variable, std::uint64_t at) {
  if (variable.vector == 1) {
    read_scalar(variable, at);
    return;
  }
  tokens_.expect_symbol("{", "in front of the elements of a vector");
  for (std::uint32_t i = 0; i < variable.vector; ++i) {
    if (i > 0) tokens_.expect_symbol(",", "between the elements of a vector");
    read_scalar(variable, at + std::uint64_t{i} * bytes_of(variable.type));
  }
  tokens_.expect_symbol("}", "behind the elements of a vector");
}

void DeclarationReader::read_scalar(Variable& variable, std::uint64_t at) {
  const Token start = tokens_.peek();
  const Token& next = tokens_.peek(1);
  const bool masked = start.kind == TokenKind::integer && next.kind == TokenKind::symbol && next.text == "(";
  if (!masked && constants_.at_constant()) {
    put(variable, at, constants_.read(), start.place);
    return;
  }
  Initializer::Address address;
  address.at = at;
  address.bytes = bytes_of(variable.type);
  if (is_floating(variable.type)) tokens_.refuse_token(start, "a number");
  if (masked) {
    tokens_.take();
    const std::uint64_t mask = start.bits;
    while (address.shift < 8 && mask != std::uint64_t{0xFF} << (8 * address.shift)) ++address.shift;
    if (address.shift == 8 || bytes_of(variable.type) != 1) {
      tokens_.refuse(start.place, in_words(start) + "(…) takes one byte of an address",
                     "masks are 0xFF, 0xFF00 and so on, in arrays of bytes");
    }
    tokens_.expect_symbol("(", "behind a mask");
    read_address(address);
    tokens_.expect_symbol(")", "behind an address");
  } else {
    if (start.kind != TokenKind::name)
      tokens_.refuse_token(start, "an initial value: a number, a name, or generic(name)");
    if (bytes_of(variable.type) != 4 && bytes_of(variable.type) != 8) {
      tokens_.refuse(start.place, "an address in a place of " + std::to_string(bytes_of(variable.type)) + " bytes",
                     "declare .u64, or take bytes of it: 0xFF(name)");
    }
    read_address(address);
  }
  auto& initial = *variable.initial;
  check_reach(variable, at + address.bytes, start.place);
  initial.bytes.resize(std::max<std::size_t>(initial.bytes.size(), at + address.bytes));
  initial.addresses.push_back(std::move(address));
}

// name, name + 4, generic(name), generic(name) + 4
void DeclarationReader::read_address(Initializer::Address& address) {
  Token name = tokens_.expect_name("the name of a variable or of a function");
  if (name.text == "generic" && tokens_.accept_symbol("(")) {
    address.generic = true;
    name = tokens_.expect_name("the name of a variable");
    tokens_.expect_symbol(")", "behind generic(name");
  }
  address.name = std::string(name.text);
  const NameEntry* entry = names_.find(name.text);
  if (entry == nullptr) tokens_.refuse(name.place, "nobody has declared " + in_words(name), names_.suggest(name.text));
  if (entry->kind != NameKind::memory && entry->kind != NameKind::function) {
    tokens_.refuse(name.place, in_words(name) + " has no address", "name a variable or a function");
  }
  if (entry->kind == NameKind::memory && entry->space == StateSpace::shared) {
    tokens_.refuse(name.place, in_words(name) + " is a .shared, whose address each CTA has anew",
                   "take the address in the function that uses it");
  }
  while (tokens_.at_symbol("+") || tokens_.at_symbol("-")) {
    const Token sign = tokens_.take();
    const Token start = tokens_.peek();
    const Constant value = constants_.read_term();
    if (!value.is_integer()) tokens_.refuse_token(start, "how many bytes to go on");
    const auto old = static_cast<std::uint64_t>(address.offset);
    address.offset = static_cast<std::int64_t>(sign.text == "+" ? old + value.bits : old - value.bits);
  }
}

void DeclarationReader::check_reach(const Variable& variable, std::uint64_t end, TextPlace place) const {
  if (end <= kMaxInitialBytes) return;
  tokens_.refuse(place,
                 "an initial value behind byte " + std::to_string(kMaxInitialBytes) + " of '" + variable.name + "'",
                 "let the host or a kernel fill so large an array");
}

void DeclarationReader::put(Variable& variable, std::uint64_t at, const Constant& value, TextPlace place) const {
  const std::uint32_t bytes = bytes_of(variable.type);
  check_reach(variable, at + bytes, place);
  std::uint64_t bits = value.bits;
  const bool takes_real = is_floating(variable.type) || (is_bits(variable.type) && bytes >= 4);
  if (value.is_integer() ? is_floating(variable.type) : !takes_real) {
    tokens_.refuse(place,
                   std::string("a .") + type_name(variable.type) + " with the value of " +
                       (value.is_integer() ? "an integer" : "a floating-point number"),
                   value.is_integer() ? "write it with a point: 1.0" : "write it without a point");
  }
  if (!value.is_integer() && bytes == 4 && value.kind == Constant::Kind::real) {
    const auto narrow = static_cast<float>(value.as_double());
    std::uint32_t word = 0;
    std::memcpy(&word, &narrow, sizeof narrow);
    bits = word;
  } else if (!value.is_integer() && bytes == 8 && value.kind == Constant::Kind::single) {
    const double wide = value.as_double();
    std::memcpy(&bits, &wide, sizeof wide);
  }
  auto& target = variable.initial->bytes;
  target.resize(std::max<std::size_t>(target.size(), at + bytes));
  const bool fills = value.kind == Constant::Kind::signed_integer && bits >> 63 != 0;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    const std::uint64_t beyond = fills ? 0xFF : 0;
    target[at + i] = static_cast<std::uint8_t>(i < 8 ? bits >> (8 * i) : beyond);
  }
}

}  // namespace heddle::ptx
