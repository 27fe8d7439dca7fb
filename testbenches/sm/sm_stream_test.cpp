// Streams of a context: what is created, used and destroyed, step by step, against a plain list of those that live
// (TSK-11).
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "sm/launch_sequence.h"
#include "support/random.h"

namespace sm_stream_test {

using namespace heddle;
using namespace heddle::sm;
using arch::MemoryStep;
using arch::OpCode;
using test::Random;

namespace {

constexpr std::uint64_t kRecord = 0x10000;
constexpr std::uint64_t kContext = 0x20000;

struct NoLink final : PacketSender<protocol::ChildPacket> {
 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const protocol::ChildPacket&, std::uint32_t) override {}
  void do_send_at(Cycle, const protocol::ChildPacket&, std::uint32_t) override {}
};

// One operation of a CTA, up to where it has been accepted or refused.
struct Op {
  LaunchRun run;
  LaunchNext next;
  std::vector<std::uint32_t> registers = std::vector<std::uint32_t>(2 * arch::kWarpLanes, 0);
  std::optional<std::uint64_t> answer;  // on its way
  bool over = false;
  bool faulted = false;
  // Whether the stream that it names lived all the time, or at no time.
  bool always = true;
  bool never = true;
  std::uint64_t begun = 0;
};

// CTAs of one context, and what is in memory.
class Streams {
 public:
  // `warps`: of each CTA. An operation is that of a warp; they are numbered through.
  Streams(std::uint32_t tmdqs, std::uint32_t ctas, bool shared, std::uint32_t warps = 1)
      : warps_(warps), ctas_(ctas), ops_(ctas * warps) {
    memory_.tasks.pool = {0x40000, 8, arch::kRecordBytes};
    memory_.contexts.pool = {0x50000, 8, arch::context::bytes(tmdqs)};
    memory_.tmdqs = tmdqs;
    memory_.shared_contexts = shared;
    words_[kRecord + arch::tmd::kSharedContext] = kContext;
    for (Cta& cta : ctas_) {
      cta.record = kRecord;
      if (shared) continue;
      cta.context.state = Cta::Context::State::here;
      cta.context.address = kContext;
      cta.context.streams.known = ~std::uint64_t{0};
    }
  }
  bool idle(std::uint32_t warp) const { return ops_[warp] == nullptr; }
  // It comes back from memory, and knows nothing of its streams.
  void forget(std::uint32_t cta) { ctas_[cta].context.streams = {}; }

  void begin(std::uint32_t warp, OpCode code, std::uint32_t stream) {
    ops_[warp] = std::make_unique<Op>();
    Op& op = *ops_[warp];
    op.begun = time_;
    op.run.code = code;
    op.run.lanes = 1;
    if (code == OpCode::wait_children) op.run.wait = arch::ChildWait::stream;
    if (code == OpCode::launch_child) {
      op.run.children.resize(1);
      op.run.children[0].stream = stream;
      op.run.children[0].kernel = 0x7000;
    }
    if (code != OpCode::stream_create && (stream != 0 || code != OpCode::launch_child)) op.run.named = {stream};
    op.next = sequence_.begin(op.run, ctas_[warp / warps_], 0);
    look(op);
  }
  // One step of its operation; true: it is over.
  bool advance(std::uint32_t warp) {
    Op& op = *ops_[warp];
    ++time_;
    step(ctas_[warp / warps_], op);
    for (auto& other : ops_) {
      if (other != nullptr) look(*other);
    }
    return op.over;
  }
  std::unique_ptr<Op> take(std::uint32_t warp) { return std::move(ops_[warp]); }
  std::unique_ptr<Op> run(std::uint32_t warp, OpCode code, std::uint32_t stream = 0) {
    begin(warp, code, stream);
    while (!advance(warp)) continue;
    return take(warp);
  }

  bool lives(std::uint32_t stream) const { return stream == 0 || live_.count(stream) != 0; }
  const std::set<std::uint32_t>& live() const { return live_; }
  std::uint32_t aliases = 0;

