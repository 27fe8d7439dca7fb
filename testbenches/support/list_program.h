// A warp program for tests: a list of steps, built in C++.
//
//   ListProgram p(8);  // registers
//   const auto loop = p.loop(4);
//   p.load({}, 2, [=](const Warp& w, std::uint32_t lane) { return base + 512 * w.count(loop) + 4 * lane; });
//   p.store({}, 2, p.of_register(2), [=](const Warp& w, std::uint32_t lane) { return ...; });
//   p.end_loop();
//   p.exit();
//
// Addresses and values are computed when the operation issues; registers that they read belong in `reads`.
//
// Clusters: accesses with Access::space cluster have addresses of arch::dsmem_address. An mbarrier is used by lane 0
// unless its Sync says otherwise:
//
//   p.mbarrier_init(64, 8).cluster_arrive().cluster_wait();
//   p.mbarrier_arrive(Space::cluster, dsmem_address(0, 64));
//   p.mbarrier_wait(64, 0);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "arch/mbarrier.h"
#include "arch/warp_program.h"
#include "common/error.h"

namespace heddle::test {

// What a step may look at.
struct Warp {
  const arch::WarpPlace& place;
  const arch::WarpState& state;

  std::uint32_t reg(std::uint16_t number, std::uint32_t lane) const { return state.of(number)[lane]; }
  // How often that loop has come round: 0, 1, …
  std::uint64_t count(std::size_t loop) const { return static_cast<std::uint64_t>(state.scalars[loop]); }
  // Thread of the CTA.
  std::uint32_t thread(std::uint32_t lane) const { return place.warp * arch::kWarpLanes + lane; }
  // Thread of the grid (one-dimensional CTAs).
  std::uint64_t global_thread(std::uint32_t lane) const { return place.cta * place.block.count() + thread(lane); }
};

// How an mbarrier is used.
struct Sync {
  std::optional<arch::Order> order = {};                  // empty: release for arrivals, acquire for waits and tests
  std::optional<arch::Scope> scope = {};                  // empty: cta, with the cluster's space cluster
  std::function<arch::LaneMask(const Warp&)> lanes = {};  // empty: lane 0
};

class ListProgram : public arch::WarpProgram {
 public:
  using Reads = std::vector<arch::RegisterRange>;
  using Issue = std::function<void(const arch::WarpPlace&, arch::WarpState&, arch::Operation&)>;
  using Address = std::function<std::uint64_t(const Warp&, std::uint32_t lane)>;
  using Value = std::function<std::uint64_t(const Warp&, std::uint32_t lane)>;
  using Lanes = std::function<arch::LaneMask(const Warp&)>;
  using Condition = std::function<bool(const Warp&)>;
  using Bulk = std::function<arch::BulkRequest(const Warp&, std::uint32_t lane)>;
  using Child = std::function<arch::ChildLaunch(const Warp&, std::uint32_t lane)>;
  using Entry = std::function<arch::QueueAppend(const Warp&, std::uint32_t lane)>;

  // How an access is done.
  struct Access {
    arch::Space space = arch::Space::global;
    std::uint8_t width = 4;
    arch::Order order = arch::Order::weak;
    arch::Scope scope = arch::Scope::gpu;
    Lanes lanes;  // empty: all of the warp
  };

  // A number that is the same everywhere, or one that is computed for a lane.
  class Number {
   public:
    Number(std::uint64_t constant)  // NOLINT(google-explicit-constructor): 64 is one
        : value_([=](const Warp&, std::uint32_t) { return constant; }) {}
    template <class F, class = std::enable_if_t<std::is_invocable_v<F, const Warp&, std::uint32_t>>>
    Number(F value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): and so is a lambda
    std::uint64_t operator()(const Warp& warp, std::uint32_t lane) const { return value_(warp, lane); }

   private:
    Value value_;
  };

  explicit ListProgram(std::uint32_t registers) : registers_(registers) {}

  // The general step. `issue` gets an operation with the code, unit and lanes of the warp set.
  ListProgram& step(arch::OperationNeeds demand, Issue issue, std::string name = {}) {
    steps_.push_back({std::move(demand), std::move(issue), {}, std::move(name)});
    return *this;
  }

