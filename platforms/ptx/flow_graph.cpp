#include "ptx/flow_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace heddle::ptx {
namespace {

constexpr std::uint32_t kNoBlock = ~std::uint32_t{0};

bool ends_block(const ResolvedInstruction& instruction) {
  return instruction.action == Action::branch || instruction.action == Action::table ||
         instruction.action == Action::exit;
}
bool falls_through(const ResolvedInstruction& instruction) {
  return !ends_block(instruction) || instruction.guard.any();
}

}  // namespace

FlowGraph::FlowGraph(const std::vector<ResolvedInstruction>& code,
                     const std::vector<std::vector<std::uint32_t>>& tables) {
  std::vector<std::uint8_t> leads(code.size() + 1, 0);
  leads[0] = 1;
  const auto targets = [&](const ResolvedInstruction& instruction) {
    if (instruction.action == Action::table) return tables[instruction.target];
    if (instruction.action == Action::branch) return std::vector<std::uint32_t>{instruction.target};
    return std::vector<std::uint32_t>{};
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!ends_block(code[i])) continue;
    leads[i + 1] = 1;
    if (code[i].action == Action::table) leads[i] = 1;  // lanes come back to it
    for (const std::uint32_t target : targets(code[i])) leads[target] = 1;
  }
  block_of_.resize(code.size());
  for (std::uint32_t i = 0; i < code.size(); ++i) {
    if (leads[i] != 0) {
      blocks_.emplace_back();
      blocks_.back().begin = i;
    }
    blocks_.back().end = i + 1;
    block_of_[i] = static_cast<std::uint32_t>(blocks_.size() - 1);
  }
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    FlowBlock& block = blocks_[b];
    const ResolvedInstruction& last = code[block.end - 1];
    if (falls_through(last) && block.end < code.size()) block.next.push_back(b + 1);
    for (const std::uint32_t target : targets(last)) {
      const std::uint32_t to = block_of_[target];
      if (std::find(block.next.begin(), block.next.end(), to) == block.next.end()) block.next.push_back(to);
    }
  }
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    for (const std::uint32_t next : blocks_[b].next) blocks_[next].previous.push_back(b);
  }
  find_dominators();
  find_loops();
  order();
}

// Depth first, without recursion. With `by_depth`, what leaves a loop is visited before what stays in it, so that it
// comes behind it in reverse.
std::vector<std::uint32_t> FlowGraph::postorder(bool by_depth) const {
  std::vector<std::uint32_t> result;
  std::vector<std::uint8_t> seen(blocks_.size(), 0);
  struct Visit {
    std::uint32_t block;
    std::vector<std::uint32_t> next;
    std::size_t at = 0;
  };
  const auto visit = [&](std::uint32_t block) {
    seen[block] = 1;
    std::vector<std::uint32_t> next = blocks_[block].next;
    // The fall-through is visited last: it comes first in reverse.
    std::reverse(next.begin(), next.end());
    if (by_depth) {
      std::stable_sort(next.begin(), next.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return blocks_[a].depth < blocks_[b].depth; });
    }
    return Visit{block, std::move(next), 0};
  };
  std::vector<Visit> stack{visit(0)};
  while (!stack.empty()) {
    Visit& top = stack.back();
    if (top.at == top.next.size()) {
      result.push_back(top.block);
      stack.pop_back();
      continue;
    }
    const std::uint32_t next = top.next[top.at++];
    if (seen[next] == 0) stack.push_back(visit(next));
  }
  return result;
}

// Cooper, Harvey and Kennedy's iteration.
void FlowGraph::find_dominators() {
  const std::vector<std::uint32_t> post = postorder(false);
  number_.assign(blocks_.size(), 0);
  for (std::uint32_t i = 0; i < post.size(); ++i) {
    number_[post[i]] = i;
    blocks_[post[i]].reached = true;
  }
  dominator_.assign(blocks_.size(), kNoBlock);
  dominator_[0] = 0;
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t i = post.size(); i-- > 0;) {
      const std::uint32_t block = post[i];
      if (block == 0) continue;
      std::uint32_t found = kNoBlock;
      for (std::uint32_t other : blocks_[block].previous) {
        if (!blocks_[other].reached || dominator_[other] == kNoBlock) continue;
        if (found == kNoBlock) {
          found = other;
          continue;
        }
        while (other != found) {
          while (number_[other] < number_[found]) other = dominator_[other];
          while (number_[found] < number_[other]) found = dominator_[found];
        }
      }
      if (found == dominator_[block]) continue;
      dominator_[block] = found;
      changed = true;
    }
  }
}

