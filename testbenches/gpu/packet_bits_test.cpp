// Every member of every packet of the launch hardware: the fields that it has in the list of bits, or why it is no bits
// (CWD-44). A member that is added to a packet, or to what packets consist of, fails here until it says which.
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/packet_port.h"
#include "gpu/launch_packets.h"
#include "gpu/structure_bits.h"

namespace gpu_packet_bits_test {

using namespace heddle;
using namespace heddle::protocol;
using gpu::GpuParams;
using gpu::Structure;
using gpu::StructureKind;

namespace {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Becomes whatever is wanted; an optional from what is in it, as it would not know by which way otherwise.
struct Anything {
  template <class T, std::enable_if_t<!IsOptional<T>::value, int> = 0>
  operator T() const;  // NOLINT(google-explicit-constructor): it becomes any member
};

template <class T, class Void, class... Values>
struct CanHave : std::false_type {};
template <class T, class... Values>
struct CanHave<T, std::void_t<decltype(T{std::declval<Values>()...})>, Values...> : std::true_type {};

// Members of an aggregate; its base is one of them.
template <class T, class... Values>
constexpr std::size_t member_count() {
  static_assert(std::is_aggregate_v<T>);
  if constexpr (CanHave<T, void, Values..., Anything>::value) {
    return member_count<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

struct Base {
  std::uint8_t one = 0;
  std::optional<TaskSlot> two;
};
struct Derived : Base {
  std::array<std::uint64_t, 3> three{};
  struct Part {
    double x = 0;
  };
  std::optional<Part> four;
  enum class Kind { a, b } five = Kind::a;
};
static_assert(member_count<Base>() == 2);
static_assert(member_count<Derived>() == 4, "the base, and three of its own");

using Names = std::vector<std::string>;
// A member. `fields`: of the list that have its bits; none: `why`.
struct Row {
  const void* member = nullptr;
  Names fields;
  std::string why;
};

template <auto Member>
const void* tag_of() {
  static constexpr char kTag = 0;
  return &kTag;
}
template <auto Member>
Row in(Names fields) {
  return {tag_of<Member>(), std::move(fields), {}};
}
template <auto Member>
Row no_bits(const char* why) {
  return {tag_of<Member>(), {}, why};
}

using Rows = std::vector<Row>;

// The rows of T: all of its members, each once. What they have together.
template <class T>
Names all_of(const Rows& rows) {
  std::set<const void*> members;
  Names fields;
  for (const Row& row : rows) {
    CHECK(members.insert(row.member).second);
    CHECK(row.fields.empty() != row.why.empty());
    fields.insert(fields.end(), row.fields.begin(), row.fields.end());
  }
  CHECK(rows.size() == member_count<T>());
  return fields;
}
// A member, or a base, that consists of parts.
template <auto Member, class T>
Row parts(const Rows& rows) {
  const Names fields = all_of<T>(rows);
  return {tag_of<Member>(), fields, fields.empty() ? "none of its parts" : ""};
}
template <class T>
Row base(const Rows& rows) {
  const Names fields = all_of<T>(rows);
  return {packet_kind<T>(), fields, fields.empty() ? "none of its parts" : ""};
}

const char* const kByTask = "an attribute of the kernel: who needs it gets it by the number of the task";
const char* const kShown = "to observe, and to name it in messages";
const char* const kChecked = "the model checks by it";
const char* const kLinked = "how far the model sends it";

// Fields of what a CTA takes.
Names resources() {
  Names names;
  for (std::size_t i = 0; i < arch::kResources; ++i) names.emplace_back(arch::resource_name(arch::Resource(i)));
  return names;
}
Names extents(const std::string& of) { return {of + " x", of + " y", of + " z"}; }

// Of what is on its way to SMs.
Row launch_base() {
  return base<KernelLaunch>({no_bits<&KernelLaunch::need>(kByTask), no_bits<&KernelLaunch::duration>(kByTask),
                             no_bits<&KernelLaunch::code>(kByTask), no_bits<&KernelLaunch::subcontext>(kByTask),
                             no_bits<&KernelLaunch::priority>(kByTask), no_bits<&KernelLaunch::record>(kByTask),
                             no_bits<&KernelLaunch::area>(kByTask), no_bits<&KernelLaunch::local_bytes>(kByTask),
                             no_bits<&KernelLaunch::ahead>(kByTask), no_bits<&KernelLaunch::queue>(kByTask),
                             no_bits<&KernelLaunch::fence>(kByTask), no_bits<&KernelLaunch::departure>(kShown)});
}
Rows shape_rows() {
  const Names extents_and_levels = {"extents of the grid and of each level of its CGAs"};
  return {in<&arch::RasterShape::grid>(extents_and_levels),   in<&arch::RasterShape::nest>(extents_and_levels),
          in<&arch::RasterShape::levels>(extents_and_levels), no_bits<&arch::RasterShape::cga_level>(kByTask),
          no_bits<&arch::RasterShape::order>(kByTask),        in<&arch::RasterShape::size>({"size index"}),
          no_bits<&arch::RasterShape::sizes>(kByTask)};
}
const Names kCga = {"in a CGA", "gpc_local_cga_id"};
const Names kWide = {"wide barriers", "barrier of a wide CGA"};
Rows barrier_rows(const Names& fields) { return {in<&WideBarriers::ugpu>(fields), in<&WideBarriers::gpu>(fields)}; }

Rows waiting_rows() {
  all_of<WaitingTask>(
      {in<&WaitingTask::ctas>({"CTAs of their GPC_CGAs"}), no_bits<&WaitingTask::count>("no policy looks at it")});
  return {in<&WaitingWork::tasks>({"CTAs of their GPC_CGAs"}), in<&WaitingWork::count>({"waiting tasks"})};
}
template <auto Member>
Row tie() {
  return parts<Member, CutTie>({in<&CutTie::domain>({"cut tie", "last served"}),
                                in<&CutTie::speed>({"speed of the tie"}),
                                in<&CutTie::stands>({"nothing is free since"})});
}
// `sequence` and so on: what of the tag the receiver reads.
template <auto Member>
Row tag(const Row& slot, const Row& sequence, const Row& cga, const Row& tracked, const Row& barriers) {
  return parts<Member, CtaTag>({slot, no_bits<&CtaTag::operation>(kShown), sequence, cga, tracked, barriers});
}
Row tag_barriers() { return parts<&CtaTag::barriers, WideBarriers>(barrier_rows(kWide)); }

template <class Packet>
struct MembersOf;  // rows(): of every type of LaunchHardwarePackets

#define HEDDLE_MEMBERS(Packet) \
  template <>                  \
  struct MembersOf<Packet> {   \
    static Rows rows();        \
  };                           \
  Rows MembersOf<Packet>::rows()

// Task management and host.

Rows progress_rows() {
  return {in<&TaskProgress::next_cta>({"next CTA"}), in<&TaskProgress::size>({"size of the split CGA"}),
          in<&TaskProgress::order>({"number of its arrival"}), in<&TaskProgress::start>({"its start"})};
}
HEDDLE_MEMBERS(TaskPacket) {
  const char* const by_record = "part of the task's record, which who needs it reads";
  return {base<KernelLaunch>(
              {in<&KernelLaunch::need>(resources()), no_bits<&KernelLaunch::duration>("of kernels without a program"),
               no_bits<&KernelLaunch::code>(by_record), in<&KernelLaunch::subcontext>({"subcontext"}),
               in<&KernelLaunch::priority>({"priority"}), no_bits<&KernelLaunch::record>(by_record),
               no_bits<&KernelLaunch::area>(by_record), in<&KernelLaunch::local_bytes>({"local memory"}),
               no_bits<&KernelLaunch::ahead>(by_record), no_bits<&KernelLaunch::queue>("its kind says it"),
               no_bits<&KernelLaunch::fence>(by_record), no_bits<&KernelLaunch::departure>(kShown)}),
          in<&TaskPacket::operation>({"task"}),
          no_bits<&TaskPacket::depth>(by_record),
          no_bits<&TaskPacket::further>("where the states lie says so, one behind another"),
          in<&TaskPacket::grid>(extents("grid")),
          parts<&TaskPacket::cluster, arch::ClusterShape>(
              {in<&arch::ClusterShape::extents>(
                   {"CPC_CGA extents", "GPC_CGA extents", "uGPU_CGA extents", "GPU_CGA extents"}),
               in<&arch::ClusterShape::mode>({"mode"}), in<&arch::ClusterShape::fallback>({"smaller sizes"}),
               in<&arch::ClusterShape::linear_memory>({"linear memory"})}),
          parts<&TaskPacket::raster, arch::RasterOrder>({in<&arch::RasterOrder::kind>({"raster order"}),
                                                         in<&arch::RasterOrder::tile_x>({"tile of the order"}),
                                                         in<&arch::RasterOrder::tile_y>({"tile of the order"})}),
          in<&TaskPacket::cooperative>({"cooperative"}),
          in<&TaskPacket::kind>({"kind"}),
          in<&TaskPacket::resumed>({"resumed"}),
          in<&TaskPacket::runs_as>({"task of the CTA, restored"}),
          in<&TaskPacket::id>({"CTA id, restored"}),
          parts<&TaskPacket::progress, TaskProgress>(progress_rows()),
          in<&TaskPacket::anew>({"gone"})};
}
HEDDLE_MEMBERS(TaskDonePacket) {
  return {in<&TaskDonePacket::operation>({"task"}), in<&TaskDonePacket::start>({"start"}),
          in<&TaskDonePacket::end>({"end"}), in<&TaskDonePacket::rejected>({"rejected"}),
          in<&TaskDonePacket::faulted>({"faulted"})};
}
HEDDLE_MEMBERS(EvictPacket) { return {in<&EvictPacket::operation>({"task"})}; }
HEDDLE_MEMBERS(EvictedPacket) {
  return {in<&EvictedPacket::operation>({"task"}), in<&EvictedPacket::evicted>({"evicted"}),
          in<&EvictedPacket::remainder>({"remainder"}), parts<&EvictedPacket::progress, TaskProgress>(progress_rows()),
          in<&EvictedPacket::gone>({"gone"})};
}
HEDDLE_MEMBERS(GrowPacket) {
  return {in<&GrowPacket::operation>({"task"}), in<&GrowPacket::entries>({"entries"}), in<&GrowPacket::last>({"last"}),
          in<&GrowPacket::broken>({"broken"}), in<&GrowPacket::returned>({"CTA that comes back", "CTAs of a CGA"})};
}
HEDDLE_MEMBERS(IdlePacket) { return {in<&IdlePacket::operation>({"task"}), in<&IdlePacket::completed>({"entries"})}; }
HEDDLE_MEMBERS(SubcontextPacket) {
  return {in<&SubcontextPacket::what>({"what"}),
          in<&SubcontextPacket::mode>({"mode"}),
          in<&SubcontextPacket::subcontext>({"subcontext"}),
          in<&SubcontextPacket::gpc>({"GPC"}),
          in<&SubcontextPacket::tpc>({"TPC"}),
          in<&SubcontextPacket::value>({"value"})};
}
HEDDLE_MEMBERS(TpcEnablePacket) {
  return {in<&TpcEnablePacket::gpc>({"GPC"}), in<&TpcEnablePacket::tpc>({"TPC"}),
          in<&TpcEnablePacket::enabled>({"enabled"})};
}
HEDDLE_MEMBERS(OccupancyQueryPacket) {
  using arch::ClusterShape;
  return {in<&OccupancyQueryPacket::tag>({"warp slot"}),
          in<&OccupancyQueryPacket::need>(resources()),
          parts<&OccupancyQueryPacket::cluster, ClusterShape>(
              {in<&ClusterShape::extents>({"CTAs of each level"}), in<&ClusterShape::mode>({"mode"}),
               no_bits<&ClusterShape::fallback>("the size that is asked for is the only one"),
               in<&ClusterShape::linear_memory>({"linear memory"})}),
          in<&OccupancyQueryPacket::local_memory>({"local memory"}),
          in<&OccupancyQueryPacket::largest>({"largest as well"}),
          in<&OccupancyQueryPacket::subcontext>({"subcontext"})};
}
HEDDLE_MEMBERS(OccupancyAnswerPacket) {
  return {in<&OccupancyAnswerPacket::tag>({"warp slot"}), in<&OccupancyAnswerPacket::well_formed>({"well formed"}),
          in<&OccupancyAnswerPacket::active>({"CGAs"}), in<&OccupancyAnswerPacket::largest>({"largest"})};
}

// Inside the distributor.

HEDDLE_MEMBERS(SessionPacket) {
  return {no_bits<&SessionPacket::session>("one session decides at a time"),
          in<&SessionPacket::units>({"CGAs"}),
          in<&SessionPacket::single>({"level"}),
          in<&SessionPacket::ugpu_cgas>({"uGPU_CGAs"}),
          in<&SessionPacket::gpc_cgas>({"GPC_CGAs"}),
          no_bits<&SessionPacket::way>(kLinked),
          in<&SessionPacket::ctas>({"CTAs of a GPC_CGA"}),
          parts<&SessionPacket::waiting, WaitingWork>(waiting_rows()),
          tie<&SessionPacket::tie>()};
}
HEDDLE_MEMBERS(SnapshotPacket) {
  return {in<&SnapshotPacket::free>({"free slots"}),
          in<&SnapshotPacket::ctas>({"CTAs of a GPC_CGA"}),
          in<&SnapshotPacket::cpc_ctas>({"CTAs of a CPC_CGA"}),
          in<&SnapshotPacket::multicast>({"mode"}),
          no_bits<&SnapshotPacket::way>(kLinked),
          in<&SnapshotPacket::cgas>({"GPC_CGAs at most"}),
          parts<&SnapshotPacket::waiting, WaitingWork>(waiting_rows())};
}
HEDDLE_MEMBERS(MimicPacket) {
  return {in<&MimicPacket::reserve>({"orders"}), in<&MimicPacket::cancel>({"orders"}),
          in<&MimicPacket::revert>({"orders"}), in<&MimicPacket::accept>({"orders"}),
          in<&MimicPacket::query>({"orders"})};
}
HEDDLE_MEMBERS(AnswerPacket) {
  return {in<&AnswerPacket::valid>({"valid"}), in<&AnswerPacket::speed>({"speed"}), in<&AnswerPacket::free>({"free"})};
}
HEDDLE_MEMBERS(HomePacket) {
  return {in<&HomePacket::nth>({"nth"}), in<&HomePacket::order>({"order"}), in<&HomePacket::unit>({"outermost CGA"}),
          in<&HomePacket::last>({"last"})};
}
HEDDLE_MEMBERS(MaskPacket) {
  return {in<&MaskPacket::order>({"order"}),
          in<&MaskPacket::unit>({"outermost CGA"}),
          in<&MaskPacket::last>({"last"}),
          in<&MaskPacket::final>({"final"}),
          in<&MaskPacket::count>({"number of masks"}),
          in<&MaskPacket::masks>({"masks"})};
}
HEDDLE_MEMBERS(SessionEndPacket) {
  return {no_bits<&SessionEndPacket::session>(kChecked), in<&SessionEndPacket::units>({"CGAs placed"}),
          no_bits<&SessionEndPacket::cgas>(kChecked), no_bits<&SessionEndPacket::queries>("a statistic"),
          tie<&SessionEndPacket::tie>()};
}

// To the SMs.

HEDDLE_MEMBERS(LaunchPacket) {
  using Sync = LaunchPacket::Sync;
  const Names sync = {"late TPCs, coordinate, CTAs within the outermost CGA"};
  return {
      base<GridLaunch>(
          {launch_base(), parts<&GridLaunch::shape, arch::RasterShape>(shape_rows()), in<&GridLaunch::id>({"CTA id"})}),
      in<&LaunchPacket::slot>({"task id"}),
      no_bits<&LaunchPacket::operation>(kShown),
      in<&LaunchPacket::virtual_gpc>({"virtual GPC"}),
      in<&LaunchPacket::sm_mask>({"SM mask"}),
      in<&LaunchPacket::further_masks>({"further masks", "a further mask"}),
      in<&LaunchPacket::num_ctas>({"CTAs"}),
      in<&LaunchPacket::sequence>({"CGA sequence number"}),
      in<&LaunchPacket::last>({"flags"}),
      in<&LaunchPacket::begins>({"flags"}),
      no_bits<&LaunchPacket::cga_ctas>(kByTask),
      in<&LaunchPacket::cga_first>({"flags"}),
      in<&LaunchPacket::memory_slot>({"CGA memory slot"}),
      parts<&LaunchPacket::barriers, WideBarriers>(barrier_rows({"barrier of a wide CGA"})),
      parts<&LaunchPacket::sync, Sync>({in<&Sync::tpcs>(sync), in<&Sync::outermost>(sync), in<&Sync::within>(sync)}),
      no_bits<&LaunchPacket::listeners>("wires that are driven or not"),
      no_bits<&LaunchPacket::bits>("a statistic")};
}
HEDDLE_MEMBERS(LocalMemoryPacket) {
  return {in<&LocalMemoryPacket::virtual_gpc>({"GPC"}),
          in<&LocalMemoryPacket::tpc>({"TPC"}),
          in<&LocalMemoryPacket::subcontext>({"subcontext"}),
          in<&LocalMemoryPacket::block>({"block"}),
          no_bits<&LocalMemoryPacket::memory>("state of the subcontext, that SMs have with it"),
          no_bits<&LocalMemoryPacket::bits>("a statistic")};
}
HEDDLE_MEMBERS(AbortPacket) {
  return {in<&AbortPacket::operation>({"task slot"}), in<&AbortPacket::preemption>({"room"})};
}
HEDDLE_MEMBERS(PartPacket) {
  using arch::VirtualPart;
  return {in<&PartPacket::tpc>({"TPC"}),
          parts<&PartPacket::part, VirtualPart>(
              {in<&VirtualPart::sm>({"usable", "virtual SM"}), in<&VirtualPart::tpc>({"virtual TPC"}),
               in<&VirtualPart::cpc>({"virtual CPC"}), in<&VirtualPart::gpc>({"virtual GPC"}),
               in<&VirtualPart::ugpu>({"virtual uGPU"})})};
}
HEDDLE_MEMBERS(TpcLaunchPacket) {
  const char* const heard = "the MPC has heard it with the launch packet";
  const char* const follows = "the MPC's raster unit has it from what it has heard";
  return {base<GridLaunch>({launch_base(), no_bits<&GridLaunch::shape>(heard), no_bits<&GridLaunch::id>(heard)}),
          tag<&TpcLaunchPacket::tag>(no_bits<&CtaTag::slot>(heard), no_bits<&CtaTag::sequence>(heard),
                                     in<&CtaTag::cga_id>(kCga), no_bits<&CtaTag::tracked>(kByTask),
                                     no_bits<&CtaTag::barriers>(heard)),
          no_bits<&TpcLaunchPacket::sm_mask>(heard),
          parts<&TpcLaunchPacket::raster, RasterStep>(
              {no_bits<&RasterStep::fresh>(follows), no_bits<&RasterStep::told>(heard),
               no_bits<&RasterStep::overflows>(follows), no_bits<&RasterStep::delta>(follows),
               no_bits<&RasterStep::within>(follows)}),
          no_bits<&TpcLaunchPacket::entry_from>("when the broadcast of entries is free"),
          no_bits<&TpcLaunchPacket::cga_memory>(heard)};
}
HEDDLE_MEMBERS(CtaStartPacket) {
  using arch::CtaId;
  const char* const from_id = "follows from the id and the kernel's extents";
  return {launch_base(),
          tag<&CtaStartPacket::tag>(in<&CtaTag::slot>({"task slot"}), in<&CtaTag::sequence>({"CGA sequence number"}),
                                    in<&CtaTag::cga_id>(kCga), no_bits<&CtaTag::tracked>("for the MPC and the GPM"),
                                    tag_barriers()),
          in<&CtaStartPacket::cta_slot>({"CTA slot"}),
          no_bits<&CtaStartPacket::order>(kShown),
          parts<&CtaStartPacket::id, CtaId>({in<&CtaId::cta>(extents("CTA id")), no_bits<&CtaId::index>(from_id),
                                             no_bits<&CtaId::cga>(from_id), in<&CtaId::rank>({"cta_id_in_cga"}),
                                             no_bits<&CtaId::cga_size>(from_id), in<&CtaId::size>({"size index"})}),
          in<&CtaStartPacket::cga_memory>({"linear memory", "memory slot"})};
}
HEDDLE_MEMBERS(CtaEntryPacket) {
  return {in<&CtaEntryPacket::cga_id>({"gpc_local_cga_id"}),
          no_bits<&CtaEntryPacket::sequence>(kChecked),
          in<&CtaEntryPacket::rank>({"cta_id_in_cga"}),
          in<&CtaEntryPacket::ctas>({"CTAs"}),
          in<&CtaEntryPacket::tpc>({"tpc_id"}),
          in<&CtaEntryPacket::sm_in_tpc>({"sm_id_in_tpc"}),
          no_bits<&CtaEntryPacket::sm>("the same SM once more")};
}

// Back from the SMs.

HEDDLE_MEMBERS(CtaExitPacket) {
  return {no_bits<&CtaExitPacket::tag>("the MPC knows what is in the slot"),
          in<&CtaExitPacket::cta_slot>({"CTA slot"}),
          in<&CtaExitPacket::drained>({"drained"}),
          in<&CtaExitPacket::faulted>({"faulted"}),
          no_bits<&CtaExitPacket::rank>("the MPC knows what is in the slot"),
          in<&CtaExitPacket::released_shared_bytes>({"shared memory given back"}),
          in<&CtaExitPacket::preempted>({"preempted"})};
}
HEDDLE_MEMBERS(CtaCompletePacket) {
  return {tag<&CtaCompletePacket::tag>(in<&CtaTag::slot>({"task slot"}), in<&CtaTag::sequence>({"CGA sequence number"}),
                                       in<&CtaTag::cga_id>(kCga), in<&CtaTag::tracked>({"tracked"}), tag_barriers()),
          in<&CtaCompletePacket::sm_in_tpc>({"SM in TPC"}),
          in<&CtaCompletePacket::faulted>({"faulted"}),
          in<&CtaCompletePacket::rank>({"cta_id_in_cga"}),
          in<&CtaCompletePacket::released_shared_bytes>({"shared memory given back"}),
          in<&CtaCompletePacket::preempted>({"preempted"})};
}
HEDDLE_MEMBERS(ClusterNoticePacket) {
  return {in<&ClusterNoticePacket::kind>({"kind"}),
          tag<&ClusterNoticePacket::tag>(in<&CtaTag::slot>({"task slot"}),
                                         in<&CtaTag::sequence>({"CGA sequence number"}), in<&CtaTag::cga_id>(kCga),
                                         no_bits<&CtaTag::tracked>("for cta_complete"), tag_barriers()),
          in<&ClusterNoticePacket::rank>({"cta_id_in_cga"}),
          in<&ClusterNoticePacket::cta_slot>({"CTA slot"}),
          in<&ClusterNoticePacket::sm_in_tpc>({"SM in TPC"}),
          in<&ClusterNoticePacket::bytes>({"shared memory given back"}),
          in<&ClusterNoticePacket::level>({"level"}),
          in<&ClusterNoticePacket::faulted>({"faulted"}),
          in<&ClusterNoticePacket::waits>({"waits"}),
          in<&ClusterNoticePacket::area>({"where it was saved"}),
          in<&ClusterNoticePacket::context>({"where it was saved"}),
          no_bits<&ClusterNoticePacket::home>("the number of the SM"),
          in<&ClusterNoticePacket::phase>({"phase"})};
}
HEDDLE_MEMBERS(ClusterOrderPacket) {
  return {
      in<&ClusterOrderPacket::kind>({"kind"}),          in<&ClusterOrderPacket::cga_id>({"gpc_local_cga_id"}),
      in<&ClusterOrderPacket::cta_slot>({"CTA slot"}),  in<&ClusterOrderPacket::sequence>({"CGA sequence number"}),
      in<&ClusterOrderPacket::level>({"level"}),        in<&ClusterOrderPacket::barrier>({"barrier of a wide CGA"}),
      in<&ClusterOrderPacket::rank>({"cta_id_in_cga"}), in<&ClusterOrderPacket::members>({"where they were saved"})};
}
HEDDLE_MEMBERS(CompletePacket) {
  return {in<&CompletePacket::slot>({"task slot"}),
          in<&CompletePacket::sm_mask>({"SM mask"}),
          in<&CompletePacket::sequence>({"CGA sequence number"}),
          in<&CompletePacket::tracked>({"tracked"}),
          in<&CompletePacket::faulted>({"faulted"}),
          in<&CompletePacket::released_shared_bytes>({"shared memory given back"}),
          in<&CompletePacket::cga_slots>({"SMs with an sm_cga_slot more"}),
          in<&CompletePacket::preempted>({"preempted"})};
}
HEDDLE_MEMBERS(SharedReleasePacket) {
  return {in<&SharedReleasePacket::slot>({"task slot"}), in<&SharedReleasePacket::sm>({"SM in GPC"}),
          in<&SharedReleasePacket::bytes>({"shared memory"})};
}
HEDDLE_MEMBERS(CgaCompletePacket) {
  return {in<&CgaCompletePacket::slot>({"task slot"}), in<&CgaCompletePacket::sequence>({"CGA sequence number"})};
}
HEDDLE_MEMBERS(BarrierReportPacket) {
  return {in<&BarrierReportPacket::slot>({"barrier of a wide CGA"}),
          in<&BarrierReportPacket::sequence>({"CGA sequence number"}), in<&BarrierReportPacket::phase>({"phase"}),
          in<&BarrierReportPacket::arrived>({"CTAs that have arrived"}),
          in<&BarrierReportPacket::gone>({"CTAs that are gone"})};
}
HEDDLE_MEMBERS(BarrierReleasePacket) {
  return {in<&BarrierReleasePacket::slot>({"barrier of a wide CGA"}),
          in<&BarrierReleasePacket::sequence>({"CGA sequence number"}), in<&BarrierReleasePacket::phase>({"phase"})};
}

#undef HEDDLE_MEMBERS

std::set<std::string> field_names(const Structure& structure) {
  std::set<std::string> names;
  for (const gpu::BitField& field : structure.fields) names.insert(field.name);
  return names;
}

template <class Packet>
void check(const std::vector<Structure>& list, const char* type) {
  INFO(type);
  const Names fields = all_of<Packet>(MembersOf<Packet>::rows());
  std::size_t entries = 0;
  for (const Structure& structure : list) {
    if (structure.kind != StructureKind::packet || structure.writes.front().packet != packet_kind<Packet>()) continue;
    CAPTURE(structure.block, structure.name);
    ++entries;
    CHECK(field_names(structure) == std::set<std::string>(fields.begin(), fields.end()));
  }
  CHECK(entries == 1);
}

template <class... Packets>
void check_all(const std::vector<Structure>& list, std::tuple<Packets...>*) {
  (check<Packets>(list, typeid(Packets).name()), ...);
  // And no packet of the list is another.
  const std::set<PacketKind> kinds = {packet_kind<Packets>()...};
  CHECK(kinds.size() == sizeof...(Packets));
  for (const Structure& structure : list) {
    if (structure.kind != StructureKind::packet) continue;
    CAPTURE(structure.block, structure.name);
    CHECK((structure.writes.front().packet == nullptr || kinds.count(structure.writes.front().packet) == 1));
  }
}

}  // namespace

TEST_CASE("every member of a packet has its fields in the list, or a reason to have none", "[gpu][CWD-44][CWD-31]") {
  test::LaunchHardwarePackets* const packets = nullptr;
  check_all(structures_of(GpuParams()), packets);
}

}  // namespace gpu_packet_bits_test
