// A memory such as another project would attach where the HBM stands: the convenience socket of TLM, a vector of bytes
// and a fixed latency. It knows nothing of this model's extensions, domains or pools.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_target_socket.h>

namespace heddle::test {

class PlainMemory : public sc_core::sc_module {
 public:
  using Socket = tlm_utils::simple_target_socket_tagged<PlainMemory>;

  PlainMemory(const sc_core::sc_module_name& name, std::size_t bytes_, const sc_core::sc_time& latency,
              std::uint32_t sockets)
      : sc_core::sc_module(name), bytes(bytes_), latency_(latency) {
    for (std::uint32_t i = 0; i < sockets; ++i) {
      sockets_.push_back(std::make_unique<Socket>(("socket" + std::to_string(i)).c_str()));
      sockets_.back()->register_b_transport(this, &PlainMemory::transport, static_cast<int>(i));
      sockets_.back()->register_transport_dbg(this, &PlainMemory::debug, static_cast<int>(i));
    }
  }

  Socket& socket(std::uint32_t index) { return *sockets_[index]; }

  // Whatever touches that 128-byte line is answered with an error.
  void fail_line(std::uint64_t line) { failing_ = line; }

  std::vector<std::uint8_t> bytes;
  std::uint64_t transactions = 0;
  std::uint64_t unknown_commands = 0;  // what should not have come so far

 private:
  // A fixed latency: the socket turns it into the phases of nb_transport.
  void transport(int, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    ++transactions;
    delay += latency_;
    const std::uint64_t address = payload.get_address();
    const unsigned length = payload.get_data_length();
    if (!payload.is_read() && !payload.is_write()) {
      ++unknown_commands;
      payload.set_response_status(tlm::TLM_COMMAND_ERROR_RESPONSE);
      return;
    }
    if (payload.get_streaming_width() < length || length == 0) {
      payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
      return;
    }
    if (length > bytes.size() || address > bytes.size() - length || address / 128 == failing_ / 128) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    const unsigned char* enables = payload.get_byte_enable_ptr();
    unsigned char* data = payload.get_data_ptr();
    for (unsigned i = 0; i < length; ++i) {
      if (enables != nullptr && enables[i % payload.get_byte_enable_length()] != TLM_BYTE_ENABLED) continue;
      if (payload.is_read()) {
        data[i] = bytes[address + i];
      } else {
        bytes[address + i] = data[i];
      }
    }
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  unsigned debug(int, tlm::tlm_generic_payload& payload) {
    const std::uint64_t address = payload.get_address();
    if (address >= bytes.size()) return 0;
    const std::size_t length = std::min<std::size_t>(payload.get_data_length(), bytes.size() - address);
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), &bytes[address], length);
    if (payload.is_write()) std::memcpy(&bytes[address], payload.get_data_ptr(), length);
    return payload.get_command() == tlm::TLM_IGNORE_COMMAND ? 0 : static_cast<unsigned>(length);
  }

  sc_core::sc_time latency_;
  std::uint64_t failing_ = ~std::uint64_t{0};
  std::vector<std::unique_ptr<Socket>> sockets_;
};

}  // namespace heddle::test
