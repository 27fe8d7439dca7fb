// Programs of scenarios know their launch: its grid, its blocks, its arguments. One program can have several launches.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "program/program_machine.h"
#include "support/random.h"

namespace program_launch_test {

using namespace heddle;
using Catch::Contains;
using test::ProgramMachine;
using test::ProgramRun;
using test::Random;

namespace {

struct Launch {
  arch::Dim3 grid;
  arch::Dim3 block;
  arch::WorkItems items = {};
  std::uint64_t kernarg = 0;
};

// The machine's program, on the machine's memory.
void run(ProgramMachine& machine, const Launch& launch) {
  arch::KernelRecord kernel = machine.kernel();
  kernel.grid = launch.grid;
  kernel.block = launch.block;
  ProgramRun one(kernel, machine.global);
  one.items = launch.items;
  one.kernarg = launch.kernarg;
  one.run();
}

template <class T>
void put(ProgramMachine& machine, std::uint64_t address, T value) {
  std::memcpy(machine.global.data() + address, &value, sizeof value);
}

// All that a launch decides, thread by thread, by the names of the language.
using Values = std::map<std::string, std::uint64_t>;
template <class See>
void each_thread(const Launch& launch, See see) {
  arch::Code code;
  code.block = launch.block;
  code.items = launch.items;
  const arch::Dim3& grid = launch.grid;
  for (std::uint32_t cta = 0; cta < grid.count(); ++cta) {
    const arch::Dim3 at{cta % grid.x, cta / grid.x % grid.y, cta / grid.x / grid.y};
    const arch::Dim3 block = code.block_of(at);
    Values v{{"cta", cta},
             {"cta.x", at.x},
             {"cta.y", at.y},
             {"cta.z", at.z},
             {"grid", grid.count()},
             {"grid.x", grid.x},
             {"grid.y", grid.y},
             {"grid.z", grid.z},
             {"block", block.count()},
             {"block.x", block.x},
             {"block.y", block.y},
             {"block.z", block.z},
             {"workgroup", launch.block.count()},
             {"workgroup.x", launch.block.x},
             {"workgroup.y", launch.block.y},
             {"workgroup.z", launch.block.z},
             {"warps", (block.count() + 31) / 32},
             {"kernarg", launch.kernarg}};
    for (std::uint32_t thread = 0; thread < block.count(); ++thread) {
      v["thread"] = thread;
      v["thread.x"] = thread % block.x;
      v["thread.y"] = thread / block.x % block.y;
      v["thread.z"] = thread / block.x / block.y;
      v["item.x"] = at.x * launch.block.x + v["thread.x"];
      v["item.y"] = at.y * launch.block.y + v["thread.y"];
      v["item.z"] = at.z * launch.block.z + v["thread.z"];
      v["warp"] = thread / 32;
      v["lane"] = thread % 32;
      see(v);
    }
  }
}

arch::Dim3 random_block(Random& random) {
  switch (random.below(4)) {
    case 0:
      return {32 * random.between(1, 3), random.between(1, 2), random.between(1, 2)};  // whole warps in rows
    case 1:
      return {random.between(1, 130), 1, 1};
    default:
      return {random.between(1, 40), random.between(1, 4), random.between(1, 3)};
  }
}

Launch random_launch(Random& random) {
  Launch launch{{random.between(1, 4), random.between(1, 3), random.between(1, 3)}, random_block(random)};
  if (random.chance(60)) {
    const auto covered = [&](std::uint32_t grid, std::uint32_t block) {
      return random.between((grid - 1) * block + 1, grid * block);
    };
    launch.items = {{covered(launch.grid.x, launch.block.x), covered(launch.grid.y, launch.block.y),
                     covered(launch.grid.z, launch.block.z)}};
  }
  if (random.chance(50)) launch.kernarg = 64 * random.below(4096);
  return launch;
}

std::string extents(const arch::Dim3& of) { return fmt::format("[{}, {}, {}]", of.x, of.y, of.z); }

}  // namespace

TEST_CASE("a program loads its arguments", "[workload][PKT-03]") {
  ProgramMachine machine(R"(
  grid: 1
  block: 32
  program:
  - load: {to: data, type: u64, at: kernarg}
  - load: {to: [n, offset], type: u32, at: kernarg + 8}
  - load: {to: factor, type: f32, at: kernarg + 16}
  - if:
      cond: item.x < n
      then:
      - load: {to: x, type: f32, at: data + 4 * item.x}
      - set: {x: factor * x + offset}
      - store: {value: x, at: data + 4 * item.x}
)",
                         "[{name: arguments, bytes: 256}, {name: numbers, bytes: 8 KiB, init: {pattern: i}}]");
  struct Arguments {
    std::uint64_t data;
    std::uint32_t n;
    std::uint32_t offset;
    float factor;
  };
  const std::uint64_t numbers = machine.region("numbers").address;
  const std::uint64_t first = machine.region("arguments").address + 64;
  const std::uint64_t second = first + 64;
  put(machine, first, Arguments{numbers, 300, 7, 2.5F});
  put(machine, second, Arguments{numbers + 4096, 1000, 1, -1.0F});
  run(machine, {{4, 1, 1}, {96, 1, 1}, {}, first});
  run(machine, {{8, 1, 1}, {128, 1, 1}, {{1000, 1, 1}}, second});
  for (std::uint32_t i = 0; i < 1024; ++i) {
    CAPTURE(i);
    REQUIRE(machine.at<float>("numbers", i) == (i < 300 ? 2.5F * static_cast<float>(i) + 7 : static_cast<float>(i)));
    const auto other = static_cast<float>(1024 + i);
    REQUIRE(machine.at<float>("numbers", 1024 + i) == (i < 1000 ? 1 - other : other));
  }
}

