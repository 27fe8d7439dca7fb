#include "import/kineto_tables.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "common/error.h"
#include "import/dependencies.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;
namespace {

// Above this the recorder writes 0 instead of an estimate (INP-08).
constexpr std::uint32_t kMaxSharedOfOccupancy = 49'152;
// "The stream of a context", not a stream: -1, or the same as 32 bits.
constexpr std::int64_t kNoStream = -1;
constexpr std::int64_t kNoStreamUnsigned = 4'294'967'295;

constexpr std::string_view kRecordAgain =
    "The recording is damaged or of an unknown kind: record it again, or remove the event from the file.";

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// Of a list as JSON, or as PyTorch writes one into a text, which both may have spaces.
std::string members_of(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\t'; }), text.end());
  return text;
}

}  // namespace

void KinetoTables::fail(const KinetoPlace& place, std::string_view name, std::string_view what,
                        std::string_view remedy) const {
  throw InputError({source_.name()},
                   fmt::format("{}: event {} (\"{}\"): {}", source_.position_text(place.position), place.index,
                               printable(name, 60), what),
                   remedy.empty() ? kRecordAgain : remedy);
}

void KinetoTables::wrong(const KinetoEvent& event, const JsonValue& value, std::string_view key,
                         std::string_view expected) const {
  fail({event.position, event.index}, event.name.text,
       fmt::format("\"{}\" is {}, expected {}", key, value.describe(), expected));
}

void KinetoTables::on_event(const KinetoEvent& event) {
  if (event.ph.kind != JsonValue::Kind::text || event.ph.text != "X") return;  // INP-01
  if (event.cat.kind != JsonValue::Kind::text) return;
  const std::string category = lower_case(event.cat.text);
  if (category == "kernel") {
    add_op(event, OpKind::kernel);
  } else if (category == "gpu_memcpy" || category == "memcpy") {
    add_op(event, OpKind::copy);
  } else if (category == "gpu_memset" || category == "memset") {
    add_op(event, OpKind::fill);
  } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime") {
    add_call(event);
  } else if (category == "cuda_sync") {
    add_wait(event);
  } else if (event.is_operator()) {
    add_operator(event);
  } else if (category == "user_annotation") {
    add_range(event);
  }
}

void KinetoTables::on_device(const KinetoDevice& device) {
  const std::int64_t id =
      device.id.present() ? device.id.as_integer().value_or(-1) : static_cast<std::int64_t>(device.index);
  if (id < 0 || id > static_cast<std::int64_t>(kMaxRecordedDevice)) {
    throw InputError(
        {source_.name()},
        fmt::format("{}: entry {} of deviceProperties: \"id\" is {}, expected 0 to {}",
                    source_.position_text(device.position), device.index, device.id.describe(), kMaxRecordedDevice),
        kRecordAgain);
  }
  devices_[static_cast<int>(id)] = device;
}

void KinetoTables::add_op(const KinetoEvent& event, OpKind kind) {
  KinetoOp op;
  op.kind = kind;
  op.place = {event.position, event.index};
  if (event.name.kind != JsonValue::Kind::text) wrong(event, event.name, "name", "a text");
  op.name = event.name.text;
  op.device = device_of(event);
  const std::optional<std::size_t> in = stream(event.stream.present() ? event.stream : event.tid);
  if (!in) wrong(event, event.stream.present() ? event.stream : event.tid, "stream", "a stream number");
  op.stream = *in;
  op.start = time(event, event.ts, "ts");
  op.duration = duration(event);
  // By notation, not by value: a recorder with a finer clock writes 17.0 or 17.000 where it means that.
  const auto whole = [](const JsonValue& value) {
    return value.kind == JsonValue::Kind::integer || value.text.find_first_of(".,eE") == std::string::npos;
  };
  if (!whole(event.ts) || !whole(event.dur)) whole_microseconds = false;
  op.correlation = correlation(event, event.correlation, "correlation");
  op.external = correlation(event, event.external_id, "External id");
  if (event.bytes.present()) op.bytes = integer(event, event.bytes, "bytes", kMaxRecordedBytes);
  if (kind == OpKind::kernel) {
    if (event.registers.present()) {
      op.registers =
          static_cast<std::uint32_t>(integer(event, event.registers, "registers per thread", kMaxRecordedRegisters));
    }
    if (event.shared.present()) {
      op.shared = static_cast<std::uint32_t>(integer(event, event.shared, "shared memory", kMaxRecordedShared));
    }
    if (event.occupancy.present()) {
      const std::optional<double> percent = event.occupancy.as_double();
      if (!percent) wrong(event, event.occupancy, "est. achieved occupancy %", "a number");
      const bool usable = *percent >= 0.0 && *percent <= 100.0 && op.shared.value_or(0) <= kMaxSharedOfOccupancy;
      op.occupancy = usable ? static_cast<float>(*percent) : -1.0F;
    }
    if (event.grid.present != event.block.present) {
      fail(op.place, op.name, event.grid.present ? "has a grid but no block" : "has a block but no grid");
    }
    if (event.grid.present) {
      op.grid = extents(event, event.grid, "grid", std::numeric_limits<std::uint32_t>::max());
      op.block = extents(event, event.block, "block", kMaxRecordedBlock);
      op.has_grid = true;
    }
    if (event.collective.present()) op.communication = add_communication(event);
  }
  ops.push_back(std::move(op));
}