bool FlowGraph::dominates(std::uint32_t a, std::uint32_t b) const {
  while (b != a && b != 0) b = dominator_[b];
  return b == a;
}

std::vector<std::uint32_t> FlowGraph::loop_of(std::uint32_t from, std::uint32_t head) const {
  std::vector<std::uint8_t> inside(blocks_.size(), 0);
  inside[head] = 1;
  std::vector<std::uint32_t> result{head};
  std::vector<std::uint32_t> open{from};
  while (!open.empty()) {
    const std::uint32_t block = open.back();
    open.pop_back();
    if (inside[block] != 0 || !blocks_[block].reached) continue;
    inside[block] = 1;
    result.push_back(block);
    for (const std::uint32_t other : blocks_[block].previous) open.push_back(other);
  }
  return result;
}

void FlowGraph::find_loops() {
  std::vector<std::vector<std::uint8_t>> loops(blocks_.size());  // by head
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    if (!blocks_[b].reached) continue;
    for (const std::uint32_t head : blocks_[b].next) {
      if (!dominates(head, b)) continue;
      if (loops[head].empty()) loops[head].assign(blocks_.size(), 0);
      for (const std::uint32_t block : loop_of(b, head)) loops[head][block] = 1;
    }
  }
  for (const auto& loop : loops) {
    for (std::uint32_t b = 0; b < loop.size(); ++b) blocks_[b].depth += loop[b];
  }
}

void FlowGraph::order() {
  const std::vector<std::uint32_t> post = postorder(true);
  for (std::uint32_t i = 0; i < post.size(); ++i) {
    blocks_[post[i]].rank = static_cast<std::uint32_t>(post.size()) - i;
  }
}

std::vector<std::vector<std::uint8_t>> FlowGraph::alive_behind(std::uint32_t registers,
                                                               const std::vector<RegisterUse>& uses) const {
  std::vector<std::vector<std::uint8_t>> in(blocks_.size(), std::vector<std::uint8_t>(registers, 0));
  std::vector<std::vector<std::uint8_t>> out = in;
  std::vector<std::uint32_t> open;
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) open.push_back(b);
  std::vector<std::uint8_t> waits(blocks_.size(), 1);
  std::vector<std::uint8_t> live;
  while (!open.empty()) {
    const std::uint32_t b = open.back();
    open.pop_back();
    waits[b] = 0;
    live = out[b];
    for (std::uint32_t i = blocks_[b].end; i-- > blocks_[b].begin;) {
      if (uses[i].whole) {
        for (const std::uint32_t reg : uses[i].writes) live[reg] = 0;
      }
      for (const std::uint32_t reg : uses[i].reads) live[reg] = 1;
    }
    if (live == in[b]) continue;
    in[b] = live;
    for (const std::uint32_t other : blocks_[b].previous) {
      for (std::uint32_t reg = 0; reg < registers; ++reg) out[other][reg] |= live[reg];
      if (waits[other] == 0) {
        waits[other] = 1;
        open.push_back(other);
      }
    }
  }
  return out;
}

