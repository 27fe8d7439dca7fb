// The registers' state and what accesses do with it: the core of bar0 (HST-01). Without time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "arch/sm_limits.h"
#include "host/host_windows.h"
#include "host/register_table.h"
#include "protocol/host_packet.h"
#include "protocol/host_task.h"
#include "protocol/occupancy_query.h"
#include "protocol/packet_copy.h"

namespace heddle::host {

// The registers that say how the machine is shared: a command sets a value, which its register shows from then on.
// Credits and page tables are of a subcontext, masks and blocks of a subcontext on a TPC; the mode is the machine's.
class ShareRegisters {
 public:
  explicit ShareRegisters(const RegisterStore& values) : values_(values) {}

  // A write to SHARE_COMMAND: what is to be told to the machine, or nothing if the command makes no sense. What the
  // machine lacks, or cannot share in that way, it finds out itself.
  std::optional<protocol::SubcontextPacket> command(std::uint64_t command);
  // What a register of shares shows for the subcontext and the TPC that are selected.
  std::uint64_t shown(RegisterId id) const;
  void reset() { asked_.clear(); }
  void save(StateWriter& to) const;
  void restore(StateReader& from);

 private:
  std::uint64_t key_of(RegisterId id) const;

  const RegisterStore& values_;
  std::map<std::uint64_t, std::uint64_t> asked_;  // what was asked for, by key_of()
};

// The registers that ask how many CGAs of a kernel can be resident at once (CWD-24), one query at a time.
class QueryRegisters {
 public:
  // Both must outlive it.
  QueryRegisters(RegisterStore& values, const arch::SmLimits& limits) : values_(values), limits_(limits) {}

  // A write to QUERY_COMMAND makes sense now.
  bool accepts(std::uint64_t command) const;
  // Then: what the distributor is to be asked, or nothing if the answer is known to be an error, and stands there.
  std::optional<protocol::OccupancyQueryPacket> start();
  void take(const protocol::OccupancyAnswerPacket& answer);

 private:
  arch::KernelShape kernel() const;
  void end(arch::HsaStatus status);

  RegisterStore& values_;
  const arch::SmLimits& limits_;
};

// The agent packets that the host has: those that it has not taken, of which the registers of each queue show the
// first, and those that it has.
class AgentRegisters {
 public:
  explicit AgentRegisters(RegisterStore& values) : values_(values) {}

  void arrive(const protocol::QueueEventPacket& packet);
  // The first one of the queue is taken. False: there is none.
  bool take(std::uint32_t queue);
  // One that was taken is done. False: it was not.
  bool end(std::uint32_t queue, std::uint64_t index);
  // The queue is closed or inactive.
  void forget(std::uint32_t queue);
  void reset() { queues_ = {}; }

 private:
  struct Waiting {
    std::uint64_t index = 0;
    arch::PacketBytes packet{};
  };
  struct Queue {
    std::deque<Waiting> waiting;
    std::set<std::uint64_t> taken;
  };

  void show(std::uint32_t queue);

  RegisterStore& values_;
  std::array<Queue, protocol::kMaxQueues> queues_{};
};

// Event ids of signals, as EVENT gives them.
class EventQueue {
 public:
  // `most`: ids that it holds.
  explicit EventQueue(std::size_t most) : most_(most) {}

  // False: it is full, and the id is lost.
  bool enter(std::uint32_t id) {
    if (ids_.size() == most_) return false;
    ids_.push_back(id);
    return true;
  }
  std::uint64_t first() const { return ids_.empty() ? 0 : kEventValid | ids_.front(); }
  void take() {
    if (!ids_.empty()) ids_.pop_front();
  }
  std::size_t size() const { return ids_.size(); }
  void clear() { ids_.clear(); }
  void save(StateWriter& to) const;
  void restore(StateReader& from);

 private:
  const std::size_t most_;
  std::deque<std::uint32_t> ids_;
};

// In which page each queue's doorbell is, and the low halves of doorbells that are written by halves.
class Doorbells {
 public:
  // The queue is opened by that subcontext.
  void give(std::uint32_t queue, std::uint8_t subcontext) { page_[queue] = subcontext; }
  bool has(const RegisterPlace& place) const { return place.word == page_[place.index]; }
  // The value with which the doorbell rings; none: its high half is missing.
  std::optional<std::uint64_t> write(const RegisterPlace& place, std::uint32_t bytes, std::uint64_t value) {
    if (bytes == kDoorbellBytes) return value;
    if (place.byte != 0) return value << 32 | low_[place.index];
    low_[place.index] = static_cast<std::uint32_t>(value);
    return std::nullopt;
  }
  void save(StateWriter& to) const;
  void restore(StateReader& from);

 private:
  std::array<std::uint8_t, protocol::kMaxQueues> page_{};
  std::array<std::uint32_t, protocol::kMaxQueues> low_{};
};

// The registers of the host's windows (HST-06): commands, and what was refused for want of a window.
class WindowRegisters {
 public:
  // `values` must outlive it.
  WindowRegisters(RegisterStore& values, std::uint32_t most) : values_(values), windows_(most) {}

