// What the tests of the planner share: lists of kernels, and a reading of plans that is independent of both planner and
// model: bytes are taken apart by hand, by PKT-06 and PKT-07.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "driver/dispatches.h"

namespace heddle::test {

using Kernels = std::vector<heddle_kernel>;

inline heddle_plan_options usual_options() {
  heddle_plan_options options{};
  options.costs = {700, 720, 650, 110, 150};
  return options;
}

struct Plan {
  std::vector<heddle_planned> packets;
  heddle_plan_result result{};
  heddle_status status = HEDDLE_OK;
};

inline Plan plan(const Kernels& kernels, const heddle_plan_options& options, heddle_table& table) {
  const auto count = static_cast<std::uint32_t>(kernels.size());
  std::vector<std::uint64_t> workspace(heddle_plan_workspace(count, &options) / 8 + 1);
  Plan made;
  made.packets.resize(kernels.size());
  made.status = heddle_plan(kernels.data(), count, &options, &table, workspace.data(), workspace.size() * 8,
                            made.packets.data(), count, &made.result);
  made.packets.resize(made.result.packets);
  return made;
}

inline std::uint64_t number(const std::uint8_t* bytes, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

// A kernel as the device would run it.
struct Run {
  heddle_dispatch fields{};
  bool barrier = false;  // waits for all earlier ones of the queue; within a packet: of the packet
  unsigned acquire = 0;
  unsigned release = 0;
  std::uint64_t signal = 0;
  std::uint32_t packet = 0;
  bool first = false;
  bool last = false;
};

class Interpreter {
 public:
  // The bytes of a packet, in the device's way; an empty text or what is wrong.
  std::string take(const std::uint8_t* bytes) {
    const auto number_of_packet = packets_++;
    if (bytes[0] == 2 || bytes[0] == 6) {
      Run run = single(bytes);
      run.packet = number_of_packet;
      if (bytes[0] == 6) {
        const std::uint64_t entry = number(bytes + 10, 2);
        if (entry > 7) return "no such entry";
        table_[entry] = run.fields;
      }
      runs.push_back(run);
      return "";
    }
    return bytes[0] == 7 ? condensed(bytes, number_of_packet) : "another type of packet";
  }
  std::vector<Run> runs;

 private:
  static Run single(const std::uint8_t* bytes) {
    Run run;
    heddle_dispatch& f = run.fields;
    f.scopes = bytes[1];
    f.setup = static_cast<std::uint16_t>(number(bytes + 2, 2));
    for (std::size_t i = 0; i < 3; ++i) {
      f.workgroup[i] = static_cast<std::uint16_t>(number(bytes + 4 + 2 * i, 2));
      f.grid[i] = static_cast<std::uint32_t>(number(bytes + 12 + 4 * i, 4));
    }
    f.private_segment = static_cast<std::uint32_t>(number(bytes + 24, 4));
    f.group_segment = static_cast<std::uint32_t>(number(bytes + 28, 4));
    f.kernel_object = number(bytes + 32, 8);
    f.kernarg = number(bytes + 40, 8);
    f.completion_signal = number(bytes + 56, 8);
    run.barrier = (f.scopes & 1) != 0;
    run.acquire = f.scopes >> 1 & 3U;
    run.release = f.scopes >> 3 & 3U;
    run.signal = f.completion_signal;
    run.first = run.last = true;
    return run;
  }

  std::string condensed(const std::uint8_t* bytes, std::uint32_t number_of_packet) {
    const unsigned count = bytes[1];
    unsigned at = 0;
    const auto next = [&](unsigned half_words) {
      const std::uint64_t value = number(bytes + 2 + 2 * std::size_t{at}, 2 * half_words);
      at += half_words;
      return value;
    };
    if (count == 0) return "no kernels";
    for (unsigned kernel = 0; kernel < count; ++kernel) {
      if (at >= 31) return "the diffs run past the end";
      const auto header = static_cast<unsigned>(next(1));
      const unsigned vector = header >> 3;
      if (!table_[header & 7U]) return "an empty entry";
      Run run;
      run.fields = *table_[header & 7U];
      heddle_dispatch& f = run.fields;
      if (vector & 1U) f.scopes = static_cast<std::uint8_t>(next(1));
      if (vector & 2U) f.setup = static_cast<std::uint16_t>(next(1));
      for (unsigned i = 0; i < 3; ++i) {
        if (vector >> (2 + i) & 1U) f.workgroup[i] = static_cast<std::uint16_t>(next(1));
      }
      for (unsigned i = 0; i < 3; ++i) {
        if (vector >> (5 + i) & 1U) f.grid[i] = static_cast<std::uint32_t>(next(2));
      }
      if (vector >> 8 & 1U) f.private_segment = static_cast<std::uint32_t>(next(2));
      if (vector >> 9 & 1U) f.group_segment = static_cast<std::uint32_t>(next(2));
      if (vector >> 10 & 1U) f.kernel_object = next(4);
      if (vector >> 11 & 1U) f.kernarg = next(4);
      if (vector >> 12 & 1U) f.completion_signal = next(4);
      if (at > 31) return "the diffs run past the end";
      run.packet = number_of_packet;
      run.first = kernel == 0;
      run.last = kernel + 1 == count;
      run.barrier = (f.scopes & 1) != 0;
      run.acquire = f.scopes >> 1 & 3U;
      // The stored one of a later kernel is for what the kernels before it have written: agent scope.
      if (!run.first && (vector & 1U) == 0) run.acquire = std::min(run.acquire, 1U);
      run.release = run.last || (vector & 1U) != 0 ? f.scopes >> 3 & 3U : 0;
      run.signal = run.last || (vector >> 12 & 1U) != 0 ? f.completion_signal : 0;
      runs.push_back(run);
    }
    for (; at < 31;) {
      if (next(1) != 0) return "half-words behind the last diff";
    }
    return "";
  }

  std::array<std::optional<heddle_dispatch>, 8> table_{};
  std::uint32_t packets_ = 0;
};

using Order = std::vector<std::vector<bool>>;

// Bit k of the sets: kernel k has completed (with what it wrote released, if `released`) when the kernel starts. By
// the weakest machine: a packet without the barrier bit may start as soon as the first kernel of the one before has.
inline Order complete_before(const std::vector<Run>& runs, bool overlap) {
  std::vector<std::vector<bool>> before(runs.size(), std::vector<bool>(runs.size(), false));
  std::size_t first_of_packet = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].first) {
      if (i > 0) before[i] = before[first_of_packet];  // launched after it
      if (runs[i].barrier) std::fill(before[i].begin(), before[i].begin() + static_cast<std::ptrdiff_t>(i), true);
      first_of_packet = i;
      continue;
    }
    before[i] = before[i - 1];
    if (overlap && !runs[i].barrier) continue;
    const std::size_t from = overlap ? first_of_packet : i - 1;
    std::fill(before[i].begin() + static_cast<std::ptrdiff_t>(from), before[i].begin() + static_cast<std::ptrdiff_t>(i),
              true);
  }
  return before;
}

