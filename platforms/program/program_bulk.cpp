// The steps of a program that ask the tensor memory access unit.
#include "program/program_bulk.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "arch/tensor_data.h"
#include "program/program_choice.h"
#include "program/program_compiler.h"
#include "program/program_values.h"

namespace heddle::workload {
namespace {

using arch::AtomicKind;
using arch::BulkKind;
using arch::OpCode;
using arch::TensorDescriptor;
using arch::TensorMode;

AtomicKind reduction_of(const MapReader& map) {
  using Word = std::pair<const char*, AtomicKind>;
  static const std::vector<Word> kWords{{"add", AtomicKind::add},       {"min", AtomicKind::min},
                                        {"max", AtomicKind::max},       {"inc", AtomicKind::increment},
                                        {"dec", AtomicKind::decrement}, {"and", AtomicKind::bit_and},
                                        {"or", AtomicKind::bit_or},     {"xor", AtomicKind::bit_xor}};
  return choose(map, "op", kWords, [](const Word& word) { return word.first; }).second;
}

void check_reduction(const MapReader& map, AtomicKind kind, arch::ValueType type, bool in_shared) {
  if (arch::reduction_exists(kind, type, in_shared)) return;
  throw InputError(
      map.where("op"), fmt::format("{}: there is no {} for {}", map.thing(), map.text("op"), arch::type_name(type)),
      in_shared ? "from shared to shared memory: add u32 s32 u64; min, max u32 s32; inc, dec u32; and, or, xor 32 bits"
                : "add u32 s32 u64 f16 bf16 f32 f64; min, max u32 s32 u64 s64 f16 bf16; inc, dec u32; and, or, xor 32 "
                  "and 64 bits");
}

const TensorDescriptor* known_tensor(const MemoryRegion* region) {
  const bool known = region != nullptr && region->contents.kind == RegionContents::Kind::tensor &&
                     region->contents.tensor.rank >= 1 && region->contents.tensor.rank <= arch::kTensorRank;
  return known ? &region->contents.tensor : nullptr;
}

}  // namespace

std::uint32_t ProgramCompiler::bulk_operand(const MapReader& map, const char* key, const YAML::Node& node,
                                            BulkField field, std::uint32_t index, ProgramStep& step) {
  const std::uint32_t made = expression(map, key, node);
  read(step, made);
  parts_.bulk[step.bulk].operands.push_back({field, index, made});
  return made;
}

void ProgramCompiler::bulk_operand(const MapReader& map, const char* key, BulkField field, ProgramStep& step) {
  if (map.has(key)) bulk_operand(map, key, map.node(key), field, 0, step);
}

ProgramStep ProgramCompiler::bulk(const MapReader& map, OpCode code, BulkKind kind, const std::string& tensor) {
  const std::string name = arch::op_name(code);
  ProgramStep made = make(StepKind::operation, code, arch::Unit::memory,
                          names_.region(tensor) != nullptr ? name + " " + tensor : name, map.where());
  made.bulk = static_cast<std::uint32_t>(parts_.bulk.size());
  parts_.bulk.emplace_back();
  parts_.bulk.back().request.kind = kind;
  return made;
}

ProgramStep ProgramCompiler::tensor_step(const MapReader& map, OpCode code, BulkKind kind) {
  ProgramStep made = bulk(map, code, kind, map.text("tensor"));
  parts_.bulk[made.bulk].request.tensor = true;
  bulk_operand(map, "tensor", BulkField::descriptor, made);
  const TensorDescriptor* tensor = known_tensor(names_.region(map.text("tensor")));
  const std::vector<YAML::Node> at = map.items("at");
  if (tensor != nullptr && at.size() != tensor->rank) {
    map.fail("at", fmt::format("the tensor has {} dimensions, found {} coordinates", tensor->rank, at.size()));
  }
  if (at.empty() || at.size() > arch::kTensorRank) {
    map.fail("at", fmt::format("1 to {} coordinates are expected, found {}", arch::kTensorRank, at.size()));
  }
  parts_.bulk[made.bulk].rank = static_cast<std::uint32_t>(at.size());
  for (std::uint32_t i = 0; i < at.size(); ++i) bulk_operand(map, "at", at[i], BulkField::coordinate, i, made);
  if (!map.has("offsets")) return made;
  if (tensor != nullptr && tensor->mode != TensorMode::im2col) {
    map.fail("offsets", "the tensor is not described with `im2col`, and has none");
  }
  tensor_offsets(map, made);
  return made;
}

void ProgramCompiler::tensor_offsets(const MapReader& map, ProgramStep& step) {
  const std::uint32_t rank = parts_.bulk[step.bulk].rank;
  const std::vector<YAML::Node> items = map.items("offsets");
  if (rank < 3 || items.size() != rank - 2) {
    map.fail("offsets",
             fmt::format("{} expected beside {} coordinates, found {}", rank < 3 ? 0 : rank - 2, rank, items.size()));
  }
  const std::uint32_t most = (1U << arch::offset_bits(rank)) - 1;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    const Expression& offset =
        parts_.expressions[bulk_operand(map, "offsets", items[i], BulkField::offset, i, step)].expression;
    if (!offset.constant() || (offset.value() >= 0 && offset.value() <= most)) continue;
    map.fail("offsets", items[i], fmt::format("{} is not 0 to {}", items[i].Scalar(), most));
  }
}

