#include "host/boundary_socket.h"

#include <algorithm>
#include <cstring>

#include "arch/gpu_observation.h"
#include "arch/memory_op.h"
#include "arch/race_checker.h"

namespace heddle::host {

using protocol::MemoryRequest;

BoundarySocket::BoundarySocket(const char* name, Domain& domain, BoundaryOwner& owner, std::uint32_t index)
    : Base(name), domain_(domain), owner_(owner), index_(index) {
  this->bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
}

bool BoundarySocket::knows(const Payload& payload) const {
  const auto is_it = [&payload](const Begun& other) { return other.payload == &payload; };
  return responding_ == &payload || std::any_of(open_.begin(), open_.end(), is_it) ||
         std::any_of(responses_.begin(), responses_.end(), is_it);
}

tlm::tlm_sync_enum BoundarySocket::nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::BEGIN_REQ) return begin(payload, phase, delay);
  if (phase == tlm::END_RESP) return end(payload, delay);
  return tlm::TLM_ACCEPTED;  // not of the base protocol, or not of an initiator: ignored
}

tlm::tlm_sync_enum BoundarySocket::begin(Payload& payload, tlm::tlm_phase& phase, const sc_core::sc_time& delay) {
  if (knows(payload)) return tlm::TLM_ACCEPTED;  // its first BEGIN_REQ counts
  if (withheld_ != nullptr) {                    // the request exclusion rule
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  if (payload.has_mm()) payload.acquire();
  open_.push_back({&payload, time_of(delay)});
  // The domain may be ahead of a caller from outside: then it is now.
  if (!owner_.on_request(payload, index_, std::max(domain_.cycle_after(delay), domain_.now()))) {
    withheld_ = &payload;
    return tlm::TLM_ACCEPTED;
  }
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

tlm::tlm_sync_enum BoundarySocket::end(Payload& payload, const sc_core::sc_time& delay) {
  if (responding_ != &payload) return tlm::TLM_COMPLETED;  // of a response that was not sent
  channel_free_ = time_of(delay);
  finish(payload);
  if (!sending_ && !responses_.empty()) {
    domain_.schedule(std::max(domain_.cycle_after(delay), domain_.now()), *this, 0);
  }
  return tlm::TLM_COMPLETED;
}

void BoundarySocket::finish(Payload& payload) {
  responding_ = nullptr;
  if (payload.has_mm()) payload.release();
}

void BoundarySocket::respond(Payload& payload) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&payload](const Begun& b) { return b.payload == &payload; });
  HEDDLE_CHECK(found != open_.end(), "a response to nothing on the boundary");
  responses_.push_back(*found);
  open_.erase(found);
  send_responses();
}

void BoundarySocket::on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) { send_responses(); }

void BoundarySocket::send_responses() {
  if (sending_) return;
  sending_ = true;
  while (responding_ == nullptr && !responses_.empty()) {
    const Cycle earliest = domain_.clock().cycle_at(std::max(channel_free_, responses_.front().when));
    if (earliest > domain_.now()) {
      domain_.schedule(earliest, *this, 0);
      break;
    }
    Payload& payload = *responses_.front().payload;
    responses_.pop_front();
    if (withheld_ == &payload) withheld_ = nullptr;  // implied
    responding_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = domain_.delay_until(domain_.now());
    const tlm::tlm_sync_enum status = (*this)->nb_transport_bw(payload, phase, delay);
    const bool ended = status == tlm::TLM_COMPLETED || (status == tlm::TLM_UPDATED && phase == tlm::END_RESP);
    if (ended && responding_ == &payload) {
      channel_free_ = time_of(delay);
      finish(payload);
    }
  }
  sending_ = false;
}

void BoundarySocket::accept() {
  if (withheld_ == nullptr) return;
  Payload& payload = *withheld_;
  withheld_ = nullptr;
  tlm::tlm_phase phase = tlm::END_REQ;
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  (*this)->nb_transport_bw(payload, phase, delay);
}

void BoundarySocket::fail_open() {
  for (const Begun& begun : open_) {
    begun.payload->set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    responses_.push_back(begun);
  }
  open_.clear();
  if (!responses_.empty()) domain_.schedule(domain_.now(), *this, 0);
}

void BoundarySocket::invalidate(std::uint64_t first, std::uint64_t last) {
  if (this->size() > 0) (*this)->invalidate_direct_mem_ptr(first, last);
}

