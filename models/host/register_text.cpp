#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "host/register_table.h"

namespace heddle::host {
namespace {

// One of each set of fields or values, in the order of their first use.
template <class Set>
std::vector<const Set*> sets_of(const Set* Register::*member) {
  std::vector<const Set*> found;
  for (const Register& reg : register_table()) {
    const Set* set = reg.*member;
    if (set != nullptr && std::find(found.begin(), found.end(), set) == found.end()) found.push_back(set);
  }
  return found;
}

const char* section_of(const Register& reg) {
  switch (reg.id) {
    case RegisterId::magic:
      return "Identification and configuration";
    case RegisterId::int_status:
      return "Interrupts";
    case RegisterId::control:
      return "Control and errors";
    case RegisterId::event:
      return "Events of signals";
    case RegisterId::query_threads:
      return "Occupancy queries";
    case RegisterId::copy_from:
      return "Copy channels";
    case RegisterId::doorbell:
      return "Doorbells";
    case RegisterId::queue_base:
      return "Queues";
    default:
      return nullptr;
  }
}

const char* letter_of(const Register& reg) {
  switch (reg.array) {
    case RegisterArray::copy_channel:
      return "c";
    case RegisterArray::queue:
      return "q";
    case RegisterArray::none:
      break;
  }
  return "";
}

std::string place_of(const Register& reg) {
  std::string text = fmt::format("{:#06x}", reg.offset);
  if (reg.array != RegisterArray::none) text += fmt::format(" + {:#x} {}", reg.stride, letter_of(reg));
  if (reg.words > 1) text += fmt::format(" + {:#x} w", static_cast<unsigned>(reg.bytes));
  return text;
}

std::string reset_of(const Register& reg) {
  if (reg.of_machine) return "machine";
  if (reg.access == RegisterAccess::wo) return "-";
  return reg.reset == 0 ? "0" : fmt::format("{:#x}", reg.reset);
}

std::string bits_text(const RegisterField& field) {
  if (field.bits == 1) return fmt::format("{}", static_cast<unsigned>(field.first));
  return fmt::format("{}-{}", static_cast<unsigned>(field.first), field.first + field.bits - 1);
}

// Names of reasons are those of the model.
std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string value_text(std::uint32_t value) {
  return value < 10 ? fmt::format("{}", value) : fmt::format("{:#x}", value);
}

constexpr const char* kRules =
    R"(Little-endian. A register is read and written with its own width, aligned; a 64-bit register also as two 32-bit halves,
the low one at the lower address. All else ends in an error response without an effect:

| access | response |
| --- | --- |
| at an offset that is not in the table, a queue that the machine does not have, or a doorbell in the page of another subcontext | `TLM_ADDRESS_ERROR_RESPONSE` |
| of another length than 4 or 8, not aligned to it, longer than the register, or with a streaming width below it | `TLM_BURST_ERROR_RESPONSE` |
| with byte enables that are not all set | `TLM_BYTE_ENABLE_ERROR_RESPONSE` |
| a write to `ro`, a read from `wo` | `TLM_COMMAND_ERROR_RESPONSE` |
| a command that makes no sense now, or a value that is not defined | `TLM_GENERIC_ERROR_RESPONSE` |
| while `rst` is high, or under way when the device is reset | `TLM_GENERIC_ERROR_RESPONSE` |

- `ro` is read only, `rw` keeps what is written, `w1c` clears the bits that are written as 1, `wo` acts when it is written.
- Bits without a name read as 0; what is written there is ignored.
- The read of the low half of a 64-bit `ro` register keeps its high half for the next read there, so that both belong
  together. Another such read in between takes the place.
- A doorbell written by halves takes effect with the high half. The low half is kept until then, queue by queue.
- Debug accesses read without any effect (EVENT keeps its event, a `wo` register reads as 0) and do not write.
- Registers act when a blocking call is made, or with the response of a non-blocking one; commands to the device leave
  when the access ends (`gpu.host.register_latency`).
)";

}  // namespace

