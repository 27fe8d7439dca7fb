// Requests that break a rule, memory that answers with an error, and corrupt data, on a whole machine (TMA-06).
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/memory_socket.h"
#include "memory/plain_memory.h"
#include "support/cluster_lab.h"
#include "support/tensor_lab.h"

namespace system_tensor_error_test {

using namespace heddle::test;
namespace arch = heddle::arch;
using arch::BulkKind;
using arch::BulkRequest;
using arch::OpCode;
using arch::Space;
using arch::TensorDescriptor;
using arch::TensorRule;

namespace {

constexpr std::uint64_t kDescriptors = 0x10000;
constexpr std::uint64_t kTensor = 0x20000;
constexpr std::uint64_t kGood = 0x40000;     // what the other requests bring
constexpr std::uint64_t kResults = 0x50000;  // a word for every CTA
constexpr std::uint64_t kOut = 0x100000;     // windows
constexpr std::uint32_t kWindow = 4096;
constexpr std::uint32_t kBad = 1024;   // where data of the broken request would go
constexpr std::uint32_t kFine = 3072;  // and those of the other one
constexpr std::uint32_t kFineBytes = 256;

TensorDescriptor sound() {
  TensorDescriptor tensor;
  tensor.type = arch::TensorType::f16;
  tensor.rank = 4;
  tensor.address = kTensor;
  tensor.size = {64, 8, 8, 2, 1};
  tensor.stride = {0, 128, 1024, 8192, 0};
  tensor.box = {32, 4, 2, 1, 1};
  return tensor;
}

struct Violation {
  TensorRule rule;
  std::function<void(TensorDescriptor&)> spoil;  // the descriptor
  std::function<void(BulkRequest&)> ask = {};    // the request
};

void interleave(TensorDescriptor& tensor, arch::Interleave by) {
  tensor.interleave = by;
  tensor.swizzle = by == arch::Interleave::bytes32 ? arch::Swizzle::bytes32 : arch::Swizzle::none;
  tensor.size = {4, 8, 8, 2, 1};
  tensor.stride = {4096, 32, 512, 16384, 0};
  tensor.box = {1, 4, 2, 1, 1};
}

std::vector<Violation> violations() {
  const auto nothing = [](TensorDescriptor&) {};
  return {
      {TensorRule::rank, [](TensorDescriptor& t) { t.rank = 0; }},
      {TensorRule::rank, [](TensorDescriptor& t) { t.rank = 6; }},
      {TensorRule::rank_layout,
       [](TensorDescriptor& t) {
         t.rank = 2;
         t.mode = arch::TensorMode::im2col;
       }},
      {TensorRule::rank_layout,
       [](TensorDescriptor& t) {
         interleave(t, arch::Interleave::bytes16);
         t.rank = 2;
       }},
      {TensorRule::address, [](TensorDescriptor& t) { t.address += 8; }},
      {TensorRule::address,
       [](TensorDescriptor& t) {
         interleave(t, arch::Interleave::bytes32);
         t.address += 16;
       }},
      {TensorRule::extent, [](TensorDescriptor& t) { t.size[2] = 0; }},
      {TensorRule::extent, [](TensorDescriptor& t) { t.size[3] = (std::uint64_t{1} << 32) + 1; }},
      {TensorRule::stride_alignment, [](TensorDescriptor& t) { t.stride[2] += 8; }},
      {TensorRule::stride_alignment,
       [](TensorDescriptor& t) {
         interleave(t, arch::Interleave::bytes32);
         t.stride[2] += 16;
       }},
      {TensorRule::stride_range, [](TensorDescriptor& t) { t.stride[3] = std::uint64_t{1} << 40; }},
      {TensorRule::packed, [](TensorDescriptor& t) { t.type = arch::TensorType::u6x16_padded; }},
      {TensorRule::wide,
       [](TensorDescriptor& t) {
         t.mode = arch::TensorMode::im2col_w;
         t.channels = 32;
       }},
      {TensorRule::empty_box,
       [](TensorDescriptor& t) {
         t.mode = arch::TensorMode::im2col;
         t.channels = 32;
         t.base_corner[0] = 100;
       }},
      {TensorRule::base_outside,
       [](TensorDescriptor& t) {
         t.mode = arch::TensorMode::im2col;
         t.channels = 32;
       },
       [](BulkRequest& r) { r.coordinates[1] = -1; }},
      {TensorRule::shared_alignment, nothing, [](BulkRequest& r) { r.shared += 16; }},
      {TensorRule::gather, nothing, [](BulkRequest& r) { r.four_rows = true; }},
      {TensorRule::box, [](TensorDescriptor& t) { t.box[1] = 0; }},
      {TensorRule::box, [](TensorDescriptor& t) { t.box[1] = 257; }},
      {TensorRule::box,
       [](TensorDescriptor& t) {
         t.mode = arch::TensorMode::im2col;
         t.channels = 32;
         t.pixels = 1025;
       }},
      {TensorRule::inner_bytes, [](TensorDescriptor& t) { t.box[0] = 12; }},
      {TensorRule::inner_swizzle, [](TensorDescriptor& t) { t.swizzle = arch::Swizzle::bytes32; }},
      {TensorRule::traversal, [](TensorDescriptor& t) { t.traversal[1] = 0; }},
      {TensorRule::traversal, [](TensorDescriptor& t) { t.traversal[1] = 9; }},
      {TensorRule::nan_fill,
       [](TensorDescriptor& t) {
         t.type = arch::TensorType::u16;
         t.fill = arch::Fill::nan;
       }},
      {TensorRule::interleave_swizzle,
       [](TensorDescriptor& t) {
         interleave(t, arch::Interleave::bytes32);
         t.swizzle = arch::Swizzle::none;
       }},
      {TensorRule::corner,
       [](TensorDescriptor& t) {
         t.mode = arch::TensorMode::im2col;
         t.channels = 32;
         t.base_corner[0] = -129;
       }},
      {TensorRule::unmapped, [](TensorDescriptor& t) { t.address = std::uint64_t{1} << 30; }},
      {TensorRule::unmapped, nothing, [](BulkRequest& r) { r.descriptor = std::uint64_t{1} << 40; }},
      {TensorRule::encoding, nothing, [](BulkRequest& r) { r.descriptor = kGood; }},
      {TensorRule::descriptor_address, nothing, [](BulkRequest& r) { r.descriptor += 32; }},
      {TensorRule::shared_address, nothing, [](BulkRequest& r) { r.shared += 8; }},
      {TensorRule::shared_address, nothing, [](BulkRequest& r) { r.shared = kWindow - 256; }},
      {TensorRule::barrier_address, nothing, [](BulkRequest& r) { r.barrier = 4; }},
      {TensorRule::barrier_address, nothing, [](BulkRequest& r) { r.barrier = kWindow; }},
      {TensorRule::barrier_address, nothing, [](BulkRequest& r) { r.barrier.reset(); }},
      {TensorRule::receivers, nothing, [](BulkRequest& r) { r.multicast = 2; }},
      {TensorRule::address_word, nothing, [](BulkRequest& r) { r.shared = 1U << 24; }},
      {TensorRule::mask_word, nothing, [](BulkRequest& r) { r.multicast = 1U << 16; }},
      {TensorRule::receivers, nothing, [](BulkRequest& r) { r.data_cta = r.barrier_cta = 3; }},
      {TensorRule::block_address, nothing,
       [](BulkRequest& r) { r = block_request(BulkKind::load, kGood + 8, 64, r.shared, r.barrier); }},
      {TensorRule::unmapped, nothing,
       [](BulkRequest& r) {
         r = block_request(BulkKind::load, (std::uint64_t{1} << 30) - 16, 32, r.shared, r.barrier);
       }},
      {TensorRule::shared_address, nothing,
       [](BulkRequest& r) { r = block_request(BulkKind::load, kGood, 32, kWindow - 16, r.barrier); }},
  };
}

BulkRequest broken(const std::vector<Violation>& all, std::uint64_t number) {
  BulkRequest request = tensor_request(BulkKind::load, kDescriptors + 128 * number, {0, 1, 1, 0, 0}, kBad, 0);
  if (all[number].ask) all[number].ask(request);
  return request;
}

// A request that breaks a rule, and one that does not.
std::shared_ptr<ListProgram> violator(const std::vector<Violation>& all) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_init(8, 1);
  p.mbarrier_arrive(Space::shared, 0, 1, 64);
  p.mbarrier_arrive(Space::shared, 8, 1, kFineBytes);
  for (const bool tensor : {true, false}) {
    only_if(
        p, [=](const Warp& warp) { return broken(all, warp.place.cta).tensor == tensor; },
        [=](ListProgram& q) {
          bulk(q, tensor ? OpCode::tensor_load : OpCode::bulk_load,
               [all](const Warp& warp) { return broken(all, warp.place.cta); });
        });
  }
  bulk(p, OpCode::bulk_load, [](const Warp&) { return block_request(BulkKind::load, kGood, kFineBytes, kFine, 8); });
  p.mbarrier_wait(8, 0);
  bulk_drain(p);
  p.mbarrier_test(0, 0, 0);
  p.store(one_lane(Space::global), ListProgram::of_register(0),
          [](const Warp& warp, std::uint32_t) { return kResults + 4 * warp.place.cta; }, {{0, 1}});
  copy_out(p, 16, kWindow - 16, [](const Warp& warp) { return kOut + kWindow * warp.place.cta; });
  p.exit();
  return program;
}

struct Machine {
  explicit Machine(std::vector<std::string> sets) : lab(preset_params("small", sets)) {
    for (std::uint32_t i = 0; i < kFineBytes; i += 4) lab.write<std::uint32_t>(kGood + i, 0x0101'0101U * (i / 4 + 1));
    for (std::uint32_t i = 0; i < 32'768; i += 4) lab.write<std::uint32_t>(kTensor + i, 0xA0A0'0000U + i);
  }
  SimFixture sim;
  GpuLab lab;
};

}  // namespace

TEST_CASE("a request that breaks a rule is dropped whole, and the others go on", "[system][TMA-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  Machine machine({"gpu.sm.tensor_errors=report", "gpu.timing=" + mode});
  GpuLab& lab = machine.lab;
  const std::vector<Violation> all = violations();
  const auto count = static_cast<std::uint32_t>(all.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    TensorDescriptor tensor = sound();
    all[i].spoil(tensor);
    write_descriptor(lab, kDescriptors + 128 * i, tensor);
    lab.write<std::uint32_t>(kResults + 4 * i, 77);
  }
  lab.run(violator(all), {count, 1, 1}, {32, 1, 1}, kWindow);
  lab.gpu.check_quiescent();
  std::string texts;
  for (const auto& fault : lab.gpu.log().faults()) texts += arch::text_of(fault) + "\n";
  INFO(texts);
  REQUIRE(lab.gpu.log().faults().size() == count);
  std::vector<std::uint32_t> seen(count);
  for (const auto& fault : lab.gpu.log().faults()) {
    CAPTURE(arch::text_of(fault));
    CHECK(fault.kind == arch::FaultKind::tensor);
    CHECK(fault.rule == all[fault.cta].rule);
    CHECK_FALSE(fault.fatal);
    CHECK(fault.operation == (broken(all, fault.cta).tensor ? OpCode::tensor_load : OpCode::bulk_load));
    CHECK(arch::text_of(fault).find(arch::rule_key(all[fault.cta].rule)) != std::string::npos);
    ++seen[fault.cta];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    CAPTURE(i, arch::rule_key(all[i].rule));
    CHECK(seen[i] == 1);
    CHECK(lab.read<std::uint32_t>(kResults + 4 * i) == 0);  // its barrier has not completed
    const std::uint64_t window = kOut + std::uint64_t{kWindow} * i - 16;
    for (std::uint32_t at = 16; at + 4 <= kWindow; at += 4) {
      const bool fine = at >= kFine && at < kFine + kFineBytes;
      const std::uint32_t expected = fine ? 0x0101'0101U * ((at - kFine) / 4 + 1) : 0;
      if (lab.read<std::uint32_t>(window + 16 + at - 16) != expected) FAIL("offset " << at);
    }
  }
}

TEST_CASE("every rule of the specification is among those that are violated", "[system][TMA-06]") {
  std::vector<bool> seen(arch::kTensorRules);
  for (const Violation& violation : violations()) seen[static_cast<std::size_t>(violation.rule)] = true;
  for (auto rule = static_cast<std::size_t>(TensorRule::encoding); rule < arch::kTensorRules; ++rule) {
    CAPTURE(arch::rule_key(static_cast<TensorRule>(rule)));
    switch (static_cast<TensorRule>(rule)) {
      case TensorRule::barrier_cta:  // of clusters, or of other kinds of request: they have cases of their own
      case TensorRule::receivers_share_sm:
      case TensorRule::reduction:
      case TensorRule::flip_store:
      case TensorRule::inner_address:  // reported alone
        break;
      default:
        CHECK(seen[rule]);
    }
  }
}

TEST_CASE("by default a broken rule is a fault that stops the kernel", "[system][TMA-06]") {
  Machine machine({});
  GpuLab& lab = machine.lab;
  std::vector<Violation> all = violations();
  TensorDescriptor tensor = sound();
  all[4].spoil(tensor);
  write_descriptor(lab, kDescriptors, tensor);
  all[0] = all[4];
  lab.write<std::uint32_t>(kResults, 77);
  const std::uint32_t operation = lab.run(violator(all), {1, 1, 1}, {32, 1, 1}, kWindow);
  lab.gpu.check_quiescent();
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].fatal);
  CHECK(lab.gpu.log().faults()[0].rule == TensorRule::address);
  CHECK(lab.gpu.log().faults()[0].task == operation);
  CHECK(lab.read<std::uint32_t>(kResults) == 77);
  // The machine goes on.
  write_descriptor(lab, kDescriptors, sound());
  auto next = std::make_shared<ListProgram>(4);
  next->mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, sound().box_bytes());
  bulk(*next, OpCode::tensor_load, [](const Warp&) {
    return tensor_request(BulkKind::load, kDescriptors, {0, 0, 0, 0, 0}, kBad, 0);
  });
  next->mbarrier_wait(0, 0);
  copy_out(*next, kBad, 64, [](const Warp&) { return kOut; });
  next->exit();
  lab.run(next, {1, 1, 1}, {32, 1, 1}, kWindow);
  INFO(arch::text_of(lab.gpu.log().faults().back()));
  CHECK(lab.gpu.log().faults().size() == 1);
  CHECK(lab.read<std::uint32_t>(kOut + 8) == 0xA0A0'0008U);
  lab.gpu.check_quiescent();
}

