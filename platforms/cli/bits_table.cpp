#include "cli/bits_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"

namespace heddle::cli {
namespace {

using gpu::Structure;
using gpu::StructureKind;

// "task slot 7, SM masks 2 x 18"
std::string fields_text(const Structure& structure) {
  std::string text;
  for (const gpu::BitField& field : structure.fields) {
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", field.name,
                        field.times == 1 ? "" : fmt::format("{} x ", field.times), field.bits,
                        field.when.empty() ? "" : fmt::format(" (if {})", field.when));
  }
  return text;
}

std::string row_of(const Structure& structure, const Observation* run) {
  const bool packet = structure.kind == StructureKind::packet;
  std::string row = fmt::format("{:<24} {:<34} {:<9} {:>9} {:>9} {:>7}", structure.block, structure.name,
                                gpu::structure_kind_name(structure.kind), structure.instances,
                                packet ? "" : std::to_string(structure.entries), structure.entry_bits());
  row += fmt::format(" {:>12}", packet ? "" : with_commas(static_cast<double>(structure.bits())));
  if (run == nullptr) return row + '\n';
  const gpu::Accesses accesses = gpu::accesses_of(structure, *run);
  row += fmt::format(" {:>12} {:>14} {:>15}", packet ? "" : with_commas(accesses.reads), with_commas(accesses.writes),
                     with_commas(accesses.bits));
  return row + '\n';
}

}  // namespace

std::string bits_text(const gpu::GpuParams& params, const Observation* run) {
  std::string text = fmt::format("{:<24} {:<34} {:<9} {:>9} {:>9} {:>7} {:>12}", "block", "structure", "kind",
                                 "instances", "entries", "bits", "bits in all");
  if (run != nullptr) text += fmt::format(" {:>12} {:>14} {:>15}", "reads", "writes or sent", "bits moved");
  text += '\n';
  std::uint64_t sum = 0;
  for (const Structure& structure : gpu::structures_of(params)) {
    text += row_of(structure, run);
    text += fmt::format("    {}\n    {}\n", fields_text(structure), structure.law);
    if (structure.kind != StructureKind::packet) sum += structure.bits();
  }
  return text + fmt::format("\n{} bits in tables, registers and queues\n", with_commas(static_cast<double>(sum)));
}

nlohmann::ordered_json bits_json(const gpu::GpuParams& params, const Observation* run) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Structure& structure : gpu::structures_of(params)) {
    Json fields = Json::array();
    for (const gpu::BitField& field : structure.fields) {
      Json row = {{"name", field.name}, {"bits", field.bits}, {"times", field.times}};
      if (!field.when.empty()) row["when"] = field.when;
      fields.push_back(std::move(row));
    }
    Json row = {{"block", structure.block},
                {"name", structure.name},
                {"kind", gpu::structure_kind_name(structure.kind)},
                {"instances", structure.instances},
                {"entry_bits", structure.entry_bits()},
                {"fields", std::move(fields)},
                {"law", structure.law}};
    const bool packet = structure.kind == StructureKind::packet;
    if (!packet) {
      row["entries"] = structure.entries;
      row["bits"] = structure.bits();
    }
    if (run != nullptr) {
      const gpu::Accesses accesses = gpu::accesses_of(structure, *run);
      if (!packet) row["reads"] = accesses.reads;
      row[packet ? "sent" : "writes"] = accesses.writes;
      row["bits_moved"] = accesses.bits;
    }
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace heddle::cli
