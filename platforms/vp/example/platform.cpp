// A whole platform in one file: a bus, RAM, an interrupt controller, two GPUs of different shapes, and a host process
// for each of them. Public headers alone: it builds as well against an installed package (docs/howto/embed.md).
//
//   process 0 ──┐         ┌── RAM                          0x0'0000'0000   1 MiB
//   process 1 ──┤── bus ──┼── interrupt controller         0x0'1000'0000   ENABLE at 0, PENDING at 8
//   dma of GPUs ┘         └── GPU n: bar0, bar1            0x1'0000'0000 and 0x2'0000'0000, 64 GiB · n further
//
// It runs three times in one process: undisturbed, with a reset of GPU 0 in mid-flight, and undisturbed again.
#include <array>
#include <cstdint>
#include <cstring>
#include <heddle/gpu.h>
#include <heddle/tlm_bus.h>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tlm_utils/simple_target_socket.h>

namespace {

using sc_core::sc_time;
using Payload = tlm::tlm_generic_payload;

constexpr std::uint64_t kRamBytes = 1 << 20;
constexpr std::uint64_t kInterrupts = 0x1000'0000;
constexpr std::uint64_t bar0_of(std::uint64_t gpu) { return 0x1'0000'0000 + (gpu << 36U); }
constexpr std::uint64_t bar1_of(std::uint64_t gpu) { return 0x2'0000'0000 + (gpu << 36U); }

// ---------------------------------------------------------------------------------------------------- the bus
// Every master has a socket of its own. What a target sees are addresses from its own beginning.
struct Bus : sc_core::sc_module {
  struct Window {
    std::uint64_t base, bytes;
  };
  sc_core::sc_vector<tlm_utils::simple_target_socket<Bus>> masters;
  sc_core::sc_vector<tlm_utils::simple_initiator_socket<Bus>> targets;
  std::vector<Window> windows;

  Bus(const sc_core::sc_module_name& name, std::size_t master_count, std::vector<Window> map)
      : sc_module(name), masters("master", master_count), targets("target", map.size()), windows(std::move(map)) {
    for (auto& master : masters) {
      master.register_b_transport(this, &Bus::b_transport);
      master.register_transport_dbg(this, &Bus::transport_dbg);
    }
  }
  // Of the target; none: nobody is there.
  std::size_t decode(const Payload& payload) const {
    const std::uint64_t at = payload.get_address();
    const std::uint64_t bytes = payload.get_data_length();
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Window& its = windows[i];
      if (at >= its.base && bytes <= its.bytes && at - its.base <= its.bytes - bytes) return i;
    }
    return windows.size();
  }
  void b_transport(Payload& payload, sc_time& delay) {
    const std::size_t target = decode(payload);
    if (target == windows.size()) return payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    delay += sc_time(20, sc_core::SC_NS);
    const std::uint64_t address = payload.get_address();
    payload.set_address(address - windows[target].base);
    targets[target]->b_transport(payload, delay);
    payload.set_address(address);
  }
  unsigned transport_dbg(Payload& payload) {
    const std::size_t target = decode(payload);
    if (target == windows.size()) return 0;
    const std::uint64_t address = payload.get_address();
    payload.set_address(address - windows[target].base);
    const unsigned bytes = targets[target]->transport_dbg(payload);
    payload.set_address(address);
    return bytes;
  }
};

// ------------------------------------------------------------------------------------------ RAM and interrupts
// Bytes that can be read and written.
bool copy(Payload& payload, unsigned char* bytes) {
  if (payload.is_read()) std::memcpy(payload.get_data_ptr(), bytes, payload.get_data_length());
  if (payload.is_write()) std::memcpy(bytes, payload.get_data_ptr(), payload.get_data_length());
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  return true;
}

struct Ram : sc_core::sc_module {
  tlm_utils::simple_target_socket<Ram> port{"port"};
  std::vector<unsigned char> bytes = std::vector<unsigned char>(kRamBytes);

