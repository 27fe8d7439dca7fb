// Random boxes on a whole machine: what comes to shared memory, and what goes to device memory, byte for byte.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "support/tensor_lab.h"
#include "tmau/random_tensor.h"

namespace system_tensor_random_test {

using namespace heddle::test;
namespace arch = heddle::arch;
using arch::AtomicKind;
using arch::BulkKind;
using arch::OpCode;
using arch::Space;

namespace {

constexpr std::uint32_t kTensors = 1 << 17;  // where tensors lie: from address 0 on
constexpr std::uint64_t kDescriptors = 1 << 20;
constexpr std::uint64_t kOut = 2 << 20;  // windows of CTAs
constexpr std::uint32_t kWindow = 16'384;
constexpr std::uint32_t kData = 64;  // of the window: barriers lie below

struct Machine {
  explicit Machine(const std::string& mode, const std::vector<std::string>& sets = {})
      : lab(preset_params("small", all(mode, sets))) {}
  static std::vector<std::string> all(const std::string& mode, std::vector<std::string> sets) {
    sets.push_back("gpu.timing=" + mode);
    // Boxes lie anywhere, and filter positions too: what then happens is defined.
    for (const char* rule : {"shared_alignment", "empty_box", "base_outside"}) {
      sets.push_back(std::string("gpu.tmau.") + rule + "=report");
    }
    return sets;
  }
  Bytes memory(std::uint64_t address, std::uint64_t bytes) {
    Bytes result(bytes);
    REQUIRE(lab.gpu.memory().read(address, result.data(), bytes));
    return result;
  }
  Bytes randomize(Random& random, std::uint64_t address, std::uint64_t bytes) {
    Bytes data(bytes);
    for (std::size_t i = 0; i < bytes; i += 8) put_value(&data[i], 8, random.next());
    REQUIRE(lab.gpu.memory().write(address, data.data(), bytes));
    return data;
  }

  SimFixture sim;
  GpuLab lab;
};

std::vector<RandomBox> draw(Random& random, std::uint32_t count, bool loads) {
  TensorRange range;
  range.memory = kTensors;
  range.loads = loads;
  RandomTensor next(random, range);
  std::vector<RandomBox> boxes;
  for (std::uint32_t i = 0; i < count; ++i) {
    boxes.push_back(next());
    boxes.back().shared += kData;
  }
  return boxes;
}

arch::BulkRequest request_for(BulkKind kind, const RandomBox& box, std::uint64_t cta) {
  arch::BulkRequest request = tensor_request(kind, kDescriptors + 128 * cta, box.coordinates, box.shared);
  request.offsets = box.offsets;
  return request;
}

// CTA i loads box i and shows its window.
std::shared_ptr<ListProgram> loader(const std::vector<RandomBox>& boxes) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1);
  p.mbarrier_arrive(Space::shared, 0, 1,
                    [boxes](const Warp& warp, std::uint32_t) { return boxes[warp.place.cta].descriptor.box_bytes(); });
  bulk(p, OpCode::tensor_load, [boxes](const Warp& warp) {
    arch::BulkRequest request = request_for(BulkKind::load, boxes[warp.place.cta], warp.place.cta);
    request.barrier = 0;
    return request;
  });
  p.mbarrier_wait(0, 0);
  copy_out(p, kData, kWindow - kData, [](const Warp& warp) { return kOut + kWindow * warp.place.cta; });
  p.exit();
  return program;
}

void check_loads(Machine& machine, Random& random, std::uint32_t count) {
  const Bytes device = machine.randomize(random, 0, kTensors);
  const std::vector<RandomBox> boxes = draw(random, count, true);
  for (std::uint32_t i = 0; i < count; ++i) write_descriptor(machine.lab, kDescriptors + 128 * i, boxes[i].descriptor);
  machine.lab.run(loader(boxes), {count, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  std::uint64_t with_bytes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    CAPTURE(i);
    Bytes window(kWindow);
    reference_load(boxes[i].descriptor, boxes[i].coordinates, boxes[i].offsets, boxes[i].shared, device, window);
    const Bytes shown = machine.memory(kOut + std::uint64_t{kWindow} * i, kWindow - kData);
    REQUIRE(shown == Bytes(window.begin() + kData, window.end()));
    if (shown != Bytes(shown.size())) ++with_bytes;
  }
  CHECK(with_bytes > count / 4);
}

}  // namespace

TEST_CASE("boxes come to shared memory as the reference says",
          "[system][TMA-02][TMA-10][TMA-11][TMA-13][TMA-14][TMA-20][TMA-40]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  for (const std::uint64_t seed : seeds(4)) {
    CAPTURE(seed);
    Random random(seed);
    Machine machine(mode);
    check_loads(machine, random, 250);
  }
}

