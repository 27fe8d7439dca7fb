// QEMU's end of a card's two sockets: says what its proxy device would say, from a thread of its own, and answers to
// interrupts.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/error.h"
#include "vp/proxy_channel.h"

namespace heddle::test {

class FakeQemu {
 public:
  FakeQemu(vp::OwnedFile proxy, vp::OwnedFile qtest) : proxy_(std::move(proxy)), qtest_(std::move(qtest)) {}

  // As QEMU does: nothing else is said before the answer is there, and qtest is served meanwhile.
  std::uint64_t ask(std::uint32_t command, const std::vector<std::uint8_t>& payload) {
    send(command, payload, {});
    while (true) {
      pollfd entries[2] = {{proxy_.get(), POLLIN, 0}, {qtest_.get(), POLLIN, 0}};
      HEDDLE_CHECK(::poll(entries, 2, 20000) > 0, "the card does not answer");
      // The card waits for qtest before it answers: what is there with the answer came after it.
      if (entries[0].revents == 0) {
        take_interrupt();
        continue;
      }
      std::uint8_t answer[24];
      HEDDLE_CHECK(::recv(proxy_.get(), answer, sizeof answer, MSG_WAITALL) == 24, "the card's answer is cut off");
      std::uint64_t value = 0;
      std::memcpy(&value, answer + 16, 8);
      return value;
    }
  }
  void send(std::uint32_t command, const std::vector<std::uint8_t>& payload, const std::vector<int>& files) {
    std::vector<std::uint8_t> bytes;
    put(bytes, command, 4);
    put(bytes, 0, 4);
    put(bytes, payload.size(), 8);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    send_raw(bytes, files);
  }
  void send_raw(std::vector<std::uint8_t> bytes, const std::vector<int>& files) {
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    std::vector<std::uint8_t> control(CMSG_SPACE(files.size() * sizeof(int)));
    if (!files.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* const item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(item), files.data(), files.size() * sizeof(int));
    }
    HEDDLE_CHECK(::sendmsg(proxy_.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
                 "the card takes no message");
  }

  std::uint32_t config_read(std::uint32_t offset, std::uint32_t bytes) {
    return static_cast<std::uint32_t>(ask(3, config(offset, 0, bytes)));
  }
  void config_write(std::uint32_t offset, std::uint32_t value, std::uint32_t bytes) {
    (void)ask(2, config(offset, value, bytes));
  }
  std::uint64_t read(std::uint64_t address, std::uint32_t bytes) { return ask(5, bar(address, 0, bytes)); }
  void write(std::uint64_t address, std::uint64_t value, std::uint32_t bytes) {
    (void)ask(4, bar(address, value, bytes));
  }
  void reset() { (void)ask(7, {}); }
  // Memory of the guest from address 0 on: one file.
  void map(int file, std::uint64_t bytes) {
    std::vector<std::uint8_t> payload(192);
    std::memcpy(payload.data() + 64, &bytes, 8);
    send(0, payload, {file});
  }
  // Places both BARs and switches memory space, bus mastering and MSI on.
  void set_up() {
    config_write(0x10, kBar0, 4);
    config_write(0x14, kBar1, 4);
    config_write(0x44, 0xFEE00000, 4);
    config_write(0x4C, 0x4021, 2);
    config_write(0x42, 1, 2);
    config_write(0x04, 6, 2);
  }
  // Waits for an interrupt while nothing is asked.
  void await_interrupt() {
    pollfd entry{qtest_.get(), POLLIN, 0};
    HEDDLE_CHECK(::poll(&entry, 1, 20000) > 0, "no interrupt comes");
    take_interrupt();
  }
  void close() {
    proxy_.close();
    qtest_.close();
  }

  static constexpr std::uint64_t kBar0 = 0xFEB0'0000;
  static constexpr std::uint64_t kBar1 = 0xE000'0000;

  std::vector<std::string> interrupts;  // commands of the card to qtest
  std::string qtest_answer = "OK\n";

 private:
  static void put(std::vector<std::uint8_t>& bytes, std::uint64_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
  static std::vector<std::uint8_t> config(std::uint32_t offset, std::uint32_t value, std::uint32_t bytes) {
    std::vector<std::uint8_t> payload;
    put(payload, offset, 4);
    put(payload, value, 4);
    put(payload, bytes, 4);
    return payload;
  }
  static std::vector<std::uint8_t> bar(std::uint64_t address, std::uint64_t value, std::uint32_t bytes) {
    std::vector<std::uint8_t> payload;
    put(payload, address, 8);
    put(payload, value, 8);
    put(payload, bytes, 4);
    put(payload, 1, 4);
    return payload;
  }
  void take_interrupt() {
    char text[256];
    const ssize_t received = ::recv(qtest_.get(), text, sizeof text, 0);
    HEDDLE_CHECK(received > 0, "the card has closed qtest");
    interrupts.emplace_back(text, static_cast<std::size_t>(received));
    HEDDLE_CHECK(::send(qtest_.get(), qtest_answer.data(), qtest_answer.size(), MSG_NOSIGNAL) > 0, "qtest is closed");
  }

  vp::OwnedFile proxy_;
  vp::OwnedFile qtest_;
};

}  // namespace heddle::test
