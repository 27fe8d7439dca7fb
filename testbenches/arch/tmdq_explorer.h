// Every interleaving of several actors that share a few words of memory: depth first through all states, each once.
//
// A Model is a value with
//   std::vector<Move> moves() const;      what can happen next: each one memory step, or the delivery of a packet
//   void make(Move);                      throws Wrong
//   bool ended() const;                   nothing is left to do; throws Wrong if the end is not as it should be
//   void key(Key&) const;                 all that tells it from another state
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq.h"

namespace heddle::test {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Two hashes of 64 bits that have nothing to do with each other.
class Key {
 public:
  void add(std::uint64_t value) {
    first_ = (first_ ^ value) * 0x9E37'79B9'7F4A'7C15U;
    first_ ^= first_ >> 29;
    second_ = (second_ + value) * 0xC2B2'AE3D'27D4'EB4FU + 0x1656'67B1'9E37'79F9U;
    second_ ^= second_ >> 31;
  }
  template <class Values>
  void add_all(const Values& values) {
    add(values.size());
    for (const auto value : values) add(static_cast<std::uint64_t>(value));
  }
  bool operator==(const Key& other) const { return first_ == other.first_ && second_ == other.second_; }
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.first_; }
  };

 private:
  std::uint64_t first_ = 1;
  std::uint64_t second_ = 2;
};

// Words at any addresses; those that nobody has named do not exist.
class Words {
 public:
  void add(std::uint64_t address, std::uint64_t value = 0) {
    names_ = std::make_shared<std::vector<std::uint64_t>>(*names_);
    names_->push_back(address);
    values_.push_back(value);
  }
  std::uint64_t& operator[](std::uint64_t address) {
    const auto found = std::find(names_->begin(), names_->end(), address);
    if (found == names_->end()) throw Wrong("an access to a word that does not exist");
    return values_[static_cast<std::size_t>(found - names_->begin())];
  }
  std::uint64_t at(std::uint64_t address) const { return const_cast<Words&>(*this)[address]; }
  // What memory does, at once; gives the old value.
  std::uint64_t carry_out(const arch::MemoryStep& step) {
    using Kind = arch::MemoryStep::Kind;
    std::uint64_t& word = (*this)[step.address];
    const std::uint64_t old = word;
    switch (step.kind) {
      case Kind::none:
        throw Wrong("a step of a walk that is over");
      case Kind::read:
        break;
      case Kind::write:
      case Kind::exchange:
        word = step.value;
        break;
      case Kind::add:
        word += step.value;
        break;
      case Kind::compare_exchange:
        if (word == step.compare) word = step.value;
        break;
    }
    return old;
  }
  const std::vector<std::uint64_t>& values() const { return values_; }

 private:
  std::shared_ptr<std::vector<std::uint64_t>> names_ = std::make_shared<std::vector<std::uint64_t>>();
  std::vector<std::uint64_t> values_;
};

// One step of a walk. `answers`: what it has been told, so that equal histories are equal states; polls that find
// nothing new add nothing.
template <class Walk>
void walk_on(Walk& walk, Words& words, std::vector<std::uint64_t>& answers) {
  constexpr std::uint64_t kPolls = 0x7011'7011'7011'7011U;
  const std::uint64_t old = words.carry_out(walk.step());
  walk.answer(old);
  answers.push_back(old);
  if (!walk.step().again) return;
  answers.erase(std::find(answers.begin(), answers.end(), kPolls), answers.end());
  answers.push_back(kPolls);
}

struct Explored {
  std::size_t states = 0;
  std::size_t ends = 0;
  std::string wrong;  // empty: nothing was
};

// `most`: states, for models that are wrong and do not end.
template <class Model>
Explored explore(const Model& start, std::size_t most = 20'000'000) {
  Explored result;
  std::unordered_map<Key, std::uint32_t, Key::Hash> seen;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // (to, from)
  std::vector<std::uint32_t> ends;
  std::vector<std::pair<Model, std::uint32_t>> open;
  const auto number_of = [&](const Model& model) {
    Key key;
    model.key(key);
    const auto [found, fresh] = seen.emplace(key, static_cast<std::uint32_t>(seen.size()));
    if (fresh) open.emplace_back(model, found->second);
    return found->second;
  };
  try {
    number_of(start);
    while (!open.empty()) {
      const auto [model, number] = std::move(open.back());
      open.pop_back();
      if (seen.size() > most) throw Wrong("more states than expected");
      const auto moves = model.moves();
      if (model.ended()) {
        if (!moves.empty()) throw Wrong("ended, and something is left to do");
        ends.push_back(number);
      } else if (moves.empty()) {
        throw Wrong("stuck");
      }
      for (const auto& move : moves) {
        Model next = model;
        next.make(move);
        edges.emplace_back(number_of(next), number);
      }
    }
  } catch (const Wrong& wrong) {
    result.wrong = wrong.what();
  }
  result.states = seen.size();
  result.ends = ends.size();
  if (!result.wrong.empty()) return result;
  // Polls go round for ever; from everywhere there has to be a way to an end all the same.
  std::sort(edges.begin(), edges.end());
  std::vector<char> reaches(seen.size(), 0);
  std::vector<std::uint32_t> todo = ends;
  for (const std::uint32_t end : ends) reaches[end] = 1;
  std::size_t count = ends.size();
  while (!todo.empty()) {
    const std::uint32_t state = todo.back();
    todo.pop_back();
    for (auto edge = std::lower_bound(edges.begin(), edges.end(), std::make_pair(state, 0U));
         edge != edges.end() && edge->first == state; ++edge) {
      if (reaches[edge->second] != 0) continue;
      reaches[edge->second] = 1;
      ++count;
      todo.push_back(edge->second);
    }
  }
  if (count != seen.size()) result.wrong = "a state from which no end is reached";
  return result;
}

// For a failure, and with HEDDLE_SHOW_STATES in any case.
inline void show(const std::string& what, const Explored& found) {
  UNSCOPED_INFO(what << ": " << found.states << " states, " << found.ends << " ends, wrong: " << found.wrong);
  if (std::getenv("HEDDLE_SHOW_STATES") != nullptr) {
    WARN(what << ": " << found.states << " states, " << found.ends << " ends " << found.wrong);
  }
}

}  // namespace heddle::test
