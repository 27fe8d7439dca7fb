#include "cwd/cluster_place.h"

#include "common/error.h"

namespace heddle::cwd {

SessionRequest request_for(const arch::ClusterShape& shape, std::uint32_t size_index, std::uint64_t units) {
  const auto size = [&](arch::CgaLevel level) {
    return level == shape.outermost() ? shape.size(size_index).count() : shape.of(level).count();
  };
  SessionRequest request;
  request.units = units;
  request.single = shape.outermost() == arch::CgaLevel::gpc;
  if (request.single || is_domain_wide(shape)) return request;
  std::uint64_t domain = size(shape.outermost());  // CTAs that go to one uGPU, or to the GPU
  if (shape.has(arch::CgaLevel::ugpu)) {
    request.ugpu_cgas = static_cast<std::uint32_t>(domain / size(arch::CgaLevel::ugpu));
    domain = size(arch::CgaLevel::ugpu);
  }
  request.gpc_cgas = static_cast<std::uint32_t>(domain / size(arch::CgaLevel::gpc));
  return request;
}

GpcCgaShape gpc_cga_shape_for(const arch::ClusterShape& shape, std::uint32_t size_index) {
  HEDDLE_CHECK(shape.has(arch::CgaLevel::gpc), "a grid without GPC_CGAs");
  const bool outermost = shape.outermost() == arch::CgaLevel::gpc;
  const arch::Dim3& extents = outermost ? shape.size(size_index) : shape.of(arch::CgaLevel::gpc);
  return {static_cast<std::uint32_t>(extents.count()),
          static_cast<std::uint32_t>(shape.of(arch::CgaLevel::cpc).count())};
}

ClusterPlacer::ClusterPlacer(const arch::Topology& topology, const Policies& policies,
                             const std::vector<std::uint32_t>& sm_priority,
                             const std::vector<std::uint32_t>& gpc_priority)
    : topology_(topology), session_(ugpus_of(topology), gpc_priority, *policies.domain), reserved_(topology.gpcs()) {
  models_.reserve(topology.gpcs());
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    models_.emplace_back(topology, g, sm_priority, *policies.load_balancing, *policies.multicast, *policies.domain);
  }
}

const std::vector<ClusterPlacer::Placed>& ClusterPlacer::place(const std::vector<std::uint16_t>& slots,
                                                               const GpcCgaShape& shape, arch::CgaMode mode,
                                                               const std::vector<std::uint32_t>& cgas_per_gpc,
                                                               const SessionRequest& request) {
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology_.gpc(g);
    GpcSlots free{};
    for (std::uint32_t bit = 0; bit < gpc.sms; ++bit) free[bit] = slots[gpc.sm_ids[bit]];
    models_[g].begin(free, shape, mode == arch::CgaMode::multicast, cgas_per_gpc[g]);
    reserved_[g] = {};
  }
  session_.begin(request);
  while (true) {
    const std::vector<Command>& commands = session_.step();
    if (commands.empty()) break;
    for (const Command& command : commands) carry_out(command);
  }
  placed_.clear();
  for (const Home& home : session_.homes()) {
    HEDDLE_CHECK(home.nth < reserved_[home.gpc].accepted, "a CGA has a home that was not accepted");
    placed_.push_back({home, reserved_[home.gpc].masks[home.nth]});
  }
  return placed_;
}

void ClusterPlacer::carry_out(const Command& command) {
  GpcModel& model = models_[command.gpc];
  Reserved& reserved = reserved_[command.gpc];
  switch (command.act) {
    case Act::reserve:
      reserved.masks.push_back(model.masks());
      model.reserve();
      break;
    case Act::cancel:
      model.cancel();
      break;
    case Act::revert:
      model.revert();
      reserved.masks.resize(reserved.accepted);
      break;
    case Act::accept:
      model.accept();
      reserved.accepted = reserved.masks.size();
      break;
    case Act::query:
      session_.answer(command.gpc, model.query().answer);
      break;
  }
}

std::vector<std::uint16_t> ClusterPlacer::left() const {
  std::vector<std::uint16_t> result(topology_.sms());
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const GpcSlots left = models_[g].left();
    for (std::uint32_t bit = 0; bit < topology_.gpc(g).sms; ++bit) result[topology_.gpc(g).sm_ids[bit]] = left[bit];
  }
  return result;
}

}  // namespace heddle::cwd
