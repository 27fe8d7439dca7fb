#include "ptx/code_finisher.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "ptx/flow_graph.h"
#include "ptx/lane_work.h"
#include "ptx/timing.h"

namespace heddle::ptx {

using arch::OpCode;

namespace {

// Instructions that a free one cannot pass, whatever its registers.
bool is_control_flow(const ResolvedInstruction& instruction) {
  return instruction.action == Action::branch || instruction.action == Action::table ||
         instruction.action == Action::exit;
}

// What shows a loop that it waits for others.
bool looks(const ResolvedInstruction& instruction, const std::vector<AccessForm>& accesses) {
  switch (instruction.action) {
    case Action::sleep:
    case Action::mbarrier:
      return true;
    case Action::access: {
      const AccessForm& form = accesses[instruction.target];
      return form.code == OpCode::atomic || (form.code == OpCode::load && form.order != arch::Order::weak);
    }
    default:
      return false;
  }
}

OrderedInstruction::Memory memory_of(const ResolvedInstruction& instruction, const std::vector<AccessForm>& accesses) {
  using Memory = OrderedInstruction::Memory;
  switch (instruction.action) {
    case Action::access: {
      const AccessForm& form = accesses[instruction.target];
      const bool relaxed = form.code == OpCode::atomic && form.order == arch::Order::relaxed;
      if (form.order != arch::Order::weak && !relaxed) return Memory::all;
      return form.code == OpCode::load ? Memory::reads : Memory::writes;
    }
    case Action::vote:
    case Action::ballot:
    case Action::match_any:
    case Action::match_all:
    case Action::active_mask:
    case Action::shuffle:
    case Action::reduce:
    case Action::elect:
    case Action::matrix:
      return Memory::gathers;
    default:
      return LaneWork::runs(instruction.action) ? Memory::none : Memory::all;
  }
}

bool has_any(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](std::uint32_t reg) { return std::find(b.begin(), b.end(), reg) != b.end(); });
}

void add_range(std::vector<arch::RegisterRange>& ranges, arch::RegisterRange range) {
  const auto same = [&](const arch::RegisterRange& other) {
    return other.first == range.first && other.count == range.count;
  };
  if (std::none_of(ranges.begin(), ranges.end(), same)) ranges.push_back(range);
}

// Planes that lie side by side and are free.
class PlanePool {
 public:
  std::uint32_t take(std::uint32_t count) {
    std::uint32_t run = 0;
    for (std::uint32_t i = 0;; ++i) {
      if (i == taken_.size()) taken_.push_back(0);
      run = taken_[i] != 0 ? 0 : run + 1;
      if (run < count) continue;
      const std::uint32_t first = i + 1 - count;
      std::fill_n(taken_.begin() + first, count, std::uint8_t{1});
      return first;
    }
  }
  void give(std::uint32_t first, std::uint32_t count) { std::fill_n(taken_.begin() + first, count, std::uint8_t{0}); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(taken_.size()); }

 private:
  std::vector<std::uint8_t> taken_;
};

struct LiveInterval {
  std::uint32_t reg = 0;
  std::uint32_t begin = ~std::uint32_t{0};
  std::uint32_t end = 0;

