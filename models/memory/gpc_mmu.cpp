#include "memory/gpc_mmu.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/bits.h"

namespace heddle::memory {
namespace {

using arch::Translation;
using protocol::MemoryAction;
using protocol::MemoryExtension;
using protocol::writes;

bool is_physical(const MemoryExtension& extension) {
  return extension.physical || extension.action == MemoryAction::write_back;
}

// From an initiator that is not one of ours there may be none. The payload owns it from then on.
MemoryExtension& extension_for(tlm::tlm_generic_payload& payload) {
  MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr) {
    extension = new MemoryExtension;
    payload.set_extension(extension);
  }
  return *extension;
}

}  // namespace

GpcMmu::GpcMmu(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const MmuParams& params,
               std::uint32_t ports, FunctionalTranslator& translator)
    : Block(name, domain, path),
      translate_out("translate_out", domain, params.distance, kUnlimitedCredits),
      translated_in("translated_in", domain, 0),
      invalidate_in("invalidate_in", domain, 0),
      params_(params),
      latency_(domain.cost(params.gpc_tlb.latency)),
      translator_(translator),
      tlb_(params.gpc_tlb.entries, params.gpc_tlb.ways),
      ports_(ports),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  for (std::uint32_t i = 0; i < ports; ++i) {
    Port& port = ports_[i];
    port.in = std::make_unique<MemoryIn>(fmt::format("port_in_{}", i).c_str(), domain);
    port.in->connect<GpcMmu, &GpcMmu::request, &GpcMmu::response_room, &GpcMmu::blocking, &GpcMmu::debug>(*this, i);
    port.in->offer_lines(*this, i);
    port.out = std::make_unique<MemoryOut>(fmt::format("port_out_{}", i).c_str(), domain);
    port.out->connect<GpcMmu, &GpcMmu::response, &GpcMmu::request_room>(*this, i);
  }
  translated_in.on_packet<GpcMmu, &GpcMmu::on_translated>(*this);
  invalidate_in.on_packet<GpcMmu, &GpcMmu::on_invalidate>(*this);
}

GpcMmu::~GpcMmu() = default;

void GpcMmu::on_event(std::uint32_t, std::uint64_t argument) { send_denied(static_cast<std::uint32_t>(argument)); }

GpcMmu::Found GpcMmu::check(const tlm::tlm_generic_payload& payload, const MemoryExtension& extension,
                            const Translation& page) {
  if (page.untranslated()) return {Lookup::bypass, payload.get_address(), true};
  if (!page.allows(writes(payload, extension))) return {Lookup::denied, 0, page.present};
  return {Lookup::hit, page.physical(payload.get_address()), true};
}

GpcMmu::Found GpcMmu::find(const tlm::tlm_generic_payload& payload, const MemoryExtension& extension) {
  const std::uint64_t address = payload.get_address();
  if (is_physical(extension) || bypass_[extension.subcontext]) return {Lookup::bypass, address, true};
  if (!arch::is_virtual(address)) {
    // Unless the subcontext turns out to have no page tables.
    if (fresh_ == nullptr || fresh_of_ != extension.subcontext) return {};
    return check(payload, extension, fresh_->covers(address) ? *fresh_ : Translation());
  }
  if (fresh_ != nullptr && fresh_of_ == extension.subcontext && fresh_->covers(address)) {
    return check(payload, extension, *fresh_);
  }
  const Translation* page = tlb_.find(extension.subcontext, address);
  return page == nullptr ? Found() : check(payload, extension, *page);
}