  // A write to WINDOW_COMMAND: what is to be told to the machine; nothing: it makes no sense now.
  std::optional<protocol::HostWindowPacket> command(std::uint64_t command);
  void take(const WindowFault& fault);
  void reset() { windows_.reset(); }
  HostWindows& windows() { return windows_; }
  const HostWindows& windows() const { return windows_; }

 private:
  RegisterStore& values_;
  HostWindows windows_;
};

// What the identification and configuration registers say.
struct DeviceIdentity {
  std::uint32_t sms = 0;
  std::uint32_t gpcs = 0;
  std::uint32_t queues = 0;
  std::uint32_t copy_engines = 0;
  std::uint64_t memory = 0;  // bytes
  std::uint32_t clock_mhz = 0;
  std::uint32_t clock_period = 0;  // ps
  std::uint32_t doorbell_page = kLeastDoorbellPage;
  std::uint32_t packet_format = 0;  // as PACKET_FORMAT has it
  std::uint32_t host_windows = 0;   // that there is room for
  arch::SmLimits limits;
};

// An error that a copy has met, or for which it was refused.
struct CopyFault {
  arch::HsaStatus status = arch::HsaStatus::error;
  std::uint64_t address = 0;  // unified
  bool write = false;
  std::uint8_t subcontext = 0;
  std::uint32_t sender = 0;             // 0: a packet, 1: registers
  std::optional<std::uint32_t> engine;  // none: refused before one took it
};

// What registers do beyond themselves.
class RegisterEffects {
 public:
  virtual void queue_command(const protocol::QueueCommandPacket& packet) = 0;
  virtual void start_copy(const protocol::CopyRequestPacket& packet) = 0;
  virtual void share(const protocol::SubcontextPacket& packet) = 0;
  virtual void ask(const protocol::OccupancyQueryPacket& query) = 0;
  virtual void change_windows(const protocol::HostWindowPacket& packet) = 0;
  virtual void soft_reset() = 0;
  // What STATUS and TIMESTAMP show: of the device as it is now.
  virtual std::uint64_t live(RegisterId id) const = 0;

 protected:
  ~RegisterEffects() = default;
};

enum class RegisterResult : std::uint8_t {
  ok,
  address,  // reserved
  burst,    // not a length and place that registers have
  command,  // a write to ro, a read from wo
  refused,  // a command that makes no sense now, or an undefined value
};

class RegisterFile {
 public:
  // At most protocol::kMaxQueues queues. `event_fifo`: event ids that EVENT holds.
  RegisterFile(const DeviceIdentity& identity, std::uint32_t event_fifo, RegisterEffects& effects);
  RegisterFile(const RegisterFile&) = delete;  // its parts know each other
  RegisterFile& operator=(const RegisterFile&) = delete;

  RegisterResult read(std::uint64_t offset, std::uint32_t bytes, std::uint64_t& value);
  RegisterResult write(std::uint64_t offset, std::uint32_t bytes, std::uint64_t value);
  // There is a register, or a doorbell of that page.
  bool exists(std::uint64_t offset) const;
  std::uint32_t bytes() const { return bar0_bytes(identity_.doorbell_page); }
  // One byte, without any effect; reserved ones read as 0.
  std::uint8_t peek(std::uint64_t offset) const;

  void take(const protocol::QueueEventPacket& packet);
  void take(const protocol::CopyDonePacket& packet);
  void take(const CopyFault& fault);
  void take(const WindowFault& fault) { windows_.take(fault); }
  void take(const protocol::OccupancyAnswerPacket& answer);
  void note_fault();
  // A change of how the machine is shared was refused.
  void take(protocol::ShareRefusal why);

  // The interrupt's level.
  bool level() const { return pending() != 0; }
  void reset();

 private:
  friend class SavedRegisters;
  struct Latch {  // the high half that belongs to a low half
    const Register* reg = nullptr;
    std::uint32_t index = 0;
    std::uint32_t word = 0;
    std::uint32_t high = 0;
  };

  std::uint32_t pending() const;
  void raise(std::uint32_t bits);

  RegisterResult locate(std::uint64_t offset, std::uint32_t bytes, RegisterPlace& place) const;
  std::uint64_t shown(const RegisterPlace& place) const;
  std::uint64_t read_whole(const RegisterPlace& place);
  RegisterResult act(const RegisterPlace& place, std::uint32_t bytes, std::uint64_t value);
  void ring(const RegisterPlace& place, std::uint32_t bytes, std::uint64_t value);
  RegisterResult command_queue(std::uint32_t queue, std::uint64_t value);
  RegisterResult command_copy(std::uint32_t channel, std::uint64_t value);
  RegisterResult command_query(std::uint64_t command);
  RegisterResult end_agent(std::uint32_t queue, std::uint64_t status);
  void take_state(const protocol::QueueEventPacket& packet);
  void take_error(const protocol::QueueEventPacket& packet);

  DeviceIdentity identity_;
  RegisterEffects& effects_;
  RegisterStore values_;
  ShareRegisters shares_;
  QueryRegisters query_;
  AgentRegisters agents_;
  WindowRegisters windows_;
  EventQueue events_;
  Latch latch_;
  Doorbells doorbells_;
  std::array<std::uint64_t, protocol::kMaxQueues> opened_at_{};  // index of the first packet
};

}  // namespace heddle::host
