// Queues against what hsa.h and the HSA system architecture say of them (PKT-14), with random packets, producers and
// commands of the host. The rules below are written from there, each with its number; none looks at the processor's
// inside.
//
//  1  Packets launch in the order of their ids, each once, and only once they are published.
//  2  A packet with the barrier bit launches when all before it in its queue are complete.
//  3  Nothing behind a barrier packet launches before that is complete.
//  4  A barrier-AND completes well when all its signals have been seen at 0, a barrier-OR when one has. A null handle
//  is
//     a satisfied dependency of an AND, and one that is not satisfied of an OR. A negative signal ends either with an
//     error.
//  5  A completion signal is decremented once its packet is complete, or gets a negative status.
//  6  A doorbell may be rung with any value: whoever rings after publishing is heard.
//  7  A packet that breaks a rule of its format or fields stops its queue with one of the status codes that it
//  deserves.
//     Nothing of it, and nothing behind it, launches.
//  8  Once a queue is inactivated nothing more of it launches; what had launched completes, or is aborted and leaves
//  its
//     signal alone. Other queues are not concerned.
//  9  The read index passes packets that have launched, and their slots are INVALID then.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "packet/packet_bench.h"
#include "support/random.h"

namespace packet_aql_conformance_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::HsaStatus;
using heddle::arch::PacketType;
using heddle::packet::PacketParams;
using heddle::packet::PacketRecord;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kDeviceSignals = 0x8'0000;
constexpr std::uint64_t kHostSignals = arch::kHostWindow + 0x8'0000;
constexpr Cycle kNever = ~Cycle{0};

// A signal as all agents see it: it is written once.
struct Signal {
  std::uint64_t handle = 0;
  std::int64_t value = 1;
  Cycle when = kNever;   // it was written
  bool outside = false;  // by nobody's completion: the test writes it
  bool waited = false;
  std::uint32_t queue = 0;  // of its packet
};

struct Sent {
  PacketType type = PacketType::invalid;
  bool barrier = false;
  std::set<HsaStatus> blame;  // not empty: a bad packet
  bool tells = true;          // its signal can be told from its bytes
  bool faults = false;        // its kernel does
  std::size_t signal = 0;     // its completion signal
  std::vector<std::size_t> waits_for;
  arch::PacketBytes bytes{};
  std::optional<HsaStatus> ended;  // by the host: an agent packet
};

struct Queue {
  std::unique_ptr<Producer> ring;
  std::vector<Sent> sent;               // by id
  std::vector<std::uint64_t> reserved;  // and not published
  bool inactivated = false;
  Cycle inactive_at = kNever;
};

class World {
 public:
  World(PacketBench& bench, Random& random) : bench_(bench), random_(random) {
    bench.memory.delay = [this] {
      return Cycle{random_.chance(10) ? random_.between(1, 700) : random_.between(1, 50)};
    };
    bench.memory.full = [this] { return random_.chance(10); };
    bench.tasks.duration = [this](const FakeTasks::Kernel&) { return Cycle{random_.between(1, 1200)}; };
    bench.tasks.dies = [this](const FakeTasks::Kernel&) {
      return random_.chance(20) ? std::optional<Cycle>() : std::optional<Cycle>(random_.between(1, 300));
    };
    bench.tasks.status = [](const FakeTasks::Kernel& kernel) {
      return kernel.label.find("faulty") == 0 ? protocol::DoneStatus::faulted : protocol::DoneStatus::ok;
    };
    bench.memory.watch = [this](std::uint64_t address, bool write) {
      const auto found = write ? by_address_.find(address) : by_address_.end();
      if (found != by_address_.end()) note(found->second);
    };
    bench.host.react = [this](const protocol::QueueEventPacket& event) {
      if (event.event == QueueEvent::agent) agents_.push_back({event.queue, event.index});
      if (event.event == QueueEvent::state && event.state == QueueState::inactive) {
        queues_[event.queue].inactive_at = bench_.domain.now();
      }
    };
    good_ = bench.object("good", 0);
    faulty_ = bench.object("faulty", 1);
    arch::KernelObject large;
    large.name = "large";
    large.duration = {10, 10};
    large.static_shared = 4096;
    large_ = bench.object_of(large, 2);
    for (std::uint32_t i = random.between(1, 4); i > 0; --i) {
      Queue queue;
      const std::uint64_t first = random.chance(50) ? 0 : random.below(1000);
      queue.ring = std::make_unique<Producer>(bench, static_cast<std::uint32_t>(queues_.size()), 1U << random.below(6),
                                              first, 0, random.chance(50));
      queues_.push_back(std::move(queue));
    }
  }

