// Steps that are one operation, as the keys and operands of their rows say.
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "arch/tensor_data.h"
#include "program/program_values.h"
#include "program/step_table.h"

namespace heddle::program {

using namespace workload;
namespace {

using arch::AtomicKind;
using arch::TensorDescriptor;
using arch::TensorMode;

AtomicKind reduction_of(const MapReader& map) {
  using Word = std::pair<const char*, AtomicKind>;
  constexpr Word kWords[] = {{"add", AtomicKind::add},       {"min", AtomicKind::min},
                             {"max", AtomicKind::max},       {"inc", AtomicKind::increment},
                             {"dec", AtomicKind::decrement}, {"and", AtomicKind::bit_and},
                             {"or", AtomicKind::bit_or},     {"xor", AtomicKind::bit_xor}};
  const std::string word = map.choice("op");
  for (const auto& [name, kind] : kWords) {
    if (word == name) return kind;
  }
  HEDDLE_CHECK(false, "a reduction that nothing is called");
  return AtomicKind::add;
}

void check_reduction_of(const MapReader& map, AtomicKind kind, arch::ValueType type, bool in_shared) {
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

class OperationCompiler {
 public:
  OperationCompiler(ProgramBuilder& program, const StepSource& source)
      : program_(program),
        row_(source.row),
        map_(source.map),
        where_(source.where),
        text_(row_.name),
        step_(program.make(StepKind::operation, row_.code, text_, where_)) {
    if (row_.prepare != nullptr) row_.prepare(step_);
    if (row_.bulk) request_.request.kind = *row_.bulk;
  }

  void compile() {
    if (value_alone()) {
      compile(row_.name, row_.value);
    } else {
      for (std::size_t i = 0; i < row_.operands.size(); ++i) {
        if (row_.operands[i].target != Target::new_name) compile(row_.spec.keys[i].name, row_.operands[i]);
      }
      if (row_.check != nullptr) row_.check(map_, step_);
      if (reduces_) check_reduction();
      for (std::size_t i = 0; i < row_.operands.size(); ++i) {
        if (row_.operands[i].target == Target::new_name) compile(row_.spec.keys[i].name, row_.operands[i]);
      }
    }
    if (row_.bulk) step_.bulk = program_.add(std::move(request_));
    ProgramBuilder::describe(step_, text_, where_);
    program_.add(std::move(step_));
  }

 private:
  // What stands behind the step's name is a value, and `map_` the step itself.
  bool value_alone() const { return row_.value.target != Target::handled && map_.known(row_.name); }

  void compile(const char* key, const Operand& operand) {
    if (map_.has(key)) {
      given(key, operand);
    } else {
      missing(operand);
    }
  }

  // What a key means that is left out.
  void missing(const Operand& operand) {
    switch (operand.target) {
      case Target::tensor:
        HEDDLE_CHECK(!row_.bulk, "a request without its tensor");
        step_.at = program_.constant(0);
        step_.fields |= kAddress;
        return;
      case Target::number:
        return number(program_.constant(operand.otherwise));
      case Target::barrier:
        step_.to = program_.constant(0);
        step_.fields |= kBarrier;
        return;
      default:
        return;
    }
  }

  void given(const char* key, const Operand& operand) {
    switch (operand.target) {
      case Target::handled:
        return;
      case Target::address:
      case Target::uniform_address:
        return address(key, operand.target == Target::uniform_address);
      case Target::rank:
        step_.space = arch::Space::cluster;
        step_.scope = arch::Scope::cluster;
        step_.rank = program_.expression(map_, key);
        return program_.read(step_, step_.rank);
      case Target::number:
        return number(program_.expression(map_, key));
      case Target::barrier:
        step_.to = program_.uniform(map_, key);
        step_.fields |= kBarrier;
        return;
      case Target::count:
        step_.count = map_.count(key);
        return;
      case Target::order:
        step_.order = chosen(map_, key, arch::Order::acquire_release, arch::order_name);
        return;
      case Target::scope:
        step_.scope = chosen(map_, key, arch::Scope::system, arch::scope_name);
        return;
      case Target::cga_level:
        step_.cga_level = read_cga_level(program_, map_, key);
        return;
      case Target::lanes:
        step_.one_lane = map_.choice(key) == "first";
        return;
      case Target::read:
        step_.read = map_.flag(key);
        return;
      case Target::mode:
        step_.mode = map_.choice(key) == "multicast" ? arch::CgaMode::multicast : arch::CgaMode::load_balancing;
        return;
      case Target::new_name:
        return new_name(key);
      default:
        return of_request(key, operand);
    }
  }

  void of_request(const char* key, const Operand& operand) {
    arch::BulkRequest& request = request_.request;
    switch (operand.target) {
      case Target::field:
        field(key, map_.node(key), operand.field);
        return;
      case Target::bytes:
        return bytes(key);
      case Target::tensor:
        name_region(key);
        if (!row_.bulk) return address(key, false);
        request.tensor = true;
        field(key, map_.node(key), BulkField::descriptor);
        return;
      case Target::coordinates:
        return coordinates(key);
      case Target::offsets:
        return offsets(key);
      case Target::reduction:
        reduces_ = true;
        request.reduction = reduction_of(map_);
        return;
      case Target::four_rows:
        request.four_rows = map_.flag(key);
        return;
      case Target::carried:
        return carried(key);
      case Target::priority: {
        const std::string word = map_.choice(key);
        request.priority = word == "first"  ? arch::EvictionPriority::first
                           : word == "last" ? arch::EvictionPriority::last
                                            : arch::EvictionPriority::normal;
        return;
      }
      case Target::byte_mask:
        request.byte_mask = static_cast<std::uint16_t>(map_.number<std::uint32_t>(key, {Unit::count, 0, 65'535}));
        return;
      case Target::element:
        request.type = choose(map_, key, scalar_types(), arch::type_name);
        return;
      default:
        HEDDLE_CHECK(false, "an operand that nothing compiles");
    }
  }

  void address(const char* key, bool uniform) {
    step_.at = uniform ? program_.uniform(map_, key) : program_.expression(map_, key);
    step_.fields |= kAddress;
    // What is the same for all lanes reads no register.
    program_.read(step_, step_.at);
  }

  void number(std::uint32_t expression) {
    program_.read(step_, expression);
    step_.values.push_back({expression, {}});
    step_.fields |= kNumbers;
  }

  void new_name(const char* key) {
    const std::string name = value_alone() ? map_.name(key) : map_.text(key);
    const ProgramVariable variable = program_.names().together({name}, arch::ValueType::u32, map_.where(key)).front();
    if (value_alone()) text_ += " " + name;
    step_.destination = variable.first;
    step_.demand.writes.push_back(variable.range());
  }

  // A step that names a region, or a tensor, is called after it.
  void name_region(const char* key) {
    const std::string name = map_.text(key);
    if (program_.names().region(name) != nullptr) text_ += " " + name;
  }

  const Expression& field(const char* key, const YAML::Node& node, BulkField field, std::uint32_t index = 0) {
    const std::uint32_t made = program_.expression(map_, key, node);
    program_.read(step_, made);
    request_.operands.push_back({field, index, made});
    return program_.at(made).expression;
  }

  void bytes(const char* key) {
    const Expression& bytes = field(key, map_.node(key), BulkField::bytes);
    if (!bytes.constant() || (bytes.value() >= 0 && std::fmod(bytes.value(), arch::kBulkBlock) == 0)) return;
    map_.fail(key, fmt::format("{} is not a multiple of {}", map_.text(key), arch::kBulkBlock));
  }

  // The tensor that the step names, if it names one.
  const TensorDescriptor* tensor() const { return known_tensor(program_.names().region(map_.text("tensor"))); }

  void carried(const char* key) {
    if (!map_.flag(key)) return;
    if (tensor() == nullptr) map_.fail(key, "only what a tensor of this file says is known here: name one");
    request_.request.parameters = std::make_shared<const TensorDescriptor>(*tensor());
  }

  void coordinates(const char* key) {
    const std::vector<YAML::Node> at = map_.items(key);
    const bool rows = request_.request.four_rows;
    if (rows && at.size() != arch::kTensorRank) {
      map_.fail(key, fmt::format("a column and four rows are expected, found {} coordinates", at.size()));
    }
    if (!rows && tensor() != nullptr && at.size() != tensor()->rank) {
      map_.fail(key, fmt::format("the tensor has {} dimensions, found {} coordinates", tensor()->rank, at.size()));
    }
    if (at.empty() || at.size() > arch::kTensorRank) {
      map_.fail(key, fmt::format("1 to {} coordinates are expected, found {}", arch::kTensorRank, at.size()));
    }
    request_.rank = static_cast<std::uint32_t>(at.size());
    for (std::uint32_t i = 0; i < at.size(); ++i) field(key, at[i], BulkField::coordinate, i);
  }

  void offsets(const char* key) {
    if (tensor() != nullptr && !arch::is_column(tensor()->mode)) {
      map_.fail(key, "the tensor is not described with `im2col`, and has none");
    }
    if (tensor() != nullptr && arch::is_wide(tensor()->mode)) return wide_offsets(key);
    const std::uint32_t rank = request_.rank;
    const std::vector<YAML::Node> items = map_.items(key);
    if (rank < 3 || items.size() != rank - 2) {
      map_.fail(
          key, fmt::format("{} expected beside {} coordinates, found {}", rank < 3 ? 0 : rank - 2, rank, items.size()));
    }
    for (std::uint32_t i = 0; i < items.size(); ++i) offset(key, items[i], i, arch::offset_bits(rank));
  }

  void wide_offsets(const char* key) {
    const std::vector<YAML::Node> items = map_.items(key);
    if (items.empty() || items.size() > 2) map_.fail(key, "an offset, and perhaps a halo, are expected");
    request_.wide = true;
    for (std::uint32_t i = 0; i < items.size(); ++i) offset(key, items[i], i, i == 0 ? 5 : 9);
  }

  void offset(const char* key, const YAML::Node& item, std::uint32_t index, std::uint32_t bits) {
    const std::uint32_t most = (1U << bits) - 1;
    const Expression& value = field(key, item, BulkField::offset, index);
    if (!value.constant() || (value.value() >= 0 && value.value() <= most)) return;
    map_.fail(key, item, fmt::format("{} is not 0 to {}", item.Scalar(), most));
  }

  // Once everything is known: the type stands in the step, or in the tensor.
  void check_reduction() {
    arch::BulkRequest& request = request_.request;
    const bool in_shared = request.kind == arch::BulkKind::send;
    request.reduces = in_shared;
    if (!request.tensor) return check_reduction_of(map_, request.reduction, request.type, in_shared);
    if (tensor() != nullptr) check_reduction_of(map_, request.reduction, arch::value_type(tensor()->type), in_shared);
  }

  ProgramBuilder& program_;
  const StepRow& row_;
  const MapReader& map_;
  const SourcePos where_;
  std::string text_;
  ProgramStep step_;
  BulkStep request_;
  bool reduces_ = false;
};

}  // namespace

void compile_operation(ProgramBuilder& program, const StepSource& source) {
  OperationCompiler(program, source).compile();
}

}  // namespace heddle::program
