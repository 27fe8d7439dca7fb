// Operations that become packets, and the memory that these name: read back with the machine's own decoders.
#include "replay/packet_encoder.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "packet/reference_table.h"
#include "replay/replay_bench.h"
#include "support/random.h"

namespace replay_packet_encoder_test {

using namespace heddle;
using namespace heddle::test;
using arch::PacketType;
using replay::Area;
using replay::EncoderParams;
using replay::Pace;
using replay::PacketEncoder;
using replay::PacketMemory;
using replay::PacketPlan;
using replay::PreparedPacket;
using workload::CopyBy;
using workload::CopyDirection;
using workload::PacketFormat;
using workload::QueuePlace;
using workload::Workload;

namespace {

constexpr std::uint64_t kDevice = std::uint64_t{1} << 30;
constexpr std::uint64_t kHost = std::uint64_t{64} << 20;

struct Lab {
  explicit Lab(const Workload& w, const workload::PacketOptions& options = {}, std::uint32_t queues = 8,
               std::uint32_t ring = 16)
      : plan(replay::plan_packets(w, Pace::asap, {}, queues)) {
    replay::SubmissionParams params;
    params.ring = ring;
    memory = replay::lay_out(w, {}, plan, options, params, host, device);
    encoder_params.options = options;
    encoder_params.costs = {1000, 1050, 900, 30, 250};
  }
  // All packets of a queue, with `ready` operations there at a time.
  std::vector<PreparedPacket> all(const Workload& w, std::uint32_t queue, std::size_t ready = 1'000'000) {
    PacketEncoder encoder(w, plan, memory, encoder_params);
    std::deque<PreparedPacket> out;
    const std::size_t count = plan.queues[queue].ops.size();
    for (std::size_t place = 0; place < count;) {
      place += encoder.prepare(queue, place, std::min(ready, count - place), out).taken;
    }
    return {out.begin(), out.end()};
  }

