// Device-side launches: SM -> task management, and task management -> SM. What they name lies in device memory
// (arch/task_record.h).
#pragma once

#include <cstdint>
#include <optional>

namespace heddle::protocol {

struct ChildPacket {
  enum class Kind : std::uint8_t {
    start,       // `record`: TMD of a task that nothing holds back (TSK-08)
    leave,       // `record`: context whose CTA has exited: it gives back the CTA's share of the work counter
    wake,        // `record`: shared context whose tasks had completed before a CTA that waits for them was saved
    wake_cga,    // `record`: of a saved CGA, which is to be restored at once
    preempted,   // `record`: area of a CTA that has been saved to make room; or of a CGA's record, as a home names it
    ended,       // `record`: TMD; a CTA of it that was saved, and has a shared context, has exited
    appended,    // `record`: queue; `ticket`: entry that is ready (TSK-05)
    lost_entry,  // `record`: queue; `ticket`: of an entry that a fault has kept from being written
    enough,      // `record`: queue, whose task is not held open any more
    queued,      // `record`: TMD of a task that entered its TMDQ behind `ticket`, another TMD; 0: the first tail launch
                 // of its grid; for observation only
    lets_go,     // `record`: operation, of which one more CTA keeps the kernel behind it no longer
    depends,     // `record`: operation, of which CTAs on SM `ticket` wait for the kernel before it
  };
  Kind kind = Kind::start;
  std::uint64_t record = 0;
  std::uint64_t ticket = 0;
  std::uint64_t issued = 0;  // start, queued: cycle in which the launch operation issued, for observation only
};

// The tasks of a context have completed: the warps that wait for them go on. Context 0: no meaning. Or what the task
// depends on has ended.
struct WakePacket {
  std::uint64_t context = 0;
  std::optional<std::uint32_t> task = {};  // operation
};

}  // namespace heddle::protocol
