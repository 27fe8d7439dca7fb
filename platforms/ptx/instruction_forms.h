// How instructions of each family become what runs. Each function takes the instructions that it knows, and says
// whether this one was; throws InputError with file, line and remedy for one that it knows and that is wrong.
#pragma once

#include "ptx/operand_resolver.h"

namespace heddle::ptx {

// mov, cvta, isspacep, mapa, getctarank, and those of registers alone.
bool resolve_registers(OperandResolver& in);
// ld, st, atom, red, prefetch, cp.async without .bulk.
bool resolve_accesses(OperandResolver& in);
// shfl, vote, match, redux, elect, activemask, bar.warp.sync.
bool resolve_warp(OperandResolver& in);
// bar, barrier, fence, membar, mbarrier, griddepcontrol, nanosleep, trap …
bool resolve_synchronisation(OperandResolver& in);
// cp.async.bulk, cp.reduce.async.bulk, and what belongs to them.
bool resolve_bulk(OperandResolver& in);

// %tid, %clock64 and the others. If the second operand of a mov is one: true. Throws InputError for one that the model
// does not have.
bool resolve_special_register(OperandResolver& in, Type type);

// Modifiers that accesses to memory have in common: how they are ordered, which memory, and hints to caches.
struct MemoryWords {
  arch::Order order = arch::Order::weak;
  arch::Scope scope = arch::Scope::gpu;
  bool has_scope = false;
  std::optional<Window> window;  // none: generic
};
// Takes them; hints are accepted and have no effect.
MemoryWords take_memory_words(Modifiers& words);
// The memory that an access goes to: that of the instruction, or of the variable that it names.
Window window_of(const MemoryWords& words, const AddressValue& address);

}  // namespace heddle::ptx