TEST_CASE("a store of a box that is longer than shared memory writes nothing", "[system][TMA-06]") {
  Machine machine({"gpu.sm.tensor_errors=report"});
  GpuLab& lab = machine.lab;
  write_descriptor(lab, kDescriptors, sound());
  auto program = std::make_shared<ListProgram>(4);
  bulk(*program, OpCode::tensor_store, [](const Warp&) {
    return tensor_request(BulkKind::store, kDescriptors, {0, 0, 0, 0, 0}, kWindow - 128);
  });
  program->exit();
  lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].rule == TensorRule::shared_address);
  CHECK(lab.read<std::uint32_t>(kTensor) == 0xA0A0'0000U);
  lab.gpu.check_quiescent();
}

TEST_CASE("kernels see descriptors that were written before they began, whatever their number", "[system][TMA-04]") {
  Machine machine({});
  GpuLab& lab = machine.lab;
  const auto loader = [] {
    auto program = std::make_shared<ListProgram>(4);
    program->mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, sound().box_bytes());
    bulk(*program, OpCode::tensor_load, [](const Warp&) {
      return tensor_request(BulkKind::load, kDescriptors, {0, 0, 0, 0, 0}, kBad, 0);
    });
    program->mbarrier_wait(0, 0);
    copy_out(*program, kBad, 64, [](const Warp&) { return kOut; });
    program->exit();
    return program;
  };
  // The one that is submitted first has the higher number.
  const auto low = lab.packet(loader(), {1, 1, 1}, {32, 1, 1}, kWindow);
  const auto high = lab.packet(loader(), {1, 1, 1}, {32, 1, 1}, kWindow);
  TensorDescriptor tensor = sound();
  for (const auto& packet : {high, low}) {
    write_descriptor(lab, kDescriptors, tensor);
    lab.submit(packet);
    run_until_idle();
    CHECK(lab.read<std::uint32_t>(kOut) == 0xA0A0'0000U + (tensor.address - kTensor));
    tensor.address += 4096;
  }
  CHECK(lab.gpu.log().faults().empty());
  lab.gpu.check_quiescent();
}

