// The program on recorded traces made by hand: what it says of itself, what-if runs, several GPUs, import.
#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_replay_test {

using namespace heddle::test;

TEST_CASE("a recorded trace is replayed on its own machine within a few percent",
          "[cli][INP-01][INP-02][INP-10][INP-11]") {
  const TempDir dir;
  dir.write("plain.json", hand_made_trace());
  dir.write("zipped.json.gz", gzipped(hand_made_trace()));
  const Results results = run_well(dir, {"plain.json"}, "plain");
  CHECK(results.document().at("gpus").at(0).at("preset") == "a100");
  CHECK(results.document().at("gpus").at(0).at("sms") == 108);
  CHECK(results.stat("replay.kernels") == 30);
  CHECK(results.stat("gpu0.cwd.ctas_launched") == 108 * 60);
  CHECK(results.stat("gpu0.cwd.launch_packets") > 0);
  CHECK(results.stat("gpu0.task.holds") == 1);
  CHECK(results.stat("replay.span.recorded") == Approx(609));
  CHECK(results.stat("replay.span.modelled") == Approx(609).epsilon(0.005));
  CHECK(results.stat("sim.time") >= results.stat("replay.span.modelled"));
  CHECK(results.stat("replay.kernel_duration_error.p95") < 3);
  CHECK(results.stat("replay.kernels_alone") == 30);
  CHECK(results.stat("replay.kernels_within_5_percent") == 30);
  CHECK(results.stat("replay.occupancy.compared") == 30);
  CHECK(results.stat("replay.occupancy.mismatches") == 0);
  CHECK(results.stat("replay.signature_fit.launches") == 15);
  // gzip is a container, not another input.
  const Results zipped = run_well(dir, {"zipped.json.gz"}, "zipped");
  CHECK(zipped.document().at("stats") == results.document().at("stats"));
  // The page has the recorded durations beside the modelled ones.
  const nlohmann::json& gpu = results.page().at("gpus").at(0);
  REQUIRE(gpu.at("kernels").size() == 30);
  CHECK(gpu.at("copies").size() == 1);
  for (const nlohmann::json& kernel : gpu.at("kernels")) {
    CHECK(kernel.at("us").get<double>() == Approx(kernel.at("recorded_us").get<double>()).epsilon(0.05));
  }
  CHECK(gpu.at("spans").size() == 2);
}

TEST_CASE("without --gpu the machine follows from the trace, and the run says which", "[cli][INP-10][INP-04]") {
  const TempDir dir;
  dir.write("amd.json", hand_made_trace(6, kMi300x));
  dir.write("h200.json", hand_made_trace(6, R"({"id":0,"name":"NVIDIA H200","numSms":132,"warpSize":32})"));
  dir.write("new.json", hand_made_trace(6, R"({"id":0,"name":"NVIDIA H101","numSms":132,"warpSize":32})"));
  dir.write("less.json", hand_made_trace(6, R"({"id":0,"name":"NVIDIA H102","numSms":132,"warpSize":32,)"
                                            R"("maxThreadsPerMultiprocessor":1536})"));
  dir.write("rtx.json", hand_made_trace(6, R"({"id":0,"name":"NVIDIA RTX 9999","numSms":50,"warpSize":32,)"
                                           R"("maxThreadsPerMultiprocessor":1536,"maxThreadsPerBlock":1024})"));
  struct Case {
    const char* file;
    const char* preset;
    int sms;
    const char* says;
  };
  for (const Case& c :
       {Case{"amd.json", "mi300x", 304,
             "no preset knows the recorded device 'AMD Instinct MI300X', and this one has its 304"},
        Case{"new.json", "h100-sxm", 132,
             "no preset knows the recorded device 'NVIDIA H101', and this one has its 132"},
        Case{"less.json", "generic", 132, "generic machine with the 132 SMs of the recorded device 'NVIDIA H102'"},
        Case{"h200.json", "h200", 132, "preset h200 for the recorded device 'NVIDIA H200'"},
        Case{"rtx.json", "generic", 50, "generic machine with the 50 SMs of the recorded device 'NVIDIA RTX 9999'"}}) {
    CAPTURE(c.file);
    const Finished finished = heddle_in(dir, {"run", c.file, "--out", "out"});
    INFO(finished.out << finished.err);
    REQUIRE(finished.status == 0);
    CHECK(contains(finished.out, c.says));
    const Results results(dir.file("out"));
    CHECK(results.document().at("gpus").at(0).at("preset") == c.preset);
    CHECK(results.document().at("gpus").at(0).at("sms") == c.sms);
    CHECK(results.stat("replay.kernels_within_5_percent") == results.stat("replay.kernels_alone"));
  }
  // What the recording says of an SM is the machine's limit.
  const Finished config = heddle_in(dir, {"run", "rtx.json", "--dump-config", "-"});
  CHECK(contains(config.out, "threads: 1536"));
  CHECK(contains(config.out, "warps: 48"));
  // --gpu wins.
  const Results chosen = run_well(dir, {"rtx.json", "--gpu", "small", "--no-baseline"});
  CHECK(chosen.document().at("gpus").at(0).at("preset") == "small");
}

