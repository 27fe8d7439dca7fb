// The registers as a quiet device keeps them (HST-08): every value that software has set or that a register shows, what
// stands behind registers that show one of several, doorbells, and event ids that nobody has taken.
#pragma once

#include "common/state.h"
#include "host/register_file.h"

namespace heddle::host {

// Constants, what the machine gives a register, and what it shows of itself as it is now are not saved: they are the
// new machine's.
class SavedRegisters {
 public:
  static void save(const RegisterFile& file, StateWriter& to);
  // `file` has been reset. Nothing of it goes out: the machine is restored beside it. Throws InputError where the
  // registers of the saved device have other names or numbers, and for those of a copy or query that is under way.
  static void restore(RegisterFile& file, StateReader& from);

 private:
  static bool kept(const Register& reg);
  static void save_latch(const RegisterFile& file, StateWriter& to);
  static void restore_latch(RegisterFile& file, StateReader& from);
};

}  // namespace heddle::host