  explicit Ram(const sc_core::sc_module_name& name) : sc_module(name) {
    port.register_b_transport(this, &Ram::b_transport);
    port.register_transport_dbg(this, &Ram::transport_dbg);
  }
  void b_transport(Payload& payload, sc_time& delay) {
    delay += sc_time(60, sc_core::SC_NS);
    copy(payload, &bytes[payload.get_address()]);
  }
  unsigned transport_dbg(Payload& payload) {
    copy(payload, &bytes[payload.get_address()]);
    return payload.get_data_length();
  }
};

// A line of each GPU, which goes to the process of that GPU if its bit of ENABLE is set.
struct InterruptController : sc_core::sc_module {
  tlm_utils::simple_target_socket<InterruptController> port{"port"};
  sc_core::sc_vector<sc_core::sc_in<bool>> in;
  sc_core::sc_vector<sc_core::sc_out<bool>> out;
  std::uint64_t enable = 0;
  sc_core::sc_event changed;

  SC_HAS_PROCESS(InterruptController);
  InterruptController(const sc_core::sc_module_name& name, std::size_t lines)
      : sc_module(name), in("in", lines), out("out", lines) {
    port.register_b_transport(this, &InterruptController::b_transport);
    SC_METHOD(forward);
    for (auto& line : in) sensitive << line;
    sensitive << changed;
  }
  std::uint64_t pending() const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < in.size(); ++i) bits |= std::uint64_t{in[i].read()} << i;
    return bits;
  }
  void forward() {
    for (std::size_t i = 0; i < out.size(); ++i) out[i].write((pending() & enable) >> i & 1U);
  }
  void b_transport(Payload& payload, sc_time& delay) {
    delay += sc_time(10, sc_core::SC_NS);
    const std::uint64_t at = payload.get_address();
    if (payload.get_data_length() != 8 || (at != 0 && (at != 8 || payload.is_write()))) {
      return payload.set_response_status(tlm::TLM_COMMAND_ERROR_RESPONSE);
    }
    std::uint64_t value = at == 0 ? enable : pending();
    copy(payload, reinterpret_cast<unsigned char*>(&value));
    if (!payload.is_write()) return;
    enable = value;
    changed.notify(delay);
  }
};

// -------------------------------------------------------------------------------------------------- the software
void check(heddle_status status, const char* what) {
  if (status != HEDDLE_OK) throw std::runtime_error(std::string(what) + " returns " + std::to_string(status));
}

// A host process with a GPU of its own. It launches a kernel three times; where the device was reset meanwhile, it
// opens it again and repeats the launch.
struct Process : sc_core::sc_module {
  heddle::TlmBus tlm;
  sc_core::sc_in<bool> irq{"irq"};
  heddle::Contents contents;
  std::vector<std::uint32_t> numbers;
  sc_time end;
  unsigned repeated = 0;

  SC_HAS_PROCESS(Process);
  Process(const sc_core::sc_module_name& name, std::uint64_t gpu)
      : sc_module(name), tlm("tlm", sc_time(1, sc_core::SC_US), bar0_of(gpu), bar1_of(gpu)), gpu_(gpu) {
    SC_THREAD(software);
  }

 private:
  static constexpr std::uint32_t kSignals = HEDDLE_INT_SIGNAL_MASK;
  // RAM of this process: indices, a signal and a ring of 64 packets.
  std::uint64_t own(std::uint64_t offset) const { return HEDDLE_HOST_WINDOW + (gpu_ + 1) * 0x10000 + offset; }

  void open() {
    bus_ = tlm.bus();
    check(heddle_device_open(&device_, &bus_), "heddle_device_open");
    check(heddle_device_mask(&device_, kSignals), "heddle_device_mask");
    heddle_queue_setup setup{};
    setup.ring = own(0x1000);
    setup.size = 64;
    setup.read_index = own(0x100);
    setup.write_index = own(0x140);
    check(heddle_queue_create(&queue_, &device_, 0, &setup, 1000), "heddle_queue_create");
  }

