// Catch2's main, compiled once for all test programs. SystemC's own main is not used: sc_main is a formality here.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <systemc>

int sc_main(int, char**) { return 0; }

int main(int argc, char** argv) {
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  // A report of severity warning or above fails the case that it comes from.
  sc_core::sc_report_handler::set_actions(sc_core::SC_WARNING, sc_core::SC_THROW);
  sc_core::sc_report_handler::set_actions(sc_core::SC_ERROR, sc_core::SC_THROW);
  // Catch2 returns the number of failures; a status must not depend on how many there are.
  return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
