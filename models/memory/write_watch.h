// Lines of memory that somebody waits for (PKT-14): who has read one with a number of his own is told once when it may
// have changed since. The slices of the L2 see every write, and every way past them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

class WriteWatch : public Block {
 public:
  // `latency`: cycles from a slice to who is told.
  WriteWatch(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, Cycle latency)
      : Block(name, domain, path),
        written_out("written_out", domain, latency, kUnlimitedCredits),
        told_(counter("told", "lines", "writes to lines that somebody watched")) {}

  PacketOut<protocol::WrittenPacket> written_out;  // unbound: nobody watches

  // `watch`, which is not 0, reads the line now.
  void add(std::uint64_t line, std::uint64_t watch) {
    HEDDLE_CHECK(watch != 0 && written_out.links() > 0, "somebody watches memory who cannot be told");
    std::vector<std::uint64_t>& numbers = lines_[line];
    if (std::find(numbers.begin(), numbers.end(), watch) == numbers.end()) numbers.push_back(watch);
  }
  // Asked before every write of the machine.
  bool any() const { return !lines_.empty(); }
  // Something of these lines changes, or can from now on without being seen here: a page is given away as a pointer.
  // May be said of a write more often than once, as long as it is said no later than the write is done.
  void written(std::uint64_t first, std::uint64_t last) {
    const auto begin = lines_.lower_bound(first);
    const auto end = lines_.upper_bound(last);
    for (auto line = begin; line != end; ++line) {
      for (const std::uint64_t watch : line->second) {
        told_.add();
        written_out.send({watch});
      }
    }
    lines_.erase(begin, end);
  }

  void on_event(std::uint32_t, std::uint64_t) override {}
  void reset() override { lines_.clear(); }
  void collect_waits(WaitGraph&) const override {}

 private:
  std::map<std::uint64_t, std::vector<std::uint64_t>> lines_;  // line -> numbers
  Counter& told_;
};

}  // namespace heddle::memory
