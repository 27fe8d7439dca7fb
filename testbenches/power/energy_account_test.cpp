// Energy of events: what an account takes against a sum over all counters, one by one.
#include "power/energy_account.h"

#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace power_energy_account_test {

using namespace heddle;
using namespace heddle::power;
using test::Random;

namespace {

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool ends(const std::string& text, const std::string& with) {
  return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}

double sum(const Joules& joules) {
  double all = 0;
  for (const double part : joules) all += part;
  return all;
}

}  // namespace

TEST_CASE("an account takes each count once, at its prices, of the device's own counters", "[power]") {
  const std::vector<std::string> middles = {".gpc0.sm1", ".gpc1.sm0", ".l2.slice3", ".xbar", ".hbm", ".gpc"};
  const std::vector<std::string> tails = {".hits", ".lines", ".bytes", ".hits.more", ".in_lines", ""};
  for (const std::uint64_t seed : test::seeds(200)) {
    CAPTURE(seed);
    Random dice(seed);
    std::vector<Price> list;
    const char* const starts[] = {".gpc", ".l2.slice", ".xbar", ".hbm.hits"};
    const char* const stops[] = {".hits", ".lines", "_lines", ""};
    for (std::uint32_t i = dice.between(1, 6); i > 0; --i) {
      list.push_back({starts[dice.below(4)], stops[dice.below(4)], static_cast<Part>(dice.below(kParts)),
                      dice.between(0, 1000) / 8.0});
    }
    Stats stats;
    EnergyAccount account(stats, "gpu0", list);
    std::map<std::string, Counter*> counters;
    std::map<std::string, std::uint64_t> taken;
    for (int round = 0; round < 12; ++round) {
      for (std::uint32_t i = dice.below(8); i > 0; --i) {  // some of them new
        const std::string device = dice.one_in(4) ? "gpu1" : "gpu0";
        const std::string path = device + middles[dice.below(middles.size())] + tails[dice.below(tails.size())];
        if (counters.count(path) == 0) counters[path] = &stats.counter(path, "", "a counter of the test");
        counters[path]->add(dice.between64(0, 1'000'000'000));
      }
      if (dice.one_in(6)) {
        for (auto& [path, counter] : counters) counter->clear();
        account.reset();
        taken.clear();
        continue;
      }
      Joules expected{};
      for (auto& [path, counter] : counters) {
        const std::uint64_t more = counter->value() - taken[path];
        taken[path] = counter->value();
        if (!begins(path, "gpu0")) continue;
        const std::string rest = path.substr(4);
        for (const Price& price : list) {
          const bool fits = rest.size() >= std::string(price.begin).size() + std::string(price.end).size();
          if (fits && begins(rest, price.begin) && ends(rest, price.end)) {
            expected[static_cast<std::size_t>(price.part)] += static_cast<double>(more) * price.picojoules * 1e-12;
          }
        }
      }
      const Joules got = account.take();
      for (std::size_t part = 0; part < kParts; ++part) CHECK(got[part] == Approx(expected[part]).epsilon(1e-9));
    }
    CHECK(sum(account.take()) == 0);  // nothing has happened since, or all of it is taken
  }
}

TEST_CASE("every price has a part, and every part that events pay has a price", "[power]") {
  EnergyParams params;
  std::vector<bool> priced(kParts, false);
  for (const Price& price : prices(params, 1024)) {
    CHECK(price.picojoules >= 0);
    priced[static_cast<std::size_t>(price.part)] = true;
  }
  for (std::size_t i = 0; i < kParts; ++i) {
    CAPTURE(part_name(static_cast<Part>(i)));
    const auto part = static_cast<Part>(i);
    CHECK(priced[i] == (part != Part::leakage && part != Part::idle));
    CHECK(std::string(part_text(part)).size() > 3);
  }
}

TEST_CASE("prices follow the parameters", "[power]") {
  const auto of = [](const EnergyParams& params, Part part) {
    double all = 0;
    for (const Price& price : prices(params, 1024)) all += price.part == part ? price.picojoules : 0;
    return all;
  };
  const EnergyParams before;
  EnergyParams after = before;
  after.tensor_flop *= 2;
  after.hbm_bit *= 3;
  after.activate *= 5;
  CHECK(of(after, Part::tensor) == Approx(2 * of(before, Part::tensor)));
  CHECK(of(after, Part::hbm_data) == Approx(3 * of(before, Part::hbm_data)));
  CHECK(of(after, Part::hbm_activates) == Approx(5 * of(before, Part::hbm_activates)));
  CHECK(of(after, Part::l2) == of(before, Part::l2));
  // A byte of HBM, both ways: 8 bits of 3.48 pJ each.
  CHECK(of(before, Part::hbm_data) == Approx(2 * 8 * before.hbm_bit));
}

}  // namespace power_energy_account_test
