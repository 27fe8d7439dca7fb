// Executes a kernel's program without an SM: the warps of a cluster take turns, an operation each, on flat global and
// shared memory. Results of operations come late: a register gets its value when the demand of a later operation names
// it, not before. So a demand that leaves out a register shows. Requests to the tensor memory access unit are carried
// out later too, with `uneven` in any order, so that a wait that is missing shows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "arch/tensor_data.h"
#include "arch/warp_program.h"
#include "common/bits.h"
#include "program/bulk_open.h"
#include "program/bulk_reference.h"
#include "program/cluster_reference.h"
#include "support/random.h"

namespace heddle::test {

class ProgramRun {
 public:
  ProgramRun(const arch::KernelRecord& kernel, std::vector<std::uint8_t>& global)
      : kernel_(kernel), program_(*kernel.program), global_(global), bulk_(global) {}

  // A request to the tensor memory access unit, and who made it.
  struct Request {
    arch::OpCode code = arch::OpCode::exit;
    std::uint64_t cta = 0;
    std::uint32_t warp = 0;
    std::uint32_t lane = 0;
    arch::BulkRequest request;
  };

  // Saves and restores every warp before every operation.
  bool checkpoints = false;
  // Not 0: a seed. Warps miss turns at random, some CTAs more than others, so that what nothing orders comes in any
  // order.
  std::uint64_t uneven = 0;
  // Of the launch.
  arch::WorkItems items;
  std::uint64_t kernarg = 0;
  std::uint64_t operations = 0;
  std::uint64_t instructions = 0;                 // of compute
  std::map<arch::OpCode, std::uint64_t> of_code;  // how many were issued
  std::vector<std::string> names;                 // of the operations of warp 0 of CTA 0
  std::vector<Request> requests;
  std::uint64_t limit = 50'000'000;

  void run() {
    random_ = Random(uneven);
    const arch::Dim3 shape = extents();
    const arch::Dim3& grid = kernel_.grid;
    const arch::Dim3 clusters{grid.x / shape.x, grid.y / shape.y, grid.z / shape.z};
    for (std::uint32_t cluster = 0; cluster < clusters.count(); ++cluster) run_cluster(cluster, clusters, shape);
  }

 private:
  struct Late {
    arch::RegisterRange range;
    arch::LaneMask lanes = 0;
    std::array<arch::PerLane<std::uint32_t>, 4> values{};
  };
  enum class Wait { none, barrier, cluster, mbarrier, groups, drain };
  struct Warp {
    arch::WarpPlace place;
    arch::WarpState state;
    std::vector<Late> late;
    Wait wait = Wait::none;
    std::uint32_t busy = 0;  // turns
    std::uint32_t barrier = 0;
    std::uint32_t threads = 0;
    ClusterArrivals arrivals;
    arch::Operation phase;  // an mbarrier's, that it waits for; or groups of requests
    BulkGroups groups;
    std::uint64_t serial = 0;  // of the last request before it drains
  };
  struct Cta {
    std::vector<Warp> warps;
    std::vector<std::uint8_t> shared;
    std::uint32_t misses = 0;  // turns in a hundred

    bool ended() const {
      return std::all_of(warps.begin(), warps.end(), [](const Warp& warp) { return warp.state.exited; });
    }
  };

  // Of a cluster; without one, a CTA is alone.
  arch::Dim3 extents() const {
    return kernel_.cluster.has(arch::CgaLevel::gpc) ? kernel_.cluster.of(arch::CgaLevel::gpc) : arch::Dim3{1, 1, 1};
  }