void KinetoTables::add_call(const KinetoEvent& event) {
  KinetoCall call;
  call.correlation = correlation(event, event.correlation, "correlation");
  if (call.correlation == 0) return;  // nothing on a device can refer to it
  call.begin = time(event, event.ts, "ts");
  const std::string& name = event.name.text;
  call.external = correlation(event, event.external_id, "External id");
  call.thread = operators.thread(event.pid, event.tid);
  call.graph = name.find("GraphLaunch") != std::string::npos;
  call.cooperative = name.find("LaunchCooperativeKernel") != std::string::npos;
  call.hip = starts_with(name, "hip");
  call.work_items = name == "hipExtModuleLaunchKernel";
  if (event.grid.present && event.block.present) {
    KinetoDims with;
    with.grid = extents(event, event.grid, "grid", std::numeric_limits<std::uint32_t>::max());
    with.block = extents(event, event.block, "block", kMaxRecordedBlock);
    if (event.shared.present()) {
      with.shared = static_cast<std::uint32_t>(integer(event, event.shared, "shared memory", kMaxRecordedShared));
    }
    dims.push_back(with);
    call.dims = static_cast<std::uint32_t>(dims.size());
  }
  calls_.push_back(call);
}

void KinetoTables::add_wait(const KinetoEvent& event) {
  const JsonValue& kind = event.sync_kind.present() ? event.sync_kind : event.name;
  if (lower_case(kind.text) != "stream wait event") return;  // the others hold up the host, which its own times show
  const auto real = [](const JsonValue& value) {
    const std::optional<std::int64_t> id = value.as_integer();
    return id && *id != kNoStream && *id != kNoStreamUnsigned;
  };
  const JsonValue& waiting = event.stream.present() ? event.stream : event.tid;
  if (!real(waiting) || !real(event.wait_on_stream)) return;
  KinetoWait wait;
  wait.device = device_of(event);
  wait.waiting = *stream(waiting);
  wait.source = *stream(event.wait_on_stream);
  wait.begin = time(event, event.ts, "ts");
  wait.correlation = correlation(event, event.correlation, "correlation");
  wait.record_correlation = correlation(event, event.wait_on_record, "wait_on_cuda_event_record_corr_id");
  waits.push_back(wait);
}

Nanoseconds KinetoTables::duration(const KinetoEvent& event) const {
  const Nanoseconds duration = time(event, event.dur, "dur");
  if (duration < 0 || duration > kMaxRecordedDuration) {
    wrong(event, event.dur, "dur", fmt::format("0 to {} microseconds", kMaxRecordedDuration / 1000));
  }
  return duration;
}

// record_function and what frameworks add. What cannot be read is no reason to refuse the rest.
void KinetoTables::add_range(const KinetoEvent& event) {
  const auto is_time = [](const JsonValue& value) {
    return value.kind == JsonValue::Kind::integer || value.kind == JsonValue::Kind::decimal;
  };
  if (event.name.kind != JsonValue::Kind::text || !is_time(event.ts) || !is_time(event.dur)) return ranges.leave_out(1);
  const Nanoseconds begin = time(event, event.ts, "ts");
  const Nanoseconds lasted = time(event, event.dur, "dur");
  if (lasted < 0 || lasted > kMaxRecordedDuration) return ranges.leave_out(1);
  ranges.add(operators.thread(event.pid, event.tid), event.name.text, begin, begin + lasted);
}

