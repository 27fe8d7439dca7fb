// What packets say, what is wrong with them (PKT-09), and what must be read to know it.
#include <algorithm>

#include "packet/engine.h"
#include "packet/packet_check.h"

namespace heddle::packet {

using arch::HsaStatus;
using arch::PacketType;
using arch::Verdict;
using Use = MemoryTag::Use;

namespace {

constexpr std::size_t kFitsKept = 16;

bool same(const arch::ClusterShape& a, const arch::ClusterShape& b) {
  return a.extents == b.extents && a.fallback == b.fallback && a.mode == b.mode && a.linear_memory == b.linear_memory;
}

// As far as it matters to where a kernel fits.
bool same(const arch::KernelShape& a, const arch::KernelShape& b) {
  return a.grid == b.grid && a.block == b.block && a.registers_per_thread == b.registers_per_thread &&
         a.shared_bytes == b.shared_bytes && a.local_bytes == b.local_bytes && same(a.cluster, b.cluster);
}

}  // namespace

// Starts to read what is needed, and gives the time that the decoder takes.
double PacketProcessor::Engine::decode(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  switch (packet.type) {
    case PacketType::kernel_dispatch:
    case PacketType::reference_dispatch:
      packet.verdict = decode_plain(packet);
      if (packet.verdict.ok()) read_objects(slot);
      return packet.type == PacketType::kernel_dispatch ? params_.decode_plain : params_.decode_reference;
    case PacketType::condensed_dispatch:
      packet.verdict = decode_condensed(slot);
      return params_.decode_condensed +
             params_.decode_diff * static_cast<double>(std::min<std::uint32_t>(packet.bytes[1], arch::kDiffValues));
    default:
      packet.verdict = decode_other(packet);
      return params_.decode_other;
  }
}

Verdict PacketProcessor::Engine::decode_plain(Packet& packet) {
  arch::KernelDispatch dispatch;
  Verdict verdict = arch::decode(packet.bytes, dispatch);
  if (!verdict.ok()) return verdict;
  packet.entry = dispatch.reserved0;
  verdict = check(dispatch.fields, limits_);
  if (!verdict.ok()) return verdict;
  arch::SynchScopes scopes;
  verdict = arch::decode(scopes, dispatch.fields.synch_scopes);
  if (!verdict.ok()) return verdict;
  packet.kernels.resize(1);
  Kernel& kernel = packet.kernels.front();
  kernel.fields = dispatch.fields;
  kernel.acquire = scopes.acquire;
  kernel.release = scopes.release;
  kernel.signal = dispatch.fields.completion_signal;
  return {};
}

Verdict PacketProcessor::Engine::decode_other(Packet& packet) {
  Verdict verdict;
  const auto take = [&](const auto& decoded) {
    packet.scopes = decoded.scopes;
    packet.signal = decoded.completion_signal;
  };
  if (packet.type == PacketType::barrier_and || packet.type == PacketType::barrier_or) {
    verdict = arch::decode(packet.bytes, packet.barrier);
    if (verdict.ok()) take(packet.barrier);
  } else if (packet.type == PacketType::agent_dispatch) {
    arch::AgentDispatch agent;
    verdict = arch::decode(packet.bytes, agent);
    if (verdict.ok()) take(agent);
  } else {
    verdict = arch::decode(packet.bytes, packet.vendor);
    if (verdict.ok()) take(packet.vendor);
  }
  return verdict;
}

// What it needs of the table is copied before anything is launched (PKT-06).
Verdict PacketProcessor::Engine::decode_condensed(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  std::uint8_t entries = 0;
  const Verdict verdict = entries_needed(packet.bytes, entries);
  if (!verdict.ok()) {
    packet.bad = first_bad_diff(packet.bytes);
    return verdict;
  }
  const ReferenceTable& table = table_of(packet.queue);
  std::uint8_t empty = 0;
  for (std::uint32_t entry = 0; entry < arch::kReferenceEntries; ++entry) {
    if (!table.valid(entry)) empty = static_cast<std::uint8_t>(empty | 1U << entry);
  }
  if ((entries & empty) != 0) {
    packet.bad = first_kernel_of(packet.bytes, empty);
    return {HsaStatus::invalid_argument, "an entry of the reference state table is empty"};
  }
  if (params_.table == TablePlace::scratch) {
    const Verdict taken = take_entries(packet, table);
    if (taken.ok()) read_objects(slot);
    return taken;
  }
  packet.entries = std::make_unique<ReferenceTable>();
  Queue& queue = queues_[packet.queue];
  for (std::uint32_t entry = 0; entry < arch::kReferenceEntries; ++entry) {
    if ((entries >> entry & 1) == 0) continue;
    ++packet.reads;
    ++queue.requests;
    memory_.read(table_address(packet.queue, entry), arch::kPacketBytes, queue.setup.subcontext,
                 tag(Use::table_read, slot, entry));
  }
  return {};
}

void PacketProcessor::Engine::entry_read(std::uint32_t slot, const MemoryAnswer& answer) {
  Packet& packet = packets_[slot];
  arch::PacketBytes bytes;
  std::copy_n(answer.data.begin(), bytes.size(), bytes.begin());
  arch::DispatchFields fields;
  Verdict verdict{HsaStatus::error, "the reference state table cannot be read"};
  if (answer.ok) verdict = decode_entry(bytes, answer.tag.part, fields);
  if (verdict.ok()) {
    packet.entries->store(answer.tag.part, fields);
  } else {
    // Of several the first kernel's, whichever answer comes first.
    const std::uint32_t kernel = first_kernel_of(packet.bytes, static_cast<std::uint8_t>(1U << answer.tag.part));
    if (packet.verdict.ok() || kernel < packet.bad) {
      packet.verdict = verdict;
      packet.bad = kernel;
    }
  }
  if (packet.reads == 0 && packet.verdict.ok()) {
    packet.verdict = take_entries(packet, *packet.entries);
    if (packet.verdict.ok()) read_objects(slot);
  }
  decode_on(slot);
}

Verdict PacketProcessor::Engine::take_entries(Packet& packet, const ReferenceTable& table) {
  CondensedKernels kernels;
  Verdict verdict = expand(packet.bytes, table, kernels, packet.bad);
  if (!verdict.ok()) return verdict;
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
  for (std::uint32_t i = 0; i < kernels.count && verdict.ok(); ++i) {
    verdict = check(packet.kernels[i].fields, limits_);
    if (!verdict.ok()) packet.bad = i;
  }
  return verdict;
}

// Each kernel object once.
void PacketProcessor::Engine::read_objects(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  Queue& queue = queues_[packet.queue];
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    const std::uint64_t object = packet.kernels[i].fields.kernel_object;
    const auto first = std::find_if(packet.kernels.begin(), packet.kernels.end(),
                                    [object](const Kernel& kernel) { return kernel.fields.kernel_object == object; });
    if (first - packet.kernels.begin() != static_cast<std::ptrdiff_t>(i)) continue;
    ++packet.reads;
    ++queue.requests;
    memory_.read(object, arch::kKernelObjectBytes, queue.setup.subcontext, tag(Use::kernel_object, slot, i));
  }
}

