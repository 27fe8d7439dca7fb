// Fences of packets on the whole machine (PKT-14): what a kernel sees without them, and what the checker of races says.
// Memory of the machine's own, and memory behind the L2 that others write and read as well.
#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "arch/race_checker.h"
#include "common/memory_socket.h"
#include "memory/plain_memory.h"
#include "support/packet_programs.h"
#include "support/random.h"

namespace system_fence_test {

using namespace heddle;
using namespace heddle::test;
using arch::MissingSync;
using gpu::DeviceMemory;

using Machine = PacketLab::Machine;
using Found = std::set<std::string>;  // "writer > reader: what is missing"

namespace {

std::string race(const std::string& writer, const std::string& reader, MissingSync missing) {
  constexpr std::array<const char*, 5> kNames{"order", "release", "wider release", "acquire", "wider acquire"};
  return fmt::format("{} > {}: {}", writer, reader, kNames[static_cast<std::size_t>(missing)]);
}

constexpr std::uint32_t kWords = 32;
constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;

// Races are what the tests are about.
struct Quiet {
  sc_core::sc_actions before =
      sc_core::sc_report_handler::set_actions("/heddle/gpu/race", sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);
  ~Quiet() { sc_core::sc_report_handler::set_actions("/heddle/gpu/race", sc_core::SC_WARNING, before); }
};

struct Fences {
  std::uint8_t acquire = HEDDLE_FENCE_NONE;
  std::uint8_t release = HEDDLE_FENCE_NONE;
  bool barrier = true;
};

constexpr Fences kRelease{HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, true};
constexpr Fences kAgent{HEDDLE_FENCE_AGENT, HEDDLE_FENCE_AGENT, true};
constexpr Fences kSystem{HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM, true};

// A machine whose kernels read and write 32 words each.
class FenceLab {
 public:
  FenceLab(const std::vector<std::string>& sets, DeviceMemory kind = DeviceMemory::own)
      : lab(small(with_checker(sets)), kind) {
    if (kind == DeviceMemory::attached) {
      const std::uint32_t slices = m().gpu.params().l2.slices;
      memory = std::make_unique<PlainMemory>("foreign", kBytes, sc_core::sc_time(200, sc_core::SC_NS), slices);
      for (std::uint32_t s = 0; s < slices; ++s) m().gpu.memory_out(s).bind(memory->socket(s));
    }
    lab.begin();
    ctas = m().gpu.topology().sms() * 2;
    queue = lab.open_queue(0, 0, 64, true);
  }
  Machine& m() { return lab[0]; }

