// What tests of the facade share: software of a host, and reports that are caught. Public headers alone.
#pragma once

#include <functional>
#include <heddle/gpu.h>
#include <heddle/tlm_bus.h>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <tlm_utils/simple_target_socket.h>

#include "support/temp_dir.h"

namespace heddle::test {

inline GpuOptions small() {
  GpuOptions options;
  options.preset = "small";
  return options;
}

// For the files of this process.
inline const TempDir& scratch() {
  static const TempDir folder;
  return folder;
}

inline std::string write_file(const std::string& name, const std::string& text) { return scratch().write(name, text); }

// Software of a host: a thread with the C library's bus, and 64 KiB of RAM that the device reaches as well.
class Host : public sc_core::sc_module {
 public:
  Host(const sc_core::sc_module_name& name, Gpu& gpu, std::function<void(Host&)> software)
      : sc_core::sc_module(name), software_(std::move(software)) {
    tlm.registers.bind(gpu.bar0);
    tlm.memory.bind(gpu.bar1);
    tlm.host.bind(ram_of_cpu_);
    gpu.dma.bind(ram_of_gpu_);
    ram_of_cpu_.register_b_transport(this, &Host::access);
    ram_of_gpu_.register_b_transport(this, &Host::access);
    SC_HAS_PROCESS(Host);
    SC_THREAD(run);
  }

  TlmBus tlm{"tlm"};
  heddle_bus bus = tlm.bus();
  heddle_device device{};
  heddle_queue queue{};

  // As another one was: its memory, and what its software knows of its queue.
  void go_on_as(const Host& other) {
    ram_ = other.ram_;
    device = other.device;
    device.bus = bus;
    queue = other.queue;
    queue.device = &device;
  }

  void open() {
    REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
    heddle_queue_setup setup{};
    setup.ring = HEDDLE_HOST_WINDOW + 0x1000;
    setup.size = 16;
    setup.read_index = HEDDLE_HOST_WINDOW + 0x100;
    setup.write_index = HEDDLE_HOST_WINDOW + 0x140;
    REQUIRE(heddle_queue_create(&queue, &device, 0, &setup, 1000) == HEDDLE_OK);
  }
  // The value of its signal, which was 1.
  std::int64_t launch(const Kernel& kernel, std::uint64_t object) {
    heddle_dispatch dispatch{};
    dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
    dispatch.setup = 3;
    for (int d = 0; d < 3; ++d) {
      dispatch.workgroup[d] = static_cast<std::uint16_t>(kernel.block[d]);
      dispatch.grid[d] = kernel.grid[d] * kernel.block[d];
    }
    dispatch.group_segment = kernel.shared_bytes;
    dispatch.kernel_object = object;
    dispatch.completion_signal = HEDDLE_HOST_WINDOW + 0x200;
    REQUIRE(heddle_signal_init(&bus, dispatch.completion_signal, 1, 0, 0) == HEDDLE_OK);
    heddle_packet packet;
    heddle_packet_kernel(&packet, &dispatch);
    REQUIRE(heddle_queue_submit(&queue, &packet, 1, 1000, nullptr) == HEDDLE_OK);
    std::int64_t value = 0;
    REQUIRE(heddle_signal_wait(&bus, dispatch.completion_signal, HEDDLE_LESS, 1, 1000, &value) == HEDDLE_OK);
    return value;
  }

 private:
  void run() { software_(*this); }
  void access(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    delay += sc_core::sc_time(50, sc_core::SC_NS);
    const std::uint64_t end = payload.get_address() + payload.get_data_length();
    payload.set_response_status(end <= ram_.size() ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE);
    if (end > ram_.size()) return;
    unsigned char* at = ram_.data() + payload.get_address();
    if (payload.is_read()) std::copy(at, at + payload.get_data_length(), payload.get_data_ptr());
    if (payload.is_write()) std::copy_n(payload.get_data_ptr(), payload.get_data_length(), at);
  }

  std::function<void(Host&)> software_;
  tlm_utils::simple_target_socket<Host> ram_of_cpu_{"ram_of_cpu"};
  tlm_utils::simple_target_socket<Host> ram_of_gpu_{"ram_of_gpu"};
  std::vector<unsigned char> ram_ = std::vector<unsigned char>(64 << 10);
};

// Reports by message type while it lives: notes, and warnings of one type, which are not passed on.
class Reports {
 public:
  explicit Reports(const std::string& warnings = "") {
    seen().clear();
    expected() = warnings;
    sc_core::sc_report_handler::set_handler([](const sc_core::sc_report& report, const sc_core::sc_actions& actions) {
      if (report.get_severity() == sc_core::SC_INFO) seen()[report.get_msg_type()].push_back(report.get_msg());
      if (report.get_severity() == sc_core::SC_WARNING && report.get_msg_type() == expected()) {
        seen()[expected()].push_back(std::string("warning: ") + report.get_msg());
        return;
      }
      sc_core::sc_report_handler::default_handler(report, actions);
    });
  }
  ~Reports() { sc_core::sc_report_handler::set_handler(nullptr); }

  std::vector<std::string> of(const std::string& type) const { return seen()[type]; }

 private:
  static std::map<std::string, std::vector<std::string>>& seen() {
    static std::map<std::string, std::vector<std::string>> reports;
    return reports;
  }
  static std::string& expected() {
    static std::string type;
    return type;
  }
};

}  // namespace heddle::test
