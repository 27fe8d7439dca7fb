// Random programs against a reference that takes one thread at a time: it walks the tree that the text was written
// from, and knows neither PTX nor warps.
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "ptx/exec_machine.h"

namespace exec_random_test {

using namespace heddle;
using heddle::ptx::testing::ExecMachine;
using heddle::ptx::testing::kernel;

namespace {

constexpr std::uint32_t kVariables = 6;
constexpr std::uint32_t kThreads = 96;

struct Statement {
  enum class Kind { assign, guarded, branch, loop, table, wide, local, shared, leave };
  Kind kind = Kind::assign;
  int operation = 0;
  std::uint32_t to = 0, a = 0, b = 0;
  std::uint32_t constant = 0;
  std::uint32_t rounds = 1;   // of a loop, at most
  std::uint32_t counter = 0;  // a register of its own
  std::vector<std::vector<Statement>> bodies;
};

struct ThreadState {
  std::array<std::uint32_t, kVariables> v{};
  std::array<std::uint32_t, 8> local{};
  bool ended = false;
};

std::uint32_t worked_out(int operation, std::uint32_t a, std::uint32_t b, std::uint32_t constant) {
  switch (operation) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b + constant;
    case 3:
      return a ^ (b + constant);
    case 4:
      return (a << (constant % 31)) | (b >> 1);
    case 5:
      return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? a : b;
    case 6:
      return a > b ? a - constant : b;
    default:
      return (a & b) | constant;
  }
}

bool holds(const Statement& s, const ThreadState& t) { return ((t.v[s.a] ^ s.constant) & 7U) < (t.v[s.b] & 7U); }

void walk(const std::vector<Statement>& body, ThreadState& t) {
  for (const Statement& s : body) {
    if (t.ended) return;
    switch (s.kind) {
      case Statement::Kind::assign:
        t.v[s.to] = worked_out(s.operation, t.v[s.a], t.v[s.b], s.constant);
        break;
      case Statement::Kind::guarded:
        if (holds(s, t)) t.v[s.to] = worked_out(s.operation, t.v[s.a], t.v[s.b], s.constant);
        break;
      case Statement::Kind::branch:
        walk(s.bodies[holds(s, t) ? 0 : 1], t);
        break;
      case Statement::Kind::loop:
        for (std::uint32_t i = 0; i < s.rounds && !t.ended; ++i) {
          if (!holds(s, t)) break;
          walk(s.bodies[0], t);
        }
        break;
      case Statement::Kind::table:
        walk(s.bodies[t.v[s.a] % s.bodies.size()], t);
        break;
      case Statement::Kind::wide: {
        const std::uint64_t product = std::uint64_t{t.v[s.a]} * t.v[s.b] + s.constant;
        t.v[s.to] = static_cast<std::uint32_t>(product >> 32) ^ static_cast<std::uint32_t>(product);
        break;
      }
      case Statement::Kind::local:
        t.local[t.v[s.a] % 8] = t.v[s.b];
        t.v[s.to] += t.local[s.constant % 8];
        break;
      case Statement::Kind::shared: {  // a signed byte goes to a word of the thread, and comes back
        const auto byte = static_cast<std::int8_t>(t.v[s.a]);
        t.v[s.to] = static_cast<std::uint32_t>(std::int32_t{byte}) + s.constant;
        break;
      }
      case Statement::Kind::leave:
        t.ended = holds(s, t);
        break;
    }
  }
}

class Writer {
 public:
  explicit Writer(std::uint32_t seed) : random_(seed) {}