  void run_cluster(std::uint32_t cluster, const arch::Dim3& clusters, const arch::Dim3& shape) {
    ctas_.assign(shape.count(), {});
    mbarriers_ = {};
    phases_ = 0;
    for (std::uint32_t rank = 0; rank < ctas_.size(); ++rank) {
      arch::WarpPlace p;
      p.cta_x = cluster % clusters.x * shape.x + rank % shape.x;
      p.cta_y = cluster / clusters.x % clusters.y * shape.y + rank / shape.x % shape.y;
      p.cta_z = cluster / clusters.x / clusters.y * shape.z + rank / shape.x / shape.y;
      p.cluster = cluster;
      p.rank = rank;
      p.cluster_size = static_cast<std::uint32_t>(shape.count());
      p.cluster_shape = shape;
      begin(ctas_[rank], p);
    }
    while (true) {
      bool moved = false;
      for (Cta& cta : ctas_) moved = turn(cta) || moved;
      const bool open = !open_.empty();
      serve(!moved);
      if (moved || open) continue;
      if (std::all_of(ctas_.begin(), ctas_.end(), [](const Cta& cta) { return cta.ended(); })) return;
      if (!open_cluster_barrier() && !open_barriers()) throw std::runtime_error("the warps wait for ever");
    }
  }

  void begin(Cta& cta, arch::WarpPlace p) {
    const arch::Dim3& grid = kernel_.grid;
    arch::Code launch;
    launch.block = kernel_.block;
    launch.items = items;
    p.block = launch.block_of({p.cta_x, p.cta_y, p.cta_z});
    const auto threads = static_cast<std::uint32_t>(p.block.count());
    cta.warps.resize((threads + 31) / 32);
    cta.shared.assign(kernel_.shared_bytes, 0);
    cta.misses = uneven == 0 ? 0 : random_.below(95);
    p.grid = grid;
    p.workgroup = kernel_.block;
    p.kernarg = kernarg;
    p.cta = p.cta_x + std::uint64_t{grid.x} * (p.cta_y + std::uint64_t{grid.y} * p.cta_z);
    p.warps = static_cast<std::uint32_t>(cta.warps.size());
    for (p.warp = 0; p.warp < p.warps; ++p.warp) {
      const std::uint32_t left = threads - 32 * p.warp;
      p.lanes = left >= 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << left) - 1;
      cta.warps[p.warp].place = p;
      program_.start(p, cta.warps[p.warp].state);
    }
  }

  // False if none of the CTA's warps can go on.
  bool turn(Cta& cta) {
    bool moved = false;
    for (Warp& warp : cta.warps) {
      if (warp.state.exited) continue;
      if (warp.wait == Wait::cluster && phases_ >= warp.arrivals.waited) warp.wait = Wait::none;
      if (warp.wait == Wait::mbarrier && phase_over(warp)) warp.wait = Wait::none;
      if (warp.wait == Wait::groups && open_.groups(warp.groups, warp.phase.read) <= warp.phase.count)
        warp.wait = Wait::none;
      if (warp.wait == Wait::drain && open_.drained(warp.place.rank, warp.serial)) warp.wait = Wait::none;
      if (warp.wait != Wait::none) continue;
      moved = true;
      if (random_.chance(cta.misses)) continue;
      if (warp.busy > 0) {
        --warp.busy;
        continue;
      }
      cta_ = &cta;
      step(warp);
    }
    return moved;
  }

  // `all`: nothing else can go on.
  void serve(bool all) {
    BulkReference::Windows windows;
    for (Cta& cta : ctas_) windows.push_back(&cta.shared);
    const auto complete = [this](std::uint32_t rank, std::uint32_t barrier, std::uint64_t bytes) {
      mbarriers_.at(rank, barrier).come(bytes);
    };
    open_.serve([&] { return !all && uneven != 0 && random_.chance(70); },
                [&](OpenRequest& open) {
                  if (BulkReference::reads_shared(open.request)) open.source = *windows[open.rank];
                },
                [&](const OpenRequest& open) { bulk_.apply(open.request, open.rank, open.source, windows, complete); });
  }