void BoundarySocket::b_transport(Payload& payload, sc_core::sc_time& delay) {
  owner_.on_blocking(payload, index_, delay);
}
bool BoundarySocket::get_direct_mem_ptr(Payload& payload, tlm::tlm_dmi& dmi) {
  return owner_.on_direct(payload, index_, dmi);
}
unsigned int BoundarySocket::transport_dbg(Payload& payload) { return owner_.on_debug(payload, index_); }

namespace {

constexpr std::uint32_t kAtomicBytes = 8;

// What makes the payload an atomic that the host's bus has; null: it is none.
protocol::MemoryExtension* atomic_of(tlm::tlm_generic_payload& payload) {
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || extension->action != protocol::MemoryAction::atomic) return nullptr;
  const bool known = extension->atomic == arch::AtomicKind::add || extension->atomic == arch::AtomicKind::exchange ||
                     extension->atomic == arch::AtomicKind::compare_exchange;
  const bool one =
      extension->type == arch::ValueType::u64 && extension->lanes == 1 && width_of(payload) == kAtomicBytes;
  return known && one ? extension : nullptr;
}

}  // namespace

Aperture::Aperture(Domain& domain, MemoryOut& out, std::uint64_t base, std::uint64_t size, std::uint32_t places)
    : domain_(domain), out_(out), base_(base), size_(size), accesses_(places) {
  out_.connect<Aperture, &Aperture::on_response, &Aperture::on_room>(*this);
}

bool Aperture::take(tlm::tlm_generic_payload& payload, Cycle arrival) {
  const auto place = std::find_if(accesses_.begin(), accesses_.end(), [](const Access& a) { return !a.payload; });
  HEDDLE_CHECK(place != accesses_.end(), "the aperture has no place for a request");
  *place = {};
  place->payload = &payload;
  ++inside_;
  domain_.schedule(arrival, *this, kBegin, static_cast<std::uint64_t>(place - accesses_.begin()));
  return inside_ < accesses_.size();
}

void Aperture::reset() {
  pieces_.for_each([](const Piece& piece) { piece.request->release(); });
  pieces_.clear();
  queue_.clear();
  for (Access& access : accesses_) access = {};
  inside_ = 0;
}

void Aperture::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kBegin:
      begin(static_cast<std::uint32_t>(argument));
      break;
    case kAnswer:
      take_answer(static_cast<std::uint32_t>(argument));
      break;
    default:
      send_pieces();
  }
}

void Aperture::begin(std::uint32_t number) {
  Access& access = accesses_[number];
  tlm::tlm_generic_payload& payload = *access.payload;
  access.address = relative_address(payload.get_address(), base_);
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
    access.atomic = atomic_of(payload);
    if (access.atomic == nullptr) {
      finish(number);
      return;
    }
  }
  tlm::tlm_response_status wrong = validate(payload, access.address, size_);
  if (access.atomic != nullptr && access.address % kAtomicBytes != 0) wrong = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (wrong != tlm::TLM_INCOMPLETE_RESPONSE) {
    access.status = wrong;
    finish(number);
    return;
  }
  if (access.atomic != nullptr) {
    access.image.resize(kAtomicBytes);
  } else {
    fold(access);
    note_host_access(domain_, payload, base_);
  }
  queue_.push_back(number);
  send_pieces();
}

void Aperture::fold(Access& access) {
  const tlm::tlm_generic_payload& payload = *access.payload;
  access.image.resize(width_of(payload));
  if (payload.get_byte_enable_ptr() != nullptr) access.wanted.resize(access.image.size(), TLM_BYTE_DISABLED);
  for_each_run(payload, [&](std::uint32_t offset, std::uint32_t index, std::uint32_t count) {
    if (payload.is_write()) std::memcpy(access.image.data() + offset, payload.get_data_ptr() + index, count);
    if (!access.wanted.empty()) std::memset(access.wanted.data() + offset, TLM_BYTE_ENABLED, count);
  });
}

void Aperture::send_pieces() {
  while (!queue_.empty() && out_.can_send()) {
    const std::uint32_t number = queue_.front();
    Access& access = accesses_[number];
    const std::uint64_t left = access.image.size() - access.next;
    const std::uint64_t line_end = arch::line_of(access.address + access.next) + arch::kLineBytes;
    const std::uint64_t bytes = std::min(left, line_end - (access.address + access.next));
    if (bytes == left) queue_.pop_front();
    const bool any =
        access.wanted.empty() || std::memchr(access.wanted.data() + access.next, TLM_BYTE_ENABLED, bytes) != nullptr;
    if (any) {
      send_piece(number, bytes);
    } else {
      access.next += bytes;
    }
    if (bytes == left && access.pieces == 0) finish(number);  // no byte of it is enabled
  }
}

