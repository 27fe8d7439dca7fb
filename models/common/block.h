// Base of every shell: a module in a domain, with statistics under its own path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/domain.h"

namespace heddle {

// Modules or sockets of one kind, by number, destroyed last first: when one goes, SystemC looks for each of its ports
// from the youngest of the whole simulation on. In the order of a vector that took minutes for a large machine.
template <class T>
class Children : public std::vector<std::unique_ptr<T>> {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    while (!this->empty()) this->pop_back();
  }
};

class Block : public sc_core::sc_module, public EventHandler, public Resettable, public WaitSource, public IdleSource {
 public:
  // `path`: where the block's statistics live below the device's prefix, e.g. "cwd" or "gpc0.gpm".
  Block(const sc_core::sc_module_name& name, Domain& domain, std::string path)
      : sc_core::sc_module(name), domain_(domain), path_(std::move(path)) {
    domain.add_resettable(*this);
    domain.add_wait_source(*this);
    domain.add_idle_source(*this);
  }

  // Nothing is checked unless a block says otherwise.
  void check_idle() override {}

  const std::string& path() const { return path_; }
  const char* handler_name() const final { return name(); }

 protected:
  Cycle now() const { return domain_.now(); }
  std::string stat_path(const std::string& name) const {
    return domain_.observation().prefix + "." + path_ + "." + name;
  }
  Counter& counter(const std::string& name, const std::string& unit, const std::string& description) {
    return domain_.observation().stats.counter(stat_path(name), unit, description);
  }
  Gauge& gauge(const std::string& name, const std::string& unit, const std::string& description) {
    return domain_.observation().stats.gauge(stat_path(name), unit, description);
  }
  Histogram& histogram(const std::string& name, const std::string& unit, const std::string& description) {
    return domain_.observation().stats.histogram(stat_path(name), unit, description);
  }
  TimelineSink* timeline() const { return domain_.observation().timeline; }
  void progress() { ++domain_.observation().progress; }

  Domain& domain_;

 private:
  std::string path_;
};

}  // namespace heddle
