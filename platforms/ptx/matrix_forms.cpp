// Matrix instructions: mma, ldmatrix, stmatrix, movmatrix, wgmma.
#include <algorithm>

#include <fmt/format.h>

#include "ptx/operand_resolver.h"
#include "ptx/timing.h"
#include "ptx/wgmma.h"

namespace heddle::ptx {

using arch::OpCode;

namespace {

constexpr std::uint32_t kRowBytes = 16;
constexpr std::uint32_t kMatrixRowCount = 8;

// The planes of the registers {a, b, …}, one behind the other.
std::vector<PlaneRef> planes_of_vector(OperandResolver& in, const Operand& operand, std::uint32_t words) {
  std::vector<PlaneRef> planes;
  const std::vector<const Operand*> elements = in.elements(operand);
  for (const Operand* element : elements) {
    const bool wide = words == 2 * elements.size();
    const PlaneRef first = in.source(*element, wide ? Type::b64 : Type::b32);
    planes.push_back(first);
    if (wide) planes.push_back(first >= 0 ? first + 1 : first - 1);
  }
  if (planes.size() != words) {
    in.fail(operand, fmt::format("{} registers of 32 bits, and {} are expected", planes.size(), words),
            "write {a, b, …} with as many as the shape needs");
  }
  return planes;
}

void resolve_mma(OperandResolver& in) {
  std::string why;
  const std::optional<MmaForm> form = find_mma_form(in.instruction.modifiers, why);
  if (!form) in.fail(why, "use a shape and types that docs/ptx.md lists");
  MatrixWork work;
  work.kind = MatrixWork::Kind::multiply;
  work.mma = *form;
  work.to = planes_of_vector(in, in.operand(0), form->d_words());
  work.a = planes_of_vector(in, in.operand(1), form->a_words());
  work.b = planes_of_vector(in, in.operand(2), form->b_words());
  work.c = planes_of_vector(in, in.operand(3), form->c_words());
  const std::uint32_t index = in.builder.add(std::move(work));
  ResolvedInstruction& made = in.builder.add(Action::matrix);
  made.target = index;
  made.collects = true;
  made.unit = arch::Unit::tensor;
  made.count = matrix_cost(*form);
}

// {.x1, .x2, .x4}{.trans}{.shared}.b16: how many, and whether they are transposed.
std::uint32_t take_matrices(OperandResolver& in, bool& transposed) {
  Modifiers words(in.instruction.modifiers);
  words.take("sync");
  words.take("aligned");
  constexpr std::uint32_t kCounts[] = {1, 2, 4};
  const int count = words.take_of({"x1", "x2", "x4"});
  transposed = words.take("trans");
  words.take_of({"shared", "shared::cta"});
  if (!words.take("m8n8") || !words.take("b16") || count < 0 || !words.left().empty()) {
    in.fail("matrices of 8 x 8 elements of 16 bits are expected", "use .m8n8, one of .x1, .x2 and .x4, and .b16");
  }
  return kCounts[count];
}

AccessForm rows_access(OpCode code, const AddressValue& address, std::uint32_t matrices) {
  AccessForm form;
  form.code = code;
  form.window = Window::shared;
  form.wide = address.wide;
  form.offset = address.offset;
  form.width = kRowBytes;
  form.only = matrices == 4 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << kMatrixRowCount * matrices) - 1;
  return form;
}

std::vector<PlaneRef> planes_from(PlaneRef first) { return {first, first + 1, first + 2, first + 3}; }

void resolve_load_matrix(OperandResolver& in) {
  MatrixWork work;
  work.kind = MatrixWork::Kind::load;
  const std::uint32_t matrices = take_matrices(in, work.transposed);
  work.to = planes_of_vector(in, in.operand(0), matrices);
  const AddressValue address = in.address(in.operand(1));
  const PlaneRef rows = in.builder.make_register(kRowBytes / 4);
  work.a = planes_from(rows);
  ResolvedInstruction& load = in.builder.add(Action::access);
  load.r[0] = rows;
  load.r[2] = address.base;
  load.unit = arch::Unit::memory;
  load.collects = true;
  load.target = in.builder.add(rows_access(OpCode::load, address, matrices));
  const std::uint32_t index = in.builder.add(std::move(work));
  in.builder.add_free(Action::matrix).target = index;
}

void resolve_store_matrix(OperandResolver& in) {
  MatrixWork work;
  work.kind = MatrixWork::Kind::store;
  const std::uint32_t matrices = take_matrices(in, work.transposed);
  work.a = planes_of_vector(in, in.operand(1), matrices);
  const AddressValue address = in.address(in.operand(0));
  const PlaneRef rows = in.builder.make_register(kRowBytes / 4);
  work.to = planes_from(rows);
  const std::uint32_t index = in.builder.add(std::move(work));
  in.builder.add_free(Action::matrix).target = index;
  ResolvedInstruction& store = in.builder.add(Action::access);
  store.r[2] = address.base;
  store.r[3] = rows;
  store.unit = arch::Unit::memory;
  store.collects = true;
  store.target = in.builder.add(rows_access(OpCode::store, address, matrices));
}

void resolve_move_matrix(OperandResolver& in) {
  MatrixWork work;
  work.kind = MatrixWork::Kind::transpose;
  work.to = planes_of_vector(in, in.operand(0), 1);
  work.a = planes_of_vector(in, in.operand(1), 1);
  const std::uint32_t index = in.builder.add(std::move(work));
  ResolvedInstruction& made = in.builder.add(Action::matrix);
  made.target = index;
  made.unit = arch::Unit::int32;
  made.count = kShuffleCost;
  made.collects = true;
}

void add_group_control(OperandResolver& in, OpCode code, std::uint32_t count) {
  AccessForm form;
  form.code = code;
  form.bytes = count;
  ResolvedInstruction& made = in.builder.add(Action::control);
  made.target = in.builder.add(form);
}

void resolve_warpgroup(OperandResolver& in) {
  Modifiers words(in.instruction.modifiers);
  if (words.take("fence")) {
    in.builder.add(Action::nothing);
    return;
  }
  if (words.take("commit_group")) return add_group_control(in, OpCode::matmul_commit, 0);
  if (words.take("wait_group")) {
    const std::optional<std::uint64_t> open = in.constant(in.operand(0));
    if (!open || *open >= arch::kMatmulGroups)
      in.fail("a number of groups is expected", "wgmma.wait_group.sync.aligned 0;");
    return add_group_control(in, OpCode::matmul_wait, static_cast<std::uint32_t>(*open));
  }
  std::string why;
  const std::optional<WgmmaForm> form = find_wgmma_form(in.instruction.modifiers, why);
  if (!form) in.fail(why, "use a form that the PTX manual has for sm_90a");
  const bool halves = form->a == Type::f16 && form->b == Type::f16;
  const bool brains = form->a == Type::bf16 && form->b == Type::bf16;
  if (form->d != Type::f32 || (!halves && !brains)) {
    in.fail("the tensor core multiplies f16 and bf16 into f32 only", "use .f32.f16.f16 or .f32.bf16.bf16");
  }
  if (std::holds_alternative<VectorOperand>(in.operand(1).what)) {
    in.fail(in.operand(1), "a matrix A in registers is not in the model", "give a descriptor of shared memory");
  }
  WarpgroupWork work;
  work.type = halves ? arch::ValueType::f16 : arch::ValueType::bf16;
  work.n = form->n;
  work.accumulators = planes_of_vector(in, in.operand(0), form->d_words());
  const PlaneRef a = in.source(1, Type::b64);
  const PlaneRef b = in.source(2, Type::b64);
  bool adds = true;
  const PredicateRef scale = in.has(3) ? in.predicate(in.operand(3), &adds) : PredicateRef{};
  constexpr std::uint64_t kPlain[] = {1, 1, 0, 0};  // scales of A and B; whether they are transposed
  for (std::size_t i = 4; i < in.count(); ++i) {
    if (i >= 8 || in.constant(in.operand(i)) != kPlain[i - 4]) {
      in.fail(in.operand(i), "matrices that are negated, or not along k, are not in the model", "end with 1, 1, 0, 0");
    }
  }
  std::uint32_t index = 0;
  if (!in.builder.add(std::move(work), index)) {
    in.fail(in.operand(0), "its accumulators are those of another wgmma, in another order", "use registers of its own");
  }
  ResolvedInstruction& made = in.builder.add(Action::warpgroup);
  made.target = index;
  made.r[2] = a;
  made.r[3] = b;
  made.p_in[0] = scale;
  made.number = adds ? 1 : 0;
  made.collects = true;
}

}  // namespace

bool resolve_matrices(OperandResolver& in) {
  const std::string& opcode = in.instruction.opcode;
  if (opcode == "mma") {
    resolve_mma(in);
  } else if (opcode == "ldmatrix") {
    resolve_load_matrix(in);
  } else if (opcode == "stmatrix") {
    resolve_store_matrix(in);
  } else if (opcode == "movmatrix") {
    resolve_move_matrix(in);
  } else if (opcode == "wgmma") {
    resolve_warpgroup(in);
  } else {
    return false;
  }
  return true;
}

}  // namespace heddle::ptx
