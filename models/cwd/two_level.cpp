#include "cwd/two_level.h"

#include <algorithm>

#include <fmt/format.h>

#include "cwd/cost_laws.h"

namespace heddle::cwd {

Gpc2SmUnit::Gpc2SmUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                       const CwdParams& params, const arch::Topology& topology, std::uint32_t gpc,
                       const std::vector<std::uint32_t>& sm_priority, SmPolicy& load_balancing, SmPolicy& multicast,
                       DomainPolicy& cpc_policy)
    : Block(name, domain, path),
      snapshot_in("snapshot_in", domain, 0),
      mimic_in("mimic_in", domain, 0),
      home_in("home_in", domain, 0),
      answer_out("answer_out", domain, params.query_distance, kUnlimitedCredits),  // one answer per query
      mask_out("mask_out", domain, 0, kUnlimitedCredits),                          // bounded by the free slots
      step_(domain.cost(params.session_step)),
      prefix_step_(params.prefix_step),
      model_(topology, gpc, sm_priority, load_balancing, multicast, cpc_policy),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  snapshot_in.on_packet_ahead<Gpc2SmUnit, &Gpc2SmUnit::on_snapshot>(*this);
  mimic_in.on_packet_ahead<Gpc2SmUnit, &Gpc2SmUnit::on_mimic>(*this);
  home_in.on_packet_ahead<Gpc2SmUnit, &Gpc2SmUnit::on_home>(*this);
  if (timeline() != nullptr) {
    track_ = timeline()->detail_track(domain.observation().prefix + " cwd", fmt::format("gpc2sm {}", gpc), {});
  }
}

Gpc2SmUnit::~Gpc2SmUnit() = default;

void Gpc2SmUnit::reset() { count_ = accepted_ = 0; }

void Gpc2SmUnit::on_snapshot(const protocol::SnapshotPacket& snapshot, std::uint32_t, Cycle) {
  model_.begin(snapshot.free, {snapshot.ctas, snapshot.cpc_ctas}, snapshot.multicast, snapshot.cgas, snapshot.waiting);
  count_ = accepted_ = 0;
  way_ = domain_.cost(snapshot.way);
}

void Gpc2SmUnit::on_mimic(const protocol::MimicPacket& mimic, std::uint32_t, Cycle arrival) {
  if (mimic.reserve) {
    if (reserved_.size() == count_) reserved_.emplace_back();
    reserved_[count_++] = model_.masks();
    model_.reserve();
  }
  if (mimic.cancel) model_.cancel();
  if (mimic.revert) {
    model_.revert();
    count_ = accepted_;
  }
  if (mimic.accept) {
    model_.accept();
    accepted_ = count_;
  }
  if (mimic.query) ask(arrival, mimic.revert);
}

// The registers change when a command arrives; their reset takes a step of its own before a query (CWD-19). The answer
// leaves when its decisions have been made.
void Gpc2SmUnit::ask(Cycle begin, bool after_reset) {
  const GpcReply reply = model_.query();
  stats_.queries.add();
  stats_.steps.add(reply.steps);
  stats_.valid.add(reply.answer.valid ? 1 : 0);
  const Cycle steps = std::max<Cycle>(1, reply.steps) + (after_reset ? 1 : 0);
  const Cycle prefix = domain_.cost(tree_cycles(reply.prefix_levels, prefix_step_));
  const Cycle ready = begin + steps * step_ + prefix;
  answer_out.send_at(ready + way_, {reply.answer.valid, reply.answer.speed, reply.answer.free});
  if (timeline() != nullptr) {
    timeline()->slice(track_, domain_.time_of(begin), domain_.time_of(ready),
                      reply.answer.valid ? fmt::format("fits, speed {}", reply.answer.speed) : std::string("no room"),
                      {{"speed", reply.answer.valid ? static_cast<std::int64_t>(reply.answer.speed) : -1},
                       {"steps", reply.steps},
                       {"reserved", model_.reserved()}});
  }
}

void Gpc2SmUnit::on_home(const protocol::HomePacket& home, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(home.nth < accepted_, "a CGA is to be started that was not accepted");
  const std::vector<std::uint64_t>& masks = reserved_[home.nth];
  protocol::MaskPacket packet;
  packet.order = home.order;
  packet.unit = home.unit;
  packet.last = home.last;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    packet.masks[packet.count++] = masks[i];
    packet.final = i + 1 == masks.size();
    if (!packet.final && packet.count < protocol::kMasksPerMaskPacket) continue;
    stats_.masks.add(packet.count);
    mask_out.send_at(arrival, packet);
    packet.count = 0;
  }
}

Gpu2GpcUnit::Gpu2GpcUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                         const CwdParams& params, const arch::Topology& topology, DomainPolicy& policy)
    : Block(name, domain, path),
      session_in("session_in", domain, 0),
      end_out("end_out", domain, 0, kUnlimitedCredits),  // one session at a time
      mimic_out("mimic_out", domain, params.query_distance, kUnlimitedCredits),
      home_out("home_out", domain, params.query_distance, kUnlimitedCredits),
      answer_in("answer_in"),
      step_(domain.cost(params.session_step)),
      compare_step_(params.compare_step),
      core_(ugpus_of(topology), params.gpc_priority.resolve(topology.gpcs(), "cwd.gpc_priority"), policy),
      packets_(topology.gpcs()),
      answers_(topology.gpcs()),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  session_in.on_packet<Gpu2GpcUnit, &Gpu2GpcUnit::on_session>(*this);
  answer_in.init(topology.gpcs(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::AnswerPacket>(socket, domain, 0);
  });
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g)
    answer_in[g].on_packet_ahead<Gpu2GpcUnit, &Gpu2GpcUnit::on_answer>(*this, g);
  if (timeline() != nullptr) track_ = timeline()->detail_track(domain.observation().prefix + " cwd", "gpu2gpc", {});
}

