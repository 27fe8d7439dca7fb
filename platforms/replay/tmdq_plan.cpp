#include "replay/tmdq_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "common/error.h"
#include "replay/device_memory.h"

namespace heddle::replay {
namespace {

using workload::Op;
using workload::OpKind;
using workload::Workload;
namespace context = arch::context;
namespace tmd = arch::tmd;

bool translated(const Workload& workload, std::uint8_t subcontext) {
  return std::any_of(workload.subcontexts.begin(), workload.subcontexts.end(),
                     [&](const workload::Subcontext& one) { return one.id == subcontext && one.translated; });
}

// What TMDs have no field for, and what the host cannot wait for.
void check_operation(const Workload& workload, std::size_t number) {
  const Op& op = workload.ops[number];
  const auto refuse = [&](const std::string& what, const char* remedy) {
    throw InputError(fmt::format("operation {} ({}) cannot be pushed into a TMDQ: {}", number, op.kernel.name, what),
                     remedy);
  };
  if (op.queue) refuse("it is a queue task, and the TMD of one is task management's", "leave out `by: tmdq`");
  if (op.args.size() > arch::kChildArgs) {
    refuse(fmt::format("it has {} arguments, and a TMD has room for {}", op.args.size(), arch::kChildArgs),
           "put the others into memory, or submit it `by: aql`");
  }
  if (!op.args.empty() && translated(workload, op.kernel.subcontext)) {
    refuse(fmt::format("its arguments would not lie in the address space of subcontext {}", op.kernel.subcontext),
           "leave out `args` or `translated`");
  }
  if (op.kernel.program == nullptr && op.kernel.local_bytes > 0) {
    refuse("it has local memory and no program, and neither a TMD nor a kernel object says so",
           "give the kernel a program, or leave out `local`");
  }
}

// `place`: by operation, its place in its stream.
void check_waits(const Workload& workload, const std::vector<std::size_t>& place) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    for (const workload::Edge& edge : workload.ops[i].after) {
      const bool same = workload.ops[edge.from].stream == workload.ops[i].stream;
      if (!same || place[edge.from] < place[i]) continue;
      throw InputError(fmt::format("operation {} ({}) waits for operation {} ({}), which is behind it in its stream", i,
                                   workload.ops[i].kernel.name, edge.from, workload.ops[edge.from].kernel.name),
                       "submit it later, or in another stream");
    }
  }
}

class Planner {
 public:
  Planner(const Workload& workload, Area& device) : workload_(workload), device_(device) {}