TEST_CASE("a store or reduction that breaks a rule writes nothing", "[system][TMA-06][TMA-07]") {
  Machine machine({"gpu.sm.tensor_errors=report"});
  GpuLab& lab = machine.lab;
  TensorDescriptor tensor = sound();
  write_descriptor(lab, kDescriptors, tensor);  // f16: no inc
  tensor.box[0] = 12;
  write_descriptor(lab, kDescriptors + 128, tensor);
  auto program = std::make_shared<ListProgram>(4);
  copy_in(*program, 0, 1024, [](const Warp&) { return kGood; });
  bulk(*program, OpCode::tensor_reduce, [](const Warp&) {
    BulkRequest request = tensor_request(BulkKind::reduce, kDescriptors, {0, 0, 0, 0, 0}, 0);
    request.reduction = arch::AtomicKind::increment;
    return request;
  });
  bulk(*program, OpCode::tensor_store, [](const Warp&) {
    return tensor_request(BulkKind::store, kDescriptors + 128, {0, 0, 0, 0, 0}, 0);
  });
  bulk_commit(*program);
  bulk_wait(*program, 0);  // a dropped request does not keep its group open
  program->exit();
  lab.run(program, {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(lab.gpu.log().faults().size() == 2);
  CHECK(lab.gpu.log().faults()[0].rule == TensorRule::reduction);
  CHECK(lab.gpu.log().faults()[1].rule == TensorRule::inner_bytes);
  for (std::uint32_t i = 0; i < 32'768; i += 4) {
    if (lab.read<std::uint32_t>(kTensor + i) != 0xA0A0'0000U + i) FAIL("offset " << i);
  }
  lab.gpu.check_quiescent();
}

namespace {

// One box, and whether its barrier completed: 1 or 0 at kResults.
std::shared_ptr<ListProgram> one_box(std::uint32_t bytes, bool read_data) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, bytes);
  bulk(p, OpCode::tensor_load, [](const Warp&) {
    return tensor_request(BulkKind::load, kDescriptors, {0, 0, 0, 0, 0}, kBad, 0);
  });
  bulk_drain(p);
  p.mbarrier_test(0, 0, 0);
  p.store(one_lane(Space::global), ListProgram::of_register(0), ListProgram::linear(kResults, 0), {{0, 1}});
  if (read_data) copy_out(p, kBad, bytes, [](const Warp&) { return kOut; });
  p.exit();
  return program;
}

}  // namespace

TEST_CASE("a poisoned response poisons shared memory, and the barrier completes", "[system][TMA-06][TMA-40]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  Machine machine({"gpu.timing=" + mode});
  GpuLab& lab = machine.lab;
  write_descriptor(lab, kDescriptors, sound());
  lab.write<std::uint32_t>(kResults, 77);
  const auto bytes = static_cast<std::uint32_t>(sound().box_bytes());
  // Warm, so that the L2 has the line, and sound.
  lab.run(one_box(bytes, true), {1, 1, 1}, {32, 1, 1}, kWindow);
  CHECK(lab.gpu.log().faults().empty());
  REQUIRE(lab.gpu.memory().poison(kTensor + 128 + 32, 4));
  lab.run(one_box(bytes, false), {1, 1, 1}, {32, 1, 1}, kWindow);
  CHECK(lab.gpu.log().faults().empty());  // nobody has read it
  CHECK(lab.read<std::uint32_t>(kResults) == 1);
  lab.run(one_box(bytes, true), {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].kind == arch::FaultKind::poison);
  CHECK(lab.gpu.log().faults()[0].operation == OpCode::load);
  lab.gpu.check_quiescent();
}

TEST_CASE("a fault in mid-box: the rest of the box arrives, the barrier stays incomplete", "[system][TMA-06][MEM-02]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.sm.tensor_errors=report", "gpu.timing=" + mode, "gpu.memory=2 MiB"}),
             heddle::gpu::DeviceMemory::attached);
  PlainMemory memory("foreign", 2 << 20, sc_core::sc_time(300, sc_core::SC_NS), lab.gpu.params().l2.slices);
  for (std::uint32_t s = 0; s < lab.gpu.params().l2.slices; ++s) lab.gpu.memory_out(s).bind(memory.socket(s));
  const auto descriptor = arch::encode(sound());
  std::memcpy(&memory.bytes[kDescriptors], descriptor.data(), descriptor.size());
  for (std::uint32_t i = 0; i < 32'768; ++i) memory.bytes[kTensor + i] = static_cast<std::uint8_t>(i / 128 + 1);
  const std::uint64_t hole = kTensor + 2 * 128;  // the third row of the box
  memory.fail_line(hole);
  const auto bytes = static_cast<std::uint32_t>(sound().box_bytes());
  lab.run(one_box(bytes, true), {1, 1, 1}, {32, 1, 1}, kWindow);
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].kind == arch::FaultKind::address);
  CHECK(lab.gpu.log().faults()[0].operation == OpCode::tensor_load);
  CHECK(arch::line_of(lab.gpu.log().faults()[0].address) == hole);
  CHECK(lab.read<std::uint32_t>(kResults) == 0);
  for (std::uint32_t row = 0; row < 8; ++row) {
    CAPTURE(row);
    const std::uint32_t at = row % 4 + 8 * (row / 4);  // row of the tensor
    const std::uint32_t expected = row == 2 ? 0 : 0x0101'0101U * (at + 1);
    CHECK(lab.read<std::uint32_t>(kOut + 64 * row) == expected);
    CHECK(lab.read<std::uint32_t>(kOut + 64 * row + 60) == expected);
  }
  lab.gpu.check_quiescent();
}

}  // namespace system_tensor_error_test