  // False: no interrupt within 100 us.
  bool run(const heddle::Kernel& kernel) {
    heddle_dispatch dispatch{};
    dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
    dispatch.setup = 3;  // dimensions
    for (int d = 0; d < 3; ++d) {
      dispatch.workgroup[d] = static_cast<std::uint16_t>(kernel.block[d]);
      dispatch.grid[d] = kernel.grid[d] * kernel.block[d];
    }
    dispatch.group_segment = kernel.shared_bytes;
    dispatch.kernel_object = kernel.object;
    dispatch.completion_signal = own(0x200) | HEDDLE_SIGNAL_INTERRUPT;
    check(heddle_signal_init(&bus_, dispatch.completion_signal, 1, 0, 7), "heddle_signal_init");
    heddle_packet packet;
    heddle_packet_kernel(&packet, &dispatch);
    check(heddle_queue_submit(&queue_, &packet, 1, 1000, nullptr), "heddle_queue_submit");
    tlm.synchronise();  // before a signal of SystemC is looked at
    if (!irq.read()) wait(sc_time(100, sc_core::SC_US), irq.posedge_event());
    if (!irq.read()) return false;
    std::uint32_t event = 0;
    check(heddle_device_event(&device_, &event), "heddle_device_event");
    check(heddle_device_acknowledge(&device_, kSignals), "heddle_device_acknowledge");
    std::int64_t left = 1;
    check(heddle_signal_wait(&bus_, dispatch.completion_signal, HEDDLE_LESS, 1, 1, &left), "heddle_signal_wait");
    if (event != 7 || left != 0) throw std::runtime_error("the kernel has failed");
    tlm.synchronise();
    if (irq.read()) wait(irq.negedge_event());
    return true;
  }

  void software() {
    open();
    std::uint64_t enabled = 3;  // the lines of both
    if (!bus_.store(bus_.context, HEDDLE_HOST_WINDOW + kInterrupts, &enabled, 8)) throw std::runtime_error("no bus");
    const heddle::Region& region = contents.region("numbers");
    numbers.resize(region.bytes / 4);
    for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i + 1000 * static_cast<std::uint32_t>(gpu_);
    for (int launch = 0; launch < 3; ++launch) {
      for (;;) {
        if (!bus_.store(bus_.context, region.address, numbers.data(), region.bytes)) throw std::runtime_error("no BAR");
        if (run(contents.kernel("triple"))) break;
        ++repeated;
        open();
      }
      if (!bus_.load(bus_.context, region.address, numbers.data(), region.bytes)) throw std::runtime_error("no BAR");
    }
    tlm.synchronise();
    end = sc_core::sc_time_stamp();
  }

  std::uint64_t gpu_;
  heddle_bus bus_{};
  heddle_device device_{};
  heddle_queue queue_{};
};

// -------------------------------------------------------------------------------------------------- the platform
struct Platform {
  static constexpr std::size_t kGpus = 2;
  std::array<std::unique_ptr<heddle::Gpu>, kGpus> gpus;
  std::array<std::unique_ptr<Process>, kGpus> processes;
  Bus bus;
  Ram ram{"ram"};
  InterruptController interrupts{"interrupts", kGpus};
  sc_core::sc_vector<sc_core::sc_signal<bool>> from_gpu{"from_gpu", kGpus}, to_cpu{"to_cpu", kGpus};

