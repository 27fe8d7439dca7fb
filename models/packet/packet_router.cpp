#include "packet/packet_router.h"

namespace heddle::packet {

using Use = MemoryTag::Use;

PacketRouter::PacketRouter(const char* name, const std::string& path, const PacketParams& params,
                           const Machine& machine)
    : queues_(params.queues, machine.host),
      memory_(machine.memory, queues_),
      reporter_(machine.timebase, path, machine.clock, heads_, params.queues),
      circuit_(params, machine.clock.of_cycles(1)),
      context_{machine.timebase, name, params, machine.clock, packets_, queues_, memory_, reporter_, circuit_},
      validator_(machine.limits, machine.brought, machine.fit),
      tables_(context_, {decoder_, heads_, validator_, control_}, machine.table_base),
      reader_(context_, heads_, control_),
      heads_(context_, {reader_, tables_, decoder_, dispatcher_, completion_, control_}),
      decoder_(context_, tables_, validator_, machine.brought, dispatcher_, completion_),
      dispatcher_(context_, {reader_, heads_, others_, completion_, control_}, machine.codes, machine.tasks),
      others_(context_, {reader_, heads_, dispatcher_, completion_, control_}, machine.copies),
      completion_(context_, dispatcher_, heads_, others_, control_),
      control_(context_, {reader_, heads_, decoder_, dispatcher_, others_, tables_}) {
  machine.brought.add_user(*this);
}

void PacketRouter::on_answer(const MemoryAnswer& answer) {
  const std::uint32_t queue = answer.tag.queue;
  memory_.answered(queue);
  switch (answer.tag.use) {
    case Use::ring:
    case Use::slot_cleared:
    case Use::read_index:
      reader_.on_answer(answer);
      break;
    case Use::table_read:
    case Use::table_write:
    case Use::table_clear:
      tables_.on_answer(answer);
      break;
    case Use::kernel_object:
    case Use::code:
    case Use::dependency:
    case Use::acquire:
      answer_packet(answer);
      break;
    default:
      completion_.on_answer(answer);
  }
  control_.try_close(queue);
}

void PacketRouter::answer_packet(const MemoryAnswer& answer) {
  Packet* packet = packets_.find(std::uint64_t{answer.tag.generation} << 32 | answer.tag.slot);
  if (packet == nullptr) return;  // it has been dropped in the meantime
  --packet->reads;
  if (answer.tag.use == Use::dependency) {
    others_.on_answer(*packet, answer);
  } else if (answer.tag.use == Use::acquire) {
    dispatcher_.on_invalidated(*packet);
  } else {
    decoder_.on_answer(*packet, answer);
  }
}

void PacketRouter::reset() {
  queues_.reset();
  memory_.reset();
  packets_.clear();
  reader_.reset();
  heads_.reset();
  circuit_.reset();
  tables_.reset();
  validator_.reset();
  decoder_.reset();
  dispatcher_.reset();
  others_.reset();
  completion_.reset();
  reporter_.reset();
}

// Programs of packets under way, and of table entries.
void PacketRouter::mark_codes(std::set<std::uint32_t>& used) const {
  packets_.for_each([&used](const Packet& packet) {
    for (const Packet::Code& code : packet.codes) used.insert(code.object.program);
    for (const Kernel& kernel : packet.kernels) used.insert(kernel.object.program);
    if (packet.entries != nullptr) packet.entries->mark_codes(used);
  });
  tables_.mark_codes(used);
}

void PacketRouter::save(StateWriter& to) const {
  for (std::uint32_t queue = 0; queue < queues_.count(); ++queue) control_.save(queue, to);
  tables_.save(to);
}

void PacketRouter::restore(StateReader& from) {
  for (std::uint32_t queue = 0; queue < queues_.count(); ++queue) control_.restore(queue, from);
  tables_.restore(from);
}

void PacketRouter::collect_waits(WaitGraph& graph) const {
  packets_.for_each([&](const Packet& packet) {
    decoder_.collect_waits(graph, packet);
    heads_.collect_waits(graph, packet);
    dispatcher_.collect_waits(graph, packet);
    others_.collect_waits(graph, packet);
  });
  for (std::uint32_t queue = 0; queue < queues_.count(); ++queue) {
    control_.collect_waits(graph, queue);
    heads_.collect_waits(graph, queue);
  }
}

}  // namespace heddle::packet
