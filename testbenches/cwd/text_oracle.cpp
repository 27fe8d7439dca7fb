#include "cwd/text_oracle.h"

#include <algorithm>
#include <limits>
#include <map>

namespace heddle::test::text {

namespace {

using Ids = std::vector<std::uint32_t>;

// What a domain answers to the query for one CGA: [0167], CWD-12.
struct Answer {
  bool valid = false;
  std::uint32_t speed = 0;
};

// By GPC and bit: the order in which a mask names CTAs, the least significant bit first (CWD-31).
void sort_by_bit(const Machine& machine, Ids& sms) {
  std::sort(sms.begin(), sms.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Machine::Sm& left = machine.sms[a];
    const Machine::Sm& right = machine.sms[b];
    return left.gpc != right.gpc ? left.gpc < right.gpc : left.bit < right.bit;
  });
}

// A CTA is scheduled on the SM with most free slots ([0153]); between equals the predetermined priority of the SMs
// decides, which is any order ([0157], CWD-05). Nothing if no SM has a free slot: never more CTAs than an SM can take
// ([0154]).
std::optional<std::uint32_t> most_free(const Machine& machine, const State& state, const Ids& sms) {
  std::optional<std::uint32_t> best;
  for (const std::uint32_t sm : sms) {
    if (state.slots[sm] == 0) continue;
    const bool better = !best || state.slots[sm] > state.slots[*best] ||
                        (state.slots[sm] == state.slots[*best] && machine.sm_rank[sm] < machine.sm_rank[*best]);
    if (better) best = sm;
  }
  return best;
}

// Load-balancing mode: the least loaded SM of the GPC, wherever; several CTAs of one CGA may share an SM ([0141],
// [0213], CWD-15). The SMs of the CTAs, in the order of placing; fewer than `ctas` if there are not enough slots.
Ids balance(const Machine& machine, State& state, const Ids& sms, std::uint32_t ctas) {
  Ids placed;
  while (placed.size() < ctas) {
    const std::optional<std::uint32_t> sm = most_free(machine, state, sms);
    if (!sm) break;
    --state.slots[*sm];
    placed.push_back(*sm);
  }
  return placed;
}

// Multicast mode: "a load-balancing mode with one restriction", one CTA of this CGA per SM ([0142]). CTAs are scheduled
// first on partitions all of whose SMs can take one, then on those of which one can ([0214]); the partition is the TPC.
// Load balancing ranks the TPCs of a class: the first by the smaller of the two free counts, the second by that of its
// usable SM, ties by SM priority; the last CTA of an odd CGA takes the SM of the next TPC that has more free slots
// (CWD-16).
//
// Readings: a TPC of one SM is of the second class, as CWD-16 says "both". The priority of a TPC is that of its most
// preferred usable SM; the same decides where the last CTA of an odd CGA finds two SMs with the same number of slots.
// `taken`: SMs that have a CTA of this CGA.
Ids spread(const Machine& machine, State& state, const Ids& sms, const Ids& taken, std::uint32_t ctas) {
  const auto usable = [&](std::uint32_t sm) {
    return state.slots[sm] > 0 && std::find(taken.begin(), taken.end(), sm) == taken.end();
  };
  // The SMs that can take a CTA of the CGA, by TPC.
  std::map<std::uint32_t, Ids> tpcs;
  for (const std::uint32_t sm : sms) {
    if (usable(sm)) tpcs[machine.sms[sm].tpc].push_back(sm);
  }
  struct Candidate {
    Ids sms;  // most free slots first, then by priority
    std::uint32_t least = 0;
    std::uint32_t rank = 0;
  };
  std::vector<Candidate> pairs;
  std::vector<Candidate> singles;
  for (const auto& [tpc, members] : tpcs) {
    Candidate candidate;
    candidate.sms = members;
    std::sort(candidate.sms.begin(), candidate.sms.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (state.slots[a] != state.slots[b]) return state.slots[a] > state.slots[b];
      return machine.sm_rank[a] < machine.sm_rank[b];
    });
    candidate.least = state.slots[candidate.sms.back()];
    candidate.rank = std::numeric_limits<std::uint32_t>::max();
    for (const std::uint32_t sm : members) {
      candidate.rank = std::min(candidate.rank, machine.sm_rank[sm]);
    }
    (members.size() == 2 ? pairs : singles).push_back(candidate);
  }
  Ids placed;
  for (std::vector<Candidate>* const klass : {&pairs, &singles}) {
    std::sort(klass->begin(), klass->end(), [](const Candidate& a, const Candidate& b) {
      return a.least != b.least ? a.least > b.least : a.rank < b.rank;
    });
    for (const Candidate& candidate : *klass) {
      for (const std::uint32_t sm : candidate.sms) {
        if (placed.size() == ctas) return placed;
        --state.slots[sm];
        placed.push_back(sm);
      }
    }
  }
  return placed;
}