  bool any() const { return begin <= end; }
  void add(std::uint32_t at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

// Names the registers of instructions while they are virtual.
class Uses {
 public:
  Uses(const std::vector<VirtualRegister>& registers, const std::vector<std::uint32_t>& owner, const PtxCode& code)
      : registers_(registers), owner_(owner), code_(code) {}

  RegisterUse of(const ResolvedInstruction& now) const {
    RegisterUse use;
    use.whole = !now.guard.any();
    const auto predicate = [](std::vector<std::uint32_t>& list, const PredicateRef& ref) {
      if (ref.any()) list.push_back(ref.scalar);
    };
    const auto plane = [this](std::vector<std::uint32_t>& list, PlaneRef ref) {
      if (ref >= 0) list.push_back(owner_[static_cast<std::size_t>(ref)]);
    };
    predicate(use.reads, now.guard);
    for (const PredicateRef& ref : now.p_in) predicate(use.reads, ref);
    for (const PredicateRef& ref : now.p_out) predicate(use.writes, ref);
    for (std::size_t i = 0; i < now.r.size(); ++i) plane(i < kFirstSource ? use.writes : use.reads, now.r[i]);
    if (now.action == Action::bulk) {
      for (const BulkOperand& operand : code_.bulk[now.target].operands) plane(use.reads, operand.plane);
    }
    if (now.action == Action::matrix) {
      const MatrixWork& work = code_.matrices[now.target];
      for (const auto* list : {&work.a, &work.b, &work.c}) {
        for (const PlaneRef ref : *list) plane(use.reads, ref);
      }
      for (const PlaneRef ref : work.to) plane(use.writes, ref);
    }
    if (now.action == Action::warpgroup) {
      for (const PlaneRef ref : code_.warpgroups[now.target].accumulators) {
        plane(use.reads, ref);
        plane(use.writes, ref);
      }
    }
    if (now.r[0] >= 0 && (now.action == Action::copy || now.action == Action::narrow)) {
      const VirtualRegister& whole = registers_[owner_[static_cast<std::size_t>(now.r[0])]];
      use.whole = use.whole && whole.first == static_cast<std::uint32_t>(now.r[0]) && whole.planes == now.planes;
    }
    return use;
  }

 private:
  const std::vector<VirtualRegister>& registers_;
  const std::vector<std::uint32_t>& owner_;
  const PtxCode& code_;
};

}  // namespace

// As an assembler would, so that loads are under way while others work.
void CodeFinisher::reorder() {
  const FlowGraph graph(of_.instructions, code_.tables);
  const Uses uses(of_.registers, of_.owner, code_);
  const auto carry = static_cast<std::uint32_t>(of_.registers.size());  // the condition code, as a register
  std::vector<std::uint32_t> planes;
  for (const VirtualRegister& reg : of_.registers) planes.push_back(reg.predicate ? 0 : reg.planes);
  planes.push_back(0);
  std::vector<OrderedInstruction> known;
  known.reserve(of_.instructions.size());
  for (const ResolvedInstruction& draft : of_.instructions) {
    OrderedInstruction& made = known.emplace_back();
    made.use = uses.of(draft);
    if (draft.carries) {
      made.use.reads.push_back(carry);
      made.use.writes.push_back(carry);
    }
    made.latency = expected_latency(draft, code_.accesses);
    made.memory = memory_of(draft, code_.accesses);
  }
  std::vector<std::uint32_t> order;
  for (const FlowBlock& block : graph.blocks()) {
    const std::vector<std::uint32_t> its = order_of(known, block.begin, block.end, planes);
    order.insert(order.end(), its.begin(), its.end());
  }
  std::vector<ResolvedInstruction> drafts;
  std::vector<std::string> texts;
  for (const std::uint32_t i : order) {
    drafts.push_back(std::move(of_.instructions[i]));
    texts.push_back(std::move(of_.texts[i]));
  }
  of_.instructions = std::move(drafts);
  of_.texts = std::move(texts);
}

// Within its block, down to what needs its result: so that nobody waits who need not. What is not needed in its block
// goes before the branch at its end.
void CodeFinisher::sink_free_instructions() {
  const FlowGraph graph(of_.instructions, code_.tables);
  const Uses uses(of_.registers, of_.owner, code_);
  for (const FlowBlock& block : graph.blocks()) {
    for (std::uint32_t i = block.end; i-- > block.begin;) {
      if (!of_.instructions[i].free) continue;
      const RegisterUse own = uses.of(of_.instructions[i]);
      std::uint32_t to = i;
      while (to + 1 < block.end && !is_control_flow(of_.instructions[to + 1])) {
        const RegisterUse other = uses.of(of_.instructions[to + 1]);
        if (has_any(own.writes, other.reads) || has_any(own.writes, other.writes) || has_any(own.reads, other.writes)) {
          break;
        }
        ++to;
      }
      std::rotate(of_.instructions.begin() + i, of_.instructions.begin() + i + 1, of_.instructions.begin() + to + 1);
      std::rotate(of_.texts.begin() + i, of_.texts.begin() + i + 1, of_.texts.begin() + to + 1);
    }
  }
}

// A try_wait waits, where all that comes of a failure is another try: then nobody can tell the two apart. Elsewhere it
// looks, and goes on.
void CodeFinisher::choose_waits() {
  for (std::uint32_t i = 0; i < of_.instructions.size(); ++i) {
    if (of_.instructions[i].action != Action::mbarrier) continue;
    AccessForm& form = code_.accesses[of_.instructions[i].target];
    if (form.code == OpCode::mbarrier_wait && !tries_again(i)) form.code = OpCode::mbarrier_test;
  }
}

// Whether the way from a try that has failed leads back to it past nothing that acts.
bool CodeFinisher::tries_again(std::uint32_t first) const {
  constexpr std::uint32_t kSteps = 16;
  if (of_.instructions[first].guard.any()) return false;
  std::uint32_t failed = PredicateRef::kNone;
  std::uint32_t at = first + 1;
  for (std::uint32_t step = 0; step < kSteps && at < of_.instructions.size(); ++step) {
    if (at == first) return true;
    const ResolvedInstruction& now = of_.instructions[at];
    if (now.action == Action::set_predicate && now.r[2] == of_.instructions[first].r[0] && !now.guard.any()) {
      failed = now.p_out[0].scalar;
      ++at;
    } else if (now.action == Action::branch && !now.guard.any()) {
      at = now.target;
    } else if (now.action == Action::branch && now.guard.scalar == failed) {
      at = now.guard.negated ? now.target : at + 1;
    } else {
      return false;
    }
  }
  return false;
}

// A path that comes from elsewhere must find nothing under way: the last instruction before a place that others come to
// is no free one.
void CodeFinisher::charge_ends_of_blocks() {
  const FlowGraph graph(of_.instructions, code_.tables);
  for (std::uint32_t b = 0; b < graph.blocks().size(); ++b) {
    const FlowBlock& block = graph.blocks()[b];
    ResolvedInstruction& last = of_.instructions[block.end - 1];
    if (last.free) last.free = false;
    of_.instructions[block.begin].leader = true;
    for (std::uint32_t i = block.begin; i < block.end; ++i) of_.instructions[i].rank = block.rank;
    if (last.action != Action::branch) continue;
    const std::uint32_t head = graph.block_of(last.target);
    if (!graph.is_back(b, head)) continue;
    last.backward = true;
    for (const std::uint32_t inside : graph.loop_of(b, head)) {
      const FlowBlock& of = graph.blocks()[inside];
      for (std::uint32_t i = of.begin; i < of.end; ++i)
        last.spins = last.spins || looks(of_.instructions[i], code_.accesses);
    }
  }
}

void CodeFinisher::allocate() {
  const FlowGraph graph(of_.instructions, code_.tables);
  const Uses names(of_.registers, of_.owner, code_);
  std::vector<RegisterUse> uses;
  uses.reserve(of_.instructions.size());
  for (const ResolvedInstruction& draft : of_.instructions) uses.push_back(names.of(draft));
  const auto count = static_cast<std::uint32_t>(of_.registers.size());
  std::vector<LiveInterval> intervals(count);
  for (std::uint32_t reg = 0; reg < count; ++reg) intervals[reg].reg = reg;
  const std::vector<std::vector<std::uint8_t>> behind = graph.alive_behind(count, uses);
  std::vector<std::uint8_t> live;
  for (std::uint32_t b = 0; b < graph.blocks().size(); ++b) {
    const FlowBlock& block = graph.blocks()[b];
    live = behind[b];
    std::uint32_t pressure = 0;
    const auto weight = [&](std::uint32_t reg) { return of_.registers[reg].predicate ? 0 : of_.registers[reg].planes; };
    for (std::uint32_t reg = 0; reg < count; ++reg) {
      if (live[reg] == 0) continue;
      intervals[reg].add(block.end);
      pressure += weight(reg);
    }
    for (std::uint32_t i = block.end; i-- > block.begin;) {
      code_.live_registers = std::max(code_.live_registers, pressure);
      for (const std::uint32_t reg : uses[i].writes) {
        intervals[reg].add(i);
        if (!uses[i].whole || live[reg] == 0) continue;
        live[reg] = 0;
        pressure -= weight(reg);
      }
      for (const std::uint32_t reg : uses[i].reads) {
        intervals[reg].add(i);
        if (live[reg] != 0) continue;
        live[reg] = 1;
        pressure += weight(reg);
      }
    }
    code_.live_registers = std::max(code_.live_registers, pressure);
    for (std::uint32_t reg = 0; reg < count; ++reg) {
      if (live[reg] != 0) intervals[reg].add(block.begin);
    }
  }
  // A bundle lives as one: in its first register.
  std::vector<std::uint32_t> planes;
  for (const VirtualRegister& reg : of_.registers) planes.push_back(reg.planes);
  for (const std::vector<std::uint32_t>& bundle : of_.bundles) {
    LiveInterval& whole = intervals[bundle.front()];
    planes[bundle.front()] = static_cast<std::uint32_t>(bundle.size());
    for (std::size_t i = 1; i < bundle.size(); ++i) {
      LiveInterval& part = intervals[bundle[i]];
      whole.begin = std::min(whole.begin, part.begin);
      whole.end = std::max(whole.end, part.end);
      part = {};
      part.reg = bundle[i];
    }
  }
  intervals.erase(std::remove_if(intervals.begin(), intervals.end(), [](const LiveInterval& i) { return !i.any(); }),
                  intervals.end());
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const LiveInterval& a, const LiveInterval& b) { return a.begin < b.begin; });

  PlanePool pool;
  std::vector<std::uint32_t> place(count, 0);
  std::vector<LiveInterval> active;
  std::map<std::uint32_t, std::uint32_t> scalars;  // plane of a predicate -> its scalar
  for (const LiveInterval& interval : intervals) {
    for (std::size_t i = 0; i < active.size();) {
      if (active[i].end >= interval.begin) {
        ++i;
        continue;
      }
      pool.give(place[active[i].reg], planes[active[i].reg]);
      active[i] = active.back();
      active.pop_back();
    }
    place[interval.reg] = pool.take(planes[interval.reg]);
    active.push_back(interval);
    if (of_.registers[interval.reg].predicate) {
      scalars.emplace(place[interval.reg], static_cast<std::uint32_t>(kFirstPredicate + scalars.size()));
    }
  }
  for (const std::vector<std::uint32_t>& bundle : of_.bundles) {
    for (std::uint32_t i = 1; i < bundle.size(); ++i) place[bundle[i]] = place[bundle.front()] + i;
  }
  code_.predicates = static_cast<std::uint32_t>(scalars.size());
  code_.dummy = static_cast<std::uint16_t>(pool.size());
  code_.planes = pool.size() + 1;
  if (code_.planes > arch::kMaxProgramRegisters) {
    throw InputError(SourcePos{code_.module, 0, 0},
                     fmt::format("{} needs {} registers of 32 bits at a time, and a warp has {}", code_.entry,
                                 code_.planes, arch::kMaxProgramRegisters),
                     "compile it with less unrolling (#pragma unroll 1), or divide the kernel");
  }

  const auto range = [&](std::uint32_t reg) {
    return arch::RegisterRange{static_cast<std::uint16_t>(place[reg]),
                               static_cast<std::uint16_t>(of_.registers[reg].planes)};
  };
  const auto plane = [&](PlaneRef& ref) {
    if (ref < 0) return;
    const std::uint32_t reg = of_.owner[static_cast<std::size_t>(ref)];
    ref = static_cast<PlaneRef>(place[reg]) + ref - static_cast<PlaneRef>(of_.registers[reg].first);
  };
  const auto predicate = [&](PredicateRef& ref) {
    if (ref.any()) ref.scalar = scalars.at(place[ref.scalar]);
  };
  for (std::size_t i = 0; i < of_.instructions.size(); ++i) {
    ResolvedInstruction& draft = of_.instructions[i];
    const bool warpgroup = draft.action == Action::warpgroup;
    const auto accumulates = [&](std::uint32_t reg) {
      return warpgroup && std::find(uses[i].writes.begin(), uses[i].writes.end(), reg) != uses[i].writes.end();
    };
    for (const std::uint32_t reg : uses[i].reads) {
      if (!accumulates(reg)) add_range(draft.needs.reads, range(reg));
    }
    if (!warpgroup) {
      for (const std::uint32_t reg : uses[i].writes) add_range(draft.needs.writes, range(reg));
    }
    for (PlaneRef& ref : draft.r) plane(ref);
    predicate(draft.guard);
    for (PredicateRef& ref : draft.p_in) predicate(ref);
    for (PredicateRef& ref : draft.p_out) predicate(ref);
  }
  for (BulkForm& form : code_.bulk) {
    for (BulkOperand& operand : form.operands) plane(operand.plane);
  }
  for (WarpgroupWork& work : code_.warpgroups) {
    for (PlaneRef& ref : work.accumulators) plane(ref);
  }
  for (MatrixWork& work : code_.matrices) {
    for (auto* list : {&work.to, &work.a, &work.b, &work.c}) {
      for (PlaneRef& ref : *list) plane(ref);
    }
  }
}

