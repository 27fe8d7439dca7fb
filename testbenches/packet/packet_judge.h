// Compares the model's verdict on a packet, and everything that it understands of it, with the oracles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

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
  explicit Judge(const arch::SmLimits& limits = {}, const Widths& widths = {}, Of of = Of::packet)
      : limits_(limits), widths_(widths), of_(of), table_(widths.entries) {}

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
        object.code.address != expected.code || object.code.bytes != expected.code_bytes ||
        object.duration.min != expected.shortest || object.duration.max != expected.longest ||
        object.name != expected.name || object.cluster.linear_memory != expected.linear ||
        (object.cluster.mode == arch::CgaMode::load_balancing) != expected.balancing) {
      return "fields of a kernel object";
    }
    for (std::size_t i = 0; i < 4; ++i) {
      if (wide(object.cluster.extents[i]) != expected.levels[i]) return "extents of a kernel object";
      if (wide(object.cluster.fallback[i]) != expected.smaller[i]) return "fallbacks of a kernel object";
    }
    if (object.code.any()) return nullptr;  // what it launches, only its code says
    object_ = object;
    expected_object_ = image;
    return nullptr;
  }

  // Any 64 bytes.
  const char* packet(const Image& image) {
    ++packets_;
    const char* wrong = take(image);
    return wrong != nullptr ? wrong : same_table();
  }

 private:
  using StoredKernel = packet::StoredKernel;

  static arch::KernelObject one_cycle() {
    arch::KernelObject object;
    object.duration = {1, 1};
    return object;
  }
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
    for (std::uint32_t i = 0; i < widths_.entries; ++i) {
      const Entry& entry = expected_.entry[i];
      if (table_.valid(i) != entry.full) return "entries of the table";
      if (entry.full && !same(table_.at(i).fields, entry.image)) return "an entry of the table";
      if (entry.full && arch::encode(table_.at(i).object) != entry.object) return "the object of an entry";
    }
    return table_.valid(widths_.entries) ? "one entry of the table too many" : nullptr;
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
    const Blame format = format_of_dispatch(image, 32);  // of any table
    arch::HsaResult verdict = arch::decode(image, packet);
    if (!agree(verdict, format)) return "verdict on the format of a dispatch";
    if (!verdict.ok()) return nullptr;
    if (arch::encode(packet, arch::type_of(image)) != image) return "bytes of a dispatch";
    StoredKernel kernel{packet.fields, object_, {}, {}};
    if (const char* wrong = launch(kernel, image, expected_object_, packet::kAllFields); wrong != nullptr) return wrong;
    if (!launched_) return nullptr;
    ++accepted_[image[0]];
    if (image[0] == 2 || number(image, 10, 2) >= widths_.entries) return nullptr;
    table_.store(packet.reserved0, kernel);
    expected_.entry[image[10]] = {image, expected_object_, true};
    return nullptr;
  }

  // With the rules that look at what has changed, and no others: the verdict is that of all rules.
  const char* launch(StoredKernel& kernel, const Image& image, const ObjectImage& object, packet::FieldSet changed) {
    if (!same(kernel.fields, image)) return "fields of a dispatch";
    const Blame blame = fields_of_dispatch(image, limits_);
    const arch::HsaResult verdict = packet::check(kernel.fields, limits_, changed);
    launched_ = false;
    if (!agree(verdict, blame)) return "verdict on the fields of a dispatch";
    if (!verdict.ok()) return nullptr;
    ++launches_;
    return shape(kernel, image, object, changed);
  }

  const char* shape(StoredKernel& kernel, const Image& image, const ObjectImage& object, packet::FieldSet changed) {
    Object expected;
    if (!read(object, expected).none()) return "a bad object in an entry";
    const Blame blame = together(image, expected, limits_);
    const arch::HsaResult verdict = packet::check(kernel.fields, kernel.object, limits_, changed);
    if (!agree(verdict, blame)) return "verdict on a dispatch with its kernel object";
    if (!verdict.ok()) return nullptr;
    launched_ = true;
    ++shaped_;
    bool partial = false;
    const Extents grid = ctas(image, partial);
    const arch::KernelShape& shape = kernel.shape = arch::shape_of(kernel.fields, kernel.object, 5);
    kernel.items = arch::items_of(kernel.fields);
    const Extents items{number(image, 12, 4), number(image, 16, 4), number(image, 20, 4)};
    const Extents block{number(image, 4, 2), number(image, 6, 2), number(image, 8, 2)};
    const bool timed = expected.program == 0;
    bool right = wide(shape.grid) == grid && wide(shape.block) == block &&
                 shape.registers_per_thread == expected.registers && shape.shared_bytes == number(image, 28, 4) &&
                 shape.local_bytes == number(image, 24, 4) && shape.subcontext == 5 && shape.code == expected.program &&
                 shape.duration.min == (timed ? expected.shortest : 1) &&
                 shape.duration.max == (timed ? expected.longest : 1) &&
                 wide(kernel.items.items) == (partial ? items : Extents{0, 0, 0});
    for (std::size_t i = 0; i < 4; ++i) right = right && wide(shape.cluster.extents[i]) == expected.levels[i];
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

  bool same(const packet::CondensedKernel& kernel, const Kernel& expected) const {
    const bool of_packet = of_ == Of::packet;
    return same(kernel.kernel.fields, expected.image) && kernel.barrier == expected.barrier &&
           static_cast<std::uint32_t>(kernel.acquire) == expected.acquire &&
           static_cast<std::uint32_t>(kernel.release) == expected.release && kernel.signal == expected.signal &&
           kernel.reads_object == (of_packet && expected.differs(10)) &&
           (!of_packet || kernel.changed == expected.vector);
  }

  const char* condensed_packet(const Image& image) {
    const Condensed expected = condensed(image, expected_, widths_, of_);
    const arch::DiffOf of = of_ == Of::packet ? arch::DiffOf::packet : arch::DiffOf::stored;
    const arch::DiffFormat format{of, widths_.reference, widths_.vector};
    const packet::CondensedDiffs diffs = packet::read_diffs(image, format, widths_.entries);
    const packet::CondensedKernels result = packet::expand(diffs, of, table_);
    if (!expected.format.none()) {
      if (!agree(diffs.result, expected.format)) return "verdict on the format of diffs";
      return result.kernels.empty() ? nullptr : "kernels of a packet that is none";
    }
    const std::size_t first = expected.first_bad();
    const bool missing = std::any_of(expected.kernels.begin(), expected.kernels.end(),
                                     [this](const Kernel& kernel) { return kernel.reference >= widths_.entries; });
    if (diffs.result.ok() == missing) return "verdict on entries that the table does not have";
    if (!missing && diffs.entries != expected.references()) return "entries that a packet needs";
    if (of_ == Of::packet && widths_.reference == 3 && widths_.vector == 13) {
      if (const char* wrong = again(image); wrong != nullptr) return wrong;
    }
    if (missing) return result.kernels.empty() ? nullptr : "kernels from an entry that does not exist";
    if (first < expected.kernels.size()) {
      if (!agree(result.result, expected.kernels[first].blame) || result.bad != first) return "verdict on a kernel";
      return result.kernels.empty() ? nullptr : "kernels of a packet with a bad one";
    }
    if (!result.result.ok() || result.kernels.size() != expected.kernels.size()) return "kernels of a good packet";
    bool all = true;
    for (std::size_t i = 0; i < result.kernels.size(); ++i) {
      const Kernel& wanted = expected.kernels[i];
      if (diffs.items[i].half_words != wanted.half_words) return "half-words of a diff";
      if (diffs.items[i].reference != wanted.reference) return "entry of a diff";
      if (!same(result.kernels[i], wanted)) return "a kernel of a condensed packet";
      StoredKernel kernel = result.kernels[i].kernel;
      if (arch::encode(kernel.object) != wanted.object) return "the object of a kernel's entry";
      // A diff of the object names another one; the others keep what was read for the entry.
      if (result.kernels[i].reads_object) kernel.object = object_;
      const ObjectImage& object = result.kernels[i].reads_object ? expected_object_ : wanted.object;
      if (const char* wrong = launch(kernel, wanted.image, object, result.kernels[i].changed); wrong != nullptr) {
        return wrong;
      }
      all = all && launched_;
    }
    if (all) ++accepted_[image[0]];
    return nullptr;
  }

  arch::SmLimits limits_;
  const Widths widths_;
  const Of of_;
  packet::ReferenceTable table_;
  Table expected_;
  arch::KernelObject object_ = one_cycle();
  ObjectImage expected_object_ = arch::encode(one_cycle());
  bool launched_ = false;
  std::uint64_t packets_ = 0;
  std::uint64_t objects_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t shaped_ = 0;
  std::array<std::uint64_t, 8> accepted_{};
};

}  // namespace heddle::oracle
