// The program `heddle`.
#include <string>
#include <vector>

#include <systemc>

#include "cli/command.h"

// SystemC's library wants one; Heddle runs its simulations itself.
int sc_main(int, char**) { return 0; }

int main(int argc, char** argv) { return heddle::cli::run_program({argv + 1, argv + argc}); }
