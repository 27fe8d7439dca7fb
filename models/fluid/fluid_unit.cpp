#include "fluid/fluid_unit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/error.h"

namespace heddle::fluid {
namespace {

// Events; the argument of the first is an SM.
enum Event : std::uint32_t { kEnds, kSettles };

constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
constexpr double kLeastDrawn = 0.01;  // change of a use that the timeline shows
// What a kernel is charged with of what its CTAs demand.
std::optional<KernelCount> charge_of(arch::DemandUnit unit) {
  switch (unit) {
    case arch::DemandUnit::tensor_f16:
    case arch::DemandUnit::tensor_tf32:
    case arch::DemandUnit::tensor_f8:
    case arch::DemandUnit::tensor_f64:
      return KernelCount::tensor_operations;
    case arch::DemandUnit::l2_read:
    case arch::DemandUnit::l2_write:
      return KernelCount::l2_bytes;
    case arch::DemandUnit::dram_read:
      return KernelCount::dram_read;
    case arch::DemandUnit::dram_write:
      return KernelCount::dram_written;
    default:
      return std::nullopt;
  }
}

// For how long a CTA takes units of its SM, as programs do: each of its partitions has one of most kinds.
struct UnitCharge {
  Resource resource;
  KernelCount count;
  double partitions;
};
constexpr double kPartitions = 4;
constexpr std::array<UnitCharge, 6> kUnitCharges{{{Resource::tensor, KernelCount::tensor_cycles, kPartitions},
                                                  {Resource::fp32, KernelCount::fp32_cycles, kPartitions},
                                                  {Resource::fp64, KernelCount::fp64_cycles, kPartitions},
                                                  {Resource::int32, KernelCount::int32_cycles, kPartitions},
                                                  {Resource::sfu, KernelCount::sfu_cycles, kPartitions},
                                                  {Resource::shared, KernelCount::shared_cycles, 1}}};

constexpr std::array<Resource, 3> kDrawn = {Resource::dram, Resource::l2_read, Resource::l2_write};

}  // namespace

FluidStats::FluidStats(Stats& stats, const std::string& prefix) : StatGroup(stats, prefix) {
  for (std::size_t i = 0; i < arch::kDemandUnits; ++i) {
    const auto unit = static_cast<arch::DemandUnit>(i);
    const bool bytes = arch::counts_bytes(unit);
    amounts[i] = &counter(fmt::format("amount.{}", arch::demand_name(unit)), bytes ? "bytes" : "operations",
                          fmt::format("of {} that CTAs which have ended demanded", arch::demand_name(unit)));
  }
  for (std::size_t i = 0; i < kResources; ++i) {
    const auto resource = static_cast<Resource>(i);
    busy[i] =
        &gauge(fmt::format("busy.{}", resource_name(resource)), "cycles",
               fmt::format("that the CTAs which have ended kept {} busy, of all together", resource_text(resource)));
    limited[i] = &counter(fmt::format("limited.{}", resource_name(resource)), "CTAs x cycles",
                          fmt::format("in which CTAs went as fast as {} let them", resource_text(resource)));
  }
  limited[kResources] =
      &counter("limited.floor", "CTAs x cycles", "in which CTAs went as fast as their floor lets them");
}

FluidUnit::FluidUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, FluidMachine machine,
                     double tolerance, const arch::CodeStore& codes)
    : Block(name, domain, path),
      work_in("work_in", domain, 0, CreditReturn::on_receipt, PacketSenders::many),
      done_out("done_out", domain, 0, kUnlimitedCredits),  // one of each CTA
      codes_(codes),
      core_(std::move(machine), tolerance),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      armed_(core_.machine().gpc_of.size(), kNever),
      account_(kernel_account(domain)),
      rows_(account_ == nullptr ? 0 : armed_.size()) {
  work_in.on_packet_ahead<FluidUnit, &FluidUnit::on_work>(*this);
}

