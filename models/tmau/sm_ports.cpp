#include "tmau/sm_ports.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::tmau {

using protocol::MemoryRequest;

SmPorts::SmPorts(const TmauContext& unit, Domain& domain, RequestStore& store)
    : unit_(unit), domain_(domain), store_(store), ports_(unit.place.sms()) {
  for (std::uint32_t sm = 0; sm < ports_.size(); ++sm) {
    ports_[sm].out = std::make_unique<MemoryOut>(fmt::format("memory_out_{}", sm).c_str(), domain);
    ports_[sm].out->connect<SmPorts, &SmPorts::on_response, &SmPorts::on_room>(*this, sm);
  }
}

void SmPorts::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  const auto sm = static_cast<std::uint32_t>(argument);
  if (ports_[sm].pump_at != unit_.now()) return;  // it was entered again for an earlier cycle
  ports_[sm].pump_at = kNever;
  pump(sm);
}

bool SmPorts::on_response(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival) {
  auto& request = static_cast<MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): all are ours
  store_.retire(request, [&] { unit_.events.answered(request, sm, arrival); });
  return true;
}

void SmPorts::on_room(std::uint32_t sm, Cycle when) {
  Port& port = ports_[sm];
  port.last = std::max(port.last, when);
  if (when > unit_.now()) {
    arm(sm);
  } else {
    pump(sm);
  }
  unit_.events.port_free(when);
}

void SmPorts::push_ready(std::uint32_t sm, MemoryRequest& request, Cycle earliest) {
  ports_[sm].ready.insert({&request, earliest},
                          [](const Ready& before, const Ready& item) { return before.earliest > item.earliest; });
  arm(sm);
}

void SmPorts::arm(std::uint32_t sm) {
  Port& port = ports_[sm];
  if (port.ready.empty() || !can_send(sm)) return;
  const Cycle when = std::max({port.ready.front().earliest, port.last, unit_.now()});
  if (when >= port.pump_at) return;
  port.pump_at = when;
  domain_.schedule(when, *this, 0, sm);
}

void SmPorts::pump(std::uint32_t sm) {
  Port& port = ports_[sm];
  const Cycle horizon = unit_.blocking() ? unit_.now() : unit_.now() + unit_.params.ahead;
  while (!port.ready.empty() && can_send(sm) && port.ready.front().earliest <= horizon) {
    const Ready next = port.ready.pop();
    send(sm, *next.request, std::max(next.earliest, unit_.now()));
  }
  arm(sm);
}

void SmPorts::send(std::uint32_t sm, MemoryRequest& request, Cycle when) {
  Port& port = ports_[sm];
  port.last = std::max(port.last, when);
  if (!unit_.blocking()) {
    port.out->send(request, port.last);
    return;
  }
  sc_core::sc_time delay = domain_.delay_until(port.last);
  port.out->blocking(request, delay);
  unit_.events.answered(request, sm, std::max(domain_.cycle_after(delay), unit_.now()));
  request.release();
}

bool SmPorts::read(std::uint32_t sm, LineRead& read) {
  Port& port = ports_[sm];
  if (!port.lines_known) {
    port.lines = port.out->lines();
    port.lines_known = true;
  }
  if (!port.lines.offered()) return false;
  read.physical_address = read.address;
  read.when = std::max(port.last, read.when);
  if (!port.lines.find(read)) return false;
  port.last = read.when;
  port.lines.take(read);
  return true;
}

void SmPorts::reset() {
  for (Port& port : ports_) {
    port.ready.clear();
    port.last = 0;
    port.pump_at = kNever;
  }
}

}  // namespace heddle::tmau
