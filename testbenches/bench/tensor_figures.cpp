// The figures of docs/results/tmau.md, all from one run: what bulk requests cost and save, measured by programs that
// run on the model. They are simulated, so they are the same on every computer. Prints Markdown.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/tensor_curves.h"
#include "bench/tensor_gemm.h"
#include "bench/tensor_probes.h"
#include "support/cluster_lab.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using namespace heddle::probes;

constexpr const char* kPreset = "h100-sxm";
constexpr double kClock = 1.755;  // GHz
constexpr std::uint32_t kSms = 132;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

bool all_within = true;

double sum_of(const GpuLab& lab, const std::string& ending) {
  double sum = 0;
  const auto json = lab.observation.stats.to_json();
  for (const auto& [path, stat] : json.items()) {
    const bool ends =
        path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
    if (ends && stat.contains("value")) sum += stat.at("value").get<double>();
  }
  return sum;
}

// Of all tensor memory access units.
double of_units(const GpuLab& lab, const std::string& ending) {
  double sum = 0;
  const auto json = lab.observation.stats.to_json();
  for (const auto& [path, stat] : json.items()) {
    const bool ends =
        path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
    if (ends && path.find(".tmau") != std::string::npos) sum += stat.at("value").get<double>();
  }
  return sum;
}

double l2_requests(const GpuLab& lab) {
  double sum = 0;
  const auto json = lab.observation.stats.to_json();
  for (const auto& [path, stat] : json.items()) {
    const bool of_slice = path.find(".l2.slice") != std::string::npos;
    if (of_slice && path.find(".requests") != std::string::npos) sum += stat.at("value").get<double>();
  }
  return sum;
}

GpuLab& no_faults(GpuLab& lab) {
  for (const auto& fault : lab.gpu.log().faults()) print(arch::text_of(fault) + "\n");
  HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
  lab.gpu.check_quiescent();
  return lab;
}

// Cycles of one load after another by one thread; lines are in the L2.
double round_trip(std::uint32_t bytes, const std::vector<std::string>& sets = {}, const std::string& preset = kPreset) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(preset, sets));
  constexpr std::uint64_t kCount = 64;
  const std::uint64_t span = std::uint64_t{16} * std::max(bytes, arch::kLineBytes);
  // 16-byte loads from lines of their own, as those that they are compared with.
  const MakeRequest make = [=](const Warp&, std::uint64_t index, std::uint32_t) {
    return test::block_request(BulkKind::load, kData + index * std::max(bytes, arch::kLineBytes) % span, bytes, 0);
  };
  lab.run(load_stream(kCount, kCount, 1, bytes, make), {1, 1, 1}, {32, 1, 1}, kShared + bytes);
  return noted(no_faults(lab)) / kCount;
}

// The same lines by plain loads that the L2 serves.
double plain_load(const std::string& preset) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(preset));
  std::vector<std::uint64_t> lines(16);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = kData + i * arch::kLineBytes;
  ListProgram::Access access;
  access.order = arch::Order::relaxed;
  lab.run(chase(make_ring(lab, lines), 64, 64, access), {1, 1, 1}, {32, 1, 1});
  return noted(no_faults(lab)) / 64;
}

void latency() {
  const double plain = plain_load("h800");
  const double bulk_16 = round_trip(16, {}, "h800");
  const double extra = bulk_16 - plain;
  const bool within = std::abs(extra - 105) <= 0.05 * 105;
  all_within = all_within && within;
  print("## A load of 16 bytes (h800)\n\n| quantity | model | published | difference |\n| --- | --- | --- | --- |\n");
  print(
      fmt::format("| plain load, L2 hit | {:.1f} cycles | 264 cycles | {:+.1f} % |\n", plain, 100 * (plain / 264 - 1)));
  print(fmt::format("| bulk load with its wait, L2 hit | {:.1f} cycles | 369 cycles | {:+.1f} % |\n", bulk_16,
                    100 * (bulk_16 / 369 - 1)));
  print(fmt::format("| difference | {:.1f} cycles | 105 cycles | {:+.1f} % |\n", extra, 100 * (extra / 105 - 1)));
}

