#include "memory/l2_functional_path.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/bits.h"

namespace heddle::memory {

// Memory with annotated delays. What an access asks of it begins at the same time; the access is over with the last
// part that it needs.
class L2FunctionalPath::TimedMemory final : public L2Memory {
 public:
  // `start`: when an access that asks memory does, or the twin.
  TimedMemory(Domain& domain, L2MemoryPort& port, L2Twin* twin, const sc_core::sc_time& start,
              const sc_core::sc_time& memory_delay, bool waits_for_writes)
      : domain_(domain),
        port_(port),
        twin_(twin),
        start_(start),
        memory_start_(start + memory_delay),
        end_(start),
        waits_for_writes_(waits_for_writes) {}

  int read(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, std::uint8_t* data) override {
    LineRead wanted;
    wanted.address = wanted.physical_address = line * arch::kLineBytes;
    wanted.sectors = static_cast<std::uint8_t>(SectorRun{first, sectors}.mask());
    wanted.physical = true;
    wanted.subcontext = whose;
    wanted.kernel = kernel;
    if (read_line(wanted)) {
      if (wanted.bytes == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
      copy_sectors(data, wanted.bytes, first, sectors);
      return kL2Ok;
    }
    sc_core::sc_time delay = is_copy(line) ? start_ : memory_start_;
    const int status = is_copy(line) ? twin_->way.fetch_blocking(line, {first, sectors}, data, delay)
                                     : port_.read_blocking(line, {first, sectors}, data, delay);
    wait_until(delay);
    return status;
  }
  int write(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, const std::uint8_t* data) override {
    sc_core::sc_time delay = memory_start_;
    const int status = port_.write_blocking(line, {first, sectors}, data, delay);
    if (waits_for_writes_) wait_until(delay);
    return status;
  }
  bool is_copy(std::uint64_t line) const override { return twin_ != nullptr && twin_->foreign(line); }
  bool used() const { return used_; }
  const sc_core::sc_time& end() const { return end_; }

  std::uint8_t whose = 0;    // who asks
  std::uint32_t kernel = 0;  // and for which kernel

 private:
  static void copy_sectors(std::uint8_t* to, const std::uint8_t* from, std::uint32_t first, std::uint32_t sectors) {
    if (sectors == arch::kSectorsPerLine) {
      std::memcpy(to, from, arch::kLineBytes);
      return;
    }
    for (std::uint32_t at = first * arch::kSectorBytes; sectors > 0; --sectors, at += arch::kSectorBytes) {
      std::memcpy(to + at, from + at, arch::kSectorBytes);
    }
  }
  // Without a payload, where that is possible.
  bool read_line(LineRead& read) {
    const bool copy = is_copy(read.address / arch::kLineBytes);
    const LinePort& lines = port_.lines();
    if (!copy && (!lines.offered() || !lines.find(read))) return false;
    read.when = std::max(domain_.cycle_after(copy ? start_ : memory_start_), domain_.now());
    if (copy) {
      if (!twin_->way.fetch_line(read)) return false;
    } else {
      lines.take(read);
    }
    wait_until(domain_.delay_until(read.when));
    return true;
  }
  void wait_until(const sc_core::sc_time& delay) {
    used_ = true;
    end_ = std::max(end_, delay);
  }

  Domain& domain_;
  L2MemoryPort& port_;
  L2Twin* twin_;
  sc_core::sc_time start_;
  sc_core::sc_time memory_start_;
  sc_core::sc_time end_;
  bool waits_for_writes_;
  bool used_ = false;
};

L2FunctionalPath::L2FunctionalPath(L2Core& core, L2MemoryPort& memory, const arch::AddressMap& map, std::uint32_t slice,
                                   const L2Params& params, Domain& domain, DirectMemory* direct, WriteWatch* watch,
                                   const Statistics& stats)
    : domain_(domain),
      core_(core),
      memory_(memory),
      turns_(params),
      map_(map),
      slice_(slice),
      direct_(direct),
      watch_(watch),
      stats_(stats),
      tag_cycles_(params.tag_latency),
      data_cycles_(params.data_latency),
      tag_delay_(domain.clock().period() * static_cast<double>(params.tag_latency)),
      data_delay_(domain.clock().period() * static_cast<double>(params.data_latency)),
      memory_delay_(domain.clock().period() * static_cast<double>(params.memory_latency)) {
  if (domain.mode() == TimingMode::fast) calendars_ = std::make_unique<L2Calendars>(params);
}

L2Calendars::L2Calendars(const L2Params&) : port_(kParts), way_in_(kParts) {}

Cycle L2Calendars::take(const L2DataPort::Turn& turn, Cycle when) {
  if (turn.walk > 0) {
    Cycle at = when;
    for (Cycle left = turn.port; left > 0;) {
      const Cycle part = std::min<Cycle>(left, ReservedLink::kWindow);
      at = port_.take(at, static_cast<std::uint32_t>(part * kParts)) + part;
      left -= part;
    }
    return at;
  }
  const Cycle begin = port_.take(when, static_cast<std::uint32_t>(turn.port * kParts));
  if (turn.writing == 0) return begin;
  return way_in_.take(begin, static_cast<std::uint32_t>(turn.writing * kParts));
}

void L2Calendars::reset() {
  fills.reset();
  port_.reset();
  way_in_.reset();
}

// The access begins at the tags, and if it has to wait for memory, or for what others have asked of it, it takes the
// port once more when that has come.
Cycle L2FunctionalPath::take_turn(std::uint64_t line, const L2DataPort::Turn& turn, Cycle tags, bool from_memory,
                                  Cycle wanted) {
  Cycle when = wanted;
  if (from_memory) {
    calendars_->fills.note(line, when);
  } else {
    when = calendars_->fills.ready(line, when);
  }
  if (from_memory || when > wanted) calendars_->take({}, tags);
  return calendars_->take(turn, when);
}

void L2FunctionalPath::take_turn(const L2Access& access, const sc_core::sc_time& tags, bool from_memory,
                                 sc_core::sc_time& delay) {
  const Cycle now = domain_.now();
  const Cycle wanted = std::max(domain_.cycle_after(delay), now);
  const Cycle when =
      take_turn(access.line, turns_.turn_of(access), std::max(domain_.cycle_after(tags), now), from_memory, wanted);
  if (when > wanted) delay = domain_.delay_until(when);
}

bool L2FunctionalPath::blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) {
  stats_.requests.add();
  L2Access access;
  tlm::tlm_response_status status = decode(payload, map_, access);
  if (access.copies() && core_.poisoned(access.line, kAllSectors)) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  const bool served = status == tlm::TLM_OK_RESPONSE;
  if (twin_ == nullptr || twin_->counts(access)) stats_.core.count_request(access, served);
  delay += tag_delay_;
  const sc_core::sc_time tags = delay;
  if (served) {
    end_grant(direct_, access);
    note_watch(access);
    if (twin_ != nullptr && twin_->blocking(access, payload, port, delay)) return true;
    if (changes_values(access.kind)) {
      stats_.atomics.add(values_of(access));
      stats_.core.charge_atomic(access, turns_.atomic_rate());
    }
    TimedMemory memory(domain_, memory_, twin_, delay, memory_delay_, access.kind == L2Access::Kind::write_back);
    memory.whose = access.owner();
    memory.kernel = access.kernel();
    status = static_cast<tlm::tlm_response_status>(core_.serve_blocking(access, memory));
    if (memory.used() && access.kind != L2Access::Kind::prefetch) delay = memory.end();
    if (twin_ != nullptr && status != tlm::TLM_OK_RESPONSE && twin_->asks_home_blocking(access, payload, delay))
      return true;
    if (calendars_ != nullptr) take_turn(access, tags, memory.used() && access.kind != L2Access::Kind::prefetch, delay);
    if (twin_ != nullptr) twin_->took_effect(access, port, delay);
    if (memory.used() && memory.is_copy(access.line)) delay -= data_delay_;  // what comes goes on as it comes
  }
  delay += data_delay_;
  payload.set_response_status(status);
  return served;
}

bool L2FunctionalPath::find(LineRead& read, std::uint32_t) {
  if (!map_.contains(read.physical_address, arch::kLineBytes) || core_.has_poison()) return false;
  if (twin_ != nullptr && !twin_->settled()) return false;
  const std::uint64_t line = read.physical_address / arch::kLineBytes;
  const L2Array& array = core_.array();
  if (read.at.index == L2Array::kNone || !array.is_at(read.at.index, line)) read.at.index = array.find(line);
  const bool here = read.at.index != L2Array::kNone;
  if (here && array.state(read.at.index).mshr != 0) return false;
  if (here && array.state(read.at.index).holds(read.sectors)) return true;
  read.at.index = L2Array::kNone;
  return core_.idle() && (twin_ == nullptr || !twin_->foreign(line) || can_fetch(read));
}

// A copy that the twin gives in the same way. What it knows of the line goes with another read.
bool L2FunctionalPath::can_fetch(LineRead& read) {
  LineRead copy = read;
  copy.at = {};
  return twin_->way.has_line(copy);
}

void L2FunctionalPath::take(LineRead& read, std::uint32_t port) {
  const bool copies = port == L2Ingress::kTwin;
  stats_.requests.add();
  if (!copies) stats_.core.count_request(read.subcontext, read.kernel, bits::count4(read.sectors));
  const std::uint64_t line = read.physical_address / arch::kLineBytes;
  if (direct_ != nullptr && direct_->any()) direct_->end(line * arch::kLineBytes, arch::kLineBytes);
  if (copies) twin_->give(line);
  if (read.at.index == L2Array::kNone) return fetch(read);
  if (twin_ != nullptr && twin_->foreign(line)) twin_->count_hit();
  read.bytes =
      core_.read_line(read.at.index, read.subcontext, read.kernel, static_cast<arch::EvictionPriority>(read.priority));
  Cycle when = read.when + tag_cycles_;
  if (calendars_ != nullptr) when = take_turn(line, turns_.turn_of_read(bits::count4(read.sectors)), when, false, when);
  read.when = when + data_cycles_;
}

// What it lacks comes from memory, whose calls begin now at the earliest. A read that began before has waited for
// nothing but its turn here: what memory takes counts from its own time.
void L2FunctionalPath::fetch(LineRead& read) {
  const Cycle tags = read.when + tag_cycles_;
  const Cycle late = domain_.now() - std::min(domain_.now(), tags);
  L2Access access;
  access.length = arch::kLineBytes;
  access.line = read.physical_address / arch::kLineBytes;
  access.bytes = LineMask::sectors(read.sectors);
  access.dense = true;
  access.data = image_.data();
  note_.subcontext = read.subcontext;
  note_.kernel = read.kernel;
  note_.priority = static_cast<arch::EvictionPriority>(read.priority);
  note_.promoted = read.promoted;
  access.extension = &note_;
  TimedMemory memory(domain_, memory_, twin_, domain_.delay_until(tags + late), memory_delay_, false);
  memory.whose = read.subcontext;
  memory.kernel = read.kernel;
  const int status = core_.serve_blocking(access, memory);
  Cycle when = tags;
  if (memory.used()) when = std::max(when, domain_.cycle_after(memory.end()) - late);
  if (calendars_ != nullptr) {
    when = take_turn(access.line, turns_.turn_of_read(bits::count4(read.sectors)), tags, memory.used(), when);
  }
  // What comes from the twin goes on as it comes.
  read.when = when + (memory.used() && memory.is_copy(access.line) ? 0 : data_cycles_);
  read.bytes = status == kL2Ok ? image_.data() : nullptr;
}

void L2FunctionalPath::warm(LineRead& read, std::uint32_t, bool line) const {
  const std::uint64_t number = read.physical_address / arch::kLineBytes;
  if (!line) return core_.array().warm_tags(number);
  read.at.index = core_.array().find(number);
  if (read.at.index != L2Array::kNone) return core_.array().warm_place(read.at.index);
  core_.array().warm_set(number);
  memory_.warm(read);
}

unsigned L2FunctionalPath::debug(tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = payload.get_address();
  const auto rest = static_cast<std::uint32_t>(arch::kLineBytes - address % arch::kLineBytes);
  const std::uint32_t bytes = std::min<std::uint32_t>(payload.get_data_length(), rest);
  if (bytes == 0 || payload.get_data_ptr() == nullptr || payload.get_command() == tlm::TLM_IGNORE_COMMAND) return 0;
  if (!map_.contains(address, bytes)) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return 0;
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  return payload.is_read() ? debug_read(payload, bytes) : debug_write(payload, bytes);
}

unsigned L2FunctionalPath::debug_read(tlm::tlm_generic_payload& payload, std::uint32_t bytes) {
  const std::uint64_t address = payload.get_address();
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  std::array<std::uint8_t, arch::kLineBytes> image{};
  std::uint32_t done = memory_.debug(tlm::TLM_READ_COMMAND, address, bytes, image.data());
  const LineMask newer = core_.overlay(address / arch::kLineBytes, image.data());
  while (done < bytes && newer.test(offset + done)) ++done;
  std::copy_n(image.data() + offset, done, payload.get_data_ptr());
  return done;
}

// In memory, and wherever the slice has a copy: also where one is on its way to or from memory.
unsigned L2FunctionalPath::debug_write(tlm::tlm_generic_payload& payload, std::uint32_t bytes) {
  const std::uint64_t address = payload.get_address();
  const std::uint64_t line = address / arch::kLineBytes;
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  const LineMask range = LineMask::range(offset, bytes);
  std::array<std::uint8_t, arch::kLineBytes> image{};
  std::copy_n(payload.get_data_ptr(), bytes, image.data() + offset);
  const std::uint32_t done = memory_.debug(tlm::TLM_WRITE_COMMAND, address, bytes, image.data());
  if (watch_ != nullptr) watch_->written(line, line);
  const bool kept = core_.poke(line, image.data(), range, done == bytes);
  if (kept) memory_.poke(line, image.data(), range);
  if (twin_ != nullptr) twin_->take_away_now(line);
  return kept ? bytes : done;
}

bool L2FunctionalPath::busy_with(std::uint64_t first, std::uint64_t last) const {
  for (std::uint64_t line = first / arch::kLineBytes; line <= last / arch::kLineBytes; ++line) {
    if ((is_mine(line) || twin_ != nullptr) && core_.busy_with(line)) return true;
  }
  return false;
}

bool L2FunctionalPath::clean_invalidate(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> lines;
  for (std::uint64_t line = first / arch::kLineBytes; line <= last / arch::kLineBytes; ++line) {
    if (!is_mine(line) && twin_ == nullptr) continue;
    if (is_mine(line) && !clean(line)) return false;
    lines.push_back(line);
  }
  for (const std::uint64_t line : lines) core_.forget(line);
  if (watch_ != nullptr) watch_->written(first / arch::kLineBytes, last / arch::kLineBytes);
  return true;
}

// Run by run, since the debug transport has no byte enables.
bool L2FunctionalPath::clean(std::uint64_t line) {
  LineMask bytes;
  const std::uint8_t* data = core_.newer(line, bytes);
  if (data == nullptr) return true;
  std::array<std::uint8_t, arch::kLineBytes> image{};
  std::copy_n(data, arch::kLineBytes, image.begin());
  for (std::uint32_t begin = 0; begin < arch::kLineBytes;) {
    std::uint32_t end = begin;
    while (end < arch::kLineBytes && bytes.test(end)) ++end;
    if (end > begin) {
      const std::uint32_t done =
          memory_.debug(tlm::TLM_WRITE_COMMAND, line * arch::kLineBytes + begin, end - begin, image.data());
      if (done != end - begin) return false;
    }
    begin = end + 1;
  }
  return true;
}

}  // namespace heddle::memory
