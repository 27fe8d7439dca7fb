#include "ptx/alu_forms.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "ptx/alu_lanes.h"

namespace heddle::ptx {

namespace {

struct NamedType {
  const char* name;
  Type type;
};
constexpr NamedType kSlotTypes[] = {
    {"b8", Type::b8},         {"b16", Type::b16},     {"b32", Type::b32},     {"b64", Type::b64},
    {"b128", Type::b128},     {"u8", Type::u8},       {"u16", Type::u16},     {"u32", Type::u32},
    {"u64", Type::u64},       {"s8", Type::s8},       {"s16", Type::s16},     {"s32", Type::s32},
    {"s64", Type::s64},       {"f16", Type::f16},     {"f16x2", Type::f16x2}, {"bf16", Type::bf16},
    {"bf16x2", Type::bf16x2}, {"tf32", Type::tf32},   {"f32", Type::f32},     {"f32x2", Type::f32x2},
    {"f64", Type::f64},       {"u16x2", Type::u16x2}, {"s16x2", Type::s16x2}, {"pred", Type::pred},
};

OperandSlot slot_of(std::string text, const std::string& slots) {
  OperandSlot slot;
  if (text.back() == '?') {
    slot.optional = true;
    text.pop_back();
  }
  const std::size_t star = text.find('*');
  if (star != std::string::npos) {
    slot.elements = static_cast<std::uint32_t>(std::stoul(text.substr(star + 1)));
    text.resize(star);
  }
  const auto* const type = std::find_if(std::begin(kSlotTypes), std::end(kSlotTypes),
                                        [&](const NamedType& named) { return text == named.name; });
  if (type == std::end(kSlotTypes)) throw std::logic_error("no type '" + text + "' for slots: " + slots);
  slot.type = type->type;
  slot.kind = type->type == Type::pred ? OperandKind::predicate : OperandKind::value;
  return slot;
}

std::string opcode_of(const std::string& text) { return text.substr(0, text.find('.')); }

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  std::sort(parts.begin(), parts.end());
  return parts;
}

// In how many parts two mnemonics differ.
std::size_t difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> different;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(different));
  return different.size();
}

const FormList& all_forms() {
  static const FormList list;
  return list;
}

}  // namespace

void merge_lanes(std::uint32_t* d, const std::uint32_t* values, std::uint32_t planes, arch::LaneMask lanes) {
  for (std::uint32_t plane = 0; plane < planes; ++plane, d += kLanes, values += kLanes) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      d[lane] = (lanes & kLaneBit[lane]) != 0 ? values[lane] : d[lane];
  }
}

FormList::FormList() {
  add_integer_forms(*this);
  add_carry_forms(*this);
  add_bit_forms(*this);
  add_move_forms(*this);
  add_float_forms(*this);
  add_compare_forms(*this);
  add_convert_forms(*this);
  add_half_forms(*this);
  add_special_forms(*this);
  add_narrow_forms(*this);
  add_video_forms(*this);
}

AluForm& FormList::add(const std::string& text, AluClass group, AluFunction function, const std::string& slots) {
  AluForm form;
  form.text = text;
  form.group = group;
  form.function = function;
  std::istringstream in(slots);
  bool source = false;
  for (std::string word; in >> word;) {
    if (word == "=") {
      source = true;
    } else {
      (source ? form.sources : form.destinations).push_back(slot_of(word, slots));
    }
  }
  if (!source) throw std::logic_error(text + ": no sources in '" + slots + "'");
  forms_.push_back(std::move(form));
  AluForm& kept = forms_.back();
  if (!by_text_.emplace(text, &kept).second) throw std::logic_error("two forms of " + text);
  by_opcode_[opcode_of(text)].push_back(&kept);
  return kept;
}

const AluForm* FormList::find(const std::string& text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? nullptr : found->second;
}

const std::vector<const AluForm*>& FormList::of_opcode(const std::string& opcode) const {
  static const std::vector<const AluForm*> none;
  const auto found = by_opcode_.find(opcode);
  return found == by_opcode_.end() ? none : found->second;
}

