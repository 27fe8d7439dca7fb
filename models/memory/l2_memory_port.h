// The memory side of an L2 slice: commands of the core become requests of whole sectors, and their answers come back.
// Any memory that speaks the base protocol can stand behind it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "memory/l2_command.h"
#include "memory/l2_params.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

class L2MemoryPort final : private EventHandler {
 public:
  class Listener {
   public:
    // An answer to a command; `data`: the image of its line, of a read that is well.
    virtual void on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) = 0;
    // A send() is possible again.
    virtual void on_memory_room() = 0;

   protected:
    ~Listener() = default;
  };

  // `name`: for messages. All references must outlive it.
  L2MemoryPort(const char* name, Timebase& timebase, MemoryOut& socket, const L2Params& params, Listener& listener);

  bool can_send() const { return socket_.can_send(); }
  // `line_image`: of a write, with the bytes that are written.
  void send(const L2Command& command, const std::uint8_t* line_image);

  // Blocking calls; `delay` grows by what memory takes. The result is kL2Ok or memory's error.
  int read_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image, sc_core::sc_time& delay);
  int write_blocking(std::uint64_t line, const SectorRun& run, const std::uint8_t* line_image, sc_core::sc_time& delay);
  // Without time: bytes of one line, at their place in its image. Returns the bytes done.
  std::uint32_t debug(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes, std::uint8_t* line_image);
  // Changes bytes of writes that memory has and has not answered.
  void poke(std::uint64_t line, const std::uint8_t* line_image, const LineMask& bytes);

  // Payloads that the memory has, those of before a reset included.
  std::size_t payloads() const { return pool_.in_use(); }
  // `with_memory`: the memory is reset as well, and looks at no payload any more but by references of its own.
  void reset(bool with_memory);

 private:
  enum Event : std::uint32_t { kAnswer, kRoom };

  // A payload at the memory.
  struct Transfer {
    protocol::MemoryRequest* payload = nullptr;
    L2Command command;
    bool answered = false;
  };

  protocol::MemoryRequest& request_for(bool write, std::uint64_t line, const SectorRun& run);
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_room(std::uint32_t index, Cycle when);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  void take_answer(std::uint32_t number);
  void drop_stale(tlm::tlm_generic_payload& payload);

  const char* name_;
  Timebase& timebase_;
  MemoryOut& socket_;
  Listener& listener_;
  const std::uint32_t latency_;    // cycles
  const std::uint32_t bandwidth_;  // bytes per cycle
  protocol::RequestPool pool_;
  Cycle free_at_ = 0;
  IndexPool<Transfer> transfers_;
  std::vector<protocol::MemoryRequest*> stale_;  // still with an attached memory when the slice was reset
};

}  // namespace heddle::memory
