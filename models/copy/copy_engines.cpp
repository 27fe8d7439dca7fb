#include "copy/copy_engines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heddle::copy {

using arch::HsaStatus;
using protocol::CopyDonePacket;
using protocol::CopyKind;
using protocol::CopyRequestPacket;

CopyEngines::CopyEngines(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                         const CopyParams& params)
    : Block(name, domain, path),
      requests_in_(
          "request_in", kSenders,
          [&domain](const char* socket, std::size_t) { return new PacketIn<CopyRequestPacket>(socket, domain, 0); }),
      dones_out_("done_out", kSenders,
                 [&domain](const char* socket, std::size_t) {
                   return new PacketOut<CopyDonePacket>(socket, domain, 0, kUnlimitedCredits);
                 }),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
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
  waiting_.push({request, sender, now()});
  give_out();
}

void CopyEngines::give_out() {
  for (const auto& engine : engine_list_) {
    if (waiting_.empty()) return;
    if (engine->busy()) continue;
    const Waiting next = waiting_.pop();
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
