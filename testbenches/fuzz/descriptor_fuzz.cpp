// Any bytes are a tensor descriptor or none (TMA-05, TMA-06). What is taken comes back from its own encoding byte for
// byte; the rules judge whatever it says; and one that breaks none has sizes that the unit can work with.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "arch/tensor_descriptor.h"

namespace {

using namespace heddle::arch;

void demand(bool holds) {
  if (!holds) std::abort();
}

// The first bytes, the others as they are in a plain descriptor: few mutations then break few rules.
std::array<std::uint8_t, kDescriptorBytes> whole(const std::uint8_t* data, std::size_t size) {
  TensorDescriptor plain;
  plain.box[0] = 16;
  auto bytes = encode(plain);
  std::copy(data, data + std::min<std::size_t>(size, bytes.size()), bytes.begin());
  return bytes;
}

// Every row of the tensor and of the box is where the unit's arithmetic of 64 bits finds it.
void use(const TensorDescriptor& d) {
  demand(d.rank >= 1 && d.rank <= kTensorRank && d.address % 16 == 0);
  demand(d.end() > d.address);
  demand(d.box_bytes() >= 16 && d.box_bytes() % 16 == 0);
  (void)has_empty_box(d);
}

void take(const std::array<std::uint8_t, kDescriptorBytes>& bytes) {
  TensorDescriptor d;
  const TensorRule rule = decode(bytes.data(), d);
  demand(rule == TensorRule::none || rule == TensorRule::encoding);
  if (rule == TensorRule::encoding) return;
  demand(encode(d) == bytes);
  TensorDescriptor again;
  demand(decode(bytes.data(), again) == TensorRule::none && again == d);
  const TensorRule broken = check(d);
  demand(broken <= TensorRule::wide && rule_key(broken)[0] != 0);
  if (broken == TensorRule::none) use(d);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = whole(data, size);
  take(bytes);
  // The same with a head that is one: most mutations of it are refused.
  bytes[0] = 'T';
  bytes[1] = 'M';
  bytes[2] = 3;
  bytes[115] &= 1;
  take(bytes);
  return 0;
}
