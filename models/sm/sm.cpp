#include "sm/sm.h"

namespace heddle::sm {
namespace {

// Where accesses are calls, a packet reserves its way through the network, and there is always room for it.
std::uint32_t cluster_credits(const Domain& domain, const SmParams& params) {
  return has_calls(domain.mode()) ? kUnlimitedCredits : params.memory.cluster_queue;
}

}  // namespace

Sm::Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
       const SmContext& place, std::uint32_t exit_distance, std::uint64_t seed, const arch::CodeStore& code,
       const MemoryView& view)
    : Block(name, domain, path),
      start_in("start_in", domain, exit_distance),
      exit_out("exit_out", domain, exit_distance, kUnlimitedCredits),  // bounded by the CTA slots
      abort_in("abort_in", domain, exit_distance),
      part_in("part_in", domain, exit_distance),
      local_in("local_in", domain, exit_distance),
      memory_out("memory_out", domain),
      entry_in("entry_in", domain, 0, CreditReturn::on_receipt, PacketSenders::many),
      order_in("order_in", domain, exit_distance),
      notice_out("notice_out", domain, exit_distance, kUnlimitedCredits),  // a few for each CTA and CGA
      // What lies between SMs is the network's.
      dsmem_out("dsmem_out", domain, 0, cluster_credits(domain, params)),
      reply_in("reply_in", domain, 0),
      dsmem_in("dsmem_in", domain, 0, CreditReturn::by_owner),
      reply_out("reply_out", domain, 0, cluster_credits(domain, params)),
      bulk_out("bulk_out", domain, place.bulk_way, place.bulk_queue),
      bulk_done_in("bulk_done_in", domain, place.bulk_way),
      bulk_data_in("bulk_data_in", domain, place.bulk_way),
      bulk_read_in("bulk_read_in", domain, place.bulk_way),
      bulk_read_out("bulk_read_out", domain, place.bulk_way, kUnlimitedCredits),  // bounded by what the TMAU has open
      child_out("child_out", domain, params.nested.distance, kUnlimitedCredits),  // bounded by the TMDs
      wake_in("wake_in", domain, params.nested.distance),
      query_out("query_out", domain, place.query_way, kUnlimitedCredits),  // one of each warp
      answer_in("answer_in", domain, 0),
      work_out("work_out", domain, 0, kUnlimitedCredits),  // bounded by the CTA slots
      work_done_in("work_done_in", domain, 0),
      core_(domain, domain, params, place, code, view, seed, path, this->name(),
            {{memory_out, dsmem_out, dsmem_in, reply_out, bulk_read_out},
             bulk_out,
             exit_out,
             notice_out,
             child_out,
             query_out,
             work_out}) {
  entry_in.on_packet_ahead<Sm, &Sm::on_entry>(*this);
  start_in.on_packet_ahead<CtaControl, &CtaControl::on_start>(core_.control);
  abort_in.on_packet<CtaControl, &CtaControl::on_abort>(core_.control);
  part_in.on_packet<Sm, &Sm::on_part>(*this);
  local_in.on_packet_ahead<Sm, &Sm::on_local>(*this);
  order_in.on_packet_ahead<CtaControl, &CtaControl::on_order>(core_.control);
  memory_out.connect<L2Port, &L2Port::on_response, &L2Port::on_room>(core_.memory.l2);
  dsmem_in.on_packet<DsmemServer, &DsmemServer::on_request>(core_.memory.server);
  dsmem_out.on_credit<MemoryPaths, &MemoryPaths::on_dsmem_room>(core_.memory);
  if (has_calls(domain.mode())) {
    reply_in.on_packet_ahead<MemoryPaths, &MemoryPaths::on_dsmem_reply_ahead>(core_.memory);
  } else {
    reply_in.on_packet<MemoryPaths, &MemoryPaths::on_dsmem_reply>(core_.memory);
  }
  reply_out.on_credit<MemoryPaths, &MemoryPaths::on_dsmem_room>(core_.memory);
  bulk_out.on_credit<BulkUnit, &BulkUnit::on_room>(core_.bulk);
  bulk_done_in.on_packet<BulkUnit, &BulkUnit::on_done>(core_.bulk);
  bulk_data_in.on_packet_ahead<BulkData, &BulkData::on_data_ahead>(core_.memory.bulk);
  bulk_read_in.on_packet<BulkData, &BulkData::on_read>(core_.memory.bulk);
  wake_in.on_packet<Sm, &Sm::on_wake>(*this);
  work_done_in.on_packet_ahead<TimedCtas, &TimedCtas::on_done>(core_.timed);
  answer_in.on_packet<OccupancyQueryUnit, &OccupancyQueryUnit::on_answer>(core_.queries);
}

Sm::~Sm() = default;

void Sm::end_of_elaboration() {
  core_.bulk.connect(bulk_out.links() > 0);
  core_.tasks.connect(child_out.links() > 0);
  core_.queries.connect(query_out.links() > 0);
  core_.timed.connect(work_out.links() > 0);
}

void Sm::on_wake(const protocol::WakePacket& wake, std::uint32_t) {
  if (wake.task) return core_.dependencies.on_wake(wake);
  core_.launches.on_wake(wake);
}

void Sm::check_idle() {
  HEDDLE_CHECK(resident() == 0 && used() == base(), "an SM of an idle machine holds resources");
  HEDDLE_CHECK(quiescent(), "an SM of an idle machine knows of CGAs");
}

}  // namespace heddle::sm
