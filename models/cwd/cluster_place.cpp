#include "cwd/cluster_place.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

using arch::CgaLevel;
using arch::ClusterShape;

std::uint32_t wide_barriers(const ClusterShape& cluster, std::uint32_t size) {
  if (!cluster.any() || cluster.outermost() < CgaLevel::ugpu) return 0;
  if (cluster.outermost() == CgaLevel::ugpu || !cluster.has(CgaLevel::ugpu)) return 1;
  return 1 + static_cast<std::uint32_t>(cluster.size(size).count() / cluster.of(CgaLevel::ugpu).count());
}

SessionRequest request_for(const arch::ClusterShape& shape, std::uint32_t size_index, std::uint64_t units) {
  const auto size = [&](arch::CgaLevel level) {
    return level == shape.outermost() ? shape.size(size_index).count() : shape.of(level).count();
  };
  SessionRequest request;
  request.units = units;
  request.single = shape.outermost() == arch::CgaLevel::gpc;
  if (shape.has(arch::CgaLevel::gpc)) request.ctas = gpc_cga_shape_for(shape, size_index).ctas;
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
    : topology_(topology),
      policies_(policies),
      session_(ugpus_of(topology), gpc_priority, *policies.domain),
      reserved_(topology.gpcs()) {
  models_.reserve(topology.gpcs());
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    models_.emplace_back(topology, g, sm_priority, *policies.load_balancing, *policies.multicast, *policies.domain);
  }
}

const std::vector<ClusterPlacer::Placed>& ClusterPlacer::place(const std::vector<std::uint16_t>& slots,
                                                               const GpcCgaShape& shape, arch::CgaMode mode,
                                                               const std::vector<std::uint32_t>& cgas_per_gpc,
                                                               const SessionRequest& request) {
  policies_.reset();
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology_.gpc(g);
    GpcSlots free{};
    for (std::uint32_t bit = 0; bit < gpc.sms; ++bit) free[bit] = slots[gpc.sm_ids[bit]];
    models_[g].begin(free, shape, mode == arch::CgaMode::multicast, cgas_per_gpc[g]);
    reserved_[g] = {};
  }
  session_.begin(request);
  work_ = {};
  while (true) {
    const std::vector<Command>& commands = session_.step();
    work_.compare_levels += session_.ugpu_levels();
    if (commands.empty()) break;
    slowest_ = {};
    for (const Command& command : commands) carry_out(command);
    work_ += slowest_;
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
    case Act::query: {
      const GpcReply reply = model.query();
      slowest_.queries = 1;
      slowest_.steps = std::max({slowest_.steps, reply.steps, 1U});
      slowest_.prefix_levels = std::max(slowest_.prefix_levels, reply.prefix_levels);
      slowest_.compare_levels = session_.gpc_levels();
      session_.answer(command.gpc, reply.answer);
      break;
    }
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

GpcCapacity::GpcCapacity(const arch::Topology& topology, const CwdParams& params,
                         const std::vector<std::uint32_t>& sm_priority, const arch::ResourceVector& sm_capacity)
    : topology_(topology), capacity_(sm_capacity), policies_(params, sm_capacity[arch::Resource::ctas]) {
  models_.reserve(topology.gpcs());
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    models_.emplace_back(topology, g, sm_priority, *policies_.load_balancing, *policies_.multicast, *policies_.domain);
  }
}

void GpcCapacity::init(const protocol::TaskPacket& task, const LiveModel& live, GpcCgaRoom& room) {
  const ClusterShape& cluster = task.cluster;
  if (!cluster.has(CgaLevel::gpc)) return;
  const bool sized = cluster.outermost() == CgaLevel::gpc;
  room = GpcCgaRoom(topology_.gpcs(), sized ? cluster.sizes() : 1);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) update(task, live, g, room);
}

void GpcCapacity::update(const protocol::TaskPacket& task, const LiveModel& live, std::uint32_t gpc, GpcCgaRoom& room) {
  for (std::uint32_t size = 0; size < room.sizes(); ++size) room.set_most(size, gpc, most(task, size, live, gpc));
}

