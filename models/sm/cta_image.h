// A CTA as bytes: its state is taken from its SM, and put into one (TSK-12).
#pragma once

#include <cstdint>
#include <vector>

#include "sm/save_steps.h"
#include "sm/swap_peers.h"

namespace heddle::sm {

class CtaImage final : private SmUnit {
 public:
  CtaImage(const UnitContext& context, const SwapPeers& peers) : SmUnit(context), peers_(peers) {}

  SavedHeader header_of(const Cta& cta, bool owed) const;
  SavedCta state_of(const Cta& cta) const;
  // Where the local memory of its warps lies.
  std::vector<LocalPart> local_of(const Cta& cta) const;
  // Poison could not be told from sound data.
  bool is_sound(const Cta& cta) const;
  bool waits_for_tasks(const Cta& cta) const;

  // What was launched is the CGA alone: its CTAs know which of their grid they are when they are there.
  void take_id(Cta& cta, const SavedHeader& header) const;
  // It goes on. Throws InputError for the state of another CTA.
  void put_back(Cta& cta, const std::vector<std::uint8_t>& bytes) const;

 private:
  void put_back_warp(const Cta& cta, std::uint32_t number, const SavedWarp& saved) const;

  SwapPeers peers_;
};

}  // namespace heddle::sm
