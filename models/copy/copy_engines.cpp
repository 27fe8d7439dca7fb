#include "copy/copy_engines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "copy/copy_engine.h"
#include "copy/copy_job.h"

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
      copies_(counter("copies", "requests", "copies taken in hand")),
      fills_(counter("fills", "requests", "fills taken in hand")),
      errors_(counter("errors", "requests", "copies and fills that an error has ended")),
      queue_time_(histogram("queue_time", "ns", "from a request's arrival until an engine takes it")) {
  HEDDLE_CHECK(params.engines > 0 && params.outstanding > 0, "copy engines without an engine, or without a request");
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    requests_in_[sender].on_packet<CopyEngines, &CopyEngines::on_request>(*this, sender);
  }
  for (std::uint32_t i = 0; i < params.engines; ++i) {
    engine_list_.push_back(std::make_unique<CopyEngine>(*this, i, params));
  }
}

CopyEngines::~CopyEngines() = default;

PacketIn<CopyRequestPacket>& CopyEngines::request_in(std::uint32_t sender) { return requests_in_[sender]; }
PacketOut<CopyDonePacket>& CopyEngines::done_out(std::uint32_t sender) { return dones_out_[sender]; }
MemoryOut& CopyEngines::memory_out(std::uint32_t engine) { return engine_list_.at(engine)->memory_out; }

bool CopyEngines::idle() const {
  const auto busy = [](const auto& engine) { return engine->busy(); };
  return waiting_.empty() && std::none_of(engine_list_.begin(), engine_list_.end(), busy);
}

void CopyEngines::on_request(const CopyRequestPacket& request, std::uint32_t sender) {
  progress();
  const Refusal refusal = why_refused(request);
  if (request.bytes == 0 || refusal.status != HsaStatus::success) {
    (request.kind == CopyKind::copy ? copies_ : fills_).add();
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
    queue_time_.add(static_cast<std::uint64_t>(std::llround(waited)));
    (next.request.kind == CopyKind::copy ? copies_ : fills_).add();
    engine->take(next);
  }
}

void CopyEngines::note_fault(const CopyError& error) {
  errors_.add();
  if (on_error_) on_error_(error);
}

void CopyEngines::answer(std::uint32_t sender, const CopyDonePacket& done) { dones_out_[sender].send(done); }

bool CopyEngines::on_response(tlm::tlm_generic_payload& payload, std::uint32_t engine, Cycle arrival) {
  return engine_list_[engine]->on_response(payload, arrival);
}

void CopyEngines::on_room(std::uint32_t engine, Cycle when) { engine_list_[engine]->pump_at(when); }

void CopyEngines::on_event(std::uint32_t kind, std::uint64_t argument) {
  engine_list_[argument >> 32]->on_event(kind, static_cast<std::uint32_t>(argument));
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
