#include "import/byte_source.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "import/kineto_text.h"

namespace import_byte_source_test {

using namespace heddle;
using namespace heddle::test;
using workload::ByteSource;
using workload::open_bytes;

namespace {

std::string drain(ByteSource& source) {
  std::string bytes;
  for (int c = source.sbumpc(); c != std::streambuf::traits_type::eof(); c = source.sbumpc()) {
    bytes += static_cast<char>(c);
  }
  return bytes;
}

std::string drain_file(const std::string& path) { return drain(*open_bytes(path)); }

// Longer than any buffer, and not so regular that it packs to nothing.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += fmt::format("{} ", i * 7919);
  return text;
}

}  // namespace

TEST_CASE("a file is unpacked by its content, whatever its name", "[workload][INP-01]") {
  const TempDir dir;
  const std::string text = long_text();
  CHECK(drain_file(dir.write("plain.gz", text)) == text);
  CHECK(drain_file(dir.write("packed.json", gzipped(text))) == text);
  CHECK(drain_file(dir.write("two.gz", gzipped(text) + gzipped("end"))) == text + "end");
}

TEST_CASE("a byte source counts the bytes that were taken", "[workload][INP-07]") {
  const TempDir dir;
  const std::string text = long_text();
  const auto source = open_bytes(dir.write("t.gz", gzipped(text)));
  CHECK(source->position() == 0);
  CHECK(source->sgetc() == text[0]);
  CHECK(source->position() == 0);
  for (int i = 0; i < 100'000; ++i) source->sbumpc();
  CHECK(source->position() == 100'000);
  CHECK(source->position_text(17) == "byte 17 of the unpacked text");
  drain(*source);
  CHECK(source->position() == text.size());
}

TEST_CASE("gzip data that end early are refused at every length", "[workload][INP-07]") {
  const TempDir dir;
  const std::string packed = gzipped("{\"traceEvents\": [1, 2, 3, 4, 5, 6, 7, 8]}");
  for (std::size_t length = 2; length < packed.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_WITH(drain_file(dir.write("t.gz", packed.substr(0, length))), Catch::Contains("truncated"));
  }
  const std::string large = gzipped(long_text());
  for (std::size_t length = 10; length < large.size(); length += 1013) {
    CAPTURE(length);
    CHECK_THROWS_AS(drain_file(dir.write("t.gz", large.substr(0, length))), InputError);
  }
}

TEST_CASE("damaged gzip data are refused with file, position and remedy", "[workload][INP-07]") {
  const TempDir dir;
  std::string packed = gzipped(long_text());
  packed[packed.size() - 7] = static_cast<char>(packed[packed.size() - 7] ^ 1);  // in the CRC
  CHECK_THROWS_WITH(drain_file(dir.write("crc.gz", packed)),
                    Catch::Contains("crc.gz") && Catch::Contains("of the unpacked text") &&
                        Catch::Contains("damaged") && Catch::Contains("gzip -t"));
}

TEST_CASE("what cannot be read says why", "[workload][INP-07]") {
  const TempDir dir;
  CHECK_THROWS_WITH(open_bytes(dir.file("absent.json")),
                    Catch::Contains("absent.json") && Catch::Contains("No such file"));
  CHECK_THROWS_WITH(open_bytes(dir.file("")), Catch::Contains("is a directory"));
  CHECK(drain_file(dir.write("empty", "")).empty());
}

}  // namespace import_byte_source_test
