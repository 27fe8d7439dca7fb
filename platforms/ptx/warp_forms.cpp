// Exchanges between the lanes of a warp.
#include <fmt/format.h>

#include "ptx/operand_resolver.h"
#include "ptx/timing.h"

namespace heddle::ptx {
namespace {

void refuse_rest(OperandResolver& in, const Modifiers& words) {
  if (words.left().empty()) return;
  in.fail(fmt::format("the model does not know .{} here", words.left()), "write a form that the PTX manual has");
}

ResolvedInstruction& add(OperandResolver& in, Action action, PlaneRef members, std::uint16_t cost) {
  ResolvedInstruction& made = in.builder.add(action);
  made.r[7] = members;
  made.collects = true;
  made.unit = arch::Unit::int32;
  made.count = cost;
  return made;
}

void need_sync(OperandResolver& in, Modifiers& words) {
  if (words.take("sync")) return;
  in.fail("lanes that do not say whom they meet are not in the model", "use the form with .sync and a mask of members");
}

void resolve_shuffle(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  need_sync(in, words);
  const int kind = words.take_of({"up", "down", "bfly", "idx"});
  if (kind < 0 || !words.take("b32")) in.fail("a direction and .b32 are expected", "shfl.sync.bfly.b32 …");
  refuse_rest(in, words);
  const Operand* to = nullptr;
  const Operand* inside = nullptr;
  in.pair(in.operand(0), to, inside);
  const PlaneRef a = in.source(1, Type::b32);
  const PlaneRef b = in.source(2, Type::b32);
  const PlaneRef c = in.source(3, Type::b32);
  const PlaneRef members = in.source(4, Type::b32);
  const PlaneRef result = in.destination(*to, Type::b32);
  const PredicateRef flag = inside == nullptr ? PredicateRef{} : in.predicate_destination(*inside);
  ResolvedInstruction& made = add(in, Action::shuffle, members, kShuffleCost);
  made.kind = static_cast<std::uint8_t>(kind);
  made.r[0] = result;
  made.r[2] = a;
  made.r[3] = b;
  made.r[4] = c;
  made.p_out[0] = flag;
}

void resolve_vote(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  need_sync(in, words);
  const bool ballot = words.take("ballot");
  const int kind = ballot ? 0 : words.take_of({"all", "any", "uni"});
  if (kind < 0 || !words.take(ballot ? "b32" : "pred")) {
    in.fail("a kind and a type are expected", "vote.sync.all.pred, vote.sync.ballot.b32 …");
  }
  refuse_rest(in, words);
  bool constant = false;
  const PredicateRef given = in.predicate(in.operand(1), &constant);
  const PlaneRef members = in.source(2, Type::b32);
  const PlaneRef result = ballot ? in.destination(in.operand(0), Type::b32) : kNoPlane;
  const PredicateRef flag = ballot ? PredicateRef{} : in.predicate_destination(in.operand(0));
  ResolvedInstruction& made = add(in, ballot ? Action::ballot : Action::vote, members, kVoteCost);
  made.kind = static_cast<std::uint8_t>(kind);
  made.r[0] = result;
  made.p_in[0] = given;
  made.number = constant ? 1 : 0;
  made.p_out[0] = flag;
}

void resolve_match(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  need_sync(in, words);
  const int kind = words.take_of({"any", "all"});
  const std::optional<Type> type = words.take_type();
  if (kind < 0 || !type) in.fail("a kind and a type are expected", "match.any.sync.b32 …");
  refuse_rest(in, words);
  const Operand* to = nullptr;
  const Operand* flag = nullptr;
  in.pair(in.operand(0), to, flag);
  const PlaneRef a = in.source(1, *type);
  const PlaneRef members = in.source(2, Type::b32);
  const PlaneRef result = in.destination(*to, Type::b32);
  const PredicateRef same = flag == nullptr ? PredicateRef{} : in.predicate_destination(*flag);
  ResolvedInstruction& made = add(in, kind == 0 ? Action::match_any : Action::match_all, members, kReduceCost);
  made.r[0] = result;
  made.r[2] = a;
  made.bytes = static_cast<std::uint8_t>(bytes_of(*type));
  made.p_out[0] = same;
}

void resolve_reduce(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  need_sync(in, words);
  const int kind = words.take_of({"add", "min", "max", "and", "or", "xor"});
  const std::optional<Type> type = words.take_type();
  const bool known = type && (*type == Type::u32 || *type == Type::s32 || *type == Type::b32);
  if (kind < 0 || !known) in.fail("an operation on 32-bit integers is expected", "redux.sync.add.s32 …");
  refuse_rest(in, words);
  const PlaneRef a = in.source(1, Type::b32);
  const PlaneRef members = in.source(2, Type::b32);
  const PlaneRef result = in.destination(in.operand(0), Type::b32);
  if (result == kNoPlane) return;
  ResolvedInstruction& made = add(in, Action::reduce, members, kReduceCost);
  made.kind = static_cast<std::uint8_t>(kind);
  made.is_signed = *type == Type::s32;
  made.r[0] = result;
  made.r[2] = a;
}

void resolve_elect(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  need_sync(in, words);
  refuse_rest(in, words);
  const Operand* to = nullptr;
  const Operand* flag = nullptr;
  in.pair(in.operand(0), to, flag);
  if (flag == nullptr) in.fail("a predicate is expected behind |", "elect.sync _|%p1, 0xffffffff;");
  const PlaneRef members = in.source(1, Type::b32);
  const PlaneRef leader = in.destination(*to, Type::b32);
  const PredicateRef chosen = in.predicate_destination(*flag);
  ResolvedInstruction& made = add(in, Action::elect, members, kVoteCost);
  made.r[0] = leader;
  made.p_out[0] = chosen;
}

}  // namespace

bool resolve_warp(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  const std::vector<std::string>& words = in.instruction.modifiers;
  const bool warp = !words.empty() && words.front() == "warp";
  if (opcode == "shfl") {
    resolve_shuffle(in);
  } else if (opcode == "vote") {
    resolve_vote(in);
  } else if (opcode == "match") {
    resolve_match(in);
  } else if (opcode == "redux") {
    resolve_reduce(in);
  } else if (opcode == "elect") {
    resolve_elect(in);
  } else if (opcode == "activemask") {
    const PlaneRef to = in.destination(in.operand(0), Type::b32);
    ResolvedInstruction& made = in.builder.add(Action::active_mask);
    made.r[0] = to;
    made.unit = arch::Unit::int32;
  } else if (opcode == "bar" && warp) {
    const PlaneRef members = in.source(0, Type::b32);
    ResolvedInstruction& made = add(in, Action::warp_sync, members, 1);
    made.unit = arch::Unit::none;
  } else {
    return false;
  }
  return true;
}

}  // namespace heddle::ptx
