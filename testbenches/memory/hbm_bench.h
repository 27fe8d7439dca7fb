// An HBM, or whatever stands in its place, with one initiator per socket.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "memory/hbm.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace heddle::test {

struct HbmJob {
  tlm::tlm_command command = tlm::TLM_READ_COMMAND;
  std::uint64_t address = 0;
  std::vector<std::uint8_t> data;     // written, or room for what is read
  std::vector<std::uint8_t> enables;  // empty: none
  std::uint32_t width = 0;            // streaming width; 0: all
  // Answers.
  tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
  Cycle sent = 0;
  Cycle answered = 0;
};

// Sends what `next` makes, whenever the channel and `limit` allow, and hands every answered job to `done`.
class HbmInitiator : public sc_core::sc_module, public EventHandler, public Resettable {
 public:
  HbmInitiator(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain), domain_(domain) {
    out.connect<HbmInitiator, &HbmInitiator::on_response, &HbmInitiator::on_room>(*this);
    domain.add_resettable(*this);
  }
  ~HbmInitiator() override { reset(); }

  void begin() { domain_.schedule(domain_.now() + 1, *this, kPump); }
  // A whole job at once.
  void blocking(HbmJob& job, sc_core::sc_time& delay) {
    tlm::tlm_generic_payload payload;
    fill(payload, job);
    out.blocking(payload, delay);
    job.status = payload.get_response_status();
  }

  MemoryOut out;
  std::function<std::optional<HbmJob>()> next;
  std::function<void(HbmJob&)> done;
  std::uint32_t limit = 16;          // open jobs
  std::uint32_t refuse_percent = 0;  // of the responses
  Random random{1};
  std::uint64_t refused = 0;
  std::uint64_t withheld = 0;  // END_REQ
  std::uint32_t open() const { return static_cast<std::uint32_t>(open_.size()); }

  void on_event(std::uint32_t kind, std::uint64_t) override {
    if (kind == kPump) return pump();
    tlm::tlm_generic_payload& payload = *refused_;
    refused_ = nullptr;
    out.end_response(payload, domain_.now());
    take(payload, domain_.now());
    pump();
  }
  void reset() override {
    for (Open& open : open_) open.payload->release();
    open_.clear();
    refused_ = nullptr;
    last_ = 0;
  }

 private:
  enum Kind : std::uint32_t { kPump, kEnd };
  struct Open {
    std::unique_ptr<HbmJob> job;
    tlm::tlm_generic_payload* payload;
  };

  static void fill(tlm::tlm_generic_payload& payload, HbmJob& job) {
    payload.set_command(job.command);
    payload.set_address(job.address);
    payload.set_data_ptr(job.data.data());
    payload.set_data_length(static_cast<unsigned>(job.data.size()));
    payload.set_streaming_width(job.width == 0 ? static_cast<unsigned>(job.data.size()) : job.width);
    payload.set_byte_enable_ptr(job.enables.empty() ? nullptr : job.enables.data());
    payload.set_byte_enable_length(static_cast<unsigned>(job.enables.size()));
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }
  void pump() {
    while (out.can_send() && open_.size() < limit) {
      std::optional<HbmJob> job = next();
      if (!job) return;
      open_.push_back({std::make_unique<HbmJob>(std::move(*job)), &pool_.acquire()});
      Open& open = open_.back();
      fill(*open.payload, *open.job);
      last_ = std::max(last_, domain_.now() + random.below(5));
      open.job->sent = last_;
      if (!out.send(*open.payload, last_)) ++withheld;
    }
  }
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    if (random.chance(refuse_percent)) {
      ++refused;
      refused_ = &payload;
      domain_.schedule(arrival + random.below(40), *this, kEnd);
      return false;
    }
    take(payload, arrival);
    domain_.schedule(arrival, *this, kPump);
    return true;
  }
  void on_room(std::uint32_t, Cycle when) { domain_.schedule(when, *this, kPump); }
  void take(tlm::tlm_generic_payload& payload, Cycle when) {
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&payload](const Open& open) { return open.payload == &payload; });
    HEDDLE_CHECK(found != open_.end(), "an answer to a question that nobody asked");
    const std::unique_ptr<HbmJob> job = std::move(found->job);
    open_.erase(found);
    job->status = payload.get_response_status();
    job->answered = when;
    payload.release();
    if (done) done(*job);
  }

  Domain& domain_;
  PayloadPool pool_;
  std::vector<Open> open_;
  tlm::tlm_generic_payload* refused_ = nullptr;
  Cycle last_ = 0;
};

struct HbmBench {
  HbmBench(const memory::HbmParams& params, std::uint64_t bytes, std::uint32_t ports, TimingMode mode = TimingMode::at,
           double clock_ghz = 1.0)
      : domain("domain", clock_ghz, mode, 1000, observation), hbm("hbm", domain, "hbm", params, bytes, ports) {
    for (std::uint32_t port = 0; port < ports; ++port) {
      initiators.push_back(std::make_unique<HbmInitiator>(("initiator" + std::to_string(port)).c_str(), domain));
      initiators.back()->random = Random(port + 1);
      initiators.back()->out.bind(hbm.in(port));
    }
  }
  HbmInitiator& operator[](std::size_t port) { return *initiators[port]; }
  void run() {
    start();
    for (auto& initiator : initiators)
      if (initiator->next) initiator->begin();
    run_until_idle();
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.hbm." + name); }

  SimFixture simulation;
  GpuObservation observation{"gpu0"};
  Domain domain;
  memory::Hbm hbm;
  std::vector<std::unique_ptr<HbmInitiator>> initiators;
};

// Reads whole lines from `address(i)`, `count` of them.
inline void read_lines(HbmInitiator& initiator, std::uint32_t count,
                       const std::function<std::uint64_t(std::uint32_t)>& address, bool write = false) {
  initiator.limit = 256;
  initiator.next = [count, address, write, i = std::uint32_t{0}]() mutable -> std::optional<HbmJob> {
    if (i == count) return std::nullopt;
    HbmJob job;
    job.command = write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND;
    job.address = address(i++);
    job.data.resize(128);
    return job;
  };
}

inline memory::HbmParams small_hbm() {
  memory::HbmParams params;
  params.channels = 4;
  return params;
}

}  // namespace heddle::test