void Aperture::send_piece(std::uint32_t number, std::uint64_t bytes) {
  Access& access = accesses_[number];
  const std::uint32_t slot = pieces_.take();
  MemoryRequest& request = pool_.acquire();
  pieces_[slot] = {&request, number, access.next, false};
  request.extension.entry = slot;
  request.extension.physical = true;  // the aperture is device memory as it lies (MEM-04)
  request.aim(access.payload->get_command(), access.address + access.next, static_cast<std::uint32_t>(bytes));
  if (access.atomic != nullptr) {
    protocol::MemoryExtension& extension = request.extension;
    extension.action = access.atomic->action;
    extension.atomic = access.atomic->atomic;
    extension.type = access.atomic->type;
    extension.lanes = 1;
    extension.lane[0] = access.atomic->lane[0];
    extension.lane[0].offset = static_cast<std::uint8_t>(access.address % arch::kLineBytes);
  } else if (access.payload->is_write()) {
    std::memcpy(request.data.data(), access.image.data() + access.next, bytes);
    if (!access.wanted.empty()) std::memcpy(request.use_enables(), access.wanted.data() + access.next, bytes);
  }
  access.next += bytes;
  ++access.pieces;
  out_.send(request, domain_.now());
}

bool Aperture::on_response(tlm::tlm_generic_payload& payload, std::uint32_t /*index*/, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  const std::uint32_t slot = extension == nullptr ? kNone : extension->entry;
  const bool awaited = pieces_.holds(slot) && pieces_[slot].request == &payload && !pieces_[slot].answered;
  if (!awaited) return true;
  pieces_[slot].answered = true;
  domain_.schedule(arrival, *this, kAnswer, slot);
  return true;
}

void Aperture::on_room(std::uint32_t /*index*/, Cycle when) { domain_.schedule(when, *this, kSend); }

void Aperture::take_answer(std::uint32_t number) {
  const Piece piece = pieces_[number];
  pieces_.give_back(number);
  Access& access = accesses_[piece.access];
  MemoryRequest& request = *piece.request;
  tlm::tlm_response_status status = request.get_response_status();
  if (status == tlm::TLM_INCOMPLETE_RESPONSE) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (status == tlm::TLM_OK_RESPONSE && request.extension.poisoned) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (access.status == tlm::TLM_OK_RESPONSE) access.status = status;
  if (status == tlm::TLM_OK_RESPONSE && request.is_read()) {
    std::memcpy(access.image.data() + piece.offset, request.data.data(), request.get_data_length());
  }
  if (status == tlm::TLM_OK_RESPONSE && access.atomic != nullptr) {
    access.atomic->lane[0].old = request.extension.lane[0].old;
    access.atomic->carried_out = true;
  }
  request.release();
  if (--access.pieces == 0 && access.next == access.image.size()) finish(piece.access);
}

void Aperture::finish(std::uint32_t number) {
  Access& access = accesses_[number];
  tlm::tlm_generic_payload& payload = *access.payload;
  if (access.status == tlm::TLM_OK_RESPONSE && payload.is_read()) {
    for_each_run(payload, [&](std::uint32_t offset, std::uint32_t index, std::uint32_t count) {
      std::memcpy(payload.get_data_ptr() + index, access.image.data() + offset, count);
    });
  }
  payload.set_response_status(access.status);
  access = {};
  --inside_;
  socket_->respond(payload);
  if (inside_ < accesses_.size()) socket_->accept();  // the response may have brought another
}

void note_host_access(Domain& domain, const tlm::tlm_generic_payload& payload, std::uint64_t base) {
  arch::RaceChecker* races = gpu_observation(domain).races;
  if (races == nullptr || payload.get_command() == tlm::TLM_IGNORE_COMMAND) return;
  const std::uint64_t address = relative_address(payload.get_address(), base);
  for_each_run(payload, [&](std::uint32_t offset, std::uint32_t /*index*/, std::uint32_t count) {
    if (payload.is_read()) return races->host_reads(address + offset, count);
    races->host_writes(address + offset, count);
  });
}

