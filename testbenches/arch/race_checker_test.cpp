// What packets forget to say about memory (PKT-14), against a graph of everything that happens: an edge for each rule
// of hsa.h, and a race where no path leads over a release and an acquire.
#include "arch/race_checker.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "support/random.h"

namespace arch_race_checker_test {

using namespace heddle::arch;
using heddle::Stats;
using heddle::test::Random;

namespace {

using Found = std::tuple<std::string, std::string, MissingSync>;

struct Checked {
  explicit Checked(std::uint32_t lines = 64, bool translated = false)
      : checker({true, lines}, translated, stats, "gpu0", [this](const Race& race) {
          found.insert({race.writer, race.reader, race.missing});
          last = race;
        }) {}
  Stats stats;
  std::set<Found> found;
  Race last;
  RaceChecker checker;
};

const RaceChecker::Name kNobody = [] { return std::string("a kernel of a stream"); };
constexpr std::uint64_t kData = 0x1000;

// Two packets of one queue by hand.
struct Two : Checked {
  explicit Two(std::uint32_t lines = 64) : Checked(lines) {
    checker.order().opened(0, 0);
    checker.order().published(0, 0);
    checker.order().published(0, 1);
  }
  void begin(std::uint64_t index, bool barrier, FenceScope acquire) {
    checker.order().begins(0, index, barrier);
    checker.order().acquired(0, index, acquire);
    checker.kernel_starts(index + 1, {0, index, 0}, fmt::format("kernel {}", index));
  }
  void end(std::uint64_t index, FenceScope release, std::uint64_t signal = 0) {
    checker.ends(index + 1);
    checker.order().finishes({0, index, 0, true}, release, signal);
    checker.order().gone(0, index);
  }
  void write(std::uint64_t index, bool strong = false) {
    checker.writes(index + 1, {kData}, LineBytes::range(0, 4), strong, kNobody);
  }
  void read(std::uint64_t index) { checker.reads(index + 1, {kData}, LineBytes::range(0, 4), kNobody); }
};

}  // namespace

TEST_CASE("a barrier bit orders, an agent release and acquire hand over", "[arch][PKT-14]") {
  for (const bool barrier : {false, true}) {
    for (const FenceScope release : {FenceScope::none, FenceScope::agent, FenceScope::system}) {
      for (const FenceScope acquire : {FenceScope::none, FenceScope::agent, FenceScope::system}) {
        CAPTURE(barrier, int(release), int(acquire));
        Two two;
        two.begin(0, false, FenceScope::none);
        two.write(0);
        two.end(0, release);
        two.begin(1, barrier, acquire);
        two.read(1);
        std::set<Found> expected;
        if (!barrier) {
          expected.insert({"kernel 0", "kernel 1", MissingSync::order});
        } else if (release == FenceScope::none) {
          expected.insert({"kernel 0", "kernel 1", MissingSync::release});
        } else if (acquire == FenceScope::none) {
          expected.insert({"kernel 0", "kernel 1", MissingSync::acquire});
        }
        CHECK(two.found == expected);
        CHECK(two.checker.found() == expected.size());
      }
    }
  }
}

TEST_CASE("the host needs system scope on both sides", "[arch][PKT-14]") {
  for (const FenceScope scope : {FenceScope::none, FenceScope::agent, FenceScope::system}) {
    Two two;
    two.checker.host_writes(kData, 4);
    two.checker.order().published(0, 0);
    two.begin(0, false, scope);
    two.read(0);
    const bool wide = scope == FenceScope::system;
    const MissingSync before = scope == FenceScope::none ? MissingSync::acquire : MissingSync::wider_acquire;
    CHECK(two.found.count({"the host", "kernel 0", before}) == (wide ? 0 : 1));
    two.write(0);
    two.end(0, scope, 0x80);
    two.checker.host_reads(kData, 4);
    const MissingSync behind = scope == FenceScope::none ? MissingSync::release : MissingSync::wider_release;
    CHECK(two.found.count({"kernel 0", "the host", behind}) == (wide ? 0 : 1));
    CHECK(two.found.size() == (wide ? 0 : 2));
  }
}

TEST_CASE("without a signal the host knows of no end, and what it writes later was not there", "[arch][PKT-14]") {
  Two two;
  two.begin(0, false, FenceScope::system);
  two.write(0);
  two.end(0, FenceScope::system);
  two.checker.host_reads(kData, 4);
  CHECK(two.found == std::set<Found>{{"kernel 0", "the host", MissingSync::order}});
  two.checker.host_writes(kData, 4);  // packet 1 was published before
  two.begin(1, true, FenceScope::system);
  two.read(1);
  CHECK(two.found.count({"the host", "kernel 1", MissingSync::order}) == 1);
}

TEST_CASE("a host that is given an agent packet knows what the packet waited for", "[arch][PKT-14]") {
  for (const bool barrier : {false, true}) {
    Two two;
    two.begin(0, false, FenceScope::none);
    two.write(0);
    two.end(0, FenceScope::system);
    two.checker.order().begins(0, 1, barrier);
    two.checker.order().acquired(0, 1, FenceScope::none);
    two.checker.order().host_has(0, 1);
    two.checker.order().host_has(0, 7);  // nobody knows of such a packet
    two.checker.host_reads(kData, 4);
    CHECK(two.found.empty() == barrier);
  }
}

TEST_CASE("bytes, strong writes, and one's own", "[arch][PKT-14]") {
  Two two;
  two.begin(0, false, FenceScope::none);
  two.begin(1, false, FenceScope::none);
  two.checker.writes(1, {kData}, LineBytes::range(60, 8), false, kNobody);
  two.checker.reads(1, {kData}, LineBytes::range(0, 128), kNobody);
  two.checker.reads(2, {kData}, LineBytes::range(52, 8), kNobody);
  two.checker.reads(2, {kData}, LineBytes::range(68, 60), kNobody);
  CHECK(two.found.empty());
  two.checker.reads(2, {kData}, LineBytes::range(67, 1), kNobody);
  CHECK(two.found.size() == 1);
  CHECK(two.last.address == kData + 67);
  CHECK(two.last.text() ==
        "kernel 1 reads at 0x1043 what kernel 0 has written, and nothing orders the two: no signal, barrier bit or "
        "barrier packet, and the host did not know of the end");
  two.write(0, true);
  two.checker.host_reads(kData, 4);  // it may poll for what is strong
  CHECK(two.found.size() == 1);
  two.checker.writes(2, {kData}, LineBytes::range(60, 8), false, kNobody);  // now they are its own
  two.checker.reads(2, {kData}, LineBytes::range(60, 8), kNobody);
  CHECK(two.found.size() == 1);
  CHECK(two.checker.found() == 1);
}

TEST_CASE("what a program acquires itself is right, and so is what has been changed without time", "[arch][PKT-14]") {
  Two two;
  two.begin(0, false, FenceScope::none);
  two.begin(1, false, FenceScope::none);
  two.write(0);
  SECTION("a fence of the reader") {
    two.checker.program_acquires(2, kNobody);
    two.read(1);
    CHECK(two.found.empty());
    two.write(0);
    two.read(1);
    CHECK(two.found.size() == 1);
  }
  SECTION("a debugger's write") {
    two.checker.forget(kData, 2);
    two.checker.reads(2, {kData}, LineBytes::range(0, 2), kNobody);
    CHECK(two.found.empty());
    two.read(1);
    CHECK(two.last.address == kData + 2);
  }
  SECTION("a reset") {
    two.checker.reset();
    two.checker.reads(7, {kData}, LineBytes::range(0, 4), kNobody);
    CHECK(two.found.empty());
    CHECK(two.checker.found() == 0);
  }
}

TEST_CASE("a reset forgets what was found", "[arch][PKT-14]") {
  Two two;
  two.begin(0, false, FenceScope::none);
  two.begin(1, false, FenceScope::none);
  two.write(0);
  two.read(1);
  CHECK(two.checker.found() == 1);
  CHECK(two.checker.races().size() == 1);
  two.checker.reset();
  CHECK(two.checker.found() == 0);
  CHECK(two.checker.races().empty());
}

TEST_CASE("bytes of a line", "[arch]") {
  for (std::uint32_t first = 0; first < 128; ++first) {
    for (std::uint32_t count = 1; count <= 128 - first; ++count) {
      const LineBytes bytes = LineBytes::range(first, count);
      bool right = bytes.any() && bytes.first() == first;
      for (std::uint32_t i = 0; i < 128; ++i) {
        right = right && LineBytes::range(i, 1).without(bytes).any() == (i < first || i >= first + count);
      }
      if (!right) FAIL(first << ", " << count);
    }
  }
}

TEST_CASE("kernels of streams acquire with their start and release with their end", "[arch][PKT-14]") {
  Two two;
  two.checker.writes(50, {kData}, LineBytes::range(0, 4), false, kNobody);
  two.checker.reads(51, {kData}, LineBytes::range(0, 4), kNobody);  // started after it
  CHECK(two.found.empty());
  two.begin(0, false, FenceScope::system);
  two.read(0);
  CHECK(two.found == std::set<Found>{{"a kernel of a stream", "kernel 0", MissingSync::order}});
  two.checker.ends(50);
  two.checker.host_reads(kData, 4);
  CHECK(two.found.size() == 1);
  two.checker.order().published(0, 1);
  two.begin(1, false, FenceScope::agent);
  two.read(1);
  CHECK(two.found.size() == 1);
  two.write(1);
  two.checker.reads(51, {kData}, LineBytes::range(0, 4), kNobody);
  CHECK(two.found.count({"kernel 1", "a kernel of a stream", MissingSync::order}) == 1);
}

TEST_CASE("copies need an order alone", "[arch][PKT-14]") {
  Two two;
  two.begin(0, false, FenceScope::none);
  two.checker.writes(1, {kData + 128}, LineBytes::range(0, 4), false, kNobody);
  two.end(0, FenceScope::none);
  two.checker.order().begins(0, 1, false);
  two.checker.order().acquired(0, 1, FenceScope::none);
  two.checker.copy_starts(9, {0, 1, 0, true}, "the copy");
  two.checker.copy_reads(9, {{kData + 100}, 28});
  CHECK(two.found.empty());
  two.checker.copy_reads(9, {{kData + 100}, 29});
  CHECK(two.found == std::set<Found>{{"kernel 0", "the copy", MissingSync::order}});
}

TEST_CASE("the oldest line is forgotten for one more, and addresses of subcontexts are their own", "[arch][PKT-14]") {
  Two two(2);
  two.begin(0, false, FenceScope::none);
  two.begin(1, false, FenceScope::none);
  for (std::uint64_t line = 0; line < 3; ++line) {
    two.checker.writes(1, {kData + 128 * line}, LineBytes::range(0, 4), false, kNobody);
  }
  two.read(1);
  CHECK(two.found.empty());
  CHECK(two.stats.value("gpu0.check.forgotten") == 1);
  two.checker.reads(2, {kData + 256}, LineBytes::range(0, 4), kNobody);
  CHECK(two.found.size() == 1);
  CHECK(two.stats.value("gpu0.check.races") == 1);

  for (const bool translated : {false, true}) {
    Checked other(4, translated);
    other.checker.writes(1, {kData, 3}, LineBytes::range(0, 4), false, kNobody);
    other.checker.writes(2, {kData + 128, 4}, LineBytes::range(0, 4), false, kNobody);  // it has started
    other.checker.writes(1, {kData, 3}, LineBytes::range(0, 4), false, kNobody);
    other.checker.reads(2, {kData, 4}, LineBytes::range(0, 4), kNobody);
    CHECK(other.found.size() == (translated ? 0 : 1));
  }
}

namespace {

// A machine that does at random what it may do, with a node for everything that happens.
class World {
 public:
  // `careful`: all fences and barrier bits are there, and each queue has its own bytes.
  World(std::uint64_t seed, bool careful) : random_(seed), careful_(careful) {
    for (std::uint32_t q = 0; q < kQueues; ++q) {
      checked.checker.order().opened(q, first_of(q));
      make_packets(q);
    }
  }

