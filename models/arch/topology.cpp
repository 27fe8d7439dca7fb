#include "arch/topology.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/params.h"
#include "common/yaml_util.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kSmsPerTpc = 2;
constexpr std::uint32_t kTpcsPerCpc = 3;

using Cpc = std::vector<std::uint32_t>;

Cpc tpcs_for(std::uint32_t sms) {
  Cpc tpcs(sms / kSmsPerTpc, kSmsPerTpc);
  if (sms % kSmsPerTpc != 0) tpcs.push_back(sms % kSmsPerTpc);
  return tpcs;
}

std::vector<Cpc> cpcs_for(std::uint32_t sms) {
  const Cpc tpcs = tpcs_for(sms);
  const std::size_t count = (tpcs.size() + kTpcsPerCpc - 1) / kTpcsPerCpc;
  std::vector<Cpc> cpcs(count);
  std::size_t next = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t share = (tpcs.size() - next + (count - c) - 1) / (count - c);
    for (std::size_t i = 0; i < share; ++i) cpcs[c].push_back(tpcs[next++]);
  }
  return cpcs;
}

std::uint32_t sum(const Cpc& cpc) { return std::accumulate(cpc.begin(), cpc.end(), 0U); }

std::uint32_t sum(const std::vector<Cpc>& gpc) {
  return std::accumulate(gpc.begin(), gpc.end(), 0U, [](std::uint32_t n, const Cpc& cpc) { return n + sum(cpc); });
}

std::uint32_t sm_count(const YAML::Node& node, const SourcePos& where) {
  const char* remedy = "a shape is a list of SMs per GPC, as in [18, 18, 16, 16]; see docs/configuration.md";
  std::uint32_t value = 0;
  try {
    value = node.as<std::uint32_t>();
  } catch (const YAML::Exception&) {
    throw InputError(where, "shape: expected a number of SMs or a list", remedy);
  }
  if (value == 0 || value > kMaxSmsPerGpc) {
    throw InputError(
        where, fmt::format("shape: {} SMs in one unit; between 1 and {} are possible", value, kMaxSmsPerGpc), remedy);
  }
  return value;
}

// The uGPU of every GPC.
std::vector<std::uint32_t> ugpus_of(const std::vector<std::uint32_t>& gpcs_per_ugpu, std::size_t gpcs) {
  if (gpcs_per_ugpu.empty()) return std::vector<std::uint32_t>(gpcs, 0);
  const char* remedy = "list the GPCs of each uGPU, as in [4, 4] for 8 GPCs; an empty list is one uGPU";
  std::vector<std::uint32_t> ugpu_of;
  std::uint64_t total = 0;
  for (std::uint32_t u = 0; u < gpcs_per_ugpu.size(); ++u) {
    if (gpcs_per_ugpu[u] == 0) throw InputError(fmt::format("uGPUs: uGPU {} has no GPC", u), remedy);
    total += gpcs_per_ugpu[u];
    if (total <= gpcs) ugpu_of.insert(ugpu_of.end(), gpcs_per_ugpu[u], u);
  }
  if (total != gpcs) {
    throw InputError(fmt::format("uGPUs: {} GPCs in all uGPUs together, but the shape has {}", total, gpcs), remedy);
  }
  return ugpu_of;
}

}  // namespace

Shape Shape::from_sms_per_gpc(const std::vector<std::uint32_t>& sms) {
  Shape shape;
  for (const std::uint32_t count : sms) shape.gpcs.push_back(cpcs_for(count));
  return shape;
}

Shape Shape::balanced(std::uint32_t sms, std::uint32_t max_sms_per_gpc) {
  const std::uint32_t gpcs = (sms + max_sms_per_gpc - 1) / max_sms_per_gpc;
  std::vector<std::uint32_t> counts;
  for (std::uint32_t g = 0; g < gpcs; ++g) counts.push_back(sms / gpcs + (g < sms % gpcs ? 1 : 0));
  return from_sms_per_gpc(counts);
}

Shape Shape::from_yaml(const YAML::Node& node, const SourcePos& where) {
  if (!node.IsSequence() || node.size() == 0) {
    throw InputError(where, "shape: expected a list with one entry per GPC",
                     "for example [18, 18, 16, 16]: four GPCs with that many SMs");
  }
  Shape shape;
  for (const YAML::Node& gpc : node) {
    if (!gpc.IsSequence()) {
      shape.gpcs.push_back(cpcs_for(sm_count(gpc, where)));
      continue;
    }
    std::vector<Cpc> cpcs;
    for (const YAML::Node& cpc : gpc) {
      if (!cpc.IsSequence()) {
        cpcs.push_back(tpcs_for(sm_count(cpc, where)));
        continue;
      }
      Cpc tpcs;
      for (const YAML::Node& tpc : cpc) tpcs.push_back(sm_count(tpc, where));
      if (tpcs.empty()) throw InputError(where, "shape: a CPC without TPCs", "leave the CPC out");
      cpcs.push_back(tpcs);
    }
    if (cpcs.empty() || sum(cpcs) > kMaxSmsPerGpc) {
      throw InputError(where,
                       fmt::format("shape: a GPC of {} SMs; between 1 and {} are possible", sum(cpcs), kMaxSmsPerGpc));
    }
    shape.gpcs.push_back(cpcs);
  }
  if (shape.sms() > kMaxSms) {
    throw InputError(where, fmt::format("shape: {} SMs; at most {} are possible", shape.sms(), kMaxSms));
  }
  return shape;
}

