// Who waits for whom, and why: what a run without progress ends with.
#pragma once

#include <string>
#include <vector>

namespace heddle {

// Built by the blocks on request; nothing is recorded while the simulation makes progress.
class WaitGraph {
 public:
  // `who` cannot go on before `on` has: "stream a: gemm", "its place in the stream is behind", "stream a: first".
  void add(const std::string& who, const std::string& reason, const std::string& on);

  bool empty() const { return edges_.empty(); }
  std::size_t size() const { return edges_.size(); }

  // A chain of waits, one sentence per line: a circle if there is one, otherwise the longest chain. Of several, the one
  // that was entered first. Time grows with the number of waits, not with that of the chains.
  std::vector<std::string> chain() const;

 private:
  struct Wait {
    std::string who;
    std::string reason;
    std::string on;
  };

  std::vector<Wait> edges_;
};

class WaitSource {
 public:
  virtual void collect_waits(WaitGraph& graph) const = 0;

 protected:
  ~WaitSource() = default;
};

}  // namespace heddle
