#include "ptx/operand.h"

#include <utility>

namespace heddle::ptx {

namespace {

// The last dot of %tid.x, %r1.b0, %v.w.
bool is_selector(std::string_view text) {
  static constexpr std::string_view kSelectors[] = {"x",  "y",  "z",  "w",  "r",  "g",  "b",   "a",
                                                    "b0", "b1", "b2", "b3", "h0", "h1", "b10", "b32"};
  if (text.empty() || text.size() > 5) return false;
  for (const std::string_view selector : kSelectors) {
    if (text == selector) return true;
  }
  // Video instructions pick bytes: b0 of one word to b7 of two, in any order.
  if (text[0] != 'b' && text[0] != 'h') return false;
  return text.find_first_not_of("01234567", 1) == std::string_view::npos;
}

// Labels may stand behind what jumps to them.
bool looks_ahead(std::string_view opcode) { return opcode == "bra"; }

}  // namespace

std::vector<Operand> OperandReader::read_all(std::string_view opcode, std::vector<PendingName>& pending) {
  opcode_ = opcode;
  pending_ = &pending;
  std::vector<Operand> operands;
  if (tokens_.accept_symbol(";")) return operands;
  do {
    operands.push_back(read_operand());
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol(";", "at the end of an instruction");
  return operands;
}

std::string OperandReader::read_predicate() {
  const Token& name = tokens_.expect_name("the predicate that the instruction waits for");
  const NameEntry* entry = names_.find(name.text);
  if (entry == nullptr) tokens_.refuse(name.place, "nobody has declared " + in_words(name), names_.suggest(name.text));
  if (entry->kind != NameKind::reg || entry->type != Type::pred) {
    tokens_.refuse(name.place, in_words(name) + " is no predicate", "name a register of .pred behind @");
  }
  return std::string(name.text);
}

// a, or a|b
Operand OperandReader::read_operand() {
  Operand first = read_single();
  if (!tokens_.at_symbol("|")) return first;
  tokens_.take();
  PairOperand pair;
  Operand both;
  both.place = first.place;
  pair.elements.push_back(std::move(first));
  pair.elements.push_back(read_single());
  both.what = std::move(pair);
  return both;
}

Operand OperandReader::read_single() {
  const Token& token = tokens_.peek();
  Operand operand;
  operand.place = token.place;
  const Token& next = tokens_.peek(1);
  const bool negated_name = tokens_.at_symbol("!") && next.kind == TokenKind::name && next.text != "WARP_SZ";
  if (tokens_.at_symbol("{")) {
    read_vector(operand);
  } else if (tokens_.at_symbol("[")) {
    read_brackets(operand);
  } else if (tokens_.at_symbol("(") && opcode_ == "call") {
    read_list(operand);
  } else if (negated_name || (token.kind == TokenKind::name && token.text != "WARP_SZ")) {
    read_named(operand);
  } else if (constants_.at_constant()) {
    read_constant(operand);
  } else {
    tokens_.refuse_token(token, "an operand: a register, a number, [address] or {vector}");
  }
  return operand;
}

const NameEntry* OperandReader::use(const Token& name) {
  if (name.text == "_") return nullptr;
  const NameEntry* entry = names_.find(name.text);
  if (entry != nullptr || is_special_register(name.text)) return entry;
  if (!looks_ahead(opcode_)) {
    tokens_.refuse(name.place, "nobody has declared " + in_words(name), names_.suggest(name.text));
  }
  pending_->push_back({std::string(name.text), name.place});
  return nullptr;
}

void OperandReader::read_named(Operand& operand) {
  NameOperand name;
  name.negated = tokens_.accept_symbol("!");
  const Token token = tokens_.take();
  const NameEntry* entry = use(token);
  name.name = std::string(token.text);
  const Token& behind = tokens_.peek();
  if (behind.kind == TokenKind::dotted) {
    if (!is_selector(behind.text)) tokens_.refuse_token(behind, "an element: .x, .y, .z or .w");
    name.selector = std::string(behind.text);
    tokens_.take();
  }
  const bool in_memory = entry != nullptr && entry->kind == NameKind::memory;
  const bool indexed = tokens_.at_symbol("[");
  if (!in_memory || (!indexed && !tokens_.at_symbol("+") && !tokens_.at_symbol("-"))) {
    operand.what = std::move(name);
    return;
  }
  const std::int64_t offset = indexed ? read_index(entry->element_bytes) : read_offset();
  if (!indexed || opcode_ == "mov" || opcode_ == "cvta") {
    name.offset = offset;
    operand.what = std::move(name);
    return;
  }
  // ld.global.u32 %r1, buffer[2]
  AddressOperand address;
  address.base.push_back({operand.place, std::move(name)});
  address.offset = offset;
  operand.what = std::move(address);
}

void OperandReader::read_constant(Operand& operand) {
  const Constant value = constants_.read();
  if (value.is_integer()) {
    operand.what = IntegerOperand{value.bits, value.kind == Constant::Kind::unsigned_integer};
  } else {
    operand.what = FloatOperand{value.kind == Constant::Kind::single ? Type::f32 : Type::f64, value.bits};
  }
}

void OperandReader::read_vector(Operand& operand) {
  VectorOperand vector;
  tokens_.take();
  do {
    const Token& token = tokens_.peek();
    if (tokens_.at_symbol("{") || tokens_.at_symbol("[") || tokens_.at_symbol("(")) {
      tokens_.refuse_token(token, "an element of a vector: a register or a number");
    }
    vector.elements.push_back(read_single());
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol("}", "at the end of a vector");
  operand.what = std::move(vector);
}

// [%rd1], [buffer + 4], [16], [map, {%r1, %r2}], [texture, sampler, {%f1, %f2}]
void OperandReader::read_brackets(Operand& operand) {
  AddressOperand address;
  tokens_.take();
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::name && token.text != "WARP_SZ") {
    Operand base;
    base.place = token.place;
    const Token name = tokens_.take();
    const NameEntry* entry = use(name);
    NameOperand named;
    named.name = std::string(name.text);
    if (tokens_.peek().kind == TokenKind::dotted && is_selector(tokens_.peek().text)) {
      named.selector = std::string(tokens_.take().text);
    }
    base.what = std::move(named);
    address.base.push_back(std::move(base));
    if (entry != nullptr && entry->kind == NameKind::memory && tokens_.at_symbol("[")) {
      address.offset = read_index(entry->element_bytes);
    } else {
      address.offset = read_offset();
    }
  } else {
    if (!constants_.at_constant()) tokens_.refuse_token(token, "an address: a register, a name or a number");
    address.offset = static_cast<std::int64_t>(constants_.read_integer("an address"));
  }
  while (tokens_.accept_symbol(",")) {
    if (tokens_.at_symbol("[")) tokens_.refuse_token(tokens_.peek(), "what goes with an address, without brackets");
    address.parts.push_back(read_single());
  }
  tokens_.expect_symbol("]", "at the end of an address");
  operand.what = std::move(address);
}

void OperandReader::read_list(Operand& operand) {
  ListOperand list;
  tokens_.take();
  if (!tokens_.accept_symbol(")")) {
    do {
      if (tokens_.at_symbol("(")) tokens_.refuse_token(tokens_.peek(), "a parameter of a call");
      list.elements.push_back(read_single());
    } while (tokens_.accept_symbol(","));
    tokens_.expect_symbol(")", "behind the parameters of a call");
  }
  operand.what = std::move(list);
}

// + 4, - 8 + 16, + -4
std::int64_t OperandReader::read_offset() {
  std::uint64_t offset = 0;
  while (tokens_.at_symbol("+") || tokens_.at_symbol("-")) {
    const bool minus = tokens_.take().text == "-";
    const Token start = tokens_.peek();
    if (start.kind == TokenKind::name && start.text != "WARP_SZ") {
      tokens_.refuse(start.place, "an address of two names", "add the second one to a register before");
    }
    const Constant value = constants_.read_term();
    if (!value.is_integer()) tokens_.refuse_token(start, "an offset in bytes");
    offset = minus ? offset - value.bits : offset + value.bits;
  }
  return static_cast<std::int64_t>(offset);
}

// [2]: of an array's elements
std::int64_t OperandReader::read_index(std::uint64_t element_bytes) {
  tokens_.take();
  const std::uint64_t index = constants_.read_integer("an index");
  tokens_.expect_symbol("]", "behind an index");
  return static_cast<std::int64_t>(index * element_bytes);
}

}  // namespace heddle::ptx
