// Which of several domains (GPCs, uGPUs) that could take a CGA receive one (CWD-13). To add one:
// docs/howto/add-a-placement-policy.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace heddle::cwd {

struct DomainAnswer {
  bool valid = false;       // a CGA fits
  std::uint32_t speed = 0;  // then: the fewest free slots that would remain on an SM that receives a CTA (CWD-12)
};

class DomainPolicy {
 public:
  virtual ~DomainPolicy() = default;
  // Appends to `chosen` the domains that receive a CGA in this step, in the order in which CGAs go to them: between one
  // and `cgas` (1 or more) of those whose answer is valid, none twice. Nothing only if no answer is valid. `priority`:
  // all domains, most preferred first. Has no state: the same answers give the same choice.
  virtual void choose(const std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& priority,
                      std::uint64_t cgas, std::vector<std::uint32_t>& chosen) const = 0;
  // Whether domains that answer alike all receive a CGA in one step, if there are enough: such a step, cut off by a
  // session's limit, goes on in the next session (CWD-13).
  virtual bool serves_ties() const { return false; }
};

// A policy by name. Throws InputError with the nearest name.
std::unique_ptr<DomainPolicy> make_domain_policy(const std::string& name);
// All of them: name, and a line of description.
std::vector<std::pair<std::string, std::string>> domain_policies();

}  // namespace heddle::cwd