TEST_CASE("kernels that another machine cannot hold are refused at once, or get what it has", "[cli]") {
  const TempDir dir;
  const char* shape = R"("grid":[8,1,1],"block":[128,1,1],"shared memory":231424,"registers per thread":40)";
  dir.write("t.json", trace({kernel("large", 7, "100.000", "20.000", 1, shape), call("cudaLaunchKernel", "90.000", 1),
                             kernel("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", 7, "130.000", "20.000", 2,
                                    R"("grid":[2,66,1],"block":[384,1,1])"),
                             call("cudaLaunchKernelExC", "120.000", 2)},
                            R"({"id":0,"name":"NVIDIA H100 80GB HBM3","numSms":132,"warpSize":32})"));
  const Finished refused = heddle_in(dir, {"run", "t.json", "--gpu", "a100", "--out", "no"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "kernel 'large' of t.json can never run on gpu0: shared memory: 231424 bytes per CTA"));
  CHECK(contains(refused.err, "--misfits clamp"));
  const Finished clamped = heddle_in(dir, {"run", "t.json", "--gpu", "a100", "--misfits", "clamp", "--out", "yes"});
  INFO(clamped.err);
  REQUIRE(clamped.status == 0);
  CHECK(contains(clamped.out,
                 "1 of 2 kernels ask for more than an SM of gpu0 has, and run with what it has; 1 run without their "
                 "clusters (--misfits clamp). The first: shared memory: 231424 bytes"));
  CHECK(Results(dir.file("yes")).stat("gpu0.cwd.ctas_launched") == 8 + 132);
  CHECK(contains(read_file(dir.file("yes/kernels.csv")), "gpu0,0,kernel,large,7,0,0,8x1x1,128x1x1,,8,,"));
}

TEST_CASE("names that are no UTF-8 are no reason to fail", "[cli][INP-07]") {
  const TempDir dir;
  dir.write("t.csv",
            "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\","
            "\"End_Timestamp\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Workgroup_Size_X\","
            "\"Workgroup_Size_Y\",\"Workgroup_Size_Z\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"\n"
            "\"KERNEL_DISPATCH\",\"Agent 1\",1,1,\"a\xff\xfe\",1,1000,9000,0,0,16,64,1,1,640,1,1\n");
  const Finished finished = heddle_in(dir, {"run", "t.csv", "--gpu", "mi300x", "--out", "out"});
  INFO(finished.err);
  CHECK(finished.status == 0);
}

