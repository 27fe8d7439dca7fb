// The target socket of the device's boundary (HST-02): TLM's base protocol with whoever is on the other side.
//
// The other side is not ours, so nothing that it does trips a check: what the protocol forbids is answered with an
// error response where there is a transaction to answer, and ignored elsewhere. The response status of requests does
// not count, as platforms set it or not. A transaction that was begun always gets its response, also across a reset.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <tlm>

#include "common/domain.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "common/stats.h"
#include "protocol/memory_request.h"

namespace heddle::host {

class BoundaryOwner {
 public:
  // A non-blocking request that arrives in the cycle `arrival`, called inside the initiator's call. Its answer is
  // BoundarySocket::respond(). False: there is no room for another before accept().
  virtual bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t socket, Cycle arrival) = 0;
  // A whole transaction, done at once; its latency is added to `delay`.
  virtual void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t socket, sc_core::sc_time& delay) = 0;
  virtual unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t socket) = 0;
  virtual bool on_direct(tlm::tlm_generic_payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) = 0;

 protected:
  ~BoundaryOwner() = default;
};

class BoundarySocket final
    : public tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>,
      private tlm::tlm_fw_transport_if<>,
      private EventHandler {
  using Base = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

 public:
  // `index`: what the owner calls this socket.
  BoundarySocket(const char* name, Domain& domain, BoundaryOwner& owner, std::uint32_t index);

  // The response, with its status set, now; later if the response channel is busy. From inside the domain's events
  // only.
  void respond(tlm::tlm_generic_payload& payload);
  // The owner has room again. Without effect if it owes no END_REQ.
  void accept();
  // Forgets the requests that have not been answered: they get an error response. Their owner has forgotten them.
  void fail_open();
  void invalidate(std::uint64_t first, std::uint64_t last);

  std::size_t open() const { return open_.size() + responses_.size() + (responding_ == nullptr ? 0 : 1); }

 private:
  using Payload = tlm::tlm_generic_payload;

  tlm::tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override;
  void b_transport(Payload& payload, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(Payload& payload, tlm::tlm_dmi& dmi) override;
  unsigned int transport_dbg(Payload& payload) override;

  tlm::tlm_sync_enum begin(Payload& payload, tlm::tlm_phase& phase, const sc_core::sc_time& delay);
  tlm::tlm_sync_enum end(Payload& payload, const sc_core::sc_time& delay);
  bool knows(const Payload& payload) const;
  static sc_core::sc_time time_of(const sc_core::sc_time& delay) { return sc_core::sc_time_stamp() + delay; }
  void send_responses();
  void finish(Payload& payload);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return this->name(); }

  Domain& domain_;
  BoundaryOwner& owner_;
  std::uint32_t index_;
  // Times, not cycles: these count anew from a reset.
  struct Begun {
    Payload* payload;
    sc_core::sc_time when;  // a response does not come before it
  };
  std::vector<Begun> open_;        // begun, not answered
  std::deque<Begun> responses_;    // to be answered
  Payload* withheld_ = nullptr;    // whose END_REQ is owed
  Payload* responding_ = nullptr;  // whose END_RESP is outstanding
  sc_core::sc_time channel_free_;  // when the last response has ended
  bool sending_ = false;
};

// What a generic payload of the outside asks of a range of bytes is validated, and cut into runs. Addresses may be
// absolute or relative: those from `base` on are absolute.
inline std::uint64_t relative_address(std::uint64_t address, std::uint64_t base) {
  return address >= base ? address - base : address;
}

// The streaming width that counts: 0 was never set.
inline std::uint32_t width_of(const tlm::tlm_generic_payload& payload) {
  const std::uint32_t length = payload.get_data_length();
  const std::uint32_t width = payload.get_streaming_width();
  return width == 0 || width > length ? length : width;
}

inline bool byte_enabled(const tlm::tlm_generic_payload& payload, std::uint32_t index) {
  const std::uint8_t* enables = payload.get_byte_enable_ptr();
  return enables == nullptr || enables[index % payload.get_byte_enable_length()] == TLM_BYTE_ENABLED;
}

// Calls act(offset in the range, index in the data, count) for every run of enabled bytes, in the order of the data.
template <class Act>
void for_each_run(const tlm::tlm_generic_payload& payload, Act&& act) {
  const std::uint32_t length = payload.get_data_length();
  const std::uint32_t width = width_of(payload);
  for (std::uint32_t begin = 0; begin < length;) {
    const std::uint32_t wrap = begin + std::min(length - begin, width - begin % width);
    std::uint32_t end = begin;
    if (payload.get_byte_enable_ptr() == nullptr) {
      end = wrap;
    } else {
      while (end < wrap && byte_enabled(payload, end)) ++end;
    }
    if (end > begin) act(begin % width, begin, end - begin);
    begin = std::max(end, begin + 1);
  }
}