// What the list asked for: every kernel as a plain packet.
inline Order complete_before(const Kernels& kernels) {
  std::vector<Run> runs(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    runs[i].barrier = (kernels[i].dispatch.scopes & 1) != 0;
    runs[i].first = true;
  }
  return complete_before(runs, false);
}

inline bool same_work(const heddle_dispatch& a, const heddle_dispatch& b) {
  constexpr unsigned kOuter = 1U << HEDDLE_FIELD_SCOPES | 1U << HEDDLE_FIELD_COMPLETION_SIGNAL;
  return (heddle_fields_different(&a, &b) & ~kOuter) == 0;
}

// Whether what kernel k wrote has been released at its scope by the time that the signal of kernel `until` would be
// written. `order`: by complete_before().
inline bool is_released(const std::vector<Run>& runs, const Order& order, unsigned scope, std::size_t k,
                        std::size_t until) {
  for (std::size_t i = k; i <= until && runs[i].packet == runs[k].packet; ++i) {
    // The release at the end of a packet comes after all its kernels.
    if ((i == k || order[i][k] || runs[i].last) && runs[i].release >= scope) return true;
  }
  return scope == 0;
}

inline unsigned release_of(const heddle_kernel& kernel) { return kernel.dispatch.scopes >> 3 & 3U; }