std::uint32_t GpcCapacity::most(const protocol::TaskPacket& task, std::uint32_t size, const LiveModel& live,
                                std::uint32_t gpc) {
  const arch::Topology::Gpc& its = topology_.gpc(gpc);
  const auto per_sm = static_cast<std::uint16_t>(arch::free_slots(capacity_, {}, task.need));
  GpcSlots free{};
  for (std::uint32_t bit = 0; bit < its.sms; ++bit) {
    if (live.enabled(live.tpc_of(its.sm_ids[bit]))) free[bit] = per_sm;
  }
  GpcModel& model = models_[gpc];
  const std::uint32_t all = its.sms * per_sm;
  policies_.reset();
  model.begin(free, gpc_cga_shape_for(task.cluster, size), task.cluster.mode == arch::CgaMode::multicast, all);
  while (model.query().answer.valid) model.reserve();
  return model.reserved();
}

WaitReason ClusterRoom::limit(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const {
  const ClusterShape& cluster = entry.task.cluster;
  const std::uint64_t full = entry.unit_ctas(0);
  const std::uint64_t ctas = entry.unit_ctas(size);
  std::uint64_t left = entry.left();
  if (entry.split()) {
    left = full - entry.placed % full;
  } else if (size > 0) {
    left = full;  // only as much as the one CGA that is being split
  }
  units = std::min(left / ctas, std::max<std::uint64_t>(1, session_limit_ / ctas));
  if (cluster.linear_memory) {
    units = std::min<std::uint64_t>(units, ledger_.memory_slots(entry.task.subcontext));
    if (units == 0) return WaitReason::memory_slot;
  }
  if (const std::uint32_t barriers = wide_barriers(cluster, size); barriers > 0) {
    units = std::min<std::uint64_t>(units, ledger_.gpu_barriers() / barriers);
    if (units == 0) return WaitReason::gpu_barrier;
  }
  return WaitReason::none;
}

std::uint32_t ClusterRoom::on_gpc(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const {
  return std::min(ledger_.gpc_cgas(gpc), entry.room.at(size, gpc));
}

ClusterRoom::Free ClusterRoom::free_on(std::uint32_t gpc, const std::vector<std::uint16_t>& slots) const {
  Free free;
  for (const std::uint32_t sm : topology_.gpc(gpc).sm_ids) {
    free.slots += slots[sm];
    free.sms += slots[sm] > 0 ? 1 : 0;
  }
  return free;
}

bool ClusterRoom::counters_allow(const TaskEntry& entry, std::uint32_t size) const {
  if (is_domain_wide(entry.task.cluster)) return true;
  const SessionRequest request = request_for(entry.task.cluster, size, 1);
  // GPC_CGAs by uGPU or, where no uGPU_CGA keeps them together, of the GPU.
  std::vector<std::uint64_t> left(request.ugpu_cgas > 0 ? topology_.ugpus() : 1, 0);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    left[request.ugpu_cgas > 0 ? topology_.ugpu_of(g) : 0] += on_gpc(entry, size, g);
  }
  std::uint64_t sets = 0;
  for (const std::uint64_t cgas : left) sets += cgas / request.gpc_cgas;
  return sets >= std::max(1U, request.ugpu_cgas);
}

WaitReason ClusterRoom::why_no_home(const TaskEntry& entry, std::uint32_t size,
                                    const std::vector<std::uint16_t>& slots) const {
  if (is_domain_wide(entry.task.cluster)) return WaitReason::free_slots;
  const std::uint64_t gpc_ctas = gpc_cga_shape_for(entry.task.cluster, size).ctas;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    if (on_gpc(entry, size, g) > 0 || free_on(g, slots).for_one(entry) < gpc_ctas) continue;
    if (ledger_.gpc_cgas(g) > 0) return WaitReason::flush;
    return ledger_.lacks_sm_slot(g) ? WaitReason::cga_slots : WaitReason::cga_ids;
  }
  return WaitReason::free_slots;
}

}  // namespace heddle::cwd