const AluForm* find_alu_form(const std::string& opcode, const std::vector<std::string>& modifiers, std::string& why) {
  std::string text = opcode;
  for (const std::string& modifier : modifiers) text += "." + modifier;
  const AluForm* const form = all_forms().find(text);
  if (form != nullptr) return form;
  const auto& siblings = all_forms().of_opcode(opcode);
  if (siblings.empty()) {
    why = "'" + opcode + "' is no instruction of registers alone";
    return nullptr;
  }
  // The nearest ones, in the order of the table.
  constexpr std::size_t kMost = 3;
  const std::vector<std::string> parts = parts_of(text);
  std::vector<std::pair<std::size_t, const AluForm*>> near;
  near.reserve(siblings.size());
  for (const AluForm* sibling : siblings) near.emplace_back(difference(parts, parts_of(sibling->text)), sibling);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  why = "there is no " + text + "; near it:";
  for (std::size_t i = 0; i < near.size() && i < kMost; ++i) why += (i == 0 ? " " : ", ") + near[i].second->text;
  return nullptr;
}

bool is_alu_opcode(const std::string& opcode) { return !all_forms().of_opcode(opcode).empty(); }

std::vector<const AluForm*> all_alu_forms() {
  std::vector<const AluForm*> forms;
  for (const AluForm& form : all_forms().forms()) forms.push_back(&form);
  return forms;
}

namespace {

// What a row of the table collects: in the order in which it comes.
struct OpcodeRow {
  std::size_t forms = 0;
  std::vector<std::string> types;
  std::vector<std::string> modifiers;
};
void add_once(std::vector<std::string>& to, const std::string& text) {
  if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
}
std::string joined(const std::vector<std::string>& parts, const char* before) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + (before + part);
  return text;
}
bool is_type_name(const std::string& text) {
  static const char* const more[] = {"e4m3x2", "e5m2x2", "e2m3x2",  "e3m2x2", "e2m1x2", "e4m3x4", "e5m2x4", "e2m3x4",
                                     "e3m2x4", "e2m1x4", "ue8m0x2", "s2",     "u2",     "s4",     "u4"};
  return std::any_of(std::begin(kSlotTypes), std::end(kSlotTypes),
                     [&](const NamedType& type) { return text == type.name; }) ||
         std::any_of(std::begin(more), std::end(more), [&](const char* type) { return text == type; });
}

}  // namespace

std::string alu_table() {
  std::vector<std::string> opcodes;
  std::unordered_map<std::string, OpcodeRow> rows;
  for (const AluForm& form : all_forms().forms()) {
    std::istringstream in(form.text);
    std::string opcode;
    std::getline(in, opcode, '.');
    add_once(opcodes, opcode);
    OpcodeRow& row = rows[opcode];
    ++row.forms;
    for (std::string part; std::getline(in, part, '.');) add_once(is_type_name(part) ? row.types : row.modifiers, part);
  }
  std::sort(opcodes.begin(), opcodes.end());
  std::string table = "| opcode | forms | types | modifiers |\n| --- | --- | --- | --- |\n";
  for (const std::string& opcode : opcodes) {
    const OpcodeRow& row = rows[opcode];
    table += "| `" + opcode + "` | " + std::to_string(row.forms) + " | " + joined(row.types, "") + " | " +
             joined(row.modifiers, ".") + " |\n";
  }
  return table;
}

const AluForm* find_vector_move(Type whole, std::uint32_t elements, bool unpack, std::string& why) {
  const char* const name = whole == Type::b16   ? "b16"
                           : whole == Type::b32 ? "b32"
                           : whole == Type::b64 ? "b64"
                                                : "b128";
  const std::string text = std::string("mov.") + name + (unpack ? ".unpack" : ".pack") + std::to_string(elements);
  const AluForm* const form = all_forms().find(text);
  if (form == nullptr) {
    why = std::string("mov.") + name + " has no vector of " + std::to_string(elements) + " elements";
  }
  return form;
}

}  // namespace heddle::ptx
