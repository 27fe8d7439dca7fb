#include "packet/packet_processor.h"

#include <algorithm>

#include "packet/packet_router.h"
#include "protocol/memory_client.h"

namespace heddle::packet {

// The stages' way to memory, over the socket.
class PacketProcessor::Memory final : public MemoryPort {
 public:
  Memory(Domain& domain, MemoryOut& out, EventHandler& handler) : client_(domain, out, handler, kAnswer, kSend) {}

  void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const MemoryTag& tag) override {
    client_.read(address, bytes, subcontext, tag);
  }
  void watch(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, std::uint64_t watch,
             const MemoryTag& tag) override {
    client_.watch(address, bytes, subcontext, watch, tag);
  }
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
             const MemoryTag& tag) override {
    client_.write(address, data, bytes, subcontext, tag);
  }
  void read_own(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) override {
    client_.read(address, bytes, 0, tag, protocol::AddressSpace::physical);
  }
  void write_own(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) override {
    client_.write(address, data, bytes, 0, tag, protocol::AddressSpace::physical);
  }
  void decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag) override {
    client_.decrement(address, subcontext, tag);
  }
  void write_back(const MemoryTag& tag) override { client_.write_back(tag); }
  void invalidate(const MemoryTag& tag) override { client_.invalidate(tag); }
  std::size_t open() const override { return client_.open(); }

  MemoryAnswer take(std::uint64_t argument) {
    const auto answer = client_.take(argument);
    return {answer.tag, answer.ok, answer.data};
  }
  void send() { client_.send(); }
  void reset() { client_.reset(); }

 private:
  protocol::MemoryClient<MemoryTag> client_;
};

PacketProcessor::PacketProcessor(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                                 const PacketParams& params, const arch::SmLimits& limits, arch::CodeStore& codes,
                                 arch::BroughtCode& brought, const FitCheck& fit, std::uint64_t table_base)
    : Block(name, domain, path),
      command_in("command_in", domain, 0),
      event_out("event_out", domain, 0, kUnlimitedCredits),
      dispatch_out("dispatch_out", domain, 0, kUnlimitedCredits),
      dispatch_done_in("dispatch_done_in", domain, 0),
      copy_out("copy_out", domain, 0, kUnlimitedCredits),
      copy_done_in("copy_done_in", domain, 0),
      memory_out("memory_out", domain),
      written_in("written_in", domain, 0),
      memory_(std::make_unique<Memory>(domain, memory_out, *this)) {
  const Nanoseconds clock{domain.clock().period().to_seconds()};
  router_ = std::make_unique<PacketRouter>(handler_name(), path, params,
                                           PacketRouter::Machine{domain, clock, limits, codes, brought, fit, table_base,
                                                                 *memory_, event_out, dispatch_out, copy_out});
  command_in.on_packet<QueueControl, &QueueControl::on_command>(router_->queue_control());
  dispatch_done_in.on_packet<Dispatcher, &Dispatcher::on_dispatch_done>(router_->dispatcher());
  written_in.on_packet<OtherPackets, &OtherPackets::on_written>(router_->other_packets());
  copy_done_in.on_packet<OtherPackets, &OtherPackets::on_copy_done>(router_->other_packets());
}

PacketProcessor::~PacketProcessor() = default;

void PacketProcessor::listen(PacketListener& listener) { router_->listen(listener); }
std::uint32_t PacketProcessor::queues() const { return router_->queues(); }
std::uint64_t PacketProcessor::open() const { return router_->open(); }
bool PacketProcessor::quiescent() const { return router_->quiescent(); }

void PacketProcessor::check_idle() { HEDDLE_CHECK(quiescent(), "the packet processor of an idle machine has work"); }

void PacketProcessor::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kAnswer) {
    router_->on_answer(memory_->take(argument));
  } else {
    memory_->send();
  }
}

void PacketProcessor::reset() {
  memory_->reset();
  router_->reset();
}

void PacketProcessor::save(StateWriter& to) const { router_->save(to); }
void PacketProcessor::restore(StateReader& from) { router_->restore(from); }

void PacketProcessor::collect_waits(WaitGraph& graph) const { router_->collect_waits(graph); }

}  // namespace heddle::packet