  // Every CTA copies the words, after so many instructions, to a place of its own: with two for each SM all SMs do.
  std::uint64_t reader(std::uint64_t words, std::uint64_t out, std::uint32_t delay = 0) {
    auto p = std::make_shared<ListProgram>(4);
    if (delay > 0) p->compute(arch::Unit::int32, delay);
    p->load({}, 0, [words](const Warp&, std::uint32_t lane) { return words + 4 * lane; });
    p->store(
        {}, [](const Warp& w, std::uint32_t lane) { return w.reg(0, lane); },
        [out](const Warp& w, std::uint32_t lane) { return out + 128 * w.place.cta + 4 * lane; }, {{0, 1}});
    p->exit();
    return lab.program_object(0, p, name("reader"));
  }
  // CTA `cta` writes value + lane to the words.
  std::uint64_t writer(std::uint64_t words, std::uint32_t value, std::uint32_t cta, std::uint32_t delay = 0) {
    auto p = std::make_shared<ListProgram>(4);
    if (delay > 0) p->compute(arch::Unit::int32, delay);
    ListProgram::Access one;
    one.lanes = [cta](const Warp& w) { return w.place.cta == cta ? ~arch::LaneMask{0} : arch::LaneMask{0}; };
    p->store(
        one, [value](const Warp&, std::uint32_t lane) { return value + lane; },
        [words](const Warp&, std::uint32_t lane) { return words + 4 * lane; });
    p->exit();
    return lab.program_object(0, p, name("writer"));
  }
  heddle_packet packet(std::uint64_t object, const Fences& fences, std::uint64_t signal = 0) {
    heddle_dispatch d = PacketLab::dispatch(object, ctas * 32, 32, signal);
    d.scopes = HEDDLE_SCOPES(fences.barrier ? 1 : 0, fences.acquire, fences.release);
    return kernel(d);
  }
  // Runs them; the last has a signal, and is waited for.
  void run(std::vector<std::pair<std::uint64_t, Fences>> kernels) {
    const std::uint64_t signal = lab.new_signal(0, true, 1);
    std::vector<heddle_packet> packets;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      packets.push_back(packet(kernels[i].first, kernels[i].second, i + 1 == kernels.size() ? signal : 0));
    }
    submit(queue, packets);
    REQUIRE(wait_below(m(), signal) == 0);
  }
  // How many CTAs of a reader have seen other words than value + lane.
  std::uint32_t wrong(std::uint64_t out, std::uint32_t value) {
    std::uint32_t count = 0;
    for (std::uint32_t cta = 0; cta < ctas; ++cta) {
      std::array<std::uint32_t, kWords> seen{};
      REQUIRE(m().gpu.memory().read(out + std::uint64_t{128} * cta, seen.data(), sizeof seen));
      bool right = true;
      for (std::uint32_t i = 0; i < kWords; ++i) right = right && seen[i] == value + i;
      count += right ? 0 : 1;
    }
    return count;
  }
  std::uint64_t words() { return lab.take_device(128); }
  std::uint64_t out() { return lab.take_device(std::uint64_t{128} * ctas); }
  // Past the machine: nobody has written them.
  void fill(std::uint64_t words, std::uint32_t value) {
    std::array<std::uint32_t, kWords> all{};
    for (std::uint32_t i = 0; i < kWords; ++i) all[i] = value + i;
    REQUIRE(m().gpu.memory().write(words, all.data(), sizeof all));
  }
  // In the attached memory, by its owner, who tells the checker.
  void fill_behind(std::uint64_t words, std::uint32_t value) {
    for (std::uint32_t i = 0; i < kWords; ++i) {
      const std::uint32_t word = value + i;
      std::memcpy(&memory->bytes[words + 4 * i], &word, sizeof word);
    }
    m().gpu.races()->host_writes(words, 128);
  }
  bool behind_is(std::uint64_t words, std::uint32_t value) {
    m().gpu.races()->host_reads(words, 128);
    bool right = true;
    for (std::uint32_t i = 0; i < kWords; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, &memory->bytes[words + 4 * i], sizeof word);
      right = right && word == value + i;
    }
    return right;
  }
  // By what lies before the brackets of a kernel's name.
  Found found() {
    Found all;
    const auto plain = [](const std::string& text) { return text.substr(0, text.find(" (")); };
    for (const arch::Race& race : m().gpu.races()->races()) {
      all.insert(system_fence_test::race(plain(race.writer), plain(race.reader), race.missing));
    }
    return all;
  }

  PacketLab lab;
  std::unique_ptr<PlainMemory> memory;  // null: the machine's own
  std::uint32_t ctas = 0;
  heddle_queue queue{};

 private:
  static std::vector<std::string> with_checker(std::vector<std::string> sets) {
    sets.emplace_back("gpu.check.races=true");
    sets.emplace_back("gpu.memory=32 MiB");
    return sets;
  }
  const char* name(const std::string& kind) {
    names_.push_back(std::make_unique<std::string>(kind + std::to_string(names_.size())));
    return names_.back()->c_str();
  }

  std::vector<std::unique_ptr<std::string>> names_;
};

std::vector<std::string> timing(const std::string& mode, const std::string& shape) {
  std::vector<std::string> sets{"gpu.timing=" + mode};
  if (!shape.empty()) sets.push_back("gpu.shape=" + shape);
  return sets;
}

}  // namespace