  void run() {
    for (int step = 0; step < 400 && !over(); ++step) act();
  }

  Checked checked;
  std::set<Found> expected;
  std::uint64_t reads = 0;

 private:
  static constexpr std::uint32_t kQueues = 3;
  static constexpr std::uint32_t kSignals = 3;
  static constexpr std::uint32_t kBytes = 5;
  static constexpr std::uint64_t kOther = 1000;  // operations of streams
  enum class Type { kernels, barrier, agent };
  enum class State { made, published, begun, running, done };
  struct Kernel {
    FenceScope acquire = FenceScope::none;
    FenceScope release = FenceScope::none;
    std::uint64_t signal = 0;
    std::uint64_t operation = 0;
    bool acquired = false;
    bool started = false;
    bool ended = false;
    std::size_t start_node = 0;
  };
  struct Packet {
    Type type = Type::kernels;
    State state = State::made;
    bool barrier = false;
    std::vector<Kernel> kernels;  // one at least, for the fences and the signal
    std::set<std::uint32_t> waits;
    std::size_t node = 0;  // the last of its own that others can be behind
    std::vector<std::size_t> own;
    bool given = false;
    bool returned = false;
  };
  struct Fence {
    std::size_t node = 0;
    FenceScope scope = FenceScope::none;
    std::optional<std::uint64_t> only = {};  // the writer for whom it counts; none: all
  };
  struct Task {
    std::string name;
    std::size_t start = 0;
    std::size_t last = 0;  // node that its next one is behind
    bool alive = true;
    bool host = false;
    bool other = false;
    std::size_t acquired = 0;  // node; 0: never
    std::uint32_t queue = 0;
  };
  struct Byte {
    std::uint64_t writer = ~std::uint64_t{0};
    std::size_t node = 0;
    bool strong = false;
  };

