// Heddle's GPU as a module of a SystemC platform; installed as <heddle/gpu.h>. It needs SystemC and TLM-2.0, and
// nothing else of Heddle. docs/howto/embed.md builds a platform with it; docs/stability.md says what of it stays as it
// is.
//
// Any number of them can be in one simulation. None calls sc_start, changes the time resolution, or waits inside a
// call.
#ifndef HEDDLE_GPU_H
#define HEDDLE_GPU_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <systemc>
#include <tlm>

#define HEDDLE_API __attribute__((visibility("default")))

namespace heddle {
inline namespace v0 {

// Something that was asked for cannot be had: a file, a preset, a parameter, a name. what() is what `heddle run`
// prints: the place, what is wrong, and what to do about it.
class HEDDLE_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
  ~Error() override;
};

// How time is modelled; bytes in memory are the same in all of them (docs/configuration.md).
enum class Timing {
  configured,  // as files and settings say; without any: at
  at,          // an event per hop: the reference
  fast,        // a path in one call, contention by calendars
  lt,          // the same call without contention: for virtual platforms
};

// Which machine it is. Later ones win: preset, files in their order, settings, timing.
struct GpuOptions {
  std::string preset;  // empty: what a file's key `preset` says, or else h100-sxm
  std::vector<std::string>
      files;  // YAML as `heddle run --gpu FILE` takes; what they say of `run` and `host` is not used
  std::vector<std::string> settings;  // "gpu.memory=1 GiB", as behind `heddle run --set`
  Timing timing = Timing::configured;
  std::uint64_t seed = 1;  // of what is random: durations of CTAs whose kernel gives a range
};

// What a machine is described by, as `heddle show params` lists it. GpuOptions sets it.
struct Parameter {
  std::string path;         // "gpu.l2.slices"
  std::string type;         // "u32", "list of u32", …
  std::string unit;         // "B", "ns", …; empty: none
  std::string range;        // what it may be, in words
  std::string standard;     // its value where no preset, file or setting says another
  std::string value;        // that was resolved; a text that GpuOptions::settings takes behind "PATH="
  std::string description;  // a sentence
  std::string origin;       // who has set the value: "preset h100-sxm", a file with its line, "--set"
};

struct Statistic {
  std::string path;  // "gpu0.cwd.ctas_launched", where the module is called gpu0
  std::string unit;
  std::string description;
  double value = 0;
};

// A register, or an array of registers, of bar0 (docs/registers.md).
struct RegisterInfo {
  std::string name;          // upper case, HEDDLE_REG_<name> in the C library
  std::uint32_t offset = 0;  // bytes in bar0, of the first
  std::uint32_t bits = 0;    // 32 or 64
  std::string access;        // "ro", "rw", "w1c" (ones clear their bits) or "wo"
  std::string description;
  std::uint32_t count = 1;   // of the array: copy channels, or queues that a machine can have at most
  std::uint32_t stride = 0;  // bytes from one of the array to the next
  std::uint32_t words = 1;   // consecutive registers of each
};

struct RegisterWrite {
  std::string name;
  std::uint32_t index = 0;   // in the array
  std::uint32_t word = 0;    // of the element; of a doorbell: its page
  std::uint32_t offset = 0;  // bytes in bar0
  std::uint32_t bytes = 0;   // 4 or 8: a 64-bit register can be written by halves
  std::uint64_t value = 0;   // that was written
};

// A kernel that can be launched by packets.
struct Kernel {
  std::string name;
  std::uint64_t object = 0;              // device address of its kernel object, for `kernel_object` of a packet
  std::array<std::uint32_t, 3> grid{};   // CTAs
  std::array<std::uint32_t, 3> block{};  // threads
  std::uint32_t shared_bytes = 0;        // shared memory of a CTA, for `group_segment`
};

// A part of device memory that kernels know by name.
struct Region {
  std::string name;
  std::uint64_t address = 0;  // in device memory
  std::uint64_t bytes = 0;
};

struct Contents {
  std::vector<Kernel> kernels;
  std::vector<Region> regions;

  // Throw Error with the nearest name if there is none such.
  HEDDLE_API const Kernel& kernel(const std::string& name) const;
  HEDDLE_API const Region& region(const std::string& name) const;
};

class HEDDLE_API Gpu : public sc_core::sc_module {
 public:
  using TargetSocket = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  using InitiatorSocket =
      tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

