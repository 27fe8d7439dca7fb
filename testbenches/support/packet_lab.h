// GPUs with a host: one host memory for all of them, registers and apertures behind checkers of the base protocol, and
// the C library on top. The host's code runs between two calls of sc_start.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tlm_utils/simple_initiator_socket.h>

#include "arch/brought_code.h"
#include "arch/gpu_observation.h"
#include "driver/heddle_driver.h"
#include "host/host_memory.h"
#include "support/gpu_lab.h"
#include "support/protocol_checker.h"

namespace heddle::test {

// An initiator that makes blocking accesses, as a processor's bus would.
class BusMaster : public sc_core::sc_module {
 public:
  explicit BusMaster(const sc_core::sc_module_name& name) : sc_core::sc_module(name), socket("socket") {}

  tlm_utils::simple_initiator_socket<BusMaster> socket;
  std::function<void(std::uint64_t first, std::uint64_t last)> on_invalidate;

  void invalidate(sc_dt::uint64 first, sc_dt::uint64 last) {
    if (on_invalidate) on_invalidate(first, last);
  }

  tlm::tlm_response_status access(tlm::tlm_command command, std::uint64_t address, void* data, unsigned bytes) {
    tlm::tlm_generic_payload payload;
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(static_cast<unsigned char*>(data));
    payload.set_data_length(bytes);
    payload.set_streaming_width(bytes);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    sc_core::sc_time delay;
    socket->b_transport(payload, delay);
    return payload.get_response_status();
  }
};

class PacketLab {
 public:
  struct Machine {
    Machine(const std::string& name, const gpu::GpuParams& params, PacketLab& lab, gpu::DeviceMemory kind,
            std::shared_ptr<const arch::CodeDecoder> decoder = {})
        : observation(name),
          gpu(name.c_str(), params, 1, observation, kind, std::move(decoder)),
          bar0((name + "_bar0").c_str()),
          bar1((name + "_bar1").c_str()),
          bar0_checker((name + "_bar0_checker").c_str()),
          bar1_checker((name + "_bar1_checker").c_str()),
          dma_checker((name + "_dma_checker").c_str()),
          owner(lab) {
      bar0.socket.bind(bar0_checker.in);
      bar0_checker.out.bind(gpu.bar0());
      bar1.socket.bind(bar1_checker.in);
      bar1_checker.out.bind(gpu.bar1());
      gpu.dma().bind(dma_checker.in);
      gpu.irq().bind(irq);
      gpu.rst().bind(rst);
      bus.context = this;
      bus.read = [](void* me, std::uint32_t offset, unsigned bytes, std::uint64_t* value) {
        *value = 0;
        return static_cast<Machine*>(me)->bar0.access(tlm::TLM_READ_COMMAND, offset, value, bytes) ==
               tlm::TLM_OK_RESPONSE;
      };
      bus.write = [](void* me, std::uint32_t offset, unsigned bytes, std::uint64_t value) {
        return static_cast<Machine*>(me)->bar0.access(tlm::TLM_WRITE_COMMAND, offset, &value, bytes) ==
               tlm::TLM_OK_RESPONSE;
      };
      bus.load = [](void* me, std::uint64_t address, void* to, std::size_t bytes) {
        return static_cast<Machine*>(me)->move(tlm::TLM_READ_COMMAND, address, to, bytes);
      };
      bus.store = [](void* me, std::uint64_t address, const void* from, std::size_t bytes) {
        return static_cast<Machine*>(me)->move(tlm::TLM_WRITE_COMMAND, address, const_cast<void*>(from), bytes);
      };
      bus.relax = [](void*) { sc_core::sc_start(sc_core::sc_time(100, sc_core::SC_NS)); };
      bus.barrier = nullptr;
      // The host is one thread of the simulation: nobody comes in between.
      bus.fetch_add = [](void* me, std::uint64_t address, std::uint64_t value, std::uint64_t* old) {
        auto* machine = static_cast<Machine*>(me);
        *old = machine->read<std::uint64_t>(address);
        if (value != 0) machine->write<std::uint64_t>(address, *old + value);
        return true;
      };
      bus.compare_exchange = [](void* me, std::uint64_t address, std::uint64_t expected, std::uint64_t value,
                                std::uint64_t* old) {
        auto* machine = static_cast<Machine*>(me);
        *old = machine->read<std::uint64_t>(address);
        if (*old == expected) machine->write<std::uint64_t>(address, value);
        return true;
      };
    }