void CodeFinisher::note_needs() {
  for (std::size_t i = of_.instructions.size(); i-- > 0;) {
    ResolvedInstruction& draft = of_.instructions[i];
    arch::OperationNeeds& needs = draft.needs;
    if (draft.free) {
      const arch::OperationNeeds& next = of_.instructions[i + 1].needs;
      needs.code = next.code;
      needs.unit = next.unit;
      needs.accumulators = next.accumulators;
      // The SM takes the first of what is written for the result of the operation.
      const arch::OperationNeeds own = needs;
      needs.reads = next.reads;
      needs.writes = next.writes;
      for (const arch::RegisterRange& range : own.reads) add_range(needs.reads, range);
      for (const arch::RegisterRange& range : own.writes) add_range(needs.writes, range);
      continue;
    }
    needs.unit = draft.unit;
    switch (draft.action) {
      case Action::special:
        needs.writes.insert(needs.writes.begin(), arch::RegisterRange{code_.dummy, 1});
        needs.code = OpCode::special;
        break;
      case Action::machine:
        needs.code = OpCode::special;
        break;
      case Action::exit:
        needs.code = OpCode::exit;
        break;
      case Action::trap:
      case Action::table:
        needs.code = draft.action == Action::trap ? OpCode::load : OpCode::compute;
        break;
      case Action::barrier:
        needs.code = OpCode::barrier;
        break;
      case Action::access:
      case Action::control:
      case Action::mbarrier:
        needs.code = code_.accesses[draft.target].code;
        break;
      case Action::warpgroup: {
        const WarpgroupWork& work = code_.warpgroups[draft.target];
        needs.code = OpCode::matmul_async;
        needs.accumulators = {static_cast<std::uint16_t>(work.accumulators.front()),
                              static_cast<std::uint16_t>(work.accumulators.size())};
        break;
      }
      case Action::bulk:
        needs.code = code_.bulk[draft.target].code;
        break;
      default:
        needs.code = OpCode::compute;
    }
  }
}

PtxCode CodeFinisher::run() {
  reorder();
  sink_free_instructions();
  choose_waits();
  charge_ends_of_blocks();
  allocate();
  note_needs();
  code_.instructions = std::move(of_.instructions);
  code_.texts = std::move(of_.texts);
  return std::move(code_);
}

}  // namespace heddle::ptx
