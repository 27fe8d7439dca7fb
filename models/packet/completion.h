// Stage 4 of the packet processor: what follows the work of a kernel or packet. Release fence, time stamps, completion
// signal, mailbox and interrupt (PKT-04). A bad packet comes here as well: its signal tells what is wrong (PKT-09).
#pragma once

#include <cstdint>

#include "common/index_pool.h"
#include "packet/packet_reporter.h"

namespace heddle::packet {

// Is told when kernels leave the machine.
class KernelListener {
 public:
  // The kernel is complete. `resume`: its packet may have waited for that.
  virtual void kernel_completed(Packet& packet, bool resume) = 0;

 protected:
  ~KernelListener() = default;
};

// Is told when a signal in the host's memory has been changed from here.
class SignalListener {
 public:
  virtual void signal_changed(std::uint64_t address) = 0;

 protected:
  ~SignalListener() = default;
};

// Is told when packets leave the processor.
class RetireListener {
 public:
  // Nothing of the packet is left to be done, and it has been reported.
  virtual void retire(Packet& packet) = 0;

 protected:
  ~RetireListener() = default;
};

class Completion final : public PipelineStage {
 public:
  Completion(const StageContext& context, KernelListener& kernels, RetireListener& packets, SignalListener& signals,
             QueueSupervisor& supervisor);

  // All that the packet started has ended: its fence and signal, and it is complete.
  void finish(Packet& packet);
  // A kernel that is not the packet's last has ended: its fence and signal, if it asks for them (PKT-07).
  void finish_kernel(Packet& packet, std::uint32_t kernel);
  // The packet is complete without fence and signal.
  void complete(Packet& packet);
  // The packet is bad, as Packet::result says: it stops its queue, and goes. Its slot and the read index stay, its
  // signal tells.
  void reject(Packet& packet);

  void on_answer(const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() { jobs_.clear(); }

 private:
  enum Event : std::uint32_t { kCleanedUp };  // argument: a job
  enum class Scope : std::uint8_t {
    packet,    // the whole packet
    kernel,    // one of its kernels
    rejected,  // a bad packet, which is gone
  };
  struct Job {
    Scope of = Scope::rejected;
    std::uint32_t queue = 0;
    std::uint64_t index = 0;   // index of the packet, for errors
    Packet* packet = nullptr;  // null if it is gone
    std::uint32_t kernel = 0;
    arch::FenceScope fence = arch::FenceScope::none;
    std::uint64_t signal = 0;
    std::int64_t value = 0;  // that the signal gets; 0: it is decremented
    Cycle start = 0;         // of the work
    Cycle end = 0;
    std::uint32_t event_id = 0;

    bool asks() const { return fence != arch::FenceScope::none || signal != 0; }
  };

  static Job job_of(Scope of, Packet& packet);
  void start(const Job& job);
  void clean_up(std::uint32_t number);
  void write_stamps(std::uint32_t number);
  void note_end(const Job& job);
  void write_signal(std::uint32_t number);
  void signal_written(std::uint32_t number, bool ok);
  void mailbox_read(std::uint32_t number, const MemoryAnswer& answer);
  void mailbox_written(std::uint32_t number, bool ok);
  void interrupt(const Job& job);
  void end(std::uint32_t number);
  void fail(const Job& job, arch::HsaStatus status, arch::Reason reason);
  // A request of the job: its answer comes back to on_answer().
  MemoryTag tag_of(MemoryTag::Use use, std::uint32_t number) const {
    return {use, jobs_[number].queue, number, 0, 0, jobs_[number].index};
  }

  KernelListener& kernels_;
  RetireListener& retirement_;
  SignalListener& signals_;
  QueueSupervisor& supervisor_;
  IndexPool<Job> jobs_;
};

}  // namespace heddle::packet