// Of a read or a write of [address, address + width) within `size` bytes; TLM_INCOMPLETE_RESPONSE: nothing is wrong.
inline tlm::tlm_response_status validate(const tlm::tlm_generic_payload& payload, std::uint64_t address,
                                         std::uint64_t size) {
  const std::uint64_t width = width_of(payload);
  if (payload.get_data_length() == 0) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (payload.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (address >= size || width > size - address) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (payload.get_byte_enable_ptr() != nullptr && payload.get_byte_enable_length() == 0) {
    return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  }
  return tlm::TLM_INCOMPLETE_RESPONSE;
}

// The device memory aperture (HST-01): non-blocking accesses of the host become lines for the memory hub. So do atomics
// of the host's bus (PCIe's AtomicOps: fetch-and-add, swap, compare-and-swap) of one value of 64 bits:
// TLM_IGNORE_COMMAND with the protocol's extension, which says in the answer that it was carried out.
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
    protocol::MemoryExtension* atomic = nullptr;  // of the payload; null: a read or a write
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

// For the race checker (arch/race_checker.h), if there is one: the host has read or written device memory. `base`: of
// the aperture on its bus.
void note_host_access(Domain& domain, const tlm::tlm_generic_payload& payload, std::uint64_t base);

// Device memory as the CPU sees it without waiting: blocking and debug accesses to the aperture, and direct pointers
// (DMI, HST-02).

// The device behind the boundary, as far as its sockets need it at once.
class Device {
 public:
  // Device memory, newest bytes first; no time, no effect on anything else. False: outside memory.
  virtual bool read_memory(std::uint64_t address, void* to, std::uint64_t bytes) = 0;
  virtual bool write_memory(std::uint64_t address, const void* from, std::uint64_t bytes) = 0;
  // A pointer to bytes [first, last] around `address`, good until `invalidate` is called with a range that touches it.
  // False: not now (the machine works on them), or not at all (attached memory).
  virtual bool direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first,
                             std::uint64_t& last) = 0;
  virtual bool grants_direct() const = 0;  // false: direct_memory() never succeeds
  // Some of these bytes are corrupt (an uncorrectable error).
  virtual bool corrupt_memory(std::uint64_t address, std::uint64_t bytes) const = 0;
  virtual void on_invalidate(std::function<void(std::uint64_t first, std::uint64_t last)> invalidate) = 0;
  // Back to the state after elaboration; resets the domain, and with it the host interface. Called outside the domain's
  // events: from a process of the host interface or from inside a blocking access of the host.
  virtual void reset_device() = 0;
  // Nothing of before the last reset is out on the host's bus any more.
  virtual bool settled() const = 0;

 protected:
  ~Device() = default;
};

class MemoryWindow {
 public:
  struct Counters {
    Counter& accesses;
    Counter& bytes;
  };
  // `size` bytes of memory, on the CPU's bus from `base` on; `latency` of an access. Grants that end are told to
  // `socket`. All references must outlive it.
  MemoryWindow(Device& device, BoundarySocket& socket, std::uint64_t base, std::uint64_t size,
               const sc_core::sc_time& latency, const Counters& counters);

  // An access of any kind has come.
  void count(const tlm::tlm_generic_payload& payload) {
    counters_.accesses.add();
    counters_.bytes.add(payload.get_data_length());
  }
  tlm::tlm_response_status access(tlm::tlm_generic_payload& payload);
  unsigned debug(tlm::tlm_generic_payload& payload);
  // `refusing`: nothing is granted now.
  bool grant(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi, bool refusing);

 private:
  void on_invalidate(std::uint64_t first, std::uint64_t last);
  tlm::tlm_response_status carry_out(protocol::MemoryExtension& atomic, std::uint64_t address);

  Device& device_;
  BoundarySocket& socket_;
  const std::uint64_t base_;
  const std::uint64_t size_;
  const sc_core::sc_time latency_;
  Counters counters_;
  std::set<std::uint64_t> granted_bases_;  // with which direct access was granted
  bool refused_ = false;                   // the last time that somebody asked for it
  sc_core::sc_time refused_at_;
};

}  // namespace heddle::host
