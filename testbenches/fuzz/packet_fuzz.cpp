// Any bytes are packets and kernel objects, or none (PKT-09): an oracle that was written on its own has to agree on
// every verdict, every field and every kernel that would be launched. The bytes are taken as they are, and also choose
// packets that are right or nearly so; without libFuzzer the program tells at its end how many there were.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

void made(Judge& judge, const Widths& widths, std::uint64_t seed) {
  Rng rng(seed);
  for (int i = 0; i < kMadePackets; ++i) {
    if (rng.percent(2)) judge.clear_table();
    if (rng.percent(10)) {
      ObjectImage object = random_object(rng);
      sometimes_damage(rng, object);
      ++tally.objects;
      demand(judge.object(object));
    }
    Image packet = random_packet(rng, judge.table(), widths);
    sometimes_damage(rng, packet);
    demand(judge.packet(packet));
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Three tables of five are as the text has them; the others have other numbers of entries and other widths.
  constexpr std::array<Widths, 5> kWidths{{{}, {}, {4, 12, 16}, {}, {5, 13, 32}}};
  const std::uint64_t seed = hash(data, size);
  const Widths& widths = kWidths.at(seed % kWidths.size());
  Judge judge({}, widths);
  as_it_is(judge, data, size);
  made(judge, widths, seed);
  tally.add(judge);
  return 0;
}
