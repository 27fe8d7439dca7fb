#include "packet/decoder.h"

#include <algorithm>
#include <utility>

#include "common/bits.h"
#include "packet/completion.h"

namespace heddle::packet {

using arch::HsaResult;
using arch::HsaStatus;
using arch::PacketType;
using Use = MemoryTag::Use;

namespace {

// Of several kernels the first one counts, whichever answer comes first.
void note_bad_kernel(Packet& packet, std::uint32_t kernel, const HsaResult& result) {
  if (!packet.result.ok() && kernel >= packet.bad_kernel) return;
  packet.result = result;
  packet.bad_kernel = kernel;
}

// The first kernel of a packet that reads the same object.
std::uint32_t first_reader(const Packet& packet, std::uint64_t object) {
  std::uint32_t kernel = 0;
  while (!packet.kernels[kernel].reads_object || packet.kernels[kernel].fields.kernel_object != object) ++kernel;
  return kernel;
}

// What was read for that kernel is the object of all that name the same one.
void set_object(Packet& packet, std::uint32_t reader, const arch::KernelObject& object) {
  const std::uint64_t address = packet.kernels[reader].fields.kernel_object;
  for (Kernel& kernel : packet.kernels) {
    if (kernel.reads_object && kernel.fields.kernel_object == address) kernel.object = object;
  }
}

}  // namespace

Decoder::Decoder(const StageContext& context, ReferenceBuffer& tables, KernelValidator& validator,
                 arch::BroughtCode& brought, DecodeListener& next, Completion& completion)
    : PipelineStage(context),
      tables_(tables),
      validator_(validator),
      brought_(brought),
      next_(next),
      completion_(completion),
      arbiter_(queues().count(), params().order == QueueOrder::priority),
      waiting_(queues().count(), nullptr) {}

void Decoder::enqueue(Packet& packet) { wait_for_turn(packet, Phase::decoder); }

void Decoder::wait_for_turn(Packet& packet, Phase phase) {
  packet.phase = phase;
  waiting_[packet.queue] = &packet;
  arbiter_.request(packet.queue);
  serve();
  reporter().note_wait(packet.queue);
}

void Decoder::serve() {
  if (busy_) return;
  const auto queue = arbiter_.grant();
  if (!queue) return;
  Packet& packet = *waiting_[*queue];
  busy_ = true;
  const bool begins = packet.phase == Phase::decoder;
  packet.phase = begins ? Phase::decoding : Phase::checking;
  if (begins) packet.times.ready = now();
  schedule(spend(begins ? take_apart(packet) : work_left(packet)), kDecoded, packet);
  reporter().note_wait(*queue);
}

// The decoder is free again, whatever has become of the packet; reads of that may still be under way.
void Decoder::on_event(std::uint32_t, std::uint64_t argument) {
  busy_ = false;
  if (Packet* packet = packets().find(argument); packet != nullptr) {
    if (packet->phase == Phase::checking) {
      conclude(*packet);
    } else {
      packet->phase = Phase::reading;
      go_on(*packet);
    }
  }
  serve();
}

// Asks for what is needed, and tells what there is to be done meanwhile.
PacketWork Decoder::take_apart(Packet& packet) {
  switch (packet.type) {
    case PacketType::kernel_dispatch:
    case PacketType::reference_dispatch:
      return take_dispatch(packet);
    case PacketType::condensed_dispatch:
      return take_condensed(packet);
    default:
      return take_other(packet);
  }
}

PacketWork Decoder::take_dispatch(Packet& packet) {
  PacketWork work = work_of_packet();
  work += work_of_checks(checks_of_fields(kAllFields));
  arch::KernelDispatch dispatch;
  packet.result = arch::decode(packet.bytes, dispatch);
  packet.entry = dispatch.reserved0;
  if (packet.result.ok() && packet.type == PacketType::reference_dispatch && packet.entry >= params().entries) {
    packet.result = {HsaStatus::invalid_argument, arch::Reason::no_entry};
  }
  if (packet.result.ok()) packet.result = validator_.validate(dispatch.fields);
  arch::SynchScopes scopes;
  if (packet.result.ok()) packet.result = arch::decode(scopes, dispatch.fields.synch_scopes);
  if (!packet.result.ok()) return work;
  packet.kernels.resize(1);
  Kernel& kernel = packet.kernels.front();
  kernel.fields = dispatch.fields;
  kernel.acquire = scopes.acquire;
  kernel.release = scopes.release;
  kernel.signal = dispatch.fields.completion_signal;
  read_objects(packet);
  return work;
}

PacketWork Decoder::take_other(Packet& packet) {
  HsaResult result;
  const auto take = [&](const auto& decoded) {
    if (!result.ok()) return;
    packet.other.scopes = decoded.scopes;
    packet.other.signal = decoded.completion_signal;
  };
  if (packet.is_barrier()) {
    result = arch::decode(packet.bytes, packet.other.barrier);
    take(packet.other.barrier);
  } else if (packet.type == PacketType::agent_dispatch) {
    arch::AgentDispatch agent;
    result = arch::decode(packet.bytes, agent);
    take(agent);
  } else {
    result = arch::decode(packet.bytes, packet.other.vendor);
    take(packet.other.vendor);
  }
  packet.result = result;
  return work_of_other(packet.type);
}

// What the packet needs of the table is copied before anything is launched (PKT-06).
PacketWork Decoder::take_condensed(Packet& packet) {
  const CondensedDiffs diffs = read_diffs(packet.bytes, params().diff_format(), params().entries);
  PacketWork work = work_of_packet();
  work += work_of_half_words(diffs.half_words);
  packet.result = diffs.result;
  packet.bad_kernel = diffs.bad;
  if (!diffs.result.ok()) return work;
  packet.entries = std::make_unique<ReferenceTable>(params().entries);
  bits::for_each(diffs.entries, [&](std::uint32_t entry) {
    ++packet.reads;
    tables_.read(packet, entry);
  });
  return work;
}

void Decoder::entry_read(Packet& packet, std::uint32_t entry, const HsaResult& result, const StoredKernel& kernel) {
  --packet.reads;
  if (result.ok()) {
    packet.entries->store(entry, kernel);
  } else {
    const CondensedDiffs diffs = read_diffs(packet.bytes, params().diff_format(), params().entries);
    note_bad_kernel(packet, diffs.first_with(entry), result);
  }
  if (packet.reads == 0 && packet.result.ok()) {
    packet.result = expand_kernels(packet);
    if (packet.result.ok()) read_objects(packet);
  }
  go_on(packet);
}

HsaResult Decoder::expand_kernels(Packet& packet) {
  const CondensedDiffs diffs = read_diffs(packet.bytes, params().diff_format(), params().entries);
  CondensedKernels expanded = expand(diffs, params().diff, *packet.entries);
  packet.bad_kernel = expanded.bad;
  HsaResult result = expanded.result;
  packet.kernels.resize(expanded.kernels.size());
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    CondensedKernel& from = expanded.kernels[i];
    Kernel& kernel = packet.kernels[i];
    kernel.fields = from.kernel.fields;
    kernel.object = std::move(from.kernel.object);
    kernel.changed = from.changed;
    kernel.reads_object = from.reads_object;
    kernel.barrier = from.barrier;
    kernel.acquire = from.acquire;
    kernel.release = from.release;
    kernel.signal = from.signal;
  }
  for (std::uint32_t i = 0; i < packet.kernels.size() && result.ok(); ++i) {
    result = validator_.validate(packet.kernels[i].fields, packet.kernels[i].changed);
    if (!result.ok()) packet.bad_kernel = i;
  }
  return result;
}

