// Data for the report page, and a browser that draws it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "report/report_page.h"
#include "support/temp_dir.h"

namespace heddle::test {

namespace fs = std::filesystem;
using nlohmann::json;
using report::report_html;
using report::write_report;

inline std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

// The text of the data element, found the way a browser finds it: up to the first "</script".
inline std::string embedded_json(const std::string& page) {
  const std::string_view open = R"(id="heddle-data">)";
  const std::size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("</script", begin);
  REQUIRE(end != std::string::npos);
  return page.substr(begin + open.size(), end - begin - open.size());
}

constexpr const char* kNasty =
    "void evil<\"quotes\", 'single', a&b>(</script><script>document.body.dataset.pwned=1</script><!-- <script> ]]> "
    "@@data@@ @@file page.css@@ \\u003c \xE2\x80\xA8 \xE2\x80\xA9 \xC3\xA9\xE6\xBC\xA2\xF0\x9F\xA7\xB5)";

inline json kernel(const std::string& name, int index, double recorded) {
  return {{"name", name},
          {"stream", std::to_string(7 + index % 3)},
          {"grid", {132, 2, 1}},
          {"block", {128, 1, 1}},
          {"ctas", 264},
          {"start_us", 12.0 * index},
          {"us", 1.02 * recorded},
          {"wait_us", 0.5},
          {"recorded_start_us", 12.0 * index},
          {"recorded_us", recorded},
          {"baseline_us", 1.1 * recorded},
          {"occupancy_percent", 43.5},
          {"overlaps", false},
          {"match", index % 5 == 0 ? "launch bound" : "ok"}};
}

inline json level(const std::string& name, double bytes, const json& hit) {
  return {{"name", name},
          {"what", "reads of all SMs"},
          {"bytes", bytes},
          {"gb_per_s", bytes / 1e3},
          {"peak_gb_per_s", bytes / 250},
          {"share_percent", 25.0},
          {"hit_percent", hit}};
}

inline json kernel_use() {
  const json stalls = {
      {{"reason", "memory"}, {"what", "waited for a load"}, {"warp_cycles", 750}, {"share_percent", 75.0}},
      {{"reason", "bulk_queue"}, {"what", "waited"}, {"warp_cycles", 250}, {"share_percent", 25.0}}};
  const auto row = [&stalls](const std::string& name, double operations) {
    return json{
        {"name", name},
        {"launches", 3},
        {"us", 90.0},
        {"instructions", 4e6},
        {"operations", operations},
        {"l1_bytes", 1e6},
        {"l1_hit_percent", 12.5},
        {"l2_bytes", 2e6},
        {"l2_hit_percent", nullptr},
        {"dram_bytes", operations > 0 ? 1e6 : 0},
        {"occupancy_percent", 31.5},
        {"use", {{"issue", 22.5}, {"tensor", 64.5}, {"l1", 1.5}, {"crossbar", 33.5}, {"l2", 7.5}, {"dram", 8.5}}},
        {"limit",
         {{"label", "tensor cores"},
          {"percent", 64.5},
          {"next", {{{"label", "crossbar"}, {"percent", 33.5}}, {{"label", "issue slots"}, {"percent", 22.5}}}}}},
        {"stalls", stalls}};
  };
  return {
      {"threshold_percent", 60},
      {"rows", {row("void gemm<float, 4>(Parameters)", 8e9), row(kNasty, 0)}},
      {"left_out", 5},
      {"nobody", {{"l2_bytes", 1024}, {"dram_read_bytes", 2048}, {"dram_written_bytes", 5120}}},
      {"ceilings",
       {{"instructions_per_us", 9.5e5}, {"operations_per_us", 9.9e8}, {"l2_gb_per_s", 9000}, {"dram_gb_per_s", 3350}}},
      {"programs",
       {{{"kernel", kNasty},
         {"warp_cycles", 4321},
         {"lines",
          {{{"step", "load x (line 12)"},
            {"instruction", 7},
            {"warp_cycles", 1000},
            {"share_percent", 23.1},
            {"reasons", stalls}}}},
         {"left_out", 6}}}}};
}

inline json memory() {
  return {{"us", 12.5},
          {"levels", {level("L1", 3.0 * (1 << 20), 87.5), level("Device memory", 2048, nullptr)}},
          {"counts", {{{"label", "Requests to the L2"}, {"count", 524288}, {"note", "of 128 bytes"}}}},
          {"instructions", {{{"label", "fp32"}, {"count", 300}}, {{"label", "memory"}, {"count", 100}}}},
          {"warp_time",
           {{{"label", "at a barrier"}, {"cycles", 750}, {"share_percent", 75.0}},
            {{"label", "issuing"}, {"cycles", 250}, {"share_percent", 25.0}}}}};
}

inline json bulk() {
  return {{"kinds",
           {{{"kind", "load"},
             {"requests", 4096},
             {"wrong", 3},
             {"bytes", 64 * 1024},
             {"mean_cycles", 612.5},
             {"p95_cycles", 700},
             {"longest_cycles", 1347}}}},
          {"tensors",
           {{{"name", kNasty},
             {"kind", "load"},
             {"requests", 4000},
             {"wrong", 0},
             {"bytes", 48 * 1024},
             {"fetched", 96 * 1024},
             {"used_percent", 50.5},
             {"mean_cycles", 600.0},
             {"longest_cycles", 1347},
             {"descriptor_cycles", 9.25}},
            {{"name", "blocks"},
             {"kind", "store"},
             {"requests", 96},
             {"wrong", 3},
             {"bytes", 16 * 1024},
             {"fetched", 0},
             {"used_percent", nullptr},
             {"mean_cycles", nullptr},
             {"longest_cycles", 0},
             {"descriptor_cycles", nullptr}}}},
          {"left_out", 7},
          {"units",
           {{"rows",
             {{{"unit", "gpc3.tmau1"},
               {"requests", 17},
               {"lines", 611},
               {"bytes_in", 77824},
               {"bytes_out", 512},
               {"generator_cycles", 1234},
               {"queue_cycles", 5},
               {"outstanding_cycles", 6},
               {"crossbar_cycles", 7}}}},
            {"left_out", 2}}},
          {"shares",
           {{{"label", "Links to SMs"}, {"share_percent", 83.25}, {"busy_percent", 41.5}, {"note", "bytes"}},
            {{"label", "Ports of shared memory"}, {"share_percent", nullptr}, {"busy_percent", nullptr}}}}};
}

inline json launched() {
  return {{{"name", "parent"},
           {"parent", ""},
           {"depth", 0},
           {"tasks", 0},
           {"ended", 0},
           {"faulted", 0},
           {"mean_wait_us", nullptr},
           {"mean_us", nullptr},
           {"mean_below_us", nullptr},
           {"false_dependencies", 0},
           {"saves", 613}},
          {{"name", "leaf<int>"},
           {"parent", "parent"},
           {"depth", 1},
           {"tasks", 2048},
           {"ended", 2040},
           {"faulted", 3},
           {"mean_wait_us", 15.5},
           {"mean_us", 31.5},
           {"mean_below_us", 47.5},
           {"false_dependencies", 777},
           {"saves", 0}}};
}

inline json idle() {
  return {{"idle_percent", 61.25},
          {"sm_us", 4100.0},
          {"reasons",
           {{{"label", "launch overhead"},
             {"what", "task management prepares"},
             {"sm_us", 3075.0},
             {"share_percent", 75.0}},
            {{"label", "partition"}, {"what", "the subcontext"}, {"sm_us", 1025.0}, {"share_percent", 25.0}}}},
          {"kernels",
           {{{"name", "leaf<int>"},
             {"sm_us", 2050.0},
             {"share_percent", 50.0},
             {"reasons",
              {{{"label", "partition"}, {"share_percent", 62.5}},
               {{"label", "launch overhead"}, {"share_percent", 37.5}}}}}}},
          {"left_out", 4}};
}

inline json processes() {
  return {{"rows",
           {{{"subcontext", 1},
             {"shared", true},
             {"kernels", 12},
             {"open", 2},
             {"mean_us", 81.5},
             {"p50_us", 80.0},
             {"p99_us", 97.25},
             {"ctas", 4321},
             {"ctas_per_us", 7.75},
             {"busy_us", 500.0},
             {"sm_percent", 61.5},
             {"tpcs_mean", 2.5},
             {"tpcs_most", 3},
             {"credits_left", -1},
             {"contested_us", 420.0},
             {"progress_percent", 71.25},
             {"waiting", 1},
             {"waits", {{{"reason", "no TPC credit"}, {"us", 33.5}, {"cause", "its own credits"}}}},
             {"l2_hit_percent", 44.5},
             {"bytes", {{2048, 25.0}, {1024, 50.0}, {3072, 75.0}, {512, 12.5}, {0, nullptr}}}},
            {{"subcontext", 0},
             {"shared", false},
             {"kernels", 0},
             {"mean_us", nullptr},
             {"waits", json::array()},
             {"l2_hit_percent", nullptr},
             {"bytes", {{6144, 75.0}, {1024, 50.0}, {1024, 25.0}, {3584, 87.5}, {0, nullptr}}}}}},
          {"fairness", 0.8765}};
}

inline json cga(int gpc, int number, const json& ctas) {
  return {{"row", 0},    {"operation", 4},     {"cga", number}, {"gpc", gpc}, {"skew", 20 + 5 * number},
          {"phases", 2}, {"mean_wait", 350.5}, {"ctas", ctas}};
}

// Two CGAs on gpc0, of which the second shares SMs with the first, and one on gpc1 that did not come to its end.
inline json clusters() {
  const json totals = {{"kernel", kNasty},    {"size", 2},       {"warps", 4},        {"cgas", 2},
                       {"unfinished", 1},     {"mean_sms", 1.5}, {"mean_skew", 22.5}, {"max_skew", 25},
                       {"mean_cycles", 4000}, {"phases", 4},     {"mean_wait", 350.5}};
  const json first = {cga(0, 0, {{0, 0, 1000, 5000}, {1, 2, 1020, 5100}}),
                      cga(0, 1, {{1, 2, 2000, 6000}, {0, 2, 2025, 6000}}), cga(1, 2, {{0, 1, 3000, nullptr}})};
  return {{"cycle_us", 0.0005},
          {"totals", {totals}},
          {"first", first},
          {"gpcs",
           {{{"sms", {0, 2}}, {"paths", {"gpc0.cpc0.tpc0.sm0", "gpc0.cpc0.tpc0.sm1"}}, {"bytes", {{0, 3072}, {96, 0}}}},
            {{"sms", {1, 3}}, {"paths", {"gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1"}}}}}};
}

inline json packet_row(const std::string& name, int launches, double scale) {
  json own = json::array();
  json all = json::array();
  for (const double part : {0.25, 0.5, 0.125, 0.25, 0.08, 0.06, 2.0, 0.25}) {
    own.push_back(part * scale * launches);
    all.push_back(2 * part * scale * launches);
  }
  return {{"kernel", name}, {"launches", launches}, {"packets", (launches + 2) / 3}, {"own_us", own}, {"all_us", all}};
}

inline json packets() {
  json parts = json::array();
  for (const char* const key : {"enqueue", "fetch", "wait", "decode", "dispatch", "launch", "execution", "clean_up"}) {
    parts.push_back({{"key", key}, {"what", std::string("what ") + key + " is"}});
  }
  return {{"parts", parts},
          {"rows", {packet_row(kNasty, 60, 1), packet_row("Sweep", 60, 2.5), packet_row("3 other kernels", 9, 0.5)}},
          {"total", packet_row("", 129, 1)}};
}

inline json fault(bool expected) {
  return {{"kernel", expected ? "careful" : kNasty},
          {"sm", 3},
          {"cta", 17},
          {"warp", 2},
          {"lane", 5},
          {"step", "store (line 12)"},
          {"address", expected ? json() : json("0x1000")},
          {"what", "address outside memory"},
          {"us", 1.25},
          {"expected", expected}};
}

// Every section has data; 120 kernels make three pages of the table.
inline json full_data() {
  json gpu = {
      {"name", "gpu0"},
      {"preset", "h100-sxm"},
      {"device", "NVIDIA H100 80GB HBM3"},
      {"sms", 4},
      {"gpcs", {2, 2}},
      {"clock_ghz", 1.755},
      {"pace", "recorded"},
      {"occupancy", {{"bin_us", 500.0}, {"warps_percent", {10, 50.5, 100}}, {"sms_busy_percent", {25, 75, 100}}}},
      {"load_map",
       {{"bin_us", 500.0},
        {"sms", {"gpc0.cpc0.tpc0.sm0", "gpc0.cpc0.tpc0.sm1", "gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1"}},
        {"percent", {{0, 50, 100}, {1, 51, 99}, {2, 52, 98}, {3, 53, 97}}}}},
      {"launch_latency",
       {{"unit", "us"},
        {"edges", {0.5, 1.0, 2.0, 4.0}},
        {"counts", {3, 90, 27}},
        {"p50", 1.4},
        {"p95", 3.1},
        {"max", 3.9},
        {"what", "from a task's submission to its first CTA on an SM"}}},
      {"kernel_use", kernel_use()},
      {"memory", memory()},
      {"idle", idle()},
      {"launched", launched()},
      {"processes", processes()},
      {"bulk", bulk()},
      {"clusters", clusters()},
      {"packets", packets()},
      {"faults", {fault(true), fault(false), fault(false)}},
      {"copies", {{{"name", "Memcpy HtoD"}, {"stream", "13"}, {"start_us", 3.0}, {"us", 8.0}}}},
      {"unmatched",
       {{{"reason", "overlaps other kernels"}, {"kernels", 24}, {"time_us", 240.0}, {"share_percent", 20.0}}}},
      {"spans", {{{"label", "recorded"}, {"us", 1450.0}}, {{"label", "modelled, this machine"}, {"us", 1400.0}}}}};
  for (int i = 0; i < 120; ++i) {
    std::string name = kNasty;
    if (i % 3 == 1) name = "void at::native::elementwise_kernel<128, 4, at::native::AddFunctor<float> >(int)";
    if (i % 3 == 2) name = "void at::native::elementwise_kernel<128, 4, at::native::MulFunctor<float> >(int)";
    gpu["kernels"].push_back(kernel(name, i, 1.0 + i % 17));
  }
  return {{"schema", 1},
          {"title", "a <b>bold</b> & \"quoted\" title"},
          {"command", "heddle run 'x.json.gz' --set gpu.a=<1>"},
          {"gpus", {gpu}},
          {"summary", {{{"label", "Kernels"}, {"value", "120"}, {"note", "all of them"}}}},
          {"highlights", {{{"label", "End-to-end"}, {"value", "1.4 ms"}, {"note", "recorded 1.45 ms"}}}},
          {"parameters",
           {{{"path", "gpu0.cwd.session_cycles"},
             {"value", "12"},
             {"unit", "cycles"},
             {"origin", "--set"},
             {"source", "assumption"}}}},
          {"warnings", {"first warning", "second warning"}},
          {"stopped",
           {{"what", "No progress"},
            {"how", "no event is left"},
            {"expected", false},
            {"waits", {"the cause: b waits: for c", "a waits: for b"}}}},
          {"expectations",
           {{{"text", "gpu0.cwd.ctas_launched equals 512"}, {"ok", true}, {"actual", "512"}},
            {{"text", "gpu0.cwd.stalls is below 3"}, {"ok", false}, {"actual", "4"}}}}};
}

// Much is null, empty or missing.
inline json sparse_data() {
  json latency = {{"unit", "us"}, {"edges", {1, 2}}, {"counts", {1, 2}}, {"p50", nullptr}};
  json kernels = {{{"name", "k"}, {"start_us", 0.0}, {"us", 5.0}, {"recorded_us", nullptr}, {"baseline_us", nullptr}},
                  {{"name", ""}},
                  {{"name", "k"}, {"us", nullptr}, {"start_us", nullptr}}};
  return {
      {"title", "sparse"},
      {"gpus",
       {{{"name", "gpu0"}, {"pace", nullptr}},
        {{"name", "gpu1"},
         {"occupancy", {{"bin_us", 1.0}, {"warps_percent", {1, nullptr, 3}}}},
         {"load_map", {{"bin_us", 1.0}, {"sms", json::array()}, {"percent", {{0, nullptr}, json::array()}}}},
         {"launch_latency", latency},
         {"kernels", kernels}},
        {{"memory",
          {{"us", nullptr},
           {"levels", {{{"name", "L1"}, {"bytes", 0}, {"gb_per_s", nullptr}, {"share_percent", nullptr}}}},
           {"counts", {{{"label", "x"}, {"count", nullptr}}}}}},
         {"faults", {{{"kernel", "k"}, {"expected", true}}}}},
        {{"memory", {{"us", 0}}},
         {"faults", json::array()},
         {"clusters", json::object()},
         {"packets", json::object()},
         {"processes", json::object()},
         {"bulk", json::object()}},
        {{"processes", {{"rows", {{{"subcontext", 3}, {"shared", true}, {"kernels", nullptr}}}}}}},
        {{"packets",
          {{"parts", {{{"key", "fetch"}}, {{"key", "new"}}}},
           {"rows", {{{"kernel", nullptr}, {"launches", 0}, {"own_us", {nullptr, 0}}}}},
           {"total", {{"own_us", {0, 0}}}}}}},
        {{"clusters",
          {{"cycle_us", 0.001},
           {"totals", {{{"kernel", nullptr}, {"cgas", 0}, {"mean_skew", nullptr}, {"mean_wait", nullptr}}}},
           {"first", {{{"row", 0}, {"gpc", 0}, {"skew", 0}, {"mean_wait", nullptr}, {"ctas", {{0, 0, 10, nullptr}}}}}},
           {"gpcs", {{{"sms", {0}}, {"paths", {"gpc0.cpc0.tpc0.sm0"}}}}}}}},
        {{"launch_latency", {{"unit", "ns"}, {"edges", {1, 2}}, {"counts", {1, 0, 4}}, {"max", 9}}},
         {"occupancy", {{"bin_us", 0}}},
         {"kernels", json::array()},
         {"spans", {{{"label", "x"}, {"us", nullptr}}}}}}},
      {"warnings", json::array()},
      {"summary", nullptr}};
}

inline std::string find_browser() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* const name : {"chromium", "chromium-browser", "google-chrome"}) {
      std::error_code ignored;
      if (fs::is_regular_file(fs::path(folder) / name, ignored)) return (fs::path(folder) / name).string();
    }
  }
  return {};
}