namespace {

using Memory = OrderedInstruction::Memory;

// Planes that values may take which have been read ahead. Assumption: assemblers trade registers for latency up to
// about half of what a thread of a full CTA of 1024 has.
constexpr std::uint32_t kPlanesAhead = 32;

struct OrderNode {
  std::vector<std::uint32_t> next;
  std::uint32_t waits = 0;   // for so many
  std::uint64_t height = 0;  // cycles from its issue to the end of what depends on it
};

// What of a block has been seen of a register.
struct RegisterTrace {
  std::vector<std::uint32_t> readers;  // since it was written
  std::int64_t writer = -1;
};

class BlockOrder {
 public:
  BlockOrder(const std::vector<OrderedInstruction>& all, std::uint32_t begin, std::uint32_t end,
             const std::vector<std::uint32_t>& planes)
      : all_(all), begin_(begin), planes_(planes), nodes_(end - begin) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) connect(i);
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      std::uint64_t behind = 0;
      for (const std::uint32_t next : nodes_[i].next) behind = std::max(behind, nodes_[next].height);
      nodes_[i].height = behind + of(static_cast<std::uint32_t>(i)).latency;
    }
  }

  std::vector<std::uint32_t> run() {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const std::uint32_t reg : of(i).use.reads) ++readers_[reg];
      if (nodes_[i].waits == 0) enter(i);
    }
    std::vector<std::uint32_t> order;
    while (!ready_.empty()) {
      // Too much has been read ahead: what comes first goes first.
      const std::uint32_t chosen = ahead_ > kPlanesAhead ? *in_order_.begin() : ready_.begin()->second;
      ready_.erase({~nodes_[chosen].height, chosen});
      in_order_.erase(chosen);
      order.push_back(begin_ + chosen);
      account(chosen);
      for (const std::uint32_t next : nodes_[chosen].next) {
        if (--nodes_[next].waits == 0) enter(next);
      }
    }
    return order;
  }

 private:
  const OrderedInstruction& of(std::uint32_t node) const { return all_[begin_ + node]; }
  void enter(std::uint32_t node) {
    ready_.insert({~nodes_[node].height, node});
    in_order_.insert(node);
  }
  void depend(std::int64_t before, std::uint32_t node) {
    if (before < 0 || static_cast<std::uint32_t>(before) == node) return;
    nodes_[static_cast<std::size_t>(before)].next.push_back(node);
    ++nodes_[node].waits;
  }

  void connect(std::uint32_t node) {
    const OrderedInstruction& now = of(node);
    for (const std::uint32_t reg : now.use.reads) depend(traces_[reg].writer, node);
    for (const std::uint32_t reg : now.use.writes) {
      depend(traces_[reg].writer, node);
      for (const std::uint32_t reader : traces_[reg].readers) depend(reader, node);
    }
    for (const std::uint32_t reg : now.use.reads) traces_[reg].readers.push_back(node);
    for (const std::uint32_t reg : now.use.writes) {
      traces_[reg].readers.clear();
      traces_[reg].writer = node;
    }
    depend(wall_, node);
    switch (now.memory) {
      case Memory::none:
        break;
      case Memory::reads:
        depend(last_write_, node);
        reads_.push_back(node);
        break;
      case Memory::writes:
        depend(last_write_, node);
        for (const std::uint32_t read : reads_) depend(read, node);
        reads_.clear();
        last_write_ = node;
        break;
      case Memory::gathers:
        depend(last_gather_, node);
        last_gather_ = node;
        break;
      case Memory::all:
        for (std::uint32_t before = static_cast<std::uint32_t>(wall_ + 1); before < node; ++before)
          depend(before, node);
        wall_ = node;
        break;
    }
  }

  // Values that have been made and are still to be read.
  void account(std::uint32_t node) {
    const OrderedInstruction& now = of(node);
    for (const std::uint32_t reg : now.use.reads) {
      if (--readers_[reg] != 0) continue;
      const auto made = made_.find(reg);
      if (made == made_.end()) continue;
      ahead_ -= planes_[reg];
      made_.erase(made);
    }
    for (const std::uint32_t reg : now.use.writes) {
      if (readers_[reg] > 0 && made_.insert(reg).second) ahead_ += planes_[reg];
    }
  }

  const std::vector<OrderedInstruction>& all_;
  std::uint32_t begin_;
  const std::vector<std::uint32_t>& planes_;
  std::vector<OrderNode> nodes_;
  std::map<std::uint32_t, RegisterTrace> traces_;
  std::map<std::uint32_t, std::uint32_t> readers_;
  std::set<std::uint32_t> made_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> ready_;  // highest first
  std::set<std::uint32_t> in_order_;
  std::vector<std::uint32_t> reads_;
  std::int64_t last_write_ = -1;
  std::int64_t last_gather_ = -1;
  std::int64_t wall_ = -1;
  std::uint32_t ahead_ = 0;
};

}  // namespace

std::vector<std::uint32_t> order_of(const std::vector<OrderedInstruction>& instructions, std::uint32_t begin,
                                    std::uint32_t end, const std::vector<std::uint32_t>& planes) {
  return BlockOrder(instructions, begin, end, planes).run();
}

}  // namespace heddle::ptx
