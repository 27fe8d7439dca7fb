// heddle show steps, heddle show scenario-schema
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace heddle::test::cli_show_test {

TEST_CASE("show scenario-schema writes the schema that docs has for editors", "[cli][scenario]") {
  const TempDir folder;
  const Finished schema = heddle_in(folder, {"show", "scenario-schema"});
  CHECK(schema.status == 0);
  CHECK(schema.out == read_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.schema.json"));
  const auto root = nlohmann::json::parse(schema.out);
  const auto& definitions = root.at("$defs");
  const auto& step = definitions.at("gpu_parameters").at("properties").at("cwd").at("properties").at("session_step");
  CHECK(contains(step.at("description").get<std::string>(), "cycles"));
  CHECK(definitions.at("config").at("properties").contains("gpu"));
  CHECK(contains(definitions.at("gpu").at("properties").at("preset").dump(), "h100-sxm"));
}

TEST_CASE("show steps tells the keys of steps, or writes the table of docs/scenario.md", "[cli][scenario]") {
  const TempDir folder;
  const Finished text = heddle_in(folder, {"show", "steps"});
  CHECK(text.status == 0);
  CHECK(contains(text.out, "release_shared"));
  CHECK(contains(text.out, "from (required): offset from which on the shared memory is given back"));
  const Finished markdown = heddle_in(folder, {"show", "steps", "--format", "markdown"});
  CHECK(contains(read_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md"), markdown.out));
  const Finished unknown = heddle_in(folder, {"show", "steps", "--format", "c"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "text or markdown"));
}

}  // namespace heddle::test::cli_show_test
