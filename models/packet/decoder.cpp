#include "packet/decoder.h"

#include <algorithm>

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

arch::PacketBytes packet_bytes(const MemoryAnswer& answer) {
  arch::PacketBytes bytes;
  std::copy_n(answer.data.begin(), bytes.size(), bytes.begin());
  return bytes;
}

}  // namespace

Decoder::Decoder(const StageContext& context, ReferenceTables& tables, KernelValidator& validator, DecodeListener& next,
                 Completion& completion)
    : PipelineStage(context),
      tables_(tables),
      validator_(validator),
      next_(next),
      completion_(completion),
      arbiter_(queues().count(), params().order == QueueOrder::priority),
      waiting_(queues().count(), nullptr) {}

void Decoder::enqueue(Packet& packet) {
  waiting_[packet.queue] = &packet;
  arbiter_.request(packet.queue);
  serve();
}

void Decoder::serve() {
  if (busy_) return;
  const auto queue = arbiter_.grant();
  if (!queue) return;
  Packet& packet = *waiting_[*queue];
  busy_ = true;
  packet.phase = Phase::decoding;
  packet.times.ready = now();
  schedule(cost(decode(packet)), kDecoded, packet);
  reporter().note_wait(*queue);
}

// The decoder is free again, whatever has become of the packet; reads of that may still be under way.
void Decoder::on_event(std::uint32_t, std::uint64_t argument) {
  busy_ = false;
  if (Packet* packet = packets().find(argument); packet != nullptr) {
    packet->phase = Phase::reading;
    finish(*packet);
  }
  serve();
}

// Starts to read what is needed, and gives the time that the decoder takes.
double Decoder::decode(Packet& packet) {
  switch (packet.type) {
    case PacketType::kernel_dispatch:
    case PacketType::reference_dispatch:
      packet.result = decode_dispatch(packet);
      if (packet.result.ok()) read_objects(packet);
      return packet.type == PacketType::kernel_dispatch ? params().decode_plain : params().decode_reference;
    case PacketType::condensed_dispatch:
      packet.result = decode_condensed(packet);
      return params().decode_condensed +
             params().decode_diff * static_cast<double>(std::min<std::uint32_t>(packet.bytes[1], arch::kDiffValues));
    default:
      packet.result = decode_other(packet);
      return params().decode_other;
  }
}

HsaResult Decoder::decode_dispatch(Packet& packet) {
  arch::KernelDispatch dispatch;
  HsaResult result = arch::decode(packet.bytes, dispatch);
  if (!result.ok()) return result;
  packet.entry = dispatch.reserved0;
  result = validator_.validate(dispatch.fields);
  if (!result.ok()) return result;
  arch::SynchScopes scopes;
  result = arch::decode(scopes, dispatch.fields.synch_scopes);
  if (!result.ok()) return result;
  packet.kernels.resize(1);
  Kernel& kernel = packet.kernels.front();
  kernel.fields = dispatch.fields;
  kernel.acquire = scopes.acquire;
  kernel.release = scopes.release;
  kernel.signal = dispatch.fields.completion_signal;
  return {};
}

HsaResult Decoder::decode_other(Packet& packet) {
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
  return result;
}

// What the packet needs of the table is copied before anything is launched (PKT-06).
HsaResult Decoder::decode_condensed(Packet& packet) {
  std::uint8_t entries = 0;
  const HsaResult result = entries_needed(packet.bytes, entries);
  if (!result.ok()) {
    packet.bad_kernel = first_bad_diff(packet.bytes);
    return result;
  }
  const ReferenceTable& table = tables_.of(packet.queue);
  std::uint8_t empty = 0;
  for (std::uint32_t entry = 0; entry < arch::kReferenceEntries; ++entry) {
    if (!table.valid(entry)) empty = static_cast<std::uint8_t>(empty | bits::one(entry));
  }
  if ((entries & empty) != 0) {
    packet.bad_kernel = first_kernel_of(packet.bytes, empty);
    return {HsaStatus::invalid_argument, arch::Reason::empty_entry};
  }
  if (params().table == TablePlace::scratch) {
    const HsaResult expanded = expand_kernels(packet, table);
    if (expanded.ok()) read_objects(packet);
    return expanded;
  }
  read_entries(packet, entries);
  return {};
}

void Decoder::read_entries(Packet& packet, std::uint8_t entries) {
  packet.entries = std::make_unique<ReferenceTable>();
  bits::for_each(entries, [&](std::uint32_t entry) {
    ++packet.reads;
    memory().read(tables_.address(packet.queue, entry), arch::kPacketBytes, tag(Use::table_read, packet, entry));
  });
}

void Decoder::entry_read(Packet& packet, const MemoryAnswer& answer) {
  arch::DispatchFields fields;
  HsaResult result{HsaStatus::error, arch::Reason::table_unreadable};
  if (answer.ok) result = decode_entry(packet_bytes(answer), answer.tag.part, fields);
  if (result.ok()) {
    packet.entries->store(answer.tag.part, fields);
  } else {
    const auto entry = static_cast<std::uint8_t>(bits::one(answer.tag.part));
    note_bad_kernel(packet, first_kernel_of(packet.bytes, entry), result);
  }
  if (packet.reads == 0 && packet.result.ok()) {
    packet.result = expand_kernels(packet, *packet.entries);
    if (packet.result.ok()) read_objects(packet);
  }
  finish(packet);
}

