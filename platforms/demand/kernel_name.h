// What the name of a kernel tells: the tile that a CTA of a library's matrix multiply works on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle::demand {

// What is looked at of a name: std::regex recurses for each character.
constexpr std::size_t kMostName = 1000;
inline std::string_view looked_at(std::string_view kernel) { return kernel.substr(0, kMostName); }

// Of the result, m x n; k steps of the inner extent at a time, 0 where the name does not tell.
struct Tile {
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
};

// Read are the names that these libraries document or print, as profilers show them: cuBLAS ("…_tilesize128x128x64_…",
// "nvjet_…_192x208_64x4_…", "ampere_sgemm_128x64_nn"), CUTLASS and cuDNN ("…_s1688gemm_bf16_256x128_32x3_tn_…",
// "…fprop_optimized_bf16_256x64_32x4_…"), Tensile ("Cijk_…_MT256x128x64_…"), MIOpen ("igemm_fwd_…_bt128x128x32_…").
// None where a name has no extents at the place where one of them puts them.
std::optional<Tile> matmul_tile(std::string_view kernel);

// FlashAttention ("flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, …"): rows of queries m, of keys n, and the
// extent of a head k.
std::optional<Tile> attention_tile(std::string_view kernel);

// A kernel that brings a tensor into another order for one of those.
bool changes_layout(std::string_view kernel);

}  // namespace heddle::demand
