#include "copy/copy_engines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::copy {

using arch::HsaStatus;
using protocol::CopyDonePacket;
using protocol::CopyKind;
using protocol::CopyRequestPacket;

CopyEngines::CopyEngines(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                         const CopyParams& params, const arch::Instances& instances)
    : Block(name, domain, path),
      share_in("share_in", domain, 0),
      requests_in_(
          "request_in", kSenders,
          [&domain](const char* socket, std::size_t) { return new PacketIn<CopyRequestPacket>(socket, domain, 0); }),
      dones_out_("done_out", kSenders,
                 [&domain](const char* socket, std::size_t) {
                   return new PacketOut<CopyDonePacket>(socket, domain, 0, kUnlimitedCredits);
                 }),
      instances_(instances.count()),
      engine_instance_(params.engines),
      work_(idle_account(domain), IdleAccount::Work::copies),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  share_in.on_packet<CopyEngines, &CopyEngines::on_share>(*this);
  for (std::uint32_t i = 0; i < instances.count(); ++i) {
    for (const std::uint32_t engine : instances[i].copy_engines) engine_instance_.at(engine) = i + 1;
  }
  HEDDLE_CHECK(params.engines > 0 && params.outstanding > 0, "copy engines without an engine, or without a request");
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    requests_in_[sender].on_packet<CopyEngines, &CopyEngines::on_request>(*this, sender);
  }
  const CopyEngine::Shared shared{domain, pool_, *this, domain.observation().prefix + "." + path, handler_name()};
  for (std::uint32_t i = 0; i < params.engines; ++i) {
    engine_list_.push_back(std::make_unique<CopyEngine>(shared, i, params));
  }
}

PacketIn<CopyRequestPacket>& CopyEngines::request_in(std::uint32_t sender) { return requests_in_[sender]; }
PacketOut<CopyDonePacket>& CopyEngines::done_out(std::uint32_t sender) { return dones_out_[sender]; }
MemoryOut& CopyEngines::memory_out(std::uint32_t engine) { return engine_list_.at(engine)->memory_out; }

bool CopyEngines::idle() const {
  const auto busy = [](const auto& engine) { return engine->busy(); };
  return waiting_.empty() && std::none_of(engine_list_.begin(), engine_list_.end(), busy);
}

void CopyEngines::check_idle() { HEDDLE_CHECK(idle(), "a copy engine of an idle machine has work"); }

void CopyEngines::on_request(const CopyRequestPacket& request, std::uint32_t sender) {
  progress();
  const Refusal refusal = why_refused(request);
  if (request.bytes == 0 || refusal.status != HsaStatus::success) {
    stats_.of(request.kind).add();
    if (refusal.status != HsaStatus::success) {
      const bool write = request.kind == CopyKind::fill || refusal.address != request.from;
      note_fault({refusal.status, refusal.address, write, request.subcontext, sender, 0, false});
    }
    return answer(sender, {request.tag, refusal.status, refusal.address, now(), now()});
  }
  if (!has_engine(instance_of_.at(request.subcontext))) {  // all engines are instances'
    stats_.of(request.kind).add();
    note_fault({HsaStatus::error, request.to, true, request.subcontext, sender, 0, false});
    return answer(sender, {request.tag, HsaStatus::error, request.to, now(), now()});
  }
  waiting_.push({request, sender, now()});
  work_.add();
  give_out();
}

// A subcontext leaves an instance with the value 0. What waits goes to the engines that it may use now.
void CopyEngines::on_share(const protocol::SubcontextPacket& packet, std::uint32_t) {
  if (packet.what != protocol::SubcontextPacket::What::instance) return;
  const bool known = packet.subcontext < arch::kSubcontexts;
  if (!known || packet.value > instances_ || !has_engine(static_cast<std::uint32_t>(packet.value))) {
    if (on_refused_) on_refused_(packet, known ? protocol::ShareRefusal::value : protocol::ShareRefusal::subcontext);
    return;
  }
  instance_of_[packet.subcontext] = static_cast<std::uint32_t>(packet.value);
  give_out();
}

void CopyEngines::give_out() {
  for (std::uint32_t number = 0; number < engine_list_.size(); ++number) {
    const auto& engine = engine_list_[number];
    if (waiting_.empty()) return;
    if (engine->busy()) continue;
    std::size_t place = 0;
    while (place < waiting_.size() && !may_use(waiting_.at(place).request.subcontext, number)) ++place;
    if (place == waiting_.size()) continue;
    const Waiting next = waiting_.at(place);
    for (; place > 0; --place) waiting_.at(place) = waiting_.at(place - 1);
    (void)waiting_.pop();
    const double waited = domain_.clock().ns_for_cycles(static_cast<double>(now() - next.arrived));
    stats_.queue_time.add(static_cast<std::uint64_t>(std::llround(waited)));
    stats_.of(next.request.kind).add();
    engine->start(next.request, next.sender);
  }
}

void CopyEngines::note_fault(const CopyError& error) {
  stats_.errors.add();
  if (on_error_) on_error_(error);
}

void CopyEngines::ended(const EndedCopy& copy) {
  work_.remove();
  const CopyJob& job = copy.job;
  if (job.status() != HsaStatus::success) {
    note_fault({job.status(), job.failed_address(), job.failed_write(), job.request().subcontext, copy.sender,
                copy.engine, true});
  }
  answer(copy.sender, {job.request().tag, job.status(), job.failed_address(), copy.start, copy.end});
  give_out();
}

void CopyEngines::reset() {
  waiting_.clear();
  instance_of_.fill(0);
  for (const auto& engine : engine_list_) engine->reset();
}

void CopyEngines::collect_waits(WaitGraph& graph) const {
  for (const auto& engine : engine_list_) engine->collect_waits(graph);
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Waiting& waiting = waiting_.at(i);
    graph.add(fmt::format("a copy of {} bytes to {:#x}", waiting.request.bytes, waiting.request.to), "for",
              "a copy engine that is free");
  }
}

}  // namespace heddle::copy