TEST_CASE("a launch without arguments has kernarg 0", "[workload]") {
  ProgramMachine machine("  grid: 1\n  block: 32\n  program:\n  - store: {value: kernarg + 5, type: u64, at: out}\n",
                         "[{name: out, bytes: 64}]");
  machine.run->run();
  CHECK(machine.at<std::uint64_t>("out", 0) == 5);
}

TEST_CASE("one program with several grids", "[workload][PKT-03][SM-02]") {
  // What is computed for three lanes and taken for 32 must not depend on the block that the program was read with.
  for (const std::uint64_t seed : test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    Values some;
    each_thread({{1, 1, 1}, {1, 1, 1}}, [&](const Values& values) { some = values; });
    std::vector<std::string> names;
    for (const auto& entry : some) names.push_back(entry.first);
    struct Term {
      std::uint64_t factor;
      std::string first;
      std::string second;
    };
    std::vector<Term> terms;
    std::string text = "0";
    for (std::uint32_t i = random.between(1, 4); i-- > 0;) {
      // Whatever differs from lane to lane, often.
      const std::string by_lane = std::vector<std::string>{"thread.x", "item.x", "thread", "lane"}[random.below(4)];
      terms.push_back({random.between(1, 9), random.chance(50) ? by_lane : names[random.below(names.size())],
                       random.chance(50) ? names[random.below(names.size())] : "grid.x"});
      text += fmt::format(" + {} * {} * {}", terms.back().factor, terms.back().first, terms.back().second);
    }
    CAPTURE(text);
    const Launch read = random_launch(random);
    ProgramMachine machine(fmt::format("  grid: {}\n  block: {}\n  program:\n"
                                       "  - store: {{value: '{}', type: u64, at: out + 8 * (cta * workgroup + "
                                       "thread)}}\n",
                                       extents(read.grid), extents(read.block), text),
                           "[{name: out, bytes: 256 KiB}]");
    for (const Launch& launch : {random_launch(random), read, random_launch(random)}) {
      CAPTURE(launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z,
              launch.items.items.x, launch.items.items.y, launch.items.items.z);
      machine.reset();
      run(machine, launch);
      std::size_t written = 0;
      each_thread(launch, [&](const Values& values) {
        std::uint64_t expected = 0;
        for (const Term& term : terms) expected += term.factor * values.at(term.first) * values.at(term.second);
        const std::uint64_t cell = values.at("cta") * launch.block.count() + values.at("thread");
        REQUIRE(machine.at<std::uint64_t>("out", cell) == expected);
        written += expected != 0 ? 1 : 0;
      });
      std::size_t found = 0;
      for (std::size_t i = 0; i < 32768; ++i) found += machine.at<std::uint64_t>("out", i) != 0 ? 1 : 0;
      REQUIRE(found == written);
    }
  }
}

TEST_CASE("every work-item of partial workgroups writes its own cell", "[workload][PKT-03]") {
  ProgramMachine machine(R"(
  grid: 1
  block: 64
  shared: 512
  program:
  - let: {cell: item.x + 100 * (item.y + 10 * item.z)}
  - store: {value: cell, type: u32, at: 4 * thread, space: shared}
  - barrier
  - load: {to: mirror, type: u32, at: 4 * (block - 1 - thread), space: shared}
  - atomic: {op: add, value: 1, type: u32, at: out + 8 * cell}
  - store: {value: mirror, at: out + 8 * cell + 4}
)",
                         "[{name: out, bytes: 40000}]");
  const Launch launch{{4, 2, 2}, {30, 3, 1}, {{100, 5, 2}}};
  run(machine, launch);
  std::size_t cells = 0;
  each_thread(launch, [&](const Values& values) {
    const auto cell_of = [](const Values& v) { return v.at("item.x") + 100 * (v.at("item.y") + 10 * v.at("item.z")); };
    REQUIRE(machine.at<std::uint32_t>("out", 2 * cell_of(values)) == 1);
    // What the last thread but so many has written before the barrier.
    Values other = values;
    const std::uint64_t thread = values.at("block") - 1 - values.at("thread");
    other["item.x"] = values.at("cta.x") * 30 + thread % values.at("block.x");
    other["item.y"] = values.at("cta.y") * 3 + thread / values.at("block.x");
    REQUIRE(machine.at<std::uint32_t>("out", 2 * cell_of(values) + 1) == cell_of(other));
    ++cells;
  });
  CHECK(cells == 1000);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 5000; ++i) sum += machine.at<std::uint32_t>("out", 2 * i);
  CHECK(sum == 1000);
}

TEST_CASE("names of launches are taken", "[workload]") {
  for (const std::string name : {"kernarg", "workgroup", "grid", "warps"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH(ProgramMachine("  grid: 1\n  block: 32\n  program:\n  - set: {" + name + ": 1, type: u32}\n"),
                      Contains("meaning"));
  }
}

}  // namespace program_launch_test