std::string registers_as_text() {
  std::string out;
  std::vector<const void*> seen;  // sets that need not be told again
  const auto first_use = [&seen](const void* set) {
    if (set == nullptr || std::find(seen.begin(), seen.end(), set) != seen.end()) return false;
    seen.push_back(set);
    return true;
  };
  for (const Register& reg : register_table()) {
    if (const char* section = section_of(reg)) out += fmt::format("{}{}\n", out.empty() ? "" : "\n", section);
    std::string name = reg.name;
    if (reg.array != RegisterArray::none) name += fmt::format("[{}]", reg.count);
    if (reg.words > 1) name += fmt::format("[{}]", reg.words);
    std::string what = reg.description;
    const bool with_fields = first_use(reg.fields);
    const bool with_values = first_use(reg.values);
    if (reg.fields != nullptr && !with_fields) what += fmt::format("; fields: {}", reg.fields->name);
    if (reg.values != nullptr && !with_values) what += fmt::format("; values: {}", reg.values->name);
    out += fmt::format("  {:<24} {:<28} {} bits {:<3}  reset {:<10}  {}\n", place_of(reg), name, reg.bytes * 8,
                       access_text(reg.access), reset_of(reg), what);
    if (with_fields) {
      for (std::uint32_t i = 0; i < reg.fields->count; ++i) {
        const RegisterField& field = reg.fields->fields[i];
        out += fmt::format("      {} bits {:<6} {:<16} {}\n", reg.fields->name, bits_text(field), field.name,
                           field.description);
      }
    }
    if (with_values) {
      for (std::uint32_t i = 0; i < reg.values->count; ++i) {
        const RegisterValue& value = reg.values->values[i];
        out += fmt::format("      {} {:<11} {:<22} {}\n", reg.values->name, value_text(value.value),
                           upper_case(value.name), value.description);
      }
    }
  }
  return out;
}

std::string registers_as_markdown() {
  std::string out = "# Registers\n\n";
  out +=
      "What a host sees through `bar0`, offset by offset. This page is made by `heddle show registers --format "
      "markdown`, and\n`platforms/driver/heddle_registers.h`, the same for C, by `--format c`.\n\n";
  out += fmt::format(
      "`bar0` is {} KiB with pages of doorbells of {} KiB (`gpu.host.doorbell_page`); `c` below is a "
      "copy channel, `q` a\nqueue, `w` a word of an agent packet.\n\n",
      bar0_bytes(kLeastDoorbellPage) / 1024, kLeastDoorbellPage / 1024);
  out += "## Rules\n\n";
  out += kRules;
  for (const Register& reg : register_table()) {
    if (const char* section = section_of(reg)) {
      out += fmt::format(
          "\n## {}\n\n| offset | name | bits | access | reset | what |\n| --- | --- | --- | --- | --- | --- "
          "|\n",
          section);
    }
    std::string what = reg.description;
    if (reg.fields != nullptr) what += fmt::format("; [fields](#{})", lower_case(reg.fields->name));
    if (reg.values != nullptr) what += fmt::format("; [values](#{})", lower_case(reg.values->name));
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", place_of(reg), reg.name, reg.bytes * 8,
                       access_text(reg.access), reset_of(reg), what);
  }
  out += "\n## Fields\n";
  for (const RegisterFields* set : sets_of(&Register::fields)) {
    out += fmt::format("\n### {}\n\n| bits | name | what |\n| --- | --- | --- |\n", set->name);
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const RegisterField& field = set->fields[i];
      out += fmt::format("| {} | {} | {} |\n", bits_text(field), field.name, field.description);
    }
  }
  out += "\n## Values\n";
  for (const RegisterValues* set : sets_of(&Register::values)) {
    out += fmt::format("\n### {}\n\n| value | name | what |\n| --- | --- | --- |\n", set->name);
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const RegisterValue& value = set->values[i];
      out += fmt::format("| {} | {} | {} |\n", value_text(value.value), upper_case(value.name), value.description);
    }
  }
  return out;
}

