// The life of a card in a guest: QEMU's messages are served one by one, and simulated time passes with them.
//
// How time passes. An access sets something off, and the machine works on it before the access is answered: until
// nothing is left to do, or `within_access` of simulated time has passed. The guest's processor stands still meanwhile,
// so that a kernel which ends within that limit takes no time of the guest's. What lasts longer goes on between
// accesses, a slice at a time, as fast as this computer simulates it, and each further access waits for `within_access`
// again. Interrupts reach the guest when they happen.
#pragma once

#include <cstdint>
#include <optional>

#include <systemc>

#include "vp/board.h"
#include "vp/proxy_channel.h"

namespace heddle::vp {

struct SessionLimits {
  sc_core::sc_time within_access{1, sc_core::SC_MS};
  sc_core::sc_time slice{10, sc_core::SC_US};  // between accesses
  // For tests of drivers: after so many accesses to the BARs the card is gone. Everything reads as ones, nothing moves.
  std::optional<std::uint64_t> vanish_after;
};

class Session {
 public:
  // All three must outlive it.
  Session(Board& board, ProxyChannel& proxy, QtestChannel& qtest, const SessionLimits& limits);

  // Until QEMU closes its end. Throws ProxyError for what makes no sense; what the machine throws passes.
  void run();

 private:
  bool gone() const;
  // The answer, where there is one.
  std::optional<std::uint64_t> serve(const ReceivedMessage& received);
  std::uint64_t serve_config(const ProxyMessage& message);
  std::uint64_t serve_bar(const ProxyMessage& message);
  // Advances, and interrupts the guest whenever the machine wants it.
  void advance(const sc_core::sc_time& most);
  void interrupt();

  Board& board_;
  ProxyChannel& proxy_;
  QtestChannel& qtest_;
  const SessionLimits limits_;
  bool idle_ = true;    // the machine has nothing to do
  bool ended_ = false;  // QEMU does not answer any more
};

}  // namespace heddle::vp
