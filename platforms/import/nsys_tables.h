// What Heddle keeps of an Nsight Systems export: GPU operations, with the host's side of them (nsys_host.h), and
// devices, checked row by row (INP-05, INP-07).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "import/nsys_database.h"
#include "import/nsys_host.h"
#include "workload/workload.h"

namespace heddle::import {

class NsysTables {
 public:
  // Reads everything. Throws InputError.
  explicit NsysTables(const NsysDatabase& database);

  // The host's side of these operations.
  const NsysHost& host() const { return *host_; }
  // From TARGET_INFO_GPU. `id` is the GPU's number in the system where TARGET_INFO_CUDA_DEVICE tells it, because
  // processes may number the same GPUs differently; else what the process calls it.
  workload::DeviceInfo device(int id) const;
  const std::string& name(std::int64_t id) const { return names_.at(id); }
  // "CUPTI_ACTIVITY_KIND_KERNEL, row 7"
  static std::string place(const NsysOp& op);

  std::vector<NsysOp> ops;
  std::vector<std::string> warnings;

 private:
  using Process = std::int64_t;

  void check_version();
  void read_device_numbers();
  void read_kernels();
  void read_names();
  void read_copies();
  void read_fills();
  void read_devices();
  void note_graphs();
  int device_of(Process process, std::int64_t device) const;

  const NsysDatabase& database_;
  std::map<std::pair<std::int64_t, std::int64_t>, int> gpu_of_;  // (operating system's process id, device) -> GPU
  std::unordered_map<std::int64_t, std::string> names_;
  std::optional<NsysHost> host_;
  std::map<int, workload::DeviceInfo> devices_;
};

}  // namespace heddle::import