TEST_CASE("boxes come right through a unit of several SMs and with little of everything", "[system][TMA-03][TMA-16]") {
  const std::vector<std::string> sets =
      GENERATE(std::vector<std::string>{"gpu.tmau.sms=2", "gpu.tmau.order=smallest_first"},
               std::vector<std::string>{"gpu.tmau.sms=3", "gpu.tmau.order=blocks_first", "gpu.tmau.rate=0.25"},
               std::vector<std::string>{"gpu.tmau.outstanding=3", "gpu.tmau.descriptors=1", "gpu.tmau.queue=1"},
               std::vector<std::string>{"gpu.tmau.tracking=table", "gpu.tmau.table=2"});
  CAPTURE(sets);
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast");
  CAPTURE(mode);
  Random random(seed());
  Machine machine(mode, sets);
  check_loads(machine, random, 200);
}

namespace {

// CTA i fills its window from device memory and stores or reduces box i. Boxes of one round do not overlap: the
// device's part of each CTA is its own.
std::shared_ptr<ListProgram> storer(const std::vector<RandomBox>& boxes, const std::vector<AtomicKind>& kinds) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  copy_in(p, kData, kWindow - kData, [](const Warp& warp) { return kOut + kWindow * warp.place.cta + kData; });
  p.proxy_fence();
  bulk(p, kinds.empty() ? OpCode::tensor_store : OpCode::tensor_reduce, [boxes, kinds](const Warp& warp) {
    arch::BulkRequest request =
        request_for(kinds.empty() ? BulkKind::store : BulkKind::reduce, boxes[warp.place.cta], warp.place.cta);
    if (!kinds.empty()) request.reduction = kinds[warp.place.cta];
    return request;
  });
  bulk_commit(p);
  bulk_wait(p, 0);
  p.exit();
  return program;
}

// Moves a tensor to where no other one is.
void move_to(arch::TensorDescriptor& tensor, std::uint64_t base) { tensor.address = base + tensor.address % 128; }

void check_stores(Machine& machine, Random& random, std::uint32_t count, bool reduce) {
  constexpr std::uint64_t kPart = kTensors + 128;  // a tensor anywhere in the range is not longer
  constexpr std::uint64_t kParts = 16 << 20;
  const Bytes windows = machine.randomize(random, kOut, std::uint64_t{kWindow} * count);
  std::vector<RandomBox> boxes = draw(random, count, false);
  std::vector<AtomicKind> kinds;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto kind = static_cast<AtomicKind>(random.below(10));
    while (reduce && !arch::reduction_exists(kind, arch::value_type(boxes[i].descriptor.type), false)) {
      boxes[i] = draw(random, 1, false)[0];
      kind = static_cast<AtomicKind>(random.below(10));
    }
    if (reduce) kinds.push_back(kind);
    move_to(boxes[i].descriptor, kParts + kPart * i);
  }
  for (std::uint32_t i = 0; i < count; ++i) write_descriptor(machine.lab, kDescriptors + 128 * i, boxes[i].descriptor);
  const Bytes before = machine.randomize(random, kParts, kPart * count);
  machine.lab.run(storer(boxes, kinds), {count, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(machine.lab.gpu.log().faults().empty());
  machine.lab.gpu.check_quiescent();
  Bytes expected(kParts);
  expected.insert(expected.end(), before.begin(), before.end());
  for (std::uint32_t i = 0; i < count; ++i) {
    const RandomBox& box = boxes[i];
    const Bytes window(windows.begin() + std::ptrdiff_t{kWindow} * i,
                       windows.begin() + std::ptrdiff_t{kWindow} * (i + 1));
    if (reduce) {
      reference_reduce(kinds[i], box.descriptor, box.coordinates, box.offsets, box.shared, window, expected);
    } else {
      reference_store(box.descriptor, box.coordinates, box.offsets, box.shared, window, expected);
    }
  }
  const Bytes after = machine.memory(kParts, kPart * count);
  for (std::uint32_t i = 0; i < count; ++i) {
    CAPTURE(i);
    const auto part = [&](const Bytes& bytes, std::uint64_t from) {
      return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(from + kPart * i),
                   bytes.begin() + static_cast<std::ptrdiff_t>(from + kPart * (i + 1)));
    };
    REQUIRE(part(after, 0) == part(expected, kParts));
  }
  CHECK(after != before);
}

}  // namespace

TEST_CASE("boxes go to device memory as the reference says", "[system][TMA-01][TMA-13][TMA-41]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  for (const std::uint64_t seed : seeds(3)) {
    CAPTURE(seed);
    Random random(seed);
    Machine machine(mode);
    check_stores(machine, random, 60, false);
  }
}

TEST_CASE("reductions of boxes change device memory as the reference says", "[system][TMA-01][TMA-07]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  for (const std::uint64_t seed : seeds(3)) {
    CAPTURE(seed);
    Random random(seed);
    Machine machine(mode);
    check_stores(machine, random, 60, true);
  }
}

}  // namespace system_tensor_random_test
