// Chains of device-side launches and SMs that launch, over one plain memory, with their steps in any order (TSK-13).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "arch/warp_program.h"
#include "support/random.h"
#include "task/launch_chain.h"

namespace heddle::test::trees {

using arch::LaunchMode;
using arch::MemoryStep;
using task::ChainAccess;
using task::ChainEffect;
using task::RecordLine;
namespace tmd = arch::tmd;
namespace context = arch::context;

// All addresses are physical.
inline task::ObjectSpaces any_space() {
  return [](std::uint64_t) -> std::optional<std::uint8_t> { return std::nullopt; };
}

constexpr std::uint32_t kNone = ~std::uint32_t{0};

class PlainMemory {
 public:
  std::uint64_t step(const MemoryStep& step) {
    std::uint64_t& word = words_[step.address];
    const std::uint64_t old = word;
    switch (step.kind) {
      case MemoryStep::Kind::write:
      case MemoryStep::Kind::exchange:
        word = step.value;
        break;
      case MemoryStep::Kind::add:
        word += step.value;
        break;
      case MemoryStep::Kind::compare_exchange:
        if (old == step.compare) word = step.value;
        break;
      default:
        break;
    }
    return old;
  }
  std::uint64_t get(std::uint64_t address) { return words_[address]; }
  void put(std::uint64_t address, std::uint64_t value) { words_[address] = value; }
  void add(std::uint64_t address, std::uint64_t value) { words_[address] += value; }
  RecordLine line(std::uint64_t address) {
    RecordLine line{};
    for (std::uint32_t i = 0; i < line.size(); i += 8) arch::put_number(line, i, 8, words_[address + i]);
    return line;
  }
  void write(std::uint64_t address, const RecordLine& line) {
    for (std::uint32_t i = 0; i < line.size(); i += 8) words_[address + i] = arch::get_64(line, i);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> words_;
};

struct Node {
  std::uint32_t parent = kNone;
  std::uint32_t cta = 0;  // of its parent, that launches it
  LaunchMode mode = LaunchMode::stream;
  std::uint32_t stream = 0;
  std::uint32_t ctas = 1;
  arch::ChildWait wait = arch::ChildWait::all;  // if it waits
  bool waits = false;
  bool handle = false;  // its parent keeps what the launch is known by
  std::vector<std::uint32_t> children;
  // What has happened.
  bool refused = false;  // it, or what it descends from
  std::uint64_t record = 0;
  std::uint64_t known_by = 0;
  bool started = false;
  std::uint32_t exited = 0;
  bool completed = false;
};

// A CTA that launches its share of the children of its task, waits for them, and exits.
class World;
struct Actor {
  enum class At : std::uint8_t {
    take_context,
    launch,
    take,
    count,
    write,
    push,
    wait,
    take_chunk,  // it is being saved
    enter,
    look,
    link,
    claim,
    late,
    saved,
    exited,
  };
  std::uint32_t node = 0;
  std::uint32_t cta = 0;
  At at = At::launch;
  std::uint64_t context = 0;
  std::uint64_t record = 0;  // of the child that is being launched
  std::vector<std::uint32_t> children;
  std::size_t next = 0;
  std::uint64_t area = 0;  // where it is saved
  std::uint64_t head = 0;  // shared: who was saved before, as far as is known
  bool counted = false;    // shared: it was saved before
  bool held = false;       // a wake that has come while its home moved
  bool claims() const { return at >= At::enter && at <= At::late; }
  std::unique_ptr<arch::TakeSteps> take;
  std::unique_ptr<arch::PushSteps> push;
  std::unique_ptr<arch::WaitSteps> wait;
};

class World {
 public:
  // `scarce`: records can run out, and then launches are refused.
  World(Random& random, bool shared, bool scarce = false) : random_(random), shared_(shared) {
    place_.tmdqs = random.chance(10) ? random.between(5, 64) : random.between(1, 4);
    const std::uint64_t context = arch::context::bytes(place_.tmdqs);
    const std::uint64_t few = random.between(2, 40);
    const std::uint64_t more = scarce ? random.below(8) : 90 - few;  // behind them: enough for all
    place_.tasks = {{0x10'0000, few, arch::kRecordBytes}, {0x18'0000, more, arch::kRecordBytes}};
    place_.contexts = {{0x20'0000, few, context}, {0x40'0000, more, context}};
    place_.chunks = {0x60'0000, scarce ? random.between(1, 4) : 80, arch::kSaveChunk};
    place_.shared_contexts = shared;
  }

  // A task of the host, and all below it, to its end.
  void run_tree() {
    nodes_.clear();
    actors_.clear();
    pushed_.clear();
    grow(0, random_.between(1, 36));
    done_ = false;
    enter(task::prepare_chain(place_, task::NewRecord{}, 0));
    for (std::uint32_t i = 0; i < 400'000; ++i) {
      if (!turn()) break;
    }
    REQUIRE(done_);
    for (const Node& node : nodes_) {
      REQUIRE(node.started == !node.refused);
      REQUIRE((node.refused || (node.completed && node.exited == node.ctas)));
    }
  }

  // Every record is back, once.
  void check_pools() {
    for (const arch::RecordPool& pool :
         {place_.tasks.pool, place_.tasks.spill, place_.contexts.pool, place_.contexts.spill, place_.chunks}) {
      REQUIRE(memory_.get(pool.base + arch::ring::kTaken) == memory_.get(pool.base + arch::ring::kGiven));
      REQUIRE(memory_.get(pool.base + arch::ring::kUsed) == 0);
      const arch::RecordSupply alone{pool, {}};
      std::set<std::uint64_t> all;
      for (std::uint64_t i = 0; i <= pool.count; ++i) {
        arch::TakeSteps take(alone);
        for (std::uint32_t step = 0; step < 4 && !take.over(); ++step) take.answer(memory_.step(take.step()));
        REQUIRE(take.over());
        REQUIRE((take.record() != 0) == (i < pool.count));
        if (i < pool.count) all.insert(take.record());
      }
      REQUIRE(all.size() == pool.count);
      for (const std::uint64_t record : all) {
        arch::GiveSteps give(alone, record);
        for (std::uint32_t step = 0; step < 4 && !give.over(); ++step) give.answer(memory_.step(give.step()));
        REQUIRE(give.over());
      }
    }
  }

  std::uint32_t wakes = 0;
  std::uint32_t restores = 0;
  std::uint32_t tails = 0;
  std::uint32_t refusals = 0;
  std::uint32_t spilled = 0;
  std::uint32_t late = 0;   // saves that came too late for the wake
  std::uint32_t some = 0;   // waits for some tasks that were not over at once
  std::uint32_t ahead = 0;  // of those, the ones that ended while other tasks of the context ran

 private:
  void grow(std::uint32_t, std::uint32_t count) {
    nodes_.emplace_back();
    for (std::uint32_t i = 1; i < count; ++i) {
      Node node;
      // Deep as often as wide.
      node.parent = random_.chance(40) ? i - 1 : random_.below(i);
      const std::uint32_t kind = random_.below(10);
      if (kind == 0) node.mode = LaunchMode::fire_and_forget;
      if (kind == 1 || kind == 2) node.mode = LaunchMode::tail;
      node.stream = random_.below(6);
      node.ctas = random_.between(1, 2);
      node.waits = random_.chance(60);
      node.wait = static_cast<arch::ChildWait>(random_.below(3));
      node.handle = random_.chance(50);
      nodes_[node.parent].children.push_back(i);
      node.cta = random_.below(nodes_[node.parent].ctas);
      nodes_.push_back(node);
    }
    nodes_[0].waits = random_.chance(60);
    nodes_[0].wait = static_cast<arch::ChildWait>(random_.below(3));
  }

  void enter(task::ChainPtr chain) { chains_.push_back(std::move(chain)); }

  // One step of somebody. False: nobody has one.
  bool turn() {
    if (!loose_.empty() && random_.chance(30)) {
      arch::TakeSteps& take = *loose_.back();
      take.answer(memory_.step(take.step()));
      if (!take.over()) return true;
      if (take.record() != 0) give(take.record());
      loose_.pop_back();
      return true;
    }
    if (!gives_.empty() && random_.chance(30)) {
      gives_.back().answer(memory_.step(gives_.back().step()));
      if (gives_.back().over()) gives_.pop_back();
      return true;
    }
    const std::size_t sides = chains_.size() + actors_.size() + wakes_.size();
    if (sides == 0) return !gives_.empty() || !loose_.empty();
    std::size_t which = random_.below(sides);
    if (which < chains_.size()) {
      chain_step(which);
      return true;
    }
    which -= chains_.size();
    if (which < wakes_.size()) {
      const std::uint64_t woken = wakes_[which];
      wakes_.erase(wakes_.begin() + static_cast<std::ptrdiff_t>(which));
      for (Actor& actor : actors_) {
        if (actor.context == woken) wake(actor);
      }
      return true;
    }
    const std::size_t actor = which - wakes_.size();
    actor_step(actors_[actor]);
    if (actors_[actor].at == Actor::At::exited) actors_.erase(actors_.begin() + static_cast<std::ptrdiff_t>(actor));
    return true;
  }

  void chain_step(std::size_t which) {
    task::LaunchChain& chain = *chains_[which];
    const ChainAccess access = chain.access();
    if (access.kind == ChainAccess::Kind::read_line) {
      chain.answer_line(memory_.line(access.address));
    } else if (access.kind == ChainAccess::Kind::write_line) {
      memory_.write(access.address, *access.line);
      chain.answer_word(0);
    } else {
      chain.answer_word(memory_.step(access.step));
    }
    const std::vector<ChainEffect> effects = chain.take_effects();
    if (chain.over()) chains_.erase(chains_.begin() + static_cast<std::ptrdiff_t>(which));
    for (const ChainEffect& effect : effects) std::visit([this](const auto& each) { take(each); }, effect);
  }

  void take(const task::RecordPrepared& effect) { begin(effect.task, effect.record); }
  void take(const task::ChildReady& effect) { enter(task::start_chain(effect.record, any_space())); }
  void take(const task::ChildRead& effect) {
    REQUIRE(effect.readable);
    const auto node = static_cast<std::uint32_t>(arch::get_64(effect.line, tmd::kArgs));
    REQUIRE(effect.parent == nodes_[nodes_[node].parent].record);
    if (shared_) {
      enter(task::share_chain(place_, effect.record, node));
    } else {
      begin(node, effect.record);
    }
  }
  void take(const task::TaskCompleted& effect) { complete(effect.record); }
  void take(const task::ContextClosed&) {}
  void take(const task::WakeContext& effect) {
    ++wakes;
    REQUIRE(effect.sm.has_value() != shared_);
    wakes_.push_back(effect.context);
  }
  void take(const task::RestoreCta& effect) { restore(effect.line, effect.area); }
  template <class Other>
  void take(const Other&) {
    FAIL("an effect that cannot be");
  }

  // Nothing that it has to wait for is left.
  void begin(std::uint32_t number, std::uint64_t record) {
    Node& node = nodes_[number];
    REQUIRE_FALSE(node.started);
    node.started = true;
    node.record = record;
    if (number != 0 && node.mode == LaunchMode::stream) {
      for (const std::uint32_t other : pushed_[queue_of_.at(number)]) {
        if (other == number) break;
        REQUIRE(nodes_[other].completed);
      }
    }
    if (number != 0 && node.mode == LaunchMode::tail) {
      ++tails;
      const Node& parent = nodes_[node.parent];
      REQUIRE(parent.exited == parent.ctas);
      for (const std::uint32_t other : parent.children) {
        if (nodes_[other].mode != LaunchMode::tail) REQUIRE((nodes_[other].completed || nodes_[other].refused));
      }
      for (const std::uint32_t other : pushed_[parent.record + tmd::kTailLast]) {
        if (other == number) break;
        REQUIRE(nodes_[other].completed);
      }
    }
    for (std::uint32_t cta = 0; cta < node.ctas; ++cta) {
      Actor actor;
      actor.node = number;
      actor.cta = cta;
      for (const std::uint32_t child : node.children) {
        if (nodes_[child].cta == cta) actor.children.push_back(child);
      }
      if (shared_) actor.context = memory_.get(record + tmd::kSharedContext);
      actors_.push_back(std::move(actor));
    }
  }

  void complete(std::uint64_t record) {
    const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                    [&](const Node& n) { return n.started && !n.completed && n.record == record; });
    REQUIRE(found != nodes_.end());
    REQUIRE(found->exited == found->ctas);
    for (const std::uint32_t child : found->children) REQUIRE((nodes_[child].completed || nodes_[child].refused));
    found->completed = true;
    if (found == nodes_.begin()) done_ = true;
  }

