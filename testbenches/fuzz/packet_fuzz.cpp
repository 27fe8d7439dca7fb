// Any bytes are packets and kernel objects, or none (PKT-09): an oracle that was written on its own has to agree on
// every verdict, every field and every kernel that would be launched. The bytes are taken as they are, and also choose
// packets that are right or nearly so; without libFuzzer the program tells at its end how many there were.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "packet/entry_oracle.h"
#include "packet/packet_judge.h"
#include "packet/random_packet.h"

namespace {

using namespace heddle::oracle;

constexpr int kMadePackets = 64;  // of every input

struct Tally {
  std::uint64_t packets = 0;
  std::uint64_t objects = 0;
  std::uint64_t good_objects = 0;
  std::uint64_t launches = 0;
  std::uint64_t shaped = 0;
  std::uint64_t entries = 0;
  std::uint64_t good_entries = 0;
  std::array<std::uint64_t, 8> accepted{};

  void add(const Judge& judge) {
    packets += judge.packets();
    good_objects += judge.objects();
    launches += judge.launches();
    shaped += judge.shaped();
    for (std::size_t type = 0; type < 8; ++type) accepted[type] += judge.accepted(type);
  }
  ~Tally() {
    std::uint64_t all = 0;
    for (const std::uint64_t count : accepted) all += count;
    const auto say = [](const char* what, std::uint64_t count) {
      std::printf("%s: %llu\n", what, static_cast<unsigned long long>(count));
    };
    say("packets", packets);
    say("bytes of packets and kernel objects", packets * 64 + objects * 128);
    say("accepted packets", all);
    constexpr std::array<const char*, 8> kNames{
        "  vendor",         nullptr,        "  kernel dispatch", "  barrier-AND",
        "  agent dispatch", "  barrier-OR", "  reference",       "  condensed"};
    for (std::size_t type = 0; type < 8; ++type) {
      if (kNames[type] != nullptr) say(kNames[type], accepted[type]);
    }
    say("kernels that passed", launches);
    say("kernels that passed with their object", shaped);
    say("accepted kernel objects", good_objects);
    say("table entries in memory", entries);
    say("accepted table entries", good_entries);
  }
};
Tally tally;

void demand(const char* wrong) {
  if (wrong == nullptr) return;
  std::fprintf(stderr, "model and oracle differ: %s\n", wrong);
  std::abort();
}

// The input as it is: a kernel object, then packets; what is missing is 0.
void as_it_is(Judge& judge, const std::uint8_t* data, std::size_t size) {
  const auto take = [&](auto& bytes) {
    const std::size_t count = std::min(size, bytes.size());
    std::copy(data, data + count, bytes.begin());
    data += count;
    size -= count;
  };
  ObjectImage object{};
  take(object);
  ++tally.objects;
  demand(judge.object(object));
  while (size > 0) {
    Image packet{};
    take(packet);
    demand(judge.packet(packet));
  }
}

std::uint64_t hash(const std::uint8_t* data, std::size_t size) {
  std::uint64_t value = 0xCBF2'9CE4'8422'2325U;
  for (std::size_t i = 0; i < size; ++i) value = (value ^ data[i]) * 0x100'0000'01B3U;
  return value;
}

template <class Bytes>
void sometimes_damage(Rng& rng, Bytes& bytes) {
  if (rng.percent(50)) return;
  for (std::uint64_t i = 1 + rng.below(3); i > 0; --i) damage(rng, bytes);
}

// Table entries in memory: any bytes, which a host reaches through the aperture.
class Entries {
 public:
  // `must`: they are what the packet processor has left there.
  void take(const EntryImage& entry, std::uint32_t number, bool must) {
    ++tally.entries;
    heddle::packet::StoredKernel kernel;
    const heddle::arch::HsaResult verdict = heddle::packet::decode_entry(entry, number, validator_, kernel);
    if (must && !verdict.ok()) demand("a good entry is refused");
    if (!verdict.ok() && verdict.status != heddle::arch::HsaStatus::invalid_argument) demand("status of an entry");
    if (!verdict.ok()) return;
    ++tally.good_entries;
    demand(judge_taken_entry(entry, number));
  }
  void made(Rng& rng, const Table& table) {
    const auto number = static_cast<std::uint32_t>(rng.below(table.entry.size()));
    const Entry& its = table.entry[number];
    if (!its.full) return;
    EntryImage entry = entry_of(number, its.image, its.object);
    const bool runs = heddle::oracle::number(its.object, 8, 4) == 0;  // there are no programs
    take(entry, number, runs);
    sometimes_damage(rng, entry);
    take(entry, number, false);
  }

 private:
  struct HoldsAll final : heddle::packet::FitCheck {
    std::string why_never_fits(const heddle::arch::KernelShape&) const override { return {}; }
  };
  HoldsAll fit_;
  heddle::arch::CodeStore codes_;
  heddle::arch::BroughtCode brought_{codes_, nullptr, nullptr};
  heddle::packet::KernelValidator validator_{heddle::arch::SmLimits(), brought_, fit_};
};

// Half of all tables are as the text has them.
Widths widths_of(Rng& rng) {
  Widths widths;
  if (rng.percent(50)) return widths;
  widths.reference = static_cast<std::uint32_t>(1 + rng.below(8));
  widths.vector = static_cast<std::uint32_t>(rng.percent(50) ? 16 - widths.reference : 1 + rng.below(24));
  widths.entries = static_cast<std::uint32_t>(1 + rng.below(std::min(32U, 1U << widths.reference)));
  return widths;
}

Image stored_packet(Rng& rng, const Table& table, const Widths& widths) {
  return random_stored(rng, table, widths, [&rng](std::size_t bit) -> std::uint64_t {
    constexpr std::array<std::uint64_t, 13> kMost{0, 1024, 3, 2, 1000, 4, 4, 256, 200'000, 600'000, 4, 0, 0};
    if (bit == 0) return random_scopes(rng);
    if (bit == 12) return random_signal(rng);
    if (bit == 11) return rng.next() / 32 * 16;
    return rng.percent(3) ? rng.next() & 0xFFFF : rng.below(kMost[bit]) + (bit < 7 ? 1 : 0);
  });
}

void made(Judge& judge, const Widths& widths, Of of, Rng& rng) {
  Entries entries;
  for (int i = 0; i < kMadePackets; ++i) {
    if (rng.percent(2)) judge.clear_table();
    if (rng.percent(10)) {
      ObjectImage object = random_object(rng);
      sometimes_damage(rng, object);
      ++tally.objects;
      demand(judge.object(object));
    }
    entries.made(rng, judge.table());
    const bool stored = of == Of::stored && rng.percent(40);
    Image packet = stored ? stored_packet(rng, judge.table(), widths) : random_packet(rng, judge.table(), widths);
    sometimes_damage(rng, packet);
    demand(judge.packet(packet));
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Rng rng(hash(data, size));
  const Widths widths = widths_of(rng);
  const Of of = rng.percent(60) ? Of::packet : Of::stored;
  Judge judge({}, widths, of);
  EntryImage entry{};
  std::copy_n(data, std::min(size, entry.size()), entry.begin());
  Entries().take(entry, static_cast<std::uint32_t>(rng.below(32)), false);
  as_it_is(judge, data, size);
  made(judge, widths, of, rng);
  tally.add(judge);
  return 0;
}
