#include "demand/estimate.h"

#include <algorithm>
#include <cmath>

#include "demand/kernel_name.h"

namespace heddle::demand {
namespace {

using arch::DemandUnit;

constexpr double kQueryRows = 128;  // of an attention's block, where its name does not tell: FlashAttention's choice

// Of all CTAs together.
struct Totals {
  double tiles = 0;  // 0: the work has none
  double flops = 0;
  double fetched = 0;
  bool staged = false;  // through shared memory
};

double fetched_of(const std::vector<Operand>& operands, std::size_t from = 0) {
  double all = 0;
  for (std::size_t i = from; i < operands.size(); ++i) all += operands[i].fetched;
  return all;
}

Totals multiplied(const Work& work, std::string_view kernel, std::optional<double> ctas) {
  const MatmulShape& shape = *work.matmul;
  double m = 0;
  double n = 0;
  if (const std::optional<Tile> tile = matmul_tile(kernel)) {
    m = tile->n;
    n = tile->m;
  } else {
    m = n = std::sqrt(shape.batch * shape.m * shape.n / std::max(1.0, ctas.value_or(1)));
    m = std::min(m, shape.m);
    n = std::min(n, shape.n);
  }
  Totals totals;
  const double rows = std::ceil(shape.m / m - 1e-9);
  const double columns = std::ceil(shape.n / n - 1e-9);
  totals.tiles = shape.batch * rows * columns;
  totals.flops = std::max(work.flops, totals.tiles * 2 * m * n * shape.k);
  // Strips end with the operands: what lies beyond is not there.
  const double strips = shape.batch * (columns * shape.m + rows * shape.n);
  totals.fetched = strips * shape.k * shape.element_bytes + fetched_of(work.reads, 2);
  totals.staged = true;
  return totals;
}

Totals attended(const Work& work, std::string_view kernel) {
  const AttentionShape& shape = *work.attention;
  const std::optional<Tile> tile = attention_tile(kernel);
  const double block = tile ? tile->m : kQueryRows;
  Totals totals;
  const double blocks = std::ceil(shape.queries / block);
  totals.tiles = shape.heads * blocks;
  totals.flops = work.flops * blocks * block / shape.queries;
  const double full = 4 * shape.heads * shape.queries * shape.keys * shape.head;  // of a forward one without a mask
  const double seen = std::min(1.0, work.flops / full);
  totals.fetched = shape.heads * (shape.queries + blocks * 2 * shape.keys * seen) * shape.head * shape.element_bytes +
                   fetched_of(work.reads, 3);
  totals.staged = true;
  return totals;
}

double trips_of(Kind kind) {
  switch (kind) {
    case Kind::elementwise:
    case Kind::copy:
      return 1;
    case Kind::matmul:
    case Kind::convolution:
      return 1;  // the first tiles; the others are fetched ahead
    case Kind::attention:
      return 2;  // queries and keys; then what is written back
    case Kind::reduction:
      return 2;  // elements; partial results of others
    case Kind::normalisation:
      return 2;  // a row for its sums, and again
    case Kind::embedding:
      return 2;  // a place, and what lies there
  }
  return 1;
}

}  // namespace

Estimate estimate(const Work& work, const MemoryTraffic& traffic, std::string_view kernel, std::optional<double> ctas,
                  double otherwise) {
  Totals totals;
  if (work.matmul) {
    totals = multiplied(work, kernel, ctas);
  } else if (work.attention) {
    totals = attended(work, kernel);
  } else {
    totals.flops = work.flops;
    totals.fetched = fetched_of(work.reads);
  }
  Estimate made;
  made.kind = work.kind;
  made.trips = trips_of(work.kind);
  made.tiles = totals.tiles;
  made.ctas = std::max(1.0, ctas ? *ctas : totals.tiles > 0 ? totals.tiles : otherwise);
  const auto each = [&made](double all) { return all / made.ctas; };
  made.cta.of(work.unit) += each(totals.flops);
  made.cta.of(DemandUnit::fp32) += each(2 * work.fp32);  // a lane does a multiply-add in that time
  made.cta.of(DemandUnit::sfu) += each(work.sfu);
  made.cta.of(DemandUnit::shared) = totals.staged ? each(2 * totals.fetched) : 0;
  made.cta.of(DemandUnit::l2_read) = each(totals.fetched);
  made.cta.of(DemandUnit::l2_write) = each(fetched_of(work.writes));
  made.cta.of(DemandUnit::dram_read) = each(std::min(traffic.read, totals.fetched));
  made.cta.of(DemandUnit::dram_write) = each(traffic.written);
  return made;
}

}  // namespace heddle::demand