 private:
  static std::uint32_t named(const Op& op) {
    if (op.run.code == OpCode::launch_child) return op.run.children[0].stream;
    return op.run.named.empty() ? 0 : static_cast<std::uint32_t>(op.run.named[0]);
  }
  void look(Op& op) {
    if (op.over) return;
    (lives(named(op)) ? op.never : op.always) = false;
  }
  void step(Cta& cta, Op& op) {
    if (op.answer) {
      if (op.run.stage == LaunchStage::destroy && *op.answer == op.run.expected) {
        const std::uint32_t tmdq = arch::tmdq_of(static_cast<std::uint32_t>(op.run.named[0]));
        ending_.erase(ending_.find(tmdq));
        free_since_[tmdq] = time_;
      }
      op.next = sequence_.answer(op.run, cta, *op.answer, op.registers.data(), 0);
      op.answer.reset();
      return finish(op);
    }
    if (op.next.kind == LaunchNext::Kind::release) {
      if (op.run.code == OpCode::wait_children) {
        op.over = true;
      } else {
        op.next = sequence_.released(op.run, cta, 0);
        finish(op);
      }
      return;
    }
    if (op.next.kind == LaunchNext::Kind::stage) op.run.stage = op.next.stage;
    switch (op.run.stage) {
      case LaunchStage::fault:
        op.over = op.faulted = true;
        return;
      case LaunchStage::begin:
        if (op.run.code == OpCode::launch_child) {
          op.over = true;
          return;
        }
        op.next = sequence_.begin_one(op.run, cta, op.registers.data(), 0);
        return finish(op);
      default:
        break;
    }
    const MemoryStep step = sequence_.step(op.run, cta);
    std::uint64_t& word = words_[step.address];
    op.answer = word;
    if (step.kind != MemoryStep::Kind::compare_exchange || word != step.compare) return;
    if (word != step.value) changed(op, step, word);
    word = step.value;
  }
  void finish(Op& op) {
    if (op.next.kind == LaunchNext::Kind::finish) op.over = true;
    if (op.next.kind == LaunchNext::Kind::fault) op.over = op.faulted = true;
  }
  std::uint32_t there(std::uint32_t tmdq) const {
    return static_cast<std::uint32_t>(
        (tmdq == 0 ? 1 : 0) + std::count_if(live_.begin(), live_.end(),
                                            [tmdq](std::uint32_t stream) { return arch::tmdq_of(stream) == tmdq; }));
  }
  // A stream begins to live, or ends.
  void changed(const Op& op, const MemoryStep& step, std::uint64_t before) {
    const auto tmdq = static_cast<std::uint32_t>((step.address - kContext - arch::context::live_streams(0)) / 16);
    REQUIRE(tmdq < memory_.tmdqs);
    const std::uint64_t bit = before ^ step.value;
    REQUIRE((bit & (bit - 1)) == 0);
    std::uint32_t place = 0;
    while ((bit >> place & 1) == 0) ++place;
    const std::uint32_t stream = arch::stream_number(tmdq, place);
    if (op.run.code == OpCode::stream_destroy) {
      REQUIRE(stream == op.run.named[0]);
      REQUIRE(live_.erase(stream) == 1);
      ending_.insert(tmdq);
      return;
    }
    REQUIRE(op.run.code == OpCode::stream_create);
    REQUIRE(stream != 0);
    // It shares a TMDQ only if there was none that nobody used; and never one with more streams than another.
    aliases += there(tmdq) > 0 ? 1 : 0;
    bool fair = true;
    const std::uint32_t here = there(tmdq);
    for (std::uint32_t other = 0; other < memory_.tmdqs; ++other) {
      const std::uint32_t others = there(other);
      const bool was_so = ops_.size() == 1 || (ending_.count(other) == 0 && free_since_[other] < op.begun);
      if (was_so && here > 0) fair &= others > 0;
      if (ops_.size() == 1) fair &= here <= others;
    }
    REQUIRE(fair);
    REQUIRE(live_.insert(stream).second);
  }