void ProgramCompiler::bulk_bytes(const MapReader& map, ProgramStep& step) {
  const Expression& bytes =
      parts_.expressions[bulk_operand(map, "bytes", map.node("bytes"), BulkField::bytes, 0, step)].expression;
  if (!bytes.constant() || (bytes.value() >= 0 && std::fmod(bytes.value(), arch::kBulkBlock) == 0)) return;
  map.fail("bytes", fmt::format("{} is not a multiple of {}", map.text("bytes"), arch::kBulkBlock));
}

// The receivers of a load or send, and their mbarriers.
void ProgramCompiler::receivers(const MapReader& map, ProgramStep& step) {
  bulk_operand(map, "to", step.code == OpCode::bulk_send ? BulkField::destination : BulkField::shared, step);
  bulk_operand(map, "barrier", BulkField::barrier, step);
  bulk_operand(map, "cta", BulkField::data_cta, step);
  // Behind `cta`, which sets both.
  bulk_operand(map, "barrier_cta", BulkField::barrier_cta, step);
  if (step.code == OpCode::bulk_send) return;
  if (map.has("multicast") && map.has("cta")) {
    map.fail("multicast", "`cta` stands here too; the mask says who receives it");
  }
  bulk_operand(map, "multicast", BulkField::multicast, step);
}

void ProgramCompiler::tensor_load(const MapReader& step) {
  const MapReader map = body(step, "tensor_load", tensor_load_step_spec());
  ProgramStep made = tensor_step(map, OpCode::tensor_load, BulkKind::load);
  receivers(map, made);
  add(std::move(made));
}

void ProgramCompiler::tensor_store(const MapReader& step) {
  const MapReader map = body(step, "tensor_store", tensor_store_step_spec());
  ProgramStep made = tensor_step(map, OpCode::tensor_store, BulkKind::store);
  bulk_operand(map, "from", BulkField::shared, made);
  add(std::move(made));
}

void ProgramCompiler::tensor_reduce(const MapReader& step) {
  const MapReader map = body(step, "tensor_reduce", tensor_reduce_step_spec());
  ProgramStep made = tensor_step(map, OpCode::tensor_reduce, BulkKind::reduce);
  bulk_operand(map, "from", BulkField::shared, made);
  const AtomicKind kind = reduction_of(map);
  parts_.bulk[made.bulk].request.reduction = kind;
  const TensorDescriptor* tensor = known_tensor(names_.region(map.text("tensor")));
  if (tensor != nullptr) check_reduction(map, kind, arch::value_type(tensor->type), false);
  add(std::move(made));
}

void ProgramCompiler::tensor_prefetch(const MapReader& step) {
  add(tensor_step(body(step, "tensor_prefetch", tensor_prefetch_step_spec()), OpCode::tensor_prefetch,
                  BulkKind::prefetch));
}

void ProgramCompiler::bulk_load(const MapReader& step) {
  const MapReader map = body(step, "bulk_load", bulk_load_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_load, BulkKind::load);
  bulk_operand(map, "from", BulkField::global, made);
  bulk_bytes(map, made);
  receivers(map, made);
  add(std::move(made));
}

