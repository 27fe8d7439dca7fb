// What hosts of packets in system tests do again and again: programs with arguments, submission, waiting, the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/packet_lab.h"

namespace heddle::test {

// Number of the work-item in a one-dimensional grid, whose last workgroup may be partial.
inline std::uint64_t item(const Warp& w, std::uint32_t lane) {
  return w.place.cta * w.place.workgroup.count() + w.thread(lane);
}

// out[i] = i * factor + in[i]; arguments: out, in, factor.
inline std::shared_ptr<const arch::WarpProgram> scale_program() {
  auto p = std::make_shared<ListProgram>(10);
  const auto argument = [](unsigned number) {
    return [number](const Warp& w, std::uint32_t) { return w.place.kernarg + 8 * number; };
  };
  ListProgram::Access wide;
  wide.width = 8;
  p->load(wide, 0, argument(0)).load(wide, 2, argument(1)).load(wide, 4, argument(2));
  const auto base = [](const Warp& w, std::uint32_t lane, std::uint16_t reg) {
    return std::uint64_t{w.reg(reg, lane)} | std::uint64_t{w.reg(static_cast<std::uint16_t>(reg + 1), lane)} << 32;
  };
  p->load({}, 6, [base](const Warp& w, std::uint32_t lane) { return base(w, lane, 2) + 4 * item(w, lane); }, {{2, 2}});
  p->store(
      {}, [](const Warp& w, std::uint32_t lane) { return item(w, lane) * w.reg(4, lane) + w.reg(6, lane); },
      [base](const Warp& w, std::uint32_t lane) { return base(w, lane, 0) + 4 * item(w, lane); }, {{0, 2}, {4, 3}});
  p->exit();
  return p;
}

// The word at kernarg becomes 3 * word + k: the order of such kernels shows.
inline std::shared_ptr<const arch::WarpProgram> step_program(std::uint32_t k) {
  auto p = std::make_shared<ListProgram>(4);
  const auto at = [](const Warp& w, std::uint32_t) { return w.place.kernarg; };
  const auto first = [](const Warp&) { return arch::LaneMask{1}; };
  const ListProgram::Access one{arch::Space::global, 4, arch::Order::weak, arch::Scope::gpu, first};
  p->load(one, 0, at);
  p->store(one, [k](const Warp& w, std::uint32_t lane) { return w.reg(0, lane) * 3 + k; }, at, {{0, 1}});
  p->exit();
  return p;
}

inline std::vector<gpu::GpuParams> small(const std::vector<std::string>& sets = {}, std::size_t count = 1) {
  return std::vector<gpu::GpuParams>(count, preset_params("small", sets));
}

inline heddle_packet kernel(const heddle_dispatch& dispatch) {
  heddle_packet packet{};
  heddle_packet_kernel(&packet, &dispatch);
  return packet;
}

inline void submit(heddle_queue& queue, const std::vector<heddle_packet>& packets) {
  REQUIRE(heddle_queue_submit(&queue, packets.data(), static_cast<std::uint32_t>(packets.size()), 100'000, nullptr) ==
          HEDDLE_OK);
}

inline std::int64_t wait_below(PacketLab::Machine& m, std::uint64_t signal, std::int64_t limit = 1) {
  std::int64_t value = 0;
  REQUIRE(heddle_signal_wait(&m.bus, signal, HEDDLE_LESS, limit, 100'000, &value) == HEDDLE_OK);
  return value;
}

inline void settle(PacketLab& lab) {
  sc_core::sc_start(sc_core::sc_time(20, sc_core::SC_US));
  for (const std::string& violation : lab.violations()) FAIL_CHECK(violation);
  for (const auto& m : lab.machines) m->gpu.check_quiescent();
}

struct Arguments {
  std::uint64_t out, in, factor;
};

inline std::uint64_t arguments_at(PacketLab& lab, std::size_t machine, const Arguments& arguments) {
  const std::uint64_t at = lab.take_device(sizeof arguments);
  lab[machine].write(at, arguments);
  return at;
}

}  // namespace heddle::test