  static std::uint64_t first_of(std::uint32_t queue) { return queue * 7; }
  FenceScope scope() { return careful_ ? FenceScope::system : static_cast<FenceScope>(random_.below(3)); }

  void make_packets(std::uint32_t q) {
    const std::uint64_t count = 2 + random_.below(4);
    for (std::uint64_t i = 0; i < count; ++i) {
      Packet packet;
      const std::uint64_t kind = random_.below(10);
      packet.type = kind < 7 ? Type::kernels : kind < 9 ? Type::barrier : Type::agent;
      packet.barrier = careful_ || random_.below(2) == 0;
      const std::uint64_t kernels = packet.type == Type::kernels && random_.below(3) == 0 ? 2 + random_.below(2) : 1;
      for (std::uint64_t k = 0; k < kernels; ++k) {
        Kernel kernel;
        kernel.acquire = k == 0 || careful_ || random_.below(2) == 0 ? scope() : FenceScope::none;
        const bool last = k + 1 == kernels;
        kernel.release = last || careful_ || random_.below(2) == 0 ? scope() : FenceScope::none;
        if (random_.below(2) == 0) kernel.signal = 64 * (1 + random_.below(kSignals));
        packet.kernels.push_back(kernel);
      }
      if (packet.type == Type::barrier) {
        for (std::uint64_t n = random_.below(3); n > 0; --n) {
          packet.waits.insert(static_cast<std::uint32_t>(1 + random_.below(kSignals)));
        }
      }
      queues_[q].push_back(packet);
    }
  }