  explicit Platform(const std::string& kernels)
      : bus("bus", 4 * kGpus,
            {{0, kRamBytes},
             {kInterrupts, 16},
             {bar0_of(0), 1 << 24},
             {bar1_of(0), 1ULL << 34},
             {bar0_of(1), 1 << 24},
             {bar1_of(1), 1ULL << 34}}) {
    bus.targets[0].bind(ram.port);
    bus.targets[1].bind(interrupts.port);
    const std::array<const char*, kGpus> shapes{"gpu.shape=[4, 4, 4]", "gpu.shape=[2, 2]"};
    for (std::size_t n = 0; n < kGpus; ++n) {
      heddle::GpuOptions options;
      options.preset = "small";
      options.settings = {shapes[n]};
      gpus[n] = std::make_unique<heddle::Gpu>(("gpu" + std::to_string(n)).c_str(), options);
      processes[n] = std::make_unique<Process>(("process" + std::to_string(n)).c_str(), n);
      Process& process = *processes[n];
      process.contents = gpus[n]->load(kernels);
      process.tlm.registers.bind(bus.masters[4 * n]);
      process.tlm.memory.bind(bus.masters[4 * n + 1]);
      process.tlm.host.bind(bus.masters[4 * n + 2]);
      gpus[n]->dma.bind(bus.masters[4 * n + 3]);
      bus.targets[2 + 2 * n].bind(gpus[n]->bar0);
      bus.targets[3 + 2 * n].bind(gpus[n]->bar1);
      gpus[n]->irq.bind(from_gpu[n]);
      interrupts.in[n].bind(from_gpu[n]);
      interrupts.out[n].bind(to_cpu[n]);
      process.irq.bind(to_cpu[n]);
    }
  }
};

struct Result {
  std::array<std::vector<std::uint32_t>, Platform::kGpus> numbers;
  std::array<sc_time, Platform::kGpus> ends;
  unsigned repeated = 0;
};

// A simulation of its own, from the first module to the last. `reset`: of GPU 0, as soon as it has run `reset_ctas`.
Result simulate(const std::string& kernels, bool reset) {
  struct Context {  // SystemC keeps one per process: another one takes its place meanwhile
    sc_core::sc_simcontext* before = sc_core::sc_curr_simcontext;
    sc_core::sc_simcontext* global = sc_core::sc_default_global_context;
    std::unique_ptr<sc_core::sc_simcontext> own = std::make_unique<sc_core::sc_simcontext>();
    Context() { sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = own.get(); }
    ~Context() {
      own.reset();
      sc_core::sc_curr_simcontext = before;
      sc_core::sc_default_global_context = global;
    }
  } context;
  Platform platform(kernels);
  if (reset) {
    heddle::Gpu& gpu = *platform.gpus[0];
    // Some CTAs of the second launch run.
    while (gpu.statistic("cwd.ctas_launched") < 20) sc_core::sc_start(sc_time(100, sc_core::SC_NS));
    if (gpu.idle()) throw std::runtime_error("nothing is under way that a reset could cut");
    gpu.reset();
  }
  sc_core::sc_start();
  Result result;
  for (std::size_t n = 0; n < Platform::kGpus; ++n) {
    result.numbers[n] = platform.processes[n]->numbers;
    result.ends[n] = platform.processes[n]->end;
    result.repeated += platform.processes[n]->repeated;
  }
  return result;
}

bool right(const Result& result) {
  for (std::uint32_t n = 0; n < Platform::kGpus; ++n) {
    for (std::uint32_t i = 0; i < 4096; ++i) {
      if (result.numbers[n].at(i) != 27 * (i + 1000 * n) + 13) return false;  // three times 3 x + 1
    }
  }
  return true;
}

}  // namespace

int sc_main(int count, char** arguments) {
  const std::string kernels = count > 1 ? arguments[1] : "kernels.yaml";
  const Result first = simulate(kernels, false);
  const Result disturbed = simulate(kernels, true);
  const Result again = simulate(kernels, false);
  const auto show = [](const char* what, bool holds) {
    std::cout << what << ": " << (holds ? "yes" : "NO") << '\n';
    return holds;
  };
  bool good = show("both GPUs compute what they should", right(first));
  good &= show("a second simulation has the same memory and times",
               again.numbers == first.numbers && again.ends == first.ends);
  good &= show("a reset in mid-flight made GPU 0's process repeat one launch",
               disturbed.repeated == 1 && first.repeated == 0);
  good &= show("and changed no memory in the end", disturbed.numbers == first.numbers);
  good &= show("nor any time of GPU 1", disturbed.ends[1] == first.ends[1] && disturbed.ends[0] > first.ends[0]);
  std::cout << "process 0 ends at " << first.ends[0] << ", process 1 at " << first.ends[1] << '\n';
  return good ? 0 : 1;
}
