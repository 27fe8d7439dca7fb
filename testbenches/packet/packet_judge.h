// Compares the model's verdict on a packet, and everything that it understands of it, with the oracles.
#pragma once

#include <cstdint>

#include "arch/aql_packet.h"
#include "arch/kernel_object.h"
#include "packet/object_oracle.h"
#include "packet/packet_check.h"
#include "packet/packet_oracle.h"
#include "packet/reference_table.h"

namespace heddle::oracle {

// A queue's packets, one after the other: what would be launched, with the table as it becomes.
class Judge {
 public:
  explicit Judge(const arch::SmLimits& limits = {}) : limits_(limits) {}

  std::uint64_t packets() const { return packets_; }
  std::uint64_t accepted(std::size_t type) const { return accepted_[type]; }
  std::uint64_t objects() const { return objects_; }
  std::uint64_t launches() const { return launches_; }
  // Launches that are right by themselves and with their kernel object.
  std::uint64_t shaped() const { return shaped_; }
  const Table& table() const { return expected_; }

  void clear_table() {
    table_.clear();
    expected_ = {};
  }

  // Any 128 bytes: those of the packets that follow, if they are an object. Null, or what differs.
  const char* object(const ObjectImage& image) {
    Object expected;
    arch::KernelObject object;
    const Blame blame = read(image, expected);
    const arch::HsaResult verdict = arch::decode(image, object);
    if (!agree(verdict, blame)) return "verdict on a kernel object";
    if (!verdict.ok()) return nullptr;
    ++objects_;
    if (arch::encode(object) != image) return "bytes of a kernel object";
    if (object.program != expected.program || object.threads_limit != expected.threads ||
        object.registers_per_thread != expected.registers || object.static_shared != expected.shared ||
        object.duration.min != expected.shortest || object.duration.max != expected.longest ||
        object.name != expected.name || object.cluster.linear_memory != expected.linear ||
        (object.cluster.mode == arch::CgaMode::load_balancing) != expected.balancing) {
      return "fields of a kernel object";
    }
    for (std::size_t i = 0; i < 4; ++i) {
      if (wide(object.cluster.extents[i]) != expected.levels[i]) return "extents of a kernel object";
      if (wide(object.cluster.fallback[i]) != expected.smaller[i]) return "fallbacks of a kernel object";
    }
    object_ = object;
    expected_object_ = expected;
    return nullptr;
  }

  // Any 64 bytes.
  const char* packet(const Image& image) {
    ++packets_;
    const char* wrong = take(image);
    return wrong != nullptr ? wrong : same_table();
  }

  // Any 64 bytes as an entry of the table in memory.
  const char* entry(const Image& image, std::uint32_t number_of) const {
    arch::DispatchFields fields;
    const arch::HsaResult verdict = packet::decode_entry(image, number_of, fields);
    const bool right = image[0] == 6 && format_of_dispatch(image).none() && number(image, 10, 2) == number_of;
    if (verdict.ok() != right) return "verdict on a table entry";
    if (right && !same(fields, image)) return "fields of a table entry";
    if (right && packet::encode_entry(number_of, fields) != image) return "bytes of a table entry";
    return nullptr;
  }

 private:
  static bool agree(const arch::HsaResult& verdict, const Blame& blame) {
    if (verdict.ok() != (verdict.reason == arch::Reason::none)) return false;
    return blame.fits(static_cast<std::uint32_t>(verdict.status));
  }
  static Extents wide(const arch::Dim3& dim) { return {dim.x, dim.y, dim.z}; }

  // Of the fields by name, not by number: those are the model's own affair.
  static bool same(const arch::DispatchFields& fields, const Image& image) {
    return fields.synch_scopes == image[1] && fields.setup == number(image, 2, 2) &&
           fields.workgroup[0] == number(image, 4, 2) && fields.workgroup[1] == number(image, 6, 2) &&
           fields.workgroup[2] == number(image, 8, 2) && fields.grid[0] == number(image, 12, 4) &&
           fields.grid[1] == number(image, 16, 4) && fields.grid[2] == number(image, 20, 4) &&
           fields.private_segment == number(image, 24, 4) && fields.group_segment == number(image, 28, 4) &&
           fields.kernel_object == number(image, 32, 8) && fields.kernarg == number(image, 40, 8) &&
           fields.completion_signal == number(image, 56, 8);
  }

  const char* same_table() const {
    for (std::uint32_t i = 0; i < arch::kReferenceEntries; ++i) {
      if (table_.valid(i) != expected_.full[i]) return "entries of the table";
      if (expected_.full[i] && !same(table_.at(i), expected_.entry[i])) return "an entry of the table";
    }
    return table_.valid(arch::kReferenceEntries) ? "a ninth entry of the table" : nullptr;
  }