  std::size_t node(const std::vector<std::size_t>& from) {
    edges_.push_back(from);
    return edges_.size() - 1;
  }
  // There is a way from one to the other; a node reaches itself.
  bool reaches(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> todo{to};
    std::set<std::size_t> seen;
    while (!todo.empty()) {
      const std::size_t at = todo.back();
      todo.pop_back();
      if (at == from) return true;
      if (at < from || !seen.insert(at).second) continue;
      todo.insert(todo.end(), edges_[at].begin(), edges_[at].end());
    }
    return false;
  }
  // Whatever the host does is behind all that it has done, and all that it may have been told.
  std::size_t host_node() {
    std::vector<std::size_t> from = told_;
    from.push_back(host_);
    return host_ = node(from);
  }

  bool over() const {
    for (const auto& queue : queues_) {
      for (const Packet& packet : queue) {
        if (packet.state != State::done) return false;
      }
    }
    return true;
  }

  void act() {
    const auto q = static_cast<std::uint32_t>(random_.below(kQueues));
    switch (random_.below(8)) {
      case 0:
        return publish(q);
      case 1:
        return begin(q);
      case 2:
      case 3:
        return go_on(q);
      case 4:
        return other();
      default:
        return access();
    }
  }

  void publish(std::uint32_t q) {
    for (std::size_t i = 0; i < queues_[q].size(); ++i) {
      Packet& packet = queues_[q][i];
      if (packet.state != State::made) continue;
      packet.state = State::published;
      packet.node = host_node();
      packet.own = {packet.node};
      checked.checker.order().published(q, first_of(q) + i);
      return;
    }
  }

