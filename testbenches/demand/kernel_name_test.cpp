// Tiles in the names of kernels.
#include "demand/kernel_name.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace heddle::kernel_name_test {

using namespace heddle::demand;

namespace {

struct Row {
  std::string name;
  std::uint32_t m, n, k;
};

}  // namespace

TEST_CASE("names of matrix multiplies tell their tiles", "[demand]") {
  const std::vector<Row> rows = {
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x32_warpgroupsize1x1x1_execute_kernel__5x_cublas", 128,
       64, 32},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x96_32x6_tn_align8>(Params)", 64, 96, 32},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x128_16x4_tn_align1>(Params)", 256, 128, 16},
      {"void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>()",
       256, 64, 32},
      {"void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(Params)", 256, 128, 0},
      {"nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT", 192, 208, 64},
      {"ampere_sgemm_128x64_nn", 128, 64, 0},
      {"cudnn_ampere_scudnn_128x32_relu_xregs_large_nn_v1", 128, 32, 0},
      {"Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x160x64_MI16x16x1_SN_LDSB1", 256, 160, 64},
      {"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8_ws1x1_wr2x2", 128, 64, 32},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto tile = matmul_tile(row.name);
    REQUIRE(tile);
    CHECK(tile->m == row.m);
    CHECK(tile->n == row.n);
    CHECK(tile->k == row.k);
  }
}

TEST_CASE("names without extents tell none", "[demand]") {
  for (const char* name :
       {"", "gemm", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "fft2d_r2c_32x32", "gemm_0x64_nn",
        "gemm_99999999999999999999x64_nn", "attn_fwd"}) {
    CAPTURE(name);
    CHECK_FALSE(matmul_tile(name));
    CHECK_FALSE(attention_tile(name));
  }
}

TEST_CASE("names of any length are looked at", "[demand]") {
  for (const char* start : {"gemm_", "vectorized_elementwise_kernel<", "flash_fwd_"}) {
    const std::string name = start + std::string(1'000'000, 'a');
    CHECK_FALSE(matmul_tile(name));
    CHECK_FALSE(attention_tile(name));
    CHECK_FALSE(changes_layout(name));
  }
}

TEST_CASE("a flash attention tells its blocks", "[demand]") {
  const auto plain =
      attention_tile("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 96, 4>>");
  REQUIRE(plain);
  CHECK(plain->m == 128);
  CHECK(plain->n == 96);
  CHECK(plain->k == 64);
  const auto cast =
      attention_tile("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (int)32, (int)4>");
  REQUIRE(cast);
  CHECK(cast->m == 64);
  CHECK(cast->n == 32);
  CHECK(cast->k == 128);
}

TEST_CASE("layout changes are told from products", "[demand]") {
  CHECK(changes_layout("void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>()"));
  CHECK(changes_layout("batched_transpose_32x16_half"));
  CHECK_FALSE(changes_layout("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x16"));
}

}  // namespace heddle::kernel_name_test
