// A machine as plain as can be for programs of PTX: memory is an array, every operation is carried out as soon as it is
// issued, warps take turns. It has no timing, and shares nothing with the SM but the interface of programs.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/memory_op.h"
#include "arch/warp_program.h"
#include "common/bits.h"
#include "ptx/module.h"
#include "ptx/ptx_program.h"
#include "ptx/resolver.h"

namespace heddle::ptx::testing {

class ExecMachine {
 public:
  static constexpr std::uint64_t kArguments = 0x1000;
  static constexpr std::uint64_t kImage = 0x4000;
  static constexpr std::uint64_t kData = 0x10000;

  // Throws what the resolver throws.
  explicit ExecMachine(const std::string& text, const std::string& entry, std::size_t bytes = 1 << 20)
      : module_(parse_module(text, "test.ptx")), memory_(bytes, 0) {
    EntryPlace place;
    place.image = kImage;
    place.arguments = kArguments;
    ResolvedEntry made = resolve_entry(module_, entry, place);
    shared_bytes_ = made.shared_bytes;
    local_bytes_ = made.local_bytes;
    parameters_ = made.parameters;
    program_ = std::make_unique<PtxProgram>(std::move(made.code));
    const std::vector<std::uint8_t> image = ModuleImage(module_).contents(kImage);
    std::copy(image.begin(), image.end(), memory_.begin() + kImage);
  }

  void argument(std::size_t index, std::uint64_t value) {
    const EntryParameter& parameter = parameters_.at(index);
    std::memcpy(memory_.data() + kArguments + parameter.offset, &value, std::min<std::size_t>(8, parameter.bytes));
  }
  std::uint32_t& word(std::uint64_t index) {
    return *reinterpret_cast<std::uint32_t*>(memory_.data() + kData + 4 * index);
  }
  const PtxProgram& program() const { return *program_; }
  std::uint64_t issued() const { return issued_; }
  // Bytes that have counted at the mbarrier at that offset of shared memory.
  std::uint32_t completed(std::uint32_t barrier) const {
    const auto found = completed_.find(barrier);
    return found == completed_.end() ? 0 : found->second;
  }
  std::uint32_t local_bytes() const { return local_bytes_; }
  // Operations that were issued with fewer lanes than threads.
  std::uint64_t partial() const { return partial_; }

  void run(arch::Dim3 grid, arch::Dim3 block, std::uint32_t dynamic_shared = 0, std::uint64_t most = 2'000'000) {
    for (std::uint32_t z = 0; z < grid.z; ++z) {
      for (std::uint32_t y = 0; y < grid.y; ++y) {
        for (std::uint32_t x = 0; x < grid.x; ++x) run_cta(grid, block, {x, y, z}, dynamic_shared, most);
      }
    }
  }

 private:
  struct RunningWarp {
    arch::WarpPlace place;
    arch::WarpState state;
    bool at_barrier = false;
    std::uint32_t barrier = 0;
    std::vector<std::uint8_t> local;
  };

  void run_cta(arch::Dim3 grid, arch::Dim3 block, arch::Dim3 id, std::uint32_t dynamic_shared, std::uint64_t most) {
    shared_.assign(shared_bytes_ + dynamic_shared, 0);
    const auto threads = static_cast<std::uint32_t>(block.count());
    std::vector<RunningWarp> warps((threads + 31) / 32);
    for (std::uint32_t w = 0; w < warps.size(); ++w) {
      arch::WarpPlace& place = warps[w].place;
      place.grid = grid;
      place.block = place.workgroup = block;
      place.cta_x = id.x;
      place.cta_y = id.y;
      place.cta_z = id.z;
      place.warp = w;
      place.warps = static_cast<std::uint32_t>(warps.size());
      const std::uint32_t lanes = std::min(32U, threads - 32 * w);
      place.lanes = lanes == 32 ? ~0U : (1U << lanes) - 1;
      warps[w].local.assign(std::size_t{local_bytes_} * 32, 0);
      program_->start(place, warps[w].state);
    }
    std::size_t live = warps.size();
    while (live > 0) {
      bool any = false;
      live = 0;
      for (RunningWarp& warp : warps) {
        if (warp.state.exited) continue;
        ++live;
        if (warp.at_barrier) continue;
        any = true;
        step(warp);
        if (++issued_ > most) throw std::runtime_error("the program does not end");
      }
      if (any || live == 0) continue;
      for (RunningWarp& warp : warps) warp.at_barrier = false;
    }
  }