  Area host{"host", arch::kHostWindow + 4096, arch::kHostWindow + kHost, false};
  Area device{"device", 1 << 20, kDevice, true};
  PacketPlan plan;
  PacketMemory memory;
  EncoderParams encoder_params;
};

arch::PacketBytes bytes_of(const PreparedPacket& packet) {
  arch::PacketBytes bytes;
  std::copy(std::begin(packet.packet.bytes), std::end(packet.packet.bytes), bytes.begin());
  return bytes;
}

arch::DispatchFields fields_of(const heddle_dispatch& d) {
  arch::DispatchFields fields;
  for (std::uint32_t f = 0; f < arch::kDispatchFields; ++f) arch::set_field(fields, f, heddle_field_get(&d, f));
  return fields;
}

// The kernels that the packets of one queue launch, as the machine reads them.
std::vector<arch::DispatchFields> launched(const std::vector<PreparedPacket>& packets) {
  packet::ReferenceTable table;
  std::vector<arch::DispatchFields> result;
  for (const PreparedPacket& packet : packets) {
    const arch::PacketBytes bytes = bytes_of(packet);
    const PacketType type = arch::type_of(bytes);
    if (type == PacketType::condensed_dispatch) {
      const packet::CondensedKernels expanded =
          packet::expand(packet::read_diffs(bytes, {}, table.size()), arch::DiffOf::packet, table);
      INFO(arch::reason_text(expanded.result.reason));
      REQUIRE(expanded.result.ok());
      REQUIRE(expanded.kernels.size() == packet.ops.size());
      for (const packet::CondensedKernel& kernel : expanded.kernels) result.push_back(kernel.kernel.fields);
    } else if (type == PacketType::kernel_dispatch || type == PacketType::reference_dispatch) {
      arch::KernelDispatch dispatch;
      REQUIRE(arch::decode(bytes, dispatch).ok());
      REQUIRE(packet.ops.size() == 1);
      result.push_back(dispatch.fields);
      if (type == PacketType::reference_dispatch) table.store(dispatch.reserved0, {dispatch.fields, {}, {}, {}});
    }
  }
  return result;
}

arch::VendorPacket vendor(const PreparedPacket& packet) {
  arch::VendorPacket v;
  REQUIRE(arch::decode(bytes_of(packet), v).ok());
  return v;
}

// What a condensed packet may change of a kernel: its fences, and barrier bits within the packet.
arch::DispatchFields without_scopes(arch::DispatchFields fields) {
  fields.synch_scopes = 0;
  return fields;
}

}  // namespace

TEST_CASE("a kernel's packet says what the workload says", "[replay]") {
  Workload w = empty_workload(2);
  w.ops = {kernel_op(0, 5, 77, 96), kernel_op(0, 1, 1), kernel_op(1, 1, 1)};
  arch::KernelRecord& k = w.ops[0].kernel;
  k.grid = {5, 3, 1};
  k.block = {32, 2, 1};
  k.shared_bytes = 4096;
  k.local_bytes = 16;
  k.registers_per_thread = 40;
  w.ops[0].args = {7, 8, 9};
  w.ops[2].after.push_back({0, workload::EdgeSource::recorded});
  workload::PacketOptions needed;
  needed.signals = workload::SignalFor::needed;
  Lab lab(w, needed);
  const std::vector<PreparedPacket> packets = lab.all(w, 0);
  REQUIRE(packets.size() == 2);
  arch::KernelDispatch d;
  REQUIRE(arch::decode(bytes_of(packets[0]), d).ok());
  CHECK(d.fields.setup == 2);
  CHECK(d.fields.workgroup == std::array<std::uint16_t, 3>{32, 2, 1});
  CHECK(d.fields.grid == std::array<std::uint32_t, 3>{160, 6, 1});
  CHECK(d.fields.group_segment == 4096);
  CHECK(d.fields.private_segment == 16);
  arch::SynchScopes scopes;
  REQUIRE(arch::decode(scopes, d.fields.synch_scopes).ok());
  CHECK(scopes == arch::SynchScopes{true, arch::FenceScope::agent, arch::FenceScope::agent});
  CHECK(d.fields.completion_signal == lab.memory.signals[*lab.plan.ops[0].signal]);
  // The last of a queue releases as far as the host sees.
  REQUIRE(arch::decode(bytes_of(packets[1]), d).ok());
  REQUIRE(arch::decode(scopes, d.fields.synch_scopes).ok());
  CHECK(scopes.release == arch::FenceScope::system);
  CHECK(d.fields.completion_signal != 0);

  // Kernel object and arguments lie where the packet says.
  const auto written = [&](std::uint64_t address) {
    for (const replay::MemoryWrite& write : lab.memory.contents) {
      if (write.address == address) return write.bytes;
    }
    return std::vector<std::uint8_t>{};
  };
  arch::KernelObjectBytes object_bytes{};
  const std::vector<std::uint8_t> object = written(lab.memory.kernel_objects[0]);
  REQUIRE(object.size() == object_bytes.size());
  std::copy(object.begin(), object.end(), object_bytes.begin());
  arch::KernelObject read;
  REQUIRE(arch::decode(object_bytes, read).ok());
  CHECK(read.registers_per_thread == 40);
  CHECK(read.duration.min == 77);
  CHECK(read.name == "kernel of 5 CTAs");
  const std::vector<std::uint8_t> args = written(lab.memory.kernargs[0]);
  REQUIRE(args.size() == 24);
  CHECK(args[8] == 8);
  CHECK(lab.memory.kernargs[0] % 16 == 0);
  CHECK(lab.memory.kernargs[1] == 0);

  // The other queue waits for the signal first, and is told of both packets at once.
  const std::vector<PreparedPacket> other = lab.all(w, 1);
  REQUIRE(other.size() == 2);
  arch::BarrierPacket barrier;
  REQUIRE(arch::type_of(bytes_of(other[0])) == PacketType::barrier_and);
  REQUIRE(arch::decode(bytes_of(other[0]), barrier).ok());
  CHECK(barrier.signals[0] == lab.memory.signals[*lab.plan.ops[0].signal]);
  CHECK(barrier.signals[1] == 0);
  CHECK(other[0].ops.empty());
  CHECK_FALSE(other[0].ring);
  CHECK(other[1].ring);
}

TEST_CASE("more than five edges take several barrier packets", "[replay]") {
  Workload w = empty_workload(8);
  for (std::size_t s = 0; s < 8; ++s) w.ops.push_back(kernel_op(s, 1, 1));
  for (std::size_t s = 0; s < 7; ++s) w.ops[7].after.push_back({s, workload::EdgeSource::recorded});
  Lab lab(w);
  const std::vector<PreparedPacket> packets = lab.all(w, 7);
  REQUIRE(packets.size() == 3);
  std::set<std::uint64_t> signals;
  for (std::size_t p = 0; p < 2; ++p) {
    arch::BarrierPacket barrier;
    REQUIRE(arch::decode(bytes_of(packets[p]), barrier).ok());
    for (const std::uint64_t signal : barrier.signals) signals.insert(signal);
  }
  signals.erase(0);
  CHECK(signals.size() == 7);
}

TEST_CASE("equal kernels and arguments share their records; launches of recordings have arguments of their own",
          "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 5, 7), kernel_op(0, 5, 7), kernel_op(0, 5, 8)};
  w.ops[0].args = w.ops[1].args = {1};
  Lab scenario(w);
  CHECK(scenario.memory.kernel_objects[0] == scenario.memory.kernel_objects[1]);
  CHECK(scenario.memory.kernel_objects[0] != scenario.memory.kernel_objects[2]);
  CHECK(scenario.memory.kernargs[0] == scenario.memory.kernargs[1]);
  w.format = "kineto";
  Lab recording(w);
  CHECK(recording.memory.kernargs[0] != recording.memory.kernargs[1]);
  CHECK(recording.memory.kernargs[2] % 16 == 0);
}

TEST_CASE("copies are held, or moved by the engines in the direction that is known", "[replay][INP-11]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 3; ++i) w.ops.push_back(copy_op(0, 1234));
  w.ops[1].direction = CopyDirection::host_to_device;
  w.ops[2].direction = CopyDirection::device_to_host;
  w.ops.push_back(copy_op(0, 500));
  w.ops[3].kind = workload::OpKind::fill;
  w.ops[3].bytes = 4093;
  Lab held(w);
  for (const PreparedPacket& packet : held.all(w, 0)) {
    CHECK(vendor(packet).format == arch::VendorFormat::hold);
    CHECK(vendor(packet).scopes.barrier);
  }
  CHECK(vendor(held.all(w, 0)[0]).bytes == 1234);

  workload::PacketOptions options;
  options.copies = CopyBy::engines;
  Lab moved(w, options);
  const std::vector<PreparedPacket> packets = moved.all(w, 0);
  REQUIRE(packets.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const arch::VendorPacket v = vendor(packets[i]);
    CHECK(v.format == arch::VendorFormat::copy);
    CHECK(v.bytes == 4096);
    CHECK(arch::in_host_window(v.from) == (i == 1));
    CHECK(arch::in_host_window(v.to) == (i == 2));
    CHECK((v.from + v.bytes <= v.to || v.to + v.bytes <= v.from));
  }
  CHECK(vendor(packets[3]).format == arch::VendorFormat::fill);
  CHECK(vendor(packets[3]).bytes == 4096);
  CHECK(vendor(packets[3]).completion_signal != 0);
}

TEST_CASE("a copy that is larger than what is moved at a time goes in parts", "[replay][INP-11]") {
  Workload w = empty_workload(1);
  w.ops = {copy_op(0, 1)};
  w.ops[0].direction = CopyDirection::host_to_device;
  w.ops[0].bytes = std::uint64_t{40} << 20;  // of 64 MiB of host memory a quarter is used
  workload::PacketOptions options;
  options.copies = CopyBy::engines;
  Lab lab(w, options);
  const std::vector<PreparedPacket> packets = lab.all(w, 0);
  REQUIRE(packets.size() > 2);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    sum += vendor(packets[i]).bytes;
    CHECK(packets[i].begins == (i == 0));
    CHECK(packets[i].ends == (i + 1 == packets.size()));
    CHECK((vendor(packets[i]).completion_signal != 0) == packets[i].ends);
    CHECK(packets[i].ring == packets[i].ends);
  }
  CHECK(sum == w.ops[0].bytes);
  w.ops[0].duration = 2'500'000'000'000;
  CHECK(Lab(w).all(w, 0).size() == 3);  // longer than a packet can hold
}