// The masks of a CGA are made from the launch registers, which count its CTAs on every SM ([0194]): one mask names
// every SM that receives a CTA, further ones those that receive more than one (CWD-31).
std::vector<Step> masks_from_counts(const Machine& machine, const Ids& placed) {
  std::map<std::uint32_t, std::uint32_t> launches;  // by SM id
  for (const std::uint32_t sm : placed) ++launches[sm];
  std::vector<Step> masks;
  for (std::uint32_t n = 0;; ++n) {
    Step mask;
    for (const auto& [sm, count] : launches) {
      if (count > n) mask.push_back(sm);
    }
    if (mask.empty()) return masks;
    sort_by_bit(machine, mask);
    masks.push_back(mask);
  }
}

// Fewest free slots left on an SM that received one of the CTAs: the speed ([0167], CWD-12).
std::uint32_t least_left(const State& state, const Ids& placed) {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t sm : placed) least = std::min(least, state.slots[sm]);
  return least;
}

// One CGA on the SMs of a GPC or CPC: the model of the domain "does its best to send the CTAs to SMs" and answers
// failure if it does not find enough free slots ([0167]). All CTAs or none ([0123], CWD-11).
Answer launch_on_sms(const Machine& machine, State& state, const Ids& sms, const Kind& kind, Ids& taken,
                     std::vector<Step>& masks) {
  State trial = state;
  const Ids placed =
      kind.multicast ? spread(machine, trial, sms, taken, kind.ctas) : balance(machine, trial, sms, kind.ctas);
  if (placed.size() < kind.ctas) return {};
  state = trial;
  taken.insert(taken.end(), placed.begin(), placed.end());
  for (const Step& mask : masks_from_counts(machine, placed)) masks.push_back(mask);
  return {true, least_left(state, placed)};
}

// One GPC_CGA on one GPC. `state` changes only if it finds a home.
//
// Of CPC_CGAs ([0169], CWD-17): the GPC asks every CPC for the speed of a CPC_CGA and gives one to the fastest (ties by
// priority), until all have a home. Readings: CPCs are preferred in ascending order. Its speed is the smallest,
// "because that is the slowest CTA's"; the text takes that for the speed of the last query, and where the two differ
// (multicast: the pairs come first although a single SM has more slots) the reason decides. In multicast mode the
// restriction holds for the GPC_CGA, not only for each of its CPC_CGAs: [0140] gives the modes to the distribution
// inside a GPC, [0142] allows "only one CTA from this CGA". The masks of different CGAs do not interleave ([0194],
// CWD-30), of CPC_CGAs neither: ranks of CTAs in the GPC_CGA follow its CPC_CGAs.
Answer launch_on_gpc(const Machine& machine, State& state, std::uint32_t gpc, const Kind& kind,
                     std::vector<Step>& masks) {
  masks.clear();
  // The counter of GPC_CGAs that this GPC can hold ([0211], CWD-20).
  if (state.gpc_cgas_left[gpc] == 0) return {};
  State trial = state;
  Ids taken;
  Answer answer;
  if (kind.cpc_cgas == 0) {
    answer = launch_on_sms(machine, trial, machine.sms_of_gpc[gpc], kind, taken, masks);
    if (!answer.valid) return {};
  } else {
    answer = {true, std::numeric_limits<std::uint32_t>::max()};
    for (std::uint32_t n = 0; n < kind.cpc_cgas; ++n) {
      std::optional<std::uint32_t> fastest;
      std::uint32_t speed = 0;
      for (std::uint32_t cpc = 0; cpc < machine.sms_of_cpc[gpc].size(); ++cpc) {
        State query = trial;
        Ids query_taken = taken;
        std::vector<Step> unused;
        const Answer of_cpc = launch_on_sms(machine, query, machine.sms_of_cpc[gpc][cpc], kind, query_taken, unused);
        if (of_cpc.valid && (!fastest || of_cpc.speed > speed)) {
          fastest = cpc;
          speed = of_cpc.speed;
        }
      }
      if (!fastest) return {};
      launch_on_sms(machine, trial, machine.sms_of_cpc[gpc][*fastest], kind, taken, masks);
      answer.speed = std::min(answer.speed, speed);
    }
  }
  --trial.gpc_cgas_left[gpc];
  state = trial;
  return answer;
}

