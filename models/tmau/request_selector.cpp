#include "tmau/request_selector.h"

#include <algorithm>

namespace heddle::tmau {

RequestSelector::RequestSelector(const TmauContext& unit, const std::vector<CreditSink*>& input, SetupUnit& setup,
                                 BulkGenerator& generator)
    : unit_(unit),
      input_(input),
      setup_(setup),
      generator_(generator),
      queues_(unit.lanes(), RequestQueue(unit.params.order)),
      arbiter_(unit.lanes()) {}

void RequestSelector::push(BulkWork& work) {
  work.stage = BulkWork::Stage::queue;
  queues_[unit_.lane_of(work)].push(work.number, work.request().tensor);
  if (waiting_++ == 0) waiting_since_ = unit_.now();
}

std::size_t RequestSelector::next_of(std::uint32_t lane) const {
  return queues_[lane].next([this](std::uint32_t number) { return setup_.bytes_of(unit_.works[number]); },
                            [this](std::uint32_t number) { return class_of(unit_.works[number]); });
}

// What the order holds together; none: not known.
std::optional<std::uint32_t> RequestSelector::class_of(const BulkWork& work) const {
  switch (unit_.params.order) {
    case QueueOrder::same_type_first:
      return setup_.type_of(work);
    case QueueOrder::same_space_first:
      return work.kind() == arch::BulkKind::reduce ? static_cast<std::uint32_t>(arch::BulkKind::store)
                                                   : static_cast<std::uint32_t>(work.kind());
    default:
      return std::nullopt;
  }
}

bool RequestSelector::has_place(std::uint32_t lane) const {
  return !queues_[lane].empty() && generator_.lined_up(lane) < unit_.params.stages;
}

bool RequestSelector::can_choose(std::uint32_t lane) const {
  if (!has_place(lane)) return false;
  const BulkWork& work = unit_.works[queues_[lane].at(next_of(lane))];
  return !work.request().tensor || work.packet.broken != arch::TensorRule::none || setup_.look_up_free() <= unit_.now();
}

void RequestSelector::choose() {
  for (;;) {
    const std::optional<std::uint32_t> picked =
        arbiter_.pick([this](std::uint32_t index) { return can_choose(index); });
    if (!picked) break;
    const std::uint32_t lane = *picked;
    arbiter_.served(lane);
    const std::size_t place = next_of(lane);
    BulkWork& work = unit_.works[queues_[lane].at(place)];
    (void)queues_[lane].take(place, class_of(work));
    if (--waiting_ == 0) unit_.stats.queue_busy.add(unit_.now() - waiting_since_);
    generator_.line_up(work);
    input_[unit_.sm_of(lane)]->return_credit();
    setup_.start(work);
  }
  arm();
}

void RequestSelector::arm() {
  const Cycle free = setup_.look_up_free();
  if (free == kNever || free >= choose_at_) return;
  bool held = false;
  for (std::uint32_t lane = 0; lane < queues_.size() && !held; ++lane) held = has_place(lane);
  if (!held) return;
  choose_at_ = std::max(free, unit_.now());
  unit_.timebase.schedule(choose_at_, *this, 0);
}

void RequestSelector::on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) {
  if (choose_at_ != unit_.now()) return;  // it was entered again for an earlier cycle
  choose_at_ = kNever;
  choose();
}

void RequestSelector::add_waits(const BulkWork& work, WaitGraph& graph) const {
  const std::string name = unit_.name_of(work);
  const std::uint32_t lane = unit_.lane_of(work);
  if (generator_.lined_up(lane) == 0) {
    graph.add(name, "for its turn in", unit_.timebase.observation().prefix + "." + unit_.path);
  } else {
    graph.add(name, "for its turn behind", unit_.name_of(generator_.first(lane)));
  }
}

void RequestSelector::reset() {
  for (RequestQueue& queue : queues_) queue.clear();
  arbiter_.reset();
  choose_at_ = kNever;
  waiting_ = 0;
  waiting_since_ = 0;
}

}  // namespace heddle::tmau
