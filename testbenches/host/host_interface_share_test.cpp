// How the machine is shared, by registers (PRT-07).
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/packet_socket.h"
#include "host/host_interface_bench.h"

namespace heddle::test::host_interface_share_test {

TEST_CASE("a change of how the machine is shared leaves behind the access", "[host][HST-01][PRT-07]") {
  struct Receiver : sc_core::sc_module {
    Receiver(const sc_core::sc_module_name& name, Domain& domain_)
        : sc_core::sc_module(name), in("in", domain_, 0), domain(domain_) {
      in.on_packet<Receiver, &Receiver::on_share>(*this);
    }
    void on_share(const protocol::SubcontextPacket& packet, std::uint32_t) { got.emplace_back(domain.now(), packet); }
    PacketIn<protocol::SubcontextPacket> in;
    Domain& domain;
    std::vector<std::pair<Cycle, protocol::SubcontextPacket>> got;
  };
  HostBench bench;
  Receiver receiver("receiver", bench.domain);
  bench.host.share_out.bind(receiver.in);
  start();
  bench.write(host::offset_of(RegisterId::share_subcontext), 4, 9);
  bench.write(host::offset_of(RegisterId::share_value), 8, 17);
  CHECK(receiver.got.empty());
  bench.write(host::offset_of(RegisterId::share_command), 4, host::kShareCredits);
  run_until_idle();
  REQUIRE(receiver.got.size() == 1);
  CHECK(receiver.got[0].second.what == protocol::SubcontextPacket::What::credits);
  CHECK(receiver.got[0].second.subcontext == 9);
  CHECK(receiver.got[0].second.value == 17);
  CHECK(bench.read(host::offset_of(RegisterId::share_credits), 4) == 17);
  bench.host.note(protocol::ShareRefusal::tpc);
  CHECK(bench.read(host::offset_of(RegisterId::share_refused), 4) == 1);
}

TEST_CASE("a window of the host's memory leaves behind the access", "[host][HST-06]") {
  struct Receiver : sc_core::sc_module {
    Receiver(const sc_core::sc_module_name& name, Domain& domain_)
        : sc_core::sc_module(name), in("in", domain_, 0), domain(domain_) {
      in.on_packet<Receiver, &Receiver::on_window>(*this);
    }
    void on_window(const protocol::HostWindowPacket& packet, std::uint32_t) { got.emplace_back(domain.now(), packet); }
    PacketIn<protocol::HostWindowPacket> in;
    Domain& domain;
    std::vector<std::pair<Cycle, protocol::HostWindowPacket>> got;
  };
  HostBench bench;
  Receiver receiver("receiver", bench.domain);
  bench.host.window_out.bind(receiver.in);
  start();
  bench.write(host::offset_of(RegisterId::window_command), 4, host::kWindowIsolate);
  CHECK(receiver.got.empty());
  run_until_idle();
  REQUIRE(receiver.got.size() == 1);
  CHECK(receiver.got[0].second.what == protocol::HostWindowPacket::What::isolate);
  // As late as a command to a queue.
  const host::HostParams params;
  CHECK(static_cast<double>(receiver.got[0].first) >= params.register_latency + params.doorbell);
  bench.host.note(host::WindowFault{0x8000'0000'0000'4000, 3, true});
  CHECK(bench.read(host::offset_of(RegisterId::window_fault_address), 8) == 0x8000'0000'0000'4000);
}

}  // namespace heddle::test::host_interface_share_test