    bool move(tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes) {
      if (address >= HEDDLE_HOST_WINDOW) {
        return owner.move_host(command, address - HEDDLE_HOST_WINDOW, data, bytes);
      }
      return bar1.access(command, address, data, static_cast<unsigned>(bytes)) == tlm::TLM_OK_RESPONSE;
    }
    template <class T>
    T read(std::uint64_t address) {
      T value{};
      HEDDLE_CHECK(move(tlm::TLM_READ_COMMAND, address, &value, sizeof value), "a read outside memory");
      return value;
    }
    template <class T>
    void write(std::uint64_t address, T value) {
      HEDDLE_CHECK(move(tlm::TLM_WRITE_COMMAND, address, &value, sizeof value), "a write outside memory");
    }
    double stat(const std::string& path) const { return observation.stats.value(observation.prefix + "." + path); }

    GpuObservation observation;
    gpu::Gpu gpu;
    BusMaster bar0;
    BusMaster bar1;
    ProtocolChecker bar0_checker;
    ProtocolChecker bar1_checker;
    ProtocolChecker dma_checker;
    sc_core::sc_signal<bool> irq;
    sc_core::sc_signal<bool> rst;
    heddle_bus bus{};
    heddle_device device{};
    PacketLab& owner;
  };

  host::HostMemory memory;
  // The host's own accesses, at addresses of its bus. False: outside memory.
  std::function<bool(tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes)> move_host =
      [this](tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes) {
        return command == tlm::TLM_READ_COMMAND ? memory.read(address, data, bytes)
                                                : memory.write(address, data, bytes);
      };

