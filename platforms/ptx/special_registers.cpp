#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "common/error.h"
#include "ptx/operand_resolver.h"

namespace heddle::ptx {
namespace {

enum class How : std::uint8_t {
  place,     // read as a special register
  constant,  // of the launch: machines have them as constants
  machine,   // the SM knows it
};
struct SpecialRow {
  const char* name;
  How how;
  std::uint8_t number;
  std::uint8_t bytes;     // of the register
  std::uint8_t word = 0;  // machine: which half of 64 bits; 2: both
};
constexpr std::uint8_t of(PlaceNumber number) { return static_cast<std::uint8_t>(number); }
constexpr std::uint8_t of(arch::SpecialRegister number) { return static_cast<std::uint8_t>(number); }

constexpr SpecialRow kSpecialRows[] = {
    {"%tid.x", How::place, of(PlaceNumber::tid_x), 4},
    {"%tid.y", How::place, of(PlaceNumber::tid_y), 4},
    {"%tid.z", How::place, of(PlaceNumber::tid_z), 4},
    {"%ntid.x", How::constant, of(PlaceNumber::ntid_x), 4},
    {"%ntid.y", How::constant, of(PlaceNumber::ntid_y), 4},
    {"%ntid.z", How::constant, of(PlaceNumber::ntid_z), 4},
    {"%laneid", How::place, of(PlaceNumber::lane), 4},
    {"%warpid", How::place, of(PlaceNumber::warp), 4},
    {"%ctaid.x", How::place, of(PlaceNumber::ctaid_x), 4},
    {"%ctaid.y", How::place, of(PlaceNumber::ctaid_y), 4},
    {"%ctaid.z", How::place, of(PlaceNumber::ctaid_z), 4},
    {"%nctaid.x", How::constant, of(PlaceNumber::nctaid_x), 4},
    {"%nctaid.y", How::constant, of(PlaceNumber::nctaid_y), 4},
    {"%nctaid.z", How::constant, of(PlaceNumber::nctaid_z), 4},
    {"%clusterid.x", How::place, of(PlaceNumber::cluster_x), 4},
    {"%clusterid.y", How::place, of(PlaceNumber::cluster_y), 4},
    {"%clusterid.z", How::place, of(PlaceNumber::cluster_z), 4},
    {"%nclusterid.x", How::constant, of(PlaceNumber::nclusters_x), 4},
    {"%nclusterid.y", How::constant, of(PlaceNumber::nclusters_y), 4},
    {"%nclusterid.z", How::constant, of(PlaceNumber::nclusters_z), 4},
    {"%cluster_ctaid.x", How::place, of(PlaceNumber::cluster_cta_x), 4},
    {"%cluster_ctaid.y", How::place, of(PlaceNumber::cluster_cta_y), 4},
    {"%cluster_ctaid.z", How::place, of(PlaceNumber::cluster_cta_z), 4},
    {"%cluster_nctaid.x", How::constant, of(PlaceNumber::cluster_ctas_x), 4},
    {"%cluster_nctaid.y", How::constant, of(PlaceNumber::cluster_ctas_y), 4},
    {"%cluster_nctaid.z", How::constant, of(PlaceNumber::cluster_ctas_z), 4},
    {"%cluster_ctarank", How::place, of(PlaceNumber::cluster_rank), 4},
    {"%cluster_nctarank", How::constant, of(PlaceNumber::cluster_size), 4},
    {"%lanemask_eq", How::place, of(PlaceNumber::mask_eq), 4},
    {"%lanemask_le", How::place, of(PlaceNumber::mask_le), 4},
    {"%lanemask_lt", How::place, of(PlaceNumber::mask_lt), 4},
    {"%lanemask_ge", How::place, of(PlaceNumber::mask_ge), 4},
    {"%lanemask_gt", How::place, of(PlaceNumber::mask_gt), 4},
    {"%smid", How::machine, of(arch::SpecialRegister::sm), 4},
    {"%nsmid", How::machine, of(arch::SpecialRegister::sms), 4},
    {"%gridid", How::machine, of(arch::SpecialRegister::task_id), 8, 2},
    {"%clock", How::machine, of(arch::SpecialRegister::clock), 4},
    {"%clock_hi", How::machine, of(arch::SpecialRegister::clock), 4, 1},
    {"%clock64", How::machine, of(arch::SpecialRegister::clock), 8, 2},
    {"%globaltimer", How::machine, of(arch::SpecialRegister::clock), 8, 2},
    {"%globaltimer_lo", How::machine, of(arch::SpecialRegister::clock), 4},
    {"%globaltimer_hi", How::machine, of(arch::SpecialRegister::clock), 4, 1},
};

void resolve_machine(OperandResolver& in, const SpecialRow& row, PlaneRef to) {
  const bool half = row.word == 1;
  const PlaneRef whole = half ? in.builder.make_register(2) : to;
  ResolvedInstruction& made = in.builder.add(Action::machine);
  made.kind = row.number;
  made.r[0] = whole;
  made.planes = row.word == 0 ? 1 : 2;
  if (half) in.copy(to, whole + 1, 1);
}

}  // namespace

bool resolve_special_register(OperandResolver& in, Type type) {
  const auto* named = std::get_if<NameOperand>(&in.operand(1).what);
  if (named == nullptr || named->name.empty() || named->name[0] != '%' || in.scope.find(named->name) != nullptr) {
    return false;
  }
  const std::string name = named->name + (named->selector.empty() ? "" : "." + named->selector);
  if (name == "%is_explicit_cluster") {
    ResolvedInstruction& made = in.builder.add_free(Action::place);
    made.kind = of(PlaceNumber::explicit_cluster);
    const PlaneRef value = in.builder.make_register(1);
    made.r[0] = value;
    ResolvedInstruction& set = in.builder.add_free(Action::set_predicate);
    set.r[2] = value;
    set.p_out[0] = in.predicate_destination(in.operand(0));
    return true;
  }
  if (name == "%envreg1" || name == "%envreg2") {
    const std::uint64_t workspace = in.builder.code().workspace;
    const PlaneRef word = in.destination(in.operand(0), Type::b32);
    const std::uint64_t half = name == "%envreg1" ? workspace >> 32 : workspace & 0xFFFF'FFFFU;
    if (word != kNoPlane) in.copy(word, in.builder.constant(half, 1), 1);
    return true;
  }
  const auto* row = std::find_if(std::begin(kSpecialRows), std::end(kSpecialRows),
                                 [&](const SpecialRow& r) { return name == r.name; });
  if (row == std::end(kSpecialRows)) {
    std::vector<std::string> known;
    for (const SpecialRow& r : kSpecialRows) known.emplace_back(r.name);
    const std::string near = nearest(name, known);
    in.fail(in.operand(1), fmt::format("the model has no special register {}", name),
            near.empty() ? "pass what it says as a parameter of the kernel" : fmt::format("did you mean {}?", near));
  }
  const PlaneRef to = in.destination(in.operand(0), type);
  if (to == kNoPlane) return true;
  if (row->how == How::machine && planes_of(type) == row->bytes / 4U) {
    resolve_machine(in, *row, to);
    return true;
  }
  if (row->how == How::machine) {
    in.fail(fmt::format("{} has {} bits", name, 8 * row->bytes), "use a mov of that width");
  }
  ResolvedInstruction& made =
      row->how == How::constant ? in.builder.add_free(Action::place) : in.builder.add(Action::special);
  made.kind = row->number;
  made.r[0] = to;
  made.planes = static_cast<std::uint8_t>(planes_of(type));
  return true;
}

}  // namespace heddle::ptx
