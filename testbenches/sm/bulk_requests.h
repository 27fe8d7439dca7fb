// Requests to the TMAU as the tests of the SM make them.
#pragma once

#include <optional>
#include <utility>

#include "support/list_program.h"

namespace heddle::test {

inline arch::BulkRequest tensor_of(arch::BulkKind kind, std::uint64_t descriptor, std::uint32_t shared = 0,
                                   std::optional<std::uint32_t> barrier = std::nullopt) {
  arch::BulkRequest request;
  request.kind = kind;
  request.tensor = true;
  request.descriptor = descriptor;
  request.shared = shared;
  request.barrier = barrier;
  return request;
}
inline arch::BulkRequest block_of(arch::BulkKind kind, std::uint64_t global, std::uint64_t bytes,
                                  std::uint32_t shared = 0, std::optional<std::uint32_t> barrier = std::nullopt) {
  arch::BulkRequest request;
  request.kind = kind;
  request.global = global;
  request.blocks = bytes / arch::kBulkBlock;
  request.shared = shared;
  request.barrier = barrier;
  return request;
}
// The same for every warp and lane.
inline ListProgram::Bulk always(const arch::BulkRequest& request) {
  return [request](const Warp&, std::uint32_t) { return request; };
}
// Of 64 bytes. `number` tells them apart: it is in the address.
inline ListProgram& store_block(ListProgram& program, std::uint64_t number, std::string name = {}) {
  return program.bulk(arch::OpCode::bulk_store, always(block_of(arch::BulkKind::store, 4096 * number, 64)), {}, {},
                      std::move(name));
}
// The mbarrier is at 0, the data behind it.
inline ListProgram& load_block(ListProgram& program, std::uint64_t number, std::string name = {}) {
  return program.bulk(arch::OpCode::bulk_load, always(block_of(arch::BulkKind::load, 4096 * number, 64, 128, 0)), {},
                      {}, std::move(name));
}

}  // namespace heddle::test
