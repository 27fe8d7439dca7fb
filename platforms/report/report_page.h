// report.html: one self-contained page about a run, with plots. Everything is inlined: the page opens without a network
// and its content security policy forbids one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace heddle::report {

// What `data` may hold. Every key is optional; a section without data is left out. Times are in microseconds of
// simulated time from the start of the run, percentages 0..100; null stands for "not known".
//
//   schema      1
//   title       heading of the page
//   command     command line that made the run
//   description  "sentence"                        of the scenario: below the title
//   highlights  [{label, value, note}]              tiles on top, four to six
//   warnings    ["sentence"]
//   stopped     {what: "No progress" | "Partial", how: "sentence", expected: bool, waits: ["sentence"]}
//                                                   of a run that has not come to its end: above everything else
//   gpus        [{name, preset, device, sms, gpcs: [SMs per GPC], clock_ghz, pace: "recorded" | "host" | "asap" | null,
//     spans           [{label, us}]                 lengths to compare; the first is the reference
//     occupancy       {bin_us, warps_percent: [per bin], sms_busy_percent: [per bin]}
//     load_map        {bin_us, sms: ["gpc0.cpc0.tpc0.sm0", ...], percent: [[per bin], per SM]}
//     launch_latency  {unit, edges, counts, p50, p95, max, what}
//                     n edges bound n-1 counts; with n counts the last one is "edges[n-1] and more";
//                     with n+1 counts the first one is "below edges[0]" besides
//     kernels         [{name, stream, grid: [x, y, z], block: [x, y, z], ctas, start_us, us, wait_us,
//                       recorded_start_us, recorded_us, baseline_us, occupancy_percent, overlaps, match}]
//                     match: "ok", or in a word or two why the two durations cannot be compared; some 10^4 rows are
//                     fine
//     copies          [{name, stream, start_us, us}]
//     names           ["name"]                      of many launches: their `name` is an index into these
//     kernels_left_out, copies_left_out             launches that are not listed, as there are more than can be shown:
//                     the longest are; then
//     kernel_totals   [{name, count, us, recorded, recordings, baseline, baselines}]   of all launches by name: sums in
//                     us, and the numbers of those for which the other two are known
//     faults          [{kernel, sm, cta, warp, lane, step, address, what, us, expected}]
//                     address: text; it, sm, cta, warp and lane are null where they mean nothing
//     ranges          {rows: [{name, depth, times, kernels, us, recorded_us, baseline_us}], left_out}
//                     named ranges of a recorded program, each behind the one that holds it: how often, and sums of
//                     the times from the start of what was launched first in it to the end of what ended last
//     idle            {idle_percent, sm_us, reasons: [{label, what, sm_us, share_percent}],
//                     kernels: [{name, sm_us, share_percent, reasons: [{label, share_percent}]}], left_out}
//                     SMs without a CTA: sm_us are SMs x time; reasons add up to 100, those of a kernel as well; the
//                     largest first; left_out: kernels that are not listed
//     kernel_use      {threshold_percent, rows: [{name, launches, us, instructions, operations, l1_bytes,
//     l1_hit_percent,
//                     l2_bytes, l2_hit_percent, dram_bytes, occupancy_percent,
//                     use: {issue, tensor, fp32, fp64, int32, sfu, shared, l1, crossbar, l2, atomics,
//                     dram}, limit: {label, percent, next: [{label, percent}]},
//                     stalls: [{reason, what, warp_cycles, share_percent}]}], left_out,
//                     nobody: {l2_bytes, dram_read_bytes, dram_written_bytes},
//                     ceilings: {instructions_per_us, operations_per_us, l2_gb_per_s, dram_gb_per_s},
//                     programs: [{kernel, warp_cycles, lines: [{step, instruction, warp_cycles, share_percent,
//                     reasons: as stalls}], left_out}]}
//                     by name, the longest first; us: sum of the launches' durations; operations: of matrix multiplies,
//                     as many of f16 as take the tensor cores as long; use: percent of what the machine could do in
//                     that time; left_out: kernels, and steps of a program, that are not listed
//     memory          {us, levels: [{name, what, bytes, gb_per_s, peak_gb_per_s, share_percent, hit_percent}],
//                     counts: [{label, count, note}], instructions: [{label, count}],
//                     warp_time: [{label, cycles, share_percent}]}
//                     us: time in which kernels with programs ran; levels from the SMs outwards
//     bulk            {kinds: [{kind, requests, wrong, bytes, mean_cycles, p95_cycles, longest_cycles}],
//                     tensors: [{name, kind, requests, wrong, bytes, fetched, used_percent, mean_cycles,
//                     longest_cycles, descriptor_cycles}], left_out, units: {rows: [{unit, requests, lines, bytes_in,
//                     bytes_out, generator_cycles, queue_cycles, outstanding_cycles, crossbar_cycles}], left_out},
//                     shares: [{label, share_percent, busy_percent, note}]} requests to tensor memory access units;
//                     wrong: of these; used: of the bytes fetched from memory; share: what such requests took of all
//                     that went there; busy: all that, of what could have
//     processes       {rows: [{subcontext, shared, kernels, open, mean_us, p50_us, p99_us, ctas, ctas_per_us, busy_us,
//                     sm_percent, tpcs_mean, tpcs_most, credits_left, contested_us, progress_percent, waiting,
//                     waits: [{reason, us, cause}], l2_hit_percent, bytes: [[bytes, share_percent] of L2, requests and
//                     responses in the crossbar, read from and written to memory]}], fairness: 0..1}
//                     shared: it was told apart by the distributor; open: kernels that had not ended; waiting: tasks
//                     with CTAs left to place at the end
//     clusters        {cycle_us, totals: [{kernel, guessed, size, warps, cgas, unfinished, mean_sms, mean_skew,
//     max_skew,
//                     mean_cycles, phases, mean_wait}],
//                     first: [{row, operation, cga, gpc, skew, phases, mean_wait, ctas: [[rank, sm, begin, end]]}],
//                     gpcs: [{sms: [id], paths: ["gpc0.cpc0.tpc0.sm0", ...], bytes: [[per SM] per SM]}]}
//                     in cycles; guessed: the cluster, from the name of the kernel; size: CTAs of a CGA; warps: of a
//                     CTA; row: index into totals; end: null where it did not end; gpcs: all, bytes from the SM of the
//                     row to that of the column where there was traffic
//     packets         {parts: [{key, what}], rows: [{kernel, launches, packets, own_us: [per part], all_us: [per
//     part]}],
//                     total: {launches, packets, own_us, all_us}}
//                     sums over launches; own: of it, what no earlier kernel of the same queue covers
//     launched        [{name, parent, depth, tasks, ended, faulted, mean_wait_us, mean_us, mean_below_us,
//                     false_dependencies, saves}]   kernels that programs launched, by name, parent and depth; means of
//                     the tasks that have ended: launch to start, start to the last CTA, from there to the end of
//                     descendants, of those that had some. Depth 0: kernels of the host of which CTAs were saved, and
//                     nothing else of them
//     unmatched       [{reason, kernels, time_us, share_percent}]
//   }]
//   expectations [{text, ok, actual}]
//   summary      [{label, value, note}]
//   parameters   [{path, value, unit, origin, source}]   those that differ from their defaults

