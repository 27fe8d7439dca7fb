// What programs of figures have in common: they print Markdown, and fail where a claim of their page does not hold. For
// one file of a program.
#pragma once

#include <cstdio>
#include <string>

#include <systemc>

// SystemC's library has a main() that calls it; these programs have their own.
int sc_main(int, char**) { return 0; }

namespace heddle::figures {

inline void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

inline bool good = true;  // all claims so far hold
inline void claim(bool holds, const std::string& text) {
  if (!holds) print("\nDoes not hold: " + text + "\n");
  good = good && holds;
}

}  // namespace heddle::figures