  void ask(Warp& warp) {
    if (operation_.bulk.size() != heddle::bits::count(operation_.lanes)) {
      throw std::runtime_error("not one request for each lane");
    }
    std::size_t next = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((operation_.lanes >> lane & 1U) == 0) continue;
      const arch::BulkRequest& request = operation_.bulk[next++];
      requests.push_back({operation_.code, warp.place.cta, warp.place.warp, lane, request});
      open_.add(warp.groups, warp.place.rank, request);
    }
  }

  bool phase_over(const Warp& warp) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((warp.phase.lanes >> lane & 1U) == 0) continue;
      if (!mbarriers_.at(warp.place.rank, warp.phase.address[lane]).passed(warp.phase.data[lane][0])) return false;
    }
    return true;
  }

  bool open_cluster_barrier() {
    bool anyone = false;
    for (const Cta& cta : ctas_) {
      for (const Warp& warp : cta.warps) {
        if (!warp.state.exited && warp.arrivals.arrived == phases_) return false;
        anyone = anyone || !warp.state.exited;
      }
    }
    if (anyone) ++phases_;
    return anyone;
  }

  bool open_barriers() {
    for (Cta& cta : ctas_) {
      for (const Warp& first : cta.warps) {
        if (first.wait != Wait::barrier) continue;
        std::uint32_t arrived = 0;
        std::uint32_t all = 0;
        for (const Warp& warp : cta.warps) {
          all += warp.state.exited ? 0 : 32;
          arrived += warp.wait == Wait::barrier && warp.barrier == first.barrier ? 32 : 0;
        }
        if (arrived != (first.threads == 0 ? all : first.threads)) continue;
        const std::uint32_t number = first.barrier;
        for (Warp& warp : cta.warps) {
          if (warp.wait == Wait::barrier && warp.barrier == number) warp.wait = Wait::none;
        }
        return true;
      }
    }
    return false;
  }

  static bool overlap(const arch::RegisterRange& a, const arch::RegisterRange& b) {
    return a.first < b.first + b.count && b.first < a.first + a.count;
  }

  static void arrive(Warp& warp, const arch::OperationNeeds& demand) {
    for (auto late = warp.late.begin(); late != warp.late.end();) {
      bool named = overlap(late->range, demand.accumulators);
      for (const arch::RegisterRange& range : demand.reads) named = named || overlap(late->range, range);
      for (const arch::RegisterRange& range : demand.writes) named = named || overlap(late->range, range);
      if (!named) {
        ++late;
        continue;
      }
      for (std::uint16_t i = 0; i < late->range.count; ++i) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          if ((late->lanes >> lane & 1U) != 0) {
            warp.state.of(static_cast<std::uint16_t>(late->range.first + i))[lane] = late->values[i][lane];
          }
        }
      }
      late = warp.late.erase(late);
    }
  }

  void step(Warp& warp) {
    if (checkpoints) warp.state = arch::restore(arch::save(warp.state));
    const arch::OperationNeeds demand = program_.demand(warp.state);
    if (warp.place.warp == 0 && warp.place.cta == 0) names.push_back(program_.describe(warp.state));
    arrive(warp, demand);
    operation_.lanes = 0;
    program_.issue(warp.place, warp.state, operation_);
    if (operation_.code != demand.code) throw std::runtime_error("the operation is not the one demanded");
    if (operation_.unit != demand.unit) throw std::runtime_error("the unit is not the one demanded");
    if ((operation_.lanes & ~warp.place.lanes) != 0) throw std::runtime_error("lanes that are no threads");
    if (++operations > limit) throw std::runtime_error("the program does not end");
    ++of_code[operation_.code];
    execute(warp, demand);
  }

  // The CTA of the cluster that the address is of, and the offset there.
  std::pair<std::uint64_t, std::uint64_t> target(std::uint64_t address) {
    if (operation_.space != arch::Space::cluster) return {cta_->warps.front().place.rank, address};
    const std::uint64_t rank = arch::dsmem_rank(address);
    if (rank >= ctas_.size()) throw std::runtime_error("the cluster has no such CTA");
    if (ctas_[rank].ended()) throw std::runtime_error("the CTA has exited");
    return {rank, arch::dsmem_offset(address)};
  }

  std::uint8_t* memory(std::uint64_t address, std::uint32_t width) {
    std::vector<std::uint8_t>* bytes = &global_;
    if (operation_.space != arch::Space::global) {
      const auto [rank, offset] = target(address);
      bytes = &ctas_[rank].shared;
      address = offset;
    }
    if (address % width != 0) throw std::runtime_error("misaligned");
    if (address > bytes->size() || width > bytes->size() - address) throw std::runtime_error("outside memory");
    return bytes->data() + address;
  }

  void use_mbarrier(Late& late, std::uint32_t lane) {
    using arch::OpCode;
    const auto [rank, offset] = target(operation_.address[lane]);
    if (offset + 8 > ctas_[rank].shared.size()) throw std::runtime_error("outside memory");
    MbarrierReference& object = mbarriers_.at(rank, offset);
    const std::uint64_t first = operation_.data[lane][0];
    late.values[0][lane] = static_cast<std::uint32_t>(object.phases % 2);
    if (operation_.code == OpCode::mbarrier_init) return object.init(first);
    object.check();
    if (operation_.code == OpCode::mbarrier_invalidate) object = {};
    if (operation_.code == OpCode::mbarrier_arrive) object.arrive(first, operation_.data[lane][1]);
    if (operation_.code == OpCode::mbarrier_expect) object.expect(first);
    if (operation_.code == OpCode::mbarrier_complete) object.come(first);
    if (operation_.code == OpCode::mbarrier_test) late.values[0][lane] = object.passed(first) ? 1 : 0;
  }
  static bool of_mbarriers(arch::OpCode code) {
    return code >= arch::OpCode::mbarrier_init && code <= arch::OpCode::mbarrier_test;
  }

  static std::uint64_t get(const std::uint8_t* bytes, std::uint32_t width) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, width);
    return value;
  }

  void execute(Warp& warp, const arch::OperationNeeds& demand) {
    using arch::OpCode;
    Late late;
    late.lanes = operation_.lanes;
    late.range = {operation_.destination, static_cast<std::uint16_t>(std::max(1, operation_.width / 4))};
    if (of_mbarriers(operation_.code)) late.range.count = 1;
    const bool returns = operation_.destination != arch::kNoRegister;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((operation_.lanes >> lane & 1U) == 0) continue;
      const std::uint32_t width = operation_.width;
      if (operation_.code == OpCode::load) {
        std::array<std::uint32_t, 4> words{};
        std::memcpy(words.data(), memory(operation_.address[lane], width), width);
        for (std::size_t i = 0; i < 4; ++i) late.values[i][lane] = words[i];
      } else if (operation_.code == OpCode::store) {
        std::memcpy(memory(operation_.address[lane], width), operation_.data[lane].data(), width);
      } else if (operation_.code == OpCode::atomic) {
        std::uint8_t* at = memory(operation_.address[lane], width);
        const std::uint64_t old = get(at, width);
        std::uint64_t operand = operation_.data[lane][0];
        if (width == 8) operand |= std::uint64_t{operation_.data[lane][1]} << 32;
        const std::uint64_t result =
            arch::atomic_result(operation_.atomic, operation_.type, old, operand, operation_.compare[lane]);
        std::memcpy(at, &result, width);
        late.values[0][lane] = static_cast<std::uint32_t>(old);
        late.values[1][lane] = static_cast<std::uint32_t>(old >> 32);
      } else if (operation_.code == OpCode::async_copy) {
        operation_.space = arch::Space::global;
        const std::uint8_t* from = memory(operation_.address[lane], width);
        operation_.space = arch::Space::shared;
        std::memcpy(memory(operation_.shared_address[lane], width), from, width);
      } else if (operation_.code == OpCode::special) {
        late.values[0][lane] = 1000 + static_cast<std::uint32_t>(operation_.special);
      } else if (of_mbarriers(operation_.code)) {
        use_mbarrier(late, lane);
      }
    }
    if (operation_.code == OpCode::compute) {
      instructions += operation_.count;
      warp.busy = std::min(operation_.count, 10U) - 1;
    }
    if (operation_.code == OpCode::matmul || operation_.code == OpCode::matmul_async) multiply(warp, demand);
    if (operation_.code == OpCode::barrier) {
      warp.wait = Wait::barrier;
      warp.barrier = operation_.barrier;
      warp.threads = operation_.count;
    }
    if (operation_.code >= OpCode::tensor_load && operation_.code <= OpCode::bulk_send) ask(warp);
    wait_for_others(warp);
    const bool late_result = operation_.code == OpCode::load || operation_.code == OpCode::atomic ||
                             operation_.code == OpCode::special || of_mbarriers(operation_.code);
    if (late_result && returns) {
      if (demand.writes.size() != 1 || demand.writes[0].first != late.range.first ||
          demand.writes[0].count != late.range.count) {
        throw std::runtime_error("the demand does not name the registers that are written");
      }
      warp.late.push_back(late);
    }
  }

  void wait_for_others(Warp& warp) {
    using arch::OpCode;
    if (operation_.code == OpCode::cluster_arrive) warp.arrivals.arrive();
    if (operation_.code == OpCode::cluster_wait) {
      warp.arrivals.wait();
      warp.wait = Wait::cluster;
    }
    if (operation_.code == OpCode::mbarrier_wait) {
      warp.phase = operation_;
      warp.wait = Wait::mbarrier;
    }
    if (operation_.code == OpCode::bulk_commit) warp.groups.commit();
    if (operation_.code == OpCode::bulk_wait) {
      warp.phase = operation_;
      warp.wait = Wait::groups;
    }
    if (operation_.code == OpCode::bulk_drain) {
      warp.serial = open_.serial();
      warp.wait = Wait::drain;
    }
    if (operation_.code == OpCode::release_shared) {
      const auto lane = heddle::bits::lowest(operation_.lanes);
      cta_->shared.resize(std::min<std::size_t>(cta_->shared.size(), operation_.address[lane]));
    }
  }

  float half(std::uint32_t offset) {
    operation_.space = arch::Space::shared;
    const auto bits = static_cast<std::uint16_t>(get(memory(offset, 2), 2));
    return operation_.tile.type == arch::ValueType::bf16 ? arch::float_of_bf16(bits) : arch::float_of_f16(bits);
  }

  void multiply(Warp& warp, const arch::OperationNeeds& demand) {
    const arch::MatmulTile& t = operation_.tile;
    if (demand.accumulators.first != operation_.destination || demand.accumulators.count != t.n / 2) {
      throw std::runtime_error("the demand does not name the accumulators");
    }
    for (std::uint32_t i = 0; i < t.n / 2; ++i) {
      std::uint32_t* registers = warp.state.of(static_cast<std::uint16_t>(operation_.destination + i));
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t row = lane / 4 + 8 * (i / 2 % 2);
        const std::uint32_t column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        float sum = arch::float_of(registers[lane]);
        for (std::uint32_t k = 0; k < t.k; ++k) {
          const std::uint32_t b = t.b_transposed ? t.b + column * t.b_pitch + 2 * k : t.b + k * t.b_pitch + 2 * column;
          sum += half(swizzles_(t.a_swizzle, t.a + row * t.a_pitch + 2 * k)) * half(swizzles_(t.b_swizzle, b));
        }
        registers[lane] = arch::bits_of(sum);
      }
    }
  }

  const arch::KernelRecord& kernel_;
  const arch::WarpProgram& program_;
  std::vector<std::uint8_t>& global_;
  std::vector<Cta> ctas_;  // of the cluster that runs
  Cta* cta_ = nullptr;     // whose warp it is
  MbarrierReferences mbarriers_;
  std::uint64_t phases_ = 0;  // of the cluster's barrier, that are over
  BulkReference bulk_;
  arch::SwizzleTable swizzles_;
  OpenRequests open_;
  arch::Operation operation_;
  Random random_{0};
};

}  // namespace heddle::test
