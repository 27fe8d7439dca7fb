#include "host/boundary_aperture.h"

#include <algorithm>
#include <cstring>

#include "host/boundary_access.h"

namespace heddle::host {

using protocol::MemoryRequest;

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
    finish(number);
    return;
  }
  const tlm::tlm_response_status wrong = validate(payload, access.address, size_);
  if (wrong != tlm::TLM_INCOMPLETE_RESPONSE) {
    access.status = wrong;
    finish(number);
    return;
  }
  fold(access);
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
  if (access.payload->is_write()) {
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

}  // namespace heddle::host