Gpu2GpcUnit::~Gpu2GpcUnit() = default;

void Gpu2GpcUnit::reset() {
  core_.reset();
  session_.reset();
  expected_ = 0;
  answered_ = start_free_ = 0;
}

void Gpu2GpcUnit::on_session(const protocol::SessionPacket& session, std::uint32_t) {
  HEDDLE_CHECK(!session_.has_value(), "a session began while another one ran");
  session_ = session.session;
  way_ = domain_.cost(session.way);
  single_ = session.single;
  homes_sent_ = 0;
  begin_ = now();
  stats_.sessions.add();
  core_.begin(
      {session.units, session.single, session.ugpu_cgas, session.gpc_cgas, session.ctas, session.waiting, session.tie});
  step();
}

// Heard ahead, so that a query costs one event: once the last answer is there and all have been compared.
void Gpu2GpcUnit::on_answer(const protocol::AnswerPacket& answer, std::uint32_t gpc, Cycle arrival) {
  HEDDLE_CHECK(expected_ > 0, "an answer to no query");
  answers_[gpc] = {answer.valid, answer.speed, answer.free};
  core_.answer(gpc, answers_[gpc]);
  answered_ = std::max(answered_, arrival);
  if (--expected_ == 0) domain_.schedule(answered_ + compare_cycles(core_.gpc_levels()), *this, 0);
}

void Gpu2GpcUnit::on_event(std::uint32_t, std::uint64_t) {
  if (timeline() != nullptr) draw_step();
  step();
}

// A step that asks nobody is followed by the next at once; one without commands is the end.
void Gpu2GpcUnit::step() {
  step_begin_ = now();
  Cycle decided = now();
  while (true) {
    const std::vector<Command>& commands = core_.step();
    decided += compare_cycles(core_.ugpu_levels());
    if (!carry_out(commands, decided)) break;
    if (!asked_.empty()) return;  // on_event() comes back
  }
  const std::uint64_t session = *session_;
  session_.reset();
  stats_.query_steps.add(core_.queries());
  stats_.cancelled.add(core_.cancelled());
  stats_.slower_choices.add(core_.slower());
  stats_.session_cycles.add(decided - begin_);
  end_out.send_at(decided, {session, core_.placed(), static_cast<std::uint32_t>(core_.homes().size()), core_.queries(),
                            core_.cut_tie()});
}

// All commands of a step for one GPC travel as one packet.
bool Gpu2GpcUnit::carry_out(const std::vector<Command>& commands, Cycle decided) {
  asked_.clear();
  std::fill(packets_.begin(), packets_.end(), protocol::MimicPacket{});
  for (const Command& command : commands) {
    protocol::MimicPacket& packet = packets_[command.gpc];
    switch (command.act) {
      case Act::reserve:
        packet.reserve = true;
        break;
      case Act::cancel:
        packet.cancel = true;
        break;
      case Act::revert:
        packet.revert = true;
        break;
      case Act::accept:
        packet.accept = true;
        break;
      case Act::query:
        packet.query = true;
        asked_.push_back(command.gpc);
        break;
    }
  }
  expected_ = static_cast<std::uint32_t>(asked_.size());
  for (std::uint32_t g = 0; g < packets_.size(); ++g) {
    const protocol::MimicPacket& p = packets_[g];
    if (p.reserve || p.cancel || p.revert || p.accept || p.query) mimic_out.send_at(decided + way_, p, g);
  }
  start_homes(decided);
  return !commands.empty();
}

void Gpu2GpcUnit::start_homes(Cycle decided) {
  const std::vector<Home>& homes = core_.homes();
  for (; homes_sent_ < homes.size(); ++homes_sent_) {
    const Home& home = homes[homes_sent_];
    start_free_ = std::max(start_free_, decided);
    home_out.send_at(start_free_ + way_, {home.nth, static_cast<std::uint32_t>(homes_sent_), home.unit, home.last},
                     home.gpc);
    if (!single_) start_free_ += step_;
  }
}

void Gpu2GpcUnit::draw_step() {
  std::int64_t valid = 0;
  std::int64_t best = -1;
  for (const std::uint32_t g : asked_) {
    if (!answers_[g].valid) continue;
    ++valid;
    best = std::max(best, static_cast<std::int64_t>(answers_[g].speed));
  }
  timeline()->slice(track_, domain_.time_of(step_begin_), domain_.time_of(now()),
                    fmt::format("{} of {} GPCs have room", valid, asked_.size()),
                    {{"session", static_cast<std::int64_t>(*session_)},
                     {"greatest_speed", best},
                     {"placed", static_cast<std::int64_t>(core_.homes().size())},
                     {"cancelled", core_.cancelled()}});
}

}  // namespace heddle::cwd
