#include "host/share_registers.h"

#include "arch/kernel_record.h"

namespace heddle::host {
namespace {

using Id = RegisterId;

constexpr std::uint64_t kLowHalf = 0xFFFF'FFFF;

}  // namespace

std::uint64_t ShareRegisters::key_of(RegisterId id) const {
  const std::uint64_t what = static_cast<std::uint64_t>(id) << 40;
  if (id == Id::share_mode) return what;
  const std::uint64_t whose = what | values_.at(Id::share_subcontext) << 32;
  return id == Id::share_credits || id == Id::share_page_table ? whose : whose | values_.at(Id::share_tpc);
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
  packet.tpc = values_.at32(Id::share_tpc) & ((1U << kShareGpcBit) - 1);
  packet.gpc = values_.at32(Id::share_tpc) >> kShareGpcBit;
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
    default:
      return std::nullopt;
  }
  const bool wide = register_id == Id::share_page_table;
  if (packet.subcontext >= arch::kSubcontexts || (!wide && value > kLowHalf)) return std::nullopt;
  asked_[key_of(register_id)] = value;
  return packet;
}

}  // namespace heddle::host
