#include "host/register_table.h"

#include <algorithm>
#include <array>

#include "arch/aql_packet.h"
#include "common/error.h"
#include "protocol/host_packet.h"
#include "protocol/host_task.h"
#include "protocol/packet_copy.h"

namespace heddle::host {
namespace {

using Access = RegisterAccess;
using Array = RegisterArray;
using Id = RegisterId;

template <std::size_t N>
constexpr RegisterFields fields(const char* name, const std::array<RegisterField, N>& list) {
  return {name, list.data(), static_cast<std::uint32_t>(N)};
}
template <std::size_t N>
constexpr RegisterValues values(const char* name, const std::array<RegisterValue, N>& list) {
  return {name, list.data(), static_cast<std::uint32_t>(N)};
}

constexpr std::array<RegisterField, 2> kVersionBits{{
    {"MINOR", 0, 16, "goes up when registers are added"},
    {"MAJOR", 16, 16, "goes up when a driver has to change"},
}};
constexpr std::array<RegisterField, 10> kIntBits{{
    {"SIGNAL", 0, 1, "a signal that asks for an interrupt has changed: its event id is in EVENT"},
    {"QUEUE_ERROR", 1, 1,
     "a queue has stopped with an error, or refused to open: see QUEUE_STATE and the ERROR registers"},
    {"AGENT", 2, 1, "a queue holds an agent packet for the host"},
    {"COPY_DONE", 3, 1, "a copy channel is done"},
    {"COPY_ERROR", 4, 1, "a copy channel has stopped with an error"},
    {"FAULT", 5, 1, "a kernel has faulted"},
    {"OVERFLOW", 6, 1, "an event id was lost because EVENT was full: look at all signals"},
    {"QUEUE_CLOSED", 7, 1, "a queue has become closed, or inactive"},
    {"SOFTWARE", 8, 1, "raised by INT_SET only"},
    {"QUERY_DONE", 9, 1, "an occupancy query has been answered"},
}};
constexpr std::array<RegisterField, 1> kControlBits{{
    {"SOFT_RESET", 0, 1,
     "1: the device goes back to the state after power-up; a blocking write returns when it has, another is "
     "answered first. Memory of the host that the device wrote is the host's again when RESET_BUSY of STATUS is 0. "
     "Device memory keeps its bytes, but for those that only the L2 had"},
}};
constexpr std::array<RegisterField, 1> kStatusBits{{
    {"RESET_BUSY", 0, 1,
     "accesses of before the last reset are out on the host's bus: writes among them may still take effect"},
}};
constexpr std::array<RegisterField, 2> kEventBits{{
    {"ID", 0, 32, "event id of the signal"},
    {"VALID", 32, 1, "0: there was none"},
}};
constexpr std::array<RegisterField, 1> kSubcontextBits{{
    {"NUMBER", 0, 8, "subcontext of the device's memory"},
}};
constexpr std::array<RegisterField, 2> kTpcBits{{
    {"TPC", 0, 16, "of the GPC"},
    {"GPC", kShareGpcBit, 16, "of the machine"},
}};
constexpr std::array<RegisterField, 3> kExtentBits{{
    {"X", 0, 32, "CTAs"},
    {"Y", kExtentYBit, 16, "CTAs"},
    {"Z", kExtentZBit, 16, "CTAs"},
}};
constexpr std::array<RegisterField, 1> kQueryMemoryBits{{
    {"LINEAR", 0, 1, "every outermost CGA takes a CGA memory slot"},
}};
constexpr std::array<RegisterField, 2> kWindowRightsBits{{
    {"READ", 0, 1, "the subcontext may read there"},
    {"WRITE", 1, 1, "it may write there; atomics take both"},
}};
constexpr std::array<RegisterField, 6> kPacketFormatBits{{
    {"ENTRIES", 0, 8, "entries of a reference state table"},
    {"REFERENCE_BITS", kPacketReferenceBit, 4, "of a diff's header, that name an entry"},
    {"VECTOR_BITS", kPacketVectorBit, 5, "of a diff's header, that say which fields differ"},
    {"STORED", kPacketStoredBit, 1, "diffs are of the stored information; 0: of the fields of packets"},
    {"SHARED_TABLE", kPacketSharedTableBit, 1, "all queues share a reference state table; 0: each has its own"},
    {"OVERLAP", kPacketOverlapBit, 1,
     "a kernel of a condensed packet waits for those before it only if it has the barrier bit; 0: always"},
}};
constexpr std::array<RegisterField, 2> kAgentBits{{
    {"WAITING", 0, 8, "packets that wait for AGENT_TAKE; AGENT_INDEX and AGENT_PACKET show the first"},
    {"TAKEN", kAgentsTakenBit, 8, "packets that have been taken, and wait for AGENT_DONE"},
}};

constexpr RegisterFields kVersionFields = fields("VERSION", kVersionBits);
constexpr RegisterFields kIntFields = fields("INT", kIntBits);
constexpr RegisterFields kControlFields = fields("CONTROL", kControlBits);
constexpr RegisterFields kStatusFields = fields("STATUS", kStatusBits);
constexpr RegisterFields kEventFields = fields("EVENT", kEventBits);
constexpr RegisterFields kSubcontextFields = fields("SUBCONTEXT", kSubcontextBits);
constexpr RegisterFields kTpcFields = fields("SHARE_TPC", kTpcBits);
constexpr RegisterFields kExtentFields = fields("EXTENTS", kExtentBits);
constexpr RegisterFields kQueryMemoryFields = fields("QUERY_MEMORY", kQueryMemoryBits);
constexpr RegisterFields kWindowRightsFields = fields("WINDOW_RIGHTS", kWindowRightsBits);
constexpr RegisterFields kPacketFormatFields = fields("PACKET_FORMAT", kPacketFormatBits);
constexpr RegisterFields kAgentFields = fields("AGENT_STATE", kAgentBits);

template <class E>
constexpr std::uint32_t number(E value) {
  return static_cast<std::uint32_t>(value);
}

constexpr std::array<RegisterValue, 3> kQueueCommandList{{
    {"OPEN", kQueueOpen, "opens the queue with BASE, SIZE, READ_INDEX_ADDRESS, FIRST, PRIORITY and SUBCONTEXT"},
    {"CLOSE", kQueueClose, "nothing more is started; what has been launched ends as usual"},
    {"INACTIVATE", kQueueInactivate,
     "nothing more is started; what has been launched is killed, and its completion signals stay as they are. The "
     "queue "
     "is to be closed then"},
}};
constexpr std::array<RegisterValue, 6> kQueueStateList{{
    {"CLOSED", number(protocol::QueueState::closed), "not in use"},
    {"ACTIVE", number(protocol::QueueState::active), "open"},
    {"ERROR", number(protocol::QueueState::error), "stopped by an error: close it and open it again"},
    {"DRAINING", number(protocol::QueueState::draining), "closed by the host; kernels still run"},
    {"ABORTING", number(protocol::QueueState::aborting), "inactivated by the host; kernels are being killed"},
    {"INACTIVE", number(protocol::QueueState::inactive), "inactivated, and nothing of it runs: to be closed"},
}};
constexpr std::array<RegisterValue, 11> kStatusList{{
    {"SUCCESS", number(arch::HsaStatus::success), "no error"},
    {"ERROR", number(arch::HsaStatus::error), "the way to memory failed"},
    {"INVALID_ARGUMENT", number(arch::HsaStatus::invalid_argument), "dimensions, sizes, alignment, an empty entry"},
    {"INVALID_ALLOCATION", number(arch::HsaStatus::invalid_allocation),
     "a group segment smaller than the kernel's static shared memory"},
    {"INVALID_SIGNAL", number(arch::HsaStatus::invalid_signal), "a signal that memory does not have"},
    {"INVALID_QUEUE", number(arch::HsaStatus::invalid_queue), "a ring or index that memory does not have, a bad size"},
    {"OUT_OF_RESOURCES", number(arch::HsaStatus::out_of_resources), "more than the machine has"},
    {"INVALID_PACKET_FORMAT", number(arch::HsaStatus::invalid_packet_format), "an undefined type, a reserved field"},
    {"INCOMPATIBLE_ARGUMENTS", number(arch::HsaStatus::incompatible_arguments),
     "packet and kernel object contradict each other"},
    {"INVALID_CODE_OBJECT", number(arch::HsaStatus::invalid_code_object), "no kernel object there"},
    {"EXCEPTION", number(arch::HsaStatus::exception), "a kernel of the packet faulted"},
}};
constexpr std::array kReasonList{
#define HEDDLE_REASON(name, number, text) RegisterValue{#name, number, text},
    HEDDLE_REASONS(HEDDLE_REASON)
#undef HEDDLE_REASON
};
constexpr std::array<RegisterValue, 2> kCopyKindList{{
    {"COPY", number(protocol::CopyKind::copy), "BYTES bytes from FROM to TO"},
    {"FILL", number(protocol::CopyKind::fill), "BYTES bytes at TO with the 32-bit VALUE"},
}};
constexpr std::array<RegisterValue, 1> kCopyCommandList{{
    {"START", kCopyStart, "hands the copy to the copy engines"},
}};
constexpr std::array<RegisterValue, 4> kCopyStateList{{
    {"IDLE", kCopyIdle, "never used since the reset"},
    {"BUSY", kCopyBusy, "waits or runs"},
    {"DONE", kCopyDone, "ended well"},
    {"ERROR", kCopyError, "ended with COPY_STATUS at COPY_ERROR_ADDRESS"},
}};

constexpr std::array<RegisterValue, 2> kQueryModeList{{
    {"LOAD_BALANCING", number(arch::CgaMode::load_balancing), "several CTAs of a CGA may share an SM"},
    {"MULTICAST", number(arch::CgaMode::multicast), "at most one CTA of a CGA on an SM"},
}};
constexpr std::array<RegisterValue, 1> kQueryCommandList{{
    {"START", kQueryStart, "asks the distributor"},
}};
constexpr std::array<RegisterValue, 4> kQueryStateList{{
    {"IDLE", kQueryIdle, "never used since the reset"},
    {"BUSY", kQueryBusy, "the answer is on its way"},
    {"DONE", kQueryDone, "answered"},
    {"ERROR", kQueryError, "no such kernel can run: QUERY_STATUS says why"},
}};

constexpr std::array<RegisterValue, 2> kCopyAccessList{{
    {"READ", 0, "a read of the source"},
    {"WRITE", 1, "a write to the destination"},
}};
constexpr std::array<RegisterValue, 2> kCopySenderList{{
    {"PACKET", 0, "a packet of a queue"},
    {"REGISTERS", 1, "a copy channel"},
}};

constexpr std::array<RegisterValue, 4> kWindowCommandList{{
    {"OPEN", kWindowOpen, "gives the subcontext the window of WINDOW_ADDRESS, WINDOW_BYTES and WINDOW_RIGHTS"},
    {"CLOSE", kWindowClose, "takes all windows of the subcontext away"},
    {"ISOLATE", kWindowIsolate, "from now on subcontexts other than 0, the driver's, reach their windows only"},
    {"SHARE", kWindowShare, "all subcontexts reach all of the host's bus, as after a reset"},
}};
constexpr std::array<RegisterValue, 2> kWindowAccessList{{
    {"READ", 0, "a read"},
    {"WRITE", 1, "a write or an atomic"},
}};

constexpr std::array<RegisterValue, 12> kShareCommandList{{
    {"MODE", kShareMode, "SHARE_VALUE is the mode of the whole machine: a value of SHARE_MODE"},
    {"CREDITS", kShareCredits, "SHARE_VALUE: TPCs that the subcontext may hold at once, 0 to 4096"},
    {"ENABLE", kShareEnable, "SHARE_VALUE is 1: the subcontext may run on the TPC; 0: it may not"},
    {"BLOCK", kShareBlock,
     "SHARE_VALUE: local-memory block of the subcontext on the TPC in static mode; 0xFFFFFFFF: none"},
    {"PAGE_TABLE", kSharePageTable,
     "SHARE_VALUE: physical address of the root of the subcontext's page tables; 0: addresses are not translated"},
    {"BANDWIDTH", kShareBandwidth,
     "SHARE_VALUE: thousandths of the bandwidth of L2 and memory that the subcontext gets where it is contended; 0: "
     "none of "
     "its own"},
    {"LIMIT", kShareLimit,
     "SHARE_VALUE: thousandths of the bandwidth of L2 and memory that the subcontext may have at most; 1000: no limit"},
    {"LOCAL_ADDRESS", kShareLocalAddress,
     "SHARE_VALUE: address of the subcontext's local memory in its space, a multiple of 128"},
    {"LOCAL_BYTES", kShareLocalBytes, "SHARE_VALUE: bytes of local memory of a thread, a multiple of 4; 0: none"},
    {"SMS", kShareSms, "SHARE_VALUE: percent of the machine's SMs on which it may have CTAs at a time, 1 to 100"},
    {"WARPS", kShareWarps, "SHARE_VALUE: percent of an SM's warps that its CTAs may have there, 1 to 100"},
    {"INSTANCE", kShareInstance,
     "SHARE_VALUE: number of the instance, and one, whose copy engines the subcontext's copies use; 0: those of none"},
}};
constexpr std::array<RegisterValue, 3> kShareModeList{{
    {"NONE", number(protocol::PartitionMode::none), "subcontexts share all TPCs without limits"},
    {"STATIC", number(protocol::PartitionMode::static_),
     "a TPC belongs to one subcontext: the one that has it enabled"},
    {"DYNAMIC", number(protocol::PartitionMode::dynamic), "credits bound how many TPCs a subcontext holds"},
}};

constexpr RegisterValues kShareCommands = values("SHARE_COMMAND", kShareCommandList);
constexpr std::array<RegisterValue, 9> kShareRefusalList{{
    {"NONE", number(protocol::ShareRefusal::none), "none was"},
    {"SUBCONTEXT", number(protocol::ShareRefusal::subcontext), "there is no such subcontext"},
    {"TPC", number(protocol::ShareRefusal::tpc), "the machine has no such TPC"},
    {"VALUE", number(protocol::ShareRefusal::value), "the value is out of range"},
    {"OVERLAP", number(protocol::ShareRefusal::overlap), "static mode: a TPC would belong to two subcontexts"},
    {"BLOCK", number(protocol::ShareRefusal::block), "the local-memory block is another's"},
    {"NO_MMU", number(protocol::ShareRefusal::no_mmu), "a page table, and the machine does not translate"},
    {"IN_USE", number(protocol::ShareRefusal::in_use), "CTAs use the local memory that would change"},
    {"BANDWIDTH", number(protocol::ShareRefusal::bandwidth),
     "the shares of bandwidth would be more than all, or a limit below a share"},
}};
constexpr RegisterValues kShareRefusals = values("SHARE_REFUSAL", kShareRefusalList);
constexpr RegisterValues kQueryModes = values("QUERY_MODE", kQueryModeList);
constexpr RegisterValues kQueryCommands = values("QUERY_COMMAND", kQueryCommandList);
constexpr RegisterValues kQueryStates = values("QUERY_STATE", kQueryStateList);
constexpr RegisterValues kShareModes = values("SHARE_MODE", kShareModeList);
constexpr RegisterValues kWindowCommands = values("WINDOW_COMMAND", kWindowCommandList);
constexpr RegisterValues kWindowAccesses = values("WINDOW_ACCESS", kWindowAccessList);
constexpr RegisterValues kCopyAccesses = values("COPY_ACCESS", kCopyAccessList);
constexpr RegisterValues kCopySenders = values("COPY_SENDER", kCopySenderList);
constexpr RegisterValues kQueueCommands = values("QUEUE_COMMAND", kQueueCommandList);
constexpr RegisterValues kQueueStates = values("QUEUE_STATE", kQueueStateList);
constexpr RegisterValues kStatuses = values("HSA", kStatusList);
constexpr RegisterValues kReasons = values("REASON", kReasonList);
constexpr RegisterValues kCopyKinds = values("COPY_KIND", kCopyKindList);
constexpr RegisterValues kCopyCommands = values("COPY_COMMAND", kCopyCommandList);
constexpr RegisterValues kCopyStates = values("COPY_STATE", kCopyStateList);

constexpr Register plain(Id id, const char* name, std::uint32_t offset, std::uint8_t bytes, Access access,
                         std::uint64_t reset, const char* description, const RegisterFields* of = nullptr,
                         const RegisterValues* list = nullptr) {
  return {id, name, offset, bytes, access, reset, false, Array::none, 1, 0, 1, of, list, description};
}
constexpr Register constant(Id id, const char* name, std::uint32_t offset, std::uint8_t bytes, std::uint64_t value,
                            const char* description, const RegisterFields* of = nullptr) {
  Register reg = plain(id, name, offset, bytes, Access::ro, value, description, of);
  reg.constant = true;
  return reg;
}
constexpr Register of_machine(Id id, const char* name, std::uint32_t offset, std::uint8_t bytes,
                              const char* description, const RegisterFields* of = nullptr) {
  return {id, name, offset, bytes, Access::ro, 0, true, Array::none, 1, 0, 1, of, nullptr, description};
}
constexpr Register channel(Id id, const char* name, std::uint32_t offset, std::uint8_t bytes, Access access,
                           const char* description, const RegisterFields* of = nullptr,
                           const RegisterValues* list = nullptr) {
  return {id,
          name,
          kCopyChannelBase + offset,
          bytes,
          access,
          0,
          false,
          Array::copy_channel,
          kCopyChannels,
          kCopyChannelStride,
          1,
          of,
          list,
          description};
}
constexpr Register queue(Id id, const char* name, std::uint32_t offset, std::uint8_t bytes, Access access,
                         const char* description, const RegisterFields* of = nullptr,
                         const RegisterValues* list = nullptr, std::uint32_t words = 1) {
  return {id,    name,         kQueueBase + offset,  bytes,        access, 0,
          false, Array::queue, protocol::kMaxQueues, kQueueStride, words,  of,
          list,  description};
}

constexpr std::array kRegisters{
    // Identification and configuration.
    constant(Id::magic, "MAGIC", 0x000, 4, kMagic, "\"HEDL\": this is the device"),
    constant(Id::version, "VERSION", 0x004, 4, kVersion, "of this register map", &kVersionFields),
    of_machine(Id::sms, "SMS", 0x008, 4, "SMs"),
    of_machine(Id::gpcs, "GPCS", 0x00C, 4, "GPCs"),
    of_machine(Id::queues, "QUEUES", 0x010, 4, "queues: registers of others are reserved"),
    of_machine(Id::copy_engines, "COPY_ENGINES", 0x014, 4, "copy engines"),
    of_machine(Id::memory_bytes, "MEMORY_BYTES", 0x018, 8, "bytes of device memory, and of bar1"),
    of_machine(Id::clock_mhz, "CLOCK_MHZ", 0x020, 4, "clock in MHz"),
    of_machine(Id::threads_limit, "THREADS_LIMIT", 0x024, 4, "threads that a CTA can have"),
    of_machine(Id::shared_limit, "SHARED_LIMIT", 0x028, 4, "bytes of shared memory that a CTA can have"),
    constant(Id::copy_channels, "COPY_CHANNELS", 0x02C, 4, kCopyChannels, "copy channels"),
    plain(Id::scratch, "SCRATCH", 0x030, 4, Access::rw, 0, "the driver's own: shows that the device has been reset"),
    of_machine(Id::clock_period, "CLOCK_PERIOD", 0x034, 4,
               "picoseconds of a cycle, as the simulation's time resolution lets it be"),
    of_machine(Id::timestamp, "TIMESTAMP", 0x038, 8,
               "time now, in ticks since the start of simulation; time stamps of signals are of the same clock"),
    constant(Id::timestamp_rate, "TIMESTAMP_RATE", 0x058, 8, kTimestampRate, "ticks in a second"),
    of_machine(Id::doorbell_page, "DOORBELL_PAGE", 0x08C, 4,
               "bytes of a page of doorbells: that of queue q of subcontext s is at DOORBELL + s * DOORBELL_PAGE"),
    of_machine(Id::packet_format, "PACKET_FORMAT", 0x15C, 4, "what condensed packets have to be written for",
               &kPacketFormatFields),
    // Interrupts.
    plain(Id::int_status, "INT_STATUS", 0x040, 4, Access::w1c, 0,
          "what has happened; the interrupt is high while a bit is set that INT_MASK has too", &kIntFields),
    plain(Id::int_mask, "INT_MASK", 0x044, 4, Access::rw, 0, "which bits raise the interrupt", &kIntFields),
    plain(Id::int_set, "INT_SET", 0x048, 4, Access::wo, 0, "sets bits of INT_STATUS, to test drivers", &kIntFields),
    plain(Id::int_pending, "INT_PENDING", 0x04C, 4, Access::ro, 0, "INT_STATUS and INT_MASK", &kIntFields),
    // Control and errors.
    plain(Id::control, "CONTROL", 0x050, 4, Access::wo, 0, "acts on the whole device", &kControlFields),
    plain(Id::status, "STATUS", 0x054, 4, Access::ro, 0, "of the whole device", &kStatusFields),
    plain(Id::error_count, "ERROR_COUNT", 0x060, 4, Access::ro, 0, "queue errors since the reset"),
    plain(Id::error_queue, "ERROR_QUEUE", 0x064, 4, Access::ro, kAbsent, "queue of the last one; 0xFFFFFFFF: none"),
    plain(Id::error_status, "ERROR_STATUS", 0x068, 4, Access::ro, 0, "its status code", nullptr, &kStatuses),
    plain(Id::error_kernel, "ERROR_KERNEL", 0x06C, 4, Access::ro, 0, "which kernel, if the packet is a condensed one"),
    plain(Id::error_index, "ERROR_INDEX", 0x070, 8, Access::ro, 0, "index of its packet"),
    plain(Id::error_reason, "ERROR_REASON", 0x07C, 4, Access::ro, 0, "why, in detail", nullptr, &kReasons),
    plain(Id::fault_count, "FAULT_COUNT", 0x078, 4, Access::ro, 0,
          "faults of kernels since the reset, whoever brought them"),
    // Events of signals.
    plain(Id::event, "EVENT", 0x080, 8, Access::ro, 0,
          "the oldest event id; a read takes it away (by halves: the read of the low half)", &kEventFields),
    plain(Id::event_count, "EVENT_COUNT", 0x088, 4, Access::ro, 0, "event ids that wait in EVENT"),
    // Errors of copies, by packets and by registers.
    plain(Id::copy_fault_count, "COPY_FAULT_COUNT", 0x090, 4, Access::ro, 0, "copies since the reset that ended badly"),
    plain(Id::copy_fault_access, "COPY_FAULT_ACCESS", 0x094, 4, Access::ro, 0, "of the last one: what failed", nullptr,
          &kCopyAccesses),
    plain(Id::copy_fault_address, "COPY_FAULT_ADDRESS", 0x098, 8, Access::ro, 0,
          "the first unified address of it that failed"),
    plain(Id::copy_fault_subcontext, "COPY_FAULT_SUBCONTEXT", 0x0A0, 4, Access::ro, 0, "whose copy it was",
          &kSubcontextFields),
    plain(Id::copy_fault_engine, "COPY_FAULT_ENGINE", 0x0A4, 4, Access::ro, kAbsent,
          "which engine; 0xFFFFFFFF: none, it was refused"),
    plain(Id::copy_fault_status, "COPY_FAULT_STATUS", 0x0A8, 4, Access::ro, 0, "its status code", nullptr, &kStatuses),
    plain(Id::copy_fault_sender, "COPY_FAULT_SENDER", 0x0AC, 4, Access::ro, 0, "where it came from", nullptr,
          &kCopySenders),
    // How subcontexts share the machine. What was asked for last can be read back; it may have been refused since.
    plain(Id::share_subcontext, "SHARE_SUBCONTEXT", 0x0B0, 4, Access::rw, 0,
          "which subcontext SHARE_COMMAND changes, and the registers below are about: 0 to 63", &kSubcontextFields),
    plain(Id::share_tpc, "SHARE_TPC", 0x0B4, 4, Access::rw, 0, "which TPC", &kTpcFields),
    plain(Id::share_value, "SHARE_VALUE", 0x0B8, 8, Access::rw, 0, "of the change"),
    plain(Id::share_command, "SHARE_COMMAND", 0x0C0, 4, Access::wo, 0, "carries a change out", nullptr,
          &kShareCommands),
    plain(Id::share_mode, "SHARE_MODE", 0x0C4, 4, Access::ro, kAbsent,
          "mode that was set; 0xFFFFFFFF, here and below: none since the reset, it is as the machine was started",
          nullptr, &kShareModes),
    plain(Id::share_credits, "SHARE_CREDITS", 0x0C8, 4, Access::ro, kAbsent, "credits set for the subcontext"),
    plain(Id::share_enabled, "SHARE_ENABLED", 0x0CC, 4, Access::ro, kAbsent, "1 or 0, set for the subcontext and TPC"),
    plain(Id::share_block, "SHARE_BLOCK", 0x0D0, 4, Access::ro, kAbsent, "block set for the subcontext and TPC"),
    plain(Id::share_warps, "SHARE_WARPS", 0x0D4, 4, Access::ro, kAbsent,
          "percent of an SM's warps set for the subcontext"),
    plain(Id::share_page_table, "SHARE_PAGE_TABLE", 0x0D8, 8, Access::ro, 0, "root set for the subcontext"),
    plain(Id::share_refused, "SHARE_REFUSED", 0x0E0, 4, Access::ro, 0, "changes since the reset that were refused"),
    plain(Id::share_refusal, "SHARE_REFUSAL", 0x0E4, 4, Access::ro, 0, "why the last one was", nullptr,
          &kShareRefusals),
    plain(Id::share_bandwidth, "SHARE_BANDWIDTH", 0x0E8, 4, Access::ro, kAbsent,
          "share of bandwidth set for the subcontext, in thousandths"),
    plain(Id::share_limit, "SHARE_LIMIT", 0x0EC, 4, Access::ro, kAbsent,
          "limit of bandwidth set for the subcontext, in thousandths"),
    plain(Id::share_local_address, "SHARE_LOCAL_ADDRESS", 0x0F0, 8, Access::ro, 0,
          "address of local memory set for the subcontext"),
    plain(Id::share_local_bytes, "SHARE_LOCAL_BYTES", 0x0F8, 4, Access::ro, 0,
          "local memory of a thread set for the subcontext"),
    plain(Id::share_sms, "SHARE_SMS", 0x0FC, 4, Access::ro, kAbsent, "percent of SMs set for the subcontext"),
    plain(Id::share_instance, "SHARE_INSTANCE", 0x158, 4, Access::ro, kAbsent,
          "instance set for the subcontext, and one; 0: none"),
    // How many CGAs of a kernel can be resident at once (CWD-24).
    plain(Id::query_threads, "QUERY_THREADS", 0x100, 4, Access::rw, 0, "threads of a CTA of the kernel"),
    plain(Id::query_registers, "QUERY_REGISTERS", 0x104, 4, Access::rw, 0,
          "registers of a thread; 0: they limit nothing"),
    plain(Id::query_shared, "QUERY_SHARED", 0x108, 4, Access::rw, 0, "bytes of shared memory of a CTA"),
    plain(Id::query_local, "QUERY_LOCAL", 0x10C, 4, Access::rw, 0, "bytes of local memory of a thread"),
    plain(Id::query_cpc, "QUERY_CPC", 0x110, 8, Access::rw, 0,
          "extents of a CPC_CGA; all 0, here and below: the kernel has no such level", &kExtentFields),
    plain(Id::query_gpc, "QUERY_GPC", 0x118, 8, Access::rw, 0, "extents of a GPC_CGA", &kExtentFields),
    plain(Id::query_ugpu, "QUERY_UGPU", 0x120, 8, Access::rw, 0, "extents of a uGPU_CGA", &kExtentFields),
    plain(Id::query_gpu, "QUERY_GPU", 0x128, 8, Access::rw, 0, "extents of a GPU_CGA", &kExtentFields),
    plain(Id::query_mode, "QUERY_MODE", 0x130, 4, Access::rw, 0, "how the CTAs of a CGA are placed", nullptr,
          &kQueryModes),
    plain(Id::query_subcontext, "QUERY_SUBCONTEXT", 0x134, 4, Access::rw, 0,
          "whose kernel it is: 0 to 63; what it may use of the machine counts, as if nothing else ran there",
          &kSubcontextFields),
    plain(Id::query_memory, "QUERY_MEMORY", 0x138, 4, Access::rw, 0, "what its CGAs take besides", &kQueryMemoryFields),
    plain(Id::query_command, "QUERY_COMMAND", 0x13C, 4, Access::wo, 0,
          "refused while the answer to another query is on its way", nullptr, &kQueryCommands),
    plain(Id::query_state, "QUERY_STATE", 0x140, 4, Access::ro, 0, "of the query", nullptr, &kQueryStates),
    plain(Id::query_status, "QUERY_STATUS", 0x144, 4, Access::ro, 0,
          "status code of the last query: INVALID_ARGUMENT (no threads, or no such shape of CGAs), OUT_OF_RESOURCES (a "
          "CTA is larger than an SM)",
          nullptr, &kStatuses),
    plain(Id::query_active, "QUERY_ACTIVE", 0x148, 8, Access::ro, 0,
          "outermost CGAs that can be resident at once; of a kernel without CGAs: CTAs; 0: not one fits"),
    plain(Id::query_largest, "QUERY_LARGEST", 0x150, 4, Access::ro, 0,
          "CTAs of the largest GPC_CGA of such CTAs of which one fits, in that mode"),
    // Which of the host's memory subcontexts reach (HST-06).
    plain(Id::window_subcontext, "WINDOW_SUBCONTEXT", 0x200, 4, Access::rw, 0, "whose windows WINDOW_COMMAND changes",
          &kSubcontextFields),
    plain(Id::window_rights, "WINDOW_RIGHTS", 0x204, 4, Access::rw, 0, "of the window", &kWindowRightsFields),
    plain(Id::window_address, "WINDOW_ADDRESS", 0x208, 8, Access::rw, 0,
          "unified address where it begins, in the host's memory; a multiple of 4096"),
    plain(Id::window_bytes, "WINDOW_BYTES", 0x210, 8, Access::rw, 0, "its bytes, a multiple of 4096"),
    plain(Id::window_command, "WINDOW_COMMAND", 0x218, 4, Access::wo, 0,
          "refused if the window makes no sense, or there is no room for it", nullptr, &kWindowCommands),
    plain(Id::window_isolated, "WINDOW_ISOLATED", 0x21C, 4, Access::ro, 0,
          "1: subcontexts other than 0 reach their windows only"),
    plain(Id::window_count, "WINDOW_COUNT", 0x220, 4, Access::ro, 0, "windows that there are, of all subcontexts"),
    plain(Id::window_fault_count, "WINDOW_FAULT_COUNT", 0x224, 4, Access::ro, 0,
          "requests to the host's memory since the reset that were in no window of their subcontext's"),
    plain(Id::window_fault_address, "WINDOW_FAULT_ADDRESS", 0x228, 8, Access::ro, 0,
          "of the last one: the first unified address that was in none"),
    plain(Id::window_fault_subcontext, "WINDOW_FAULT_SUBCONTEXT", 0x230, 4, Access::ro, 0, "whose request it was",
          &kSubcontextFields),
    plain(Id::window_fault_access, "WINDOW_FAULT_ACCESS", 0x234, 4, Access::ro, 0, "what it was", nullptr,
          &kWindowAccesses),
    // Copies.
    channel(Id::copy_from, "COPY_FROM", 0x00, 8, Access::rw, "unified address"),
    channel(Id::copy_to, "COPY_TO", 0x08, 8, Access::rw, "unified address"),
    channel(Id::copy_bytes, "COPY_BYTES", 0x10, 8, Access::rw, "bytes"),
    channel(Id::copy_value, "COPY_VALUE", 0x18, 4, Access::rw, "what a fill writes"),
    channel(Id::copy_kind, "COPY_KIND", 0x1C, 4, Access::rw, "what is done", nullptr, &kCopyKinds),
    channel(Id::copy_command, "COPY_COMMAND", 0x20, 4, Access::wo, "refused while the channel is busy", nullptr,
            &kCopyCommands),
    channel(Id::copy_state, "COPY_STATE", 0x24, 4, Access::ro, "of the channel", nullptr, &kCopyStates),
    channel(Id::copy_status, "COPY_STATUS", 0x28, 4, Access::ro, "status code of the last copy", nullptr, &kStatuses),
    channel(Id::copy_subcontext, "COPY_SUBCONTEXT", 0x2C, 4, Access::rw, "whose copy it is", &kSubcontextFields),
    channel(Id::copy_error_address, "COPY_ERROR_ADDRESS", 0x30, 8, Access::ro,
            "the first unified address that failed in the last copy"),
    channel(Id::copy_cycles, "COPY_CYCLES", 0x38, 8, Access::ro, "cycles that the last copy took in the engine"),
    // Doorbells.
    Register{
        Id::doorbell, "DOORBELL", kDoorbellBase, kDoorbellBytes, Access::wo, 0, false, Array::queue,
        protocol::kMaxQueues, kDoorbellBytes, 1, nullptr, nullptr,
        "there are packets; best, the index of the last one that is there. In the page of subcontext 0; the others "
        "follow, DOORBELL_PAGE bytes each. A queue's doorbell is in the page of its subcontext, and in no other. By "
        "halves: low, then high, with which it takes effect"},
    // Queues.
    queue(Id::queue_base, "QUEUE_BASE", 0x00, 8, Access::rw, "unified address of the ring, a multiple of 64"),
    queue(Id::queue_read_index_address, "QUEUE_READ_INDEX_ADDRESS", 0x08, 8, Access::rw,
          "unified address of the 64-bit read index that the device writes; 0: none"),
    queue(Id::queue_first, "QUEUE_FIRST", 0x10, 8, Access::rw, "index of the first packet"),
    queue(Id::queue_size, "QUEUE_SIZE", 0x18, 4, Access::rw, "packets: a power of two, 1 to 2^20"),
    queue(Id::queue_priority, "QUEUE_PRIORITY", 0x1C, 4, Access::rw, "signed; larger is more urgent"),
    queue(Id::queue_subcontext, "QUEUE_SUBCONTEXT", 0x20, 4, Access::rw,
          "whose queue it is, and in which page of doorbells", &kSubcontextFields),
    queue(Id::queue_command, "QUEUE_COMMAND", 0x24, 4, Access::wo, "opens, closes or inactivates the queue", nullptr,
          &kQueueCommands),
    queue(Id::queue_state, "QUEUE_STATE", 0x28, 4, Access::ro, "of the queue", nullptr, &kQueueStates),
    queue(Id::queue_error_status, "QUEUE_ERROR_STATUS", 0x2C, 4, Access::ro,
          "status code with which it stopped; 0 again when it is opened", nullptr, &kStatuses),
    queue(Id::queue_error_index, "QUEUE_ERROR_INDEX", 0x30, 8, Access::ro, "index of the packet that stopped it"),
    queue(Id::queue_error_kernel, "QUEUE_ERROR_KERNEL", 0x38, 4, Access::ro,
          "which kernel, if that packet is a condensed one"),
    queue(Id::queue_faults, "QUEUE_FAULTS", 0x3C, 4, Access::ro, "kernels of the queue that faulted since the reset"),
    queue(Id::queue_read_index, "QUEUE_READ_INDEX", 0x40, 8, Access::ro, "the packets before it have been taken"),
    queue(Id::queue_error_reason, "QUEUE_ERROR_REASON", 0x68, 4, Access::ro, "why it stopped, in detail", nullptr,
          &kReasons),
    queue(Id::agent_index, "AGENT_INDEX", 0x48, 8, Access::ro, "index of the first agent packet that waits"),
    queue(Id::agent_state, "AGENT_STATE", 0x50, 4, Access::ro, "agent packets that the host has", &kAgentFields),
    queue(Id::agent_take, "AGENT_TAKE", 0x58, 4, Access::wo,
          "the host takes the first agent packet: the next one is shown; refused if none waits. The value does not "
          "matter"),
    queue(Id::agent_done_index, "AGENT_DONE_INDEX", 0x60, 8, Access::rw, "which packet AGENT_DONE ends"),
    queue(Id::agent_done, "AGENT_DONE", 0x54, 4, Access::wo,
          "ends the agent packet AGENT_DONE_INDEX with this status code; refused if it has not been taken", nullptr,
          &kStatuses),
    queue(Id::agent_packet, "AGENT_PACKET", 0x80, 8, Access::ro,
          "the first agent packet that waits, eight 64-bit words of it", nullptr, nullptr, kAgentWords),
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRegisters.size(); ++i) {
    if (static_cast<std::size_t>(kRegisters[i].id) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table follows the order of RegisterId");
static_assert(kQueueBase + protocol::kMaxQueues * kQueueStride == kRegisterBytes, "queues end the registers");
static_assert(protocol::kMaxQueues * kDoorbellBytes <= kLeastDoorbellPage && kDoorbellPages == arch::kSubcontexts,
              "every subcontext has a page with room for a doorbell of each queue");

// For every word of 32 bits: its place. Built once; constant afterwards.
struct Map {
  std::array<RegisterPlace, kRegisterBytes / 4> words{};
  Map() {
    for (const Register& reg : kRegisters) {
      if (reg.id == Id::doorbell) continue;
      for (std::uint32_t i = 0; i < reg.count; ++i) {
        for (std::uint32_t w = 0; w < reg.words; ++w) {
          for (std::uint32_t byte = 0; byte < reg.bytes; byte += 4) {
            RegisterPlace& place = words[(offset_of(reg.id, i, w) + byte) / 4];
            HEDDLE_CHECK(place.reg == nullptr, "two registers share an offset");
            place = {&reg, i, w, byte};
          }
        }
      }
    }
  }
};

}  // namespace

const char* access_text(RegisterAccess access) {
  switch (access) {
    case RegisterAccess::ro:
      return "ro";
    case RegisterAccess::rw:
      return "rw";
    case RegisterAccess::w1c:
      return "w1c";
    case RegisterAccess::wo:
      return "wo";
  }
  return "?";
}

RegisterTable register_table() { return {kRegisters.data(), static_cast<std::uint32_t>(kRegisters.size())}; }

const Register& register_of(RegisterId id) { return kRegisters[static_cast<std::size_t>(id)]; }

std::uint64_t bits_of(const Register& reg) {
  if (reg.fields == nullptr) return reg.bytes == 8 ? ~std::uint64_t{0} : 0xFFFF'FFFFU;
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < reg.fields->count; ++i) {
    const RegisterField& field = reg.fields->fields[i];
    bits |= ((std::uint64_t{1} << field.bits) - 1) << field.first;
  }
  return bits;
}

RegisterPlace register_at(std::uint64_t offset, std::uint32_t doorbell_page) {
  static const Map kMap;
  if (offset >= kDoorbellBase && offset < bar0_bytes(doorbell_page)) {
    const auto at = static_cast<std::uint32_t>(offset) - kDoorbellBase;
    const std::uint32_t in_page = at % doorbell_page;
    if (in_page / kDoorbellBytes >= protocol::kMaxQueues) return {};
    return {&register_of(Id::doorbell), in_page / kDoorbellBytes, at / doorbell_page, in_page % kDoorbellBytes};
  }
  if (offset >= kRegisterBytes) return {};
  RegisterPlace place = kMap.words[static_cast<std::size_t>(offset / 4)];
  place.byte += static_cast<std::uint32_t>(offset % 4);
  return place;
}

std::uint32_t offset_of(RegisterId id, std::uint32_t index, std::uint32_t word) {
  const Register& reg = register_of(id);
  return reg.offset + index * reg.stride + word * reg.bytes;
}

}  // namespace heddle::host