  void streams() {
    std::map<std::size_t, std::size_t> known;
    std::vector<std::size_t> place(workload_.ops.size(), 0);
    std::vector<std::optional<std::uint8_t>> subcontext;
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      const auto [found, fresh] = known.emplace(op.stream, plan.tmdqs.size());
      if (fresh) {
        plan.tmdqs.emplace_back();
        plan.tmdqs.back().stream = op.stream;
        subcontext.emplace_back();
      }
      HostTmdq& tmdq = plan.tmdqs[found->second];
      place[i] = tmdq.ops.size();
      tmdq.ops.push_back(i);
      if (op.kind != OpKind::kernel) continue;
      check_operation(workload_, i);
      std::optional<std::uint8_t>& own = subcontext[found->second];
      if (own && *own != op.kernel.subcontext) {
        throw InputError(fmt::format("kernels of stream {} are of subcontexts {} and {}: a TMDQ is one subcontext's",
                                     workload_.streams[op.stream].name, *own, op.kernel.subcontext),
                         "give kernels of different subcontexts streams of their own");
      }
      own = tmdq.subcontext = op.kernel.subcontext;
    }
    check_waits(workload_, place);
  }

  void contexts() {
    std::map<std::uint8_t, std::vector<std::size_t>> of;
    for (std::size_t i = 0; i < plan.tmdqs.size(); ++i) of[plan.tmdqs[i].subcontext].push_back(i);
    for (const auto& [subcontext, tmdqs] : of) {
      for (std::size_t first = 0; first < tmdqs.size(); first += arch::kMaxTmdqs) {
        const std::size_t count = std::min<std::size_t>(arch::kMaxTmdqs, tmdqs.size() - first);
        const std::uint64_t at = add_context(subcontext, static_cast<std::uint32_t>(count));
        for (std::size_t i = 0; i < count; ++i) {
          plan.tmdqs[tmdqs[first + i]].context = at;
          plan.tmdqs[tmdqs[first + i]].number = static_cast<std::uint32_t>(i);
        }
      }
    }
  }

  void kernels(const std::vector<std::uint32_t>& codes) {
    std::map<arch::KernelObjectBytes, std::uint64_t> known;
    plan.objects.resize(workload_.ops.size(), 0);
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      if (op.kind != OpKind::kernel) continue;
      const arch::KernelObjectBytes bytes = arch::encode(kernel_object_of(op.kernel, codes[i]));
      const auto [found, fresh] = known.emplace(bytes, 0);
      if (fresh) {
        found->second = device_.take(bytes.size(), arch::kKernelObjectBytes);
        plan.contents.push_back({found->second, {bytes.begin(), bytes.end()}});
      }
      plan.objects[i] = found->second;
    }
  }

  void tmds(std::uint32_t count) {
    const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(count, workload_.kernels()));
    const std::uint64_t base = device_.take(std::uint64_t{most} * arch::kRecordBytes, arch::kRecordBytes);
    for (std::uint32_t i = 0; i < most; ++i) plan.tmds.push_back(base + std::uint64_t{i} * arch::kRecordBytes);
  }

  TmdqPlan plan;

 private:
  // Its queues are empty, and the host counts as one that works.
  std::uint64_t add_context(std::uint8_t subcontext, std::uint32_t tmdqs) {
    std::array<std::uint8_t, arch::kRecordBytes> first{};
    arch::put_number(first, context::kWork, 8, 1);
    arch::put_number(first, context::kOwner, 8, arch::host_owner(subcontext));
    std::vector<std::uint8_t> bytes(first.begin(), first.end());
    bytes.resize(context::bytes(tmdqs), 0);
    const std::uint64_t at = device_.take(bytes.size(), arch::kRecordBytes);
    plan.contexts.push_back(at);
    plan.contents.push_back({at, std::move(bytes)});
    return at;
  }

  const Workload& workload_;
  Area& device_;
};

}  // namespace

TmdqPlan plan_tmdqs(const Workload& workload, const std::vector<std::uint32_t>& codes,
                    const std::vector<std::int64_t>& when, std::uint32_t tmds, Area& device) {
  Planner planner(workload, device);
  planner.plan.when = when;
  planner.streams();
  planner.contexts();
  planner.kernels(codes);
  planner.tmds(tmds);
  return std::move(planner.plan);
}

std::array<std::uint8_t, arch::kRecordBytes> tmd_of(const Workload& workload, const TmdqPlan& plan,
                                                    const HostTmdq& tmdq, std::size_t number) {
  const Op& op = workload.ops[number];
  const std::int32_t priority = op.priority.value_or(workload.streams[op.stream].priority);
  std::array<std::uint8_t, arch::kRecordBytes> line{};
  arch::put_number(line, tmd::kContext, 8, tmdq.context);
  arch::put_number(line, tmd::kKernel, 8, plan.objects[number]);
  arch::put_number(line, tmd::kGridX, 4, op.kernel.grid.x);
  arch::put_number(line, tmd::kGridY, 2, op.kernel.grid.y);
  arch::put_number(line, tmd::kGridZ, 2, op.kernel.grid.z);
  const std::uint32_t stream = arch::stream_number(tmdq.number, 0);
  arch::put_number(line, tmd::kFlags, 4, tmdq.number | (op.head ? 1U << 10 : 0U) | stream << 16);
  arch::put_number(line, tmd::kTicket, 4, number + 1);
  arch::put_number(line, tmd::kPriority, 4, static_cast<std::uint32_t>(priority));
  arch::put_number(line, tmd::kOpen, 8, 1);
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    arch::put_number(line, tmd::kArgs + static_cast<std::uint32_t>(8 * i), 8, op.args[i]);
  }
  return line;
}

}  // namespace heddle::replay
