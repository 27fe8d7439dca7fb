// From the queue to a request that can be generated: descriptor cache and set-up (TMA-03, TMA-04, TMA-06).
#include <algorithm>
#include <cstring>

#include "tmau/setup.h"
#include "tmau/tmau.h"

namespace heddle::tmau {
namespace {

using arch::kDescriptorBytes;
using arch::TensorRule;

// Requests of an SM in the stages behind the queue, the one that is generated included. With fewer than the stages
// hold, small requests would not follow each other without gaps.
constexpr std::size_t kStages = 5;
constexpr std::uint32_t kDescriptorAlignment = kDescriptorBytes / 2;

}  // namespace

std::size_t Tmau::next_of(const Lane& lane) const {
  return lane.queue.next([this](std::uint32_t number) {
    const arch::BulkRequest& request = works_[number].request();
    if (!request.tensor)
      return request.blocks > ~std::uint64_t{0} / arch::kBulkBlock ? ~std::uint64_t{0}
                                                                   : request.blocks * arch::kBulkBlock;
    const CheckedDescriptor* known = cache_.peek(request.descriptor, works_[number].packet.subcontext);
    if (known == nullptr || known->rule != TensorRule::none) return ~std::uint64_t{0};
    return known->descriptor.box_bytes();
  });
}

bool Tmau::can_choose(std::uint32_t sm) {
  const Lane& lane = lanes_[sm];
  if (lane.queue.empty() || lane.chosen.size() >= kStages) return false;
  const BulkWork& work = works_[lane.queue.at(next_of(lane))];
  return !work.request().tensor || work.packet.broken != TensorRule::none || lookup_free_ <= now();
}

void Tmau::choose() {
  for (;;) {
    const std::uint32_t sm = arbiter_.pick([this](std::uint32_t index) { return can_choose(index); });
    if (sm == Arbiter::kNobody) break;
    arbiter_.served(sm);
    Lane& lane = lanes_[sm];
    const std::uint32_t number = lane.queue.take(next_of(lane));
    if (--waiting_ == 0) stats_.queue_busy.add(now() - waiting_since_);
    lane.chosen.push(number);
    request_in[sm].return_credit();
    start(number);
  }
  arm_choose();
}

// When the look-up is free again, if something waits for it.
void Tmau::arm_choose() {
  const bool held = std::any_of(lanes_.begin(), lanes_.end(),
                                [](const Lane& lane) { return !lane.queue.empty() && lane.chosen.size() < kStages; });
  if (!held || lookup_free_ == kNotYet || lookup_free_ >= choose_at_) return;
  choose_at_ = std::max(lookup_free_, now());
  domain_.schedule(choose_at_, *this, kChoose);
}

void Tmau::start(std::uint32_t number) {
  BulkWork& work = works_[number];
  const arch::BulkRequest& request = work.request();
  if (work.packet.broken != TensorRule::none) return drop(work, work.packet.broken, now());
  if (work.packet.by_rank && (work.packet.sms == 0 || work.packet.ctas == 0)) {
    return drop(work, TensorRule::receivers, now());
  }
  if (request.tensor) {
    const TensorRule rule = check_descriptor_address(request, place_.memory);
    if (rule != TensorRule::none) return drop(work, rule, now());
    return look_up(number);
  }
  work.stage = BulkWork::Stage::generation;
  if (request.blocks > 0) {
    const TensorRule rule = check_block(request, place_.memory);
    if (rule != TensorRule::none) return drop(work, rule, now());
    fill_target(work, number);
    work.lines = LineGenerator(request, params_.prefetch);
  }
  work.earliest = now() + generate_;
  wake(work.earliest);
}

void Tmau::look_up(std::uint32_t number) {
  BulkWork& work = works_[number];
  const bool ahead = std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return !lane.chosen.empty() && lane.chosen.front() != number;
  });
  if (ahead) stats_.descriptor_ahead.add();
  stats_.descriptor_busy.add(descriptor_hit_);
  work.stage = BulkWork::Stage::descriptor;
  const Cycle looked_up = now() + descriptor_hit_;
  fill_target(work, number);
  if (const CheckedDescriptor* found = cache_.find(work.request().descriptor, work.packet.subcontext)) {
    stats_.descriptor_hits.add();
    set_up(work, *found, looked_up);
  } else {
    stats_.descriptor_misses.add();
    fetch(number, looked_up);
  }
}