  void actor_step(Actor& actor) {
    const Node& node = nodes_[actor.node];
    switch (actor.at) {
      case Actor::At::launch:
        if (actor.next == actor.children.size()) {
          finish_launching(actor);
        } else if (child_of(actor).mode == LaunchMode::tail) {  // it hangs on its grid, with or without a context
          actor.take = std::make_unique<arch::TakeSteps>(place_.tasks);
          actor.at = Actor::At::take;
        } else if (actor.context == 0 && shared_) {
          refuse(actor);  // its grid found no context
        } else if (actor.context == 0) {
          actor.take = std::make_unique<arch::TakeSteps>(place_.contexts);
          actor.at = Actor::At::take_context;
        } else {
          actor.take = std::make_unique<arch::TakeSteps>(place_.tasks);
          actor.at = Actor::At::take;
        }
        return;
      case Actor::At::take_context:
        actor.take->answer(memory_.step(actor.take->step()));
        if (!actor.take->over()) return;
        if (actor.take->record() == 0) return refuse(actor);
        spilled += actor.take->spilled() ? 1 : 0;
        actor.context = actor.take->record();
        for (std::uint64_t at = 0; at < context::bytes(place_.tmdqs); at += arch::kRecordBytes) {
          memory_.write(actor.context + at, {});
        }
        memory_.put(actor.context + context::kWork, 1);
        memory_.put(actor.context + context::kOwner, node.record);
        memory_.put(actor.context + context::kHome, arch::home_of_sm(actor.cta));
        memory_.add(node.record + tmd::kOpen, 1);
        actor.at = Actor::At::launch;
        return;
      case Actor::At::take:
        actor.take->answer(memory_.step(actor.take->step()));
        if (!actor.take->over()) return;
        if (actor.take->record() == 0) return refuse(actor);
        spilled += actor.take->spilled() ? 1 : 0;
        actor.record = actor.take->record();
        nodes_[actor.children[actor.next]].known_by = arch::launch_handle(actor.record, actor.take->ticket());
        actor.at = Actor::At::count;
        return;
      case Actor::At::count:
        if (child_of(actor).mode != LaunchMode::tail) memory_.add(actor.context + context::kWork, 1);
        actor.at = Actor::At::write;
        return;
      case Actor::At::write:
        write_child(actor);
        return;
      case Actor::At::push:
        push(actor);
        return;
      case Actor::At::wait:
        wait(actor);
        return;
      case Actor::At::saved:
      case Actor::At::exited:
        return;
      default:
        return save(actor);
    }
  }