  // Throws Error.
  explicit Gpu(const sc_core::sc_module_name& name, const GpuOptions& options = {});
  ~Gpu() override;

  // What a platform binds; whatever is not needed may stay unbound. One initiator each: several share a bus.
  TargetSocket bar0;          // registers and doorbells; addresses from 0, or from gpu.host.bar0 where that is set
  TargetSocket bar1;          // device memory, with DMI; addresses from 0, or from gpu.host.bar1
  InitiatorSocket dma;        // to the host's memory, at the host's bus addresses
  sc_core::sc_out<bool> irq;  // level
  sc_core::sc_in<bool> rst;   // active high

  // The whole configuration as YAML, with the origin of every value; an input of GpuOptions::files.
  std::string configuration() const;
  std::uint64_t memory_bytes() const;

  // Kernels and memory from a scenario file (docs/scenario.md): programs become known to the machine, regions are
  // filled, and kernel objects lie behind them. At any time; a reset keeps all of it. What the file says of machines,
  // order and results is not used. Throws Error for what is wrong in the file, for a second file whose memory overlaps
  // the first one's, and where subcontexts, loads or local memory are asked for, which are the driver's to set up.
  // After a restore() that has failed, what was loaded before is forgotten; Error where something of it is still used.
  Contents load(const std::string& scenario);

  // Device memory, without time; the newest bytes, wherever they are. False: part of the range is outside.
  bool read_memory(std::uint64_t address, void* to, std::size_t bytes) const;
  bool write_memory(std::uint64_t address, const void* from, std::size_t bytes);

  // All parameters, in the order of `heddle show params`, and the value of one. Throws Error with the nearest path if
  // there is none such.
  std::vector<Parameter> parameters() const;
  std::string parameter(const std::string& path) const;

  // Into a stream, and out of it into another device of the same configuration (gpu.timing and gpu.run_ahead may
  // differ), in this process or another one, at any time after construction and not from a callback of the device.
  // The stream is to be open in binary mode. docs/howto/embed.md says what is saved; the bytes in memory are.
  //
  // save() changes nothing of the device. It throws Error, with what is open, unless the device is quiet: idle(), and
  // nothing of it left to be done. restore() resets the device first, so that times and statistics begin anew and
  // caches are empty; files have been loaded into it before as into the saved one. It throws Error for what is no saved
  // device, another version or configuration, which change nothing, and whatever ends too early or is damaged behind
  // that: the device is as after a reset then, with zeros in its memory.
  void save(std::ostream& to);
  void restore(std::istream& from);

  // As the soft reset of the registers: all but the bytes in memory, in mid-flight. Not from a callback of this device.
  void reset();
  // Nothing is under way: no kernel, copy or packet. A queue may be open.
  bool idle() const;

  // All registers, in the order of their addresses.
  static std::vector<RegisterInfo> registers();
  // The value of a register, without time and without effects; 0 of one that can only be written. Throws Error for a
  // name that does not exist (with the nearest), and for one of an array that the machine does not have.
  std::uint64_t read_register(const std::string& name, std::uint32_t index = 0, std::uint32_t word = 0) const;
  // `callback` is called for every write that was carried out, right after it, in the order of the calls of this
  // function. It must not access the device.
  void on_register_write(std::function<void(const RegisterWrite&)> callback);

  // Adds signals of the device to a trace file of SystemC's, which the caller owns (docs/howto/embed.md lists them).
  // Before simulation begins, at most once; throws Error after that.
  void trace(sc_core::sc_trace_file* file);

  // By path; docs/statistics.md lists them. A path may leave out the module's own name: "cwd.ctas_launched".
  std::vector<Statistic> statistics() const;
  // Throws Error with the nearest paths if there is none such.
  double statistic(const std::string& path) const;
  // Sentences about operations that could not be carried out since the start or the last reset.
  std::vector<std::string> faults() const;

 protected:
  void before_end_of_elaboration() override;

 private:
  class __attribute__((visibility("hidden"))) Impl;
  std::unique_ptr<Impl> impl_;
};

// The parameters of a device that would be built with these options. Throws Error.
HEDDLE_API std::vector<Parameter> parameters(const GpuOptions& options = {});
// Names for GpuOptions::preset.
HEDDLE_API std::vector<std::string> presets();
// Of the library: "0.1.0".
HEDDLE_API std::string version();

}  // namespace v0
}  // namespace heddle

#endif
