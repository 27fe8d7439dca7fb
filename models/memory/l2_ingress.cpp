#include "memory/l2_ingress.h"

#include <array>

namespace heddle::memory {

void L2Arrivals::enter(const Arrival& arrived) {
  if (lanes() != nullptr) return enter_lane(arrived);
  queue_.insert(arrived, [](const Arrival& before, const Arrival& item) { return before.ready > item.ready; });
}

void L2Arrivals::enter_lane(const Arrival& arrived) {
  const std::uint8_t owner = owner_of(protocol::extension_of(arrived.request.payload()));
  shares_.table->use(owner);
  lanes_->enter(arrived.request.port(), owner, {arrived.request.handle(), arrived.ready});
}

void L2Arrivals::open_lanes() {
  lanes_ = std::make_unique<L2Lanes>(shares_, counters_.owners);
  counters_.lanes = lanes_.get();
  while (!queue_.empty()) enter_lane(queue_.pop());
}

void L2Arrivals::put_first(std::uint32_t port) {
  std::size_t place = place_of(port);
  const Arrival chosen = queue_.at(place);
  for (; place > 0; --place) queue_.at(place) = queue_.at(place - 1);
  queue_.front() = chosen;
}

bool L2Arrivals::touches(std::uint64_t first_line, std::uint64_t last_line) const {
  bool found = false;
  const auto look = [&](const PendingRequest& request) {
    const std::uint64_t line = request.payload().get_address() / arch::kLineBytes;
    found = found || (line >= first_line && line <= last_line);
  };
  for (std::size_t i = 0; i < queue_.size(); ++i) look(queue_.at(i).request);
  if (lanes_ != nullptr) lanes_->for_each([&](void* handle) { look(PendingRequest(handle)); });
  return found;
}

void L2Arrivals::reset() {
  queue_.clear();
  lanes_.reset();
  counters_.lanes = nullptr;
}

int L2BlockingPath::serve(const L2Access& access, L2Memory& memory) {
  if (access.kind == L2Access::Kind::write_back) return flush(memory);
  if (access.kind == L2Access::Kind::invalidate) {
    invalidation_.begin();
    return kL2Ok;
  }
  if (!access.bytes.any()) return kL2Ok;
  const std::uint64_t invalidations = invalidation_.number();
  std::uint32_t index = array_.find(access.line);
  if (index == kNone) index = allocate(access.line, memory);
  if (index == kNone) return bypass(access, memory);
  const std::uint32_t missing = access.missing(array_.state(index).valid);
  if (missing != 0) {
    const int status = fetch(index, access, memory);
    if (access.kind == L2Access::Kind::prefetch) return kL2Ok;  // a hint: nobody waits
    if (status != kL2Ok) return status;
  } else {
    counters_.count_hit(access);
  }
  if (poison_.any()) poison_.apply(access);
  array_.apply(access, index);
  // What it has read of memory is older than a request to forget that came meanwhile.
  if (invalidation_.number() != invalidations) array_.drop_clean(index);
  return kL2Ok;
}

// A place for the line; what was there goes to memory first.
std::uint32_t L2BlockingPath::allocate(std::uint64_t line, L2Memory& memory) {
  const std::uint32_t index = array_.victim(line);
  if (index == kNone) return kNone;
  const bool dirty = array_.state(index).dirty != 0;
  const std::uint32_t entry = dirty ? buffer_.take(array_, index) : kNone;
  if (array_.occupied(index)) array_.drop(index);
  array_.place(index, line);
  if (!dirty) return index;
  ++array_.state(index).pinned;
  buffer_.write_blocking(entry, memory);
  --array_.state(index).pinned;
  return index;
}

// Sectors as they are in memory or on their way there.
int L2BlockingPath::read(const L2Access& access, std::uint32_t sectors, std::uint8_t* image, L2Memory& memory) {
  SectorOwners owners;
  owners.set(sectors, access.owner());
  SectorKernels kernels;
  kernels.set(sectors, access.kernel());
  while (sectors != 0) {
    const SectorRun run = take_run(sectors);
    const int status = memory.read(access.line, run.first, run.count, image);
    if (status != kL2Ok) return status;
    if (memory.is_copy(access.line)) {
      counters_.copied.add(run.count);
    } else {
      counters_.fills.add(run.count);
      counters_.count_read(owners, kernels, run.mask());
    }
  }
  buffer_.overlay(access.line, image);
  return kL2Ok;
}

int L2BlockingPath::fetch(std::uint32_t index, const L2Access& access, L2Memory& memory) {
  const std::uint32_t sectors = array_.fetched(access, array_.state(index).valid);
  std::array<std::uint8_t, arch::kLineBytes> image{};
  ++array_.state(index).pinned;
  const int status = read(access, sectors, image.data(), memory);
  L2Line& state = array_.state(index);
  --state.pinned;
  if (status == kL2Ok) {
    array_.fill(index, sectors, image.data());
  } else if (!state.valid.any() && state.mshr == 0 && state.pinned == 0) {
    array_.drop(index);
  }
  return status;
}

// Every line of the set is being fetched: the access goes past the cache.
int L2BlockingPath::bypass(const L2Access& access, L2Memory& memory) {
  if (access.kind == L2Access::Kind::prefetch) return kL2Ok;
  std::array<std::uint8_t, arch::kLineBytes> image{};
  const std::uint32_t touched = access.bytes.touched();
  const bool writes = access.kind == L2Access::Kind::write;
  const std::uint32_t wanted = writes ? (LineMask::sectors(touched) & ~access.bytes).touched() : touched;
  const int status = read(access, wanted, image.data(), memory);
  if (status != kL2Ok) return status;
  if (poison_.any()) poison_.apply(access);
  if (!perform(access, image.data())) return status;
  SectorOwners writers;
  writers.set(touched, access.owner());
  const std::uint32_t entry = buffer_.take(access.line, LineMask::sectors(touched), touched, writers, image.data());
  return buffer_.write_blocking(entry, memory);
}

int L2BlockingPath::flush(L2Memory& memory) {
  int result = kL2Ok;
  for (std::uint32_t index = array_.next_dirty(0); index != kNone; index = array_.next_dirty(index + 1)) {
    const int status = buffer_.write_blocking(buffer_.take(array_, index), memory);
    if (status != kL2Ok) result = status;
  }
  return result;
}

}  // namespace heddle::memory