// Each kernel object is read once.
void Decoder::read_objects(Packet& packet) {
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    const Kernel& kernel = packet.kernels[i];
    const std::uint64_t object = kernel.fields.kernel_object;
    if (!kernel.reads_object || first_reader(packet, object) != i) continue;
    ++packet.reads;
    stats().objects.add();
    memory().read(object, arch::kKernelObjectBytes, tag(Use::kernel_object, packet, i));
  }
}

void Decoder::on_answer(Packet& packet, const MemoryAnswer& answer) {
  const HsaResult result = answer.tag.use == Use::code ? take_code(packet, answer) : take_object(packet, answer);
  if (!result.ok()) note_bad_kernel(packet, answer.tag.part, result);
  go_on(packet);
}

HsaResult Decoder::take_object(Packet& packet, const MemoryAnswer& answer) {
  if (!answer.ok) return {HsaStatus::invalid_code_object, arch::Reason::object_unreadable};
  const std::uint32_t part = answer.tag.part;
  arch::KernelObject object;
  if (const HsaResult result = arch::decode(answer.data, object); !result.ok()) return result;
  set_object(packet, part, object);
  if (!object.code.any()) return {};
  // HST-07: the code is read with its object, whatever the machine has seen there before.
  packet.codes.push_back({part, object, arch::CodeReading(object.code)});
  const arch::CodeReading& reading = packet.codes.back().reading;
  stats().codes.add();
  stats().code_bytes.add(object.code.bytes);
  for (std::uint32_t line = 0; line < reading.lines(); ++line) {
    ++packet.reads;
    MemoryTag of_line = tag(Use::code, packet, part);
    of_line.index = line;
    memory().read(reading.address(line), reading.bytes_of(line), of_line);
  }
  return {};
}

