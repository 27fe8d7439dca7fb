#include "sm/dsmem_access.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "common/bits.h"
#include "protocol/memory_request.h"
#include "sm/bulk_data.h"
#include "sm/lane_data.h"

namespace heddle::sm {
namespace {

using arch::DsmemStatus;
using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kWarpLanes;
using arch::OpCode;
using arch::Operation;
using protocol::AtomicLane;
using protocol::MemoryAction;
using protocol::MemoryExtension;
using protocol::MemoryRequest;

bool is_mbarrier(OpCode code) {
  return code == OpCode::mbarrier_arrive || code == OpCode::mbarrier_expect || code == OpCode::mbarrier_complete;
}

MemoryAction action_of(const Operation& operation) {
  switch (operation.code) {
    case OpCode::mbarrier_arrive:
      return MemoryAction::mbarrier_arrive;
    case OpCode::mbarrier_expect:
      return MemoryAction::mbarrier_expect;
    case OpCode::mbarrier_complete:
      return MemoryAction::mbarrier_complete;
    case OpCode::atomic:
      return operation.destination == arch::kNoRegister ? MemoryAction::reduce : MemoryAction::atomic;
    default:
      return MemoryAction::plain;
  }
}

void fill_bytes(MemoryRequest& request, const Operation& operation, const LineAccess& line, std::uint32_t first) {
  alignas(8) std::array<std::uint8_t, kLineBytes> bytes;  // NOLINT(*-init-variables): filled where it counts
  alignas(8) std::array<std::uint8_t, kLineBytes> enables;
  take_line(operation, line, bytes.data(), enables.data());
  const std::uint32_t length = request.get_data_length();
  std::memcpy(request.data.data(), bytes.data() + first, length);
  const std::uint8_t* begin = enables.data() + first;
  if (std::memchr(begin, 0, length) != nullptr) std::memcpy(request.use_enables(), begin, length);
}

// Lanes that meet at one word take turns.
std::uint32_t turns_of(const MemoryExtension& extension, std::uint32_t width) {
  std::array<std::uint8_t, kWarpLanes> count{};
  std::uint8_t most = 1;
  for (std::uint32_t i = 0; i < extension.lanes; ++i) {
    most = std::max(most, ++count[extension.lane[i].offset / std::max(width, kBankBytes)]);
  }
  return most;
}

// A bulk send belongs to the asynchronous proxy, another CTA's access to the generic one (TMA-41).
void will_write(SharedMemory& memory, std::uint32_t window, MemoryExtension& extension, std::uint64_t offset,
                std::uint32_t bytes) {
  if (!extension.bulk.any()) memory.will_write(window, static_cast<std::uint32_t>(offset), bytes, std::nullopt);
}

void write(SharedMemory& memory, std::uint32_t window, MemoryRequest& request) {
  will_write(memory, window, request.extension, request.get_address(), request.get_data_length());
  const std::uint64_t offset = request.get_address();
  const std::uint32_t bytes = request.get_data_length();
  std::uint8_t* to = memory.data(window) + offset;
  const std::uint8_t* enables = request.get_byte_enable_ptr();
  if (enables == nullptr) {
    std::memcpy(to, request.data.data(), bytes);
  } else {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (enables[i] != 0) to[i] = request.data[i];
    }
  }
  memory.covered(window, offset, bytes, enables);
  if (request.extension.bulk.any()) memory.async_wrote(window, static_cast<std::uint32_t>(offset), bytes);
}

void change(SharedMemory& memory, std::uint32_t window, std::uint64_t line, MemoryExtension& extension) {
  const std::uint32_t width = arch::bytes_of(extension.type);
  std::uint8_t* bytes = memory.data(window) + line;
  for (std::uint32_t i = 0; i < extension.lanes; ++i) {
    AtomicLane& lane = extension.lane[i];
    will_write(memory, window, extension, line + lane.offset, width);
    lane.old = 0;
    std::memcpy(&lane.old, bytes + lane.offset, width);
    const std::uint64_t result =
        arch::atomic_result(extension.atomic, extension.type, lane.old, lane.operand, lane.compare);
    std::memcpy(bytes + lane.offset, &result, width);
  }
}

void signal(SharedMemory& memory, std::uint32_t window, std::uint64_t line, const MemoryExtension& extension,
            DsmemResult& result) {
  for (std::uint32_t i = 0; i < extension.lanes; ++i) {
    const AtomicLane& lane = extension.lane[i];
    const std::uint64_t at = line + lane.offset;
    std::uint64_t object = memory.word(window, at);
    arch::MbarrierResult done = arch::MbarrierResult::wrong;
    if (extension.action == MemoryAction::mbarrier_arrive) {
      done = arch::mbarrier_arrive(object, lane.operand, lane.compare);
    } else if (extension.action == MemoryAction::mbarrier_expect) {
      done = arch::mbarrier_expect(object, lane.operand);
    } else {
      done = arch::mbarrier_complete(object, lane.operand);
    }
    if (done == arch::MbarrierResult::wrong) {
      result.status = DsmemStatus::mbarrier;
      result.offset = static_cast<std::uint32_t>(at);
      return;
    }
    memory.set_word(window, at, object);
    result.changes = true;
  }
}

void reduce(SharedMemory& memory, std::uint32_t window, const MemoryRequest& request) {
  const std::uint32_t bytes = request.get_data_length();
  arch::ByteMask mask = arch::ByteMask::first(bytes);
  if (const std::uint8_t* enables = request.get_byte_enable_ptr()) {
    mask = {};
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (enables[i] != 0) mask |= arch::ByteMask::range(i, i + 1);
    }
  }
  arch::reduce(request.extension.atomic, request.extension.type, mask, bytes, request.data.data(),
               memory.data(window) + request.get_address());
  memory.async_wrote(window, static_cast<std::uint32_t>(request.get_address()), bytes);
}

