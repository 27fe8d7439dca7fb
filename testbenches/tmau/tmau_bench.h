// The units of a GPC between test SMs and a test memory, and requests for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "support/random.h"
#include "tmau/tmau_neighbours.h"

namespace heddle::test {

// What units tell each other takes so many cycles.
struct PeerRelay : sc_core::sc_module {
  PeerRelay(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t units, std::uint32_t sms_per_unit,
            Cycle cycles)
      : sc_core::sc_module(name), in("in"), out("out", domain, cycles, kUnlimitedCredits), per_unit(sms_per_unit) {
    in.init(units,
            [&](const char* socket, std::size_t) { return new PacketIn<protocol::BulkPeerPacket>(socket, domain, 0); });
    for (std::uint32_t unit = 0; unit < units; ++unit)
      in[unit].on_packet<PeerRelay, &PeerRelay::on_packet>(*this, unit);
  }
  void on_packet(const protocol::BulkPeerPacket& packet, std::uint32_t unit) {
    CHECK(packet.from_sm == unit * per_unit);
    out.send(packet, packet.to_sm / per_unit);
  }

  sc_core::sc_vector<PacketIn<protocol::BulkPeerPacket>> in;
  PacketOut<protocol::BulkPeerPacket> out;
  const std::uint32_t per_unit;
};

// One rate for all kinds of requests, and set-up that does not look at the walk.
inline void plain_costs(TmauParams& params, double rate = 1) {
  params.rate = params.block_rate = params.store_rate = params.block_store_rate = rate;
  params.setup_loop = 0;
}

// Every stage costs something else, so that a sum says which of them it is made of.
inline TmauParams stage_costs() {
  TmauParams params;
  plain_costs(params);
  params.input = 3;
  params.descriptor_hit = 5;
  params.setup = 11;
  params.generate = 17;
  params.response = 23;
  return params;
}

struct TmauBench {
  // `first_id`: of the first SM in the machine. The way from the SM to the unit is params.input, as in the machine.
  explicit TmauBench(std::uint32_t sm_count = 1, const TmauParams& unit_params = {}, TimingMode mode = TimingMode::at,
                     std::uint64_t size = 1 << 20, std::uint32_t first_id = 0, Cycle peer_cycles = 40)
      : params(unit_params),
        domain("domain", 1.0, mode, 100, observation),
        memory("memory", domain, sm_count, size),
        peers("peers", domain, (sm_count + params.sms - 1) / params.sms, params.sms, peer_cycles) {
    const std::uint32_t units_of_gpc = (sm_count + params.sms - 1) / params.sms;
    for (std::uint32_t sm = 0; sm < sm_count; ++sm) {
      sms.push_back(std::make_unique<TmauSm>(fmt::format("sm{}", sm).c_str(), domain, sm, sm_count, sms, params.input,
                                             params.queue));
    }
    for (std::uint32_t unit = 0; unit < units_of_gpc; ++unit) add_unit(unit, units_of_gpc, sm_count, size, first_id);
    for (std::uint32_t unit = 0; unit < units_of_gpc; ++unit) {
      units[unit]->peer_out.bind(peers.in[unit]);
      peers.out.bind(units[unit]->peer_in);
    }
  }

  Tmau& unit_of(std::uint32_t sm) { return *units[sm / params.sms]; }
  std::uint64_t stat(const std::string& name, std::uint32_t unit = 0) {
    const auto all = observation.stats.to_json();
    return all.at(fmt::format("gpu0.gpc0.tmau{}.{}", unit, name)).at("value").get<std::uint64_t>();
  }

  // Sends it from that SM; gives its id.
  std::uint32_t ask(Cycle cycle, const BulkRequest& request, std::uint32_t sm = 0,
                    const std::function<void(protocol::BulkRequestPacket&)>& change = nullptr) {
    protocol::BulkRequestPacket packet;
    packet.request = request;
    packet.id = next_id_++;
    packet.cta = 7;
    packet.warp = protocol::WarpSlot(3);
    if (request.multicast != 0) {
      packet.by_rank = true;
      packet.ctas = static_cast<std::uint16_t>(request.multicast);
      packet.cga_id = protocol::CgaId(4);
      for (std::uint32_t rank = 0; rank < arch::kMulticastCtas; ++rank) {
        if ((request.multicast >> rank & 1) != 0) packet.sms |= 1U << rank % sms.size();
      }
    }
    if (change) change(packet);
    sms[sm]->send(cycle, packet);
    asked_.push_back({sm, packet.id, request.kind});
    return packet.id;
  }
  void run() { run_until_idle(); }
  void run(Cycle until) { run_until(domain.clock().time_of(until)); }

  // How it ended; kNone: not yet.
  const TmauSm::Done* end_of(std::uint32_t id) const { return find(id, false); }
  const TmauSm::Done& done(std::uint32_t id) const {
    const TmauSm::Done* found = end_of(id);
    CAPTURE(id);
    REQUIRE(found != nullptr);
    return *found;
  }
  Cycle cycle_of(std::uint32_t id) const { return done(id).cycle; }
  const TmauSm::Done* read_of(std::uint32_t id) const { return find(id, true); }

  // Every request has ended once, stores and the like with a `read` before; all is home.
  void check_over() {
    for (const Asked& asked : asked_) {
      CAPTURE(asked.id);
      std::uint32_t ends = 0;
      std::uint32_t reads = 0;
      bool dropped = false;
      for (const TmauSm::Done& one : sms[asked.sm]->done) {
        if (one.packet.id != asked.id) continue;
        if (one.packet.kind == DoneKind::read) {
          ++reads;
          CHECK(ends == 0);
        } else if (one.packet.kind == DoneKind::accepted) {
          CHECK((reads == 1 && ends == 0));
        } else {
          ++ends;
          dropped = one.packet.kind == DoneKind::dropped;
        }
      }
      CHECK(ends == 1);
      const bool source =
          asked.kind == BulkKind::store || asked.kind == BulkKind::reduce || asked.kind == BulkKind::send;
      CHECK(reads == (source && !dropped ? 1 : 0));
    }
    for (auto& unit : units) CHECK(unit->quiescent());
    for (auto& sm : sms) CHECK(sm->bulk_out.outstanding() == 0);
    WaitGraph waits;
    domain.collect_waits(waits);
    CHECK(waits.empty());
  }