// The document as a browser has it after its scripts have run; empty without a browser. `scripts` is put at the page's
// end; `name`: of the page's template.
inline std::string dom_of(const json& data, const std::string& scripts = {}, const char* name = "page.html") {
  const std::string browser = find_browser();
  if (browser.empty()) {
    std::cout << "SKIPPED: no Chromium on this machine, the page is not drawn\n";
    return {};
  }
  const TempDir folder;
  const fs::path page = folder.path() / "report.html";
  report::write_page(name, page, data);
  std::ofstream(page, std::ios::app | std::ios::binary) << scripts;
  const fs::path dom = folder.path() / "dom.txt";
  const fs::path log = folder.path() / "log.txt";
  const std::string command =
      "timeout 100 '" + browser +
      "' --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage"
      " --disable-background-networking --disable-component-update --disable-sync"
      " --window-size=1280,2000 --virtual-time-budget=5000 --user-data-dir='" +
      (folder.path() / "profile").string() + "' --dump-dom 'file://" + page.string() + "' >'" + dom.string() + "' 2>'" +
      log.string() + "'";
  const int status = std::system(command.c_str());
  INFO(content_of(log));
  REQUIRE(status == 0);
  // The scripts' own text would answer for what they draw.
  std::string text = content_of(dom);
  for (std::size_t begin = 0; (begin = text.find("<script", begin)) != std::string::npos;) {
    const std::size_t end = text.find("</script>", begin);
    REQUIRE(end != std::string::npos);
    text.erase(begin, end - begin);
  }
  return text;
}

inline std::string body_tag(const std::string& dom) {
  const std::size_t begin = dom.find("<body");
  REQUIRE(begin != std::string::npos);
  return dom.substr(begin, dom.find('>', begin) - begin + 1);
}

}  // namespace heddle::test