TEST_CASE("without an acquire a kernel sees old bytes of L1s", "[system][PKT-14][MEM-06]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const std::string shape = GENERATE("", "[6]", "[2,10,4]");
  const std::uint32_t where = GENERATE(0, 3);
  CAPTURE(mode, shape, where);
  const Quiet quiet;
  for (const std::uint8_t scope : {HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM}) {
    SimFixture fixture;
    FenceLab lab(timing(mode, shape));
    const std::uint64_t words = lab.words();
    const std::uint64_t before = lab.out();
    const std::uint64_t after = lab.out();
    lab.fill(words, 100);
    lab.run({{lab.reader(words, before), kAgent},
             {lab.writer(words, 500, where), kRelease},
             {lab.reader(words, after), {scope, HEDDLE_FENCE_AGENT, true}}});
    CHECK(lab.wrong(before, 100) == 0);
    const bool none = scope == HEDDLE_FENCE_NONE;
    // All SMs but the writer's, which has updated its own.
    CHECK(lab.wrong(after, 500) == (none ? lab.ctas - 2 : 0));
    CHECK(lab.found() == (none ? Found{race("writer1", "reader2", MissingSync::acquire)} : Found{}));
    settle(lab.lab);
  }
}

TEST_CASE("a barrier packet's acquire does for the kernels behind it", "[system][PKT-14]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const bool fenced = GENERATE(true, false);
  const Quiet quiet;
  SimFixture fixture;
  FenceLab lab(timing(mode, ""));
  const std::uint64_t words = lab.words();
  const std::uint64_t after = lab.out();
  lab.fill(words, 100);
  const std::uint64_t done = lab.lab.new_signal(0, true, 1);
  const std::uint64_t end = lab.lab.new_signal(0, true, 1);
  heddle_packet between{};
  const std::uint8_t scopes = HEDDLE_SCOPES(0, fenced ? HEDDLE_FENCE_AGENT : HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE);
  REQUIRE(heddle_packet_barrier(&between, HEDDLE_PACKET_BARRIER_AND, scopes, &done, 1, 0) == HEDDLE_OK);
  submit(lab.queue,
         {lab.packet(lab.reader(words, lab.out()), kAgent), lab.packet(lab.writer(words, 500, 1), kRelease, done),
          between, lab.packet(lab.reader(words, after), {HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, false}, end)});
  REQUIRE(wait_below(lab.m(), end) == 0);
  CHECK(lab.wrong(after, 500) == (fenced ? 0 : lab.ctas - 2));
  CHECK(lab.found() == (fenced ? Found{} : Found{race("writer1", "reader2", MissingSync::acquire)}));
  settle(lab.lab);
}

TEST_CASE("without a barrier bit the checker misses an order, whoever was faster", "[system][PKT-14]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const std::uint32_t delay = GENERATE(0U, 5'000U);
  const Quiet quiet;
  SimFixture fixture;
  FenceLab lab(timing(mode, ""));
  const std::uint64_t words = lab.words();
  const std::uint64_t after = lab.out();
  lab.fill(words, 100);
  Fences open = kSystem;
  open.barrier = false;
  // A delay of the reader's own keeps it behind the writer's store; one of the writer's lets it pass.
  const std::uint32_t wait = delay == 0 ? 5'000 : 0;
  lab.run({{lab.writer(words, 500, 0, delay), kSystem}, {lab.reader(words, after, wait), open}});
  sc_core::sc_start(sc_core::sc_time(200, sc_core::SC_US));  // the writer may not have ended
  settle(lab.lab);
  if (delay > 0) {
    CHECK(lab.wrong(after, 500) == lab.ctas);
    CHECK(lab.found().empty());  // it was written later
  } else {
    CHECK(lab.wrong(after, 500) == 0);
    CHECK(lab.found() == Found{race("writer0", "reader1", MissingSync::order)});
  }
}