  NoLink link_;
  TaskLink tasks_{link_};
  GpuObservation observation_{"gpu0"};
  SmStats stats_{observation_.stats, "gpu0.sm0"};
  arch::LaunchMemory memory_;
  std::uint64_t progress_ = 0;
  LaunchSequence sequence_{{memory_, 3, stats_, progress_, tasks_}, 0};
  std::map<std::uint64_t, std::uint64_t> words_;
  const std::uint32_t warps_;
  std::deque<Cta> ctas_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::set<std::uint32_t> live_;
  std::map<std::uint32_t, std::uint64_t> free_since_;  // by TMDQ: when it was known that a stream of it had ended, last
  std::multiset<std::uint32_t> ending_;                // TMDQs with a stream of which that is not known yet
  std::uint64_t time_ = 1;
};

OpCode some_use(Random& random) { return random.chance(50) ? OpCode::launch_child : OpCode::wait_children; }

}  // namespace

TEST_CASE("streams that a CTA creates, uses and destroys are those of a plain list", "[sm][TSK-11]") {
  std::uint32_t aliases = 0;
  std::uint32_t refused = 0;
  for (const std::uint64_t seed : test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t tmdqs = random.chance(50) ? random.between(1, 3) : random.between(1, arch::kMaxTmdqs);
    Streams streams(tmdqs, 1, false);
    std::vector<std::uint32_t> known;  // numbers that have been given
    const std::uint32_t creates = random.between(30, 80);
    for (std::uint32_t i = 0; i < 400; ++i) {
      if (random.chance(3)) streams.forget(0);
      const std::uint32_t some =
          known.empty() || random.chance(3) ? random.below(0x4000) : known[random.below(known.size())];
      const std::uint32_t kind = random.below(100);
      if (kind < creates) {
        const std::size_t before = streams.live().size();
        const auto op = streams.run(0, OpCode::stream_create);
        REQUIRE_FALSE(op->faulted);
        const std::uint32_t number = op->registers[0];
        const bool full = before == std::size_t{tmdqs} * arch::kStreamsOfTmdq - 1;  // stream 0 is one of them
        REQUIRE((number == arch::kNoStream) == full);
        if (full) {
          ++refused;
        } else {
          REQUIRE(streams.lives(number));
          REQUIRE(streams.live().size() == before + 1);
          if (std::find(known.begin(), known.end(), number) == known.end()) known.push_back(number);
        }
      } else if (kind < 90) {
        const bool lives = some != 0 && streams.lives(some);
        const auto op = streams.run(0, OpCode::stream_destroy, some);
        REQUIRE(op->faulted == !lives);
        if (op->faulted) REQUIRE(op->run.fault == arch::FaultKind::child);
        if (some != 0) REQUIRE_FALSE(streams.lives(some));
      } else {
        const bool lives = streams.lives(some);
        REQUIRE(streams.run(0, some_use(random), some)->faulted == !lives);
      }
    }
    aliases += streams.aliases;
  }
  CHECK(aliases > 500);
  CHECK(refused > 50);
}

