// heddle show registers
#include <catch2/catch.hpp>

#include "cli/program.h"

namespace heddle::test::cli_registers_test {

TEST_CASE("show registers tells what a host sees, in three forms", "[cli][HST-01]") {
  const TempDir folder;
  const std::string root = HEDDLE_SOURCE_DIR;
  const Finished text = heddle_in(folder, {"show", "registers"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "INT_STATUS"));
  CHECK(contains(text.out, "DOORBELL[64]"));
  CHECK(heddle_in(folder, {"show", "registers", "--format", "text"}).out == text.out);
  CHECK(heddle_in(folder, {"show", "registers", "--format", "markdown"}).out == read_file(root + "/docs/registers.md"));
  CHECK(heddle_in(folder, {"show", "registers", "--format", "c"}).out ==
        read_file(root + "/platforms/driver/heddle_registers.h"));
}

TEST_CASE("show registers refuses forms that do not exist, and forms of other things", "[cli][HST-01]") {
  const TempDir folder;
  const Finished unknown = heddle_in(folder, {"show", "registers", "--format", "pdf"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "'pdf'"));
  CHECK(contains(unknown.err, "text, markdown or c"));
  const Finished other = heddle_in(folder, {"show", "params", "--format", "c"});
  CHECK(other.status == 2);
  CHECK(contains(other.err, "heddle show params has no format c"));
  const Finished near = heddle_in(folder, {"show", "register"});
  CHECK(near.status == 2);
  CHECK(contains(near.err, "heddle show registers"));
}

}  // namespace heddle::test::cli_registers_test