  ListProgram& compute(arch::Unit unit, std::uint32_t count, Reads reads = {}, Reads writes = {}) {
    const std::uint16_t destination = writes.empty() ? arch::kNoRegister : writes.front().first;
    return step({arch::OpCode::compute, unit, std::move(reads), std::move(writes), {}},
                [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.count = count;
                  operation.destination = destination;
                });
  }
  // A register of every lane gets a value, by one int32 instruction.
  ListProgram& set(std::uint16_t destination, Value value, Reads reads = {}) {
    return step({arch::OpCode::compute, arch::Unit::int32, std::move(reads), {{destination, 1}}, {}},
                [=](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  operation.destination = destination;
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    state.of(destination)[lane] = static_cast<std::uint32_t>(value({place, state}, lane));
                  }
                });
  }
  ListProgram& special(arch::SpecialRegister which, std::uint16_t destination, std::uint16_t registers = 1) {
    return step({arch::OpCode::special, arch::Unit::none, {}, {{destination, registers}}, {}},
                [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.special = which;
                  operation.destination = destination;
                });
  }

  ListProgram& load(Access access, std::uint16_t destination, Address address, Reads reads = {}) {
    const arch::RegisterRange writes{destination, words(access)};
    return memory(arch::OpCode::load, access, std::move(address), std::move(reads), {writes},
                  [=](const Warp&, arch::Operation& operation) { operation.destination = destination; });
  }
  // Up to 8 bytes.
  ListProgram& store(Access access, Value value, Address address, Reads reads = {}) {
    return memory(arch::OpCode::store, access, std::move(address), std::move(reads), {},
                  [value = std::move(value)](const Warp& warp, arch::Operation& operation) {
                    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                      put(operation.data[lane], value(warp, lane));
                    }
                  });
  }
  // Of any width, from registers.
  ListProgram& store_registers(Access access, std::uint16_t source, Address address, Reads reads = {}) {
    const std::uint16_t count = words(access);
    reads.push_back({source, count});
    return memory(arch::OpCode::store, access, std::move(address), std::move(reads), {},
                  [=](const Warp& warp, arch::Operation& operation) {
                    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                      for (std::uint16_t word = 0; word < count; ++word) {
                        operation.data[lane][word] = warp.reg(static_cast<std::uint16_t>(source + word), lane);
                      }
                    }
                  });
  }
  // `destination` kNoRegister: a reduction.
  ListProgram& atomic(Access access, arch::AtomicKind kind, arch::ValueType type, std::uint16_t destination,
                      Value operand, Address address, Reads reads = {}, Value compare = {}) {
    access.width = static_cast<std::uint8_t>(arch::bytes_of(type));
    Reads writes;
    if (destination != arch::kNoRegister) writes.push_back({destination, words(access)});
    return memory(arch::OpCode::atomic, access, std::move(address), std::move(reads), std::move(writes),
                  [=](const Warp& warp, arch::Operation& operation) {
                    operation.atomic = kind;
                    operation.type = type;
                    operation.destination = destination;
                    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                      put(operation.data[lane], operand(warp, lane));
                      if (compare) operation.compare[lane] = compare(warp, lane);
                    }
                  });
  }
  // Global `address` to shared `to`, `access.width` bytes per lane.
  ListProgram& async_copy(Access access, Address address, Address to, Reads reads = {}) {
    return memory(arch::OpCode::async_copy, access, std::move(address), std::move(reads), {},
                  [to = std::move(to)](const Warp& warp, arch::Operation& operation) {
                    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                      operation.shared_address[lane] = static_cast<std::uint32_t>(to(warp, lane));
                    }
                  });
  }
  ListProgram& async_commit() { return plain(arch::OpCode::async_commit, {}); }
  ListProgram& async_wait(std::uint32_t open) {
    return plain(arch::OpCode::async_wait, [=](arch::Operation& operation) { operation.count = open; });
  }
  ListProgram& matmul_commit() { return plain(arch::OpCode::matmul_commit, {}); }
  ListProgram& matmul_wait(std::uint32_t open) {
    return plain(arch::OpCode::matmul_wait, [=](arch::Operation& operation) { operation.count = open; });
  }
  ListProgram& matmul(const arch::MatmulTile& tile, std::uint16_t accumulators,
                      arch::OpCode code = arch::OpCode::matmul) {
    const arch::RegisterRange range{accumulators, static_cast<std::uint16_t>(tile.n / 2)};
    return step({code, arch::row_of(code).unit, {}, {}, range},
                [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.tile = tile;
                  operation.destination = accumulators;
                });
  }
  ListProgram& barrier(std::uint32_t number = 0, std::uint32_t threads = 0) {
    return plain(arch::OpCode::barrier, [=](arch::Operation& operation) {
      operation.barrier = number;
      operation.count = threads;
    });
  }
  ListProgram& fence(arch::Order order, arch::Scope scope) {
    return plain(arch::OpCode::fence, [=](arch::Operation& operation) {
      operation.order = order;
      operation.scope = scope;
    });
  }
  // `level`: of the CGA; none: the innermost.
  ListProgram& cluster_arrive(arch::Order order = arch::Order::release, std::optional<arch::CgaLevel> level = {}) {
    return plain(arch::OpCode::cluster_arrive, [=](arch::Operation& operation) {
      operation.order = order;
      operation.cga_level = level;
    });
  }
  ListProgram& cluster_wait(arch::Order order = arch::Order::acquire, std::optional<arch::CgaLevel> level = {}) {
    return plain(arch::OpCode::cluster_wait, [=](arch::Operation& operation) {
      operation.order = order;
      operation.cga_level = level;
    });
  }

  ListProgram& mbarrier_init(Number address, Number count, Sync sync = {}, Reads reads = {}) {
    return mbarrier(arch::OpCode::mbarrier_init, arch::Space::shared, std::move(address), std::move(count), 0,
                    std::move(sync), arch::kNoRegister, std::move(reads));
  }
  ListProgram& mbarrier_invalidate(Number address, Sync sync = {}, Reads reads = {}) {
    return mbarrier(arch::OpCode::mbarrier_invalidate, arch::Space::shared, std::move(address), 0, 0, std::move(sync),
                    arch::kNoRegister, std::move(reads));
  }
  // `destination`, with space shared: parity of the phase in which it arrives.
  ListProgram& mbarrier_arrive(arch::Space space, Number address, Number count = 1, Number bytes = 0, Sync sync = {},
                               std::uint16_t destination = arch::kNoRegister, Reads reads = {}) {
    if (!sync.order) sync.order = arch::Order::release;
    return mbarrier(arch::OpCode::mbarrier_arrive, space, std::move(address), std::move(count), std::move(bytes),
                    std::move(sync), destination, std::move(reads));
  }
  ListProgram& mbarrier_expect(arch::Space space, Number address, Number bytes, Sync sync = {}, Reads reads = {}) {
    return mbarrier(arch::OpCode::mbarrier_expect, space, std::move(address), std::move(bytes), 0, std::move(sync),
                    arch::kNoRegister, std::move(reads));
  }
  ListProgram& mbarrier_complete(arch::Space space, Number address, Number bytes, Sync sync = {}, Reads reads = {}) {
    return mbarrier(arch::OpCode::mbarrier_complete, space, std::move(address), std::move(bytes), 0, std::move(sync),
                    arch::kNoRegister, std::move(reads));
  }
  ListProgram& mbarrier_wait(Number address, Number parity, Sync sync = {}, Reads reads = {}) {
    if (!sync.order) sync.order = arch::Order::acquire;
    return mbarrier(arch::OpCode::mbarrier_wait, arch::Space::shared, std::move(address), std::move(parity), 0,
                    std::move(sync), arch::kNoRegister, std::move(reads));
  }
  // `destination`: 1 if the phase has completed, else 0.
  ListProgram& mbarrier_test(Number address, Number parity, std::uint16_t destination, Sync sync = {},
                             Reads reads = {}) {
    if (!sync.order) sync.order = arch::Order::acquire;
    return mbarrier(arch::OpCode::mbarrier_test, arch::Space::shared, std::move(address), std::move(parity), 0,
                    std::move(sync), destination, std::move(reads));
  }
  // The CTA's shared memory from the offset `from` on.
  ListProgram& release_shared(Number from, Lanes lanes = {}) {
    return step({arch::OpCode::release_shared, arch::Unit::none, {}, {}, {}},
                [from = std::move(from), lanes = std::move(lanes)](const arch::WarpPlace& place, arch::WarpState& state,
                                                                   arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.space = arch::Space::shared;
                  if (lanes) operation.lanes &= lanes(warp);
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    operation.address[lane] = from(warp, lane);
                  }
                });
  }
  // CTAs of each level, innermost first.
  ListProgram& query_occupancy(std::array<std::uint32_t, arch::kCgaLevels> ctas, arch::CgaMode mode,
                               std::uint16_t destination) {
    return step({arch::OpCode::query_occupancy, arch::Unit::none, {}, {{destination, 1}}, {}},
                [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.destination = destination;
                  operation.mode = mode;
                  for (auto& data : operation.data) data = ctas;
                });
  }
  // Requests to the TMAU: one of each lane (empty: lane 0).
  ListProgram& bulk(arch::OpCode code, Bulk make, Lanes lanes = {}, Reads reads = {}, std::string name = {}) {
    if (!lanes) lanes = only(0);
    return step(
        {code, arch::Unit::memory, std::move(reads), {}, {}},
        [make = std::move(make), lanes = std::move(lanes)](const arch::WarpPlace& place, arch::WarpState& state,
                                                           arch::Operation& operation) {
          const Warp warp{place, state};
          operation.lanes &= lanes(warp);
          for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
            if ((operation.lanes >> lane & 1) != 0) operation.bulk.push_back(make(warp, lane));
          }
        },
        std::move(name));
  }
  ListProgram& bulk_commit(arch::LaneMask lanes = ~arch::LaneMask{0}) {
    return plain(arch::OpCode::bulk_commit, [=](arch::Operation& operation) { operation.lanes &= lanes; });
  }
  // `read`: until their sources have been read.
  ListProgram& bulk_wait(std::uint32_t open, bool read = false, arch::LaneMask lanes = ~arch::LaneMask{0}) {
    return plain(arch::OpCode::bulk_wait, [=](arch::Operation& operation) {
      operation.lanes &= lanes;
      operation.count = open;
      operation.read = read;
    });
  }
  ListProgram& proxy_fence() { return plain(arch::OpCode::proxy_fence, {}); }
  ListProgram& bulk_drain() { return plain(arch::OpCode::bulk_drain, {}); }
  // Of the descriptor there; 0: of all.
  ListProgram& tensor_fence(std::uint64_t descriptor = 0) {
    return plain(arch::OpCode::tensor_fence, [=](arch::Operation& operation) { operation.address.fill(descriptor); });
  }
  // Device-side launches, each of lane 0 unless `lanes` says otherwise.
  // `destination`: two registers for what the launch is known by.
  ListProgram& launch_child(Child make, Reads reads = {}, Lanes lanes = {},
                            std::uint16_t destination = arch::kNoRegister) {
    launches_ = true;
    if (!lanes) lanes = only(0);
    Reads writes;
    if (destination != arch::kNoRegister) writes.push_back({destination, 2});
    return step({arch::OpCode::launch_child, arch::Unit::memory, std::move(reads), std::move(writes), {}},
                [=, make = std::move(make), lanes = std::move(lanes)](
                    const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.lanes &= lanes(warp);
                  operation.destination = destination;
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    if ((operation.lanes >> lane & 1) != 0) operation.children.push_back(make(warp, lane));
                  }
                });
  }
  ListProgram& wait_children() {
    launches_ = true;
    return plain(arch::OpCode::wait_children, {});
  }
  // Those of the streams with these numbers, or these launches.
  ListProgram& wait_for(arch::ChildWait wait, Value value, Reads reads = {}, Lanes lanes = {}) {
    launches_ = true;
    if (!lanes) lanes = only(0);
    return step({arch::OpCode::wait_children, arch::Unit::memory, std::move(reads), {}, {}},
                [=, value = std::move(value), lanes = std::move(lanes)](
                    const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.lanes &= lanes(warp);
                  operation.wait = wait;
                  operation.width = 8;
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    put(operation.data[lane], value(warp, lane));
                  }
                });
  }
  ListProgram& stream_create(std::uint16_t destination) {
    launches_ = true;
    return step({arch::OpCode::stream_create, arch::Unit::memory, {}, {{destination, 1}}, {}},
                [destination](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.destination = destination;
                });
  }
  ListProgram& stream_destroy(Value number, Reads reads = {}, Lanes lanes = {}) {
    return step({arch::OpCode::stream_destroy, arch::Unit::memory, std::move(reads), {}, {}},
                [number = std::move(number), lanes = std::move(lanes)](
                    const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  if (lanes) operation.lanes &= lanes(warp);
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    put(operation.data[lane], number(warp, lane));
                  }
                });
  }
  ListProgram& event_create(std::uint16_t destination) {
    launches_ = true;
    return step({arch::OpCode::event_create, arch::Unit::memory, {}, {{destination, 2}}, {}},
                [destination](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  operation.destination = destination;
                });
  }
  // event_record, stream_wait or event_destroy, which has no stream.
  ListProgram& event(arch::OpCode code, Value handle, Value stream = constant(0), Reads reads = {}, Lanes lanes = {}) {
    launches_ = true;
    if (!lanes) lanes = only(0);
    return step({code, arch::Unit::memory, std::move(reads), {}, {}},
                [handle = std::move(handle), stream = std::move(stream), lanes = std::move(lanes)](
                    const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.lanes &= lanes(warp);
                  operation.width = 16;
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    const std::uint64_t event = handle(warp, lane);
                    const std::uint64_t number = stream(warp, lane);
                    operation.data[lane] = {static_cast<std::uint32_t>(event), static_cast<std::uint32_t>(event >> 32),
                                            static_cast<std::uint32_t>(number),
                                            static_cast<std::uint32_t>(number >> 32)};
                  }
                });
  }
  ListProgram& queue_close(std::uint64_t queue, Lanes lanes = {}) {
    launches_ = true;
    if (!lanes) lanes = only(0);
    return step({arch::OpCode::queue_close, arch::Unit::memory, {}, {}, {}},
                [queue, lanes = std::move(lanes)](const arch::WarpPlace& place, arch::WarpState& state,
                                                  arch::Operation& operation) {
                  operation.lanes &= lanes({place, state});
                  operation.entries.resize(1);
                  operation.entries.front().queue = queue;
                });
  }
  ListProgram& queue_append(Entry make, Reads reads = {}, Lanes lanes = {}) {
    launches_ = true;
    if (!lanes) lanes = only(0);
    return step({arch::OpCode::queue_append, arch::Unit::memory, std::move(reads), {}, {}},
                [make = std::move(make), lanes = std::move(lanes)](const arch::WarpPlace& place, arch::WarpState& state,
                                                                   arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.lanes &= lanes(warp);
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    if ((operation.lanes >> lane & 1) != 0) operation.entries.push_back(make(warp, lane));
                  }
                });
  }
  ListProgram& exit() { return plain(arch::OpCode::exit, {}); }
  // An operation with nothing but its code: for those that are refused.
  ListProgram& other(arch::OpCode code) { return plain(code, {}); }
  ListProgram& launch_dependents(const Lanes& lanes = {}) {
    lets_go_ = true;
    return step({arch::OpCode::launch_dependents, arch::Unit::none, {}, {}, {}},
                [=](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  if (lanes) operation.lanes &= lanes(Warp{place, state});
                });
  }
  ListProgram& grid_dependency_wait() { return plain(arch::OpCode::grid_dependency_wait, {}); }

  // What lies up to the matching end_loop() is done `count` times (at least once). Returns the loop's number.
  std::size_t loop(std::uint64_t count) {
    const std::size_t number = loops_++;
    control([number](arch::WarpState& state) { state.scalars[number] = 0; });
    open_.push_back({number, count, here()});
    return number;
  }
  ListProgram& end_loop() {
    HEDDLE_CHECK(!open_.empty(), "end_loop without a loop");
    const OpenLoop open = open_.back();
    open_.pop_back();
    control([open](arch::WarpState& state) {
      if (static_cast<std::uint64_t>(++state.scalars[open.number]) < open.count) state.pc = open.body;
    });
    return *this;
  }
  // The number of the next step, for branch().
  std::uint32_t here() const { return static_cast<std::uint32_t>(steps_.size()); }
  // Goes to step `to` if the condition holds, by one int32 instruction.
  ListProgram& branch(std::uint32_t to, Condition condition, Reads reads) {
    return step(
        {arch::OpCode::compute, arch::Unit::int32, std::move(reads), {}, {}},
        [to, condition = std::move(condition)](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation&) {
          if (condition({place, state})) state.pc = to;
        });
  }

  static Value of_register(std::uint16_t number) {
    return [number](const Warp& warp, std::uint32_t lane) { return std::uint64_t{warp.reg(number, lane)}; };
  }
  static Value constant(std::uint64_t value) {
    return [value](const Warp&, std::uint32_t) { return value; };
  }
  // base + stride * lane
  static Address linear(std::uint64_t base, std::uint64_t stride) {
    return [=](const Warp&, std::uint32_t lane) { return base + stride * lane; };
  }
  // One lane of the warp.
  static Lanes only(std::uint32_t lane) {
    return [lane](const Warp&) { return arch::LaneMask{1} << lane; };
  }
  static Lanes all() {
    return [](const Warp&) { return ~arch::LaneMask{0}; };
  }

  std::uint32_t registers() const override { return registers_; }
  bool launches() const override { return launches_; }
  bool lets_dependents_go() const override { return lets_go_; }
  void start(const arch::WarpPlace&, arch::WarpState& state) const override {
    state.pc = 0;
    state.exited = false;
    state.registers.assign(std::size_t{registers_} * arch::kWarpLanes, 0);
    state.scalars.assign(loops_, 0);
    settle(state);
  }
  const arch::OperationNeeds& demand(const arch::WarpState& state) const override { return at(state).demand; }
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override {
    const Step& now = at(state);
    ++state.pc;
    operation = arch::Operation{};
    operation.code = now.demand.code;
    operation.unit = now.demand.unit;
    operation.lanes = place.lanes;
    if (now.issue) now.issue(place, state, operation);
    if (operation.code == arch::OpCode::exit) {
      state.exited = true;
      return;
    }
    settle(state);
  }
  std::string describe(const arch::WarpState& state) const override { return at(state).name; }

 private:
  struct Step {
    arch::OperationNeeds demand;
    Issue issue;
    std::function<void(arch::WarpState&)> control;  // no operation
    std::string name;
  };
  struct OpenLoop {
    std::size_t number;
    std::uint64_t count;
    std::uint32_t body;
  };

  static std::uint16_t words(const Access& access) {
    return static_cast<std::uint16_t>(access.width < 4 ? 1 : access.width / 4);
  }
  static void put(std::array<std::uint32_t, 4>& data, std::uint64_t value) {
    data[0] = static_cast<std::uint32_t>(value);
    data[1] = static_cast<std::uint32_t>(value >> 32);
  }

  ListProgram& plain(arch::OpCode code, std::function<void(arch::Operation&)> fill) {
    return step({code, arch::Unit::none, {}, {}, {}},
                [fill = std::move(fill)](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                  if (fill) fill(operation);
                });
  }
  template <class Fill>
  ListProgram& memory(arch::OpCode code, const Access& access, Address address, Reads reads, Reads writes, Fill fill) {
    return step({code, arch::Unit::memory, std::move(reads), std::move(writes), {}},
                [=](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.space = access.space;
                  operation.width = access.width;
                  operation.order = access.order;
                  operation.scope = access.scope;
                  if (access.lanes) operation.lanes &= access.lanes(warp);
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    operation.address[lane] = address(warp, lane);
                  }
                  fill(warp, operation);
                });
  }
  // The object has 8 bytes; a result is one register.
  ListProgram& mbarrier(arch::OpCode code, arch::Space space, Number address, Number first, Number second, Sync sync,
                        std::uint16_t destination, Reads reads) {
    Reads writes;
    if (destination != arch::kNoRegister) writes.push_back({destination, 1});
    if (!sync.lanes) sync.lanes = only(0);
    const arch::Scope near = space == arch::Space::cluster ? arch::Scope::cluster : arch::Scope::cta;
    return step({code, arch::Unit::memory, std::move(reads), std::move(writes), {}},
                [=](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
                  const Warp warp{place, state};
                  operation.space = space;
                  operation.width = arch::kMbarrierBytes;
                  operation.order = sync.order.value_or(arch::Order::relaxed);
                  operation.scope = sync.scope.value_or(near);
                  operation.destination = destination;
                  operation.lanes &= sync.lanes(warp);
                  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
                    operation.address[lane] = address(warp, lane);
                    operation.data[lane][0] = word(first(warp, lane));
                    operation.data[lane][1] = word(second(warp, lane));
                  }
                });
  }
  // Counts that do not fit are no smaller for it.
  static std::uint32_t word(std::uint64_t value) {
    constexpr std::uint64_t kMost = 0xFFFF'FFFF;
    return static_cast<std::uint32_t>(value < kMost ? value : kMost);
  }
  void control(std::function<void(arch::WarpState&)> action) { steps_.push_back({{}, {}, std::move(action), {}}); }

  // Control steps between operations are done with the operation before them.
  void settle(arch::WarpState& state) const {
    while (state.pc < steps_.size() && steps_[state.pc].control) {
      const Step& now = steps_[state.pc];
      ++state.pc;
      now.control(state);
    }
  }
  const Step& at(const arch::WarpState& state) const {
    HEDDLE_CHECK(state.pc < steps_.size(), "a list program needs an exit");
    return steps_[state.pc];
  }

  std::uint32_t registers_;
  std::vector<Step> steps_;
  std::vector<OpenLoop> open_;
  std::size_t loops_ = 0;
  bool launches_ = false;
  bool lets_go_ = false;
};

}  // namespace heddle::test
