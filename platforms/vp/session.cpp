#include "vp/session.h"

namespace heddle::vp {
namespace {

std::uint64_t all_ones(unsigned bytes) { return ~std::uint64_t{0} >> (64 - 8 * bytes); }

}  // namespace

Session::Session(Board& board, ProxyChannel& proxy, QtestChannel& qtest, const SessionLimits& limits)
    : board_(board), proxy_(proxy), qtest_(qtest), limits_(limits) {}

void Session::run() {
  ReceivedMessage received;
  while (!ended_) {
    if (!idle_ && !gone() && !proxy_.wait(0)) {
      advance(limits_.slice);
      continue;
    }
    if (!proxy_.receive(received)) return;
    const std::optional<std::uint64_t> answer = serve(received);
    if (answer && !proxy_.answer(*answer)) return;
  }
}

bool Session::gone() const {
  const BoardTally& tally = board_.tally();
  return limits_.vanish_after && tally.reads + tally.writes >= *limits_.vanish_after;
}

std::optional<std::uint64_t> Session::serve(const ReceivedMessage& received) {
  const ProxyMessage& message = received.message;
  switch (message.command) {
    case ProxyCommand::memory_map: {
      std::vector<int> files;
      for (const OwnedFile& file : received.files) files.push_back(file.get());
      board_.memory().map(message.ranges, files);
      return std::nullopt;
    }
    case ProxyCommand::interrupt_lines:  // they need KVM; the card has MSI only
      return std::nullopt;
    case ProxyCommand::config_read:
    case ProxyCommand::config_write:
      return serve_config(message);
    case ProxyCommand::bar_read:
    case ProxyCommand::bar_write:
      return serve_bar(message);
    case ProxyCommand::reset:
      board_.reset();
      idle_ = false;
      return 0;
    case ProxyCommand::answer:
      break;
  }
  throw ProxyError("QEMU answers, and was not asked");
}

std::uint64_t Session::serve_config(const ProxyMessage& message) {
  const ProxyAccess& access = message.access;
  const auto offset = static_cast<std::uint32_t>(access.address);
  if (message.command == ProxyCommand::config_read) {
    return gone() ? all_ones(access.bytes) : board_.config().read(offset, access.bytes);
  }
  if (!gone()) {
    board_.config().write(offset, static_cast<std::uint32_t>(access.value), access.bytes);
    interrupt();  // one may have waited for MSI to be on
  }
  return 0;
}

std::uint64_t Session::serve_bar(const ProxyMessage& message) {
  const ProxyAccess& access = message.access;
  if (gone()) return message.command == ProxyCommand::bar_read ? all_ones(access.bytes) : 0;
  std::uint64_t value = 0;
  if (message.command == ProxyCommand::bar_read) {
    value = board_.read(access.address, access.bytes);
  } else {
    board_.write(access.address, access.value, access.bytes);
  }
  advance(limits_.within_access);
  return value;
}

void Session::advance(const sc_core::sc_time& most) {
  const sc_core::sc_time end = sc_core::sc_time_stamp() + most;
  do {
    idle_ = board_.advance(end - sc_core::sc_time_stamp());
    interrupt();
  } while (!idle_ && !ended_ && sc_core::sc_time_stamp() < end);
}

void Session::interrupt() {
  if (!board_.interrupt_wanted()) return;
  const std::optional<InterruptMessage> message = board_.config().message();
  if (!message) return;
  board_.interrupt_taken();
  if (!qtest_.write(message->address, message->data)) ended_ = true;
}

}  // namespace heddle::vp