TEST_CASE("a host that reads memory itself needs a release of system scope", "[system][PKT-14][MEM-02]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const std::string copies = GENERATE("none", "near");
  const std::uint8_t scope = GENERATE(HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM);
  CAPTURE(mode, copies, int{scope});
  const Quiet quiet;
  SimFixture fixture;
  FenceLab lab({"gpu.timing=" + mode, "gpu.l2.partitions=2", "gpu.l2.copies=" + copies}, DeviceMemory::attached);
  const std::uint64_t words = lab.words();
  lab.fill(words, 100);
  lab.run({{lab.writer(words, 500, 1), {HEDDLE_FENCE_SYSTEM, scope, true}}});
  const bool wide = scope == HEDDLE_FENCE_SYSTEM;
  CHECK(lab.behind_is(words, 500) == wide);
  CHECK(lab.behind_is(words, 100) == !wide);
  const MissingSync missing = scope == HEDDLE_FENCE_NONE ? MissingSync::release : MissingSync::wider_release;
  CHECK(lab.found() == (wide ? Found{} : Found{race("writer0", "the host", missing)}));
  settle(lab.lab);
}

TEST_CASE("what a host writes behind the L2 needs an acquire of system scope", "[system][PKT-14][MEM-02]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const std::string copies = GENERATE("none", "near");
  const std::uint8_t scope = GENERATE(HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM);
  CAPTURE(mode, copies, int{scope});
  const Quiet quiet;
  SimFixture fixture;
  FenceLab lab({"gpu.timing=" + mode, "gpu.l2.partitions=2", "gpu.l2.copies=" + copies}, DeviceMemory::attached);
  const std::uint64_t words = lab.words();
  const std::uint64_t mine = lab.words();
  const std::uint64_t after = lab.out();
  const std::uint64_t kept = lab.out();
  lab.fill(words, 100);
  lab.run({{lab.writer(mine, 700, 0), kAgent}, {lab.reader(words, lab.out()), kSystem}});
  lab.fill_behind(words, 500);
  const Fences fences{scope, HEDDLE_FENCE_SYSTEM, true};
  lab.run({{lab.reader(words, after), fences}, {lab.reader(mine, kept), kSystem}});
  const bool wide = scope == HEDDLE_FENCE_SYSTEM;
  CHECK(lab.wrong(after, 500) == (wide ? 0 : lab.ctas));
  CHECK(lab.wrong(after, 100) == (wide ? lab.ctas : 0));
  CHECK(lab.wrong(kept, 700) == 0);  // what the L2 alone has stays
  const MissingSync missing = scope == HEDDLE_FENCE_NONE ? MissingSync::acquire : MissingSync::wider_acquire;
  CHECK(lab.found() == (wide ? Found{} : Found{race("the host", "reader2", missing)}));
  CHECK(lab.m().stat("hub.invalidates") > 0);
  settle(lab.lab);
}

TEST_CASE("through the aperture the host sees the newest bytes, and the checker what it may not rely on",
          "[system][PKT-14]") {
  const std::string mode = GENERATE("at", "lt");
  const Quiet quiet;
  for (const std::uint8_t scope : {HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM}) {
    SimFixture fixture;
    FenceLab lab(timing(mode, ""));
    const std::uint64_t words = lab.words();
    const std::uint64_t after = lab.out();
    lab.fill(words, 100);
    lab.run({{lab.reader(words, lab.out()), kSystem}});
    for (std::uint32_t i = 0; i < kWords; ++i) lab.m().write<std::uint32_t>(words + 4 * i, 500 + i);
    lab.run({{lab.reader(words, after), {scope, HEDDLE_FENCE_NONE, true}},
             {lab.writer(words, 900, 0), {scope, scope, true}}});
    CHECK(lab.m().read<std::uint32_t>(words) == 900);
    Found expected;
    if (scope == HEDDLE_FENCE_NONE) {
      expected = {race("the host", "reader1", MissingSync::acquire), race("writer2", "the host", MissingSync::release)};
      CHECK(lab.wrong(after, 500) == lab.ctas);
    } else if (scope == HEDDLE_FENCE_AGENT) {
      expected = {race("the host", "reader1", MissingSync::wider_acquire),
                  race("writer2", "the host", MissingSync::wider_release)};
      CHECK(lab.wrong(after, 500) == 0);
    }
    CHECK(lab.found() == expected);
    CHECK(lab.m().stat("hub.invalidates") == 0);  // the L2 is as new as memory
    settle(lab.lab);
  }
}