  std::vector<Statement> body(int depth) {
    std::vector<Statement> statements;
    for (std::uint32_t i = 0, count = 1 + pick(5); i < count; ++i) {
      Statement s;
      constexpr Statement::Kind kFlat[] = {Statement::Kind::assign, Statement::Kind::assign, Statement::Kind::guarded,
                                           Statement::Kind::wide,   Statement::Kind::local,  Statement::Kind::shared};
      constexpr Statement::Kind kNested[] = {Statement::Kind::branch, Statement::Kind::loop, Statement::Kind::table,
                                             Statement::Kind::branch, Statement::Kind::leave};
      s.kind = depth > 0 && pick(2) == 0 ? kNested[pick(5)] : kFlat[pick(6)];
      s.operation = static_cast<int>(pick(8));
      s.to = pick(kVariables);
      s.a = pick(kVariables);
      s.b = pick(kVariables);
      s.constant = pick(3) == 0 ? static_cast<std::uint32_t>(random_()) : pick(100);
      s.rounds = 1 + pick(6);
      if (s.kind == Statement::Kind::loop) {
        s.counter = counters_++;
        s.bodies.push_back(body(depth - 1));
      } else if (s.kind == Statement::Kind::branch) {
        s.bodies = {body(depth - 1), pick(3) == 0 ? std::vector<Statement>{} : body(depth - 1)};
      } else if (s.kind == Statement::Kind::table) {
        for (std::uint32_t k = 0, targets = 2 + pick(3); k < targets; ++k) s.bodies.push_back(body(depth - 1));
      }
      statements.push_back(std::move(s));
    }
    return statements;
  }

  std::string text(const std::vector<Statement>& body) {
    std::string out;
    for (const Statement& s : body) out += text(s);
    return out;
  }
  std::uint32_t counters() const { return counters_; }

 private:
  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }
  static std::string v(std::uint32_t number) { return fmt::format("%r{}", number); }

  // Into %p1.
  static std::string condition(const Statement& s) {
    return fmt::format(
        "xor.b32 %r50, {}, {};\nand.b32 %r50, %r50, 7;\nand.b32 %r51, {}, 7;\nsetp.lt.u32 %p1, %r50, %r51;\n", v(s.a),
        s.constant, v(s.b));
  }
  static std::string assignment(const Statement& s, const std::string& guard) {
    const std::string d = v(s.to);
    const std::string a = v(s.a);
    const std::string b = v(s.b);
    const std::uint32_t c = s.constant;
    switch (s.operation) {
      case 0:
        return fmt::format("{}add.u32 {}, {}, {};\n", guard, d, a, b);
      case 1:
        return fmt::format("{}sub.s32 {}, {}, {};\n", guard, d, a, b);
      case 2:
        return fmt::format("{}mad.lo.u32 {}, {}, {}, {};\n", guard, d, a, b, c);
      case 3:
        return fmt::format("add.u32 %r52, {}, {};\n{}xor.b32 {}, {}, %r52;\n", b, c, guard, d, a);
      case 4:
        return fmt::format("shl.b32 %r52, {}, {};\nshr.u32 %r53, {}, 1;\n{}or.b32 {}, %r52, %r53;\n", a, c % 31, b,
                           guard, d);
      case 5:
        return fmt::format("{}min.s32 {}, {}, {};\n", guard, d, a, b);
      case 6:
        return fmt::format("setp.gt.u32 %p2, {}, {};\nsub.u32 %r52, {}, {};\n{}selp.b32 {}, %r52, {}, %p2;\n", a, b, a,
                           c, guard, d, b);
      default:
        return fmt::format("and.b32 %r52, {}, {};\n{}or.b32 {}, %r52, {};\n", a, b, guard, d, c);
    }
  }

