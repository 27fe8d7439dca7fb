// The program `heddle` as a process: how it ended, what it said, what it left behind.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "import/kineto_text.h"

namespace heddle::test {

struct Finished {
  int status = -1;  // exit status; -1: killed by a signal
  std::string out;
  std::string err;
  double cpu_seconds = 0;
};

// Runs it to its end, with `folder` as working directory and for its standard streams.
inline Finished heddle_in(const TempDir& folder, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(HEDDLE_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out = folder.file(".stdout");
  const std::string err = folder.file(".stderr");
  const std::string here = folder.file("");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    const auto redirect = [](const std::string& path, int stream) {
      const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (file < 0 || dup2(file, stream) < 0) _exit(127);
    };
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    if (chdir(here.c_str()) != 0) _exit(127);
    execv(HEDDLE_PROGRAM, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child) throw std::runtime_error("cannot wait for the program");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err),
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

inline std::string gunzipped(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  std::string buffer(1 << 16, '\0');
  for (int got = 0; (got = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;) {
    text.append(buffer, 0, static_cast<std::size_t>(got));
  }
  CHECK(gzeof(file) == 1);
  gzclose(file);
  return text;
}

// The results folder of a run.
class Results {
 public:
  explicit Results(std::filesystem::path folder) : folder_(std::move(folder)), stats_(read_json(file("stats.json"))) {
    const std::string html = read_file(file("report.html"));
    const std::size_t tag = html.find("id=\"heddle-data\"");
    REQUIRE(tag != std::string::npos);
    const std::size_t begin = html.find('>', tag) + 1;
    page_ = nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  const nlohmann::json& document() const { return stats_; }
  bool has(const std::string& path) const { return stats_.at("stats").contains(path); }
  double stat(const std::string& path) const {
    INFO("statistic " << path);
    REQUIRE(has(path));
    return stats_.at("stats").at(path).at("value").get<double>();
  }
  // What report.html draws.
  const nlohmann::json& page() const { return page_; }

 private:
  std::filesystem::path folder_;
  nlohmann::json stats_;
  nlohmann::json page_;
};

// Runs, must succeed, and has its results in `folder`/out.
inline Results run_well(const TempDir& folder, std::vector<std::string> arguments, const std::string& out = "out") {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--out", out});
  const Finished finished = heddle_in(folder, arguments);
  INFO(finished.out);
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  CHECK_FALSE(contains(finished.err, "heddle:"));  // a long run says how far it is
  return Results(folder.file(out));
}

inline std::string scenario(const std::string& name) { return std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name; }

// A recorded trace by hand: `kernels` kernels of 108 to 324 CTAs and 5 us to 14 us, one every 20 us, alternately on the
// streams 7 and 20, none beside another, and a copy at the end.
inline std::vector<std::string> hand_made_events(int kernels, int device = 0) {
  std::vector<std::string> events;
  for (int i = 0; i < kernels; ++i) {
    const int correlation = 100 + i + 10'000 * device;
    const int start = 1'000'000 + 20 * i;
    const std::string shape =
        fmt::format(R"("grid":[108,{},1],"block":[256,1,1],"registers per thread":32,"shared memory":0,)"
                    R"("est. achieved occupancy %":{})",
                    1 + i % 3, (i % 3 + 1) * 25 / 2);
    events.push_back(call("cudaLaunchKernel", std::to_string(start - 6), correlation));
    events.push_back(kernel(fmt::format("kernel_{}", i % 3), i % 2 == 0 ? 7 : 20, std::to_string(start),
                            std::to_string(5 + i % 3 * 4 + i % 2), correlation, shape, device));
  }
  const int start = 1'000'000 + 20 * kernels;
  const int correlation = 100 + kernels + 10'000 * device;
  events.push_back(call("cudaMemcpyAsync", std::to_string(start - 6), correlation));
  events.push_back(fmt::format(R"({{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH","pid":{},"tid":7,"ts":{},"dur":9,)"
                               R"("args":{{"device":{},"stream":7,"correlation":{},"bytes":4096}}}})",
                               device, start, device, correlation));
  return events;
}

inline std::string hand_made_trace(int kernels = 30, const std::string& device = kA100) {
  return trace(hand_made_events(kernels), device);
}

}  // namespace heddle::test