  void play(std::uint32_t packets) {
    std::uint32_t left = packets;
    for (std::uint32_t step = 0; left > 0 && step < 200'000; ++step) {
      Queue& queue = queues_[random_.below(queues_.size())];
      const std::uint32_t what = random_.below(100);
      if (what < 40) {
        if (reserve(queue)) --left;
      } else if (what < 75) {
        publish(queue);
      } else if (what < 78) {
        write_outside();
      } else if (what < 80) {
        queue.ring->ring(random_.next() >> random_.below(64));
      } else {
        go(random_.between(1, 300));
      }
      if (random_.one_in(8 * packets) && !queue.inactivated) inactivate(queue);
      if (all_stopped()) break;
    }
    end();
  }

  std::uint64_t check() {
    for (std::uint32_t number = 0; number < queues_.size(); ++number) check(number);
    REQUIRE(bench_.processor.open() == 0);
    REQUIRE(bench_.processor.quiescent());
    REQUIRE(bench_.codes.lent() == 0);
    return judged_;
  }

 private:
  void note(std::size_t number) {
    Signal& signal = signals_[number];
    const std::int64_t value = bench_.value(signal.handle);
    if (value == signal.value) return;
    REQUIRE(signal.when == kNever);  // rule 5: once
    signal.value = value;
    signal.when = bench_.domain.now();
  }

  std::size_t new_signal() {
    Signal signal;
    const std::uint64_t at = (random_.chance(50) ? kDeviceSignals : kHostSignals) + 64 * signals_.size();
    bench_.memory.put(at, 1);
    bench_.memory.put(at + 8, 0);
    signal.handle = at | (random_.chance(10) ? 1 : 0) | (random_.chance(30) ? 2 : 0);
    by_address_[at] = signals_.size();
    signals_.push_back(signal);
    return signals_.size() - 1;
  }

