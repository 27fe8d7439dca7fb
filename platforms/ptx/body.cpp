#include "ptx/body.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/error.h"

namespace heddle::ptx {

namespace {

const std::vector<std::string>& body_directives() {
  static const std::vector<std::string> kNames = {
      ".reg",  ".local",  ".shared",  ".param",         ".global",      ".const",        ".loc",
      ".file", ".pragma", ".section", ".branchtargets", ".calltargets", ".callprototype"};
  return kNames;
}

}  // namespace

void skip_pragma(TokenReader& tokens) {
  do {
    if (tokens.peek().kind != TokenKind::string) tokens.refuse_token(tokens.peek(), "a string of .pragma");
    tokens.take();
  } while (tokens.accept_symbol(","));
  tokens.expect_symbol(";", "behind .pragma");
}

void skip_section(TokenReader& tokens) {
  const Token name = tokens.take();
  if (name.kind != TokenKind::dotted && name.kind != TokenKind::name)
    tokens.refuse_token(name, "the name of a section");
  tokens.expect_symbol("{", "in front of what a section holds");
  while (!tokens.at_symbol("}")) {
    const Token& token = tokens.peek();
    const bool data = token.kind == TokenKind::dotted || token.kind == TokenKind::name ||
                      token.kind == TokenKind::integer || tokens.at_symbol(",") || tokens.at_symbol(":") ||
                      tokens.at_symbol("+") || tokens.at_symbol("-");
    if (!data) tokens.refuse_token(token, "data of a section, or '}'");
    tokens.take();
  }
  tokens.take();
}

SourceFile read_file(TokenReader& tokens) {
  SourceFile file;
  ConstantReader constants(tokens);
  file.index = static_cast<std::uint32_t>(
      constants.read_count("the number of a file", std::numeric_limits<std::uint32_t>::max()));
  if (tokens.peek().kind != TokenKind::string) tokens.refuse_token(tokens.peek(), "the name of a file in quotes");
  file.name = std::string(tokens.take().text);
  // When it was changed, and how long it is.
  for (int i = 0; i < 2 && tokens.accept_symbol(","); ++i) constants.read_integer("a time or a size");
  return file;
}

Block BodyReader::read_body() {
  pending_.clear();
  settled_.clear();
  location_ = {};
  // Its names stand beside those of the parameters.
  Block block;
  block.place = tokens_.peek().place;
  tokens_.expect_symbol("{", "in front of statements");
  read_statements(block);
  if (!pending_.empty()) {
    const PendingName& first = pending_.front();
    const bool inner = std::find(settled_.begin(), settled_.end(), first.name) != settled_.end();
    std::string remedy =
        inner ? "there is one in a block from which this is not inside" : suggestion(first.name, settled_);
    if (!inner && nearest_names(first.name, settled_).empty()) remedy = "put '" + first.name + ":' where it belongs";
    tokens_.refuse(first.place, "the function has no label '" + first.name + "'", remedy);
  }
  return block;
}

Block BodyReader::read_block() {
  Block block;
  block.place = tokens_.peek().place;
  tokens_.expect_symbol("{", "in front of statements");
  if (names_.depth() > kMaxBlockDepth) {
    tokens_.refuse(block.place, "blocks are nested more than " + std::to_string(kMaxBlockDepth) + " deep",
                   "close some");
  }
  names_.open();
  read_statements(block);
  names_.close();
  return block;
}

void BodyReader::read_statements(Block& block) {
  const std::size_t from = pending_.size();
  while (!tokens_.at_symbol("}")) {
    if (tokens_.peek().kind == TokenKind::end) {
      tokens_.refuse(tokens_.peek().place, "the block of line " + std::to_string(block.place.line) + " has no end",
                     "close it with }");
    }
    read_statement(block);
  }
  tokens_.take();
  settle(from);
}

// Of the names that the block could not explain, those that are labels of its own are; the others are for the blocks
// around it.
void BodyReader::settle(std::size_t from) {
  const auto first = pending_.begin() + static_cast<std::ptrdiff_t>(from);
  pending_.erase(std::remove_if(first, pending_.end(),
                                [this](const PendingName& name) { return names_.find_here(name.name) != nullptr; }),
                 pending_.end());
}

void BodyReader::read_statement(Block& block) {
  const Token& token = tokens_.peek();
  if (tokens_.at_symbol("{")) {
    block.statements.emplace_back(read_block());
  } else if (tokens_.accept_symbol(";")) {
    // Nothing: what an empty inline assembly leaves.
  } else if (token.kind == TokenKind::dotted) {
    read_directive(block);
  } else if (token.kind == TokenKind::name && tokens_.peek(1).kind == TokenKind::symbol &&
             tokens_.peek(1).text == ":") {
    read_label(block);
  } else if (token.kind == TokenKind::name || tokens_.at_symbol("@")) {
    block.statements.emplace_back(read_instruction());
  } else {
    tokens_.refuse_token(token, "a statement: an instruction, a declaration, a label or a block");
  }
}

void BodyReader::read_directive(Block& block) {
  const Token& token = tokens_.peek();
  if (tokens_.accept_directive("loc")) {
    read_location();
  } else if (tokens_.accept_directive("pragma")) {
    skip_pragma(tokens_);
  } else if (tokens_.accept_directive("section")) {
    skip_section(tokens_);
  } else if (tokens_.accept_directive("file")) {
    read_file(tokens_);
  } else if (is_state_space(token.text)) {
    for (Variable& variable : declarations_.read({})) block.statements.emplace_back(std::move(variable));
  } else {
    tokens_.refuse(token.place, in_words(token) + " is no directive of a function's body",
                   suggestion("." + std::string(token.text), body_directives()));
  }
}

void BodyReader::read_label(Block& block) {
  const Token name = tokens_.take();
  tokens_.take();
  const bool targets = tokens_.at_directive("branchtargets") || tokens_.at_directive("calltargets");
  const bool prototype = tokens_.at_directive("callprototype");
  const NameKind kind = targets ? NameKind::target_list : prototype ? NameKind::prototype : NameKind::label;
  declarations_.declare(std::string(name.text), {kind, name.place, 0, 0, StateSpace::generic, Type::none});
  if (targets) {
    read_targets(block, name);
  } else if (prototype) {
    read_prototype(block, name);
  } else {
    settled_.emplace_back(name.text);
    block.statements.emplace_back(Label{name.place, std::string(name.text)});
  }
}

void BodyReader::read_targets(Block& block, const Token& name) {
  TargetList list{name.place, std::string(name.text), {}};
  const bool calls = tokens_.take().text == "calltargets";
  do {
    const Token& target = tokens_.expect_name(calls ? "the name of a function" : "the name of a label");
    list.targets.emplace_back(target.text);
    const NameEntry* entry = names_.find(target.text);
    const NameKind wanted = calls ? NameKind::function : NameKind::label;
    if (entry != nullptr && entry->kind == wanted) continue;
    if (calls || entry != nullptr) {
      tokens_.refuse(target.place, in_words(target) + (calls ? " is no function" : " is no label"),
                     entry == nullptr ? names_.suggest(target.text) : "name another one");
    }
    pending_.push_back({std::string(target.text), target.place});
  } while (tokens_.accept_symbol(","));
  tokens_.expect_symbol(";", "behind a list of targets");
  block.statements.emplace_back(std::move(list));
}

// .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
void BodyReader::read_prototype(Block& block, const Token& name) {
  Prototype prototype;
  prototype.place = name.place;
  prototype.name = std::string(name.text);
  tokens_.take();
  if (tokens_.at_symbol("(")) prototype.results = declarations_.read_parameters(false);
  const Token& sink = tokens_.expect_name("'_' of a prototype");
  if (sink.text != "_") tokens_.refuse_token(sink, "'_' of a prototype");
  if (tokens_.at_symbol("(")) prototype.parameters = declarations_.read_parameters(false);
  while (tokens_.peek().kind == TokenKind::dotted) {
    const TextPlace place = tokens_.peek().place;
    if (tokens_.accept_directive("noreturn")) {
      if (!prototype.results.empty())
        tokens_.refuse(place, "'.noreturn' of a prototype with results", "take one of them out");
      continue;
    }
    if (tokens_.accept_directive("abi_preserve") || tokens_.accept_directive("abi_preserve_control")) {
      constants_.read_integer("a number of registers");
      continue;
    }
    tokens_.refuse_token(tokens_.peek(), ".noreturn, .abi_preserve or ';'");
  }
  tokens_.expect_symbol(";", "behind a prototype");
  block.statements.emplace_back(std::move(prototype));
}

Instruction BodyReader::read_instruction() {
  Instruction instruction;
  instruction.place = tokens_.peek().place;
  instruction.source = location_;
  if (tokens_.accept_symbol("@")) {
    Guard guard;
    guard.negated = tokens_.accept_symbol("!");
    guard.name = operands_.read_predicate();
    instruction.guard = std::move(guard);
  }
  const Token opcode = tokens_.expect_name("an instruction");
  if (opcode.text[0] == '%' || opcode.text == "_") tokens_.refuse_token(opcode, "the name of an instruction");
  instruction.opcode = std::string(opcode.text);
  while (tokens_.peek().kind == TokenKind::dotted) instruction.modifiers.emplace_back(tokens_.take().text);
  instruction.operands = operands_.read_all(instruction.opcode, pending_);
  return instruction;
}

// .loc 1 29 3, function_name $L__info_string0 + 8, inlined_at 1 30 3
void BodyReader::read_location() {
  constexpr std::uint64_t kLimit = std::numeric_limits<std::uint32_t>::max();
  const auto number = [this](std::string_view what) {
    const Token token = tokens_.take();
    if (token.kind != TokenKind::integer) tokens_.refuse_token(token, what);
    if (token.bits > kLimit) tokens_.refuse(token.place, std::string(what) + " beyond 32 bits", "take the .loc out");
    return static_cast<std::uint32_t>(token.bits);
  };
  location_.file = number("the number of a file of .loc");
  location_.line = number("a line of .loc");
  location_.column = number("a column of .loc");
  if (!tokens_.accept_symbol(",")) return;
  if (!tokens_.at_name("function_name")) tokens_.refuse_token(tokens_.peek(), "function_name of an inlined function");
  tokens_.take();
  tokens_.expect_name("the label of a function's name");
  if (tokens_.accept_symbol("+")) number("an offset of a function's name");
  tokens_.expect_symbol(",", "behind function_name");
  if (!tokens_.at_name("inlined_at")) tokens_.refuse_token(tokens_.peek(), "inlined_at of an inlined function");
  tokens_.take();
  number("the number of a file of inlined_at");
  number("a line of inlined_at");
  number("a column of inlined_at");
}

}  // namespace heddle::ptx
