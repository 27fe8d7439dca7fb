// Grids of CTAs that launch children and wait for them, be they saved meanwhile or not, some of them guilty of
// something; and what became of every CTA of the machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"

namespace heddle::test::parents {

using Access = ListProgram::Access;

constexpr std::uint64_t kBytes = 1ULL << 30;  // of the preset
constexpr std::uint64_t kShort = 0x10'0000;   // kernel objects of children
constexpr std::uint64_t kLong = 0x10'0080;
constexpr std::uint64_t kSum = 0x10'0100;  // children that have ended
constexpr std::uint64_t kOut = 0x20'0000;  // of operation 0: each thread's number
constexpr std::uint64_t kOutBytes = 0x1'0000;
constexpr std::uint32_t kThreads = 64;
constexpr std::uint32_t kShared = 1024;
constexpr std::uint32_t kKept = 512;  // of it

inline std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// What becomes of every CTA: S it starts, s it is saved, r it is restored, E it ends.
class Lives : public CtaListener {
 public:
  struct Life {
    std::string text;
    std::vector<std::uint64_t> cycles;
    std::vector<std::uint32_t> sms;
  };
  void cta_started(const Cta& cta) override { note(cta, 'S'); }
  void cta_ended(const Cta& cta) override { note(cta, 'E'); }
  void cta_saved(const Cta& cta) override { note(cta, 's'); }
  void cta_restored(const Cta& cta) override { note(cta, 'r'); }
  const Life& of(std::uint32_t task, std::uint64_t cta) const { return lives.at({task, cta}); }

  std::map<std::pair<std::uint32_t, std::uint64_t>, Life> lives;

 private:
  void note(const Cta& cta, char what) {
    Life& life = lives[{cta.task, cta.index}];
    life.text += what;
    life.cycles.push_back(cta.cycle);
    life.sms.push_back(cta.sm);
  }
};

using Crime = std::function<void(ListProgram&)>;  // one step

// What a parent does.
struct Plan {
  std::uint32_t rounds = 1;         // in each it launches, and waits
  std::uint64_t guilty = ~0ULL;     // CTA that does `crime` in the end
  std::uint32_t warp = 1;           // of it
  std::uint32_t pause = 1;          // instructions before that
  std::uint64_t alone = ~0ULL;      // CTA that launches nothing
  std::uint64_t impatient = ~0ULL;  // CTA whose child is short
  Crime crime = [](ListProgram& p) { p.load({}, 3, ListProgram::linear(kBytes, 4)); };
};

// Warp 0 of every CTA launches and waits, warp 1 waits for it at the barrier. Then each thread writes its number, which
// it has kept in a register and in shared memory.
inline std::shared_ptr<const arch::WarpProgram> parent(const Plan& plan, std::uint64_t out) {
  auto program = std::make_shared<ListProgram>(6);
  ListProgram& p = *program;
  Access shared;
  shared.space = arch::Space::shared;
  const auto own = [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{4} * warp.thread(lane); };
  p.set(1, [](const Warp& warp, std::uint32_t lane) { return warp.global_thread(lane) + 1; });
  p.store(shared, ListProgram::of_register(1), own, {{1, 1}});
  p.release_shared(kKept);
  p.loop(plan.rounds);
  const std::uint32_t branch = p.here();
  p.branch(branch + 3, [plan](const Warp& warp) { return warp.place.warp == 1 || warp.place.cta == plan.alone; }, {});
  p.launch_child([plan](const Warp& warp, std::uint32_t) {
    arch::ChildLaunch child;
    child.kernel = warp.place.cta == plan.impatient ? kShort : kLong;
    return child;
  });
  p.wait_children();
  p.barrier();
  p.end_loop();
  const std::uint32_t crime = p.here();
  p.branch(crime + 3,
           [plan](const Warp& warp) { return warp.place.cta != plan.guilty || warp.place.warp != plan.warp; }, {});
  p.compute(arch::Unit::fp32, plan.pause);
  plan.crime(p);
  HEDDLE_CHECK(p.here() == crime + 3, "the crime has another length");
  p.load(shared, 2, own);
  p.store(
      {}, [](const Warp& warp, std::uint32_t lane) { return warp.reg(1, lane) + (warp.reg(2, lane) << 16); },
      [out](const Warp& warp, std::uint32_t lane) { return out + 4 * warp.global_thread(lane); }, {{1, 1}, {2, 1}});
  p.exit();
  return program;
}

// Every record of device-side launches has come back, once.
inline void check_pools(GpuLab& lab, const arch::LaunchMemory& memory) {
  for (const arch::RecordPool& pool :
       {memory.tasks.pool, memory.tasks.spill, memory.contexts.pool, memory.contexts.spill, memory.chunks}) {
    const auto taken = lab.read<std::uint64_t>(pool.base + arch::ring::kTaken);
    REQUIRE(taken == lab.read<std::uint64_t>(pool.base + arch::ring::kGiven));
    REQUIRE(lab.read<std::uint64_t>(pool.base + arch::ring::kUsed) == 0);
    if (taken == 0) continue;  // all as it was
    std::vector<std::uint64_t> slots(pool.count);
    REQUIRE(lab.gpu.memory().read(pool.base + arch::ring::kSlots, slots.data(), 8 * slots.size()));
    std::vector<std::uint64_t> free;
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 0; i < pool.count; ++i) {
      free.push_back(taken + i < pool.count ? pool.record(taken + i) : slots[(taken + i) % pool.count]);
      all.push_back(pool.record(i));
    }
    std::sort(free.begin(), free.end());
    REQUIRE(free == all);
  }
}
inline void check_all_pools(GpuLab& lab) {
  const arch::LaunchMemory memory = lab.gpu.params().nested_memory();
  for (std::uint32_t part = 0; part < memory.parts; ++part) check_pools(lab, memory.part(part));
}

