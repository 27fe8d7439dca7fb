// The code that a machine can run: what lies in instruction memory. Packets carry a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "arch/kernel_object.h"
#include "arch/kernel_record.h"
#include "arch/task_record.h"
#include "arch/warp_program.h"

namespace heddle::arch {

constexpr std::uint32_t kNoCode = 0;  // a kernel without a program: its CTAs run for their duration

// Where the entries of a queue task lie (TSK-05).
struct QueueGeometry {
  std::uint64_t entries = 0;   // address
  std::uint64_t capacity = 0;  // entries at a time; 0: no queue

  bool any() const { return capacity != 0; }
  // Of the entry of a ticket: its turn, and its data, which are the arguments of its CTA.
  std::uint64_t turn(std::uint64_t ticket) const { return entries + ticket % capacity * kQueueEntryBytes; }
  std::uint64_t data(std::uint64_t ticket) const { return turn(ticket) + kQueueEntryData; }
};

// A program as one launch runs it.
struct Code {
  std::shared_ptr<const WarpProgram> program;
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;  // per CTA, as the kernel asked
  ClusterShape cluster;            // how CTAs are grouped
  WorkItems items;                 // CTAs at the edges of the grid can be partial: smaller blocks
  std::uint64_t kernarg = 0;       // address of the launch's arguments; 0: none
  QueueGeometry queue;             // of a queue task: every CTA has an entry; `kernarg` is not used

  // The arguments of the CTA with that linear id.
  std::uint64_t kernarg_of(std::uint64_t cta) const { return queue.any() ? queue.data(cta) : kernarg; }
  // The threads of one CTA: `block`, but for what hangs over the edges of the grid (PKT-03).
  Dim3 block_of(const Dim3& cta) const;
};

// What at() gives stays where it is, whatever comes and goes beside it: SMs keep it while CTAs run.
class CodeStore {
 public:
  // The number for KernelShape::code; never kNoCode, and never given to anything else.
  std::uint32_t add(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel);
  // True for the numbers that add() has given, and nothing else.
  bool has(std::uint32_t code) const;
  // Of add(), or lent and not given back.
  const Code& at(std::uint32_t code) const;

  // The same program for a launch of its own: a number of its own until give_back(), then of another launch. `program`:
  // of add(). `items`: none, or what the kernel's grid covers, rounded up to whole workgroups.
  std::uint32_t lend(std::uint32_t program, const KernelShape& kernel, const WorkItems& items, std::uint64_t kernarg);
  // The same for a queue task: its CTAs stand in a row, without an end.
  std::uint32_t lend(std::uint32_t program, const KernelShape& kernel, const QueueGeometry& queue);
  void give_back(std::uint32_t code);
  std::size_t lent() const { return lent_; }
  // A reset takes back all that is lent; programs stay.
  void reset();

 private:
  enum class Use : std::uint8_t { program, lent, free };
  struct Entry {
    Code code;
    Use use = Use::program;
  };

  bool is(std::uint32_t code, Use use) const;
  void free(std::uint32_t code);
  std::uint32_t enter(Code code);

  std::deque<Entry> entries_;        // by code - 1; their addresses stay
  std::vector<std::uint32_t> free_;  // numbers of launches that have been given back
  std::size_t lent_ = 0;
};

}  // namespace heddle::arch