TEST_CASE("ranges that a recorded program named are in a table and on the page", "[cli][INP-17]") {
  const TempDir dir;
  const auto range = [](const char* name, const char* ts, const char* dur) {
    return fmt::format(R"({{"ph":"X","cat":"user_annotation","name":"{}","pid":4711,"tid":4711,"ts":{},"dur":{}}})",
                       name, ts, dur);
  };
  dir.write("t.json", trace({range("step, one", "80.000", "60.000"), range("forward", "85.000", "10.000"),
                             kernel("a", 7, "100.000", "20.000", 1), call("cudaLaunchKernel", "90.000", 1),
                             kernel("b", 7, "130.000", "10.000", 2), call("cudaLaunchKernel", "120.000", 2)}));
  const Finished finished = heddle_in(dir, {"run", "t.json", "--out", "out"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  const std::string csv = read_file(dir.file("out/ranges.csv"));
  CAPTURE(csv);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  CHECK(contains(csv, "\ngpu0,0,,\"step, one\",2,2,"));
  CHECK(contains(csv, ",0,40000,30000,\n"));
  CHECK(contains(csv, "\ngpu0,1,0,forward,1,1,"));
  CHECK(contains(csv, ",0,20000,20000,\n"));
  const Results results(dir.file("out"));
  const nlohmann::json& rows = results.page().at("gpus").at(0).at("ranges").at("rows");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("name") == "step, one");
  CHECK(rows[0].at("kernels") == 2);
  CHECK(rows[0].at("recorded_us") == 40);
  CHECK(rows[0].at("us").get<double>() == Approx(40).epsilon(0.02));
  CHECK(rows[1].at("depth") == 1);

  // In a what-if the recorded machine stands beside it.
  const Finished other = heddle_in(dir, {"run", "t.json", "--set", "gpu.shape=[18]", "--out", "what"});
  INFO(other.err);
  REQUIRE(other.status == 0);
  const Results changed(dir.file("what"));
  const nlohmann::json& row = changed.page().at("gpus").at(0).at("ranges").at("rows").at(0);
  CHECK(row.at("baseline_us").get<double>() == Approx(40).epsilon(0.02));
  CHECK_FALSE(contains(read_file(dir.file("what/ranges.csv")), ",\n"));
}

TEST_CASE("half the SMs and no pauses: the page shows all four, and the direction is right", "[cli]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace(60));
  const Finished finished =
      heddle_in(dir, {"run", "t.json", "--pace", "asap", "--set", "gpu.shape=[18,18,18]", "--out", "out"});
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "what if"));
  CHECK(contains(finished.out, "gpu.shape = [18, 18, 18]"));
  const Results results(dir.file("out"));
  const nlohmann::json& page = results.page();
  const nlohmann::json& spans = page.at("gpus").at(0).at("spans");
  REQUIRE(spans.size() == 4);
  const auto us = [&](std::size_t i, const char* label) {
    CHECK(contains(spans[i].at("label"), label));
    return spans[i].at("us").get<double>();
  };
  const double recorded = us(0, "recorded");
  const double faithful = us(1, "recorded machine and pace");
  const double baseline = us(2, "recorded machine, as soon as order allows");
  const double what_if = us(3, "this machine");
  CHECK(recorded == Approx(60 * 20 + 9));
  CHECK(faithful == Approx(recorded).epsilon(0.005));
  CHECK(baseline < faithful / 1.5);
  CHECK(what_if > baseline * 1.05);
  CHECK(what_if == Approx(results.stat("replay.span.modelled")));
  // Kernels of two CTAs per SM and more become longer; each has its three durations.
  for (const nlohmann::json& kernel : page.at("gpus").at(0).at("kernels")) {
    CHECK(kernel.at("recorded_us").get<double>() > 0);
    CHECK(kernel.at("baseline_us").get<double>() > 0);
  }
  // Without a baseline there is less to show, and it is the same run.
  const Results alone =
      run_well(dir, {"t.json", "--pace", "asap", "--set", "gpu.shape=[18,18,18]", "--no-baseline"}, "alone");
  CHECK(alone.page().at("gpus").at(0).at("spans").size() == 2);
  CHECK(alone.stat("replay.span.modelled") == results.stat("replay.span.modelled"));
}

