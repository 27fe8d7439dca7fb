// Random packets of all types on several queues, with a memory that answers in any order: against the rules of order,
// through resets.
#include <map>
#include <set>
#include <tuple>

#include "packet/packet_bench.h"
#include "support/random.h"

namespace packet_processor_storm_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::PacketType;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::packet::PacketRecord;
using heddle::packet::QueueOrder;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kStormSignals = arch::kHostWindow + 0x8'0000;

struct Sent {
  PacketType type = PacketType::invalid;
  bool barrier = false;
  std::uint32_t kernels = 0;
  std::uint64_t signal = 0;
  std::vector<bool> barriers;                                      // of the kernels of a condensed packet
  std::vector<std::pair<std::uint32_t, std::uint64_t>> waits_for;  // packets: queue, index
};

PacketParams random_params(Random& random) {
  PacketParams params;
  params.queues = 8;
  params.order = random.chance(50) ? QueueOrder::round_robin : QueueOrder::priority;
  params.fetch_ahead = random.between(1, 12);
  params.in_flight = random.chance(30) ? random.between(1, 4) : 128;
  params.poll = random.between(20, 600);
  params.agents = random.between(1, 4);
  params.table = random.chance(50) ? TablePlace::scratch : TablePlace::memory;
  params.condensed = random.chance(50) ? CondensedOrder::in_order : CondensedOrder::overlap;
  return params;
}

class Storm {
 public:
  Storm(PacketBench& bench, Random& random, const PacketParams& params)
      : bench_(bench), random_(random), params_(params) {
    bench.memory.delay = [this] {
      return Cycle{random_.chance(10) ? random_.between(1, 900) : random_.between(1, 60)};
    };
    bench.memory.full = [this] { return random_.chance(15); };
    bench.tasks.duration = [this](const FakeTasks::Kernel&) { return Cycle{random_.between(1, 1500)}; };
    bench.copies.duration = [this] { return Cycle{random_.between(1, 1500)}; };
    bench.host.react = [this](const protocol::QueueEventPacket& event) {
      if (event.event == QueueEvent::agent)
        agents_.push_back({event.queue, event.index, bench_.domain.now() + random_.between(1, 900)});
    };
    if (program_ == 0) program_ = bench.codes.add(empty_program(), arch::KernelShape{});
    for (std::uint32_t i = 0; i < 4; ++i) {
      arch::KernelObject object;
      object.name = "kernel " + std::to_string(i);
      object.program = i % 2 == 0 ? program_ : 0;
      objects_.push_back(bench.object_of(object, i));
    }
    const std::uint32_t queues = random.between(1, 6);
    for (std::uint32_t i = 0; i < queues; ++i) {
      const std::uint64_t first = random.chance(50) ? 0 : random.below(1000);
      queues_.push_back(std::make_unique<Producer>(bench, i, 1U << random.between(1, 5), first,
                                                   static_cast<std::int32_t>(random.below(3)), random.chance(50)));
      sent_.emplace_back();
      valid_.emplace_back();
    }
  }

  // So many packets of all queues.
  void feed(std::uint32_t packets) {
    for (std::uint32_t sent = 0; sent < packets;) {
      const std::uint32_t number = random_.below(queues_.size());
      Producer& queue = *queues_[number];
      if (!queue.full()) {
        const std::uint64_t index = queue.write(make(number));
        if (random_.chance(60)) ring(queue, index);
        ++sent;
      } else {
        ring(queue, queue.next() - 1);
        go(random_.between(10, 400));
      }
      if (random_.chance(20)) go(random_.between(1, 300));
    }
  }
  bool finish() {
    for (auto& queue : queues_) {
      if (queue->next() > queue->setup.first) ring(*queue, queue->next() - 1);
    }
    for (std::uint32_t i = 0; i < 20'000; ++i) {
      go(500);
      if (agents_.empty() && bench_.processor.quiescent() && bench_.memory.open() == 0) return true;
    }
    return false;
  }