void complete(SharedMemory& memory, std::uint32_t window, std::uint32_t barrier, std::uint32_t bytes,
              DsmemResult& result) {
  const BulkPlaced counted = complete_bulk(memory, window, barrier, bytes);
  result.completes = counted.completes;
  result.barrier = barrier;
  if (counted.status == DsmemStatus::ok) return;
  result.status = counted.status;
  result.offset = counted.offset;
}

// The first byte of corrupt data among the sectors that the request reads; the end of its range if there is none.
std::uint64_t first_corrupt(const SharedMemory& memory, std::uint32_t window, const MemoryRequest& request) {
  const std::uint64_t begin = request.get_address();
  const std::uint64_t end = begin + request.get_data_length();
  if (!memory.poisoned(window, begin, end - begin)) return end;
  std::uint64_t at = begin;
  while (at < end) {
    const bool read = (request.extension.sectors >> arch::sector_of(at) & 1) != 0;
    if (read && memory.poisoned(window, at, 1)) return at;
    at = (at / kSectorBytes + 1) * kSectorBytes;
  }
  return end;
}

}  // namespace

void fill_lanes(MemoryExtension& extension, const Operation& operation, const LineAccess& line) {
  const bool mbarrier = is_mbarrier(operation.code);
  extension.atomic = operation.atomic;
  extension.type = operation.type;
  const bool wide = !mbarrier && arch::bytes_of(operation.type) == 8;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((line.lanes >> lane & 1) == 0) continue;
    const auto& data = operation.data[lane];
    AtomicLane& out = extension.lane[extension.lanes++];
    out.operand = data[0] | (wide ? std::uint64_t{data[1]} << 32 : 0);
    out.compare = mbarrier ? data[1] : operation.compare[lane];
    out.old = 0;
    out.offset = static_cast<std::uint8_t>(operation.address[lane] % kLineBytes);
    out.lane = static_cast<std::uint8_t>(lane);
  }
}

void put_old_values(const MemoryExtension& extension, std::uint32_t* registers) {
  const bool wide = arch::bytes_of(extension.type) == 8;
  for (std::uint32_t i = 0; i < extension.lanes; ++i) {
    const AtomicLane& lane = extension.lane[i];
    registers[lane.lane] = static_cast<std::uint32_t>(lane.old);
    if (wide) registers[kWarpLanes + lane.lane] = static_cast<std::uint32_t>(lane.old >> 32);
  }
}

