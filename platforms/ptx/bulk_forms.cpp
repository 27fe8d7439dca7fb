// Requests to the tensor memory access unit: cp.async.bulk and its kin.
#include <algorithm>

#include <fmt/format.h>

#include "ptx/operand_resolver.h"

namespace heddle::ptx {

using arch::BulkKind;
using arch::OpCode;

namespace {

[[noreturn]] void refuse_bulk_word(OperandResolver& in, const std::string& word) {
  in.fail(fmt::format("the model does not know .{} here", word), "write a form that docs/ptx.md lists");
}

// Collects the operands of one request.
class BulkReader {
 public:
  explicit BulkReader(OperandResolver& in) : in_(in) {}

  BulkForm form;

  void address(const Operand& operand, BulkOperandKind kind) {
    const AddressValue value = in_.address(operand);
    BulkOperand made;
    made.kind = kind;
    made.wide = value.wide;
    made.add = value.offset;
    made.plane = value.base;
    form.operands.push_back(made);
  }
  void value(const Operand& operand, BulkOperandKind kind, Type type, std::uint8_t index = 0) {
    BulkOperand made;
    made.kind = kind;
    made.index = index;
    made.plane = in_.source(operand, type);
    form.operands.push_back(made);
  }
  // [map, {x, y}]
  void tensor(const Operand& operand) {
    const auto* written = std::get_if<AddressOperand>(&operand.what);
    if (written == nullptr || written->parts.empty()) {
      in_.fail(operand, "a tensor and coordinates are expected", "[map, {x, y}]");
    }
    Operand map;
    map.place = operand.place;
    map.what = AddressOperand{written->base, written->offset, {}};
    address(map, BulkOperandKind::descriptor);
    const std::vector<const Operand*> coordinates = in_.elements(written->parts.front());
    if (coordinates.size() != form.rank) {
      in_.fail(operand, fmt::format("{} coordinates for {} dimensions", coordinates.size(), form.rank),
               "[map, {x, y}]");
    }
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      value(*coordinates[i], BulkOperandKind::coordinate, Type::b32, static_cast<std::uint8_t>(i));
    }
  }
  void offsets(const Operand& operand) {
    const std::vector<const Operand*> given = in_.elements(operand);
    if (given.size() + 2 != form.rank) {
      in_.fail(operand, fmt::format("{} offsets for {} dimensions", given.size(), form.rank),
               "{w}, {w, h} or {w, h, d}");
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      value(*given[i], BulkOperandKind::offset, Type::b16, static_cast<std::uint8_t>(i));
    }
  }

  void add() {
    const std::uint32_t index = in_.builder.add(std::move(form));
    ResolvedInstruction& made = in_.builder.add(Action::bulk);
    made.target = index;
    made.unit = arch::Unit::memory;
  }

