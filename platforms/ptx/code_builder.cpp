#include "ptx/code_builder.h"

#include <algorithm>

#include "common/error.h"
#include "ptx/code_finisher.h"

namespace heddle::ptx {

void CodeBuilder::fail(const TextPlace& place, const std::string& message, const std::string& remedy) const {
  throw InputError(SourcePos{code_.module, static_cast<int>(place.line), static_cast<int>(place.column)}, message,
                   remedy);
}

PlaneRef CodeBuilder::make_register(std::uint32_t planes) {
  const auto first = static_cast<std::uint32_t>(owner_.size());
  registers_.push_back({first, planes, false});
  owner_.insert(owner_.end(), planes, static_cast<std::uint32_t>(registers_.size() - 1));
  return static_cast<PlaneRef>(first);
}

// It is known by its register.
PredicateRef CodeBuilder::make_predicate() {
  make_register(1);
  registers_.back().predicate = true;
  return {static_cast<std::uint32_t>(registers_.size() - 1), false};
}

PlaneRef CodeBuilder::constant(std::uint64_t value, std::uint32_t planes) {
  const auto [found, made] = constants_.try_emplace({value, planes}, 0);
  if (!made) return found->second;
  const auto index = static_cast<std::uint32_t>(code_.constants.size() / arch::kWarpLanes);
  for (std::uint32_t i = 0; i < planes; ++i) {
    const std::uint32_t word = i < 2 ? static_cast<std::uint32_t>(value >> (32 * i)) : 0;
    code_.constants.insert(code_.constants.end(), arch::kWarpLanes, word);
  }
  found->second = constant_plane(index);
  return found->second;
}

PlaneRef CodeBuilder::dynamic_constant(std::uint64_t offset, std::uint32_t planes) {
  const auto index = static_cast<std::uint32_t>(code_.constants.size() / arch::kWarpLanes);
  code_.constants.insert(code_.constants.end(), std::size_t{planes} * arch::kWarpLanes, 0);
  dynamic_.emplace_back(index, offset);
  return constant_plane(index);
}

void CodeBuilder::at(const Instruction& instruction, std::string text) {
  current_.place = instruction.place;
  current_text_ = std::move(text);
}

ResolvedInstruction& CodeBuilder::add(Action action) {
  ResolvedInstruction& made = drafts_.emplace_back();
  texts_.push_back(current_text_);
  made.action = action;
  made.guard = guard_;
  made.place = current_.place;
  return made;
}

ResolvedInstruction& CodeBuilder::add_free(Action action) {
  ResolvedInstruction& made = add(action);
  made.free = true;
  return made;
}

std::uint32_t CodeBuilder::add(const AccessForm& form) {
  code_.accesses.push_back(form);
  return static_cast<std::uint32_t>(code_.accesses.size() - 1);
}

std::uint32_t CodeBuilder::add(BulkForm form) {
  code_.bulk.push_back(std::move(form));
  return static_cast<std::uint32_t>(code_.bulk.size() - 1);
}

std::uint32_t CodeBuilder::add(MatrixWork work) {
  code_.matrices.push_back(std::move(work));
  return static_cast<std::uint32_t>(code_.matrices.size() - 1);
}

bool CodeBuilder::add(WarpgroupWork work, std::uint32_t& index) {
  std::vector<std::uint32_t> bundle;
  for (const PlaneRef ref : work.accumulators) bundle.push_back(owner_[static_cast<std::size_t>(ref)]);
  const bool known = std::find(bundles_.begin(), bundles_.end(), bundle) != bundles_.end();
  for (const std::vector<std::uint32_t>& other : bundles_) {
    const auto shared = [&](std::uint32_t reg) { return std::find(other.begin(), other.end(), reg) != other.end(); };
    if (!known && std::any_of(bundle.begin(), bundle.end(), shared)) return false;
  }
  if (!known) bundles_.push_back(std::move(bundle));
  code_.warpgroups.push_back(std::move(work));
  index = static_cast<std::uint32_t>(code_.warpgroups.size() - 1);
  return true;
}

std::uint32_t CodeBuilder::add_table(std::vector<LabelId> labels) {
  code_.tables.push_back(std::move(labels));
  return static_cast<std::uint32_t>(code_.tables.size() - 1);
}

LabelId CodeBuilder::make_label() {
  labels_.push_back(~std::uint32_t{0});
  return static_cast<LabelId>(labels_.size() - 1);
}

void CodeBuilder::place_label(LabelId label) { labels_[label] = static_cast<std::uint32_t>(drafts_.size()); }

void CodeBuilder::branch(LabelId label) { add(Action::branch).target = label; }

void CodeBuilder::resolve_labels() {
  for (ResolvedInstruction& draft : drafts_) {
    if (draft.action == Action::branch) draft.target = labels_[draft.target];
  }
  for (std::vector<std::uint32_t>& table : code_.tables) {
    for (std::uint32_t& target : table) target = labels_[target];
  }
}

PlaneRef CodeBuilder::hidden_constant(std::uint32_t offset) {
  constexpr std::uint32_t kWord = 4;
  const PlaneRef made = dynamic_constant(offset, 1);
  hidden_.push_back(dynamic_.back());
  dynamic_.pop_back();
  hidden_bytes_ = std::max(hidden_bytes_, offset + kWord);
  return made;
}

PtxCode CodeBuilder::finish(std::uint32_t hidden, std::uint32_t dynamic) {
  const auto fill = [this](const auto& constants, std::uint32_t base) {
    for (const auto& [index, offset] : constants) {
      const auto value = static_cast<std::uint32_t>(base + offset);
      std::fill_n(code_.constants.begin() + std::size_t{index} * arch::kWarpLanes, arch::kWarpLanes, value);
    }
  };
  fill(hidden_, hidden);
  fill(dynamic_, dynamic);
  resolve_labels();
  return CodeFinisher(std::move(code_), {std::move(drafts_), std::move(texts_), std::move(registers_),
                                         std::move(owner_), std::move(bundles_)})
      .run();
}

}  // namespace heddle::ptx