  const char* take(const Image& image) {
    if (arch::header_of(image) != number(image, 0, 2)) return "header";
    switch (arch::type_of(image)) {
      case arch::PacketType::vendor:
        return vendor(image);
      case arch::PacketType::kernel_dispatch:
      case arch::PacketType::reference_dispatch:
        return dispatch(image);
      case arch::PacketType::barrier_and:
      case arch::PacketType::barrier_or:
        return barrier(image);
      case arch::PacketType::agent_dispatch:
        return agent(image);
      case arch::PacketType::condensed_dispatch:
        return condensed_packet(image);
      default:
        return nobody(image);
    }
  }

  // Types 1 and from 8 on: no decoder takes them.
  static const char* nobody(const Image& image) {
    arch::KernelDispatch dispatch;
    arch::BarrierPacket barrier;
    arch::AgentDispatch agent;
    arch::VendorPacket vendor;
    std::array<arch::Diff, arch::kDiffValues> diffs;
    std::uint32_t kernels = 0;
    const auto refused = [](const arch::HsaResult& verdict) {
      return verdict.status == arch::HsaStatus::invalid_packet_format;
    };
    const bool all = refused(arch::decode(image, dispatch)) && refused(arch::decode(image, barrier)) &&
                     refused(arch::decode(image, agent)) && refused(arch::decode(image, vendor)) &&
                     refused(arch::decode(image, diffs, kernels));
    return all ? nullptr : "a type that does not exist was taken";
  }

  const char* dispatch(const Image& image) {
    arch::KernelDispatch packet;
    const Blame format = format_of_dispatch(image);
    arch::HsaResult verdict = arch::decode(image, packet);
    if (!agree(verdict, format)) return "verdict on the format of a dispatch";
    if (!verdict.ok()) return nullptr;
    if (arch::encode(packet, arch::type_of(image)) != image) return "bytes of a dispatch";
    if (const char* wrong = launch(packet.fields, image); wrong != nullptr) return wrong;
    if (!launched_) return nullptr;
    ++accepted_[image[0]];
    if (image[0] == 2) return nullptr;
    table_.store(packet.reserved0, packet.fields);
    expected_.entry[image[10]] = image;
    expected_.full[image[10]] = true;
    return nullptr;
  }

  const char* launch(const arch::DispatchFields& fields, const Image& image) {
    if (!same(fields, image)) return "fields of a dispatch";
    const Blame blame = fields_of_dispatch(image, limits_);
    const arch::HsaResult verdict = packet::check(fields, limits_);
    launched_ = verdict.ok();
    if (!agree(verdict, blame)) return "verdict on the fields of a dispatch";
    if (!launched_) return nullptr;
    ++launches_;
    return shape(fields, image);
  }

  // With the object that stands for the one that the packet names.
  const char* shape(const arch::DispatchFields& fields, const Image& image) {
    const Blame blame = together(image, expected_object_, limits_);
    const arch::HsaResult verdict = packet::check(fields, object_, limits_);
    if (!agree(verdict, blame)) return "verdict on a dispatch with its kernel object";
    if (!verdict.ok()) return nullptr;
    ++shaped_;
    bool partial = false;
    const Extents grid = ctas(image, partial);
    const arch::KernelShape shape = arch::shape_of(fields, object_, 5);
    const Extents items{number(image, 12, 4), number(image, 16, 4), number(image, 20, 4)};
    const bool timed = expected_object_.program == 0;
    const bool right = wide(shape.grid) == grid &&
                       wide(shape.block) == Extents{fields.workgroup[0], fields.workgroup[1], fields.workgroup[2]} &&
                       shape.registers_per_thread == expected_object_.registers &&
                       shape.shared_bytes == number(image, 28, 4) && shape.local_bytes == number(image, 24, 4) &&
                       shape.subcontext == 5 && shape.code == expected_object_.program &&
                       shape.duration.min == (timed ? expected_object_.shortest : 1) &&
                       shape.duration.max == (timed ? expected_object_.longest : 1) &&
                       shape.cluster.extents == object_.cluster.extents &&
                       wide(arch::items_of(fields).items) == (partial ? items : Extents{0, 0, 0});
    return right ? nullptr : "the kernel that a dispatch makes";
  }