TEST_CASE("every packet of kernels signals, or only what somebody waits for", "[replay][PKT-04]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 40; ++i) w.ops.push_back(kernel_op(0, 1, 5));
  const std::size_t last = w.ops.size() - 1;
  for (const auto format : {PacketFormat::plain, PacketFormat::condensed}) {
    for (const auto signals : {workload::SignalFor::each, workload::SignalFor::needed}) {
      workload::PacketOptions options;
      options.format = format;
      options.signals = signals;
      options.batch = 20;
      Lab lab(w, options);
      const PacketEncoder encoder(w, lab.plan, lab.memory, lab.encoder_params);
      const std::vector<arch::DispatchFields> read = launched(lab.all(w, 0));
      REQUIRE(read.size() == w.ops.size());
      for (std::size_t i = 0; i < read.size(); ++i) {
        CAPTURE(static_cast<int>(format), static_cast<int>(signals), i);
        const bool each = signals == workload::SignalFor::each;
        const bool ends_batch = i % options.batch == options.batch - 1;
        if (i == last) {
          CHECK(read[i].completion_signal == lab.memory.signals[*lab.plan.ops[i].signal]);
        } else if (format == PacketFormat::plain || ends_batch) {
          CHECK(read[i].completion_signal == (each ? lab.memory.queue_signals[0] : 0));
        }
        arch::SynchScopes scopes;
        REQUIRE(arch::decode(scopes, read[i].synch_scopes).ok());
        if (format == PacketFormat::plain) {
          CHECK(scopes.release == (each || i == last ? arch::FenceScope::system : arch::FenceScope::agent));
          CHECK(scopes.acquire == (each ? arch::FenceScope::system : arch::FenceScope::agent));
        }
      }
    }
  }
}

