// The work of a kernel of whose operator nothing is recorded, as far as its name and its launch tell.
#pragma once

#include <optional>
#include <string_view>

#include "demand/operator_work.h"

namespace heddle::demand {

struct NamedWork {
  Work work;
  // The proportions are known and the amounts are not: of a product the inner extent, which counts as 1 here.
  bool proportions = false;
};

// Of PyTorch's element-wise kernels, whose names tell how many tensors of which type there are
// ("vectorized_elementwise_kernel<4, …c10::BFloat16…, std::array<char*, 3ul>>"): each thread works on four elements,
// the last of the tensors is read or written as the others, the first is the result. And of matrix multiplies whose
// tile the name tells: a square result of all CTAs' tiles. `ctas`, `threads`: of the launch. None: it tells neither.
std::optional<NamedWork> work_of_name(std::string_view kernel, double ctas, double threads);

}  // namespace heddle::demand
