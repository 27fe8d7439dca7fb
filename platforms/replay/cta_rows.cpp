#include "replay/cta_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

namespace heddle::replay {
namespace {

constexpr std::size_t kRun = std::size_t{1} << 16U;  // rows
constexpr std::size_t kFields = 14;
using Fields = std::array<std::uint64_t, kFields>;

// In what follows itself from row to row: most are then as in the row before.
Fields fields_of(const CtaRow& row) {
  return {row.launch,
          row.sequence,
          row.order,
          row.first_instruction - row.launch,
          row.end == CtaRow::kNever ? 0 : row.end - row.launch + 1,
          row.cga - row.order,
          row.task,
          row.x - row.order,
          row.y,
          row.z,
          row.rank,
          row.cga_size,
          row.sm,
          std::uint64_t{row.stay} << 1U | (row.saved ? 1U : 0U)};
}

CtaRow row_of(const Fields& f) {
  CtaRow row;
  row.launch = f[0];
  row.sequence = f[1];
  row.order = f[2];
  row.first_instruction = f[3] + row.launch;
  row.end = f[4] == 0 ? CtaRow::kNever : f[4] - 1 + row.launch;
  row.cga = f[5] + row.order;
  row.task = static_cast<std::uint32_t>(f[6]);
  row.x = static_cast<std::uint32_t>(f[7] + row.order);
  row.y = static_cast<std::uint32_t>(f[8]);
  row.z = static_cast<std::uint32_t>(f[9]);
  row.rank = static_cast<std::uint32_t>(f[10]);
  row.cga_size = static_cast<std::uint32_t>(f[11]);
  row.sm = static_cast<std::uint32_t>(f[12]);
  row.stay = static_cast<std::uint32_t>(f[13] >> 1U);
  row.saved = (f[13] & 1U) != 0;
  return row;
}

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
}

// Small differences of either sign as small numbers.
std::uint64_t folded(std::uint64_t difference) { return difference << 1U ^ (difference >> 63U != 0 ? ~0ULL : 0); }
std::uint64_t unfolded(std::uint64_t number) { return number >> 1U ^ ((number & 1U) != 0 ? ~0ULL : 0); }

class Reader {
 public:
  explicit Reader(const std::string& run) : at_(run.data()), end_(at_ + run.size()) { next(); }
  bool done() const { return done_; }
  const CtaRow& row() const { return row_; }
  void next() {
    done_ = at_ == end_;
    if (done_) return;
    const std::uint64_t differing = get();
    for (std::size_t i = 0; i < kFields; ++i) {
      if ((differing >> i & 1U) != 0) fields_[i] += unfolded(get());
    }
    row_ = row_of(fields_);
  }

 private:
  std::uint64_t get() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }

  const char* at_;
  const char* end_;
  bool done_ = false;
  Fields fields_{};
  CtaRow row_;
};

}  // namespace

void CtaRows::add(const CtaRow& row) {
  fresh_.push_back(row);
  if (fresh_.size() == kRun) pack();
}

void CtaRows::pack() {
  if (fresh_.empty()) return;
  std::sort(fresh_.begin(), fresh_.end(), [](const CtaRow& a, const CtaRow& b) { return a.key() < b.key(); });
  std::string run;
  Fields before{};
  for (const CtaRow& row : fresh_) {
    const Fields now = fields_of(row);
    std::uint64_t differing = 0;
    for (std::size_t i = 0; i < kFields; ++i) differing |= std::uint64_t{now[i] != before[i] ? 1U : 0U} << i;
    put(run, differing);
    for (std::size_t i = 0; i < kFields; ++i) {
      if (now[i] != before[i]) put(run, folded(now[i] - before[i]));
    }
    before = now;
  }
  run.shrink_to_fit();
  packed_ += fresh_.size();
  runs_.push_back(std::move(run));
  fresh_.clear();
}

std::size_t CtaRows::bytes() const {
  return std::accumulate(runs_.begin(), runs_.end(), std::size_t{0},
                         [](std::size_t sum, const std::string& run) { return sum + run.size(); });
}

void CtaRows::for_each(const std::function<bool(const CtaRow&)>& visit) {
  pack();
  std::vector<Reader> readers(runs_.begin(), runs_.end());
  const auto later = [](const Reader* a, const Reader* b) { return b->row().key() < a->row().key(); };
  std::priority_queue<Reader*, std::vector<Reader*>, decltype(later)> first(later);
  for (Reader& reader : readers) {
    if (!reader.done()) first.push(&reader);
  }
  while (!first.empty()) {
    Reader* reader = first.top();
    first.pop();
    if (!visit(reader->row())) return;
    reader->next();
    if (!reader->done()) first.push(reader);
  }
}

}  // namespace heddle::replay
