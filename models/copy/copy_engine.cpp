#include "copy/copy_engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace heddle::copy {

using protocol::MemoryRequest;

CopyEngine::CopyEngine(CopyEngines& owner, std::uint32_t number, const CopyParams& params)
    : memory_out(fmt::format("memory_out_{}", number).c_str(), owner.domain_),
      owner_(owner),
      domain_(owner.domain_),
      number_(number),
      outstanding_(params.outstanding),
      set_up_(owner.domain_.cost(owner.domain_.clock().cycles_for_ns(params.set_up))),
      pace_(params.bandwidth),
      bytes_(owner.counter(fmt::format("engine{}.bytes", number), "bytes", "bytes moved or filled")),
      requests_(
          owner.counter(fmt::format("engine{}.requests", number), "requests", "copies and fills that have ended")),
      busy_cycles_(owner.counter(fmt::format("engine{}.busy", number), "cycles", "cycles with a copy or fill at work")),
      bandwidth_(owner.gauge(fmt::format("engine{}.bandwidth", number), "GB/s",
                             "bytes moved or filled per time at work, set-up included; after each request")) {
  memory_out.connect<CopyEngines, &CopyEngines::on_response, &CopyEngines::on_room>(owner, number);
}

void CopyEngine::take(const CopyEngines::Waiting& next) {
  busy_ = true;
  job_ = CopyJob(next.request);
  sender_ = next.sender;
  start_ = domain_.now();
  pump_at(start_ + set_up_);
}

void CopyEngine::pump_at(Cycle when) {
  when = std::max(when, domain_.now());
  if (armed_ <= when) return;
  armed_ = when;
  domain_.schedule(when, owner_, kPump, std::uint64_t{number_} << 32);
}

void CopyEngine::on_event(std::uint32_t kind, std::uint32_t slot) {
  if (kind == kAnswer) return take_answer(slot);
  if (armed_ != domain_.now()) return;  // an earlier one has been asked for since
  armed_ = kNever;
  pump();
}

// Data that have come go out first: they hold places. The pace counts every byte once, where it enters.
void CopyEngine::pump() {
  const Cycle now = domain_.now();
  while (busy_ && memory_out.can_send()) {
    if (!to_write_.empty()) {
      write(to_write_.pop());
      continue;
    }
    if (!job_.more() || job_.under_way() >= outstanding_) return;
    const Cycle when = std::max(pace_.earliest(now), start_ + set_up_);
    if (when > now) return pump_at(when);
    const std::uint32_t slot = free_slot();
    slots_[slot].piece = job_.next();
    pace_.take(now, slots_[slot].piece.bytes);
    if (job_.is_fill()) {
      fill(slot);
    } else {
      read(slot);
    }
  }
}