FluidUnit::~FluidUnit() = default;

void FluidUnit::on_work(const protocol::WorkPacket& packet, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(arrival == now(), "work was announced for another cycle");
  if (packet.kind == protocol::WorkPacket::Kind::start) {
    if (account_ != nullptr) {
      std::vector<std::uint32_t>& rows = rows_[packet.sm];
      if (rows.size() <= packet.cta_slot) rows.resize(packet.cta_slot + 1);
      rows[packet.cta_slot] = packet.kernel;
    }
    core_.enter(packet.sm, packet.cta_slot, kernel_of(packet.code), packet.left, arrival);
  } else {
    const double left = core_.leave(packet.sm, packet.cta_slot, arrival);
    done_out.send({protocol::WorkDonePacket::Kind::stopped, packet.cta_slot, left}, packet.sm);
  }
  settle_later();
}

// Launches of one kernel have the same text.
std::uint32_t FluidUnit::kernel_of(std::uint32_t number) {
  const arch::Code& code = codes_.at(number);
  HEDDLE_CHECK(code.demand != nullptr, "a CTA begins to work whose code is a program");
  if (code.text >= kernels_.size()) kernels_.resize(code.text + 1, kUnknown);
  std::uint32_t& kernel = kernels_[code.text];
  if (kernel != kUnknown) return kernel;
  kernel = core_.add_kernel(*code.demand);
  const CtaWork work = work_of(*code.demand, core_.machine());
  Sum sum;
  for (std::size_t i = 0; i < arch::kDemandUnits; ++i) {
    const auto amount = static_cast<std::uint64_t>(std::llround(code.demand->amounts[i]));
    if (amount == 0) continue;
    sum.amounts.emplace_back(stats_.amounts[i], amount);
    const auto charge = charge_of(static_cast<arch::DemandUnit>(i));
    if (charge) sum.charges.emplace_back(*charge, amount);
  }
  // Full cycles: never more than there are.
  for (const UnitCharge& unit : kUnitCharges) {
    const auto place = static_cast<std::size_t>(unit.resource);
    const auto cycles = static_cast<std::uint64_t>(unit.partitions * work.load[place] / work.pace);
    if (cycles > 0) sum.charges.emplace_back(unit.count, cycles);
  }
  const FluidMachine& machine = core_.machine();
  std::array<double, kWides> capacity{};
  for (const FluidMachine::Gpc& gpc : machine.gpcs) {
    capacity[0] += gpc.read;
    capacity[1] += gpc.write;
  }
  for (std::uint32_t p = 0; p < machine.pools.size(); ++p) {
    // Those of instances stand beside the one of all, and no GPC asks both.
    const auto asks = [p](const FluidMachine::Gpc& gpc) { return gpc.pool == p; };
    if (std::none_of(machine.gpcs.begin(), machine.gpcs.end(), asks)) continue;
    capacity[2] += machine.pools[p].l2_read;
    capacity[3] += machine.pools[p].l2_write;
    capacity[4] += machine.pools[p].dram;
  }
  for (std::size_t i = 0; i < kLocals; ++i) {
    sum.busy[i] = work.load[i] / work.pace / static_cast<double>(machine.gpc_of.size());
  }
  const std::array<double, kPlaces> places{machine.requests, machine.bulk_requests};
  for (std::size_t i = 0; i < kPlaces; ++i) {
    sum.busy[kLocals + i] = work.held[i].empty / places[i] / static_cast<double>(machine.gpc_of.size());
  }
  for (std::size_t i = 0; i < kWides; ++i) sum.busy[kFirstWide + i] = work.flow[i] / work.pace / capacity[i];
  sums_.push_back(std::move(sum));
  return kernel;
}

void FluidUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kSettles) return settle();
  const auto sm = static_cast<std::uint32_t>(argument);
  if (armed_[sm] != now()) return;
  armed_[sm] = kNever;
  end(sm);
}