// The GPCs of a uGPU, or of the GPU, in the order of preference (CWD-13).
Ids gpcs_of(const Machine& machine, std::optional<std::uint32_t> ugpu) {
  Ids gpcs;
  for (const std::uint32_t gpc : machine.gpc_priority) {
    if (!ugpu || machine.ugpu_of[gpc] == *ugpu) gpcs.push_back(gpc);
  }
  return gpcs;
}

// Query and launch ([0168], [0205], CWD-14): every GPC is asked for the speed of a GPC_CGA; it goes to the fastest, and
// GPCs of the same greatest speed receive one each in the same step ([0171]; CWD-13: while CGAs remain, in the order of
// preference). Again, until the GPC_CGAs or the slots run out. Reading: the constituents of a GPU_CGA too, of which
// [0220] says "one by one" and [0221] "repeat query and launch": CWD-13 makes no difference between them.
std::vector<GpcCga> query_and_launch(const Machine& machine, State& state, const Ids& gpcs, const Kind& kind,
                                     std::uint64_t cgas, Effort& effort) {
  std::vector<GpcCga> placed;
  while (placed.size() < cgas) {
    ++effort.queries;
    std::map<std::uint32_t, Answer> answers;  // by GPC
    std::uint32_t greatest = 0;
    std::uint64_t valid = 0;
    for (const std::uint32_t gpc : gpcs) {
      State query = state;  // what is not accepted is cancelled ([0169])
      std::vector<Step> unused;
      answers[gpc] = launch_on_gpc(machine, query, gpc, kind, unused);
      if (!answers[gpc].valid) continue;
      ++valid;
      greatest = std::max(greatest, answers[gpc].speed);
    }
    if (valid == 0) break;
    const std::size_t before = placed.size();
    for (const std::uint32_t gpc : gpcs) {
      if (placed.size() == cgas) break;
      if (!answers[gpc].valid || answers[gpc].speed < greatest) continue;
      GpcCga cga;
      cga.gpc = gpc;
      cga.speed = launch_on_gpc(machine, state, gpc, kind, cga.masks).speed;
      placed.push_back(cga);
    }
    effort.cancelled += valid - (placed.size() - before);
  }
  return placed;
}

// Pass I ([0207] to [0210], CWD-18): "check that all constituent GPC_CGAs will find a home". Every GPC answers for one
// GPC_CGA after another, its launch slots off its free slots; the valid answers are counted until there are enough. On
// a copy of the state: pass II begins with a reset of the launch slots ([0218]).
bool all_find_homes(const Machine& machine, State shadow, const Ids& gpcs, const Kind& kind, Effort& effort) {
  std::uint64_t counter = 0;
  while (counter < kind.gpc_cgas) {
    ++effort.queries;
    std::uint64_t valid = 0;
    for (const std::uint32_t gpc : gpcs) {
      std::vector<Step> unused;
      if (launch_on_gpc(machine, shadow, gpc, kind, unused).valid) ++valid;
    }
    if (valid == 0) return false;
    counter += valid;
  }
  return true;
}

// One CGA of GPC_CGAs on the GPCs of its domain, in two passes ([0206] to [0221], CWD-18, CWD-19). Empty, and nothing
// has changed, if not all its GPC_CGAs find homes.
std::vector<GpcCga> launch_in_domain(const Machine& machine, State& state, const Ids& gpcs, const Kind& kind,
                                     Effort& effort) {
  if (!all_find_homes(machine, state, gpcs, kind, effort)) return {};
  return query_and_launch(machine, state, gpcs, kind, kind.gpc_cgas, effort);
}

// On a uGPU. The steps of uGPUs, which ask at the same time, are not counted.
std::vector<GpcCga> launch_in_ugpu(const Machine& machine, State& state, std::uint32_t ugpu, const Kind& kind) {
  Effort effort;
  return launch_in_domain(machine, state, gpcs_of(machine, ugpu), kind, effort);
}

