#include "vp/guest_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::vp {
namespace {

// In the child: becomes the program, or tells why not through the pipe, which closes by itself otherwise.
[[noreturn]] void become(const std::vector<std::string>& command, const int inherited[2], int report, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent has died in between
  for (int i = 0; i < 2; ++i) ::fcntl(inherited[i], F_SETFD, 0);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int why = errno;
  (void)!::write(report, &why, sizeof why);
  ::_exit(127);
}

}  // namespace

std::vector<std::string> GuestProcess::device_arguments(int proxy, int qtest) {
  return {"-chardev", fmt::format("socket,id=heddle-interrupts,fd={}", qtest),
          "-object",  "qtest,id=heddle-qtest,chardev=heddle-interrupts,log=/dev/null",
          "-device",  fmt::format("x-pci-proxy-dev,id=heddle,fd={}", proxy)};
}

GuestProcess::GuestProcess(const std::vector<std::string>& command)
    : GuestProcess(command, socket_pair(), socket_pair()) {}

GuestProcess::GuestProcess(const std::vector<std::string>& command, std::pair<OwnedFile, OwnedFile> proxy,
                           std::pair<OwnedFile, OwnedFile> qtest)
    : proxy_(std::move(proxy.first)), qtest_(std::move(qtest.first)) {
  std::vector<std::string> all = command;
  for (std::string& argument : device_arguments(proxy.second.get(), qtest.second.get())) all.push_back(argument);
  int report[2] = {-1, -1};
  if (::pipe2(report, O_CLOEXEC) != 0) throw ProxyError(fmt::format("no pipe can be had: {}", std::strerror(errno)));
  const OwnedFile reading(report[0]);
  OwnedFile writing(report[1]);
  const int inherited[2] = {proxy.second.get(), qtest.second.get()};
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) throw ProxyError(fmt::format("no process can be had: {}", std::strerror(errno)));
  if (process_ == 0) become(all, inherited, writing.get(), parent);
  writing.close();
  int why = 0;
  ssize_t told = 0;
  do {
    told = ::read(reading.get(), &why, sizeof why);
  } while (told < 0 && errno == EINTR);
  if (told != sizeof why) return;
  reap(0, nullptr);
  process_ = -1;
  throw InputError(fmt::format("'{}' cannot be started: {}", command[0], std::strerror(why)),
                   "install qemu-system-x86 (scripts/setup --vp), or write where it is");
}

GuestProcess::~GuestProcess() {
  if (process_ >= 0) kill();
}

pid_t GuestProcess::reap(int options, int* status) const {
  pid_t ended = 0;
  do {
    ended = ::waitpid(process_, status, options);
  } while (ended < 0 && errno == EINTR);
  return ended;
}

void GuestProcess::kill() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  reap(0, nullptr);
  process_ = -1;
}

GuestEnd GuestProcess::wait(unsigned seconds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int status = 0;
  pid_t ended = 0;
  while ((ended = reap(WNOHANG, &status)) == 0) {
    if (std::chrono::steady_clock::now() >= limit) {
      kill();
      return {false, "QEMU has let the device go and did not end: it has been killed"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  process_ = -1;
  if (ended < 0) return {false, fmt::format("QEMU cannot be waited for: {}", std::strerror(errno))};
  if (WIFSIGNALED(status)) return {false, fmt::format("QEMU was ended by a signal: {}", ::strsignal(WTERMSIG(status)))};
  if (WEXITSTATUS(status) != 0) return {false, fmt::format("QEMU ended with status {}", WEXITSTATUS(status))};
  return {true, "the guest has ended"};
}

}  // namespace heddle::vp
