// A reset in mid-flight: what comes afterwards is what comes in a new machine, cycle by cycle (PKT-04).
#include "packet/packet_bench.h"

namespace packet_processor_reset_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::PacketType;
using heddle::packet::Circuit;
using heddle::packet::PacketParams;
using heddle::packet::QueueOrder;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

using Lines = std::vector<std::string>;

// Every kind of packet, on two queues that wait for each other.
class Play {
 public:
  explicit Play(PacketBench& bench) : bench_(bench), begin_(bench.domain.now()) {
    bench.log.done.clear();
    bench.host.events.clear();
    bench.host.react = [this](const protocol::QueueEventPacket& event) {
      if (event.event == QueueEvent::agent) second_->agent_done(event.index);
    };
    const std::uint64_t stamped = bench.signal(2, 3) | arch::kSignalTimestamps;
    const std::uint64_t done = bench.signal(5, 1);
    const std::uint64_t asked = bench.fit.asked;
    arch::ClusterShape cluster;
    cluster.of(arch::CgaLevel::gpc) = {2, 1, 1};
    arch::DispatchFields fields = fields_of(bench.object("a", 0, cluster), stamped);
    fields.synch_scopes = 2 << 1 | 2 << 3;
    first_ = std::make_unique<Producer>(bench, 0);
    second_ = std::make_unique<Producer>(bench, 1, 8, 3);
    first_->write(reference_packet(1, fields));
    first_->write(barrier_packet(PacketType::barrier_and, {done}));
    first_->write(condensed_packet({diff_of(1), diff_of(1, {{12, bench.signal(6, 1)}}), diff_of(1)}));
    first_->write(condensed_packet({diff_of(1)}));
    first_->write(hold_packet(700));
    first_->write(kernel_packet(bench.object("b", 1), 0, true));
    second_->write(agent_packet(1));
    second_->write(kernel_packet(bench.object("c", 2), done));
    arch::VendorPacket copy;
    copy.from = 0x5000;
    copy.to = 0x6000;
    copy.bytes = 64;
    second_->write(arch::encode(copy));
    second_->write(barrier_packet(PacketType::barrier_or, {arch::kHostWindow + 0x8000, bench.signal(6, 1)}));
    bench.memory.put(arch::kHostWindow + 0x8000, 1);
    first_->ring(5);
    second_->ring(6);
    asked_ = asked;
  }
  ~Play() { bench_.host.react = nullptr; }

  // What has come of it, with times since its begin.
  Lines end() {
    REQUIRE(bench_.settle());
    Lines lines;
    for (const heddle::packet::PacketRecord& record : bench_.log.done) {
      const auto& t = record.times;
      std::string line = std::to_string(record.queue) + "." + std::to_string(record.index) + "." +
                         std::to_string(record.kernel) + " " + std::to_string(static_cast<unsigned>(record.status));
      for (const Cycle time :
           {t.doorbell, t.fetched, t.ready, t.decoded, t.dispatched, t.started, t.ended, t.cleaned}) {
        line += " " + (time == 0 ? std::string("-") : std::to_string(time - begin_));
      }
      lines.push_back(line);
    }
    lines.push_back(std::to_string(bench_.fit.asked - asked_) + " kernels asked for");
    lines.push_back(std::to_string(bench_.codes.lent()) + " codes lent");
    first_->close();
    second_->close();
    bench_.run(1000);
    for (const std::uint32_t queue : {0, 1}) {
      CHECK(bench_.events(QueueEvent::state, queue).back().state == QueueState::closed);
    }
    return lines;
  }

 private:
  PacketBench& bench_;
  Cycle begin_;
  std::uint64_t asked_ = 0;
  std::unique_ptr<Producer> first_;
  std::unique_ptr<Producer> second_;
};

std::vector<PacketParams> machines() {
  std::vector<PacketParams> all(4);
  all[0].table_bits = 8;  // the port is busy for long
  all[1].circuit = Circuit::general;
  all[1].in_flight = 1;
  all[2].table = TablePlace::memory;
  all[2].table_owner = TableOwner::agent;
  all[3].table = TablePlace::memory;
  all[3].condensed = heddle::packet::CondensedOrder::overlap;
  all[3].in_flight = 2;
  all[3].order = QueueOrder::priority;
  return all;
}

}  // namespace

TEST_CASE("after a reset in any phase packets take the time that they take in a new machine",
          "[packet][PKT-04][PKT-08]") {
  for (const PacketParams& params : machines()) {
    CAPTURE(static_cast<int>(params.table), static_cast<int>(params.circuit), params.in_flight);
    Lines expected;
    {
      PacketBench bench(params);
      expected = Play(bench).end();
      REQUIRE(expected.size() == 8 + 4 + 2);
    }
    for (Cycle cycle = 3; cycle < 8000; cycle += 397) {
      CAPTURE(cycle);
      PacketBench bench(params);
      {
        Play cut(bench);
        bench.run(cycle);
      }
      bench.domain.reset();
      CHECK(bench.observation.stats.value("gpu0.packet.in_flight") == 0);
      CHECK(bench.observation.stats.value("gpu0.packet.open") == 0);
      CHECK(bench.waits().empty());
      CHECK(Play(bench).end() == expected);
    }
  }
}

}  // namespace packet_processor_reset_test
