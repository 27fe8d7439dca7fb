#include "copy/copy_engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace heddle::copy {

using protocol::MemoryRequest;

CopyEngine::CopyEngine(const Shared& shared, std::uint32_t number, const CopyParams& params)
    : memory_out(fmt::format("memory_out_{}", number).c_str(), shared.domain),
      domain_(shared.domain),
      pool_(shared.pool),
      listener_(shared.listener),
      name_(shared.name),
      number_(number),
      outstanding_(params.outstanding),
      set_up_(domain_.cost(domain_.clock().cycles_for_ns(params.set_up))),
      pace_(params.bandwidth),
      stats_(domain_.observation().stats, fmt::format("{}.engine{}", shared.stats_path, number)) {
  memory_out.connect<CopyEngine, &CopyEngine::on_response, &CopyEngine::on_room>(*this);
}

void CopyEngine::start(const protocol::CopyRequestPacket& request, std::uint32_t sender) {
  busy_ = true;
  job_ = CopyJob(request);
  sender_ = sender;
  start_ = domain_.now();
  pump_at(start_ + set_up_);
}

void CopyEngine::pump_at(Cycle when) {
  when = std::max(when, domain_.now());
  if (armed_ <= when) return;
  armed_ = when;
  domain_.schedule(when, *this, kPump);
}

void CopyEngine::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kAnswer) return take_answer(static_cast<std::uint32_t>(argument));
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
    const std::uint32_t slot = slots_.take();
    slots_[slot].piece = job_.next();
    pace_.take(now, slots_[slot].piece.bytes);
    if (job_.is_fill()) {
      fill(slot);
    } else {
      read(slot);
    }
  }
}

void CopyEngine::aim(std::uint32_t slot, bool write) {
  Slot& s = slots_[slot];
  s.payload = &pool_.acquire();
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

bool CopyEngine::on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  const auto* extension = protocol::extension_of(payload);
  const std::uint32_t slot = extension == nullptr ? ~std::uint32_t{0} : extension->entry;
  HEDDLE_CHECK(slot < slots_.size() && slots_[slot].payload == &payload && slots_[slot].with_memory,
               "memory answered what a copy engine had not asked for");
  slots_[slot].with_memory = false;
  domain_.schedule(arrival, *this, kAnswer, slot);
  return true;
}

void CopyEngine::take_answer(std::uint32_t slot) {
  Slot& s = slots_[slot];
  ++domain_.observation().progress;
  const bool bad = !s.payload->is_response_ok() || s.payload->extension.poisoned;
  if (!bad && !s.writes && !job_.stopped()) {
    to_write_.push(slot);
    return pump();
  }
  if (bad) {
    job_.failed(s.piece, s.writes ? s.piece.to : s.piece.from, s.writes);
    while (!to_write_.empty()) {
      job_.ended();
      give_up(to_write_.pop());
    }
  } else {
    // After an error, what has been read goes nowhere.
    if (s.writes) stats_.bytes.add(s.piece.bytes);
    job_.ended();
  }
  give_up(slot);
  if (job_.over()) return finish();
  pump();
}

void CopyEngine::give_up(std::uint32_t slot) {
  slots_[slot].payload->release();
  slots_[slot].payload = nullptr;
  slots_.give_back(slot);
}

void CopyEngine::finish() {
  const Cycle end = domain_.now();
  stats_.requests.add();
  stats_.busy.add(end - start_);
  const double ns = domain_.clock().ns_for_cycles(static_cast<double>(stats_.busy.value()));
  if (ns > 0) stats_.bandwidth.set(static_cast<double>(stats_.bytes.value()) / ns);
  if (TimelineSink* sink = domain_.observation().timeline; sink != nullptr) draw(*sink, end);
  busy_ = false;
  const CopyJob job = job_;  // the listener may start another one
  listener_.ended({number_, sender_, job, start_, end});
}

std::string CopyEngine::title() const {
  return fmt::format("{} of {} bytes", job_.is_fill() ? "fill" : "copy", job_.request().bytes);
}

void CopyEngine::draw(TimelineSink& sink, Cycle end) const {
  const TrackId track = sink.track(domain_.observation().prefix + " copy engines", fmt::format("engine {}", number_));
  const Timebase& clock = domain_;
  const auto begin = clock.time_of(start_);
  const auto address = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const protocol::CopyRequestPacket& request = job_.request();
  sink.slice(track, begin, clock.time_of(end), title(),
             {{"from", address(job_.is_fill() ? 0 : request.from)},
              {"to", address(request.to)},
              {"sender", sender_},
              {"tag", request.tag},
              {"status", static_cast<std::int64_t>(job_.status())}});
  if (set_up_ > 0) sink.slice(track, begin, clock.time_of(start_ + set_up_), "set-up");
}

// The memory hub is reset as well: it answers none of them, and does not look at them any more.
void CopyEngine::reset() {
  slots_.for_each([](const Slot& slot) { slot.payload->release(); });
  slots_.clear();
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