// The user owns the SimFixture.
struct Machine : GpuLab {
  explicit Machine(const std::vector<std::string>& sets = {}) : GpuLab(preset_params("small", with(quick(), sets))) {
    observation.ctas = &lives;
    put_child(kShort, 10);
    put_child(kLong, 3000);
  }
  void put_child(std::uint64_t at, std::uint32_t instructions) {
    auto program = std::make_shared<ListProgram>(2);
    Access one;
    one.lanes = ListProgram::only(0);
    program->compute(arch::Unit::fp32, instructions);
    program->atomic(one, arch::AtomicKind::add, arch::ValueType::u32, arch::kNoRegister, ListProgram::constant(1),
                    ListProgram::linear(kSum, 0));
    program->exit();
    arch::KernelShape shape;
    shape.block = {32, 1, 1};
    put_object(at, gpu.add_code(program, shape), "child");
  }
  void put_object(std::uint64_t at, std::uint32_t code, const char* name) {
    arch::KernelObject object;
    object.program = code;
    object.registers_per_thread = 16;
    object.name = name;
    const arch::KernelObjectBytes bytes = arch::encode(object);
    REQUIRE(gpu.memory().write(at, bytes.data(), bytes.size()));
  }
  static std::uint8_t subcontext_of(std::uint32_t operation) { return static_cast<std::uint8_t>(operation + 2); }
  // Parents of the next operation, with a label.
  std::uint32_t start(const Plan& plan, std::uint32_t ctas, std::uint32_t stream, std::int32_t priority = 0) {
    const std::uint64_t out = kOut + kOutBytes * started_++;
    protocol::SubmitPacket one = packet(parent(plan, out), {ctas, 1, 1}, {kThreads, 1, 1}, kShared, stream);
    one.priority = priority;
    one.kernel.subcontext = subcontext_of(one.operation);
    observation.labels.set(one.operation, "parents " + std::to_string(one.operation));
    return submit(one);
  }
  // What those of a sound operation have written.
  void check_results(std::uint32_t operation, std::uint32_t ctas) {
    CHECK(host.results.at(operation).status == protocol::DoneStatus::ok);
    for (std::uint32_t i = 0; i < ctas * kThreads; ++i) {
      REQUIRE(read<std::uint32_t>(kOut + kOutBytes * operation + 4 * i) == (i + 1) * 0x1'0001);
    }
  }
  // Every CTA has ended, every record is free, and nothing is left anywhere.
  void check_over() {
    for (const auto& [cta, life] : lives.lives) {
      CAPTURE(cta.first, cta.second, life.text, life.cycles, life.sms);
      REQUIRE(life.text.size() % 2 == 0);
      REQUIRE(life.text.front() == 'S');
      REQUIRE(life.text.back() == 'E');
      // Once its state is in memory it may come back on another SM before the one that it leaves has told.
      std::string text = life.text;
      for (std::size_t i = 1; i + 1 < text.size(); ++i) {
        if (i % 2 == 1 && text[i] == 'r' && text[i + 1] == 's' && life.sms[i] != life.sms[i + 1]) {
          std::swap(text[i], text[i + 1]);
        }
        REQUIRE(text[i] == (i % 2 == 1 ? 's' : 'r'));
      }
    }
    CHECK(read<std::uint32_t>(kSum) == stat("task.children"));  // whatever became of their parents
    gpu.check_quiescent();
    check_all_pools(*this);
  }
  double saves() const {
    std::ptrdiff_t sum = 0;
    for (const auto& [cta, life] : lives.lives) sum += std::count(life.text.begin(), life.text.end(), 's');
    return static_cast<double>(sum);
  }

  Lives lives;

 private:
  static std::vector<std::string> quick() {
    return {"gpu.sm.nested.launch_instructions=12", "gpu.sm.nested.save=true", "gpu.sm.nested.save_delay=200"};
  }
  std::uint32_t started_ = 0;
};

}  // namespace heddle::test::parents