void ProgramCompiler::bulk_store(const MapReader& step) {
  const MapReader map = body(step, "bulk_store", bulk_store_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_store, BulkKind::store);
  bulk_operand(map, "from", BulkField::shared, made);
  bulk_operand(map, "to", BulkField::global, made);
  bulk_bytes(map, made);
  add(std::move(made));
}

void ProgramCompiler::bulk_reduce(const MapReader& step) {
  const MapReader map = body(step, "bulk_reduce", bulk_reduce_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_reduce, BulkKind::reduce);
  bulk_operand(map, "from", BulkField::shared, made);
  bulk_operand(map, "to", BulkField::global, made);
  bulk_bytes(map, made);
  bulk_reduction(map, made, false);
  add(std::move(made));
}

void ProgramCompiler::bulk_reduction(const MapReader& map, const ProgramStep& step, bool in_shared) {
  arch::BulkRequest& request = parts_.bulk[step.bulk].request;
  request.reduction = reduction_of(map);
  request.type = choose(map, "type", scalar_types(), arch::type_name);
  check_reduction(map, request.reduction, request.type, in_shared);
}

void ProgramCompiler::bulk_prefetch(const MapReader& step) {
  const MapReader map = body(step, "bulk_prefetch", bulk_prefetch_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_prefetch, BulkKind::prefetch);
  bulk_operand(map, "from", BulkField::global, made);
  bulk_bytes(map, made);
  add(std::move(made));
}

void ProgramCompiler::bulk_copy(const MapReader& step) {
  const MapReader map = body(step, "bulk_copy", bulk_copy_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_copy, BulkKind::copy);
  bulk_operand(map, "from", BulkField::global, made);
  bulk_operand(map, "to", BulkField::to, made);
  bulk_bytes(map, made);
  add(std::move(made));
}

void ProgramCompiler::bulk_send(const MapReader& step) {
  const MapReader map = body(step, "bulk_send", bulk_send_step_spec());
  ProgramStep made = bulk(map, OpCode::bulk_send, BulkKind::send);
  bulk_operand(map, "from", BulkField::shared, made);
  bulk_bytes(map, made);
  receivers(map, made);
  if (map.has("op") != map.has("type")) {
    throw InputError(map.where(), fmt::format("{}: op and type stand together", map.thing()),
                     "a reduction needs both: op: add, type: u32");
  }
  if (map.has("op")) {
    parts_.bulk[made.bulk].request.reduces = true;
    bulk_reduction(map, made, true);
  }
  add(std::move(made));
}

void ProgramCompiler::wait_bulk(const MapReader& step) {
  const Limits<std::uint32_t> groups{Unit::count, 0, 1'000'000};
  ProgramStep made = make(StepKind::operation, OpCode::bulk_wait, arch::Unit::none, "wait_bulk", step.where());
  if (!step.node("wait_bulk").IsMap()) {
    made.count = step.number("wait_bulk", groups);
  } else {
    const MapReader map = body(step, "wait_bulk", wait_bulk_step_spec());
    made.count = map.number("groups", groups);
    made.read = map.has("read") && map.flag("read");
  }
  add(std::move(made));
}

// Of all descriptors: the address 0.
void ProgramCompiler::fence_tensors(const std::string& name, const SourcePos& where) {
  ProgramStep made = make(StepKind::operation, OpCode::tensor_fence, arch::Unit::memory, name, where);
  made.one_lane = true;
  made.at = constant(0);
  add(std::move(made));
}

void ProgramCompiler::fence_tensor(const MapReader& step) {
  const MapReader map = body(step, "fence_tensor", fence_tensor_step_spec());
  if (!map.has("tensor")) return fence_tensors("fence_tensor", map.where());
  const MemoryRegion* region = names_.region(map.text("tensor"));
  const std::string name = region == nullptr ? "fence_tensor" : "fence_tensor " + region->name;
  ProgramStep made = make(StepKind::operation, OpCode::tensor_fence, arch::Unit::memory, name, map.where());
  made.one_lane = true;
  made.at = expression(map, "tensor");
  read(made, made.at);
  add(std::move(made));
}

void ProgramCompiler::drain_bulk(const std::string& name, const SourcePos& where) {
  ProgramStep made = make(StepKind::operation, OpCode::bulk_drain, arch::Unit::memory, name, where);
  made.one_lane = true;
  add(std::move(made));
}

}  // namespace heddle::workload
