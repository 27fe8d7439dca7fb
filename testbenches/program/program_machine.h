// A scenario with one kernel, and the memory that it describes, ready to be executed without an SM.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "program/program_harness.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"

namespace heddle::test {

class ProgramMachine {
 public:
  explicit ProgramMachine(scenario::Scenario read) : scenario(std::move(read)) { reset(); }
  // `kernel` has its keys but the name; `memory` is a list.
  explicit ProgramMachine(const std::string& kernel, const std::string& memory = "[]")
      : ProgramMachine(scenario::parse_scenario(
            "heddle: 1\nmemory: " + memory + "\nsubmit: [{kernel: k, stream: a}]\nkernels:\n- name: k\n" + kernel,
            "p.yaml")) {}

  // Memory as at the beginning, and nothing executed.
  void reset() {
    global.clear();
    for (const workload::MemoryRegion& region : regions()) {
      global.resize(std::max<std::size_t>(global.size(), region.address + region.bytes));
      const std::vector<std::uint8_t> bytes = initial_bytes(region);
      std::copy(bytes.begin(), bytes.end(), global.begin() + static_cast<std::ptrdiff_t>(region.address));
    }
    run = std::make_unique<ProgramRun>(kernel(), global);
  }

  const std::vector<workload::MemoryRegion>& regions() const { return scenario.workloads[0].memory; }
  const arch::KernelRecord& kernel() const { return scenario.workloads[0].ops[0].kernel; }

  const workload::MemoryRegion& region(const std::string& name) const {
    for (const workload::MemoryRegion& one : regions()) {
      if (one.name == name) return one;
    }
    throw std::runtime_error("no region " + name);
  }
  std::vector<std::uint8_t> bytes(const std::string& name) const {
    const auto begin = global.begin() + static_cast<std::ptrdiff_t>(region(name).address);
    return {begin, begin + static_cast<std::ptrdiff_t>(region(name).bytes)};
  }
  template <class T>
  T at(const std::string& name, std::size_t index) const {
    T value{};
    std::memcpy(&value, global.data() + region(name).address + index * sizeof(T), sizeof(T));
    return value;
  }

  scenario::Scenario scenario;
  std::vector<std::uint8_t> global;
  std::unique_ptr<ProgramRun> run;
};

}  // namespace heddle::test
