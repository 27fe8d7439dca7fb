#include "packet/packet_processor.h"

#include "packet/engine.h"

namespace heddle::packet {

PacketProcessor::PacketProcessor(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                                 const PacketParams& params, const arch::SmLimits& limits, arch::CodeStore& codes,
                                 const FitCheck& fit, std::uint64_t table_base)
    : Block(name, domain, path),
      command_in("command_in", domain, 0),
      event_out("event_out", domain, 0, kUnlimitedCredits),
      dispatch_out("dispatch_out", domain, 0, kUnlimitedCredits),
      dispatch_done_in("dispatch_done_in", domain, 0),
      copy_out("copy_out", domain, 0, kUnlimitedCredits),
      copy_done_in("copy_done_in", domain, 0),
      memory_out("memory_out", domain),
      engine_(std::make_unique<Engine>(*this, params, limits, codes, fit, table_base)) {
  command_in.on_packet<Engine, &Engine::on_command>(*engine_);
  dispatch_done_in.on_packet<Engine, &Engine::on_dispatch_done>(*engine_);
  copy_done_in.on_packet<Engine, &Engine::on_copy_done>(*engine_);
}

PacketProcessor::~PacketProcessor() = default;

void PacketProcessor::listen(PacketListener& listener) { engine_->listen(listener); }
std::uint32_t PacketProcessor::queues() const { return engine_->queues(); }
std::uint64_t PacketProcessor::open() const { return engine_->open(); }
bool PacketProcessor::quiescent() const { return engine_->quiescent(); }
void PacketProcessor::on_event(std::uint32_t kind, std::uint64_t argument) { engine_->on_event(kind, argument); }
void PacketProcessor::reset() { engine_->reset(); }
void PacketProcessor::collect_waits(WaitGraph& graph) const { engine_->collect_waits(graph); }

}  // namespace heddle::packet
