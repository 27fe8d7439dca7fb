#include "host/register_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arch/task_record.h"
#include "common/error.h"

namespace heddle::host {
namespace {

using Id = RegisterId;
using protocol::QueueCommand;
using protocol::QueueCommandPacket;
using protocol::QueueEvent;
using protocol::QueueEventPacket;
using protocol::QueueState;

constexpr std::uint64_t kLowHalf = 0xFFFF'FFFF;

// What a command has become goes to the machine, if it is any good.
template <class Packet>
RegisterResult pass_on(const std::optional<Packet>& packet, RegisterEffects& effects,
                       void (RegisterEffects::*effect)(const Packet&)) {
  if (!packet) return RegisterResult::refused;
  (effects.*effect)(*packet);
  return RegisterResult::ok;
}

}  // namespace

std::uint64_t ShareRegisters::key_of(RegisterId id) const {
  const std::uint64_t what = static_cast<std::uint64_t>(id) << 40;
  if (id == Id::share_mode) return what;
  const std::uint64_t whose = what | values_.at(Id::share_subcontext) << 32;
  const bool of_tpc = id == Id::share_enabled || id == Id::share_block;
  return of_tpc ? whose | values_.at(Id::share_tpc) : whose;
}

std::uint64_t ShareRegisters::shown(RegisterId id) const {
  const auto found = asked_.find(key_of(id));
  return found != asked_.end() ? found->second : register_of(id).reset;
}

std::optional<protocol::SubcontextPacket> ShareRegisters::command(std::uint64_t command) {
  using What = protocol::SubcontextPacket::What;
  const std::uint64_t value = values_.at(Id::share_value);
  protocol::SubcontextPacket packet;
  packet.subcontext = static_cast<std::uint8_t>(values_.at(Id::share_subcontext));
  packet.tpc = protocol::TpcInGpc(values_.at32(Id::share_tpc) & ((1U << kShareGpcBit) - 1));
  packet.gpc = protocol::GpcId(values_.at32(Id::share_tpc) >> kShareGpcBit);
  packet.value = value;
  Id register_id = Id::share_mode;
  switch (command) {
    case kShareMode:
      if (value >= register_of(Id::share_mode).values->count) return std::nullopt;
      packet.what = What::mode;
      packet.mode = static_cast<protocol::PartitionMode>(value);
      break;
    case kShareCredits:
      packet.what = What::credits;
      register_id = Id::share_credits;
      break;
    case kShareEnable:
      packet.what = What::enable;
      register_id = Id::share_enabled;
      break;
    case kShareBlock:
      packet.what = What::block;
      register_id = Id::share_block;
      break;
    case kSharePageTable:
      packet.what = What::page_table;
      register_id = Id::share_page_table;
      break;
    case kShareLocalAddress:
      packet.what = What::local_address;
      register_id = Id::share_local_address;
      break;
    case kShareLocalBytes:
      packet.what = What::local_bytes;
      register_id = Id::share_local_bytes;
      break;
    case kShareSms:
      packet.what = What::sms;
      register_id = Id::share_sms;
      break;
    case kShareWarps:
      packet.what = What::warps;
      register_id = Id::share_warps;
      break;
    case kShareBandwidth:
      packet.what = What::bandwidth;
      register_id = Id::share_bandwidth;
      break;
    case kShareLimit:
      packet.what = What::bandwidth_limit;
      register_id = Id::share_limit;
      break;
    case kShareInstance:
      packet.what = What::instance;
      register_id = Id::share_instance;
      break;
    default:
      return std::nullopt;
  }
  const bool wide = register_id == Id::share_page_table || register_id == Id::share_local_address;
  if (packet.subcontext >= arch::kSubcontexts || (!wide && value > kLowHalf)) return std::nullopt;
  asked_[key_of(register_id)] = value;
  return packet;
}

void ShareRegisters::save(StateWriter& to) const {
  to.number(asked_.size());
  for (const auto& [key, value] : asked_) {
    to.number(key);
    to.number(value);
  }
}

void ShareRegisters::restore(StateReader& from) {
  constexpr std::uint64_t kMostAsked = std::uint64_t{1} << 20;  // more than a machine has TPCs for all subcontexts
  asked_.clear();
  for (std::uint64_t left = from.below(kMostAsked, "the number of shares"); left > 0; --left) {
    const std::uint64_t key = from.number();
    asked_[key] = from.number();
  }
}

bool QueryRegisters::accepts(std::uint64_t command) const {
  return command == kQueryStart && values_.at(Id::query_state) != kQueryBusy &&
         values_.at(Id::query_mode) < register_of(Id::query_mode).values->count &&
         values_.at(Id::query_subcontext) < arch::kSubcontexts;
}

arch::KernelShape QueryRegisters::kernel() const {
  arch::KernelShape kernel;
  kernel.block = {values_.at32(Id::query_threads), 1, 1};
  kernel.registers_per_thread = values_.at32(Id::query_registers);
  kernel.shared_bytes = values_.at32(Id::query_shared);
  kernel.local_bytes = values_.at32(Id::query_local);
  constexpr std::pair<Id, arch::CgaLevel> kLevels[] = {{Id::query_cpc, arch::CgaLevel::cpc},
                                                       {Id::query_gpc, arch::CgaLevel::gpc},
                                                       {Id::query_ugpu, arch::CgaLevel::ugpu},
                                                       {Id::query_gpu, arch::CgaLevel::gpu}};
  for (const auto& [id, level] : kLevels) {
    const std::uint64_t extents = values_.at(id);
    kernel.cluster.of(level) = {static_cast<std::uint32_t>(extents & kLowHalf),
                                static_cast<std::uint32_t>(extents >> kExtentYBit & 0xFFFF),
                                static_cast<std::uint32_t>(extents >> kExtentZBit)};
  }
  kernel.cluster.mode = static_cast<arch::CgaMode>(values_.at(Id::query_mode));
  kernel.cluster.linear_memory = values_.at(Id::query_memory) != 0;
  return kernel;
}

void QueryRegisters::end(arch::HsaStatus status) {
  values_.at(Id::query_status) = static_cast<std::uint64_t>(status);
  values_.at(Id::query_state) = status == arch::HsaStatus::success ? kQueryDone : kQueryError;
}

std::optional<protocol::OccupancyQueryPacket> QueryRegisters::start() {
  values_.at(Id::query_active) = values_.at(Id::query_largest) = values_.at(Id::query_status) = 0;
  const arch::KernelShape asked = kernel();
  // Some extents of a level, and not all: no such shape.
  const auto& extents = asked.cluster.extents;
  const bool partial = std::any_of(extents.begin(), extents.end(), [](const arch::Dim3& level) {
    return level.count() == 0 && level != arch::kNoExtents;
  });
  if (asked.block.count() == 0 || partial) {
    end(arch::HsaStatus::invalid_argument);
    return std::nullopt;
  }
  if (!arch::why_impossible(limits_, asked).empty()) {
    end(arch::HsaStatus::out_of_resources);
    return std::nullopt;
  }
  values_.at(Id::query_state) = kQueryBusy;
  protocol::OccupancyQueryPacket packet;
  packet.need = arch::need_of(limits_, asked);
  packet.cluster = asked.cluster;
  packet.local_memory = asked.local_bytes > 0;
  packet.largest = true;
  packet.subcontext = static_cast<std::uint8_t>(values_.at(Id::query_subcontext));
  return packet;
}

void QueryRegisters::take(const protocol::OccupancyAnswerPacket& answer) {
  HEDDLE_CHECK(values_.at(Id::query_state) == kQueryBusy, "an answer to a query that nobody has asked");
  values_.at(Id::query_active) = answer.active;
  values_.at(Id::query_largest) = answer.largest;
  end(answer.well_formed ? arch::HsaStatus::success : arch::HsaStatus::invalid_argument);
}

void EventQueue::save(StateWriter& to) const {
  to.number(ids_.size());
  for (const std::uint32_t id : ids_) to.number(id);
}

void EventQueue::restore(StateReader& from) {
  ids_.clear();
  for (std::uint64_t left = from.below(most_ + std::uint64_t{1}, "the number of event ids"); left > 0; --left) {
    ids_.push_back(static_cast<std::uint32_t>(from.below(std::uint64_t{1} << 32, "an event id")));
  }
}

void Doorbells::save(StateWriter& to) const {
  for (const std::uint8_t page : page_) to.number(page);
  for (const std::uint32_t low : low_) to.number(low);
}

void Doorbells::restore(StateReader& from) {
  // A queue may have been refused for its subcontext, which has no page.
  for (std::uint8_t& page : page_) page = static_cast<std::uint8_t>(from.below(256, "a doorbell's page"));
  for (std::uint32_t& low : low_) {
    low = static_cast<std::uint32_t>(from.below(std::uint64_t{1} << 32, "half a doorbell"));
  }
}

void AgentRegisters::arrive(const QueueEventPacket& packet) {
  queues_[packet.queue].waiting.push_back({packet.index, packet.packet});
  show(packet.queue);
}

bool AgentRegisters::take(std::uint32_t queue) {
  Queue& its = queues_[queue];
  if (its.waiting.empty()) return false;
  its.taken.insert(its.waiting.front().index);
  its.waiting.pop_front();
  show(queue);
  return true;
}

bool AgentRegisters::end(std::uint32_t queue, std::uint64_t index) {
  if (queues_[queue].taken.erase(index) == 0) return false;
  show(queue);
  return true;
}

void AgentRegisters::forget(std::uint32_t queue) {
  queues_[queue] = {};
  show(queue);
}

void AgentRegisters::show(std::uint32_t queue) {
  const Queue& its = queues_[queue];
  values_.at(Id::agent_state, queue) = its.waiting.size() | std::uint64_t{its.taken.size()} << kAgentsTakenBit;
  if (its.waiting.empty()) return;
  values_.at(Id::agent_index, queue) = its.waiting.front().index;
  for (std::uint32_t word = 0; word < kAgentWords; ++word) {
    std::memcpy(&values_.at(Id::agent_packet, queue, word), its.waiting.front().packet.data() + std::size_t{8} * word,
                8);
  }
}

std::optional<protocol::HostWindowPacket> WindowRegisters::command(std::uint64_t command) {
  using What = protocol::HostWindowPacket::What;
  protocol::HostWindowPacket packet;
  switch (command) {
    case kWindowOpen:
      packet.what = What::open;
      break;
    case kWindowClose:
      packet.what = What::close;
      break;
    case kWindowIsolate:
      packet.what = What::isolate;
      break;
    case kWindowShare:
      packet.what = What::share;
      break;
    default:
      return std::nullopt;
  }
  packet.subcontext = static_cast<std::uint8_t>(values_.at(Id::window_subcontext));
  packet.address = values_.at(Id::window_address);
  packet.bytes = values_.at(Id::window_bytes);
  packet.reads = (values_.at(Id::window_rights) & kWindowReads) != 0;
  packet.writes = (values_.at(Id::window_rights) & kWindowWrites) != 0;
  if (!windows_.change(packet)) return std::nullopt;
  values_.at(Id::window_isolated) = windows_.isolated() ? 1 : 0;
  values_.at(Id::window_count) = windows_.count();
  return packet;
}

void WindowRegisters::take(const WindowFault& fault) {
  values_.at(Id::window_fault_count) = (values_.at(Id::window_fault_count) + 1) & kLowHalf;
  values_.at(Id::window_fault_address) = fault.address;
  values_.at(Id::window_fault_subcontext) = fault.subcontext;
  values_.at(Id::window_fault_access) = fault.write ? 1 : 0;
}

RegisterFile::RegisterFile(const DeviceIdentity& identity, std::uint32_t event_fifo, RegisterEffects& effects)
    : identity_(identity),
      effects_(effects),
      shares_(values_),
      query_(values_, identity_.limits),
      agents_(values_),
      windows_(values_, identity.host_windows),
      events_(event_fifo) {
  HEDDLE_CHECK(identity.queues <= protocol::kMaxQueues, "more queues than the registers have room for");
  reset();
}

void RegisterFile::reset() {
  values_.reset();
  values_.at(Id::sms) = identity_.sms;
  values_.at(Id::gpcs) = identity_.gpcs;
  values_.at(Id::queues) = identity_.queues;
  values_.at(Id::copy_engines) = identity_.copy_engines;
  values_.at(Id::memory_bytes) = identity_.memory;
  values_.at(Id::clock_mhz) = identity_.clock_mhz;
  values_.at(Id::clock_period) = identity_.clock_period;
  values_.at(Id::doorbell_page) = identity_.doorbell_page;
  values_.at(Id::packet_format) = identity_.packet_format;
  values_.at(Id::threads_limit) = identity_.limits.max_threads_per_cta;
  values_.at(Id::shared_limit) = identity_.limits.max_shared_per_cta;
  events_.clear();
  latch_ = {};
  shares_.reset();
  doorbells_ = {};
  windows_.reset();
  opened_at_ = {};
  agents_.reset();
}

std::uint32_t RegisterFile::pending() const { return values_.at32(Id::int_status) & values_.at32(Id::int_mask); }
void RegisterFile::raise(std::uint32_t bits) { values_.at(Id::int_status) |= bits; }

// A process that rings in its own page reaches its own queues (PKT-14).
bool RegisterFile::exists(std::uint64_t offset) const {
  const RegisterPlace place = register_at(offset, identity_.doorbell_page);
  if (place.reg == nullptr) return false;
  if (place.reg->array == RegisterArray::queue && place.index >= identity_.queues) return false;
  return place.reg->id != Id::doorbell || doorbells_.has(place);
}

RegisterResult RegisterFile::locate(std::uint64_t offset, std::uint32_t bytes, RegisterPlace& place) const {
  if (!exists(offset)) return RegisterResult::address;
  place = register_at(offset, identity_.doorbell_page);
  if ((bytes != 4 && bytes != 8) || offset % bytes != 0 || bytes > place.reg->bytes) return RegisterResult::burst;
  return RegisterResult::ok;
}

// The value without the effects of a read.
std::uint64_t RegisterFile::shown(const RegisterPlace& place) const {
  if (place.reg->access == RegisterAccess::wo) return 0;
  switch (place.reg->id) {
    case Id::int_pending:
      return pending();
    case Id::status:
    case Id::timestamp:
      return effects_.live(place.reg->id);
    case Id::event:
      return events_.first();
    case Id::event_count:
      return events_.size();
    case Id::share_mode:
    case Id::share_credits:
    case Id::share_enabled:
    case Id::share_block:
    case Id::share_page_table:
    case Id::share_local_address:
    case Id::share_local_bytes:
    case Id::share_sms:
    case Id::share_warps:
    case Id::share_bandwidth:
    case Id::share_limit:
    case Id::share_instance:
      return shares_.shown(place.reg->id);
    default:
      return values_.at(place.reg->id, place.index, place.word);
  }
}

std::uint64_t RegisterFile::read_whole(const RegisterPlace& place) {
  const std::uint64_t value = shown(place);
  if (place.reg->id == Id::event) events_.take();
  return value;
}

RegisterResult RegisterFile::read(std::uint64_t offset, std::uint32_t bytes, std::uint64_t& value) {
  RegisterPlace place;
  const RegisterResult result = locate(offset, bytes, place);
  if (result != RegisterResult::ok) return result;
  const Register& reg = *place.reg;
  if (reg.access == RegisterAccess::wo) return RegisterResult::command;
  if (bytes == reg.bytes) {
    value = read_whole(place);
  } else if (place.byte == 0) {
    const std::uint64_t whole = read_whole(place);
    value = whole & kLowHalf;
    if (reg.access == RegisterAccess::ro) {
      latch_ = {&reg, place.index, place.word, static_cast<std::uint32_t>(whole >> 32)};
    }
  } else if (latch_.reg == &reg && latch_.index == place.index && latch_.word == place.word) {
    value = latch_.high;
    latch_ = {};
  } else {
    value = shown(place) >> 32;
  }
  return RegisterResult::ok;
}

std::uint8_t RegisterFile::peek(std::uint64_t offset) const {
  if (!exists(offset)) return 0;
  const RegisterPlace place = register_at(offset, identity_.doorbell_page);
  return static_cast<std::uint8_t>(shown(place) >> (8 * place.byte));
}

RegisterResult RegisterFile::write(std::uint64_t offset, std::uint32_t bytes, std::uint64_t value) {
  RegisterPlace place;
  const RegisterResult result = locate(offset, bytes, place);
  if (result != RegisterResult::ok) return result;
  const Register& reg = *place.reg;
  switch (reg.access) {
    case RegisterAccess::ro:
      return RegisterResult::command;
    case RegisterAccess::w1c:
      values_.at(reg.id, place.index, place.word) &= ~value;
      return RegisterResult::ok;
    case RegisterAccess::wo:
      return act(place, bytes, value);
    case RegisterAccess::rw:
      break;
  }
  std::uint64_t& kept = values_.at(reg.id, place.index, place.word);
  if (bytes < reg.bytes) {
    const std::uint32_t shift = place.byte * 8;
    value = (kept & ~(kLowHalf << shift)) | (value & kLowHalf) << shift;
  }
  kept = value & bits_of(reg);
  return RegisterResult::ok;
}

RegisterResult RegisterFile::act(const RegisterPlace& place, std::uint32_t bytes, std::uint64_t value) {
  switch (place.reg->id) {
    case Id::int_set:
      raise(static_cast<std::uint32_t>(value) & kIntAll);
      return RegisterResult::ok;
    case Id::control:
      if ((value & kControlSoftReset) != 0) effects_.soft_reset();
      return RegisterResult::ok;
    case Id::doorbell:
      ring(place, bytes, value);
      return RegisterResult::ok;
    case Id::queue_command:
      return command_queue(place.index, value);
    case Id::copy_command:
      return command_copy(place.index, value);
    case Id::share_command:
      return pass_on(shares_.command(value), effects_, &RegisterEffects::share);
    case Id::window_command:
      return pass_on(windows_.command(value), effects_, &RegisterEffects::change_windows);
    case Id::query_command:
      return command_query(value);
    case Id::agent_take:
      return agents_.take(place.index) ? RegisterResult::ok : RegisterResult::refused;
    case Id::agent_done:
      return end_agent(place.index, value);
    default:
      break;
  }
  HEDDLE_CHECK(false, "a register without an effect");
  return RegisterResult::refused;
}

void RegisterFile::ring(const RegisterPlace& place, std::uint32_t bytes, std::uint64_t value) {
  const std::optional<std::uint64_t> index = doorbells_.write(place, bytes, value);
  if (!index) return;
  QueueCommandPacket packet;
  packet.command = QueueCommand::doorbell;
  packet.queue = place.index;
  packet.index = *index;
  effects_.queue_command(packet);
}

RegisterResult RegisterFile::command_queue(std::uint32_t queue, std::uint64_t value) {
  QueueCommandPacket packet;
  packet.queue = queue;
  if (value == kQueueClose) {
    packet.command = QueueCommand::close;
  } else if (value == kQueueInactivate) {
    packet.command = QueueCommand::inactivate;
  } else if (value == kQueueOpen) {
    packet.command = QueueCommand::open;
    packet.setup.base = values_.at(Id::queue_base, queue);
    packet.setup.size = values_.at32(Id::queue_size, queue);
    packet.setup.read_index = values_.at(Id::queue_read_index_address, queue);
    packet.setup.first = values_.at(Id::queue_first, queue);
    packet.setup.priority = static_cast<std::int32_t>(values_.at32(Id::queue_priority, queue));
    packet.setup.subcontext = static_cast<std::uint8_t>(values_.at(Id::queue_subcontext, queue));
    // One that is open stays as it is, and the command is refused.
    if (values_.at(Id::queue_state, queue) != static_cast<std::uint64_t>(QueueState::active)) {
      opened_at_[queue] = packet.setup.first;
      doorbells_.give(queue, packet.setup.subcontext);
    }
  } else {
    return RegisterResult::refused;
  }
  effects_.queue_command(packet);
  return RegisterResult::ok;
}

RegisterResult RegisterFile::command_copy(std::uint32_t channel, std::uint64_t value) {
  const std::uint64_t kind = values_.at(Id::copy_kind, channel);
  const auto known = register_of(Id::copy_kind).values->count;
  if (value != kCopyStart || kind >= known || values_.at(Id::copy_state, channel) == kCopyBusy ||
      values_.at(Id::copy_subcontext, channel) >= arch::kSubcontexts) {
    return RegisterResult::refused;
  }
  protocol::CopyRequestPacket packet;
  packet.tag = channel;
  packet.kind = static_cast<protocol::CopyKind>(kind);
  packet.from = values_.at(Id::copy_from, channel);
  packet.to = values_.at(Id::copy_to, channel);
  packet.bytes = values_.at(Id::copy_bytes, channel);
  packet.value = values_.at32(Id::copy_value, channel);
  packet.subcontext = static_cast<std::uint8_t>(values_.at(Id::copy_subcontext, channel));
  values_.at(Id::copy_state, channel) = kCopyBusy;
  values_.at(Id::copy_status, channel) = values_.at(Id::copy_error_address, channel) =
      values_.at(Id::copy_cycles, channel) = 0;
  effects_.start_copy(packet);
  return RegisterResult::ok;
}

RegisterResult RegisterFile::end_agent(std::uint32_t queue, std::uint64_t status) {
  QueueCommandPacket packet;
  packet.command = QueueCommand::agent_done;
  packet.queue = queue;
  packet.index = values_.at(Id::agent_done_index, queue);
  if (!agents_.end(queue, packet.index)) return RegisterResult::refused;
  packet.status = static_cast<std::uint32_t>(status);
  effects_.queue_command(packet);
  return RegisterResult::ok;
}

RegisterResult RegisterFile::command_query(std::uint64_t command) {
  if (!query_.accepts(command)) return RegisterResult::refused;
  if (const auto packet = query_.start()) {
    effects_.ask(*packet);
  } else {
    raise(kIntQueryDone);
  }
  return RegisterResult::ok;
}

void RegisterFile::take(const QueueEventPacket& packet) {
  HEDDLE_CHECK(packet.queue < identity_.queues, "an event of a queue that is not there");
  switch (packet.event) {
    case QueueEvent::state:
      take_state(packet);
      break;
    case QueueEvent::read:
      values_.at(Id::queue_read_index, packet.queue) = packet.index;
      break;
    case QueueEvent::agent:
      agents_.arrive(packet);
      raise(kIntAgent);
      break;
    case QueueEvent::signal:
      raise(events_.enter(packet.event_id) ? kIntSignal : kIntSignal | kIntOverflow);
      break;
    case QueueEvent::fault:
      ++values_.at(Id::queue_faults, packet.queue);
      raise(kIntFault);
      break;
  }
}

void RegisterFile::take_state(const QueueEventPacket& packet) {
  const std::uint32_t queue = packet.queue;
  std::uint64_t& state = values_.at(Id::queue_state, queue);
  const auto before = static_cast<QueueState>(state);
  state = static_cast<std::uint64_t>(packet.state);
  if (packet.state == QueueState::error || packet.status != arch::HsaStatus::success) {
    take_error(packet);
    return;
  }
  if (packet.state == QueueState::active && before != QueueState::active) {
    values_.at(Id::queue_error_status, queue) = values_.at(Id::queue_error_index, queue) =
        values_.at(Id::queue_error_kernel, queue) = values_.at(Id::queue_error_reason, queue) = 0;
    values_.at(Id::queue_read_index, queue) = opened_at_[queue];
  }
  const bool ended = packet.state == QueueState::closed || packet.state == QueueState::inactive;
  if (!ended || before == packet.state) return;
  agents_.forget(queue);
  raise(kIntQueueClosed);
}

void RegisterFile::take_error(const QueueEventPacket& packet) {
  const auto status = static_cast<std::uint64_t>(packet.status);
  values_.at(Id::queue_error_status, packet.queue) = values_.at(Id::error_status) = status;
  values_.at(Id::queue_error_index, packet.queue) = values_.at(Id::error_index) = packet.index;
  values_.at(Id::queue_error_kernel, packet.queue) = values_.at(Id::error_kernel) = packet.kernel;
  const auto reason = static_cast<std::uint64_t>(packet.reason);
  values_.at(Id::queue_error_reason, packet.queue) = values_.at(Id::error_reason) = reason;
  values_.at(Id::error_queue) = packet.queue;
  values_.at(Id::error_count) = (values_.at(Id::error_count) + 1) & kLowHalf;
  raise(kIntQueueError);
}

void RegisterFile::take(const protocol::CopyDonePacket& packet) {
  HEDDLE_CHECK(packet.tag < kCopyChannels && values_.at(Id::copy_state, packet.tag) == kCopyBusy,
               "a copy is done that no channel asked for");
  const bool well = packet.status == arch::HsaStatus::success;
  values_.at(Id::copy_state, packet.tag) = well ? kCopyDone : kCopyError;
  values_.at(Id::copy_status, packet.tag) = static_cast<std::uint64_t>(packet.status);
  values_.at(Id::copy_error_address, packet.tag) = well ? 0 : packet.address;
  values_.at(Id::copy_cycles, packet.tag) = packet.end - packet.start;
  raise(well ? kIntCopyDone : kIntCopyError);
}

void RegisterFile::take(const CopyFault& fault) {
  values_.at(Id::copy_fault_count) = (values_.at(Id::copy_fault_count) + 1) & kLowHalf;
  values_.at(Id::copy_fault_access) = fault.write ? 1 : 0;
  values_.at(Id::copy_fault_address) = fault.address;
  values_.at(Id::copy_fault_subcontext) = fault.subcontext;
  values_.at(Id::copy_fault_engine) = fault.engine.value_or(kAbsent);
  values_.at(Id::copy_fault_status) = static_cast<std::uint64_t>(fault.status);
  values_.at(Id::copy_fault_sender) = fault.sender;
}

void RegisterFile::take(const protocol::OccupancyAnswerPacket& answer) {
  query_.take(answer);
  raise(kIntQueryDone);
}

void RegisterFile::take(protocol::ShareRefusal why) {
  values_.at(Id::share_refused) = (values_.at(Id::share_refused) + 1) & kLowHalf;
  values_.at(Id::share_refusal) = static_cast<std::uint64_t>(why);
}

void RegisterFile::note_fault() {
  values_.at(Id::fault_count) = (values_.at(Id::fault_count) + 1) & kLowHalf;
  raise(kIntFault);
}

}  // namespace heddle::host
