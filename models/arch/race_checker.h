// Finds what packets of a machine forget to say about memory (PKT-14): reads of bytes that another kernel has written,
// without an order between the two, without a release behind the one, or without an acquire before the other, of a
// scope that reaches both (arch/packet_order.h). It tells of them whatever the caches happened to hold, and of a
// missing order if the write came first.
//
// Kernels that streams or programs have launched acquire when they start and release when they end; copy engines read
// and write at the L2, so that copies need an order alone. Between kernels agent scope is enough, the host needs system
// scope. What a program acquires itself (a fence, an acquire load, the end of its children) is taken to be right.
// Strong writes race with weak reads only, and accesses of one kernel with none.
//
// Not looked at: writes without an order to a read or a write that came first, local and shared memory, bulk requests,
// what goes past the transports of the aperture (direct memory, debuggers), and one memory under two addresses, where
// they are translated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "arch/line_writers.h"
#include "arch/packet_order.h"
#include "common/param_fwd.h"
#include "common/stats.h"

namespace heddle::arch {

struct RaceParams {
  bool races = false;              // the checker works
  std::uint32_t lines = 1U << 20;  // of memory whose last writers it knows

  static void describe(ParamTable<RaceParams>& t);
};

// What would have to be there.
enum class MissingSync : std::uint8_t {
  order,          // a signal, a barrier bit, a barrier packet, the host
  release,        // a release fence behind the writer
  wider_release,  // there is one of agent scope, and system scope is needed
  acquire,        // an acquire fence before the reader
  wider_acquire,
};

struct Race {
  std::string writer;
  std::string reader;
  MissingSync missing = MissingSync::order;
  std::uint64_t address = 0;  // of the first byte that was found

  std::string text() const;
};

// Where an access goes. Where addresses are translated, those of different subcontexts are different memory.
struct RaceLine {
  static constexpr std::uint8_t kPhysical = 0xFF;

  std::uint64_t address = 0;  // of the line
  std::uint8_t subcontext = kPhysical;

  std::uint64_t key(bool translated) const;
};

class RaceChecker {
 public:
  static constexpr std::size_t kReported = 100;
  using Name = std::function<std::string()>;

  // `translated`: addresses of subcontexts are. `stats`, `prefix`: for its own, below "check". `found`: called with
  // each of the first kReported races, which are told apart by kernels and what they lack.
  RaceChecker(const RaceParams& params, bool translated, Stats& stats, const std::string& prefix,
              std::function<void(const Race&)> found);

  // What happens to packets.
  PacketOrder& order() { return order_; }
  // A kernel starts, under its operation id: it is that part of a packet.
  void kernel_starts(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name);
  // A copy, under a number of its own, and what it reads and writes.
  struct Range {
    RaceLine at;  // not necessarily the beginning of a line
    std::uint64_t bytes = 0;
  };
  void copy_starts(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name);
  void copy_reads(std::uint64_t operation, const Range& range);
  void copy_writes(std::uint64_t operation, const Range& range);
  // The last CTA of a kernel has ended, or the copy has; of any kernel.
  void ends(std::uint64_t operation);

  // A program of the kernel has acquired, or released, at GPU scope or wider. One that no packet has launched acquires
  // with its start. `name` is asked for if the kernel is not known.
  void program_acquires(std::uint64_t operation, const Name& name);
  void program_releases(std::uint64_t operation, const Name& name);
  void reads(std::uint64_t operation, const RaceLine& line, const LineBytes& bytes, const Name& name);
  void writes(std::uint64_t operation, const RaceLine& line, const LineBytes& bytes, bool strong, const Name& name);

  // Of the host, through the aperture.
  void host_reads(std::uint64_t address, std::uint64_t bytes);
  void host_writes(std::uint64_t address, std::uint64_t bytes);
  // Somebody has changed these bytes without time: they have no writer any more.
  void forget(std::uint64_t address, std::uint64_t bytes);

  const std::vector<Race>& races() const { return races_; }  // the first kReported
  std::uint64_t found() const { return seen_.size(); }       // all of them
  void reset();

 private:
  enum class Kind : std::uint8_t { host, packet, other };
  static constexpr Moment kNever = ~Moment{0};
  static constexpr std::uint32_t kHost = 0;  // number of a task
  struct Task {
    Kind kind = Kind::other;
    std::string name;
    std::uint32_t queue = 0;  // by its number in the order
    std::uint64_t index = 0;
    std::uint32_t kernels = 0;  // as bits
    std::shared_ptr<const PacketPast> past;
    Moment ended = kNever;
    Moment acquired = 0;  // by its program
    Moment wrote = 0;
    bool heard_of = false;         // by the host, from its program
    std::vector<Moment> releases;  // by its program, each after another write
    std::uint64_t writes = 0;      // in lines

    // What it did at that time is in the set.
    bool is_in(const PacketSet& set, Moment when) const;
    // When its program has released a write of that time; kNever if it has not.
    Moment released(Moment when) const;
  };
  using Write = LineWriters::Write;
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& races = counter("races", "races", "pairs of kernels that lack something between them");
    Counter& reads = counter("reads", "reads", "reads of lines by which they were found");
    Counter& forgotten = counter("forgotten", "lines", "lines whose writers had to be forgotten for others");
  };

  template <class Visit>
  static void each_line(const Range& range, Visit&& visit);
  void start(std::uint64_t operation, const PacketOrder::Part& part, const std::string& name, FenceScope acquires);
  std::uint32_t task_of(std::uint64_t operation, const Name& name);
  void check(std::uint32_t reader, const RaceLine& line, const LineBytes& bytes);
  bool lacks(const Write& write, const Task& reader, MissingSync& missing);
  void enter(std::uint32_t writer, const RaceLine& line, const LineBytes& bytes, bool strong);
  void report(std::uint32_t writer, std::uint32_t reader, MissingSync missing, std::uint64_t address);
  void lose(const Write& write);

  PacketOrder order_;
  Statistics stats_;
  const bool translated_;
  const std::function<void(const Race&)> tell_;
  std::unordered_map<std::uint64_t, std::uint32_t> operations_;  // those that have not ended, to tasks
  std::unordered_map<std::uint32_t, Task> tasks_;
  std::uint32_t next_task_ = kHost + 1;
  LineWriters lines_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, MissingSync>, std::uint64_t> seen_;  // reads
  std::vector<Race> races_;
};

}  // namespace heddle::arch
