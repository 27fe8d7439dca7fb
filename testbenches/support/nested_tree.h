// Random trees of tasks that launch tasks, one program for all of them, and a judge of what they left in memory.
//
// A node is a task of one warp. It notes a ticket of a global counter when it begins, launches its children one after
// another, each into a stream or outside streams, waits for them if it is told to, and notes tickets after the wait and
// at its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/list_program.h"
#include "support/random.h"

namespace heddle::test {

struct TreeNode {
  std::uint32_t parent = ~std::uint32_t{0};
  std::uint32_t stream = 0;  // of its parent's CTA
  arch::LaunchMode mode = arch::LaunchMode::stream;
  std::int32_t priority = 0;
  bool head = false;
  bool waits = false;
  std::uint32_t first = 0;  // child
  std::uint32_t children = 0;
};

struct NestedTree {
  std::vector<TreeNode> nodes;  // 0: the root; children of a node follow each other

  // At most `most` tasks and `depth` levels below the root.
  static NestedTree random(Random& random, std::uint32_t most, std::uint32_t depth, std::uint32_t streams,
                           bool priorities) {
    NestedTree tree;
    tree.nodes.emplace_back();
    std::vector<std::uint32_t> level{0};
    for (std::uint32_t d = 0; d < depth; ++d) {
      std::vector<std::uint32_t> next;
      for (const std::uint32_t node : level) {
        const std::uint32_t wanted = d == 0 ? random.between(2, 6) : random.below(5);
        const auto room = most - static_cast<std::uint32_t>(tree.nodes.size());
        const std::uint32_t children = std::min(wanted, room);
        tree.nodes[node].first = static_cast<std::uint32_t>(tree.nodes.size());
        tree.nodes[node].children = children;
        tree.nodes[node].waits = children > 0 && random.chance(60);
        for (std::uint32_t i = 0; i < children; ++i) {
          TreeNode child;
          child.parent = node;
          child.stream = random.below(streams);
          const std::uint32_t kind = random.below(10);
          if (kind == 0) child.mode = arch::LaunchMode::fire_and_forget;
          if (kind == 1) child.mode = arch::LaunchMode::tail;
          if (priorities) child.priority = static_cast<std::int32_t>(random.below(3)) - 1;
          if (priorities) child.head = random.chance(20);
          next.push_back(static_cast<std::uint32_t>(tree.nodes.size()));
          tree.nodes.push_back(child);
        }
      }
      level = next;
    }
    return tree;
  }
  // A full tree in which everyone waits.
  static NestedTree full(std::uint32_t depth, std::uint32_t fan_out) {
    NestedTree tree;
    tree.nodes.emplace_back();
    for (std::uint32_t node = 0, begin = 0, end = 1, d = 0; d < depth; ++d, begin = end, end = size(tree)) {
      for (node = begin; node < end; ++node) {
        tree.nodes[node].first = size(tree);
        tree.nodes[node].children = fan_out;
        tree.nodes[node].waits = true;
        for (std::uint32_t i = 0; i < fan_out; ++i) {
          TreeNode child;
          child.parent = node;
          child.stream = i;
          tree.nodes.push_back(child);
        }
      }
    }
    return tree;
  }
  static std::uint32_t size(const NestedTree& tree) { return static_cast<std::uint32_t>(tree.nodes.size()); }
};

// Where the tree's data lie in device memory.
struct TreePlace {
  std::uint64_t kernel = 0x10'0000;   // kernel object
  std::uint64_t counter = 0x10'0100;  // of tickets, u64
  std::uint64_t root = 0x10'0200;     // arguments of the root: its number
  std::uint64_t notes = 0x20'0000;    // of each node, below
};
// What a node notes: u32 each.
struct TreeNote {
  std::uint32_t starts = 0;  // how often it began
  std::uint32_t begin = 0;   // tickets: from 1 on
  std::uint32_t waited = 0;  // after its wait; 0: it did not wait
  std::uint32_t end = 0;
};

class NestedRun {
 public:
  NestedRun(GpuLab& lab, const NestedTree& tree, const TreePlace& place = {}) : lab_(lab), tree_(tree), place_(place) {
    program_ = make_program();
  }

  // The task of the root, for the host.
  protocol::SubmitPacket root(std::uint32_t stream = 0) {
    protocol::SubmitPacket packet = lab_.packet(program_, {1, 1, 1}, {32, 1, 1}, 0, stream);
    arch::KernelObject object;
    object.program = packet.kernel.code;
    object.registers_per_thread = 16;
    object.name = "node";
    const arch::KernelObjectBytes bytes = arch::encode(object);
    HEDDLE_CHECK(lab_.gpu.memory().write(place_.kernel, bytes.data(), bytes.size()), "no room for the kernel object");
    return packet;
  }

  TreeNote note(std::uint32_t node) { return lab_.read<TreeNote>(place_.notes + sizeof(TreeNote) * node); }

  // What is wrong with what the tasks noted; empty: nothing.
  std::vector<std::string> verdict() {
    std::vector<std::string> problems;
    const auto nodes = NestedTree::size(tree_);
    std::vector<TreeNote> notes;
    for (std::uint32_t node = 0; node < nodes; ++node) notes.push_back(note(node));
    std::vector<std::uint32_t> last(nodes);  // ticket of a subtree
    for (std::uint32_t node = nodes; node-- > 0;) {
      last[node] = std::max(last[node], notes[node].end);
      if (node > 0) last[tree_.nodes[node].parent] = std::max(last[tree_.nodes[node].parent], last[node]);
    }
    for (std::uint32_t node = 0; node < nodes && problems.size() < 10; ++node) judge(node, notes, last, problems);
    return problems;
  }

