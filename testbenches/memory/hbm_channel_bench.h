// One pseudo-channel without SystemC: accesses arrive at given cycles, and wait outside while its queue is full.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "memory/hbm_channel.h"
#include "memory/hbm_checker.h"

namespace heddle::test {

struct HbmChannelBench {
  struct Request {
    std::uint64_t cycle = 0;  // of arrival
    bool write = false;
    memory::HbmAccess access;
  };

  HbmChannelBench(const memory::HbmParams& params_, double cycle_ns_, std::uint64_t first_refresh = 1000)
      : params(params_),
        cycle_ns(cycle_ns_),
        timing(params, cycle_ns),
        checker(params, cycle_ns),
        counters(stats, "hbm"),
        channel(timing,
                {params.read_queue, params.write_queue, params.write_high, params.write_low, params.row_hit_cap},
                counters, first_refresh, &checker) {}

  // Runs until everything is done, in order of arrival per direction. Cycle of the end of each read's data, by tag;
  // 0 for the others.
  void run(const std::vector<Request>& requests) {
    std::deque<Request> waiting[2];
    std::size_t next = 0;
    std::uint64_t now = 0;
    std::vector<memory::HbmDone> done;
    while (true) {
      for (; next < requests.size() && requests[next].cycle <= now; ++next)
        waiting[requests[next].write].push_back(requests[next]);
      memory::HbmTick wake = memory::kNoTick;
      admit(waiting, now);
      do {
        done.clear();
        ++calls;
        wake = channel.advance(now * 1024, (now + 1) * 1024, done);
        for (const memory::HbmDone& item : done) finish(item.tag, static_cast<double>(item.when) / 1024 * cycle_ns);
      } while (admit(waiting, now));
      end_cycle = now;
      const std::uint64_t arrival = next < requests.size() ? requests[next].cycle : ~std::uint64_t{0};
      const std::uint64_t work = wake == memory::kNoTick ? ~std::uint64_t{0} : wake / 1024;
      if (arrival == ~std::uint64_t{0} && work == ~std::uint64_t{0}) break;
      now = std::max(now + 1, std::min(arrival, work));
    }
    lost = waiting[0].size() + waiting[1].size() + channel.waiting(false) + channel.waiting(true);
  }
  bool admit(std::deque<Request> (&waiting)[2], std::uint64_t now) {
    bool any = false;
    for (const bool write : {false, true}) {
      while (!waiting[write].empty() && channel.has_room(write)) {
        const memory::HbmAccess access = waiting[write].front().access;
        const auto how = channel.enter(write, access);
        if (how == memory::HbmChannel::Entered::forwarded) finish(access.tag, static_cast<double>(now) * cycle_ns);
        if (!write) entered_at(access.tag, now);
        waiting[write].pop_front();
        any = true;
      }
    }
    return any;
  }
  void finish(std::uint32_t tag, double ns) {
    if (finished.size() <= tag) finished.resize(tag + 1, -1);
    finished[tag] = ns;
    last_data = std::max(last_data, ns);
  }
  void entered_at(std::uint32_t tag, std::uint64_t cycle) {
    if (entered.size() <= tag) entered.resize(tag + 1, 0);
    entered[tag] = static_cast<double>(cycle) * cycle_ns;
  }
  double peak() const { return params.access_bytes / (static_cast<double>(timing.access) / 1024 * cycle_ns); }  // GB/s

  memory::HbmParams params;
  double cycle_ns;
  memory::HbmTiming timing;
  HbmChecker checker;
  Stats stats;
  memory::HbmCounters counters;
  memory::HbmChannel channel;
  std::vector<double> finished;  // ns, by tag; negative: not yet
  std::vector<double> entered;   // ns, by tag
  double last_data = 0;          // ns
  std::uint64_t end_cycle = 0;
  std::uint64_t calls = 0;
  std::size_t lost = 0;
};

}  // namespace heddle::test
