// Which of several domains (GPCs, uGPUs, CPCs) that could take a CGA receive one (CWD-13). To add one:
// docs/howto/add-a-placement-policy.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arch/cluster.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

struct DomainAnswer {
  bool valid = false;       // a CGA fits
  std::uint32_t speed = 0;  // then: the fewest free slots that would remain on an SM that receives a CTA (CWD-12)
  std::uint32_t free = 0;   // slots left on all SMs of the domain, before the CGA takes its own
};

// What a policy sees when CGAs are to be given out.
struct DomainView {
  const std::vector<DomainAnswer>& answers;    // by domain
  const std::vector<std::uint32_t>& priority;  // all domains, most preferred first
  std::uint64_t cgas = 1;                      // that remain to be placed, 1 or more
  std::uint32_t ctas = 1;                      // of one of them, as far as one GPC must hold it
  arch::CgaLevel level = arch::CgaLevel::gpc;  // what the domains are
  std::uint32_t within = 0;                    // the GPC that the CPCs are part of; of other domains: 0
  const protocol::WaitingWork& waiting = protocol::kNothingWaits;  // behind the task whose CGAs these are
};

class DomainPolicy {
 public:
  virtual ~DomainPolicy() = default;
  // Appends to `chosen` the domains that receive a CGA in this step, in the order in which CGAs go to them: between one
  // and `cgas` of those whose answer is valid, none twice. Nothing only if no answer is valid. A policy may remember
  // what it has chosen; the same object is asked about all levels, and a choice between CPCs, or one of the first pass
  // of a GPU_CGA, may come to nothing.
  virtual void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) = 0;
  // Whether domains that answer alike all receive a CGA in one step, if there are enough: such a step, cut off by a
  // session's limit, goes on in the next session (CWD-13).
  virtual bool serves_ties() const { return false; }
  // Forgets what it remembers.
  virtual void reset() {}
};

// Of domains that tie, those that a session's limit has cut off come first in the task's next session, so that limits
// change the time and not the places (CWD-13). Domains are GPCs, or uGPUs for uGPU_CGAs.
class CutTies {
 public:
  // `last`: what the session before noted.
  void begin(const std::optional<protocol::CutTie>& last) {
    last_ = last;
    noted_.reset();
  }
  // Before the first choice of a session: makes all answers invalid but those of the tie that is to go on. Nothing
  // happens if a domain has become faster by what was freed in between, or none of those is left.
  void narrow(std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& priority);
  // The chosen ones use up what the session may place: notes whether others tied with the last of them.
  void note(const std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& chosen);
  const std::optional<protocol::CutTie>& noted() const { return noted_; }

 private:
  std::optional<protocol::CutTie> last_;
  std::optional<protocol::CutTie> noted_;
};

// A policy by name. Throws InputError with the nearest name.
std::unique_ptr<DomainPolicy> make_domain_policy(const std::string& name);
// All of them: name, and a line of description.
std::vector<std::pair<std::string, std::string>> domain_policies();

}  // namespace heddle::cwd
