#include "host/memory_hub_translation.h"

#include <algorithm>
#include <utility>

#include "protocol/memory_request.h"

namespace heddle::host {
namespace {

using arch::Translation;
using protocol::MemoryExtension;
using protocol::writes;

}  // namespace

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
  const bool all = packet.subcontext >= arch::kSubcontexts;
  const auto concerned = [&](std::uint8_t subcontext) { return all || subcontext == packet.subcontext; };
  if (all) {
    bypass_.reset();
  } else {
    bypass_[packet.subcontext] = false;
  }
  for (Client& client : clients_) {
    if (concerned(client.subcontext)) client.answer.reset();
  }
  pages_.erase(
      std::remove_if(pages_.begin(), pages_.end(), [&](const Page& page) { return concerned(page.subcontext); }),
      pages_.end());
}

void HubTranslator::reset() {
  clients_.assign(clients_.size(), Client());
  bypass_.reset();
  pages_.clear();
  next_ = 0;
}

}  // namespace heddle::host
