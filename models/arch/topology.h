// The tree GPU -> GPC -> CPC -> TPC -> SM, possibly uneven, and the numbering of its SMs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/param_fwd.h"

namespace YAML {
class Node;
}

namespace heddle {
struct SourcePos;
}

namespace heddle::arch {

constexpr std::uint32_t kMaxSmsPerGpc = 64;  // an SM mask is one 64-bit word
constexpr std::uint32_t kMaxSms = 16384;

// SMs per TPC, grouped: gpcs[g][c][t] is the number of SMs of TPC t in CPC c of GPC g.
struct Shape {
  std::vector<std::vector<std::vector<std::uint32_t>>> gpcs;

  // Text forms, as in `--set gpu.shape=...`: one number per GPC (its SMs: "[18, 18, 16]"), or one list per GPC with the
  // SMs of its CPCs ("[[6, 6, 4], [6, 6]]"), or lists of lists with the SMs of every TPC. Numbers are split evenly:
  // 2 SMs per TPC (an odd one is alone), 3 TPCs per CPC.
  static Shape from_yaml(const YAML::Node& node, const SourcePos& where);
  static Shape from_sms_per_gpc(const std::vector<std::uint32_t>& sms);
  // As even as possible, at most `max_sms_per_gpc` SMs in a GPC.
  static Shape balanced(std::uint32_t sms, std::uint32_t max_sms_per_gpc);
  // The shortest of the text forms that says the same.
  std::string text() const;
  std::uint32_t sms() const;
};

// The shape with numbers: every SM by its id and by its place.
class Topology {
 public:
  struct Sm {
    std::uint32_t gpc = 0;     // in the machine
    std::uint32_t cpc = 0;     // in its GPC
    std::uint32_t tpc = 0;     // in its GPC
    std::uint32_t in_tpc = 0;  // in its TPC
    std::uint32_t in_gpc = 0;  // bit of the GPC's SM masks
  };
  struct Tpc {
    std::uint32_t cpc = 0;
    std::uint32_t first_sm = 0;  // in its GPC: its SMs are consecutive bits of the GPC's masks
    std::uint32_t sms = 0;
  };
  struct Gpc {
    std::uint32_t sms = 0;
    std::uint32_t cpcs = 0;
    std::vector<Tpc> tpcs;
    std::vector<std::uint32_t> sm_ids;  // by bit of the mask
  };

  // `gpcs_per_ugpu`: the GPCs of each uGPU, which are consecutive. Empty: one uGPU, the whole GPU. Throws InputError if
  // it does not add up to the shape's GPCs, or a uGPU has none.
  explicit Topology(const Shape& shape, const std::vector<std::uint32_t>& gpcs_per_ugpu = {});

  std::uint32_t sms() const { return static_cast<std::uint32_t>(sms_.size()); }
  std::uint32_t gpcs() const { return static_cast<std::uint32_t>(gpcs_.size()); }
  const Gpc& gpc(std::uint32_t index) const { return gpcs_[index]; }
  std::uint32_t ugpus() const { return ugpus_; }
  std::uint32_t ugpu_of(std::uint32_t gpc) const { return ugpu_of_[gpc]; }
  // The L2 partition that the GPC is at: its uGPU owns the one with its number (CWD-46). The GPCs of a machine without
  // uGPUs are dealt to the partitions evenly, consecutive ones to one.
  std::uint32_t partition_of(std::uint32_t gpc, std::uint32_t partitions) const {
    if (ugpus_ > 1) return ugpu_of_[gpc];
    return static_cast<std::uint32_t>(std::uint64_t{gpc} * partitions / gpcs());
  }
  // By SM id. Consecutive TPCs, in id order, lie in consecutive GPCs; the surplus TPCs of larger GPCs come last, as
  // observed on H100 (chrirocca/GPUNetBench).
  const Sm& sm(std::uint32_t id) const { return sms_[id]; }
  // "gpc2.cpc0.tpc1.sm0"
  std::string sm_path(std::uint32_t id) const;
  std::vector<std::uint32_t> sms_per_gpc() const;
  std::uint32_t sms_per_tpc() const;  // of the largest TPC
  std::uint32_t tpcs() const;         // of the machine
  // GPCs in the order of their usable TPCs, fewest last: position = virtual GPC id (CWD-31).
  std::uint32_t virtual_gpc(std::uint32_t gpc) const { return virtual_gpcs_[gpc]; }

 private:
  std::vector<Gpc> gpcs_;
  std::vector<Sm> sms_;
  std::vector<std::uint32_t> virtual_gpcs_;
  std::uint32_t ugpus_ = 1;
  std::vector<std::uint32_t> ugpu_of_;  // by GPC
};

}  // namespace heddle::arch

namespace heddle {

template <>
struct ParamTraits<arch::Shape> {
  static constexpr const char* kType = "shape";
  static constexpr const char* kRange = "a list with one entry per GPC: its SMs, or a list of its CPCs";
  static arch::Shape parse(const YAML::Node& node, const SourcePos& where);
  static YAML::Node format(const arch::Shape& shape);
};

}  // namespace heddle
