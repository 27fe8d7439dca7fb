// CTAs of GPC_CGAs that are saved and restored as a whole, as one of their SMs sees it: what its GPM orders is done,
// and told (TSK-12).
#pragma once

#include "sm/cta_saves.h"

namespace heddle::sm {

class CgaMembers final : private SmUnit {
 public:
  CgaMembers(const UnitContext& context, const SwapPeers& peers, CtaSaves& saves)
      : SmUnit(context), peers_(peers), saves_(saves) {}

  // A CTA that makes room, alone or with its GPC_CGA; not of CGAs beyond a GPC, or with linear memory, or if it is a
  // part of a CTA, at the edge of its grid; nor while a warp of it waits for a free entry of a queue.
  bool can_be_stopped(const Cta& cta) const;
  // The CGA is to make room: what its CTAs here have.
  arch::ResourceVector call(const Cta& cta);
  // The CTA waits, or has stopped, and could be saved.
  void announce(Cta& cta);
  // The GPM counts on an answer to its order, and on hearing that what it has been told is not so any more.
  void refuse(Cta& cta);
  // Heard ahead. There is one at a time: the next follows an answer.
  void on_order(const Cta& cta, const protocol::ClusterOrderPacket& order, Cycle arrival);
  void obey(Cta& cta);
  // Something has come of its save.
  void save_changed(Cta& cta);
  // Its state is there: it waits for the others.
  void restored(Cta& cta, const std::vector<std::uint8_t>& bytes);

 private:
  using Notice = protocol::ClusterNoticePacket::Kind;
  using State = CtaSave::State;
  void tell(const Cta& cta, Notice kind);
  void stop(Cta& cta);
  void begin_save(Cta& cta, std::uint32_t leader);
  void resume(Cta& cta);
  void leave(Cta& cta);

  SwapPeers peers_;
  CtaSaves& saves_;
};

}  // namespace heddle::sm
