#include "host/memory_hub_parts.h"

#include <algorithm>
#include <utility>

#include "protocol/memory_request.h"

namespace heddle::host {

using arch::Translation;
using protocol::MemoryExtension;
using protocol::writes;

void HubFlush::add(std::uint32_t slot, protocol::MemoryAction action) {
  next_.push_back({slot, action});
  begin();
}

// What a slice forgets as the home of a line may have gone to its twin as a copy just before: copies are forgotten once
// all homes have done so.
void HubFlush::begin() {
  if (!current_.empty() || next_.empty()) return;
  const protocol::MemoryAction action = next_.front().action;
  const auto rest = std::stable_partition(next_.begin(), next_.end(), [&](const Ask& a) { return a.action == action; });
  current_.assign(next_.begin(), rest);
  next_.erase(next_.begin(), rest);
  status_ = tlm::TLM_OK_RESPONSE;
  rounds_ = copies_ && action == protocol::MemoryAction::invalidate ? 2 : 1;
  ask();
}

void HubFlush::ask() {
  --rounds_;
  open_ = static_cast<std::uint32_t>(slices_.size());
  parts_.resize(slices_.size());
  for (Part& part : parts_) {
    protocol::MemoryRequest& request = pool_.acquire();
    request.aim(tlm::TLM_IGNORE_COMMAND, 0, 1);
    request.extension.action = current_.front().action;
    part = {&request, false};
  }
  if (heddle::has_calls(domain_.mode())) {
    call();
  } else {
    send();
  }
}

void HubFlush::send() {
  for (std::uint32_t slice = 0; slice < parts_.size(); ++slice) {
    if (parts_[slice].sent || !slices_[slice]->can_send()) continue;
    parts_[slice].sent = true;
    slices_[slice]->send(*parts_[slice].request, domain_.now() + latency_);
  }
}

// All at the same time, and over with the last.
void HubFlush::call() {
  const sc_core::sc_time start = domain_.delay_until(domain_.now() + latency_);
  for (std::uint32_t slice = 0; slice < parts_.size(); ++slice) {
    parts_[slice].sent = true;
    sc_core::sc_time delay = start;
    slices_[slice]->blocking(*parts_[slice].request, delay);
    domain_.schedule(std::max(domain_.cycle_after(delay), domain_.now()), *this, 0, slice);
  }
}

bool HubFlush::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  if (slice >= parts_.size() || parts_[slice].request != &payload) return false;
  domain_.schedule(arrival, *this, 0, slice);
  return true;
}

// The answer of a slice.
void HubFlush::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  Part& part = parts_[static_cast<std::size_t>(argument)];
  protocol::MemoryRequest& request = *part.request;
  part.request = nullptr;
  if (!request.is_response_ok()) status_ = request.get_response_status();
  request.release();
  if (--open_ > 0) return;
  if (rounds_ > 0) return ask();
  for (const Ask& done : current_) listener_.on_flushed(done.slot, status_, domain_.now() + latency_);
  current_.clear();
  begin();
}

void HubFlush::reset() {
  for (const Part& part : parts_) {
    if (part.request != nullptr) part.request->release();
  }
  parts_.clear();
  current_.clear();
  next_.clear();
  open_ = rounds_ = 0;
  status_ = tlm::TLM_OK_RESPONSE;
}

HubTranslator::HubTranslator(Domain& domain, std::uint32_t clients, std::uint32_t distance, const Counters& counters,
                             std::function<void()> on_answer)
    : translate_out("translate_out", domain, distance, kUnlimitedCredits),
      translated_in("translated_in", domain, 0),
      invalidate_in("invalidate_in", domain, 0),
      counters_(counters),
      on_answer_(std::move(on_answer)),
      clients_(clients) {
  translated_in.on_packet<HubTranslator, &HubTranslator::on_translated>(*this);
  invalidate_in.on_packet<HubTranslator, &HubTranslator::on_invalidate>(*this);
}

HubTranslator::Looked HubTranslator::check(const Translation& page, std::uint64_t address, bool write) {
  if (page.allows(write)) return {Lookup::known, page.physical(address), true};
  counters_.faults.add();
  return {Lookup::denied, 0, page.present};
}

const Translation* HubTranslator::find(Client& client, std::uint8_t subcontext, std::uint64_t address) {
  const bool own = client.answer.has_value() && client.subcontext == subcontext;
  if (own && client.answer->covers(address)) return &*client.answer;
  for (const Page& page : pages_) {
    if (page.subcontext == subcontext && page.page.covers(address)) return &page.page;
  }
  return nullptr;
}

HubTranslator::Looked HubTranslator::look(std::uint32_t number, tlm::tlm_generic_payload& payload) {
  MemoryExtension* extension = protocol::extension_of(payload);
  const std::uint64_t address = payload.get_address();
  if (extension == nullptr || extension->physical) return {Lookup::known, address, true};
  const std::uint8_t subcontext = extension->subcontext;
  HEDDLE_CHECK(subcontext < arch::kSubcontexts, "a request of a subcontext that does not exist");
  if (bypass_[subcontext]) return {Lookup::known, address, true};
  Client& client = clients_[number];
  if (client.asked) return {};
  if (const Translation* page = find(client, subcontext, address)) {
    const Looked looked = check(*page, address, writes(payload, *extension));
    extension->unmapped = looked.lookup == Lookup::denied;
    if (!page->present) client.answer.reset();  // a fault is told once, and looked for again
    return looked;
  }
  counters_.asks.add();
  client.asked = true;
  client.subcontext = subcontext;
  client.page = address / arch::kSmallPage * arch::kSmallPage;
  client.answer.reset();
  protocol::TranslatePacket packet;
  packet.page = client.page;
  packet.subcontext = subcontext;
  packet.tag = number;
  translate_out.send(packet);
  return {};
}

bool HubTranslator::find(std::uint32_t client, RangeMove& range) {
  HEDDLE_CHECK(range.subcontext < arch::kSubcontexts, "a range of a subcontext that does not exist");
  if (bypass_[range.subcontext]) return true;
  if (clients_[client].asked) return false;
  const Translation* page = find(clients_[client], range.subcontext, range.address);
  if (page == nullptr || !page->covers(range.address + range.bytes - 1) || !page->allows(range.write)) return false;
  range.address = page->physical(range.address);
  return true;
}

void HubTranslator::on_translated(const protocol::TranslatedPacket& packet, std::uint32_t) {
  HEDDLE_CHECK(packet.tag < clients_.size() && clients_[packet.tag].asked, "a page that the hub has not asked for");
  Client& client = clients_[packet.tag];
  client.asked = false;
  const Translation page = packet.translation;
  if (page.untranslated()) {
    bypass_[client.subcontext] = true;
  } else {
    client.answer = page;
    if (page.present && pages_.size() < kKept) {
      pages_.push_back({client.subcontext, page});
    } else if (page.present) {
      pages_[next_++ % kKept] = {client.subcontext, page};
    }
  }
  on_answer_();
}

void HubTranslator::on_invalidate(const protocol::InvalidateTlbPacket& packet, std::uint32_t) {
  bypass_[packet.subcontext] = false;
  for (Client& client : clients_) {
    if (client.subcontext == packet.subcontext) client.answer.reset();
  }
  const auto concerned = [&](const Page& page) { return page.subcontext == packet.subcontext; };
  pages_.erase(std::remove_if(pages_.begin(), pages_.end(), concerned), pages_.end());
}

void HubTranslator::reset() {
  clients_.assign(clients_.size(), Client());
  bypass_.reset();
  pages_.clear();
  next_ = 0;
}

}  // namespace heddle::host
