// Acquire fences of packets: with which fence a kernel is launched, and what the caches are told (PKT-14).
#include "packet/packet_bench.h"

namespace packet_acquire_fence_test {

namespace arch = heddle::arch;
using arch::FenceScope;
using heddle::Cycle;
using namespace heddle::test;

namespace {

arch::DispatchFields fields_with(std::uint64_t object, bool barrier, FenceScope acquire, FenceScope release,
                                 std::uint64_t signal = 0) {
  arch::DispatchFields fields = fields_of(object, signal);
  fields.synch_scopes = arch::encode(arch::SynchScopes{barrier, acquire, release});
  return fields;
}

arch::PacketBytes plain(const arch::DispatchFields& fields) { return arch::encode(arch::KernelDispatch{fields, 0, 0}); }

std::vector<std::uint64_t> fences(const PacketBench& bench) {
  std::vector<std::uint64_t> all;
  for (const FakeTasks::Kernel& kernel : bench.tasks.kernels) all.push_back(kernel.packet.fence);
  return all;
}

}  // namespace

TEST_CASE("a kernel knows the last acquire fence before it, of whatever queue", "[packet][PKT-14]") {
  PacketBench bench;
  const std::uint64_t object = bench.object("k");
  Producer a(bench, 0);
  Producer b(bench, 1);
  const auto run = [&](Producer& queue, FenceScope acquire) {
    queue.submit(plain(fields_with(object, false, acquire, FenceScope::none)));
    REQUIRE(bench.settle());
  };
  run(a, FenceScope::none);
  run(a, FenceScope::agent);
  run(b, FenceScope::none);
  run(b, FenceScope::system);
  run(a, FenceScope::none);
  CHECK(fences(bench) == std::vector<std::uint64_t>{0, 1, 1, 2, 2});
  CHECK(bench.memory.invalidates == 1);
  CHECK(bench.observation.stats.value("gpu0.packet.acquires") == 2);
}

TEST_CASE("a barrier packet's fence is one for all that is launched behind it", "[packet][PKT-14]") {
  for (const FenceScope scope : {FenceScope::none, FenceScope::agent, FenceScope::system}) {
    PacketBench bench;
    const std::uint64_t object = bench.object("k");
    Producer queue(bench, 0);
    arch::BarrierPacket barrier;
    barrier.scopes = {true, scope, FenceScope::none};
    queue.submit(arch::encode(barrier, arch::PacketType::barrier_and));
    queue.submit(plain(fields_with(object, false, FenceScope::none, FenceScope::none)));
    REQUIRE(bench.settle());
    CHECK(fences(bench) == std::vector<std::uint64_t>{scope == FenceScope::none ? 0U : 1U});
    CHECK(bench.memory.invalidates == (scope == FenceScope::system ? 1 : 0));
  }
}

TEST_CASE("a kernel inside a condensed packet has a fence of its own", "[packet][PKT-06][PKT-14]") {
  for (const FenceScope scope : {FenceScope::none, FenceScope::agent, FenceScope::system}) {
    for (const Cycle slow : {Cycle{50}, Cycle{3000}}) {
      PacketBench bench;
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, fields_with(bench.object("k"), true, FenceScope::agent, FenceScope::none)));
      REQUIRE(bench.settle());
      bench.memory.delay = [slow] { return slow; };
      const arch::Diff second = diff_of(0, {{0, arch::encode(arch::SynchScopes{false, scope, FenceScope::none})}});
      queue.submit(condensed_packet({diff_of(0), second, diff_of(0)}));
      REQUIRE(bench.settle());
      const std::uint64_t own = scope == FenceScope::none ? 2 : 3;
      CHECK(fences(bench) == std::vector<std::uint64_t>{1, 2, own, own + 1});  // the third has that of its entry
      CHECK(bench.memory.invalidates == (scope == FenceScope::system ? 1 : 0));
      // The second kernel is launched once the fence is over: the first has no such time before its dispatch.
      const auto* second_kernel = bench.log.of(0, 1, 1);
      REQUIRE(second_kernel != nullptr);
      CHECK(second_kernel->times.decoded - second_kernel->times.ready == (scope == FenceScope::system ? slow : 0));
    }
  }
}

TEST_CASE("a queue that is closed during a fence launches no more", "[packet][PKT-14][PKT-09]") {
  for (const bool launched : {false, true}) {
    PacketBench bench;
    const std::uint64_t object = bench.object("k");
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields_with(object, true, FenceScope::none, FenceScope::none)));
    REQUIRE(bench.settle());
    const std::size_t before = bench.tasks.kernels.size();
    bench.memory.delay = [] { return Cycle{5000}; };
    const arch::Diff fenced =
        diff_of(0, {{0, arch::encode(arch::SynchScopes{true, FenceScope::system, FenceScope::none})}});
    queue.submit(condensed_packet(launched ? std::vector<arch::Diff>{diff_of(0), fenced, diff_of(0)}
                                           : std::vector<arch::Diff>{fenced, diff_of(0)}));
    for (int i = 0; i < 1000 && bench.memory.invalidates_asked == 0; ++i) bench.run(100);
    REQUIRE(bench.memory.invalidates_asked == 1);
    REQUIRE(bench.memory.invalidates == 0);
    queue.close();
    REQUIRE(bench.settle());
    CHECK(bench.memory.invalidates == 1);
    CHECK(bench.tasks.kernels.size() == before + (launched ? 1 : 0));
    CHECK(bench.processor.open() == 0);
  }
}

TEST_CASE("after a reset the numbers of fences begin anew, as the caches are empty", "[packet][PKT-14]") {
  PacketBench bench;
  const std::uint64_t object = bench.object("k");
  {
    Producer queue(bench, 0);
    queue.submit(plain(fields_with(object, false, FenceScope::agent, FenceScope::none)));
    REQUIRE(bench.settle());
    CHECK(fences(bench) == std::vector<std::uint64_t>{1});
  }
  bench.domain.reset();
  Producer queue(bench, 0);
  queue.submit(plain(fields_with(object, false, FenceScope::none, FenceScope::none)));
  REQUIRE(bench.settle());
  CHECK(fences(bench) == std::vector<std::uint64_t>{0});
}

}  // namespace packet_acquire_fence_test
