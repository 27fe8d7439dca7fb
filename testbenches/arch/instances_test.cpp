// Instances of a machine: what they have, what is refused, and how memory is dealt to their slices (PRT-11).
#include "arch/instances.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "support/random.h"

namespace heddle::test::arch_instances_test {

using arch::AddressMap;
using arch::Instance;
using arch::Instances;
using arch::kLineBytes;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Eight GPCs, eight slices, four channels, three engines, 1 GiB of which the machine keeps 64 MiB.
constexpr arch::InstanceLimits kMachine{8, 8, 4, 3, 1024 * kMiB, 64 * kMiB};

std::vector<Instance> two() {
  return {{{0, 1}, {0, 1, 2, 3}, {0}, 256 * kMiB, {"f", 1, 0}}, {{2}, {6, 7}, {1}, 128 * kMiB, {"f", 2, 0}}};
}

}  // namespace

TEST_CASE("instances that overlap, or have what is not there, are refused with their place", "[arch][PRT-11][PRT-12]") {
  CHECK_NOTHROW(Instances(two()).check(kMachine));
  struct Case {
    std::function<void(std::vector<Instance>&)> change;
    int line;
    const char* what;
  };
  const Case cases[] = {
      {[](auto& list) { list[1].gpcs = {1}; }, 2, "instances 0 and 1 would both have GPC 1"},
      {[](auto& list) {
         list[1].slices = {3, 6, 7};
       },
       2, "instances 0 and 1 would both have L2 slice 3"},
      {[](auto& list) { list[1].copy_engines = {0}; }, 2, "would both have copy engine 0"},
      {[](auto& list) {
         list[0].gpcs = {0, 0};
       },
       1, "names GPC 0 twice"},
      {[](auto& list) { list[0].gpcs = {8}; }, 1, "no GPC 8"},
      {[](auto& list) {
         list[1].slices = {6, 8};
       },
       2, "no L2 slice 8"},
      {[](auto& list) { list[1].copy_engines = {3}; }, 2, "no copy engine 3"},
      {[](auto& list) { list[0].gpcs.clear(); }, 1, "has no GPC"},
      {[](auto& list) { list[0].slices.clear(); }, 1, "has no L2 slice"},
      {[](auto& list) { list[1].copy_engines.clear(); }, 2, "has no copy engine"},
      {[](auto& list) { list[1].slices = {6}; }, 2, "a part of the L2 slices of a memory channel"},
      {[](auto& list) {
         list[1].slices = {5, 6};
       },
       2, "a part of the L2 slices of a memory channel"},
      {[](auto& list) { list[0].memory = 0; }, 1, "0 bytes of memory"},
      {[](auto& list) { list[0].memory = 3 * kMiB; }, 1, "3145728 bytes of memory"},
      {[](auto& list) { list[0].memory = 482 * kMiB; }, 1, "channels hold"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    std::vector<Instance> list = two();
    one.change(list);
    try {
      Instances(list).check(kMachine);
      FAIL("it was not refused");
    } catch (const InputError& error) {
      CHECK(error.where().line == one.line);
      CHECK(error.message().find(one.what) != std::string::npos);
    }
  }
  std::vector<Instance> most = two();
  most[0].memory = 480 * kMiB;  // two of four channels
  CHECK_NOTHROW(Instances(most).check(kMachine));
  arch::InstanceLimits odd = kMachine;
  odd.channels = 3;
  CHECK_THROWS_AS(Instances(two()).check(odd), InputError);
}

TEST_CASE("instances are read as they are written", "[arch][PRT-11]") {
  using Traits = ParamTraits<Instances>;
  const auto read = [](const std::string& text) { return Traits::parse(YAML::Load(text), {"f", 1, 1}); };
  const Instances instances = read(
      "[{gpcs: [0, 1], slices: [0, 1, 2, 3], copy_engines: [0], memory: 256 MiB}, {gpcs: [2], slices: [6, 7], "
      "copy_engines: [1], memory: 128 MiB}]");
  CHECK(instances == Instances(two()));
  CHECK(Traits::parse(Traits::format(instances), {"f", 1, 1}) == instances);
  CHECK_FALSE(read("[]").any());
  CHECK(instances.base(1) == 256 * kMiB);
  CHECK(instances.base(2) == 384 * kMiB);
  CHECK(instances.of_gpc(1) == 0U);
  CHECK(instances.of_gpc(2) == 1U);
  CHECK_FALSE(instances.of_gpc(3));
  CHECK(instances.channels_of(0, 8, 4) == std::vector<std::uint32_t>{0, 1});
  CHECK(instances.channels_of(1, 8, 4) == std::vector<std::uint32_t>{3});
  CHECK(instances.channels_of(1, 8, 16) == std::vector<std::uint32_t>{12, 13, 14, 15});
  for (const char* wrong : {"{}", "[1]", "[{gpc: [0]}]", "[{gpcs: 0}]", "[{memory: much}]", "[{gpcs: [-1]}]"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(read(wrong), InputError);
  }
}

TEST_CASE("memory of an instance is dealt to its slices alone, and evenly", "[arch][PRT-11][MEM-01]") {
  for (const std::uint64_t round : seeds(30)) {
    CAPTURE(round);
    Random random(round);
    const std::uint32_t slices = 2 * random.between(2, 24);
    std::vector<std::uint32_t> all(slices);
    for (std::uint32_t i = 0; i < slices; ++i) all[i] = i;
    for (std::uint32_t i = slices; i-- > 1;) std::swap(all[i], all[random.below(i + 1)]);
    const std::uint32_t first = random.between(1, slices - 1);
    const std::uint32_t second = random.between(1, slices - first);
    const Instances instances(
        {{{0}, {all.begin(), all.begin() + first}, {0}, 2 * kMiB * random.between(1, 9), {}},
         {{1}, {all.begin() + first, all.begin() + first + second}, {1}, 2 * kMiB * random.between(1, 9), {}}});
    const AddressMap map(64 * kMiB, slices, 2, instances);
    const AddressMap plain(64 * kMiB, slices, 2);
    for (std::uint32_t part = 0; part <= 2; ++part) {
      const std::uint64_t begin = instances.base(part);
      const std::uint64_t end = part == 2 ? 64 * kMiB : instances.base(part + 1);
      std::vector<std::uint32_t> own = all;
      if (part < 2) own = instances[part].slices;
      std::vector<std::uint32_t> counts(slices);
      for (std::uint64_t address = begin; address < end; address += kLineBytes) {
        const std::uint32_t slice = map.slice_of(address);
        REQUIRE(slice == map.slice_of(address + kLineBytes - 1));
        ++counts[slice];
        if (part == 2) REQUIRE(slice == plain.slice_of(address));
      }
      const std::uint64_t lines = (end - begin) / kLineBytes;
      const std::uint64_t off = part < 2 ? 1 : 2;  // where it begins and ends inside a run
      for (std::uint32_t slice = 0; slice < slices; ++slice) {
        const bool is_own = std::find(own.begin(), own.end(), slice) != own.end();
        CHECK(counts[slice] >= (is_own ? lines / own.size() - off : 0));
        CHECK(counts[slice] <= (is_own ? lines / own.size() + off : 0));
      }
      std::set<std::uint32_t> reached;
      const auto addresses = map.addresses_of_slices(part < 2 ? std::optional(part) : std::nullopt);
      for (const std::uint64_t address : addresses) {
        CHECK(address >= begin);
        CHECK(address < end);
        reached.insert(map.slice_of(address));
      }
      CHECK(reached == std::set<std::uint32_t>(own.begin(), own.end()));
      CHECK(addresses.size() == own.size());
    }
  }
}

}  // namespace heddle::test::arch_instances_test