  bool has_launched(const Packet& packet) const {
    if (packet.state == State::done) return true;
    if (packet.type == Type::barrier) return false;
    return packet.state == State::running && packet.kernels.back().started;
  }

  void begin(std::uint32_t q) {
    std::vector<Packet>& queue = queues_[q];
    for (std::size_t i = 0; i < queue.size(); ++i) {
      Packet& packet = queue[i];
      if (packet.state == State::done || packet.state == State::running || packet.state == State::begun) continue;
      if (packet.state != State::published) return;
      std::vector<std::size_t> from{packet.node};
      for (std::size_t before = 0; before < i; ++before) {
        if (!has_launched(queue[before])) return;
        if (packet.barrier && queue[before].state != State::done) return;
        from.push_back(queue[before].kernels.back().start_node);
        if (packet.barrier || queue[before].type == Type::barrier) from.push_back(queue[before].node);
      }
      std::vector<std::uint64_t> zeros;
      for (const std::uint32_t signal : packet.waits) {
        zeros.push_back(64 * signal | random_.below(2));
        const std::vector<std::size_t>& parts = signalled_[64 * signal];
        if (parts.empty()) from.push_back(host_node());  // then the host has done it
        from.insert(from.end(), parts.begin(), parts.end());
      }
      packet.state = State::begun;
      packet.node = node(from);
      checked.checker.order().begins(q, first_of(q) + i, packet.barrier, zeros);
      return;
    }
  }

  void acquire(std::uint32_t q, std::size_t i, std::size_t k) {
    Packet& packet = queues_[q][i];
    Kernel& kernel = packet.kernels[k];
    packet.node = node({packet.node});
    if (kernel.acquire != FenceScope::none) acquires_.push_back({packet.node, kernel.acquire});
    kernel.acquired = true;
    checked.checker.order().acquired(q, first_of(q) + i, kernel.acquire);
  }

  void go_on(std::uint32_t q) {
    std::vector<Packet>& queue = queues_[q];
    const std::size_t i = random_.below(queue.size());
    Packet& packet = queue[i];
    const std::uint64_t index = first_of(q) + i;
    if (packet.state == State::begun) {
      acquire(q, i, 0);
      packet.state = State::running;
      return;
    }
    if (packet.state != State::running) return;
    if (packet.type == Type::agent && !packet.given) {
      packet.given = true;
      told_.push_back(packet.node);
      packet.kernels[0].started = true;
      packet.kernels[0].start_node = packet.node;
      checked.checker.order().host_has(q, index);
      return;
    }
    if (packet.type == Type::agent && !packet.returned) {
      packet.returned = true;
      packet.node = node({packet.node, host_node()});
      checked.checker.order().host_done(q, index);
      return;
    }
    if (packet.type != Type::kernels) return finish(q, i, 0, packet.node);
    for (std::size_t k = 0; k < packet.kernels.size(); ++k) {
      Kernel& kernel = packet.kernels[k];
      if (kernel.ended) continue;
      if (kernel.started) {
        Task& task = tasks_[kernel.operation];
        if (random_.below(3) != 0) return;
        task.alive = false;
        kernel.ended = true;
        checked.checker.ends(kernel.operation);
        return finish(q, i, k, task.last);
      }
      if (k > 0 && !kernel.acquired) checked.checker.order().follows(q, index);
      if (k > 0) acquire(q, i, k);
      kernel.started = true;
      kernel.operation = next_++;
      kernel.start_node = packet.node = node({packet.node});
      const std::string name = fmt::format("q{} p{} k{}", q, i, k);
      tasks_[kernel.operation] = {name, packet.node, packet.node, true, false, false, 0, q};
      checked.checker.kernel_starts(kernel.operation, {q, index, static_cast<std::uint32_t>(k)}, name);
      return;
    }
  }

