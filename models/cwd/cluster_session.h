// The session of the GPU2GPC unit: finds homes for the CGAs of one grid, GPC by GPC, without starting anything
// (CWD-13, 14, 18, 19). It decides; the GPC models answer and reserve. Whoever drives it carries commands to the models
// and answers back: in zero time (cluster_place.h), or over links and with timing (the shells).
//
// A GPC's answer stands, here and at its model, until the GPC's registers change: who was not chosen in a step is not
// asked again. In the same way a uGPU_CGA that a uGPU has reserved speculatively stands until the uGPU is chosen or the
// session ends. What still stands then is given back. Between the passes of a GPU_CGA the launch-slot registers are
// reset, so that no answer of pass I stands in pass II: every GPC_CGA is asked for again (CWD-19).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "cwd/domain_policy.h"
#include "cwd/gpc_model.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

// What a session is to place: `units` outermost CGAs, each of `ugpu_cgas` uGPU_CGAs (0: no such level) of `gpc_cgas`
// GPC_CGAs. A grid of GPC_CGAs: ugpu_cgas = 0, gpc_cgas = 1, single = true; a grid of uGPU_CGAs: ugpu_cgas = 1.
struct SessionRequest {
  std::uint64_t units = 1;      // outermost CGAs that remain, clamped to the session's limit (CWD-23)
  bool single = true;           // the outermost CGA is a GPC_CGA
  std::uint32_t ugpu_cgas = 0;  // per outermost CGA; then each lies within one uGPU
  std::uint32_t gpc_cgas = 1;   // per uGPU_CGA or, without that level, per GPU_CGA
  std::uint32_t ctas = 1;       // per GPC_CGA
  protocol::WaitingWork waiting{};
  // That the limit of the session before cut off (CWD-13).
  std::optional<protocol::CutTie> tie{};
};

enum class Act : std::uint8_t {
  reserve,  // the CGA of the last answer
  cancel,   // the CGA of the last answer: it is not wanted any more
  revert,   // all that was reserved since the last accept
  accept,   // all that was reserved since the last accept stays
  query,    // answer() is expected for each of these GPCs before the next step
};

struct Command {
  Act act = Act::query;
  std::uint32_t gpc = 0;
};

// One GPC_CGA that has a place. In the order of launching.
struct Home {
  std::uint64_t unit = 0;  // outermost CGA of the session, from 0
  std::uint32_t gpc = 0;
  std::uint32_t nth = 0;  // of the GPC's accepted reservations since begin, from 0
  std::uint32_t speed = 0;
  bool last = false;  // of its unit
};

// By GPC, as a session wants to know it.
std::vector<std::uint32_t> ugpus_of(const arch::Topology& topology);

// What a session knows of the models of the GPCs, and the commands of its next step.
class GpcOrders {
 public:
  explicit GpcOrders(std::size_t gpcs) : gpcs_(gpcs) {}

  void begin() { std::fill(gpcs_.begin(), gpcs_.end(), Gpc{}); }
  // All questions have been answered.
  void start_step();
  const std::vector<Command>& commands() const { return commands_; }

  // Asks those of whom no answer stands. True if answers are on their way.
  bool ask(const std::vector<std::uint32_t>& gpcs);
  void answer(std::uint32_t gpc, const DomainAnswer& answer);
  const DomainAnswer& answer_of(std::uint32_t gpc) const { return gpcs_[gpc].answer; }

  void reserve(std::uint32_t gpc);
  void accept(std::uint32_t gpc);
  // The CGA of the answer, if one stands, is not wanted any more.
  void cancel(std::uint32_t gpc);
  // All that is reserved and not accepted.
  void revert(std::uint32_t gpc);
  bool reserves(std::uint32_t gpc) const { return gpcs_[gpc].reserved > 0; }
  // Number of the GPC's next accepted reservation (Home::nth).
  std::uint32_t next_home(std::uint32_t gpc) { return gpcs_[gpc].accepted++; }

 private:
  struct Gpc {
    DomainAnswer answer;
    bool asked = false;          // the answer is on its way
    bool known = false;          // the answer stands
    std::uint32_t reserved = 0;  // not accepted
    std::uint32_t accepted = 0;  // since begin
  };
  std::vector<Gpc> gpcs_;
  std::vector<Command> commands_;
};

class ClusterSession {
 public:
  // `gpc_priority`: most preferred first; uGPUs are asked in ascending order. `ugpu_of`: by GPC. The policy must
  // outlive the session.
  ClusterSession(const std::vector<std::uint32_t>& ugpu_of, std::vector<std::uint32_t> gpc_priority,
                 DomainPolicy& policy);

