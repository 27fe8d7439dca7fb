// Small exports of Nsight Systems, made with SQLite.
#pragma once

#include <cstdint>
#include <memory>
#include <sqlite3.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "import/recordings.h"

namespace heddle::test {

// Serialized ids: 8 bits hardware, 8 bits virtual machine, 24 bits process, 24 bits thread.
inline std::int64_t global_id(std::int64_t process, std::int64_t thread = 0) {
  return std::int64_t{1} << 48 | process << 24 | thread;
}

constexpr std::int64_t kProcess = 144;

// Columns that matter, and some that do not.
inline const std::string kNsysSchema = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, launchType INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, graphNodeId INTEGER,
  clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxActiveClusters INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER NOT NULL, processId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, priority INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, smCount INTEGER, threadsPerWarp INTEGER,
  maxWarpsPerSm INTEGER, maxThreadsPerBlock INTEGER, maxRegistersPerSm INTEGER, maxShmemPerSm INTEGER,
  maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight Systems');
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');
INSERT INTO StringIds VALUES (11, 'void gemm<float>(float*)'), (12, 'gemm'), (13, 'softmax');
)";

class NsysExport {
 public:
  explicit NsysExport(const std::string& schema = kNsysSchema) {
    sqlite3* connection = nullptr;
    if (sqlite3_open(":memory:", &connection) != SQLITE_OK) throw std::runtime_error("SQLite");
    connection_.reset(connection);
    sql("PRAGMA page_size = 1024; " + schema);
  }

  NsysExport& sql(const std::string& statements) {
    char* message = nullptr;
    if (sqlite3_exec(connection_.get(), statements.c_str(), nullptr, nullptr, &message) != SQLITE_OK) {
      const std::string text = fmt::format("{}: {}", message != nullptr ? message : "?", statements);
      sqlite3_free(message);
      throw std::runtime_error(text);
    }
    return *this;
  }

  // A kernel of 6 x 2 CTAs with 128 threads on stream 7; `set` changes columns: "streamId = 9, clusterX = 2".
  NsysExport& kernel(std::int64_t start, std::int64_t end, int correlation = 0, const std::string& set = {}) {
    sql(
        fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
                    "globalPid, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, "
                    "blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, clusterX, clusterY, "
                    "clusterZ, clusterSchedulingPolicy, maxActiveClusters) VALUES ({}, {}, 0, 1, 7, {}, {}, 11, 12, "
                    "64, 6, 2, 1, 128, 1, 1, 1024, 512, 0, 0, 0, 0, 0, 0)",
                    start, end, correlation, global_id(kProcess)));
    return change("CUPTI_ACTIVITY_KIND_KERNEL", set);
  }

  NsysExport& copy(std::int64_t start, std::int64_t end, int correlation = 0, const std::string& set = {}) {
    sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({}, {}, 0, 1, 7, {}, {}, 4096, 1)", start, end,
                    correlation, global_id(kProcess)));
    return change("CUPTI_ACTIVITY_KIND_MEMCPY", set);
  }

  NsysExport& fill(std::int64_t start, std::int64_t end, int correlation = 0, const std::string& set = {}) {
    sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES ({}, {}, 0, 1, 7, {}, {}, 0, 256)", start, end,
                    correlation, global_id(kProcess)));
    return change("CUPTI_ACTIVITY_KIND_MEMSET", set);
  }

  NsysExport& call(std::int64_t start, int correlation, std::int64_t process = kProcess) {
    return sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, 12, 0)", start,
                           start + 1'000, global_id(process, 145), correlation));
  }

  NsysExport& wait(std::int64_t start, int stream, int correlation, int event, int event_sync) {
    return sql(
        fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES ({}, {}, 0, 1, {}, {}, {}, 2, {}, {})",
                    start, start + 100, stream, correlation, global_id(kProcess), event, event_sync));
  }

  NsysExport& record(int stream, int correlation, int event, int event_sync) {
    return sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, {}, {}, {}, {}, {})", stream,
                           correlation, global_id(kProcess), event, event_sync));
  }

  std::string bytes() const {
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> image(
        sqlite3_serialize(connection_.get(), "main", &size, 0), &sqlite3_free);
    return {reinterpret_cast<const char*>(image.get()), static_cast<std::size_t>(size)};
  }

 private:
  NsysExport& change(const char* table, const std::string& set) {
    return set.empty() ? *this : sql(fmt::format("UPDATE {} SET {} WHERE rowid = last_insert_rowid()", table, set));
  }

  struct Closer {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };
  std::unique_ptr<sqlite3, Closer> connection_;
};

inline std::vector<workload::Workload> import_bytes(const std::string& bytes) {
  std::istringstream stream(bytes);
  return import::import_nsys(stream, "t.sqlite");
}

inline std::vector<workload::Workload> import_export(const NsysExport& file) { return import_bytes(file.bytes()); }

// The message of the InputError; empty if there was none.
inline std::string refusal(const std::string& bytes) {
  try {
    import_bytes(bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

inline std::string refusal(const NsysExport& file) { return refusal(file.bytes()); }

}  // namespace heddle::test