TEST_CASE("with what the checker asks for no kernel sees old bytes", "[system][random][PKT-14]") {
  const std::string mode = GENERATE("at", "fast", "lt");
  const bool careful = GENERATE(true, false);
  const Quiet quiet;
  std::uint32_t clean = 0;
  std::uint32_t old = 0;
  std::uint32_t loose = 0;  // kernels without the barrier bit
  for (const std::uint64_t seed : seeds(careful ? 4 : 24)) {
    CAPTURE(mode, careful, seed);
    Random random(seed);
    SimFixture fixture;
    const DeviceMemory kind = random.chance(30) ? DeviceMemory::attached : DeviceMemory::own;
    const std::vector<std::string> shapes{"", "[4]", "[8,2]", "[2,2,6]"};
    FenceLab lab(timing(mode, shapes[random.below(shapes.size())]), kind);
    const std::uint32_t missing = random.chance(50) ? 12 : 70;  // %, of the fences of a run that is not careful
    constexpr std::uint32_t kPlaces = 3;
    std::array<std::uint64_t, kPlaces> words{};
    std::array<std::uint32_t, kPlaces> value{};
    for (std::uint32_t i = 0; i < kPlaces; ++i) {
      words[i] = lab.words();
      value[i] = 1000 * (i + 1);
      lab.fill(words[i], value[i]);
    }
    struct Check {
      std::uint64_t out = 0;
      std::uint32_t value = 0;
      std::uint32_t place = 0;
    };
    std::vector<Check> checks;
    std::vector<std::pair<std::uint64_t, Fences>> kernels;
    // The checker does not look at writes without an order to a read or a write before them: what is in a place where
    // there were such is anybody's guess. A kernel without the barrier bit is ordered behind what the last one with it
    // has waited for.
    std::array<bool, kPlaces> unordered{};
    std::array<bool, kPlaces> touched{};  // by kernels that the present one may run beside
    std::array<bool, kPlaces> written{};
    for (std::uint32_t k = 0; k < 10; ++k) {
      const std::uint32_t place = random.below(kPlaces);
      Fences fences = kAgent;
      if (!careful) {
        if (random.chance(missing)) fences.acquire = HEDDLE_FENCE_NONE;
        if (random.chance(missing / 2)) fences.release = HEDDLE_FENCE_NONE;
        if (random.chance(8)) fences.barrier = false;
      }
      const bool writes = random.chance(40);
      if (fences.barrier) {
        touched = {};
        written = {};
      }
      unordered.at(place) = unordered.at(place) || written.at(place) || (writes && touched.at(place));
      touched.at(place) = true;
      written.at(place) = written.at(place) || writes;
      loose += fences.barrier ? 0 : 1;
      if (writes) {
        value[place] = 10'000 + 100 * k;
        kernels.emplace_back(lab.writer(words[place], value[place], random.below(lab.ctas), random.below(2000)),
                             fences);
      } else {
        checks.push_back({lab.out(), value[place], place});
        kernels.emplace_back(lab.reader(words[place], checks.back().out, random.below(500)), fences);
      }
    }
    const Fences last = kSystem;
    checks.push_back({lab.out(), value[0], 0});
    kernels.emplace_back(lab.reader(words[0], checks.back().out), last);
    lab.run(kernels);
    settle(lab.lab);
    std::uint32_t wrong = 0;
    for (const Check& check : checks) {
      if (!unordered.at(check.place)) wrong += lab.wrong(check.out, check.value);
    }
    if (careful) REQUIRE(lab.found() == Found{});
    if (lab.m().gpu.races()->found() == 0) {
      ++clean;
      CHECK(wrong == 0);
    } else {
      old += wrong > 0 ? 1 : 0;
    }
  }
  CHECK(clean > 0);
  CHECK((loose > 0) != careful);
  if (!careful) CHECK(old > 0);
}

}  // namespace system_fence_test