// A descriptor that does not begin at a line takes two reads.
void Tmau::fetch(std::uint32_t number, Cycle when) {
  const BulkWork& work = works_[number];
  const std::uint64_t address = work.request().descriptor;
  cache_.begin_fetch(address, work.packet.subcontext);
  fetching_ = number;
  fetch_failed_ = false;
  fetch_begin_ = when;
  lookup_free_ = kNotYet;
  const std::uint32_t length = address % arch::kLineBytes == 0 ? kDescriptorBytes : kDescriptorAlignment;
  fetch_open_ = kDescriptorBytes / length;
  for (std::uint32_t at = 0; at < kDescriptorBytes; at += length) {
    protocol::MemoryRequest& request = new_request(work, number, Role::descriptor);
    request.aim(tlm::TLM_READ_COMMAND, address + at, length);
    push_ready(work.sm, request, when);
  }
}

void Tmau::fetched(protocol::MemoryRequest& request, std::uint32_t number, Cycle arrival) {
  HEDDLE_CHECK(fetching_ == number && fetch_open_ > 0, "a descriptor came that nobody has asked for");
  BulkWork& work = works_[number];
  const std::uint64_t at = request.get_address() - work.request().descriptor;
  if (request.get_response_status() != tlm::TLM_OK_RESPONSE || request.extension.poisoned) {
    fetch_failed_ = true;
    if (request.get_response_status() == tlm::TLM_OK_RESPONSE) {
      work.fail(work.request().descriptor, arrival, true);
    } else {
      work.fail(request, arrival);
      work.failed_address = work.request().descriptor;
    }
  } else {
    std::memcpy(fetch_bytes_.data() + at, request.get_data_ptr(), request.get_data_length());
  }
  work.note(arrival);
  if (--fetch_open_ > 0) return;
  fetching_ = kNone;
  const Cycle when = work.last;
  stats_.descriptor_busy.add(when - fetch_begin_);
  if (fetch_failed_) {
    cache_.drop_fetch();
    work.stage = BulkWork::Stage::generation;
    work.earliest = when;
    wake(when);
    return stay_until(when);
  }
  const CheckedDescriptor descriptor = check_descriptor(fetch_bytes_.data(), place_.memory);
  cache_.end_fetch(descriptor);
  set_up(work, descriptor, when);
}

void Tmau::set_up(BulkWork& work, const CheckedDescriptor& checked, Cycle when) {
  const Cycle begin = std::max(when, setup_free_);
  setup_free_ = begin + setup_;
  stats_.setup_busy.add(setup_);
  stay_until(begin);
  work.stage = BulkWork::Stage::setup;
  const TensorRule rule = check_tensor(work.request(), work.packet.room, checked);
  if (rule != TensorRule::none) return drop(work, rule, setup_free_);
  const arch::TensorDescriptor& descriptor = checked.descriptor;
  work.target.tensor = true;
  work.target.swizzle = descriptor.swizzle;
  work.target.type = descriptor.type;
  work.target.fill = descriptor.fill;
  work.target.value = arch::value_type(descriptor.type);
  work.lines = LineGenerator(work.request(), descriptor, params_.prefetch);
  work.flagged = work.lines.outside_box();
  work.stage = BulkWork::Stage::generation;
  work.earliest = setup_free_ + generate_;
  wake(work.earliest);
}

// The look-up is occupied until then.
void Tmau::stay_until(Cycle when) {
  lookup_free_ = when;
  arm_choose();
}

// It is over in its turn, without line requests.
void Tmau::drop(BulkWork& work, TensorRule rule, Cycle when) {
  work.rule = rule;
  work.stage = BulkWork::Stage::generation;
  work.earliest = when;
  wake(when);
}

void Tmau::fill_target(BulkWork& work, std::uint32_t number) {
  const arch::BulkRequest& request = work.request();
  protocol::BulkTarget& target = work.target;
  target.by_rank = work.packet.by_rank;
  target.phase = work.phase;
  target.ctas = work.packet.ctas;
  target.barrier = request.barrier;
  target.cta_slot = work.packet.cta_slot;
  target.cga_id = work.packet.cga_id;
  target.rank = work.packet.rank;
  target.sequence = work.packet.sequence;
  target.cta = work.packet.cta;
  target.warp = work.packet.warp;
  target.unit = place_.number;
  target.request = number;
  target.data_cta = request.data_cta;
  target.reduces = request.reduces;
  target.reduction = request.reduction;
  target.value = request.type;
}

}  // namespace heddle::tmau