MemoryWindow::MemoryWindow(Device& device, BoundarySocket& socket, std::uint64_t base, std::uint64_t size,
                           const sc_core::sc_time& latency, const Counters& counters)
    : device_(device), socket_(socket), base_(base), size_(size), latency_(latency), counters_(counters) {
  device.on_invalidate([this](std::uint64_t first, std::uint64_t last) { on_invalidate(first, last); });
}

tlm::tlm_response_status MemoryWindow::access(tlm::tlm_generic_payload& payload) {
  count(payload);
  const bool ignored = payload.get_command() == tlm::TLM_IGNORE_COMMAND;
  protocol::MemoryExtension* atomic = ignored ? atomic_of(payload) : nullptr;
  if (ignored && atomic == nullptr) return tlm::TLM_OK_RESPONSE;
  const std::uint64_t address = relative_address(payload.get_address(), base_);
  const tlm::tlm_response_status wrong = validate(payload, address, size_);
  if (wrong != tlm::TLM_INCOMPLETE_RESPONSE) return wrong;
  if (atomic != nullptr) return carry_out(*atomic, address);
  bool well = true;
  bool corrupt = false;
  for_each_run(payload, [&](std::uint32_t offset, std::uint32_t index, std::uint32_t count) {
    std::uint8_t* data = payload.get_data_ptr() + index;
    if (!well) return;
    corrupt = corrupt || (payload.is_read() && device_.corrupt_memory(address + offset, count));
    well = payload.is_read() ? device_.read_memory(address + offset, data, count)
                             : device_.write_memory(address + offset, data, count);
  });
  if (!well) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (corrupt) return tlm::TLM_GENERIC_ERROR_RESPONSE;  // as a non-blocking read
  // A hint only. Whoever was refused may ask again, later.
  payload.set_dmi_allowed(device_.grants_direct() && (!refused_ || sc_core::sc_time_stamp() != refused_at_));
  return tlm::TLM_OK_RESPONSE;
}

// At once: nobody comes between.
tlm::tlm_response_status MemoryWindow::carry_out(protocol::MemoryExtension& atomic, std::uint64_t address) {
  if (address % kAtomicBytes != 0) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  std::uint64_t value = 0;
  if (device_.corrupt_memory(address, kAtomicBytes)) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (!device_.read_memory(address, &value, kAtomicBytes)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  protocol::AtomicLane& lane = atomic.lane[0];
  lane.old = value;
  value = arch::atomic_result(atomic.atomic, atomic.type, lane.old, lane.operand, lane.compare);
  if (!device_.write_memory(address, &value, kAtomicBytes)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  atomic.carried_out = true;
  return tlm::TLM_OK_RESPONSE;
}

unsigned MemoryWindow::debug(tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = relative_address(payload.get_address(), base_);
  if (address >= size_) return 0;
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(payload.get_data_length(), size_ - address));
  bool well = bytes > 0;
  if (well && payload.is_read()) {
    well = device_.read_memory(address, payload.get_data_ptr(), bytes);
  } else if (well && payload.is_write()) {
    well = device_.write_memory(address, payload.get_data_ptr(), bytes);
  } else {
    well = false;
  }
  return well ? bytes : 0;
}

bool MemoryWindow::grant(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi, bool refusing) {
  const std::uint64_t given = payload.get_address();
  // Whoever asks with an atomic wants to know whether it would be carried out as one.
  if (protocol::MemoryExtension* asked = refusing ? nullptr : atomic_of(payload); asked != nullptr) {
    asked->carried_out = true;
  }
  dmi.init();
  dmi.allow_none();
  dmi.set_start_address(given);
  dmi.set_end_address(given);
  const std::uint64_t address = relative_address(given, base_);
  if (refusing || address >= size_) return false;
  std::uint8_t* pointer = nullptr;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  refused_ = !device_.direct_memory(address, pointer, first, last);
  if (refused_) {
    refused_at_ = sc_core::sc_time_stamp();
    return false;
  }
  const std::uint64_t base = given - address;
  dmi.set_start_address(first + base);
  dmi.set_end_address(last + base);
  dmi.set_dmi_ptr(pointer);
  dmi.allow_read_write();
  dmi.set_read_latency(latency_);
  dmi.set_write_latency(latency_);
  granted_bases_.insert(base);
  return true;
}

void MemoryWindow::on_invalidate(std::uint64_t first, std::uint64_t last) {
  for (const std::uint64_t base : granted_bases_) {
    socket_.invalidate(first + base, std::max(last, last + base));  // no wrap at the end of all addresses
  }
}

}  // namespace heddle::host