  void begin(const SessionRequest& request);
  // Forgets the session that runs, if any; what models have reserved for it is theirs to forget.
  void reset() { over_ = true; }
  // The next step: commands to carry out, those of one GPC in this order: of each kind at most one, in the order of
  // Act. All GPCs carry out theirs in parallel. Empty: the session is over.
  const std::vector<Command>& step();
  void answer(std::uint32_t gpc, const DomainAnswer& answer) { orders_.answer(gpc, answer); }

  // Grows with every unit that has found places for all its GPC_CGAs; never a part of one. Once the session is over:
  // all of `units`, or fewer.
  const std::vector<Home>& homes() const { return homes_; }
  std::uint64_t placed() const { return placed_; }           // units
  std::uint32_t queries() const { return effort_.queries; }  // steps with a query
  // Levels of the tree that compares answers: of all GPCs or, in parallel, of those of each uGPU (CWD-13). And of the
  // trees in which the last step compared uGPUs, or added up what pass I had counted in them.
  std::uint32_t gpc_levels() const;
  std::uint32_t ugpu_levels() const { return ugpu_levels_; }
  // Valid answers that were not accepted, over all steps: another domain was faster, or CGAs had run out (CWD-13).
  std::uint32_t cancelled() const { return effort_.cancelled; }
  // Choices of a domain while another one that had room had more speed: where the policy `fastest` chooses otherwise.
  std::uint32_t slower() const { return effort_.slower; }
  // The tie in which the session's units ran out, if one was cut off (CWD-13).
  const std::optional<protocol::CutTie>& cut_tie() const { return ties_.noted(); }

 private:
  struct Place {
    std::uint32_t gpc = 0;
    std::uint32_t speed = 0;
  };
  enum class Phase { counting, placing, ready, out };
  // A uGPU, or the whole GPU where the grid has no uGPU_CGAs: holds `gpc_cgas` GPC_CGAs at a time.
  struct Arena {
    std::vector<std::uint32_t> gpcs;
    Phase phase = Phase::counting;
    std::uint64_t counted = 0;  // GPC_CGAs in pass I
    std::vector<Place> places;  // pass II: reserved and not accepted, in order
    std::uint32_t speed = 0;    // the smallest of theirs

    void restart() {
      counted = 0;
      places.clear();
      speed = std::numeric_limits<std::uint32_t>::max();
    }
  };
  enum class Count { asking, enough, too_few };

  bool place_single();
  bool place_units();
  bool advance(Arena& arena);
  Count count(std::size_t first, std::size_t end, std::uint64_t parts);
  bool choose_arenas();
  void complete_unit();
  void keep(Arena& arena);
  void give_back(Arena& arena);
  void give_back_all();
  void start_pass_two(Arena& arena);

  // What the choice is of: outermost CGAs, of which the session's limit leaves so many, or parts of one.
  enum class Of : std::uint8_t { units, parts };
  void choose_gpcs(const std::vector<std::uint32_t>& gpcs, std::uint64_t cgas, Of of);
  void choose(const std::vector<std::uint32_t>& priority, std::uint64_t cgas, arch::CgaLevel level, Of of);
  std::vector<std::uint32_t> gpc_priority_;
  DomainPolicy& policy_;
  GpcOrders orders_;
  std::vector<Arena> ugpus_;
  std::vector<Arena> whole_;  // one arena: all GPCs
  std::vector<Arena>* arenas_ = &whole_;
  std::vector<std::uint32_t> arena_priority_;

  SessionRequest request_;
  bool over_ = true;
  bool unit_open_ = false;        // a GPU_CGA of uGPU_CGAs is in pass II
  std::uint32_t parts_done_ = 0;  // its uGPU_CGAs that have places
  std::vector<Home> unit_homes_;
  std::vector<Home> homes_;
  std::uint64_t placed_ = 0;
  std::uint32_t ugpu_levels_ = 0;
  struct Effort {
    std::uint32_t queries = 0;
    std::uint32_t cancelled = 0;
    std::uint32_t slower = 0;
  };
  Effort effort_;
  CutTies ties_;
  std::vector<DomainAnswer> answers_;
  std::vector<std::uint32_t> chosen_;
};

// All masks of one GPC_CGA.
struct CgaMasks {
  std::uint32_t gpc = 0;
  std::uint64_t unit = 0;
  bool last = false;  // GPC_CGA of its outermost CGA
  std::vector<std::uint64_t> masks;
};

}  // namespace heddle::cwd
