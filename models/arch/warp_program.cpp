#include "arch/warp_program.h"

#include <cstddef>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

// A saved state: "HWRP", version, pc, exited, number of registers and of scalars (32 bits each), registers, scalars,
// and a check sum of all that (64 bits). Little endian.
constexpr std::uint32_t kMagic = 0x5052'5748;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 6 * 4;
constexpr std::size_t kSumBytes = 8;

// FNV-1a: against bytes that were damaged or cut, not against forgery.
std::uint64_t sum_of(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t sum = 0xCBF2'9CE4'8422'2325U;
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ bytes[i]) * 0x0000'0100'0000'01B3U;
  return sum;
}

void put(std::vector<std::uint8_t>& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

// Reads what must be there: the size has been compared before.
class Reader {
 public:
  explicit Reader(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
  std::uint64_t take(std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += count;
    return value;
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(take(4)); }

 private:
  const std::vector<std::uint8_t>& bytes_;
  std::size_t at_ = 0;
};

[[noreturn]] void not_a_state(const std::string& why) {
  throw InputError(fmt::format("the saved state of a warp is damaged: {}", why),
                   "restore from the bytes that save() gave, whole");
}

}  // namespace

const char* special_name(SpecialRegister special) {
  constexpr std::array<const char*, kSpecialRegisters> kNames{
      "clock",    "sm",     "sms",    "warp_slot", "cta_slot",         "cta_id_x", "cta_id_y",       "cta_id_z",
      "grid_x",   "grid_y", "grid_z", "block_x",   "block_y",          "block_z",  "cga_id",         "cga_cta_id",
      "cga_size", "cga_x",  "cga_y",  "cga_z",     "gpc_local_cga_id", "task_id",  "queue_position", "cga_memory"};
  return kNames[static_cast<std::size_t>(special)];
}

const char* unit_name(Unit unit) {
  constexpr std::array<const char*, kUnits> kNames{"none", "fp32", "int32", "fp64", "sfu", "tensor", "memory"};
  return kNames[static_cast<std::size_t>(unit)];
}

std::vector<std::uint8_t> save(const WarpState& state) {
  HEDDLE_CHECK(state.registers.size() <= std::size_t{kMaxProgramRegisters} * kWarpLanes &&
                   state.registers.size() % kWarpLanes == 0,
               "a warp has whole registers");
  std::vector<std::uint8_t> bytes;
  bytes.reserve(kHeaderBytes + 4 * state.registers.size() + 8 * state.scalars.size() + kSumBytes);
  put(bytes, kMagic, 4);
  put(bytes, kVersion, 4);
  put(bytes, state.pc, 4);
  put(bytes, state.exited ? 1 : 0, 4);
  put(bytes, state.registers.size() / kWarpLanes, 4);
  put(bytes, state.scalars.size(), 4);
  for (const std::uint32_t value : state.registers) put(bytes, value, 4);
  for (const std::int64_t value : state.scalars) put(bytes, static_cast<std::uint64_t>(value), 8);
  put(bytes, sum_of(bytes.data(), bytes.size()), kSumBytes);
  return bytes;
}

WarpState restore(const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() < kHeaderBytes + kSumBytes) not_a_state("it is too short");
  Reader reader(bytes);
  if (reader.word() != kMagic) not_a_state("it does not begin like one");
  if (const std::uint32_t version = reader.word(); version != kVersion) {
    throw InputError(fmt::format("the saved state of a warp has version {}, this is version {}", version, kVersion),
                     "restore it with the version that saved it");
  }
  WarpState state;
  state.pc = reader.word();
  const std::uint32_t exited = reader.word();
  const std::uint32_t registers = reader.word();
  const std::uint64_t scalars = reader.word();
  if (exited > 1) not_a_state("a flag is neither 0 nor 1");
  if (registers > kMaxProgramRegisters) not_a_state(fmt::format("{} registers", registers));
  const std::uint64_t size = kHeaderBytes + std::uint64_t{4} * kWarpLanes * registers + 8 * scalars + kSumBytes;
  if (bytes.size() != size) not_a_state(fmt::format("{} bytes instead of {}", bytes.size(), size));
  state.exited = exited == 1;
  state.registers.resize(std::size_t{registers} * kWarpLanes);
  for (std::uint32_t& value : state.registers) value = reader.word();
  state.scalars.resize(scalars);
  for (std::int64_t& value : state.scalars) value = static_cast<std::int64_t>(reader.take(8));
  if (reader.take(kSumBytes) != sum_of(bytes.data(), bytes.size() - kSumBytes)) not_a_state("its check sum is wrong");
  return state;
}

}  // namespace heddle::arch
