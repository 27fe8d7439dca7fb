// A line on a terminal that shows how far a simulation is. Nothing at all in a pipe or a file.
#pragma once

#include <chrono>
#include <string>

namespace heddle::cli {

class ProgressBar {
 public:
  // `what` stands at the beginning of the line. Off unless standard error is a terminal and `enabled`.
  ProgressBar(std::string what, bool enabled);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share`: 0 … 1 of the work. `simulated_us`: simulated time; the bar adds the rate.
  void show(double share, double simulated_us);

 private:
  std::string what_;
  bool on_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace heddle::cli
