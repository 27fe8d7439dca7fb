#include "demand/kernel_name.h"

#include <array>
#include <regex>
#include <string>

namespace heddle::demand {
namespace {

using Match = std::match_results<std::string_view::const_iterator>;

std::uint32_t extent(const Match& match, std::size_t group) {
  return match[group].matched ? static_cast<std::uint32_t>(std::stoul(match[group].str())) : 0;
}

std::optional<Tile> search(std::string_view kernel, const std::regex& pattern) {
  kernel = looked_at(kernel);
  Match match;
  if (!std::regex_search(kernel.begin(), kernel.end(), match, pattern)) return std::nullopt;
  const Tile tile{extent(match, 1), extent(match, 2), match.size() > 3 ? extent(match, 3) : 0};
  if (tile.m == 0 || tile.n == 0) return std::nullopt;
  return tile;
}

// Longer numbers are no extents, and would not fit.
const std::array<std::regex, 5>& patterns() {
  static const std::array<std::regex, 5> kPatterns = {
      std::regex(R"(tilesize(\d{1,5})x(\d{1,5})x(\d{1,5}))"),
      std::regex(R"(_MT(\d{1,5})x(\d{1,5})x(\d{1,5}))"),
      std::regex(R"(_bt(\d{1,5})x(\d{1,5})x(\d{1,5}))"),
      std::regex(R"((?:gemm|fprop|dgrad|wgrad|nvjet)[a-z0-9_]*?_(\d{1,5})x(\d{1,5})_(\d{1,5})x\d)"),
      std::regex(R"((?:gemm|cudnn)[a-z0-9_]*?_(\d{1,5})x(\d{1,5})_)"),
  };
  return kPatterns;
}

}  // namespace

std::optional<Tile> matmul_tile(std::string_view kernel) {
  for (const std::regex& pattern : patterns()) {
    if (const std::optional<Tile> tile = search(kernel, pattern)) return tile;
  }
  return std::nullopt;
}

std::optional<Tile> attention_tile(std::string_view kernel) {
  static const std::regex kTraits(
      R"(flash_fwd\w*_traits<(?:\(int\))?(\d{1,5}), (?:\(int\))?(\d{1,5}), (?:\(int\))?(\d{1,5}))", std::regex::icase);
  const std::optional<Tile> read = search(kernel, kTraits);  // extent of a head, rows of queries, rows of keys
  if (!read || read->k == 0) return std::nullopt;
  return Tile{read->n, read->k, read->m};
}

bool changes_layout(std::string_view kernel) {
  static const std::regex kOrders("nchwToNhwc|nhwcToNchw|batched_transpose|SubTensorOpWithTransform",
                                  std::regex::icase);
  kernel = looked_at(kernel);
  return std::regex_search(kernel.begin(), kernel.end(), kOrders);
}

}  // namespace heddle::demand