  // No record is free for the next child.
  void refuse(Actor& actor) {
    ++refusals;
    std::vector<std::uint32_t> gone{actor.children[actor.next]};
    while (!gone.empty()) {
      Node& node = nodes_[gone.back()];
      gone.pop_back();
      node.refused = true;
      gone.insert(gone.end(), node.children.begin(), node.children.end());
    }
    launched(actor);
  }

  const Node& child_of(const Actor& actor) const { return nodes_[actor.children[actor.next]]; }

  void write_child(Actor& actor) {
    const std::uint32_t number = actor.children[actor.next];
    const Node& child = nodes_[number];
    const std::uint32_t tmdq = child.stream % place_.tmdqs;
    RecordLine line{};
    const std::uint64_t owner = nodes_[actor.node].record;
    const bool tail = child.mode == LaunchMode::tail;
    arch::put_number(line, tmd::kContext, 8, tail ? owner : actor.context);
    arch::put_number(line, tmd::kKernel, 8, 0x40'0000);
    arch::put_number(
        line, tmd::kFlags, 4,
        tmdq | static_cast<std::uint32_t>(child.mode) << 8 | (child.handle ? 1U << 11 : 0U) | child.stream << 16);
    arch::put_number(line, tmd::kTicket, 4, arch::ticket_of_handle(child.known_by));
    arch::put_number(line, tmd::kOpen, 8, 1);
    arch::put_number(line, tmd::kArgs, 8, number);
    memory_.write(actor.record, line);
    if (child.mode == LaunchMode::fire_and_forget) {
      enter(task::start_chain(actor.record, any_space()));
      launched(actor);
      return;
    }
    const std::uint64_t last = tail ? owner + tmd::kTailLast : actor.context + context::last_task(tmdq);
    queue_of_[number] = last;
    actor.push = std::make_unique<arch::PushSteps>(last, actor.record, tail ? owner + tmd::kTailFirst : 0);
    actor.at = Actor::At::push;
  }

  void push(Actor& actor) {
    const MemoryStep step = actor.push->step();
    if (step.kind == MemoryStep::Kind::exchange) {
      std::vector<std::uint32_t>& order = pushed_[step.address];
      // The word belongs to another context by now: a queue that was empty begins anew.
      if (memory_.get(step.address) == 0) order.clear();
      order.push_back(actor.children[actor.next]);
    }
    actor.push->answer(memory_.step(step));
    if (!actor.push->over()) return;
    if (actor.push->starts()) enter(task::start_chain(actor.record, any_space()));
    launched(actor);
  }

  void launched(Actor& actor) {
    ++actor.next;
    actor.at = Actor::At::launch;
  }

  void finish_launching(Actor& actor) {
    if (!nodes_[actor.node].waits || actor.context == 0 || actor.children.empty()) {
      leave(actor);
      return;
    }
    std::vector<arch::WaitTarget> targets;
    for (const std::uint32_t child : waited_for(actor)) {
      const arch::WaitTarget target = nodes_[actor.node].wait == arch::ChildWait::launch
                                          ? arch::WaitTarget::of_launch(nodes_[child].known_by)
                                          : arch::WaitTarget::of_tmdq(actor.context, tmdq_of(child));
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
    }
    const std::uint64_t home = shared_ ? 0 : arch::home_of_sm(actor.cta);
    actor.wait = std::make_unique<arch::WaitSteps>(
        actor.context, home, !shared_ && memory_.get(actor.context + context::kHome) != home, targets);
    actor.at = Actor::At::wait;
  }

  std::uint32_t tmdq_of(std::uint32_t child) const { return nodes_[child].stream % place_.tmdqs; }

  // Children whose end it waits for: all; those of the stream of its first; or those whose handle it keeps.
  std::vector<std::uint32_t> waited_for(const Actor& actor) const {
    const arch::ChildWait wait = nodes_[actor.node].wait;
    std::vector<std::uint32_t> result;
    if (wait == arch::ChildWait::all) return result;
    std::optional<std::uint32_t> first;
    for (const std::uint32_t child : actor.children) {
      const Node& node = nodes_[child];
      if (node.refused || node.mode == LaunchMode::tail) continue;
      if (wait == arch::ChildWait::launch) {
        if (node.handle) result.push_back(child);
      } else if (node.mode == LaunchMode::stream) {
        if (!first) first = tmdq_of(child);
        if (tmdq_of(child) == *first) result.push_back(child);
      }
    }
    return result;
  }

  void wait(Actor& actor) {
    if (actor.wait->over()) {
      const std::vector<std::uint32_t> named = waited_for(actor);
      for (const std::uint32_t child : named.empty() ? actor.children : named) {
        const Node& its = nodes_[child];
        if (its.mode != LaunchMode::tail) REQUIRE((its.completed || its.refused));
      }
      bool others = false;
      for (const std::uint32_t child : actor.children) others |= !nodes_[child].completed && !nodes_[child].refused;
      ahead += !named.empty() && others ? 1 : 0;
      leave(actor);
    } else if (!actor.wait->waiting()) {
      actor.wait->answer(memory_.step(actor.wait->step()));
      some += actor.wait->waiting() && !actor.wait->targets().empty() ? 1 : 0;
    } else if (random_.chance(20) && may_be_saved(actor)) {
      actor.take = std::make_unique<arch::TakeSteps>(arch::RecordSupply{place_.chunks, {}});
      actor.at = Actor::At::take_chunk;
    }
  }

  bool may_be_saved(const Actor& actor) {
    if (shared_) return actor.wait->targets().empty();
    return memory_.get(actor.context + context::kHome) != arch::kHomeWoken;
  }

  // While its home moves, a wake is for later, if at all; before, it stays.
  void wake(Actor& actor) {
    if (!actor.wait || actor.at == Actor::At::saved) return;
    if (actor.claims()) {
      actor.held = true;
      return;
    }
    if (actor.at == Actor::At::take_chunk) loose_.push_back(std::move(actor.take));
    actor.at = Actor::At::wait;
    actor.wait->woken();
  }

  void save(Actor& actor) {
    const std::uint64_t home = actor.context + context::kHome;
    const std::uint64_t record = nodes_[actor.node].record;
    switch (actor.at) {
      case Actor::At::take_chunk:
        actor.take->answer(memory_.step(actor.take->step()));
        if (!actor.take->over()) return;
        actor.area = actor.take->record();
        if (actor.area == 0) {
          actor.at = Actor::At::wait;
          return;
        }
        memory_.put(actor.area + arch::saved::kOperation, actor.node);
        memory_.put(actor.area + arch::saved::kRecord, record);
        memory_.put(actor.area + arch::saved::kContext, actor.context);
        memory_.put(actor.area + arch::saved::kNext, 0);
        actor.at = !shared_ ? Actor::At::claim : actor.counted ? Actor::At::look : Actor::At::enter;
        return;
      case Actor::At::enter:
        memory_.add(record + tmd::kOpen, 1);
        actor.counted = true;
        actor.at = Actor::At::look;
        return;
      case Actor::At::look:
        actor.head = memory_.get(home);
        actor.at = Actor::At::link;
        return;
      case Actor::At::link:
        memory_.put(actor.area + arch::saved::kNext, actor.head);
        actor.at = Actor::At::claim;
        return;
      case Actor::At::claim:
        return claim(actor, home);
      default:
        if (arch::work_of(memory_.get(actor.context + context::kWork)) <= 1) {
          ++late;
          enter(task::wake_chain(place_, actor.context));
        }
        actor.at = is_taken(actor) ? Actor::At::wait : Actor::At::saved;
        if (actor.at == Actor::At::wait) go_on(actor);
        actor.held = false;
    }
  }

  void claim(Actor& actor, std::uint64_t home) {
    const std::uint64_t before = shared_ ? actor.head : arch::home_of_sm(actor.cta);
    const std::uint64_t old =
        memory_.step({MemoryStep::Kind::compare_exchange, home, arch::saved_home(actor.area), before});
    if (shared_) {
      actor.head = old;
      actor.at = old == before ? Actor::At::late : Actor::At::link;
    } else if (old == before) {
      actor.at = Actor::At::saved;
      actor.held = false;
    } else {
      give(actor.area);
      actor.at = Actor::At::wait;
      if (std::exchange(actor.held, false)) actor.wait->woken();
    }
  }

  // It is on another SM, and its area is free.
  void go_on(Actor& actor) {
    give(actor.area);
    taken_.erase(actor.area);
    actor.at = Actor::At::wait;
    const std::uint64_t home = shared_ ? 0 : arch::home_of_sm(actor.cta);
    actor.wait =
        std::make_unique<arch::WaitSteps>(arch::WaitSteps::counted(actor.context, home, actor.wait->targets()));
  }
  bool is_taken(const Actor& actor) const { return taken_.count(actor.area) != 0; }

  void restore(const RecordLine& line, std::uint64_t area) {
    const std::uint64_t context = arch::get_64(line, arch::saved::kContext);
    const auto found = std::find_if(actors_.begin(), actors_.end(), [&](const Actor& a) {
      return a.area == area && (a.at == Actor::At::saved || a.at == Actor::At::late);
    });
    REQUIRE(found != actors_.end());
    REQUIRE(found->context == context);
    REQUIRE(nodes_[found->node].record == arch::get_64(line, arch::saved::kRecord));
    ++restores;
    REQUIRE(taken_.insert(area).second);
    if (found->at == Actor::At::saved) go_on(*found);  // else its SM does not know yet that it has left
  }

  void give(std::uint64_t area) { gives_.emplace_back(arch::RecordSupply{place_.chunks, {}}, area); }

  void leave(Actor& actor) {
    actor.at = Actor::At::exited;
    if (!shared_ && actor.context != 0) enter(task::leave_chain(place_, actor.context));
    if (shared_ && actor.counted) enter(task::ended_chain(place_, nodes_[actor.node].record));
    Node& node = nodes_[actor.node];
    if (++node.exited == node.ctas) enter(task::ended_chain(place_, node.record));
  }

  Random& random_;
  const bool shared_;
  arch::LaunchMemory place_;
  PlainMemory memory_;
  std::vector<Node> nodes_;
  std::vector<task::ChainPtr> chains_;
  std::vector<Actor> actors_;
  std::vector<std::uint64_t> wakes_;
  std::vector<arch::GiveSteps> gives_;                          // of areas
  std::vector<std::unique_ptr<arch::TakeSteps>> loose_;         // of areas that nobody wants any more
  std::set<std::uint64_t> taken_;                               // areas that are being brought back
  std::map<std::uint64_t, std::vector<std::uint32_t>> pushed_;  // by last-task pointer, since it was empty
  std::map<std::uint32_t, std::uint64_t> queue_of_;
  bool done_ = false;
};

}  // namespace heddle::test::trees
