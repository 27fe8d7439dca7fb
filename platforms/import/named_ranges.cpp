#include "import/named_ranges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "import/nsys_host.h"

namespace heddle::import {

using workload::Nanoseconds;

void NamedRanges::add(Scope scope, std::string name, Nanoseconds begin, Nanoseconds end) {
  ranges_.push_back({scope, std::move(name), begin, end});
}

void NamedRanges::fill(workload::Workload& workload, std::vector<Launch> launches, std::size_t most) const {
  // Those that begin at the same time: the longer one first, as it holds the other.
  std::vector<std::size_t> order(ranges_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    const Range& x = ranges_[a];
    const Range& y = ranges_[b];
    return std::tie(x.scope, x.begin, y.end, a) < std::tie(y.scope, y.begin, x.end, b);
  });
  std::sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
    return std::tie(a.scope, a.when, a.op) < std::tie(b.scope, b.when, b.op);
  });

  std::vector<std::vector<std::size_t>> members(ranges_.size());
  std::vector<std::optional<std::size_t>> within(ranges_.size());
  // Begun and not over, of the scope of the one looked at, and in the order of their begin: those that no later one
  // outlasts. What one of these outlasts can hold nothing more that it does not hold as well.
  std::vector<std::size_t> holders;
  std::set<std::pair<Nanoseconds, std::size_t>> open;  // all of them, by end
  std::optional<Scope> scope;
  std::size_t count = 0;
  std::size_t next = 0;
  const auto close_before = [&](Scope now, Nanoseconds when) {
    if (scope != now) {
      open.clear();
      holders.clear();
      scope = now;
    }
    while (!open.empty() && open.begin()->first < when) open.erase(open.begin());
  };
  const auto begin_until = [&](Scope now, Nanoseconds when) {
    for (; next < order.size(); ++next) {
      const std::size_t i = order[next];
      const Range& range = ranges_[i];
      if (std::tie(range.scope, range.begin) > std::tie(now, when)) break;
      close_before(range.scope, range.begin);
      // The last one that begins before it and ends no earlier.
      while (!holders.empty() && ranges_[holders.back()].end < range.end) holders.pop_back();
      if (!holders.empty()) within[i] = holders.back();
      holders.push_back(i);
      open.emplace(range.end, i);
    }
  };
  for (const Launch& launch : launches) {
    begin_until(launch.scope, launch.when);
    close_before(launch.scope, launch.when);
    count += open.size();
    if (count > most) {
      workload.warnings.push_back(
          fmt::format("Its named ranges hold more than {} launches together; they are left out.", most));
      return;
    }
    for (const auto& [end, i] : open) members[i].push_back(launch.op);
  }

  if (left_out_ > 0) {
    workload.warnings.push_back(fmt::format(
        "{} named ranges have no begin, end, thread or name that can be read; they are left out.", left_out_));
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (!members[i].empty()) kept.push_back(i);
  }
  std::sort(kept.begin(), kept.end(), [this](std::size_t a, std::size_t b) {
    const Range& x = ranges_[a];
    const Range& y = ranges_[b];
    return std::tie(x.begin, y.end, x.scope, a) < std::tie(y.begin, x.end, y.scope, b);
  });
  std::map<std::size_t, std::size_t> place;
  for (std::size_t i = 0; i < kept.size(); ++i) place[kept[i]] = i;
  workload.ranges.reserve(kept.size());
  for (const std::size_t i : kept) {
    workload::NamedRange range;
    range.name = ranges_[i].name;
    // What holds a range that holds a launch holds the launch.
    if (within[i]) range.within = place.at(*within[i]);
    std::sort(members[i].begin(), members[i].end());
    range.ops = std::move(members[i]);
    workload.ranges.push_back(std::move(range));
  }
}

namespace {

constexpr const char* kEvents = "NVTX_EVENTS";
constexpr const char* kTexts = "StringIds";
// ENUM_NSYS_EVENT_TYPE
constexpr std::int64_t kPushPop = 59;
constexpr std::int64_t kStartEnd = 60;

}  // namespace

NamedRanges::Scope nsys_process_scope(std::int64_t global_tid) { return -1 - nsys_process(global_tid); }

NamedRanges read_nsys_ranges(const NsysDatabase& database) {
  NamedRanges ranges;
  if (!database.has_table(kEvents)) return ranges;
  std::map<std::int64_t, std::string> texts;  // that ranges refer to
  std::size_t odd = 0;
  const auto scan_ranges = [&](auto&& take) {
    odd = 0;
    enum : std::size_t { kBegin, kEnd, kType, kText, kTextId, kTid };
    NsysScan scan(database, kEvents,
                  {{"start", true},
                   {"end", false},
                   {"eventType", true},
                   {"text", false},
                   {"textId", false},
                   {"globalTid", false}});
    while (scan.next()) {
      const std::int64_t type = scan.integer(kType);
      // One that was open when the recording ended has no end; it names nothing whole.
      if ((type != kPushPop && type != kStartEnd) || !scan.present(kEnd)) continue;
      const std::int64_t tid = scan.present(kTid) ? scan.integer(kTid) : 0;
      const Nanoseconds begin = scan.integer(kBegin);
      const Nanoseconds end = scan.integer(kEnd);
      // A name is no reason to refuse the rest.
      if (tid < 0 || begin < -kMaxNsysTime || end < begin || end > kMaxNsysTime) {
        ++odd;
        continue;
      }
      std::optional<std::int64_t> id;
      if (scan.present(kTextId)) id = scan.integer(kTextId);
      take(type == kPushPop ? tid : nsys_process_scope(tid), begin, end,
           scan.present(kText) ? scan.text(kText) : std::string(), id);
    }
  };
  scan_ranges([&](NamedRanges::Scope, Nanoseconds, Nanoseconds, const std::string& text,
                  const std::optional<std::int64_t>& id) {
    if (text.empty() && id) texts.emplace(*id, std::string());
  });
  if (!texts.empty() && database.has_table(kTexts)) {
    NsysScan scan(database, kTexts, {{"id", true}, {"value", true}});
    while (scan.next()) {
      const auto at = texts.find(scan.integer(0));
      if (at != texts.end()) at->second = scan.text(1);
    }
  }
  scan_ranges([&](NamedRanges::Scope scope, Nanoseconds begin, Nanoseconds end, const std::string& text,
                  const std::optional<std::int64_t>& id) {
    const std::string& name = text.empty() && id ? texts.at(*id) : text;
    ranges.add(scope, name.empty() ? "(without a name)" : name, begin, end);
  });
  ranges.leave_out(odd);
  return ranges;
}

}  // namespace heddle::import