  void step(RunningWarp& warp) {
    using arch::OpCode;
    const arch::OpCode announced = program_->demand(warp.state).code;
    arch::Operation& op = operation_;
    program_->issue(warp.place, warp.state, op);
    if (op.code != announced && op.code != OpCode::compute && op.code != OpCode::exit && op.code != OpCode::store &&
        op.code != OpCode::mbarrier_test) {
      throw std::runtime_error("an operation that was not announced");
    }
    if (op.code != OpCode::exit && op.lanes != warp.place.lanes) ++partial_;
    switch (op.code) {
      case OpCode::compute:
      case OpCode::fence:
      case OpCode::exit:
        return;
      case OpCode::special:
        bits::for_each(op.lanes, [&](std::uint32_t lane) {
          warp.state.of(op.destination)[lane] = static_cast<std::uint32_t>(issued_);
        });
        return;
      case OpCode::barrier:
        warp.at_barrier = true;
        return;
      case OpCode::load:
      case OpCode::store:
      case OpCode::atomic:
        bits::for_each(op.lanes, [&](std::uint32_t lane) { access(warp, op, lane); });
        return;
      default:
        throw std::runtime_error(std::string("the plain machine has no ") + arch::op_name(op.code));
    }
  }

  std::uint8_t* at(RunningWarp& warp, const arch::Operation& op, std::uint32_t lane, std::uint32_t bytes) {
    const std::uint64_t address = op.address[lane];
    std::vector<std::uint8_t>& memory = op.space == arch::Space::global  ? memory_
                                        : op.space == arch::Space::local ? warp.local
                                                                         : shared_;
    std::uint64_t offset = address;
    if (op.space == arch::Space::local) {
      if (address + bytes > local_bytes_) throw std::runtime_error("outside of local memory");
      offset += std::uint64_t{lane} * local_bytes_;
    }
    if (op.space == arch::Space::cluster) {
      if (address != arch::dsmem_address(0, arch::dsmem_offset(address))) throw std::runtime_error("it has one CTA");
      offset = arch::dsmem_offset(address);
    }
    if (offset + bytes > memory.size() || offset + bytes < offset) throw std::runtime_error("outside of memory");
    if (address % bytes != 0) throw std::runtime_error("misaligned");
    return memory.data() + offset;
  }

  void access(RunningWarp& warp, const arch::Operation& op, std::uint32_t lane) {
    // As the SM does: in the space of a cluster only.
    if (op.completes && op.space == arch::Space::cluster) completed_[op.barrier] += op.width;
    if (op.code == arch::OpCode::store) {
      std::memcpy(at(warp, op, lane, op.width), op.data[lane].data(), op.width);
      return;
    }
    if (op.code == arch::OpCode::load) {
      std::uint32_t words[4] = {};
      std::memcpy(words, at(warp, op, lane, op.width), op.width);
      for (std::uint32_t i = 0; i < std::max(1U, op.width / 4U); ++i) {
        warp.state.of(static_cast<std::uint16_t>(op.destination + i))[lane] = words[i];
      }
      return;
    }
    const std::uint32_t bytes = arch::bytes_of(op.type);
    std::uint8_t* place = at(warp, op, lane, bytes);
    std::uint64_t old = 0;
    std::memcpy(&old, place, bytes);
    const std::uint64_t operand = op.data[lane][0] | (bytes == 8 ? std::uint64_t{op.data[lane][1]} << 32 : 0);
    const std::uint64_t made = arch::atomic_result(op.atomic, op.type, old, operand, op.compare[lane]);
    std::memcpy(place, &made, bytes);
    if (op.destination == arch::kNoRegister) return;
    warp.state.of(op.destination)[lane] = static_cast<std::uint32_t>(old);
    if (bytes == 8)
      warp.state.of(static_cast<std::uint16_t>(op.destination + 1))[lane] = static_cast<std::uint32_t>(old >> 32);
  }

  Module module_;
  std::vector<std::uint8_t> memory_;
  std::vector<std::uint8_t> shared_;
  std::uint32_t shared_bytes_ = 0;
  std::uint32_t local_bytes_ = 0;
  std::vector<EntryParameter> parameters_;
  std::unique_ptr<PtxProgram> program_;
  arch::Operation operation_;
  std::map<std::uint32_t, std::uint32_t> completed_;
  std::uint64_t issued_ = 0;
  std::uint64_t partial_ = 0;
};

// An entry "k" with one parameter, the address of its data, in %rd0; `body` has what follows. Registers: %r, %rd, %f,
// %p, %rs, each up to 99.
inline std::string kernel(const std::string& body, const std::string& before = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 k_0)\n{\n.reg .b32 %r<100>;\n.reg .b64 %rd<100>;\n.reg .f32 %f<100>;\n"
         ".reg .pred %p<100>;\n.reg .b16 %rs<100>;\n.reg .b32 %t0;\n"
         "ld.param.u64 %rd0, [k_0];\nmov.u32 %t0, %tid.x;\n" +
         body + "\nret;\n}\n";
}

}  // namespace heddle::ptx::testing
