#include "task/task_stats.h"

namespace heddle::task {

TaskStats::TaskStats(Stats& stats, const std::string& prefix)
    : evictions(stats.counter(prefix + ".evictions", "tasks", "tasks that gave up their slot to a more urgent one")),
      resumptions(stats.counter(prefix + ".resumptions", "tasks", "evicted tasks that were sent again")),
      children(stats.counter(prefix + ".children", "tasks", "tasks of device code that have been taken in")),
      child_faults(stats.counter(prefix + ".child_faults", "tasks", "of those, the ones that a fault ended")),
      false_dependencies(stats.counter(prefix + ".false_dependencies", "tasks",
                                       "tasks that waited behind one of another stream of the same TMDQ (TSK-11)")),
      wakes(stats.counter(prefix + ".wakes", "contexts", "contexts whose waiting warps were told to go on")),
      restores(stats.counter(prefix + ".restores", "CTAs", "saved CTAs that were sent to be restored")),
      queue_entries(stats.counter(prefix + ".queue_entries", "entries", "entries of queue tasks that have arrived")),
      chains(stats.counter(prefix + ".nested_chains", "chains",
                           "starts, ends and closes that the nested scheduler has worked on")),
      depth(stats.gauge(prefix + ".depth", "levels", "nesting depth of the last task of device code")),
      open_children(stats.gauge(prefix + ".open_children", "tasks",
                                "tasks of device code taken in whose descendants have not all completed")),
      child_latency(stats.histogram(prefix + ".child_latency", "ns",
                                    "from the issue of a launch that nothing held back to its first launch packet")),
      child_launch(stats.histogram(prefix + ".child_launch", "ns",
                                   "of that: from the issue to the start packet at task management")),
      child_read(stats.histogram(prefix + ".child_read", "ns",
                                 "then: to the end of the reads of its TMD, kernel object and parent")),
      child_list(stats.histogram(prefix + ".child_list", "ns", "then: to its place in a list")),
      child_dispatch(stats.histogram(prefix + ".child_dispatch", "ns", "then: to its first launch packet")) {}

}  // namespace heddle::task