  const char* barrier(const Image& image) {
    arch::BarrierPacket packet;
    const arch::HsaResult verdict = arch::decode(image, packet);
    if (!agree(verdict, format_of_barrier(image))) return "verdict on a barrier packet";
    if (!verdict.ok()) return nullptr;
    ++accepted_[image[0]];
    for (std::size_t i = 0; i < arch::kBarrierSignals; ++i) {
      if (packet.signals[i] != number(image, 8 + 8 * i, 8)) return "signals of a barrier packet";
    }
    return arch::encode(packet, arch::type_of(image)) == image ? nullptr : "bytes of a barrier packet";
  }

  const char* agent(const Image& image) {
    arch::AgentDispatch packet;
    const arch::HsaResult verdict = arch::decode(image, packet);
    if (!agree(verdict, format_of_agent(image))) return "verdict on an agent dispatch";
    if (!verdict.ok()) return nullptr;
    ++accepted_[image[0]];
    if (packet.function != number(image, 2, 2) || packet.return_address != number(image, 8, 8)) return "agent dispatch";
    return arch::encode(packet) == image ? nullptr : "bytes of an agent dispatch";
  }

  const char* vendor(const Image& image) {
    arch::VendorPacket packet;
    const arch::HsaResult verdict = arch::decode(image, packet);
    if (!agree(verdict, format_of_vendor(image))) return "verdict on a vendor packet";
    if (!verdict.ok()) return nullptr;
    ++accepted_[image[0]];
    if (packet.bytes != number(image, 24, 8) || packet.to != number(image, 16, 8)) return "vendor packet";
    return arch::encode(packet) == image ? nullptr : "bytes of a vendor packet";
  }

  // The kernels are taken apart and put together again: decoded, and appended one by one.
  static const char* again(const Image& image) {
    std::array<arch::Diff, arch::kDiffValues> diffs;
    std::uint32_t kernels = 0;
    if (!arch::decode(image, diffs, kernels).ok() || kernels != image[1]) return "diffs";
    arch::CondensedPacket packet;
    std::uint32_t used = 0;
    for (std::uint32_t i = 0; i < kernels; ++i) {
      if (!arch::append(packet, used, diffs[i])) return "a diff that did not fit";
    }
    return arch::encode(packet) == image ? nullptr : "bytes of a condensed packet";
  }

  static bool same(const packet::CondensedKernel& kernel, const Kernel& expected) {
    return same(kernel.fields, expected.image) && kernel.barrier == expected.barrier &&
           static_cast<std::uint32_t>(kernel.acquire) == expected.acquire &&
           static_cast<std::uint32_t>(kernel.release) == expected.release && kernel.signal == expected.signal &&
           kernel.reference == expected.reference && kernel.half_words == expected.half_words;
  }

  const char* condensed_packet(const Image& image) {
    const Condensed expected = condensed(image, expected_);
    std::uint8_t entries = 0;
    if (!agree(packet::entries_needed(image, entries), expected.format)) return "verdict on the format of diffs";
    std::uint32_t bad = 77;
    const arch::HsaResult verdict = packet::expand(image, table_, kernels_, bad);
    if (!expected.format.none()) {
      if (!agree(verdict, expected.format)) return "verdict of expansion";
      return kernels_.count == 0 ? nullptr : "kernels of a packet that is none";
    }
    if (entries != expected.references) return "entries that a packet needs";
    if (const char* wrong = again(image); wrong != nullptr) return wrong;
    std::uint32_t first = 0;
    while (first < expected.kernels.size() && expected.kernels[first].blame.none()) ++first;
    if (first < expected.kernels.size()) {
      if (!agree(verdict, expected.kernels[first].blame) || bad != first) return "verdict on a kernel";
      return kernels_.count == 0 ? nullptr : "kernels of a packet with a bad one";
    }
    if (!verdict.ok() || kernels_.count != expected.kernels.size()) return "kernels of a good packet";
    bool all = true;
    for (std::uint32_t i = 0; i < kernels_.count; ++i) {
      if (!same(kernels_.kernels[i], expected.kernels[i])) return "a kernel of a condensed packet";
      if (const char* wrong = launch(kernels_.kernels[i].fields, expected.kernels[i].image); wrong != nullptr)
        return wrong;
      all = all && launched_;
    }
    if (all) ++accepted_[image[0]];
    return nullptr;
  }

  arch::SmLimits limits_;
  packet::ReferenceTable table_;
  Table expected_;
  arch::KernelObject object_;
  Object expected_object_{false, false, 0, 0, 0, 0, 1, 1, {}, {}, 0, {}, {}};
  packet::CondensedKernels kernels_;
  bool launched_ = false;
  std::uint64_t packets_ = 0;
  std::uint64_t objects_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t shaped_ = 0;
  std::array<std::uint64_t, 8> accepted_{};
};

}  // namespace heddle::oracle
