// The pools in front of each GPC (TSK-04): which tasks of the task table it may receive CTAs of.
//
// The active pool holds the tasks that the GPC runs now. A member that has no CTA there yields its place to any task
// that needs one, and one whose CTAs run yields it to a more urgent task: its CTAs run on, and it launches there again
// once it has found a place again. The pending pool holds the most urgent ones of the tasks that wait to get there.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::cwd {

class GpcPools {
 public:
  // Sizes in tasks; 0: without limit. Tasks are named by the operation that their CTAs run as.
  GpcPools(std::uint32_t gpcs, std::uint32_t pending, std::uint32_t active);

  // False: every task may go anywhere at any time.
  bool limited() const { return pending_size_ > 0 || active_size_ > 0; }
  // The task holds a place there, whether it has CTAs there or not.
  bool active(std::uint32_t task, std::uint32_t gpc) const;
  // A session of the task may place CTAs there: it holds a place, or it is pending there and finds one.
  bool admits(std::uint32_t task, std::int32_t priority, std::uint32_t gpc) const;

  // The tasks with CTAs left are looked at in their order, most urgent first: after begin_walk() none has been, and
  // wait_at() says of the last one that it could run there. It takes a place of the pending pool unless it is active.
  void begin_walk();
  void wait_at(std::uint32_t task, std::uint32_t gpc);
  bool pending(std::uint32_t gpc) const { return pending_size_ == 0 || waiting_[gpc] < pending_size_; }

  // CTAs of the task have been placed there. True if another has yielded its place for that.
  bool launch(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t ctas);
  void complete(std::uint32_t task, std::uint32_t gpc, std::uint32_t ctas);

  // The tasks that hold a place there and have CTAs there.
  std::vector<std::uint32_t> running(std::uint32_t gpc) const;
  // No CTA anywhere.
  bool empty() const;
  void reset();

 private:
  // A task with a place in the active pool, or with CTAs there from the time when it had one.
  struct Member {
    std::uint32_t task = 0;
    std::int32_t priority = 0;
    std::uint32_t ctas = 0;
    bool active = false;
  };
  using Members = std::vector<Member>;  // in the order in which they came to be active
  static constexpr std::size_t kNone = ~std::size_t{0};

  static std::size_t find(const Members& members, std::uint32_t task);
  // The member that would yield to a task of that priority, or kNone.
  static std::size_t who_yields(const Members& members, std::int32_t priority);
  bool has_place(const Members& members) const;

  std::uint32_t pending_size_;
  std::uint32_t active_size_;
  std::vector<Members> members_;        // by GPC
  std::vector<std::uint32_t> waiting_;  // by GPC: tasks of this walk that wait to get there
};

}  // namespace heddle::cwd
