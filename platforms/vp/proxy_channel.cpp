#include "vp/proxy_channel.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace heddle::vp {
namespace {

[[noreturn]] void fail(const char* what) { throw ProxyError(fmt::format("{}: {}", what, std::strerror(errno))); }

// All of the bytes; false: the other side has closed.
bool send_all(int socket, const void* bytes, std::size_t count) {
  const auto* at = static_cast<const std::uint8_t*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
    if (sent < 0) fail("QEMU cannot be written to");
    at += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

// Reads up to `count` bytes with the file descriptors that come with them; 0: the other side has closed.
// NOLINTNEXTLINE(readability-non-const-parameter): recvmsg writes there
std::size_t receive_some(int socket, std::uint8_t* to, std::size_t count, std::vector<OwnedFile>& files) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostProxyFiles * sizeof(int))];
  iovec part{to, count};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && errno == ECONNRESET) return 0;
  if (received < 0) fail("QEMU cannot be read from");
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t sent = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < sent; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(item) + i * sizeof(int), sizeof file);
      files.emplace_back(file);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) throw ProxyError("QEMU sends more files than a message can have");
  return static_cast<std::size_t>(received);
}

// All of the bytes. False: the other side has closed before the first of them.
bool receive_all(int socket, std::uint8_t* to, std::size_t count, std::vector<OwnedFile>& files) {
  for (std::size_t done = 0; done < count;) {
    const std::size_t received = receive_some(socket, to + done, count - done, files);
    if (received == 0 && done == 0) return false;
    if (received == 0) throw ProxyError("QEMU has gone in the middle of a message");
    done += received;
  }
  return true;
}

}  // namespace

OwnedFile::OwnedFile(OwnedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

void OwnedFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

std::pair<OwnedFile, OwnedFile> socket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("no sockets can be had");
  return {OwnedFile(ends[0]), OwnedFile(ends[1])};
}

namespace {

// Something can be read, or the other end has gone.
bool has_more(int socket, int milliseconds) {
  pollfd entry{socket, POLLIN, 0};
  const int ready = ::poll(&entry, 1, milliseconds);
  if (ready < 0 && errno != EINTR) fail("QEMU cannot be waited for");
  return ready > 0;
}

constexpr int kSlice = 1000;     // ms
constexpr int kMostSlices = 30;  // until an interrupt counts as refused

}  // namespace

bool ProxyChannel::wait(int milliseconds) const { return has_more(socket_.get(), milliseconds); }

bool ProxyChannel::receive(ReceivedMessage& received) {
  received.files.clear();
  std::array<std::uint8_t, kProxyHeaderBytes> bytes{};
  if (!receive_all(socket_.get(), bytes.data(), bytes.size(), received.files)) return false;
  const ProxyHeader header = decode_header(bytes);
  std::vector<std::uint8_t> payload(header.bytes);
  if (!receive_all(socket_.get(), payload.data(), payload.size(), received.files) && header.bytes > 0) {
    throw ProxyError("QEMU has gone in the middle of a message");
  }
  received.message = decode_message(header, payload, received.files.size());
  return true;
}

bool ProxyChannel::answer(std::uint64_t value) {
  const auto bytes = encode_answer(value);
  return send_all(socket_.get(), bytes.data(), bytes.size());
}

std::string QtestChannel::command(std::uint64_t address, std::uint32_t value) {
  return fmt::format("writel {:#x} {:#x}\n", address, value);
}

bool QtestChannel::is_done(const std::string& line) {
  if (line == "OK") return true;
  // What it says of its own accord: interrupt lines that go up and down.
  if (line.rfind("IRQ ", 0) == 0) return false;
  throw ProxyError(fmt::format("QEMU refuses an interrupt: '{}'", line));
}

bool QtestChannel::write(std::uint64_t address, std::uint32_t value) {
  const std::string text = command(address, value);
  if (!send_all(socket_.get(), text.data(), text.size())) return false;
  for (int slices = 0; slices < kMostSlices;) {
    const std::size_t end = read_.find('\n');
    if (end != std::string::npos) {
      const bool done = is_done(read_.substr(0, end));
      read_.erase(0, end + 1);
      if (done) return true;
      continue;
    }
    if (!has_more(socket_.get(), kSlice)) {
      ++slices;
      continue;
    }
    char some[256];
    const ssize_t received = ::recv(socket_.get(), some, sizeof some, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno != ECONNRESET) fail("QEMU cannot be read from");
    if (received <= 0) return false;
    read_.append(some, static_cast<std::size_t>(received));
  }
  throw ProxyError(fmt::format("QEMU takes no interrupt for {} seconds", kMostSlices * kSlice / 1000));
}

}  // namespace heddle::vp