// An end can let others begin to work, or stop, within the call.
void FluidUnit::end(std::uint32_t sm) {
  if (core_.next_end(sm) <= now()) {
    const std::vector<FluidCore::Ended> ended = core_.take_ended(sm, now());
    for (const FluidCore::Ended& cta : ended) {
      count(cta.kernel, sm, cta.slot);
      done_out.send({protocol::WorkDonePacket::Kind::ended, protocol::CtaSlot(cta.slot), 0}, sm);
    }
    settle_later();
  } else if (core_.next_end(sm) != kNever) {
    armed_[sm] = core_.next_end(sm);
    domain_.schedule(armed_[sm], *this, kEnds, sm);
  }
}

// What changes in a cycle changes together.
void FluidUnit::settle_later() {
  if (settles_) return;
  settles_ = true;
  domain_.schedule(now(), *this, kSettles);
}

void FluidUnit::settle() {
  settles_ = false;
  for (const std::uint32_t sm : core_.settle(now())) {
    const Cycle next = core_.next_end(sm);
    if (next == kNever && armed_[sm] != kNever) {  // its CTAs were taken away
      domain_.cancel(armed_[sm], *this, kEnds, sm);
      armed_[sm] = kNever;
    }
    if (next >= armed_[sm]) continue;  // it is looked at before
    armed_[sm] = next;
    domain_.schedule(next, *this, kEnds, sm);
  }
  for (std::size_t i = 0; i <= kResources; ++i) {
    Counter& counter = *stats_.limited[i];
    counter.add(core_.limited()[i] - counter.value());
  }
  stats_.solved.add(core_.solved() - stats_.solved.value());
  if (timeline() != nullptr) draw();
}

void FluidUnit::count(std::uint32_t kernel, std::uint32_t sm, std::uint32_t slot) {
  const Sum& sum = sums_[kernel];
  stats_.ctas.add();
  for (const auto& [counter, amount] : sum.amounts) counter->add(amount);
  if (account_ != nullptr) {
    for (const auto& [count, amount] : sum.charges) account_->add(rows_[sm][slot], count, amount);
  }
  for (std::size_t i = 0; i < kResources; ++i) {
    if (sum.busy[i] <= 0) continue;
    busy_[i] += sum.busy[i];
    stats_.busy[i]->set(busy_[i]);
  }
}

void FluidUnit::draw() {
  const TrackId track = timeline()->track(domain_.observation().prefix, path());
  for (std::size_t i = 0; i < kDrawn.size(); ++i) {
    const double use = core_.use(0, kDrawn[i]);
    if (std::abs(use - drawn_[i]) < kLeastDrawn && (use > kLeastDrawn || drawn_[i] <= 0)) continue;
    drawn_[i] = use > kLeastDrawn ? use : 0;
    timeline()->counter(track, domain_.time_of(now()), fmt::format("{} %", resource_name(kDrawn[i])), 100 * drawn_[i]);
  }
}

// The machine begins anew, and so do its statistics: whoever resets it clears them.
void FluidUnit::reset() {
  core_.reset();
  std::fill(armed_.begin(), armed_.end(), kNever);
  settles_ = false;
  busy_ = {};
  drawn_ = {};
}

void FluidUnit::collect_waits(WaitGraph& graph) const {
  const std::array<std::uint32_t, kResources + 1> ctas = core_.held();
  for (std::size_t i = 0; i <= kResources; ++i) {
    if (ctas[i] == 0) continue;
    graph.add(fmt::format("{} CTAs with a demand", ctas[i]), "which go as fast as they are let by",
              i < kResources ? resource_text(static_cast<Resource>(i)) : "their floor");
  }
}

void FluidUnit::check_idle() { HEDDLE_CHECK(core_.resident() == 0, "CTAs with a demand work on an idle machine"); }

}  // namespace heddle::fluid
