// Processes side by side: started, watched for their wall time, and ended together when the program is interrupted.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/types.h>
#include <vector>

namespace heddle::sweep {

struct ChildEnd {
  std::size_t id = 0;
  int status = -1;          // exit status; -1: there is none
  int by_signal = 0;        // that ended it
  bool over_limit = false;  // it was ended for it
  double seconds = 0;       // of wall time
};

// While a pool lives, SIGINT, SIGTERM and SIGHUP end nothing: interrupted() tells of them. One pool at a time.
class ChildPool {
 public:
  ChildPool();
  // Ends the children that still run.
  ~ChildPool();
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  // Starts a program, with the working directory of this one, in a process group of its own; its standard output and
  // error go to `output`, its input is empty. `limit_s`: of wall time; 0: none. Throws InputError if the file cannot be
  // written, or if there can be no process.
  void start(std::size_t id, const std::vector<std::string>& command, const std::filesystem::path& output,
             double limit_s);
  std::size_t running() const { return children_.size(); }
  // Waits until a child has ended, an interruption comes, or `seconds` are over.
  std::optional<ChildEnd> wait(double seconds);
  bool interrupted() const { return interrupted_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    std::size_t id;
    pid_t pid;
    Clock::time_point begin;
    std::optional<Clock::time_point> deadline;
    bool over_limit = false;
  };

  std::optional<ChildEnd> reap();
  void enforce_limits();

  std::vector<Child> children_;
  sigset_t watched_{};
  sigset_t before_{};
  bool interrupted_ = false;
};

}  // namespace heddle::sweep