void fill_dsmem(MemoryRequest& request, const Operation& operation, const LineAccess& line, bool in_order) {
  const std::uint32_t width = lane_width(operation);
  std::uint32_t first = kLineBytes;
  std::uint32_t end = 0;
  const auto reach = [&](std::uint32_t lane) {
    const auto offset = static_cast<std::uint32_t>(operation.address[lane] % kLineBytes);
    first = std::min(first, offset);
    end = std::max(end, offset + width);
  };
  if (in_order) {
    reach(bits::lowest(line.lanes));
    reach(bits::highest(line.lanes));
  } else {
    bits::for_each(line.lanes, reach);
  }
  const MemoryAction action = action_of(operation);
  tlm::tlm_command command = tlm::TLM_IGNORE_COMMAND;
  if (action == MemoryAction::plain) {
    command = operation.code == OpCode::store ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND;
  }
  request.aim(command, arch::dsmem_offset(line.line) + first, end - first);
  request.extension.sectors = line.sectors;
  request.extension.action = action;
  if (operation.completes) {
    request.extension.completes = {operation.barrier, static_cast<std::uint32_t>(bits::count(line.lanes)) * width};
  }
  if (action != MemoryAction::plain) {
    fill_lanes(request.extension, operation, line);
  } else if (operation.code == OpCode::store) {
    fill_bytes(request, operation, line, first);
  }
}

DsmemResult serve_dsmem(SharedMemory& memory, std::optional<std::uint32_t> place, MemoryRequest& request) {
  DsmemResult result;
  const std::uint64_t begin = request.get_address();
  const std::uint64_t line = arch::line_of(begin);
  MemoryExtension& extension = request.extension;
  result.offset = static_cast<std::uint32_t>(begin);
  if (!place) {
    result.status = DsmemStatus::cta_not_present;
    return result;
  }
  const std::uint32_t window = *place;
  if (!memory.contains(window, begin, request.get_data_length())) {
    result.status = DsmemStatus::out_of_range;
    result.offset = std::max(result.offset, memory.size(window));
    return result;
  }
  if (!request.is_write()) {
    const std::uint64_t corrupt = first_corrupt(memory, window, request);
    if (corrupt < begin + request.get_data_length()) {
      result.status = DsmemStatus::poison;
      result.offset = static_cast<std::uint32_t>(corrupt);
      return result;
    }
  }
  switch (extension.action) {
    case MemoryAction::plain:
      result.changes = request.is_write();
      if (request.is_write()) {
        write(memory, window, request);
      } else {
        std::memcpy(request.data.data(), memory.data(window) + begin, request.get_data_length());
      }
      break;
    case MemoryAction::atomic:
    case MemoryAction::reduce:
      result.cycles = turns_of(extension, arch::bytes_of(extension.type));
      result.changes = true;
      change(memory, window, line, extension);
      break;
    case MemoryAction::reduce_block:
      result.changes = true;
      reduce(memory, window, request);
      break;
    default:
      result.cycles = turns_of(extension, arch::kMbarrierBytes);
      result.signals = true;
      signal(memory, window, line, extension, result);
  }
  if (extension.completes) complete(memory, window, extension.completes->barrier, extension.completes->bytes, result);
  if (!extension.bulk.any()) return result;
  const protocol::BulkTarget& target = extension.bulk.get();
  if (target.barrier) complete(memory, window, *target.barrier, target.piece.bytes, result);
  return result;
}

void tell_changes(WindowListener& listener, std::optional<std::uint32_t> window, const MemoryRequest& request,
                  const DsmemResult& result, Cycle done) {
  if (result.changes) listener.window_changed(*window, static_cast<std::uint32_t>(request.get_address()), done);
  if (result.completes) listener.window_changed(*window, result.barrier, done);
}

}  // namespace heddle::sm