  // Of a kernel of the packet, or of the whole.
  void finish(std::uint32_t q, std::size_t i, std::size_t k, std::size_t behind) {
    Packet& packet = queues_[q][i];
    const Kernel& kernel = packet.kernels[k];
    const bool whole = k + 1 == packet.kernels.size();
    packet.node = node({packet.node, behind});
    if (kernel.release != FenceScope::none) releases_.push_back({packet.node, kernel.release});
    if (kernel.signal != 0) {
      signalled_[kernel.signal].push_back(packet.node);
      told_.push_back(packet.node);
    }
    const std::uint64_t index = first_of(q) + i;
    if (packet.type != Type::kernels) packet.kernels[0].start_node = packet.node;
    checked.checker.order().finishes({q, index, whole ? 0 : static_cast<std::uint32_t>(k), whole}, kernel.release,
                                     kernel.signal, packet.type == Type::barrier);
    if (!whole) return;
    packet.state = State::done;
    checked.checker.order().gone(q, index);
  }

  // A kernel of a stream begins or ends.
  void other() {
    const std::uint64_t operation = kOther + random_.below(2) + 10 * generation_;
    const auto found = tasks_.find(operation);
    if (found == tasks_.end()) {
      const std::size_t start = node({});
      tasks_[operation] = {fmt::format("o{}", operation), start, start, true, false, true, start, 0};
      checked.checker.program_acquires(operation, [operation] { return fmt::format("o{}", operation); });
    } else if (found->second.alive) {
      found->second.alive = false;
      const std::size_t end = node({found->second.last});
      told_.push_back(end);
      releases_.push_back({end, FenceScope::system, operation});
      checked.checker.ends(operation);
      ++generation_;
    }
  }

  void access() {
    std::vector<std::uint64_t> running{~std::uint64_t{0}};
    for (const auto& [operation, task] : tasks_) {
      if (task.alive) running.push_back(operation);
    }
    const std::uint64_t operation = running[random_.below(running.size())];
    const bool of_packet = operation < kOther;
    if (careful_ && !of_packet) return;
    const std::size_t byte = careful_ ? tasks_[operation].queue : random_.below(kBytes);
    const std::uint64_t at = kData + 126 + byte;  // of two lines
    const RaceLine line{at & ~std::uint64_t{127}};
    const LineBytes bytes = LineBytes::range(static_cast<std::uint32_t>(at % 128), 1);
    if (operation == ~std::uint64_t{0}) return host_access(byte, at);
    Task& task = tasks_[operation];
    switch (random_.below(8)) {
      case 0:  // its program synchronises with whoever else does
        if (random_.below(2) == 0) {
          task.acquired = task.last = node({task.last});
          checked.checker.program_acquires(operation, kNobody);
        } else {
          task.last = node({task.last});
          told_.push_back(task.last);
          releases_.push_back({task.last, FenceScope::system, operation});
          checked.checker.program_releases(operation, kNobody);
        }
        return;
      case 1:
      case 2:
      case 3: {
        const bool strong = random_.below(5) == 0;
        task.last = node({task.last});
        bytes_[byte] = {operation, task.last, strong};
        checked.checker.writes(operation, line, bytes, strong, kNobody);
        return;
      }
      default:
        judge(byte, operation, task.last, task);
        checked.checker.reads(operation, line, bytes, kNobody);
    }
  }

  void host_access(std::size_t byte, std::uint64_t at) {
    const std::size_t here = host_node();
    if (random_.below(2) == 0) {
      bytes_[byte] = {~std::uint64_t{0}, here, false};
      releases_.push_back({here, FenceScope::system, ~std::uint64_t{0}});
      checked.checker.host_writes(at, 1);
    } else {
      Task host;
      host.name = "the host";
      host.host = true;
      judge(byte, ~std::uint64_t{0}, here, host);
      checked.checker.host_reads(at, 1);
    }
  }