TEST_CASE("the first launch of every kernel is a reference packet where that is asked for", "[replay]") {
  Workload w = empty_workload(1);
  for (std::uint32_t i = 0; i < 30; ++i) w.ops.push_back(kernel_op(0, 1 + i % 10, 5));
  workload::PacketOptions options;
  options.format = PacketFormat::reference;
  Lab lab(w, options);
  const std::vector<PreparedPacket> packets = lab.all(w, 0);
  REQUIRE(packets.size() == 30);
  for (std::size_t i = 0; i < 30; ++i) {
    CHECK(arch::type_of(bytes_of(packets[i])) ==
          (i < 10 ? PacketType::reference_dispatch : PacketType::kernel_dispatch));
  }
}

TEST_CASE("condensed packets launch the kernels that were asked for, in order, for fewer packets", "[replay]") {
  std::size_t saved = 0;
  for (const std::uint64_t seed : seeds(60)) {
    Random random(seed);
    CAPTURE(seed);
    Workload w = random_workload(random, 1 + random.below(80U));
    // Few kernels, often launched: what condensed packets are for.
    if (random.chance(70)) {
      for (workload::Op& op : w.ops) {
        if (op.kind != workload::OpKind::kernel) continue;
        const std::size_t stream = op.stream;
        const auto edges = op.after;
        op = kernel_op(stream, 1 + random.below(4U), 100);
        op.after = edges;
      }
    }
    if (random.chance(30)) w.format = "kineto";
    workload::PacketOptions options;
    options.format = PacketFormat::condensed;
    options.batch = random.between(1, 70);
    options.signals = random.chance(50) ? workload::SignalFor::each : workload::SignalFor::needed;
    Lab lab(w, options, random.between(2, 6));
    lab.encoder_params.shared_table = random.chance(20);
    for (std::uint32_t q = 0; q < lab.plan.queues.size(); ++q) {
      const std::vector<PreparedPacket> packets = lab.all(w, q, random.chance(50) ? 1'000'000 : random.between(1, 9));
      std::vector<std::size_t> order;
      std::size_t kernels = 0;
      for (const PreparedPacket& packet : packets) {
        order.insert(order.end(), packet.ops.begin(), packet.ops.end());
        if (packet.ops.size() > 1) saved += packet.ops.size() - 1;
        // What waits for another queue comes first in its packet, what others wait for comes last.
        for (std::size_t i = 0; i < packet.ops.size(); ++i) {
          if (i > 0) CHECK(lab.plan.ops[packet.ops[i]].waits.empty());
          if (i + 1 < packet.ops.size()) CHECK_FALSE(lab.plan.ops[packet.ops[i]].signal.has_value());
        }
      }
      CHECK(order == lab.plan.queues[q].ops);
      const std::vector<arch::DispatchFields> read = launched(packets);
      const PacketEncoder encoder(w, lab.plan, lab.memory, lab.encoder_params);
      for (const std::size_t op : lab.plan.queues[q].ops) {
        if (w.ops[op].kind != workload::OpKind::kernel) continue;
        REQUIRE(kernels < read.size());
        arch::DispatchFields wanted = without_scopes(fields_of(encoder.dispatch_of(op)));
        arch::DispatchFields got = without_scopes(read[kernels++]);
        if (wanted.completion_signal == 0) got.completion_signal = 0;  // within a packet: the planner's affair
        CHECK(got == wanted);
      }
      CHECK(kernels == read.size());
    }
  }
  CHECK(saved > 0);
}

TEST_CASE("memory that does not suffice, and kernels that packets cannot carry, are refused", "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 1, 1)};
  const PacketPlan plan = replay::plan_packets(w, Pace::asap, {}, 1);
  const auto attempt = [&](std::uint64_t host_bytes, std::uint64_t device_bytes) -> std::string {
    Area host("the host's memory", arch::kHostWindow, arch::kHostWindow + host_bytes, false);
    Area device("memory of gpu0", 0, device_bytes, true);
    try {
      replay::lay_out(w, {}, plan, {}, {}, host, device);
    } catch (const InputError& e) {
      return e.what();
    }
    return {};
  };
  CHECK(attempt(1 << 20, 1 << 20).empty());
  CHECK(attempt(1 << 12, 1 << 20).find("raise host.memory") != std::string::npos);
  CHECK(attempt(1 << 20, 100).find("memory of gpu0: there is no room") != std::string::npos);
  w.ops[0].kernel.grid = {2'000'000'000, 1, 1};
  CHECK(attempt(1 << 20, 1 << 20).find("more than 4,294,967,295 work-items") != std::string::npos);
}

}  // namespace replay_packet_encoder_test
