// mov, cvta, isspacep, mapa, getctarank, and instructions of registers alone.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "ptx/operand_resolver.h"
#include "ptx/timing.h"

namespace heddle::ptx {
namespace {

// A vector from a register, or a register from a vector.
void resolve_vector_move(OperandResolver& in, Type type) {
  const std::vector<const Operand*> to = in.elements(in.operand(0));
  const std::vector<const Operand*> from = in.elements(in.operand(1));
  const bool packs = to.size() == 1;
  const std::vector<const Operand*>& many = packs ? from : to;
  const std::uint32_t bytes = bytes_of(type) / static_cast<std::uint32_t>(many.size());
  if (many.size() > 4 || (packs ? from : to).size() < 2 || from.size() + to.size() != many.size() + 1 || bytes == 0) {
    in.fail("a register and a vector of two or four elements are expected", "write {a, b} on one side alone");
  }
  const Type element = bytes == 1 ? Type::b8 : bytes == 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::b64;
  if (packs) {
    const PlaneRef result = in.destination(*to.front(), type);
    std::vector<PlaneRef> parts;
    for (const Operand* part : from) parts.push_back(in.source(*part, element));
    if (result == kNoPlane) return;
    ResolvedInstruction& made = in.builder.add_free(Action::pack);
    made.r[0] = result;
    std::copy(parts.begin(), parts.end(), made.r.begin() + kFirstSource);
    made.kind = static_cast<std::uint8_t>(parts.size());
    made.bytes = static_cast<std::uint8_t>(bytes);
    made.planes = static_cast<std::uint8_t>(planes_of(type));
    return;
  }
  const PlaneRef whole = in.source(*from.front(), type);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const PlaneRef result = in.destination(*to[i], element);
    if (result == kNoPlane) continue;
    const auto at = static_cast<std::uint32_t>(i) * bytes;
    const auto step = static_cast<PlaneRef>(at / 4);
    const PlaneRef part = whole >= 0 ? whole + step : whole - step;
    if (bytes >= 4) {
      in.copy(result, part, bytes / 4);
      continue;
    }
    ResolvedInstruction& made = in.builder.add_free(Action::narrow);
    made.r[0] = result;
    made.r[2] = part;
    made.bytes = static_cast<std::uint8_t>(bytes);
    made.shift = static_cast<std::uint8_t>(8 * (at % 4));
  }
}

void resolve_mov(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const std::optional<Type> type = words.take_type();
  if (!type || !words.left().empty()) in.fail("a type is expected, and nothing else", "mov.b32, mov.u64, mov.pred …");
  if (*type == Type::pred) {
    if (resolve_special_register(in, *type)) return;
    bool constant = false;
    const PredicateRef from = in.predicate(in.operand(1), &constant);
    ResolvedInstruction& made = in.builder.add_free(Action::copy_predicate);
    made.p_in[0] = from;
    made.number = constant ? 1 : 0;
    made.p_out[0] = in.predicate_destination(in.operand(0));
    return;
  }
  const bool vectors = std::holds_alternative<VectorOperand>(in.operand(0).what) ||
                       std::holds_alternative<VectorOperand>(in.operand(1).what);
  if (vectors) return resolve_vector_move(in, *type);
  if (resolve_special_register(in, *type)) return;
  const PlaneRef to = in.destination(in.operand(0), *type);
  const PlaneRef from = in.source(1, *type);
  if (to != kNoPlane) in.copy(to, from, planes_of(*type));
}

Window window_of(OperandResolver& in, Modifiers& words) {
  constexpr Window kWindows[] = {Window::cluster, Window::shared,   Window::shared,    Window::global,
                                 Window::local,   Window::constant, Window::parameter, Window::parameter};
  const int found =
      words.take_of({"shared::cluster", "shared::cta", "shared", "global", "local", "const", "param::entry", "param"});
  if (found < 0) in.fail("a state space is expected", "add .global, .shared, .local, .const or .param");
  return kWindows[found];
}

void resolve_cvta(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const bool from_generic = words.take("to");
  const Window window = window_of(in, words);
  const std::optional<Type> type = words.take_type();
  if (!type || !words.left().empty()) in.fail("a size is expected, and nothing else", "cvta.to.global.u64 …");
  const PlaneRef to = in.destination(in.operand(0), *type);
  const PlaneRef from = in.source(1, *type);
  if (to == kNoPlane) return;
  const bool moves = window == Window::global || window == Window::constant || window == Window::parameter;
  if (moves) return in.copy(to, from, planes_of(*type));
  ResolvedInstruction& made = in.builder.add_free(from_generic ? Action::from_window : Action::to_window);
  made.r[0] = to;
  made.r[2] = from;
  made.window = window;
  made.planes = static_cast<std::uint8_t>(planes_of(*type));
  made.bytes = static_cast<std::uint8_t>(bytes_of(*type));
}

void resolve_isspacep(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const Window window = window_of(in, words);
  const PlaneRef from = in.source(1, Type::b64);
  ResolvedInstruction& made = in.builder.add(Action::in_window);
  made.p_out[0] = in.predicate_destination(in.operand(0));
  made.r[2] = from;
  made.window = window;
  made.bytes = 8;
  made.unit = arch::Unit::int32;
}

// mapa and getctarank: a generic address, or a word of shared memory.
void resolve_ranks(OperandResolver& in, bool maps) {
  Modifiers words(in.instruction.modifiers);
  words.take_of({"shared::cluster"});
  const std::optional<Type> type = words.take_type();
  if (!type || !words.left().empty()) in.fail("a size is expected", "mapa.shared::cluster.u32, mapa.u64 …");
  const PlaneRef to = in.destination(in.operand(0), maps ? *type : Type::u32);
  const PlaneRef from = in.source(1, *type);
  const PlaneRef rank = maps ? in.source(2, Type::u32) : kNoPlane;
  if (to == kNoPlane) return;
  ResolvedInstruction& made = in.builder.add(maps ? Action::map_rank : Action::rank_of);
  made.r[0] = to;
  made.r[2] = from;
  made.r[3] = rank;
  made.bytes = static_cast<std::uint8_t>(bytes_of(*type));
  made.planes = maps ? static_cast<std::uint8_t>(planes_of(*type)) : 1;
  made.unit = arch::Unit::int32;
}

// A vector for an instruction that wants its elements in planes side by side.
PlaneRef vector_source(OperandResolver& in, const Operand& operand, const OperandSlot& slot) {
  const std::vector<const Operand*> elements = in.elements(operand);
  if (elements.size() != slot.elements || elements.size() > 4) {
    in.fail(operand, fmt::format("a vector of {} elements is expected", slot.elements), "write {a, b, …}");
  }
  std::vector<PlaneRef> parts;
  for (const Operand* element : elements) parts.push_back(in.source(*element, slot.type));
  const std::uint32_t planes = planes_of(slot.type);
  const PlaneRef whole = in.builder.make_register(planes * slot.elements);
  ResolvedInstruction& made = in.builder.add_free(Action::pack);
  made.r[0] = whole;
  std::copy(parts.begin(), parts.end(), made.r.begin() + kFirstSource);
  made.kind = static_cast<std::uint8_t>(parts.size());
  made.bytes = static_cast<std::uint8_t>(4 * planes);
  made.planes = static_cast<std::uint8_t>(planes * slot.elements);
  return whole;
}

struct AluParts {
  std::array<PlaneRef, 8> r{kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane, kNoPlane};
  std::array<PredicateRef, 2> p_in;
  std::array<PredicateRef, 2> p_out;
  std::vector<std::pair<PlaneRef, PlaneRef>> copies;  // behind it: to, from; of one element
  std::uint32_t copied_planes = 1;
};

void read_destinations(OperandResolver& in, const AluForm& form, AluParts& parts) {
  const Operand* given[2] = {};
  in.pair(in.operand(0), given[0], given[1]);
  std::size_t values = 0;
  std::size_t predicates = 0;
  for (std::size_t i = 0; i < form.destinations.size(); ++i) {
    const OperandSlot& slot = form.destinations[i];
    if (i >= 2 || given[i] == nullptr) {
      if (!slot.optional) in.fail("a second destination is missing", "write d|p");
      break;
    }
    if (slot.kind == OperandKind::predicate) {
      parts.p_out[predicates++] = in.predicate_destination(*given[i]);
    } else if (slot.elements == 1) {
      parts.r[values++] = in.destination(*given[i], slot.type);
    } else {
      const std::uint32_t planes = planes_of(slot.type);
      const PlaneRef whole = in.builder.make_register(planes * slot.elements);
      parts.r[values++] = whole;
      parts.copied_planes = planes;
      PlaneRef from = whole;
      for (const Operand* element : in.elements(*given[i])) {
        const PlaneRef to = in.destination(*element, slot.type);
        if (to != kNoPlane) parts.copies.emplace_back(to, from);
        from += static_cast<PlaneRef>(planes);
      }
    }
  }
  if (given[1] != nullptr && form.destinations.size() < 2) {
    in.fail("it has one destination", "leave out what stands behind |");
  }
}

void read_sources(OperandResolver& in, const AluForm& form, AluParts& parts) {
  std::size_t values = kFirstSource;
  std::size_t predicates = 0;
  std::size_t at = form.destinations.empty() ? 0 : 1;
  const bool converts = in.instruction.opcode == "cvt";
  for (const OperandSlot& slot : form.sources) {
    if (!in.has(at)) {
      if (!slot.optional) in.fail(fmt::format("operand {} is missing", at + 1), "write it as the PTX manual has it");
      break;
    }
    const Operand& operand = in.operand(at++);
    if (slot.kind == OperandKind::predicate) {
      parts.p_in[predicates++] = in.predicate(operand);
    } else if (slot.elements > 1) {
      parts.r[values++] = vector_source(in, operand, slot);
    } else {
      // Of cvt alone, registers may be wider than their type: the manual, operand size exceeding instruction-type size.
      const Symbol* found = converts ? in.symbol(operand) : nullptr;
      const bool wider =
          found != nullptr && found->kind == Symbol::Kind::value && planes_of(found->type) > planes_of(slot.type);
      parts.r[values++] = wider ? in.any_source(operand, slot.type) : in.source(operand, slot.type);
    }
  }
  if (in.has(at)) {
    in.fail(in.operand(at), fmt::format("{} operands, and it has {}", in.count(), at), "leave out the others");
  }
}

// Of d, a and b.
std::array<std::uint16_t, 3> parts_of(const OperandResolver& in) {
  std::array<std::uint16_t, 3> result{};
  for (std::size_t i = 0; i < result.size() && in.has(i); ++i) {
    const auto* named = std::get_if<NameOperand>(&in.operand(i).what);
    if (named != nullptr) result[i] = video_part(named->selector).value_or(0);
  }
  return result;
}

bool resolve_alu(OperandResolver& in) {
  const Instruction& instruction = in.instruction;
  if (!is_alu_opcode(instruction.opcode)) return false;
  std::string why;
  const AluForm* form = find_alu_form(instruction.opcode, instruction.modifiers, why);
  if (form == nullptr) in.fail(why, "use a form that the PTX manual has for the target");
  if (instruction.opcode.front() == 'v') in.allow_parts();  // video instructions
  AluParts parts;
  read_sources(in, *form, parts);
  read_destinations(in, *form, parts);
  const AluCost cost = cost_of(*form);
  ResolvedInstruction& made = in.builder.add(Action::alu);
  made.function = form->function;
  made.r = parts.r;
  made.p_in = parts.p_in;
  made.p_out = parts.p_out;
  made.part = parts_of(in);
  made.carries = form->reads_carry || form->writes_carry;
  made.unit = cost.unit;
  made.count = cost.count;
  made.free = cost.free && !made.carries;
  for (const auto& [to, from] : parts.copies) in.copy(to, from, parts.copied_planes);
  return true;
}

}  // namespace

bool resolve_registers(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  if (opcode == "mov") {
    resolve_mov(in);
  } else if (opcode == "cvta") {
    resolve_cvta(in);
  } else if (opcode == "isspacep") {
    resolve_isspacep(in);
  } else if (opcode == "mapa" || opcode == "getctarank") {
    resolve_ranks(in, opcode == "mapa");
  } else {
    return resolve_alu(in);
  }
  return true;
}

}  // namespace heddle::ptx
