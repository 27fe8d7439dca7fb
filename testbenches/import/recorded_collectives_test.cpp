// What recordings tell of communication between GPUs (INP-15).
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "import/kineto_text.h"
#include "import/recordings.h"

namespace import_recorded_collectives_test {

using namespace heddle;
using namespace heddle::test;
using namespace heddle::workload;
using import::collective_in_name;
using import::communicates;
using import::element_bytes;

namespace {

std::string of_message(const std::string& collective, std::uint64_t in, std::uint64_t out, const std::string& type) {
  return fmt::format(R"("Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":8,"dtype":"{}",)"
                     R"("Process Group Name":"3")",
                     collective, in, out, type);
}

Workload imported(const std::vector<std::string>& events) {
  std::istringstream text(trace(events));
  std::vector<Workload> workloads = import::import_kineto(text, "t.json");
  REQUIRE(workloads.size() == 1);
  import::note_communication(workloads[0]);
  return workloads[0];
}

constexpr const char* kShape = R"("grid":[4,1,1],"block":[128,1,1])";

}  // namespace

TEST_CASE("names tell kernels of libraries of collectives, and what they do", "[workload][INP-15]") {
  CHECK(communicates("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"));
  CHECK(communicates("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"));
  CHECK(communicates("rcclGenericKernel<1>(ncclDevComm*)"));
  CHECK(communicates("void ncclKernel_AllGather(x)"));
  CHECK_FALSE(communicates("nccl:all_reduce"));
  CHECK_FALSE(communicates("void at::native::vectorized_elementwise_kernel<4>()"));
  CHECK_FALSE(communicates(""));
  const std::pair<const char*, std::optional<Collective>> names[] = {
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", Collective::all_reduce},
      {"ncclDevKernel_AllGather_RING_LL(x)", Collective::all_gather},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", Collective::reduce_scatter},
      {"ncclDevKernel_Broadcast_RING_LL(x)", Collective::broadcast},
      {"ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", std::nullopt},
      {"ncclDevKernel_SendRecv(x)", std::nullopt},
      {"ncclDevKernel_Generic(struct broadcastArgs)", std::nullopt},
      {"allreduce", Collective::all_reduce},
      {"_allgather_base", Collective::all_gather},
      {"reduce_scatter_tensor_coalesced", Collective::reduce_scatter},
      {"broadcast", Collective::broadcast},
      {"all_to_all", std::nullopt},
      {"", std::nullopt}};
  for (const auto& [name, kind] : names) {
    CAPTURE(name);
    CHECK(collective_in_name(name) == kind);
  }
  CHECK(element_bytes("BFloat16") == 2);
  CHECK(element_bytes("Float") == 4);
  CHECK(element_bytes("Long") == 8);
  CHECK(element_bytes("Float8_e4m3fn") == 1);
  CHECK(element_bytes("Tensor") == 0);
}

TEST_CASE("bytes of a collective are those of each rank's whole buffer", "[workload][INP-15]") {
  const std::string name = "ncclDevKernel_Generic";
  const Workload w =
      imported({kernel(name, 4, "0", "5", 1, kShape + ("," + of_message("allreduce", 1000, 1000, "BFloat16"))),
                kernel(name, 4, "10", "5", 2, kShape + ("," + of_message("_allgather_base", 1000, 8000, "Float"))),
                kernel(name, 4, "20", "5", 3, kShape + ("," + of_message("_reduce_scatter_base", 8000, 1000, "Float"))),
                kernel(name, 4, "30", "5", 4, kShape + ("," + of_message("all_to_all", 8000, 8000, "Float"))),
                kernel(name, 4, "40", "5", 5, kShape + ("," + of_message("broadcast", 7, 7, "Unheard"))),
                kernel("gemm", 7, "50", "5", 6)});
  REQUIRE(w.ops.size() == 6);
  const auto expect = [&w](std::size_t i, std::optional<Collective> kind, std::uint64_t bytes) {
    CAPTURE(i);
    REQUIRE(w.ops[i].communication.has_value());
    CHECK(w.ops[i].communication->kind == kind);
    CHECK(w.ops[i].communication->bytes == bytes);
    CHECK(w.ops[i].communication->ranks == 8);
    CHECK(w.ops[i].communication->group == "3");
  };
  expect(0, Collective::all_reduce, 2000);
  expect(1, Collective::all_gather, 32'000);
  expect(2, Collective::reduce_scatter, 32'000);
  expect(3, std::nullopt, 32'000);
  expect(4, Collective::broadcast, 0);
  CHECK_FALSE(w.ops[5].communication.has_value());
}

TEST_CASE("ranks of a group, numbers within it and the clock of a file are kept", "[workload][INP-15]") {
  const std::string message = of_message("allreduce", 8, 8, "Float");
  const auto with = [&](const std::string& more) { return kShape + ("," + message + more); };
  std::istringstream text(trace(
      {kernel("ncclDevKernel_Generic", 4, "10", "5", 1, with(R"(,"Process Group Ranks":"[0, 2, 4, 6]","Seq":17)")),
       kernel("ncclDevKernel_Generic", 4, "20", "5", 2, with(R"(,"Seq":-1)")),
       kernel("gemm", 4, "12.5", "5", 3, kShape, 1)}));
  const std::vector<Workload> both = import::import_kineto(text, "t.json");
  REQUIRE(both.size() == 2);
  CHECK(both[0].ops[0].communication->members == "[0,2,4,6]");
  CHECK(both[0].ops[0].communication->sequence == 17);
  CHECK(both[0].ops[1].communication->members.empty());
  CHECK_FALSE(both[0].ops[1].communication->sequence.has_value());
  CHECK(both[1].origin - both[0].origin == 2500);
}

TEST_CASE("what the operator of the host records is of the kernel that it launched", "[workload][INP-15]") {
  const std::string op = fmt::format(
      R"({{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":0,"dur":9,"args":{{"External id":77,{}}}}})",
      of_message("allreduce", 4096, 4096, "Half"));
  const Workload w = imported({op, call("cudaLaunchKernelExC", "1", 1, R"("External id":77)"),
                               call("cudaLaunchKernel", "2", 2, R"("External id":77)"),
                               kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL(x)", 4, "10", "5", 1),
                               kernel("copy", 4, "20", "5", 2), kernel("ncclDevKernel_SendRecv(x)", 4, "30", "5", 3)});
  REQUIRE(w.ops.size() == 3);
  REQUIRE(w.ops[0].communication.has_value());
  CHECK(w.ops[0].communication->bytes == 8192);
  CHECK(w.ops[0].communication->group == "3");
  CHECK_FALSE(w.ops[1].communication.has_value());
  REQUIRE(w.ops[2].communication.has_value());  // by its name
  CHECK(w.ops[2].communication->bytes == 0);
}

TEST_CASE("a damaged size of a collective is refused with its place", "[workload][INP-07][INP-15]") {
  std::string args = of_message("allreduce", 10, 10, "Half");
  args.replace(args.find(":10,"), 4, ":\"many\",");
  std::istringstream text(trace({kernel("ncclDevKernel_Generic", 4, "0", "5", 1, kShape + ("," + args))}));
  CHECK_THROWS_WITH(import::import_kineto(text, "t.json"), Catch::Contains("In msg nelems"));
}

TEST_CASE("recording: collectives of a data-parallel training", "[workload][INP-15]") {
  const std::string path = std::string(HEDDLE_TRACES_DIR) + "/mi300x_resnet_ddp_training_trim.json.gz";
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording\n";
    return;
  }
  std::vector<Workload> workloads = import::import_kineto(path);
  import::note_communication(workloads.at(0));
  std::size_t all = 0;
  std::size_t sized = 0;
  std::uint64_t bytes = 0;
  for (const Op& op : workloads[0].ops) {
    if (!op.communication) continue;
    ++all;
    if (op.communication->bytes == 0) continue;
    ++sized;
    if (op.communication->kind == Collective::all_reduce) bytes += op.communication->bytes;
  }
  CHECK(all == 17);
  CHECK(sized == 12);
  CHECK(bytes == 3 * 2 * (2'873'320 + 8'816'192));
}

}  // namespace import_recorded_collectives_test
