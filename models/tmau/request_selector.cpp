#include "tmau/request_selector.h"

#include <algorithm>

namespace heddle::tmau {

RequestSelector::RequestSelector(const TmauContext& unit, const std::vector<CreditSink*>& input, SetupUnit& setup,
                                 BulkGenerator& generator)
    : unit_(unit),
      input_(input),
      setup_(setup),
      generator_(generator),
      queues_(unit.place.sms(), RequestQueue(unit.params.order)),
      arbiter_(unit.place.sms()) {}

void RequestSelector::push(BulkWork& work) {
  work.stage = BulkWork::Stage::queue;
  queues_[work.sm].push(work.number, work.request().tensor);
  if (waiting_++ == 0) waiting_since_ = unit_.now();
}

std::size_t RequestSelector::next_of(std::uint32_t sm) const {
  return queues_[sm].next([this](std::uint32_t number) { return setup_.bytes_of(unit_.works[number]); });
}

bool RequestSelector::has_place(std::uint32_t sm) const {
  return !queues_[sm].empty() && generator_.lined_up(sm) < unit_.params.stages;
}

bool RequestSelector::can_choose(std::uint32_t sm) const {
  if (!has_place(sm)) return false;
  const BulkWork& work = unit_.works[queues_[sm].at(next_of(sm))];
  return !work.request().tensor || work.packet.broken != arch::TensorRule::none || setup_.look_up_free() <= unit_.now();
}

void RequestSelector::choose() {
  for (;;) {
    const std::optional<std::uint32_t> picked =
        arbiter_.pick([this](std::uint32_t index) { return can_choose(index); });
    if (!picked) break;
    const std::uint32_t sm = *picked;
    arbiter_.served(sm);
    BulkWork& work = unit_.works[queues_[sm].take(next_of(sm))];
    if (--waiting_ == 0) unit_.stats.queue_busy.add(unit_.now() - waiting_since_);
    generator_.line_up(work);
    input_[sm]->return_credit();
    setup_.start(work);
  }
  arm();
}

void RequestSelector::arm() {
  const Cycle free = setup_.look_up_free();
  if (free == kNever || free >= choose_at_) return;
  bool held = false;
  for (std::uint32_t sm = 0; sm < queues_.size() && !held; ++sm) held = has_place(sm);
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
  if (generator_.lined_up(work.sm) == 0) {
    graph.add(name, "for its turn in", unit_.timebase.observation().prefix + "." + unit_.path);
  } else {
    graph.add(name, "for its turn behind", unit_.name_of(generator_.first(work.sm)));
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
