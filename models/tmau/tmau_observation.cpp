// What others see of the unit: slices of the timeline, and what its requests wait for.
#include <algorithm>

#include <fmt/format.h>

#include "tmau/tmau.h"

namespace heddle::tmau {

// Requests overlap: each is drawn on the first track that is free.
void Tmau::draw(const BulkWork& work, Cycle end) {
  const Observation& observation = domain_.observation();
  std::size_t track = 0;
  while (track < track_ends_.size() && track_ends_[track] > work.arrival) ++track;
  if (track == track_ends_.size()) {
    track_ends_.push_back(0);
    tracks_.push_back(
        observation.timeline->track(observation.prefix + " " + path(), fmt::format("request {:2}", track)));
  }
  track_ends_[track] = end;
  const Timebase& clock = domain_;
  observation.timeline->slice(tracks_[track], clock.time_of(work.arrival), clock.time_of(end),
                              arch::bulk_name(work.kind()),
                              {{"sm", place_.ids[work.sm]},
                               {"cta", static_cast<std::int64_t>(work.packet.cta)},
                               {"warp", work.packet.warp},
                               {"bytes", static_cast<std::int64_t>(work.bytes)},
                               {"lines", static_cast<std::int64_t>(work.pieces)}});
}

std::string Tmau::name_of(const BulkWork& work) const {
  return fmt::format("{} of SM {}, CTA {}, warp {}", arch::bulk_name(work.kind()), place_.ids[work.sm], work.packet.cta,
                     work.packet.warp);
}

void Tmau::collect_waits(WaitGraph& graph) const {
  for (std::uint32_t number = 0; number < works_.size(); ++number) {
    if (work_used_[number] != 0) add_waits(number, graph);
  }
}

void Tmau::add_waits(std::uint32_t number, WaitGraph& graph) const {
  const BulkWork& work = works_[number];
  const Lane& lane = lanes_[work.sm];
  const std::string name = name_of(work);
  const std::string memory = "memory";
  const std::string unit = fmt::format("{}.{}", domain_.observation().prefix, path());
  // As the SM calls them.
  graph.add(fmt::format("bulk requests of SM {}, CTA {}", place_.ids[work.sm], work.packet.cta), "one of which is",
            name);
  switch (work.stage) {
    case BulkWork::Stage::input:
      return graph.add(name, "for the drain before it", fmt::format("drain of SM {}", place_.ids[work.sm]));
    case BulkWork::Stage::queue:
      if (lane.chosen.empty()) return graph.add(name, "for its turn in", unit);
      return graph.add(name, "for its turn behind", name_of(works_[lane.chosen.front()]));
    case BulkWork::Stage::descriptor:
      return graph.add(name, fmt::format("for the descriptor at {:#x} from", work.request().descriptor), memory);
    default:
      break;
  }
  if (work.kind() == arch::BulkKind::drain) {
    for (std::uint32_t other = 0; other < works_.size(); ++other) {
      const BulkWork& open = works_[other];
      if (work_used_[other] == 0 || other == number || open.sm != work.sm || open.stage == BulkWork::Stage::input ||
          open.phase == lane.tracker.phase()) {
        continue;
      }
      graph.add(fmt::format("drain of SM {}", place_.ids[work.sm]), "for", name_of(open));
    }
    return graph.add(name, "for all before it:", fmt::format("drain of SM {}", place_.ids[work.sm]));
  }
  if (!work.generated && lane.chosen.front() != number) {
    return graph.add(name, "for its turn behind", name_of(works_[lane.chosen.front()]));
  }
  if (work.answers > 0) graph.add(name, fmt::format("for {} answers of", work.answers), memory);
  if (work.reads > 0) {
    graph.add(name, fmt::format("for {} lines from shared memory of", work.reads),
              fmt::format("SM {}", place_.ids[work.sm]));
  }
  if (work.acknowledgements > 0) {
    graph.add(name, fmt::format("for {} acknowledgements from", work.acknowledgements),
              fmt::format("other units of GPC {}", place_.gpc));
  }
  if (work.generated || work.earliest == kNotYet) return;
  if (place_free(0) == PlaceLimit::kUnknown) {
    graph.add(name, "for an answer to an earlier line request, which waits for", memory);
  } else if (!blocking_ && !memory_out_[work.sm]->can_send()) {
    graph.add(name, "for room at", fmt::format("the crossbar's port of SM {}", place_.ids[work.sm]));
  }
}

}  // namespace heddle::tmau
