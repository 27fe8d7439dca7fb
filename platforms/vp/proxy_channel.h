// The two sockets between a device and QEMU: messages of the proxy device, and commands to the machine's interrupt
// controller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vp/proxy_message.h"

namespace heddle::vp {

// A file descriptor that is closed at its end.
class OwnedFile {
 public:
  OwnedFile() = default;
  explicit OwnedFile(int file) : file_(file) {}
  OwnedFile(OwnedFile&& other) noexcept;
  OwnedFile& operator=(OwnedFile&& other) noexcept;
  OwnedFile(const OwnedFile&) = delete;
  OwnedFile& operator=(const OwnedFile&) = delete;
  ~OwnedFile() { close(); }

  int get() const { return file_; }
  void close();

 private:
  int file_ = -1;
};

// Two ends of a local stream. Throws ProxyError.
std::pair<OwnedFile, OwnedFile> socket_pair();

struct ReceivedMessage {
  ProxyMessage message;
  std::vector<OwnedFile> files;
};

class ProxyChannel {
 public:
  explicit ProxyChannel(OwnedFile socket) : socket_(std::move(socket)) {}

  // Whether something is there to be received, an end included. Waits for it up to so many milliseconds; -1: for ever.
  bool wait(int milliseconds) const;
  // False: QEMU has closed its end. Throws ProxyError for a message that makes no sense or is cut off.
  bool receive(ReceivedMessage& received);
  // False: QEMU has closed its end.
  bool answer(std::uint64_t value);

 private:
  OwnedFile socket_;
};

// QEMU's qtest channel: the way to interrupt processors of a machine that does not run under KVM. A write to the
// address of an MSI reaches the interrupt controller as one of a device does.
class QtestChannel {
 public:
  explicit QtestChannel(OwnedFile socket) : socket_(std::move(socket)) {}

  // Writes a word to physical memory, and waits until QEMU has done it. False: QEMU has closed its end. Throws
  // ProxyError if QEMU refuses, or says nothing for half a minute: it resets a guest while it waits for the device.
  bool write(std::uint64_t address, std::uint32_t value);

  // What write() sends, and whether a line is the answer that says that it is done.
  static std::string command(std::uint64_t address, std::uint32_t value);
  static bool is_done(const std::string& line);

 private:
  OwnedFile socket_;
  std::string read_;  // behind the last line
};

}  // namespace heddle::vp
