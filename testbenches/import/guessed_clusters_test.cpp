// Clusters from names of kernels.

#include <filesystem>
#include <iostream>

#include <catch2/catch.hpp>

#include "import/kineto_text.h"

namespace import_guessed_clusters_test {

using namespace heddle;
using namespace heddle::test;
using import::cluster_in_name;
using workload::Workload;

TEST_CASE("names that tell a cluster, and names that do not", "[workload][INP-14]") {
  using Cluster = std::optional<arch::Dim3>;
  const Cluster none;
  CHECK(cluster_in_name("cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_2x1x1_0_tnn_align8_"
                        "warpspecialized_cooperative_epi_tma") == Cluster({2, 1, 1}));
  CHECK(cluster_in_name("cutlass3x_sm100_tensorop_gemm_f16_f16_f32_f16_f16_128x256x64_2x4x1_0_tnn_align8") ==
        Cluster({2, 4, 1}));
  CHECK(cluster_in_name("cutlass3x_sm90_tensorop_gemm_f16_f16_f32_f16_f16_128x128x64_1x1x1_0_tnn_align8") == none);
  CHECK(cluster_in_name("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, "
                        "int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
                        "MainloopSm90TmaGmmaWarpSpecialized<4, cute::tuple<cute::C<1>, cute::C<2>, cute::C<1> >, "
                        "cutlass::gemm::KernelTmaWarpSpecializedPingpong>") == Cluster({1, 2, 1}));
  CHECK(cluster_in_name("MainloopSm90TmaGmmaWarpSpecializedFP8<(int)5, cute::tuple<cute::C<(int)2>, cute::C<(int)1>, "
                        "cute::C<(int)1>>, cutlass::gemm::KernelTma>") == Cluster({2, 1, 1}));
  CHECK(cluster_in_name("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cgasize1x2x1_kernel") ==
        Cluster({1, 2, 1}));
  CHECK(cluster_in_name("gemm_tilesize128x128x64_clustersize2x1x1") == Cluster({2, 1, 1}));
  CHECK(cluster_in_name("fused_cluster_shape_4x1x1_kernel") == Cluster({4, 1, 1}));
  CHECK(cluster_in_name("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN") == Cluster({2, 1, 1}));
  CHECK(cluster_in_name("nvjet_tst_96x64_64x10_1x2_h_bz_bias_TNN") == Cluster({2, 1, 1}));
  CHECK(cluster_in_name("nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT") == none);
  // Tiles and warp groups are no clusters.
  CHECK(
      cluster_in_name("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1_execute_segment_"
                      "k_off_kernel__5x_cublas") == none);
  CHECK(cluster_in_name("ampere_sgemm_128x64_nn") == none);
  CHECK(cluster_in_name("kmeans_cluster_kernel") == none);
  CHECK(cluster_in_name("") == none);
}

TEST_CASE("a cluster is guessed only where it divides the grid, and counted", "[workload][INP-14]") {
  const std::string name = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT";
  Workload workload = import_text(
      trace({kernel(name, 7, "100", "10", 1, R"("grid":[6,1,1],"block":[128,1,1])"),
             kernel(name, 7, "120", "10", 2, R"("grid":[7,1,1],"block":[128,1,1])"), kernel("plain", 7, "140", "10", 3),
             kernel("cluster_32x1x1", 7, "160", "10", 4, R"("grid":[64,1,1],"block":[128,1,1])")}))[0];
  import::guess_clusters(workload);
  CHECK(workload.ops[0].cluster_guessed);
  CHECK(workload.ops[0].kernel.cluster.of(arch::CgaLevel::gpc) == arch::Dim3{2, 1, 1});
  CHECK(workload.ops[0].kernel.cluster.mode == arch::CgaMode::multicast);
  for (std::size_t i = 1; i < 4; ++i) {
    CAPTURE(i);
    CHECK_FALSE(workload.ops[i].cluster_guessed);
    CHECK_FALSE(workload.ops[i].kernel.cluster.any());
  }
  CHECK(workload.warnings.back().find("1 of 4 kernels have clusters that are guessed") != std::string::npos);
  Workload amd =
      import_text(trace({kernel(name, 7, "100", "10", 1, R"("grid":[6,1,1],"block":[128,1,1])")}, kMi300x))[0];
  import::guess_clusters(amd);
  CHECK_FALSE(amd.ops[0].cluster_guessed);
}

TEST_CASE("recording: names tell the clusters that the driver recorded", "[workload][INP-14][INP-05]") {
  const std::filesystem::path path =
      std::filesystem::path(HEDDLE_TRACES_DIR) / "h100x2_wan_dit_mfu_nsys_slim.sqlite.gz";
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << path.filename() << "\n";
    return;
  }
  std::size_t told = 0;
  for (const Workload& workload : import::import_nsys(path.string())) {
    for (const workload::Op& op : workload.ops) {
      const std::optional<arch::Dim3> cluster = cluster_in_name(op.kernel.name);
      if (op.kind != workload::OpKind::kernel || !cluster) continue;
      CAPTURE(op.kernel.name);
      CHECK(*cluster == op.kernel.cluster.of(arch::CgaLevel::gpc));
      ++told;
    }
  }
  CHECK(told == 235 + 68);
}

}  // namespace import_guessed_clusters_test
