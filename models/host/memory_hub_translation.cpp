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
                             std::function<void()> goes_on)
    : ask_out("translate_out", domain, distance, kUnlimitedCredits),
      answer_in("translated_in", domain, 0),
      invalidate_in("invalidate_in", domain, 0),
      counters_(counters),
      goes_on_(std::move(goes_on)),
      clients_(clients) {
  answer_in.on_packet<HubTranslator, &HubTranslator::on_answer>(*this);
  invalidate_in.on_packet<HubTranslator, &HubTranslator::on_invalidate>(*this);
}

HubTranslator::Looked HubTranslator::judge(const Translation& page, std::uint64_t address, bool write) {
  if (page.allows(write)) return {Way::known, page.physical(address), true};
  counters_.faults.add();
  return {Way::denied, 0, page.present};
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
  if (extension == nullptr || extension->physical) return {Way::known, address, true};
  const std::uint8_t subcontext = extension->subcontext;
  HEDDLE_CHECK(subcontext < arch::kSubcontexts, "a request of a subcontext that does not exist");
  if (plain_[subcontext]) return {Way::known, address, true};
  Client& client = clients_[number];
  if (client.asked) return {};
  if (const Translation* page = find(client, subcontext, address)) {
    const Looked looked = judge(*page, address, writes(payload, *extension));
    extension->unmapped = looked.way == Way::denied;
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
  ask_out.send(packet);
  return {};
}

void HubTranslator::on_answer(const protocol::TranslatedPacket& packet, std::uint32_t) {
  HEDDLE_CHECK(packet.tag < clients_.size() && clients_[packet.tag].asked, "a page that the hub has not asked for");
  Client& client = clients_[packet.tag];
  client.asked = false;
  Translation page;
  page.present = packet.present;
  page.writable = packet.writable;
  page.page = packet.page;
  page.frame = packet.frame;
  page.page_bits = packet.page_bits;
  if (page.untranslated()) {
    plain_[client.subcontext] = true;
  } else {
    client.answer = page;
    if (page.present && pages_.size() < kKept) {
      pages_.push_back({client.subcontext, page});
    } else if (page.present) {
      pages_[next_++ % kKept] = {client.subcontext, page};
    }
  }
  goes_on_();
}

void HubTranslator::on_invalidate(const protocol::InvalidateTlbPacket& packet, std::uint32_t) {
  const bool all = packet.subcontext >= arch::kSubcontexts;
  const auto concerned = [&](std::uint8_t subcontext) { return all || subcontext == packet.subcontext; };
  if (all) {
    plain_.reset();
  } else {
    plain_[packet.subcontext] = false;
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
  plain_.reset();
  pages_.clear();
  next_ = 0;
}

}  // namespace heddle::host