HsaResult Decoder::expand_kernels(Packet& packet, const ReferenceTable& table) {
  CondensedKernels kernels;
  HsaResult result = expand(packet.bytes, table, kernels, packet.bad_kernel);
  if (!result.ok()) return result;
  packet.kernels.resize(kernels.count);
  for (std::uint32_t i = 0; i < kernels.count; ++i) {
    const CondensedKernel& from = kernels.kernels[i];
    Kernel& kernel = packet.kernels[i];
    kernel.fields = from.fields;
    kernel.barrier = from.barrier;
    kernel.acquire = from.acquire;
    kernel.release = from.release;
    kernel.signal = from.signal;
  }
  for (std::uint32_t i = 0; i < kernels.count && result.ok(); ++i) {
    result = validator_.validate(packet.kernels[i].fields);
    if (!result.ok()) packet.bad_kernel = i;
  }
  return result;
}

// Each kernel object is read once.
void Decoder::read_objects(Packet& packet) {
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    const std::uint64_t object = packet.kernels[i].fields.kernel_object;
    const auto first = std::find_if(packet.kernels.begin(), packet.kernels.end(),
                                    [object](const Kernel& kernel) { return kernel.fields.kernel_object == object; });
    if (first - packet.kernels.begin() != static_cast<std::ptrdiff_t>(i)) continue;
    ++packet.reads;
    memory().read(object, arch::kKernelObjectBytes, tag(Use::kernel_object, packet, i));
  }
}

void Decoder::object_read(Packet& packet, const MemoryAnswer& answer) {
  arch::KernelObject object;
  HsaResult result{HsaStatus::invalid_code_object, arch::Reason::object_unreadable};
  if (answer.ok) result = arch::decode(answer.data, object);
  if (!result.ok()) return note_bad_kernel(packet, answer.tag.part, result);
  const std::uint64_t address = packet.kernels[answer.tag.part].fields.kernel_object;
  for (Kernel& kernel : packet.kernels) {
    if (kernel.fields.kernel_object == address) kernel.object = object;
  }
}

// Once the packet has left the decoder and nothing that it reads is missing.
void Decoder::finish(Packet& packet) {
  if (packet.phase != Phase::reading || packet.reads > 0) return;
  if (packet.result.ok()) packet.result = validate(packet);
  if (!packet.result.ok()) {
    completion_.reject(packet);
  } else if (packet.type == PacketType::reference_dispatch) {
    store_entry(packet);
  } else {
    next_.accept(packet);
  }
}

// Nothing of a bad packet launches (PKT-09): all its kernels are validated before the first one starts.
HsaResult Decoder::validate(Packet& packet) {
  const std::uint8_t subcontext = queues().setup(packet.queue).subcontext;
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    Kernel& kernel = packet.kernels[i];
    const HsaResult result = validator_.validate(kernel.fields, kernel.object, subcontext, kernel.shape);
    if (!result.ok()) {
      packet.bad_kernel = i;
      return result;
    }
    kernel.items = arch::items_of(kernel.fields);
  }
  return {};
}

// PKT-05. An entry in memory is there before the packet goes on.
void Decoder::store_entry(Packet& packet) {
  const arch::DispatchFields& fields = packet.kernels.front().fields;
  if (params().table == TablePlace::scratch) {
    tables_.of(packet.queue).store(packet.entry, fields);
    next_.accept(packet);
    return;
  }
  packet.phase = Phase::storing;
  ++packet.reads;
  const arch::PacketBytes bytes = encode_entry(packet.entry, fields);
  memory().write(tables_.address(packet.queue, packet.entry), bytes.data(), arch::kPacketBytes,
                 tag(Use::table_write, packet, packet.entry));
}

void Decoder::entry_written(Packet& packet, const MemoryAnswer& answer) {
  if (!answer.ok) {
    packet.result = {HsaStatus::error, arch::Reason::table_unwritable};
    completion_.reject(packet);
    return;
  }
  tables_.of(packet.queue).store(answer.tag.part, packet.kernels.front().fields);
  next_.accept(packet);
}

void Decoder::on_answer(Packet& packet, const MemoryAnswer& answer) {
  switch (answer.tag.use) {
    case Use::table_read:
      return entry_read(packet, answer);
    case Use::table_write:
      return entry_written(packet, answer);
    default:
      object_read(packet, answer);
      finish(packet);
  }
}

void Decoder::reset() {
  arbiter_.reset();
  waiting_.assign(waiting_.size(), nullptr);
  busy_ = false;
}

void Decoder::collect_waits(WaitGraph& graph, const Packet& packet) const {
  if (packet.reads > 0 && packet.phase != Phase::signals) graph.add(name_of(packet), "for an answer from", "memory");
  if (packet.phase == Phase::decoder) graph.add(name_of(packet), "for its turn at", "the decoder");
}

}  // namespace heddle::packet