// Empty, or which release is missing, too late or needless.
inline std::string what_of_release_is_lost(const Kernels& kernels, const std::vector<Run>& runs, const Order& asked,
                                           const Order& given, bool keep_all) {
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const std::string where = " of kernel " + std::to_string(k);
    const unsigned scope = release_of(kernels[k]);
    if (!is_released(runs, given, scope, k, runs.size() - 1)) return "release" + where;
    const bool keep = keep_all || (kernels[k].keep & HEDDLE_KEEP_RELEASE) != 0 || runs[k].signal != 0;
    if (keep && runs[k].release < scope) return "own release" + where;
    // As plain packets, those that kernel i waits for release before it begins.
    for (std::size_t i = k + 1; i < runs.size(); ++i) {
      if (runs[i].signal == 0 || !asked[i][k] || is_released(runs, given, scope, k, i)) continue;
      return "release" + where + " before the signal of kernel " + std::to_string(i);
    }
    // A wider one comes before a signal or at the end, for a kernel of the packet that has had none.
    bool needed = runs[k].release <= scope;
    const bool may = runs[k].signal != 0 || runs[k].last;
    for (std::size_t i = k; may && !needed && i-- > 0 && runs[i].packet == runs[k].packet;) {
      needed = release_of(kernels[i]) == runs[k].release && !is_released(runs, given, runs[k].release, i, k - 1);
    }
    if (!needed) return "a release too much" + where;
  }
  return "";
}

// Empty, or what the plan has lost. `runs`: what came of it.
inline std::string what_is_lost(const Kernels& kernels, const std::vector<Run>& runs,
                                const heddle_plan_options& options) {
  if (runs.size() != kernels.size()) return "another number of kernels";
  unsigned merged_acquire = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const heddle_kernel& wanted = kernels[i];
    const Run& run = runs[i];
    const std::string where = " of kernel " + std::to_string(i);
    const unsigned acquire = wanted.dispatch.scopes >> 1 & 3U;
    if (!same_work(wanted.dispatch, run.fields)) return "fields" + where;
    if (run.signal != wanted.dispatch.completion_signal) return "signal" + where;
    if (run.first) merged_acquire = run.acquire;
    const bool keep_acquire = options.keep_fences || (wanted.keep & HEDDLE_KEEP_ACQUIRE) != 0;
    if ((keep_acquire ? run.acquire : merged_acquire) < acquire) return "acquire" + where;
    if (run.acquire < std::min(acquire, 1U)) return "acquire inside the packet" + where;
  }
  for (std::size_t i = 0; i < runs.size();) {
    unsigned acquire = 0;
    const std::size_t first = i;
    do acquire = std::max(acquire, kernels[i].dispatch.scopes >> 1 & 3U);
    while (!runs[i++].last);
    if (runs[first].acquire > acquire) return "an acquire nobody asked for";
    for (std::size_t k = first + 1; k < i; ++k) {
      const bool keep = options.keep_fences || (kernels[k].keep & HEDDLE_KEEP_ACQUIRE) != 0;
      // That of its entry reaches no further than the agent.
      if (runs[k].acquire > std::max(keep ? kernels[k].dispatch.scopes >> 1 & 3U : 0U, 1U))
        return "an acquire too much";
    }
  }
  const auto asked = complete_before(kernels);
  const auto given = complete_before(runs, options.overlap);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (asked[i][k] && !given[i][k]) return "order of " + std::to_string(k) + " and " + std::to_string(i);
      if (!options.serialise && !asked[i][k] && given[i][k]) {
        return std::to_string(i) + " need not wait for " + std::to_string(k);
      }
    }
  }
  return what_of_release_is_lost(kernels, runs, asked, given, options.keep_fences);
}

inline std::uint64_t cost_of(const Plan& made, const Kernels& kernels, const heddle_plan_costs& costs) {
  std::uint64_t cost = 0;
  for (const heddle_planned& planned : made.packets) {
    const unsigned type = planned.packet.bytes[0];
    if (type == 2) cost += costs.plain;
    if (type == 6) cost += costs.reference;
    if (type == 7) cost += costs.condensed + std::uint64_t{planned.kernels} * costs.diff;
    for (std::uint32_t i = 0; i + 1 < planned.kernels; ++i) {
      const heddle_kernel& kernel = kernels[planned.first + i];
      // Every kept release or signal within a packet is a clean-up of its own.
      if (kernel.dispatch.completion_signal != 0) {
        cost += costs.own_clean_up;
      } else if ((kernel.keep & HEDDLE_KEEP_RELEASE) != 0 && (kernel.dispatch.scopes >> 3 & 3) != 0) {
        cost += costs.own_clean_up;
      }
    }
  }
  return cost;
}

}  // namespace heddle::test
