// The rows of a table of CTAs, packed: many millions of them are held until the table is written in its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace heddle::replay {

// A stay of a CTA on an SM. Times are cycles.
struct CtaRow {
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  std::uint64_t launch = 0;
  std::uint64_t sequence = 0;
  std::uint64_t order = 0;
  std::uint64_t first_instruction = 0;
  std::uint64_t end = kNever;  // kNever: the run ended before
  std::uint64_t cga = 0;
  std::uint32_t task = 0;
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t z = 0;
  std::uint32_t rank = 0;
  std::uint32_t cga_size = 1;
  std::uint32_t sm = 0;
  std::uint32_t stay = 0;  // of the CTA, counted from 0
  bool saved = false;      // it did not end then

  // The order of the table.
  auto key() const { return std::tie(launch, sequence, order, task, stay); }
};

class CtaRows {
 public:
  // In any order.
  void add(const CtaRow& row);
  std::size_t size() const { return packed_ + fresh_.size(); }
  // Of what is packed: about 15 for a row.
  std::size_t bytes() const;
  // All rows in the order of the table, as often as it is asked for, until `visit` returns false.
  void for_each(const std::function<bool(const CtaRow&)>& visit);

 private:
  void pack();

  std::vector<CtaRow> fresh_;
  std::vector<std::string> runs_;  // each in order; a row is told by what differs from the one before it
  std::size_t packed_ = 0;
};

}  // namespace heddle::replay