// The page as text. Malformed UTF-8 in `data` becomes U+FFFD, NaN and infinities become null.
// Throws InputError when `data` is not an object.
std::string report_html(const nlohmann::json& data);

// Writes report_html(data) to `file`; the folder must exist, a file that is there is replaced.
// Throws InputError when the file cannot be written.
void write_report(const std::filesystem::path& file, const nlohmann::json& data);

// Pages about many runs. What `data` may hold, by template; numbers are null where there is none:
//
// sweep.html: a sweep over axes
//   schema, title, command, description
//   samples     the points are random ones, not a grid
//   axes        [{name, sets, unit, numeric, log, values: [number or text]}]   values: of the grid; empty: only samples
//   figures     [{name, unit, better: "less" | "more" | "", effects: [{axis, low, high, share_percent,
//               groups: [{label, mean, points}]}]}]
//               effects: means of the figure by value of an axis (an index), the axis that explains most first; share:
//               of the figure's variance
//   points      [{point, at: [value per axis], values: [per figure], status, reason, seconds, folder,
//               without: [{figure, why}]}]
//   choice      {x, lines, figure, pareto: [figure, figure]}   names; what is shown first
//
// compare.html: runs side by side, the first being what the others are compared with
//   schema, title
//   runs        [{name, command, complete}]
//   settings    [{path, values: [text per run]}]                that differ
//   figures, headline, stats, kernels, used   [{name, unit, values: [per run]}]; of kernels also launches: [per run];
//               used: what kernels used of the machines
//   equal_stats, stats_left_out
//   thresholds  [{text, name, run, first, value, ok}]           run: an index
//
// Malformed UTF-8 becomes U+FFFD, NaN and infinities null. Throws InputError when `data` is not an object.
std::string page_html(std::string_view name, const nlohmann::json& data);
// Throws InputError when the file cannot be written, too.
void write_page(std::string_view name, const std::filesystem::path& file, const nlohmann::json& data);

// The files of the page, put into the program by embed.cmake.
struct Resource {
  std::string_view name;          // file name without folder: "page.css"; Chart.js is always "chart.min.js"
  const std::string_view* parts;  // the content is these, one after the other
  std::size_t part_count;
};

const Resource* resources_begin();
const Resource* resources_end();

}  // namespace heddle::report