std::string registers_as_c() {
  std::string out =
      "/* Registers of a Heddle device. Made by `heddle show registers --format c`; not to be edited. */\n"
      "/* clang-format off */\n#ifndef HEDDLE_REGISTERS_H\n#define HEDDLE_REGISTERS_H\n\n#include <stdint.h>\n\n";
  const auto define = [&out](const std::string& name, const std::string& value, const std::string& comment = {}) {
    out += fmt::format("#define {:<44} {}{}\n", name, value, comment.empty() ? "" : "  /* " + comment + " */");
  };
  define("HEDDLE_BAR0_BYTES(page)",
         fmt::format("(UINT32_C({:#x}) + {}u * (uint32_t)(page))", kDoorbellBase, kDoorbellPages),
         "page: DOORBELL_PAGE");
  define("HEDDLE_DEVICE_MAGIC", fmt::format("UINT32_C({:#x})", kMagic));
  define("HEDDLE_REGISTER_VERSION", fmt::format("UINT32_C({:#x})", kVersion));
  define("HEDDLE_MAX_QUEUES", fmt::format("UINT32_C({})", register_of(RegisterId::queue_base).count));
  define("HEDDLE_COPY_CHANNELS", fmt::format("UINT32_C({})", kCopyChannels));
  define("HEDDLE_AGENT_WORDS", fmt::format("UINT32_C({})", kAgentWords));
  define("HEDDLE_NO_QUEUE", fmt::format("UINT32_C({:#x})", kAbsent));
  for (const Register& reg : register_table()) {
    if (const char* section = section_of(reg)) out += fmt::format("\n/* {} */\n", section);
    std::string arguments;
    std::string value = fmt::format("UINT32_C({:#x})", reg.offset);
    if (reg.array != RegisterArray::none) {
      arguments = letter_of(reg);
      value += fmt::format(" + {:#x}u * (uint32_t)({})", reg.stride, letter_of(reg));
    }
    if (reg.words > 1) {
      arguments += ", w";
      value += fmt::format(" + {:#x}u * (uint32_t)(w)", static_cast<unsigned>(reg.bytes));
    }
    const std::string name = fmt::format("HEDDLE_REG_{}{}", reg.name, arguments.empty() ? "" : "(" + arguments + ")");
    define(name, arguments.empty() ? value : "(" + value + ")",
           fmt::format("{}, {} bits", access_text(reg.access), reg.bytes * 8));
  }
  for (const RegisterFields* set : sets_of(&Register::fields)) {
    out += fmt::format("\n/* Fields: {} */\n", set->name);
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const RegisterField& field = set->fields[i];
      const std::string name = fmt::format("HEDDLE_{}_{}", set->name, field.name);
      const std::uint64_t mask = ((std::uint64_t{1} << field.bits) - 1) << field.first;
      define(name + "_SHIFT", fmt::format("{}", static_cast<unsigned>(field.first)));
      define(name + "_MASK", fmt::format("UINT{}_C({:#x})", mask >> 32 != 0 ? 64 : 32, mask), field.description);
    }
  }
  for (const RegisterValues* set : sets_of(&Register::values)) {
    out += fmt::format("\nenum heddle_{} {{\n", lower_case(set->name));
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const RegisterValue& value = set->values[i];
      out += fmt::format("  HEDDLE_{}_{} = {}{}  /* {} */\n", set->name, upper_case(value.name),
                         value_text(value.value), i + 1 < set->count ? "," : "", value.description);
    }
    out += "};\n";
  }
  out += "\n/* X(number, text) for each reason. */\n#define HEDDLE_REASON_TEXTS(X)";
  const RegisterValues& reasons = *register_of(RegisterId::error_reason).values;
  for (std::uint32_t i = 0; i < reasons.count; ++i) {
    out += fmt::format(" \\\n  X({}, \"{}\")", reasons.values[i].value, reasons.values[i].description);
  }
  out += "\n\n#endif\n";
  return out;
}

}  // namespace heddle::host
