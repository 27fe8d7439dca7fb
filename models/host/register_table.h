// The registers of the device as one table (HST-01): the host interface decodes with it, and the C header for drivers,
// docs/registers.md and `heddle show registers` are made from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::host {

// Where the parts of bar0 lie.
constexpr std::uint32_t kCopyChannels = 4;
constexpr std::uint32_t kCopyChannelBase = 0x1000;
constexpr std::uint32_t kCopyChannelStride = 0x40;
constexpr std::uint32_t kQueueBase = 0x4000;
constexpr std::uint32_t kQueueStride = 0x100;
constexpr std::uint32_t kAgentWords = 8;          // of 64 bits: an agent packet
constexpr std::uint32_t kRegisterBytes = 0x8000;  // all but doorbells
// Behind the registers, doorbells: a page for each subcontext, which an operating system can map into its process alone
// (PKT-14). Of a queue only the doorbell in the page of its subcontext is there, at 8 times its number.
constexpr std::uint32_t kDoorbellBase = 0x1'0000;
constexpr std::uint32_t kDoorbellPages = 64;
constexpr std::uint32_t kLeastDoorbellPage = 4096;  // bytes, a power of two
constexpr std::uint32_t kMostDoorbellPage = 65'536;
constexpr std::uint32_t kDoorbellBytes = 8;
constexpr std::uint32_t doorbell_at(std::uint32_t queue, std::uint32_t page, std::uint32_t page_bytes) {
  return kDoorbellBase + page * page_bytes + queue * kDoorbellBytes;
}
constexpr std::uint32_t bar0_bytes(std::uint32_t page_bytes) { return kDoorbellBase + kDoorbellPages * page_bytes; }

constexpr std::uint32_t kMagic = 0x4C44'4548;  // "HEDL"
constexpr std::uint32_t kVersion = 0x0002'0001;
// Bits of PACKET_FORMAT.
constexpr std::uint32_t kPacketReferenceBit = 8;
constexpr std::uint32_t kPacketVectorBit = 12;
constexpr std::uint32_t kPacketStoredBit = 20;
constexpr std::uint32_t kPacketSharedTableBit = 21;
constexpr std::uint32_t kPacketOverlapBit = 22;
constexpr std::uint32_t kAbsent = 0xFFFF'FFFF;  // what a register holds that has no value: no queue, no engine, not set

enum class RegisterAccess : std::uint8_t {
  ro,   // read only
  rw,   // keeps what is written
  w1c,  // ones that are written clear their bits
  wo,   // a write has an effect, a read is refused
};
const char* access_text(RegisterAccess access);

struct RegisterField {
  const char* name;
  std::uint8_t first;  // bit
  std::uint8_t bits;
  const char* description;
};
// Fields that one or more registers have. `name` begins their names in the C header.
struct RegisterFields {
  const char* name;
  const RegisterField* fields;
  std::uint32_t count;
};

struct RegisterValue {
  const char* name;
  std::uint32_t value;
  const char* description;
};
// Values that a register can have, or that can be written to it.
struct RegisterValues {
  const char* name;
  const RegisterValue* values;
  std::uint32_t count;
};

// In the order of the table.
enum class RegisterId : std::uint8_t {
  magic,
  version,
  sms,
  gpcs,
  queues,
  copy_engines,
  memory_bytes,
  clock_mhz,
  threads_limit,
  shared_limit,
  copy_channels,
  scratch,
  clock_period,
  timestamp,
  timestamp_rate,
  doorbell_page,
  packet_format,
  int_status,
  int_mask,
  int_set,
  int_pending,
  control,
  status,
  error_count,
  error_queue,
  error_status,
  error_kernel,
  error_index,
  error_reason,
  fault_count,
  event,
  event_count,
  copy_fault_count,
  copy_fault_access,
  copy_fault_address,
  copy_fault_subcontext,
  copy_fault_engine,
  copy_fault_status,
  copy_fault_sender,
  share_subcontext,
  share_tpc,
  share_value,
  share_command,
  share_mode,
  share_credits,
  share_enabled,
  share_block,
  share_warps,
  share_page_table,
  share_refused,
  share_refusal,
  share_bandwidth,
  share_limit,
  share_local_address,
  share_local_bytes,
  share_sms,
  share_instance,
  query_threads,
  query_registers,
  query_shared,
  query_local,
  query_cpc,
  query_gpc,
  query_ugpu,
  query_gpu,
  query_mode,
  query_subcontext,
  query_memory,
  query_command,
  query_state,
  query_status,
  query_active,
  query_largest,
  window_subcontext,
  window_rights,
  window_address,
  window_bytes,
  window_command,
  window_isolated,
  window_count,
  window_fault_count,
  window_fault_address,
  window_fault_subcontext,
  window_fault_access,
  copy_from,
  copy_to,
  copy_bytes,
  copy_value,
  copy_kind,
  copy_command,
  copy_state,
  copy_status,
  copy_subcontext,
  copy_error_address,
  copy_cycles,
  doorbell,
  queue_base,
  queue_read_index_address,
  queue_first,
  queue_size,
  queue_priority,
  queue_subcontext,
  queue_command,
  queue_state,
  queue_error_status,
  queue_error_index,
  queue_error_kernel,
  queue_faults,
  queue_read_index,
  queue_error_reason,
  agent_index,
  agent_state,
  agent_take,
  agent_done_index,
  agent_done,
  agent_packet,
};

// What an array of registers has one of.
enum class RegisterArray : std::uint8_t { none, copy_channel, queue };

