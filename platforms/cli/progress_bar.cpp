#include "cli/progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/run_outcome.h"

namespace heddle::cli {
namespace {

constexpr int kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string what, bool enabled)
    : what_(std::move(what)), on_(enabled && isatty(STDERR_FILENO) == 1), begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double share, double simulated_us) {
  if (!on_) return;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const int full = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  const std::string line = fmt::format("\r{} [{}{}] {:3.0f} %  {} simulated, {} per second\033[K", what_,
                                       std::string(static_cast<std::size_t>(full), '#'),
                                       std::string(static_cast<std::size_t>(kWidth - full), '.'), 100 * share,
                                       time_text(simulated_us), time_text(simulated_us / std::max(seconds, 1e-6)));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace heddle::cli
