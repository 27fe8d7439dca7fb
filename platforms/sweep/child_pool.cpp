#include "sweep/child_pool.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "common/error.h"

namespace heddle::sweep {
namespace {

constexpr int kNotStarted = 127;  // as of shells

// Nothing but calls that a child may make between fork and exec.
[[noreturn]] void become(char* const* argv, int output, pid_t parent, const sigset_t& mask) {
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool ready = input >= 0 && setpgid(0, 0) == 0 && dup2(input, STDIN_FILENO) >= 0 &&
                     dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0 &&
                     prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
                     sigprocmask(SIG_SETMASK, &mask, nullptr) == 0;
  if (ready) execv(argv[0], argv);
  _exit(kNotStarted);
}

timespec timespec_of(double seconds) {
  const double whole = std::floor(std::max(seconds, 0.0));
  return {static_cast<time_t>(whole), static_cast<long>((std::max(seconds, 0.0) - whole) * 1e9)};
}

}  // namespace

ChildPool::ChildPool() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    // What whoever started the program wants ignored (nohup) stays so.
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&watched_, number);
  }
  sigprocmask(SIG_BLOCK, &watched_, &before_);
}

ChildPool::~ChildPool() {
  for (const Child& child : children_) kill(-child.pid, SIGKILL);
  for (const Child& child : children_) {
    while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  // What has been told already is not told again.
  const timespec now{};
  while (sigtimedwait(&watched_, nullptr, &now) > 0) continue;
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void ChildPool::start(std::size_t id, const std::vector<std::string>& command, const std::filesystem::path& output,
                      double limit_s) {
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) {
    throw InputError({output.string()}, "cannot be written: " + std::generic_category().message(errno),
                     "choose another folder with --out DIR, or free the disk");
  }
  std::vector<char*> argv;
  // execv takes what it does not change.
  // NOLINTNEXTLINE(*-const-cast): see above
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(argv.data(), file, parent, before_);
  const int error = errno;
  close(file);
  if (pid < 0) {
    throw InputError("a process cannot be started: " + std::generic_category().message(error),
                     "run fewer side by side (--jobs)");
  }
  setpgid(pid, pid);  // the child does so too: whoever is first
  Child child{id, pid, Clock::now(), std::nullopt};
  if (limit_s > 0) {
    child.deadline = child.begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  }
  children_.push_back(child);
}

std::optional<ChildEnd> ChildPool::reap() {
  for (auto child = children_.begin(); child != children_.end(); ++child) {
    int status = 0;
    const pid_t ended = waitpid(child->pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
    ChildEnd end;
    end.id = child->id;
    end.seconds = std::chrono::duration<double>(Clock::now() - child->begin).count();
    end.over_limit = child->over_limit;
    if (ended == child->pid && WIFEXITED(status)) end.status = WEXITSTATUS(status);
    if (ended == child->pid && WIFSIGNALED(status)) end.by_signal = WTERMSIG(status);
    kill(-child->pid, SIGKILL);  // what it may have started
    children_.erase(child);
    return end;
  }
  return std::nullopt;
}

void ChildPool::enforce_limits() {
  for (Child& child : children_) {
    if (child.over_limit || !child.deadline || Clock::now() < *child.deadline) continue;
    child.over_limit = true;
    kill(-child.pid, SIGKILL);
  }
}

std::optional<ChildEnd> ChildPool::wait(double seconds) {
  const Clock::time_point until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto asked_to_end = [this](const timespec& time) {
    const int number = sigtimedwait(&watched_, nullptr, &time);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP) interrupted_ = true;
    return interrupted_;
  };
  while (true) {
    // However fast children end, limits and signals come first. SIGCHLD may hide another one.
    enforce_limits();
    sigset_t pending{};
    sigpending(&pending);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      if (sigismember(&watched_, number) == 1 && sigismember(&pending, number) == 1) interrupted_ = true;
    }
    if (interrupted_) return std::nullopt;
    if (std::optional<ChildEnd> end = reap()) return end;
    Clock::time_point next = until;
    for (const Child& child : children_) {
      if (child.deadline && !child.over_limit) next = std::min(next, *child.deadline);
    }
    const double left = std::chrono::duration<double>(next - Clock::now()).count();
    if (left <= 0 && Clock::now() >= until) return std::nullopt;
    if (asked_to_end(timespec_of(left))) return std::nullopt;
  }
}

}  // namespace heddle::sweep