struct Register {
  RegisterId id;
  const char* name;  // upper case: HEDDLE_REG_<name>
  std::uint32_t offset;
  std::uint8_t bytes;  // 4 or 8
  RegisterAccess access;
  std::uint64_t reset;
  bool of_machine;  // the value after reset is the machine's, not `reset`
  RegisterArray array;
  std::uint32_t count;  // of the array
  std::uint32_t stride;
  std::uint32_t words;  // consecutive registers of each: 1, or those of an agent packet
  const RegisterFields* fields;
  const RegisterValues* values;
  const char* description;
  bool constant = false;  // `reset` for ever
};

struct RegisterTable {
  const Register* registers;
  std::uint32_t count;
  const Register* begin() const { return registers; }
  const Register* end() const { return registers + count; }
};
RegisterTable register_table();
const Register& register_of(RegisterId id);

// Bits that exist: those of the fields, or all.
std::uint64_t bits_of(const Register& reg);

// A place in bar0: which register, which of the array, which word of it.
struct RegisterPlace {
  const Register* reg = nullptr;  // null: reserved
  std::uint32_t index = 0;
  std::uint32_t word = 0;
  std::uint32_t byte = 0;  // of the register: 0 … bytes - 1
};
// Of a doorbell, `word` is its page.
RegisterPlace register_at(std::uint64_t offset, std::uint32_t doorbell_page = kLeastDoorbellPage);
// Of a doorbell: in the first page.
std::uint32_t offset_of(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0);

// Bits of the interrupt registers.
enum InterruptBit : std::uint32_t {
  kIntSignal = 1U << 0,
  kIntQueueError = 1U << 1,
  kIntAgent = 1U << 2,
  kIntCopyDone = 1U << 3,
  kIntCopyError = 1U << 4,
  kIntFault = 1U << 5,
  kIntOverflow = 1U << 6,
  kIntQueueClosed = 1U << 7,
  kIntSoftware = 1U << 8,
  kIntQueryDone = 1U << 9,
};
constexpr std::uint32_t kIntAll = (1U << 10) - 1;

constexpr std::uint32_t kControlSoftReset = 1;
constexpr std::uint32_t kStatusResetBusy = 1;
constexpr std::uint64_t kEventValid = std::uint64_t{1} << 32;

enum QueueCommandValue : std::uint32_t { kQueueOpen = 1, kQueueClose = 2, kQueueInactivate = 3 };
constexpr std::uint32_t kAgentsTakenBit = 8;             // of AGENT_STATE
constexpr std::uint64_t kTimestampRate = 1'000'000'000;  // ticks of TIMESTAMP in a second
enum CopyCommandValue : std::uint32_t { kCopyStart = 1 };
enum ShareCommandValue : std::uint32_t {
  kShareMode = 1,
  kShareCredits = 2,
  kShareEnable = 3,
  kShareBlock = 4,
  kSharePageTable = 5,
  kShareBandwidth = 6,
  kShareLimit = 7,
  kShareLocalAddress = 8,
  kShareLocalBytes = 9,
  kShareSms = 10,
  kShareWarps = 11,
  kShareInstance = 12,
};
enum WindowCommandValue : std::uint32_t { kWindowOpen = 1, kWindowClose = 2, kWindowIsolate = 3, kWindowShare = 4 };
constexpr std::uint32_t kWindowReads = 1;  // of WINDOW_RIGHTS
constexpr std::uint32_t kWindowWrites = 2;
constexpr std::uint32_t kShareGpcBit = 16;  // of SHARE_TPC
enum QueryCommandValue : std::uint32_t { kQueryStart = 1 };
enum QueryStateValue : std::uint32_t { kQueryIdle = 0, kQueryBusy = 1, kQueryDone = 2, kQueryError = 3 };
// Of QUERY_CPC to QUERY_GPU: as wide as ids (CWD-40).
constexpr std::uint32_t kExtentYBit = 32;
constexpr std::uint32_t kExtentZBit = 48;
enum CopyStateValue : std::uint32_t { kCopyIdle = 0, kCopyBusy = 1, kCopyDone = 2, kCopyError = 3 };

// The table as text (register_text.cpp): for people, as the page docs/registers.md, and as the C header for drivers.
std::string registers_as_text();
std::string registers_as_markdown();
std::string registers_as_c();

// What registers hold, by register, index in its array and word. Without effects.
class RegisterStore {
 public:
  RegisterStore() {
    std::uint32_t next = 0;
    for (const Register& reg : register_table()) {
      first_.push_back(next);
      next += reg.count * reg.words;
    }
    values_.resize(next);
    reset();
  }

  std::uint64_t& at(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0) {
    return values_[place(id, index, word)];
  }
  std::uint64_t at(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0) const {
    return values_[place(id, index, word)];
  }
  std::uint32_t at32(RegisterId id, std::uint32_t index = 0) const { return static_cast<std::uint32_t>(at(id, index)); }

  // The reset values of the table.
  void reset() {
    for (const Register& reg : register_table()) {
      for (std::uint32_t i = 0; i < reg.count * reg.words; ++i) values_[place(reg.id, 0, 0) + i] = reg.reset;
    }
  }

 private:
  std::uint32_t place(RegisterId id, std::uint32_t index, std::uint32_t word) const {
    return first_[static_cast<std::size_t>(id)] + index * register_of(id).words + word;
  }

  std::vector<std::uint32_t> first_;  // by register: its place in values_
  std::vector<std::uint64_t> values_;
};

}  // namespace heddle::host
