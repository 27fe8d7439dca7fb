#include "memory/mmu.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/byte_codec.h"

namespace heddle::memory {

using arch::PageWalk;
using arch::Translation;
using protocol::SubcontextPacket;

Mmu::Mmu(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const MmuParams& params,
         std::uint32_t clients)
    : Block(name, domain, path),
      translate_in("translate_in"),
      translated_out("translated_out", domain, params.distance, kUnlimitedCredits),
      invalidate_out("invalidate_out", domain, params.distance, kUnlimitedCredits),
      share_in("share_in", domain, 0),
      memory_out("memory_out", domain),
      params_(params),
      latency_(domain.cost(params.l2_tlb.latency)),
      tlb_(params.l2_tlb.entries, params.l2_tlb.ways),
      clients_(clients),
      memory_(domain, memory_out, *this, kAnswer, kSend, protocol::AddressSpace::physical),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  translate_in.init(clients, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::TranslatePacket>(socket, domain, 0);
  });
  for (std::uint32_t i = 0; i < clients; ++i) translate_in[i].on_packet<Mmu, &Mmu::on_request>(*this, i);
  share_in.on_packet<Mmu, &Mmu::on_share>(*this);
}

Mmu::~Mmu() = default;

void Mmu::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kLookUp:
      return look_up(requests_.pop());
    case kAnswer:
      return take_entry(argument);
    default:
      return memory_.send();
  }
}

void Mmu::on_request(const protocol::TranslatePacket& packet, std::uint32_t client) {
  HEDDLE_CHECK(packet.subcontext < arch::kSubcontexts, "a translation for a subcontext that does not exist");
  requests_.push({packet, client});
  domain_.schedule_in(latency_, *this, kLookUp);
}

// What is known is answered in the cycle in which it is looked up: an invalidation that comes later leaves later.
void Mmu::look_up(const Request& request) {
  const std::uint8_t subcontext = request.packet.subcontext;
  if (roots_[subcontext] == 0) return answer(request, arch::identity());
  if (const Translation* found = tlb_.find(subcontext, request.packet.page)) {
    stats_.hits.add();
    return answer(request, *found);
  }
  stats_.misses.add();
  const std::uint64_t page = request.packet.page / arch::kSmallPage * arch::kSmallPage;
  const std::uint64_t key = key_of(subcontext, page);
  const auto [place, is_new] = walks_.try_emplace(key);
  Walk& walk = place->second;
  walk.requests.push_back(request);
  if (!is_new) return stats_.merged.add();
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
    stats_.wait_cycles.add(now() - walk.since);
    walk.since = now();
    begin(key, walk);
  }
}

void Mmu::begin(std::uint64_t key, Walk& walk) {
  const std::uint64_t root = roots_[walk.subcontext];
  walk.change = changes_[walk.subcontext];
  if (root == 0) return finish(key);  // it has gone meanwhile
  walk.steps = PageWalk(root, walk.requests.front().packet.page);
  step(key, walk);
}

void Mmu::step(std::uint64_t key, Walk& walk) {
  if (walk.steps.done()) return finish(key);
  memory_.read(walk.steps.wanted(), arch::kPageEntryBytes, walk.subcontext, key);
}

void Mmu::take_entry(std::uint64_t argument) {
  const auto entry = memory_.take(argument);
  Walk& walk = walks_.at(entry.tag);
  if (walk.change != changes_[walk.subcontext]) {
    stats_.restarts.add();
    return begin(entry.tag, walk);
  }
  if (entry.ok) {
    walk.steps.feed(arch::get_64(entry.data, 0));
  } else {
    walk.steps.fail();
  }
  step(entry.tag, walk);
}

void Mmu::finish(std::uint64_t key) {
  const auto place = walks_.find(key);
  const Walk walk = std::move(place->second);
  walks_.erase(place);
  --running_;
  const bool translated = roots_[walk.subcontext] != 0;
  const Translation found = translated ? walk.steps.result() : arch::identity();
  if (translated) note_walk(walk.subcontext, found, now() - walk.since);
  for (const Request& request : walk.requests) answer(request, found);
  start_walks();
}

void Mmu::note_walk(std::uint8_t subcontext, const Translation& found, Cycle cycles) {
  stats_.walks.add();
  stats_.walk_cycles.add(cycles);
  if (found.present) {
    tlb_.insert(subcontext, found);
  } else {
    stats_.faults.add();
  }
}

void Mmu::answer(const Request& request, const Translation& found) {
  protocol::TranslatedPacket packet;
  packet.tag = request.packet.tag;
  packet.translation = found;
  translated_out.send(packet, request.client);
}

void Mmu::on_share(const SubcontextPacket& packet, std::uint32_t) {
  if (packet.what != SubcontextPacket::What::page_table) return;
  HEDDLE_CHECK(packet.subcontext < arch::kSubcontexts, "page tables for a subcontext that does not exist");
  stats_.invalidations.add();
  roots_[packet.subcontext] = packet.value;
  ++changes_[packet.subcontext];
  tlb_.invalidate(packet.subcontext);
  protocol::InvalidateTlbPacket out;
  out.subcontext = packet.subcontext;
  for (std::uint32_t client = 0; client < clients_; ++client) invalidate_out.send(out, client);
}

Translation Mmu::translate_blocking(std::uint8_t subcontext, std::uint64_t address, sc_core::sc_time& delay) {
  HEDDLE_CHECK(subcontext < arch::kSubcontexts, "a translation for a subcontext that does not exist");
  if (roots_[subcontext] == 0) return arch::identity();
  if (const Translation* found = tlb_.find(subcontext, address)) {
    stats_.hits.add();
    return *found;
  }
  stats_.misses.add();
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
  requests_.clear();
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
