#include "tmau/setup_unit.h"

#include <algorithm>
#include <cstring>

#include "tmau/descriptor_cache.h"

namespace heddle::tmau {
namespace {

using arch::kDescriptorBytes;
using arch::TensorRule;

constexpr std::uint32_t kDescriptorAlignment = kDescriptorBytes / 2;

}  // namespace

SetupUnit::SetupUnit(const TmauContext& unit, BulkGenerator& generator, LineSender& sender, SmPorts& ports)
    : unit_(unit),
      generator_(generator),
      sender_(sender),
      ports_(ports),
      descriptor_hit_(unit.timebase.cost(unit.params.descriptor_hit)),
      setup_(unit.timebase.cost(unit.params.setup)),
      setup_loop_(unit.timebase.cost(unit.params.setup_loop)),
      generate_(unit.timebase.cost(unit.params.generate)),
      soft_rules_{unit.params.shared_alignment, unit.params.empty_box, unit.params.base_outside,
                  unit.params.inner_address},
      cache_(unit.params.descriptors) {}

std::uint64_t SetupUnit::bytes_of(const BulkWork& work) const {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const arch::BulkRequest& request = work.request();
  if (!request.tensor) return request.blocks > kMost / arch::kBulkBlock ? kMost : request.blocks * arch::kBulkBlock;
  if (request.parameters != nullptr) {
    return arch::check(*request.parameters) == TensorRule::none ? request.parameters->box_bytes() : kMost;
  }
  const CheckedDescriptor* known = known_of(work);
  if (known == nullptr || known->rule != TensorRule::none) return kMost;
  return known->descriptor.box_bytes();
}

const CheckedDescriptor* SetupUnit::known_of(const BulkWork& work) const {
  return cache_.peek(work.request().descriptor, work.packet.subcontext, work.packet.descriptors_from);
}

// Blocks have a type if they are reduced, and are bytes otherwise.
std::optional<std::uint32_t> SetupUnit::type_of(const BulkWork& work) const {
  const arch::BulkRequest& request = work.request();
  const auto value = [](arch::ValueType type) { return static_cast<std::uint32_t>(type); };
  if (!request.tensor) {
    const bool reduces = request.kind == arch::BulkKind::reduce || request.reduces;
    return value(reduces ? request.type : arch::ValueType::u8);
  }
  if (request.parameters != nullptr) return value(arch::value_type(request.parameters->type));
  const CheckedDescriptor* known = known_of(work);
  if (known == nullptr || known->rule != TensorRule::none) return std::nullopt;
  return value(arch::value_type(known->descriptor.type));
}

void SetupUnit::start(BulkWork& work) {
  const Cycle now = unit_.now();
  const arch::BulkRequest& request = work.request();
  work.life.chosen = now;
  if (work.packet.broken != TensorRule::none) return drop(work, work.packet.broken, now);
  if (work.packet.by_rank && (work.packet.sms == 0 || work.packet.ctas == 0)) {
    return drop(work, TensorRule::receivers, now);
  }
  if (request.tensor && request.parameters != nullptr) {
    fill_target(work);
    return set_up(work, check_descriptor(*request.parameters), now);
  }
  if (request.tensor) {
    const TensorRule rule = check_descriptor_address(request, unit_.place.memory);
    if (rule != TensorRule::none) return drop(work, rule, now);
    return look_up(work);
  }
  work.stage = BulkWork::Stage::generation;
  if (request.blocks > 0) {
    const TensorRule rule = check_block(request, unit_.place.memory);
    if (rule != TensorRule::none) return drop(work, rule, now);
    fill_target(work);
    work.lines = LineGenerator(request, unit_.params.prefetch);
  }
  generate_from(work, now + generate_);
}

void SetupUnit::look_up(BulkWork& work) {
  if (generator_.works_beside(work)) unit_.stats.descriptor_ahead.add();
  unit_.stats.descriptor_busy.add(descriptor_hit_);
  work.stage = BulkWork::Stage::descriptor;
  const Cycle looked_up = unit_.now() + descriptor_hit_;
  fill_target(work);
  if (const CheckedDescriptor* found =
          cache_.find(work.request().descriptor, work.packet.subcontext, work.packet.descriptors_from)) {
    unit_.stats.descriptor_hits.add();
    set_up(work, *found, looked_up);
  } else {
    unit_.stats.descriptor_misses.add();
    fetch(work, looked_up);
  }
}

// A descriptor that does not begin at a line takes two reads.
void SetupUnit::fetch(BulkWork& work, Cycle when) {
  const std::uint64_t address = work.request().descriptor;
  cache_.begin_fetch(address, work.packet.subcontext, unit_.now());
  look_up_free_ = kNever;
  const std::uint32_t length = address % arch::kLineBytes == 0 ? kDescriptorBytes : kDescriptorAlignment;
  fetch_.emplace();
  fetch_->number = work.number;
  fetch_->open = kDescriptorBytes / length;
  fetch_->begin = when;
  for (std::uint32_t at = 0; at < kDescriptorBytes; at += length) {
    protocol::MemoryRequest& request = sender_.make(work, LineSender::Role::descriptor);
    request.aim(tlm::TLM_READ_COMMAND, address + at, length);
    ports_.push_ready(work.sm, request, when);
  }
}

void SetupUnit::fetched(protocol::MemoryRequest& request, BulkWork& work, Cycle arrival) {
  HEDDLE_CHECK(fetch_ && fetch_->number == work.number && fetch_->open > 0,
               "a descriptor came that nobody has asked for");
  const std::uint64_t descriptor_address = work.request().descriptor;
  if (request.get_response_status() != tlm::TLM_OK_RESPONSE) {
    fetch_->failed = true;
    BulkFailure failure = BulkFailure::of(request, arrival);
    failure.address = descriptor_address;
    work.fail(failure);
  } else if (request.extension.poisoned) {
    fetch_->failed = true;
    work.fail(BulkFailure::poison(descriptor_address, arrival));
  } else {
    std::memcpy(fetch_->bytes.data() + (request.get_address() - descriptor_address), request.get_data_ptr(),
                request.get_data_length());
  }
  work.note(arrival);
  if (--fetch_->open > 0) return;
  const Fetch done = *fetch_;
  fetch_.reset();
  const Cycle when = work.last;
  unit_.stats.descriptor_busy.add(when - done.begin);
  if (done.failed) {
    cache_.drop_fetch();
    work.stage = BulkWork::Stage::generation;
    generate_from(work, when);
    return stay_until(when);
  }
  const CheckedDescriptor descriptor = check_descriptor(done.bytes.data());
  cache_.end_fetch(descriptor);
  set_up(work, descriptor, when);
}

void SetupUnit::set_up(BulkWork& work, const CheckedDescriptor& checked, Cycle when) {
  work.life.described = when;
  // It is in the cache now, and nobody asks what it says.
  if (work.kind() == arch::BulkKind::fetch) {
    stay_until(when);
    work.stage = BulkWork::Stage::generation;
    return generate_from(work, when);
  }
  const Cycle begin = std::max(when, setup_free_);
  const TensorRule rule =
      check_tensor(work.request(), {work.packet.room, work.packet.room_there, unit_.place.memory}, checked);
  const Cycle cycles = rule == TensorRule::none ? setup_of(work, checked.descriptor) : setup_;
  setup_free_ = begin + cycles;
  unit_.stats.setup_busy.add(cycles);
  work.life.set_up_began = begin;
  work.life.set_up = setup_free_;
  stay_until(begin);
  work.stage = BulkWork::Stage::setup;
  if (rule != TensorRule::none) return drop(work, rule, setup_free_);
  const arch::TensorDescriptor& descriptor = checked.descriptor;
  const TensorRule place = check_place(work, descriptor);
  if (place != TensorRule::none) return drop(work, place, setup_free_);
  work.target.tensor = true;
  work.target.swizzle = descriptor.swizzle;
  work.target.type = descriptor.type;
  work.target.fill = descriptor.fill;
  work.target.value = arch::value_type(descriptor.type);
  work.promotion = descriptor.promotion;
  work.lines = LineGenerator(work.request(), descriptor, unit_.params.prefetch);
  work.stage = BulkWork::Stage::generation;
  generate_from(work, setup_free_ + generate_);
}

// The rules that may only report, and whether the box's bytes are there. A send moves the box as it lies in shared
// memory, wherever it came from: it has no place in the tensor (TMA-44).
TensorRule SetupUnit::check_place(BulkWork& work, const arch::TensorDescriptor& descriptor) const {
  const arch::BulkRequest& request = work.request();
  if (work.kind() == arch::BulkKind::send) {
    return check_soft_rules(request, descriptor, false, soft_rules_, work.reported);
  }
  const TensorWalk walk(descriptor, request.coordinates, request.offsets, request.shared, request.four_rows);
  const TensorRule soft = check_soft_rules(request, descriptor, walk.outside_box(), soft_rules_, work.reported);
  if (soft != TensorRule::none) return soft;
  // Only a tensor that reaches beyond memory can have a box that does.
  const bool there = descriptor.end() <= unit_.place.memory || walk.lies_within(unit_.place.memory);
  return there ? TensorRule::none : TensorRule::unmapped;
}

// Every loop of the walk gets its start, end and step; im2col's bounding box has two sides of each of its dimensions. A
// send's bytes follow each other.
Cycle SetupUnit::setup_of(const BulkWork& work, const arch::TensorDescriptor& descriptor) const {
  if (work.kind() == arch::BulkKind::send) return setup_ + setup_loop_;
  const std::uint32_t box = descriptor.mode == arch::TensorMode::im2col ? descriptor.rank - 2 : 0;
  return setup_ + setup_loop_ * (descriptor.rank + box);
}

void SetupUnit::generate_from(BulkWork& work, Cycle when) {
  work.earliest = when;
  generator_.wake(when);
}

// The look-up is occupied until then.
void SetupUnit::stay_until(Cycle when) {
  look_up_free_ = when;
  unit_.events.look_up_free();
}

// It is over in its turn, without line requests.
void SetupUnit::drop(BulkWork& work, TensorRule rule, Cycle when) {
  work.rule = rule;
  work.stage = BulkWork::Stage::generation;
  generate_from(work, when);
}

void SetupUnit::fill_target(BulkWork& work) const {
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
  target.id = work.packet.id;
  target.unit = unit_.place.number;
  target.request = work.number;
  target.data_cta = request.data_cta;
  target.reduces = request.reduces;
  target.reduction = request.reduction;
  target.value = request.type;
}

void SetupUnit::reset() {
  cache_.reset();
  fetch_.reset();
  look_up_free_ = setup_free_ = 0;
}

}  // namespace heddle::tmau
