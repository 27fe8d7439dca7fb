#include "memory/mmu.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/little_endian.h"

namespace heddle::memory {

using arch::PageWalk;
using arch::Translation;
using protocol::SubcontextPacket;

Mmu::Mmu(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const MmuParams& params,
         std::uint32_t clients)
    : Block(name, domain, path),
      ask_in("ask_in"),
      answer_out("answer_out", domain, params.distance, kUnlimitedCredits),
      invalidate_out("invalidate_out", domain, params.distance, kUnlimitedCredits),
      share_in("share_in", domain, 0),
      memory_out("memory_out", domain),
      params_(params),
      latency_(domain.cost(params.l2_tlb.latency)),
      tlb_(params.l2_tlb.entries, params.l2_tlb.ways),
      clients_(clients),
      memory_(domain, memory_out, *this, kAnswer, kSend, protocol::AddressSpace::physical),
      hits_(counter("hits", "requests", "asks for pages that were in the TLB")),
      misses_(counter("misses", "requests", "asks for pages that were not in the TLB")),
      merged_(counter("merged", "requests", "asks for pages that were being walked for")),
      walk_count_(counter("walks", "walks", "page table walks")),
      restarts_(counter("restarts", "walks", "walks that a change of the root has overtaken")),
      faults_(counter("faults", "walks", "walks that found no page")),
      invalidations_(counter("invalidations", "changes", "roots that were set")),
      walk_cycles_(histogram("walk_cycles", "cycles", "from a walk's first read to its result")),
      wait_cycles_(histogram("wait_cycles", "cycles", "that walks have waited for a walker")) {
  ask_in.init(clients, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::TranslatePacket>(socket, domain, 0);
  });
  for (std::uint32_t i = 0; i < clients; ++i) ask_in[i].on_packet<Mmu, &Mmu::on_ask>(*this, i);
  share_in.on_packet<Mmu, &Mmu::on_share>(*this);
}

Mmu::~Mmu() = default;

void Mmu::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kLookUp:
      return look_up(asks_.pop());
    case kAnswer:
      return take_entry(argument);
    default:
      return memory_.send();
  }
}

void Mmu::on_ask(const protocol::TranslatePacket& packet, std::uint32_t client) {
  HEDDLE_CHECK(packet.subcontext < arch::kSubcontexts, "a translation for a subcontext that does not exist");
  asks_.push({packet, client});
  domain_.schedule_in(latency_, *this, kLookUp);
}

// What is known is answered in the cycle in which it is looked up: an invalidation that comes later leaves later.
void Mmu::look_up(const Ask& ask) {
  const std::uint8_t subcontext = ask.packet.subcontext;
  if (roots_[subcontext] == 0) return answer(ask, arch::identity());
  if (const Translation* found = tlb_.find(subcontext, ask.packet.page)) {
    hits_.add();
    return answer(ask, *found);
  }
  misses_.add();
  const std::uint64_t page = ask.packet.page / arch::kSmallPage * arch::kSmallPage;
  const std::uint64_t key = key_of(subcontext, page);
  const auto [place, is_new] = walks_.try_emplace(key);
  Walk& walk = place->second;
  walk.asks.push_back(ask);
  if (!is_new) return merged_.add();
  walk.subcontext = subcontext;
  walk.since = now();
  queue_.push_back(key);
  start_walks();
}

void Mmu::start_walks() {
  while (running_ < params_.walkers && !queue_.empty()) {
    const std::uint64_t key = queue_.front();
    queue_.pop_front();
    Walk& walk = walks_.at(key);
    ++running_;
    walk.running = true;
    wait_cycles_.add(now() - walk.since);
    walk.since = now();
    begin(key, walk);
  }
}

void Mmu::begin(std::uint64_t key, Walk& walk) {
  const std::uint64_t root = roots_[walk.subcontext];
  walk.change = changes_[walk.subcontext];
  if (root == 0) return finish(key);  // it has gone meanwhile
  walk.steps = PageWalk(root, walk.asks.front().packet.page);
  go_on(key, walk);
}

void Mmu::go_on(std::uint64_t key, Walk& walk) {
  if (walk.steps.done()) return finish(key);
  memory_.read(walk.steps.wanted(), arch::kPageEntryBytes, walk.subcontext, key);
}

