#include "arch/bandwidth_table.h"

#include <algorithm>

namespace heddle::arch {

BandwidthTable::Refusal BandwidthTable::set_share(std::uint32_t subcontext, std::uint64_t thousandths) {
  if (thousandths > kWholeBandwidth) return Refusal::value;
  Entry& entry = entries_[place(subcontext)];
  std::uint64_t sum = thousandths;
  for (const Entry& other : entries_) sum += &other == &entry ? 0 : other.share;
  if (sum > kWholeBandwidth) return Refusal::sum;
  if (thousandths > entry.limit) return Refusal::limit;
  entry.share = static_cast<std::uint32_t>(thousandths);
  entry.used = true;
  any_ = true;
  weigh();
  return Refusal::none;
}

BandwidthTable::Refusal BandwidthTable::set_limit(std::uint32_t subcontext, std::uint64_t thousandths) {
  if (thousandths == 0 || thousandths > kWholeBandwidth) return Refusal::value;
  Entry& entry = entries_[place(subcontext)];
  if (thousandths < entry.share) return Refusal::limit;
  entry.limit = static_cast<std::uint32_t>(thousandths);
  entry.used = true;
  any_ = true;
  weigh();
  return Refusal::none;
}

void BandwidthTable::note_use(std::uint32_t place) {
  entries_[place].used = true;
  weigh();
}

void BandwidthTable::weigh() {
  std::uint32_t rest = kWholeBandwidth;
  std::uint32_t without = 0;
  for (const Entry& entry : entries_) {
    rest -= entry.share;
    without += entry.used && entry.share == 0 ? 1 : 0;
  }
  const std::uint32_t each = std::max(1U, rest / std::max(1U, without));
  for (Entry& entry : entries_) entry.weight = entry.share != 0 ? entry.share : each;
  ++version_;
}

void BandwidthTable::reset() {
  entries_.fill({});
  any_ = false;
  ++version_;
}

}  // namespace heddle::arch