std::uint32_t CopyEngine::free_slot() {
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void CopyEngine::aim(std::uint32_t slot, bool write) {
  Slot& s = slots_[slot];
  s.payload = &owner_.pool_.acquire();
  s.payload->aim(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, write ? s.piece.to : s.piece.from,
                 s.piece.bytes);
  s.payload->extension.subcontext = job_.request().subcontext;
  s.payload->extension.entry = slot;
  s.writes = write;
}

void CopyEngine::read(std::uint32_t slot) {
  aim(slot, false);
  send(slot);
}

void CopyEngine::fill(std::uint32_t slot) {
  aim(slot, true);
  std::uint8_t* data = slots_[slot].payload->data.data();
  for (std::uint32_t at = 0; at < slots_[slot].piece.bytes; ++at) {
    data[at] = static_cast<std::uint8_t>(job_.request().value >> 8 * (at % 4));
  }
  send(slot);
}

void CopyEngine::write(std::uint32_t slot) {
  MemoryRequest& from = *slots_[slot].payload;
  aim(slot, true);
  std::memcpy(slots_[slot].payload->data.data(), from.data.data(), slots_[slot].piece.bytes);
  from.release();
  send(slot);
}

void CopyEngine::send(std::uint32_t slot) {
  slots_[slot].with_memory = true;
  (void)memory_out.send(*slots_[slot].payload, domain_.now());  // if it is not accepted, on_room() follows
}

bool CopyEngine::on_response(tlm::tlm_generic_payload& payload, Cycle arrival) {
  const auto* extension = protocol::extension_of(payload);
  const std::uint32_t slot = extension == nullptr ? ~std::uint32_t{0} : extension->entry;
  HEDDLE_CHECK(slot < slots_.size() && slots_[slot].payload == &payload && slots_[slot].with_memory,
               "memory answered what a copy engine had not asked for");
  slots_[slot].with_memory = false;
  domain_.schedule(arrival, owner_, kAnswer, std::uint64_t{number_} << 32 | slot);
  return true;
}

void CopyEngine::take_answer(std::uint32_t slot) {
  Slot& s = slots_[slot];
  owner_.progress();
  const bool bad = !s.payload->is_response_ok() || s.payload->extension.poisoned;
  if (!bad && !s.writes && !job_.stopped()) {
    to_write_.push(slot);
    return pump();
  }
  if (bad) {
    job_.failed(s.piece, s.writes ? s.piece.to : s.piece.from, s.writes);
    while (!to_write_.empty()) drop(to_write_.pop());
  } else {
    // After an error, what has been read goes nowhere.
    if (s.writes) bytes_.add(s.piece.bytes);
    job_.ended();
  }
  give_up(slot);
  if (job_.over()) return finish();
  pump();
}

void CopyEngine::drop(std::uint32_t slot) {
  job_.ended();
  give_up(slot);
}

void CopyEngine::give_up(std::uint32_t slot) {
  slots_[slot].payload->release();
  slots_[slot].payload = nullptr;
  free_.push_back(slot);
}

void CopyEngine::finish() {
  const Cycle end = domain_.now();
  requests_.add();
  busy_cycles_.add(end - start_);
  const double ns = domain_.clock().ns_for_cycles(static_cast<double>(busy_cycles_.value()));
  if (ns > 0) bandwidth_.set(static_cast<double>(bytes_.value()) / ns);
  if (owner_.timeline() != nullptr) draw(end);
  busy_ = false;
  if (job_.status() != arch::HsaStatus::success) {
    owner_.note_fault(
        {job_.status(), job_.failed_address(), job_.failed_write(), job_.request().subcontext, sender_, number_, true});
  }
  owner_.answer(sender_, {job_.request().tag, job_.status(), job_.failed_address(), start_, end});
  owner_.give_out();
}

std::string CopyEngine::title() const {
  return fmt::format("{} of {} bytes", job_.is_fill() ? "fill" : "copy", job_.request().bytes);
}

void CopyEngine::draw(Cycle end) const {
  const TrackId track =
      owner_.timeline()->track(domain_.observation().prefix + " copy engines", fmt::format("engine {}", number_));
  const Timebase& clock = domain_;
  const auto begin = clock.time_of(start_);
  const auto address = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const protocol::CopyRequestPacket& request = job_.request();
  owner_.timeline()->slice(track, begin, clock.time_of(end), title(),
                           {{"from", address(job_.is_fill() ? 0 : request.from)},
                            {"to", address(request.to)},
                            {"sender", sender_},
                            {"tag", request.tag},
                            {"status", static_cast<std::int64_t>(job_.status())}});
  if (set_up_ > 0) owner_.timeline()->slice(track, begin, clock.time_of(start_ + set_up_), "set-up");
}

// The memory hub is reset as well: it answers none of them, and does not look at them any more.
void CopyEngine::reset() {
  for (const Slot& slot : slots_) {
    if (slot.payload != nullptr) slot.payload->release();
  }
  slots_.clear();
  free_.clear();
  to_write_.clear();
  job_ = CopyJob();
  pace_.reset();
  busy_ = false;
  armed_ = kNever;
}

void CopyEngine::collect_waits(WaitGraph& graph) const {
  if (!busy_) return;
  const std::string who = fmt::format("copy engine {}: {}", number_, title());
  if (!memory_out.can_send()) {
    graph.add(who, "for room for its requests at", "the memory hub");
  } else if (job_.under_way() > 0) {
    graph.add(who, fmt::format("for {} answers of", job_.under_way()), "memory");
  }
}

}  // namespace heddle::copy
