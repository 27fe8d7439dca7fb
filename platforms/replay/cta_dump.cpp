#include "replay/cta_dump.h"

#include <iterator>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "replay/csv_field.h"

namespace heddle::replay {
const char* CtaDump::header() {
  return "task,x,y,z,cga,rank,gpc,cpc,tpc,sm,launch,first_instruction,end,kernel,gpu,cga_size,subcontext,parent,depth,"
         "stay,saved";
}

CtaRow CtaDump::row_of(const Cta& cta, std::uint32_t stay) {
  CtaRow row;
  row.launch = cta.launch;
  row.sequence = cta.sequence;
  row.order = cta.order;
  row.first_instruction = cta.first_instruction;
  row.cga = cta.cga;
  row.task = cta.task;
  row.x = cta.x;
  row.y = cta.y;
  row.z = cta.z;
  row.rank = cta.rank;
  row.cga_size = cta.cga_size;
  row.sm = cta.sm;
  row.stay = stay;
  return row;
}

void CtaDump::cta_started(const Cta& cta) {
  const bool inserted = running_.emplace(Key{cta.task, cta.index}, row_of(cta, 0)).second;
  HEDDLE_CHECK(inserted, "a CTA was started twice");
}

void CtaDump::cta_ended(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA ended that was not running");
  found->second.end = cta.cycle;
  rows_.add(found->second);
  running_.erase(found);
}

void CtaDump::cta_saved(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA was saved that was not running");
  found->second.end = cta.cycle;
  found->second.saved = true;
}

// Where it never left, it goes on as if it had not been saved.
void CtaDump::cta_restored(const Cta& cta) {
  const auto found = running_.find({cta.task, cta.index});
  HEDDLE_CHECK(found != running_.end(), "a CTA was restored that had not been saved");
  CtaRow& last = found->second;
  if (last.sm == cta.sm && last.launch == cta.launch && last.sequence == cta.sequence) {
    last.saved = false;
    last.end = CtaRow::kNever;
    return;
  }
  rows_.add(last);
  last = row_of(cta, last.stay + 1);
}

void CtaDump::for_each(const std::function<bool(const CtaRow&)>& visit) {
  for (const auto& [key, row] : running_) rows_.add(row);
  running_.clear();
  rows_.for_each(visit);
}

bool CtaDump::write(const Take& take, const std::string& instance, const arch::Topology& topology,
                    const workload::Workload& workload, Names naming) {
  std::vector<std::string> names;
  for (const workload::Op& op : workload.ops) names.push_back(csv_field(op.kernel.name));
  const std::string nobody;
  std::unordered_set<std::uint32_t> named;
  constexpr std::size_t kChunk = std::size_t{1} << 16U;
  fmt::memory_buffer text;
  bool more = true;
  const auto flush = [&take, &text, &more] {
    more = take({text.data(), text.size()});
    text.clear();
    return more;
  };
  for_each([&](const CtaRow& row) {
    const arch::Topology::Sm& sm = topology.sm(row.sm);
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},", row.task, row.x, row.y, row.z,
                   row.cga, row.rank, sm.gpc, sm.cpc, sm.tpc, row.sm, row.launch, row.first_instruction);
    if (row.end != CtaRow::kNever) fmt::format_to(std::back_inserter(text), "{}", row.end);
    // Tasks that programs launch have no entry of the workload.
    const auto found = launched_.find(row.task);
    const Launched* child = found == launched_.end() ? nullptr : &found->second;
    const bool known = row.task < names.size();
    const bool says = naming == Names::every_row || named.insert(row.task).second;
    const std::string name = !says              ? nobody
                             : known            ? names[row.task]
                             : child != nullptr ? csv_field(child->kernel)
                                                : nobody;
    fmt::format_to(std::back_inserter(text), ",{},{},{},", name, instance, row.cga_size);
    if (known) fmt::format_to(std::back_inserter(text), "{}", workload.ops[row.task].kernel.subcontext);
    if (child != nullptr) fmt::format_to(std::back_inserter(text), "{}", child->subcontext);
    text.push_back(',');
    if (child != nullptr && child->parent) fmt::format_to(std::back_inserter(text), "{}", *child->parent);
    fmt::format_to(std::back_inserter(text), ",{},{},{}", child == nullptr ? 0 : child->depth, row.stay,
                   row.saved ? 1 : 0);
    text.push_back('\n');
    return text.size() < kChunk || flush();
  });
  return more && flush();
}

}  // namespace heddle::replay
