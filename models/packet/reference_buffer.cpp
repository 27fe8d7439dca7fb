#include "packet/reference_buffer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace heddle::packet {

using arch::HsaResult;
using arch::HsaStatus;
using Use = MemoryTag::Use;

namespace {

constexpr std::uint32_t kLines = kEntryBytes / arch::kLineBytes;
static_assert(kEntryBytes % arch::kLineBytes == 0 && kEntryHeadBytes <= arch::kLineBytes);

}  // namespace

ReferenceBuffer::ReferenceBuffer(const StageContext& context, const Neighbours& to, std::uint64_t base)
    : PipelineStage(context),
      to_(to),
      base_(base),
      tables_(params().table_owner == TableOwner::queue ? queues().count() : 1, Table(params(), on_chip())) {}

ReferenceBuffer::Table::Table(const PacketParams& params, bool on_chip)
    : entries(on_chip ? params.entries : 0),
      turns(on_chip ? 0 : params.entries),
      programs(on_chip ? 0 : params.entries) {}

// A table in memory that all queues share is emptied once, before it is used at all: who knows what lies there.
void ReferenceBuffer::open(std::uint32_t queue) {
  const std::uint32_t number = table_of(queue);
  Table& table = tables_[number];
  const bool own = params().table_owner == TableOwner::queue;
  if (on_chip()) {
    if (own) table.entries.clear();
    return;
  }
  if (!own && table.emptied) return;
  table.emptied = true;
  table.clearing += params().entries;  // some may be under way, if others of them have failed
  constexpr std::array<std::uint8_t, kEntryHeadBytes> kNothing{};
  MemoryTag tag{Use::table_clear, queue};
  tag.part = number;
  for (std::uint32_t entry = 0; entry < params().entries; ++entry) {
    memory().write_own(address(number, entry), kNothing.data(), kEntryHeadBytes, tag);
  }
}

void ReferenceBuffer::cleared(const MemoryAnswer& answer) {
  Table& table = tables_[answer.tag.part];
  --table.clearing;
  if (!answer.ok) {
    table.emptied = false;
    to_.supervisor.fail(answer.tag.queue, queues().setup(answer.tag.queue).first, 0,
                        {HsaStatus::error, arch::Reason::table_unwritable});
  }
  if (table.clearing > 0) return;
  if (table.emptied) {
    for (auto& programs : table.programs) programs.clear();
  }
  std::deque<std::uint32_t> waiting;
  std::swap(waiting, table.waiting);
  for (const std::uint32_t number : waiting) enter_memory(number);
}

void ReferenceBuffer::read(Packet& packet, std::uint32_t entry) {
  stats().table_reads.add();
  enter({Kind::read, packet.queue, packet.reference(), entry, {}});
}

void ReferenceBuffer::write(Packet& packet, std::uint32_t entry, const StoredKernel& kernel) {
  stats().table_writes.add();
  enter({Kind::write, packet.queue, packet.reference(), entry, kernel});
}

void ReferenceBuffer::read_scopes(std::uint32_t queue, std::uint32_t entry, std::uint64_t ticket) {
  stats().table_scopes.add();
  enter({Kind::scopes, queue, ticket, entry, {}});
}

void ReferenceBuffer::enter(Access access) {
  const std::uint32_t number = accesses_.take();
  Table& table = tables_[table_of(access.queue)];
  accesses_[number] = std::move(access);
  if (on_chip()) return enter_chip(number);
  if (table.clearing > 0) {
    table.waiting.push_back(number);
  } else {
    enter_memory(number);
  }
}

void ReferenceBuffer::enter_chip(std::uint32_t number) {
  const std::uint32_t bits = accesses_[number].kind == Kind::scopes ? 1 : kEntryBits;
  const Cycle taken = timebase().cost((bits + params().table_bits - 1) / params().table_bits);
  const Cycle begin = std::max(now(), port_free_);
  stats().table_wait.add(begin - now());
  port_free_ = begin + taken;
  later(port_free_ - now() + timebase().cost(params().table_latency), kDone, number);
}

