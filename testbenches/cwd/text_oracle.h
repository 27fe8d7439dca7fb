// Where CTAs and CGAs go, as the load-balancing text has it: paragraph numbers "[0167]" are those of the text, numbers
// "CWD-16" of docs/spec/cwd.md, which decides what the text leaves open. Plain loops over SMs, one CTA at a time;
// shares nothing with the model but the numbering of SMs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/topology.h"

namespace heddle::test::text {

struct Machine {
  struct Sm {
    std::uint32_t gpc = 0;
    std::uint32_t cpc = 0;  // in its GPC
    std::uint32_t tpc = 0;  // in its GPC
    std::uint32_t bit = 0;  // of its GPC's masks
  };
  using Ids = std::vector<std::uint32_t>;
  std::vector<Sm> sms;                       // by id
  Ids ugpu_of;                               // by GPC
  Ids all_sms;                               // ids
  std::vector<Ids> sms_of_gpc;               // ids, by GPC
  std::vector<std::vector<Ids>> sms_of_cpc;  // ids, by GPC and CPC
  std::vector<Ids> sms_of_ugpu;              // ids, by uGPU
  Ids sm_rank;                               // by id: place in the order of preference, 0 first
  Ids gpc_priority;                          // most preferred first
};
Machine machine_of(const arch::Topology& topology, const std::vector<std::uint32_t>& sm_priority,
                   const std::vector<std::uint32_t>& gpc_priority);

// What the distributor knows: a model of the machine ([0194], CWD-02).
struct State {
  std::vector<std::uint32_t> slots;          // free slots, by SM id ([0139])
  std::vector<std::uint32_t> gpc_cgas_left;  // GPC_CGAs that a GPC can still hold: its counter ([0211], CWD-20)
};

// CTAs that start in the same step, or that one mask names: SM ids in the order of the CTAs' ranks.
using Step = std::vector<std::uint32_t>;

// A grid of CTAs, or CTAs of one CGA, on those SMs ([0145] to [0157]). The steps of the lake, highest level first;
// fewer CTAs than asked for if the SMs are full ([0154], [0161]).
struct Level {
  std::uint32_t free = 0;  // slots, before the CTA
  Step sms;                // in ascending order of GPC and bit
};
std::vector<Level> pour(const Machine& machine, State& state, const std::vector<std::uint32_t>& sms,
                        std::uint64_t ctas);

// What the CGAs of a grid are made of ([0117] to [0121], CWD-10).
struct Kind {
  enum class Outermost { gpc_cga, ugpu_cga, gpu_cga };
  Outermost outermost = Outermost::gpc_cga;
  std::uint32_t ugpu_cgas = 0;  // of a GPU_CGA; 0: it consists of GPC_CGAs
  std::uint32_t gpc_cgas = 1;   // of a uGPU_CGA, or of a GPU_CGA that consists of GPC_CGAs
  std::uint32_t cpc_cgas = 0;   // of a GPC_CGA; 0: it consists of CTAs
  std::uint32_t ctas = 1;       // of a CPC_CGA, or of a GPC_CGA that consists of CTAs
  bool multicast = false;

  std::uint32_t ctas_of_gpc_cga() const { return ctas * (cpc_cgas == 0 ? 1 : cpc_cgas); }
};

// A GPC_CGA that has a home.
struct GpcCga {
  std::uint64_t unit = 0;  // outermost CGA
  bool last = false;       // of its outermost CGA
  std::uint32_t gpc = 0;
  std::uint32_t speed = 0;
  std::vector<Step> masks;  // in launch order
};
// What a session without uGPU_CGAs does for its answer.
struct Effort {
  std::uint64_t queries = 0;    // times that the GPCs are asked, in both passes ([0168], [0210], [0221]), the last one
                                // too, which finds out that nothing more fits
  std::uint64_t cancelled = 0;  // valid answers that were not accepted ([0169]), without pass I
};

// Up to `units` outermost CGAs, each whole or not at all, in launch order. `state` becomes what is left.
std::vector<GpcCga> place(const Machine& machine, State& state, const Kind& kind, std::uint64_t units,
                          Effort* effort = nullptr);

// A GPU_CGA or uGPU_CGA of CTAs ([0112], [0113], [0120], CWD-09) that has a home.
struct WideCga {
  std::uint32_t ugpu = 0;  // of a uGPU_CGA
  std::uint32_t speed = 0;
  std::vector<Level> levels;
};
std::vector<WideCga> place_wide(const Machine& machine, State& state, bool within_ugpus, std::uint64_t ctas,
                                std::uint64_t units);

}  // namespace heddle::test::text
