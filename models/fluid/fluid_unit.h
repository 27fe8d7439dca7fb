// The shell of the fluid model: SMs say which CTAs with a demand begin and stop, and hear when one is done.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/kernel_account.h"
#include "arch/kernel_object.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "fluid/fluid_core.h"
#include "protocol/sm_fluid.h"

namespace heddle::fluid {

// Statistics of CTAs with demands.
struct FluidStats : StatGroup {
  FluidStats(Stats& stats, const std::string& prefix);

  Counter& ctas = counter("ctas", "CTAs", "CTAs with a demand that ended");
  std::array<Counter*, arch::kDemandUnits> amounts{};
  std::array<Gauge*, kResources> busy{};
  std::array<Counter*, kResources + 1> limited{};
  Counter& solved = counter("solved", "times", "that shares of what all SMs share were found anew");
};

class FluidUnit final : public Block {
 public:
  // `tolerance`: see WideShares. `codes` must outlive it.
  FluidUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, FluidMachine machine,
            double tolerance, const arch::CodeStore& codes);
  ~FluidUnit() override;

  // From all SMs, and to them, in the order of their ids.
  PacketIn<protocol::WorkPacket> work_in;
  PacketOut<protocol::WorkDonePacket> done_out;

  // Throws InputError if the machine has nothing of what it demands.
  void check(const arch::Demand& demand) const { (void)work_of(demand, core_.machine()); }

  // Numbers of demands may be given to others from now on. No CTA has one.
  void forget_kernels() { kernels_.clear(); }

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override;

 private:
  // Of a kernel, for statistics: what each of its CTAs adds.
  struct Sum {
    std::vector<std::pair<Counter*, std::uint64_t>> amounts;
    std::vector<std::pair<KernelCount, std::uint64_t>> charges;
    std::array<double, kResources> busy{};  // cycles of the whole resource
  };
  void on_work(const protocol::WorkPacket& packet, std::uint32_t, Cycle arrival);
  std::uint32_t kernel_of(std::uint32_t code);
  void end(std::uint32_t sm);
  void settle_later();
  void settle();
  void count(std::uint32_t kernel, std::uint32_t sm, std::uint32_t slot);
  void draw();

  const arch::CodeStore& codes_;
  FluidCore core_;
  FluidStats stats_;
  std::vector<std::uint32_t> kernels_;  // by number of a code's text
  std::vector<Sum> sums_;               // by kernel
  std::array<double, kResources> busy_{};
  std::vector<Cycle> armed_;                      // by SM: the earliest event that was entered for it
  bool settles_ = false;                          // later in this cycle
  KernelAccount* const account_;                  // null: nobody asks
  std::vector<std::vector<std::uint32_t>> rows_;  // of that: by SM and CTA slot
  std::array<double, 3> drawn_{};
};

}  // namespace heddle::fluid