  void check() {
    check_counts();
    for (std::uint32_t number = 0; number < queues_.size(); ++number) check_order(number);
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;

  // Any value will do (PKT-14).
  void ring(Producer& queue, std::uint64_t index) {
    const std::uint32_t kind = random_.below(10);
    queue.ring(kind < 6 ? index : kind < 8 ? index - random_.below(10) : random_.next() >> random_.below(64));
  }
  void go(Cycle cycles) {
    const Cycle end = bench_.domain.now() + cycles;
    while (bench_.domain.now() < end) {
      bench_.run(std::min<Cycle>(50, end - bench_.domain.now()));
      for (std::size_t i = agents_.size(); i-- > 0;) {
        if (agents_[i].when > bench_.domain.now()) continue;
        queues_[agents_[i].queue]->agent_done(agents_[i].index);
        agents_.erase(agents_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  std::uint64_t new_signal() {
    const std::uint64_t handle = kStormSignals + signals_++ * arch::kSignalAlignment;
    bench_.memory.put(handle, 1);
    bench_.memory.put(handle + 8, 0);
    return random_.chance(15) ? handle | 1 : handle;
  }
  std::uint64_t some_object() { return objects_[random_.below(objects_.size())]; }

  arch::DispatchFields fields(Sent& sent) {
    sent.signal = new_signal();
    arch::DispatchFields fields = fields_of(some_object(), sent.signal);
    sent.barrier = random_.chance(25);
    fields.synch_scopes = arch::encode(arch::SynchScopes{sent.barrier, scope(), scope()});
    return fields;
  }
  arch::FenceScope scope() { return static_cast<arch::FenceScope>(random_.below(3)); }

  arch::PacketBytes make(std::uint32_t number) {
    Sent sent;
    arch::PacketBytes bytes{};
    const std::uint32_t choice = random_.below(100);
    std::vector<std::uint8_t> entries;
    for (std::uint8_t entry = 0; entry < 8; ++entry) {
      if (valid_[number][entry]) entries.push_back(entry);
    }
    if (choice < 35 || (choice < 75 && choice >= 45 && entries.empty())) {
      sent.type = PacketType::kernel_dispatch;
      sent.kernels = 1;
      bytes = arch::encode(arch::KernelDispatch{fields(sent), 0, 0});
    } else if (choice < 45) {
      sent.type = PacketType::reference_dispatch;
      sent.kernels = 1;
      const auto entry = static_cast<std::uint16_t>(random_.below(8));
      const arch::DispatchFields made = fields(sent);
      bytes = reference_packet(entry, made);
      valid_[number][entry] = true;
      barrier_of_[{number, entry}] = sent.barrier;
    } else if (choice < 75) {
      sent.type = PacketType::condensed_dispatch;
      sent.kernels = random_.between(1, 5);
      std::vector<arch::Diff> diffs;
      for (std::uint32_t i = 0; i < sent.kernels; ++i) {
        const std::uint8_t entry = entries[random_.below(entries.size())];
        std::vector<std::pair<std::uint32_t, std::uint64_t>> values;
        sent.barriers.push_back(barrier_of_[{number, entry}]);
        if (random_.chance(20)) {
          const bool barrier = random_.chance(30);
          values.emplace_back(0, arch::encode(arch::SynchScopes{barrier, scope(), scope()}));
          sent.barriers.back() = barrier;
        }
        if (random_.chance(30)) values.emplace_back(10, some_object());
        if (i + 1 == sent.kernels) {
          sent.signal = new_signal();
          values.emplace_back(12, sent.signal);
        }
        diffs.push_back(diff_of(entry, values));
      }
      sent.barrier = sent.barriers.front();
      bytes = condensed_packet(diffs);
    } else if (choice < 87) {
      sent.type = random_.chance(50) ? PacketType::barrier_and : PacketType::barrier_or;
      sent.barrier = random_.chance(20);
      sent.signal = new_signal();
      std::vector<std::uint64_t> signals(5, 0);
      for (std::uint32_t i = 0; i < random_.below(6); ++i) {
        const std::uint32_t other = random_.below(queues_.size());
        if (sent_[other].empty()) continue;
        const std::uint64_t offset = random_.below(std::min<std::size_t>(sent_[other].size(), 10));
        const std::size_t at = sent_[other].size() - 1 - offset;
        signals[i] = sent_[other][at].signal;
        sent.waits_for.emplace_back(other, queues_[other]->setup.first + at);
        // Whoever waits for it gets it: the producer of that one may not have rung yet.
        ring(*queues_[other], queues_[other]->next() - 1);
      }
      if (sent.waits_for.empty()) sent.type = PacketType::barrier_and;  // nobody could satisfy the other
      bytes = barrier_packet(sent.type, signals, sent.signal, sent.barrier);
    } else {
      sent.barrier = random_.chance(20);
      sent.signal = new_signal();
      sent.type = choice < 92 ? PacketType::agent_dispatch : PacketType::vendor;
      arch::VendorPacket copy;
      copy.to = 0x5000;
      copy.bytes = 8;
      copy.scopes.barrier = sent.barrier;
      copy.completion_signal = sent.signal;
      if (choice < 92) {
        bytes = agent_packet(3, sent.signal, sent.barrier);
      } else {
        bytes = choice < 96 ? hold_packet(random_.below(2000), sent.signal, sent.barrier) : arch::encode(copy);
      }
    }
    sent_[number].push_back(sent);
    return bytes;
  }

  void check_counts() {
    std::set<Key> expected;
    for (std::uint32_t number = 0; number < queues_.size(); ++number) {
      const Producer& queue = *queues_[number];
      for (std::size_t i = 0; i < sent_[number].size(); ++i) {
        const Sent& sent = sent_[number][i];
        REQUIRE(bench_.value(sent.signal) == 0);  // once, and only once
        for (std::uint32_t k = 0; k < sent.kernels; ++k) expected.insert({number, queue.setup.first + i, k});
      }
      REQUIRE(queues_[number]->read_index() == queue.next());
      for (std::uint64_t slot = 0; slot < queue.setup.size; ++slot) {
        REQUIRE(bench_.memory.get(queue.slot(slot), 1) == 1);
      }
    }
    std::set<Key> launched;
    for (const PacketRecord& record : bench_.log.dispatched) {
      REQUIRE(launched.insert({record.queue, record.index, record.kernel}).second);
    }
    REQUIRE(launched == expected);
    REQUIRE(bench_.tasks.kernels.size() == expected.size());
    REQUIRE(bench_.tasks.most_running <= params_.in_flight);
    REQUIRE(bench_.codes.lent() == 0);
    REQUIRE(bench_.processor.open() == 0);
    for (const auto& kernel : bench_.tasks.kernels) {  // no label is left
      REQUIRE(bench_.observation.labels.of(kernel.packet.operation).find("queue") == std::string::npos);
    }
  }

  void check_order(std::uint32_t number) {
    const std::uint64_t first = queues_[number]->setup.first;
    Cycle all_clean = 0;
    Cycle launched = 0;
    Cycle released = 0;  // the last barrier packet is complete
    for (std::size_t i = 0; i < sent_[number].size(); ++i) {
      const Sent& sent = sent_[number][i];
      CAPTURE(number, first + i, static_cast<int>(sent.type));
      const std::uint32_t last = std::max(1U, sent.kernels) - 1;
      Cycle ended = 0;
      Cycle kernels_clean = 0;
      for (std::uint32_t k = 0; k <= last; ++k) {
        const PacketRecord* record = find(number, first + i, k);
        REQUIRE(record != nullptr);
        REQUIRE(record->status == arch::HsaStatus::success);
        const auto& t = record->times;
        REQUIRE(t.doorbell <= t.fetched);
        REQUIRE(t.fetched <= t.ready);
        REQUIRE(t.ready <= t.decoded);
        REQUIRE(t.decoded <= t.dispatched);
        REQUIRE(t.dispatched <= t.started);
        REQUIRE(t.started <= t.ended);
        REQUIRE(t.ended <= t.cleaned);
        REQUIRE(t.dispatched >= launched);  // launches are in order
        launched = t.dispatched;
        if (k == 0 && sent.barrier) REQUIRE(t.dispatched >= all_clean);
        REQUIRE(t.dispatched >= released);
        if (k > 0 && sent.barriers[k]) {
          REQUIRE(t.dispatched >= kernels_clean);
          REQUIRE(t.decoded >= kernels_clean);
        }
        kernels_clean = std::max(kernels_clean, t.cleaned);
        if (k > 0 && params_.condensed == CondensedOrder::in_order) REQUIRE(t.dispatched >= ended);
        ended = t.ended;
      }
      const PacketRecord* end = find(number, first + i, last);
      check_dependencies(sent, end->times.ready);
      if (sent.type == PacketType::barrier_and || sent.type == PacketType::barrier_or) released = end->times.cleaned;
      all_clean = std::max(all_clean, end->times.cleaned);
    }
  }

  void check_dependencies(const Sent& sent, Cycle ready) {
    if (sent.waits_for.empty()) return;
    std::size_t over = 0;
    for (const auto& [queue, index] : sent.waits_for) {
      const Sent& other = sent_[queue][static_cast<std::size_t>(index - queues_[queue]->setup.first)];
      over += find(queue, index, std::max(1U, other.kernels) - 1)->times.ended <= ready ? 1 : 0;
    }
    REQUIRE(over >= (sent.type == PacketType::barrier_and ? sent.waits_for.size() : 1));
  }

  const PacketRecord* find(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel) {
    if (found_.size() != bench_.log.done.size()) {
      found_.clear();
      for (const PacketRecord& record : bench_.log.done) found_[{record.queue, record.index, record.kernel}] = &record;
      REQUIRE(found_.size() == bench_.log.done.size());  // each is reported once
    }
    const auto at = found_.find({queue, index, kernel});
    return at == found_.end() ? nullptr : at->second;
  }

  PacketBench& bench_;
  Random& random_;
  const PacketParams params_;
  std::uint32_t program_ = 0;
  std::vector<std::uint64_t> objects_;
  std::vector<std::unique_ptr<Producer>> queues_;
  std::vector<std::vector<Sent>> sent_;
  std::vector<std::array<bool, 8>> valid_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> barrier_of_;
  struct Agent {
    std::uint32_t queue = 0;
    std::uint64_t index = 0;
    Cycle when = 0;
  };
  std::vector<Agent> agents_;
  std::uint64_t signals_ = 0;
  std::map<Key, const PacketRecord*> found_;
};

}  // namespace

TEST_CASE("storms of packets keep every rule of order", "[packet][PKT-02][PKT-04][PKT-05][PKT-07][PKT-10]") {
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const PacketParams params = random_params(random);
    PacketBench bench(params, random.chance(70) ? TimingMode::at : TimingMode::lt);
    Storm storm(bench, random, params);
    storm.feed(250);
    REQUIRE(storm.finish());
    storm.check();
  }
}

TEST_CASE("a reset in the middle of a storm leaves nothing behind", "[packet][PKT-04]") {
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    const PacketParams params = random_params(random);
    PacketBench bench(params, random.chance(70) ? TimingMode::at : TimingMode::lt);
    bench.memory.keeps = random.chance(50);
    for (std::uint32_t round = 0; round < 3; ++round) {
      {
        Storm storm(bench, random, params);
        storm.feed(random.between(5, 80));
      }
      bench.host.react = nullptr;
      bench.domain.reset();
      CHECK(bench.processor.open() == 0);
      CHECK(bench.processor.quiescent());
      CHECK(bench.codes.lent() == 0);
      CHECK(bench.waits().empty());
      bench.log.dispatched.clear();
      bench.log.done.clear();
      bench.host.events.clear();
      Storm storm(bench, random, params);
      bench.memory.answer_late();
      storm.feed(60);
      REQUIRE(storm.finish());
      storm.check();
      bench.domain.reset();
      bench.log.dispatched.clear();
      bench.log.done.clear();
    }
  }
}

}  // namespace packet_processor_storm_test