TEST_CASE("clusters are guessed from names of kernels, unless --guess none", "[cli][INP-14]") {
  const TempDir dir;
  dir.write("t.json", trace({kernel("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", 7, "100.000", "20.000", 1,
                                    R"("grid":[2,66,1],"block":[384,1,1])"),
                             call("cudaLaunchKernelExC", "90.000", 1)},
                            R"({"id":0,"name":"NVIDIA H100 80GB HBM3","numSms":132,"warpSize":32})"));
  const Finished finished = heddle_in(dir, {"run", "t.json", "--out", "guessed"});
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "1 of 1 kernels have clusters that are guessed from their names"));
  const Finished plain = heddle_in(dir, {"run", "t.json", "--guess", "none", "--out", "plain"});
  REQUIRE(plain.status == 0);
  CHECK_FALSE(contains(plain.out, "guessed"));
  const Results guessed(dir.file("guessed"));
  CHECK(guessed.stat("replay.kernels_within_5_percent") == 1);
  CHECK(guessed.page().at("gpus").at(0).at("clusters").at("totals").at(0).at("guessed") == true);
  CHECK(Results(dir.file("plain")).stat("replay.kernels_within_5_percent") == 1);
}

TEST_CASE("a graph of a recording runs as one operation of its stream, and by packets one by one", "[cli][INP-13]") {
  const TempDir dir;
  dir.write("t.json", trace({kernel("a", 7, "100.000", "10.000", 2), kernel("b", 7, "111.000", "20.000", 2),
                             R"~({"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":132.000,)~"
                             R"("dur":2.000,"args":{"device":0,"stream":7,"correlation":2,"bytes":64}})",
                             kernel("c", 7, "135.000", "10.000", 2), kernel("behind", 7, "150.000", "5.000", 3),
                             call("cudaGraphLaunch", "90.000", 2), call("cudaLaunchKernel", "95.000", 3)}));
  const Finished finished = heddle_in(dir, {"run", "t.json", "--out", "streams"});
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "1 launches of graphs, with 4 operations"));
  const Results streams(dir.file("streams"));
  CHECK(streams.stat("replay.kernels") == 4);
  CHECK(streams.stat("replay.kernels_within_5_percent") == 4);
  CHECK(streams.stat("gpu0.task.holds") == 1);
  const Finished packets = heddle_in(dir, {"run", "t.json", "--submit", "aql", "--out", "packets"});
  INFO(packets.out << packets.err);
  REQUIRE(packets.status == 0);
  CHECK(contains(packets.out, "operations of a stream follow each other one by one"));
}

TEST_CASE("several traces at once are each on a GPU of its own, as if alone", "[cli][INP-06]") {
  const TempDir dir;
  dir.write("a.json", hand_made_trace(30));
  dir.write("b.json", hand_made_trace(12, kMi300x));
  const Results a = run_well(dir, {"a.json"}, "a");
  const Results b = run_well(dir, {"b.json"}, "b");
  const Results both = run_well(dir, {"a.json", "b.json"}, "both");
  CHECK(both.stat("replay.kernels") == 42);
  CHECK(both.stat("gpu0.replay.kernels") == 30);
  CHECK(both.stat("gpu1.replay.kernels") == 12);
  std::size_t compared = 0;
  for (const auto& [path, entry] : both.document().at("stats").items()) {
    if (path.rfind("gpu", 0) != 0) continue;
    const Results& alone = path[3] == '0' ? a : b;
    const bool replay = path.rfind(".replay.") != std::string::npos;
    const std::string there = replay ? path.substr(5) : "gpu0" + path.substr(4);
    if (path.substr(4) == ".sm_cycles" || path.substr(4) == ".idle.over") continue;  // both end when both are done
    CAPTURE(path, there);
    REQUIRE(alone.has(there));
    CHECK(alone.document().at("stats").at(there).at("value") == entry.at("value"));
    ++compared;
  }
  CHECK(compared > 100);
  // Their own presets, one for all, one for each.
  CHECK(both.document().at("gpus").at(1).at("preset") == "mi300x");
  const Results each =
      run_well(dir, {"a.json", "b.json", "--gpu", "h100-sxm", "--gpu", "h200", "--no-baseline"}, "each");
  CHECK(each.document().at("gpus").at(0).at("preset") == "h100-sxm");
  CHECK(each.document().at("gpus").at(1).at("preset") == "h200");
}

