// What a memory has to answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/hbm_bench.h"

namespace heddle::test {

// Random jobs of several initiators against a flat memory. Jobs that are open at a time do not touch each other's
// bytes, save for reads among themselves: what they return is then certain.
class HbmOracle {
 public:
  HbmOracle(std::uint64_t bytes, std::uint64_t seed) : flat(bytes), random_(seed) {}

  std::optional<HbmJob> next() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      HbmJob job = make();
      if (conflicts(job)) continue;
      open_.push_back({job.address, job.data.size(), job.command == tlm::TLM_WRITE_COMMAND});
      return job;
    }
    return std::nullopt;
  }
  void done(HbmJob& job) {
    const auto found = std::find_if(open_.begin(), open_.end(), [&job](const Open& open) {
      return open.address == job.address && open.length == job.data.size() &&
             open.write == (job.command == tlm::TLM_WRITE_COMMAND);
    });
    REQUIRE(found != open_.end());
    open_.erase(found);
    ++answered;
    const std::uint64_t width = job.width == 0 ? job.data.size() : job.width;
    const std::uint64_t reach = std::min<std::uint64_t>(width, job.data.size());
    if (job.address + reach > flat.size()) {
      REQUIRE(job.status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      ++errors;
      return;
    }
    REQUIRE(job.status == tlm::TLM_OK_RESPONSE);
    for (std::size_t i = 0; i < job.data.size(); ++i) {
      const bool enabled = job.enables.empty() || job.enables[i % job.enables.size()] == 0xFF;
      std::uint8_t& byte = flat[job.address + i % width];
      if (job.command == tlm::TLM_WRITE_COMMAND) {
        if (enabled) byte = job.data[i];
      } else {
        REQUIRE(job.data[i] == (enabled ? byte : 0xCC));
      }
    }
  }

  std::vector<std::uint8_t> flat;
  std::uint64_t answered = 0;
  std::uint64_t errors = 0;

 private:
  struct Open {
    std::uint64_t address;
    std::uint64_t length;
    bool write;
  };

  HbmJob make() {
    HbmJob job;
    job.command = random_.chance(50) ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND;
    const std::uint32_t length = random_.chance(80) ? 32 * random_.between(1, 4) : random_.between(1, 700);
    job.address = random_.below(flat.size());
    if (random_.chance(60)) job.address = job.address / 128 * 128;
    if (random_.chance(2)) job.address = flat.size() - random_.below(200);
    job.data.assign(length, 0xCC);
    if (job.command == tlm::TLM_WRITE_COMMAND)
      for (auto& byte : job.data) byte = static_cast<std::uint8_t>(random_.next());
    if (random_.chance(30)) {
      job.enables.resize(random_.chance(50) ? length : random_.between(1, length));
      for (auto& enable : job.enables) enable = random_.chance(60) ? 0xFF : 0;
    }
    if (random_.chance(5)) job.width = random_.between(1, length);
    return job;
  }
  bool conflicts(const HbmJob& job) const {
    const bool write = job.command == tlm::TLM_WRITE_COMMAND;
    return std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
      return (write || open.write) && job.address < open.address + open.length &&
             open.address < job.address + job.data.size();
    });
  }

  Random random_;
  std::vector<Open> open_;
};

}  // namespace heddle::test