  explicit PacketLab(const std::vector<gpu::GpuParams>& params, gpu::DeviceMemory kind = gpu::DeviceMemory::own,
                     const std::shared_ptr<const arch::CodeDecoder>& decoder = {})
      : memory("host_memory", std::uint64_t{64} << 20, sc_core::sc_time(100, sc_core::SC_NS),
               static_cast<std::uint32_t>(params.size())) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      machines.push_back(std::make_unique<Machine>(fmt::format("gpu{}", i), params[i], *this, kind, decoder));
      machines.back()->dma_checker.out.bind(memory.port(static_cast<std::uint32_t>(i)));
    }
  }
  // A machine whose `dma_checker.out` is still to be bound, to a memory that is reached by `move`.
  PacketLab(const gpu::GpuParams& params, decltype(move_host) move)
      : memory("host_memory", 1, sc_core::SC_ZERO_TIME, 0), move_host(std::move(move)) {
    machines.push_back(std::make_unique<Machine>("gpu0", params, *this, gpu::DeviceMemory::own));
  }
  // Elaboration ends; the devices are opened.
  void begin() {
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    for (const auto& m : machines) {
      HEDDLE_CHECK(heddle_device_open(&m->device, &m->bus) == HEDDLE_OK, "a device cannot be opened");
    }
  }
  Machine& operator[](std::size_t i) { return *machines[i]; }

  // Memory of the host that nobody else has, as a unified address.
  std::uint64_t take_host(std::uint64_t bytes, std::uint64_t align = 64) {
    next_host_ = (next_host_ + align - 1) / align * align;
    const std::uint64_t at = next_host_;
    next_host_ += bytes;
    return HEDDLE_HOST_WINDOW + at;
  }
  std::uint64_t take_device(std::uint64_t bytes, std::uint64_t align = 128) {
    next_device_ = (next_device_ + align - 1) / align * align;
    const std::uint64_t at = next_device_;
    next_device_ += bytes;
    return at;
  }
  std::uint64_t take(bool host, std::uint64_t bytes) { return host ? take_host(bytes) : take_device(bytes); }

  heddle_queue open_queue(std::size_t machine, std::uint32_t number, std::uint32_t size, bool in_host,
                          std::int32_t priority = 0, std::uint8_t subcontext = 0) {
    heddle_queue_setup setup{};
    setup.ring = take(in_host, std::uint64_t{size} * 64);
    setup.size = size;
    setup.read_index = take(in_host, 64);
    setup.write_index = take_host(64);
    setup.priority = priority;
    setup.subcontext = subcontext;
    heddle_queue queue{};
    const heddle_status status = heddle_queue_create(&queue, &machines[machine]->device, number, &setup, 1000);
    HEDDLE_CHECK(status == HEDDLE_OK, fmt::format("a queue cannot be opened: {}", static_cast<int>(status)));
    return queue;
  }
  std::uint64_t new_signal(std::size_t machine, bool in_host, std::int64_t value) {
    const std::uint64_t handle = take(in_host, 64);
    HEDDLE_CHECK(heddle_signal_init(&machines[machine]->bus, handle, value, 0, 0) == HEDDLE_OK, "no signal there");
    return handle;
  }
  std::uint64_t new_object(std::size_t machine, const heddle_kernel_object& object) {
    std::array<std::uint8_t, HEDDLE_KERNEL_OBJECT_BYTES> bytes{};
    HEDDLE_CHECK(heddle_kernel_object_encode(bytes.data(), &object) == HEDDLE_OK, "a kernel object that is wrong");
    const std::uint64_t at = take_device(bytes.size());
    HEDDLE_CHECK(machines[machine]->move(tlm::TLM_WRITE_COMMAND, at, bytes.data(), bytes.size()), "outside memory");
    return at;
  }
  // Without a program: CTAs of that many cycles.
  std::uint64_t timed_object(std::size_t machine, std::uint64_t cycles, const char* name = "timed") {
    heddle_kernel_object object{};
    object.shortest = object.longest = cycles;
    object.name = name;
    return new_object(machine, object);
  }
  // A program that lies in the machine's code store; its sizes come with each dispatch.
  std::uint64_t program_object(std::size_t machine, std::shared_ptr<const arch::WarpProgram> program,
                               const char* name = "program", std::uint32_t static_shared = 0) {
    arch::KernelShape shape;
    shape.block = {32, 1, 1};
    shape.shared_bytes = static_shared;
    heddle_kernel_object object{};
    object.program = machines[machine]->gpu.add_code(std::move(program), shape);
    object.static_shared = static_shared;
    object.registers_per_thread = 32;
    object.name = name;
    return new_object(machine, object);
  }
  static heddle_dispatch dispatch(std::uint64_t object, std::uint32_t items, std::uint16_t group,
                                  std::uint64_t signal = 0, bool barrier = true) {
    heddle_dispatch d{};
    d.scopes = HEDDLE_SCOPES(barrier, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
    d.setup = 1;
    d.workgroup[0] = group;
    d.workgroup[1] = d.workgroup[2] = 1;
    d.grid[0] = items;
    d.grid[1] = d.grid[2] = 1;
    d.kernel_object = object;
    d.completion_signal = signal;
    return d;
  }

  // No rule of the base protocol was broken at any boundary, and nothing is open there.
  std::vector<std::string> violations() const {
    std::vector<std::string> all;
    for (const auto& m : machines) {
      for (const ProtocolChecker* checker : {&m->bar0_checker, &m->bar1_checker, &m->dma_checker}) {
        for (const std::string& v : checker->violations) all.push_back(fmt::format("{}: {}", checker->name(), v));
        if (!checker->finished()) all.push_back(fmt::format("{}: a transaction is open", checker->name()));
      }
    }
    return all;
  }

  std::vector<std::unique_ptr<Machine>> machines;

 private:
  std::uint64_t next_host_ = 4096;
  std::uint64_t next_device_ = std::uint64_t{16} << 20;
};

}  // namespace heddle::test
