#include "arch/warp_program.h"

#include <cstddef>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

// A saved state: "HWRP", version, pc, exited, number of registers and of scalars (32 bits each), registers, scalars,
// and a check sum of all that (64 bits). Little endian.
constexpr std::uint32_t kStateMagic = 0x5052'5748;
constexpr std::uint32_t kStateVersion = 1;
constexpr std::size_t kStateHeaderBytes = 6 * 4;

[[noreturn]] void not_a_state(const std::string& why) {
  throw InputError(fmt::format("the saved state of a warp is damaged: {}", why),
                   "restore from the bytes that save() gave, whole");
}

void fail(const char* why) { not_a_state(why); }

}  // namespace

const char* special_name(SpecialRegister special) {
  constexpr std::array<const char*, kSpecialRegisters> kNames{"clock",
                                                              "sm",
                                                              "sms",
                                                              "warp_slot",
                                                              "cta_slot",
                                                              "cta_id_x",
                                                              "cta_id_y",
                                                              "cta_id_z",
                                                              "grid_x",
                                                              "grid_y",
                                                              "grid_z",
                                                              "block_x",
                                                              "block_y",
                                                              "block_z",
                                                              "cga_id",
                                                              "cga_cta_id",
                                                              "cga_size",
                                                              "cga_x",
                                                              "cga_y",
                                                              "cga_z",
                                                              "gpc_local_cga_id",
                                                              "task_id",
                                                              "queue_position",
                                                              "cga_memory",
                                                              "tpc",
                                                              "cpc",
                                                              "gpc",
                                                              "ugpu",
                                                              "virtual_sm",
                                                              "virtual_tpc",
                                                              "virtual_cpc",
                                                              "virtual_gpc",
                                                              "virtual_ugpu",
                                                              "local_memory_block",
                                                              "trap_gpc_local_cga_id",
                                                              "trap_cga_cta_id",
                                                              "cpc_cga_id",
                                                              "cpc_cga_rank",
                                                              "cpc_cga_size",
                                                              "cpc_cga_x",
                                                              "cpc_cga_y",
                                                              "cpc_cga_z",
                                                              "gpc_cga_id",
                                                              "gpc_cga_rank",
                                                              "gpc_cga_size",
                                                              "gpc_cga_x",
                                                              "gpc_cga_y",
                                                              "gpc_cga_z",
                                                              "ugpu_cga_id",
                                                              "ugpu_cga_rank",
                                                              "ugpu_cga_size",
                                                              "ugpu_cga_x",
                                                              "ugpu_cga_y",
                                                              "ugpu_cga_z",
                                                              "gpu_cga_id",
                                                              "gpu_cga_rank",
                                                              "gpu_cga_size",
                                                              "gpu_cga_x",
                                                              "gpu_cga_y",
                                                              "gpu_cga_z"};
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
  ByteWriter out;
  out.reserve(kStateHeaderBytes + 4 * state.registers.size() + 8 * state.scalars.size() + kCheckSumBytes);
  out.word(kStateMagic);
  out.word(kStateVersion);
  out.word(state.pc);
  out.word(state.exited ? 1 : 0);
  out.word(state.registers.size() / kWarpLanes);
  out.word(state.scalars.size());
  for (const std::uint32_t value : state.registers) out.word(value);
  for (const std::int64_t value : state.scalars) out.put(static_cast<std::uint64_t>(value), 8);
  return out.summed();
}

WarpState restore(const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() < kStateHeaderBytes + kCheckSumBytes) not_a_state("it is too short");
  ByteReader<fail> reader(bytes, bytes.size());
  if (reader.word() != kStateMagic) not_a_state("it does not begin like one");
  if (const std::uint32_t version = reader.word(); version != kStateVersion) {
    throw InputError(
        fmt::format("the saved state of a warp has version {}, this is version {}", version, kStateVersion),
        "restore it with the version that saved it");
  }
  WarpState state;
  state.pc = reader.word();
  const std::uint32_t exited = reader.word();
  const std::uint32_t registers = reader.word();
  const std::uint64_t scalars = reader.word();
  if (exited > 1) not_a_state("a flag is neither 0 nor 1");
  if (registers > kMaxProgramRegisters) not_a_state(fmt::format("{} registers", registers));
  const std::uint64_t size =
      kStateHeaderBytes + std::uint64_t{4} * kWarpLanes * registers + 8 * scalars + kCheckSumBytes;
  if (bytes.size() != size) not_a_state(fmt::format("{} bytes instead of {}", bytes.size(), size));
  state.exited = exited == 1;
  state.registers.resize(std::size_t{registers} * kWarpLanes);
  for (std::uint32_t& value : state.registers) value = reader.word();
  state.scalars.resize(scalars);
  for (std::int64_t& value : state.scalars) value = static_cast<std::int64_t>(reader.take(8));
  if (!has_check_sum(bytes)) not_a_state("its check sum is wrong");
  return state;
}

}  // namespace heddle::arch