// Of the GPC_CGAs of a uGPU_CGA: the slowest one's ([0167], [0169]).
std::uint32_t slowest(const std::vector<GpcCga>& parts) {
  std::uint32_t speed = std::numeric_limits<std::uint32_t>::max();
  for (const GpcCga& part : parts) speed = std::min(speed, part.speed);
  return speed;
}

// uGPU_CGAs over uGPUs: a further level above the GPCs ([0198]), and every level does as the others ([0169], [0199]):
// the uGPUs are asked for the speed of a uGPU_CGA, the fastest ones receive one each. Reading: uGPUs are preferred in
// ascending order. One element per uGPU_CGA that has found a home.
std::vector<std::vector<GpcCga>> place_ugpu_cgas(const Machine& machine, State& state, const Kind& kind,
                                                 std::uint64_t cgas) {
  std::vector<std::vector<GpcCga>> placed;
  while (placed.size() < cgas) {
    std::vector<Answer> answers(machine.sms_of_ugpu.size());
    std::uint32_t greatest = 0;
    bool any = false;
    for (std::uint32_t ugpu = 0; ugpu < machine.sms_of_ugpu.size(); ++ugpu) {
      State query = state;
      const std::vector<GpcCga> parts = launch_in_ugpu(machine, query, ugpu, kind);
      if (parts.empty()) continue;
      answers[ugpu] = {true, slowest(parts)};
      any = true;
      greatest = std::max(greatest, answers[ugpu].speed);
    }
    if (!any) break;
    for (std::uint32_t ugpu = 0; ugpu < machine.sms_of_ugpu.size(); ++ugpu) {
      if (placed.size() == cgas) break;
      if (!answers[ugpu].valid || answers[ugpu].speed < greatest) continue;
      placed.push_back(launch_in_ugpu(machine, state, ugpu, kind));
    }
  }
  return placed;
}

// Pass I of a GPU_CGA of uGPU_CGAs: as for one of GPC_CGAs, a level higher ([0199]).
bool all_ugpu_cgas_find_homes(const Machine& machine, State shadow, const Kind& kind) {
  std::uint64_t counter = 0;
  while (counter < kind.ugpu_cgas) {
    std::uint64_t valid = 0;
    for (std::uint32_t ugpu = 0; ugpu < machine.sms_of_ugpu.size(); ++ugpu) {
      if (!launch_in_ugpu(machine, shadow, ugpu, kind).empty()) ++valid;
    }
    if (valid == 0) return false;
    counter += valid;
  }
  return true;
}

std::vector<GpcCga> launch_gpu_cga_of_ugpu_cgas(const Machine& machine, State& state, const Kind& kind) {
  std::vector<GpcCga> all;
  if (!all_ugpu_cgas_find_homes(machine, state, kind)) return all;
  for (const std::vector<GpcCga>& parts : place_ugpu_cgas(machine, state, kind, kind.ugpu_cgas)) {
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

// The CTAs of a CGA over a whole domain: as a plain grid's over its SMs, all or none (CWD-09; [0133], [0161]).
std::optional<WideCga> launch_wide(const Machine& machine, State& state, const Ids& sms, std::uint64_t ctas) {
  State trial = state;
  WideCga cga;
  cga.levels = pour(machine, trial, sms, ctas);
  std::uint64_t placed = 0;
  cga.speed = std::numeric_limits<std::uint32_t>::max();
  for (const Level& level : cga.levels) {
    placed += level.sms.size();
    cga.speed = std::min(cga.speed, least_left(trial, level.sms));
  }
  if (placed < ctas) return std::nullopt;
  state = trial;
  return cga;
}

}  // namespace

Machine machine_of(const arch::Topology& topology, const std::vector<std::uint32_t>& sm_priority,
                   const std::vector<std::uint32_t>& gpc_priority) {
  Machine machine;
  machine.sms_of_gpc.resize(topology.gpcs());
  machine.sms_of_cpc.resize(topology.gpcs());
  machine.sms_of_ugpu.resize(topology.ugpus());
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    machine.ugpu_of.push_back(topology.ugpu_of(gpc));
    machine.sms_of_cpc[gpc].resize(topology.gpc(gpc).cpcs);
  }
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const arch::Topology::Sm& sm = topology.sm(id);
    machine.sms.push_back({sm.gpc, sm.cpc, sm.tpc, sm.in_gpc});
    machine.all_sms.push_back(id);
    machine.sms_of_gpc[sm.gpc].push_back(id);
    machine.sms_of_cpc[sm.gpc][sm.cpc].push_back(id);
    machine.sms_of_ugpu[topology.ugpu_of(sm.gpc)].push_back(id);
  }
  machine.sm_rank.resize(topology.sms());
  for (std::uint32_t rank = 0; rank < sm_priority.size(); ++rank) machine.sm_rank[sm_priority[rank]] = rank;
  machine.gpc_priority = gpc_priority;
  return machine;
}