HsaResult Decoder::take_code(Packet& packet, const MemoryAnswer& answer) {
  if (!answer.ok) return {HsaStatus::invalid_code_object, arch::Reason::code_unreadable};
  const std::uint32_t part = answer.tag.part;
  const auto code = std::find_if(packet.codes.begin(), packet.codes.end(),
                                 [part](const Packet::Code& one) { return one.kernel == part; });
  code->reading.take(static_cast<std::uint32_t>(answer.tag.index), answer.data);
  if (!code->reading.complete()) return {};
  const HsaResult result =
      brought_.resolve(code->reading.bytes(), queues().setup(packet.queue).subcontext, code->object);
  if (result.ok()) set_object(packet, part, code->object);
  return result;
}

// Once the packet has left the decoder and nothing that it reads is missing.
void Decoder::go_on(Packet& packet) {
  if (packet.phase != Phase::reading || packet.reads > 0) return;
  if (!packet.result.ok()) return completion_.reject(packet);
  if (!work_left(packet).any()) return conclude(packet);
  wait_for_turn(packet, Phase::checks);
}

// What can be done only when everything has been read: kernel objects and table entries from memory come in, and the
// rules that look at what is not from a table entry on the chip. Those for fields of dispatch packets have been checked
// before.
PacketWork Decoder::work_left(const Packet& packet) const {
  PacketWork work;
  const bool entries_come_in = packet.entries != nullptr && params().table == TablePlace::memory;
  for (std::uint32_t entry = 0; entries_come_in && entry < packet.entries->size(); ++entry) {
    if (packet.entries->valid(entry)) work += work_of_entry();
  }
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    const Kernel& kernel = packet.kernels[i];
    if (kernel.reads_object && first_reader(packet, kernel.fields.kernel_object) == i) {
      work += work_of_object();
      work += work_of_code(kernel.object.code.bytes);
    }
    if (packet.type == PacketType::condensed_dispatch) work += work_of_checks(checks_of_fields(kernel.changed));
    work += work_of_checks(checks_with_object(kernel.changed));
  }
  return work;
}

void Decoder::conclude(Packet& packet) {
  packet.result = validate(packet);
  if (!packet.result.ok()) {
    completion_.reject(packet);
  } else if (packet.type == PacketType::reference_dispatch) {
    // PKT-05: the entry is there before the packet goes on.
    const Kernel& kernel = packet.kernels.front();
    packet.phase = Phase::storing;
    tables_.write(packet, packet.entry, {kernel.fields, kernel.object, kernel.shape, kernel.items});
  } else {
    next_.accept(packet);
  }
}

// Nothing of a bad packet launches (PKT-09): all its kernels are validated before the first one starts.
HsaResult Decoder::validate(Packet& packet) {
  const std::uint8_t subcontext = queues().setup(packet.queue).subcontext;
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    Kernel& kernel = packet.kernels[i];
    const HsaResult result =
        validator_.validate(kernel.fields, kernel.object, subcontext, kernel.shape, kernel.changed);
    if (!result.ok()) {
      packet.bad_kernel = i;
      return result;
    }
    kernel.items = arch::items_of(kernel.fields);
  }
  return {};
}

void Decoder::entry_written(Packet& packet, bool ok) {
  if (ok) return next_.accept(packet);
  packet.result = {HsaStatus::error, arch::Reason::table_unwritable};
  completion_.reject(packet);
}

void Decoder::reset() {
  arbiter_.reset();
  waiting_.assign(waiting_.size(), nullptr);
  busy_ = false;
}

void Decoder::collect_waits(WaitGraph& graph, const Packet& packet) const {
  const std::string name = name_of(packet);
  const bool reads = packet.reads > 0 && packet.phase != Phase::signals;
  if (reads || packet.phase == Phase::storing) graph.add(name, "for an answer from", "memory");
  if (packet.phase == Phase::decoder || packet.phase == Phase::checks)
    graph.add(name, "for its turn at", "the decoder");
}

}  // namespace heddle::packet