std::uint32_t Shape::sms() const {
  return std::accumulate(gpcs.begin(), gpcs.end(), 0U,
                         [](std::uint32_t n, const std::vector<Cpc>& gpc) { return n + sum(gpc); });
}

std::string Shape::text() const {
  std::vector<std::string> parts;
  for (const std::vector<Cpc>& gpc : gpcs) {
    if (gpc == cpcs_for(sum(gpc))) {
      parts.push_back(std::to_string(sum(gpc)));
      continue;
    }
    std::vector<std::string> cpcs;
    for (const Cpc& cpc : gpc) {
      cpcs.push_back(cpc == tpcs_for(sum(cpc)) ? std::to_string(sum(cpc)) : fmt::format("[{}]", fmt::join(cpc, ", ")));
    }
    parts.push_back(fmt::format("[{}]", fmt::join(cpcs, ", ")));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Topology::Topology(const Shape& shape, const std::vector<std::uint32_t>& gpcs_per_ugpu)
    : ugpu_of_(ugpus_of(gpcs_per_ugpu, shape.gpcs.size())) {
  if (!gpcs_per_ugpu.empty()) ugpus_ = static_cast<std::uint32_t>(gpcs_per_ugpu.size());
  std::vector<std::vector<Sm>> members;  // by GPC, in mask order
  for (std::uint32_t g = 0; g < shape.gpcs.size(); ++g) {
    Gpc gpc;
    gpc.cpcs = static_cast<std::uint32_t>(shape.gpcs[g].size());
    members.emplace_back();
    for (std::uint32_t c = 0; c < gpc.cpcs; ++c) {
      for (const std::uint32_t sms : shape.gpcs[g][c]) {
        const auto tpc = static_cast<std::uint32_t>(gpc.tpcs.size());
        gpc.tpcs.push_back({c, gpc.sms, sms});
        for (std::uint32_t i = 0; i < sms; ++i) members.back().push_back({g, c, tpc, i, gpc.sms + i});
        gpc.sms += sms;
      }
    }
    gpc.sm_ids.resize(gpc.sms);
    gpcs_.push_back(std::move(gpc));
  }
  // Ids: the first TPC of every GPC, then the second of every GPC that has one, and so on.
  std::size_t most_tpcs = 0;
  for (const Gpc& gpc : gpcs_) most_tpcs = std::max(most_tpcs, gpc.tpcs.size());
  for (std::size_t t = 0; t < most_tpcs; ++t) {
    for (std::uint32_t g = 0; g < gpcs_.size(); ++g) {
      if (t >= gpcs_[g].tpcs.size()) continue;
      const Tpc& tpc = gpcs_[g].tpcs[t];
      for (std::uint32_t i = 0; i < tpc.sms; ++i) {
        gpcs_[g].sm_ids[tpc.first_sm + i] = static_cast<std::uint32_t>(sms_.size());
        sms_.push_back(members[g][tpc.first_sm + i]);
      }
    }
  }
  std::vector<std::uint32_t> order(gpcs_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return gpcs_[a].tpcs.size() > gpcs_[b].tpcs.size(); });
  virtual_gpcs_.resize(gpcs_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) virtual_gpcs_[order[i]] = i;
}

std::string Topology::sm_path(std::uint32_t id) const {
  const Sm& sm = sms_[id];
  return fmt::format("gpc{}.cpc{}.tpc{}.sm{}", sm.gpc, sm.cpc, sm.tpc, sm.in_tpc);
}

std::uint32_t Topology::sms_per_tpc() const {
  std::uint32_t most = 0;
  for (const Gpc& gpc : gpcs_) {
    for (const Tpc& tpc : gpc.tpcs) most = std::max(most, tpc.sms);
  }
  return most;
}

std::uint32_t Topology::tpcs() const {
  std::size_t count = 0;
  for (const Gpc& gpc : gpcs_) count += gpc.tpcs.size();
  return static_cast<std::uint32_t>(count);
}

std::vector<std::uint32_t> Topology::sms_per_gpc() const {
  std::vector<std::uint32_t> counts;
  for (const Gpc& gpc : gpcs_) counts.push_back(gpc.sms);
  return counts;
}

}  // namespace heddle::arch

namespace heddle {

arch::Shape ParamTraits<arch::Shape>::parse(const YAML::Node& node, const SourcePos& where) {
  return arch::Shape::from_yaml(node, where);
}
YAML::Node ParamTraits<arch::Shape>::format(const arch::Shape& shape) { return YAML::Load(shape.text()); }

}  // namespace heddle
