// QEMU as a process of ours: it ends when we do, and we hear how it ended.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "vp/proxy_channel.h"

namespace heddle::vp {

// How QEMU ended.
struct GuestEnd {
  bool good = false;  // with status 0
  std::string text;   // a sentence for people
};

class GuestProcess {
 public:
  // Starts the program `command[0]` with its arguments, and behind them those for the device: two sockets, which it
  // inherits. Throws InputError if it cannot be started.
  explicit GuestProcess(const std::vector<std::string>& command);
  // Ends it if it still runs.
  ~GuestProcess();
  GuestProcess(const GuestProcess&) = delete;
  GuestProcess& operator=(const GuestProcess&) = delete;

  ProxyChannel& proxy() { return proxy_; }
  QtestChannel& qtest() { return qtest_; }
  // Waits until it has ended; after so many seconds it is killed.
  GuestEnd wait(unsigned seconds);
  void kill();

  // QEMU's arguments for a device whose sockets have these numbers.
  static std::vector<std::string> device_arguments(int proxy, int qtest);

 private:
  GuestProcess(const std::vector<std::string>& command, std::pair<OwnedFile, OwnedFile> proxy,
               std::pair<OwnedFile, OwnedFile> qtest);

  // waitpid(), which signals do not end.
  pid_t reap(int options, int* status) const;

  ProxyChannel proxy_;
  QtestChannel qtest_;
  pid_t process_ = -1;  // -1: it has ended
};

}  // namespace heddle::vp