namespace {

struct Totals {
  std::uint32_t aliases = 0;
  std::uint32_t lost_races = 0;  // two destroyed the same
};

// Warps that create, destroy and use streams of one context at the same time. A warp of a context of its own knows what
// others of its CTA have had answers for, and uses what it has been given alone; so does `careful` code in any case.
void race(std::uint64_t seed, bool shared, bool careful, Totals& totals) {
  CAPTURE(seed);
  Random random(seed);
  const std::uint32_t ctas = shared ? random.between(2, 4) : 1;
  const std::uint32_t warps = shared ? 1 : random.between(2, 4);
  Streams streams(random.between(1, 6), ctas, shared, warps);
  std::vector<std::vector<std::uint32_t>> known(ctas * warps, {0});  // by each warp, or all
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const std::uint32_t warp = random.below(ctas * warps);
    std::vector<std::uint32_t>& its = known[careful ? warp : 0];
    if (streams.idle(warp)) {
      const std::uint32_t kind = random.below(100);
      const std::size_t which = random.below(its.size());
      const OpCode code = kind < 35 ? OpCode::stream_create : kind < 70 ? OpCode::stream_destroy : some_use(random);
      if (careful && code == OpCode::stream_destroy && its[which] == 0) continue;
      streams.begin(warp, code, its[which]);
      if (careful && code == OpCode::stream_destroy) its.erase(its.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    if (!streams.advance(warp)) continue;
    const auto op = streams.take(warp);
    if (careful) REQUIRE_FALSE(op->faulted);
    if (op->run.code == OpCode::stream_create) {
      REQUIRE_FALSE(op->faulted);
      const std::uint32_t number = op->registers[0];
      if (number != arch::kNoStream && std::find(its.begin(), its.end(), number) == its.end()) its.push_back(number);
      if (number != arch::kNoStream && careful) REQUIRE(streams.lives(number));
    } else if (op->run.code == OpCode::stream_destroy) {
      if (op->never || op->run.named[0] == 0) REQUIRE(op->faulted);
      if (op->faulted && op->run.named[0] != 0 && shared) REQUIRE_FALSE(op->always);
      totals.lost_races += op->faulted && !op->never && op->run.named[0] != 0 ? 1 : 0;
    } else {
      if (shared && op->never) REQUIRE(op->faulted);
      if (op->always && shared) REQUIRE_FALSE(op->faulted);
    }
  }
  totals.aliases += streams.aliases;
}

}  // namespace

TEST_CASE("CTAs that share a context create and destroy streams of it at the same time", "[sm][TSK-07][TSK-11]") {
  for (const bool careful : {false, true}) {
    Totals totals;
    for (const std::uint64_t seed : test::seeds(60)) race(seed, true, careful, totals);
    CHECK(totals.aliases > 500);
    CHECK((careful || totals.lost_races > 20));
  }
}

TEST_CASE("warps of a CTA create and destroy streams of it at the same time", "[sm][TSK-11]") {
  for (const bool careful : {false, true}) {
    Totals totals;
    for (const std::uint64_t seed : test::seeds(60)) race(seed, false, careful, totals);
    CHECK(totals.aliases > 500);
    CHECK((careful || totals.lost_races > 20));
  }
}

TEST_CASE("a TMDQ has room for 64 streams, stream 0 among them", "[sm][TSK-11]") {
  for (const std::uint32_t tmdqs : {1U, 2U, arch::kMaxTmdqs}) {
    CAPTURE(tmdqs);
    Streams streams(tmdqs, 1, false);
    std::set<std::uint32_t> numbers;
    for (std::uint32_t i = 1; i < 64 * tmdqs; ++i) {
      const std::uint32_t number = streams.run(0, OpCode::stream_create)->registers[0];
      REQUIRE(number != arch::kNoStream);
      REQUIRE(number != 0);
      REQUIRE(numbers.insert(number).second);
      if (i < tmdqs) REQUIRE(streams.aliases == 0);
    }
    REQUIRE(streams.run(0, OpCode::stream_create)->registers[0] == arch::kNoStream);
    REQUIRE_FALSE(streams.run(0, OpCode::stream_destroy, *numbers.begin())->faulted);
    // The place that is free, and no other.
    REQUIRE(streams.run(0, OpCode::stream_create)->registers[0] == *numbers.begin());
    REQUIRE(streams.run(0, OpCode::stream_create)->registers[0] == arch::kNoStream);
  }
}

// Who uses a stream that was destroyed is found out, and does not get into one that was created since.
TEST_CASE("the number of a stream comes back after all others of its TMDQ alone", "[sm][TSK-11]") {
  Streams streams(1, 1, false);
  std::vector<std::uint32_t> given;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::uint32_t number = streams.run(0, OpCode::stream_create)->registers[0];
    for (std::size_t back = 1; back < 63 && back <= given.size(); ++back) REQUIRE(given[given.size() - back] != number);
    given.push_back(number);
    REQUIRE_FALSE(streams.run(0, OpCode::launch_child, number)->faulted);
    REQUIRE_FALSE(streams.run(0, OpCode::stream_destroy, number)->faulted);
    REQUIRE(streams.run(0, OpCode::launch_child, number)->faulted);
    REQUIRE(streams.run(0, OpCode::wait_children, number)->faulted);
    REQUIRE(streams.run(0, OpCode::stream_destroy, number)->faulted);
  }
}

}  // namespace sm_stream_test
