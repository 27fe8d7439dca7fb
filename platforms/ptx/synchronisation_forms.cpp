// Barriers of CTAs and clusters, mbarriers, fences, and what else steers threads.
#include <algorithm>

#include <fmt/format.h>

#include "ptx/operand_resolver.h"

namespace heddle::ptx {

using arch::OpCode;
using arch::Order;
using arch::Scope;

namespace {

[[noreturn]] void refuse_word(OperandResolver& in, const std::string& word) {
  in.fail(fmt::format("the model does not know .{} here", word), "write a form that docs/ptx.md lists");
}

ResolvedInstruction& add_control(OperandResolver& in, AccessForm form) {
  ResolvedInstruction& made = in.builder.add(Action::control);
  made.target = in.builder.add(form);
  return made;
}

void add_fence(OperandResolver& in, Order order, Scope scope) {
  AccessForm form;
  form.code = OpCode::fence;
  form.order = order;
  form.scope = scope;
  add_control(in, form);
}

constexpr std::uint32_t kHiddenWord = 4;     // bytes
constexpr std::uint32_t kBarrierWords = 16;  // one for each barrier of a CTA

const AluForm* form_of(OperandResolver& in, const char* opcode, const char* type) {
  std::string why;
  const AluForm* form = find_alu_form(opcode, {type}, why);
  if (form == nullptr) in.fail(why, "use bar.sync and an atomic in shared memory");
  return form;
}

void add_barrier(OperandResolver& in, PlaneRef number, PlaneRef threads) {
  ResolvedInstruction& made = in.builder.add(Action::barrier);
  made.r[2] = number;
  made.r[3] = threads;
  made.collects = true;
}

// The machine's barriers do not reduce. Each warp adds its count to a word of shared memory that the module does not
// see, and after all have read the sum, takes it off again: so the word is zero for the next time.
void resolve_reducing_barrier(OperandResolver& in, Modifiers& words) {
  const int kind = words.take_of({"popc", "and", "or"});
  words.take("aligned");
  const bool counts = kind == 0;
  if (kind < 0 || !words.take(counts ? "u32" : "pred") || !words.left().empty()) {
    in.fail("a kind and a type are expected", "bar.red.popc.u32, bar.red.and.pred or bar.red.or.pred");
  }
  if (in.builder.guard().any()) in.fail("a barrier that reduces under a guard is not in the model", "branch around it");
  const std::optional<std::uint64_t> number = in.constant(in.operand(1));
  if (!number || *number >= kBarrierWords) in.fail(in.operand(1), "the number of a barrier is expected", "0 to 15");
  const PlaneRef barrier = in.source(1, Type::b32);
  const PlaneRef threads = in.count() > 3 ? in.source(2, Type::b32) : kNoPlane;
  bool constant = false;
  PredicateRef given = in.predicate(in.operand(in.count() - 1), &constant);
  // Whether all are true: whether none is false.
  if (kind == 1) given.negated = !given.negated;
  if (kind == 1) constant = !constant;

  CodeBuilder& builder = in.builder;
  const PlaneRef set = builder.make_register(1);
  const PlaneRef count = builder.make_register(1);
  const PlaneRef less = builder.make_register(1);
  const PlaneRef sum = builder.make_register(1);
  const PlaneRef word = builder.hidden_constant(static_cast<std::uint32_t>(*number) * kHiddenWord);
  const PredicateRef leader = builder.make_predicate();
  ResolvedInstruction& ballot = builder.add(Action::ballot);
  ballot.r[0] = set;
  ballot.p_in[0] = given.any() ? given : PredicateRef{};
  ballot.number = constant ? 1 : 0;
  ballot.collects = true;
  const auto alu = [&](const AluForm* form, PlaneRef to, PlaneRef from) {
    ResolvedInstruction& made = builder.add(Action::alu);
    made.function = form->function;
    made.r[0] = to;
    made.r[2] = from;
    made.unit = arch::Unit::int32;
  };
  alu(form_of(in, "popc", "b32"), count, set);
  alu(form_of(in, "neg", "s32"), less, count);
  builder.add(Action::elect).p_out[0] = leader;
  AccessForm form;
  form.code = OpCode::atomic;
  form.window = Window::shared;
  form.wide = false;
  form.order = Order::relaxed;
  const auto access = [&](PlaneRef to, PlaneRef value) {
    ResolvedInstruction& made = builder.add(Action::access);
    made.r[0] = to;
    made.r[2] = word;
    made.r[3] = value;
    made.unit = arch::Unit::memory;
    made.target = builder.add(form);
  };
  builder.set_guard(leader);
  access(kNoPlane, count);
  builder.set_guard({});
  add_barrier(in, barrier, threads);
  form.code = OpCode::load;
  form.order = Order::weak;
  access(sum, kNoPlane);
  add_barrier(in, barrier, threads);
  form.code = OpCode::atomic;
  form.order = Order::relaxed;
  builder.set_guard(leader);
  access(kNoPlane, less);
  builder.set_guard({});
  if (counts) {
    const PlaneRef to = in.destination(in.operand(0), Type::b32);
    if (to != kNoPlane) in.copy(to, sum, 1);
    return;
  }
  const PredicateRef any = builder.make_predicate();
  ResolvedInstruction& test = builder.add_free(Action::set_predicate);
  test.r[2] = sum;
  test.p_out[0] = any;
  ResolvedInstruction& result = builder.add_free(Action::copy_predicate);
  result.p_in[0] = {any.scalar, kind == 1};
  result.p_out[0] = in.predicate_destination(in.operand(0));
}

void resolve_cta_barrier(OperandResolver& in, Modifiers& words) {
  words.take("cta");
  words.take("aligned");
  if (words.take("red")) return resolve_reducing_barrier(in, words);
  if (!words.take("sync")) {
    in.fail("a barrier at which threads arrive without waiting is not in the model", "use bar.sync, or an mbarrier");
  }
  if (!words.left().empty()) refuse_word(in, words.left());
  const PlaneRef number = in.has(0) ? in.source(0, Type::b32) : in.builder.constant(0, 1);
  const PlaneRef threads = in.has(1) ? in.source(1, Type::b32) : kNoPlane;
  add_barrier(in, number, threads);
}

void resolve_cluster_barrier(OperandResolver& in, Modifiers& words) {
  words.take("aligned");
  const bool arrives = words.take("arrive");
  if (!arrives && !words.take("wait"))
    in.fail("arrive or wait is expected", "barrier.cluster.arrive, barrier.cluster.wait");
  AccessForm form;
  form.code = arrives ? OpCode::cluster_arrive : OpCode::cluster_wait;
  form.scope = Scope::cluster;
  form.order = arrives ? Order::release : Order::acquire;
  if (words.take("relaxed")) form.order = Order::relaxed;
  words.take_of({"release", "acquire"});
  if (!words.left().empty()) refuse_word(in, words.left());
  add_control(in, form).collects = true;
}

void resolve_fence(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  if (words.take("proxy")) {
    if (words.take("async")) {
      AccessForm form;
      form.code = OpCode::proxy_fence;
      add_control(in, form);
      return;
    }
    if (!words.take_prefix("tensormap").empty()) {
      if (!in.has(0)) return add_fence(in, Order::release, Scope::gpu);
      const AddressValue address = in.address(in.operand(0));
      AccessForm form;
      form.code = OpCode::tensor_fence;
      form.wide = address.wide;
      form.offset = address.offset;
      ResolvedInstruction& made = add_control(in, form);
      made.r[2] = address.base;
      made.unit = arch::Unit::memory;
      return;
    }
    if (!words.take("alias")) refuse_word(in, words.left());
    in.builder.add(Action::nothing);
    return;
  }
  words.take("mbarrier_init");
  constexpr Order kOrders[] = {Order::acquire_release, Order::acquire_release, Order::acquire, Order::release};
  const int order = words.take_of({"sc", "acq_rel", "acquire", "release"});
  words.take_of({"sync_restrict::shared::cluster", "sync_restrict::shared::cta"});
  constexpr Scope kScopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::system};
  const int scope = words.take_of({"cta", "cluster", "gpu", "sys"});
  if (scope < 0 || !words.left().empty()) in.fail("a scope is expected", "fence.acq_rel.gpu, fence.proxy.async …");
  add_fence(in, order < 0 ? Order::acquire_release : kOrders[order], kScopes[scope]);
}

void resolve_membar(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  constexpr Scope kScopes[] = {Scope::cta, Scope::gpu, Scope::system};
  const int scope = words.take_of({"cta", "gl", "sys"});
  if (scope < 0 || !words.left().empty()) in.fail("a scope is expected", "membar.gl, membar.sys or membar.cta");
  add_fence(in, Order::acquire_release, kScopes[scope]);
}

// The number of the phase's parity that the SM gives, as the state of 64 bits that PTX has for it.
void put_state(OperandResolver& in, PlaneRef state, PlaneRef parity) {
  ResolvedInstruction& made = in.builder.add_free(Action::narrow);
  made.r[0] = state;
  made.r[2] = parity;
  made.bytes = 4;
  made.planes = 2;
}

void resolve_wait(OperandResolver& in, Modifiers& words, const MemoryWords& memory, bool tries) {
  const bool parity = words.take("parity");
  if (!words.take("b64") || !words.left().empty())
    in.fail("the type .b64 is expected", "mbarrier.try_wait.parity … .b64");
  const AddressValue address = in.address(in.operand(1));
  const PlaneRef phase = in.source(2, parity ? Type::b32 : Type::b64);
  AccessForm form;
  form.code = tries ? OpCode::mbarrier_wait : OpCode::mbarrier_test;
  form.window = window_of(memory, address);
  form.wide = address.wide;
  form.offset = address.offset;
  form.order = memory.order == Order::relaxed ? Order::relaxed : Order::acquire;
  form.scope = memory.has_scope ? memory.scope : Scope::cta;
  const PredicateRef flag = in.predicate_destination(in.operand(0));
  const PlaneRef passed = in.builder.make_register(1);
  ResolvedInstruction& made = in.builder.add(Action::mbarrier);
  made.r[0] = passed;
  made.r[2] = address.base;
  made.r[3] = phase;
  made.unit = arch::Unit::memory;
  made.target = in.builder.add(form);
  ResolvedInstruction& set = in.builder.add_free(Action::set_predicate);
  set.r[2] = passed;
  set.p_out[0] = flag;
}

void resolve_mbarrier(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const int what = words.take_of({"init", "inval", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait"});
  if (what < 0) {
    in.fail("this operation of mbarriers is not in the model",
            "use init, inval, arrive, arrive.expect_tx, expect_tx, complete_tx, test_wait or try_wait");
  }
  const bool expects = what == 2 && words.take("expect_tx");
  words.take("noComplete");
  const MemoryWords memory = take_memory_words(words);
  if (what >= 5) return resolve_wait(in, words, memory, what == 6);
  if (!words.take("b64") && what != 3 && what != 4) in.fail("the type .b64 is expected", "mbarrier.init.shared.b64 …");
  if (!words.left().empty()) refuse_word(in, words.left());
  constexpr OpCode kCodes[] = {OpCode::mbarrier_init, OpCode::mbarrier_invalidate, OpCode::mbarrier_arrive,
                               OpCode::mbarrier_expect, OpCode::mbarrier_complete};
  // arrive has a result, but not for another CTA.
  const bool result = what == 2 && in.has(1) && std::holds_alternative<AddressOperand>(in.operand(1).what);
  const std::size_t at = result ? 1 : 0;
  const AddressValue address = in.address(in.operand(at));
  AccessForm form;
  form.code = kCodes[what];
  form.window = window_of(memory, address);
  form.wide = address.wide;
  form.offset = address.offset;
  form.order = what == 2 ? (memory.order == Order::relaxed ? Order::relaxed : Order::release) : Order::relaxed;
  form.scope = memory.has_scope ? memory.scope : Scope::cta;
  const PlaneRef operand = in.has(at + 1) ? in.source(at + 1, Type::b32) : kNoPlane;
  const PlaneRef state = result ? in.destination(in.operand(0), Type::b64) : kNoPlane;
  const PlaneRef parity = state == kNoPlane ? kNoPlane : in.builder.make_register(1);
  ResolvedInstruction& made = in.builder.add(Action::mbarrier);
  made.r[0] = parity;
  made.r[2] = address.base;
  made.r[expects ? 4 : 3] = operand;
  made.unit = arch::Unit::memory;
  made.target = in.builder.add(form);
  if (parity != kNoPlane) put_state(in, state, parity);
}

void resolve_dependency(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  AccessForm form;
  if (words.take("launch_dependents")) {
    form.code = OpCode::launch_dependents;
    in.builder.code().lets_go = true;
  } else if (words.take("wait")) {
    form.code = OpCode::grid_dependency_wait;
  } else {
    in.fail("launch_dependents or wait is expected", "griddepcontrol.wait;");
  }
  add_control(in, form);
}

}  // namespace

bool resolve_synchronisation(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  if (opcode == "bar" || opcode == "barrier") {
    Modifiers words(in.instruction.modifiers);
    if (words.take("cluster")) {
      resolve_cluster_barrier(in, words);
    } else {
      resolve_cta_barrier(in, words);
    }
  } else if (opcode == "fence") {
    resolve_fence(in);
  } else if (opcode == "membar") {
    resolve_membar(in);
  } else if (opcode == "mbarrier") {
    resolve_mbarrier(in);
  } else if (opcode == "griddepcontrol") {
    resolve_dependency(in);
  } else if (opcode == "nanosleep") {
    in.builder.add(Action::sleep);
  } else if (opcode == "trap") {
    in.builder.add(Action::trap).unit = arch::Unit::memory;
  } else if (opcode == "setmaxnreg" || opcode == "pmevent" || opcode == "brkpt") {
    in.builder.add(Action::nothing);
  } else {
    return false;
  }
  return true;
}

}  // namespace heddle::ptx