void by_size() {
  print("\n## One in flight\n\n| bytes | round trip, cycles | bytes per cycle |\n| --- | --- | --- |\n");
  for (const std::uint32_t bytes : {16U, 128U, 1024U, 4096U, 16'384U, 65'536U}) {
    const double cycles = round_trip(bytes);
    print(fmt::format("| {} | {:.0f} | {:.1f} |\n", bytes, cycles, bytes / cycles));
  }
}

// Bytes per cycle of the whole machine: every SM has that many requests in flight, from data in the L2.
double bandwidth(std::uint32_t bytes, std::uint32_t in_flight, const std::vector<std::string>& sets = {}) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(kPreset, sets));
  const std::uint64_t per_cta = 131'072;
  const std::uint64_t count = std::max<std::uint64_t>(2 * in_flight, 131'072 / bytes / in_flight * in_flight);
  const std::uint64_t warm = (per_cta / bytes + in_flight - 1) / in_flight * in_flight;
  const auto kernel = [&](std::uint64_t requests) {
    const std::uint32_t operation = lab.run(load_stream(0, requests, in_flight, bytes, blocks(bytes, per_cta, per_cta)),
                                            {kSms, 1, 1}, {32, 1, 1}, std::max(120'000U, kShared + in_flight * bytes));
    no_faults(lab);
    return lab.cycles(operation);
  };
  kernel(warm);
  const double once = kernel(count);
  return static_cast<double>(count) * bytes * kSms / (kernel(2 * count) - once);
}

void whole_gpu() {
  print(
      "\n## Whole GPU, from the L2\n\n| bytes per request | in flight per SM | bytes per cycle | per SM | at 1.755 GHz "
      "|\n| --- | --- | --- | --- | --- |\n");
  for (const auto& [bytes, in_flight] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {128, 1}, {128, 8}, {1024, 4}, {4096, 2}, {16'384, 2}, {16'384, 4}, {32'768, 4}}) {
    const double rate = bandwidth(bytes, in_flight);
    print(fmt::format("| {} | {} | {:.0f} | {:.1f} | {:.2f} TB/s |\n", bytes, in_flight, rate, rate / kSms,
                      rate * kClock / 1000));
  }
}

// A figure beside its measurement, which it has to meet within a tenth; `parameter`: which one the row has set, or
// none.
void curve_row(const std::string& name, double model, double published, const char* unit, const char* parameter) {
  const bool within = std::abs(model / published - 1) <= 0.1;
  all_within = all_within && within;
  print(fmt::format("| {} | {:.{}f} {} | {:.{}f} {} | {:+.1f} % | {} |\n", name, published, published < 100 ? 2 : 0,
                    unit, model, published < 100 ? 2 : 0, unit, 100 * (model / published - 1),
                    parameter == nullptr ? "" : fmt::format("`{}`", parameter)));
  if (!within) std::fputs(fmt::format("{}: {:.3g} against {:.3g}\n", name, model, published).c_str(), stderr);
}

constexpr const char* kCurveHead =
    "\n| what | measured | model | difference | has set |\n| --- | --- | --- | --- | --- |\n";

// One request of 1 to 64 KiB.
void sizes() {
  struct Of {
    const char* name;
    Curve curve;
    BulkKind kind;
    std::array<double, kCurveKib.size()> published;  // bytes per cycle; 0: not published
    const char* first;                               // parameters
    const char* last;
  };
  print("\n## Requests of 1 to 64 KiB\n");
  print(kCurveHead);
  for (const Of& of : {Of{"block load",
                          Curve::block,
                          BulkKind::load,
                          {1.81, 6.27, 10.77, 17.39, 25.5, 31.6},
                          nullptr,
                          "gpu.tmau.block_rate"},
                       Of{"tensor load",
                          Curve::rows,
                          BulkKind::load,
                          {1.74, 6.53, 12.72, 21.38, 36.93, 55.46},
                          "gpu.tmau.setup_loop",
                          "gpu.tmau.rate"},
                       Of{"tensor load, rows of 144 bytes",
                          Curve::padded,
                          BulkKind::load,
                          {1.73, 6.31, 10.69, 18.10, 25.73, 34.21},
                          nullptr,
                          "gpu.tmau.rate"},
                       Of{"block store",
                          Curve::block,
                          BulkKind::store,
                          {3.78, 0, 0, 0, 0, 17.25},
                          nullptr,
                          "gpu.tmau.block_store_rate"},
                       Of{"tensor store",
                          Curve::rows,
                          BulkKind::store,
                          {3.46, 0, 0, 0, 0, 28.82},
                          "gpu.tmau.setup_loop",
                          "gpu.tmau.store_rate"},
                       Of{"block reduction", Curve::block, BulkKind::reduce, {}, nullptr, nullptr},
                       Of{"tensor reduction", Curve::rows, BulkKind::reduce, {}, nullptr, nullptr}}) {
    for (std::size_t i = 0; i < kCurveKib.size(); ++i) {
      const std::uint32_t bytes = kCurveKib[i] * 1024;
      const double cycles = turn_cycles(kPreset, of.curve, of.kind, bytes);
      const std::string name = fmt::format("{}, {} KiB", of.name, kCurveKib[i]);
      if (of.published[i] == 0) {
        print(fmt::format("| {} | | {:.0f} cycles | | |\n", name, cycles));
        continue;
      }
      const bool last = i + 1 == kCurveKib.size();
      curve_row(name, cycles, bytes / of.published[i], "cycles", last ? of.last : i == 0 ? of.first : nullptr);
    }
  }
}

void multicast_curves() {
  print("\n## Multicast against measurements\n");
  print(kCurveHead);
  for (const auto& [ctas, published] :
       std::vector<std::pair<std::uint32_t, double>>{{1, 3.8}, {2, 5.06}, {4, 4.77}, {8, 5.05}}) {
    curve_row(fmt::format("whole machine, clusters of {}: delivered", ctas), multicast_rate(ctas), published, "TB/s",
              ctas == 2 ? "gpu.xbar.copies" : nullptr);
  }
  for (const std::uint32_t ctas : {2U, 4U, 8U}) {
    curve_row(fmt::format("one cluster of {}: source against that of one receiver", ctas), multicast_source(ctas), 0.89,
              "", nullptr);
  }
  for (const std::uint32_t ctas : {2U, 4U, 8U}) {
    const double inside = k_tile_cycles(ctas, false);
    const double outside = k_tile_cycles(ctas, true);
    const std::string name = fmt::format("K tile, cluster of {}, A ", ctas);
    curve_row(name + "inside", inside, 512, "cycles", nullptr);
    // 690 to 800 cycles, of a cluster whose size is not published.
    if (ctas == 4) {
      curve_row(name + "outside (690 to 800)", outside, 745, "cycles", nullptr);
    } else {
      print(fmt::format("| {}outside | | {:.0f} cycles | | |\n", name, outside));
    }
  }
}

struct Shape {
  const char* name;
  std::array<std::uint32_t, 3> box;
  arch::Swizzle swizzle;
};

arch::TensorDescriptor tensor_of(const Shape& shape) {
  arch::TensorDescriptor tensor;
  tensor.type = arch::TensorType::bf16;
  tensor.rank = 3;
  tensor.swizzle = shape.swizzle;
  tensor.address = kData;
  tensor.size = {1024, 256, 64, 1, 1};
  tensor.stride = {0, 2048, 2048 * 256, 0, 0};
  for (std::size_t d = 0; d < 3; ++d) tensor.box[d] = shape.box[d];
  return tensor;
}

// One box after another by one thread, from the L2: cycles and line requests of each.
void box_shapes() {
  print(
      "\n## Boxes of 16 KiB, one in flight\n\n| box (bf16, innermost first) | bytes of a row | line requests | round "
      "trip, cycles |\n| --- | --- | --- | --- |\n");
  const std::vector<Shape> shapes{{"64 x 128 x 1, swizzle 128", {64, 128, 1}, arch::Swizzle::bytes128},
                                  {"64 x 16 x 8, swizzle 128", {64, 16, 8}, arch::Swizzle::bytes128},
                                  {"256 x 32 x 1", {256, 32, 1}, arch::Swizzle::none},
                                  {"32 x 256 x 1, swizzle 64", {32, 256, 1}, arch::Swizzle::bytes64},
                                  {"8 x 32 x 32", {8, 32, 32}, arch::Swizzle::none}};
  for (const Shape& shape : shapes) {
    test::SimFixture sim;
    GpuLab lab(test::preset_params(kPreset));
    const arch::TensorDescriptor tensor = tensor_of(shape);
    test::write_descriptor(lab, kTensors, tensor);
    const auto bytes = static_cast<std::uint32_t>(tensor.box_bytes());
    const MakeRequest make = [](const Warp&, std::uint64_t, std::uint32_t) {
      return test::tensor_request(BulkKind::load, kTensors, {0, 0, 0, 0, 0}, 0);
    };
    lab.run(load_stream(8, 8, 1, bytes, make, OpCode::tensor_load), {1, 1, 1}, {32, 1, 1}, kShared + bytes);
    const double cycles = noted(no_faults(lab)) / 8;
    print(fmt::format("| {} | {} | {:.0f} | {:.0f} |\n", shape.name, 2 * shape.box[0], of_units(lab, ".lines") / 16,
                      cycles));
  }
}

// Boxes of 16 KiB of f32 that come from memory, one under way on each SM: bytes per cycle.
double loaded_rate(const std::array<std::uint32_t, 3>& box) {
  constexpr std::uint32_t kBoxes = 12;  // of each CTA
  test::SimFixture sim;
  GpuLab lab(test::preset_params(kPreset));
  arch::TensorDescriptor tensor;
  tensor.type = arch::TensorType::f32;
  tensor.rank = 3;
  tensor.address = kData;
  tensor.size = {256, 256, 1024, 1, 1};
  tensor.stride = {0, 1024, 256 * 1024, 0, 0};
  for (std::size_t d = 0; d < 3; ++d) tensor.box[d] = box[d];
  test::write_descriptor(lab, kTensors, tensor);
  const MakeRequest make = [box](const Warp& warp, std::uint64_t index, std::uint32_t) {
    const std::uint64_t number = index * static_cast<std::uint64_t>(kSms) + warp.place.cta;
    const std::uint64_t columns = 256 / box[0];
    const std::uint64_t rows = 256 / box[1];
    const auto at = [](std::uint64_t tile, std::uint32_t size) { return static_cast<std::int32_t>(tile * size); };
    return test::tensor_request(
        BulkKind::load, kTensors,
        {at(number % columns, box[0]), at(number / columns % rows, box[1]), at(number / columns / rows, box[2]), 0, 0},
        0);
  };
  const auto ctas = static_cast<std::uint32_t>(kSms);
  const auto cycles = [&](std::uint32_t boxes) {
    const std::uint32_t operation = lab.run(load_stream(0, boxes, 1, 16'384, make, OpCode::tensor_load), {ctas, 1, 1},
                                            {32, 1, 1}, kShared + 16'384);
    no_faults(lab);
    return lab.cycles(operation);
  };
  return kSms * kBoxes * 16'384 / cycles(kBoxes);
}

void boxes_under_load() {
  print(
      "\n## Boxes of 16 KiB, one on each SM\n\n| box (f32, innermost first) | bytes of a row | measured | model | "
      "bytes "
      "per cycle |\n| --- | --- | --- | --- | --- |\n");
  struct Of {
    std::array<std::uint32_t, 3> box;
    const char* published;
  };
  double whole = 0;
  for (const Of& of :
       {Of{{256, 16, 1}, "1"}, Of{{16, 16, 16}, "0.86"}, Of{{16, 256, 1}, "0.83"}, Of{{4, 4, 256}, "0.58"}}) {
    const double rate = loaded_rate(of.box);
    if (whole == 0) whole = rate;
    print(fmt::format("| {} x {} x {} | {} | {} | {:.2f} | {:.0f} |\n", of.box[0], of.box[1], of.box[2], 4 * of.box[0],
                      of.published, rate / whole, rate));
  }
}

// Small boxes of several tensors in turn, with a cache that holds all descriptors or none.
double descriptor_cycles(std::uint32_t tensors, std::uint32_t entries, std::uint32_t in_flight) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(kPreset, {fmt::format("gpu.tmau.descriptors={}", entries)}));
  const Shape shape{"", {64, 1, 1}, arch::Swizzle::none};
  for (std::uint32_t t = 0; t < tensors; ++t) test::write_descriptor(lab, kTensors + 128 * t, tensor_of(shape));
  const MakeRequest make = [tensors](const Warp&, std::uint64_t index, std::uint32_t) {
    return test::tensor_request(BulkKind::load, kTensors + 128 * (index % tensors), {0, 0, 0, 0, 0}, 0);
  };
  lab.run(load_stream(64, 256, in_flight, 128, make, OpCode::tensor_load), {1, 1, 1}, {32, 1, 1},
          kShared + in_flight * 128);
  return noted(no_faults(lab)) / 256;
}

void descriptors() {
  print(
      "\n## Descriptors\n\nLoads of 128 bytes from the L2, each with the descriptor of another of 8 tensors.\n\n| "
      "descriptor cache | in flight | cycles per load |\n| --- | --- | --- |\n");
  for (const std::uint32_t in_flight : {1U, 4U, 8U}) {
    print(fmt::format("| 16 entries: hits | {} | {:.0f} |\n", in_flight, descriptor_cycles(8, 16, in_flight)));
    print(fmt::format("| 4 entries: misses | {} | {:.0f} |\n", in_flight, descriptor_cycles(8, 4, in_flight)));
  }
}

// Warp 0 brings tiles of 16 KiB, warp 1 takes them. In a cluster each CTA brings its part of every tile to all.
std::shared_ptr<ListProgram> multicast_stream(std::uint32_t ctas, std::uint32_t tiles, std::uint32_t stages) {
  constexpr std::uint32_t kTile = 16'384;
  constexpr std::uint32_t kEmpty = 256;
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  test::Sync sync;
  sync.lanes = [=](const Warp& warp) { return warp.place.warp == 0 ? (std::uint64_t{1} << 2 * stages) - 1 : 0; };
  p.mbarrier_init(
      [=](const Warp&, std::uint32_t lane) { return lane < stages ? 8 * lane : kEmpty + 8 * (lane - stages); },
      [=](const Warp&, std::uint32_t lane) { return lane < stages ? 1 : ctas; }, sync);
  test::cluster_barrier(p);
  const auto turn = [=](const Warp& warp, std::size_t loop) { return warp.count(loop) / stages % 2; };
  const auto stage = [=](const Warp& warp, std::size_t loop) { return warp.count(loop) % stages; };
  test::only_if(
      p, [](const Warp& warp) { return warp.place.warp == 0; },
      [=](ListProgram& q) {
        const std::size_t loop = q.loop(tiles);
        q.mbarrier_wait([=](const Warp& w, std::uint32_t) { return kEmpty + 8 * stage(w, loop); },
                        [=](const Warp& w, std::uint32_t) { return turn(w, loop) ^ 1; });
        q.mbarrier_arrive(
            arch::Space::shared, [=](const Warp& w, std::uint32_t) { return 8 * stage(w, loop); }, 1, kTile);
        bulk(q, OpCode::bulk_load, [=](const Warp& w) {
          const std::uint32_t part = kTile / ctas;
          const std::uint64_t tile = w.place.cta / ctas * 8 + w.count(loop) % 8;
          BulkRequest request =
              test::block_request(BulkKind::load, kData + tile * kTile + part * w.place.rank, part,
                                  kShared + static_cast<std::uint32_t>(stage(w, loop)) * kTile + part * w.place.rank,
                                  static_cast<std::uint32_t>(8 * stage(w, loop)));
          if (ctas > 1) request.multicast = static_cast<std::uint16_t>((1U << ctas) - 1);
          return request;
        });
        q.end_loop();
      });
  test::only_if(
      p, [](const Warp& warp) { return warp.place.warp == 1; },
      [=](ListProgram& q) {
        const std::size_t loop = q.loop(tiles);
        q.mbarrier_wait([=](const Warp& w, std::uint32_t) { return 8 * stage(w, loop); },
                        [=](const Warp& w, std::uint32_t) { return turn(w, loop); });
        test::Sync all;
        all.order = arch::Order::relaxed;
        all.lanes = [=](const Warp&) { return (std::uint64_t{1} << ctas) - 1; };
        q.mbarrier_arrive(
            arch::Space::cluster,
            [=](const Warp& w, std::uint32_t lane) {
              return arch::dsmem_address(lane < ctas ? lane : 0,
                                         static_cast<std::uint32_t>(kEmpty + 8 * stage(w, loop)));
            },
            1, 0, all);
        q.end_loop();
      });
  test::cluster_barrier(p);
  p.exit();
  return program;
}

void multicast() {
  constexpr std::uint32_t kCtas = 96;
  constexpr std::uint32_t kTiles = 24;
  print(
      "\n## Multicast\n\n96 CTAs, one on each SM, take 24 tiles of 16 KiB each, of which 6 are under way; in a cluster "
      "of C "
      "each CTA brings 1/C of every tile to all.\n\n| CTAs per cluster | reads at the L2 | per line delivered | bytes "
      "per "
      "cycle and SM |\n| --- | --- | --- | --- |\n");
  double alone = 0;
  for (const std::uint32_t ctas : {1U, 2U, 4U, 8U, 16U}) {
    test::SimFixture sim;
    GpuLab lab(test::preset_params(kPreset));
    const arch::ClusterShape cluster = ctas == 1 ? arch::ClusterShape{} : test::clusters_of(ctas);
    const auto kernel = [&](std::uint32_t tiles) {
      const double cycles = lab.cycles(
          lab.run(multicast_stream(ctas, tiles, 6), {kCtas, 1, 1}, {64, 1, 1}, kShared + 6 * 16'384 + 20'000, cluster));
      no_faults(lab);
      return cycles;
    };
    kernel(8);
    const double before = l2_requests(lab);
    const double once = kernel(kTiles);
    const double between = l2_requests(lab);
    const double cycles = kernel(2 * kTiles) - once;
    // What a launch reads for itself is in both.
    const double reads = l2_requests(lab) - between - (between - before);
    const double lines = double{kCtas} * kTiles * 128;
    if (ctas == 1) alone = reads;
    if (std::abs(reads * ctas / alone - 1) > 0.001) all_within = false;
    print(fmt::format("| {} | {:.0f} | {:.4f} | {:.1f} |\n", ctas, reads, reads / lines, kTiles * 16'384.0 / cycles));
  }
}

// The same tiles, 128 rows of 128 bytes, by the asynchronous copies of 128 threads and by one thread's requests. Two
// tiles are under way.
std::shared_ptr<ListProgram> copies(std::uint32_t tiles) {
  auto program = std::make_shared<ListProgram>(8);
  ListProgram& p = *program;
  ListProgram::Access access;
  access.width = 16;
  const auto tile = [&](const std::function<std::uint64_t(const Warp&)>& number) {
    for (std::uint32_t part = 0; part < 8; ++part) {
      // Source (64 bits) and destination go on by a constant.
      p.compute(arch::Unit::int32, 3, {{0, 3}}, {{0, 3}});
      const auto row = [part](const Warp& warp, std::uint32_t lane) { return 16 * part + warp.thread(lane) / 8; };
      p.async_copy(
          access,
          [=](const Warp& w, std::uint32_t lane) {
            return kData + number(w) % 8 * 128 + row(w, lane) * 2048 + w.thread(lane) % 8 * 16;
          },
          [=](const Warp& w, std::uint32_t lane) {
            const std::uint32_t at = row(w, lane) * 128 + w.thread(lane) % 8 * 16;
            return kShared + number(w) % 2 * 16'384 + (at ^ (at >> 3 & 0x70));
          },
          {{0, 3}});
    }
    p.async_commit();
  };
  tile([](const Warp&) { return 0; });
  const std::size_t loop = p.loop(tiles - 1);
  tile([loop](const Warp& w) { return w.count(loop) + 1; });
  p.async_wait(1).barrier();
  p.barrier();  // all have read it before it is overwritten
  p.end_loop();
  p.async_wait(0).barrier().exit();
  return program;
}

std::shared_ptr<ListProgram> requests(std::uint32_t tiles) {
  auto program = std::make_shared<ListProgram>(8);
  ListProgram& p = *program;
  test::Sync first;
  first.lanes = [](const Warp& w) { return w.place.warp == 0 ? 3U : 0U; };
  p.mbarrier_init([](const Warp&, std::uint32_t lane) { return 8 * lane; }, 1, first).barrier();
  const auto tile = [&](const std::function<std::uint64_t(const Warp&)>& number) {
    test::only_if(
        p, [](const Warp& w) { return w.place.warp == 0; },
        [=](ListProgram& q) {
          q.compute(arch::Unit::int32, 1, {{0, 1}}, {{0, 1}});  // the coordinate
          q.mbarrier_arrive(arch::Space::shared, [=](const Warp& w, std::uint32_t) { return 8 * (number(w) % 2); }, 1,
                            16'384, {}, arch::kNoRegister, {{0, 1}});
          bulk(q, OpCode::tensor_load, [=](const Warp& w) {
            return test::tensor_request(BulkKind::load, kTensors,
                                        {static_cast<std::int32_t>(number(w) % 8 * 64), 0, 0, 0, 0},
                                        static_cast<std::uint32_t>(kShared + number(w) % 2 * 16'384),
                                        static_cast<std::uint32_t>(8 * (number(w) % 2)));
          });
        });
  };
  const auto wait = [&](const std::function<std::uint64_t(const Warp&)>& number) {
    p.mbarrier_wait([=](const Warp& w, std::uint32_t) { return 8 * (number(w) % 2); },
                    [=](const Warp& w, std::uint32_t) { return number(w) / 2 % 2; });
  };
  tile([](const Warp&) { return 0; });
  const std::size_t loop = p.loop(tiles - 1);
  tile([loop](const Warp& w) { return w.count(loop) + 1; });
  wait([loop](const Warp& w) { return w.count(loop); });
  p.barrier();
  p.end_loop();
  wait([tiles](const Warp&) { return tiles - 1; });
  p.exit();
  return program;
}

// TMA-00.
void work_saved() {
  print(
      "\n## Work saved in the SM\n\nTiles of 16 KiB (128 rows of 128 bytes, swizzled) for one CTA of 128 threads, two "
      "under "
      "way, from the L2. Per tile:\n\n| way | warp instructions | of them integer | memory | issue slots of the SM | "
      "registers "
      "for addresses | cycles |\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const bool unit : {false, true}) {
    test::SimFixture sim;
    GpuLab lab(test::preset_params(kPreset));
    test::write_descriptor(lab, kTensors, tensor_of({"", {64, 128, 1}, arch::Swizzle::bytes128}));
    const auto kernel = [&](std::uint32_t tiles) {
      const double cycles =
          lab.cycles(lab.run(unit ? requests(tiles) : copies(tiles), {1, 1, 1}, {128, 1, 1}, kShared + 2 * 16'384));
      no_faults(lab);
      return cycles;
    };
    const auto instructions = [&](const char* kind) { return sum_of(lab, fmt::format(".instructions.{}", kind)); };
    const auto all = [&] {
      double sum = 0;
      for (const char* kind : {"none", "fp32", "int32", "fp64", "sfu", "tensor", "memory"}) sum += instructions(kind);
      return sum;
    };
    kernel(16);
    const double all_before = all();
    const double integer_before = instructions("int32");
    const double memory_before = instructions("memory");
    const double once = kernel(64);
    const double issued = (all() - all_before) / 64;
    const double integer = (instructions("int32") - integer_before) / 64;
    const double memory = (instructions("memory") - memory_before) / 64;
    const double cycles = (kernel(128) - once) / 64;
    print(fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} % | {} | {:.0f} |\n",
                      unit ? "tensor_load by one thread" : "asynchronous copies by 128 threads", issued, integer,
                      memory, 100 * issued / (4 * cycles), unit ? "1 in one warp" : "3 in each of 4 warps", cycles));
  }
}

// What the stages of a unit do while boxes of one shape follow each other.
void occupancy() {
  print(
      "\n## Stages\n\nShare of the time in which a stage of one unit is busy, 4 requests under way, from the L2:\n\n| "
      "request | queue | set-up | generator | bytes per cycle |\n| --- | --- | --- | --- | --- |\n");
  const auto line = [](const char* name, std::uint32_t bytes, const MakeRequest& make, OpCode code) {
    test::SimFixture sim;
    GpuLab lab(test::preset_params(kPreset));
    test::write_descriptor(lab, kTensors, tensor_of({"", {64, 128, 1}, arch::Swizzle::bytes128}));
    test::write_descriptor(lab, kTensors + 128, tensor_of({"", {64, 1, 1}, arch::Swizzle::none}));
    const auto kernel = [&](std::uint32_t count) {
      const double cycles =
          lab.cycles(lab.run(load_stream(0, count, 4, bytes, make, code), {1, 1, 1}, {32, 1, 1}, kShared + 4 * bytes));
      no_faults(lab);
      return cycles;
    };
    kernel(32);
    const auto busy = [&](const char* stage) { return of_units(lab, fmt::format(".stage.{}", stage)); };
    const double queue = busy("queue");
    const double setup = busy("setup");
    const double generator = busy("generator");
    const double cycles = kernel(256);
    print(fmt::format("| {} | {:.0f} % | {:.0f} % | {:.0f} % | {:.1f} |\n", name,
                      100 * (busy("queue") - queue) / cycles, 100 * (busy("setup") - setup) / cycles,
                      100 * (busy("generator") - generator) / cycles, 256.0 * bytes / cycles));
  };
  line("block of 128 bytes", 128, blocks(128, 65'536, 0), OpCode::bulk_load);
  line("block of 16 KiB", 16'384, blocks(16'384, 65'536, 0), OpCode::bulk_load);
  const auto box = [](std::uint64_t descriptor) {
    return [descriptor](const Warp&, std::uint64_t, std::uint32_t) {
      return test::tensor_request(BulkKind::load, descriptor, {0, 0, 0, 0, 0}, 0);
    };
  };
  line("box of 128 bytes", 128, box(kTensors + 128), OpCode::tensor_load);
  line("box of 16 KiB, rows of 128 bytes", 16'384, box(kTensors), OpCode::tensor_load);
}

// What a matrix multiply gains by the unit and by clusters. In each way the same bytes come to the SMs: clusters of 2 x
// 1 read three quarters of them from the L2, of 2 x 2 a half.
void gemms(const std::vector<std::uint32_t>& sizes) {
  struct Way {
    const char* name;
    std::uint32_t x;
    std::uint32_t y;
    bool copies;
    std::vector<std::string> sets;
  };
  // As fast as the link of a GPC brings lines.
  const std::vector<std::string> as_link{"gpu.xbar.copies=5.44"};
  const std::vector<Way> ways{{"asynchronous copies", 1, 1, true, {}},
                              {"TMA, no clusters", 1, 1, false, {}},
                              {"TMA, clusters 2 x 1", 2, 1, false, {}},
                              {"TMA, clusters 2 x 2", 2, 2, false, {}},
                              {"the same, 5.44 copies per cycle", 2, 2, false, as_link}};
  print(
      "\n## Matrix multiplies\n\n| size | tiles come by | us | TFLOP/s | lines from the L2 per K tile | copies | "
      "busiest "
      "| next |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::uint32_t size : sizes) {
    double alone = 0;
    for (const Way& way : ways) {
      test::GemmShape shape;
      shape.m = shape.n = shape.k = size;
      shape.cluster_x = way.x;
      shape.cluster_y = way.y;
      shape.async_copies = way.copies;
      const GemmFigures of = multiply(shape, way.sets);
      const auto share = [&](std::size_t i) {
        return fmt::format("{} {:.0f} %", of.shares[i].name, 100 * of.shares[i].share);
      };
      print(fmt::format("| {} | {} | {:.1f} | {:.0f} | {:.0f} | {:.0f} | {} | {} |\n", size, way.name,
                        of.cycles / of.ghz / 1000, of.tflops(), of.reads, of.copies, share(0), share(1)));
      // A line of A or B that two CTAs share is read once.
      const std::uint32_t ctas = way.x * way.y;
      const double copies = ctas == 1 ? 0 : 128.0 * (way.x - 1) + 128.0 * (way.y - 1);
      if (std::abs(of.copies - copies) > 0.5) all_within = false;
      if (!way.copies && ctas == 1) alone = of.reads;
      if (ctas > 1 && std::abs((alone - of.reads) / (copies / 2) - 1) > 0.1) all_within = false;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const bool quick = only == "--quick";
  if (only == "--gemm") {
    std::vector<std::uint32_t> sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)));
    gemms(sizes);
  } else if (only == "--multicast") {
    multicast_curves();
  } else if (only != "--tables") {
    latency();
    sizes();
    if (!quick) multicast_curves();
    work_saved();
  }
  if (only.empty() || only == "--tables") {
    by_size();
    box_shapes();
    boxes_under_load();
    descriptors();
    occupancy();
    whole_gpu();
    multicast();
  }
  if (only.empty()) gemms({1024, 2048, 4096});
  if (!all_within) std::fputs("a figure is further from its measurement than it may be\n", stderr);
  return all_within ? 0 : 1;
}