void ReferenceBuffer::later(Cycle cycles, Event event, std::uint32_t number) {
  schedule(cycles, event, std::uint64_t{resets_} << 32 | number);
}

void ReferenceBuffer::enter_memory(std::uint32_t number) {
  const Access& access = accesses_[number];
  const std::uint32_t table = table_of(access.queue);
  if (!tables_[table].emptied) return later(0, kRefused, number);
  tables_[table].turns[access.entry].ask({number, access.kind == Kind::write});
  begin_next(table, access.entry);
}

void ReferenceBuffer::begin_next(std::uint32_t table, std::uint32_t entry) {
  EntryTurns& turns = tables_[table].turns[entry];
  while (const auto number = turns.begin()) {
    const Access& access = accesses_[*number];
    if (access.kind == Kind::scopes || packets().find(access.packet) != nullptr) {
      move_lines(*number);
    } else {  // its packet has been dropped while it waited
      accesses_.give_back(*number);
      turns.end();
    }
  }
}

void ReferenceBuffer::move_lines(std::uint32_t number) {
  Access& access = accesses_[number];
  const std::uint64_t at = address(table_of(access.queue), access.entry);
  const auto tag = [&](Use use, std::uint32_t line) {
    MemoryTag of_line{use, access.queue, number};
    of_line.part = line;
    return of_line;
  };
  if (access.kind == Kind::scopes) {
    access.missing = 1;
    memory().read_own(at, kEntryHeadBytes, tag(Use::table_read, 0));
    return;
  }
  access.missing = kLines;
  if (access.kind == Kind::write) access.bytes = encode_entry(access.entry, access.kernel);
  for (std::uint32_t line = 0; line < kLines; ++line) {
    const std::uint32_t offset = line * arch::kLineBytes;
    if (access.kind == Kind::read) {
      memory().read_own(at + offset, arch::kLineBytes, tag(Use::table_read, line));
    } else {
      memory().write_own(at + offset, access.bytes.data() + offset, arch::kLineBytes, tag(Use::table_write, line));
    }
  }
}

void ReferenceBuffer::on_answer(const MemoryAnswer& answer) {
  if (answer.tag.use == Use::table_clear) return cleared(answer);
  line_moved(answer);
}

void ReferenceBuffer::line_moved(const MemoryAnswer& answer) {
  Access& access = accesses_[answer.tag.slot];
  access.ok = access.ok && answer.ok;
  // Nobody looks at what this is for a write, or after an error.
  std::copy(answer.data.begin(), answer.data.end(),
            access.bytes.begin() + std::ptrdiff_t{arch::kLineBytes} * answer.tag.part);
  if (--access.missing > 0) return;
  const Access done = std::move(access);
  accesses_.give_back(answer.tag.slot);
  const std::uint32_t table = table_of(done.queue);
  if (done.kind == Kind::write) note_program(tables_[table], done);
  tables_[table].turns[done.entry].end();
  begin_next(table, done.entry);
  finish_memory(done);
}

void ReferenceBuffer::note_program(Table& table, const Access& written) {
  std::set<std::uint32_t>& programs = table.programs[written.entry];
  if (written.ok) programs.clear();
  if (written.kernel.object.program != arch::kNoCode) programs.insert(written.kernel.object.program);
}

void ReferenceBuffer::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (argument >> 32 != resets_) return;
  const auto number = static_cast<std::uint32_t>(argument);
  const Access done = std::move(accesses_[number]);
  accesses_.give_back(number);
  if (kind == kDone) return finish_chip(done);
  tell(done, {HsaStatus::error, arch::Reason::table_unwritable}, {});
}

void ReferenceBuffer::finish_chip(const Access& access) {
  ReferenceTable& table = tables_[table_of(access.queue)].entries;
  const bool there = table.valid(access.entry);
  if (access.kind == Kind::write) {
    if (packets().find(access.packet) != nullptr) table.store(access.entry, access.kernel);
    return tell(access, {}, access.kernel);
  }
  static const StoredKernel kNone;
  const HsaResult empty{HsaStatus::invalid_argument, arch::Reason::empty_entry};
  tell(access, there ? HsaResult{} : empty, there ? table.at(access.entry) : kNone);
}