  void judge(std::size_t byte, std::uint64_t reader, std::size_t here, const Task& who) {
    const Byte& last = bytes_[byte];
    if (last.node == 0 || last.writer == reader) return;
    ++reads;
    if (who.acquired >= last.node && who.acquired != 0) return;
    if (who.host && last.strong) return;
    const std::string writer = last.writer == ~std::uint64_t{0} ? "the host" : tasks_.at(last.writer).name;
    const auto lack = [&](MissingSync missing) { expected.insert({writer, who.name, missing}); };
    if (who.other || !reaches(last.node, here)) return lack(MissingSync::order);
    const bool system = who.host || writer == "the host";
    const auto wide = [&](const Fence& fence) { return !system || fence.scope == FenceScope::system; };
    const auto packet_of = [](const std::string& name) { return name.substr(0, name.find(" k")); };
    if (writer != "the host" && !who.host && packet_of(writer) == packet_of(who.name)) {
      // A kernel follows another of its packet when that has completed: an acquire is enough.
      const bool any = std::any_of(acquires_.begin(), acquires_.end(), [&](const Fence& acquire) {
        return reaches(last.node, acquire.node) && reaches(acquire.node, who.start);
      });
      if (!any) lack(MissingSync::acquire);
      return;
    }
    bool released = false, narrowly = false, acquired = false, acquired_narrowly = false;
    for (const Fence& release : releases_) {
      if (release.only.value_or(last.writer) != last.writer) continue;
      if (!reaches(last.node, release.node) || !reaches(release.node, here)) continue;
      narrowly = true;
      released = released || wide(release);
      for (const Fence& acquire : acquires_) {
        if (!reaches(release.node, acquire.node) || !reaches(acquire.node, who.host ? here : who.start)) continue;
        acquired_narrowly = true;
        acquired = acquired || (wide(release) && wide(acquire));
      }
    }
    if (!released) return lack(narrowly ? MissingSync::wider_release : MissingSync::release);
    if (who.host || acquired) return;
    lack(acquired_narrowly && system ? MissingSync::wider_acquire : MissingSync::acquire);
  }

  Random random_;
  const bool careful_;
  std::array<std::vector<Packet>, kQueues> queues_;
  std::vector<std::vector<std::size_t>> edges_{{}};  // node 0 is before everything
  std::size_t host_ = 0;
  std::vector<std::size_t> told_;
  std::map<std::uint64_t, std::vector<std::size_t>> signalled_;
  std::vector<Fence> releases_;
  std::vector<Fence> acquires_;
  std::map<std::uint64_t, Task> tasks_;
  std::array<Byte, kBytes> bytes_;
  std::uint64_t next_ = 1;
  std::uint64_t generation_ = 0;
};

}  // namespace

TEST_CASE("the checker finds what a graph of all that happens lacks", "[arch][random][PKT-14]") {
  std::uint64_t reads = 0;
  std::map<MissingSync, std::uint64_t> kinds;
  std::uint64_t clean = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    const bool careful = seed % 4 == 0;
    World world(seed, careful);
    world.run();
    if (careful) REQUIRE(world.expected.empty());
    reads += world.reads;
    clean += world.expected.empty() ? 1 : 0;
    for (const auto& [writer, reader, missing] : world.expected) ++kinds[missing];
    if (world.checked.found == world.expected) continue;
    std::string text = fmt::format("seed {}\n", seed);
    for (const auto& [writer, reader, missing] : world.expected) {
      if (world.checked.found.count({writer, reader, missing}) == 0) {
        text += fmt::format("not found: {} -> {}, {}\n", writer, reader, static_cast<int>(missing));
      }
    }
    for (const auto& [writer, reader, missing] : world.checked.found) {
      if (world.expected.count({writer, reader, missing}) == 0) {
        text += fmt::format("false: {} -> {}, {}\n", writer, reader, static_cast<int>(missing));
      }
    }
    FAIL(text);
  }
  CHECK(reads > 10'000);
  CHECK(clean >= 1500);
  for (const MissingSync missing : {MissingSync::order, MissingSync::release, MissingSync::wider_release,
                                    MissingSync::acquire, MissingSync::wider_acquire}) {
    CHECK(kinds[missing] > 50);
  }
}

}  // namespace arch_race_checker_test