  void put_descriptor(std::uint64_t address, const arch::TensorDescriptor& descriptor) {
    const auto encoded = arch::encode(descriptor);
    std::copy(encoded.begin(), encoded.end(), memory.bytes.begin() + static_cast<std::ptrdiff_t>(address));
  }
  void fill_memory(std::uint64_t seed) {
    Random random(seed);
    for (auto& byte : memory.bytes) byte = static_cast<std::uint8_t>(random.next());
  }
  void fill_windows(std::uint64_t seed) {
    Random random(seed);
    for (auto& sm : sms) {
      for (Bytes& window : sm->windows) {
        for (auto& byte : window) byte = static_cast<std::uint8_t>(random.next());
      }
    }
  }
  void forget_asked() { asked_.clear(); }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  const TmauParams params;
  Domain domain;
  TmauMemory memory;
  PeerRelay peers;
  std::vector<std::unique_ptr<TmauSm>> sms;
  std::vector<std::unique_ptr<Tmau>> units;

 private:
  struct Asked {
    std::uint32_t sm = 0;
    std::uint32_t id = 0;
    BulkKind kind = BulkKind::load;
  };

  void add_unit(std::uint32_t unit, std::uint32_t units_of_gpc, std::uint32_t sm_count, std::uint64_t size,
                std::uint32_t first_id) {
    tmau::TmauPlace place;
    place.number = unit;
    place.units = units_of_gpc;
    place.per_unit = params.sms;
    place.first = unit * params.sms;
    place.memory = size;
    for (std::uint32_t sm = place.first; sm < std::min(place.first + params.sms, sm_count); ++sm) {
      place.ids.push_back(first_id + sm);
    }
    units.push_back(std::make_unique<Tmau>(fmt::format("tmau{}", unit).c_str(), domain,
                                           fmt::format("gpc0.tmau{}", unit), params, place));
    Tmau& made = *units.back();
    for (std::uint32_t i = 0; i < place.ids.size(); ++i) {
      TmauSm& sm = *sms[place.first + i];
      sm.bulk_out.bind(made.request_in[i]);
      made.done_out.bind(sm.done_in);
      made.data_out.bind(sm.data_in);
      made.read_out.bind(sm.read_in);
      sm.read_out.bind(made.read_in[i]);
      memory.multicast_out[place.first + i]->bind(made.multicast_in[i]);
      made.memory_out(i).bind(*memory.in[place.first + i]);
    }
  }
  const TmauSm::Done* find(std::uint32_t id, bool read) const {
    for (const auto& sm : sms) {
      for (const TmauSm::Done& one : sm->done) {
        if (one.packet.kind == DoneKind::accepted) continue;
        if (one.packet.id == id && (one.packet.kind == DoneKind::read) == read) return &one;
      }
    }
    return nullptr;
  }

  std::uint32_t next_id_ = 100;
  std::vector<Asked> asked_;
};

// Bytes of device memory, and of a window of an SM's shared memory.
inline Bytes bytes_at(const TmauBench& bench, std::uint64_t address, std::size_t count) {
  const auto begin = bench.memory.bytes.begin() + static_cast<std::ptrdiff_t>(address);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}
inline Bytes window_at(const TmauBench& bench, std::uint32_t sm, std::uint32_t offset, std::size_t count,
                       std::uint32_t window = 0) {
  const auto begin = bench.sms[sm]->windows[window].begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// Where a test has its only descriptor.
constexpr std::uint64_t kDescriptor = 0x8000;

// Requests.
inline BulkRequest block_load(std::uint64_t from, std::uint64_t blocks, std::uint32_t to, std::uint32_t barrier = 0) {
  BulkRequest request;
  request.kind = BulkKind::load;
  request.global = from;
  request.blocks = blocks;
  request.shared = to;
  request.barrier = barrier;
  return request;
}
inline BulkRequest block_store(std::uint32_t from, std::uint64_t to, std::uint64_t blocks) {
  BulkRequest request;
  request.kind = BulkKind::store;
  request.global = to;
  request.blocks = blocks;
  request.shared = from;
  return request;
}
inline BulkRequest tensor(BulkKind kind, std::uint64_t descriptor, const Coordinates& at, std::uint32_t shared = 0) {
  BulkRequest request;
  request.kind = kind;
  request.tensor = true;
  request.descriptor = descriptor;
  request.coordinates = at;
  request.shared = shared;
  if (kind == BulkKind::load) request.barrier = 0;
  return request;
}
inline BulkRequest of_kind(BulkKind kind) {
  BulkRequest request;
  request.kind = kind;
  return request;
}
// A matrix of f32 from `address` on, packed, and boxes of it.
inline arch::TensorDescriptor matrix_at(std::uint64_t address, std::uint64_t columns, std::uint64_t rows,
                                        std::uint32_t box_columns, std::uint32_t box_rows) {
  arch::TensorDescriptor d;
  d.type = arch::TensorType::f32;
  d.rank = 2;
  d.address = address;
  d.size = {columns, rows, 1, 1, 1};
  d.stride = {0, 4 * columns, 0, 0, 0};
  d.box = {box_columns, box_rows, 1, 1, 1};
  return d;
}

}  // namespace heddle::test
