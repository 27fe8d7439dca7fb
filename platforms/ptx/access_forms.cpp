// Loads, stores, atomics and asynchronous copies of threads.
#include <algorithm>

#include <fmt/format.h>

#include "ptx/operand_resolver.h"

namespace heddle::ptx {

using arch::OpCode;

namespace {

constexpr std::uint32_t kMostBytes = 16;  // of a lane in one access

bool is_signed_type(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

struct VectorType {
  Type type = Type::b32;
  std::uint32_t elements = 1;
};

VectorType take_vector_type(OperandResolver& in, Modifiers& words) {
  VectorType result;
  constexpr std::uint32_t kElements[] = {2, 4, 8};
  const int vector = words.take_of({"v2", "v4", "v8"});
  if (vector >= 0) result.elements = kElements[vector];
  const std::optional<Type> type = words.take_type();
  if (!type) in.fail("a type is expected", "add one: .b32, .f32, .u64 …");
  result.type = *type;
  if (!words.left().empty()) {
    in.fail(fmt::format("the model does not know .{} here", words.left()), "leave it out, or write it another way");
  }
  if (bytes_of(*type) * result.elements > 2 * kMostBytes) {
    in.fail("a vector of more than 32 bytes", "access at most 32 bytes at a time");
  }
  return result;
}

// A register to write to, whatever its width.
struct Target {
  PlaneRef reg = kNoPlane;
  std::uint32_t planes = 1;
  std::uint32_t bits = 0;  // of a register of less than 32; else 0
};
Target target_of(OperandResolver& in, const Operand& operand) {
  const std::string* name = in.name(operand);
  if (name == nullptr) in.fail(operand, "a register is expected", "name one to write to");
  if (*name == "_") return {};
  const Symbol* symbol = in.symbol(operand);
  if (symbol->kind != Symbol::Kind::value) {
    in.fail(operand, fmt::format("{} is no register", *name), "name a register to write to");
  }
  const std::uint32_t bytes = bytes_of(symbol->type);
  return {in.destination(operand, symbol->type), planes_of(symbol->type), bytes < 4 ? 8 * bytes : 0};
}

void check_width(OperandResolver& in, const Operand& operand, const Target& target, Type type) {
  if (target.reg != kNoPlane && target.planes < planes_of(type)) {
    in.fail(operand, fmt::format("the register is narrower than .{}", type_name(type)), "use one of the type's width");
  }
}

// Element at `byte` of planes that were read from memory to a register.
void put_element(OperandResolver& in, const Target& target, PlaneRef whole, std::uint32_t byte, Type type) {
  if (target.reg == kNoPlane) return;
  const std::uint32_t bytes = bytes_of(type);
  const PlaneRef part = whole + static_cast<PlaneRef>(byte / 4);
  if (bytes >= 4 && target.planes == bytes / 4) return in.copy(target.reg, part, target.planes);
  ResolvedInstruction& made = in.builder.add_free(Action::narrow);
  made.r[0] = target.reg;
  made.r[2] = part;
  made.bytes = static_cast<std::uint8_t>(std::min(4U, bytes));
  made.shift = static_cast<std::uint8_t>(8 * (byte % 4));
  made.planes = static_cast<std::uint8_t>(target.planes);
  made.is_signed = is_signed_type(type);
  made.number = target.bits;
}

// Bytes of a parameter of a .func: from the registers that they were put into.
void load_bytes(OperandResolver& in, const ParameterBytes& content, std::uint64_t offset, const VectorType& vector,
                const std::vector<const Operand*>& to) {
  const std::uint32_t bytes = bytes_of(vector.type);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint64_t at = offset + i * bytes;
    const Target target = target_of(in, *to[i]);
    if (target.reg == kNoPlane) continue;
    check_width(in, *to[i], target, vector.type);
    auto found = content.pieces.upper_bound(at);
    const bool any = found != content.pieces.begin();
    if (any) --found;
    if (any && found->first + found->second.bytes >= at + bytes) {
      put_element(in, target, found->second.reg, static_cast<std::uint32_t>(at - found->first), vector.type);
      continue;
    }
    // Side by side from smaller ones.
    std::vector<PlaneRef> parts;
    std::uint32_t each = 0;
    for (std::uint64_t byte = at; byte < at + bytes;) {
      const auto piece = content.pieces.find(byte);
      if (piece == content.pieces.end() || (each != 0 && piece->second.bytes != each) || parts.size() == 4) {
        in.fail("a parameter is read in other parts than it was written in", "read it as it is written");
      }
      each = piece->second.bytes;
      parts.push_back(piece->second.reg);
      byte += each;
    }
    const PlaneRef whole = in.builder.make_register(planes_of(vector.type));
    ResolvedInstruction& made = in.builder.add_free(Action::pack);
    made.r[0] = whole;
    std::copy(parts.begin(), parts.end(), made.r.begin() + kFirstSource);
    made.kind = static_cast<std::uint8_t>(parts.size());
    made.bytes = static_cast<std::uint8_t>(each);
    made.planes = static_cast<std::uint8_t>(planes_of(vector.type));
    put_element(in, target, whole, 0, vector.type);
  }
}

void store_bytes(OperandResolver& in, ParameterBytes& content, std::uint64_t offset, const VectorType& vector,
                 const std::vector<const Operand*>& from) {
  const std::uint32_t bytes = bytes_of(vector.type);
  for (std::size_t i = 0; i < from.size(); ++i) {
    ParameterBytes::Piece& piece = content.pieces[offset + i * bytes];
    if (piece.bytes != 0 && piece.bytes != bytes) {
      in.fail("a parameter is written in other parts than before", "write it in the same parts everywhere");
    }
    if (piece.bytes == 0) piece = {bytes, in.builder.make_register(planes_of(vector.type))};
    in.copy(piece.reg, in.any_source(*from[i], vector.type), planes_of(vector.type));
  }
}

void set_address(AccessForm& form, ResolvedInstruction& made, const AddressValue& address, std::uint32_t further) {
  form.wide = address.wide;
  form.offset = (address.symbol != nullptr || address.base != kNoPlane ? address.offset : 0) + further;
  made.r[2] = address.base;
}

void check_elements(OperandResolver& in, const Operand& operand, std::size_t given, const VectorType& vector) {
  if (given == vector.elements) return;
  in.fail(operand, fmt::format("{} registers for {} elements", given, vector.elements), "write {a, b, …}");
}

void resolve_load(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const MemoryWords memory = take_memory_words(words);
  const VectorType vector = take_vector_type(in, words);
  const std::vector<const Operand*> to = in.elements(in.operand(0));
  check_elements(in, in.operand(0), to.size(), vector);
  const AddressValue address = in.address(in.operand(1));
  if (address.symbol != nullptr && address.symbol->kind == Symbol::Kind::bytes) {
    return load_bytes(in, *address.symbol->content, static_cast<std::uint64_t>(address.offset), vector, to);
  }
  const std::uint32_t bytes = bytes_of(vector.type);
  const std::uint32_t at_once = std::min(vector.elements, kMostBytes / bytes);
  AccessForm form;
  form.code = OpCode::load;
  form.window = window_of(memory, address);
  form.order = memory.order;
  form.scope = memory.scope;
  std::vector<std::pair<PlaneRef, std::uint32_t>> wholes;
  for (std::uint32_t first = 0; first < vector.elements; first += at_once) {
    form.width = static_cast<std::uint8_t>(at_once * bytes);
    const Target single = target_of(in, *to[first]);
    check_width(in, *to[first], single, vector.type);
    const bool extends = bytes < 4 && is_signed_type(vector.type);
    const bool direct = at_once == 1 && single.reg != kNoPlane && !extends && single.planes == planes_of(vector.type);
    const PlaneRef whole = direct ? single.reg : in.builder.make_register(std::max(1U, form.width / 4U));
    ResolvedInstruction& made = in.builder.add(Action::access);
    set_address(form, made, address, first * bytes);
    made.r[0] = whole;
    made.unit = arch::Unit::memory;
    made.target = in.builder.add(form);
    if (!direct) wholes.emplace_back(whole, first);
  }
  for (const auto& [whole, first] : wholes) {
    for (std::uint32_t i = 0; i < at_once; ++i) {
      const Target target = target_of(in, *to[first + i]);
      check_width(in, *to[first + i], target, vector.type);
      put_element(in, target, whole, i * bytes, vector.type);
    }
  }
}

void check_source_width(OperandResolver& in, const Operand& operand, Type type) {
  if (in.name(operand) == nullptr) return;
  const Symbol* symbol = in.symbol(operand);
  if (symbol != nullptr && symbol->kind == Symbol::Kind::value && planes_of(symbol->type) < planes_of(type)) {
    in.fail(operand, fmt::format("the register is narrower than .{}", type_name(type)), "use one of the type's width");
  }
}

PlaneRef take_barrier(OperandResolver& in, const Operand& operand, AccessForm& form) {
  const AddressValue address = in.address(operand);
  if (address.symbol != nullptr || address.base != kNoPlane) form.barrier_offset = address.offset;
  return address.base;
}

void resolve_store(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  const MemoryWords memory = take_memory_words(words);
  const bool async = words.take("async");
  if (async) words.take("mbarrier::complete_tx::bytes");
  const VectorType vector = take_vector_type(in, words);
  const std::vector<const Operand*> from = in.elements(in.operand(1));
  check_elements(in, in.operand(1), from.size(), vector);
  for (const Operand* source : from) check_source_width(in, *source, vector.type);
  const AddressValue address = in.address(in.operand(0));
  if (address.symbol != nullptr && address.symbol->kind == Symbol::Kind::bytes) {
    return store_bytes(in, *address.symbol->content, static_cast<std::uint64_t>(address.offset), vector, from);
  }
  const std::uint32_t bytes = bytes_of(vector.type);
  const std::uint32_t at_once = std::min(vector.elements, kMostBytes / bytes);
  AccessForm form;
  form.code = OpCode::store;
  form.window = window_of(memory, address);
  form.order = async ? arch::Order::weak : memory.order;
  form.scope = memory.scope;
  form.completes = async;
  form.elements = static_cast<std::uint8_t>(at_once);
  form.width = static_cast<std::uint8_t>(at_once * bytes);
  const PlaneRef barrier = async ? take_barrier(in, in.operand(2), form) : kNoPlane;
  for (std::uint32_t first = 0; first < vector.elements; first += at_once) {
    std::vector<PlaneRef> sources;
    for (std::uint32_t i = 0; i < at_once; ++i) sources.push_back(in.any_source(*from[first + i], vector.type));
    ResolvedInstruction& made = in.builder.add(Action::access);
    set_address(form, made, address, first * bytes);
    std::copy(sources.begin(), sources.end(), made.r.begin() + 3);
    if (async) made.r[7] = barrier;
    made.unit = arch::Unit::memory;
    made.target = in.builder.add(form);
  }
}

std::optional<arch::ValueType> value_type(Type type) {
  using arch::ValueType;
  switch (type) {
    case Type::b32:
    case Type::u32:
      return ValueType::u32;
    case Type::s32:
      return ValueType::s32;
    case Type::b64:
    case Type::u64:
      return ValueType::u64;
    case Type::s64:
      return ValueType::s64;
    case Type::f32:
      return ValueType::f32;
    case Type::f64:
      return ValueType::f64;
    case Type::f16x2:
      return ValueType::f16x2;
    case Type::bf16x2:
      return ValueType::bf16x2;
    default:
      return std::nullopt;
  }
}

void resolve_atomic(OperandResolver& in, bool returns) {
  using arch::AtomicKind;
  Modifiers words(in.instruction.modifiers);
  MemoryWords memory = take_memory_words(words);
  if (memory.order == arch::Order::weak) memory.order = arch::Order::relaxed;
  const bool async = words.take("async");
  if (async) words.take("mbarrier::complete_tx::bytes");
  constexpr AtomicKind kKinds[] = {
      AtomicKind::add,       AtomicKind::min,      AtomicKind::max,      AtomicKind::bit_and,
      AtomicKind::bit_or,    AtomicKind::bit_xor,  AtomicKind::exchange, AtomicKind::compare_exchange,
      AtomicKind::increment, AtomicKind::decrement};
  const int kind = words.take_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (kind < 0) in.fail("an operation is expected", "add .add, .min, .max, .and, .or, .xor, .exch, .cas, .inc or .dec");
  words.take("noftz");
  const VectorType vector = take_vector_type(in, words);
  const std::optional<arch::ValueType> type = value_type(vector.type);
  const AtomicKind atomic = kKinds[kind];
  if (!type || !arch::atomic_exists(atomic, *type)) {
    in.fail(fmt::format("the model has no such atomic on .{}", type_name(vector.type)),
            "use .u32, .s32, .u64, .f32, .f64, .f16x2 or .bf16x2 as docs/ptx.md lists them");
  }
  const std::size_t at = returns ? 1 : 0;
  const AddressValue address = in.address(in.operand(at));
  const std::vector<const Operand*> values = in.elements(in.operand(at + 1));
  check_elements(in, in.operand(at + 1), values.size(), vector);
  const bool exchanges = atomic == AtomicKind::compare_exchange;
  AccessForm form;
  form.code = OpCode::atomic;
  form.window = window_of(memory, address);
  form.order = async ? arch::Order::weak : memory.order;
  form.scope = memory.scope;
  form.atomic = atomic;
  form.type = *type;
  form.completes = async;
  form.width = static_cast<std::uint8_t>(bytes_of(vector.type));
  const PlaneRef barrier = async ? take_barrier(in, in.operand(at + 2), form) : kNoPlane;
  std::vector<const Operand*> to;
  if (returns) to = in.elements(in.operand(0));
  if (returns) check_elements(in, in.operand(0), to.size(), vector);
  for (std::uint32_t i = 0; i < vector.elements; ++i) {
    const PlaneRef result = returns ? in.destination(*to[i], vector.type) : kNoPlane;
    const PlaneRef value = in.source(*values[i], vector.type);
    const PlaneRef wanted = exchanges ? in.source(in.operand(at + 2), vector.type) : kNoPlane;
    ResolvedInstruction& made = in.builder.add(Action::access);
    set_address(form, made, address, i * form.width);
    made.r[0] = result;
    // cas: what it must be, then what it becomes.
    made.r[3] = exchanges ? wanted : value;
    if (exchanges) made.r[4] = value;
    if (async) made.r[7] = barrier;
    made.unit = arch::Unit::memory;
    made.target = in.builder.add(form);
  }
}

void add_control(OperandResolver& in, OpCode code, std::uint32_t count) {
  AccessForm form;
  form.code = code;
  form.bytes = count;
  ResolvedInstruction& made = in.builder.add(Action::control);
  made.target = in.builder.add(form);
}

void resolve_copy(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  words.take("async");
  if (words.take("commit_group")) return add_control(in, OpCode::async_commit, 0);
  if (words.take("wait_all")) {
    add_control(in, OpCode::async_commit, 0);
    return add_control(in, OpCode::async_wait, 0);
  }
  if (words.take("wait_group")) {
    const std::optional<std::uint64_t> open = in.constant(in.operand(0));
    if (!open) in.fail("a number of groups is expected", "cp.async.wait_group 0;");
    return add_control(in, OpCode::async_wait, static_cast<std::uint32_t>(*open));
  }
  if (words.take("mbarrier")) {
    // There is no arrival that copies make: the warp waits for them, and arrives.
    const bool counts = words.take("noinc");
    if (!counts) {
      in.fail("an arrival that raises the count of the phase is not in the model",
              "use cp.async.mbarrier.arrive.noinc, and count it in mbarrier.init");
    }
    add_control(in, OpCode::async_commit, 0);
    add_control(in, OpCode::async_wait, 0);
    const AddressValue address = in.address(in.operand(0));
    AccessForm form;
    form.code = OpCode::mbarrier_arrive;
    form.window = Window::shared;
    ResolvedInstruction& made = in.builder.add(Action::mbarrier);
    set_address(form, made, address, 0);
    made.unit = arch::Unit::memory;
    made.target = in.builder.add(form);
    return;
  }
  words.take_of({"ca", "cg"});
  words.take_of({"shared", "shared::cta"});
  words.take("global");
  while (!words.take_prefix("L2::").empty()) {
  }
  if (!words.left().empty()) in.fail(fmt::format("the model does not know .{} here", words.left()), "leave it out");
  const AddressValue to = in.address(in.operand(0));
  const AddressValue from = in.address(in.operand(1));
  const std::optional<std::uint64_t> bytes = in.constant(in.operand(2));
  if (!bytes || (*bytes != 4 && *bytes != 8 && *bytes != 16))
    in.fail("4, 8 or 16 bytes are expected", "cp.async … 16;");
  AccessForm form;
  form.code = OpCode::async_copy;
  form.window = Window::shared;
  form.width = static_cast<std::uint8_t>(*bytes);
  form.source_wide = from.wide;
  form.source_offset = from.offset;
  PlaneRef size = kNoPlane;
  if (in.has(3)) {
    const Symbol* symbol = in.symbol(in.operand(3));
    if (symbol != nullptr && symbol->kind == Symbol::Kind::predicate) {
      in.fail(in.operand(3), "a predicate that ignores the source is not in the model", "give the bytes to be copied");
    }
    const bool policy = symbol != nullptr && planes_of(symbol->type) == 2;
    const std::optional<std::uint64_t> known = in.constant(in.operand(3));
    if (!policy && known != bytes) size = in.source(3, Type::u32);
  }
  form.zero_fill = size != kNoPlane;
  ResolvedInstruction& made = in.builder.add(Action::access);
  set_address(form, made, to, 0);
  made.r[3] = from.base;
  made.r[4] = size;
  made.unit = arch::Unit::memory;
  made.target = in.builder.add(form);
}

void resolve_hint(OperandResolver& in) {
  if (in.instruction.opcode == "createpolicy") {
    const PlaneRef to = in.destination(in.operand(0), Type::b64);
    if (to != kNoPlane) in.copy(to, in.builder.constant(0, 2), 2);
    return;
  }
  in.builder.add(Action::nothing);
}

}  // namespace

MemoryWords take_memory_words(Modifiers& words) {
  using arch::Order;
  using arch::Scope;
  MemoryWords result;
  constexpr Order kOrders[] = {Order::weak,    Order::relaxed, Order::acquire, Order::release, Order::acquire_release,
                               Order::relaxed, Order::relaxed};
  const int order = words.take_of({"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"});
  if (order >= 0) result.order = kOrders[order];
  if (order >= 5) result.scope = Scope::system;
  constexpr Scope kScopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::system};
  const int scope = words.take_of({"cta", "cluster", "gpu", "sys"});
  if (scope >= 0) result.scope = kScopes[scope];
  result.has_scope = scope >= 0;
  constexpr Window kWindows[] = {Window::global,    Window::shared,    Window::shared,
                                 Window::cluster,   Window::local,     Window::parameter,
                                 Window::parameter, Window::parameter, Window::constant};
  const int window = words.take_of(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const"});
  if (window >= 0) result.window = kWindows[window];
  words.take_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  words.take("nc");
  words.take("unified");
  while (!words.take_prefix("L1::").empty() || !words.take_prefix("L2::").empty()) {
  }
  return result;
}

Window window_of(const MemoryWords& words, const AddressValue& address) {
  if (words.window) return *words.window;
  if (address.symbol == nullptr) return Window::generic;
  switch (address.symbol->space) {
    case StateSpace::shared:
      return Window::shared;
    case StateSpace::local:
      return Window::local;
    default:
      return Window::global;
  }
}

bool resolve_accesses(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  const std::vector<std::string>& words = in.instruction.modifiers;
  const bool bulk = std::find(words.begin(), words.end(), "bulk") != words.end();
  if (opcode == "ld" || opcode == "ldu") {
    resolve_load(in);
  } else if (opcode == "st" && !bulk) {
    resolve_store(in);
  } else if (opcode == "atom" || opcode == "red") {
    resolve_atomic(in, opcode == "atom");
  } else if (opcode == "cp" && !bulk) {
    resolve_copy(in);
  } else if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "applypriority" || opcode == "createpolicy") {
    const bool map = std::find(words.begin(), words.end(), "tensormap") != words.end();
    if (map) return false;
    resolve_hint(in);
  } else {
    return false;
  }
  return true;
}

}  // namespace heddle::ptx
