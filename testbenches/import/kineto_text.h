// Small Kineto traces as text, and files of them.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "common/error.h"
#include "import/recordings.h"
#include "support/temp_dir.h"

namespace heddle::test {

inline std::string read_file(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// `text` as the bytes of a gzip file.
inline std::string gzipped(const std::string& text) {
  const TempDir dir;
  gzFile file = gzopen(dir.file("t.gz").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_file(dir.file("t.gz"));
}

inline const std::string kA100 =
    R"({"id":0,"name":"NVIDIA A100-SXM4-80GB","maxThreadsPerBlock":1024,"maxThreadsPerMultiprocessor":2048,)"
    R"("regsPerBlock":65536,"regsPerMultiprocessor":65536,"warpSize":32,"sharedMemPerBlock":49152,)"
    R"("sharedMemPerMultiprocessor":167936,"numSms":108,"sharedMemPerBlockOptin":166912})";
inline const std::string kMi300x =
    R"({"id":0,"name":"AMD Instinct MI300X","maxThreadsPerBlock":1024,"maxThreadsPerMultiprocessor":2048,)"
    R"("regsPerBlock":65536,"warpSize":64,"sharedMemPerBlock":65536,"numSms":304,)"
    R"("maxSharedMemoryPerMultiProcessor":65536})";

// Times are text, so that a test decides on their notation.
inline std::string kernel(const std::string& name, int stream, const std::string& ts, const std::string& dur,
                          int correlation, const std::string& shape = R"("grid":[4,1,1],"block":[128,1,1])",
                          int device = 0) {
  return fmt::format(R"({{"ph":"X","cat":"kernel","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                     R"("args":{{"device":{},"stream":{},"correlation":{}{}{}}}}})",
                     name, device, stream, ts, dur, device, stream, correlation, shape.empty() ? "" : ",", shape);
}

inline std::string call(const std::string& name, const std::string& ts, int correlation, const std::string& more = "") {
  return fmt::format(R"({{"ph":"X","cat":"cuda_runtime","name":"{}","pid":4711,"tid":4711,"ts":{},"dur":3,)"
                     R"("args":{{"correlation":{}{}{}}}}})",
                     name, ts, correlation, more.empty() ? "" : ",", more);
}

inline std::string trace(const std::vector<std::string>& events, const std::string& devices = kA100) {
  std::string text = R"({"schemaVersion":1,"deviceProperties":[)" + devices + R"(],"traceEvents":[)";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i > 0 ? "," : "") + events[i];
  return text + "]}";
}

inline std::vector<workload::Workload> import_text(const std::string& text) {
  std::istringstream stream(text);
  return import::import_kineto(stream, "trace.json");
}

// The message of the InputError; empty if there was none.
inline std::string error_of(const std::string& text) {
  try {
    import_text(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace heddle::test