void Mmu::take_entry(std::uint64_t argument) {
  const auto entry = memory_.take(argument);
  Walk& walk = walks_.at(entry.tag);
  if (walk.change != changes_[walk.subcontext]) {
    restarts_.add();
    return begin(entry.tag, walk);
  }
  if (entry.ok) {
    walk.steps.feed(arch::get_64(entry.data, 0));
  } else {
    walk.steps.fail();
  }
  go_on(entry.tag, walk);
}

void Mmu::finish(std::uint64_t key) {
  const auto place = walks_.find(key);
  const Walk walk = std::move(place->second);
  walks_.erase(place);
  --running_;
  const bool translated = roots_[walk.subcontext] != 0;
  const Translation found = translated ? walk.steps.result() : arch::identity();
  if (translated) note_walk(walk.subcontext, found, now() - walk.since);
  for (const Ask& ask : walk.asks) answer(ask, found);
  progress();
  start_walks();
}

void Mmu::note_walk(std::uint8_t subcontext, const Translation& found, Cycle cycles) {
  walk_count_.add();
  walk_cycles_.add(cycles);
  if (found.present) {
    tlb_.insert(subcontext, found);
  } else {
    faults_.add();
  }
}

void Mmu::answer(const Ask& ask, const Translation& found) {
  protocol::TranslatedPacket packet;
  packet.tag = ask.packet.tag;
  packet.page = found.page;
  packet.frame = found.frame;
  packet.page_bits = found.page_bits;
  packet.present = found.present;
  packet.writable = found.writable;
  answer_out.send(packet, ask.client);
}

void Mmu::on_share(const SubcontextPacket& packet, std::uint32_t) {
  if (packet.what != SubcontextPacket::What::page_table) return;
  HEDDLE_CHECK(packet.subcontext < arch::kSubcontexts, "page tables for a subcontext that does not exist");
  invalidations_.add();
  roots_[packet.subcontext] = packet.value;
  ++changes_[packet.subcontext];
  tlb_.invalidate(packet.subcontext);
  protocol::InvalidateTlbPacket out;
  out.subcontext = packet.subcontext;
  for (std::uint32_t client = 0; client < clients_; ++client) invalidate_out.send(out, client);
}

Translation Mmu::translate_now(std::uint8_t subcontext, std::uint64_t address, sc_core::sc_time& delay) {
  HEDDLE_CHECK(subcontext < arch::kSubcontexts, "a translation for a subcontext that does not exist");
  if (roots_[subcontext] == 0) return arch::identity();
  if (const Translation* found = tlb_.find(subcontext, address)) {
    hits_.add();
    return *found;
  }
  misses_.add();
  const sc_core::sc_time start = delay;
  PageWalk walk(roots_[subcontext], address);
  while (!walk.done()) {
    protocol::MemoryRequest& request = pool_.acquire();
    request.aim(tlm::TLM_READ_COMMAND, walk.wanted(), arch::kPageEntryBytes);
    request.extension.physical = true;
    memory_out.blocking(request, delay);
    if (request.is_response_ok() && !request.extension.poisoned) {
      walk.feed(arch::get_64(request.data, 0));
    } else {
      walk.fail();
    }
    request.release();
  }
  note_walk(subcontext, walk.result(), domain_.cycle_after(delay) - domain_.cycle_after(start));
  return walk.result();
}

Translation Mmu::translate_debug(std::uint8_t subcontext, std::uint64_t address) {
  if (subcontext >= arch::kSubcontexts) return {};
  if (roots_[subcontext] == 0) return arch::identity();
  PageWalk walk(roots_[subcontext], address);
  while (!walk.done()) {
    protocol::MemoryRequest& request = pool_.acquire();
    request.aim(tlm::TLM_READ_COMMAND, walk.wanted(), arch::kPageEntryBytes);
    request.extension.physical = true;
    if (memory_out.debug(request) == arch::kPageEntryBytes) {
      walk.feed(arch::get_64(request.data, 0));
    } else {
      walk.fail();
    }
    request.release();
  }
  return walk.result();
}

void Mmu::reset() {
  tlb_.reset();
  roots_.fill(0);
  asks_.clear();
  walks_.clear();
  queue_.clear();
  running_ = 0;
  memory_.reset();
}

void Mmu::collect_waits(WaitGraph& graph) const {
  const std::string own = domain_.observation().prefix + "." + path();
  if (!queue_.empty()) graph.add(own + " queue", "for a walker of", own);
  if (running_ > 0) graph.add(own, fmt::format("for {} page table entries from", memory_.open()), "memory");
}

}  // namespace heddle::memory