 private:
  OperandResolver& in_;
};

void add_bulk_control(OperandResolver& in, OpCode code, std::uint32_t count, bool read) {
  AccessForm form;
  form.code = code;
  form.bytes = count;
  form.read = read;
  ResolvedInstruction& made = in.builder.add(Action::control);
  made.target = in.builder.add(form);
}

void take_reduction(OperandResolver& in, Modifiers& words, arch::BulkRequest& request, bool typed) {
  using arch::AtomicKind;
  using arch::ValueType;
  constexpr AtomicKind kKinds[] = {AtomicKind::add,       AtomicKind::min,      AtomicKind::max,
                                   AtomicKind::bit_and,   AtomicKind::bit_or,   AtomicKind::bit_xor,
                                   AtomicKind::increment, AtomicKind::decrement};
  const int kind = words.take_of({"add", "min", "max", "and", "or", "xor", "inc", "dec"});
  if (kind < 0) in.fail("an operation is expected", "add .add, .min, .max, .and, .or, .xor, .inc or .dec");
  request.reduction = kKinds[kind];
  words.take("noftz");
  if (!typed) return;
  constexpr ValueType kTypes[] = {ValueType::u32, ValueType::s32, ValueType::u64,  ValueType::s64, ValueType::u32,
                                  ValueType::u64, ValueType::f16, ValueType::bf16, ValueType::f32, ValueType::f64};
  const int type = words.take_of({"u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64"});
  if (type < 0) in.fail("a type is expected", "add .u32, .s32, .u64, .f16, .bf16, .f32 …");
  request.type = kTypes[type];
}

void resolve_tensor(OperandResolver& in, Modifiers& words, bool reduces, bool prefetches) {
  BulkReader reader(in);
  BulkForm& form = reader.form;
  form.request.tensor = true;
  const int rank = words.take_of({"1d", "2d", "3d", "4d", "5d"});
  if (rank < 0) in.fail("dimensions are expected", "add .1d to .5d");
  form.rank = static_cast<std::uint32_t>(rank) + 1;
  words.take("tile");
  words.take("im2col_no_offs");
  form.im2col = words.take("im2col");
  words.take_prefix("L2::");
  if (prefetches) {
    words.take("L2");
    words.take("global");
    if (!words.left().empty()) refuse_bulk_word(in, words.left());
    form.code = OpCode::tensor_prefetch;
    form.request.kind = BulkKind::prefetch;
    reader.tensor(in.operand(0));
    if (form.im2col) reader.offsets(in.operand(1));
    return reader.add();
  }
  if (words.take("bulk_group")) {
    words.take("global");
    words.take("shared::cta");
    if (reduces) take_reduction(in, words, form.request, false);
    if (!words.left().empty()) refuse_bulk_word(in, words.left());
    form.code = reduces ? OpCode::tensor_reduce : OpCode::tensor_store;
    form.request.kind = reduces ? BulkKind::reduce : BulkKind::store;
    reader.tensor(in.operand(0));
    reader.address(in.operand(1), BulkOperandKind::shared);
    return reader.add();
  }
  form.to_cluster = words.take("shared::cluster");
  words.take("shared::cta");
  words.take("global");
  words.take("mbarrier::complete_tx::bytes");
  const bool multicast = words.take("multicast::cluster");
  if (reduces || !words.left().empty()) refuse_bulk_word(in, words.left());
  form.code = OpCode::tensor_load;
  form.request.kind = BulkKind::load;
  reader.address(in.operand(0), BulkOperandKind::shared);
  reader.tensor(in.operand(1));
  reader.address(in.operand(2), BulkOperandKind::barrier);
  std::size_t at = 3;
  if (form.im2col) reader.offsets(in.operand(at++));
  if (multicast) reader.value(in.operand(at++), BulkOperandKind::multicast, Type::b16);
  reader.add();
}

void resolve_block(OperandResolver& in, Modifiers& words, bool reduces) {
  BulkReader reader(in);
  BulkForm& form = reader.form;
  while (!words.take_prefix("L2::").empty()) {
  }
  if (words.take("bulk_group")) {
    words.take("global");
    words.take_of({"shared::cta", "shared"});
    const bool masked = words.take("cp_mask");
    if (reduces) take_reduction(in, words, form.request, true);
    if (!words.left().empty()) refuse_bulk_word(in, words.left());
    form.code = reduces ? OpCode::bulk_reduce : OpCode::bulk_store;
    form.request.kind = reduces ? BulkKind::reduce : BulkKind::store;
    reader.address(in.operand(0), BulkOperandKind::global);
    reader.address(in.operand(1), BulkOperandKind::shared);
    reader.value(in.operand(2), BulkOperandKind::bytes, Type::b32);
    if (masked) reader.value(in.operand(in.count() - 1), BulkOperandKind::byte_mask, Type::b16);
    return reader.add();
  }
  words.take("mbarrier::complete_tx::bytes");
  form.to_cluster = words.take("shared::cluster");
  const bool loads = words.take("global");
  words.take("shared::cta");
  const bool multicast = words.take("multicast::cluster");
  if (reduces) take_reduction(in, words, form.request, true);
  if (!words.left().empty()) refuse_bulk_word(in, words.left());
  form.code = loads ? OpCode::bulk_load : OpCode::bulk_send;
  form.request.kind = loads ? BulkKind::load : BulkKind::send;
  form.request.reduces = reduces;
  reader.address(in.operand(0), loads ? BulkOperandKind::shared : BulkOperandKind::destination);
  reader.address(in.operand(1), loads ? BulkOperandKind::global : BulkOperandKind::shared);
  reader.value(in.operand(2), BulkOperandKind::bytes, Type::b32);
  reader.address(in.operand(3), BulkOperandKind::barrier);
  if (multicast) reader.value(in.operand(4), BulkOperandKind::multicast, Type::b16);
  reader.add();
}

}  // namespace

bool resolve_bulk(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  Modifiers words(in.instruction.modifiers);
  if (opcode == "prefetch") {
    words.take_of({"param", "const", "global"});
    if (!words.take("tensormap")) return false;
    BulkReader reader(in);
    reader.form.code = OpCode::tensor_fetch;
    reader.form.request.kind = BulkKind::fetch;
    reader.form.request.tensor = true;
    reader.address(in.operand(0), BulkOperandKind::descriptor);
    reader.add();
    return true;
  }
  if (opcode != "cp") return false;
  const bool reduces = words.take("reduce");
  if (!words.take("async") || !words.take("bulk")) return false;
  if (words.take("commit_group")) {
    add_bulk_control(in, OpCode::bulk_commit, 0, false);
    return true;
  }
  if (words.take("wait_group")) {
    const bool read = words.take("read");
    const std::optional<std::uint64_t> open = in.constant(in.operand(0));
    if (!open) in.fail("a number of groups is expected", "cp.async.bulk.wait_group 0;");
    add_bulk_control(in, OpCode::bulk_wait, static_cast<std::uint32_t>(*open), read);
    return true;
  }
  const bool prefetches = words.take("prefetch");
  if (words.take("tensor")) {
    resolve_tensor(in, words, reduces, prefetches);
  } else if (prefetches) {
    words.take("L2");
    words.take("global");
    words.take_prefix("L2::");
    if (!words.left().empty()) refuse_bulk_word(in, words.left());
    BulkReader reader(in);
    reader.form.code = OpCode::bulk_prefetch;
    reader.form.request.kind = BulkKind::prefetch;
    reader.address(in.operand(0), BulkOperandKind::global);
    reader.value(in.operand(1), BulkOperandKind::bytes, Type::b32);
    reader.add();
  } else {
    resolve_block(in, words, reduces);
  }
  return true;
}

}  // namespace heddle::ptx
