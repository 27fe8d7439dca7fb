// Who waits for whom, and why: what a run without progress ends with.
#pragma once

#include <string>
#include <vector>

namespace heddle {

// Built by the blocks on request; nothing is recorded while the simulation makes progress.
class WaitGraph {
 public:
  // `who` cannot go on before `on` has: "stream a: gemm", "its place in the stream is behind", "stream a: first".
  // `room`: what it waits for is something of which the machine has only so much, and `on` has it.
  enum class For { other, room };
  void add(const std::string& who, const std::string& reason, const std::string& on, For what = For::other);

  bool empty() const { return edges_.empty(); }
  std::size_t size() const { return edges_.size(); }

  // A chain of waits, one sentence per line: a circle if there is one, otherwise the longest chain. Of several, the one
  // that was entered first. What decides comes last: what nobody in the chain waits behind, or of a circle the last
  // wait for room, if there is one. Time grows with the number of waits, not with that of the chains.
  std::vector<std::string> chain() const;

 private:
  struct Wait {
    std::string who;
    std::string reason;
    std::string on;
    For what;
  };

  std::vector<Wait> edges_;
};

// A chain as it is told: the last wait, which decides, comes first, then those behind it. Of lines that repeat those
// before but for their numbers, the first and the last are there, and how many others there are.
std::vector<std::string> told(const std::vector<std::string>& chain);

class WaitSource {
 public:
  virtual void collect_waits(WaitGraph& graph) const = 0;

 protected:
  ~WaitSource() = default;
};

// What comes of what something does, on a closer look.
enum class Course {
  round,  // it waits, or does the same again and again
  runs,   // it goes on; nobody else has seen anything of it yet
  acts,   // it has done what others can see
};

// Something whose events may go on for ever without anything coming of them.
class RunSource {
 public:
  // Looks closely from here on, or, with `false`, no longer: that takes time, and changes nothing.
  virtual void look(bool closely) = 0;
  // Of all since then.
  virtual Course course() const = 0;

 protected:
  ~RunSource() = default;
};

}  // namespace heddle
