// The device memory aperture (HST-01): non-blocking accesses of the host become lines for the memory hub.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "host/boundary_socket.h"
#include "protocol/memory_request.h"

namespace heddle::host {

class Aperture final : public EventHandler {
 public:
  // `size` bytes of memory, on the host's bus from `base` on. Responses go to `socket`. `out` and `domain` must outlive
  // it.
  Aperture(Domain& domain, MemoryOut& out, std::uint64_t base, std::uint64_t size, std::uint32_t places);

  void connect(BoundarySocket& socket) { socket_ = &socket; }

  // False: with this one all places are taken.
  bool take(tlm::tlm_generic_payload& payload, Cycle arrival);
  bool idle() const { return inside_ == 0; }
  std::size_t payloads() const { return pool_.in_use(); }
  std::uint32_t inside() const { return inside_; }
  // Forgets everything, as does the hub: none of its payloads will come back.
  void reset();

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return "device memory aperture"; }

 private:
  enum Event : std::uint32_t { kBegin, kAnswer, kSend };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A transaction of the host.
  struct Access {
    tlm::tlm_generic_payload* payload = nullptr;  // null: free
    std::uint64_t address = 0;
    std::uint64_t next = 0;  // offset of the first byte that no piece has been made for
    std::uint32_t pieces = 0;
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
    // The range as it is in memory: streaming and byte enables are folded into it.
    std::vector<std::uint8_t> image;
    std::vector<std::uint8_t> wanted;  // byte enables; empty: all
  };
  // A line of it, on its way.
  struct Piece {
    protocol::MemoryRequest* request = nullptr;
    std::uint32_t access = kNone;
    std::uint64_t offset = 0;
    bool answered = false;
  };

  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_room(std::uint32_t index, Cycle when);
  void begin(std::uint32_t number);
  static void fold(Access& access);
  void send_pieces();
  void send_piece(std::uint32_t number, std::uint64_t bytes);
  void take_answer(std::uint32_t number);
  void finish(std::uint32_t number);

  Domain& domain_;
  MemoryOut& out_;
  BoundarySocket* socket_ = nullptr;
  const std::uint64_t base_;
  const std::uint64_t size_;
  protocol::RequestPool pool_;
  std::vector<Access> accesses_;     // one per place
  std::deque<std::uint32_t> queue_;  // those that have pieces to send
  IndexPool<Piece> pieces_;
  std::uint32_t inside_ = 0;
};

}  // namespace heddle::host
