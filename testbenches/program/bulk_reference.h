// What requests to the tensor memory access unit do, one after the other, as simply as it can be said (TMA-01): for
// programs that are executed without the machine. A request that breaks a rule throws std::runtime_error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "tmau/box_oracle.h"

namespace heddle::test {

class BulkReference {
 public:
  // The shared memory of the CTAs of a cluster, by rank.
  using Windows = std::vector<Bytes*>;
  // Bytes have come that the mbarrier of the CTA expects.
  using Complete = std::function<void(std::uint32_t rank, std::uint32_t barrier, std::uint64_t bytes)>;

  explicit BulkReference(Bytes& global) : global_(global) {}

  static bool reads_shared(const arch::BulkRequest& request) {
    using arch::BulkKind;
    return request.kind == BulkKind::store || request.kind == BulkKind::reduce || request.kind == BulkKind::send;
  }

  // `rank`: of the CTA that asks. `source`: what its shared memory held when the request read it.
  void apply(const arch::BulkRequest& request, std::uint32_t rank, const Bytes& source, const Windows& windows,
             const Complete& complete) {
    using arch::BulkKind;
    const std::uint64_t bytes = request.blocks * arch::kBulkBlock;
    switch (request.kind) {
      case BulkKind::load:
        for (const std::uint32_t receiver : receivers(request, rank, windows.size())) {
          complete(receiver, *request.barrier, load(request, *windows[receiver]));
        }
        return;
      case BulkKind::store:
      case BulkKind::reduce:
        if (request.tensor) return write(request, source);
        move(request.reduces || request.kind == BulkKind::reduce, request, source, aligned(request.shared), global_,
             aligned(request.global));
        return;
      case BulkKind::prefetch:
        if (request.tensor) descriptor(request);
        return;
      case BulkKind::copy:
        move(false, request, global_, aligned(request.global), global_, aligned(request.to));
        return;
      case BulkKind::send:
        for (const std::uint32_t receiver : receivers(request, rank, windows.size())) {
          move(request.reduces, request, source, aligned(request.shared), *windows[receiver],
               aligned(request.destination));
          if (request.barrier) complete(receiver, *request.barrier, bytes);
        }
        return;
      default:
        return;
    }
  }

 private:
  static std::uint64_t aligned(std::uint64_t address) {
    if (address % arch::kBulkBlock != 0) throw std::runtime_error("misaligned");
    return address;
  }

  static std::vector<std::uint32_t> receivers(const arch::BulkRequest& request, std::uint32_t rank, std::size_t ctas) {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i = 0; i < arch::kMulticastCtas; ++i) {
      if ((request.multicast >> i & 1) != 0) result.push_back(i);
    }
    if (result.empty()) result.push_back(request.data_cta.value_or(rank));
    for (const std::uint32_t receiver : result) {
      if (receiver >= ctas) throw std::runtime_error(rule_key(arch::TensorRule::receivers));
    }
    if (request.barrier_cta != request.data_cta) throw std::runtime_error(rule_key(arch::TensorRule::barrier_cta));
    return result;
  }

  arch::TensorDescriptor descriptor(const arch::BulkRequest& request) const {
    arch::TensorDescriptor d;
    if (request.descriptor % 64 != 0) {
      throw std::runtime_error(rule_key(arch::TensorRule::descriptor_address));
    }
    if (request.descriptor > global_.size() || global_.size() - request.descriptor < arch::kDescriptorBytes) {
      throw std::runtime_error(rule_key(arch::TensorRule::unmapped));
    }
    arch::TensorRule rule = arch::decode(global_.data() + request.descriptor, d);
    if (rule == arch::TensorRule::none) rule = arch::check(d);
    if (rule != arch::TensorRule::none) throw std::runtime_error(rule_key(rule));
    return d;
  }

  // The number of bytes.
  std::uint64_t load(const arch::BulkRequest& request, Bytes& window) const {
    if (!request.tensor) {
      move(false, request, global_, aligned(request.global), window, aligned(request.shared));
      return request.blocks * arch::kBulkBlock;
    }
    const arch::TensorDescriptor d = descriptor(request);
    aligned(request.shared);
    reference_load(d, request.coordinates, request.offsets, request.shared, global_, window);
    return box_elements(d, request.coordinates, request.offsets).size() * element_bytes(d);
  }

  void write(const arch::BulkRequest& request, const Bytes& source) {
    const arch::TensorDescriptor d = descriptor(request);
    aligned(request.shared);
    if (request.kind == arch::BulkKind::store) {
      reference_store(d, request.coordinates, request.offsets, request.shared, source, global_);
    } else {
      reference_reduce(request.reduction, d, request.coordinates, request.offsets, request.shared, source, global_);
    }
  }

  static void move(bool reduces, const arch::BulkRequest& request, const Bytes& from, std::uint64_t from_at, Bytes& to,
                   std::uint64_t to_at) {
    const std::uint64_t bytes = request.blocks * arch::kBulkBlock;
    const auto has = [bytes](const Bytes& memory, std::uint64_t at) {
      return bytes <= memory.size() && at <= memory.size() - bytes;
    };
    if (!has(from, from_at) || !has(to, to_at)) throw std::runtime_error("outside memory");
    for (std::uint64_t i = 0; i < bytes; i += arch::kBulkBlock) {
      std::array<std::uint8_t, arch::kBulkBlock> block{};
      std::copy_n(from.data() + from_at + i, block.size(), block.begin());
      if (reduces) {
        arch::reduce(request.reduction, request.type, arch::ByteMask::first(arch::kBulkBlock), arch::kBulkBlock,
                     block.data(), to.data() + to_at + i);
      } else {
        std::copy(block.begin(), block.end(), to.data() + to_at + i);
      }
    }
  }

  Bytes& global_;
};

}  // namespace heddle::test
