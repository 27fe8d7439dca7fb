#include "power/energy_account.h"

#include <string_view>
#include <unordered_map>

namespace heddle::power {
namespace {

constexpr double kLanes = 32;
constexpr double kWordBytes = 4 * kLanes;  // of a register of a warp
constexpr double kSectorBytes = 32;
constexpr double kWavefrontBytes = 128;  // that shared memory reads or writes in a cycle

bool matches(std::string_view path, std::string_view begin, std::string_view end) {
  return path.size() >= begin.size() + end.size() && path.substr(0, begin.size()) == begin &&
         path.substr(path.size() - end.size()) == end;
}

}  // namespace

const char* part_name(Part part) {
  static constexpr std::array<const char*, kParts> kNames = {
      "sm.issue", "sm.registers", "sm.alu", "sm.tensor",     "sm.shared", "sm.l1",   "network",
      "tmau",     "xbar",         "l2",     "hbm.activates", "hbm.data",  "leakage", "idle"};
  return kNames[static_cast<std::size_t>(part)];
}

const char* part_text(Part part) {
  static constexpr std::array<const char*, kParts> kTexts = {"fetch, decode and control of instructions",
                                                             "the register files",
                                                             "arithmetic of lanes",
                                                             "the matrix units",
                                                             "shared memory",
                                                             "the L1",
                                                             "traffic between SMs of a cluster",
                                                             "the tensor memory access units",
                                                             "traffic between SMs and the L2",
                                                             "the L2",
                                                             "rows of memory that were opened",
                                                             "data between memory and the GPU",
                                                             "leakage of the chip",
                                                             "the board without work"};
  return kTexts[static_cast<std::size_t>(part)];
}

std::vector<Price> prices(const EnergyParams& params, std::uint32_t tensor_flops) {
  std::vector<Price> list;
  // Of an instruction of a warp: registers that it reads and writes, and what a lane's arithmetic costs.
  const auto instruction = [&](const char* end, double registers, double lane) {
    list.push_back({".gpc", end, Part::issue, params.issue});
    list.push_back({".gpc", end, Part::registers, registers * kWordBytes * params.register_byte});
    if (lane > 0) list.push_back({".gpc", end, Part::alu, kLanes * lane});
  };
  instruction(".instructions.fp32", 4, params.fp32);
  instruction(".instructions.int32", 4, params.int32);
  instruction(".instructions.fp64", 8, params.fp64);
  instruction(".instructions.sfu", 2, params.sfu);
  instruction(".instructions.memory", 2, 0);  // an address and a word
  instruction(".instructions.tensor", 0, 0);  // those of its sums are tensor_flop's
  instruction(".instructions.none", 0, 0);
  list.push_back({".gpc", ".tensor.cycles", Part::tensor, tensor_flops * params.tensor_flop});
  list.push_back({".gpc", ".shared.wavefronts", Part::shared, kWavefrontBytes * params.shared_byte});
  list.push_back({".gpc", ".l1.hits", Part::l1, kSectorBytes * params.l1_byte});
  list.push_back({".gpc", ".l1.misses", Part::l1, kSectorBytes * params.l1_byte});
  list.push_back({".gpc", ".network.request_bytes", Part::network, params.network * params.wire});
  list.push_back({".gpc", ".network.reply_bytes", Part::network, params.network * params.wire});
  list.push_back({".gpc", ".lines", Part::tmau, params.tmau_line});
  list.push_back({".memory.subcontext", ".xbar_request_bytes", Part::xbar, params.distance * params.wire});
  list.push_back({".memory.subcontext", ".xbar_response_bytes", Part::xbar, params.distance * params.wire});
  list.push_back({".xbar.crossing", "_bytes", Part::xbar, params.crossing * params.wire});
  list.push_back({".l2.slice", ".crossing_bytes", Part::xbar, params.crossing * params.wire});
  list.push_back({".memory.subcontext", ".l2_bytes", Part::l2, params.l2_byte});
  list.push_back({".l2.slice", ".fills", Part::l2, kSectorBytes * params.l2_byte});
  list.push_back({".l2.slice", ".copies.sectors", Part::l2, kSectorBytes * params.l2_byte});
  list.push_back({".l2.slice", ".write_backs", Part::l2, kSectorBytes * params.l2_byte});
  list.push_back({".hbm.activates", "", Part::hbm_activates, 1e3 * params.activate});
  list.push_back({".hbm.read_bytes", "", Part::hbm_data, 8 * params.hbm_bit});
  list.push_back({".hbm.written_bytes", "", Part::hbm_data, 8 * params.hbm_bit});
  return list;
}

// Statistics of owners appear with their first request.
void EnergyAccount::find() {
  known_ = stats_.size();
  std::unordered_map<const Counter*, std::uint64_t> taken;
  for (const Source& source : sources_) taken[source.counter] = source.taken;
  sources_.clear();
  stats_.for_each_counter([&](const std::string& path, const Counter& counter) {
    if (!matches(path, prefix_, "")) return;
    const std::string_view rest = std::string_view(path).substr(prefix_.size());
    const auto old = taken.find(&counter);
    const std::uint64_t before = old == taken.end() ? 0 : old->second;
    for (const Price& price : prices_) {
      if (matches(rest, price.begin, price.end)) sources_.push_back({&counter, price.part, price.picojoules, before});
    }
  });
}

Joules EnergyAccount::take() {
  if (known_ != stats_.size()) find();
  Joules joules{};
  for (Source& source : sources_) {
    const std::uint64_t value = source.counter->value();
    joules[static_cast<std::size_t>(source.part)] +=
        static_cast<double>(value - source.taken) * source.picojoules * 1e-12;
    source.taken = value;
  }
  return joules;
}

void EnergyAccount::reset() {
  for (Source& source : sources_) source.taken = 0;
}

}  // namespace heddle::power
