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
      line_cycles_(arch::kLineBytes / params.bandwidth),
      stats_(domain_.observation().stats, fmt::format("{}.engine{}", shared.stats_path, number)) {
  memory_out.connect<CopyEngine, &CopyEngine::on_response, &CopyEngine::on_room>(*this);
}

void CopyEngine::start(const protocol::CopyRequestPacket& request, std::uint32_t sender) {
  if (!asked_ && heddle::has_calls(domain_.mode())) ranges_ = memory_out.ranges();
  asked_ = true;
  busy_ = true;
  held_until_ = freed_ = 0;
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
  const auto slot = static_cast<std::uint32_t>(argument);
  if (kind == kAnswer) return take_answer(slot);
  if (kind == kBack) return come_back(slot);
  if (kind == kRunEnd) return end_run(slot);
  if (kind == kEnd) return finish();
  if (armed_ != domain_.now()) return;  // an earlier one has been asked for since
  armed_ = kNever;
  pump();
}

// Data that have come go out first: they hold places. The pace counts every byte once, where it enters.
void CopyEngine::pump() {
  const Cycle now = domain_.now();
  while (busy_ && memory_out.can_send()) {
    if (held_until_ > now) return pump_at(held_until_);
    if (!to_write_.empty()) {
      write(to_write_.pop());
      continue;
    }
    if (!job_.more() || lines_ >= outstanding_) return;
    const Cycle when = std::max(pace_.earliest(now), start_ + set_up_);
    if (when > now) return pump_at(when);
    const std::uint32_t lines = lines_of_run();
    if (lines_ + lines > outstanding_) return;
    if (lines > 0 && begin_run(lines, now)) continue;
    const std::uint32_t slot = slots_.take();
    slots_[slot] = Slot();
    slots_[slot].piece = job_.next();
    ++lines_;
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
  if (slots_[slot].run != nullptr) return write_run(slot);
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
  if (bad) {
    job_.failed(s.piece, s.writes ? s.piece.to : s.piece.from, s.writes);
    while (!to_write_.empty()) {
      job_.ended();
      give_up(to_write_.pop());
    }
  }
  take_data(slot, !bad);
}

// The data of a read have come, or a line is written. After an error, what has been read goes nowhere.
void CopyEngine::take_data(std::uint32_t slot, bool good) {
  const Slot& s = slots_[slot];
  if (good && !s.writes && !job_.stopped()) {
    to_write_.push(slot);
    return pump();
  }
  if (good && s.writes) stats_.bytes.add(s.piece.bytes);
  if (good) job_.ended();
  give_up(slot);
  if (job_.over()) return domain_.now() < freed_ ? domain_.schedule(freed_, *this, kEnd) : finish();
  pump();
}

void CopyEngine::give_up(std::uint32_t slot) {
  Slot& s = slots_[slot];
  lines_ -= s.lines();
  if (s.run != nullptr) free_buffers_.push_back(s.run);
  if (s.payload != nullptr) s.payload->release();
  s.payload = nullptr;
  slots_.give_back(slot);
}

CopyEngine::Run* CopyEngine::take_buffer() {
  if (free_buffers_.empty()) {
    buffers_.push_back(std::make_unique<Run>());
    free_buffers_.push_back(buffers_.back().get());
  }
  Run* run = free_buffers_.back();
  free_buffers_.pop_back();
  return run;
}

// 0: the next piece is a line.
std::uint32_t CopyEngine::lines_of_run() const {
  if (!ranges_.offered()) return 0;
  return std::min(static_cast<std::uint32_t>(job_.run(kRunBytes) / arch::kLineBytes), outstanding_ / 2);
}

// False: memory does not move it as one.
bool CopyEngine::begin_run(std::uint32_t lines, Cycle now) {
  const CopyJob before = job_;
  const std::uint32_t slot = slots_.take();
  Slot& s = slots_[slot];
  s = Slot();
  s.run = take_buffer();
  s.piece = job_.take(std::uint64_t{lines} * arch::kLineBytes);
  s.range.last = std::max(freed_, now + static_cast<Cycle>((lines - 1) * line_cycles_));
  lines_ += lines;
  if (job_.is_fill()) fill_run(slot);
  if (!move(slot, job_.is_fill())) {
    job_ = before;
    give_up(slot);
    return false;
  }
  pace_.take(now, s.piece.bytes);
  return true;
}

void CopyEngine::fill_run(std::uint32_t slot) {
  Slot& s = slots_[slot];
  const std::uint32_t value = job_.request().value;
  s.range.zeros = value == 0;
  for (std::uint32_t at = 0; at < s.piece.bytes; ++at) (*s.run)[at] = static_cast<std::uint8_t>(value >> 8 * (at % 4));
}

bool CopyEngine::move(std::uint32_t slot, bool write) {
  Slot& s = slots_[slot];
  RangeMove range = s.range;
  range.address = write ? s.piece.to : s.piece.from;
  range.bytes = s.piece.bytes;
  range.write = write;
  range.subcontext = job_.request().subcontext;
  range.data = s.run->data();
  range.behind = (job_.is_fill() ? 1 : 2) * job_.left();
  range.first = domain_.now();
  range.last = std::max(range.first, range.last);
  if (!ranges_.move(range)) return false;
  s.writes = write;
  s.range = range;
  held_until_ = range.accepted;
  domain_.schedule(std::max(range.first, domain_.now()), *this, kBack, slot);
  return true;
}

void CopyEngine::write_run(std::uint32_t slot) {
  if (!move(slot, true)) split(slot);
}

// Each of its lines is written by itself, before others that have come.
void CopyEngine::split(std::uint32_t number) {
  const Piece piece = slots_[number].piece;
  Run* run = slots_[number].run;
  if (slots_[number].range.zeros) run->fill(0);
  const std::uint32_t lines = slots_[number].lines();
  job_.split(lines);
  Ring<std::uint32_t> others;
  while (!to_write_.empty()) others.push(to_write_.pop());
  for (std::uint32_t line = 0; line < lines; ++line) {
    const std::uint32_t offset = line * arch::kLineBytes;
    const std::uint32_t slot = slots_.take();
    slots_[slot] = Slot();
    slots_[slot].piece = {piece.from + offset, piece.to + offset, arch::kLineBytes};
    slots_[slot].payload = &pool_.acquire();
    std::memcpy(slots_[slot].payload->data.data(), run->data() + offset, arch::kLineBytes);
    to_write_.push(slot);
  }
  lines_ += lines;
  give_up(number);
  while (!others.empty()) to_write_.push(others.pop());
}

void CopyEngine::come_back(std::uint32_t slot) {
  RangeMove& range = slots_[slot].range;
  ranges_.come_back(range);
  if (range.first <= domain_.now()) return end_run(slot);
  domain_.schedule(range.first, *this, kRunEnd, slot);
}

void CopyEngine::end_run(std::uint32_t slot) {
  ++domain_.observation().progress;
  if (slots_[slot].writes) freed_ = std::max(freed_, slots_[slot].range.last);
  take_data(slot, true);
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
  slots_.for_each([this](const Slot& slot) {
    if (slot.payload != nullptr) slot.payload->release();
    if (slot.run != nullptr) free_buffers_.push_back(slot.run);
  });
  slots_.clear();
  to_write_.clear();
  job_ = CopyJob();
  pace_.reset();
  lines_ = 0;
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