// The levels are what one CTA after another yields: all that meet the same number of free slots start in one step
// ([0156], [0159], CWD-03).
std::vector<Level> pour(const Machine& machine, State& state, const std::vector<std::uint32_t>& sms,
                        std::uint64_t ctas) {
  std::vector<Level> levels;
  for (std::uint64_t n = 0; n < ctas; ++n) {
    const std::optional<std::uint32_t> sm = most_free(machine, state, sms);
    if (!sm) break;
    if (levels.empty() || levels.back().free != state.slots[*sm]) levels.push_back({state.slots[*sm], {}});
    levels.back().sms.push_back(*sm);
    --state.slots[*sm];
  }
  for (Level& level : levels) sort_by_bit(machine, level.sms);
  return levels;
}

// A CGA that finds no home ends the session: those after it are the same and find none either ([0161], [0168], [0210],
// CWD-21).
std::vector<GpcCga> place(const Machine& machine, State& state, const Kind& kind, std::uint64_t units, Effort* effort) {
  std::vector<GpcCga> placed;
  Effort sum;
  std::uint64_t unit = 0;
  const auto append = [&](std::vector<GpcCga> parts) {
    for (GpcCga& part : parts) {
      part.unit = unit;
      placed.push_back(part);
    }
    placed.back().last = true;
    ++unit;
  };
  switch (kind.outermost) {
    case Kind::Outermost::gpc_cga:
      for (const GpcCga& cga : query_and_launch(machine, state, gpcs_of(machine, std::nullopt), kind, units, sum)) {
        append({cga});
      }
      break;
    case Kind::Outermost::ugpu_cga:
      for (const std::vector<GpcCga>& parts : place_ugpu_cgas(machine, state, kind, units)) append(parts);
      break;
    case Kind::Outermost::gpu_cga:
      while (unit < units) {
        const std::vector<GpcCga> parts =
            kind.ugpu_cgas == 0 ? launch_in_domain(machine, state, gpcs_of(machine, std::nullopt), kind, sum)
                                : launch_gpu_cga_of_ugpu_cgas(machine, state, kind);
        if (parts.empty()) break;
        append(parts);
      }
      break;
  }
  if (effort != nullptr) *effort = sum;
  return placed;
}

// uGPU_CGAs go to the fastest uGPUs, as in place_ugpu_cgas.
std::vector<WideCga> place_wide(const Machine& machine, State& state, bool within_ugpus, std::uint64_t ctas,
                                std::uint64_t units) {
  std::vector<WideCga> placed;
  while (placed.size() < units) {
    if (!within_ugpus) {
      const std::optional<WideCga> cga = launch_wide(machine, state, machine.all_sms, ctas);
      if (!cga) break;
      placed.push_back(*cga);
      continue;
    }
    std::vector<Answer> answers(machine.sms_of_ugpu.size());
    std::uint32_t greatest = 0;
    bool any = false;
    for (std::uint32_t ugpu = 0; ugpu < machine.sms_of_ugpu.size(); ++ugpu) {
      State query = state;
      const std::optional<WideCga> cga = launch_wide(machine, query, machine.sms_of_ugpu[ugpu], ctas);
      if (!cga) continue;
      answers[ugpu] = {true, cga->speed};
      any = true;
      greatest = std::max(greatest, cga->speed);
    }
    if (!any) break;
    for (std::uint32_t ugpu = 0; ugpu < machine.sms_of_ugpu.size(); ++ugpu) {
      if (placed.size() == units) break;
      if (!answers[ugpu].valid || answers[ugpu].speed < greatest) continue;
      placed.push_back(*launch_wide(machine, state, machine.sms_of_ugpu[ugpu], ctas));
      placed.back().ugpu = ugpu;
    }
  }
  return placed;
}

}  // namespace heddle::test::text
