#include "replay/cta_dump.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <tuple>

#include <fmt/format.h>

#include "common/error.h"
#include "replay/csv_field.h"

namespace heddle::replay {
namespace {

static_assert(arch::kMaxSms <= 1U << 16U, "an SM id takes 16 bits here");

}  // namespace

const char* CtaDump::header() {
  return "task,x,y,z,cga,rank,gpc,cpc,tpc,sm,launch,first_instruction,end,kernel,gpu,cga_size,subcontext,parent,depth,"
         "stay,saved";
}

CtaDump::Row CtaDump::row_of(const Cta& cta, std::uint16_t stay) {
  return {cta.launch,
          cta.sequence,
          cta.order,
          cta.first_instruction,
          kNever,
          cta.cga,
          cta.task,
          cta.x,
          cta.rank,
          cta.cga_size,
          static_cast<std::uint16_t>(cta.y),
          static_cast<std::uint16_t>(cta.z),
          static_cast<std::uint16_t>(cta.sm),
          static_cast<std::uint16_t>(stay & 0x7FFF),
          0};
}

void CtaDump::cta_started(const Cta& cta) {
  const bool inserted = running_.emplace(Key{cta.task, cta.index}, rows_.size()).second;
  HEDDLE_CHECK(inserted, "a CTA was started twice");
  rows_.push_back(row_of(cta, 0));
}

void CtaDump::cta_ended(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA ended that was not running");
  rows_[found->second].end = cta.cycle;
  running_.erase(found);
}

void CtaDump::cta_saved(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA was saved that was not running");
  rows_[found->second].end = cta.cycle;
  rows_[found->second].saved = 1;
}

// Where it never left, it goes on as if it had not been saved.
void CtaDump::cta_restored(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA was restored that had not been saved");
  Row& last = rows_[found->second];
  if (last.sm == cta.sm && last.launch == cta.launch && last.sequence == cta.sequence) {
    last.saved = 0;
    return;
  }
  const auto stay = static_cast<std::uint16_t>(std::min<unsigned>(last.stay + 1U, kMostStays));
  found->second = rows_.size();
  rows_.push_back(row_of(cta, stay));
}

void CtaDump::write(std::ostream& out, const std::string& instance, const arch::Topology& topology,
                    const workload::Workload& workload) {
  const auto key = [](const Row& row) { return std::tie(row.launch, row.sequence, row.order, row.task); };
  std::sort(rows_.begin(), rows_.end(), [&key](const Row& a, const Row& b) { return key(a) < key(b); });
  running_.clear();  // it names rows by their old place
  std::vector<std::string> names;
  for (const workload::Op& op : workload.ops) names.push_back(csv_field(op.kernel.name));
  for (auto& [task, child] : launched_) child.kernel = csv_field(child.kernel);
  const std::string nobody;
  constexpr std::size_t kChunk = std::size_t{1} << 16U;
  fmt::memory_buffer text;
  const auto flush = [&out, &text] {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
  };
  for (const Row& row : rows_) {
    const arch::Topology::Sm& sm = topology.sm(row.sm);
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},", row.task, row.x, row.y, row.z,
                   row.cga, row.rank, sm.gpc, sm.cpc, sm.tpc, row.sm, row.launch, row.first_instruction);
    if (row.end != kNever) fmt::format_to(std::back_inserter(text), "{}", row.end);
    // Tasks that programs launch have no entry of the workload.
    const auto found = launched_.find(row.task);
    const Launched* child = found == launched_.end() ? nullptr : &found->second;
    const bool known = row.task < names.size();
    const std::string& name = known ? names[row.task] : child != nullptr ? child->kernel : nobody;
    fmt::format_to(std::back_inserter(text), ",{},{},{},", name, instance, row.cga_size);
    if (known) fmt::format_to(std::back_inserter(text), "{}", workload.ops[row.task].kernel.subcontext);
    if (child != nullptr) fmt::format_to(std::back_inserter(text), "{}", child->subcontext);
    text.push_back(',');
    if (child != nullptr && child->parent) fmt::format_to(std::back_inserter(text), "{}", *child->parent);
    fmt::format_to(std::back_inserter(text), ",{},{},{}", child == nullptr ? 0 : child->depth, std::uint32_t{row.stay},
                   std::uint32_t{row.saved});
    text.push_back('\n');
    if (text.size() >= kChunk) flush();
  }
  flush();
}

}  // namespace heddle::replay
