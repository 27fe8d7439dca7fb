// What is left of a process that has used the device: its results, as `heddle run` has them.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "cuda/cudart/simulated_device.h"
#include "replay/csv_field.h"

namespace heddle::cuda {
namespace {

std::string text_of(const arch::Dim3& extents) { return fmt::format("{}x{}x{}", extents.x, extents.y, extents.z); }

const char* ended_text(const Operation& operation) {
  if (!operation.done) return "";
  switch (operation.status) {
    case protocol::DoneStatus::ok:
      return "well";
    case protocol::DoneStatus::rejected:
      return "rejected";
    case protocol::DoneStatus::faulted:
      return "faulted";
    case protocol::DoneStatus::aborted:
      return "aborted";
  }
  return "";
}

std::string rows_of(const SimulatedDevice& device) {
  std::string text =
      "gpu,operation,kind,name,stream,priority,grid,block,cluster,ctas,bytes,shared_bytes,registers,submitted_ns,"
      "start_ns,end_ns,duration_ns,ended\n";
  std::size_t number = 0;
  for (const Operation& operation : device.operations()) {
    const bool kernel = operation.kind == "kernel";
    const arch::KernelShape& shape = operation.shape;
    text += fmt::format("gpu0,{},{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{}\n", number++,
                        operation.kind, replay::csv_field(operation.name), operation.stream, operation.priority,
                        kernel ? text_of(shape.grid) : "", kernel ? text_of(shape.block) : "",
                        kernel && shape.cluster.any() ? text_of(shape.cluster.of(shape.cluster.outermost())) : "",
                        kernel ? fmt::to_string(shape.grid.count()) : "", kernel ? "" : fmt::to_string(operation.bytes),
                        kernel ? fmt::to_string(shape.shared_bytes) : "",
                        kernel ? fmt::to_string(shape.registers_per_thread) : "", operation.submitted, operation.start,
                        operation.end, operation.end - operation.start, ended_text(operation));
  }
  return text;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError({path.string(), 0, 0}, "cannot be written", "choose another folder with --out");
}

}  // namespace

void write_run(SimulatedDevice& device, const gpu::ResolvedMachine& machine, const std::string& folder) {
  const std::filesystem::path to(folder);
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error) throw InputError({folder, 0, 0}, "cannot be made: " + error.message(), "choose another folder with --out");
  device.gpu().settle();
  write_file(to / "stats.json", device.observation().stats.to_json().dump(2) + "\n");
  write_file(to / "kernels.csv", rows_of(device));
  write_file(to / "config.yaml", machine.text);
}

}  // namespace heddle::cuda
