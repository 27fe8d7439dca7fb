#include "host/dma_port.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/byte_codec.h"
#include "arch/memory_op.h"

namespace heddle::host {
namespace {

using protocol::MemoryAction;
using protocol::MemoryExtension;

constexpr std::uint32_t kStale = 1U << 31;

bool is_atomic(const MemoryExtension* extension) {
  return extension != nullptr &&
         (extension->action == MemoryAction::atomic || extension->action == MemoryAction::reduce);
}

bool enabled(const tlm::tlm_generic_payload& request, std::uint32_t byte) {
  const unsigned char* enables = request.get_byte_enable_ptr();
  return enables == nullptr || enables[byte % request.get_byte_enable_length()] == TLM_BYTE_ENABLED;
}

tlm::tlm_response_status range_of_atomic(const MemoryExtension& atomic, std::uint32_t& first, std::uint32_t& bytes) {
  if (atomic.lanes == 0 || atomic.lanes > atomic.lane.size() || !arch::atomic_exists(atomic.atomic, atomic.type)) {
    return tlm::TLM_COMMAND_ERROR_RESPONSE;
  }
  const std::uint32_t size = arch::bytes_of(atomic.type);
  std::uint32_t end = 0;
  first = arch::kLineBytes;
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    const std::uint32_t offset = atomic.lane[i].offset;
    if (offset % size != 0 || offset + size > arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
    first = std::min(first, offset);
    end = std::max(end, offset + size);
  }
  bytes = end - first;
  return tlm::TLM_OK_RESPONSE;
}

// On the host's bus.
std::uint64_t address_of_lane(tlm::tlm_generic_payload& request, std::uint32_t lane) {
  return arch::line_of(arch::host_address(request.get_address())) + protocol::extension_of(request)->lane[lane].offset;
}

}  // namespace

DmaPort::DmaPort(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params)
    : Block(name, domain, path),
      socket("socket"),
      params_(params),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      guard(domain, params.host_windows, stats_.refused),
      link_(this->name(), domain, socket, params_, {stats_.stray, stats_.lost, stats_.direct}, *this) {}

DmaPort::~DmaPort() = default;

// The bytes that it touches: `first` is the index of the first one, in the data, or in the line for an atomic. None:
// there is nothing to do.
tlm::tlm_response_status DmaPort::validate(tlm::tlm_generic_payload& request, std::uint32_t& first,
                                           std::uint32_t& bytes, bool& changes) const {
  if (!bound()) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  const MemoryExtension* extension = protocol::extension_of(request);
  changes = true;
  if (is_atomic(extension)) return range_of_atomic(*extension, first, bytes);
  first = bytes = 0;
  if (extension != nullptr && extension->action == MemoryAction::prefetch) return tlm::TLM_OK_RESPONSE;
  if (extension != nullptr && extension->action != MemoryAction::plain) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  if (request.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
  const std::uint32_t length = request.get_data_length();
  const std::uint32_t width = request.get_streaming_width();
  if (length == 0 || (width != 0 && width < length)) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (request.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (request.get_byte_enable_ptr() != nullptr && request.get_byte_enable_length() == 0) {
    return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  }
  std::uint32_t end = length;
  while (first < end && !enabled(request, first)) ++first;
  while (end > first && !enabled(request, end - 1)) --end;
  bytes = end - first;
  changes = request.is_write();
  return tlm::TLM_OK_RESPONSE;
}

void DmaPort::start(tlm::tlm_generic_payload& request, std::uint32_t token) {
  std::uint32_t first = 0;
  std::uint32_t bytes = 0;
  bool changes = false;
  tlm::tlm_response_status status = validate(request, first, bytes, changes);
  const MemoryExtension* extension = protocol::extension_of(request);
  const bool atomic = is_atomic(extension);
  const std::uint64_t begin_at =
      (atomic ? arch::line_of(request.get_address()) : request.get_address()) + first;  // unified
  if (status == tlm::TLM_OK_RESPONSE && bytes > 0 &&
      !guard.lets_pass(extension, begin_at, bytes, !changes || atomic, changes)) {
    status = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  }
  if (status != tlm::TLM_OK_RESPONSE || bytes == 0) {
    if (status != tlm::TLM_OK_RESPONSE) stats_.errors.add();
    done_(token, status);
    return;
  }
  const std::uint32_t number = jobs_.take();
  Job& job = jobs_[number];
  job = Job();
  job.request = &request;
  job.token = token;
  job.since = now();
  job.address = arch::host_address(begin_at);
  if (atomic) job.step = Step::offer;
  if (!order_.enter(number, job.address, bytes, changes)) {
    stats_.held.add();
    return;
  }
  begin(number);
  link_.pump();
}

void DmaPort::begin(std::uint32_t number) {
  if (jobs_[number].step == Step::plain) {
    begin_plain(number);
  } else {
    begin_lane(number);
  }
}

DmaPayload& DmaPort::part(std::uint32_t number, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
  DmaPayload& payload = link_.add();
  payload.aim(command, address, bytes);
  payload.job = number;
  const MemoryExtension* extension = protocol::extension_of(*jobs_[number].request);
  payload.requester.requester = static_cast<std::uint16_t>(params_.dma_requester);
  payload.requester.pasid = extension == nullptr ? 0 : extension->subcontext;
  ++jobs_[number].parts;
  return payload;
}

// A read of everything between the bytes that are wanted; a write of each run of bytes.
void DmaPort::begin_plain(std::uint32_t number) {
  tlm::tlm_generic_payload& request = *jobs_[number].request;
  const std::uint64_t address = arch::host_address(request.get_address());
  auto first = static_cast<std::uint32_t>(jobs_[number].address - address);
  std::uint32_t end = request.get_data_length();
  if (request.is_read()) {
    while (!enabled(request, end - 1)) --end;
    part(number, tlm::TLM_READ_COMMAND, address + first, end - first).first = first;
    return;
  }
  while (first < end) {
    std::uint32_t last = first;
    while (last < end && enabled(request, last)) ++last;
    DmaPayload& payload = part(number, tlm::TLM_WRITE_COMMAND, address + first, last - first);
    std::copy_n(request.get_data_ptr() + first, last - first, payload.data.begin());
    for (first = last; first < end && !enabled(request, first);) ++first;
  }
}

// One value after the other.
void DmaPort::begin_lane(std::uint32_t number) {
  const Job& job = jobs_[number];
  const std::uint64_t address = address_of_lane(*job.request, job.lane);
  AtomicRegions::Verdict verdict = atomics_.at(address);
  if (params_.dma_atomics == AtomicOffer::split) verdict = AtomicRegions::Verdict::ignores;
  if (verdict == AtomicRegions::Verdict::unknown && params_.dma_atomics == AtomicOffer::ask) {
    const bool known = link_.bus().direct().carries_out(*protocol::extension_of(*job.request), address);
    atomics_.note(address, known);
    verdict = known ? AtomicRegions::Verdict::knows : AtomicRegions::Verdict::ignores;
  }
  if (verdict == AtomicRegions::Verdict::ignores) return read_lane(number);
  offer_lane(number, verdict == AtomicRegions::Verdict::knows);
}

// The first half of an atomic that nobody carries out as one.
void DmaPort::read_lane(std::uint32_t number) {
  Job& job = jobs_[number];
  job.step = Step::read;
  stats_.split_atomics.add();
  report_dma(split_reported_, sc_core::SC_INFO,
             fmt::format("{}: an atomic at {:#x} is a read and a write, as nobody there says that it carries atomics "
                         "out: other masters can come between the two (gpu.hub.dma_atomics)",
                         name(), address_of_lane(*job.request, job.lane)));
  part(number, tlm::TLM_READ_COMMAND, address_of_lane(*job.request, job.lane),
       arch::bytes_of(protocol::extension_of(*job.request)->type));
}

// Who is not known to understand it gets no bytes that he could take for those of a write.
void DmaPort::offer_lane(std::uint32_t number, bool known) {
  Job& job = jobs_[number];
  const MemoryExtension& atomic = *protocol::extension_of(*job.request);
  job.step = Step::offer;
  DmaPayload& payload =
      part(number, tlm::TLM_IGNORE_COMMAND, address_of_lane(*job.request, job.lane), arch::bytes_of(atomic.type));
  if (!known) {
    payload.set_data_length(0);
    payload.set_streaming_width(0);
  }
  payload.data.fill(0);
  MemoryExtension& asked = payload.extension;
  asked.action = MemoryAction::atomic;
  asked.atomic = atomic.atomic;
  asked.type = atomic.type;
  asked.carried_out = false;
  asked.lanes = 1;
  asked.lane[0] = atomic.lane[job.lane];
  asked.lane[0].old = 0;
  payload.use_extension();
}

void DmaPort::on_dma_answer(DmaPayload& payload) {
  const std::uint32_t number = payload.job;
  Job& job = jobs_[number];
  HEDDLE_CHECK(jobs_.holds(number) && job.parts > 0, "an answer of the host's bus for a request that is over");
  const tlm::tlm_response_status status = payload.get_response_status();
  --job.parts;
  if (job.step == Step::plain) {
    if (status != tlm::TLM_OK_RESPONSE) {
      job.status = status;
    } else if (payload.is_read()) {
      finish_read(job, payload);
    } else {
      stats_.written_bytes.add(payload.get_data_length());
    }
  } else {
    finish_lane(number, payload, status);
  }
  payload.release();
  if (jobs_[number].parts == 0) end_job(number);
  link_.pump();
}

void DmaPort::finish_read(const Job& job, const DmaPayload& payload) {
  stats_.read_bytes.add(payload.get_data_length());
  unsigned char* to = job.request->get_data_ptr();
  for (std::uint32_t i = 0; i < payload.get_data_length(); ++i) {
    if (enabled(*job.request, payload.first + i)) to[payload.first + i] = payload.data[i];
  }
}

void DmaPort::finish_lane(std::uint32_t number, DmaPayload& payload, tlm::tlm_response_status status) {
  Job& job = jobs_[number];
  MemoryExtension& atomic = *protocol::extension_of(*job.request);
  protocol::AtomicLane& lane = atomic.lane[job.lane];
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  if (job.step == Step::offer) {
    // An address that does not exist says nothing about those nearby.
    const bool known = payload.extension.carried_out;
    if (known || status != tlm::TLM_ADDRESS_ERROR_RESPONSE)
      atomics_.note(address_of_lane(*job.request, job.lane), known);
    if (!known) return read_lane(number);
  }
  if (status != tlm::TLM_OK_RESPONSE) {
    job.status = status;
    return;
  }
  if (job.step == Step::read) {
    lane.old = arch::load_number(payload.data.data(), bytes);
    const std::uint64_t value = arch::atomic_result(atomic.atomic, atomic.type, lane.old, lane.operand, lane.compare);
    job.step = Step::write;
    arch::store_number(part(number, tlm::TLM_WRITE_COMMAND, address_of_lane(*job.request, job.lane), bytes).data.data(),
                       bytes, value);
    return;
  }
  if (job.step == Step::offer) {
    stats_.atomics.add();
    lane.old = payload.extension.lane[0].old;
  }
  if (++job.lane < atomic.lanes) begin_lane(number);
}

void DmaPort::end_job(std::uint32_t number) {
  const Job job = jobs_[number];
  jobs_.give_back(number);
  if (job.status != tlm::TLM_OK_RESPONSE) stats_.errors.add();
  stats_.latency.add(now() - job.since);
  freed_.clear();
  order_.leave(number, job.address, freed_);
  begin_freed();
  done_(job.token, job.status);
}

bool DmaPort::move(RangeMove& range) {
  const std::uint64_t address = arch::host_address(range.address);
  if (!bound() || !link_.takes(range) || order_.touches(address, range.bytes)) return false;
  // What is refused is refused line by line, so that it is told which.
  if (guard.windows().allowed(range.subcontext, range.address, range.bytes, !range.write, range.write) != range.bytes) {
    return false;
  }
  if (range.write && range.zeros) std::fill_n(range.data, range.bytes, std::uint8_t{0});
  const tlm::tlm_command command = range.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND;
  const auto target = link_.bus().move(command, range.subcontext, address, range.data, range.bytes);
  if (!target) return false;
  if (!range.write) {
    range.zeros = std::all_of(range.data, range.data + range.bytes, [](std::uint8_t byte) { return byte == 0; });
  }
  (range.write ? stats_.written_bytes : stats_.read_bytes).add(range.bytes);
  const Cycle start = range.first;
  link_.go_out(range, params_.queue, *target);
  stats_.latency.add(range.first + link_.latency() - start, range.bytes / arch::kLineBytes);
  return true;
}

void DmaPort::begin_freed() {
  for (const std::uint32_t next : freed_) begin(next);
}

// Its bytes may still be read or written: nobody can know.
void DmaPort::on_dma_lost(DmaPayload& payload) {
  const std::uint32_t number = payload.job;
  jobs_[number].status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (--jobs_[number].parts == 0) end_job(number);
  link_.pump();
}

// A write of before a reset is over: others may go to its bytes now.
void DmaPort::on_dma_settled(DmaPayload& payload) {
  freed_.clear();
  if (payload.changes) order_.leave(payload.job, payload.place, freed_);
  begin_freed();
  link_.pump();
}

unsigned DmaPort::debug(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint32_t bytes) {
  return bound() ? link_.bus().direct().debug(command, 0, address, data, bytes) : 0;
}

// What the target still has may change its memory at any time: it keeps its place in the order, with a number that no
// job has.
void DmaPort::reset() {
  order_.clear();
  std::uint32_t stale = 0;
  link_.reset([&](DmaPayload& payload) {
    payload.job = kStale | stale++;
    if (payload.changes) order_.enter(payload.job, payload.place, payload.place_bytes, true);
  });
  jobs_.clear();
  atomics_.clear();
  guard.reset();
}

}  // namespace heddle::host