 private:
  // Registers: 0-1 ticket, 2 number of the node, 3 child to launch, 4 scratch, 5 streams made.
  std::shared_ptr<const arch::WarpProgram> make_program() const {
    auto made = std::make_shared<ListProgram>(8);
    ListProgram& p = *made;
    const TreePlace place = place_;
    const std::vector<TreeNode> nodes = tree_.nodes;
    const std::uint32_t tmdqs = lab_.gpu.params().task.nested.tmdqs;
    ListProgram::Access one;
    one.lanes = ListProgram::only(0);
    ListProgram::Access strong = one;
    strong.order = arch::Order::relaxed;
    const auto note = [place](std::uint32_t field) {
      return [place, field](const Warp& w, std::uint32_t) {
        return place.notes + sizeof(TreeNote) * w.reg(2, 0) + 4 * field;
      };
    };
    const auto ticket = [&p, &strong, place, &note](std::uint32_t field) {
      p.atomic(strong, arch::AtomicKind::add, arch::ValueType::u64, 0, ListProgram::constant(1),
               [place](const Warp&, std::uint32_t) { return place.counter; });
      p.store(strong, [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(0, 0)} + 1; }, note(field),
              {{0, 1}, {2, 1}});
    };
    p.load(one, 2,
           [place](const Warp& w, std::uint32_t) { return w.place.kernarg == 0 ? place.root : w.place.kernarg; });
    p.atomic(strong, arch::AtomicKind::add, arch::ValueType::u32, 4, ListProgram::constant(1), note(0), {{2, 1}});
    ticket(1);
    // The streams that it needs, one after another. TMDQs get them in turn (TSK-11).
    const auto wanted = [nodes](const Warp& w) {
      std::uint32_t most = 0;
      const TreeNode& node = nodes[w.reg(2, 0)];
      for (std::uint32_t child = node.first; child < node.first + node.children; ++child) {
        most = std::max(most, nodes[child].stream);
      }
      return most;
    };
    const std::uint32_t streams = p.here();
    p.branch(streams + 4, [wanted](const Warp& w) { return w.reg(5, 0) >= wanted(w); }, {{2, 1}, {5, 1}});
    p.stream_create(4);
    p.set(5, [](const Warp& w, std::uint32_t) { return w.reg(5, 0) + 1; }, {{5, 1}});
    p.branch(streams, [](const Warp&) { return true; }, {});
    // Lane 0's children one after another.
    const std::uint32_t loop = p.here();
    const auto more = [nodes](const Warp& w) { return w.reg(3, 0) < nodes[w.reg(2, 0)].children; };
    p.launch_child(
        [nodes, place, tmdqs](const Warp& w, std::uint32_t) {
          const std::uint32_t child = nodes[w.reg(2, 0)].first + w.reg(3, 0);
          arch::ChildLaunch launch;
          launch.kernel = place.kernel;
          launch.stream = arch::stream_number(nodes[child].stream % tmdqs, nodes[child].stream / tmdqs);
          launch.mode = nodes[child].mode;
          launch.priority = nodes[child].priority;
          launch.head = nodes[child].head;
          launch.args[0] = child;
          return launch;
        },
        {{2, 1}, {3, 1}}, [more](const Warp& w) { return more(w) ? 1U : 0U; });
    p.set(3, [](const Warp& w, std::uint32_t) { return w.reg(3, 0) + 1; }, {{3, 1}});
    p.branch(loop, more, {{2, 1}, {3, 1}});
    const std::uint32_t branch = p.here();
    p.branch(branch + 4, [nodes](const Warp& w) { return !nodes[w.reg(2, 0)].waits; }, {{2, 1}});
    p.wait_children();
    ticket(2);
    ticket(3);
    p.exit();
    return made;
  }

  void judge(std::uint32_t number, const std::vector<TreeNote>& notes, const std::vector<std::uint32_t>& last,
             std::vector<std::string>& problems) const {
    const TreeNode& node = tree_.nodes[number];
    const auto wrong = [&](const std::string& what) { problems.push_back(fmt::format("task {}: {}", number, what)); };
    if (notes[number].starts != 1) return wrong(fmt::format("started {} times", notes[number].starts));
    if (notes[number].end == 0) return wrong("did not end");
    if (node.waits != (notes[number].waited != 0)) return wrong("waited, or did not, against its orders");
    std::vector<std::uint32_t> before(16, ~std::uint32_t{0});
    for (std::uint32_t child = node.first; child < node.first + node.children; ++child) {
      const TreeNode& its = tree_.nodes[child];
      if (node.waits && its.mode != arch::LaunchMode::tail && last[child] > notes[number].waited) {
        wrong(fmt::format("went on before child {} and its descendants had ended", child));
      }
      if (its.mode == arch::LaunchMode::tail) {
        for (std::uint32_t other = node.first; other < node.first + node.children; ++other) {
          const bool first = tree_.nodes[other].mode != arch::LaunchMode::tail || other < child;
          if (first && last[other] > notes[child].begin) wrong(fmt::format("tail {} began before {}", child, other));
        }
        if (notes[number].end > notes[child].begin) wrong(fmt::format("tail {} began before its parent's end", child));
      }
      if (its.mode != arch::LaunchMode::stream) continue;
      std::uint32_t& earlier = before[its.stream];
      if (earlier != ~std::uint32_t{0} && last[earlier] > notes[child].begin) {
        wrong(fmt::format("child {} began before {}, ahead of it in its stream, had ended", child, earlier));
      }
      earlier = child;
    }
  }

  GpuLab& lab_;
  const NestedTree& tree_;
  const TreePlace place_;
  std::shared_ptr<const arch::WarpProgram> program_;
};

}  // namespace heddle::test