bool GpcMmu::request(tlm::tlm_generic_payload& payload, std::uint32_t number, Cycle arrival) {
  Port& port = ports_[number];
  MemoryExtension& extension = extension_for(payload);
  HEDDLE_CHECK(extension.subcontext < arch::kSubcontexts, "a request of a subcontext that does not exist");
  const Found found = find(payload, extension);
  switch (found.lookup) {
    case Lookup::bypass:
      stats_.untranslated.add();
      break;
    case Lookup::miss:
      stats_.misses.add();
      request_page(extension.subcontext, payload.get_address());
      break;
    default:
      stats_.hits.add();
  }
  const bool first = port.queue.empty();
  if (first && found.lookup == Lookup::denied) {
    deny(number, payload, extension, found.there, arrival + latency_);
    return true;
  }
  if (first && found.lookup != Lookup::miss && port.out->can_send()) {
    forward(port, payload, extension, found, arrival);
    return true;
  }
  port.queue.push({&payload, arrival});
  if (port.queue.size() < params_.gpc_tlb.queue) return true;
  stats_.withheld.add();
  return false;
}

void GpcMmu::forward(Port& port, tlm::tlm_generic_payload& payload, MemoryExtension& extension, const Found& found,
                     Cycle when) {
  extension.virtual_address = payload.get_address();
  payload.set_address(found.physical);
  port.last_request = std::max(port.last_request, when + (found.lookup == Lookup::hit ? latency_ : 0));
  port.out->send(payload, port.last_request);
}

// Unless it is asked for already, or too much is: then an answer will look again.
void GpcMmu::request_page(std::uint8_t subcontext, std::uint64_t address) {
  const std::uint64_t page = address / arch::kSmallPage * arch::kSmallPage;
  bool asked = false;
  open_misses_.for_each(
      [&](const Miss& miss) { asked = asked || (miss.subcontext == subcontext && miss.page == page); });
  if (asked || open_misses_.in_use() >= params_.gpc_tlb.misses) return;
  const std::uint32_t tag = open_misses_.take();
  open_misses_[tag] = {subcontext, page, now()};
  protocol::TranslatePacket packet;
  packet.page = page;
  packet.subcontext = subcontext;
  packet.tag = tag;
  translate_out.send(packet);
}

void GpcMmu::on_translated(const protocol::TranslatedPacket& packet, std::uint32_t) {
  HEDDLE_CHECK(open_misses_.holds(packet.tag), "an answer that nobody waits for");
  const Miss miss = open_misses_[packet.tag];
  open_misses_.give_back(packet.tag);
  stats_.miss_cycles.add(now() - miss.since);
  const Translation page = packet.translation;
  if (page.untranslated()) {
    bypass_[miss.subcontext] = true;
  } else if (page.present) {
    tlb_.insert(miss.subcontext, page);
  }
  fresh_ = &page;
  fresh_of_ = miss.subcontext;
  // In turns: with few misses at a time, the one that looks first would take the place every time.
  const auto ports = static_cast<std::uint32_t>(ports_.size());
  for (std::uint32_t i = 0; i < ports; ++i) pump((turn_ + i) % ports, now());
  turn_ = (turn_ + 1) % ports;
  fresh_ = nullptr;
}

// What was found before the change has been sent before it, and has come before it: the ways are equally long.
void GpcMmu::on_invalidate(const protocol::InvalidateTlbPacket& packet, std::uint32_t) {
  tlb_.invalidate(packet.subcontext);
  bypass_[packet.subcontext] = false;
}

// What waits at a port goes on, as far as its pages are known. END_REQ comes last: the next request may follow at once.
void GpcMmu::pump(std::uint32_t number, Cycle when) {
  Port& port = ports_[number];
  if (port.pumping) return;
  port.pumping = true;
  while (!port.queue.empty()) {
    const Waiting first = port.queue.front();
    MemoryExtension& extension = *protocol::extension_of(*first.payload);
    const Found found = find(*first.payload, extension);
    if (found.lookup == Lookup::miss) {
      request_page(extension.subcontext, first.payload->get_address());
      break;
    }
    if (found.lookup != Lookup::denied && !port.out->can_send()) break;
    (void)port.queue.pop();
    const Cycle from = std::max({when, first.arrival, now()});
    if (found.lookup == Lookup::denied) {
      deny(number, *first.payload, extension, found.there, from);
    } else {
      forward(port, *first.payload, extension, found, from);
    }
  }
  port.pumping = false;
  if (port.in->withholding() && port.queue.size() < params_.gpc_tlb.queue) port.in->accept(std::max(when, now()));
}