TEST_CASE("several devices in one trace are GPUs of their own, or one is chosen", "[cli][INP-06]") {
  const TempDir dir;
  std::vector<std::string> events = hand_made_events(10, 0);
  for (const std::string& event : hand_made_events(20, 1)) events.push_back(event);
  std::string second = kA100;
  second.replace(second.find("\"id\":0"), 6, "\"id\":1");
  dir.write("t.json", trace(events, kA100 + "," + second));
  const Results all = run_well(dir, {"t.json"}, "all");
  CHECK(all.stat("gpu0.replay.kernels") == 10);
  CHECK(all.stat("gpu1.replay.kernels") == 20);
  const Results one = run_well(dir, {"t.json", "--device", "1"}, "one");
  CHECK(one.stat("replay.kernels") == 20);
  CHECK_FALSE(one.has("gpu1.task.kernels"));
  CHECK(one.stat("replay.span.modelled") == all.stat("gpu1.replay.span.modelled"));
}

TEST_CASE("a fit per signature gives launches of a signature one CTA duration", "[cli]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace());
  const Results launch = run_well(dir, {"t.json"}, "launch");
  const Results signature = run_well(dir, {"t.json", "--fit", "signature"}, "signature");
  // Every signature was recorded with two durations, a microsecond apart.
  const auto durations = [](const Results& results) {
    std::set<long> all;
    for (const nlohmann::json& k : results.page().at("gpus").at(0).at("kernels")) {
      if (k.at("name") == "kernel_2") all.insert(std::lround(k.at("us").get<double>() * 20));
    }
    return all;
  };
  CHECK(durations(launch).size() == 2);
  CHECK(durations(signature).size() == 1);
  CHECK(signature.stat("replay.kernel_duration_error.p95") > launch.stat("replay.kernel_duration_error.p95"));
  CHECK(signature.stat("replay.signature_fit.error.p95") == launch.stat("replay.signature_fit.error.p95"));
}

TEST_CASE("an imported trace is a scenario that runs as long as the replay", "[cli][INP-01]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace());
  const Results replay = run_well(dir, {"t.json"}, "replay");
  const Finished imported = heddle_in(dir, {"import", "kineto", "t.json", "-o", "s.yaml"});
  INFO(imported.err);
  REQUIRE(imported.status == 0);
  CHECK(contains(imported.out, "scenario: s.yaml"));
  CHECK(heddle_in(dir, {"import", "kineto", "t.json"}).out == read_file(dir.file("s.yaml")));
  const Results scenario = run_well(dir, {"s.yaml"}, "scenario");
  for (const char* stat : {"gpu0.cwd.ctas_launched", "gpu0.task.kernels", "gpu0.task.holds"}) {
    CAPTURE(stat);
    CHECK(scenario.stat(stat) == replay.stat(stat));
  }
  const auto span = [](const Results& results) {
    double begin = 1e300, end = 0;
    const nlohmann::json& gpu = results.page().at("gpus").at(0);
    for (const char* kind : {"kernels", "copies"}) {
      for (const nlohmann::json& op : gpu.at(kind)) {
        begin = std::min(begin, op.at("start_us").get<double>());
        end = std::max(end, op.at("start_us").get<double>() + op.at("us").get<double>());
      }
    }
    return end - begin;
  };
  CHECK(span(replay) == Approx(replay.stat("replay.span.modelled")).margin(0.01));
  CHECK(span(scenario) == Approx(span(replay)).epsilon(0.001));
}

}  // namespace cli_replay_test