void KinetoTables::add_operator(const KinetoEvent& event) {
  const Nanoseconds lasted = duration(event);
  if (event.name.kind != JsonValue::Kind::text) wrong(event, event.name, "name", "a text");
  if (event.collective.present()) {
    const std::uint64_t number = correlation(event, event.external_id, "External id");
    if (number != 0) communication_of_[number] = add_communication(event);
  }
  operators.add(event, operators.thread(event.pid, event.tid), correlation(event, event.external_id, "External id"),
                time(event, event.ts, "ts"), lasted);
}

// PyTorch writes elements of the buffers, and the type of one.
std::uint32_t KinetoTables::add_communication(const KinetoEvent& event) {
  constexpr std::uint64_t kMostElements = kMaxRecordedBytes / 16;
  Communication its;
  its.kind = collective_in_name(event.collective.text);
  its.group = event.group_name.kind == JsonValue::Kind::integer ? fmt::format("{}", event.group_name.integer)
                                                                : event.group_name.text;
  const bool gathers = its.kind == Collective::all_gather;
  const JsonValue& elements = gathers ? event.elements_out : event.elements_in;
  if (elements.present()) {
    its.bytes = element_bytes(event.element_type.text) *
                integer(event, elements, gathers ? "Out msg nelems" : "In msg nelems", kMostElements);
  }
  if (event.group_size.present()) its.ranks = integer(event, event.group_size, "Group size", kMostElements);
  its.members = members_of(event.group_ranks.text);
  // Negative: the recorder did not count.
  const std::optional<std::int64_t> sequence = event.sequence.as_integer();
  if (sequence && *sequence >= 0) its.sequence = static_cast<std::uint64_t>(*sequence);
  communications.push_back(std::move(its));
  return static_cast<std::uint32_t>(communications.size());
}

const Communication* KinetoTables::communication(const KinetoOp& op, const KinetoCall* call) const {
  std::uint32_t number = op.communication;
  if (number == 0 && communicates(op.name)) {
    auto found = communication_of_.find(op.external);
    if (found == communication_of_.end() && call != nullptr) found = communication_of_.find(call->external);
    if (found != communication_of_.end()) number = found->second;
  }
  return number == 0 ? nullptr : &communications[number - 1];
}

void KinetoTables::finish() {
  operators.finish();
  std::sort(calls_.begin(), calls_.end(), [](const KinetoCall& a, const KinetoCall& b) {
    return std::tie(a.correlation, a.begin) < std::tie(b.correlation, b.begin);
  });
}

const KinetoCall* KinetoTables::call(std::uint64_t correlation) const {
  if (correlation == 0) return nullptr;
  const auto found =
      std::lower_bound(calls_.begin(), calls_.end(), correlation,
                       [](const KinetoCall& call, std::uint64_t wanted) { return call.correlation < wanted; });
  return found != calls_.end() && found->correlation == correlation ? &*found : nullptr;
}

Nanoseconds KinetoTables::time(const KinetoEvent& event, const JsonValue& value, std::string_view key) const {
  const std::optional<Nanoseconds> time = value.as_microseconds();
  if (!time) wrong(event, value, key, "microseconds");
  return *time;
}

std::uint64_t KinetoTables::integer(const KinetoEvent& event, const JsonValue& value, std::string_view key,
                                    std::uint64_t max) const {
  const std::optional<std::int64_t> number = value.as_integer();
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > max) {
    wrong(event, value, key, fmt::format("an integer from 0 to {}", max));
  }
  return static_cast<std::uint64_t>(*number);
}

std::uint64_t KinetoTables::correlation(const KinetoEvent& event, const JsonValue& value, std::string_view key) const {
  if (!value.present()) return 0;
  const std::optional<std::int64_t> number = value.as_integer();
  if (!number) wrong(event, value, key, "an integer");
  return static_cast<std::uint64_t>(std::max<std::int64_t>(*number, 0));  // -1: the recorder does not know
}

KinetoExtents KinetoTables::extents(const KinetoEvent& event, const JsonDims& dims_of, std::string_view key,
                                    std::uint64_t max) const {
  const KinetoPlace place{event.position, event.index};
  if (!dims_of.numeric || dims_of.count != 3) {
    fail(place, event.name.text,
         dims_of.numeric ? fmt::format("\"{}\" has {} elements, expected 3", key, dims_of.count)
                         : fmt::format("\"{}\" is not an array of 3 integers", key));
  }
  KinetoExtents result{};
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t extent = dims_of.extents[i];
    if (extent < 1 || static_cast<std::uint64_t>(extent) > max) {
      fail(place, event.name.text,
           fmt::format("\"{}\" is [{}, {}, {}], expected extents from 1 to {}", key, dims_of.extents[0],
                       dims_of.extents[1], dims_of.extents[2], max));
    }
    result[i] = static_cast<std::uint32_t>(extent);
  }
  return result;
}