  // A producer takes the next id, if the ring has room; what lies in the slot is not published.
  bool reserve(Queue& queue) {
    if (queue.ring->full() || stopped(queue)) return false;
    Sent sent = make();
    signals_[sent.signal].queue = queue.ring->number();
    queue.reserved.push_back(queue.ring->prepare(sent.bytes));
    queue.sent.push_back(std::move(sent));
    return true;
  }
  void publish(Queue& queue) {
    if (queue.reserved.empty()) return;
    const std::size_t place = random_.below(queue.reserved.size());
    const std::uint64_t index = queue.reserved[place];
    queue.reserved.erase(queue.reserved.begin() + static_cast<std::ptrdiff_t>(place));
    queue.ring->publish(index);
    queue.ring->ring(random_.chance(60) ? index : random_.next() >> random_.below(64));
  }
  void write_outside() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < signals_.size(); ++i) {
      if (signals_[i].outside && signals_[i].when == kNever) open.push_back(i);
    }
    if (!open.empty()) write(open[random_.below(open.size())]);
  }
  void write(std::size_t number) {
    const std::int64_t value = random_.chance(80) ? 0 : -static_cast<std::int64_t>(random_.between(1, 0x2000));
    bench_.memory.put(arch::signal_address(signals_[number].handle), static_cast<std::uint64_t>(value));
    note(number);
  }
  void inactivate(Queue& queue) {
    queue.inactivated = true;
    queue.ring->inactivate();
  }

  bool stopped(const Queue& queue) const {
    const auto events = bench_.events(QueueEvent::state, queue.ring->number());
    return queue.inactivated || (!events.empty() && events.back().state != QueueState::active);
  }
  bool all_stopped() const {
    return std::all_of(queues_.begin(), queues_.end(), [this](const Queue& queue) { return stopped(queue); });
  }

  void go(Cycle cycles) {
    const Cycle end = bench_.domain.now() + cycles;
    while (bench_.domain.now() < end) {
      bench_.run(std::min<Cycle>(40, end - bench_.domain.now()));
      if (!agents_.empty() && random_.chance(30)) end_agent();
    }
  }
  void end_agent() {
    const std::size_t place = random_.below(agents_.size());
    const auto [queue, index] = agents_[place];
    agents_.erase(agents_.begin() + static_cast<std::ptrdiff_t>(place));
    const bool well = random_.chance(80);
    queues_[queue].ring->agent_done(index, well ? 0 : 0x1001);
    sent_of(queue, index).ended = well ? HsaStatus::success : HsaStatus::invalid_argument;
  }
  Sent& sent_of(std::uint32_t queue, std::uint64_t index) {
    return queues_[queue].sent[static_cast<std::size_t>(index - queues_[queue].ring->setup.first)];
  }

  // All that was reserved is published, all that somebody waits for is written in the end: by a runtime, where a queue
  // has stopped.
  void end() {
    for (Queue& queue : queues_) {
      while (!queue.reserved.empty()) publish(queue);
    }
    std::uint64_t progress = 0;
    std::uint32_t still = 0;  // rounds without progress
    for (std::uint32_t round = 0; round < 5000; ++round) {
      go(1000);
      still = bench_.observation.progress == progress && agents_.empty() ? still + 1 : 0;
      progress = bench_.observation.progress;
      for (std::size_t i = 0; i < signals_.size(); ++i) {
        const bool rescued = still == 5 && signals_[i].waited && stopped(queues_[signals_[i].queue]);
        if (signals_[i].when == kNever && (signals_[i].outside || rescued)) write(i);
      }
      if (agents_.empty() && bench_.processor.quiescent()) return;
    }
    FAIL("the queues never come to rest");
  }

  Sent make() {
    Sent sent;
    sent.signal = new_signal();
    sent.barrier = random_.chance(25);
    const std::uint64_t handle = signals_[sent.signal].handle;
    const std::uint32_t choice = random_.below(100);
    if (choice < 55) {
      sent.type = PacketType::kernel_dispatch;
      sent.faults = random_.one_in(300);
      sent.bytes = kernel_packet(sent.faults ? faulty_ : good_, handle, sent.barrier);
    } else if (choice < 80) {
      make_barrier(sent, handle);
    } else if (choice < 90) {
      sent.type = PacketType::agent_dispatch;
      sent.bytes = agent_packet(7, handle, sent.barrier);
    } else {
      sent.type = PacketType::vendor;
      sent.bytes = hold_packet(random_.below(1500), handle, sent.barrier);
    }
    if (random_.one_in(150)) spoil(sent, handle);
    return sent;
  }

  void make_barrier(Sent& sent, std::uint64_t handle) {
    sent.type = random_.chance(50) ? PacketType::barrier_and : PacketType::barrier_or;
    std::vector<std::uint64_t> signals(5, 0);
    for (std::uint64_t& dependency : signals) {
      if (random_.chance(50)) continue;
      std::size_t number = 0;
      if (signals_.size() < 2 || random_.chance(30)) {
        number = new_signal();
        signals_[number].outside = true;
      } else {
        // A packet that was made before: so nothing waits in a circle.
        const std::size_t recent = std::min<std::size_t>(signals_.size() - 1, 30);
        number = signals_.size() - 1 - recent + random_.below(recent);
        if (number == sent.signal) continue;
      }
      signals_[number].waited = true;
      sent.waits_for.push_back(number);
      dependency = signals_[number].handle;
    }
    if (sent.type == PacketType::barrier_or && sent.waits_for.empty()) sent.blame = {HsaStatus::invalid_argument};
    sent.bytes = barrier_packet(sent.type, signals, handle, sent.barrier);
  }

  void spoil(Sent& sent, std::uint64_t handle) {
    arch::DispatchFields fields = fields_of(good_, handle, sent.barrier);
    sent.type = PacketType::kernel_dispatch;
    sent.faults = false;
    sent.waits_for.clear();
    switch (random_.below(6)) {
      case 0:
        fields.kernarg = arch::kHostWindow + 64;
        sent.blame = {HsaStatus::invalid_argument};
        break;
      case 1:
        fields.kernel_object = large_;
        fields.group_segment = 4095;
        sent.blame = {HsaStatus::invalid_allocation};
        break;
      case 2:
        fields.grid[0] = 31;
        sent.blame = {HsaStatus::invalid_argument};
        break;
      case 3:
        fields.synch_scopes = 0x20;
        sent.blame = {HsaStatus::invalid_packet_format};
        break;
      case 4:
        fields.kernel_object = 0x7000;
        sent.blame = {HsaStatus::invalid_code_object};
        break;
      default:
        sent.blame = {HsaStatus::invalid_packet_format};
        sent.tells = false;
    }
    sent.bytes = arch::encode(arch::KernelDispatch{fields, 0, 0});
    if (!sent.tells) sent.bytes[0] = static_cast<std::uint8_t>(random_.between(8, 255));
  }

  void check(std::uint32_t number) {
    const Queue& queue = queues_[number];
    const std::uint64_t first = queue.ring->setup.first;
    const auto events = bench_.events(QueueEvent::state, number);
    const protocol::QueueEventPacket last = events.back();
    std::map<std::uint64_t, const PacketRecord*> records;
    for (const PacketRecord& record : bench_.log.done) {
      if (record.queue == number) REQUIRE(records.emplace(record.index, &record).second);
    }
    Cycle before = 0;
    Cycle all_clean = 0;
    Cycle released = 0;
    bool over = false;  // nothing behind may have launched
    std::uint64_t launched = 0;
    for (std::size_t i = 0; i < queue.sent.size(); ++i) {
      const Sent& sent = queue.sent[i];
      const Signal& signal = signals_[sent.signal];
      const auto found = records.find(first + i);
      CAPTURE(number, first + i, static_cast<int>(sent.type), signal.value);
      ++judged_;
      const bool ran = found != records.end() && sent.blame.empty();
      if (!ran) {
        over = true;
        if (!sent.blame.empty() && found != records.end()) {
          check_bad(sent, *found->second, last, first + i);
        } else {
          // Behind a packet that stopped its queue, or not launched before an inactivation.
          REQUIRE((queue.inactivated || last.state == QueueState::error));
          REQUIRE((signal.when == kNever || signal.waited));
        }
        continue;
      }
      REQUIRE_FALSE(over);  // rules 1, 7 and 8
      ++launched;
      const PacketRecord& record = *found->second;
      const auto& t = record.times;
      REQUIRE(t.dispatched >= before);  // rule 1
      before = t.dispatched;
      if (sent.barrier) REQUIRE(t.dispatched >= all_clean);  // rule 2
      REQUIRE(t.dispatched >= released);                     // rule 3
      all_clean = std::max(all_clean, t.cleaned);
      if (!sent.waits_for.empty() || sent.type == PacketType::barrier_and) released = std::max(released, t.cleaned);
      if (record.reason == arch::Reason::inactivated) {
        REQUIRE(queue.inactivated);  // rule 8
        REQUIRE((signal.when == kNever || signal.waited));
        continue;
      }
      check_end(sent, record, signal);
    }
    REQUIRE(records.size() <= queue.sent.size());
    REQUIRE(queue.ring->read_index() == first + launched);  // rule 9
    if (queue.inactivated) {
      REQUIRE((last.state == QueueState::inactive));
      for (const PacketRecord& record : bench_.log.dispatched) {
        if (record.queue == number) REQUIRE(record.times.dispatched <= queue.inactive_at);
      }
    } else {
      REQUIRE((last.state == (over                      ? QueueState::error
                              : stopped_by_fault(queue) ? QueueState::error
                                                        : QueueState::active)));
    }
  }
  static bool stopped_by_fault(const Queue& queue) {
    return std::any_of(queue.sent.begin(), queue.sent.end(), [](const Sent& sent) { return sent.faults; });
  }

  void check_bad(const Sent& sent, const PacketRecord& record, const protocol::QueueEventPacket& last,
                 std::uint64_t index) {
    REQUIRE(sent.blame.count(record.status) == 1);  // rule 7
    REQUIRE(record.reason != arch::Reason::none);
    REQUIRE(record.operation == 0);
    const Signal& signal = signals_[sent.signal];
    if (last.state == QueueState::error && last.index == index) REQUIRE(last.reason == record.reason);
    if (!signal.waited) REQUIRE(signal.value == (sent.tells ? -static_cast<std::int64_t>(record.status) : 1));
  }

  void check_end(const Sent& sent, const PacketRecord& record, const Signal& signal) {
    const Cycle ready = record.times.ready;
    std::int64_t expected = 0;
    if (sent.faults) expected = -0x1016;
    if (sent.ended && *sent.ended != HsaStatus::success) expected = -static_cast<std::int64_t>(*sent.ended);
    if (sent.type == PacketType::barrier_and || sent.type == PacketType::barrier_or) {  // rule 4
      std::size_t zeros = 0;
      std::set<std::int64_t> negative;
      for (const std::size_t number : sent.waits_for) {
        const Signal& dependency = signals_[number];
        if (dependency.when > ready) continue;
        zeros += dependency.value == 0 ? 1 : 0;
        if (dependency.value < 0) negative.insert(dependency.value);
      }
      if (record.status == HsaStatus::success) {
        REQUIRE(zeros >= (sent.type == PacketType::barrier_and ? sent.waits_for.size() : 1));
      } else {
        REQUIRE(negative.count(signal.value) == 1);
        expected = signal.value;
      }
    }
    REQUIRE((record.status == HsaStatus::success) == (expected == 0));
    REQUIRE(signal.value == expected);  // rule 5
    REQUIRE(signal.when >= record.times.ended);
    if ((signal.handle & arch::kSignalTimestamps) == 0) return;
    const std::uint64_t at = arch::signal_address(signal.handle) + arch::kSignalStampsOffset;
    REQUIRE(bench_.memory.get(at) == record.times.started);
    REQUIRE(bench_.memory.get(at + 8) == record.times.ended);
  }

  PacketBench& bench_;
  Random& random_;
  std::uint64_t good_ = 0;
  std::uint64_t faulty_ = 0;
  std::uint64_t large_ = 0;
  std::vector<Queue> queues_;
  std::vector<Signal> signals_;
  std::map<std::uint64_t, std::size_t> by_address_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> agents_;
  std::uint64_t judged_ = 0;
};

}  // namespace

// With HEDDLE_LONG_TESTS=1, a million packets.
TEST_CASE("random packets and queue operations keep the rules of AQL", "[packet][PKT-14]") {
  const std::uint64_t wanted = long_tests() ? 1'000'000 : 100'000;
  std::uint64_t judged = 0;
  std::uint64_t round = seed() == 20'240'607 ? 0 : seed();
  while (judged < wanted) {
    ++round;
    CAPTURE(round);
    Random random(round);
    PacketParams params;
    params.queues = 8;
    params.fetch_ahead = random.between(1, 12);
    params.in_flight = random.chance(30) ? random.between(1, 4) : 128;
    params.poll = random.between(20, 600);
    params.agents = random.between(1, 4);
    PacketBench bench(params, random.chance(70) ? TimingMode::at : TimingMode::lt);
    World world(bench, random);
    world.play(random.between(50, 600));
    judged += world.check();
  }
}

}  // namespace packet_aql_conformance_test