void PacketProcessor::Engine::object_read(Packet& packet, const MemoryAnswer& answer) {
  arch::KernelObject object;
  Verdict verdict{HsaStatus::invalid_code_object, "the kernel object cannot be read"};
  if (answer.ok) verdict = arch::decode(answer.data, object);
  if (!verdict.ok()) {
    // Of several the first kernel's, whichever answer comes first.
    if (packet.verdict.ok() || answer.tag.part < packet.bad) {
      packet.verdict = verdict;
      packet.bad = answer.tag.part;
    }
    return;
  }
  const std::uint64_t address = packet.kernels[answer.tag.part].fields.kernel_object;
  for (Kernel& kernel : packet.kernels) {
    if (kernel.fields.kernel_object == address) kernel.object = object;
  }
}

// Nothing of a bad packet launches (PKT-09): all its kernels are judged before the first one starts.
Verdict PacketProcessor::Engine::judge(Packet& packet) {
  for (std::uint32_t i = 0; i < packet.kernels.size(); ++i) {
    const Verdict verdict = judge(packet, packet.kernels[i]);
    if (verdict.ok()) continue;
    packet.bad = i;
    return verdict;
  }
  return {};
}

Verdict PacketProcessor::Engine::judge(const Packet& packet, Kernel& kernel) {
  const Verdict verdict = check(kernel.fields, kernel.object, limits_);
  if (!verdict.ok()) return verdict;
  if (kernel.object.program != arch::kNoCode && !codes_.has(kernel.object.program)) {
    return {HsaStatus::invalid_code_object, "there is no such program"};
  }
  kernel.shape = arch::shape_of(kernel.fields, kernel.object, queues_[packet.queue].setup.subcontext);
  kernel.items = arch::items_of(kernel.fields);
  if (!arch::why_impossible(limits_, kernel.shape).empty()) {
    return {HsaStatus::out_of_resources, "a workgroup needs more than an SM has"};
  }
  if (kernel.shape.cluster.any() && !why_never_fits(kernel.shape).empty()) {
    return {HsaStatus::out_of_resources, "nothing of the machine can hold a cluster"};
  }
  return {};
}

const std::string& PacketProcessor::Engine::why_never_fits(const arch::KernelShape& shape) {
  for (const Fit& fit : fits_) {
    if (same(fit.shape, shape)) return fit.why;
  }
  if (fits_.size() == kFitsKept) fits_.pop_back();
  fits_.push_front({shape, fit_.why_never_fits(shape)});
  return fits_.front().why;
}

ReferenceTable& PacketProcessor::Engine::table_of(std::uint32_t queue) {
  return tables_[params_.table_owner == TableOwner::queue ? queue : 0];
}

const ReferenceTable& PacketProcessor::Engine::table_of(std::uint32_t queue) const {
  return tables_[params_.table_owner == TableOwner::queue ? queue : 0];
}

std::uint64_t PacketProcessor::Engine::table_address(std::uint32_t queue, std::uint32_t entry) const {
  const std::uint64_t table = params_.table_owner == TableOwner::queue ? queue : 0;
  return table_base_ + (table * arch::kReferenceEntries + entry) * arch::kPacketBytes;
}

// PKT-05. An entry in memory is there before the packet goes on.
void PacketProcessor::Engine::store_entry(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  const arch::DispatchFields& fields = packet.kernels.front().fields;
  if (params_.table == TablePlace::scratch) {
    table_of(packet.queue).store(packet.entry, fields);
    proceed(slot);
    return;
  }
  packet.stage = Stage::storing;
  ++packet.reads;
  Queue& queue = queues_[packet.queue];
  ++queue.requests;
  const arch::PacketBytes bytes = encode_entry(packet.entry, fields);
  memory_.write(table_address(packet.queue, packet.entry), bytes.data(), arch::kPacketBytes, queue.setup.subcontext,
                tag(Use::table_write, slot, packet.entry));
}

void PacketProcessor::Engine::entry_written(std::uint32_t slot, const MemoryAnswer& answer) {
  Packet& packet = packets_[slot];
  if (!answer.ok) {
    packet.verdict = {HsaStatus::error, "the reference state table cannot be written"};
    fail_turn(slot);
    return;
  }
  table_of(packet.queue).store(answer.tag.part, packet.kernels.front().fields);
  proceed(slot);
}

}  // namespace heddle::packet