void GpcMmu::request_room(std::uint32_t port, Cycle when) {
  ports_[port].last_request = std::max(ports_[port].last_request, when);
  pump(port, when);
}

void GpcMmu::refuse(tlm::tlm_generic_payload& payload, MemoryExtension& extension, bool there) {
  payload.set_response_status(there ? tlm::TLM_COMMAND_ERROR_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
  extension.unmapped = true;
  stats_.faults.add();
  Counter*& faults = faults_of_[extension.subcontext];
  if (faults == nullptr) {
    faults = &counter(fmt::format("faults_of_{}", extension.subcontext), "requests",
                      fmt::format("requests of subcontext {} that were refused", extension.subcontext));
  }
  faults->add();
}

void GpcMmu::deny(std::uint32_t port, tlm::tlm_generic_payload& payload, MemoryExtension& extension, bool there,
                  Cycle when) {
  refuse(payload, extension, there);
  ports_[port].denied.push({&payload, when});
  domain_.schedule(std::max(when, now()), *this, kDeny, port);
}

void GpcMmu::send_denied(std::uint32_t number) {
  Port& port = ports_[number];
  while (!port.denied.empty() && port.denied.front().when <= now() && port.held == nullptr && port.in->can_respond()) {
    respond(port, *port.denied.pop().payload, now());
  }
}

bool GpcMmu::respond(Port& port, tlm::tlm_generic_payload& payload, Cycle when) {
  port.last_response = std::max(port.last_response, when);
  return port.in->respond(payload, port.last_response);
}

bool GpcMmu::response(tlm::tlm_generic_payload& payload, std::uint32_t number, Cycle arrival) {
  Port& port = ports_[number];
  payload.set_address(protocol::extension_of(payload)->virtual_address);
  if (!port.in->can_respond()) {
    payload.acquire();  // it is ended after its initiator has done with it
    port.held = &payload;
    port.last_response = std::max(port.last_response, arrival);
    return false;
  }
  if (respond(port, payload, arrival)) return true;
  port.answered = &payload;
  return false;
}

// The initiator has ended the last response: ours, or one from the crossbar, which is ended there as well.
void GpcMmu::response_room(std::uint32_t number, Cycle when) {
  Port& port = ports_[number];
  port.last_response = std::max(port.last_response, when);
  if (port.answered != nullptr) {
    tlm::tlm_generic_payload& payload = *port.answered;
    port.answered = nullptr;
    port.out->end_response(payload, when);  // the next one may come inside
  }
  if (port.held != nullptr && port.in->can_respond()) {
    tlm::tlm_generic_payload& payload = *port.held;
    port.held = nullptr;
    if (respond(port, payload, when)) {
      port.out->end_response(payload, when);
    } else {
      port.answered = &payload;
    }
    payload.release();
  }
  send_denied(number);
}

void GpcMmu::blocking(tlm::tlm_generic_payload& payload, std::uint32_t number, sc_core::sc_time& delay) {
  MemoryExtension& extension = extension_for(payload);
  HEDDLE_CHECK(extension.subcontext < arch::kSubcontexts, "a request of a subcontext that does not exist");
  Found found = find(payload, extension);
  if (found.lookup == Lookup::miss) {
    stats_.misses.add();
    const Translation page = translator_.translate_blocking(extension.subcontext, payload.get_address(), delay);
    if (page.untranslated()) {
      bypass_[extension.subcontext] = true;
    } else if (page.present) {
      tlb_.insert(extension.subcontext, page);
    }
    found = check(payload, extension, page);
  } else {
    (found.lookup == Lookup::bypass ? stats_.untranslated : stats_.hits).add();
  }
  if (found.lookup == Lookup::denied) return refuse(payload, extension, found.there);
  if (found.lookup == Lookup::hit) delay += domain_.clock().period() * static_cast<double>(latency_);
  const std::uint64_t address = payload.get_address();
  payload.set_address(found.physical);
  ports_[number].out->blocking(payload, delay);
  payload.set_address(address);
}

void GpcMmu::end_of_elaboration() {
  for (Port& port : ports_) port.lines = port.out->lines();
}

// A page that has to be walked for, or that denies the read, is a matter for a payload.
bool GpcMmu::find(LineRead& read, std::uint32_t number) {
  const LinePort& lines = ports_[number].lines;
  if (!lines.offered()) return false;
  read.translated = false;
  read.physical_address = read.address;
  if (!read.physical && !bypass_[read.subcontext]) {
    if (!arch::is_virtual(read.address)) return false;
    const Translation* page = tlb_.find(read.subcontext, read.address);
    if (page == nullptr || page->untranslated() || !page->allows(false)) return false;
    read.physical_address = page->physical(read.address);
    read.translated = true;
  }
  return lines.find(read);
}

void GpcMmu::take(LineRead& read, std::uint32_t number) {
  (read.translated ? stats_.hits : stats_.untranslated).add();
  if (read.translated) read.when += latency_;
  ports_[number].lines.take(read);
}

// To look a page up would be a use of it.
void GpcMmu::warm(LineRead& read, std::uint32_t number, bool line) const {
  const LinePort& lines = ports_[number].lines;
  if (!lines.offered()) return;
  read.physical_address = read.address;
  if (!read.physical && !bypass_[read.subcontext]) {
    const Translation* page = arch::is_virtual(read.address) ? tlb_.peek(read.subcontext, read.address) : nullptr;
    if (page == nullptr || page->untranslated() || !page->present) return;
    read.physical_address = page->physical(read.address);
  }
  lines.warm(read, line);
}

// May span pages. An initiator that has no extension means physical addresses.
unsigned GpcMmu::debug(tlm::tlm_generic_payload& payload, std::uint32_t number) {
  MemoryOut& out = *ports_[number].out;
  const MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || is_physical(*extension)) return out.debug(payload);
  const std::uint64_t begin = payload.get_address();
  unsigned done = 0;
  for_each_block(begin, payload.get_data_length(), arch::kSmallPage, [&](std::uint64_t address, std::uint64_t bytes) {
    if (done < address - begin) return;  // an earlier part has failed
    const Translation page = translator_.translate_debug(extension->subcontext, address);
    if (!page.allows(payload.is_write())) return;
    tlm::tlm_generic_payload part;
    part.set_command(payload.get_command());
    part.set_address(page.physical(address));
    part.set_data_ptr(payload.get_data_ptr() + (address - begin));
    part.set_data_length(static_cast<unsigned>(bytes));
    part.set_streaming_width(part.get_data_length());
    done += out.debug(part);
  });
  return done;
}

bool GpcMmu::idle() const {
  const auto at_rest = [](const Port& port) {
    return port.queue.empty() && port.denied.empty() && port.held == nullptr && port.answered == nullptr;
  };
  return open_misses_.in_use() == 0 && std::all_of(ports_.begin(), ports_.end(), at_rest);
}

void GpcMmu::reset() {
  tlb_.reset();
  bypass_.reset();
  for (Port& port : ports_) {
    port.queue.clear();
    port.denied.clear();
    if (port.held != nullptr) port.held->release();
    port.held = port.answered = nullptr;
    port.last_request = port.last_response = 0;
    port.pumping = false;
  }
  open_misses_.clear();
  fresh_ = nullptr;
  turn_ = 0;
}

void GpcMmu::collect_waits(WaitGraph& graph) const {
  const std::string own = domain_.observation().prefix + "." + path();
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    if (ports_[i].queue.empty()) continue;
    const std::string port = fmt::format("{} port {}", own, i);
    if (ports_[i].out->can_send()) {
      graph.add(port, "for a page from", domain_.observation().prefix + ".mmu");
    } else {
      graph.add(port, "for room at", "the crossbar");
    }
  }
}

}  // namespace heddle::memory
