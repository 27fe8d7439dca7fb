// Random programs with nested branches, loops and early ends: the warp's lane masks against one thread after another.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "program/program_machine.h"
#include "support/random.h"

namespace program_random_test {

using namespace heddle;

namespace {

constexpr std::size_t kVariables = 4;
using Values = std::array<std::uint32_t, kVariables>;

struct Node {
  enum class Kind { set, branch, counted, conditional, leave, bump };
  Kind kind = Kind::set;
  std::size_t a = 0;
  std::size_t b = 0;
  std::uint32_t k = 0;
  std::uint32_t m = 0;
  std::vector<Node> first;
  std::vector<Node> second;
};

std::vector<Node> random_block(test::Random& dice, int depth, bool looped) {
  std::vector<Node> block(dice.between64(1, 4));
  for (Node& node : block) {
    node.a = dice.between64(0, kVariables - 1);
    node.b = dice.between64(0, kVariables - 1);
    node.k = dice.between(0, 20);
    node.m = dice.between(2, 5);
    const std::uint64_t what = dice.between64(0, depth > 0 ? 11 : 4);
    if (what == 4) {
      node.kind = Node::Kind::bump;
    } else if (what >= 5 && what <= 7) {
      node.kind = Node::Kind::branch;
      node.first = random_block(dice, depth - 1, looped);
      if (!dice.one_in(3)) node.second = random_block(dice, depth - 1, looped);
    } else if (what == 8 || what == 9) {
      node.kind = Node::Kind::counted;
      node.first = random_block(dice, depth - 1, true);
    } else if (what == 10) {
      node.kind = Node::Kind::conditional;
      node.first = random_block(dice, depth - 1, true);
    } else if (what == 11) {
      node.kind = Node::Kind::leave;
    }
  }
  return block;
}

// As a scenario writes it. Every conditional loop counts itself down in a register of its own.
std::string text_of(const std::vector<Node>& block, const std::string& indent, int& names) {
  std::string text;
  for (const Node& node : block) {
    const int name = names++;
    switch (node.kind) {
      case Node::Kind::set:
        text += fmt::format("{}- set: {{v{}: v{} * {} + v{} + {}}}\n", indent, node.a, node.b, node.m, node.a, node.k);
        break;
      case Node::Kind::bump:
        text += fmt::format("{}- atomic: {{op: add, type: u32, at: hits + 4 * thread, value: v{}}}\n", indent, node.a);
        break;
      case Node::Kind::branch:
        text += fmt::format("{}- if:\n{}    cond: (v{} + {}) % {} == 0\n{}    then:\n", indent, indent, node.a, node.k,
                            node.m, indent);
        text += text_of(node.first, indent + "    ", names);
        if (!node.second.empty()) text += indent + "    else:\n" + text_of(node.second, indent + "    ", names);
        break;
      case Node::Kind::counted:
        text += fmt::format("{}- loop:\n{}    var: i{}\n{}    to: {} % 4\n{}    do:\n", indent, indent, name, indent,
                            node.k, indent);
        text += fmt::format("{}    - set: {{v{}: v{} + i{}}}\n", indent, node.b, node.b, name);
        text += text_of(node.first, indent + "    ", names);
        break;
      case Node::Kind::conditional:
        text += fmt::format("{}- set: {{w{}: v{} % 4, type: u32}}\n", indent, name, node.a);
        text += fmt::format("{}- while:\n{}    cond: w{} > 0\n{}    do:\n", indent, indent, name, indent);
        text += fmt::format("{}    - set: {{w{}: w{} - 1}}\n", indent, name, name);
        text += text_of(node.first, indent + "    ", names);
        break;
      case Node::Kind::leave:
        text += fmt::format("{}- if: {{cond: v{} % 11 == {}, then: [exit]}}\n", indent, node.a, node.k % 11);
        break;
    }
  }
  return text;
}

// One thread. False: it has ended.
bool execute(const std::vector<Node>& block, Values& v, std::uint32_t& hits) {
  for (const Node& node : block) {
    switch (node.kind) {
      case Node::Kind::set:
        v[node.a] = v[node.b] * node.m + v[node.a] + node.k;
        break;
      case Node::Kind::bump:
        hits += v[node.a];
        break;
      case Node::Kind::branch:
        // In 64 bits: an expression does not wrap.
        if (!execute((std::uint64_t{v[node.a]} + node.k) % node.m == 0 ? node.first : node.second, v, hits)) {
          return false;
        }
        break;
      case Node::Kind::counted:
        for (std::uint32_t i = 0; i < node.k % 4; ++i) {
          v[node.b] += i;
          if (!execute(node.first, v, hits)) return false;
        }
        break;
      case Node::Kind::conditional:
        for (std::uint32_t left = v[node.a] % 4; left > 0; --left) {
          if (!execute(node.first, v, hits)) return false;
        }
        break;
      case Node::Kind::leave:
        if (v[node.a] % 11 == node.k % 11) return false;
        break;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("random programs do in every lane what one thread would do", "[workload][SM-02]") {
  HEDDLE_RANDOM(dice);
  constexpr std::uint32_t kThreads = 75;
  std::uint64_t ended = 0;
  for (int round = 0; round < 120; ++round) {
    const std::vector<Node> block = random_block(dice, 3, false);
    int names = 0;
    std::string text = fmt::format("  grid: 1\n  block: {}\n  program:\n", kThreads);
    for (std::size_t i = 0; i < kVariables; ++i) {
      text += fmt::format("  - set: {{v{}: {} * thread + {}, type: u32}}\n", i, i + 1, 7 * i);
    }
    text += text_of(block, "  ", names);
    for (std::size_t i = 0; i < kVariables; ++i) {
      text += fmt::format("  - store: {{value: v{}, at: out + {} + 16 * thread}}\n", i, 4 * i);
    }
    CAPTURE(round, text);
    test::ProgramMachine machine(text, "[{name: out, bytes: 4096}, {name: hits, bytes: 4096}]");
    machine.run->checkpoints = round % 2 == 0;
    machine.run->run();
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      Values v{};
      for (std::uint32_t i = 0; i < kVariables; ++i) v[i] = (i + 1) * thread + 7 * i;
      std::uint32_t hits = 0;
      const bool alive = execute(block, v, hits);
      ended += alive ? 0 : 1;
      REQUIRE(machine.at<std::uint32_t>("hits", thread) == hits);
      for (std::uint32_t i = 0; i < kVariables; ++i) {
        REQUIRE(machine.at<std::uint32_t>("out", 4 * thread + i) == (alive ? v[i] : 0));
      }
    }
  }
  CHECK(ended > 50);
}

TEST_CASE("a warp that goes on from a saved state does what it would have done", "[workload][SM-02]") {
  // From every operation on: a copy of the program that has seen nothing continues from the bytes.
  const std::string text = R"(
  grid: 1
  block: 24
  program:
  - set: {x: thread * thread, type: u64}
  - loop:
      var: i
      to: 3
      do:
      - set: {n: (x + i) % 4, type: s32}
      - while:
          cond: n > 0
          do:
          - set: {n: n - 1}
          - if: {cond: lane % 2 == i % 2, then: [{set: {x: x + n}}], else: [{if: {cond: x > 400, then: [exit]}}]}
  - store: {value: x, at: out + 8 * thread}
)";
  const std::string memory = "[{name: out, bytes: 4096}]";
  test::ProgramMachine machine(text, memory);
  test::ProgramMachine other(text, memory);
  const arch::WarpProgram& program = *machine.kernel().program;
  const arch::WarpProgram& fresh = *other.kernel().program;
  arch::WarpPlace place;
  place.block = {24, 1, 1};
  place.lanes = 0xFF'FFFF;
  arch::WarpState state;
  program.start(place, state);
  arch::Operation operation;
  int operations = 0;
  const auto rest = [&](const arch::WarpProgram& which, arch::WarpState from) {
    arch::Operation last;
    arch::PerLane<std::uint64_t> values{};
    while (!from.exited) {
      which.issue(place, from, last);
      if (last.code != arch::OpCode::store) continue;
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        if ((last.lanes >> lane & 1U) != 0) {
          values[lane] = last.data[lane][0] | std::uint64_t{last.data[lane][1]} << 32;
        }
      }
    }
    return values;
  };
  const arch::PerLane<std::uint64_t> expected = rest(program, state);
  CHECK(expected[2] > 4);
  while (!state.exited) {
    const std::vector<std::uint8_t> saved = arch::save(state);
    REQUIRE(rest(fresh, arch::restore(saved)) == expected);
    const bool stored = program.demand(state).code == arch::OpCode::store;
    program.issue(place, state, operation);
    ++operations;
    if (stored) break;
  }
  CHECK(operations > 20);
}

}  // namespace program_random_test
