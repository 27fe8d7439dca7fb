// Grids whose work-items are no multiple of their workgroups, and launches with arguments, on the whole machine.
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "support/packet_lab.h"

namespace system_partial_workgroup_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::Dim3;
using heddle::arch::kNoRegister;
using heddle::arch::Space;
using heddle::arch::ValueType;

namespace {

constexpr Dim3 kItems{1000, 3, 1};
constexpr Dim3 kBlock{64, 2, 1};
constexpr Dim3 kGrid{16, 2, 1};
constexpr std::uint64_t kCells = 3000;
constexpr std::uint64_t kGap = 0x10000;  // from a kernel's cells to its mirrors

std::uint64_t cell_of(const Warp& warp, std::uint32_t lane) {
  const Dim3& block = warp.place.block;
  const std::uint32_t thread = warp.thread(lane);
  const std::uint32_t x = warp.place.cta_x * warp.place.workgroup.x + thread % block.x;
  const std::uint32_t y = warp.place.cta_y * warp.place.workgroup.y + thread / block.x;
  return x + std::uint64_t{kItems.x} * y;
}

// Its arguments: where its cells are, and a number. Every work-item adds the number to its cell, and leaves beside it
// the number of the cell that the thread opposite it in its CTA has written to shared memory before a barrier.
std::shared_ptr<ListProgram> cells() {
  const auto of_argument = [](std::uint64_t offset) {
    return [offset](const Warp& warp, std::uint32_t) { return warp.place.kernarg + offset; };
  };
  const auto cell_at = [](std::uint64_t offset) {
    return [offset](const Warp& warp, std::uint32_t lane) {
      return (warp.reg(2, lane) | std::uint64_t{warp.reg(3, lane)} << 32) + offset + 4 * cell_of(warp, lane);
    };
  };
  ListProgram::Access wide;
  wide.width = 8;
  ListProgram::Access shared;
  shared.space = Space::shared;
  auto p = std::make_shared<ListProgram>(8);
  p->load(wide, 2, of_argument(0));
  p->load({}, 4, of_argument(8));
  p->store(shared, cell_of, [](const Warp& warp, std::uint32_t lane) { return 4 * warp.thread(lane); });
  p->barrier();
  p->load(shared, 5,
          [](const Warp& warp, std::uint32_t lane) { return 4 * (warp.place.block.count() - 1 - warp.thread(lane)); });
  p->atomic({}, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::of_register(4), cell_at(0), {{2, 3}});
  p->store_registers({}, 5, cell_at(kGap), {{2, 2}});
  p->exit();
  return p;
}

std::uint32_t opposite(std::uint32_t cell) {
  const std::uint32_t x = cell % kItems.x;
  const std::uint32_t y = cell / kItems.x;
  const std::uint32_t width = x >= 960 ? 40 : 64;
  const std::uint32_t height = y == 2 ? 1 : 2;
  return x / 64 * 64 + width - 1 - x % 64 + kItems.x * (y / 2 * 2 + height - 1 - y % 2);
}

heddle_packet launch(std::uint64_t object, std::uint64_t arguments, std::uint64_t signal) {
  heddle_dispatch dispatch = PacketLab::dispatch(object, kItems.x, kBlock.x, signal);
  dispatch.setup = 2;
  dispatch.workgroup[1] = kBlock.y;
  dispatch.grid[1] = kItems.y;
  dispatch.kernarg = arguments;
  dispatch.group_segment = 4 * 128;
  heddle_packet packet{};
  heddle_packet_kernel(&packet, &dispatch);
  return packet;
}

std::uint64_t arguments_at(PacketLab& lab, std::uint64_t cells, std::uint32_t number) {
  const std::uint64_t at = lab.take_device(16);
  lab[0].write<std::uint64_t>(at, cells);
  lab[0].write<std::uint32_t>(at + 8, number);
  return at;
}

std::uint64_t object_of(PacketLab& lab) { return lab.program_object(0, cells(), "cells", 4 * 128); }

void submit(heddle_queue& queue, const heddle_packet& packet) {
  REQUIRE(heddle_queue_submit(&queue, &packet, 1, 100'000, nullptr) == HEDDLE_OK);
}

void wait_for(PacketLab& lab, std::uint64_t signal) {
  std::int64_t value = 0;
  REQUIRE(heddle_signal_wait(&lab[0].bus, signal, HEDDLE_LESS, 1, 100'000, &value) == HEDDLE_OK);
  REQUIRE(value == 0);
}

void check_cells(PacketLab& lab, std::uint64_t base, std::uint32_t number) {
  std::vector<std::uint32_t> found(kCells + 2000);
  REQUIRE(lab[0].gpu.memory().read(base, found.data(), 4 * found.size()));
  std::vector<std::uint32_t> mirrors(kCells + 2000);
  REQUIRE(lab[0].gpu.memory().read(base + kGap, mirrors.data(), 4 * mirrors.size()));
  for (std::uint32_t cell = 0; cell < found.size(); ++cell) {
    CAPTURE(number, cell);
    REQUIRE(found[cell] == (cell < kCells ? number : 0));
    REQUIRE(mirrors[cell] == (cell < kCells ? opposite(cell) : 0));
  }
}

}  // namespace

TEST_CASE("every work-item of a grid with partial workgroups writes its own cell once", "[system][PKT-03]") {
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    SimFixture sim;
    PacketLab lab({preset_params("small", {std::string("gpu.timing=") + mode})});
    lab.begin();
    // Launches of one program beside each other: each has its own arguments.
    constexpr std::uint32_t kLaunches = 3;
    const std::uint64_t object = object_of(lab);
    const std::uint64_t signal = lab.new_signal(0, true, kLaunches);
    std::vector<std::uint64_t> bases;
    for (std::uint32_t i = 0; i < kLaunches; ++i) {
      bases.push_back(lab.take_device(2 * kGap));
      heddle_queue queue = lab.open_queue(0, i, 4, true);
      submit(queue, launch(object, arguments_at(lab, bases.back(), i + 5), signal));
    }
    wait_for(lab, signal);
    REQUIRE(lab[0].gpu.log().faults().empty());
    for (std::uint32_t i = 0; i < kLaunches; ++i) check_cells(lab, bases[i], i + 5);
    sc_core::sc_start(sc_core::sc_time(10, sc_core::SC_US));
    lab[0].gpu.check_quiescent();
  }
}

TEST_CASE("a reset in the middle of launches with partial workgroups", "[system][PKT-03]") {
  SimFixture sim;
  PacketLab lab({preset_params("small")});
  lab.begin();
  const std::uint64_t object = object_of(lab);
  const auto start = [&](std::uint64_t signal) {
    const std::uint64_t base = lab.take_device(2 * kGap);
    heddle_queue queue = lab.open_queue(0, 0, 4, true);
    submit(queue, launch(object, arguments_at(lab, base, 1), signal));
    return base;
  };
  for (const double stop : {1500.0, 2200.0, 3000.0}) {
    CAPTURE(stop);
    start(0);
    sc_core::sc_start(stop, sc_core::SC_NS);
    REQUIRE(heddle_device_reset(&lab[0].device, 0) == HEDDLE_OK);
    sc_core::sc_start(10, sc_core::SC_NS);
  }
  // The numbers of launches that are gone are used again.
  const std::uint64_t signal = lab.new_signal(0, true, 1);
  const std::uint64_t base = start(signal);
  wait_for(lab, signal);
  REQUIRE(lab[0].gpu.log().faults().empty());
  check_cells(lab, base, 1);
}

}  // namespace system_partial_workgroup_test