int KinetoTables::device_of(const KinetoEvent& event) const {
  const bool in_args = event.device.present();
  const JsonValue& value = in_args ? event.device : event.pid;
  return static_cast<int>(integer(event, value, in_args ? "device" : "pid", kMaxRecordedDevice));
}

std::optional<std::size_t> KinetoTables::stream(const JsonValue& value) {
  std::string name;
  if (value.kind == JsonValue::Kind::integer) {
    name = fmt::format("{}", value.integer);
  } else if (value.kind == JsonValue::Kind::text) {
    constexpr std::string_view kOldPrefix = "stream ";  // files of 2021
    name = lower_case(value.text);
    if (starts_with(name, kOldPrefix)) name.erase(0, kOldPrefix.size());
  }
  if (name.empty()) return std::nullopt;
  const auto [at, added] = stream_ids_.emplace(name, streams.size());
  if (added) streams.push_back(name);
  return at->second;
}

std::optional<DeviceInfo> KinetoTables::device(int id) const {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return std::nullopt;
  return describe(id, found->second);
}

std::optional<DeviceInfo> KinetoTables::only_device() const {
  if (devices_.size() != 1) return std::nullopt;
  return describe(devices_.begin()->first, devices_.begin()->second);
}

DeviceInfo KinetoTables::describe(int id, const KinetoDevice& device) const {
  const auto number = [&](const JsonValue& value, std::string_view key, std::uint64_t min, std::uint64_t max) {
    const std::optional<std::int64_t> read = value.as_integer();
    if (read && *read >= 0 && static_cast<std::uint64_t>(*read) >= min && static_cast<std::uint64_t>(*read) <= max) {
      return static_cast<std::uint64_t>(*read);
    }
    throw InputError({source_.name()},
                     fmt::format("{}: device {} of deviceProperties: \"{}\" is {}, expected {} to {}",
                                 source_.position_text(device.position), id, key, value.describe(), min, max),
                     "Record the trace again, or correct the value in the file.");
  };
  // The first of the keys that the recorder wrote; they differ between CUDA, ROCm and versions.
  using Key = std::pair<const JsonValue*, std::string_view>;
  const auto first = [&](std::initializer_list<Key> keys, std::uint64_t max) -> std::uint64_t {
    for (const auto& [value, key] : keys) {
      if (value->present()) return number(*value, key, 1, max);
    }
    return 0;  // not recorded
  };
  DeviceInfo info;
  info.id = id;
  if (device.name.kind == JsonValue::Kind::text) info.name = device.name.text;
  if (device.warp_size.present()) {
    info.warp_size = static_cast<std::uint32_t>(number(device.warp_size, "warpSize", 1, 128));
  }
  info.sms = static_cast<std::uint32_t>(first({{&device.sms, "numSms"}}, kMaxRecordedSms));
  info.max_threads_per_sm =
      static_cast<std::uint32_t>(first({{&device.threads_per_sm, "maxThreadsPerMultiprocessor"}}, 1U << 16));
  info.max_threads_per_cta =
      static_cast<std::uint32_t>(first({{&device.threads_per_cta, "maxThreadsPerBlock"}}, 1U << 16));
  info.registers_per_sm = static_cast<std::uint32_t>(first(
      {{&device.registers_per_sm, "regsPerMultiprocessor"}, {&device.registers_per_cta, "regsPerBlock"}}, 1U << 24));
  info.shared_bytes_per_sm = first({{&device.shared_per_sm, "sharedMemPerMultiprocessor"},
                                    {&device.max_shared_per_sm, "maxSharedMemoryPerMultiProcessor"},
                                    {&device.shared_per_cta, "sharedMemPerBlock"}},
                                   1U << 30);
  info.max_shared_bytes_per_cta =
      first({{&device.shared_per_cta_optin, "sharedMemPerBlockOptin"}, {&device.shared_per_cta, "sharedMemPerBlock"}},
            1U << 30);
  return info;
}

}  // namespace heddle::import