  std::string text(const Statement& s) {
    const std::uint32_t n = labels_++;
    switch (s.kind) {
      case Statement::Kind::assign:
        return assignment(s, "");
      case Statement::Kind::guarded:
        return condition(s) + assignment(s, "@%p1 ");
      case Statement::Kind::branch:
        return condition(s) + fmt::format("@!%p1 bra E{};\n", n) + text(s.bodies[0]) +
               fmt::format("bra.uni X{0};\nE{0}:\n", n) + text(s.bodies[1]) + fmt::format("X{}:\n", n);
      case Statement::Kind::loop: {
        const std::string counter = fmt::format("%c{}", s.counter);
        return fmt::format("mov.u32 {}, 0;\nL{}:\nsetp.ge.u32 %p3, {}, {};\n@%p3 bra X{};\n", counter, n, counter,
                           s.rounds, n) +
               condition(s) + fmt::format("@!%p1 bra X{};\n", n) + text(s.bodies[0]) +
               fmt::format("add.u32 {0}, {0}, 1;\nbra L{1};\nX{1}:\n", counter, n);
      }
      case Statement::Kind::table: {
        std::string out = fmt::format("rem.u32 %r54, {}, {};\nT{}: .branchtargets ", v(s.a), s.bodies.size(), n);
        for (std::size_t i = 0; i < s.bodies.size(); ++i) out += fmt::format("{}B{}_{}", i == 0 ? "" : ", ", n, i);
        out += fmt::format(";\nbrx.idx %r54, T{};\n", n);
        for (std::size_t i = 0; i < s.bodies.size(); ++i) {
          out += fmt::format("B{}_{}:\n", n, i) + text(s.bodies[i]) + fmt::format("bra X{};\n", n);
        }
        return out + fmt::format("X{}:\n", n);
      }
      case Statement::Kind::wide:
        return fmt::format(
            "mul.wide.u32 %rd20, {}, {};\nadd.u64 %rd20, %rd20, {};\nmov.b64 {{%r55, %r56}}, %rd20;\n"
            "xor.b32 {}, %r56, %r55;\n",
            v(s.a), v(s.b), s.constant, v(s.to));
      case Statement::Kind::local:
        return fmt::format(
            "and.b32 %r57, {}, 7;\nmul.wide.u32 %rd21, %r57, 4;\nadd.u64 %rd21, %rd10, %rd21;\n"
            "st.u32 [%rd21], {};\nld.local.u32 %r58, [area+{}];\nadd.u32 {}, {}, %r58;\n",
            v(s.a), v(s.b), 4 * (s.constant % 8), v(s.to), v(s.to));
      case Statement::Kind::shared:
        return fmt::format("st.shared.u8 [%r60], {};\nld.s8 %r59, [%rd11];\nadd.u32 {}, %r59, {};\n", v(s.a), v(s.to),
                           s.constant);
      case Statement::Kind::leave:
        return condition(s) + "@%p1 bra LEAVE;\n";
    }
    return {};
  }

  std::mt19937 random_;
  std::uint32_t counters_ = 0;
  std::uint32_t labels_ = 0;
};

// Variables begin as mixtures of the thread's number.
std::uint32_t start_of(std::uint32_t thread, std::uint32_t variable) { return thread * (2 * variable + 1) + variable; }

}  // namespace

TEST_CASE("random programs do what their threads do one at a time", "[ptx]") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    Writer writer(seed);
    const std::vector<Statement> body = writer.body(4);
    std::string text = ".local .align 4 .b8 area[32];\n.shared .align 4 .b8 bytes[384];\n";
    const std::string inside = writer.text(body);
    text += fmt::format(".reg .b32 %c<{}>;\n", writer.counters() + 1);
    text +=
        "mov.u64 %rd9, area;\ncvta.local.u64 %rd10, %rd9;\nshl.b32 %r60, %t0, 2;\nmov.u32 %r61, bytes;\n"
        "add.u32 %r60, %r60, %r61;\ncvt.u64.u32 %rd12, %r60;\ncvta.shared.u64 %rd11, %rd12;\n";
    for (std::uint32_t i = 0; i < 8; ++i) text += fmt::format("st.local.u32 [area+{}], 0;\n", 4 * i);
    for (std::uint32_t i = 0; i < kVariables; ++i) {
      text += fmt::format("mad.lo.u32 %r{}, %t0, {}, {};\n", i, 2 * i + 1, i);
    }
    text += inside + "LEAVE:\nmul.wide.u32 %rd30, %t0, 32;\nadd.u64 %rd31, %rd0, %rd30;\n";
    text += "st.global.v4.u32 [%rd31], {%r0, %r1, %r2, %r3};\nst.global.v2.u32 [%rd31+16], {%r4, %r5};\n";
    ExecMachine machine(kernel(text), "k");
    machine.argument(0, ExecMachine::kData);
    machine.run({1, 1, 1}, {kThreads, 1, 1});
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      ThreadState state;
      for (std::uint32_t i = 0; i < kVariables; ++i) state.v[i] = start_of(thread, i);
      walk(body, state);
      for (std::uint32_t i = 0; i < kVariables; ++i) {
        CAPTURE(thread, i);
        REQUIRE(machine.word(8 * thread + i) == state.v[i]);
      }
    }
  }
}

}  // namespace exec_random_test