void ReferenceBuffer::finish_memory(const Access& access) {
  if (access.kind == Kind::scopes) {
    StoredKernel head;
    head.fields.synch_scopes = access.ok ? scopes_of_entry(access.bytes) : std::uint8_t{0};
    return tell(access, {}, head);
  }
  if (!access.ok) {
    const bool read = access.kind == Kind::read;
    return tell(access, {HsaStatus::error, read ? arch::Reason::table_unreadable : arch::Reason::table_unwritable},
                access.kernel);
  }
  if (access.kind == Kind::write) return tell(access, {}, access.kernel);
  StoredKernel kernel;
  const HsaResult result = decode_entry(access.bytes, access.entry, to_.validator, kernel);
  tell(access, result, kernel);
}

void ReferenceBuffer::tell(const Access& access, const HsaResult& result, const StoredKernel& kernel) {
  if (access.kind == Kind::scopes) {
    return to_.scopes.scopes_read(access.queue, access.packet, kernel.fields.synch_scopes);
  }
  Packet* packet = packets().find(access.packet);
  if (packet == nullptr) return;  // it has been dropped in the meantime
  if (access.kind == Kind::read) {
    to_.entries.entry_read(*packet, access.entry, result, kernel);
  } else {
    to_.entries.entry_written(*packet, result.ok());
  }
}

void ReferenceBuffer::reset() {
  tables_.assign(tables_.size(), Table(params(), on_chip()));
  accesses_.clear();
  ++resets_;
  port_free_ = 0;
}

void ReferenceBuffer::mark_codes(std::set<std::uint32_t>& used) const {
  for (const Table& table : tables_) {
    table.entries.mark_codes(used);
    for (const auto& programs : table.programs) used.insert(programs.begin(), programs.end());
  }
  accesses_.for_each([&used](const Access& access) { used.insert(access.kernel.object.program); });
}

// Tables in memory are saved with it.
void ReferenceBuffer::save(StateWriter& to) const {
  to.number(tables_.size());
  for (const Table& table : tables_) {
    to.flag(table.emptied);
    for (const auto& programs : table.programs) {
      to.number(programs.size());
      for (const std::uint32_t program : programs) to.number(program);
    }
    std::uint32_t valid = 0;
    for (std::uint32_t entry = 0; entry < table.entries.size(); ++entry) valid += table.entries.valid(entry) ? 1 : 0;
    to.number(valid);
    for (std::uint32_t entry = 0; entry < table.entries.size(); ++entry) {
      if (!table.entries.valid(entry)) continue;
      const EntryBytes bytes = encode_entry(entry, table.entries.at(entry));
      to.number(entry);
      to.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
}

void ReferenceBuffer::restore(StateReader& from) {
  if (from.number() != tables_.size()) from.bad("another number of reference state tables");
  for (Table& table : tables_) {
    table.emptied = from.flag("whether a table has been emptied");
    for (auto& programs : table.programs) {
      programs.clear();
      for (std::uint64_t left = from.number(); left > 0; --left) {
        programs.insert(static_cast<std::uint32_t>(from.below(std::uint64_t{1} << 32, "an entry's program")));
      }
    }
    for (std::uint64_t left = from.below(table.entries.size() + std::uint64_t{1}, "the entries of a table"); left > 0;
         --left) {
      const auto entry = static_cast<std::uint32_t>(from.below(table.entries.size(), "an entry"));
      const std::string text = from.text(kEntryBytes, "the length of an entry");
      EntryBytes bytes{};
      std::copy(text.begin(), text.end(), bytes.begin());
      StoredKernel kernel;
      if (!decode_entry(bytes, entry, to_.validator, kernel).ok()) from.bad("an entry that nothing can have stored");
      table.entries.store(entry, kernel);
    }
  }
}

}  // namespace heddle::packet
