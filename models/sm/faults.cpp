#include "sm/faults.h"

#include <algorithm>

#include "common/error.h"
#include "sm/cluster_tables.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"

namespace heddle::sm {
namespace {

using arch::DsmemStatus;
using arch::FaultKind;

FaultKind fault_of(AccessFailure failure) {
  switch (failure) {
    case AccessFailure::outside:
      return FaultKind::shared_bounds;  // a copy found its destination released (CGA-09)
    case AccessFailure::poisoned:
      return FaultKind::poison;
    case AccessFailure::unmapped:
      return FaultKind::unmapped;
    case AccessFailure::read_only:
      return FaultKind::read_only;
    default:
      return FaultKind::address;
  }
}

bool names_target(FaultKind kind) {
  return kind == FaultKind::cluster_rank || kind == FaultKind::cluster_absent || kind == FaultKind::cluster_offset ||
         kind == FaultKind::cluster_domain;
}

}  // namespace

FaultKind fault_of(DsmemStatus status) {
  switch (status) {
    case DsmemStatus::out_of_range:
      return FaultKind::out_of_range;
    case DsmemStatus::poison:
      return FaultKind::poison;
    case DsmemStatus::mbarrier:
      return FaultKind::mbarrier;
    default:
      return FaultKind::cta_not_present;
  }
}

void Faults::reset() {
  failures_.clear();
  aborted_.clear();
}

arch::FaultRecord Faults::record_of(const Cta& cta, arch::FaultKind kind) const {
  const protocol::CtaStartPacket& start = cta.start;
  arch::FaultRecord record;
  record.kind = kind;
  record.task = cta.operation;
  record.sm = place_.id;
  record.subcontext = start.subcontext;
  record.gpc = place_.gpc;
  if (start.tag.in_cga()) record.gpc_local_cga_id = *start.tag.cga_id;
  record.cta_id_in_cga = start.id.rank;
  record.cga = start.id.cga;
  record.cta = start.id.index;
  record.cta_x = start.id.cta.x;
  record.cta_y = start.id.cta.y;
  record.cta_z = start.id.cta.z;
  return record;
}

arch::FaultRecord Faults::record_of(const Warp& warp, arch::FaultKind kind, std::uint32_t pc) const {
  arch::FaultRecord record = record_of(ctas_[warp.cta], kind);
  record.warp = warp.place.warp;
  arch::WarpState then = warp.state;
  then.pc = pc;
  record.where = warp.program->describe(then);
  return record;
}

void Faults::raise(std::uint32_t slot, arch::OpCode code, const IssueFault& wrong) {
  const Warp& warp = warps_[slot];
  arch::FaultRecord record = record_of(warp, wrong.kind, warp.issued_pc);
  record.lane = wrong.lane;
  record.operation = code;
  record.address = wrong.address;
  if (names_target(wrong.kind)) record.target = static_cast<std::uint32_t>(arch::dsmem_rank(wrong.address));
  record.cycle = now();
  stop(record, warp.cta);
}

void Faults::stop(const arch::FaultRecord& record, std::uint32_t cta_slot) {
  stats_.faults.add();
  control_.kill(cta_slot);
  if (sink_) sink_(record);
}

void Faults::note(const arch::FaultRecord& record) {
  stats_.faults.add();
  if (sink_) sink_(record);
}

void Faults::stop_later(const arch::FaultRecord& record, std::uint32_t cta_slot) { add({cta_slot, {}, 0, record}); }

void Faults::add(Failure failure) {
  const Cycle when = std::max(static_cast<Cycle>(failure.record.cycle), now());
  if (failure.cta) ++ctas_[*failure.cta].open;
  const std::uint32_t index = failures_.take();
  failures_[index] = std::move(failure);
  time_.schedule(when, *this, 0, index);
}

void Faults::on_event(std::uint32_t, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (failures_[index].cta && ctas_[*failures_[index].cta].stage == CtaStage::exit_permitted) {
    orphan(*failures_[index].cta);  // the distributor has heard that it ended well
  }
  const Failure failure = std::move(failures_[index]);
  failures_.give_back(index);
  if (!failure.cta) return trap(failure);
  Cta& cta = ctas_[*failure.cta];
  HEDDLE_CHECK(cta.here() && cta.open > 0, "a CTA ended before its failure");
  --cta.open;
  if (cta.killed() || aborted(cta.operation)) return control_.check_end(cta, now());
  stop(failure.record, *failure.cta);
}

void Faults::access_failed(const Access& access, arch::OpCode code, std::uint32_t lane, std::uint64_t address,
                           Cycle when) {
  arch::FaultRecord record = record_of(warps_[access.warp], fault_of(access.failure), access.pc);
  record.lane = lane;
  record.operation = code;
  record.address = address;
  record.write = access.writes();
  record.cycle = when;
  stop_later(record, access.cta);
}

// The pc of the access is still in its warp's FIFO of past pcs.
bool Faults::attributable(const Access& access) const {
  return warps_[access.warp].issued - access.issued < params_.memory.pc_fifo;
}

// The target has seen what is wrong. While the pc is in the FIFO, warp, thread and pc are known (CGA-07); then the
// fault is one of the CGA (CGA-08). A CTA of none has addressed itself.
void Faults::dsmem_failed(const Access& access, const ClusterError& error, Cycle when) {
  const Cta& cta = ctas_[access.cta];
  arch::FaultRecord record = record_of(warps_[access.warp], sm::fault_of(error.status), access.pc);
  record.operation = access.code;
  record.address = error.offset;
  record.target = error.rank;
  record.lane = error.lane;
  record.cycle = when;
  if (cta.in_cga()) {
    note_trap(*cta.start.tag.cga_id, cta.start.id.rank);
    if (attributable(access)) {
      record.address = arch::dsmem_address(error.rank, error.offset);
    } else {
      record.of_cga = true;
      record.warp = record.lane = 0;
      record.where.clear();
    }
  }
  stop_later(record, access.cta);
}

void Faults::note_trap(std::uint32_t cga_id, std::uint32_t cta_id) {
  registers_.trap_cga_id = cga_id;
  registers_.trap_cta_id = cta_id;
}

void Faults::orphan(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  failures_.for_each([&](Failure& failure) {
    if (failure.cta != cta_slot) return;
    failure.cta.reset();
    failure.cga_id = *cta.start.tag.cga_id;
    failure.sequence = cta.start.tag.sequence;
    --cta.open;
  });
}

void Faults::orphan_failed(const ClusterError& error, Cycle when) {
  if (cgas_.all().empty()) return stats_.dropped_errors.add();
  Failure failure;
  failure.cga_id = *error.cga_id;
  failure.sequence = error.sequence;
  arch::FaultRecord& record = failure.record;
  record.kind = sm::fault_of(error.status);
  record.sm = place_.id;
  record.address = error.offset;
  record.cycle = when;
  record.of_cga = true;
  record.gpc = place_.gpc;
  record.gpc_local_cga_id = *error.cga_id;
  record.target = error.rank;
  record.cta = error.from_cta;
  record.cta_id_in_cga = error.from_rank;
  add(std::move(failure));
}

// The CTA has gone. The distributor stops the task of its CGA; once that has gone too, none is left to be told.
void Faults::trap(const Failure& failure) {
  const ResidentCga* cga = cgas_.find(failure.cga_id, failure.sequence);
  if (cga == nullptr || cga->trapped || aborted(cga->tag.operation)) return stats_.dropped_errors.add();
  stats_.faults.add();
  arch::FaultRecord record = failure.record;
  record.task = cga->tag.operation;
  record.cga = cga->cga;
  cgas_.trap(failure.cga_id, record.cta_id_in_cga);
  note_trap(failure.cga_id, record.cta_id_in_cga);
  if (sink_) sink_(record);
}

void Faults::abort(std::uint32_t operation) {
  if (!aborted(operation)) aborted_.push_back(operation);
}

bool Faults::aborted(std::uint32_t operation) const {
  return std::find(aborted_.begin(), aborted_.end(), operation) != aborted_.end();
}

}  // namespace heddle::sm
